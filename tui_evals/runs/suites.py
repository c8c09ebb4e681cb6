"""Suites: reference cases from rows or tables, checked, kept in the project, and the evaluator that judges them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tui_evals.datasets.discover import make_project
from tui_evals.datasets.document import MAX_BYTES, load
from tui_evals.datasets.paths import CURRENT_VERSION, DatasetError, pretty_json
from tui_evals.datasets.validate import parse_dataset, problem_of
from tui_evals.evaluators.base import Evaluator
from tui_evals.evaluators.registry import Registry, UnknownEvaluator, built_in
from tui_evals.files import CannotSave, UnsafeFile, check_private, make_private_folder, write_atomically
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_bytes
from tui_evals.text.names import did_you_mean


class ArthurError(Exception):
    """An error of a suite; its subclasses tell who has to fix it."""


class ArthurUserError(ArthurError):
    """The request is invalid."""


class UserValueError(ArthurUserError, ValueError):
    """A value that was given does not fit."""


class UserTypeError(ArthurUserError, TypeError):
    """Something of the wrong kind was given."""


class NotFoundError(ArthurUserError, LookupError):
    """There is no suite or run with this name."""


class ArthurInternalError(ArthurError):
    """A run could not be carried out, though everything that was given is right."""


Column = list[str | None]
"""The cells of a column as text; None where a cell is blank."""


@dataclass(frozen=True, slots=True)
class Cases:
    """The questions of a suite and, if known, the right answers."""

    inputs: tuple[str, ...]
    references: tuple[str, ...] | None = None


def cases_from(
    *,
    frame: Any,
    path: str | Path | None,
    inputs: Sequence[Any] | None,
    references: Sequence[Any] | None,
    input_column: str,
    reference_column: str,
    needs_reference: bool,
) -> Cases:
    """The cases of a suite, from the first of frame, file and lists that is given."""
    names = {"input": input_column} | ({"reference": reference_column} if needs_reference else {})
    if frame is not None:
        columns, where = _frame_columns(frame, names, "reference_data"), "reference_data, row"
    elif path is not None:
        columns, where = _file_columns(path, names), f"{path}, row"
    elif inputs is not None:
        columns, where = {"input": listed(inputs, "input_text_list")}, "input_text_list, text"
        if references is not None:
            columns["reference"] = listed(references, "reference_output_list")
    else:
        raise UserValueError(
            "a new suite needs cases: give reference_data (a frame), reference_data_path (a .csv file), or "
            "input_text_list and reference_output_list"
        )
    return _check_cases(columns["input"], columns.get("reference"), where, needs_reference)


def _check_cases(inputs: Column, references: Column | None, where: str, needed: bool) -> Cases:
    if not inputs:
        raise UserValueError("a suite needs at least one case, and the data holds none")
    if references is not None and len(references) != len(inputs):
        raise UserValueError(
            f"there are {len(inputs)} inputs and {len(references)} reference outputs; give one for each"
        )
    for number, text in enumerate(inputs, 1):
        if not text:
            raise UserValueError(f"{where} {number}: the input is blank; write what was asked there")
    blank = [number for number, text in enumerate(references or (), 1) if text is None]
    if references is not None and blank and (len(blank) < len(references)):
        raise UserValueError(
            f"{where} {blank[0]}: the reference output is blank, and others are not; give every case one, or none"
        )
    if references is None or blank:
        if needed:
            raise UserValueError(
                "this way of scoring compares with reference outputs, and there are none; give them in "
                "reference_output_list or a column (reference_column)"
            )
        return Cases(tuple(text or "" for text in inputs))
    return Cases(tuple(text or "" for text in inputs), tuple(text or "" for text in references))


def candidates_from(
    *,
    frame: Any,
    path: str | Path | None,
    candidates: Sequence[Any] | None,
    candidate_column: str,
    context_column: str | None,
    contexts: Sequence[Any] | None,
) -> tuple[Column, Column | None]:
    """The candidates of a run and their contexts, from the first of frame, file and list that is given."""
    names = {"candidate": candidate_column} | ({"context": context_column} if context_column else {})
    if frame is not None:
        columns = _frame_columns(frame, names, "candidate_data")
    elif path is not None:
        columns = _file_columns(path, names)
    elif candidates is not None:
        given = None if contexts is None else listed(contexts, "context_input_list")
        return listed(candidates, "candidate_output_list"), given
    else:
        raise UserValueError(
            "a run needs candidate outputs: give candidate_data (a frame), candidate_data_path (a .csv file), or "
            "candidate_output_list"
        )
    return columns["candidate"], columns.get("context")


def listed(values: Sequence[Any], name: str) -> Column:
    """A list of the user's as text; None and NaN are blank, an empty text is a text."""
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
        raise UserTypeError(f"{name} must be a list of texts, not {type(values).__name__}")
    return [None if _is_absent(value) else str(value) for value in values]


def _is_absent(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return bool(isinstance(value, float) and value != value)


def _frame_columns(frame: Any, names: Mapping[str, str], what: str) -> dict[str, Column]:
    """Columns of a frame, whichever library made it; none is imported for that."""
    if not hasattr(frame, "columns") or not hasattr(frame, "__getitem__"):
        raise UserTypeError(f"{what} must be a frame such as pandas makes, not {type(frame).__name__}")
    columns = [str(name) for name in frame.columns]
    _check_columns(names, columns, what)
    return {key: [_none_if_blank(cell) for cell in listed(frame[name], what)] for key, name in names.items()}


def _none_if_blank(cell: str | None) -> str | None:
    return cell if cell and cell.strip() else None


def _check_columns(names: Mapping[str, str], columns: Sequence[str], where: str) -> None:
    for key, name in names.items():
        if columns.count(name) > 1:
            raise UserValueError(f"{where}: the column {name!r} is there twice; rename one of them")
        if name not in columns:
            there = ", ".join(map(repr, columns)) or "none"
            hint = "; say which column holds it with " + f"{key}_column" if name in _USUAL else ""
            raise UserValueError(
                f"{where}: there is no column {name!r}{did_you_mean(name, columns)}{hint}; the columns are {there}"
            )


_USUAL = frozenset(("input", "reference_output", "candidate_output"))


def _file_columns(path: str | Path, names: Mapping[str, str]) -> dict[str, Column]:
    """Columns of a CSV file; every cell is the text it is written as."""
    file = Path(path)
    if file.suffix != ".csv":
        raise UserValueError(f"{file}: the data must be in a .csv file")
    try:
        content = read_bytes(file, most=MAX_BYTES, follow_out=True)
        text = content.decode("utf-8-sig")  # keeps line ends inside cells
    except FileNotFoundError:
        raise UserValueError(f"{file}: there is no such file") from None
    except UnicodeDecodeError:
        raise UserValueError(f"{file}: is not UTF-8 text; save it as UTF-8") from None
    except OSError as problem:
        raise UserValueError(f"{file}: cannot be read: {problem.strerror}") from None
    header, rows = _rows(file, text)
    _check_columns(names, header, str(file))
    places = {key: header.index(name) for key, name in names.items()}
    return {key: [_none_if_blank(row[at]) if at < len(row) else None for row in rows] for key, at in places.items()}


def _rows(file: Path, text: str) -> tuple[list[str], list[list[str]]]:
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[list[str]] = []
    try:
        header = [name.strip() for name in next(reader, [])]
        for row in reader:
            if len(row) > len(header):
                raise UserValueError(
                    f"{file}:{reader.line_num}: the row has {len(row)} cells but the header has {len(header)}"
                )
            if row:
                rows.append(row)
    except csv.Error as problem:
        raise UserValueError(f"{file}:{reader.line_num}: the table cannot be read: {problem}") from None
    return header, rows


METADATA = ("model_name", "model_version", "foundation_model", "prompt_template")


CATEGORIES: Mapping[str, tuple[str, ...]] = {
    "Equals": ("non match", "match"),
    "SummaryQuality": ("reference", "candidate", "equal", "invalid"),
    "QACorrectness": ("incorrect", "correct", "invalid"),
    "Hallucination": ("hallucination", "no hallucination"),
    "PythonUnitTests": ("fail", "pass"),
}
PASSING = frozenset(("match", "correct", "candidate", "equal", "no hallucination", "pass"))
"""The categories of the built-in ways of scoring that are good."""
_BY_RESULT: Mapping[str, Mapping[str, str]] = {
    "Equals": {"fail": "non match", "pass": "match"},
    "PythonUnitTests": {"fail": "fail", "pass": "pass"},
}
_NO_KEY = re.compile(r"[^a-zA-Z0-9_]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One scoring method; `config` is the configuration of a custom scorer."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    requires_reference: bool = True
    requires_context: bool = False
    categories: tuple[Mapping[str, Any], ...] | None = None
    custom: bool = False
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def evaluators(self) -> dict[str, Any]:
        """The evaluators of the suite as a dataset writes them: this one."""
        key = key_for(self.name)
        return {key: ({} if key == self.name else {"type": self.name}) | dict(self.options)}

    @property
    def record(self) -> dict[str, Any]:
        """The form stored in a suite."""
        return {
            "name": self.name,
            "type": "custom" if self.custom else "built_in",
            "config": dict(self.config or self.options),
            "output_type": "categorical" if self.categories else "continuous",
            "categories": [dict(one) for one in self.categories] if self.categories else None,
        }


def key_for(name: str) -> str:
    """The name of an evaluator as a key of a dataset, which holds letters, digits and underscores only."""
    key = _NO_KEY.sub("_", name)
    return key if key[:1].isalpha() else f"scorer_{key}"


def method_named(name: str, options: Mapping[str, Any], registry: Registry) -> Method:
    """The scoring method of an evaluator, by name or alias, with its options."""
    try:
        kind = registry.find(name)
    except UnknownEvaluator as problem:
        raise UserValueError(str(problem)) from None
    try:
        kind.Options.model_validate(dict(options))
    except ValidationError as errors:
        problems = "; ".join(str(problem_of(error, kind.Options)) for error in errors.errors(include_url=False))
        raise UserValueError(f"scoring by {name}: {problems}") from None
    names = CATEGORIES.get(kind.name)
    return Method(
        name=name,
        options=dict(options),
        requires_reference=_needs_reference(kind, options),
        requires_context="context" in kind.needs,
        categories=tuple({"name": category, "description": None} for category in names) if names else None,
    )


def refuse_unjudgeable(method: Method, registry: Registry) -> None:
    """UserValueError where a suite scored in this way could be scored nowhere here."""
    if method.name in registry.by_name and (obstacle := registry.build(method.name, method.options).obstacle()):
        raise UserValueError(f"scoring by {method.name} is not possible here: {obstacle}")


def _needs_reference(kind: type[Evaluator], options: Mapping[str, Any]) -> bool:
    if kind.name == "Equals":
        return not {"value", "targetValue", "target_value"} & options.keys()
    return "expected" in kind.needs


def category_of(evaluator: str, result: str | None, label: str | None) -> str | None:
    """The category of a score: its label, or what its verdict is called where there are only two."""
    if label is not None:
        return label
    kind = built_in().get(evaluator)
    return _BY_RESULT.get(kind.name, {}).get(result or "") if kind is not None else None


FOLDER = Path(".evals", "suites")
MARK = "arthur_bench"
"""The key under `extensions` for fields that only suites have."""
_LONGEST = 1_000
_LONGEST_STEM = 200
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_NO_STEM = re.compile(r"[^a-zA-Z0-9 ._-]+")
_DERIVED = re.compile(r"-[0-9a-f]{12}$")
"""How a file is called whose suite or run has a name that no file can have."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A stored suite: an eval document with its scoring method."""

    name: str
    data: Mapping[str, Any]

    @property
    def about(self) -> Mapping[str, Any]:
        """The fields that only suites have: scoring_method, created, …"""
        about: Mapping[str, Any] = self.data["extensions"][MARK]
        return about

    @property
    def method(self) -> Mapping[str, Any]:
        """The stored scoring method."""
        method: Mapping[str, Any] = self.about["scoring_method"]
        return method

    @property
    def description(self) -> str | None:
        """The description of the suite."""
        return self.data.get("description")

    @property
    def inputs(self) -> list[str]:
        """The prompts, case by case."""
        return [item["prompt"] for item in self.data["items"]]

    @property
    def references(self) -> list[str | None]:
        """The reference of each case, or None."""
        return [item.get("expected_response") for item in self.data["items"]]


def checked_name(name: object, what: str) -> str:
    """The name of a suite or a run, which is any text; an exception says why one cannot be."""
    if not isinstance(name, str):
        raise UserTypeError(f"the name of a {what} must be text, not {type(name).__name__}")
    if not name.strip():
        raise UserValueError(f"the name of a {what} must not be empty")
    if name != name.strip():
        raise UserValueError(f"the name of a {what} must not begin or end with white space: {name!r}")
    if len(name) > _LONGEST:
        raise UserValueError(f"the name of a {what} must have {_LONGEST} characters at most, not {len(name)}")
    if _CONTROL.search(name):
        raise UserValueError(f"the name of a {what} must hold no control characters: {name!r}")
    return name


def file_stem(name: str) -> str:
    """How the file of a name is called: as the name where a file can be, else so that it tells names apart."""
    unfit = name.startswith((".", "-")) or ".." in name or not name.isprintable()
    unfit = unfit or any(char in '/\\:*?"<>|' for char in name)
    if not unfit and len(name.encode("utf-8", "surrogatepass")) <= _LONGEST_STEM and not _DERIVED.search(name):
        return name
    readable = _NO_STEM.sub("_", name)[:40].strip(" ._-") or "named"
    return f"{readable}-{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def suite_file(root: Path, name: str) -> Path:
    """The file of a suite."""
    return root / FOLDER / f"{file_stem(name)}.json"


def run_file(root: Path, suite: str, run: str) -> Path:
    """The file with the candidates of a run, from which it can be resumed."""
    return root / FOLDER / file_stem(suite) / f"{file_stem(run)}.json"


def document_of(name: str, cases: Cases, method: Method, description: object) -> dict[str, Any]:
    """A new suite as an eval document."""
    if not isinstance(description, str | None):
        raise UserTypeError(f"the description must be text, not {type(description).__name__}")
    items: list[dict[str, Any]] = [{"prompt": text} for text in cases.inputs]
    for item, reference in zip(items, cases.references or (), strict=False):
        item["expected_response"] = reference
    tests = method.options.get("unit_tests")
    if isinstance(tests, list):
        if len(tests) != len(items):
            raise UserValueError(f"there are {len(tests)} unit tests and {len(items)} cases; give one for each")
        for number, item in enumerate(items, 1):
            item["variables"] = {"unit_test": str(number)}
    return {
        "schemaVersion": CURRENT_VERSION,
        "metadata": {"name": name},
        **({"description": description} if description is not None else {}),
        "default_evaluators": method.evaluators,
        "extensions": {MARK: {"scoring_method": method.record, "created": now()}},
        "items": items,
    }


def now() -> str:
    """The time as suites note it, with its zone."""
    return datetime.now().astimezone().isoformat(timespec="seconds")


def keep(root: Path, name: str, data: Mapping[str, Any]) -> Suite:
    """Write a new suite; an exception where there is one of this name, or where the document is not sound."""
    file = suite_file(root, checked_name(name, "suite"))
    if file.exists():
        raise UserValueError(f"there is a suite {name!r} already ({file}); give the new one another name")
    _, problems = parse_dataset(data)
    if problems:
        raise UserValueError(f"the suite {name!r} cannot be kept: {'; '.join(map(str, problems))}")
    write_below(root, file, pretty_json(data))
    return Suite(name, data)


def write_below(root: Path, file: Path, text: str) -> None:
    """Write a document below the project's folder of suites, whole or not at all."""
    try:
        make_project(root)
        make_private_folder(file.parent)
        write_atomically(file, text.encode("utf-8", "backslashreplace"))
    except (OSError, CannotSave) as problem:
        raise ArthurInternalError(f"{file} cannot be written: {problem}") from None


def kept(root: Path, name: str) -> Suite | None:
    """The suite of a name, if there is one."""
    file = suite_file(root, checked_name(name, "suite"))
    return _read(file, name) if file.exists() else None


def suite_named(root: Path, name: str) -> Suite:
    """The suite of a name; NotFoundError where there is none."""
    from tui_evals.text.names import did_you_mean

    suite = kept(root, name)
    if suite is None:
        hint = did_you_mean(name, names(root))
        raise NotFoundError(f"there is no suite {name!r}{hint}; `tui-evals suite list` lists them")
    return suite


def names(root: Path) -> list[str]:
    """The names of all suites."""
    return sorted(_name_in(file) for file in _files(root))


def every(root: Path) -> Iterator[Suite | UserValueError]:
    """All suites by name, with an error for each file that is not one."""
    for name, file in sorted((_name_in(file), file) for file in _files(root)):
        try:
            yield _read(file, name)
        except UserValueError as problem:
            yield problem


def _files(root: Path) -> list[Path]:
    return [file for file in (root / FOLDER).glob("*.json") if file.is_file()]


def _name_in(file: Path) -> str:
    """The name of the suite in a file, which only has to be opened where its own name is made of it."""
    if _DERIVED.search(file.stem):
        try:
            name = (load(file).data.get("metadata") or {}).get("name")
        except DatasetError:
            return file.stem  # its errors are reported where it is read
        if isinstance(name, str) and file_stem(name) == file.stem:
            return name
    return file.stem


def _read(file: Path, name: str) -> Suite:
    try:
        check_private(file)
        data = load(file).data
    except (DatasetError, UnsafeFile) as problem:
        raise UserValueError(str(problem)) from None
    _, problems = parse_dataset(data)
    if problems:
        raise UserValueError("\n".join(f"{file}: {problem}" for problem in problems))
    written = (data.get("metadata") or {}).get("name")
    if isinstance(written, str) and written != name and written.casefold() == name.casefold():
        raise UserValueError(
            f"{file} is the suite {written!r}, and no file next to it can be {name!r} on a disk that takes upper for "
            "lower case; give one of them another name"
        )
    about = (data.get("extensions") or {}).get(MARK)
    method = about.get("scoring_method") if isinstance(about, dict) else None
    if not isinstance(method, dict) or not isinstance(method.get("name"), str):
        raise UserValueError(f"{file}: extensions.{MARK}.scoring_method.name is missing, so this is no suite")
    if not data.get("default_evaluators"):
        raise UserValueError(f"{file}: default_evaluators names no evaluator, so nothing would be scored")
    unlike = next((number for number, item in enumerate(data["items"]) if "prompt" not in item), None)
    if unlike is not None:
        raise UserValueError(f"{file}: items[{unlike}].prompt is missing; a case of a suite is one prompt")
    return Suite(name, data)
