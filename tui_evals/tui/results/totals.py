"""The head of the results: progress, cost and pass rates of a run, why it stopped, and its workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual.binding import Binding, BindingType
from textual.widget import Widget

from tui_evals.figures import percent
from tui_evals.light_records import LazySequence, dataclass
from tui_evals.present.answers import cause_line
from tui_evals.present.columns import GAP, cell_width, elide, fit_columns, told_apart
from tui_evals.present.columns import Column as TableColumn
from tui_evals.present.gates import gate_texts
from tui_evals.present.runs import (
    Column,
    Cost,
    WorkerTotals,
    judging_sentence,
    line_names,
    open_phrases,
    overshoot_sentence,
    pace_parts,
    rejudged_sentence,
    run_budget,
    run_cost,
    run_duration,
    stop_reason,
    wait_sentence,
)
from tui_evals.present.status import final_count, is_stopped_by_person, rateless, run_look, status_counts
from tui_evals.store.records import LIVE_STATUSES, AnswerStatus, FailureCause, RunRow, Totals, WorkerRow, WorkerState
from tui_evals.text.measures import counted, duration
from tui_evals.text.safe import safe_line
from tui_evals.tui.desk import Command, Commands, Desk
from tui_evals.tui.rows import Piece, Row, Rows, Style, fit, paragraph, row, tone_style
from tui_evals.tui.watch import Watch
from tui_evals.tui.widgets.dialogs import Dialog
from tui_evals.tui.widgets.lines import Lines

if TYPE_CHECKING:
    from tui_evals.compare.baseline import AgainstBaseline


TREND = "trend"
"""The key of the lines that open how the runs before did."""

_STUCK = 30.0
_GATES = 4
"""Lines for gates."""
_WORST_GATES = ("not met", "not decided", "met")
_TARGETS = 4
"""Lines for columns where the room is not known."""
_NAME = 24
"""Cells of the longest name of a target or a baseline."""
_TONES: Mapping[str, Style] = {"better": "pass", "worse": "fail"}
_MONEY_LEAST, _MONEY_AT = 44, 60
"""Where the cost is on a narrow and on a wide screen."""
_AFTER_ERRORS: tuple[AnswerStatus, ...] = ("partial", "unjudged", "scored", "answered", "running", "pending")


@dataclass(frozen=True, slots=True)
class RunNumbers:
    """What is known of a run in numbers now."""

    totals: Totals | None = None
    """All of it; None before the first count."""
    columns: Mapping[Column, Totals] = field(default_factory=dict)
    """Each prompt and target, where there are several."""
    rate: float | None = None
    """Answers per second."""
    against: AgainstBaseline | None = None
    causes: Sequence[FailureCause] = ()
    measures: Sequence[str] = ()
    """What is in the place of the pass rate where nothing can fail."""


def totals_rows(run: RunRow, known: RunNumbers, now: float, width: int, room: int = _TARGETS) -> list[Row]:
    """How far it is and what it cost, what passed per target, then why answers are missing, why it stopped, gates.

    Each has its place, whatever the numbers are. Where there is no room for all columns, a line says how many are left.
    """
    return [
        _progress_row(run, known, now, width),
        *_column_rows(run, known, width, room),
        *_why_rows(run, known, now, width),
    ]


def _progress_row(run: RunRow, known: RunNumbers, now: float, width: int) -> Row:
    """Status, progress and pace on the left, the money in a place of its own, what has no answer yet at the end."""
    look, totals = run_look(run), known.totals
    tone = tone_style(look.tone)
    if totals is None:
        return join_fitting([[Piece(look.text, tone)], [Piece(counted(run.total, "answer"), "dim")]], width)
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
    done, of = (
        (run.staged, run.staged_total)
        if run.staged_pass and run.status in LIVE_STATUSES
        else (final_count(totals), totals.total)
    )
    ready = f" {done:,}/{of:,}"
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


def _column_rows(run: RunRow, known: RunNumbers, width: int, room: int) -> list[Row]:
    """A line for each prompt and target: name, rate, difference from the baseline, counts of its answers."""
    if known.totals is None or not run.targets:
        return [Row()]
    columns = known.columns or {(0, 0): known.totals}
    shown = list(columns)[: room if len(columns) <= room else max(room - 1, 1)]
    totals = [columns[column] for column in shown]
    names_of_all = line_names(run)
    told = told_apart(tuple(names_of_all[column] for column in shown), min(max(width // 5, 6), _NAME))
    names = list(told)
    wide = max(map(cell_width, names))
    rates = [_rate(known, one) for one in totals]
    notes = [_baseline_note(known.against, column) for column in shown]
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
    if left := len(columns) - len(shown):
        rows.append(row((f"and {counted(left, 'more column')}: ", "dim"), (f"tui-evals show {run.key}", "key")))
    return rows


def _padded(piece: Piece, width: int) -> Piece:
    return piece._replace(text=piece.text + " " * (width - cell_width(piece.text)))


def _widest(texts: Sequence[str]) -> int:
    return max(map(cell_width, texts), default=0)


def _rate(known: RunNumbers, totals: Totals) -> str:
    """The share that passes with its interval, or what is in its place where nothing can fail."""
    if (rate := totals.pass_rate) is not None and (ends := rate.interval) is not None:
        items = "" if rate.items == rate.answers else f" of {counted(rate.items, 'item')}"
        return f"{percent(rate.value)}{items} ({100 * ends.low:.0f}–{100 * ends.high:.0f})"
    return " · ".join(known.measures) if rateless(totals) and len(known.columns) < 2 else ""


class _Note(NamedTuple):
    texts: Sequence[str]
    """In longer and shorter words."""
    tone: Style = ""


def _baseline_note(against: AgainstBaseline | None, column: Column) -> _Note:
    """What a column is against the baseline."""
    test = against.columns.get(column) if against else None
    if against is None or (test is None and not against.itself):
        return _Note(("",))
    if test is None:
        return _Note(("is the baseline",), "dim")
    from tui_evals.present.comparisons import baseline_phrases, direction

    texts = baseline_phrases(test, safe_line(against.baseline.name, _NAME))
    return _Note(texts, _TONES.get(direction(test), ""))


def _count_columns(totals: Sequence[Totals], worded: bool) -> list[list[Piece]]:
    """What became of the answers of each target, a column for each status that any of them has.

    Unjudged answers are left out first.
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
        by_person = is_stopped_by_person(run)
        yield row(fit(reason if by_person else f"stopped: {reason}", width, "dim" if by_person else "error"))
    elif judging := judging_sentence(run):
        yield row(fit(f"{judging}; the earlier scores count until it is whole", width, "warn"))
    for line in (waits, "" if waits else stuck, over, rejudged_sentence(run)):
        if line:
            yield row(fit(line, width, "warn"))
    yield from _gate_rows(run, width)


def _gate_rows(run: RunRow, width: int) -> Iterator[Row]:
    """Each gate with its verdict and figure, and why it is not met; the worst first where they are many."""
    if run.verdict and not run.gates:
        yield row(fit(f"gates {run.verdict}", width, "" if run.verdict.startswith("met") else "error"))
    ordered = sorted(gate_texts(run.gates), key=lambda gate: _WORST_GATES.index(gate.look.word))
    for gate in ordered[:_GATES]:
        words = Piece(f"{gate.look.text}  ", tone_style(gate.look.tone))
        more = "  ".join(filter(None, (gate.name, gate.figure, gate.why)))
        yield join_fitting([[words, fit(more, max(width - cell_width(words.text), 1))]], width)
    if (left := len(ordered) - _GATES) > 0:
        yield row((f"and {counted(left, 'more gate')}: ", "dim"), (f"tui-evals show {run.key}", "key"))


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


STATES: Mapping[WorkerState, tuple[str, Style]] = {
    "silent": ("◌", "warn"),
    "alive": ("●", "pass"),
    "gone": ("○", "dim"),
}
"""In the order of the list: those one wonders about come first."""

_ORDER = {state: number for number, state in enumerate(STATES)}
_NUMBERS = ("cells", "calls/s", "calls", "errors", "last heard")
"""The most important first."""
_STATE = max(map(len, STATES)) + 2
_LEAST_NAME = 8


def workers_line(totals: WorkerTotals, width: int, hint: str = "") -> Row:
    """All workers of a run, with as much as fits; last the key that lists them."""
    counts: dict[WorkerState, int] = {"alive": totals.alive, "silent": totals.silent, "gone": totals.gone}
    state, *others = [state for state in counts if counts[state]] or ["gone"]
    glyph, style = STATES[state]
    word = "" if state == "alive" else f" {state}"
    groups = [[Piece(f"{glyph} {counted(counts[state], 'worker')}{word}", style)]]
    if totals.alive or totals.silent:
        rate = f"{totals.rate:,.0f}" if totals.rate >= 100 else f"{totals.rate:.1f}"
        groups += [[Piece(counted(totals.cells, "cell"))], [Piece(f"{rate}/s")]]
    else:
        groups.append([Piece(counted(totals.calls, "call"))])
    groups.append([Piece(f"! {counted(totals.errors, 'error')}", "error" if totals.errors else "dim")])
    groups += [[Piece(f"{STATES[other][0]} {counts[other]:,} {other}", "warn")] for other in others]
    groups += [[Piece(hint, "key"), Piece(" lists them", "dim")]] if hint else []
    return join_fitting(groups, width)


def worker_columns(workers: Sequence[WorkerRow], width: int, now: float) -> list[TableColumn]:
    """What of each worker is told in a width, the columns as wide as what is in them."""
    told = [_cells(worker, now) for worker in workers]

    def wanted(by: str) -> int:
        return max((cell_width(safe_line(cells[by].text, width)) for cells in told), default=0)

    numbers = (
        TableColumn(word, word, max(wanted(word), len(word)) if wanted(word) else 0, -place, right=True)
        for place, word in enumerate(_NUMBERS)
    )
    name = TableColumn("worker", "worker", max(wanted("worker"), 6), 1, _LEAST_NAME, rest=True)
    return fit_columns((TableColumn("state", "state", _STATE, 2), name, *numbers), width)


def heading(columns: Sequence[TableColumn]) -> Row:
    """The words above the columns of the list."""
    return _line({column.by: Piece(column.word, "dim") for column in columns}, columns)


class WorkerRows(LazySequence[Row]):
    """The list; each row is made when it comes into view."""

    def __init__(self, workers: Sequence[WorkerRow], width: int, now: float) -> None:
        self._workers = sorted(workers, key=lambda worker: (_ORDER[worker.state], worker.name))
        self._columns = worker_columns(workers, width, now)
        self._now = now

    def __len__(self) -> int:
        return len(self._workers)

    def row_at(self, number: int) -> Row:
        return _line(_cells(self._workers[number], self._now), self._columns)


def _cells(worker: WorkerRow, now: float) -> dict[str, Piece]:
    """What there is to tell of a worker, by the column it is in."""
    glyph, style = STATES[worker.state]
    return {
        "state": Piece(f"{glyph} {worker.state}", style),
        "worker": Piece(worker.name.partition("://")[2] or worker.name),
        "cells": Piece(f"{worker.cells:,}"),
        "calls/s": Piece(f"{worker.rate:,.1f}"),
        "calls": Piece(f"{worker.calls:,}"),
        "errors": Piece(f"{worker.errors:,}", "error" if worker.errors else ""),
        "last heard": Piece(duration(max(now - worker.seen, 0.0)) if worker.state != "alive" else ""),
    }


def _line(cells: Mapping[str, Piece], columns: Sequence[TableColumn]) -> Row:
    pieces: list[Piece] = []
    for column in columns:
        text, style = cells[column.by]
        text = elide(text, column.width) if column.by == "worker" else text
        pieces += [Piece(" " * GAP)] * bool(pieces) + [fit(text, column.width, style, right=column.right)]
    return Row(tuple(pieces))


def no_workers_rows(width: int) -> list[Row]:
    """What is shown where no worker is known."""
    message = "None is known: this run has not heard of any worker."
    return [*paragraph(message, width, "dim")]


_LOOK = 0.1


class WorkersDialog(Dialog[None]):
    """A list that stays current: the watch polls the store, and this checks whether it found changes."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,M", "leave", "back", show=False)]

    def __init__(self, watch: Watch, now: Callable[[], float] = time.time) -> None:
        super().__init__("workers of the run on screen", "j k scroll · g G top and bottom · esc back")
        self._watch = watch
        self._now = now
        self._drawn: Sequence[WorkerRow] = watch.crew.rows

    def body(self) -> list[Widget]:
        self._head = Lines(choosing=False, id="crew")
        self._head.can_focus = False
        self._head.show(self._above)
        self._list = Lines(choosing=False, classes="tall")
        self._list.show(self._rows)
        return [self._head, self._list]

    def on_mount(self) -> None:
        self.set_interval(_LOOK, self._look)

    def _above(self, width: int) -> Rows:
        return [workers_line(self._watch.crew.totals, width), heading(self._columns(width))]

    def _columns(self, width: int) -> list[TableColumn]:
        return worker_columns(self._watch.crew.rows, width, self._now())

    def _rows(self, width: int) -> Rows:
        return WorkerRows(self._watch.crew.rows, width, self._now()) or no_workers_rows(width)

    def _look(self) -> None:
        rows = self._watch.crew.rows
        if rows is not self._drawn:
            self._drawn = rows
            self._head.show(self._above)
            self._list.show(self._rows)


def why_no_workers(desk: Desk) -> str | None:
    """No run, or one without workers."""
    if desk.watching.run is None:
        return "no run is on screen: 6 lists runs"
    if desk.watching.crew.rows:
        return None
    shared = desk.watching.run.config.get("terms", {}).get("cluster") is not None
    return "no worker has said anything yet" if shared else "this run has no workers: it is executed by one process"


def open_workers(desk: Desk) -> None:
    """The list, over what is on screen."""
    desk.push_screen(WorkersDialog(desk.watching))


COMMANDS: Commands = {"workers": Command(open_workers, why_no_workers)}
