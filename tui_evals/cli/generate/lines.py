"""The output of `tui-evals generate`: the plan, the progress of steps and the results."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tui_evals.cli.output import cell, columns, redraws, rewind, say, say_json, say_json_line, warn
from tui_evals.generate.dataset import dataset_path
from tui_evals.generate.pipeline import PipelineOutcome, State, estimate_steps
from tui_evals.generate.reviewing import known_rule_evals, known_test_evals
from tui_evals.generate.shapes import rule_lines
from tui_evals.generate.steps import Step
from tui_evals.generate.work import MAX_RULES, PROMPT, Generation
from tui_evals.present.estimates import estimated_cost
from tui_evals.present.figures import counted, duration
from tui_evals.present.pace import command_wait_sentence
from tui_evals.present.runs import destination_lines
from tui_evals.store.records import StoreWait
from tui_evals.text.money import money

_MARKS = {"kept": "·", "made": "✓", "failed": "✗"}
SILENT = ("labels",)
"""Steps that are housekeeping, and not spoken of."""


def say_plan(
    work: Generation,
    steps: Sequence[Step],
    again: Collection[str],
    destinations: Mapping[str, Mapping[str, str | None]],
    *,
    as_json: bool,
) -> int:
    """Print the plan of the steps, and where questions and keys would go."""
    shares = estimate_steps(work, steps, again)
    calls = sum(share.calls for share in shares)
    costs = [share.cost for share in shares if share.cost is not None]
    cost = sum(costs) if len(costs) == len(shares) else None
    if as_json:
        steps_json = [{"step": s.step, "calls": s.calls, "cost": s.cost, "certain": s.certain} for s in shares]
        say_json({"calls": calls, "cost": cost, "steps": steps_json, "destinations": destinations})
        return 0
    for share in shares:
        about = "" if share.certain else "about "
        calls_text = f"{about}{counted(share.calls, 'call')}" if share.calls else "there already"
        say(f"{share.step:<13} {calls_text}")
    say(f"{calls:,} calls, {estimated_cost(cost)}; repairs and retries may add some")
    for line in destination_lines(destinations):
        say(line)
    return 0


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
        """Keep quiet while a person is asked something."""
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
        """Say what the store keeps it waiting for, and that it goes on."""
        with suppress(OSError):  # what is printed may go to the disk that is full
            self.tell(command_wait_sentence(wait, time.time(), is_over=is_over))

    def end(self, work: Generation, ended: PipelineOutcome, spent: float) -> None:
        """Print the end event, where output is JSON."""
        if not self._as_json:
            return
        status = "finished" if ended.finished else "stopped" if ended.halted or ended.stopped else "failed"
        problems = [*ended.problems, *([str(ended.stopped)] if ended.stopped else [])]
        dataset = dataset_path(work)
        about = {"folder": str(work.folder.path), "dataset": str(dataset) if dataset.exists() else None}
        say_json_line({"event": "end", "status": status, **about, "cost": round(spent, 6), "problems": problems})

    def step(self, step: Step, state: State, result: str) -> None:
        """Say how a step goes."""
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
        """Say how far a step is."""
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


def say_end(
    work: Generation,
    steps: Sequence[Step],
    ended: PipelineOutcome,
    board: StepBoard,
    *,
    spent: float,
    interrupted: bool,
    quiet: bool,
) -> int:
    """Print the result and the next command; the exit code."""
    for note in _outdated(work, [step for step in steps if step.sources and step.name not in ended.made]):
        board.tell(note)
    board.end(work, ended, spent)
    for problem in ended.problems:
        warn(problem)
    if ended.stopped is not None:
        warn(f"stopped: {str(ended.stopped).rstrip('.')}. What was made is kept; the same command goes on")
        return {"configuration": 3, "store": 130}.get(ended.stopped.code, 1)
    if ended.halted:
        warn("stopped before the end. What was made is kept; the same command goes on")
        return 130 if interrupted else 0
    if ended.problems:
        return 1
    if not quiet:
        _say_made(work, steps, spent)
    return 0


def _outdated(work: Generation, steps: Sequence[Step]) -> Iterator[str]:
    """Notes on files older than their sources; files of the same sources share one note."""
    alike: dict[tuple[str, ...], list[Step]] = {}
    for step in steps:
        if changed := work.folder.outdated(step.file, work.texts):
            changed_names = (work.subject.file.name if source == PROMPT else source for source in changed)
            alike.setdefault(tuple(changed_names), []).append(step)
    for sources, made in alike.items():
        files = _listed(list(dict.fromkeys(step.file for step in made)))
        was, pronoun = ("were", "them") if len(made) > 1 else ("was", "it")
        begin = ",".join(step.name for step in made)
        yield (
            f"{files} {was} made before {_listed(sources)} changed; `--from {begin}` makes {pronoun} anew, and what "
            f"follows from {pronoun}"
        )


def typed(path: Path) -> str:
    """A path as one types it into a shell."""
    return shlex.quote(f"./{path}" if str(path).startswith("-") else str(path))


def _listed(names: Sequence[str]) -> str:
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), *names[-1:]])


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
        say(f"{work.folder.path}: {steps[-1].file} is there; the same command without --until goes on")
        return
    baseline = sum(1 for test in tests if test.baseline)
    more = f", {baseline} baseline tests" if baseline else ""
    made = f"{rules} rules, {len(tests) - baseline} tests of {len(used)} rules and inverse rules{more}"
    say(f"{made}, {money(spent)}", bold=True)
    for line in _found_out(work):
        say(line)
    if work.asker is not None and work.asker.scripted:
        say(f"what {' and '.join(sorted(work.asker.scripted))} wrote is scripted: no model was asked")
    if (most := work.options.max_rules) is not None and rules > most:
        more = f"; --max-rules {rules} tests all" if rules <= MAX_RULES else ""
        say(f"the first {most} of {rules} rules are tested{more}")
    say(f"`tui-evals run {typed(dataset_path(work))} --target NAME` runs them; `tui-evals report --overview` sums up")
