"""The table of results as rows: which columns fit a width, the words above them, and a row for each answer."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, overload

from tui_evals.present.answers import preview_text
from tui_evals.present.causes import plain_reason
from tui_evals.present.columns import beginning, cell_width
from tui_evals.present.figures import compact, duration, number
from tui_evals.present.status import result_look
from tui_evals.store.database import StoreError
from tui_evals.store.records import AnswerRow, RunRow, ScoreRecord
from tui_evals.text.measures import parse_measure
from tui_evals.text.money import money
from tui_evals.text.safe import safe_line
from tui_evals.tui.rows import Piece, Row, Style, fit, row, status_piece, tone_style

_PREVIEW = 12
_WIDE = 70
_LEAST_ROOM = 6


@dataclass(frozen=True, slots=True)
class RunExtent:
    """Of what a run has several, which is what needs a column."""

    turns: bool = False
    repeats: bool = False
    keys: tuple[str, ...] = ()
    """The evaluators."""
    longest: int = 8
    """Cells of the longest name of an item, as far as one has looked."""
    endings: bool = False
    """Whether some answer ended otherwise than usual."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: what it is sorted by, the word above it, and its cells without the space after it."""

    by: str
    word: str
    width: int
    right: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a width: those that always stay, those one can shift through, and what is left for the answer."""

    width: int
    fixed: tuple[Column, ...]
    shifting: tuple[Column, ...]
    first: int
    """How many shifting columns are further left."""
    more: bool
    """Whether there are more further right."""
    preview: int
    targets: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()


def layout(width: int, run: RunRow, several: RunExtent, offset: int = 0) -> Layout:
    """What fits a width, with so many shifting columns left out on the left."""
    targets = _without_provider(run.targets)
    fixed = tuple(_fixed(width, targets, run.prompts, several))
    shifting = tuple(_shifting(several.keys))
    room = width - sum(column.width + 1 for column in fixed)
    spare = _PREVIEW if width >= _WIDE else 0
    offset = max(0, min(offset, len(shifting) - 1))
    while offset and _width_of(shifting[offset - 1 :]) <= room - spare:
        offset -= 1
    shown: list[Column] = []
    for column in shifting[offset:]:
        if _width_of((*shown, column)) > room - spare:
            break
        shown.append(column)
    if not shown and room > _LEAST_ROOM:
        shown = [replace(shifting[offset], width=room - 1)]
    more = offset + len(shown) < len(shifting)
    return Layout(
        width, fixed, tuple(shown), offset, more, max(room - _width_of(shown), 0), targets, tuple(run.prompts)
    )


def _width_of(columns: Iterable[Column]) -> int:
    return sum(column.width + 1 for column in columns)


def _fixed(width: int, targets: Sequence[str], prompts: Sequence[str], several: RunExtent) -> Iterable[Column]:
    wide = 8 if width < 60 else 12 if width < 120 else 18
    yield Column("", "", 2)
    yield Column("name", "item", max(4, min(several.longest, wide + 2)))
    if several.turns:
        yield Column("turn", "turn", 4, True)
    if len(targets) > 1:
        yield Column("target", "target", max(6, min(max(map(cell_width, targets)), wide)))
    if several.repeats:
        yield Column("repeat", "rep", 3, True)
    if len(prompts) > 1:
        yield Column("prompt", "prompt", max(6, min(max(map(cell_width, prompts)), wide)))
    yield Column("status", "status", 10)
    yield Column("score", "score", 5, True)
    if several.endings:
        yield Column("ending", "ended", 7 if width < 120 else 14)


def _shifting(keys: Iterable[str]) -> Iterable[Column]:
    for key in keys:
        yield Column(f"evaluator:{key}", key, max(6, min(cell_width(safe_line(key, 20)), 10)))
    yield Column("latency_ms", "latency", 7, True)
    yield Column("output_tokens", "tokens", 9, True)
    yield Column("cost", "cost", 8, True)


def _without_provider(names: Sequence[str]) -> tuple[str, ...]:
    """Names without the provider they share."""
    if len(names) < 2 or len({name.rpartition("/")[0] for name in names}) > 1:
        return tuple(names)
    return tuple(name.rpartition("/")[2] for name in names)


def heading(shown: Layout, sort: str | None = None, descending: bool = False) -> Row:
    """The words above the columns, with the way of sorting, and hints where there are more columns."""
    pieces: list[Piece] = []
    for column in (*shown.fixed, *shown.shifting):
        word = fit(column.word, column.width, "strong", right=column.right)
        if column.by and column.by == sort:
            name = safe_line(column.word, 20)
            name = name if cell_width(name) < column.width else beginning(name, column.width - 1)
            word = fit(name + ("▼" if descending else "▲"), column.width, "accent", right=column.right)
        pieces += [word, Piece(" ")]
    if shown.first:
        pieces[2 * len(shown.fixed) - 1] = Piece("‹", "key")
    if shown.more:
        pieces[-1] = Piece("›", "key")
    pieces.append(fit("answer" if shown.preview > _LEAST_ROOM else "", shown.preview, "strong"))
    return Row(tuple(pieces), ground="title")


_LEAST_PREVIEW = 8
_VERDICTS: Mapping[str, str] = {"pass": "+", "fail": "-"}


class AnswerSource(Protocol):
    """What the table asks of whoever holds the answers."""

    run: RunRow | None
    marks: frozenset[int]

    @property
    def verdicts(self) -> Mapping[int, str]:
        """What people said of answers."""
        ...

    def __len__(self) -> int: ...

    def row(self, number: int) -> AnswerRow | None:
        """The answer in a row."""
        ...

    def scores(self, row: AnswerRow) -> Mapping[str, ScoreRecord]:
        """Its scores by evaluator."""
        ...

    def find(self, key: Hashable) -> int | None:
        """The row of an answer."""
        ...


def sample_extent(answers: AnswerSource, count: int = 64) -> RunExtent:
    """What the first answers tell of a run that has not been counted yet."""
    try:
        rows = [row for number in range(min(count, len(answers))) if (row := answers.row(number)) is not None]
        keys = {key for row in rows for key in answers.scores(row)}
    except StoreError:
        return RunExtent()
    longest = max((cell_width(safe_line(row.name, 40)) for row in rows), default=0)
    if any(row.name.startswith("#") for row in rows):
        longest = max(longest, len(f"#{len(answers)}"))
    several = {name: any(getattr(row, name.rstrip("s")) for row in rows) for name in ("turns", "repeats", "endings")}
    return RunExtent(**several, keys=tuple(sorted(keys)), longest=longest)


class AnswerTable(Sequence[Row]):
    """The answers as rows; each is made when it is looked at, so that any number of them opens at once."""

    def __init__(self, answers: AnswerSource, shown: Layout, now: Callable[[], float]) -> None:
        self._answers = answers
        self.layout = shown
        self._now = now

    def __len__(self) -> int:
        return len(self._answers)

    @overload
    def __getitem__(self, number: int) -> Row: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[Row]: ...

    def __getitem__(self, number: int | slice) -> Row | Sequence[Row]:
        if isinstance(number, slice):
            return [self[place] for place in range(len(self))[number]]
        try:
            answer = self._answers.row(number)
            if answer is None:
                return row(("  this answer has been deleted", "dim"))
            scores = self._answers.scores(answer)
        except StoreError as problem:
            return row(("  ! ", "error"), (str(problem), "error"))
        marked, verdict = answer.item in self._answers.marks, self._answers.verdicts.get(answer.id, "")
        return answer_row(answer, scores, self.layout, now=self._now(), marked=marked, verdict=verdict)

    def in_flight(self, numbers: Iterable[int]) -> list[int]:
        """Which of these rows wait for an answer just now."""
        try:
            answers = ((number, self._answers.row(number)) for number in numbers)
            return [number for number, row in answers if row is not None and row.status == "running"]
        except StoreError:
            return []  # the rows themselves say what is wrong with the store

    def find(self, key: Hashable) -> int | None:
        """The row of an answer by its id."""
        try:
            return self._answers.find(key)
        except StoreError:
            return None  # the rows themselves say what is wrong with the store


def answer_row(
    answer: AnswerRow,
    scores: Mapping[str, ScoreRecord],
    shown: Layout,
    *,
    now: float,
    marked: bool = False,
    verdict: str = "",
) -> Row:
    """One answer in the columns of a layout."""
    waiting = answer.status in ("pending", "running")
    tint: Style = "dim" if answer.status == "pending" else ""
    pieces = [Piece("▪" if marked else " ", "mark"), Piece(f"{_VERDICTS.get(verdict, ' ')} ", "mark")]
    for column in shown.fixed[1:]:
        pieces += [_fixed_cell(answer, column, shown, tint), Piece(" ")]
        if waiting and column.by == "status":
            break
    if waiting:
        room = shown.width - sum(column.width + 1 for column in shown.fixed if column.by != "score")
        pieces.append(fit(_age(answer, now), room, "running"))
    else:
        for column in shown.shifting:
            pieces += [_shifting_cell(answer, column, scores), Piece(" ")]
        text = _preview_text(answer) if shown.preview >= _LEAST_PREVIEW else ""
        pieces.append(fit(text, shown.preview, "error" if answer.status == "error" else ""))
    return Row(tuple(_merged(pieces)), answer.id)


def _age(answer: AnswerRow, now: float) -> str:
    """How long the call in flight has taken so far."""
    if answer.status != "running" or answer.started is None:
        return ""
    return f"in flight for {duration(max(now - answer.started, 0))}"


def _preview_text(answer: AnswerRow) -> str:
    if answer.code:
        return f"{answer.code}: {plain_reason(answer.preview)}"
    return preview_text(answer)


def _fixed_cell(answer: AnswerRow, column: Column, shown: Layout, tint: Style) -> Piece:
    match column.by:
        case "status":
            return status_piece(answer.status, column.width)
        case "score":
            text = "" if answer.score is None else f"{answer.score:.1f}".removesuffix(".0")
        case "ending":
            return fit(answer.ending, column.width, "warn")
        case "name":
            text = answer.name
        case "turn":
            text = str(answer.turn + 1)
        case "repeat":
            text = str(answer.repeat + 1)
        case "target":
            text = _nth(shown.targets, answer.target)
        case _:
            text = _nth(shown.prompts, answer.prompt) or "–"
    return fit(text, column.width, tint, right=column.right)


def _nth(names: Sequence[str], number: int) -> str:
    return names[number] if number < len(names) else f"#{number + 1}"


def _shifting_cell(answer: AnswerRow, column: Column, scores: Mapping[str, ScoreRecord]) -> Piece:
    match column.by:
        case "latency_ms":
            asked = answer.latency_ms is not None and not answer.from_cache
            text = duration((answer.latency_ms or 0.0) / 1000) if asked else ""
        case "output_tokens":
            read, written = answer.input_tokens, answer.output_tokens
            text = "" if read is None and written is None else f"{compact(read)}+{compact(written)}"
        case "cost":
            text = _cost(answer)
        case _:
            text, style = score_in_signs(scores.get(column.by.partition(":")[2]))
            return fit(text, column.width, style)
    return fit(text, column.width, "dim", right=True)


def _cost(answer: AnswerRow) -> str:
    if answer.scripted or answer.from_cache:
        return "scripted" if answer.scripted else "cached"
    if answer.cost is None:
        return "" if answer.code else "?"
    return money(answer.cost)


def score_in_signs(record: ScoreRecord | None) -> tuple[str, Style]:
    """What an evaluator made of an answer, in a few signs."""
    if record is None:
        return "", ""
    look = result_look(record.result)
    judged = record.result is not None
    plain = record.threshold is None and record.score in (0, 1) and judged
    figure = "" if record.score is None or plain else _figure(record.score, record.measure)
    if not judged:
        return figure or record.label or "", ""
    return f"{look.glyph} {figure}".strip(), tone_style(look.tone)


def _figure(score: float, measure: str) -> str:
    known = parse_measure(measure)
    return known.texts(score)[0] if known.unit in ("ms", "USD") else number(score)


def _merged(pieces: Iterable[Piece]) -> Iterable[Piece]:
    """Neighbours of one style as one piece, because each piece costs bytes on the wire."""
    held = Piece("")
    for piece in pieces:
        if piece.style == held.style or not piece.text.strip():
            held = Piece(held.text + piece.text, held.style)
        else:
            yield held
            held = piece
    yield held
