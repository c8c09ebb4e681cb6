"""Edits of rules and tests: written, added, deleted, kept the same in the dataset and in the files beside it."""

from __future__ import annotations

import asyncio

from tui_evals.atomic_files import CannotSave
from tui_evals.datasets.paths import CannotEdit
from tui_evals.generate.shapes import UnreadableFile
from tui_evals.text.safe import safe_line
from tui_evals.tui import item_edits
from tui_evals.tui.messages import CopyText, ItemShown, ShowPane
from tui_evals.tui.runs.refusals import why_no_run
from tui_evals.tui.runs.starting import start
from tui_evals.tui.widgets.dialogs import AskLong, Confirm, Entry, Menu
from tui_evals.tui.workspace import Selection

from .state import (
    RuleLine,
    RuleTexts,
    deletion_words,
    texts_of,
    with_rule,
    with_rules,
    with_text,
    without_rule,
    write_files,
)
from .view import RulesView

_FILES = "here and in rules.txt"
_INVERSE = "here and in inverse_rules.txt"


# -- rules


async def edit_rule(screen: RulesView, line: RuleLine) -> None:
    """Write a rule anew."""
    if not await files_agree(screen):
        return
    title = f"inverse of rule {line.rule.of}" if line.rule.inverse else f"rule {line.rule.of}"
    shown, before = safe_line(line.rule.text), screen.book.sheet.texts
    text = await screen.app.push_screen_wait(
        AskLong(title, line.rule.text, check=lambda text: None if text == shown else _problem(before, line, text))
    )
    if text is None or text == shown:
        return
    message = f"{title} changed {_INVERSE if line.rule.inverse else _FILES}"
    message += "; t makes its tests anew" if line.tests else ""
    await apply_rules(screen, with_text(before, line.key, text), f"edit {title}", message)


def _problem(texts: RuleTexts, line: RuleLine, text: str) -> str | None:
    try:
        with_text(texts, line.key, text)
    except CannotEdit as problem:
        return str(problem)
    return None


async def add_rule(screen: RulesView) -> None:
    """Another rule at the end, with a plain one that inverts it."""
    if not await files_agree(screen):
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
    message = f"rule {number} and a plain inverse added; i has a better one written, t its tests"
    if not before.paired:
        message = f"rule {number} added {_FILES}; t makes its tests"
    await apply_rules(screen, after, f"new rule {number}", message, at=(False, number))


async def remove_rule(screen: RulesView, line: RuleLine) -> None:
    """Delete a rule, once it has been said what becomes of its tests."""
    if not await files_agree(screen):
        return
    before = screen.book.sheet.texts
    try:
        after = without_rule(before, line.key)
    except CannotEdit as problem:
        screen.tell(str(problem), "warn")
        return
    name = f"rule {line.rule.of}" if not line.rule.inverse else f"the inverse of rule {line.rule.of}"
    turned = screen.book.sheet.line((True, line.rule.of)) if before.paired else None
    tests = len(line.tests) + (len(turned.tests) if turned is not None else 0)
    text = f"“{safe_line(line.rule.text, 200)}”" + (" and the rule that inverts it go" if turned else " goes")
    text += f", {_FILES}. {deletion_words(tests)}"
    if await screen.app.push_screen_wait(Confirm(f"Delete {name}?", text, "delete")):
        await apply_rules(screen, after, f"delete {name}", f"{name} deleted {_FILES}; u brings it back")


async def apply_rules(screen: RulesView, after: RuleTexts, what: str, says: str, at: object = None) -> None:
    """Have the files and the dataset hold other rules, as one step that undo takes back."""
    book, workspace = screen.book, screen.workspace
    sheet, editing, data = book.sheet, workspace.editing, workspace.data
    try:
        await asyncio.to_thread(write_files, book.origin.folder, sheet.texts, after, sheet.most)
        changed = await asyncio.to_thread(with_rules, data, sheet, after)
    except (CannotSave, CannotEdit, UnreadableFile) as problem:
        screen.tell(str(problem), "error")
        return
    if workspace.editing is not editing or workspace.data is not data:
        screen.tell("the dataset was changed meanwhile; do it again", "warn")
        return
    workspace.apply(changed, what)
    screen.cursor_target = at
    screen.changed()
    screen.tell(says)


async def files_agree(screen: RulesView) -> bool:
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
        workspace.apply(
            await asyncio.to_thread(with_rules, workspace.data, book.sheet, files), "the rules of the files"
        )
        screen.changed()
        screen.tell("the dataset holds the rules of the files now; go on")
    return False


async def after_step(screen: RulesView, step: str | None, before: RuleTexts, says: str) -> None:
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


def open_test(screen: RulesView, position: int) -> None:
    """Go to a test in the editor of items."""
    desk = screen.desk
    screen.workspace.where = ("items", position)
    screen.leave()
    for message in (ItemShown(), ShowPane("editor")):
        desk.post_message(message)
    desk.tell("7 goes back to the rules")


def remove_test(screen: RulesView, position: int) -> None:
    """Delete a test; undo brings it back, so nothing is asked."""
    try:
        message = item_edits.remove(screen.workspace, [position])
    except CannotEdit as problem:
        screen.tell(str(problem), "warn")
        return
    screen.changed()
    screen.tell(message)


async def run_tests(screen: RulesView, positions: tuple[int, ...] | None, says: str) -> None:
    """Run tests by the form that says what it costs, and watch them."""
    desk = screen.desk
    if reason := why_no_run(desk):
        screen.tell(reason, "warn")
        return
    if await start(desk, Selection(positions, says)):
        screen.leave()


async def copy_menu(screen: RulesView) -> None:
    """Choose what goes to the clipboard."""
    sheet, line, test = screen.book.sheet, screen.line, screen.test
    parts: dict[str, str] = {}
    if line is not None:
        parts["rule"] = line.rule.text
        other = sheet.line((not line.rule.inverse, line.rule.of))
        parts["inverse"] = other.rule.text if other is not None else ""
    if test is not None:
        case = sheet.cases[test]
        parts |= {"test": case.name, "input": case.question, "expected": case.expected}
    parts["all rules"] = "\n".join((*sheet.texts.output, *sheet.texts.inverse))
    entries = [
        Entry(name, name, safe_line(text, 60), why_not="" if text else "there is none") for name, text in parts.items()
    ]
    chosen = await screen.app.push_screen_wait(Menu("copy", entries))
    if chosen is not None:
        screen.app.post_message(CopyText(parts[chosen], chosen))
        screen.tell(f"{chosen} copied")
