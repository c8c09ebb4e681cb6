"""Judges: targets that evaluators ask, with a cache of their replies and errors in the words of judging."""

from __future__ import annotations

from collections.abc import Mapping

from tui_evals.evaluators.base import Ask, CannotJudge, Question
from tui_evals.store.records import AnswerRecord, CallRecord
from tui_evals.targets.base import Request, TargetError

from .asking import Asked, cache_key, current_answer
from .executors.base import Ledger
from .scoring import scripted

_CODES = {
    "agentAuthenticationError": "judgeAuthenticationError",
    "agentRateLimited": "judgeRateLimited",
    "agentTimeout": "judgeTimeout",
}


class Judges:
    """The judges of a run by name; None is the run's own."""

    def __init__(self, judges: Mapping[str | None, Asked], ledger: Ledger, use_cache: bool) -> None:
        self._judges = judges
        self._ledger = ledger
        self._use_cache = use_cache

    def ask_of(self, name: str | None) -> Ask | None:
        """The way to a judge; None where there is none of that name."""
        asked = self._judges.get(name)
        if asked is None:
            return None

        async def ask(question: Question) -> str:
            return await self._reply(asked, question)

        return ask

    async def _reply(self, judge: Asked, question: Question) -> str:
        params = judge.with_params({"temperature": 0, "max_tokens": question.max_tokens})
        params |= dict(judge.config.params)
        request = Request(messages=question.messages, response_format=question.schema, params=params)
        key = cache_key(judge.identity, request)
        if self._use_cache and judge.cacheable and (kept := self._ledger.cached(key)) is not None:
            self._ledger.called(_free(judge.config.name))
            scripted.set(kept.scripted or scripted.get())
            return kept.text or ""
        try:
            said = await judge.ask(request, self._ledger)
        except TargetError as problem:
            code = _CODES.get(problem.code, "evaluatorError")
            raise CannotJudge(code, f"the judge {judge.config.name} gave no verdict: {problem}") from None
        scripted.set(said.reply.scripted or scripted.get())
        record = AnswerRecord(text=said.reply.text, request={}, scripted=said.reply.scripted, model=said.reply.model)
        if judge.cacheable:
            await self._ledger.keep(key, judge.config.name, record)
        return said.reply.text


def _free(name: str) -> CallRecord:
    return CallRecord(
        answer=current_answer.get(),
        kind="judge",
        target=name,
        attempt=1,
        started=0.0,
        latency_ms=0.0,
        cost=0.0,
        from_cache=True,
    )
