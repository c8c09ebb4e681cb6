"""The screens of the workbench on a clone, as a person goes through them, and what is drawn on each."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.hostile.workbench import WAYS, go
from tests.tui.story import Person, at_the_workbench
from tui_evals.store.database import StoreError
from tui_evals.tui.actions import Where
from tui_evals.tui.widgets.dialogs import ConfirmPage, Reading

from .animals import Animal
from .watch import MOST_SECONDS, Act, Doing, foreign_bytes

_QUESTION = "question"
_DATASETS = ("evals.json", "data.json", "tags/tags.json", "cases.csv", "samples.jsonl", "packed.json.gz")
_SECONDS = 10.0


def screens_of(animals: Sequence[Animal], number: int) -> list[Act]:
    """The acts that show a clone in the workbench: on a dataset with an animal, if there is one."""
    named = [animal.file for animal in animals if animal.file in _DATASETS]
    dataset = named[0] if named else _DATASETS[number % 3]
    places = [place for place in WAYS if (place == "rules") == (dataset == "tags/tags.json")]
    half = places[number % 2 :: 2]
    return [("@workbench", dataset, ",".join([*half, _QUESTION]))]


def _go_through(root: Path, act: Sequence[str]) -> Sequence[tuple[str, str]]:
    """Open the workbench and go to places; what is drawn is looked at in each."""
    _, dataset, places = act
    found: list[tuple[str, str]] = []
    with contextlib.suppress(StoreError):  # which the command says in a sentence, before there is a screen
        asyncio.run(_visit(root, dataset, places.split(","), found))
    return found


async def _visit(root: Path, dataset: str, places: Sequence[str], found: list[tuple[str, str]]) -> None:
    async with at_the_workbench(root, dataset=dataset) as person:
        for place in places:
            began = time.process_time()
            if place == _QUESTION:
                await person.press("Y")
                await person.until(
                    lambda: isinstance(person.app.screen, ConfirmPage | Reading) or _has_said(person), _SECONDS
                )
            else:
                await go(person, _place(place))
            if (seconds := time.process_time() - began) > MOST_SECONDS:
                found.append(("seconds", f"{place} took {seconds:.1f} s of the processor"))
            drawn = person.screen().replace("\n", "")
            found += [("terminal", f"on {place}: {seen}") for seen in foreign_bytes(drawn.encode(errors="replace"))]


def _place(word: str) -> Where:
    return next(place for place in WAYS if place == word)


def _has_said(person: Person) -> bool:
    """Whether the workbench said in its last line why there is no question."""
    return bool(person.said().strip())


SCREENS: Mapping[str, Doing] = {"@workbench": _go_through}
