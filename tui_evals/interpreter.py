"""The command of every Python we start: the folder it is in, a project of a stranger perhaps, is never a place to
import from, so that no `click.py` of a project takes the place of the one that is installed."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

from tui_evals import version

SAFE_PATH = "PYTHONSAFEPATH"
"""The variable that says -P to a Python whose command others build, as multiprocessing and Dask do."""


_of_projects: dict[str, ModuleType] = {}
"""The modules that were loaded from projects; one of another project may replace them."""


class ModuleTaken(ImportError):
    """A module of a project has the name of one that is loaded already."""


def python_command(*words: str, isolated: bool = False) -> list[str]:
    """The command of this Python with these arguments; `isolated` ignores modules of the environment and the user."""
    return [sys.executable, "-I" if isolated else "-P", *words]


def our_python() -> str:
    """The program of the Python that runs this."""
    return sys.executable


def forbid_core_dumps() -> None:
    """Let this process and its children write no core dumps: they contain keys and answers."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def import_from_project(name: str, root: Path) -> ModuleType:
    """Import a module by name, from the project's folder if it is there. Its imports are searched there last."""
    if str(root) not in sys.path:
        sys.path.append(str(root))
    importlib.invalidate_caches()
    first = name.partition(".")[0]
    spec = PathFinder.find_spec(first, [str(root)])
    # A folder without __init__.py has no origin; an installed package of this name takes precedence, as in Python.
    if spec is not None and spec.loader is not None and spec.origin is not None:
        loaded = sys.modules.get(first)
        if loaded is None:
            _load_first(spec, first)
        elif getattr(loaded, "__file__", None) is None or not _same_file(str(loaded.__file__), spec.origin):
            if _of_projects.get(first) is not loaded:
                raise ModuleTaken(f"{spec.origin} has the name of a module that tui-evals or Python uses; rename it")
            _forget(first)
            _load_first(spec, first)
    return importlib.import_module(name)


def _load_first(spec: ModuleSpec, name: str) -> None:
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    _of_projects[name] = sys.modules[name]


def _forget(name: str) -> None:
    """Unload a module of another project, and its submodules."""
    for each in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
        del sys.modules[each]


def _same_file(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


_FILE = Path(version.__file__)


def _state() -> tuple[int, int, int] | None:
    try:
        status = os.stat(_FILE)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


_known = _state()


def upgrade_sentence() -> str:
    """The message that the installed package changed since this process began; empty if it is the same version.

    Modules are imported when needed, so old code would run with new code from then on.
    """
    global _known
    if (state := _state()) == _known:
        return ""
    try:
        found = re.search(r'__version__ = "(.+?)"', _FILE.read_text(encoding="utf-8"))
    except OSError:
        found = None
    if found is not None and found[1] == version.__version__:
        _known = state
        return ""
    now = f"upgraded to {found[1]}" if found is not None else "removed or replaced"
    return f"tui-evals {version.__version__} was {now} while it was executing this run."
