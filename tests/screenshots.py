"""Makes the pictures in screenshots/: `python -m tests.screenshots [NAME…]` writes them, a test compares them."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.pictures.camera import Shot
from tests.pictures.gallery import Gallery
from tests.pictures.reel import Reel, Scene
from tests.pictures.script import played
from tests.pictures.svg import slim

FOLDER = Path(__file__).parent.parent / "screenshots"
COMMAND = "python -m tests.screenshots"
WIDTH = 110
_HUGE, _LARGE, _MEDIUM, _SMALL = (220, 60), (160, 45), (120, 40), (80, 24)

GALLERY = Gallery(
    FOLDER,
    {
        "workbench": Shot(_LARGE, ("1", "c", *["down"] * 17)),
        "extend-replace": Shot(_MEDIUM, ("1", *["down"] * 6, "3", "down")),
        "live-run": Shot(_LARGE, ("4", "f"), live=True),
        "diff": Shot(_MEDIUM, ("4", "n", "n", "n", "n", "5", "z")),
        "compare": Shot(_MEDIUM, ("6", "see:■ finished", "down", "down", "equals_sign", "see:broken", "n")),
        "write": Shot(_LARGE, ("1", "Z", *["down"] * 3, "2")),
        "answers-beside": Shot(_LARGE, ("4", "Z", "Z", "Z", "n", "5")),
        "wide": Shot(_HUGE, ("4", "n")),
        "small": Shot(_SMALL, ("4", "n")),
    },
    COMMAND,
)

SESSION = Reel(
    (120, 34),
    (
        Scene("4 · what failed in this run, in groups with a cause", ("4",), 4),
        Scene("F · the answers, one in a row", ("F",)),
        Scene("n · the next failure", ("n",)),
        Scene("5 z · the answer next to the expected response, and why it failed", ("5", "z"), 5),
        Scene("6 · the runs of the project", ("z", "6", "see:■ finished", "down", "down")),
        Scene("= · what broke, what was fixed, and whether it could be chance", ("equals_sign", "see:broken", "n"), 6),
    ),
)
"""The session that the README begins with, in `session.svg`."""
MOST_BYTES = 1_000_000

BROKEN = """{
  "schemaVersion": "1.11.0",
  "default_evaluators": {"Relevance": {}, "PartialMach": {"threshold": 0.6}},
  "items": [
    {"prompt": "How long is the return period?", "expected_response": "30 days from delivery."},
    {
      "name": "Expense flow",
      "turns": [
        {"prompt": "I spent $250 on dinner. Is that okay?", "expeceted_response": "The allowance is $200."},
        {"prompt": "What now?", "evaluators": {"PartialMatch": {"threshold": 3}}, "evaluators_mode": "replaces"}
      ]
    }
  ]
}
"""


def command_line(folder: Path, *commands: str) -> str:
    """What a terminal shows of some commands, as an SVG that is the same wherever it is made."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    environment = {**os.environ, "FORCE_COLOR": "1", "PYTHONPATH": str(FOLDER.parent)}
    for command in commands:
        console.print(Text.assemble(("$ ", "bold green"), (f"tui-evals {command}", "bold")))
        arguments = [sys.executable, "-m", "tests.coloured", *command.split()]
        done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True)
        console.print(Text.from_ansi(done.stdout + done.stderr))
    return slim(console.export_svg(title="tui-evals", unique_id="tui"))


def pictures_of_commands(folder: Path) -> dict[str, str]:
    """Every picture of the command line by its file name."""
    (folder / "evals").mkdir()
    (folder / "evals" / "evals.json").write_text(BROKEN, encoding="utf-8")
    return {"validate.svg": command_line(folder, "validate")}


def main(names: list[str]) -> None:
    """Write every picture, or those of the workbench that are named; `session` is the recorded session."""
    if not names or "session" in names:
        with tempfile.TemporaryDirectory() as folder:
            recorded = asyncio.run(SESSION.record(played(Path(folder) / "base"), Path(folder)))
            (FOLDER / "session.svg").write_text(recorded, encoding="utf-8")
    if not names:
        with tempfile.TemporaryDirectory() as folder:
            for name, picture in pictures_of_commands(Path(folder)).items():
                (FOLDER / name).write_text(picture, encoding="utf-8")
    if still := [name for name in names or GALLERY.shots if name != "session"]:
        GALLERY.make(still)


if __name__ == "__main__":
    main(sys.argv[1:])
