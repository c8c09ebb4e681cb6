"""Every evaluator by name: built in, of packages, of the project, of the prompt; and which to propose for answers."""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui_evals.evaluators.libraries import is_library_metric
from tui_evals.evaluators.trust import Trust
from tui_evals.light_records import dataclass
from tui_evals.text.names import did_you_mean

if TYPE_CHECKING:
    from pydantic import BaseModel

    from tui_evals.evaluators.base import Ask, Evaluator


GROUP = "tui_evals.evaluators"
_LISTED_FIRST = ("references", "rubrics", "text", "agents", "tools", "trajectory", "retrieval", "structured", "limits")
"""The modules whose evaluators are listed before those of the others."""


@cache
def _modules() -> Mapping[str, str]:
    """The module of each name and alias, read from the class lines because importing all modules is slow."""
    modules: dict[str, str] = {}
    folder = os.path.dirname(__file__)
    found = sorted(file.removesuffix(".py") for file in os.listdir(folder) if file.endswith(".py"))
    for module in (*_LISTED_FIRST, *(module for module in found if module not in _LISTED_FIRST)):
        with open(os.path.join(folder, f"{module}.py"), "rb") as opened:
            source = opened.read()
        for rest in source.split(b'\n    name = "')[1:]:
            modules[rest[: rest.index(b'"')].decode()] = module
        for rest in source.split(b"\n    aliases = (")[1:]:
            modules |= {alias.decode(): module for alias in rest[: rest.index(b")")].split(b'"')[1::2]}
    return modules


class UnknownEvaluator(LookupError):
    """No evaluator has this name; the message suggests the nearest."""


@dataclass(frozen=True)
class Registry:
    """The evaluators of a project, and what kept others from being one."""

    by_name: Mapping[str, type[Evaluator]]
    own: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    root: Path | None = None
    """The project folder, from which metrics of installed libraries are found; None disables them."""

    def find(self, name: str) -> type[Evaluator]:
        """The evaluator of a name or alias, or the metric of a library."""
        if name not in self.by_name:
            if self.root is not None and is_library_metric(name):
                return _library_metric(name, self.root)
            hint = did_you_mean(name, self.by_name)
            raise UnknownEvaluator(f"unknown evaluator '{name}'{hint}; `tui-evals evaluators` lists all")
        return self.by_name[name]

    def build(self, name: str, options: Mapping[str, Any], ask: Ask | None = None) -> Evaluator:
        """An evaluator with checked options, and with a judge if it asks one."""
        kind = self.find(name)
        return kind(kind.Options.model_validate(dict(options)), ask)

    @cached_property
    def catalogue(self) -> Mapping[str, type[BaseModel]]:
        """The model of the options of every evaluator, which datasets are checked against."""
        return _Options(self.by_name, self.root)

    @property
    def kinds(self) -> tuple[type[Evaluator], ...]:
        """Each evaluator once, in the order of its family."""
        return tuple(dict.fromkeys(self.by_name.values()))


def engine_evaluators() -> frozenset[str]:
    """The evaluators that run JavaScript of the dataset."""
    return frozenset(name for name, module in _modules().items() if module == "javascript")


_COMPOSED = frozenset(("AtLeast", "Transformed"))
"""The evaluators made of others, which may run code."""


def only_asks(kind: type[Evaluator]) -> bool:
    """Whether an evaluator asks a judge and does nothing else: it runs no code of a project and loads no model.

    The questions of such an evaluator can be counted before the run.
    """
    package, _, module = kind.__module__.rpartition(".")
    is_ours = package == __package__ and module in _modules().values()
    return is_ours and (kind.judged or kind.may_ask) and kind.name not in _COMPOSED


class _Kinds(Mapping[str, "type[Evaluator]"]):
    """The evaluators that come with tui_evals and those that a project adds, by name and alias."""

    def __init__(self, added: Mapping[str, type[Evaluator]]) -> None:
        self._added = added

    def __getitem__(self, name: str) -> type[Evaluator]:
        return self._added[name] if name in self._added else family(_modules()[name])[name]

    def __contains__(self, name: object) -> bool:
        return name in _modules() or name in self._added

    def __iter__(self) -> Iterator[str]:
        return iter({**_modules(), **self._added})

    def __len__(self) -> int:
        return len({**_modules(), **self._added})


@cache
def family(name: str) -> Mapping[str, type[Evaluator]]:
    """The evaluators of a module of this package, by name and alias."""
    from .base import Evaluator  # imported when needed: a project is shown before its evaluators are found

    module = importlib.import_module(f".{name}", __package__)
    kinds = [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Evaluator) and "name" in vars(kind)
        if kind.__module__ == module.__name__
    ]
    return {name: kind for kind in kinds for name in (kind.name, *kind.aliases)}


class _Options(Mapping[str, "type[BaseModel]"]):
    """The model of the options of each evaluator."""

    def __init__(self, kinds: Mapping[str, type[Evaluator]], root: Path | None) -> None:
        self._kinds, self._root = kinds, root

    def __getitem__(self, name: str) -> type[BaseModel]:
        if name not in self._kinds and self._root is not None and is_library_metric(name):
            return _library_metric(name, self._root).Options
        return self._kinds[name].Options

    def __contains__(self, name: object) -> bool:
        return name in self._kinds or (self._root is not None and is_library_metric(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)


def _library_metric(name: str, root: Path) -> type[Evaluator]:
    from .libraries.metric import library_metric  # imported when needed, which is seldom

    return library_metric(name, root)


@cache
def built_in() -> Mapping[str, type[Evaluator]]:
    """The evaluators of tui_evals, by name and alias; each family is imported on first use."""
    return _Kinds({})


def load_registry(root: Path | None = None, trust: Trust | None = None, prompt_folder: Path | None = None) -> Registry:
    """The evaluators of the project at `root`, with the metrics next to its prompt under test."""
    from .custom import custom_evaluator, discover_custom_evaluators, name_problem

    trust = trust or Trust()
    problems: list[str] = []
    installed = _installed_evaluators(problems)
    own: dict[str, type[Evaluator]] = {}
    for name, folder in discover_custom_evaluators(root).items() if root else ():
        if problem := name_problem(name, built_in()):
            problems.append(problem)
        else:
            own[name] = custom_evaluator(name, folder, trust)
    kinds = _Kinds({**installed, **own}) if installed or own else built_in()
    return with_prompt_metrics(Registry(kinds, tuple(own), tuple(problems), root), prompt_folder)


def with_prompt_metrics(registry: Registry, prompt_folder: Path | None) -> Registry:
    """The registry with the metrics next to a prompt under test; a name that is known keeps its meaning."""
    if prompt_folder is None:
        return registry
    from .compliance import discover_metrics, metric_evaluator

    metrics = discover_metrics(prompt_folder)
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


_SHORT = 40
_SLOW = 30_000
"""Milliseconds after which an answer is too slow for a first check."""
_NUMBERS = {"one": 1, "a single": 1, "two": 2, "three": 3, "five": 5, "ten": 10}
_LENGTH = re.compile(
    r"(?:(?:at most|no more than|under|up to|maximum(?: of)?|max\.?|within|in) (?P<most>\d+)|"
    r"(?P<few>one|a single|two|three|five|ten)|(?P<or_less>\d+)) (?P<unit>words?|characters?|lines?)"
    r"(?P<less> or (?:less|fewer))?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Proposal:
    """An evaluator with its options, and why it fits."""

    name: str
    why: str
    options: Mapping[str, Any] = field(default_factory=dict)


def proposals(expected: Sequence[str], prompt: str = "") -> list[Proposal]:
    """Evaluators for answers that should be as `expected`, which may hold none, and for the demands of a prompt."""
    found = [_of_answers([text for text in expected if text.strip()])]
    if re.search(r"\bJSON\b", prompt) and found[0].name != "JsonMatch":
        found.append(Proposal("JsonValid", "the prompt asks for JSON"))
    if (limit := _limit_in(prompt)) is not None:
        most, unit = limit
        found.append(Proposal("Length", f"the prompt allows {most} {unit}", {"unit": unit, "at_most": most}))
    return [*found, Proposal("Latency", f"an answer within {_SLOW // 1000} s", {"threshold": _SLOW})]


def _of_answers(expected: Sequence[str]) -> Proposal:
    if not expected:
        return Proposal("Regex", "no answer is expected, so any text passes", {"pattern": r"\S"})
    if all(_is_json(text) for text in expected):
        return Proposal("JsonMatch", "the expected answers are JSON")
    if all(len(text) <= _SHORT for text in expected):
        return Proposal("ExactMatch", "the expected answers are short, so each has to be in the answer word for word")
    return Proposal("PartialMatch", "the expected answers are sentences, so half of their words have to agree")


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | list)
    except ValueError:
        return False


def _limit_in(prompt: str) -> tuple[int, str] | None:
    """The largest count that a prompt allows, and its unit."""
    for match in _LENGTH.finditer(prompt):
        unit = match["unit"].lower().rstrip("s") + "s"
        if match["most"]:
            return int(match["most"]), unit
        if match["or_less"] and match["less"]:
            return int(match["or_less"]), unit
        # "in one word" limits; "two lines" alone may describe the input.
        if match["few"] and re.search(r"\b(?:in|with|only|exactly)\s+$", prompt[: match.start()], re.IGNORECASE):
            return _NUMBERS[match["few"].lower()], unit
    return None
