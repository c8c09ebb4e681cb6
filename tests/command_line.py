"""The command line in a folder of its own: the fixtures that tests of every room share."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.helpers import Shell


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder that is the current one, and the interpreter afterwards as it was."""
    monkeypatch.chdir(tmp_path)
    interval = sys.getswitchinterval()
    yield tmp_path
    sys.setswitchinterval(interval)


@pytest.fixture
def dataset(folder: Path) -> Callable[..., str]:
    """`dataset(items, evaluators)` writes a dataset and gives its name."""

    def written(items: list[dict[str, Any]], evaluators: dict[str, Any], name: str = "data.json") -> str:
        document = {"schemaVersion": "1.11.0", "default_evaluators": evaluators, "items": items}
        (folder / name).write_text(json.dumps(document))
        return name

    return written


@pytest.fixture
def answers(folder: Path) -> Callable[[list[str | None]], str]:
    """`answers(texts)` is a target that gives item n the text n, and no answer where it is None."""

    def written(texts: list[str | None]) -> str:
        rows = [{"prompt": f"ask {n}", "response": text} for n, text in enumerate(texts) if text is not None]
        (folder / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) or "\n")
        return "replay:answers.jsonl"

    return written
