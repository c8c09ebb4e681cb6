"""Permissions: the page that asks for them before anything runs, and the page that lists them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

from textual.screen import Screen

from tui_evals.present.permissions import agreed_before, agreed_lines, request_lines, request_title
from tui_evals.runs.approving import (
    AgreedPermissions,
    PermissionRequest,
    agree,
    agreed_permissions,
    missing_of_project,
    missing_store,
    permission_request,
)
from tui_evals.runs.project import Project
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.permissions import Permission
from tui_evals.tui.desk import Desk
from tui_evals.tui.rows import Row, Style, heading, paragraph, row, wrapped
from tui_evals.tui.widgets.dialogs import ConfirmPage, Reading

NOT_AGREED = "nothing was done: you did not agree to it"
STORE_UNUSED = "the cached answers of this store are not used, because it was not begun here"
_NOTHING_MISSING = "Nothing that it names itself waits for a yes; whatever else is asked of it would ask first."
_STYLES: Mapping[str, Style] = {"+": "added", "-": "removed"}
_RULE = (
    "Opening, looking and working out what it costs never run anything of the project. Before something runs that "
    "needs a yes, a page asks for it, once, until it changes. `tui-evals trust revoke` takes every yes back."
)

Answer = TypeVar("Answer")


class DialogShower(Protocol):
    """Can show a dialog and wait for its answer."""

    async def push_screen_wait(self, screen: Screen[Answer]) -> Answer:
        """Show a dialog and wait for its answer."""


async def approve(app: DialogShower, missing: Sequence[Permission], root: Path) -> bool:
    """Ask for missing permissions and remember a yes; a no changes nothing."""
    if not missing:
        return True
    request = await asyncio.to_thread(permission_request, missing, root)
    count = f" · {len(request.missing)} things" if len(request.missing) > 1 else ""
    page = ConfirmPage(f"Allow this?{count}", lambda width: request_rows(request, width), "allow")
    if await app.push_screen_wait(page) is not True:
        return False
    await asyncio.to_thread(agree, missing, root)
    return True


async def approve_store(app: DialogShower, project: Project) -> bool:
    """Ask whether to use the answers of a store from elsewhere, and store a yes; a no asks everything again."""
    permission = await asyncio.to_thread(missing_store, project)
    return permission is None or await approve(app, [permission], project.root)


def request_rows(request: PermissionRequest, width: int) -> list[Row]:
    """The page: who asks, each permission with its location, and those granted before."""
    rows = [*paragraph(request_title(request), width, "strong")]
    for asked in request_lines(request):
        rows += _listed([asked.line], width)
        for line in asked.code:
            style = _STYLES.get(line[:1], "dim")
            rows += [row(("      ", ""), (part, style)) for part in wrapped(line, max(width - 6, 1)) or [""]]
    if before := agreed_before(request):
        rows += [row(), *paragraph(before, width, "dim")]
    return rows


def _listed(lines: Sequence[str], width: int) -> list[Row]:
    rows = []
    for line in lines:
        first, *more = wrapped(line, max(width - 4, 1)) or [""]
        rows += [row("  • ", first), *(row("    ", part) for part in more)]
    return rows


async def show_permissions(desk: Desk) -> None:
    """Show the permissions that the project's settings and evaluators need or have; runs no project code."""
    root = desk.workspace.root
    try:
        request, agreed = await asyncio.to_thread(_permissions, desk)
    except ConfigurationError as problem:
        desk.tell(str(problem), "error")
        return
    desk.push_screen(Reading("what this project may do", lambda width: permission_rows(request, agreed, root, width)))


def _permissions(desk: Desk) -> tuple[PermissionRequest, AgreedPermissions]:
    # Imported when needed, to keep the start fast.
    from tui_evals.generate.request import remembered_targets

    project = desk.workspace.project()
    missing = missing_of_project(project, remembered_targets(project.root, project.settings))
    return permission_request(missing, project.root), agreed_permissions(project.root)


def permission_rows(request: PermissionRequest, agreed: AgreedPermissions, root: Path, width: int) -> list[Row]:
    """The permissions that are missing, and those that are granted."""
    rows = request_rows(replace(request, agreed=()), width) if request.missing else []
    if not rows:
        rows = [*paragraph(_NOTHING_MISSING, width)]
    rows += [*heading("Agreed to"), *_listed(agreed_lines(agreed, root), width)]
    return [*rows, row(), *paragraph(_RULE, width, "dim")]
