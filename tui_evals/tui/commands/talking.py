"""The playground: talk to a target and make an item of what was said."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui_evals.tui.app import Workbench

_NAME = "playground"


def open_playground(app: Workbench) -> None:
    """Talk to a target; the conversation of before is still there."""
    # Imported when it is wanted: the engine behind it takes 100 ms, which every start would pay.
    from tui_evals.tui.screens.playground import Playground

    if not app.is_screen_installed(_NAME):
        app.install_screen(Playground(app.workspace), _NAME)
    app.push_screen(_NAME)
