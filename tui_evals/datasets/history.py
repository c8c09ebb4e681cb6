"""The history of a dataset file: the content before each command or save, so that it can be undone."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tui_evals.datasets.discover import make_project, project_of
from tui_evals.files import CannotSave, UnsafeFile, check_private, make_private_folder, write_atomically
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_bytes, read_text
from tui_evals.text import strictjson
from tui_evals.text.safe import safe_line

from .save import is_read_only

MOST = 50
"""How many steps a dataset keeps."""
_LARGEST = 2**28
"""The most bytes of a dataset's history; the last step is kept whatever its size."""
_LARGEST_FILE = 2**30
_INDEX = "steps.json"
_LONGEST = 200
_MOST_EDITS = 100
_CANNOT_KEEP = ".evals/history cannot be written"
_DIGEST = re.compile("[0-9a-f]{64}")


class CannotUndo(Exception):
    """A step cannot be taken back or done again; the sentence says why, and what to do."""


Edit = tuple[float, str]
"""When something was edited, and what."""


@dataclass(frozen=True, slots=True)
class Step:
    """One command or save that changed the file, with the digests before and after it; None if there was no file."""

    what: str
    time: float
    before: str | None
    after: str | None
    edits: tuple[Edit, ...] = ()
    """The edits that a workbench saved, the oldest first."""
    process: int = 0
    """The process that wrote the file."""


@dataclass(frozen=True, slots=True)
class History:
    """The steps of a dataset file from the oldest to the newest, and how many of them are not taken back."""

    file: Path
    folder: Path
    steps: tuple[Step, ...] = ()
    done: int = 0

    def kept(self, digest: str) -> Path:
        """The path of the stored content with this digest."""
        packed = self.file.name.lower().endswith(".gz")
        suffix = "".join(self.file.suffixes[-2:]) if packed else self.file.suffix
        return self.folder / f"{digest[:16]}{suffix}"

    def content(self, digest: str) -> Path:
        """The path of `kept`, after checking its content; CannotUndo if it cannot be read or was changed."""
        _kept_content(self, digest)
        return self.kept(digest)


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Let only one command at a time read and write the datasets of a folder, so that no write is lost."""
    folder = _real(file).parent
    while not folder.is_dir():
        folder = folder.parent
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as problem:
        raise CannotSave(f"{folder} cannot be read: {problem.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def refuse_read_only(file: Path) -> None:
    """CannotSave for a file that its mode keeps from being written, which replacing it would pass over."""
    if is_read_only(file):
        raise CannotSave(f"{file} is read-only, and nothing was written; --force writes it all the same")


@contextmanager
def recorded_save(file: Path, edits: Sequence[Edit]) -> Iterator[list[str]]:
    """Like `recorded` for a save of these edits; if the step cannot be stored, the list says why."""
    why: list[str] = []
    last = [what for _, what in edits[-3:]]
    more = f" and {len(edits) - len(last)} earlier" if len(edits) > len(last) else ""
    saved = False
    try:
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(file))
                stack.enter_context(recorded(file, f"save: {', '.join(last)}{more}", edits))
            except (CannotSave, CannotUndo) as problem:
                why.append(str(problem) if isinstance(problem, CannotUndo) else _CANNOT_KEEP)
            yield why
            saved = True
    except CannotSave:
        if not saved:
            raise
        why.append(_CANNOT_KEEP)


@contextmanager
def recorded(file: Path, what: str, edits: Sequence[Edit] = ()) -> Iterator[None]:
    """Make all changes to the file inside the block one step of its history, and store its content before."""
    history = history_of(file)
    before = _content(file)
    _keep(history, before)
    try:
        yield
    finally:
        after = _content(file)
        if after != before:
            shown = tuple((when, safe_line(edit, _LONGEST)) for when, edit in edits[-_MOST_EDITS:])
            step = Step(safe_line(what, _LONGEST), time.time(), _digest(before), _digest(after), shown, os.getpid())
            history = _with_step(history, step)
            try:
                _write(history)
            except CannotSave as problem:
                raise CannotSave(f"{file} was written, but that cannot be undone: {problem}") from None
        _clear(history)


def history_of(file: Path) -> History:
    """The history of a file; CannotUndo if it cannot be read."""
    file = _real(file)
    root = project_of(file)
    name = re.sub(r"[^\w.-]", "_", file.name)[:40]
    folder = root / ".evals" / "history" / f"{name}-{_sha(os.fsencode(os.path.relpath(file, root)))[:12]}"
    index = folder / _INDEX
    try:
        kept: Any = strictjson.loads(read_text(check_private(index)))
    except FileNotFoundError:
        return History(file, folder)
    except UnsafeFile as problem:
        raise CannotUndo(str(problem)) from None
    except (OSError, ValueError) as problem:
        raise CannotUndo(f"{index} cannot be read ({problem}); remove it to begin a new history") from None
    try:
        steps = tuple(map(_step, kept["steps"]))
        return History(file, folder, steps, range(len(steps) + 1).index(kept["done"]))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise CannotUndo(f"{index} holds no history; remove it to begin a new one") from None


def _step(kept: Mapping[str, Any]) -> Step:
    """A step as the index has it, which may have come with another person's folder."""
    edits = tuple((float(when), safe_line(what, _LONGEST)) for when, what in kept.get("edits", ())[:_MOST_EDITS])
    what, when, process = safe_line(kept["what"], _LONGEST), float(kept["time"]), int(kept.get("process", 0))
    step = Step(what, when, kept["before"], kept["after"], edits, process)
    is_whole = all(digest is None or _DIGEST.fullmatch(digest) for digest in (step.before, step.after))
    if not is_whole or not all(0 <= time < 2**33 for time in (when, *(time for time, _ in edits))):
        raise ValueError("this is no step")
    return step


def undo(file: Path, *, force: bool = False) -> Step:
    """Give the file the content before the last command; only with `force` if it was changed since."""
    with locked(file):
        if not force:
            refuse_read_only(file)
        history = history_of(file)
        if not history.done:
            raise CannotUndo(f"no command has changed {file}, so there is nothing to undo")
        place = history.done - 1
        step, now = history.steps[place], _content(file)
        if _digest(now) != step.after and not force:
            raise CannotUndo(
                f"{file} was changed after `{step.what}`, so nothing was undone. "
                f"{_where(history, step.before)} before that command. "
                "Use --force to undo it anyway: that replaces the current content"
            )
        step = replace(step, after=_digest(now))
        _put_back(_with(history, place, step, done=place), now, step.before)
        return step


def redo(file: Path, *, force: bool = False) -> Step:
    """Give the file the content that the command left which was taken back last."""
    with locked(file):
        if not force:
            refuse_read_only(file)
        history = history_of(file)
        place = history.done
        if place == len(history.steps):
            raise CannotUndo(f"no edit of {file} was undone, so there is nothing to redo")
        step, now = history.steps[place], _content(file)
        if _digest(now) != step.before and not force:
            raise CannotUndo(
                f"{file} was changed since `{step.what}` was undone, so nothing was redone. "
                f"{_where(history, step.after)} after that command. "
                "Use --force to redo it anyway: that replaces the current content"
            )
        step = replace(step, before=_digest(now))
        _put_back(_with(history, place, step, done=place + 1), now, step.after)
        return step


def _where(history: History, digest: str | None) -> str:
    return "There was no file" if digest is None else f"{history.kept(digest)} has its content"


def _with(history: History, place: int, step: Step, done: int) -> History:
    return replace(history, steps=(*history.steps[:place], step, *history.steps[place + 1 :]), done=done)


def _put_back(history: History, now: bytes | None, digest: str | None) -> None:
    """Write the stored content of a digest to the file, and the new history."""
    content = _kept_content(history, digest)
    _keep(history, now)
    if content is not None:
        write_atomically(history.file, content, follow_out=True)
    elif now is not None:
        _remove(history.file)
    _write(history)
    _clear(history)


def _remove(file: Path) -> None:
    try:
        file.unlink()
    except OSError as problem:
        raise CannotSave(f"{file} cannot be removed: {problem.strerror}") from None


def _kept_content(history: History, digest: str | None) -> bytes | None:
    if digest is None:
        return None
    place = history.kept(digest)
    try:
        content = read_bytes(check_private(place), most=_LARGEST_FILE)
    except OSError as problem:
        raise CannotUndo(f"{place}, the earlier content, cannot be read: {problem.strerror}") from None
    if _digest(content) != digest:
        raise CannotUndo(f"{place} is not what was kept there any more, and nothing was written back")
    return content


def _keep(history: History, content: bytes | None) -> None:
    try:
        history.file.parent.mkdir(parents=True, exist_ok=True)
        make_project(project_of(history.file))
        make_private_folder(history.folder)
        if content is not None:
            write_atomically(history.kept(_sha(content)), content, private=True)
    except OSError as problem:
        raise CannotSave(_not_kept(history, problem)) from None
    except CannotSave as problem:
        raise CannotSave(_not_kept(history, problem)) from None


def _not_kept(history: History, problem: Exception) -> str:
    return f"{history.file} was not changed, because it cannot be kept as it is: {problem}"


def _write(history: History) -> None:
    index = {"file": history.file.name, "done": history.done, "steps": [asdict(step) for step in history.steps]}
    write_atomically(history.folder / _INDEX, json.dumps(index, indent=1).encode(), private=True)


def _with_step(history: History, step: Step) -> History:
    """The history with a step in place of those that were taken back, and without the oldest that have no room."""
    steps = (*history.steps[: history.done], step)[-MOST:]
    while len(steps) > 1 and sum(_size(history.kept(digest)) for digest in _needed(steps)) > _LARGEST:
        steps = steps[1:]
    return replace(history, steps=steps, done=len(steps))


def _needed(steps: Sequence[Step]) -> frozenset[str]:
    return frozenset(digest for step in steps for digest in (step.before, step.after) if digest is not None)


def _size(place: Path) -> int:
    try:
        return place.lstat().st_size
    except FileNotFoundError:  # contents after commands are stored only when they are undone
        return 0


def _clear(history: History) -> None:
    """Remove the contents that no step needs any more."""
    with suppress(FileNotFoundError):
        needed = {history.kept(digest).name for digest in _needed(history.steps)}
        for place in history.folder.iterdir():
            if place.name not in {_INDEX, *needed} and not place.is_dir():
                place.unlink(missing_ok=True)


def _real(file: Path) -> Path:
    return Path(os.path.realpath(file))  # which a link that leads to itself does not stop


def _content(file: Path) -> bytes | None:
    try:
        return read_bytes(file, most=_LARGEST_FILE, follow_out=True)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise CannotSave(f"{file} cannot be read: {problem.strerror}") from None


def _digest(content: bytes | None) -> str | None:
    return None if content is None else _sha(content)


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
