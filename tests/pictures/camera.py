"""Opens the workbench on the scripted project, presses keys and takes a picture once nothing moves any more."""

from __future__ import annotations

import shutil
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from textual.widgets import Input

from tests.pictures.script import Project, UnderWay, under_way
from tests.pictures.still import still_world
from tests.pictures.svg import slim
from tests.tui.story import Person, at_the_workbench
from tui_evals.datasets.discover import make_project
from tui_evals.targets.config_file import write_setting

_NAME = "library"
"""What the folder of the project is called, wherever it is."""

_CALM = 1.2
_CALM_ON_A_BUSY_MACHINE = 8.0
"""How long a picture that differs from the kept one may stay as it is before it counts as different."""
_THEME = "calm-dark"
_SEE = "see:"


@dataclass(frozen=True)
class Shot:
    """What is pressed before a picture is taken; a step that begins with `see:` waits for words on the screen."""

    size: tuple[int, int]
    steps: tuple[str, ...] = ()
    dataset: str = "library-assistant"
    theme: str = _THEME
    empty: bool = False
    """Whether the project has nothing in it yet."""
    live: bool = False
    """Whether a run is going on."""


async def take(shot: Shot, base: Path, folder: Path, kept: str | None = None) -> str:
    """The picture of a shot as an SVG; `kept` is what it is thought to be, which spares waiting when it is."""
    root = folder / _NAME
    with still_world(folder) as clock:
        if shot.empty:
            root.mkdir()
            make_project(root)
        else:
            shutil.copytree(base, root)
        if shot.theme != _THEME:
            write_setting(root, ("ui", "theme"), shot.theme)
        if shot.live:
            async with under_way(Project(root, clock)) as run:
                await run.go_on(0, 14)
                picture = await _taken(shot, root, kept, lambda person: _goes_on(person, run))
        else:
            picture = await _taken(shot, root, kept)
    assert str(folder) not in picture, "the picture names a folder of this machine"
    return picture


async def take_scenes(shot: Shot, scenes: Sequence[Sequence[str]], base: Path, folder: Path) -> list[str]:
    """A picture after the steps of each scene, all in one session on the sample project."""
    root = folder / _NAME
    with still_world(folder):
        shutil.copytree(base, root)
        async with at_the_workbench(root, size=shot.size, dataset=f"evals/{shot.dataset}.json", run="last") as person:
            person.app.set_theme(shot.theme)
            pictures = []
            for steps in scenes:
                await _press(person, steps)
                pictures.append(await _still(person, None))
    assert not any(str(folder) in picture for picture in pictures), "a picture names a folder of this machine"
    return pictures


async def _goes_on(person: Person, run: UnderWay) -> None:
    """Nine more answers come in the next five seconds."""
    await person.sees(
        "running 14/33"
    )  # the results themselves, whose pace begins here; the list of runs may say it before
    await run.go_on(14, 23)
    run.project.clock.now += 5.0  # not before: a run counted between the nine would not be counted again
    await person.sees("running 23/33")
    await _calm(person)
    run.project.clock.now += 1.0  # the run is counted again no sooner
    run.writer.heartbeat(run.rows[0].run)
    await person.until(lambda: person.app.watching.totals and person.app.watching.totals.running == 3)
    await person.sees("▸ running")


async def _taken(
    shot: Shot, root: Path, kept: str | None, meanwhile: Callable[[Person], Awaitable[None]] | None = None
) -> str:
    opened = {} if shot.empty else {"dataset": f"evals/{shot.dataset}.json", "run": "last"}
    async with at_the_workbench(root, size=shot.size, **opened) as person:
        person.app.set_theme(shot.theme)
        if meanwhile is not None:
            await meanwhile(person)
        await _press(person, shot.steps)
        if meanwhile is not None:
            await person.pilot.pause()
        return await _still(person, kept)


async def _press(person: Person, steps: Sequence[str]) -> None:
    for step in steps:
        await _calm(person)
        if step.startswith(_SEE):
            await person.sees(step.removeprefix(_SEE))
        else:
            await person.press(step)
    for line in person.app.screen.query(Input):
        line.cursor_blink = False


def _busy(person: Person) -> bool:
    """Whether something is worked out in the background; what waits for a key is no such thing."""
    return any(worker.is_running for worker in person.app.workers if worker.group != "acts")


async def _calm(person: Person) -> None:
    await person.until(lambda: not _busy(person))


async def _still(person: Person, kept: str | None) -> str:
    """The picture, once it is the one that was kept or has not changed for a while."""
    last, since = "", 0.0
    while True:
        await person.pilot.pause(0.03)
        now = slim(person.app.export_screenshot(title="tui-evals", simplify=True))
        if now != last or _busy(person):
            last, since = now, time.monotonic()
        elif now == kept or time.monotonic() - since > (_CALM if kept is None else _CALM_ON_A_BUSY_MACHINE):
            return now
