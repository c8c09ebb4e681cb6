"""The transcript of the playground as rows: who said what, the tools that were wanted, what each answer took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tui_evals.present.figures import duration
from tui_evals.present.steps import arguments_text
from tui_evals.targets.answers import content_text
from tui_evals.text.money import money
from tui_evals.tui.rows import JoinedRows, Rows, Style, paragraph, row

from .conversation import AnswerCost, CannotTalk, Conversation

_ROLES: Mapping[str, Style] = {"system": "dim", "user": "accent", "assistant": "strong", "tool": "warn"}


class Part(NamedTuple):
    """One message, or a remark where it has no role."""

    role: str
    text: str
    calls: tuple[tuple[str, str], ...] = ()
    note: str = ""
    style: Style = ""


def parts_of(talk: Conversation, pending: str | None = None) -> list[Part]:
    """The conversation so far, with a question that has no answer yet."""
    parts = _beginning(talk)
    for place, message in enumerate(talk.messages):
        taken = talk.taken.get(place)
        parts.append(_part(message, note=cost_words(taken) if taken else ""))
    if pending is not None:
        parts.append(Part("user", pending))
    elif not talk.messages:
        parts.append(Part("", _invitation(talk), style="dim"))
    return parts


def _beginning(talk: Conversation) -> list[Part]:
    prompt = talk.beginning.prompt
    try:
        return [_part(message, style="dim") for message in talk.opening()]
    except CannotTalk as problem:
        sentence = Part("", str(problem), style="warn")
    if prompt is None:
        return [sentence]
    if prompt.prompty is not None:
        return [*(Part(section.role, section.text, style="dim") for section in prompt.prompty.sections), sentence]
    return [*(_part(message, style="dim") for message in prompt.messages), sentence]


def _part(message: Mapping[str, Any], note: str = "", style: Style = "") -> Part:
    content = message.get("content")
    blocks = content if isinstance(content, list) else ()
    others = [f"<{block.get('type')}>" for block in blocks if isinstance(block, dict) and block.get("type") != "text"]
    text = "\n".join(text for text in (content_text(content), *others) if text)
    calls = message.get("tool_calls")
    functions = [call.get("function", call) for call in calls or () if isinstance(call, dict)]
    called = tuple(
        (str(one.get("name")), arguments_text(one.get("arguments", ""))) for one in functions if isinstance(one, dict)
    )
    return Part(str(message.get("role")), text, called, note, style)


def cost_words(taken: AnswerCost) -> str:
    """What an answer took, on one line."""
    usage, cost = taken.usage, taken.cost
    tokens = f"{usage.input_tokens:,} + {usage.output_tokens:,} tokens" if usage else "no token counts"
    paid = "unpriced" if cost is None else money(cost)
    scripted = ("scripted",) if taken.scripted else ()
    ending = (taken.ending,) if taken.ending else ()
    return " · ".join((taken.target, duration(taken.seconds), tokens, paid, *scripted, *ending))


def _invitation(talk: Conversation) -> str:
    first = f"Write below what you want to ask {talk.config.name}; ctrl+j sends it."
    return f"{first}\nctrl+o talks to another target, ctrl+t makes an item of the conversation, f1 shows all keys."


class Transcript:
    """The rows of a conversation; each part of it is wrapped once for a width, which may take a while."""

    def __init__(self) -> None:
        self._made: dict[tuple[Part, int], Rows] = {}

    def lay_out(self, parts: Sequence[Part], width: int) -> tuple[Rows, int]:
        """All rows, and the number of the one in which the last question begins."""
        before, self._made = self._made, {}
        blocks: list[Rows] = []
        start = length = 0
        for part in parts:
            key = (part, width)
            rows = before.get(key) or _rows(part, width)
            self._made[key] = rows
            start = length if part.role == "user" else start
            blocks.append(rows)
            length += len(rows)
        return JoinedRows(blocks), start


def _rows(part: Part, width: int) -> Rows:
    rows: list[Rows] = []
    if part.role:
        rows.append(paragraph(part.role, width, _ROLES.get(part.role, "strong")))
    indent = 2 if part.role else 0
    if part.text:
        rows.append(paragraph(part.text, width, part.style, indent))
    for name, arguments in part.calls:
        rows += [paragraph(f"→ {name}", width, "strong", indent), paragraph(arguments, width, part.style, indent + 2)]
    if part.note:
        rows.append(paragraph(part.note, width, "dim", indent))
    return JoinedRows([*rows, [row()]])
