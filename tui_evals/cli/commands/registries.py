"""registry."""

from __future__ import annotations

import click


@click.command("registry")
@click.argument("path", metavar="PATH[,PATH]")
@click.argument("words", nargs=-1, metavar="[FILTER]...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def registry_command(path: str, words: tuple[str, ...], as_json: bool) -> None:
    """List what a registry of OpenAI Evals holds: the evals that run here, why the others do not, and the sets.

    PATH is the folder that holds evals/, modelgraded/, eval_sets/ and data/, or its parent. FILTER words must all be
    in the name, class or description; !WORD must not.
    """
    from tui_evals.cli.registries import list_registry

    list_registry(path, words, as_json)
