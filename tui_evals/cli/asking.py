"""The one way in which commands ask: yes or no, and never where nobody can answer."""

from __future__ import annotations

import sys

import click

from .output import Stop


def confirmed(question: str, *, yes: bool = False, default: bool = False, instead: str = "give --yes") -> bool:
    """Whether a person agrees; `yes` is the answer given beforehand.

    Without a terminal the command ends with the question and what to do `instead` of answering it.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise Stop(f"{question} Nobody can answer here, for the standard input is no terminal: {instead}")
    return click.confirm(question, default=default, err=True)
