"""Runs commands as a person at a terminal does who leaves the workbench with q once it shows; for `.ci/run`.

Knows the standard library alone, because the first command it runs is the one that installs everything else.
"""

from __future__ import annotations

import fcntl
import re
import shutil
import sys
from pathlib import Path

from tests.tui.terminal import Terminal

_SHOWS = "all keys"
_INSTALLED = 1_800.0
"""Seconds; what runs before the workbench may have to fetch and build packages."""


def main(commands: str) -> int:
    """Run what a shell is given; 0 when the workbench came up and everything ended well."""
    shell = shutil.which("bash")
    if shell is None:
        raise SystemExit("there is no bash here to run the commands with")
    with Terminal([shell, "-euo", "pipefail", "-c", commands], Path.cwd(), size=(120, 40)) as terminal:
        try:
            terminal.wait(_SHOWS, _INSTALLED)
            since = len(terminal.raw)
            terminal.press("q")
            code = terminal.end()
        except AssertionError as problem:
            raise SystemExit(f"the workbench did not come up, or did not go: {problem}") from None
        said = terminal.raw[since:].decode("utf-8", "replace")
    if found := re.search(r"the sample project stays in (\S+);", said):
        print(f"the workbench came up on {found[1]} and went")
        _tidy(Path(found[1]))
    return code


def _tidy(project: Path) -> None:
    """Wait for the run that goes on in a sample project, and delete the folder."""
    for lock in project.glob(".evals/locks/*.lock"):
        with open(lock, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
    shutil.rmtree(project, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
