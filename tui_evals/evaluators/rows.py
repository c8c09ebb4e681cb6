"""Evidence from rows of JSON and from a sample item, for scripts, tests and previews."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from tui_evals.evaluators.judging import chunk_texts
from tui_evals.text.chats import chat_to_text
from tui_evals.transcript import Transcript, from_json, transcript_of_steps

from .base import Ask, Evaluator, Evidence, Question, Score, ToolCall, error_score, evaluate
from .registry import Registry, UnknownEvaluator

_TEXT_FIELDS = {
    "prompt": "prompt",
    "response": "response",
    "expected": "expected",
    "context": "context",
    "rules": "rules",
    "intent": "intent",
    "input_spec": "input_spec",
    "inputSpec": "input_spec",
    "prompt_template": "prompt_template",
    "promptTemplate": "prompt_template",
    "groundtruth": "groundtruth",
    "finish_reason": "finish_reason",
}
_NUMBER_FIELDS = {name: name for name in ("latency_ms", "first_token_ms", "tokens_per_second", "cost", "tokens")}


class BadRow(ValueError):
    """The row does not have the form of evidence; the message names the field."""


class RecordedReplies:
    """A judge that gives the replies of a row in order, then the last one again and again."""

    def __init__(self, replies: list[str]) -> None:
        self._replies = replies
        self._given = 0

    async def __call__(self, question: Question) -> str:
        """The next reply."""
        self._given += 1
        return self._replies[min(self._given, len(self._replies)) - 1]


def evidence_of(row: Mapping[str, Any]) -> Evidence:
    """The evidence of a row; absent and null fields are absent evidence."""
    present = {key: value for key, value in row.items() if value is not None}
    fields: dict[str, Any] = {
        field: _require_text(present[key], key) for key, field in _TEXT_FIELDS.items() if key in present
    }
    fields |= {field: _require_number(present[key], key) for key, field in _NUMBER_FIELDS.items() if key in present}
    if "ideal" in present:
        ideal = present["ideal"]
        references = _require_texts([ideal] if isinstance(ideal, str) else ideal, "ideal")
        fields["alternatives"] = references
        if "expected" not in fields and references:
            fields["expected"] = references[0]
    if "chunks" in present:
        fields["chunks"] = chunk_texts(_require_list(present["chunks"], "chunks"))
    if "transcript" in present:
        fields["transcript"] = _transcript(present["transcript"])
    if "completions" in present:
        fields["completions"] = _require_texts(present["completions"], "completions")
    for key in ("variables", "diagnostics", "user"):
        if key in present:
            fields[key] = _require_object(present[key], key)
    for key in ("history", "request", "tools"):
        if key in present:
            fields[key] = tuple(_require_object(message, key) for message in _require_list(present[key], key))
    if "request" in fields:
        fields.setdefault("prompt", chat_to_text(fields["request"]))
    if "tool_calls" in present:
        fields["tool_calls"] = tuple(tool_call(call) for call in _require_list(present["tool_calls"], "tool_calls"))
    for key in ("steps", "turns"):
        if key in present:
            if type(present[key]) is not int:
                raise BadRow(f"{key}: a whole number is expected")
            fields[key] = present[key]
    fields["from_cache"] = present.get("from_cache") is True
    fields["json_response"] = present.get("json_response") is True
    return Evidence(**fields)


def _transcript(value: object) -> Transcript:
    """A transcript, or the steps that were one before."""
    try:
        if isinstance(value, list):
            return transcript_of_steps(_require_object(one, "transcript") for one in value)
        return from_json(value)
    except (ValueError, KeyError, TypeError) as problem:
        raise BadRow(f"transcript: {problem}") from None


def tool_call(call: Any) -> ToolCall:
    """A tool call as we write it, or as a chat completion holds it; arguments that are JSON text are parsed."""
    inner = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
        raise BadRow("tool_calls: each call needs a name")
    arguments = inner.get("arguments")
    if isinstance(arguments, str):
        with suppress(ValueError, RecursionError):
            arguments = json.loads(arguments)
    result = call.get("result")
    return ToolCall(inner["name"], arguments, result if isinstance(result, str) else None, call.get("failed") is True)


def record_of(score: Score) -> dict[str, Any]:
    """A record as plain JSON."""
    return {
        "score": score.score,
        "result": score.result,
        "label": score.label,
        "threshold": score.threshold,
        "reason": score.reason,
        "details": dict(score.details),
    }


Refusal = Callable[[str, Mapping[str, Any]], str]
"""Why an evaluator with these options may not run here; empty where it may."""


class RowScorer:
    """Scores rows; an evaluator with the same options is built once."""

    def __init__(self, registry: Registry, ask: Ask | None = None, refusal: Refusal = lambda name, options: "") -> None:
        self._registry = registry
        self._ask = ask
        self._refusal = refusal
        self._evaluators: dict[str, Evaluator] = {}

    async def score(self, row: object) -> Score:
        """The record of one row; a row that cannot be judged is an error record."""
        try:
            if not isinstance(row, dict):
                raise BadRow("the row is not a JSON object")
            evidence = evidence_of(row)
            evaluator = self._evaluator(row)
        except (BadRow, UnknownEvaluator) as problem:
            return error_score("invalidRow", str(problem))
        except ValidationError as problem:
            return error_score("evaluatorConfigurationError", options_problem(problem))
        if refused := self._refusal(row["evaluator"], row.get("options") or {}):
            return error_score("evaluatorLoadError", refused)
        return await evaluate(evaluator, evidence)

    def _evaluator(self, row: Mapping[str, Any]) -> Evaluator:
        name, options = row.get("evaluator"), row.get("options") or {}
        if not isinstance(name, str):
            raise BadRow("evaluator: the name of an evaluator is missing")
        options = {key: value for key, value in _require_object(options, "options").items() if key != "type"}
        reply = row.get("judge_reply")
        if reply is not None:
            replies = [reply] if isinstance(reply, str) else list(_require_texts(reply, "judge_reply"))
            return self._registry.build(name, options, RecordedReplies(replies or [""]))
        cache_key = json.dumps([name, options])
        if cache_key not in self._evaluators:
            self._evaluators[cache_key] = self._registry.build(name, options, self._ask)
        return self._evaluators[cache_key]


def options_problem(problem: ValidationError) -> str:
    """The errors in options, each with its field."""
    faults = []
    for fault in problem.errors(include_url=False, include_context=False):
        place = ".".join(str(part) for part in fault["loc"])
        message = fault["msg"].removeprefix("Value error, ")
        faults.append(f"options.{place}: {message}" if place else f"options: {message}")
    return "; ".join(faults)


def _require_text(value: object, key: str) -> str:
    if not isinstance(value, str):
        raise BadRow(f"{key}: must be text")
    return value


def _require_number(value: object, key: str) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadRow(f"{key}: must be a number")
    return value


def _require_list(value: object, key: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadRow(f"{key}: must be a list")
    return value


def _require_texts(value: object, key: str) -> tuple[str, ...]:
    values: Iterable[object] = _require_list(value, key)
    return tuple(_require_text(part, key) for part in values)


def _require_object(value: object, key: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadRow(f"{key}: must be an object")
    return value


SAMPLE: Mapping[str, Any] = {
    "history": (
        {"role": "system", "content": "You are the polite clerk of a shop."},
        {"role": "user", "content": "Hello, this is Ada. Is my order 7 paid?"},
        {"role": "assistant", "content": "It is, Ada."},
    ),
    "prompt": "Then refund it, please.",
    "response": "Order 7 is refunded: 24.90 euros.",
    "expected": "The order is refunded, and the amount is told.",
    "context": "Orders are refunded within 14 days.",
    "tool_calls": (
        ToolCall("find_order", {"number": 7}, '{"status": "paid", "cents": 2490}'),
        ToolCall("refund", {"order": 7}, "refunded 2490 cents"),
    ),
    "tools": (
        {"type": "function", "function": {"name": "find_order", "description": "Looks up an order."}},
        {"type": "function", "function": {"name": "refund", "description": "Pays the money for an order back."}},
    ),
    "diagnostics": {
        "route": "refunds",
        "retrieval_executions": [
            {
                "capability": "Email",
                "queries": [{"queryString": "refund rules"}],
                "retrievalHits": [
                    {"rank": 1, "extracts": [{"text": "Refunds are paid the way the order was paid."}]},
                    {"rank": 2, "extracts": [{"text": "The shop opens at nine."}]},
                ],
            }
        ],
    },
}
"""The evidence of the sample item; an evaluator's other needs come from its example."""


async def sample_questions(kind: type[Evaluator]) -> tuple[Question, ...]:
    """The questions to a judge about the sample item, with the options of the evaluator's example; empty if none."""
    example: dict[str, Any] = dict(kind.example)
    options: dict[str, Any] = dict(example.pop("options", {}))
    if kind.may_ask and "mode" in kind.Options.model_fields:
        options["mode"] = "judge"
    replies: Any = example.pop("judge_reply", "")
    first = str(replies if isinstance(replies, str) else replies[0])
    asked: list[Question] = []

    async def note(question: Question) -> str:
        if not any(question.messages[: len(one.messages)] == one.messages for one in asked):  # a repair says it again
            asked.append(question)
        return first

    await evaluate(kind(kind.Options.model_validate(options), note), Evidence(**{**example, **SAMPLE}))
    return tuple(asked)
