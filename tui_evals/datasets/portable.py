"""The published schema of runevals: its evaluators with their options, and the fields it refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictInt, model_validator

from tui_evals.datasets.paths import Path, Problem

from .model import PORTABLE_TURNS, SUPERSET, Item, Turn

_NonEmpty = Annotated[str, Field(min_length=1)]
_LikertScore = Annotated[float, Field(ge=1, le=5)]


class _Options(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)


class Likert(_Options):
    """Relevance, Coherence, Groundedness, Similarity."""

    threshold: _LikertScore = 3


class Citations(_Options):
    """Count of citation markers."""

    threshold: Annotated[StrictInt, Field(ge=1)] = 1
    citation_format: str = "oai_unicode"


class ExactMatch(_Options):
    """Verbatim comparison."""

    case_sensitive: bool = False


class PartialMatch(_Options):
    """Token overlap."""

    threshold: Annotated[float, Field(ge=0, le=1)] = 0.5
    case_sensitive: bool = False


class RetrievalQuery(_Options):
    """A search query."""

    capability: _NonEmpty
    selector: _NonEmpty
    includes: list[str] = []
    excludes: list[str] = []


class ExpectedItem(_Options):
    """A claim that a retrieved extract must hold."""

    retrievalExtract_contains: _NonEmpty


class RetrievalResult(_Options):
    """A search result."""

    capability: _NonEmpty
    max_rank: Annotated[StrictInt, Field(ge=1)] = 10
    min_expected_count: Annotated[StrictInt, Field(ge=1)] | None = None
    expected_items: list[ExpectedItem] | None = None

    @model_validator(mode="after")
    def _something_asserted(self) -> RetrievalResult:
        if self.min_expected_count is None and self.expected_items is None:
            raise ValueError("give min_expected_count or expected_items, else nothing is checked")
        return self


class Tool(_Options):
    """The identity of a tool."""

    plugin_name: _NonEmpty
    function_name: _NonEmpty


class Call(_Options):
    """An expected tool call; `id` is a label for diagnostics."""

    id: _NonEmpty | None = None
    tool: Tool


class ToolCallExecution(_Options):
    """Calls that must have been executed."""

    calls: Annotated[list[Call], Field(min_length=1)]


class ToolCallSelection(ToolCallExecution):
    """Calls that must have been selected."""

    allow_additional_calls: bool = True


class Custom(_Options):
    """An evaluator of the project's own, in custom-evaluators/."""

    threshold: float | None = None
    options: dict[str, Any] | None = None


Catalogue = Mapping[str, type[BaseModel]]

PUBLIC: Catalogue = {
    "Relevance": Likert,
    "Coherence": Likert,
    "Groundedness": Likert,
    "Similarity": Likert,
    "Citations": Citations,
    "ExactMatch": ExactMatch,
    "PartialMatch": PartialMatch,
    "RetrievalQuery": RetrievalQuery,
    "RetrievalResult": RetrievalResult,
    "ToolCallSelection": ToolCallSelection,
    "ToolCallExecution": ToolCallExecution,
}


def missing_version(data: Mapping[str, Any]) -> Iterator[Problem]:
    """The version, if a document lacks it, which the published schema requires."""
    if "schemaVersion" not in data:
        yield Problem("schemaVersion is missing; `tui-evals upgrade` writes it", ("schemaVersion",))


def refused_fields(item: Mapping[str, Any]) -> Iterator[Problem]:
    """Fields of a well-formed item that the published schema refuses; paths start at the item."""
    single = "turns" not in item
    if single and "prompt" not in item:
        yield Problem("has no prompt")
    yield from _refused_in_unit(item, SUPERSET[Item] | ({"name"} if single else set()), ())
    turns = item.get("turns") or ()
    if len(turns) > PORTABLE_TURNS:
        yield Problem(f"runevals takes no conversation of more than {PORTABLE_TURNS} turns", ("turns",))
    for place, turn in enumerate(turns):
        yield from _refused_in_unit(turn, SUPERSET[Turn], ("turns", place))


def _refused_in_unit(unit: Mapping[str, Any], fields: frozenset[str], path: Path) -> Iterator[Problem]:
    if not isinstance(unit.get("expected_response", ""), str):
        yield Problem("runevals knows expected responses that are text only", (*path, "expected_response"))
    for name in unit:
        if name in fields:
            yield Problem(f"runevals does not know '{name}' here; keep it under extensions", path)
