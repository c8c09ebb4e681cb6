"""The cluster that a command names, checked before anything is asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tui_evals.runs.executors.cluster.terms import ClusterTerms, checked, place
from tui_evals.runs.launch import Terms
from tui_evals.targets.base import ConfigurationError

from .output import Stop, warn

HERE = "none"
"""The word that brings a run back from its cluster into this process."""
OPTIONS = ("cluster", "insecure_cluster", "tls_ca", "tls_cert", "tls_key", "forward_env")


def clustered(terms: Terms, options: Mapping[str, Any], environment: Mapping[str, str]) -> Terms:
    """The terms of a run with the cluster that the command names instead of the one it had."""
    word = options["cluster"]
    if word is None:
        lost = [name for name in OPTIONS if options[name]]
        if lost:
            raise Stop(f"--{lost[0].replace('_', '-')} belongs to --cluster; name a cluster as well")
        found = terms.cluster
    elif word == HERE:
        found = None
    else:
        kind, _, rest = word.partition(":")
        found = ClusterTerms(
            word=f"ssh:{_whole(rest)}" if kind == "ssh" and rest else word,
            insecure=options["insecure_cluster"],
            **{name: options[name] and _whole(options[name]) for name in ("tls_ca", "tls_cert", "tls_key")},
            forward=tuple(options["forward_env"]),
        )
    if found is not None:
        for note in _notes(found, environment):
            warn(f"warning: {note}")
    return replace(terms, cluster=found)


def _notes(found: ClusterTerms, environment: Mapping[str, str]) -> tuple[str, ...]:
    """What is to be said of a cluster, or the end of the command with what is wrong with it."""
    try:
        place(found.word)
    except ConfigurationError as problem:
        raise Stop(str(problem)) from None
    for name in found.forward:
        if name not in environment:
            raise Stop(f"--forward-env {name}: there is no such variable here")
    try:
        return checked(found)
    except ConfigurationError as problem:
        raise Stop(str(problem), 3) from None


def _whole(path: str) -> str:
    """The path from the root, for whoever goes on with the run from another folder."""
    return str(Path(path).expanduser().absolute())


def said_again(options: Mapping[str, Any]) -> list[str]:
    """The same options as words, for the process that goes on with a run in the background."""
    words: list[str] = []
    for name in OPTIONS:
        given, option = options[name], f"--{name.replace('_', '-')}"
        if given is True:
            words.append(option)
        elif isinstance(given, tuple):
            words += [word for each in given for word in (option, each)]
        elif given:
            words += [option, given]
    return words
