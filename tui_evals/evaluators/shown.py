"""The evidence as a judge sees it: named parts, each piece fenced on its own, and the retrieved chunks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from tui_evals.text import strictjson
from tui_evals.text.chats import chat_to_text
from tui_evals.text.strictjson import PathError, find_by_path
from tui_evals.transcript import documents_of, steps_of

from .base import Evidence, Misconfigured, ToolCall, as_text
from .judging import Parts, Piece

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
    """The objects in a list; anything else in it counts as absent."""
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list | tuple) else []


def chunks_of(evidence: Evidence, path: str | None = None, tool: str | None = None) -> tuple[str, ...]:
    """The chunks, best first: at a JSON path of the diagnostics or from a tool, where one is named, else where they
    are usually told (the transcript, the hits of retrieval_executions, a list such as `chunks`), else those that the
    item holds.
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
    if retrieved := documents_of(evidence.transcript):
        return tuple(document.text for document in retrieved if document.text.strip())
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


HEADINGS: Mapping[str, str] = {
    "steps": "What was done on the way to the answer, in order: what was said, called, and given by tools:",
    "chunks": "What was retrieved, best first:",
    "diagnostics": "What else the target reported:",
    "group": "The answers of the same group, to the same request:",
}
"""The heading of a part of the evidence."""
EVIDENCE = tuple(HEADINGS)
"""The parts that every judge may be shown besides what its prompt names."""

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


def shown_parts(evidence: Evidence, names: Collection[str] = EVIDENCE) -> Parts:
    """The parts of these names that there are."""
    return {name: pieces for name in names if (pieces := tuple(_PARTS[name](evidence)))}


def request_texts(evidence: Evidence) -> dict[str, str]:
    """What every judge is shown under its own name: the chat before the request, the request, and the answer."""
    return {
        "conversation": chat_to_text(evidence.history),
        "request": evidence.prompt,
        "answer": evidence.response or "",
    }


def reference_text(evidence: Evidence) -> str:
    """The acceptable references as one text, numbered when there are several."""
    references = evidence.references
    if len(references) < 2:
        return "".join(references)
    return "\n\n".join(f"Reference {number}\n{text}" for number, text in enumerate(references, 1))


def evidence_for_prompt(evidence: Evidence, given: Collection[str]) -> tuple[Parts, dict[str, str]]:
    """The parts for a prompt of a user, without those whose name has another value; and what stands for absent ones."""
    parts = {name: pieces for name, pieces in shown_parts(evidence).items() if name not in given}
    return parts, {name: "(none given)" for name in EVIDENCE if name not in given and name not in parts}


def call_data(call: ToolCall) -> dict[str, Any]:
    """A call as plain data, with what came of it where that is known."""
    outcome = {} if call.result is None else {"result": call.result, "failed": call.failed}
    return {"name": call.name, "arguments": call.arguments, **outcome}


def message_pieces(evidence: Evidence) -> tuple[Piece, ...]:
    """The whole conversation with the answer, a piece for each message, numbered."""
    answer: Sequence[Mapping[str, Any]] = [{"role": "assistant", "content": evidence.response or ""}]
    pieces: list[Piece] = []
    for message in evidence.chat:
        pieces.append(_message_piece(len(pieces) + 1, message))
    for step in step_pieces(evidence):
        pieces.append(Piece(f"message_{len(pieces) + 1}_{step.name.rsplit('_', 1)[0]}", step.text))
    return (*pieces, *(_message_piece(len(pieces) + 1, message) for message in answer))


def _message_piece(number: int, message: Mapping[str, Any]) -> Piece:
    role = message.get("role")
    return Piece(f"message_{number}_{role if role in _ROLES else 'other'}", chat_to_text((message,)))


def step_pieces(evidence: Evidence) -> Iterator[Piece]:
    """What was said, called and given until the answer, numbered by calls."""
    steps = steps_of(evidence.transcript)
    if not steps:
        for number, call in enumerate(evidence.tool_calls or (), 1):
            yield from _call_pieces(number, call)
        return
    calls = iter(enumerate(evidence.tool_calls or (), 1))
    for number, step in enumerate(steps, 1):
        said = step.get("text") or ""
        if said and not (number == len(steps) and said == evidence.response):
            yield Piece(f"said_{number}", as_text(said))
        for _ in step.get("calls", ()):
            if (numbered := next(calls, None)) is not None:
                yield from _call_pieces(*numbered)


def _call_pieces(number: int, call: ToolCall) -> Iterator[Piece]:
    arguments = "" if call.arguments is None else as_text(call.arguments)
    yield Piece(f"call_{number}", f"{call.name} {arguments}".rstrip())
    if call.result is not None:
        yield Piece(f"{'error' if call.failed else 'result'}_{number}", call.result)


def chunk_pieces(chunks: Sequence[str]) -> tuple[Piece, ...]:
    """Chunks by their numbers."""
    return tuple(Piece(f"chunk_{number}", text) for number, text in enumerate(chunks, 1))


def source_of(evidence: Evidence) -> tuple[tuple[Piece, ...], str]:
    """What an answer can rest on (the item's context, retrieved chunks, what tools gave), and the names of those."""
    context = (Piece("source", evidence.context or ""),) if (evidence.context or "").strip() else ()
    chunks = chunk_pieces(chunks_of(evidence))
    results = tuple(piece for piece in step_pieces(evidence) if piece.name.startswith("result_"))
    named = {"context": context, "chunks": chunks, "tool results": results}
    return (*context, *chunks, *results), ", ".join(name for name, pieces in named.items() if pieces)


def _diagnostics(evidence: Evidence) -> Iterator[Piece]:
    """What was told, without the extracts that are shown as chunks."""
    told = dict(evidence.diagnostics or {})
    executions = told.get("retrieval_executions")
    if isinstance(executions, list | tuple):
        told["retrieval_executions"] = [
            {name: value for name, value in row.items() if name != "retrievalHits"} if isinstance(row, Mapping) else row
            for row in executions
        ]
    if told:
        yield Piece("diagnostics", strictjson.dumps(told))


_PARTS: Mapping[str, Any] = {
    "steps": step_pieces,
    "chunks": lambda evidence: chunk_pieces(chunks_of(evidence)),
    "diagnostics": _diagnostics,
    "group": lambda evidence: (Piece(f"answer_{n}", text) for n, text in enumerate(evidence.completions, 1)),
}
