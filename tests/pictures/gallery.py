"""A folder of pictures: makes them anew, and tells those that are not as they were."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.pictures.camera import Shot, take
from tests.pictures.script import played


@dataclass(frozen=True)
class Gallery:
    """Pictures by name, where they are kept, and the command that makes them."""

    folder: Path
    shots: Mapping[str, Shot]
    command: str

    def kept(self, name: str) -> str | None:
        """The picture as it is kept."""
        file = self.folder / f"{name}.svg"
        return file.read_text(encoding="utf-8") if file.exists() else None

    async def check(self, name: str, base: Path, folder: Path) -> None:
        """Fail when the program shows something else now; what it shows is left in the folder to be looked at."""
        kept = self.kept(name)
        made = await take(self.shots[name], base, folder, kept)
        (folder / f"{name}.svg").write_text(made, encoding="utf-8")
        assert made == kept, f"{name}.svg is stale (now: {folder / name}.svg); run: {self.command}"

    def make(self, names: list[str]) -> None:
        """Write some pictures, or all."""
        with tempfile.TemporaryDirectory() as scratch:
            base = played(Path(scratch) / "base")
            for name in names or self.shots:
                folder = Path(scratch) / name
                folder.mkdir()
                picture = asyncio.run(take(self.shots[name], base, folder))
                changed = picture != self.kept(name)
                (self.folder / f"{name}.svg").write_text(picture, encoding="utf-8")
                print(f"{name}: {'written' if changed else 'as it was'}")
