"""Where the dataset and the project are, when nobody says so."""

from __future__ import annotations

from pathlib import Path

NAMES = ("prompts.json", "evals.json", "tests.json")
STARTER = Path("evals", "evals.json")
ENDINGS = (".json", ".csv", ".jsonl", ".ndjson", ".jsonl.gz", ".csv.gz", ".json.gz")
"""How the names of dataset files end."""

_STEPS = frozenset(
    f"{name}.json"
    for name in (
        *("tests", "test_groundtruth", "test_evals", "rule_evals", "generation", "evals.create", "evals.run"),
        *("test_results", "test_data", "baseline_test_evals", "rule_coverage", "report", "promptpex_context"),
    )
)
"""What a generation of tests writes besides its dataset, and what PromptPex wrote."""


def discover(folder: Path) -> Path | None:
    """The first dataset among the six usual places: the folder itself, then its `evals/`."""
    places = [place / name for place in (folder, folder / "evals") for name in NAMES]
    return next((place for place in places if place.is_file() and not is_step(place)), None)


def is_step(file: Path) -> bool:
    """Whether a file is one that a generation works with, and no dataset: it lies beside the rules."""
    return file.name in _STEPS and (file.parent / "rules.txt").exists()


def project_of(file: Path) -> Path:
    """The project of a file: its nearest folder upwards that holds `.evals/`, else the current one, else its own."""
    root, here = project_root(file.absolute().parent), Path.cwd().resolve()
    known = (root / ".evals").is_dir() or not root.is_relative_to(here)
    return root if known else here


def project_root(folder: Path) -> Path:
    """The nearest folder upwards that holds `.evals/`, else the folder itself."""
    folder = folder.resolve()
    return next((place for place in (folder, *folder.parents) if (place / ".evals").is_dir()), folder)
