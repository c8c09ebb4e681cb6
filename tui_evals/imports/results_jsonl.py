"""Results that tui-evals exported as lines of JSON, read back as the run they were written from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from tui_evals.datasets.paths import DatasetError, Problem
from tui_evals.imports.base import Losses
from tui_evals.project_files import read_head
from tui_evals.store.records import AnswerRecord, ScoreRecord
from tui_evals.text import strictjson
from tui_evals.transcript import Transcript, from_json

from .answer_lines import AnswerLine, recording_of_lines
from .base import Importer, ImportRequest, ImportResult
from .keeping import keep_run, keep_runs, text_of
from .recording import Recording

_MARKS = ('"run":', '"item":', '"turn":', '"target":', '"scores":')
_ANSWER = TypeAdapter(AnswerRecord)
_SCORES = TypeAdapter(tuple[ScoreRecord, ...])
_ANSWER_FIELDS = frozenset(one.name for one in fields(AnswerRecord))


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    run: str
    item: str
    turn: int = Field(ge=1, le=10_000)
    target: str
    prompt_under_test: str | None = None
    repeat: int = Field(1, ge=1, le=1_000_000)
    category: str | None = None
    prompt: str | None = None
    expected_response: str | None = None
    status: str
    score: float | None = None
    answer: dict[str, Any] | None = None
    scores: list[dict[str, Any]] = []
    together: list[dict[str, Any]] = []


def _transcript(told: object, path: Path, number: int) -> Transcript:
    try:
        return from_json(told)
    except ValueError as problem:
        raise DatasetError(str(path), [Problem(str(problem), ("answer", "transcript"), number)]) from None


def recognises(path: Path) -> bool:
    """Whether a file is lines of JSON as `tui-evals export --to jsonl` writes them."""
    if path.suffix.lower() != ".jsonl" or not path.is_file():
        return False
    head = read_head(path, 2**20, follow_out=True).partition(b"\n")[0].decode("utf-8", "replace")
    return head.startswith("{") and all(mark in head for mark in _MARKS)


def read(path: Path) -> tuple[list[Recording], Losses]:
    """The runs of a file, one after the other; DatasetError says which line is wrong."""
    return read_lines(path, text_of(path))


def read_lines(path: Path, text: str) -> tuple[list[Recording], Losses]:
    """The runs in lines that a file holds, be it in another wrapping."""
    runs: dict[str, list[AnswerLine]] = {}
    for key, line in _lines(path, text):
        runs.setdefault(key, []).append(line)
    losses = Losses()
    if not runs:
        raise DatasetError(str(path), [Problem("holds no line")])
    names = [path.stem] if len(runs) == 1 else [f"{path.stem} {key}" for key in runs]
    return [recording_of_lines(path, *each, losses) for each in zip(runs.values(), names, strict=True)], losses


def _lines(path: Path, whole: str) -> Iterator[tuple[str, AnswerLine]]:
    for number, text in enumerate(whole.split("\n"), 1):
        if not text.strip():
            continue
        try:
            line = _Line.model_validate(strictjson.loads(text))
            answer = None
            if line.answer is not None:
                known = {name: value for name, value in line.answer.items() if name in _ANSWER_FIELDS}
                told = known.pop("transcript", None)
                answer = _ANSWER.validate_python({**known, "request": {}})
                answer = replace(answer, transcript=None if told is None else _transcript(told, path, number))
            scores = _SCORES.validate_python(line.scores)
            together = _SCORES.validate_python(line.together)
        except strictjson.JsonError as problem:
            raise DatasetError(str(path), [Problem(str(problem), line=number)]) from None
        except ValidationError as problem:
            first = problem.errors(include_url=False)[0]
            raise DatasetError(str(path), [Problem(first["msg"], tuple(first["loc"]), number)]) from None
        asked = {"prompt": line.prompt, "expected_response": line.expected_response}
        yield (
            line.run,
            AnswerLine(
                line=number,
                item=line.item,
                turn=line.turn - 1,
                target=line.target,
                repeat=line.repeat - 1,
                prompt=line.prompt_under_test or "",
                asked={name: value for name, value in asked.items() if value is not None},
                about={} if line.category is None else {"category": line.category},
                status=line.status,
                score=line.score,
                answer=answer,
                scores=scores,
                together=together,
            ),
        )


def _import(request: ImportRequest) -> ImportResult:
    recordings, losses = read(request.path)
    if len(recordings) == 1:
        return keep_run(request, lambda _: (recordings[0], losses))
    return keep_runs(request, recordings, losses)


IMPORTER = Importer(
    kind="results-jsonl",
    about="results that tui-evals exported (.jsonl)",
    recognises=recognises,
    read=_import,
    recordings=lambda request: read(request.path)[0],
    order=71,
)
