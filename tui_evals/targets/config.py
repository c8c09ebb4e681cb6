"""`.evals/config.toml`: the defaults of a run, the judge, and the targets by name."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui_evals.files import check_private
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_text
from tui_evals.targets.model_table import similar_model
from tui_evals.targets.providers import speaks_openai
from tui_evals.targets.sweep import split_word, varied
from tui_evals.text.names import did_you_mean

from .base import AGENTS, ConfigurationError, HttpService, Price, TargetConfig, ToolSettings

if TYPE_CHECKING:
    from .config_model import ConfigModel, TargetModel

FILE = Path(".evals", "config.toml")

_CONCURRENCY = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDefaults:
    """The defaults of a run for options that are not given."""

    targets: tuple[str, ...] = ()
    concurrency: int | None = None
    repeats: int = 1
    max_cost: float | None = None
    confirm_cost: float = 1.0
    """US dollars above which the workbench does not start a run by a single key; `confirm_calls` the same of calls."""
    confirm_calls: int = 500
    gates: str | None = None
    """`0.2` keeps the rules of that version for gates whose meaning changed since; None is the rules of now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The configuration of a project."""

    run: RunDefaults = field(default_factory=RunDefaults)
    judge: str | None = None
    embedder: str | None = None
    """The target of kind embedding that gives evaluators their vectors."""
    targets: Mapping[str, TargetConfig] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)
    """Errors in the sections of other targets, by name; raised for whatever uses that target."""
    ui: Mapping[str, Any] = field(default_factory=dict)
    durable: bool = False
    """Whether everything that is stored waits until it is on the disk."""

    @property
    def variables(self) -> frozenset[str]:
        """The variables that the targets refer to."""
        written = (value for target in self.targets.values() for value in (target.address, target.api_key))
        named = {value.removeprefix("env:") for value in written if value and value.startswith("env:")}
        return frozenset(named) | self._sent_in_headers

    @property
    def secret_variables(self) -> frozenset[str]:
        """The variables that are sent as keys, whatever their names."""
        keys = (target.api_key.removeprefix("env:") for target in self.targets.values() if target.api_key)
        return frozenset(keys) | self._sent_in_headers

    @property
    def _sent_in_headers(self) -> frozenset[str]:
        tools = (target.tools for target in self.targets.values() if target.tools is not None)
        to_servers = {value.removeprefix("env:") for one in tools for value in one.headers.values()}
        return frozenset(to_servers.union(*(target.header_variables for target in self.targets.values())))

    @property
    def answering(self) -> tuple[str, ...]:
        """The names of targets that answer questions; others return only vectors."""
        return tuple(name for name, target in self.targets.items() if target.kind != "embedding")

    @property
    def usual_targets(self) -> tuple[str, ...]:
        """The targets of a run that names none: those of [run], else the only one that answers and does not judge."""
        others = tuple(name for name in self.answering if name != self.judge)
        return self.run.targets or (others if len(others) == 1 else ())

    @property
    def words(self) -> frozenset[str]:
        """The targets that the configuration names for runs and for judging."""
        return frozenset((*self.run.targets, *filter(None, [self.judge, self.embedder])))


def is_model(model: str) -> bool:
    """Whether a model is spelled in one of the known ways."""
    # Imported when needed, because to look for installed packages would delay the first frame.
    from .opening import is_spelled

    provider, _, name = model.partition("/")
    return is_spelled(model) or bool(provider and name)


def load_settings(root: Path, *, whole: bool = False) -> Settings:
    """The configuration of the project in a folder; ConfigurationError says what is wrong and how to fix it.

    An error in the section of a target concerns that target alone, unless the `whole` file must be valid.
    """
    file = root / FILE
    read = _read(file, root)
    if read is None:
        return Settings()
    text, data = read
    # Imported when needed, because the workbench is shown before it needs more than its looks.
    from .config_model import ConfigModel, faults_in

    faults = faults_in(data)
    own = [place for place in faults if len(place) > 1 and place[0] == "targets"]
    if faults and (whole or len(own) < len(faults)):
        raise _faulty(file, text, faults)
    broken = {
        str(name): str(_faulty(file, text, {place: faults[place] for place in own if place[1] == name}))
        for name in dict.fromkeys(place[1] for place in own)
    }
    if broken:
        data = {**data, "targets": {name: one for name, one in data["targets"].items() if name not in broken}}
    read_model = ConfigModel.model_validate(data)
    for name in list(read_model.targets):
        if (unfit := unfit_target(name, read_model.targets[name])) is not None:
            problem = _faulty(file, text, dict([unfit]))
            if whole:
                raise problem
            broken[name] = str(problem)
    return _build_settings(read_model, file, text, broken)


def load_looks(root: Path) -> Settings:
    """The settings of the workbench only, which is enough for the first frame."""
    read = _read(root / FILE, root)
    ui = read[1].get("ui") if read is not None else None
    return Settings(ui=ui if isinstance(ui, dict) else {})


_MOST_PARTS = 100
_LONG_KEY = re.compile(rf"(?<![\w\"'-])(?:[\w\"'-]++[ \t]*+\.[ \t]*+){{{_MOST_PARTS}}}")
"""A key that takes the parser of TOML longer than the square of its parts."""


def _read(file: Path, root: Path) -> tuple[str, dict[str, Any]] | None:
    """The text of the file and its content; None if there is no file."""
    try:
        text = read_text(check_private(file, links_within=root), root=root, most=2**20)
        if _LONG_KEY.search(text):
            raise ConfigurationError(f"{file}: a key in it has more than {_MOST_PARTS} parts. Shorten it.")
        return text, tomllib.loads(text)
    except FileNotFoundError:
        return None
    except RecursionError:
        raise ConfigurationError(f"{file}: its lists or tables are nested too deeply to read.") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigurationError(f"{file} cannot be read: {problem}") from None
    except tomllib.TOMLDecodeError as problem:
        raise invalid_toml(file, text, problem) from None


def invalid_toml(file: Path, text: str, problem: tomllib.TOMLDecodeError) -> ConfigurationError:
    """A file that cannot be parsed, and where."""
    named = re.search(r"\(at line (\d+)", str(problem))
    line = named[1] if named else len(text.splitlines())
    return ConfigurationError(f"{file}:{line}: this is not valid TOML: {problem}. Fix that line.")


def _faulty(file: Path, text: str, faults: Mapping[tuple[object, ...], str]) -> ConfigurationError:
    """An error with all invalid settings and their lines; the file is named once."""
    sentences = [(line_of_setting(text, setting), sentence) for setting, sentence in faults.items()]
    first, message = sentences[0]
    for (before, _), (line, sentence) in pairwise(sentences):
        message += f"; {sentence}" if line == before else f"; line {line}: {sentence}"
    return ConfigurationError(f"{file}:{first}: {message}")


def line_of_setting(text: str, setting: Sequence[object]) -> int:
    """The line of a setting, or of the table it would be in: the first line up to which the text contains it."""
    lines = text.splitlines(keepends=True)

    def depth(number: int) -> int:
        for end in range(number, 0, -1):
            try:
                return _depth(tomllib.loads("".join(lines[:end])), setting)
            except tomllib.TOMLDecodeError:  # the value continues in the next line
                continue
        return 0

    return bisect_left(range(1, len(lines)), depth(len(lines)), key=depth) + 1


def _depth(data: Any, setting: Sequence[object]) -> int:
    """How many parts of a setting's path there are."""
    for depth, part in enumerate(setting):
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return depth
    return len(setting)


def unfit_target(name: str, target: TargetModel) -> tuple[tuple[object, ...], str] | None:
    """The path of an error in a section that can be read, and the message; None if it is valid."""
    from .opening import model_forms  # when needed, as above

    if unfit := _unfit_setting(target):
        setting, why = unfit
        return ("targets", name, setting), f"targets.{name}.{setting}: {why}"
    if target.model is not None and target.http is None and not is_model(target.model) and target.base_url is None:
        near = similar_model(target.model)
        return ("targets", name, "model"), f"targets.{name}.model: {model_forms()}, or give a base_url{near}"
    return (("targets", name), f"targets.{name}: the name of a target must hold no comma") if "," in name else None


def _build_settings(read: ConfigModel, file: Path, text: str, broken: Mapping[str, str]) -> Settings:
    run = RunDefaults(**{**read.run.model_dump(), "targets": tuple(read.run.targets)})
    targets = {
        name: target_config(name, target, run, f"{FILE}:{line_of_setting(text, ('targets', name))}")
        for name, target in read.targets.items()
        if name not in broken
    }
    return Settings(
        run=run,
        broken=broken,
        judge=read.judge.target,
        embedder=read.judge.embedding,
        targets=targets,
        ui=read.ui,
        durable=read.store.durable,
    )


def _unfit_setting(target: TargetModel) -> tuple[str, str] | None:
    """A setting that would do nothing in a section, and what to do instead."""
    from .config_model import url_fault  # when needed, as above

    model = target.model or ""
    if target.http is not None:
        for setting in ("base_url", "api_key"):
            if getattr(target, setting) is not None:
                instead = "url" if setting == "base_url" else 'headers = { Authorization = "Bearer env:MY_KEY" }'
                return setting, f"has no effect with http. Give {instead} in http"
        return ("stream", 'write http.stream = "sse" or "jsonl"') if target.stream else None
    config = TargetConfig(name="", model=model, base_url=target.base_url, via=target.via)
    if config.is_agent and (why := url_fault(model.removeprefix(AGENTS))):
        return "model", why
    if target.api != "chat" and not speaks_openai(config):
        return "api", f"does nothing for {model}, which our own client of OpenAI's protocols does not ask"
    if any("{{" in value for value in target.headers.values()):
        return "headers", "holds {{ }}, which is filled in for http targets alone"
    if model.partition(":")[0] in ("replay", "python", "command", "demo"):
        given = [name for name in ("headers", "stream") if getattr(target, name)]
        return (given[0], f"does nothing for {model}, which is not asked over HTTP") if given else None
    return None


def target_config(name: str, target: TargetModel, run: RunDefaults, where: str) -> TargetConfig:
    """The target that a section describes; `where` is the file and the line of it."""
    given = target.model_dump(exclude_none=True)
    settings = {key: value for key, value in given.items() if key not in ("price", "http", "headers", "tools")}
    service = dict(given.get("http", {}))
    headers = {**target.headers, **service.pop("headers", {})}
    http = HttpService(**service) if target.http is not None else None
    if http is not None:
        settings = {"model": f"http:{http.url.partition('://')[2] or http.url}", **settings}
    return TargetConfig(
        **{"concurrency": run.concurrency or _CONCURRENCY, **settings},
        name=name,
        price=Price(**given["price"]) if target.price is not None else None,
        tools=None if target.tools is None else tool_settings(given["tools"]),
        headers=headers,
        http=http,
        where=where,
    )


def tool_settings(given: Mapping[str, Any]) -> ToolSettings:
    """The settings of tools from plain data."""
    servers, approved = given.get("mcp", ()), given.get("approved")
    return ToolSettings(
        **{
            **given,
            "mcp": (servers,) if isinstance(servers, str) else tuple(servers),
            "approved": None if approved is None else tuple(approved),
        }
    )


_THROUGH = re.compile(r"(?P<agent>.+) through (?P<door>[^\s,]+)")
"""A word for an agent with the target that answers its model calls."""


def with_door(agent: TargetConfig, door: str) -> TargetConfig:
    """The agent with the target that answers its model calls; ConfigurationError where it is a model itself."""
    from .opening import target_kind  # when needed, as above

    if target_kind(agent).asks_model:
        raise ConfigurationError(f"{agent.name} is a model. Only an agent can be asked through another target.")
    return replace(agent, name=f"{agent.name} through {door}", door=door)


def find_target(word: str, settings: Settings, where: str = str(FILE)) -> TargetConfig:
    """The target for a word: a section of the configuration, else a model; `@NAME=VALUE` changes a parameter.

    `where` is the file that has the word. It is empty for a typed word, which is approved by typing it.
    """
    if word in settings.targets:
        return settings.targets[word]
    if word in settings.broken:
        raise ConfigurationError(settings.broken[word])
    through = _THROUGH.fullmatch(word)
    if through is not None and (through["door"] in settings.targets or is_model(through["door"])):
        return with_door(find_target(through["agent"], settings, where), through["door"])
    of, params = split_word(word)
    if params:
        return varied(find_target(of, settings, where), params)
    if word.lower().startswith(("ws://", "wss://")):
        from .config_model import NO_WEBSOCKETS  # when needed, as above

        raise ConfigurationError(f"{word} {NO_WEBSOCKETS}")
    if word.startswith(("http://", "https://")):
        raise ConfigurationError(
            f"{word} is an address: say in {FILE} how it is asked and where its answer is, as in [targets.bot] "
            f'http = {{ url = "{word}", body = {{ message = "{{{{ prompt }}}}" }}, answer = "$.text" }}; '
            'an endpoint of OpenAI\'s protocol is model = "openai/NAME" with its base_url'
        )
    if is_model(word):
        concurrency = settings.run.concurrency or _CONCURRENCY
        return TargetConfig(name=word, model=word, concurrency=concurrency, where=where)
    from .opening import model_forms  # when needed, as above

    near = did_you_mean(word, settings.targets) or similar_model(word) or did_you_mean(word, ("demo",))
    sections = f"; its targets are {', '.join(settings.targets)}" if settings.targets else ", which names none"
    raise ConfigurationError(
        f"there is no target {word} in {FILE}{sections}{near}. Name one of them, or a model: {model_forms()}"
    )
