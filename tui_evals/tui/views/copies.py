"""What of an answer can be copied, by name."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass

from .case import Case
from .diffs import compared, unified_text


@dataclass(frozen=True, slots=True)
class Part:
    """A text to copy, or why there is none."""

    text: str
    why_not: str = ""


def copies(case: Case) -> dict[str, Part]:
    """Every part of an answer; the diff of long texts is work for a thread."""
    text, reference = case.text, case.reference
    diff = "" if text is None or reference is None else unified_text(compared(reference, text))
    request = case.detail.answer.request if case.detail.answer else {}
    return {
        "answer": Part(text or "", "there is no answer" if text is None else "the answer is empty"),
        "prompt": Part(case.prompt, "the item has no prompt of its own"),
        "expected": Part(reference or "", "nothing is expected"),
        "diff": Part(diff, "there are no two texts to compare"),
        "request": Part(json.dumps(request, ensure_ascii=False, indent=2) if request else "", "nothing was sent yet"),
        "item name": Part(case.row.name),
        "run id": Part(case.run.key),
        "command": Part(f"tui-evals show {case.run.key} --item {shlex.quote(case.row.name)}"),
    }
