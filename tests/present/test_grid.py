"""The words of a grid: verdicts of repeats, names of columns, and which columns somebody means."""

import pytest

from tests.present.rows import a_run
from tui_evals.present.grid import (
    NoColumn,
    cell_look,
    cell_text,
    columns_meant,
    grid_data,
    line_name,
    named_columns,
    regions_meant,
)
from tui_evals.store.grid import GridCell, GridLine


def cell(*statuses, score=None):
    return GridCell(len(statuses), statuses.count("pass"), statuses.count("fail"), score, frozenset(statuses), 1)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (cell("pass", score=100.0), "✓ pass 100"),
        (cell("scored", score=61.25), "– scored 61.2"),
        (cell("error"), "! error"),
        (cell("pass", "pass", score=100.0), "✓ 2/2 100"),
        (cell("pass", "fail", "fail", score=33.3), "~ 1/3 33.3"),
        (cell("fail", "fail", score=0.0), "✗ 0/2 0"),
        (cell("pass", "error", score=100.0), "! 1/2 100"),
        (cell("pass", "pending"), "· 1/2"),
        (cell("scored", "scored"), "– scored"),
        (None, ""),
    ],
)
def test_a_cell_says_verdict_and_score(given, text):
    assert cell_text(given) == text


def test_a_cell_whose_repeats_differ_is_neither_good_nor_bad():
    assert [cell_look(cell(*one)).tone for one in (("pass", "pass"), ("pass", "fail"), ("fail", "fail"))] == [
        "ok",
        "warn",
        "bad",
    ]


def short(**given):
    return [column.short for column in named_columns(a_run(**given))]


def test_columns_are_shown_without_what_they_share():
    assert short(targets=("openai/a", "openai/b")) == ["a", "b"]
    assert short(targets=("demo",), prompts=("p/terse", "p/long")) == ["terse", "long"]
    assert short(targets=("x/a", "y/a"), prompts=("", "p")) == [
        "x/a · no prompt",
        "y/a · no prompt",
        "x/a · p",
        "y/a · p",
    ]
    assert short(targets=("openai/a",)) == ["openai/a"]


def test_as_data_a_row_counts_turns_from_1_and_has_a_cell_for_each_column():
    columns = named_columns(a_run(targets=("openai/a", "openai/b")))
    mixed = cell("pass", "pending", "error", score=100.0)
    lines = [GridLine(0, turn, "one", "easy", {columns[1].place: mixed}) for turn in range(3)]
    found = grid_data(columns, lines)
    assert [(column["name"], column["shown_as"]) for column in found["columns"]] == [
        ("openai/a", "a"),
        ("openai/b", "b"),
    ]
    data = {"statuses": ["error", "pending", "pass"], "answers": 3, "passed": 1, "score": 100.0}
    for row, line in zip(found["rows"], lines, strict=True):
        assert line_name(line) == (row["item"] if row["turn"] == 1 else f"{row['item']}.{row['turn']}")
        assert (row["category"], row["cells"]) == ("easy", [None, data])


RUN = a_run(targets=("openai/a", "openai/b,c", "openai/d"))


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("a,d", ((0, 0), (0, 2))),
        ("openai/d, a", ((0, 2), (0, 0))),
        ("a,b,c", ((0, 0), (0, 1))),
        ("openai/b,c,#1", ((0, 1), (0, 0))),
    ],
)
def test_two_columns_are_meant_by_the_names_they_are_shown_with(text, places):
    assert columns_meant(RUN, text) == places


@pytest.mark.parametrize(
    ("run", "text", "says"),
    [
        (RUN, "a", "'a' names one column; give two with a comma between them: #1 a, #2 b,c, #3 d"),
        (RUN, "a,model", "k3fa9z has no column 'model'; its columns are #1 a"),
        (RUN, "a,openai/a", "names the same column of k3fa9z twice"),
        (
            a_run(targets=("a",), prompts=("p", "p")),
            "p,#2",
            "2 columns of k3fa9z are called 'p'; say which by number: #1 p, #2 p",
        ),
    ],
)
def test_what_is_no_column_is_refused_with_the_columns_there_are(run, text, says):
    with pytest.raises(NoColumn, match="column") as problem:
        columns_meant(run, text)
    assert says in str(problem.value)


GRID = a_run(targets=("openai/a", "openai/b"), prompts=("p/terse", "p/chatty"))


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("terse,chatty", (((0, 0), (0, 1)), ((1, 0), (1, 1)))),
        ("openai/b,a", (((0, 1), (1, 1)), ((0, 0), (1, 0)))),
        ("a · terse,#4", (((0, 0),), ((1, 1),))),
        ("terse,#4", (((0, 0), (0, 1)), ((1, 1),))),
    ],
)
def test_a_prompt_or_target_means_all_its_columns(text, places):
    assert regions_meant(GRID, text) == places


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("terse,a", "1 column would be compared with itself"),
    ],
)
def test_regions_that_do_not_face_are_refused_with_the_columns_there_are(text, says):
    with pytest.raises(NoColumn) as problem:
        regions_meant(GRID, text)
    assert says in str(problem.value) and "#4" in str(problem.value)


def test_a_battle_is_between_two_columns():
    with pytest.raises(NoColumn, match="more than one column on a side"):
        columns_meant(GRID, "terse,chatty")
