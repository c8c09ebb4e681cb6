"""An overview of a run by metric and judge, as a table, CSV and JSON."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from math import fsum
from typing import Any, Literal, NamedTuple

from tui_evals.datasets.resolve import EffectiveEvaluator, effective_evaluators
from tui_evals.light_records import dataclass
from tui_evals.store.details import read_scores
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow, ScoreRecord
from tui_evals.text.safe import csv_line, escape_formula

COMPLIANCE = "Compliance"
_SAME_METRIC = frozenset({"type", "judge", "threshold", "weight"})
"""Options that do not change what is measured."""

Scores = Mapping["Metric", Sequence[ScoreRecord]]


class Metric(NamedTuple):
    """A metric as one judge applies it, without a name if the judge is unknown; None is the average of several."""

    name: str
    judge: str | None

    @property
    def heading(self) -> str:
        """How its column is called."""
        judge = "average" if self.judge is None else self.judge
        return f"{self.name} with {judge}" if judge else self.name


@dataclass(frozen=True, slots=True)
class MetricMean:
    """The mean of a metric over some answers; errors and skipped records are in neither mean nor verdicts."""

    mean: float | None
    scored: int
    """How many scores the mean is of; for an average, of how many answers."""
    passed: int = 0
    failed: int = 0
    errored: int = 0
    skipped: int = 0

    @property
    def counted(self) -> int:
        """How many scores, or verdicts where there are no scores, come behind the figure."""
        return self.scored or self.passed + self.failed


class Names:
    """The metric and the judge behind every score of a run, as its dataset and its configuration name them."""

    def __init__(self, document: Mapping[str, Any], judge: str) -> None:
        self._judge = judge
        defaults = document.get("default_evaluators")
        plain = _UnitEvaluators(effective_evaluators(defaults, None, None, "item"))
        self._units = [_item_units(item, defaults, plain) for item in document["items"]]
        self._names = _metric_names({id(unit): unit for units in self._units for unit in units}.values())

    def of(self, item: int, turn: int, record: ScoreRecord) -> Metric:
        """The metric of a score of an item's turn; its key, with no judge, where the dataset has no such evaluator."""
        judge = record.details.get("judge")  # a recorded score of another tool says who judged
        judge_name = judge if isinstance(judge, str) else ""
        name = self._names.get(record.key)
        if name is None:
            return Metric(record.evaluator if judge_name else record.key, judge_name)
        return Metric(name, self._units[item][turn].judges.get(record.key) or judge_name or self._judge)


class _UnitEvaluators:
    """The judges and the other options of the evaluators of a turn, by their keys."""

    def __init__(self, evaluators: Iterable[EffectiveEvaluator]) -> None:
        self.judges: dict[str, str] = {}
        self.options: list[tuple[str, str, str]] = []
        for effective in evaluators:
            if isinstance(judge := effective.options.get("judge"), str):
                self.judges[effective.key] = judge
            rest = {name: value for name, value in effective.options.items() if name not in _SAME_METRIC}
            self.options.append((effective.key, effective.evaluator, json.dumps(rest, sort_keys=True)))


def _item_units(item: Mapping[str, Any], defaults: Any, plain: _UnitEvaluators) -> list[_UnitEvaluators]:
    units = []
    for unit in item.get("turns") or [item]:
        own, mode = unit.get("evaluators"), unit.get("evaluators_mode")
        units.append(plain if own is None else _UnitEvaluators(effective_evaluators(defaults, own, mode, "item")))
    return units


def _metric_names(units: Iterable[_UnitEvaluators]) -> dict[str, str]:
    """The name of a key's metric: its evaluator, or if that measures several things, its first key."""
    options: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for unit in units:
        for key, evaluator, rest in unit.options:
            options[key].add((evaluator, rest))
    first: dict[frozenset[tuple[str, str]], str] = {}
    for key, option_set in options.items():
        first.setdefault(frozenset(option_set), key)
    several = Counter(evaluator for option_set in first for evaluator in {evaluator for evaluator, _ in option_set})
    names = {}
    for key, option_set in options.items():
        evaluators = {evaluator for evaluator, _ in option_set}
        alone = len(evaluators) == 1 and all(several[evaluator] == 1 for evaluator in evaluators)
        names[key] = evaluators.pop() if alone else first[frozenset(option_set)]
    return names


def scores_by_metric(records: Iterable[tuple[Metric, ScoreRecord]]) -> dict[Metric, list[ScoreRecord]]:
    """The scores of one answer by their metrics."""
    by_metric: dict[Metric, list[ScoreRecord]] = {}
    for metric, record in records:
        by_metric.setdefault(metric, []).append(record)
    return by_metric


def with_averages(answers: Iterable[Scores]) -> list[Metric]:
    """The metrics in order of occurrence; one that several judges applied is followed by its average."""
    judged: dict[str, dict[Metric, None]] = {}
    scored: set[str] = set()
    for scores in answers:
        for metric, records in scores.items():
            judged.setdefault(metric.name, {})[metric] = None
            scored |= {metric.name for record in records if _judge_number(record) is not None}
    return [
        metric for name, by_judge in judged.items() for metric in _metrics_with_average(name, by_judge, name in scored)
    ]


def _metrics_with_average(name: str, judged: Collection[Metric], scored: bool) -> Iterator[Metric]:
    yield from judged
    if len(judged) > 1 and scored:
        yield Metric(name, None)


def measured(metric: Metric, answers: Iterable[Scores]) -> MetricMean:
    """The mean of a metric over some answers."""
    if metric.judge is None:
        means = [_mean(_judge_means(metric.name, scores)) for scores in answers]
        known = [mean for mean in means if mean is not None]
        return MetricMean(_mean(known), len(known))
    records = [record for scores in answers for record in scores.get(metric, ())]
    numbers = [number for record in records if (number := _judge_number(record)) is not None]
    results = [record.result for record in records]
    counts = (results.count(result) for result in ("pass", "fail", "error", "skipped"))
    return MetricMean(_mean(numbers), len(numbers), *counts)


def _judge_means(name: str, scores: Scores) -> list[float]:
    """The mean score of each judge of a metric for one answer."""
    by_judge = (
        [number for record in records if (number := _judge_number(record)) is not None]
        for metric, records in scores.items()
        if metric.name == name
    )
    return [mean for numbers in by_judge if (mean := _mean(numbers)) is not None]


def _judge_number(record: ScoreRecord) -> float | None:
    """The number a judge gave; a bare OK or ERR is none, although it is kept as 1 or 0."""
    return None if record.threshold is None and record.label in ("ok", "err") else record.score


def _mean(numbers: Sequence[float]) -> float | None:
    return fsum(numbers) / len(numbers) if numbers else None


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
    """Answers, and how many of them comply; those without a verdict are in no share."""

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
    metrics: Mapping[Metric, MetricMean]
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
    """The columns that identify a row; except for the model, only if they distinguish rows."""
    several = {name for name in ("run", "prompt") if len({getattr(row, name) for row in overview.rows}) > 1}
    scenario = {"scenario"} if any(row.scenario for row in overview.rows) else set()
    return [name for name in _NAMES if name in {"model"} | several | scenario]


def table(overview: Overview, *, counts: bool = False) -> tuple[list[str], list[list[str]]]:
    """Headings and rows, without columns that hold nothing; `counts` adds what comes behind each metric."""
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
        # PromptPex counts an answer without a verdict as not compliant.
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


def _metric_cells(measure: MetricMean | None, counts: bool) -> list[str]:
    figure, count = ("", "") if measure is None else (_figure_text(measure), str(measure.counted))
    return [figure, count] if counts else [figure]


def _figure_text(measure: MetricMean) -> str:
    """The mean of the scores; for a metric with only OK or ERR, how many are OK, and their share."""
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


def _metric_json(metric: Metric, measure: MetricMean) -> dict[str, Any]:
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
    """The origin of an item."""

    baseline: bool
    inverse: bool
    scenario: str
    validity: str | None


class Fact(NamedTuple):
    """One answer to a test with its scores; `verdict` is None if Compliance gave none."""

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
    for answer, record in read_scores(reader, run.id):
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
    """The origin of an item; None unless it was made from a rule, or as a baseline for those."""
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
    # One objection among several judges of Compliance is enough.
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
    """Notes to read before the rows of a run."""
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
