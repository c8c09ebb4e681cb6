"""What is wrong with the evaluators of a plan, found before it runs: options, libraries, permissions, files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from inspect import get_annotations
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo

from tui_evals.datasets.attachments import attachment_problems
from tui_evals.datasets.document import Document
from tui_evals.datasets.paths import Path, Problem
from tui_evals.datasets.validate import ValidationReport, with_lines
from tui_evals.evaluators.base import Evaluator
from tui_evals.evaluators.custom import CustomEvaluator
from tui_evals.evaluators.registry import Registry
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.plan import Plan
from tui_evals.runs.prompting import unfilled_items

OptionKind = Literal["text", "choice", "yes", "whole", "number", "json"]
_KINDS: Mapping[object, OptionKind] = {bool: "yes", int: "whole", float: "number", str: "text"}


@dataclass(frozen=True, slots=True)
class Option:
    """One option: the name it is written with, every spelling a file may use, and what its model says of it."""

    name: str
    spellings: tuple[str, ...]
    field: FieldInfo


def options_of(kind: type[Evaluator]) -> tuple[Option, ...]:
    """The options of an evaluator that a dataset may give: those it needs, its own, those it shares with others."""
    named = kind.Options.model_fields.items()
    return tuple(_option(*one) for one in sorted(named, key=lambda one: _rank(kind.Options, *one)))


def _rank(model: type[BaseModel], name: str, field: FieldInfo) -> int:
    """The place of an option in the form: the further up it is inherited from, the later it comes."""
    if field.is_required():
        return -1
    return next(number for number, base in enumerate(model.__mro__) if name in get_annotations(base))


def _option(name: str, field: FieldInfo) -> Option:
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        spellings = [choice for choice in alias.choices if isinstance(choice, str)]
    else:
        spellings = [name, alias] if isinstance(alias, str) else [name]
    return Option(spellings[0], tuple(dict.fromkeys((*spellings, name))), field)


def option_kind(annotation: object) -> tuple[OptionKind, tuple[str, ...]]:
    """How an option is typed, and what there is to choose from."""
    plain_type = without_none(annotation)
    if get_origin(plain_type) is Literal and all(isinstance(choice, str) for choice in get_args(plain_type)):
        return "choice", get_args(plain_type)
    return _KINDS.get(plain_type, "json"), ()


def without_none(annotation: object) -> object:
    """The type of a value that is given."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return without_none(get_args(annotation)[0])
    if origin in (Union, UnionType):
        rest = [branch for branch in get_args(annotation) if branch is not NoneType]
        return without_none(rest[0]) if len(rest) == 1 else annotation
    return annotation


@dataclass(frozen=True, slots=True)
class Obstacle:
    """An evaluator that can judge nothing here, why and what mends it, and how many answers it was to judge."""

    key: str
    reason: str
    answers: int

    @property
    def sentence(self) -> str:
        """The same in words."""
        count = f"{self.answers:,} {'answer' if self.answers == 1 else 'answers'}"
        return f"{self.key} cannot judge any of {count}: {self.reason}"


class Unjudgeable(CannotPlan):
    """Some evaluators of a run can judge nothing here."""

    def __init__(self, obstacles: tuple[Obstacle, ...]) -> None:
        self.obstacles = obstacles
        self.reason = ". ".join(obstacle.sentence for obstacle in obstacles)
        way_out = "Fix that, choose other evaluators, or pass --allow-unjudged to run without their verdicts"
        super().__init__(f"{self.reason}. {way_out}", "arguments")


def obstacles_of(plan: Plan) -> tuple[Obstacle, ...]:
    """Every evaluator of a plan that can judge nothing here; those that are left out with the judges are none."""
    counts: dict[tuple[str, str], int] = {}
    reasons: dict[tuple[str, str], str | None] = {}
    for entries, answers in plan.evaluator_sets:
        for entry in entries:
            mark = entry.key, json.dumps([entry.evaluator, entry.settings], sort_keys=True, default=str)
            if mark not in counts:
                kind = plan.registry.find(entry.evaluator)
                left_out = plan.without_judges and kind.judged
                made = None if left_out else kind(kind.Options.model_validate(entry.settings))
                reasons[mark] = made.obstacle() if made is not None else None
            counts[mark] = counts.get(mark, 0) + answers
    by_key: dict[tuple[str, str], int] = {}
    for mark, reason in reasons.items():
        if reason is not None:
            by_key[mark[0], reason] = by_key.get((mark[0], reason), 0) + counts[mark]
    return tuple(Obstacle(key, reason, count) for (key, reason), count in by_key.items())


def check_judgeable(plan: Plan) -> None:
    """Unjudgeable where an evaluator of the plan can judge nothing here."""
    if obstacles := obstacles_of(plan):
        raise Unjudgeable(obstacles)


def with_run_problems(report: ValidationReport, document: Document, registry: Registry) -> ValidationReport:
    """A report with what else would stop a run: prompts, attachments and the project's code."""
    if report.dataset is None:
        return report
    report = report.with_problems([*unfilled_items(document, report.dataset), *attachment_problems(document)])
    return report.with_problems(own_code_problems(document, registry))


def own_code_problems(document: Document, registry: Registry) -> list[Problem]:
    """The evaluators of the project that a dataset names and that cannot be called, each at its first place."""
    found: dict[str, Problem] = {}
    if not registry.own:
        return []
    for path, name in _named(document.data):
        if name in registry.own and name not in found:
            kind = registry.by_name[name]
            problem = kind.code_problem() if issubclass(kind, CustomEvaluator) else None
            if problem is not None:
                found[name] = Problem(problem, path)
    return with_lines(found.values(), document)


def _named(data: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """The evaluators that a valid dataset names, with their places."""
    yield from _of(data.get("default_evaluators"), ("default_evaluators",))
    for number, item in enumerate(data["items"]):
        yield from _of(item.get("evaluators"), ("items", number, "evaluators"))
        for turn_number, turn in enumerate(item.get("turns") or ()):
            yield from _of(turn.get("evaluators"), ("items", number, "turns", turn_number, "evaluators"))


def _of(evaluators: Mapping[str, Any] | None, path: Path) -> Iterator[tuple[Path, str]]:
    for key, options in (evaluators or {}).items():
        yield (*path, key), options.get("type", key)
