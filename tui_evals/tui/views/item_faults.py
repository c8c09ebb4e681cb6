"""What is wrong with a dataset, item or turn, sorted by what it is about, and as rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from tui_evals.datasets.layout import Path as Place
from tui_evals.datasets.problems import Problem, shown
from tui_evals.datasets.validate import Report
from tui_evals.tui.lines import Piece, Row, Style, row, wrapped
from tui_evals.tui.state.workspace import Workspace

_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Faults:
    """The problems of a unit: its own, those of its fields, and those of the units in it."""

    own: list[Problem] = field(default_factory=list)
    fields: dict[str, list[Problem]] = field(default_factory=dict)
    units: dict[Place, list[Problem]] = field(default_factory=dict)


def faults(workspace: Workspace) -> Faults:
    """What the last validation said about where one is, sorted by what it is about."""
    found, depth = Faults(), len(workspace.where)
    for problem in workspace.problems_at(workspace.where):
        rest = problem.path[depth:]
        if len(rest) > 1 and rest[0] in ("items", "turns"):
            unit = problem.path[: 4 if len(problem.path) > 3 and problem.path[2] == "turns" else 2]
            found.units.setdefault(unit, []).append(problem)
        elif rest:
            inner = f".{rest[1]}" if not depth and rest[0] == "metadata" and len(rest) > 1 else ""
            found.fields.setdefault(f"{rest[0]}{inner}", []).append(problem)
        else:
            found.own.append(problem)
    return found


def badge(report: Report | None) -> Piece:
    """Whether runevals would take the file, and the first reason why it would not."""
    if report is None:
        return Piece("portable to runevals? not checked yet", "dim")
    if report.portable:
        return Piece("✓ portable to runevals", "pass")
    reasons = [problem for problem in report.problems if problem.severity == "error"] or report.portability
    more = f" (+{len(reasons) - 1} more)" if len(reasons) > 1 else ""
    where = "" if reasons[0].path else "the file "
    return Piece(f"✗ not portable: {where}{reasons[0]}{more}", "warn")


def short_badge(report: Report | None) -> Piece:
    """The same in a word, where the reasons stand elsewhere."""
    if report is None:
        return Piece("")
    return Piece("✓ portable" if report.portable else "✗ not portable", "dim")


def problem_rows(problems: Sequence[Problem], depth: int, width: int) -> list[Row]:
    """Problems in words, with the place inside the value where it has one."""
    rows: list[Row] = []
    for problem in problems[:_SHOWN]:
        inside = shown(problem.path[depth:])
        said = f"{problem.severity}: {inside + ': ' if inside else ''}{problem.message}"
        rows += told(said, "error" if problem.severity == "error" else "warn", width, indent=2)
    if len(problems) > _SHOWN:
        rows += told(f"… {len(problems) - _SHOWN} more problems", "dim", width, indent=2)
    return rows


def told(text: str, style: Style, width: int, *, indent: int = 0, key: Hashable = None) -> list[Row]:
    """A sentence over as many lines as it needs; only the first can be chosen."""
    lines = wrapped(text, width - indent)
    return [row(" " * indent, (line, style), key=None if number else key) for number, line in enumerate(lines)]
