"""The small form before something is made anew: who writes, how much it may cost, and what that comes to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from tui_evals.datasets.paths import CannotEdit
from tui_evals.datasets.problems import DatasetError
from tui_evals.datasets.save import CannotSave
from tui_evals.generate.shapes import UnreadableFile
from tui_evals.targets.config import Settings
from tui_evals.text.safe import safe_line
from tui_evals.tui.item import changes
from tui_evals.tui.messages import CopyText, ItemShown, Severity, ShowPane, StateChanged
from tui_evals.tui.rows import row, wrapped
from tui_evals.tui.runs.starting import NotStarted
from tui_evals.tui.widgets.dialogs import AskLong, Confirm, Entry, Menu, Reading
from tui_evals.tui.widgets.form import DONE, Faults, Field, Form, Values
from tui_evals.tui.workspace import Selection

from .generation import Regeneration, RegenerationProgress, make, price
from .rows import message_rows
from .state import Line, Texts, reworded, rewritten, says_deleted, texts_of, with_rule, without, write_files

if TYPE_CHECKING:
    from tui_evals.tui.app import Workbench

    from .screen import RulesScreen


_PAUSE = 0.2
_NO_TARGET = "who is to write it? Choose a target; demo is offline, free, and writes by a script"
Price = Callable[[Mapping[str, Any]], Awaitable[str]]


class MakeForm(Form):
    """Says what it costs each time a value changes; the answer is the values."""

    def __init__(self, says: str, settings: Settings, target: str | None, price: Price) -> None:
        known = tuple(dict.fromkeys((*settings.targets, "demo", *([target] if target else []))))
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
            says = await self._price(self.values)
        except NotStarted as problem:
            self._refused = str(problem)
            self.redraw("")
        else:
            self.redraw(f"{says}; repairs and retries may add some")


_FILES = "here and in rules.txt"
_INVERSE = "here and in inverse_rules.txt"


def _app(screen: RulesScreen) -> Workbench:
    return cast("Workbench", screen.app)


# -- rules


async def edit(screen: RulesScreen, line: Line) -> None:
    """Write a rule anew."""
    if not await agreed(screen):
        return
    title = f"inverse of rule {line.rule.of}" if line.rule.inverse else f"rule {line.rule.of}"
    shown, before = safe_line(line.rule.text), screen.book.sheet.texts
    text = await screen.app.push_screen_wait(
        AskLong(title, line.rule.text, check=lambda text: None if text == shown else _problem(before, line, text))
    )
    if text is None or text == shown:
        return
    says = f"{title} changed {_INVERSE if line.rule.inverse else _FILES}"
    says += "; t makes its tests anew" if line.tests else ""
    await take(screen, reworded(before, line.key, text), f"edit {title}", says)


def _problem(texts: Texts, line: Line, text: str) -> str | None:
    try:
        reworded(texts, line.key, text)
    except CannotEdit as problem:
        return str(problem)
    return None


async def add(screen: RulesScreen) -> None:
    """Another rule at the end, with a plain one that inverts it."""
    if not await agreed(screen):
        return
    before = screen.book.sheet.texts

    def problem(text: str) -> str | None:
        try:
            with_rule(before, text)
        except CannotEdit as problem:
            return str(problem)
        return None

    text = await screen.app.push_screen_wait(AskLong("a new rule: what every output has to keep", "", check=problem))
    if text is None:
        return
    after = with_rule(before, text)
    number = len(after.output)
    says = f"rule {number} and a plain inverse added; i has a better one written, t its tests"
    if not before.paired:
        says = f"rule {number} added {_FILES}; t makes its tests"
    await take(screen, after, f"new rule {number}", says, at=(False, number))


async def remove(screen: RulesScreen, line: Line) -> None:
    """Delete a rule, once it has been said what becomes of its tests."""
    if not await agreed(screen):
        return
    before = screen.book.sheet.texts
    try:
        after = without(before, line.key)
    except CannotEdit as problem:
        screen.tell(str(problem), "warn")
        return
    name = f"rule {line.rule.of}" if not line.rule.inverse else f"the inverse of rule {line.rule.of}"
    turned = screen.book.sheet.line((True, line.rule.of)) if before.paired else None
    tests = len(line.tests) + (len(turned.tests) if turned is not None else 0)
    text = f"“{safe_line(line.rule.text, 200)}”" + (" and the rule that inverts it go" if turned else " goes")
    text += f", {_FILES}. {says_deleted(tests)}"
    if await screen.app.push_screen_wait(Confirm(f"Delete {name}?", text, "delete")):
        await take(screen, after, f"delete {name}", f"{name} deleted {_FILES}; u brings it back")


async def take(screen: RulesScreen, after: Texts, what: str, says: str, at: object = None) -> None:
    """Have the files and the dataset hold other rules, as one step that undo takes back."""
    book, workspace = screen.book, screen.workspace
    sheet, editing, data = book.sheet, workspace.editing, workspace.data
    try:
        await asyncio.to_thread(write_files, book.origin.folder, sheet.texts, after, sheet.most)
        changed = await asyncio.to_thread(rewritten, data, sheet, after)
    except (CannotSave, CannotEdit, UnreadableFile) as problem:
        screen.tell(str(problem), "error")
        return
    if workspace.editing is not editing or workspace.data is not data:
        screen.tell("the dataset was changed meanwhile; do it again", "warn")
        return
    workspace.apply(changed, what)
    screen.wanted = at
    screen.changed()
    screen.tell(says)


async def agreed(screen: RulesScreen) -> bool:
    """Whether the files beside the dataset hold its rules; where they do not, ask which ones count."""
    book = screen.book
    await book.settled()
    files, own = book.origin.texts, book.sheet.texts
    if not book.differs or files is None:
        return True
    entries = [
        Entry("files", "those of the files", "they come into the dataset; u takes that back"),
        Entry("own", "those of the dataset", "they are written into rules.txt and inverse_rules.txt"),
    ]
    choice = await screen.app.push_screen_wait(
        Menu("the files beside the dataset hold other rules: which count?", entries)
    )
    if choice == "own":
        try:
            await asyncio.to_thread(write_files, book.origin.folder, files, own, book.sheet.most)
        except (CannotSave, UnreadableFile) as problem:
            screen.tell(str(problem), "error")
        else:
            screen.tell("the files hold the rules of the dataset now; go on")
        book.touch()
    elif choice == "files":
        workspace = screen.workspace
        workspace.apply(await asyncio.to_thread(rewritten, workspace.data, book.sheet, files), "the rules of the files")
        screen.changed()
        screen.tell("the dataset holds the rules of the files now; go on")
    return False


async def follow(screen: RulesScreen, step: str | None, before: Texts, says: str) -> None:
    """After undo or redo: the files go along, unless they held other rules anyway."""
    book, workspace = screen.book, screen.workspace
    if step is None:
        return
    after = texts_of(workspace.data)
    if book.origin.texts == before and after != before:
        try:
            await asyncio.to_thread(write_files, book.origin.folder, before, after, book.sheet.most)
        except (CannotSave, UnreadableFile) as problem:
            screen.tell(str(problem), "error")
    screen.changed()
    screen.tell(f"{says}: {step}")


# -- tests


def open_test(screen: RulesScreen, position: int) -> None:
    """Go to a test in the editor of items."""
    app = _app(screen)
    screen.workspace.where = ("items", position)
    screen.leave()
    for message in (ItemShown(), ShowPane("editor")):
        app.post_message(message)
    app.tell("7 goes back to the rules")


def remove_test(screen: RulesScreen, position: int) -> None:
    """Delete a test; undo brings it back, so nothing is asked."""
    try:
        says = changes.remove(screen.workspace, [position])
    except CannotEdit as problem:
        screen.tell(str(problem), "warn")
        return
    screen.changed()
    screen.tell(says)


async def run_tests(screen: RulesScreen, positions: tuple[int, ...] | None, says: str) -> None:
    """Run tests by the form that says what it costs, and watch them."""
    from tui_evals.tui.runs.starting import start, why_no_run

    app = _app(screen)
    if reason := why_no_run(app):
        screen.tell(reason, "warn")
        return
    if await start(app, Selection(positions, says), app.remembered.values.get("form")):
        screen.leave()


async def copy(screen: RulesScreen) -> None:
    """Choose what goes to the clipboard."""
    sheet, line, test = screen.book.sheet, screen.line, screen.test
    parts: dict[str, str] = {}
    if line is not None:
        parts["rule"] = line.rule.text
        other = sheet.line((not line.rule.inverse, line.rule.of))
        parts["inverse"] = other.rule.text if other is not None else ""
    if test is not None:
        case = sheet.cases[test]
        parts |= {"test": case.name, "input": case.asked, "expected": case.expected}
    parts["all rules"] = "\n".join((*sheet.texts.output, *sheet.texts.inverse))
    entries = [
        Entry(name, name, safe_line(text, 60), why_not="" if text else "there is none") for name, text in parts.items()
    ]
    chosen = await screen.app.push_screen_wait(Menu("copy", entries))
    if chosen is not None:
        screen.app.post_message(CopyText(parts[chosen], chosen))
        screen.tell(f"{chosen} copied")


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
    remake = Regeneration(screen.book.origin.folder, "rule", number, f"the tests of {name}", most)
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
    remake = Regeneration(screen.book.origin.folder, "inverse", line.rule.of, says)
    await _start(screen, remake, f"write {says} anew; the tests of the old one stay")


async def _start(screen: RulesScreen, remake: Regeneration, title: str) -> None:
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
    making = screen.making = RegenerationProgress(remake, editing)
    # On the app, so that it is listened to when one is back at the panes too.
    app.run_worker(_made(screen, making, given), group="generating", name="generating", exit_on_error=False)
    screen.refresh_all()


async def _made(screen: RulesScreen, making: RegenerationProgress, values: Mapping[str, Any]) -> None:
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


async def _read_in(screen: RulesScreen, making: RegenerationProgress) -> tuple[str, Severity]:
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
    return f"{what}: made in {seconds}; m shows what was said", "info"


def _why(making: RegenerationProgress) -> str:
    return " ".join(making.problems[-6:]) or "it said nothing; m shows how far it came"


def show_messages(screen: RulesScreen) -> None:
    """What the last generation said."""
    making = screen.making
    if making is not None:
        said = [making.remake.says, "", *making.said]
        screen.app.push_screen(Reading("what was said", lambda width: message_rows(said, width)))
