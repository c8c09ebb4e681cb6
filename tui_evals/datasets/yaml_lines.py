"""The line of each value of a YAML text, for error messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tui_evals.datasets.paths import Path
from tui_evals.light_records import dataclass


@dataclass(frozen=True, slots=True)
class YamlPlace:
    """The line of a value (of its key, if it has one) and the line on which its text starts."""

    line: int
    text: int
    column: int = 1


Places = Mapping[Path, YamlPlace]


def places_in(text: str) -> Places:
    """The places of all values of a text that `load_mapping` has read before."""
    from ruamel.yaml import YAML

    events: Iterator[Any] = YAML(typ="safe", pure=True, plug_ins=[]).parse(text.removeprefix("\ufeff"))
    places: dict[Path, YamlPlace] = {}
    for event in events:
        if _event_kind(event) not in ("StreamStart", "DocumentStart", "DocumentEnd", "StreamEnd"):
            _record_places(event, events, (), event.start_mark, places)
    return places


def line_in(places: Places, path: Path) -> int:
    """The line of a value, or of the nearest one around it where there is none."""
    while path and path not in places:
        path = path[:-1]
    return places[path].line if path in places else 1


def _event_kind(event: Any) -> str:
    return type(event).__name__.removesuffix("Event")


def _record_places(event: Any, events: Iterator[Any], path: Path, mark: Any, places: dict[Path, YamlPlace]) -> None:
    start = event.start_mark.line + 1
    text = start + 1 if getattr(event, "style", None) in ("|", ">") else start
    places[path] = YamlPlace(mark.line + 1, text, mark.column + 1)
    if _event_kind(event) == "MappingStart":
        while _event_kind(key := next(events)) != "MappingEnd":
            _record_places(next(events), events, (*path, key.value), key.start_mark, places)
    elif _event_kind(event) == "SequenceStart":
        number = 0
        while _event_kind(item := next(events)) != "SequenceEnd":
            _record_places(item, events, (*path, number), item.start_mark, places)
            number += 1
