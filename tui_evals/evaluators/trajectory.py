"""The path of an agent, checked without a judge: its calls, its steps, and the goal of its simulated user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from tui_evals.text.measures import Measure

from .base import (
    Evaluator,
    Evidence,
    Options,
    Score,
    Text,
    ToolCall,
    measured_score,
    skipped_score,
    verdict_score,
)
from .tools import IGNORE, MATCH, ArgumentMatch, arguments_fit
from .values import quoted, quoted_list

_SHOWN = 12
"""Calls that a reason names."""


class ToolStep(BaseModel):
    """A call that is expected: the tool, and arguments it must have."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    tool: Text = Field(description="The tool's name, in this very case.")
    arguments: dict[str, Any] | None = Field(None, description="Arguments the call must have; any without it.")
    match: ArgumentMatch = MATCH
    ignore: list[Text] = IGNORE

    def fits(self, call: ToolCall) -> bool:
        """Whether a call is the expected one."""
        if call.name != self.tool or self.arguments is None or (not self.arguments and self.match == "partial"):
            return call.name == self.tool
        return arguments_fit(self.arguments, {} if call.arguments is None else call.arguments, self.match, self.ignore)


def _named(value: object) -> object:
    return {"tool": value} if isinstance(value, str) else value


ExpectedStep = Annotated[ToolStep, BeforeValidator(_named)]


class NoToolsOptions(Options):
    """What NoTools takes."""

    tools: list[Text] | None = Field(
        None, min_length=1, description="The tools that must not be called; without it none may be."
    )


class ToolOrderOptions(Options):
    """What ToolOrder takes."""

    tools: list[Text] = Field(min_length=1, description="The tools, in the order in which they must be called.")


class ToolTrajectoryOptions(Options):
    """What ToolTrajectory takes."""

    calls: list[ExpectedStep] = Field(
        min_length=1, description="The expected calls: names of tools, or objects with tool and arguments."
    )
    match: Literal["exact", "in_order", "any_order"] = Field(
        "exact",
        description="exact: these calls and no others; in_order: these in this order, others between them; "
        "any_order: each of these, wherever.",
    )


class StepsOptions(Options):
    """What Steps takes."""

    most: int | None = Field(None, ge=1, description="Passes with at most this many steps.")
    least: int | None = Field(None, ge=1, description="Passes with at least this many steps.")

    @model_validator(mode="after")
    def _bounds_leave_room(self) -> StepsOptions:
        if self.most is not None and self.least is not None and self.least > self.most:
            raise ValueError("least is more than most, so nothing could pass")
        return self


def _called(evidence: Evidence) -> list[str]:
    return [call.name for call in evidence.tool_calls or ()]


def _way(names: Sequence[str]) -> str:
    """The calls in their order, for a reason."""
    more = f" → … {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return " → ".join(quoted(name)[1:-1] for name in names[:_SHOWN]) + more if names else "nothing"


class NoTools(Evaluator):
    """Passes when the answer calls no tool at all, or none of the `tools` that are named."""

    name = "NoTools"
    family = "tools"
    needs = ("response", "tool_calls")
    Options = NoToolsOptions
    example: ClassVar = {"response": "You are welcome.", "tool_calls": ()}

    def score(self, evidence: Evidence) -> Score:
        """Look for a call."""
        called, forbidden = _called(evidence), self.options.tools
        wrong = [name for name in dict.fromkeys(called) if forbidden is None or name in forbidden]
        if wrong:
            return verdict_score(False, f"called was {quoted_list(wrong)}", called=called)
        return verdict_score(True, "no tool was called" if not called else "none of these was called", called=called)


class ToolOrder(Evaluator):
    """Passes when the tools are called one after the other in the given order; other calls may come between them."""

    name = "ToolOrder"
    family = "tools"
    needs = ("response", "tool_calls")
    Options = ToolOrderOptions
    example: ClassVar = {
        "options": {"tools": ["find_order", "refund"]},
        "response": "Done.",
        "tool_calls": (ToolCall("find_order", {}), ToolCall("refund", {})),
    }

    def score(self, evidence: Evidence) -> Score:
        """Go through the calls in their order."""
        steps = [ToolStep(tool=name) for name in self.options.tools]
        return _in_order(steps, evidence)


class ToolTrajectory(Evaluator):
    """Passes when the calls of an agent are the expected ones, with the expected arguments.

    `match` says how closely: exactly these, these in this order with others between them, or these in any order.
    """

    name = "ToolTrajectory"
    family = "tools"
    needs = ("response", "tool_calls")
    Options = ToolTrajectoryOptions
    example: ClassVar = {
        "options": {"calls": ["find_order", {"tool": "refund", "arguments": {"order": 7}}]},
        "response": "Done.",
        "tool_calls": (ToolCall("find_order", {"id": 7}), ToolCall("refund", {"order": 7})),
    }

    def score(self, evidence: Evidence) -> Score:
        """Compare call by call."""
        steps: list[ToolStep] = self.options.calls
        if self.options.match == "in_order":
            return _in_order(steps, evidence)
        calls, called = list(evidence.tool_calls or ()), _called(evidence)
        if self.options.match == "any_order":
            return _any_order(steps, calls, called)
        for place, (step, call) in enumerate(zip(steps, calls, strict=False), 1):
            if not step.fits(call):
                return verdict_score(
                    False, f"call {place} should be {_wanted(step)}; called was {_way(called)}", called=called
                )
        if len(calls) != len(steps):
            wanted = f"{len(steps)} call{'s' if len(steps) != 1 else ''} expected"
            return verdict_score(False, f"{wanted}, {len(calls)} made: {_way(called)}", called=called)
        return verdict_score(True, f"called was {_way(called)}", called=called)


def _wanted(step: ToolStep) -> str:
    if not step.arguments:
        return step.tool
    return f"{step.tool} with {', '.join(f'{name} {value!r}' for name, value in step.arguments.items())}"[:200]


def _in_order(steps: Sequence[ToolStep], evidence: Evidence) -> Score:
    called, waiting = _called(evidence), list(steps)
    for call in evidence.tool_calls or ():
        if waiting and waiting[0].fits(call):
            waiting.pop(0)
    if waiting:
        before = steps[len(steps) - len(waiting) - 1] if len(waiting) < len(steps) else None
        where = f" after {before.tool}" if before is not None else ""
        return verdict_score(
            False, f"{_wanted(waiting[0])} was not called{where}; called was {_way(called)}", called=called
        )
    return verdict_score(True, f"called was {_way(called)}", called=called)


def _any_order(steps: Sequence[ToolStep], calls: Sequence[ToolCall], called: Sequence[str]) -> Score:
    """Each expected call needs a call of its own: found as a matching, for a loose step may not take what only a
    stricter one fits."""
    owners: dict[int, int] = {}
    for number in range(len(steps)):
        if not _place(number, steps, calls, owners, set()):
            return verdict_score(
                False, f"{_wanted(steps[number])} was not called; called was {_way(called)}", called=called
            )
    return verdict_score(True, f"called was {_way(called)}", called=called)


def _place(
    number: int, steps: Sequence[ToolStep], calls: Sequence[ToolCall], owners: dict[int, int], seen: set[int]
) -> bool:
    """Give a step a call, moving the steps that have one already where that helps."""
    for place, call in enumerate(calls):
        if place in seen or not steps[number].fits(call):
            continue
        seen.add(place)
        if place not in owners or _place(owners[place], steps, calls, owners, seen):
            owners[place] = number
            return True
    return False


class ToolsSucceeded(Evaluator):
    """Passes when every tool call gave a result and no error; the score is the share of those that did.

    Skipped where nothing was called, or the results of the calls are unknown.
    """

    name = "ToolsSucceeded"
    family = "tools"
    needs = ("response", "tool_calls")
    measure = Measure("at least")
    example: ClassVar = {"response": "Found.", "tool_calls": (ToolCall("find", {}, "found"),)}

    def score(self, evidence: Evidence) -> Score:
        """Count the errors."""
        known = [call for call in evidence.tool_calls or () if call.result is not None]
        if not known:
            return skipped_score("no tool was called")
        failed = [call for call in known if call.failed]
        reason = f"{failed[0].name} failed: {quoted(failed[0].result or '')}" if failed else "every call gave a result"
        return measured_score(1 - len(failed) / len(known), 1.0, reason, failed=[call.name for call in failed])


class Steps(Evaluator):
    """Passes when the model was asked as often as is wanted until it answered, with tool calls in between.

    Without bounds the number is shown and nothing passes or fails. An answer without tools took one step.
    """

    name = "Steps"
    family = "tools"
    needs = ("response",)
    measure = Measure("at most", "steps")
    Options = StepsOptions
    example: ClassVar = {"options": {"most": 4}, "response": "Done.", "steps": 3}

    def score(self, evidence: Evidence) -> Score:
        """Compare the number."""
        count, most, least = evidence.steps or 1, self.options.most, self.options.least
        steps = f"{count} step{'s' if count != 1 else ''}"
        record = replace(measured_score(count, None), reason=steps, threshold=most)
        if most is None and least is None:
            return record
        if least is not None and count < least:
            return replace(record, result="fail", reason=f"{steps}, at least {least} expected")
        if most is not None and count > most:
            return replace(record, result="fail", reason=f"{steps}, at most {most} allowed")
        return replace(record, result="pass", reason=f"{steps}, within the bounds")


class UserGoalOptions(Options):
    """What UserGoal takes."""

    most_turns: int | None = Field(None, ge=1, description="Passes only within this many turns. Default: any number.")


class UserGoal(Evaluator):
    """Passes when the simulated user of an item said that the goal is reached, within `most_turns`.

    It makes no call: the simulated user has said so. Skipped for an item without a simulated user.
    """

    name = "UserGoal"
    family = "tools"
    needs = ("response",)
    Options = UserGoalOptions
    example: ClassVar = {
        "options": {"most_turns": 4},
        "response": "Your refund of 20 euros is on its way.",
        "turns": 3,
        "user": {"goal": "reached", "message": "Thank you!"},
    }

    def score(self, evidence: Evidence) -> Score:
        """Look at how the user ended it."""
        user, turns, most = evidence.user, evidence.turns or 0, self.options.most_turns
        if user is None:
            return skipped_score("the item has no simulated user")
        after = f"{turns} turn{'s' if turns != 1 else ''}"
        if user["goal"] != "reached":
            why = "gave up" if user["goal"] == "given_up" else "has not reached the goal"
            return verdict_score(False, f"the user {why} after {after}", turns=turns)
        if most is not None and turns > most:
            return verdict_score(False, f"reached after {after}, at most {most} allowed", turns=turns)
        return verdict_score(True, f"reached after {after}", turns=turns)
