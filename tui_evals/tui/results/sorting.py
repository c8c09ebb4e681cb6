"""By what answers can be sorted, the order in words, and what stands where there are none."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

from tui_evals.store.records import RunRow
from tui_evals.tui.rows import Row, Rows, row, wrapped
from tui_evals.tui.run_queries import AnswerOrder
from tui_evals.tui.runs.ending import wrote_tests

PLAN = "pos"


class SortColumn(NamedTuple):
    """Something answers can be sorted by: the column, its word, and whether the largest come first."""

    by: str
    word: str
    descending: bool = False


_SORTS = (
    SortColumn(PLAN, "plan order"),
    SortColumn("status", "status"),
    SortColumn("score", "score"),
    SortColumn("latency_ms", "latency", True),
    SortColumn("cost", "cost", True),
    SortColumn("output_tokens", "tokens out", True),
    SortColumn("input_tokens", "tokens in", True),
    SortColumn("name", "name"),
    SortColumn("ending", "how it ended", True),
)


def sort_columns(keys: Iterable[str]) -> list[SortColumn]:
    """By what the answers of a run with these evaluators can be sorted."""
    return [*_SORTS, *(SortColumn(f"evaluator:{key}", key) for key in keys)]


def order_after_choice(order: AnswerOrder, sort: SortColumn) -> AnswerOrder:
    """The order after a column was chosen: the other way round if it is the one already."""
    if sort.by == (order.sort or PLAN):
        return AnswerOrder(order.text, order.sort, not order.descending)
    return AnswerOrder(order.text, None if sort.by == PLAN else sort.by, sort.descending)


def order_words(order: AnswerOrder, as_of: float | None) -> str:
    """The filter and the sorting for a title; `as_of` when answers have changed since they were put in order."""
    parts = [order.text] if order.text else []
    if order.sort or order.descending:
        word = (
            order.sort.partition(":")[2] or order.sort.removesuffix("_ms").replace("_", " ") if order.sort else "plan"
        )
        parts.append(f"by {word} {'▼' if order.descending else '▲'}")
    if as_of is not None:
        parts.append(f"as of {time.strftime('%H:%M', time.localtime(as_of))}")
    return " · ".join(parts)


def no_answers_rows(run: RunRow | None, order: AnswerOrder, width: int) -> Rows:
    """What stands where there are no answers."""
    if run is None:
        sentences = ["Here stand the answers of a run, a row each, from the moment it starts.", ""]
        keys = [("r", "runs the dataset"), ("6", "lists the runs there are")]
    elif order.text:
        sentences, keys = (
            [f"No answer fits the filter {order.text}", ""],
            [("esc", "takes it away"), ("/", "changes it")],
        )
    else:
        wrote = wrote_tests(run)
        sentences, keys = [f"{wrote}." if wrote else "This run asks nothing.", ""], [("6", "lists the other runs")]
        keys += [("7", "shows the rules of the open dataset, with their tests")] if wrote else []
    rows: list[Row] = [row((line, "dim")) for text in sentences for line in wrapped(text, width)]
    return [*rows, *(row((f"{key:>4} ", "key"), text) for key, text in keys)]
