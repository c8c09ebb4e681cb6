"""Pane 3: which evaluators judge here and why, their options, and a trial of one on the answer on screen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from tui_evals.datasets.paths import CannotEdit, Data, Path, same_data
from tui_evals.datasets.resolve import SYSTEM_DEFAULTS, EffectiveEvaluator
from tui_evals.datasets.steps import DEFAULTS, add_evaluator, remove_evaluator, toggle_mode, write_options
from tui_evals.tui.actions import bindings
from tui_evals.tui.completion import Completer
from tui_evals.tui.editing import step_to_neighbour
from tui_evals.tui.judges.rows import JudgesHere, judge_rows, judges_here
from tui_evals.tui.messages import ItemShown, Place, TryRule
from tui_evals.tui.pane import Pane, perform
from tui_evals.tui.rows import Row, paragraph, row
from tui_evals.tui.watch import StoreChange
from tui_evals.tui.widgets.dialogs import Menu
from tui_evals.tui.widgets.lines import Lines
from tui_evals.tui.workspace import NO_DATASET_OPEN, Selection

if TYPE_CHECKING:
    from tui_evals.tui.judges.trial import RecordedScores, Trial, TrialResult


_EMPTY = "No dataset is open. Its evaluators are listed here."
_WHICH = "The help page which-evaluator says what to take for which task."


class JudgesPane(Pane):
    """The evaluators of the current place, or of the dataset."""

    place: ClassVar[Place] = "judges"
    number: ClassVar[int] = 3
    name_: ClassVar[str] = "Evaluators"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("judges")]

    _of_dataset = False
    _seen: tuple[object, Path] = (None, ())
    """The dataset and the place in it that were shown last."""

    def compose(self) -> ComposeResult:
        self._tried: dict[str, TrialResult | str] = {}
        self._trials: dict[str, asyncio.Task[Any]] = {}
        self._recorded: RecordedScores | None = None
        self._recorded_of: tuple[object, ...] = ()
        """The dataset and the state of the run on screen for which the stored scores were read."""
        yield Lines(id="evaluators")

    def sync(self) -> None:
        seen = (self.workspace.editing, self.workspace.where)
        if seen != self._seen:
            self._seen, self._of_dataset = seen, False
            self._forget()
        self._read_scores()
        self._show()

    def pulse(self, pulse: StoreChange) -> None:
        """A run may have ended, or another one begun."""
        if pulse.run:
            self._read_scores()

    def _read_scores(self) -> None:
        """Read the stored scores once for a dataset and a run on screen, away from the screen."""
        editing, run = self.workspace.editing, self.watching.run
        of = (editing and editing.document.file, run and (run.id, run.scoring_pass, run.status))
        if editing is not None and of != self._recorded_of and self.watching.database.exists():
            self._recorded_of = of
            work = self._scores_read(of)
            self.app.run_worker(work, group="recorded", name="stored scores", exclusive=True, exit_on_error=False)

    async def _scores_read(self, of: tuple[object, ...]) -> None:
        from tui_evals.tui.judges.options import current_place
        from tui_evals.tui.judges.trial import recorded_scores

        here, run = current_place(self.workspace, self.watching), self.watching.run
        scores = await asyncio.to_thread(recorded_scores, here, run)
        if self.is_attached and of == self._recorded_of:
            self._recorded = scores
            self._show()

    def _show(self, key: str | None = None) -> None:
        lines = self.query_one(Lines)
        if self.workspace.editing is None:
            self.entitle()
            lines.show(_empty)
            return
        if not self.workspace.registry.by_name:
            lines.show(lambda width: [row(("The evaluators are being found …", "dim"))])  # after the first frame
            return
        # Imported when needed, as everything that shows evaluators: they are found after the first frame.
        from tui_evals.tui.judges.options import judges_page

        here = self._here()
        shown = judges_page(self.workspace, here, self._tried, self._recorded)
        name = "dataset" if here.of_dataset else shown.name
        self.entitle(name if here.turns is not None else f"{name} · {len(here.entries)}")
        lines.show(lambda width: judge_rows(shown, width), at=None if key is None else ("evaluator", key))

    def _here(self) -> JudgesHere:
        return judges_here(self.workspace.data, self.workspace.where, self._of_dataset)

    def _entry(self) -> EffectiveEvaluator | None:
        """The evaluator under the cursor."""
        key = self._under("evaluator")
        return next((entry for entry in self._here().entries if entry.key == key), None)

    def _under(self, what: str) -> Any:
        key = self.query_one(Lines).key
        return key[1] if isinstance(key, tuple) and key[0] == what else None

    def selection(self) -> Selection | None:
        if self.workspace.editing is None:
            return None
        number = self.workspace.item
        if number is None:
            return Selection()
        return Selection((number,), f"item {self.workspace.name_of(number)}")

    def why_not(self, action: str) -> str | None:
        if self.workspace.editing is None:
            return NO_DATASET_OPEN
        here = self._here()
        if action in ("next", "previous"):
            return None
        if action == "what_if":
            if self.watching.run is None:
                return "there is no run on screen whose scores could tell; 6 lists the runs"
            return None if self._entry() is not None else "there is no evaluator under the cursor"
        if action == "level":
            return None if self.workspace.where else "you are at the dataset itself; go to an item first (1)"
        if here.turns is not None:
            going = action == "edit" and self._under("turn") is not None
            return None if going else "a conversation has no evaluators itself; choose one of its turns (enter)"
        from tui_evals.tui.judges.options import why_not

        entry = self._entry()
        if action == "try" and entry is not None and entry.key in self._trials:
            return f"{entry.key} is being tried; esc stops it"
        return why_not(here, entry, self.workspace.registry, action)

    def escape(self) -> bool:
        if not self._tried:
            return False
        self._forget()
        self._show()
        return True

    def _forget(self) -> None:
        for task in self._trials.values():
            task.cancel()
        self._trials.clear()
        self._tried.clear()

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        event.stop()
        perform(self, "edit")

    def do_level(self) -> None:
        self._of_dataset = not self._of_dataset
        self._show()

    def do_mode(self) -> None:
        place = self._here().place
        if self._apply(lambda data: toggle_mode(data, place), "extending or replacing evaluators"):
            here = self._here()
            word = "replaces" if here.replaces else "extends"
            none = "; nothing judges here now, a adds an evaluator" if not here.entries else ""
            what = "system defaults" if here.base == "system" else "dataset's evaluators"
            self.say(f"{self._place_name(here)} {word} the {what}{none}")

    def do_remove(self) -> None:
        entry, here = self._entry(), self._here()
        if entry is not None and self._apply(
            lambda data: remove_evaluator(data, here.place, entry.key), f"removing {entry.key}"
        ):
            again = "; the inherited one applies again" if entry.overridden is not None else ""
            self.say(f"{entry.key} was removed from {self._place_name(here)}{again}; u undoes it")

    async def do_add(self, examples: Collection[int] = ()) -> None:
        """Add an evaluator; with examples one that is written for the dataset and tried on these answers first."""
        from tui_evals.tui.judges.options import ask_options, evaluator_choices, faults
        from tui_evals.tui.judges.trial import CannotTry
        from tui_evals.tui.judges.writing import new_entries, write_new
        from tui_evals.tui.widgets.form_fields import free_key

        self._of_dataset |= bool(examples)
        if examples and (reason := self.why_not("add")):
            self.say(reason, "warn")
            return
        here, registry = self._here(), self.workspace.registry
        choices = new_entries() if examples else [*new_entries(), *evaluator_choices(registry, here)]
        name = await self.app.push_screen_wait(Menu("add an evaluator", choices, intro=_WHICH))
        if name is None:
            return
        written: Mapping[str, Any] = {}
        if isinstance(name, tuple):
            try:
                new = await write_new(self.app, name[1], self.workspace, self.watching, examples)
            except CannotTry as problem:
                self.say(str(problem), "warn")
                return
            if new is None:
                self.say("nothing was written, so nothing was added")
                return
            name, written, registry = new.evaluator, new.options, self.workspace.registry
        key = free_key(name, {entry.key for entry in here.entries} | here.own)
        options: Mapping[str, Any] | None = {**({"type": name} if key != name else {}), **written}
        if faults(registry.find(name), options or {}):
            entry = EffectiveEvaluator(key, options or {}, "item")
            options = await ask_options(self.app, entry, registry, "add it", *await self._helps())
        if options is None:
            self.say(f"{name} was not added")
        elif self._apply(lambda data: add_evaluator(data, here.place, key, options), f"adding {key}", key):
            more = f", a further {name} with options of its own" if key != name else ""
            if here.place == DEFAULTS and here.base == "system":
                others = " and ".join(other for other in SYSTEM_DEFAULTS if other != key)
                more += f"; {others}, which judge where nothing is said, are in the file too"
            self.say(f"{key} judges {self._place_name(here)} now{more}; enter edits its options")

    async def do_edit(self) -> None:
        turn = self._under("turn")
        if turn is not None:
            self.workspace.where = (*self.workspace.where, "turns", turn)
            self.post_message(ItemShown())
            return
        entry, here = self._entry(), self._here()
        if entry is None:
            return
        from tui_evals.tui.judges.options import ask_options

        registry = self.workspace.registry
        options = await ask_options(self.app, entry, registry, "take these options", *await self._helps())
        if options is None or (same_data(options, dict(entry.options)) and entry.key not in here.broken):
            return
        if self._apply(lambda data: write_options(data, here.place, entry.key, options), f"options of {entry.key}"):
            inherited = not here.of_dataset and entry.key not in here.own
            whose = "the system default" if entry.origin == "system" else "the dataset's"
            self.say(f"{entry.key} now overrides {whose} here" if inherited else f"{entry.key} has other options now")

    async def _helps(self) -> tuple[RecordedScores | None, str, Completer]:
        """The helpers of the options form: recorded scores, the current answer for a schema, and a completer."""
        from tui_evals.tui.judges.options import current_place, sample_answer

        here = current_place(self.workspace, self.watching)
        shown = here.answer is not None or here.where
        sample = await asyncio.to_thread(sample_answer, here) if shown else ""
        return self._recorded, sample, Completer(self.workspace, "evaluators")

    async def do_try(self) -> None:
        from tui_evals.tui.judges.options import trial_of
        from tui_evals.tui.judges.trial import CannotTry

        entry, task = self._entry(), asyncio.current_task()
        if entry is None or task is None:
            return
        trial = trial_of(self.workspace, self.watching, entry)
        self._tried[entry.key], self._trials[entry.key] = "judging … (esc stops it)", task
        self._show()
        result: TrialResult | None = None
        try:
            result = await self._tried_once_agreed(trial)
        except CannotTry as reason:
            self.say(str(reason), "warn")
        finally:
            if self.is_attached and self._trials.get(entry.key) is task:
                del self._trials[entry.key], self._tried[entry.key]
                if result is not None:
                    self._tried[entry.key] = result
                self._show()

    async def _tried_once_agreed(self, trial: Trial) -> TrialResult:
        """Judge, after a question where it takes a yes."""
        from tui_evals.targets.permissions import NotApproved
        from tui_evals.tui.judges.trial import CannotTry, on_own_loop, try_evaluator
        from tui_evals.tui.permissions import NOT_AGREED, approve

        try:
            return await on_own_loop(lambda: try_evaluator(trial))
        except NotApproved as problem:
            if not await approve(self.app, problem.permissions, problem.root):
                raise CannotTry(NOT_AGREED) from None
        return await on_own_loop(lambda: try_evaluator(trial))

    def do_what_if(self) -> None:
        """Try another threshold of the evaluator on the run on screen."""
        entry = self._entry()
        if entry is not None:
            self.post_message(TryRule(entry.key))

    def do_next(self) -> None:
        step_to_neighbour(self, 1)

    def do_previous(self) -> None:
        step_to_neighbour(self, -1)

    def _place_name(self, here: JudgesHere) -> str:
        from tui_evals.tui.judges.options import name_of

        return "the dataset" if here.of_dataset else name_of(self.workspace, self.workspace.where)

    def _apply(self, step: Callable[[Data], Data], what: str, key: str | None = None) -> bool:
        """Make an edit, or say why it cannot be made."""
        try:
            data = step(self.workspace.data)
        except CannotEdit as problem:
            self.say(str(problem), "warn")
            return False
        self.workspace.apply(data, what)
        self._show(key)
        self.changed()
        return True


def _empty(width: int) -> list[Row]:
    return [*paragraph(_EMPTY, width, "dim")]
