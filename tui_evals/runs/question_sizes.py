"""How much a target has to read for its questions, as far as that is known before they are asked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tui_evals.datasets.attachments import PART, is_text_type
from tui_evals.datasets.model import Dataset
from tui_evals.text.box import TemplateError
from tui_evals.text.tokens import BYTES_PER_TOKEN, estimate_tokens

from .prompting import PromptUnderTest, opening_of, question_of

TYPICAL_ANSWER_TOKENS = 250
_AROUND = 20
"""Tokens of a question beside its texts."""


@dataclass(frozen=True, slots=True)
class QuestionSize:
    """The chat up to a question and with it."""

    tokens: int
    """Of its texts and tools, and of the answers before it, whose length is guessed."""
    files: int
    """How many pictures, sounds, PDFs and the like are in it, which each provider counts in a way of its own."""


class QuestionSizes:
    """The sizes of the questions of a dataset, those of one item at a time."""

    def __init__(self, dataset: Dataset, prompts: Sequence[PromptUnderTest]) -> None:
        self._dataset = dataset
        self._prompts = prompts
        self._tools = _tool_tokens(dataset.tools)
        self._item = -1
        self._known: dict[int, list[QuestionSize]] = {}

    def of(self, item: int, prompt: int) -> list[QuestionSize]:
        """The size of each turn of an item."""
        if item != self._item:
            self._item, self._known = item, {}
        if prompt not in self._known:
            self._known[prompt] = self._measured(item, self._prompts[prompt])
        return self._known[prompt]

    def _measured(self, number: int, prompt: PromptUnderTest) -> list[QuestionSize]:
        item = self._dataset.items[number]
        tokens = _AROUND + (_tool_tokens(item.tools) if item.tools else self._tools)
        try:
            opening = opening_of(self._dataset, item, prompt)
        except TemplateError:  # nobody is asked what cannot be filled in
            return [QuestionSize(0, 0)] * len(item.units)
        read, files = _measure(opening)
        tokens, sizes = tokens + read, []
        for unit in item.units:
            read, more = _measure(question_of(unit))
            tokens, files = tokens + read, files + more
            sizes.append(QuestionSize(tokens, files))
            tokens += TYPICAL_ANSWER_TOKENS
        return sizes


def _tool_tokens(tools: Sequence[Mapping[str, Any]] | None) -> int:
    return estimate_tokens(json.dumps(tools)) if tools else 0


def _measure(messages: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
    """The tokens of the texts of messages, and how many of their parts are none."""
    tokens = files = 0
    for message in messages:
        content = message.get("content")
        for part in [content] if isinstance(content, str) else content or ():
            if isinstance(part, str):
                tokens += estimate_tokens(part)
            elif part.get("type") == "text":
                tokens += estimate_tokens(part.get("text") or "")
            elif part.get("type") == PART and is_text_type(part.get("media_type", "")):
                tokens += part["size"] // BYTES_PER_TOKEN
            else:
                files += 1
        if calls := message.get("tool_calls"):
            tokens += estimate_tokens(json.dumps(calls))
    return tokens, files
