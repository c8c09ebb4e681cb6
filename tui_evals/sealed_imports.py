"""Runs only approved code of a project: imported files are hashed, and these bytes are compiled.

`held_to` does this for a part of our own process. `main` starts another Python (`sealed_start.py`): it reads the seal
from a variable, then runs the program of that Python. So nothing of ours is imported here.
"""

from __future__ import annotations

import binascii
import os
import sys
import zlib
from contextvars import ContextVar

try:  # what hashlib would load takes longer than all else here
    from _sha256 import sha256  # type: ignore[import-not-found]
except ImportError:
    from hashlib import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType
    from typing import Any

VARIABLE = "TUI_EVALS_SEAL"
"""The variable that hands a manifest to another Python."""
_CODE = (".py", ".pyc")


class NotAgreed(Exception):
    """Code of the project that was not allowed; not an ImportError, which code takes for a missing package."""


class Seal:
    """The files of a project that may run, by their names from its folder, and their digests."""

    def __init__(self, root: str, area: str, files: Mapping[str, str], *, has_packages: bool = False) -> None:
        self.root, self.area = os.path.realpath(root), os.path.realpath(area)
        """The project's folder, and the clone around it, whose code is never run without approval."""
        self._files = dict(files)
        self._has_packages = has_packages
        """Whether a virtual environment came with the clone, so its packages are not installed ones."""

    @property
    def text(self) -> str:
        """The seal as a text that fits into a variable."""
        words = [
            self.root,
            self.area,
            str(self._has_packages),
            *(word for file in self._files.items() for word in file),
        ]
        data = "\0".join(words).encode("utf-8", "surrogateescape")
        return binascii.b2a_base64(zlib.compress(data), newline=False).decode("ascii")

    @staticmethod
    def of_text(text: str) -> Seal:
        """The seal that a variable holds."""
        data = zlib.decompress(binascii.a2b_base64(text))
        root, area, has_packages, *words = data.decode("utf-8", "surrogateescape").split("\0")
        files = dict(zip(words[::2], words[1::2]))  # noqa: B905 - any Python 3 has to read this
        return Seal(root, area, files, has_packages=has_packages == "True")

    def name_of(self, path: str) -> str | None:
        """The name of a file that came with the clone; None for a file of elsewhere or of an installed package."""
        spelled, real = os.path.abspath(path), os.path.realpath(path)
        for place in (spelled, real):
            if _is_below(place, self.area) and not self._is_installed(spelled):
                name, real_name = os.path.relpath(place, self.root), os.path.relpath(real, self.root)
                return real_name if real_name in self._files and name not in self._files else name
        return None

    def _is_installed(self, place: str) -> bool:
        counted = (each for each in _installed() if not (self._has_packages and _is_below(each, self.area)))
        return any(_is_below(place, folder) for folder in counted)

    def ignores_bytecode(self, path: str) -> bool:
        """Whether a module came with the clone, where bytecode need not belong to the source next to it."""
        return self.name_of(path) is not None

    def check(self, path: str, data: bytes) -> None:
        """Raise NotAgreed if these bytes of a file are not the approved ones."""
        name = self.name_of(path)
        if name is not None and self._files.get(name) != sha256(data).hexdigest():
            raise self._refusal(name)

    def _refusal(self, name: str) -> NotAgreed:
        why = "has changed since" if name in self._files else "is not part of what"
        return NotAgreed(
            f"{name} {why} you agreed to, so it does not run. Read it, then agree with `tui-evals trust {name}`"
        )

    def admit(self, path: str) -> None:
        """Raise NotAgreed before reading a file that was not allowed and may be endless."""
        name = self.name_of(path)
        if name is not None and (name not in self._files or not os.path.isfile(path)):
            raise self._refusal(name)


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)


_installed_folders: list[str] = []


def _installed() -> list[str]:
    """The folders of this Python's own and installed packages, including a virtual environment in the project."""
    if not _installed_folders:
        name = "python%d.%d" % sys.version_info[:2]  # noqa: UP031 - any Python 3 has to read this
        prefixes = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}
        folders = [os.path.join(prefix, lib, name) for prefix in prefixes for lib in ("lib", "lib64")]
        folders += [os.path.dirname(os.__file__), os.path.dirname(os.path.abspath(__file__))]
        site = sys.modules.get("site")
        if site is not None:
            folders += [*getattr(site, "getsitepackages", list)(), *filter(None, [getattr(site, "USER_SITE", None)])]
        _installed_folders.extend({spelled for each in folders for spelled in (each, os.path.realpath(each))})
    return _installed_folders


_held: ContextVar[Seal | None] = ContextVar("held", default=None)
_everywhere: list[Seal] = []
"""The one seal of a process that runs nothing else."""
_seals: dict[str, Seal] = {}
"""The last seal of each clone, whose bytecode is never read in this process."""


class held_to:
    """Restrict imports in this block, and in the tasks and threads it starts, to what the seal names."""

    def __init__(self, seal: Seal | None) -> None:
        self._own = seal
        self._before: Any = None

    def __enter__(self) -> None:
        if self._own is not None:
            _hook()
            _seals[self._own.area] = self._own
            self._before = _held.set(self._own)

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            _held.reset(self._before)


def _seal() -> Seal | None:
    return _held.get() or next(iter(_everywhere), None)


def _ignores_bytecode(path: str) -> bool:
    return any(seal.ignores_bytecode(path) for seal in _seals.values())


def _hook() -> None:
    """Stand where every loader of files gets its bytes, those made by hand from a path included."""
    loaders: Any = sys.modules["_frozen_importlib_external"]
    if getattr(loaders.FileLoader.get_data, "is_sealed", False):
        return
    get_data, get_code = loaders.FileLoader.get_data, loaders.SourceLoader.get_code
    create_extension = loaders.ExtensionFileLoader.create_module

    def sealed_data(self: Any, path: str) -> bytes:
        seal = _seal() if str(path).endswith(_CODE) else None
        if seal is None:
            return get_data(self, path)  # type: ignore[no-any-return]
        seal.admit(str(path))
        data: bytes = get_data(self, path)
        seal.check(str(path), data)
        return data

    def sealed_code(self: Any, fullname: str) -> Any:
        path = self.get_filename(fullname)
        if isinstance(self, loaders.FileLoader) and _ignores_bytecode(path):
            seal = _seal()
            if seal is not None:
                seal.admit(path)
            data = get_data(self, path)
            if seal is not None:
                seal.check(path, data)
            return self.source_to_code(data, path)
        return get_code(self, fullname)

    def sealed_extension(self: Any, spec: Any) -> Any:
        seal = _seal()
        if seal is not None and seal.name_of(self.path) is not None:
            seal.admit(self.path)
            seal.check(self.path, get_data(self, self.path))
        return create_extension(self, spec)

    sealed_data.is_sealed = True  # type: ignore[attr-defined]
    loaders.FileLoader.get_data = sealed_data
    loaders.SourceLoader.get_code = sealed_code
    loaders.ExtensionFileLoader.create_module = sealed_extension
    import zipimport

    for name in ("get_code", "load_module"):
        setattr(zipimport.zipimporter, name, _sealed_archive(getattr(zipimport.zipimporter, name)))


def _sealed_archive(method: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    def sealed(self: Any, fullname: str) -> Any:
        seal = _seal()
        if seal is not None and seal.name_of(self.archive) is not None:
            with open(self.archive, "rb") as stream:
                seal.check(self.archive, stream.read())
        return method(self, fullname)

    return sealed


def sealed_words(form: str, target: str, arguments: Sequence[str]) -> list[str]:
    """The arguments of a Python, after its options, that run a file or a module under the seal in the variable."""
    return [os.path.join(os.path.dirname(os.path.abspath(__file__)), "sealed_start.py"), form, target, *arguments]


def sealed_variables(seal: Seal, variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of such a Python; folders of PYTHONPATH count once the seal does, not before."""
    kept = dict(variables)
    if "PYTHONPATH" in kept:
        kept[f"{VARIABLE}_PYTHONPATH"] = kept.pop("PYTHONPATH")
    return {**kept, VARIABLE: seal.text}


def main(is_plain: bool) -> None:
    """Run what this Python was meant to run, as if nothing had come before it.

    `is_plain` is whether it looks for modules next to a script.
    """
    seal = Seal.of_text(os.environ.pop(VARIABLE))
    form, target, arguments = sys.argv[1], sys.argv[2], sys.argv[3:]
    _installed()
    _everywhere.append(seal)
    _seals[seal.area] = seal
    _hook()
    sys.excepthook = _say_refusal
    _add_python_path()
    program = type(sys)("__main__")
    program.__dict__.update(__builtins__=__builtins__, __annotations__={})
    sys.modules["__main__"] = program
    sys.argv[:] = [target, *arguments]
    if form == "module":
        import runpy

        if is_plain:
            sys.path.insert(0, os.getcwd())
        runpy._run_module_as_main(target)  # type: ignore[attr-defined]
    elif os.path.isdir(target):
        import runpy

        sys.path.insert(0, target)
        runpy._run_module_as_main("__main__", alter_argv=False)  # type: ignore[attr-defined]
    else:
        if is_plain:
            sys.path.insert(0, os.path.dirname(os.path.realpath(target)))
        _run_script(target, seal, program)


def _run_script(target: str, seal: Seal, program: ModuleType) -> None:
    with open(target, "rb") as stream:
        source = stream.read()
    seal.check(target, source)
    loaders: Any = sys.modules["_frozen_importlib_external"]
    loader = loaders.SourceFileLoader("__main__", target)
    program.__dict__.update(__file__=target, __cached__=None, __loader__=loader)
    exec(compile(source, target, "exec", dont_inherit=True), program.__dict__)  # noqa: S102 - the approved code


def _add_python_path() -> None:
    """Apply PYTHONPATH, and import the modules in its folders that a Python imports at its start."""
    value = os.environ.pop(f"{VARIABLE}_PYTHONPATH", None)
    if value is None:
        return
    os.environ["PYTHONPATH"] = value
    if sys.flags.ignore_environment:
        return
    folders = [os.path.abspath(each) for each in value.split(os.pathsep)]
    sys.path[:0] = folders
    loaders: Any = sys.modules["_frozen_importlib_external"]
    for name in () if sys.flags.no_site else ("sitecustomize", "usercustomize"):
        if name not in sys.modules and loaders.PathFinder.find_spec(name, folders) is not None:
            __import__(name)


def _say_refusal(kind: type[BaseException], problem: BaseException, trace: Any) -> None:
    """A refusal in its one sentence, anything else as ever."""
    if isinstance(problem, NotAgreed):
        sys.stderr.write(f"{problem}\n")
    else:
        sys.__excepthook__(kind, problem, trace)
