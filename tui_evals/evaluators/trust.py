"""The code that the user approved, by path and content; changed code needs a new approval."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path

from platformdirs import user_state_path

from tui_evals.files import write_private_json
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_bytes, read_text

MAX_FILES = 1_000
MAX_BYTES = 16_000_000


class TrustError(ValueError):
    """Trust cannot be checked: a path without code, or a list of trusted code that cannot be read."""


@dataclass(frozen=True, slots=True)
class TrustedCode:
    """One entry of the list; `unchanged` tells whether the current code is the approved one."""

    path: Path
    digest: str
    unchanged: bool


def trust_unit(path: str | Path) -> Path:
    """The file or folder that is trusted as a whole; `x/x.py` and `x/x.js` mean the folder `x`."""
    resolved = Path(path).resolve()
    return resolved.parent if resolved.suffix in (".py", ".js") and resolved.stem == resolved.parent.name else resolved


def code_files(path: str | Path) -> dict[str, bytes]:
    """Every file of a unit that can run or steer a run, by name; hidden files and bytecode take no part."""
    root = trust_unit(path)
    files: dict[str, bytes] = {}
    left = MAX_BYTES
    for file in [root] if root.is_file() else sorted(root.rglob("*")):
        name = file.relative_to(root) if file != root else Path(file.name)
        if any(part.startswith(".") or part == "__pycache__" for part in name.parts) or not file.is_file():
            continue
        left -= file.stat().st_size
        if left < 0 or len(files) == MAX_FILES:
            raise TrustError(f"{root} holds more than {MAX_FILES} files or 16 MB; keep only code and prompts there")
        files[name.as_posix()] = read_bytes(file)
    if not files:
        raise TrustError(f"there is no code at {root}; name a Python file or the folder of a custom evaluator")
    return files


def code_digest(files: Mapping[str, bytes]) -> str:
    """One hash of names and contents."""
    parts = [(name, hashlib.sha256(data).hexdigest()) for name, data in sorted(files.items())]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def has_digest(path: str | Path, digest: str) -> bool:
    """Whether the code now at a path has this digest."""
    try:
        return code_digest(code_files(path)) == digest
    except (OSError, TrustError):
        return False


class Trust:
    """The user's list of trusted code; `always` trusts everything, `digests` some more code; neither is stored."""

    def __init__(self, folder: Path | None = None, *, always: bool = False, digests: Collection[str] = ()) -> None:
        self._folder = folder or user_state_path("tui_evals")
        self._file = self._folder / "trusted.json"
        self._always = always
        self._digests = frozenset(digests)

    def is_trusted(self, path: str | Path) -> bool:
        """Whether the code now at a path is the code the user agreed to."""
        return self.accepts(path, code_files(path))

    def accepts(self, path: str | Path, files: Mapping[str, bytes]) -> bool:
        """Whether these files are trusted; they were read before, so that the checked content is what runs."""
        if self._always:
            return True
        digest = code_digest(files)
        return digest in self._digests or self._read().get(str(trust_unit(path))) == digest

    def knows_digest(self, digest: str) -> bool:
        """Whether code with this digest was approved, at any path."""
        return self._always or digest in self._digests or digest in self._read().values()

    def trust(self, path: str | Path) -> None:
        """Agree to the code now at a path."""
        self.agree(path, code_digest(code_files(path)))

    def agree(self, path: str | Path, digest: str) -> None:
        """Approve the code of a path with this digest, even if it has changed since."""
        self._write({**self._read(), str(trust_unit(path)): digest})

    def revoke(self, root: Path) -> int:
        """Forget the code below a folder; how many entries there were."""
        entries = self._read()
        left = {path: digest for path, digest in entries.items() if not Path(path).is_relative_to(root.resolve())}
        if left != entries:
            self._write(left)
        return len(entries) - len(left)

    def trusted_code(self) -> list[TrustedCode]:
        """Everything ever agreed to, by path."""
        return [
            TrustedCode(Path(path), digest, has_digest(path, digest)) for path, digest in sorted(self._read().items())
        ]

    def _read(self) -> dict[str, str]:
        try:
            entries = json.loads(read_text(self._file, follow_out=True))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as problem:
            raise TrustError(f"{self._file} cannot be read ({problem}); delete it and trust your code again") from None
        if not isinstance(entries, dict) or not all(isinstance(digest, str) for digest in entries.values()):
            raise TrustError(f"{self._file} is not a list of trusted code; delete it and trust your code again")
        return entries

    def _write(self, entries: Mapping[str, str]) -> None:
        write_private_json(self._file, entries)
