"""Ratings from 1 to 5 by a judge: four fixed questions, and criteria of the user's own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from pydantic import Field

from tui_evals.text.chats import chat_to_text
from tui_evals.text.measures import Measure

from .base import Evaluator, Evidence, JudgedOptions, Misconfigured, Score, measured_score
from .judging import UnreadableReply, ask_judge, judge_question, reply_text, score_line, stated_number, verdict_object

RATING_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "score": {"type": "integer", "enum": [1, 2, 3, 4, 5]}},
    "required": ["reason", "score"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Rating:
    """What a judge gave: a number from 1 to 5, and why."""

    score: float
    reason: str


class RatingOptions(JudgedOptions):
    """For evaluators that rate from 1 to 5."""

    threshold: float = Field(3.0, ge=1, le=5, description="The lowest rating, from 1 to 5, that passes.")


class RubricOptions(RatingOptions):
    """What Rubric takes."""

    criteria: str = Field(
        min_length=1, pattern=r"\S", description="What a good answer must do, in free text; the judge follows it."
    )


def read_rating(reply: str, judged: Collection[str] = ()) -> Rating:
    """The rating in a judge's reply to the texts that were judged."""
    try:
        text = reply_text(reply)
        verdict = None
        if '"score"' in text or "'score'" in text or _is_one_object(text):  # other braces are words of the reason
            verdict = verdict_object(text, "score", lambda value: stated_number(value) is not None, judged)
        score = score_line(text, judged) if verdict is None else stated_number(verdict["score"])
        if score is None or not 1 <= score <= 5:
            raise UnreadableReply(f"its score is {str(score)[:20]}")
    except UnreadableReply as problem:
        form = '{"reason": "...", "score": n}'
        raise UnreadableReply(f"{problem}; one JSON object {form} with n from 1 to 5 was expected") from None
    reason = verdict.get("reason") if verdict else text
    return Rating(float(score), reason if isinstance(reason, str) else "")


def _is_one_object(text: str) -> bool:
    return text.startswith("{") and text.endswith("}")


def reference_text(evidence: Evidence) -> str:
    """The acceptable references as one text, numbered when there are several."""
    references = evidence.references
    if len(references) < 2:
        return "".join(references)
    return "\n\n".join(f"Reference {number}\n{text}" for number, text in enumerate(references, 1))


async def rate_answer(
    evaluator: Evaluator,
    evidence: Evidence,
    texts: Mapping[str, str] | None = None,
    trusted: Mapping[str, object] | None = None,
    **details: Any,
) -> Score:
    """The record of a rating by the prompt that bears the evaluator's name."""
    judged_texts = {"conversation": chat_to_text(evidence.history), "request": evidence.prompt, **(texts or {})}
    judged_texts["answer"] = evidence.response or ""
    options = evaluator.options
    question = judge_question(evaluator.name.lower(), judged_texts, trusted, schema=RATING_SCHEMA, judge=options.judge)
    rating, reply = await ask_judge(evaluator.ask, question, partial(read_rating, judged=judged_texts.values()))
    reason = rating.reason.strip() or f"the judge gave {rating.score:g} of 5 and no reason"
    return measured_score(rating.score, options.threshold, reason, **details, reply=reply)


class Relevance(Evaluator):
    """Passes when the answer addresses the request directly and fully.

    A judge rates from 1 (not at all) over 3 (partly) to 5 (fully), and sees the conversation, the request and the
    answer. Facts are not checked.
    """

    name = "Relevance"
    family = "M365"
    measure = Measure("at least")
    needs = ("response", "prompt")
    judged = True
    lowest = 1.0
    Options = RatingOptions
    example: ClassVar = {
        "options": {"threshold": 4},
        "prompt": "What is the capital of Australia?",
        "response": "Canberra.",
        "judge_reply": '{"reason": "The capital is named.", "score": 5}',
    }

    async def score(self, evidence: Evidence) -> Score:
        """Rate the relevance."""
        return await rate_answer(self, evidence)


class Coherence(Evaluator):
    """Passes when the answer is logical, orderly and easy to follow.

    A judge rates from 1 (scattered) over 3 (can be followed with effort) to 5 (clear and well organised). Whether the
    answer is right or on the subject does not matter here.
    """

    name = "Coherence"
    family = "M365"
    measure = Measure("at least")
    judged = True
    lowest = 1.0
    Options = RatingOptions
    example: ClassVar = {
        "prompt": "How do I file expenses?",
        "response": "First collect the receipts. Then open the form and attach them.",
        "judge_reply": '{"reason": "Two steps in a workable order.", "score": 5}',
    }

    async def score(self, evidence: Evidence) -> Score:
        """Rate the coherence."""
        return await rate_answer(self, evidence)


class Groundedness(Evaluator):
    """Passes when what the answer claims is supported by the context.

    A judge rates from 1 (unsupported) over 3 (partly supported) to 5 (every claim is supported). The source is the
    item's `context`; without one, its expected response.
    """

    name = "Groundedness"
    family = "M365"
    measure = Measure("at least")
    judged = True
    lowest = 1.0
    Options = RatingOptions
    example: ClassVar = {
        "prompt": "How many days may I work from home?",
        "context": "Staff may work from home up to three days a week.",
        "response": "Up to three days a week.",
        "judge_reply": '{"reason": "The source says three days.", "score": 5}',
    }

    async def score(self, evidence: Evidence) -> Score:
        """Rate the grounding."""
        sources = {"context": evidence.context or "", "expected": reference_text(evidence)}
        for name, source in sources.items():
            if source.strip():
                return await rate_answer(self, evidence, {"source": source}, grounded_in=name)
        reason = "Groundedness needs context or an expected response to hold the answer against, and there is neither"
        raise Misconfigured(reason)


class Similarity(Evaluator):
    """Passes when the answer means the same as the expected response.

    A judge rates from 1 (another meaning) over 3 (some main facts agree) to 5 (the same meaning). Of several
    references the closest counts; wording does not.
    """

    name = "Similarity"
    family = "M365"
    measure = Measure("at least")
    needs = ("response", "expected")
    judged = True
    lowest = 1.0
    Options = RatingOptions
    example: ClassVar = {
        "prompt": "When does the shop close?",
        "response": "At 6 pm.",
        "expected": "The shop closes at 18:00.",
        "judge_reply": '{"reason": "The same time in another notation.", "score": 5}',
    }

    async def score(self, evidence: Evidence) -> Score:
        """Rate the similarity."""
        return await rate_answer(self, evidence, {"reference": reference_text(evidence)})


class Rubric(Evaluator):
    """Passes when the answer meets criteria you write in your own words.

    A judge rates from 1 (no criterion met) over 3 (some that matter are met) to 5 (all met), unless the criteria say
    themselves what earns which score. It also sees the expected response and the context where there are any.
    """

    name = "Rubric"
    family = "model-graded"
    measure = Measure("at least")
    judged = True
    lowest = 1.0
    Options = RubricOptions
    example: ClassVar = {
        "options": {"criteria": "Names a price and a currency."},
        "prompt": "What does it cost?",
        "response": "It costs 12 euros.",
        "judge_reply": '{"reason": "Both are named.", "score": 5}',
    }

    async def score(self, evidence: Evidence) -> Score:
        """Rate against the criteria."""
        texts = {"reference": reference_text(evidence), "context": evidence.context or ""}
        return await rate_answer(self, evidence, texts, {"criteria": self.options.criteria})
