"""The plan of a run: dataset × prompts × targets × repeats as cells, and the evaluators of each answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from tui_evals.datasets.item_names import names_in_run, repeated_sentence
from tui_evals.datasets.model import Dataset, Item, Turn
from tui_evals.datasets.resolve import EffectiveEvaluator, resolve_evaluators
from tui_evals.datasets.validate import Rubric
from tui_evals.evaluators.base import EMBEDDER, Ask, Evaluator
from tui_evals.evaluators.registry import Registry, UnknownEvaluator
from tui_evals.light_records import dataclass
from tui_evals.runs.errors import CannotPlan, MissingEmbedder, MissingJudge
from tui_evals.runs.prompting import PromptUnderTest, of_dataset
from tui_evals.store.records import PlannedAnswer
from tui_evals.targets.base import TargetConfig


@dataclass(frozen=True, slots=True)
class Assigned:
    """One evaluator for one unit: its key in the dataset, and its weight."""

    key: str
    evaluator: Evaluator
    weight: float


@dataclass(frozen=True)
class Plan:
    """A dataset with everything that is asked of it; made once, and again from the store when a run is resumed."""

    dataset: Dataset
    targets: tuple[TargetConfig, ...]
    registry: Registry
    judge: TargetConfig | None = None
    without_judges: bool = False
    prompts: tuple[PromptUnderTest, ...] = ()
    repeats: int = 1
    only: frozenset[int] | None = None
    rubric: Rubric = "strict"
    """The rubric of rating levels for options that do not set one."""
    embedder: TargetConfig | None = None
    """The target of kind embedding, where an evaluator needs the run's own."""
    only_judging: bool = False
    """Whether no target is asked: existing answers are judged again."""

    @cached_property
    def asked_prompts(self) -> tuple[PromptUnderTest, ...]:
        """The prompts under test: those named, else the dataset's own."""
        return self.prompts or (of_dataset(self.dataset),)

    def name_of(self, number: int) -> str:
        """How an item is named in the run."""
        return self._names[number]

    @cached_property
    def _names(self) -> Sequence[str]:
        return item_names(self.dataset)

    def repeats_of(self, item: Item) -> int:
        """How often an item is asked: once for each of its questions, or its own number, the dataset's or the run's."""
        return repeats_of(item, self.dataset, self.repeats)

    def given_answer(self, item: Item) -> str | None:
        """The answer that the sample of an imported eval contains, so that no target is asked; None if it has none."""
        return item.response if item.testId in self._given else None

    @cached_property
    def _given(self) -> frozenset[object]:
        origin = (self.dataset.extensions or {}).get("openai_evals")
        given = origin.get("given") if isinstance(origin, Mapping) else None
        return frozenset(name for name in given if isinstance(name, str)) if isinstance(given, list) else frozenset()

    def answers(self) -> Iterator[PlannedAnswer]:
        """Every answer of the run, the turns of a cell together, prompts and targets of an item together."""
        columns = len(self.asked_prompts), len(self.targets)
        return planned_answers(self.dataset, self.asked_items, self.repeats, *columns)

    def resolved(self, item: Item, turn: int) -> tuple[EffectiveEvaluator, ...]:
        """The evaluators of a unit, as the dataset says."""
        return resolve_evaluators(self.dataset, item.units[turn])

    @cached_property
    def evaluator_sets(self) -> tuple[tuple[tuple[EffectiveEvaluator, ...], int], ...]:
        """Which evaluators judge together, and how many of the planned answers; most turns share one set."""
        columns = len(self.asked_prompts) * len(self.targets)
        units: dict[str, Item | Turn] = {}
        counts: dict[str, int] = {}
        for _, item in self.asked_items:
            answers = columns * self.repeats_of(item)
            for unit in item.units:
                mark = "" if unit.evaluators is None else json.dumps([unit.evaluators, unit.evaluators_mode])
                units.setdefault(mark, unit)
                counts[mark] = counts.get(mark, 0) + answers
        return tuple((resolve_evaluators(self.dataset, unit), counts[mark]) for mark, unit in units.items())

    def evaluators(self, item: Item, turn: int, ask_of: Callable[[str | None], Ask | None]) -> list[Assigned]:
        """The evaluators of a unit, made and given their judge."""
        return [self.assigned(entry, ask_of) for entry in self.resolved(item, turn)]

    def assigned(self, entry: EffectiveEvaluator, ask_of: Callable[[str | None], Ask | None]) -> Assigned:
        """One evaluator, created with its judge."""
        kind = self.registry.find(entry.evaluator)
        default = {"rubric": self.rubric} if kind.levelled else {}
        options: Any = kind.Options.model_validate({**default, **entry.settings})
        ask = ask_of(kind.asked_target(entry.settings)) if kind.judged or kind.may_ask else None
        return Assigned(entry.key, kind(options, ask), options.weight)

    def judges_thread(self, item: Item, turn: int, key: str) -> bool:
        """Whether an evaluator of whole conversations judges here: at the last turn that has it."""
        later = range(turn + 1, len(item.units))
        return not any(entry.key == key for number in later for entry in self.resolved(item, number))

    def asks_judge(self, entry: EffectiveEvaluator, item: Item, turn: int) -> bool:
        """Whether an evaluator of a unit has a judge asked about the answer to it."""
        kind = self.registry.find(entry.evaluator)
        return kind.is_judged(entry.settings) and (kind.scope != "thread" or self.judges_thread(item, turn, entry.key))

    def judges_groups(self) -> bool:
        """Whether some evaluator may judge the answers of an item together, which its options decide."""
        return any(self.registry.find(name).groups for name in self.evaluators_used())

    def evaluators_used(self) -> set[str]:
        """The names of all evaluators that the dataset mentions."""
        maps = [self.dataset.default_evaluators]
        maps += [unit.evaluators for item in self.dataset.items for unit in item.units]
        return {options.get("type", key) for evaluators in maps if evaluators for key, options in evaluators.items()}

    def cautions(self) -> tuple[str, ...]:
        """Warnings before the run begins: about its evaluators on this machine, and about testIds."""
        found = [self.registry.find(name).caution() for name in sorted(self.evaluators_used())]
        test_ids = [item.testId for item in self.dataset.items]
        found.append(repeated_sentence(test_ids, [number for number, _ in self.asked_items]))
        return tuple(dict.fromkeys(caution for caution in found if caution))

    def check_evaluators(self) -> None:
        """Raise CannotPlan if an evaluator of the dataset is missing, such as a deleted one of the project."""
        for name in sorted(self.evaluators_used()):
            try:
                self.registry.find(name)
            except UnknownEvaluator as problem:
                raise CannotPlan(
                    f"{problem}. A run that was judged by it needs it again: put its file back in custom-evaluators/ "
                    "or next to its prompt, or name other evaluators"
                ) from None

    @property
    def asked_items(self) -> Iterator[tuple[int, Item]]:
        """The items that are asked, with their positions."""
        return (
            (number, item) for number, item in enumerate(self.dataset.items) if self.only is None or number in self.only
        )

    @cached_property
    def users_needed(self) -> Mapping[str | None, str]:
        """Each judge that plays a simulated user (None is the run's own), with an item whose user that is."""
        users: dict[str | None, str] = {}
        for number, item in () if self.only_judging else self.asked_items:
            if item.user is not None:
                users.setdefault(item.user.target, f"the user of {self.name_of(number)}")
        return users

    @cached_property
    def judges_needed(self) -> Mapping[str | None, str]:
        """Each needed judge (None is the run's own), with an evaluator or a user that needs it."""
        needed = dict(self.users_needed)
        for entries, _ in () if self.without_judges else self.evaluator_sets:
            for entry in entries:
                kind = self.registry.find(entry.evaluator)
                if kind.is_judged(entry.settings):
                    needed.setdefault(kind.asked_target(entry.settings), entry.key)
        return needed

    def check_judges(self) -> None:
        """MissingJudge when an evaluator needs a judge and none is named."""
        if self.judge is None and (key := self.judges_needed.get(None)):
            raise MissingJudge(key, plays=None in self.users_needed)
        if self.embedder is None and (key := self.judges_needed.get(EMBEDDER)):
            raise MissingEmbedder(key)


def item_names(dataset: Dataset) -> list[str]:
    """How the items of a dataset are named in a run."""
    return names_in_run([item.testId for item in dataset.items])


def repeats_of(item: Item, dataset: Dataset, repeats: int) -> int:
    """How often an item is asked if other items are asked `repeats` times."""
    if item.other_questions:
        return 1 + len(item.other_questions)
    return item.repeats or dataset.repeats or repeats


def planned_answers(
    dataset: Dataset, items: Iterable[tuple[int, Item]], repeats: int, prompts: int, targets: int
) -> Iterator[PlannedAnswer]:
    """Every answer to some items, the turns of a cell together, prompts and targets of an item together."""
    cell, names = 0, item_names(dataset)
    for number, item in items:
        for repeat in range(repeats_of(item, dataset, repeats)):
            for prompt in range(prompts):
                for target in range(targets):
                    for turn in range(len(item.units)):
                        yield PlannedAnswer(
                            cell, number, turn, prompt, target, repeat, names[number], item.category or ""
                        )
                    cell += 1


def planned_before(
    config: Mapping[str, Any], document: Mapping[str, Any], prompts: int, targets: int
) -> list[PlannedAnswer]:
    """The answers of a stored run again, by its config and dataset; none where it was not planned here."""
    if "repeats" not in config or "only" not in config:
        return []
    dataset = Dataset.model_validate(document)
    only = None if config["only"] is None else set(config["only"])
    items = ((number, item) for number, item in enumerate(dataset.items) if only is None or number in only)
    return list(planned_answers(dataset, items, config["repeats"], prompts, targets))


def limited(plan_items: Sequence[int], limit: int | None, seed: int | None) -> list[int]:
    """The items of a run cut to a number of them: the first ones, or a seeded sample in the order of the dataset."""
    if limit is None or limit >= len(plan_items):
        return list(plan_items)
    if seed is None:
        return list(plan_items[:limit])
    import random

    return sorted(random.Random(seed).sample(list(plan_items), limit))
