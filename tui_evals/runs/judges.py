"""Judges: targets that evaluators ask, with a cache of their replies and errors in the words of judging."""

from __future__ import annotations

from collections.abc import Mapping

from tui_evals.evaluators.base import Ask, CannotJudge, Question, consulted
from tui_evals.evaluators.judging import whole_reply
from tui_evals.runs.executors.base import Ledger
from tui_evals.targets.base import Request, TargetError
from tui_evals.targets.takes import judging_params

from .asking import REPLY, PricedTarget, kept_key, recalled
from .scoring import questions, scripted

_CODES = {
    "agentAuthenticationError": "judgeAuthenticationError",
    "agentRateLimited": "judgeRateLimited",
    "agentTimeout": "judgeTimeout",
}


class Judges:
    """The judges of a run by name; None is the run's own."""

    def __init__(self, judges: Mapping[str | None, PricedTarget], ledger: Ledger, use_cache: bool) -> None:
        self._judges = judges
        self._ledger = ledger
        self._use_cache = use_cache

    def ask_of(self, name: str | None) -> Ask | None:
        """The way to a judge; None where there is none of that name."""
        judge = self._judges.get(name)
        if judge is None:
            return None

        async def ask(question: Question) -> str:
            return await self._reply(judge, question)

        return ask

    def cached(self, name: str | None) -> bool:
        """Whether the replies of a judge go into the cache."""
        return self._caches(self._judges[name])

    def halt(self) -> None:
        """Give up the questions that wait; the run is stopping."""
        for judge in self._judges.values():
            judge.room.gate.halt()

    async def _reply(self, judge: PricedTarget, question: Question) -> str:
        params = judging_params(judge.config, question.max_tokens)
        request = Request(messages=question.messages, response_format=question.schema, params=params)
        judging = None if self._caches(judge) else questions.get()
        key = kept_key(judge, request) if self._caches(judge) or judging is not None else ""
        if judging is not None:  # kept for this judging alone, which a crash may cut short
            key = f"{REPLY}{judging.number(key)}"
        try:
            kept = await recalled(judge, request, self._ledger, key, may_be_kept=judging is None or judging.again)
        except TargetError as problem:
            code = _CODES.get(problem.code, "evaluatorError")
            raise CannotJudge(code, f"the judge {judge.config.name} gave no verdict: {problem}") from None
        scripted.set(kept.scripted or scripted.get())
        if (asked := consulted.get()) is not None:
            asked.judges[kept.model or judge.config.model] = None
        return whole_reply(kept.text or "", kept.finish_reason, judge.config.name)

    def _caches(self, judge: PricedTarget) -> bool:
        return self._use_cache and judge.cacheable
