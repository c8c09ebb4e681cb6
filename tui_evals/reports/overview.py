"""An overview as rows, and these as a table, CSV and JSON."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow, ScoreRecord
from tui_evals.text.cells import csv_line, escape_formula

from .metrics import COMPLIANCE, Measured, Metric, Names, Scores, measured, scores_by_metric, with_averages

_NAMES = ("run", "model", "prompt", "scenario")
_KINDS = ("positive", "negative", "valid", "invalid")
_FALLIBLE = (
    frozenset(("errors", "baseline", "baseline compliant"))
    | {f"{name} {column}" for name in ("tests", "baseline") for column in ("compliant of all", "not judged")}
    | {f"tests {kind}{end}" for kind in _KINDS for end in ("", " compliant")}
)
"""Columns that are left out where no row has a value in them."""
_NOTHING = frozenset(("0", "0%", "--", "---"))


@dataclass(frozen=True, slots=True)
class Counted:
    """Answers, and how many of them keep to the rules; those without a verdict are in no share."""

    answers: int
    judged: int
    compliant: int

    @property
    def unjudged(self) -> int:
        """How many answers have no verdict."""
        return self.answers - self.judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One model in one scenario of a run."""

    run: str
    model: str
    prompt: str
    scenario: str
    errors: int
    """Answers without a text, to tests and baseline tests."""
    waiting: int
    """Answers that are not there yet."""
    tests: Counted
    baseline: Counted
    positive: Counted
    negative: Counted
    valid: Counted
    invalid: Counted
    metrics: Mapping[Metric, Measured]
    """Over the answers to tests, baseline tests left out."""


@dataclass(frozen=True, slots=True)
class Overview:
    """The rows of one run after the other, and what to know before reading them."""

    rows: tuple[Row, ...]
    metrics: tuple[Metric, ...]
    notes: tuple[str, ...]


def percent(part: int, whole: int) -> str:
    """A share as a whole number of percent, halves rounded up; `--` of nothing."""
    return f"{(200 * part + whole) // (2 * whole)}%" if whole else "--"


def naming_columns(overview: Overview) -> list[str]:
    """The columns that say whose row it is; all but the model only where they tell rows apart."""
    several = {name for name in ("run", "prompt") if len({getattr(row, name) for row in overview.rows}) > 1}
    scenario = {"scenario"} if any(row.scenario for row in overview.rows) else set()
    return [name for name in _NAMES if name in {"model"} | several | scenario]


def table(overview: Overview, *, counts: bool = False) -> tuple[list[str], list[list[str]]]:
    """Headings and rows, without columns that hold nothing; `counts` adds what stands behind each metric."""
    names = naming_columns(overview)
    counted = [_count_cells(row) for row in overview.rows]
    columns = [
        column
        for column in counted[0]
        if column not in _FALLIBLE or not _NOTHING.issuperset(cells[column] for cells in counted)
    ]
    headings = [*names, *columns, *(part for metric in overview.metrics for part in _headings(metric, counts))]
    rows = [
        [
            *(getattr(row, name) for name in names),
            *(cells[column] for column in columns),
            *(part for metric in overview.metrics for part in _metric_cells(row.metrics.get(metric), counts)),
        ]
        for row, cells in zip(overview.rows, counted, strict=True)
    ]
    return headings, rows


def _count_cells(row: Row) -> dict[str, str]:
    cells = {"errors": str(row.errors)}
    for name, counted in (("tests", row.tests), ("baseline", row.baseline)):
        cells[name] = str(counted.answers)
        cells[f"{name} compliant"] = percent(counted.compliant, counted.judged)
        # PromptPex counts an answer without a verdict as one that does not comply.
        of_all = percent(counted.compliant, counted.answers) if counted.judged and counted.unjudged else "--"
        cells[f"{name} compliant of all"] = of_all
        cells[f"{name} not judged"] = str(counted.unjudged)
    for kind in _KINDS:
        counted = getattr(row, kind)
        cells[f"tests {kind}"] = str(counted.answers)
        cells[f"tests {kind} compliant"] = str(counted.compliant)
    return cells


def _headings(metric: Metric, counts: bool) -> list[str]:
    return [metric.heading, f"{metric.heading} n"] if counts else [metric.heading]


def _metric_cells(measure: Measured | None, counts: bool) -> list[str]:
    figure, count = ("", "") if measure is None else (_figure_text(measure), str(measure.counted))
    return [figure, count] if counts else [figure]


def _figure_text(measure: Measured) -> str:
    """The mean of the scores; of a metric that only says OK or ERR, how many are OK, and their share."""
    if measure.mean is not None:
        return f"{measure.mean:.2f}".rstrip("0").rstrip(".")
    return f"{measure.passed} ({percent(measure.passed, measure.counted)})" if measure.counted else "--"


def csv_text(overview: Overview, *, raw: bool = False) -> str:
    """The overview as CSV; names that a spreadsheet could run are made harmless unless `raw`."""
    headings, rows = table(overview, counts=True)
    names = len(naming_columns(overview))
    foreign = [True] * len(headings), *([place < names for place in range(len(headings))] for _ in rows)
    return "".join(
        csv_line(
            escape_formula(cell) if guarded and not raw else cell for cell, guarded in zip(line, guarding, strict=True)
        )
        for line, guarding in zip((headings, *rows), foreign, strict=True)
    )


def json_text(overview: Overview) -> str:
    """The overview with every number, also those that its table leaves out."""
    document = {"rows": [_row_json(row) for row in overview.rows], "notes": list(overview.notes)}
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def _row_json(row: Row) -> dict[str, Any]:
    return {
        **{name: getattr(row, name) for name in (*_NAMES, "errors", "waiting")},
        **{name: _counted_json(getattr(row, name)) for name in ("tests", "baseline", *_KINDS)},
        "metrics": [_metric_json(metric, measure) for metric, measure in row.metrics.items()],
    }


def _counted_json(counted: Counted) -> dict[str, Any]:
    return {
        "answers": counted.answers,
        "compliant": counted.compliant,
        "not_compliant": counted.judged - counted.compliant,
        "not_judged": counted.unjudged,
        "share": counted.compliant / counted.judged if counted.judged else None,
    }


def _metric_json(metric: Metric, measure: Measured) -> dict[str, Any]:
    known = {"column": metric.heading, "metric": metric.name, "judge": metric.judge or None}
    if metric.judge is None:
        return known | {"average": True, "mean": measure.mean, "scored": measure.scored}
    return known | {"average": False, **asdict(measure)}


Verdict = Literal["ok", "err"]
_Column = tuple[int, int, str]
"""A prompt and a target, by position, and a scenario."""


class NotFromRules(Exception):
    """A run's dataset was not made from rules; the message says what an overview needs."""


class ItemOrigin(NamedTuple):
    """What an item was made from."""

    baseline: bool
    inverse: bool
    scenario: str
    validity: str | None


class Fact(NamedTuple):
    """One answer to a test with its scores; `verdict` is None where Compliance gave none."""

    origin: ItemOrigin
    status: str
    verdict: Verdict | None
    scores: Scores


def read_overview(reader: Reader, runs: Sequence[RunRow], unjudged: Collection[str]) -> Overview:
    """The overview of some runs; `unjudged` names the evaluators that ask no judge and so are no metrics."""
    rows, metrics, notes = [], dict[Metric, None](), []
    for run in runs:
        groups = _groups(reader, run, unjudged)
        used = with_averages(fact.scores for facts in groups.values() for fact in facts)
        metrics |= dict.fromkeys(used)
        run_rows = [_row(run, column, facts, used) for column, facts in groups.items()]
        rows += run_rows
        notes += _notes(reader, run, run_rows)
    return Overview(tuple(rows), tuple(metrics), tuple(notes))


def _groups(reader: Reader, run: RunRow, unjudged: Collection[str]) -> dict[_Column, list[Fact]]:
    """The answers to tests by their columns, in the order of the targets and of the scenarios in the dataset."""
    document = reader.snapshot(run.snapshot)
    origins = [_item_origin(item) for item in document["items"]]
    scenarios = list(dict.fromkeys(origin.scenario for origin in origins if origin is not None))
    first_scenario = next(filter(None, scenarios), "")
    names = Names(document, _judge_name(reader, run))
    scores = defaultdict[int, list[ScoreRecord]](list)
    for answer, record in reader.scores(run.id):
        if record.evaluator not in unjudged:
            scores[answer].append(record)
    groups: defaultdict[_Column, list[Fact]] = defaultdict(list)
    for row in reader.all_rows(run.id):
        if (origin := origins[row.item]) is not None:
            column = row.prompt, row.target, origin.scenario or first_scenario
            groups[column].append(_fact(origin, row, scores.get(row.id, ()), names))
    if not groups:
        raise NotFromRules(
            f"{run.key} ({run.name}) asked {run.source}: no item of it was made from a rule; an overview needs items "
            "that say under extensions.promptpex which rule they test, as `tui-evals generate PROMPT` makes them"
        )
    return {key: groups[key] for key in sorted(groups, key=lambda key: (*key[:2], scenarios.index(key[2])))}


def _item_origin(item: Mapping[str, Any]) -> ItemOrigin | None:
    """What an item was made from; None for one that was not made from a rule nor as a baseline for those that were."""
    own = (item.get("extensions") or {}).get("promptpex")
    if not isinstance(own, Mapping):
        return None
    baseline = own.get("baseline") is True
    if not (baseline or own.get("rule") or own.get("ruleid") is not None):
        return None
    scenario = own.get("scenario")
    scenario_name = scenario if isinstance(scenario, str) else ""
    return ItemOrigin(baseline, own.get("inverse") is True, scenario_name, own.get("validity"))


def _fact(origin: ItemOrigin, row: AnswerRow, records: Iterable[ScoreRecord], names: Names) -> Fact:
    verdicts, others = [], []
    for record in records:
        if record.evaluator == COMPLIANCE:
            verdicts.append(record.result)
        else:
            others.append((names.of(row.item, row.turn, record), record))
    # Of several judges of Compliance each may object.
    verdict: Verdict | None = "err" if "fail" in verdicts else "ok" if "pass" in verdicts else None
    return Fact(origin, row.status, verdict, scores_by_metric(others))


def _judge_name(reader: Reader, run: RunRow) -> str:
    """The judge of the scoring pass that counts; empty where none is named."""
    judge = {**run.config, **_pass_config(reader, run)}.get("judge")
    return str(judge.get("name") or "") if isinstance(judge, Mapping) else ""


def _pass_config(reader: Reader, run: RunRow) -> Mapping[str, Any]:
    return next((scoring.config for scoring in reader.passes(run.id) if scoring.number == run.scoring_pass), {})


def _row(run: RunRow, column: _Column, facts: Sequence[Fact], metrics: Iterable[Metric]) -> Row:
    prompt, target, scenario = column
    answered = [fact for fact in facts if fact.status not in ("pending", "running", "error")]
    tests = [fact for fact in answered if not fact.origin.baseline]
    return Row(
        run=run.key,
        model=run.targets[target],
        prompt=run.prompts[prompt],
        scenario=scenario,
        errors=sum(fact.status == "error" for fact in facts),
        waiting=sum(fact.status in ("pending", "running") for fact in facts),
        tests=_count_verdicts(tests),
        baseline=_count_verdicts(fact for fact in answered if fact.origin.baseline),
        positive=_count_verdicts(fact for fact in tests if not fact.origin.inverse),
        negative=_count_verdicts(fact for fact in tests if fact.origin.inverse),
        valid=_count_verdicts(fact for fact in tests if fact.origin.validity == "ok"),
        invalid=_count_verdicts(fact for fact in tests if fact.origin.validity == "err"),
        metrics={metric: measured(metric, [fact.scores for fact in tests]) for metric in metrics},
    )


def _count_verdicts(facts: Iterable[Fact]) -> Counted:
    verdicts = [fact.verdict for fact in facts]
    return Counted(len(verdicts), len(verdicts) - verdicts.count(None), verdicts.count("ok"))


def _notes(reader: Reader, run: RunRow, rows: Sequence[Row]) -> list[str]:
    """What to know of a run before reading its rows."""
    notes = []
    if _pass_config(reader, run).get("dataset"):
        notes.append(f"{run.key}: scored again as an edited dataset says; judges are named as the run's own does.")
    if waiting := sum(row.waiting for row in rows):
        notes.append(
            f"{run.key}: {_count_phrase(waiting, 'answer is', 'answers are')} not there yet and counted nowhere."
        )
    if not any(row.tests.judged or row.baseline.judged for row in rows):
        notes.append(f"{run.key}: Compliance judged no answer, so nothing is known of what complies.")
    for metric in rows[0].metrics:
        measures = [row.metrics[metric] for row in rows]
        errored, skipped = sum(measure.errored for measure in measures), sum(measure.skipped for measure in measures)
        if errored or skipped:
            problems = [f"{_count_phrase(errored, 'answer', 'answers')} could not be judged"] if errored else []
            problems += [f"{_count_phrase(skipped, 'answer was', 'answers were')} skipped"] if skipped else []
            notes.append(f"{run.key}: {metric.heading}: {', '.join(problems)}; its figures leave them out.")
    return notes


def _count_phrase(count: int, singular: str, plural: str) -> str:
    return f"{count:,} {singular if count == 1 else plural}"
