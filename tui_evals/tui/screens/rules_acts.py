"""What is done on the rules screen: rules written, added and deleted, tests run, opened, deleted and made anew."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from tui_evals.datasets.save import CannotSave
from tui_evals.datasets.steps import CannotEdit
from tui_evals.generate.shapes import UnreadableFile
from tui_evals.text.safe import safe_line
from tui_evals.tui.messages import Copy, Show, Went
from tui_evals.tui.state import changes
from tui_evals.tui.state.rules import Line, Texts, texts_of
from tui_evals.tui.state.rules_edits import (
    reworded,
    rewritten,
    says_deleted,
    with_rule,
    without,
    write_files,
)
from tui_evals.tui.state.workspace import Selection

from .ask import Confirm
from .asklong import AskLong
from .menu import Entry, Menu

if TYPE_CHECKING:
    from tui_evals.tui.app import Workbench

    from .rules import RulesScreen

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
    for message in (Went(), Show("editor")):
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
    from tui_evals.tui.commands.running import start, why_no_run

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
        screen.app.post_message(Copy(parts[chosen], chosen))
        screen.tell(f"{chosen} copied")
