"""Answers and verdicts of a plan that the cache already has, found before anything is asked."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextvars import copy_context
from dataclasses import field, replace
from itertools import islice
from typing import Any, TypeVar

from tui_evals.datasets.model import Item
from tui_evals.datasets.resolve import EffectiveEvaluator
from tui_evals.evaluators.base import EMBEDDER, Ask, CannotJudge, Evidence, Question, evaluate, note_choices
from tui_evals.evaluators.judging import whole_reply
from tui_evals.evaluators.registry import only_asks
from tui_evals.light_records import dataclass
from tui_evals.runs.asking import ConversationKeys, PricedTarget, kept_choices, kept_key
from tui_evals.runs.executors import Cell
from tui_evals.runs.executors.local import request_for_turn
from tui_evals.runs.judges import judge_configs, numbered, request_for, unopened
from tui_evals.runs.plan import Assigned, Plan
from tui_evals.runs.project import Project
from tui_evals.runs.prompting import Chat, messages_of_answer, opening_of, question_of
from tui_evals.runs.tools import has_tools
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, PlannedAnswer
from tui_evals.targets.base import Request
from tui_evals.text.templates import TemplateError

_MOST = 10_000
"""Answers that are looked up, so that the price of a large run is known within a second."""


@dataclass(frozen=True, slots=True)
class KnownTurns:
    """The cached turns of a plan: how many from the first one on, by the number of the cell."""

    turns: Mapping[int, int] = field(default_factory=dict)
    complete: bool = True
    """Whether every cell was looked up; in a large plan only the first ones are."""


@dataclass(slots=True)
class PlannedConversation:
    """A planned conversation with its known answers."""

    planned: PlannedAnswer
    item: Item
    target: PricedTarget
    messages: list[Mapping[str, object]]
    keys: ConversationKeys = field(default_factory=ConversationKeys)

    def key(self, plan: Plan, turn: int = 0) -> str:
        """The key under which the cache keeps the answer to a turn."""
        at = self.planned
        cell = Cell(self.item, at.name, at.item, at.prompt, at.target, at.repeat, (), {}, frozenset())
        request = request_for_turn(plan.dataset, cell, turn, tuple(self.messages), self.target.with_params({}))
        return self.keys.key(self.target.identity, request)

    def answers(self, plan: Plan, reader: Reader, most: int) -> list[tuple[AnswerRecord, Chat]]:
        """The cached answers from the first turn on, at most `most`, each with its chat.

        After an answer with a session, either all answers are cached or that answer counts as unknown.
        """
        found: list[tuple[AnswerRecord, Chat]] = []
        units, asked_from = self.item.units, len(self.item.units)
        while len(found) < min(most, len(units)) and (kept := reader.cache_get(self.key(plan, len(found)))) is not None:
            if kept.answer.session is not None:
                asked_from = min(len(found), asked_from)
            found.append((kept.answer, tuple(self.messages)))
            if len(found) < len(units):
                self.messages += [*messages_of_answer(kept.answer), *question_of(units[len(found)])]
        return found if len(found) == len(units) else found[:asked_from]


def conversations(plan: Plan, project: Project, max_cost: float | None) -> Iterator[PlannedConversation]:
    """The conversations of a plan whose answers a run would keep, each at its first question."""
    targets = [unopened(config, project.environment, project.root, max_cost) for config in plan.targets]
    for planned in plan.answers():
        if planned.turn or not targets[planned.target].cacheable:
            continue
        item = plan.dataset.items[planned.item].asking(planned.repeat)
        try:
            opening = opening_of(plan.dataset, item, plan.asked_prompts[planned.prompt])
        except TemplateError:  # a question that cannot be rendered is not asked
            continue
        yield PlannedConversation(planned, item, targets[planned.target], [*opening])


def known_turns(
    plan: Plan,
    project: Project,
    reader: Reader,
    max_cost: float | None,
    most: int = _MOST,
    note: Callable[[PlannedAnswer, AnswerRecord, Chat], bool] | None = None,
) -> KnownTurns:
    """How many turns of each conversation are cached, counted from the first; looks up at most `most` answers.

    Calls `note` with each cached answer and its turn, until it returns False.
    """
    # The cached steps of an agent or of a simulated user are found only by replaying them.
    found = conversations(plan, project, max_cost)
    more = (one for one in found if one.item.user is None and not has_tools(plan.dataset, one.item, one.target.config))
    begun = [(one.key(plan), one) for one in islice(more, most)]
    complete, left = next(more, None) is None, most - len(begun)
    cached = reader.cached_keys([key for key, _ in begun])
    turns: dict[int, int] = {}
    listens = note is not None
    for key, one in begun:
        if key not in cached:
            continue
        several, answers = len(one.item.units) > 1, list[tuple[AnswerRecord, Chat]]()
        if several or listens:
            answers = one.answers(plan, reader, left if several else 1)
        if several:
            left -= len(answers)
            complete = complete and left > 0
        turns[one.planned.cell] = len(answers) if several else 1
        for turn, (record, chat) in enumerate(answers):
            if note is not None and listens:
                listens = note(replace(one.planned, turn=turn), record, chat)
    return KnownTurns(turns, complete)


T = TypeVar("T")
MOST_TRIED = 2_000
"""Evaluators tried for an estimate, which takes about two seconds."""


class _NotKnown(CannotJudge):
    """The cache has no reply to a question."""

    def __init__(self) -> None:
        super().__init__("notAsked", "the cache has no reply to this question")


@dataclass(frozen=True, slots=True)
class Tried:
    """The result of judging an answer without a judge."""

    asks: bool
    """Whether a judge has to be asked."""
    rubric: str | None
    """The rubrics of its questions, as a record would keep them; None where it asks none."""


class Foresight:
    """Tries evaluators on answers with replies from the cache of `reader`, or without replies if it is None."""

    def __init__(self, plan: Plan, project: Project, reader: Reader | None, most: int = MOST_TRIED) -> None:
        self._plan = plan
        self._reader = reader
        self._left = most
        self._judges: Mapping[str | None, PricedTarget] = {
            name: unopened(config, project.environment, project.root, None)
            for name, config in judge_configs(plan, project.settings).items()
        }
        self._made: dict[tuple[str, str], Assigned] = {}
        self._missed = False

    @property
    def complete(self) -> bool:
        """Whether all evaluators were tried that can be; in a large run only the first ones are."""
        return self._left >= 0

    def asking(self, item: Item, turn: int, evidence: Evidence) -> list[EffectiveEvaluator]:
        """The evaluators of a turn that have to ask a judge, as far as known."""
        entries = [entry for entry in self._plan.resolved(item, turn) if self._plan.asks_judge(entry, item, turn)]
        return [entry for entry in entries if self.asks(entry, evidence)]

    def asks(self, entry: EffectiveEvaluator, evidence: Evidence) -> bool:
        """Whether a judge has to be asked for an evaluator; True if that is unknown before."""
        self._left -= 1
        tried = self.tried(entry, evidence) if self._left >= 0 else None
        return tried is None or tried.asks

    def tried(self, entry: EffectiveEvaluator, evidence: Evidence) -> Tried | None:
        """The result of an evaluator without its judge; None for one that may do more than ask."""
        if not only_asks(self._plan.registry.find(entry.evaluator)):
            return None
        self._missed = False
        score = _run_now(evaluate(self.assigned(entry).evaluator, evidence))
        return None if score is None else Tried(self._missed, _text(score.details.get("rubric")))

    def assigned(self, entry: EffectiveEvaluator) -> Assigned:
        """An evaluator with a judge that only remembers."""
        mark = entry.key, repr(entry.options)
        if mark not in self._made:
            self._made[mark] = self._plan.assigned(entry, self._ask_of)
        return self._made[mark]

    def _ask_of(self, name: str | None) -> Ask | None:
        judge = self._judges.get(name)
        if judge is None:
            return None

        async def ask(question: Question) -> str:
            return self._recalled(judge, question)

        return ask

    def _recalled(self, judge: PricedTarget, question: Question) -> str:
        """The reply to a question as the cache has it."""
        if question.texts:
            embedder = judge if judge.config.kind == "embedding" else self._judges.get(EMBEDDER, judge)
            each = (request_for(Question(texts=(text,)), embedder.config) for text in question.texts)
            return "\n".join(self._cached(embedder, request).text or "" for request in each)
        record = self._cached(judge, numbered(judge, request_for(question, judge.config)))
        note_choices(kept_choices(record))
        return whole_reply(record.text or "", record.finish_reason, judge.config.name, question)

    def _cached(self, judge: PricedTarget, request: Request) -> AnswerRecord:
        looked_up = self._reader if judge.cacheable else None
        kept = None if looked_up is None else looked_up.cache_get(kept_key(judge, request))
        if kept is None:
            self._missed = True
            raise _NotKnown
        return kept.answer


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _run_now(work: Coroutine[Any, Any, T]) -> T | None:
    """The result of a coroutine that does not wait; closes it and returns None if it would wait."""
    try:
        copy_context().run(work.send, None)
    except StopIteration as done:
        value: T = done.value
        return value
    work.close()
    return None
