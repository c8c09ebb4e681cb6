"""The folder of a generation: a file for each step, and a record of what each file was made from."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tui_evals.atomic_files import CannotSave, write_atomically
from tui_evals.text import strictjson

from .shapes import UnreadableFile, short_hash

RECORD = "generation.json"
EARLIER = "earlier"
_NONE: Mapping[str, str] = MappingProxyType({})


def make_folder(folder: Path) -> None:
    """Make a folder unless it exists; CannotSave says why it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise CannotSave(f"the folder {folder} cannot be made: {problem.strerror}") from None


class GenerationFolder:
    """The files of a generation; what replaces a file keeps the one before under `earlier/`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._record: dict[str, Any] | None = None

    def read(self, name: str) -> str | None:
        """The text of a file; None where there is none or nothing in it."""
        try:
            text = (self.path / name).read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            return None
        except UnicodeDecodeError:
            raise UnreadableFile(f"{self.path / name} is not UTF-8 text; save the file as UTF-8") from None
        except OSError as problem:
            raise UnreadableFile(f"{self.path / name} cannot be read: {problem.strerror}") from None
        return text if text.strip() else None

    def write(self, name: str, text: str) -> None:
        """Put a text into a file, whole or not at all."""
        make_folder(self.path)
        write_atomically(self.path / name, text.encode("utf-8", "backslashreplace"))

    def set_aside(
        self, names: Iterable[str] = (), *, copies: Iterable[str] = (), now: datetime | None = None
    ) -> Path | None:
        """Move files under `earlier/` so that they are made anew, and copies of others; where to, if there were any."""
        moved = [file for name in names if (file := self.path / name).exists()]
        copied = [file for name in copies if (file := self.path / name).exists()]
        if not moved and not copied:
            return None
        stamp, number = (now or datetime.now()).strftime("%Y%m%d-%H%M%S"), 0
        while (place := self.path / EARLIER / f"{stamp}{f'-{number}' if number else ''}").exists():
            number += 1
        make_folder(place)
        try:
            for file in copied:
                shutil.copy2(file, place / file.name)
            for file in moved:
                file.rename(place / file.name)
        except OSError as problem:
            raise CannotSave(f"{file} cannot be put into {place}: {problem.strerror}") from None
        return place

    @property
    def record(self) -> Mapping[str, Any]:
        """The facts kept beside the files: prompt, options, models, and who wrote which file from what."""
        if self._record is None:
            text = self.read(RECORD)
            try:
                record = strictjson.loads(text) if text else {}
            except strictjson.JsonError as problem:
                raise UnreadableFile(f"{self.path / RECORD} cannot be read: {problem}; delete it to go on") from None
            self._record = record if isinstance(record, dict) else {}
        return self._record

    def note(self, **facts: Any) -> None:
        """Keep facts about the generation."""
        self._record = {**self.record, **facts}
        self.write(RECORD, json.dumps(self._record, ensure_ascii=False, indent=2) + "\n")

    def write_result(
        self, name: str, text: str, made_from: Iterable[str], by: str | None, texts: Mapping[str, str] = _NONE
    ) -> None:
        """Write the file of a step and record its sources; a step that only adds to a file names none.

        `texts` are sources that are no files of the folder, such as the prompt.
        """
        self.write(name, text)
        sources = {
            source: short_hash(content) for source in made_from if (content := texts.get(source) or self.read(source))
        }
        sources = sources or self._file_record(name).get("from", {})
        # A file may read back otherwise than it was written, where it held line breaks of another kind.
        facts = {"wrote": short_hash(self.read(name) or ""), "from": sources, "by": by, "time": round(time.time(), 3)}
        self.note(files={**self._files(), name: {key: value for key, value in facts.items() if value}})

    def _files(self) -> dict[str, Any]:
        files = self.record.get("files")
        return files if isinstance(files, dict) else {}

    def _file_record(self, name: str) -> dict[str, Any]:
        record = self._files().get(name)
        return record if isinstance(record, dict) else {}

    def edited(self, name: str) -> bool:
        """Whether the user changed a file since a step wrote it."""
        text, facts = self.read(name), self._file_record(name)
        return bool(text and facts) and short_hash(text or "") != facts.get("wrote")

    def outdated(self, name: str, texts: Mapping[str, str] = _NONE) -> list[str]:
        """The sources, files or `texts`, that have changed since this file was made from them."""
        if self.read(name) is None:
            return []
        sources = self._file_record(name).get("from")
        known = sources if isinstance(sources, dict) else {}
        now = {source: texts.get(source) or self.read(source) for source in known}
        return [source for source, mark in known.items() if (content := now[source]) and short_hash(content) != mark]
