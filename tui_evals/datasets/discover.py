"""Where the dataset and the project are, when nobody says so."""

from __future__ import annotations

from pathlib import Path

NAMES = ("prompts.json", "evals.json", "tests.json")
STARTER = Path("evals", "evals.json")


def discover(folder: Path) -> Path | None:
    """The first dataset among the six usual places: the folder itself, then its `evals/`."""
    places = [place / name for place in (folder, folder / "evals") for name in NAMES]
    return next((place for place in places if place.is_file()), None)


def project_root(folder: Path) -> Path:
    """The nearest folder upwards that holds `.evals/`, else the folder itself."""
    folder = folder.resolve()
    return next((place for place in (folder, *folder.parents) if (place / ".evals").is_dir()), folder)
