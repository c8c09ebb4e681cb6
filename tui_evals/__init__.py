"""A terminal workbench, a command line and a library for evaluating language-model prompts and agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from tui_evals.api.bench import TestRun, TestSuite
    from tui_evals.api.bench_scorers import Category, Scorer, ScoreResult
    from tui_evals.api.evaluating import RunStopped, aevaluate, evaluate
    from tui_evals.api.results import Answer, Run
    from tui_evals.runs.suites.cases import (
        ArthurError,
        ArthurInternalError,
        ArthurUserError,
        NotFoundError,
        UserTypeError,
        UserValueError,
    )

__all__ = [
    "Answer",
    "ArthurError",
    "ArthurInternalError",
    "ArthurUserError",
    "Category",
    "NotFoundError",
    "Run",
    "RunStopped",
    "ScoreResult",
    "Scorer",
    "TestRun",
    "TestSuite",
    "UserTypeError",
    "UserValueError",
    "__version__",
    "aevaluate",
    "evaluate",
]

_PLACES = {
    "evaluate": "api.evaluating",
    "aevaluate": "api.evaluating",
    "RunStopped": "api.evaluating",
    "Run": "api.results",
    "Answer": "api.results",
    "TestSuite": "api.bench",
    "TestRun": "api.bench",
    "Scorer": "api.bench_scorers",
    "ScoreResult": "api.bench_scorers",
    "Category": "api.bench_scorers",
    "ArthurError": "runs.suites.cases",
    "ArthurInternalError": "runs.suites.cases",
    "ArthurUserError": "runs.suites.cases",
    "NotFoundError": "runs.suites.cases",
    "UserTypeError": "runs.suites.cases",
    "UserValueError": "runs.suites.cases",
}


def __getattr__(name: str) -> Any:
    """The library, imported when it is asked for, so that the command line starts fast."""
    if name not in _PLACES:
        raise AttributeError(f"module 'tui_evals' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f".{_PLACES[name]}", __name__), name)
