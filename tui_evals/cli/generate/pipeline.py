"""Asking a person at the terminal whether a generation goes on, in a way that Ctrl-C ends at once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tui_evals.atomic_files import CannotSave
from tui_evals.cli import project
from tui_evals.cli.approving import approve
from tui_evals.cli.inputs import open_project
from tui_evals.cli.output import Stop, keep_output_to_ourselves, say_data, warn
from tui_evals.datasets.document import load
from tui_evals.datasets.problems import DatasetError
from tui_evals.evaluators.compliance import discover_metrics
from tui_evals.generate import pipeline
from tui_evals.generate.asking import PROMPT_NAMES, ModelAsker, Prompts, shipped_prompt
from tui_evals.generate.dataset import dataset_path
from tui_evals.generate.options import Options, effective_options
from tui_evals.generate.session import GenerationSession, Roles, claim_folder, open_session, unfinished_run
from tui_evals.generate.shapes import UnreadableFile
from tui_evals.generate.spreading import spread_items
from tui_evals.generate.steps import Step, dependent_steps
from tui_evals.generate.subject import read_subject
from tui_evals.generate.work import Generation
from tui_evals.runs.approving import missing_of_targets
from tui_evals.runs.asking import StoreLedger
from tui_evals.runs.budget import Budget
from tui_evals.runs.executors.base import Stopped
from tui_evals.runs.project import Project
from tui_evals.runs.storing import Storing
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.permissions import destinations

from .lines import StepBoard, say_end, say_plan
from .options import GenerateOptions, cast_of, custom_metric, generate_options, prompt_and_folder, saved_of

_ANSWERS = {"": True, "y": True, "yes": True, "n": False, "no": False}


class TerminalQuestion:
    """Asks at the terminal while work goes on; an interrupt answers this and later questions with no."""

    def __init__(self) -> None:
        self._interrupted = asyncio.Event()

    def interrupt(self) -> None:
        """Ask nothing any more."""
        self._interrupted.set()

    async def yes(self, question: str) -> bool:
        """Whether a person agrees; the end of the input is a no."""
        while not self._interrupted.is_set():
            warn(f"{question} [Y/n]")
            line = await self._line()
            if line is None:
                return False
            if (word := line.strip().lower()) in _ANSWERS:
                return _ANSWERS[word]
            warn("answer y or n")
        return False

    async def _line(self) -> str | None:
        """The next line a person types; None when there is none to come."""
        loop, typed = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(sys.stdin.fileno(), typed.set)
        waiting = [asyncio.create_task(event.wait()) for event in (typed, self._interrupted)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            loop.remove_reader(sys.stdin.fileno())
            for task in waiting:
                task.cancel()
        if self._interrupted.is_set():
            return None
        return os.read(sys.stdin.fileno(), 4096).decode("utf-8", "replace") or None


_OPTIONS = frozenset(Options.__dataclass_fields__)


def generate(**arguments: Any) -> int:
    """Make a test collection for a prompt, or go on with one."""
    if arguments["show_prompt"] is not None:
        return _show_prompt(arguments["show_prompt"])
    here = open_project(arguments["env_name"], arguments["trusting"])
    keep_output_to_ourselves()
    try:
        file, folder = prompt_and_folder(arguments)
        saved, targets = saved_of(folder)
        options = effective_options({name: arguments[name] for name in _OPTIONS & arguments.keys()}, saved)
        subject = read_subject(file, options, arguments["seed"])
        prompts = Prompts(here.root)
        prompts.check()
        cast = cast_of(arguments, targets, here)
        custom_metric(arguments["custom_metric"], subject)
        budget = Budget(arguments["max_cost"])
        planning = arguments["plan_only"]
        if not planning:
            approve(missing_of_targets(here, cast.every), here.root)
        models = cast.open_models(budget, here.environment, here.root, arguments["concurrency"], planning=planning)
        with project.reader() as reader, project.writer(here.environment) as writer:
            work = Generation(
                subject=subject,
                options=options,
                folder=folder,
                prompts=prompts,
                models=models,
                groundtruth_metric=next(iter(discover_metrics(file.parent, groundtruth=True).values()), None),
                under_test=tuple(target.model for target in cast.under_test),
                again=frozenset(arguments["again"]),
                invert=frozenset(arguments["invert"]),
            )
            return _take_steps(arguments, work, cast, here, budget, reader, writer)
    except (DatasetError, UnreadableFile) as problem:
        raise Stop(str(problem)) from None
    except ConfigurationError as problem:
        raise Stop(str(problem), 3) from None
    except StoreError as problem:
        raise Stop(f"{problem}\nNothing that was made is lost: the same command goes on", 1) from None
    except CannotSave as problem:
        raise Stop(str(problem), 1) from None


def _show_prompt(name: str) -> int:
    if name not in PROMPT_NAMES:
        raise Stop(f"there is no step prompt {name}; their names are {', '.join(PROMPT_NAMES)}")
    say_data(shipped_prompt(name))
    return 0


# -- on its way


def _take_steps(
    arguments: Mapping[str, Any],
    work: Generation,
    cast: Roles,
    here: Project,
    budget: Budget,
    reader: Reader,
    writer: Writer,
) -> int:
    """Take the steps, in the name of a run that keeps what they cost."""
    chosen = generate_options(arguments, work)
    if arguments["plan_only"]:
        again = {step.name for step in dependent_steps(*(step.name for step in chosen.begin))}
        sent = destinations(cast.every, here.environment)
        return say_plan(work, chosen.steps, again, sent, as_json=arguments["as_json"])
    board, store = StepBoard(quiet=arguments["quiet"], as_json=arguments["as_json"]), project.store_path()
    work = replace(work, tell=board.tell, progress=board.progress)
    with claim_folder(work.folder, store):
        place = pipeline.set_results_aside(work, *(step.name for step in chosen.begin))
        if place is not None:
            board.tell(f"what was made before lies in {place}")
        _note_inputs(work, cast)
        before = budget.spent
        is_over = bool(arguments["until"]) or unfinished_run(work.folder, reader) is None
        if is_over and all(step.done(work) for step in chosen.steps if step.file):
            ended, interrupted = asyncio.run(_run_interruptible(work, chosen, board))
        else:
            anew = bool(chosen.begin or work.again or work.invert)
            use_cache = not arguments["no_cache"] and not (work.again or work.invert)
            session = open_session(work.subject, work.folder, cast, writer, reader, store, anew=anew)

            def begun(current: GenerationSession) -> Generation:
                nonlocal before
                budget.of_run(current.run.id, reader, writer)
                before = budget.spent
                ledger = StoreLedger(reader, writer, current.run.id)
                return replace(work, asker=ModelAsker(ledger, current.run.key, use_cache=use_cache))

            work, ended, interrupted = asyncio.run(_run_in_session(session, begun, chosen, board))
    for step in chosen.begin:
        if (
            place is not None
            and step.name in ended.made
            and _same_content(work.folder.path / step.file, place / step.file)
        ):
            board.tell(f"{step.file} came out as it was, for its question was asked before; --no-cache asks it again")
    silent = arguments["quiet"] or arguments["as_json"]
    spent = budget.spent - before
    code = say_end(work, chosen.steps, ended, board, spent=spent, interrupted=interrupted, quiet=silent)
    return code or _run_under_test(work, cast, arguments)


def _same_content(new: Path, old: Path) -> bool:
    return new.is_file() and old.is_file() and new.read_bytes() == old.read_bytes()


def _note_inputs(work: Generation, cast: Roles) -> None:
    """Save the inputs for later commands."""
    folder = work.folder.path.resolve()
    file = work.subject.file
    prompt = Path(os.path.relpath(file.parent.resolve() / file.name, folder)).as_posix()
    work.folder.note(prompt=prompt, options=work.options.kept(), targets=cast.names)


async def _run_in_session(
    session: AbstractAsyncContextManager[GenerationSession],
    begun: Callable[[GenerationSession], Generation],
    chosen: GenerateOptions,
    board: StepBoard,
) -> tuple[Generation, pipeline.PipelineOutcome, bool]:
    """Take the steps within a session, whose run keeps how they ended."""
    async with session as current:
        work = begun(current)
        ended, interrupted = await _run_interruptible(work, chosen, board, current.storing)
        current.finished = ended.finished
        if ended.stopped is not None:
            current.message, current.code = str(ended.stopped), ended.stopped.code
        elif ended.problems and not ended.halted:
            current.message, current.code = ended.problems[0], "failed"
    if current.lost:
        ended = replace(ended, finished=False, stopped=Stopped(current.lost, "store"))
    return work, ended, interrupted


async def _run_interruptible(
    work: Generation, chosen: GenerateOptions, board: StepBoard, storing: Storing | None = None
) -> tuple[pipeline.PipelineOutcome, bool]:
    """Take the steps with Ctrl-C at hand: the first lets what is in flight finish, the second stops now."""
    question = TerminalQuestion()
    confirmed = None if not chosen.confirm else lambda step: _is_confirmed(work, chosen, board, step, question)
    running = pipeline.Pipeline(work, chosen.steps, board.step, confirmed)
    if storing is not None:
        storing.watch(running, board.show_wait)
    task = asyncio.create_task(running.run())
    presses = 0

    def pressed() -> None:
        nonlocal presses
        presses += 1
        if presses == 1:
            board.leave()
            warn("finishing what is in flight; Ctrl-C again stops now. The same command goes on later")
            if storing is not None:
                storing.give_up()
            running.stop()
            question.interrupt()
        else:
            task.cancel()

    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, pressed)
    try:
        return await task, presses > 0
    except asyncio.CancelledError:
        return pipeline.PipelineOutcome((), False, halted=True), True


async def _is_confirmed(
    work: Generation, chosen: GenerateOptions, board: StepBoard, step: Step, question: TerminalQuestion
) -> bool:
    """Whether a person wants to go on after a step; where nobody can be asked, the generation rests there."""
    if step.name not in chosen.confirm or chosen.values["yes"]:
        return True
    file = work.folder.path / step.file
    if not sys.stdin.isatty():
        board.leave()
        go_on = "then run the same command again, or with --yes to go on unasked"
        warn(f"resting after {step.name}, as --confirm says: look at {file}, {go_on}")
        return False
    board.hold()
    try:
        return await question.yes(f"{step.name} wrote {file}. Go on?")
    finally:
        board.go_on()


def _run_under_test(work: Generation, cast: Roles, arguments: Mapping[str, Any]) -> int:
    """Run the tests on the models under test, where this command names some and makes the dataset."""
    names, file = [target.name for target in cast.under_test], dataset_path(work)
    if not arguments["under_test"] or arguments["until"] or not file.exists():
        return 0
    judge = work.models.judges[0].config.name if work.models.judges else None
    words = ["run", str(file.absolute()), *(word for name in names for word in ("--target", name))]
    words += ["--judge", judge] if judge else ["--without-judges"]
    words += _tests_to_run(work)
    for option in ("concurrency", "max_cost"):
        value = arguments[option]
        words += [f"--{option.replace('_', '-')}", str(value)] if value else []
    words += [f"--{name.replace('_', '-')}" for name in ("quiet", "no_cache") if arguments[name]]
    words += ["--json"] if arguments["as_json"] else []
    words += ["--trust"] if arguments["trusting"] else []
    words += ["--env", arguments["env_name"]] if arguments["env_name"] else []
    from tui_evals.cli.main import cli  # the whole command line, which this module is a part of

    code = cli.main(words, prog_name="tui-evals", standalone_mode=False)
    if not arguments["quiet"] and not arguments["as_json"]:
        cli.main(["report", "last", "--overview"], prog_name="tui-evals", standalone_mode=False)
    return code if isinstance(code, int) else 0


def _tests_to_run(work: Generation) -> list[str]:
    """The words that have no more tests run than the options allow, from every rule."""
    items, count = load(dataset_path(work)).data["items"], work.options.max_tests_to_run
    if count is None or count >= len(items):
        return []
    return ["--items", ",".join(str(place + 1) for place in spread_items(items, count))]
