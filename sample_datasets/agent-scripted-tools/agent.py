"""A model of a few rules, so that the sample runs without one: it asks for tools as a model does and reads results."""

import json
import re


def answer(request):
    """The next message: a tool call, or the answer once the results are there."""
    messages = request["messages"]
    place = max(number for number, message in enumerate(messages) if message["role"] == "user")
    question, since = messages[place]["content"], messages[place + 1 :]
    results = [message["content"] for message in since if message["role"] == "tool"]
    order = next(iter(re.findall(r"\b\d{4}\b", question)), None)
    if "close my account" in question:
        return call("close_account", reason="asked for") if not results else "Your account is closed."
    if order is None:
        return "You are welcome." if "Thank" in question else "Which order is it? Please tell me its number."
    if not results or results[-1].startswith("try again"):
        return call("find_order", number=order)
    found = json.loads(results[0] if results[0].startswith("{") else results[1])
    if "refund" not in question:
        return f"Order {order} is {found['status']}."
    if found["status"] != "delivered":
        return f"Order {order} is {found['status']} and cannot be refunded yet."
    refunds = [result for result in results if "refund" in result]
    return f"{refunds[0]} for order {order}." if refunds else call("refund", number=order, cents=found["cents"])


def call(name, **arguments):
    """A message that asks for one tool."""
    return {"text": "", "tool_calls": [{"name": name, "arguments": arguments}]}
