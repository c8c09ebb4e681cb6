"""`tui-evals show --grid`: the items of a run as rows, each prompt and target as a column."""

from __future__ import annotations

from collections.abc import Sequence

from tui_evals.cli.output import columns, say, say_json
from tui_evals.present.columns import cell_width, fit
from tui_evals.present.figures import counted
from tui_evals.present.grid import GridColumn, cell_text, grid_columns, grid_data, line_name
from tui_evals.present.status import run_look
from tui_evals.store.filters import Filter
from tui_evals.store.grid import GridLine, GridOrder
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.text.safe import safe_line

_NAME, _COLUMN = 20, 24
"""Cells of a name of an item, and of a column, that are shown on a terminal."""
_GAP = "  "


def show_grid(reader: Reader, run: RunRow, where: Filter | None, order: GridOrder, limit: int, as_json: bool) -> None:
    """The grid of a run, as many columns as the terminal has room for; all where nobody looks at it."""
    grid, rows = grid_columns(reader, run), reader.grid_rows(run.id, where, order)
    lines = list(reader.grid_lines(run.id, rows if as_json else rows[:limit]))
    if as_json:
        say_json({"run": run.key, "name": run.name, **grid_data(grid, lines)})
        return
    say(f"{run.key}  {run.name}  {run_look(run).text}", bold=True)
    beyond = _say_table(_rows(grid, lines), columns())
    if not rows:
        say("no answer fits the filter" if where else "this run asks nothing")
    if left := len(rows) - len(lines):
        say(f"{left:,} more; `--limit {len(rows)}` shows all, `--only` those that a filter finds", dim=True)
    if beyond:
        more = counted(beyond, "more column")
        say(f"{more} beyond the width of the terminal; a pipe or --json has all", dim=True)


_HEAD = 4
"""Rows above the items."""


def _rows(grid: Sequence[GridColumn], lines: Sequence[GridLine]) -> list[list[str]]:
    return [
        ["item", *(column.short for column in grid)],
        ["passes", *(column.rate_text for column in grid)],
        ["95 % interval", *(column.interval_text for column in grid)],
        ["cost, latency", *(column.spent_text for column in grid)],
        *([line_name(line), *(cell_text(line.cells.get(column.place)) for column in grid)] for line in lines),
    ]


def _say_table(rows: Sequence[Sequence[str]], room: int | None) -> int:
    """Print the rows in columns of equal width; how many columns there was no room for."""
    cells = [[safe_line(text) for text in row] for row in rows]
    widths = [max(map(cell_width, column)) for column in zip(*cells, strict=True)]
    if room is not None:
        widths = [min(width, _COLUMN if number else _NAME) for number, width in enumerate(widths)]
    shown = 1
    while shown < len(widths) and (room is None or sum(widths[: shown + 1]) + len(_GAP) * shown <= room):
        shown += 1
    shown = max(shown, min(2, len(widths)))
    for number, row in enumerate(cells):
        line = _GAP.join(fit(text, width) for text, width in zip(row[:shown], widths, strict=False)).rstrip()
        say(line if room is None else fit(line, room).rstrip(), dim=0 < number < _HEAD, bold=not number)
    return len(widths) - shown
