"""The embeddings protocol: the body of a request for vectors, the parsing of an answer.

Each message of a request is one text; the reply is a line for each (`text/vectors.py`).
"""

from __future__ import annotations

import base64
import binascii
import json
from array import array
from collections.abc import Mapping
from typing import Any

from tui_evals.targets.failures import StatedError, error_in
from tui_evals.text.model_output import pack_vector

from .base import Reply, Request, TargetConfig, Usage

EMBEDDINGS_WANTED = "a list of embeddings"
"""What an answer is, in words."""


def embedding_body(config: TargetConfig, model: str, request: Request) -> dict[str, Any]:
    """The body of a request; only the target's own parameters belong to it, such as dimensions."""
    return {**config.params, "model": model, "input": [message["content"] for message in request.messages]}


def parse_embeddings_body(body: bytes, _: bool) -> Reply:
    """The reply in a body; ValueError if there is none."""
    try:
        return parse_embeddings(json.loads(body))
    except RecursionError:
        raise ValueError("the brackets are nested too deeply") from None


def parse_embeddings(document: Any) -> Reply:
    """The reply in a list of embeddings; ValueError if there is none, or one is missing."""
    if (error := error_in(document)) and not document.get("data"):
        raise StatedError(error)
    try:
        rows = document["data"]
        placed = {row.get("index", place): row["embedding"] for place, row in enumerate(rows)}
        if sorted(placed) != list(range(len(rows))):
            raise ValueError("its embeddings are not numbered from 0 on")
        lines = [pack_vector(_numbers(placed[place])) for place in range(len(rows))]
        if len({len(line) for line in lines}) > 1:
            raise ValueError("its vectors differ in length")
        return Reply(text="\n".join(lines), usage=_usage(document.get("usage")), model=document.get("model"))
    except (KeyError, TypeError, AttributeError):
        raise ValueError("the document is not a list of embeddings") from None


def _numbers(value: object) -> list[float]:
    if isinstance(value, str):  # how some servers write it, whatever is asked for
        numbers = array("f")
        try:
            numbers.frombytes(base64.b64decode(value, validate=True))
        except (binascii.Error, ValueError):
            raise ValueError("an embedding is no vector") from None
        return numbers.tolist()
    if not isinstance(value, list) or not all(type(number) in (int, float) for number in value):
        raise ValueError("an embedding is no list of numbers")
    return value


def _usage(counted: object) -> Usage | None:
    tokens = counted.get("prompt_tokens") if isinstance(counted, Mapping) else None
    return Usage(tokens, 0) if type(tokens) is int and tokens > 0 else None
