"""The edits of a dataset as functions from data to new data: evaluators, items, turns and fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

from tui_evals.datasets.paths import (
    MAX_TURNS,
    CannotEdit,
    Data,
    Path,
    get_at,
    path_text,
    remove_at,
    same_data,
    set_at,
    unit_at,
    with_field,
)
from tui_evals.datasets.resolve import SYSTEM_DEFAULTS
from tui_evals.text.names import did_you_mean

DEFAULTS: Path = ("default_evaluators",)


def add_evaluator(data: Data, where: Path, key: str, options: Mapping[str, Any]) -> Data:
    """Add an evaluator; the first one of a dataset is written together with the system defaults it would replace."""
    own = _written_evaluators(data, where)
    if key in own:
        raise CannotEdit(f"'{key}' is here already; give a second one a name of its own, with its evaluator as type")
    return set_at(data, _evaluators_path(where), {**own, key: dict(options)})


def override_evaluator(data: Data, unit_path: Path, key: str, options: Mapping[str, Any]) -> Data:
    """Write an inherited evaluator out on an item or turn, so that it can be changed there."""
    return data if key in _written_evaluators(data, unit_path) else add_evaluator(data, unit_path, key, options)


def remove_evaluator(data: Data, where: Path, key: str) -> Data:
    """Remove an evaluator that is set at `where`; an inherited one can only be replaced."""
    own = _written_evaluators(data, where)
    if key not in own:
        hint = "" if where == DEFAULTS else ". To judge without inherited evaluators, switch to replace"
        raise CannotEdit(f"'{key}' is not written on {_unit_word(where)}{did_you_mean(key, own)}{hint}")
    rest = {name: options for name, options in own.items() if name != key}
    if rest or where == DEFAULTS or replaces_defaults(data, where):
        return set_at(data, _evaluators_path(where), rest)
    return _without_evaluators(data, where)


def write_options(data: Data, where: Path, key: str, options: Mapping[str, Any]) -> Data:
    """Set an evaluator with these options at `where`, even if it was inherited until now."""
    if where == DEFAULTS and get_at(data, DEFAULTS) is None:
        data = set_at(data, DEFAULTS, {name: dict(defaults) for name, defaults in SYSTEM_DEFAULTS.items()})
    return set_at(override_evaluator(data, where, key, options), (*_evaluators_path(where), key), dict(options))


def toggle_mode(data: Data, unit_path: Path) -> Data:
    """Switch between extending and replacing the defaults; fields that then have no effect are removed."""
    own = _written_evaluators(data, unit_path)
    if replaces_defaults(data, unit_path):
        return remove_at(data, (*unit_path, "evaluators_mode")) if own else _without_evaluators(data, unit_path)
    return set_at(set_at(data, _evaluators_path(unit_path), own), (*unit_path, "evaluators_mode"), "replace")


def _evaluators_path(where: Path) -> Path:
    return where if where == DEFAULTS else (*where, "evaluators")


def _written_evaluators(data: Data, where: Path) -> Data:
    """The evaluators written at a path; for a dataset without any, the system defaults."""
    if where != DEFAULTS and "turns" in unit_at(data, where):
        raise CannotEdit("the evaluators of a conversation belong to its turns; choose the turn")
    own = get_at(data, _evaluators_path(where))
    if own is None:
        return {key: dict(options) for key, options in SYSTEM_DEFAULTS.items()} if where == DEFAULTS else {}
    if not isinstance(own, dict):
        raise CannotEdit(f"{path_text(_evaluators_path(where))} is not an object. Fix it in the file")
    return own


def replaces_defaults(data: Data, path: Path) -> bool:
    """Whether only its own evaluators judge a unit."""
    unit = unit_at(data, path)
    return "evaluators" in unit and unit.get("evaluators_mode") == "replace"


def _without_evaluators(data: Data, path: Path) -> Data:
    return remove_at(remove_at(data, (*path, "evaluators")), (*path, "evaluators_mode"))


def _unit_word(where: Path) -> str:
    return "the dataset" if where == DEFAULTS else "the turn" if "turns" in where else "the item"


_RESULT_FIELDS = frozenset(
    {"response", "scores", "status", "error", "diagnostics", "citations", "summary", "conversation_id"}
)
_COPY_SUFFIX = re.compile(r"-copy\d*$")


def new_item() -> Data:
    """An item to start from; its prompt is empty: the dataset gets no text that you did not write."""
    return {"prompt": ""}


def insert_item(data: Data, position: int, item: Data) -> Data:
    """Insert an item; a position past the end means the end."""
    items = items_of(data)
    index = min(max(position, 0), len(items))
    return set_at(data, ("items",), [*items[:index], item, *items[index:]])


def remove_items(data: Data, positions: Iterable[int]) -> Data:
    """Remove items, but not all of them."""
    items = items_of(data)
    removed = _check_positions(items, positions)
    if len(removed) == len(items):
        raise CannotEdit("a dataset needs at least one item; add another before you delete the last")
    return _with_items(data, items, [item for index, item in enumerate(items) if index not in removed])


def move_items(data: Data, positions: Iterable[int], by: int) -> Data:
    """Move items together, at most to the first or last position."""
    items = items_of(data)
    return _with_items(data, items, _move_entries(items, _check_positions(items, positions), by))


def place_items(data: Data, positions: Iterable[int], place: int) -> Data:
    """Put items one after another, the first of them at `place`."""
    items = items_of(data)
    selected = _check_positions(items, positions)
    rest = [item for index, item in enumerate(items) if index not in selected]
    chosen = [item for index, item in enumerate(items) if index in selected]
    return _with_items(data, items, [*rest[:place], *chosen, *rest[place:]])


def tag_items(data: Data, positions: Iterable[int], add: Sequence[str], remove: Sequence[str] = ()) -> Data:
    """Give items tags and take others away; each keeps the rest of its own."""

    def tagged(unit: Data) -> list[str] | None:
        kept = [tag for tag in unit.get("tags") or () if tag not in remove]
        return [*dict.fromkeys([*kept, *add])] or None

    for position in (chosen := [*positions]):
        item_tags(get_at(data, ("items", position)), position)
    return set_on_items(data, chosen, "tags", tagged)


def item_tags(item: object, position: int) -> list[str]:
    """The tags of an item; CannotEdit where they are no list of texts."""
    tags = item.get("tags") if isinstance(item, dict) else None
    if tags is not None and not (isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)):
        raise CannotEdit(f"the tags of item {position + 1} are not a list of texts. Fix them first")
    return tags or []


def set_on_items(data: Data, positions: Iterable[int], name: str, value_of: Callable[[Data], Any]) -> Data:
    """Set a field of several items to the results of a function; None removes it."""
    items = items_of(data)
    changed = list(items)
    for position in positions:
        unit = unit_at(data, ("items", position))
        value = value_of(unit)
        if value is None:
            changed[position] = {field: kept for field, kept in unit.items() if field != name}
        else:
            changed[position] = with_field(unit, name, value)
    return _with_items(data, items, changed)


def duplicate_items(data: Data, positions: Iterable[int], test_ids: Container[str] | None = None) -> Data:
    """Put a copy after each of the items, with a testId of its own and without results of runs.

    `test_ids` are those of all items, where the caller has them: collecting thousands takes longest here.
    """
    items = items_of(data)
    selected = _check_positions(items, positions)
    taken = [_test_ids(items) if test_ids is None else test_ids, given := set[str]()]
    result: list[Any] = []
    copied = 0
    for index in sorted(selected):
        result += items[copied : index + 1]
        copy = _without_results(unit_at(data, ("items", index)))
        if isinstance(name := copy.get("testId"), str):
            copy["testId"] = _fresh_test_id(name, taken)
            given.add(copy["testId"])
        result.append(copy)
        copied = index + 1
    result += items[copied:]
    return _with_items(data, items, result)


def insert_turn(data: Data, item: int, index: int, turn: Data) -> Data:
    """Insert a turn in a conversation; a position past the end means the end."""
    turns = _turns(data, item)
    if len(turns) >= MAX_TURNS:
        raise CannotEdit(f"a conversation has at most {MAX_TURNS:,} turns; delete one first, or begin another item")
    index = min(max(index, 0), len(turns))
    return set_at(data, ("items", item, "turns"), [*turns[:index], turn, *turns[index:]])


def remove_turn(data: Data, item: int, index: int) -> Data:
    """Remove a turn of a conversation, but not the only one."""
    turns = _turns(data, item)
    _check_positions(turns, [index], "turn")
    if len(turns) == 1:
        raise CannotEdit("a conversation needs at least one turn; delete the item, or make it a single prompt")
    return remove_at(data, ("items", item, "turns", index))


def move_turn(data: Data, item: int, index: int, by: int) -> Data:
    """Move a turn within its conversation, at most to its ends."""
    turns = _turns(data, item)
    moved = _move_entries(turns, _check_positions(turns, [index], "turn"), by)
    return data if _same_elements(turns, moved) else set_at(data, ("items", item, "turns"), moved)


def duplicate_turn(data: Data, item: int, index: int) -> Data:
    """Put a copy after a turn, without results of runs."""
    _check_positions(_turns(data, item), [index], "turn")
    return insert_turn(data, item, index + 1, _without_results(unit_at(data, ("items", item, "turns", index))))


def to_conversation(data: Data, item: int) -> Data:
    """Make a single prompt a conversation of one turn; fields about the item as a whole stay on it."""
    # Imported when needed, because a dataset is shown before it is edited.
    from .model import TURN_ONLY_FIELDS

    single = unit_at(data, ("items", item))
    if "turns" in single:
        raise CannotEdit("the item is a conversation already")
    if not isinstance(single.get("prompt"), str):
        raise CannotEdit("the item has no prompt, which a turn needs; write one first")
    turn = {name: value for name, value in single.items() if name in TURN_ONLY_FIELDS}
    rest = {name: value for name, value in single.items() if name not in TURN_ONLY_FIELDS}
    return set_at(data, ("items", item), with_field(rest, "turns", [turn]))


def to_single(data: Data, item: int) -> Data:
    """Make a conversation of one turn a single prompt; fields that both item and turn have are joined."""
    turns = _turns(data, item)
    if len(turns) > 1:
        lost_turns = f"the {len(turns) - 1} turns after the first" if len(turns) > 2 else "the turn after the first"
        raise CannotEdit(f"a single prompt has room for one turn and {lost_turns} would be lost; delete them first")
    turn = unit_at(data, ("items", item, "turns", 0))
    single = {name: value for name, value in unit_at(data, ("items", item)).items() if name != "turns"}
    for name, value in turn.items():
        single = with_field(single, name, _join_field(name, single[name], value) if name in single else value)
    return set_at(data, ("items", item), single)


def set_field(data: Data, unit_path: Path, name: str, value: Any) -> Data:
    """Set a field of an item or turn; None or empty text removes it, except a required prompt, which stays empty."""
    from .model import TURN_ONLY_FIELDS, Item, Turn  # when needed, as above

    unit = unit_at(data, unit_path)
    if value is None or value == "":
        if name == "prompt" and not _can_do_without_prompt(data, unit_path, unit):
            return set_at(data, (*unit_path, name), "")
        changed = remove_at(data, (*unit_path, name))
        return remove_at(changed, (*unit_path, f"{name}_mode")) if name in ("evaluators", "allowed_tools") else changed
    if "turns" in unit and name in TURN_ONLY_FIELDS:
        raise CannotEdit(f"'{name}' belongs to the turns of a conversation; set it on the turn it is about")
    if len(unit_path) == 4 and name in Item.model_fields.keys() - Turn.model_fields.keys():
        raise CannotEdit(f"'{name}' belongs to the item as a whole; set it there")
    return set_at(data, (*unit_path, name), value)


def _can_do_without_prompt(data: Data, path: Path, unit: Data) -> bool:
    """Whether the dataset, the history or the turns of an item contain a question."""
    if len(path) != 2:
        return False
    return "turns" in unit or "messages" in unit or "messages" in data or "prompt_file" in data


def items_of(data: Data) -> list[Any]:
    """The items of a dataset; CannotEdit where it has no list of them."""
    items = data.get("items")
    if not isinstance(items, list):
        raise CannotEdit("the dataset has no list of items. Fix the file in an editor first")
    return items


def _turns(data: Data, item: int) -> list[Any]:
    turns = unit_at(data, ("items", item)).get("turns")
    if not isinstance(turns, list) or not turns:
        raise CannotEdit("the item is a single prompt; make it a conversation first")
    return turns


def _with_items(data: Data, before: list[Any], after: list[Any]) -> Data:
    return data if _same_elements(before, after) else set_at(data, ("items",), after)


def _same_elements(before: list[Any], after: list[Any]) -> bool:
    return len(before) == len(after) and all(a is b for a, b in zip(before, after, strict=True))


def _check_positions(entries: list[Any], positions: Iterable[int], word: str = "item") -> frozenset[int]:
    selected = frozenset(positions)
    if missing := [index for index in sorted(selected) if not 0 <= index < len(entries)]:
        raise CannotEdit(f"there is no {word} {missing[0]} any more; choose again")
    return selected


def _move_entries(entries: list[Any], selected: frozenset[int], by: int) -> list[Any]:
    if not selected:
        return entries
    by = min(max(by, -min(selected)), len(entries) - 1 - max(selected))
    rest = iter([entry for index, entry in enumerate(entries) if index not in selected])
    return [entries[index - by] if index - by in selected else next(rest) for index in range(len(entries))]


def _without_results(unit: Data) -> Data:
    copied = {name: value for name, value in unit.items() if name not in _RESULT_FIELDS}
    if isinstance(turns := copied.get("turns"), list):
        copied["turns"] = [_without_results(turn) if isinstance(turn, dict) else turn for turn in turns]
    return copied


def _test_ids(items: Iterable[Any]) -> frozenset[str]:
    names = (item.get("testId") for item in items if isinstance(item, dict))
    return frozenset(name for name in names if isinstance(name, str))


def _fresh_test_id(name: str, taken: Sequence[Container[str]]) -> str:
    base = _COPY_SUFFIX.sub("", name)
    number, candidate = 1, f"{base}-copy"
    while any(candidate in names for names in taken):
        number += 1
        candidate = f"{base}-copy{number}"
    return candidate


_JOINS: dict[str, Callable[[Any, Any], Any]] = {
    "messages": lambda mine, turn: [*mine, *turn],
    "tags": lambda mine, turn: [*mine, *(tag for tag in turn if tag not in mine)],
    "extensions": lambda mine, turn: {
        **mine,
        **{name: _join_field(name, mine[name], value) if name in mine else value for name, value in turn.items()},
    },
}


def _join_field(name: str, item_value: Any, turn_value: Any) -> Any:
    if same_data(item_value, turn_value) and name != "messages":
        return item_value
    if name in _JOINS and type(item_value) is type(turn_value) and isinstance(item_value, (list, dict)):
        return _JOINS[name](item_value, turn_value)
    raise CannotEdit(f"the item and its turn both have '{name}', with different values; keep one of them")
