"""The state all panes share: datasets, the current place, settings, evaluators, the writer, the last session."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tui_evals.datasets.discover import dataset_files, find_dataset
from tui_evals.datasets.document import Document, load
from tui_evals.datasets.editing import Editing, Incoming
from tui_evals.datasets.item_names import name_in_run, names_in_run
from tui_evals.datasets.merging import splice
from tui_evals.datasets.paths import DatasetError, Problem, get_at
from tui_evals.datasets.paths import Path as DataPath
from tui_evals.evaluators.registry import Registry, load_registry, with_prompt_metrics
from tui_evals.evaluators.trust import Trust
from tui_evals.garbage import garbage_collection_paused
from tui_evals.light_records import dataclass
from tui_evals.present.stores import read_only_note
from tui_evals.project_files import resolved
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import Settings, load_looks
from tui_evals.tui.latest_statuses import runs_of
from tui_evals.tui.layout import ARRANGEMENTS, PLACES, WEIGHTS, Arrangement
from tui_evals.tui.messages import Place, Severity
from tui_evals.tui.watch import Watch

if TYPE_CHECKING:
    from tui_evals.datasets.model import Dataset
    from tui_evals.datasets.validate import ValidationReport
    from tui_evals.runs.project import Project
    from tui_evals.store.writer import Writer


NO_DATASET_OPEN = "no dataset is open: o opens one, ctrl+n creates one"
"""Why what needs a dataset cannot be done."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The items of the open dataset that an action applies to, by position from 0; None for all."""

    items: tuple[int, ...] | None = None
    says: str = "the dataset"


@dataclass
class Workspace:
    """The state that the authoring panes share; the message Changed announces a change."""

    root: Path
    database: Path
    settings: Settings = field(default_factory=Settings)
    variables: Mapping[str, str] = field(default_factory=dict)
    trusting: bool = False
    """Whether the project's permissions are granted without asking."""
    registry: Registry = field(default_factory=lambda: Registry({}))
    equipped: Registry | None = None
    """The evaluators without the metrics next to a prompt."""
    files: tuple[Path, ...] = ()
    open: dict[Path, Editing] = field(default_factory=dict)
    editing: Editing | None = None
    where: DataPath = ()
    """The current unit: () the dataset, ("items", 3) an item, ("items", 3, "turns", 1) a turn."""
    marks: frozenset[int] = frozenset()
    report: ValidationReport | None = None
    problem: Problem | None = None
    """The problem that the cursor last jumped to."""
    reported: tuple[int, int, str] = (0, -1, "")
    """The editing and its state that the report is about."""
    _times: tuple[list[Any], Counter[str]] = field(default_factory=lambda: ([], Counter()))
    """How often each testId is in some items, which an edit replaces and never changes."""

    def configure(self) -> list[str]:
        """Read the configuration, the environment and the evaluators; returns remarks, raises ConfigurationError."""
        return [*self.read_settings(), *self.equip()]

    def read_looks(self) -> None:
        """Read how the workbench is to look, which is all that a first picture needs of the configuration."""
        with suppress(ConfigurationError):  # the error is reported when the rest is read
            self.settings = load_looks(self.root)

    def read_settings(self) -> list[str]:
        """Read the configuration and the environment; returns remarks, raises ConfigurationError."""
        project = self.project()
        self.settings, self.variables, self.trusting = project.settings, project.environment, project.trusting
        return list(project.notes)

    def project(self) -> Project:
        """The project from its current files, with the store of the workbench; raises ConfigurationError."""
        # Imported when needed, because a dataset is shown before the project is read.
        from tui_evals.runs.project import load_project

        return replace(load_project(self.root), database=self.database)

    def equip(self) -> list[str]:
        """Find the evaluators of the product, the project and installed packages; returns remarks."""
        self.equipped = self.registry = load_registry(self.root, Trust(always=self.trusting), None)
        self._find_metrics()
        return list(self.registry.problems)

    def _find_metrics(self) -> None:
        """Know the metrics next to the prompt of the open dataset as well."""
        if self.equipped is not None and self.editing is not None:
            self.registry = with_prompt_metrics(self.equipped, _prompt_folder(self.editing.document))

    def look(self) -> None:
        """Find the dataset files of the project."""
        self.files = tuple(sorted(dataset_files(self.root)))

    def open_file(self, file: Path) -> Editing:
        """Put a dataset on screen, with its edits if it was open before; DatasetError says why it cannot be read."""
        file = resolved(file)
        if file not in self.open:
            self.open[file] = Editing(load(file))
        return self.enter(self.open[file])

    def enter(self, editing: Editing) -> Editing:
        """Put an open dataset on screen."""
        if editing is not self.editing:
            self.open[editing.document.file] = self.editing = editing
            self.where, self.marks, self.report = (), frozenset(), None
            self._find_metrics()
        return editing

    @property
    def data(self) -> dict[str, Any]:
        """The data of the open dataset; empty if none is open."""
        return self.editing.data if self.editing is not None else {"items": []}

    @property
    def items(self) -> list[Any]:
        """The current items; in an invalid dataset they may have any type."""
        items: object = self.data.get("items")
        return items if isinstance(items, list) else []

    @property
    def item(self) -> int | None:
        """The position of the current item."""
        number = self.where[1] if len(self.where) > 1 else None
        return number if isinstance(number, int) else None

    @property
    def unit(self) -> dict[str, Any] | None:
        """The current item or turn; None at the dataset itself."""
        unit = get_at(self.data, self.where) if self.where else None
        return unit if isinstance(unit, dict) else None

    def units(self) -> Iterator[DataPath]:
        """Every item and turn in the order of the file."""
        for number, item in enumerate(self.items):
            yield ("items", number)
            turns = item.get("turns") if isinstance(item, dict) else None
            for turn in range(len(turns) if isinstance(turns, list) else 0):
                yield ("items", number, "turns", turn)

    def name_of(self, number: int) -> str:
        """How an item is called, as in a run."""
        times, name = self.test_ids, _test_id(self.items[number])
        return name_in_run(name, number, times, (name,) if name and times[name] > 1 else ())

    @property
    def test_ids(self) -> Counter[str]:
        """How often each testId is in the items now."""
        self.count_test_ids()
        return self._times[1]

    def count_test_ids(self) -> None:
        """Count testIds again for changed items; the first time, for all of them, when there is time."""
        items, (before, times) = self.items, self._times
        if before is items:
            return
        if before:
            found = splice(before, items)
            times.update(filter(None, map(_test_id, found.added)))
            for name in filter(None, map(_test_id, found.removed)):
                times[name] -= 1
                if not times[name]:
                    del times[name]
        else:
            times = Counter(filter(None, map(_test_id, items)))
        self._times = (items, times)

    def names(self) -> list[str]:
        """How every item is called."""
        return names_in_run([_test_id(item) for item in self.items])

    def apply(self, data: dict[str, Any], what: str, merge: str | None = None) -> None:
        """Make an edit that can be undone; the current place stays if it still exists."""
        if self.editing is None:
            return
        version = self.editing.version
        self.editing.apply(data, what, merge, (self.where, self.marks))
        self.settle()
        if self.editing.version != version:
            self.editing.set_cursor((self.where, self.marks))

    def go(self, where: DataPath, marks: Iterable[int] | None = None) -> None:
        """Be where the last step has led, so that doing it again leads there too."""
        self.where, self.marks = where, self.marks if marks is None else frozenset(marks)
        if self.editing is not None:
            self.editing.set_cursor((where, self.marks))

    def take_up(self, editing: Editing, incoming: Incoming, merged: dict[str, Any], places: Mapping[int, int]) -> bool:
        """Continue from what another program wrote; `places` says where each item is now."""
        cursor = (self.where, self.marks) if editing is self.editing else None
        if not editing.take_up(incoming, merged, cursor):
            return False
        if editing is self.editing:
            number = self.item
            if number is not None and number in places:
                self.where = ("items", places[number], *self.where[2:])
            self.marks = frozenset(places[mark] for mark in self.marks if mark in places)
            self.settle()
            editing.set_cursor((self.where, self.marks))
        return True

    def step(self, way: int) -> str | None:
        """Undo or redo a step and be where it was taken, with the marks of then; None when there is none."""
        if self.editing is None:
            return None
        what = self.editing.undo() if way < 0 else self.editing.redo()
        if what is not None:
            stood = self.editing.cursor
            self.where, self.marks = stood if isinstance(stood, tuple) else (self.where, frozenset())
            self.settle()
        return what

    def settle(self) -> None:
        """Leave a place that an edit or an undo has taken away."""
        count = len(self.items)
        self.marks = frozenset(mark for mark in self.marks if mark < count)
        while self.where and get_at(self.data, self.where) is None:
            last = self.where[-1]
            nearer = isinstance(last, int) and last > 0
            self.where = (*self.where[:-1], last - 1) if nearer and isinstance(last, int) else self.where[:-2]

    def check(self) -> ValidationReport | None:
        """The validation report of the open dataset; run it in a thread for large ones."""
        if self.editing is None:
            return None
        state = self.editing.state
        if self.reported != state or self.report is None:
            self.report = check_dataset(self.editing, self.registry)
            self.reported = state
        return self.report

    def problems_at(self, place: DataPath) -> list[Problem]:
        """The problems of the last validation at a place or inside it."""
        problems = self.report.problems if self.report else ()
        return [problem for problem in problems if problem.path[: len(place)] == place]

    def dataset(self) -> Dataset | None:
        """The typed dataset as the last validation saw it; None while it is not valid."""
        return self.report.dataset if self.report else None


def _test_id(item: object) -> str | None:
    name = item.get("testId") if isinstance(item, dict) else None
    return name if isinstance(name, str) and name else None


def check_dataset(editing: Editing, evaluators: Registry, first: bool = False) -> ValidationReport:
    """The report on a dataset being edited; its lines are those of the saved file."""
    # Imported when needed, because a dataset is shown before it is checked.
    from tui_evals.runs.readiness import with_run_problems

    with garbage_collection_paused():
        document = editing.document.with_data(editing.data)
        report = editing.checker.validate(document, evaluators.catalogue, evaluators.own)
        report = with_run_problems(report, document, evaluators)
        if first:
            gc.freeze()  # the items stay, and full collections of them would delay keys
    return report


def _prompt_folder(document: Document) -> Path | None:
    """The folder of the prompt under test of a dataset; None without a usable one."""
    from tui_evals.datasets.prompts import prompt_of  # imported when needed, as above

    try:
        prompt = prompt_of(document)
    except DatasetError:
        return None
    return prompt.parent if prompt is not None else None


Written = TypeVar("Written")


class StoreWriter:
    """Writes into the store off the screen's thread; takes out what looks like a secret of the environment."""

    def __init__(
        self, database: Path, variables: Callable[[], Mapping[str, str]], settings: Callable[[], Settings] = Settings
    ) -> None:
        self._database = database
        self._variables = variables
        self._settings = settings
        self._writer: Writer | None = None
        self._opening = asyncio.Lock()
        self.read_only = read_only_note(database)
        """Why nothing can be written; empty where it can."""

    async def write(self, step: Callable[[Writer], Written]) -> Written:
        """Do a step with the writer and wait until it is committed; StoreError says why it could not be."""
        async with self._opening:
            if self._writer is not None and self._writer.is_elsewhere:  # another store is at its path by now
                await self.close()
            if self._writer is None:
                self._writer = await asyncio.to_thread(self._opened)
        return await asyncio.to_thread(step, self._writer)

    def _opened(self) -> Writer:
        # Imported when needed, because nothing is written before the first frame.
        from tui_evals.store.writer import Writer
        from tui_evals.text.safe import secrets_of

        return Writer(self._database, secrets_of(self._variables()), durable=self._settings().durable)

    async def close(self) -> None:
        """Commit what is left and close."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            await asyncio.to_thread(writer.close)


_KEY = "workbench"
Tell = Callable[[str, Severity], None]


class Session:
    """Plain values by name; `put` keeps one, and `keep` writes all of them."""

    def __init__(self, root: Path, writer: StoreWriter, reader: Reader) -> None:
        self._root = root
        self._writer = writer
        self._reader = reader
        self.values: dict[str, Any] = {}
        self._kept: dict[str, Any] = {}

    def load(self) -> None:
        """Read the stored values."""
        self.values = dict(_mapping(self._reader.session(_KEY)))
        self._kept = dict(self.values)

    @property
    def weights(self) -> dict[Place, int]:
        """How wide each pane is next to the others."""
        kept = self.values.get("weights")
        known = kept if isinstance(kept, dict) else {}
        return {
            place: known[place] if isinstance(known.get(place), int) else weight for place, weight in WEIGHTS.items()
        }

    @property
    def arrangement(self) -> Arrangement:
        """Which panes are shown together."""
        kept = self.values.get("arrangement")
        return next((one for one in ARRANGEMENTS if one == kept), "all")

    def put(self, name: str, value: object) -> None:
        """Keep a value from now on."""
        self.values[name] = value

    def note(self, workspace: Workspace, watch: Watch, front: Place) -> None:
        """Remember the current view."""
        file = workspace.editing.document.file if workspace.editing else None
        self.values |= {
            "dataset": str(file) if file else None,
            "where": list(workspace.where),
            "run": watch.run.key if watch.run else None,
            "answer": watch.answer,
            "front": front,
            "filters": dict(watch.filters),
        }

    async def keep(self) -> None:
        """Write changed values, if the store is writable. Values that another workbench has changed meanwhile are kept,
        such as the filter of a run.
        """
        if self.values != self._kept and not self._writer.read_only:
            stored, own = _mapping(self._reader.session(_KEY)), dict(self.values)
            values = _changed(stored, self._kept, own)
            filters = (_mapping(one.get("filters")) for one in (stored, self._kept, own))
            values["filters"] = _changed(*filters)
            await self._writer.write(lambda writer: writer.session_put(_KEY, values))
            self._kept = own

    def restore(self, workspace: Workspace, watch: Watch, dataset: Path | None, word: str | None, tell: Tell) -> Place:
        """Open the requested dataset and run, otherwise the latest ones; returns the pane to start in."""
        front = self.values.get("front")
        self._open_dataset(workspace, dataset, tell)
        watch.filters = self._filters()
        self._open_run(workspace, watch, dataset, word, tell)
        if word is not None:
            return "results"
        if dataset is not None or front not in PLACES:
            return "tree"
        place: Place = front
        return place

    def _filters(self) -> dict[str, str]:
        """The filters of runs, the latest last."""
        return {run: text for run, text in _mapping(self.values.get("filters")).items() if isinstance(text, str)}

    def _open_dataset(self, workspace: Workspace, requested: Path | None, tell: Tell) -> None:
        last = self.values.get("dataset")
        kept = Path(last) if isinstance(last, str) and Path(last).is_file() else None
        file = requested or kept or find_dataset(self._root) or next(iter(workspace.files), None)
        if file is None:
            return
        try:
            workspace.open_file(file)
        except DatasetError as problem:
            if requested is None:  # a requested file is shown with its errors
                tell(str(problem), "error")
            return
        where = self.values.get("where")
        if file == kept and isinstance(where, list) and all(isinstance(part, str | int) for part in where):
            workspace.where = tuple(where)
            workspace.settle()

    def _open_run(self, workspace: Workspace, watch: Watch, dataset: Path | None, word: str | None, tell: Tell) -> None:
        """The run asked for, else the latest of the dataset asked for, else the one that was on screen last."""
        try:
            run = self._run_to_open(workspace, watch.reader, dataset, word)
        except LookupError as problem:
            if word is not None:
                tell(str(problem.args[0]), "warn")
            return
        watch.open_run(run.id)
        answer = self.values.get("answer")
        if word is None and isinstance(answer, int) and watch.number_of(answer) is not None:
            watch.answer = answer

    def _run_to_open(self, workspace: Workspace, reader: Reader, dataset: Path | None, word: str | None) -> RunRow:
        kept = self.values.get("run")
        if word is not None:
            return reader.find_run(word)
        if dataset is None:
            return reader.find_run(kept if isinstance(kept, str) else "last")
        runs = runs_of(reader, resolved(dataset), workspace.root)
        run = next(iter(runs), None)
        if run is None:
            raise LookupError(f"{dataset} has no run yet")
        return run


def _mapping(kept: object) -> Mapping[str, Any]:
    """Values by name; anything else was not written by us."""
    return kept if isinstance(kept, dict) else {}


def _changed(stored: Mapping[str, Any], before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """The stored values, updated by the changes between `before` and `now`."""
    gone = before.keys() - now.keys()
    changed = {name: value for name, value in now.items() if name not in before or before[name] != value}
    return {name: value for name, value in stored.items() if name not in gone} | changed
