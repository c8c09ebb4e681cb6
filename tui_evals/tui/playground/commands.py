"""The command that opens the playground."""

from __future__ import annotations

from tui_evals.tui.desk import Command, Commands, Desk

_SCREEN = "playground"


def open_playground(desk: Desk) -> None:
    """Talk to a target; the conversation of before is still there."""
    if not desk.is_screen_installed(_SCREEN):
        # Imported when it is wanted: the engine behind it takes 100 ms, which every start would pay.
        from .screen import Playground

        desk.install_screen(Playground(desk.workspace), _SCREEN)
    desk.push_screen(_SCREEN)


COMMANDS: Commands = {"playground": Command(open_playground)}
