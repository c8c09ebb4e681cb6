"""The latest status of every item of a dataset, from whichever run asked it last."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, get_args

from tui_evals.datasets.matrix import item_in_file, name_in_file
from tui_evals.light_records import dataclass
from tui_evals.present.status import OVER, WORST_FIRST
from tui_evals.project_files import resolved
from tui_evals.store import run_figures
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, AnswerStatus, RunRow

_CODES: dict[AnswerStatus, int] = {status: code for code, status in enumerate(get_args(AnswerStatus), 1)}
_NO_COUNTS = [0] * (len(_CODES) + 1)
_WORST = tuple((status, _CODES[status]) for status in WORST_FIRST)
_ASKED = ("prompt", "messages", "variables", "user")
_POSITION = re.compile(r".*#[0-9]+", re.DOTALL)
"""The names of items that have no testId, or none of their own."""
_PAGE = 20
_MOST_RUNS = 60
_MOST_ANSWERS = 200_000


def item_key(item: object) -> Hashable:
    """The identity of an item across runs: its testId, otherwise its prompt."""
    if not isinstance(item, dict):
        return None
    name = item.get("testId")
    if isinstance(name, str) and name:
        return name
    turns = item.get("turns")
    units = [item, *turns] if isinstance(turns, list) else [item]
    parts = [[unit.get(part) for part in _ASKED] if isinstance(unit, dict) else None for unit in units]
    return (json.dumps(parts, sort_keys=True),)


@dataclass(slots=True)
class RunStatuses:
    """The answers of one run by item: how many of each status, and which status each answer had when last seen."""

    keys: dict[int, Hashable] = field(default_factory=dict)
    """The key of each item that was asked, by its position in the run."""
    statuses: bytearray = field(default_factory=bytearray)
    counts: dict[int, array[int]] = field(default_factory=dict)
    """By item: the number of answers per status; the first number counts those not seen yet."""

    def put(self, pos: int, item: int, status: AnswerStatus) -> None:
        """Replace the counted status of an answer by its current one."""
        if pos >= len(self.statuses):
            self.statuses.extend(bytes(pos + 1 - len(self.statuses)))
        counts = self.counts.get(item)
        if counts is None:
            counts = self.counts[item] = array("l", _NO_COUNTS)
        counts[self.statuses[pos]] -= 1
        code = self.statuses[pos] = _CODES[status]
        counts[code] += 1

    def name_items(self, keys: dict[int, Hashable]) -> None:
        """Set the keys of the items; items with equal keys are counted together."""
        self.keys = keys
        together: dict[Hashable, array[int]] = {}
        for item, key in keys.items():
            mine = self.counts[item]
            counts = together.setdefault(key, mine)
            if counts is not mine:
                counts[:] = array("l", [one + other for one, other in zip(counts, mine, strict=True)])
                self.counts[item] = counts

    def worst(self, item: int) -> AnswerStatus:
        """The worst status of an item's answers; an open one counts less than a failed one."""
        counts = self.counts[item]
        return next(status for status, code in _WORST if counts[code])


@dataclass(slots=True)
class ItemStatuses:
    """The status of the items of one file by their key; `take` keeps it up to date."""

    file: Path
    statuses: dict[Hashable, AnswerStatus] = field(default_factory=dict)
    newest: int = 0
    """The number of the newest run of the file, 0 without one."""
    seq: int = 0
    runs: dict[int, RunStatuses] = field(default_factory=dict)
    over: set[int] = field(default_factory=set)
    """The runs that were over; their unanswered questions do not count."""
    asked_in: dict[Hashable, int] = field(default_factory=dict)
    """The run from which an item has its status."""
    source: str = ""
    """Which runs the statuses are from, in words."""

    def take(self, rows: Iterable[AnswerRow]) -> set[Hashable]:
        """Take in answers that changed; returns the keys of the items that have another status now."""
        touched = set()
        for row in rows:
            if (run_statuses := self.runs.get(row.run)) is not None:
                run_statuses.put(row.pos, row.item, row.status)
                touched.add((row.run, row.item))
        changed: set[Hashable] = set()
        for run, item in touched:
            key = self.runs[run].keys.get(item)
            status = self.runs[run].worst(item)
            if key is not None and self.asked_in.get(key, 0) == run and self.statuses[key] != status:
                self.statuses[key] = status
                changed.add(key)
        return changed


def latest_of(file: Path, root: Path, database: Path, items: Sequence[Any]) -> ItemStatuses:
    """Read from the store how each item did when it was asked last; slow, so never on the screen's thread."""
    wanted_keys = {item_key(item) for item in items} - {None}
    latest = ItemStatuses(file)
    with Reader(database) as reader:
        latest.seq = reader.seq()
        answers = 0
        keys: dict[int, str] = {}
        for run in runs_of(reader, file, root):
            keys[run.id] = run.key
            latest.newest = latest.newest or run.id
            _add(latest, run, reader)
            answers += run.total
            if answers > _MOST_ANSWERS or wanted_keys <= latest.statuses.keys():
                break
    newest, *earlier = [keys[run] for run in sorted(set(latest.asked_in.values()), reverse=True)] or [""]
    latest.source = newest + (f" + {len(earlier)} earlier" if earlier else "")
    return latest


def changed_answers(latest: ItemStatuses, root: Path, database: Path) -> tuple[int, list[AnswerRow]] | None:
    """The answers that changed since `seq`, and the next `seq`.

    None when another run is the newest, or a run has ended or is resumed: read all again.
    """
    with Reader(database) as reader:
        runs = list(runs_of(reader, latest.file, root))
        over = {run.id for run in runs if run.status in OVER and run.id in latest.runs}
        if (runs[0].id if runs else 0) != latest.newest or over != latest.over:
            return None
        rows = reader.changed(latest.seq)
    return rows[-1].seq if rows else latest.seq, [row for row in rows if row.run in latest.runs]


def runs_of(reader: Reader, file: Path, root: Path) -> Iterable[RunRow]:
    """The runs of a file, the newest first."""
    for start in range(0, _MOST_RUNS, _PAGE):
        page = reader.runs(_PAGE, start, file.name)
        yield from (run for run in page if resolved(root / run.source) == file)
        if len(page) < _PAGE:
            return


def _add(latest: ItemStatuses, run: RunRow, reader: Reader) -> None:
    """Count the answers of a run, and take from it the status of every item that no newer run asked."""
    run_statuses = latest.runs[run.id] = RunStatuses()
    if run.status in OVER:
        latest.over.add(run.id)
    names: dict[int, str] = {}
    for pos, item, name, status in run_figures.planned(reader, run.id):
        run_statuses.put(pos, item, status)
        names[item] = name
    run_statuses.name_items(_keys(run, names, reader))
    for item, key in run_statuses.keys.items():
        status = run_statuses.worst(item)
        never = status in ("pending", "running") and run.status in OVER
        if latest.asked_in.get(key, run.id) == run.id and not never:
            latest.statuses[key] = status
            latest.asked_in[key] = run.id


def _keys(run: RunRow, names: dict[int, str], reader: Reader) -> dict[int, Hashable]:
    """The key of each item as it was asked; an item without a name has one only if the run kept its dataset."""
    in_file = {item: name_in_file(name) for item, name in names.items()}
    keys: dict[int, Hashable] = {item: name for item, name in in_file.items() if not _POSITION.fullmatch(name)}
    unnamed = names.keys() - keys.keys()
    if unnamed:
        try:
            items = reader.snapshot(run.snapshot).get("items")
        except LookupError:
            return keys
        known = items if isinstance(items, list) else []
        asked = {item: known[item] for item in unnamed if item < len(known)}
        keys |= {item: key for item, one in asked.items() if (key := item_key(item_in_file(one))) is not None}
    return keys
