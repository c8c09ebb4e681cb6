"""A project in which every text a person or a model can write is hostile."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

MARKUP = "[/b] [/INST] [@click=app.quit]press[/] [link=http://x]y[/link] [red] array[i]"
BYTES = (
    "\x1b]52;c;aGlqYWNr\x07 \x1b]52;c;aGlqYWNr\x1b\\ \x1b]0;owned\x07 \x1b]8;;http://evil\x1b\\text\x1b]8;;\x1b\\ "
    "\x1b[2J\x1b[31mred \x9b31m \x90payload\x9c \rover \b\b \x07 \x7f \u202eevil\u202c \u2066x\u2069 \u200b\u200b"
)
STRANGE = f"{MARKUP} {BYTES} 日本語 👩‍👩‍👧 é"
LITERAL = ("[/b] [/INST] [@click=app.quit]press[/]",)
FORBIDDEN = (
    b"\x1b]52",
    b"\x1b]0;owned",
    b"\x1b]8;",
    b"\x9b31m",
    b"\xc2\x9b",
    b"\x90payload",
    "\u202e".encode(),
    b"\x1b[31mred",
)


def dataset() -> dict[str, object]:
    one = {
        "testId": f"T-1 {MARKUP}",
        "prompt": STRANGE,
        "expected_response": STRANGE,
        "context": STRANGE,
        "category": STRANGE,
        "notes": STRANGE,
        "tags": [STRANGE],
        "variables": {STRANGE: STRANGE},
    }
    turns = [{"prompt": STRANGE, "expected_response": "x"}, {"prompt": MARKUP, "expected_response": BYTES}]
    talk = {"name": STRANGE, "turns": turns, "category": MARKUP}
    plain = [{"prompt": f"{number} {STRANGE}", "expected_response": MARKUP} for number in range(20)]
    return {
        "schemaVersion": "1.11.0",
        "metadata": {"name": STRANGE},
        "default_evaluators": {"Includes": {}, "PartialMatch": {}, "ExactMatch": {"mode": "equals"}},
        "items": [one, talk, *plain],
    }


def hostile_project(folder: Path) -> Path:
    (folder / "hostile.json").write_text(json.dumps(dataset()))
    (folder / ".evals").mkdir()
    (folder / ".evals" / "config.toml").write_text(
        f'[run]\ntargets = ["odd [/b]"]\n[targets."odd [/b]"]\nmodel = "command:{sys.executable} says.py"\n'
    )
    (folder / "says.py").write_text(f"import sys\nsys.stdout.buffer.write({STRANGE!r}.encode())\n")
    done = subprocess.run(
        [sys.executable, "-m", "tui_evals", "run", "hostile.json", "--quiet", "--name", STRANGE, "--tag", MARKUP],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return folder
