"""The rules of the open dataset, on a screen of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui_evals.tui.app import Workbench

_NAME = "rules"


def open_rules(app: Workbench) -> None:
    """The rules; where one was among them, one is again."""
    # Imported when it is wanted: it would hold up every first picture.
    from tui_evals.tui.screens.rules import RulesScreen

    if not app.is_screen_installed(_NAME):
        app.install_screen(RulesScreen(app.workspace, app.watching), _NAME)
    app.push_screen(_NAME)
