"""The folder of a generation: a file for each step, and what wrote it from what."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from tui_evals.datasets.save import write_atomically
from tui_evals.text import strictjson

from .shapes import UnreadableFile, short_hash

RECORD = "generation.json"
EARLIER = "earlier"


class Folder:
    """The files of a generation; what replaces a file keeps the one before under `earlier/`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._record: dict[str, Any] | None = None

    def read(self, name: str) -> str | None:
        """The text of a file; None where there is none or nothing in it."""
        try:
            text = (self.path / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except UnicodeDecodeError:
            raise UnreadableFile(f"{self.path / name} is not UTF-8 text; save the file as UTF-8") from None
        except OSError as problem:
            raise UnreadableFile(f"{self.path / name} cannot be read: {problem.strerror}") from None
        return text if text.strip() else None

    def write(self, name: str, text: str) -> None:
        """Put a text into a file, whole or not at all."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path / name, text.encode("utf-8", "backslashreplace"))

    def set_aside(self, names: Iterable[str], *, copy: bool = False, now: datetime | None = None) -> Path | None:
        """Move files under `earlier/`, or a copy of them, so that they are made anew; where to, if there were any."""
        there = [self.path / name for name in names if (self.path / name).exists()]
        if not there:
            return None
        stamp, number = (now or datetime.now()).strftime("%Y%m%d-%H%M%S"), 0
        while (place := self.path / EARLIER / f"{stamp}{f'-{number}' if number else ''}").exists():
            number += 1
        place.mkdir(parents=True)
        for file in there:
            if copy:
                shutil.copy2(file, place / file.name)
            else:
                file.rename(place / file.name)
        return place

    # -- what wrote what

    @property
    def record(self) -> Mapping[str, Any]:
        """What is known of the generation besides its files: prompt, options, models, and who wrote which file."""
        if self._record is None:
            text = self.read(RECORD)
            try:
                found = strictjson.loads(text) if text else {}
            except strictjson.JsonError as problem:
                raise UnreadableFile(f"{self.path / RECORD} cannot be read: {problem}; delete it to go on") from None
            self._record = found if isinstance(found, dict) else {}
        return self._record

    def note(self, **facts: Any) -> None:
        """Keep facts about the generation."""
        self._record = {**self.record, **facts}
        self.write(RECORD, json.dumps(self._record, ensure_ascii=False, indent=2) + "\n")

    def wrote(self, name: str, text: str, made_from: Iterable[str], by: str | None) -> None:
        """Write the file of a step, and keep what it was made from; a step that only adds to a file names nothing."""
        self.write(name, text)
        sources = {source: short_hash(found) for source in made_from if (found := self.read(source))}
        sources = sources or self._told(name).get("from", {})
        told = {"wrote": short_hash(text), "from": sources, "by": by, "time": round(time.time(), 3)}
        self.note(files={**self._files(), name: {key: value for key, value in told.items() if value}})

    def _files(self) -> dict[str, Any]:
        known = self.record.get("files")
        return known if isinstance(known, dict) else {}

    def _told(self, name: str) -> dict[str, Any]:
        known = self._files().get(name)
        return known if isinstance(known, dict) else {}

    def edited(self, name: str) -> bool:
        """Whether somebody changed a file since a step wrote it."""
        text, told = self.read(name), self._told(name)
        return bool(text and told) and short_hash(text or "") != told.get("wrote")

    def outdated(self, name: str) -> list[str]:
        """The files that have changed since this one was made from them."""
        sources = self._told(name).get("from")
        known = sources if isinstance(sources, dict) else {}
        return [source for source, mark in known.items() if (found := self.read(source)) and short_hash(found) != mark]
