"""Starting what outlives the workbench: the command line does it, in a process and a session of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui_evals.store.database import StoreError
from tui_evals.store.filters import parse_filter
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.targets.config import Settings
from tui_evals.tui.desk import Desk
from tui_evals.tui.messages import OpenRun
from tui_evals.tui.rows import row, wrapped
from tui_evals.tui.widgets.dialogs import Confirm, Reading
from tui_evals.tui.widgets.form import DONE, Faults, Field, Form, Values
from tui_evals.tui.workspace import Selection

from .ending import reason_in, why_stopped, wrote_tests

_LAST_LINES = 6
_BEGUN = re.compile(r"the run (\w+) ended as soon as it began:\n")
_UNJUDGED = re.compile(r"(.+) is judged by a model and no judge is named\.")


class NotStarted(Exception):
    """The command line refused; the message is what it said, without the options it named."""

    unjudged: str | None = None
    """The evaluators that need a judge, where that is why."""


def refusal(said: str) -> NotStarted:
    """What the command line said, in words of the workbench."""
    if missing := _UNJUDGED.search(said):
        ways = "name one in the settings (,), or leave such evaluators out of the dataset"
        found = NotStarted(f"{missing[1]} is judged by a model and no judge is named: {ways}")
        found.unjudged = missing[1]
        return found
    if begun := _BEGUN.search(said):
        return NotStarted(reason_in(said, begun[1]))
    return NotStarted("\n".join(said.splitlines()[-_LAST_LINES:]))


@dataclass(frozen=True, slots=True)
class RunOrder:
    """What a run is to be: the snapshot of a dataset, some of its items, and the values of the form."""

    snapshot: str
    file: Path
    items: tuple[int, ...] | None
    values: Mapping[str, Any]
    parent: str | None = None
    """The run whose failures are asked again."""

    def arguments(self) -> list[str]:
        """The same, as the command line says it."""
        words = ["run", "--snapshot", self.snapshot, "--as", str(self.file)]
        if self.items is not None:
            words += ["--items", positions(self.items)]
        words += ["--parent", self.parent] if self.parent else []
        values = self.values
        targets = [*values.get("targets", ()), *_listed(values.get("other targets"))]
        for target in targets:
            words += ["--target", target]
        judge = values.get("judge")
        words += ["--without-judges"] if judge == WITHOUT else ["--judge", judge] if judge else []
        for name in ("repeats", "concurrency"):
            words += [f"--{name}", str(values[name])] if values.get(name) else []
        words += ["--max-cost", str(values["budget"])] if values.get("budget") else []
        words += ["--name", values["name"]] if values.get("name") else []
        words += ["--no-cache"] if values.get("ask again") else []
        return words


WITHOUT = "without judges"


def _listed(text: object) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()] if isinstance(text, str) else []


def positions(items: Iterable[int]) -> str:
    """Positions from 0 as ranges from 1: `1,4-9`."""
    found: list[list[int]] = []
    for item in sorted(items):
        if found and item == found[-1][1] + 1:
            found[-1][1] = item
        else:
            found.append([item, item])
    return ",".join(f"{start + 1}" if start == end else f"{start + 1}-{end + 1}" for start, end in found)


async def ask_command_line(root: Path, database: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """What the command line answers, as JSON; NotStarted holds its sentences when it refuses."""
    # A thread, because a task that ends with the workbench would leave the pipes of the command open.
    process = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "tui_evals", *arguments, "--json"],
        cwd=root,
        env={**os.environ, "TUI_EVALS_DB": str(database)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        start_new_session=True,
        check=False,
    )
    if process.returncode != 0:
        raise refusal(
            process.stderr.decode(errors="replace").strip() or f"tui-evals ended with code {process.returncode}"
        )
    found: dict[str, Any] = json.loads(process.stdout.decode().strip().splitlines()[-1])
    return found


def costs(plan: Mapping[str, Any]) -> str:
    """What a plan comes to, as a sentence."""
    answers, judged, cost = plan["answers"], plan["judge_calls"], plan["cost"]
    calls = f"{answers:,} call{'s' if answers != 1 else ''}" if answers or not judged else ""
    if judged:
        calls += (
            f" and {judged:,} of the judge" if calls else f"{judged:,} call{'s' if judged != 1 else ''} of the judge"
        )
    if cost is None:
        return f"{calls}, a price is not known"
    return f"{calls}, {'free' if cost == 0 else 'less than 0.01 USD' if cost < 0.01 else f'about {cost:,.2f} USD'}"


_PAUSE = 0.2
_NO_TARGET = (
    "nothing is to answer yet: take demo, which is offline and free; or name a model under other targets; or write a "
    "target into .evals/config.toml, as `tui-evals help targets` shows"
)
_NO_JUDGE = "is judged by a model: choose which, or “without judges”, or name one for good in the settings (,)"
Ask = Callable[[list[str]], Awaitable[dict[str, Any]]]


def fields_of(settings: Settings) -> tuple[Field, ...]:
    """The fields, with the targets of the configuration to choose from."""
    known = tuple(dict.fromkeys((*settings.targets, "demo")))
    default = settings.run
    return (
        Field("targets", "several", "What answers: targets of .evals/config.toml, and the offline demo.", known),
        Field("other targets", "text", "More of them by commas: openai/gpt-4o-mini, replay:answers.csv, command:…"),
        Field("judge", "choice", "The target that judges where an evaluator asks one.", (*known, WITHOUT)),
        Field("repeats", "whole", "How often each item is asked.", default=str(default.repeats)),
        Field("concurrency", "whole", "Calls in flight at once, per target.", default="as configured"),
        Field("budget", "number", "Stop before more US dollars are spent.", default=str(default.max_cost or "none")),
        Field("ask again", "yes", "Ask even where the answer is known from before.", default="no"),
        Field("name", "text", "A name for the run.", default="the dataset's"),
    )


def faults_of(values: Values) -> Faults:
    """What is wrong with the values themselves."""
    found: dict[str, str] = {}
    if not values.get("targets") and not values.get("other targets"):
        found["targets"] = _NO_TARGET
    for name in ("repeats", "concurrency"):
        if values.get(name) is not None and values[name] < 1:
            found[name] = "at least 1"
    if values.get("budget") is not None and values["budget"] <= 0:
        found["budget"] = "more than 0"
    return found


class RunForm(Form):
    """Says what the run costs each time a value changes; the answer is the values."""

    def __init__(
        self,
        says: str,
        fields: Sequence[Field],
        values: dict[str, Any],
        order: Callable[[Mapping[str, Any]], RunOrder],
        ask: Ask,
    ) -> None:
        super().__init__(f"run {says}", fields, values, check=self._faults, done="start", says="…")
        self._order = order
        self._ask = ask
        self._refused: dict[str, str] = {}

    def on_mount(self) -> None:
        """The cursor begins where enter starts the run, once it can be started."""
        self.values_changed()
        if not faults_of(self.values):
            self._lines.show(self._rows, at=DONE)

    def _faults(self, values: Values) -> Faults:
        return faults_of(values) or self._refused

    def values_changed(self) -> None:
        """Work out again what it comes to."""
        self._refused = {}
        if faults_of(self.values):
            self.redraw("")
            return
        self.redraw("working out what it costs…")
        self.run_worker(self._price(), group="price", exclusive=True, exit_on_error=False)

    async def _price(self) -> None:
        await asyncio.sleep(_PAUSE)
        try:
            plan = await self._ask([*self._order(self.values).arguments(), "--plan"])
        except NotStarted as problem:
            self._refused = {"judge": f"{problem.unjudged} {_NO_JUDGE}"} if problem.unjudged else {"": str(problem)}
            self._says = ""
            self._lines.show(self._rows, at="judge" if problem.unjudged and self._lines.key is DONE else None)
        else:
            self.redraw(f"{costs(plan)}; repairs and retries may add some{_remark(plan)}")


def _remark(plan: Mapping[str, Any]) -> str:
    """What one should know of who judges."""
    alike = plan.get("judge") in plan.get("targets", ()) and plan["judge_calls"]
    return f". {plan['judge']} judges its own answers, and judges favour those" if alike else ""


NOT_PASSED = "!status:pass !status:pending !status:running !status:answered"
_LIVE = ("planned", "running", "paused", "stopping")


def why_no_run(app: Desk) -> str | None:
    """Nothing to run."""
    editing = app.workspace.editing
    if editing is None:
        return "no dataset is open: o opens one, ctrl+n begins one"
    report = app.workspace.report
    if report is not None and not report.valid:
        problem = next(one for one in report.problems if one.severity == "error")
        return f"the dataset is not valid yet: {problem}"
    return None


async def run(app: Desk) -> None:
    """Run what is selected, as it is being edited, after a form that says what it costs."""
    chosen = app.pane(app.front).selection()
    if chosen is None:
        app.tell("nothing of the open dataset is selected here: go to the tree (1) and run from there", "warn")
        return
    await start(app, chosen, app.session.values.get("form"))


async def start(app: Desk, chosen: Selection, values: Mapping[str, Any] | None, parent: str | None = None) -> bool:
    """Run a selection after the form; whether a run was begun."""
    editing = app.workspace.editing
    if editing is None:
        return False
    file, data = editing.document.file, editing.data
    snapshot = await app.writer.write(lambda writer: writer.snapshot(data, str(file)))

    def order(given: Mapping[str, Any]) -> RunOrder:
        return RunOrder(snapshot, file, chosen.items, given, parent)

    settings = app.workspace.settings
    form = RunForm(chosen.says, fields_of(settings), dict(values or _defaults(app)), order, _ask(app))
    given = await app.push_screen_wait(form)
    if given is None:
        return False
    app.session.put("form", {name: value for name, value in given.items() if name != "name"})
    app.tell("starting…")
    return await _started(app, [*order(given).arguments(), "--detach"], "runs")


def _ask(app: Desk) -> Any:
    async def ask(arguments: list[str]) -> dict[str, Any]:
        return await ask_command_line(app.workspace.root, app.workspace.database, arguments)

    return ask


def _defaults(app: Desk) -> dict[str, Any]:
    settings = app.workspace.settings
    found: dict[str, Any] = {}
    targets = list(settings.run.targets) or list(settings.targets)[:1]
    if targets:
        found["targets"] = targets
    if settings.judge:
        found["judge"] = settings.judge
    return found


async def _started(app: Desk, arguments: list[str], says: str) -> bool:
    try:
        answer = await ask_command_line(app.workspace.root, app.workspace.database, arguments)
    except NotStarted as problem:
        _refused(app, str(problem))
        return False
    found, shown = app.watching.reader.find_run(answer["run"]), app.watching.run
    if why := why_stopped(app.workspace.database, found):
        _refused(app, why)
    elif found.status in _LIVE:
        app.tell(f"{found.name} ({found.key}) {says}: p pauses, x stops; it goes on when you leave")
    if shown is None or shown.id != found.id:
        app.followed_run = found.key
        app.post_message(OpenRun(found.id))
    return True


def _refused(app: Desk, why: str) -> None:
    """Why nothing runs, whole, for it may be longer than a line."""
    app.followed_run = None
    app.tell("nothing was started", "warn")
    app.push_screen(Reading("why nothing was started", lambda width: [row(line) for line in wrapped(why, width)]))


def why_no_rerun(app: Desk) -> str | None:
    """No run, or one that still goes on."""
    found = app.watching.run
    if found is None:
        return "no run is on screen: 6 lists runs"
    going_on = f"{found.key} still goes on; x stops it" if found.status in ("running", "stopping") else None
    return wrote_tests(found) or going_on


async def rerun(app: Desk) -> None:
    """What did not pass again: as it is edited now where its dataset is open, else as it was asked."""
    found = app.watching.run
    assert found is not None
    with Reader(app.workspace.database) as reader:
        rows = reader.rows(reader.ids(found.id, parse_filter(NOT_PASSED)))
    names = {row.name for row in rows}
    if not names:
        app.tell(f"every answer of {found.key} passed")
        return
    editing = app.workspace.editing
    if editing is not None and source_of(found, app.workspace.root) == editing.document.file:
        items = tuple(number for number, name in enumerate(app.workspace.names()) if name in names)
        reason = why_no_run(app)
        if items and reason is None:
            again = Selection(items, f"{len(items)} items of {found.key} that did not pass")
            await start(app, again, _values(found), found.key)
            return
    says = f"ask {len(names)} item{'s' if len(names) != 1 else ''} of {found.key} again"
    await _priced(app, ["rerun", found.key, "--only", NOT_PASSED], says, "runs")


def source_of(run: RunRow, root: Path) -> Path:
    """The file a run's dataset came from."""
    return (root / run.source).resolve()


def _values(run: RunRow) -> dict[str, Any]:
    """The form as a run was started."""
    config = run.config
    found: dict[str, Any] = {"targets": list(run.targets), "ask again": True}
    judge = config.get("judge")
    if config.get("without_judges"):
        found["judge"] = WITHOUT
    elif isinstance(judge, dict):
        found["judge"] = judge["name"]
    if config.get("repeats", 1) > 1:
        found["repeats"] = config["repeats"]
    terms = config.get("terms") or {}
    found |= {"concurrency": terms["concurrency"]} if terms.get("concurrency") else {}
    found |= {"budget": terms["max_cost"]} if terms.get("max_cost") else {}
    return found


async def _priced(app: Desk, arguments: list[str], what: str, says: str) -> None:
    """Say what it costs, then do it."""
    app.tell("working out what it costs…")
    try:
        plan = await ask_command_line(app.workspace.root, app.workspace.database, [*arguments, "--plan"])
    except NotStarted as problem:
        _refused(app, str(problem))
        return
    app.tell(costs(plan))
    if await app.push_screen_wait(Confirm("run", f"{what}: {costs(plan)}.", "do it")):
        await _started(app, [*arguments, "--detach"], says)


async def rescore(app: Desk) -> None:
    """Judge the answers again, by the evaluators of the open dataset where it is the one that was asked."""
    found = app.watching.run
    assert found is not None
    arguments = ["rescore", found.key]
    editing = app.workspace.editing
    if editing is not None and source_of(found, app.workspace.root) == editing.document.file:
        if editing.dirty:
            app.tell("rescore judges by the saved dataset: ctrl+s saves your edits first", "warn")
            return
        with Reader(app.workspace.database) as reader:
            asked = reader.snapshot(found.snapshot)
        if [_turns(item) for item in asked.get("items", [])] == [_turns(item) for item in app.workspace.items]:
            arguments += ["--dataset", str(editing.document.file)]
    await _priced(app, arguments, f"judge {found.total} answers of {found.key} again", "is judged again")


def _turns(item: Any) -> int:
    turns = item.get("turns") if isinstance(item, dict) else None
    return len(turns) if isinstance(turns, list) else 0


def why_no_pause(app: Desk) -> str | None:
    """No run, or one that is over."""
    found = app.pane(app.front).run_row()
    if found is None:
        return "no run is chosen: 6 lists runs"
    if wrote := wrote_tests(found):
        return wrote
    if found.status == "finished":
        return f"{found.key} is finished; R asks its failures again"
    return f"{found.key} is stopping" if found.status == "stopping" else None


async def pause(app: Desk) -> None:
    """Pause, let go on, or resume what was interrupted."""
    found = app.pane(app.front).run_row()
    assert found is not None
    if found.status == "interrupted" or (found.status == "planned" and found.pid is None):
        app.tell(f"resuming {found.key}…")
        app.followed_run = found.key
        await _started(app, ["resume", found.key, "--detach"], "goes on")
        return
    paused = found.status == "paused" or found.control == "pause"
    await _controlled(app, found, "" if paused else "pause", "goes on" if paused else "pauses; p lets it go on")


def why_no_stop(app: Desk) -> str | None:
    """No run that goes on."""
    found = app.pane(app.front).run_row()
    if found is None:
        return "no run is chosen: 6 lists runs"
    over = None if found.status in _LIVE else f"{found.key} is {found.status}; there is nothing to stop"
    return wrote_tests(found) or over


async def stop(app: Desk) -> None:
    """Stop once what is in flight has its answer."""
    found = app.pane(app.front).run_row()
    assert found is not None
    await _controlled(app, found, "stop", "stops once what is in flight has its answer; p resumes it later")


async def _controlled(app: Desk, run: RunRow, word: Any, says: str) -> None:
    try:
        await app.writer.write(lambda writer: writer.control(run.id, word))
    except StoreError as problem:
        app.tell(str(problem), "error")
    else:
        app.tell(f"{run.key} {says}")
