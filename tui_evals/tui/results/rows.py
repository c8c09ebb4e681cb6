"""The table of results as rows: which columns fit a width, the words above them, and a row for each answer."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Protocol

from tui_evals.compare.trend import BARS
from tui_evals.figures import percent
from tui_evals.light_records import LazySequence, dataclass
from tui_evals.present.answers import FAILING, answer_reason, plain_reason, preview_text
from tui_evals.present.columns import (
    AS_THEY_ARE,
    GAP,
    Column,
    Names,
    beginning,
    cell_width,
    elide,
    fit_columns,
    names_of,
    short_names,
    told_apart,
)
from tui_evals.present.figures import distribution
from tui_evals.present.status import ANSWER_LOOKS, result_look, status_counts, waiting_count
from tui_evals.runs.status import Status
from tui_evals.store.answer_facts import FACTS, FactColumn
from tui_evals.store.database import StoreError
from tui_evals.store.records import AnswerRow, RunRow, ScoreRecord
from tui_evals.store.rows import EvaluatorMean, ScoreSpread
from tui_evals.text.measures import counted, duration, number, parse_measure, plain_number, score_figures
from tui_evals.text.safe import safe_line
from tui_evals.tui.results.totals import join_fitting
from tui_evals.tui.rows import Piece, Row, Style, fit, row, status_piece, tone_style
from tui_evals.tui.watch import RunCount

_NAME = 40
_WHOLE_POINT = 0.005


@dataclass(frozen=True, slots=True)
class ColumnNumbers:
    """What is known of an evaluator in a run."""

    mean: EvaluatorMean | None = None
    spread: ScoreSpread | None = None
    before: EvaluatorMean | None = None
    """What it is in the baseline."""
    baseline: str = ""
    """What the baseline is called."""


def column_row(
    by: str, numbers: ColumnNumbers, answer: AnswerRow | None, record: ScoreRecord | None, width: int, *, blocks: bool
) -> Row:
    """A line about a column: the value of an answer first, then what all have; as much as fits."""
    fact = COLUMNS.get(by)
    if fact is not None:
        value = fact.text(answer) if answer is not None else ""
        return join_fitting([[Piece(fact.heading, "key")], [Piece(value or "no value")]], width)
    name = [Piece(safe_line(by.partition(":")[2], _NAME), "key")]
    if record is not None:
        value = score_figures(record.score, record.threshold, record.result, record.measure) or record.label or ""
        look = result_look(record.result)
        name.append(Piece(safe_line(f" {look.glyph if record.result else ''} {value}".rstrip()), tone_style(look.tone)))
    mean = numbers.mean
    if mean is None:
        return join_fitting([name], width)
    groups = [name, [Piece(rate_text(mean), "strong")]]
    if numbers.spread is not None:
        groups.append([Piece(spread_text(numbers.spread, mean.measure, blocks=blocks))])
    if change := change_text(mean, numbers.before, numbers.baseline):
        groups.append([Piece(change, "dim")])
    return join_fitting((group for group in groups if group[-1].text), width)


def rates_row(shown: Layout, means: Mapping[str, EvaluatorMean]) -> Row:
    """What passes of each evaluator, above its column."""
    before = shown.width - sum(column.width + GAP for column in shown.shifting) - GAP
    pieces = [Piece(" " * before)]
    for column in shown.shifting:
        mean = means.get(column.by.partition(":")[2]) if column.by not in COLUMNS else None
        judged = 0 if mean is None else mean.passed + mean.failed
        text = f"{100 * mean.passed / judged:.0f} %" if mean is not None and judged else ""
        pieces += [Piece(" "), fit(text, column.width, "dim")]
    return Row((*pieces, Piece(" ")))


def rate_text(mean: EvaluatorMean) -> str:
    """How much of what an evaluator judged passes, or what it gave instead of verdicts."""
    judged = mean.passed + mean.failed
    if not judged:
        return safe_line(distribution(mean), 60)
    errors = f", {mean.errored:,} could not be judged" if mean.errored else ""
    return f"passes {mean.passed:,} of {counted(judged, 'answer')} ({percent(mean.passed / judged)}){errors}"


def spread_text(spread: ScoreSpread, measure: str, *, blocks: bool) -> str:
    """How scores spread between two ends: a bar for each part, or its count where no bars can be drawn."""
    low, high = parse_measure(measure).texts(spread.low, spread.high)
    if not blocks:
        return f"{low} to {high}: {' '.join(map(plain_number, spread.counts))}"
    most = max(spread.counts) or 1
    top = len(BARS) - 1
    bars = "".join(" " if not count else BARS[max(round(top * count / most), 0)] for count in spread.counts)
    return f"{low} {bars} {high}"


def change_text(now: EvaluatorMean, before: EvaluatorMean | None, baseline: str) -> str:
    """What a rate was in the baseline; by how much it changed only where both judged equally many answers."""
    judged = now.passed + now.failed
    judged_before = 0 if before is None else before.passed + before.failed
    if before is None or not judged or not judged_before:
        return ""
    name, rate = safe_line(baseline, _NAME), before.passed / judged_before
    if judged != judged_before:
        return f"{percent(rate)} of {judged_before:,} in {name}"
    change = now.passed / judged - rate
    if abs(change) < _WHOLE_POINT / 10:
        return f"as in {name}"
    return f"{100 * change:+.1f} points on {name}".replace("-", "−")


_WIDE = 70
"""Cells from which there is always room for the beginning of an answer."""
_PREVIEW = 12
_WITH_REASON = 34
"""Cells of text from which the reason of a failure has a part of them."""
_WITH_QUESTION = 66
"""Cells of text from which the question has a part of them, and numbers of evaluators and facts keep them."""
_BEFORE = 3
"""Cells for a mark, a verdict of people, and the space after them."""
_HEADING = 6
"""Cells of the name of an evaluator, where its verdicts take fewer."""
_FIGURE = 6
"""Cells of a verdict with its figure."""
_LABEL = 10
"""Cells of the longest verdict: a label, or a sign and a time."""
_UNITS = ("ms", "USD")
_OF_ROWS = 50
"""Facts of more importance are before the texts, the others behind the evaluators."""


COLUMNS: Mapping[str, FactColumn] = {fact.name: fact.column for fact in FACTS if fact.column is not None}
USUAL = frozenset(name for name, column in COLUMNS.items() if not column.warns)
"""The facts that answers which are still to come are expected to have."""


@dataclass(frozen=True, slots=True)
class RunExtent:
    """Of what a run has several, which is what needs a column."""

    turns: bool = False
    repeats: bool = False
    evaluators: tuple[tuple[str, int], ...] = ()
    """The evaluators in the order of their columns, each with the cells of its verdicts."""
    names: Names = AS_THEY_ARE
    """How items are called, as far as is known."""
    filled: frozenset[str] = USUAL
    """The facts with a column that some answer has, as far as is known."""
    status: int = 10
    """Cells of the longest status."""
    questions: bool = False
    """Whether it is known what items ask."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The evaluators."""
        return tuple(key for key, _ in self.evaluators)


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a width: fixed ones, the texts, and behind them those that the cursor of columns goes through."""

    width: int
    fixed: tuple[Column, ...]
    shifting: tuple[Column, ...]
    first: int
    """How many shifting columns are further left."""
    more: bool
    """Whether there are more further right."""
    texts: tuple[Column, ...]
    """Question, answer and reason, as far as there is room."""
    at: int = 0
    """The shifting column under the cursor, counted from the first of all."""
    count: int = 0
    """How many shifting columns there are."""
    signs: bool = False
    """Evaluators have a cell for a sign and none for a number."""
    targets: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    names: Names = AS_THEY_ARE
    plain: frozenset[str] = frozenset()
    """Columns of evaluators that say no more than pass or fail."""

    @property
    def chosen(self) -> str:
        """The shifting column under the cursor; empty where there is none."""
        place = self.at - self.first
        return self.shifting[place].by if 0 <= place < len(self.shifting) else ""

    @property
    def room(self) -> int:
        """Cells of the texts with the spaces between them."""
        return sum(column.width + GAP for column in self.texts) - GAP if self.texts else 0


def layout(width: int, run: RunRow, several: RunExtent, at: int = 0, sort: str | None = None) -> Layout:
    """What fits a width, so that the shifting column under the cursor is in sight.

    Names and texts come first: evaluators give up their numbers before a text gets short, and facts their columns.
    """
    return _layout(width, tuple(run.targets), tuple(run.prompts), several, at, sort)


@lru_cache(8)
def _layout(
    width: int,
    target_names: tuple[str, ...],
    prompt_names: tuple[str, ...],
    several: RunExtent,
    at: int,
    sort: str | None,
) -> Layout:
    most = _longest_name(width)
    targets, prompts = (tuple(told_apart(short_names(names), most)) for names in (target_names, prompt_names))
    least = max(_PREVIEW, width // 5) if width >= _WIDE else 1
    answer = Column("answer", "answer", least, 98, rest=True)
    fitting = fit_columns([*_fixed(width, targets, prompts, several), answer], width - _BEFORE)
    fixed = tuple(column for column in fitting if column.by != "answer")
    room = width - _BEFORE - sum(column.width + GAP for column in fixed)
    facts = sorted(_shifting_facts(several, width), key=lambda column: column.by != sort)
    numbers = list(_evaluators(several, signs=False))
    signs = sum(column.wanted + GAP for column in numbers) > max(room - _WITH_QUESTION, 0)
    columns = [*(_evaluators(several, signs=True) if signs else numbers), *facts]
    at = max(0, min(at, len(columns) - 1))
    seen = _in_sight(columns, at, room - least - GAP, room - _WITH_QUESTION - GAP, sort)
    shown = tuple(replace(columns[place], width=columns[place].wanted) for place in seen)
    left = room - sum(column.width + GAP for column in shown) - GAP * bool(shown)
    return Layout(
        width=width,
        fixed=fixed,
        shifting=shown,
        first=seen.start,
        more=seen.stop < len(columns),
        texts=tuple(_texts(max(left, 0), several.questions, bool(numbers))),
        at=at,
        count=len(columns),
        signs=signs,
        targets=targets,
        prompts=prompts,
        names=several.names,
        plain=frozenset(f"evaluator:{key}" for key, cells in several.evaluators if cells == 1 or signs),
    )


def _in_sight(columns: Sequence[Column], at: int, room: int, spare: int, sort: str | None) -> range:
    """The shifting columns in sight, the one under the cursor among them.

    Facts behind the cursor take only what is to `spare`, but for the one that answers are sorted by.
    """
    first, used = 0, 0
    while first < at and sum(column.wanted + GAP for column in columns[first : at + 1]) > room:
        first += 1
    for place, column in enumerate(columns[first:], first):
        used += column.wanted + GAP
        is_spare = column.by in COLUMNS and place > at and column.by != sort
        if used > (spare if is_spare else room):
            return range(first, place)
    return range(first, len(columns))


def _texts(room: int, questions: bool, judged: bool) -> Iterable[Column]:
    """The question, the answer and the reason of a failure in so many cells."""
    question = room * 3 // 10 if questions and room >= _WITH_QUESTION else 0
    reason = (room - question) // 2 if judged and room - question >= _WITH_REASON else 0
    answer = room - question - reason
    if question:
        yield Column("question", "question", question, width=question - GAP)
    yield Column("answer", "answer", answer, width=answer - GAP * bool(reason))
    if reason:
        yield Column("reason", "why it failed", reason, width=reason)


def _longest_name(width: int) -> int:
    return max(width // 5, 12)


def _fixed(width: int, targets: Sequence[str], prompts: Sequence[str], several: RunExtent) -> Iterable[Column]:
    yield Column("name", "item", min(max(several.names.wanted, 4), max(_longest_name(width), 16)), 100, 6)
    # What tells rows apart stays before the answer does.
    if several.turns:
        yield Column("turn", "turn", 4, 99, right=True)
    if len(targets) > 1:
        yield Column("target", "target", max(6, *map(cell_width, targets)), 99, 6)
    if several.repeats:
        yield Column("repeat", "rep", 3, 99, right=True)
    if len(prompts) > 1:
        yield Column("prompt", "prompt", max(6, *map(cell_width, prompts)), 99, 6)
    yield Column("status", "status", several.status, 99)
    yield from _fact_columns(several, width, lambda column: column.importance >= _OF_ROWS)


def _evaluators(several: RunExtent, *, signs: bool) -> Iterable[Column]:
    """A column for each evaluator: as wide as its verdicts, or one sign."""
    words = told_apart(several.keys, 1 if signs else _HEADING)
    for (key, cells), word in zip(several.evaluators, words, strict=True):
        yield Column(f"evaluator:{key}", word, 1 if signs else max(cells, cell_width(word), 3))


def _shifting_facts(several: RunExtent, width: int) -> Iterable[Column]:
    return _fact_columns(several, width, lambda column: column.importance < _OF_ROWS)


def _fact_columns(several: RunExtent, width: int, fits: Callable[[FactColumn], bool]) -> Iterable[Column]:
    """The columns of facts that some answer has, the most important first."""
    shown = [(name, column) for name, column in COLUMNS.items() if name in several.filled and fits(column)]
    for name, column in sorted(shown, key=lambda entry: -entry[1].importance):
        cells = column.wide if column.wide and width >= 120 else column.width
        yield Column(name, column.heading, cells, column.importance, right=column.right)


def heading(shown: Layout, sort: str | None = None, descending: bool = False) -> Row:
    """The words above the columns, with the way of sorting, and hints where there are more columns."""
    pieces: list[Piece] = [Piece(" " * _BEFORE)]
    columns = (*shown.fixed, *shown.texts, *shown.shifting)
    for column in columns:
        style: Style = "key" if column.by == shown.chosen else "strong"
        word = fit(column.word, column.width, style, right=column.right)
        if column.by and column.by == sort:
            name = safe_line(column.word, 20)
            name = name if cell_width(name) < column.width else beginning(name, column.width - 1)
            word = fit(name + ("▼" if descending else "▲"), column.width, "accent", right=column.right)
        pieces += [word, Piece(" ")]
    if not shown.shifting:
        pieces.pop()
    elif shown.more:
        pieces[-1] = Piece("›", "key")
    if shown.first and shown.shifting:
        pieces[2 * (len(shown.fixed) + len(shown.texts))] = Piece("‹", "key")
    return Row(tuple(pieces), ground="title")


def column_at(shown: Layout, x: int) -> str:
    """The column whose word is at a cell of the heading; empty where there is none that answers can be sorted by."""
    end = _BEFORE
    for column in (*shown.fixed, *shown.texts, *shown.shifting):
        end += column.width + GAP
        if x < end:
            return column.by
    return ""


_LEAST_PREVIEW = 8
_VERDICTS: Mapping[str, str] = {"pass": "+", "fail": "-"}


class AnswerSource(Protocol):
    """The answers as the table reads them."""

    run: RunRow | None
    marks: frozenset[int]
    tried: Mapping[int, Status]
    """The statuses that answers would have under a rule that is tried."""

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

    def question(self, row: AnswerRow) -> str:
        """The beginning of what it was asked, as far as is known."""
        ...

    def find(self, key: Hashable) -> int | None:
        """The row of an answer."""
        ...


def sample_extent(answers: AnswerSource, count: int = 64) -> RunExtent:
    """What the first and the last answers tell of a run that has not been counted yet."""
    numbers = [*range(min(count, len(answers))), *range(max(len(answers) - count // 4, count), len(answers))]
    try:
        rows = [row for number in numbers if (row := answers.row(number)) is not None]
        scores = [record for row in rows for record in answers.scores(row).values()]
    except StoreError:
        return RunExtent()
    names = names_of(row.name for row in rows)
    if any(row.name.startswith("#") for row in rows):
        names = replace(names, wanted=max(names.wanted, len(f"#{len(answers)}")))
    several = {name: any(getattr(row, name.rstrip("s")) for row in rows) for name in ("turns", "repeats")}
    return RunExtent(**several, evaluators=_sampled(scores), names=names, filled=_filled(rows))


def _sampled(scores: Iterable[ScoreRecord]) -> tuple[tuple[str, int], ...]:
    """The evaluators of some scores, each with the cells of its verdicts."""
    cells: dict[str, int] = {}
    for record in scores:
        plain = record.result is not None and record.score in (0, 1, None)
        size = 1 if plain else cell_width(score_in_signs(record)[0])
        cells[record.key] = max(cells.get(record.key, 1), min(size, _LABEL))
    return tuple(sorted(cells.items()))


def _filled(rows: Sequence[AnswerRow]) -> frozenset[str]:
    """The facts that some of these answers have; those that are still to come are expected to have the usual ones."""
    some = frozenset(name for name, column in COLUMNS.items() if any(map(column.is_filled, rows)))
    return some | USUAL if not rows or any(row.status in ("pending", "running") for row in rows) else some


def counted_extent(count: RunCount) -> RunExtent:
    """What a count tells of a run, but for its evaluators; what nothing stands in once it is over has no column."""
    extent = RunExtent(turns=count.turns, repeats=count.repeats, names=count.names, filled=count.filled | USUAL)
    if waiting_count(count.totals):
        return extent
    return replace(
        extent,
        filled=count.filled,
        status=max((len(one.look.text) for one in status_counts(count.totals) if one.count), default=6),
    )


def verdict_cells(mean: EvaluatorMean) -> int:
    """How many cells the verdicts of an evaluator take: one where it knows nothing between pass and fail."""
    if mean.labels:
        return min(max(cell_width(safe_line(label, _LABEL)) for label in mean.labels), _LABEL)
    if mean.mean is None or mean.mean == mean.squares:  # the square of a number is the number for 0 and 1 alone
        return 1
    return _LABEL - 1 if parse_measure(mean.measure).unit in _UNITS else _FIGURE


class AnswerTable(LazySequence[Row]):
    """The answers as rows; each is made when it is looked at, so that any number of them opens at once."""

    def __init__(self, answers: AnswerSource, shown: Layout, now: Callable[[], float]) -> None:
        self._answers = answers
        self.layout = shown
        self._now = now

    def __len__(self) -> int:
        return len(self._answers)

    def row_at(self, number: int) -> Row:
        try:
            answer = self._answers.row(number)
            if answer is None:
                return row(("  this answer has been deleted", "dim"))
            scores = self._answers.scores(answer)
        except StoreError as problem:
            return row(("  ! ", "error"), (str(problem), "error"))
        marked, verdict = answer.item in self._answers.marks, self._answers.verdicts.get(answer.id, "")
        asked = self._answers.question(answer)
        tried = self._answers.tried.get(answer.id)
        shown, now = self.layout, self._now()
        return answer_row(answer, scores, shown, now=now, marked=marked, verdict=verdict, question=asked, tried=tried)

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
    question: str = "",
    tried: Status | None = None,
) -> Row:
    """One answer in the columns of a layout; `tried` is its status under a rule that is tried."""
    waiting = answer.status in ("pending", "running")
    tint: Style = "dim" if answer.status == "pending" else ""
    pieces = [Piece("▪" if marked else " ", "mark"), Piece(f"{_VERDICTS.get(verdict, ' ')} ", "mark")]
    room = shown.width - _BEFORE
    for column in shown.fixed:
        cell = _fixed_cell(answer, column, shown, tint)
        if tried is not None and column.by == "status":
            looks = (ANSWER_LOOKS[answer.status], ANSWER_LOOKS[tried])
            cell = fit("→".join(look.glyph for look in looks), column.width, tone_style(looks[1].tone))
        pieces += [cell, Piece(" ")]
        room -= column.width + GAP
        if waiting and column.by == "status":
            break
    if waiting:
        asked = next((fit(question, one.width, "dim") for one in shown.texts if one.by == "question"), Piece(""))
        age = _age(answer, now)
        pieces.append(fit(age or asked.text, room, "running" if age else "dim"))
    else:
        pieces += _text_pieces(answer, scores, shown, question)
        for column in shown.shifting:
            pieces += [Piece(" "), _shifting_cell(answer, column, scores, column.by in shown.plain)]
        pieces += [Piece(" ")] if shown.shifting else []
    return Row(tuple(_merged(pieces)), answer.id)


def _text_pieces(answer: AnswerRow, scores: Mapping[str, ScoreRecord], shown: Layout, question: str) -> Iterable[Piece]:
    """The question, the answer and why it failed; a text has the room of those after it that are empty."""
    text = _preview_text(answer) if shown.room >= _LEAST_PREVIEW else ""
    style: Style = "error" if answer.status == "error" else ""
    why = _reason_text(scores) if not answer.code and shown.texts[-1].by == "reason" else ""
    for column in shown.texts:
        match column.by:
            case "question":
                yield from (fit(" ".join(question.split()), column.width, "dim"), Piece(" "))
            case "answer" if shown.texts[-1].by != "reason":
                yield fit(text, column.width, style)
            case "answer" if not why:
                yield fit(text, column.width + GAP + shown.texts[-1].width, style)
            case "answer":
                yield from (fit(text, column.width), Piece(" "), fit(why, shown.texts[-1].width, "fail"))


def _age(answer: AnswerRow, now: float) -> str:
    """How long the call in flight has taken so far."""
    if answer.status != "running" or answer.started is None:
        return ""
    return f"in flight for {duration(max(now - answer.started, 0))}"


def _preview_text(answer: AnswerRow) -> str:
    if answer.code:
        return plain_reason(answer.preview) or answer.code
    return preview_text(answer)


def _reason_text(scores: Mapping[str, ScoreRecord]) -> str:
    """Why an answer does not pass, in the words of the first evaluator that says so."""
    failing = [record for record in scores.values() if record.result in FAILING]
    return answer_reason("", failing) if failing else ""


def _fixed_cell(answer: AnswerRow, column: Column, shown: Layout, tint: Style) -> Piece:
    if fact := COLUMNS.get(column.by):
        return fit(fact.text(answer), column.width, "warn" if fact.warns else tint, right=column.right)
    match column.by:
        case "status":
            return status_piece(answer.status, column.width)
        case "name":
            text = shown.names.fit(answer.name, column.width)
        case "turn":
            text = str(answer.turn + 1) if answer.turn else ""
        case "repeat":
            text = str(answer.repeat + 1)
        case "target":
            text = elide(_nth(shown.targets, answer.target), column.width)
        case _:
            text = elide(_nth(shown.prompts, answer.prompt) or "–", column.width)
    return fit(text, column.width, tint, right=column.right)


def _nth(names: Sequence[str], number: int) -> str:
    return names[number] if number < len(names) else f"#{number + 1}"


def _shifting_cell(answer: AnswerRow, column: Column, scores: Mapping[str, ScoreRecord], plain: bool) -> Piece:
    if fact := COLUMNS.get(column.by):
        return fit(fact.text(answer), column.width, "warn" if fact.warns else "dim", right=column.right)
    record = scores.get(column.by.partition(":")[2])
    text, style = score_in_signs(record)
    if plain and record is not None and record.result is not None:
        text = result_look(record.result).glyph
    return fit(text, column.width, style)


def score_in_signs(record: ScoreRecord | None) -> tuple[str, Style]:
    """What an evaluator made of an answer, in a few signs."""
    if record is None:
        return "", ""
    look, judged = result_look(record.result), record.result is not None
    plain = record.threshold is None and record.score in (0, 1) and judged
    figure = "" if record.score is None or plain else _figure(record.score, record.measure)
    if not judged:
        return figure or record.label or "", ""
    return f"{look.glyph} {figure}".strip(), tone_style(look.tone)


def _figure(score: float, measure: str) -> str:
    known = parse_measure(measure)
    if known.unit in _UNITS:
        return known.texts(score)[0]
    return number(score).removesuffix(".00") if known.unit else number(score)


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
