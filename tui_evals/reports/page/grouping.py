"""The lines of a comparison that belong to one item."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tui_evals.compare.runs import Comparison, Line
from tui_evals.store.reader import Reader


def places_of(reader: Reader, found: Comparison) -> dict[int, int]:
    """Which item of its dataset each answer belongs to."""
    return {row.id: row.item for side in found.sides for row in reader.all_rows(side.run.id)}


def by_item(lines: Iterable[Line], items: Mapping[int, int]) -> Iterator[list[Line]]:
    """Neighbouring lines of one item together, by the places it has in the runs' datasets."""
    group: list[Line] = []
    places: dict[int, int] = {}
    for line in lines:
        own = {number: items[answer.id] for number, answer in enumerate(line.answers) if answer}
        if group and (group[0].item != line.item or any(places.get(run, at) != at for run, at in own.items())):
            yield group
            group, places = [], {}
        group.append(line)
        places |= own
    if group:
        yield group
