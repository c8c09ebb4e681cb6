"""What each assertion of promptfoo says, in the words of our evaluators."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tui_evals.imports.losses import Losses
from tui_evals.imports.promptfoo.prompts import model_of
from tui_evals.text import strictjson
from tui_evals.text.names import did_you_mean
from tui_evals.text.patterns import PatternError, compile_pattern
from tui_evals.text.templates import TemplateError
from tui_evals.text.yamls import YamlError, load_yaml

from .code import JAVASCRIPT, CodeFiles, NotCarried, Seen, inner_name
from .files import Spot, kind_of
from .values import filled, script_text

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
FACT_SCORES = {"A": 1.0, "B": 1.0, "C": 1.0, "D": 0.0, "E": 1.0}
_AT_COMMAS = re.compile(r'(".*?"|[^,]+)(?=\s*,|\s*\Z)')
_CODE_FILE = re.compile(r"\.(?:py|rb|[cm]?[jt]s)(?::\w+)?\Z")
_QUOTES = re.compile(r'^"|"\Z')
SAME_PATTERN = re.compile(
    r"(?:[^\\$()\[\]{}]|\\[.*+?^$(){}|\[\]/-]|\((?!\?)|\(\?:|\)"
    r"|\{\d+(?:,\d*)?\}|\[\^?(?:[^\\\[\]&~|-]|[0-9A-Za-z]-[0-9A-Za-z])+\])*"
)
"""Patterns that mean the same here and in JavaScript; the engine judges by every other one."""
_NOT_IN_ENGINE = re.compile(r"\b(?:require|process|fetch|Buffer|setTimeout|setInterval|import)\b(?=\s*[.(])")
_SCRIPT = (".js", ".cjs", ".mjs")
_OLDER_WORDS = frozenset(("additionalItems", "dependencies"))


class NoEqual(Exception):
    """There is no evaluator that means the same; the message says why."""


@dataclass(frozen=True, slots=True)
class Given:
    """What an assertion says, its value rendered."""

    spot: Spot
    kind: str
    negate: bool
    value: Any
    judge: str | None
    losses: Losses

    def changed(self, why: str) -> None:
        """Note that the evaluator does not mean quite the same."""
        self.losses.changed(f"not-{self.kind}" if self.negate else self.kind, self.spot.where, why)

    def scalar(self) -> str:
        """The value as one text."""
        if self.value is None or self.value == "" or isinstance(self.value, list | dict):
            raise self.spot.wrong(f"value of {self.kind} must be text or a number, not {kind_of(self.value)}")
        return script_text(self.value)

    def several(self) -> list[str]:
        """The value as a list of texts; one text is split at its commas, and contains-any alone heeds quotes."""
        value = self.value
        if isinstance(value, str) and value and self.kind == "contains-any":
            value = [_QUOTES.sub("", part[1].strip()) for part in _AT_COMMAS.finditer(value)]
        elif isinstance(value, str) and value:
            value = [part.strip() for part in value.split(",")]
        if not isinstance(value, list) or any(isinstance(part, list | dict) for part in value):
            raise self.spot.wrong(f"value of {self.kind} must be a list of texts, not {kind_of(self.value)}")
        return [script_text(part) for part in value]

    def threshold(self) -> float | None:
        """The threshold, where there is one."""
        given = self.spot.get("threshold")
        return None if given is None else given.number()

    def judged(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options with the judge, where one is named."""
        return {**options, "judge": self.judge} if self.judge else options


_Read = tuple[str, dict[str, Any]]


def _folding(given: Given, options: dict[str, Any]) -> dict[str, Any]:
    if not given.kind.startswith("icontains"):
        return options
    if not strictjson.dumps(options).isascii():
        given.changed("case is ignored as Unicode folds it, so ß equals ss")
    return {**options, "ignore_case": True}


def _equals(given: Given) -> _Read:
    if isinstance(given.value, list | dict):
        if given.negate:
            given.changed("an answer that is no JSON fails there and passes here")
        return "Equals", {"value": strictjson.dumps(given.value), "json_path": "$"}
    return "Equals", {"value": "" if given.value == "" else given.scalar()}


def _contains(given: Given) -> _Read:
    return "ContainsAll", _folding(given, {"values": [given.scalar()]})


def _contains_all(given: Given) -> _Read:
    return "ContainsAll", _folding(given, {"values": given.several()})


def _contains_any(given: Given) -> _Read:
    return "ContainsAny", _folding(given, {"values": given.several()})


def _starts_with(given: Given) -> _Read:
    return "StartsWith", {"value": given.scalar()}


def _regex(given: Given) -> _Read:
    pattern = given.scalar()
    if not SAME_PATTERN.fullmatch(pattern):
        return JAVASCRIPT, {"code": f"new RegExp({strictjson.dumps(pattern)}).test(output)"}
    try:
        compile_pattern(pattern)
    except PatternError as problem:
        raise NoEqual(str(problem)) from None
    return "Regex", {"pattern": pattern}


def _is_json(given: Given) -> _Read:
    schema = given.value
    if schema is None or schema == "":
        return "JsonValid", {}
    if isinstance(schema, str):
        try:
            schema = load_yaml(schema)
        except YamlError as problem:
            raise given.spot.wrong(f"value of {given.kind} is no JSON Schema: {problem}") from None
    if not isinstance(schema, dict):
        raise given.spot.wrong(f"value of {given.kind} must be a JSON Schema, not {kind_of(schema)}")
    words = set(_words(schema))
    if "$schema" not in schema and (_OLDER_WORDS & words or _has_tuple(schema)):
        schema = {"$schema": DRAFT_7, **schema}
    if "format" in words:
        given.changed("format is not checked here")
    if given.negate:
        given.changed("there it fails for all JSON, also for what the schema forbids")
    return "JsonSchema", {"schema": schema}


def _words(value: Any) -> Iterator[str]:
    for key, part in value.items() if isinstance(value, dict) else ():
        yield key
        yield from _words(part)
    for part in value if isinstance(value, list) else ():
        yield from _words(part)


def _has_tuple(value: Any) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (isinstance(value, dict) and isinstance(value.get("items"), list)) or any(map(_has_tuple, parts))


def _limit(given: Given) -> _Read:
    threshold = given.threshold()
    if threshold is not None:
        given.changed("exactly the threshold fails here")
    return given.kind.capitalize(), {} if threshold is None else {"threshold": threshold}


def _finish_reason(given: Given) -> _Read:
    if not isinstance(given.value, str) or not given.value.strip():
        raise NoEqual("its value is not how an answer ends")
    given.changed("an answer whose ending nobody tells is skipped here")
    return "FinishReason", {"allowed": [given.value.strip()]}


def _rubric(given: Given) -> _Read:
    if not isinstance(given.value, str) or not given.value.strip():
        raise NoEqual("its rubric is not plain text")
    threshold = given.threshold()
    options: dict[str, Any] = {"criteria": given.value}
    if threshold is not None:
        options["threshold"] = round(1 + 4 * min(threshold, 1), 6)
    given.changed("the judge rates from 1 to 5 here, and 3 passes unless there is a threshold")
    return "Rubric", given.judged(options)


def _factuality(given: Given) -> _Read:
    given.changed("the judge is asked in other words")
    options = {"spec": "fact", "spec_args": {"ideal": given.scalar()}, "choice_scores": dict(FACT_SCORES)}
    return "ModelGraded", given.judged({**options, "passing": [key for key, score in FACT_SCORES.items() if score]})


def _closed_qa(given: Given) -> _Read:
    given.changed("the judge is asked in other words")
    return "ModelGraded", given.judged({"spec": "closedqa", "spec_args": {"criteria": given.scalar()}})


def _tool_used(given: Given) -> _Read:
    if not isinstance(given.value, str) or not given.value:
        raise NoEqual("only the name of one tool has an equal")
    given.changed("tools are read from the answer here, not from a trace")
    return "ToolCalled", {"tool_name": given.value}


def _tool_arguments(given: Given) -> _Read:
    value = given.value if isinstance(given.value, dict) else {}
    name, arguments = value.get("name", value.get("tool")), value.get("args", value.get("arguments"))
    if not isinstance(name, str) or not isinstance(arguments, dict) or value.get("mode", "partial") != "partial":
        raise NoEqual("only the name of a tool with some of its arguments has an equal")
    given.changed("tools are read from the answer here, not from a trace")
    return "ToolCalledWith", {"tool_name": name, "arguments": arguments}


def _contains_json(given: Given) -> _Read:
    name, options = _is_json(replace(given, negate=False))
    if given.negate and name == "JsonSchema":
        given.changed("there it passes where JSON conforms to the schema")
    given.changed("there only objects count, also within lists and with small mistakes such as a comma too many")
    return "ContainsJson", options if name == "JsonSchema" else {}


def _edits(given: Given) -> _Read:
    threshold = given.threshold()
    given.changed("a sign beyond the first 65,536 is one edit here, and two there")
    return "Levenshtein", {"value": given.scalar(), "most_edits": 5 if threshold is None else int(threshold)}


def _overlap(given: Given) -> _Read:
    threshold = given.threshold()
    given.changed("words are counted as ROUGE-1 does here, by F1")
    return "RougeN", {"value": given.scalar(), "threshold": 0.75 if threshold is None else threshold}


def _similar(given: Given) -> _Read:
    threshold = given.threshold()
    if isinstance(given.value, list):
        raise NoEqual("it names several texts, of which one has to be near; the evaluator here takes one")
    given.changed("the embeddings are those of [judge] embedding here")
    return "EmbeddingSimilarity", {"value": given.scalar(), "threshold": 0.75 if threshold is None else threshold}


def _word_count(given: Given) -> _Read:
    value = given.value
    bounds = (value.get("min"), value.get("max")) if isinstance(value, dict) else (value, value)
    if isinstance(value, str) and value.strip().isdigit():
        bounds = (int(value), int(value))
    if bounds == (None, None) or any(type(bound) not in (int, type(None)) for bound in bounds):
        raise given.spot.wrong("value of word-count must be a whole number, or hold min or max")
    named = {name: bound for name, bound in zip(("at_least", "at_most"), bounds, strict=True) if bound is not None}
    return "Length", {"unit": "words", **named}


READERS: Mapping[str, Callable[[Given], _Read]] = {
    "equals": _equals,
    "contains": _contains,
    "icontains": _contains,
    "contains-all": _contains_all,
    "icontains-all": _contains_all,
    "contains-any": _contains_any,
    "icontains-any": _contains_any,
    "starts-with": _starts_with,
    "regex": _regex,
    "is-json": _is_json,
    "contains-json": _contains_json,
    "levenshtein": _edits,
    "rouge-n": _overlap,
    "word-count": _word_count,
    "similar": _similar,
    "similar:cosine": _similar,
    "is-valid-openai-tools-call": lambda given: ("ValidToolCalls", {}),
    "latency": _limit,
    "cost": _limit,
    "finish-reason": _finish_reason,
    "llm-rubric": _rubric,
    "factuality": _factuality,
    "model-graded-factuality": _factuality,
    "model-graded-closedqa": _closed_qa,
    "trajectory:tool-used": _tool_used,
    "trajectory:tool-args-match": _tool_arguments,
}
"""How each kind of assertion that has an equal is read."""


_CODE = ("javascript", "python", "ruby", "webhook")
_NO_EQUAL = frozenset(
    (
        "agent-rubric",
        "answer-relevance",
        "bleu",
        "classifier",
        "contains-html",
        "contains-sql",
        "contains-xml",
        "context-faithfulness",
        "context-recall",
        "context-relevance",
        "conversation-relevance",
        "g-eval",
        "gleu",
        "guardrails",
        "human",
        "is-html",
        "is-refusal",
        "is-sql",
        "is-valid-function-call",
        "is-valid-openai-function-call",
        "is-xml",
        "max-score",
        "meteor",
        "moderation",
        "perplexity",
        "perplexity-score",
        "pi",
        "search-rubric",
        "select-best",
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
    )
)
_NEAR = {
    "answer-relevance": "Relevance",
    "bleu": "Bleu",
    "context-faithfulness": "Faithfulness",
    "context-recall": "ContextRecall",
    "context-relevance": "ContextRelevance",
    "g-eval": "Rubric",
    "guardrails": "Safety",
    "is-refusal": "Refusal",
    "is-valid-function-call": "ValidToolCalls",
    "moderation": "Safety",
    "trajectory:goal-success": "GoalReached",
    "trajectory:tool-sequence": "ToolOrder",
}
"""What judges much the same in another way, for whoever has to write it anew."""
NEVER_NEGATED = frozenset(("levenshtein", "latency", "cost", "finish-reason"))
"""Kinds before which promptfoo takes `not-` and does not heed it."""
_GROUP = "AtLeast"
_IN_NO_GROUP = frozenset(("EmbeddingSimilarity", _GROUP))
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
                if judged:
                    yield judged

    def _set(self, spot: Spot) -> Iterator[Judged]:
        inner = spot.get("assert")
        if inner is None:
            raise spot.wrong("assert is missing; it holds the assertions of the set")
        if not (self.shares or any(spot.get(name) for name in ("threshold", "weight", "metric"))):
            self.losses.changed("assert-set", spot.where, "its assertions stand alone, and each of them must pass")
            yield from self.all(inner.entries())
            return
        entries, told = inner.entries(), Losses()
        judged = list(replace(self, losses=told).all(entries))
        try:
            group = self._grouped(spot, entries, judged, told)
        except NoEqual as why:
            self.losses.extend(told)
            self.losses.left_out("assert-set", spot.where, str(why))
            gone = Losses()
            gone.left_out("assert-set", spot.where, str(why))
            for one in entries:
                self.losses.judges((one.source.name, one.path), gone)
            return
        self.losses.extend(told)
        self.losses.assertions |= told.assertions
        yield group

    def _grouped(self, spot: Spot, entries: Sequence[Spot], judged: list[Judged], told: Losses) -> Judged:
        """The evaluator that holds those of a set; NoEqual where one of them cannot stand in it."""
        if len(judged) < len(entries):
            raise NoEqual("one of its assertions has no equal, so that its share cannot be told")
        judges = {str(one.options["judge"]) for one in judged if one.options.get("judge")}
        if len(judges) > 1:
            raise NoEqual("its assertions ask several judges")
        if own := [one.name for one in judged if one.name in self.code or one.name in _IN_NO_GROUP]:
            raise NoEqual(f"{own[0]} cannot stand in a group of evaluators")
        if any(one.name == "Rubric" for one in judged):
            told.changed("assert-set", spot.where, "its share is of those that pass, no mean of scores")
        judged = [one for one in judged if one.weight != 0] or judged  # those can neither fail a set nor add to it
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

    def _one(self, spot: Spot, written: str) -> Judged | None:
        negate, kind = written.startswith("not-"), written.removeprefix("not-")
        turned = negate and kind not in NEVER_NEGATED
        try:
            name, options = self._read_one(spot, kind, negate=negate, turned=turned)
        except (NoEqual, NotCarried) as why:
            self.losses.left_out(written, spot.where, str(why))
            return None
        except TemplateError as why:
            self.losses.left_out(written, spot.where, f"its template {why.problem}")
            return None
        metric, weight = spot.get("metric"), spot.get("weight")
        fields = _FIELDS | {"config"} if kind == "javascript" else _FIELDS
        if gone := sorted(spot.value.keys() - fields):
            self.losses.left_out(f"{', '.join(gone)} of {written}", spot.where, "there is no equal")
        if negate and not turned:
            self.losses.carried(written, spot.where, "not- is not heeded, as it is not there")
        label = None if metric is None else metric.text()
        if weight is not None and weight.number() == 0:
            name, options = self._never_failing(spot, name, options)
        return Judged(name, options, label, None if weight is None else weight.number(), spot)

    def _read_one(self, spot: Spot, kind: str, *, negate: bool, turned: bool) -> _Read:
        """The evaluator of what the transforms of test and assertion make of the answer."""
        seen = self._seen(spot)
        if kind == "javascript":
            name, options = self._javascript(spot, seen)
        elif kind == "python":
            name, options = self._python(spot, seen)
        else:
            name, options = self._equal(spot, kind, negate)
        if turned:
            options = {**options, "negate": not options.get("negate", False)}
        if kind in _CODE:
            return name, options
        for transform in seen.transforms:
            self.code.note_code(transform)
        return seen.judged_by(name, options)

    def _never_failing(self, spot: Spot, name: str, options: dict[str, Any]) -> _Read:
        """What judges as an assertion without weight, which tells its score and cannot fail its test."""
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
            return read(Given(spot, kind, negate, value, self.judge_of(spot), self.losses))
        if kind in _NO_EQUAL:
            near = f"; {_NEAR[kind]} is near" if kind in _NEAR else ""
            raise NoEqual(f"no evaluator means the same{near}")
        raise NoEqual(f"no assertion of this name is known{did_you_mean(kind, (*READERS, *_NO_EQUAL))}")

    def _javascript(self, spot: Spot, seen: Seen) -> _Read:
        """The evaluator that runs the code as it stands."""
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

    def _python(self, spot: Spot, seen: Seen) -> _Read:
        """The custom evaluator that runs the code as it stands."""
        source, file = self._source(spot)
        function = None if file is None else file.function or "get_assert"
        if seen != Seen():
            raise NoEqual("it judges what a transform makes of the answer")
        threshold = spot.get("threshold")
        name = self.code.python(
            source, self._called(spot, "python"), function, None if threshold is None else threshold.number()
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
        """What the evaluator made of code is called: as its metric, its file, or its kind."""
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


def _grader(provider: Any) -> str | None:
    """The provider that grades texts: named alone, with its settings, or beside one for embeddings."""
    while isinstance(provider, dict):
        provider = provider.get("id") or provider.get("text")
    return provider if isinstance(provider, str) else None


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
    by_key: dict[str, Any] = {}
    for one in judged:
        wanted = inner_name(one.name, one.options) if one.label is None else label_of(one.label)
        key, number = wanted, 1
        while key in by_key or key in taken:
            number += 1
            key = f"{wanted}_{number}"
        if one.label not in (None, key):
            losses.changed(f"the metric {one.label!r}", one.spot.where, f"its label is {key}")
        options = unweighted(one, heaviest)
        by_key[key] = options if key == one.name else {"type": one.name, **options}
    return by_key


def label_of(metric: str) -> str:
    """The name of a metric as a label that evaluators can have."""
    label = _NOT_IN_LABELS.sub("_", metric).strip("_")
    return label if label[:1].isalpha() else f"metric_{label}".rstrip("_")
