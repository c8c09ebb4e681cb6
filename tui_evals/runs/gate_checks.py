"""The gates themselves: those that look at a run alone, and those that compare it with a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from tui_evals.compare.baseline import (
    SharedItem,
    broken_items,
    can_show,
    drop_sentence,
    least_items,
    passing_and_judged,
    shared_items,
    too_few_sentence,
)
from tui_evals.compare.measures import LEVEL, MeasuredDifference, RunDifference
from tui_evals.compare.runs import ComparedLine, Comparison, read_comparison
from tui_evals.compare.statistics import percent
from tui_evals.compare.verdicts import difference_sentence, measured_sentence
from tui_evals.figures import Figure, Interval, mean_interval, pass_rate, sample_of
from tui_evals.runs.gates import Gates
from tui_evals.runs.scoring import Column, item_scores
from tui_evals.runs.status import weighted_mean
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, AnswerStatus, CheckedGate, GateVerdict, RunRow, ScoreRecord, Totals

_BAD = {"fail": ("failed", "partial", "errored"), "partial": ("partial", "errored"), "error": ("errored",)}
_JUDGED = frozenset(("pass", "fail", "scored"))
_OPEN: frozenset[AnswerStatus] = frozenset(("pending", "running", "answered"))
_NO_VERDICT = "Nothing that judged these answers can fail."


def gate_verdict(lost: bool, finished: bool) -> GateVerdict:
    """The verdict of a gate; `lost` says that nothing that is still open can make it met."""
    return "not met" if lost else "met" if finished else "not decided"


def count_answers(count: int, what: str = "answer") -> str:
    """How many answers, or of what else, in words."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


@dataclass(slots=True)
class _ColumnCounts:
    """The answers of one prompt and target that should have a verdict that can fail."""

    items: dict[int, list[int]] = field(default_factory=dict)
    """By item how many there are, and how many of them pass; without those that are open."""
    missing: int = 0
    """How many of them nobody gave or judged."""
    open: int = 0

    def add(self, row: AnswerRow, *, is_open: bool) -> None:
        """Count an answer in, unless all that judged it cannot fail."""
        if is_open:
            self.open += 1
        elif row.status != "scored":
            counts = self.items.setdefault(row.item, [0, 0])
            counts[0] += 1
            counts[1] += row.status == "pass"
            self.missing += row.status not in _JUDGED

    @property
    def best(self) -> float:
        """The share that passes if all that is open does."""
        answers, passed = (sum(counts[n] for counts in self.items.values()) for n in (0, 1))
        return (passed + self.open) / (answers + self.open) if answers + self.open else 1.0


@dataclass(frozen=True, slots=True)
class AskedAnswers:
    """The answers of a run as gates look at them."""

    run: RunRow
    finished: bool
    rows: Sequence[AnswerRow]
    scores: Mapping[int, Sequence[ScoreRecord]]
    columns: Mapping[Column, _ColumnCounts]
    missing: frozenset[int]
    """The conversations that nobody answered to the end or judged."""
    open: frozenset[int]
    """The conversations that an unfinished run still answers or judges."""
    conversations: int

    @property
    def judged_again(self) -> bool:
        """Whether the verdicts there are will be replaced by those of another judging."""
        return not self.finished and bool(self.run.staged_pass)

    @property
    def unit(self) -> str:
        """What missing answers are counted in: a conversation of several turns is missing as a whole."""
        return "answer" if len(self.rows) == self.conversations else "conversation"

    @property
    def basis(self) -> str:
        """How many of the planned answers the results rest on."""
        planned = count_answers(self.conversations, self.unit)
        if not self.finished:
            return f"the run is not finished, {len(self.open):,} of {planned} open"
        return f"resting on {self.conversations - len(self.missing):,} of {planned}"


def ask_answers(reader: Reader, run: RunRow, finished: bool) -> AskedAnswers:
    """Read and count the answers of a run."""
    scores: dict[int, list[ScoreRecord]] = {}
    for answer, record in reader.scores(run.id):
        scores.setdefault(answer, []).append(record)
    rows = list(reader.all_rows(run.id))
    columns: dict[Column, _ColumnCounts] = {}
    missing, still_open, conversations = set(), set(), 0
    for cell, conversation in groupby(rows, key=lambda row: row.cell):
        turns = list(conversation)
        conversations += 1
        column = columns.setdefault((turns[0].prompt, turns[0].target), _ColumnCounts())
        # A turn without any record has no evaluator, which does not matter where another turn has one.
        for row in [row for row in turns if row.status != "unjudged" or row.id in scores] or turns:
            is_open = not finished and row.status in _OPEN
            column.add(row, is_open=is_open)
            if is_open:
                still_open.add(cell)
            elif row.status not in _JUDGED:
                missing.add(cell)
    return AskedAnswers(
        run, finished, rows, scores, columns, frozenset(missing), frozenset(still_open - missing), conversations
    )


def no_answer_sentence(rows: Iterable[AnswerRow]) -> str | None:
    """What happened where a run has no answer with a text, a call or a reason in it; None where it has one."""
    empty = failed = 0
    for row in rows:
        if row.code is not None or row.status in _OPEN:
            failed += 1
        elif row.preview or row.ending == "content_filter":
            return None
        else:
            empty += 1
    if not empty + failed:
        return "nothing was asked"
    if empty and failed:
        return f"of {count_answers(empty + failed)} {empty:,} are empty and {failed:,} are missing"
    what = "empty" if empty else "missing"
    return f"the only answer is {what}" if empty + failed == 1 else f"all {empty + failed:,} answers are {what}"


def answer_checks(reader: Reader, asked: AskedAnswers, total: Totals, gates: Gates) -> list[CheckedGate]:
    """The gates that compare a run with nothing."""
    checks = []
    if gates.fail_on:
        checks.append(_worst_check(asked, total, gates))
    if gates.fail_under is not None:
        rates = _rate_checks(reader, asked, gates.text("fail_under"), gates.fail_under)
        scores = _score_checks(reader, asked, gates.text("fail_under"), gates.fail_under)
        checks += [by_rules(gates, asked.finished, *pair) for pair in zip(rates, scores, strict=True)]
    if gates.fail_under_score is not None:
        checks += _score_checks(reader, asked, gates.text("fail_under_score"), gates.fail_under_score)
    if gates.deciding:
        counts = (len(asked.missing), asked.conversations, asked.unit)
        checks += missing_check(gates, asked.finished, *counts, "missing or not judged")
    return checks


def by_rules(gates: Gates, finished: bool, now: CheckedGate, before: CheckedGate) -> CheckedGate:
    """A gate by the rules that are chosen, with the verdict of the other ones where it differs."""
    chosen, other = (before, now) if gates.rules_of_0_2 else (now, before)
    if chosen.verdict == other.verdict or not finished:
        return chosen
    verdict = f"{other.verdict}: {other.sentence.rstrip('.')}."
    if gates.rules_of_0_2:
        return replace(chosen, note=f'Without `gates = "0.2"` it is {verdict}')
    keep = 'To keep them for now, set `gates = "0.2"` under [run] in config.toml.'
    return replace(chosen, note=f"By the rules of 0.2 it was {verdict} {keep}")


def _worst_check(asked: AskedAnswers, total: Totals, gates: Gates) -> CheckedGate:
    gate, worst = gates.text("fail_on"), str(gates.fail_on)
    bad = sum(getattr(total, name) for name in _BAD[worst])
    items = len({row.item for row in asked.rows})
    figure = Figure(bad, items, total.total, None, "", "answers", f"{worst} or worse")
    if worst == "fail" and not bad and not total.passed and asked.finished:
        return CheckedGate(gate, "not met", _NO_VERDICT, figure)
    sentence = f"{bad:,} of {count_answers(total.total)} {'is' if bad == 1 else 'are'} {worst} or worse."
    return CheckedGate(gate, gate_verdict(bad > 0, asked.finished), sentence, figure)


def _rate_checks(reader: Reader, asked: AskedAnswers, gate: str, least: float) -> Iterator[CheckedGate]:
    """The gate on the pass rate of each column: the one that is printed where no answer is missing."""
    printed = reader.totals_by(asked.run.id, "column")
    for column, counts in sorted(asked.columns.items()):
        name = _column_name(asked, column)
        if counts.missing or counts.open or column not in printed:
            population = "so far" if counts.open else "planned"
            left = counts.open or counts.missing
            figure = pass_rate(sample_of((size, passed) for size, passed in counts.items.values()), population, left)
        else:
            figure = printed[column].pass_rate
            figure = figure and replace(figure, missing=0)
        if figure is None:
            sentence = f"{count_answers(counts.open)} still open." if counts.open else _NO_VERDICT
            yield CheckedGate(gate, gate_verdict(not counts.open, asked.finished), sentence, None, name)
            continue
        lost = 100 * (figure.value if asked.finished else counts.best) < least
        yield CheckedGate(
            gate, gate_verdict(lost, asked.finished), _rate_sentence(figure, counts, least, lost), figure, name
        )


def _rate_sentence(figure: Figure, counts: _ColumnCounts, least: float, lost: bool) -> str:
    passing = "passes" if figure.answers == 1 else "pass"
    rate = f"{_percent(figure.value, least)} of {count_answers(figure.answers)} {passing}"
    if counts.open:
        rate += f" so far, {counts.open:,} still open"
        return f"{rate}; at most {_percent(counts.best, least)} can pass, less than {least:g}." if lost else f"{rate}."
    if counts.missing:
        rate += f" ({counts.missing:,} missing or not judged)"
    return f"{rate}, less than {least:g}." if lost else f"{rate}."


def _percent(share: float, least: float) -> str:
    """A share in percent with as many decimals as tell it from a limit that it misses."""
    decimals = 1
    while 100 * share < least <= round(100 * share, decimals) and decimals < 9:
        decimals += 1
    return percent(share, decimals)


def _score_checks(reader: Reader, asked: AskedAnswers, gate: str, least: float) -> Iterator[CheckedGate]:
    """The gate on the mean score of each column, in which missing conversations score 0."""
    items = reader.snapshot(asked.run.snapshot)["items"]
    zero = dict.fromkeys(asked.missing, 0.0)
    final = [row for row in asked.rows if row.cell not in asked.open]
    best = now = item_scores(final, asked.scores, items, zero)
    if asked.open:
        best = item_scores(asked.rows, asked.scores, items, zero | dict.fromkeys(asked.open, 100.0))
    for column, counts in sorted(asked.columns.items()):
        name, figure = _column_name(asked, column), _score_figure(now.get(column, ()), counts)
        value = weighted_mean(best.get(column, ()))
        verdict = gate_verdict(value is None or value < least, asked.finished)
        if figure is None:
            sentence = _NO_VERDICT if value is None else f"{count_answers(counts.open)} still open."
        else:
            sentence = _score_sentence(figure.value, value, counts, least, verdict == "not met")
        yield CheckedGate(gate, verdict, sentence, figure, name)


def _score_sentence(score: float, best: float | None, counts: _ColumnCounts, least: float, lost: bool) -> str:
    text = f"The mean score is {_score(score, least)} of 100"
    if counts.open:
        text += f" so far, {counts.open:,} still open"
        text += f"; at most {_score(best or 0.0, least)} can be reached" if lost else ""
    return f"{text}, less than {least:g}." if lost else f"{text}."


def _score_figure(weighed: Sequence[tuple[float | None, float]], counts: _ColumnCounts) -> Figure | None:
    """The mean score of items; items of unequal weight have no interval."""
    known = [(score, weight) for score, weight in weighed if score is not None]
    value = weighted_mean(known)
    if value is None:
        return None
    sample = sample_of((1, score) for score, _ in known)
    even = len({weight for _, weight in known}) == 1
    interval, method = mean_interval(sample, (0.0, 100.0)) if even else (None, "")
    answers = sum(size for size, _ in counts.items.values())
    population = "so far" if counts.open else "planned" if counts.missing else "scored"
    return Figure(value, len(known), answers, interval, method, "score", population, counts.open or counts.missing)


def _score(value: float, least: float) -> str:
    decimals = 1
    while value < least <= round(value, decimals) and decimals < 9:
        decimals += 1
    return f"{value:.{decimals}f}"


def _column_name(asked: AskedAnswers, column: Column) -> str:
    """The prompt and target of a column; empty where the run has one column."""
    if len(asked.columns) == 1:
        return ""
    from tui_evals.compare.sides import column_name  # when it is wanted, because every run waits for this module

    return column_name(asked.run, *column)


def missing_check(gates: Gates, finished: bool, missing: int, of: int, unit: str, what: str) -> Iterator[CheckedGate]:
    """The gate on what is missing; one that is met appears only if it was set."""
    gate = gates.text("max_missing")
    figure = Figure(missing, 0, of, None, "", f"{unit}s", what)
    lost = 100 * missing > gates.most_missing * of
    if lost or gates.max_missing is not None:
        share = f"{100 * missing / of:.1f}".removesuffix(".0") if of else "0"
        sentence = f"{missing:,} of {count_answers(of, unit)} ({share} %) {'is' if missing == 1 else 'are'} {what}"
        sentence += f", more than {gates.most_missing:g} %." if lost else "."
        yield CheckedGate(gate, gate_verdict(lost, finished), sentence, figure)


_NAMED = 5


@dataclass(frozen=True, slots=True)
class AgainstBaseline:
    """The gates that compare a run with a baseline, and the comparison in words and numbers."""

    checks: tuple[CheckedGate, ...]
    verdict: str
    difference: RunDifference


@dataclass(frozen=True, slots=True)
class _Pair:
    """A run beside its baseline."""

    gates: Gates
    before: str
    """The key of the baseline."""
    after: str
    comparison: Comparison
    shared: Sequence[SharedItem]
    finished: bool
    verdict: str = ""

    @property
    def difference(self) -> RunDifference:
        """The run against the baseline in numbers."""
        return self.comparison.against[0]


def baseline_checks(reader: Reader, run: RunRow, gates: Gates, baseline: RunRow, *, finished: bool) -> AgainstBaseline:
    """Compare a run with a baseline and check the gates on that; LookupError where one of the two is gone."""
    comparison = read_comparison(reader, [baseline.id, run.id])
    shared = shared_items(comparison.lines)
    verdict = _verdict(comparison, shared, baseline.key, run.key, gates.fail_on_regression or LEVEL) if finished else ""
    pair = _Pair(gates, baseline.key, run.key, comparison, shared, finished, verdict)
    checks: list[CheckedGate] = []
    if gates.fail_on_broken is not None:
        checks.append(_broken_check(pair, gates.fail_on_broken))
    if gates.fail_on_regression is not None:
        checks += _regression_checks(pair, gates.fail_on_regression)
    if checks and finished:
        checks += _lost_check(pair)
    return AgainstBaseline(tuple(checks), verdict, pair.difference)


def _verdict(comparison: Comparison, shared: Sequence[SharedItem], before: str, after: str, level: float) -> str:
    """How the run compares, what is left out, and what drop so few items can show."""
    (difference,) = comparison.against
    sentences = [difference_sentence(difference, before, after, level)]
    if apart := difference.counts.get("gone", 0) + difference.counts.get("not comparable", 0):
        sentences.append(f"{count_answers(apart)} of {before} could not be compared.")
    if difference.passes.items and not difference.passes.worse(level):
        sentences.append(drop_sentence(*passing_and_judged(shared), level))
    return " ".join(sentences)


def _broken_check(pair: _Pair, most: int) -> CheckedGate:
    """The gate on items that passed in the baseline and fail now."""
    gate, found = pair.gates.text("fail_on_broken"), broken_items(pair.shared)
    count = len(found.broken)
    figure = Figure(count, found.passed, found.answers, None, "", "items", f"that passed in {pair.before} fail now")
    if pair.finished and not pair.difference.items:
        return CheckedGate(gate, "not met", f"Cannot be checked: {pair.verdict}", figure)
    sentence = f"{count:,} of {count_answers(found.passed, 'item')} that passed in {pair.before} "
    sentence += f"{'fails' if count == 1 else 'fail'} now" + (f": {_named(found.broken)}" if count else "")
    sentence += "" if pair.finished else " so far"
    if found.flipping:
        sentence += f". Not counted: {count_answers(found.flipping, 'item')} whose repeats in {pair.before} disagree"
    # Where fewer items passed than the gate allows to break, it could not fire even if they all did.
    lost = count >= (min(most, found.passed or most) if pair.finished else most)
    return CheckedGate(gate, gate_verdict(lost, pair.finished), sentence + ".", figure)


def _named(broken: Sequence[SharedItem]) -> str:
    names = [f"{one.item} ({one.column})" if one.column else one.item for one in broken]
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _regression_checks(pair: _Pair, level: float) -> Iterator[CheckedGate]:
    """The gate on regressions: a row for each number that got worse, else one for the comparison as a whole."""
    gate, difference = pair.gates.text("fail_on_regression"), pair.difference
    figure = _figure(difference.passes, pair.shared) if difference.passes.items else None
    if not pair.finished:
        yield CheckedGate(gate, "not decided", "A regression is tested once the run is finished.", figure)
        return
    worse = difference.worse(level)
    for test in worse:
        sentence = f"worse: {_test_sentence(test, pair, level)}"
        yield CheckedGate(gate, "not met", sentence, _figure(test, pair.shared), test.column)
    if worse:
        return
    if not difference.items:
        yield CheckedGate(gate, "not met", f"Cannot be checked: {pair.verdict}", figure)
        return
    passes = difference.passes
    # A run that passes as much as a baseline in which few items pass is no worse, whatever the test could show.
    no_worse = passes.items >= least_items(level) and passes.difference >= 0
    if no_worse or can_show(pair.comparison, pair.shared, level):
        yield CheckedGate(gate, "met", pair.verdict, figure)
        return
    few = f"The gate cannot fire. {too_few_sentence(*passing_and_judged(pair.shared), level)}"
    before = CheckedGate(gate, "met", "no number is worse beyond chance.", figure)
    yield by_rules(pair.gates, True, CheckedGate(gate, "not met", few, figure), before)


def _figure(test: MeasuredDifference, shared: Sequence[SharedItem]) -> Figure:
    """How much more or less the run has."""
    answers = sum(one.answers for one in shared if test.column in ("", one.column))
    interval = Interval(test.interval.low, test.interval.high) if test.interval else None
    unit = test.measure.unit if test.what else "points"
    return Figure(test.difference, test.items, answers, interval, "", unit, "shared")


def _test_sentence(test: MeasuredDifference, pair: _Pair, level: float) -> str:
    if test.what or test.column:
        return measured_sentence(test, pair.before, pair.after, level)
    return difference_sentence(pair.difference, pair.before, pair.after, level)


def _lost_check(pair: _Pair) -> Iterable[CheckedGate]:
    """The gate on what the baseline judged and nothing can be compared with; only where it is not met."""
    lines = pair.comparison.lines
    judged = [line for line in lines if line.answers[0] and line.answers[0].status in _JUDGED]
    what = f"judged in {pair.before} and not comparable now"
    checks = missing_check(pair.gates, True, sum(map(_is_lost, judged)), len(judged), "answer", what)
    return [check for check in checks if not check.met]


def _is_lost(line: ComparedLine) -> bool:
    """Whether what the baseline judged has nothing to be compared with."""
    later = line.answers[1]
    return later is None or later.status not in _JUDGED or line.kinds[0] in ("gone", "not comparable")
