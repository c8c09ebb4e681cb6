"""A prepared run: its estimate, its execution here or in its own process, and its end."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any

from tui_evals.cli import project
from tui_evals.cli.inputs import approve, approve_store, evaluators_named
from tui_evals.cli.output import Stop, columns, keep_output_to_ourselves, say, say_end, say_json_line, warn
from tui_evals.cli.run.ending import kind_named, say_causes, say_columns, say_gates, summary_lines, write_results
from tui_evals.cli.run.watching import Progress
from tui_evals.cli.runs_named import run_meant
from tui_evals.datasets.discover import project_root
from tui_evals.datasets.document import Document
from tui_evals.datasets.paths import DatasetError
from tui_evals.light_records import dataclass
from tui_evals.present.answers import cause_texts
from tui_evals.present.figures import column_measures, estimate_sentence, kept_sentence, skipped_sentence
from tui_evals.present.gates import gates_event
from tui_evals.present.runs import (
    Column,
    change_lines,
    destination_lines,
    look_sentence,
    overshoot_sentence,
    run_budget,
    run_cost,
    totals_data,
    totals_sentence,
)
from tui_evals.runs.approving import agree, cluster_permissions
from tui_evals.runs.detach import DetachFailed, has_begun, start_detached
from tui_evals.runs.engine import Engine, ExecutionEnd
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.estimating import Estimate
from tui_evals.runs.execution import Job, RunOutcome, execute
from tui_evals.runs.executors.cluster.terms import ClusterTerms, check_terms, parse_place
from tui_evals.runs.gate_options import Gates, flags, gates_of
from tui_evals.runs.gates import with_baseline
from tui_evals.runs.plan import Plan
from tui_evals.runs.project import Project, demand_own_store
from tui_evals.runs.readiness import Unjudgeable, obstacles_of
from tui_evals.runs.selection import ItemSelection
from tui_evals.runs.start import PreparedRun, RunRequest, prepare
from tui_evals.runs.status import next_command
from tui_evals.store import run_figures
from tui_evals.store.baselines import dataset_key
from tui_evals.store.connection import hold, run_lock
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.store.writer import Writer
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.permissions import NotApproved
from tui_evals.targets.sweep import Sweep, read_sweep

_SWITCH = 0.0005
"""Seconds a busy loop keeps the interpreter from the writer's thread, which needs it at every statement."""
_MOST_CAUSES = 5


_STDERR = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionOptions:
    """How a command executes a run: only the plan, here or in the background, and the kind of output."""

    plan_only: bool = False
    detach: bool = False
    quiet: bool = False
    verbose: bool = False
    """Whether to print each answer once it is judged."""
    as_json: bool = False
    env_name: str | None = None
    trusting: bool = False
    gates: Gates = field(default_factory=Gates)
    outputs: tuple[Path, ...] = ()
    on_finish: str | None = None
    """A shell command to run at the end."""
    summary: bool | None = None
    """Whether to print what changed and what fails at the end; None is on a terminal."""

    @property
    def summarises(self) -> bool:
        """Whether that is printed here."""
        wanted = columns() is not None if self.summary is None else self.summary
        return wanted and not (self.quiet or self.as_json)


def execution_options(options: Mapping[str, Any]) -> ExecutionOptions:
    """The execution options of a command, or Stop where they contradict each other."""
    gates = gates_of(options)
    if gates.has_checks and options.get("detach"):
        raise Stop(
            "--detach ends before the run does, so no gate can be checked. Leave out --detach, or leave out "
            f"{flags()} and compare later: `tui-evals compare`"
        )
    outputs = tuple(options.get("outputs") or ())
    for file in outputs:
        kind_named(file)
    return ExecutionOptions(
        plan_only=options.get("plan_only", False),
        detach=options.get("detach", False),
        quiet=options["quiet"],
        verbose=options.get("verbose", False),
        as_json=options["as_json"],
        env_name=options["env_name"],
        trusting=options["trusting"],
        gates=gates,
        outputs=outputs,
        summary=options.get("summary"),
        on_finish=options.get("on_finish"),
    )


@contextmanager
def refusals() -> Iterator[None]:
    """End the command with the message of anything that prevents planning a run."""
    try:
        yield
    except CannotPlan as problem:
        raise Stop(str(problem), 2 if problem.blame == "arguments" else 3) from None
    except NotApproved as problem:
        raise Stop(str(problem), 2) from None
    except ConfigurationError as problem:
        raise Stop(str(problem), 3) from None
    except DatasetError as problem:
        raise Stop(str(problem)) from None


def find_baseline(how: ExecutionOptions, dataset: str, run: RunRow | None = None) -> ExecutionOptions:
    """The options with the run that `run`, or a new run of a dataset, is compared with.

    Raises an error for a `run` with gates in a store that is not the user's own.
    """
    if not how.gates.measuring and (run is None or not how.gates.has_checks):
        return how
    with refusals(), ExitStack() as stack:
        reader = stack.enter_context(project.reader())
        if run is not None:
            demand_own_store(reader, run.key, run=run)
        gates = how.gates
        if gates.baseline is not None:
            gates = replace(gates, baseline=run_meant(reader, gates.baseline).key)
            reader = stack.enter_context(project.reader())  # which has the run of a file that was just imported
        return replace(how, gates=with_baseline(gates, reader, dataset, run))


def run_request(request: RunRequest, here: Project, how: ExecutionOptions) -> tuple[RunRow | None, int]:
    """Execute the request; the run (None where it is only estimated) and the exit code."""
    allowed = request.allow_unjudged
    with refusals():
        prepared = prepare(replace(request, allow_unjudged=allowed or how.plan_only), here)
    how = find_baseline(how, request.source)
    return start_prepared(prepared, how, allow_unjudged=allowed)


def start_prepared(
    prepared: PreparedRun, how: ExecutionOptions, *, allow_unjudged: bool = False
) -> tuple[RunRow | None, int]:
    """Estimate, execute or detach a prepared run."""
    warn_of_plan(prepared.plan)
    if how.plan_only:
        estimate, sent = prepared.estimate(), prepared.destinations
        return None, say_estimate(prepared.plan, estimate, sent, how.as_json, allow_unjudged=allow_unjudged)
    with refusals():
        missing = prepared.missing_permissions()
    approve(missing, prepared.project.root)
    approve_store(prepared.project, wanted=prepared.terms.use_cache)
    keep_output_to_ourselves()
    with open_writer(prepared.project) as writer:
        with refusals():
            job = prepared.store(writer, apart=how.detach)
        if not how.detach:
            return job.run, run_here(job, writer, how)
    return job.run, run_detached(job.run, how)


@contextmanager
def open_writer(here: Project) -> Iterator[Writer]:
    """A writer for the store of the project, or the end of the command where there can be none."""
    project.store_path(here.root)
    with here.writer() as writer:
        yield writer


def warn_of_plan(plan: Plan) -> None:
    """Print warnings about judges, for example if a judge would judge itself."""
    for caution in plan.cautions():
        warn(caution)
    if plan.judge is not None and any(plan.judge.model == target.model for target in plan.targets):
        warn(f"note: the judge {plan.judge.name} also answers; judges favor their own answers")


def say_estimate(
    plan: Plan,
    estimate: Estimate,
    destinations: Mapping[str, Mapping[str, str | None]],
    as_json: bool,
    *,
    allow_unjudged: bool = False,
) -> int:
    """Print a plan's estimate, where questions and keys would go, and what of it nothing could judge.

    The exit code is 2 where the run would be refused for that.
    """
    obstacles = obstacles_of(plan)
    code = 2 if obstacles and not allow_unjudged else 0
    if obstacles:
        warn(str(Unjudgeable(obstacles)) if code else Unjudgeable(obstacles).reason)
    if as_json:
        items = len(plan.dataset.items) if plan.only is None else len(plan.only)
        targets = [target.name for target in plan.targets]
        judge = plan.judge.name if plan.judge else None
        known = {"cached": estimate.cached, "all_looked_up": estimate.all_looked_up}
        money = {
            "cost": estimate.cost,
            "known_cost": estimate.known_cost,
            "unpriced": estimate.unpriced,
            "with_files": estimate.with_files,
        }
        spared = {"kept": estimate.kept, "known_verdicts": estimate.known_verdicts, "all_tried": estimate.all_tried}
        calls = {
            "answers": estimate.answers,
            "judge_calls": estimate.judge_calls,
            "played": estimate.played,
            **known,
            **spared,
            **money,
            "seconds": estimate.seconds,
            "last_time": None if estimate.last is None else asdict(estimate.last),
        }
        unjudgeable = [asdict(obstacle) for obstacle in obstacles]
        about = {"items": items, "targets": targets, "judge": judge, "unjudgeable": unjudgeable}
        say_json_line({**calls, **about, "destinations": destinations})
        return code
    say(f"{estimate_sentence(estimate)}; repairs and retries may add some")
    for line in destination_lines(destinations):
        say(line)
    return code


def run_here(job: Job, writer: Writer, how: ExecutionOptions, *, again: bool = False, errors: bool = False) -> int:
    """Execute a run in this process, or judge its answers `again`, or ask its `errors` again.

    Shows how it goes, and ends with its exit code.
    """
    keep_output_to_ourselves()
    progress = Progress(job.run, quiet=how.quiet, as_json=how.as_json, verbose=how.verbose)
    go_on = f"`tui-evals resume {job.run.key}` continues it"
    sys.setswitchinterval(_SWITCH)
    gc.freeze()  # imported and planned objects stay, so garbage collections can skip them
    cluster = job.terms.cluster
    if cluster is not None and not (how.quiet or how.as_json):
        say(f"the cluster {cluster.word} is being opened")
    presses = 0

    async def companion(engine: Engine, work: asyncio.Task[ExecutionEnd]) -> None:
        """The first Ctrl-C lets open requests finish, the second stops now."""

        def pressed() -> None:
            nonlocal presses
            presses += 1
            if presses == 1:
                warn(f"\nfinishing open requests; Ctrl-C again stops now. {go_on} later")
                progress.leave()
                engine.stop()
            else:
                work.cancel()

        if engine.note:
            warn(engine.note)
        loop = asyncio.get_running_loop()
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, pressed)
        await progress.follow(job.project.store, work, lambda: engine.store_wait)

    with stop_about(job.run):
        try:
            with refusals():
                outcome = asyncio.run(
                    execute(job, writer, again=again, errors=errors, gates=how.gates, companion=companion)
                )
        except StoreError as problem:
            raise Stop(f"{problem}\n{go_on} once that is fixed", 1) from None
        measures: Mapping[Column, Sequence[str]] = {}
        skipped: Mapping[str, int] = {}
        left_out: Mapping[str, int] = {}
        kept: tuple[int, int] | None = None
        summary: list[str] = []
        # The file at that path may be another store, or lack parts of the run; or new modules would be mixed with old
        # ones.
        if outcome.code not in ("store", "lost", "upgraded"):
            with Reader(job.project.store) as reader:
                for file in how.outputs:
                    write_results(reader, [outcome.run], file)
                measures = column_measures(reader, outcome.run, outcome.totals)
                if not how.quiet or how.as_json:
                    skipped = run_figures.skipped(reader, outcome.run.id)
                    left_out = run_figures.left_out(reader, outcome.run.id)
                kept = run_figures.kept_scores(reader, outcome.run) if again and outcome.finished else None
                if outcome.finished and how.summarises:
                    root = job.project.root
                    summary = summary_lines(reader, outcome.run, dataset_key(outcome.run.source, root, root), columns())
    code = 130 if presses and not outcome.finished else outcome.exit_code
    if how.on_finish:
        _finish(how.on_finish, outcome.run, code)
    _say_end(outcome, how, code, measures, (skipped, left_out), kept)
    for line in summary:
        say(line)
    if not outcome.finished:
        if not again:
            go_on = next_command(outcome.run)
        elif not outcome.run.staged_pass:
            go_on = f"`tui-evals rescore {job.run.key}` judges again"
        if outcome.code == "lost":
            go_on = "Start it again with the command that started it"
        if outcome.gates.checks:
            warn(outcome.gates.line)
        reason = outcome.message if outcome.message.endswith("?") else f"{outcome.message.rstrip('.')}."
        warn(f"{job.run.key} stopped: {reason} {go_on}")
        return code
    if not outcome.gates.met:
        warn(outcome.gates.line)
    return code


def _finish(command: str, run: RunRow, code: int) -> None:
    """Run the user's command for the end of a run; its failure is printed and does not change the run."""
    about = {"TUI_EVALS_RUN": run.key, "TUI_EVALS_STATUS": run.status, "TUI_EVALS_EXIT": str(code)}
    # The user typed the command for this shell, and it has no text of the project. Its output is not a result.
    done = subprocess.run(command, shell=True, env={**os.environ, **about}, stdout=_STDERR, check=False)
    if done.returncode:
        warn(f"--on-finish ended with exit code {done.returncode}: {command}")


@contextmanager
def stop_about(run: RunRow) -> Iterator[None]:
    """Note which run it is that a command is ended about."""
    try:
        yield
    except Stop as stop:
        stop.run = run.key
        raise


def _say_end(
    outcome: RunOutcome,
    how: ExecutionOptions,
    code: int,
    measures: Mapping[Column, Sequence[str]],
    aside: tuple[Mapping[str, int], Mapping[str, int]],
    kept: tuple[int, int] | None,
) -> None:
    run, gates = outcome.run, outcome.gates
    if how.as_json:
        wanted = gates.checks or (outcome.finished and how.gates.has_checks)
        more = gates_event(gates) if wanted else {}
        more = more if kept is None else {**more, "scores": dict(zip(("kept", "judged"), kept, strict=True))}
        causes = [told.data for told in cause_texts(run, outcome.causes)]
        totals = totals_data(outcome.totals)
        say_end(run.key, run.status, run.message, code, totals=totals, causes=causes, skipped=aside[0], **more)
        return
    if how.quiet:
        return
    cost = run_cost(outcome.totals, run_budget(run))
    say_columns(run, outcome.by_column, measures, totals_sentence(run, outcome.totals, cost=cost), cost)
    if skipped_line := skipped_sentence(*aside):
        say(skipped_line)
    if kept is not None and kept[0]:
        say(kept_sentence(*kept))
    say_causes(run, outcome.causes, _MOST_CAUSES)
    for line in change_lines(run):
        say(line, dim=True)
    say(f"run {run.key} {run.status}; {look_sentence(run, outcome.totals)}")
    if over := overshoot_sentence(run, outcome.totals):
        say(over)
    if gates.verdict:
        say(f"against {gates.baseline}: {gates.verdict}")
    say_gates(gates.checks)
    if gates.met and gates.line:
        say(gates.line)


def run_detached(
    run: RunRow, how: ExecutionOptions, arguments: Sequence[object] = (), begun: Callable[[RunRow], bool] = has_begun
) -> int:
    """Continue a run, or run `arguments`, in its own process; prints the key once it has begun."""
    words = [str(word) for word in arguments or ("resume", run.key)] + ["--quiet"]
    words += ["--env", how.env_name] if how.env_name else []
    words += ["--trust"] if how.trusting else []
    words += [word for file in how.outputs for word in ("--output", str(file))]
    words += ["--on-finish", how.on_finish] if how.on_finish else []
    start_apart(run, words, begun)
    say_key(run, how.as_json)
    return 0


def start_apart(run: RunRow, words: Sequence[str], begun: Callable[[RunRow], bool] = has_begun) -> None:
    """Start `tui-evals WORDS` in its own session; ends the command if it could not begin."""
    try:
        start_detached(project.store_path(), run.key, words, begun)
    except DetachFailed as problem:
        raise Stop(str(problem), 1) from None


def require_free(run: RunRow) -> None:
    """End the command when another process executes the run."""
    try:
        with hold(run_lock(project.store_path(), run.key)):
            return
    except StoreError as problem:
        raise Stop(str(problem), 1) from None


def say_key(run: RunRow, as_json: bool) -> None:
    """Print how a run in the background is called."""
    if as_json:
        say_json_line({"run": run.key})
    else:
        say(run.key)


HERE = "none"
"""The word that brings a run back from its cluster into this process."""
OPTIONS = ("cluster", "insecure_cluster", "tls_ca", "tls_cert", "tls_key", "forward_env")


def chosen_cluster(
    options: Mapping[str, Any], environment: Mapping[str, str], had: ClusterTerms | None = None
) -> ClusterTerms | None:
    """The cluster that the command names instead of the run's; warns of what it cannot keep secret."""
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
    """The absolute path, which another process finds from any folder."""
    return str(Path(path).expanduser().absolute())


def cluster_words(options: Mapping[str, Any]) -> list[str]:
    """The cluster options as words, for a process that continues a run in the background."""
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
        door=options.get("door"),
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
