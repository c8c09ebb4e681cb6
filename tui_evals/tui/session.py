"""What was on screen last, kept in the store so that the workbench opens where it was left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tui_evals.datasets.discover import find_dataset
from tui_evals.datasets.problems import DatasetError
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow

from .latest_statuses import runs_of
from .layout import ARRANGEMENTS, PLACES, WEIGHTS, Arrangement
from .messages import Place, Severity
from .store_writer import StoreWriter
from .watch import Watch
from .workspace import Workspace

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
        """Read what was kept."""
        self.values = dict(_mapping(self._reader.session(_KEY)))
        self._kept = dict(self.values)

    @property
    def weights(self) -> dict[Place, int]:
        """How wide each pane is beside the others."""
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
        """Take down what is on screen."""
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
        """Write what has changed here since it was written last, where anything can be written.

        What another workbench of the project has written meanwhile stays, such as the filter of a run.
        """
        if self.values != self._kept and not self._writer.read_only:
            stored, own = _mapping(self._reader.session(_KEY)), dict(self.values)
            values = _changed(stored, self._kept, own)
            filters = (_mapping(one.get("filters")) for one in (stored, self._kept, own))
            values["filters"] = _changed(*filters)
            await self._writer.write(lambda writer: writer.session_put(_KEY, values))
            self._kept = own

    def restore(self, workspace: Workspace, watch: Watch, dataset: Path | None, word: str | None, tell: Tell) -> Place:
        """Open what was asked for, else what was open last; returns the pane to begin in."""
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
            if requested is None:  # what was asked for is shown with what is wrong with it
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
        runs = runs_of(reader, dataset.resolve(), workspace.root)
        run = next(iter(runs), None)
        if run is None:
            raise LookupError(f"{dataset} has no run yet")
        return run


def _mapping(kept: object) -> Mapping[str, Any]:
    """Values by name; what is no object was not written by us."""
    return kept if isinstance(kept, dict) else {}


def _changed(stored: Mapping[str, Any], before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """What is stored, with what is otherwise now than before."""
    gone = before.keys() - now.keys()
    changed = {name: value for name, value in now.items() if name not in before or before[name] != value}
    return {name: value for name, value in stored.items() if name not in gone} | changed
