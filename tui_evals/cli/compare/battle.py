"""`tui-evals battle` and `battles`: options in, progress and results out."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from tui_evals.cli import project
from tui_evals.cli.inputs import approve, open_project, target_or_stop
from tui_evals.cli.output import Stop, cell, columns, keep_output_to_ourselves, redraws, rewind, say, say_json, warn
from tui_evals.cli.runs_named import runs_meant
from tui_evals.compare.runs import MAX_RUNS
from tui_evals.present.battles import (
    BattleLine,
    asked_text,
    battle_json,
    outcome_text,
    past_json,
    plan_json,
    plan_lines,
    price_sentence,
    progress_line,
    result_lines,
    runs_lines,
    runs_of_battles,
    sides_text,
    stopped_sentence,
)
from tui_evals.present.columns import wrap
from tui_evals.present.grid import NoColumn, columns_meant
from tui_evals.present.runs import Pace, command_wait_sentence, pace_parts
from tui_evals.runs.activities import recorded_activity
from tui_evals.runs.battle import (
    NO_JUDGE,
    BattleExecution,
    BattlePlan,
    BattleRequest,
    about_battle,
    battle_permissions,
    note_decided,
    plan_battle,
    read_battle,
    sides_of_runs,
    store_unstored,
    stored_battle_request,
    wrong_number,
)
from tui_evals.runs.engine import ExecutionEnd
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.project import Project
from tui_evals.runs.status import exit_code_of
from tui_evals.store.battles import BattleRow, BattleSide, activity, battle_numbered, battles
from tui_evals.store.connection import why_read_only
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import StoreWait
from tui_evals.targets.base import ConfigurationError

_EVERY = 0.5
_PLAIN_EVERY = 5.0
_STYLES: dict[str, dict[str, Any]] = {"title": {"bold": True}, "dim": {"dim": True}, "warn": {"fg": "yellow"}}


def battle(words: Sequence[str], *, env_name: str | None, trusting: bool, stored: str | None, **given: Any) -> int:
    """Run a battle between the named runs, or between columns of one run."""
    here, as_json = open_project(env_name, trusting), given["as_json"]
    with project.reader() as reader:
        request = _request(words, given, reader, here) if stored is None else _stored_request(stored, reader, here)
        if not given["plan_only"]:
            store_unstored(request.sides, reader, here)
        try:
            plan = plan_battle(request, reader, here)
        except CannotPlan as problem:
            raise Stop(str(problem)) from None
        if plan.caution:
            warn(f"note: {plan.caution}")
        if given["plan_only"]:
            return _say_plan(plan, as_json)
        if not as_json:
            _say_lines(runs_lines(plan.battle.runs, plan.battle.duels, request.judge.name, len(plan.due), columns()))
            if plan.due:
                _say_wrapped(price_sentence(plan, request.max_cost))
        outcome, spent, interrupted = ExecutionEnd(True), 0.0, False
        if plan.due:
            outcome, spent, interrupted = _execute(request, plan, reader, here, stored, quiet=as_json)
        return _say_end(plan, reader, here, outcome, spent, interrupted=interrupted, as_json=as_json)


def _request(words: Sequence[str], given: dict[str, Any], reader: Reader, here: Project) -> BattleRequest:
    judge = target_or_stop(given["judge"] or here.settings.judge, here.settings)
    if judge is None:
        raise Stop(NO_JUDGE, 3)
    options = {name: given[name] for name in ("criteria", "limit", "seed", "concurrency", "max_cost")}
    return BattleRequest(sides=_sides_meant(reader, words, given["between"]), judge=judge, **options)


def _stored_request(key: str, reader: Reader, here: Project) -> BattleRequest:
    try:
        return stored_battle_request(activity(reader, key).request, here)
    except ConfigurationError as problem:
        raise Stop(str(problem), 3) from None
    except LookupError as problem:
        raise Stop(str(problem.args[0])) from None


def _sides_meant(reader: Reader, words: Sequence[str], between: str | None) -> tuple[BattleSide, ...]:
    """The named runs, or the two named columns of one."""
    if between is not None:
        if len(words) > 1:
            raise Stop(f"--columns is a battle between two columns of one run, and {len(words)} were given; name one")
        (run,) = runs_meant(reader, words or ("last",))
        try:
            return tuple(BattleSide(run.id, column) for column in columns_meant(run, between))
        except NoColumn as problem:
            raise Stop(str(problem)) from None
    if not 2 <= len(words) <= MAX_RUNS:
        raise Stop(wrong_number(len(words)))
    try:
        return sides_of_runs([project.run_named(reader, word) for word in words])
    except CannotPlan as problem:
        raise Stop(str(problem)) from None


# -- while the judge is asked


def _execute(
    request: BattleRequest, plan: BattlePlan, reader: Reader, here: Project, stored: str | None, *, quiet: bool
) -> tuple[ExecutionEnd, float, bool]:
    """Ask the judge; returns how that ended, its cost, and whether Ctrl-C ended it."""
    approve(battle_permissions(request, here), here.root)
    keep_output_to_ourselves()
    about = about_battle(plan.battle.asked)
    try:
        with (
            project.writer(here.environment) as writer,
            recorded_activity(reader, writer, "battle", about, request.stored(), stored) as record,
        ):
            execution = BattleExecution(request, plan, here, reader, writer, record)
            if execution.caution:
                warn(execution.caution)
            outcome, interrupted = asyncio.run(_run_interruptible(execution, request.judge.name, quiet=quiet))
            return outcome, execution.progress.cost, interrupted
    except ConfigurationError as problem:
        raise Stop(str(problem), 3) from None
    except StoreError as problem:
        raise Stop(f"{problem}\nNothing that was decided is lost: the same command continues", 1) from None
    except LookupError as problem:
        raise Stop(f"{problem.args[0]}: another program deleted a run. Decided battles are kept", 1) from None


async def _run_interruptible(execution: BattleExecution, judge: str, *, quiet: bool) -> tuple[ExecutionEnd, bool]:
    """Run with Ctrl-C: the first lets open requests finish, the second stops now."""
    live = _Live(execution, judge)
    work = asyncio.create_task(execution.run(live.show_wait))
    presses = 0

    def pressed() -> None:
        nonlocal presses
        presses += 1
        if presses == 1:
            warn("\nfinishing open requests; Ctrl-C again stops now. The same command continues later")
            live.leave()
            execution.stop()
        else:
            execution.abort()

    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, pressed)
    while not work.done():
        await asyncio.wait([work], timeout=_EVERY)
        if not quiet:
            live.show(over=work.done())
    return work.result(), presses > 0


class _Live:
    """The progress line of a battle: renewed on a terminal, repeated now and then elsewhere."""

    def __init__(self, execution: BattleExecution, judge: str) -> None:
        self._execution = execution
        self._judge = judge
        self._live = redraws()
        self._pace = Pace()
        self._last_shown: float | None = None

    def leave(self) -> None:
        """Keep the line, because something else was printed below it."""
        self._last_shown = None

    def show_wait(self, wait: StoreWait, is_over: bool) -> None:
        """Print what the battle waits for, and that it continues."""
        self.leave()
        with suppress(OSError):  # the output may go to the full disk
            warn(command_wait_sentence(wait, time.time(), is_over=is_over))

    def show(self, *, over: bool) -> None:
        """Print how far it is, where that is due."""
        now, done = time.monotonic(), self._execution.progress
        self._pace.note(now, done.done)
        if not self._live and not over and self._last_shown is not None and now - self._last_shown < _PLAIN_EVERY:
            return
        if self._live and self._last_shown is not None:
            rewind(1)
        self._last_shown = now
        pace = pace_parts(self._pace.rate(), done.total - done.done)
        line = progress_line(self._judge, done.done, done.total, done.facts["undecided"], pace, done.cost)
        say(cell(line, (columns() or 1000) - 1))


# -- output


def _say_end(
    plan: BattlePlan,
    reader: Reader,
    here: Project,
    outcome: ExecutionEnd,
    spent: float,
    *,
    interrupted: bool,
    as_json: bool,
) -> int:
    """Print the result; the exit code."""
    stopped, code = stopped_sentence(outcome.message), 130 if interrupted else exit_code_of(outcome.code)
    if outcome.code == "lost":  # what can be read here is of two stores
        raise Stop(stopped, code)
    try:
        state = plan.battle.state(reader)
    except StoreError:
        if outcome.code != "store":
            raise
        raise Stop(stopped, code) from None  # it says more of a store that can be read no more
    if not plan.due and not why_read_only(reader.path):
        with project.writer(here.environment) as writer:
            note_decided(plan, state, writer)
    asked = plan.battle.asked
    if as_json:
        ending = {"cost": spent, "finished": outcome.finished, "message": outcome.message}
        say_json({"judge": asked.judge, "criteria": asked.criteria, **battle_json(state), **ending})
    else:
        _say_lines(result_lines(state, columns()))
    if not outcome.finished:
        warn(stopped)
        return code
    if plan.due and (why := state.why_undecided):
        warn(f"{asked.judge} gave not a single verdict: {why}")
        return 1
    return 0


def _say_plan(plan: BattlePlan, as_json: bool) -> int:
    if as_json:
        say_json(plan_json(plan))
        return 0
    for line in plan_lines(plan):
        say(line)
    return 0


def _say_lines(lines: Iterable[BattleLine]) -> None:
    for line in lines:
        if line.fitted:
            say(line.text, **_STYLES.get(line.tone, {}))
        elif line.text:
            _say_wrapped(line.text, **_STYLES.get(line.tone, {}))
        else:
            say()


def _say_wrapped(text: str, **style: Any) -> None:
    for line in wrap(text, columns()):
        say(line, **style)


# -- past battles


def past_battles(number: int | None, as_json: bool) -> None:
    """List the battles of the store, or print the result of one as far as it is decided."""
    with project.reader() as reader:
        if number is None:
            _say_past(reader, battles(reader), as_json)
            return
        try:
            asked = battle_numbered(reader, number)
        except LookupError as problem:
            raise Stop(str(problem.args[0])) from None
        found = read_battle(reader, asked)
        state = found.state(reader)
        if as_json:
            say_json({**past_json(asked, runs_of_battles(reader, [asked])), **battle_json(state)})
            return
    _say_wrapped(f"battle {asked.id} · {asked_text(asked)}", bold=True)
    _say_wrapped(asked.criteria, dim=True)
    _say_lines(runs_lines(found.runs, found.duels, asked.judge, len(found.due(state.matches)), columns()))
    _say_lines(result_lines(state, columns()))


def _say_past(reader: Reader, past: list[BattleRow], as_json: bool) -> None:
    runs = runs_of_battles(reader, past)
    if as_json:
        say_json([past_json(one, runs) for one in past])
    elif not past:
        say("No battles yet. Start one: `tui-evals battle A B --judge NAME`")
    for one in () if as_json else past:
        _say_wrapped(f"{one.id}  {asked_text(one)}", bold=True)
        _say_wrapped(sides_text(one, runs))
        _say_wrapped(outcome_text(one), dim=True)
