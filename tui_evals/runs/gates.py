"""Checks a run against its gates and says whether each is met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from tui_evals.light_records import dataclass
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.gate_checks import AskedAnswers, answer_checks, ask_answers, count_answers, no_answer_sentence
from tui_evals.runs.gate_options import Gates
from tui_evals.runs.project import demand_own_store
from tui_evals.runs.selection import find_run
from tui_evals.store import chains
from tui_evals.store.baselines import baseline_of
from tui_evals.store.details import read_scores
from tui_evals.store.reader import Reader
from tui_evals.store.records import CheckedGate, RunRow, Totals

if TYPE_CHECKING:
    from tui_evals.compare.measures import RunDifference


def _names(checks: Iterable[CheckedGate]) -> str:
    return ", ".join(dict.fromkeys(check.gate for check in checks))


def _reason(check: CheckedGate) -> str:
    name = f"{check.gate}: " if check.gate.startswith("--") else ""
    note = f" ({check.note.rstrip('.')})" if check.note else ""
    return name + " ".join(check.says).rstrip(".") + note


class GatesNotMet(AssertionError):
    """A run that does not meet its gates, or does not yet; the message names each gate and why."""


@dataclass(frozen=True, slots=True)
class GateResults:
    """The gates of a run, and its comparison if one was requested. True if all gates are met."""

    checks: tuple[CheckedGate, ...] = ()
    baseline: str = ""
    """The key of the run it was measured against; empty without one."""
    verdict: str = ""
    against: RunDifference | None = None
    basis: str = ""
    """How many of the planned answers the results rest on."""
    refused: str = ""
    """Why a baseline is not measured against."""

    @property
    def met(self) -> bool:
        """Whether every gate is met."""
        return all(check.met for check in self.checks)

    def __bool__(self) -> bool:
        return self.met

    @property
    def decided(self) -> bool:
        """Whether the gates are decided, whatever an unfinished run still adds."""
        verdicts = {check.verdict for check in self.checks}
        return "not met" in verdicts or "not decided" not in verdicts

    @property
    def line(self) -> str:
        """The verdict of all gates in one sentence, with every reason why they are not met; empty without gates."""
        if not self.checks:
            return ""
        if self.met:
            return f"met: {_names(self.checks)} ({self.basis})"
        if not self.decided:
            why = f". {self.refused}" if self.refused else ""
            return f"not decided: {_names(self.checks)} ({self.basis}){why}"
        return "not met: " + "; ".join(_reason(check) for check in self.checks if check.verdict == "not met")

    def raise_unless_met(self) -> None:
        """Raise GatesNotMet with the verdict unless every gate is met."""
        if not self.met:
            raise GatesNotMet(self.line)


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
    demand_own_store(reader, "the baseline")
    if gates.baseline is not None:
        baseline = find_run(reader, gates.baseline)
    elif (kept := baseline_of(reader, dataset)) is not None:
        baseline = reader.run(kept.run)
    else:
        option = "--fail-on-broken" if gates.fail_on_regression is None else "--fail-on-regression"
        raise CannotPlan(
            f"no baseline is set for {dataset}, so {option} has nothing to measure against. Set one with "
            "`tui-evals baseline set RUN`, or name a run or a file with --baseline. "
            "`tui-evals baseline export -o FILE` writes a file to commit",
            "arguments",
        )
    if run is not None and run.id == baseline.id:
        itself = f"{run.key} is the baseline itself and cannot be measured against"
        raise CannotPlan(f"{itself}; name another with --baseline RUN", "arguments")
    if (why := why_no_baseline(reader, baseline)) is not None:
        raise CannotPlan(f"{why}, so nothing can be measured against it; name another with --baseline RUN", "arguments")
    return replace(gates, baseline_run=baseline)


def check_gates(reader: Reader, run: RunRow, total: Totals, gates: Gates, *, finished: bool = True) -> GateResults:
    """The verdict of each gate of a run.

    Even without gates, a finished run needs answers, and verdicts if judging was requested. A gate of an unfinished run
    is undecided unless no open answer can change it.
    """
    if finished and (nothing := _nothing_to_check(reader, run, total, gates)) is not None:
        return GateResults((nothing,))
    if not (gates.has_checks if finished else gates.deciding):
        return GateResults()
    asked = ask_answers(reader, run, finished)
    checks = answer_checks(reader, asked, total, gates)
    if gates.baseline_run is None or not (finished or gates.fail_on_broken or gates.fail_on_regression):
        return _results(asked, GateResults(tuple(checks)))
    if changed := _why_changed(reader, gates.baseline_run):
        names = [name for name in ("fail_on_broken", "fail_on_regression") if getattr(gates, name) is not None]
        checks += [CheckedGate(gates.text(name), "not decided", changed) for name in names]
        return _results(asked, GateResults(tuple(checks), gates.baseline_run.key, changed, refused=changed))
    try:
        # Imported for comparisons only, because every run imports this module.
        from tui_evals.runs.baseline_gates import baseline_checks

        against = baseline_checks(reader, run, gates, gates.baseline_run, finished=finished)
    except LookupError as problem:
        gone = f"{run.key} can no longer be compared with {gates.baseline_run.key}: {problem.args[0]}"
        return _results(asked, GateResults((*checks, CheckedGate("baseline", "not met", gone))))
    results = GateResults((*checks, *against.checks), gates.baseline_run.key, against.verdict, against.difference)
    return _results(asked, results)


def _results(asked: AskedAnswers, results: GateResults) -> GateResults:
    """The results with their basis; while answers are judged again, nothing is decided."""
    checks = results.checks
    if asked.judged_again:
        checks = tuple(
            replace(check, verdict="not decided", sentence="The answers are being judged again.") for check in checks
        )
    return replace(results, checks=checks, basis=asked.basis)


def _why_changed(reader: Reader, baseline: RunRow) -> str:
    """Why a baseline that was changed after signing is not used; empty if it was not changed."""
    if chains.last_link(reader.query, baseline.key) is None:
        return ""
    # Imported when something is verified, as few runs need it.
    from tui_evals.store.verifying import verify

    found = verify(reader.path, baseline.key, with_sources=False)
    if not (found.broken or found.changes or found.unexpected):
        return ""
    return (
        f"The baseline {baseline.key} was changed since it was signed, so nothing is measured against it. "
        f"`tui-evals verify {baseline.key}` names what differs."
    )


def _nothing_to_check(reader: Reader, run: RunRow, total: Totals, gates: Gates) -> CheckedGate | None:
    """Why a run has no result, whatever its gates; None if it has answers and verdicts."""
    if (sentence := no_answer_sentence(reader.all_rows(run.id))) is not None:
        return CheckedGate("answers", "not met", sentence)
    if not _judged_count(total) and (gates.deciding or _judging_came_to_nothing(reader, run)):
        return CheckedGate("judging", "not met", f"not one of {count_answers(total.total)} was judged")
    return None


def _judging_came_to_nothing(reader: Reader, run: RunRow) -> bool:
    """Whether evaluators were to judge, were not all left out on purpose, and none gave anything."""
    results = Counter(record.result for _, record in read_scores(reader, run.id))
    if results["pass"] + results["fail"] + results[None]:
        return False
    if results["error"]:
        return True
    config = {one.number: one.config for one in reader.passes(run.id)}.get(run.scoring_pass, run.config)
    without = config.get("without_judges", run.config.get("without_judges"))
    return bool(results) and not without
