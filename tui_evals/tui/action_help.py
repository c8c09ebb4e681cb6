"""The action table as a person reads it: the help of a pane, and the manual's page of keys.

`python -m tui_evals.tui.action_help` writes that page anew; a test compares it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tui_evals.store.filters import FILTER_KEYS, SHOWN_WORDS

from .actions import PLACES, Where, actions_at, key_names

PROSE: Mapping[Where, str] = {
    "everywhere": "",
    "tree": (
        "The items of the open dataset and the turns of its conversations. What the cursor stands on is shown in the "
        "panes 2 and 3, and is what r runs; marked items are run, tagged, put into a category and deleted together. "
        "The filter has terms joined by spaces, as that of the results: words, category:x, tag:x, id:MT-*, status:fail "
        'or fail for how they did last; ! negates a term, "quotation marks" keep words together.'
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
        "The answer beside what was expected of it, with what differs marked word by word; below it what each "
        "evaluator said, the conversation, what was sent, and every attempt."
    ),
    "runs": (
        "Every run of this project, grouped by suite, with the pass rates of the last ones as a line of bars; enter "
        "puts a run on screen. Here p and x act on the run under the cursor, elsewhere on the one on screen."
    ),
    "compare": (
        "The same items in two to four runs, A the earliest: what passes in one and fails in another, and below or "
        "beside it what differs in the line under the cursor. The verdict says how often chance alone makes such a gap."
    ),
    "matrix": (
        "Each turn of an item is a row, each prompt and target a column, with k of n where items are repeated. Above "
        "a column stand its pass rate with the interval it lies in, its cost and the median time to an answer; below "
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

ALONE = ("field", "compare", "matrix", "labelling", "rules", "playground")
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
