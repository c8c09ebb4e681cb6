"""Runs the command line in this process, as the console script does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tui_evals.cli.main import run


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


class Shell:
    """`shell("validate", file)` runs `tui-evals validate FILE`."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: object) -> Done:
        code = run([str(argument) for argument in arguments])
        captured = self.capsys.readouterr()
        return Done(code, captured.out, captured.err)


def asked(count: int, expected: str = "right") -> list[dict[str, Any]]:
    """Items of a dataset, each of which expects the same."""
    return [{"prompt": f"ask {n}", "expected_response": expected} for n in range(count)]
