"""The way an agent took to its answer, as lines: each time the model was asked, what it called, what the tools gave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tui_evals.store.records import AnswerRecord
from tui_evals.text import strictjson
from tui_evals.text.money import money

from .answers import pretty_json
from .figures import duration, tokens

_SHORTEST = 0.001
"""Seconds that a call has to take to be worth a word."""

_COUNTS = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")

Kind = Literal["asked", "step", "said", "call", "result", "failed", "left"]


@dataclass(frozen=True, slots=True)
class StepLine:
    """A line of a transcript; what a model or a tool said may be several lines of text, and is not to be trusted."""

    kind: Kind
    text: str
    note: str = ""
    """What else is known of it: who gave a result, and how long that took."""


@dataclass(frozen=True, slots=True)
class _Counts:
    """The tokens of a step."""

    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None


def step_lines(record: AnswerRecord | None) -> Iterator[StepLine]:
    """All steps of an answer; none of one that took no tools and no simulated user."""
    steps = record.steps if record is not None else ()
    for number, step in enumerate(steps, 1):
        if "asked" in step:
            yield StepLine("asked", f"user: {step['asked']}")
        yield StepLine("step", f"step {number} of {len(steps)}", _figures(step))
        said = step.get("text") or ""
        last = number == len(steps) and "asked" not in steps[0]
        if last and record is not None and said == record.text and said:
            yield StepLine("left", "the answer")
        elif said:
            yield StepLine("said", said)
        for call in step.get("calls", ()):
            yield StepLine("call", f"→ {call.get('name')} {arguments_text(call.get('arguments'))}".rstrip())
            yield _result(call)
        if "user" in step:
            goal, last = step["user"]["goal"].replace("_", " "), step["user"]["message"]
            yield StepLine("asked", f"user, whose goal is {goal}{': ' if last else ''}{last}")


def transcript(record: AnswerRecord | None) -> str:
    """All steps of an answer as one text."""
    margin: Mapping[Kind, str] = {"asked": "", "step": "", "call": "  "}
    return "\n".join(
        f"{margin.get(line.kind, '    ')}{text}{f' · {line.note}' if line.note and not place else ''}"
        for line in step_lines(record)
        for place, text in enumerate(line.text.splitlines() or [""])
    )


def arguments_text(arguments: object) -> str:
    """The arguments of a tool call, as JSON where they are."""
    if not isinstance(arguments, str):
        return pretty_json(arguments) if arguments is not None else ""
    try:
        return pretty_json(strictjson.loads(arguments))
    except (strictjson.JsonError, RecursionError):
        return arguments


def _result(call: Mapping[str, Any]) -> StepLine:
    if "result" not in call:
        return StepLine("left", "not called")
    by, seconds = call.get("by") or "", call.get("ms", 0.0) / 1000
    note = " · ".join(part for part in (by, duration(seconds) if seconds >= _SHORTEST else "") if part)
    traceback = f"\n{call['traceback']}" if call.get("traceback") else ""
    failed = call.get("failed") is True
    return StepLine("failed" if failed else "result", f"{'!' if failed else '←'} {call['result']}{traceback}", note)


def _figures(step: Mapping[str, Any]) -> str:
    seconds = step.get("latency_ms")
    cost = step.get("cost")
    cached = step.get("from_cache") is True
    parts: Sequence[str] = (
        "from the cache" if cached else "" if seconds is None else duration(seconds / 1000),
        tokens(_Counts(**{name: step.get(name) for name in _COUNTS})),
        "" if cost is None or cached else money(cost),
    )
    return " · ".join(part for part in parts if part)
