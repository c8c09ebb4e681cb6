"""The one way out to the terminal: nothing is printed but through here."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Mapping
from typing import Any

import click

from tui_evals.present.status import Tone
from tui_evals.text.safe import log_is_read, safe, safe_line, without_log_commands

_ORDER_IN_JSON = re.compile("#(?=#)|s(?=ection_(?:start|end):)")
_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


_COLOURS: Mapping[Tone, str] = {"ok": "green", "bad": "red", "warn": "yellow", "error": "magenta"}


def colour(tone: Tone) -> str | None:
    """The colour of a status or a kind on a terminal; None for none."""
    return _COLOURS.get(tone)


def say(text: str = "", *, err: bool = False, **style: Any) -> None:
    """Print text, made safe for the terminal first; NO_COLOR leaves bold and dim."""
    if os.environ.get("NO_COLOR"):
        style = {name: value for name, value in style.items() if name not in ("fg", "bg")}
    click.echo(click.style(safe(text), **style) if style else safe(text), err=err)


def warn(text: str) -> None:
    """Say something on the error stream."""
    say(text, err=True)


def columns() -> int | None:
    """The terminal width; None where output goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def cell(text: str, width: int) -> str:
    """Text for one cell of a table: one line, no wider than `width`."""
    return safe_line(text, width)


def rewind(lines: int) -> None:
    """Go back over lines just printed on a terminal, and clear them."""
    if lines:
        click.echo(f"\x1b[{lines}F\x1b[J", nl=False)


def say_json(value: object) -> None:
    """Print JSON, with control characters as escapes, so that the data stays the same."""
    click.echo(_spelled_json(json.dumps(value, ensure_ascii=False, indent=2)))


def say_json_line(value: object) -> None:
    """Print one line of JSON, spelled as in `say_json`."""
    click.echo(_spelled_json(json.dumps(value, ensure_ascii=False)))


def say_data(text: str) -> None:
    """Print data another program will read: to the byte, unless a person's terminal or a CI runner would read it.

    A runner is obeyed by nothing that goes to a file; in a pipe, orders to it get a space, as the log may be behind it.
    """
    if sys.stdout.isatty():
        text = safe(text)
    elif log_is_read() and not _into_file():
        text = without_log_commands(click.unstyle(text))
    click.echo(text, nl=False, color=True)  # which leaves escape sequences where they are


def say_annotation(command: str) -> None:
    """Print an order to the CI runner, which is ours: no text in it can end it or begin another."""
    click.echo(command)


def _into_file() -> bool:
    try:
        return stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError):  # no file at all, as where the output is captured
        return False


def _spelled_json(text: str) -> str:
    text = _UNSAFE_IN_JSON.sub(_spelled, text)
    # A line of JSON begins with no order; what counts anywhere in a line is escaped, which leaves the data the same.
    return _ORDER_IN_JSON.sub(_spelled, text) if log_is_read() else text


def _spelled(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"


class Stop(Exception):
    """Ends the command with a sentence and an exit code."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code
