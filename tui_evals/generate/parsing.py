"""Reading what models write for a step: rules, tests as CSV, texts between marks, refusals."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_FENCE = re.compile(r"\s*(`{3,}|~{3,})[^\n`]*\n(.*?)\n?[ \t]*\1\s*", re.DOTALL)
_BULLET = re.compile(r"(?:[0-9]+\.|[_*-])\s+")
_LIST = re.compile(r'\["(.*)"\]')
_START = r"[\s\"'*_>\u201c]*(?:unfortunately,? )?"
_DECLINED = re.compile(_START + r"i can(?:no|['\u2019])t (?:assist|help) with (?:that|this)", re.IGNORECASE)
_SORRY = re.compile(_START + r"(?:i['\u2019]m|i am)? ?(?:very |so |really )?sorry\b", re.IGNORECASE)
_CANNOT = re.compile(r"\bcan(?:no|['\u2019])t\b|\bunable\b|\bnot able\b|\bwon['\u2019]t\b|\bwill not\b", re.IGNORECASE)
_HEADING = re.compile(r"^[#*\s]*test case\s*[0-9]*\s*[:.]?[*\s]*$|^[#*\s]*test case\s*[0-9]+\s*:[*]*", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]{1,9}")


def unfenced(text: str) -> str:
    """The text without a code fence around all of it."""
    found = _FENCE.fullmatch(text)
    return found[2] if found else text


def is_refusal(text: str) -> bool:
    """Whether a model declined: in few lines, of which the first says so; an input may well begin with an apology."""
    lines = [line for line in text.split("\n") if line.strip()]
    if not 0 < len(lines) <= 3:
        return False
    sorry = _SORRY.match(lines[0])
    return bool(_DECLINED.match(lines[0]) or (sorry and (len(lines[0]) < 30 or _CANNOT.search(lines[0]))))


def tidy_rules(text: str) -> str:
    """One rule a line, without the fence, numbers and bullets that models put around them."""
    found = []
    for line in unfenced(text).replace("\r\n", "\n").split("\n"):
        rule = _BULLET.sub("", line, count=1) if _BULLET.match(line) else line
        rule = rule.rstrip()
        if unwrapped := _LIST.fullmatch(rule.strip()):
            rule = unwrapped[1]
        if rule.strip() and rule.strip() != "Rules:":
            found.append(rule)
    return "\n".join(found)


def baseline_inputs(text: str) -> list[str]:
    """The texts between lines of `===`, without headings such as "Test Case 2"."""
    found = []
    for part in re.split(r"^\s*={3,}\s*$", unfenced(text), flags=re.MULTILINE):
        lines = part.strip().split("\n")
        lines[0] = _HEADING.sub("", lines[0])
        if plain := "\n".join(lines).strip():
            found.append(plain)
    return found


def model_slug(model: str) -> str:
    """A model as a file name: without its provider, in plain small letters."""
    return re.sub(r"[^a-z0-9.-]", "_", model.partition(":")[2].lower() if ":" in model else model.lower())


@dataclass(frozen=True, slots=True)
class Table:
    """The tests read from a reply, and the rows that were none."""

    tests: tuple[Mapping[str, Any], ...]
    dropped: int = 0


def read_tests(text: str, inputs: Sequence[str], rules: Sequence[int]) -> Table:
    """The tests of a CSV reply, whatever stands around it: one for each row with all open inputs and a rule we know.

    Lines before the header are chatter; a row with more or fewer cells than the header, as a line of chatter is, is
    dropped and counted. Where a stray quotation mark swallows rows, each line is read by itself.
    """
    found = _table(_records(_csv_of(text)), inputs, rules)
    if found.tests and not found.dropped and _well_quoted(_csv_of(text)):
        return found
    lines = [row for line in _csv_of(text).split("\n") for row in _records(line)]
    return max(found, _table(lines, inputs, rules), key=lambda table: len(table.tests))


def _table(rows: Sequence[Sequence[str]], inputs: Sequence[str], rules: Sequence[int]) -> Table:
    header: list[str] | None = None
    tests: list[Mapping[str, Any]] = []
    dropped = 0
    for row in rows:
        if header is None:
            names = [cell.strip() for cell in row]
            if "ruleid" in [name.lower() for name in names]:
                header = [_column(name, inputs) for name in names]
            continue
        found = _test(dict(zip(header, row, strict=True)), inputs, rules) if len(row) == len(header) else None
        if found is None:
            dropped += 1
        else:
            tests.append(found)
    return Table(tuple(tests), dropped)


def _csv_of(text: str) -> str:
    """The CSV of a reply without its fence; an escaped quotation mark is a doubled one."""
    lines = text.replace("\r\n", "\n").split("\n")
    first = next((place for place, line in enumerate(lines) if "ruleid" in line.lower()), 0)
    ends = [place for place, line in enumerate(lines) if place > first and line.startswith("```")]
    # A fence in a cell is text; only one that opens before the first line is around the table.
    fenced = any(line.lstrip().startswith("```") for line in lines[:first])
    plain = "\n".join(lines[first : ends[-1] if fenced and ends else None])
    return plain.replace("\0", "").replace('\\"', '""')


def _well_quoted(text: str) -> bool:
    try:
        return bool(list(csv.reader(io.StringIO(text, newline=""), skipinitialspace=True, strict=True)))
    except csv.Error:
        return False


def _records(text: str) -> list[list[str]]:
    """The rows of a CSV text that are no comment."""
    reader = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True)
    found: list[list[str]] = []
    while True:
        try:
            row = next(reader, None)
        except csv.Error:  # a cell longer than the module takes
            continue
        if row is None:
            return found
        if any(cell.strip() for cell in row) and not row[0].startswith("#"):
            found.append(row)


_KNOWN = ("ruleid", "testid", "expectedoutput", "reasoning")


def _column(name: str, inputs: Sequence[str]) -> str:
    return name if name in inputs or name.lower() not in _KNOWN else name.lower()


def _test(row: Mapping[str, str], inputs: Sequence[str], rules: Sequence[int]) -> Mapping[str, Any] | None:
    number = _NUMBER.search(row.get("ruleid", ""))
    if number is None or int(number[0]) not in rules or any(name not in row for name in inputs):
        return None
    values = {name: row[name] for name in inputs}
    if not any(value.strip() for value in values.values()):
        return None
    testinput = next(iter(values.values())) if len(values) == 1 else json.dumps(values, ensure_ascii=False)
    return {**row, "ruleid": int(number[0]), "testinput": testinput}
