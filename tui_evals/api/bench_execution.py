"""Carrying out a run of a suite in a store, and keeping one later that was made apart."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui_evals.datasets.problems import DatasetError
from tui_evals.datasets.starter import make_project
from tui_evals.evaluators.registry import Registry
from tui_evals.runs import launch
from tui_evals.runs.plan import CannotPlan
from tui_evals.runs.recording import store_recording
from tui_evals.runs.recordings.model import Recorded, Recording, digest_of
from tui_evals.runs.suites import keeping, running
from tui_evals.runs.suites.problems import ArthurInternalError, UserValueError
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.store.redact import secrets_of
from tui_evals.store.runlock import hold, run_lock
from tui_evals.store.writer import Writer
from tui_evals.targets.base import Target, TargetConfig
from tui_evals.targets.config import Settings, load_settings, target_named
from tui_evals.targets.environment import environment
from tui_evals.targets.function import given_function

Judge = str | Callable[..., Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A run that was carried out; `key` is None where it is in no store."""

    asked: running.Asked
    key: str | None
    rows: tuple[running.Row, ...]
    metadata: Mapping[str, str]
    targets: tuple[str, ...]
    judges: tuple[str, ...]
    answers: tuple[Recorded, ...]
    started: float


async def execute(asked: running.Asked, known: Registry, judge: Judge, root: Path, store: Path) -> Made:
    """Judge the candidates of a run in the project at `root` and keep the run in the store of `store`."""
    started = time.time()
    settings, variables = load_settings(root), environment(root, None)[0]
    config, ready = _judge(judge, settings)
    try:
        plan = running.plan_of(asked, store, settings, known, config)
    except (CannotPlan, DatasetError) as problem:
        raise UserValueError(str(problem)) from None
    if store != root:
        with Reader(_store(root)) as reader:
            running.refuse_twice(reader, asked.suite.name, asked.name)
    path = _store(store)
    with Writer(path, secrets=secrets_of(variables)) as writer, Reader(path) as reader:
        run = running.store(asked, plan, store, reader, writer, variables)
        with hold(run_lock(path, run.key)):
            engine = launch.assemble(plan, run, launch.Terms(), writer, reader, settings, variables, store, ready=ready)
            outcome = await engine.execute()
            writer.flush()
        if not outcome.finished:
            again = f"; `tui-evals resume {run.key}` goes on with it" if store == root else ""
            raise ArthurInternalError(f"the run {asked.name!r} stopped: {outcome.message.rstrip('.')}{again}")
        run = reader.find_run(run.key)
        return Made(
            asked=asked,
            key=run.key,
            rows=tuple(running.rows_of(reader, run)),
            metadata=running.metadata_of(reader, run),
            targets=run.targets,
            judges=(config.name,) if config is not None else (),
            answers=_answers(reader, run) if store != root else (),
            started=started,
        )


def save_made(made: Made, root: Path) -> str:
    """Keep a run that was made apart; nothing is judged again."""
    asked = made.asked
    settings, variables = load_settings(root), environment(root, None)[0]
    path = _store(root)
    with Writer(path, secrets=secrets_of(variables)) as writer, Reader(path) as reader:
        running.refuse_twice(reader, asked.suite.name, asked.name)
        file = keeping.run_file(root, asked.suite.name, asked.name)
        keeping.write_below(root, file, asked.answered)
        recording = Recording(
            by="tui-evals",
            digest=digest_of(asked.suite.name, asked.name, asked.answered, made.started),
            document=asked.document,
            source=running.source_of(root, asked.suite.name),
            name=asked.name,
            targets=made.targets,
            answers=made.answers,
            judges=made.judges,
            suite=asked.suite.name,
            started=made.started,
        )
        return store_recording(writer, reader, recording, settings, variables)[0].key


def _store(root: Path) -> Path:
    make_project(root)
    return open_store(root / ".evals" / "evals.db")


def _judge(judge: Judge, settings: Settings) -> tuple[TargetConfig | None, dict[str, Target]]:
    """The judge's configuration, and the judge itself where it is a function at hand."""
    if callable(judge):
        name = getattr(judge, "__name__", type(judge).__name__)
        return TargetConfig(name=name, model=f"python:{judge.__module__}:{name}"), {name: given_function(judge, name)}
    word = judge or settings.judge
    return (target_named(word, settings) if word else None), {}


def _answers(reader: Reader, run: RunRow) -> tuple[Recorded, ...]:
    """The answers of a run with their scores, to be kept elsewhere."""
    found = []
    for row in reader.all_rows(run.id):
        detail = reader.detail(row.id)
        if detail.answer is not None:
            scores = detail.scores.get(run.scoring_pass, ())
            found.append(Recorded(item=row.item, answer=detail.answer, scores=scores))
    return tuple(found)
