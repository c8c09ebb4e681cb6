"""Problems of a dataset, as sentences a person can act on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tui_evals.text.safe import safe_line

from .layout import Path


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to fix, with its path in the document and its line where that is known."""

    message: str
    path: Path = ()
    line: int | None = None
    severity: Literal["error", "warning"] = "error"

    @property
    def where(self) -> str:
        """The path as people write it: items[3].turns[0]."""
        return path_text(self.path)

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.path else self.message


class LineError(ValueError):
    """A line of a CSV or JSONL file cannot be read; `line` says which."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


class DatasetError(Exception):
    """A file that cannot be used as a dataset."""

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__("\n".join(problem_with_place(source, problem) for problem in self.problems))


def problem_with_place(source: str, problem: Problem) -> str:
    """The problem with its file and line before it."""
    name = safe_line(source)  # whoever makes a file may put line breaks into its name
    return f"{name}: {problem}" if problem.line is None else f"{name}:{problem.line}: {problem}"


def path_text(path: Path) -> str:
    """A path as people write it: items[3].turns[0].prompt."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")


def place_in_words(path: Path) -> str:
    """A path in the words of the workbench, which counts from 1: item 3, turn 1, prompt."""
    units = {"items": "item", "turns": "turn"}
    words: list[str] = []
    for number, part in enumerate(path):
        before = path[number - 1] if number else None
        if isinstance(part, int) and before in units:
            words[-1] = f"{units[str(before)]} {part + 1}"
        elif isinstance(part, int):
            words[-1] += f"[{part}]"
        else:
            words.append(part)
    return ", ".join(words) or "the dataset"
