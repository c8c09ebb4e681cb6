"""A chat service on loopback as newcomers have one: a login, sessions, a JSON body with a field of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class ChatService:
    """A running service: where it is asked, what it wants, and what it was asked."""

    url: str = ""
    field_name: str = "message"
    key: str = "s3cret"
    description: Any = None
    """Its OpenAPI description, where it serves one."""
    asked: list[dict[str, Any]] = field(default_factory=list)


@contextmanager
def chatting(**how: Any) -> Iterator[ChatService]:
    """A service that serves until the block ends."""
    service = ChatService(**how)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_there = self.path == "/openapi.json" and service.description is not None
            self._reply(200 if is_there else 404, service.description if is_there else {})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if service.key and self.headers.get("Authorization") != f"Bearer {service.key}":
                self._reply(401, {})
            elif service.field_name not in body:
                self._reply(422, {"detail": [{"type": "missing", "loc": ["body", service.field_name]}]})
            else:
                service.asked.append(body)
                text = f"You asked {body[service.field_name]}"
                self._reply(200, {"reply": {"text": text}, "session": body.get("session") or "s-1"})

        def _reply(self, status: int, document: Any) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        service.url = f"http://127.0.0.1:{server.server_port}/chat"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield service
        server.shutdown()
        thread.join()
