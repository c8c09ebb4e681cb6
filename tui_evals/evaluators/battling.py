"""Which of two answers a judge prefers: the question, asked in one order, and the strict reading of the reply."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from tui_evals.light_records import dataclass
from tui_evals.text.chats import chat_to_text

from .base import Ask, Evidence, Question
from .judging import ask_judge, judge_question, required_verdict
from .shown import reference_text

DEFAULT_CRITERIA = (
    "The better answer is the one that serves the person who asked better: it is correct first, then complete, then "
    "clear."
)
"""The criteria when the user gives none."""

Place = Literal["first", "second", "tie"]

_PLACES: tuple[Place, ...] = ("first", "second", "tie")
_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "winner": {"type": "string", "enum": list(_PLACES)}},
    "required": ["reason", "winner"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class BattleAnswer:
    """One of two answers: the chat up to it, what it says and the tools it calls."""

    chat: Sequence[Mapping[str, Any]]
    text: str
    tool_calls: Sequence[Mapping[str, Any]] = ()

    @property
    def shown_text(self) -> str:
        """The answer as the judge sees it."""
        calls = (f"calls {call.get('name')} with {call.get('arguments')}" for call in self.tool_calls)
        return "\n".join([*([self.text] if self.text else []), *calls])


@dataclass(frozen=True, slots=True)
class Preference:
    """The answer a judge prefers, by where it was shown, and why."""

    winner: Place
    reason: str


def battle_question(
    first: BattleAnswer, second: BattleAnswer, expected: Sequence[str] = (), criteria: str = ""
) -> Question:
    """The question which of two answers is better, in the order they are given."""
    texts = _battle_texts(first, second, expected)
    trusted = {"criteria": criteria or DEFAULT_CRITERIA, "apart": "asked" not in texts}
    return judge_question("battle", texts, trusted, schema=_SCHEMA)


async def ask_preference(
    ask: Ask, first: BattleAnswer, second: BattleAnswer, expected: Sequence[str] = (), criteria: str = ""
) -> Preference:
    """What a judge prefers, in this order; CannotJudge when it gives no verdict that can be read."""
    question = battle_question(first, second, expected, criteria)
    judged = _battle_texts(first, second, expected).values()
    preference, _ = await ask_judge(ask, question, partial(read_preference, judged=judged))
    return preference


def read_preference(reply: str, judged: Collection[str] = ()) -> Preference:
    """The verdict in a judge's reply to the texts that were judged: one JSON object, and no other form."""
    form = '{"reason": "...", "winner": "first"} with first, second or tie'
    verdict = required_verdict(reply, "winner", lambda value: value in _PLACES, judged, form)
    reason = verdict.get("reason")
    return Preference(verdict["winner"], reason.strip() if isinstance(reason, str) else "")


def judging_fingerprint(criteria: str, identity: Mapping[str, Any]) -> str:
    """A hash of what decides a verdict besides the answers: the prompt, the criteria and the judge."""
    answer, other_answer = (BattleAnswer(({"role": "user", "content": prompt},), "") for prompt in "ab")
    questions = [battle_question(answer, second, (), criteria) for second in (answer, other_answer)]
    parts = [[list(map(dict, question.messages)) for question in questions], _SCHEMA, dict(identity)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _battle_texts(first: BattleAnswer, second: BattleAnswer, expected: Sequence[str]) -> dict[str, str]:
    """What is judged, by the names of the prompt; a chat that both answers share is shown once."""
    shared = [message for message in first.chat if message in second.chat]
    chats = [_chat_without_own_system(answer.chat, shared) for answer in (first, second)]
    evidence = Evidence(alternatives=tuple(expected))
    texts = {"reference": reference_text(evidence), "first": first.shown_text, "second": second.shown_text}
    if chats[0] == chats[1]:
        return {"asked": chats[0], **texts}
    return {"first_asked": chats[0], "second_asked": chats[1], **texts}


def _chat_without_own_system(chat: Sequence[Mapping[str, Any]], shared: Sequence[Mapping[str, Any]]) -> str:
    """The chat without system messages that only one side had: they are how it answered, not what was asked."""
    return chat_to_text([message for message in chat if message.get("role") != "system" or message in shared])
