"""Our evaluators as assertions of promptfoo: those with an equal, and why the others have none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tui_evals.datasets.prompts import github_text
from tui_evals.datasets.resolve import EffectiveEvaluator, effective_evaluators
from tui_evals.evaluators.conditions import LEFT_OUT
from tui_evals.imports.base import Losses
from tui_evals.imports.promptfoo.prompts import Prompt, written_model
from tui_evals.light_records import dataclass
from tui_evals.text import strictjson

from .asserts import HEEDED_LATE
from .cases import KEPT, KEPT_FIELDS
from .readers import DRAFT_7, FACT_SCORES, SAME_PATTERN
from .values import literal, lone_name

_PYTHON_ONLY = re.compile(r"\(\?(?:[aimsuLx]|P|#)|\\[AZz]|[*+?}]\+")
_SPELLINGS = {
    "targetValue": "value",
    "target_value": "value",
    "targetValues": "values",
    "target_values": "values",
    "targetThreshold": "threshold",
    "target_threshold": "threshold",
    "jsonPath": "json_path",
    "ignoreCase": "ignore_case",
    "toolName": "tool_name",
    "argKeyName": "arg_key_name",
    "json_schema": "schema",
    "jsonSchema": "schema",
}
_NAMES = {
    "EXACT_MATCH": "Equals",
    "CONTAINS_ALL": "ContainsAll",
    "CONTAINS_ANY": "ContainsAny",
    "STARTS_WITH": "StartsWith",
    "JsonValidator": "JsonValid",
    "TOOL_CALLED": "ToolCalled",
    "TOOL_CALLED_WITH": "ToolCalledWith",
    "LATENCY": "Latency",
    "COST": "Cost",
    "ModelBasedClassify": "ModelGraded",
}


class NoAssert(Exception):
    """No assertion means the same; the message says why."""


@dataclass(frozen=True, slots=True)
class _Task:
    """An evaluator's options with the references of its item."""

    options: dict[str, Any]
    references: Sequence[str]
    where: str
    losses: Losses

    def take(self, name: str, otherwise: Any = None) -> Any:
        """An option, which is then dealt with."""
        return self.options.pop(name, otherwise)

    def values(self, name: str) -> list[str]:
        """The texts to compare with: those given, or the references of the item."""
        given = self.take(name)
        if given is None and not self.references:
            raise NoAssert("there is nothing it compares with")
        return list(self.references) if given is None else given if isinstance(given, list) else [given]


def assert_of(one: EffectiveEvaluator, references: Sequence[str], where: str, losses: Losses) -> dict[str, Any]:
    """The assertion that means the same as an evaluator; NoAssert says that there is none."""
    name = _NAMES.get(one.evaluator, one.evaluator)
    options = {_SPELLINGS.get(key, key): value for key, value in one.settings.items()}
    negate, weight = options.pop("negate", False), options.pop("weight", None)
    judge, no_json = options.pop("judge", None), options.pop("no_json", None)
    if name == LEFT_OUT:
        if options.get("tool", "promptfoo") != "promptfoo":
            raise NoAssert(f"it holds the place of an assertion of {options['tool']}")
        losses.carried(one.key, where, "as the assertion whose place it holds")
        return dict(options["assertion"])
    if name == "AtLeast":
        return _set_of(one, options, negate, weight, judge, references, where, losses)
    write = _WRITERS.get(name)
    if write is None:
        raise NoAssert("no assertion means the same")
    task = _Task(options, references, where, losses)
    written = write(task)
    rest = {key: value for key, value in task.options.items() if value not in (None, False)}
    if rest:
        raise NoAssert(f"an assertion cannot say {', '.join(sorted(rest))}")
    if negate and written["type"] in HEEDED_LATE:
        losses.changed(one.key, where, f"promptfoo heeds not- before {written['type']} from 0.121 on")
    if weight == 0:
        losses.changed(one.key, where, "an assertion without weight cannot fail its test there")
    if negate:
        written["type"] = f"not-{written['type']}"
        if name == "JsonSchema" and no_json != "violation":
            losses.changed(one.key, where, "promptfoo passes an answer that is no JSON")
    if weight is not None:
        written["weight"] = weight
    if one.key != one.evaluator:
        written["metric"] = one.key
    if judge is not None and (model := written_model(judge)) is not None:
        written["provider"] = model
    elif judge is not None:
        losses.left_out(f"the judge {judge}", where, "promptfoo has no provider like it")
    return written


def _set_of(
    one: EffectiveEvaluator,
    options: Mapping[str, Any],
    negate: bool,
    weight: float | None,
    judge: str | None,
    references: Sequence[str],
    where: str,
    losses: Losses,
) -> dict[str, Any]:
    """A group of evaluators as a set of assertions; for a weight of 0 that never fails, its only assertion."""
    if negate:
        raise NoAssert("a set of assertions has no opposite")
    asked = {} if judge is None else {"judge": judge}
    within = [
        assert_of(EffectiveEvaluator(key, {**given, **asked}, one.origin), references, where, losses)
        for key, given in options["evaluators"].items()
    ]
    threshold, named = options.get("threshold", 1), {} if one.key == one.evaluator else {"metric": one.key}
    if threshold == 0:
        if weight != 0 or len(within) > 1:
            raise NoAssert("promptfoo takes a threshold of 0 for none")
        return {**within[0], "weight": 0, **named}
    shares = {} if threshold == 1 else {"threshold": threshold}
    weights = {} if weight is None else {"weight": weight}
    return {"type": "assert-set", **shares, **weights, **named, "assert": within}


def _equals(task: _Task) -> dict[str, Any]:
    values = task.values("value")
    if len(values) > 1:
        raise NoAssert("an assertion compares with one reference")
    if task.options.get("json_path") == "$":
        try:
            value = strictjson.loads(values[0])
        except strictjson.JsonError:
            raise NoAssert("an assertion has no JSON path") from None
        if isinstance(value, list | dict) and strictjson.dumps(value) == values[0]:
            task.take("json_path")
            return {"type": "equals", "value": value}
    return {"type": "equals", "value": literal(values[0])}


def _starts_with(task: _Task) -> dict[str, Any]:
    values = task.values("value")
    if len(values) > 1 or not values[0]:
        raise NoAssert("an assertion compares with one text that is not empty")
    return {"type": "starts-with", "value": literal(values[0])}


def _contains(several: str) -> Callable[[_Task], dict[str, Any]]:
    def write(task: _Task) -> dict[str, Any]:
        values = [literal(value) for value in task.values("values")]
        prefix = "i" if task.take("ignore_case") else ""
        if several == "contains-all" and len(values) == 1 and values[0]:
            return {"type": f"{prefix}contains", "value": values[0]}
        return {"type": prefix + several, "value": values}

    return write


def _regex(task: _Task) -> dict[str, Any]:
    pattern = task.take("pattern", "")
    if not pattern or _PYTHON_ONLY.search(pattern):
        raise NoAssert("the pattern is empty or uses what JavaScript's patterns do not have")
    if task.take("mode", "search") != "search":
        raise NoAssert("an assertion searches for the pattern; it cannot ask for the whole answer")
    if not SAME_PATTERN.fullmatch(pattern):
        task.losses.changed("Regex", task.where, "promptfoo reads the pattern as JavaScript does")
    return {"type": "regex", "value": literal(pattern)}


def _javascript(task: _Task) -> dict[str, Any]:
    code, transform = task.take("code"), task.take("transform", "")
    if task.take("parse") or not isinstance(transform, str):
        raise NoAssert("an assertion has one transform, and what it is given is the provider's affair")
    named = {"threshold": task.take("threshold"), "config": task.take("config"), "transform": transform or None}
    given = {name: value for name, value in named.items() if value is not None}
    return {"type": "javascript", "value": literal(code), **given}


def _schema(task: _Task) -> dict[str, Any]:
    schema = task.take("schema")
    if schema.get("$schema", DRAFT_7) != DRAFT_7:
        raise NoAssert("promptfoo reads draft 7 of JSON Schema only")
    return {"type": "is-json", "value": schema}


def _limit(kind: str) -> Callable[[_Task], dict[str, Any]]:
    def write(task: _Task) -> dict[str, Any]:
        threshold = task.take("threshold")
        if threshold is None:
            raise NoAssert("an assertion needs a threshold")
        task.losses.changed(kind, task.where, "exactly the threshold passes in promptfoo")
        return {"type": kind, "threshold": threshold}

    return write


def _finish_reason(task: _Task) -> dict[str, Any]:
    allowed = task.take("allowed", task.take("expected"))
    ways = [allowed] if isinstance(allowed, str) else list(allowed or ())
    if len(ways) != 1:
        raise NoAssert("an assertion names one way to end")
    return {"type": "finish-reason", "value": literal(ways[0])}


def _rubric(task: _Task) -> dict[str, Any]:
    written = {"type": "llm-rubric", "value": literal(task.take("criteria"))}
    threshold = task.take("threshold")
    if threshold is not None:
        written["threshold"] = round((threshold - 1) / 4, 6)
    task.losses.changed("Rubric", task.where, "a judge of promptfoo says pass or fail, and a score from 0 to 1")
    return written


def _graded(task: _Task) -> dict[str, Any]:
    spec, given = task.take("spec"), task.take("spec_args")
    args = given if isinstance(given, Mapping) else {}
    task.losses.changed("ModelGraded", task.where, "the judge is asked in other words")
    if spec == "closedqa" and args.keys() == {"criteria"}:
        return {"type": "model-graded-closedqa", "value": literal(args["criteria"])}
    scores, passing = task.take("choice_scores"), task.take("passing")
    if spec == "fact" and args.keys() == {"ideal"} and scores == FACT_SCORES and passing == ["A", "B", "C", "E"]:
        return {"type": "factuality", "value": literal(args["ideal"])}
    raise NoAssert("only the specs closedqa with criteria and fact with an ideal have an equal")


def _tool_called(task: _Task) -> dict[str, Any]:
    task.losses.changed("ToolCalled", task.where, "promptfoo reads it from a trace, which newer versions keep")
    return {"type": "trajectory:tool-used", "value": literal(task.take("tool_name"))}


def _markup(kind: str) -> Callable[[_Task], dict[str, Any]]:
    def write(task: _Task) -> dict[str, Any]:
        written = {"type": f"{'contains' if task.take('anywhere') else 'is'}-{kind}"}
        elements = task.take("elements")
        return {**written, "value": {"requiredElements": elements}} if elements else written

    return write


def _threshold(task: _Task) -> dict[str, Any]:
    threshold = task.take("threshold")
    return {} if threshold is None else {"threshold": threshold}


def _gleu(task: _Task) -> dict[str, Any]:
    return {"type": "gleu", "value": [literal(value) for value in task.values("values")], **_threshold(task)}


def _tools_f1(task: _Task) -> dict[str, Any]:
    return {"type": "tool-call-f1", "value": task.take("tools"), **_threshold(task)}


_WRITERS: Mapping[str, Callable[[_Task], dict[str, Any]]] = {
    "Equals": _equals,
    "StartsWith": _starts_with,
    "ContainsAll": _contains("contains-all"),
    "ContainsAny": _contains("contains-any"),
    "Regex": _regex,
    "JavaScript": _javascript,
    "JsonValid": lambda asked: {"type": "is-json"},
    "JsonSchema": _schema,
    "Xml": _markup("xml"),
    "Html": _markup("html"),
    "Gleu": _gleu,
    "RefusalWords": lambda asked: {"type": "is-refusal"},
    "ToolsF1": _tools_f1,
    "Latency": _limit("latency"),
    "Cost": _limit("cost"),
    "FinishReason": _finish_reason,
    "Rubric": _rubric,
    "ModelGraded": _graded,
    "ToolCalled": _tool_called,
}


_NO_TEXT = re.compile(r"\s*(?:\[|\{(?!\{)|- role:)|[A-Za-z]+:")
_LONGER = frozenset(("turns", "messages"))
_ITEM_FIELDS = frozenset(KEPT_FIELDS) | {"name", "prompt", "variables", "evaluators", "evaluators_mode", "threshold"}
_DATASET_FIELDS = frozenset(("schemaVersion", "description", "default_evaluators", "variables", "messages", "repeats"))


@dataclass(frozen=True, slots=True)
class _Chat:
    """A prompt under test: its label, and its messages."""

    label: str | None
    messages: Sequence[Mapping[str, Any]]

    @property
    def is_text(self) -> bool:
        """Whether it is one user message that promptfoo takes for text, and not for a file or a chat."""
        if len(self.messages) != 1 or self.messages[0].get("role") != "user":
            return False
        text = self.messages[0].get("content")
        return isinstance(text, str) and (lone_name(text) is not None or _is_plain(text))

    def written(self, as_text: bool) -> Any:
        """The prompt as promptfoo reads it: a chat is JSON over several lines, so it is not read as a file name."""
        text = self.messages[0]["content"] if as_text else json.dumps(self.messages, ensure_ascii=False, indent=2)
        return text if self.label is None else {"label": self.label, "raw": text}


def _is_plain(text: str) -> bool:
    """Whether nothing in a text makes promptfoo look for a file, or read a chat."""
    if _NO_TEXT.match(text) or not any(sign in text for sign in " \n"):
        return False
    return "\n" in text or not (any(sign in text for sign in "/\\*") or "." in text[-6:])


def write_config(
    data: Mapping[str, Any], prompts: Sequence[Prompt] = (), targets: Sequence[str] = ()
) -> tuple[str, Losses]:
    """The configuration as YAML; `prompts` take the place of the document's own messages, `targets` are models."""
    losses = Losses()
    name = _free_name(data)
    asks = any("prompt" in item for item in data["items"] if not _LONGER & item.keys())
    chats = _chats(data, prompts, name if asks else None)
    as_text = all(chat.is_text for chat in chats)
    fitting = [_fits(item, asks, chats, f"items[{at}]", losses) for at, item in enumerate(data["items"])]
    items = [(at, item) for at, item in enumerate(data["items"]) if fitting[at]]
    writer = _Writer(data, name, as_text, losses)
    written = [writer.case(item, f"items[{at}]") for at, item in items]
    config: dict[str, Any] = {}
    if data.get("description"):
        config["description"] = data["description"]
    config["prompts"] = [chat.written(as_text) for chat in chats]
    if providers := _providers(targets, losses):
        config["providers"] = providers
    if default := writer.default():
        config["defaultTest"] = default
    if data.get("repeats"):
        config["evaluateOptions"] = {"repeat": data["repeats"]}
    config["tests"] = written
    _leave_out(data, losses)
    losses.carried(f"{len(written)} of {len(data['items'])} items", "", "as tests")
    return github_text(config), losses


def _fits(item: Mapping[str, Any], asks: bool, chats: Sequence[_Chat], where: str, losses: Losses) -> bool:
    """Whether an item can be a test; why not is noted."""
    if "turns" in item:
        losses.left_out("a conversation", where, "a test of promptfoo is one exchange")
    elif "messages" in item:
        losses.left_out("an item with messages of its own", where, "a test of promptfoo has no history")
    elif not chats[0].messages or (asks and "prompt" not in item):
        losses.left_out("an item without a prompt", where, "all tests share the prompts, and the others have one")
    elif not all(chat.is_text for chat in chats) and any(map(_names_a_file, _values(item))):
        losses.left_out("an item", where, "promptfoo takes what begins with file:// or package: for a file")
    else:
        return True
    return False


def _values(item: Mapping[str, Any]) -> Iterator[Any]:
    yield item.get("prompt")
    yield from (item.get("variables") or {}).values()


def _names_a_file(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("file://", "package:"))


def _chats(data: Mapping[str, Any], prompts: Sequence[Prompt], variable: str | None) -> list[_Chat]:
    """The prompts under test, each with the question of an item at its end where items ask."""
    question = [{"role": "user", "content": f"{{{{{variable}}}}}"}] if variable else []
    if prompts:
        return [_Chat(prompt.name, [*prompt.messages, *question]) for prompt in prompts]
    return [_Chat(None, [*(data.get("messages") or []), *question])]


def _free_name(data: Mapping[str, Any]) -> str:
    used = {key for item in (data, *data["items"]) for key in item.get("variables") or {}}
    names = ("prompt", *(f"prompt_{number}" for number in range(len(used) + 1)))
    return next(name for name in names if name not in used)


def _providers(targets: Sequence[str], losses: Losses) -> list[str]:
    providers = []
    for target in targets:
        model = written_model(target)
        if model is None:
            losses.left_out(f"the target {target}", "", "promptfoo has no provider like it")
        else:
            providers.append(model)
    if not providers:
        losses.left_out("providers", "", "no model is named; add `providers` before you run it")
    return providers


def _leave_out(data: Mapping[str, Any], losses: Losses) -> None:
    for field in data:
        if field not in _DATASET_FIELDS and field != "items":
            losses.left_out(field, "", "a configuration of promptfoo has no place for it")


class _Writer:
    """Writes items as tests; the default evaluators are in the default test where every item takes them."""

    def __init__(self, data: Mapping[str, Any], name: str, renders: bool, losses: Losses) -> None:
        self.data = data
        self.name = name
        self.renders = renders
        self.losses = losses
        self.defaults = data.get("default_evaluators")
        items = [item for item in data["items"] if "turns" not in item]
        self.together = not any(self._overrides(item) for item in items)
        if self.defaults is None:
            losses.left_out("Relevance and Coherence", "", "the evaluators of a dataset that names none have no equal")
            self.defaults = {}

    def _overrides(self, item: Mapping[str, Any]) -> bool:
        own = item.get("evaluators") or {}
        return item.get("evaluators_mode") == "replace" or bool(own.keys() & (self.defaults or {}).keys())

    def default(self) -> dict[str, Any]:
        """The default test."""
        written: dict[str, Any] = {}
        if variables := self.data.get("variables"):
            written["vars"] = self._variables(variables, "variables")
            if any(_would_expand(value) for value in variables.values()):
                written["options"] = {"disableVarExpansion": True}
        if self.together and self.defaults:
            entries = effective_evaluators(self.defaults, None, None, "item")
            if asserts := self._asserts(entries, {}, "default_evaluators"):
                written["assert"] = asserts
        return written

    def case(self, item: Mapping[str, Any], where: str) -> dict[str, Any]:
        """One test."""
        given = dict(item.get("variables") or {})
        if "prompt" in item:
            given = {self.name: item["prompt"], **given}
        written: dict[str, Any] = {}
        if "name" in item:
            written["description"] = item["name"]
        if given:
            written["vars"] = self._variables(given, where)
        if any(_would_expand(value) for value in given.values()):
            written["options"] = {"disableVarExpansion": True}
        defaults = {} if self.together else self.defaults
        entries = effective_evaluators(defaults, item.get("evaluators"), item.get("evaluators_mode"), "item")
        if asserts := self._asserts(entries, item, where):
            written["assert"] = asserts
        if item.get("threshold") not in (None, 1):
            written["threshold"] = item["threshold"]
        if metadata := self._metadata(item, where):
            written["metadata"] = metadata
        return written if written.keys() - {"description"} else {**written, "vars": {}}

    def _asserts(
        self, entries: Sequence[EffectiveEvaluator], item: Mapping[str, Any], where: str
    ) -> list[dict[str, Any]]:
        references = [item["expected_response"]] if "expected_response" in item else []
        references += [one for one in item.get("ideal") or () if one not in references]
        written = []
        for one in entries:
            try:
                written.append(assert_of(one, references, where, self.losses))
            except NoAssert as why:
                self.losses.left_out(one.key, f"{where}.evaluators" if item else where, str(why))
        return written

    def _variables(self, given: Mapping[str, Any], where: str) -> dict[str, Any]:
        written = {}
        for name, value in given.items():
            if _names_a_file(value) and not self.renders:
                self.losses.left_out(f"the variable {name}", where, "promptfoo takes it for the name of a file")
                continue
            if value is None:
                self.losses.changed(f"the variable {name}", where, "null is empty text")
                value = ""
            if isinstance(value, str) and value.endswith("\n"):
                self.losses.changed(f"the variable {name}", where, "promptfoo takes the last line break away")
            written[name] = self._literal(value, name, where)
        return written

    def _literal(self, value: Any, name: str, where: str) -> Any:
        if not isinstance(value, str):
            return value
        if self.renders:
            return literal(value)
        if "{{" in value:
            self.losses.changed(f"the variable {name}", where, "promptfoo fills in what looks like a template")
        return value

    def _metadata(self, item: Mapping[str, Any], where: str) -> dict[str, Any]:
        extensions = dict(item.get("extensions") or {})
        foreign = extensions.pop("promptfoo", None)
        metadata = dict(foreign.get("metadata") or {}) if isinstance(foreign, dict) else {}
        kept = {field: item[field] for field in KEPT_FIELDS if field in item}
        if kept:
            self.losses.changed(", ".join(kept), where, f"kept in metadata.{KEPT}, which promptfoo does not use")
            metadata[KEPT] = kept
        for field in sorted(item.keys() - _ITEM_FIELDS - {"extensions"} | extensions.keys()):
            self.losses.left_out(field, where, "a test has no place for it")
        return metadata


def _would_expand(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], str)
