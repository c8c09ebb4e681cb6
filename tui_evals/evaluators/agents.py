"""Agents as a judge sees them: whether the task is done, the calls are right, the way is the expected one.

What can be told without a judge stands in `trajectory.py` and `tools.py`.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from tui_evals.text import strictjson
from tui_evals.text.measures import Measure

from .base import (
    Evaluator,
    Evidence,
    JudgedOptions,
    Misconfigured,
    Score,
    ToolCall,
    as_text,
    measured_score,
    skipped_score,
)
from .checklists import Checklist, ask_lists
from .grounding import ShareOptions
from .rubrics import RatingOptions, rate_answer
from .scales import RATING
from .shown import reference_text, request_texts, shown_parts
from .values import quoted_list

Text = Annotated[str, Field(min_length=1)]
_CALLS = (ToolCall("find_order", {"number": 7}, '{"status": "paid"}'), ToolCall("refund", {"order": 7}, "refunded"))
_EXAMPLE: dict[str, Any] = {
    "prompt": "Refund order 7.",
    "response": "Order 7 is refunded.",
    "tool_calls": _CALLS,
}


class TrajectoryOptions(RatingOptions):
    """What TrajectoryMatch takes."""

    reference: Text | list[Text] | None = Field(
        None, description="The way it should take, as text or as a list of steps; else the item's variable trajectory."
    )


class PlanOptions(RatingOptions):
    """What PlanKept takes."""

    plan: Text | list[Text] | None = Field(
        None, description="The plan, as text or as a list of steps; else what the agent or its instructions stated."
    )


class WasteOptions(JudgedOptions):
    """What StepsWasted takes."""

    threshold: float = Field(0, ge=0, description="With at most so many calls wasted it passes.")


def _listed(steps: str | list[str] | None) -> str:
    return "\n".join(f"{n}. {step}" for n, step in enumerate(steps, 1)) if isinstance(steps, list) else steps or ""


class TaskCompletion(Evaluator):
    """Passes when the task that the request sets is done in the end.

    A judge rates from 1 (not done) over 3 (half done) to 5 (done). It sees the conversation, each call with what the
    tool gave, the answer and, as the end that is wanted, the expected response where there is one. A success that is
    only claimed does not count.
    """

    name = "TaskCompletion"
    family = "agents"
    measure = RATING.measure
    needs = ("response", "prompt")
    judged = True
    lowest = 1.0
    Options = RatingOptions
    example: ClassVar = {**_EXAMPLE, "judge_reply": '{"reason": "refund gave: refunded.", "score": 5}'}

    async def score(self, evidence: Evidence) -> Score:
        """Rate what was reached."""
        return await rate_answer(self, evidence, {"reference": reference_text(evidence)})


class TrajectoryMatch(Evaluator):
    """Passes when an agent went the way of a reference, in substance.

    A judge rates from 1 (another way) over 3 (partly) to 5 (the same). ToolTrajectory compares call by call, without a
    judge and to the letter.
    """

    name = "TrajectoryMatch"
    family = "agents"
    measure = RATING.measure
    needs = ("response", "tool_calls")
    judged = True
    lowest = 1.0
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


class PlanKept(Evaluator):
    """Passes when an agent kept to its plan.

    A judge rates from 1 (not kept) over 3 (partly) to 5 (kept). The plan is that of the options, else what the agent
    itself or its instructions stated before it acted.
    """

    name = "PlanKept"
    family = "agents"
    measure = RATING.measure
    needs = ("response", "tool_calls")
    judged = True
    lowest = 1.0
    Options = PlanOptions
    example: ClassVar = {
        **_EXAMPLE,
        "options": {"plan": ["look the order up", "refund it", "tell the customer"]},
        "judge_reply": '{"reason": "All three, in this order.", "score": 5}',
    }

    async def score(self, evidence: Evidence) -> Score:
        """Rate the way by the plan."""
        return await rate_answer(self, evidence, trusted={"plan": _listed(self.options.plan) or "(none given)"})


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
        texts = request_texts(evidence) | {"tools": "\n".join(map(_tool_line, evidence.tools))}
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


def _tool_line(tool: Any) -> str:
    """A tool as a judge is told of it: its name, what it does and its parameters."""
    function = tool.get("function", tool) if isinstance(tool, dict) else {}
    parameters = function.get("parameters") or function.get("input_schema")
    about = f" {strictjson.dumps(parameters)}" if parameters else ""
    return f"{function.get('name')}: {function.get('description') or ''}{about}"


class StepsWasted(Evaluator):
    """Passes when no call of an agent was wasted, or at most so many as the threshold allows.

    A judge says of each call whether it brought the agent nearer to what was asked; the score is how many did not.
    Steps counts how often the model was asked, without a judge. Skipped where no tool was called.
    """

    name = "StepsWasted"
    family = "agents"
    measure = Measure("at most", "calls")
    needs = ("prompt", "tool_calls")
    judged = True
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
