"""What a run would do that its project may not decide alone, and the yes to it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TypeGuard

from pydantic import ValidationError

from tui_evals.datasets.discover import dataset_files
from tui_evals.datasets.document import load
from tui_evals.datasets.problems import DatasetError
from tui_evals.datasets.resolve import EffectiveEvaluator
from tui_evals.evaluators.base import Evaluator, ModelOptions
from tui_evals.evaluators.custom import CustomEvaluator
from tui_evals.evaluators.libraries.location import LIBRARIES
from tui_evals.evaluators.libraries.metric import LibraryMetric
from tui_evals.evaluators.registry import Registry, UnknownEvaluator
from tui_evals.evaluators.trust import Trust, TrustError, code_digest, code_files
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

from .executors.cluster.terms import ClusterTerms
from .plan import Plan
from .project import Project
from .toolbox import dataset_permissions, dataset_settings


@dataclass(frozen=True, slots=True)
class AgreedPermissions:
    """What somebody has agreed to in a project."""

    is_own: bool
    """Whether the whole project is the user's own."""
    entries: tuple[Mapping[str, str], ...]
    """Each yes, the oldest first."""


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """The one question about a project: what it would do, beside what was agreed to before."""

    root: Path
    missing: tuple[Permission, ...]
    agreed: tuple[Mapping[str, str], ...]

    def has_changed(self, permission: Permission) -> bool:
        """Whether the same was agreed to while its code was other code."""
        return any(entry["kind"] == permission.kind and entry["does"] == permission.does for entry in self.agreed)


def permission_request(missing: Sequence[Permission], root: Path) -> PermissionRequest:
    """The question about what nobody has agreed to yet."""
    return PermissionRequest(root, tuple(missing), tuple(Approvals(root).agreed()))


def agreed_permissions(root: Path) -> AgreedPermissions:
    """Everything agreed to in a project."""
    approvals = Approvals(root)
    return AgreedPermissions(approvals.is_own, tuple(approvals.agreed()))


def missing_permissions(
    project: Project, plan: Plan, cluster: ClusterTerms | None, judges: Iterable[TargetConfig], *, judging: bool = True
) -> list[Permission]:
    """What a run would do that nobody has agreed to yet; nothing of the project is run to find out.

    Evaluators count where it depends on them, `judging`; without a yes they say that they could not judge.
    """
    used = chain.from_iterable(entries for entries, _ in plan.evaluator_sets)
    more = [*model_permissions(used, plan.registry), *(cluster_permissions(cluster) if cluster is not None else [])]
    more += tool_permissions(dataset_settings(plan.dataset), "the dataset", project.root)
    missing = missing_of_targets(project, (*plan.targets, *judges), more)
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
    """What asking some targets would do that nobody has agreed to yet."""
    if project.trusting:
        return []
    variables, root = project.environment, project.root
    wanted = (permission for config in configs for permission in permissions_of(config, variables, root))
    return Approvals(root).missing(chain(wanted, more))


def missing_of_project(project: Project, more: Iterable[TargetConfig] = ()) -> list[Permission]:
    """What the settings, evaluators and datasets of a project, and `more` targets, would do that awaits a yes."""
    settings = project.settings
    configs = [*settings.targets.values(), *more]
    for word in settings.words - settings.targets.keys():
        with suppress(ConfigurationError):  # said where it is used
            configs.append(find_target(word, settings))
    registry = project.registry
    loaded = model_permissions(_evaluators_of_datasets(project), registry)
    return [
        *missing_of_targets(project, configs, [*dataset_permissions(project.root), *loaded]),
        *untrusted_evaluators(project, registry.by_name, registry),
    ]


def untrusted_evaluators(project: Project, names: Iterable[str], registry: Registry) -> list[Permission]:
    """Those of some evaluators that are code of the project and not trusted as they are now."""
    wanted: list[Permission] = []
    root = project.root
    for name in () if project.trusting else sorted(names):
        kind = registry.by_name.get(name)
        if not _is_own(kind):
            continue
        try:
            files = code_files(kind.folder)
        except (OSError, TrustError):  # without code it cannot judge, which is said where it would
            continue
        if not kind.trust.accepts(kind.folder, files):
            place = kind.folder.relative_to(root) if kind.folder.is_relative_to(root) else kind.folder
            wanted.append(
                Permission("evaluator", f"runs the evaluator {name}", str(place), code_digest(files), kind.folder)
            )
    return wanted


def cluster_permissions(cluster: ClusterTerms) -> list[Permission]:
    """What handing a run to a cluster needs a yes for; workers of this machine need none."""
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
            hosts = hashlib.sha256(Path(rest).read_bytes()).hexdigest()
    return json.dumps([asdict(cluster), hosts])


def model_permissions(entries: Iterable[EffectiveEvaluator], registry: Registry) -> list[Permission]:
    """What evaluators need a yes for that load a model or a library of the dataset's choice."""
    wanted = []
    for entry in entries:
        try:
            kind = registry.find(entry.evaluator)
        except UnknownEvaluator:
            continue  # whoever needs it says that it is not there
        if issubclass(kind.Options, ModelOptions):
            options = kind.Options.model_validate(entry.settings)
            if options.model != ModelOptions.model_fields["model"].default:
                does = f"loads the model {one_line(options.model)} for {entry.evaluator}"
                wanted.append(Permission("address", does, "the dataset"))
        elif issubclass(kind, LibraryMetric):
            does, code = kind.approval(entry.settings)
            wanted.append(Permission("function", one_line(does), "the dataset", code))
    return wanted


def _evaluators_of_datasets(project: Project) -> Iterator[EffectiveEvaluator]:
    """The evaluators that the datasets of a project name, where some of them load something."""
    for file in dataset_files(project.root):
        with suppress(OSError, ValueError):  # said where it is opened
            text = file.read_text(encoding="utf-8") if file.suffix == ".json" else ""
            if '"model' in text or any(f'"{library}:' in text for library in LIBRARIES):
                with suppress(DatasetError):
                    yield from _named_evaluators(load(file).data, project.registry)


def _named_evaluators(data: Mapping[str, object], registry: Registry) -> Iterator[EffectiveEvaluator]:
    """The evaluators that a dataset names with options that are valid; others can load nothing."""
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


def agree(permissions: Sequence[Permission], root: Path) -> None:
    """Remember a yes to all of it."""
    Approvals(root).agree(permission for permission in permissions if permission.kind != "evaluator")
    for permission in permissions:
        if permission.path is not None:
            Trust().trust(permission.path)


def agree_to_typed(
    configs: Iterable[TargetConfig], environment: Mapping[str, str], root: Path, cluster: ClusterTerms | None = None
) -> None:
    """Remember what somebody typed, so that going on with the run asks nothing; what files add to it is no part."""
    wanted: list[Permission] = []
    for config in configs:
        if not config.where:
            of_files = {one.digest for one in permissions_of(config, environment, root)}
            typed = permissions_of(replace(config, where="typed"), environment, root)
            wanted += [one for one in typed if one.digest not in of_files]
    Approvals(root).agree([*wanted, *(cluster_permissions(cluster) if cluster is not None else [])])


def demand(project: Project, plan: Plan, cluster: ClusterTerms | None, judges: Iterable[TargetConfig]) -> None:
    """Refuse a run that asks somebody, or hands work to somebody, without a yes."""
    if missing := missing_permissions(project, plan, cluster, judges, judging=False):
        raise NotApproved(missing, project.root)


def find_typed(word: str, settings: Settings) -> TargetConfig:
    """The target of a word that a face was given: typed, unless the settings of the project say the same word."""
    return find_target(word, settings, str(FILE) if word in settings.words else "")
