"""Assertions of promptfoo as evaluators: those with an equal, and why the others have none."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tui_evals.datasets.losses import Losses
from tui_evals.text.box import TemplateError
from tui_evals.text.nearest import did_you_mean

from .equals import READERS, Given, NoEqual
from .files import Spot
from .providers import model_of
from .templates import filled

_CODE = ("javascript", "python", "ruby", "webhook")
_NO_EQUAL = frozenset(
    (
        "agent-rubric",
        "answer-relevance",
        "bleu",
        "classifier",
        "contains-html",
        "contains-json",
        "contains-sql",
        "contains-xml",
        "context-faithfulness",
        "context-recall",
        "context-relevance",
        "conversation-relevance",
        "finish-reason",
        "g-eval",
        "gleu",
        "guardrails",
        "human",
        "is-html",
        "is-refusal",
        "is-sql",
        "is-valid-function-call",
        "is-valid-openai-function-call",
        "is-valid-openai-tools-call",
        "is-xml",
        "levenshtein",
        "max-score",
        "meteor",
        "moderation",
        "perplexity",
        "perplexity-score",
        "pi",
        "rouge-n",
        "search-rubric",
        "select-best",
        "similar",
        "similar:cosine",
        "similar:dot",
        "similar:euclidean",
        "skill-used",
        "tool-call-f1",
        "trace-error-spans",
        "trace-span-count",
        "trace-span-duration",
        "trajectory:goal-success",
        "trajectory:step-count",
        "trajectory:tool-sequence",
        "word-count",
    )
)
_FIELDS = frozenset(("type", "value", "threshold", "weight", "metric", "provider", "transform"))


@dataclass(frozen=True, slots=True)
class Judged:
    """An evaluator and its options; `label` is the metric it was named by, `weight` still promptfoo's."""

    name: str
    options: Mapping[str, Any]
    label: str | None
    weight: float | None
    spot: Spot


@dataclass(frozen=True, slots=True)
class Asserts:
    """Reads assertions of one test: with its variables, its files, and the judge it names."""

    values: Mapping[str, Any]
    read: Callable[[Spot, str], Any]
    judge: str | None
    losses: Losses

    def all(self, spots: list[Spot]) -> Iterator[Judged]:
        """The evaluators of a list of assertions."""
        for spot in spots:
            spot.mapping()
            kind = spot.get("type")
            if kind is None:
                raise spot.wrong("type is missing; it says what is asserted")
            if kind.text() == "assert-set":
                yield from self._set(spot)
            elif judged := self._one(spot, kind.text()):
                yield judged

    def _set(self, spot: Spot) -> Iterator[Judged]:
        inner = spot.get("assert")
        if inner is None:
            raise spot.wrong("assert is missing; it holds the assertions of the set")
        if spot.get("threshold") or spot.get("weight"):
            self.losses.left_out("assert-set", spot.where, "a threshold or weight of a set has no equal")
            return
        self.losses.changed("assert-set", spot.where, "its assertions stand alone, and each of them must pass")
        yield from self.all(inner.entries())

    def _one(self, spot: Spot, written: str) -> Judged | None:
        negate, kind = written.startswith("not-"), written.removeprefix("not-")
        try:
            name, options = self._equal(spot, kind, negate)
        except NoEqual as why:
            self.losses.left_out(written, spot.where, str(why))
            return None
        except TemplateError as why:
            self.losses.left_out(written, spot.where, f"its template {why.problem}")
            return None
        metric, weight = spot.get("metric"), spot.get("weight")
        if gone := sorted(spot.value.keys() - _FIELDS):
            self.losses.left_out(f"{', '.join(gone)} of {written}", spot.where, "there is no equal")
        if negate:
            options["negate"] = True
        label = None if metric is None else metric.text()
        return Judged(name, options, label, None if weight is None else weight.number(), spot)

    def _equal(self, spot: Spot, kind: str, negate: bool) -> tuple[str, dict[str, Any]]:
        if spot.get("transform"):
            raise NoEqual("it judges what a transform makes of the answer, which is code")
        if kind in _CODE:
            raise NoEqual("it is code; write a custom evaluator")
        read = READERS.get(kind)
        if read is not None:
            value = self._value(spot)
            return read(Given(spot, kind, negate, value, self.judge_of(spot), self.losses))
        if kind in _NO_EQUAL:
            raise NoEqual("no evaluator means the same")
        raise NoEqual(f"no assertion of this name is known{did_you_mean(kind, (*READERS, *_NO_EQUAL))}")

    def _value(self, spot: Spot) -> Any:
        value = spot.get("value")
        if value is None:
            return None
        texts = value.value if isinstance(value.value, list) else [value.value]
        if any(isinstance(text, str) and text.startswith(("file://", "package:")) for text in texts):
            if isinstance(value.value, list) or value.value.startswith("package:"):
                raise NoEqual("it names files, one of several or of a package")
            return self.read(value, value.value)
        return filled(value.value, self.values)

    def judge_of(self, spot: Spot) -> str | None:
        """The judge of an assertion: its own, or that of the test."""
        provider = spot.get("provider")
        if provider is None:
            return self.judge
        named = provider.value.get("id") if isinstance(provider.value, dict) else provider.value
        model = model_of(named) if isinstance(named, str) else None
        if model is None:
            self.losses.left_out(f"the provider {named!r} of an assertion", provider.where, "name a judge for the run")
        return model


def unweighted(judged: Judged, heaviest: float) -> dict[str, Any]:
    """The options with the weight as a share of the heaviest one."""
    if judged.weight is None and heaviest <= 1:
        return dict(judged.options)
    weight = (1.0 if judged.weight is None else judged.weight) / max(heaviest, 1)
    return {**judged.options, "weight": weight} if weight != 1 else dict(judged.options)


KINDS = frozenset((*READERS, *_NO_EQUAL, *_CODE))
"""The kinds of assertion that promptfoo knows."""

_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9_]+")


def keyed(judged: list[Judged], taken: Collection[str], heaviest: float, losses: Losses) -> dict[str, Any]:
    """The evaluators by name, or by the metric or number that tells two of a kind apart."""
    found: dict[str, Any] = {}
    for one in judged:
        wanted = one.name if one.label is None else _label(one.label)
        key, number = wanted, 1
        while key in found or key in taken:
            number += 1
            key = f"{wanted}_{number}"
        if one.label not in (None, key):
            losses.changed(f"the metric {one.label!r}", one.spot.where, f"its label is {key}")
        options = unweighted(one, heaviest)
        found[key] = options if key == one.name else {"type": one.name, **options}
        if one.weight == 0:
            losses.changed("weight: 0", one.spot.where, "it counts for nothing in the score, yet can fail its item")
    return found


def _label(metric: str) -> str:
    label = _NOT_IN_LABELS.sub("_", metric).strip("_")
    return label if label[:1].isalpha() else f"metric_{label}".rstrip("_")
