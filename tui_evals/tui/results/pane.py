"""Pane 4, the results of the run on screen: sort, filter, next failure, follow, marks."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType
from textual.events import Click
from textual.timer import Timer

from tui_evals.present.grid import group_lines, grouping_names, read_groups
from tui_evals.present.runs import Column, column_names
from tui_evals.present.status import OVER
from tui_evals.project_files import resolved
from tui_evals.store.baselines import dataset_key
from tui_evals.store.records import AnswerRow
from tui_evals.tui.actions import bindings
from tui_evals.tui.answer_actions import copy_menu, give_verdict, go_to_item
from tui_evals.tui.completion import read_filter_values
from tui_evals.tui.messages import FightBattle, KeepRule, ShowMatrix, ShowPane, ShowTrend, WriteCheck
from tui_evals.tui.results.failure_view import ClusterKey
from tui_evals.tui.results.rows import column_at
from tui_evals.tui.results.table import PLAN, ResultsTable, SortColumn, order_after_choice, sort_columns
from tui_evals.tui.watch import AnswerOrder
from tui_evals.tui.widgets.dialogs import Entry, Menu
from tui_evals.tui.widgets.inputs import FilterLine, give_keys
from tui_evals.tui.widgets.lines import Lines
from tui_evals.tui.workspace import NO_DATASET_OPEN, Selection

if TYPE_CHECKING:
    from tui_evals.tui.results.rule_trial import RuleTrial

_TYPING_PAUSE = 0.1
_NEED_ANSWER = frozenset(("mark", "mark_all", "rejudge", "verdict", "check", "item", "copy"))


class ResultsPane(ResultsTable):
    """The table of answers with what can be done in it."""

    place = "results"
    number = 4
    name_ = "Results"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("results")]
    _trying = False
    """Whether a rule is being tried just now."""
    _typing: Timer | None = None
    """Runs while you type, until what is in the line is looked for."""
    _before_typing: tuple[str, int | None] = ("", None)
    """The filter and the answer from before the typing began, which escape brings back."""

    def why_not(self, action: str) -> str | None:
        run = self.watching.run
        if run is None:
            return "there is no run on screen; r starts one, 6 lists the runs"
        if action in _NEED_ANSWER and self._answer() is None:
            return "there is no answer under the cursor"
        if action == "check" and self.workspace.editing is None:
            return NO_DATASET_OPEN
        if action in ("left", "right") and self._trial is not None:
            return None
        if action in ("left", "right") and (self._mapped or self._columns is None):
            return "there are no columns here; F shows the answers"
        if action == "left" and not self._at:
            return "there are no columns further left"
        if action == "right" and self._columns is not None and self._at >= self._columns.count - 1:
            return "there are no columns further right"
        if action == "battle" and len(column_names(run)) < 2:
            return "this run has only one column; B in the runs (6) compares it with another run"
        if action == "follow" and self._following is None and run.status in OVER:
            return f"the run is {run.status}; one can follow answers while they come"
        return None

    def _answer(self) -> AnswerRow | None:
        if self._mapped:
            return next(iter(self.watching.reader.rows(self._failures.answers()[:1])), None)
        return self.watching.row(self._lines.cursor) if self._lines.key is not None else None

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        """Enter shows the whole answer; on the lines above, how the runs before did."""
        event.stop()
        if self._trial is not None:
            self.post_message(KeepRule(self._trial.run, self._trial.rule))
            self._leave_trial()
        elif event.lines is self._head:
            self.do_trend()
        elif isinstance(event.key, ClusterKey):
            self._filter_by(event.key.filter)
        else:
            self.post_message(ShowPane("detail"))

    # -- filter and order

    def do_filter(self) -> None:
        self._before_typing = (self.watching.order.text, self.watching.answer)
        run = self.watching.run
        values = None if run is None else partial(read_filter_values, self.watching.database, (run,))
        self._filter.begin(self.watching.order.text, values)

    def on_filter_line_typed(self, event: FilterLine.Typed) -> None:
        event.stop()
        if self._typing is not None:
            self._typing.stop()
        self._typing = self.set_timer(_TYPING_PAUSE, self._filter_as_typed)

    def _filter_as_typed(self) -> None:
        text = self._filter.readable if self._filter.display else None
        if text is not None and (self._arranging or text != self.watching.order.text):
            self._filter_by(text)

    def on_filter_line_submitted(self, event: FilterLine.Submitted) -> None:
        event.stop()
        self._leave_filter()
        self._filter_by(event.text, keep=True)

    def _filter_by(self, text: str, *, at: int | None = None, keep: bool = False) -> None:
        self._later(self._filtered(replace(self.watching.order, text=text), at, keep), "filtering")

    async def _filtered(self, order: AnswerOrder, at: int | None, keep: bool) -> None:
        await self._arrange_at_once(order, at)
        if keep and self.watching.order == order:
            self.watching.keep_filter()

    def _leave_filter(self) -> None:
        self._filter.display = False
        give_keys(self._lines)

    async def do_sort(self) -> None:
        order = self.watching.order
        choices = {sort.by: sort for sort in sort_columns(self._several.keys)}
        now = "sorted by it, the largest first" if order.descending else "sorted by it, the smallest first"
        entries = [
            Entry(sort.by, sort.word, now if sort.by == (order.sort or PLAN) else "") for sort in choices.values()
        ]
        at = self._columns.chosen if self._columns is not None and not self._mapped else None
        chosen = await self.app.push_screen_wait(Menu("Sort by", entries, at=at))
        if chosen is not None:
            await self._sort_by(choices[chosen])

    async def _sort_by(self, column: SortColumn) -> None:
        await self._arrange(order_after_choice(self.watching.order, column), to_top=True)

    def on_click(self, event: Click) -> None:
        """A click on the word above a column sorts by it, and again turns the order round."""
        place = event.get_content_offset(self._head)
        if place is None or place.y != len(self._above) - 1 or self._mapped or self._columns is None:
            return
        by = column_at(self._columns, place.x)
        choices = {sort.by: sort for sort in sort_columns(self._several.keys)}
        if by in choices:
            self._later(self._sort_by(choices[by]), "sorting")

    async def do_group(self) -> None:
        """Show the answers in groups with their sums; the one that is chosen is shown alone."""
        run = self.watching.run
        if run is None:
            return
        names = await asyncio.to_thread(grouping_names, self.watching.database, run)
        by = await self.app.push_screen_wait(Menu("Group by", [Entry(name, name) for name in names]))
        if by is None:
            return
        groups = await asyncio.to_thread(read_groups, self.watching.database, run, by)
        entries = [
            Entry(one.filter or name, name, about, why_not="" if one.filter else f"{about} · no filter shows these")
            for one, name, about in group_lines(groups)
        ]
        chosen = await self.app.push_screen_wait(Menu(f"{run.name} by {by}", entries, does="shows its answers"))
        if chosen is not None:
            self._filter_by(chosen, keep=True)

    def do_left(self) -> None:
        self._sideways(-1)

    def do_right(self) -> None:
        self._sideways(1)

    def _sideways(self, way: int) -> None:
        if self._trial is not None:
            self._trial.move(way)
            self._tell()
            self._try_rule()
            return
        self._at += way
        self.sync()

    # -- other rules for the same scores

    async def do_what_if(self, evaluator: str = "") -> None:
        """Move a threshold, a weight, a label's value or the pass rule, and see which verdicts change; asks nothing."""
        # Imported when it is wanted, because what judges would hold up the first picture.
        from tui_evals.tui.results.rule_trial import KEYS, RuleTrial, read_scores, rule_entry

        run = self.watching.run
        if run is None:
            return
        if self._trial is not None:
            self._drop_trial()
            return
        if self._mapped:
            self.do_failures()
        self.say("reading the scores…")
        scores = await asyncio.to_thread(read_scores, run, self.workspace.project())
        if isinstance(scores, str):
            self.say(f"no other rule can be tried: {scores}", "warn")
            return
        rules = scores.rules()
        key = evaluator or (self._columns.chosen.partition(":")[2] if self._columns is not None else "")
        at = next((number for number, rule in enumerate(rules) if rule.key == key), None)
        entries = [Entry(number, *rule_entry(rule)) for number, rule in enumerate(rules)]
        self.say("")
        number = await self.app.push_screen_wait(Menu("What if…", entries, at=at))
        if number is not None and self.watching.run is not None and self.watching.run.id == run.id:
            self._trial = RuleTrial(scores, rules[number])
            self.say(KEYS)
            self._tell()
            self._try_rule()

    def _try_rule(self) -> None:
        if self._trial is not None and not self._trying:
            self._later(self._tried_until_current(self._trial), "trying a rule")

    async def _tried_until_current(self, trial: RuleTrial) -> None:
        """Try the rule where it is now, again while it was moved meanwhile."""
        self._trying = True
        try:
            while trial is self._trial and trial.is_open:
                problem = await asyncio.to_thread(trial.attempt, self.workspace.project())
                if problem:
                    self.say(problem, "warn")
                    self._leave_trial()
                self._show_tried(trial)
        finally:
            self._trying = False

    def _show_tried(self, trial: RuleTrial) -> None:
        if trial is self._trial and trial.found is not None:
            self.watching.tried = {one.answer: one.after for one in trial.found.changed}
            self.sync()
            self._tell()

    def _leave_trial(self) -> None:
        self._trial, self.watching.tried = None, {}
        self.sync()
        self._tell()

    def _drop_trial(self) -> None:
        self._leave_trial()
        self.say("these are the stored verdicts again")

    # -- going about

    def do_failures(self) -> None:
        """Show what failed in clusters, or the answers again; where nothing failed, what deserves a look."""
        if self._mapped:
            self._failures.open = False
            self._redraw(self.watching.answer or self._first())
            return
        self._failures.open = self._failures.asked = True
        if self.watching.order.plain:
            self._redraw()
        else:
            self._later(self._arrange(AnswerOrder()), "leaving the order")
        self._read_map()

    async def do_next_failure(self) -> None:
        await self._to_failure(1)

    async def do_previous_failure(self) -> None:
        await self._to_failure(-1)

    async def _to_failure(self, way: int) -> None:
        if self._mapped:
            self.do_failures()
        shown = self._shown[:2]
        answer = await self.watching.failure(self._lines.cursor, way)
        if self._shown[:2] != shown:
            return
        if answer is None:
            self.say("no failures")
        else:
            self._lines.to_key(answer)

    async def do_rejudge(self) -> None:
        from tui_evals.tui.rejudging import rejudge_answer  # what judges would hold up the first picture

        following = await rejudge_answer(self)
        if following is not None:
            self._lines.to_key(following)

    def do_follow(self) -> None:
        latest = self._numbers.latest
        if self._following is not None:
            self._following = None
        else:
            self._following = -1
            if latest is not None:
                self._go_on(latest)
        self._tell()

    # -- the answer under the cursor

    def do_mark(self) -> None:
        answer = self._answer()
        if answer is not None:
            self.watching.marks ^= {answer.item}
            self._names[answer.item] = answer.name
            self.sync()

    def do_matrix(self) -> None:
        if self.watching.run is not None:
            self.post_message(ShowMatrix(self.watching.run.id, self.watching.answer))

    async def do_battle(self) -> None:
        run = self.watching.run
        if run is None:
            return
        left = column_names(run)
        two: list[Column] = []
        for which in ("first", "second") if len(left) > 2 else ():
            entries = [Entry(place, name) for place, name in left.items()]
            place = await self.app.push_screen_wait(Menu(f"Battle: the {which} column", entries))
            if place is None:
                return
            two.append(place)
            del left[place]
        first, second = two or list(left)
        names = column_names(run)
        why = f"{names[first]} and {names[second]} of {run.key}, as they answered"
        self.post_message(FightBattle([run.key], why, (first, second)))

    def do_trend(self) -> None:
        run = self.watching.run
        if run is not None:
            self.post_message(ShowTrend(dataset_key(run.source, self.workspace.root, self.workspace.root)))

    async def do_mark_all(self) -> None:
        """Mark the items of all answers that are shown, or take their marks away where all are marked."""
        run, watch = self._shown[:1], self.watching
        names = await asyncio.to_thread(watch.items_shown)
        if self._shown[:1] != run:
            return
        watch.marks = watch.marks - names.keys() if names.keys() <= watch.marks else watch.marks | names.keys()
        self._names |= names
        self.sync()
        self._tell()

    async def do_verdict(self) -> None:
        """Give a verdict of one's own, which shows as + or - next to the mark, or one on all that is chosen."""
        await give_verdict(self, await asyncio.to_thread(self.watching.chosen))
        self._numbers.soon()
        self._count_if_due()

    async def do_check(self) -> None:
        """Write an evaluator for the failures in the cluster, or for the marked answers, else for this one."""
        chosen, answer = await asyncio.to_thread(self.watching.chosen), self._answer()
        self.post_message(WriteCheck(chosen.ids if chosen is not None else [answer.id] if answer is not None else ()))

    def do_item(self) -> None:
        go_to_item(self)

    async def do_copy(self) -> None:
        await copy_menu(self, await asyncio.to_thread(self.watching.chosen))

    # -- for the workbench

    def escape(self) -> bool:
        """Leave the lines above the answers, then typing, then following, then the marks, then the filter."""
        watch = self.watching
        if self._trial is not None:
            self._drop_trial()
        elif self._head.has_focus:
            self._to_answers()
        elif self._filter.display:
            self._leave_filter()
            text, answer = self._before_typing
            if self._arranging or text != watch.order.text:
                self._filter_by(text, at=answer)
        elif self._following is not None:
            self.do_follow()
        elif watch.marks:
            watch.marks = frozenset()
            self.sync()
        elif watch.run is not None and watch.order.text:
            self._filter_by("", keep=True)
        else:
            return False
        return True

    def _is_called(self, item: int, name: str | None) -> bool:
        """Whether an item has the name now that it has in a run; earlier versions named those of one testId `#3`."""
        now, place = self.workspace.name_of(item), f"#{item + 1}"
        return name == now or (name == place and now.endswith(place))

    def selection(self) -> Selection | None:
        """The marked items, or the one under the cursor, where they are items of the open dataset still."""
        run, editing, answer = self.watching.run, self.workspace.editing, self._answer()
        if run is None or editing is None or answer is None:
            return None
        if resolved(self.workspace.root / run.source) != resolved(editing.document.file):
            return None
        names = {item: self._names.get(item) for item in self.watching.marks} or {answer.item: answer.name}
        count = len(self.workspace.items)
        if not all(item < count and self._is_called(item, name) for item, name in names.items()):
            return None
        message = f"item {answer.name}" if not self.watching.marks else f"{len(names)} marked items"
        return Selection(tuple(sorted(names)), message)
