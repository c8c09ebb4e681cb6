"""Verdicts that go through a list: a judge gives each entry a yes or no, and the score is the share of yeses."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from .base import Evaluator, Score, measured_score
from .judging import Parts, UnreadableReply, ask_judge, judge_question, required_verdict
from .values import quoted_list

LONG_REPLY = 4096
"""Tokens that a judge has for a list."""
Entries = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Checklist:
    """The form of a list in a reply: its key, what an entry is about, and the yes or no it gets."""

    key: str
    about: str
    verdict: str
    count: int | None = None
    """How many entries there must be, numbered from 1; None where the judge finds them and writes what each is."""
    numbers: tuple[int, ...] = ()
    """Their numbers, where these are others."""
    least: int = 0
    """How many entries there must be, where the judge finds them."""

    @property
    def wanted(self) -> tuple[int, ...] | None:
        """The numbers of the entries; None where they are not numbered."""
        return self.numbers or (None if self.count is None else tuple(range(1, self.count + 1)))

    @property
    def schema(self) -> Mapping[str, Any]:
        """Its JSON Schema."""
        entry = {
            "type": "object",
            "properties": {
                self.about: {"type": "string" if self.wanted is None else "integer"},
                "reason": {"type": "string"},
                self.verdict: {"type": "boolean"},
            },
            "required": [self.about, "reason", self.verdict],
            "additionalProperties": False,
        }
        return {"type": "array", "items": entry}

    @property
    def form(self) -> str:
        """How it has to look, for a judge."""
        about = '"..."' if self.wanted is None else "1"
        return f'"{self.key}": [{{"{self.about}": {about}, "reason": "...", "{self.verdict}": true}}]'

    def fits(self, value: object) -> bool:
        """Whether a value is such a list, with an entry for each number where they are numbered."""
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            return False
        if not all(
            isinstance(entry.get(self.verdict), bool) and isinstance(entry.get("reason", ""), str) for entry in value
        ):
            return False
        if self.wanted is None:
            return len(value) >= self.least and all(isinstance(entry.get(self.about), str) for entry in value)
        numbers = [entry.get(self.about) for entry in value]
        return all(type(number) is int for number in numbers) and sorted(numbers) == sorted(self.wanted)


def lists_schema(lists: Sequence[Checklist]) -> Mapping[str, Any]:
    """The JSON Schema of a reply that holds these lists."""
    return {
        "type": "object",
        "properties": {one.key: one.schema for one in lists},
        "required": [one.key for one in lists],
        "additionalProperties": False,
    }


def read_lists(reply: str, lists: Sequence[Checklist], judged: Collection[str] = ()) -> dict[str, Entries]:
    """The lists in a reply to the texts that were judged, numbered entries in their order."""
    form = "{" + ", ".join(one.form for one in lists) + "}"
    verdict = required_verdict(reply, lists[0].key, lists[0].fits, judged, form)
    for one in lists:
        if not one.fits(verdict.get(one.key)):
            raise UnreadableReply(f"it holds no valid {one.key}; one JSON object {form} was expected")
    return {
        one.key: verdict[one.key]
        if one.wanted is None
        else sorted(verdict[one.key], key=lambda entry: entry[one.about])
        for one in lists
    }


async def ask_lists(
    evaluator: Evaluator,
    lists: Sequence[Checklist],
    texts: Mapping[str, str],
    parts: Parts | None = None,
    trusted: Mapping[str, object] | None = None,
) -> tuple[dict[str, Entries], str]:
    """The lists that a judge makes by the prompt that bears the evaluator's name, and its reply."""
    question = judge_question(
        evaluator.name.lower(), texts, trusted, parts=parts, schema=lists_schema(lists), judge=evaluator.options.judge
    )
    judged = [*texts.values(), *(piece.text for part in (parts or {}).values() for piece in part)]
    read = partial(read_lists, lists=lists, judged=judged)
    return await ask_judge(evaluator.ask, replace(question, max_tokens=LONG_REPLY), read)


def share_score(
    entries: Entries, form: Checklist, threshold: float, reply: str, *, nothing: str, **details: object
) -> Score:
    """The share of the entries that got a yes, each of them shown; with none of them all is well, for a reason."""
    good = [entry for entry in entries if entry[form.verdict]]
    bad = [entry for entry in entries if not entry[form.verdict]]
    shown: dict[str, Any] = {
        form.key: entries,
        "counted": len(entries),
        form.verdict: len(good),
        **details,
        "reply": reply,
    }
    if not entries:
        return measured_score(1.0, threshold, nothing, **shown)
    reason = f"{form.verdict}, {len(good)} of {len(entries)}"
    if bad:
        named = [about if isinstance(about := entry[form.about], str) else f"{form.about} {about}" for entry in bad]
        reason += f"; not: {quoted_list(named)}"
    return measured_score(len(good) / len(entries), threshold, reason, **shown)
