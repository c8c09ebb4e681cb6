"""Having tests or an inverse rule made anew from the rules screen: asked for, started, listened to, and read in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from tui_evals.datasets.problems import DatasetError
from tui_evals.tui.lines import row, wrapped
from tui_evals.tui.messages import Changed, Kind
from tui_evals.tui.state.launching import NotStarted
from tui_evals.tui.state.making import Making, Remake, make, price
from tui_evals.tui.state.rules import Line
from tui_evals.tui.views.rules import message_rows

from .ask import Reading
from .makeform import MakeForm
from .rules_acts import agreed

if TYPE_CHECKING:
    from tui_evals.tui.app import Workbench

    from .rules import RulesScreen


async def tests_anew(screen: RulesScreen, line: Line) -> None:
    """Have the tests of a rule made anew; one that is not tested yet is tested from now on."""
    if not await agreed(screen):
        return
    texts, most = screen.book.sheet.texts, None
    number = line.rule.number
    if not number:
        most = line.rule.of
        number = texts.rules(most)[line.key].number
    name = f"inverse rule {number}" if line.rule.inverse else f"rule {number}"
    many = f"its {len(line.tests)} tests are" if len(line.tests) > 1 else "its test is"
    count = f"{many} replaced" if line.tests else "it has none yet"
    more = f"; the first {most} rules are tested from now on" if most else ""
    remake = Remake(screen.book.origin.folder, "rule", number, f"the tests of {name}", most)
    await _start(screen, remake, f"make tests of {name} ({count}{more})")


async def inverse_anew(screen: RulesScreen, line: Line) -> None:
    """Have the inverse of an output rule written anew."""
    if not await agreed(screen):
        return
    if not screen.book.sheet.texts.paired:
        screen.tell(
            "there are not as many inverse rules as rules, so nobody knows which belongs to which: mend "
            "inverse_rules.txt, or make all of them anew with `tui-evals generate FOLDER --from inverse`",
            "warn",
        )
        return
    says = f"the inverse of rule {line.rule.of}"
    remake = Remake(screen.book.origin.folder, "inverse", line.rule.of, says)
    await _start(screen, remake, f"write {says} anew; the tests of the old one stay")


async def _start(screen: RulesScreen, remake: Remake, title: str) -> None:
    app, workspace = cast("Workbench", screen.app), screen.workspace
    editing = workspace.editing
    if editing is None:
        return

    async def asked(values: Mapping[str, Any]) -> str:
        return await price(workspace.root, workspace.database, remake, values)

    settings = workspace.settings
    target = screen.book.origin.target or next(iter((*settings.run.targets, *settings.targets)), None)
    given = await app.push_screen_wait(MakeForm(title, settings, target, asked))
    if given is None or screen.making_now:
        return
    making = screen.making = Making(remake, editing)
    # On the app, so that it is listened to when one is back at the panes too.
    app.run_worker(_made(screen, making, given), group="generating", name="generating", exit_on_error=False)
    screen.refresh_all()


async def _made(screen: RulesScreen, making: Making, values: Mapping[str, Any]) -> None:
    """Listen until it is over, then read the dataset it wrote."""
    workspace = screen.workspace
    try:
        await make(making, workspace.root, workspace.database, values, screen.refresh_all)
    except NotStarted as problem:
        making.code = 1
        making.problems.append(str(problem))
    says, kind = await _read_in(screen, making)
    screen.book.touch()
    screen.refresh_all()
    if kind != "error" or not screen.is_current:
        screen.say_anywhere(says, kind)
        return
    screen.tell("nothing was made", "warn")
    why = _why(making) if making.code else says
    screen.app.push_screen(Reading("why it was not made", lambda width: [row(line) for line in wrapped(why, width)]))


async def _read_in(screen: RulesScreen, making: Making) -> tuple[str, Kind]:
    what, editing = making.remake.says, making.editing
    seconds = f"{time.monotonic() - making.began:.0f} s"
    if making.code and making.stopped:
        return f"{what}: stopped; what was made before that is kept in the files", "warn"
    if making.code:
        return f"{what} could not be made: {_why(making)}", "error"
    if editing.dirty:
        return (
            f"{what}: made in {seconds} and written to {editing.document.file.name}, but you have edited the dataset "
            "since: ctrl+s asks which of the two counts",
            "warn",
        )
    try:
        await asyncio.to_thread(editing.reload)
    except DatasetError as problem:
        return f"{what}: made, but {problem}", "error"
    if screen.workspace.editing is editing:
        screen.workspace.settle()
    screen.app.post_message(Changed())
    return f"{what}: made in {seconds}; m shows what was said", "info"


def _why(making: Making) -> str:
    return " ".join(making.problems[-6:]) or "it said nothing; m shows how far it came"


def show_messages(screen: RulesScreen) -> None:
    """What the last generation said."""
    making = screen.making
    if making is not None:
        said = [making.remake.says, "", *making.said]
        screen.app.push_screen(Reading("what was said", lambda width: message_rows(said, width)))
