"""What R, s, v and y act on together, and in which words."""

import pytest

from tests.tui.stored_runs import add_run, fresh
from tui_evals.runs.selection import parse_positions
from tui_evals.tui.chosen_answers import _ranges
from tui_evals.tui.watch import AnswerOrder, Watch


@pytest.fixture
async def watch(tmp_path):
    path = fresh(tmp_path)
    run = await add_run(path, [("pass", "yes"), ("fail", "no"), ("fail", "never"), None])
    watch = Watch(path)
    watch.open_run(run.id)
    yield watch
    watch.close()


def show(watch, text):
    order = AnswerOrder(text)
    watch.arrange(order, watch.sorted(order))


async def test_marks_are_meant_before_the_filter_and_nothing_without_both(watch):
    assert watch.chosen() is None
    show(watch, "failed")
    shown = watch.chosen()
    assert (shown.says, list(shown.items), shown.words) == (
        "the 2 answers the filter shows",
        [1, 2],
        ["--only", "failed"],
    )
    assert shown.commands["command that exports them"].endswith("--to csv --only failed")
    assert watch.items_shown() == {1: "t-1", 2: "t-2"}
    watch.marks = frozenset({0, 1, 3})
    marked = watch.chosen()
    assert (marked.says, marked.words) == ("the 3 answers to 3 marked items", ["--items", "1-2,4"])
    assert marked.items == {0: "t-0", 1: "t-1", 3: "t-3"}
    assert marked.commands == {}


@pytest.mark.parametrize("items", [{0}, {0, 1, 2}, {1, 3, 4, 8}, set(range(0, 9, 2))])
def test_positions_are_read_as_they_are_written(items):
    assert parse_positions(_ranges(items), 9) == items


async def test_the_filters_of_the_last_fifty_runs_are_kept(watch):
    watch.filters = {f"run{number}": "failed" for number in range(50)}
    show(watch, "errored")
    watch.keep_filter()
    assert len(watch.filters) == 50
    assert next(iter(watch.filters)) == "run1" and watch.filters[watch.run.key] == "errored"
