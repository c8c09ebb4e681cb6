"""From a run on this machine to the executor that shares it out: the order written, the cluster opened."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tui_evals.runs.asking import PricedTarget
from tui_evals.runs.budget import Budget
from tui_evals.runs.executors.base import Stopped
from tui_evals.runs.executors.cluster.driver.desk import ClusterSink
from tui_evals.runs.executors.cluster.driver.executor import ClusterExecutor
from tui_evals.runs.plan import Plan
from tui_evals.targets.base import ConfigurationError

from .code import packed
from .dask import opened
from .terms import ClusterTerms, Local, place
from .wire import Order, header_of, order_text, prompts_of, versions

_VARIABLES = " The variables of the worker count: set it where that starts, or hand yours on with --forward-env NAME."


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlace:
    """Where a run is to be executed, and what the workers need of this machine."""

    terms: ClusterTerms
    environment: Mapping[str, str]
    root: Path
    metrics: Path | None
    """The folder of the prompt under test, beside which metrics lie."""
    trusting: bool


@asynccontextmanager
async def clustered(
    where: ClusterPlace,
    plan: Plan,
    targets: Sequence[PricedTarget],
    judges: Mapping[str | None, PricedTarget],
    budget: Budget,
    use_cache: bool,
    sink: ClusterSink,
) -> AsyncIterator[ClusterExecutor]:
    """The executor of a run on a cluster, which is started or joined for it; Stopped says why it cannot be."""
    order = Order(
        versions=versions(),
        header=header_of(plan.dataset),
        targets=plan.targets,
        judges=tuple((name, asked.config) for name, asked in judges.items()),
        prompts=prompts_of(plan),
        without_judges=plan.without_judges,
        use_cache=use_cache,
        budget=budget.most,
        root=str(where.root),
        code=packed(plan.registry, where.root, where.metrics, plan.evaluators_used()),
        environment={name: where.environment[name] for name in where.terms.forward},
    )
    async with AsyncExitStack() as stack:
        try:
            client = await stack.enter_async_context(opened(where.terms, where.environment, where.trusting))
        except ConfigurationError as problem:
            raise Stopped(str(problem), "configuration") from None
        try:
            yield ClusterExecutor(client, sink, [*targets, *judges.values()], order_text(order), budget)
        except Stopped as reason:
            if "environment variable" not in str(reason) or isinstance(place(where.terms.word), Local):
                raise
            raise Stopped(f"{reason}{_VARIABLES}", reason.code) from None
