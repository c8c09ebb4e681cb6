"""Changes of `.evals/config.toml` that keep its comments and order, and the sections for first targets."""

from __future__ import annotations

import json
import os
import tempfile
import tomllib
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable

from tui_evals.files import CannotSave, check_private, write_atomically
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_bytes
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import FILE, invalid_toml, load_settings


def write_setting(root: Path, key: tuple[str, ...], value: object) -> None:
    """Set a setting of the project in a folder, or remove it with None; an invalid value is not written."""
    file = root / FILE
    text = _read_text(file)
    before = _parse_toml(file, text)
    value = list(value) if isinstance(value, tuple) else value
    changed = _change_setting(before, file, key, value)
    if repr(changed) != repr(before):
        _replace_file(file, _edit_text(file, text, key, value, changed))


def add_section(root: Path, name: str, section: str) -> Path:
    """Add the section of a target at the end of the project's configuration, which is begun with it if need be."""
    file = root / FILE
    text = _read_text(file)
    if name in _parse_toml(file, text).get("targets", {}):
        raise ConfigurationError(f"{file} has [targets.{name}] already; nothing was written to it")
    _replace_file(file, f"{text.rstrip()}\n\n{section}\n" if text.strip() else f"{section}\n")
    return file


def replace_section(root: Path, name: str, section: str) -> tuple[Path, bool]:
    """Write the section of a target, instead of the one it had; whether there was one."""
    file = root / FILE
    had = name in _parse_toml(file, _read_text(file)).get("targets", {})
    if had:
        write_setting(root, ("targets", name), None)
        # Its comments would be left behind, and would be repeated with each rewrite.
        comments = section[: section.index(f"[targets.{name}]")]
        without = _read_text(file).replace(f"{comments}\n", "").replace(comments, "")
        _replace_file(file, without)
    return add_section(root, name, section), had


def keep_secret(root: Path, variable: str, value: str) -> None:
    """Store a key in the project's `.env.local`, which only its owner can read and which git ignores."""
    file, ignored = root / ".env.local", root / ".gitignore"
    try:
        lines = _lines_of(file)
        quoted = value.replace("\\", "\\\\").replace("'", "\\'")
        kept = [line for line in lines if line.partition("=")[0].removeprefix("export ").strip() != variable]
        check_private(file, links_within=root)
        write_atomically(file, "\n".join([*kept, f"{variable}='{quoted}'", ""]).encode(), private=True)
        os.chmod(file, 0o600)
        lines = _lines_of(ignored)
        if not {".env.local", "/.env.local", ".env*", ".env.*", "*.local"} & {line.strip() for line in lines}:
            write_atomically(ignored, "\n".join([*lines, ".env.local", ""]).encode())
    except (OSError, CannotSave, UnicodeDecodeError) as problem:
        raise ConfigurationError(f"{file} could not be written: {problem}. Set {variable} in your shell") from None


def _lines_of(file: Path) -> list[str]:
    try:
        return read_bytes(file).decode().splitlines()
    except FileNotFoundError:
        return []


def begin_configuration(root: Path, text: str) -> None:
    """Write a first configuration where there is none."""
    file = root / FILE
    if not file.exists():
        _replace_file(file, text)


def _read_text(file: Path) -> str:
    try:
        return read_bytes(check_private(file, links_within=file.parent.parent)).decode("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigurationError(f"{file} cannot be read: {problem}") from None


def _parse_toml(file: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise invalid_toml(file, text, problem) from None


def _change_setting(settings: Mapping[str, Any], file: Path, key: tuple[str, ...], value: object) -> dict[str, Any]:
    """The settings that the file must hold after the change."""
    name, *rest = key
    changed = dict(settings)
    if not rest:
        changed.pop(name, None)
        return changed if value is None else {**changed, name: value}
    if name not in changed and value is None:
        return changed
    inner = changed.get(name, {})
    if not isinstance(inner, Mapping):
        raise ConfigurationError(f"{file}: {name} is not a section, so {'.'.join(rest)} cannot be set in it")
    return {**changed, name: _change_setting(inner, file, tuple(rest), value)}


def _edit_text(file: Path, text: str, key: tuple[str, ...], value: object, changed: Mapping[str, Any]) -> str:
    """The text with the setting changed; refused unless the result reads as `changed`."""
    by_hand = f"{'.'.join(key)} could not be set in {file}; set it there by hand"
    try:
        document = tomlkit.parse(text)
        _set_value(document, key, value)
        done = tomlkit.dumps(document)
        read = tomllib.loads(done)
        if read == changed or (value is None and _without_empty_sections(read) == _without_empty_sections(changed)):
            return done
    except (TOMLKitError, tomllib.TOMLDecodeError, TypeError, ValueError) as problem:
        raise ConfigurationError(f"{by_hand}: {problem}") from None
    raise ConfigurationError(by_hand)


def _without_empty_sections(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without empty sections, which may go with the last of their settings and mean nothing."""
    bare = {
        name: _without_empty_sections(part) if isinstance(part, Mapping) else part for name, part in settings.items()
    }
    return {name: part for name, part in bare.items() if part != {}}


def _set_value(document: MutableMapping[str, Any], key: tuple[str, ...], value: object) -> None:
    *sections, name = key
    place = document
    for section in sections:
        if section not in place:
            place[section] = tomlkit.inline_table() if isinstance(place, InlineTable) else tomlkit.table()
        place = place[section]
    if value is None:
        del place[name]
    else:
        place[name] = value


def _replace_file(file: Path, text: str) -> None:
    """Replace the file once the text has proved to be a valid configuration."""
    target = file.resolve()
    try:
        check_private(file, links_within=file.parent.parent)
        target.parent.mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".config.", dir=target.parent) as folder:
            draft = Path(folder) / FILE
            draft.parent.mkdir()
            with open(draft, "wb") as stream:
                stream.write(text.encode("utf-8"))
                stream.flush()
                os.fsync(stream.fileno())
            if target.exists():
                os.chmod(draft, target.stat().st_mode & 0o777)
            _check_draft(Path(folder), draft, file)
            os.replace(draft, target)
    except UnicodeEncodeError as problem:
        raise ConfigurationError(f"{file}: the text holds a character that no file can: {problem.reason}") from None
    except OSError as problem:
        raise ConfigurationError(f"{file} could not be written: {problem.strerror}; it is as it was") from None


def _check_draft(folder: Path, draft: Path, file: Path) -> None:
    try:
        load_settings(folder, whole=True)
    except ConfigurationError as problem:
        raise ConfigurationError(str(problem).replace(str(draft), str(file))) from None


EMPTY = """\
# Settings of this project. `tui-evals help targets` lists all of them; remove a # to set one.

# [run]
# targets = ["gpt"]          # for commands without --target
# concurrency = 10           # calls in flight at once, per target
# max_cost = 5               # US dollars after which a run stops

# [judge]
# target = "gpt"             # the model that judges where an evaluator asks one

# [targets.gpt]
# model = "openai/gpt-4o-mini"
# api_key = "env:OPENAI_API_KEY"     # set in the environment or .env.local; a key itself has no place here
# params = { temperature = 0 }
"""
"""A configuration without settings."""

FUNCTION = '''\
"""What is evaluated: {name} is given each question, and returns its answer."""


def {name}(prompt: str) -> str:
    return f"You said: {{prompt}}"
'''
"""A function to begin with."""


@dataclass(frozen=True, slots=True)
class Question:
    """One setting of a target: its option, the question for it and its default.

    Without a text, the question is asked only if the first call shows that it is needed.
    """

    option: str
    text: str
    default: str | None = None
    """The value if no answer is given; without it an answer is required."""
    guessed: bool = False
    """Whether the default is a guess, which the user must confirm."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """One kind of target to start with."""

    name: str
    """The name of its section."""
    questions: tuple[Question, ...]
    section: Callable[[Mapping[str, str]], str]


def _http(said: Mapping[str, str]) -> str:
    """The section of a service: `body` is JSON that contains the question, without it `field` alone does.

    `session` is a path in a reply; the value there is sent back with the next request.
    """
    body = json.loads(said["body"]) if said.get("body") else {said["field"]: "{{ prompt }}"}
    sends = not said.get("method") or said["method"] != "GET" or said.get("body")
    return "\n".join(
        [
            "# A service over HTTP. Texts may hold {{ prompt }}, {{ messages }}, {{ session }} and variables of items;",
            '# headers take keys as "env:NAME"; session = "$.PATH" keeps a conversation together.',
            "[targets.service]",
            "price = { per_call = 0 }        # US dollars of a call; 0 if it is free",
            "",
            "[targets.service.http]",
            f"url = {_text(said['at'])}",
            *([f"method = {_text(said['method'])}"] if said.get("method") else []),
            *([f"headers = {{ {_headers(said['header'])} }}"] if said.get("header") else []),
            *([f"body = {_inline(body)}"] if sends else []),
            *([f"answer = {_text(said['answer'])}    # where the answer is in the reply"] if said["answer"] else []),
            *([f"session = {_text(said['session'])}"] if said.get("session", "").startswith("$") else []),
        ]
    )


def _inline(value: Any) -> str:
    """A JSON value as TOML on one line; TOML has no null, so nulls are left out."""
    if isinstance(value, dict):
        return (
            f"{{ {', '.join(f'{_text(name)} = {_inline(part)}' for name, part in value.items() if part is not None)} }}"
        )
    if isinstance(value, list):
        return f"[{', '.join(_inline(part) for part in value if part is not None)}]"
    return _text(value)


def _headers(lines: str) -> str:
    """Headers as TOML, from lines such as `Authorization: Bearer env:NAME`."""
    pairs = (line.partition(":") for line in lines.splitlines() if line.strip())
    return ", ".join(f"{_text(name.strip())} = {_text(value.strip())}" for name, _, value in pairs)


def _openai(said: Mapping[str, str]) -> str:
    return "\n".join(
        [
            "# An endpoint of OpenAI's protocol: vLLM, LM Studio, Ollama, a gateway.",
            "[targets.model]",
            f"model = {_text('openai/' + said['model'])}",
            f"base_url = {_text(said['at'])}",
            *([f"api_key = {_text('env:' + said['key'])}"] if said["key"] else ['# api_key = "env:MY_KEY"']),
            "# params = { temperature = 0, max_tokens = 512 }",
            "# price = { input_per_million = 0.15, output_per_million = 0.60 }     # for --max-cost",
        ]
    )


def _model(said: Mapping[str, str]) -> str:
    return "\n".join(
        [
            "# A model of a provider; `tui-evals help providers` says what each takes.",
            "[targets.model]",
            f"model = {_text(said['model'])}",
            *([f"base_url = {_text(said['at'])}"] if said.get("at") else []),
            *([f"api_key = {_text('env:' + said['key'])}"] if said["key"] else []),
            "# params = { temperature = 0, max_tokens = 512 }",
        ]
    )


def _by_word(name: str, word: str, *comments: str) -> Callable[[Mapping[str, str]], str]:
    def section(said: Mapping[str, str]) -> str:
        return "\n".join([*comments, f"[targets.{name}]", f"model = {_text(word + said['at'])}", "timeout = 60"])

    return section


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


BEGINNINGS: Mapping[str, Beginning] = {
    "http": Beginning(
        "service",
        (
            Question("at", "At which URL is the service asked?"),
            Question("field", "Which field of the JSON it is sent holds the question?", "message"),
            Question("answer", "", ""),
            Question("header", "", ""),
            Question("session", "", ""),
        ),
        _http,
    ),
    "openai": Beginning(
        "model",
        (
            Question("at", "At which base URL is it asked?", "http://127.0.0.1:8000/v1", guessed=True),
            Question("model", "Which model?"),
            Question("key", "Which variable holds the key? Empty: it needs none", ""),
        ),
        _openai,
    ),
    "model": Beginning(
        "model",
        (Question("model", "Which model, as in anthropic/claude-haiku-4-5?"), Question("key", "", "")),
        _model,
    ),
    "python": Beginning(
        "function",
        (Question("at", "Which function answers, as module:function or FILE.py:function?", "agent.py:answer"),),
        _by_word(
            "function",
            "python:",
            "# A function of yours, given what its parameters name: prompt, messages, variables, session, request.",
        ),
    ),
    "command": Beginning(
        "program",
        (Question("at", "Which program answers? It reads the question on its input and prints the answer"),),
        _by_word("program", "command:", "# A program: the question on its input, the answer on its output."),
    ),
    "a2a": Beginning(
        "agent",
        (Question("at", "At which URL is the agent?"),),
        _by_word("agent", "a2a:", "# A deployed agent, by the Agent2Agent protocol; its card says the rest."),
    ),
}
