"""All output to the terminal goes through here."""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import shutil
import stat
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import click

from tui_evals.files import (
    CannotSave,
    UnsafeFile,
    descriptor_of,
    is_private,
    is_stream,
    make_folder,
    make_private_folder,
    write_atomically,
)
from tui_evals.present.status import Tone
from tui_evals.terminal_facts import why_ascii
from tui_evals.text.safe import log_is_read, safe, safe_line, without_log_commands

_ORDER_IN_JSON = re.compile("#(?=#)|s(?=ection_(?:start|end):)")
_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


_COLOURS: Mapping[Tone, str] = {"ok": "green", "bad": "red", "warn": "yellow", "error": "magenta"}


def colour(tone: Tone) -> str | None:
    """The colour of a status or a kind on a terminal; None for none."""
    return _COLOURS.get(tone)


def print_what_the_locale_can() -> None:
    """If the locale only has ASCII, replace our symbols by their ASCII equivalents."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and why_ascii(stream.encoding, os.environ):
            from tui_evals.present.columns import in_ascii  # not before: few need it, and help stays quick

            def replaced(problem: UnicodeError) -> tuple[str, int]:
                assert isinstance(problem, UnicodeEncodeError)
                return in_ascii(problem.object[problem.start : problem.end]), problem.end

            codecs.register_error("tui-evals-ascii", replaced)
            stream.reconfigure(encoding="ascii", errors="tui-evals-ascii")


def say_mistakes_safely() -> None:
    """Print what Python says of an error or a warning of ours safely as well: its message may quote a dataset."""

    def of_error(kind: type[BaseException], problem: BaseException, trace: TracebackType | None) -> None:
        import traceback  # not before: few need it, and help stays quick

        warn("".join(traceback.format_exception(kind, problem, trace)).rstrip("\n"))

    sys.excepthook = of_error
    threading.excepthook = lambda given: of_error(given[0], given[1] or given[0](), given[2])


def _takes_all_signs() -> bool:
    return (getattr(own_output(), "encoding", None) or "utf-8").lower().startswith("utf")


_own: IO[str] | None = None
"""The standard output, while it is kept to ourselves."""


def keep_output_to_ourselves() -> None:
    """From now on, send the output of user code to the error stream, also from processes that it starts.

    This module still prints to the standard output. Call it before such code runs.
    """
    global _own
    if _own is not None:
        return
    _own, sys.stdout = sys.stdout, sys.stderr
    with suppress(OSError, ValueError):  # not a file, or closed: then nothing can print past sys.stdout
        if _own.fileno() == 1:
            _own.flush()
            _own = os.fdopen(os.dup(1), "w", encoding=_own.encoding, errors=_own.errors, newline="\n")
            os.dup2(2, 1)


_only_result = False
"""Whether the standard output of this command has its result as JSON, and nothing else."""


def keep_output_for_result() -> None:
    """From now on, send messages to the error stream; `say_result` prints the result as JSON."""
    global _only_result
    _only_result = True


@contextmanager
def output_of_command() -> Iterator[None]:
    """Give the standard output back once a command is over."""
    global _own, _only_result
    if getattr(sys, "stdout", None) is None:  # it was closed: the next file that is opened must not take its place
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    stdout = sys.stdout
    try:
        yield
    finally:
        own, _own = _own, None
        _only_result = False
        _closed.clear()
        if own is not None:
            sys.stdout = stdout
        if own is not None and own is not stdout:
            with suppress(OSError):  # the pipe is closed, which was reported where it was written
                stdout.flush()
                os.dup2(own.fileno(), 1)
                own.close()


def own_output() -> IO[str]:
    """The stream for our output."""
    return _own or sys.stdout


_page: list[str] | None = None
"""The output that may go to a pager."""


@contextmanager
def paging(wanted: bool = True) -> Iterator[None]:
    """Show the output of the block in $PAGER if it does not fit the terminal; an empty PAGER disables that."""
    global _page
    if not (wanted and redraws() and sys.stdin.isatty() and os.environ.get("PAGER") != ""):
        yield
        return
    from tui_evals.present.columns import cell_width  # not before: help stays quick

    stream, size, _page = own_output(), shutil.get_terminal_size(), []
    try:
        yield
    finally:
        text, _page = "".join(_page), None
        if sum(max(1, -(-cell_width(click.unstyle(line)) // size.columns)) for line in text.splitlines()) < size.lines:
            _echo(text, stream, nl=False)
        else:
            click.echo_via_pager(text.removesuffix("\n"))


def _echo(text: str | bytes, stream: IO[str], **how: Any) -> None:
    """Print; after the reader has closed the pipe, print nothing more and let the command end normally."""
    if _page is not None and isinstance(text, str) and stream is own_output():
        _page.append(text + "\n" * how.get("nl", True))
        return
    try:
        click.echo(text, stream, **how)
    except BrokenPipeError:
        close_output(stream)


_closed: set[int] = set()


def close_output(stream: IO[str]) -> None:
    """Point a stream that has no reader to nowhere, which keeps Python from complaining at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
    _closed.add(stream.fileno())


def has_reader() -> bool:
    """Whether the standard output still has a reader, as far as writing has shown."""
    return not _closed or own_output().fileno() not in _closed


def say(text: str = "", *, err: bool = False, **style: Any) -> None:
    """Print text, made safe for the terminal first; NO_COLOR leaves bold and dim, a dumb terminal nothing."""
    if _is_dumb():
        style = {}
    elif os.environ.get("NO_COLOR"):
        style = {name: value for name, value in style.items() if name not in ("fg", "bg")}
    stream = sys.stderr if err or _only_result else own_output()
    _echo(click.style(safe(text), **style) if style else safe(text), stream)


def say_result(text: str | None, result: object, **style: Any) -> None:
    """Print the result of a command: the text, unless it is already printed, or with --json the result."""
    if _only_result:
        say_json(result)
    elif text is not None:
        say(text, **style)


def warn(text: str) -> None:
    """Print a message on the error stream."""
    say(text, err=True)


def columns() -> int | None:
    """The terminal width; None where output goes elsewhere."""
    return shutil.get_terminal_size().columns if own_output().isatty() else None


def _is_dumb() -> bool:
    return os.environ.get("TERM") == "dumb"


def asks_on_terminal() -> bool:
    """Whether the user sees the next message: with --json it goes to the error stream."""
    return (sys.stderr if _only_result else own_output()).isatty()


def redraws() -> bool:
    """Whether lines can be printed over: on a terminal that can move its cursor."""
    return own_output().isatty() and not _is_dumb() and not _only_result


def cell(text: str, width: int) -> str:
    """Text for one cell of a table: one line, no wider than `width`."""
    return safe_line(text, width)


def rewind(lines: int) -> None:
    """Go back over lines just printed on a terminal that redraws, and clear them."""
    if lines:
        _echo(f"\x1b[{lines}F\x1b[J", own_output(), nl=False)


def clear_screen() -> None:
    """Begin a terminal that redraws at its top again; elsewhere lines follow each other."""
    if redraws():
        _echo("\x1b[H\x1b[2J", own_output(), nl=False)


def say_json(value: object) -> None:
    """Print JSON, with control characters as escapes, so that the data stays the same."""
    _echo(_spelled_json(json.dumps(value, ensure_ascii=not _takes_all_signs(), indent=2)), own_output())


def say_json_line(value: object) -> None:
    """Print one line of JSON, spelled as in `say_json`."""
    _echo(_spelled_json(json.dumps(value, ensure_ascii=not _takes_all_signs())), own_output())


def say_end(run: str | None, status: str, message: str, exit_code: int, **more: object) -> None:
    """Print the last event of a command with events: how it ended, and its exit code.

    `status` is that of the run, or of a command without one: refused, interrupted or failed.
    """
    event = {"event": "end", "run": run, "status": status, "message": message or None, "exit_code": exit_code}
    say_json_line({**event, **more})


def say_data(data: str | Iterable[str]) -> None:
    """Print data for another program, whole or in pieces.

    It is byte-exact, unless it goes to a terminal or a CI runner. A runner executes nothing that goes to a file. In a
    pipe, commands to it get a space, because its log may be behind the pipe.
    """
    pieces: Iterable[str] = [data] if isinstance(data, str) else data
    # Unsafe text is replaced as a whole, because a sequence or command could span two pieces.
    if own_output().isatty():
        pieces = [safe("".join(pieces))]
    elif log_is_read() and not _into_file():
        pieces = [without_log_commands(click.unstyle("".join(pieces)))]
    # Output to a file or program is UTF-8, whatever the locale.
    as_text = own_output().isatty() or _takes_all_signs()
    for piece in pieces:
        message = piece if as_text else piece.encode("utf-8", "surrogatepass")
        _echo(message, own_output(), nl=False, color=True)  # which leaves escape sequences where they are


def say_annotation(command: str) -> None:
    """Print an order to the CI runner, which is ours: no text in it can end it or begin another."""
    _echo(command, own_output())


def _into_file() -> bool:
    try:
        return stat.S_ISREG(os.fstat(own_output().fileno()).st_mode)
    except (OSError, ValueError):  # no file at all, as where the output is captured
        return False


def _spelled_json(text: str) -> str:
    text = _UNSAFE_IN_JSON.sub(_spelled, text)
    # A line of JSON never starts with a command; a command inside a line is escaped, which does not change the data.
    return _ORDER_IN_JSON.sub(_spelled, text) if log_is_read() else text


def _spelled(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"


class Stop(Exception):
    """Ends the command with a sentence and an exit code."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code
        self.run: str | None = None
        """The key of the run it is about, where there is one."""


def is_output(file: Path) -> bool:
    """Whether a name means the standard output, where no message may follow the data."""
    return file == Path("-") or descriptor_of(file) == 1


def write_file(
    file: Path, pieces: Iterable[str | bytes], *, private: bool = False, new: bool = False, after: str = ""
) -> None:
    """Write text or bytes piece by piece to a file, creating its folder; ends the command on failure.

    An existing file is replaced, unless the file has to be `new`. `after` is appended to an error.
    """
    if is_output(file):
        say_data(piece if isinstance(piece, str) else piece.decode() for piece in pieces)
        return
    if new and file.exists() and not is_stream(file):
        raise Stop(f"{file} is already there; choose another name or remove it first")
    try:
        if file.parent.exists() and not file.parent.is_dir():
            raise Stop(f"{file} could not be written: {file.parent} is a file, not a folder{after}", 1)
        if is_private(file):
            make_private_folder(file.parent)
        make_folder(file.parent)
        write_atomically(
            file, (piece if isinstance(piece, bytes) else piece.encode() for piece in pieces), private=private
        )
    except OSError as problem:
        sentence = (
            str(problem) if isinstance(problem, UnsafeFile) else f"{file} could not be written: {problem.strerror}"
        )
        raise Stop(f"{sentence}{after}", 1) from None
    except CannotSave as problem:
        raise Stop(f"{problem}{after}", 1) from None


def confirmed(question: str, *, yes: bool = False, default: bool = False, instead: str = "give --yes") -> bool:
    """Whether the user agrees; `yes` is an answer given beforehand.

    Without a terminal the command ends with the question and what to do `instead`.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise Stop(f"{question} Cannot ask: input is not a terminal. Instead, {instead}.")
    return click.confirm(question, default=default, err=True)


def asked(question: str, default: str | None, given: str | None, option: str) -> str:
    """The answer to a question, unless an option gave it; without a terminal the default, or an error."""
    if given is not None:
        return given
    if sys.stdin.isatty():
        answer: str = click.prompt(question, default=default, show_default=bool(default), err=True)
        return answer.strip()
    if default is None:
        raise Stop(f"{question} Cannot ask: input is not a terminal. Give --{option}.")
    return default
