"""The events of a log of OpenAI Evals, and the final report that is made of them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from tui_evals.light_records import dataclass
from tui_evals.reports.results import ReportKind
from tui_evals.store.details import group_scores
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, ScoreRecord

from .results import AnswerEntry, read

MISSING = "__missing_samples__"


@dataclass(frozen=True, slots=True)
class Event:
    """One event; `series` names its figures if a run has more than one evaluator or column."""

    type: str
    sample: str
    data: Mapping[str, Any]
    time: float
    series: str = ""
    deviates: bool = False
    """Whether the original reports how far the accuracy may be off."""


@dataclass(slots=True)
class Series:
    """The figures of one evaluator in one column."""

    correct: list[bool] = field(default_factory=list)
    deviates: bool = False
    choices: Counter[str] = field(default_factory=Counter)
    measures: dict[str, list[float]] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        """Count an event in."""
        if event.type == "match":
            self.correct.append(event.data["correct"])
            self.deviates = self.deviates or event.deviates
            return
        for name, value in event.data.items():
            if name == "choice":
                self.choices[str(value)] += 1
            elif value is not None and name != "accuracy":  # which the matches tell
                self.measures.setdefault(name, []).append(float(value))

    def figures(self) -> dict[str, float]:
        """The figures under their names: shares and means, and how often each choice was made."""
        figures: dict[str, float] = {}
        if self.correct:
            accuracy = sum(self.correct) / len(self.correct)
            figures["accuracy"] = accuracy
            if self.deviates:
                figures["boostrap_std"] = math.sqrt(accuracy * (1 - accuracy) / len(self.correct))
        figures |= {f"counts/{choice}": count for choice, count in self.choices.items()}
        return figures | {name: sum(values) / len(values) for name, values in self.measures.items()}


@dataclass(slots=True)
class FinalReport:
    """The figures of a log: those of each series, the tokens used, and how many answers could not be judged."""

    series: dict[str, Series] = field(default_factory=dict)
    usage: Counter[str] = field(default_factory=Counter)
    missing: int = 0

    def take(self, event: Event) -> None:
        """Count an event in."""
        if event.type in ("match", "metrics"):
            self.series.setdefault(event.series, Series()).take(event)
        elif event.type == "sampling":
            self.usage.update(event.data.get("usage") or {})
        self.missing += event.type == "error"

    def figures(self) -> dict[str, float]:
        """All of it under the names that the original gives."""
        figures: dict[str, float] = {}
        for name, one_series in self.series.items():
            figures |= {_figure_name(figure, name): value for figure, value in one_series.figures().items()}
        figures |= {f"usage_{name}": count for name, count in self.usage.items()}
        return figures | ({MISSING: self.missing} if self.missing else {})


def report(events: Iterable[Event]) -> dict[str, float]:
    """The final report of all events at once."""
    final = FinalReport()
    for event in events:
        final.take(event)
    return final.figures()


def _figure_name(figure: str, series: str) -> str:
    """`counts/Yes` of a series is `counts/SERIES/Yes`, every other figure `FIGURE/SERIES`."""
    head, slash, choice = figure.partition("/")
    return "/".join(filter(None, (head, series, choice if slash else "")))


EVALS = "openai_evals"
"""Under `extensions` of a document that came from a registry: the eval and its class."""
AUTHOR = "tui-evals"
_GRADED = "ModelGraded"
_DEVIATING = ("Match", "Includes", "JsonValid")
"""The evaluators whose report in the original holds a deviation, under the name it spells so."""


def log_lines(reader: Reader, run: RunRow) -> Iterator[str]:
    """The log line by line."""
    yield _line({"spec": _spec(reader, run)})
    final = FinalReport()
    for number, event in enumerate(_events(reader, run)):
        final.take(event)
        yield _line(
            {
                "run_id": run.key,
                "event_id": number,
                "sample_id": event.sample,
                "type": event.type,
                "data": event.data,
                "created_by": AUTHOR,
                "created_at": _time(event.time),
            }
        )
    yield _line({"final_report": final.figures(), "run_id": run.key})


_encoded = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def _line(value: Mapping[str, Any]) -> str:
    return _encoded(value) + "\n"


def final_report(reader: Reader, run: RunRow) -> dict[str, float]:
    """The figures of a run, under the names of the original."""
    return report(_events(reader, run))


def _spec(reader: Reader, run: RunRow) -> dict[str, Any]:
    origin = _origin(reader, run)
    name = str(origin.get("eval") or run.name)
    judge = run.config.get("judge")
    models = [*run.targets, *([judge["name"]] if judge else [])]  # the original has the grader last
    base, _, rest = name.partition(".")
    return {
        "completion_fns": models,
        "eval_name": name,
        "base_eval": base,
        "split": rest.partition(".")[0],
        "run_config": {
            "completion_fns": models,
            "eval_spec": {"cls": origin.get("class"), "args": origin.get("args"), "key": name, "group": base},
            "seed": origin.get("seed"),
            "max_samples": origin.get("max_samples"),
            "command": str(origin.get("command") or ""),
            "initial_settings": {"visible": True},
        },
        "created_by": AUTHOR,
        "run_id": run.key,
        "created_at": _time(run.created),
    }


def _origin(reader: Reader, run: RunRow) -> Mapping[str, Any]:
    origin = (reader.dataset(run).head.get("extensions") or {}).get(EVALS)
    return origin if isinstance(origin, Mapping) else {}


def _time(seconds: float) -> str:
    return str(datetime.fromtimestamp(seconds, UTC))


def _events(reader: Reader, run: RunRow) -> Iterator[Event]:
    """Every event of a run: those of each answer and its scores, then the scores of groups of answers."""
    together = group_scores(reader, run.id, run.scoring_pass)
    several = len({key for key, _ in reader.score_keys(run)} | {group.record.key for group in together}) > 1
    columns = len(run.targets) * len(run.prompts) > 1
    grouped = {group.item for group in together}
    names: dict[int, str] = {}
    for entry in read(reader, run, reader.all_rows(run.id), reader.dataset(run).items, requests=True):
        if entry.row.item in grouped:
            names.setdefault(entry.row.item, entry.row.name)
        yield from _answer_events(run, entry, _column(run, entry) if columns else "", several)
    for group in together:
        series = group.record.key if several else ""
        yield from _score_events(
            names.get(group.item, ""), group.record, {}, run.finished or run.created, series, _judge_name(run)
        )


def _column(run: RunRow, entry: AnswerEntry) -> str:
    return "/".join(filter(None, (run.prompts[entry.row.prompt], run.targets[entry.row.target])))


def _judge_name(run: RunRow) -> str | None:
    judge = run.config.get("judge")
    return judge["name"] if judge else None


def _answer_events(run: RunRow, entry: AnswerEntry, column: str, several: bool) -> Iterator[Event]:
    """The events of one answer: its sample, the sampling, and what each evaluator gave it."""
    row, record = entry.row, entry.record
    when = row.started or run.finished or run.created
    if row.repeat == 0 and row.turn == 0 and row.target == 0 and row.prompt == 0:
        yield Event("raw_sample", row.name, _sample(entry.item), when)
    if record is None:
        return
    if record.text is None:
        yield Event("error", row.name, {"type": record.code or "error", "message": record.message or ""}, when)
        return
    usage = {}
    if row.input_tokens is not None and row.output_tokens is not None:
        usage = {"prompt_tokens": row.input_tokens, "completion_tokens": row.output_tokens}
        usage["total_tokens"] = row.input_tokens + row.output_tokens
    sampled = {"prompt": list(record.request.get("messages", ())), "sampled": [record.text]}
    more: dict[str, Any] = {"model": record.model or run.targets[row.target], **({"usage": usage} if usage else {})}
    yield Event("sampling", row.name, {**sampled, **more}, when)
    compared = {"expected": _expected_answers(entry.unit), "sampled": record.text}
    for score in entry.scores:
        series = "/".join(filter(None, (score.key if several else "", column)))
        yield from _score_events(row.name, score, compared, when, series, _judge_name(run))


def _sample(item: Mapping[str, Any]) -> dict[str, Any]:
    """The sample an item was made of, rebuilt from the item."""
    messages = [*(item.get("messages") or ())]
    if item.get("prompt") is not None:
        messages.append({"role": "user", "content": item["prompt"]})
    ideal = item.get("ideal", item.get("expected_response"))
    return {"input": messages, **({} if ideal is None else {"ideal": ideal}), **(item.get("variables") or {})}


def _expected_answers(unit: Mapping[str, Any]) -> Any:
    first, ideal = unit.get("expected_response"), list(unit.get("ideal") or ())
    references = ideal if first is None or first in ideal else [first, *ideal]
    return references[0] if len(references) == 1 else references


def _score_events(
    sample: str, score: ScoreRecord, compared: Mapping[str, Any], when: float, series: str, judge: str | None
) -> Iterator[Event]:
    """The events of one score: a choice with its score, or right or wrong and the measures with it."""
    if score.evaluator == _GRADED and isinstance(score.details.get("metrics"), Mapping):
        yield from _graded_events(sample, score, when, series, judge)
    elif score.result in ("pass", "fail"):
        passed = score.result == "pass"
        compared = {**compared, "expected": None} if score.evaluator == "JsonValid" else compared
        data = {"correct": passed, **compared, "picked": _picked_answer(score, passed, compared.get("sampled"))}
        yield Event("match", sample, {**data, "evaluator": score.key}, when, series, score.evaluator in _DEVIATING)
        if measures := _measures(score, passed):
            yield Event("metrics", sample, measures, when, series)
    elif score.result == "error":
        code = str(score.details.get("code") or "evaluatorError")
        yield Event("error", sample, {"type": code, "message": score.reason, "evaluator": score.key}, when)
    elif score.score is not None:
        yield Event("metrics", sample, {score.key: score.score}, when, series)


def _graded_events(sample: str, score: ScoreRecord, when: float, series: str, judge: str | None) -> Iterator[Event]:
    metrics: Mapping[str, Mapping[str, Any]] = score.details["metrics"]
    for name, metric in metrics.items():
        # The judge's prompt is not stored, and readers of the original need the field.
        sampling = {"prompt": None, "sampled": [metric.get("reply", "")], "model": judge}
        yield Event("sampling", sample, sampling, when)
        data = {"choice": metric.get("choice"), "score": metric.get("score")}
        data |= {"metascore": metric["metascore"]} if "metascore" in metric else {}
        own = name if len(metrics) > 1 else ""
        yield Event("metrics", sample, data, when, "/".join(filter(None, (own, series))))


def _picked_answer(score: ScoreRecord, passed: bool, sampled: object) -> object:
    """The original's `picked` value, which differs from class to class."""
    if score.evaluator in ("FuzzyMatch", "JsonMatch"):
        return [sampled] if passed else []
    if score.evaluator in ("Includes", "JsonValid"):
        return sampled
    return score.details.get("picked", sampled if passed else None)


def _measures(score: ScoreRecord, passed: bool) -> dict[str, float]:
    """The figures the original records besides right and wrong."""
    if score.evaluator == "FuzzyMatch":
        return {"accuracy": float(passed), "f1_score": float(score.details.get("f1", 0.0))}
    if score.evaluator == "JsonMatch":
        return {"accuracy": float(passed)}
    if score.evaluator == "Translate" and score.score is not None:
        return {"sacrebleu_sentence_score": score.score}
    return {}


def _write(reader: Reader, runs: Sequence[RunRow], raw: bool) -> Iterator[str]:
    return chain.from_iterable(log_lines(reader, run) for run in runs)


KINDS = {"oaieval-log": ReportKind((".log",), _write, has_companion=True, about="a log of OpenAI Evals")}
