"""The parameters that an eval of a registry suggests, for targets whose configuration says nothing of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import Settings, find_target
from tui_evals.targets.opening import target_kind

from .approving import find_typed

SOURCE = "registry:"
"""How the source of a run begins whose items come from a registry."""
_LENGTHS = {"max_tokens", "max_completion_tokens"}
# A registry comes from elsewhere, so nothing of it may say where a question goes or what key goes with it.
_SAMPLING = {"temperature", "top_p", "presence_penalty", "frequency_penalty", "seed", "stop", *_LENGTHS}


def settings_of_run(run: RunRow, reader: Reader, settings: Settings) -> Settings:
    """The settings in which a stored run was started, as far as its eval suggests parameters."""
    if not run.source.startswith(SOURCE):
        return settings
    judge = run.config.get("judge")
    named = [target["name"] for target in run.config.get("targets", ())]
    return suggested(settings, reader.snapshot(run.snapshot), named, judge["name"] if judge else None)


def suggested(
    settings: Settings,
    document: Mapping[str, Any],
    targets: Sequence[str],
    judge: str | None,
    where: str = "the stored run",
) -> Settings:
    """The settings with the parameters a document suggests under those that are configured.

    `where` says where the targets are named; it is empty where somebody typed them.
    A target that also judges gets those alone that both roles share.
    """
    origin = (document.get("extensions") or {}).get("openai_evals") or {}
    answering, judging = (sampling(origin.get(part)) for part in ("params", "judge_params"))
    configured = dict(settings.targets)
    for word in dict.fromkeys((*targets, *((judge,) if judge else ()))):
        wanted = judging if word not in targets else answering
        if word in targets and word == judge:
            wanted = {name: value for name, value in answering.items() if judging.get(name, value) == value}
        try:
            config = find_target(word, settings, where) if where else find_typed(word, settings)
            asks_model = target_kind(config).asks_model
        except ConfigurationError:  # said where the targets are named
            continue
        if asks_model:
            configured[word] = replace(config, params={**_not_configured(wanted, config.params), **config.params})
    return replace(settings, targets=configured)


def sampling(params: object) -> dict[str, Any]:
    """The parameters that say how a model samples and for how long; all else is passed over."""
    given = params if isinstance(params, Mapping) else {}
    return {name: value for name, value in given.items() if name in _SAMPLING and _is_plain(value)}


def _is_plain(value: object) -> bool:
    if isinstance(value, list):
        return all(isinstance(part, str) for part in value)
    return isinstance(value, int | str) or (isinstance(value, float) and isfinite(value))


def _not_configured(wanted: Mapping[str, Any], configured: Mapping[str, Any]) -> dict[str, Any]:
    """What is wanted and not configured; a length under one name is a length under the other."""
    known = set(configured) | (_LENGTHS if _LENGTHS & set(configured) else set())
    return {name: value for name, value in wanted.items() if name not in known}
