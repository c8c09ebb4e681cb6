"""JUnit XML for build servers: a suite for each column of a run, a test case for each answer."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

from tui_evals.compare.diff import DiffGap, DiffRow, side_by_side, unified_diff
from tui_evals.compare.sides import column_name
from tui_evals.present.answers import answer_name, complaints, prompt_text, reference_text, shortened, skipped_text
from tui_evals.present.measures import column_measures, run_measures, skipped_sentence
from tui_evals.present.runs import RunFacts, counts_sentence, run_cost, run_facts
from tui_evals.present.status import OVER, status_phrase
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow, Totals
from tui_evals.text.safe import safe, safe_line

from .base import ReportKind
from .comparison import broken_in
from .results import AnswerEntry, read

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LONGEST = 20_000
_MESSAGE = 300
_PAGE = 200
_WHY_SKIPPED = {
    "answered": status_phrase("answered"),
    "unjudged": "unjudged: no evaluator gave a result",
    "scored": "scored: nothing that judged it can pass or fail",
}
_OUTCOMES = {"fail": "failure", "error": "error", "partial": "error", "pass": ""}


def suites(reader: Reader, runs: Sequence[RunRow]) -> Iterator[str]:
    """The last of the runs as JUnit XML; what broke since the first says so."""
    run = runs[-1]
    broken = broken_in(reader, runs) if len(runs) > 1 else frozenset()
    since = f"broken since {runs[0].name} ({runs[0].key}): "
    items = reader.dataset(run).items
    totals = reader.totals_by(run.id, "column")
    whole = reader.totals(run.id)
    about = run_facts(run, whole, reader.spent(run.id)[1], run_measures(reader, run, whole))
    measures, skipped = column_measures(reader, run, whole), skipped_sentence(reader.skipped(run.id))
    tallies: defaultdict[tuple[int, int], _Tally] = defaultdict(_Tally)
    repeated = False
    for row in reader.all_rows(run.id):
        tallies[row.prompt, row.target].take(row)
        repeated = repeated or row.repeat > 0
    counts = _counts(tallies[key] for key in sorted(tallies))
    root = ET.Element("testsuites", {"name": _xml_line(f"{run.name} ({run.key})"), **counts})
    del root.attrib["skipped"]
    yield '<?xml version="1.0" encoding="UTF-8"?>\n' + _opening(root, bool(tallies))
    for key in sorted(tallies):
        suite = ET.Element(
            "testsuite",
            {
                "name": _xml_line(column_name(run, *key)),
                "timestamp": datetime.fromtimestamp(run.started or run.created, UTC).isoformat(),
                **_counts([tallies[key]]),
            },
        )
        yield "\n  " + _opening(suite, True)
        yield _text(
            _properties(
                {**_facts(run, about, *key, totals[key], measures.get(key, ()), skipped), **_comparison_facts(runs)}
            )
        )
        for row, answered in _cases(reader, run, tallies[key].ids, items):
            yield _text(_case(row, answered, items[row.item], run, repeated, since if row.id in broken else ""))
        yield "\n  </testsuite>"
    yield ("\n</testsuites>" if tallies else "") + "\n"


@dataclass(slots=True)
class _Tally:
    """What the counting attributes of a suite say of its cases, and which answers these are."""

    ids: array[int] = field(default_factory=lambda: array("q"))
    seconds: array[float] = field(default_factory=lambda: array("d"))
    outcomes: Counter[str] = field(default_factory=Counter)

    def take(self, row: AnswerRow) -> None:
        """Count an answer in."""
        self.ids.append(row.id)
        self.seconds.append(float(_seconds(row)))
        self.outcomes[_OUTCOMES.get(row.status, "skipped")] += 1


def _counts(tallies: Iterable[_Tally]) -> dict[str, str]:
    parts = list(tallies)
    outcomes = sum((tally.outcomes for tally in parts), Counter[str]())
    return {
        "tests": str(sum(len(tally.ids) for tally in parts)),
        "failures": str(outcomes["failure"]),
        "errors": str(outcomes["error"]),
        "skipped": str(outcomes["skipped"]),
        "time": f"{sum(chain.from_iterable(tally.seconds for tally in parts)):.3f}",
    }


def _opening(element: ET.Element, filled: bool) -> str:
    """The start tag of an element whose children follow."""
    text = ET.tostring(element, encoding="unicode")
    return text.removesuffix(" />") + ">" if filled else text


def _text(element: ET.Element) -> str:
    """An element of a suite, on lines of its own."""
    ET.indent(element, level=2)
    return "\n    " + ET.tostring(element, encoding="unicode")


def _cases(
    reader: Reader, run: RunRow, ids: array[int], items: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[AnswerRow, AnswerEntry | None]]:
    """The answers of a suite in their order; of those that passed or are not judged yet only the row is read."""
    for start in range(0, len(ids), _PAGE):
        rows = reader.rows(ids[start : start + _PAGE])
        wrong = (row for row in rows if _OUTCOMES.get(row.status) or row.status == "unjudged")
        read_entries = {entry.row.id: entry for entry in read(reader, run, wrong, items, requests=True)}
        yield from ((row, read_entries.get(row.id)) for row in rows)


def _facts(
    run: RunRow, about: RunFacts, prompt: int, target: int, totals: Totals, measures: Sequence[str], skipped: str
) -> dict[str, str]:
    """What is known of the run as a whole, then of one column of it."""
    facts = {"run": run.key, "name": run.name, "status": about.look.word, "reason": about.reason}
    facts |= {"gates": about.verdict, "judged again": about.rejudged, "duration": about.duration}
    facts |= {"run counts": about.counts, "run cost": about.cost.text}
    facts |= {"dataset": run.source, "target": run.targets[target], "prompt": run.prompts[prompt]}
    over = run.status in OVER
    facts |= {"counts": counts_sentence(totals, measures, over=over), "cost": run_cost(totals).text}
    facts |= {"run skipped": skipped}
    return {name: value for name, value in facts.items() if value}


def _comparison_facts(runs: Sequence[RunRow]) -> dict[str, str]:
    return {"compared with": runs[0].key} if len(runs) > 1 else {}


def _properties(facts: Mapping[str, str]) -> ET.Element:
    properties = ET.Element("properties")
    for name, value in facts.items():
        ET.SubElement(properties, "property", name=name, value=_xml_line(value))
    return properties


def _seconds(row: AnswerRow) -> str:
    return f"{(0.0 if row.from_cache else row.latency_ms or 0.0) / 1000:.3f}"


def _case(
    row: AnswerRow, answered: AnswerEntry | None, item: Mapping[str, Any], run: RunRow, repeated: bool, since: str
) -> ET.Element:
    dataset = PurePosixPath(run.source.replace("\\", "/")).stem or "dataset"
    case = ET.Element(
        "testcase",
        name=_xml_line(answer_name(row, "turns" in item, repeated)),
        classname=_xml_line(".".join(part for part in (dataset, row.category) if part)),
        time=_seconds(row),
    )
    if answered is not None and row.status in _OUTCOMES:
        why = list(complaints(answered.record, answered.scores))
        outcome = _OUTCOMES[row.status]
        element = ET.SubElement(case, outcome, type=row.status, message=_xml_line(since + "; ".join(why), _MESSAGE))
        element.text = "\n" + _xml_text("\n".join(_body(answered, why))) + "\n"
    elif row.status not in _OUTCOMES:
        why = [skipped_text(score) for score in answered.scores if score.result == "skipped"] if answered else []
        message = _WHY_SKIPPED.get(row.status, "no answer yet")
        ET.SubElement(case, "skipped", message=_xml_line("; ".join([message, *why]), _MESSAGE))
    return case


def _body(answered: AnswerEntry, why: Sequence[str]) -> Iterator[str]:
    yield from why
    answer = (answered.record.text if answered.record else None) or ""
    wanted = reference_text(answered.unit, answer) or ""
    if prompt := prompt_text(answered.unit, answered.record):
        yield f"\nprompt\n{shortened(prompt, _LONGEST)}"
    if wanted and answer:
        yield "\n--- expected\n+++ answer"
        for row in unified_diff(side_by_side(shortened(wanted, _LONGEST), shortened(answer, _LONGEST))):
            yield _diff_line(row)
    elif wanted or answer:
        yield f"\n{'expected' if wanted else 'answer'}\n{shortened(wanted or answer, _LONGEST)}"


def _diff_line(row: DiffRow | DiffGap) -> str:
    if isinstance(row, DiffGap):
        return f"@@ {row.count} equal lines @@"
    sign = {"removed": "-", "added": "+"}.get(row.kind, " ")
    side = row.left or row.right
    return sign + (side.text.rstrip("\n") if side else "")


def _xml_line(text: str, limit: int | None = None) -> str:
    return _NOT_XML.sub("\ufffd", safe_line(text, limit))


def _xml_text(text: str) -> str:
    return _NOT_XML.sub("\ufffd", safe(text))


KINDS = {"junit": ReportKind((".xml",), lambda reader, runs, raw: suites(reader, runs))}
