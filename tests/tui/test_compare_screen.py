"""The compare screen: two to four runs, their lines, one of them in full, charts and help."""

import gc
import threading
from pathlib import Path

import pytest
from textual.app import App

from tests.tui.stored_runs import HOSTILE, add_run, drawn, fresh, text_of, until
from tui_evals import tui
from tui_evals.compare.runs import KINDS
from tui_evals.store.filters import FilterError
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer
from tui_evals.tui.compare import screen as screen_module
from tui_evals.tui.compare.charts import ChartsScreen
from tui_evals.tui.compare.rows import kinds_of_filter, read_runs
from tui_evals.tui.compare.screen import CompareScreen
from tui_evals.tui.widgets.dialogs import Menu, Reading
from tui_evals.tui.widgets.inputs import LineInput

STYLES = Path(tui.__file__).parent / "styles" / "app.tcss"
ALIKE = "the same long beginning " * 20


class Bench(App):
    CSS_PATH = STYLES

    def __init__(self, path, *runs, why=""):
        super().__init__()
        self.given = path, runs or (1, 2), why

    def on_mount(self):
        self.push_screen(CompareScreen(*self.given))

    @property
    def top(self):
        return "\n".join(text_of(self.screen.top.rows))

    @property
    def kinds(self):
        """What became of the lines as they are listed; what changed in some of them is a row without a key."""
        lines = [row for row in self.screen.list.lines.rows if row.key is not None]
        return [" ".join(text.split()[:2]) for text in text_of(lines)]

    @property
    def changes(self):
        return [text.rstrip() for text in text_of(row for row in self.screen.list.lines.rows if row.key is None)]

    @property
    def full(self):
        return "\n".join(text_of(self.screen.line.rows))

    @property
    def said(self):
        return str(self.screen.query_one("#status").render())


@pytest.fixture
async def path(tmp_path):
    """Two runs of six items: broken, fixed, changed, same, broken, and one that only the first run has."""
    path = fresh(tmp_path)
    before = [("pass", "old"), ("fail", "a"), ("pass", ALIKE + "x"), ("pass", ALIKE), ("pass", "b"), ("pass", "c")]
    after = [("fail", "new"), ("pass", "a"), ("pass", ALIKE + "y"), ("pass", ALIKE), ("fail", "b")]
    await add_run(path, before, name="before")
    await add_run(path, after, name="after")
    return path


async def read(pilot):
    await until(pilot, lambda: isinstance(pilot.app.screen, CompareScreen))
    await until(pilot, lambda: pilot.app.screen.comparison is not None)
    await until(pilot, lambda: pilot.app.full)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_runs_face_each_other_and_the_line_under_the_cursor_is_diffed(path, size):
    async with Bench(path, why="key2 and its baseline, key1").run_test(size=size) as pilot:
        await read(pilot)
        app = pilot.app
        assert app.kinds == ["✗ broken", "✗ broken", "✓ fixed", "‹ gone", "~ changed", "= same"]
        assert [change.split(" · ")[0] for change in app.changes] == [*["✗ 1 broken  Match"] * 2, "✓ 1 fixed  Match"]
        assert "A before" in app.top and "B after" in app.top and "B passes 1 fewer of 5 items than A" in app.top
        assert app.said == "key2 and its baseline, key1"
        await until(pilot, lambda: "old" in app.full and "new" in app.full)
        await pilot.press("G")
        await until(pilot, lambda: "A and B are the same." in app.full)
        assert "broken" in "\n".join(drawn(app.screen.list.lines))
        beside = app.screen.line.region.y == app.screen.list.region.y
        assert beside == (size[0] >= 100)


@pytest.mark.parametrize("runs", [(1, 2), (1, 2, 1, 2)])
async def test_on_a_small_screen_at_least_twelve_lines_are_left_below_the_head(path, runs):
    async with Bench(path, *runs).run_test(size=(80, 24)) as pilot:
        await read(pilot)
        assert pilot.app.screen.list.region.height + pilot.app.screen.line.outer_size.height >= 12
        assert pilot.app.screen.list.lines.region.height >= 5


@pytest.mark.nightly
async def test_keys_filter_by_kind_and_say_when_there_is_none(path):
    async with Bench(path).run_test(size=(80, 24)) as pilot:
        await read(pilot)
        app = pilot.app
        await pilot.press("b")
        assert app.kinds == ["✗ broken"] * 2
        await pilot.press("f")
        assert app.kinds == ["✓ fixed"]
        await until(pilot, lambda: "✓ fixed  t-1" in app.full)
        await pilot.press("c")
        assert app.kinds == ["~ changed"]
        await pilot.press("asterisk")
        assert len(app.kinds) == 6
    async with Bench(path, 1, 1).run_test(size=(80, 24)) as pilot:
        await read(pilot)
        await pilot.press("f")
        await until(pilot, lambda: "nothing is fixed" in pilot.app.said)
        assert pilot.app.kinds == ["= same"] * 6


async def test_any_kind_is_chosen_from_a_menu_that_counts_them(path):
    async with Bench(path).run_test(size=(80, 24)) as pilot:
        await read(pilot)
        screen = pilot.app.screen
        await pilot.press("o")
        await until(pilot, lambda: isinstance(pilot.app.screen, Menu))
        entries = text_of(pilot.app.screen.query_one("#entries").rows)
        assert [entry.split()[1:] for entry in entries[:5]] == [
            ["broken", "2"], ["fixed", "1"], ["changed", "1"], ["same", "1"], ["gone", "1"],
        ]  # fmt: skip
        assert "none" in entries[5]
        await pilot.press(*"gone", "enter")
        await until(pilot, lambda: pilot.app.screen is screen)
        await until(pilot, lambda: pilot.app.kinds == ["‹ gone"])
        await until(pilot, lambda: "B has no answer here. This is A:" in pilot.app.full)


@pytest.mark.nightly
async def test_words_filter_the_answers_and_escape_forgets_them(path):
    async with Bench(path).run_test(size=(80, 24)) as pilot:
        await read(pilot)
        app = pilot.app
        await pilot.press("slash", *"new", "enter")
        await until(pilot, lambda: app.kinds == ["✗ broken"])
        await pilot.press("slash", *["backspace"] * 3, *"zzz", "enter")
        await until(pilot, lambda: "No answer matches “zzz”." in text_of(app.screen.list.lines.rows)[0])
        await until(pilot, lambda: app.full == "")
        await pilot.press("escape")
        await until(pilot, lambda: len(app.kinds) == 6)
        await pilot.press("slash", *"kind:broken", "enter")
        await until(pilot, lambda: set(app.kinds) == {"✗ broken"})
        await pilot.press("escape")
        await pilot.press("slash", *"status:odd", "enter")
        await pilot.pause()
        assert app.screen.entry.display
        await pilot.press("escape")
        assert not app.screen.entry.display and app.screen.list.lines.has_focus


@pytest.mark.nightly
async def test_all_that_a_filter_can_say_is_read_beside_it_and_a_kind_it_names_is_named_once(path):
    async with Bench(path).run_test(size=(80, 24)) as pilot:
        await read(pilot)
        app = pilot.app
        await pilot.press("slash")
        await until(pilot, lambda: app.screen.entry.display)
        await pilot.pause()
        seen = " ".join(" ".join(strip.text for strip in app.screen._compositor.render_strips()).split())
        assert "kind:broken pass fail" in seen and 'turn: !not "words" any*' in seen
        line = app.screen.entry.query_one(LineInput)
        await pilot.press(*"kind:bro")
        await until(pilot, lambda: line._suggestion == "kind:broken")
        await pilot.press("right", *" status:fai")
        await until(pilot, lambda: line._suggestion == "kind:broken status:fail")
        await pilot.press("ctrl+u", *"kind:new zzz", "enter")
        await until(pilot, lambda: text_of(app.screen.list.lines.rows)[0] == "No answer matches “kind:new zzz”.")
        await pilot.press("f")
        await until(pilot, lambda: "matches “kind:new zzz” and is “fixed”." in text_of(app.screen.list.lines.rows)[0])


@pytest.mark.nightly
async def test_a_second_escape_forgets_a_filter_that_is_still_coming_back(path, monkeypatch):
    found, ready = screen_module.answers_let_through, threading.Event()
    async with Bench(path).run_test(size=(80, 24)) as pilot:
        await read(pilot)
        app = pilot.app
        await pilot.press("slash", *"new", "enter")
        await until(pilot, lambda: app.kinds == ["✗ broken"])
        await pilot.press("slash", "ctrl+u")
        await until(pilot, lambda: len(app.kinds) == 6)
        monkeypatch.setattr(screen_module, "answers_let_through", lambda *given: ready.wait() and found(*given))
        await pilot.press("escape", "escape")
        ready.set()
        await until(pilot, lambda: not any(worker.group == "filtering" for worker in app.workers))
        await pilot.pause()
        assert isinstance(app.screen, CompareScreen) and len(app.kinds) == 6


@pytest.mark.parametrize(
    ("text", "kinds", "rest"),
    [
        ("", set(KINDS), ""),
        ("kind:broken red", {"broken"}, "red"),
        ('a kind:"not comparable" b', {"not comparable"}, "a  b"),
        ("kind:not-comparable", {"not comparable"}, ""),
        ("!kind:same !kind:gone", set(KINDS) - {"same", "gone"}, ""),
        ("kind:broken kind:fixed", set(), ""),
        ('"kind:broken"', set(KINDS), '"kind:broken"'),
    ],
)
def test_kinds_are_read_out_of_a_filter(text, kinds, rest):
    assert kinds_of_filter(text) == (kinds, rest)


def test_a_kind_that_there_is_not_is_said():
    with pytest.raises(FilterError, match="did you mean 'broken'"):
        kinds_of_filter("kind:brokn")


@pytest.mark.nightly
async def test_the_next_broken_line_is_found_round_the_end_and_out_of_a_filter(path):
    async with Bench(path).run_test(size=(80, 24)) as pilot:
        await read(pilot)
        lines = pilot.app.screen.list.lines
        await pilot.press("n")
        assert lines.key == 4
        await pilot.press("n")
        assert lines.key == 0
        await pilot.press("N")
        assert lines.key == 4
        await pilot.press("f", "n")
        assert (lines.key, len(pilot.app.kinds)) == (0, 6)  # what broke is above what was fixed
        await until(pilot, lambda: "t-0" in pilot.app.full)
        await pilot.press("slash", *"id:t-1", "enter")
        await until(pilot, lambda: pilot.app.kinds == ["✓ fixed"])
        await pilot.press("n")
        await until(pilot, lambda: (lines.key, len(pilot.app.kinds)) == (0, 6))


@pytest.mark.nightly
async def test_the_next_broken_line_stays_among_the_answers_that_were_searched(path):
    async with Bench(path).run_test(size=(80, 24)) as pilot:
        await read(pilot)
        lines = pilot.app.screen.list.lines
        await pilot.press("slash", *"id:t-4", "enter", "f")
        await until(pilot, lambda: "is “fixed”" in text_of(lines.rows)[0])
        await pilot.press("n")
        await until(pilot, lambda: (lines.key, len(pilot.app.kinds)) == (4, 1))


async def test_the_cursor_begins_where_something_broke(tmp_path):
    path = fresh(tmp_path)
    await add_run(path, [("pass", "a")] * 9)
    await add_run(path, [("pass", "a")] * 7 + [("fail", "broken text")] + [("pass", "a")])
    async with Bench(path).run_test(size=(80, 24)) as pilot:
        await read(pilot)
        assert pilot.app.screen.list.lines.key == 7
        await until(pilot, lambda: "broken text" in pilot.app.full)


@pytest.mark.nightly
async def test_another_line_is_shown_from_its_top(tmp_path):
    path = fresh(tmp_path)
    await add_run(path, [("pass", "line\n" * 200)] * 2)
    await add_run(path, [("fail", "other\n" * 200)] * 2)
    async with Bench(path).run_test(size=(80, 24)) as pilot:
        await read(pilot)
        line = pilot.app.screen.line
        await pilot.press("J", "J", "J")
        await until(pilot, lambda: line.scroll_offset.y == 3)
        await pilot.press("d")
        await until(pilot, lambda: "- A  + B" in pilot.app.full)
        assert line.scroll_offset.y == 3
        await pilot.press("j")
        await until(pilot, lambda: "t-1" in pilot.app.full and line.scroll_offset.y == 0)


@pytest.mark.nightly
async def test_enter_gives_the_line_the_whole_width_and_escape_goes_back_step_by_step(path):
    async with Bench(path).run_test(size=(120, 30)) as pilot:
        await read(pilot)
        screen = pilot.app.screen
        await pilot.press("enter")
        await until(pilot, lambda: screen.line.region.width == 120)
        assert screen.line.has_focus and not screen.list.display
        await pilot.press("n")
        await until(pilot, lambda: "t-4" in pilot.app.full)
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(pilot.app.screen, Menu))
        await pilot.press("escape")
        await until(pilot, lambda: pilot.app.screen is screen)
        await pilot.press("escape")
        await until(pilot, lambda: screen.list.lines.has_focus)
        await pilot.press("escape")
        await until(pilot, lambda: pilot.app.screen is not screen)


@pytest.mark.nightly
async def test_the_line_scrolls_while_the_cursor_stays_in_the_list(tmp_path):
    path = fresh(tmp_path)
    await add_run(path, [("pass", "line\n" * 200)])
    await add_run(path, [("fail", "other\n" * 200)])
    async with Bench(path).run_test(size=(80, 24)) as pilot:
        await read(pilot)
        await pilot.press("J", "J", "K")
        line = pilot.app.screen.line
        await until(pilot, lambda: line.scroll_offset.y == 1)
        assert pilot.app.screen.list.lines.has_focus
        await pilot.press("tab", "slash", *"other", "enter")
        await until(pilot, lambda: line.scroll_offset.y > 1)
        first = line.scroll_offset.y
        await pilot.press("n")
        await until(pilot, lambda: line.scroll_offset.y == first + 1)


async def test_four_runs_have_a_column_each_and_one_key_brings_another_beside_the_first(path):
    await add_run(path, [("pass", "old")] * 6, name="third")
    await add_run(path, [("pass", "last")] * 6, name="fourth")
    async with Bench(path, 1, 2, 3, 4).run_test(size=(80, 24)) as pilot:
        await read(pilot)
        app = pilot.app
        assert [line[:2] for line in app.top.split("\n")[:4]] == ["A ", "B ", "C ", "D "]
        await until(pilot, lambda: drawn(app.screen.query_one("#columns")))
        title, first = drawn(app.screen.query_one("#columns"))[0], text_of(app.screen.list.lines.rows)[1]
        assert first.split()[3:11] == ["✓", "pass", "✗", "fail", "✓", "pass", "✓", "pass"]
        assert title.split() == ["item", "A", "B", "C", "D"]
        await until(pilot, lambda: "A → B" in app.full and "new" in app.full)
        await pilot.press("v")
        await until(pilot, lambda: "A → C" in app.full and "A and C are the same." in app.full)
        assert app.said.startswith("A next to C")
        await pilot.press("v")
        await until(pilot, lambda: "A → D" in app.full and "last" in app.full)
        await pilot.press("j")
        await until(pilot, lambda: "t-4" in app.full and "A → D" in app.full)
        await pilot.press("v")
        await until(pilot, lambda: "A → B" in app.full)


async def test_of_two_runs_there_is_no_other_to_bring_beside_the_first(path):
    async with Bench(path).run_test(size=(80, 24)) as pilot:
        await read(pilot)
        await pilot.press("v")
        await until(pilot, lambda: "only two runs" in pilot.app.said)


async def test_what_was_expected_comes_beside_either_run_and_columns_become_one(tmp_path):
    path = fresh(tmp_path)
    for text in ("It is 4.", "It is 5."):
        await add_run(path, [("pass", text)], expected="It is four.")
    async with Bench(path).run_test(size=(80, 24)) as pilot:
        await read(pilot)
        app = pilot.app
        assert "It is 4." in app.full and "It is four." not in app.full
        await pilot.press("e")
        await until(pilot, lambda: "It is four." in app.full and "It is 4." in app.full)
        assert app.said.startswith("expected next to A") and "It is 5." not in app.full
        await pilot.press("e")
        await until(pilot, lambda: "It is four." in app.full and "It is 5." in app.full)
        await pilot.press("e", "d")
        await until(pilot, lambda: "-It is 4." in app.full and "+It is 5." in app.full)


@pytest.mark.nightly
async def test_charts_and_help_open_over_it_and_go_back(path):
    async with Bench(path).run_test(size=(80, 24)) as pilot:
        await read(pilot)
        screen = pilot.app.screen
        await pilot.press("h")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChartsScreen))
        await until(pilot, lambda: "A against B" in "\n".join(drawn(pilot.app.screen.lines)))
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(pilot.app.screen, Reading))
        await pilot.press("escape", "escape")
        await until(pilot, lambda: pilot.app.screen is screen)


async def test_garbage_is_collected_again_whatever_becomes_of_the_reading(path):
    read_runs(path, [1, 2])
    assert gc.isenabled()
    with pytest.raises(LookupError):
        read_runs(path, [1, 9])
    assert gc.isenabled()


async def test_a_run_that_is_gone_is_said_in_place_of_the_list(path):
    async with Bench(path, 1, 9).run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(pilot.app.screen, CompareScreen))
        await until(pilot, lambda: "cannot be compared" in text_of(pilot.app.screen.list.lines.rows)[0])
        await pilot.press("b", "n", "o", "v", "e", "d", "h", "slash", "enter", "escape")
        await until(pilot, lambda: not isinstance(pilot.app.screen, CompareScreen))


async def test_a_run_deleted_meanwhile_leaves_the_screen_alive(path):
    async with Bench(path).run_test(size=(80, 24)) as pilot:
        await read(pilot)
        with Writer(path) as writer, Reader(path) as reader:
            writer.delete_run(reader.run(2))
        await pilot.press("j")
        await until(pilot, lambda: "is no longer in the store" in pilot.app.full)


@pytest.mark.story
@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "size", [(80, 24), *(pytest.param(size, marks=pytest.mark.nightly) for size in ((38, 20), (130, 30)))]
)
@pytest.mark.parametrize("runs", [(1, 2), (1, 2, 1, 2)])
async def test_hostile_answers_and_reasons_reach_no_terminal(tmp_path, size, runs):
    path = fresh(tmp_path)
    await add_run(path, [("pass", HOSTILE)], name=HOSTILE.replace("\ud800", "?"))
    await add_run(path, [("fail", HOSTILE + HOSTILE)], name="\x1b[2J")
    async with Bench(path, *runs, why=HOSTILE).run_test(size=size) as pilot:
        await read(pilot)
        screen = pilot.app.screen
        for keys in (("enter",), ("d",), ("e",), ("escape", "h")):
            await pilot.press(*keys)
            await pilot.pause()
            shown = "\n".join(line for lines in (screen.top, screen.list.lines, screen.line) for line in drawn(lines))
            shown += "\n".join(strip.text for strip in pilot.app.screen._compositor.render_strips())
            assert "[/b]" in shown
            assert not any(sign in shown for sign in "\x1b\x07\x9b\u202e")
