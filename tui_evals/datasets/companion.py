"""The file next to a file of another format, which holds whole what that format has no place for.

Its name is that of the file with `.tui-evals` after it. It says of which text it is the whole, so one that was left
next to a file that has changed since is known for it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from tui_evals.light_records import dataclass
from tui_evals.project_files import read_bytes
from tui_evals.text import strictjson

ENDING = ".tui-evals"
_MOST = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Companion:
    """What was written next to a file."""

    dataset: dict[str, Any]
    """The dataset that the file was made of."""
    is_whole: bool
    """Whether the file is as it was written; otherwise it was edited since."""


def companion_of(file: Path) -> Path:
    """The name of the companion of a file."""
    return Path(f"{file}{ENDING}")


def companion_text(text: str, dataset: dict[str, Any]) -> str:
    """The companion of a text that was made of a dataset."""
    return strictjson.dumps({"of": _digest(text), "dataset": dataset}) + "\n"


def read_companion(file: Path, text: str) -> Companion | None:
    """What is next to a file with this text; None where there is nothing that can be read."""
    try:
        raw = read_bytes(companion_of(file), most=_MOST, follow_out=True)
        value = strictjson.loads(raw.decode("utf-8"))
    except (OSError, ValueError):
        return None
    dataset = value.get("dataset") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(dataset, dict) or not isinstance(dataset.get("items"), list):
        return None
    return Companion(dataset, value.get("of") == _digest(text))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
