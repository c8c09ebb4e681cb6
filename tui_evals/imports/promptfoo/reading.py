"""promptfoo's configuration read as an eval document with its prompts and targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tui_evals.datasets.problems import DatasetError
from tui_evals.datasets.validate import parse_dataset
from tui_evals.datasets.versions import CURRENT_VERSION
from tui_evals.imports.losses import Losses
from tui_evals.present.figures import counted
from tui_evals.text.templates import template_variables

from .cases import Tests
from .files import Source, Spot, json_source, yaml_source
from .filling import filled_items
from .prompts import Prompt, Provider, read_prompts, read_providers, transforms_of
from .transforms import Seen
from .values import ENV, lone_name, named_in_tags, named_of_environment, script_text

NAMES = ("promptfooconfig.yaml", "promptfooconfig.yml", "promptfooconfig.json")
_READ = frozenset(("description", "prompts", "providers", "targets", "tests", "defaultTest", "scenarios"))
_QUIET = frozenset(("$schema", "assertionTemplates", "evaluateOptions"))
_WHY = {
    "env": "set variables before a run, or in a file for --env; what prompts name of it stands under variables.env",
    **dict.fromkeys(("extensions", "nunjucksFilters"), "it is code"),
    "commandLineOptions": "say them on the command line of `run`",
    "derivedMetrics": "no figure is computed of others here",
    "outputPath": "`run -o FILE` writes results, `report` and `export` those of a run that is over",
    "tags": "`run --tag` gives them to a run",
}

_OF_RUNS = {
    "delay": "requests_per_minute of a target sets its pace",
    "maxConcurrency": "say it with --concurrency",
    "cache": "--no-cache asks anew",
}

Chat = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a configuration says: the eval document, its prompts, and the targets it asks.

    A single prompt stands in the document itself. Where there are several the document has none, and each is to be
    run with it as a prompt file.
    """

    data: dict[str, Any]
    prompts: tuple[Prompt, ...]
    targets: tuple[Provider, ...]
    code: Mapping[str, str] = field(default_factory=dict)
    """The custom evaluators it brings, as the text of their files by name."""


def recognises(path: Path) -> bool:
    """Whether a file is named as promptfoo's configurations are, or a folder holds one."""
    return path.name in NAMES or any((path / name).is_file() for name in NAMES)


def read_config(text: str, source: str, folder: Path) -> tuple[Configuration, Losses]:
    """Read a configuration; files it names are read only inside `folder`. DatasetError says what is malformed."""
    read = json_source if source.endswith(".json") else yaml_source
    return read_source(read(text, source), folder)


def read_source(source: Source, folder: Path) -> tuple[Configuration, Losses]:
    """Read the value of a configuration."""
    root = Spot(source, (), source.value)
    if not root.mapping():
        raise root.wrong("the configuration is empty; it needs prompts, providers and tests")
    if not _READ & root.value.keys():
        raise root.wrong("the file has none of prompts, providers and tests, so it is no configuration of promptfoo")
    losses = Losses()
    prompts = read_prompts(root.get("prompts"), folder, losses)
    providers = root.get("providers") or root.get("targets")
    targets = read_providers(providers, folder, losses)
    seen = _seen(transforms_of(providers, folder), losses)
    tests = Tests(root, folder, any(prompt.plain for prompt in prompts), losses, seen)
    if tests.around:
        prompts = tuple(_with_around(prompt, tests, losses) for prompt in prompts)
    data = {**_document(root, tests, prompts, losses), **_asked_for_by_all(targets)}
    _leave_out(root, losses)
    dataset, problems = parse_dataset(data)
    if dataset is None and data["items"]:
        raise DatasetError(source.name, problems)
    losses.carried(counted(len(tests.cases), "test"), "", f"as {counted(len(data['items']), 'item')}")
    losses.carried(counted(len(prompts), "prompt"))
    asked = [unit for item in data["items"] for unit in (item, *item.get("turns", ()))]
    units = [data.get("default_evaluators"), *(unit.get("evaluators") for unit in asked)]
    if evaluators := sum(len(unit or ()) for unit in units):
        losses.carried(counted(evaluators, "evaluator"))
    return Configuration(data, prompts, targets, tests.code.texts), losses


def _with_around(prompt: Prompt, tests: Tests, losses: Losses) -> Prompt:
    """A prompt between the prefix and the suffix of its tests."""
    if not prompt.plain or prompt.template:
        losses.left_out("options.prefix and options.suffix", prompt.where, f"{prompt.name} is a chat")
        return prompt
    before, after = tests.written_around
    (message,) = prompt.messages
    return replace(prompt, messages=({**message, "content": f"{before}{message['content']}{after}"},))


def _seen(transforms: frozenset[str | None], losses: Losses) -> Seen:
    """What assertions see: what each provider makes of its answers, as long as they all do the same."""
    if transforms <= {None}:
        return Seen()
    seen = Seen().through(next(iter(transforms))) if len(transforms) == 1 else Seen(code=True)
    what = "transform of the providers"
    if seen.code:
        losses.left_out(what, why="it is code, or not the same for all; what judges its outcome is left out too")
    else:
        losses.carried(what, why=f"as {seen}")
    return seen


def _asked_for_by_all(targets: Sequence[Provider]) -> dict[str, Any]:
    """Tools and the form of the answer, where every target is given the same."""
    if not targets:
        return {}
    first, *others = targets
    given = {"tools": first.tools, "response_format": first.response_format}
    same = {name: value for name, value in given.items() if all(getattr(one, name) == value for one in others)}
    return {name: value for name, value in same.items() if value}


def _document(root: Spot, tests: Tests, prompts: Sequence[Prompt], losses: Losses) -> dict[str, Any]:
    data: dict[str, Any] = {"schemaVersion": CURRENT_VERSION}
    description = root.get("description")
    if description is not None:
        data["description"] = description.text()
    items = list(tests.items())
    if not items and not tests.elsewhere:
        raise root.wrong("the configuration holds no test that can be read; write down what code makes")
    data["default_evaluators"] = tests.evaluators or {}
    shared = dict(tests.shared)
    chats: list[Chat] = [prompt.messages for prompt in prompts]
    _write_booleans(prompts, [shared, *(item["variables"] for item in items if "variables" in item)], losses)
    if len(prompts) == 1 and prompts[0].template:
        items, chats = filled_items(prompts[0], items, shared, losses), []
    if len(chats) == 1:
        chats = [_asked_alone(chats[0], items, shared, keep=_reads_variables(tests))]
    _give_environment(chats, shared, tests, losses)
    _fill_gaps(chats, items, shared, losses)
    if shared:
        data["variables"] = shared
    if len(chats) == 1 and chats[0]:
        data["messages"] = [dict(message) for message in chats[0]]
    if repeats := _repeats(root, losses):
        data["repeats"] = repeats
    return {**data, "items": items}


def _write_booleans(prompts: Sequence[Prompt], given: Sequence[dict[str, Any]], losses: Losses) -> None:
    """Give true and false as the texts that promptfoo shows, where no condition of a prompt asks which it is."""
    texts = [str(message.get("content")) for prompt in prompts for message in prompt.messages]
    asked = frozenset(name for text in texts for name in named_in_tags(text))
    for values in given:
        for name, value in values.items():
            if isinstance(value, bool) and name not in asked:
                values[name] = "true" if value else "false"
            elif isinstance(value, bool):
                losses.changed(f"the variable {name}", "", "where a prompt shows it, it is True or False")


def _reads_variables(tests: Tests) -> bool:
    """Whether code that judges may look at the variables of a test."""
    return bool(tests.code.texts) or tests.code.reads_variables


def _asked_alone(chat: Chat, items: list[dict[str, Any]], shared: Mapping[str, Any], *, keep: bool) -> Chat:
    """The chat before a last message that is nothing but a variable, which becomes the prompt of each item."""
    last = chat[-1]
    name = lone_name(str(last.get("content"))) if last.get("role") == "user" else None
    if name is None or name in shared or any(name in _used(message) for message in chat[:-1]):
        return chat
    if not all(_can_be_asked(item.get("variables", {}).get(name)) for item in items):
        return chat
    for item in items:
        given = item.pop("variables")
        kept = given if keep else {key: value for key, value in given.items() if key != name}
        question = {"prompt": script_text(given[name]), **({"variables": kept} if kept else {})}
        named = {"name": item.pop("name")} if "name" in item else {}
        others = dict(item)
        item.clear()
        item |= {**named, **question, **others}
    return chat[:-1]


def _can_be_asked(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool) and value != ""


def _used(message: Mapping[str, Any]) -> tuple[str, ...]:
    content = message.get("content")
    return template_variables(content) if isinstance(content, str) else ()


def _give_environment(
    chats: Sequence[Sequence[Mapping[str, Any]]], shared: dict[str, Any], tests: Tests, losses: Losses
) -> None:
    """Give prompts the variables of the environment that they name, as far as the configuration says what they are."""
    texts = [str(message.get("content")) for chat in chats for message in chat]
    used = sorted(name for text in texts for name in named_of_environment(text))
    if not used or ENV in shared:
        return
    shared[ENV] = {name: tests.environment.get(name, "") for name in used}
    for name in used:
        if name not in tests.environment:
            why = "its value is not in the configuration, so it is empty: give it under variables.env of the dataset"
            losses.changed(f"the variable env.{name}", "", why)


def _fill_gaps(
    chats: Sequence[Sequence[Mapping[str, Any]]],
    items: Sequence[Mapping[str, Any]],
    shared: dict[str, Any],
    losses: Losses,
) -> None:
    """Give variables that some item lacks an empty value, as promptfoo does."""
    used = dict.fromkeys(name for chat in chats for message in chat for name in _used(message))
    for name in used:
        if name not in shared and any(name not in item.get("variables", {}) for item in items):
            shared[name] = ""
            losses.changed(f"the variable {name}", "", "some tests give it no value, so it is empty there")


def _repeats(root: Spot, losses: Losses) -> int | None:
    options = root.get("evaluateOptions")
    repeat = None
    for key, part in options.members() if options is not None else ():
        if key == "repeat":
            repeat = part
        else:
            losses.left_out(f"evaluateOptions.{key}", part.where, _OF_RUNS.get(key, "there is no equal"))
    if repeat is None:
        return None
    if not isinstance(repeat.value, int) or isinstance(repeat.value, bool) or repeat.value < 1:
        raise repeat.wrong("must be a whole number of at least 1")
    return repeat.value


def _leave_out(root: Spot, losses: Losses) -> None:
    for key, spot in root.members():
        if key in _READ | _QUIET or key.startswith("x-") or (key == "targets" and "providers" not in root.value):
            continue
        losses.left_out(key, spot.where, _WHY.get(key, "there is no equal"))
