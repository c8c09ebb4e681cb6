"""The protocols of chat completions, Responses and embeddings: bodies of requests, and the parsing of answers."""

from __future__ import annotations

import base64
import binascii
import json
import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tui_evals.targets.base import MAX_COST, MAX_TOKENS, ConfigurationError, Reply, Request, TargetConfig, Usage
from tui_evals.targets.failures import StatedError, error_in
from tui_evals.targets.foreign_messages import read_messages, read_parts
from tui_evals.text.chats import content_text
from tui_evals.text.model_output import ENDINGS, choices_of, ending_word, pack_vector, tokens_in
from tui_evals.transcript import Call, Message, Part, Reasoning, Refusal, Text, Transcript, answer_text

# litellm reads other names as something else than a parameter of the model: whom to ask, with whose key, what to run.
# So a prompt or dataset may set only these; all others have to be in the configuration.
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
        empty = f"empty. Set {name}; a file such as .env.local counts only where the shell does not set it."
        missing = f"not set. Set {name}, or write it to .env.local."
        which = empty if name in environment else missing
        raise ConfigurationError(
            f"The target {target} takes its {setting} from the environment variable {name}, which is {which}"
        )
    return environment[name].strip()


def url_secrets(url: str) -> Iterator[str]:
    """The secret parts of an address: its password and the values of its query."""
    parts = urlsplit(url)
    yield from filter(None, (parts.password, *(value for _, value in parse_qsl(parts.query))))


def demand_reference(config: TargetConfig) -> None:
    """Refuse a key that is in the configuration itself, where it would be stored and shown."""
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
    """The reply in a chat completion; ValueError if there is none, StatedError where it states why."""
    try:
        if "choices" not in document and (error := error_in(document)):
            raise StatedError(error)
        choice = document["choices"][0]
        if error := choice.get("error"):
            raise StatedError(error, begun=True)
        message, counted = choice["message"], document.get("usage") or {}
        refusal = message.get("refusal") or (message.get("provider_specific_fields") or {}).get("refusal")
        usage, wrong_counts = _parse_usage(counted)
        notes = {"refusal": refusal, "usage": wrong_counts}
        transcript = _transcript(message)
        said = _content_text(message.get("content")) if transcript is None else answer_text(transcript)
        return Reply(
            text=said or refusal or "",
            transcript=transcript,
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


_BESIDE = dict.fromkeys(
    ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks", "annotations", "images", "audio")
)
"""The fields of a message besides its text and its calls."""


def _transcript(message: Mapping[str, Any]) -> Transcript | None:
    """The transcript of a message, if it has more than a text and calls."""
    content = message.get("content")
    beside = not _BESIDE.keys().isdisjoint(message) and any(message.get(name) for name in _BESIDE)
    # Some servers want their empty reasoning back with a call.
    is_kept = bool(message.get("tool_calls")) and message.get("reasoning_content") is not None
    if not (beside or is_kept or isinstance(content, list)):
        return None
    read = tuple(read_messages({**message, "role": "assistant"}))
    plain = Text | Call | Refusal
    return None if all(isinstance(part, plain) for each in read for part in each.parts) else Transcript(read)


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
    """The tokens, and a note if a value of the provider cannot be a count."""
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
        output_tokens += thought  # some count thinking apart from the answer, and bill both
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
    return join_chunks(_events(body))


def _events(body: bytes) -> Iterator[Any]:
    """The data of the events in a stream; an event named `error` reports an error, whatever its data."""
    is_error = False
    for line in body.splitlines():
        if line.startswith(b"event:"):
            is_error = line.removeprefix(b"event:").strip() == b"error"
        elif line.startswith(b"data:") and (data := line.removeprefix(b"data:").strip()) != b"[DONE]":
            event = json.loads(data)
            yield {"error": error_in(event) or event} if is_error else event


def is_chunk(data: object) -> bool:
    """Whether data is a piece of a chat completion."""
    choices = data.get("choices") if isinstance(data, Mapping) else None
    return isinstance(choices, list) and all(isinstance(one, Mapping) and "delta" in one for one in choices)


def join_chunks(chunks: Iterable[Any]) -> dict[str, Any]:
    """The chat completion that streamed chunks form; ValueError if the end is missing or a chunk is invalid.

    Raises StatedError if a chunk reports an error.
    """
    document: dict[str, Any] = {}
    message: dict[str, Any] = {"content": "", "refusal": ""}
    calls: dict[int, dict[str, Any]] = {}
    tokens: list[Any] = []
    finish: str | None = None
    for chunk in chunks:
        if error := error_in(chunk):
            raise StatedError(error, begun=bool(message["content"] or calls))
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
    for name in ("content", "refusal"):
        message[name] += delta.get(name) or ""
    for name in _BESIDE:
        match delta.get(name):
            case str(piece):
                message[name] = message.get(name, "") + piece
            case list(pieces):
                message[name] = [*message.get(name, ()), *pieces]
            case Mapping() as piece:  # audio comes in chunks of bytes and of transcript
                known = message.setdefault(name, {})
                for key, value in piece.items():
                    known[key] = known.get(key, "") + value if isinstance(value, str) and key != "id" else value
    for part in delta.get("tool_calls") or ():
        call = calls.setdefault(part.get("index", len(calls)), {"id": "", "function": {"name": "", "arguments": ""}})
        call["id"] = part.get("id") or call["id"]
        for name in call["function"]:
            call["function"][name] += (part.get("function") or {}).get(name) or ""


_ENDS = {"max_output_tokens": "length", "content_filter": "content_filter"}
"""Why an answer is incomplete, in the words of the chat protocol."""
_LOGPROBS = "message.output_text.logprobs"
RESPONSE_ITEMS = "response_items"
"""The field of an assistant message that holds the items it was, which go back as they came."""
ENCRYPTED_REASONING = "reasoning.encrypted_content"
"""The field to include if the provider stores nothing, so that reasoning can be sent back in a tool loop."""
_INSTRUCTING = ("system", "developer")


def response_body(chat: Mapping[str, Any]) -> dict[str, Any]:
    """A request of the chat protocol in this one; the provider stores it only if `store` says so."""
    body: dict[str, Any] = {"store": False, **_input(chat["messages"])}
    text: dict[str, Any] = dict(chat.get("text") or {})
    for name, value in chat.items():
        match name:
            case "messages" | "text":
                pass
            case "max_tokens" | "max_completion_tokens":
                body["max_output_tokens"] = value
            case "reasoning_effort":
                body["reasoning"] = {**body.get("reasoning", {}), "effort": value}
            case "reasoning":
                body["reasoning"] = {**value, **body.get("reasoning", {})}
            case "verbosity":
                text["verbosity"] = value
            case "response_format":
                text["format"] = {**value, **value.get("json_schema", {})}
                text["format"].pop("json_schema", None)
            case "logprobs" | "include":
                # Log-probabilities are returned if they are in `include`.
                named = value if name == "include" else [_LOGPROBS] if value else []
                body["include"] = [*body.get("include", ()), *named]
            case "tools":
                body["tools"] = list(map(_tool, value))
            case "tool_choice":
                body["tool_choice"] = _flat(value) if isinstance(value, Mapping) else value
            case _:
                body[name] = value
    return {**body, "text": text} if text else body


def _flat(function: Mapping[str, Any]) -> dict[str, Any]:
    """A function of the chat protocol as this one has it: its name is next to its type."""
    return {"type": "function", **function["function"]} if "function" in function else dict(function)


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    flat = _flat(tool)
    # Here functions are strict unless they say otherwise, in the chat protocol the other way round.
    return {**flat, "strict": flat.get("strict", False)} if flat.get("type") == "function" else flat


def _input(messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The chat as input items, with its first messages as instructions."""
    opening = 0
    while opening < len(messages) - 1 and messages[opening].get("role") in _INSTRUCTING:
        opening += 1
    items = [item for message in messages[opening:] for item in _items(message)]
    instructions = "\n\n".join(content_text(message.get("content")) for message in messages[:opening])
    return {"input": items, **({"instructions": instructions} if instructions else {})}


def _items(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A message as items: its text, and each function call or result."""
    role, content = message.get("role", "user"), message.get("content")
    if role == "tool":
        output = content_text(content)
        yield {"type": "function_call_output", "call_id": message.get("tool_call_id", ""), "output": output}
        return
    if isinstance(kept := message.get(RESPONSE_ITEMS), list):
        made = {call.get("id") for call in message.get("tool_calls") or ()}
        yield from (item for item in kept if item.get("type") != "function_call" or item.get("call_id") in made)
        return
    if content:
        parts = content if isinstance(content, str) else [_part(part, role) for part in content]
        yield {"role": role, "content": parts}
    for call in message.get("tool_calls") or ():
        function = call.get("function", call)
        arguments = function.get("arguments") or ""
        sent = arguments if isinstance(arguments, str) else json.dumps(arguments)
        yield {"type": "function_call", "call_id": call.get("id", ""), "name": function["name"], "arguments": sent}


def _part(part: Mapping[str, Any], role: str) -> dict[str, Any]:
    """A part of a message: a text, a picture or a file; unknown types are passed on unchanged."""
    match part.get("type"):
        case "text":
            return {"type": "output_text" if role == "assistant" else "input_text", "text": part.get("text", "")}
        case "image_url":
            picture = part["image_url"]
            about = {"url": picture} if isinstance(picture, str) else dict(picture)
            return {"type": "input_image", "image_url": about.pop("url", None), **about}
        case "file":
            return {"type": "input_file", **part["file"]}
    return dict(part)


def parse_response_body(body: bytes, streamed: bool) -> Reply:
    """The reply in a body, streamed or not; ValueError if there is none, StatedError where the model failed."""
    try:
        is_stream = streamed or body.startswith((b"data:", b"event:"))
        return parse_response(_last_of_stream(body) if is_stream else json.loads(body))
    except RecursionError:
        raise ValueError("the brackets are nested too deeply") from None


def _last_of_stream(body: bytes) -> Any:
    """The whole answer, which the event that ends a stream repeats."""
    whole: Any = None
    begun = False
    for line in body.splitlines():
        data = line.removeprefix(b"data:").strip()
        if not line.startswith(b"data:") or data == b"[DONE]":
            continue
        event = json.loads(data)
        if not isinstance(event, Mapping):
            raise ValueError("an event of the stream is not an object")
        if event.get("type") == "error" or ("type" not in event and error_in(event)):
            raise StatedError(error_in(event), begun=begun)
        begun = begun or begins_answer(event)
        if event.get("type") in ("response.completed", "response.incomplete", "response.failed"):
            whole = event.get("response")
    if whole is None:
        raise ValueError("the stream broke off")
    return whole


def begins_answer(event: Mapping[str, Any]) -> bool:
    """Whether an event of a stream has a piece of the answer; reasoning before it does not count."""
    kinds = ("response.output_text.delta", "response.refusal.delta", "response.function_call_arguments.delta")
    return event.get("type") in kinds and bool(event.get("delta"))


def parse_response(document: Any) -> Reply:
    """The reply in a response; ValueError if there is none, StatedError where the model failed."""
    try:
        if "output" not in document and (error := error_in(document)):
            raise StatedError(error)
        if document["status"] in ("failed", "cancelled"):
            raise StatedError(document.get("error") or {"code": document["status"]}, begun=True)
        items = document["output"]
        parts = [part for item in items if item["type"] == "message" for part in item["content"]]
        text = "".join(part["text"] for part in parts if part["type"] == "output_text")
        refusal = "".join(part["refusal"] for part in parts if part["type"] == "refusal")
        calls = [
            {"id": item.get("call_id") or "", "name": item["name"], "arguments": item.get("arguments") or ""}
            for item in items
            if item["type"] == "function_call"
        ]
        counted = document.get("usage") or {}
        usage, wrong_counts = _usage(counted)
        notes = {"refusal": refusal, "usage": wrong_counts}
        return Reply(
            text=text or refusal,
            tool_calls=tuple(calls),
            usage=usage,
            cost=parse_cost(counted.get("cost")),
            model=document.get("model"),
            finish_reason=_finish(document, bool(calls)),
            diagnostics={name: note for name, note in notes.items() if note} or None,
            choices=choices_of([token for part in parts for token in tokens_in(part.get("logprobs"))]),
            transcript=_items_transcript(items, bool(calls)),
        )
    except (KeyError, IndexError, TypeError, AttributeError):
        raise ValueError("the document is not a response") from None


def _items_transcript(items: Sequence[Mapping[str, Any]], calls: bool) -> Transcript | None:
    """The transcript of a response's items, if there is more than a text and calls.

    In a response with calls, the first reasoning keeps all items, because each must be sent back with the one after it.
    """
    parts: list[Part] = []
    is_kept = False
    for item in items:
        for part in read_parts(item):
            if isinstance(part, Reasoning):
                part = Reasoning(part.text)
                if calls and not is_kept:
                    kept = [{name: value for name, value in each.items() if value is not None} for each in items]
                    part, is_kept = Reasoning(part.text, {"message": {RESPONSE_ITEMS: kept}}), True
            parts.append(part)
    said = [part for part in parts if not (isinstance(part, Reasoning) and not part.text and part.block is None)]
    if all(isinstance(part, Text | Call | Refusal) for part in said):
        return None
    return Transcript((Message(role="assistant", parts=tuple(said)),))


def _finish(document: Mapping[str, Any], calls: bool) -> str:
    if document["status"] == "incomplete":
        reason = (document.get("incomplete_details") or {}).get("reason")
        return _ENDS.get(str(reason), str(reason or "incomplete"))
    return "tool_calls" if calls else "stop"


def _usage(counted: Mapping[str, Any]) -> tuple[Usage | None, str]:
    """The tokens, and a note if a value of the provider cannot be a count."""
    stated: dict[str, Any] = {
        "input_tokens": counted.get("input_tokens"),
        "output_tokens": counted.get("output_tokens"),
        "cached_tokens": (counted.get("input_tokens_details") or {}).get("cached_tokens") or 0,
        "reasoning_tokens": (counted.get("output_tokens_details") or {}).get("reasoning_tokens") or 0,
    }
    if stated["input_tokens"] is None and stated["output_tokens"] is None:
        return None, ""
    if not all(type(count) is int and 0 <= count <= MAX_TOKENS for count in stated.values()):
        return None, f"not counted: {str(stated)[:100]} was stated"
    read, written = stated["input_tokens"], stated["output_tokens"]
    cached, thought = min(stated["cached_tokens"], read), min(stated["reasoning_tokens"], written)
    return Usage(read, written, cached, thought), ""


EMBEDDINGS_WANTED = "a list of embeddings"
"""The form of an answer, in words."""


def embedding_body(config: TargetConfig, model: str, request: Request) -> dict[str, Any]:
    """The body of a request; only the target's own parameters belong to it, such as dimensions."""
    return {**config.params, "model": model, "input": [message["content"] for message in request.messages]}


def parse_embeddings_body(body: bytes, _: bool) -> Reply:
    """The reply in a body; ValueError if there is none."""
    try:
        return parse_embeddings(json.loads(body))
    except RecursionError:
        raise ValueError("the brackets are nested too deeply") from None


def parse_embeddings(document: Any) -> Reply:
    """The reply in a list of embeddings; ValueError if there is none, or one is missing."""
    if (error := error_in(document)) and not document.get("data"):
        raise StatedError(error)
    try:
        rows = document["data"]
        placed = {row.get("index", place): row["embedding"] for place, row in enumerate(rows)}
        if sorted(placed) != list(range(len(rows))):
            raise ValueError("its embeddings are not numbered from 0 on")
        lines = [pack_vector(_numbers(placed[place])) for place in range(len(rows))]
        if len({len(line) for line in lines}) > 1:
            raise ValueError("its vectors differ in length")
        return Reply(text="\n".join(lines), usage=_embedding_usage(document.get("usage")), model=document.get("model"))
    except (KeyError, TypeError, AttributeError):
        raise ValueError("the document is not a list of embeddings") from None


def _numbers(value: object) -> list[float]:
    if isinstance(value, str):  # some servers use this form, whatever was requested
        numbers = array("f")
        try:
            numbers.frombytes(base64.b64decode(value, validate=True))
        except (binascii.Error, ValueError):
            raise ValueError("an embedding is no vector") from None
        return numbers.tolist()
    if not isinstance(value, list) or not all(type(number) in (int, float) for number in value):
        raise ValueError("an embedding is no list of numbers")
    return value


def _embedding_usage(counted: object) -> Usage | None:
    tokens = counted.get("prompt_tokens") if isinstance(counted, Mapping) else None
    return Usage(tokens, 0) if type(tokens) is int and tokens > 0 else None
