"""A server on loopback that speaks the wire format of each provider and refuses what the real one refuses.

`python -m tests.wires` asks it one question of every kind through each provider's target, and writes what came over
the line into the page `providers` of the manual.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tui_evals.targets.base import ConfigurationError, Reply, Request, Target, TargetConfig
from tui_evals.targets.opening import open_target

Json = dict[str, Any]
PAGE = Path(__file__).parent.parent / "tui_evals" / "help" / "providers.md"
SIGNATURE = "c2lnbmF0dXJl"
THOUGHT = "look it up"
ANSWER = "Order 7 is paid."
PICTURE = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
SCHEMA = {
    "type": "object",
    "properties": {"paid": {"type": "boolean"}},
    "required": ["paid"],
    "additionalProperties": False,
}
FIND = {
    "type": "function",
    "function": {
        "name": "find",
        "description": "Look an order up.",
        "parameters": {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]},
    },
}


class Refused(Exception):
    """What the provider says with its 400."""


def demand(condition: object, message: str) -> None:
    if not condition:
        raise Refused(message)


def demand_known(data: Mapping[str, Any], known: Collection[str]) -> None:
    for name in data:
        demand(name in known, f"Unknown parameter: '{name}'.")


@dataclass
class Asked:
    """What a wire read of a question."""

    texts: list[str] = field(default_factory=list)
    calls: list[Any] = field(default_factory=list)
    """The parts of messages that called a tool, as the wire has them."""
    results: int = 0
    tools: list[str] = field(default_factory=list)
    images: int = 0
    schema: bool = False

    @property
    def calls_tool(self) -> bool:
        """Whether the answer is a call."""
        return bool(self.tools) and not self.results

    @property
    def answer(self) -> str:
        """What the model says at last."""
        return '{"paid": true}' if self.schema else "a red square" if self.images else ANSWER


# -- OpenAI's chat completions, and who else speaks them

_CHAT = {
    *("model", "messages", "tools", "tool_choice", "response_format", "temperature", "top_p", "seed", "stop", "stream"),
    *("stream_options", "presence_penalty", "frequency_penalty"),
}
_CHAT_OF: Mapping[str, set[str]] = {
    "openai": _CHAT | {"max_completion_tokens", "reasoning_effort", "verbosity", "store", "parallel_tool_calls"},
    "ollama": _CHAT | {"max_tokens", "reasoning_effort"},
    "vllm": _CHAT | {"max_tokens", "max_completion_tokens", "reasoning_effort", "top_k", "min_p"},
    "openrouter": _CHAT | {"max_tokens", "max_completion_tokens", "reasoning_effort", "reasoning", "usage"},
}
_DETAILS = [{"type": "reasoning.encrypted", "data": SIGNATURE, "index": 0}]


def _brand(model: str) -> str:
    return next((name for name in _CHAT_OF if name in model), "openai")


def chat(body: Json, headers: Mapping[str, str]) -> Json:
    """Chat completions; OpenAI's models that think take no temperature and call the length by another name."""
    brand = _brand(body.get("model", ""))
    demand_known(body, _CHAT_OF[brand])
    if brand == "openai":
        demand(body.get("temperature", 1) == 1, "Unsupported value: 'temperature' does not support 0 with this model.")
    asked = Asked()
    open_calls: set[str] = set()
    for message in body["messages"]:
        demand(message["role"] in ("system", "developer", "user", "assistant", "tool"), "Invalid role")
        _read_chat_content(message.get("content"), asked)
        if message["role"] == "tool":
            demand(message["tool_call_id"] in open_calls, "tool_call_id matches no call")
            asked.results += 1
        for call in message.get("tool_calls") or ():
            demand(call.get("type") == "function", "Missing required parameter: 'tool_calls[0].type'.")
            open_calls.add(call["id"])
            if brand in ("vllm", "ollama"):
                demand(message.get("reasoning") == THOUGHT, "the reasoning did not come back with the call")
            if brand == "openrouter":
                demand(message.get("reasoning_details") == _DETAILS, "reasoning_details did not come back")
    for tool in body.get("tools", ()):
        demand(tool.get("type") == "function", "Missing required parameter: 'tools[0].type'.")
        asked.tools.append(tool["function"]["name"])
    form = body.get("response_format")
    if form is not None:
        demand(form.get("type") == "json_schema", "response_format must be json_schema")
        demand(form["json_schema"]["name"] and form["json_schema"]["schema"] == SCHEMA, "the schema is missing")
        asked.schema = True
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"order": 7}'}}
    message = {"role": "assistant", "content": None if asked.calls_tool else asked.answer}
    if asked.calls_tool:
        message["tool_calls"] = [call]
    if brand in ("vllm", "ollama", "openrouter") and "reasoning_effort" in body:
        message |= {"reasoning": THOUGHT} | ({"reasoning_details": _DETAILS} if brand == "openrouter" else {})
    choice = {"index": 0, "finish_reason": "tool_calls" if asked.calls_tool else "stop", "message": message}
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    return {"id": "x", "object": "chat.completion", "model": body.get("model"), "choices": [choice], "usage": usage}


def _read_chat_content(content: Any, asked: Asked) -> None:
    if isinstance(content, str) or content is None:
        asked.texts.append(content or "")
        return
    for part in content:
        demand(part["type"] in ("text", "image_url"), f"Invalid content type {part['type']}")
        if part["type"] == "text":
            asked.texts.append(part["text"])
        else:
            demand(part["image_url"]["url"] == PICTURE, "the picture is another")
            asked.images += 1


def chat_events(whole: Json) -> Iterator[Json]:
    """The pieces of a chat completion."""
    message = whole["choices"][0]["message"]
    head = {"id": "x", "object": "chat.completion.chunk", "model": whole["model"]}
    pieces: list[Json] = [{"role": "assistant", "content": ""}]
    pieces += [{name: message[name]} for name in ("reasoning", "reasoning_details") if name in message]
    pieces += [{"content": piece} for piece in re.findall(r"\S+\s*", message["content"] or "")]
    pieces += [{"tool_calls": [{"index": 0, **call}]} for call in message.get("tool_calls", ())]
    for piece in pieces:
        yield {**head, "choices": [{"index": 0, "delta": piece, "finish_reason": None}]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": whole["choices"][0]["finish_reason"]}]}
    yield {**head, "choices": [], "usage": whole["usage"]}


# -- OpenAI's Responses

_RESPONSES = {
    *("model", "input", "instructions", "tools", "tool_choice", "text", "reasoning", "include", "store", "stream"),
    *("max_output_tokens", "temperature", "top_p", "parallel_tool_calls"),
}


def responses(body: Json, headers: Mapping[str, str]) -> Json:
    """Responses; nothing is kept, so encrypted reasoning comes back before the call it led to."""
    demand_known(body, _RESPONSES)
    demand("temperature" not in body, "Unsupported parameter: 'temperature' is not supported with this model.")
    demand(body.get("store") is False, "this organization keeps nothing: store must be false")
    asked = Asked(texts=[body.get("instructions", "")])
    items = body["input"]
    for place, item in enumerate(items):
        match item.get("type", "message"):
            case "message":
                for part in [] if isinstance(item["content"], str) else item["content"]:
                    demand(part["type"] in ("input_text", "input_image", "output_text"), f"Invalid {part['type']}")
                    if part["type"] == "input_image":
                        demand(part["image_url"] == PICTURE, "the picture is another")
                        asked.images += 1
                    else:
                        asked.texts.append(part["text"])
                if isinstance(item["content"], str):
                    asked.texts.append(item["content"])
            case "function_call":
                before = items[place - 1]
                kept = before.get("type") == "reasoning" and before.get("encrypted_content") == SIGNATURE
                demand(kept, "'function_call' was provided without its required 'reasoning' item")
            case "function_call_output":
                asked.results += 1
    for tool in body.get("tools", ()):
        demand(tool.get("type") == "function" and "name" in tool, "Missing required parameter: 'tools[0].name'.")
        asked.tools.append(tool["name"])
    if form := body.get("text", {}).get("format"):
        demand(form["type"] == "json_schema" and form["name"] and form["schema"] == SCHEMA, "the schema is missing")
        asked.schema = True
    reasoning: Json = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": THOUGHT}]}
    if "reasoning.encrypted_content" in body.get("include", ()):
        reasoning["encrypted_content"] = SIGNATURE
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "find", "arguments": '{"order": 7}'}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": asked.answer}]}
    output = [reasoning, call] if asked.calls_tool else [said]
    usage = {"input_tokens": 9, "output_tokens": 3}
    head = {"object": "response", "status": "completed", "model": body["model"], "usage": usage}
    return {**head, "output": output}


def response_events(whole: Json) -> Iterator[Json]:
    """The events of a response."""
    yield {"type": "response.created", "response": {}}
    for item in whole["output"]:
        for part in item.get("content", ()) if item["type"] == "message" else ():
            for piece in re.findall(r"\S+\s*", part["text"]):
                yield {"type": "response.output_text.delta", "delta": piece}
    yield {"type": "response.completed", "response": whole}


# -- Anthropic's Messages

_MESSAGES = {
    *(
        "model",
        "messages",
        "system",
        "max_tokens",
        "temperature",
        "top_p",
        "top_k",
        "stop_sequences",
        "stream",
        "tools",
    ),
    *("tool_choice", "thinking", "metadata", "output_format", "output_config"),
}
_BLOCK: Json = {"type": "thinking", "thinking": THOUGHT, "signature": SIGNATURE}


def messages(body: Json, headers: Mapping[str, str]) -> Json:
    """Messages; thinking blocks come back as they were, and forced tools do not go with thinking."""
    demand(headers.get("anthropic-version"), "anthropic-version: header is required")
    demand(headers.get("x-api-key") == "k", "invalid x-api-key")
    demand_known(body, _MESSAGES)
    demand(isinstance(body.get("max_tokens"), int), "max_tokens: Field required")
    thinking = body.get("thinking") or {}
    if thinks := thinking.get("type") == "enabled":
        demand(1024 <= thinking["budget_tokens"] < body["max_tokens"], "max_tokens must be greater than budget_tokens")
        demand(body.get("temperature", 1) == 1, "`temperature` may only be set to 1 when thinking is enabled.")
        forced = (body.get("tool_choice") or {}).get("type") in ("any", "tool")
        demand(not forced, "Thinking may not be enabled when tool_choice forces tool use.")
    asked = Asked()
    for message in body["messages"]:
        demand(message["role"] in ("user", "assistant"), "messages: Unexpected role")
        blocks = message["content"]
        for block in [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks:
            match block["type"]:
                case "text":
                    asked.texts.append(block["text"])
                case "image":
                    source = block["source"]
                    demand(source["type"] == "base64" and source["data"] in PICTURE, "the picture is another")
                    asked.images += 1
                case "tool_use":
                    first = blocks[0]
                    demand(not thinks or first == _BLOCK, "Expected `thinking`, but found `tool_use`")
                case "tool_result":
                    asked.results += 1
                case kind:
                    demand(kind == "thinking", f"Unexpected block {kind}")
    asked.tools = [tool["name"] for tool in body.get("tools", ())]
    form = body.get("output_format") or (body.get("output_config") or {}).get("format")
    asked.schema = form is not None or asked.tools == ["json_tool_call"]
    call = {"type": "tool_use", "id": "c1", "name": "find", "input": {"order": 7}}
    if asked.tools == ["json_tool_call"]:
        call |= {"name": "json_tool_call", "input": {"paid": True}}
    content: list[Json] = [call] if asked.calls_tool else [{"type": "text", "text": asked.answer}]
    head = {"id": "m", "type": "message", "role": "assistant", "model": body["model"]}
    stop = "tool_use" if asked.calls_tool else "end_turn"
    usage = {"input_tokens": 9, "output_tokens": 3}
    return {**head, "content": [*([_BLOCK] if thinks else []), *content], "stop_reason": stop, "usage": usage}


# -- Gemini's generateContent, at Google AI Studio and at Vertex AI

_GENERATE = {"contents", "systemInstruction", "system_instruction", "generationConfig", "tools", "toolConfig"}
_SETTINGS = {
    *("temperature", "topP", "topK", "maxOutputTokens", "stopSequences", "seed", "responseMimeType", "responseSchema"),
    *("responseJsonSchema", "thinkingConfig"),
}


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.title() for word in rest)


def gemini(body: Json, headers: Mapping[str, str]) -> Json:
    """generateContent; signatures come back on the very part of the call."""
    demand_known(body, _GENERATE)
    settings = {_camel(name): value for name, value in body.get("generationConfig", {}).items()}
    demand_known(settings, _SETTINGS)
    asked = Asked()
    for turn in body["contents"]:
        demand(turn["role"] in ("user", "model"), "Please use a valid role: user, model.")
        for part in turn["parts"]:
            part = {_camel(name): value for name, value in part.items()}
            if "functionCall" in part:
                demand(part.get("thoughtSignature") == SIGNATURE, "Function call is missing a thought_signature")
            elif "functionResponse" in part:
                asked.results += 1
            elif "inlineData" in part:
                demand(part["inlineData"]["data"] in PICTURE, "the picture is another")
                asked.images += 1
            else:
                asked.texts.append(part["text"])
    for tool in body.get("tools", ()):
        declared = tool.get("functionDeclarations") or tool.get("function_declarations")
        asked.tools += [one["name"] for one in declared]
    asked.schema = "responseSchema" in settings or "responseJsonSchema" in settings
    if asked.schema:
        demand(settings.get("responseMimeType") == "application/json", "a schema needs application/json")
    call = {"functionCall": {"name": "find", "args": {"order": 7}}, "thoughtSignature": SIGNATURE}
    parts: list[Json] = [call] if asked.calls_tool else [{"text": asked.answer}]
    if (settings.get("thinkingConfig") or {}).get("includeThoughts"):
        parts.insert(0, {"text": THOUGHT, "thought": True})
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini"}


def vertex(body: Json, headers: Mapping[str, str]) -> Json:
    """The same with a token of Google's instead of a key."""
    demand(headers.get("authorization") == "Bearer ya29.token", "Request had invalid authentication credentials.")
    return gemini(body, headers)


# -- Bedrock's Converse

_CONVERSE = {"messages", "system", "inferenceConfig", "toolConfig", "outputConfig", "additionalModelRequestFields"}
_CONVERSE |= {"additionalModelResponseFieldPaths"}
_REASONED: Json = {"reasoningContent": {"reasoningText": {"text": THOUGHT, "signature": SIGNATURE}}}


def converse(body: Json, headers: Mapping[str, str]) -> Json:
    """Converse with a Claude behind it, whose rules for thinking hold here too."""
    demand(headers.get("authorization", "").startswith("AWS4-HMAC-SHA256"), "Missing Authentication Token")
    demand_known(body, _CONVERSE)
    settings, more = body.get("inferenceConfig", {}), body.get("additionalModelRequestFields", {})
    demand_known(settings, {"maxTokens", "temperature", "topP", "stopSequences"})
    thinking = more.get("thinking") or {}
    if thinks := thinking.get("type") == "enabled":
        demand(1024 <= thinking["budget_tokens"] < settings.get("maxTokens", 0), "maxTokens must exceed budget_tokens")
        demand(settings.get("temperature", 1) == 1, "`temperature` may only be set to 1 when thinking is enabled.")
    asked = Asked()
    for message in body["messages"]:
        demand(message["role"] in ("user", "assistant"), "Unexpected role")
        for block in message["content"]:
            match next(iter(block)):
                case "text":
                    asked.texts.append(block["text"])
                case "image":
                    demand(block["image"]["source"]["bytes"] in PICTURE, "the picture is another")
                    asked.images += 1
                case "toolUse":
                    first = message["content"][0]
                    demand(not thinks or first == _REASONED, "Expected `thinking`, but found `tool_use`")
                case "toolResult":
                    asked.results += 1
                case kind:
                    demand(kind in ("reasoningContent", "cachePoint"), f"Unexpected block {kind}")
    asked.tools = [tool["toolSpec"]["name"] for tool in body.get("toolConfig", {}).get("tools", ())]
    forced = (body.get("toolConfig", {}).get("toolChoice") or {}).keys() & {"any", "tool"}
    demand(not (thinks and forced), "Thinking may not be enabled when tool_choice forces tool use.")
    asked.schema = "outputConfig" in body or asked.tools == ["json_tool_call"]
    call: Json = {"toolUseId": "c1", "name": "find", "input": {"order": 7}}
    if asked.tools == ["json_tool_call"]:
        call |= {"name": "json_tool_call", "input": {"paid": True}}
    content: list[Json] = [{"toolUse": call}] if asked.calls_tool else [{"text": asked.answer}]
    said = {"message": {"role": "assistant", "content": [*([_REASONED] if thinks else []), *content]}}
    usage = {"inputTokens": 9, "outputTokens": 3, "totalTokens": 12}
    stop = "tool_use" if asked.calls_tool else "end_turn"
    return {"metrics": {"latencyMs": 3}, "output": said, "stopReason": stop, "usage": usage}


# -- the server

_WIRES: tuple[tuple[str, Callable[[Json, Mapping[str, str]], Json], Callable[[Json], Iterator[Json]] | None], ...] = (
    ("/chat/completions", chat, chat_events),
    ("/responses", responses, response_events),
    ("/v1/messages", messages, None),
    ("/converse", converse, None),
    ("/publishers/google/", vertex, None),
    (":generateContent", gemini, None),
)
_TOKEN = {"access_token": "ya29.token", "expires_in": 3600, "token_type": "Bearer"}
OVERLOADED = {"error": {"message": "The model is overloaded.", "type": "server_error", "code": 503}}
FAILING = "[[fail]]"
"""What a question holds that the provider answers with an error: in its body, or in the middle of its stream."""


@dataclass
class Wires:
    """The running server as its users see it."""

    origin: str
    bodies: list[Json] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)


@asynccontextmanager
async def litellm_kept(wires: Wires, variables: Mapping[str, str]) -> AsyncIterator[None]:
    """One more user of the process that runs litellm, so that it is started once."""
    kept = opened("Anthropic", wires, variables)
    try:
        yield
    finally:
        await kept.close()


@contextmanager
def speaking() -> Iterator[Wires]:
    """A server that serves until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            path = self.path.partition("?")[0]
            if path == "/token":
                self._reply(200, json.dumps(_TOKEN).encode(), "application/json")
                return
            body = json.loads(raw)
            wires.bodies.append(body)
            _, wire, events = next(one for one in _WIRES if one[0] in path)
            headers = {name.lower(): value for name, value in self.headers.items()}
            try:
                document = wire(body, headers)
            except Refused as refusal:
                wires.refusals.append(f"{path}: {refusal}")
                error = {"error": {"type": "invalid_request_error", "message": str(refusal)}, "message": str(refusal)}
                self._reply(400, json.dumps(error).encode(), "application/json")
                return
            fails = FAILING in json.dumps(body)
            if body.get("stream") and events is not None:
                self._reply(200, b"".join(_stream(events(document), fails)), "text/event-stream")
            else:
                self._reply(200, json.dumps(OVERLOADED if fails else document).encode(), "application/json")

        def _reply(self, status: int, said: bytes, media_type: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(said)))
            with suppress(OSError):  # who asked waited no longer
                self.end_headers()
                self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        wires = Wires(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield wires
        server.shutdown()
        thread.join()


def _stream(events: Iterator[Json], fails: bool) -> Iterator[bytes]:
    for number, event in enumerate(events):
        if fails and number == 2:
            yield f"data: {json.dumps({**OVERLOADED, 'type': 'error'})}\n\n".encode()
            return
        yield f"data: {json.dumps(event)}\n\n".encode()
    yield b"data: [DONE]\n\n"


# -- who is asked, and what


@dataclass(frozen=True)
class Spoken:
    """A provider by its wire, and the model of it that is asked."""

    model: str
    path: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


PROVIDERS: Mapping[str, Spoken] = {
    "OpenAI": Spoken("openai/gpt-5", "/v1"),
    "OpenAI Responses": Spoken("openai/responses/gpt-5", "/v1"),
    "Azure": Spoken("azure/gpt-5"),
    "Anthropic": Spoken("anthropic/claude-sonnet-4-5"),
    "Gemini": Spoken("gemini/gemini-2.5-flash"),
    "Vertex": Spoken("vertex_ai/gemini-2.5-flash"),
    "Bedrock": Spoken("bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0"),
    "Ollama": Spoken("ollama_chat/ollama-qwen3"),
    "vLLM": Spoken("hosted_vllm/vllm-qwen3", "/v1"),
    "OpenRouter": Spoken("openrouter/openrouter-model", "/v1"),
}


def environment(folder: Path, origin: str) -> dict[str, str]:
    """The variables of all providers; Google's key file asks this server for tokens."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    login = {"type": "service_account", "project_id": "p", "private_key_id": "1", "private_key": key.decode()}
    login |= {"client_email": "a@p.iam.gserviceaccount.com", "client_id": "1", "token_uri": f"{origin}/token"}
    file = folder / "google.json"
    file.write_text(json.dumps(login))
    return {
        **{name: os.environ[name] for name in ("PATH", "LANG", "HOME") if name in os.environ},
        "KEY": "k",
        "AWS_ACCESS_KEY_ID": "AKIA",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION_NAME": "us-east-1",
        "AZURE_API_VERSION": "2024-10-21",
        "GOOGLE_APPLICATION_CREDENTIALS": str(file),
        "VERTEXAI_PROJECT": "p",
        "VERTEXAI_LOCATION": "europe-west4",
    }


def opened(who: str, wires: Wires, variables: Mapping[str, str], **settings: Any) -> Target:
    """The target of a provider."""
    spoken = PROVIDERS[who]
    has_key = who not in ("Bedrock", "Vertex", "Ollama", "vLLM")
    key = {"api_key": "env:KEY"} if has_key else {}
    config = TargetConfig(name="m", model=spoken.model, base_url=wires.origin + spoken.path, **{**key, **settings})
    return open_target(config, variables, Path.cwd(), lambda file: ())


TEXT = ({"role": "user", "content": "Is order 7 paid?"},)
BRIEF = {"role": "system", "content": "Be brief."}
SEEN = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": PICTURE}}]
QUESTIONS: Mapping[str, tuple[str, Request, Mapping[str, Any]]] = {
    "Instructions": (
        "a message of the role system",
        Request(messages=({"role": "system", "content": "Be brief."}, *TEXT)),
        {},
    ),
    "Length": ("`max_tokens = 4000`", Request(messages=TEXT, params={"max_tokens": 4000}), {}),
    "Temperature": ("`temperature = 0`", Request(messages=TEXT, params={"temperature": 0}), {}),
    "Thinking": ('`reasoning_effort = "low"`', Request(messages=TEXT), {"params": {"reasoning_effort": "low"}}),
    "Tools": ("`tools`", Request(messages=TEXT, tools=(FIND,)), {}),
    "Schema": ("`response_format` with a schema", Request(messages=TEXT, response_format=SCHEMA), {}),
    "Pictures": ("a picture", Request(messages=({"role": "user", "content": SEEN},)), {}),
    "Streaming": ("`stream = true`", Request(messages=TEXT), {"stream": True}),
}
"""What is asked: how it is written here, the request, and settings of the target."""


async def ask(who: str, wires: Wires, variables: Mapping[str, str], request: Request, **settings: Any) -> Reply:
    """The reply of a provider to one request."""
    target = opened(who, wires, variables, **settings)
    try:
        return await target.ask(request)
    finally:
        await target.close()


# -- the page


def places(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """What a body has, each with its path; messages with the role they are of."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "role":
                yield f"{prefix}.role = {inner}", None
            else:
                yield from places(inner, f"{prefix}.{name}" if prefix else name)
    elif isinstance(value, list):
        for inner in value:
            yield from places(inner, f"{prefix}[]")
    else:
        yield prefix, value


_DEEP = ("messages", "contents", "input[]")
"""Where three names of a path say what it is; elsewhere two do."""
_PLAIN = (".type", ".description", "s[].content", "t[].content", "content[].text", "parts[].text")
"""How paths end that say nothing of the way."""


def _short(path: str) -> str:
    return ".".join(path.split(".")[: 3 if path.startswith(_DEEP) else 2])


def sent_as(body: Json, bare: Json) -> str:
    """Where a question has what a plain one has not."""
    known = list(places(bare))
    more = [path for path, value in places(body) if (path, value) not in known]
    named = {_short(path) for path in more if path.startswith("system") or not path.endswith(_PLAIN)}
    return ", ".join(f"`{path}`" for path in sorted(named))


async def observed(wires: Wires, variables: Mapping[str, str]) -> str:
    """The tables of the page: by question, which providers are sent it in which way."""
    table: dict[str, dict[str, list[str]]] = {}
    for who in PROVIDERS:
        await ask(who, wires, variables, Request(messages=TEXT))
        bare = wires.bodies[-1]
        for name, (_, request, settings) in QUESTIONS.items():
            count = len(wires.bodies)
            try:
                reply = await ask(who, wires, variables, request, **settings)
            except ConfigurationError:
                way = "refused before the run begins"
            else:
                [body] = wires.bodies[count:]
                way = sent_as(body, bare)
                way = "; ".join(filter(None, [way, *(f"it says: {one}" for one in reply.changes)])) or "always there"
            table.setdefault(name, {}).setdefault(way, []).append(who)
    lines = []
    for name, ways in table.items():
        lines += [f"## {name}: {QUESTIONS[name][0]}", "", "| sent as | to |", "|---|---|"]
        lines += [f"| {way} | {', '.join(who)} |" for way, who in ways.items()] + [""]
    return "\n".join(lines)


BEGINS = "## Instructions"
"""Where the tables of the page begin; they are its end."""


async def _observed(wires: Wires, variables: Mapping[str, str]) -> str:
    async with litellm_kept(wires, variables):
        return await observed(wires, variables)


def main() -> None:
    """Write the tables of the page."""
    with speaking() as wires, TemporaryDirectory() as folder:
        tables = asyncio.run(_observed(wires, environment(Path(folder), wires.origin)))
    PAGE.write_text(PAGE.read_text(encoding="utf-8").partition(BEGINS)[0] + tables, encoding="utf-8")


if __name__ == "__main__":
    main()
