"""Options that commands of several groups have."""

from __future__ import annotations

from pathlib import Path

import click

file_path = click.Path(path_type=Path)
as_json = click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
environment = click.option("--env", "env_name", metavar="NAME", help="Layer env/.env.NAME over .env.local.")
trusting = click.option(
    "--trust",
    "trusting",
    is_flag=True,
    help="Let the project run its commands and code, and send keys where it says, unasked.",
)
