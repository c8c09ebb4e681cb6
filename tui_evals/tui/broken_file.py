"""Opens a dataset; one that cannot be read is shown at the line where it breaks, to be mended in an editor.

A table with other column names becomes a dataset by saying which column is what.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from tui_evals.datasets.document import Document, dialect_of_name, load
from tui_evals.datasets.editing import Editing
from tui_evals.datasets.problems import DatasetError
from tui_evals.datasets.table import COLUMNS, header_of, likely_columns
from tui_evals.tui.widgets.dialogs import Dialog
from tui_evals.tui.widgets.form import Field, Form
from tui_evals.tui.widgets.lines import Lines

from .desk import Desk
from .external_editor import edit_file
from .rows import Row, fit, row, wrapped

_AROUND = 8
_READ = 2**20
_SHOWN = 3


async def opened(desk: Desk, file: Path) -> Editing | None:
    """A dataset as it is in its file; what cannot be read is shown, and read again once it was mended."""
    while True:
        try:
            return Editing(await asyncio.to_thread(load, file))
        except DatasetError as error:
            problem = error
        header = await asyncio.to_thread(_columns, file)
        page = BrokenFile(file, problem, await asyncio.to_thread(_text, file), mappable=bool(header))
        answer = await desk.push_screen_wait(page)
        if answer == "edit":
            failure = edit_file(desk, file, page.line or 1)
            if failure:
                desk.tell(failure, "warn")
                return None
        elif answer == "map":
            return await _mapped(desk, file, header)
        else:
            desk.tell(f"{file.name} was not opened", "warn")
            return None


class BrokenFile(Dialog[str]):
    """What is wrong with a file, and its lines around the first problem; the answer is what to do about it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "answer('edit')", "edit", show=False),
        Binding("c", "answer('map')", "columns", show=False),
    ]

    def __init__(self, file: Path, problem: DatasetError, text: str, *, mappable: bool) -> None:
        columns = " · c says which column is what" if mappable else ""
        keys = f"e opens it in $EDITOR, and here again{columns} · j k scroll · esc leaves it"
        super().__init__(f"{file.name} cannot be opened", keys)
        self._problem = problem
        self._text = text
        self._mappable = mappable
        self.line = next((one.line for one in problem.problems if one.line is not None), None)
        """The line of the first problem that has one."""

    def body(self) -> list[Widget]:
        """The problems and the lines."""
        lines = Lines(choosing=False, classes="tall")
        lines.show(self._rows)
        return [lines]

    def _rows(self, width: int) -> list[Row]:
        rows: list[Row] = []
        for one in self._problem.problems:
            where = f"line {one.line}: " if one.line is not None else ""
            rows += [row((line, "error")) for line in wrapped(f"{where}{one}", width)]
        if self.line is None or not self._text:
            return rows
        rows.append(row())
        lines = self._text.split("\n")
        first = max(self.line - 1 - _AROUND, 0)
        for number, line in enumerate(lines[first : self.line + _AROUND], first + 1):
            here = number == self.line
            mark = fit(f"{'▸' if here else ' '}{number:>6} ", 8, "error" if here else "dim")
            rows.append(row(mark, fit(line, max(width - 8, 1), "" if here else "dim")))
        return rows

    def action_answer(self, what: str) -> None:
        """Leave with what is to be done."""
        if what == "edit" or self._mappable:
            self.dismiss(what)


def _text(file: Path) -> str:
    """The beginning of a file, as far as it can be shown."""
    try:
        with open(file, "rb") as stream:
            return stream.read(_READ).decode("utf-8", "replace")
    except OSError:
        return ""


def _columns(file: Path) -> list[str]:
    """The columns of a table that has none for prompts; none for anything else."""
    if dialect_of_name(file) != "csv" or file.name.lower().endswith(".gz"):
        return []
    header = header_of(_text(file))
    return [] if COLUMNS["prompt"] in header or len(set(header)) < len(header) else header


# -- which column is what


async def _mapped(desk: Desk, file: Path, header: list[str]) -> Editing | None:
    """A new dataset made of a table; the table stays as it is."""
    form = ColumnsForm(file, header)
    columns = await desk.push_screen_wait(form)
    if columns is None or form.table is None:
        desk.tell(f"{file.name} was not opened", "warn")
        return None
    editing = Editing.new_file(_free_name(file))
    editing.apply({**editing.data, "items": form.table.data["items"]}, f"items of {file.name}")
    desk.tell(f"{len(editing.data['items'])} items of {file.name}; ctrl+s writes {editing.document.file.name}")
    return editing


def _free_name(file: Path) -> Path:
    """The dataset beside a table, numbered where there is one."""
    names = (f"{file.stem}{f'-{number}' if number > 1 else ''}.json" for number in range(1, 10_000))
    return next(there for name in names if not (there := file.with_name(name)).exists())


class ColumnsForm(Form):
    """Which column holds prompts, references, answers and contexts, with the first items that this makes."""

    def __init__(self, file: Path, header: list[str]) -> None:
        self._file = file
        self._unread = ""
        self.table: Document | None = None
        """The table read by these columns; None where it cannot be."""
        fields = (
            Field("prompt", "choice", "What is asked.", header),
            Field("expected_response", "choice", "The reference the answer is compared with.", header),
            Field("response", "choice", "An answer that is there already.", header),
            Field("context", "choice", "What judges are given besides.", header),
        )
        values = likely_columns(header)
        super().__init__(
            f"{file.name}: which column is what", fields, values, check=self._faults, done="make a dataset"
        )
        self.values_changed()

    def _faults(self, values: Mapping[str, Any]) -> dict[str, str]:
        if "prompt" not in values:
            return {"prompt": "choose the column that holds what is asked"}
        if len(set(values.values())) < len(values):
            return {"": "a column can be one thing only"}
        return {"": self._unread} if self._unread else {}

    def values_changed(self) -> None:
        """Read the table by these columns, and show what comes of it."""
        self.table, self._unread = None, ""
        if not self._faults(self.values):
            try:
                self.table = load(self._file, self.values)
            except DatasetError as problem:
                self._unread = str(problem)
        preview = _preview(self.table)
        if self.is_mounted:
            self.redraw(preview)
        else:
            self._says = preview


def _preview(table: Document | None) -> str:
    """The first items as lines."""
    if table is None:
        return ""
    items = table.data["items"]
    lines = [f"{len(items):,} item{'s' * (len(items) != 1)}; the other columns become variables:"]
    for number, item in enumerate(items[:_SHOWN], 1):
        lines += [f"{number}  {name}: {_one_line(value)}" for name, value in item.items()]
    return "\n".join(lines)


def _one_line(value: object) -> str:
    text = value if isinstance(value, str) else ", ".join(f"{name} = {one}" for name, one in dict(value).items())  # type: ignore[call-overload]
    return " ".join(text.split())[:100]
