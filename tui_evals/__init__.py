"""A terminal workbench, a command line and a library for evaluating language-model prompts and agents."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .version import __version__

if sys.platform == "win32":
    raise ImportError("tui_evals does not run on native Windows. Install and start it inside WSL.")

if TYPE_CHECKING:
    from tui_evals import bench as bench
    from tui_evals.api.battles import Battle, BattleDuel, BattleStopped
    from tui_evals.api.evaluating import aevaluate, estimate, evaluate, resume
    from tui_evals.api.generating import GeneratedTests, GenerationStopped, generate_tests, import_from
    from tui_evals.api.pytest_plugin import Recorder
    from tui_evals.api.recording import Case, cases
    from tui_evals.api.run import (
        EveryCallFailed,
        GateResults,
        GatesNotMet,
        Run,
        RunComparison,
        RunStopped,
        battle,
        estimate_rescore,
        gate,
        list_runs,
        rescore,
    )
    from tui_evals.api.watching import Answer
    from tui_evals.datasets.model import Dataset, Item, Turn
    from tui_evals.datasets.paths import DatasetError
    from tui_evals.evaluators.base import Evaluator, Evidence, Score
    from tui_evals.imports.base import ImportFailed, ImportResult
    from tui_evals.runs.errors import CannotPlan
    from tui_evals.runs.estimating import Estimate
    from tui_evals.targets.base import ConfigurationError, Reply, Request, Target, TargetError
    from tui_evals.targets.permissions import NotApproved

    ArthurError = bench.ArthurError
    ArthurInternalError = bench.ArthurInternalError
    ArthurUserError = bench.ArthurUserError
    Category = bench.Category
    NotFoundError = bench.NotFoundError
    Scorer = bench.Scorer
    ScoreResult = bench.ScoreResult
    TestRun = bench.TestRun
    TestSuite = bench.TestSuite
    UserTypeError = bench.UserTypeError
    UserValueError = bench.UserValueError

__all__ = [
    "Answer",
    "Battle",
    "BattleDuel",
    "BattleStopped",
    "CannotPlan",
    "Case",
    "ConfigurationError",
    "Dataset",
    "DatasetError",
    "Estimate",
    "Evaluator",
    "EveryCallFailed",
    "Evidence",
    "GateResults",
    "GatesNotMet",
    "GeneratedTests",
    "GenerationStopped",
    "ImportFailed",
    "ImportResult",
    "Item",
    "NotApproved",
    "Recorder",
    "Reply",
    "Request",
    "Run",
    "RunComparison",
    "RunStopped",
    "Score",
    "Target",
    "TargetError",
    "Turn",
    "__version__",
    "aevaluate",
    "battle",
    "cases",
    "estimate",
    "estimate_rescore",
    "evaluate",
    "gate",
    "generate_tests",
    "import_from",
    "list_runs",
    "rescore",
    "resume",
]

_MODULES = {
    "api.evaluating": ("evaluate", "aevaluate", "estimate", "resume"),
    "api.battles": ("Battle", "BattleDuel", "BattleStopped"),
    "api.generating": ("generate_tests", "GeneratedTests", "GenerationStopped", "import_from"),
    "api.pytest_plugin": ("Recorder",),
    "api.recording": ("Case", "cases"),
    "api.watching": ("Answer",),
    "api.run": (
        *("Run", "RunComparison", "RunStopped", "EveryCallFailed"),
        *("battle", "gate", "list_runs", "rescore", "estimate_rescore"),
    ),
    "datasets.model": ("Dataset", "Item", "Turn"),
    "datasets.paths": ("DatasetError",),
    "evaluators.base": ("Evaluator", "Evidence", "Score"),
    "imports.base": ("ImportResult", "ImportFailed"),
    "runs.estimating": ("Estimate",),
    "runs.errors": ("CannotPlan",),
    "runs.gates": ("GateResults", "GatesNotMet"),
    "targets.base": ("Target", "Request", "Reply", "TargetError", "ConfigurationError"),
    "targets.permissions": ("NotApproved",),
    "bench": (
        *("TestSuite", "TestRun", "Scorer", "ScoreResult", "Category"),
        *("ArthurError", "ArthurInternalError", "ArthurUserError", "NotFoundError", "UserTypeError", "UserValueError"),
    ),
}
"""The module of each name. Those of `bench` were once names of this module, and still work here."""


def __getattr__(name: str) -> Any:
    """The public names, imported on first use, so that the command line starts fast."""
    import importlib

    if name == "bench":
        return importlib.import_module(".bench", __name__)
    module = next((module for module, names in _MODULES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{module}", __name__), name)


def __dir__() -> list[str]:
    """The names of the library, whether they have been asked for or not."""
    return sorted([*__all__, "bench"])
