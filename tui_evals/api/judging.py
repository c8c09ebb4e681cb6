"""A function of the user's as an evaluator: it is given what its parameters name, and returns a verdict."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, ClassVar

from tui_evals.evaluators.base import Evaluator, Evidence, Score, measured, verdict

_EVIDENCE = tuple(field.name for field in fields(Evidence))
_SYNONYMS: Mapping[str, str] = {"output": "response", "answer": "response", "reference": "expected", "input": "prompt"}


def evaluator_of(name: str, function: Callable[..., Any]) -> type[Evaluator]:
    """The evaluator a function is.

    Its parameters are words of evidence (response or output or answer, expected, prompt, context, variables, …). True
    and False are verdicts, a number is a score from 0 to 1 that passes from 0.5, a Score says all there is to say.
    """
    wanted = {one: _SYNONYMS.get(one, one) for one in inspect.signature(function).parameters}
    if unknown := [one for one, field in wanted.items() if field not in _EVIDENCE]:
        known = ", ".join([*_EVIDENCE, *_SYNONYMS])
        raise TypeError(f"the evaluator {name} asks for {unknown[0]}, which is no evidence; there are {known}")
    about = inspect.getdoc(function) or f"Passes when {name} says so."
    return type(
        name, (_Function,), {"name": name, "function": staticmethod(function), "wanted": wanted, "__doc__": about}
    )


class _Function(Evaluator):
    family = "custom"
    function: ClassVar[Callable[..., Any]]
    wanted: ClassVar[Mapping[str, str]]

    async def score(self, evidence: Evidence) -> Score:
        """What the function says of the evidence."""
        given = {one: getattr(evidence, field) for one, field in self.wanted.items()}
        said = type(self).function(**given)
        if inspect.isawaitable(said):
            said = await said
        if isinstance(said, Score):
            return said
        if isinstance(said, bool):
            return verdict(said, f"{self.name} says {'yes' if said else 'no'}")
        if isinstance(said, int | float):
            return measured(float(said), 0.5, f"{self.name} gives {said:g}")
        raise TypeError(f"{self.name} returned {type(said).__name__}, not True, False, a number or a Score")
