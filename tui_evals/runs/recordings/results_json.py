"""Our own results JSON, and that of runevals, back as a finished run: the dataset without outputs, and the outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tui_evals.datasets.document import Document, load
from tui_evals.datasets.losses import Losses
from tui_evals.datasets.model import Dataset, Item
from tui_evals.datasets.problems import DatasetError, Problem, shown
from tui_evals.datasets.validate import placed, typed
from tui_evals.runs.prompting import PromptUnderTest, of_dataset
from tui_evals.runs.recording import chat_before
from tui_evals.store.records import AnswerRecord

from .model import Recorded, Recording, Together, digest_of
from .results_entries import TOGETHER, Data, Entry, Refuse, entries_of, units_of
from .results_scores import scores_in

BY = "tui-evals"
UNKNOWN_TARGET = "unknown target"
_STAMPS = ("evaluatedAt", "agentName", "cliVersion")
_JUDGED = ("status", "scores")
_ANSWERED = (*_JUDGED, "response", "error")


def recognises(path: Path) -> bool:
    """Whether a file is an eval document with results in it."""
    if not path.name.lower().endswith((".json", ".json.gz")):
        return False
    try:
        return _has_results(load(path).data)
    except DatasetError:
        return False


def _has_results(data: Mapping[str, Any]) -> bool:
    items = data.get("items")
    units = (
        [unit for item in items if isinstance(item, dict) for unit in _parts(item)] if isinstance(items, list) else ()
    )
    return any(name in unit for unit in units for name in _JUDGED)


def _parts(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    turns = item.get("turns")
    return [turn for turn in turns if isinstance(turn, dict)] if isinstance(turns, list) else [item]


def read(path: Path) -> tuple[Recording, Losses]:
    """The run of a results file, and what the file does not tell; DatasetError says what is wrong with it."""
    document, losses = load(path), Losses()
    dataset, problems = typed(document.data)
    if dataset is None:
        raise DatasetError(str(path), placed(problems, document))
    if not _has_results(document.data):
        message = "holds no results: no item has a status or scores; as a dataset it can be run with `tui-evals run`"
        raise DatasetError(str(path), [Problem(message)])

    def refuse(message: str, place: tuple[str | int, ...]) -> DatasetError:
        return DatasetError(str(path), placed([Problem(message, place)], document))

    recording = _recording(document, path, refuse, losses)
    losses.carried(f"{len(recording.answers):,} answers with their scores and statuses")
    losses.left_out(
        "requests as they were sent, tool calls, tokens, costs and times of answers, details of scores, skipped scores",
        why="a results file does not hold them",
    )
    if recording.prompts or "prompt_file" in recording.document:
        losses.left_out("the prompt under test", why="a results file names it and does not hold it")
    return recording, losses


def _recording(document: Document, path: Path, refuse: Refuse, losses: Losses) -> Recording:
    metadata = document.data.get("metadata") or {}
    alone = metadata.get("agentName") or UNKNOWN_TARGET
    if not isinstance(alone, str):
        raise refuse("must be text", ("metadata", "agentName"))
    finished = _time(metadata.get("evaluatedAt"), refuse)
    items, entries = entries_of(document.data["items"], alone, refuse)
    source = _source(document.data, items)
    targets = tuple(dict.fromkeys(entry.column.target for entry in entries))
    prompts = tuple(dict.fromkeys(entry.column.prompt for entry in entries))
    dataset = Dataset.model_validate(source)
    answers = [
        one for entry in entries for one in _answers(dataset, document.data, entry, prompts, targets, refuse, losses)
    ]
    if not answers:
        raise refuse("no item has been answered, so there is no run in it", ("items",))
    together = _together(dataset, document.data, entries, refuse)
    return Recording(
        by=BY,
        digest=digest_of(source, prompts, targets, answers, together, finished),
        document=source,
        source=str(path),
        name=_stem(path),
        targets=targets,
        answers=tuple(answers),
        together=together,
        prompts=tuple(map(PromptUnderTest, prompts)) if any(prompts) else (),
        about={name: metadata[name] for name in _STAMPS if name in metadata},
        finished=finished,
    )


def _stem(path: Path) -> str:
    name = path.name
    for ending in (".gz", ".json"):
        name = name[: -len(ending)] if name.lower().endswith(ending) else name
    return name or path.name


def _source(data: Mapping[str, Any], items: Sequence[Data]) -> Data:
    """The document as it was asked."""
    source = {**data, "items": list(items)}
    if metadata := {name: value for name, value in (data.get("metadata") or {}).items() if name not in _STAMPS}:
        return {**source, "metadata": metadata}
    return {name: value for name, value in source.items() if name != "metadata"}


def _time(stamp: object, refuse: Refuse) -> float | None:
    if stamp is None:
        return None
    try:
        when = datetime.fromisoformat(str(stamp))
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise refuse("must be a time such as 2026-01-31T12:00:00+00:00", ("metadata", "evaluatedAt")) from None


def _answers(
    dataset: Dataset,
    data: Mapping[str, Any],
    entry: Entry,
    prompts: Sequence[str],
    targets: Sequence[str],
    refuse: Refuse,
    losses: Losses,
) -> list[Recorded]:
    """The answers of one entry, turn by turn; those that were still waiting are said to be left out."""
    item = dataset.items[entry.item]
    found: list[Recorded] = []
    for turn, (place, unit) in enumerate(units_of(data["items"][entry.position], entry.position)):
        if not any(name in unit for name in _ANSWERED):
            losses.left_out("an answer that had not come yet", shown(place))
            continue
        scores = unit.get("scores") or {}
        found.append(
            Recorded(
                item=entry.item,
                turn=turn,
                prompt=prompts.index(entry.column.prompt),
                target=targets.index(entry.column.target),
                repeat=entry.column.repeat,
                answer=_answer(dataset, item, turn, unit, [one.answer for one in found]),
                scores=scores_in(dataset, item, item.units[turn], scores, (*place, "scores"), refuse),
                status=unit.get("status"),
            )
        )
    return found


def _answer(
    dataset: Dataset, item: Item, turn: int, unit: Mapping[str, Any], said: Sequence[AnswerRecord]
) -> AnswerRecord:
    request = (
        {"messages": list(chat_before(dataset, item, turn, of_dataset(dataset), said))} if len(said) == turn else {}
    )
    text, error = unit.get("response"), unit.get("error") or {}
    if unit.get("status") == "error" or text is None:
        return AnswerRecord(
            text=None,
            request=request,
            diagnostics=unit.get("diagnostics"),
            code=error.get("code", "agentRequestFailed"),
            message=error.get("message", "neither a response nor an error was recorded"),
        )
    return AnswerRecord(text=text, request=request, diagnostics=unit.get("diagnostics"))


def _together(
    dataset: Dataset, data: Mapping[str, Any], entries: Sequence[Entry], refuse: Refuse
) -> tuple[Together, ...]:
    """What was found of all answers to an item, which is written beside each of them."""
    found: dict[tuple[int, int, str], Together] = {}
    for entry in entries:
        item = dataset.items[entry.item]
        for turn, (place, unit) in enumerate(units_of(data["items"][entry.position], entry.position)):
            place = (*place, "extensions", TOGETHER)
            scores = (unit.get("extensions") or {}).get(TOGETHER, {})
            if not isinstance(scores, Mapping):
                raise refuse("must be an object", place)
            for score in scores_in(dataset, item, item.units[turn], scores, place, refuse):
                found.setdefault((entry.item, turn, score.key), Together(entry.item, turn, score))
    return tuple(found.values())
