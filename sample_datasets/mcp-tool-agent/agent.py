"""A model of a few rules, so that the sample runs without one: it asks for tools as a model does and reads results."""

PARTS = ("tube", "chain", "bell", "saddle")


def answer(request):
    """The next message: a tool call, or the answer once the results are there."""
    messages = request["messages"]
    question = next(message["content"] for message in reversed(messages) if message["role"] == "user")
    results = [message["content"] for message in messages if message["role"] == "tool"]
    part = next((part for part in PARTS if part in question), None)
    if part is None:
        return "We sell parts of bicycles. Which one are you looking for?"
    if not results:
        return call("in_stock", part=part)
    if not results[0].isdigit():
        return f"We do not sell a {part}."
    if results[0] == "0":
        return call("order_parts", part=part, number=5) if "order" in question else f"We have no {part} at the moment."
    if len(results) == 1:
        return call("price_in_cents", part=part)
    return f"We have {results[0]}. One {part} costs {int(results[1]) / 100:.2f} euros."


def call(name, **arguments):
    """A message that asks for one tool."""
    return {"text": "", "tool_calls": [{"name": name, "arguments": arguments}]}
