"""A baseline as a committed file: the verdicts and figures of a run, without its texts, and with a digest.

An item is identified by its `testId` and a hash of its content. The texts come from the dataset of the checkout, so the
file is small, contains nothing private, and changes line by line. Earlier versions of an edited item are not in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from tui_evals.datasets.attachments import with_pinned_files
from tui_evals.datasets.discover import BASELINE
from tui_evals.datasets.document import Document, as_document, load
from tui_evals.datasets.matrix import expanded
from tui_evals.datasets.paths import DatasetError
from tui_evals.imports.base import Losses
from tui_evals.present.figures import figure_data
from tui_evals.present.runs import column_names
from tui_evals.project_files import read_head
from tui_evals.reports.results import conversations
from tui_evals.runs.experiments import read_experiment
from tui_evals.runs.prompting import PromptUnderTest
from tui_evals.runs.status import EXPERIMENT
from tui_evals.store.baselines import dataset_key
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, RunRow, ScoreRecord
from tui_evals.text.strictjson import JsonError, loads

from .base import CannotRead, Importer, ImportRequest
from .keeping import keep_run, text_of
from .recording import RecordedAnswer, Recording, digest_of

FORMAT = "tui-evals baseline 1"
_HASH = 16
"""Characters of a hash: among a million items the same one comes twice in less than one of ten million files."""


class _Score(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    evaluator: str
    result: str | None = None
    score: float | None = None
    threshold: float | None = None
    measure: str = ""
    weight: float = 1.0
    reason: str = ""


class _Turn(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    status: Literal["pass", "fail", "partial", "error", "unjudged", "scored"]
    scores: dict[str, _Score] = {}
    answer: str | None = None


class _Item(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    item: str
    testId: str | None = None
    target: int = 0
    prompt: int = 0
    repeat: int = 1
    turns: list[_Turn]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    format: str
    dataset: str
    experiment: str | None = None
    run: str
    name: str
    finished: str
    targets: list[str]
    prompts: list[str]
    figures: list[dict[str, Any]] = []
    default_evaluators: dict[str, Any] | None = None
    items: list[_Item]
    digest: str


def baseline_text(reader: Reader, run: RunRow, root: Path, *, texts: bool = False) -> str:
    """The baseline file of a run: sorted, an item a line; answers and reasons only with `texts`."""
    dataset = reader.dataset(run)
    totals, names = reader.totals_by(run.id, "column"), column_names(run)
    head: dict[str, Any] = {
        "format": FORMAT,
        "dataset": dataset_key(run.source, root, root),
        **({EXPERIMENT: run.config[EXPERIMENT]} if EXPERIMENT in run.config else {}),
        "run": run.key,
        "name": run.name,
        "finished": datetime.fromtimestamp(run.finished or run.created, UTC).isoformat(timespec="seconds"),
        "targets": list(run.targets),
        "prompts": list(run.prompts),
        "figures": [
            {"column": names[column], "passed": one.passed, "judged": one.passed + one.failed, **_rate(one.pass_rate)}
            for column, one in totals.items()
        ],
    }
    if "default_evaluators" in dataset.head:
        head["default_evaluators"] = dataset.head["default_evaluators"]
    items = sorted(_items(reader, run, dataset.items, texts), key=lambda one: json.dumps(one, sort_keys=True))
    items.sort(key=lambda one: (one.get("testId", ""), one["item"], one.get("prompt", 0), one.get("target", 0)))
    whole = {**head, "items": items}
    lines = [f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()]
    listed = ",\n".join(f"    {json.dumps(one, ensure_ascii=False)}" for one in items)
    lines += [f'  "items": [\n{listed}\n  ]', f'  "digest": "{_digest(whole)}"']
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _rate(rate: Any) -> dict[str, Any]:
    return {} if rate is None else {"pass_rate": figure_data(rate)}


def _digest(whole: Mapping[str, Any]) -> str:
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _hash(item: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(item, sort_keys=True).encode()).hexdigest()[:_HASH]


def _items(reader: Reader, run: RunRow, items: Any, texts: bool) -> Iterator[dict[str, Any]]:
    for entries in conversations(reader, run, items):
        row, item = entries[0].row, items[entries[0].row.item]
        named: dict[str, Any] = {"testId": item["testId"]} if isinstance(item.get("testId"), str) else {}
        named["item"] = _hash(item)
        named |= {key: at for key, at in (("prompt", row.prompt), ("target", row.target)) if at}
        named |= {"repeat": row.repeat + 1} if row.repeat else {}
        turns = []
        for one in entries:
            turn: dict[str, Any] = {"status": one.row.status}
            if one.scores:
                turn["scores"] = {score.key: _score(score, texts) for score in one.scores}
            if texts and one.record is not None and one.record.text is not None:
                turn["answer"] = one.record.text
            turns.append(turn)
        yield {**named, "turns": turns}


def _score(score: ScoreRecord, texts: bool) -> dict[str, Any]:
    kept = {
        "evaluator": score.evaluator,
        "result": score.result,
        "score": score.score,
        "threshold": score.threshold,
        "measure": score.measure or None,
        "weight": None if score.weight == 1.0 else score.weight,
        "reason": score.reason if texts else None,
    }
    return {name: value for name, value in kept.items() if value is not None}


def recognises(path: Path) -> bool:
    """Whether a file is a baseline that was exported."""
    if not path.name.lower().endswith(".json") or not path.is_file():
        return False
    return BASELINE in read_head(path, 200, follow_out=True)


def _read(request: ImportRequest) -> tuple[Recording, Losses]:
    path, losses = request.path, Losses()
    try:
        value = loads(text_of(path))
        read = _File.model_validate(value)
    except JsonError as problem:
        raise CannotRead(f"{path}:{problem.line or 1}: {problem}") from None
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        raise CannotRead(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    given = {key: part for key, part in dict(value).items() if key != "digest"}  # type: ignore[call-overload]
    if _digest(given) != read.digest:
        raise CannotRead(
            f"{path} was edited by hand: its digest does not match. Write it again: tui-evals baseline export -o {path}"
        )
    document = _document(read, request)
    items = [dict(item) for item in document["items"]]
    places: dict[str, list[int]] = {}
    for place, item in enumerate(items):
        places.setdefault(_hash(item), []).append(place)
    answers: list[RecordedAnswer] = []
    gone = 0
    for one in read.items:
        if one.item not in places:
            gone += 1
            places[one.item] = [len(items)]
            named = {"testId": one.testId} if one.testId is not None else {}
            items.append({**named, **_unknown(len(one.turns))})
        answers += _answers(one, places[one.item][0])
    if gone:
        losses.left_out(f"{gone} items that are not in the dataset any more, or were edited", why="texts are not in it")
    head = {**document, "items": items}
    head.pop("default_evaluators", None)
    if read.default_evaluators is not None:
        head["default_evaluators"] = read.default_evaluators
    finished = datetime.fromisoformat(read.finished).timestamp()
    return Recording(
        by="tui-evals",
        digest=digest_of(read.digest, head),
        document=head,
        source=read.dataset,
        name=read.name,
        targets=tuple(read.targets),
        answers=tuple(answers),
        prompts=tuple(map(PromptUnderTest, read.prompts)) if any(read.prompts) else (),
        about={"baseline_of": read.run},
        finished=finished,
    ), losses


def _unknown(turns: int) -> dict[str, Any]:
    unit = {"prompt": "(an item of the baseline that is not in the dataset)"}
    return unit if turns == 1 else {"turns": [unit] * turns}


def _document(read: _File, request: ImportRequest) -> Mapping[str, Any]:
    """The dataset of the checkout as a run would ask it; empty if it is missing."""
    root = request.project.root
    try:
        if read.experiment is not None and (root / read.experiment).is_file():
            document = read_experiment(root / read.experiment, root).document()[0]
        elif (root / read.dataset).is_file():
            document = load(root / read.dataset)
        else:
            return as_document([], "array")
        asked: Document = expanded(with_pinned_files(document))[0]
    except DatasetError as problem:
        raise CannotRead(f"{request.path} is of a dataset that cannot be read: {problem}") from None
    return asked.data


def _answers(one: _Item, item: int) -> Iterator[RecordedAnswer]:
    for number, turn in enumerate(one.turns):
        failed = turn.status == "error"
        record = AnswerRecord(
            text=None if failed else turn.answer or "",
            request={},
            code="agentRequestFailed" if failed else None,
            message="not in the baseline file" if failed else None,
        )
        scores = tuple(ScoreRecord(key=key, **_fields(score)) for key, score in turn.scores.items())
        yield RecordedAnswer(
            item=item,
            turn=number,
            prompt=one.prompt,
            target=one.target,
            repeat=one.repeat - 1,
            answer=record,
            scores=scores,
            status=turn.status,
        )


def _fields(score: _Score) -> dict[str, Any]:
    return score.model_dump()


IMPORTER = Importer(
    kind="baseline",
    about="a baseline that `baseline export` wrote (.json)",
    recognises=recognises,
    read=lambda request: keep_run(request, lambda path: _read(request)),
    recordings=lambda request: (_read(request)[0],),
    holds_answers=False,
    order=20,
)
