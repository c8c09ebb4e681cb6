"""Executes a job: a stored run with its plan, from opening its targets to the outcome that every face prints."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tui_evals.files import Calls, fit_calls
from tui_evals.light_records import dataclass
from tui_evals.runs.activities import Storing, longest_wait
from tui_evals.runs.approving import demand, missing_permissions
from tui_evals.runs.asking import PricedTarget
from tui_evals.runs.availability import Room
from tui_evals.runs.engine import STOPPED, Engine, ExecutionEnd, sign_ended
from tui_evals.runs.executors import Ledger
from tui_evals.runs.executors.cluster.terms import ClusterTerms
from tui_evals.runs.gate_options import Gates
from tui_evals.runs.gates import GateResults, check_gates
from tui_evals.runs.judges import (
    asked_targets,
    calls_at_once,
    items_of,
    judge_configs,
    judge_label,
    opened,
    targets_behind,
)
from tui_evals.runs.limits import Budget
from tui_evals.runs.plan import Plan
from tui_evals.runs.project import Project
from tui_evals.runs.scoring_passes import KeptScores, pass_config
from tui_evals.runs.status import FILES, METRICS, exit_code_of
from tui_evals.runs.tools import open_toolbox
from tui_evals.store import chains, failures, run_figures
from tui_evals.store.connection import hold, run_lock
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import FailureCause, RunRow, StopCode, Totals
from tui_evals.store.upkeep import keep_backup
from tui_evals.store.writer import Writer
from tui_evals.targets.base import ConfigurationError, Target, TargetConfig
from tui_evals.targets.config import Settings
from tui_evals.targets.opening import Later, open_target
from tui_evals.targets.permissions import Permission, destinations
from tui_evals.targets.sweep import base_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """On what terms a run is executed."""

    concurrency: int | None = None
    max_cost: float | None = None
    shared_limit: str = ""
    """The name of the runs that share `max_cost`; empty where it is the run's own."""
    use_cache: bool = True
    cluster: ClusterTerms | None = None
    """The cluster that executes it, where this process does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A stored run with all that executing it takes."""

    run: RunRow
    plan: Plan
    terms: Terms
    project: Project
    ready: Mapping[str, Target] = field(default_factory=dict)
    judged: frozenset[int] | None = None
    """The answers that are to be judged again, by their ids; None for all."""
    left_out: frozenset[int] = frozenset()
    """The numbers of the targets that are not asked this time, whose answers stay pending."""
    judges_left_out: frozenset[str] = frozenset()
    """The judges that are not asked this time, whose verdicts stay pending."""
    named: frozenset[str] = frozenset()
    """The evaluators that are to judge again; none for all."""
    anew: bool = False
    """Whether to judge again even if nothing has changed."""
    notes: tuple[str, ...] = ()
    """Warnings for the user before rescoring."""

    def kept(self, reader: Reader) -> KeptScores | None:
        """The scores that rescoring keeps; None if all are made again."""
        if self.anew and not self.named:
            return None
        return KeptScores(self.run, self.plan, self.project, reader, named=self.named, anew=self.anew)

    @property
    def calls_at_once(self) -> Mapping[str, Calls]:
        """The number of parallel calls that the run wants, before the system's limit on open files."""
        judges = asked_targets(self.plan, self.project.settings)
        return calls_at_once(self.plan.targets, judges, self.terms.concurrency)

    def missing_permissions(self, *, judging: bool = True) -> list[Permission]:
        """The missing permissions of the execution; evaluators count only with `judging`."""
        judges = asked_targets(self.plan, self.project.settings)
        return missing_permissions(self.project, self.plan, self.terms.cluster, judges, judging=judging)


def destinations_of(
    plan: Plan, settings: Settings, environment: Mapping[str, str], ready: Mapping[str, Target]
) -> dict[str, dict[str, str | None]]:
    """The destination of each target, once for all its variants in a sweep."""
    asked = [config for config in (*plan.targets, *asked_targets(plan, settings)) if config.name not in ready]
    return destinations((replace(config, name=base_name(config.name)) for config in asked), environment)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """How an execution ended, for every interface to print."""

    run: RunRow
    """The run as currently stored."""
    finished: bool
    message: str
    """Why it is not finished."""
    code: StopCode
    totals: Totals
    by_column: Mapping[tuple[int, int], Totals]
    causes: tuple[FailureCause, ...]
    """Why answers are missing or could not be judged, the most frequent first."""
    gates: GateResults

    @property
    def exit_code(self) -> int:
        """The exit code of a command that executed the run."""
        if not self.finished:
            return exit_code_of(self.code)
        return 0 if self.gates.met else 1


async def execute(
    job: Job,
    writer: Writer,
    *,
    again: bool = False,
    errors: bool = False,
    gates: Gates | None = None,
    companion: Companion | None = None,
) -> RunOutcome:
    """Execute a stored run here, or judge its answers `again`; the store has the reason if it does not begin or end.

    With `errors`, errors are retried in place.
    """
    run, path = job.run, job.project.store
    with hold(run_lock(path, run.key)) as lock, Reader(path) as reader:
        await writer.take_spilled(run)
        writer.control(run.id, "")
        asked = (*job.plan.targets, *asked_targets(job.plan, job.project.settings))
        storing = Storing(writer, path, run, lock, longest_wait(asked))
        found = chains.unsigned_answers(reader.query, run.id, run.key)
        try:
            engine = assemble(job, writer, reader, storing, again=again)
        except ConfigurationError as problem:
            note_refusal(writer, run, problem)
            raise
        if errors:
            writer.reopen_errors(run.id)
        work = asyncio.create_task(engine.execute(again=again))
        beside_it = asyncio.create_task(companion(engine, work)) if companion is not None else None
        try:
            outcome = await work
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            outcome = STOPPED
        if beside_it is not None:
            await beside_it
        if storing.is_overwritten:
            return _outcome_of_lost_store(run, path, await storing.conclude())
        old_rules = job.project.settings.run.gates == "0.2"
        ended = _run_outcome(reader, run, outcome, replace(gates or Gates(), rules_of_0_2=old_rules))
        if ended.run.verdict or run.verdict:
            await writer.commit_step(writer.gates_step(run.id, ended.run.gates, ended.run.verdict))
        if not storing.is_lost:
            await asyncio.to_thread(sign_ended, writer, run, outcome.finished, again, found)
        if ended.finished and run.total >= failures.MADE_AHEAD and not storing.is_lost:
            await asyncio.to_thread(_prepare_failure_map, job, writer)
        if ended.finished:
            await asyncio.to_thread(keep_backup, path)
        if storing.is_lost:
            message = await storing.conclude()
            stored = replace(ended.run, status="interrupted", message=message, code="store")
            return replace(ended, run=stored, finished=False, message=message, code="store")
    return ended


def _prepare_failure_map(job: Job, writer: Writer) -> None:
    """Prepare the failure map of a large run, so that it is ready when it is opened."""
    # Imported here: most runs are small and need no comparison.
    from tui_evals.compare.failure_map import keep_failure_map, read_failure_map
    from tui_evals.store.baselines import dataset_key

    root = job.project.root
    with suppress(StoreError):  # the run is whole without it, and who opens it makes the map
        with Reader(job.project.store) as reader:
            made = read_failure_map(reader, reader.run(job.run.id), dataset_key(job.run.source, root, root))
        keep_failure_map(writer, made)


def _outcome_of_lost_store(run: RunRow, path: Path, message: str) -> RunOutcome:
    """The outcome of a run whose store was overwritten, with the totals that the store has now."""
    code: StopCode = "store"
    totals: Totals = Totals.of_pending(run.total)
    by_column: Mapping[tuple[int, int], Totals] = {}
    with suppress(StoreError), Reader(path) as reader:  # one that cannot be read may be repaired
        if reader.knows(run):
            totals, by_column = reader.totals(run.id), reader.totals_by(run.id, "column")
        else:
            code = "lost"
    return RunOutcome(
        run=replace(run, status="interrupted", message=message, code=code, waiting=None),
        finished=False,
        message=message,
        code=code,
        totals=totals,
        by_column=by_column,
        causes=(),
        gates=GateResults(),
    )


def note_refusal(writer: Writer, run: RunRow, problem: Exception) -> None:
    """Keep in the store why a run could not begin or continue."""
    if run.status != "finished":
        writer.run_status(run.id, "interrupted", message=str(problem), code="configuration")


def _run_outcome(reader: Reader, run: RunRow, outcome: ExecutionEnd, gates: Gates) -> RunOutcome:
    run = reader.run(run.id)
    totals = reader.totals(run.id)
    checked = check_gates(reader, run, totals, gates, finished=outcome.finished)
    return RunOutcome(
        run=replace(run, verdict=checked.line, gates=checked.checks),
        finished=outcome.finished,
        message=outcome.message,
        code=outcome.code,
        totals=totals,
        by_column=reader.totals_by(run.id, "column"),
        causes=run_figures.causes(reader, run.id),
        gates=checked,
    )


def assemble(job: Job, writer: Writer, reader: Reader, storing: Storing, *, again: bool = False) -> Engine:
    """The engine of a run, its targets and judges opened; to judge `again` it begins a pass or continues with one.

    On a cluster the targets are opened by the workers, and here only once something asks them; so is a judge that no
    evaluator needs.
    """
    run, plan, terms, project = job.run, job.plan, job.terms, job.project
    budget = Budget(terms.max_cost)
    budget.of_run(run.id, reader, writer, terms.shared_limit)
    largest = run_figures.largest_answers(reader, run.id) if terms.max_cost is not None else {}
    rooms: dict[tuple[str, str], Room] = {}  # shared by targets that differ only in parameters

    files = project.root / str(run.config[FILES]) if FILES in run.config else None

    def priced(
        config: TargetConfig, kind: Literal["target", "judge"], behind: PricedTarget | None = None
    ) -> PricedTarget:
        target = job.ready.get(config.name)
        unasked = plan.only_judging if kind == "target" else config.name not in judging
        if target is None and (terms.cluster is not None or unasked):
            target = Later(lambda: open_target(config, project.environment, project.root, items_of))
        tools = None
        if kind == "target" and terms.cluster is None:
            tools = open_toolbox(plan.dataset, config, project.environment, project.root)
        if behind is not None:
            agent = target or open_target(config, project.environment, project.root, items_of)
            target = recorded_agent(agent, config, behind, use_cache=terms.use_cache)
        of = kind, base_name(config.name)
        most = fitted.get(of[1] if kind == "target" else judge_label(config.name), terms.concurrency)
        made = opened(
            config,
            kind,
            budget,
            project.environment,
            project.root,
            most,
            target,
            rooms.get(of),
            tools=tools,
            files=files,
        )
        rooms[of] = made.room
        made.largest_answer = largest.get((kind, config.name), 0)
        made.behind = behind
        return made

    configs = judge_configs(plan, project.settings)
    demand(project, plan, terms.cluster, asked_targets(plan, project.settings))
    judging = {configs[key].name for key in plan.judges_needed if key in configs} if configs else set()
    fitted, note = fit_calls(job.calls_at_once if terms.cluster is None else {})
    behind = {name: priced(config, "target") for name, config in targets_behind(plan, project.settings).items()}
    check_place(plan, terms.cluster)
    targets = [priced(config, "target", behind.get(config.door or "")) for config in plan.targets]
    judges = {name: priced(config, "judge") for name, config in configs.items()}
    for judge in judges.values():
        if judge.config.name in job.judges_left_out:
            judge.availability.close(f"{judge.config.name} is left out", "left out")
    if again and not run.staged_pass:
        config = pass_config(
            plan, run, project, reader, writer, use_cache=terms.use_cache, named=job.named, anew=job.anew
        )
        run = replace(run, staged_pass=writer.begin_pass(run.id, config, job.judged))
    kept = job.kept(reader) if again else None
    elsewhere = None
    if terms.cluster is not None:
        from tui_evals.runs.executors.cluster.executor import ClusterPlace, cluster_executor

        metrics = project.root / str(run.config[METRICS]) if METRICS in run.config else None
        place = ClusterPlace(
            terms=terms.cluster,
            environment=project.environment,
            root=project.root,
            metrics=metrics,
            trusting=project.trusting,
            files=files,
        )
        elsewhere = partial(cluster_executor, place, plan, targets, judges, budget, terms.use_cache)
    cached = terms.use_cache
    engine = Engine(
        plan,
        run,
        writer,
        reader,
        targets,
        judges,
        storing,
        use_cache=cached,
        left_out=job.left_out,
        elsewhere=elsewhere,
        kept=kept,
    )
    engine.note = note
    for target in targets:
        if target.behind is not None:
            note_calls(target.target, engine)
    return engine


def check_place(plan: Plan, cluster: ClusterTerms | None) -> None:
    """Refuse to record agents on a cluster, whose machines cannot ask a server on this one's loopback."""
    recorded = next((target.name for target in plan.targets if target.door), None)
    if recorded is not None and cluster is not None:
        message = f"The model calls of {recorded} are recorded, which this machine alone can do. Leave out --cluster."
        raise ConfigurationError(message)


def recorded_agent(agent: Target, config: TargetConfig, behind: PricedTarget, *, use_cache: bool) -> Target:
    """The agent with a server that answers its model calls."""
    from tui_evals.runs.door import (
        Door,
        RecordedAgent,  # only runs that record an agent need a server
    )

    return RecordedAgent(agent, config, Door(behind, use_cache=use_cache, host=config.door_host))


def note_calls(agent: Target, ledger: Ledger) -> None:
    """Note the model calls of an agent in a ledger."""
    from tui_evals.runs.door import RecordedAgent

    assert isinstance(agent, RecordedAgent)
    agent.door.ledger = ledger


Companion = Callable[[Engine, "asyncio.Task[ExecutionEnd]"], Coroutine[Any, Any, None]]
"""Runs while a run is executed, for example to show its progress; it is cancelled when the run ends."""
