"""What a script asks of a run: gates, the run it is measured against, and whether they are met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from tui_evals.store.baselines import baseline_of
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow, ScoreRecord, Totals

from .plan import CannotPlan
from .scoring import Column, column_scores
from .selection import find_run

if TYPE_CHECKING:
    from tui_evals.compare.measures import MeasuredDifference, RunDifference
    from tui_evals.compare.runs import ComparedLine

MAX_MISSING = 5.0
"""The percentage of answers that may be missing or unjudged before no gate is met."""
_BAD = {"fail": ("failed", "partial", "errored"), "partial": ("partial", "errored"), "error": ("errored",)}
_JUDGED = frozenset(("pass", "fail", "scored"))


@dataclass(frozen=True, slots=True)
class Gates:
    """What a script asks of a run."""

    fail_under: float | None = None
    fail_on: str | None = None
    against: str | None = None
    """The run to measure against, as it was named; else it is the baseline of the dataset."""
    level: float | None = None
    """How rare chance must make what counts as a regression; None when regressions are no gate."""
    max_missing: float | None = None
    """The percentage that may be missing or unjudged; None is the usual one, and no gate of its own."""
    baseline: RunRow | None = None
    """The run to measure against, once it was found."""

    @property
    def measuring(self) -> bool:
        """Whether the run is to be measured against another."""
        return self.against is not None or self.level is not None

    @property
    def deciding(self) -> bool:
        """Whether something is asked that the run may not meet."""
        return any(gate is not None for gate in (self.fail_under, self.fail_on, self.level, self.max_missing))

    @property
    def has_checks(self) -> bool:
        """Whether any gate is set or a comparison wanted."""
        return self.measuring or self.deciding

    @property
    def most_missing(self) -> float:
        """The percentage of answers that may be missing."""
        return MAX_MISSING if self.max_missing is None else self.max_missing


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
    basis: str = ""
    """How many of the planned answers the results rest on."""

    @property
    def met(self) -> bool:
        """Whether every gate was met."""
        return all(check.met for check in self.checks)

    @property
    def line(self) -> str:
        """Whether the gates were met, with every reason why not: the one sentence that decides the exit code."""
        if self.met:
            met = ", ".join(check.gate for check in self.checks)
            return f"met: {met} ({self.basis})" if met else ""
        return "not met: " + "; ".join(says.rstrip(".") for check in self.checks for says in check.says)

    def event(self) -> dict[str, Any]:
        """The same for a script."""
        checks = [{"gate": check.gate, "met": check.met, "says": list(check.says)} for check in self.checks]
        gates = {"gates": checks, "met": self.met, "verdict": self.line}
        if not self.baseline:
            return {**gates, "against": None}
        comparison: dict[str, Any] = {"baseline": self.baseline, "verdict": self.verdict}
        if self.against is not None:
            comparison |= {"items": self.against.items, "broken": self.against.broken, "fixed": self.against.fixed}
            comparison["tests"] = [_test_json(test) for test in (self.against.passes, *self.against.tests)]
        return {**gates, "against": comparison}


def why_no_baseline(reader: Reader, run: RunRow) -> str | None:
    """Why nothing can be measured against a run; None where it can."""
    if run.status != "finished":
        return f"{run.key} is {run.status}, and what it has not answered would be missing from every comparison"
    return None if _judged_count(reader.totals(run.id)) else f"{run.key} has not a single answer that was judged"


def _judged_count(total: Totals) -> int:
    return total.passed + total.failed + total.scored


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
    """Whether a finished run meets its gates; any has to be answered, and to be judged where that was asked."""
    answers = (row for row in reader.all_rows(run.id) if row.code is None)
    if not any(row.preview or row.ending == "content_filter" for row in answers):
        return GateResults((Check("answers", ("there is not a single answer",)),))
    if not _judged_count(total) and (gates.deciding or _judging_came_to_nothing(reader, run)):
        return GateResults((Check("judging", (f"not one of {_count_answers(total.total)} was judged",)),))
    if not gates.has_checks:
        return GateResults()
    scores: dict[int, list[ScoreRecord]] = {}
    for answer, record in reader.scores(run.id):
        scores.setdefault(answer, []).append(record)
    rows = list(reader.all_rows(run.id))
    missing = _missing_cells(rows, scores)
    planned = len({row.cell for row in rows})
    checks = []
    if gates.fail_on:
        checks.append(_worst_check(total, gates.fail_on))
    if gates.fail_under is not None:
        items = reader.snapshot(run.snapshot)["items"]
        by_column = column_scores(rows, scores, items, missing)
        checks.append(Check(f"--fail-under {gates.fail_under:g}", _low_scores(run, by_column, gates.fail_under)))
    if gates.deciding:
        checks += _missing_check(gates, len(missing), planned, "missing or not judged")
    basis = f"resting on {planned - len(missing):,} of {_count_answers(planned)}"
    if gates.baseline is None:
        return GateResults(tuple(checks), basis=basis)
    try:
        return replace(_against_baseline(reader, run, gates.baseline, gates, tuple(checks)), basis=basis)
    except LookupError as problem:
        gone = f"{run.key} cannot be measured against {gates.baseline.key} any more: {problem.args[0]}"
        return GateResults((*checks, Check("baseline", (gone,))))


def _judging_came_to_nothing(reader: Reader, run: RunRow) -> bool:
    """Whether evaluators were to judge, were not all left out on purpose, and none gave anything."""
    results = Counter(record.result for _, record in reader.scores(run.id))
    if results["pass"] + results["fail"] + results[None]:
        return False
    if results["error"]:
        return True
    config = {one.number: one.config for one in reader.passes(run.id)}.get(run.scoring_pass, run.config)
    without = config.get("without_judges", run.config.get("without_judges"))
    return bool(results) and not without


def _missing_cells(rows: Iterable[AnswerRow], recorded: Collection[int]) -> frozenset[int]:
    """The conversations that nobody answered to the end or judged, of rows in the order of the plan.

    A turn without any record had no evaluator, which does not matter where another turn was judged.
    """
    missing = set()
    for cell, turns in groupby(rows, key=lambda row: row.cell):
        statuses = [row.status for row in turns if row.status != "unjudged" or row.id in recorded]
        if not statuses or not _JUDGED.issuperset(statuses):
            missing.add(cell)
    return frozenset(missing)


def _missing_check(gates: Gates, missing: int, of: int, what: str) -> Iterator[Check]:
    """The gate on what is missing; one that nobody set and that is met is not spoken of."""
    gate = f"--max-missing {gates.most_missing:g}"
    if 100 * missing > gates.most_missing * of:
        share = f"{100 * missing / of:.1f}".removesuffix(".0")
        counts = f"{missing:,} of {_count_answers(of)} ({share} %)"
        yield Check(gate, (f"{what}: {counts}, more than {gates.most_missing:g} % (--max-missing)",))
    elif gates.max_missing is not None:
        yield Check(gate)


def _count_answers(count: int) -> str:
    return f"{count:,} {'answer' if count == 1 else 'answers'}"


def _worst_check(total: Totals, fail_on: str) -> Check:
    gate = f"--fail-on {fail_on}"
    if bad := sum(getattr(total, name) for name in _BAD[fail_on]):
        return Check(gate, (f"{_count_answers(bad)} {'is' if bad == 1 else 'are'} {fail_on} or worse ({gate})",))
    if fail_on == "fail" and not total.passed:
        return Check(gate, (f"nothing that judged this run can fail, so {gate} has nothing to go by",))
    return Check(gate)


def _against_baseline(
    reader: Reader, run: RunRow, baseline: RunRow, gates: Gates, checks: tuple[Check, ...]
) -> GateResults:
    # Comparing is imported where something is compared, for every run waits for what this module imports.
    from tui_evals.compare.measures import LEVEL
    from tui_evals.compare.runs import read_comparison
    from tui_evals.compare.verdicts import difference_sentence

    level = gates.level
    comparison = read_comparison(reader, [baseline.id, run.id])
    (difference,) = comparison.against
    verdict = difference_sentence(difference, baseline.key, run.key, level or LEVEL)
    if apart := difference.counts.get("gone", 0) + difference.counts.get("not comparable", 0):
        verdict += f" {_count_answers(apart)} of {baseline.key} could not be compared."
    if level is None:
        return GateResults(checks, baseline.key, verdict, difference)
    gate = f"--fail-on-regression={level:g}"
    says = tuple(
        f"worse ({gate}): {_test_sentence(test, difference, baseline.key, run.key, level)}"
        for test in difference.worse(level)
    )
    if not says and not difference.items:
        says = (f"{gate} cannot be checked, which counts as not met: {verdict}",)
    judged = [line for line in comparison.lines if line.answers[0] and line.answers[0].status in _JUDGED]
    what = f"judged in {baseline.key} and not comparable now"
    lost = [check for check in _missing_check(gates, sum(map(_is_lost, judged)), len(judged), what) if not check.met]
    return GateResults((*checks, Check(gate, says), *lost), baseline.key, verdict, difference)


def _is_lost(line: ComparedLine) -> bool:
    """Whether what the baseline judged has nothing to be compared with."""
    later = line.answers[1]
    return later is None or later.status not in _JUDGED or line.kinds[0] in ("gone", "not comparable")


def _test_sentence(test: MeasuredDifference, difference: RunDifference, before: str, after: str, level: float) -> str:
    from tui_evals.compare.verdicts import difference_sentence, measured_sentence

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


def _low_scores(run: RunRow, by_column: Mapping[Column, float | None], least: float) -> tuple[str, ...]:
    """A sentence for each column that scores less, what is missing taken as not passed."""
    several = len(run.prompts) > 1
    sentences = []
    for (prompt, target), score in by_column.items():
        if score is None or score < least:
            column = run.targets[target] + (f" with {run.prompts[prompt]}" if several else "")
            shown = "n/a" if score is None else f"{score:.1f}"
            sentences.append(f"{column} scores {shown}, less than {least:g} (--fail-under)")
    return tuple(sentences)
