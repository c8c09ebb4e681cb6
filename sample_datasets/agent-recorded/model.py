"""A stand-in for a model with an OpenAI-compatible address. It follows fixed rules and needs nothing but Python.

`python model.py` listens on port 8767 of this machine. It looks an order up, then asks how long its parcel takes if
the parcel is on its way, then answers.
"""

import json
import os
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def next_message(messages: list) -> dict:
    """Return what the model says after a conversation."""
    number = re.search(r"\d{4}", next(one["content"] for one in messages if one["role"] == "user"))
    results = [one["content"] for one in messages if one["role"] == "tool"]
    if number is None:
        return {"role": "assistant", "content": "Which order do you mean?"}
    if not results:
        return call("find_order", number=number[0])
    if not results[0].startswith("{"):
        return {"role": "assistant", "content": f"There is no order {number[0]}."}
    order = json.loads(results[0])
    if order["status"] != "on its way":
        return {"role": "assistant", "content": f"The {order['item']} was {order['status']}."}
    if len(results) == 1:
        return call("delivery_days", country=order["country"])
    return {"role": "assistant", "content": f"The {order['item']} arrives within {results[1]} days."}


def call(name: str, **arguments: str) -> dict:
    """Return a message that asks for a tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    thought = f"I need {name} for that."
    tool_calls = [{"id": f"call_{name}", "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "reasoning_content": thought, "tool_calls": tool_calls}


class Model(BaseHTTPRequestHandler):
    """The address for Chat Completions."""

    def do_POST(self) -> None:
        """Answer a conversation."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message = next_message(asked["messages"])
        sent, said = (len(json.dumps(one)) // 4 for one in (asked["messages"], message))
        reply = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": "clerk",
            "choices": [
                {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
            ],
            "usage": {"prompt_tokens": sent, "completion_tokens": said, "total_tokens": sent + said},
        }
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing of each call."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8767"))), Model)
    sys.stdout.write(f"listening on http://127.0.0.1:{server.server_port}/v1\n")
    sys.stdout.flush()
    server.serve_forever()
