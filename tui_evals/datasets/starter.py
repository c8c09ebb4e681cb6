"""The starter datasets that `init` writes, and the project folder beside them."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from tui_evals.atomic_files import write_atomically

from .discover import make_project
from .layout import pretty_json
from .versions import CURRENT_VERSION

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


def starter_dataset(template: str) -> dict[str, Any]:
    """The dataset of a template."""
    description, pairs = TEMPLATES[template]
    items = [{"prompt": prompt, "expected_response": expected} for prompt, expected in pairs]
    return {"schemaVersion": CURRENT_VERSION, "description": description, "items": items}


def write_starter(file: Path, template: str = "basic") -> None:
    """Write a starter dataset where none is yet."""
    if file.exists():
        raise FileExistsError(f"{file} is already there; nothing was written")
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, pretty_json(starter_dataset(template)).encode("utf-8"))


def write_first_questions(file: Path, question: str) -> None:
    """Write a small dataset that needs no judge: something has to be answered, and soon."""
    document = {
        "schemaVersion": CURRENT_VERSION,
        "description": "First questions; add expected responses, and evaluators that hold answers against them",
        "default_evaluators": {"Regex": {"pattern": r"\S"}, "Latency": {"threshold": 30_000}},
        "items": [{"testId": "first", "prompt": question}, {"testId": "second", "prompt": "Say the same in one word."}],
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, pretty_json(document).encode("utf-8"))


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
    (folder / "evals").mkdir(exist_ok=True)
    demo_files = files(__package__) / "demo"
    for path, source_name in sources.items():
        write_atomically(folder / path, (demo_files / source_name).read_bytes())
    return folder / "evals" / _DEMO_DATASETS[0]
