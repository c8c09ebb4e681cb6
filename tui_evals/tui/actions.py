"""The one table of actions, which makes keys, footer, palette, help and the page of keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from textual.binding import Binding

from tui_evals.store.filters import FILTER_KEYS, SHOWN_WORDS

Where = Literal[
    "everywhere",
    "tree",
    "grid",
    "editor",
    "field",
    "judges",
    "results",
    "detail",
    "runs",
    "compare",
    "matrix",
    "labelling",
    "rules",
    "playground",
]

PLACES: dict[Where, str] = {
    "everywhere": "Everywhere",
    "tree": "1 Dataset",
    "grid": "Table of the items",
    "editor": "2 Item",
    "field": "The box of a field",
    "judges": "3 Evaluators",
    "results": "4 Results",
    "detail": "5 Answer",
    "runs": "6 Runs",
    "compare": "Comparing runs",
    "matrix": "Matrix of a run",
    "labelling": "Labelling blind",
    "rules": "7 Rules",
    "playground": "Playground",
}


class Action(NamedTuple):
    """Something a person can do in a place: its method is `do_NAME`, its word stands in the footer."""

    where: Where
    name: str
    keys: str
    word: str
    description: str
    footer: bool = False
    always: bool = False
    """It works in every field, dialog and screen too."""


AT_ONCE = frozenset(("stop", "pause", "remove", "clear"))
"""Actions that stop, resume or delete without a question: never done by a letter that may have come with alt."""

ACTIONS: tuple[Action, ...] = (
    Action("everywhere", "pane_1", "1", "dataset", "Go to the dataset tree."),
    Action("everywhere", "pane_2", "2", "item", "Go to the item under the cursor of the tree."),
    Action("everywhere", "pane_3", "3", "evaluators", "Go to the evaluators of what is selected."),
    Action("everywhere", "pane_4", "4", "results", "Go to the results of the run on screen."),
    Action("everywhere", "pane_5", "5", "answer", "Go to the answer under the cursor of the results."),
    Action("everywhere", "pane_6", "6", "runs", "Go to the runs."),
    Action(
        "everywhere", "rules", "7", "rules", "The rules a dataset was made from, the tests of each, what came of them."
    ),
    Action("everywhere", "next_pane", "tab", "next", "Go to the next pane on screen."),
    Action("everywhere", "previous_pane", "shift+tab", "previous", "Go to the previous pane on screen."),
    Action("everywhere", "zoom", "z", "zoom", "Show only this pane, or all again."),
    Action(
        "everywhere",
        "arrangement",
        "Z",
        "arrange",
        "Other panes together: all that fit, to write, to watch, to compare.",
    ),
    Action(
        "everywhere", "redraw", "ctrl+l", "redraw", "Draw everything again, where something else wrote to the terminal."
    ),
    Action("everywhere", "narrower", "left_square_bracket", "narrower", "Make this pane narrower."),
    Action("everywhere", "wider", "right_square_bracket", "wider", "Make this pane wider."),
    Action(
        "everywhere", "run", "r", "run", "Run what is selected, unsaved edits included; first says what it costs.", True
    ),
    Action("everywhere", "rerun", "R", "again", "Ask the failed items again, or those marked or shown, in a new run."),
    Action("everywhere", "rescore", "s", "rescore", "Judge the answers again: all, or those marked or shown."),
    Action(
        "everywhere",
        "pause",
        "p",
        "pause",
        "Pause the run, let a paused or interrupted one go on, or ask the errors of a finished one again.",
    ),
    Action("everywhere", "stop", "x", "stop", "Stop the run once what is in flight has its answer."),
    Action(
        "everywhere",
        "report",
        "X",
        "report",
        "Write a report or an export of the run, or of the marked runs compared: HTML, CSV, JSON and others.",
    ),
    Action("everywhere", "workers", "M", "workers", "The workers of the run on screen: who is there, and how busy."),
    Action("everywhere", "save", "ctrl+s", "save", "Save the dataset.", True),
    Action("everywhere", "save_as", "W", "save as", "Save the dataset under another name."),
    Action("everywhere", "undo", "u", "undo", "Take back the last edit of the dataset.", True),
    Action("everywhere", "redo", "U", "redo", "Do again what was taken back."),
    Action("everywhere", "new_dataset", "ctrl+n", "new", "Begin a dataset."),
    Action(
        "everywhere",
        "next_problem",
        "exclamation_mark,right_curly_bracket",
        "next problem",
        "The next problem of the dataset, in whichever item and field it is.",
    ),
    Action("everywhere", "previous_problem", "left_curly_bracket", "problem before", "The problem before."),
    Action("everywhere", "open", "o", "open", "Open another dataset of the project."),
    Action(
        "everywhere",
        "import",
        "O",
        "import",
        "Import what another tool wrote: promptfoo, Prompt Foundry, Inspect, PromptPex, Arthur Bench, results, "
        "messages.",
    ),
    Action("everywhere", "playground", "P", "play", "Talk to a target, and make an item of the conversation."),
    Action(
        "everywhere", "settings", "comma", "settings", "Theme, defaults of runs, judge: written to .evals/config.toml."
    ),
    Action(
        "everywhere", "trust", "Y", "trust", "What this project may do: what you agreed to, what it still asks for."
    ),
    Action(
        "everywhere",
        "palette",
        "ctrl+p,colon",
        "find",
        "Find anything by its name: what can be done, items, runs, datasets, pages of the manual.",
        True,
    ),
    Action("everywhere", "help", "question_mark,f1", "help", "The keys of this pane."),
    Action("everywhere", "back", "escape", "back", "Out of this: clear marks or filter, or back to the pane before."),
    Action(
        "everywhere", "suspend", "ctrl+z", "suspend", "Back to the shell for a while; fg goes on here.", always=True
    ),
    Action(
        "everywhere",
        "quit",
        "q,ctrl+q",
        "quit",
        "Leave. Runs go on; unsaved edits are kept as a draft; asks before anything is lost.",
    ),
    Action("tree", "mark", "space", "mark", "Mark the item, or all of a category.", True),
    Action("tree", "mark_all", "A", "mark all", "Mark every item shown, or none."),
    Action("tree", "filter", "slash", "filter", "Show only items that fit: words, !word, category:x, fail.", True),
    Action("tree", "group", "c", "group", "Group the items by category, or not."),
    Action("tree", "unfold", "right,l", "unfold", "Show the turns of a conversation, or the items of a category."),
    Action("tree", "fold", "left,h", "fold", "Hide them again, or go to what this belongs to."),
    Action("tree", "new", "n", "new", "A new item after this one, its prompt open.", True),
    Action("tree", "new_turn", "t", "turn", "A new turn after this one; a single turn becomes a conversation."),
    Action("tree", "duplicate", "d", "copy", "Duplicate the marked items, or this one."),
    Action("tree", "remove", "D,delete", "delete", "Delete the marked items, this item, or this turn.", True),
    Action("tree", "down", "J", "move down", "Move the item or turn down."),
    Action("tree", "up", "K", "move up", "Move the item or turn up."),
    Action("tree", "conversation", "T", "turns", "Make a conversation of a single turn, or back."),
    Action("tree", "category", "C", "category", "Put the marked items, or this one, into a category."),
    Action("tree", "tags", "#", "tags", "Tag the marked items, or this one."),
    Action("tree", "whole", "E", "$EDITOR", "Edit the marked items, or this one, as one file in $EDITOR."),
    Action("tree", "copy", "y", "copy", "Copy a text of the item, or the item as JSON; marked items all together."),
    Action("tree", "grid", "v", "table", "The items as a table: cells, fill, replace, paste and copy of TSV."),
    Action("grid", "edit", "i", "edit", "Write the cell; enter does the same. Enter goes down, tab right.", True),
    Action("grid", "left", "left,h", "left", "The column further left."),
    Action("grid", "right", "right,l", "column", "The column further right."),
    Action("grid", "new", "n", "new", "A new item after this one, its first cell open.", True),
    Action("grid", "fill", "f", "fill", "Copy this cell into the marked items, else into the next row.", True),
    Action("grid", "replace", "r", "replace", "Find and replace in this column, with a preview.", True),
    Action("grid", "mark", "space", "mark", "Mark the item.", True),
    Action("grid", "mark_all", "A", "mark all", "Mark every item, or none."),
    Action("grid", "copy", "y", "copy", "Copy the marked items, else all, as tab-separated values.", True),
    Action("grid", "sort", "S", "sort", "Sort by this column, the other way round, then not."),
    Action("grid", "columns", "c", "columns", "Choose which columns are shown."),
    Action("grid", "column_left", "less_than_sign", "to the left", "Move the column to the left."),
    Action("grid", "column_right", "greater_than_sign", "to the right", "Move the column to the right."),
    Action("grid", "empty", "delete,x", "empty", "Empty this cell of the marked items, else of this one."),
    Action("grid", "duplicate", "d", "copy item", "Duplicate the marked items, or this one."),
    Action("grid", "remove", "D", "delete", "Delete the marked items, or this one.", True),
    Action("grid", "down", "J", "move down", "Move the items down."),
    Action("grid", "up", "K", "move up", "Move the items up."),
    Action("grid", "search", "slash", "search", "Find a text in what is shown."),
    Action("grid", "undo", "u", "undo", "Take back the last edit.", True),
    Action("grid", "redo", "U", "redo", "Do again what was taken back."),
    Action("grid", "save", "ctrl+s", "save", "Save the dataset.", True),
    Action("grid", "help", "question_mark,f1", "help", "These keys."),
    Action("grid", "leave", "q,escape", "back", "Take the cell that is written; else back to the tree.", True),
    Action("editor", "edit", "i", "edit", "Edit what the cursor is on, or show its parts; enter does the same.", True),
    Action("editor", "external", "e", "$EDITOR", "Edit the field, or the part, in $EDITOR."),
    Action("editor", "whole", "E", "whole", "Edit the item, or the marked items, as one file in $EDITOR."),
    Action("editor", "search", "slash", "search", "Find a text in what is shown."),
    Action("editor", "json", "v", "JSON", "Edit it as JSON: coloured, indented, with matching brackets."),
    Action("editor", "field", "a", "add", "Give the item another field; among parts, another part.", True),
    Action("editor", "clear", "D,delete", "clear", "Take the field, or the part, away.", True),
    Action("editor", "down", "J", "move down", "Among parts: move the message, text or tool down."),
    Action("editor", "up", "K", "move up", "Among parts: move it up."),
    Action("editor", "rename", "c", "name, role", "Among parts: another name for a value, another role for a message."),
    Action("editor", "new", "n", "new", "A new item after this one, its prompt open.", True),
    Action("editor", "new_turn", "t", "turn", "A new turn after this one; a single turn becomes a conversation.", True),
    Action("editor", "duplicate", "d", "copy", "Duplicate the item or turn; among parts, the part."),
    Action("editor", "conversation", "T", "turns", "Make a conversation of a single turn, or back."),
    Action("editor", "copy", "y", "copy", "Copy what the cursor is on, a usual text of the item, or the item as JSON."),
    Action("editor", "pictures", "V", "pictures", "Look at the pictures that go along."),
    Action("editor", "next", "greater_than_sign", "next", "The next item or turn."),
    Action("editor", "previous", "less_than_sign", "previous", "The item or turn before."),
    Action("field", "done", "escape", "done", "Take what is written; u takes it back.", True),
    Action("field", "next", "tab", "next", "Take it and go on to the next field, then to the next item.", True),
    Action("field", "previous", "shift+tab", "before", "Take it and go back to the field before.", True),
    Action("field", "save", "ctrl+s", "save", "Take it and save the dataset.", True),
    Action("field", "zoom", "ctrl+l", "zoom", "Give the box all of the pane, or only what it needs.", True),
    Action("field", "line", "ctrl+j,enter", "line", "Begin a new line; a field of one line is taken instead."),
    Action("field", "undo", "ctrl+underscore", "untype", "Take back what was typed last, here in the box."),
    Action("field", "redo", "ctrl+y", "retype", "Do again what was taken back in the box."),
    Action("field", "help", "f1", "help", "These keys."),
    Action("judges", "edit", "i", "options", "Edit the options of the evaluator; enter does the same.", True),
    Action("judges", "add", "a", "add", "Add an evaluator from the list, or write one.", True),
    Action("judges", "remove", "D,delete", "remove", "Take the evaluator away here.", True),
    Action("judges", "mode", "m", "extend", "Extend the dataset's evaluators here, or replace them.", True),
    Action("judges", "level", "l", "level", "Work on the dataset's evaluators, or on those of the item or turn.", True),
    Action("judges", "try", "t", "try", "Judge the answer on screen with this evaluator, here and now.", True),
    Action("judges", "what_if", "w", "what if", "Try another threshold of it on the scores of the run on screen."),
    Action("judges", "search", "slash", "search", "Find a text in what is shown."),
    Action("judges", "next", "greater_than_sign", "next", "The next item or turn."),
    Action("judges", "previous", "less_than_sign", "previous", "The item or turn before."),
    Action("results", "filter", "slash", "filter", "Show only answers that fit, such as failed or score:<50.", True),
    Action(
        "results", "sort", "S", "sort", "Sort by a column, first the one of ← →; again turns the order round.", True
    ),
    Action(
        "results",
        "group",
        "c",
        "group",
        "The answers in groups, each with its sums: by category, tag, prompt, target, variable.",
    ),
    Action("results", "what_if", "w", "what if", "Try another threshold, weight or pass rule on the stored scores."),
    Action("results", "failures", "F", "what failed", "What failed, in clusters; again shows the answers.", True),
    Action("results", "next_failure", "n", "failure", "The next answer that failed.", True),
    Action("results", "previous_failure", "N", "failure before", "The failed answer before."),
    Action(
        "results",
        "rejudge",
        "t",
        "judge",
        "Judge this answer again by its dataset as it is now, unsaved edits too; then the next failure.",
        True,
    ),
    Action("results", "follow", "f", "follow", "Stay with the latest answers while the run goes on."),
    Action("results", "left", "left,h", "left", "The column further left; a line above says what it holds."),
    Action("results", "right", "right,l", "column", "The column further right."),
    Action("results", "mark", "space", "mark", "Mark the answer's item, to run marked items again."),
    Action("results", "mark_all", "A", "mark all", "Mark all that is shown, or take the marks away."),
    Action(
        "results", "verdict", "v", "verdict", "Say yourself whether the answer, or all marked or shown, is good.", True
    ),
    Action("results", "matrix", "m", "matrix", "The items as rows, each prompt and target as a column.", True),
    Action("results", "battle", "B", "battle", "Let a judge choose between the answers of two columns of this run."),
    Action("results", "trend", "T", "trend", "How the runs of this dataset did; so does enter on the lines above."),
    Action("results", "item", "i", "item", "Go to the item in the dataset."),
    Action("results", "copy", "y", "copy", "Copy the answer, the prompt, the diff or ids; or all marked or shown."),
    Action("detail", "layout", "d", "layout", "Side by side, unified, or only the answer.", True),
    Action("detail", "unfold", "plus", "unfold", "Unfold the steps: parts, then all that was said."),
    Action("detail", "fold", "minus", "fold", "Fold the steps: a line for each part, then steps with time and cost."),
    Action("detail", "raw", "w", "raw", "Spell out control bytes, or not.", True),
    Action("detail", "accept", "a", "accept", "Make the answer the expected response; undo takes it back.", True),
    Action(
        "detail",
        "rejudge",
        "t",
        "judge",
        "Judge this answer again by its dataset as it is now, unsaved edits too; then the next failure.",
        True,
    ),
    Action("detail", "search", "slash", "search", "Find a text in what is shown.", True),
    Action("detail", "next_match", "n", "next", "The next place where it stands."),
    Action("detail", "previous_match", "N", "previous", "The place before."),
    Action(
        "detail", "next_change", "c", "change", "The next place in which the answer differs from the expected.", True
    ),
    Action("detail", "previous_change", "C", "change before", "The change before."),
    Action("detail", "next_failing", "f", "failing", "The next evaluator for which the answer does not pass.", True),
    Action("detail", "next_section", "full_stop", "section", "The next section: scores, conversation, request, calls."),
    Action("detail", "next", "greater_than_sign,J", "next answer", "The next answer of the results."),
    Action("detail", "previous", "less_than_sign,K", "answer before", "The answer before."),
    Action("detail", "verdict", "v", "verdict", "Say yourself whether the answer is good or bad.", True),
    Action("detail", "item", "i", "item", "Go to the item in the dataset."),
    Action("detail", "copy", "y", "copy", "Copy the answer, the prompt, the diff or ids."),
    Action("detail", "pictures", "V", "pictures", "Look at the pictures that went along."),
    Action("detail", "pager", "vertical_line", "pager", "Show all of it in $PAGER."),
    Action("detail", "new_item", "I", "new item", "A new item from this conversation."),
    Action("runs", "rename", "n", "name", "Give the run another name.", True),
    Action("runs", "tags", "#,t", "tags", "Set the tags of the run.", True),
    Action("runs", "note", "e", "note", "Write a note on the run."),
    Action("runs", "remove", "D,delete", "delete", "Delete the run and its answers."),
    Action("runs", "mark", "space", "mark", "Mark the run, to compare it; up to four at once.", True),
    Action(
        "runs",
        "compare",
        "equals_sign",
        "compare",
        "Compare the marked runs, or this one with the one that is marked, its baseline, its parent or the run before.",
        True,
    ),
    Action("runs", "baseline", "b", "baseline", "Make this run the baseline of later ones, or take that back."),
    Action("runs", "label", "L", "label", "Label answers of this run blind, without seeing what the judges said."),
    Action("runs", "filter", "slash", "filter", "Show only runs with these words."),
    Action("runs", "battle", "B", "battle", "Let a judge choose between the answers of the runs that = compares."),
    Action("runs", "battles", "V", "battles", "The battles there were; the one that is chosen is shown again."),
    Action("runs", "search", "S", "search", "Find answers of all runs by what stands in them."),
    Action(
        "runs", "trend", "T", "trend", "How the runs of this dataset did, one after the other, as bars with intervals."
    ),
    Action("compare", "wide", "w", "wide", "Show the line over the whole screen, or not; enter does the same."),
    Action("compare", "broken", "b", "broken", "Show only what passed and fails now.", True),
    Action("compare", "fixed", "f", "fixed", "Show only what failed and passes now.", True),
    Action("compare", "changed", "c", "changed", "Show only answers that changed and are judged alike."),
    Action("compare", "kinds", "o", "only", "Show only one kind: new, gone, not comparable and the others."),
    Action("compare", "every", "asterisk", "all", "Show all lines.", True),
    Action("compare", "filter", "slash", "filter", "Show only answers that fit: words, kind:broken, category:x."),
    Action("compare", "next_broken", "n", "next", "The next line that is broken."),
    Action("compare", "previous_broken", "N", "broken before", "The broken line before."),
    Action(
        "compare", "beside", "e", "expected", "Show A next to B, the expected response next to A, or next to B.", True
    ),
    Action("compare", "versus", "v", "other run", "Compare A with another of the later runs."),
    Action("compare", "unified", "d", "columns", "One column with what differs, or columns."),
    Action("compare", "battle", "B", "battle", "Let a judge choose between the answers of what is compared."),
    Action("compare", "charts", "h", "charts", "Scores, categories and every test, as charts and a table.", True),
    Action("compare", "down", "J", "scroll down", "Scroll the line down while the cursor stays in the list."),
    Action("compare", "up", "K", "scroll up", "Scroll it up."),
    Action("compare", "help", "question_mark,f1", "help", "These keys, and what the words here mean."),
    Action("compare", "leave", "q,escape", "back", "Back to the list, then back to the workbench.", True),
    Action("matrix", "left", "left,h", "left", "The column further left.", True),
    Action("matrix", "right", "right,l", "right", "The column further right.", True),
    Action("matrix", "mark", "space", "mark", "Mark the column, to compare another one with it.", True),
    Action("matrix", "compare", "equals_sign", "compare", "Compare this column with the marked one.", True),
    Action("matrix", "battle", "B", "battle", "Let a judge choose between this column and the marked one."),
    Action("matrix", "sort", "S", "sort", "By the plan, by how far the columns disagree, or by failures.", True),
    Action("matrix", "failures", "f", "failures", "Show only rows in which a column did not pass, or all again."),
    Action("matrix", "differing", "d", "different", "Show only rows whose columns do not agree, or all again."),
    Action("matrix", "filter", "slash", "filter", "Show only rows with an answer that fits, such as failed.", True),
    Action("matrix", "read", "enter", "answer", "Go to this answer in pane 5.", True),
    Action("matrix", "height", "v", "height", "Cells of one line, of three or of six, with the answer or its reason."),
    Action("matrix", "wide", "w", "wide", "Show the answers over the whole screen, or not."),
    Action("matrix", "down", "J", "scroll down", "Scroll the answers down while the cursor stays in the grid."),
    Action("matrix", "up", "K", "scroll up", "Scroll them up."),
    Action("matrix", "help", "question_mark,f1", "help", "These keys."),
    Action("matrix", "leave", "q,escape", "back", "Out of the filter, then back to the workbench.", True),
    Action("labelling", "good", "g", "good", "The answer is good; the next one follows.", True),
    Action("labelling", "bad", "b", "bad", "The answer is bad; the next one follows.", True),
    Action("labelling", "skip", "s", "skip", "Say nothing of it and go on.", True),
    Action("labelling", "note", "n", "note", "Write why; it is kept with the label.", True),
    Action("labelling", "undo", "u", "undo", "Back to the answer before, and take its label back.", True),
    Action("labelling", "search", "slash", "search", "Find a text in what is shown."),
    Action("labelling", "help", "question_mark,f1", "help", "These keys."),
    Action("labelling", "leave", "q,escape", "back", "Stop here; the labels are kept.", True),
    Action("rules", "edit", "e", "edit", "Rewrite the rule, in the dataset and in the file next to it.", True),
    Action("rules", "new", "n", "new", "Another rule, and what inverts it.", True),
    Action("rules", "remove", "D,delete", "delete", "Delete the rule; among its tests, the test.", True),
    Action("rules", "tests", "t", "tests", "Have the tests of the rule made anew; first says what it costs.", True),
    Action("rules", "inverse", "i", "inverse", "Have the inverse of the rule written anew.", True),
    Action("rules", "run", "r", "run", "Run the tests of the rule; among its tests, the test.", True),
    Action("rules", "run_all", "R", "all", "Run all tests.", True),
    Action("rules", "other", "tab", "other list", "From the rules to the tests and back; enter goes on to the item."),
    Action("rules", "filter", "slash", "filter", "Show only rules and tests with these words."),
    Action("rules", "copy", "y", "copy", "Copy the rule, its inverse, or the test."),
    Action("rules", "stop", "x", "stop", "Stop what is being made once what is in flight has its answer."),
    Action("rules", "messages", "m", "messages", "What was said while tests were made."),
    Action("rules", "save", "ctrl+s", "save", "Save the dataset."),
    Action("rules", "undo", "u", "undo", "Take back the last edit of the dataset; the files of the rules follow."),
    Action("rules", "redo", "U", "redo", "Do again what was taken back."),
    Action("rules", "help", "question_mark,f1", "help", "These keys."),
    Action("rules", "leave", "q,escape", "back", "Out of the filter, back to the rules, then to the workbench.", True),
    Action("playground", "send", "ctrl+j,f5", "send", "Send what is written; enter begins a new line.", True),
    Action("playground", "make_item", "ctrl+t", "item", "Make an item of the conversation.", True),
    Action("playground", "target", "ctrl+o", "target", "Talk to another target; what was said stays.", True),
    Action("playground", "variables", "ctrl+g", "values", "Fill in the prompt under test, or give a system message."),
    Action("playground", "leave", "escape", "back", "Stop waiting for an answer, else back to the workbench.", True),
    Action("playground", "clear", "ctrl+l", "clear", "Begin again."),
    Action("playground", "help", "f1,question_mark", "help", "These keys."),
)

NAMES = {
    "slash": "/",
    "question_mark": "?",
    "comma": ",",
    "full_stop": ".",
    "colon": ":",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "exclamation_mark": "!",
    "greater_than_sign": ">",
    "less_than_sign": "<",
    "equals_sign": "=",
    "vertical_line": "|",
    "asterisk": "*",
    "escape": "esc",
    "delete": "del",
    "ctrl+underscore": "ctrl+_",
}


_ELSEWHERE = frozenset(("help", *(f"pane_{digit}" for digit in range(1, 7)), "next_pane", "previous_pane", "back"))
"""Actions that the line of keys leaves out, because the line above or its own end shows them."""
_OF_LAYOUT = frozenset(("zoom", "arrangement", "redraw", "narrower", "wider"))
_NO_LETTER = re.compile(r"(ctrl|shift)\+.+|tab|f\d+|esc")


def actions_at(where: Where) -> tuple[Action, ...]:
    """The actions of one place."""
    return tuple(action for action in ACTIONS if action.where == where)


def bindings(where: Where) -> list[Binding]:
    """The keys of a place, each with a name of its own so that a keymap can change it."""
    return [
        Binding(
            _textual_keys(action.keys),
            f"act('{action.name}')",
            action.word,
            show=False,
            priority=action.always,
            id=f"{where}.{action.name}",
        )
        for action in actions_at(where)
    ]


def key_names(action: Action) -> list[str]:
    """The keys of an action as a person reads them."""
    return [NAMES.get(key, key) for key in action.keys.split(",")]


def footer_actions(*places: Where) -> list[Action]:
    """What the line of keys can show of places."""
    return [action for place in places for action in actions_at(place) if action.name not in _ELSEWHERE]


def footer_choice(
    actions: Sequence[Action], why_not: Callable[[Action], str | None], room: int, *, typing: bool = False
) -> list[tuple[str, str]]:
    """The keys and words of a line: what can be done now, the most wanted first, for as long as there is room.

    While you type, a letter is a letter: only keys that are none are shown.
    """
    chosen: dict[Action, str] = {}
    for action in sorted(actions, key=_rank):
        key = _key_now(action, typing)
        if key is None or why_not(action) is not None:
            continue
        room -= len(key) + len(action.word) + 3
        if room < 0:
            break
        chosen[action] = key
    last = sorted(actions, key=lambda action: action.name in _OF_LAYOUT)
    return [(chosen[action], action.word) for action in last if action in chosen]


def _rank(action: Action) -> int:
    """What everywhere matters whenever it can be done comes first, then the few of the place, then the others."""
    if action.where != "everywhere":
        return 1 if action.footer else 2
    return 0 if action.footer else 4 if action.name in _OF_LAYOUT else 3


def _key_now(action: Action, typing: bool) -> str | None:
    """The key that does an action now, as a person reads it."""
    return next((key for key in key_names(action) if not typing or _NO_LETTER.fullmatch(key)), None)


def _textual_keys(keys: str) -> str:
    return keys.replace("#", "number_sign")


PROSE: Mapping[Where, str] = {
    "everywhere": "",
    "tree": (
        "The items of the open dataset and the turns of its conversations. What the cursor stands on is shown in the "
        "panes 2 and 3, and is what r runs; marked items are run, tagged, put into a category and deleted together. "
        "The filter has terms joined by spaces, as that of the results: words, category:x, tag:x, id:MT-*, status:fail "
        'or fail for how they did last; ! negates a term, "quotation marks" keep words together.'
    ),
    "grid": (
        "A row for each item, a column for each field and variable. A paste of tab-separated values goes to the right "
        "and down from the current cell; one with a row of headings that names prompt or testId changes the items with "
        "those testIds and adds the others. What is copied has headings, and pastes into a spreadsheet."
    ),
    "editor": (
        "The fields of the item, the turn, or the dataset itself. Each keystroke is checked and can be undone; nothing "
        "is written to the file before ctrl+s, and what is not saved is kept as a draft every few seconds. Variables, "
        "messages, ideal and tools have parts: enter shows them as rows, which are edited, added, moved and taken away "
        "one by one; esc leads back to the fields."
    ),
    "field": (
        "What is typed is checked and applied with every key, and taken with esc, tab, shift+tab and ctrl+s alike; one "
        "visit of a field is one step for u. What cannot be read asks what is to become of it: go on writing, a file, "
        "or drop it. A paste takes the place of what is selected."
    ),
    "judges": (
        "The evaluators that will judge what the cursor of the tree stands on, and who said so: the system, the "
        "dataset, the item or the turn. A unit extends the evaluators of its dataset, or replaces them."
    ),
    "results": (
        "One row for each answer of the run on screen, as the store holds it now. A filter shows while it is typed "
        f"what fits, of terms joined by spaces: {', '.join(SHOWN_WORDS)}, "
        f"{', '.join(key.example for key in FILTER_KEYS.values())}, words; ! negates a term, "
        '"quotation marks" keep words together and make them words of the text. With marks, else with a filter, R, s, '
        "v and y act on what is marked or shown. The page filters of the manual has it all."
    ),
    "detail": (
        "The answer next to the expected response, with what differs marked word by word; below it what each "
        "evaluator said, the conversation, what was sent, and every attempt."
    ),
    "runs": (
        "Every run of this project, grouped by suite, with the pass rates of the last ones as a line of bars; enter "
        "puts a run on screen. Here p and x act on the run under the cursor, elsewhere on the one on screen."
    ),
    "compare": (
        "The same items in two to four runs, A the earliest: what passes in one and fails in another, and below or "
        "next to it what differs in the line under the cursor. The verdict says how often chance makes such a gap."
    ),
    "matrix": (
        "Each turn of an item is a row, each prompt and target a column, with k of n where items are repeated. Above "
        "a column are its pass rate with its interval, its cost and the median time to an answer; below "
        "the grid the answers under the cursor, those of several columns where there is room."
    ),
    "labelling": (
        "Answers of a run drawn at random, one after the other, without what any evaluator said of them. Only such "
        "verdicts tell how good a judge is; at the end stands how far each one agrees with them."
    ),
    "rules": (
        "What every output of the prompt under test has to keep, what would break it, and the tests written for both. "
        "A rate is the share of judged answers that kept their rules, each test counted as each model was asked last. "
        "A rule can be rewritten by hand; tests and inverse rules can be made anew by a model, one rule at a time."
    ),
    "playground": (
        "A conversation with a target, and the item it can become. In the box enter begins a new line, and the page "
        "keys move the conversation; tab goes there and back."
    ),
}

ALONE = ("field", "grid", "compare", "matrix", "labelling", "rules", "playground")
"""Places of their own, where no other keys work."""


MOVING = (
    "In every list: j k or arrows, g G top and bottom, page keys or ctrl+d ctrl+u, enter. / finds a text, or shows "
    "only what has it; from then on n and N go from one to the next, until esc ends it."
)


def keys_page() -> str:
    """The page of keys, as Markdown."""
    parts = [
        "# Keys",
        "",
        "Made from the table of actions; `?` shows the part of the pane one is in.",
        "",
        MOVING,
    ]
    for place, title in PLACES.items():
        parts += ["", f"## {title}", ""]
        if PROSE.get(place):
            parts += [PROSE[place], ""]
        parts += ["| key | |", "|---|---|"]
        for action in actions_at(place):
            keys = " ".join(f"`{key}`" if key != "|" else "`\\|`" for key in key_names(action))
            parts.append(f"| {keys} | {action.description} |")
    return "\n".join(parts) + "\n"


KEYS_PAGE = Path(__file__).parent.parent / "help" / "keys.md"


def write_keys_page() -> None:
    """Write the page."""
    KEYS_PAGE.write_text(keys_page(), encoding="utf-8")


if __name__ == "__main__":
    write_keys_page()
