"""Reports for build servers: JUnit XML, and annotations that GitHub shows next to the lines of a dataset."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

from tui_evals.compare.diff import DiffGap, DiffRow, side_by_side, unified_diff
from tui_evals.compare.sides import column_name
from tui_evals.datasets.document import Document, load
from tui_evals.datasets.paths import DatasetError
from tui_evals.light_records import dataclass
from tui_evals.present.answers import answer_name, complaints, prompt_text, reference_text, shortened, skipped_text
from tui_evals.present.figures import column_measures, run_measures, skipped_sentence
from tui_evals.present.gates import gate_texts
from tui_evals.present.provenance import head_text
from tui_evals.present.runs import RunFacts, counts_sentence, run_cost, run_facts
from tui_evals.present.status import BAD, OVER, status_phrase
from tui_evals.reports.comparison import broken_in
from tui_evals.reports.results import AnswerEntry, ReportKind, read
from tui_evals.store import chains, run_figures
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow, Totals
from tui_evals.text.measures import counted
from tui_evals.text.names import numbered
from tui_evals.text.safe import safe, safe_line

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
    """The last of the runs as JUnit XML, with a note at each case that broke since the first."""
    run = runs[-1]
    broken = broken_in(reader, runs) if len(runs) > 1 else frozenset()
    since = f"broken since {runs[0].name} ({runs[0].key}): "
    items = reader.dataset(run).items
    totals = reader.totals_by(run.id, "column")
    whole = reader.totals(run.id)
    about = run_facts(run, whole, run_measures(reader, run, whole))
    head = {"signature": head_text(run.key, chains.last_link(reader.query, run.key))}
    signed = {name: value for name, value in head.items() if value}
    measures, skipped = (
        column_measures(reader, run, whole),
        skipped_sentence(run_figures.skipped(reader, run.id), run_figures.left_out(reader, run.id)),
    )
    tallies: defaultdict[tuple[int, int], _Tally] = defaultdict(_Tally)
    repeated = False
    for row in reader.all_rows(run.id):
        tallies[row.prompt, row.target].take(row)
        repeated = repeated or row.repeat > 0
    counts = _counts([*(tallies[key] for key in sorted(tallies)), _gate_tally(run)])
    root = ET.Element("testsuites", {"name": _xml_line(f"{run.name} ({run.key})"), **counts})
    del root.attrib["skipped"]
    yield '<?xml version="1.0" encoding="UTF-8"?>\n' + _opening(root, bool(tallies or run.gates))
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
                {
                    **_facts(run, about, *key, totals[key], measures.get(key, ()), skipped),
                    **_comparison_facts(runs),
                    **signed,
                }
            )
        )
        for row, answered in _cases(reader, run, tallies[key].ids, items):
            yield _text(_case(row, answered, items[row.item], run, repeated, since if row.id in broken else ""))
        yield "\n  </testsuite>"
    if run.gates:
        yield _gate_suite(run)
    yield ("\n</testsuites>" if tallies or run.gates else "") + "\n"


_GATES = "gates"
"""The suite of the gates, whose cases are no answers."""
_GATE_OUTCOMES = {"not met": "failure", "not decided": "skipped", "met": ""}


def _gate_suite(run: RunRow) -> str:
    """A suite with a case for each gate: one that is not met is a failure, one that is not decided is skipped."""
    started = datetime.fromtimestamp(run.started or run.created, UTC).isoformat()
    suite = ET.Element("testsuite", {"name": _GATES, "timestamp": started, **_counts([_gate_tally(run)])})
    gates = gate_texts(run.gates)
    for name, gate in zip(numbered(gate.name for gate in gates), gates, strict=True):
        case = ET.SubElement(suite, "testcase", name=_xml_line(name), classname=_GATES, time="0.000")
        if outcome := _GATE_OUTCOMES[gate.look.word]:
            element = ET.SubElement(case, outcome, message=_xml_line(gate.why, _MESSAGE))
            if outcome == "failure":
                element.set("type", "gate")
                element.text = "\n" + _xml_text(f"{gate.figure}\n{gate.why}") + "\n"
        else:
            ET.SubElement(case, "system-out").text = _xml_text(" ".join(filter(None, (gate.figure, gate.why))))
    ET.indent(suite, level=1)
    return "\n  " + ET.tostring(suite, encoding="unicode")


def _gate_tally(run: RunRow) -> _Tally:
    """The gates of a run as cases that take no time."""
    tally = _Tally()
    for number, gate in enumerate(run.gates):
        tally.ids.append(number)
        tally.outcomes[_GATE_OUTCOMES[gate.verdict]] += 1
    return tally


@dataclass(slots=True)
class _Tally:
    """The counting attributes of a suite, and the ids of its answers."""

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
    """The answers of a suite in order; for passed and unjudged ones only the row is read."""
    for start in range(0, len(ids), _PAGE):
        rows = reader.rows(ids[start : start + _PAGE])
        wrong = (row for row in rows if _OUTCOMES.get(row.status) or row.status == "unjudged")
        read_entries = {entry.row.id: entry for entry in read(reader, run, wrong, items, requests=True)}
        yield from ((row, read_entries.get(row.id)) for row in rows)


def _facts(
    run: RunRow, about: RunFacts, prompt: int, target: int, totals: Totals, measures: Sequence[str], skipped: str
) -> dict[str, str]:
    """The facts about the whole run, then about one column of it."""
    facts = {"run": run.key, "name": run.name, "status": about.look.word, "reason": about.reason}
    facts |= {"gates": about.verdict, "judged again": about.rejudged, "duration": about.duration}
    facts |= {"run counts": about.counts, "run cost": about.cost.text}
    facts |= {"dataset": run.source, "target": run.targets[target], "prompt": run.prompts[prompt]}
    over = run.status in OVER
    facts |= {"counts": counts_sentence(totals, measures, over=over), "cost": run_cost(totals).text}
    facts |= {"run skipped": skipped}
    if totals.cached:
        facts["cached"] = f"{counted(totals.cached, 'answer')} from the cache, with the time of the first call"
    return {name: value for name, value in facts.items() if value}


def _comparison_facts(runs: Sequence[RunRow]) -> dict[str, str]:
    return {"compared with": runs[0].key} if len(runs) > 1 else {}


def _properties(facts: Mapping[str, str]) -> ET.Element:
    properties = ET.Element("properties")
    for name, value in facts.items():
        ET.SubElement(properties, "property", name=name, value=_xml_line(value))
    return properties


def _seconds(row: AnswerRow) -> str:
    """The time to the answer; for a cached one, that of the original call, as `cached` tells."""
    return f"{(row.latency_ms or 0.0) / 1000:.3f}"


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
    if row.incomplete:
        case.insert(0, _properties({"incomplete": "an import left an assertion out of this verdict"}))
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


KINDS = {
    "junit": ReportKind(
        (".xml",), lambda reader, runs, raw: suites(reader, runs), has_companion=True, about="test results for CI"
    )
}


MOST = 10
"""How many of a level GitHub shows for one step."""

_LEVELS = {"error": "error", "fail": "error", "partial": "warning"}
_LONGEST_ANNOTATION = 1_000


def commands(reader: Reader, runs: Sequence[RunRow], root: Path, workspace: Path) -> Iterator[str]:
    """One line for each bad answer of a run, or for each that broke in the last of several; then how many more.

    `root` is the base of the dataset's path, `workspace` that of GitHub's paths.
    """
    run = runs[-1]
    repeated = run_figures.repeated(reader, run.id)
    items = reader.dataset(run).items
    bad = sorted(_bad_rows(reader, runs), key=lambda row: BAD.index(row.status))
    places = _places(run, items, root)
    counts: Counter[str] = Counter()
    shown = []
    for row in bad:
        counts[_LEVELS[row.status]] += 1
        if counts[_LEVELS[row.status]] <= MOST:
            shown.append(row)
    yield from _gate_commands(run)
    for answered in read(reader, run, shown, items, requests=True):
        row = answered.row
        where = places.of(row, workspace) if places else {}
        told = {**where, "title": _title(answered, run, repeated, len(runs) > 1)}
        yield _command(_LEVELS[row.status], told, _message(answered))
    if more := [f"{count - MOST} more {level}s" for level, count in counts.items() if count > MOST]:
        keys = " ".join(run.key for run in runs)
        listing = f"compare {keys} --only broken" if len(runs) > 1 else f"show {run.key} --only '!status:pass'"
        yield _command("notice", {"title": "tui-evals"}, f"{' and '.join(more)}; `tui-evals {listing}` lists all")


def _gate_commands(run: RunRow) -> Iterator[str]:
    """A line for each gate that is not met or not decided; they come first, because GitHub shows ten of a level."""
    for gate in gate_texts(run.gates):
        level = {"not met": "error", "not decided": "warning"}.get(gate.look.word)
        if level:
            figure = f"\nfigure: {gate.figure}" if gate.figure else ""
            yield _command(level, {"title": f"gate {gate.look.word}: {gate.name}"}, gate.why + figure)


def _bad_rows(reader: Reader, runs: Sequence[RunRow]) -> Iterable[AnswerRow]:
    broken = broken_in(reader, runs) if len(runs) > 1 else None
    rows = reader.all_rows(runs[-1].id)
    return (row for row in rows if (row.status in BAD if broken is None else row.id in broken))


def _title(answered: AnswerEntry, run: RunRow, repeated: bool, compared: bool) -> str:
    row = answered.row
    several = len(run.targets) * len(run.prompts) > 1
    column = f" · {column_name(run, row.prompt, row.target)}" if several else ""
    name = answer_name(row, "turns" in answered.item, repeated)
    status = "failed" if row.status == "fail" else status_phrase(row.status)
    return f"{name}{column}: {'broken' if compared else status}"


def _message(answered: AnswerEntry) -> str:
    text = "\n".join(complaints(answered.record, answered.scores)) or "no evaluator gave a reason"
    answer = answered.record.text if answered.record else None
    return shortened(text, _LONGEST_ANNOTATION) + (
        f"\nanswer: {safe_line(answer, _LONGEST_ANNOTATION)}" if answer else ""
    )


def _command(level: str, properties: Mapping[str, str], message: str) -> str:
    """The command in one line that no text in it can end."""
    written = ",".join(f"{name}={_escaped_property(value)}" for name, value in properties.items())
    return f"::{level} {written}::{_escaped_data(message)}"


def _escaped_data(text: str) -> str:
    return safe(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escaped_property(text: str) -> str:
    return _escaped_data(safe_line(text, 200)).replace(":", "%3A").replace(",", "%2C")


@dataclass(frozen=True, slots=True)
class _Places:
    """The positions of a run's items in the current dataset file; None for those without a line."""

    document: Document
    now: Sequence[int | None]
    whole: Sequence[bool]
    """Whether an item is unchanged, so that its turns have the same positions."""

    def of(self, row: AnswerRow, workspace: Path) -> dict[str, str]:
        number = self.now[row.item]
        if number is None:
            return {}
        turn = ("turns", row.turn) if self.whole[row.item] and "turns" in self.document.data["items"][number] else ()
        line = self.document.line(("items", number, *turn))
        if line is None:
            return {}
        file = self.document.file.resolve()
        inside = file.is_relative_to(workspace.resolve())
        return {"file": (file.relative_to(workspace.resolve()) if inside else file).as_posix(), "line": str(line)}


def _places(run: RunRow, items: Sequence[Mapping[str, Any]], root: Path) -> _Places | None:
    file = next((file for file in (root / run.source, Path(run.source)) if file.is_file()), None)
    if file is None or file.suffix == ".gz":
        return None
    try:
        document = load(file)
    except DatasetError:
        # The file is no dataset any more, so there is no line to point at.
        return None
    current = document.data.get("items")
    if not isinstance(current, list):
        return None
    was, now = ([json.dumps(item, sort_keys=True) for item in side] for side in (items, current))
    places = _current_places([*map(_test_id, items)], [*map(_test_id, current)], was, now)
    whole = [place is not None and now[place] == was[number] for number, place in enumerate(places)]
    return _Places(document, places, whole)


def _test_id(item: object) -> str | None:
    test_id = item.get("testId") if isinstance(item, dict) else None
    return test_id if isinstance(test_id, str) else None


def _current_places(
    ids: Sequence[str | None], ids_now: Sequence[str | None], was: Sequence[str], now: Sequence[str]
) -> list[int | None]:
    """The place of each item: by a unique testId, by equal content in the same place, or by unique content."""
    by_id, by_text = _unique_places(ids, ids_now), _unique_places(was, now)
    return [
        by_id[test_id]
        if test_id in by_id
        else number
        if number < len(now) and now[number] == text
        else by_text.get(text)
        for number, (test_id, text) in enumerate(zip(ids, was, strict=True))
    ]


def _unique_places(was: Sequence[str | None], now: Sequence[str | None]) -> dict[str | None, int]:
    before, after = Counter(was), Counter(now)
    return {key: n for n, key in enumerate(now) if key is not None and after[key] == 1 == before[key]}
