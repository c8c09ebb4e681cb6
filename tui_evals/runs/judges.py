"""Judges: targets that evaluators ask, with a cache of their replies and errors in the words of judging."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tui_evals.evaluators.base import (
    EMBEDDER,
    Ask,
    CannotJudge,
    Misconfigured,
    Question,
    consulted,
    note_choices,
)
from tui_evals.evaluators.judging import whole_reply
from tui_evals.runs.executors.base import Ledger
from tui_evals.runs.plan import Plan
from tui_evals.store.records import AnswerRecord
from tui_evals.targets.base import ConfigurationError, Request, TargetConfig, TargetError
from tui_evals.targets.config import Settings, find_target
from tui_evals.targets.model_table import judging_params

from .asking import REPLY, PricedTarget, kept_choices, kept_key, kept_reply, recalled
from .scoring import questions, scripted

_CODES = {
    "agentAuthenticationError": "judgeAuthenticationError",
    "agentRateLimited": "judgeRateLimited",
    "agentTimeout": "judgeTimeout",
}


_BATCH = 64
"""Texts in one call for their vectors."""
NO_LIKELIHOODS = "log-probabilities were asked for and none came, so written scores count"


def request_for(question: Question, config: TargetConfig) -> Request:
    """What a question of an evaluator is to a target: a judge is to be terse and sober unless configured otherwise."""
    if question.texts:
        texts = tuple({"role": "user", "content": text} for text in question.texts)
        return Request(messages=texts, params=config.params)
    params = judging_params(config, question.max_tokens, question.params, likelihoods=question.likelihoods)
    return Request(messages=question.messages, response_format=question.schema, params=params, repeat=question.repeat)


def numbered(judge: PricedTarget, request: Request) -> Request:
    """A question that was put before in the same scoring asks for another sample, which is kept under its number."""
    asked = consulted.get()
    number = 0 if asked is None else asked.number(kept_key(judge, request))
    return replace(request, repeat=request.repeat + number) if number else request


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
        if question.texts:
            return await self._vectors(self._embedder(judge), question.texts)
        request = numbered(judge, request_for(question, judge.config))
        key, may_be_kept = self._key(judge, request)
        try:
            kept = await recalled(judge, request, self._ledger, key, may_be_kept=may_be_kept)
        except TargetError as problem:
            code = _CODES.get(problem.code, "evaluatorError")
            raise CannotJudge(code, f"the judge {judge.config.name} gave no verdict: {problem}") from None
        scripted.set(kept.scripted or scripted.get())
        if (asked := consulted.get()) is not None:
            asked.judges[kept.model or judge.config.model] = None
        choices = kept_choices(kept)
        note_choices(choices)
        if question.likelihoods and not choices and NO_LIKELIHOODS not in judge.changes:
            judge.changes.add(NO_LIKELIHOODS)
            self._ledger.changed(judge.config.name, [NO_LIKELIHOODS])
        return whole_reply(kept.text or "", kept.finish_reason, judge.config.name, question)

    def _embedder(self, judge: PricedTarget) -> PricedTarget:
        """Who gives vectors where this judge was asked for them."""
        embedder = judge if judge.config.kind == "embedding" else self._judges.get(EMBEDDER)
        if embedder is None:
            raise Misconfigured(
                "it compares embeddings, and no target gives them: name one whose section of .evals/config.toml says "
                'kind = "embedding" there as [judge] embedding = "NAME"'
            )
        return embedder

    def _key(self, judge: PricedTarget, request: Request) -> tuple[str, bool]:
        """Under what a reply is kept, empty where it is not, and whether it may be kept already."""
        judging = None if self._caches(judge) else questions.get()
        key = kept_key(judge, request) if self._caches(judge) or judging is not None else ""
        if judging is not None:  # kept for this judging alone, which a crash may cut short
            key = f"{REPLY}{judging.number(key)}"
        return key, judging is None or judging.again

    async def _vectors(self, embedder: PricedTarget, texts: Sequence[str]) -> str:
        """A line for each text: those that are kept, and the others asked for together and kept one by one."""
        keys = {text: self._key(embedder, request_for(Question(texts=(text,)), embedder.config)) for text in texts}
        lines: dict[str, str] = {}
        for text, (key, may_be_kept) in keys.items():
            if may_be_kept and (kept := await kept_reply(embedder, self._ledger, key)) is not None:
                lines[text] = kept.text or ""
        missing = [text for text in keys if text not in lines]
        try:
            for start in range(0, len(missing), _BATCH):
                some = tuple(missing[start : start + _BATCH])
                request = request_for(Question(texts=some), embedder.config)
                async with embedder.room.flight:
                    reply = (await embedder.ask(request, self._ledger)).reply
                    given = reply.text.split("\n")
                    if len(given) != len(some):
                        reason = f"{embedder.config.name} gave {len(given)} vectors for {len(some)} texts"
                        raise CannotJudge("judgeOutputUnparseable", reason)
                    for text, line in zip(some, given, strict=True):
                        lines[text] = line
                        if key := keys[text][0]:
                            record = AnswerRecord(text=line, request={}, model=reply.model)
                            await self._ledger.keep(key, embedder.config.name, record)
        except TargetError as problem:
            code = _CODES.get(problem.code, "evaluatorError")
            raise CannotJudge(code, f"{embedder.config.name} gave no vectors: {problem}") from None
        return "\n".join(lines[text] for text in texts)

    def _caches(self, judge: PricedTarget) -> bool:
        return self._use_cache and judge.cacheable


def judge_configs(plan: Plan, settings: Settings) -> dict[str | None, TargetConfig]:
    """The judges of a run by the name that evaluators call them, None for its own; ConfigurationError if one is not."""
    configs: dict[str | None, TargetConfig] = {}
    for name in plan.judges_needed:
        if name not in (None, EMBEDDER):
            configs[name] = find_target(str(name), settings, "the dataset")
    if plan.judge is not None and (not plan.without_judges or None in plan.judges_needed):
        configs[None] = plan.judge
    if plan.embedder is not None and not plan.without_judges:
        configs[EMBEDDER] = plan.embedder
    return configs


def check_roles(plan: Plan, settings: Settings) -> None:
    """ConfigurationError where a target of a plan is asked for what it does not give, or is not there."""
    for target in plan.targets:
        check_role(target, embeds=False, whom="a run")
    configs = judge_configs(plan, settings)
    for name, whose in plan.users_needed.items():
        check_role(configs[name], embeds=False, whom=whose)
    for entries, _ in plan.evaluator_sets:
        for entry in entries:
            kind = plan.registry.find(entry.evaluator)
            if kind.judged and (config := configs.get(kind.asked_target(entry.settings))) is not None:
                check_role(config, embeds=kind.embeds, whom=entry.key)


def check_role(config: TargetConfig, *, embeds: bool, whom: str) -> None:
    """ConfigurationError where vectors are wanted of a target that answers, or an answer of one that gives vectors."""
    if embeds and config.kind != "embedding":
        raise ConfigurationError(
            f"{whom} compares embeddings, and the target {config.name} ({config.model}) is none that gives them: name "
            'one whose section of .evals/config.toml says kind = "embedding"'
        )
    if not embeds and config.kind == "embedding":
        raise ConfigurationError(
            f"{whom} asks for answers, and the target {config.name} ({config.model}) gives embeddings only: it serves "
            'evaluators such as EmbeddingSimilarity, named by [judge] embedding or the option "embedder"'
        )


def with_embedder(plan: Plan, settings: Settings) -> Plan:
    """The plan with the target that gives vectors, where an evaluator needs the run's own."""
    if settings.embedder is None:
        return plan
    if EMBEDDER not in plan.judges_needed and (plan.without_judges or not _any_may_embed(plan)):
        return plan
    return replace(plan, embedder=find_target(settings.embedder, settings))


def needed_judges(plan: Plan, settings: Settings) -> list[TargetConfig]:
    """The judges that the evaluators of the planned items will or may ask."""
    needed = set(plan.judges_needed)
    used = () if plan.without_judges else (entry for entries, _ in plan.evaluator_sets for entry in entries)
    if any(plan.registry.find(entry.evaluator).may_ask for entry in used):
        needed.add(None)
    if not plan.without_judges and _any_may_embed(plan):
        needed.add(EMBEDDER)
    return [config for key, config in judge_configs(plan, settings).items() if key in needed]


def asked_targets(plan: Plan, settings: Settings) -> list[TargetConfig]:
    """What is asked besides the targets themselves: needed judges, and what answers the model calls of agents."""
    return [*needed_judges(plan, settings), *targets_behind(plan, settings).values()]


def targets_behind(plan: Plan, settings: Settings) -> dict[str, TargetConfig]:
    """The targets that answer the model calls of agents, by how the agents name them."""
    agents = () if plan.only_judging else plan.targets
    return {agent.door: find_target(agent.door, settings, agent.where) for agent in agents if agent.door}


def _any_may_embed(plan: Plan) -> bool:
    return any(plan.registry.find(entry.evaluator).may_embed for entries, _ in plan.evaluator_sets for entry in entries)
