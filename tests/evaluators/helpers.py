"""How the tests judge: real evaluators, real options, a judge that replies what the test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tui_evals.evaluators.base import Evaluator, Evidence, Question, Score, evaluate

GOLDEN = Path(__file__).parent.parent / "golden"


class Judge:
    """Replies in order (the last one for ever) and remembers what it was asked."""

    def __init__(self, *replies: str) -> None:
        self.replies = replies
        self.questions: list[Question] = []

    async def __call__(self, question: Question) -> str:
        self.questions.append(question)
        return self.replies[min(len(self.questions), len(self.replies)) - 1]

    @property
    def prompt(self) -> str:
        """Everything the judge was shown by the last question."""
        return "\n".join(message["content"] for message in self.questions[-1].messages)


def score(
    evaluator: type[Evaluator], options: Mapping[str, Any] | None = None, judge: Judge | None = None, **evidence: Any
) -> Score:
    """The record of an evaluator, its options validated as a dataset's would be."""
    checked = evaluator.Options.model_validate(dict(options or {}))
    return asyncio.run(evaluate(evaluator(checked, judge), Evidence(**evidence)))


def golden(file: str, *functions: str) -> Sequence[dict[str, Any]]:
    """The rows of a golden file that concern some functions."""
    rows = json.loads((GOLDEN / file).read_text(encoding="utf-8"))["rows"]
    matching = [row for row in rows if row["function"] in functions]
    assert matching, f"no golden rows for {functions}"
    return matching
