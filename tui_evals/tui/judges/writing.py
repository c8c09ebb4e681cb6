"""Editor for custom evaluators (rubric, expression, JavaScript, Python) that shows their results on recorded answers.

The editor is above the recorded answers. Evaluators without calls are tried when typing pauses; those that run code of
the project or ask a judge are tried with ctrl+t.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import TextArea

from tui_evals.datasets.resolve import EffectiveEvaluator
from tui_evals.evaluators.custom import check_new_evaluator, new_evaluator_text, write_new_evaluator
from tui_evals.evaluators.registry import built_in
from tui_evals.files import write_atomically
from tui_evals.light_records import dataclass
from tui_evals.store.database import StoreError
from tui_evals.targets.permissions import NotApproved
from tui_evals.text.measures import counted
from tui_evals.text.safe import spelled, unspelled
from tui_evals.tui.external_programs import NotEdited, edit_in_editor
from tui_evals.tui.judges.options import current_place, faults, trial_of
from tui_evals.tui.judges.rows import RESULTS
from tui_evals.tui.judges.trial import (
    CannotTry,
    JudgedSubject,
    Trial,
    TrialResult,
    on_own_loop,
    recorded_subjects,
    try_on,
)
from tui_evals.tui.permissions import NOT_AGREED, approve
from tui_evals.tui.rows import Row, fit, paragraph, row
from tui_evals.tui.watch import Watch
from tui_evals.tui.widgets.dialogs import Ask, Dialog, Entry, unread_menu
from tui_evals.tui.widgets.inputs import HOLDS_KEYS, EditArea, give_keys
from tui_evals.tui.widgets.lines import Lines
from tui_evals.tui.workspace import Workspace

_PAUSE = 0.4
"""Seconds without a key after which what makes no call is tried."""
_MOST, _MOST_ASKED = 50, 5
"""Recorded answers that are judged: in all, and where each of them is a question to a judge."""
_NOTHING_RECORDED = "No answers are recorded yet. Run the dataset (r), or give an item a response."


@dataclass(frozen=True, slots=True)
class NewKind:
    """A way to write an evaluator: the built-in evaluator and option that hold the text, none for a Python function."""

    name: str
    about: str
    evaluator: str = ""
    option: str = ""
    suffix: str = ".txt"
    live: bool = False
    """Whether trying it makes no call, so that it is tried as you type."""
    asks: bool = False
    """Whether each answer is a question to a judge."""


KINDS: Mapping[str, NewKind] = {
    "rubric": NewKind("rubric", "criteria in your own words; a judge decides", "Rubric", "criteria", asks=True),
    "expression": NewKind(
        "expression", "such as: response | split | length < 50", "Expression", "expression", live=True
    ),
    "javascript": NewKind("JavaScript", "such as: output.length < 80", "JavaScript", "code", ".js", live=True),
    "python": NewKind("Python function", "a file in custom-evaluators/", suffix=".py"),
}


def new_entries() -> list[Entry]:
    """The kinds of evaluators that can be written, for the list of evaluators."""
    return [Entry(("new", key), f"new: {kind.name}", kind.about) for key, kind in KINDS.items()]


Test = Callable[[str], Awaitable[Sequence[TrialResult]]]


class WriteEvaluator(Dialog[str]):
    """A box for the text of an evaluator over the recorded answers it is tried on; the answer is the text, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "take", "take", show=False),
        Binding("ctrl+t", "test", "test", show=False, priority=True),
        Binding("ctrl+o", "external", "$EDITOR", show=False, priority=True),
        Binding("tab", "indent", "indent", show=False, priority=True),
    ]
    DEFAULT_CSS = """
    WriteEvaluator EditArea { height: auto; min-height: 3; max-height: 40vh; border: none; padding: 0; }
    WriteEvaluator EditArea { background: $boost; }
    WriteEvaluator EditArea .text-area--cursor-line { background: transparent; }
    WriteEvaluator .tall { max-height: 35vh; border-top: solid $border-blurred; }
    """

    def __init__(
        self, title: str, text: str, kind: NewKind, check: Callable[[str], str | None], test: Test, recorded: int
    ) -> None:
        tests = "tested as you type" if kind.live else "ctrl+t tests"
        super().__init__(title, f"esc takes it · {tests} · ctrl+o $EDITOR")
        self._kind, self._check, self._test, self._recorded = kind, check, test, recorded
        self._box = EditArea(spelled(text), spells=True)
        self._box.add_class(HOLDS_KEYS)
        self._begun = text
        self._pause: Timer | None = None
        self._results: Sequence[TrialResult] = ()
        self._note = "" if kind.live and text.strip() else "Not tested yet."

    def body(self) -> list[Widget]:
        self._lines = Lines(choosing=False, searching=False, classes="tall")
        self._lines.show(self._rows)
        return [self._box, self._lines]

    def on_mount(self) -> None:
        self._box.move_cursor(self._box.document.end)
        give_keys(self._box)

    @property
    def _text(self) -> str:
        return unspelled(self._box.text)

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        problem = self._check(self._text) if self._text.strip() else None
        self.say(problem or self._help, wrong=problem is not None)
        self._show((), "" if self._kind.live else "Changed since the last test: ctrl+t tests it.")
        if self._pause is not None:
            self._pause.stop()
        if self._kind.live and self._text.strip() and problem is None:
            self._pause = self.set_timer(_PAUSE, self.action_test)

    def action_test(self) -> None:
        """Try the text on the recorded answers."""
        if problem := self._check(self._text):
            self.say(problem)
        elif self._recorded:
            self._show((), "judging …")
            self.run_worker(self._tested(self._text), group="test", name="test", exclusive=True, exit_on_error=False)

    async def _tested(self, text: str) -> None:
        try:
            results = await self._test(text)
        except CannotTry as problem:
            self._show((), str(problem))
            return
        if text == self._text:
            self._show(results, "")

    def _show(self, results: Sequence[TrialResult], note: str) -> None:
        self._results, self._note = results, note
        self._lines.show(self._rows)

    def _rows(self, width: int) -> list[Row]:
        if not self._recorded:
            return [*paragraph(_NOTHING_RECORDED, width, "dim")]
        if not self._results:
            most = counted(self._recorded, "recorded answer")
            return [*paragraph(self._note or f"Tested on {most} once typing pauses.", width, "dim")]
        passed = sum(one.score.result == "pass" for one in self._results)
        failed = sum(one.score.result == "fail" for one in self._results)
        rows = [row((f"{passed:,} of {counted(passed + failed, 'judged answer')} pass", "strong"))]
        for one in sorted(self._results, key=lambda one: one.score.result == "pass"):
            word, style = RESULTS.get(one.score.result, RESULTS[None])
            name = one.of.removeprefix("the answer to ").removeprefix("the ")
            rows.append(row(fit(word, 13, style), fit(name, width // 3), " ", fit(one.score.reason, width, "dim")))
        return rows

    def action_indent(self) -> None:
        """Code is indented; any other text is left with tab."""
        if self._kind.suffix == ".txt":
            self.action_take()
        else:
            self._box.insert("    " if self._kind.suffix == ".py" else "  ")

    async def action_external(self) -> None:
        """Write it in $EDITOR."""
        try:
            after = await edit_in_editor(self.app, self._text, self._kind.suffix)
        except NotEdited as problem:
            self.say(str(problem))
            return
        if after is not None:
            self._box.load_text(spelled(after))

    def action_take(self) -> None:
        """Take it; a text that cannot be taken is asked about, so that it is not lost."""
        if not self._text.strip():
            self.dismiss(None)
        elif problem := self._check(self._text):
            self.app.push_screen(unread_menu("the text", problem, file=False), self._decided)
        else:
            self.dismiss(self._text)

    def _decided(self, choice: object) -> None:
        if choice == "drop":
            self.dismiss(None)

    def action_leave(self) -> None:
        """Escape accepts the text, as in every box."""
        self.action_take()


@dataclass(frozen=True, slots=True)
class Written:
    """The result of writing: the evaluator's name and its options."""

    evaluator: str
    options: Mapping[str, Any]


async def write_new(
    app: App[Any], key: str, workspace: Workspace, watch: Watch, examples: Collection[int] = ()
) -> Written | None:
    """Let the user write an evaluator and try it on recorded answers, examples first; None if cancelled."""
    kind = KINDS[key]
    if not kind.evaluator:
        return await _write_function(app, kind, workspace, watch, examples)
    model = workspace.registry.find(kind.evaluator)

    def check(text: str) -> str | None:
        return next(iter(faults(model, {kind.option: text}).values()), None)

    def trial(text: str) -> Trial:
        return trial_of(workspace, watch, EffectiveEvaluator(kind.evaluator, {kind.option: text}, "item"))

    subjects = await _recorded(kind, workspace, watch, examples)
    text = await _written(app, f"new {kind.name}", "", kind, check, trial, subjects)
    return None if text is None else Written(kind.evaluator, {kind.option: text})


async def _write_function(
    app: App[Any], kind: NewKind, workspace: Workspace, watch: Watch, examples: Collection[int]
) -> Written | None:
    """A Python function, whose file is written when it is tested or taken."""
    root, builtin = workspace.root, built_in()
    files: list[Path] = []

    def why_not(name: str) -> str | None:
        try:
            check_new_evaluator(root, name, builtin)
        except (FileExistsError, ValueError) as problem:
            return str(problem)
        return None

    asked = await app.push_screen_wait(Ask("name of the new evaluator", hint="letters, digits and _", check=why_not))
    if not asked:
        return None
    name: str = asked

    def write(text: str) -> None:
        if not files:
            files.append(write_new_evaluator(root, name, builtin)[0])
        write_atomically(files[0], text.encode())
        workspace.equip()

    def check(text: str) -> str | None:
        try:
            compile(text, f"{name}.py", "exec")
        except (SyntaxError, ValueError) as problem:
            line = getattr(problem, "lineno", None)
            return f"line {line}: {getattr(problem, 'msg', problem)}" if line else str(problem)
        return None

    def trial(text: str) -> Trial:
        write(text)
        return trial_of(workspace, watch, EffectiveEvaluator(name, {}, "item"))

    text = new_evaluator_text(name)
    subjects = await _recorded(kind, workspace, watch, examples)
    after = await _written(app, f"{name}.py", text, kind, check, trial, subjects)
    if after is None:
        return None
    try:
        write(after)
    except OSError as problem:
        raise CannotTry(f"{name}.py cannot be written: {problem.strerror or problem}") from None
    return Written(name, {})


async def _recorded(
    kind: NewKind, workspace: Workspace, watch: Watch, examples: Collection[int]
) -> Sequence[JudgedSubject]:
    """The answers that it is tried on."""
    here, most = current_place(workspace, watch), _MOST_ASKED if kind.asks else _MOST
    try:
        return await asyncio.to_thread(recorded_subjects, here, watch.run, most, examples)
    except (StoreError, LookupError) as problem:
        raise CannotTry(str(problem)) from None


async def _written(
    app: App[Any],
    title: str,
    text: str,
    kind: NewKind,
    check: Callable[[str], str | None],
    trial: Callable[[str], Trial],
    subjects: Sequence[JudgedSubject],
) -> str | None:
    """The text in the end, from a dialog that tries it on recorded answers."""

    async def test(text: str) -> Sequence[TrialResult]:
        one = trial(text)
        try:
            return await on_own_loop(lambda: try_on(one, lambda: subjects))
        except NotApproved as problem:
            if not await approve(app, problem.permissions, problem.root):
                raise CannotTry(NOT_AGREED) from None
        return await on_own_loop(lambda: try_on(one, lambda: subjects))

    return await app.push_screen_wait(WriteEvaluator(title, text, kind, check, test, len(subjects)))
