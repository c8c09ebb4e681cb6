"""Judges one answer: collects the evidence, runs every evaluator, and computes the status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from tui_evals.datasets.model import Dataset, Item
from tui_evals.evaluators.base import Evidence, Score, evaluate, skipped_score
from tui_evals.evaluators.judging import CHUNKS, chunk_texts
from tui_evals.evaluators.rows import tool_call
from tui_evals.light_records import dataclass
from tui_evals.runs.prompting import (
    Chat,
    PromptUnderTest,
    chat_up_to,
    messages_of_answer,
    opening_of,
    question_of,
    variables_of,
)
from tui_evals.store.records import AnswerRecord, AnswerRow, ScoreRecord, answer_steps, transcript_of
from tui_evals.store.rows import Mark
from tui_evals.text.chats import chat_to_text, split_at_question
from tui_evals.text.measures import tokens_per_second
from tui_evals.transcript import Transcript

from .asking import current_evaluator
from .availability import Unavailable
from .plan import Assigned, Plan
from .status import Status, score_of, status_of, weighted_mean

FORMAT_KEY = "response_format"

scripted: ContextVar[bool] = ContextVar("scripted", default=False)
"""Set by a judge whose reply was written beforehand, so that the verdict can say so."""


@dataclass(frozen=True, slots=True)
class JudgeQuestions:
    """Counts the questions asked while judging one thing; the same question may be asked several times on purpose."""

    about: str
    """The unique name in the run of what is judged."""
    again: bool = True
    """Whether it may have been judged in part before, by a process that vanished."""
    counts: Counter[str] = field(default_factory=Counter)

    def number(self, question: str) -> str:
        """How the next reply to a question is called, now and when the same is judged again after a crash."""
        self.counts[question] += 1
        return f"{self.about} {self.counts[question]} {question}"


questions: ContextVar[JudgeQuestions | None] = ContextVar("questions", default=None)
"""The questions of what is being judged; None if no run caches the replies."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The scores of one answer, and the status and score that follow."""

    records: tuple[ScoreRecord, ...]
    status: Status
    score: float | None


def evidence_for(
    plan: Plan,
    item: Item,
    turn: int,
    prompt: PromptUnderTest,
    chat: Chat,
    answer: AnswerRecord,
    completions: Sequence[str] = (),
) -> Evidence:
    """Everything evaluators may look at for one answer."""
    unit = item.units[turn]
    wanted = item.response_format or plan.dataset.response_format
    tokens = None
    if answer.input_tokens is not None or answer.output_tokens is not None:
        tokens = (answer.input_tokens or 0) + (answer.output_tokens or 0)
    steps, calls, turns = answer_steps(answer), answer.tool_calls, 0
    if steps:
        calls = tuple(call for step in steps for call in step["calls"]) or calls
        turns = sum("asked" in step for step in steps)
    history, request = split_at_question(chat_up_to(answer, chat))
    generated = _generated_texts(plan, item)
    return Evidence(
        prompt=chat_to_text(request),
        response=answer.text,
        expected=unit.reference,
        alternatives=tuple(unit.references),
        context=unit.context,
        history=history,
        request=request,
        variables=variables_of(plan.dataset, item),
        tool_calls=tuple(tool_call(call) for call in calls),
        steps=len(steps) or None,
        transcript=transcript_of(answer)
        if (steps or answer.transcript) and not turns
        else Transcript(),  # else the history has it
        turns=turns or None,
        user=steps[-1].get("user") if steps else None,
        tools=tuple(answer.request.get("tools") or item.tools or plan.dataset.tools or ()),
        chunks=chunk_texts(unit.extensions.get(CHUNKS)) if unit.extensions else (),
        diagnostics=answer.diagnostics,
        latency_ms=answer.latency_ms,
        first_token_ms=answer.first_token_ms,
        tokens_per_second=tokens_per_second(answer.output_tokens, answer.latency_ms),
        tokens=tokens,
        cost=answer.cost,
        from_cache=answer.from_cache,
        finish_reason=answer.finish_reason,
        json_response=wanted not in (None, "text"),
        completions=tuple(completions),
        rules=generated.get("rules"),
        intent=generated.get("intent"),
        input_spec=generated.get("inputSpec"),
        prompt_template=prompt.template,
        groundtruth=generated.get("groundtruth"),
        item=partial(item.model_dump, exclude_unset=True),
    )


def stored_evidence(plan: Plan, row: AnswerRow, known: Mapping[int, AnswerRecord]) -> Evidence:
    """The evidence for an answer of the store; `known` has it and the answers before it, by turn.

    TemplateError where its prompt cannot be filled in any more.
    """
    item, prompt = plan.dataset.items[row.item].asking(row.repeat), plan.asked_prompts[row.prompt]
    messages = [*opening_of(plan.dataset, item, prompt)]
    for turn, unit in enumerate(item.units[: row.turn + 1]):
        messages += question_of(unit) if turn else ()
        if turn < row.turn and turn in known:
            messages += messages_of_answer(known[turn])
    return evidence_for(plan, item, row.turn, prompt, tuple(messages), known[row.turn])


def _generated_texts(plan: Plan, item: Item) -> Mapping[str, str]:
    """The texts that a generation wrote about the prompt: the item's, else the dataset's."""
    texts: dict[str, str] = {}
    if plan.dataset.extensions is None and item.extensions is None:
        return texts
    for place in (plan.dataset, item):
        own = place.extensions.get("promptpex") if place.extensions is not None else None
        if isinstance(own, dict):
            texts |= {name: value for name, value in own.items() if isinstance(value, str)}
    return texts


async def judge(
    evaluators: Sequence[Assigned],
    evidence: Evidence,
    plan: Plan,
    item: Item,
    turn: int,
    said: Sequence[ScoreRecord] = (),
) -> Judgement:
    """Judge an answer, except by evaluators that already have a record in `said`.

    Evaluators of whole conversations judge at their last turn. Raises Unavailable if a judge cannot be asked, after all
    others have judged.
    """
    kept = {record.key: record for record in said}
    own, later = list[Assigned](), list[Assigned]()
    for one in evaluators:
        scope = one.evaluator.scope
        is_own = scope == "answer" or (scope == "thread" and plan.judges_thread(item, turn, one.key))
        (own if is_own else later).append(one)
    records, unavailable = list[ScoreRecord](), None
    for one in own:
        try:
            records += _with_parts(kept.get(one.key) or await recorded(one, evidence, plan.without_judges))
        except Unavailable as problem:  # the replies of other judges are kept until all have replied
            unavailable = problem
    if unavailable is not None:
        raise unavailable
    format_record = await form_record(evidence, item, plan.dataset)
    if format_record is not None:
        records.append(format_record)
    threshold = 1.0 if item.threshold is None else item.threshold
    if format_record is not None and format_record.result == "fail":
        return Judgement(tuple(records), "fail", 0.0)
    together = any(not (plan.without_judges and one.evaluator.judged) for one in later)
    return Judgement(tuple(records), status_of(records, threshold, together=together), score_of(records))


async def recorded(assigned: Assigned, evidence: Evidence, without_judges: bool) -> ScoreRecord:
    """The record of one evaluator for some evidence."""
    return _record(assigned, await _judged(assigned, evidence, without_judges))


async def _judged(assigned: Assigned, evidence: Evidence, without_judges: bool) -> Score:
    if without_judges and assigned.evaluator.judged:
        return skipped_score("left out: the run was started without judges")
    if not assigned.evaluator.has_judge:  # nothing is asked, so there is nothing to record
        return await evaluate(assigned.evaluator, evidence)
    scripted.set(False)
    token = current_evaluator.set(assigned.key)
    try:
        score = await evaluate(assigned.evaluator, evidence)
    finally:
        current_evaluator.reset(token)
    if scripted.get():
        return replace(score, reason=f"scripted: {score.reason}", details={**score.details, "scripted": True})
    return score


async def form_record(evidence: Evidence, item: Item, dataset: Dataset) -> ScoreRecord | None:
    """Whether the answer has the form that was asked for, where a form was asked for."""
    wanted = item.response_format or dataset.response_format
    if wanted in (None, "text"):
        return None
    from tui_evals.evaluators.structured import JsonSchema, JsonValid  # which import what validates schemas

    if isinstance(wanted, dict):
        schema = wanted.get("schema", wanted) if "type" not in wanted or wanted["type"] == "json_schema" else wanted
        evaluator: JsonValid | JsonSchema = JsonSchema(JsonSchema.Options.model_validate({"schema": schema}))
    else:
        evaluator = JsonValid()
    score = await evaluate(evaluator, evidence)
    return _record(Assigned(FORMAT_KEY, evaluator, 0.0), score)


def _with_parts(record: ScoreRecord) -> Iterator[ScoreRecord]:
    """A record, then those of its named parts, as its details have them."""
    yield record
    parts = record.details.get(_PARTS)
    for name, part in parts.items() if isinstance(parts, dict) else ():
        yield replace(record, key=f"{record.key}.{name}", **part)


_PARTS = "parts"


def _record(assigned: Assigned, score: Score) -> ScoreRecord:
    if score.parts:
        fields = ("score", "result", "threshold", "label", "reason", "details")
        parts = {name: {each: getattr(part, each) for each in fields} for name, part in score.parts.items()}
        score = replace(score, details={**score.details, _PARTS: parts}, parts={})
    return ScoreRecord(
        key=assigned.key,
        evaluator=assigned.evaluator.name,
        score=score.score,
        result=score.result,
        threshold=score.threshold,
        label=score.label,
        reason=score.reason,
        details=score.details,
        weight=assigned.weight,
        measure=score.measure,
    )


Column = tuple[int, int]
"""A prompt and a target, by position."""


def column_scores(
    rows: Iterable[AnswerRow], scores: Mapping[int, Sequence[ScoreRecord]], items: Sequence[Mapping[str, Any]]
) -> dict[Column, float | None]:
    """The score of each prompt × target, 0 to 100; None if nothing was judged."""
    return {column: weighted_mean(weighed) for column, weighed in item_scores(rows, scores, items).items()}


def item_scores(
    rows: Iterable[AnswerRow],
    scores: Mapping[int, Sequence[ScoreRecord]],
    items: Sequence[Mapping[str, Any]],
    assumed: Mapping[int, float] = MappingProxyType({}),
) -> dict[Column, list[tuple[float | None, float]]]:
    """The scores of the items of each prompt × target with their weights; conversations may have `assumed` ones."""
    pooled: dict[tuple[Column, int, int], list[tuple[float, float]]] = {}
    for row in rows:
        weighed = pooled.setdefault(((row.prompt, row.target), row.item, row.repeat), [])
        given = assumed.get(row.cell)
        weighed += judged_parts(scores.get(row.id, ())) if given is None else [(given, 1.0)]
    by_item: dict[tuple[Column, int], list[float | None]] = {}
    for (column, item, _), parts in pooled.items():
        by_item.setdefault((column, item), []).append(weighted_mean(parts))
    columns: dict[Column, list[tuple[float | None, float]]] = {}
    for (column, item), repeats in by_item.items():
        known = [(score, 1.0) for score in repeats]
        weight = items[item].get("weight", 1.0)
        columns.setdefault(column, []).append((weighted_mean(known), float(weight)))
    return dict(sorted(columns.items()))


def judged_parts(records: Sequence[ScoreRecord | Mark]) -> list[tuple[float, float]]:
    """The result and the weight of each judged evaluator; an answer in the wrong form earns nothing."""
    wrong = any(record.key == FORMAT_KEY and record.result == "fail" for record in records)
    judged = [record for record in records if record.result in ("pass", "fail")]
    if wrong and all(record.key == FORMAT_KEY for record in judged):
        return [(0.0, 1.0)]
    return [(100.0 if record.result == "pass" and not wrong else 0.0, record.weight) for record in judged]
