"""Commands that work in every pane: panes and their widths, help, problems, the palette, the shell."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import signal
import sys
import termios
from bisect import bisect_left
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from textual.app import SuspendNotSupported

from tui_evals.datasets.paths import Path as DataPath
from tui_evals.datasets.paths import Problem, place_in_words
from tui_evals.store.reader import Reader
from tui_evals.text.manual import pages, title_of
from tui_evals.tui import layout
from tui_evals.tui.actions import PLACES, Action, Where, actions_at, key_names
from tui_evals.tui.desk import Command, Commands, Desk
from tui_evals.tui.layout import PLACES as PANES
from tui_evals.tui.messages import ItemShown, OpenRun, Place, ShowPane
from tui_evals.tui.opening import dataset_names, enter_file
from tui_evals.tui.rows import Row, paragraph, row, wrapped
from tui_evals.tui.widgets.dialogs import Entry, Menu, Reading, help_menu
from tui_evals.tui.workspace import NO_DATASET_OPEN, Workspace


def to_pane(place: Place) -> Callable[[Desk], None]:
    """Bring a pane in front."""
    return lambda desk: desk.bring(place)


def to_neighbour(way: int) -> Callable[[Desk], None]:
    """Bring the next pane in front, or the one before."""
    return lambda desk: desk.bring(layout.next_place(desk.front, desk.shown, desk.session.arrangement, way))


def why_no_zoom(desk: Desk) -> str | None:
    """There is only room for one pane."""
    alone = not desk.zoomed and len(layout.places_in(desk.shown)) == 1
    return "below 100 columns one pane is shown at a time in any case" if alone else None


def why_not_wider(desk: Desk) -> str | None:
    """Why no other pane can be shown; None if one can."""
    return "z shows the other panes again" if desk.zoomed else why_no_zoom(desk)


def zoom(desk: Desk) -> None:
    """Show only the pane in front, or all again."""
    desk.zoomed = not desk.zoomed
    desk.arrange()


_ARRANGED: Mapping[layout.Arrangement, str] = {
    "all": "everything there is room for",
    "write": "to write: dataset, item, evaluators",
    "watch": "to watch: runs, results, answer",
    "compare": "to compare: results and answer",
}


def rearrange(desk: Desk) -> None:
    """Show the next arrangement of panes, and say which it is."""
    arrangement, front = layout.next_arrangement(
        desk.front, desk.size.width, desk.size.height, desk.session.arrangement
    )
    desk.zoomed = False
    desk.session.put("arrangement", arrangement)
    if front != desk.front:
        desk.bring(front)
    desk.arrange()
    desk.tell(f"{_ARRANGED[arrangement]}; Z shows the next layout")


def widen(way: int) -> Callable[[Desk], None]:
    """Make the pane in front a step wider or narrower."""

    def step(desk: Desk) -> None:
        desk.session.put("weights", layout.changed_weight(desk.session.weights, desk.front, way))
        desk.arrange()

    return step


def back(desk: Desk) -> None:
    """Leave a mode of the pane, else the zoom, else go to the pane that was in front before."""
    if desk.pane(desk.front).escape():
        return
    if desk.zoomed:
        zoom(desk)
    elif desk.visited:
        desk.bring(desk.visited.pop(), returning=True)


async def show_help(desk: Desk) -> None:
    """Show the purpose of the active pane and its keys; choosing a key runs its action."""
    chosen = await desk.push_screen_wait(help_menu(desk.front, lambda action: why_not(desk, action)))
    if isinstance(chosen, Action):
        do(desk, chosen)


def why_no_problem(desk: Desk) -> str | None:
    """Why no problem can be shown: no dataset is open, or it has none."""
    space = desk.workspace
    if space.editing is None:
        return NO_DATASET_OPEN
    if space.report is not None and not space.report.problems:
        return "nothing is wrong with this dataset"
    return None


def step_to_problem(way: int) -> Callable[[Desk], Coroutine[Any, Any, None]]:
    """Go to the next problem, or the one before; round the end."""

    async def step(desk: Desk) -> None:
        space = desk.workspace
        report = await asyncio.to_thread(space.check)
        problems = sorted(report.problems, key=lambda problem: _order(_unit(problem.path))) if report else []
        if not problems:
            desk.tell("nothing is wrong with this dataset")
            return
        number = _next(problems, space.where, space.problem, way)
        problem = space.problem = problems[number]
        space.where = _unit(problem.path)
        desk.bring("editor")
        pane = desk.pane("editor")
        pane.sync()
        pane.to_key(_field(problem.path))
        desk.post_message(ItemShown())
        place = place_in_words(problem.path)
        desk.tell(f"problem {number + 1} of {len(problems)}, {place}: {problem.message}", "warn")

    return step


def _unit(path: DataPath) -> DataPath:
    """The item or turn a path leads into; the dataset itself for all else."""
    if path[:1] != ("items",) or len(path) < 2:
        return ()
    return path[:4] if len(path) > 3 and path[2] == "turns" else path[:2]


def _field(path: DataPath) -> str | int | None:
    """The field of it."""
    rest = path[len(_unit(path)) :]
    return rest[0] if rest else None


def _order(unit: DataPath) -> tuple[int, ...]:
    """The position of a unit in the file, as sort key: the dataset, an item, its turns."""
    return tuple(part for part in unit if isinstance(part, int))


def _next(problems: Sequence[Problem], where: DataPath, last: Problem | None, way: int) -> int:
    """The number of the problem after or before the current place, or after the one shown last."""
    if last is not None and last in problems and _unit(last.path) == where:
        return (problems.index(last) + way) % len(problems)
    here = bisect_left([_order(_unit(problem.path)) for problem in problems], _order(where))
    return (here if way > 0 else here - 1) % len(problems)


_MOST_RUNS = 1_000
_BEGINNING = 200  # most characters of an item's question


async def palette(desk: Desk) -> None:
    """Choose something by its name; an action is done, anything else is shown."""
    actions = sorted(_actions(desk), key=lambda entry: bool(entry.why_not))
    others = await asyncio.to_thread(lambda: [*_datasets(desk.workspace), *_runs(desk), *_pages(), *_items(desk)])
    chosen = await desk.push_screen_wait(Menu("find", [*actions, *others], does="does it or goes there"))
    if isinstance(chosen, Action):
        do(desk, chosen)
    elif chosen is not None:
        await _show(desk, *chosen)


def do(desk: Desk, action: Action) -> None:
    """Do an action where it belongs, or say why not."""
    if action.where == "everywhere":
        desk.action_act(action.name)
        return
    (place,) = (place for place in PANES if place == action.where)
    pane = desk.pane(place)
    if place == desk.front:
        pane.action_act(action.name)
    else:
        desk.bring(place)
        pane.call_after_refresh(pane.action_act, action.name)  # its rows are made when it is drawn


def why_not(desk: Desk, action: Action) -> str | None:
    """Why an action cannot be done now."""
    for place in PANES:
        if place == action.where:
            return desk.pane(place).why_not(action.name)
    return desk.why_not(action.name)


async def _show(desk: Desk, what: str, name: object) -> None:
    if what == "item" and isinstance(name, int):
        desk.workspace.where = ("items", name)
        desk.workspace.settle()
        desk.post_message(ItemShown())
        desk.post_message(ShowPane("editor"))
    elif what == "run" and isinstance(name, int):
        desk.post_message(OpenRun(name))
    elif what == "dataset" and isinstance(name, Path):
        if await enter_file(desk, name):
            desk.post_message(ShowPane("tree"))
    else:
        text = pages()[str(name)]
        desk.push_screen(Reading(f"help · {name}", lambda width: page_rows(text, width)))


# -- what there is


def _actions(desk: Desk) -> Iterator[Entry]:
    """All actions: of the active pane, of the workbench, of the other panes; impossible ones with the reason."""
    wheres: tuple[Where, ...] = (desk.front, "everywhere", *(place for place in PANES if place != desk.front))
    for where in wheres:
        noun = "workbench" if where == "everywhere" else PLACES[where].partition(" ")[2].lower()
        for action in actions_at(where):
            keys = " ".join(key_names(action))
            about = f"{keys:<6} {action.description}"
            yield Entry(action, f"{noun}: {action.word}", about, why_not=why_not(desk, action) or "")


def _datasets(workspace: Workspace) -> Iterator[Entry]:
    for file, name in dataset_names(workspace).items():
        here = workspace.editing is not None and workspace.editing.document.file == file
        yield Entry(("dataset", file), f"dataset: {name}", "on screen" if here else "a file of the project")


def _runs(desk: Desk) -> Iterator[Entry]:
    with Reader(desk.workspace.database) as reader:
        for run in reader.runs(_MOST_RUNS):
            words = (run.key, run.status, run.suite, run.source, *run.tags, run.note)
            yield Entry(("run", run.id), f"run: {run.name}", " · ".join(filter(None, words)))


def _pages() -> Iterator[Entry]:
    for name, text in pages().items():
        yield Entry(("page", name), f"help: {name}", title_of(text))


def _items(desk: Desk) -> Iterator[Entry]:
    items = desk.workspace.items
    for number, (name, item) in enumerate(zip(desk.workspace.names(), items, strict=False)):
        yield Entry(("item", number), f"item: {name}", _asked(item))


def _asked(item: object) -> str:
    """The start of an item's prompt."""
    if not isinstance(item, dict):
        return ""
    turns = item.get("turns")
    first = turns[0] if isinstance(turns, list) and turns and isinstance(turns[0], dict) else {}
    texts = (item.get("prompt"), first.get("prompt"), item.get("name"))
    return next((" ".join(text[:_BEGINNING].split()) for text in texts if isinstance(text, str) and text), "")


_OF_ITS_OWN = re.compile(r"\s|[-*|#]|\d+\.|$")
"""How a line begins that does not continue where the one before ended."""
_CELL = 16  # columns for the first cell of a table
_SECOND_COLUMN = re.compile(r"\s*(?:\S.*?\s{2,})?")


def page_rows(text: str, width: int) -> list[Row]:
    """A page of the manual: paragraphs fill the width, headings are highlighted, examples are unchanged."""
    rows: list[Row] = []
    lines: list[str] = []

    def end_paragraph() -> None:
        if lines:
            indent = "  " if lines[0].startswith(("* ", "- ")) else ""
            first, *rest = wrapped(" ".join(lines).replace("**", ""), width - len(indent))
            rows.extend((row(first), *(row(indent, line) for line in rest)))
            lines.clear()

    for line in text.splitlines():
        goes_on = bool(lines) and lines[0].startswith(("* ", "- ")) and line.startswith("  ")
        if (_OF_ITS_OWN.match(line) and not goes_on) or line.startswith("    "):
            end_paragraph()
        if line.startswith("#"):
            rows += paragraph(line.lstrip("# "), width, "title")
        elif line.startswith("|"):
            rows += _table_rows(line, width)
        elif not line or (line[0].isspace() and not lines):
            rows += _example_rows(line, width)
        else:
            lines.append(line.strip())
    end_paragraph()
    return rows


def _example_rows(line: str, width: int) -> list[Row]:
    """A line of an example; if it is too long, it continues below at the indentation of its second column."""
    begins = _SECOND_COLUMN.match(line)
    indent = begins.end() if begins is not None and begins.end() <= width // 2 else 0
    first, *more = wrapped(line[indent:], width - indent)
    return [row((line[:indent] + first, "dim")), *(row((" " * indent + part, "dim")) for part in more)]


def _table_rows(line: str, width: int) -> list[Row]:
    """A line of a table with its first cell highlighted; separator lines are left out."""
    cells = [cell.strip().strip("`").replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
    if not any(cells) or set("".join(cells)) <= {"-", ":"}:
        return []
    head, *rest = cells
    head = head.replace("`", "")
    below = wrapped("  ".join(rest).replace("`", ""), max(width - _CELL - 1, 10))
    if len(head) > _CELL:
        return [
            *paragraph(head, width, "key"),
            *(row(" " * (_CELL + 1), one) for one in below),
        ]
    return [
        row((f"{head:<{_CELL}} ", "key"), below[0]),
        *(row(" " * (_CELL + 1), part) for part in below[1:]),
    ]


def suspend(desk: Desk) -> None:
    """Suspend the process (ctrl+z); if no shell could resume it, the kernel ignores the signal."""
    try:
        with desk.suspend():
            before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            try:
                # All of the job, because a launcher that waits for this process would keep the shell waiting.
                os.kill(0, signal.SIGTSTP)
                _wait_for_foreground(sys.stdin.fileno())
            finally:
                signal.signal(signal.SIGTSTP, before)
    except SuspendNotSupported:
        desk.tell("this terminal cannot be given back to a shell", "warn")


def _wait_for_foreground(terminal: int) -> None:
    """Wait for `fg`. After `bg` the shell still owns the terminal, so that changing it stops the process; the signal
    that resumes it interrupts the change, which is then retried.
    """
    while True:
        try:
            termios.tcsetattr(terminal, termios.TCSANOW, termios.tcgetattr(terminal))
            return
        except termios.error as problem:
            if problem.args[0] != errno.EINTR:
                return  # the terminal is gone, which the reading thread notices


COMMANDS: Commands = {
    "pane_1": Command(to_pane("tree")),
    "pane_2": Command(to_pane("editor")),
    "pane_3": Command(to_pane("judges")),
    "pane_4": Command(to_pane("results")),
    "pane_5": Command(to_pane("detail")),
    "pane_6": Command(to_pane("runs")),
    "next_pane": Command(to_neighbour(1)),
    "previous_pane": Command(to_neighbour(-1)),
    "zoom": Command(zoom, why_no_zoom),
    "arrangement": Command(rearrange, why_no_zoom),
    "narrower": Command(widen(-1), why_not_wider),
    "wider": Command(widen(1), why_not_wider),
    "back": Command(back),
    "redraw": Command(lambda desk: desk.redraw()),
    "help": Command(show_help),
    "palette": Command(palette),
    "next_problem": Command(step_to_problem(1), why_no_problem),
    "previous_problem": Command(step_to_problem(-1), why_no_problem),
    "suspend": Command(suspend),
}
