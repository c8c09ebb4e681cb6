"""The agent evaluators that Azure AI publishes, in their published meaning, rated by a judge."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from tui_evals.text.measures import Measure

from .agents import tool_lines
from .base import Evaluator, Evidence, Score, ToolCall, measured_score, skipped_score
from .rubrics import RatedEvaluator
from .shown import reference_text, request_texts, shown_parts
from .verdicts import Checklist, ShareOptions, ask_lists

_CALLS = (ToolCall("find_order", {"number": 7}, '{"status": "paid"}'), ToolCall("refund", {"order": 7}, "refunded"))
_EXAMPLE: dict[str, Any] = {
    "prompt": "Refund order 7.",
    "response": "Order 7 is refunded.",
    "tool_calls": _CALLS,
}


class TaskAdherence(RatedEvaluator):
    """Passes when an agent keeps to its task: its goal, the rules of its instructions and the procedure they set.

    A judge rates from 1 (not kept) over 3 (partly) to 5 (kept). It sees the conversation with its system messages, each
    call with what the tool gave, and the answer.
    """

    name = "TaskAdherence"
    aliases = ("task_adherence",)
    family = "agents"
    needs = ("response", "prompt")
    example: ClassVar = {**_EXAMPLE, "judge_reply": '{"reason": "It kept to its instructions.", "score": 5}'}


class IntentResolution(RatedEvaluator):
    """Passes when the agent understood what its user wants and resolved it, or asked back where that was not clear.

    A judge rates from 1 (missed) over 3 (partly) to 5 (resolved).
    """

    name = "IntentResolution"
    aliases = ("intent_resolution",)
    family = "agents"
    needs = ("response", "prompt")
    example: ClassVar = {**_EXAMPLE, "judge_reply": '{"reason": "The refund was wanted and made.", "score": 5}'}


class ResponseCompleteness(RatedEvaluator):
    """Passes when the answer leaves out nothing of what the expected response says.

    A judge rates from 1 (nothing of it) over 3 (half of it) to 5 (all of it). What the answer says besides does not
    matter.
    """

    name = "ResponseCompleteness"
    aliases = ("response_completeness",)
    family = "agents"
    needs = ("response", "expected")
    texts: ClassVar = {"reference": reference_text}
    example: ClassVar = {
        **_EXAMPLE,
        "expected": "The order is refunded.",
        "judge_reply": '{"reason": "The refund is told.", "score": 5}',
    }


class AllCallsOptions(ShareOptions):
    """What ToolSelection, ToolInputAccuracy and ToolOutputUse take."""

    threshold: float = Field(1.0, ge=0, le=1, description="The share of calls from which it passes.")


class _CallsJudged(Evaluator):
    """A yes or no of a judge for each call, by the prompt of the evaluator's name; the score is the share of yeses."""

    family = "agents"
    measure = Measure("at least")
    needs = ("prompt", "tool_calls")
    judged = True
    compares = True
    Options = AllCallsOptions
    verdict: ClassVar[str]
    """The name of the yes or no in the reply."""
    nothing: ClassVar[str] = "no tool was called"

    async def score(self, evidence: Evidence) -> Score:
        """Ask of each call."""
        count = len(evidence.tool_calls or ())
        if not count:
            return skipped_score(self.nothing)
        form = Checklist("calls", "call", self.verdict, count)
        texts = request_texts(evidence) | {"tools": tool_lines(evidence)}
        lists, reply = await ask_lists(
            self, [form], texts, {"steps": shown_parts(evidence, ("steps",)).get("steps", ())}
        )
        made = lists["calls"]
        wrong = [entry for entry in made if not entry[self.verdict]]
        right = len(made) - len(wrong)
        reason = f"{right} of {len(made)} calls are {self.verdict}"
        reason += "".join(f"; call {entry['call']}: {entry.get('reason', '')}" for entry in wrong)
        return measured_score(right / len(made), self.options.threshold, reason, calls=made, reply=reply)


class ToolSelection(_CallsJudged):
    """Passes when an agent chose fitting tools, and none that was not needed.

    A judge says of each call whether the tool was the fitting one; the score is the share of those. ToolCorrectness
    also asks which calls are missing. Skipped where no tool was called.
    """

    name = "ToolSelection"
    aliases = ("tool_selection",)
    verdict = "fitting"
    example: ClassVar = {
        **_EXAMPLE,
        "judge_reply": '{"calls": [{"call": 1, "reason": "It looks the order up.", "fitting": true},'
        ' {"call": 2, "reason": "It was asked for.", "fitting": true}]}',
    }


class ToolInputAccuracy(_CallsJudged):
    """Passes when the arguments of every call are right: grounded in what was known, complete, of the form of the tool.

    A judge says so of each call; the score is the share of those. Skipped where no tool was called.
    """

    name = "ToolInputAccuracy"
    aliases = ("tool_input_accuracy",)
    verdict = "accurate"
    example: ClassVar = {
        **_EXAMPLE,
        "judge_reply": '{"calls": [{"call": 1, "reason": "7 is the order.", "accurate": true},'
        ' {"call": 2, "reason": "7 is the order.", "accurate": true}]}',
    }


class ToolOutputUse(_CallsJudged):
    """Passes when an agent understood and used what its tools gave, in later calls and in the answer.

    A judge says so of each call; the score is the share of those. ResultsUsed looks for the values without a judge.
    Skipped where no tool was called.
    """

    name = "ToolOutputUse"
    aliases = ("tool_output_utilization",)
    verdict = "used"
    example: ClassVar = {
        **_EXAMPLE,
        "judge_reply": '{"calls": [{"call": 1, "reason": "It was paid, so it was refunded.", "used": true},'
        ' {"call": 2, "reason": "The answer tells it.", "used": true}]}',
    }
