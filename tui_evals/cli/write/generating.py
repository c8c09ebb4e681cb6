"""`tui-evals generate`: options in, progress and results out."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tui_evals.cli import project
from tui_evals.cli.inputs import approve, open_project
from tui_evals.cli.output import (
    Stop,
    cell,
    columns,
    keep_output_to_ourselves,
    redraws,
    rewind,
    say,
    say_data,
    say_json,
    say_json_line,
    warn,
)
from tui_evals.datasets.document import load
from tui_evals.datasets.paths import DatasetError
from tui_evals.files import CannotSave
from tui_evals.generate.asking import PROMPT_NAMES, shipped_prompt
from tui_evals.generate.execution import GenerationExecution, GenerationResult
from tui_evals.generate.exports import dataset_path, spread_items
from tui_evals.generate.folder import UnreadableFile, rule_lines
from tui_evals.generate.pipeline import ConfirmStep, State, Step
from tui_evals.generate.request import (
    SILENT,
    ChosenSteps,
    FoundGeneration,
    GenerationPlan,
    GenerationRequest,
    choose_steps,
    find_generation,
    plan_generation,
    stored_generation_request,
)
from tui_evals.generate.steps import known_rule_evals, known_test_evals
from tui_evals.generate.work import MAX_RULES, Generation, Options
from tui_evals.present.battles import generation_stopped, step_price
from tui_evals.present.figures import estimated_cost
from tui_evals.present.runs import command_wait_sentence, destination_lines
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.limits import Budget
from tui_evals.runs.status import exit_code_of
from tui_evals.store.battles import activity
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import StoreWait
from tui_evals.targets.base import ConfigurationError
from tui_evals.text.measures import counted, duration, money

_MARKS = {"kept": "·", "made": "✓", "failed": "✗"}
_OPTIONS = frozenset(Options.__dataclass_fields__)


def generate(**given: Any) -> int:
    """Make a test collection for a prompt, or continue one."""
    if given["show_prompt"] is not None:
        return _show_prompt(given["show_prompt"])
    here = open_project(given["env_name"], given["trusting"])
    keep_output_to_ourselves()
    try:
        found = find_generation(_request(given), here)
        if given["plan_only"]:
            return _say_plan(plan_generation(found), as_json=given["as_json"])
        approve(found.permissions(), here.root)
        budget = Budget(given["max_cost"] if given["stored"] is None else found.request.max_cost)
        work, note = found.open(budget)
        if note:
            warn(note)
        with project.reader() as reader, project.writer(here.environment) as writer:
            chosen = choose_steps(found.request, work)
            board = StepBoard(quiet=given["quiet"], as_json=given["as_json"])
            question = TerminalQuestion()
            execution = GenerationExecution(
                found,
                work,
                budget,
                reader,
                writer,
                listener=board,
                chosen=chosen,
                confirm=_confirmation(work, chosen, board, question, is_yes=given["yes"]),
                key=given["stored"],
            )
            result, interrupted = asyncio.run(_run_interruptible(execution, board, question))
        code = _say_end(result, board, interrupted=interrupted, quiet=given["quiet"] or given["as_json"])
        return code or _run_under_test(work, found, given, result.spent)
    except (CannotPlan, DatasetError, UnreadableFile) as problem:
        raise Stop(str(problem)) from None
    except ConfigurationError as problem:
        raise Stop(str(problem), 3) from None
    except StoreError as problem:
        raise Stop(f"{problem}\nNothing that was made is lost: the same command continues", 1) from None
    except CannotSave as problem:
        raise Stop(str(problem), 1) from None


def _request(given: Mapping[str, Any]) -> GenerationRequest:
    if given["stored"] is not None:
        with project.reader() as reader:
            return _stored_request(given["stored"], reader)
    return GenerationRequest(
        options={name: given[name] for name in _OPTIONS & given.keys()},
        use_cache=not given["no_cache"],
        **{name: given[name] for name in GenerationRequest.__dataclass_fields__.keys() & given.keys()},
    )


def _stored_request(key: str, reader: Reader) -> GenerationRequest:
    try:
        return stored_generation_request(activity(reader, key).request)
    except LookupError as problem:
        raise Stop(str(problem.args[0])) from None


def _show_prompt(name: str) -> int:
    if name not in PROMPT_NAMES:
        raise Stop(f"there is no step prompt {name}; their names are {', '.join(PROMPT_NAMES)}")
    say_data(shipped_prompt(name))
    return 0


def _say_plan(plan: GenerationPlan, *, as_json: bool) -> int:
    """Print the plan of the steps, and where questions and keys would go."""
    if as_json:
        steps = [{"step": s.step, "calls": s.calls, "cost": s.cost, "certain": s.certain} for s in plan.steps]
        say_json({"calls": plan.calls, "cost": plan.cost, "steps": steps, "destinations": plan.destinations})
        return 0
    for share in plan.steps:
        say(step_price(share.step, share.calls, certain=share.certain))
    say(f"{counted(plan.calls, 'call')}, {estimated_cost(plan.cost)}; repairs and retries may add some")
    for line in destination_lines(plan.destinations):
        say(line)
    return 0


# -- while the steps are taken


async def _run_interruptible(
    execution: GenerationExecution, board: StepBoard, question: TerminalQuestion
) -> tuple[GenerationResult, bool]:
    """Run with Ctrl-C: the first lets open requests finish, the second stops now."""
    presses = 0

    def pressed() -> None:
        nonlocal presses
        presses += 1
        if presses == 1:
            board.leave()
            warn("finishing open requests; Ctrl-C again stops now. The same command continues later")
            execution.stop()
            question.interrupt()
        else:
            execution.abort()

    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, pressed)
    return await execution.run(), presses > 0


def _confirmation(
    work: Generation, chosen: ChosenSteps, board: StepBoard, question: TerminalQuestion, *, is_yes: bool
) -> ConfirmStep | None:
    """Asks whether to continue after a step; without a terminal, the generation stops there."""
    if not chosen.confirm:
        return None

    async def confirmed(step: Step) -> bool:
        if step.name not in chosen.confirm or is_yes:
            return True
        file = work.folder.path / step.file
        if not sys.stdin.isatty():
            board.leave()
            go_on = "then run the same command again, or with --yes to continue without questions"
            warn(f"resting after {step.name}, as --confirm says: look at {file}, {go_on}")
            return False
        board.hold()
        try:
            return await question.yes(f"{step.name} wrote {file}. Go on?")
        finally:
            board.go_on()

    return confirmed


_ANSWERS = {"": True, "y": True, "yes": True, "n": False, "no": False}


class TerminalQuestion:
    """Asks at the terminal while work continues; an interrupt answers this and later questions with no."""

    def __init__(self) -> None:
        self._interrupted = asyncio.Event()

    def interrupt(self) -> None:
        """Ask nothing any more."""
        self._interrupted.set()

    async def yes(self, question: str) -> bool:
        """Whether the user agrees; the end of the input is a no."""
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
        """The next typed line; None at the end of the input."""
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


class StepBoard:
    """The steps as they go: a line for each that is over, and on a terminal one for those under way."""

    def __init__(self, *, quiet: bool, as_json: bool) -> None:
        self._quiet = quiet
        self._as_json = as_json
        self._live = redraws() and not quiet and not as_json
        self._drawn = False
        self._held: list[Callable[[], None]] | None = None
        self._began: dict[str, float] = {}
        self._counts: dict[str, tuple[int, int]] = {}

    def leave(self) -> None:
        """Keep the line, because something else is printed below it."""
        self._drawn = False

    def hold(self) -> None:
        """Print nothing while a question is open."""
        self._wipe()
        self._held = []

    def go_on(self) -> None:
        """Print what was held back."""
        held, self._held = self._held or [], None
        for say_it in held:
            say_it()

    def tell(self, note: str) -> None:
        """Print a note that stops nothing."""
        if self._held is not None:
            self._held.append(lambda: self.tell(note))
            return
        self._wipe()
        if self._as_json:
            say_json_line({"event": "note", "text": note})
        else:
            warn(f"note: {note}")
        self._draw()

    def show_wait(self, wait: StoreWait, is_over: bool) -> None:
        """Print what the generation waits for, and that it continues."""
        with suppress(OSError):  # the output may go to the full disk
            self.tell(command_wait_sentence(wait, time.time(), is_over=is_over))

    def step(self, step: Step, state: State, result: str) -> None:
        """Print the state of a step."""
        if self._held is not None:
            self._held.append(lambda: self.step(step, state, result))
            return
        if state == "started":
            self._wipe()
            self._began[step.name] = time.monotonic()
        elif self._as_json:
            say_json_line({"event": "step", "step": step.name, "state": state, "file": step.file, "text": result})
        else:
            self._wipe()
            seconds = time.monotonic() - self._began.pop(step.name, time.monotonic())
            self._counts.pop(step.name, None)
            if not self._quiet and step.name not in SILENT:
                self._line(step, state, result, seconds)
        self._draw()

    def _line(self, step: Step, state: State, result: str, seconds: float) -> None:
        state_text = {"kept": "is there", "made": duration(seconds), "failed": "could not be done"}[state]
        about = step.file or (result if state == "made" else "")
        colour = {"made": "green", "failed": "red"}.get(state)
        line = f"{_MARKS[state]} {step.name:<13} {about:<24} {state_text}"
        say(line, fg=colour)

    def progress(self, step: str, done: int, total: int) -> None:
        """Show the progress of a step."""
        self._counts[step] = (done, total)
        self._wipe()
        self._draw()

    def _wipe(self) -> None:
        if self._live and self._drawn:
            rewind(1)
        self._drawn = False

    def _draw(self) -> None:
        if not self._live or not self._began or self._held is not None:
            return
        parts = []
        for name in self._began:
            done, total = self._counts.get(name, (0, 0))
            parts.append(f"{name} {done}/{total}" if total else name)
        say(cell(f"… {', '.join(parts)}", (columns() or 1000) - 1))
        self._drawn = True

    def end(self, result: GenerationResult) -> None:
        """Print the end event, where output is JSON."""
        if not self._as_json:
            return
        ended = result.ended
        status = "finished" if ended.finished else "stopped" if ended.halted or ended.stopped else "failed"
        problems = [*ended.problems, *([str(ended.stopped)] if ended.stopped else [])]
        about = {
            "folder": str(result.work.folder.path),
            "dataset": None if result.dataset is None else str(result.dataset),
        }
        say_json_line({"event": "end", "status": status, **about, "cost": round(result.spent, 6), "problems": problems})


# -- the end


def _say_end(result: GenerationResult, board: StepBoard, *, interrupted: bool, quiet: bool) -> int:
    """Print the result and the next command; the exit code."""
    ended = result.ended
    for note in result.notes:
        board.tell(note)
    board.end(result)
    for problem in ended.problems:
        warn(problem)
    if ended.stopped is not None:
        warn(generation_stopped(str(ended.stopped)))
        return 130 if interrupted else exit_code_of(ended.stopped.code)
    if ended.halted:
        warn(generation_stopped(""))
        return 130 if interrupted else 0
    if ended.problems:
        return 1
    if not quiet:
        _say_made(result.work, result.steps, result.spent)
    return 0


def typed(path: Path) -> str:
    """A path as typed into a shell."""
    return shlex.quote(f"./{path}" if str(path).startswith("-") else str(path))


def _found_out(work: Generation) -> list[str]:
    """The result of each review in a line."""
    rules, tests = list(known_rule_evals(work).values()), list(known_test_evals(work).values())
    counts = (
        ("rules follow from the prompt", [rule.grounded for rule in rules]),
        ("tests are valid input", [test.validity for test in tests if test.validity]),
        ("tests can be answered from the rules alone", [test.coverage for test in tests if test.coverage]),
    )
    return [
        f"{outcomes.count('ok')} of {len(outcomes)} {says}"
        + (f", {unknown} unclear" if (unknown := outcomes.count("unknown")) else "")
        for says, outcomes in counts
        if outcomes
    ]


def _say_made(work: Generation, steps: Sequence[Step], spent: float) -> None:
    tests = work.tests
    rules = len(rule_lines(work.folder.read("rules.txt")))
    used = {test.ruleid for test in tests if test.ruleid}
    if not any(step.name == "dataset" for step in steps):
        say(f"{work.folder.path}: {steps[-1].file} is there; the same command without --until continues")
        return
    baseline = sum(1 for test in tests if test.baseline)
    more = f", {baseline} baseline tests" if baseline else ""
    made = f"{rules} rules, {len(tests) - baseline} tests of {len(used)} rules and inverse rules{more}"
    say(f"{made}, {money(spent)}", bold=True)
    for line in _found_out(work):
        say(line)
    for step, said in work.gaps.items():
        say(f"{step}: {said}")
    if work.asker is not None and work.asker.scripted:
        say(f"what {' and '.join(sorted(work.asker.scripted))} wrote is scripted: no model was asked")
    if (most := work.options.max_rules) is not None and rules > most:
        more = f"; --max-rules {rules} tests all" if rules <= MAX_RULES else ""
        say(f"the first {most} of {rules} rules are tested{more}")
    say(f"`tui-evals run {typed(dataset_path(work))} --target NAME` runs them; `tui-evals report --overview` sums up")


# -- the models under test


def _run_under_test(work: Generation, found: FoundGeneration, arguments: Mapping[str, Any], spent: float) -> int:
    """Run the tests on the models under test, if this command names some and creates the dataset.

    The cost limit applies to the whole command, so the run gets what the steps left of it.
    """
    names, file = [target.name for target in found.roles.under_test], dataset_path(work)
    if not arguments["under_test"] or arguments["until"] or not file.exists():
        return 0
    judge = work.models.judges[0].config.name if work.models.judges else None
    words = ["run", str(file.absolute()), *(word for name in names for word in ("--target", name))]
    words += ["--judge", judge] if judge else ["--without-judges"]
    words += _tests_to_run(work)
    words += ["--concurrency", str(arguments["concurrency"])] if arguments["concurrency"] else []
    if (most := arguments["max_cost"]) is not None:
        if spent >= most:
            why = f"the budget is spent: {money(spent)} of {money(most)}. The tests were not run"
            raise Stop(why, exit_code_of("budget"))
        words += ["--max-cost", f"{most - spent:.9f}"]
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
