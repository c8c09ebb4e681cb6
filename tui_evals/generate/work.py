"""What every step works with: the prompt, its folder, the options and the models."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tui_evals.runs.asking import PricedTarget
from tui_evals.store.records import AnswerRecord
from tui_evals.text.safe import without_sequences

from .asking import CannotGenerate, Messages, ModelAsker, Prompts
from .folder import GenerationFolder
from .options import Options
from .parsing import is_refusal
from .shapes import Rule, Test, Truth, all_rules, number_rules, parse_rows, renumber_tests, rule_lines
from .subject import Subject

PROMPT = "prompt"
"""The prompt under test, as a source of what is made from it."""
MAX_RULES = 100
"""More rules than this are a reply gone wrong, and would cost thousands of questions."""

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The models by what they do: write, answer for the ground truth, or judge."""

    rules: PricedTarget
    baseline: PricedTarget
    groundtruth: PricedTarget
    judges: tuple[PricedTarget, ...] = ()
    groundtruth_judges: tuple[PricedTarget, ...] = ()

    @property
    def all(self) -> tuple[PricedTarget, ...]:
        """Each of them once."""
        return tuple({id(one): one for one in self._named()}.values())

    def _named(self) -> tuple[PricedTarget, ...]:
        return (self.rules, self.baseline, self.groundtruth, *self.judges, *self.groundtruth_judges)


@dataclass(frozen=True, kw_only=True)
class Generation:
    """A generation: what its steps read, ask and write."""

    subject: Subject
    options: Options
    folder: GenerationFolder
    prompts: Prompts
    models: Models
    asker: ModelAsker | None = None
    """None where nothing is asked, because only the steps to do and their cost are wanted."""
    groundtruth_metric: Path | None = None
    """The user's own metric for ground truth, in place of ours."""
    tell: Callable[[str], None] = lambda warning: None
    """Takes warnings for the user."""
    progress: Callable[[str, int, int], None] = lambda step, done, total: None
    under_test: tuple[str, ...] = ()
    """The models that exports are written for."""
    again: frozenset[int] = field(default_factory=frozenset)
    """The numbers of the rules whose tests are made anew."""
    invert: frozenset[int] = field(default_factory=frozenset)
    """The places of the output rules whose inverse is made anew."""

    @property
    def body(self) -> str:
        """The prompt as the steps show it."""
        return self.subject.body

    @property
    def texts(self) -> dict[str, str]:
        """The sources of files that lie outside the folder."""
        return {PROMPT: self.subject.body}

    def text(self, name: str) -> str:
        """What stands in a file of the folder."""
        return (self.folder.read(name) or "").strip()

    @property
    def rules(self) -> list[Rule]:
        """The rules that tests are made for, output rules first."""
        return number_rules(*self._lines(), self.options.max_rules)

    def _lines(self) -> tuple[list[str], list[str]]:
        return rule_lines(self.folder.read("rules.txt")), rule_lines(self.folder.read("inverse_rules.txt"))

    @property
    def tests(self) -> list[Test]:
        """The tests as they stand, baseline tests included, under the numbers of the rules as they stand."""
        tests = parse_rows(Test, self._place("tests.json"), self.folder.read("tests.json") or "[]")
        return renumber_tests(tests, all_rules(*self._lines(), self.options.max_rules))

    @property
    def truths(self) -> dict[str, Truth]:
        """The ground truth as it stands, by test."""
        text = self.folder.read("test_groundtruth.json") or "[]"
        return {truth.testuid: truth for truth in parse_rows(Truth, self._place("test_groundtruth.json"), text)}

    def _place(self, name: str) -> str:
        return str(self.folder.path / name)

    async def ask(self, model: PricedTarget, messages: Sequence[Mapping[str, Any]], step: str, **more: Any) -> str:
        """The text of a model's answer."""
        return (await self.answer(model, messages, step, **more)).text or ""

    async def answer(
        self, model: PricedTarget, messages: Sequence[Mapping[str, Any]], step: str, **more: Any
    ) -> AnswerRecord:
        """A model's answer."""
        assert self.asker is not None
        return await self.asker.ask(model, messages, step, **more)

    async def write_text(self, file: str, messages: Messages, *, attempt: int = 0, tidy: Callable[[str], str]) -> str:
        """What the model writes for a file, tidied; CannotGenerate where it declined."""
        reply = await self.ask(self.models.rules, messages, file, attempt=attempt, params=CREATIVE)
        if is_refusal(reply):
            raise CannotGenerate(
                f"{self.models.rules.config.name} declined: “{_first_words(reply)}”. {self._way_out(file)}"
            )
        # People read these files with whatever shows files, and a terminal obeys what is in them.
        return tidy(_CONTROLS.sub("", without_sequences(reply)))

    def nothing_written(self, what: str, file: str) -> CannotGenerate:
        """The error where a model wrote nothing for a file."""
        return CannotGenerate(f"{self.models.rules.config.name} wrote no {what}. {self._way_out(file)}")

    def _way_out(self, file: str) -> str:
        return (
            f"Name another model with --target, say more about what you want in the prompt's `instructions`, or write "
            f"{self._place(file)} yourself; the same command then goes on from there"
        )


CREATIVE: Mapping[str, float] = {"temperature": 1}


def _first_words(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else f"{line[:79]}…"


async def make_each(
    work: Generation, step: str, things: Sequence[T], make: Callable[[T], Awaitable[R]]
) -> tuple[list[R], list[CannotGenerate], BaseException | None]:
    """Make a result of every thing, all at once: the results, the failures, and what ended it, if anything."""
    done = 0

    async def make_one(thing: T) -> R:
        nonlocal done
        outcome = await make(thing)
        done += 1
        work.progress(step, done, len(things))
        return outcome

    work.progress(step, 0, len(things))
    outcomes = await asyncio.gather(*map(make_one, things), return_exceptions=True)
    results = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    failures = [error for error in errors if isinstance(error, CannotGenerate)]
    return results, failures, next((error for error in errors if not isinstance(error, CannotGenerate)), None)
