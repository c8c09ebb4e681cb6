"""Why something cannot be done in the item editor now, as a sentence that says what can be."""

from __future__ import annotations

from collections.abc import Hashable

from tui_evals.tui.state.changes import NO_ITEM, NOT_OPEN
from tui_evals.tui.state.workspace import Workspace
from tui_evals.tui.views import item_fields as fields


def why_not(workspace: Workspace, action: str, key: Hashable) -> str | None:
    """Why an action cannot be done with the row of this key; None when it can."""
    if workspace.editing is None:
        return NOT_OPEN
    broken = bool(workspace.where) and workspace.unit is None
    if action in ("new_turn", "duplicate", "conversation") and not workspace.where:
        return NO_ITEM
    if action in ("edit", "external", "clear", "field") and broken:
        return "what stands here is no object; mend it in the file"
    if action in ("edit", "external", "clear"):
        return _why_not_field(workspace, action, key)
    return None


def _why_not_field(workspace: Workspace, action: str, key: Hashable) -> str | None:
    if isinstance(key, tuple):
        return None if action == "edit" else "enter goes there; what it holds is edited on its own page"
    if not isinstance(key, str):
        return "go to a field first"
    if locked := fields.read_only(key, workspace.where):
        return locked
    if key in fields.JUDGING:
        return None if action == "edit" else "evaluators are edited in their own pane: 3"
    value = fields.value_at(workspace.data, workspace.where, key)
    if action == "edit":
        return fields.why_not_here(key, value)
    return _why_not_clear(workspace, key, value) if action == "clear" else None


def _why_not_clear(workspace: Workspace, name: str, value: object) -> str | None:
    if value is None:
        return f"there is no {name} to take away"
    if name == "prompt" and fields.prompt_is_needed(workspace.data, workspace.where):
        return "there must be a prompt; enter edits it"
    return None
