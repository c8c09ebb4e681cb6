"""Prompts and providers of a promptfoo configuration: as messages, and as targets, also those that are an address."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path as File
from typing import Any
from urllib.parse import quote

from tui_evals.datasets.paths import DatasetError
from tui_evals.imports.base import Losses
from tui_evals.imports.promptfoo.files import Spot, files_named, kind_of, named_file, shown_name, source_of, text_of
from tui_evals.imports.promptfoo.values import as_jinja, needs_values
from tui_evals.light_records import dataclass
from tui_evals.targets.chat import SAMPLING_PARAMS
from tui_evals.targets.config_model import faults_in
from tui_evals.text import strictjson
from tui_evals.text.chats import PromptyError, parse_prompty
from tui_evals.text.templates import TemplateError, template_variables
from tui_evals.text.yamls import YamlError, load_yaml

_PATH = re.compile(r"(?:json|data|context\.response\.json)((?:\??\.[A-Za-z_]\w*|(?:\?\.)?\[\d+\])*)")
_FUNCTION = re.compile(r"\(?\s*json\s*(?:,[^)]*)?\)?\s*=>\s*")
_SESSION = re.compile(r"data\??\.body((?:\??\.[A-Za-z_]\w*|(?:\?\.)?\[\d+\])*)")
_OF_ENVIRONMENT = re.compile(r"\{\{\s*env\.([A-Za-z_]\w*)\s*\}\}")


def is_service(written: str) -> bool:
    """Whether the id of a provider is an address, or says that one follows."""
    return written in ("http", "https") or written.startswith(("http://", "https://"))


def service_section(written: str, config: Spot | None, losses: Losses) -> dict[str, Any] | None:
    """The settings of a section that asks the same service; None where no address is given, or it cannot be asked."""
    http: dict[str, Any] = {"url": written if "://" in written else ""}
    query: Mapping[str, Any] = {}
    for key, part in config.members() if config is not None else ():
        match key, part.value:
            case ("url", str() as text):
                http["url"] = _OF_ENVIRONMENT.sub(r"env:\1", text.strip())
            case ("method", str() as text):
                http["method"] = text.upper()
            case ("headers", dict() as headers):
                http["headers"] = dict(_service_headers(headers, part, losses))
            case ("body", dict() | list() | str() as body):
                http["body"] = _body(body)
            case ("queryParams", dict() as given):
                query = given
            case ("transformResponse" | "responseParser", str() as code):
                _follow(http, "answer", code, part, losses)
            case ("sessionParser", str() as code):
                _follow(http, "session", code, part, losses)
            case _:
                losses.left_out(f"{key} of the provider", part.where, "there is no equal")
    if not http["url"]:
        return None
    if query:
        pairs = "&".join(f"{quote(name)}={_in_query(str(value))}" for name, value in query.items())
        http["url"] += ("&" if "?" in http["url"] else "?") + pairs
    http["url"] = _template(http["url"])
    where = config.where if config is not None else ""
    for fault in faults_in({"targets": {"t": {"http": http}}}).values():
        losses.left_out(f"the provider {written}", where, fault.replace("targets.t.", ""))
        return None
    return {"http": {name: value for name, value in http.items() if value}}


def _template(text: str) -> str:
    """A text with its templates in the words of those here."""
    renamed = re.sub(r"\{\{(.*?)\}\}", lambda match: match[0].replace("sessionId", "session"), text, flags=re.DOTALL)
    return re.sub(r"\|\s*dump\b", "| tojson", renamed)


def _body(value: Any) -> Any:
    """A body as a table where it is one, also where it was written as the text of one."""
    if isinstance(value, str):
        try:
            parsed = strictjson.loads(value)
        except strictjson.JsonError:
            return _template(value)
        return _body(parsed) if isinstance(parsed, dict | list) else _template(value)
    if isinstance(value, dict):
        return {name: _part(part) for name, part in value.items() if part is not None}
    return [_part(part) for part in value]


def _part(value: Any) -> Any:
    if isinstance(value, str):
        return _template(value)
    return _body(value) if isinstance(value, dict | list) else value


def _service_headers(headers: Mapping[str, Any], spot: Spot, losses: Losses) -> Iterator[tuple[str, str]]:
    for name, value in headers.items():
        text = _template(_OF_ENVIRONMENT.sub(r"env:\1", str(value)))
        if faults_in({"targets": {"t": {"http": {"url": "http://x", "headers": {name: text}}}}}):
            losses.left_out(f"the header {name}", spot.where, "keys are not kept; name a variable: env:NAME")
        else:
            yield name, text


def _in_query(text: str) -> str:
    return text if "{{" in text else quote(text)


def _follow(http: dict[str, Any], setting: str, code: str, spot: Spot, losses: Losses) -> None:
    """The JSON path that a piece of code follows, where it does nothing else."""
    bare = _FUNCTION.sub("", code.strip().rstrip(";"))
    match = (_SESSION if setting == "session" else _PATH).fullmatch(bare)
    if match:
        http[setting] = "$" + match[1].replace("?.[", "[").replace("?", "")
    elif not (setting == "answer" and bare == "text"):
        losses.left_out(f"{code[:60]!r}", spot.where, f"it is code; write {setting} as a JSON path")


_SPELLINGS = {
    "openai": "openai",
    "openai:chat": "openai",
    "anthropic": "anthropic",
    "anthropic:messages": "anthropic",
    "azure:chat": "azure",
    "azureopenai:chat": "azure",
    "google": "gemini",
    "vertex": "vertex_ai",
    "bedrock": "bedrock",
    "mistral": "mistral",
    "cohere": "cohere",
    "groq": "groq",
    "ollama:chat": "ollama_chat",
    "ollama": "ollama",
    "ollama:completion": "ollama",
    "openrouter": "openrouter",
    "togetherai": "together_ai",
    "deepseek": "deepseek",
    "xai": "xai",
    "perplexity": "perplexity",
    "cerebras": "cerebras",
    "fireworks": "fireworks_ai",
    "replicate": "replicate",
    "github": "github",
    "databricks": "databricks",
}
_WRITTEN = {
    **{ours: theirs for theirs, ours in reversed(_SPELLINGS.items())},
    "openai": "openai",
    "anthropic": "anthropic:messages",
    "azure": "azure:chat",
    "ollama": "ollama:completion",
}
_NO_CHAT = frozenset(
    ("completion", "embedding", "embeddings", "assistant", "image", "moderation", "realtime", "agents")
)
_MARKER_LINE = re.compile(r"^[^\S\n]*(?:system|user|assistant)[^\S\n]*:[^\S\n]*$", re.IGNORECASE | re.MULTILINE)
_IN_TEXT = re.compile(r"\{\{\s*env\.(\w+)\s*\}\}")
_ENVIRONMENT = re.compile(r"\s*\{\{\s*env\.(\w+)\s*\}\}\s*")


@dataclass(frozen=True, slots=True)
class Provider:
    """A target as a configuration names it; `api_key` is a reference such as env:NAME, never the key."""

    model: str
    name: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    base_url: str | None = None
    api_key: str | None = None
    http: Mapping[str, Any] | None = None
    """How it is asked where it is an address, in the words of a section of the project's configuration."""
    headers: Mapping[str, str] = field(default_factory=dict)
    tools: Sequence[Mapping[str, Any]] | None = None
    response_format: str | Mapping[str, Any] | None = None
    prompts: tuple[str, ...] = ()
    """The names of its prompts; all if empty."""
    transform: str | None = None
    """Code that transforms its answers before they are judged."""

    def section(self) -> dict[str, Any]:
        """Its settings without the model, as a section of the project's configuration."""
        if self.http is not None:
            return {"http": dict(self.http)}
        settings: dict[str, Any] = {"base_url": self.base_url, "api_key": self.api_key, "params": dict(self.params)}
        settings["headers"] = dict(self.headers)
        return {name: value for name, value in settings.items() if value}


def model_of(written: str) -> str | None:
    """The name of a provider's model here; None if it is not a model behind a known interface."""
    kind, _, rest = written.partition(":")
    if kind == "litellm" and rest:
        return rest.removeprefix("chat:")
    second, _, model = rest.partition(":")
    if model and f"{kind}:{second}" in _SPELLINGS:
        return f"{_SPELLINGS[f'{kind}:{second}']}/{model}"
    if kind not in _SPELLINGS or not rest or second in _NO_CHAT | {"responses", "chat"}:
        return None
    return f"{_SPELLINGS[kind]}/{rest}"


def written_model(model: str) -> str | None:
    """The name of a target's model in promptfoo; None if the target is not a model."""
    kind, _, rest = model.partition("/")
    if not rest or ":" in kind or model.startswith(("replay:", "python:", "command:")):
        return None
    return f"{_WRITTEN[kind]}:{rest}" if kind in _WRITTEN else f"litellm:{model}"


def read_providers(spot: Spot | None, folder: File, losses: Losses) -> tuple[Provider, ...]:
    """The targets of a configuration; others than models are left out and named."""
    if spot is None:
        return ()
    providers = [_provider(one, folder, losses) for one in _listed(spot, folder)]
    return tuple(provider for provider in providers if provider is not None)


def transforms_of(spot: Spot | None, folder: File) -> list[Spot | None]:
    """The transform of each provider in a configuration, including those that are no target here."""
    listed = () if spot is None else _listed(spot, folder)
    return [None if isinstance(one.value, str) else _transform(_named(one)[1]) for one in listed]


def _listed(spot: Spot, folder: File) -> Iterator[Spot]:
    """The providers of a list, with those of the files it names."""
    for one in spot.entries() if isinstance(spot.value, list) else [spot]:
        name = one.value if isinstance(one.value, str) else ""
        if name.startswith("file://") and File(name).suffix.lower() in (".yaml", ".yml", ".json"):
            yield from _listed(_of_file(one, folder), folder)
        else:
            yield one


def _provider(spot: Spot, folder: File, losses: Losses) -> Provider | None:
    if isinstance(spot.value, str):
        written, about = spot.text(), spot
    else:
        written, about = _named(spot)
    if is_service(written):
        return _service(written, about, losses)
    model = model_of(written)
    if model is None and written.startswith("openai:responses:"):
        model = f"openai/{written.removeprefix('openai:responses:')}"
        losses.changed(written, spot.where, "it is asked through the chat interface")
    if model is None:
        why = "no target is like it"
        if _is_code(written):
            why = "code runs here as python:module:function or command:ARGV"
        losses.left_out(f"the provider {written}", spot.where, why)
        return None
    losses.carried(f"the provider {written}", spot.where, f"as {model}")
    if isinstance(about.value, str):
        return Provider(model)
    return _detailed(model, about, folder, losses)


def _service(written: str, spot: Spot, losses: Losses) -> Provider | None:
    """A provider that is an address."""
    config, label = (None, None) if isinstance(spot.value, str) else (spot.get("config"), spot.get("label"))
    section = service_section(written, config, losses)
    if section is None:
        losses.left_out(f"the provider {written}", spot.where, "it has no address that can be asked")
        return None
    losses.carried(f"the provider {written}", spot.where, "as an HTTP target")
    model = f"http:{section['http']['url'].partition('://')[2]}"
    return Provider(
        model,
        "" if label is None else label.text(),
        http=section["http"],
        prompts=_prompts_of(spot),
    )


def _prompts_of(spot: Spot) -> tuple[str, ...]:
    """The names of the prompts that a provider is asked with."""
    named = spot.get("prompts") if isinstance(spot.value, dict) else None
    spots = [] if named is None else named.entries() if isinstance(named.value, list) else [named]
    return tuple(one.text() for one in spots)


def _transform(spot: Spot) -> Spot | None:
    """The code that transforms a provider's answers before they are judged."""
    return spot.get("transform") if isinstance(spot.value, dict) else None


def _named(spot: Spot) -> tuple[str, Spot]:
    """The id of a provider and its settings, in either notation."""
    if not isinstance(spot.value, dict):
        raise spot.wrong(f"must be the id of a provider or a mapping with one, not {kind_of(spot.value)}")
    identity = spot.get("id")
    if identity is not None:
        return identity.text(), spot
    members = spot.members()
    if len(members) != 1:
        raise spot.wrong("id is missing; it names the provider, as in openai:gpt-4o")
    key, about = members[0]
    about.mapping()
    return key, about


def _is_code(written: str) -> bool:
    return written.startswith(("file:", "exec:", "python:", "golang:", "ruby:", "package:"))


def _detailed(model: str, spot: Spot, folder: File, losses: Losses) -> Provider:
    label, config = spot.get("label"), spot.get("config")
    for key, part in spot.members():
        if key not in ("id", "label", "config", "prompts", "transform"):
            why = "requests_per_minute of the target sets its pace" if key == "delay" else "there is no equal"
            losses.left_out(f"{key} of the provider", part.where, why)
    return Provider(
        model,
        "" if label is None else label.text(),
        prompts=_prompts_of(spot),
        **({} if config is None else dict(_configured(config, folder, losses))),
    )


_CALLED_HERE = {
    "frequencyPenalty": "frequency_penalty",
    "max_new_tokens": "max_tokens",
    "maxOutputTokens": "max_tokens",
    "maxTokens": "max_tokens",
    "num_predict": "max_tokens",
    "presencePenalty": "presence_penalty",
    "stop_sequences": "stop",
    "stopSequences": "stop",
    "topK": "top_k",
    "topP": "top_p",
}
"""Parameters that some providers call otherwise than all are asked here."""


def _settings(config: Spot) -> Iterator[tuple[str, Spot]]:
    """The settings of a provider, under our names; those of Google are in a nested part."""
    for key, part in config.members():
        if key == "generationConfig" and isinstance(part.value, dict):
            yield from _settings(part)
        elif part.value is not None:
            yield _CALLED_HERE.get(key, key), part


def _configured(config: Spot, folder: File, losses: Losses) -> Iterator[tuple[str, Any]]:
    params: dict[str, Any] = {}
    for key, part in _settings(config):
        if key in _READ:
            try:
                yield key, _READ[key](part, folder)
            except DatasetError as fault:
                losses.left_out(f"{key} of the provider", part.where, fault.problems[0].message)
        elif key == "headers":
            yield "headers", dict(_headers(part, losses))
        elif key in SAMPLING_PARAMS and isinstance(part.value, str) and _IN_TEXT.search(part.value):
            losses.left_out(f"{key} of the provider", part.where, "its value is in the environment; write it here")
        elif key in SAMPLING_PARAMS:
            params[key] = part.value
        elif key in ("apiBaseUrl", "base_url"):
            yield "base_url", _reference(part.text()) or part.text()
        elif key == "apiKeyEnvar":
            yield "api_key", f"env:{part.text()}"
        elif key == "apiKey" and (reference := _reference(part.text())):
            yield "api_key", reference
        elif key == "apiKey":
            losses.left_out("apiKey of the provider", part.where, "keys are not kept; name a variable with api_key")
        else:
            losses.left_out(f"{key} of the provider", part.where, "there is no equal")
    yield "params", params


def _headers(spot: Spot, losses: Losses) -> Iterator[tuple[str, str]]:
    """Headers that a section may hold: secrets stay in the environment."""
    for name, part in spot.members():
        value = _IN_TEXT.sub(r"env:\1", str(part.value))
        if faults_in({"targets": {"t": {"model": "openai/m", "headers": {name: value}}}}):
            losses.left_out(f"the header {name} of the provider", part.where, "keys are not kept; name a variable")
        else:
            yield name, value


def _reference(text: str) -> str | None:
    """The variable that a text is filled from, as settings here refer to it."""
    match = _ENVIRONMENT.fullmatch(text)
    return f"env:{match[1]}" if match else None


def _of_file(spot: Spot, folder: File) -> Spot:
    """A value, or that of the file it names."""
    if not isinstance(spot.value, str):
        return spot
    file = named_file(spot, folder, spot.text())
    source = source_of(file, shown_name(file, folder))
    return Spot(source, (), source.value)


def _tools(spot: Spot, folder: File) -> list[dict[str, Any]]:
    """Definitions of tools in OpenAI's form, those in Anthropic's rewritten."""
    tools: list[dict[str, Any]] = []
    spot = _of_file(spot, folder)
    for one in spot.entries():
        tool = dict(_of_file(one, folder).mapping())
        if "input_schema" in tool:
            about = {key: tool[key] for key in ("name", "description") if key in tool}
            tool = {"type": "function", "function": {**about, "parameters": tool["input_schema"]}}
        tools.append(tool)
    return tools


def _response_format(spot: Spot, folder: File) -> str | Mapping[str, Any]:
    """The form of the answer: text, json, or the JSON Schema of it."""
    spot = _of_file(spot, folder)
    form = spot.mapping()
    if form.get("type") in ("text", "json_object"):
        return "json" if form["type"] == "json_object" else "text"
    within = form.get("json_schema", form)
    schema = within.get("schema") if isinstance(within, dict) else None
    if isinstance(schema, str):
        schema = _of_file(Spot(spot.source, spot.path, schema), folder).value
    if not isinstance(schema, dict):
        raise spot.wrong("must be of type text, json_object or json_schema, the last with its schema")
    return schema


_READ: Mapping[str, Callable[[Spot, File], Any]] = {"tools": _tools, "response_format": _response_format}
"""Settings of a provider that belong to an item here; unreadable ones are left out."""


_CODE = frozenset((".py", ".js", ".ts", ".mjs", ".cjs", ".sh", ".rb"))
_ENDINGS = _CODE | {".txt", ".md", ".json", ".jsonl", ".yaml", ".yml", ".j2", ".csv"}
_BARE_VALUE = re.compile(r"([:,\[]\s*)\{\{-?\s*([A-Za-z_][\w.]*)\s*\|\s*tojson\s*-?\}\}(?=\s*[,}\]])")
_ROLES = frozenset(("system", "user", "assistant", "tool"))
_ELSEWHERE = ("portkey://", "langfuse://", "helicone://", "exec:", "http://", "https://", "package:")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt under test: its name, its chat messages as templates, and whether it was written as one text."""

    name: str
    messages: tuple[Mapping[str, Any], ...]
    plain: bool = True
    where: str = ""
    template: str = ""
    """The whole text, if it becomes a chat only when it is filled."""


def prompty_text(prompt: Prompt) -> str | None:
    """The prompt as a prompt file; None where such a file cannot hold it."""
    if any(message.keys() != {"role", "content"} or message["role"] == "tool" for message in prompt.messages):
        return None
    name = strictjson.dumps(prompt.name)
    wanted = [(message["role"], _in_a_section(str(message["content"]))) for message in prompt.messages]
    body = "\n".join(f"{role}:\n{content}\n" for role, content in wanted)
    text = f"---\nname: {name}\n---\n{body}"
    try:
        read = parse_prompty(text)
    except PromptyError:
        return None
    return text if [(section.role, section.text) for section in read.sections] == wanted else None


def _in_a_section(text: str) -> str:
    """A text as a section of a prompt file holds it: blanks at its ends, which no section keeps, are filled in."""
    inner = text.strip()
    before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    if not inner:
        before, after = text, ""
    filled_in = [f"{{{{ {strictjson.dumps(blank)} }}}}" if blank else "" for blank in (before, after)]
    return f"{filled_in[0]}{_without_markers(inner)}{filled_in[1]}"


def _without_markers(text: str) -> str:
    """A text in which no line begins a message: one that reads as a role is filled in instead."""
    return _MARKER_LINE.sub(lambda line: f"{{{{ '{line[0]}' }}}}", text)


def read_prompts(spot: Spot | None, folder: File, losses: Losses) -> tuple[Prompt, ...]:
    """The prompts of a configuration; those that are code, or stored elsewhere, are reported as losses."""
    if spot is None:
        losses.changed("prompts", "", "there are none, so the variable `prompt` is asked")
        return (Prompt("prompt", ({"role": "user", "content": "{{prompt}}"},)),)
    spots = spot.entries() if isinstance(spot.value, list) else [spot]
    prompts = [prompt for one in spots for prompt in _prompts(one, folder, losses)]
    named: dict[str, Prompt] = {}
    for prompt in prompts:
        if problem := _unusable(prompt):
            losses.left_out(f"the prompt {prompt.name}", prompt.where, problem)
            continue
        name, number = prompt.name, 1
        while name in named:
            number += 1
            name = f"{prompt.name} {number}"
        named[name] = replace(prompt, name=name)
    for name, prompt in list(named.items()):
        if prompt.template and len(named) > 1:
            losses.left_out(f"the prompt {name}", prompt.where, "it is a chat only once it is filled; import it alone")
            del named[name]
    return tuple(named.values())


def _unusable(prompt: Prompt) -> str | None:
    for message in prompt.messages:
        try:
            if isinstance(message.get("content"), str):
                template_variables(message["content"])
        except TemplateError as problem:
            return str(problem)
    return None


def _prompts(spot: Spot, folder: File, losses: Losses) -> Iterator[Prompt]:
    if isinstance(spot.value, str):
        yield from _written(spot, spot.text(), None, folder, losses)
        return
    if not isinstance(spot.value, dict):
        raise spot.wrong(f"must be text, the name of a file, or a mapping with raw or id, not {kind_of(spot.value)}")
    raw, label = spot.get("raw") or spot.get("id"), spot.get("label")
    if raw is None and all(isinstance(value, str) for value in spot.value.values()) and spot.value:
        for file, name in spot.members():  # the older way: the name of the file, then how it is shown
            yield from _written(name, file, name.text(), folder, losses)
        return
    if raw is None:
        raise spot.wrong("raw is missing; it holds the prompt, or the name of its file")
    for key, part in spot.members():
        if key not in ("raw", "id", "label"):
            losses.left_out(f"{key} of a prompt", part.where, "there is no equal")
    identity = spot.get("id")
    shown = label or (identity if identity is not None and identity.value != raw.value else None)
    yield from _written(raw, raw.text(), None if shown is None else shown.text(), folder, losses)


def _written(spot: Spot, text: str, name: str | None, folder: File, losses: Losses) -> Iterator[Prompt]:
    if text.startswith(_ELSEWHERE):
        losses.left_out(f"the prompt {text}", spot.where, "it is not in a file; fetch it and write it down")
        return
    path = text.removeprefix("file://")
    ending = File(path.partition(":")[0]).suffix.lower() if "\n" not in text else ""
    if not text.startswith("file://") and (ending not in _ENDINGS or " " in text):
        yield _prompt(text, name or _short(text), spot.where)
        return
    if ending in _CODE:
        losses.left_out(f"the prompt {text}", spot.where, "it is code")
        return
    for file in files_named(spot, folder, text):
        shown = shown_name(file, folder)
        for number, content in enumerate(_contents(file, shown)):
            yield _prompt(content, f"{name or shown}{f' {number + 1}' if number else ''}", shown)


def _contents(file: File, shown: str) -> Iterator[str]:
    """The prompts of one file: parts of a text between lines of three hyphens, lines, rows, or all of it."""
    match file.suffix.lower():
        case ".txt":
            parts: list[list[str]] = [[]]
            for line in text_of(file, shown).split("\n"):
                parts.append([]) if line.strip() == "---" else parts[-1].append(line)
            yield from (text for text in ("\n".join(part).strip() for part in parts) if text)
        case ".jsonl":
            yield from (strictjson.dumps(value) for value in source_of(file, shown).value)
        case ".csv":
            yield from (row["prompt"] for row in source_of(file, shown).value if row.get("prompt"))
        case ".json" | ".yaml" | ".yml":
            text = text_of(file, shown)
            try:
                yield strictjson.dumps(source_of(file, shown).value)
            except DatasetError:
                if not needs_values(text):
                    raise
                yield text  # it is JSON once its template is filled
        case _:
            yield text_of(file, shown)


def _prompt(text: str, name: str, where: str) -> Prompt:
    text = as_jinja(text)
    chat = chat_in(text) or chat_in(_BARE_VALUE.sub(r'\1"{{ \2 }}"', text))
    if chat is not None:
        return Prompt(name, tuple(chat), False, where)
    template = text if text.lstrip().startswith("[") and '"role"' in text else ""
    return Prompt(name, ({"role": "user", "content": text},), True, where, template)


def chat_in(text: str) -> list[dict[str, Any]] | None:
    """The messages of a text that is a chat, as promptfoo takes it for one when it asks."""
    start = text.lstrip()
    try:
        if start.startswith(("[", "{")):
            value: Any = strictjson.loads(text)
        elif start.startswith("- role:"):
            value = load_yaml(text)
        else:
            return None
    except (strictjson.JsonError, YamlError):
        return None
    if not isinstance(value, list) or not value or not all(map(_is_message, value)):
        return None
    return [{key: part for key, part in message.items() if part is not None} for message in value]


def _is_message(value: Any) -> bool:
    if not isinstance(value, dict) or value.get("role") not in _ROLES:
        return False
    return isinstance(value.get("content"), str | list | None)


def _short(text: str) -> str:
    line = text.strip().split("\n")[0]
    return line if len(line) <= 40 else line[:39] + "…"
