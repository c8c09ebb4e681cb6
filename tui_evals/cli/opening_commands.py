"""Opening the workbench: on a dataset, and on the sample project."""

from __future__ import annotations

from pathlib import Path

import click

_no_mouse = click.option("--no-mouse", is_flag=True, help="Leave the mouse to the terminal.")


@click.command("open")
@_no_mouse
@click.pass_context
def open_command(ctx: click.Context, no_mouse: bool) -> object:
    """Open the workbench on this dataset."""
    from .opening import opening

    return opening(Path(ctx.info_name or ""), ctx.obj.mouse and not no_mouse)


@click.command("demo")
@click.option("--plain", is_flag=True, help="Run it here, without the workbench, and say where it is.")
@_no_mouse
@click.pass_context
def demo_command(ctx: click.Context, plain: bool, no_mouse: bool) -> object:
    """Make a sample project in a temporary folder and open the workbench on a live run in it.

    The scripted `demo` target answers and judges: no key, no network, no cost.
    """
    from .demo import demo

    return demo(plain, ctx.obj.mouse and not no_mouse)
