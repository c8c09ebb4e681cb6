"""Serves the judge with OpenAI's protocol on the loopback interface, for libraries that support nothing else.

Chat completions, responses and embeddings are forwarded to the parent process, which owns the judge with its budget,
cache, retries and record. A request carries a secret token, followed by the number of its job. Tool calls are emulated:
the judge is asked for JSON, which becomes the call.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Ask = Callable[[int, Mapping[str, Any]], Any]
"""Puts a question of a job to the parent and waits for the reply; Refused says why there is none."""
LARGEST = 32_000_000
MODEL = "judge"
USUAL_ALTERNATIVES = 5


_SAMPLING = {"temperature": 0, "top_p": 1}
"""Parameters that a library may set differently from judges, as for several different samples."""


class Refused(Exception):
    """The judge gave no reply, or cannot do what was asked."""


def chat(body: Mapping[str, Any], ask: Callable[[Mapping[str, Any]], Any]) -> dict[str, Any]:
    """The answer to a request for a chat completion."""
    if body.get("stream"):
        raise Refused("replies are not streamed here")
    messages = [_message(message) for message in body.get("messages") or ()]
    tools = [tool["function"] for tool in body.get("tools") or () if "function" in tool]
    wanted = _chosen_tools(tools, body.get("tool_choice"))
    question: dict[str, Any] = {
        "messages": messages,
        "max_tokens": body.get("max_completion_tokens") or body.get("max_tokens"),
    }
    if sampling := {name: body[name] for name, plain in _SAMPLING.items() if body.get(name) not in (None, plain)}:
        question["sampling"] = sampling
    if wanted:
        form = _form_of_call(wanted)
        question["messages"] = [*messages, {"role": "user", "content": _call_request(wanted, form)}]
        question["schema"] = form
    else:
        question["schema"] = _schema(body.get("response_format"))
    if body.get("logprobs"):
        question["likelihoods"] = int(body.get("top_logprobs") or USUAL_ALTERNATIVES)
    choices = []
    for index in range(int(body.get("n") or 1)):
        said, logprobs = said_and_logprobs(ask(question))
        message: dict[str, Any] = {"role": "assistant", "content": said}
        if wanted:
            message = {"role": "assistant", "content": None, "tool_calls": [_call(said, wanted)]}
        reason = "tool_calls" if wanted else "stop"
        choices.append({"index": index, "message": message, "finish_reason": reason, "logprobs": logprobs})
    return {
        "id": f"chatcmpl-{secrets.token_hex(8)}",
        "object": "chat.completion",
        "created": 0,
        "model": str(body.get("model") or MODEL),
        "choices": choices,
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }


def said_and_logprobs(reply: Any) -> tuple[str, dict[str, Any] | None]:
    """The text of a reply, and how likely its numbers and others in their place were, as OpenAI's protocol lists it."""
    if not isinstance(reply, Mapping):
        return reply, None
    content = [
        {
            "token": text,
            "logprob": likely.get(text),
            "bytes": None,
            "top_logprobs": [{"token": token, "logprob": number, "bytes": None} for token, number in likely.items()],
        }
        for _, text, likely in reply["choices"]
    ]
    return reply["text"], {"content": content} if content else None


def responses(body: Mapping[str, Any], ask: Callable[[Mapping[str, Any]], Any]) -> dict[str, Any]:
    """The answer to a request of the Responses protocol, which is asked as a chat."""
    given = body.get("input") or ""
    messages = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
    if body.get("instructions"):
        messages.insert(0, {"role": "system", "content": body["instructions"]})
    choice = body.get("tool_choice")
    if isinstance(choice, Mapping) and "name" in choice:
        choice = {"type": "function", "function": {"name": choice["name"]}}
    form = (body.get("text") or {}).get("format") or {}
    done = chat(
        {
            "model": body.get("model"),
            "messages": messages,
            "stream": body.get("stream"),
            "max_tokens": body.get("max_output_tokens"),
            **{name: body.get(name) for name in _SAMPLING},
            "tools": [{"function": tool} for tool in body.get("tools") or () if tool.get("type") == "function"],
            "tool_choice": choice,
            "response_format": {"type": "json_schema", "json_schema": form} if "schema" in form else None,
        },
        ask,
    )
    message = done["choices"][0]["message"]
    output: list[dict[str, Any]] = []
    for call in message.get("tool_calls") or ():
        output.append({"type": "function_call", "id": call["id"], "call_id": call["id"], **call["function"]})
        output[-1]["status"] = "completed"
    if message["content"] is not None:
        text = {"type": "output_text", "text": message["content"], "annotations": []}
        output.append({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]})
    return {
        "id": f"resp_{secrets.token_hex(8)}",
        "object": "response",
        "created_at": 0,
        "model": done["model"],
        "status": "completed",
        "output": output,
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 0,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 0,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 0,
        },
    }


def embeddings(body: Mapping[str, Any], ask: Callable[[Mapping[str, Any]], Any]) -> dict[str, Any]:
    """The answer to a request for vectors."""
    given = body.get("input")
    texts = [given] if isinstance(given, str) else list(given or ())
    if not texts or not all(isinstance(text, str) for text in texts):
        raise Refused("vectors are given of texts, and none was sent (tokens are not taken here)")
    vectors = ask({"texts": texts})
    packed = body.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": index, "embedding": _packed(vector) if packed else vector}
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": 0, "total_tokens": 0}
    return {"object": "list", "model": str(body.get("model") or MODEL), "data": data, "usage": usage}


def _packed(vector: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _message(message: Mapping[str, Any]) -> dict[str, str]:
    """A message as a role and a text, which is what every judge takes."""
    role = str(message.get("role") or "user")
    text = _text(message.get("content"))
    calls = message.get("tool_calls")
    if calls:
        text = f"{text}\n{json.dumps(calls)}".strip()
    if role == "tool":
        return {"role": "user", "content": f"Result of the tool call: {text}"}
    return {"role": {"developer": "system"}.get(role, role), "content": text}


def _text(content: object) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, Sequence):
        parts = [part if isinstance(part, Mapping) else {} for part in content]
        if all(isinstance(part.get("text"), str) for part in parts):
            return "\n".join(part["text"] for part in parts)
    raise Refused("a judge is shown text only, and this message holds something else")


def _schema(form: object) -> object:
    if not isinstance(form, Mapping):
        return None
    if form.get("type") == "json_schema":
        return (form.get("json_schema") or {}).get("schema")
    return {"type": "object"} if form.get("type") == "json_object" else None


def _chosen_tools(tools: Sequence[Mapping[str, Any]], choice: object) -> list[Mapping[str, Any]]:
    if choice == "none":
        return []
    name = (choice.get("function") or {}).get("name") if isinstance(choice, Mapping) else None
    return [tool for tool in tools if name in (None, tool["name"])]


def _form_of_call(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The schema of the reply: the arguments of the one tool, or the name of a tool and its arguments."""
    if len(tools) == 1:
        return dict(tools[0].get("parameters") or {"type": "object"})
    names = [tool["name"] for tool in tools]
    properties = {"name": {"type": "string", "enum": names}, "arguments": {"type": "object"}}
    return {"type": "object", "properties": properties, "required": ["name", "arguments"]}


def _call_request(tools: Sequence[Mapping[str, Any]], form: Mapping[str, Any]) -> str:
    listed = "" if len(tools) == 1 else f"The functions are {json.dumps(list(tools))}. "
    named = f"the function {tools[0]['name']}" if len(tools) == 1 else "one of the functions"
    return f"{listed}Call {named}: reply with one JSON object and nothing else, of the schema {json.dumps(form)}"


def _call(said: str, tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    arguments = _object(said)
    name = tools[0]["name"]
    if len(tools) > 1:
        name, arguments = arguments.get("name"), arguments.get("arguments") or {}
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": f"call_{secrets.token_hex(8)}", "type": "function", "function": function}


def _object(said: str) -> dict[str, Any]:
    """The JSON object of a reply, without the text around it."""
    start = said.find("{")
    try:
        value, _ = json.JSONDecoder().raw_decode(said, max(start, 0))
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise Refused(f"the judge was asked for a JSON object and said: {said[:200]}")
    return value


_ANSWERS = {"/chat/completions": chat, "/responses": responses, "/embeddings": embeddings}


class JudgeServer:
    """The server, in threads of its own."""

    def __init__(self, ask: Ask, current: Callable[[], int | None]) -> None:
        self._token = secrets.token_urlsafe(24)
        self._ask, self._current = ask, current
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self.base_url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True, name="judge-server").start()

    def key(self, job: int | None = None) -> str:
        """The API key of a client; without a job, requests belong to the job that has run longest."""
        return self._token if job is None else f"{self._token}.{job}"

    def job_of(self, shown: str) -> int | None:
        """The job that a shown key is for; None where it is not ours."""
        token, _, number = shown.partition(".")
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            return None
        return int(number) if number.isdigit() else self._current()

    def answer(self, path: str, body: Mapping[str, Any], job: int) -> dict[str, Any]:
        """The reply to a request."""
        kind = next((answer for end, answer in _ANSWERS.items() if path.partition("?")[0].endswith(end)), None)
        if kind is None:
            raise Refused(f"{path} is not served here: chat completions, responses and embeddings are")
        return kind(body, lambda question: self._ask(job, question))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def _handler(judge_server: JudgeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def do_POST(self) -> None:
            shown = (self.headers.get("Authorization") or "").removeprefix("Bearer ").strip()
            size = self.headers.get("Content-Length") or ""
            if not size.isdigit() or int(size) > LARGEST:
                self.close_connection = True
                self._reply(413, {"error": {"message": "a request has a length, of 32 MB at most"}})
                return
            sent = self.rfile.read(int(size))
            job = judge_server.job_of(shown or self.headers.get("api-key") or "")
            if job is None:
                self._reply(401, {"error": {"message": "this server is for the metric that was started with it"}})
                return
            try:
                body = json.loads(sent)
                if not isinstance(body, dict):
                    raise Refused("a request is a JSON object")
                done = judge_server.answer(self.path, body, job)
            except (Refused, ValueError, KeyError, TypeError, AttributeError) as problem:
                # A refusal is final: the judge has already retried.
                self._reply(400, {"error": {"message": str(problem), "type": "invalid_request_error"}})
                return
            self._reply(200, done)

        def _reply(self, status: int, value: Mapping[str, Any]) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.send_header("x-should-retry", "false")
            self.end_headers()
            self.wfile.write(data)
            self.wfile.flush()

        def log_message(self, format: str, *arguments: Any) -> None:
            """Drop the log line."""

    return Handler
