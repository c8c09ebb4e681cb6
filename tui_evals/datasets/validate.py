"""Every problem of a dataset at once: what is wrong for us, and what keeps it from being run by runevals."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tui_evals.text import strictjson
from tui_evals.text.nearest import did_you_mean

from . import portable
from .document import Document
from .layout import Path
from .model import CURRENT_VERSION, TURN_ONLY_FIELDS, Dataset, Item, Turn
from .portable import PUBLIC, Catalogue
from .problems import DatasetError, Problem
from .tools import schema_problems, tool_problems

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
        """Whether runevals would take the file as it is."""
        return self.valid and not self.portability


def validate(document: Document, catalogue: Catalogue, custom: Iterable[str] = ()) -> ValidationReport:
    """Check a document against the format and a catalogue of evaluator options; `custom` are the project's own."""
    data = document.data
    dataset, problems = parse_dataset(data)
    if not any(problem.path in ((), ("items",)) for problem in problems):
        problems += _cross_field_problems(data)
        problems += _schema_problems(data)
        problems += _evaluator_problems(data, {**dict.fromkeys(custom, portable.Custom), **catalogue})
    portability: list[Problem] = []
    if document.dialect in ("csv", "jsonl"):
        portability = [Problem("is no eval document; `tui-evals convert --to m365` writes one")]
    elif document.needs_upgrade:
        portability = [Problem("has an older shape; `tui-evals upgrade` writes it as a versioned document")]
    if not any(problem.severity == "error" for problem in problems):
        portability += _one_per_message(
            [*portable.refused_fields(data), *_evaluator_problems(data, PUBLIC, frozenset(custom))]
        )
    return ValidationReport(
        None if any(problem.severity == "error" for problem in problems) else dataset,
        tuple(with_lines(problems, document)),
        tuple(with_lines(portability, document)),
    )


def dataset_of(document: Document, catalogue: Catalogue, custom: Iterable[str] = ()) -> Dataset:
    """The typed dataset of a valid document; DatasetError holds every problem of an invalid one."""
    report = validate(document, catalogue, custom)
    if report.dataset is None:
        raise DatasetError(str(document.file), [p for p in report.problems if p.severity == "error"])
    return report.dataset


def runevals_refusal(key: str, options: Mapping[str, Any], custom: Iterable[str] = ()) -> str | None:
    """Why runevals would refuse an evaluator of a valid document, or None."""
    problem = next(_check_evaluator(key, options, PUBLIC, frozenset(custom)), None)
    return str(problem) if problem else None


def _one_per_message(problems: Iterable[Problem]) -> Iterator[Problem]:
    """One problem for each message, at its first place: a field of our own is often in every item."""
    by_message: dict[str, list[Problem]] = {}
    for problem in problems:
        by_message.setdefault(problem.message, []).append(problem)
    for message, (first, *more) in by_message.items():
        note = f" (and in {len(more)} more place{'s' if len(more) > 1 else ''})" if more else ""
        yield replace(first, message=message + note)


def with_lines(problems: Iterable[Problem], document: Document) -> list[Problem]:
    """The problems with their line numbers, in the order of the file."""
    located = [replace(problem, line=document.line(problem.path)) for problem in problems]
    return sorted(located, key=lambda problem: problem.line or 0)


def parse_dataset(data: Mapping[str, Any]) -> tuple[Dataset | None, list[Problem]]:
    """The dataset of a document, or what is wrong with its version, fields and types."""
    if problem := version_problem(data.get("schemaVersion")):
        return None, [problem]
    try:
        return Dataset.model_validate(data), []
    except ValidationError as errors:
        return None, [problem_of(error, Dataset) for error in errors.errors(include_url=False)]


def document_of_data(data: dict[str, Any], file: FilePath = FilePath("dataset")) -> Document:
    """A document that stands in no file, or that stands for a file whatever is in it now."""
    _, problems = parse_dataset(data)
    if problems:
        raise DatasetError(str(file), problems)
    return Document(file, strictjson.dumps(data), "", "document", data)


def version_problem(version: object) -> Problem | None:
    """What is wrong with a schemaVersion: no version at all, or one of a later release."""
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
        return Problem(f"unknown field '{name}'{did_you_mean(name, known)}", base + path[:-1])
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
            return f"holds {context['actual_length']} entries; {context['max_length']} is the most"
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
    """The fields that are allowed at a path where an unknown one stands."""
    if model is not Dataset:
        return frozenset(model.model_fields)
    if len(path) >= 4 and path[2] == "turns":
        return frozenset(Turn.model_fields)
    return frozenset(Item.model_fields)


def _cross_field_problems(data: Mapping[str, Any]) -> list[Problem]:
    """The rules that need more than one field."""
    problems = [*_null_problems(data, (), Dataset)]
    seen: dict[str, int] = {}
    has_prompt = "messages" in data or "prompt_file" in data
    for index, item in enumerate(data["items"]):
        path: Path = ("items", index)
        if not isinstance(item, dict):
            continue
        problems += _shape_problems(item, path, has_prompt)
        test_id = item.get("testId")
        if isinstance(test_id, str) and seen.setdefault(test_id, index) != index:
            message = f"testId '{test_id}' is also that of items[{seen[test_id]}]; runs are compared by it"
            problems.append(Problem(message, (*path, "testId"), severity="warning"))
        turns = item.get("turns")
        for unit_path, unit in _units(item, path, turns):
            problems += _null_problems(unit, unit_path, Item)
            if "evaluators_mode" in unit and "evaluators" not in unit:
                message = "evaluators_mode has no effect without evaluators"
                problems.append(Problem(message, (*unit_path, "evaluators_mode"), severity="warning"))
    return problems


def _units(item: dict[str, Any], path: Path, turns: object) -> Iterator[tuple[Path, dict[str, Any]]]:
    yield path, item
    for turn_index, turn in enumerate(turns if isinstance(turns, list) else ()):
        if isinstance(turn, dict):
            yield (*path, "turns", turn_index), turn


def _shape_problems(item: dict[str, Any], path: Path, has_prompt: bool) -> Iterator[Problem]:
    if "turns" not in item:
        if "prompt" not in item and "messages" not in item and not has_prompt:
            yield Problem("has neither prompt nor turns; give it one of them", path)
        return
    if "prompt" in item:
        yield Problem("has both prompt and turns; keep one of them", path)
    for name in sorted(TURN_ONLY_FIELDS & item.keys() - {"prompt"}):
        yield Problem(f"'{name}' belongs to the turns of a conversation; move it to the turn it is about", path)


def _null_problems(unit: Mapping[str, Any], path: Path, model: type[BaseModel]) -> Iterator[Problem]:
    for name, value in unit.items():
        if value is None and name in model.model_fields:
            yield Problem("is null; give it a value or leave the field out", (*path, name))


def _schema_problems(data: Mapping[str, Any]) -> Iterator[Problem]:
    """What is most likely wrong with tools and with the JSON Schemas of answers; equal ones are looked at once."""
    found: dict[str, tuple[Problem, ...]] = {}
    for path, unit in ((), data), *((("items", number), item) for number, item in enumerate(data["items"])):
        if isinstance(unit, dict):
            for place, value in _schemas(unit):
                key = json.dumps([place[0], value])
                if key not in found:
                    found[key] = _check_schema(tool_problems if place[0] == "tools" else schema_problems, value)
                yield from (replace(problem, path=(*path, *place, *problem.path)) for problem in found[key])


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


def _evaluator_problems(
    data: Mapping[str, Any], catalogue: Catalogue, custom: frozenset[str] = frozenset()
) -> list[Problem]:
    """The problems of a document's evaluators according to a catalogue of options."""
    problems: list[Problem] = []
    checked: dict[str, tuple[Problem, ...]] = {}
    for path, evaluators in _evaluator_maps(data):
        for key, options in evaluators.items():
            if isinstance(options, dict):
                cache_key = json.dumps([key, options])
                if cache_key not in checked:
                    checked[cache_key] = tuple(_check_evaluator(key, options, catalogue, custom))
                problems += [replace(problem, path=(*path, key, *problem.path)) for problem in checked[cache_key]]
    return problems


def _evaluator_maps(data: Mapping[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    if isinstance(defaults := data.get("default_evaluators"), dict):
        yield ("default_evaluators",), defaults
    for number, item in enumerate(data["items"]):
        if isinstance(item, dict):
            for path, unit in _units(item, ("items", number), item.get("turns")):
                if isinstance(own := unit.get("evaluators"), dict):
                    yield (*path, "evaluators"), own


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
            yield Problem(
                f"unknown evaluator '{name}'{did_you_mean(name, catalogue)}; `tui-evals evaluators` lists all"
            )
        return
    try:
        model.model_validate({field: value for field, value in options.items() if field != "type"})
    except ValidationError as errors:
        for error in errors.errors(include_url=False):
            yield problem_of(error, model)
