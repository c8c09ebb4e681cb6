"""Random keys, clicks, pastes and resizes for two workbenches on one dataset, and what must hold after each round.

    python -m tests.tui.fuzzing --keys 20000 --seed 7

After a round, escape leads back to the tree, what is unsaved is in the store, and once both have saved the file can be
read and both screens show it. What is sent follows from the seed alone, so a seed that fails can be sent again.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from textual.keys import key_to_character

from tests.tui.terminal import Terminal, pasted, workbench
from tui_evals.datasets.document import load
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer
from tui_evals.tui.actions import ACTIONS
from tui_evals.tui.tree.rows import Tree, TreeRows, TreeShape

_NAMED = {
    "escape": "\x1b",
    "tab": "\t",
    "enter": "\r",
    "delete": "\x1b[3~",
    "f1": "\x1bOP",
    "f5": "\x1b[15~",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "home": "\x1b[H",
    "end": "\x1b[F",
    "pagedown": "\x1b[6~",
    "pageup": "\x1b[5~",
    "backspace": "\x7f",
    "shift+tab": "\x1b[Z",
    "ctrl+underscore": "\x1f",
}
_LEFT_OUT = {"ctrl+z", "q", "ctrl+q", "comma"}
"""Suspending has a test of its own, leaving is drawn less often, and settings change the signs a screen is read by."""
_MOVES = ("up", "down", "j", "k", "g", "G", "enter", "tab", "escape", "pagedown", "home", "end", "left", "right")
_WRITING = ("i", "n", "t", "a", "d", "D", "u", "U", "ctrl+s", "v", "space", "J", "K", "T", "C", "#", "f", "m")
_TEXTS = (
    "smoke",
    "two words",
    "{{name}} and more",
    "ünïcödé 日本語 👍🏽",
    "[/INST] [bold]markup[/]",
    "a\u200bb\x07c\x1b]52;c;eA==\x07d",
    "-smoke, vip",
    '{"a": [1, 2, {"b": null}]}',
    "line one\nline two\n\tline three",
    "testId\tprompt\tcategory\nA-1\tpasted one\tbilling\nNEW\tpasted two\t=1+1",
    "0.5",
    "=cmd|' /C calc'!A0",
    "x" * 500,
    "",
)
_SIZES = ((80, 24), (100, 30), (120, 40), (160, 45), (40, 12), (79, 23), (200, 60))
_SEEN_AT = (80, 60)
_MOST_ITEMS, _FEW_ITEMS = 24, 8
_PATIENCE = 240.0
"""Seconds for each thing that must come true: enough on a machine that does much else."""
_START: dict[str, Any] = {
    "schemaVersion": "1.11.0",
    "default_evaluators": {"Includes": {}},
    "items": [
        {"testId": "A-1", "prompt": "first", "expected_response": "one", "category": "billing", "tags": ["smoke"]},
        {"testId": "A-2", "prompt": "hello {{name}}", "variables": {"name": "Ada"}},
        {"testId": "A-3", "turns": [{"prompt": "one"}, {"prompt": "two", "expected_response": "2"}]},
        {"prompt": "without an id"},
    ],
}
_EDITOR = """#!/bin/sh
case $(($(wc -c < "$1") % 3)) in
  0) printf 'edited ' >> "$1";;
  1) exit 1;;
esac
"""


class Failed(AssertionError):
    """Something that must hold after a round does not."""


def _bytes_of(key: str) -> str:
    if key in _NAMED:
        return _NAMED[key]
    if key.startswith("ctrl+") and len(key) == 6:
        return chr(ord(key[5]) & 31)
    return key if len(key) == 1 else key_to_character(key) or ""


_KEYS = tuple(
    sorted({key for action in ACTIONS for key in action.keys.split(",") if key not in _LEFT_OUT and _bytes_of(key)})
)


def events(chance: random.Random, count: int) -> Iterator[str | tuple[int, int]]:
    """What a person or a terminal sends: bytes, or another size."""
    for _ in range(count):
        kind = chance.random()
        if kind < 0.36:
            yield _bytes_of(chance.choice(_MOVES))
        elif kind < 0.54:
            yield _bytes_of(chance.choice(_WRITING))
        elif kind < 0.72:
            yield _bytes_of(chance.choice(_KEYS))
        elif kind < 0.78:
            yield chance.choice("111222333456")
        elif kind < 0.85:
            yield chance.choice("abcdefgh XYZ.-:{")
        elif kind < 0.94:
            column, line, button = chance.randint(1, 160), chance.randint(1, 45), chance.choice((0, 0, 0, 64, 65))
            down = f"\x1b[<{button};{column};{line}M"
            yield down if button else f"{down}\x1b[<0;{column};{line}m"
        elif kind < 0.98:
            yield pasted(chance.choice(_TEXTS))
        elif kind < 0.998:
            yield chance.choice(_SIZES)
        else:
            yield chance.choice(("q", "\x11"))


@dataclass
class Window:
    """One workbench, and what was sent to it in this round."""

    name: str
    folder: Path
    terminal: Terminal = field(init=False)
    sent: list[str | tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Begin a process, and wait for its first picture."""
        programs = {"EDITOR": str(self.folder / ".editor"), "PAGER": "cat"}  # less would wait for its own q
        self.terminal = workbench(self.folder, "data.json", size=_SEEN_AT, HOME=str(self.folder), **programs)
        self.terminal.wait(r"1 Dataset", _PATIENCE)

    def send(self, event: str | tuple[int, int]) -> None:
        """Send one event; a process that was left begins anew."""
        self.sent.append(event)
        try:
            if isinstance(event, tuple):
                self.terminal.resize(*event)
            else:
                self.terminal.press(event)
        except OSError:
            self.left()

    def left(self) -> None:
        """See that a process has ended as it should, and begin another."""
        code = self.terminal.end(_PATIENCE)
        if code or "Traceback" in self.terminal.text:
            log = self.folder / ".evals" / "logs" / "workbench.log"
            recorded = log.read_text() if log.exists() else ""
            raise Failed(f"{self.name} ended with {code}:\n{recorded}\n{self.terminal.shown[-6000:]}")
        self.terminal.close()
        self.start()

    def read(self, quiet: float = 0.0) -> None:
        """Take what has come, until nothing came for a moment."""
        size = -1
        while size != len(self.terminal.raw):
            size = len(self.terminal.raw)
            if not self.terminal.read(quiet):
                self.left()
                return

    def press(self, keys: str, quiet: float = 0.15) -> None:
        """Press keys, and read what they bring."""
        self.send(keys)
        self.read(quiet)

    def draw_anew(self) -> None:
        """Have all be drawn at the size that is read; another size draws everything."""
        columns, lines = _SEEN_AT
        for height in (lines - 1, lines):
            self.terminal.resize(columns, height)
            self.read(0.1)

    @property
    def lines(self) -> list[str]:
        """The rows of the screen as it is now."""
        columns, lines = _SEEN_AT
        cells = self.terminal.rows._cells  # of which some were drawn at another size
        return ["".join(cells.get(line, "")[:columns]) for line in range(1, lines + 1)]

    @property
    def on_panes(self) -> bool:
        """Whether one pane is shown, and nothing over it."""
        return sum("╭" in line for line in self.lines) == 1 and bool(re.match(r"╭─ [1-6] ", self.lines[0]))

    @property
    def tree(self) -> list[str]:
        """The rows in the frame of the tree, where that is all there is; none elsewhere."""
        lines = self.lines
        if not lines[0].startswith("╭─ 1 Dataset") or sum("╭" in line for line in lines) != 1:
            return []
        if "/ filter" not in lines[-1]:  # a dialog or a box has other keys; a mark is offered on an item alone
            return []
        return [line[1 : line.rfind("│")].rstrip() for line in lines[1:-1] if line.startswith("│")]

    @property
    def unsaved(self) -> bool:
        """Whether the row of the dataset says so."""
        return self.tree[0][1:2] == "•"


@dataclass
class Fuzzing:
    """Two windows on one file, and what is known of a seed."""

    folder: Path
    seed: int
    say: Callable[..., None] = lambda *text, **how: None

    def __post_init__(self) -> None:
        self.file = self.folder / "data.json"
        self.file.write_text(json.dumps(_START))
        (self.folder / ".evals").mkdir()
        (self.folder / ".evals" / "config.toml").write_text('[run]\ntargets = ["demo"]\n')
        editor = self.folder / ".editor"
        editor.write_text(_EDITOR)
        editor.chmod(0o755)
        self.windows: list[Window] = []

    def run(self, keys: int, each: int = 200) -> None:
        """Send so many events in rounds; Failed says which seed and round do what."""
        chance = random.Random(self.seed)
        try:
            for name in ("first", "second"):
                self.windows.append(Window(name, self.folder))
            for number, start in enumerate(range(0, keys, each), 1):
                began = time.monotonic()
                try:
                    self._round(chance, min(each, keys - start))
                except AssertionError as problem:
                    raise Failed(f"seed {self.seed}, round {number}: {problem}\n{self._sent()}") from problem
                self.say(f"seed {self.seed}, round {number}: {min(start + each, keys)} of {keys} keys, ", end="")
                self.say(f"{len(load(self.file).data['items'])} items, {time.monotonic() - began:.1f} s")
        finally:
            for window in self.windows:
                window.terminal.close()
            self._wait_for_runs()

    def _sent(self) -> str:
        return "\n".join(
            f"{one.name}: {one.sent[-400:]!r}\n" + "\n".join(line for line in one.lines if line.strip(" │"))
            for one in self.windows
        )

    def _round(self, chance: random.Random, count: int) -> None:
        for window in self.windows:
            window.sent.clear()
            window.terminal.raw, window.terminal._heard = b"", 0
            window.terminal.rows.told.clear()
            window.terminal.resize(*chance.choice(_SIZES))
        sending = events(chance, count)
        while burst := [event for event, _ in zip(sending, range(chance.randint(1, 12)), strict=False)]:
            window = chance.choice(self.windows)
            for event in burst:
                window.send(event)
            window.read(chance.choice((0.0, 0.0, 0.02)))
        for window in self.windows:
            self._back_to_tree(window)
        self._no_traceback()
        for window in self.windows:
            self._journal_holds(window)
        if chance.random() < 0.3:
            self._killed(chance.choice(self.windows))
        self._settle()
        self._no_traceback()
        self._trim()

    def _no_traceback(self) -> None:
        log = self.folder / ".evals" / "logs" / "workbench.log"
        if log.exists():
            raise Failed(f"a traceback was written:\n{log.read_text()}")
        for window in self.windows:
            if "Traceback (most" in window.terminal.text:
                raise Failed(f"{window.name} shows a traceback")

    def _until(self, what: str, step: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not step():
            if time.monotonic() > deadline:
                raise Failed(f"{what} within {_PATIENCE:.0f} s; drafts, and whether they live: {self._every_draft()}")

    def _back_to_tree(self, window: Window) -> None:
        """Escape leads to the panes from everywhere, and 1 to the tree; a filter and folds are taken off there."""

        def there() -> bool:
            window.draw_anew()
            # The one question that escape leaves as it was, because it would lose a text either way.
            screen = "\n".join(window.lines)
            undecided = "cannot be taken as it is" in screen and "nothing matches" not in screen
            window.press("\x1b[B\r" if undecided else "\x1b", 0.4)
            if window.on_panes:
                window.press("1g")  # the row of the dataset is the first, and a long tree may be scrolled
            if window.tree and "data.json" not in window.tree[0]:
                window.press("o")
                window.press("data.json")
                window.press("\r", 0.4)
            return bool(window.tree) and "data.json" in window.tree[0]

        self._until(f"escape did not lead {window.name} back to the tree of data.json", there)
        if re.search(r" \d+ of \d+ items?", window.tree[0]):
            window.press("\x1b", 0.4)
        window.press("gl")

    @staticmethod
    def _shows_rows(window: Window, rows: list[str]) -> bool:
        window.read(0.1)
        return _rows_of_dataset(window.tree) == rows

    def _journal_holds(self, window: Window) -> None:
        """What is on the screen and not in the file is in the store."""

        def holds() -> bool:
            window.read(0.2)
            if not window.tree:  # asked by itself, about a change on disk or edits that were kept, or by an editor
                self._back_to_tree(window)
            if not window.tree or not window.unsaved:
                return bool(window.tree)
            return any(self._is_shown(window, json.loads(draft)) for draft in self._drafts())

        self._until(f"no draft in the store is what {window.name} shows", holds)

    def _drafts(self) -> list[str]:
        with Reader(self.folder / ".evals" / "evals.db") as reader:
            return [draft.data for draft in reader.drafts() if draft.file.startswith(f"{self.file}\t")]

    @staticmethod
    def _is_shown(window: Window, data: dict[str, Any]) -> bool:
        """Whether a screen shows the items of these data; by category where it does."""
        for _ in range(2):
            shown = [_plain(line) for line in window.tree]
            if any(shown[: len(rows)] == rows for rows in _as_shown(data)):
                return True
            window.press("c", 0.2)  # it may be grouped
            window.press("gl", 0.2)
        return False

    def _killed(self, window: Window) -> None:
        """A process that is killed offers what was not saved, and shows it again."""
        window.read(0.3)
        before, unsaved = window.tree, window.unsaved
        known = self._every_draft()
        for name in self._dead_drafts():
            with Writer(self.folder / ".evals" / "evals.db") as writer:  # which would be offered too
                writer.draft_drop(name)
        window.terminal.kill(signal.SIGKILL)
        window.terminal.end(_PATIENCE)
        window.terminal.close()
        window.start()
        if unsaved:
            self._until(f"{window.name} did not offer its edits, of {known}", lambda: self._takes_up(window))
        self._back_to_tree(window)
        if unsaved:
            rows = _rows_of_dataset(before)
            what = f"{window.name} did not show what it had before it was killed:\n" + "\n".join(rows)
            self._until(what, lambda: self._shows_rows(window, rows))

    def _takes_up(self, window: Window) -> bool:
        window.read(0.3)
        if "were kept" in window.terminal.rows.screen and "restore them" in window.terminal.rows.screen:
            window.press("\r", 0.3)
        return bool(window.tree) and not self._dead_drafts()

    def _settle(self) -> None:
        """Both save until the file holds all, both screens show it, and no draft of them is left."""

        def agree() -> bool:
            for window in self.windows:
                window.read(0.3)
                if not window.tree:
                    if "changed on disk" in "\n".join(window.lines[:-3]):
                        window.press("\r", 0.5)
                    else:
                        self._back_to_tree(window)
                elif window.unsaved:
                    window.press("\x13", 0.5)
            data = load(self.file).data
            return all(window.tree and not window.unsaved and self._is_shown(window, data) for window in self.windows)

        self._until("the file and both screens did not agree", agree)
        self._until("the store still holds a draft of a saved file", lambda: not self._living_drafts())

    def _living_drafts(self) -> list[str]:
        """The drafts of the file whose workbench is alive."""
        return [name for name, is_alive in self._every_draft() if is_alive and name.startswith(f"{self.file}\t")]

    def _dead_drafts(self) -> list[str]:
        """The drafts of any file whose workbench is gone."""
        return [name for name, is_alive in self._every_draft() if not is_alive]

    def _every_draft(self) -> list[tuple[str, bool]]:
        sessions = self.folder / ".evals" / "sessions"
        with Reader(self.folder / ".evals" / "evals.db") as reader:
            return [(name, _held(sessions / f"{name.partition(chr(9))[2]}.lock")) for name in reader.draft_names()]

    def _trim(self) -> None:
        """Another program writes a smaller file, which both take up."""
        data = load(self.file).data
        if len(_as_shown(data)[0]) > _MOST_ITEMS:
            items = [item for item in data["items"] if isinstance(item, dict)][:_FEW_ITEMS]
            items = [{**item, "turns": item["turns"][:2]} if "turns" in item else item for item in items]
            self.file.write_text(json.dumps({**data, "items": items}))
            self._settle()

    def _wait_for_runs(self) -> None:
        for lock in self.folder.glob(".evals/locks/*.lock"):
            with contextlib.suppress(FileNotFoundError), open(lock, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH)


def _held(lock: Path) -> bool:
    try:
        with open(lock, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _rows_of_dataset(tree: Sequence[str]) -> list[str]:
    """The rows of the open dataset; other files are named below it, a new one that is still empty among them."""
    return [_plain(line) for number, line in enumerate(tree) if _plain(line) and (not number or line[2:3] in " ▾▸")]


def _plain(line: str) -> str:
    """A row of the tree without its marks, its problems and its status."""
    head = re.sub("[▪•▾▸]", " ", line[:4])
    line = re.sub("[\U0001f3fb-\U0001f3ff]", "", line)  # the colour of a skin, which no terminal is sure to place
    return re.sub(r" +", " ", re.sub(r" ![0-9]+$", "", f"{head}{line[4:50]}")).strip()


def _as_shown(data: dict[str, Any]) -> Sequence[list[str]]:
    """The rows of all items; as they are next to statuses and without."""
    shape = TreeShape()
    shape.lay(data["items"], None)
    width = _SEEN_AT[0] - 2
    made = []
    for statuses in ({}, {"": "pass"}):
        tree = Tree("data.json", False, data["items"], shape.keys, shape.names, statuses=statuses)  # type: ignore[arg-type]
        rows = TreeRows(tree, width)[: 1 + len(shape.keys)]
        made.append([_plain("".join(piece.text for piece in row.pieces)) for row in rows])
    return made


def main() -> int:
    """Fuzz with the seeds that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--each", type=int, default=200, help="keys in a round")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--seeds", type=int, default=1, help="how many, from the first one on")
    given = parser.parse_args()
    first = given.seed if given.seed is not None else random.randrange(1 << 30)
    failed = 0
    for seed in range(first, first + given.seeds):
        with tempfile.TemporaryDirectory(prefix="tui-evals-fuzz-", ignore_cleanup_errors=True) as folder:
            os.environ["XDG_STATE_HOME"] = f"{folder}/.state"
            try:
                Fuzzing(Path(folder), seed, print).run(given.keys, given.each)
            except AssertionError as problem:
                failed = 1
                print(problem, f"\nagain: python -m tests.tui.fuzzing --seed {seed} --keys {given.keys}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
