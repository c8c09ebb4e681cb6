"""Has tests or an inverse rule made anew: a small form that says what it costs, the process, and its outcome."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tui_evals.datasets.problems import DatasetError
from tui_evals.generate.folder import RECORD
from tui_evals.generate.session import our_spelling
from tui_evals.runs.approving import agree_to_typed, find_typed, missing_of_targets
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import FILE, Settings, find_target
from tui_evals.targets.permissions import Permission
from tui_evals.tui.approving import NOT_AGREED, approve
from tui_evals.tui.messages import Severity, StateChanged
from tui_evals.tui.rows import row, wrapped
from tui_evals.tui.widgets.dialogs import Reading
from tui_evals.tui.widgets.form import DONE, Faults, Field, Form, Values

from .actions import files_agree
from .generation import NotStarted, Regeneration, RegenerationProgress, price_regeneration, run_regeneration
from .rows import message_rows
from .state import RuleLine
from .view import RulesView

_PAUSE = 0.2


_NO_TARGET = "who is to write it? Choose a target; demo is offline, free, and writes by a script"


Price = Callable[[Mapping[str, Any]], Awaitable[str]]


class RegenerationForm(Form):
    """Says what it costs each time a value changes; the answer is the values."""

    def __init__(self, says: str, settings: Settings, target: str | None, price: Price) -> None:
        known = tuple(dict.fromkeys((*settings.answering, "demo", *([target] if target else []))))
        fields = (
            Field("target", "choice", "What writes it: a target of .evals/config.toml, or the offline demo.", known),
            Field("other target", "text", "Another model in its place, such as openai/gpt-4o-mini."),
            Field("budget", "number", "Stop before more US dollars are spent.", default="none"),
        )
        values = {"target": target} if target else {}
        super().__init__(says, fields, values, check=self._faults, done="start", says="…")
        self._price = price
        self._refused = ""

    def on_mount(self) -> None:
        """The cursor begins where enter starts it, once that can be done."""
        self.values_changed()
        if not self._faults(self.values):
            self._lines.show(self._rows, at=DONE)

    def _faults(self, values: Values) -> Faults:
        if not (values.get("target") or values.get("other target")):
            return {"target": _NO_TARGET}
        if values.get("budget") is not None and values["budget"] <= 0:
            return {"budget": "more than 0"}
        return {"": self._refused} if self._refused else {}

    def values_changed(self) -> None:
        """Work out again what it comes to."""
        self._refused = ""
        if self._faults(self.values):
            self.redraw("")
            return
        self.redraw("working out what it costs…")
        self.run_worker(self._work_out(), group="price", exclusive=True, exit_on_error=False)

    async def _work_out(self) -> None:
        await asyncio.sleep(_PAUSE)
        try:
            message = await self._price(self.values)
        except NotStarted as problem:
            self._refused = str(problem)
            self.redraw("")
        else:
            self.redraw(message)


async def remake_tests(screen: RulesView, line: RuleLine) -> None:
    """Have the tests of a rule made anew; one that is not tested yet is tested from now on."""
    if not await files_agree(screen):
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
    remake = Regeneration(screen.book.origin.folder, "rule", number, f"the tests of {name}", most)
    await _start_regeneration(screen, remake, f"make tests of {name} ({count}{more})")


async def remake_inverse(screen: RulesView, line: RuleLine) -> None:
    """Have the inverse of an output rule written anew."""
    if not await files_agree(screen):
        return
    if not screen.book.sheet.texts.paired:
        screen.tell(
            "there are not as many inverse rules as rules, so nobody knows which belongs to which: mend "
            "inverse_rules.txt, or make all of them anew with `tui-evals generate FOLDER --from inverse`",
            "warn",
        )
        return
    message = f"the inverse of rule {line.rule.of}"
    remake = Regeneration(screen.book.origin.folder, "inverse", line.rule.of, message)
    await _start_regeneration(screen, remake, f"write {message} anew; the tests of the old one stay")


async def _start_regeneration(screen: RulesView, remake: Regeneration, title: str) -> None:
    desk, workspace = screen.desk, screen.workspace
    editing = workspace.editing
    if editing is None:
        return

    async def price_of(values: Mapping[str, Any]) -> str:
        return await price_regeneration(workspace.root, workspace.database, remake, values)

    settings = workspace.settings
    target = screen.book.origin.target or next(iter((*settings.run.targets, *settings.answering)), None)
    entered = await desk.push_screen_wait(RegenerationForm(title, settings, target, price_of))
    if entered is None or screen.making_now:
        return
    try:
        missing = await asyncio.to_thread(_missing_permissions, screen, entered)
    except ConfigurationError as problem:
        screen.tell(str(problem), "error")
        return
    if not await approve(desk, missing, workspace.root):
        screen.tell(NOT_AGREED, "warn")
        return
    making = screen.making = RegenerationProgress(remake, editing)
    # A worker of the app, so that it is listened to when one is back at the panes too.
    desk.run_worker(
        _follow_regeneration(screen, making, entered), group="generating", name="generating", exit_on_error=False
    )
    screen.refresh_all()


def _missing_permissions(screen: RulesView, values: Mapping[str, Any]) -> list[Permission]:
    """What asking the models would do that nobody has agreed to yet; what was typed into the form is remembered."""
    project, files = screen.workspace.project(), screen.book.origin
    settings = project.settings
    configs = []
    if other := values.get("other target"):
        typed = find_typed(other.strip(), settings)
        agree_to_typed([typed], project.environment, project.root)
        configs.append(typed)
    elif target := values.get("target"):
        configs.append(find_target(target, settings, str(FILE) if target in settings.words else RECORD))
    configs += [find_target(str(our_spelling(word, settings)), settings, RECORD) for word in files.others]
    if settings.judge:
        configs.append(find_target(settings.judge, settings))
    return missing_of_targets(project, configs)


async def _follow_regeneration(screen: RulesView, making: RegenerationProgress, values: Mapping[str, Any]) -> None:
    """Listen until it is over, then read the dataset it wrote."""
    workspace = screen.workspace
    try:
        await run_regeneration(making, workspace.root, workspace.database, values, screen.refresh_all)
    except NotStarted as problem:
        making.code = 1
        making.problems.append(str(problem))
    message, kind = await _read_in(screen, making)
    screen.book.touch()
    screen.refresh_all()
    if kind != "error" or not screen.is_current:
        screen.tell_everywhere(message, kind)
        return
    screen.tell("nothing was made", "warn")
    why = _why(making) if making.code else message
    screen.app.push_screen(Reading("why it was not made", lambda width: [row(line) for line in wrapped(why, width)]))


async def _read_in(screen: RulesView, making: RegenerationProgress) -> tuple[str, Severity]:
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
    screen.app.post_message(StateChanged())
    return f"{what}: made in {seconds}; m shows what was messages", "info"


def _why(making: RegenerationProgress) -> str:
    return " ".join(making.problems[-6:]) or "it messages nothing; m shows how far it came"


def show_messages(screen: RulesView) -> None:
    """What the last generation messages."""
    making = screen.making
    if making is not None:
        messages = [making.remake.says, "", *making.messages]
        screen.app.push_screen(Reading("what was messages", lambda width: message_rows(messages, width)))
