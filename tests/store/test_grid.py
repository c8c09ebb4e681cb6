"""A run as a grid: which rows it has and in which order, what is folded into a cell, and that it adds up to the run."""

import pytest

from tests.cli.past import Said, past
from tui_evals.store import grid
from tui_evals.store.filters import parse_filter
from tui_evals.store.reader import Reader

TWO = ("demo/one", "demo/two")


@pytest.fixture
def reader(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".evals").mkdir()
    run = past(
        *(Said("agreed", target=target) for target in (0, 1)),
        *(Said("bad", "fail", target=target) for target in (0, 1)),
        *(Said("differs", "pass" if target else "fail", target=target) for target in (0, 1)),
        *(Said("talk", "fail" if turn else "pass", turn=turn, target=target) for target in (0, 1) for turn in (0, 1)),
        *(Said("flaky", "pass" if repeat else "fail", repeat=repeat) for repeat in (0, 1, 2)),
        *(Said("half", status, repeat=repeat) for repeat, status in enumerate(("pass", "pending", "fail"))),
        Said("lost", "error", None, target=1),
        Said("later", "pending", target=1),
        targets=TWO,
    )
    with Reader(tmp_path / ".evals" / "evals.db") as reader:
        yield reader, run


def names(reader, run, order="plan", text=""):
    rows = grid.grid_rows(reader, run.id, parse_filter(text) if text else None, order)
    return [f"{line.name}.{line.turn}" for line in grid.grid_lines(reader, run.id, rows)]


def test_every_turn_of_an_item_is_a_row_in_the_order_asked_for(reader):
    plan = ["agreed.0", "bad.0", "differs.0", "talk.0", "talk.1", "flaky.0", "half.0", "lost.0", "later.0"]
    assert names(*reader) == plan
    assert names(*reader, "disagreement")[0] == "differs.0"
    assert names(*reader, "failures")[:2] == ["bad.0", "talk.1"]
    assert sorted(names(*reader, "disagreement")) == sorted(names(*reader, "failures")) == sorted(plan)


def test_a_filter_keeps_the_rows_with_an_answer_that_it_lets_through_whole(reader):
    store, run = reader
    assert names(*reader, text="fail") == ["bad.0", "differs.0", "talk.1", "flaky.0", "half.0"]
    assert names(*reader, "failures", "fail") == ["bad.0", "talk.1", "differs.0", "flaky.0", "half.0"]
    (line,) = grid.grid_lines(store, run.id, grid.grid_rows(store, run.id, parse_filter("id:differs fail")))
    assert sorted(line.cells) == [(0, 0), (0, 1)]


def test_repeats_are_folded_and_the_answer_to_read_is_one_that_did_not_pass(reader):
    store, run = reader
    lines = {(line.name, line.turn): line for line in grid.grid_lines(store, run.id, grid.grid_rows(store, run.id))}
    flaky = lines["flaky", 0].cells[0, 0]
    assert (flaky.answers, flaky.passed, flaky.failed) == (3, 2, 1)
    assert flaky.score == pytest.approx(200 / 3)
    assert flaky.statuses == {"pass", "fail"}
    assert [(row.repeat, row.status) for row in store.rows([flaky.answer])] == [(0, "fail")]
    half = lines["half", 0].cells[0, 0]
    assert [(row.repeat, row.status) for row in store.rows([half.answer])] == [(2, "fail")]
    assert (0, 1) not in lines["flaky", 0].cells
    assert lines["lost", 0].cells[0, 1].statuses == {"error"}
    assert lines["later", 0].cells[0, 1].statuses == {"pending"}


def test_the_cells_of_a_column_add_up_to_the_totals_of_the_run(reader):
    store, run = reader
    totals, rows = store.totals_by(run.id, "column"), grid.grid_rows(store, run.id)
    for column, one in totals.items():
        cells = [line.cells[column] for line in grid.grid_lines(store, run.id, rows) if column in line.cells]
        assert (one.total, one.passed, one.failed) == tuple(
            sum(getattr(cell, part) for cell in cells) for part in ("answers", "passed", "failed")
        )


def test_the_latency_of_a_column_is_the_median_without_what_was_cached(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".evals").mkdir()
    took = [(0, 100), (0, 300), (0, 200), (1, 10), (1, 40)]
    answers = [Said(str(at), target=target, record={"latency_ms": ms}) for at, (target, ms) in enumerate(took)]
    run = past(*answers, Said("z", target=1, record={"latency_ms": 9_000, "from_cache": True}), targets=TWO)
    with Reader(tmp_path / ".evals" / "evals.db") as reader:
        assert grid.column_latencies(reader, run.id) == {(0, 0): 200, (0, 1): 25}


def test_only_rows_whose_columns_judge_apart_are_listed(reader):
    store, run = reader
    for where, order in ((None, "plan"), (parse_filter("fail"), "disagreement")):
        rows = grid.grid_rows(store, run.id, where, order, differing=True)
        assert [line.name for line in grid.grid_lines(store, run.id, rows)] == ["differs"]
