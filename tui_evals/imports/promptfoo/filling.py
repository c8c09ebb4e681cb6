"""Chat prompts that are chats only once their template is filled, filled at the import for every item."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tui_evals.imports.losses import Losses
from tui_evals.present.figures import counted
from tui_evals.text.box import TemplateError
from tui_evals.text.templates import render_template, template_variables

from .prompts import Prompt, chat_in
from .values import literal

SO_FAR = "_conversation"
"""The variable in which promptfoo gives a prompt the exchanges so far."""
_ON_TURNS = frozenset(("prompt", "evaluators", "evaluators_mode", "expected_response", "context", "response"))


def filled_items(
    prompt: Prompt, items: Sequence[Mapping[str, Any]], shared: Mapping[str, Any], losses: Losses
) -> list[dict[str, Any]]:
    """The items with the messages that the prompt makes for each; those of one conversation become its turns."""
    asked = [_asked(prompt, item, shared, losses) for item in items]
    if not is_conversation(prompt):
        return asked
    conversations = list(_conversations(asked))
    turns = f"what was asked one after the other is {counted(len(conversations), 'conversation')}"
    losses.changed(f"the prompt {prompt.name}", prompt.where, turns)
    return [_as_turns(group, losses) for group in conversations]


def is_conversation(prompt: Prompt) -> bool:
    """Whether a prompt is given what was asked and answered before."""
    return bool(prompt.template) and SO_FAR in template_variables(prompt.template)


def conversation_of(metadata: Mapping[str, Any]) -> str:
    """The conversation that a test belongs to; those that name none are one."""
    return str(metadata.get("conversationId", ""))


def _asked(prompt: Prompt, item: Mapping[str, Any], shared: Mapping[str, Any], losses: Losses) -> dict[str, Any]:
    values = dict.fromkeys(template_variables(prompt.template), "") | dict(shared) | dict(item.get("variables", {}))
    named = {key: item[key] for key in ("name",) if key in item}
    others = {key: part for key, part in item.items() if key not in (*named, "variables")}
    try:
        text = render_template(prompt.template, {**values, SO_FAR: []})
    except TemplateError as problem:
        losses.changed(
            f"the prompt {prompt.name}", prompt.where, f"a test is asked it unfilled: its template {problem}"
        )
        return {**named, "prompt": literal(prompt.template), **others}
    chat = chat_in(text)
    if chat is None:
        losses.changed(f"the prompt {prompt.name}", prompt.where, "filled, it is no chat for some tests, but a text")
        chat = [{"role": "user", "content": text}]
    *before, last = [_unfillable(message) for message in chat]
    if last["role"] != "user" or not isinstance(last.get("content"), str) or not last["content"]:
        return {**named, "messages": [*before, last], **others}
    messages = {"messages": before} if before else {}
    return {**named, "prompt": last["content"], **messages, **others}


def _unfillable(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message whose text is taken as it stands."""
    content = message.get("content")
    return {**message, "content": literal(content)} if isinstance(content, str) else dict(message)


def _conversations(items: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """The items by the conversation that their metadata names."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for item in items:
        metadata = item.get("extensions", {}).get("promptfoo", {}).get("metadata", {})
        groups.setdefault(conversation_of(metadata), []).append(item)
    yield from groups.values()


def _as_turns(group: Sequence[Mapping[str, Any]], losses: Losses) -> dict[str, Any]:
    first = group[0]
    turns = [{key: part for key, part in item.items() if key in _ON_TURNS} for item in group]
    for item in group:
        for key in sorted(item.keys() - _ON_TURNS - {"messages", "extensions", "name"}):
            losses.left_out(f"{key} of a test in a conversation", why="only a whole item has one")
    about = {key: first[key] for key in ("name", "messages", "extensions") if key in first}
    return {**about, "turns": turns}
