"""The chunks of text that a search brought for an answer: where they are looked for, in one order for everybody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tui_evals.text import strictjson
from tui_evals.text.jsonpath import PathError, find_by_path

from .base import Evidence, Misconfigured, as_text

CHUNKS = "chunks"
"""The key in the extensions of an item or turn under which chunks are written."""
_LISTS = (
    *("chunks", "retrieved_chunks", "retrieved", "retrieved_documents", "retrieved_contexts"),
    *("documents", "contexts", "sources"),
)
"""Under which names diagnostics hold what was retrieved."""
_TEXTS = ("text", "content", "page_content", "chunk", "snippet", "extract")
"""Under which names a retrieved object holds its text."""


def object_rows(value: object) -> list[Mapping[str, Any]]:
    """The objects in a list; whatever else stands there counts as absent."""
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list | tuple) else []


def chunks_of(evidence: Evidence, path: str | None = None, tool: str | None = None) -> tuple[str, ...]:
    """The chunks, best first: at a JSON path of the diagnostics or from a tool, where one is named, else where they
    are usually told (the hits of retrieval_executions, a list such as `chunks`), else those that the item holds.
    """
    diagnostics = evidence.diagnostics or {}
    if path is not None:
        try:
            found: tuple[object, ...] = find_by_path(path, dict(diagnostics))
        except PathError as problem:
            raise Misconfigured(str(problem)) from None
        return tuple(_texts(found[0] if len(found) == 1 and isinstance(found[0], list) else found))
    if tool is not None:
        results = [call.result for call in evidence.tool_calls or () if call.name == tool and not call.failed]
        return tuple(text for result in results if result for text in _texts(_parsed(result)))
    if told := _hits(diagnostics) or next(filter(None, (tuple(_texts(diagnostics.get(name))) for name in _LISTS)), ()):
        return told
    return evidence.chunks


def chunk_texts(value: object) -> tuple[str, ...]:
    """The chunks in a list of texts or of objects with a text."""
    return tuple(_texts(value))


def _hits(diagnostics: Mapping[str, Any]) -> tuple[str, ...]:
    """The extracts of the hits by their rank; a hit without a rank has the rank of its place."""
    ranked = [
        (hit["rank"] if type(hit.get("rank")) is int else place, tuple(_texts(hit.get("extracts"))))
        for row in object_rows(diagnostics.get("retrieval_executions"))
        for place, hit in enumerate(object_rows(row.get("retrievalHits")), 1)
    ]
    return tuple("\n".join(texts) for _, texts in sorted(ranked, key=lambda hit: hit[0]) if texts)


def _parsed(result: str) -> object:
    """What a tool gave: a list in JSON, or in an object under a usual name; else one text."""
    try:
        value = strictjson.loads(result)
    except (strictjson.JsonError, RecursionError):
        return [result]
    if isinstance(value, Mapping):
        value = next((value[name] for name in (*_LISTS, "results", "hits") if isinstance(value.get(name), list)), value)
    return value if isinstance(value, list) else [result]


def _texts(value: object) -> Iterator[str]:
    rows: Sequence[object] = value if isinstance(value, list | tuple) else ()
    for row in rows:
        text = (
            next((row[name] for name in _TEXTS if isinstance(row.get(name), str)), None)
            if isinstance(row, Mapping)
            else row
        )
        shown = as_text(row if text is None else text)
        if shown.strip():
            yield shown
