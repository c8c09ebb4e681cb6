"""A dataset given on the command line instead of in a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .model import CURRENT_VERSION
from .problems import DatasetError, Problem


def inline_document(prompts: Sequence[str], expected: Sequence[str] = ()) -> dict[str, Any]:
    """The eval document of prompts and, where given, one expected response for each."""
    if expected and len(expected) != len(prompts):
        message = f"there are {len(prompts)} prompts but {len(expected)} expected responses; give one for each"
        raise DatasetError("--expected", [Problem(message)])
    references: Sequence[str | None] = expected or [None] * len(prompts)
    items = [
        {"prompt": prompt} if reference is None else {"prompt": prompt, "expected_response": reference}
        for prompt, reference in zip(prompts, references, strict=True)
    ]
    return {"schemaVersion": CURRENT_VERSION, "items": items}
