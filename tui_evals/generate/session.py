"""A generation in the store: a run that records what its questions cost, and the models it asks."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any

from tui_evals.datasets.paths import CURRENT_VERSION
from tui_evals.files import fit_calls
from tui_evals.generate.folder import RECORD, GenerationFolder, UnreadableFile, short_hash
from tui_evals.generate.work import Models, Subject
from tui_evals.light_records import dataclass
from tui_evals.runs.asking import PricedTarget
from tui_evals.runs.engine import STOPPED
from tui_evals.runs.judges import calls_at_once, items_of, judge_label, opened
from tui_evals.runs.limits import Budget
from tui_evals.runs.status import GENERATION
from tui_evals.runs.store_trouble import Storing
from tui_evals.store.connection import alive, hold, run_lock
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import NewRun, RunRow, StopCode
from tui_evals.store.writer import Writer
from tui_evals.targets.base import ConfigurationError, TargetConfig
from tui_evals.targets.config import Settings, find_target
from tui_evals.targets.opening import Later, open_target


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """The configured models by what they do; one that is not named is the model that writes the rules."""

    rules: TargetConfig
    baseline: TargetConfig | None = None
    groundtruth: TargetConfig | None = None
    judges: Sequence[TargetConfig] = ()
    groundtruth_judges: Sequence[TargetConfig] = ()
    under_test: Sequence[TargetConfig] = ()

    def fit_calls(self, concurrency: int | None) -> tuple[Mapping[str, int], str]:
        """How many calls of each model may be in flight, and a sentence where that is fewer than was asked for."""
        return fit_calls(calls_at_once([], self.every, concurrency))

    def open_models(
        self,
        budget: Budget,
        environment: Mapping[str, str],
        root: Path,
        most: Mapping[str, int],
        *,
        planning: bool = False,
    ) -> Models:
        """The models ready to be asked, each opened once; none while only `planning`."""
        opened_models: dict[str, PricedTarget] = {}

        def model(config: TargetConfig) -> PricedTarget:
            if config.name not in opened_models:
                later = Later(lambda: open_target(config, environment, root, items_of)) if planning else None
                opened_models[config.name] = opened(
                    config, "generator", budget, environment, root, most[judge_label(config.name)], later
                )
            return opened_models[config.name]

        return Models(
            rules=model(self.rules),
            baseline=model(self.baseline or self.rules),
            groundtruth=model(self.groundtruth or self.rules),
            judges=tuple(map(model, self.judges)),
            groundtruth_judges=tuple(map(model, self.groundtruth_judges)),
        )

    @property
    def every(self) -> tuple[TargetConfig, ...]:
        """All of the models."""
        one = (self.rules, self.baseline, self.groundtruth, *self.judges, *self.groundtruth_judges, *self.under_test)
        return tuple(config for config in one if config is not None)

    @property
    def names(self) -> dict[str, Any]:
        """The names of the models, as a file keeps them."""
        names = {
            "rules": self.rules.name,
            "baseline": self.baseline and self.baseline.name,
            "groundtruth": self.groundtruth and self.groundtruth.name,
            "judges": [judge.name for judge in self.judges],
            "groundtruth_judges": [judge.name for judge in self.groundtruth_judges],
            "under_test": [target.name for target in self.under_test],
        }
        return {role: named for role, named in names.items() if named}


@dataclass(slots=True)
class GenerationSession:
    """A generation under way; its run ends as finished or interrupted by `finished`."""

    run: RunRow
    storing: Storing
    finished: bool = field(default=False)
    message: str = ""
    """Why it is not finished, once that is known."""
    code: StopCode = "asked"
    lost: str = ""
    """Why its store takes nothing any more and where the rest is, once it has ended by that."""


@contextlib.contextmanager
def claim_folder(folder: GenerationFolder, store: Path) -> Iterator[None]:
    """Keep other processes out of a folder for a block, and remove what a killed one left half-written."""
    lock = run_lock(store, f"generate-{short_hash(str(folder.path.resolve()))}")
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(hold(lock))
        except StoreError as problem:
            if not alive(lock):
                raise
            raise StoreError(
                f"another process generates into {folder.path}; wait for it, or name another folder with --out"
            ) from problem
        for litter in folder.path.glob(".*.tmp"):
            litter.unlink(missing_ok=True)
        yield


@contextlib.asynccontextmanager
async def open_session(
    subject: Subject, folder: GenerationFolder, roles: Roles, writer: Writer, reader: Reader, store: Path, *, anew: bool
) -> AsyncIterator[GenerationSession]:
    """The run of a generation for a block: the unfinished one of its folder, unless `anew`, else a new one.

    What the one before could not store is stored first, whichever it is.
    """
    before = unfinished_run(folder, reader)
    if before is not None:
        await writer.take_spilled(before)
    if before is None or anew:
        run = _new_run(subject, folder, roles, writer)
        folder.note(run=run.key)
    else:
        run = before
    async with session_of_run(run, roles, writer, store) as current:
        yield current


@contextlib.asynccontextmanager
async def session_of_run(run: RunRow, roles: Roles, writer: Writer, store: Path) -> AsyncIterator[GenerationSession]:
    """A run that keeps what questions cost, running for a block; it ends as the session says."""
    with hold(run_lock(store, run.key)) as lock:
        begun = run.started or time.time()
        writer.run_status(run.id, "running", pid=os.getpid(), host=socket.gethostname(), started=begun)
        longest = max(config.max_outage for config in roles.every)
        current = GenerationSession(run, Storing(writer, store, run, lock, longest))
        try:
            yield current
        finally:
            await current.storing.end(finished=current.finished, note=partial(_note_end, current, writer))
            if current.storing.is_lost:
                current.lost = await current.storing.conclude()


async def _note_end(current: GenerationSession, writer: Writer) -> None:
    """Store how a generation ended."""
    if current.storing.is_lost:
        current.finished, current.message, current.code = False, current.storing.reason, "store"
    if current.storing.is_spilled:
        return
    if current.finished:
        await writer.patient_run_status(current.run.id, "finished", finished=time.time())
    else:
        message = current.message or STOPPED.message
        await writer.patient_run_status(current.run.id, "interrupted", message=message, code=current.code)


def unfinished_run(folder: GenerationFolder, reader: Reader) -> RunRow | None:
    """The run of the last generation into a folder, unless that came to its end."""
    key = folder.record.get("run")
    try:
        run = reader.find_run(key) if isinstance(key, str) and key else None
    except LookupError:
        return None
    return run if run is not None and GENERATION in run.config and run.status != "finished" else None


def _new_run(subject: Subject, folder: GenerationFolder, roles: Roles, writer: Writer) -> RunRow:
    """A run without answers, whose snapshot shows the prompt."""
    document = {
        "schemaVersion": CURRENT_VERSION,
        "metadata": {"name": subject.name},
        "items": [{"prompt": subject.body}],
    }
    source = str(subject.file)
    new = NewRun(
        name=f"generate {subject.name}",
        snapshot=writer.snapshot(document, source),
        source=source,
        targets=(roles.rules.name,),
        tags=("generate",),
        config={GENERATION: {"prompt": source, "folder": str(folder.path)}},
    )
    return writer.plan(new, ())


def our_spelling(word: str | None, settings: Settings) -> str | None:
    """A model as we spell it, where it is spelled as PromptPex does: provider:model."""
    head, colon, rest = (word or "").partition(":")
    ours = word in settings.targets or "/" in head or head in ("replay", "python", "command", "a2a")
    return f"{head}/{rest}" if colon and not ours else word


_NOT_SEARCHED = frozenset(("node_modules", "venv", "__pycache__"))


def remembered_targets(root: Path, settings: Settings) -> list[TargetConfig]:
    """The targets that the generations of a project would ask when they continue."""
    configs = []
    for place, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _NOT_SEARCHED]
        if RECORD not in files:
            continue
        where = str((Path(place) / RECORD).relative_to(root))
        for word in _remembered_words(Path(place)):
            with suppress(ConfigurationError):  # said where the generation continues
                configs.append(find_target(str(our_spelling(word, settings)), settings, where))
    return configs


def _remembered_words(folder: Path) -> list[str]:
    try:
        targets = GenerationFolder(folder).record.get("targets")
    except UnreadableFile:  # said where the generation continues
        return []
    roles = targets.values() if isinstance(targets, dict) else ()
    words = [word for role in roles for word in (role if isinstance(role, list) else [role])]
    return [word for word in words if isinstance(word, str) and word]
