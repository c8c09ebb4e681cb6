"""`.evals/config.toml`: the defaults of a run, the judge, and the targets by name."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from tui_evals.private_files import check_private
from tui_evals.text.nearest import did_you_mean

from .base import ConfigurationError, Price, TargetConfig
from .opening import is_spelled, model_forms
from .prices import similar_model

FILE = Path(".evals", "config.toml")

_CONCURRENCY = 10

_REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]{0,200}")
_SECRET = re.compile(r"api[_-]?key|authorization|password|secret|credential", re.IGNORECASE)
_SECRET_QUERY = re.compile(r"key|token|sig|auth|password|secret|credential", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDefaults:
    """The defaults of a run for what the command line does not give."""

    targets: tuple[str, ...] = ()
    concurrency: int | None = None
    repeats: int = 1
    max_cost: float | None = None
    confirm_cost: float = 1.0
    """US dollars above which the workbench does not start a run by a single key; `confirm_calls` the same of calls."""
    confirm_calls: int = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The configuration of a project."""

    run: RunDefaults = field(default_factory=RunDefaults)
    judge: str | None = None
    targets: Mapping[str, TargetConfig] = field(default_factory=dict)
    ui: Mapping[str, Any] = field(default_factory=dict)
    durable: bool = False
    """Whether everything that is stored waits until it is on the disk."""

    @property
    def variables(self) -> frozenset[str]:
        """The variables that the targets refer to."""
        written = (value for target in self.targets.values() for value in (target.base_url, target.api_key))
        return frozenset(value.removeprefix("env:") for value in written if value and value.startswith("env:"))

    @property
    def words(self) -> frozenset[str]:
        """The targets that the configuration names for runs and for judging."""
        return frozenset((*self.run.targets, *filter(None, [self.judge])))


def is_model(model: str) -> bool:
    """Whether a model is spelled in one of the known ways."""
    provider, _, name = model.partition("/")
    return is_spelled(model) or bool(provider and name)


def _check_reference(value: str) -> str:
    if not _REFERENCE.fullmatch(value):
        raise ValueError("must name an environment variable, as in env:OPENAI_API_KEY; a key itself has no place here")
    return value


def _check_url(value: str) -> str:
    if _REFERENCE.fullmatch(value):
        return value
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an address such as http://127.0.0.1:8000/v1, or name a variable as in env:MY_URL")
    if "@" in parts.netloc or any(
        _SECRET_QUERY.search(name) for name, _ in parse_qsl(parts.query, keep_blank_values=True)
    ):
        raise ValueError(
            "must hold no key, user or password; write the address into a variable and name it: env:MY_URL"
        )
    return value


def _check_params(value: dict[str, Any]) -> dict[str, Any]:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError("must hold text, finite numbers, true, false, lists and tables only, and no dates") from None
    if _names_secret(value):
        raise ValueError("must hold no key or password, for params are stored with every run; use api_key = env:NAME")
    return value


def _names_secret(value: object) -> bool:
    if isinstance(value, dict):
        return any(_SECRET.search(name) or _names_secret(part) for name, part in value.items())
    return isinstance(value, list) and any(map(_names_secret, value))


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False, hide_input_in_errors=True)


class _Run(_Part):
    targets: list[Annotated[str, Field(min_length=1)]] = []
    concurrency: int | None = Field(None, ge=1)
    repeats: int = Field(1, ge=1)
    max_cost: float | None = Field(None, ge=0)
    confirm_cost: float = Field(1.0, ge=0)
    confirm_calls: int = Field(500, ge=0)


class _Judge(_Part):
    target: str | None = Field(None, min_length=1)


class _Store(_Part):
    durable: bool = False


class _Price(_Part):
    input_per_million: float = Field(ge=0)
    output_per_million: float = Field(ge=0)


class _Target(_Part):
    model: str = Field(min_length=1)
    base_url: Annotated[str, AfterValidator(_check_url)] | None = None
    api_key: Annotated[str, AfterValidator(_check_reference)] | None = None
    params: Annotated[dict[str, Any], AfterValidator(_check_params)] = {}
    concurrency: int | None = Field(None, ge=1)
    requests_per_minute: float | None = Field(None, gt=0)
    tokens_per_minute: float | None = Field(None, gt=0)
    timeout: float = Field(60.0, gt=0)
    retries: int = Field(3, ge=0, le=100)
    max_wait: float = Field(300.0, ge=0)
    max_outage: float = Field(300.0, ge=0)
    price: _Price | None = None
    via: Literal["auto", "litellm"] = "auto"


class _File(_Part):
    run: _Run = _Run()
    judge: _Judge = _Judge()
    store: _Store = _Store()
    targets: dict[str, _Target] = {}
    ui: dict[str, Any] = {}


_PARTS: Mapping[str, type[_Part]] = {
    "": _File,
    "run": _Run,
    "judge": _Judge,
    "store": _Store,
    "targets.*": _Target,
    "targets.*.price": _Price,
}


def load_settings(root: Path) -> Settings:
    """The configuration of the project at a folder; ConfigurationError says what is wrong in it and how to mend it."""
    file = root / FILE
    try:
        text = check_private(file, links_within=root).read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigurationError(f"{file} cannot be read: {problem}") from None
    except tomllib.TOMLDecodeError as problem:
        raise invalid_toml(file, text, problem) from None
    try:
        return _build_settings(_File.model_validate(data), file, text)
    except ValidationError as problem:
        faults = problem.errors(include_url=False, include_input=False)
        raise _faulty(file, text, {tuple(fault["loc"]): _fault_sentence(fault) for fault in faults}) from None


def invalid_toml(file: Path, text: str, problem: tomllib.TOMLDecodeError) -> ConfigurationError:
    """A file that cannot be parsed, and where."""
    named = re.search(r"\(at line (\d+)", str(problem))
    line = named[1] if named else len(text.splitlines())
    return ConfigurationError(f"{file}:{line}: this is not valid TOML: {problem}. Mend that line.")


def _faulty(file: Path, text: str, faults: Mapping[tuple[object, ...], str]) -> ConfigurationError:
    """What is wrong with settings, each with its line; the file is named once."""
    sentences = [(_line_of(text, setting), sentence) for setting, sentence in faults.items()]
    first, message = sentences[0]
    for (before, _), (line, sentence) in pairwise(sentences):
        message += f"; {sentence}" if line == before else f"; line {line}: {sentence}"
    return ConfigurationError(f"{file}:{first}: {message}")


def _line_of(text: str, setting: Sequence[object]) -> int:
    """The line on which a setting stands, or else what it would stand in: where the text read so far first holds it."""
    lines = text.splitlines(keepends=True)
    best, found = 0, 1
    for number in range(1, len(lines) + 1):
        try:
            depth = _depth(tomllib.loads("".join(lines[:number])), setting)
        except tomllib.TOMLDecodeError:  # the value goes on in the next line
            continue
        if depth > best:
            best, found = depth, number
    return found


def _depth(data: Any, setting: Sequence[object]) -> int:
    """How many parts of a setting's path there are."""
    for depth, part in enumerate(setting):
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return depth
    return len(setting)


def _build_settings(read: _File, file: Path, text: str) -> Settings:
    for name, target in read.targets.items():
        if not is_model(target.model) and target.base_url is None:
            near = similar_model(target.model)
            sentence = f"targets.{name}.model: {model_forms()}, or give a base_url{near}"
            raise _faulty(file, text, {("targets", name, "model"): sentence})
        if "," in name:
            raise _faulty(file, text, {("targets", name): f"targets.{name}: the name of a target must hold no comma"})
    run = RunDefaults(**{**read.run.model_dump(), "targets": tuple(read.run.targets)})
    targets = {
        name: _target_config(name, target, run, f"{FILE}:{_line_of(text, ('targets', name))}")
        for name, target in read.targets.items()
    }
    return Settings(run=run, judge=read.judge.target, targets=targets, ui=read.ui, durable=read.store.durable)


def _target_config(name: str, target: _Target, run: RunDefaults, where: str) -> TargetConfig:
    settings = {key: value for key, value in target.model_dump(exclude_none=True).items() if key != "price"}
    price = None if target.price is None else Price(target.price.input_per_million, target.price.output_per_million)
    return TargetConfig(
        **{"concurrency": run.concurrency or _CONCURRENCY, **settings}, name=name, price=price, where=where
    )


def _fault_sentence(fault: Any) -> str:
    """A validation error as a sentence that names the setting and repeats no value."""
    place = [str(part) for part in fault["loc"]]
    setting = ".".join(place)
    if fault["type"] == "extra_forbidden":
        parent = ["targets", "*", *place[2:-1]] if place[0] == "targets" else place[:-1]
        known = list(_PARTS[".".join(parent)].model_fields)
        return f"there is no setting {setting}{did_you_mean(place[-1], known)}; known here are {', '.join(known)}"
    if fault["type"] == "missing":
        return f"{setting} is missing"
    reason = fault["msg"].removeprefix("Value error, ").replace("Input should", "should")
    return f"{setting} {reason}"


def find_target(word: str, settings: Settings, where: str = str(FILE)) -> TargetConfig:
    """The target a word means: a section of the configuration, else a model by its spelling.

    `where` is the file that says the word; it is empty where somebody typed it, which is a yes for what it does.
    """
    if word in settings.targets:
        return settings.targets[word]
    if is_model(word):
        concurrency = settings.run.concurrency or _CONCURRENCY
        return TargetConfig(name=word, model=word, concurrency=concurrency, where=where)
    near = did_you_mean(word, settings.targets) or similar_model(word) or did_you_mean(word, ("demo",))
    sections = f"; its targets are {', '.join(settings.targets)}" if settings.targets else ", which names none"
    raise ConfigurationError(
        f"there is no target {word} in {FILE}{sections}{near}. Name one of them, or a model: {model_forms()}"
    )
