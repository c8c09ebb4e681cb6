"""Programs that borrow the terminal: $EDITOR for a text, $PAGER for an answer. Texts not accepted are kept as files."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from textual.app import App, SuspendNotSupported

from tui_evals.files import FOLDER, make_private_folder, private_opener
from tui_evals.text.safe import safe

_USUAL = ("vi", "nano")
_LINE_BEFORE = frozenset(("vi", "vim", "nvim", "nano", "emacs", "emacsclient", "micro", "kak", "joe", "mg"))
_LINE_AFTER = {"hx": (), "helix": (), "subl": (), "zed": (), "code": ("--goto",), "codium": ("--goto",)}
_PATIENT = (signal.SIGINT, signal.SIGQUIT)


class NotEdited(Exception):
    """The editor gave no text that can be taken; the sentence says why, and where the text is kept if it is."""


async def edit_in_editor(app: App[Any], text: str, suffix: str, line: int = 1) -> str | None:
    """The text after editing; None if nothing changed; NotEdited says why there is none.

    A known editor starts at `line`.
    """
    command = editor_command(os.environ)
    try:
        file = keep_in_file(text, suffix)
    except OSError as problem:
        raise NotEdited(f"there is no room for a file to edit in: {problem.strerror}; nothing was changed") from None
    kept = False
    try:
        failure = _run_editor(app, [*command, *_at_line(command[0], file, line)])
        after = _text_of(file)
        if failure is not None:
            kept = after is not None and after != text
            raise NotEdited(f"{failure}; {f'what it left is kept in {file}' if kept else 'nothing was changed'}")
        if after is None:
            kept = file.exists()
            raise NotEdited(
                f"what {command[0]} wrote is not UTF-8 text; it is kept in {file}"
                if kept
                else f"{command[0]} left no file behind; nothing was changed"
            )
    finally:
        if not kept:
            shutil.rmtree(file.parent, ignore_errors=True)
    # Most editors end a file with a newline, whether or not the text had one.
    after = after if text.endswith("\n") else after.removesuffix("\n")
    return None if after == text else after


class Lender(Protocol):
    """An application that can lend the terminal to another program."""

    def suspend(self) -> AbstractContextManager[None]:
        """Lend the terminal to another program."""


def edit_file(app: Lender, file: Path, line: int = 1) -> str | None:
    """Open a file of the project itself at a line; returns why that could not be."""
    try:
        command = editor_command(os.environ)
    except NotEdited as problem:
        return str(problem)
    return _run_editor(app, [*command, *_at_line(command[0], file, line)])


def open_in_browser(file: Path) -> bool:
    """Show a page in the browser of the desktop; False where there is none, as over SSH."""
    if os.environ.get("SSH_CONNECTION"):
        return False
    if sys.platform == "win32":
        os.startfile(file)
        return True
    desktop = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    opener = shutil.which("open" if sys.platform == "darwin" else "xdg-open") if desktop else None
    if opener is None:
        return False
    silent: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    opening = subprocess.Popen([opener, str(file)], start_new_session=True, **silent)
    # Some openers last as long as the browser does.
    threading.Thread(target=opening.wait, daemon=True).start()
    return True


def editor_command(variables: Mapping[str, str]) -> list[str]:
    """The editor the user configured, otherwise an installed one; NotEdited if there is none."""
    for name in ("VISUAL", "EDITOR"):
        if chosen := variables.get(name, "").strip():
            try:
                return shlex.split(chosen)
            except ValueError as problem:
                raise NotEdited(f"${name} cannot be read as a command ({problem}): {chosen}") from None
    editor = next((place for place in map(shutil.which, _USUAL) if place), None)
    if editor is None:
        raise NotEdited("there is no editor here: set $EDITOR to the name of one, or edit in place with i")
    return [editor]


def _at_line(editor: str, file: Path, line: int) -> list[str]:
    """The arguments that open a file at a line; an unknown editor is given the file alone."""
    name = Path(editor).name
    if line > 1 and name in _LINE_BEFORE:
        return [f"+{line}", str(file)]
    if line > 1 and name in _LINE_AFTER:
        return [*_LINE_AFTER[name], f"{file}:{line}"]
    return [str(file)]


def keep_in_file(text: str, suffix: str) -> Path:
    """Write a text into a file that only its owner can read, in a folder of its own."""
    file = Path(tempfile.mkdtemp(prefix="tui-evals-")) / f"field{suffix}"
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as stream:
        stream.write(text.encode("utf-8", "surrogatepass"))
    return file


def _text_of(file: Path) -> str | None:
    try:
        return file.read_bytes().decode("utf-8", "surrogatepass")
    except (OSError, UnicodeDecodeError):
        return None


def _run_editor(app: Lender, command: list[str]) -> str | None:
    """Lend the terminal to a command; returns what went wrong, because nothing may be raised while it is lent."""
    try:
        with app.suspend(), _without_interrupts():
            try:
                code = subprocess.run(command, check=False).returncode
            except OSError as problem:
                return f"{command[0]} could not be started: {problem.strerror or problem}"
            return f"{command[0]} ended with code {code}" if code else None
    except SuspendNotSupported:
        return "this terminal cannot be lent to another program; edit in place with i"


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Ctrl-C in the editor is meant for the editor; a handler, unlike ignoring, is not handed down to it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: None) for number in _PATIENT}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


LONGEST_PASTE = 100_000
"""Characters; a text area takes seconds for more, and so does every key after it."""

_UNFIT = re.compile(r"[^A-Za-z0-9_.-]+")


def keep_text(root: Path, name: str, suffix: str, text: str) -> Path:
    """Write a text into a new file of the project; the path from its root. OSError says why that cannot be."""
    folder = root / FOLDER / "kept"
    make_private_folder(folder)
    stem = _UNFIT.sub("-", name)[:40].strip("-.") or "text"
    for number in count(1):
        file = folder / f"{stem}-{number}{suffix}"
        try:
            with open(file, "xb", opener=private_opener) as stream:
                stream.write(text.encode("utf-8", "surrogatepass"))
        except FileExistsError:
            continue
        return file.relative_to(root)
    raise AssertionError("numbers do not end")


def keep_paste(root: Path, text: str) -> str:
    """Put a paste that is too long for a text area into a file, and say so in a sentence."""
    size = f"{len(text):,} characters, at most {LONGEST_PASTE:,} can be pasted"
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    try:
        file = keep_text(root, "pasted", ".txt", lines)
    except OSError as problem:
        return f"too long to paste ({size}), and it could not be put into a file: {problem.strerror}"
    return f"too long to paste; it is kept in {file} ({size}): e edits a field in $EDITOR, which can read it"


def pager_command(variables: Mapping[str, str]) -> list[str]:
    """The pager the user configured, otherwise less; ValueError if the setting cannot be parsed."""
    return shlex.split(variables.get("PAGER", "")) or ["less"]


def show_in_pager(app: App[Any], text: str) -> str | None:
    """Show a text, made safe, until the pager ends; returns why it was not shown."""
    try:
        command = pager_command(os.environ)
    except ValueError as problem:
        return f"$PAGER cannot be read as a command: {problem}"
    try:
        with tempfile.NamedTemporaryFile("w", prefix="tui-evals-", suffix=".txt", encoding="utf-8") as file:
            file.write(safe(text))
            file.flush()
            return _run_pager(app, [*command, file.name])
    except OSError as problem:
        return f"there is no room for a file to show: {problem.strerror or problem}"


def _run_pager(app: App[Any], command: list[str]) -> str | None:
    """Lend the terminal to a command; ctrl-c in it is meant for it, and a handler is not handed down to it."""
    try:
        with app.suspend():
            before = signal.signal(signal.SIGINT, lambda *_: None)
            try:
                subprocess.run(command, check=False)
            except OSError as problem:
                return f"{command[0]} could not be started: {problem.strerror or problem}; set $PAGER to another"
            finally:
                signal.signal(signal.SIGINT, before)
    except SuspendNotSupported:
        return "this terminal cannot be lent to a pager; y copies the answer"
    return None
