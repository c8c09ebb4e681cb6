"""The metrics of the libraries in a Python, as that Python tells them."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from tui_evals.light_records import dataclass

from .worker import environment, python_words

SECONDS = 180.0


class CannotList(Exception):
    """The Python did not tell; the message says why."""


@dataclass(frozen=True, slots=True)
class InstalledLibrary:
    """A library, its release, and the inputs of each of its metrics, or why it cannot be imported."""

    name: str
    version: str
    metrics: dict[str, list[str]]
    problem: str = ""


def installed_libraries(python: str) -> list[InstalledLibrary]:
    """The libraries that are installed for a Python; they are imported there."""
    with tempfile.TemporaryDirectory(prefix="tui-evals-") as name:
        folder = Path(name).resolve()
        try:
            done = subprocess.run(
                python_words(python, "listing"),
                cwd=folder,
                env=environment(folder),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
            said = json.loads(done.stdout)
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise CannotList(f"{python} cannot be started: {problem}") from None
        except ValueError:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise CannotList(
                f"{python} did not tell what it has: {lines[-1] if lines else 'it said nothing'}"
            ) from None
    return [
        InstalledLibrary(library, one["version"], one.get("metrics", {}), one.get("problem", ""))
        for library, one in said.items()
        if one is not None
    ]
