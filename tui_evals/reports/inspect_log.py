"""A run as a log of Inspect, in its JSON, which `inspect view` opens and Inspect's own readers analyse."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import Any

from tui_evals.reports.results import ReportKind
from tui_evals.store import run_figures
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, AnswerRow, CallRecord, RunRow, ScoreRecord, Totals
from tui_evals.store.rows import EvaluatorMean
from tui_evals.version import __version__

from .results import AnswerEntry, conversations, score_record_data

Data = dict[str, Any]
_STOPS = {"stop": "stop", "length": "max_tokens", "tool_calls": "tool_calls", "content_filter": "content_filter"}
RECORD = "tui_evals"
"""The metadata with our records: whole scores, and for a sample its status and unscored records."""
_STATUSES = {"finished": "success", "interrupted": "cancelled"}
_encoded = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def _write(reader: Reader, runs: Sequence[RunRow], raw: bool) -> Iterator[str]:
    """The log of a run; samples of several runs or columns are in one log, with different ids."""
    names = [_names(reader, run, len(runs) > 1) for run in runs]
    yield '{"version": 2, '
    yield f'"status": {_encoded(_status(runs))}, '
    yield f'"eval": {_encoded(_spec(reader, runs, [name for one in names for name in one.values()]))}, '
    yield '"plan": {"name": "plan", "steps": [{"solver": "generate", "params": {}}], "config": {}}, '
    yield f'"results": {_encoded(_results(reader, runs))}, '
    yield f'"stats": {_encoded(_stats(reader, runs))}, "samples": ['
    between = ""
    for sample in chain.from_iterable(map(partial(_samples, reader), runs, names)):
        yield between + _encoded(sample)
        between = ",\n"
    yield "]}\n"


def _status(runs: Sequence[RunRow]) -> str:
    return next((status for run in runs if (status := _STATUSES.get(run.status, "started")) != "success"), "success")


def _time(seconds: float | None) -> str:
    return datetime.fromtimestamp(seconds or 0, UTC).isoformat()


def _spec(reader: Reader, runs: Sequence[RunRow], ids: Sequence[str]) -> Data:
    first = runs[0]
    keys = dict.fromkeys(key for run in runs for key, together in reader.score_keys(run) if not together)
    return {
        "eval_id": first.key,
        "run_id": first.key,
        "created": _time(first.created),
        "task": first.name,
        "task_id": first.key,
        "dataset": {"name": first.source, "samples": len(ids), "sample_ids": ids, "shuffled": False},
        "model": ",".join(dict.fromkeys(target for run in runs for target in run.targets)),
        "config": {"epochs": max((row.repeat for run in runs for row in reader.all_rows(run.id)), default=0) + 1},
        "packages": {"tui-evals": __version__},
        "scorers": [{"name": key, "options": {}, "metrics": [], "metadata": {}} for key in keys],
    }


def _results(reader: Reader, runs: Sequence[RunRow]) -> Data:
    totals = [reader.totals(run.id) for run in runs]
    total = sum(one.total for one in totals)
    scores = [
        _figures(run.key if len(runs) > 1 else "", mean)
        for run in runs
        for mean in run_figures.evaluator_means(reader, run.id)
        if mean.scope == "answer"
    ]
    return {"total_samples": total, "completed_samples": total - sum(one.errored for one in totals), "scores": scores}


def _figures(run: str, mean: EvaluatorMean) -> Data:
    judged = mean.passed + mean.failed
    values = {"accuracy": mean.passed / judged if judged else None, "mean": mean.mean}
    return {
        "name": f"{mean.key} {run}".strip(),
        "scorer": mean.key,
        "scored_samples": mean.scored,
        "unscored_samples": mean.errored + mean.skipped,
        "params": {},
        "metrics": {
            name: {"name": name, "value": value, "params": {}} for name, value in values.items() if value is not None
        },
    }


def _stats(reader: Reader, runs: Sequence[RunRow]) -> Data:
    ends = [run.finished for run in runs if run.finished is not None]
    usage: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for run in runs:
        for target, totals in reader.totals_by(run.id, "target").items():
            usage[run.targets[target]].update(_usage([totals]))
        for judges in _judges_usage(reader, run).values():
            for judge, counted in judges.items():
                usage[judge].update(counted)
    return {
        "started_at": _time(runs[0].created),
        "completed_at": _time(max(ends)) if ends else "",
        "model_usage": {model: dict(counted) for model, counted in usage.items() if counted},
    }


def _judges_usage(reader: Reader, run: RunRow) -> dict[int, dict[str, Data]]:
    """The tokens of each judge for each answer it was asked about."""
    usage: defaultdict[int, defaultdict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for call in reader.calls(run.id):
        if call.kind == "judge" and call.answer is not None:
            usage[call.answer][call.target].update(_usage([call]))
    return {
        answer: {judge: dict(counted) for judge, counted in judges.items() if counted}
        for answer, judges in usage.items()
    }


Column = tuple[int, int, int]
"""An item, a prompt and a target, by position."""


def _names(reader: Reader, run: RunRow, of_several: bool) -> dict[Column, str]:
    """The id of each sample, no two the same: the item's name, with the run and the column where there are several."""
    columns = len(run.targets) * len(run.prompts) > 1
    owners: dict[str, int] = {}
    names: dict[Column, str] = {}
    for row in reader.all_rows(run.id):
        place = row.name if owners.setdefault(row.name, row.item) == row.item else f"{row.name} #{row.item + 1}"
        column = [run.prompts[row.prompt], run.targets[row.target]] if columns else []
        names[_column(row)] = " / ".join(filter(None, (run.key if of_several else "", *column, place)))
    return names


def _column(row: AnswerRow) -> Column:
    return row.item, row.prompt, row.target


def _samples(reader: Reader, run: RunRow, names: Mapping[Column, str]) -> Iterator[Data]:
    """A sample for each conversation that was answered."""
    judges = _judges_usage(reader, run)
    for entries in conversations(reader, run, reader.dataset(run).items, requests=True):
        answered = [entry for entry in entries if entry.record is not None]
        if answered:
            row = answered[-1].row
            sample = _sample(names[_column(row)], run.targets[row.target], answered)
            for entry in answered:
                for judge, usage in judges.get(entry.row.id, {}).items():
                    sample["model_usage"][judge] = dict(Counter(sample["model_usage"].get(judge, {})) + Counter(usage))
            yield sample


def _sample(name: str, model: str, entries: Sequence[AnswerEntry]) -> Data:
    last = entries[-1]
    asked, first_asked = _asked(last), _asked(entries[0])
    record = last.record
    assert record is not None, "only answered turns are written"
    said = [_answer(record)] if record.text is not None else []
    usage = _usage(entry.record for entry in entries)
    sample: Data = {
        "id": name,
        "epoch": last.row.repeat + 1,
        "input": first_asked,
        "target": _target(last.unit),
        "messages": [*asked, *said],
        "output": _output(record, model, usage),
        "scores": _scores(entries),
        "metadata": _metadata(last.item, entries),
        "store": {},
        "events": [],
        "model_usage": {model: usage} if usage else {},
        "attachments": {},
    }
    if took := [entry.record.latency_ms for entry in entries if entry.record and entry.record.latency_ms is not None]:
        sample["total_time"] = sample["working_time"] = sum(took) / 1000
    if record.text is None:
        message = record.message or record.code or "nothing was answered"
        sample["error"] = {"message": message, "traceback": record.traceback or "", "traceback_ansi": ""}
    return sample


def _asked(entry: AnswerEntry) -> list[Data]:
    """The request, as Inspect writes a chat."""
    sent = entry.record.request.get("messages") if entry.record is not None else None
    messages = (
        sent if isinstance(sent, list | tuple) and sent else [{"role": "user", "content": entry.unit.get("prompt")}]
    )
    return [_message(message) for message in messages if isinstance(message, Mapping)]


_ROLES = {"developer": "system", "function": "tool"}


def _message(message: Mapping[str, Any]) -> Data:
    role = str(message.get("role") or "user")
    written: Data = {"role": _ROLES.get(role, role), "content": _content(message.get("content"))}
    if written["role"] not in ("system", "user", "assistant", "tool"):
        written["role"] = "user"
    if calls := [_call(call) for call in message.get("tool_calls") or () if isinstance(call, Mapping)]:
        written["tool_calls"] = calls
    if written["role"] == "tool":
        written |= {"tool_call_id": message.get("tool_call_id"), "function": message.get("name")}
    return written


def _content(content: object) -> str | list[Data]:
    if not isinstance(content, list):
        return content if isinstance(content, str) else "" if content is None else _encoded(content)
    return [_block(block) for block in content]


def _block(block: object) -> Data:
    match block:
        case {"type": "text", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            return {"type": "image", "image": url}
        case str():
            return {"type": "text", "text": block}
        case _:
            return {"type": "text", "text": _encoded(block)}


def _call(call: Mapping[str, Any]) -> Data:
    """A call as Inspect writes it; arguments that are no object are kept under a name of their own."""
    told = call.get("function")
    named = told if isinstance(told, Mapping) else call
    arguments = named.get("arguments")
    try:
        parsed = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        parsed = arguments
    return {
        "id": str(call.get("id") or ""),
        "function": str(named.get("name") or ""),
        "arguments": parsed if isinstance(parsed, dict) else {} if parsed is None else {"arguments": parsed},
        "type": "function",
    }


def _answer(record: AnswerRecord) -> Data:
    answer: Data = {"role": "assistant", "content": record.text or "", "source": "generate"}
    if calls := [_call(call) for call in record.tool_calls]:
        answer["tool_calls"] = calls
    return answer


def _output(record: AnswerRecord, model: str, usage: Data) -> Data:
    output: Data = {"model": record.model or model, "choices": [], "completion": record.text or ""}
    if record.text is not None:
        stop = _STOPS.get(record.finish_reason or "stop", "unknown")
        output["choices"] = [{"message": _answer(record), "stop_reason": stop}]
    if usage:
        output["usage"] = usage
    if record.latency_ms is not None:
        output["time"] = record.latency_ms / 1000
    return output


def _usage(records: Iterable[AnswerRecord | Totals | CallRecord | None]) -> Data:
    """The tokens of all turns; those from a provider's cache are counted separately there."""
    counted: Counter[str] = Counter()
    for record in records:
        if record is None or record.input_tokens is None or record.output_tokens is None:
            continue
        counted["input_tokens"] += record.input_tokens - record.cached_tokens
        counted["output_tokens"] += record.output_tokens
        counted["total_tokens"] += record.input_tokens + record.output_tokens
        counted["input_tokens_cache_read"] += record.cached_tokens
        counted["reasoning_tokens"] += record.reasoning_tokens
    return dict(counted)


def _target(unit: Mapping[str, Any]) -> str | list[str]:
    first, ideal = unit.get("expected_response"), [str(one) for one in unit.get("ideal") or ()]
    references = list(dict.fromkeys([*([str(first)] if first is not None else []), *ideal]))
    return references[0] if len(references) == 1 else references or ""


def _scores(entries: Sequence[AnswerEntry]) -> Data:
    """The scores of the last turn under their keys, those of earlier turns with their number; errors are no scores."""
    return {
        score.key if entry is entries[-1] else f"{score.key} (turn {entry.row.turn + 1})": _score(entry, score)
        for entry in entries
        for score in entry.scores
        if _is_value(score)
    }


def _is_value(score: ScoreRecord) -> bool:
    return score.result in ("pass", "fail") or score.score is not None


def _score(entry: AnswerEntry, score: ScoreRecord) -> Data:
    return {
        "value": _value(score),
        "answer": entry.record.text if entry.record is not None else None,
        "explanation": score.reason,
        "metadata": {**_plain(score.details), RECORD: _plain(score_record_data(score))},
    }


def _value(score: ScoreRecord) -> str | float:
    """C or I for a yes or no, else the number."""
    if score.result in ("pass", "fail") and (score.score is None or score.score in (0, 1)):
        return "C" if score.result == "pass" else "I"
    assert score.score is not None, "what has neither a verdict nor a number is not written"
    return score.score


def _metadata(item: Mapping[str, Any], entries: Sequence[AnswerEntry]) -> Data:
    kept = {name: item[name] for name in ("category", "tags", "variables") if item.get(name)}
    unjudged = {score.key: score.reason for entry in entries for score in entry.scores if score.result == "error"}
    last = [score_record_data(score) for score in entries[-1].scores if not _is_value(score)]
    told = {"not judged": unjudged, RECORD: {"status": entries[-1].row.status, "scores": last}}
    metadata: Data = _plain({**kept, **{name: value for name, value in told.items() if value}})
    return metadata


def _plain(value: Any) -> Any:
    """Data that JSON can hold."""
    match value:
        case Mapping():
            return {str(name): _plain(one) for name, one in value.items()}
        case list() | tuple():
            return [_plain(one) for one in value]
        case float() if not math.isfinite(value):
            return str(value)
        case None | str() | bool() | int() | float():
            return value
        case _:
            return str(value)


KINDS = {"inspect": ReportKind((".inspect.json",), _write, has_companion=True, about="a log for Inspect")}
