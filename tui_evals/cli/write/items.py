"""`tui-evals item` and `dataset`: lists, edits that are checked before they are written, history, undo and redo."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from tui_evals.cli import inputs
from tui_evals.cli.output import Stop, columns, say, say_data, say_json, warn
from tui_evals.datasets import history, steps
from tui_evals.datasets.attachments import attachment_problems
from tui_evals.datasets.document import Document, load
from tui_evals.datasets.fields import Assignment, assign, field_names, parse_assignment, pretty, value_of
from tui_evals.datasets.file_edit import Change, Checks, FileEdit, Refused, edit_file
from tui_evals.datasets.item_names import find_item, find_items, item_in_words, item_name, items_in_words
from tui_evals.datasets.paths import CannotEdit, Data, DatasetError, Problem, get_at, place_in_words, unit_at
from tui_evals.datasets.paths import Path as Place
from tui_evals.datasets.prompts import prompt_of
from tui_evals.datasets.save import ChangedOnDisk
from tui_evals.datasets.steps import items_of
from tui_evals.datasets.validate import ValidationReport, validate
from tui_evals.evaluators.registry import Registry
from tui_evals.files import CannotSave
from tui_evals.light_records import dataclass
from tui_evals.present.columns import table
from tui_evals.runs.prompting import unfilled_items
from tui_evals.runs.readiness import own_code_problems
from tui_evals.runs.selection import ItemFilter, searched_item
from tui_evals.store.filters import FilterError
from tui_evals.text import strictjson

_LONGEST = 200


def list_items(file: Path, words: Sequence[str], as_json: bool) -> None:
    """List the items of a dataset, or those that match a filter."""
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
    """Undo the last edit of a dataset, or redo the last undone one."""
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
    """Print the history of a dataset, the newest last."""
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


_LARGEST = 2**26
_SHOWN = 3


def edited(file: Path, edit: Callable[[Data], Change], *, force: bool, new: bool = False) -> FileEdit:
    """Make an edit and write it, or end the command with why not."""
    try:
        return edit_file(file, edit, _checks(), force=force, new=new)
    except CannotEdit as problem:
        raise Stop(f"{file}: {problem}; nothing was written") from None
    except (Refused, DatasetError, CannotSave, ChangedOnDisk, history.CannotUndo) as problem:
        raise Stop(str(problem)) from None


def _checks() -> Checks:
    """The checks for an edit; evaluators are found once per command."""
    found = cache(lambda prompt: inputs.evaluators(prompt=prompt))

    def check(document: Document) -> ValidationReport:
        registry: Registry = found(_prompt_of(document))
        report = validate(document, registry.catalogue, registry.own)
        if report.dataset is None:
            return report
        return report.with_problems([*own_code_problems(document, registry), *attachment_problems(document)])

    return Checks(check, unfilled_items)


def registry_of(file: Path) -> Registry:
    """The evaluators the dataset of a file may name, those next to its prompt under test among them."""
    return inputs.evaluators(prompt=_prompt_of(inputs.read(file)))


def _prompt_of(document: Document) -> Path | None:
    try:
        return prompt_of(document)
    except DatasetError:  # that the prompt cannot be used is found in the dataset itself
        return None


def say_edit(file: Path, done: FileEdit, text: str, as_json: bool, **more: Any) -> None:
    """Print what an edit did, and the remaining problems of the file."""
    if as_json:
        problems = [{"place": place_in_words(one.path), "message": one.message} for one in done.standing]
        backup = None if done.backup is None else str(done.backup)
        say_json({"file": str(file), "changed": done.changed, **more, "backup": backup, "problems": problems})
        return
    if not done.changed:
        say(f"{file} is that way already; nothing was written")
        return
    say(text, fg="green")
    if done.backup is not None:
        say(f"the older shape is kept as {done.backup}")
    for problem in done.warnings:
        warn(f"note: {_sentence(problem)}")
    if done.standing:
        count = len(done.standing)
        warn(f"note: {file} is not valid, as it was before: {count} problem{'s' * (count != 1)}")
        for problem in done.standing[:_SHOWN]:
            warn(f"  {_sentence(problem)}")
        if count > _SHOWN:
            warn(f"  and {count - _SHOWN} more; `tui-evals validate {shlex.quote(str(file))}` says all")


def _sentence(problem: Problem) -> str:
    return f"{place_in_words(problem.path)}: {problem.message}"


def assignments_of(words: Sequence[str]) -> list[Assignment]:
    """The assignments in arguments; `-` means standard input, `@FILE` the content of a file, `@@` @ itself."""
    assignments = []
    for word in words:
        try:
            one = parse_assignment(word)
        except CannotEdit as problem:
            raise Stop(str(problem)) from None
        assignments.append(Assignment(one.names, _text_of(one.text), one.is_json))
    if sum(parse_assignment(word).text == "-" for word in words) > 1:
        raise Stop("only one value can be read from standard input; give the other as FIELD=@FILE")
    return assignments


def _text_of(text: str) -> str:
    if text.startswith("@@"):
        return text[1:]
    if text != "-" and not text.startswith("@"):
        return text
    return text_from("-" if text == "-" else text[1:]).removesuffix("\n").removesuffix("\r")


def text_from(name: str) -> str:
    """The text of a file, or of standard input for `-`."""
    called = "standard input" if name == "-" else name
    if name == "-" and sys.stdin is None:
        raise Stop("standard input is closed; give the value as FIELD=@FILE")
    try:
        if name == "-":
            raw = getattr(sys.stdin, "buffer", sys.stdin).read(_LARGEST + 1)
        else:
            with open(name, "rb") as stream:
                raw = stream.read(_LARGEST + 1)
    except OSError as problem:
        hint = "; a text that begins with @ is written with @@" if name != "-" else ""
        raise Stop(f"{called} cannot be read: {problem.strerror}{hint}") from None
    if len(raw) > _LARGEST:
        raise Stop(f"{called} is larger than {_LARGEST // 2**20} MiB, too large for a value")
    if isinstance(raw, str):
        return raw
    try:
        return str(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as problem:
        line = raw.count(b"\n", 0, problem.start) + 1
        raise Stop(f"{called}:{line}: is not UTF-8 text; save it as UTF-8") from None


@dataclass(frozen=True, slots=True)
class Where:
    """The dataset of a command, and how to write and report it."""

    file: Path
    force: bool = False
    as_json: bool = False


def add(
    where: Where, words: Sequence[str], *, after: str | None, source: str | None, turn_of: str | None, new: bool
) -> None:
    """Add an item made of fields, items of a JSON file, or a turn of a conversation."""
    given = assignments_of(words)
    if not given and source is None:
        raise Stop("say what to add: prompt=TEXT and other fields, or --from FILE.json")
    units = [{}] if source is None else _units_of(source, single=turn_of is not None)
    if given and len(units) > 1:
        raise Stop(f"{source} holds {len(units)} items; fields with --from need a single item")
    if turn_of is not None:
        _add_turn(where, turn_of, units[0], given, after)
        return

    def edit(data: Data) -> Change:
        items = items_of(data)
        place = len(items) if after is None else 0 if after == "0" else find_item(items, after) + 1
        for number, unit in enumerate(units):
            data = steps.insert_item(data, place + number, unit)
            data = assign(data, ("items", place + number), given)
        added = range(place, place + len(units))
        return Change(data, f"item add {_called(items_of(data), added)}", added)

    done = edited(where.file, edit, force=where.force, new=new)
    items = items_of(done.after)
    text = f"added {items_in_words(items, done.items)} to {where.file}, which has {len(items)} now"
    say_edit(where.file, done, text, where.as_json, **_told(items, done.items))


def _add_turn(where: Where, word: str, unit: Data, given: list[Assignment], after: str | None) -> None:
    def edit(data: Data) -> Change:
        number = find_item(items_of(data), word)
        if "turns" not in unit_at(data, ("items", number)):
            data = steps.to_conversation(data, number)
        turns = data["items"][number]["turns"]
        place = len(turns) if after is None else _number(after, len(turns), "turn", least=0)
        data = steps.insert_turn(data, number, place, unit)
        data = assign(data, ("items", number, "turns", place), given)
        return Change(data, f"item add turn {place + 1} to {_called(items_of(data), [number])}", [number])

    done = edited(where.file, edit, force=where.force)
    items = items_of(done.after)
    (number,) = done.items
    count = len(items[number]["turns"])
    text = f"added a turn to {item_in_words(items, number)}, which has {count} now"
    say_edit(where.file, done, text, where.as_json, **_told(items, done.items), turns=count)


def _units_of(source: str, single: bool) -> list[Data]:
    """The items, or the one turn, that a JSON file holds."""
    called = "standard input" if source == "-" else source
    try:
        value = strictjson.loads(text_from(source))
    except strictjson.JsonError as problem:
        place = f":{problem.line}" if problem.line else ""
        raise Stop(f"{called}{place}: {problem}") from None
    if isinstance(value, dict) and isinstance(value.get("items"), list):
        value = value["items"]
    given = value if isinstance(value, list) else [value]
    units = [unit for unit in given if isinstance(unit, dict)]
    if not units or len(units) < len(given):
        raise Stop(f"{called} holds no item: it must be a JSON object with fields such as prompt, or a list of them")
    if single and len(units) != 1:
        raise Stop(f"{called} holds {len(units)} objects; a turn is one")
    return units


def set_fields(where: Where, word: str, words: Sequence[str], unset: Sequence[str]) -> None:
    """Set fields of items, or take them away."""
    given, gone = _given(words, unset)

    def change(data: Data, numbers: Sequence[int]) -> Data:
        for number in numbers:
            data = assign(data, ("items", number), given, gone)
        return data

    fields = _fields_in_words(given, gone)
    _on_items(where, word, change, "set", lambda items: f"{items}: {_set_in_words(given, gone)}", f" {fields}")


def set_dataset(where: Where, words: Sequence[str], unset: Sequence[str]) -> None:
    """Set fields of the dataset itself, or take them away."""
    given, gone = _given(words, unset)
    fields = _fields_in_words(given, gone)
    done = edited(
        where.file, lambda data: Change(assign(data, (), given, gone), f"dataset set {fields}"), force=where.force
    )
    say_edit(where.file, done, f"{where.file}: {_set_in_words(given, gone)}", where.as_json)


def _given(words: Sequence[str], unset: Sequence[str]) -> tuple[list[Assignment], list[tuple[str, ...]]]:
    given = assignments_of(words)
    if not given and not unset:
        raise Stop("say what to set: FIELD=VALUE, FIELD:=JSON or --unset FIELD")
    try:
        return given, [field_names(field) for field in unset]
    except CannotEdit as problem:
        raise Stop(str(problem)) from None


def _fields_in_words(given: Sequence[Assignment], gone: Sequence[tuple[str, ...]]) -> str:
    return ", ".join(dict.fromkeys([*(one.field for one in given), *map(".".join, gone)]))


def _set_in_words(given: Sequence[Assignment], gone: Sequence[tuple[str, ...]]) -> str:
    words = ((_fields_in_words(given, ()), "set"), (_fields_in_words((), gone), "removed"))
    return ", ".join(f"{fields} {word}" for fields, word in words if fields)


def copy(where: Where, word: str, turn: int | None) -> None:
    """Put a copy after each of the items, or after a turn."""
    if turn is not None:
        _on_turn(where, word, turn, steps.duplicate_turn, "copied", "copy")
        return

    def edit(data: Data) -> Change:
        numbers = find_items(items_of(data), word)
        copies = [number + place + 1 for place, number in enumerate(numbers)]
        return Change(steps.duplicate_items(data, numbers), f"item copy {_called(items_of(data), numbers)}", copies)

    done = edited(where.file, edit, force=where.force)
    items = items_of(done.after)
    text = f"added {items_in_words(items, done.items)}"
    say_edit(where.file, done, text, where.as_json, **_told(items, done.items))


def remove(where: Where, word: str, turn: int | None) -> None:
    """Take items away, or a turn of one."""
    if turn is not None:
        _on_turn(where, word, turn, steps.remove_turn, "removed", "rm")
        return
    _on_items(where, word, steps.remove_items, "rm", lambda items: f"removed {items}")


def move(where: Where, word: str, to: str, turn: int | None) -> None:
    """Move items to a place, or a turn within its conversation."""
    if turn is not None:
        _on_turn(where, word, turn, lambda data, item, at: _move_turn(data, item, at, to), "moved", "move", f" to {to}")
        return

    def edit(data: Data) -> Change:
        items = items_of(data)
        numbers = find_items(items, word)
        place = min(_number(to, len(items), "place") - 1, len(items) - len(numbers))
        moved = range(place, place + len(numbers))
        what = f"item move {_called(items, numbers)} to {place + 1}"
        return Change(steps.place_items(data, numbers, place), what, moved)

    done = edited(where.file, edit, force=where.force)
    items = items_of(done.after)
    text = f"moved to place {done.items[0] + 1}: {items_in_words(items, done.items)}"
    say_edit(where.file, done, text, where.as_json, **_told(items, done.items))


def _move_turn(data: Data, item: int, turn: int, to: str) -> Data:
    turns = get_at(data, ("items", item, "turns"))
    count = len(turns) if isinstance(turns, list) else 0
    return steps.move_turn(data, item, turn, _number(to, count, "place") - 1 - turn)


def tag(where: Where, word: str, tags: Sequence[str]) -> None:
    """Give items tags, and take away those with a minus in front."""
    names = [name for one in tags for name in map(str.strip, one.split(",")) if name]
    gone = [name[1:] for name in names if name.startswith("-")]
    new = [name for name in names if not name.startswith("-")]
    if not names:
        raise Stop("name the tags, with a minus before those to remove, as in smoke,-old")
    says = ", ".join([*(f"tagged {name}" for name in new), *(f"no longer {name}" for name in gone)])
    _on_items(
        where,
        word,
        lambda data, numbers: steps.tag_items(data, numbers, new, gone),
        "tag",
        lambda items: f"{items}: {says}",
        f" {','.join(names)}",
    )


def conversation(where: Where, word: str, back: bool) -> None:
    """Make a single prompt a conversation of one turn, or the other way round."""
    step, words = (steps.to_single, "a single prompt") if back else (steps.to_conversation, "a conversation")

    def change(data: Data, numbers: Sequence[int]) -> Data:
        for number in numbers:
            data = step(data, number)
        return data

    what = "conversation --back" if back else "conversation"
    _on_items(where, word, change, what, lambda items: f"{items}: {words} now")


def _on_items(
    where: Where,
    word: str,
    change: Callable[[Data, Sequence[int]], Data],
    what: str,
    says: Callable[[str], str],
    more: str = "",
) -> None:
    """Change the items that a word names, and say so."""

    def edit(data: Data) -> Change:
        found = find_items(items_of(data), word)
        return Change(change(data, found), f"item {what} {_called(items_of(data), found)}{more}", found)

    done = edited(where.file, edit, force=where.force)
    items = items_of(done.before)
    undo = f"; `{undo_command(where.file)}` brings {'it' if len(done.items) == 1 else 'them'} back"
    text = says(items_in_words(items, done.items)) + (undo if what == "rm" else "")
    say_edit(where.file, done, text, where.as_json, **_told(items, done.items))


def _on_turn(
    where: Where, word: str, turn: int, change: Callable[[Data, int, int], Data], did: str, what: str, more: str = ""
) -> None:
    """Change one turn of the item that a word names, and say so."""

    def edit(data: Data) -> Change:
        number = find_item(items_of(data), word)
        turns = get_at(data, ("items", number, "turns"))
        at = _number(str(turn), len(turns), "turn") if isinstance(turns, list) else turn
        called = f"item {what} turn {turn} of {_called(items_of(data), [number])}{more}"
        return Change(change(data, number, at - 1), called, [number])

    done = edited(where.file, edit, force=where.force)
    items = items_of(done.before)
    text = f"{did} turn {turn} of {items_in_words(items, done.items)}{more}"
    say_edit(where.file, done, text, where.as_json, **_told(items, done.items), turn=turn)


def _number(word: str, count: int, what: str, least: int = 1) -> int:
    """A number counted by the user, at most `count`; `last` is `count`."""
    number = count if word == "last" else int(word) if word.isdecimal() and len(word) < 10 else -1
    if not least <= number <= count:
        raise CannotEdit(f"there is no {what} {word!r}; there are {least} to {count}")
    return number


def _called(items: Sequence[Any], numbers: Sequence[int]) -> str:
    """Items without the word before them: `3 (T-3)`, or `1,4-9`."""
    return items_in_words(items, numbers).partition(" ")[2]


def _told(items: Sequence[Any], numbers: Sequence[int]) -> dict[str, Any]:
    """The items that a command was about, as data."""
    return {"items": [{"item": number + 1, "name": item_name(items[number]) or None} for number in numbers]}
