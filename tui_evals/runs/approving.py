"""The permissions that a run needs because its project must not decide alone, and their approval."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, field, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TypeGuard

from pydantic import ValidationError

from tui_evals.datasets.discover import dataset_texts
from tui_evals.datasets.document import load
from tui_evals.datasets.paths import DatasetError
from tui_evals.datasets.resolve import EffectiveEvaluator
from tui_evals.evaluators import sandbox
from tui_evals.evaluators.base import Evaluator, ModelOptions
from tui_evals.evaluators.custom import CustomEvaluator
from tui_evals.evaluators.libraries import LIBRARIES
from tui_evals.evaluators.libraries.metric import LibraryMetric
from tui_evals.evaluators.registry import Registry, UnknownEvaluator, engine_evaluators
from tui_evals.evaluators.trust import Trust, TrustError, code_digest, code_files
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_bytes
from tui_evals.runs.executors.cluster.terms import ClusterTerms
from tui_evals.runs.experiments import Experiment, readable_experiments, with_experiment
from tui_evals.runs.project import Project, adopt, adopted_stores, store_permission
from tui_evals.runs.tools import DATASET, dataset_permissions, dataset_settings
from tui_evals.targets.base import ConfigurationError, TargetConfig
from tui_evals.targets.config import FILE, Settings, find_target
from tui_evals.targets.permissions import (
    Approvals,
    NotApproved,
    Permission,
    one_line,
    permissions_of,
    tool_permissions,
)
from tui_evals.targets.sources import Manifest, file_manifest
from tui_evals.targets.user_code import CodeReview

from .plan import Plan


@dataclass(frozen=True, slots=True)
class AgreedPermissions:
    """The permissions that the user has given in a project."""

    is_own: bool
    """Whether the whole project is the user's own."""
    entries: tuple[Mapping[str, str], ...]
    """Each yes, the oldest first."""


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """The question about a project: the permissions it needs, besides those given before."""

    root: Path
    missing: tuple[Permission, ...]
    agreed: tuple[Mapping[str, str], ...]
    reviews: Mapping[str, CodeReview] = field(default_factory=dict)
    """The code to read, by the digest of its permission."""

    def has_changed(self, permission: Permission) -> bool:
        """Whether the same was agreed to while its code was other code."""
        review = self.reviews.get(permission.digest)
        known = any(entry["kind"] == permission.kind and entry["does"] == permission.does for entry in self.agreed)
        return known or (review is not None and not review.is_new)


def permission_request(missing: Sequence[Permission], root: Path) -> PermissionRequest:
    """The question about permissions that are missing."""
    approvals = Approvals(root)
    reviews = {one.digest: review for one in missing if (review := approvals.review(one)) is not None}
    return PermissionRequest(root, tuple(missing), tuple(approvals.agreed()), reviews)


def agreed_permissions(root: Path) -> AgreedPermissions:
    """Everything agreed to in a project."""
    approvals = Approvals(root)
    stores = [
        {"does": f"answers from the store {one.path}", "where": "", "when": _day(one.time)}
        for one in adopted_stores(root)
    ]
    return AgreedPermissions(approvals.is_own, (*approvals.agreed(), *stores))


def _day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


def missing_permissions(
    project: Project, plan: Plan, cluster: ClusterTerms | None, judges: Iterable[TargetConfig], *, judging: bool = True
) -> list[Permission]:
    """The permissions that a run needs and does not have. No code of the project runs to find out.

    Evaluators count only with `judging`; otherwise they report that they could not judge.
    """
    used = chain.from_iterable(entries for entries, _ in plan.evaluator_sets)
    more = [*model_permissions(used, plan.registry), *(cluster_permissions(cluster) if cluster is not None else [])]
    more += tool_permissions(dataset_settings(plan.dataset), DATASET, project.root, project.environment)
    asked = () if plan.only_judging else plan.targets
    missing = missing_of_targets(project, (*asked, *judges), more)
    return [*missing, *(untrusted_evaluators(project, _own_evaluators(plan), plan.registry) if judging else ())]


def _own_evaluators(plan: Plan) -> set[str]:
    """The evaluators of the project that judge the planned items."""
    used = {entry.evaluator for entries, _ in plan.evaluator_sets for entry in entries}
    return {name for name in used if _is_own(plan.registry.by_name.get(name))}


def _is_own(kind: type[Evaluator] | None) -> TypeGuard[type[CustomEvaluator]]:
    return kind is not None and issubclass(kind, CustomEvaluator)


def missing_of_targets(
    project: Project, configs: Iterable[TargetConfig], more: Iterable[Permission] = ()
) -> list[Permission]:
    """The missing permissions of some targets."""
    if project.trusting:
        return []
    variables, root = project.environment, project.root
    wanted = (permission for config in configs for permission in permissions_of(config, variables, root))
    return Approvals(root).missing(chain(wanted, more))


def missing_of_project(project: Project, more: Iterable[TargetConfig] = ()) -> list[Permission]:
    """The missing permissions of a project's settings, evaluators and datasets, and of `more` targets."""
    settings = project.settings
    configs = [*settings.targets.values(), *more]
    for word in settings.words - settings.targets.keys():
        with suppress(ConfigurationError):  # said where it is used
            configs.append(find_target(word, settings))
    registry = project.registry
    loaded = model_permissions(_evaluators_of_datasets(project), registry)
    found = [one for experiment in readable_experiments(project.root) for one in _missing_of(experiment, project)]
    return [
        *{one.digest: one for one in found}.values(),
        *missing_of_targets(project, configs, [*dataset_permissions(project.root, project.environment), *loaded]),
        *untrusted_evaluators(project, registry.by_name, registry),
        *filter(None, [missing_store(project)]),
    ]


def _missing_of(experiment: Experiment, project: Project) -> list[Permission]:
    """The missing permissions of an experiment's targets, judges and files."""
    with suppress(ConfigurationError, DatasetError):  # said where it is run
        here = with_experiment(project, experiment)
        configs = [*experiment.targets(project.settings), *filter(None, [experiment.judge(project.settings)])]
        more = [
            config for name, config in here.settings.targets.items() if project.settings.targets.get(name) != config
        ]
        return missing_of_targets(here, [*configs, *more], experiment.permissions())
    return []


def missing_store(project: Project) -> Permission | None:
    """The permission to use a project's cached answers and baselines; None if the store is the user's own or missing.

    A run can start without it, and then asks everything again.
    """
    if project.trusting or not project.has_store:
        return None
    return store_permission(project.root, project.store)


def untrusted_evaluators(project: Project, names: Iterable[str], registry: Registry) -> list[Permission]:
    """The evaluators among `names` that are code of the project and not trusted in their current state."""
    wanted: list[Permission] = []
    root = project.root
    for name in () if project.trusting else sorted(names):
        kind = registry.by_name.get(name)
        if not _is_own(kind):
            continue
        try:
            files = code_files(kind.folder)
        except (OSError, TrustError):  # missing code is reported when it should judge
            continue
        if not kind.trust.accepts(kind.folder, files):
            place = kind.folder.relative_to(root) if kind.folder.is_relative_to(root) else kind.folder
            digests = tuple((file, hashlib.sha256(data).hexdigest()) for file, data in sorted(files.items()))
            manifest = Manifest(kind.folder, digests, texts=files)
            does, code = f"runs the evaluator {name}", code_digest(files)
            wanted.append(Permission("evaluator", does, str(place), code, kind.folder, manifest))
    return wanted


def cluster_permissions(cluster: ClusterTerms) -> list[Permission]:
    """The permission to hand a run to a cluster; workers on this machine need none."""
    if cluster.word.partition(":")[0] == "local" and not cluster.forward:
        return []
    parts = [f"hands its work, answers included, to the cluster {cluster.word}"]
    if cluster.insecure:
        parts.append("without encryption")
    if cluster.forward:
        parts.append(f"with the variables {', '.join(cluster.forward)}")
    return [Permission("cluster", " ".join(parts), "the stored run", _cluster_content(cluster))]


def _cluster_content(cluster: ClusterTerms) -> str:
    """Everything that decides who gets the work: the certificates that are named, and the hosts of a file."""
    kind, _, rest = cluster.word.partition(":")
    hosts = ""
    with suppress(OSError, ValueError):  # said where the cluster is opened
        if kind == "ssh":
            hosts = hashlib.sha256(read_bytes(Path(rest), follow_out=True)).hexdigest()
    return json.dumps([asdict(cluster), hosts])


def model_permissions(entries: Iterable[EffectiveEvaluator], registry: Registry) -> list[Permission]:
    """The permissions of evaluators that load a model or library of the dataset's choice, or run its code."""
    wanted = []
    for entry in entries:
        if not engine_evaluators().isdisjoint(_names_of(entry)) and sandbox.isolation_kind() is None:
            wanted.append(
                Permission("function", "judges with JavaScript, which this machine cannot isolate", "the dataset")
            )
        try:
            kind = registry.find(entry.evaluator)
        except UnknownEvaluator:
            continue  # the code that needs it reports that it is missing
        if issubclass(kind.Options, ModelOptions):
            options = kind.Options.model_validate(entry.settings)
            if options.model != ModelOptions.model_fields["model"].default:
                does = f"loads the model {one_line(options.model)} for {entry.evaluator}"
                wanted.append(Permission("address", does, "the dataset"))
        elif issubclass(kind, LibraryMetric):
            does, code = kind.approval(entry.settings)
            wanted.append(Permission("function", one_line(does), "the dataset", code))
    return wanted


def _names_of(entry: EffectiveEvaluator) -> Iterator[str]:
    """The evaluator, and those that are in it."""
    yield entry.evaluator
    for held in (entry.settings.get("evaluators"), entry.settings.get("evaluator")):
        for key, options in held.items() if isinstance(held, Mapping) else ():
            yield str(options.get("type", key) if isinstance(options, Mapping) else key)


def _evaluators_of_datasets(project: Project) -> Iterator[EffectiveEvaluator]:
    """The evaluators that the datasets of a project name, where some of them load something."""
    for file, text in dataset_texts(project.root):
        named = (*(f'"{name}"' for name in engine_evaluators()), *(f'"{library}:' for library in LIBRARIES))
        if '"model' in text or any(word in text for word in named):
            with suppress(DatasetError):  # said where it is opened
                yield from _named_evaluators(load(file).data, project.registry)


def _named_evaluators(data: Mapping[str, object], registry: Registry) -> Iterator[EffectiveEvaluator]:
    """The evaluators of a dataset whose options are valid; others cannot load anything."""
    items = data.get("items")
    units = [data, *(item for item in (items if isinstance(items, list) else ()) if isinstance(item, dict))]
    units += [turn for unit in units[1:] for turn in unit.get("turns") or () if isinstance(turn, dict)]
    for unit in units:
        given = unit.get("default_evaluators" if unit is data else "evaluators")
        for key, options in given.items() if isinstance(given, dict) else ():
            entry = EffectiveEvaluator(key, options, "dataset")
            with suppress(UnknownEvaluator, ValidationError):
                registry.find(entry.evaluator).Options.model_validate(entry.settings)
                yield entry


def agree_to_file(file: Path, root: Path) -> None:
    """Let approved code load a file of the project, and its imports."""
    Approvals(root).agree_to_files(dict(file_manifest(file, root).files))


def agree(permissions: Sequence[Permission], root: Path) -> None:
    """Store the user's agreement to these permissions, each in the state that was shown."""
    approvals = Approvals(root)
    approvals.agree(permission for permission in permissions if permission.path is None)
    approvals.remember_code(permissions)
    for permission in permissions:
        if permission.kind == "store" and permission.path is not None:
            adopt(permission.path)
        elif permission.path is not None:
            Trust().agree(permission.path, permission.content)


def agree_to_typed(
    configs: Iterable[TargetConfig], environment: Mapping[str, str], root: Path, cluster: ClusterTerms | None = None
) -> None:
    """Approve the typed parts, so that resuming the run does not ask again; parts from files are not included."""
    wanted: list[Permission] = []
    for config in configs:
        if not config.where:
            of_files = {one.digest for one in permissions_of(config, environment, root)}
            typed = permissions_of(replace(config, where="typed"), environment, root)
            wanted += [one for one in typed if one.digest not in of_files]
    Approvals(root).agree([*wanted, *(cluster_permissions(cluster) if cluster is not None else [])], typed=True)


def demand(project: Project, plan: Plan, cluster: ClusterTerms | None, judges: Iterable[TargetConfig]) -> None:
    """Refuse a run that calls a host, or gives it work, without permission."""
    if missing := missing_permissions(project, plan, cluster, judges, judging=False):
        raise NotApproved(missing, project.root)


def find_typed(word: str, settings: Settings) -> TargetConfig:
    """The target of a word that a face was given: typed, unless the settings of the project say the same word."""
    return find_target(word, settings, str(FILE) if word in settings.words else "")
