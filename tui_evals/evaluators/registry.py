"""Every evaluator by name: the built-in families, installed packages, the project's own, and the prompt's metrics."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui_evals.text.nearest import did_you_mean

from .trust import Trust

if TYPE_CHECKING:
    from pydantic import BaseModel

    from .base import Ask, Evaluator

GROUP = "tui_evals.evaluators"
_MODULES = (
    "matching",
    "rubrics",
    "retrieval",
    "tools",
    "text",
    "references",
    "translate",
    "structured",
    "limits",
    "bertscore",
    "grading",
    "readability",
    "hedging",
    "specificity",
    "unit_tests",
    "modelgraded",
    "compliance",
)


class UnknownEvaluator(LookupError):
    """No evaluator has this name; the message suggests the nearest."""


@dataclass(frozen=True)
class Registry:
    """The evaluators of a project, and what kept others from being one."""

    by_name: Mapping[str, type[Evaluator]]
    own: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    def find(self, name: str) -> type[Evaluator]:
        """The evaluator of a name or alias."""
        if name not in self.by_name:
            hint = did_you_mean(name, self.by_name)
            raise UnknownEvaluator(f"unknown evaluator '{name}'{hint}; `tui-evals evaluators` lists all")
        return self.by_name[name]

    def build(self, name: str, options: Mapping[str, Any], ask: Ask | None = None) -> Evaluator:
        """An evaluator with checked options and, for one that asks, a judge."""
        kind = self.find(name)
        return kind(kind.Options.model_validate(dict(options)), ask)

    @property
    def catalogue(self) -> dict[str, type[BaseModel]]:
        """The model of the options of every evaluator, which datasets are checked against."""
        return {name: kind.Options for name, kind in self.by_name.items()}

    @property
    def kinds(self) -> tuple[type[Evaluator], ...]:
        """Each evaluator once, in the order of its family."""
        return tuple(dict.fromkeys(self.by_name.values()))


@cache
def built_in() -> Mapping[str, type[Evaluator]]:
    """The evaluators that come with tui_evals, by name and alias."""
    # Imported when they are wanted, as everything below: a project is shown before its evaluators are found.
    from .base import Evaluator

    modules = [importlib.import_module(f".{name}", __package__) for name in _MODULES]
    kinds = [
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Evaluator) and "name" in vars(kind)
        if kind.__module__ == module.__name__
    ]
    return {name: kind for kind in kinds for name in (kind.name, *kind.aliases)}


def load_registry(root: Path | None = None, trust: Trust | None = None, prompt_folder: Path | None = None) -> Registry:
    """The evaluators of the project at `root`, with the metrics beside its prompt under test."""
    from .custom import custom_evaluator, discover_custom_evaluators, name_problem

    trust = trust or Trust()
    installed = dict(built_in())
    problems: list[str] = []
    installed |= _installed_evaluators(problems)
    own: dict[str, type[Evaluator]] = {}
    for name, folder in discover_custom_evaluators(root).items() if root else ():
        if problem := name_problem(name, built_in()):
            problems.append(problem)
        else:
            own[name] = custom_evaluator(name, folder, trust)
    return with_prompt_metrics(Registry({**installed, **own}, tuple(own), tuple(problems)), prompt_folder)


def with_prompt_metrics(registry: Registry, prompt_folder: Path | None) -> Registry:
    """The registry with the metrics beside a prompt under test; a name that is known keeps its meaning."""
    from .compliance import discover_metrics, metric_evaluator

    metrics = discover_metrics(prompt_folder) if prompt_folder else {}
    added = {name: metric_evaluator(name, path) for name, path in metrics.items() if name not in registry.by_name}
    return replace(registry, by_name={**registry.by_name, **added}) if added else registry


def _installed_evaluators(problems: list[str]) -> dict[str, type[Evaluator]]:
    """Evaluators of installed packages; a package that cannot be loaded is a problem, not the end."""
    from tui_evals.plugins import installed_classes

    from .base import Evaluator

    offered = installed_classes(GROUP, Evaluator, "evaluator")
    problems += offered.problems
    added: dict[str, type[Evaluator]] = {}
    for point, kind in offered.by_name.items():
        if "name" not in vars(kind):
            place = f"{kind.__module__}:{kind.__qualname__}"
            problems.append(f"the installed evaluator '{point}' ({place}) is no Evaluator with a name")
        elif kind.name in built_in():
            problems.append(f"the installed evaluator '{kind.name}' has the name of a built-in one and is left out")
        else:
            added |= dict.fromkeys((kind.name, *kind.aliases), kind)
    return added
