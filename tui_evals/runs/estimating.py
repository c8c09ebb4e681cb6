"""Estimates a run or a rescoring: an exact number of calls, with cost and time from similar calls.

Cached answers and verdicts, and valid scores, are not counted. If the store has answers or verdicts of the same dataset
by the same target or judge, their means are used; otherwise the length of the chats.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import islice
from typing import Any, Literal

from tui_evals.datasets.attachments import PART, is_text_type
from tui_evals.datasets.model import Dataset, Item
from tui_evals.datasets.resolve import EffectiveEvaluator
from tui_evals.light_records import dataclass
from tui_evals.runs.cache_lookup import Foresight, KnownTurns, known_turns
from tui_evals.runs.judges import judge_configs, named_identity, price_for
from tui_evals.runs.plan import Plan
from tui_evals.runs.project import Project
from tui_evals.runs.prompting import Chat, PromptUnderTest, opening_of, question_of
from tui_evals.runs.scoring import evidence_for, stored_evidence
from tui_evals.runs.scoring_passes import KeptScores, judges_kept
from tui_evals.runs.tools import most_steps
from tui_evals.store import run_figures
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, AnswerRow, PlannedAnswer, RunRow
from tui_evals.store.writer import snapshot_hash
from tui_evals.targets.base import Price, TargetConfig, Usage
from tui_evals.targets.sweep import base_name
from tui_evals.text.measures import BYTES_PER_TOKEN, estimate_tokens
from tui_evals.text.templates import TemplateError

Place = tuple[str, str, int]
"""The name of a prompt, the name of an item, and a turn of it, from 0."""


@dataclass(frozen=True, slots=True)
class Rate:
    """The mean cost and time of earlier calls."""

    count: int
    cost: float | None
    """None if one of the costs is unknown."""
    input_tokens: float | None
    output_tokens: float | None
    cached_tokens: float
    milliseconds: float | None


Rates = Mapping[Place, Rate]


def answer_rates(reader: Reader, run: RunRow, target: int) -> Rates:
    """The costs and times of a target's answers in a run."""
    return _rates(run, run_figures.answer_means(reader, run.id, target))


def verdict_rates(reader: Reader, run: RunRow, judge: str) -> Rates:
    """The costs and times of a judge's calls in a run, by the answer they were about."""
    return _rates(run, run_figures.judging_means(reader, run.id, judge))


def _rates(run: RunRow, rows: Iterable[tuple[Any, ...]]) -> Rates:
    return {(_name(run.prompts, prompt), name, turn): Rate(*means) for prompt, name, turn, *means in rows}


def _name(prompts: Sequence[str], number: int) -> str:
    return prompts[number] if number < len(prompts) else ""


def mean_rate(rates: Rates) -> Rate | None:
    """The mean of all of them; None where there is none."""
    all_rates = list(rates.values())
    if not all_rates:
        return None
    return Rate(
        count=sum(rate.count for rate in all_rates),
        cost=_mean(all_rates, "cost", whole=True),
        input_tokens=_mean(all_rates, "input_tokens"),
        output_tokens=_mean(all_rates, "output_tokens"),
        cached_tokens=_mean(all_rates, "cached_tokens") or 0.0,
        milliseconds=_mean(all_rates, "milliseconds"),
    )


def _mean(rates: Sequence[Rate], name: str, *, whole: bool = False) -> float | None:
    known: list[tuple[Any, int]] = [(getattr(rate, name), rate.count) for rate in rates]
    values = [(value, count) for value, count in known if value is not None]
    if not values or (whole and len(values) < len(known)):
        return None
    return float(sum(value * count for value, count in values) / sum(count for _, count in values))


TYPICAL_ANSWER_TOKENS = 250
_AROUND = 20
"""Tokens of a question besides its texts."""


@dataclass(frozen=True, slots=True)
class QuestionSize:
    """The chat up to a question and with it."""

    tokens: int
    """The tokens of its texts, its tools, and earlier answers, whose length is estimated."""
    files: int
    """The number of its pictures, sounds, PDFs and so on, which each provider counts differently."""


class QuestionSizes:
    """The sizes of the questions of a dataset, those of one item at a time."""

    def __init__(self, dataset: Dataset, prompts: Sequence[PromptUnderTest]) -> None:
        self._dataset = dataset
        self._prompts = prompts
        self._tools = _tool_tokens(dataset.tools)
        self._item = -1
        self._known: dict[int, list[QuestionSize]] = {}

    def of(self, item: int, prompt: int) -> list[QuestionSize]:
        """The size of each turn of an item."""
        if item != self._item:
            self._item, self._known = item, {}
        if prompt not in self._known:
            self._known[prompt] = self._measured(item, self._prompts[prompt])
        return self._known[prompt]

    def _measured(self, number: int, prompt: PromptUnderTest) -> list[QuestionSize]:
        item = self._dataset.items[number]
        tokens = _AROUND + (_tool_tokens(item.tools) if item.tools else self._tools)
        try:
            opening = opening_of(self._dataset, item, prompt)
        except TemplateError:  # a question that cannot be filled in is not asked
            return [QuestionSize(0, 0)] * len(item.units)
        files, sizes = 0, []
        for turn, unit in enumerate(item.units):
            read, more = _measure(question_of(unit) if turn else opening)
            tokens, files = tokens + read, files + more
            sizes.append(QuestionSize(tokens, files))
            tokens += TYPICAL_ANSWER_TOKENS
        return sizes


def _tool_tokens(tools: Sequence[Mapping[str, Any]] | None) -> int:
    return estimate_tokens(json.dumps(tools)) if tools else 0


def _measure(messages: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
    """The tokens of the texts of messages, and how many of their parts are none."""
    tokens = files = 0
    for message in messages:
        content = message.get("content")
        for part in [content] if isinstance(content, str) else content or ():
            if isinstance(part, str):
                tokens += estimate_tokens(part)
            elif part.get("type") == "text":
                tokens += estimate_tokens(part.get("text") or "")
            elif part.get("type") == PART and is_text_type(part.get("media_type", "")):
                tokens += part["size"] // BYTES_PER_TOKEN
            else:
                files += 1
        if calls := message.get("tool_calls"):
            tokens += estimate_tokens(json.dumps(calls))
    return tokens, files


_TYPICAL_SAYING_TOKENS = 60
"""The tokens of a message of a simulated user."""
_TYPICAL_EXCHANGE_TOKENS = TYPICAL_ANSWER_TOKENS + _TYPICAL_SAYING_TOKENS
_RUBRIC_TOKENS, _VERDICT_TOKENS = 600, 80
_LOOKED_BACK = 20
"""Earlier runs of a dataset that are looked at."""
_PAGE = 500

Kind = Literal["target", "judge"]


@dataclass(frozen=True, slots=True)
class LastTime:
    """The latest run that asked the same targets the same number of answers, and had none of them from the cache."""

    run: str
    cost: float
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimate of a run: an exact number of calls, with approximate cost and time."""

    answers: int
    judge_calls: int
    """Calls of judges that are to be made."""
    known_cost: float
    """The cost of calls with a known price."""
    cautions: tuple[str, ...] = ()
    unpriced: tuple[str, ...] = ()
    """The targets and judges that are to be asked and whose price is not known, by name."""
    cached: int = 0
    """Answers from the cache or the dataset, for which no target is asked."""
    all_looked_up: bool = True
    """Whether it may have no more of them."""
    further: int = 0
    """How many more calls the answers may take at most whose model is asked again, after its tools or by a user."""
    played: int = 0
    """How many calls it takes at most to play simulated users."""
    with_files: int = 0
    """How many calls of targets are paid by tokens and have pictures or other files in them, which are not counted."""
    kept: int = 0
    """Scores of earlier judgings that hold, so that no call is needed for them."""
    known_verdicts: int = 0
    """Verdicts for which the cache has every reply, or no question has to be put."""
    all_tried: bool = True
    """Whether it may have no more of them."""
    seconds: float | None = None
    """How long it will take; None if none of the targets has answered before."""
    last: LastTime | None = None

    @property
    def cost(self) -> float | None:
        """The whole cost; None if a price is missing."""
        return None if self.unpriced else self.known_cost

    @property
    def calls(self) -> int:
        """How many calls are to be made."""
        return self.answers - self.cached + self.judge_calls + self.played


class Experience:
    """The costs and times of targets and judges for answers of a dataset, from the latest runs with them."""

    def __init__(self, reader: Reader, environment: Mapping[str, str], runs: Iterable[RunRow]) -> None:
        self._reader = reader
        self._environment = environment
        self._runs = list({run.id: run for run in runs}.values())
        self._known: dict[tuple[Kind, str], tuple[Rates, Rate | None]] = {}

    def rate(self, kind: Kind, config: TargetConfig, place: Place) -> Rate | None:
        """The cost and time of the last call about an item, else of any of them."""
        who = kind, config.name
        if who not in self._known:
            rates = self._rates(kind, config)
            self._known[who] = rates, mean_rate(rates)
        rates, mean = self._known[who]
        return rates.get(place, mean)

    def last_time(self, plan: Plan, answers: int) -> LastTime | None:
        """The latest run like a plan."""
        targets = [self._named(config) for config in plan.targets]
        prompts = tuple(prompt.name for prompt in plan.asked_prompts)
        judge = self._named(plan.judge) if plan.judge and plan.judges_needed else None
        asked = targets, prompts, answers, None if plan.only is None else sorted(plan.only)
        for run in self._runs:
            alike = asked == (run.config.get("targets"), run.prompts, run.total, run.config.get("only"))
            if run.status != "finished" or not alike or (judge is not None and run.config.get("judge") != judge):
                continue
            if run_figures.asked_all(self._reader, run.id):
                took = None if run.started is None or run.finished is None else run.finished - run.started
                return LastTime(run.key, run_figures.cost_of_run(self._reader, run.id), took)
        return None

    def _named(self, config: TargetConfig) -> dict[str, object]:
        return named_identity(config, self._environment)

    def _rates(self, kind: Kind, config: TargetConfig) -> Rates:
        named = self._named(config)
        for run in self._runs:
            asked = list(run.config.get("targets") or ())
            if kind == "target" and named in asked:
                rates = answer_rates(self._reader, run, asked.index(named))
            elif kind == "judge" and self._judged(run, config):
                rates = verdict_rates(self._reader, run, config.name)
            else:
                continue
            if rates:
                return rates
        return {}

    def _judged(self, run: RunRow, config: TargetConfig) -> bool:
        """Whether a run was judged by a target with its current configuration."""
        wanted = {name: value for name, value in self._named(config).items() if name != "name"}
        configs = (run.config, *(scoring.config for scoring in self._reader.passes(run.id)))
        return any(wanted in judges_kept(kept).values() for kept in configs)


class _Bill:
    """Sums up the costs and times of calls, and the targets without a price."""

    def __init__(self, experience: Experience | None, concurrency: int | None) -> None:
        self._experience = experience
        self._concurrency = concurrency
        self._prices: dict[str, Price | None] = {}
        self._milliseconds: defaultdict[tuple[Kind, str], float] = defaultdict(float)
        self._longest = 0.0
        self._timed = experience is not None
        self._rooms: dict[tuple[Kind, str], tuple[int, float | None]] = {}
        self._calls: defaultdict[tuple[Kind, str], int] = defaultdict(int)
        self.sum = 0.0
        self.with_files = 0
        self.unpriced: dict[str, None] = {}

    def add(
        self, kind: Kind, config: TargetConfig, place: Place, lengths: Sequence[tuple[int, int]], files: int = 0
    ) -> None:
        """Add one question or verdict: by its mean in earlier runs, else by the tokens of each call."""
        rate = self._experience.rate(kind, config, place) if self._experience is not None else None
        self._take_time(kind, config, rate)
        price = self._price(config)
        cost = None if rate is None else _cost_of(rate, price)
        if cost is not None:
            self.sum += cost
        elif price is None:
            self.unpriced[config.name] = None
        else:
            self.sum += sum(price.cost(Usage(read, written)) for read, written in lengths)
            self.with_files += bool(files and price.input_per_million)

    @property
    def seconds(self) -> float | None:
        """How long all of it takes where everybody answers as fast as before, as many calls at once as may be."""
        if not self._timed or not self._milliseconds:
            return None
        spans = []
        for who, milliseconds in self._milliseconds.items():
            at_once, per_minute = self._rooms[who]
            span = milliseconds / 1000 / at_once
            spans.append(max(span, 60 * self._calls[who] / per_minute if per_minute else 0.0))
        return max(*spans, self._longest / 1000)

    def _price(self, config: TargetConfig) -> Price | None:
        if config.name not in self._prices:
            self._prices[config.name] = price_for(config)
        return self._prices[config.name]

    def _take_time(self, kind: Kind, config: TargetConfig, rate: Rate | None) -> None:
        if rate is None or rate.milliseconds is None:
            self._timed = False
            return
        who = kind, base_name(config.name)
        self._rooms[who] = self._concurrency or config.concurrency, config.requests_per_minute
        self._calls[who] += 1
        self._milliseconds[who] += rate.milliseconds
        self._longest = max(self._longest, rate.milliseconds)


def _cost_of(rate: Rate, price: Price | None) -> float | None:
    """The cost of a call like earlier ones: by the current price, else their mean."""
    by_tokens = price is not None and price.per_call is None and (price.input_per_million or price.output_per_million)
    if price is not None and by_tokens and rate.input_tokens is not None and rate.output_tokens is not None:
        return price.cost(Usage(round(rate.input_tokens), round(rate.output_tokens), round(rate.cached_tokens)))
    return rate.cost


def estimate_run(
    plan: Plan,
    project: Project,
    source: str,
    document: Mapping[str, Any],
    *,
    use_cache: bool = True,
    max_cost: float | None = None,
    concurrency: int | None = None,
) -> Estimate:
    """The estimate of a new run of a document that comes from `source`."""
    with Reader(project.store) if project.has_store else nullcontext() as reader:
        known, asking, tried = KnownTurns(), {}, True
        if reader is not None and use_cache:
            found = _KnownVerdicts(plan, project, reader)
            known = known_turns(plan, project, reader, max_cost, note=found.note if plan.judges_needed else None)
            asking, tried = found.asking, found.complete
        experience = None
        if reader is not None:
            runs = _like_runs(reader, project, source, snapshot_hash(dict(document)))
            experience = Experience(reader, project.environment, runs)
        return _estimate(plan, project, known, asking, experience, concurrency, all_tried=tried)


def _like_runs(reader: Reader, project: Project, source: str, snapshot: str) -> Iterator[RunRow]:
    """Earlier runs of a dataset: of a file in any version, of anything else, whose name says little, in this one."""
    is_file = (project.root / source).is_file()
    return reader.runs_of(source, None if is_file else snapshot, _LOOKED_BACK)


class _KnownVerdicts:
    """Which evaluators of known answers still have a judge asked."""

    def __init__(self, plan: Plan, project: Project, reader: Reader) -> None:
        self._plan = plan
        self._foresight = Foresight(plan, project, reader)
        self.asking: dict[tuple[int, int], list[EffectiveEvaluator]] = {}
        """By the number of the cell and the turn."""

    @property
    def complete(self) -> bool:
        """Whether every known answer was tried."""
        return self._foresight.complete

    def note(self, planned: PlannedAnswer, record: AnswerRecord, chat: Chat) -> bool:
        """Try the evaluators on a known answer; False once there were enough."""
        item, prompt = self._plan.dataset.items[planned.item], self._plan.asked_prompts[planned.prompt]
        item = item.asking(planned.repeat)
        evidence = evidence_for(self._plan, item, planned.turn, prompt, chat, record)
        self.asking[planned.cell, planned.turn] = self._foresight.asking(item, planned.turn, evidence)
        return self.complete


def _estimate(
    plan: Plan,
    project: Project,
    known: KnownTurns,
    asking: Mapping[tuple[int, int], Sequence[EffectiveEvaluator]],
    experience: Experience | None,
    concurrency: int | None,
    *,
    all_tried: bool,
) -> Estimate:
    judges, bill = judge_configs(plan, project.settings), _Bill(experience, concurrency)
    sizes = QuestionSizes(plan.dataset, plan.asked_prompts)
    answers = judge_calls = known_verdicts = cached = further = played = 0
    for answer in plan.answers():
        item, target = plan.dataset.items[answer.item], plan.targets[answer.target]
        place = plan.asked_prompts[answer.prompt].name, answer.name, answer.turn
        answers += 1
        exchanges = 1 if item.user is None else item.user.max_turns
        further += exchanges * most_steps(plan.dataset, item, target) - 1
        size = sizes.of(answer.item, answer.prompt)[answer.turn]
        tokens = size.tokens
        if answer.turn < known.turns.get(answer.cell, 0) or plan.given_answer(item) is not None:
            cached += 1
        else:
            steps = [(tokens + before * _TYPICAL_EXCHANGE_TOKENS, TYPICAL_ANSWER_TOKENS) for before in range(exchanges)]
            bill.add("target", target, place, steps, size.files)
        if item.user is not None:
            for before in range(0 if item.user.opening is None else 1, exchanges + 1):
                played += 1
                read = 400 + before * _TYPICAL_EXCHANGE_TOKENS
                bill.add("judge", judges[item.user.target], place, [(read, _TYPICAL_SAYING_TOKENS)])
            tokens += exchanges * _TYPICAL_EXCHANGE_TOKENS
        entries = list(_judging(plan, item, answer.turn))
        left = asking.get((answer.cell, answer.turn), entries)
        judge_calls += len(left)
        known_verdicts += len(entries) - len(left)
        _add_verdicts(bill, plan, judges, item, answer.turn, place, left, tokens + TYPICAL_ANSWER_TOKENS)
    return Estimate(
        answers=answers,
        judge_calls=judge_calls,
        known_cost=bill.sum,
        cautions=plan.cautions(),
        unpriced=tuple(bill.unpriced),
        cached=cached,
        all_looked_up=known.complete,
        further=further,
        played=played,
        with_files=bill.with_files,
        known_verdicts=known_verdicts,
        all_tried=all_tried,
        seconds=bill.seconds,
        last=experience.last_time(plan, answers) if experience is not None else None,
    )


def _judging(plan: Plan, item: Item, turn: int) -> Iterator[EffectiveEvaluator]:
    """The evaluators of a turn that ask a judge."""
    if not plan.without_judges:
        yield from (entry for entry in plan.resolved(item, turn) if plan.asks_judge(entry, item, turn))


def _add_verdicts(
    bill: _Bill,
    plan: Plan,
    judges: Mapping[str | None, TargetConfig],
    item: Item,
    turn: int,
    place: Place,
    entries: Iterable[EffectiveEvaluator],
    tokens: int,
) -> None:
    """Add a call of its judge for each of some evaluators of an answer; `tokens` are those of question and answer."""
    for entry in entries:
        kind = plan.registry.find(entry.evaluator)
        length = tokens + _RUBRIC_TOKENS, _VERDICT_TOKENS
        if kind.embeds:
            length = estimate_tokens(item.units[turn].reference or "") + TYPICAL_ANSWER_TOKENS, 0
        bill.add("judge", judges[kind.asked_target(entry.settings)], place, [length])


def estimate_judging(
    plan: Plan,
    project: Project,
    run: RunRow,
    rows: Iterable[AnswerRow],
    reader: Reader,
    kept: KeptScores | None,
    *,
    use_cache: bool = True,
    concurrency: int | None = None,
) -> Estimate:
    """The estimate of judging a run's answers again; no target is asked."""
    runs = (run, *_like_runs(reader, project, run.source, run.snapshot))
    experience = Experience(reader, project.environment, runs)
    judges, bill = judge_configs(plan, project.settings), _Bill(experience, concurrency)
    sizes = QuestionSizes(plan.dataset, plan.asked_prompts)
    foresight = Foresight(plan, project, reader if use_cache else None)
    judge_calls = held = known_verdicts = 0
    waiting = (row for row in rows if row.code is None and row.status not in ("pending", "running"))
    while page := list(islice(waiting, _PAGE)):
        scores = kept.of(page) if kept is not None else {}
        for row in page:
            item = plan.dataset.items[row.item].asking(row.repeat)
            keys = {record.key for record in scores.get(row.id, ())}
            entries = [entry for entry in _judging(plan, item, row.turn) if entry.key not in keys]
            left = _left_to_ask(plan, run, row, entries, foresight, reader)
            held += len(keys)
            judge_calls += len(left)
            known_verdicts += len(entries) - len(left)
            tokens = sizes.of(row.item, row.prompt)[row.turn].tokens + (row.output_tokens or TYPICAL_ANSWER_TOKENS)
            place = plan.asked_prompts[row.prompt].name, row.name, row.turn
            _add_verdicts(bill, plan, judges, item, row.turn, place, left, tokens)
    return Estimate(
        answers=0,
        judge_calls=judge_calls,
        known_cost=bill.sum,
        cautions=plan.cautions(),
        unpriced=tuple(bill.unpriced),
        kept=held,
        known_verdicts=known_verdicts,
        all_tried=foresight.complete,
        seconds=bill.seconds,
    )


def _left_to_ask(
    plan: Plan,
    run: RunRow,
    row: AnswerRow,
    entries: Sequence[EffectiveEvaluator],
    foresight: Foresight,
    reader: Reader,
) -> Sequence[EffectiveEvaluator]:
    """The evaluators among `entries` that have to ask a judge about an answer."""
    if not entries or not foresight.complete:
        return entries
    page = reader.window(run.id, row.pos - row.turn, row.turn + 1)
    records = reader.records(one.id for one in page)
    known = {one.turn: records[one.id] for one in page if one.id in records}
    try:
        evidence = stored_evidence(plan, row, known)
    except (TemplateError, KeyError):
        return entries
    return [entry for entry in entries if foresight.asks(entry, evidence)]
