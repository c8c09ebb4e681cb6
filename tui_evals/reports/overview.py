"""How far the models of runs keep to the rules that their tests were made from: PromptPex's overview."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow, ScoreRecord

from .metrics import COMPLIANCE, Metric, Names, Scores, measured, sorted_out, with_averages
from .overview_rows import Counted, Overview, Row

Verdict = Literal["ok", "err"]
_Column = tuple[int, int, str]
"""A prompt and a target, by position, and a scenario."""


class NotFromRules(Exception):
    """A run's dataset was not made from rules; the message says what an overview needs."""


class Made(NamedTuple):
    """What an item was made from."""

    baseline: bool
    inverse: bool
    scenario: str
    validity: str | None


class Fact(NamedTuple):
    """One answer to a test, and what was found of it; `verdict` is None where Compliance gave none."""

    made: Made
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
        found = [_row(run, column, facts, used) for column, facts in groups.items()]
        rows += found
        notes += _notes(reader, run, found)
    return Overview(tuple(rows), tuple(metrics), tuple(notes))


def _groups(reader: Reader, run: RunRow, unjudged: Collection[str]) -> dict[_Column, list[Fact]]:
    """The answers to tests by their columns, in the order of the targets and of the scenarios in the dataset."""
    document = reader.snapshot(run.snapshot)
    made = [_made(item) for item in document["items"]]
    scenarios = list(dict.fromkeys(one.scenario for one in made if one is not None))
    named = next(filter(None, scenarios), "")
    names = Names(document, _judge(reader, run))
    scores = defaultdict[int, list[ScoreRecord]](list)
    for answer, record in reader.scores(run.id):
        if record.evaluator not in unjudged:
            scores[answer].append(record)
    found: defaultdict[_Column, list[Fact]] = defaultdict(list)
    for row in reader.all_rows(run.id):
        if (one := made[row.item]) is not None:
            column = row.prompt, row.target, one.scenario or named
            found[column].append(_fact(one, row, scores.get(row.id, ()), names))
    if not found:
        raise NotFromRules(
            f"{run.key} ({run.name}) asked {run.source}: no item of it was made from a rule; an overview needs items "
            "that say under extensions.promptpex which rule they test, as `tui-evals generate PROMPT` makes them"
        )
    return {key: found[key] for key in sorted(found, key=lambda key: (*key[:2], scenarios.index(key[2])))}


def _made(item: Mapping[str, Any]) -> Made | None:
    """What an item was made from; None for one that was not made from a rule nor as a baseline for those that were."""
    own = (item.get("extensions") or {}).get("promptpex")
    if not isinstance(own, Mapping):
        return None
    baseline = own.get("baseline") is True
    if not (baseline or own.get("rule") or own.get("ruleid") is not None):
        return None
    scenario = own.get("scenario")
    named = scenario if isinstance(scenario, str) else ""
    return Made(baseline, own.get("inverse") is True, named, own.get("validity"))


def _fact(made: Made, row: AnswerRow, records: Iterable[ScoreRecord], names: Names) -> Fact:
    verdicts, others = [], []
    for record in records:
        if record.evaluator == COMPLIANCE:
            verdicts.append(record.result)
        else:
            others.append((names.of(row.item, row.turn, record), record))
    # Of several judges of Compliance each may object.
    verdict: Verdict | None = "err" if "fail" in verdicts else "ok" if "pass" in verdicts else None
    return Fact(made, row.status, verdict, sorted_out(others))


def _judge(reader: Reader, run: RunRow) -> str:
    """The judge of the scoring pass that counts; empty where nobody says."""
    judge = {**run.config, **_pass_config(reader, run)}.get("judge")
    return str(judge.get("name") or "") if isinstance(judge, Mapping) else ""


def _pass_config(reader: Reader, run: RunRow) -> Mapping[str, Any]:
    return next((one.config for one in reader.passes(run.id) if one.number == run.scoring_pass), {})


def _row(run: RunRow, column: _Column, facts: Sequence[Fact], metrics: Iterable[Metric]) -> Row:
    prompt, target, scenario = column
    there = [fact for fact in facts if fact.status not in ("pending", "running", "error")]
    tests = [fact for fact in there if not fact.made.baseline]
    return Row(
        run=run.key,
        model=run.targets[target],
        prompt=run.prompts[prompt],
        scenario=scenario,
        errors=sum(fact.status == "error" for fact in facts),
        waiting=sum(fact.status in ("pending", "running") for fact in facts),
        tests=_counted(tests),
        baseline=_counted(fact for fact in there if fact.made.baseline),
        positive=_counted(fact for fact in tests if not fact.made.inverse),
        negative=_counted(fact for fact in tests if fact.made.inverse),
        valid=_counted(fact for fact in tests if fact.made.validity == "ok"),
        invalid=_counted(fact for fact in tests if fact.made.validity == "err"),
        metrics={metric: measured(metric, [fact.scores for fact in tests]) for metric in metrics},
    )


def _counted(facts: Iterable[Fact]) -> Counted:
    verdicts = [fact.verdict for fact in facts]
    return Counted(len(verdicts), len(verdicts) - verdicts.count(None), verdicts.count("ok"))


def _notes(reader: Reader, run: RunRow, rows: Sequence[Row]) -> list[str]:
    """What to know of a run before reading its rows."""
    notes = []
    if _pass_config(reader, run).get("dataset"):
        notes.append(f"{run.key}: scored again as an edited dataset says; judges are named as the run's own does.")
    if waiting := sum(row.waiting for row in rows):
        notes.append(f"{run.key}: {_many(waiting, 'answer is', 'answers are')} not there yet and counted nowhere.")
    if not any(row.tests.judged or row.baseline.judged for row in rows):
        notes.append(f"{run.key}: Compliance judged no answer, so nothing is known of what complies.")
    for metric in rows[0].metrics:
        found = [row.metrics[metric] for row in rows]
        errored, skipped = sum(one.errored for one in found), sum(one.skipped for one in found)
        if errored or skipped:
            said = [f"{_many(errored, 'answer', 'answers')} could not be judged"] if errored else []
            said += [f"{_many(skipped, 'answer was', 'answers were')} skipped"] if skipped else []
            notes.append(f"{run.key}: {metric.heading}: {', '.join(said)}; its figures leave them out.")
    return notes


def _many(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"
