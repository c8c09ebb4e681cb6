"""Why a run, battle or generation cannot be planned."""

from __future__ import annotations

from typing import Literal

Blame = Literal["arguments", "configuration"]


class CannotPlan(Exception):
    """The run cannot start. The message says what is missing and how to fix it; `blame` says what has to change."""

    def __init__(self, message: str, blame: Blame = "configuration") -> None:
        super().__init__(message)
        self.blame: Blame = blame


class MissingJudge(CannotPlan):
    """An evaluator is judged by a model, and no judge is named."""

    def __init__(self, evaluator: str, *, plays: bool = False) -> None:
        super().__init__(
            f"{evaluator} is played by a model and no judge is named. Name one with --judge TARGET or in "
            '.evals/config.toml ([judge] target = ...), or say who plays it: "target" in the user of the item'
            if plays
            else f"{evaluator} is judged by a model and no judge is named. Name one with --judge TARGET or in "
            ".evals/config.toml ([judge] target = ...), pass --without-judges to leave such evaluators out, "
            "or choose evaluators that need none (default_evaluators in the dataset)"
        )
        self.evaluator = evaluator
        self.plays = plays
        """Whether it is a simulated user, who cannot be left out."""


class MissingEmbedder(CannotPlan):
    """An evaluator compares vectors, and no target for them is configured."""

    def __init__(self, evaluator: str) -> None:
        super().__init__(
            f"{evaluator} compares embeddings and no target is named that gives them. Give .evals/config.toml one with "
            'kind = "embedding", such as [targets.vectors] model = "openai/text-embedding-3-small", and name it there: '
            '[judge] embedding = "vectors". Or pass --without-judges to leave such evaluators out'
        )
        self.evaluator = evaluator
