"""An agent as its owner wrote it: two tools and a loop over Chat Completions. It knows nothing of tui-evals.

It reads a question from its input, asks the model at OPENAI_BASE_URL, runs the tools that the model asks for, and
prints the answer. It needs nothing but Python.
"""

import json
import os
import sys
import urllib.request

ORDERS = {
    "1001": {"item": "desk lamp", "status": "delivered", "country": "NL"},
    "1002": {"item": "bookshelf", "status": "on its way", "country": "FI"},
}
DAYS = {"NL": 2, "FI": 5}


def find_order(number: str) -> dict:
    """Return an order."""
    return ORDERS[number]


def delivery_days(country: str) -> int:
    """Return how many days a parcel takes."""
    return DAYS[country]


TOOLS = {"find_order": (find_order, "number"), "delivery_days": (delivery_days, "country")}


def ask(messages: list) -> dict:
    """Return the next message of the model."""
    tools = [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": function.__doc__,
                "parameters": {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]},
            },
        }
        for name, (function, argument) in TOOLS.items()
    ]
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps({"model": "clerk", "messages": messages, "tools": tools}).encode(),
        {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', 'none')}"},
    )
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)["choices"][0]["message"]


def run_tool(call: dict) -> str:
    """Return what the tool of a call gives, as text for the model."""
    function, argument = TOOLS[call["function"]["name"]]
    try:
        return json.dumps(function(json.loads(call["function"]["arguments"])[argument]))
    except KeyError as problem:
        return f"Error: {problem} is unknown"


def converse(question: str) -> list:
    """Return the conversation that answers a question; its last message is the answer."""
    messages = [{"role": "user", "content": question}]
    while True:
        messages.append(ask(messages))
        if not messages[-1].get("tool_calls"):
            return messages
        for call in messages[-1]["tool_calls"]:
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": run_tool(call)})


if __name__ == "__main__":
    sys.stdout.write(converse(sys.stdin.read())[-1]["content"] + "\n")
