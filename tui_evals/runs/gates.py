"""Whether a run meets its gates: each gate with the figure it looks at and its verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

from tui_evals.runs.gate_checks import AskedAnswers, answer_checks, ask_answers, count_answers, no_answer_sentence
from tui_evals.runs.plan import CannotPlan
from tui_evals.runs.project import demand_own_store
from tui_evals.runs.selection import find_run
from tui_evals.store.lookup import baseline_of
from tui_evals.store.reader import Reader
from tui_evals.store.records import CheckedGate, RunRow, Totals

if TYPE_CHECKING:
    from tui_evals.compare.measures import RunDifference

__all__ = ["GateResults", "Gates", "GatesNotMet", "check_gates", "why_no_baseline", "with_baseline"]


LEVEL = 0.05
"""The level of `--fail-on-regression` without a number: a smaller p value is a regression."""
MAX_MISSING = 5.0
"""The percentage of answers that may be missing or unjudged before no gate is met."""
WORST = ("fail", "partial", "error")


def _percentage(value: Any) -> float:
    return _number(value, "a number from 0 to 100", lambda number: 0 <= number <= 100)


def _level(value: Any) -> float:
    return _number(value, "a number between 0 and 1", lambda number: 0 < number < 1)


def _count(value: Any) -> int:
    return int(_number(value, "a whole number from 1", lambda number: number >= 1 and number == int(number)))


def _number(value: Any, what: str, fits: Callable[[float], bool]) -> float:
    try:
        number = nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = nan
    if not isfinite(number) or not fits(number):
        raise ValueError(f"{value!r} is not {what}")
    return number


def _worst(value: Any) -> str:
    if value in WORST:
        return str(value)
    raise ValueError(f"{value!r} is not one of {', '.join(WORST)}")


def _run(value: Any) -> str:
    return str(value)


@dataclass(frozen=True, slots=True)
class GateOption:
    """An option that sets a gate, or what gates look at."""

    name: str
    """The field of `Gates`, and the parameter of the library's `gate`."""
    metavar: str
    help: str
    read: Callable[[Any], Any]
    """Returns the value of a text or a number; ValueError says what it must be."""
    alone: str = ""
    """The value of the option without one; empty where it needs one."""

    @property
    def flag(self) -> str:
        """The option as it is typed."""
        return "--" + self.name.replace("_", "-")

    def text(self, value: Any) -> str:
        """The option as it was given."""
        shown = f"{value:g}" if isinstance(value, float) else str(value)
        return f"{self.flag}{'=' if self.alone else ' '}{shown}"


OPTIONS = (
    GateOption(
        "fail_under",
        "PERCENT",
        "Exit 1 when fewer of a column's answers pass. Missing and unjudged answers count as not passed.",
        _percentage,
    ),
    GateOption("fail_under_score", "SCORE", "Exit 1 when the mean score of a column, 0 to 100, is less.", _percentage),
    GateOption("fail_on", f"[{'|'.join(WORST)}]", "Exit 1 when an answer is that bad or worse.", _worst),
    GateOption(
        "fail_on_broken",
        "[=N]",
        "Exit 1 when N items (1) that passed in the baseline fail now.",
        _count,
        alone="1",
    ),
    GateOption(
        "fail_on_regression",
        "[=P]",
        f"Exit 1 when the run is worse than the baseline and chance does as much in fewer than P ({LEVEL}) of cases.",
        _level,
        alone=str(LEVEL),
    ),
    GateOption(
        "max_missing",
        "PERCENT",
        f"How much may be unanswered, unjudged or not comparable before no gate is met ({MAX_MISSING:g}).",
        _percentage,
    ),
    GateOption("baseline", "RUN", "Compare with RUN instead of the baseline that was set.", _run),
)
_BY_NAME: Mapping[str, GateOption] = {option.name: option for option in OPTIONS}


def flags() -> str:
    """All options, for a sentence."""
    *first, last = (option.flag for option in OPTIONS)
    return f"{', '.join(first)} and {last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """The gates of a run; None for those that are not set."""

    fail_under: float | None = None
    fail_under_score: float | None = None
    fail_on: str | None = None
    fail_on_broken: int | None = None
    fail_on_regression: float | None = None
    """The level: how often chance may make as large a difference."""
    max_missing: float | None = None
    baseline: str | None = None
    """The run to measure against, as the user named it; otherwise it is the baseline of the dataset."""
    baseline_run: RunRow | None = None
    """The run to measure against, once it is found."""
    rules_of_0_2: bool = False
    """Whether the rules of 0.2 decide the gates whose meaning changed since."""

    @property
    def measuring(self) -> bool:
        """Whether the run is measured against another."""
        return any(one is not None for one in (self.baseline, self.fail_on_broken, self.fail_on_regression))

    @property
    def deciding(self) -> bool:
        """Whether a gate is set that the run may not meet."""
        return any(getattr(self, option.name) is not None for option in OPTIONS if option.name != "baseline")

    @property
    def has_checks(self) -> bool:
        """Whether a gate is set or a comparison is wanted."""
        return self.measuring or self.deciding

    @property
    def most_missing(self) -> float:
        """The percentage of answers that may be missing."""
        return MAX_MISSING if self.max_missing is None else self.max_missing

    def text(self, name: str) -> str:
        """A gate as it was given."""
        value = self.most_missing if name == "max_missing" else getattr(self, name)
        return _BY_NAME[name].text(value)


def gates_of(options: Mapping[str, Any]) -> Gates:
    """The gates among options, by their names; ValueError names the one whose value does not fit.

    True stands for an option without a value, False and None for one that is not given.
    """
    given: dict[str, Any] = {}
    for option in OPTIONS:
        value = options.get(option.name)
        if value is None or value is False:
            continue
        try:
            given[option.name] = option.read(option.alone if value is True and option.alone else value)
        except ValueError as problem:
            raise ValueError(f"{option.name}: {problem}") from None
    return Gates(**given)


class GatesNotMet(AssertionError):
    """A run that does not meet its gates, or does not yet; the message names each gate and why."""


@dataclass(frozen=True, slots=True)
class GateResults:
    """The gates of a run, and how it compares with another where that was wanted. True when all gates are met."""

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
        """Whether the gates are met or not met, whatever an unfinished run still brings."""
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


def _names(checks: Iterable[CheckedGate]) -> str:
    return ", ".join(dict.fromkeys(check.gate for check in checks))


def _reason(check: CheckedGate) -> str:
    name = f"{check.gate}: " if check.gate.startswith("--") else ""
    note = f" ({check.note.rstrip('.')})" if check.note else ""
    return name + " ".join(check.says).rstrip(".") + note


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
            f"no baseline is set for {dataset}, so {option} has nothing to measure against; set one with "
            "`tui-evals baseline set RUN`, or name a run with --baseline RUN",
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

    A finished run has to have answers, and verdicts where judging was wanted, even without gates. A gate of an
    unfinished one is not decided unless nothing that is still open can save it.
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
        # Imported when something is compared, because every run waits for what this module imports.
        from tui_evals.runs.gate_checks import baseline_checks

        against = baseline_checks(reader, run, gates, gates.baseline_run, finished=finished)
    except LookupError as problem:
        gone = f"{run.key} can no longer be compared with {gates.baseline_run.key}: {problem.args[0]}"
        return _results(asked, GateResults((*checks, CheckedGate("baseline", "not met", gone))))
    results = GateResults((*checks, *against.checks), gates.baseline_run.key, against.verdict, against.difference)
    return _results(asked, results)


def _results(asked: AskedAnswers, results: GateResults) -> GateResults:
    """The results with what they rest on; while answers are judged again, the verdicts before decide nothing."""
    checks = results.checks
    if asked.judged_again:
        checks = tuple(
            replace(check, verdict="not decided", sentence="The answers are being judged again.") for check in checks
        )
    return replace(results, checks=checks, basis=asked.basis)


def _why_changed(reader: Reader, baseline: RunRow) -> str:
    """Why nothing is measured against a baseline that was changed since it was signed; empty where it was not."""
    if reader.chain_head(baseline) is None:
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
    """Why a run came to nothing, whatever its gates are; None where it has answers and verdicts."""
    if (sentence := no_answer_sentence(reader.all_rows(run.id))) is not None:
        return CheckedGate("answers", "not met", sentence)
    if not _judged_count(total) and (gates.deciding or _judging_came_to_nothing(reader, run)):
        return CheckedGate("judging", "not met", f"not one of {count_answers(total.total)} was judged")
    return None


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
