"""Runs in every state, each made once for all faces through the command line, in a project of their own."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.server import Server, hanging_up, running
from tests.store.helpers import judged, new_run, said
from tui_evals.cli.main import run as command
from tui_evals.store.reader import Reader
from tui_evals.store.records import PlannedAnswer
from tui_evals.store.writer import Writer

CONFIG = """\
[targets.first]
model = "python:answering:answer"
[targets.second]
model = "python:answering:other"
[targets.dear]
model = "python:answering:answer"
concurrency = 1
price = {{ input_per_million = 1, output_per_million = 100 }}
params = {{ max_tokens = 1000 }}
[targets.served]
model = "openai/served"
base_url = "{url}"
price = {{ input_per_million = 1, output_per_million = 1 }}
[targets.dead]
model = "openai/nobody"
base_url = "{dead}"
"""
ANSWERING = """\
def answer(prompt):
    if "lost" in prompt:
        raise ValueError("no answer today")
    return {"text": f"It is {prompt.split()[-1]}", "cost": 0.07, "model": "m-1"}

def other(prompt):
    return f"{prompt.split()[-1]} it is"
"""
ITEMS = [
    {"testId": "good", "prompt": "Say yes", "expected_response": "yes"},
    {"testId": "bad", "prompt": "Say no", "expected_response": "maybe"},
    {"testId": "lost", "prompt": "Be lost", "expected_response": "found"},
]
TALK = {"testId": "talk", "turns": [{"prompt": "Say yes", "ideal": ["Yes", "yes"]}, {"prompt": "Say no"}]}


@dataclass(frozen=True)
class Project:
    """The folder with the runs, and the key of the run in each state."""

    folder: Path
    runs: Mapping[str, str]

    @property
    def store(self) -> Path:
        return self.folder / ".evals" / "evals.db"


def dataset(name: str, items: list[dict[str, object]], **more: object) -> str:
    document = {"schemaVersion": "1.11.0", "default_evaluators": {"Includes": {}}, "items": items, **more}
    Path(name).write_text(json.dumps(document))
    return name


def latest() -> str:
    with Reader(Path(".evals/evals.db")) as reader:
        return next(iter(reader.runs(limit=1))).key


def started(*arguments: str, code: int = 0) -> str:
    assert command(["run", *arguments, "--quiet"]) == code, arguments
    return latest()


def killed() -> str:
    """A run whose process is gone: one answer judged, one not, one in flight, one not begun."""
    with Writer(Path(".evals/evals.db")) as writer:
        items = [{"testId": name, "prompt": f"ask {name}"} for name in "abcd"]
        cells = [PlannedAnswer(n, n, 0, 0, 0, 0, item["testId"]) for n, item in enumerate(items)]
        run = writer.plan(new_run(snapshot=writer.snapshot({"items": items}, "killed.json")), cells)
        with Reader(Path(".evals/evals.db")) as reader:
            ids = list(reader.ids(run.id))

        async def answer() -> None:
            await writer.answered(ids[0], said(cost=0.25, latency_ms=3.0), "answered")
            await writer.scored(ids[0], 1, [judged()], "pass", 100.0)
            await writer.answered(ids[1], said(latency_ms=3.0), "answered")
            writer.running([ids[2]], 1.0)

        asyncio.run(answer())
        writer.run_status(run.id, "running", started=run.created, pid=2**22, host=os.uname().nodename)
    return run.key


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with running() as server:
        server.behave(say="It is yes", markers=False)
        yield server


@pytest.fixture(scope="session")
def every_state(tmp_path_factory: pytest.TempPathFactory, server: Server) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("every-state")
    before = Path.cwd()
    os.chdir(folder)
    try:
        (folder / ".evals").mkdir()
        (folder / "answering.py").write_text(ANSWERING)
        data, one = dataset("data.json", ITEMS), dataset("one.json", ITEMS[:1])
        with hanging_up() as dead:
            (folder / ".evals" / "config.toml").write_text(CONFIG.format(url=server.url, dead=dead))
            hung_up = started(one, "--target", "dead", code=3)
        judged_data = dataset("judged.json", ITEMS[:2], default_evaluators={"Relevance": {}, "Includes": {}})
        runs = {
            "finished": started(data, "--target", "first"),
            "served": started(data, "--target", "served"),
            "cached": started(data, "--target", "served"),
            "several targets": started(data, "--target", "first", "--target", "second"),
            "conversation": started(dataset("talk.json", [TALK, ITEMS[0]]), "--target", "second"),
            "scripted": started(one, "--target", "demo"),
            "unjudged": started(judged_data, "--target", "first", "--without-judges"),
            "nothing judges": started(dataset("none.json", ITEMS[:2], default_evaluators={}), "--target", "first"),
            "nothing can fail": started(
                dataset("easy.json", ITEMS[:2], default_evaluators={"Readability": {}}), "--target", "first"
            ),
            "dead target": hung_up,
            "budget spent": started(data, "--target", "dear", "--no-cache", "--max-cost", "0.15", code=4),
            "interrupted": killed(),
        }
        yield Project(folder, runs)
    finally:
        os.chdir(before)
