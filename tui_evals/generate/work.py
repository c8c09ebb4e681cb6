"""What every step works with: the prompt, the folder, the models, and whom to tell."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tui_evals.runs.asking import PricedTarget
from tui_evals.text.safe import without_sequences

from .asking import CannotGenerate, Messages, Prompts, Talk
from .folder import Folder
from .options import Options
from .parsing import is_refusal
from .shapes import Rule, Test, Truth, every_rule, lines_of, numbered, relinked, rows_of
from .subject import Subject

PROMPT = "prompt"
"""The prompt under test, as a source of what is made from it."""
MOST_RULES = 100
"""More rules than this are a reply gone wrong, or thousands of questions."""

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """Who does what: who writes, who answers for the ground truth, who judges."""

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
    """A generation as its steps see it."""

    subject: Subject
    options: Options
    folder: Folder
    prompts: Prompts
    models: Models
    talk: Talk | None = None
    """Without it nothing can be asked, which is enough to say what there is to do."""
    groundtruth_metric: Path | None = None
    """The user's own way of judging ground truth, in place of ours."""
    tell: Callable[[str], None] = lambda said: None
    """Takes what a person should know although nothing stops."""
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
        return numbered(*self._lines(), self.options.max_rules)

    def _lines(self) -> tuple[list[str], list[str]]:
        return lines_of(self.folder.read("rules.txt")), lines_of(self.folder.read("inverse_rules.txt"))

    @property
    def tests(self) -> list[Test]:
        """The tests as they stand, baseline tests included, under the numbers of the rules as they stand."""
        found = rows_of(Test, self._place("tests.json"), self.folder.read("tests.json") or "[]")
        return relinked(found, every_rule(*self._lines(), self.options.max_rules))

    @property
    def truths(self) -> dict[str, Truth]:
        """The ground truth as it stands, by test."""
        text = self.folder.read("test_groundtruth.json") or "[]"
        return {truth.testuid: truth for truth in rows_of(Truth, self._place("test_groundtruth.json"), text)}

    def _place(self, name: str) -> str:
        return str(self.folder.path / name)

    async def say(self, model: PricedTarget, messages: Sequence[Mapping[str, Any]], step: str, **more: Any) -> str:
        """What a model says to a question."""
        assert self.talk is not None
        return (await self.talk.say(model, messages, step, **more)).text or ""

    async def write_up(self, file: str, messages: Messages, *, attempt: int = 0, tidy: Callable[[str], str]) -> str:
        """What the model writes for a file, tidied: empty where it wrote nothing, an error where it declined."""
        said = await self.say(self.models.rules, messages, file, attempt=attempt, params=CREATIVE)
        if is_refusal(said):
            raise CannotGenerate(f"{self.models.rules.config.name} declined: “{_start(said)}”. {self._way_out(file)}")
        # People read these files with whatever shows files, and a terminal obeys what is in them.
        return tidy(_CONTROLS.sub("", without_sequences(said)))

    def nothing(self, what: str, file: str) -> CannotGenerate:
        """There is nothing to go on with."""
        return CannotGenerate(f"{self.models.rules.config.name} wrote no {what}. {self._way_out(file)}")

    def _way_out(self, file: str) -> str:
        return (
            f"Name another model with --target, say more about what you want in the prompt's `instructions`, or write "
            f"{self._place(file)} yourself; the same command then goes on from there"
        )


CREATIVE: Mapping[str, float] = {"temperature": 1}


def _start(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else f"{line[:79]}…"


async def each(
    work: Generation, step: str, things: Sequence[T], make: Callable[[T], Awaitable[R]]
) -> tuple[list[R], list[CannotGenerate], BaseException | None]:
    """Make something of every thing, all at once: what came of it, what did not, and what ended it all, if anything."""
    done = 0

    async def one(thing: T) -> R:
        nonlocal done
        made = await make(thing)
        done += 1
        work.progress(step, done, len(things))
        return made

    work.progress(step, 0, len(things))
    found = await asyncio.gather(*map(one, things), return_exceptions=True)
    cannot = [result for result in found if isinstance(result, CannotGenerate)]
    ended = [result for result in found if isinstance(result, BaseException) and not isinstance(result, CannotGenerate)]
    made = [result for result in found if not isinstance(result, BaseException)]
    return made, cannot, ended[0] if ended else None
