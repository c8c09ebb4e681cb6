"""An eval document written as promptfoo's configuration, as far as both can say the same."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tui_evals.datasets.github_prompt import github_text
from tui_evals.datasets.losses import Losses
from tui_evals.datasets.resolve import Effective, effective

from .cases import KEPT, KEPT_FIELDS
from .prompts import Prompt
from .providers import written_model
from .templates import literal, lone_name
from .unequals import NoAssert, assert_of

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
        """It as promptfoo takes it: a chat is JSON over several lines, which no file can be named like."""
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


def _chats(data: Mapping[str, Any], prompts: Sequence[Prompt], asked: str | None) -> list[_Chat]:
    """The prompts under test, each with the question of an item at its end where items ask."""
    question = [{"role": "user", "content": f"{{{{{asked}}}}}"}] if asked else []
    if prompts:
        return [_Chat(prompt.name, [*prompt.messages, *question]) for prompt in prompts]
    return [_Chat(None, [*(data.get("messages") or []), *question])]


def _free_name(data: Mapping[str, Any]) -> str:
    used = {key for item in (data, *data["items"]) for key in item.get("variables") or {}}
    names = ("prompt", *(f"prompt_{number}" for number in range(len(used) + 1)))
    return next(name for name in names if name not in used)


def _providers(targets: Sequence[str], losses: Losses) -> list[str]:
    found = []
    for target in targets:
        model = written_model(target)
        if model is None:
            losses.left_out(f"the target {target}", "", "promptfoo has no provider like it")
        else:
            found.append(model)
    if not found:
        losses.left_out("providers", "", "no model is named; add `providers` before you run it")
    return found


def _leave_out(data: Mapping[str, Any], losses: Losses) -> None:
    for field in data:
        if field not in _DATASET_FIELDS and field != "items":
            losses.left_out(field, "", "a configuration of promptfoo has no place for it")


class _Writer:
    """Writes items as tests; the default evaluators stand in the default test where every item takes them."""

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
            found = effective(self.defaults, None, None, "item")
            if asserts := self._asserts(found, {}, "default_evaluators"):
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
        found = effective(defaults, item.get("evaluators"), item.get("evaluators_mode"), "item")
        if asserts := self._asserts(found, item, where):
            written["assert"] = asserts
        if item.get("threshold") not in (None, 1):
            written["threshold"] = item["threshold"]
        if metadata := self._metadata(item, where):
            written["metadata"] = metadata
        return written if written.keys() - {"description"} else {**written, "vars": {}}

    def _asserts(self, found: Sequence[Effective], item: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
        references = [item["expected_response"]] if "expected_response" in item else []
        references += [one for one in item.get("ideal") or () if one not in references]
        written = []
        for one in found:
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
