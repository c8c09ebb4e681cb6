"""Judged comparisons: the better of two answers; Arthur Bench's better summary, right answer, unsupported claims."""

from __future__ import annotations

import hashlib
import json
import re
from ast import Assign, Attribute, Call, Constant, List, Name, parse
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import AliasChoices, Field

from tui_evals.evaluators.base import (
    Ask,
    CannotJudge,
    Evaluator,
    Evidence,
    JudgedOptions,
    Misconfigured,
    Question,
    Score,
    error_score,
    measured_score,
    verdict_score,
)
from tui_evals.evaluators.judging import (
    UnreadableReply,
    ask_judge,
    ask_once,
    check_shown_size,
    judge_question,
    reference_text,
    reply_text,
    required_verdict,
    source_of,
)
from tui_evals.evaluators.retrieval import no_source
from tui_evals.evaluators.values import quoted_list
from tui_evals.evaluators.verdicts import LONG_REPLY
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_text
from tui_evals.text.chats import chat_to_text
from tui_evals.text.measures import Measure, estimate_tokens

REPLY_TOKENS = 150
"""Tokens kept free in a judge's context window, as in the original."""


class GradedOptions(JudgedOptions):
    """Options of evaluators whose judge replies with one word."""

    invalid: Literal["exclude", "lowest"] = Field(
        "exclude",
        description="What a reply without a verdict is worth: nothing, it is an error (exclude), or -1 (lowest).",
    )
    compat: bool = Field(
        False,
        description="Ask and read to the letter of Arthur Bench: its prompt, nothing fenced or trimmed, no second "
        "question. The prompt is read from the package arthur-bench, which must be installed.",
    )


_MEANING = re.compile(r"(\w+) ?[-–—:] [^\W\d_][^\n]*")
"""A choice with its meaning, as prompts list them: `1 - the answer is right`."""


def read_word(reply: str, words: Mapping[str, str]) -> str:
    """The label of a one-word reply in upper or lower case, trimmed, bare or in bold, alone or with its meaning."""
    word = reply_text(reply).lower().strip(" \t*_`\"'")
    if listed := _MEANING.fullmatch(word):
        word = listed[1]
    if word not in words:
        raise UnreadableReply(f"one of {', '.join(words)} was expected, and nothing else")
    return words[word]


_ROLES = {"SystemMessagePromptTemplate": "system", "HumanMessagePromptTemplate": "user"}
_MISSING = (
    "with compat it asks in the words of Arthur Bench, which are in the Python package arthur-bench. It is not "
    "installed: pip install --no-deps arthur-bench"
)


@cache
def original_prompt(name: str) -> tuple[tuple[str, str], ...]:
    """The role and template of each message of a prompt in the installed arthur-bench, which is not imported.

    Raises Misconfigured if it is missing or differs from its release 0.3.
    """
    package = find_spec("arthur_bench")
    places = () if package is None else tuple(package.submodule_search_locations or ())
    file = next((file for place in places if (file := Path(place, "scoring", "prompts", f"{name}.py")).is_file()), None)
    if file is None:
        raise Misconfigured(_MISSING)
    templates: dict[str, tuple[str, str]] = {}
    try:
        for node in parse(read_text(file)).body:
            match node:
                case Assign(
                    targets=[Name(id=named)],
                    value=Call(
                        func=Attribute(value=Name(id=kind), attr="from_template"), args=[Constant(value=str(text))]
                    ),
                ):
                    templates[named] = (_ROLES.get(kind, "assistant"), text)
                case Assign(value=Call(func=Attribute(attr="from_messages"), args=[List(elts=order)])):
                    return tuple(templates[part.id] for part in order if isinstance(part, Name))
    except (OSError, SyntaxError, ValueError, KeyError) as problem:
        raise Misconfigured(f"the prompt of Arthur Bench in {file} cannot be read: {problem}") from None
    raise Misconfigured(f"{file} holds no prompt as release 0.3 of arthur-bench has it")


def original_question(name: str, texts: Mapping[str, str], judge: str | None) -> Question:
    """The question of Arthur Bench, with unfenced texts."""
    check_shown_size(texts.values())
    try:
        messages = [{"role": role, "content": text.format_map(texts)} for role, text in original_prompt(name)]
    except (LookupError, ValueError, AttributeError) as problem:
        raise Misconfigured(
            f"the prompt {name} of the installed arthur-bench asks for another field: {problem}"
        ) from None
    return Question(messages=tuple(messages), judge=judge, params={"temperature": 0}, rubric=f"{name} of arthur-bench")


class _Grader(Evaluator):
    """A judge who replies with one word."""

    prompt: ClassVar[str]
    """The name of its prompt, ours and that of Arthur Bench."""

    def obstacle(self) -> str | None:
        """Why the prompt of the original is unavailable, if it is needed."""
        try:
            if self.options.compat:
                original_prompt(self.prompt)
        except Misconfigured as problem:
            return str(problem)
        return None

    def question(self, texts: Mapping[str, str], original: Mapping[str, str]) -> Question:
        """The question to the judge; `original` has the fields of the original's prompt by ours."""
        if self.options.compat:
            return original_question(
                self.prompt, {original[name]: text for name, text in texts.items()}, self.options.judge
            )
        return judge_question(self.prompt, texts, judge=self.options.judge)

    def empty_score(self) -> Score | None:
        """The lowest score; judged as the original does, an empty answer is put to the judge."""
        return None if self.options.compat else super().empty_score()


async def ask_grader(
    evaluator: Evaluator, question: Question, words: Mapping[str, str], read_as_original: Callable[[str], str]
) -> tuple[str, str]:
    """The label a judge gives and its reply; `invalid` where the reply gives none."""
    if evaluator.options.compat:
        said, reply = await ask_once(evaluator.ask, question)
        return words.get(read_as_original(said), "invalid"), reply
    try:
        return await ask_judge(evaluator.ask, question, partial(read_word, words=words))
    except CannotJudge as problem:
        if problem.code != "judgeOutputUnparseable":
            raise
        return "invalid", str(problem.details["repaired"])


def _invalid_score(options: GradedOptions, reply: str, **details: object) -> Score:
    """The record of a judge that gave no verdict; negate does not turn it."""
    reason = f"the judge gave no verdict: {quoted_list([reply])}"
    if options.invalid == "exclude":
        return replace(error_score("judgeOutputUnparseable", reason, reply=reply, **details), label="invalid")
    before_negation: Literal["pass", "fail"] = "pass" if options.negate else "fail"
    return Score(-1.0, before_negation, 0.0, "invalid", reason, {"reply": reply, **details})


class SummaryQualityOptions(GradedOptions):
    """The options of SummaryQuality."""

    context_window: int = Field(
        4096,
        gt=REPLY_TOKENS,
        validation_alias=AliasChoices("context_window", "contextWindow"),
        description="How many tokens the judge can read; a longer text is cut at its end, and the record says so.",
    )
    threshold: float = Field(
        0.5, ge=0, le=1, description="0.5 passes answers as good as the reference, 1 only better ones."
    )


class SummaryQuality(_Grader):
    """Passes when the judge finds the answer at least as good a summary of the prompt as the reference is.

    Labels and scores: `reference` (0, the reference is better), `equal` (0.5), `candidate` (1, the answer is better);
    `equal` and `candidate` pass. `invalid` is a reply without a verdict: an error that counts nowhere, or -1 with
    `invalid: lowest`. A prompt that does not fit the judge's context window is cut at its end, by an estimate of its
    tokens.
    """

    name = "SummaryQuality"
    aliases = ("summary_quality",)
    family = "Arthur Bench"
    measure = Measure("at least")
    needs = ("response", "prompt", "expected")
    judged = True
    compares = True
    Options = SummaryQualityOptions
    example: ClassVar = {
        "prompt": "Rain delayed the final by three hours. Okafor won it in two sets.",
        "expected": "It rained.",
        "response": "Okafor won the rain-delayed final.",
        "judge_reply": "1",
    }
    prompt = "summary_quality"
    words: ClassVar = {"0": "reference", "1": "candidate", "tie": "equal"}
    scores: ClassVar = {"reference": 0.0, "equal": 0.5, "candidate": 1.0}

    async def score(self, evidence: Evidence) -> Score:
        """Which summary is better."""
        question, cut_tokens = self._question(evidence)
        label, reply = await ask_grader(self, question, self.words, lambda reply: reply[:3])
        details = {"truncated_tokens": cut_tokens} if cut_tokens else {}
        if label == "invalid":
            return _invalid_score(self.options, reply, **details)
        reason = "neither summary is better" if label == "equal" else f"the {label} is the better summary"
        cut_note = f"; the text was cut by {cut_tokens} tokens" if cut_tokens else ""
        return measured_score(
            self.scores[label], self.options.threshold, reason + cut_note, label=label, reply=reply, **details
        )

    def _question(self, evidence: Evidence) -> tuple[Question, int]:
        """The question to the judge, and how many tokens of the text had to be left out."""

        def question_about(text: str) -> Question:
            texts = {"text": text, "reference": evidence.references[0], "candidate": evidence.response or ""}
            return self.question(texts, {"text": "text", "reference": "summary_A", "candidate": "summary_B"})

        fixed_tokens = sum(estimate_tokens(message["content"]) for message in question_about(".").messages)
        tokens_left = self.options.context_window - REPLY_TOKENS - fixed_tokens
        if tokens_left <= 0:
            reason = f"the two summaries leave no room for the text in {self.options.context_window} tokens"
            raise CannotJudge("responseTooLarge", f"{reason}; raise context_window if the judge can read more")
        text = evidence.prompt
        fitting_length = (
            bisect_right(range(len(text) + 1), tokens_left, key=lambda end: estimate_tokens(text[:end])) - 1
        )
        return question_about(text[:fitting_length]), estimate_tokens(text) - estimate_tokens(text[:fitting_length])


class QACorrectness(_Grader):
    """Passes when the judge finds the answer to the prompt right, going by the context.

    Labels and scores: `incorrect` (0), `correct` (1, passes), and `invalid` when the judge cannot tell (NA) or gives
    no verdict: an error that counts nowhere, or -1 with `invalid: lowest`. An answer that truthfully says the context
    does not tell is correct.
    """

    name = "QACorrectness"
    aliases = ("qa_correctness",)
    family = "Arthur Bench"
    needs = ("response", "prompt", "context")
    judged = True
    Options = GradedOptions
    example: ClassVar = {
        "prompt": "For how long may I keep a book?",
        "context": "Books are lent for four weeks.",
        "response": "Four weeks.",
        "judge_reply": "1",
    }
    prompt = "qa_correctness"
    words: ClassVar = {"0": "incorrect", "1": "correct", "na": "invalid"}

    async def score(self, evidence: Evidence) -> Score:
        """Whether the answer is right."""
        texts = {
            "context": evidence.context or "",
            "question": evidence.prompt,
            "answer": evidence.response or "",
        }
        question = self.question(texts, {name: name for name in texts})
        label, reply = await ask_grader(self, question, self.words, str)
        if label == "invalid":
            return _invalid_score(self.options, reply)
        return verdict_score(label == "correct", f"the judge finds the answer {label}", label=label, reply=reply)


_CLAIM_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "claim": {"type": "string"},
        "evidence": {"type": "string"},
        "supported": {"type": "boolean"},
    },
    "required": ["claim", "evidence", "supported"],
    "additionalProperties": False,
}
CLAIMS_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"claims": {"type": "array", "items": _CLAIM_SCHEMA}},
    "required": ["claims"],
    "additionalProperties": False,
}


def read_claims(reply: str, judged: Collection[str] = ()) -> list[dict[str, Any]]:
    """The claims in a judge's reply to the texts that were judged, each with the word whether it is supported."""
    form = '{"claims": [{"claim": "...", "evidence": "...", "supported": true}]}'
    return list(required_verdict(reply, "claims", _is_claim_list, judged, form)["claims"])


def _is_claim_list(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(claim, dict) and isinstance(claim.get("claim"), str) and isinstance(claim.get("supported"), bool)
        for claim in value
    )


class Hallucination(Evaluator):
    """Passes when the context supports every claim the answer makes.

    A judge splits the answer into claims and looks each of them up in the item's context, the retrieved chunks and
    what tools gave; the score is 1 when all are supported, else 0. The details count the claims and list those that
    are not supported. An answer without claims passes. Faithfulness gives the share. Labels: `no hallucination`,
    `hallucination`.
    """

    name = "Hallucination"
    aliases = ("hallucination",)
    family = "Arthur Bench"
    judged = True
    Options = JudgedOptions
    example: ClassVar = {
        "context": "Books are lent for four weeks.",
        "response": "You may keep it for four weeks.",
        "judge_reply": '{"claims": [{"claim": "Books are lent for four weeks.", "evidence": "the same words",'
        ' "supported": true}]}',
    }

    async def score(self, evidence: Evidence) -> Score:
        """Whether all claims are supported."""
        sources, names = source_of(evidence)
        if not sources:
            raise Misconfigured(no_source(self.name))
        texts = {"request": evidence.prompt, "answer": evidence.response or ""}
        question = judge_question(
            "hallucination", texts, parts={"context": sources}, schema=CLAIMS_SCHEMA, judge=self.options.judge
        )
        judged = (*texts.values(), *(piece.text for piece in sources))
        claims, reply = await ask_judge(
            self.ask, replace(question, max_tokens=LONG_REPLY), partial(read_claims, judged=judged)
        )
        unsupported = [claim["claim"] for claim in claims if not claim["supported"]]
        if not claims:
            reason = "the answer makes no claim"
        elif unsupported:
            reason = f"without support, {len(unsupported)} of {len(claims)}: {quoted_list(unsupported)}"
        else:
            reason = f"the context supports every claim ({len(claims)})"
        label = "hallucination" if unsupported else "no hallucination"
        counts = {"claims": len(claims), "supported": len(claims) - len(unsupported), "unsupported": unsupported}
        shown = {**counts, "checked": claims, "grounded_in": names}
        return verdict_score(not unsupported, reason, label=label, **shown, reply=reply)


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
    """One of two answers: the chat before it, its text and its tool calls."""

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
    """The judge's preference for this order; CannotJudge without a readable verdict."""
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
    """A hash of everything besides the answers that affects a verdict: the prompt, the criteria and the judge."""
    answer, other_answer = (BattleAnswer(({"role": "user", "content": prompt},), "") for prompt in "ab")
    questions = [battle_question(answer, second, (), criteria) for second in (answer, other_answer)]
    parts = [[list(map(dict, question.messages)) for question in questions], _SCHEMA, dict(identity)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _battle_texts(first: BattleAnswer, second: BattleAnswer, expected: Sequence[str]) -> dict[str, str]:
    """The texts to judge, by the names of the prompt; a chat that both answers share is shown once."""
    shared = [message for message in first.chat if message in second.chat]
    chats = [_chat_without_own_system(answer.chat, shared) for answer in (first, second)]
    evidence = Evidence(alternatives=tuple(expected))
    texts = {"reference": reference_text(evidence), "first": first.shown_text, "second": second.shown_text}
    if chats[0] == chats[1]:
        return {"asked": chats[0], **texts}
    return {"first_asked": chats[0], "second_asked": chats[1], **texts}


def _chat_without_own_system(chat: Sequence[Mapping[str, Any]], shared: Sequence[Mapping[str, Any]]) -> str:
    """The chat without system messages of only one side: they belong to the answer, not to the question."""
    return chat_to_text([message for message in chat if message.get("role") != "system" or message in shared])
