"""Targets and judges opened for a run: priced, fitted to their concurrency, the replies of judges kept in a cache."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any, Literal

from tui_evals.datasets.document import Document, load
from tui_evals.evaluators.base import EMBEDDER, Ask, CannotJudge, Misconfigured, Question, consulted, note_choices
from tui_evals.evaluators.judging import whole_reply
from tui_evals.files import Calls
from tui_evals.runs.approving import find_typed
from tui_evals.runs.asking import REPLY, PricedTarget, kept_choices, kept_key, kept_reply, recalled
from tui_evals.runs.availability import Room, room_of
from tui_evals.runs.executors import Ledger
from tui_evals.runs.limits import Budget, Reservations
from tui_evals.runs.plan import Plan
from tui_evals.runs.scoring import questions, scripted
from tui_evals.runs.tools import Toolbox
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, RunRow
from tui_evals.targets.base import ConfigurationError, Price, Request, Target, TargetConfig, TargetError
from tui_evals.targets.config import Settings, find_target
from tui_evals.targets.model_table import judging_params, price_of
from tui_evals.targets.opening import Later, identity, open_target, target_kind
from tui_evals.targets.sweep import base_name

_CODES = {
    "agentAuthenticationError": "judgeAuthenticationError",
    "agentRateLimited": "judgeRateLimited",
    "agentTimeout": "judgeTimeout",
}


_BATCH = 64
"""Texts in one call for their vectors."""
NO_LIKELIHOODS = "log-probabilities were asked for and none came, so written scores count"


def request_for(question: Question, config: TargetConfig) -> Request:
    """The request for a question of an evaluator. A judge is asked for short, deterministic replies by default."""
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
        """The target for vectors when this judge is asked for them."""
        embedder = judge if judge.config.kind == "embedding" else self._judges.get(EMBEDDER)
        if embedder is None:
            raise Misconfigured(
                "it compares embeddings, and no target gives them: name one whose section of .evals/config.toml says "
                'kind = "embedding" there as [judge] embedding = "NAME"'
            )
        return embedder

    def _key(self, judge: PricedTarget, request: Request) -> tuple[str, bool]:
        """The key of a reply, empty if it is not stored, and whether it may already be stored."""
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
    """Raise ConfigurationError if a target of a plan has the wrong kind for its role, or is missing."""
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
    """Raise ConfigurationError if a target is asked for vectors or answers that its kind does not give."""
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
    """The targets that are asked besides those under test: needed judges, and those behind agents."""
    return [*needed_judges(plan, settings), *targets_behind(plan, settings).values()]


def targets_behind(plan: Plan, settings: Settings) -> dict[str, TargetConfig]:
    """The targets that answer the model calls of agents, by how the agents name them."""
    agents = () if plan.only_judging else plan.targets
    return {agent.door: find_target(agent.door, settings, agent.where) for agent in agents if agent.door}


def _any_may_embed(plan: Plan) -> bool:
    return any(plan.registry.find(entry.evaluator).may_embed for entries, _ in plan.evaluator_sets for entry in entries)


def price_for(config: TargetConfig) -> Price | None:
    """The price of a target: configured, zero if it is free, else from the table; None if it has none."""
    if config.price is not None:
        return config.price
    return price_of(config.model) if target_kind(config).asks_model else Price(0.0, 0.0)


def demand_price(config: TargetConfig, most: float | None) -> Price | None:
    """The price of a target; ConfigurationError if it is unknown and `most` must not be exceeded."""
    price = price_for(config)
    if price is None and most is not None:
        raise ConfigurationError(
            f"the price of {config.name} ({config.model}) is not known, so --max-cost cannot be kept; give it in "
            ".evals/config.toml: [targets.NAME] price = { input_per_million = …, output_per_million = … }, or price = "
            "{ per_call = … }"
        )
    return price


_FILES_OF_A_COMMAND = 4
"""Three pipes to the program that answers, and a watch over its end."""


def calls_at_once(
    targets: Iterable[TargetConfig], judges: Iterable[TargetConfig], concurrency: int | None
) -> dict[str, Calls]:
    """The calls of each target and judge that a run would have in flight, by name; parameters share their target's."""

    def calls(config: TargetConfig) -> Calls:
        files = _FILES_OF_A_COMMAND if config.model.startswith("command:") else 1
        return Calls(concurrency or config.concurrency, files)

    asked = {base_name(config.name): calls(config) for config in targets}
    return asked | {judge_label(config.name): calls(config) for config in judges}


def judge_label(name: str) -> str:
    """How the calls of a judge are called, which may be a target too."""
    return f"judge {base_name(name)}"


def opened(
    config: TargetConfig,
    kind: Literal["target", "judge", "generator"],
    budget: Reservations,
    environment: Mapping[str, str],
    root: Path,
    concurrency: int | None = None,
    target: Target | None = None,
    room: Room | None = None,
    tools: Toolbox | None = None,
    files: Path | None = None,
) -> PricedTarget:
    """A target ready to be asked; ConfigurationError when its price is needed for the budget and not known."""
    if concurrency is not None:
        config = replace(config, concurrency=concurrency)
    price = demand_price(config, budget.most)
    target = target or open_target(config, environment, root, items_of)
    cacheable = target_kind(config).asks_model
    known = identity(config, environment)
    room = room or room_of(config)
    return PricedTarget(
        config, target, known, price, budget, room, kind=kind, tools=tools, cacheable=cacheable, files=files
    )


def unopened(config: TargetConfig, environment: Mapping[str, str], root: Path, max_cost: float | None) -> PricedTarget:
    """A target with the parts that cache keys need; it is opened only if it is asked."""
    target = Later(lambda: open_target(config, environment, root, items_of))
    budget, cacheable = Budget(max_cost), target_kind(config).asks_model
    return PricedTarget(
        config, target, identity(config, environment), None, budget, room_of(config), cacheable=cacheable
    )


def named_identity(config: TargetConfig, environment: Mapping[str, str]) -> dict[str, Any]:
    """The identity of a target with its name, as stored in the config of a run."""
    return identity(config, environment) | {"name": config.name}


def items_of(file: Path) -> Sequence[Mapping[str, Any]]:
    """The items of a dataset file, for targets that replay recorded answers."""
    document: Document = load(file)
    items: list[Mapping[str, Any]] = document.data["items"]
    return items


SOURCE = "registry:"
"""How the source of a run begins whose items come from a registry."""
_LENGTHS = {"max_tokens", "max_completion_tokens"}
# A registry comes from elsewhere, so nothing of it may say where a question goes or what key goes with it.
_SAMPLING = {"temperature", "top_p", "presence_penalty", "frequency_penalty", "seed", "stop", *_LENGTHS}


def settings_of_run(run: RunRow, reader: Reader, settings: Settings) -> Settings:
    """The settings with the parameters that the eval of a stored run suggests."""
    if not run.source.startswith(SOURCE):
        return settings
    judge = run.config.get("judge")
    named = [target["name"] for target in run.config.get("targets", ())]
    return suggested(settings, reader.snapshot(run.snapshot), named, judge["name"] if judge else None)


def suggested(
    settings: Settings,
    document: Mapping[str, Any],
    targets: Sequence[str],
    judge: str | None,
    where: str = "the stored run",
) -> Settings:
    """The settings with a document's suggested parameters, which configured ones override.

    `where` is the place that names the targets, empty if they were typed. A target that also judges only gets
    parameters of both roles.
    """
    origin = (document.get("extensions") or {}).get("openai_evals") or {}
    answering, judging = (sampling(origin.get(part)) for part in ("params", "judge_params"))
    configured = dict(settings.targets)
    for word in dict.fromkeys((*targets, *((judge,) if judge else ()))):
        wanted = judging if word not in targets else answering
        if word in targets and word == judge:
            wanted = {name: value for name, value in answering.items() if judging.get(name, value) == value}
        try:
            config = find_target(word, settings, where) if where else find_typed(word, settings)
            asks_model = target_kind(config).asks_model
        except ConfigurationError:  # said where the targets are named
            continue
        if asks_model:
            configured[word] = replace(config, params={**_not_configured(wanted, config.params), **config.params})
    return replace(settings, targets=configured)


def sampling(params: object) -> dict[str, Any]:
    """The parameters for sampling and length; others are ignored."""
    given = params if isinstance(params, Mapping) else {}
    return {name: value for name, value in given.items() if name in _SAMPLING and _is_plain(value)}


def _is_plain(value: object) -> bool:
    if isinstance(value, list):
        return all(isinstance(part, str) for part in value)
    return isinstance(value, int | str) or (isinstance(value, float) and isfinite(value))


def _not_configured(wanted: Mapping[str, Any], configured: Mapping[str, Any]) -> dict[str, Any]:
    """The wanted parameters that are not configured; the names for a length limit are equivalent."""
    known = set(configured) | (_LENGTHS if _LENGTHS & set(configured) else set())
    return {name: value for name, value in wanted.items() if name not in known}
