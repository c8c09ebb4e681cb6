"""The one question about a project: what it would do, and whether it may."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tui_evals.present.permissions import agreed_before, agreed_lines, request_lines, request_title
from tui_evals.runs.approving import agree, agreed_permissions, permission_request
from tui_evals.targets.permissions import Permission

from .asking import confirmed
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
    if not confirmed("Let it?"):
        raise Stop("nothing was done", 2)
    agree(missing, root)


def show_page(missing: Sequence[Permission], root: Path) -> None:
    """The page that is asked about: what, from which file, and what is new since the last yes."""
    request = permission_request(missing, root)
    say(request_title(request), err=True, bold=True)
    for line in request_lines(request):
        say(f"  • {line}", err=True)
    if before := agreed_before(request):
        say(before, err=True)


def show_agreed(root: Path) -> None:
    """Everything agreed to in a project."""
    for line in agreed_lines(agreed_permissions(root), root):
        say(line)
