"""Runs: start one after saying what it costs, again, rescore, pause, stop. The command line executes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui_evals.store.database import StoreError
from tui_evals.store.filters import parse_filter
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.tui.lines import row, wrapped
from tui_evals.tui.messages import OpenRun
from tui_evals.tui.screens.ask import Confirm, Reading
from tui_evals.tui.screens.runform import RunForm, fields_of
from tui_evals.tui.state.ending import why_stopped, wrote_tests
from tui_evals.tui.state.launching import WITHOUT, NotStarted, Order, costs, told
from tui_evals.tui.state.workspace import Selection

if TYPE_CHECKING:
    from tui_evals.tui.app import Workbench

NOT_PASSED = "!status:pass !status:pending !status:running !status:answered"
_LIVE = ("planned", "running", "paused", "stopping")


def why_no_run(app: Workbench) -> str | None:
    """Nothing to run."""
    editing = app.workspace.editing
    if editing is None:
        return "no dataset is open: o opens one, ctrl+n begins one"
    report = app.workspace.report
    if report is not None and not report.valid:
        problem = next(one for one in report.problems if one.severity == "error")
        return f"the dataset is not valid yet: {problem}"
    return None


async def run(app: Workbench) -> None:
    """Run what is selected, as it is being edited, after a form that says what it costs."""
    chosen = app.pane(app.front).selection()
    if chosen is None:
        app.tell("nothing of the open dataset is selected here: go to the tree (1) and run from there", "warn")
        return
    await start(app, chosen, app.remembered.values.get("form"))


async def start(app: Workbench, chosen: Selection, values: Mapping[str, Any] | None, parent: str | None = None) -> bool:
    """Run a selection after the form; whether a run was begun."""
    editing = app.workspace.editing
    if editing is None:
        return False
    file, data = editing.document.file, editing.data
    snapshot = await app.pen.write(lambda writer: writer.snapshot(data, str(file)))

    def order(given: Mapping[str, Any]) -> Order:
        return Order(snapshot, file, chosen.items, given, parent)

    settings = app.workspace.settings
    form = RunForm(chosen.says, fields_of(settings), dict(values or _defaults(app)), order, _ask(app))
    given = await app.push_screen_wait(form)
    if given is None:
        return False
    app.remembered.put("form", {name: value for name, value in given.items() if name != "name"})
    app.tell("starting…")
    return await _started(app, [*order(given).arguments(), "--detach"], "runs")


def _ask(app: Workbench) -> Any:
    async def ask(arguments: list[str]) -> dict[str, Any]:
        return await told(app.workspace.root, app.workspace.database, arguments)

    return ask


def _defaults(app: Workbench) -> dict[str, Any]:
    settings = app.workspace.settings
    found: dict[str, Any] = {}
    targets = list(settings.run.targets) or list(settings.targets)[:1]
    if targets:
        found["targets"] = targets
    if settings.judge:
        found["judge"] = settings.judge
    return found


async def _started(app: Workbench, arguments: list[str], says: str) -> bool:
    try:
        answer = await told(app.workspace.root, app.workspace.database, arguments)
    except NotStarted as problem:
        _refused(app, str(problem))
        return False
    found, shown = app.watching.reader.find_run(answer["run"]), app.watching.run
    if why := why_stopped(app.workspace.database, found):
        _refused(app, why)
    elif found.status in _LIVE:
        app.tell(f"{found.name} ({found.key}) {says}: p pauses, x stops; it goes on when you leave")
    if shown is None or shown.id != found.id:
        app.going_on = found.key
        app.post_message(OpenRun(found.id))
    return True


def _refused(app: Workbench, why: str) -> None:
    """Why nothing runs, whole, for it may be longer than a line."""
    app.going_on = None
    app.tell("nothing was started", "warn")
    app.push_screen(Reading("why nothing was started", lambda width: [row(line) for line in wrapped(why, width)]))


def why_no_rerun(app: Workbench) -> str | None:
    """No run, or one that still goes on."""
    found = app.watching.run
    if found is None:
        return "no run is on screen: 6 lists runs"
    going_on = f"{found.key} still goes on; x stops it" if found.status in ("running", "stopping") else None
    return wrote_tests(found) or going_on


async def rerun(app: Workbench) -> None:
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


async def _priced(app: Workbench, arguments: list[str], what: str, says: str) -> None:
    """Say what it costs, then do it."""
    app.tell("working out what it costs…")
    try:
        plan = await told(app.workspace.root, app.workspace.database, [*arguments, "--plan"])
    except NotStarted as problem:
        _refused(app, str(problem))
        return
    app.tell(costs(plan))
    if await app.push_screen_wait(Confirm("run", f"{what}: {costs(plan)}.", "do it")):
        await _started(app, [*arguments, "--detach"], says)


async def rescore(app: Workbench) -> None:
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


def why_no_pause(app: Workbench) -> str | None:
    """No run, or one that is over."""
    found = app.pane(app.front).run_row()
    if found is None:
        return "no run is chosen: 6 lists runs"
    if wrote := wrote_tests(found):
        return wrote
    if found.status == "finished":
        return f"{found.key} is finished; R asks its failures again"
    return f"{found.key} is stopping" if found.status == "stopping" else None


async def pause(app: Workbench) -> None:
    """Pause, let go on, or resume what was interrupted."""
    found = app.pane(app.front).run_row()
    assert found is not None
    if found.status == "interrupted" or (found.status == "planned" and found.pid is None):
        app.tell(f"resuming {found.key}…")
        app.going_on = found.key
        await _started(app, ["resume", found.key, "--detach"], "goes on")
        return
    paused = found.status == "paused" or found.control == "pause"
    await _controlled(app, found, "" if paused else "pause", "goes on" if paused else "pauses; p lets it go on")


def why_no_stop(app: Workbench) -> str | None:
    """No run that goes on."""
    found = app.pane(app.front).run_row()
    if found is None:
        return "no run is chosen: 6 lists runs"
    over = None if found.status in _LIVE else f"{found.key} is {found.status}; there is nothing to stop"
    return wrote_tests(found) or over


async def stop(app: Workbench) -> None:
    """Stop once what is in flight has its answer."""
    found = app.pane(app.front).run_row()
    assert found is not None
    await _controlled(app, found, "stop", "stops once what is in flight has its answer; p resumes it later")


async def _controlled(app: Workbench, run: RunRow, word: Any, says: str) -> None:
    try:
        await app.pen.write(lambda writer: writer.control(run.id, word))
    except StoreError as problem:
        app.tell(str(problem), "error")
    else:
        app.tell(f"{run.key} {says}")
