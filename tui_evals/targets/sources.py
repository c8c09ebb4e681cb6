"""The code of a project that may run: the files of a function or command, read once, with their digests.

Nothing is imported. A file counts if an import by name might find it, whichever candidate the interpreter takes. If the
interpreter is known, anything found in other ways is refused when it runs. If it is not, as in a shell script, only the
files on the command line count.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path

from tui_evals.light_records import dataclass
from tui_evals.project_files import open_file, read_bytes, read_head
from tui_evals.sealed_imports import Seal, sealed_variables, sealed_words

from .base import ConfigurationError

UNREADABLE = "unreadable"
"""Replaces the digest of an unreadable file; no content has it, so the file never runs."""
_MOST_FILES = 2000
_LARGEST_PARSED, _LARGEST_PYTHON = 2**22, 2**26
_MOST_BESIDE = 50
_WORD = re.compile(r"[^\s'\"=;|&<>()`$]+")
_MODULE_FILE = re.compile(r"(\w+)(?:\.py|\.pyc|(?:\.[\w-]+)*\.(?:so|pyd))")
_PYTHON = re.compile(r"python(\d(\.\d+)?)?")
_PLAIN_OPTIONS = re.compile(r"-[BbdEIOPqsSuv]+")
_MODULE_OPTION = re.compile(r"-([BbdEIOPqsSuv]*)m(.*)")
_OPTION_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


@dataclass(frozen=True)
class Manifest:
    """The code that one approval covers, as it was read: what is shown is what is approved and what runs."""

    root: Path
    files: tuple[tuple[str, str], ...]
    """The path of each file from the project's folder, and the digest of its content."""
    uncovered: tuple[str, ...] = ()
    """Files next to the code that it may read, and that can change without a question."""
    is_sealed: bool = True
    """Whether only these files can run; else they are those on the command line, and others may be loaded."""
    texts: Mapping[str, bytes] = field(default_factory=dict, compare=False, repr=False)
    """The contents of the clone's files, to show changes."""

    def content(self, name: str) -> str:
        """The content that is approved."""
        return json.dumps([name, self.files])

    @cached_property
    def seal(self) -> Seal:
        """The seal that limits a Python to these files."""
        clone = clone_around(self.root)
        return Seal(str(self.root), str(clone), dict(self.files), has_packages=_has_packages(clone))

    def with_files(self, files: Mapping[str, str]) -> Manifest:
        """The manifest with files that were agreed to by themselves."""
        return replace(self, files=tuple(sorted({**files, **dict(self.files)}.items())))


def clone_around(root: Path) -> Path:
    """The folder that came with the project: all of its repository."""
    real = root.resolve()
    return next((folder for folder in (real, *real.parents) if os.path.lexists(folder / ".git")), real)


def _has_packages(clone: Path) -> bool:
    """Whether a virtual environment is in the repository itself, so that its packages are code of the clone."""
    try:
        return b"pyvenv.cfg" in read_bytes(clone / ".git" / "index", most=2**28, follow_out=True)
    except OSError:
        return False


def project_file(name: str, root: Path) -> Path:
    """The path of a file named relative to the project folder."""
    return root / Path(name).expanduser()


def function_manifest(name: str, root: Path) -> Manifest:
    """The manifest of the modules that a function needs."""
    root, module = root.resolve(), name.rpartition(":")[0]
    if not module.endswith(".py"):
        closure = _Closure(root)
        return closure.of(closure.modules(module))
    file = project_file(module, root)
    packages = (folder / "__init__.py" for folder in file.parents if folder != root)
    return _Closure(root if file.is_relative_to(root) else file.parent.resolve()).of((file, *packages))


def file_manifest(file: Path, root: Path) -> Manifest:
    """The manifest of a file of the project and its imports."""
    folder = file.parent.resolve()
    return _Closure(root.resolve()).of([folder / file.name])


def command_manifest(line: str, root: Path, path: str | None = None) -> Manifest:
    """The files and modules that a command names, and what hides a module of Python's own from a script."""
    root = root.resolve()
    try:
        words = shlex.split(line)
    except ValueError:
        words = []
    command = python_command_of(words, root, path)
    closure = _Closure(root, None if command is None else root / command.target)
    starts = [file for word in sorted({*_WORD.findall(line), *words}) for file in closure.named(word)]
    if command is not None:
        starts += closure.named(command.target)
        starts += [file for folder in (command.folder(root), *closure.path) for file in _shadows(folder)]
    return replace(closure.of(starts), is_sealed=command is not None)


@dataclass(frozen=True, slots=True)
class PythonCommand:
    """A command that has a Python run a file, a folder or a module."""

    python: str
    options: tuple[str, ...]
    form: str
    target: str
    arguments: tuple[str, ...]

    def folder(self, root: Path) -> Path:
        """The folder that it searches first for imports."""
        file = root / self.target
        return root if self.form == "module" else file if file.is_dir() else file.resolve().parent

    def sealed(self, manifest: Manifest, variables: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
        """The words and variables with which it runs nothing else of the project."""
        words = sealed_words(self.form, self.target, self.arguments)
        return [self.python, *self.options, *words], sealed_variables(manifest.seal, variables)


def sealed_command(
    words: Sequence[str], environment: Mapping[str, str], root: Path, code: Manifest | None
) -> tuple[list[str], dict[str, str]]:
    """The words and variables to start a command with, so that a Python runs nothing but the code agreed to."""
    if code is None or not code.is_sealed:
        return list(words), dict(environment)
    command = python_command_of(words, root, environment.get("PATH"))
    if command is None:  # a script that names another program by now
        raise ConfigurationError(f"{words[0]} has changed since you agreed to it. Agree again with `tui-evals trust`")
    return command.sealed(code, environment)


def python_command_of(words: Sequence[str], root: Path, path: str | None = None) -> PythonCommand | None:
    """The command as one of Python; None for another program, or a form without a file or module."""
    if words and not _PYTHON.fullmatch(Path(words[0]).name):
        words = [*_first_line_words(words[0], root), *words] if os.sep in words[0] else []
    if not words or not _PYTHON.fullmatch(Path(words[0]).name):
        return None
    python = str(root / words[0]) if os.sep in words[0] else shutil.which(words[0], path=path)
    rest, options = list(words[1:]), list[str]()
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if (module := _MODULE_OPTION.fullmatch(word)) and (module[2] or rest):
            options += [f"-{module[1]}"] if module[1] else []
            return _made(python, options, "module", [module[2], *rest] if module[2] else rest)
        if _PLAIN_OPTIONS.fullmatch(word) or (word[:2] in ("-W", "-X") and len(word) > 2):
            options.append(word)
        elif word in _OPTION_WITH_VALUE and rest:
            options += [word, rest.pop(0)]
        else:
            return None
    file = root / rest[0] if rest else None
    is_runnable = file is not None and (file.is_file() or (file / "__main__.py").is_file())
    return _made(python, options, "file", rest) if is_runnable and not _is_archive(rest[0]) else None


def _made(python: str | None, options: Sequence[str], form: str, rest: Sequence[str]) -> PythonCommand | None:
    if python is None:
        return None
    return PythonCommand(os.path.abspath(python), tuple(options), form, rest[0], tuple(rest[1:]))


def _is_archive(name: str) -> bool:
    return name.endswith((".zip", ".pyz", ".pyc"))


def _first_line_words(name: str, root: Path) -> list[str]:
    """The interpreter that the first line of a script names."""
    try:
        line = read_head(root / name, 256, follow_out=True).partition(b"\n")[0].decode("utf-8")
    except (OSError, ValueError):
        return []
    words = line[2:].split() if line.startswith("#!") else []
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if word != "-S"]
    return words


def _shadows(folder: Path) -> Iterator[Path]:
    """Files of a folder that any import finds in place of Python's own modules."""
    with suppress(OSError):
        for entry in sorted(os.listdir(folder)):
            found = _MODULE_FILE.fullmatch(entry)
            if (found[1] if found else entry) in sys.stdlib_module_names | {"sitecustomize", "usercustomize"}:
                yield folder / entry if found else folder / entry / "__init__.py"


def _python_path(root: Path) -> list[Path]:
    """Folders of the clone that every Python searches: PYTHONPATH and editable installs.

    All others belong to the user, and no pull changes them.
    """
    clone, value = clone_around(root), os.environ.get("PYTHONPATH")
    folders = [Path(os.path.abspath(root / each)) for each in value.split(os.pathsep)] if value else []
    for environment in (Path(sys.prefix), root / ".venv", root / "venv"):
        for file in environment.glob("lib/python3*/site-packages/*.pth"):
            with suppress(OSError, UnicodeDecodeError):
                lines = read_bytes(file, follow_out=True, most=2**16).decode().splitlines()
                folders += [Path(line) for line in lines if line.startswith("/")]
    return [folder for folder in dict.fromkeys(folders) if folder.is_relative_to(clone)]


class _Closure:
    """Some files, and what Python files among them import from the clone, read once."""

    def __init__(self, root: Path, script: Path | None = None) -> None:
        self._root = root
        self._scripts = {script, script.resolve()} if script is not None else set()
        """Scripts that Python runs, whatever their names."""
        self._clone = clone_around(root)
        self.path = _python_path(root)
        """Folders of the clone that every Python searches."""
        self._listed: dict[str, dict[str, list[str]]] = {}
        self._digests: dict[str, str] = {}
        self._texts: dict[str, bytes] = {}

    def named(self, word: str) -> Iterator[Path]:
        """Files for a word of a command: the file, the main file of a folder, and the module for `-m`."""
        yield self._root / word
        yield self._root / word / "__main__.py"
        yield from self.modules(word)

    def modules(self, name: str, folders: Iterable[Path] | None = None) -> Iterator[Path]:
        """Every file that may be a module of this name, and the packages around it, which are imported before it."""
        parts = name.split(".")
        if not all(part.isidentifier() for part in parts):
            return
        for folder in (self._root, *self.path) if folders is None else folders:
            place = str(folder)
            for part in parts:
                yield from (Path(place, each) for each in self._modules_in(place).get(part, ()))
                place = os.path.join(place, part)
                inside = self._modules_in(place)
                yield from (Path(place, each) for name in ("__init__", "__main__") for each in inside.get(name, ()))

    def _modules_in(self, folder: str) -> Mapping[str, Sequence[str]]:
        """The files of a folder that may be modules, by name; each folder is listed once."""
        if folder not in self._listed:
            found = self._listed[folder] = {}
            with suppress(OSError, ValueError):
                for entry in sorted(os.listdir(folder)):
                    if match := _MODULE_FILE.fullmatch(entry):
                        found.setdefault(match[1], []).append(entry)
        return self._listed[folder]

    def of(self, starts: Iterable[Path]) -> Manifest:
        """The manifest of all of them."""
        waiting = list(starts)
        while waiting and len(self._digests) < _MOST_FILES:
            file = Path(os.path.abspath(waiting.pop()))
            name = os.path.relpath(file, self._root)
            if name not in self._digests and self._came_with_the_clone(file):
                waiting += self._read(file, name)
                if file.resolve() != file:  # a script that a link leads to imports from its own folder
                    waiting.append(file.resolve())
        return Manifest(self._root, tuple(sorted(self._digests.items())), self._beside(), texts=self._texts)

    def _came_with_the_clone(self, file: Path) -> bool:
        try:
            return file.is_relative_to(self._clone) and file.is_file()
        except (OSError, ValueError):  # no name of a file
            return False

    def _read(self, file: Path, name: str) -> Iterable[Path]:
        """Store the digest of a file, and return its imports; a link counts as its target."""
        try:
            is_python = file.suffix in (".py", ".pyc") or file in self._scripts
            with open_file(file, follow_out=True, most=_LARGEST_PYTHON if is_python else None) as stream:
                if os.fstat(stream.fileno()).st_size > _LARGEST_PARSED:
                    self._digests[name] = hashlib.file_digest(stream, "sha256").hexdigest()
                    return ()
                content = stream.read()
        except OSError:
            self._digests[name] = UNREADABLE
            return ()
        self._digests[name] = hashlib.sha256(content).hexdigest()
        if file.resolve().is_relative_to(self._clone):
            self._texts[name] = content
        return self._imported(content, file) if is_python and file.suffix != ".pyc" else ()

    def _imported(self, content: bytes, file: Path) -> Iterator[Path]:
        """Possible paths of the modules that a Python file imports by name."""
        for level, name, takes_all in _imports_of(content, self._digests[os.path.relpath(file, self._root)]):
            folders: Sequence[Path] = (self._root, *self.path, file.parent)
            if level:
                folders = (file.parents[min(level, len(file.parents)) - 1],)
            for each in (name, *(f"{name}{inside}" for inside in (self._all_of(name, folders) if takes_all else ()))):
                yield from self.modules(each.rstrip("."), dict.fromkeys(folders))

    def _all_of(self, package: str, folders: Iterable[Path]) -> Iterator[str]:
        """The modules and packages in a package, any of which its `*` may import."""
        for folder in folders:
            place = folder.joinpath(*filter(None, package.split(".")))
            yield from self._modules_in(str(place))
            with suppress(OSError):
                yield from (
                    name for name in sorted(os.listdir(place)) if "__init__" in self._modules_in(f"{place}/{name}")
                )

    def _beside(self) -> tuple[str, ...]:
        """Files next to the code that are not part of it."""
        found = list[str]()
        for folder in sorted({os.path.dirname(name) for name in self._digests}):
            with suppress(OSError):
                for entry in sorted(os.scandir(self._root / folder), key=lambda each: each.name):
                    name = os.path.join(folder, entry.name)
                    is_code = name in self._digests or entry.name.endswith((".py", ".pyc"))
                    if not is_code and entry.is_file() and not entry.name.startswith("."):
                        found.append(name)
        return tuple(found[:_MOST_BESIDE])


_Import = tuple[int, str, bool]
"""How many folders up, the module, and whether all that is in it is meant."""
_known_imports: dict[str, tuple[_Import, ...]] = {}
"""Imports by digest of the content, because a run reads the same files several times."""
_MOST_KNOWN = 10_000


def _imports_of(content: bytes, digest: str) -> tuple[_Import, ...]:
    if digest not in _known_imports:
        if len(_known_imports) >= _MOST_KNOWN:
            _known_imports.clear()
        try:
            tree = ast.parse(content)
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # Python itself will not run it either
            return ()
        _known_imports[digest] = tuple(dict.fromkeys(each for node in ast.walk(tree) for each in _of_statement(node)))
    return _known_imports[digest]


def _of_statement(node: ast.AST) -> Iterator[_Import]:
    if isinstance(node, ast.Import):
        yield from ((0, each.name, False) for each in node.names)
    elif isinstance(node, ast.ImportFrom):
        before = f"{node.module}." if node.module else ""
        if before:
            yield node.level, node.module or "", False
        for each in node.names:
            yield (node.level, before, True) if each.name == "*" else (node.level, f"{before}{each.name}", False)
    elif isinstance(node, ast.Call) and (name := _looked_up(node)):
        yield 0, name, False


def _looked_up(call: ast.Call) -> str:
    """The module that a call such as import_module("plugins.one") names."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name in ("import_module", "__import__", "run_module") and call.args and isinstance(call.args[0], ast.Constant):
        return str(call.args[0].value)
    return ""
