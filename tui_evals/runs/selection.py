"""Which items of a dataset a run asks: by position, by a filter, by the answers of an earlier run, by sample."""

from __future__ import annotations

import re

from tui_evals.datasets.item_names import range_of
from tui_evals.datasets.model import Dataset
from tui_evals.datasets.paths import CannotEdit
from tui_evals.light_records import dataclass
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.item_filter import AboutAnswers, ItemFilter, searched_item
from tui_evals.runs.plan import Plan, limited
from tui_evals.store.filters import FilterError, parse_filter
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow

_RANGE = re.compile(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemSelection:
    """Which items a person wants to ask; all of them by default."""

    items: str | None = None
    """Positions from 1, as in 1,4-9."""
    only: str | None = None
    """A filter: of the dataset, or of the answers of `run`."""
    run: str | None = None
    limit: int | None = None
    seed: int | None = None


def select_items(plan: Plan, selection: ItemSelection, reader: Reader | None) -> frozenset[int] | None:
    """The positions from 0 of the items that are asked, None for all; the reader is needed to look at a run."""
    text, limit = selection.only, selection.limit
    if selection.items is not None:
        return chosen_positions(selection, len(plan.dataset.items))
    if text is None and limit is None:
        return None
    everything = range(len(plan.dataset.items))
    if selection.run:
        assert reader is not None, "a run is looked at in the store"
        chosen = sorted(set(items_in_run(reader, find_run(reader, selection.run), text or "")) & set(everything))
    else:
        chosen = items_that_fit(plan.dataset, text or "")
    if not chosen:
        raise CannotPlan(f"no item of the dataset fits --only {text!r}", "arguments")
    return frozenset(limited(chosen, limit, selection.seed))


def chosen_positions(selection: ItemSelection, count: int) -> frozenset[int]:
    """The positions from 0 that a selection names one by one, of so many items."""
    if selection.only is not None or selection.limit is not None or selection.run:
        raise CannotPlan("--items names the items itself; leave out --only, --from and --limit", "arguments")
    return parse_positions(selection.items or "", count)


def find_run(reader: Reader, word: str) -> RunRow:
    """The run a person means; CannotPlan where there is none."""
    try:
        return reader.find_run(word)
    except LookupError as problem:
        raise CannotPlan(str(problem.args[0]), "arguments") from None


def parse_positions(text: str, count: int) -> frozenset[int]:
    """The positions from 0 of a list such as 1,4-9."""
    positions: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            problem = f"{part.strip()!r} is no position and no range; write them as in 1,4-9"
            raise CannotPlan(f"--items: {problem}", "arguments")
        try:
            positions.update(range_of(match[1], match[2], part, count))
        except CannotEdit as reason:
            raise CannotPlan(f"--items: {reason}", "arguments") from None
    return frozenset(positions)


def items_that_fit(dataset: Dataset, text: str) -> list[int]:
    """The positions of the items that a filter lets through which needs no run to look at."""
    looked_at = {"testId", "name", "category", "tags", "prompt", "turns"}
    items = [searched_item(item.model_dump(include=looked_at)) for item in dataset.items]
    try:
        wanted = ItemFilter(text)
    except AboutAnswers as problem:
        raise CannotPlan(f"--only: {problem}; or say of which run with --from RUN", "arguments") from None
    except FilterError as problem:
        raise CannotPlan(f"--only: {problem}", "arguments") from None
    if wanted.asks_status:
        raise CannotPlan(f"--only {text!r} asks for a status; say of which run with --from RUN", "arguments")
    return wanted.numbers(items)


def answers_chosen(reader: Reader, run: RunRow, only: str | None, items: str | None) -> list[int]:
    """The ids of the answers of a run that a filter lets through, or of those to items at positions from 1."""
    if only is not None and items is not None:
        raise CannotPlan("--items names the items itself; leave out --only", "arguments")
    if items is not None:
        count = len(reader.dataset(run).items)
        return [row.id for row in reader.answers_to(run.id, parse_positions(items, count))]
    try:
        found = reader.ids(run.id, parse_filter(only or ""))
    except FilterError as problem:
        raise CannotPlan(f"--only: {problem}", "arguments") from None
    if not found:
        raise CannotPlan(f"no answer of {run.key} fits {only!r}; nothing is judged again", "arguments")
    return list(found)


def items_in_run(reader: Reader, run: RunRow, text: str) -> list[int]:
    """The items of a run whose answers a filter lets through."""
    try:
        ids = reader.ids(run.id, parse_filter(text))
    except FilterError as problem:
        raise CannotPlan(str(problem), "arguments") from None
    items = sorted({row.item for row in reader.rows(ids)})
    if not items:
        raise CannotPlan(f"no answer of {run.key} fits {text!r}; nothing was started", "arguments")
    return items
