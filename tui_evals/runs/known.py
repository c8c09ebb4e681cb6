"""Which answers of a plan the cache has already, found before anybody is asked or anything is opened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from tui_evals.datasets.model import Item
from tui_evals.store.reader import Reader
from tui_evals.store.records import PlannedAnswer
from tui_evals.targets.base import TargetConfig
from tui_evals.targets.opening import Later, identity, open_target, target_kind
from tui_evals.text.box import TemplateError

from .asking import ConversationKeys, PricedTarget
from .budget import Budget
from .executors.base import Cell
from .executors.local import request_for_turn
from .limits import room_of
from .opening import items_of
from .plan import KnownTurns, Plan
from .project import Project
from .prompting import assistant, opening_of, question_of
from .toolbox import has_tools

_MOST = 10_000
"""Answers that are looked up, so that the price of a large run is known within a second."""


@dataclass(slots=True)
class Conversation:
    """A planned conversation as far as its answers are known."""

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

    def known(self, plan: Plan, reader: Reader, most: int) -> int:
        """How many answers the cache has from the first on; so many are looked up at most.

        Where one gave a session, the cache has all answers after it too, or else that one counts as unknown.
        """
        turn, units, asked_from = 0, self.item.units, len(self.item.units)
        while turn < min(most, len(units)) and (kept := reader.cache_get(self.key(plan, turn))) is not None:
            if kept.answer.session is not None:
                asked_from = min(turn, asked_from)
            turn += 1
            if turn < len(units):
                self.messages += [assistant(kept.answer.text, kept.answer.tool_calls), *question_of(units[turn])]
        return turn if turn == len(units) else min(turn, asked_from)


def conversations(plan: Plan, project: Project, max_cost: float | None) -> Iterator[Conversation]:
    """The conversations of a plan whose answers a run would keep, each at its first question."""
    targets = [_unopened(config, project, max_cost) for config in plan.targets]
    for planned in plan.answers():
        if planned.turn or not targets[planned.target].cacheable:
            continue
        item = plan.dataset.items[planned.item].asking(planned.repeat)
        try:
            opening = opening_of(plan.dataset, item, plan.asked_prompts[planned.prompt])
        except TemplateError:  # nobody is asked what cannot be put into words
            continue
        yield Conversation(planned, item, targets[planned.target], [*opening, *question_of(item.units[0])])


def _unopened(config: TargetConfig, project: Project, max_cost: float | None) -> PricedTarget:
    """A target as far as the keys of its answers need it."""
    target = Later(lambda: open_target(config, project.environment, project.root, items_of))
    return PricedTarget(
        config,
        target,
        identity(config, project.environment),
        None,
        Budget(max_cost),
        room_of(config),
        cacheable=target_kind(config).asks_model,
    )


def known_turns(plan: Plan, project: Project, reader: Reader, max_cost: float | None, most: int = _MOST) -> KnownTurns:
    """How many answers of each conversation the cache has, from its beginning on; so many are looked up at most."""
    # How far the cache knows the steps of an agent, or what a user says, is found by taking them.
    found = conversations(plan, project, max_cost)
    more = (one for one in found if one.item.user is None and not has_tools(plan.dataset, one.item, one.target.config))
    begun = [(one.key(plan), one) for one in islice(more, most)]
    complete, left = next(more, None) is None, most - len(begun)
    cached = reader.cached_keys([key for key, _ in begun])
    turns: dict[int, int] = {}
    for key, one in begun:
        if key not in cached:
            continue
        known = 1
        if len(one.item.units) > 1:
            known = one.known(plan, reader, left)
            left -= known
            complete = complete and left > 0
        turns[one.planned.cell] = known
    return KnownTurns(turns, complete)
