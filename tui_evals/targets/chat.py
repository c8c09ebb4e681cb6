"""The chat completions protocol: keys by reference, the body of a request, the parsing of an answer."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tui_evals.text.endings import ENDINGS, ending_word
from tui_evals.text.logprobs import choices_of, tokens_in

from .base import MAX_COST, MAX_TOKENS, ConfigurationError, Reply, Request, TargetConfig, Usage

# Names litellm would take as something else than a parameter of the model: whom to ask, with whose key, what to run.
# A prompt or dataset may therefore set only these; anything else has to stand in the configuration.
SAMPLING_PARAMS = {
    *("temperature", "top_p", "top_k", "min_p", "seed", "stop", "n", "user", "modalities", "verbosity", "thinking"),
    *("max_tokens", "max_completion_tokens", "presence_penalty", "frequency_penalty", "repetition_penalty"),
    *("logit_bias", "logprobs", "top_logprobs", "tool_choice", "parallel_tool_calls", "reasoning_effort"),
    "response_format",
}


def resolve_reference(value: str | None, environment: Mapping[str, str], setting: str, target: str) -> str | None:
    """The value of a setting, looked up in the environment where it is a reference such as env:NAME."""
    if value is None or not value.startswith("env:"):
        return value
    name = value[4:]
    if not environment.get(name, "").strip():
        raise ConfigurationError(
            f"The target {target} takes its {setting} from the environment variable {name}, which is not set. "
            f"Set {name}, or write it to .env.local."
        )
    return environment[name].strip()


def url_secrets(url: str) -> Iterator[str]:
    """The secret parts of an address: its password and the values of its query."""
    parts = urlsplit(url)
    yield from filter(None, (parts.password, *(value for _, value in parse_qsl(parts.query))))


def demand_reference(config: TargetConfig) -> None:
    """Refuse a key that stands in the configuration itself, where it would be stored and shown."""
    if config.api_key is not None and not config.api_key.startswith("env:"):
        raise ConfigurationError(
            f'The api_key of the target {config.name} must be a reference such as "env:OPENAI_API_KEY", not a key. '
            "Put the key into an environment variable or .env.local and name that variable."
        )


def completion_body(config: TargetConfig, model: str, request: Request) -> dict[str, Any]:
    """The body of a request; parameters of the request win over the target's."""
    body: dict[str, Any] = {**config.params, **request.params}
    for name in ("stream", "stream_options"):
        body.pop(name, None)
    body |= {"model": model, "messages": request.messages}
    if request.tools:
        body["tools"] = request.tools
    if request.response_format == "json":
        body["response_format"] = {"type": "json_object"}
    elif isinstance(request.response_format, Mapping):
        schema = {"name": "answer", "schema": request.response_format}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def parse_body(body: bytes, streamed: bool) -> Reply:
    """The reply in a body, also when it was streamed without being asked to; ValueError if there is none."""
    try:
        return parse_completion(_join_stream(body) if streamed or body.startswith(b"data:") else json.loads(body))
    except RecursionError:
        raise ValueError("the brackets are nested too deeply") from None


def parse_completion(document: Any) -> Reply:
    """The reply in a chat completion; ValueError if there is none."""
    try:
        choice = document["choices"][0]
        message, counted = choice["message"], document.get("usage") or {}
        refusal = message.get("refusal") or (message.get("provider_specific_fields") or {}).get("refusal")
        usage, wrong_counts = _parse_usage(counted)
        notes = {"refusal": refusal, "usage": wrong_counts}
        return Reply(
            text=_content_text(message.get("content")) or refusal or "",
            tool_calls=tuple(map(_tool_call, message.get("tool_calls") or ())),
            usage=usage,
            cost=parse_cost(counted.get("cost")),
            model=document.get("model"),
            finish_reason=_finish_reason(choice),
            diagnostics={name: note for name, note in notes.items() if note} or None,
            choices=choices_of(tokens_in(logprobs)) if (logprobs := choice.get("logprobs")) else (),
        )
    except (KeyError, IndexError, TypeError, AttributeError):
        raise ValueError("the document is not a chat completion") from None


def _finish_reason(choice: Mapping[str, Any]) -> str | None:
    """Why the answer ended; litellm calls some answers ended that its provider says were cut."""
    said: str | None = choice.get("finish_reason")
    fields = choice.get("provider_specific_fields")
    natively = fields.get("native_finish_reason") if fields and said == "stop" else None
    return natively if isinstance(natively, str) and ending_word(natively) in ENDINGS else said


def _content_text(content: object) -> str:
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part.get("type") == "text")
    if content is not None and not isinstance(content, str):
        raise TypeError("content is neither text nor a list of parts")
    return content or ""


def _tool_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    arguments = function.get("arguments") or ""
    sent = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": call.get("id") or "", "name": function["name"], "arguments": sent}


def _parse_usage(counted: Mapping[str, Any]) -> tuple[Usage | None, str]:
    """The tokens counted, and a note where what the provider states cannot be a count."""
    stated = counted.get("prompt_tokens"), counted.get("completion_tokens")
    if stated == (None, None):
        return None, ""
    input_tokens, output_tokens = (
        value if type(value) is int and 0 <= value <= MAX_TOKENS else None for value in stated
    )
    if input_tokens is None or output_tokens is None:
        return None, f"not counted: {_stated(stated[0])} tokens in and {_stated(stated[1])} out were stated"
    if not (input_tokens or output_tokens):  # where a provider counts nothing, litellm puts zeros
        return None, ""
    cached = _detail(counted, "prompt_tokens_details", "cached_tokens")
    cached = cached or _count(counted.get("prompt_cache_hit_tokens"))  # which is what DeepSeek calls it
    thought = _detail(counted, "completion_tokens_details", "reasoning_tokens")
    if thought and counted.get("total_tokens") == input_tokens + output_tokens + thought:
        output_tokens += thought  # some count beside the answer what was thought for it, and bill both
    return Usage(input_tokens, output_tokens, min(cached, input_tokens), min(thought, output_tokens)), ""


def _detail(counted: Mapping[str, Any], group: str, name: str) -> int:
    """A count within a count, 0 where none is stated."""
    details = counted.get(group)
    return _count(details.get(name)) if isinstance(details, dict) else 0


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TOKENS else 0


def _stated(value: object) -> str:
    """A count that is none, in a few characters."""
    return "no" if value is None else str(value)[:24]


def parse_cost(value: object) -> float | None:
    """A stated cost that can be one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) and 0 <= value <= MAX_COST else None


def _join_stream(body: bytes) -> dict[str, Any]:
    """The events of a stream joined to an answer as if it had not been streamed."""
    events = (line.removeprefix(b"data:").strip() for line in body.splitlines() if line.startswith(b"data:"))
    return join_chunks(json.loads(data) for data in events if data != b"[DONE]")


def is_chunk(data: object) -> bool:
    """Whether data is a piece of a chat completion."""
    choices = data.get("choices") if isinstance(data, Mapping) else None
    return isinstance(choices, list) and all(isinstance(one, Mapping) and "delta" in one for one in choices)


def join_chunks(chunks: Iterable[Any]) -> dict[str, Any]:
    """The pieces of a chat completion as the whole; ValueError where the end is missing, or one is no such piece."""
    document: dict[str, Any] = {}
    message: dict[str, Any] = {"content": "", "refusal": ""}
    calls: dict[int, dict[str, Any]] = {}
    tokens: list[Any] = []
    finish: str | None = None
    for chunk in chunks:
        try:
            document |= {name: chunk[name] for name in ("model", "usage") if chunk.get(name)}
            for choice in (chunk.get("choices") or ())[:1]:
                finish = choice.get("finish_reason") or finish
                tokens += tokens_in(choice.get("logprobs"))
                _add_delta(choice.get("delta") or {}, message, calls)
        except (KeyError, TypeError, AttributeError):
            raise ValueError("an event of the stream is not a piece of a chat completion") from None
    if finish is None:
        raise ValueError("the stream broke off")
    whole = {"message": {**message, "tool_calls": [*calls.values()]}, "finish_reason": finish}
    return {**document, "choices": [{**whole, "logprobs": {"content": tokens}}]}


def _add_delta(delta: Mapping[str, Any], message: dict[str, Any], calls: dict[int, dict[str, Any]]) -> None:
    for name in message:
        message[name] += delta.get(name) or ""
    for part in delta.get("tool_calls") or ():
        call = calls.setdefault(part.get("index", len(calls)), {"id": "", "function": {"name": "", "arguments": ""}})
        call["id"] = part.get("id") or call["id"]
        for name in call["function"]:
            call["function"][name] += (part.get("function") or {}).get(name) or ""
