"""A log of OpenAI Evals, as the original or `tui-evals export --to oaieval-log` writes it, as a finished run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from tui_evals.datasets.paths import CURRENT_VERSION, DatasetError, Problem
from tui_evals.datasets.validate import parse_dataset
from tui_evals.imports.base import Losses
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_head
from tui_evals.reports.oaieval import AUTHOR
from tui_evals.store.records import AnswerRecord, ScoreRecord
from tui_evals.text import strictjson
from tui_evals.text.measures import counted

from .base import Importer
from .keeping import keep_run, text_of
from .recording import RecordedAnswer, Recording, digest_of

BY = "OpenAI Evals"
TAG = "openai-evals"
_GRADED = "ModelGraded"
_HAS_SAMPLE = ("input", "ideal")


class _Event(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    sample_id: str | None = None
    type: str
    data: dict[str, Any] = {}
    event_id: int = 0


class _Spec(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    eval_name: str
    completion_fns: list[str] = []
    run_id: str | None = None
    created_by: str | None = None
    created_at: str | None = None


@dataclass(slots=True)
class _Answer:
    """One answer of a sample with its scores."""

    record: AnswerRecord
    asked: str | None
    """The prompt as it was sent, to recognize a repeated question; None if the log does not have it."""
    target: str
    turn: int = 0
    repeat: int = 0
    scores: list[ScoreRecord] = field(default_factory=list)
    reply: str | None = None
    """A grader's reply that has not been turned into a score."""


@dataclass(slots=True)
class _Sample:
    """Everything of one sample, in the order in which it was noted."""

    raw: Mapping[str, Any] = field(default_factory=dict)
    answers: list[_Answer] = field(default_factory=list)
    expected: Any = None


def recognises(path: Path) -> bool:
    """Whether a file begins as logs of OpenAI Evals do."""
    if path.suffix.lower() not in (".log", ".jsonl") or not path.is_file():
        return False
    head = read_head(path, 2**20, follow_out=True).partition(b"\n")[0]
    return head.startswith(b'{"spec"') and b'"completion_fns"' in head and b'"eval_name"' in head


def read(path: Path) -> tuple[Recording, Losses]:
    """The run of a log, and what became of its parts; DatasetError says which line is wrong."""
    losses = Losses()
    spec, events = _log(path)
    samples: defaultdict[str, _Sample] = defaultdict(_Sample)
    for event in events:
        if event.sample_id is None:
            losses.left_out(f"events {event.type} of no sample", why="they belong to no answer")
            continue
        named = event.data.get("model")
        target = named if named in spec.completion_fns else [*spec.completion_fns, "unknown model"][0]
        ours = spec.created_by == AUTHOR
        _take(samples[event.sample_id], event, target, losses, ours=ours)
    return _recording(path, spec, samples, losses), losses


def _log(path: Path) -> tuple[_Spec, list[_Event]]:
    spec: _Spec | None = None
    events: list[_Event] = []
    for number, text in enumerate(text_of(path).split("\n"), 1):
        if not text.strip():
            continue
        try:
            value = strictjson.loads(text)
            if isinstance(value, dict) and "spec" in value:
                if spec is not None:
                    raise DatasetError(str(path), [Problem("begins another log; import each for itself", line=number)])
                spec = _Spec.model_validate(value["spec"])
            elif isinstance(value, dict) and "final_report" in value:
                continue
            else:
                events.append(_Event.model_validate(value))
        except strictjson.JsonError as problem:
            raise DatasetError(str(path), [Problem(str(problem), line=number)]) from None
        except ValidationError as problem:
            first = problem.errors(include_url=False)[0]
            raise DatasetError(str(path), [Problem(first["msg"], tuple(first["loc"]), number)]) from None
    if spec is None:
        raise DatasetError(str(path), [Problem("holds no spec, with which a log of OpenAI Evals begins")])
    return spec, sorted(events, key=lambda event: event.event_id)


def _take(sample: _Sample, event: _Event, target: str, losses: Losses, *, ours: bool) -> None:
    data = event.data
    last = sample.answers[-1] if sample.answers else None
    match event.type:
        case "raw_sample":
            sample.raw = data
        case "sampling":
            _sampled(sample, data, target, ours=ours)
        case "error" if "evaluator" in data and last is not None:
            last.scores.append(
                ScoreRecord(
                    key=str(data["evaluator"]),
                    evaluator=str(data["evaluator"]),
                    score=None,
                    result="error",
                    reason=str(data.get("message") or ""),
                    details={"code": str(data.get("type") or "evaluatorError")},
                )
            )
        case "error":
            record = AnswerRecord(
                text=None, request={}, code=str(data.get("type") or "error"), message=str(data.get("message") or "")
            )
            _answered(sample, _Answer(record, None, target))
        case "match" if last is not None:
            passed = bool(data.get("correct"))
            key = str(data.get("evaluator") or "Match")
            if last.turn == 0 and data.get("expected") is not None:
                sample.expected = data["expected"]
            last.scores.append(
                ScoreRecord(
                    key=key,
                    evaluator=key,
                    score=float(passed),
                    result="pass" if passed else "fail",
                    details={"picked": data["picked"]} if "picked" in data else {},
                )
            )
        case "metrics" if last is not None:
            _measured(last, data)
        case _:
            losses.left_out(f"events {event.type}", why="there is no equal, or no answer they could be of")


def _sampled(sample: _Sample, data: Mapping[str, Any], target: str, *, ours: bool) -> None:
    """Add an answer, or a grader's reply about one, which has another prompt or, in our logs, none."""
    sampled = data.get("sampled")
    text = sampled[0] if isinstance(sampled, list) and sampled else sampled
    text = text if isinstance(text, str) else "" if text is None else strictjson.dumps(text)
    prompt = data.get("prompt")
    asked = None if prompt is None else strictjson.dumps(prompt)
    known = [one for one in sample.answers if one.asked is not None]
    last = sample.answers[-1] if sample.answers else None
    follows = last is not None and isinstance(prompt, list) and _continues(last, prompt)
    same = ours or not known or follows or any(one.asked == asked for one in known)
    if last is not None and (prompt is None or not same):
        last.reply = text
        return
    messages = prompt if isinstance(prompt, list) else [{"role": "user", "content": prompt or ""}]
    given = data.get("usage")
    usage: Mapping[str, Any] = given if isinstance(given, dict) else {}
    record = AnswerRecord(
        text=text,
        request={"messages": messages},
        model=data["model"] if isinstance(data.get("model"), str) else None,
        input_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
    )
    answer = _Answer(record, asked, target, turn=last.turn + 1 if follows and last is not None else 0)
    _answered(sample, answer)


def _continues(last: _Answer, prompt: Sequence[Any]) -> bool:
    """Whether a prompt continues from the answer before it, as the next turn of a conversation does."""
    before = last.record.request.get("messages") or []
    return (
        len(prompt) > len(before) + 1
        and list(prompt[: len(before)]) == list(before)
        and prompt[len(before)].get("content") == last.record.text
    )


def _answered(sample: _Sample, answer: _Answer) -> None:
    answer.repeat = sum(one.turn == answer.turn and one.target == answer.target for one in sample.answers)
    sample.answers.append(answer)


def _measured(last: _Answer, data: Mapping[str, Any]) -> None:
    """Figures with a verdict, a choice that a grader made, or figures that are scores of their own."""
    if "choice" in data:
        metric = {**data, **({} if last.reply is None else {"reply": last.reply})}
        score = data.get("score")
        last.reply = None
        last.scores.append(
            ScoreRecord(
                key=_GRADED,
                evaluator=_GRADED,
                score=float(score) if isinstance(score, int | float) else None,
                result=None,
                label=None if data["choice"] is None else str(data["choice"]),
                details={"metrics": {"choice": metric}},
            )
        )
        return
    verdict = last.scores[-1] if last.scores and last.scores[-1].result in ("pass", "fail") else None
    if verdict is not None and ("accuracy" in data or "sacrebleu_sentence_score" in data):
        bleu = data.get("sacrebleu_sentence_score")
        told = {"f1": data["f1_score"]} if "f1_score" in data else {}
        details = {**verdict.details, **told}
        last.scores[-1] = replace(verdict, details=details, score=verdict.score if bleu is None else float(bleu))
        return
    for name, value in data.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            last.scores.append(ScoreRecord(key=name, evaluator=name, score=float(value), result=None))


def _recording(path: Path, spec: _Spec, samples: Mapping[str, _Sample], losses: Losses) -> Recording:
    items = [_item(name, number, sample) for number, (name, sample) in enumerate(samples.items())]
    document = {
        "schemaVersion": CURRENT_VERSION,
        "default_evaluators": {},
        "extensions": {"openai_evals": {"eval": spec.eval_name}},
        "items": items,
    }
    dataset, problems = parse_dataset(document)
    if dataset is None:
        raise DatasetError(str(path), problems)
    answers = list(_recorded(samples.values()))
    if not answers:
        raise DatasetError(str(path), [Problem("no sample has been answered, so there is no run in it")])
    losses.carried(f"{counted(len(answers), 'answer')} with their verdicts and figures")
    several = len(spec.completion_fns) > 1 or any("turns" in item for item in items)
    if several and any(one.answer.text is None for one in answers):
        losses.changed("errors of samples", why="the log does not name their model and turn; the first one gets them")
    losses.left_out(
        "reasons, thresholds and details of scores, tool calls, times, costs, endings, single counts of tokens, models "
        "of errors, requests without an answer",
        why="the log holds none",
    )
    losses.left_out("evaluators and their options", why="the log names the eval and holds what came of it")
    targets = tuple(dict.fromkeys(one.target for sample in samples.values() for one in sample.answers))
    when = _time(spec.created_at)
    return Recording(
        by=BY,
        digest=digest_of(document, targets, answers, spec.run_id),
        document=document,
        source=str(path),
        name=spec.eval_name,
        targets=targets,
        answers=tuple(answers),
        tags=(TAG,),
        about={"run_id": spec.run_id} if spec.run_id else {},
        started=when,
        verdicts_only=True,  # in a log, right answers score 1, whatever was measured
    )


def _item(name: str, number: int, sample: _Sample) -> dict[str, Any]:
    """The item that a sample was."""
    item: dict[str, Any] = {} if name == f"#{number + 1}" else {"testId": name}
    turns = max((one.turn for one in sample.answers), default=0) + 1
    if turns > 1:
        return {**item, "turns": [{"prompt": _question(sample, turn)} for turn in range(turns)]}
    asked = sample.raw.get("input")
    if asked is None and sample.answers:
        asked = list(sample.answers[0].record.request.get("messages") or ())
    if isinstance(asked, str):
        item["prompt"] = asked
    elif isinstance(asked, list) and asked:
        *before, last = asked
        content = last.get("content") if isinstance(last, dict) and last.get("role") == "user" else None
        item |= {"prompt": content} if isinstance(content, str) and content else {}
        before = before if "prompt" in item else asked
        item |= {"messages": before} if before else {}
    ideal = sample.raw.get("ideal", sample.expected)
    if isinstance(ideal, list) and ideal and all(isinstance(one, str) for one in ideal):
        item["ideal"] = ideal
    elif isinstance(ideal, str):
        item["expected_response"] = ideal
    if variables := {key: value for key, value in sample.raw.items() if key not in _HAS_SAMPLE}:
        item["variables"] = variables
    return item


def _question(sample: _Sample, turn: int) -> str:
    """The question of a turn: the last message of the request."""
    sent = (one.record.request.get("messages") for one in sample.answers if one.turn == turn)
    messages: Sequence[Any] = next((given for given in sent if given), [])
    return str(messages[-1].get("content") or " ") if messages else " "


def _recorded(samples: Iterable[_Sample]) -> Iterator[RecordedAnswer]:
    targets: dict[str, int] = {}
    for number, sample in enumerate(samples):
        for one in sample.answers:
            yield RecordedAnswer(
                item=number,
                turn=one.turn,
                target=targets.setdefault(one.target, len(targets)),
                repeat=one.repeat,
                answer=one.record,
                scores=tuple(one.scores),
            )


def _time(stamp: str | None) -> float | None:
    try:
        when = datetime.fromisoformat(stamp) if stamp else None
    except ValueError:
        return None
    return None if when is None else (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


IMPORTER = Importer(
    kind="oaieval-log",
    about="a log of OpenAI Evals, or one that tui-evals exported",
    recognises=recognises,
    read=lambda request: keep_run(request, read),
    recordings=lambda request: (read(request.path)[0],),
    order=35,
)
