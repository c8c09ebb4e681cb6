"""What a script asks of a run: gates, the run it is measured against, and whether they are met."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tui_evals.compare.measures import LEVEL, MeasuredDifference, RunDifference
from tui_evals.compare.runs import read_comparison
from tui_evals.compare.verdicts import difference_sentence, measured_sentence
from tui_evals.store.baselines import baseline_of
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, ScoreRecord, Totals

from .plan import CannotPlan
from .scoring import column_scores
from .selection import find_run

_BAD = {"fail": ("failed", "partial", "errored"), "partial": ("partial", "errored"), "error": ("errored",)}


@dataclass(frozen=True, slots=True)
class Gates:
    """What a script asks of a run."""

    fail_under: float | None = None
    fail_on: str | None = None
    against: str | None = None
    """The run to measure against, as it was named; else it is the baseline of the dataset."""
    level: float | None = None
    """How rare chance must make what counts as a regression; None when regressions are no gate."""
    baseline: RunRow | None = None
    """The run to measure against, once it was found."""

    @property
    def measuring(self) -> bool:
        """Whether the run is to be measured against another."""
        return self.against is not None or self.level is not None

    @property
    def has_checks(self) -> bool:
        """Whether any gate is set or a comparison wanted."""
        return self.measuring or self.fail_under is not None or self.fail_on is not None


@dataclass(frozen=True, slots=True)
class Check:
    """A gate, and the sentences that say why it was not met."""

    gate: str
    says: tuple[str, ...] = ()

    @property
    def met(self) -> bool:
        """Whether the gate was met."""
        return not self.says


@dataclass(frozen=True, slots=True)
class GateResults:
    """What the gates of a run came to, and how it went against another where that was asked for."""

    checks: tuple[Check, ...] = ()
    baseline: str = ""
    """The key of the run it was measured against; empty without one."""
    verdict: str = ""
    against: RunDifference | None = None

    @property
    def met(self) -> bool:
        """Whether every gate was met."""
        return all(check.met for check in self.checks)

    def event(self) -> dict[str, Any]:
        """The same for a script."""
        gates = [{"gate": check.gate, "met": check.met, "says": list(check.says)} for check in self.checks]
        if not self.baseline:
            return {"gates": gates, "against": None}
        comparison: dict[str, Any] = {"baseline": self.baseline, "verdict": self.verdict}
        if self.against is not None:
            comparison |= {"items": self.against.items, "broken": self.against.broken, "fixed": self.against.fixed}
            comparison["tests"] = [_test_json(test) for test in (self.against.passes, *self.against.tests)]
        return {"gates": gates, "against": comparison}


def why_no_baseline(reader: Reader, run: RunRow) -> str | None:
    """Why nothing can be measured against a run; None where it can."""
    if run.status != "finished":
        return f"{run.key} is {run.status}, and what it has not answered would be missing from every comparison"
    total = reader.totals(run.id)
    return None if total.passed + total.failed else f"{run.key} has not a single answer that was judged"


def with_baseline(gates: Gates, reader: Reader, dataset: str, run: RunRow | None = None) -> Gates:
    """The gates with the run to measure `run` or a new one against; CannotPlan where there is none."""
    if not gates.measuring:
        return gates
    if gates.against is not None:
        baseline = find_run(reader, gates.against)
    elif (kept := baseline_of(reader, dataset)) is not None:
        baseline = reader.run(kept.run)
    else:
        raise CannotPlan(
            f"no baseline is set for {dataset}, so --fail-on-regression has nothing to measure against; set one with "
            "`tui-evals baseline set RUN`, or name a run with --baseline RUN",
            "arguments",
        )
    if run is not None and run.id == baseline.id:
        itself = f"{run.key} is the baseline itself and cannot be measured against"
        raise CannotPlan(f"{itself}; name another with --baseline RUN", "arguments")
    if (why := why_no_baseline(reader, baseline)) is not None:
        raise CannotPlan(f"{why}, so nothing can be measured against it; name another with --baseline RUN", "arguments")
    return replace(gates, baseline=baseline)


def check_gates(reader: Reader, run: RunRow, total: Totals, gates: Gates) -> GateResults:
    """Whether a finished run meets its gates."""
    if not any(row.preview for row in reader.all_rows(run.id) if row.code is None):
        return GateResults((Check("answers", ("there is not a single answer",)),))
    checks = []
    if gates.fail_on:
        bad = sum(getattr(total, name) for name in _BAD[gates.fail_on])
        says = (f"{bad} answers are {gates.fail_on} or worse (--fail-on {gates.fail_on})",) if bad else ()
        checks.append(Check(f"--fail-on {gates.fail_on}", says))
    if gates.fail_under is not None:
        low = tuple(_low_score_sentences(reader, run, gates.fail_under))
        checks.append(Check(f"--fail-under {gates.fail_under:g}", low))
    if gates.baseline is None:
        return GateResults(tuple(checks))
    try:
        return _against_baseline(reader, run, gates.baseline, gates.level, tuple(checks))
    except LookupError as problem:
        gone = f"{run.key} cannot be measured against {gates.baseline.key} any more: {problem.args[0]}"
        return GateResults((*checks, Check("baseline", (gone,))))


def _against_baseline(
    reader: Reader, run: RunRow, baseline: RunRow, level: float | None, checks: tuple[Check, ...]
) -> GateResults:
    (difference,) = read_comparison(reader, [baseline.id, run.id]).against
    verdict = difference_sentence(difference, baseline.key, run.key, level or LEVEL)
    if apart := difference.counts.get("gone", 0) + difference.counts.get("not comparable", 0):
        verdict += f" {apart:,} {'answer' if apart == 1 else 'answers'} of {baseline.key} could not be compared."
    if level is None:
        return GateResults(checks, baseline.key, verdict, difference)
    gate = f"--fail-on-regression={level:g}"
    says = tuple(
        f"worse ({gate}): {_test_sentence(test, difference, baseline.key, run.key, level)}"
        for test in difference.worse(level)
    )
    if not says and not difference.items:
        says = (f"{gate} cannot be checked, which counts as not met: {verdict}",)
    return GateResults((*checks, Check(gate, says)), baseline.key, verdict, difference)


def _test_sentence(test: MeasuredDifference, difference: RunDifference, before: str, after: str, level: float) -> str:
    if test.what or test.column:
        return measured_sentence(test, before, after, level)
    return difference_sentence(difference, before, after, level)


def _test_json(test: MeasuredDifference) -> dict[str, Any]:
    """One test for a script."""
    return {
        "evaluator": test.what,
        "column": test.column,
        "items": test.items,
        "baseline": test.before,
        "run": test.after,
        "p": test.adjusted,
    }


def _low_score_sentences(reader: Reader, run: RunRow, least: float) -> list[str]:
    """A sentence for each column that scores less."""
    sentences = []
    for column, score in _scores_by_column(reader, run).items():
        if score is None or score < least:
            shown = "n/a" if score is None else f"{score:.1f}"
            sentences.append(f"{column} scores {shown}, less than {least:g} (--fail-under)")
    return sentences


def _scores_by_column(reader: Reader, run: RunRow) -> dict[str, float | None]:
    """The score of each column by its name."""
    scores: dict[int, list[ScoreRecord]] = {}
    for answer, record in reader.scores(run.id):
        scores.setdefault(answer, []).append(record)
    by_column = column_scores(reader.all_rows(run.id), scores, reader.snapshot(run.snapshot)["items"])
    several = len(run.prompts) > 1
    return {
        run.targets[target] + (f" with {run.prompts[prompt]}" if several else ""): score
        for (prompt, target), score in by_column.items()
    }
