"""Agents and whole conversations, rated by a judge. `trajectory.py` and `tools.py` check calls without a judge."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from tui_evals.evaluators.base import (
    Evaluator,
    Evidence,
    JudgedOptions,
    Misconfigured,
    Score,
    Text,
    ToolCall,
    as_text,
    measured_score,
    skipped_score,
    verdict_score,
)
from tui_evals.evaluators.judging import message_pieces, reference_text, request_texts, shown_parts
from tui_evals.evaluators.rubrics import RatedEvaluator, RatingOptions, rate_answer
from tui_evals.evaluators.values import quoted_list
from tui_evals.evaluators.verdicts import Checklist, ChecklistEvaluator, ShareOptions, ask_lists, share_score
from tui_evals.text import strictjson
from tui_evals.text.measures import Measure

_CALLS = (ToolCall("find_order", {"number": 7}, '{"status": "paid"}'), ToolCall("refund", {"order": 7}, "refunded"))
_EXAMPLE: dict[str, Any] = {
    "prompt": "Refund order 7.",
    "response": "Order 7 is refunded.",
    "tool_calls": _CALLS,
}


class TrajectoryOptions(RatingOptions):
    """Options of TrajectoryMatch."""

    reference: Text | list[Text] | None = Field(
        None, description="The way it should take, as text or as a list of steps; else the item's variable trajectory."
    )


class PlanOptions(RatingOptions):
    """Options of PlanKept."""

    plan: Text | list[Text] | None = Field(
        None, description="The plan, as text or as a list of steps; else what the agent or its instructions stated."
    )


class WasteOptions(JudgedOptions):
    """Options of StepsWasted."""

    threshold: float = Field(0, ge=0, description="Passes with at most this many wasted calls.")


def _listed(steps: str | list[str] | None) -> str:
    return "\n".join(f"{n}. {step}" for n, step in enumerate(steps, 1)) if isinstance(steps, list) else steps or ""


class TaskCompletion(RatedEvaluator):
    """Passes when the requested task is completed.

    A judge rates from 1 (not done) over 3 (half done) to 5 (done). It sees the conversation, each tool call with its
    result, the answer and, as the wanted outcome, the expected response if there is one. A success that is only claimed
    does not count.
    """

    name = "TaskCompletion"
    family = "agents"
    needs = ("response", "prompt")
    texts: ClassVar = {"reference": reference_text}
    example: ClassVar = {**_EXAMPLE, "judge_reply": '{"reason": "refund gave: refunded.", "score": 5}'}


class TrajectoryMatch(RatedEvaluator):
    """Passes when an agent took essentially the same steps as a reference.

    A judge rates from 1 (another way) over 3 (partly) to 5 (the same). ToolTrajectory compares the calls exactly,
    without a judge.
    """

    name = "TrajectoryMatch"
    family = "agents"
    needs = ("response", "tool_calls")
    Options = TrajectoryOptions
    example: ClassVar = {
        **_EXAMPLE,
        "options": {"reference": ["look the order up", "refund it"]},
        "judge_reply": '{"reason": "Both steps, in this order.", "score": 5}',
    }

    async def score(self, evidence: Evidence) -> Score:
        """Rate the way."""
        if self.options.reference is not None:
            return await rate_answer(self, evidence, trusted={"trajectory": _listed(self.options.reference)})
        written = evidence.variables.get("trajectory")
        if not written:
            reason = "TrajectoryMatch needs a reference way: its option reference, or the item's variable trajectory"
            raise Misconfigured(reason)
        way = _listed([*map(as_text, written)]) if isinstance(written, list) else as_text(written)
        return await rate_answer(self, evidence, {"trajectory": way})


class PlanKept(RatedEvaluator):
    """Passes when an agent kept to its plan.

    A judge rates from 1 (not kept) over 3 (partly) to 5 (kept). The plan is taken from the options, otherwise from what
    the agent or its instructions stated before it acted.
    """

    name = "PlanKept"
    family = "agents"
    needs = ("response", "tool_calls")
    Options = PlanOptions
    trusted: ClassVar = {"plan": lambda options: _listed(options.plan) or "(none given)"}
    example: ClassVar = {
        **_EXAMPLE,
        "options": {"plan": ["look the order up", "refund it", "tell the customer"]},
        "judge_reply": '{"reason": "All three, in this order.", "score": 5}',
    }


class ToolCorrectness(Evaluator):
    """Passes when an agent called the right tools with the right arguments, and no needed call is missing.

    A judge says of each call whether it was right, and of each thing the request needs a tool for whether a call met
    it; the score is the share of both. A request that needs no tool, and got none, passes. Where the right calls are
    known beforehand, ToolTrajectory and ToolCalledWith need no judge.
    """

    name = "ToolCorrectness"
    family = "agents"
    measure = Measure("at least")
    needs = ("prompt", "tool_calls")
    judged = True
    compares = True
    Options = ShareOptions
    example: ClassVar = {
        **_EXAMPLE,
        "judge_reply": '{"calls": [{"call": 1, "reason": "It looks the order up.", "right": true},'
        ' {"call": 2, "reason": "It was asked for.", "right": true}],'
        ' "needs": [{"need": "a refund of order 7", "reason": "call 2", "met": true}]}',
    }

    async def score(self, evidence: Evidence) -> Score:
        """Ask of each call and each need."""
        calls = Checklist("calls", "call", "right", len(evidence.tool_calls or ()))
        needs = Checklist("needs", "need", "met")
        texts = request_texts(evidence) | {"tools": tool_lines(evidence)}
        parts = {"steps": shown_parts(evidence, ("steps",)).get("steps", ())}
        lists, reply = await ask_lists(self, [calls, needs], texts, parts)
        made, needed = lists["calls"], lists["needs"]
        wrong = [f"call {entry['call']}" for entry in made if not entry["right"]]
        missing = [entry["need"] for entry in needed if not entry["met"]]
        right, met, total = len(made) - len(wrong), len(needed) - len(missing), len(made) + len(needed)
        reason = f"{right} of {len(made)} calls are right, and {met} of {len(needed)} needs are met"
        reason += f"; wrong: {', '.join(wrong)}" if wrong else ""
        reason += f"; not met: {quoted_list(missing)}" if missing else ""
        score = (right + met) / total if total else 1.0
        return measured_score(score, self.options.threshold, reason, calls=made, needs=needed, reply=reply)


def tool_lines(evidence: Evidence) -> str:
    """The available tools, as shown to a judge."""
    return "\n".join(map(_tool_line, evidence.tools))


def _tool_line(tool: Any) -> str:
    """A tool as shown to a judge: its name, description and parameters."""
    function = tool.get("function", tool) if isinstance(tool, dict) else {}
    parameters = function.get("parameters") or function.get("input_schema")
    about = f" {strictjson.dumps(parameters)}" if parameters else ""
    return f"{function.get('name')}: {function.get('description') or ''}{about}"


class StepsWasted(Evaluator):
    """Passes when at most `threshold` calls of an agent were wasted; none by default.

    A judge says of each call whether it brought the agent closer to its task; the score is how many did not. Steps
    counts how often the model was asked, without a judge. Skipped if no tool was called.
    """

    name = "StepsWasted"
    family = "agents"
    measure = Measure("at most", "calls")
    needs = ("prompt", "tool_calls")
    judged = True
    compares = True
    Options = WasteOptions
    example: ClassVar = {
        **_EXAMPLE,
        "judge_reply": '{"calls": [{"call": 1, "reason": "A check before the refund.", "needed": true},'
        ' {"call": 2, "reason": "It was asked for.", "needed": true}]}',
    }

    async def score(self, evidence: Evidence) -> Score:
        """Ask of each call."""
        if not evidence.tool_calls:
            return skipped_score("no tool was called, so no call was wasted")
        form = Checklist("calls", "call", "needed", len(evidence.tool_calls))
        parts = {"steps": shown_parts(evidence, ("steps",)).get("steps", ())}
        lists, reply = await ask_lists(self, [form], request_texts(evidence), parts)
        wasted = [entry for entry in lists["calls"] if not entry["needed"]]
        limit, count = self.options.threshold, len(wasted)
        names = [f"{entry['call']} ({evidence.tool_calls[entry['call'] - 1].name})" for entry in wasted]
        reason = f"{count} of {len(lists['calls'])} calls were wasted" + (f": {', '.join(names)}" if names else "")
        details = {"calls": lists["calls"], "wasted": count, "reply": reply}
        return Score(float(count), "pass" if count <= limit else "fail", limit, None, reason, details)


_HISTORY: tuple[dict[str, Any], ...] = (
    {"role": "system", "content": "You are the polite clerk of a library, and give no legal advice."},
    {"role": "user", "content": "My card is L-17. Is Emma in?"},
    {"role": "assistant", "content": "It is, on shelf 4."},
)
_CONVERSATION: dict[str, Any] = {
    "history": _HISTORY,
    "prompt": "Please set it aside for me.",
    "response": "Gladly: Emma is set aside under L-17 until Friday.",
}


class RoleOptions(ShareOptions):
    """Options of RoleAdherence."""

    threshold: float = Field(1.0, ge=0, le=1, description="The share of messages from which it passes.")
    role: Text | None = Field(None, description="Who the assistant is; else what the system messages say.")


class GoalOptions(JudgedOptions):
    """Options of GoalReached."""

    goal: Text | None = Field(
        None, description="What has to be reached; else the expected response, else what the user plainly wanted."
    )


class ConversationCompleteness(ChecklistEvaluator):
    """Passes when a conversation met its user's requests; the score is the share that were met.

    It judges the whole conversation once, at its last turn.
    """

    name = "ConversationCompleteness"
    family = "conversations"
    needs = ("response", "prompt")
    scope = "thread"
    form = Checklist("requests", "request", "met")
    parts: ClassVar = {"messages": message_pieces}
    nothing = "the user asked for nothing"
    example: ClassVar = {
        **_CONVERSATION,
        "judge_reply": '{"requests": [{"request": "whether Emma is in", "reason": "message 3", "met": true},'
        ' {"request": "set it aside", "reason": "message 5", "met": true}]}',
    }


class RoleAdherence(Evaluator):
    """Passes when the assistant keeps to its role; the score is the share of its messages that do.

    The role is taken from the options, otherwise from the system messages. It judges the whole conversation once, at
    its last turn.
    """

    name = "RoleAdherence"
    family = "conversations"
    measure = Measure("at least")
    judged = True
    compares = True
    scope = "thread"
    Options = RoleOptions
    example: ClassVar = {
        **_CONVERSATION,
        "judge_reply": '{"messages": [{"message": 3, "reason": "A clerk.", "kept": true},'
        ' {"message": 5, "reason": "Polite.", "kept": true}]}',
    }

    async def score(self, evidence: Evidence) -> Score:
        """Ask of each message of the assistant."""
        pieces = message_pieces(evidence)
        numbers = tuple(
            number for number, piece in enumerate(pieces, 1) if piece.name.endswith("_assistant") and piece.text.strip()
        )
        form = Checklist("messages", "message", "kept", len(numbers), numbers)
        trusted = {"role": self.options.role or "(none given)", "numbers": ", ".join(map(str, numbers))}
        lists, reply = await ask_lists(self, [form], {}, {"messages": pieces}, trusted)
        nothing = "the assistant said nothing"
        return share_score(lists["messages"], form, self.options.threshold, reply, nothing=nothing)


class KnowledgeRetention(ChecklistEvaluator):
    """Passes when the assistant remembered what its user told it; the score is the share of remembered facts.

    Skipped if no later message depends on anything the user told. It judges the whole conversation once, at its last
    turn.
    """

    name = "KnowledgeRetention"
    family = "conversations"
    scope = "thread"
    form = Checklist("facts", "fact", "kept")
    parts: ClassVar = {"messages": message_pieces}
    skips = "the user said nothing that a later message depends on"
    example: ClassVar = {
        **_CONVERSATION,
        "judge_reply": '{"facts": [{"fact": "the card is L-17", "reason": "message 5 uses it", "kept": true}]}',
    }


class GoalReached(Evaluator):
    """Passes when a conversation reached its goal.

    The goal is taken from the options, otherwise from the expected response of the last turn, otherwise from what the
    user plainly wanted. It judges the whole conversation once, at its last turn.
    """

    name = "GoalReached"
    family = "conversations"
    judged = True
    scope = "thread"
    Options = GoalOptions
    example: ClassVar = {
        **_CONVERSATION,
        "options": {"goal": "The book is set aside for the user."},
        "judge_reply": '{"goals": [{"goal": "the book is set aside", "reason": "message 5", "reached": true}]}',
    }

    async def score(self, evidence: Evidence) -> Score:
        """Ask of the goal."""
        form = Checklist("goals", "goal", "reached", least=1)
        own, expected = self.options.goal, evidence.expected or ""
        texts = {} if own else {"goal": expected}
        trusted = {"goal": own} if own else {}
        lists, reply = await ask_lists(self, [form], texts, {"messages": message_pieces(evidence)}, trusted)
        open_goals = [entry for entry in lists["goals"] if not entry["reached"]]
        reason = "; ".join(entry.get("reason", "") for entry in open_goals or lists["goals"])
        return verdict_score(not open_goals, reason, goals=lists["goals"], reply=reply)


_QUALITY_CALLS = (
    ToolCall("find_order", {"number": 7}, '{"status": "paid"}'),
    ToolCall("refund", {"order": 7}, "refunded"),
)
_QUALITY_EXAMPLE: dict[str, Any] = {
    "prompt": "Refund order 7.",
    "response": "Order 7 is refunded.",
    "tool_calls": _QUALITY_CALLS,
}


class TaskAdherence(RatedEvaluator):
    """Passes when an agent keeps to its task: its goal, the rules of its instructions and the procedure they set.

    A judge rates from 1 (not kept) over 3 (partly) to 5 (kept). It sees the conversation with its system messages, each
    tool call with its result, and the answer.
    """

    name = "TaskAdherence"
    aliases = ("task_adherence",)
    family = "agents"
    needs = ("response", "prompt")
    example: ClassVar = {**_QUALITY_EXAMPLE, "judge_reply": '{"reason": "It kept to its instructions.", "score": 5}'}


class IntentResolution(RatedEvaluator):
    """Passes when the agent understood what its user wants and resolved it, or asked back where that was not clear.

    A judge rates from 1 (missed) over 3 (partly) to 5 (resolved).
    """

    name = "IntentResolution"
    aliases = ("intent_resolution",)
    family = "agents"
    needs = ("response", "prompt")
    example: ClassVar = {**_QUALITY_EXAMPLE, "judge_reply": '{"reason": "The refund was wanted and made.", "score": 5}'}


class ResponseCompleteness(RatedEvaluator):
    """Passes when the answer contains everything that the expected response says.

    A judge rates from 1 (nothing of it) over 3 (half of it) to 5 (all of it). Additional content does not matter.
    """

    name = "ResponseCompleteness"
    aliases = ("response_completeness",)
    family = "agents"
    needs = ("response", "expected")
    texts: ClassVar = {"reference": reference_text}
    example: ClassVar = {
        **_QUALITY_EXAMPLE,
        "expected": "The order is refunded.",
        "judge_reply": '{"reason": "The refund is told.", "score": 5}',
    }


class AllCallsOptions(ShareOptions):
    """Options of ToolSelection, ToolInputAccuracy and ToolOutputUse."""

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
        **_QUALITY_EXAMPLE,
        "judge_reply": '{"calls": [{"call": 1, "reason": "It looks the order up.", "fitting": true},'
        ' {"call": 2, "reason": "It was asked for.", "fitting": true}]}',
    }


class ToolInputAccuracy(_CallsJudged):
    """Passes when the arguments of every call are right: grounded in known facts, complete, and valid for the tool.

    A judge decides this for each call; the score is the share of right calls. Skipped if no tool was called.
    """

    name = "ToolInputAccuracy"
    aliases = ("tool_input_accuracy",)
    verdict = "accurate"
    example: ClassVar = {
        **_QUALITY_EXAMPLE,
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
        **_QUALITY_EXAMPLE,
        "judge_reply": '{"calls": [{"call": 1, "reason": "It was paid, so it was refunded.", "used": true},'
        ' {"call": 2, "reason": "The answer tells it.", "used": true}]}',
    }
