"""The tests that the demo target writes: as many as are asked for, each with other inputs."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tui_evals.targets.answers import content_text
from tui_evals.text.cells import csv_line

from .inputs import Wanted, columns_of, values, wanted_in
from .label import closest
from .prompt import labels, special_values, subjects_in
from .step import Messages, Step, count_in, header_in
from .verbs import closed
from .words import speech_of, without_marks

FAR = 1001
"""How far the numbers of two rules' tests are apart."""
_RULE = re.compile(r"\s*(\d{1,6})[.)]\s+(\S.*)")
_KNOWN = ("ruleid", "testid", "expectedoutput", "reasoning")
_REPAIR = re.compile(r"\b(?:could not|cannot|can't|again|not valid|invalid|repair)\b", re.IGNORECASE)
_STYLES = ("A typical input", "An unusual input", "An input at the limits")


def tests(step: Step, later: Messages) -> str:
    """A CSV of tests; in a conversation that goes on further ones, or the same ones in answer to a repair request."""
    asked = [content_text(one.get("content")) for one in later if one.get("role") == "user"]
    rounds = [text for text in asked if not _REPAIR.search(text)]
    header = header_in(step.words)
    columns = columns_of(header) if header else [*_KNOWN]
    listed = wanted_in(step.texts.get("inputs", ""), [name for name in columns if name not in _KNOWN])
    columns = columns if header else [*_KNOWN, *(one.name for one in listed)]
    first = count_in(step.words, 3)
    counts = [first, *(count_in(text, first) for text in rounds)]
    made = _made(step, listed, sum(counts))
    out = io.StringIO(newline="")
    sheet = csv.writer(out, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    for test in made:
        if test["testid"] > sum(counts[:-1]):
            sheet.writerow([test.get(column, "") for column in columns])
    return csv_line(columns) + out.getvalue()


def _made(step: Step, wanted: Sequence[Wanted], count: int) -> list[dict[str, Any]]:
    """So many tests for each rule that is shown."""
    body = step.texts.get("prompt", "")
    known, subjects = labels(body), subjects_in(body)
    samples = [] if step.texts.get("scenario") else _samples(step.texts.get("samples", ""))
    found = []
    for line in step.texts.get("rules", "").split("\n"):
        said = _RULE.fullmatch(line)
        if said is None:
            continue
        rule, text = int(said[1]), said[2]
        for place in range(count):
            number = step.number + rule * FAR + place
            sample = samples[rule - 1] if place == 0 and rule <= len(samples) else {}
            subject = subjects[number % len(subjects)] if subjects else ""
            given = values(wanted, number, place, text, subject, sample)
            asked = subject if any(one.kind == "message" for one in wanted) else ""
            facts = {"ruleid": rule, "testid": place + 1, "reasoning": _reasoning(text, place)}
            found.append({**given, **facts, "expectedoutput": _expected(text, known, body, given, number, asked)})
    return found


def _samples(text: str) -> list[dict[str, str]]:
    found = []
    for line in text.split("\n"):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            found.append({name: each if isinstance(each, str) else json.dumps(each) for name, each in value.items()})
    return found


def _reasoning(rule: str, place: int) -> str:
    said = rule[at + 4 :] if (at := rule.lower().find("the output")) >= 0 else rule
    words = without_marks(re.split(r"[:;]", said)[0]).rstrip(" .").split()
    shown = " ".join(words[:10]) + "…" if len(words) > 10 else closed(" ".join(words))
    return f"{_STYLES[place % 3]}: it decides whether {'the ' if at >= 0 else ''}{shown}"


def _expected(rule: str, known: Mapping[str, str], body: str, given: Mapping[str, str], number: int, asked: str) -> str:
    """The value that the rule names, else one of those the prompt lists, else a few words of the input."""
    if named := special_values(rule):
        return without_marks(named[number % len(named)])
    texts = sorted(given.values(), key=len)
    if known:
        return closest(known, speech_of(texts[0]) if texts and texts[0].isalpha() else " ".join(texts), number)
    start = re.split(r"(?<=[.!?])\s", texts[-1] if texts else "")[0] or "This is what can be said."
    start = f"This is what you have to know about {asked}." if asked else start
    fields = list(dict.fromkeys(re.findall(r'"(\w{1,40})"\s*:', body)))
    return json.dumps(dict.fromkeys(fields, start), ensure_ascii=False).replace('\\"', "'") if fields else start
