"""The matrix of a run: what stands where at which width, and a person who looks for what the models disagree on."""

from threading import Event
from types import SimpleNamespace

import pytest

from tests.cli.past import Said, past
from tests.compare.planted_faults import faulty_run
from tests.present.rows import a_run
from tests.store.helpers import judged
from tests.tui.hostile import BYTES, MARKUP
from tests.tui.stored_runs import answer
from tests.tui.story import at_the_workbench
from tui_evals.present.columns import names_of
from tui_evals.present.grid import grid_columns, named_columns
from tui_evals.present.status import ANSWER_LOOKS
from tui_evals.store.connection import hold, run_lock
from tui_evals.store.grid import GridCell, GridLine
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer
from tui_evals.tui import matrix
from tui_evals.tui.compare.screen import CompareScreen
from tui_evals.tui.matrix import AnswerText, MatrixRows, MatrixScreen, beside, head_rows, layout, text_rows
from tui_evals.tui.rows import row_text

COLUMNS = named_columns(a_run(targets=tuple(f"m/model-{n}" for n in range(6))))


@pytest.mark.parametrize(("width", "shown"), [(79, 4), (119, 6), (30, 1), (10, 1)])
def test_as_many_columns_are_shown_as_fit_and_the_one_under_the_cursor_always_is(width, shown):
    for cursor in range(len(COLUMNS)):
        found = layout(width, COLUMNS, cursor, {}, 0)
        assert found.shown == shown and cursor in found.seen
        assert found.name + found.shown * (found.cell + 1) + 1 <= max(width, 12)
    assert layout(width, COLUMNS, 0, {}, 5).first == 0


async def test_a_column_without_answers_says_so_where_others_have_their_median_time(tmp_path):
    path, run = await faulty_run(tmp_path, 6)
    with Reader(path) as reader:
        spent = {column.place[1]: column.spent_text for column in grid_columns(reader, run)}
    assert spent == {0: "$0.0060 · 400 ms", 1: "$0 · no answers"}


def test_hidden_columns_are_told_and_the_marked_one_has_its_sign():
    rows = [row_text(one) for one in head_rows(layout(79, COLUMNS, 3, {2: "A"}, 1))]
    assert "A model-2" in rows[0] and "│model-3" in rows[0] and "model-0" not in rows[0]
    assert rows[3].startswith("‹ 4 of 6 ›")


def test_the_marked_column_stands_beside_the_one_under_the_cursor_where_there_is_room():
    assert beside(80, 4, 2, {}) == [2]
    assert beside(120, 4, 2, {0: "A"}) == [0, 2]
    assert beside(160, 4, 3, {}) == [0, 1, 3]
    assert beside(220, 3, 0, {}) == [0, 1, 2]


def test_answers_of_different_length_stand_in_columns_of_one_width():
    line = GridLine(0, 0, "a", "", {(0, n): GridCell(1, 1, 0, 100.0, frozenset(["pass"]), n) for n in (0, 1)})
    texts = {n: AnswerText(ANSWER_LOOKS["pass"], 0, "", "word " * 30 * n) for n in (0, 1)}
    rows = [row_text(one) for one in text_rows(line, COLUMNS[:3], 0, texts, 100)]
    assert {row.index("│") for row in rows} == {32}
    assert "not asked" in rows[1] and len(rows) > 4


@pytest.mark.parametrize("width", [80, 120, 160, 220])
def test_items_and_columns_that_begin_alike_are_told_apart(width):
    """At 80 columns every item was `refund-case-…`."""
    items = [f"refund-policy-case-{number:04}" for number in range(30)]
    columns = named_columns(a_run(targets=tuple(f"m/assistant-of-the-shop-{word}" for word in ("one", "two"))))
    shown = layout(width, columns, 0, {1: "A"}, 0, names_of(items))
    pages = SimpleNamespace(rows=items, line=lambda number: GridLine(number, 0, items[number], "", {}))
    names = [row_text(MatrixRows(pages, shown).row_at(number))[: shown.name].rstrip() for number in range(30)]
    assert [name[-4:] for name in names] == [item[-4:] for item in items]
    heads = row_text(head_rows(shown)[0])
    assert "one" in heads and "two" in heads


@pytest.mark.nightly
async def test_cells_get_higher_by_a_key_and_the_cursor_stays_on_its_row(tmp_path, monkeypatch):
    stored(tmp_path, monkeypatch)
    async with at_the_workbench(tmp_path, size=(120, 40)) as person:
        await person.press("6", "enter", "m")
        await person.until(lambda: isinstance(person.app.screen, MatrixScreen) and person.app.screen.lines.rows)
        lines = person.app.screen.lines
        await person.press("G")
        assert lines.key == (7, 0)
        for height in (3, 6, 1):
            await person.press("v")
            await person.until(lambda height=height: len(lines.rows) == 8 * height)
            assert lines.key == (7, 0)
            await person.sees(f"{height} line")
            below = " ".join(row_text(one) for one in lines.rows[7 * height + 1 :])
            assert ("because" in below and "model 1 says" in below) == (height > 1)
        await person.press("v", "k")
        assert lines.key == (6, 0)
        await person.sees("model 0 says 6")
        await person.press("slash")
        await person.type("target:m/sec")
        await person.sees("target:m/second")
        await person.press("right", "enter")
        await person.sees("rows · target:m/second")


async def test_the_rows_are_drawn_before_the_items_of_the_dataset_are_read(tmp_path, monkeypatch):
    stored(tmp_path, monkeypatch)
    wait = Event()
    monkeypatch.setattr(matrix, "read_items", lambda *_: wait.wait(60) and [{"prompt": "which one is it?"}])
    async with at_the_workbench(tmp_path, size=(120, 40)) as person:
        await person.press("6", "enter", "m")
        await person.sees("model 0 says 0")
        assert "which one is it?" not in person.screen()
        wait.set()
        await person.sees("which one is it?")


def stored(folder, monkeypatch):
    """Three models that agree on the first items and differ on the last; hostile texts among the answers."""
    monkeypatch.chdir(folder)
    (folder / ".evals").mkdir()
    evil = f"{MARKUP[0]} {BYTES[0]}"
    answers = [
        Said(
            f"item-{n}",
            "fail" if n == 7 and target else "pass",
            f"model {target} says {n} {evil}",
            target=target,
            scores=[judged(score=0.0 if n == 7 and target else 1.0, reason=f"because {evil}")],
        )
        for n in range(8)
        for target in range(3)
    ]
    return past(*answers, targets=("m/first", "m/second", "m/third"))


@pytest.mark.story
async def test_what_models_disagree_on_is_found_read_and_compared(tmp_path, monkeypatch):
    stored(tmp_path, monkeypatch)
    async with at_the_workbench(tmp_path, size=(160, 45)) as person:
        await person.press("6", "enter", "m")
        await person.until(lambda: isinstance(person.app.screen, MatrixScreen))
        await person.sees("87.5 % of 8")
        screen = person.app.screen
        head = person.screen().splitlines()
        assert "Matrix of nightly" in head[0] and "8 rows" in head[0]
        assert "100.0 % of 8" in head[2] and head[2].count("87.5 % of 8") == 2
        assert screen.lines.key == (0, 0)

        await person.press("S", "d", "i", "s", "enter")
        await person.sees("disagreement first")
        await person.until(lambda: screen.lines.key == (7, 0))  # the cursor is on the first, with no key pressed
        assert all(f"model {n} says 7" in person.screen() for n in range(3))
        assert person.screen().count("because") == 4  # in the cells, and below them

        await person.press("equals_sign")
        await person.sees("mark the column to compare with first")
        await person.press("space", "right", "equals_sign")
        await person.until(lambda: isinstance(person.app.screen, CompareScreen) and person.app.screen.comparison)
        await person.sees("B passes 1 fewer of 8 items than A")
        assert "m/first" in person.screen() and "m/second" in person.screen()
        await person.press("escape")
        await person.until(lambda: person.app.screen is screen)

        await person.press("enter")
        await person.until(lambda: person.app.screen is not screen and person.app.front == "detail")
        row = person.app.watching.reader.rows([person.app.watching.answer])[0]
        assert (row.item, row.target) == (7, 1)
        await person.press("4", "m")
        await person.until(
            lambda: isinstance(person.app.screen, MatrixScreen) and person.app.screen.lines.key == (7, 0)
        )
        assert "│second" in person.screen()


@pytest.mark.nightly
async def test_rows_are_filtered_and_a_narrow_screen_reads_one_answer_at_a_time(tmp_path, monkeypatch):
    stored(tmp_path, monkeypatch)
    async with at_the_workbench(tmp_path, size=(80, 24)) as person:
        await person.press("6", "enter", "m")
        await person.until(lambda: isinstance(person.app.screen, MatrixScreen))
        await person.sees("87.5 % of 8")
        screen = person.app.screen
        await person.press("slash")
        await person.type("fail")
        await person.press("enter")
        await person.until(lambda: screen.lines.key == (7, 0) and len(screen.lines.rows) == 1)
        await person.press("l")
        await person.sees("model 1 says 7")
        assert "model 0 says 7" not in person.screen()
        await person.press("w")
        await person.until(lambda: not screen.lines.display)
        await person.press("escape")
        await person.until(lambda: screen.lines.display)
        await person.press("slash")
        await person.type("nobody")
        await person.press("enter")
        await person.sees("No answer matches the filter nobody")
        await person.press("escape")
        await person.until(lambda: len(screen.lines.rows) == 8)
        await person.press("escape")
        await person.until(lambda: person.app.screen is not screen)
        assert person.app.front == "results"


@pytest.mark.nightly
async def test_answers_come_into_the_grid_while_the_run_goes_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".evals").mkdir()
    run = past(Said("a"), Said("b", "pending"), status="running", targets=("m/first",))
    path = tmp_path / ".evals" / "evals.db"
    with hold(run_lock(path, run.key)):
        async with at_the_workbench(tmp_path, size=(120, 40)) as person:
            await person.press("6", "enter", "m")
            await person.until(lambda: isinstance(person.app.screen, MatrixScreen))
            await person.sees("· pending")
            await person.press("j")
            await person.sees("Not asked yet.")
            with Writer(path) as writer:
                await answer(path, writer, run.id, [None, ("fail", "no idea")])
            await person.sees("no idea")
            await person.sees("50.0 % of 2")
            assert "✗ fail" in person.screen() and person.app.screen.lines.key == (1, 0)


@pytest.mark.nightly
async def test_a_run_that_asked_nothing_has_no_grid(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".evals").mkdir()
    past(targets=())
    async with at_the_workbench(tmp_path, size=(80, 24)) as person:
        await person.press("6", "enter", "m")
        await person.sees("This run asks nothing.")
        await person.press("space", "l", "enter", "equals_sign", "w")
        assert isinstance(person.app.screen, MatrixScreen)


def test_prompts_stand_below_the_targets_where_a_run_has_several_of_both():
    targets = tuple(f"{name}@temperature={value}" for name in ("swift", "steady") for value in ("0", "0.7"))
    columns = named_columns(a_run(targets=targets, prompts=("number-only", "chatty")))
    heads = [row_text(one) for one in head_rows(layout(120, columns, 0, {}, 0))]
    assert heads[1].startswith("prompt") and heads[1].count("number-only") == 4
    assert len({heads[0][place : place + 12] for place in _starts(heads[1], "number-only")}) == 4


def _starts(line, word):
    return [place for place in range(len(line)) if line.startswith(word, place)]


@pytest.mark.nightly
async def test_two_prompts_of_a_grid_are_compared_over_all_targets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".evals").mkdir()
    answers = [
        Said(f"i{n}", "fail" if prompt and n == 3 else "pass", f"{prompt} {target} {n}", prompt=prompt, target=target)
        for n in range(8)
        for prompt in (0, 1)
        for target in (0, 1)
    ]
    past(*answers, prompts=("terse", "chatty"), targets=("m/one", "m/two"))
    async with at_the_workbench(tmp_path, size=(160, 45)) as person:
        await person.press("6", "enter", "m")
        await person.until(lambda: isinstance(person.app.screen, MatrixScreen))
        await person.sees("passes")
        await person.press("left", "left", "space", "right", "space", "B")  # it begins on the first failure
        await person.sees("this is the marked column; go to another one")
        await person.press("right", "right", "equals_sign")
        await person.until(lambda: isinstance(person.app.screen, CompareScreen) and person.app.screen.comparison)
        await person.sees("of 8 items (each the mean of its 2 columns) than A")
        assert {side.run.name for side in person.app.screen.comparison.sides} == {"terse", "chatty"}
        await person.press("escape", "space", "space", "equals_sign")
        await person.sees("terse (1 of 2 columns)")
        await person.press("escape", "B")
        await person.sees("a battle is between two columns")
