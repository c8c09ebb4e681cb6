"""The assertions of a test of promptfoo as evaluators, with their weights, labels, sets and transforms."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from tui_evals.datasets.paths import DatasetError
from tui_evals.evaluators.conditions import LEFT_OUT
from tui_evals.imports.base import Losses
from tui_evals.imports.promptfoo.prompts import model_of
from tui_evals.imports.promptfoo.values import JAVASCRIPT, CodeFiles, NotCarried, Seen, inner_name
from tui_evals.light_records import dataclass
from tui_evals.text import strictjson
from tui_evals.text.names import did_you_mean
from tui_evals.text.templates import TemplateError

from .files import Spot
from .readers import READERS, Assertion, NoEqual, Read
from .values import filled

_CODE_FILE = re.compile(r"\.(?:py|rb|[cm]?[jt]s)(?::\w+)?\Z")
_NOT_IN_ENGINE = re.compile(r"\b(?:require|process|fetch|Buffer|setTimeout|setInterval|import)\b(?=\s*[.(])")
_SCRIPT = (".js", ".cjs", ".mjs")
_CODE = ("javascript", "python", "ruby", "webhook")
_NO_EQUAL: Mapping[str, str] = {
    "agent-rubric": "an agent of promptfoo judges it",
    "classifier": "it asks a model of Hugging Face",
    "context-faithfulness": "Faithfulness is near",
    "context-recall": "ContextRecall is near",
    "context-relevance": "ContextRelevance is near",
    "guardrails": "it asks the guardrails of a provider; Safety asks a judge",
    "human": "a person judges it",
    "max-score": "it compares the answers of several providers",
    "meteor": "it needs the synonyms of WordNet; RougeN, Gleu and BertScore are near",
    "moderation": "it asks a moderation service; Safety asks a judge",
    "perplexity": "it needs the probabilities of tokens, which answers here do not have",
    "perplexity-score": "it needs the probabilities of tokens, which answers here do not have",
    "pi": "it asks the service of Pi Labs",
    "search-rubric": "it asks a judge that searches the web",
    "select-best": "it compares the answers of several providers; a battle does so here",
    "similar:dot": "EmbeddingSimilarity is near",
    "similar:euclidean": "EmbeddingSimilarity is near",
}
"""Kinds without an equal, with the reason or a similar evaluator."""
HEEDED_LATE = frozenset(("levenshtein", "latency", "cost", "finish-reason"))
"""Kinds before which promptfoo did not heed `not-` until `HEEDS_ALL`."""
HEEDS_ALL = (0, 121)
_GROUP = "AtLeast"
_IN_NO_GROUP = frozenset(("EmbeddingSimilarity", _GROUP))
_FIELDS = frozenset(("type", "value", "threshold", "weight", "metric", "provider", "transform"))


Version = tuple[int, ...]
"""The numbers of a version of promptfoo."""


def version_of(text: str) -> Version | None:
    """The version that a text such as `0.119.2` or `^0.119` names; None where it names none."""
    found = re.search(r"\d+(?:\.\d+)+", text)
    return None if found is None else tuple(map(int, found[0].split(".")))


@dataclass(frozen=True, slots=True)
class Judged:
    """An evaluator and its options; `label` is the metric it was named by, `weight` still promptfoo's."""

    name: str
    options: Mapping[str, Any]
    label: str | None
    weight: float | None
    spot: Spot


@dataclass(frozen=True, slots=True)
class _CodeFile:
    """A file of code as an assertion names it, with the function that is called."""

    path: str
    function: str


@dataclass(frozen=True, slots=True)
class Asserts:
    """Reads assertions of one test: with its variables, its files, and the judge it names."""

    values: Mapping[str, Any]
    read: Callable[[Spot, str], Any]
    judge: str | None
    seen: Seen
    losses: Losses
    folder: Path
    code: CodeFiles = field(default_factory=CodeFiles)
    """The custom evaluators that assertions which are code become."""
    version: Version | None = None
    """The version of promptfoo that the configuration was written for, if known."""
    shares: bool = False
    """Whether the test passes by a share of its assertions, where a set of them counts as one."""

    def all(self, spots: list[Spot]) -> Iterator[Judged]:
        """The evaluators of a list of assertions."""
        for spot in spots:
            spot.mapping()
            kind = spot.get("type")
            if kind is None:
                raise spot.wrong("type is missing; it says what is asserted")
            if kind.text() == "assert-set":
                yield from self._set(spot)
            else:
                told = Losses()
                judged = replace(self, losses=told)._one(spot, kind.text())
                self.losses.judges((spot.source.name, spot.path), told)
                yield judged

    def _set(self, spot: Spot) -> Iterator[Judged]:
        inner = spot.get("assert")
        if inner is None:
            raise spot.wrong("assert is missing; it holds the assertions of the set")
        if not (self.shares or any(spot.get(name) for name in ("threshold", "weight", "metric"))):
            self.losses.changed("assert-set", spot.where, "its assertions are separate, and each of them must pass")
            yield from self.all(inner.entries())
            return
        entries, told = inner.entries(), Losses()
        judged = list(replace(self, losses=told).all(entries))
        try:
            group = self._grouped(spot, judged, told)
        except NoEqual as why:
            self.losses.extend(told)
            self.losses.left_out("assert-set", spot.where, str(why))
            gone = Losses()
            gone.left_out("assert-set", spot.where, str(why))
            for one in entries:
                self.losses.judges((one.source.name, one.path), gone)
            yield _left_out(spot, "assert-set", str(why))
            return
        self.losses.extend(told)
        self.losses.assertions |= told.assertions
        yield group

    def _grouped(self, spot: Spot, judged: list[Judged], told: Losses) -> Judged:
        """One evaluator for those of a set; NoEqual if one of them cannot be in a set."""
        if any(one.name == LEFT_OUT for one in judged):
            raise NoEqual("one of its assertions has no equal, so its share cannot be counted")
        judges = {str(one.options["judge"]) for one in judged if one.options.get("judge")}
        if len(judges) > 1:
            raise NoEqual("its assertions ask several judges")
        if own := [one.name for one in judged if one.name in self.code or one.name in _IN_NO_GROUP]:
            raise NoEqual(f"{own[0]} cannot be in a group of evaluators")
        if any(one.name == "Rubric" for one in judged):
            told.changed("assert-set", spot.where, "its share is of those that pass, no mean of scores")
        judged = [one for one in judged if one.weight != 0] or judged  # weight 0 neither fails a set nor adds to it
        heaviest = max([1.0, *(one.weight or 0.0 for one in judged)])
        without = [{key: part for key, part in one.options.items() if key != "judge"} for one in judged]
        plain = [replace(one, options=options) for one, options in zip(judged, without, strict=True)]
        options: dict[str, Any] = {"evaluators": keyed(plain, (), heaviest, told)}
        threshold = spot.get("threshold")
        if threshold is not None and threshold.number():
            if threshold.number() > 1:
                raise NoEqual("its threshold is above 1")
            options["threshold"] = threshold.number()
        if judges:
            options["judge"] = judges.pop()
        metric, weight = spot.get("metric"), spot.get("weight")
        label = None if metric is None else metric.text()
        return Judged(_GROUP, options, label, None if weight is None else weight.number(), spot)

    def _one(self, spot: Spot, written: str) -> Judged:
        negate, kind = written.startswith("not-"), written.removeprefix("not-")
        turned = negate and (kind not in HEEDED_LATE or self.version is None or self.version >= HEEDS_ALL)
        try:
            name, options = self._read_one(spot, kind, negate=negate, turned=turned)
        except (NoEqual, NotCarried, TemplateError, DatasetError) as fault:  # the last ends only its test there
            why = str(fault)
            if isinstance(fault, TemplateError):
                why = f"its template {fault.problem}"
            elif isinstance(fault, DatasetError):
                why = "; ".join(problem.message for problem in fault.problems)
            self.losses.left_out(written, spot.where, why)
            return _left_out(spot, written, why)
        metric, weight = spot.get("metric"), spot.get("weight")
        fields = _FIELDS | {"config"} if kind == "javascript" else _FIELDS
        if gone := sorted(spot.value.keys() - fields):
            self.losses.left_out(f"{', '.join(gone)} of {written}", spot.where, "there is no equal")
        if negate and not turned:
            self.losses.carried(written, spot.where, "not- is not heeded, as in the version it was written for")
        elif negate and kind in HEEDED_LATE and self.version is None:
            self.losses.changed(
                written,
                spot.where,
                "depends on the version: promptfoo heeds not- here from 0.121 on, and so does the import; for a file "
                "of an older one give --written-by VERSION",
            )
        label = None if metric is None else metric.text()
        if weight is not None and weight.number() == 0:
            name, options = self._never_failing(spot, name, options)
        return Judged(name, options, label, None if weight is None else weight.number(), spot)

    def _read_one(self, spot: Spot, kind: str, *, negate: bool, turned: bool) -> Read:
        """The evaluator for the answer after the transforms of test and assertion."""
        seen = self._seen(spot)
        if kind == "javascript":
            name, options = self._javascript(spot, seen)
        elif kind == "python":
            name, options = self._python(spot, seen, turned)
        else:
            name, options = self._equal(spot, kind, negate)
        if turned:
            options = {**options, "negate": not options.get("negate", False)}
        if kind in _CODE:
            return name, options
        for transform in seen.transforms:
            self.code.note_code(transform)
        return seen.judged_by(name, options)

    def _never_failing(self, spot: Spot, name: str, options: dict[str, Any]) -> Read:
        """The evaluator of an assertion with weight 0, which has a score and cannot fail its test."""
        if name in self.code or name in _IN_NO_GROUP:
            self.losses.changed("weight: 0", spot.where, "it counts for nothing in the score, yet can fail its item")
            return name, options
        judge = {"judge": options["judge"]} if "judge" in options else {}
        inner = {key: part for key, part in options.items() if key != "judge"}
        return _GROUP, {"evaluators": {name: inner}, "threshold": 0, **judge}

    def _equal(self, spot: Spot, kind: str, negate: bool) -> tuple[str, dict[str, Any]]:
        if kind in _CODE:
            raise NoEqual("it is code of another language or a service; write a custom evaluator")
        read = READERS.get(kind)
        if read is not None:
            value = self._value(spot)
            return read(Assertion(spot, kind, negate, value, self.judge_of(spot), self.losses))
        if kind in _NO_EQUAL:
            raise NoEqual(f"no evaluator means the same; {_NO_EQUAL[kind]}")
        meant = did_you_mean(kind, (*READERS, *_NO_EQUAL))
        raise NoEqual(f"no assertion of this name is known{meant}; promptfoo ends its test with an error")

    def _javascript(self, spot: Spot, seen: Seen) -> Read:
        """The evaluator that runs the unchanged code."""
        if seen.gone:
            raise NotCarried(f"it judges what a transform makes of the answer, {seen.gone}")
        source, file = self._source(spot)
        options: dict[str, Any] = dict(seen.options)
        threshold, config = spot.get("threshold"), spot.get("config")
        if threshold is not None:
            options["threshold"] = float(threshold.number(least=-math.inf))
        if config is not None:
            options["config"] = dict(config.mapping())
        if missing := _NOT_IN_ENGINE.search(source):
            self.losses.changed("javascript", spot.where, f"it uses {missing[0]}, which the engine does not have")
        if file is None:
            self.code.note_code(source)
            return JAVASCRIPT, {"code": source, **options}
        if not file.path.endswith(_SCRIPT):
            raise NoEqual("it is code of another language than JavaScript")
        name = self.code.javascript(source, self._called(spot, "javascript"))
        self.losses.carried("javascript", spot.where, f"as custom-evaluators/{name}")
        return name, {**options, **({"function": file.function} if file.function else {})}

    def _python(self, spot: Spot, seen: Seen, turned: bool) -> Read:
        """The custom evaluator that runs the unchanged code."""
        source, file = self._source(spot)
        function = None if file is None else file.function or "get_assert"
        if seen != Seen():
            raise NoEqual("it judges what a transform makes of the answer")
        threshold = spot.get("threshold")
        name = self.code.python(
            source,
            self._called(spot, "python"),
            function,
            None if threshold is None else threshold.number(),
            turned=turned,
        )
        self.losses.carried("python", spot.where, f"as custom-evaluators/{name}")
        return name, {}

    def _source(self, spot: Spot) -> tuple[str, _CodeFile | None]:
        """The code of an assertion, and the file in which it is."""
        value = spot.get("value")
        if value is None or not isinstance(value.value, str) or not value.value.strip():
            raise NoEqual("it holds no code")
        if value.value.startswith("package:"):
            raise NoEqual("it is code of a package")
        if not value.value.startswith("file://"):
            return str(filled(value.value, self.values)), None
        path, _, function = value.value.removeprefix("file://").partition(":")
        text = self.read(value, path)
        return text if isinstance(text, str) else "", _CodeFile(path, function)

    def _called(self, spot: Spot, kind: str) -> str:
        """The name of an evaluator made from code: its metric, its file, or its kind."""
        metric, value = spot.get("metric"), str(spot.value.get("value"))
        if metric is not None:
            return metric.text()
        file = value.removeprefix("file://").partition(":")[0].rpartition("/")[2]
        return file.partition(".")[0] if value.startswith("file://") else kind

    def _seen(self, spot: Spot) -> Seen:
        transform = spot.get("transform")
        return self.seen if transform is None else self.seen.through(transform, self.folder)

    def _value(self, spot: Spot) -> Any:
        value = spot.get("value")
        if value is None:
            return None
        texts = value.value if isinstance(value.value, list) else [value.value]
        if any(isinstance(text, str) and text.startswith(("file://", "package:")) for text in texts):
            if isinstance(value.value, list) or value.value.startswith("package:"):
                raise NoEqual("it names files, one of several or of a package")
            if _CODE_FILE.search(value.value):
                raise NoEqual("code makes its value")
            return self.read(value, value.value)
        return filled(value.value, self.values)

    def judge_of(self, spot: Spot) -> str | None:
        """The judge of an assertion: its own, or that of the test."""
        provider = spot.get("provider")
        if provider is None:
            return self.judge
        named = _grader(provider.value)
        model = None if named is None else model_of(named)
        if model is None:
            told = "a provider" if named is None else f"the provider {named!r}"
            self.losses.left_out(f"{told} of an assertion", provider.where, "name a judge for the run")
        return model


def _left_out(spot: Spot, written: str, why: str) -> Judged:
    """The placeholder of an assertion without an equal."""
    metric = spot.get("metric")
    label = written if metric is None else metric.text()
    assertion = strictjson.loads(json.dumps(spot.value, default=str))
    return Judged(LEFT_OUT, {"assertion": assertion, "why": why}, label, None, spot)


def _grader(provider: Any) -> str | None:
    """The provider that grades texts: named alone, with its settings, or with one for embeddings."""
    while isinstance(provider, dict):
        provider = provider.get("id") or provider.get("text")
    return provider if isinstance(provider, str) else None


def unweighted(judged: Judged, heaviest: float) -> dict[str, Any]:
    """The options with the weight as a share of the heaviest one."""
    if judged.name == LEFT_OUT or (judged.weight is None and heaviest <= 1):
        return dict(judged.options)
    weight = (1.0 if judged.weight is None else judged.weight) / max(heaviest, 1)
    return {**judged.options, "weight": weight} if weight != 1 else dict(judged.options)


KINDS = frozenset((*READERS, *_NO_EQUAL, *_CODE))
"""The kinds of assertion that promptfoo knows."""

_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9_]+")


def keyed(judged: list[Judged], taken: Collection[str], heaviest: float, losses: Losses) -> dict[str, Any]:
    """The evaluators by name, or by the metric or number that tells two of a kind apart."""
    by_key: dict[str, Any] = {}
    for one in judged:
        wanted = inner_name(one.name, one.options) if one.label is None else label_of(one.label)
        key, number = wanted, 1
        while key in by_key or key in taken:
            number += 1
            key = f"{wanted}_{number}"
        if one.label not in (None, key) and one.name != LEFT_OUT:
            losses.changed(f"the metric {one.label!r}", one.spot.where, f"its label is {key}")
        options = unweighted(one, heaviest)
        by_key[key] = options if key == one.name else {"type": one.name, **options}
    return by_key


def label_of(metric: str) -> str:
    """The name of a metric as a label that evaluators can have."""
    label = _NOT_IN_LABELS.sub("_", metric).strip("_")
    return label if label[:1].isalpha() else f"metric_{label}".rstrip("_")
