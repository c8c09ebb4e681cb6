"""The gates of a run as every face shows them: a table of figures, verdicts and reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from tui_evals.figures import Figure
from tui_evals.present.columns import table
from tui_evals.present.figures import figure_data, rate_text
from tui_evals.store.records import CheckedGate, GateVerdict
from tui_evals.text.measures import Measure, counted

from .status import Look

if TYPE_CHECKING:
    from tui_evals.compare.measures import MeasuredDifference
    from tui_evals.runs.gates import GateResults

GATE_LOOKS: Mapping[GateVerdict, Look] = {
    "met": Look("✓", "met", "ok"),
    "not met": Look("✗", "not met", "bad"),
    "not decided": Look("○", "not decided", "warn"),
}
HEADINGS = ("gate", "column", "verdict", "figure", "why")
_COUNTS = ("answers", "conversations", "items")


class GateText(NamedTuple):
    """A checked gate in words."""

    gate: str
    column: str
    """The prompt and target; empty where the gate looks at all of the run."""
    look: Look
    figure: str
    why: str
    """Why it is not met or not decided, and the verdict by other rules where that differs; else empty."""

    @property
    def cells(self) -> tuple[str, ...]:
        """The gate as a row below HEADINGS."""
        return self.gate, self.column, self.look.text, self.figure, self.why

    @property
    def name(self) -> str:
        """The gate and its column."""
        return f"{self.gate} · {self.column}" if self.column else self.gate


def gate_texts(gates: Iterable[CheckedGate]) -> list[GateText]:
    """Checked gates in words."""
    return [
        GateText(
            check.gate,
            check.column,
            GATE_LOOKS[check.verdict],
            gate_figure(check.figure) if check.figure else "",
            " ".join(filter(None, ("" if check.met else check.sentence, check.note))),
        )
        for check in gates
    ]


def gate_lines(gates: Iterable[CheckedGate], room: int | None = None) -> list[str]:
    """Checked gates as a table without the reasons, below a heading; empty without gates."""
    rows = [text.cells[:-1] for text in gate_texts(gates)]
    return table([HEADINGS[:-1], *rows], elastic=(1, 3), headed=True, room=room) if rows else []


def gates_data(gates: Iterable[CheckedGate]) -> list[dict[str, Any]]:
    """Checked gates as plain data."""
    return [
        {**asdict(check), "figure": figure_data(check.figure), "met": check.met, "says": list(check.says)}
        for check in gates
    ]


def gates_event(results: GateResults) -> dict[str, Any]:
    """The gates of a run, and how it compares where that was wanted, as plain data."""
    gates = {"gates": gates_data(results.checks), "met": results.met, "verdict": results.line}
    if not results.baseline:
        return {**gates, "against": None}
    comparison: dict[str, Any] = {"baseline": results.baseline, "verdict": results.verdict}
    if results.against is not None:
        against = results.against
        comparison |= {"items": against.items, "broken": against.broken, "fixed": against.fixed}
        comparison["tests"] = [_test_data(test) for test in (against.passes, *against.tests)]
    return {**gates, "against": comparison}


def _test_data(test: MeasuredDifference) -> dict[str, Any]:
    return {
        "evaluator": test.what,
        "column": test.column,
        "items": test.items,
        "baseline": test.before,
        "run": test.after,
        "p": test.adjusted,
    }


def gate_figure(figure: Figure) -> str:
    """The figure of a gate with its population."""
    if figure.unit in _COUNTS:
        whole = figure.items if figure.unit == "items" else figure.answers
        return f"{figure.value:,.0f} of {counted(whole, figure.unit.removesuffix('s'))} {figure.population}"
    missing = {"planned": "missing, counted as not passed", "so far": "still open"}.get(figure.population)
    left = f", {figure.missing:,} {missing}" if missing else ""
    if figure.unit == "%":
        of = f" of {counted(figure.items, 'item')}" if figure.answers == figure.items else ""
        return rate_text(figure).replace(" %", f" %{of}", 1) + left
    text, ends = _mean_text(figure)
    interval = f", 95 % interval {ends}" if ends else ""
    return f"{text} over {counted(figure.items, 'item')}{interval}{left}"


def _signed(points: float) -> str:
    text = f"{points:+.1f}"
    return text[1:] if text[1:] == "0.0" else text


def _mean_text(figure: Figure) -> tuple[str, str]:
    """A mean or a difference, and its interval."""
    values = [figure.value, *((figure.interval.low, figure.interval.high) if figure.interval else ())]
    if figure.unit == "score":
        value, *ends = (f"{one:.1f}" for one in values)
        return f"{value} of 100", " to ".join(ends)
    if figure.unit == "points":
        value, *ends = (_signed(100 * one) for one in values)
        return f"{value} points", " to ".join(ends)
    value, *ends = (
        f"{'-' if one < 0 else '+'}{text}"
        for one, text in zip(values, Measure(unit=figure.unit).texts(*map(abs, values)), strict=True)
    )
    return value, " to ".join(ends)
