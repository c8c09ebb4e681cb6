"""The sample project: datasets and a configuration that show something without a model."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from .save import write_atomically
from .starter import make_project

_DATASETS = ("library-assistant.json", "moving-in.json", "wishes-as-json.json")


def make_demo(folder: Path) -> Path:
    """Write the sample project into a folder that holds none yet, and return its first dataset."""
    places = {f"evals/{name}": name for name in _DATASETS} | {".evals/config.toml": "config.toml"}
    for place in places:
        if (folder / place).exists():
            raise FileExistsError(f"{folder / place} is already there; nothing was written")
    make_project(folder)
    (folder / "evals").mkdir(exist_ok=True)
    source = files(__package__) / "demo"
    for place, name in places.items():
        write_atomically(folder / place, (source / name).read_bytes())
    return folder / "evals" / _DATASETS[0]
