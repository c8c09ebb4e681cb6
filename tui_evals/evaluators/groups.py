"""AtLeast: several evaluators as one, which passes when enough of them do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import Field, ValidationError, model_validator

from tui_evals.text.measures import Measure
from tui_evals.text.nearest import did_you_mean

from .base import CannotJudge, Evaluator, Evidence, JudgedOptions, Score, evaluate, measured_score, skipped_score

_MOST = 50
_CLOSE = 1e-9  # a share that was computed is as large as the one that was written down


def _members(evaluators: Mapping[str, Any]) -> Iterator[tuple[str, type[Evaluator], dict[str, Any]]]:
    """Each evaluator of a group by its key, and its options; ValueError says which cannot stand in one."""
    from .registry import built_in  # imported when it is wanted: the registry knows this module

    for key, given in evaluators.items():
        name = given.get("type", key)
        kind = built_in().get(name) if isinstance(name, str) else None
        if kind is None:
            hint = did_you_mean(str(name), built_in())
            raise ValueError(f"{name!r} is no evaluator that can stand in a group{hint}; those of a project cannot")
        if kind is AtLeast or kind.embeds:
            what = "is another group" if kind is AtLeast else "compares embeddings"
            raise ValueError(f"{key!r} cannot stand in a group: it {what}")
        if given.get("judge"):
            raise ValueError(f"{key!r} names a judge of its own; a group has one judge, its option judge")
        yield key, kind, {option: value for option, value in given.items() if option != "type"}


class AtLeastOptions(JudgedOptions):
    """Options of AtLeast."""

    evaluators: dict[str, dict[str, Any]] = Field(
        min_length=1, max_length=_MOST, description="The evaluators with their options, as a dataset has them."
    )
    threshold: float = Field(
        1.0, ge=0, le=1, description="The share of them, by weight, that must pass; all unless it is given."
    )

    @model_validator(mode="after")
    def _each_can_judge(self) -> AtLeastOptions:
        for key, kind, options in _members(self.evaluators):
            try:
                one = kind(kind.Options.model_validate(options))
            except ValidationError as problem:
                first = problem.errors(include_url=False)[0]
                where = ".".join((key, *map(str, first["loc"])))
                raise ValueError(f"{where}: {first['msg'].removeprefix('Value error, ')}") from None
            if one.scope == "group":
                raise ValueError(f"{key!r} cannot stand in a group: it judges several answers together")
        return self


class AtLeast(Evaluator):
    """Passes when enough of its evaluators pass: by their weights, at least the share that `threshold` says.

    The score is that share. Each evaluator stands under its name, or under a label with its `type`, and has the options
    it has elsewhere; those that ask a judge are asked of this one's `judge`, or else of the run's. One that is skipped
    does not count, and where one cannot judge this cannot either. A threshold of 0 passes whatever they find.
    """

    name = "AtLeast"
    family = "text"
    may_ask = True
    measure = Measure("at least")
    Options = AtLeastOptions
    example: ClassVar = {
        "options": {
            "threshold": 0.5,
            "evaluators": {
                "ContainsAny": {"values": ["sorry", "apologise"]},
                "Brief": {"type": "Length", "unit": "words", "at_most": 5},
            },
        },
        "response": "We are sorry that it took so long, and send you another one.",
    }

    @classmethod
    def is_judged(cls, settings: Mapping[str, Any]) -> bool:
        """Whether one of its evaluators asks a judge."""
        return any(kind.judged for _, kind, _ in _members(settings["evaluators"]))

    async def score(self, evidence: Evidence) -> Score:
        """The share of those that pass."""
        weights: dict[str, float] = {}
        verdicts: dict[str, Score] = {}
        for key, kind, given in _members(self.options.evaluators):
            if kind.judged and not self.has_judge:
                return skipped_score(f"{key} of the group asks a judge, and there is none")
            one = kind(kind.Options.model_validate(given), self._ask if kind.judged or kind.may_ask else None)
            found = await evaluate(one, evidence)
            if found.result == "error":
                raise CannotJudge(str(found.details.get("code", "evaluatorError")), f"{key}: {found.reason}")
            if found.result in ("pass", "fail"):
                verdicts[key], weights[key] = found, one.options.weight
        if not (whole := sum(weights.values())):
            return skipped_score("none of its evaluators gave a verdict that counts")
        passed = [key for key, found in verdicts.items() if found.result == "pass"]
        share = sum(weights[key] for key in passed) / whole
        failed = "; ".join(f"{key}: {found.reason}" for key, found in verdicts.items() if found.result == "fail")
        reason = f"{len(passed)} of {len(verdicts)} passed" + (f" ({failed})" if failed else "")
        threshold = self.options.threshold
        near = threshold if abs(share - threshold) < _CLOSE else share
        results = {key: found.result for key, found in verdicts.items()}
        return measured_score(near, threshold, reason, evaluators=results)
