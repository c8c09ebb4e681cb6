"""Options that commands of several groups have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar

import click

from tui_evals.text.measures import counted

file_path = click.Path(path_type=Path)
as_json = click.option("--json", "as_json", is_flag=True, help="Print as JSON.")


def _keep_output(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from tui_evals.cli.output import keep_output_for_result

        keep_output_for_result()


result_as_json = click.option(
    "--json", is_flag=True, expose_value=False, callback=_keep_output, help="Print the result as JSON."
)
"""For commands that change something: they print one JSON value, and messages go to the error stream."""
environment = click.option("--env", "env_name", metavar="NAME", help="Layer env/.env.NAME over .env.local.")
trusting = click.option(
    "--trust",
    "trusting",
    is_flag=True,
    help="Let the project run code and send keys, without asking.",
)


def paged(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command whose output goes to $PAGER where the terminal is too small for it."""

    @click.option("--no-pager", is_flag=True, help="Print long output without $PAGER.")
    @wraps(command)
    def wrapped(*given: Any, no_pager: bool, **options: Any) -> Any:
        from tui_evals.cli.output import paging

        with paging(not no_pager):
            return command(*given, **options)

    return wrapped


_ALL = "tui_evals.help_all"
"""The key in a context that shows all options."""


def _show_all(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if wanted:
        ctx.meta[_ALL] = True
        from tui_evals.cli.output import say

        say(ctx.get_help())
        ctx.exit()


help_all = click.option(
    "--help-all",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_all,
    help="Show all commands and options.",
)


def shows_all(ctx: click.Context) -> bool:
    """Whether --help-all was given."""
    return bool(ctx.meta.get(_ALL))


class GroupedHelp(click.Command):
    """A command whose help has everyday options in groups, and the rest with --help-all."""

    groups: ClassVar[Mapping[str, Sequence[str]]] = {}
    """The names of parameters under each heading."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the groups, and with --help-all the ungrouped options."""
        params: dict[str, Any] = {param.name or "": param for param in self.get_params(ctx)}
        grouped = {name for names in self.groups.values() for name in names}
        rest = [name for name in params if name not in grouped]
        shown = {**self.groups, "More": rest} if shows_all(ctx) else self.groups
        for heading, names in shown.items():
            rows = [params[name].get_help_record(ctx) for name in names if name in params]
            with formatter.section(heading):
                formatter.write_dl([row for row in rows if row is not None])
        if not shows_all(ctx):
            count = sum(params[name].get_help_record(ctx) is not None for name in rest)
            formatter.write_paragraph()
            formatter.write_text(f"{counted(count, 'more option')}: {ctx.command_path} --help-all")
