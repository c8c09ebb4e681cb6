"""JUnit XML for build servers: a suite for each column of a run, a test case for each answer."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import PurePosixPath

from tui_evals.compare.diff import DiffGap, DiffRow, side_by_side, unified_diff
from tui_evals.compare.sides import column_name
from tui_evals.present.answers import answer_name, complaints, prompt_text, reference_text, shortened
from tui_evals.present.measures import column_measures, run_measures
from tui_evals.present.runs import RunFacts, counts_sentence, run_cost, run_facts
from tui_evals.present.status import status_phrase
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow, Totals
from tui_evals.text.safe import safe, safe_line

from .base import ReportKind
from .comparison import broken_in
from .results import AnswerEntry, read

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LONGEST = 20_000
_MESSAGE = 300
_WHY_SKIPPED = {
    "answered": status_phrase("answered"),
    "unjudged": "unjudged: no evaluator gave a result",
    "scored": "scored: nothing that judged it can pass or fail",
}
_OUTCOMES = {"fail": "failure", "error": "error", "partial": "error", "pass": ""}


def suites(reader: Reader, runs: Sequence[RunRow]) -> str:
    """The last of the runs as JUnit XML; what broke since the first says so."""
    run = runs[-1]
    broken = broken_in(reader, runs) if len(runs) > 1 else frozenset()
    since = f"broken since {runs[0].name} ({runs[0].key}): "
    items = reader.judged_by(run).document["items"]
    totals = reader.totals_by(run.id, "column")
    whole = reader.totals(run.id)
    about = run_facts(run, whole, reader.spent(run.id)[1], run_measures(reader, run, whole))
    measures = column_measures(reader, run, whole)
    rows = sorted(reader.all_rows(run.id), key=_column)
    repeated = any(row.repeat for row in rows)
    root = ET.Element("testsuites", name=_xml_line(f"{run.name} ({run.key})"))
    for key, group in groupby(rows, key=_column):
        suite = ET.SubElement(root, "testsuite", name=_xml_line(column_name(run, *key)))
        properties = {**_facts(run, about, *key, totals[key], measures.get(key, ())), **_comparison_facts(runs)}
        _properties(suite, properties)
        for row in group:
            answered = read(reader, run, row, items[row.item])
            suite.append(_case(answered, run, repeated, since if row.id in broken else ""))
        suite.attrib |= {
            "timestamp": datetime.fromtimestamp(run.started or run.created, UTC).isoformat(),
            **_case_counts(suite),
        }
    root.attrib |= {name: value for name, value in _case_counts(root).items() if name != "skipped"}
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _column(row: AnswerRow) -> tuple[int, int]:
    return row.prompt, row.target


def _facts(
    run: RunRow, about: RunFacts, prompt: int, target: int, totals: Totals, measures: Sequence[str]
) -> dict[str, str]:
    """What is known of the run as a whole, then of one column of it."""
    facts = {"run": run.key, "name": run.name, "status": about.look.word, "reason": about.reason}
    facts |= {"gates": about.verdict, "duration": about.duration}
    facts |= {"run counts": about.counts, "run cost": about.cost.text}
    facts |= {"dataset": run.source, "target": run.targets[target], "prompt": run.prompts[prompt]}
    facts |= {"counts": counts_sentence(totals, measures), "cost": run_cost(totals).text}
    return {name: value for name, value in facts.items() if value}


def _comparison_facts(runs: Sequence[RunRow]) -> dict[str, str]:
    return {"compared with": runs[0].key} if len(runs) > 1 else {}


def _properties(suite: ET.Element, facts: Mapping[str, str]) -> None:
    properties = ET.SubElement(suite, "properties")
    for name, value in facts.items():
        ET.SubElement(properties, "property", name=name, value=_xml_line(value))


def _case_counts(parent: ET.Element) -> dict[str, str]:
    """What the counting attributes of a suite, or of all, say of its cases."""
    cases = list(parent.iter("testcase"))
    counts = {"tests": len(cases)}
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        counts[name] = sum(case.find(tag) is not None for case in cases)
    seconds = sum(float(case.get("time", 0)) for case in cases)
    return {**{name: str(count) for name, count in counts.items()}, "time": f"{seconds:.3f}"}


def _case(answered: AnswerEntry, run: RunRow, repeated: bool, since: str) -> ET.Element:
    row = answered.row
    dataset = PurePosixPath(run.source.replace("\\", "/")).stem or "dataset"
    case = ET.Element(
        "testcase",
        name=_xml_line(answer_name(row, "turns" in answered.item, repeated)),
        classname=_xml_line(".".join(part for part in (dataset, row.category) if part)),
        time=f"{(0.0 if row.from_cache else row.latency_ms or 0.0) / 1000:.3f}",
    )
    outcome = _OUTCOMES.get(row.status, "skipped")
    if outcome == "skipped":
        ET.SubElement(case, outcome, message=_WHY_SKIPPED.get(row.status, "no answer yet"))
    elif outcome:
        why = list(complaints(answered.record, answered.scores))
        element = ET.SubElement(case, outcome, type=row.status, message=_xml_line(since + "; ".join(why), _MESSAGE))
        element.text = "\n" + _xml_text("\n".join(_body(answered, why))) + "\n"
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
