"""`tui-evals item list`, `item show`, and `dataset history`, `undo` and `redo`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tui_evals.cli.output import Stop, columns, say, say_data, say_json
from tui_evals.datasets import history
from tui_evals.datasets.document import load
from tui_evals.datasets.fields import field_names, pretty, value_of
from tui_evals.datasets.item_names import find_item, item_in_words, item_name
from tui_evals.datasets.paths import CannotEdit, Data, DatasetError, get_at
from tui_evals.datasets.paths import Path as Place
from tui_evals.datasets.steps import items_of
from tui_evals.files import CannotSave
from tui_evals.present.columns import table
from tui_evals.runs.item_filter import ItemFilter, searched_item
from tui_evals.store.filters import FilterError

_LONGEST = 200


def list_items(file: Path, words: Sequence[str], as_json: bool) -> None:
    """The items of a dataset, or those that a filter lets through."""
    items = _read(file)["items"]
    numbers = _numbers(items, " ".join(words))
    if as_json:
        say_json([_summary(items[number], number) for number in numbers])
        return
    if not numbers:
        say(f"no item of {file} fits {' '.join(words)!r}" if words else f"{file} has no items")
        return
    rows = [_row(items[number], number) for number in numbers]
    empty = [place for place in range(len(rows[0])) if not any(row[place] for row in rows)]
    head = ["item", "name", "category", "tags", "turns", "prompt"]
    cells = [[text for place, text in enumerate(row) if place not in empty] for row in (head, *rows)]
    for line in table(cells, right=(0,), elastic=range(1, len(cells[0])), room=columns()):
        say(line)


def _numbers(items: Sequence[Any], text: str) -> list[int]:
    """The positions of the items that fit a filter."""
    try:
        wanted = ItemFilter(text)
    except FilterError as problem:
        raise Stop(str(problem)) from None
    if wanted.asks_status:
        raise Stop(f"{text!r} asks for results of a run: `tui-evals show last --only {shlex.quote(text)}` lists those")
    return wanted.numbers([searched_item(item) for item in items])


def _row(item: Any, number: int) -> list[str]:
    about = _summary(item, number)
    turns = "" if about["turns"] is None else str(about["turns"])
    tags = ",".join(map(str, about["tags"]))
    return [str(number + 1), item_name(item), about["category"] or "", tags, turns, (about["prompt"] or "")[:_LONGEST]]


def _summary(item: Any, number: int) -> dict[str, Any]:
    """An item in short; its prompt is that of its first turn."""
    unit = item if isinstance(item, dict) else {}
    turns = unit.get("turns") if isinstance(unit.get("turns"), list) else None
    first = turns[0] if turns and isinstance(turns[0], dict) else unit
    texts = {name: unit.get(name) for name in ("testId", "name", "category")}
    return {
        "item": number + 1,
        **{name: text if isinstance(text, str) else None for name, text in texts.items()},
        "tags": tags if isinstance(tags := unit.get("tags"), list) else [],
        "turns": None if turns is None else len(turns),
        "prompt": prompt if isinstance(prompt := first.get("prompt"), str) else None,
    }


def show_item(file: Path, word: str, field: str | None, as_json: bool) -> None:
    """An item whole, or the value of one field of it."""
    data = _read(file)
    try:
        number = find_item(data["items"], word)
        place: Place = ("items", number)
        value = get_at(data, place) if field is None else value_of(data, place, field_names(field))
    except CannotEdit as problem:
        raise Stop(f"{file}: {problem}") from None
    if as_json:
        say_json(value)
    elif field is not None:
        say_data(f"{value if isinstance(value, str) else pretty(value)}\n")
    else:
        say(item_in_words(data["items"], number), bold=True)
        _show_fields(value, "")


def _show_fields(unit: Any, indent: str) -> None:
    """The fields of an item or turn, a line for each, texts of several lines below their name."""
    for name, value in unit.items() if isinstance(unit, dict) else ():
        if name == "turns" and isinstance(value, list):
            for number, turn in enumerate(value):
                say(f"{indent}turn {number + 1}", bold=True)
                _show_fields(turn, f"{indent}  ")
            continue
        text = value if isinstance(value, str) else pretty(value)
        lines = text.split("\n")
        say(f"{indent}{name}: {lines[0]}" if len(lines) == 1 else f"{indent}{name}:")
        for line in lines if len(lines) > 1 else ():
            say(f"{indent}  {line}")


def _read(file: Path) -> Data:
    """The data of a file that has a list of items."""
    try:
        data = load(file).data
        items_of(data)
        return data
    except DatasetError as problem:
        raise Stop(str(problem)) from None
    except CannotEdit as problem:
        raise Stop(f"{file}: {problem}") from None


def undo_command(file: Path) -> str:
    """The command line that takes the last edit back."""
    return f"tui-evals dataset undo {shlex.quote(str(file))}"


def undo(file: Path, back: bool, force: bool, as_json: bool) -> None:
    """Take back what the last command did to a dataset, or do again what was taken back."""
    try:
        step = (history.undo if back else history.redo)(file, force=force)
        rest = history.history_of(file)
    except (history.CannotUndo, CannotSave) as problem:
        raise Stop(str(problem)) from None
    left = rest.done if back else len(rest.steps) - rest.done
    if as_json:
        say_json({"file": str(file), "what": step.what, "undone": back, "left": left})
        return
    say(f"{'undone' if back else 'redone'}: {step.what}", fg="green")
    if back:
        say(f"`tui-evals dataset redo {shlex.quote(str(file))}` does it again")
    else:
        say(f"`{undo_command(file)}` undoes it")


def show_history(file: Path, as_json: bool) -> None:
    """What commands did to a dataset, the newest last."""
    try:
        known = history.history_of(file)
    except history.CannotUndo as problem:
        raise Stop(str(problem)) from None
    if as_json:
        steps = [
            {"what": step.what, "time": step.time, "undone": number >= known.done}
            for number, step in enumerate(known.steps)
        ]
        say_json({"file": str(file), "kept_in": str(known.folder), "steps": steps})
        return
    if not known.steps:
        say(f"no command has changed {file}; undo edits of the workbench there, with u")
        return
    for number, step in enumerate(known.steps):
        when = datetime.fromtimestamp(step.time).isoformat(" ", "seconds")
        say(f"{when}  {step.what}{'' if number < known.done else '  (undone)'}")
