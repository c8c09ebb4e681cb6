"""Suites and runs as Arthur Bench has them: `tui-evals help bench` describes them with examples."""

from tui_evals.api.bench import TestRun, TestSuite
from tui_evals.api.bench_scorers import Category, Scorer, ScoreResult
from tui_evals.runs.suites import (
    ArthurError,
    ArthurInternalError,
    ArthurUserError,
    NotFoundError,
    UserTypeError,
    UserValueError,
)

__all__ = [
    "ArthurError",
    "ArthurInternalError",
    "ArthurUserError",
    "Category",
    "NotFoundError",
    "ScoreResult",
    "Scorer",
    "TestRun",
    "TestSuite",
    "UserTypeError",
    "UserValueError",
]
