"""What this machine has to keep the code of models away from everything else: bubblewrap, Landlock or nothing.

Code of models sees the interpreter's files and an empty folder, no key, no process, no network. With bubblewrap those
are namespaces; with Landlock alone, rules for files and a filter of system calls. `child/lockdown.py` adds the rules
and the filter wherever the kernel has them, so that one wall stands behind the other.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from tui_evals.interpreter import python_command

IsolationKind = Literal["bubblewrap", "Landlock"]

_SYSTEM = (
    *("/usr", "/bin", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store"),
    *("/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives"),
)
_PROBE_SECONDS = 10.0

NOT_ISOLATED = (
    "not isolated: this machine has neither a bubblewrap nor a Landlock that works, so code of models runs with your "
    "files, your network and your processes within its reach; install bubblewrap, or use a container without keys"
)


@cache
def isolation_kind() -> IsolationKind | None:
    """How code of models is isolated here; None where it is not."""
    if _bubblewrap_works():
        return "bubblewrap"
    return "Landlock" if landlock_works() else None


def landlock_works() -> bool:
    """Whether this kernel restricts files and filters system calls for those who ask it to."""
    from .child import lockdown

    return lockdown.has_seccomp() and lockdown.landlock_version() > 0


def readable_paths() -> tuple[str, ...]:
    """What an interpreter needs to read, outermost first."""
    interpreter = Path(python_command()[0]).resolve().parent
    prefixes = (sys.base_prefix, sys.base_exec_prefix, sys.prefix, sys.exec_prefix, str(interpreter))
    package = str(Path(__file__).with_name("child"))
    return tuple(sorted({*_SYSTEM, *prefixes, package}, key=len))


def launcher(folder: Path, *, approved: bool) -> Sequence[str]:
    """What to put before the command that runs in this folder; code the user approved keeps files and network."""
    program = _installed_bubblewrap() if isolation_kind() == "bubblewrap" else None
    return _bubblewrap(program, folder, approved=approved) if program else ()


def hide_this_process() -> None:
    """Keep the keys of this process from other processes of the same user, while code is allowed to run."""
    from .child import lockdown

    lockdown.hide_from_others()


def _installed_bubblewrap() -> str | None:
    """Where bubblewrap is, unless that is the folder one happens to stand in."""
    program = shutil.which("bwrap") if sys.platform == "linux" else None
    return program if program is not None and os.path.isabs(program) else None


def _bubblewrap(program: str, folder: Path, *, approved: bool) -> list[str]:
    ends = ["--chdir", str(folder), "--"]
    if approved:
        walls = ["--unshare-pid", "--cap-drop", "CAP_SYS_ADMIN", "--cap-drop", "CAP_SYS_PTRACE", "--die-with-parent"]
        return [program, *walls, "--dev-bind", "/", "/", "--proc", "/proc", *ends]
    binds = [part for path in readable_paths() for part in ("--ro-bind-try", path, path)]
    walls = ["--unshare-all", "--cap-drop", "ALL", "--die-with-parent", "--hostname", "sandbox"]
    closed = ["--remount-ro", "/", "--remount-ro", "/dev"]
    return [program, *walls, *binds, "--dev", "/dev", "--bind", str(folder), str(folder), *closed, *ends]


@cache
def _bubblewrap_works() -> bool:
    """Whether there is a bubblewrap that may make namespaces and start this Python in them."""
    program = _installed_bubblewrap()
    if program is None:
        return False
    folder = Path(os.devnull).parent
    for approved in (False, True):
        command = [*_bubblewrap(program, folder, approved=approved), *python_command("-S", "-c", "", isolated=True)]
        if not approved:
            bind = command.index("--bind")
            del command[bind : bind + 3]
        try:
            if subprocess.run(command, capture_output=True, timeout=_PROBE_SECONDS, env={}).returncode:
                return False
        except (OSError, subprocess.TimeoutExpired):
            return False
    return True
