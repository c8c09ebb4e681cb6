"""The head of the results: how far a run is and what it cost, what passed per target, and why it stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from tui_evals.compare.statistics import percent, wilson
from tui_evals.present.causes import cause_line
from tui_evals.present.columns import cell_width, told_apart
from tui_evals.present.figures import duration
from tui_evals.present.pace import pace_parts, wait_sentence
from tui_evals.present.runs import (
    Cost,
    judging_sentence,
    open_phrases,
    overshoot_sentence,
    rejudged_sentence,
    run_budget,
    run_cost,
    run_duration,
    stop_reason,
)
from tui_evals.present.status import FINAL, final_count, rateless, run_look, status_counts
from tui_evals.store.records import AnswerRow, AnswerStatus, FailureCause, RunRow, Totals
from tui_evals.text.safe import safe_line
from tui_evals.tui.rows import Piece, Row, Style, fit, row, tone_style

if TYPE_CHECKING:
    from tui_evals.compare.baseline import AgainstBaseline

TREND = "trend"
"""The key of the lines that open how the runs before did."""

_STUCK = 30.0
_TARGETS = 4
"""Lines for targets where nobody says how many there is room for."""
_NAME = 24
"""Cells of the longest name of a target or a baseline."""
_TONES: Mapping[str, Style] = {"better": "pass", "worse": "fail"}
_MONEY_LEAST, _MONEY_AT = 44, 60
"""Where the cost stands on a narrow and on a wide screen."""
_AFTER_ERRORS: tuple[AnswerStatus, ...] = ("partial", "unjudged", "scored", "answered", "running", "pending")


class LiveTotals:
    """Totals that go on between two counts of the whole run, or of one target, which take long for a large one."""

    def __init__(self, target: int | None = None) -> None:
        self._target = target
        self._counted: Totals | None = None
        self._seq = 0
        self._later: dict[int, AnswerRow] = {}
        self._added = _Added()
        self._exact = False
        self._known: Totals | None = None
        """What they come to together, until something changes."""

    def counted(self, totals: Totals, seq: int, first_pass: bool) -> None:
        """A count that held at a sequence number; only in the first pass does an answer become final but once."""
        self._counted, self._seq, self._exact = totals, seq, not first_pass
        self._later = {key: row for key, row in self._later.items() if row.seq > seq}
        self._added = _Added()
        for answer in self._later.values():
            self._added.add(answer, 1)
        self._known = None

    def note(self, rows: Iterable[AnswerRow]) -> None:
        """Answers that changed."""
        for answer in rows:
            mine = self._target is None or answer.target == self._target
            if mine and answer.status in FINAL and answer.seq > self._seq:
                if (before := self._later.get(answer.id)) is not None:
                    self._added.add(before, -1)
                self._later[answer.id] = answer
                self._added.add(answer, 1)
                self._known = None

    @property
    def totals(self) -> Totals | None:
        """The run as far as one knows."""
        counted_totals = self._counted
        if counted_totals is None or self._exact or not self._later:
            return counted_totals
        if self._known is None:
            self._known = self._together(counted_totals)
        return self._known

    def _together(self, counted_totals: Totals) -> Totals:
        added = self._added
        counts = added.counts
        left = counted_totals.pending + counted_totals.running + counted_totals.answered - len(self._later)
        answered = min(counted_totals.answered, max(left, 0))
        running = min(counted_totals.running, max(left, 0) - answered)
        return replace(
            counted_totals,
            pending=max(left, 0) - answered - running,
            running=running,
            answered=answered,
            passed=counted_totals.passed + counts["pass"],
            failed=counted_totals.failed + counts["fail"],
            partial=counted_totals.partial + counts["partial"],
            errored=counted_totals.errored + counts["error"],
            unjudged=counted_totals.unjudged + counts["unjudged"],
            scored=counted_totals.scored + counts["scored"],
            cost=counted_totals.cost + added.cost,
            unpriced=counted_totals.unpriced + added.unpriced,
        )


@dataclass(slots=True)
class _Added:
    """What came after a count, kept in sums: between two counts of a large run there are thousands of answers."""

    counts: Counter[AnswerStatus] = field(default_factory=Counter)
    cost: float = 0.0
    unpriced: int = 0

    def add(self, row: AnswerRow, times: int) -> None:
        """An answer more, or one less where `times` is -1."""
        self.counts[row.status] += times
        if not row.from_cache:
            self.cost += times * (row.cost or 0.0)
            self.unpriced += times * (row.cost is None and not row.code and not row.scripted)


@dataclass(frozen=True, slots=True)
class RunNumbers:
    """What is known of a run in numbers now."""

    totals: Totals | None = None
    """All of it; None before the first count."""
    targets: Mapping[int, Totals] = field(default_factory=dict)
    """Each target, by position."""
    rate: float | None = None
    """Answers per second."""
    against: AgainstBaseline | None = None
    causes: Sequence[FailureCause] = ()
    measures: Sequence[str] = ()
    """What stands in the place of the pass rate where nothing can fail."""


def totals_rows(run: RunRow, known: RunNumbers, now: float, width: int, room: int = _TARGETS) -> list[Row]:
    """How far it is and what it cost, what passed per target, then why answers are missing, why it stopped, gates.

    Each has its place, whatever the numbers are. Where there is no room for all targets, a line says how many are left.
    """
    return [
        _progress_row(run, known, now, width),
        *_target_rows(run, known, width, room),
        *_why_rows(run, known, now, width),
    ]


def _progress_row(run: RunRow, known: RunNumbers, now: float, width: int) -> Row:
    """Status, progress and pace on the left, the money in a place of its own, what has no answer yet at the end."""
    look, totals = run_look(run), known.totals
    tone = tone_style(look.tone)
    if totals is None:
        return join_fitting([[Piece(look.text, tone)], [Piece(f"{run.total:,} answers", "dim")]], width)
    cost = run_cost(totals, budget=run_budget(run))
    words = _progress_words(run, totals, cost, _pace(run, known, now), width)
    space = width - words.begins - cell_width(words.money) - cell_width(words.right)
    gap = " " * (words.begins - cell_width(words.state + words.progress))
    loud: Style = "warn" if cost.unpriced or overshoot_sentence(run, totals) else ""
    pieces = [Piece(words.state, tone), Piece(words.progress + gap), Piece(words.money, loud)]
    judges = f"  {cost.judge_text}"
    if cost.judge_text and cell_width(judges) + 2 <= space:
        pieces.append(Piece(judges, "dim"))
        space -= cell_width(judges)
    if words.right:
        pieces += [Piece(" " * space), Piece(words.right, "error" if run.status == "interrupted" else "")]
    return Row(tuple(pieces))


def _pace(run: RunRow, known: RunNumbers, now: float) -> Sequence[str]:
    """How long it took, or how fast it goes and how long it will still go, each with what leads to it."""
    if took := run_duration(run):
        return [f" in {took}"]
    if known.totals is None or run.status != "running" or wait_sentence(run, now):
        return []
    return [f" · {part}" for part in pace_parts(known.rate, known.totals.total - final_count(known.totals))]


class _ProgressWords(NamedTuple):
    """The first line in words that fit."""

    state: str
    progress: str
    money: str
    right: str
    begins: int
    """Where the money stands."""


def _progress_words(run: RunRow, totals: Totals, cost: Cost, pace: Sequence[str], width: int) -> _ProgressWords:
    """Of what there is no room for, what waits is missed least, then the pace; the cost is never left out."""
    look, open_texts = run_look(run), open_phrases(run, totals)
    ready = f" {final_count(totals):,}/{totals.total:,}"
    timed, place = ready + "".join(pace), min(_MONEY_AT, max(_MONEY_LEAST, width * 11 // 20))
    last = "".join(open_texts[-1:])
    choices = (
        # The money leaves its place only for words that would else be left out.
        *([_ProgressWords(look.text, timed, cost.text, " · ".join(open_texts), place)] if len(open_texts) > 1 else []),
        _ProgressWords(look.text, timed, cost.text, last, 0),
        _ProgressWords(look.text, timed, cost.text, "", 0),
        _ProgressWords(look.text, ready + "".join(pace[1:]), cost.text, "", 0),
        _ProgressWords(look.text, ready, cost.text, "", 0),
        _ProgressWords(look.text, ready, cost.short, "", 0),
    )
    for words in (*choices, shortest := _ProgressWords(look.glyph, ready, cost.short, "", 0)):
        least = cell_width(words.state + words.progress) + 2
        ends = width - cell_width(words.right) - (2 if words.right else 0) - cell_width(words.money)
        begins = max(least, words.begins or min(place, ends))
        if begins <= ends or words is shortest:
            break
    return words._replace(begins=begins)


def _target_rows(run: RunRow, known: RunNumbers, width: int, room: int) -> list[Row]:
    """A line for each target: its name, its rate, what that is against the baseline, and what became of its answers."""
    if known.totals is None or not run.targets:
        return [Row()]
    by_target = known.targets or {0: known.totals}
    shown = list(by_target)[: room if len(by_target) <= room else max(room - 1, 1)]
    totals = [by_target[target] for target in shown]
    told = told_apart(run.targets, min(max(width // 5, 6), _NAME))
    names = [told[target] for target in shown]
    wide = max(map(cell_width, names))
    rates = [_rate(run, known, one) for one in totals]
    notes = [_baseline_note(known.against, target) for target in shown]
    # Shorter words before fewer of them: the counts first, then what is said of the baseline.
    for worded, form in ((True, 0), (False, 0), (False, 1), (False, 2), (False, 3)):
        texts = [note.texts[min(form, len(note.texts) - 1)] for note in notes]
        counts = _count_columns(totals, worded)
        used = [wide, *map(_widest, (rates, texts, *([piece.text for piece in column] for column in counts)))]
        if sum(used) + 2 * (sum(map(bool, used)) - 1) <= width:
            break
    rows = []
    for place, (name, rate, text, note) in enumerate(zip(names, rates, texts, notes, strict=True)):
        cells = [fit(name, wide, "strong"), Piece(rate, "strong"), Piece(text, note.tone)]
        cells += [column[place] for column in counts]
        padded = (_padded(cell, size) for cell, size in zip(cells, used, strict=True))
        rows.append(join_fitting(([cell] for cell in padded if cell.text), width)._replace(key=TREND))
    if left := len(by_target) - len(shown):
        rows.append(row((f"and {left} more targets: ", "dim"), (f"tui-evals show {run.key}", "key")))
    return rows


def _padded(piece: Piece, width: int) -> Piece:
    return piece._replace(text=piece.text + " " * (width - cell_width(piece.text)))


def _widest(texts: Sequence[str]) -> int:
    return max(map(cell_width, texts), default=0)


def _rate(run: RunRow, known: RunNumbers, totals: Totals) -> str:
    """The share that passes with its interval, or what stands in its place where nothing can fail."""
    judged = totals.passed + totals.failed
    if (interval := wilson(totals.passed, judged)) is not None:
        return f"{percent(totals.passed / judged)} ({100 * interval.low:.0f}–{100 * interval.high:.0f})"
    return " · ".join(known.measures) if rateless(totals) and len(run.targets) == 1 else ""


class _Note(NamedTuple):
    texts: Sequence[str]
    """In longer and shorter words."""
    tone: Style = ""


def _baseline_note(against: AgainstBaseline | None, target: int) -> _Note:
    """What a target is against the baseline."""
    test = against.targets.get(target) if against else None
    if against is None or (test is None and not against.itself):
        return _Note(("",))
    if test is None:
        return _Note(("is the baseline",), "dim")
    from tui_evals.present.comparisons import baseline_phrases, direction

    texts = baseline_phrases(test, safe_line(against.baseline.name, _NAME))
    return _Note(texts, _TONES.get(direction(test), ""))


def _count_columns(totals: Sequence[Totals], worded: bool) -> list[list[Piece]]:
    """What became of the answers of each target, a column for each status that any of them has.

    Of what there is no room for, answers that nobody could judge are missed least.
    """
    columns = list(zip(*map(status_counts, totals), strict=True))
    fixed = () if all(map(rateless, totals)) else ("pass", "fail")
    return [
        [
            Piece(
                f"{one.short} {one.status}" if worded else one.short, tone_style(one.look.tone) if one.count else "dim"
            )
            for one in column
        ]
        for column in sorted(columns, key=lambda column: column[0].status in _AFTER_ERRORS)
        if column[0].status in fixed
        or (any(one.count for one in column) and column[0].status not in ("running", "pending"))
    ]


def _why_rows(run: RunRow, known: RunNumbers, now: float, width: int) -> Iterator[Row]:
    """Why answers are missing, why it stopped or waits, how far another judging is, whether gates are met."""
    if known.causes:
        yield row(fit(cause_line(known.causes), width, "error"))
    reason, waits, stuck = stop_reason(run), wait_sentence(run, now), _stuck(run, now)
    over = "" if known.totals is None else overshoot_sentence(run, known.totals)
    if reason:
        yield row(fit(f"stopped: {reason}", width, "error"))
    elif judging := judging_sentence(run):
        yield row(fit(f"{judging}; the earlier scores count until it is whole", width, "warn"))
    for line in (waits, "" if waits else stuck, over, rejudged_sentence(run)):
        if line:
            yield row(fit(line, width, "warn"))
    if run.verdict:
        yield row(fit(f"gates {run.verdict}", width, "" if run.verdict.startswith("met") else "error"))


def _stuck(run: RunRow, now: float) -> str:
    silent = now - run.heartbeat if run.heartbeat is not None else 0.0
    return f"stuck? silent for {duration(silent)}" if run.status == "running" and silent > _STUCK else ""


def join_fitting(groups: Iterable[Sequence[Piece]], width: int) -> Row:
    """The groups one after another: the first, and of the others those that fit whole."""
    pieces: list[Piece] = []
    used = 0
    for group in groups:
        text = "".join(piece.text for piece in group)
        size = cell_width(text) + (2 if pieces else 0)
        if pieces and used + size > width:
            continue
        if pieces:
            pieces.append(Piece("  "))
        pieces += group
        used += size
    return Row(tuple(pieces))
