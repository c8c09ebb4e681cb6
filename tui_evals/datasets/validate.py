"""Finds all problems of a dataset at once: errors for tui-evals, and reasons why runevals could not run it."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path as FilePath
from typing import Any, Literal

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tui_evals.datasets.matrix import matrix_problems
from tui_evals.datasets.merging import splice
from tui_evals.datasets.paths import CURRENT_VERSION, DatasetError, Path, Problem
from tui_evals.garbage import foreground
from tui_evals.light_records import dataclass
from tui_evals.text import strictjson
from tui_evals.text.names import did_you_mean

from . import portable
from .document import Document
from .model import TURN_ONLY_FIELDS, Dataset, Item, SimulatedUser, ToolResult, Turn
from .portable import PUBLIC, Catalogue
from .rows import field_meant
from .tools import result_problems, schema_problems, tool_problems

_RUNEVALS = "Microsoft's runevals"
_CONVERTED = "`tui-evals convert --to m365` writes a copy that it can read."
_TYPE_WORDS = {
    dict: "an object",
    list: "a list",
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
}


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """The result of validation; `portability` holds what only runevals would refuse."""

    dataset: Dataset | None
    problems: tuple[Problem, ...]
    portability: tuple[Problem, ...]

    def with_problems(self, problems: Iterable[Problem]) -> ValidationReport:
        """The report with problems that only other rooms can find."""
        joined = sorted((*self.problems, *problems), key=lambda problem: problem.line or 0)
        return replace(self, problems=tuple(joined))

    @property
    def valid(self) -> bool:
        """Whether the dataset can be run here."""
        return not any(problem.severity == "error" for problem in self.problems)

    @property
    def portable(self) -> bool:
        """Whether runevals would accept the file unchanged."""
        return self.valid and not self.portability

    @property
    def export_note(self) -> str:
        """Whether runevals can read the file, else the first reason and the command that writes a copy for it."""
        if self.portable:
            return f"{_RUNEVALS} can read this file."
        if not self.valid:
            return f"{_RUNEVALS} cannot read this file until its problems are fixed."
        first, more = self.portability[0], len(self.portability) - 1
        where, remedy = ("", f" {_CONVERTED}") if first.path else ("it ", "")
        return f"{_RUNEVALS} cannot read this file: {where}{first}{f' (+{more} more)' if more else ''}.{remedy}"


def validate(document: Document, catalogue: Catalogue, custom: Iterable[str] = ()) -> ValidationReport:
    """Check a document against the format and a catalogue of evaluator options; `custom` are the project's own."""
    return Checker().validate(document, catalogue, custom)


@dataclass(frozen=True, slots=True)
class _ItemCheck:
    """The problems of one item by itself; paths start at the item."""

    item: Item | None
    fields: tuple[Problem, ...]
    shape: tuple[Problem, ...]
    units: tuple[Problem, ...]
    schemas: tuple[Problem, ...]
    evaluators: tuple[Problem, ...]
    refused: tuple[Problem, ...]
    refused_evaluators: tuple[Problem, ...]
    test_id: str | None
    is_bare: bool = False
    """Whether it has variables only, and the dataset no prompt that they fill in."""


_Problems = tuple[Problem, ...]
_BeyondTypes = tuple[_Problems, _Problems, _Problems, _Problems, _Problems, _Problems]
"""The shape, units, schemas, evaluators, refused and refused_evaluators of a check."""
_STANDS_FOR_ALL = {"prompt": "an item"}
_TEXT_FIELDS = frozenset(("prompt", "expected_response", "context", "response", "testId", "category", "name"))
"""Text fields of an item, checked only for their type and for which of them it has."""


class Checker:
    """Validates a dataset again and again while it is edited, and of its items only those that changed."""

    def __init__(self) -> None:
        self._rules: tuple[object, ...] = ()
        self._items: list[Any] = []
        self._checks: list[_ItemCheck] = []
        self._alike: dict[tuple[str, ...], _BeyondTypes] = {}
        """The problems of every item that has these fields with only texts in them."""
        self._known: _KnownEvaluators = {}
        self._schemas: _KnownSchemas = {}
        self._shared: dict[tuple[Problem, ...], tuple[Problem, ...]] = {}
        """Refusals of runevals that many items share, stored once."""
        self._alone = threading.Lock()

    def validate(self, document: Document, catalogue: Catalogue, custom: Iterable[str] = ()) -> ValidationReport:
        """Check a document against the format and a catalogue of evaluator options; `custom` are the project's own."""
        with self._alone:
            return self._validated(document, catalogue, frozenset(custom))

    def _validated(self, document: Document, catalogue: Catalogue, custom: frozenset[str]) -> ValidationReport:
        data = document.data
        if catalogue is PUBLIC:
            catalogue = dict(catalogue)  # a copy, because PUBLIC itself means that portability is checked
        dataset, problems = parse_dataset(_without_items(data))
        checks: Sequence[_ItemCheck] = ()
        if not any(problem.path in ((), ("items",)) for problem in problems):
            checks = self._checked(data, catalogue, custom)
            if version_problem(data.get("schemaVersion")) is None:  # another version may well have other fields
                problems += _placed(checks, "fields")
            problems += [*_null_problems(data, (), Dataset), *_between_items(checks), *_bare_items(checks)]
            if document.dialect == "jsonl":
                problems += _samples_of_inspect(data["items"])
            problems += matrix_problems(data, own=False)
            problems += [*_schema_problems(data, self._schemas), *_placed(checks, "schemas")]
            problems += result_problems(data)
            problems += _default_evaluator_problems(data, catalogue, custom)
            problems += _placed(checks, "evaluators")
            problems += _incomplete_items(data)
        portability: list[Problem] = []
        if not document.is_json:
            portability = [Problem("is no eval document; `tui-evals convert --to m365` writes one")]
        elif document.needs_upgrade:
            portability = [Problem("has an older shape; `tui-evals upgrade` writes it as a versioned document")]
        if any(problem.severity == "error" for problem in problems):
            dataset = None
        elif dataset is not None:
            dataset = dataset.model_copy(update={"items": [check.item for check in checks]})
            portability += portable.missing_version(data)
            portability += _one_per_message((), [check.refused for check in checks])
            defaults = _default_evaluator_problems(data, PUBLIC, custom)
            portability += _one_per_message(defaults, [check.refused_evaluators for check in checks])
        return ValidationReport(
            dataset, tuple(with_lines(problems, document)), tuple(with_lines(portability, document))
        )

    def _checked(self, data: Mapping[str, Any], catalogue: Catalogue, custom: frozenset[str]) -> Sequence[_ItemCheck]:
        """The checks of all items, made for those that are new since the last time."""
        has_prompt = "messages" in data or "prompt_file" in data
        if self._rules != (has_prompt, catalogue, custom):
            self._rules, self._items, self._checks, self._known = (has_prompt, catalogue, custom), [], [], {}
            self._alike = {}
        found = splice(self._items, data["items"])
        replaced = slice(found.start, found.start + len(found.removed))
        known = dict(zip(map(id, found.removed), self._checks[replaced], strict=True))
        self._checks[replaced] = [
            known.get(id(item)) or self._check(item, has_prompt, catalogue, custom) for item in found.added
        ]
        self._items = data["items"]
        return self._checks

    def _check(self, item: Any, has_prompt: bool, catalogue: Catalogue, custom: frozenset[str]) -> _ItemCheck:
        foreground.give_way()
        parsed, fields = _parsed_item(item)
        if not isinstance(item, dict):
            return _ItemCheck(None, fields, (), (), (), (), (), (), None)
        if parsed is not None and item.keys() <= _TEXT_FIELDS and set(map(type, item.values())) == {str}:
            shape = tuple(item)
            if shape not in self._alike:
                self._alike[shape] = self._beyond_types(item, True, has_prompt, catalogue, custom)
            found = self._alike[shape]
        else:
            found = self._beyond_types(item, parsed is not None, has_prompt, catalogue, custom)
        test_id = item.get("testId")
        is_bare = not has_prompt and _is_bare(item)
        return _ItemCheck(parsed, fields, *found, test_id if isinstance(test_id, str) else None, is_bare)

    def _beyond_types(
        self, item: dict[str, Any], typed: bool, has_prompt: bool, catalogue: Catalogue, custom: frozenset[str]
    ) -> _BeyondTypes:
        """The problems of an item beyond the types of its fields."""
        units = list(_units(item, (), item.get("turns")))
        own = [((*path, "evaluators"), unit["evaluators"]) for path, unit in units if "evaluators" in unit]
        shape = (*_shape_problems(item, has_prompt), *matrix_problems(item, own=True))
        around = tuple(problem for path, unit in units for problem in _unit_problems(unit, path))
        schemas = tuple(_schema_problems(item, self._schemas))
        evaluators = tuple(_evaluator_problems(own, catalogue, custom, self._known))
        refused: tuple[Problem, ...] = ()
        refused_evaluators: tuple[Problem, ...] = ()
        if typed and all(one.severity == "warning" for one in (*shape, *around, *schemas, *evaluators)):
            refused = tuple(portable.refused_fields(item))
            refused_evaluators = tuple(_evaluator_problems(own, PUBLIC, custom, self._known))
        refused = self._shared.setdefault(refused, refused)
        refused_evaluators = self._shared.setdefault(refused_evaluators, refused_evaluators)
        return shape, around, schemas, evaluators, refused, refused_evaluators


def _without_items(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The data with one placeholder item, because the items are checked one by one."""
    return {**data, "items": [_STANDS_FOR_ALL]} if isinstance(data.get("items"), list) and data["items"] else data


def _parsed_item(item: Any) -> tuple[Item | None, tuple[Problem, ...]]:
    try:
        return Item.model_validate(item), ()
    except ValidationError as errors:
        # With the path of an item in a dataset, because the allowed fields depend on the depth.
        placed = [{**error, "loc": ("items", 0, *error["loc"])} for error in errors.errors(include_url=False)]
        found = [problem_of(error, Dataset) for error in placed]  # type: ignore[arg-type]
        return None, tuple(replace(problem, path=problem.path[2:]) for problem in found)


def _placed(checks: Sequence[_ItemCheck], name: str) -> list[Problem]:
    """The problems of one kind of all items, where they are in the document."""
    found = list(map(attrgetter(name), checks))
    if not any(found):  # without a step of Python for each of thousands
        return []
    return [replace(one, path=("items", number, *one.path)) for number, some in enumerate(found) for one in some]


def dataset_of(document: Document, catalogue: Catalogue, custom: Iterable[str] = ()) -> Dataset:
    """The typed dataset of a valid document; DatasetError holds every problem of an invalid one."""
    return checked_dataset(document, catalogue, custom).dataset


@dataclass(frozen=True, slots=True)
class CheckedDataset:
    """The typed dataset of a valid document, and whether runevals would accept the document unchanged."""

    dataset: Dataset
    portable: bool


Rubric = Literal["strict", "m365"]


def rubric_of(portable: bool) -> Rubric:
    """The meaning of rating levels: Microsoft's if the dataset is portable to its tool."""
    return "m365" if portable else "strict"


def checked_dataset(document: Document, catalogue: Catalogue, custom: Iterable[str] = ()) -> CheckedDataset:
    """The checked dataset, with the other findings of the check."""
    report = validate(document, catalogue, custom)
    if report.dataset is None:
        raise DatasetError(str(document.file), [p for p in report.problems if p.severity == "error"])
    return CheckedDataset(report.dataset, report.portable)


def runevals_refusal(key: str, options: Mapping[str, Any], custom: Iterable[str] = ()) -> str | None:
    """Why runevals would refuse an evaluator of a valid document, or None."""
    problem = next(_check_evaluator(key, options, PUBLIC, frozenset(custom)), None)
    return str(problem) if problem else None


def _one_per_message(ahead: Iterable[Problem], items: Sequence[tuple[Problem, ...]]) -> Iterator[Problem]:
    """One problem for each message, at its first place: one of our own fields is often in every item."""
    firsts: dict[str, Problem] = {}
    times: Counter[str] = Counter()
    for problem in ahead:
        firsts.setdefault(problem.message, problem)
        times[problem.message] += 1
    for number, problems, count in _distinct(items):
        for problem in problems:
            if problem.message not in firsts:
                firsts[problem.message] = replace(problem, path=("items", number, *problem.path))
            times[problem.message] += count
    for message, first in firsts.items():
        more = times[message] - 1
        note = f" (and in {more} more place{'s' if more > 1 else ''})" if more else ""
        yield replace(first, message=message + note)


def _distinct(items: Sequence[tuple[Problem, ...]]) -> Iterator[tuple[int, tuple[Problem, ...], int]]:
    """The different lists of problems that items have, each with the first item that has it and how many do."""
    objects = list(map(id, items))
    firsts = dict(zip(reversed(objects), range(len(items) - 1, -1, -1), strict=True))
    times = Counter(objects)
    for one, number in sorted(firsts.items(), key=lambda first: first[1]):
        yield number, items[number], times[one]


def with_lines(problems: Iterable[Problem], document: Document) -> list[Problem]:
    """The problems with their line numbers, in the order of the file."""
    located = [replace(problem, line=document.line(problem.path)) for problem in problems]
    return sorted(located, key=lambda problem: problem.line or 0)


def parse_dataset(data: Mapping[str, Any]) -> tuple[Dataset | None, list[Problem]]:
    """The dataset of a document, or the errors in its version, fields and types."""
    if problem := version_problem(data.get("schemaVersion")):
        return None, [problem]
    try:
        return Dataset.model_validate(data), []
    except ValidationError as errors:
        return None, [problem_of(error, Dataset) for error in errors.errors(include_url=False)]


def document_of_data(data: dict[str, Any], file: FilePath = FilePath("dataset")) -> Document:
    """A document without a file, or with `file` as its name whatever that contains."""
    _, problems = parse_dataset(data)
    if problems:
        raise DatasetError(str(file), problems)
    return Document(file, strictjson.dumps(data), "", "document", data)


def version_problem(version: object) -> Problem | None:
    """The problem of a schemaVersion: it is no version, or one of a later release."""
    if not isinstance(version, str):
        return None
    numbers = version.split(".")
    if len(numbers) != 3 or not all(part.isdecimal() and part.isascii() and len(part) < 10 for part in numbers):
        return Problem(f"'{version}' is not a version such as {CURRENT_VERSION}", ("schemaVersion",))
    if tuple(map(int, numbers)) > tuple(map(int, CURRENT_VERSION.split("."))):
        return Problem(
            f"the document has version {version}, newer than {CURRENT_VERSION}, the newest this release reads; "
            "upgrade tui-evals",
            ("schemaVersion",),
        )
    return None


def problem_of(error: ErrorDetails, model: type[BaseModel], base: Path = ()) -> Problem:
    """A pydantic error as a problem with a sentence and a path."""
    path, kind, context = tuple(error["loc"]), error["type"], error.get("ctx", {})
    value, name = error["input"], str(path[-1]) if path else ""
    if kind == "extra_forbidden":
        known = _fields_at(model, path[:-1])
        meant = field_meant(name)
        hint = f" (did you mean '{meant}'?)" if meant in known else did_you_mean(name, known)
        return Problem(f"unknown field '{name}'{hint}", base + path[:-1])
    if kind == "missing":
        return Problem(f"{name} is missing", base + path[:-1])
    if path and path[-1] == "[key]":
        return Problem(
            f"'{value}' is not an evaluator name: a letter first, then letters, digits and _", base + path[:-2]
        )
    return Problem(_error_message(kind, context, value, error["msg"]), base + path)


def _error_message(kind: str, context: Mapping[str, Any], value: object, message: str) -> str:
    match kind:
        case "literal_error":
            expected = context["expected"]
            return f"must be {expected}, not {_quoted(value)}{did_you_mean(str(value), expected.split(chr(39))[1::2])}"
        case "string_too_short":
            return "must not be empty"
        case "too_short":
            return "must hold at least one entry"
        case "too_long":
            return f"holds {context['actual_length']:,} entries; {context['max_length']:,} is the most"
        case "greater_than_equal":
            return f"must be at least {_number(context['ge'])}, not {_quoted(value)}"
        case "less_than_equal":
            return f"must be at most {_number(context['le'])}, not {_quoted(value)}"
        case "string_pattern_mismatch":
            return f"{_quoted(value)} does not have the right form"
        case "value_error":
            return str(context["error"])
        case "finite_number":
            return "must be a finite number"
    for suffix, words in _EXPECTED_TYPES:
        if kind.startswith(suffix):
            return f"must be {words}, not {_quoted(value)}"
    return message[:1].lower() + message[1:]


_EXPECTED_TYPES = (
    ("string", "text"),
    ("list", "a list"),
    ("dict", "an object"),
    ("model", "an object"),
    ("bool", "true or false"),
    ("int", "a whole number"),
    ("float", "a number"),
)


def _number(value: float) -> str:
    return f"{value:g}"


def _quoted(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, (dict, list)):
        return _TYPE_WORDS[type(value)]
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def _fields_at(model: type[BaseModel], path: Path) -> frozenset[str]:
    """The fields that are allowed where `path` has an unknown one."""
    if model is not Dataset:
        return frozenset(model.model_fields)
    if len(path) >= 2 and path[-2] == "tool_results":
        return frozenset(ToolResult.model_fields)
    if path[-1:] == ("user",):
        return frozenset(SimulatedUser.model_fields)
    if len(path) >= 4 and path[2] == "turns":
        return frozenset(Turn.model_fields)
    return frozenset(Item.model_fields)


def _between_items(checks: Sequence[_ItemCheck]) -> Iterator[Problem]:
    """The rules that need more than one field, of items and between them."""
    repeated = _repeated([check.test_id for check in checks])
    found = {number for number, check in enumerate(checks) if check.shape or check.units}
    for number in sorted(found | repeated.keys()):
        path: Path = ("items", number)
        check = checks[number]
        yield from (replace(one, path=(*path, *one.path)) for one in check.shape)
        if number in repeated:
            message = (
                f"testId '{check.test_id}' is also that of items[{repeated[number]}]. Runs name this item "
                f"{check.test_id}#{number + 1}, and comparisons match it by what it asks"
            )
            yield Problem(message, (*path, "testId"), severity="warning")
        yield from (replace(one, path=(*path, *one.path)) for one in check.units)


def _repeated(names: Sequence[str | None]) -> dict[int, int]:
    """For each item with the testId of an earlier one, the position of the first item with that testId."""
    known = [name for name in names if name is not None]
    if len(set(known)) == len(known):
        return {}
    seen: dict[str, int] = {}
    return {
        number: seen[name]
        for number, name in enumerate(names)
        if name is not None and seen.setdefault(name, number) != number
    }


def _unit_problems(unit: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    yield from _null_problems(unit, path, Item)
    if "evaluators_mode" in unit and "evaluators" not in unit:
        message = "evaluators_mode has no effect without evaluators"
        yield Problem(message, (*path, "evaluators_mode"), severity="warning")


def _units(item: dict[str, Any], path: Path, turns: object) -> Iterator[tuple[Path, dict[str, Any]]]:
    foreground.give_way()
    yield path, item
    for turn_index, turn in enumerate(turns if isinstance(turns, list) else ()):
        if isinstance(turn, dict):
            yield (*path, "turns", turn_index), turn


def _shape_problems(item: dict[str, Any], has_prompt: bool) -> Iterator[Problem]:
    given = [name for name in ("prompt", "turns", "user") if name in item]
    if len(given) > 1:
        yield Problem(f"has both {' and '.join(given)}; keep one of them")
    for name in ("turns", "user", "repeats"):
        if "other_questions" in item and name in item:
            yield Problem(f"has both other_questions and {name}; keep one of them")
    if "turns" not in item:
        if not (has_prompt or item.keys() & _ASKS or _is_bare(item)):
            yield Problem("has neither prompt nor turns nor user; give it one of them")
        return
    for name in sorted(TURN_ONLY_FIELDS & item.keys() - {"prompt"}):
        yield Problem(f"'{name}' belongs to the turns of a conversation; move it to the turn it is about")


_ASKS = frozenset(("prompt", "turns", "user", "messages"))


def _is_bare(item: Mapping[str, Any]) -> bool:
    """Whether an item asks nothing by itself, and has variables for a prompt."""
    return not item.keys() & _ASKS and bool(item.get("variables") or item.get("matrix"))


def _bare_items(checks: Sequence[_ItemCheck]) -> Iterator[Problem]:
    """The problem of items without a prompt, stated once; a run that names a prompt file has none."""
    bare = [number for number, check in enumerate(checks) if check.is_bare]
    if bare:
        them = "the item has" if len(bare) == 1 else f"{len(bare):,} items have"
        message = f"{them} variables only; run them with --prompt FILE, or name one as prompt_file of the dataset"
        yield Problem(message, ("items", bare[0]), severity="warning")


def _incomplete_items(data: Mapping[str, Any]) -> Iterator[Problem]:
    """One problem for all items where an import left an assertion out."""
    names = [
        sorted({key for _, unit in _units(item, (), item.get("turns")) for key in _left_out_in(unit.get("evaluators"))})
        for item in data["items"]
        if isinstance(item, dict)
    ]
    shared = sorted(_left_out_in(data.get("default_evaluators")))
    count = len(names) if shared else sum(map(bool, names))
    if count:
        first = 0 if shared else next(number for number, own in enumerate(names) if own)
        kinds = ", ".join(dict.fromkeys([*shared, *(name for own in names for name in own)]))
        message = (
            f"the verdict of {count:,} item{'s' if count > 1 else ''} is incomplete, because an import left assertions "
            f"out ({kinds}); put an evaluator in the place of each, or remove it"
        )
        yield Problem(message, ("items", first), severity="warning")


def _left_out_in(evaluators: object) -> set[str]:
    """The labels of placeholders for what an import left out."""
    given = evaluators.items() if isinstance(evaluators, dict) else ()
    return {key for key, options in given if isinstance(options, dict) and options.get("type", key) == "LeftOut"}


def _samples_of_inspect(items: Sequence[Any]) -> Iterator[Problem]:
    """The problem of lines in Inspect's format, whose `target` would be an unused variable here."""
    first = items[0] if items and isinstance(items[0], dict) else {}
    if "target" in (first.get("variables") or {}) and not first.keys() & {"ideal", "expected_response"}:
        message = "has a target and no ideal, as Inspect writes samples; `tui-evals import` makes a dataset of the file"
        yield Problem(message, ("items", 0), severity="warning")


def _null_problems(unit: Mapping[str, Any], path: Path, model: type[BaseModel]) -> Iterator[Problem]:
    for name, value in unit.items():
        if value is None and name in model.model_fields:
            yield Problem("is null; give it a value or leave the field out", (*path, name))


_KnownSchemas = dict[str, tuple[Problem, ...]]


def _schema_problems(unit: Mapping[str, Any], known: _KnownSchemas) -> Iterator[Problem]:
    """Likely mistakes in tools and in JSON Schemas of answers; equal ones are checked once."""
    for place, value in _schemas(unit):
        key = json.dumps([place[0], value])
        if key not in known:
            known[key] = _check_schema(tool_problems if place[0] == "tools" else schema_problems, value)
        yield from (replace(problem, path=(*place, *problem.path)) for problem in known[key])


def _schemas(unit: Mapping[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    tools = unit.get("tools")
    for number, tool in enumerate(tools if isinstance(tools, list) else ()):
        if isinstance(tool, dict):
            yield ("tools", number), tool
    if isinstance(schema := unit.get("response_format"), dict):
        yield ("response_format",), schema


def _check_schema(check: Callable[[dict[str, Any]], Iterable[Problem]], value: dict[str, Any]) -> tuple[Problem, ...]:
    try:
        return tuple(check(value))
    except RecursionError:
        return (Problem("is nested too deeply to be checked", severity="warning"),)


_KnownEvaluators = dict[tuple[bool, str], tuple[Problem, ...]]
"""Problems of evaluators, by whether for runevals, and by name and options, because many items share them."""


def _evaluator_problems(
    maps: Iterable[tuple[Path, object]],
    catalogue: Catalogue,
    custom: frozenset[str],
    known: _KnownEvaluators,
) -> Iterator[Problem]:
    """The problems of evaluators according to a catalogue of options."""
    for path, evaluators in maps:
        for key, options in evaluators.items() if isinstance(evaluators, dict) else ():
            if isinstance(options, dict):
                cache_key = (catalogue is PUBLIC, json.dumps([key, options]))
                if cache_key not in known:
                    known[cache_key] = tuple(_check_evaluator(key, options, catalogue, custom))
                yield from (replace(one, path=(*path, key, *one.path)) for one in known[cache_key])


def _default_evaluator_problems(data: Mapping[str, Any], catalogue: Catalogue, custom: frozenset[str]) -> list[Problem]:
    return list(_evaluator_problems([(("default_evaluators",), data.get("default_evaluators"))], catalogue, custom, {}))


def _check_evaluator(
    key: str, options: Mapping[str, Any], catalogue: Catalogue, custom: frozenset[str]
) -> Iterator[Problem]:
    public = catalogue is PUBLIC
    name = options.get("type", key)
    if not isinstance(name, str):
        yield Problem("must be the name of an evaluator", ("type",))
        return
    if public and "type" in options:
        yield Problem("runevals does not know labels with a type; name the evaluator itself")
        return
    model = catalogue.get(name) or (portable.Custom if name in custom else None)
    if model is None:
        if public:
            yield Problem(f"'{name}' is not an evaluator of runevals")
        else:
            hint = did_you_mean(name, [*catalogue, *custom])
            yield Problem(f"unknown evaluator '{name}'{hint}; `tui-evals evaluators` lists all")
        return
    try:
        model.model_validate({field: value for field, value in options.items() if field != "type"})
    except ValidationError as errors:
        for error in errors.errors(include_url=False):
            yield problem_of(error, model)
