"""Find the dataset and the project folder when no path was given, and make a project folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any

from tui_evals.datasets.paths import CURRENT_VERSION, DatasetError, Problem, pretty_json
from tui_evals.files import make_folder, make_private_folder, write_atomically
from tui_evals.project_files import MOST, read_head, read_text, resolved

_DATASET_NAMES = ("prompts.json", "evals.json", "tests.json")
STARTER = Path("evals", "evals.json")
ENDINGS = (".json", ".csv", ".jsonl", ".ndjson", ".jsonl.gz", ".csv.gz", ".json.gz", ".yaml", ".yml", ".parquet")
"""How the names of dataset files end."""
_YAML = (".yaml", ".yml")

_GENERATION_FILES = frozenset(
    f"{name}.json"
    for name in (
        *("tests", "test_groundtruth", "test_evals", "rule_evals", "generation", "evals.create", "evals.run"),
        *("test_results", "test_data", "baseline_test_evals", "rule_coverage", "report", "promptpex_context"),
    )
)
"""Files that test generation, or PromptPex itself, writes next to a dataset."""

_PLAIN_ENDINGS = tuple(ending for ending in ENDINGS if not ending.endswith(".gz"))
_NO_DATASETS_IN = frozenset({"node_modules", "__pycache__", "site-packages", "results"})
_DEEPEST = 4
_HEAD = 65536
_MOST_LOOKED_AT = 2**26

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


def dataset_named(word: Path, root: Path) -> Path:
    """The file of a path; where there is none, the only dataset of the project that is called so.

    Its ending and its folder may be left out: `support` is `evals/support.json`. DatasetError names those it could be.
    """
    if word.exists() or word.is_absolute() or len(word.parts) > 1:
        return word
    found = sorted(file for file in dataset_files(root) if word.name in (file.name, _name_without_ending(file)))
    if len(found) > 1:
        names = " or ".join(str(from_here(file)) for file in found)
        raise DatasetError(str(word), [Problem(f"could be {names}; name the file itself")])
    return from_here(found[0]) if found else word


def from_here(file: Path) -> Path:
    """A file by its path from the current folder, where it is in it."""
    here, file = Path.cwd().resolve(), resolved(file)
    return file.relative_to(here) if file.is_relative_to(here) else file


def _name_without_ending(file: Path) -> str:
    ending = max((ending for ending in ENDINGS if file.name.lower().endswith(ending)), key=len, default="")
    return file.name[: len(file.name) - len(ending)] if ending else file.name


def dataset_files(root: Path) -> Iterator[Path]:
    """Files of a project that look like datasets, not too deep and never in hidden folders."""
    for folder, folders, names in os.walk(root):
        here = Path(folder)
        depth = len(here.relative_to(root).parts)
        folders[:] = [
            name for name in folders if not name.startswith(".") and name not in _NO_DATASETS_IN and depth < _DEEPEST
        ]
        yield from (here / name for name in names if name.endswith(_PLAIN_ENDINGS) and may_hold_items(here / name))


def dataset_texts(root: Path) -> Iterator[tuple[Path, str]]:
    """The JSON datasets of a project with their texts, for a first review of what it would do.

    Large or unreadable files are left out; they are reviewed when they are run.
    """
    left = _MOST_LOOKED_AT
    for file in dataset_files(root):
        with suppress(OSError, ValueError):
            if file.suffix == ".json":
                text = read_text(file, most=min(left, MOST))
                left -= len(text)
                yield file, text


def prompt_files(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """The prompt files next to a dataset and in the folders next to it, without those that judge."""
    places = (place for place in sorted(folder.glob("*")) if place.is_dir() and not place.name.startswith("."))
    found = chain(sorted(folder.iterdir()), *(sorted(place.iterdir()) for place in places))
    return [file for file in found if file.name.endswith(suffixes) and ".metric." not in file.name and file.is_file()]


BASELINE = b'"format": "tui-evals baseline'
"""How the file of a baseline begins, which has items too."""
_NO_DATASETS = (b'"evalId"', b'"resourceSpans"', BASELINE)
"""Marks of results of promptfoo, traces and baselines, which also have items and prompts."""
_YAML_ITEMS = re.compile(rb"(?m)^items:\s*$|\A(\s*#.*\n|\s*\n|---\s*\n)*- +\{?(testId|prompt|turns|messages):")
"""How YAML begins that holds items."""


def is_foreign(start: bytes) -> bool:
    """Whether a JSON file that begins like this is results of promptfoo, traces or a baseline and no dataset."""
    return any(mark in start for mark in _NO_DATASETS)


def may_hold_items(file: Path) -> bool:
    """Whether a file can hold a dataset: JSON or YAML with items or a list of them, any table or samples."""
    if is_generation_file(file):
        return False
    if file.suffix not in (".json", *_YAML):
        return file.is_file()
    try:
        start = read_head(file, _HEAD).lstrip(b"\xef\xbb\xbf \t\r\n")
    except OSError:
        return False
    if file.suffix in _YAML:
        return _YAML_ITEMS.search(start) is not None
    if is_foreign(start):
        return False
    return start.startswith(b"[") or (start.startswith(b"{") and (b'"items"' in start or b'"prompts"' in start))


def is_generation_file(file: Path) -> bool:
    """Whether a file belongs to test generation: it has such a name and is next to a `rules.txt`."""
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


TEMPLATES: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "basic": (
        "Basic agent evaluation tests",
        (
            ("What can you help me with?", "I can help you with [specific capabilities]."),
            ("Who are you?", "I'm [agent name], specialized in [domain]."),
        ),
    ),
    "knowledge-base": (
        "Knowledge base accuracy tests",
        (
            ("What is [key concept from your knowledge]?", "[Accurate definition from knowledge base]"),
            ("How do I [perform key task]?", "[Step-by-step guidance from knowledge]"),
        ),
    ),
    "tool-usage": (
        "Plugin and tool integration tests",
        (
            ("What's on my calendar today?", "[Calendar data retrieved via Graph API]"),
            ("Find documents about [topic]", "[Search results from SharePoint/OneDrive]"),
        ),
    ),
}


STARTER_EVALUATORS: Mapping[str, Mapping[str, Any]] = {"PartialMatch": {}}
"""The evaluators of a starter: none needs a judge, because a new project has none."""


def starter_dataset(template: str) -> dict[str, Any]:
    """The dataset of a template."""
    description, pairs = TEMPLATES[template]
    items = [{"prompt": prompt, "expected_response": expected} for prompt, expected in pairs]
    about = {"schemaVersion": CURRENT_VERSION, "description": description}
    return {**about, "default_evaluators": STARTER_EVALUATORS, "items": items}


def write_starter(file: Path, template: str = "basic") -> None:
    """Write a starter dataset where none is yet."""
    if file.exists():
        raise FileExistsError(f"{file} is already there; nothing was written")
    make_folder(file.parent)
    write_atomically(file, pretty_json(starter_dataset(template)).encode("utf-8"))


_DEMO_DATASETS = ("library-assistant.json", "moving-in.json", "wishes-as-json.json")


def make_demo(folder: Path) -> Path:
    """Write the sample project into a folder that holds none yet, and return its first dataset."""
    sources = {f"evals/{source_name}": source_name for source_name in _DEMO_DATASETS} | {
        ".evals/config.toml": "config.toml"
    }
    for path in sources:
        if (folder / path).exists():
            raise FileExistsError(f"{folder / path} is already there; nothing was written")
    make_project(folder)
    make_folder(folder / "evals")
    demo_files = files(__package__) / "demo"
    for path, source_name in sources.items():
        write_atomically(folder / path, (demo_files / source_name).read_bytes())
    return folder / "evals" / _DEMO_DATASETS[0]
