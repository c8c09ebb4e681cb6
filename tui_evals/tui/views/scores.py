"""What the evaluators made of an answer, in the pass that counts and in earlier ones, and what people said of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tui_evals.store.records import AnswerStatus, ScoreRecord
from tui_evals.store.rows import Label
from tui_evals.text.figures import number
from tui_evals.text.safe import safe_line
from tui_evals.tui.lines import GLYPHS, Piece, Row, Rows, row, status_piece

from .case import Case, units
from .parts import heading, paragraph
from .transcript import pretty

_RESULTS: dict[str, AnswerStatus] = {"pass": "pass", "fail": "fail", "error": "error"}
_NOTHING: tuple[object, ...] = ("", [], {})


def score_rows(case: Case, width: int) -> Iterator[Rows]:
    """What the evaluators made of it in the pass that counts, in earlier ones, and what people said."""
    scores, together, labels = case.detail.scores, case.detail.together, case.detail.labels
    now = case.run.scoring_pass
    if not scores and not together and not labels:
        return
    yield heading("Scores" if now < 2 else f"Scores of pass {now}")
    for label in labels:
        yield _label(label, width)
    if now not in scores and now not in together:
        yield [row(("Not judged in this pass.", "dim"))]
    yield from _judged(scores, now, width)
    if now in together:
        what = "turn" if len(units(case.item)) > 1 else "item"
        yield [row()]
        yield paragraph(f"All answers to this {what}; it counts into the status of none of them:", width)
    yield from _judged(together, now, width)


def _judged(passes: Mapping[int, tuple[ScoreRecord, ...]], now: int, width: int) -> Iterator[Rows]:
    for record in passes.get(now, ()):
        yield from _score(record, width)
        before = [
            f"pass {place}: {_short(one)}"
            for place, records in passes.items()
            if place != now
            for one in records
            if one.key == record.key
        ]
        if before:
            yield paragraph(" · ".join(before), width, "dim", 2)


def _score(record: ScoreRecord, width: int) -> Iterator[Rows]:
    limit = "" if record.threshold is None else f" of at least {_points(record.threshold)}"
    score = "" if record.score is None else f" {_points(record.score)}{limit}"
    kind = f" ({record.evaluator})" if record.evaluator != record.key else ""
    weight = "" if record.weight == 1 else f" · weight {record.weight:g}"
    label = f" · {record.label}" if record.label else ""
    about = paragraph(f"{record.key}{kind}{score}{label}{weight}", max(width - 10, 10))
    for place, line in enumerate(about):
        yield [Row((_result(record.result) if not place else Piece(" " * 10), *line.pieces))]
    if record.reason:
        yield paragraph(record.reason, width, "", 2)
    for name, value in record.details.items():
        if value is not None and value not in _NOTHING:
            yield paragraph(f"{name}: {value if isinstance(value, str) else pretty(value)}", width, "dim", 2)


def _result(result: str | None) -> Piece:
    if result in _RESULTS:
        return status_piece(_RESULTS[result], 10)
    return Piece(f"- {safe_line(result or 'scored', 7)}".ljust(10), "dim")


def _short(record: ScoreRecord) -> str:
    glyph = GLYPHS[_RESULTS[record.result]][0] if record.result in _RESULTS else "-"
    return f"{glyph} {record.result or 'scored'}" + ("" if record.score is None else f" {_points(record.score)}")


def _label(label: Label, width: int) -> Rows:
    glyph, style = GLYPHS[label.verdict]
    about = f" of {label.evaluator}" if label.evaluator else ""
    word = "good" if label.verdict == "pass" else "bad"
    note = f": {label.note}" if label.note else ""
    return paragraph(f"{glyph} {label.author} says it is {word}{about}{note}", width, style)


def _points(score: float) -> str:
    return number(score).removesuffix(".00")
