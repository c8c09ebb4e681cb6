"""Trying an evaluator on one answer, here and now: nothing is stored, and the screen goes on meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pydantic import ValidationError

from tui_evals.datasets.problems import DatasetError
from tui_evals.datasets.resolve import Effective
from tui_evals.evaluators.base import Ask, CannotJudge, Evaluator, Question, Score, evaluate
from tui_evals.evaluators.registry import Registry, UnknownEvaluator
from tui_evals.evaluators.rows import BadRow, evidence_of, options_problem
from tui_evals.store.database import StoreError
from tui_evals.targets.base import ConfigurationError, Request, TargetError
from tui_evals.targets.config import Settings, target_named

from .subject import CannotTry, Here, subject_of

__all__ = ["CannotTry", "Here", "Trial", "Tried", "apart", "same_options", "tried"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """An evaluator as it stands in a dataset, what it is to judge, and who can be asked."""

    entry: Effective
    here: Here
    registry: Registry
    settings: Settings
    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Tried:
    """What an evaluator with some options made of an answer, and of which."""

    entry: Effective
    score: Score
    of: str


async def apart(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Do work on a loop of its own, off the screen's thread; cancelling this cancels the work."""
    begun: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []

    async def inside() -> T:
        task = asyncio.current_task()
        assert task is not None
        begun.append((asyncio.get_running_loop(), task))
        return await work()

    thread = asyncio.ensure_future(asyncio.to_thread(lambda: asyncio.run(inside())))
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        with suppress(RuntimeError):  # the loop may have ended this very moment
            for loop, task in begun:
                loop.call_soon_threadsafe(task.cancel)
        raise


async def tried(trial: Trial) -> Tried:
    """What the evaluator makes of the answer on screen, or of the response in the dataset; CannotTry says why not."""
    try:
        kind = trial.registry.find(trial.entry.evaluator)
        options = kind.Options.model_validate(trial.entry.settings)
        subject = subject_of(trial.here)
        evidence = evidence_of(subject.row)
        async with _judge(trial, kind, options) as (ask, scripted):
            evaluator = kind(options, ask)
            if evaluator.scope == "group":
                raise CannotTry(f"{kind.name} judges the answers of an item together here; run the item instead (r)")
            score = await evaluate(evaluator, evidence)
    except ValidationError as problem:
        raise CannotTry(f"{trial.entry.key}: {options_problem(problem)}; mend that first (enter)") from None
    except BadRow as problem:
        raise CannotTry(f"the item cannot be judged: {problem}") from None
    except (UnknownEvaluator, ConfigurationError, DatasetError, StoreError, LookupError) as problem:
        raise CannotTry(str(problem)) from None
    if scripted:
        score = replace(score, reason=f"scripted: {score.reason}")
    return Tried(trial.entry, score, subject.of)


@asynccontextmanager
async def _judge(trial: Trial, kind: type[Evaluator], options: Any) -> AsyncIterator[tuple[Ask | None, list[bool]]]:
    """The way to the judge, where one is asked, and a list that is not empty once a reply was written beforehand."""
    name = getattr(options, "judge", None) or trial.settings.judge
    scripted: list[bool] = []
    if not (kind.judged or kind.may_ask) or (name is None and not kind.judged):
        yield None, scripted
        return
    if name is None:
        raise CannotTry(f"{kind.name} asks a judge and none is named; name one in the settings (,) or in its options")
    # Imported when it is wanted: the engine behind it would hold up every first picture.
    from tui_evals.runs.opening import items_of
    from tui_evals.targets.opening import open_target

    config = target_named(name, trial.settings)
    target = open_target(config, trial.variables, trial.here.root, items_of)

    async def ask(question: Question) -> str:
        params = {"temperature": 0, "max_tokens": question.max_tokens, **config.params}
        request = Request(messages=question.messages, response_format=question.schema, params=params)
        try:
            async with asyncio.timeout(config.timeout):
                reply = await target.ask(request)
        except TimeoutError:
            reason = f"the judge {name} gave no verdict within {config.timeout:g} s"
            raise CannotJudge("judgeTimeout", reason) from None
        except (TargetError, ConfigurationError) as problem:
            raise CannotJudge("evaluatorError", f"the judge {name} gave no verdict: {problem}") from None
        if reply.scripted:
            scripted.append(True)
        return reply.text

    try:
        yield ask, scripted
    finally:
        await target.close()


def same_options(one: Effective, other: Effective) -> bool:
    """Whether two entries judge alike, so that what one found holds for the other."""
    return one.evaluator == other.evaluator and json.dumps(one.settings) == json.dumps(other.settings)
