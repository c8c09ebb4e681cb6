"""A target with other parameters, as a word of its own: `gpt@temperature=0.7`, and sweeps over their values.

The word says everything, so that a swept target is a target like any other: stored, resumed, cached, filtered and
compared by its name and its parameters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product

from .base import ConfigurationError, TargetConfig

Value = str | int | float | bool
Sweep = Mapping[str, Sequence[Value]]
"""The values that each parameter takes in turn."""

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_VARIED = re.compile(rf"(?P<of>.+?)(?P<params>(?:@{_NAME}=[^@\s,=]+)+)")
_GIVEN = re.compile(rf"(?P<name>{_NAME})=(?P<values>\S+)")
_UNFIT = re.compile(r"[\s,@=]")
_MOST = 1_000
_MODEL = "model"
_TAKE_NONE = ("command:", "replay:")
"""Kinds whose words may hold such signs themselves, and which have no parameters unless a section gives them."""


def split_word(word: str) -> tuple[str, dict[str, Value]]:
    """The target that a word means, and the parameters it has otherwise; none where the word says none."""
    match = None if word.startswith(_TAKE_NONE) else _VARIED.fullmatch(word)
    if match is None:
        return word, {}
    pairs = (part.split("=", 1) for part in match["params"][1:].split("@"))
    return match["of"], {name: read_value(text) for name, text in pairs}


def base_name(name: str) -> str:
    """The name of a target without its swept values."""
    return split_word(name)[0]


def varied(config: TargetConfig, params: Mapping[str, Value]) -> TargetConfig:
    """A target with other parameters, and a name that says which."""
    if not params:
        return config
    if config.name.startswith(_TAKE_NONE):
        raise ConfigurationError(
            f"{config.name} has no parameters to vary as it is written; give it a section [targets.NAME] in "
            ".evals/config.toml and name that"
        )
    # Imported when needed, because it takes pydantic, which nothing else needs so early.
    from .config_model import check_params, misplaced_parameter

    sent = {name: value for name, value in params.items() if name != _MODEL}
    try:
        check_params(dict(sent))
        if config.http is None and (why := misplaced_parameter(sent)):
            raise ValueError(why)
    except ValueError as problem:
        raise ConfigurationError(f"the parameters of {config.name} {problem}") from None
    base, before = split_word(config.name)
    named = {**before, **params}
    name = base + "".join(f"@{key}={_text(value)}" for key, value in named.items())
    asked = _with_model(config, _text(params[_MODEL])) if _MODEL in params else config
    return replace(asked, name=name, params={**config.params, **sent})


def _with_model(config: TargetConfig, model: str) -> TargetConfig:
    """The target with another model of the same provider, priced by the table unless it has its own address."""
    provider, slash, _ = config.model.partition("/")
    if ":" in provider or not slash:
        raise ConfigurationError(f"{config.name} has no model of a provider, so that model cannot be swept")
    full = model if model.startswith(f"{provider}/") or "/" in model else f"{provider}/{model}"
    if config.api_key is not None and not full.startswith(f"{provider}/"):
        raise ConfigurationError(
            f"{config.name} sends the key of {provider}. To ask {full}, give it a section of its own in "
            ".evals/config.toml."
        )
    return replace(config, model=full, price=config.price if config.base_url is not None else None)


def swept(configs: Iterable[TargetConfig], sweep: Sweep) -> tuple[TargetConfig, ...]:
    """Each target with each combination of the values, in order; the same one only once."""
    choices = [[(name, value) for value in values] for name, values in sweep.items()]
    found = {
        made.name: made
        for config in configs
        for params in product(*choices)
        for made in (varied(config, dict(params)),)
    }
    if len(found) > _MOST:
        raise ConfigurationError(
            f"the sweep makes {len(found):,} targets, and {_MOST:,} are the most; name fewer values"
        )
    return tuple(found.values())


def read_sweep(words: Iterable[str]) -> dict[str, tuple[Value, ...]]:
    """The sweep of words such as `temperature=0,0.7`; ConfigurationError says which cannot be read."""
    sweep: dict[str, tuple[Value, ...]] = {}
    for word in words:
        match = _GIVEN.fullmatch(word.strip())
        texts = match["values"].split(",") if match else []
        if match is None or not all(texts) or any(map(_UNFIT.search, texts)):
            raise ConfigurationError(
                f"{word!r} names no parameter with its values; write temperature=0,0.7: a name, numbers, words, true "
                "or false with commas between them. Anything longer belongs into params of a section [targets.NAME]"
            )
        values = (*sweep.get(match["name"], ()), *map(read_value, texts))
        sweep[match["name"]] = tuple({_text(value): value for value in values}.values())
    return sweep


def read_value(text: str) -> Value:
    """A typed value: a number, true or false, else the word itself."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    finite = isinstance(value, int | float) and value == value and abs(value) != float("inf")
    return value if finite else text


def _text(value: Value) -> str:
    return value if isinstance(value, str) else json.dumps(value)
