"""What can be wrong with a suite or a run of it, as the exceptions that users of suites catch."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tui_evals.compare.trend import every_run
from tui_evals.datasets.document import MAX_BYTES, Document
from tui_evals.evaluators.base import Evaluator
from tui_evals.light_records import light_record
from tui_evals.project_files import read_bytes
from tui_evals.runs.project import Project
from tui_evals.runs.start import PreparedRun, RunRequest, prepare
from tui_evals.runs.suites import MARK, Suite, category_of, checked_name, run_file, suite_file, write_below
from tui_evals.store.lookup import dataset_key
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.targets.base import Target, TargetConfig
from tui_evals.targets.replay import Replay, captured
from tui_evals.text import strictjson
from tui_evals.text.names import did_you_mean
from tui_evals.text.safe import safe_line
from tui_evals.text.strictjson import one_line


class ArthurError(Exception):
    """Something about a suite went wrong; one of the kinds below says whose affair it is."""


class ArthurUserError(ArthurError):
    """What was asked for cannot be done as it was asked."""


class UserValueError(ArthurUserError, ValueError):
    """A value that was given does not fit."""


class UserTypeError(ArthurUserError, TypeError):
    """Something of the wrong kind was given."""


class NotFoundError(ArthurUserError, LookupError):
    """There is no suite or run of this name."""


class ArthurInternalError(ArthurError):
    """A run could not be carried out, though everything that was given is right."""


Column = list[str | None]
"""The cells of a column as text; None where a cell is blank."""


@dataclass(frozen=True, slots=True)
class Cases:
    """What a suite asks and, where it is known, what is right."""

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
        text = content.decode("utf-8-sig")  # line ends inside cells stay as they are
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


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """A run of a suite before it begins: its document and the candidates to judge."""

    suite: Suite
    name: str
    document: Mapping[str, Any]
    """The suite with the contexts and the metadata of this run."""
    candidates: tuple[str | None, ...]

    @property
    def answered(self) -> dict[str, Any]:
        """The document with the candidates as responses, which the run replays."""
        items = [
            item if response is None else {**item, "response": response}
            for item, response in zip(self.document["items"], self.candidates, strict=True)
        ]
        return {**self.document, "items": items}

    def keep_answered(self, root: Path) -> None:
        """Write that document, a line for each item: nobody edits it, and there may be very many."""
        about = one_line({name: value for name, value in self.document.items() if name != "items"}).removesuffix("}")
        items = ",\n".join(map(one_line, self.answered["items"]))
        file = run_file(root, self.suite.name, self.name)
        write_below(root, file, f'{about}, "items": [\n{items}\n]}}\n')


@light_record(frozen=True, slots=True)
class Row:
    """One case of a run with what came of it; `problem` says why there is no answer or no score."""

    input: str
    reference: str | None
    context: str | None
    output: str | None
    score: float | None
    category: str | None
    reason: str
    problem: str | None


def suite_run(
    suite: Suite,
    name: str,
    candidates: Column,
    contexts: Column | None,
    metadata: Mapping[str, object],
    *,
    needs_context: bool,
) -> SuiteRun:
    """A run that fits its suite; an exception says what does not."""
    items = suite.data["items"]
    if len(candidates) != len(items):
        raise UserValueError(f"there are {len(candidates)} candidate outputs, and the suite has {len(items)} cases")
    if contexts is not None and len(contexts) != len(items):
        raise UserValueError(f"there are {len(contexts)} contexts, and the suite has {len(items)} cases")
    if needs_context and contexts is None:
        raise UserValueError(
            f"scoring by {suite.method['name']} needs the context of each case; give context_column or "
            "context_input_list"
        )
    for key, value in metadata.items():
        if value is not None and not isinstance(value, str):
            raise UserTypeError(f"{key} must be text, not {type(value).__name__}")
    about = {key: value for key, value in metadata.items() if value is not None}
    with_context = [
        item if text is None else {**item, "context": text}
        for item, text in zip(items, contexts or [None] * len(items), strict=True)
    ]
    extensions = {**suite.data["extensions"], MARK: {**suite.about, "run": about}}
    return SuiteRun(
        suite,
        checked_name(name, "run"),
        {**suite.data, "extensions": extensions, "items": with_context},
        tuple(candidates),
    )


def prepare_run(
    run: SuiteRun,
    project: Project,
    judge: str | TargetConfig | None = None,
    *,
    own_evaluators: Mapping[str, type[Evaluator]] = MappingProxyType({}),
    ready: Mapping[str, Target] = MappingProxyType({}),
) -> PreparedRun:
    """A run of a suite ready to be stored, its candidates kept as answers to replay.

    UserValueError where the suite has a run of this name, CannotPlan where it needs a judge and none is named.
    """
    root = project.root
    file = suite_file(root, run.suite.name)
    candidates = run_file(root, run.suite.name, run.name)
    replayed, answered = candidates.relative_to(root).as_posix(), run.answered
    request = RunRequest(
        document=Document(file, strictjson.dumps(run.document), "", "document", dict(run.document)),
        source=source_of(root, run.suite.name),
        name=run.name,
        suite=run.suite.name,
        targets=(f"replay:{replayed}",),
        judge=judge,
        own_evaluators=own_evaluators,
        ready={**ready, f"replay:{replayed}": Replay(captured(answered["items"], replayed), replayed)},
        repeats=1,
    )
    prepared = prepare(request, project)
    with Reader(project.store) as reader:
        refuse_twice(reader, run.suite.name, run.name)
    run.keep_answered(root)
    return prepared


def source_of(root: Path, suite: str) -> str:
    """How a run names the file of its suite."""
    return dataset_key(str(suite_file(root, suite)), root)


def refuse_twice(reader: Reader, suite: str, name: str) -> None:
    """UserValueError where the suite has a run of this name."""
    if any(run.name == stored_name(name) for run in runs_of(reader, suite)):
        raise UserValueError(f"the suite {suite!r} has a run {name!r} already; give this run another name")


def stored_name(name: str) -> str:
    """How the name of a run stands in the store, where each is one line."""
    return safe_line(name)


def runs_of(reader: Reader, suite: str) -> list[RunRow]:
    """The runs of a suite, the first one first."""
    file = suite_file(Path(), suite).as_posix()
    return [run for run in every_run(reader) if run.suite == suite and run.source.endswith(file)][::-1]


def metadata_of(reader: Reader, run: RunRow) -> dict[str, str]:
    """What was noted of the model and the prompt of a run."""
    about = (reader.snapshot(run.snapshot).get("extensions") or {}).get(MARK) or {}
    noted = about.get("run") or {}
    return {key: str(noted[key]) for key in (*METADATA, *sorted(noted.keys() - set(METADATA))) if key in noted}


def rows_of(reader: Reader, run: RunRow) -> list[Row]:
    """The cases of a run with their outputs and scores, in the order of the suite."""
    items = reader.snapshot(run.snapshot)["items"]
    return [_row(items[item], text, message, *score) for item, text, message, score in reader.replies(run)]


def _row(
    item: Mapping[str, Any],
    text: str | None,
    message: str | None,
    evaluator: str | None,
    score: float | None,
    result: str | None,
    label: str | None,
    reason: str | None,
) -> Row:
    return Row(
        input=item["prompt"],
        reference=item.get("expected_response"),
        context=item.get("context"),
        output=text,
        score=score,
        category=category_of(evaluator, result, label) if evaluator is not None else None,
        reason=reason or "",
        problem=message if text is None else reason if result in ("error", "skipped") else None,
    )


def average(scores: Sequence[float | None]) -> float | None:
    """The mean of the scores there are; None where there are none."""
    known = [score for score in scores if score is not None]
    return sum(known) / len(known) if known else None
