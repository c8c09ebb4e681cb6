"""The commands that open the rules and generate a dataset with rules."""

from __future__ import annotations

from tui_evals.datasets.paths import get_at
from tui_evals.tui.desk import Command, Commands, Desk
from tui_evals.tui.opening import why_none_open

_SCREEN = "rules"


def open_rules(desk: Desk) -> None:
    """Show the rules; the screen stays as it was left."""
    if not desk.is_screen_installed(_SCREEN):
        # Imported when it is wanted, because it would hold up every first picture.
        from tui_evals.tui.rules.screen import RulesScreen

        desk.install_screen(RulesScreen(desk), _SCREEN)
    desk.push_screen(_SCREEN)


async def generate(desk: Desk) -> None:
    """Make a dataset of a prompt file."""
    from tui_evals.tui.rules.screen import generate_from_prompt

    await generate_from_prompt(desk)


def why_no_rules(desk: Desk) -> str | None:
    """The open dataset was not made from rules; the screen says how such a dataset is made."""
    rules = get_at(desk.workspace.data, ("extensions", "promptpex", "rules"))
    return None if rules else "this dataset has no rules"


COMMANDS: Commands = {"rules": Command(open_rules, why_none_open, why_no_rules), "generate": Command(generate)}
