"""What came of a conversation with a simulated user, as the user saw it."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from .base import Evaluator, Evidence, Options, Score, skipped_score, verdict_score


class UserGoalOptions(Options):
    """What UserGoal takes."""

    most_turns: int | None = Field(None, ge=1, description="Passes only within so many turns; any number if absent.")


class UserGoal(Evaluator):
    """Passes when the simulated user of an item said that the goal is reached, within `most_turns`.

    It asks nobody: whoever plays the user has said so. Skipped for an item without a simulated user.
    """

    name = "UserGoal"
    family = "tools"
    needs = ("response",)
    Options = UserGoalOptions
    example: ClassVar = {
        "options": {"most_turns": 4},
        "response": "Your refund of 20 euros is on its way.",
        "turns": 3,
        "user": {"goal": "reached", "message": "Thank you!"},
    }

    def score(self, evidence: Evidence) -> Score:
        """Look at how the user ended it."""
        user, turns, most = evidence.user, evidence.turns or 0, self.options.most_turns
        if user is None:
            return skipped_score("the item has no simulated user")
        after = f"{turns} turn{'s' if turns != 1 else ''}"
        if user["goal"] != "reached":
            why = "gave up" if user["goal"] == "given_up" else "has not reached the goal"
            return verdict_score(False, f"the user {why} after {after}", turns=turns)
        if most is not None and turns > most:
            return verdict_score(False, f"reached after {after}, at most {most} allowed", turns=turns)
        return verdict_score(True, f"reached after {after}", turns=turns)
