"""A shop's assistant as many are: JSON in, JSON out, and a conversation that the service itself remembers.

`python service.py` listens on port 8765 of this machine; it needs nothing but Python.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count

NUMBERS = count(1)
ORDERS: dict[str, str | None] = {}
"""The order that each conversation is about."""


def answer(conversation: str, question: str) -> str:
    """What the assistant says; it asks for the order once, and then knows it."""
    words = question.replace("?", "").replace(".", "").split()
    named = [word for word in words if word.startswith("A-")]
    order = ORDERS[conversation] = named[0] if named else ORDERS.get(conversation)
    if order is None:
        return "Which order is it about? Its number begins with A-."
    if "return" in words:
        return f"Order {order} can be returned within 30 days."
    return f"Order {order} is on its way."


class Assistant(BaseHTTPRequestHandler):
    """POST /chat with {"message": …, "conversation": … or null}."""

    def do_POST(self) -> None:
        """Answer one question."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        conversation = asked.get("conversation") or f"c{next(NUMBERS)}"
        text = answer(conversation, asked["message"])
        told = {"reply": {"text": text}, "conversation": conversation, "words": len(text.split())}
        body = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing of each call."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8765"))), Assistant)
    sys.stdout.write(f"listening on http://127.0.0.1:{server.server_port}/chat\n")
    sys.stdout.flush()
    server.serve_forever()
