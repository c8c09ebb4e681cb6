"""Samples of an Inspect log as items of a dataset and as answers to them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from tui_evals.datasets.losses import Losses
from tui_evals.store.records import AnswerRecord

from .inspect_scores import finite
from .inspect_shapes import Message, Sample, Usage

Data = dict[str, Any]


def item_of(sample: Sample, losses: Losses) -> Data:
    """The item that a sample asks."""
    chat = [_message(message, losses) for message in sample.input]
    item: Data = {"testId": str(sample.id)}
    if len(chat) and chat[-1]["role"] == "user" and isinstance(chat[-1]["content"], str) and chat[-1]["content"]:
        item["prompt"] = chat.pop()["content"]
    if sample.choices:
        _offer(item, chat, sample.choices, losses)
    if chat or "prompt" not in item:
        item["messages"] = chat
    targets = [target for target in sample.target if target]
    if targets:
        item["expected_response"] = targets[0]
    if len(targets) > 1:
        item["ideal"] = targets
    kept = {"id": sample.id, "metadata": finite(sample.metadata), "choices": sample.choices}
    item["extensions"] = {"inspect": {name: value for name, value in kept.items() if value}}
    for name in ("sandbox", "files", "setup"):
        if getattr(sample, name):
            losses.left_out(f"{name} of samples", why="an item asks a target and prepares no machine")
    return item


def _offer(item: Data, chat: Sequence[Data], choices: Sequence[str], losses: Losses) -> None:
    """Write the choices below the question, lettered as Inspect's solver does."""
    if "prompt" not in item or len(choices) > len(ascii_uppercase):
        losses.changed("choices of samples", why="they are kept under extensions.inspect and not asked")
        return
    offered = "\n".join(f"{letter}) {choice}" for letter, choice in zip(ascii_uppercase, choices, strict=False))
    item["prompt"] = f"{item['prompt']}\n\n{offered}"
    losses.changed("choices of samples", why="they stand below the question, lettered")


def _message(message: Message, losses: Losses) -> Data:
    """A message as OpenAI-style chats write it."""
    found: Data = {"role": message.role, "content": _content(message.content, losses)}
    if message.tool_calls:
        found["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function, "arguments": _arguments(call.arguments)},
            }
            for call in message.tool_calls
        ]
    if message.role == "tool":
        found |= {name: value for name, value in _tool(message).items() if value is not None}
    return found


def _tool(message: Message) -> Mapping[str, str | None]:
    return {"tool_call_id": message.tool_call_id, "name": message.function}


def _arguments(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(finite(arguments), ensure_ascii=False)


def _content(content: Any, losses: Losses) -> Any:
    """Content as text where it is all text, else as blocks; reasoning is no part of what was said."""
    if isinstance(content, str):
        return content
    blocks: list[Data] = []
    for block in content:
        match block:
            case {"type": "text", "text": str(text)}:
                blocks.append({"type": "text", "text": text})
            case {"type": "image", "image": str(image)}:
                blocks.append({"type": "image_url", "image_url": {"url": image}})
            case _:
                losses.left_out(f"content of the type {block.get('type')!r} in messages", why="chats here have no such")
    if all(block["type"] == "text" for block in blocks):
        return "\n".join(block["text"] for block in blocks)
    return blocks


def answer_of(sample: Sample, model: str, losses: Losses) -> AnswerRecord:
    """What the model said in a sample, and how it came to it; the error instead where it broke off."""
    said = [message for message in sample.messages if message.role == "assistant" and message.source != "input"]
    usage = sample.usage.get(model) or sample.output.usage
    for other in sample.usage.keys() - {model}:
        losses.left_out(f"the usage of {other}", why="only that of the model under test is counted")
    known: Data = {
        "request": {"messages": [_message(message, losses) for message in _before_the_last(sample)]},
        "diagnostics": {"limit": sample.limit.type} if sample.limit else None,
        **_counted(usage),
        "latency_ms": _latency(sample, len(said)),
        "model": sample.output.model or model,
        "finish_reason": sample.output.choices[0].stop_reason if sample.output.choices else None,
    }
    text = _text(sample, losses)
    failure = sample.error.message if sample.error else sample.output.error if not text else None
    if failure is not None:
        return AnswerRecord(text=None, code="agentRequestFailed", message=failure or "it broke off", **known)
    calls = tuple(
        {"id": call.id, "name": call.function, "arguments": _arguments(call.arguments)}
        for message in said
        for call in message.tool_calls or ()
    )
    return AnswerRecord(text=text, tool_calls=calls, **known)


def _before_the_last(sample: Sample) -> Sequence[Message]:
    """The chat without the answer itself, which ends it."""
    chat = sample.messages or sample.input
    return chat[:-1] if chat[-1:] and chat[-1].role == "assistant" else chat


def _text(sample: Sample, losses: Losses) -> str:
    if sample.output.completion is not None or not sample.output.choices:
        return sample.output.completion or ""
    content = _content(sample.output.choices[0].message.content, losses)
    return content if isinstance(content, str) else ""


def _counted(usage: Usage | None) -> Data:
    if usage is None:
        return {}
    read = usage.input_tokens + (usage.input_tokens_cache_read or 0) + (usage.input_tokens_cache_write or 0)
    return {"input_tokens": read, "output_tokens": usage.output_tokens, "cost": usage.total_cost}


def _latency(sample: Sample, generations: int) -> float | None:
    """How long one generation took, or the whole sample where there were several."""
    seconds = sample.working_time if generations > 1 or sample.output.time is None else sample.output.time
    return None if seconds is None else seconds * 1000
