"""What a project asks a yes for and what it was given one for, in the words of every face."""

from __future__ import annotations

from pathlib import Path

from tui_evals.runs.approving import AgreedPermissions, PermissionRequest


def request_title(request: PermissionRequest) -> str:
    """Who asks."""
    return f"{request.root} asks for your yes before it"


def request_lines(request: PermissionRequest) -> list[str]:
    """What it would do, one thing a line: from which file, and what is new since the last yes."""
    lines = []
    for permission in request.missing:
        since = " – its code has changed since you said yes" if request.has_changed(permission) else ""
        lines.append(f"{permission.sentence}{since}")
    return lines


def agreed_before(request: PermissionRequest) -> str:
    """How much was agreed to already; empty where nothing was."""
    count = len(request.agreed)
    if not count:
        return ""
    return (
        f"You agreed to {count} other thing{'s' if count != 1 else ''} here before; `tui-evals trust show` lists them."
    )


def agreed_lines(agreed: AgreedPermissions, root: Path) -> list[str]:
    """Everything agreed to in a project, one thing a line."""
    lines = []
    if agreed.is_own:
        lines.append(f"{root} is yours: it was begun here, or you trusted the folder, and is asked nothing")
    for entry in agreed.entries:
        where = f" ({entry['where']})" if entry["where"] else ""
        lines.append(f"{entry['when'][:10]}  {entry['does']}{where}")
    return lines or [f"nothing is agreed to in {root}"]
