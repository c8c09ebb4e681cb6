"""What authoring costs in keys, and what it takes to know how a run went: `python -m tests.bench.keys`.

Does each job at a workbench of 80 by 24 and looks at what came of it, and presses the keys of each question until the
answer is on that screen. Words that are written or searched for are not counted, every other key is.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, patch

from tests.store.helpers import judged, new_run, said
from tests.tui.story import Person, at_the_workbench, write
from tui_evals.store.baselines import set_baseline
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.records import PlannedAnswer
from tui_evals.store.writer import Writer
from tui_evals.tui.runs import starting

ITEMS = [
    {"testId": "A-1", "prompt": "first", "expected_response": "one"},
    {"testId": "A-2", "prompt": "second", "expected_response": "two", "variables": {"town": "Ash"}},
]

TOOLS = [{"type": "function", "function": {"name": "find_order", "parameters": {"type": "object"}}}]


@dataclass(frozen=True, slots=True)
class Words:
    """What is typed as text, or pasted."""

    text: str
    pasted: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """What is waited for on the screen."""

    text: str


Step = str | Words | Seen
Data = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Job:
    """Something an author wants done: where one begins, the keys that lead there, those it takes, what comes of it."""

    name: str
    place: str
    begin: tuple[Step, ...]
    steps: tuple[Step, ...]
    done: Callable[[Data], bool]

    @property
    def keys(self) -> int:
        """How many keys it takes besides the words."""
        return sum(isinstance(step, str) for step in self.steps)

    @property
    def way(self) -> str:
        """The keys as the manual spells them."""
        steps = [step for step in self.steps if not isinstance(step, Seen)]
        return " ".join("…" if isinstance(step, Words) else f"`{_NAMES.get(step, step)}`" for step in steps)


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
        "a list option of an evaluator",
        "3",
        (*_AT_ITEM, "3", "a", *"containsall", "enter"),
        ("enter", "enter", Words("red\nblue"), "ctrl+s"),
        lambda data: _first(data)["evaluators"] == {"ContainsAll": {"values": ["red", "blue"]}},
    ),
    Job(
        "a file that goes along",
        "2",
        _AT_ITEM,
        ("a", Words("attach"), "enter", Words("lamp"), "enter"),
        lambda data: _first(data)["attachments"] == ["pictures/lamp.png"],
    ),
    Job(
        "tags on two marked items",
        "1",
        ("1", "g", "j"),
        ("space", "space", "#", Words("smoke, vip"), "enter"),
        lambda data: [item.get("tags") for item in data["items"]] == [["smoke", "vip"]] * 2,
    ),
    Job(
        "items of a table that is pasted",
        "1",
        ("1", "g", "j"),
        ("v", Words("testId,prompt,country\nB-1,town?,Norway\nB-2,town?,Poland", pasted=True), "escape"),
        lambda data: (
            [item.get("variables") for item in data["items"][2:]] == [{"country": "Norway"}, {"country": "Poland"}]
        ),
    ),
    Job(
        "a rubric of your own",
        "2",
        _AT_ITEM,
        ("3", "a", Words("new: rubric"), "enter", Words("Is it polite?"), "escape"),
        lambda data: _first(data).get("evaluators") == {"Rubric": {"criteria": "Is it polite?"}},
    ),
    Job(
        "a user whom a model plays",
        "2",
        _AT_ITEM,
        ("a", Words("user"), "enter", Words("a refund"), "tab", Words("in a hurry"), "ctrl+s"),
        lambda data: _first(data)["user"] == {"goal": "a refund", "persona": "in a hurry"},
    ),
    Job(
        "a tool result",
        "2",
        _AT_ITEM,
        ("a", Words("tool_r"), "enter", "enter", "escape"),
        lambda data: _first(data)["tool_results"] == [{"tool": "find_order", "result": "what it gives"}],
    ),
    Job(
        "a variable in a prompt, completed",
        "2",
        _AT_ITEM,
        ("enter", Words(" in {{t"), "right", "escape"),
        lambda data: _first(data)["prompt"] == "first in {{town}}",
    ),
    Job(
        "five proposed items, all kept",
        "1",
        ("1", "escape", "g", "j"),
        (
            *("ctrl+g", Seen("harder variants"), "enter", Seen("1 call"), "y"),
            *(Seen("5 to decide"), "A"),
        ),
        lambda data: len(data["items"]) == 7 and "first" in data["items"][5]["prompt"],
    ),
    Job(
        "back to before the last save",
        "1",
        ("1", "g", "j", "D", "ctrl+s", Seen("saved data.json")),
        ("H", Seen("before this save"), "enter"),
        lambda data: len(data["items"]) == 2,
    ),
    Job(
        "save while writing",
        "2",
        (*_AT_ITEM, "enter", "x"),
        ("ctrl+s",),
        lambda data: _first(data)["prompt"] == "firstx",
    ),
)


@dataclass(frozen=True, slots=True)
class Question:
    """Something one wants to know of a run, or have done about it: the keys from the results, and what is seen then."""

    name: str
    keys: tuple[str, ...]
    seen: tuple[str, ...]
    stopped: bool = False
    """It is asked of a run that stopped, not of one that is finished."""

    @property
    def way(self) -> str:
        """The keys as the manual spells them."""
        return " ".join(f"`{key}`" for key in self.keys) or "none: shown above the results"


MOST_KEYS = 2
"""More keys no question may take."""

QUESTIONS = (
    Question("what failed first", ("n", "5"), ("✗ fail", "t-2", "Match 0: because it says no")),
    Question("why did it stop", (), ("! interrupted 5/10", "5 interrupted", "stopped: the budget"), stopped=True),
    Question("only the errors again", ("p", "y"), ("resuming",)),
    Question("which target is better", (), ("large  88.9 % (55–100)", "small  50.0 % (22–78)")),
    Question("better than the baseline", (), ("+77.8 on nightly-7, better (p = 0.031)", "no difference")),
    Question("what did it cost", (), ("$0.380 of $2.00",)),
)


async def _stored(folder: Path, name: str, **targets: str) -> str:
    """A run of a dataset, whose answers pass, fail, are errors or are not there as letters say; its key."""
    count = len(next(iter(targets.values())))
    items = [{"testId": f"t-{number}", "prompt": f"question {number}"} for number in range(count)]
    planned = [
        PlannedAnswer(number * len(targets) + target, number, 0, 0, target, 0, f"t-{number}")
        for number in range(count)
        for target in range(len(targets))
    ]
    path = open_store(folder / ".evals" / "evals.db")
    with Writer(path) as writer, Reader(path) as reader:
        snapshot = writer.snapshot({"items": items}, "data.json")
        given = {"source": "data.json", "targets": tuple(targets), "config": {"terms": {"max_cost": 2.0}}}
        run = writer.plan(new_run(name=name, snapshot=snapshot, **given), planned)
        for row in list(reader.all_rows(run.id)):
            letter = list(targets.values())[row.target][row.item]
            if letter == "e":
                await writer.answered(row.id, said(None, code="gone", message="nobody was there"), "error")
            elif letter != ".":
                score = judged(score=float(letter == "p"), reason=f"because it says {'yes' if letter == 'p' else 'no'}")
                await writer.answered(row.id, said(cost=0.02), "answered")
                await writer.scored(row.id, 1, [score], "pass" if letter == "p" else "fail", 100.0 * (letter == "p"))
        over = not any("." in letters for letters in targets.values())
        if over:
            writer.run_status(run.id, "finished")
        else:
            writer.run_status(run.id, "interrupted", message="the budget is spent", code="budget")
        return run.key


async def ask_all() -> None:
    """Ask every question where one sees the results; AssertionError says what was not on the screen."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "data.json", {"schemaVersion": "1.11.0", "items": ITEMS})
        before = await _stored(folder, "nightly-7", large="ffpfffffff", small="pfpfpfpfpf")
        with Reader(folder / ".evals" / "evals.db") as reader, Writer(folder / ".evals" / "evals.db") as writer:
            set_baseline(writer, "data.json", reader.find_run(before).id, "somebody")
        finished = await _stored(folder, "nightly-8", large="ppppppppfe", small="ppfffpfpfp")
        stopped = await _stored(folder, "nightly-9", large="ppfpp.....")
        begun: list[list[str]] = []
        # No process is to be started here: what would be executed is kept.
        with (
            patch.object(starting, "_stored_job", lambda run, app: None),
            patch.object(starting, "_approved", AsyncMock(return_value=True)),
            patch.object(starting, "start_detached", lambda path, key, words, *_, **__: begun.append(words)),
        ):
            for key in (finished, stopped):
                async with at_the_workbench(folder, run=key, size=(80, 24)) as person:
                    for question in QUESTIONS:
                        if question.stopped == (key == stopped):
                            await person.press("4", "g")
                            await person.press(*question.keys)
                            await person.until(lambda asked=question: all(one in person.screen() for one in asked.seen))
        assert [words[:3] for words in begun] == [["resume", finished, "--errors"]]


def questions_table() -> str:
    """The questions as Markdown."""
    rows = [f"| {question.name} | {question.way} | {len(question.keys)} |" for question in QUESTIONS]
    return "\n".join(["| question | keys | count |", "|---|---|---|", *rows])


async def do_all() -> None:
    """Do every job at one workbench, each on the dataset as it was; AssertionError says what was not done."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = write(folder / "data.json", {"schemaVersion": "1.11.0", "items": ITEMS, "tools": TOOLS})
        (folder / "pictures").mkdir()
        (folder / "pictures" / "lamp.png").write_bytes(b"\x89PNG\r\n\x1a\n")
        async with at_the_workbench(folder, dataset="data.json", size=(80, 24)) as person:
            for job in JOBS:
                await _do(person, job)
            await person.until(lambda: json.loads(file.read_text()) == person.app.workspace.data)


async def _do(person: Person, job: Job) -> None:
    space = person.app.workspace
    assert space.editing is not None
    while space.editing.can_undo:
        await person.press("u")
    for step in (*job.begin, *job.steps):
        if isinstance(step, Seen):
            await person.sees(step.text)
        elif isinstance(step, str):
            await person.press(step)
        elif step.pasted:
            await person.paste(step.text)
        else:
            await person.type(step.text)
    await person.until(lambda: job.done(space.data))


def table() -> str:
    """The jobs as Markdown."""
    rows = [f"| {job.name} | {job.place} | {job.way} | {job.keys} |" for job in JOBS]
    return "\n".join(["| job | from pane | keys | count |", "|---|---|---|---|", *rows])


def main() -> None:
    """Do every job and ask every question, then print the tables."""
    asyncio.run(do_all())
    asyncio.run(ask_all())
    print(f"{table()}\n\n{questions_table()}")


if __name__ == "__main__":
    main()
