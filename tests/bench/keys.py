"""What authoring costs in keys: `python -m tests.bench.keys`.

Does each job at a workbench of 80 by 24 and looks at what came of it. Words that are written or searched for are not
counted, every other key is.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.tui.story import Person, at_the_workbench, write

ITEMS = [
    {"testId": "A-1", "prompt": "first", "expected_response": "one"},
    {"testId": "A-2", "prompt": "second", "expected_response": "two"},
]


@dataclass(frozen=True, slots=True)
class Words:
    """What is typed as text."""

    text: str


Step = str | Words
Data = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Job:
    """Something an author wants done: where one begins, the keys that lead there, those it takes, what comes of it."""

    name: str
    place: str
    begin: tuple[str, ...]
    steps: tuple[Step, ...]
    done: Callable[[Data], bool]

    @property
    def keys(self) -> int:
        """How many keys it takes besides the words."""
        return sum(isinstance(step, str) for step in self.steps)

    @property
    def way(self) -> str:
        """The keys as the manual spells them."""
        return " ".join("…" if isinstance(step, Words) else f"`{_NAMES.get(step, step)}`" for step in self.steps)


_NAMES = {"escape": "esc"}


def _first(data: Data) -> Data:
    item: Data = data["items"][0]
    return item


_AT_ITEM = ("1", "g", "j", "2")

JOBS = (
    Job(
        "the next item, with prompt and answer",
        "2",
        _AT_ITEM,
        ("n", Words("Q"), "tab", Words("A"), "escape"),
        lambda data: data["items"][1] == {"prompt": "Q", "expected_response": "A"},
    ),
    Job(
        "another word in the answer under the cursor",
        "2",
        (*_AT_ITEM, "j"),
        ("enter", Words("!"), "escape"),
        lambda data: _first(data)["expected_response"] == "one!",
    ),
    Job(
        "a category",
        "1",
        ("1", "g", "j"),
        ("C", Words("facts"), "enter"),
        lambda data: _first(data)["category"] == "facts",
    ),
    Job(
        "a turn, with prompt and answer",
        "2",
        _AT_ITEM,
        ("t", Words("And?"), "tab", Words("Then"), "escape"),
        lambda data: _first(data)["turns"][1] == {"prompt": "And?", "expected_response": "Then"},
    ),
    Job(
        "one option of an evaluator",
        "2",
        _AT_ITEM,
        ("3", "enter", "enter", Words("4"), "ctrl+s"),
        lambda data: _first(data)["evaluators"] == {"Relevance": {"threshold": 4}},
    ),
    Job(
        "an evaluator for the item",
        "2",
        _AT_ITEM,
        ("3", "a", Words("equals"), "enter"),
        lambda data: _first(data)["evaluators"] == {"Equals": {}},
    ),
    Job(
        "what is written in a box, into the file",
        "2",
        (*_AT_ITEM, "enter", "x"),
        ("ctrl+s",),
        lambda data: _first(data)["prompt"] == "firstx",
    ),
)


async def do_all() -> None:
    """Do every job at one workbench, each on the dataset as it was; AssertionError says what was not done."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = write(folder / "data.json", {"schemaVersion": "1.11.0", "items": ITEMS})
        async with at_the_workbench(folder, dataset="data.json", size=(80, 24)) as person:
            for job in JOBS:
                await _do(person, job)
            await person.until(lambda: json.loads(file.read_text()) == person.app.workspace.data)


async def _do(person: Person, job: Job) -> None:
    space = person.app.workspace
    assert space.editing is not None
    while space.editing.can_undo:
        await person.press("u")
    await person.press(*job.begin)
    for step in job.steps:
        await (person.type(step.text) if isinstance(step, Words) else person.press(step))
    await person.until(lambda: job.done(space.data))


def table() -> str:
    """The jobs as Markdown."""
    rows = [f"| {job.name} | {job.place} | {job.way} | {job.keys} |" for job in JOBS]
    return "\n".join(["| job | from pane | keys | count |", "|---|---|---|---|", *rows])


def main() -> None:
    """Do every job, then print the table."""
    asyncio.run(do_all())
    print(table())


if __name__ == "__main__":
    main()
