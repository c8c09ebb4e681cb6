"""From a plan to the executor that runs it on a cluster: packs what workers need and connects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tui_evals.runs.asking import PricedTarget
from tui_evals.runs.budget import Budget
from tui_evals.runs.executors.base import Stopped
from tui_evals.runs.executors.cluster.driver.distributor import ClusterSink
from tui_evals.runs.executors.cluster.driver.executor import ClusterExecutor
from tui_evals.runs.plan import Plan
from tui_evals.targets.base import ConfigurationError, TargetConfig

from .code import pack_evaluators
from .connection import open_cluster
from .terms import ClusterTerms, LocalWorkers, parse_place
from .wire import Order, dataset_header, dump_order, dump_prompts, versions

_VARIABLES_HINT = (
    " The variables of the worker count: set it where that starts, or hand yours on with --forward-env NAME."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlace:
    """Where a run is to be executed, and what the workers need of this machine."""

    terms: ClusterTerms
    environment: Mapping[str, str]
    root: Path
    metrics: Path | None
    """The folder of the prompt under test, beside which metrics lie."""
    trusting: bool
    files: Path | None = None
    """The folder of the dataset, whose files go along with questions."""


def _agreed(config: TargetConfig) -> TargetConfig:
    """A target as workers open it: the yes to it was asked for here, and they ask nobody."""
    return replace(config, where="")


@asynccontextmanager
async def cluster_executor(
    where: ClusterPlace,
    plan: Plan,
    targets: Sequence[PricedTarget],
    judges: Mapping[str | None, PricedTarget],
    budget: Budget,
    use_cache: bool,
    sink: ClusterSink,
) -> AsyncIterator[ClusterExecutor]:
    """The executor of a run on a cluster, which is started or joined for it; Stopped says why that fails."""
    order = Order(
        versions=versions(),
        header=dataset_header(plan.dataset),
        targets=tuple(map(_agreed, plan.targets)),
        judges=tuple((name, _agreed(priced.config)) for name, priced in judges.items()),
        prompts=dump_prompts(plan),
        without_judges=plan.without_judges,
        rubric=plan.rubric,
        use_cache=use_cache,
        budget=budget.most,
        root=str(where.root),
        files=None if where.files is None else str(where.files.resolve()),
        code=pack_evaluators(plan.registry, where.root, where.metrics, plan.evaluators_used()),
        environment={name: where.environment[name] for name in where.terms.forward},
    )
    async with AsyncExitStack() as stack:
        try:
            client = await stack.enter_async_context(open_cluster(where.terms, where.environment, where.trusting))
        except ConfigurationError as problem:
            raise Stopped(str(problem), "configuration") from None
        try:
            yield ClusterExecutor(client, sink, [*targets, *judges.values()], dump_order(order), budget)
        except Stopped as reason:
            if "environment variable" not in str(reason) or isinstance(parse_place(where.terms.word), LocalWorkers):
                raise
            raise Stopped(f"{reason}{_VARIABLES_HINT}", reason.code) from None
