"""A battle in the workbench: the form, the price, the page that follows it, and the list of past battles."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from textual.binding import Binding, BindingType

from tui_evals.light_records import dataclass
from tui_evals.present.battles import (
    BattleLine,
    activity_line,
    asked_text,
    outcome_text,
    plan_lines,
    result_lines,
    runs_lines,
    runs_of_battles,
    sides_text,
    stopped_sentence,
)
from tui_evals.present.runs import Pace, command_wait_sentence
from tui_evals.runs.approving import find_typed
from tui_evals.runs.battle import (
    BattlePlan,
    BattleRequest,
    BattleState,
    StoredBattle,
    about_battle,
    battle_permissions,
    plan_battle,
    read_battle,
    sides_of_runs,
    store_unstored,
)
from tui_evals.runs.detach import DetachFailed, start_activity
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.project import Project
from tui_evals.store.battles import (
    ActivityRow,
    BattleRow,
    BattleSide,
    Order,
    activities,
    activity,
    battles,
    drop_activity,
    live_activities,
    order_activity,
    plan_activity,
)
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import Settings
from tui_evals.tui.desk import Desk
from tui_evals.tui.messages import FightBattle
from tui_evals.tui.permissions import NOT_AGREED, approve
from tui_evals.tui.rows import Row, Style, row, wrapped
from tui_evals.tui.widgets.dialogs import Entry, Menu, Reading, ask_priced
from tui_evals.tui.widgets.form import Form
from tui_evals.tui.widgets.form_fields import Faults, Field, Values
from tui_evals.tui.widgets.lines import Lines
from tui_evals.tui.workspace import Workspace

_LOOK = 0.3
"""Seconds between two looks at the store."""
_REFUSED = (CannotPlan, ConfigurationError, DetachFailed, LookupError, StoreError)


def fields_of(settings: Settings) -> tuple[Field, ...]:
    """The fields; a judge is one of those that the configuration names, or the offline demo."""
    return (
        Field("judge", "choice", "Chooses the better answer, in both orders.", (*settings.answering, "demo")),
        Field("pairs", "whole", "How many pairs of answers at most.", default="all"),
        Field("budget", "number", "Stop before more US dollars are spent.", default="none"),
    )


def _faults(values: Values) -> Faults:
    found = {name: "more than 0" for name in ("pairs", "budget") if values.get(name) is not None and values[name] <= 0}
    return found if values.get("judge") else {**found, "judge": "choose who judges; never one of those that answered"}


async def begin(app: Desk, workspace: Workspace, wanted: FightBattle) -> None:
    """Ask who judges, show the price, start the battle; a page says why none was started."""
    try:
        refused = await _start(app, workspace, wanted)
    except _REFUSED as problem:
        refused = problem.reason if isinstance(problem, DetachFailed) else str(problem.args[0])
    if refused:
        app.push_screen(
            Reading("why no battle was begun", lambda width: [row(line) for line in wrapped(refused, width)])
        )


async def _start(app: Desk, workspace: Workspace, wanted: FightBattle) -> str:
    """Start a battle and show it; returns why not if the user refuses."""
    settings = workspace.settings
    begun = {"judge": settings.judge} if settings.judge else {}
    form = Form("battle", fields_of(settings), begun, check=_faults, done="say what it takes", says=wanted.why)
    values = await app.push_screen_wait(form)
    if values is None:
        return ""
    priced = await ask_priced(app, "battle", partial(_priced, workspace, wanted, values), "lets them fight")
    if priced is None:
        return ""
    request, plan, project, running = priced
    asked = plan.battle.asked
    if running:
        app.push_screen(BattlePage(app, asked, running))
        return ""
    missing = await asyncio.to_thread(battle_permissions, request, project)
    if not await approve(app, missing, workspace.root):
        return NOT_AGREED
    planned = partial(plan_activity, kind="battle", about=about_battle(asked), request=request.stored())
    key = await app.writer.write(planned)
    try:
        await asyncio.to_thread(_start_process, workspace, key)
    except DetachFailed:
        await app.writer.write(partial(drop_activity, key=key))
        raise
    app.push_screen(BattlePage(app, asked, key))
    return ""


def _plan(
    workspace: Workspace, wanted: FightBattle, values: Mapping[str, Any]
) -> tuple[BattleRequest, BattlePlan, Project]:
    project = workspace.project()
    with Reader(workspace.database) as reader:
        runs = [reader.find_run(key) for key in wanted.runs]
        if wanted.columns is None:
            sides = sides_of_runs(runs)
        else:
            sides = tuple(BattleSide(runs[0].id, column) for column in wanted.columns)
        judge = find_typed(values["judge"], workspace.settings)
        request = BattleRequest(sides=sides, judge=judge, limit=values.get("pairs"), max_cost=values.get("budget"))
        store_unstored(sides, reader, project)
        return request, plan_battle(request, reader, project), project


async def _priced(
    workspace: Workspace, wanted: FightBattle, values: Mapping[str, Any]
) -> tuple[str, tuple[BattleRequest, BattlePlan, Project, str]]:
    """The question with a battle's cost, empty if it is already running; and the key of its process."""
    request, plan, project = await asyncio.to_thread(_plan, workspace, wanted, values)
    running = await asyncio.to_thread(_running, workspace.database, plan.battle.asked)
    return "" if running else "\n".join(plan_lines(plan)), (request, plan, project, running)


def _running(database: Path, asked: BattleRow) -> str:
    """The key of the process that fights the same battle now; empty without one."""
    with Reader(database) as reader:
        return next((one.key for one in activities(reader, "battle", about_battle(asked), 1) if one.is_live), "")


def _start_process(workspace: Workspace, key: str) -> None:
    with Reader(workspace.database) as reader:
        planned = activity(reader, key)
    start_activity(workspace.database, planned, workspace.root)


# -- past and running battles


async def choose_past(app: Desk, workspace: Workspace) -> None:
    """List the battles of the store; the one that is chosen is shown, and followed while it is fought."""
    try:
        past, runs, live = await asyncio.to_thread(_read_past, workspace.database)
    except StoreError as problem:
        app.tell(str(problem), "error")
        return
    entries = [
        Entry(one.id, sides_text(one, runs), _about(one, live), f"{outcome_text(one)} {one.criteria}") for one in past
    ]
    menu = Menu("battles", entries, empty="no battle yet: B starts one", does="shows it", whole=True)
    chosen = await app.push_screen_wait(menu)
    if chosen is not None:
        asked = next(one for one in past if one.id == chosen)
        running = live.get(about_battle(asked))
        app.push_screen(BattlePage(app, asked, running.key if running is not None else ""))


def _about(battle: BattleRow, live: Mapping[str, ActivityRow]) -> str:
    running = live.get(about_battle(battle))
    return asked_text(battle) if running is None else activity_line(f"▸ {battle.judge}", running, None)


def _read_past(database: Path) -> tuple[list[BattleRow], dict[int, RunRow], dict[str, ActivityRow]]:
    with Reader(database) as reader:
        past = battles(reader)
        live = {one.about: one for one in live_activities(reader, "battle")}
        return past, runs_of_battles(reader, past), live


# -- the page of a battle

_STYLES: Mapping[str, Style] = {"title": "title", "dim": "dim", "warn": "warn", "": ""}


@dataclass(frozen=True, slots=True)
class _Seen:
    """A battle as the store has it now."""

    battle: StoredBattle
    state: BattleState
    running: ActivityRow | None


class BattlePage(Reading):
    """A battle as stored; it continues when the page or the workbench is closed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("x", "stop", "stop", show=False)]

    def __init__(self, app: Desk, asked: BattleRow, key: str) -> None:
        super().__init__(f"battle · {asked.judge} judges", self._rows)
        if key:
            self._help = "j k scroll · x stops it · esc back, the battle continues"
        self._desk = app
        self._asked = asked
        self._key = key
        self._seen: _Seen | None = None
        self._problem = ""
        self._pace = Pace()
        self._orders = 0

    def on_mount(self) -> None:
        """Follow the battle."""
        self.run_worker(self._follow(), group="battle", exit_on_error=False)

    async def _follow(self) -> None:
        while True:
            try:
                self._seen = await asyncio.to_thread(self._read)
            except (LookupError, StoreError) as problem:
                self._problem = str(problem.args[0])
            seen = self._seen
            running = seen.running if seen is not None else None
            if running is not None:
                self._pace.note(time.monotonic(), running.done)
            self.query_one(Lines).show(self._rows)
            if self._problem or running is None or not running.is_live:
                self.say("j k scroll · esc back")
                return
            await asyncio.sleep(_LOOK)

    def _read(self) -> _Seen:
        with Reader(self._desk.workspace.database) as reader:
            running = activity(reader, self._key) if self._key else None
            battle = self._seen.battle if self._seen is not None else read_battle(reader, self._asked)
            return _Seen(battle, battle.state(reader), running)

    async def action_stop(self) -> None:
        """Stop after open calls; when pressed again, stop at once."""
        running = self._seen.running if self._seen is not None else None
        if running is None or not running.is_live:
            self.say("nothing is asked here; esc goes back", wrong=True)
            return
        self._orders += 1
        order: Order = "stop" if self._orders == 1 and running.control != "stop" else "abort"
        try:
            await self._desk.writer.write(partial(order_activity, key=self._key, order=order))
        except StoreError as problem:
            self.say(str(problem), wrong=True)
            return
        self.say("it ends when open calls have their answer; x again ends it now" if order == "stop" else "it ends now")

    def _rows(self, width: int) -> list[Row]:
        seen = self._seen
        if seen is None:
            return [row(line) for line in wrapped(self._problem or "reading the battle…", width)]
        lines = [] if self._key else _past_lines(self._asked)
        due = len(seen.battle.due(seen.state.matches))
        if seen.running is None or not seen.running.is_live:
            lines += runs_lines(seen.battle.runs, seen.battle.duels, self._asked.judge, due, width)
        else:
            lines += runs_lines(seen.battle.runs, seen.battle.duels, self._asked.judge, seen.running.total, width)
        if seen.running is not None:
            lines += self._progress_lines(seen.running, seen.state)
        if seen.running is None or not seen.running.is_live:
            lines += result_lines(seen.state, width)
        if self._problem:
            lines.append(BattleLine(self._problem, "warn"))
        return [
            row((part, _STYLES[line.tone]))
            for line in lines
            for part in ([line.text] if line.fitted else wrapped(line.text, width) or [""])
        ]

    def _progress_lines(self, running: ActivityRow, state: BattleState) -> list[BattleLine]:
        if running.status == "planned" or not running.total:
            lines = [BattleLine("the judge is asked…")] if running.is_live else []
        else:
            lines = [BattleLine(activity_line(self._asked.judge, running, self._pace.rate()))]
        if running.wait is not None:
            lines.append(BattleLine(command_wait_sentence(running.wait, time.time(), is_over=False), "warn"))
        if running.status == "interrupted":
            why = running.message or "its process ended"
            lines.append(BattleLine(stopped_sentence(why), "warn"))
        elif running.status == "finished" and running.total and (why := state.why_undecided):
            lines.append(BattleLine(f"{self._asked.judge} gave not a single verdict: {why}", "warn"))
        return lines


def _past_lines(asked: BattleRow) -> list[BattleLine]:
    return [BattleLine(f"battle {asked.id} · {asked_text(asked)}", "title"), BattleLine(asked.criteria, "dim")]
