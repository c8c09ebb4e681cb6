"""The gates above the results of the workbench: a line for each, with its figure."""

from __future__ import annotations

from tests.compare.helpers import run
from tests.present.rows import totals
from tui_evals.figures import Figure, Interval
from tui_evals.store.records import CheckedGate
from tui_evals.tui.results.totals import RunNumbers, totals_rows

RATE = Figure(0.6, 10, 10, Interval(0.262, 0.878), "Clopper-Pearson")
BROKEN = Figure(0, 9, 9, None, "", "items", "that passed in k1 fail now")
GATES = (
    CheckedGate("--fail-on-broken=1", "met", "0 of 9 items that passed in k1 fail now.", BROKEN),
    CheckedGate("--fail-under 70", "not met", "60.0 % of 10 answers pass, less than 70.", RATE, "small"),
)


def lines(width=200, **given):
    fields = {"key": "k2", "status": "finished", "name": "n", "config": {}, "message": "", "gates": (), "verdict": ""}
    fields |= {"rejudged": 0, "staged_pass": 0, "waiting": None, "control": "", "total": 10}
    rows = totals_rows(run(**{**fields, **given}), RunNumbers(totals(passed=6, failed=4)), 0.0, width)
    return ["".join(piece.text for piece in row.pieces).rstrip() for row in rows]


def test_each_gate_has_a_line_with_its_figure_the_worst_first():
    assert lines(gates=GATES, verdict="not met: …")[-2:] == [
        "✗ not met  --fail-under 70 · small  60.0 % of 10 items, 95 % interval 26.2 to 87.8  "
        "60.0 % of 10 answers pass, less than 70.",
        "✓ met  --fail-on-broken=1  0 of 9 items that passed in k1 fail now",
    ]


def test_of_many_gates_some_lines_are_left_out_and_the_command_that_shows_them_is_named():
    assert lines(gates=GATES * 3)[-1] == "and 2 more gates: tui-evals show k2"


def test_of_a_run_from_before_gates_were_kept_the_sentence_is_shown():
    assert lines(verdict="not met: too few")[-1] == "gates not met: too few"


def test_a_line_is_as_wide_as_the_pane():
    assert all(len(line) <= 40 for line in lines(width=40, gates=GATES)[-2:])
