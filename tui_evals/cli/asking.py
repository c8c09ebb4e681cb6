"""The ways in which commands ask, yes or no and for a text, and never where nobody can answer."""

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


def asked(question: str, default: str | None, given: str | None, option: str) -> str:
    """What a person says, unless an option gave it; without a terminal it is what is usual, where something is."""
    if given is not None:
        return given
    if sys.stdin.isatty():
        answer: str = click.prompt(question, default=default, show_default=bool(default), err=True)
        return answer.strip()
    if default is None:
        raise Stop(f"{question} Nobody can answer here, for the standard input is no terminal: give --{option}")
    return default
