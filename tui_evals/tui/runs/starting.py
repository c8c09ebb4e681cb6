"""Starting runs from the workbench: prepared in a thread, stored, and executed by a process of its own."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tui_evals.datasets.discover import prompt_files
from tui_evals.datasets.paths import DatasetError
from tui_evals.datasets.prompts import OWN_SUFFIXES, prompt_name
from tui_evals.datasets.validate import document_of_data
from tui_evals.files import CannotSave, write_atomically
from tui_evals.light_records import dataclass
from tui_evals.present.figures import estimate_sentence, why_think_twice
from tui_evals.present.runs import destination_lines, rule_words, stop_reason
from tui_evals.project_files import resolved
from tui_evals.runs.detach import DetachFailed, has_begun, is_asked_again, is_being_judged, start_detached
from tui_evals.runs.errors import CannotPlan, MissingJudge
from tui_evals.runs.estimating import Estimate
from tui_evals.runs.execution import Job
from tui_evals.runs.project import Project
from tui_evals.runs.readiness import Obstacle, Unjudgeable, obstacles_of
from tui_evals.runs.rescoring import RescoreRequest, Rule, estimate_rescore, prepare_rescore
from tui_evals.runs.resuming import demand_errors, stored_job
from tui_evals.runs.start import PreparedRun, RunRequest, prepare, rerun_items
from tui_evals.store import run_figures
from tui_evals.store.baselines import dataset_key
from tui_evals.store.database import StoreError
from tui_evals.store.filters import parse_filter
from tui_evals.store.reader import Reader
from tui_evals.store.records import LIVE_STATUSES, RunRow
from tui_evals.targets.base import ConfigurationError, TargetConfig
from tui_evals.targets.config import RunDefaults, Settings, find_target
from tui_evals.targets.sweep import Sweep, read_sweep
from tui_evals.text.measures import counted, money
from tui_evals.tui.chosen_answers import ChosenAnswers, items_of
from tui_evals.tui.desk import Desk
from tui_evals.tui.messages import OpenRun
from tui_evals.tui.permissions import NOT_AGREED, STORE_UNUSED, approve, approve_store
from tui_evals.tui.rows import row, wrapped
from tui_evals.tui.runs.run_status import why_no_run
from tui_evals.tui.widgets.dialogs import Confirm, Reading, ask_priced
from tui_evals.tui.widgets.form import DONE, LEAVE, Form
from tui_evals.tui.widgets.form_fields import Faults, Field, Values
from tui_evals.tui.workspace import Selection

WITHOUT = "without judges"
UNJUDGED = "unjudged too"
KEEP = "keep as"
Work = TypeVar("Work")
REFUSALS = (CannotPlan, ConfigurationError, DatasetError, StoreError)
"""Everything that can keep a run from being planned; each is one sentence."""


@dataclass(frozen=True, slots=True)
class RunOrder:
    """The run to start: the edited dataset, some of its items, and the values of the form."""

    data: Mapping[str, Any]
    file: Path
    items: tuple[int, ...] | None
    values: Mapping[str, Any]
    parent: str | None = None
    """The run whose failures are asked again."""
    offered: Mapping[str, TargetConfig] = field(default_factory=dict)
    """The targets that the form offered, by the word for each: they come from a file and were not typed."""

    def request(self, root: Path) -> RunRequest:
        """The run that the form describes, as a request of any face."""
        values = self.values
        judge = values.get("judge")
        targets = (*values.get("targets", ()), *_split(values.get("other targets")))
        return RunRequest(
            document=document_of_data(dict(self.data), self.file),
            source=dataset_key(str(self.file), root),
            name=values.get("name") or self.file.stem,
            parent=self.parent,
            targets=tuple(self.offered.get(word, word) for word in targets),
            prompts=tuple(root / word for word in values.get("prompts") or ()),
            sweep=_sweep(values),
            judge=None if judge in (None, WITHOUT) else self.offered.get(judge, judge),
            without_judges=judge == WITHOUT,
            repeats=values.get("repeats"),
            items=None if self.items is None else frozenset(self.items),
            concurrency=values.get("concurrency"),
            max_cost=values.get("budget"),
            use_cache=not values.get("ask again"),
            allow_unjudged=bool(values.get(UNJUDGED)),
        )

    def experiment(self, root: Path) -> str:
        """The text of an experiment in the root of the project that says the same."""
        from tui_evals.runs.experiments import experiment_text  # few runs are kept

        values, judge = self.values, self.values.get("judge")
        return experiment_text(
            {
                "data": os.path.relpath(self.file, root),
                "items": None if self.items is None else ",".join(str(number + 1) for number in sorted(self.items)),
                "prompts": list(values.get("prompts") or ()),
                "targets": _targets(values),
                "sweep": {name: list(given) for name, given in _sweep(values).items()},
                "judge": None if judge == WITHOUT else judge,
                "without_judges": judge == WITHOUT or None,
                "allow_unjudged": bool(values.get(UNJUDGED)) or None,
                "repeats": values.get("repeats"),
                "concurrency": values.get("concurrency"),
                "budget": values.get("budget"),
                "cache": False if values.get("ask again") else None,
            }
        )


def _experiment_file(values: Mapping[str, Any], root: Path) -> Path | None:
    """The new file of the experiment that the form keeps; ConfigurationError where the name cannot be one."""
    name = values.get(KEEP)
    if not name:
        return None
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise ConfigurationError(f"{KEEP}: {name!r} is not a name. Use letters, digits, - and _, as in nightly")
    file = root / ("experiment.yaml" if name == "experiment" else f"{name}.experiment.yaml")
    if os.path.exists(file):
        raise ConfigurationError(f"{KEEP}: {file.name} is already there. Choose another name")
    return file


def _sweep(values: Mapping[str, Any]) -> Sweep:
    """The parameters that a form varies, with spaces between them."""
    return read_sweep(str(values.get("parameters") or "").split())


def _split(text: object) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()] if isinstance(text, str) else []


def price_words(estimate: Estimate) -> str:
    """The cost of a run in words, with its warnings."""
    return ". ".join((estimate_sentence(estimate), *estimate.cautions))


_PAUSE = 0.2
_NO_TARGET = (
    "nothing is to answer yet: take demo, which is offline and free; or name a model under other targets; or write a "
    "target into .evals/config.toml, as `tui-evals help targets` shows"
)
_NO_JUDGE = "is judged by a model: choose which, or “without judges”, or name one for good in the settings (,)"
_NO_PLAYER = "is played by a model: choose which, or name one for good in the settings (,)"


_UNJUDGED = Field(UNJUDGED, "yes", "Go on though an evaluator lacks here what it needs to judge.", default="no")
"""Its own field, which is shown only if something cannot be judged."""


_PROMPTS = "Prompt files next to the dataset. Each is a column for every target."


def fields_of(settings: Settings, last: Sequence[str] = (), prompts: Sequence[str] = ()) -> tuple[Field, ...]:
    """The fields, with the targets of the configuration and those asked last, and prompt files, to choose from."""
    known = tuple(dict.fromkeys((*settings.answering, "demo")))
    asked = f" Last asked: {', '.join(last)}." if last else ""
    about = f"What answers: targets of .evals/config.toml, and the offline demo.{asked}"
    offered = tuple(dict.fromkeys((*settings.answering, *last, "demo")))
    default = settings.run
    return (
        Field("targets", "several", about, offered),
        Field("other targets", "text", "More of them by commas: openai/gpt-4o-mini, replay:answers.csv, command:…"),
        Field(
            "parameters",
            "text",
            "Ask each target with every value: temperature=0,0.7 top_p=0.5,1",
            default="as configured",
        ),
        *([Field("prompts", "several", _PROMPTS, prompts, default="the dataset's")] if prompts else []),
        Field("judge", "choice", "The target that judges where an evaluator asks one.", (*known, WITHOUT)),
        Field("repeats", "whole", "How often each item is asked.", default=str(default.repeats)),
        Field("concurrency", "whole", "Calls in flight at once, per target.", default="as configured"),
        Field("budget", "number", "Stop before more US dollars are spent.", default=str(default.max_cost or "none")),
        Field("ask again", "yes", "Ask even where the answer is known from before.", default="no"),
        Field("name", "text", "A name for the run.", default="the dataset's"),
        Field(KEEP, "text", "Keep this as an experiment of that name: `tui-evals run NAME`.", default="not kept"),
    )


def faults_of(values: Values) -> Faults:
    """The problems of the values themselves."""
    found: dict[str, str] = {}
    if not values.get("targets") and not values.get("other targets"):
        found["targets"] = _NO_TARGET
    try:
        _sweep(values)
    except ConfigurationError as problem:
        found["parameters"] = str(problem)
    for name in ("repeats", "concurrency"):
        if values.get(name) is not None and values[name] < 1:
            found[name] = "at least 1"
    if values.get("budget") is not None and values["budget"] <= 0:
        found["budget"] = "more than 0"
    return found


class RunForm(Form):
    """Shows the cost of the run each time a value changes; returns the values after the cost is known."""

    def __init__(
        self,
        says: str,
        fields: Sequence[Field],
        values: dict[str, Any],
        prepare_run: Callable[[Mapping[str, Any]], Awaitable[PreparedRun]],
        limits: RunDefaults,
    ) -> None:
        fields = (*fields, _UNJUDGED) if values.get(UNJUDGED) else fields
        super().__init__(f"run {says}", fields, values, check=self._faults, done="start", says="…", leave="cancel")
        self._prepare_run = prepare_run
        self._limits = limits
        self._refused: dict[str, str] = {}
        self._priced = False

    def on_mount(self) -> None:
        """Put the cursor on the start row once the run can start."""
        self.values_changed()
        if not faults_of(self.values):
            self._lines.show(self._rows, at=DONE)

    def _faults(self, values: Values) -> Faults:
        return faults_of(values) or self._refused

    def values_changed(self) -> None:
        """Estimate the cost again."""
        self._refused, self._priced = {}, False
        if faults_of(self.values):
            self.redraw("")
            return
        self.redraw("working out what it costs…")
        self.run_worker(self._price(), group="price", exclusive=True, exit_on_error=False)

    def action_take(self) -> None:
        """Start it, unless the cost is not known yet."""
        if self._take_line() and not self._priced and not self._faults(self.values):
            self.say("what it costs is still being worked out; nothing is started before you can see it")
        else:
            super().action_take()

    async def _price(self) -> None:
        await asyncio.sleep(_PAUSE)
        try:
            prepared = await self._prepare_run(self.values)
            estimate = await asyncio.to_thread(prepared.estimate)
        except MissingJudge as problem:
            self._refused = {"judge": f"{problem.evaluator} {_NO_PLAYER if problem.plays else _NO_JUDGE}"}
            self._says = ""
            self._lines.show(self._rows, at="judge" if self._lines.key is DONE else None)
        except Unjudgeable as problem:
            self._fields.setdefault(UNJUDGED, _UNJUDGED)
            self._refused = {UNJUDGED: f"{problem.reason}. Fix that, or say yes here to run without their verdicts"}
            self._says = ""
            self._lines.show(self._rows, at=UNJUDGED if self._lines.key is DONE else None)
        except REFUSALS as problem:
            self._refused = {"": str(problem)}
            self._says = ""
            self._lines.show(self._rows)
        else:
            remarks = "".join(f". {remark}" for remark in _remarks(prepared, estimate))
            reason = why_think_twice(estimate, self._limits.confirm_cost, self._limits.confirm_calls)
            twice = f". {reason[:1].upper()}{reason[1:]}, so Cancel is selected. Press k for Start." if reason else ""
            self._says = f"{price_words(estimate)}; repairs and retries may add some{remarks}{twice}"
            self._priced = True
            self._lines.show(self._rows, at=LEAVE if reason and self._lines.key is DONE else None)
            self.say(self._help)


def _remarks(prepared: PreparedRun, estimate: Estimate) -> list[str]:
    """Remarks about the judges, and about where prompts and keys are sent."""
    judge, remarks = prepared.plan.judge, []
    if judge is not None and estimate.judge_calls and judge.name in [one.name for one in prepared.plan.targets]:
        remarks.append(f"{judge.name} judges its own answers; judges favor their own")
    return [*remarks, *destination_lines(prepared.destinations)]


NOT_PASSED = "!status:pass !status:pending !status:running !status:answered"


_OTHER_DATASET = "this is another dataset than the open one: enter opens it, then r runs it"
_NOT_HERE = "nothing of the open dataset is selected here: go to the tree (1) and run from there"


async def run(app: Desk) -> None:
    """Run the selection with its unsaved edits, after a form that shows the cost."""
    chosen = app.pane(app.front).selection()
    if chosen is None:
        app.tell(_OTHER_DATASET if app.front == "tree" else _NOT_HERE, "warn")
        return
    shown = app.watching.run
    if app.front in ("results", "detail") and shown is not None:
        await start(app, chosen, run_values(shown), shown.key, stays=True)
        return
    await start(app, chosen)


async def start(
    app: Desk,
    chosen: Selection,
    values: Mapping[str, Any] | None = None,
    parent: str | None = None,
    *,
    stays: bool = False,
) -> bool:
    """Run a selection after the form, which begins with some values or the usual ones; whether a run was begun.

    With `stays` the run on screen stays there.
    """
    editing = app.workspace.editing
    if editing is None:
        return False
    file, data = editing.document.file, editing.data
    settings = app.workspace.settings
    last = await asyncio.to_thread(last_values, app, file)
    prompts = await asyncio.to_thread(prompt_choices, file, app.workspace.root, data.get("prompt_file"))
    begun = with_prompts(values or first_values(last, settings, file), prompts)
    offered = offered_targets((*_named(begun), *_named(last)), settings)

    root = app.workspace.root

    async def prepare_run(entered: Mapping[str, Any]) -> PreparedRun:
        _experiment_file(entered, root)
        order = RunOrder(data, file, chosen.items, entered, parent, offered)
        return await asyncio.to_thread(lambda: prepare(order.request(root), app.workspace.project()))

    fields = fields_of(settings, tuple(_targets(last)), tuple(dict.fromkeys((*prompts, *begun.get("prompts", ())))))
    form = RunForm(chosen.says, fields, begun, prepare_run, settings.run)
    entered = await app.push_screen_wait(form)
    if entered is None:
        return False
    usual = {name: value for name, value in entered.items() if name not in ("name", KEEP)}
    app.session.put("form", usual | {"file": str(file)})
    app.tell("starting…")
    try:
        prepared = await prepare_run(entered)
        if (kept := _experiment_file(entered, root)) is not None:
            text = RunOrder(data, file, chosen.items, entered).experiment(root)
            await asyncio.to_thread(write_atomically, kept, text.encode())
            app.tell(f"wrote {kept.name}")
    except (*REFUSALS, CannotSave, OSError) as problem:
        _refused(app, str(problem))
        return False
    return await _start_prepared(app, prepared, stays=stays)


def prompt_choices(file: Path, root: Path, own: object = None) -> tuple[str, ...]:
    """The prompt files near a dataset, and the one that it names, as paths from the project."""
    found = [file.parent / own] if isinstance(own, str) else []
    with suppress(OSError):  # a folder that cannot be read offers none
        found += prompt_files(file.parent, OWN_SUFFIXES)
    return tuple(dict.fromkeys(os.path.relpath(one, root) for one in found))


def with_prompts(values: Mapping[str, Any], prompts: Sequence[str]) -> dict[str, Any]:
    """The values with the files of prompts that a stored run names; a prompt without a file keeps its name."""
    by_name = {prompt_name(Path(word)): word for word in prompts}
    named = list(dict.fromkeys(by_name.get(word, word) for word in values.get("prompts") or ()))
    return {name: value for name, value in values.items() if name != "prompts"} | ({"prompts": named} if named else {})


_OF_DATASET = ("prompts", "parameters")
_LATEST = 50
"""Runs among which the latest one of the dataset is looked for."""


def first_values(last: Mapping[str, Any], settings: Settings, file: Path) -> dict[str, Any]:
    """The first values of the form: those of the last run of this dataset.

    From a run of another dataset come its settings, but not prompts, parameters or configured targets.
    """
    own = last.get("file") == str(file)
    found: dict[str, Any] = {"judge": settings.judge} if settings.judge else {}
    found |= {name: one for name, one in last.items() if name != "file" and (own or name not in _OF_DATASET)}
    configured = list(settings.run.targets) or list(settings.answering)[:1]
    if configured and not (own and _targets(found)):
        found |= {"targets": configured}
        found.pop("other targets", None)
    return found


def last_values(app: Desk, file: Path) -> Mapping[str, Any]:
    """The last accepted values of the form, else those of the latest run of the dataset."""
    last: Mapping[str, Any] = app.session.values.get("form") or {}
    if last.get("file") == str(file):
        return last
    source = dataset_key(str(file), app.workspace.root)
    with Reader(app.workspace.database) as reader:
        run = next((run for run in reader.runs(_LATEST) if run.source == source and run.status == "finished"), None)
    if run is None:
        return last
    values = {name: one for name, one in run_values(run).items() if name != "ask again"}
    known = offered_targets(_named(values), app.workspace.settings).keys() | app.workspace.settings.words
    known |= app.workspace.settings.targets.keys()
    return {**last, **values, "file": str(file)} if known.issuperset(_named(values)) else last


def _targets(values: Mapping[str, Any]) -> list[str]:
    """The words for targets among the values of a form."""
    named = values.get("targets")
    return [*(named if isinstance(named, list | tuple) else ()), *_split(values.get("other targets"))]


def _named(values: Mapping[str, Any]) -> list[str]:
    """The targets with the word for the judge."""
    return [word for word in (*_targets(values), values.get("judge")) if isinstance(word, str)]


def offered_targets(words: Iterable[str], settings: Settings) -> dict[str, TargetConfig]:
    """The targets that a form offers before the user types: from the settings, a stored run, or the form of before."""
    found: dict[str, TargetConfig] = {}
    for word in words:
        if word not in settings.words | settings.targets.keys():
            with suppress(ConfigurationError):  # said where the form is planned
                found[word] = find_target(word, settings, "the project's store")
    return found


async def _start_prepared(app: Desk, prepared: PreparedRun, *, stays: bool = False) -> bool:
    """Store a run and start a process for it after its permissions are granted."""
    # The process that executes it continues only where its evaluators are trusted too.
    if not await _approved(app, replace(prepared, allow_unjudged=False)):
        return False
    try:
        job = await app.writer.write(partial(prepared.store, apart=True))
    except REFUSALS as problem:
        _refused(app, str(problem))
        return False
    return await _execute_apart(app, job.run, ["resume", job.run.key], "runs", stays=stays)


async def _execute_apart(
    app: Desk,
    run: RunRow,
    arguments: Sequence[str],
    says: str,
    begun: Callable[[RunRow], bool] = has_begun,
    *,
    stays: bool = False,
) -> bool:
    """Start a process for a stored run, and show the run unless another one `stays`; returns whether it started."""
    database, folder = app.workspace.database, app.workspace.root
    try:
        await asyncio.to_thread(start_detached, database, run.key, [*arguments, "--quiet"], begun, folder=folder)
    except DetachFailed as problem:
        _refused(app, problem.reason)
        return False
    now, shown = app.watching.reader.run(run.id), app.watching.run
    if stays:
        app.tell(f"{now.name} ({now.key}) {says}; its answers join those here as “again”, and 6 lists it")
        return True
    if now.status in LIVE_STATUSES:
        app.tell(f"{now.name} ({now.key}) {says}: p pauses, x stops; it continues when you quit")
    if shown is None or shown.id != now.id:
        app.followed_run = now.key
        app.post_message(OpenRun(now.id))
    return True


async def _approved(app: Desk, work: PreparedRun | Job) -> bool:
    """Ask for the permissions of a run; returns whether they are granted."""
    missing = await asyncio.to_thread(work.missing_permissions)
    if not await approve(app, missing, work.project.root):
        app.tell(NOT_AGREED, "warn")
        return False
    if work.terms.use_cache and not await approve_store(app, work.project):
        app.tell(STORE_UNUSED, "warn")
    return True


def _refused(app: Desk, why: str) -> None:
    """Show the whole reason why nothing runs, because it may be longer than a line."""
    app.followed_run = None
    app.tell("nothing was started", "warn")
    app.push_screen(Reading("why nothing was started", lambda width: [row(line) for line in wrapped(why, width)]))


async def rerun(app: Desk) -> None:
    """Retry marked or shown items, else those that did not pass, from the open dataset or as they were asked."""
    found = app.watching.run
    assert found is not None
    chosen = await asyncio.to_thread(app.watching.chosen)
    asked = chosen.items if chosen is not None else await asyncio.to_thread(_not_passed, app.workspace.database, found)
    names = frozenset(asked.values())
    if not names:
        app.tell(f"every answer of {found.key} passed" if chosen is None else f"{chosen.says}: nothing to ask again")
        return
    which = f"of {found.key} that did not pass" if chosen is None else f"of {found.key}: {chosen.says}"
    editing = app.workspace.editing
    if editing is not None and source_of(found, app.workspace.root) == editing.document.file:
        items = tuple(number for number, name in enumerate(app.workspace.names()) if name in names)
        reason = why_no_run(app)
        if items and reason is None:
            again = Selection(items, f"{counted(len(items), 'item')} {which}")
            await start(app, again, run_values(found), found.key)
            return
    what = f"ask again {counted(len(asked), 'item')} {which}"

    def prepared() -> tuple[PreparedRun, Estimate, tuple[Obstacle, ...]]:
        again = _prepare_again(found, asked, app.workspace.project())
        return again, again.estimate(), obstacles_of(again.plan)

    if (agreed := await _agreed(app, what, prepared)) is not None:
        await _start_prepared(app, agreed)


async def run_open(app: Desk) -> None:
    """Run all of the open dataset as its project says, without the form."""
    editing = app.workspace.editing
    assert editing is not None
    file, data = editing.document.file, editing.data
    order = RunOrder(data, file, None, first_values({}, app.workspace.settings, file))
    app.tell("starting…")
    try:
        project = app.workspace.project()
        prepared = await asyncio.to_thread(prepare, order.request(app.workspace.root), project)
    except REFUSALS as problem:
        _refused(app, str(problem))
        return
    await _start_prepared(app, prepared)


def _not_passed(database: Path, run: RunRow) -> dict[int, str]:
    with Reader(database) as reader:
        return items_of(reader, reader.ids(run.id, parse_filter(NOT_PASSED)))


def _prepare_again(run: RunRow, items: Iterable[int], project: Project) -> PreparedRun:
    with Reader(project.store) as reader:
        return rerun_items(run, items, reader, project, allow_unjudged=True)


def source_of(run: RunRow, root: Path) -> Path:
    """The file a run's dataset came from."""
    return resolved(root / run.source)


def run_values(run: RunRow) -> dict[str, Any]:
    """The form as a run was started."""
    config = run.config
    found: dict[str, Any] = {"targets": list(run.targets), "ask again": True}
    found |= {"prompts": names} if (names := [name for name in run.prompts if name]) else {}
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


async def _agreed(
    app: Desk, what: str, prepared: Callable[[], tuple[Work, Estimate, tuple[Obstacle, ...]]]
) -> Work | None:
    """Ask for confirmation with the cost and what cannot be judged; returns the prepared work if confirmed."""

    async def price() -> tuple[str, Work]:
        work, estimate, obstacles = await asyncio.to_thread(prepared)
        app.tell(price_words(estimate))
        says = [f"{what}: {price_words(estimate)}.", *(f"{obstacle.sentence}." for obstacle in obstacles)]
        return " ".join(says), work

    try:
        found: Work | None = await ask_priced(app, "run", price)
    except REFUSALS as problem:
        _refused(app, str(problem))
        return None
    return found


async def rescore(app: Desk) -> None:
    """Judge the answers again with the evaluators of the open dataset if the run used it. Marked or filtered answers
    are judged with the run's own evaluators, because the others keep their scores.
    """
    run = app.watching.run
    assert run is not None
    chosen = await asyncio.to_thread(app.watching.chosen)
    if chosen is not None:
        await _rescore_chosen(app, run, chosen)
        return
    dataset: Path | None = None
    editing = app.workspace.editing
    if editing is not None and source_of(run, app.workspace.root) == editing.document.file:
        if editing.dirty:
            app.tell("rescore judges by the saved dataset: ctrl+s saves your edits first", "warn")
            return
        with Reader(app.workspace.database) as reader:
            snapshot = reader.snapshot(run.snapshot)
        if [_turns(item) for item in snapshot.get("items", [])] == [_turns(item) for item in app.workspace.items]:
            dataset = editing.document.file
    judging = editing.document if editing is not None and dataset is not None else None
    request = RescoreRequest(dataset=judging, allow_unjudged=True)
    what = f"judge {run.total} answers of {run.key} again"
    job = await _agreed(app, what, partial(_estimate_judging, run, app, request))
    if job is not None and await _approved(app, job):
        words = ["rescore", run.key, "--allow-unjudged", *(["--dataset", str(dataset)] if dataset is not None else [])]
        await _execute_apart(app, run, words, "is judged again", is_being_judged(run))


async def keep_rule(app: Desk, run: RunRow, rule: Rule) -> None:
    """Judge a run by another threshold, weight, scale or pass rule, as a scoring pass that keeps all scores it can."""
    request = RescoreRequest(rules=(rule,), allow_unjudged=True)
    what = f"judge {counted(run.total, 'answer')} of {run.key} by {rule_words(rule)}"
    job = await _agreed(app, what, partial(_estimate_judging, run, app, request))
    if job is not None and await _approved(app, job):
        words = ["rescore", run.key, "--allow-unjudged", *rule.words]
        await _execute_apart(app, run, words, "is judged again", is_being_judged(run))


_LONGEST_WORD = 100_000
"""Characters that an argument of a command may have on every system."""


async def _rescore_chosen(app: Desk, run: RunRow, chosen: ChosenAnswers) -> None:
    """Judge some answers again after showing which, and the cost."""
    if not chosen.ids:
        app.tell(f"{chosen.says}: nothing to judge again")
        return
    if len(chosen.words[-1]) > _LONGEST_WORD:
        app.tell(f"{chosen.says} are too many separate ranges to list; use a filter instead", "warn")
        return
    request = RescoreRequest(answers=frozenset(chosen.ids), allow_unjudged=True)
    what = f"judge again {chosen.says} of {run.key}, by what judges the run; the others keep their scores"
    job = await _agreed(app, what, partial(_estimate_judging, run, app, request))
    if job is not None and await _approved(app, job):
        words = ["rescore", run.key, "--allow-unjudged", *chosen.words]
        await _execute_apart(app, run, words, "is judged again", is_being_judged(run))


def _estimate_judging(run: RunRow, app: Desk, request: RescoreRequest) -> tuple[Job, Estimate, tuple[Obstacle, ...]]:
    project = app.workspace.project()
    with Reader(project.store) as reader:
        job = prepare_rescore(run, request, reader, project)
        return job, estimate_rescore(job, reader), obstacles_of(job.plan)


def _turns(item: Any) -> int:
    turns = item.get("turns") if isinstance(item, dict) else None
    return len(turns) if isinstance(turns, list) else 0


async def _raised_limit(app: Desk, run: RunRow) -> dict[str, Any] | None:
    """Ask for a new limit of a run whose budget is spent; None to keep it."""
    spent = await asyncio.to_thread(_spent, app.workspace.database, run.id)
    limit = float((run.config.get("terms") or {}).get("max_cost") or 0.0)

    def faults(values: Values) -> Faults:
        budget = values.get("budget")
        least = f"more than the {money(spent)} that is or may be spent"
        return {} if budget is not None and budget > spent else {"budget": least}

    field = Field("budget", "number", "Stop before more US dollars are spent, those before included.")
    suggested_limit = {"budget": float(f"{2 * max(limit, spent):.3g}")}
    form = Form(f"resume {run.key}", (field,), suggested_limit, check=faults, done="resume", says=stop_reason(run))
    return await app.push_screen_wait(form)


def _spent(database: Path, run: int) -> float:
    with Reader(database) as reader:
        return run_figures.spent(reader, run) + run_figures.may_cost(reader, run) + reader.reserved(run)


async def pause(app: Desk) -> None:
    """Pause or unpause a run, resume an interrupted one, or retry its errors."""
    found = app.pane(app.front).run_row()
    assert found is not None
    if found.status in ("interrupted", "finished") or (found.status == "planned" and found.pid is None):
        errors = found.status == "finished"
        if errors and not await _asks_errors(app, found):
            return
        try:
            job = await asyncio.to_thread(_stored_job, found, app)
        except REFUSALS as problem:
            _refused(app, str(problem))
            return
        words = ["resume", found.key, *(["--errors"] if errors else [])]
        if found.code == "budget":
            entered = await _raised_limit(app, found)
            if entered is None:
                return
            words += ["--max-cost", str(entered["budget"])]
        if not await _approved(app, job):
            return
        app.tell(f"resuming {found.key}…")
        app.followed_run = found.key
        await _execute_apart(app, found, words, "continues", is_asked_again(found) if errors else has_begun)
        return
    paused = found.status == "paused" or found.control == "pause"
    await _controlled(app, found, "" if paused else "pause", "continues" if paused else "pauses; p resumes it")


async def _asks_errors(app: Desk, run: RunRow) -> bool:
    """Ask whether to retry the errors of a finished run; shows a message if there are none."""
    try:
        errors = await asyncio.to_thread(_errors, run, app)
    except CannotPlan as problem:
        app.tell(f"{problem}; R asks failures again")
        return False
    what = f"Ask, or judge, {errors:,} {'error' if errors == 1 else 'errors'} again in this run? What was is kept."
    return await app.push_screen_wait(Confirm(f"resume {run.key}", what, "do it")) is True


def _errors(run: RunRow, app: Desk) -> int:
    with Reader(app.workspace.database) as reader:
        demand_errors(reader, run)
        return run_figures.errors(reader, run.id)


def _stored_job(run: RunRow, app: Desk) -> Job:
    with Reader(app.workspace.database) as reader:
        return stored_job(run, reader, app.workspace.project())


async def stop(app: Desk) -> None:
    """Stop once open requests are answered."""
    found = app.pane(app.front).run_row()
    assert found is not None
    await _controlled(app, found, "stop", "stops once its open requests are answered; p resumes it later")


async def _controlled(app: Desk, run: RunRow, word: Any, says: str) -> None:
    try:
        await app.writer.write(lambda writer: writer.control(run.id, word))
    except StoreError as problem:
        app.tell(str(problem), "error")
    else:
        app.tell(f"{run.key} {says}")
