"""help, doctor."""

from __future__ import annotations

import click


@click.command("help")
@click.argument("topic", nargs=-1)
def help_command(topic: tuple[str, ...]) -> None:
    """Show a page of the manual, what a word of comparing means, or the list of pages."""
    from .manual import show_page

    show_page(" ".join(topic) or None)


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def doctor_command(as_json: bool) -> int:
    """Check this installation, the project and the terminal; keys are looked for, never shown."""
    from .manual import doctor

    return doctor(as_json)
