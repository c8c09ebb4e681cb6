"""What is said of the column under the cursor: its whole name, a value, its rate, its spread and the baseline."""

from __future__ import annotations

from collections.abc import Mapping

from tui_evals.compare.trend import BARS
from tui_evals.figures import percent
from tui_evals.light_records import dataclass
from tui_evals.present.columns import GAP
from tui_evals.present.figures import distribution
from tui_evals.present.status import result_look
from tui_evals.store.records import AnswerRow, ScoreRecord
from tui_evals.store.rows import EvaluatorMean, ScoreSpread
from tui_evals.text.measures import parse_measure, plain_number, score_figures
from tui_evals.text.safe import safe_line
from tui_evals.tui.results.rows import COLUMNS, Layout
from tui_evals.tui.results.totals import join_fitting
from tui_evals.tui.rows import Piece, Row, fit, tone_style

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
    return f"passes {mean.passed:,} of {judged:,} answers ({percent(mean.passed / judged)}){errors}"


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
