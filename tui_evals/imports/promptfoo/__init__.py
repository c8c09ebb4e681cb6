"""promptfoo's configuration as a dataset: read, filled where its prompts are chats, and kept with its prompts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from tui_evals.datasets.discover import make_project, project_of
from tui_evals.datasets.paths import CURRENT_VERSION, DatasetError
from tui_evals.datasets.validate import parse_dataset
from tui_evals.evaluators.conditions import LEFT_OUT
from tui_evals.evaluators.custom import FOLDER, discover_custom_evaluators, main_file
from tui_evals.imports.base import CannotRead, Importer, ImportRequest, ImportResult, Losses, WrongOptions, shown
from tui_evals.imports.keeping import LARGEST, json_in, keep_dataset, run_command, text_of
from tui_evals.imports.promptfoo.asserts import Version, version_of
from tui_evals.imports.promptfoo.cases import Tests
from tui_evals.imports.promptfoo.files import Source, Spot, json_source, yaml_source
from tui_evals.imports.promptfoo.prompts import (
    Prompt,
    Provider,
    chat_in,
    prompty_text,
    read_prompts,
    read_providers,
    transforms_of,
)
from tui_evals.imports.promptfoo.values import (
    ENV,
    CodeFile,
    CodeFiles,
    NotCarried,
    Seen,
    literal,
    lone_name,
    named_in_tags,
    named_of_environment,
    script_text,
    transform_code,
)
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_bytes
from tui_evals.runs.experiments import experiment_text
from tui_evals.text.measures import counted
from tui_evals.text.templates import TemplateError, render_template, template_variables

SO_FAR = "_conversation"
"""The variable in which promptfoo gives a prompt the exchanges so far."""
_ON_TURNS = frozenset(("prompt", "evaluators", "evaluators_mode", "expected_response", "context", "response"))


def filled_items(
    prompt: Prompt, items: Sequence[Mapping[str, Any]], shared: Mapping[str, Any], losses: Losses
) -> list[dict[str, Any]]:
    """The items with the messages that the prompt makes for each; those of one conversation become its turns."""
    asked = [_asked(prompt, item, shared, losses) for item in items]
    if not is_conversation(prompt):
        return asked
    conversations = list(_conversations(asked))
    turns = f"what was asked one after the other is {counted(len(conversations), 'conversation')}"
    losses.changed(f"the prompt {prompt.name}", prompt.where, turns)
    return [_as_turns(group, losses) for group in conversations]


def is_conversation(prompt: Prompt) -> bool:
    """Whether a prompt gets the earlier questions and answers."""
    return bool(prompt.template) and SO_FAR in template_variables(prompt.template)


def conversation_of(metadata: Mapping[str, Any]) -> str:
    """The conversation of a test; tests without a name are in one."""
    return str(metadata.get("conversationId", ""))


def _asked(prompt: Prompt, item: Mapping[str, Any], shared: Mapping[str, Any], losses: Losses) -> dict[str, Any]:
    values = dict.fromkeys(template_variables(prompt.template), "") | dict(shared) | dict(item.get("variables", {}))
    named = {key: item[key] for key in ("name",) if key in item}
    others = {key: part for key, part in item.items() if key not in (*named, "variables")}
    try:
        text = render_template(prompt.template, {**values, SO_FAR: []})
    except TemplateError as problem:
        losses.changed(
            f"the prompt {prompt.name}", prompt.where, f"a test is asked it unfilled: its template {problem}"
        )
        return {**named, "prompt": literal(prompt.template), **others}
    chat = chat_in(text)
    if chat is None:
        losses.changed(f"the prompt {prompt.name}", prompt.where, "filled, it is no chat for some tests, but a text")
        chat = [{"role": "user", "content": text}]
    *before, last = [_unfillable(message) for message in chat]
    if last["role"] != "user" or not isinstance(last.get("content"), str) or not last["content"]:
        return {**named, "messages": [*before, last], **others}
    messages = {"messages": before} if before else {}
    return {**named, "prompt": last["content"], **messages, **others}


def _unfillable(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message whose text is not a template."""
    content = message.get("content")
    return {**message, "content": literal(content)} if isinstance(content, str) else dict(message)


def _conversations(items: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """The items by the conversation that their metadata names."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for item in items:
        metadata = item.get("extensions", {}).get("promptfoo", {}).get("metadata", {})
        groups.setdefault(conversation_of(metadata), []).append(item)
    yield from groups.values()


def _as_turns(group: Sequence[Mapping[str, Any]], losses: Losses) -> dict[str, Any]:
    first = group[0]
    turns = [{key: part for key, part in item.items() if key in _ON_TURNS} for item in group]
    for item in group:
        for key in sorted(item.keys() - _ON_TURNS - {"messages", "extensions", "name"}):
            losses.left_out(f"{key} of a test in a conversation", why="only a whole item has one")
    about = {key: first[key] for key in ("name", "messages", "extensions") if key in first}
    return {**about, "turns": turns}


NAMES = ("promptfooconfig.yaml", "promptfooconfig.yml", "promptfooconfig.json")
_READ = frozenset(("description", "prompts", "providers", "targets", "tests", "defaultTest", "scenarios"))
_QUIET = frozenset(("$schema", "assertionTemplates", "evaluateOptions"))
_WHY = {
    "env": "set variables before a run, or in a file for --env; what prompts use of it is in variables.env",
    **dict.fromkeys(("extensions", "nunjucksFilters"), "it is code"),
    "commandLineOptions": "say them on the command line of `run`",
    "derivedMetrics": "no figure is computed of others here",
    "outputPath": "`run -o FILE` writes results, `report` and `export` those of a run that is over",
    "tags": "`run --tag` gives them to a run",
}

_OF_RUNS = {
    "delay": "requests_per_minute of a target sets its pace",
    "maxConcurrency": "say it with --concurrency",
    "cache": "--no-cache asks again",
}

Chat = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Configuration:
    """The content of a configuration: the eval document, its prompts and its targets.

    A single prompt is in the document itself. With several, the document has none, and each is a prompt file to run
    with it.
    """

    data: dict[str, Any]
    prompts: tuple[Prompt, ...]
    targets: tuple[Provider, ...]
    code: Mapping[str, str] = field(default_factory=dict)
    """The files of the custom evaluators it brings, by their names below `custom-evaluators`."""


def recognises(path: Path) -> bool:
    """Whether a file is named as promptfoo's configurations are, or a folder holds one."""
    return path.name in NAMES or any((path / name).is_file() for name in NAMES)


def read_config(
    text: str,
    source: str,
    folder: Path,
    version: Version | None = None,
    taken: Mapping[str, CodeFile] | None = None,
) -> tuple[Configuration, Losses]:
    """Read a configuration; files it names are read only inside `folder`. Raises DatasetError.

    Its code becomes custom evaluators in addition to those in `taken`.
    """
    read = json_source if source.endswith(".json") else yaml_source
    return read_source(read(text, source), folder, version, taken)


def read_source(
    source: Source, folder: Path, version: Version | None = None, taken: Mapping[str, CodeFile] | None = None
) -> tuple[Configuration, Losses]:
    """Read the value of a configuration."""
    root = Spot(source, (), source.value)
    if not root.mapping():
        raise root.wrong("the configuration is empty; it needs prompts, providers and tests")
    if not _READ & root.value.keys():
        raise root.wrong("the file has none of prompts, providers and tests, so it is no configuration of promptfoo")
    losses = Losses()
    source.note_dates(losses)
    prompts = read_prompts(root.get("prompts"), folder, losses)
    providers = root.get("providers") or root.get("targets")
    targets = read_providers(providers, folder, losses)
    seen = _seen(transforms_of(providers, folder), folder, losses)
    tests = Tests(root, folder, any(prompt.plain for prompt in prompts), losses, version, seen, CodeFiles(taken or {}))
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
    judging = ((key, options) for unit in units for key, options in (unit or {}).items())
    if evaluators := sum(options.get("type", key) != LEFT_OUT for key, options in judging):
        losses.carried(counted(evaluators, "evaluator"))
    return Configuration(data, prompts, targets, tests.code.files), losses


def _with_around(prompt: Prompt, tests: Tests, losses: Losses) -> Prompt:
    """A prompt between the prefix and the suffix of its tests."""
    if not prompt.plain or prompt.template:
        losses.left_out("options.prefix and options.suffix", prompt.where, f"{prompt.name} is a chat")
        return prompt
    before, after = tests.written_around
    (message,) = prompt.messages
    return replace(prompt, messages=({**message, "content": f"{before}{message['content']}{after}"},))


def _seen(transforms: Sequence[Spot | None], folder: Path, losses: Losses) -> Seen:
    """The transform that assertions see: that of the providers, if all have the same."""
    named = [spot for spot in transforms if spot is not None]
    if not named:
        return Seen()
    what = "transform of the providers"
    try:
        if len({spot.value if spot is not None else None for spot in transforms}) > 1:
            raise NotCarried("which is not the same for all providers")
        code = transform_code(named[0], folder)
    except NotCarried as why:
        losses.left_out(what, named[0].where, f"it is code {why}. What judges its outcome is left out too")
        return Seen(gone=str(why))
    losses.carried(what, named[0].where, "it runs before what judges")
    return Seen((code,))


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
    given = [shared, *(item["variables"] for item in items if "variables" in item)]
    _write_booleans(prompts, given, losses, for_code=_reads_variables(tests))
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


def _write_booleans(
    prompts: Sequence[Prompt], given: Sequence[dict[str, Any]], losses: Losses, *, for_code: bool
) -> None:
    """Give true and false as the texts that promptfoo shows, where no condition or code asks which it is."""
    texts = [str(message.get("content")) for prompt in prompts for message in prompt.messages]
    asked = frozenset(name for text in texts for name in named_in_tags(text))
    shown = asked | {name for text in texts for name in template_variables(text)} if for_code else asked
    for values in given:
        for name, value in values.items():
            if not isinstance(value, bool):
                continue
            if name in shown and (name in asked or for_code):
                losses.changed(f"the variable {name}", "", "where a prompt shows it, it is True or False")
            elif not for_code:
                values[name] = "true" if value else "false"


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
    """Add the environment variables that prompts name, if the configuration has their values."""
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


_NOT_IN_NAMES = re.compile(r"[^\w.-]+")
_NOT_IN_TARGETS = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class _PromptFile:
    """A prompt and the file it is written to."""

    name: str
    path: Path
    text: str


def may_be_config(path: Path) -> bool:
    """Whether a path may be a configuration: by its name, or as YAML that is not a prompt file."""
    is_prompt = path.name.lower().endswith((".prompt.yml", ".prompt.yaml"))
    return recognises(path) or (path.suffix.lower() in (".yaml", ".yml") and not is_prompt)


def _import(request: ImportRequest) -> ImportResult:
    source = _config_file(request.path)
    version = _written_for(request.options.written_by, source.parent)
    default = source.resolve().parent.name if source.name in NAMES else source.stem
    file = replace(request, path=source).dataset_file(default or "promptfoo")
    root = project_of(file)
    config, losses = read_config(text_of(source), str(source), source.parent, version, _own_code(root))
    written = _prompt_files(config.prompts, file, losses) if len(config.prompts) > 1 else []
    document = {**config.data, **_prompt_under_test(config.prompts, written, losses)}
    names = list(_target_names(config.targets))
    sections = _sections(config, names)
    code = {root / FOLDER / name: text for name, text in config.code.items()}
    texts = {one.path: one.text for one in written}
    models = [name if target.http else target.model for name, target in zip(names, config.targets, strict=True)]
    following = _commands(file, config, written, models)
    experiment = _experiment(file, config, written, names, sections, models)
    texts |= {} if experiment is None else dict([experiment])
    kept = keep_dataset(request, file, document, losses, prompts=texts, evaluators=code, following=following)
    with_names = [name if name in sections else model for name, model in zip(names, models, strict=True)]
    notes: tuple[str, ...] = ()
    if code:
        make_project(root)  # which makes the evaluators those of every folder in it
        if root != request.project.root:
            notes = (f"the evaluators are those of another project: run the dataset from {root}",)
    if experiment is not None:
        here = [one for one in kept.prompts if one != experiment[0]]
        kept = replace(kept, prompts=tuple(here), experiment=experiment[0])
    return replace(
        kept,
        notes=notes,
        targets=sections,
        next_with_targets=_commands(file, config, written, with_names),
    )


def _experiment(
    file: Path,
    config: Configuration,
    prompts: Sequence[_PromptFile],
    names: Sequence[str],
    sections: Mapping[str, Mapping[str, Any]],
    models: Sequence[str],
) -> tuple[Path, str] | None:
    """The experiment with data, prompts and targets, and its text; None where targets have prompts of their own."""
    if not config.targets or (len(prompts) > 1 and any(target.prompts for target in config.targets)):
        return None
    targets = [
        {"name": name, **sections[name]} if name in sections else model
        for name, model in zip(names, models, strict=True)
    ]
    text = experiment_text({"data": file.name, "prompts": [one.path.name for one in prompts], "targets": targets})
    usual = file.with_name("experiment.yaml")
    own = file.with_name(f"{file.stem}.experiment.yaml")
    is_ours = not usual.exists() or (usual.is_file() and text_of(usual) == text)
    return usual if is_ours else own, text


def _own_code(root: Path) -> dict[str, CodeFile]:
    """The custom evaluators of a project by name."""
    files = {name: folder / main_file(name, folder) for name, folder in discover_custom_evaluators(root).items()}
    return {name: (file.suffix, _code_of(file)) for name, file in files.items()}


def _code_of(file: Path) -> str:
    """The code of an evaluator; empty where it cannot be read, because then it is none that an import wrote."""
    try:
        return read_bytes(file, most=LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""


def _written_for(said: str | None, folder: Path) -> Version | None:
    """The version of promptfoo that a configuration was written for: as given, or as in its package.json."""
    if said is not None:
        version = version_of(said)
        if version is None:
            raise WrongOptions(f"--written-by {said} names no version. Write it like 0.119.0.")
        return version
    package = json_in(folder / "package.json")
    parts = [package.get(name) for name in ("dependencies", "devDependencies")] if isinstance(package, dict) else []
    asked = next((part["promptfoo"] for part in parts if isinstance(part, dict) and "promptfoo" in part), None)
    return version_of(str(asked)) if asked is not None else None


def _commands(file: Path, config: Configuration, prompts: Sequence[_PromptFile], named: Sequence[str]) -> str:
    """The commands that run the dataset: one for all targets with the same prompts."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for target, name in zip(config.targets, named, strict=True):
        own = [one for one in prompts if not target.prompts or _is_meant(one.name, target.prompts)]
        groups.setdefault(tuple(shown(one.path) for one in own or prompts), []).append(name)
    commands = []
    for paths, targets in (groups or {tuple(shown(one.path) for one in prompts): []}).items():
        given = "".join(f" -p {shlex.quote(path)}" for path in paths)
        asked = " ".join(f"--target {shlex.quote(target)}" for target in targets) or "--target NAME"
        commands.append(run_command(file, prompts=given if config.prompts else " -p PROMPT", targets=asked))
    return " && ".join(commands)


def _is_meant(name: str, wanted: Sequence[str]) -> bool:
    """Whether a provider's list of prompts holds one, by its name or the start of it before an asterisk."""
    return any(name == one or (one.endswith("*") and name.startswith(one[:-1])) for one in wanted)


def _target_names(targets: Sequence[Provider]) -> Iterator[str]:
    """A name for each target that a section can have: its label, or else the end of its model."""
    taken: set[str] = set()
    for target in targets:
        stem = _NOT_IN_TARGETS.sub("-", target.name or target.model.rpartition("/")[2]).strip("-").lower()[:40]
        name, number = stem or "target", 1
        while name in taken:
            number += 1
            name = f"{stem}-{number}"
        taken.add(name)
        yield name


def _sections(config: Configuration, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The targets that say more than their model, as sections of the project's configuration."""
    sections: dict[str, dict[str, Any]] = {}
    for name, target in zip(names, config.targets, strict=True):
        own: dict[str, Any] = {}
        if target.tools and "tools" not in config.data:
            own["tools"] = list(target.tools)
        if target.response_format and "response_format" not in config.data:
            own["response_format"] = _sent_form(target.response_format)
        section = target.section()
        if own:
            section["params"] = {**section.get("params", {}), **own}
        if section or target.name:
            sections[name] = section if target.http else {"model": target.model, **section}
    return sections


def _sent_form(form: str | Mapping[str, Any]) -> dict[str, Any]:
    """The form of the answer as the parameter that is sent."""
    if isinstance(form, str):
        return {"type": "json_object" if form == "json" else "text"}
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(form)}}


def _config_file(path: Path) -> Path:
    if not path.is_dir():
        return path
    file = next((path / name for name in NAMES if (path / name).is_file()), None)
    if file is None:
        raise CannotRead(f"{path} holds none of {', '.join(NAMES)}; name the configuration itself")
    return file


def _prompt_under_test(prompts: Sequence[Prompt], written: Sequence[_PromptFile], losses: Losses) -> dict[str, Any]:
    """The prompt that a run tests which names none, of several."""
    if written:
        return {"prompt_file": written[0].path.name}
    if len(prompts) < 2:
        return {}
    losses.changed(f"the prompt {prompts[0].name}", prompts[0].where, "it is in the dataset as messages")
    return {"messages": [dict(message) for message in prompts[0].messages]}


def _prompt_files(prompts: Sequence[Prompt], file: Path, losses: Losses) -> list[_PromptFile]:
    """The prompts as prompt files next to the dataset; one that no such file can hold is left out."""
    texts = [prompty_text(prompt) for prompt in prompts]
    for number, (prompt, text) in enumerate(zip(prompts, texts, strict=True)):
        if text is None and (number or any(texts)):
            losses.left_out(f"the prompt {prompt.name}", prompt.where, "a prompt file cannot hold its messages")
    named = zip(prompts, _stems(prompts), texts, strict=True)
    return [
        _PromptFile(prompt.name, file.with_name(f"{file.stem}-{stem}.prompty"), text)
        for prompt, stem, text in named
        if text is not None
    ]


def _stems(prompts: Sequence[Prompt]) -> Iterator[str]:
    """A name of a file for each prompt, no two the same."""
    taken: set[str] = set()
    for number, prompt in enumerate(prompts, 1):
        name = Path(prompt.name).stem if prompt.name.startswith(prompt.where) and prompt.where else prompt.name
        stem = _NOT_IN_NAMES.sub("-", name).strip("-.").lower()[:40] or str(number)
        while stem in taken:
            stem = f"{stem}-{number}"
        taken.add(stem)
        yield stem


IMPORTER = Importer(
    kind="promptfoo",
    about="a promptfooconfig.yaml of promptfoo, or its folder",
    recognises=may_be_config,
    read=_import,
    names=NAMES,
    order=60,
)
