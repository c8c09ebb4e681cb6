"""Makes the pictures in screenshots/: `python -m tests.screenshots` writes them, a test compares them."""

import io
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

FOLDER = Path(__file__).parent.parent / "screenshots"
WIDTH = 110

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
    return console.export_svg(title="tui-evals", unique_id="tui-evals")


def pictures(folder: Path) -> dict[str, str]:
    """Every picture by its file name."""
    (folder / "evals").mkdir()
    (folder / "evals" / "evals.json").write_text(BROKEN, encoding="utf-8")
    return {"validate.svg": command_line(folder, "validate")}


def main() -> None:
    """Write every picture."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for name, picture in pictures(Path(folder)).items():
            (FOLDER / name).write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
