"""The rules' screen: its actions, and making tests or an inverse rule again."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from textual.binding import BindingType

from tui_evals.datasets.discover import prompt_files
from tui_evals.datasets.editing import Editing
from tui_evals.datasets.paths import DatasetError
from tui_evals.datasets.prompts import OWN_SUFFIXES, SUFFIXES, is_prompt, prompt_name
from tui_evals.files import CannotSave
from tui_evals.generate.folder import UnreadableFile
from tui_evals.generate.request import (
    FoundGeneration,
    GenerationRequest,
    about_folder,
    find_generation,
    plan_generation,
)
from tui_evals.light_records import dataclass
from tui_evals.present.battles import gaps_text, price_text, progress_text
from tui_evals.runs.approving import agree_to_typed, find_typed
from tui_evals.runs.detach import DetachFailed, start_activity
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.project import Project
from tui_evals.store.battles import (
    ActivityRow,
    Order,
    activities,
    activity,
    drop_activity,
    order_activity,
    plan_activity,
)
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import Settings
from tui_evals.targets.permissions import Permission
from tui_evals.tui import opening
from tui_evals.tui.actions import bindings
from tui_evals.tui.desk import Desk
from tui_evals.tui.messages import Severity, StateChanged
from tui_evals.tui.permissions import NOT_AGREED, approve
from tui_evals.tui.rows import row, wrapped
from tui_evals.tui.rules import view
from tui_evals.tui.rules.book import message_rows
from tui_evals.tui.rules.state import BASELINE, LOOSE, RuleLine
from tui_evals.tui.rules.view import Making, RulesView, files_agree
from tui_evals.tui.widgets.dialogs import Confirm, Entry, Menu, Reading
from tui_evals.tui.widgets.form import DONE, Form
from tui_evals.tui.widgets.form_fields import Faults, Field, Values
from tui_evals.tui.widgets.inputs import give_keys
from tui_evals.tui.widgets.lines import Lines

_PAUSE = 0.2
_LOOK = 0.2
"""Seconds between two looks at the store."""
_NO_TARGET = "who is to write it? Choose a target; demo is offline, free, and writes by a script"
_CANNOT = (CannotPlan, ConfigurationError, DatasetError, UnreadableFile, CannotSave, OSError)


@dataclass(frozen=True, slots=True)
class Regeneration:
    """The part to regenerate: the tests of a rule, or the inverse of an output rule."""

    folder: Path
    what: Literal["rule", "inverse"]
    number: int
    says: str
    most: int | None = None
    """A new number of output rules to make tests for; None keeps it."""

    def request(self, values: Mapping[str, Any], recorded: str | None) -> GenerationRequest:
        """The generation; a target that the folder names is left to it, because it needs its own permission."""
        other, target = values.get("other target"), values.get("target")
        return GenerationRequest(
            prompt=self.folder.resolve(),
            options={"max_rules": self.most} if self.most else {},
            rules=other.strip() if other else target if target != recorded else None,
            again=(self.number,) if self.what == "rule" else (),
            invert=(self.number,) if self.what == "inverse" else (),
            max_cost=values.get("budget"),
            title=self.says,
        )


def price_regeneration(project: Project, request: GenerationRequest) -> str:
    """The price, and where questions and keys go."""
    plan = plan_generation(find_generation(request, project))
    return price_text(plan.calls, plan.cost, plan.destinations)


Price = Callable[[Mapping[str, Any]], Awaitable[str]]


class RegenerationForm(Form):
    """Shows the cost each time a value changes; returns the values."""

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
        """Estimate the cost again."""
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
        except _CANNOT as problem:
            self._refused = str(problem)
            self.redraw("")
        else:
            self.redraw(message)


async def remake_tests(screen: RulesView, line: RuleLine) -> None:
    """Replace the tests of a rule; a rule without tests gets some from now on."""
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
    """Rewrite the inverse of an output rule."""
    if not await files_agree(screen):
        return
    if not screen.book.sheet.texts.paired:
        screen.tell(
            "there are not as many inverse rules as rules, so it is unclear which belongs to which. Fix "
            "inverse_rules.txt, or generate all of them again with `tui-evals generate FOLDER --from inverse`",
            "warn",
        )
        return
    message = f"the inverse of rule {line.rule.of}"
    remake = Regeneration(screen.book.origin.folder, "inverse", line.rule.of, message)
    await _start_regeneration(screen, remake, f"generate {message} again; the tests of the old one stay")


async def _start_regeneration(screen: RulesView, remake: Regeneration, title: str) -> None:
    editing, recorded = screen.workspace.editing, screen.book.origin.target
    if editing is None:
        return
    try:
        began = await _ask_and_start(screen.desk, title, lambda values: remake.request(values, recorded), recorded)
    except _CANNOT as problem:
        screen.tell(str(problem), "error")
    except (DetachFailed, StoreError) as problem:
        _show_failure(screen, problem.reason if isinstance(problem, DetachFailed) else str(problem))
    else:
        if began is not None:
            follow(screen, began[1], editing)


async def generate_from_prompt(desk: Desk) -> None:
    """Make a dataset of a prompt file by a process of its own, which `Generations` follows."""
    root = desk.workspace.root
    files = await asyncio.to_thread(prompt_files, root, OWN_SUFFIXES)
    entries = [Entry(file, os.path.relpath(file, root)) for file in files]

    def typed(text: str) -> Entry | None:
        file = root / text.strip()
        why = "" if is_prompt(file) and os.path.isfile(file) else f"not a file that ends in {', '.join(SUFFIXES)}"
        return Entry(file, text.strip(), "another file", why_not=why) if text.strip() else None

    intro = "The rules of the prompt are found, and tests that show whether answers keep them."
    menu = Menu("generate tests from which prompt?", entries, typed=typed, typing="a path", intro=intro)
    prompt = await desk.push_screen_wait(menu)
    if prompt is None or await _stop_made(desk, prompt):
        return

    def request_of(values: Values) -> GenerationRequest:
        rules, most = values.get("other target") or values.get("target"), values.get("budget")
        return GenerationRequest(prompt=prompt, rules=rules, max_cost=most, title=f"tests of {prompt.name}")

    try:
        began = await _ask_and_start(desk, f"generate tests from {prompt.name}", request_of, None)
    except (*_CANNOT, DetachFailed, StoreError) as problem:
        desk.tell(problem.reason if isinstance(problem, DetachFailed) else str(problem), "error")
        return
    if began is not None:
        name = f"{began[0].subject.name}.json"
        desk.tell(f"generating {name}. It continues when you quit; 8 says how far it is and stops it")


async def _stop_made(desk: Desk, prompt: Path) -> bool:
    """Whether tests of the prompt are being generated already, which may be stopped here."""
    about, live = about_folder(prompt.parent / prompt_name(prompt)), None
    with suppress(StoreError):  # the price or the start says why the store cannot be used
        live = next((one for one in activities(desk.watching.reader, "generation", about, 1) if one.is_live), None)
    if live is None:
        return False
    text = f"Tests of {prompt.name} are being generated: {progress_text(live)}. What was made is kept. Stop it?"
    if await desk.push_screen_wait(Confirm("generate", text, "stop it")):
        await desk.writer.write(partial(order_activity, key=live.key, order="stop"))
        desk.tell("it ends once its open requests are answered")
    return True


async def _ask_and_start(
    desk: Desk, title: str, request_of: Callable[[Values], GenerationRequest], recorded: str | None
) -> tuple[FoundGeneration, ActivityRow] | None:
    """Ask who writes it, say the price, ask for permissions, and start the process; None where it was left."""
    workspace = desk.workspace

    async def price_of(values: Values) -> str:
        return await asyncio.to_thread(lambda: price_regeneration(workspace.project(), request_of(values)))

    settings = workspace.settings
    target = recorded or next(iter((*settings.run.targets, *settings.answering)), None)
    entered = await desk.push_screen_wait(RegenerationForm(title, settings, target, price_of))
    if entered is None:
        return None
    found, missing = await asyncio.to_thread(_find, desk, request_of(entered), entered.get("other target"))
    if not await approve(desk, missing, workspace.root):
        desk.tell(NOT_AGREED, "warn")
        return None
    return found, await _start_process(desk, found)


def _find(desk: Desk, request: GenerationRequest, typed: str | None) -> tuple[FoundGeneration, list[Permission]]:
    """The generation and its missing permissions; a target typed here needs none."""
    project = desk.workspace.project()
    if typed:
        agree_to_typed([find_typed(typed.strip(), project.settings)], project.environment, project.root)
    found = find_generation(request, project)
    return found, found.permissions()


async def _start_process(desk: Desk, found: FoundGeneration) -> ActivityRow:
    """Store the generation and start the process that executes it."""
    workspace = desk.workspace
    planned = partial(plan_activity, kind="generation", about=found.about, request=found.request.stored())
    key = await desk.writer.write(planned)
    try:
        await asyncio.to_thread(start_activity, workspace.database, _read(workspace.database, key), workspace.root)
    except DetachFailed:
        await desk.writer.write(partial(drop_activity, key=key))
        raise
    return await asyncio.to_thread(_read, workspace.database, key)


def _read(database: Path, key: str) -> ActivityRow:
    with Reader(database) as reader:
        return activity(reader, key)


# -- following a generation, whichever process began it


def seek(screen: RulesView) -> None:
    """Follow a generation into the folder of the dataset that another process makes."""
    editing = screen.workspace.editing
    if screen.making_now or editing is None or not screen.book.ready or not screen.has_rules:
        return
    about = about_folder(screen.book.origin.folder)
    with suppress(StoreError):  # the list of rates shows why the store cannot be read
        for latest in activities(screen.desk.watching.reader, "generation", about, 1):
            if latest.is_live:
                follow(screen, latest, editing)


def follow(screen: RulesView, begun: ActivityRow, editing: Editing) -> None:
    """Show a generation until it is over, then read the dataset it wrote."""
    making = screen.making = Making(begun, editing)
    # A worker of the app follows it when the panes are shown, too.
    screen.desk.run_worker(
        _follow(screen, making, screen.workspace.database), group="generating", name="generating", exit_on_error=False
    )
    screen.refresh_all()


async def _follow(screen: RulesView, making: Making, database: Path) -> None:
    while making.live:
        await asyncio.sleep(_LOOK)
        try:
            now = await asyncio.to_thread(_read, database, making.row.key)
        except (LookupError, StoreError) as problem:
            screen.tell_everywhere(str(problem.args[0]), "error")
            screen.making = None
            return
        if now != making.row:
            making.row = now
            screen.refresh_all()
    message, kind = await _read_in(screen, making)
    screen.book.touch()
    screen.refresh_all()
    if kind != "error" or not screen.is_current:
        screen.tell_everywhere(message, kind)
    else:
        _show_failure(screen, message)


def _show_failure(screen: RulesView, why: str) -> None:
    screen.tell("nothing was made", "warn")
    screen.app.push_screen(Reading("why it was not made", lambda width: [row(line) for line in wrapped(why, width)]))


async def stop(screen: RulesView) -> None:
    """Stop after open calls; when pressed again, stop at once."""
    making = screen.making
    if making is None:
        return
    making.orders += 1
    order: Order = "stop" if making.orders == 1 and making.row.control != "stop" else "abort"
    try:
        await screen.desk.writer.write(partial(order_activity, key=making.row.key, order=order))
    except StoreError as problem:
        screen.tell(str(problem), "error")
        return
    gentle = "it ends once its open requests are answered; x again ends it now"
    screen.tell(gentle if order == "stop" else "it ends now")


async def _read_in(screen: RulesView, making: Making) -> tuple[str, Severity]:
    what, editing, ended = making.title, making.editing, making.row
    seconds = f"{(ended.finished or time.time()) - ended.created:.0f} s"
    if ended.status != "finished" and ended.control:
        return f"{what}: stopped; what was made before that is kept in the files", "warn"
    if ended.status != "finished":
        return f"{what} could not be made: {ended.message or 'its process ended; m shows how far it came'}", "error"
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
    gaps = gaps_text(ended)
    return f"{what}: made in {seconds}. {f'{gaps} ' if gaps else ''}m shows its messages", "warn" if gaps else "info"


def show_messages(screen: RulesView) -> None:
    """Show the messages of the last generation."""
    making = screen.making
    if making is not None:
        last = [making.row.message] if making.row.message else []
        messages = [making.title, "", *making.row.messages, *last]
        screen.app.push_screen(Reading("what was said", lambda width: message_rows(messages, width)))


_SEEK = 1.0


class RulesScreen(RulesView):
    """The screen for editing rules and tests; keys do not reach the panes below."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("rules")]

    def on_mount(self) -> None:
        """Look for generations of other processes from now on."""
        self.set_interval(_SEEK, self._seek)

    def _seek(self) -> None:
        if self.is_current:
            seek(self)

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        """Go from a rule to its tests, or from a test to its item."""
        event.stop()
        if event.lines is self.tests and isinstance(event.key, int):
            view.open_test(self, event.key)
        elif event.lines is self.rules and self.has_rules:
            self.do_other()

    # -- moving

    def do_other(self) -> None:
        """To the tests of the rule, or back to the rules."""
        if self.focused is self.tests:
            give_keys(self.rules)
        elif self.shown.get(self.rules.key):
            give_keys(self.tests)
        else:
            self.tell("no test belongs to it yet: t has some made", "warn")

    def do_filter(self) -> None:
        """Open the filter for words of a rule or its tests."""
        self.entry.display = True
        give_keys(self.entry)

    def do_leave(self) -> None:
        """Leave the filter, then the tests, then the screen; generating continues."""
        if self.entry.display:
            self.entry.value, self.entry.display = "", False
            give_keys(self.rules)
        elif self.focused is self.tests:
            give_keys(self.rules)
        else:
            self.leave()

    def do_messages(self) -> None:
        """Show the messages of the generation."""
        show_messages(self)

    # -- rules

    async def do_edit(self) -> None:
        """Edit the rule."""
        if (line := self.line) is not None:
            await view.edit_rule(self, line)

    async def do_new(self) -> None:
        """Another rule."""
        await view.add_rule(self)

    async def do_remove(self) -> None:
        """Delete the rule, or the test where the keys go to the tests."""
        if (test := self.test) is not None:
            view.remove_test(self, test)
        elif (line := self.line) is not None:
            await view.remove_rule(self, line)

    async def do_undo(self) -> None:
        """Take back the last edit of the dataset, and have the files follow."""
        before = self.book.sheet.texts
        await view.after_step(self, self.workspace.step(-1), before, "undone")

    async def do_redo(self) -> None:
        """Redo the last undone edit."""
        before = self.book.sheet.texts
        await view.after_step(self, self.workspace.step(1), before, "done again")

    async def do_save(self) -> None:
        """Save the dataset."""
        editing = self.workspace.editing
        await opening.save(self.desk)
        if editing is not None and not editing.dirty:
            self.tell(f"{editing.document.file.name} saved")
        self.refresh_all()

    async def do_copy(self) -> None:
        """Choose what goes to the clipboard."""
        await view.copy_menu(self)

    # -- tests

    async def do_tests(self) -> None:
        """Replace the tests of the rule."""
        if (line := self.line) is not None:
            await remake_tests(self, line)

    async def do_inverse(self) -> None:
        """Rewrite the inverse of the rule."""
        if (line := self.line) is not None:
            await remake_inverse(self, line)

    async def do_stop(self) -> None:
        """Stop generating."""
        await stop(self)

    async def do_run(self) -> None:
        """Run the tests of the rule, or the one test."""
        sheet, key = self.book.sheet, self.rules.key
        if (test := self.test) is not None:
            await view.run_tests(self, (test,), f"test {sheet.cases[test].name}")
            return
        tests, line = sheet.tests(key), self.line
        name = {BASELINE: "without rules", LOOSE: "of no rule"}.get(str(key), "")
        if line is not None:
            name = f"of {'inverse ' if line.rule.inverse else ''}rule {line.rule.number or line.rule.of}"
        await view.run_tests(self, tests, f"{len(tests)} {'test' if len(tests) == 1 else 'tests'} {name}")

    async def do_run_all(self) -> None:
        """Run all tests."""
        await view.run_tests(self, None, f"all {len(self.book.sheet.cases)} tests")
