"""The path of an agent and what its transcript shows, checked without a judge: calls, steps, time, cost, findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from tui_evals.evaluators.base import (
    Evaluator,
    Evidence,
    Misconfigured,
    Options,
    Result,
    Score,
    ToolCall,
    as_text,
    measured_score,
    skipped_score,
    verdict_score,
)
from tui_evals.evaluators.base import (
    Text as Name,
)
from tui_evals.evaluators.judging import chunks_of
from tui_evals.evaluators.tools import IGNORE, MATCH, ArgumentMatch, arguments_fit
from tui_evals.evaluators.values import quoted, quoted_list
from tui_evals.text import strictjson
from tui_evals.text.measures import Measure
from tui_evals.transcript import Document, Message, Retrieval, Text, Took, Transcript, documents_of

_SHOWN = 12
"""Calls that a reason names."""


class ToolStep(BaseModel):
    """A call that is expected: the tool, and arguments it must have."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    tool: Name = Field(description="The tool's name, in this very case.")
    arguments: dict[str, Any] | None = Field(None, description="Arguments the call must have; any without it.")
    match: ArgumentMatch = MATCH
    ignore: list[Name] = IGNORE

    def fits(self, call: ToolCall) -> bool:
        """Whether a call is the expected one."""
        if call.name != self.tool or self.arguments is None or (not self.arguments and self.match == "partial"):
            return call.name == self.tool
        return arguments_fit(self.arguments, {} if call.arguments is None else call.arguments, self.match, self.ignore)


def _named(value: object) -> object:
    return {"tool": value} if isinstance(value, str) else value


ExpectedStep = Annotated[ToolStep, BeforeValidator(_named)]


class NoToolsOptions(Options):
    """Options of NoTools."""

    tools: list[Name] | None = Field(
        None, min_length=1, description="The tools that must not be called; without it none may be."
    )


class ToolOrderOptions(Options):
    """Options of ToolOrder."""

    tools: list[Name] = Field(min_length=1, description="The tools, in the order in which they must be called.")


class ToolTrajectoryOptions(Options):
    """Options of ToolTrajectory."""

    calls: list[ExpectedStep] = Field(
        min_length=1, description="The expected calls: names of tools, or objects with tool and arguments."
    )
    match: Literal["exact", "in_order", "any_order"] = Field(
        "exact",
        description="exact: these calls and no others; in_order: these in this order, others between them; "
        "any_order: each of these, wherever.",
    )


class StepsOptions(Options):
    """Options of Steps."""

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
    """The called tools in order, for a reason."""
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
    """Match each expected call with its own call, so that a loose step does not take the only match of a strict one."""
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
    """Passes when every tool call returned a result without an error; the score is the share of those that did.

    Skipped if no tool was called, or if the results of the calls are unknown.
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
    """Passes when the number of model calls until the answer, with tool calls in between, is within the bounds.

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
    """Options of UserGoal."""

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


_LEAST = 3
"""The length from which a value can be recognized in an answer."""


class CallCountOptions(Options):
    """Options of ToolCallCount."""

    tool: Name | None = Field(None, description="The tool whose calls are counted; without it those of all tools.")
    most: int | None = Field(None, ge=0, description="Passes with at most this many calls.")
    least: int | None = Field(None, ge=0, description="Passes with at least this many calls.")

    @model_validator(mode="after")
    def _bounds_leave_room(self) -> CallCountOptions:
        if self.most is not None and self.least is not None and self.least > self.most:
            raise ValueError("least is more than most, so nothing could pass")
        return self


class ToolCallCount(Evaluator):
    """Passes when the number of calls of a tool, or of all tools, is within the bounds.

    Without bounds the number is shown and nothing passes or fails.
    """

    name = "ToolCallCount"
    family = "tools"
    needs = ("response", "tool_calls")
    measure = Measure("at most", "calls")
    Options = CallCountOptions
    example: ClassVar = {
        "options": {"tool": "search", "most": 2},
        "response": "Found.",
        "tool_calls": (ToolCall("search", {"query": "a"}), ToolCall("search", {"query": "b"})),
    }

    def score(self, evidence: Evidence) -> Score:
        """Count the calls."""
        tool, most, least = self.options.tool, self.options.most, self.options.least
        count = sum(tool is None or call.name == tool for call in evidence.tool_calls or ())
        said = f"{count} call{'s' if count != 1 else ''}" + (f" of {tool}" if tool else "")
        if most is None and least is None:
            return Score(float(count), reason=said)
        if least is not None and count < least:
            return Score(float(count), "fail", most, None, f"{said}, at least {least} expected")
        if most is not None and count > most:
            return Score(float(count), "fail", most, None, f"{said}, at most {most} allowed")
        return Score(float(count), "pass", most, None, f"{said}, within the bounds")


class ToolsF1Options(Options):
    """Options of ToolsF1."""

    tools: list[Name] = Field(min_length=1, description="The tools that should be called, in any order.")
    threshold: float | None = Field(
        1.0, ge=0, le=1, description="The F1, of 0 to 1, from which it passes; null only shows the number."
    )


class ToolsF1(Evaluator):
    """Passes when the tools that were called are those that should be: F1 of both sets, from 0 to 1.

    Order, arguments and repeated calls do not count. An answer without calls has 0.
    """

    name = "ToolsF1"
    family = "tools"
    needs = ("response", "tool_calls")
    measure = Measure("at least")
    Options = ToolsF1Options
    example: ClassVar = {
        "options": {"tools": ["search", "fetch"]},
        "response": "Found.",
        "tool_calls": (ToolCall("search", {}), ToolCall("fetch", {})),
    }

    def score(self, evidence: Evidence) -> Score:
        """Compare the names."""
        wanted, called = set(self.options.tools), {call.name for call in evidence.tool_calls or ()}
        both = len(wanted & called)
        f1 = 2 * both / (len(wanted) + len(called))
        reason = f"F1 {f1:.3f}: {both} of {len(wanted)} wanted tools among {len(called)} that were called"
        missing, unwanted = sorted(wanted - called), sorted(called - wanted)
        return measured_score(f1, self.options.threshold, reason, missing=missing, unwanted=unwanted)


class ResultsUsedOptions(Options):
    """Options of ResultsUsed."""

    tool: Name | None = Field(
        None, description="The tool whose results have to be used; without it those of all tools."
    )
    threshold: float = Field(1.0, ge=0, le=1, description="The share of results from which it passes.")


class ResultsUsed(Evaluator):
    """Passes when what tools gave is used: a value of each result is in the answer or in a later call.

    A value is a text of at least three characters, a number, or a part of an object in JSON. Failed calls are left out.
    Skipped where no result is known. ToolOutputUse asks a judge whether results were understood.
    """

    name = "ResultsUsed"
    family = "tools"
    needs = ("response", "tool_calls")
    measure = Measure("at least")
    Options = ResultsUsedOptions
    example: ClassVar = {
        "response": "Order 7 is paid.",
        "tool_calls": (ToolCall("find", {"order": 7}, '{"status": "paid"}'),),
    }

    def score(self, evidence: Evidence) -> Score:
        """Look for the values of each result."""
        calls = list(evidence.tool_calls or ())
        answer = (evidence.response or "").casefold()
        used, unused = 0, list[str]()
        for place, call in enumerate(calls):
            if call.result is None or call.failed or self.options.tool not in (None, call.name):
                continue
            later = answer + "".join(as_text(each.arguments).casefold() for each in calls[place + 1 :])
            if any(value in later for value in _values(call.result)):
                used += 1
            else:
                unused.append(call.name)
        total = used + len(unused)
        if not total:
            return skipped_score("no result of a tool is known")
        reason = f"{used} of {total} results are used" + (f"; not that of {quoted_list(unused)}" if unused else "")
        return measured_score(used / total, self.options.threshold, reason, unused=unused)


def _values(result: str) -> Iterator[str]:
    """The values in a result that can be told from others, in small letters."""
    try:
        waiting: list[Any] = [strictjson.loads(result)]
    except (strictjson.JsonError, RecursionError):
        waiting = [result]
    while waiting:
        match waiting.pop():
            case dict() as table:
                waiting += table.values()
            case list() as rows:
                waiting += rows
            case bool() | None:
                pass
            case str() as text:
                if len(text.strip()) >= _LEAST:
                    yield text.strip().casefold()
            case number:
                yield str(number)


class StepLimitOptions(Options):
    """Options of StepTime and StepCost."""

    threshold: float | None = Field(None, ge=0, description="The most that a step may take; any if absent.")


_TOOK = Transcript(
    (
        Message(role="assistant", parts=(Text("I look."),), took=Took(seconds=1.2, cost=0.01)),
        Message(role="assistant", parts=(Text("Found."),), took=Took(seconds=0.4, cost=0.02)),
    )
)


class _StepLimit(Evaluator):
    """Passes when no step took more than is allowed."""

    family = "limits"
    needs = ("response",)
    Options = StepLimitOptions

    def value_of(self, took: Took) -> float | None:
        """The number to compare; None if it is unknown."""
        raise NotImplementedError

    def score(self, evidence: Evidence) -> Score:
        """Compare the step that took most."""
        found = [
            (value, place)
            for place, message in enumerate(_steps(evidence.transcript), 1)
            if message.took is not None and (value := self.value_of(message.took)) is not None
        ]
        if not found:
            return skipped_score("the duration of the steps is unknown")
        most, place = max(found)
        limit, unit = self.options.threshold, self.measure.unit
        reason = f"step {place} took most: {most:g} {unit}, of {len(found)} steps"
        result: Result | None = None if limit is None else "pass" if most <= limit else "fail"
        return Score(most, result, limit, None, reason)


def _steps(transcript: Transcript) -> list[Message]:
    return [message for message in transcript.messages if message.role == "assistant"]


class StepTime(_StepLimit):
    """Passes when no step of an agent took longer than the threshold, in milliseconds.

    Skipped where the target does not tell how long its steps took.
    """

    name = "StepTime"
    measure = Measure("at most", "ms")
    example: ClassVar = {"options": {"threshold": 2000}, "response": "Found.", "transcript": _TOOK}

    def value_of(self, took: Took) -> float | None:
        return None if took.seconds is None else 1000 * took.seconds


class StepCost(_StepLimit):
    """Passes when no step of an agent cost more than the threshold, in US dollars.

    Skipped if the cost of the steps is unknown.
    """

    name = "StepCost"
    measure = Measure("at most", "USD")
    example: ClassVar = {"options": {"threshold": 0.05}, "response": "Found.", "transcript": _TOOK}

    def value_of(self, took: Took) -> float | None:
        return took.cost


class RetrievalOptions(Options):
    """Options of RetrievalPrecision and RetrievalRecall."""

    relevant: list[Name] | None = Field(
        None,
        min_length=1,
        description="The documents that belong to the question, each by its id, source, title or a part of its text; "
        "else the item's variable relevant.",
    )
    k: int | None = Field(None, ge=1, description="Only this many of the first retrieved chunks count.")
    threshold: float = Field(1.0, ge=0, le=1, description="The share from which it passes.")


class _Retrieved(Evaluator):
    """Compares retrieved documents with the relevant ones."""

    family = "retrieval"
    needs = ("response",)
    measure = Measure("at least")
    Options = RetrievalOptions

    def found(self, evidence: Evidence) -> tuple[Sequence[Document], Sequence[str]]:
        """The retrieved documents that count, and the relevant ones; raises Misconfigured without relevant ones."""
        relevant = self.options.relevant
        if relevant is None:
            written = evidence.variables.get("relevant")
            relevant = [as_text(one) for one in written] if isinstance(written, list) else []
        if not relevant:
            raise Misconfigured(
                f"{self.name} needs the relevant documents: its option, or the item's variable relevant"
            )
        documents = documents_of(evidence.transcript) or tuple(map(Document, chunks_of(evidence)))
        return documents[: self.options.k], relevant


def _is(document: Document, wanted: str) -> bool:
    return wanted in (document.id, document.source, document.title) or wanted in document.text


_RETRIEVED = Transcript(
    (
        Message(
            role="tool", parts=(Retrieval((Document("Refunds take 14 days.", "d1"), Document("Open at nine.", "d2"))),)
        ),
    )
)


class RetrievalPrecision(_Retrieved):
    """Passes when the retrieved documents are relevant; the score is the share of them that are.

    ContextPrecision asks a judge instead, and needs no list of documents.
    """

    name = "RetrievalPrecision"
    example: ClassVar = {
        "options": {"relevant": ["d1"], "k": 1},
        "response": "Within 14 days.",
        "transcript": _RETRIEVED,
    }

    def score(self, evidence: Evidence) -> Score:
        """Count the retrieved documents that are relevant."""
        documents, relevant = self.found(evidence)
        if not documents:
            return verdict_score(False, "nothing was retrieved")
        fit = [any(_is(document, one) for one in relevant) for document in documents]
        reason = f"{sum(fit)} of {len(documents)} retrieved documents are relevant"
        return measured_score(sum(fit) / len(documents), self.options.threshold, reason)


class RetrievalRecall(_Retrieved):
    """Passes when the relevant documents were retrieved; the score is the share of them that were.

    ContextRecall asks a judge instead, and needs no list of documents.
    """

    name = "RetrievalRecall"
    example: ClassVar = {"options": {"relevant": ["d1"]}, "response": "Within 14 days.", "transcript": _RETRIEVED}

    def score(self, evidence: Evidence) -> Score:
        """Count the relevant documents that were retrieved."""
        documents, relevant = self.found(evidence)
        missing = [one for one in relevant if not any(_is(document, one) for document in documents)]
        there = len(relevant) - len(missing)
        reason = f"{there} of {len(relevant)} relevant documents were retrieved"
        reason += f"; not {quoted_list(missing)}" if missing else ""
        return measured_score(there / len(relevant), self.options.threshold, reason, missing=missing)
