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
    "proposals",
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
    "proposals": "Proposed items",
}


class Action(NamedTuple):
    """An action of a place: its method is `do_NAME`, its word is in the footer."""

    where: Where
    name: str
    keys: str
    word: str
    description: str
    footer: int = 0
    """Priority in the footer: 2 for the main actions, which are shown at 80 columns."""
    always: bool = False
    """Whether it also works in every field, dialog and screen."""


AT_ONCE = frozenset(("stop", "pause", "remove", "clear", "drop"))
"""Actions that stop, resume or delete without a question: never done by a letter that may have come with alt."""

ACTIONS: tuple[Action, ...] = (
    Action("everywhere", "pane_1", "1", "dataset", "Go to the dataset tree."),
    Action("everywhere", "pane_2", "2", "item", "Go to the item under the cursor of the tree."),
    Action("everywhere", "pane_3", "3", "evaluators", "Go to the evaluators of the selection."),
    Action("everywhere", "pane_4", "4", "results", "Go to the results of the run on screen."),
    Action("everywhere", "pane_5", "5", "answer", "Go to the answer under the cursor of the results."),
    Action("everywhere", "pane_6", "6", "runs", "Go to the runs."),
    Action(
        "everywhere", "rules", "7", "rules", "The rules a dataset was made from, with the tests and results of each."
    ),
    Action("everywhere", "next_pane", "tab", "next", "Go to the next pane on screen."),
    Action("everywhere", "previous_pane", "shift+tab", "previous", "Go to the previous pane on screen."),
    Action("everywhere", "zoom", "z", "zoom", "Show only this pane, or all panes again."),
    Action(
        "everywhere",
        "arrangement",
        "Z",
        "arrange",
        "Switch the layout: all panes that fit, writing, watching, comparing.",
    ),
    Action("everywhere", "redraw", "ctrl+l", "redraw", "Redraw the screen."),
    Action("everywhere", "narrower", "left_square_bracket", "narrower", "Make this pane narrower."),
    Action("everywhere", "wider", "right_square_bracket", "wider", "Make this pane wider."),
    Action("everywhere", "run", "r", "run", "Run what is selected, with unsaved edits. Shows the cost first.", 2),
    Action(
        "everywhere", "rerun", "R", "again", "Run the failed items again in a new run, or the marked or shown ones."
    ),
    Action("everywhere", "rescore", "s", "rescore", "Judge the answers again: all, or the marked or shown ones."),
    Action(
        "everywhere",
        "pause",
        "p",
        "pause",
        "Pause the run. Resume a paused or interrupted run. Retry the errors of a finished run.",
    ),
    Action("everywhere", "stop", "x", "stop", "Stop the run after the open requests are answered."),
    Action(
        "everywhere",
        "report",
        "X",
        "report",
        "Export the run or the comparison of marked runs: HTML, CSV, JSON and others.",
    ),
    Action("everywhere", "workers", "M", "workers", "The workers of the run, and how busy each one is."),
    Action("everywhere", "save", "ctrl+s", "save", "Save the dataset.", 2),
    Action("everywhere", "save_as", "W", "save as", "Save the dataset under another name."),
    Action("everywhere", "undo", "u", "undo", "Undo the last edit of the dataset.", True),
    Action("everywhere", "redo", "U", "redo", "Redo the last undone edit."),
    Action("everywhere", "history", "H", "history", "What was edited and saved, and when. Goes back to before a save."),
    Action("everywhere", "new_dataset", "ctrl+n", "new", "Create a dataset."),
    Action(
        "everywhere",
        "next_problem",
        "exclamation_mark,right_curly_bracket",
        "next problem",
        "Go to the next problem of the dataset.",
    ),
    Action("everywhere", "previous_problem", "left_curly_bracket", "problem before", "Go to the previous problem."),
    Action("everywhere", "open", "o", "open", "Open another dataset of the project."),
    Action(
        "everywhere",
        "import",
        "O",
        "import",
        "Import files of promptfoo, Prompt Foundry, Inspect, PromptPex or Arthur Bench, results or messages.",
    ),
    Action("everywhere", "playground", "P", "play", "Talk to a target and make an item from the conversation."),
    Action("everywhere", "generate", "8", "generate", "Generate a dataset from a prompt file: its rules, and tests."),
    Action(
        "everywhere", "propose", "ctrl+g", "propose", "Propose items from this or the marked ones, and review them."
    ),
    Action(
        "everywhere", "settings", "comma", "settings", "Change theme, run defaults and judge in .evals/config.toml."
    ),
    Action("everywhere", "trust", "Y", "trust", "What you allowed this project to do, and what it still asks for."),
    Action(
        "everywhere",
        "palette",
        "colon,ctrl+p",
        "find",
        "Find an action, item, run, dataset or manual page by name.",
        2,
    ),
    Action("everywhere", "help", "question_mark,f1", "help", "Show the keys of this pane."),
    Action("everywhere", "back", "escape", "back", "Clear marks or the filter, or go back to the previous pane."),
    Action("everywhere", "suspend", "ctrl+z", "suspend", "Suspend to the shell; fg returns here.", always=True),
    Action(
        "everywhere",
        "quit",
        "q,ctrl+q",
        "quit",
        "Quit. Runs continue. Unsaved edits are kept as a draft.",
    ),
    Action("tree", "mark", "space", "mark", "Mark the item, or all of a category.", True),
    Action("tree", "mark_all", "A", "mark all", "Mark every item shown, or none."),
    Action("tree", "filter", "slash", "filter", "Show only matching items: words, !word, category:x, fail.", 2),
    Action("tree", "group", "c", "group", "Group the items by category, or not."),
    Action("tree", "unfold", "right,l", "unfold", "Show the turns of a conversation, or the items of a category."),
    Action("tree", "fold", "left,h", "fold", "Hide them again, or go to the parent."),
    Action("tree", "new", "n", "new", "Add an item after this one and edit its prompt.", 2),
    Action("tree", "new_turn", "t", "turn", "Add a turn after this one. A single turn becomes a conversation."),
    Action("tree", "duplicate", "d", "copy", "Duplicate the marked items, or this one."),
    Action("tree", "remove", "D,delete", "delete", "Delete the marked items, this item, or this turn.", 2),
    Action("tree", "down", "J", "move down", "Move the item or turn down."),
    Action("tree", "up", "K", "move up", "Move the item or turn up."),
    Action("tree", "conversation", "T", "turns", "Turn a single turn into a conversation, or back."),
    Action("tree", "category", "C", "category", "Put the marked items, or this one, into a category."),
    Action("tree", "tags", "#", "tags", "Tag the marked items, or this one."),
    Action("tree", "whole", "E", "$EDITOR", "Edit the marked items, or this one, as one file in $EDITOR."),
    Action("tree", "copy", "y", "copy", "Copy a text of the item, or the item as JSON. Copies all marked items."),
    Action("tree", "grid", "v", "table", "Show the items as a table: fill, replace, paste and copy cells."),
    Action("grid", "edit", "i", "edit", "Edit the cell, as does enter. Then enter moves down, tab right.", True),
    Action("grid", "left", "left,h", "left", "Go to the column on the left."),
    Action("grid", "right", "right,l", "column", "Go to the column on the right."),
    Action("grid", "new", "n", "new", "Add an item after this one and edit its first cell.", True),
    Action("grid", "fill", "f", "fill", "Copy this cell into the marked items, or into the next row.", True),
    Action("grid", "replace", "r", "replace", "Find and replace in this column, with a preview.", True),
    Action("grid", "mark", "space", "mark", "Mark the item.", True),
    Action("grid", "mark_all", "A", "mark all", "Mark every item, or none."),
    Action("grid", "copy", "y", "copy", "Copy the marked or all items as tab-separated values.", True),
    Action("grid", "sort", "S", "sort", "Sort by this column, then in reverse, then not at all."),
    Action("grid", "columns", "c", "columns", "Choose which columns are shown."),
    Action("grid", "column_left", "less_than_sign", "to the left", "Move the column to the left."),
    Action("grid", "column_right", "greater_than_sign", "to the right", "Move the column to the right."),
    Action("grid", "empty", "delete,x", "empty", "Clear this cell, in all marked items if any are marked."),
    Action("grid", "duplicate", "d", "copy item", "Duplicate the marked items, or this one."),
    Action("grid", "remove", "D", "delete", "Delete the marked items, or this one.", True),
    Action("grid", "down", "J", "move down", "Move the items down."),
    Action("grid", "up", "K", "move up", "Move the items up."),
    Action("grid", "search", "slash", "search", "Find text in this view."),
    Action("grid", "undo", "u", "undo", "Undo the last edit.", True),
    Action("grid", "redo", "U", "redo", "Redo the last undone edit."),
    Action("grid", "history", "H", "history", "What was edited and saved, and when. Goes back to before a save."),
    Action("grid", "save", "ctrl+s", "save", "Save the dataset.", True),
    Action("grid", "help", "question_mark,f1", "help", "Show these keys."),
    Action("grid", "leave", "q,escape", "back", "Keep the cell being edited, or go back to the tree.", True),
    Action("editor", "edit", "i", "edit", "Edit what the cursor is on, or show its parts; enter does the same.", True),
    Action("editor", "external", "e", "$EDITOR", "Edit the field, or the part, in $EDITOR."),
    Action("editor", "whole", "E", "whole", "Edit the item, or the marked items, as one file in $EDITOR."),
    Action("editor", "search", "slash", "search", "Find text in this view."),
    Action("editor", "json", "v", "JSON", "Edit it as JSON: colored, indented, with matching brackets."),
    Action("editor", "field", "a", "add", "Add a field to the item, or a part to the field.", 2),
    Action("editor", "clear", "D,delete", "clear", "Remove the field or the part.", 2),
    Action("editor", "down", "J", "move down", "Move the part down: message, text or tool."),
    Action("editor", "up", "K", "move up", "Move the part up."),
    Action("editor", "rename", "c", "name, role", "Rename a value, or change the role of a message."),
    Action("editor", "new", "n", "new", "Add an item after this one and edit its prompt.", 2),
    Action("editor", "new_turn", "t", "turn", "Add a turn after this one. A single turn becomes a conversation.", 2),
    Action("editor", "duplicate", "d", "copy", "Duplicate the item, turn or part."),
    Action("editor", "conversation", "T", "turns", "Turn a single turn into a conversation, or back."),
    Action("editor", "copy", "y", "copy", "Copy the field, another text of the item, or the item as JSON."),
    Action("editor", "pictures", "V", "pictures", "Look at the attached pictures."),
    Action("editor", "next", "greater_than_sign", "next", "The next item or turn."),
    Action("editor", "previous", "less_than_sign", "previous", "The previous item or turn."),
    Action("field", "done", "escape", "done", "Keep what you typed. u undoes it.", True),
    Action("field", "next", "tab", "next", "Keep it and edit the next field, then the next item.", True),
    Action("field", "previous", "shift+tab", "before", "Keep it and edit the previous field.", True),
    Action("field", "save", "ctrl+s", "save", "Keep it and save the dataset.", True),
    Action("field", "zoom", "ctrl+l", "zoom", "Make the box as large as the pane, or small again.", True),
    Action("field", "line", "ctrl+j,enter", "line", "Start a new line. In a field of one line: keep it."),
    Action("field", "undo", "ctrl+underscore", "untype", "Undo typing in this box."),
    Action("field", "redo", "ctrl+y", "retype", "Redo typing in this box."),
    Action("field", "help", "f1", "help", "Show these keys."),
    Action("judges", "edit", "i", "options", "Edit the options of the evaluator, as does enter.", 2),
    Action("judges", "add", "a", "add", "Add an evaluator from the list, or write one.", 2),
    Action("judges", "remove", "D,delete", "remove", "Remove the evaluator here.", True),
    Action("judges", "mode", "m", "extend", "Extend the dataset's evaluators here, or replace them.", True),
    Action(
        "judges", "level", "l", "level", "Switch between the dataset's evaluators and those of the item or turn.", True
    ),
    Action("judges", "try", "t", "try", "Judge the answer on screen with this evaluator now.", 2),
    Action("judges", "what_if", "w", "what if", "Try another threshold on the stored scores of the run."),
    Action("judges", "search", "slash", "search", "Find text in this view."),
    Action("judges", "next", "greater_than_sign", "next", "The next item or turn."),
    Action("judges", "previous", "less_than_sign", "previous", "The previous item or turn."),
    Action("results", "filter", "slash", "filter", "Show only matching answers, such as failed or score:<50.", 2),
    Action("results", "sort", "S", "sort", "Sort by the column of ← →. Press again to reverse.", True),
    Action(
        "results",
        "group",
        "c",
        "group",
        "Group the answers by category, tag, prompt, target or variable, with totals.",
    ),
    Action("results", "what_if", "w", "what if", "Try another threshold, weight, scale or pass rule on stored scores."),
    Action(
        "results", "failures", "F", "what failed", "Group the failures by cause. Press again for the answers.", True
    ),
    Action("results", "next_failure", "n", "failure", "Go to the next failed answer.", 2),
    Action("results", "previous_failure", "N", "failure before", "Go to the previous failed answer."),
    Action(
        "results",
        "rejudge",
        "t",
        "judge",
        "Judge this answer again by the dataset as it is now, then go to the next failure.",
        2,
    ),
    Action("results", "follow", "f", "follow", "Follow the latest answers while the run continues."),
    Action("results", "left", "left,h", "left", "Go to the column on the left. A line above explains it."),
    Action("results", "right", "right,l", "column", "Go to the column on the right."),
    Action("results", "mark", "space", "mark", "Mark the item of this answer, to run it again."),
    Action("results", "mark_all", "A", "mark all", "Mark everything shown, or clear the marks."),
    Action("results", "verdict", "v", "verdict", "Label the answer good or bad, or all marked or shown answers.", 2),
    Action("results", "check", "a", "add check", "Write an evaluator, tried first on these or the marked answers."),
    Action("results", "matrix", "m", "matrix", "Show items as rows and each prompt and target as a column.", True),
    Action("results", "battle", "B", "battle", "Let a judge choose between the answers of two columns of this run."),
    Action("results", "trend", "T", "trend", "Show the trend of this dataset's runs, as does enter above."),
    Action("results", "item", "i", "item", "Go to the item in the dataset."),
    Action("results", "copy", "y", "copy", "Copy the answer, prompt, diff or IDs, of all marked answers too."),
    Action("detail", "layout", "d", "layout", "Side by side, unified, or only the answer.", True),
    Action("detail", "unfold", "plus", "unfold", "Show more of the steps: parts, then full text."),
    Action("detail", "fold", "minus", "fold", "Show less: one line a part, then one line a step."),
    Action("detail", "raw", "w", "raw", "Show control bytes, or hide them.", True),
    Action("detail", "accept", "a", "accept", "Make this answer the expected response. u undoes it.", 2),
    Action(
        "detail",
        "rejudge",
        "t",
        "judge",
        "Judge this answer again by the dataset as it is now, then go to the next failure.",
        2,
    ),
    Action("detail", "search", "slash", "search", "Find text in this view.", True),
    Action("detail", "next_match", "n", "next", "Go to the next match."),
    Action("detail", "previous_match", "N", "previous", "Go to the previous match."),
    Action("detail", "next_change", "c", "change", "Go to the next difference from the expected response.", True),
    Action("detail", "previous_change", "C", "change before", "Go to the previous difference."),
    Action("detail", "next_failing", "f", "failing", "Go to the next evaluator that did not pass.", 2),
    Action(
        "detail",
        "next_section",
        "full_stop",
        "section",
        "Go to the next section: scores, conversation, request, calls.",
    ),
    Action("detail", "next", "greater_than_sign,J", "next answer", "Go to the next answer of the results."),
    Action("detail", "previous", "less_than_sign,K", "answer before", "Go to the previous answer."),
    Action("detail", "verdict", "v", "verdict", "Label the answer good or bad.", 2),
    Action("detail", "item", "i", "item", "Go to the item in the dataset."),
    Action("detail", "copy", "y", "copy", "Copy the answer, prompt, diff or IDs."),
    Action("detail", "pictures", "V", "pictures", "Look at the attached pictures."),
    Action("detail", "pager", "vertical_line", "pager", "Open the whole answer in $PAGER."),
    Action("detail", "new_item", "I", "new item", "Make a new item from this conversation."),
    Action("runs", "rename", "n", "name", "Rename the run.", True),
    Action("runs", "tags", "#,t", "tags", "Set the tags of the run.", True),
    Action("runs", "note", "e", "note", "Write a note for the run."),
    Action("runs", "remove", "D,delete", "delete", "Delete the run and its answers."),
    Action("runs", "mark", "space", "mark", "Mark the run for a comparison of up to four.", 2),
    Action(
        "runs",
        "compare",
        "equals_sign",
        "compare",
        "Compare the marked runs, or this run with its baseline, its parent or the previous run.",
        2,
    ),
    Action("runs", "baseline", "b", "baseline", "Make this run the baseline, or unset it."),
    Action("runs", "label", "L", "label", "Label answers of this run without seeing the judges' verdicts."),
    Action("runs", "filter", "slash", "filter", "Show only runs with these words."),
    Action("runs", "battle", "B", "battle", "Let a judge choose between the answers of the runs that = compares."),
    Action("runs", "battles", "V", "battles", "List earlier battles and show one again."),
    Action("runs", "search", "S", "search", "Search the answers of all runs."),
    Action("runs", "trend", "T", "trend", "Show the pass rates of this dataset's runs as bars with intervals."),
    Action("compare", "wide", "w", "wide", "Show the line on the whole screen, as does enter."),
    Action("compare", "broken", "b", "broken", "Show only what passed before and fails now.", True),
    Action("compare", "fixed", "f", "fixed", "Show only what failed before and passes now.", True),
    Action("compare", "changed", "c", "changed", "Show only answers that changed with the same verdict."),
    Action("compare", "kinds", "o", "only", "Show one kind only: new, gone, not comparable and others."),
    Action("compare", "every", "asterisk", "all", "Show all lines.", True),
    Action("compare", "filter", "slash", "filter", "Show only matching answers: words, kind:broken, category:x."),
    Action("compare", "next_broken", "n", "next", "Go to the next broken line."),
    Action("compare", "previous_broken", "N", "broken before", "Go to the previous broken line."),
    Action(
        "compare", "beside", "e", "expected", "Show A next to B, the expected response next to A, or next to B.", True
    ),
    Action("compare", "versus", "v", "other run", "Compare A with another of the later runs."),
    Action("compare", "unified", "d", "columns", "Show the difference in one column or in several."),
    Action("compare", "battle", "B", "battle", "Let a judge choose between the compared answers."),
    Action("compare", "charts", "h", "charts", "Scores, categories and every test, as charts and a table.", True),
    Action("compare", "down", "J", "scroll down", "Scroll the details down."),
    Action("compare", "up", "K", "scroll up", "Scroll the details up."),
    Action("compare", "help", "question_mark,f1", "help", "Show these keys and what the words mean."),
    Action("compare", "leave", "q,escape", "back", "Back to the list, then back to the workbench.", True),
    Action("matrix", "left", "left,h", "left", "Go to the column on the left.", True),
    Action("matrix", "right", "right,l", "right", "Go to the column on the right.", True),
    Action("matrix", "mark", "space", "mark", "Mark the column for A, again for B, again for neither.", True),
    Action(
        "matrix",
        "compare",
        "equals_sign",
        "compare",
        "Compare the columns of A with those of B, or this one.",
        True,
    ),
    Action("matrix", "battle", "B", "battle", "Let a judge choose between this column and the marked one."),
    Action("matrix", "sort", "S", "sort", "Sort by plan, by disagreement or by failures.", True),
    Action("matrix", "failures", "f", "failures", "Show only rows with a failure, or all again."),
    Action("matrix", "differing", "d", "different", "Show only rows whose columns disagree, or all again."),
    Action("matrix", "filter", "slash", "filter", "Show only rows with a matching answer, such as failed.", True),
    Action("matrix", "read", "enter", "answer", "Go to this answer in pane 5.", True),
    Action("matrix", "height", "v", "height", "Set the cell height to one, three or six lines."),
    Action("matrix", "wide", "w", "wide", "Show the answers on the whole screen, or not."),
    Action("matrix", "down", "J", "scroll down", "Scroll the answers down."),
    Action("matrix", "up", "K", "scroll up", "Scroll the answers up."),
    Action("matrix", "help", "question_mark,f1", "help", "Show these keys."),
    Action("matrix", "leave", "q,escape", "back", "Clear the filter, then go back to the workbench.", True),
    Action("labelling", "good", "g", "good", "Label the answer good and show the next one.", True),
    Action("labelling", "bad", "b", "bad", "Label the answer bad and show the next one.", True),
    Action("labelling", "skip", "s", "skip", "Skip this answer.", True),
    Action("labelling", "note", "n", "note", "Write a note, kept with the label.", True),
    Action("labelling", "undo", "u", "undo", "Go back to the previous answer and remove its label.", True),
    Action("labelling", "search", "slash", "search", "Find text in this view."),
    Action("labelling", "help", "question_mark,f1", "help", "Show these keys."),
    Action("labelling", "leave", "q,escape", "back", "Stop. The labels are kept.", True),
    Action("rules", "edit", "e", "edit", "Rewrite the rule, in the dataset and in the file next to it.", True),
    Action("rules", "new", "n", "new", "Add a rule and its inverse.", True),
    Action("rules", "remove", "D,delete", "delete", "Delete the rule or the test.", True),
    Action("rules", "tests", "t", "tests", "Generate the tests of the rule again. Shows the cost first.", True),
    Action("rules", "inverse", "i", "inverse", "Generate the inverse of the rule again.", True),
    Action("rules", "run", "r", "run", "Run the tests of the rule, or one test.", True),
    Action("rules", "run_all", "R", "all", "Run all tests.", True),
    Action("rules", "other", "tab", "other list", "Switch between rules and tests. enter opens the item."),
    Action("rules", "filter", "slash", "filter", "Show only rules and tests with these words."),
    Action("rules", "copy", "y", "copy", "Copy the rule, its inverse, or the test."),
    Action("rules", "stop", "x", "stop", "Stop generating after the open requests are answered."),
    Action("rules", "messages", "m", "messages", "Show the messages of the generation."),
    Action("rules", "save", "ctrl+s", "save", "Save the dataset."),
    Action("rules", "undo", "u", "undo", "Undo the last edit of the dataset and its rule files."),
    Action("rules", "redo", "U", "redo", "Redo the last undone edit."),
    Action("rules", "help", "question_mark,f1", "help", "Show these keys."),
    Action(
        "rules", "leave", "q,escape", "back", "Clear the filter, go back to the rules, then to the workbench.", True
    ),
    Action("playground", "send", "ctrl+j,f5", "send", "Send the message. enter starts a new line.", True),
    Action("playground", "make_item", "ctrl+t", "item", "Make an item from the conversation.", True),
    Action("playground", "target", "ctrl+o", "target", "Switch to another target and keep the conversation.", True),
    Action("playground", "variables", "ctrl+g", "values", "Set the variables of the prompt, or a system message."),
    Action("playground", "leave", "escape", "back", "Stop waiting for an answer, or go back to the workbench.", True),
    Action("playground", "clear", "ctrl+l", "clear", "Start a new conversation."),
    Action("playground", "help", "f1,question_mark", "help", "Show these keys."),
    Action(
        "proposals", "keep", "a", "keep", "Keep the proposal as an item after the one it is from, as does enter.", 2
    ),
    Action("proposals", "drop", "D,delete", "drop", "Drop the proposal.", 2),
    Action("proposals", "edit", "i,e", "edit", "Edit the texts of the proposal.", 2),
    Action(
        "proposals", "keep_all", "A", "keep all", "Keep all that are not duplicates. Goes back when none is left.", 2
    ),
    Action("proposals", "undo", "u", "undo", "Undo the last decision.", True),
    Action("proposals", "ask", "n", "more", "Ask for more items. Shows the cost first.", True),
    Action("proposals", "help", "question_mark,f1", "help", "Show these keys."),
    Action("proposals", "leave", "q,escape", "back", "Stop asking, or go back. Undecided proposals are kept.", True),
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


_ELSEWHERE = frozenset(
    ("help", *(f"pane_{digit}" for digit in range(1, 7)), "next_pane", "previous_pane", "back", "generate")
)
"""Actions that the line of keys leaves out, because the line above, its own end or the first page shows them."""
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


_KEYS = {**{name: key for key, name in NAMES.items()}, "#": "number_sign", "→": "right", "n N": "n"}


def pressed_key(label: str) -> tuple[str, str | None]:
    """The key that a label of the footer names, and the character it types."""
    characters = {"space": " ", "n N": "n", "→": None}
    return _KEYS.get(label, label), characters.get(label, label if len(label) == 1 else None)


def key_names(action: Action) -> list[str]:
    """The keys of an action as shown to users."""
    return [NAMES.get(key, key) for key in action.keys.split(",")]


def footer_actions(*places: Where) -> list[Action]:
    """The actions of the given places that the footer can show."""
    return [action for place in places for action in actions_at(place) if action.name not in _ELSEWHERE]


def footer_choice(
    actions: Sequence[Action], why_not: Callable[[Action], str | None], room: int, *, typing: bool = False
) -> list[tuple[str, str]]:
    """The keys and words of the footer: possible actions by priority, as many as fit. While typing, letter keys are
    left out.
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
    """Main verbs that work everywhere come first, then those of the place, then the others."""
    if action.where != "everywhere":
        return (4, 2, 1)[action.footer]
    return 6 if action.name in _OF_LAYOUT else (5, 3, 0)[action.footer]


def _key_now(action: Action, typing: bool) -> str | None:
    """The key that triggers an action now, as shown to users."""
    return next((key for key in key_names(action) if not typing or _NO_LETTER.fullmatch(key)), None)


def _textual_keys(keys: str) -> str:
    return keys.replace("#", "number_sign")


PROSE: Mapping[Where, tuple[str, str, str]] = {
    "tree": (
        "Shows: the items of the open dataset, with their turns and latest status. Panes 2 and 3 follow the cursor.",
        "You can: write an item (n), mark several (space), filter (/) by words, category:x, tag:x, id:MT-*, fail. "
        '! negates a term, "quotation marks" keep words together.',
        "Next: r runs the marked items or the one under the cursor.",
    ),
    "grid": (
        "Shows: a row for each item, a column for each field and variable.",
        "You can: edit a cell (i), fill down (f), replace (r), copy (y), paste tab-separated values. A pasted heading "
        "with testId or prompt updates the items with those testIds and adds the others.",
        "Next: ctrl+s saves the dataset, q goes back to the tree.",
    ),
    "editor": (
        "Shows: the fields of the item, the turn or the dataset. Edits are checked while you type.",
        "You can: edit a field (i), add one (a), undo (u). enter opens the parts of a field as rows, or its form. "
        "esc leaves them.",
        "Next: ctrl+s saves. Unsaved edits are kept as a draft every few seconds.",
    ),
    "field": (
        "Shows: the text of one field. It is checked with every key.",
        "You can: type, paste over a selection, undo typing (ctrl+_). esc, tab, shift+tab and ctrl+s keep the text.",
        "Next: tab edits the next field. Text that cannot be read is never lost: you are asked what to do.",
    ),
    "judges": (
        "Shows: the evaluators that judge this item or turn, and where each comes from.",
        "You can: add one (a), edit its options (i), extend or replace those of the dataset (m).",
        "Next: t tries the evaluator on the answer on screen. r runs the item.",
    ),
    "results": (
        "Shows: one row for each answer of the run on screen.",
        f"You can: filter with / by status: {', '.join(SHOWN_WORDS)}. Or by field: "
        f"{', '.join(key.example for key in FILTER_KEYS.values())}. Or by words of the text. ! negates a term, "
        '"quotation marks" keep words together. See the manual page filters. '
        "R, s, v and y use the marked answers, else the filtered ones.",
        "Next: n goes to the next failure, 5 reads the answer, R runs what failed again.",
    ),
    "detail": (
        "Shows: the answer next to the expected response, the scores, the conversation, the request and all attempts.",
        "You can: change the layout (d), go to differences (c) and failing evaluators (f), label the answer (v).",
        "Next: a makes the answer the expected response. i opens the item so that you can fix it.",
    ),
    "runs": (
        "Shows: the runs of this project by suite, with the latest pass rates as bars.",
        "You can: open a run (enter), mark up to four (space), set a baseline (b), delete a run (D).",
        "Next: = compares the run. Here p and x pause and stop the run under the cursor.",
    ),
    "compare": (
        "Shows: the same items in two to four runs, A the earliest, and whether the difference could be chance.",
        "You can: show only what broke (b) or was fixed (f), read a pair on the whole screen (w), see charts (h).",
        "Next: n goes to the next broken item. q goes back.",
    ),
    "matrix": (
        "Shows: a row for each turn, a column for each prompt and target, with k of n where items are repeated.",
        "You can: sort by disagreement (S), show only failures (f), mark a column (space).",
        "Next: enter opens the answer, = compares this column with the marked one.",
    ),
    "labelling": (
        "Shows: answers drawn at random, without the verdict of any evaluator.",
        "You can: say good (g) or bad (b), skip (s), write a note (n), go back (u).",
        "Next: the end shows how far each evaluator agrees with you.",
    ),
    "rules": (
        "Shows: the rules of the prompt under test, the tests of each, and the share of judged answers that kept them.",
        "You can: rewrite a rule (e), add one (n), generate its tests (t) or its inverse (i) again.",
        "Next: r runs the tests of the rule, R runs all.",
    ),
    "playground": (
        "Shows: a conversation with a target.",
        "You can: send a message (ctrl+j), switch the target (ctrl+o), set variables (ctrl+g). tab reaches the "
        "conversation.",
        "Next: ctrl+t makes an item from the conversation.",
    ),
    "proposals": (
        "Shows: items that a model wrote, or that failed, the text of one, and the item it is from.",
        "You can: keep (a), drop (D) or edit (i) each, keep all that are no duplicates (A), ask for more (n).",
        "Next: esc goes back. Kept items are unsaved edits.",
    ),
}
"""For each place: its purpose, what you can do there, and what to do next."""

ALONE = ("field", "grid", "compare", "matrix", "labelling", "rules", "playground", "proposals")
"""Places of their own, where no other keys work."""


MOVING = (
    "In every list: j k or arrows, g G, page keys or ctrl+d ctrl+u, enter. / searches, n and N go to the next and "
    "previous match, esc ends the search."
)


def keys_page() -> str:
    """The page of keys, as Markdown."""
    parts = [
        "# Keys",
        "",
        "Every key of the workbench. `?` shows those of the pane you are in.",
        "",
        MOVING,
    ]
    for place, title in PLACES.items():
        parts += ["", f"## {title}", ""]
        parts += [f"* {text}" for text in PROSE.get(place, ())]
        parts += [""] if place in PROSE else []
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
