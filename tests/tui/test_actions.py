"""The action table: every key can be sent by a plain terminal, nothing clashes, everything in it can be done."""

import re
from collections import Counter

import pytest

from tui_evals.present.columns import cell_width
from tui_evals.tui.actions import (
    ACTIONS,
    KEYS_PAGE,
    PLACES,
    actions_at,
    bindings,
    footer_actions,
    footer_choice,
    key_names,
    keys_page,
    pressed_key,
)
from tui_evals.tui.answer.pane import DetailPane
from tui_evals.tui.app import COMMANDS, Workbench
from tui_evals.tui.compare.screen import CompareScreen
from tui_evals.tui.item.pane import EditorPane
from tui_evals.tui.judges.pane import JudgesPane
from tui_evals.tui.labels import LabelScreen
from tui_evals.tui.matrix import MatrixScreen
from tui_evals.tui.playground.screen import Playground
from tui_evals.tui.proposals import ProposalsScreen
from tui_evals.tui.results.pane import ResultsPane
from tui_evals.tui.rules.screen import RulesScreen
from tui_evals.tui.runs.pane import RunsPane
from tui_evals.tui.tree.grid import GridScreen
from tui_evals.tui.tree.pane import TreePane
from tui_evals.tui.widgets.dialogs import help_menu
from tui_evals.tui.widgets.field import FieldBox
from tui_evals.tui.widgets.lines import Lines

OWNERS = {
    "tree": TreePane,
    "editor": EditorPane,
    "field": FieldBox,
    "judges": JudgesPane,
    "results": ResultsPane,
    "detail": DetailPane,
    "runs": RunsPane,
    "playground": Playground,
    "proposals": ProposalsScreen,
    "compare": CompareScreen,
    "matrix": MatrixScreen,
    "labelling": LabelScreen,
    "rules": RulesScreen,
    "grid": GridScreen,
}
NOT_SENT = {"ctrl+m", "ctrl+i", "ctrl+h", "ctrl+enter", "shift+enter", "ctrl+slash", "ctrl+space", "ctrl+backspace"}
EATEN = {"ctrl+a", "ctrl+b", "ctrl+c"}
NAMED = {
    "tab", "shift+tab", "escape", "space", "delete", "enter", "left", "right", "up", "down", "home", "end",
    "slash", "comma", "colon", "question_mark", "left_square_bracket", "right_square_bracket", "greater_than_sign",
    "less_than_sign", "equals_sign", "vertical_line", "#", "asterisk", "exclamation_mark",
    "left_curly_bracket", "right_curly_bracket", "ctrl+underscore", "full_stop", "plus", "minus",
}  # fmt: skip


def test_every_key_can_be_sent_over_a_plain_terminal():
    for action in ACTIONS:
        for key in action.keys.split(","):
            assert key not in NOT_SENT | EATEN, action
            assert re.fullmatch(r"[A-Za-z0-9]|ctrl\+[a-z]|f([1-9]|1[0-2])", key) or key in NAMED, (action, key)


@pytest.mark.parametrize("where", PLACES)
def test_no_key_means_two_things_in_one_place(where):
    both = (
        ()
        if where
        in ("everywhere", "field", "playground", "compare", "matrix", "labelling", "rules", "grid", "proposals")
        else actions_at("everywhere")
    )
    keys = Counter(key for action in (*actions_at(where), *both) for key in action.keys.split(","))
    assert [key for key, count in keys.items() if count > 1] == []


def test_no_key_of_a_pane_is_one_of_the_list_it_moves_in():
    searching = {"slash", "n", "N", "escape"}  # of the list only where and while it is searched
    taken = {key for binding in Lines.BINDINGS for key in binding.key.split(",")} - {"enter"} - searching
    for where in ("tree", "editor", "judges", "results", "detail", "runs", "compare", "matrix", "rules", "everywhere"):
        for action in actions_at(where):
            assert not taken & set(action.keys.split(",")), action


def test_every_action_can_be_done():
    for action in ACTIONS:
        if action.where == "everywhere":
            assert action.name in COMMANDS
        else:
            assert callable(getattr(OWNERS[action.where], f"do_{action.name}", None)), action
    assert set(COMMANDS) == {action.name for action in actions_at("everywhere")}


@pytest.mark.parametrize("where", OWNERS)
def test_every_action_is_bound(where):
    bound = {binding.action for binding in OWNERS[where].BINDINGS if hasattr(binding, "action")}
    assert {binding.action for binding in bindings(where)} <= bound
    assert {binding.action for binding in bindings("everywhere")} <= {binding.action for binding in Workbench.BINDINGS}


ALONE = ("compare", "matrix", "labelling", "playground", "rules", "grid", "proposals")


@pytest.mark.parametrize("where", OWNERS)
@pytest.mark.parametrize("room", [68, 108, 148])
def test_the_footer_uses_the_room_there_is_and_no_more(where, room):
    offered = footer_actions(where) if where in ALONE else footer_actions(where, "everywhere")
    shown = footer_choice(offered, lambda action: None, room)
    assert len("".join(f"{key} {word}  " for key, word in shown)) <= room
    assert len(shown) == len(offered) or len("".join(f"{key} {word}  " for key, word in shown)) > room - 20
    assert where in ALONE or {("r", "run"), ("ctrl+s", "save"), (":", "find")} <= set(shown)


def test_the_footer_shows_only_what_can_be_done():
    offered = footer_actions("tree", "everywhere")
    assert footer_choice(offered, lambda action: "no", 80) == []
    able = ("new_dataset", "palette")
    assert footer_choice(offered, lambda action: None if action.name in able else "no", 80) == [
        ("ctrl+n", "new"),
        (":", "find"),
    ]


MAIN = {"tree": "nD/", "editor": "ntaD", "judges": "ait", "results": "n/t", "detail": "at", "runs": "="}


@pytest.mark.parametrize("where", MAIN)
@pytest.mark.parametrize("edited", [False, True])
def test_at_80_columns_the_footer_names_the_main_verbs_before_the_editor(where, edited):
    refused = () if edited else ("save", "undo")
    shown = footer_choice(
        footer_actions(where, "everywhere"), lambda action: "no" if action.name in refused else None, 68
    )
    assert {*MAIN[where], "r", ":"} <= {key for key, _ in shown}
    assert ("ctrl+s" in dict(shown)) == edited


def test_every_label_of_a_footer_names_a_key_that_does_its_action():
    for action in ACTIONS:
        for label, key in zip(key_names(action), action.keys.replace("#", "number_sign").split(","), strict=True):
            assert pressed_key(label)[0] == key
    assert pressed_key("space") == ("space", " ") and pressed_key("→") == ("right", None)
    assert pressed_key("n N") == ("n", "n") and pressed_key("esc") == ("escape", None)


def test_while_one_types_the_footer_shows_no_letters():
    for place in PLACES:
        for key, _ in footer_choice(footer_actions(place, "everywhere"), lambda action: None, 500, typing=True):
            assert key.startswith("ctrl+") or re.fullmatch(r"f\d+|esc|(shift\+)?tab", key), key


def test_what_an_action_does_is_a_sentence():
    for action in ACTIONS:
        assert action.description[0].isupper() and action.description.endswith("."), action


def test_the_page_of_keys_is_current():
    assert KEYS_PAGE.read_text(encoding="utf-8") == keys_page(), "stale; run: python -m tui_evals.tui.actions"


def test_the_help_lists_the_keys_to_be_pressed_and_greys_what_cannot_be_done():
    for where in (*ALONE, "field", "runs", "detail"):
        menu = help_menu(where, lambda action: "it cannot" if action.name == "help" else None)
        menu.body()
        text = ["".join(piece.text for piece in one.pieces) for one in menu._rows(70)]
        assert ("Everywhere" not in text) is (where in (*ALONE, "field")), where
        assert text[0] and any(row.key and row.pieces[-1].style == "dim" for row in menu._rows(70)), where
        assert all(cell_width(line) <= 70 for line in text)
