"""Agents built with the official A2A SDK, on loopback: `python -m tests.a2a_agent` prints its port and serves them.

Below `/plain`, `/polled` (no stream), `/rest`, `/old` (protocol 0.3, its card where it stood then), `/bearer`,
`/apikey`, `/elsewhere` (whose card names another host), `/busy` (429) and `/cut` (whose streams break off) the same
agent answers; what it does is the first word of the question. `/control/seen` has all calls and questions so far.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

KEY = "sk-agent-1234567890"
GARBLED = (
    b"[]",
    b"{}",
    b"no JSON",
    b'{"result": 5}',
    b'{"result": {"task": {"id": [], "status": 7}}}',
    b'{"result": {"task": {"id": "t", "status": {"state": "NO_SUCH_STATE"}}}}',
    b'{"result": {"message": {"parts": [{"text": 5}]}}}',
    b"[" * 100_000,
)
"""What `/garbled0/` and so on answer."""


def serve() -> None:
    """Serve until the standard input is closed."""
    import uvicorn
    from a2a.helpers import new_task_from_user_message, new_text_message
    from a2a.server.agent_execution import AgentExecutor
    from a2a.server.request_handlers import DefaultRequestHandler
    from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
    from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
    from a2a.types import (
        AgentCapabilities,
        AgentCard,
        AgentInterface,
        AgentSkill,
        APIKeySecurityScheme,
        HTTPAuthSecurityScheme,
        Part,
        SecurityRequirement,
        SecurityScheme,
        StringList,
    )
    from google.protobuf.json_format import ParseDict
    from google.protobuf.struct_pb2 import Struct, Value
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    calls: list[dict[str, Any]] = []
    turns: Counter[str] = Counter()
    executions: list[str] = []

    class Executor(AgentExecutor):
        async def execute(self, context: Any, event_queue: Any) -> None:
            text = context.get_user_input()
            executions.append(text)
            word, _, rest = text.rpartition("\n")[2].partition(" ")
            turns[context.context_id] += 1
            if word == "message":
                reply = new_text_message(rest, context_id=context.context_id)
                await event_queue.enqueue_event(reply)
                return
            if context.current_task is None:
                await event_queue.enqueue_event(new_task_from_user_message(context.message))
            task = TaskUpdater(event_queue, context.task_id, context.context_id)
            await task.start_work(new_text_message("I am at it."))
            match word:
                case "fail":
                    await task.failed(new_text_message(f"no luck with {KEY}"))
                case "reject":
                    await task.reject(new_text_message("not my business"))
                case "auth":
                    await task.requires_auth(new_text_message("log in first"))
                case "ask" if context.current_task is None:
                    await task.requires_input(new_text_message("Which one?"))
                case "turns":
                    await task.complete(new_text_message(f"turn {turns[context.context_id]}"))
                case "everything":
                    await task.complete(new_text_message(text))
                case "parts":
                    data = Part(data=ParseDict({"n": 1, "f": 0.5}, Value()))
                    file = Part(raw=b"\0" * 5, filename="a.bin", media_type="application/x")
                    table = Part(raw=b"a,b", media_type="text/csv")
                    link = Part(url="https://example.org/x.pdf", filename="x.pdf")
                    await task.add_artifact([Part(text="see"), data, file, table, link])
                    await task.complete(new_text_message("done"))
                case "tools":
                    called = ParseDict({"id": "c1", "name": "find", "args": {"order": 7}}, Value())
                    given = ParseDict({"id": "c1", "name": "find", "response": {"status": "paid"}}, Value())
                    thought = Part(text="look it up", metadata=ParseDict({"adk_thought": True}, Struct()))
                    call = Part(data=called, metadata=ParseDict({"adk_type": "function_call"}, Struct()))
                    result = Part(data=given, metadata=ParseDict({"adk_type": "function_response"}, Struct()))
                    await task.start_work(task.new_agent_message([thought, call]))
                    await task.start_work(task.new_agent_message([result]))
                    await task.add_artifact([Part(text="It is paid.")])
                    await task.complete()
                case "long":
                    await asyncio.sleep(0.3)
                    await task.add_artifact([Part(text="one ")], artifact_id="a")
                    await task.add_artifact([Part(text="two")], artifact_id="a", append=True, last_chunk=True)
                    await task.complete()
                case "hang":
                    await asyncio.Event().wait()
                case _:
                    await task.add_artifact([Part(text=f"You said: {text}")])
                    await task.complete()

        async def cancel(self, context: Any, event_queue: Any) -> None:
            raise NotImplementedError

    with socket.create_server(("127.0.0.1", 0)) as listening:
        origin = f"http://127.0.0.1:{listening.getsockname()[1]}"
        routes: list[Any] = []
        skill = AgentSkill(id="talk", name="Talk", description="Talks.", tags=["talk"])
        bearer = SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="Bearer"))
        header = SecurityScheme(api_key_security_scheme=APIKeySecurityScheme(location="header", name="X-Agent-Key"))
        schemes = {"bearer": bearer, "apikey": header}
        garbled = {f"garbled{number}": body for number, body in enumerate(GARBLED)}
        for name in ("plain", "polled", "rest", "old", "bearer", "apikey", "elsewhere", "busy", "cut", *garbled):
            host = "http://agent.invalid" if name == "elsewhere" else origin.replace("127.0.0.1", "0.0.0.0")
            interface = AgentInterface(
                url=f"{host}/{name}/" if name != "rest" else f"{host}/{name}",
                protocol_binding="HTTP+JSON" if name == "rest" else "JSONRPC",
                protocol_version="0.3.0" if name == "old" else "1.0",
            )
            card = AgentCard(
                name=f"The {name} agent",
                description="Talks.",
                version="1",
                supported_interfaces=[interface],
                capabilities=AgentCapabilities(streaming=name != "polled" and name[-1] not in "0246"),
                default_input_modes=["text/plain"],
                default_output_modes=["text/plain"],
                skills=[skill],
            )
            if name in schemes:
                card.security_schemes[name].CopyFrom(schemes[name])
                card.security_requirements.append(SecurityRequirement(schemes={name: StringList()}))
            handler = DefaultRequestHandler(Executor(), InMemoryTaskStore(), card)
            place = "agent.json" if name == "old" else "agent-card.json"
            routes += create_agent_card_routes(card, card_url=f"/{name}/.well-known/{place}")
            if name == "rest":
                # Its mount of any tenant would take the paths of those after it.
                routes += [
                    each for each in create_rest_routes(handler, path_prefix=f"/{name}") if isinstance(each, Route)
                ]
            else:
                routes += create_jsonrpc_routes(handler, f"/{name}/", enable_v0_3_compat=name == "old")

        async def what_came(_: Request) -> Response:
            return JSONResponse({"calls": calls, "executions": executions})

        routes.append(Route("/control/seen", what_came))

        async def gate(scope: Any, receive: Any, send: Any) -> None:
            """Ask for the key where the card says that one is needed."""
            refused = None
            if scope["type"] == "http" and not scope["path"].startswith("/control"):
                headers = {key.decode(): value.decode() for key, value in scope["headers"]}
                calls.append({"path": scope["path"], "headers": headers})
                wanted = {"/bearer/": ("authorization", f"Bearer {KEY}"), "/apikey/": ("x-agent-key", KEY)}
                needed = wanted.get(scope["path"])
                if needed is not None and headers.get(needed[0]) != needed[1]:
                    refused = JSONResponse({"error": {"message": f"not with {headers.get(needed[0])}"}}, 401)
                if scope["path"] == "/moved/.well-known/agent-card.json":
                    refused = Response(status_code=302, headers={"Location": "http://agent.invalid/card.json"})
                if scope["path"] == "/page/.well-known/agent-card.json":
                    refused = Response("<html>", media_type="text/html")
                if scope["path"] == "/nested/.well-known/agent-card.json":
                    refused = Response(GARBLED[-1], media_type="application/json")
                if scope["path"] == "/odd/.well-known/agent-card.json":
                    refused = JSONResponse({"name": 5, "supportedInterfaces": [{"url": "no address"}]})
                if scope["path"] == "/mute/.well-known/agent-card.json":
                    refused = JSONResponse({"name": "mute"})
                if (body := garbled.get(scope["path"].strip("/"))) is not None:
                    refused = Response(body, media_type="application/json")
                if scope["path"] == "/busy/":
                    refused = Response("slow down", 429, {"Retry-After": "7"})
            is_stream = False

            async def send_some(message: Any) -> None:
                """Break a stream off behind its first piece."""
                nonlocal is_stream
                if message["type"] == "http.response.start":
                    is_stream = any(b"text/event-stream" in value for _, value in message["headers"])
                await send(message)
                if is_stream and message.get("body"):
                    raise ConnectionAbortedError

            with suppress(ConnectionAbortedError):
                await (refused or app)(scope, receive, send_some if scope.get("path") == "/cut/" else send)

        app = Starlette(routes=routes)
        server = uvicorn.Server(uvicorn.Config(gate, log_level="critical", lifespan="off"))

        def end_with_parent() -> None:
            sys.stdin.read()
            server.force_exit = server.should_exit = True

        threading.Thread(target=end_with_parent, daemon=True).start()
        print(origin, flush=True)
        server.run(sockets=[listening])


@contextmanager
def running() -> Iterator[str]:
    """The origin of the agents, in a process that ends with this block and with its parent."""
    root = Path(__file__).parent.parent
    command = [sys.executable, "-m", "tests.a2a_agent"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root) as process:
        assert process.stdout is not None and process.stdin is not None
        origin = process.stdout.readline().decode().strip()
        assert origin, "the agents did not start"
        try:
            yield origin
        finally:
            process.stdin.close()


def seen(origin: str) -> dict[str, Any]:
    """The path and the headers of every call, and every question that was carried out."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{origin}/control/seen", timeout=10) as response:
        return dict(json.load(response))


if __name__ == "__main__":
    serve()
