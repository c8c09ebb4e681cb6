"""From the options of a command to what it asks of a run: the request, and the cluster that executes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tui_evals.cli.output import Stop, warn
from tui_evals.cli.sources import evaluators_named
from tui_evals.datasets.discover import project_root
from tui_evals.datasets.document import Document
from tui_evals.runs.approving import agree, cluster_permissions
from tui_evals.runs.executors.cluster.terms import ClusterTerms, check_terms, parse_place
from tui_evals.runs.project import Project
from tui_evals.runs.selection import ItemSelection
from tui_evals.runs.start import RunRequest
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.sweep import Sweep, read_sweep

HERE = "none"
"""The word that brings a run back from its cluster into this process."""
OPTIONS = ("cluster", "insecure_cluster", "tls_ca", "tls_cert", "tls_key", "forward_env")


def chosen_cluster(
    options: Mapping[str, Any], environment: Mapping[str, str], had: ClusterTerms | None = None
) -> ClusterTerms | None:
    """The cluster that the command names instead of the one a run had; warns of what it cannot keep secret."""
    word = options["cluster"]
    if word is None:
        lost = [name for name in OPTIONS if options[name]]
        if lost:
            raise Stop(f"--{lost[0].replace('_', '-')} belongs to --cluster; name a cluster as well")
        cluster = had
    elif word == HERE:
        cluster = None
    else:
        kind, _, rest = word.partition(":")
        cluster = ClusterTerms(
            word=f"ssh:{_absolute(rest)}" if kind == "ssh" and rest else word,
            insecure=options["insecure_cluster"],
            **{name: options[name] and _absolute(options[name]) for name in ("tls_ca", "tls_cert", "tls_key")},
            forward=tuple(options["forward_env"]),
        )
        agree(cluster_permissions(cluster), project_root(Path.cwd()))
    if cluster is not None:
        for note in _notes(cluster, environment):
            warn(f"warning: {note}")
    return cluster


def _notes(cluster: ClusterTerms, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The notes on a cluster, or Stop with its problem."""
    try:
        parse_place(cluster.word)
    except ConfigurationError as problem:
        raise Stop(str(problem)) from None
    for name in cluster.forward:
        if name not in environment:
            raise Stop(f"--forward-env {name}: there is no such variable here")
    try:
        return check_terms(cluster)
    except ConfigurationError as problem:
        raise Stop(str(problem), 3) from None


def _absolute(path: str) -> str:
    """The path from the root, for whoever goes on with the run from another folder."""
    return str(Path(path).expanduser().absolute())


def cluster_words(options: Mapping[str, Any]) -> list[str]:
    """The same options as words, for the process that goes on with a run in the background."""
    words: list[str] = []
    for name in OPTIONS:
        value, option = options[name], f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif isinstance(value, tuple):
            words += [word for part in value for word in (option, part)]
        elif value:
            words += [option, value]
    return words


def request_of(document: Document, here: Project, options: Mapping[str, Any], *, source: str, name: str) -> RunRequest:
    """The request of `tui-evals run` options."""
    chosen = ItemSelection(
        items=options["items"],
        only=options["only"],
        run=options["from_run"],
        limit=options["limit"],
        seed=options["seed"],
    )
    return RunRequest(
        document=document,
        source=source,
        name=name,
        tags=tuple(options["tags"]),
        parent=options["parent"],
        targets=target_words(options),
        sweep=sweep_of(options),
        judge=options["judge"],
        without_judges=options["without_judges"],
        evaluators=evaluators_named(options["evaluators"]) if options["evaluators"] else None,
        prompts=tuple(options["prompts"]),
        repeats=options["repeats"],
        items=chosen,
        concurrency=options["concurrency"],
        max_cost=options["max_cost"],
        use_cache=not options["no_cache"],
        allow_unjudged=options["allow_unjudged"],
        cluster=chosen_cluster(options, here.environment),
    )


def sweep_of(options: Mapping[str, Any]) -> Sweep:
    """The parameters that the command line varies."""
    try:
        return read_sweep(options["sweep"])
    except ConfigurationError as problem:
        raise Stop(str(problem)) from None


def target_words(options: Mapping[str, Any]) -> tuple[str, ...]:
    """The targets that the command line names, by commas or one by one."""
    return tuple(word for names in options["targets"] for word in names.split(",") if word)
