"""The runs in a `bench_runs/` folder: outputs and scores, by the cases of their suite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tui_evals.datasets.losses import Losses
from tui_evals.datasets.model import Dataset
from tui_evals.evaluators.registry import built_in
from tui_evals.runs.prompting import of_dataset
from tui_evals.runs.recording import chat_before
from tui_evals.runs.suites.keeping import FOLDER, MARK
from tui_evals.runs.suites.methods import PASSING, Method
from tui_evals.runs.suites.running import METADATA
from tui_evals.store.records import AnswerRecord, ScoreRecord

from .bench_files import BenchFile, named_in
from .model import Recorded, Recording, digest_of

BY = "Arthur Bench"
UNKNOWN_MODEL = "unknown model"


def recording_of(
    file: BenchFile,
    suite: BenchFile,
    document: Mapping[str, Any],
    method: Method,
    numbers: Mapping[str, int],
    losses: Losses,
) -> Recording:
    """The run of a file, beside the file and the document of its suite; `numbers` are the places of cases by id."""
    name = named_in(file, "run", losses)
    belongs = file.get(("test_suite_id",), str, optional=True)
    if belongs is not None and belongs != suite.data.get("id"):
        file.refuse(f"is {belongs}, and the suite beside it is {suite.data.get('id')}", "test_suite_id")
    noted = {key: value for key in METADATA if (value := file.get((key,), str, optional=True))}
    if not noted:
        losses.left_out("model and prompt of runs", why="Arthur Bench does not keep them in its files")
    mark = {**document["extensions"][MARK], "run": noted}
    asked = {**document, "extensions": {**document["extensions"], MARK: mark}}
    key = "test_cases" if "test_cases" in file.data else "test_case_outputs"
    if len(file.get((key,), list)) != len(numbers):
        file.refuse(f"holds {len(file.data[key])} outputs, and the suite has {len(numbers)} cases", key)
    answers = _answers(file, key, Dataset.model_validate(asked), method, numbers, losses)
    when = file.time("created_at")
    return Recording(
        by=BY,
        digest=digest_of(asked, answers, name, when),
        document=asked,
        source=(FOLDER / f"{document['metadata']['name']}.json").as_posix(),
        name=name,
        targets=(noted.get("model_name", UNKNOWN_MODEL),),
        answers=answers,
        suite=document["metadata"]["name"],
        started=when,
        finished=when,
    )


def _answers(
    file: BenchFile, key: str, dataset: Dataset, method: Method, numbers: Mapping[str, int], losses: Losses
) -> tuple[Recorded, ...]:
    found: dict[int, Recorded] = {}
    categorical: set[bool] = set()
    for number, _ in enumerate(file.data[key]):
        place = (key, number)
        identity = file.get((*place, "id"), str)
        item = numbers.get(identity)
        if item is None or item in found:
            says = "is of no case of the suite" if item is None else "was answered before"
            file.refuse(f"{identity} {says}", *place, "id")
        text = file.get((*place, "output"), str)
        score, category = _result(file, place)
        categorical.add(category is not None)
        if len(categorical) > 1:
            file.refuse("some results have a category and some have none", *place, "score_result", "category")
        asked = chat_before(dataset, dataset.items[item], 0, of_dataset(dataset))
        answer = AnswerRecord(text=text, request={"messages": list(asked)})
        record = _score(method, score, category)
        if record.result == "error":
            losses.changed("scores of -1 for what the judge could not tell are now errors, which count in no mean")
        found[item] = Recorded(item=item, answer=answer, scores=(record,))
    return tuple(found[item] for item in sorted(found))


def _result(file: BenchFile, place: Sequence[str | int]) -> tuple[float | None, str | None]:
    """Score and category of a case; earlier files have the score alone."""
    category = None
    if file.get((*place, "score_result"), dict, optional=True) is None:
        score = file.number(*place, "score")
    else:
        score = file.number(*place, "score_result", "score")
        if file.get((*place, "score_result", "category"), dict, optional=True) is not None:
            category = file.get((*place, "score_result", "category", "name"), str)
    if score is None and category is None:
        file.refuse("has neither a score nor a category", *place, "score_result")
    return score, category


def _score(method: Method, score: float | None, category: str | None) -> ScoreRecord:
    (key, *_) = method.evaluators
    kind = None if method.custom else built_in()[method.name]
    record = ScoreRecord(
        key=key, evaluator=kind.name if kind else method.name, score=score, result=None, label=category
    )
    if kind is None or not method.categories:
        return record
    if category == "invalid":
        return replace(record, score=None, result="error", reason="the judge gave no verdict")
    good = category in PASSING if category is not None else score == 1
    return replace(record, result="pass" if good else "fail")
