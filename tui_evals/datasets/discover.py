"""Find the dataset and the project folder when no path was given, and make a project folder."""

from __future__ import annotations

from pathlib import Path

from tui_evals.atomic_files import write_atomically
from tui_evals.private_files import make_private_folder

_DATASET_NAMES = ("prompts.json", "evals.json", "tests.json")
STARTER = Path("evals", "evals.json")
ENDINGS = (".json", ".csv", ".jsonl", ".ndjson", ".jsonl.gz", ".csv.gz", ".json.gz")
"""How the names of dataset files end."""

_GENERATION_FILES = frozenset(
    f"{name}.json"
    for name in (
        *("tests", "test_groundtruth", "test_evals", "rule_evals", "generation", "evals.create", "evals.run"),
        *("test_results", "test_data", "baseline_test_evals", "rule_coverage", "report", "promptpex_context"),
    )
)
"""Files that test generation, or PromptPex itself, writes beside a dataset."""

_GITIGNORE = """\
# The database, logs and results stay on this machine; the configuration and the suites are shared.
*
!.gitignore
!config.toml
!suites/
!suites/*.json
"""


def find_dataset(folder: Path) -> Path | None:
    """The first dataset among the six usual places: the folder itself, then its `evals/`."""
    places = [place / name for place in (folder, folder / "evals") for name in _DATASET_NAMES]
    return next((place for place in places if place.is_file() and not is_generation_file(place)), None)


def is_generation_file(file: Path) -> bool:
    """Whether a file belongs to test generation: it has such a name and lies beside a `rules.txt`."""
    return file.name in _GENERATION_FILES and (file.parent / "rules.txt").exists()


def project_of(file: Path) -> Path:
    """The project folder of a file: the nearest above it with `.evals/`, else the working directory around it."""
    root, working_folder = project_root(file.absolute().parent), Path.cwd().resolve()
    is_project = (root / ".evals").is_dir() or not root.is_relative_to(working_folder)
    return root if is_project else working_folder


def project_root(folder: Path) -> Path:
    """The nearest folder upwards that holds `.evals/`, else the folder itself."""
    folder = folder.resolve()
    return next((place for place in (folder, *folder.parents) if (place / ".evals").is_dir()), folder)


def make_project(root: Path) -> Path:
    """The project's `.evals/`, readable by its owner only, with a `.gitignore` that keeps the configuration."""
    folder = root / ".evals"
    make_private_folder(folder)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        write_atomically(ignore, _GITIGNORE.encode("utf-8"))
    return folder
