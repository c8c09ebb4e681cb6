"""Datasets, targets and evaluators as a program hands them over: names, files, objects, functions."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from tui_evals.datasets.document import Document, load
from tui_evals.datasets.model import Dataset, Item
from tui_evals.datasets.paths import CURRENT_VERSION
from tui_evals.datasets.validate import document_of_data
from tui_evals.evaluators.base import Evaluator
from tui_evals.runs.approving import find_typed
from tui_evals.targets.base import ConfigurationError, Target, TargetConfig
from tui_evals.targets.config import Settings
from tui_evals.targets.function import given_function
from tui_evals.targets.sweep import base_name

from .functions import evaluator_of

Answers = Callable[..., Any]
"""A function that answers: it takes the prompt (or `messages`, or `request`) and returns text, now or when awaited."""
DatasetLike = str | Path | Dataset | Mapping[str, Any] | Sequence[Item | Mapping[str, Any]]
TargetLike = str | Target | Answers
EvaluatorsLike = str | Mapping[str, Any] | Sequence[Any]


def document_of(dataset: DatasetLike, root: Path, name: str | None = None) -> Document:
    """The dataset as a document; one that is no file is known by a name, in the folder of the project."""
    if isinstance(dataset, str | Path):
        return load(Path(dataset))
    data: dict[str, Any]
    if isinstance(dataset, Dataset):
        data = dataset.model_dump(exclude_unset=True)
    elif isinstance(dataset, Mapping):
        data = dict(dataset)
    else:
        data = {
            "items": [item.model_dump(exclude_unset=True) if isinstance(item, Item) else dict(item) for item in dataset]
        }
    data = {"schemaVersion": CURRENT_VERSION, **data}
    return document_of_data(data, root / (name or _name_of_list(data)).replace("/", "-"))


def _name_of_list(data: Mapping[str, Any]) -> str:
    """The name of a dataset made in code: that of its metadata, else one that follows from what it asks.

    So lists that ask other questions are other datasets, for trends and baselines, and an edited expectation is not.
    """
    metadata = data.get("metadata")
    if isinstance(metadata, Mapping) and isinstance(name := metadata.get("name"), str) and name.strip():
        return name.strip()
    items = data.get("items")
    asked = [
        [item.get(field) for field in _ASKED] if isinstance(item, Mapping) else None
        for item in (items if isinstance(items, list) else ())
    ]
    return f"list-{hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()[:8]}"


_ASKED = ("testId", "name", "prompt", "messages", "variables", "turns")


def target_list(target: TargetLike | Sequence[TargetLike] | None) -> list[TargetLike]:
    """The targets that were given, one or several or none."""
    if target is None:
        return []
    return list(target) if isinstance(target, Sequence) and not isinstance(target, str) else [target]


def configurations(targets: Sequence[TargetLike], settings: Settings) -> list[tuple[TargetConfig, Target | None]]:
    """Each target's configuration, and the target itself where it is a function at hand."""
    configured: list[tuple[TargetConfig, Target | None]] = []
    for target in targets:
        if isinstance(target, str):
            configured.append((find_typed(target, settings), None))
            continue
        name = str(getattr(target, "name", None) or getattr(target, "__name__", type(target).__name__))
        place = f"{getattr(target, '__module__', '')}:{getattr(target, '__qualname__', type(target).__qualname__)}"
        config = TargetConfig(name=name, model=f"python:{place}")
        configured.append((config, _target_of(target, config)))
    names = [config.name for config, _ in configured]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigurationError(f"two targets are called {twice}; give the functions names of their own")
    return configured


Configured = tuple[TargetConfig, Target | None]


def code_by_name(given: Iterable[Configured], asked: Iterable[TargetConfig]) -> dict[str, Target]:
    """Which code answers by each name, that of a target with other parameters too."""
    code = {config.name: target for config, target in given if target is not None}
    varied = {config.name: code[base] for config in asked if (base := base_name(config.name)) in code}
    return code | varied


def refuse_same_name(targets: Sequence[Configured], judges: Sequence[Configured], same: bool) -> None:
    """ConfigurationError where a function that answers and another that judges could not be told apart."""
    names = {config.name for config, ready in targets if ready is not None}
    if not same and (twice := next((config.name for config, _ in judges if config.name in names), None)):
        raise ConfigurationError(
            f"the target and the judge are both called {twice}; give the functions names of their own"
        )


def _target_of(target: Target | Answers, config: TargetConfig) -> Target:
    if not inspect.iscoroutinefunction(getattr(target, "ask", None)):
        return given_function(cast(Answers, target), config)
    if inspect.isclass(target):
        raise ConfigurationError(f"{config.name} is a class of targets; give an object of it, such as {config.name}()")
    if not inspect.iscoroutinefunction(getattr(target, "close", None)):
        raise ConfigurationError(f"the target {config.name} has no `async def close(self)`, which ends what it holds")
    return cast(Target, target)


def evaluators_and_code(evaluators: EvaluatorsLike) -> tuple[dict[str, Any], dict[str, type[Evaluator]]]:
    """The default evaluators of the dataset, and those of them that were given as code."""
    if isinstance(evaluators, str):
        evaluators = [word for part in evaluators.split(",") if (word := part.strip())]
    by_name = (
        evaluators if isinstance(evaluators, Mapping) else {_name_of(evaluator): evaluator for evaluator in evaluators}
    )
    chosen: dict[str, Any] = {}
    own: dict[str, type[Evaluator]] = {}
    for name, evaluator in by_name.items():
        if isinstance(evaluator, Mapping):
            chosen[name] = dict(evaluator)
        elif isinstance(evaluator, str):
            chosen[name] = {}
        elif inspect.isclass(evaluator) and issubclass(evaluator, Evaluator):
            own[name], chosen[name] = evaluator, {}
        else:
            own[name], chosen[name] = evaluator_of(name, evaluator), {}
    return chosen, own


def _name_of(evaluator: Any) -> str:
    if isinstance(evaluator, str):
        return evaluator
    if inspect.isroutine(evaluator) or inspect.isclass(evaluator):
        return str(getattr(evaluator, "name", None) or evaluator.__name__)
    name = getattr(evaluator, "name", None)
    return name if isinstance(name, str) and name.isidentifier() else type(evaluator).__name__
