"""The item editor: what its page shows, how fields are read and written, and what its keys do to the dataset."""

import json
import re
from pathlib import Path
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual.app import App

from tests.tui.hostile import STRANGE
from tui_evals import tui
from tui_evals.datasets.fields import new_tool
from tui_evals.datasets.paths import CannotEdit, Problem, same_data
from tui_evals.datasets.validate import ValidationReport
from tui_evals.present.columns import cell_width
from tui_evals.text.safe import safe_line
from tui_evals.tui import editing
from tui_evals.tui.item import rows
from tui_evals.tui.item.field_edit import part_rows
from tui_evals.tui.item.pane import EditorPane, neighbour_field
from tui_evals.tui.item.rows import fair_share, headline, page_rows, preview
from tui_evals.tui.widgets.dialogs import Menu
from tui_evals.tui.workspace import Workspace

STYLES = Path(tui.__file__).parent / "styles" / "app.tcss"
SINGLE = {"prompt": "Where is it?", "testId": "T-1", "expected_response": "here", "weight": 0.5, "tags": ["a", "b"]}
UNSEEN = set("\x1b\x07\x9b\x90\x9c\r\b\x7f\u202e\ud800\u200b")
TALK = {"name": "talk", "turns": [{"prompt": "Hi"}, {"prompt": "And then?", "expected_response": "This."}]}
RESULT = {"prompt": "Asked", "response": "Said", "status": "pass"}


def workspace(tmp_path, *items, where=(), **more):
    file = tmp_path / "evals.json"
    data = {"schemaVersion": "1.11.0", **more, "items": list(items) or [SINGLE, TALK, RESULT]}
    file.write_text(json.dumps(data))
    made = Workspace(tmp_path, tmp_path / "evals.db")
    made.configure()
    made.open_file(file)
    made.where = where
    made.check()
    return made


def plain(rows):
    return ["".join(piece.text for piece in row.pieces).rstrip() for row in rows]


def shown(made, width=76, editing=None):
    return "\n".join(plain(page_rows(made, width, editing)))


def keys(made, width=76):
    return [row.key for row in page_rows(made, width) if row.key is not None]


# -- the page


def test_an_item_shows_what_it_has_and_always_what_is_usual(tmp_path):
    made = workspace(tmp_path, where=("items", 0))
    assert keys(made) == ["prompt", "expected_response", "testId", "category", "tags", "weight"]
    text = shown(made)
    assert "item 1 of 3" in text and "Where is it?" in text and "a, b" in text and "0.5" in text


def test_a_conversation_shows_its_turns_to_go_into_and_no_prompt(tmp_path):
    made = workspace(tmp_path, where=("items", 1))
    assert keys(made) == ["testId", "name", "category", ("items", 1, "turns", 0), ("items", 1, "turns", 1)]
    assert "turn 2 And then?" in shown(made)


def test_a_turn_says_which_it_is_of_how_many(tmp_path):
    made = workspace(tmp_path, where=("items", 1, "turns", 1))
    assert headline(made) == "turn 2 of 2 · item 2 of 3"
    assert keys(made) == ["prompt", "expected_response"]


def test_the_dataset_shows_its_own_fields_and_where_problems_are(tmp_path):
    made = workspace(
        tmp_path, SINGLE, {"prompt": ""}, {"turns": [{"prompt": 5}]}, metadata={"name": "N", "owner": "me"}, house=1
    )
    assert keys(made)[:2] == ["metadata.name", "description"]
    assert {"metadata.owner", "house", "schemaVersion", ("items", 1), ("items", 2, "turns", 0)} <= set(keys(made))
    assert "Microsoft's runevals cannot read this file until its problems are fixed." in shown(made)


def test_the_dataset_says_whether_runevals_can_read_it_and_how_to_write_a_copy_for_it(tmp_path):
    assert workspace(tmp_path, {"prompt": "x"}).report.export_note == "Microsoft's runevals can read this file."
    told = workspace(tmp_path, SINGLE).report.export_note
    assert told.startswith("Microsoft's runevals cannot read this file: items[0]: runevals does not know")
    assert told.endswith("(+1 more). `tui-evals convert --to m365` writes a copy that it can read.")


def test_a_problem_stands_beneath_its_field_with_the_place_inside(tmp_path):
    item = {"prompt": "x", "weight": 3, "messages": [{"role": "user"}, {"role": "boss"}], "wight": 1}
    lines = plain(page_rows(workspace(tmp_path, item, where=("items", 0)), 100))
    below = lines.index(next(line for line in lines if line.startswith("weight")))
    assert lines[below + 1].strip() == "error: must be at most 1, not 3"
    assert any(line.strip().startswith("error: [1].role: must be") for line in lines)
    assert any("unknown field 'wight'" in line for line in lines[:4])


def test_a_problem_of_what_is_not_shown_as_a_field_is_told_at_the_top(tmp_path):
    made = workspace(tmp_path, {"turns": []}, where=("items", 0))
    assert "error: turns: must hold at least one entry" in shown(made)


def test_what_a_run_wrote_comes_last_and_dimmed(tmp_path):
    made = workspace(tmp_path, where=("items", 2))
    rows = page_rows(made, 76)
    assert keys(made)[-2:] == ["status", "response"]
    response = next(row for row in rows if row.key == "response")
    assert {piece.style for piece in response.pieces if piece.text.strip()} == {"dim"}


def test_long_texts_show_their_start_and_how_much_there_is_besides():
    def told(text, width=40):
        return plain([type("R", (), {"pieces": line}) for line in preview("prompt", text, width)])

    assert told("\n".join(f"line {n}" for n in range(128)))[-2:] == ["line 7", "… 120 more lines"]
    assert told("x" * 5000)[-1] == "… 5,000 characters in all" and len(told("x" * 5000)) == 9
    assert told("a\n" * 7 + "b") == ["a"] * 7 + ["b"]
    assert told("a\n" * 8 + "b") == ["a"] * 8 + ["b"], "a line that says there is one more is no shorter than that"
    assert told("a\n" * 9 + "b")[-1] == "… 2 more lines"
    assert told("a\n" + "x" * 5000 + "\nb\nc")[-1] == "… 2 more lines"


def text_of(lines):
    return "\n".join(f"word {number}" for number in range(lines))


@pytest.mark.parametrize("width", [50, 90])
def test_a_long_value_is_shown_whole_where_there_is_room(tmp_path, width):
    made = workspace(tmp_path, {"prompt": text_of(30), "expected_response": "yes"}, where=("items", 0))
    rows = plain(page_rows(made, width, None, 45))
    assert any("word 29" in line for line in rows) and not any("more line" in line for line in rows)


@pytest.mark.parametrize("width", [50, 90])
def test_long_values_share_the_room_there_is(tmp_path, width):
    item = {"prompt": text_of(80), "expected_response": text_of(80), "context": text_of(12), "category": "one"}
    made = workspace(tmp_path, item, where=("items", 0))
    for height in (50, 51, 52, 60):
        rows = plain(page_rows(made, width, None, height))
        assert height - 3 < len(rows) <= height
        assert any("word 11" in line for line in rows[-10:]), "a short one is shown whole"
        left = [int(line.split()[-3]) for line in rows if "more lines" in line]
        assert len(left) == 2 and left[0] == left[1]
    assert len(plain(page_rows(made, width, None, 20))) > 20, "each is shown with some lines though one has to scroll"


@given(st.lists(st.integers(0, 60), min_size=1, max_size=12), st.integers(0, 200))
def test_a_fair_share_fills_the_room(lengths, room):
    share = fair_share(lengths, room)
    used = sum(min(length, share) for length in lengths)
    assert used <= room or share == fair_share(lengths, 0)
    assert used == sum(lengths) or share == fair_share(lengths, 0) or used > room - len(lengths)


def test_json_spells_what_a_terminal_would_obey_in_the_way_of_json():
    (_, (line,), *_) = preview("matrix", {"a": "\x9b\u202e"}, 40)
    assert line.text == r'  "a": "\u009b\u202e"'


def test_where_a_generated_item_comes_from_is_read_line_by_line(tmp_path):
    facts = {"from": "refund-1", "by": "openai/m", "instruction": "Harder ones.", "when": "2026-11-29T03:00:00+00:00"}
    item = {"prompt": "x", "extensions": {"proposal": facts, "owner": "Ada"}}
    made = workspace(tmp_path, item, where=("items", 0))
    lines = [line.rstrip() for line in plain(page_rows(made, 76))]
    first = lines.index("extensions         proposal:")
    assert [line[19:] for line in lines[first + 1 : first + 6]] == [
        "  from: refund-1",
        "  by: openai/m",
        "  instruction: Harder ones.",
        "  when: 2026-11-29T03:00:00+00:00",
        "owner: Ada",
    ]


def test_values_and_tools_stand_behind_their_names_and_share_the_room(tmp_path):
    tools = [new_tool(), {"type": "web_search"}]
    values = {"city": "Oslo\nNorway", "days": [1]} | {f"v{number}": "" for number in range(8)}
    made = workspace(tmp_path, {"prompt": "x", "variables": values, "tools": tools}, where=("items", 0))
    whole = "\n".join(plain(page_rows(made, 76, None, 45)))
    assert "city: Oslo\n                         Norway" in whole and "v7:" in whole and "more" not in whole
    text = shown(made)
    assert "city: Oslo⏎Norway" in text and "days: [⏎  1⏎]" in text and "… 2 more values" in text
    assert "function_name: What it does, and when to call it." in text and '2: {⏎  "type": "web_search"' in text


def test_a_tool_is_shown_as_what_it_says_and_the_parameters_it_takes(tmp_path):
    schema = {"type": "object", "properties": {"city": {"type": "string"}, "days": {}}, "required": ["city"]}
    said = {"name": "weather", "description": "Tells the weather.", "parameters": schema}
    tools = [{"type": "function", "function": said}, {"type": "function", "name": "clock"}]
    made = workspace(tmp_path, {"prompt": "x", "tools": tools}, where=("items", 0))
    page = [line.split() for line in shown(made).splitlines()]
    assert ["tools", "weather:", "Tells", "the", "weather."] in page and ["clock:", "takes", "no", "parameters"] in page
    rows = [line.split() for line in plain(part_rows(made, "tools", 76, None, 40))]
    at = rows.index(["weather", "Tells", "the", "weather."])
    assert rows[at + 1 : at + 4] == [
        ["city:", "string,", "required"],
        ["days"],
        ["clock", "takes", "no", "parameters"],
    ]
    for odd in ({"$ref": "#/weather"}, {"oneOf": []}, {"properties": 5}, [], None):
        made = workspace(
            tmp_path,
            {"prompt": "x", "tools": [{"function": {"name": "weather", "parameters": odd}}]},
            where=("items", 0),
        )
        assert "takes no parameters" not in shown(made) and '"name": "weather"' in shown(made)
    odd = {"required": 5, "properties": {"a": 1}}
    made = workspace(
        tmp_path, {"prompt": "x", "tools": [{"function": {"name": "weather", "parameters": odd}}]}, where=("items", 0)
    )
    assert "weather: a" in shown(made)


def test_messages_stand_behind_their_roles_with_their_line_breaks(tmp_path):
    messages = [{"role": "user", "content": "one\ntwo"}, {"role": "assistant", "tool_calls": [{"id": "c"}]}, 5]
    made = workspace(tmp_path, {"prompt": "x", "messages": messages}, where=("items", 0))
    text = shown(made, 38)
    assert "user: one\n        two" in text and "assistant: calls" in text
    long = [{"role": "system", "content": "word " * 400}, {"role": "user", "content": "short"}]
    made = workspace(tmp_path, {"prompt": "x", "messages": long}, where=("items", 0))
    rows = plain(page_rows(made, 76, None, 20))
    assert (
        len(rows) == 20 and any(line.strip() == "user: short" for line in rows) and "characters in all" in shown(made)
    )
    assert sum(line.count("word") for line in plain(page_rows(made, 76, None, 60))) == 400
    assert sum(line.count("word") for line in plain(part_rows(made, "messages", 76, None, 60))) == 400
    assert len(plain(part_rows(made, "messages", 76, None, 20))) == 20


@pytest.mark.parametrize("width", [36, 59, 60, 74])
def test_no_row_is_wider_than_the_pane(tmp_path, width):
    item = {**SINGLE, "prompt": STRANGE * 20, "notes": "日本語" * 60, STRANGE: {STRANGE: [STRANGE]}}
    made = workspace(tmp_path, item, TALK, where=("items", 0))
    for row in page_rows(made, width):
        assert sum(cell_width(safe_line(piece.text)) for piece in row.pieces) <= width, row


def test_nothing_open_says_what_belongs_here(tmp_path):
    made = Workspace(tmp_path, tmp_path / "evals.db")
    text = shown(made)
    assert "No dataset is open." in text and "ctrl+n" in text and "1, then enter" not in text
    made.files = (tmp_path / "a.json",)
    assert "1, then enter opens one" in shown(made)


def test_of_a_file_that_is_no_document_the_problem_itself_says_what_to_do():
    report = ValidationReport(None, (), (Problem("is no eval document; convert it", ()),))
    assert report.export_note == "Microsoft's runevals cannot read this file: it is no eval document; convert it."


def test_what_is_no_object_is_told_and_not_edited(tmp_path):
    made = workspace(tmp_path, SINGLE, 5, where=("items", 1))
    assert "items[1] is no object" in shown(made)


# -- fields

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from(["prompt", "testId", "tags", "ideal", "weight", "response_format", "messages", "own"])


@given(NAMES, VALUES)
def test_whatever_a_field_holds_survives_being_written_and_read(name, value):
    kind = rows.kind_of(name, value)
    back = rows.read_value(kind, rows.value_as_text(kind, value))
    assert same_data(back, value) or (value in (None, "", []) and back is None)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("tags", "a\n\n b \n", ["a", "b"]),
        ("weight", "0.5", 0.5),
        ("response_format", "json", "json"),
        ("response_format", '{"type": "object"}', {"type": "object"}),
        ("testId", "T\n1", "T 1"),
        ("prompt", "a\n", "a\n"),
        ("variables", " ", None),
        ("category", "", None),
    ],
)
def test_a_field_is_read_in_the_way_of_its_name(name, text, value):
    assert same_data(rows.read_value(rows.kind_of(name, None), text), value)


def test_what_cannot_be_read_is_told_with_its_place():
    with pytest.raises(rows.Unreadable, match=r"not yet JSON: .*line 2, column 1"):
        rows.read_value("json", '{"a":\n}')
    with pytest.raises(rows.Unreadable, match=r"not yet a number: 0\.$"):
        rows.read_value("number", "0.")


@given(st.text(st.sampled_from("ab\x1b\x9b\u202e\ud800 \n\\")))
def test_json_to_edit_never_holds_what_must_not_reach_a_terminal(text):
    written = rows.pretty({text: [text]})
    assert rows.safe(written) == written
    assert json.loads(written) == {text: [text]}


def test_only_fields_that_can_stand_here_are_offered(tmp_path):
    single = rows.addable_fields(SINGLE, ("items", 0))
    assert "context" in single and not {"prompt", "turns", "response", "evaluators", "evaluators_mode"} & set(single)
    talk = rows.addable_fields(TALK, ("items", 1))
    assert "notes" in talk and not {"prompt", "context", "ideal"} & set(talk)
    assert "testId" not in rows.addable_fields(TALK["turns"][0], ("items", 1, "turns", 0))
    dataset = rows.addable_fields({"metadata": {"name": "x"}, "items": []}, ())
    assert "prompt_file" in dataset and not {"metadata.name", "items", "default_evaluators"} & set(dataset)


def test_every_field_that_is_offered_has_words_about_it():
    for unit, where in ((SINGLE, ("items", 0)), (TALK, ("items", 1)), ({}, ("items", 0, "turns", 0)), ({}, ())):
        for name in rows.addable_fields(unit, where):
            assert rows.field_about(name, where), name


def test_the_name_of_a_dataset_makes_and_leaves_its_metadata(tmp_path):
    data = {"items": [SINGLE]}
    named = rows.with_value(data, (), "metadata.name", "N")
    assert named["metadata"] == {"name": "N"}
    assert rows.with_value(named, (), "metadata.name", None) == data


# -- steps that the tree has too


def test_a_new_item_comes_after_the_one_one_is_in_and_marks_stay_on_their_items(tmp_path):
    made = workspace(tmp_path, where=("items", 0))
    made.marks = frozenset({0, 2})
    assert editing.new_item(made) == "new item, 2 of 4"
    assert made.where == ("items", 1) and made.marks == {0, 3}
    made.where = ()
    editing.new_item(made)
    assert made.where == ("items", 4)


def test_a_new_turn_makes_a_conversation_of_a_single_prompt_in_one_step(tmp_path):
    made = workspace(tmp_path, where=("items", 0))
    assert editing.new_turn(made) == "new turn, 2 of 2"
    assert made.where == ("items", 0, "turns", 1)
    assert [turn["prompt"] for turn in made.items[0]["turns"]] == ["Where is it?", ""]
    made.editing.undo()
    assert made.items[0] == SINGLE
    made.where = ("items", 1, "turns", 0)
    editing.new_turn(made)
    assert made.where == ("items", 1, "turns", 1) and made.unit == {"prompt": ""}


def test_a_copy_is_gone_to_and_items_given_win_over_where_one_is(tmp_path):
    made = workspace(tmp_path, where=("items", 1, "turns", 1))
    editing.duplicate(made)
    assert made.where == ("items", 1, "turns", 2) and made.unit == TALK["turns"][1]
    made.marks = frozenset({0, 2})
    assert editing.duplicate(made, made.marks) == "copied 2 items"
    assert [item.get("testId") for item in made.items] == ["T-1", "T-1-copy", None, None, None]
    assert made.where == ("items", 1) and made.marks == {0, 3}


def test_deleting_stays_near_and_keeps_the_other_marks(tmp_path):
    made = workspace(tmp_path, SINGLE, TALK, RESULT, SINGLE, where=("items", 2))
    made.marks = frozenset({0, 3})
    assert editing.remove(made) == "deleted item #3; u brings it back"
    assert made.where == ("items", 2) and made.marks == {0, 2}
    made.where = ("items", 1, "turns", 1)
    editing.remove(made, [0])
    assert made.where == ("items", 0, "turns", 1) and made.items[0] == TALK and made.marks == {1}
    editing.remove(made)
    assert made.where == ("items", 0, "turns", 0)
    made.where = ("items", 1)
    editing.remove(made)
    assert made.where == ("items", 0)
    with pytest.raises(CannotEdit, match="at least one item"):
        editing.remove(made)


def test_moving_goes_along_and_says_where_it_ends(tmp_path):
    made = workspace(tmp_path, where=("items", 0))
    made.marks = frozenset({1})
    assert editing.move(made, 1) == "moved item T-1 down"
    assert made.where == ("items", 1) and made.items[1] == SINGLE and made.marks == {0}
    editing.move(made, 1)
    assert editing.move(made, 1) == "item T-1 cannot go further down"
    made.where = ("items", 0, "turns", 0)
    assert editing.move(made, 1) == "turn 2 of 2"
    assert made.where == ("items", 0, "turns", 1) and made.unit == TALK["turns"][0]
    editing.move(made, 1, [0, 1])
    assert made.where == ("items", 1, "turns", 1)


@given(st.sets(st.integers(0, 6), min_size=1), st.sampled_from([-1, 1, 3]), st.integers(0, 6))
def test_after_a_move_one_is_in_the_item_one_was_in(tmp_path_factory, chosen, way, at):
    made = workspace(tmp_path_factory.mktemp("move"), *({"prompt": str(n)} for n in range(7)), where=("items", at))
    made.marks = frozenset(chosen)
    editing.move(made, way, chosen)
    assert made.unit == {"prompt": str(at)}
    assert {int(made.items[mark]["prompt"]) for mark in made.marks} == chosen


def test_a_conversation_and_back(tmp_path):
    made = workspace(tmp_path, where=("items", 0))
    editing.conversation(made)
    assert made.where == ("items", 0, "turns", 0) and made.unit["prompt"] == "Where is it?"
    editing.conversation(made)
    assert made.where == ("items", 0) and same_data(made.items[0], SINGLE)


def test_steps_say_what_is_missing(tmp_path):
    with pytest.raises(CannotEdit, match="open a dataset first"):
        editing.new_item(Workspace(tmp_path, tmp_path / "evals.db"))
    with pytest.raises(CannotEdit, match="go to an item first"):
        editing.duplicate(workspace(tmp_path))


def test_going_on_and_back_passes_every_item_and_turn_once(tmp_path):
    made = workspace(tmp_path, SINGLE, TALK, 5, RESULT)
    seen = [()]
    while (there := editing.neighbour_unit(made, 1)) is not None:
        made.where = there
        seen.append(there)
    assert seen == [(), *made.units()]
    back = [made.where]
    while (there := editing.neighbour_unit(made, -1)) is not None:
        made.where = there
        back.append(there)
    assert back == seen[::-1]


# -- the way of tab


def test_tab_passes_every_field_that_can_be_written_once_and_shift_tab_goes_back(tmp_path):
    long = {"prompt": "x" * 200_000, "response": "said", "evaluators": {}, "name": "long"}
    made = workspace(tmp_path, SINGLE, TALK, long, metadata={"name": "N"})
    at, way, seen = ((), "metadata.name"), 1, []
    while at is not None:
        seen.append(at)
        made.where = at[0]
        at = neighbour_field(made, at[1], way)
    item = ("items", 0)
    assert seen[:8] == [
        *(((), name) for name in ("metadata.name", "description")),
        *((item, name) for name in ("prompt", "expected_response", "testId", "category", "tags", "weight")),
    ]
    talk = ("items", 1)
    turns = [((*talk, "turns", n), name) for n in (0, 1) for name in ("prompt", "expected_response")]
    assert seen[8:15] == [*((talk, name) for name in ("testId", "name", "category")), *turns]
    last = ("items", 2)
    assert seen[15:] == [(last, name) for name in ("expected_response", "testId", "name", "category")]
    back, at = [], seen[-1]
    while at is not None:
        back.append(at)
        made.where = at[0]
        at = neighbour_field(made, at[1], -1)
    assert back == seen[::-1]


def test_tab_from_a_field_that_is_being_added_goes_on_from_its_place(tmp_path):
    made = workspace(tmp_path, {"prompt": "x"}, 5, where=("items", 0))
    assert neighbour_field(made, "notes", 1) is None
    assert neighbour_field(made, "notes", -1) == (("items", 0), "category")


# -- the pane


class Bench(App[None]):
    CSS_PATH = STYLES

    def __init__(self, made):
        super().__init__()
        self.made = made
        self.pane = EditorPane(made, None, None)
        self.heard, self.changes, self.shows = [], 0, []

    def compose(self):
        yield self.pane

    def on_status_message(self, message):
        self.heard.append(message.text)

    def on_show_pane(self, message):
        self.shows.append(message.place)

    def on_state_changed(self):
        self.changes += 1
        self.made.check()
        self.pane.sync()

    def on_item_shown(self):
        self.pane.sync()

    @property
    def box(self):
        return self.pane.box

    def at(self, key):
        self.pane.lines.to_key(key)
        assert self.pane.lines.key == key


@pytest.fixture
async def bench(tmp_path):
    app = Bench(workspace(tmp_path, where=("items", 0)))
    async with app.run_test(size=(80, 24)) as pilot:
        app.pane.focus_lines()
        await pilot.pause()
        yield app, pilot


def hint(app):
    return str(app.box.query_one(".hint").render())


async def press(pilot, *keys):
    await pilot.press(*keys)
    await pilot.pause()


async def until(pilot, condition):
    for _ in range(200):
        if condition():
            return
        await pilot.pause(0.01)
    raise AssertionError("it never came")


@pytest.mark.nightly
async def test_typing_changes_the_item_and_is_undone_as_one_step(bench):
    app, pilot = bench
    assert app.pane.lines.key == "prompt"
    await press(pilot, "enter", *" Really?".replace(" ", "_"), "escape")
    assert app.made.items[0]["prompt"] == "Where is it?_Really?"
    assert not app.box.display and app.pane.lines.has_focus
    assert "• not saved" in "\n".join(plain(app.pane.lines.rows)) and app.pane.border_title.endswith("•")
    assert app.made.editing.undo() == "edit prompt"
    assert not app.made.editing.can_undo and app.made.items[0] == SINGLE


async def test_two_visits_of_a_field_are_two_steps(bench):
    app, pilot = bench
    for letter in "ab":
        await press(pilot, "i", letter, "escape")
    app.made.editing.undo()
    assert app.made.items[0]["prompt"] == "Where is it?a"


@pytest.mark.nightly
async def test_many_letters_tell_of_a_few_changes_and_the_last_one_is_told(bench):
    app, pilot = bench
    await press(pilot, "i")
    start, app.changes = monotonic(), 0
    await press(pilot, *"abcdefghij")
    assert app.changes <= (monotonic() - start) / 0.2
    await until(pilot, lambda: "abcdefghij" in "\n".join(plain(app.pane.lines.rows)))
    assert app.box.display and app.box.has_focus_within


@pytest.mark.nightly
async def test_the_screen_is_laid_out_once_for_a_line_that_the_box_grows_by_and_not_for_a_letter(bench):
    app, pilot = bench
    await press(pilot, "i", "ctrl+j")
    layouts = []
    app.screen.screen_layout_refresh_signal.subscribe(app.box, layouts.append, immediate=True)
    for height in (5, 6, 7):
        await press(pilot, "ctrl+j")
        assert (app.box.outer_size.height, len(layouts)) == (height, 1)
        app.changes = 0
        await press(pilot, "x")
        await until(pilot, lambda: app.changes)
        assert len(layouts) == 1
        layouts.clear()


@pytest.mark.nightly
async def test_a_box_that_is_full_scrolls_to_what_one_writes(bench):
    app, pilot = bench
    area, highest = app.box.area, int(app.pane.size.height * 0.8)
    await press(pilot, "i")
    for _ in range(20):
        await press(pilot, "ctrl+j", "x")
        assert area.cursor_screen_offset in area.region
        assert area.show_vertical_scrollbar == (area.document.line_count > highest - 2)
    assert app.box.outer_size.height == highest
    area.clear()
    await pilot.pause()
    assert not area.show_vertical_scrollbar and app.box.outer_size.height == 4


@pytest.mark.nightly
async def test_a_problem_stands_beside_the_field_while_one_types(bench):
    app, pilot = bench
    app.at("weight")
    await press(pilot, "i", "backspace", "backspace", "backspace", "7")
    await until(pilot, lambda: "must be at most 1" in hint(app))
    assert app.box.has_class("wrong") and app.made.items[0]["weight"] == 7
    await press(pilot, "backspace", "1")
    await until(pilot, lambda: not app.box.has_class("wrong"))


@pytest.mark.nightly
async def test_json_is_not_applied_until_it_can_be_read_and_is_never_lost_silently(bench):
    app, pilot = bench
    app.made.apply({**app.made.data, "variables": {"a": 1}}, "x")
    app.made.where = ()
    app.pane.sync()
    await pilot.pause()
    app.at("variables")
    await press(pilot, "v", "backspace")
    assert "not yet JSON" in hint(app) and app.made.data["variables"] == {"a": 1}
    text = app.box.text
    await press(pilot, "escape")
    await until(pilot, lambda: isinstance(app.screen, Menu))
    await press(pilot, "escape")
    assert app.box.display and app.box.has_focus_within and app.box.text == text
    await press(pilot, "comma", "quotation_mark", *"b", "quotation_mark", "colon", "2", "right_curly_bracket", "escape")
    assert app.made.data["variables"] == {"a": 1, "b": 2} and not app.box.display


@pytest.mark.nightly
async def test_a_page_of_parts_follows_what_becomes_of_its_field(bench):
    app, pilot = bench
    app.made.apply({**app.made.data, "own": ["a", "b\x1b[2J", "c"]}, "x")
    app.made.where = ()
    app.pane.sync()
    await pilot.pause()
    app.at("own")
    await press(pilot, "enter", "enter", "tab")
    assert app.box.text == "c" and app.box.border_title == "own · 3", "a part that cannot be edited in place is passed"
    await press(pilot, "escape", "k", "enter")
    assert app.heard[-1].startswith("own[1] holds control characters") and not app.box.display
    await press(pilot, "j", "v", "backspace", "backspace", "backspace")
    assert "a value is needed" in hint(app)
    await press(pilot, "5", "escape")
    assert app.made.data["own"] == ["a", "b\x1b[2J", 5] and app.pane.page is None and app.pane.lines.key == "own"
    app.made.editing.undo()
    app.pane.sync()
    await pilot.pause()
    assert app.pane.page == "own"
    await press(pilot, "D", "D", "D", "D")
    assert "own" not in app.made.data and app.heard[-1] == "there is no text yet; a adds one"
    assert app.pane.escape() and app.pane.page is None and app.pane.lines.key is not None
    await press(pilot, "J")
    assert app.heard[-1].startswith("enter on a field of several parts")


async def test_a_name_that_a_terminal_must_not_be_sent_stays_unless_another_is_written(bench):
    app, pilot = bench
    app.made.apply({**app.made.data, "variables": {"a\x07": 1}}, "x")
    app.made.where = ()
    app.pane.sync()
    await pilot.pause()
    app.at("variables")
    await press(pilot, "enter", "c", "enter")
    await until(pilot, lambda: len(app.screen_stack) == 1)
    assert app.made.data["variables"] == {"a\x07": 1}
    await press(pilot, "c", "x", "enter")
    await until(pilot, lambda: list(app.made.data["variables"]) == ["a\u2407x"])


@pytest.mark.nightly
async def test_json_is_coloured_indented_and_its_brackets_are_matched_while_it_is_written(bench):
    app, pilot = bench
    app.made.apply({**app.made.data, "extensions": {"a": 1}}, "x")
    app.made.where = ()
    app.pane.sync()
    await pilot.pause()
    app.at("extensions")
    await press(pilot, "v", "up", "end", "comma", "enter", *'"b":[', "enter")
    await press(pilot, *"12,", "enter", "quotation_mark", "x", "enter", "y", "quotation_mark", "enter")
    await press(pilot, "right_square_bracket")
    area = app.box.area
    assert app.box.text == '{\n  "a": 1,\n  "b":[\n    12,\n    "x\\ny"\n  ]\n}'
    assert app.made.data["extensions"] == {"a": 1, "b": [12, "x\ny"]}
    await press(pilot, "left")
    assert area.matching_bracket_location == (2, 6)
    colours = {area.get_line(2).spans[0].style.color, *(area.get_line(line).spans[0].style.color for line in (3, 4))}
    assert len(colours) == 3 and None not in colours
    await press(pilot, "escape")
    app.made.where = ("items", 0)
    app.pane.sync()
    await pilot.pause()
    await press(pilot, "enter")
    assert not app.box.area.get_line(0).spans
    await press(pilot, "escape")


@pytest.mark.parametrize(("choice", "said"), [("drop", ""), ("file", "what you wrote is kept in {}; ")])
async def test_what_cannot_be_read_is_dropped_or_put_into_a_file_once_that_was_said(bench, choice, said):
    app, pilot = bench
    app.at("weight")
    await press(pilot, "i", "x", "enter")
    await until(pilot, lambda: isinstance(app.screen, Menu))
    await press(pilot, *choice, "enter")
    await until(pilot, lambda: not app.box.display)
    kept = app.made.root / ".evals" / "kept" / "weight-1.json"
    assert app.heard[-1] == said.format(kept.relative_to(app.made.root)) + "weight was left as it was"
    assert (kept.read_text() == "0.5x") if said else not kept.exists()
    assert app.made.items[0]["weight"] == 0.5 and not app.made.editing.dirty


async def test_what_cannot_be_put_into_a_file_stays_in_the_box(bench):
    app, pilot = bench
    (app.made.root / ".evals").write_text("no folder")
    app.at("weight")
    await press(pilot, "i", "x", "escape")
    await until(pilot, lambda: isinstance(app.screen, Menu))
    await press(pilot, *"file", "enter")
    await until(pilot, lambda: "could not be put into a file" in "".join(app.heard))
    assert app.box.display and app.box.text == "0.5x"


async def test_an_emptied_field_is_taken_away_and_its_row_stays_while_one_types(bench):
    app, pilot = bench
    app.at("weight")
    await press(pilot, "i", "backspace", "backspace", "backspace")
    assert "weight" not in app.made.items[0]
    await until(pilot, lambda: app.changes)
    assert app.pane.lines.key == "weight"
    await press(pilot, "escape")
    assert "weight" not in [row.key for row in app.pane.lines.rows]


@pytest.mark.nightly
async def test_a_new_item_is_open_at_its_empty_prompt(bench):
    app, pilot = bench
    app.at("weight")
    await press(pilot, "n")
    assert app.made.where == ("items", 1) and app.pane.lines.key == "prompt"
    await press(pilot, *"Why", "enter", *"not", "ctrl+j", "escape")
    assert app.made.items[1] == {"prompt": "Why\nnot\n"}


async def test_enter_goes_into_a_turn_and_the_signs_go_on_and_back(bench):
    app, pilot = bench
    await press(pilot, "greater_than_sign")
    assert app.made.where == ("items", 1)
    app.at(("items", 1, "turns", 1))
    await press(pilot, "enter")
    assert app.made.where == ("items", 1, "turns", 1) and app.pane.lines.key == "prompt"
    await press(pilot, "greater_than_sign", "greater_than_sign")
    assert app.made.where == ("items", 2) and app.heard == ["this is the last"]
    await press(pilot, *["less_than_sign"] * 5)
    assert app.made.where == ()
    assert app.pane.selection().items is None


@pytest.mark.nightly
async def test_a_field_is_chosen_from_those_of_the_model_and_edited_at_once(bench):
    app, pilot = bench
    await press(pilot, "a")
    await press(pilot, *"bug", "enter")
    assert app.box.display and app.box.border_title.startswith("notes · Free text")
    await press(pilot, *"see1", "escape")
    assert app.made.items[0]["notes"] == "see1" and app.pane.lines.key == "notes"


async def test_a_field_can_be_cleared_but_a_prompt_that_is_needed_cannot(bench):
    app, pilot = bench
    await press(pilot, "D")
    assert app.heard == ["there must be a prompt; enter edits it"]
    app.at("tags")
    await press(pilot, "delete")
    assert "tags" not in app.made.items[0] and "took tags away" in app.heard[-1]
    app.at("category")
    await press(pilot, "D")
    assert app.heard[-1] == "there is no category to take away"


async def test_control_characters_are_spelled_and_not_edited_in_place(bench):
    app, pilot = bench
    app.made.apply({**app.made.data, "items": [{"prompt": "a\x1b[2Jb"}]}, "x")
    app.pane.sync()
    await pilot.pause()
    assert "a\\x1b[2Jb" in "\n".join(plain(app.pane.lines.rows))
    await press(pilot, "enter")
    assert not app.box.display and "e edits it in $EDITOR" in app.heard[-1]


@pytest.mark.nightly
async def test_a_test_id_of_another_item_is_refused_where_it_is_typed(bench):
    app, pilot = bench
    app.made.apply(
        {**app.made.data, "items": [{"testId": "A", "prompt": "one"}, {"testId": "B", "prompt": "two"}]}, "x"
    )
    app.pane.sync()
    await pilot.pause()
    app.at("testId")
    await press(pilot, "enter", "backspace", "B")
    assert app.made.items[0].get("testId") != "B"
    assert app.pane._edit.fault == "testId B is already that of item 2"
    await press(pilot, "2", "escape")
    assert [item["testId"] for item in app.made.items] == ["B2", "B"]


async def test_a_very_long_text_and_what_a_run_wrote_are_not_edited_in_place(bench):
    app, pilot = bench
    app.made.apply({**app.made.data, "items": [{"prompt": "x" * 200_000, "response": "r"}]}, "x")
    app.pane.sync()
    await pilot.pause()
    assert "too long to edit in place" in app.pane.why_not("edit") and app.pane.why_not("external") is None
    app.at("response")
    for action in ("edit", "external", "clear"):
        assert app.pane.why_not(action) == "response is what a run wrote; it is not edited here"


async def test_what_is_nested_too_deeply_is_told_and_not_written_down(bench):
    app, pilot = bench
    deep = []
    for _ in range(5000):
        deep = [deep]
    app.made.editing.data = {**app.made.data, "items": [{"prompt": "x", "variables": deep}]}
    app.pane.sync()
    await pilot.pause()
    app.at("variables")
    await press(pilot, "enter", "e")
    assert app.heard == ["variables is nested too deeply to be edited here; edit the file itself"] * 2
    assert re.search(r"… over \d+ more lines", "\n".join(plain(app.pane.lines.rows)))


async def test_evaluators_are_edited_in_their_own_pane(bench):
    app, pilot = bench
    app.made.apply({**app.made.data, "items": [{"prompt": "x", "evaluators": {"Citations": {}}}]}, "x")
    app.pane.sync()
    await pilot.pause()
    app.at("evaluators")
    await press(pilot, "enter")
    assert app.shows == ["judges"]


async def test_the_box_closes_when_one_goes_elsewhere_or_the_field_is_changed(bench):
    app, pilot = bench
    app.at("weight")
    await press(pilot, "i", "x")
    app.made.where = ("items", 1)
    app.pane.sync()
    await pilot.pause()
    assert not app.box.display and app.pane.lines.has_focus and "what you wrote is kept in" in app.heard[-1]
    assert (app.made.root / ".evals" / "kept" / "weight-1.json").read_text() == "0.5x"
    app.made.where = ("items", 0)
    app.pane.sync()
    await pilot.pause()
    app.at("prompt")
    await press(pilot, "i", "x")
    app.made.editing.undo()
    app.pane.sync()
    assert not app.box.display


async def test_escape_of_the_pane_leaves_an_open_box(bench):
    app, pilot = bench
    assert not app.pane.escape()
    await press(pilot, "i", "x")
    app.pane.lines.focus()
    assert app.pane.escape()
    await pilot.pause()
    assert not app.box.display and app.made.items[0]["prompt"].endswith("x")


@pytest.mark.nightly
async def test_turns_are_made_and_items_copied_from_here(bench):
    app, pilot = bench
    await press(pilot, "T", "t", "escape", "d")
    assert app.made.where == ("items", 0, "turns", 2) and len(app.made.items[0]["turns"]) == 3
    await press(pilot, "T")
    assert "would be lost" in app.heard[-1]


async def test_a_letter_and_escape_sent_together_lose_nothing(bench):
    app, pilot = bench
    await press(pilot, "i")
    for key, character in (("x", "x"), ("y", "y"), ("escape", None)):
        app.post_message(events.Key(key, character))
    await until(pilot, lambda: not app.box.display)
    await pilot.pause()
    assert app.made.items[0]["prompt"] == "Where is it?xy"


async def test_all_of_a_field_comes_into_view_with_its_name(tmp_path):
    items = [{"prompt": "\n".join(f"p{n}" for n in range(5)), "context": "\n".join(f"c{n}" for n in range(5))}]
    app = Bench(workspace(tmp_path, *items, where=("items", 0)))
    async with app.run_test(size=(38, 10)) as pilot:
        app.pane.focus_lines()
        await press(pilot, "down", "down")
        lines = app.pane.lines
        screen = [lines.render_line(y).text.strip() for y in range(lines.size.height)]
        assert lines.key == "context" and "context" in screen and "c4" in screen


async def test_nothing_open_answers_every_key_with_a_sentence(tmp_path):
    app = Bench(Workspace(tmp_path, tmp_path / "evals.db"))
    async with app.run_test(size=(60, 12)) as pilot:
        app.pane.focus_lines()
        await press(pilot, "i", "a", "D", "e", "n", "t", "d", "T", "greater_than_sign", "enter")
        assert set(app.heard) == {"open a dataset first (1, then enter)"} and len(app.heard) == 10
        assert app.pane.selection() is None


@pytest.mark.nightly
@pytest.mark.parametrize("size", [(38, 10), (80, 24)])
async def test_hostile_texts_reach_the_screen_as_letters_only(tmp_path, size):
    strange = STRANGE + " \ud800 " + "long " * 1000
    item = {strange: strange, "prompt": strange, "variables": {strange: [strange]}, "tags": [strange]}
    item |= {"messages": [{"role": strange, "content": strange}], "response": strange, "testId": strange}
    talk = {"name": strange, "turns": [{"prompt": strange}]}
    app = Bench(workspace(tmp_path, item, talk, metadata={"name": strange, strange: strange}))
    async with app.run_test(size=size) as pilot:
        app.pane.focus_lines()
        for _ in range(4):
            lines = app.pane.lines
            for number in range(len(lines.rows)):
                lines.to_row(number)
                drawn = "".join(lines.render_line(y).text for y in range(lines.size.height))
                assert not set(drawn + app.pane.border_title) & UNSEEN
            await press(pilot, "greater_than_sign")
        app.made.where = ("items", 0)
        app.pane.sync()
        await pilot.pause()
        app.at("variables")
        await press(pilot, "enter")
        drawn = "".join(app.pane.lines.render_line(y).text for y in range(size[1]))
        assert "[/INST]" in drawn and not set(drawn) & UNSEEN
        await press(pilot, "v")
        assert app.box.display and not set(app.box.text) & UNSEEN
        await press(pilot, "escape")
        assert app.made.items[0] == item and app.is_running


@pytest.mark.nightly
def test_thirty_thousand_marks_follow_their_items_at_once(tmp_path):
    made = workspace(tmp_path, *({"prompt": str(number)} for number in range(30_000)))
    every = range(30_000)
    made.marks = frozenset(every)
    editing.duplicate(made, every)
    assert len(made.items) == 60_000 and made.marks == frozenset(range(0, 60_000, 2))
    editing.remove(made, sorted(made.marks))
    assert len(made.items) == 30_000 and not made.marks
