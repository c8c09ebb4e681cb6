"""Options that commands of several groups have."""

from __future__ import annotations

import click

environment = click.option("--env", "env_name", metavar="NAME", help="Layer env/.env.NAME over .env.local.")
trusting = click.option(
    "--trust",
    "trusting",
    is_flag=True,
    help="Let the project run its commands and code, and send keys where it says, unasked.",
)
