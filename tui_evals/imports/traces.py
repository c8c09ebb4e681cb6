"""Production traces of agents as recorded answers: OTLP, exports of Phoenix, and observations of Langfuse.

Every trace with a model call becomes a conversation with the agent's steps before the answer. Equal questions with
equal answers count once.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from tui_evals.datasets.paths import CURRENT_VERSION, DatasetError, Problem
from tui_evals.imports.base import Losses
from tui_evals.project_files import read_bytes, read_head
from tui_evals.store.records import AnswerRecord
from tui_evals.targets.spans import Span, question_of_spans, spans_of_json, spans_of_otlp, transcript_of_spans
from tui_evals.text import strictjson
from tui_evals.text.measures import counted
from tui_evals.transcript import Call, Transcript, answer_text, from_json, parts_of, to_json

from .base import CannotRead, Importer, ImportOptions, ImportRequest, ImportResult
from .keeping import LARGEST, keep_run
from .recording import RecordedAnswer, Recording, digest_of

BY = "traces"
_HEAD = 4096
_PRIVATE: Mapping[str, re.Pattern[str]] = {
    "key": re.compile(r"\b(?:sk|pk|rk|ghp|gho|xox[abp]|AKIA|AIza|eyJ)[-_A-Za-z0-9.]{12,}"),
    "email": re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    "card": re.compile(r"\b(?:\d[ -]?){13,19}\b"),
    "phone": re.compile(r"(?<![\w.])\+\d[\d ()-]{7,}\d"),
}
"""Patterns of personal data and credentials, by their replacement."""


# -- the spans of a file


def _records(path: Path) -> Iterator[Any]:
    """The JSON values of a file: one, the entries of its list, or one on each line."""
    raw = read_bytes(path, most=LARGEST, follow_out=True)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CannotRead(f"{path} is no text; only OTLP is read as protobuf") from None
    try:
        whole = strictjson.loads(text)
        yield from whole if isinstance(whole, list) else [whole]
        return
    except strictjson.JsonError:
        lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    for number, line in lines:
        try:
            yield strictjson.loads(line)
        except strictjson.JsonError as problem:
            raise DatasetError(str(path), [Problem(f"is not JSON: {problem}", line=number)]) from None


def spans_in(path: Path) -> list[Span]:
    """The spans of a file; CannotRead where it holds none."""
    raw = read_bytes(path, most=LARGEST, follow_out=True)
    try:
        if raw.lstrip()[:1] not in (b"{", b"["):
            return spans_of_otlp(raw)
        return [span for record in _records(path) for span in _spans_of(record)]
    except ValueError as problem:
        raise CannotRead(f"{path} cannot be read: {problem}") from None


def _spans_of(record: Any) -> Iterable[Span]:
    if not isinstance(record, Mapping):
        raise ValueError("a span is a JSON object")
    if "resourceSpans" in record or "resource_spans" in record:
        return spans_of_json(record)
    if isinstance(record.get("observations"), list):  # a trace of Langfuse with its observations
        trace = str(record.get("id"))
        return [_langfuse({"traceId": trace, **one}) for one in record["observations"]]
    if "traceId" in record or "trace_id" in record:
        return [_langfuse(record)]
    if isinstance(record.get("context"), Mapping) or "context.trace_id" in record:
        return [_phoenix(record)]
    if isinstance(record.get("data"), list):
        return [span for one in record["data"] for span in _spans_of(one)]
    raise ValueError("it is neither OTLP, nor spans of Phoenix, nor observations of Langfuse")


def _moment(value: Any) -> float | None:
    if isinstance(value, int | float):
        return float(value)
    try:
        return datetime.fromisoformat(str(value).replace("Z", "+00:00")).timestamp() if value else None
    except ValueError:
        return None


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested attributes by the names that they have in a span, `llm.input_messages.0.message.role`."""
    entries = value.items() if isinstance(value, Mapping) else enumerate(value)
    for name, inner in entries:
        path = f"{prefix}.{name}" if prefix else str(name)
        is_list = isinstance(inner, list) and inner and all(isinstance(one, Mapping) for one in inner)
        if is_list or (isinstance(inner, Mapping) and inner):
            yield from _flat(inner, path)
        else:
            yield path, inner


def _phoenix(record: Mapping[str, Any]) -> Span:
    context = record.get("context") or {}
    attributes = dict(_flat(record.get("attributes") or {}))
    attributes |= {name.removeprefix("attributes."): value for name, value in record.items() if "attributes." in name}
    kind = record.get("span_kind")
    failed = str(record.get("status_code") or "").upper() == "ERROR"
    return Span(
        trace=str(context.get("trace_id") or record.get("context.trace_id") or ""),
        id=str(context.get("span_id") or record.get("context.span_id") or ""),
        parent=str(record.get("parent_id") or ""),
        name=str(record.get("name") or ""),
        started=_moment(record.get("start_time")),
        ended=_moment(record.get("end_time")),
        attributes={**({"openinference.span.kind": kind} if kind else {}), **attributes},
        error=str(record.get("status_message") or "failed") if failed else "",
    )


_LANGFUSE_KINDS = {"GENERATION": "chat", "TOOL": "execute_tool", "RETRIEVER": "retrieval", "AGENT": "invoke_agent"}


def _langfuse(record: Mapping[str, Any]) -> Span:
    def of(*names: str) -> Any:
        return next((record[name] for name in names if record.get(name) is not None), None)

    kind = str(record.get("type") or "").upper()
    usage = of("usageDetails", "usage_details", "usage") or {}
    given, made = of("input"), of("output")
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": _LANGFUSE_KINDS.get(kind),
        "gen_ai.request.model": of("model"),
        "gen_ai.usage.input_tokens": usage.get("input"),
        "gen_ai.usage.output_tokens": usage.get("output"),
        "llm.cost.total": of("totalCost", "total_cost", "calculatedTotalCost"),
    }
    if kind == "GENERATION":
        attributes["gen_ai.input.messages"] = _messages(given, "user")
        attributes["gen_ai.output.messages"] = _messages(made, "assistant")
    elif kind == "TOOL":
        attributes |= {"gen_ai.tool.name": of("name"), "input.value": given, "output.value": made}
    elif kind == "RETRIEVER":
        found = made.get("documents", made) if isinstance(made, Mapping) else made
        attributes |= {"gen_ai.retrieval.documents": found if isinstance(found, list) else [], "input.value": given}
    return Span(
        trace=str(of("traceId", "trace_id") or ""),
        id=str(of("id") or ""),
        parent=str(of("parentObservationId", "parent_observation_id") or ""),
        name=str(of("name") or ""),
        started=_moment(of("startTime", "start_time")),
        ended=_moment(of("endTime", "end_time")),
        attributes={name: value for name, value in attributes.items() if value is not None},
        error=str(of("statusMessage", "status_message") or "failed") if of("level") == "ERROR" else "",
    )


def _messages(value: Any, role: str) -> list[dict[str, Any]]:
    """Messages of the chat protocol, or a text, in the form of the GenAI conventions."""
    inner = value.get("messages", [value]) if isinstance(value, Mapping) else value
    given = inner if isinstance(inner, list) else [{"role": role, "content": inner}]
    return [_message(one if isinstance(one, Mapping) else {"role": role, "content": one}, role) for one in given]


def _message(message: Mapping[str, Any], role: str) -> dict[str, Any]:
    said, parts = message.get("role") or role, list[dict[str, Any]]()
    content = message.get("content")
    text = content if isinstance(content, str) else "" if content is None else json.dumps(content, ensure_ascii=False)
    if said == "tool":
        return {
            "role": said,
            "parts": [{"type": "tool_call_response", "id": message.get("tool_call_id"), "response": text}],
        }
    if text:
        parts.append({"type": "text", "content": text})
    for call in message.get("tool_calls") or ():
        function = call.get("function", call)
        about = {"name": function.get("name"), "arguments": function.get("arguments")}
        parts.append({"type": "tool_call", "id": call.get("id"), **about})
    return {"role": said, "parts": parts}


# -- from spans to a recording


def read(path: Path, options: ImportOptions | None = None) -> tuple[Recording, Losses]:
    """The recorded answers of the traces in a file."""
    options, losses = options or ImportOptions(), Losses()
    by_trace: dict[str, list[Span]] = {}
    for span in spans_in(path):
        by_trace.setdefault(span.trace, []).append(span)
    items: dict[str, dict[str, Any]] = {}
    answers: dict[str, AnswerRecord] = {}
    unanswered = repeated = 0
    for trace, spans in by_trace.items():
        if (made := _conversation(trace, spans)) is None:
            unanswered += 1
            continue
        item, answer = made
        key = hashlib.sha256(json.dumps([item["prompt"], item.get("messages"), answer.text]).encode()).hexdigest()
        if key in items:
            repeated += 1
            continue
        items[key], answers[key] = item, answer
    if not items:
        raise DatasetError(str(path), [Problem("no trace in it asked a model and was answered")])
    if unanswered:
        losses.left_out(f"{counted(unanswered, 'trace')} that asked no model, or were answered nothing")
    if repeated:
        losses.left_out(f"{counted(repeated, 'conversation')} that another one repeats word for word")
    kept = list(items)
    if options.limit is not None and options.limit < len(kept):
        losses.left_out(f"{counted(len(kept) - options.limit, 'conversation')} that the sample leaves out")
        kept = sorted(random.Random(0).sample(kept, options.limit), key=kept.index)
    if options.redact:
        replaced = 0
        for key in kept:
            items[key], changes = _redacted(items[key])
            answers[key], more = _redacted_answer(answers[key])
            replaced += changes + more
        losses.changed("personal data and keys", why=f"{counted(replaced, 'place')} replaced by what they were")
    losses.carried(f"{counted(len(kept), 'conversation')} with their calls, retrievals and usage")
    losses.left_out("expected responses", why="traces do not say what should have been answered")
    document = {"schemaVersion": CURRENT_VERSION, "default_evaluators": {}, "items": [items[key] for key in kept]}
    models = tuple(dict.fromkeys(answers[key].model or "agent" for key in kept))
    recorded = tuple(
        RecordedAnswer(item=place, target=models.index(answers[key].model or "agent"), answer=answers[key])
        for place, key in enumerate(kept)
    )
    digest = digest_of(document, models, [json.dumps([one.item, one.answer.text]) for one in recorded])
    name = path.name.split(".")[0]
    return Recording(
        by=BY, digest=digest, document=document, source=str(path), name=name, targets=models, answers=recorded
    ), losses


def _conversation(trace: str, spans: Sequence[Span]) -> tuple[dict[str, Any], AnswerRecord] | None:
    transcript, question = transcript_of_spans(spans), question_of_spans(spans)
    text, users = answer_text(transcript), [one for one in question if one["role"] == "user"]
    if not users or not (text or parts_of(transcript, Call)):
        return None
    *before, last = [one for one in question if one["content"]]
    took = [message.took for message in transcript.messages if message.role == "assistant" and message.took]
    costs = [one.cost for one in took]
    begun = [span.started for span in spans if span.started is not None]
    ended = [span.ended for span in spans if span.ended is not None]
    calls = tuple({"id": one.id, "name": one.name, "arguments": one.arguments} for one in parts_of(transcript, Call))
    item: dict[str, Any] = {"testId": trace[:32] or "trace", "prompt": last["content"]}
    if before:
        item["messages"] = before
    answer = AnswerRecord(
        text=text,
        request={"messages": question},
        tool_calls=calls,
        transcript=transcript,
        input_tokens=_sum(one.input_tokens for one in took),
        output_tokens=_sum(one.output_tokens for one in took),
        cost=None if None in costs or not costs else sum(cost for cost in costs if cost is not None),
        latency_ms=1000 * (max(ended) - min(begun)) if begun and ended else None,
        model=next((message.model for message in reversed(transcript.messages) if message.model), None),
    )
    return item, answer


def _sum(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def private_in(text: str) -> Iterator[tuple[str, str]]:
    """Personal data and credentials in a text, each with its kind."""
    return ((kind, match[0]) for kind, pattern in _PRIVATE.items() for match in pattern.finditer(text))


def _texts(value: Any) -> Iterator[str]:
    """Every text in JSON data; `_redacted` also changes only texts."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(inner)


def _redacted(value: Any) -> tuple[Any, int]:
    """A value with private parts of its texts replaced, and the number of replacements."""
    if isinstance(value, str):
        count = 0
        for kind, pattern in _PRIVATE.items():
            value, more = pattern.subn(f"[{kind}]", value)
            count += more
        return value, count
    if isinstance(value, Mapping):
        pairs = {name: _redacted(one) for name, one in value.items()}
        return {name: one for name, (one, _) in pairs.items()}, sum(count for _, count in pairs.values())
    if isinstance(value, list | tuple):
        entries = [_redacted(one) for one in value]
        return [one for one, _ in entries], sum(count for _, count in entries)
    return value, 0


def _redacted_answer(answer: AnswerRecord) -> tuple[AnswerRecord, int]:
    assert isinstance(answer.transcript, Transcript)
    transcript, count = _redacted(to_json(answer.transcript))
    text, _ = _redacted(answer.text)
    calls, _ = _redacted(answer.tool_calls)
    request, _ = _redacted(answer.request)
    changed = replace(answer, text=text, tool_calls=tuple(calls), request=request, transcript=from_json(transcript))
    return changed, count


def preview(path: Path) -> Iterator[str]:
    """Lines about what an import would contain, and what may be private in it; nothing is written."""
    recording, losses = read(path)
    yield f"{counted(len(recording.answers), 'conversation')} in {path.name}"
    yield from map(str, losses.of("left out"))
    found: dict[str, list[str]] = {}
    for one in recording.answers:
        for said in _texts([recording.document["items"][one.item], to_json(one.answer.transcript or Transcript())]):
            for kind, text in private_in(said):
                found.setdefault(kind, []).append(text)
    for kind, texts in found.items():
        yield f"{kind}: {counted(len(texts), 'place')}, such as {_masked(texts[0])}; --redact writes [{kind}]"
    if not found:
        yield "nothing that looks like a key, an email, a card or a phone number"


def _masked(text: str) -> str:
    return text[:3] + "…" + text[-2:]


def recognises(path: Path) -> bool:
    """Whether a file holds spans."""
    if not path.is_file() or path.suffix not in (".json", ".jsonl", ".ndjson", ".pb", ".otlp"):
        return False
    head = read_head(path, _HEAD)
    marks = (b'"resourceSpans"', b'"resource_spans"', b'"context.trace_id"', b'"parentObservationId"', b'"span_kind"')
    return path.suffix in (".pb", ".otlp") or any(mark in head for mark in marks)


def _keep(request: ImportRequest) -> ImportResult:
    return keep_run(request, lambda path: read(path, request.options))


IMPORTER = Importer(
    kind="otlp",
    also=("phoenix", "langfuse"),
    about="traces of agents: OTLP, spans of Phoenix or observations of Langfuse",
    recognises=recognises,
    read=_keep,
    preview=preview,
    order=25,
)
