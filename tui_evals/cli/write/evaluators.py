"""`evaluators set` and `rm`: who judges a dataset, an item or a turn, with which options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from tui_evals.cli.output import Stop, warn
from tui_evals.cli.write.items import assignments_of, edited, registry_of, say_edit
from tui_evals.datasets import steps
from tui_evals.datasets.fields import Assignment
from tui_evals.datasets.file_edit import Change, FileEdit
from tui_evals.datasets.item_names import find_items, items_in_words
from tui_evals.datasets.paths import CannotEdit, Data, get_at, unit_at
from tui_evals.datasets.paths import Path as Place
from tui_evals.datasets.resolve import SYSTEM_DEFAULTS
from tui_evals.datasets.steps import DEFAULTS
from tui_evals.evaluators.registry import Registry, UnknownEvaluator
from tui_evals.runs.readiness import Option, option_kind, options_of, without_none
from tui_evals.text import strictjson

Mode = Literal["extend", "replace"]
_YES = {"yes": True, "true": True, "no": False, "false": False}


def set_evaluator(
    file: Path,
    name: str | None,
    words: Sequence[str],
    *,
    unset: Sequence[str],
    item: str | None,
    turn: int | None,
    mode: Mode | None,
    force: bool,
    as_json: bool,
) -> None:
    """Set options of an evaluator, or whether a place adds to the defaults."""
    given = assignments_of(words)
    if name is None and (mode is None or given or unset):
        raise Stop("name the evaluator: `tui-evals evaluators` lists all")
    if mode is not None and item is None:
        raise Stop(
            "the dataset's evaluators apply to all items; only an item or turn extends or replaces them: add --item"
        )
    if nested := next((one for one in given if len(one.names) > 1), None):
        raise Stop(f"{nested.field}: an option is set whole; give what is inside it as JSON: {nested.names[0]}:=…")
    registry = registry_of(file)

    def edit(data: Data) -> Change:
        places, called = _places(data, item, turn)
        for place in places:
            options = None if name is None else _options(data, place, name, given, unset, registry)
            if mode is not None and steps.replaces_defaults(data, place) is not (mode == "replace"):
                data = steps.toggle_mode(data, place)
            if name is not None and options is not None:
                data = steps.write_options(data, place, name, options)
        what = " ".join(filter(None, (name, ", ".join(one.field for one in given), mode and f"--mode {mode}")))
        return Change(data, f"evaluators set {what}{called and f' on {called}'}")

    done = edited(file, edit, force=force)
    _, called = _places(done.after, item, turn)
    text = f"{name} judges {called or 'the dataset'} now" if name is not None else ""
    if mode is not None:
        text = "; ".join(filter(None, (text, f"{called} {mode}s the dataset's evaluators")))
    say_edit(file, done, text, as_json, evaluator=name, item=item, turn=turn)
    if not as_json:
        _say_explicit(file, done, item)


def remove_evaluator(file: Path, name: str, *, item: str | None, turn: int | None, force: bool, as_json: bool) -> None:
    """Take an evaluator away where it is written."""

    def edit(data: Data) -> Change:
        places, called = _places(data, item, turn)
        for place in places:
            data = steps.remove_evaluator(data, place, name)
        return Change(data, f"evaluators rm {name}{called and f' on {called}'}")

    done = edited(file, edit, force=force)
    _, called = _places(done.after, item, turn)
    inherits = item is not None and name in _written(done.after, DEFAULTS)
    more = "; that of the dataset judges again" if inherits else ""
    say_edit(
        file,
        done,
        f"{name} was removed from {called or 'the dataset'}{more}",
        as_json,
        evaluator=name,
        item=item,
        turn=turn,
    )
    if not as_json:
        _say_explicit(file, done, item)


def _say_explicit(file: Path, done: FileEdit, item: str | None) -> None:
    """Say that the system defaults, which hold where a dataset names none, are in the file from now on."""
    if item is None and done.changed and get_at(done.before, DEFAULTS) is None:
        defaults = " and ".join(SYSTEM_DEFAULTS)
        names = ", ".join(_written(done.after, DEFAULTS)) or "none"
        warn(
            f"note: {file} named no evaluators, so that the system defaults {defaults} judged; from now on those that "
            f"it names do: {names}"
        )


def _places(data: Data, item: str | None, turn: int | None) -> tuple[list[Place], str]:
    """Where an edit goes, and how these places are called; nothing for the dataset."""
    if item is None:
        if turn is not None:
            raise CannotEdit("--turn is a turn of an item; name it with --item")
        return [DEFAULTS], ""
    items = steps.items_of(data)
    numbers = find_items(items, item)
    called = items_in_words(items, numbers)
    if turn is None:
        talks = [number for number in numbers if "turns" in unit_at(data, ("items", number))]
        if talks:
            talk = items_in_words(items, talks[:1])
            raise CannotEdit(f"{talk} is a conversation, whose turns have evaluators; name one with --turn")
        return [("items", number) for number in numbers], called
    for number in numbers:
        turns = unit_at(data, ("items", number)).get("turns")
        if not isinstance(turns, list) or turn > len(turns):
            count = f"{len(turns)} turns" if isinstance(turns, list) else "no turns"
            raise CannotEdit(f"{items_in_words(items, [number])} has {count}; there is no turn {turn}")
    return [("items", number, "turns", turn - 1) for number in numbers], f"turn {turn} of {called}"


def _options(
    data: Data, place: Place, name: str, given: Sequence[Assignment], unset: Sequence[str], registry: Registry
) -> dict[str, Any]:
    """The options of an evaluator at a place once those that are given took the place of those it has there."""
    options = dict(_inherited(data, place, name))
    label = next((one.text for one in given if one.field == "type"), options.get("type", name))
    try:
        kind = registry.find(label if isinstance(label, str) else name)
    except UnknownEvaluator as problem:
        raise CannotEdit(str(problem)) from None
    by_spelling = {spelling: option for option in options_of(kind) for spelling in option.spellings}
    for one in given:
        option = by_spelling.get(one.field)
        known = next((spelling for spelling in option.spellings if spelling in options), None) if option else None
        options[known or one.field] = _value(one, option)
    for field in unset:
        if field not in options:
            raise CannotEdit(f"{name} has no option '{field}' here; it has {', '.join(options) or 'none'}")
        del options[field]
    return options


def _inherited(data: Data, place: Place, name: str) -> Mapping[str, Any]:
    """The options of an evaluator at a place, inherited ones included."""
    own = {} if place == DEFAULTS else _written(data, (*place, "evaluators"))
    if name not in own and place != DEFAULTS and steps.replaces_defaults(data, place):
        return {}
    options = {**_written(data, DEFAULTS), **own}.get(name, {})
    return options if isinstance(options, dict) else {}


def _written(data: Data, path: Place) -> Mapping[str, Any]:
    evaluators = get_at(data, path)
    if evaluators is None and path == DEFAULTS:
        return SYSTEM_DEFAULTS
    return evaluators if isinstance(evaluators, dict) else {}


def _value(given: Assignment, option: Option | None) -> Any:
    """The value of an option as its type has it; text that does not fit is left for validation to name."""
    text = given.text
    if given.is_json:
        try:
            return strictjson.loads(text)
        except strictjson.JsonError as problem:
            raise CannotEdit(f"{given.field}: {problem}") from None
    if option is None:
        return text
    plain = without_none(option.field.annotation)
    kind, _ = option_kind(plain)
    if kind == "yes":
        return _YES.get(text.strip().lower(), text)
    is_list = get_origin(plain) in (list, tuple)
    may_be_text = str in get_args(plain) and not is_list and not text.lstrip().startswith(("[", "{"))
    if kind in ("text", "choice") or may_be_text:
        return text
    try:
        return strictjson.loads(text)
    except strictjson.JsonError:
        return [part.strip() for part in text.split(",")] if is_list else text
