"""Gates that look at a run alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import groupby

from tui_evals.evaluators.conditions import LEFT_OUT
from tui_evals.figures import Figure, mean_interval, pass_rate, percent, sample_of
from tui_evals.light_records import dataclass
from tui_evals.runs.gate_options import Gates
from tui_evals.runs.scoring import Column, item_scores
from tui_evals.runs.status import weighted_mean
from tui_evals.store.details import read_scores
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, AnswerStatus, CheckedGate, GateVerdict, RunRow, ScoreRecord, Totals

_BAD = {"fail": ("failed", "partial", "errored"), "partial": ("partial", "errored"), "error": ("errored",)}
JUDGED = frozenset(("pass", "fail", "scored"))
_OPEN: frozenset[AnswerStatus] = frozenset(("pending", "running", "answered"))
_WORDS: Mapping[AnswerStatus, str] = {
    "fail": "fails",
    "partial": "partial",
    "error": "error",
    "scored": "only numbers that cannot fail",
}
_NO_VERDICT = "Nothing that judged these answers can fail."


def gate_verdict(lost: bool, finished: bool) -> GateVerdict:
    """The verdict of a gate; `lost` says that nothing that is still open can make it met."""
    return "not met" if lost else "met" if finished else "not decided"


def count_answers(count: int, what: str = "answer") -> str:
    """A number of answers, or of something else, in words."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


@dataclass(slots=True)
class _ColumnCounts:
    """The answers of one prompt and target that should have a verdict that can fail."""

    items: dict[int, list[int]] = field(default_factory=dict)
    """For each item, how many answers are not open, and how many of them pass."""
    missing: int = 0
    """How many of them are missing or unjudged."""
    open: int = 0

    def add(self, row: AnswerRow, *, is_open: bool) -> None:
        """Count an answer in, unless all that judged it cannot fail."""
        if is_open:
            self.open += 1
        elif row.status != "scored":
            counts = self.items.setdefault(row.item, [0, 0])
            counts[0] += 1
            counts[1] += row.status == "pass"
            self.missing += row.status not in JUDGED

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
    """The conversations that are unfinished or unjudged."""
    open: frozenset[int]
    """The conversations that an unfinished run still answers or judges."""
    conversations: int

    @property
    def judged_again(self) -> bool:
        """Whether the verdicts there are will be replaced by those of another judging."""
        return not self.finished and bool(self.run.staged_pass)

    @property
    def unit(self) -> str:
        """The unit of missing answers: a conversation with several turns is missing as a whole."""
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
    for answer, record in read_scores(reader, run.id):
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
            elif row.status not in JUDGED:
                missing.add(cell)
    return AskedAnswers(
        run, finished, rows, scores, columns, frozenset(missing), frozenset(still_open - missing), conversations
    )


def no_answer_sentence(rows: Iterable[AnswerRow]) -> str | None:
    """The message for a run without any answer that has a text, a call or a reason; None if it has one."""
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
    if gates.must_pass is not None:
        checks.append(_must_pass_check(reader, asked, gates.text("must_pass"), gates.must_pass))
    if gates.fail_under is not None:
        rates = _rate_checks(reader, asked, gates.text("fail_under"), gates.fail_under)
        scores = _score_checks(reader, asked, gates.text("fail_under"), gates.fail_under)
        checks += [by_rules(gates, asked.finished, *pair) for pair in zip(rates, scores, strict=True)]
    if gates.fail_under_score is not None:
        checks += _score_checks(reader, asked, gates.text("fail_under_score"), gates.fail_under_score)
    if gates.fail_on_incomplete is not None:
        checks.append(_incomplete_check(asked, gates.text("fail_on_incomplete"), gates.fail_on_incomplete))
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


def _must_pass_check(reader: Reader, asked: AskedAnswers, gate: str, named: str) -> CheckedGate:
    """The gate on items that must pass: one that was not asked, not answered or not judged does not."""
    from tui_evals.runs.selection import items_named, searched_item  # when it is set: few runs need it

    in_dataset = reader.snapshot(asked.run.snapshot)["items"]
    found = items_named(named, [searched_item(item) for item in in_dataset])
    items = sorted({number for numbers in found.values() for number in numbers})
    answers: dict[int, list[AnswerRow]] = {number: [] for number in items}
    for row in asked.rows:
        if row.item in answers and (row.status != "unjudged" or row.id in asked.scores):
            answers[row.item].append(row)
    bad: list[str] = []
    still_open = 0
    for number, rows in answers.items():
        lost = [row for row in rows if row.status != "pass" and (asked.finished or row.status not in _OPEN)]
        if lost or not rows:
            name = rows[0].name if rows else in_dataset[number].get("testId") or f"#{number + 1}"
            bad.append(f"{name} ({_WORDS.get(lost[0].status, 'not judged') if lost else 'not asked or not judged'})")
        else:
            still_open += any(row.status in _OPEN for row in rows)
    unknown = [part for part, numbers in found.items() if not numbers]
    passing = len(items) - len(bad) - still_open
    figure = Figure(passing, len(items), sum(map(len, answers.values())), None, "", "items", "must pass")
    sentence = f"{passing:,} of {count_answers(len(items), 'item')} that must pass {'does' if passing == 1 else 'do'}"
    sentence += f", {still_open:,} still open" if still_open else ""
    if bad:
        more = f" and {len(bad) - MOST_NAMED:,} more" if len(bad) > MOST_NAMED else ""
        sentence += f". Not passed: {', '.join(bad[:MOST_NAMED])}{more}"
    if unknown:
        sentence += f". No item of the dataset is {', '.join(unknown)}"
    return CheckedGate(gate, gate_verdict(bool(bad or unknown), asked.finished), f"{sentence}.", figure)


def _incomplete_check(asked: AskedAnswers, gate: str, least: int) -> CheckedGate:
    """The gate on answers whose verdict lacks an assertion that was left out."""
    rows = [row for row in asked.rows if any(one.evaluator == LEFT_OUT for one in asked.scores.get(row.id, ()))]
    items, of = len({row.item for row in rows}), count_answers(len(asked.rows))
    figure = Figure(len(rows), items, len(asked.rows), None, "", "answers", "incomplete")
    sentence = f"{len(rows):,} of {of} {'has' if len(rows) == 1 else 'have'} a verdict without what was left out."
    return CheckedGate(gate, gate_verdict(len(rows) >= least, asked.finished), sentence, figure)


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
    from tui_evals.compare.sides import column_name  # late, because every run imports this module

    return column_name(asked.run, *column)


def missing_check(gates: Gates, finished: bool, missing: int, of: int, unit: str, what: str) -> Iterator[CheckedGate]:
    """The gate on missing answers; if it is met, it appears only if it was set."""
    gate = gates.text("max_missing")
    figure = Figure(missing, 0, of, None, "", f"{unit}s", what)
    lost = 100 * missing > gates.most_missing * of
    if lost or gates.max_missing is not None:
        share = f"{100 * missing / of:.1f}".removesuffix(".0") if of else "0"
        sentence = f"{missing:,} of {count_answers(of, unit)} ({share} %) {'is' if missing == 1 else 'are'} {what}"
        sentence += f", more than {gates.most_missing:g} %." if lost else "."
        yield CheckedGate(gate, gate_verdict(lost, finished), sentence, figure)


MOST_NAMED = 5
