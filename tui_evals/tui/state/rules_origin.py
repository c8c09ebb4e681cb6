"""What lies beside a dataset that was made from rules: their files, and how they were made."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tui_evals.datasets.prompts import prompt_name
from tui_evals.generate.folder import RECORD, Folder
from tui_evals.generate.shapes import UnreadableFile, lines_of

from .rules import Texts

FILES = ("rules.txt", "inverse_rules.txt")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the rules of a dataset lie as files, and how tests of them are made."""

    folder: Path = field(default_factory=Path)
    most: int | None = None
    target: str | None = None
    texts: Texts | None = None
    """The rules as the files hold them; None without files."""
    cannot: str = ""
    """Why nothing can be made anew here."""


def read_origin(file: Path) -> Origin:
    """What lies beside a dataset; for a thread."""
    folder = Folder(file.parent)
    try:
        record = folder.record
        texts = [folder.read(name) for name in FILES]
    except UnreadableFile as problem:
        return Origin(file.parent, cannot=str(problem))
    found = Texts(*(tuple(lines_of(text)) for text in texts)) if texts[0] is not None else None
    options, targets = (_dict(record.get(name)) for name in ("options", "targets"))
    most, target = options.get("max_rules"), targets.get("rules")
    return Origin(
        file.parent,
        most if isinstance(most, int) else None,
        target if isinstance(target, str) else None,
        found,
        _cannot(file, record.get("prompt")),
    )


def _cannot(file: Path, prompt: object) -> str:
    if not isinstance(prompt, str):
        return (
            f"there is no {RECORD} beside {file.name}, so nobody knows the prompt and the models it was made with; "
            "`tui-evals generate PROMPT` begins a collection that can be made anew rule by rule"
        )
    written = f"{prompt_name(Path(prompt))}.json"
    if file.name != written:
        return f"a generation in this folder writes {written}, and {file.name} is open: open that one (o) first"
    return ""


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
