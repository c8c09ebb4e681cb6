"""What is wrong with the evaluators that a project brings, found by reading them, at the places that name them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tui_evals.datasets.document import Document
from tui_evals.datasets.layout import Path
from tui_evals.datasets.problems import Problem
from tui_evals.datasets.validate import with_lines
from tui_evals.evaluators.custom import CustomEvaluator
from tui_evals.evaluators.registry import Registry


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
