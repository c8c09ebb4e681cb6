"""The one question about a project: what it would do, and whether it may."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from tui_evals.runs.approving import agree
from tui_evals.targets.permissions import Approvals, Permission

from .output import Stop, say


def approve(missing: Sequence[Permission], root: Path) -> None:
    """Ask once, and remember a yes; without a terminal the command ends with what to agree to and how."""
    if not missing:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        listed = "\n".join(f"  • {permission.sentence}" for permission in missing)
        raise Stop(
            f"{root} would do what you have not agreed to:\n{listed}\n"
            "Read the files that say so, then agree with `tui-evals trust`, or for this once with --trust",
            2,
        )
    show_page(missing, root)
    if not click.confirm("Let it?", default=False, err=True):
        raise Stop("nothing was done", 2)
    agree(missing, root)


def show_page(missing: Sequence[Permission], root: Path) -> None:
    """The page that is asked about: what, from which file, and what is new since the last yes."""
    before = Approvals(root).agreed()
    say(f"{root} asks for your yes before it", err=True, bold=True)
    for permission in missing:
        changed = any(entry["kind"] == permission.kind and entry["does"] == permission.does for entry in before)
        since = " – its code has changed since you said yes" if changed else ""
        say(f"  • {permission.sentence}{since}", err=True)
    if before:
        say(f"You agreed to {len(before)} other things here before; `tui-evals trust show` lists them.", err=True)


def show_agreed(root: Path) -> None:
    """Everything agreed to in a project."""
    approvals = Approvals(root)
    if approvals.is_own:
        say(f"{root} is yours: it was begun here, or you trusted the folder, and is asked nothing")
    for entry in approvals.agreed():
        where = f" ({entry['where']})" if entry["where"] else ""
        say(f"{entry['when'][:10]}  {entry['does']}{where}")
    if not approvals.is_own and not approvals.agreed():
        say(f"nothing is agreed to in {root}")
