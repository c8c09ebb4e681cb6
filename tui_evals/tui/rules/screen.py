"""The actions of the rules' screen."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType

from tui_evals.tui import dataset_files
from tui_evals.tui.actions import bindings
from tui_evals.tui.widgets.focus import give_keys
from tui_evals.tui.widgets.lines import Lines

from . import actions, regenerate
from .state import BASELINE, LOOSE
from .view import RulesView


class RulesScreen(RulesView):
    """What can be done with rules and tests; no key reaches the panes below."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("rules")]

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        """From a rule to its tests, from a test to its item."""
        event.stop()
        if event.lines is self.tests and isinstance(event.key, int):
            actions.open_test(self, event.key)
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
        """Type words that must stand in a rule or its tests."""
        self.entry.display = True
        give_keys(self.entry)

    def do_leave(self) -> None:
        """Out of the filter, then back to the list, then to the workbench; what is being made goes on."""
        if self.entry.display:
            self.entry.value, self.entry.display = "", False
            give_keys(self.rules)
        elif self.focused is self.tests:
            give_keys(self.rules)
        else:
            self.leave()

    def do_messages(self) -> None:
        """What was said while something was made."""
        regenerate.show_messages(self)

    # -- rules

    async def do_edit(self) -> None:
        """Write the rule anew."""
        if (line := self.line) is not None:
            await actions.edit_rule(self, line)

    async def do_new(self) -> None:
        """Another rule."""
        await actions.add_rule(self)

    async def do_remove(self) -> None:
        """Delete the rule, or the test where the keys go to the tests."""
        if (test := self.test) is not None:
            actions.remove_test(self, test)
        elif (line := self.line) is not None:
            await actions.remove_rule(self, line)

    async def do_undo(self) -> None:
        """Take back the last edit of the dataset, and have the files follow."""
        before = self.book.sheet.texts
        await actions.after_step(self, self.workspace.step(-1), before, "taken back")

    async def do_redo(self) -> None:
        """Do again what was taken back."""
        before = self.book.sheet.texts
        await actions.after_step(self, self.workspace.step(1), before, "done again")

    async def do_save(self) -> None:
        """Save the dataset."""
        editing = self.workspace.editing
        await dataset_files.save(self.desk)
        if editing is not None and not editing.dirty:
            self.tell(f"{editing.document.file.name} saved")
        self.refresh_all()

    async def do_copy(self) -> None:
        """Choose what goes to the clipboard."""
        await actions.copy_menu(self)

    # -- tests

    async def do_tests(self) -> None:
        """Have the tests of the rule made anew."""
        if (line := self.line) is not None:
            await regenerate.remake_tests(self, line)

    async def do_inverse(self) -> None:
        """Have the inverse of the rule written anew."""
        if (line := self.line) is not None:
            await regenerate.remake_inverse(self, line)

    def do_stop(self) -> None:
        """Let what is being made end."""
        if self.making is not None:
            self.making.stop()
            self.tell("it ends once what is in flight has its answer; x again ends it now")

    async def do_run(self) -> None:
        """Run the tests of the rule, or the one test."""
        sheet, key = self.book.sheet, self.rules.key
        if (test := self.test) is not None:
            await actions.run_tests(self, (test,), f"test {sheet.cases[test].name}")
            return
        tests, line = sheet.tests(key), self.line
        name = {BASELINE: "without rules", LOOSE: "of no rule"}.get(str(key), "")
        if line is not None:
            name = f"of {'inverse ' if line.rule.inverse else ''}rule {line.rule.number or line.rule.of}"
        await actions.run_tests(self, tests, f"{len(tests)} {'test' if len(tests) == 1 else 'tests'} {name}")

    async def do_run_all(self) -> None:
        """Run all tests."""
        await actions.run_tests(self, None, f"all {len(self.book.sheet.cases)} tests")
