"""Whole conversations: judged once, when the last turn is answered, with every message before it."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from tui_evals.text.measures import Measure

from .base import Evaluator, Evidence, JudgedOptions, Score, skipped_score, verdict_score
from .checklists import Checklist, ask_lists, share_score
from .grounding import ShareOptions
from .shown import message_pieces

Text = Annotated[str, Field(min_length=1)]
_HISTORY: tuple[dict[str, Any], ...] = (
    {"role": "system", "content": "You are the polite clerk of a library, and give no legal advice."},
    {"role": "user", "content": "My card is L-17. Is Emma in?"},
    {"role": "assistant", "content": "It is, on shelf 4."},
)
_EXAMPLE: dict[str, Any] = {
    "history": _HISTORY,
    "prompt": "Please set it aside for me.",
    "response": "Gladly: Emma is set aside under L-17 until Friday.",
}


class RoleOptions(ShareOptions):
    """What RoleAdherence takes."""

    threshold: float = Field(1.0, ge=0, le=1, description="The share of messages from which it passes.")
    role: Text | None = Field(None, description="Who the assistant is; else what the system messages say.")


class GoalOptions(JudgedOptions):
    """What GoalReached takes."""

    goal: Text | None = Field(
        None, description="What has to be reached; else the expected response, else what the user plainly wanted."
    )


class ConversationCompleteness(Evaluator):
    """Passes when a conversation gave its user what the user wanted; the score is the share of requests that were met.

    It judges the whole conversation once, at its last turn.
    """

    name = "ConversationCompleteness"
    family = "conversations"
    measure = Measure("at least")
    needs = ("response", "prompt")
    judged = True
    scope = "thread"
    Options = ShareOptions
    example: ClassVar = {
        **_EXAMPLE,
        "judge_reply": '{"requests": [{"request": "whether Emma is in", "reason": "message 3", "met": true},'
        ' {"request": "set it aside", "reason": "message 5", "met": true}]}',
    }

    async def score(self, evidence: Evidence) -> Score:
        """Ask of each request of the user."""
        form = Checklist("requests", "request", "met")
        lists, reply = await ask_lists(self, [form], {}, {"messages": message_pieces(evidence)})
        nothing = "the user asked for nothing"
        return share_score(lists["requests"], form, self.options.threshold, reply, nothing=nothing)


class RoleAdherence(Evaluator):
    """Passes when the assistant kept to its role in its messages; the score is the share in which it did.

    The role is that of the options, else what the system messages say. It judges the whole conversation once, at its
    last turn.
    """

    name = "RoleAdherence"
    family = "conversations"
    measure = Measure("at least")
    judged = True
    scope = "thread"
    Options = RoleOptions
    example: ClassVar = {
        **_EXAMPLE,
        "judge_reply": '{"messages": [{"message": 3, "reason": "A clerk.", "kept": true},'
        ' {"message": 5, "reason": "Polite.", "kept": true}]}',
    }

    async def score(self, evidence: Evidence) -> Score:
        """Ask of each message of the assistant."""
        pieces = message_pieces(evidence)
        numbers = tuple(
            number for number, piece in enumerate(pieces, 1) if piece.name.endswith("_assistant") and piece.text.strip()
        )
        form = Checklist("messages", "message", "kept", len(numbers), numbers)
        trusted = {"role": self.options.role or "(none given)", "numbers": ", ".join(map(str, numbers))}
        lists, reply = await ask_lists(self, [form], {}, {"messages": pieces}, trusted)
        nothing = "the assistant said nothing"
        return share_score(lists["messages"], form, self.options.threshold, reply, nothing=nothing)


class KnowledgeRetention(Evaluator):
    """Passes when the assistant kept in mind what its user told it; the score is the share of such facts it kept.

    Skipped where no later message had to do with anything the user told. It judges the whole conversation once, at its
    last turn.
    """

    name = "KnowledgeRetention"
    family = "conversations"
    measure = Measure("at least")
    judged = True
    scope = "thread"
    Options = ShareOptions
    example: ClassVar = {
        **_EXAMPLE,
        "judge_reply": '{"facts": [{"fact": "the card is L-17", "reason": "message 5 uses it", "kept": true}]}',
    }

    async def score(self, evidence: Evidence) -> Score:
        """Ask of each fact."""
        form = Checklist("facts", "fact", "kept")
        lists, reply = await ask_lists(self, [form], {}, {"messages": message_pieces(evidence)})
        if not lists["facts"]:
            return skipped_score("the user told nothing that a later message had to do with")
        return share_score(lists["facts"], form, self.options.threshold, reply, nothing="")


class GoalReached(Evaluator):
    """Passes when a conversation reached its goal.

    The goal is that of the options, else the expected response of the last turn, else what the user plainly wanted. It
    judges the whole conversation once, at its last turn.
    """

    name = "GoalReached"
    family = "conversations"
    judged = True
    scope = "thread"
    Options = GoalOptions
    example: ClassVar = {
        **_EXAMPLE,
        "options": {"goal": "The book is set aside for the user."},
        "judge_reply": '{"goals": [{"goal": "the book is set aside", "reason": "message 5", "reached": true}]}',
    }

    async def score(self, evidence: Evidence) -> Score:
        """Ask of the goal."""
        form = Checklist("goals", "goal", "reached", least=1)
        own, expected = self.options.goal, evidence.expected or ""
        texts = {} if own else {"goal": expected}
        trusted = {"goal": own} if own else {}
        lists, reply = await ask_lists(self, [form], texts, {"messages": message_pieces(evidence)}, trusted)
        open_goals = [entry for entry in lists["goals"] if not entry["reached"]]
        reason = "; ".join(entry.get("reason", "") for entry in open_goals or lists["goals"])
        return verdict_score(not open_goals, reason, goals=lists["goals"], reply=reply)
