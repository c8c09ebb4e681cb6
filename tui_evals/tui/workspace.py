"""What the authoring panes share: the project's datasets, the open one, where in it one is, settings, evaluators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui_evals.datasets.discover import dataset_files
from tui_evals.datasets.document import Document, load
from tui_evals.datasets.editing import Editing, Incoming
from tui_evals.datasets.layout import Path as Place
from tui_evals.datasets.patches import splice
from tui_evals.datasets.paths import get_at
from tui_evals.datasets.problems import DatasetError, Problem
from tui_evals.evaluators.registry import Registry, load_registry, with_prompt_metrics
from tui_evals.evaluators.trust import Trust
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import Settings, load_looks

if TYPE_CHECKING:
    from tui_evals.datasets.model import Dataset
    from tui_evals.datasets.validate import ValidationReport
    from tui_evals.runs.project import Project

NO_DATASET_OPEN = "no dataset is open: o opens one, ctrl+n begins one"
"""Why what needs a dataset cannot be done."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What an action acts on: items of the open dataset by position from 0, or all of it."""

    items: tuple[int, ...] | None = None
    says: str = "the dataset"


@dataclass
class Workspace:
    """The state the authoring panes share; a change of it is told with the message Changed."""

    root: Path
    database: Path
    settings: Settings = field(default_factory=Settings)
    variables: Mapping[str, str] = field(default_factory=dict)
    trusting: bool = False
    """Whether what the project asks for is done unasked."""
    registry: Registry = field(default_factory=lambda: Registry({}))
    equipped: Registry | None = None
    """The evaluators without the metrics beside a prompt."""
    files: tuple[Path, ...] = ()
    open: dict[Path, Editing] = field(default_factory=dict)
    editing: Editing | None = None
    where: Place = ()
    """The unit one is in: () the dataset, ("items", 3) an item, ("items", 3, "turns", 1) a turn."""
    marks: frozenset[int] = frozenset()
    report: ValidationReport | None = None
    problem: Problem | None = None
    """The problem that was gone to last."""
    reported: tuple[int, int, str] = (0, -1, "")
    """Which state of which editing the report is about."""
    _times: tuple[list[Any], Counter[str]] = field(default_factory=lambda: ([], Counter()))
    """How often each testId stands in some items, which an edit replaces and never changes."""

    def configure(self) -> list[str]:
        """Read the configuration, the environment and the evaluators; returns remarks, raises ConfigurationError."""
        return [*self.read_settings(), *self.equip()]

    def read_looks(self) -> None:
        """Read how the workbench is to look, which is all that a first picture needs of the configuration."""
        with suppress(ConfigurationError):  # which is said when the rest is read
            self.settings = load_looks(self.root)

    def read_settings(self) -> list[str]:
        """Read the configuration and the environment; returns remarks, raises ConfigurationError."""
        project = self.project()
        self.settings, self.variables, self.trusting = project.settings, project.environment, project.trusting
        return list(project.notes)

    def project(self) -> Project:
        """The project as its files are now, with the store of the workbench; ConfigurationError says what is wrong."""
        # Imported when it is wanted, because a dataset is shown before the project is read.
        from tui_evals.runs.project import load_project

        return replace(load_project(self.root), database=self.database)

    def equip(self) -> list[str]:
        """Find the evaluators of the product, the project and installed packages; returns remarks."""
        self.equipped = self.registry = load_registry(self.root, Trust(always=self.trusting), None)
        self._find_metrics()
        return list(self.registry.problems)

    def _find_metrics(self) -> None:
        """Know the metrics beside the prompt of the open dataset as well."""
        if self.equipped is not None and self.editing is not None:
            self.registry = with_prompt_metrics(self.equipped, _prompt_folder(self.editing.document))

    def look(self) -> None:
        """Find the dataset files of the project."""
        self.files = tuple(sorted(dataset_files(self.root)))

    def open_file(self, file: Path) -> Editing:
        """Put a dataset on screen, with its edits if it was open before; DatasetError says why it cannot be read."""
        file = file.resolve()
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
        """The open dataset as it is now; empty when none is open."""
        return self.editing.data if self.editing is not None else {"items": []}

    @property
    def items(self) -> list[Any]:
        """The items as they are now; an invalid dataset may hold anything here."""
        items: object = self.data.get("items")
        return items if isinstance(items, list) else []

    @property
    def item(self) -> int | None:
        """The position of the item one is in."""
        number = self.where[1] if len(self.where) > 1 else None
        return number if isinstance(number, int) else None

    @property
    def unit(self) -> dict[str, Any] | None:
        """The item or turn one is in; None at the dataset itself."""
        unit = get_at(self.data, self.where) if self.where else None
        return unit if isinstance(unit, dict) else None

    def units(self) -> Iterator[Place]:
        """Every item and turn in the order of the file."""
        for number, item in enumerate(self.items):
            yield ("items", number)
            turns = item.get("turns") if isinstance(item, dict) else None
            for turn in range(len(turns) if isinstance(turns, list) else 0):
                yield ("items", number, "turns", turn)

    def name_of(self, number: int) -> str:
        """How an item is called: its testId where it is the only one of that name, else #position."""
        name = _test_id(self.items[number])
        return name if name and self.test_ids[name] == 1 else f"#{number + 1}"

    @property
    def test_ids(self) -> Counter[str]:
        """How often each testId stands in the items now."""
        items, (before, times) = self.items, self._times
        if before is not items:
            found = splice(before, items)
            times.update(filter(None, map(_test_id, found.added)))
            for name in filter(None, map(_test_id, found.removed)):
                times[name] -= 1
                if not times[name]:
                    del times[name]
            self._times = (items, times)
        return times

    def names(self) -> list[str]:
        """How every item is called."""
        test_ids = [_test_id(item) for item in self.items]
        times = Counter(test_ids)
        return [name if name and times[name] == 1 else f"#{number + 1}" for number, name in enumerate(test_ids)]

    def apply(self, data: dict[str, Any], what: str, merge: str | None = None) -> None:
        """Make an edit that can be undone; one stays on a place that is still there."""
        if self.editing is None:
            return
        version = self.editing.version
        self.editing.apply(data, what, merge, (self.where, self.marks))
        self.settle()
        if self.editing.version != version:
            self.editing.set_cursor((self.where, self.marks))

    def go(self, where: Place, marks: frozenset[int] | None = None) -> None:
        """Be where the last step has led, so that doing it again leads there too."""
        self.where, self.marks = where, self.marks if marks is None else marks
        if self.editing is not None:
            self.editing.set_cursor((where, self.marks))

    def take_up(self, editing: Editing, incoming: Incoming, merged: dict[str, Any], places: Mapping[int, int]) -> bool:
        """Go on from what somebody else wrote, at the item one was at; `places` says where each item is now."""
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
        """What validation says of the open dataset as it is now; off the screen's thread for large ones."""
        if self.editing is None:
            return None
        state = self.editing.state
        if self.reported != state or self.report is None:
            self.report = check_dataset(self.editing, self.registry)
            self.reported = state
        return self.report

    def problems_at(self, place: Place) -> list[Problem]:
        """What the last validation found at a place or inside it."""
        problems = self.report.problems if self.report else ()
        return [problem for problem in problems if problem.path[: len(place)] == place]

    def dataset(self) -> Dataset | None:
        """The typed dataset as the last validation saw it; None while it is not valid."""
        return self.report.dataset if self.report else None


def _test_id(item: object) -> str | None:
    name = item.get("testId") if isinstance(item, dict) else None
    return name if isinstance(name, str) and name else None


def check_dataset(editing: Editing, evaluators: Registry) -> ValidationReport:
    """The report on a dataset as it is being edited; lines are those of the file as it was saved."""
    # Imported when it is wanted, because a dataset is shown before it is checked.
    from tui_evals.datasets.attachments import attachment_problems
    from tui_evals.runs.own_code import own_code_problems
    from tui_evals.runs.prompting import unfilled_items

    document = editing.document.with_data(editing.data)
    report = editing.checker.validate(document, evaluators.catalogue, evaluators.own)
    if report.dataset is None:
        return report
    report = report.with_problems([*unfilled_items(document, report.dataset), *attachment_problems(document)])
    return report.with_problems(own_code_problems(document, evaluators))


def _prompt_folder(document: Document) -> Path | None:
    """Where the prompt under test of a dataset lies; None where there is none that can be used."""
    from tui_evals.datasets.prompts import prompt_of  # when it is wanted, as above

    try:
        prompt = prompt_of(document)
    except DatasetError:
        return None
    return prompt.parent if prompt is not None else None
