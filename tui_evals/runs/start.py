"""From a plan to a run in the store, from a run in the store back to its plan, and from both to an engine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from tui_evals.datasets.model import Dataset
from tui_evals.datasets.prompts import load_prompt, prompt_name
from tui_evals.evaluators.registry import Registry
from tui_evals.runs.executors.cluster.terms import ClusterTerms, saved_terms
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, NewRun, RunRow
from tui_evals.store.writer import Writer
from tui_evals.targets.base import Target, TargetConfig
from tui_evals.targets.config import Settings, find_target
from tui_evals.targets.opening import Later, identity, open_target
from tui_evals.text.tokens import estimate_tokens

from .asking import PricedTarget
from .budget import Budget
from .engine import Engine
from .opening import items_of, opened, price_for
from .plan import TYPICAL_ANSWER_TOKENS, CannotPlan, Estimate, Plan
from .prompting import PromptUnderTest, kept_prompt, prompt_kept
from .status import GENERATION, METRICS, RECORDED

_NONE_READY: Mapping[str, Target] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """On what terms a run is executed."""

    concurrency: int | None = None
    max_cost: float | None = None
    use_cache: bool = True
    cluster: ClusterTerms | None = None
    """The cluster that executes it, where this process does not."""


def prompts_from(files: Sequence[Path]) -> tuple[PromptUnderTest, ...]:
    """The prompts under test of some files; DatasetError says what is wrong with one."""
    return tuple(PromptUnderTest(prompt_name(file), load_prompt(file)) for file in files)


def store_plan(
    plan: Plan,
    document: Mapping[str, Any],
    terms: Terms,
    writer: Writer,
    environment: Mapping[str, str],
    *,
    name: str,
    source: str,
    metrics: str | None = None,
    **more: Any,
) -> RunRow:
    """Commit a plan: from now on the run exists, whole, with every answer pending.

    `metrics` is the folder of the prompt under test, beside which evaluators lie.
    """
    new = NewRun(
        name=name,
        snapshot=writer.snapshot(dict(document), source),
        source=source,
        targets=tuple(target.name for target in plan.targets),
        prompts=tuple(prompt.name for prompt in plan.asked_prompts),
        config={**_kept(plan, terms, environment), **({METRICS: metrics} if metrics else {})},
        **more,
    )
    return writer.plan(new, plan.answers())


def _kept(plan: Plan, terms: Terms, environment: Mapping[str, str]) -> dict[str, Any]:
    prompts = [{"name": prompt.name, **kept_prompt(prompt)} for prompt in plan.prompts]
    return {
        "targets": [_named(target, environment) for target in plan.targets],
        "judge": _named(plan.judge, environment) if plan.judge else None,
        "without_judges": plan.without_judges,
        "repeats": plan.repeats,
        "only": sorted(plan.only) if plan.only is not None else None,
        "prompts": prompts,
        "terms": asdict(terms),
    }


def _named(config: TargetConfig, environment: Mapping[str, str]) -> dict[str, Any]:
    return identity(config, environment) | {"name": config.name}


def terms_of(run: RunRow) -> Terms:
    """On what terms a stored run was started."""
    kept = run.config.get("terms", {})
    return Terms(**{**kept, "cluster": saved_terms(kept.get("cluster"))})


def stored_plan(
    run: RunRow, reader: Reader, settings: Settings, environment: Mapping[str, str], registry: Registry
) -> Plan:
    """The plan of a stored run; CannotPlan when a target has been configured otherwise since."""
    kept = run.config
    if GENERATION in kept:
        raise CannotPlan(
            f"{run.key} wrote tests and asked none of them; `tui-evals generate {kept[GENERATION]['prompt']}` goes on "
            "with it or begins anew"
        )
    prompts = tuple(map(prompt_kept, kept["prompts"]))
    return Plan(
        dataset=Dataset.model_validate(reader.snapshot(run.snapshot)),
        targets=tuple(_same(one, settings, environment, recorded=RECORDED in kept) for one in kept["targets"]),
        registry=registry,
        judge=_same(kept["judge"], settings, environment) if kept["judge"] else None,
        without_judges=kept["without_judges"],
        prompts=prompts,
        repeats=kept["repeats"],
        only=frozenset(kept["only"]) if kept["only"] is not None else None,
    )


def _same(
    kept: Mapping[str, Any], settings: Settings, environment: Mapping[str, str], *, recorded: bool = False
) -> TargetConfig:
    """The target of a name, which must be the one that was asked; who asked in another tool's run nobody knows."""
    config = find_target(kept["name"], settings)
    if not recorded and _named(config, environment) != dict(kept):
        raise CannotPlan(
            f"the target {kept['name']} is configured otherwise than when the run was started, and its answers would "
            "not be comparable; change it back in .evals/config.toml, or start a new run"
        )
    return config


def assemble(
    plan: Plan,
    run: RunRow,
    terms: Terms,
    writer: Writer,
    reader: Reader,
    settings: Settings,
    environment: Mapping[str, str],
    root: Path,
    *,
    again: bool = False,
    ready: Mapping[str, Target] = _NONE_READY,
    trusting: bool = False,
) -> Engine:
    """The engine of a run, its targets and judges opened; to judge `again` it begins a new scoring pass.

    `ready` holds targets by name that need not be opened, such as functions at hand. On a cluster the targets are
    opened by the workers, and here only once something asks them; `trusting` lets workers here run any code.
    """
    budget = Budget(terms.max_cost, reader.spent(run.id)[0])

    def asked(config: TargetConfig, kind: Literal["target", "judge"]) -> PricedTarget:
        target = ready.get(config.name)
        if target is None and terms.cluster is not None:
            target = Later(lambda: open_target(config, environment, root, items_of))
        return opened(config, kind, budget, environment, root, terms.concurrency, target)

    targets = [asked(config, "target") for config in plan.targets]
    judges = {name: asked(config, "judge") for name, config in _judges(plan, settings).items()}
    if again:
        run = replace(run, scoring_pass=writer.new_pass(run.id, _again(plan, run, terms, reader, environment)))
    elsewhere = None
    if terms.cluster is not None:
        from tui_evals.runs.executors.cluster.run import ClusterPlace as Elsewhere
        from tui_evals.runs.executors.cluster.run import cluster_executor as clustered

        metrics = root / str(run.config[METRICS]) if METRICS in run.config else None
        where = Elsewhere(terms=terms.cluster, environment=environment, root=root, metrics=metrics, trusting=trusting)
        elsewhere = partial(clustered, where, plan, targets, judges, budget, terms.use_cache)
    return Engine(plan, run, writer, reader, targets, judges, use_cache=terms.use_cache, elsewhere=elsewhere)


def _again(plan: Plan, run: RunRow, terms: Terms, reader: Reader, environment: Mapping[str, str]) -> dict[str, Any]:
    """What a scoring pass judges by, in the words of a run's own config; the dataset only where it is another."""
    own = plan.dataset == Dataset.model_validate(reader.snapshot(run.snapshot))
    return {
        "judge": _named(plan.judge, environment) if plan.judge else None,
        "without_judges": plan.without_judges,
        "dataset": None if own else hashlib.sha256(plan.dataset.model_dump_json().encode()).hexdigest(),
        "terms": {"use_cache": terms.use_cache},
    }


def _judges(plan: Plan, settings: Settings) -> dict[str | None, TargetConfig]:
    if plan.without_judges:
        return {}
    found: dict[str | None, TargetConfig] = {}
    for name in plan.judges_needed():
        if name is not None:
            found[name] = find_target(name, settings)
    if plan.judge is not None:
        found[None] = plan.judge
    return found


def estimate_again(plan: Plan, rows: Iterable[AnswerRow]) -> Estimate:
    """What judging the answers of some rows again will take; nothing is asked of any target."""
    price = price_for(plan.judge) if plan.judge else None
    calls, cost = 0, 0.0
    for row in rows if not plan.without_judges else ():
        if row.status in ("pending", "running") or row.code is not None:
            continue
        item = plan.dataset.items[row.item]
        judged = sum(plan.registry.find(entry.evaluator).judged for entry in plan.resolved(item, row.turn))
        calls += judged
        if price is not None:
            read = estimate_tokens(item.units[row.turn].prompt or "") + (row.output_tokens or TYPICAL_ANSWER_TOKENS)
            cost += judged * ((read + 600) * price.input_per_million + 80 * price.output_per_million) / 1e6
    return Estimate(0, calls, cost if price is not None or not calls else None)
