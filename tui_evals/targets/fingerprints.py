"""What the code behind a target is, so that a yes to it ends when that code changes.

Counted is the code of the project that is named, and the Python modules of the project which that imports by name.
What code loads in other ways, such as programs it starts and modules it finds by a text, is not seen.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

_MOST_FILES = 2000
_LARGEST_PARSED = 2**22
_WORD = re.compile(r"[^\s'\"=;|&<>()`$]+")
_ENDINGS = (".py", ".so", ".pyd", ".pyc")


def command_fingerprint(line: str, root: Path) -> str:
    """The command as it is written, and the files and modules of the project that it names."""
    with suppress(ValueError):
        words = {*_WORD.findall(line), *shlex.split(line)}
        return _fingerprint(line, (file for word in sorted(words) for file in _named_files(word, root)), root)
    return _fingerprint(line, (file for word in _WORD.findall(line) for file in _named_files(word, root)), root)


def function_fingerprint(name: str, root: Path) -> str:
    """The function as it is named, and the modules of the project behind it; nothing is imported."""
    module = name.rpartition(":")[0]
    if not module.endswith(".py"):
        return _fingerprint(name, _module_files(module, root), root)
    file = project_file(module, root)
    inside = file.resolve().is_relative_to(root.resolve())
    packages = (folder / "__init__.py" for folder in file.parents if folder != root)
    return _fingerprint(name, (file, *packages), root if inside else file.parent)


def project_file(name: str, root: Path) -> Path:
    """A file as it is named from the project's folder."""
    return root / Path(name).expanduser()


def _named_files(word: str, root: Path) -> Iterator[Path]:
    """The file of a word of a command, what a folder of that name runs, and the module that `-m` would find."""
    with suppress(OSError, ValueError):
        yield root / word
        yield root / word / "__main__.py"
        yield from _module_files(word, root)


def _module_files(name: str, folder: Path) -> Iterator[Path]:
    """Where a module may lie, and the packages around it, which are imported before it."""
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        return
    place = folder
    for part in parts:
        place = place / part
        yield from (place.with_suffix(ending) for ending in _ENDINGS)
        yield place / "__init__.py"
        yield place / "__main__.py"
        if part == parts[0] and not (place.is_dir() or place.with_suffix(".py").is_file()):
            yield from sorted(folder.glob(f"{part}.*.so"))
            return


def _fingerprint(name: str, files: Iterable[Path], root: Path) -> str:
    """The digest of every file there is, and of what Python files among them import from the project."""
    home, waiting, digests = root.resolve(), list(files), dict[str, str]()
    while waiting and len(digests) < _MOST_FILES:
        with suppress(OSError, ValueError, RuntimeError):
            file = waiting.pop().resolve()
            if str(file) in digests or not (file.is_relative_to(home) and file.is_file()):
                continue
            with file.open("rb") as stream:
                digests[str(file)] = hashlib.file_digest(stream, "sha256").hexdigest()
            if file.suffix == ".py" and file.stat().st_size < _LARGEST_PARSED:
                waiting += _imported(file, home)
    own = {str(Path(file).relative_to(home)): digest for file, digest in digests.items()}
    return json.dumps([name, sorted(own.items())])


def _imported(file: Path, root: Path) -> Iterator[Path]:
    """Where the modules may lie that a Python file imports by name."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # Python itself will not run it either
        return
    folders: tuple[Path, ...]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names, folders = [each.name for each in node.names], (root, file.parent)
        elif isinstance(node, ast.ImportFrom):
            above = file.parents[min(node.level, len(file.parents)) - 1] if node.level else None
            folders = (above,) if above is not None else (root, file.parent)
            before = f"{node.module}." if node.module else ""
            names = [before.rstrip("."), *(f"{before}{each.name}" for each in node.names)]
        else:
            continue
        for name in filter(None, names):
            for folder in folders:
                yield from _module_files(name, folder)
