"""Which items of a dataset a run asks: by position, by a filter, by the answers of an earlier run, by sample."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from tui_evals.datasets.item_names import range_of
from tui_evals.datasets.paths import CannotEdit
from tui_evals.light_records import dataclass
from tui_evals.runs.errors import CannotPlan
from tui_evals.store.filters import STATUS_WORDS, FilterError, Term, parse_filter
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerStatus, RunRow

if TYPE_CHECKING:
    from tui_evals.datasets.model import Dataset

    from .plan import Plan

ITEM_KEYS = ("category", "tag", "id", "status")
"""The conditions that look at items, or at what their answers came to last."""


class AboutAnswers(FilterError):
    """The filter needs the answers of a run, not only items."""


@dataclass(frozen=True, slots=True)
class SearchedItem:
    """The searchable parts of an item, in lower case."""

    name: str
    """Its testId; empty without one."""
    category: str
    tags: tuple[str, ...]
    """Its own tags and those of its turns."""
    text: str
    """All these texts, and the prompts."""


Fits = Callable[[SearchedItem, int], bool]
"""Whether an item fits, which is at a position from 0."""


def searched_item(item: object) -> SearchedItem:
    """The parts of an item in the file that a filter searches; values that are not text are skipped."""
    if not isinstance(item, dict):
        return SearchedItem("", "", (), "")
    turns = item.get("turns")
    units = [item, *(turn for turn in turns if isinstance(turn, dict))] if isinstance(turns, list) else [item]
    tags = tuple(_texts(tag for unit in units if isinstance(of_unit := unit.get("tags"), list) for tag in of_unit))
    name, title, category = (next(iter(_texts([item.get(key)])), "") for key in ("testId", "name", "category"))
    prompts = _texts(unit.get("prompt") for unit in units)
    return SearchedItem(name, category, tags, "\n".join([name, title, category, *tags, *prompts]))


def _texts(values: Iterable[object]) -> list[str]:
    return [value.casefold() for value in values if isinstance(value, str)]


class ItemFilter:
    """Conditions that must all hold; FilterError says which of them cannot be read, or looks at answers."""

    def __init__(self, text: str) -> None:
        self.asks_status = False
        """Whether it depends on results."""
        self._tests: list[tuple[Fits, bool]] = []
        self._statuses: list[tuple[str, bool]] = []
        for term in parse_filter(text).terms:
            if (status := _status_of(term)) is not None:
                self._statuses.append((status, not term.negated))
            else:
                self._tests.append((_test(term), not term.negated))
        self.asks_status = bool(self._statuses)

    def numbers(
        self, items: Sequence[SearchedItem], status: Callable[[int], AnswerStatus | None] | None = None
    ) -> list[int]:
        """The positions, from 0, of matching items; without `status` no item has a result."""
        numbers = list(range(len(items)))
        for fits, wanted in self._tests:
            numbers = [number for number in numbers if fits(items[number], number) is wanted]
        for name, wanted in self._statuses:
            numbers = [number for number in numbers if ((status and status(number)) == name) is wanted]
        return numbers


def items_named(text: str, items: Sequence[SearchedItem]) -> dict[str, list[int]]:
    """The positions from 0 of the items that each part of a list names: a testId, `#3`, or conditions of a filter."""
    found = {}
    for part in (part.strip() for part in text.split(",")):
        wanted = ItemFilter(part if ":" in part else f"id:{part}")
        if wanted.asks_status:
            raise AboutAnswers(f"{part!r} looks at answers; items are named by testId, tag:NAME or category:NAME")
        found[part] = wanted.numbers(items)
    return found


def _status_of(term: Term) -> str | None:
    """The status that a term asks for."""
    return term.value if term.key == "status" else STATUS_WORDS.get(term.key)


def _test(term: Term) -> Fits:
    if term.key == "text":
        holds = _holding(term.value.casefold())
        return lambda item, number: holds(item.text) or (not item.name and holds(f"#{number + 1}"))
    if term.key not in ITEM_KEYS:
        shown = f"{term.key}:{term.value}" if term.value else term.key
        raise AboutAnswers(
            f"{shown!r} looks at answers, not at items; items are found by {', '.join(f'{key}:' for key in ITEM_KEYS)} "
            "and words, in quotation marks where they mean something else"
        )
    is_it = _matching(term.value.casefold())
    if term.key == "category":
        return lambda item, number: is_it(item.category)
    if term.key == "tag":
        return lambda item, number: any(map(is_it, item.tags))
    return lambda item, number: is_it(item.name) or is_it(f"#{number + 1}")


def _matching(pattern: str) -> Callable[[str], bool]:
    """A test whether a text matches the pattern, in which `*` matches anything."""
    first, *rest = pattern.split("*")
    if not rest:
        return pattern.__eq__
    *inner, last = rest

    def matches(text: str) -> bool:
        at = _end_of(inner, text, len(first)) if text.startswith(first) else -1
        return 0 <= at <= len(text) - len(last) and text.endswith(last)

    return matches


def _holding(pattern: str) -> Callable[[str], bool]:
    """Whether the pattern is somewhere in a text."""
    pieces = pattern.split("*")
    return (lambda text: pattern in text) if len(pieces) == 1 else lambda text: _end_of(pieces, text, 0) >= 0


def _end_of(pieces: Iterable[str], text: str, at: int) -> int:
    """The end of the last piece when the pieces are found one after another, as early as possible; -1 if not found."""
    for piece in pieces:
        found = text.find(piece, at)
        if found < 0:
            return -1
        at = found + len(piece)
    return at


_RANGE = re.compile(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemSelection:
    """The items that the user wants to ask; all of them by default."""

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
    from .plan import limited  # plans need the models of datasets, which a search among items does not

    return frozenset(limited(chosen, limit, selection.seed))


def chosen_positions(selection: ItemSelection, count: int) -> frozenset[int]:
    """The positions, from 0, that `selection` lists, for `count` items."""
    if selection.only is not None or selection.limit is not None or selection.run:
        raise CannotPlan("--items names the items itself; leave out --only, --from and --limit", "arguments")
    return parse_positions(selection.items or "", count)


def find_run(reader: Reader, word: str) -> RunRow:
    """The run that a word names; raises CannotPlan without one."""
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
    """The positions of the items that match a filter without a run."""
    looked_at = {"testId", "name", "category", "tags", "prompt", "turns"}
    items = [searched_item(item.model_dump(include=looked_at)) for item in dataset.items]
    try:
        wanted = ItemFilter(text)
    except AboutAnswers as problem:
        raise CannotPlan(f"--only: {problem}. Name the run with --from RUN", "arguments") from None
    except FilterError as problem:
        raise CannotPlan(f"--only: {problem}", "arguments") from None
    if wanted.asks_status:
        raise CannotPlan(f"--only {text!r} asks for a status. Name the run with --from RUN", "arguments")
    return wanted.numbers(items)


def answers_chosen(reader: Reader, run: RunRow, only: str | None, items: str | None) -> list[int]:
    """The ids of a run's answers that match a filter, or of those to items at positions from 1."""
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
    """The items of a run whose answers match a filter."""
    try:
        ids = reader.ids(run.id, parse_filter(text))
    except FilterError as problem:
        raise CannotPlan(str(problem), "arguments") from None
    items = sorted({row.item for row in reader.rows(ids)})
    if not items:
        raise CannotPlan(f"no answer of {run.key} fits {text!r}; nothing was started", "arguments")
    return items
