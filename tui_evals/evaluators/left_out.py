"""The place of what another tool asserts and nothing here judges, so that a verdict without it is known for one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from .base import Evaluator, Evidence, Options, Score, skipped_score


class LeftOutOptions(Options):
    """What was left out."""

    tool: str = Field("promptfoo", min_length=1, description="The tool whose assertion it is.")
    assertion: Mapping[str, Any] = Field(description="The assertion, as that tool writes it.")
    why: str = Field("", description="Why no evaluator here replaces it.")


class LeftOut(Evaluator):
    """Measures nothing: it holds the place of an assertion of another tool that no evaluator here stands for.

    It is always skipped, and every answer it would judge is incomplete: `--fail-on-incomplete` refuses such a run, the
    filter `incomplete` finds the answers, and `validate` counts the items. Remove it, or put an evaluator in its place.
    """

    name = "LeftOut"
    family = "conditions"
    needs = ()
    Options = LeftOutOptions
    options: LeftOutOptions
    example: ClassVar = {"response": "4", "options": {"assertion": {"type": "pi", "value": "Is it right?"}}}

    def score(self, evidence: Evidence) -> Score:
        """Skip, and say what was left out."""
        kind, why = self.options.assertion.get("type", "an assertion"), self.options.why
        return skipped_score(f"{kind} of {self.options.tool} was left out{f': {why}' if why else ''}")


LEFT_OUT = LeftOut.name
