"""Menus and forms: everything from the keyboard, nothing taken that is wrong, hostile names shown as they are."""

import pytest
from textual.app import App

from tui_evals.tui.rows import row
from tui_evals.tui.widgets.dialogs import Ask, Confirm, Entry, Menu, Reading
from tui_evals.tui.widgets.form import Form
from tui_evals.tui.widgets.form_fields import Field, read_value, shown_value
from tui_evals.tui.widgets.inputs import LineInput
from tui_evals.tui.widgets.lines import Lines

HOSTILE = "[/b][@click=app.quit]x[/] \x1b]52;c;aGk=\x07\x1b[2J\x9b31m\u202e日本語"


class Bench(App[None]):
    def __init__(self, screen):
        super().__init__()
        self.wanted = screen
        self.got = []

    def on_mount(self):
        self.push_screen(self.wanted, self.got.append)


class Viewer(App[None]):
    """A list alone."""

    def __init__(self, lines):
        super().__init__()
        self.lines = lines

    def compose(self):
        yield self.lines


def plain(lines: Lines) -> list[str]:
    return ["".join(piece.text for piece in one.pieces).rstrip() for one in lines.rows]


def drawn(lines: Lines) -> str:
    return "\n".join(lines.render_line(y).text for y in range(lines.size.height))


async def test_typing_narrows_a_menu_and_enter_takes():
    menu = Menu("fruit", [Entry("a", "apple", "red"), Entry("b", "banana", "yellow"), Entry("c", "cherry", "red")])
    async with Bench(menu).run_test(size=(80, 24)) as pilot:
        await pilot.press("r", "e", "d")
        await pilot.pause()
        assert len(menu.query_one("#entries", Lines).rows) == 2
        await pilot.press("down", "enter")
        await pilot.pause()
        assert pilot.app.got == ["c"]


async def test_an_entry_with_the_typed_name_is_listed_first():
    menu = Menu("fruit", [Entry("a", "pineapple"), Entry("b", "apples"), Entry("c", "apple", "red")])
    async with Bench(menu).run_test(size=(80, 24)) as pilot:
        await pilot.press(*"apple", "enter")
        await pilot.pause()
        assert pilot.app.got == ["c"]


def own_menu(about="red"):
    return Menu(
        "fruit",
        [Entry("a", "apple", about), Entry("b", "apricot", "orange")],
        typed=lambda text: (
            Entry(("own", text), text, "another fruit") if text not in ("", "apple", "apricot") else None
        ),
    )


async def test_tab_completes_the_line_of_a_menu_to_the_name_under_the_cursor():
    async with Bench(own_menu()).run_test(size=(80, 24)) as pilot:
        await pilot.press(*"ap", "down", "tab")
        await pilot.pause()
        assert pilot.app.screen.query_one(LineInput).value == "apricot"
        assert "tab completes" in str(pilot.app.screen.query_one(".help").render())
        await pilot.press("s", "enter")
        await pilot.pause()
        assert pilot.app.got == [("own", "apricots")]


async def test_escape_says_that_a_new_name_is_not_taken_before_it_drops_it():
    menu = own_menu()
    async with Bench(menu).run_test(size=(80, 24)) as pilot:
        await pilot.press(*"fig", "escape")
        await pilot.pause()
        said = str(menu.query_one(".help").render())
        assert not pilot.app.got and "“fig” is not taken yet. enter takes it, esc again discards it." in said
        await pilot.press("s")
        await pilot.pause()
        assert "esc leaves" in str(menu.query_one(".help").render())
        await pilot.press("escape", "escape")
        await pilot.pause()
        assert pilot.app.got == [None]


async def test_escape_names_what_enter_takes_where_the_cursor_is_not_on_the_new_name():
    menu = own_menu()
    async with Bench(menu).run_test(size=(80, 24)) as pilot:
        await pilot.press(*"apr", "escape")
        await pilot.pause()
        said = menu.query_one(".help")
        assert "“apr” is not taken yet. enter takes “apricot”, esc again discards it." in str(said.render())
        await pilot.press("down")
        await pilot.pause()
        assert "esc leaves" in str(said.render())
        await pilot.press("escape")
        await pilot.pause()
        assert "“apr” is not taken yet. enter takes it, esc again discards it." in str(said.render())


async def test_escape_says_why_a_line_cannot_be_taken_before_it_drops_it():
    ask = Ask("name", check=lambda text: "there is an apple already" if text == "apple" else None)
    async with Bench(ask).run_test(size=(80, 24)) as pilot:
        await pilot.press(*"apple", "escape")
        await pilot.pause()
        said = str(ask.query_one(".help").render())
        assert said == "“apple” cannot be taken: there is an apple already. esc again discards it."
        await pilot.press("escape")
        await pilot.pause()
        assert pilot.app.got == [None]


async def test_escape_says_that_a_line_is_not_taken_before_it_drops_it():
    ask = Ask("in which language?", "Greek")
    async with Bench(ask).run_test(size=(80, 24)) as pilot:
        await pilot.press("x", "escape")
        await pilot.pause()
        assert not pilot.app.got and "“Greekx” is not taken yet" in str(ask.query_one(".help").render())
        await pilot.press("escape")
        await pilot.pause()
        assert pilot.app.got == [None]


@pytest.mark.parametrize("keys", [(), ("x", "backspace"), ("ctrl+u",)])
async def test_escape_leaves_a_line_at_once_where_nothing_new_is_typed(keys):
    async with Bench(Ask("in which language?", "Greek")).run_test(size=(80, 24)) as pilot:
        await pilot.press(*keys, "escape")
        await pilot.pause()
        assert pilot.app.got == [None]


async def test_a_form_says_which_field_is_typed_and_how_it_is_taken():
    form = Form("tool", [Field("name", about="What the model calls it."), Field("parts", "whole")], {}, writes=True)
    async with Bench(form).run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        said = form.query_one(".help")
        assert "name: What the model calls it. · enter takes it · tab next" in str(said.render())
        assert form.query_one(LineInput).placeholder == "name" and not said.has_class("wrong")
        await pilot.press("tab", "x")
        await pilot.pause()
        assert "not a whole number" in str(said.render()) and said.has_class("wrong")


@pytest.mark.parametrize("typed", ["", "apple"])
async def test_escape_leaves_a_menu_at_once_where_no_new_name_is_typed(typed):
    async with Bench(own_menu()).run_test(size=(80, 24)) as pilot:
        await pilot.press(*typed, "escape")
        await pilot.pause()
        assert pilot.app.got == [None]


async def test_a_new_name_is_not_taken_for_a_word_of_a_description():
    async with Bench(own_menu("red, from 2 farms")).run_test(size=(80, 24)) as pilot:
        await pilot.press(*"farm", "enter")
        await pilot.pause()
        assert pilot.app.got == [("own", "farm")]


async def test_several_entries_are_marked_and_taken_together():
    menu = Menu("fruit", [Entry(n, n) for n in "abc"], several=True)
    async with Bench(menu).run_test(size=(80, 24)) as pilot:
        await pilot.press("tab", "down", "down", "tab", "enter")
        await pilot.pause()
        assert pilot.app.got == [("a", "c")]


async def test_an_entry_that_cannot_be_chosen_says_why_and_escape_leaves():
    menu = Menu("commands", [Entry("a", "stop", why_not="there is nothing to stop")])
    async with Bench(menu).run_test(size=(80, 24)) as pilot:
        await pilot.press("enter")
        await pilot.pause()
        assert pilot.app.got == [] and "nothing to stop" in str(menu.query_one(".help").render())
        await pilot.press("escape")
        await pilot.pause()
        assert pilot.app.got == [None]


async def test_hostile_names_stand_in_a_menu_as_they_are():
    menu = Menu(HOSTILE, [Entry("a", HOSTILE, HOSTILE, HOSTILE)])
    async with Bench(menu).run_test(size=(120, 24)) as pilot:
        await pilot.pause()
        text = drawn(menu.query_one("#entries", Lines))
        assert "[/b][@click=app.quit]x[/]" in text
        assert not set(text) & {"\x1b", "\x07", "\x9b", "\u202e"}
        assert pilot.app.is_running


async def test_a_line_says_what_is_wrong_while_one_types():
    ask = Ask("name", check=lambda text: None if text.endswith(".json") else "must end in .json")
    async with Bench(ask).run_test(size=(80, 24)) as pilot:
        await pilot.press("a", "enter")
        await pilot.pause()
        assert pilot.app.got == [] and "must end in .json" in str(ask.query_one(".help").render())
        await pilot.press(*".json", "enter")
        await pilot.pause()
        assert pilot.app.got == ["a.json"]


async def test_only_y_is_a_yes():
    for key, answer in (("y", True), ("enter", None), ("n", None), ("escape", None)):
        async with Bench(Confirm("delete", "the run and 20 answers")).run_test(size=(80, 24)) as pilot:
            await pilot.press(key)
            await pilot.pause()
            assert pilot.app.got == [answer], key


@pytest.mark.nightly
async def test_a_form_is_filled_from_the_keyboard():
    fields = [
        Field("name", "text", "A name."),
        Field("count", "whole", "How many."),
        Field("loud", "yes", "Whether it is loud.", default="no"),
        Field("kind", "choice", "Which.", ("one", "two")),
        Field("more", "json", "Anything."),
    ]
    form = Form("new", fields, {}, check=lambda v: {} if v.get("count", 0) < 5 else {"count": "too many"}, done="make")
    async with Bench(form).run_test(size=(80, 24)) as pilot:
        await pilot.press("enter", *"ab", "enter")
        await pilot.press("down", "enter", "x", "enter")
        await pilot.pause()
        assert "not a whole number" in str(form.query_one(".help").render())
        await pilot.press("backspace", "9", "enter", "down", "enter", "down", "enter")
        await pilot.pause()
        await pilot.press("down", "enter")
        await pilot.pause()
        await pilot.press("down", "enter", *"[1]", "escape")
        await pilot.pause()
        assert form.values == {"name": "ab", "count": 9, "loud": True, "kind": "two", "more": [1]}
        assert any("too many" in line for line in plain(form.query_one("#fields", Lines)))
        await pilot.press("ctrl+s")
        assert pilot.app.got == []
        await pilot.press("up", "up", "up", "D", "ctrl+s")
        await pilot.pause()
        assert pilot.app.got == [{"name": "ab", "loud": True, "kind": "two", "more": [1]}]


@pytest.mark.nightly
async def test_json_and_texts_of_several_lines_have_a_box_of_their_own_in_a_form():
    form = Form("new", [Field("text"), Field("more", "json")], {"more": {"a": "b"}})
    async with Bench(form).run_test(size=(80, 24)) as pilot:
        await pilot.press("enter", *"one", "ctrl+j", *"two", "escape")
        await pilot.pause()
        assert form.values["text"] == "one\ntwo"
        await pilot.press("enter", "enter", *"three", "tab")
        await pilot.pause()
        assert form.values["text"] == "one\ntwo\nthree" and pilot.app.screen is form
        await pilot.press("down", "enter", "up", "end", "left", "enter", "c", "escape")
        await pilot.pause()
        assert form.values["more"] == {"a": "b\nc"}
        await pilot.press("enter", "backspace", "escape")
        await pilot.pause()
        assert "not valid JSON" in str(pilot.app.screen.query_one(".says").render())
        await pilot.press("end", "escape")
        await pilot.pause()
        await pilot.press("right_curly_bracket", "escape", "escape")
        await pilot.pause()
        assert form.values["more"] == {"a": "b\nc"}


async def test_escape_takes_the_field_and_then_leaves_the_form():
    form = Form("new", [Field("name"), Field("count", "whole")], {"name": HOSTILE})
    async with Bench(form).run_test(size=(80, 24)) as pilot:
        await pilot.press("enter", "escape")
        assert pilot.app.got == [] and form.values == {"name": HOSTILE}
        await pilot.press("enter", "f7", *"new", "escape")
        assert pilot.app.got == [] and form.values == {"name": "new"}
        await pilot.press("escape")
        await pilot.pause()
        assert pilot.app.got == [None]


@pytest.mark.nightly
async def test_a_line_written_into_what_is_there_is_kept_by_escape_and_one_that_begins_something_is_not():
    def long(text):
        return "a name is short" if len(text) > 3 else None

    async def got(dialog, *keys):
        async with Bench(dialog).run_test(size=(80, 24)) as pilot:
            await pilot.press(*keys)
            await pilot.pause()
            return pilot.app.got

    for keys, answers in (
        (("b", "escape"), ["ab"]),
        (("b", "ctrl+s"), ["ab"]),
        (("escape",), [None]),
        ((*"bcd", "escape"), []),
        ((*"bcd", "escape", "enter", "backspace", "escape"), ["abc"]),
        ((*"bcd", "escape", *"drop", "enter"), [None]),
    ):
        assert await got(Ask("name", "a", check=long, keeps=True), *keys) == answers, keys
    assert await got(Ask("name", "a", check=long), "b", "escape") == []
    assert await got(Ask("name", "a", check=long), "b", "escape", "escape") == [None]


@pytest.mark.nightly
async def test_a_form_that_keeps_is_taken_by_escape_and_asks_before_anything_is_dropped():
    fields = [Field("name"), Field("loud", "yes"), Field("count", "whole")]
    form = Form("new", fields, {}, check=lambda v: {"count": "too many"} if v.get("count") == 9 else {}, keeps=True)
    async with Bench(form).run_test(size=(80, 24)) as pilot:
        await pilot.press("enter", *"a", "tab", "tab", "enter", "x", "escape")
        await pilot.pause()
        assert "'x' is not a whole number" in str(pilot.app.screen.query_one(".says").render())
        await pilot.press("escape")
        await pilot.pause()
        assert pilot.app.screen is form and form.query_one("#line").value == "x"
        await pilot.press("backspace", "9", "escape", "escape")
        await pilot.pause()
        assert "too many" in str(pilot.app.screen.query_one(".says").render())
        await pilot.press("enter")
        await pilot.pause()
        await pilot.press("enter", "backspace", "8", "ctrl+s")
        await pilot.pause()
        assert pilot.app.got == [{"name": "a", "count": 8}]


def test_what_is_typed_is_read_as_its_kind():
    assert read_value("whole", " 3 ") == (3, None)
    assert read_value("number", "2.5") == (2.5, None)
    assert read_value("json", '{"a": [1]}') == ({"a": [1]}, None)
    assert read_value("text", "  ") == (None, None)
    for kind, text in (("whole", "2.5"), ("number", "x"), ("json", "{a}")):
        value, problem = read_value(kind, text)
        assert value is None and problem
    assert [shown_value(value) for value in (True, False, "x", ["a", "b"], {"a": 1}, [{"a": 1}])] == [
        "yes", "no", "x", "a, b", "a: 1", "1: a: 1",
    ]  # fmt: skip


async def test_a_text_to_read_scrolls_and_q_leaves():
    reading = Reading("help", lambda width: [row(f"line {number}") for number in range(100)])
    async with Bench(reading).run_test(size=(80, 24)) as pilot:
        await pilot.press("G")
        await pilot.pause()
        assert "line 99" in drawn(reading.query_one(Lines))
        await pilot.press("q")
        await pilot.pause()
        assert pilot.app.got == [None]


async def test_a_name_that_is_not_in_the_menu_can_be_typed_where_that_is_allowed():
    menu = Menu("fruit", [Entry("a", "apple")], typed=lambda text: Entry(text, text, "a new one") if text else None)
    async with Bench(menu).run_test(size=(80, 24)) as pilot:
        assert "or a new name" in str(menu.query_one(".help").render())
        await pilot.press(*"pear")
        await pilot.pause()
        assert len(menu.query_one("#entries", Lines).rows) == 1
        await pilot.press("enter")
        await pilot.pause()
        assert pilot.app.got == ["pear"]


async def test_the_line_of_help_is_red_only_while_the_entry_is_wrong():
    ask = Ask("a name", "x", check=lambda text: None if text else "give it a name")
    async with Bench(ask).run_test(size=(80, 24)) as pilot:
        await pilot.press("backspace")
        await pilot.pause()
        assert ask.query_one(".help").has_class("wrong")
        await pilot.press("y")
        await pilot.pause()
        assert not ask.query_one(".help").has_class("wrong")


async def test_one_can_scroll_as_soon_as_there_are_rows_and_the_scrollbar_follows():
    lines = Lines(choosing=False)

    async with Viewer(lines).run_test(size=(80, 12)) as pilot:
        lines.scroll_to(y=10, animate=False)
        assert lines.scroll_offset.y == 0
        lines.show(lambda width: [row(str(number)) for number in range(60)])
        lines.scroll_to(y=10, animate=False)
        assert lines.scroll_offset.y == 10
        await pilot.pause()
        assert lines.scroll_offset.y == 10 and lines.vertical_scrollbar.position == 10


async def test_the_scrollbar_goes_along_with_rows_that_come_and_go():
    lines = Lines(choosing=False)

    def show(count):
        lines.show(lambda width: [row(str(number)) for number in range(count)])

    async with Viewer(lines).run_test(size=(80, 12)) as pilot:
        for count in (60, 61, 30, 5, 60, 12, 13):
            show(count)
            await pilot.pause()
            lines.scroll_to(y=60, animate=False)
            await pilot.pause()
            assert lines.scroll_offset.y == max(count - 12, 0)
            assert lines.vertical_scrollbar.window_virtual_size == max(count, 12)
            assert str(count - 1) in drawn(lines)
        show(60)
        await pilot.pause()
        lines.scroll_to(y=48, animate=False)
        show(40)
        assert lines.scroll_offset.y == 28 and "39" in drawn(lines)


async def test_rows_that_come_while_a_layout_is_due_have_the_height_they_need():
    lines = Lines(choosing=False)
    lines.styles.height = "auto"
    async with Viewer(lines).run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        lines.refresh(layout=True)
        pilot.app.screen._clear_arrangement_cache()
        pilot.app.screen._refresh_layout()  # the picture is drawn before the layout that is due
        lines.show(lambda width: [row("one"), row("two")])
        await pilot.pause()
        assert lines.size.height == 2
