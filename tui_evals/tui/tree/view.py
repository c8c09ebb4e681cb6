"""The dataset tree, with the latest status of every item kept up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable
from pathlib import Path

from textual.app import ComposeResult
from textual.timer import Timer

from tui_evals.datasets.editing import Editing
from tui_evals.runs.selection import ItemFilter
from tui_evals.store.records import AnswerStatus
from tui_evals.tui.latest_statuses import ItemStatuses, changed_answers, item_key, latest_of
from tui_evals.tui.messages import ItemShown
from tui_evals.tui.pane import Pane
from tui_evals.tui.tree.rows import (
    DATASET,
    Key,
    OtherDataset,
    Tree,
    TreeRows,
    TreeShape,
    columns_for,
    first_page,
    problem_counts,
)
from tui_evals.tui.watch import StoreChange, Watch
from tui_evals.tui.widgets.inputs import FilterLine
from tui_evals.tui.widgets.lines import Lines
from tui_evals.tui.workspace import StoreWriter, Workspace

_PACE = 1.0  # seconds between two looks at runs that are not on screen, and two searches for a status
_HELP = 'words !not "two words" category:x tag:x id:MT-* status:fail'


class StatusLoader:
    """How the items of the open file did last; tells `new` when there is another run, `changed` which items changed."""

    def __init__(self, pane: Pane, new: Callable[[], None], changed: Callable[[Collection[Hashable]], None]) -> None:
        self._pane = pane
        self._new = new
        self._changed = changed
        self._file: Path | None = None
        self._latest: ItemStatuses | None = None
        self._timer: Timer | None = None
        self._readings = 0
        self._busy, self._missed = False, False
        """Whether statuses are being read, and whether something changed since that began."""

    @property
    def by_item(self) -> dict[Hashable, AnswerStatus]:
        """The statuses by the key of the item; the same object for as long as no other run is read."""
        return self._latest.statuses if self._latest else {}

    @property
    def source(self) -> str:
        """Which runs they are from, in words."""
        return self._latest.source if self._latest else ""

    def set_file(self, file: Path | None) -> None:
        """Be about this file."""
        if file != self._file:
            self._file, self._latest = file, None
            self._begin()

    def pulse(self, pulse: StoreChange) -> None:
        """The store has changed."""
        if self._file is None:
            return
        if pulse.reload:
            self._latest = None
            self._begin()
        elif self._latest is not None and pulse.rows:
            self._report_changes(self._latest.take(pulse.rows))
        if pulse.elsewhere or pulse.run or (self._busy and pulse.rows):
            self._timer = self._timer or self._pane.set_timer(_PACE, self._look_again)
        elif self._latest is not None and self._timer is None and not self._busy:
            self._latest.seq = pulse.seq  # all up to there was taken in, and need not be read again

    def _look_again(self) -> None:
        """A thread that reads cannot be ended, and takes long for a large run: the next one waits for it."""
        self._timer, self._missed = None, self._busy
        if not self._busy:
            self._begin()

    def _begin(self) -> None:
        """Start to read the statuses again, for another file or after a deletion."""
        self._readings += 1
        self._busy, self._missed = self._file is not None, False
        if self._file is not None:
            reading = self._read(self._file, self._readings)
            self._pane.app.run_worker(reading, group="statuses", name="statuses", exit_on_error=False)

    async def _read(self, file: Path, number: int) -> None:
        try:
            await self._read_once(file, number)
        finally:
            if number == self._readings:
                self._busy = False
        if number == self._readings and self._missed:
            self._begin()

    async def _read_once(self, file: Path, number: int) -> None:
        space = self._pane.workspace
        known = self._latest
        if known is not None:
            changes = await asyncio.to_thread(changed_answers, known, space.root, space.database)
            if changes is not None:
                if number == self._readings:
                    known.seq, rows = changes
                    self._report_changes(known.take(rows))
                return
        latest = await asyncio.to_thread(latest_of, file, space.root, space.database, space.items)
        if number == self._readings:
            self._latest = latest
            self._new()

    def _report_changes(self, keys: Collection[Hashable]) -> None:
        if keys:
            self._changed(keys)


class TreeView(Pane):
    """Rows for the items and turns; the cursor is the place the other panes are about."""

    def __init__(self, workspace: Workspace, watch: Watch, writer: StoreWriter) -> None:
        super().__init__(workspace, watch, writer)
        self._lines = Lines(searching=False, id="tree-lines")
        self._filter = FilterLine(ItemFilter, _HELP)
        self._shape = TreeShape()
        self._statuses = StatusLoader(self, self._statuses_read, self._statuses_changed)
        self._soon: Timer | None = None
        self._editing: Editing | None = None
        self._where: Key = DATASET
        self._marks: set[int] = set()
        self._shown: tuple[object, ...] | None = None
        self._root = workspace.root.resolve()
        self._files: tuple[tuple[Path, ...], list[Path]] = ((), [])

    def compose(self) -> ComposeResult:
        yield self._lines
        yield self._filter

    # -- showing

    def sync(self) -> None:
        space = self.workspace
        went = space.where != self._where
        self._where = space.where
        if space.editing is not self._editing:
            self._enter(space.editing)
            went = True
        self._shape.follow(space.items)
        if self._marks != space.marks:
            self._marks.clear()
            self._marks.update(space.marks)
            self._redraw()
        mark = self._mark()
        if mark != self._shown:
            self._shown = mark
            self._show(went)
        elif went:
            self._lines.to_key(self._shape.row_for(self._where))
        self._statuses.set_file(space.editing.document.file if space.editing else None)
        self._entitle()

    def wanted_columns(self) -> int | None:
        """The width that the names of the items, the start of their prompts and their statuses need."""
        items = self.workspace.items
        self._shape.measures.follow(items)
        return columns_for(self._shape.names.wanted) if items else None

    def _enter(self, editing: Editing | None) -> None:
        self._editing = editing
        self._shape = TreeShape(by_category=self._shape.by_category)
        self._filter.display = False

    def _mark(self) -> tuple[object, ...]:
        """The inputs of the rows; equal inputs do not make new rows."""
        space = self.workspace
        version = (id(space.editing), space.editing.version, space.editing.document) if space.editing else ()
        kept = space.item if self._shape.hides(space.item) else None
        problems = space.report.problems if space.report else ()
        return (version, problems, self._others(), self._shape.mark(), kept)

    def _show(self, went: bool = False) -> None:
        """Make the rows; the cursor keeps its place, or follows it if `went`."""
        space, shape, editing = self.workspace, self._shape, self.workspace.editing
        others = self._others()
        if editing is None:
            self._lines.show(lambda width: first_page(others, width))
            return
        shape.statuses = self._statuses.by_item
        shape.lay(space.items, space.item)
        tree = Tree(
            title=self._name_in_project(editing.document.file),
            unsaved=editing.dirty,
            items=space.items,
            keys=shape.keys,
            names=shape.names,
            changed=editing.changed_items(),
            problems=problem_counts(space.report.problems if space.report else ()),
            marks=self._marks,
            statuses=self._statuses.by_item,
            folded=shape.folded,
            shut=shape.shut,
            groups=shape.groups,
            filtered=len(shape.shown) if shape.filtered else None,
            others=others,
        )
        key = self._lines.key
        at = shape.row_for(self._where) if went or key is None else self._row_to_stay_on(key)
        self._lines.filtered = shape.filtered
        self._lines.show(lambda width: TreeRows(tree, width), at=at)

    def _row_to_stay_on(self, key: Hashable) -> Hashable:
        """The row to stay on; a place is replaced by the row that it is folded into."""
        return self._shape.row_for(self._where) if is_unit(key) else key

    def _others(self) -> tuple[OtherDataset, ...]:
        """The datasets that are not on screen: unsaved ones too that no file holds yet."""
        space = self.workspace
        if self._files[0] is not space.files:
            self._files = (space.files, [file.resolve() for file in space.files])
        here = space.editing.document.file if space.editing else None
        files = sorted({*space.open, *self._files[1]} - {here})
        return tuple(
            OtherDataset(one, self._name_in_project(one), one in space.open and space.open[one].dirty) for one in files
        )

    def _name_in_project(self, file: Path) -> str:
        return str(file.relative_to(self._root)) if file.is_relative_to(self._root) else str(file)

    def _entitle(self) -> None:
        shape, parts = self._shape, []
        if shape.filtered:
            parts.append(f"{shape.words} · {len(shape.shown):,} of {len(shape.items):,}")
        if self._marks:
            hidden = sum(map(shape.hides, self._marks)) if shape.filtered else 0
            parts.append(f"{len(self._marks):,} marked" + (f", {hidden:,} of them hidden" if hidden else ""))
        if self._statuses.source:
            parts.append(f"statuses of {self._statuses.source}")
        self.entitle(" · ".join(parts))

    def _statuses_read(self) -> None:
        """The statuses may be those of another run."""
        self._show()
        self._entitle()

    def _statuses_changed(self, keys: Collection[Hashable]) -> None:
        """Draw items whose status changed, or search again if the filter asks for a status."""
        if not self._shape.wanted.asks_status:
            self._redraw(keys)
        elif self._soon is None:
            self._soon = self.set_timer(_PACE, self._show_again)

    def _show_again(self) -> None:
        self._soon = None
        self._show()
        self._entitle()

    def _redraw(self, statuses: Collection[Hashable] | None = None) -> None:
        """Draw the rows on screen again: all, or those of items with another status."""
        rows = self._lines.rows
        if isinstance(rows, TreeRows):
            top = self._lines.scroll_offset.y
            seen = range(top, min(top + self._lines.size.height, len(rows)))
            self._lines.refresh_rows([n for n in seen if statuses is None or self._key_at(rows.key_at(n)) in statuses])

    def _key_at(self, key: Hashable) -> Hashable:
        number = key[1] if isinstance(key, tuple) and len(key) == 2 else None
        return item_key(self.workspace.items[number]) if isinstance(number, int) else None

    def pulse(self, pulse: StoreChange) -> None:
        self._statuses.pulse(pulse)

    # -- the current place

    @property
    def cursor_key(self) -> Key:
        """The row of the cursor, or of the current place if that was changed elsewhere.

        After a change on disk the rows are those of before until they are made again, and name other items.
        """
        key, space = self._lines.key, self.workspace
        if isinstance(key, tuple) and space.where == self._where and space.items is self._shape.items:
            return key
        return self._shape.row_for(space.where)

    def _go(self) -> None:
        """Make the cursor's place the current one, unless it was changed elsewhere: then the cursor follows."""
        key, space = self.cursor_key, self.workspace
        moved = space.where == self._where and key != self._shape.row_for(self._where)
        if moved and is_unit(key) and space.editing is not None:
            self._be(key)

    def _be(self, where: Key) -> None:
        self.workspace.where = self._where = where
        self.post_message(ItemShown())

    def on_lines_moved(self, event: Lines.Moved) -> None:
        event.stop()
        self._go()


def is_unit(key: Hashable) -> bool:
    """Whether a row is the dataset, an item or a turn."""
    return isinstance(key, tuple) and key[:1] in ((), ("items",))
