"""Results of promptfoo as a finished run: its questions, answers and verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tui_evals.datasets.paths import DatasetError, Problem
from tui_evals.evaluators.conditions import LEFT_OUT
from tui_evals.imports.base import CannotRead, Importer, ImportRequest, ImportResult, Losses
from tui_evals.imports.keeping import json_in, keep_run, keep_runs
from tui_evals.imports.promptfoo import SO_FAR, Configuration, conversation_of, is_conversation, read_source
from tui_evals.imports.promptfoo.prompts import chat_in, model_of
from tui_evals.imports.promptfoo.values import Seen
from tui_evals.imports.recording import RecordedAnswer, Recording, digest_of
from tui_evals.project_files import read_head
from tui_evals.runs.prompting import PromptUnderTest
from tui_evals.store.connection import foreign_rows, is_database
from tui_evals.store.records import AnswerRecord, ScoreRecord
from tui_evals.text import strictjson
from tui_evals.text.measures import counted

from .promptfoo.asserts import Asserts, Judged, Version, label_of, unweighted, version_of
from .promptfoo.cases import TRANSFORMS
from .promptfoo.files import Source, Spot
from .promptfoo.values import Values, literal

BY = TAG = "promptfoo"
_SET = "assert-set"
_TABLES = ("evals", "eval_results")
_CAMEL = {
    "test_case": "testCase",
    "prompt": "prompt",
    "provider": "provider",
    "response": "response",
    "error": "error",
    "failure_reason": "failureReason",
    "latency_ms": "latencyMs",
    "cost": "cost",
    "grading_result": "gradingResult",
}
_BROKE_OFF = 2  # promptfoo's mark of a row that failed because of an error, not because of its answer


class _ResultsPart(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Tokens(_ResultsPart):
    prompt: int | None = None
    completion: int | None = None
    total: int | None = None


class _Response(_ResultsPart):
    output: Any = None
    error: str | None = None
    cached: bool = False
    cost: float | None = None
    tokenUsage: _Tokens | None = None
    finishReason: str | None = None


class _Assertion(_ResultsPart):
    type: str
    metric: str | None = None
    weight: float | None = None
    threshold: float | None = None


class _Component(_ResultsPart):
    passed: bool = Field(alias="pass")
    score: float | None = None
    reason: str | None = None
    assertion: _Assertion | None = None


class _Grading(_ResultsPart):
    componentResults: list[_Component | None] | None = None


class _Shown(_ResultsPart):
    raw: Any = ""
    label: str = ""


class _Provider(_ResultsPart):
    id: str
    label: str | None = None


class _Row(_ResultsPart):
    """One answer."""

    promptIdx: int = Field(0, ge=0)
    testIdx: int = Field(ge=0)
    testCase: dict[str, Any] = {}
    vars: dict[str, Any] = {}
    prompt: _Shown = _Shown()
    provider: _Provider
    response: _Response | None = None
    error: str | None = None
    success: bool = False
    failureReason: int | None = None
    latencyMs: float | None = None
    cost: float | None = None
    gradingResult: _Grading | None = None


class _Results(_ResultsPart):
    version: Literal[3]
    timestamp: str | None = None
    prompts: list[_Shown] = []
    results: list[_Row]


class _File(_ResultsPart):
    evalId: str | None = None
    results: _Results
    config: dict[str, Any] = {}
    metadata: dict[str, Any] = {}

    @property
    def version(self) -> Version | None:
        """The version of promptfoo that wrote it."""
        return version_of(str(self.metadata.get("promptfooVersion", "")))


def recognises(path: Path) -> bool:
    """Whether a file has the looks of the results of promptfoo, or is its database."""
    if not path.is_file():
        return False
    if path.suffix.lower() != ".json":
        return is_database(path, _TABLES)
    head = read_head(path, 4096, follow_out=True)
    if b'"evalId"' not in head and b'"promptIdx"' not in head:
        return False
    value = json_in(path)
    return isinstance(value, dict) and isinstance(value.get("results"), dict) and "results" in value["results"]


def read(path: Path) -> tuple[Recording, Losses]:
    """The run in a file of results; raises DatasetError."""
    return _read(path, json_in(path))


def _read(path: Path, value: object) -> tuple[Recording, Losses]:
    try:
        file = _File.model_validate(value)
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        what = f"is not as promptfoo 0.90 and later writes results: {first['msg']}"
        raise DatasetError(str(path), [Problem(what, tuple(first["loc"]))]) from None
    rows = sorted(file.results.results, key=lambda row: (row.testIdx, row.promptIdx))
    if not rows:
        raise DatasetError(str(path), [Problem("holds no answers", ("results", "results"))])
    return _recording(path, file, rows)


def _in_database(path: Path) -> Iterator[object]:
    """The evals of promptfoo's own database, the oldest first, as its files of results have them."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in foreign_rows(path, "SELECT * FROM eval_results ORDER BY eval_id, test_idx, prompt_idx"):
        rows.setdefault(row["eval_id"], []).append(
            {
                "promptIdx": row["prompt_idx"],
                "testIdx": row["test_idx"],
                **{_CAMEL[name]: _json(row[name]) for name in _CAMEL},
                "vars": (_json(row["test_case"]) or {}).get("vars", {}),
                "success": bool(row["success"]),
            }
        )
    for one in foreign_rows(path, "SELECT * FROM evals ORDER BY created_at"):
        if answers := rows.get(one["id"]):
            when = datetime.fromtimestamp(one["created_at"] / 1000, UTC).isoformat()
            prompts = _json(one["prompts"]) or []
            results = {"version": 3, "timestamp": when, "prompts": prompts, "results": answers}
            yield {"evalId": one["id"], "config": _json(one["config"]) or {}, "results": results}


def _json(value: object) -> Any:
    """A value of a column, which is plain or JSON."""
    return strictjson.loads(value) if isinstance(value, str) and (value[:1] in ("{", "[") or value == "null") else value


def _import(request: ImportRequest) -> ImportResult:
    if request.path.suffix.lower() == ".json":
        return keep_run(request, read)
    return keep_runs(request, *_of_database(request.path))


def _of_database(path: Path) -> tuple[list[Recording], Losses]:
    losses, recordings = Losses(), []
    for value in _in_database(path):
        recording, told = _read(path, value)
        losses.extend(told)
        recordings.append(recording)
    if not recordings:
        raise CannotRead(f"{path} holds no eval with answers")
    return recordings, losses


def _recordings(request: ImportRequest) -> Sequence[Recording]:
    is_file = request.path.suffix.lower() == ".json"
    return (read(request.path)[0],) if is_file else _of_database(request.path)[0]


def _recording(path: Path, file: _File, rows: Sequence[_Row]) -> tuple[Recording, Losses]:
    first = {row.testIdx: row for row in reversed(rows)}
    tests = [first[number] for number in sorted(first)]
    written = list(dict.fromkeys(map(_as_written, file.results.prompts or [row.prompt for row in rows])))
    prompts = [{"raw": raw, "label": label or raw} for raw, label in written]
    config = {
        "description": file.config.get("description"),
        "prompts": prompts,
        "tests": [_asked(row) for row in tests],
    }
    configuration, losses = _read_config(path, config)
    if len(configuration.prompts) < len(written):  # each answer is to one of them, so each keeps its place
        config["prompts"] = [one if _can_be_read(path, config, one) else _as_text(one) for one in prompts]
        configuration, _ = _read_config(path, config)
    places = _places(tests, configuration)
    judged = {row.testIdx: _Assertions(row, path, file.version, losses) for row in tests}
    document = _with_evaluators(configuration.data, {places[number]: one.evaluators for number, one in judged.items()})
    targets = list(dict.fromkeys(_target(row.provider) for row in rows))
    answers: list[RecordedAnswer] = []
    repeats: Counter[tuple[int, ...]] = Counter()
    for row in rows:
        item, turn = places[row.testIdx]
        prompt = _prompt_of(row, file, written)
        cell = (item, turn, prompt, target := targets.index(_target(row.provider)))
        answer = _answer(row, losses)
        answers.append(
            RecordedAnswer(
                item=item,
                turn=turn,
                prompt=prompt,
                target=target,
                repeat=repeats[cell],
                answer=answer,
                scores=judged[row.testIdx].scores(row) if answer.text is not None else (),
                is_data=row.response is not None and not isinstance(row.response.output, str | None),
            )
        )
        repeats[cell] += 1
    if evaluators := sum(len(one.evaluators) for one in judged.values()):
        losses.carried(counted(evaluators, "evaluator"))
    losses.carried(f"{counted(len(rows), 'answer')} with their verdicts")
    when = _time(file.results.timestamp)
    return Recording(
        by=BY,
        digest=digest_of(document, targets, answers, file.evalId),
        document=document,
        source=str(path),
        name=str(file.config.get("description") or path.stem),
        targets=tuple(targets),
        answers=tuple(answers),
        prompts=tuple(PromptUnderTest(one.name, messages=one.messages) for one in configuration.prompts)
        if len(written) > 1
        else (),
        tags=(TAG,),
        about={"eval": file.evalId} if file.evalId else {},
        started=when,
        finished=when,
        verdicts_only=True,
        transformed=_transformed(tests, file, places),
    ), losses


def _read_config(path: Path, config: Mapping[str, Any]) -> tuple[Configuration, Losses]:
    given = {name: value for name, value in config.items() if value}
    return read_source(Source(path.name, given, lambda _: None), path.parent)


def _can_be_read(path: Path, config: Mapping[str, Any], prompt: Mapping[str, Any]) -> bool:
    """Whether a prompt can be one of several here."""
    other = {"raw": "-", "label": "-"}
    return len(_read_config(path, {**config, "prompts": [other, prompt]})[0].prompts) == len((other, prompt))


def _as_text(prompt: Mapping[str, Any]) -> dict[str, Any]:
    """A prompt whose template cannot be used here, as the text of that template."""
    return {**prompt, "raw": literal(prompt["raw"])}


def _transformed(tests: Sequence[_Row], file: _File, places: Mapping[int, tuple[int, int]]) -> frozenset[int]:
    """The items whose answers a transform of provider or test had changed before they were recorded."""
    by_provider = any(_names_transform(one) for one in _listed(file.config.get("providers")))
    changed = (row for row in tests if by_provider or _names_transform(row.testCase.get("options")))
    return frozenset(places[row.testIdx][0] for row in changed)


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _names_transform(value: object) -> bool:
    """Whether a provider, or the options of a test, change answers before they are judged."""
    if not isinstance(value, dict):
        return False
    return any(value.get(name) for name in TRANSFORMS) or any(map(_names_transform, value.values()))


def _as_written(shown: _Shown) -> tuple[str, str]:
    return shown.raw if isinstance(shown.raw, str) else strictjson.dumps(shown.raw), shown.label


def _asked(row: _Row) -> dict[str, Any]:
    """The test as a configuration has it, without what judges it; each variable has one value by now."""
    options = {key: part for key, part in row.testCase.get("options", {}).items() if key == "provider"}
    kept = {key: row.testCase[key] for key in ("description", "metadata", "threshold") if row.testCase.get(key)}
    values = {name: value for name, value in row.vars.items() if name != SO_FAR}
    return {**kept, "vars": values, "options": {**options, "disableVarExpansion": True}, "assert": []}


def _places(tests: Sequence[_Row], configuration: Configuration) -> dict[int, tuple[int, int]]:
    """The item and turn of each test; the tests of one conversation are turns of one item."""
    if not (len(configuration.prompts) == 1 and is_conversation(configuration.prompts[0])):
        return {row.testIdx: (place, 0) for place, row in enumerate(tests)}
    turns: dict[str, list[int]] = {}
    for row in tests:
        turns.setdefault(conversation_of(row.testCase.get("metadata") or {}), []).append(row.testIdx)
    return {number: (item, turn) for item, numbers in enumerate(turns.values()) for turn, number in enumerate(numbers)}


def _prompt_of(row: _Row, file: _File, written: Sequence[tuple[str, str]]) -> int:
    """Which of the prompts a row was asked with; its own text is filled already."""
    if row.promptIdx < len(file.results.prompts):
        return written.index(_as_written(file.results.prompts[row.promptIdx]))
    return next((place for place, (_, label) in enumerate(written) if label == row.prompt.label), 0)


def _target(provider: _Provider) -> str:
    return provider.label or model_of(provider.id) or provider.id


def _with_evaluators(
    data: Mapping[str, Any], evaluators: Mapping[tuple[int, int], Mapping[str, Any]]
) -> dict[str, Any]:
    """The document with the evaluators of every test, which are the default ones where all have the same."""
    given = list(evaluators.values())
    if all(one == given[0] for one in given):
        return {**data, "default_evaluators": dict(given[0])}
    items = [dict(item) for item in data["items"]]
    for (number, turn), own in evaluators.items():
        item = items[number]
        if "turns" in item:
            turns = list(item["turns"])
            turns[turn] = {**turns[turn], "evaluators": dict(own)} if own else turns[turn]
            item["turns"] = turns
        elif own:
            item["evaluators"] = dict(own)
    return {**data, "items": items}


class _Assertions:
    """The assertions of a test in the order of their verdicts, each with the key of its scores."""

    def __init__(self, row: _Row, path: Path, version: Version | None, losses: Losses) -> None:
        spot = Spot(Source(path.name, row.testCase, lambda _: None), (), row.testCase)
        self._spots = list(_flat(spot.get("assert")))
        values = Values(path.parent, True, losses)
        reader = Asserts(row.vars, values.of_assert, None, Seen(), losses, path.parent, version=version)
        read = {one.path: next(reader.all([one])) for one in self._spots}
        heaviest = max([1.0, *(float(one.value.get("weight") or 0) for one in self._spots)])
        keys = list(_keys(self._spots, read))
        self.evaluators: dict[str, Any] = {}
        self._known: list[tuple[str, str, float]] = []
        for spot, key in zip(self._spots, keys, strict=True):
            judged = read[spot.path]
            kind = str(spot.value.get("type"))
            weight = float(spot.value.get("weight", 1)) / heaviest
            self._known.append((key, kind if judged.name == LEFT_OUT else judged.name, weight))
            options = unweighted(judged, heaviest)
            self.evaluators[key] = options if key == judged.name else {"type": judged.name, **options}

    def scores(self, row: _Row) -> tuple[ScoreRecord, ...]:
        """The verdicts of one answer."""
        grading = row.gradingResult or _Grading()
        told = [one for one in grading.componentResults or () if one and one.assertion and one.assertion.type != _SET]
        if len(told) != len(self._known):
            return ()
        return tuple(
            ScoreRecord(
                key=key,
                evaluator=evaluator,
                score=None if one.score is None else min(max(one.score, 0.0), 1.0),
                result="pass" if one.passed else "fail",
                reason=one.reason or "",
                weight=weight,
            )
            for one, (key, evaluator, weight) in zip(told, self._known, strict=True)
        )


def _flat(spot: Spot | None) -> Iterator[Spot]:
    """Assertions in the order in which they are judged, those of a set in its place."""
    for one in spot.entries() if spot is not None else ():
        one.mapping()
        if one.value.get("type") == _SET:
            yield from _flat(one.get("assert"))
        else:
            yield one


def _keys(spots: Sequence[Spot], read: Mapping[Any, Judged]) -> Iterator[str]:
    """The keys of each assertion's scores: those of its imported evaluator."""
    taken: set[str] = set()
    for spot in spots:
        judged, kind = read[spot.path], str(spot.value.get("type"))
        metric = spot.value.get("metric")
        wanted = label_of(str(metric)) if metric else label_of(kind) if judged.name == LEFT_OUT else judged.name
        key, number = wanted, 1
        while key in taken:
            number += 1
            key = f"{wanted}_{number}"
        taken.add(key)
        yield key


def _answer(row: _Row, losses: Losses) -> AnswerRecord:
    response = row.response or _Response()
    asked = row.prompt.raw if isinstance(row.prompt.raw, str) else strictjson.dumps(row.prompt.raw)
    request = {"messages": chat_in(asked) or [{"role": "user", "content": asked}]}
    if (response.error or (row.error and row.failureReason == _BROKE_OFF)) and response.output is None:
        return AnswerRecord(
            text=None, request=request, code="agentRequestFailed", message=response.error or row.error or "no answer"
        )
    output = response.output
    text = output if isinstance(output, str) else "" if output is None else strictjson.dumps(output)
    tokens = response.tokenUsage or _Tokens()
    return AnswerRecord(
        text=text,
        request=request,
        input_tokens=tokens.prompt,
        output_tokens=tokens.completion,
        cost=row.cost if row.cost is not None else response.cost,
        latency_ms=row.latencyMs,
        from_cache=response.cached,
        finish_reason=response.finishReason,
        model=model_of(row.provider.id) or row.provider.id,
    )


def _time(stamp: str | None) -> float | None:
    if not stamp:
        return None
    try:
        when = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


IMPORTER = Importer(
    kind="promptfoo-results",
    about="results that promptfoo wrote with -o, .json, or its database promptfoo.db",
    recognises=recognises,
    read=_import,
    recordings=_recordings,
    order=25,
)
