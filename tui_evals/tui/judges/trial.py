"""Tries an evaluator on the current answer with the dataset as it is now; stores nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from math import floor, log10
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from tui_evals.datasets.paths import Data, DatasetError, get_at
from tui_evals.datasets.paths import Path as DataPath
from tui_evals.datasets.resolve import EffectiveEvaluator
from tui_evals.datasets.validate import document_of_data, rubric_of, validate
from tui_evals.evaluators.base import Ask, CannotJudge, Evaluator, Question, Score, evaluate, note_choices, verdict_at
from tui_evals.evaluators.judging import CHUNKS, whole_reply
from tui_evals.evaluators.registry import Registry, UnknownEvaluator
from tui_evals.evaluators.rows import BadRow, evidence_of, options_problem
from tui_evals.light_records import dataclass
from tui_evals.project_files import resolved
from tui_evals.runs.approving import missing_of_targets, model_permissions, untrusted_evaluators
from tui_evals.runs.project import Project
from tui_evals.runs.prompting import PromptUnderTest, prompt_kept
from tui_evals.store.database import StoreError
from tui_evals.store.details import score_counts
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, AnswerRow, RunRow, answer_steps, transcript_of
from tui_evals.store.rows import Detail
from tui_evals.targets.answers import captured
from tui_evals.targets.base import ConfigurationError, TargetConfig, TargetError, attempt_clock
from tui_evals.targets.config import FILE, find_target
from tui_evals.targets.permissions import NotApproved
from tui_evals.text.chats import chat_to_text, split_at_question
from tui_evals.text.measures import counted, plain_number
from tui_evals.transcript import to_json
from tui_evals.tui.latest_statuses import runs_of

_PROMPTPEX = {"rules": "rules", "intent": "intent", "inputSpec": "input_spec", "groundtruth": "groundtruth"}
_ASKS = ("prompt", "messages", "variables")
_STEPS = 10
_NO_ANSWER = ("pending", "running", "error", "skipped")


class CannotTry(Exception):
    """There is no answer to judge or no target to ask; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentPlace:
    """The current place in the open dataset, and the answer that is on screen."""

    data: Data
    file: Path
    where: DataPath
    name: str
    """How the place is called."""
    answer: int | None
    database: Path
    root: Path


@dataclass(frozen=True, slots=True)
class JudgedSubject:
    """A subject to judge, as a row of evidence, with its label."""

    row: Mapping[str, Any]
    of: str


@dataclass(frozen=True, slots=True)
class _Unit:
    """The data that an answer is judged by: a unit in its item in its dataset."""

    data: Data
    item: Data
    unit: Data


def subject_of(here: CurrentPlace) -> JudgedSubject:
    """The answer on screen where it is one of this item, else the response that is in the item."""
    unit = get_at(here.data, here.where) if here.where else None
    reason = "no answer is on screen"
    if here.answer is not None:
        with Reader(here.database) as reader:
            detail = reader.detail(here.answer)
            run = reader.run(detail.row.run)
            document = reader.snapshot(run.snapshot)
        fits = _unit_of(here, detail.row, run, document) is not None
        if (subject := _subject_of_answer(here, detail, run, document)) is not None:
            return subject
        name = f"{detail.row.name}, turn {detail.row.turn + 1}" if len(here.where) > 2 else detail.row.name
        reason = "the answer is not there yet" if fits else f"the answer on screen is one to {name}"
    if isinstance(unit, dict) and isinstance(unit.get("response"), str):
        return JudgedSubject(_row_of_kept(here, unit), "the response in the dataset")
    raise CannotTry(f"{reason}; look at one to {here.name} in the results (4) and come back")


def _subject_of_answer(here: CurrentPlace, detail: Detail, run: RunRow, document: Data) -> JudgedSubject | None:
    """A stored answer with its edited item to judge it by; None if it is of another item, or not there yet."""
    place = _unit_of(here, detail.row, run, document)
    if place is None or detail.answer is None:
        return None
    row = detail.row
    name = f"{row.name}, turn {row.turn + 1}" if "turns" in place.item else row.name
    return JudgedSubject(
        _row_of_answer(place, detail.answer, _template(run, row, place.data)), f"the answer to {name} in {run.name}"
    )


def recorded_run(here: CurrentPlace, shown: RunRow | None, reader: Reader) -> RunRow | None:
    """The run on screen where it asked this dataset, else the latest that did and got answers."""
    if shown is not None and _same_file(here, shown):
        return shown
    runs = runs_of(reader, resolved(here.file), here.root)
    return next((run for run in runs if run.status != "planned"), None)


def recorded_subjects(
    here: CurrentPlace, shown: RunRow | None, most: int, examples: Collection[int] = ()
) -> list[JudgedSubject]:
    """The recorded answers to try an evaluator on, those of the current item first, otherwise the responses in the
    dataset. Half of them are `examples`; the others show how it generalizes.
    """
    found: list[JudgedSubject] = []
    anywhere = replace(here, where=())
    with Reader(here.database) as reader:
        run = recorded_run(here, shown, reader)
        if run is not None:
            document = reader.snapshot(run.snapshot)
            name = _dict(get_at(here.data, here.where[:2])).get("testId") if here.where else None
            rows = [row for row in reader.all_rows(run.id) if row.code is None and row.status not in _NO_ANSWER]
            first = set([row.id for row in rows if row.id in examples][: (most + 1) // 2])
            for row in sorted(rows, key=lambda row: (row.id not in first, row.name != name))[:most]:
                subject = _subject_of_answer(anywhere, reader.detail(row.id), run, document)
                found += [subject] if subject is not None else []
    if found:
        return found
    for number, item in enumerate(_list(here.data.get("items"))):
        if isinstance(item, dict) and isinstance(item.get("response"), str) and len(found) < most:
            there = replace(here, where=("items", number), name=str(item.get("testId") or f"#{number + 1}"))
            found.append(JudgedSubject(_row_of_kept(there, item), f"the response of {there.name}"))
    return found


def recorded_scores(here: CurrentPlace, shown: RunRow | None) -> RecordedScores | None:
    """The stored scores of the run that would tell; None where no run asked this dataset."""
    with Reader(here.database) as reader:
        run = recorded_run(here, shown, reader)
        return None if run is None else RecordedScores(run.name, score_counts(reader, run))


@dataclass(frozen=True, slots=True)
class RecordedScores:
    """How many answers of a run have each score, by the key of the evaluator."""

    run: str
    counts: Mapping[str, Sequence[tuple[float, int]]]

    def passing(self, entry: EffectiveEvaluator, kind: type[Evaluator] | None, threshold: float | None = None) -> str:
        """How many pass at a threshold, else at the one it has and the nearest that differ below and above it.

        Empty where no threshold decides.
        """
        scores = self.counts.get(entry.key, ())
        if kind is None or not kind.compares or not scores:
            return ""
        try:
            evaluator = kind(kind.Options.model_validate(entry.settings), None)
        except (ValidationError, TypeError):
            return ""
        now = evaluator.passing_score
        at = now if threshold is None else threshold
        if at is None:
            return ""
        total = sum(count for _, count in scores)

        def passed(value: float) -> int:
            return sum(count for score, count in scores if verdict_at(evaluator, score, value) == "pass")

        said = f"at {plain_number(at)}, {passed(at):,} of {counted(total, 'recorded answer')} {_pass(total)}"
        if threshold is not None:
            return said
        step = _step(at, [score for score, _ in scores])
        low, high = scores[0][0], scores[-1][0]
        low = max(low - step, min(low, 0.0))  # include one threshold below the lowest score, at which all pass
        ways = ([float(f"{at + way * step * far:.6g}") for far in range(1, _STEPS + 1)] for way in (-1, 1))
        others = (next((one for one in way if low <= one <= high and passed(one) != passed(at)), None) for way in ways)
        return "; ".join([said, *(f"at {plain_number(one)}, {passed(one):,}" for one in others if one is not None)])


def _pass(total: int) -> str:
    return "passes" if total == 1 else "pass"


def _step(at: float, scores: Sequence[float]) -> float:
    """The step between thresholds that separate the answers: a round fraction of the range of the scores."""
    span = max(*scores, at) - min(*scores, at)
    step = 10.0 ** floor(log10(span)) if span else 0.1
    return max(step, 1.0) if span > 1 and all(float(score).is_integer() for score in scores) else step


def _unit_of(here: CurrentPlace, row: AnswerRow, run: RunRow, document: Data) -> _Unit | None:
    """The edited unit if it is the current item; at the dataset itself any answer will do."""
    asked_item = _dict(get_at(document, ("items", row.item)))
    if here.where:
        fits = len(here.where) < 3 or here.where[3] == row.turn
        place = here.where[1] if fits and _is_here(here, here.where[1], row, run, asked_item) else None
    else:
        items = here.data.get("items")
        numbers = range(len(items) if isinstance(items, list) else 0)
        place = next((number for number in numbers if _is_here(here, number, row, run, asked_item)), None)
        if place is None:
            return _Unit(document, asked_item, _turn(asked_item, row.turn))
    if place is None:
        return None
    item = _dict(get_at(here.data, ("items", place)))
    return _Unit(here.data, item, _turn(item, row.turn))


def _turn(item: Data, number: int) -> Data:
    return _dict(get_at(item, ("turns", number))) if "turns" in item else item


def _is_here(here: CurrentPlace, number: str | int, row: AnswerRow, run: RunRow, asked_item: Data) -> bool:
    """Whether an answer belongs to an item: by a testId of its own, or by its position where it still asks the same."""
    item = _dict(get_at(here.data, ("items", number)))
    alike = row.name == item.get("testId")
    place = f"#{number + 1}" if isinstance(number, int) else ""
    if not alike and place and row.name in (place, f"{asked_item.get('testId')}{place}"):
        alike = _questions(item) == _questions(asked_item)
    return alike and _same_file(here, run)


def _same_file(here: CurrentPlace, run: RunRow) -> bool:
    asked_file = resolved(here.root / run.source)
    return asked_file == here.file.resolve() or (not asked_file.exists() and asked_file.name == here.file.name)


def _questions(item: Data) -> list[object]:
    turns = item.get("turns")
    turn_prompts = [_dict(turn).get("prompt") for turn in turns] if isinstance(turns, list) else []
    return [[item.get(name) for name in _ASKS], turn_prompts]


def _template(run: RunRow, row: AnswerRow, data: Data) -> str | None:
    """The prompt under test as judges see it."""
    prompts = run.config.get("prompts") or ()
    if row.prompt < len(prompts):
        return prompt_kept(prompts[row.prompt]).template
    return _own_template(data)


def _own_template(data: Data) -> str | None:
    return PromptUnderTest(messages=tuple(map(_dict, _list(data.get("messages"))))).template


def _row_of_answer(place: _Unit, answer: AnswerRecord, template: str | None) -> dict[str, Any]:
    chat = answer.request.get("messages") or ()
    steps = answer_steps(answer)
    tokens = [count for count in (answer.input_tokens, answer.output_tokens) if count is not None]
    return {
        **_about(place),
        **_asked(chat or _question(place.unit)),
        "response": answer.text,
        "tool_calls": [call for step in steps for call in step["calls"]] or list(answer.tool_calls),
        "steps": len(steps) or None,
        "transcript": to_json(transcript_of(answer)),
        "tools": list(answer.request.get("tools") or ()),
        "diagnostics": answer.diagnostics,
        "latency_ms": answer.latency_ms,
        "tokens": sum(tokens) if tokens else None,
        "cost": answer.cost,
        "from_cache": answer.from_cache,
        "finish_reason": answer.finish_reason,
        "prompt_template": template,
    }


def _row_of_kept(here: CurrentPlace, unit: Data) -> dict[str, Any]:
    """A unit with the response that was kept in the dataset, after the turns before it."""
    item = _dict(get_at(here.data, here.where[:2]))
    chat: list[Any] = []
    number = here.where[3] if len(here.where) > 2 else 0
    for turn in _list(item.get("turns"))[: number if isinstance(number, int) else 0]:
        chat += _question(_dict(turn))
        chat.append({"role": "assistant", "content": _dict(turn).get("response")})
    (kept,) = captured([{name: value for name, value in unit.items() if name != "turns"}], here.name)[0].turns
    return {
        **_about(_Unit(here.data, item, unit)),
        **_asked([*chat, *_question(unit)]),
        "response": kept.text,
        "diagnostics": kept.diagnostics,
        "tool_calls": list(kept.tool_calls),
        "prompt_template": _own_template(here.data),
    }


def _question(unit: Data) -> list[Any]:
    """The messages that a unit adds to the chat."""
    prompt = unit.get("prompt")
    return [*_list(unit.get("messages")), *([] if prompt is None else [{"role": "user", "content": prompt}])]


def _asked(chat: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The prompt and the messages before it."""
    history, request = split_at_question(chat)
    return {"prompt": chat_to_text(request), "history": list(history), "request": list(request)}


def _about(place: _Unit) -> dict[str, Any]:
    """The data of a unit that evaluators can use."""
    data, item, unit = place.data, place.item, place.unit
    variables = {**_dict(data.get("variables")), **_dict(item.get("variables"))}
    known = _promptpex(data) | _promptpex(item)
    return {
        "expected": unit.get("expected_response"),
        "ideal": unit.get("ideal"),
        "context": unit.get("context"),
        "chunks": _list(_dict(unit.get("extensions")).get(CHUNKS)),
        "variables": {name: "" if value is None else value for name, value in variables.items()},
        "json_response": (item.get("response_format") or data.get("response_format") or "text") != "text",
        **{name: known[key] for key, name in _PROMPTPEX.items() if isinstance(known.get(key), str)},
    }


def _promptpex(place: Data) -> Data:
    """The facts about the prompt from a generation, as stored in the dataset or an item."""
    return _dict(_dict(place.get("extensions")).get("promptpex"))


def _dict(value: object) -> Data:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """An evaluator of a dataset, the place to judge, and the project whose targets it can ask."""

    entry: EffectiveEvaluator
    here: CurrentPlace
    registry: Registry
    project: Project


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The score of an evaluator with certain options, and what it judged."""

    entry: EffectiveEvaluator
    score: Score
    of: str


async def on_own_loop(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Do work on a loop of its own, off the screen's thread; cancelling this cancels the work."""
    begun: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []

    async def inside() -> T:
        task = asyncio.current_task()
        assert task is not None
        begun.append((asyncio.get_running_loop(), task))
        return await work()

    thread = asyncio.ensure_future(asyncio.to_thread(lambda: asyncio.run(inside())))
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        with suppress(RuntimeError):  # the loop may have ended this very moment
            for loop, task in begun:
                loop.call_soon_threadsafe(task.cancel)
        raise


async def try_evaluator(trial: Trial) -> TrialResult:
    """Try the evaluator on the current answer, or on the response in the dataset. Raises CannotTry, or NotApproved if
    permissions are missing, before anything runs.
    """
    (result,) = await try_on(trial, lambda: [subject_of(trial.here)])
    return result


async def try_on(trial: Trial, read: Callable[[], Sequence[JudgedSubject]]) -> list[TrialResult]:
    """Try the evaluator on each subject in order; raises as `try_evaluator` does."""
    try:
        kind = trial.registry.find(trial.entry.evaluator)
        default = {"rubric": _rubric(trial)} if kind.levelled else {}
        options = kind.Options.model_validate({**default, **trial.entry.settings})
        subjects = read()
        evidence = [evidence_of(subject.row) for subject in subjects]
        judge = _judge_config(trial, kind, options)
        _demand_agreement(trial, judge)
        results = []
        async with _judge(trial, judge) as (ask, scripted):
            evaluator = kind(options, ask)
            if evaluator.scope == "group":
                raise CannotTry(f"{kind.name} judges the answers of an item together here; run the item instead (r)")
            for subject, one in zip(subjects, evidence, strict=True):
                score = await evaluate(evaluator, one)
                reason = f"scripted: {score.reason}" if scripted else score.reason
                results.append(TrialResult(trial.entry, replace(score, reason=reason), subject.of))
        return results
    except ValidationError as problem:
        raise CannotTry(f"{trial.entry.key}: {options_problem(problem)}; fix that first (enter)") from None
    except NotApproved:
        raise
    except BadRow as problem:
        raise CannotTry(f"the item cannot be judged: {problem}") from None
    except (UnknownEvaluator, ConfigurationError, DatasetError, StoreError, LookupError) as problem:
        raise CannotTry(str(problem)) from None


def _rubric(trial: Trial) -> str:
    """The rubric of the rating levels in a run of the dataset in its current state."""
    document = document_of_data(dict(trial.here.data), trial.here.file)
    return rubric_of(validate(document, trial.registry.catalogue, trial.registry.own).portable)


def _judge_config(trial: Trial, kind: type[Evaluator], options: Any) -> TargetConfig | None:
    """The judge, if one is needed."""
    from tui_evals.runs.errors import MissingEmbedder
    from tui_evals.runs.judges import check_role

    settings = trial.project.settings
    named = getattr(options, "embedder" if kind.embeds else "judge", None)
    name = named or (settings.embedder if kind.embeds else settings.judge)
    if not (kind.judged or kind.may_ask) or (name is None and not kind.judged):
        return None
    if name is None:
        if kind.embeds:
            raise CannotTry(str(MissingEmbedder(kind.name)))
        raise CannotTry(f"{kind.name} asks a judge and none is named; name one in the settings (,) or in its options")
    config = find_target(name, settings, "the dataset" if named else str(FILE))
    check_role(config, embeds=kind.embeds, whom=kind.name)
    return config


def _demand_agreement(trial: Trial, judge: TargetConfig | None) -> None:
    """NotApproved where the judge, the code of the evaluator or a model that it loads waits for a yes."""
    project = trial.project
    models = model_permissions([trial.entry], trial.registry)
    missing = missing_of_targets(project, [judge] if judge is not None else [], models)
    missing += untrusted_evaluators(project, [trial.entry.evaluator], trial.registry)
    if missing:
        raise NotApproved(missing, project.root)


@asynccontextmanager
async def _judge(trial: Trial, config: TargetConfig | None) -> AsyncIterator[tuple[Ask | None, list[bool]]]:
    """The connection to the judge, and a list that is filled once a recorded reply was used."""
    scripted: list[bool] = []
    if config is None:
        yield None, scripted
        return
    name = config.name
    # Imported when needed: the engine behind it would delay the first frame.
    from tui_evals.runs.judges import items_of, request_for
    from tui_evals.targets.opening import open_target

    target = open_target(config, trial.project.environment, trial.here.root, items_of)

    async def ask(question: Question) -> str:
        request = request_for(question, config)
        try:
            async with attempt_clock(target, config.timeout):
                reply = await target.ask(request)
        except TimeoutError:
            reason = f"the judge {name} gave no verdict within {config.timeout:g} s"
            raise CannotJudge("judgeTimeout", reason) from None
        except (TargetError, ConfigurationError) as problem:
            raise CannotJudge("evaluatorError", f"the judge {name} gave no verdict: {problem}") from None
        if reply.scripted:
            scripted.append(True)
        note_choices(reply.choices)
        return whole_reply(reply.text, reply.finish_reason, config.name, question)

    try:
        yield ask, scripted
    finally:
        await target.close()


def same_options(one: EffectiveEvaluator, other: EffectiveEvaluator) -> bool:
    """Whether two entries judge alike, so that what one found holds for the other."""
    return one.evaluator == other.evaluator and json.dumps(one.settings) == json.dumps(other.settings)
