"""Whether workers run what the driver runs: the same release of tui-evals on the same Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NAMED = 3
"""Workers a sentence names; the rest are counted."""


@dataclass(frozen=True, slots=True)
class Versions:
    """What one side runs; None is not installed."""

    product: str | None
    python: str

    def __str__(self) -> str:
        """In words."""
        return f"{f'tui-evals {self.product}' if self.product else 'no tui-evals'} on Python {self.python}"


def reported(said: Mapping[str, Any]) -> Versions:
    """What one side runs, from what Dask says of its packages."""
    packages = said["packages"]
    return Versions(packages.get("tui-evals"), ".".join(str(packages["python"]).split(".")[:2]))


def misfits(ours: Versions, theirs: Mapping[str, Versions]) -> dict[str, str]:
    """Workers that differ, each with what it has."""
    return {name: str(versions) for name, versions in sorted(theirs.items()) if versions != ours}


def refusal(ours: Versions, theirs: Mapping[str, Versions]) -> str | None:
    """A sentence about workers that differ, or None."""
    found = misfits(ours, theirs)
    if not found:
        return None
    named = "; ".join(f"{name} has {what}" for name, what in list(found.items())[:NAMED])
    more = f"; {len(found) - NAMED} more differ" if len(found) > NAMED else ""
    return (
        f"Every worker must have what this machine has ({ours}), but {named}{more}. "
        "Install the same there (pip install 'tui-evals[cluster]')."
    )
