"""Judges recorded answers again with imported evaluators, in memory, and compares the verdicts.

Each recorded verdict is compared with that of its current evaluator: from the recording's own dataset, or from another
one that was imported from the same source. There, items are matched by their questions, and evaluators by their
options. A verdict that cannot be repeated here is counted separately.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from pydantic import ValidationError

from tui_evals.datasets.model import Dataset, Item
from tui_evals.datasets.resolve import EffectiveEvaluator
from tui_evals.evaluators.base import Ask, Evidence, JudgingStopped, Question
from tui_evals.evaluators.conditions import LEFT_OUT
from tui_evals.evaluators.registry import UnknownEvaluator, with_prompt_metrics
from tui_evals.light_records import dataclass
from tui_evals.runs.approving import missing_permissions
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.judges import Judges, judge_configs, needed_judges, opened, with_embedder
from tui_evals.runs.limits import Budget
from tui_evals.runs.plan import Assigned, Plan
from tui_evals.runs.project import Project
from tui_evals.runs.prompting import of_dataset
from tui_evals.runs.scoring import FORMAT_KEY, evidence_for, form_record, recorded
from tui_evals.store.records import AnswerRecord, CallRecord, ScoreRecord, Wait
from tui_evals.targets.config import find_target
from tui_evals.targets.permissions import Permission
from tui_evals.text import strictjson

from .recording import RecordedAnswer, Recording, chat_before, gives_verdict

TOLERANCE = 0.001
"""How far two scores may lie apart that are the same."""
_AT_ONCE = 64
_SAYS_NOTHING = ("json_path", "transform", "weight", "judge")
"""Options that may differ between two imports of one assertion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """A verdict that was given once more: whose, on which answer, and how it was and is."""

    item: str
    turn: int
    prompt: str
    target: str
    repeat: int
    key: str
    evaluator: str
    before: ScoreRecord
    now: ScoreRecord
    same: bool


@dataclass(slots=True)
class Verification:
    """The result of judging again."""

    answers: int = 0
    verdicts: list[Repeated] = field(default_factory=list)
    """The verdicts that were repeated, equal or not."""
    by_model: Counter[str] = field(default_factory=Counter)
    """Evaluators that ask a model which was not asked, and how often."""
    no_equal: Counter[str] = field(default_factory=Counter)
    """The sources of verdicts that no evaluator here gives."""
    cannot: Counter[str] = field(default_factory=Counter)
    """Why an evaluator gave no verdict this time."""
    not_asked: int = 0
    """Answers to questions that the dataset does not have."""
    without_transform: int = 0
    """Verdicts on already transformed answers, so that their path was not applied."""
    read_again: int = 0
    """Verdicts that were read once more in the recorded reply of the judge, which was not asked."""

    @property
    def differences(self) -> list[Repeated]:
        """The verdicts that are others now."""
        return [one for one in self.verdicts if not one.same]

    @property
    def repeated(self) -> int:
        """How many verdicts were given once more."""
        return len(self.verdicts)

    @property
    def as_before(self) -> int:
        """How many verdicts are the same."""
        return sum(one.same for one in self.verdicts)

    @property
    def proven(self) -> bool:
        """Whether there was something to repeat, and all of it came out the same."""
        return 0 < self.repeated == self.as_before


@dataclass(frozen=True, slots=True)
class _Check:
    """A recording and what judges it now."""

    recording: Recording
    own: Plan
    """The plan of the recording."""
    plan: Plan
    """The plan to judge by now."""
    places: Mapping[int, int]
    """The position of each item in the plan's dataset."""


@dataclass(frozen=True, slots=True)
class Verifying:
    """What will be judged again."""

    project: Project
    checks: Sequence[_Check]

    def missing_permissions(self) -> list[Permission]:
        """The missing permissions of judges."""
        found = (
            missing_permissions(
                self.project, one.plan, None, needed_judges(one.plan, self.project.settings), judging=False
            )
            for one in self.checks
        )
        return list(dict.fromkeys(permission for missing in found for permission in missing))

    def verify(self, wanted: Callable[[], bool] = lambda: True) -> Verification:
        """Judge everything, while `wanted` returns True; must not be called from an event loop."""
        return asyncio.run(self._verified(wanted))

    async def _verified(self, wanted: Callable[[], bool]) -> Verification:
        found = Verification()
        for check in self.checks:
            await self._of_recording(check, found, wanted)
        return found

    async def _of_recording(self, check: _Check, found: Verification, wanted: Callable[[], bool]) -> None:
        plan, project = check.plan, self.project
        budget = Budget(None)
        judges = {
            name: opened(config, "judge", budget, project.environment, project.root)
            for name, config in judge_configs(plan, project.settings).items()
        }
        ask_of = Judges(judges, _NothingKept(), use_cache=False).ask_of
        answers = [one for one in check.recording.answers if one.scores and one.answer.text is not None]
        found.answers += len(answers)
        found.by_model.update(group.score.evaluator for group in check.recording.together)
        try:
            for start in range(0, len(answers), _AT_ONCE):
                if not wanted():
                    break
                page = answers[start : start + _AT_ONCE]
                for told in await asyncio.gather(*(_judged(check, one, ask_of) for one in page)):
                    _add(found, told)
        except JudgingStopped as reason:
            raise CannotPlan(str(reason)) from None
        finally:
            for priced in judges.values():
                await priced.target.close()


def prepare(
    recordings: Sequence[Recording],
    project: Project,
    document: Mapping[str, Any] | None = None,
    *,
    judges: bool = False,
) -> Verifying:
    """Find the evaluators for recordings: those of a document, else their own; raises CannotPlan."""
    return Verifying(project, [_check(one, project, document, judges) for one in recordings])


def _check(recording: Recording, project: Project, document: Mapping[str, Any] | None, judges: bool) -> _Check:
    own = _plan(recording, recording.document, project, judges)
    if document is None:
        return _Check(recording, own, own, {number: number for number in range(len(own.dataset.items))})
    return _Check(recording, own, _plan(recording, document, project, judges), _places(recording.document, document))


def _plan(recording: Recording, document: Mapping[str, Any], project: Project, judges: bool) -> Plan:
    folder = None if recording.metrics is None else project.root / recording.metrics
    registry = with_prompt_metrics(project.registry, folder)
    judge = find_target(project.settings.judge, project.settings) if judges and project.settings.judge else None
    plan = Plan(
        dataset=Dataset.model_validate(document),
        targets=(),
        registry=registry,
        judge=judge,
        without_judges=not judges,
        prompts=recording.prompts,
    )
    if judges:
        plan.check_evaluators()
        plan = with_embedder(plan, project.settings)
        plan.check_judges()
    return plan


def _places(recorded_document: Mapping[str, Any], document: Mapping[str, Any]) -> dict[int, int]:
    """The position of each recorded item in another document: among those with the same questions, in order."""
    known: dict[frozenset[str], list[int]] = {}
    for number, item in enumerate(document["items"]):
        known.setdefault(_asks(document, item), []).append(number)
    places: dict[int, int] = {}
    seen: Counter[frozenset[str]] = Counter()
    for number, item in enumerate(recorded_document["items"]):
        asks = _asks(recorded_document, item)
        if same := known.get(asks):
            places[number] = same[min(seen[asks], len(same) - 1)]
            seen[asks] += 1
    return places


def _asks(document: Mapping[str, Any], item: Mapping[str, Any]) -> frozenset[str]:
    """Everything that makes an item's question, be it the value of a variable or a prompt of its own."""
    values = {**(document.get("variables") or {}), **(item.get("variables") or {})}.values()
    turns = [turn.get("prompt") for turn in item.get("turns") or ()]
    parts = [*values, item.get("prompt"), item.get("messages"), *turns]
    return frozenset(_as_data(part) for part in parts if part not in (None, ""))


def _as_data(part: object) -> str:
    """A part of a question for comparing: a text that is JSON says the same as its value, however it is spaced."""
    try:
        return strictjson.dumps(strictjson.loads(part) if isinstance(part, str) else part)
    except strictjson.JsonError:
        return str(part)


@dataclass(frozen=True, slots=True)
class _Told:
    """The result for one recorded verdict: the new record, or why there is none."""

    one: RecordedAnswer
    before: ScoreRecord
    now: ScoreRecord | None = None
    same: bool = False
    by_model: bool = False
    cannot: str = ""
    without_transform: bool = False
    read_again: bool = False
    check: _Check | None = None


async def _judged(check: _Check, one: RecordedAnswer, ask_of: Callable[[str | None], Ask | None]) -> list[_Told] | None:
    """The verdicts on one answer; None where the dataset does not ask for it."""
    place = check.places.get(one.item)
    if place is None or one.turn >= len(check.plan.dataset.items[place].units):
        return None
    plan, item = check.plan, check.plan.dataset.items[place]
    given = check.own.dataset.items[one.item]
    prompt = check.recording.prompts[one.prompt] if check.recording.prompts else of_dataset(check.own.dataset)
    chat = tuple(one.answer.request.get("messages") or chat_before(check.own.dataset, given, one.turn, prompt))
    evidence = evidence_for(plan, item, one.turn, prompt, chat, one.answer)
    told: list[_Told] = []
    for before, entry in _matched(check, one, item):
        if not gives_verdict(before):
            continue
        if before.key == FORMAT_KEY and entry is None:
            now = await form_record(evidence, item, plan.dataset)
            told.append(_compared(check, one, before, now))
            continue
        if entry is None or entry.evaluator == LEFT_OUT:
            told.append(_Told(one, before))
            continue
        asked, entry = entry, _without_transform(check, one, before, entry)
        took_transform = entry is not asked
        assigned = _assigned(plan, entry, ask_of)
        if one.is_data and not isinstance(assigned, str) and "parse" in type(assigned.evaluator).Options.model_fields:
            assigned = _assigned(plan, replace(entry, options={**entry.options, "parse": True}), ask_of)
        if isinstance(assigned, str):
            told.append(_Told(one, before, cannot=assigned))
        elif assigned.evaluator.scope == "group" or (assigned.evaluator.judged and plan.without_judges):
            now = await _read_again(plan, entry, before, evidence)
            reread = _Told(one, before, by_model=True) if now is None else _compared(check, one, before, now)
            told.append(replace(reread, read_again=now is not None))
        else:
            now = await recorded(assigned, evidence, plan.without_judges)
            found = _compared(check, one, before, now)
            told.append(replace(found, without_transform=took_transform))
    return told


async def _read_again(
    plan: Plan, entry: EffectiveEvaluator, before: ScoreRecord, evidence: Evidence
) -> ScoreRecord | None:
    """The verdict in the recorded reply of a judge; None where no reply was recorded from which it follows."""
    reply = before.details.get("reply", before.reason)
    if not plan.registry.find(entry.evaluator).follows_from_reply or not isinstance(reply, str) or not reply:
        return None

    async def ask(_: Question) -> str:
        return reply

    now = await recorded(plan.assigned(entry, lambda _: ask), evidence, False)
    return None if now.result == "error" else now


def _matched(check: _Check, one: RecordedAnswer, item: Item) -> Iterator[tuple[ScoreRecord, EffectiveEvaluator | None]]:
    """Each recorded score with its current evaluator: equal options, else equal key, else the same kind."""
    judging = list(check.plan.resolved(item, one.turn))
    if check.plan is check.own:
        by_key = {entry.key: entry for entry in judging}
        yield from ((score, by_key.get(score.key)) for score in one.scores)
        return
    before = {entry.key: entry for entry in check.own.resolved(check.own.dataset.items[one.item], one.turn)}
    alike: tuple[Callable[[ScoreRecord, EffectiveEvaluator], bool], ...] = (
        lambda score, entry: score.key in before and _says(before[score.key]) == _says(entry),
        lambda score, entry: score.key == entry.key,
        lambda score, entry: score.evaluator == entry.evaluator,
    )
    found: dict[str, EffectiveEvaluator] = {}
    for fits in alike:
        for score in one.scores:
            fitting = (entry for entry in judging if score.key not in found and fits(score, entry))
            entry = min(fitting, key=lambda entry: entry.key != score.key, default=None)
            if entry is not None:
                found[score.key] = entry
                judging.remove(entry)
    yield from ((score, found.get(score.key)) for score in one.scores)


def _says(entry: EffectiveEvaluator) -> tuple[str, Mapping[str, Any]]:
    """The evaluator and its options, without its label and weight."""
    return entry.evaluator, {name: value for name, value in entry.settings.items() if name not in _SAYS_NOTHING}


def _without_transform(
    check: _Check, one: RecordedAnswer, before: ScoreRecord, entry: EffectiveEvaluator
) -> EffectiveEvaluator:
    """The evaluator for an answer that was recorded as a transform had left it: with those of the assertion alone."""
    if one.item not in check.recording.transformed or "transform" not in entry.settings:
        return entry
    own = check.own.resolved(check.own.dataset.items[one.item], one.turn)
    left = next((known.settings.get("transform") for known in own if known.key == before.key), None)
    if left is not None or "evaluator" not in entry.settings:
        options = {name: value for name, value in entry.options.items() if name != "transform"}
        return replace(entry, options={**options, **({} if left is None else {"transform": left})})
    ((name, inner),) = entry.settings["evaluator"].items()
    options = {key: value for key, value in entry.options.items() if key in ("judge", "weight")}
    return replace(entry, options={**options, **inner, "type": name})


def _assigned(plan: Plan, entry: EffectiveEvaluator, ask_of: Callable[[str | None], Ask | None]) -> Assigned | str:
    """The evaluator, made and given its judge, or why it cannot be."""
    try:
        return plan.assigned(entry, ask_of)
    except UnknownEvaluator as problem:
        return str(problem)
    except ValidationError as problem:
        return f"{entry.key} cannot be used: {problem.errors(include_url=False)[0]['msg']}"


def _compared(check: _Check, one: RecordedAnswer, before: ScoreRecord, now: ScoreRecord | None) -> _Told:
    if now is None:
        return _Told(one, before)
    if now.result == "skipped" or (now.result == "error" and now.details.get("code") != "evaluatorError"):
        return _Told(one, before, cannot=f"{before.key}: {now.reason}")
    return _Told(one, before, now, same=_same(before, now, check.recording.verdicts_only), check=check)


def _same(before: ScoreRecord, now: ScoreRecord, verdicts_only: bool) -> bool:
    if before.result is not None and (now.result is not None or before.score is None):
        same_verdict = before.result == now.result
        return same_verdict and (verdicts_only or _near(before.score, now.score))
    return before.score is not None and now.score is not None and _near(before.score, now.score)


def _near(before: float | None, now: float | None) -> bool:
    return before is None or now is None or abs(before - now) <= TOLERANCE * max(1.0, abs(before))


def _add(found: Verification, told: Sequence[_Told] | None) -> None:
    if told is None:
        found.not_asked += 1
        return
    for one in told:
        if one.now is None:
            kinds = found.by_model if one.by_model else found.cannot if one.cannot else found.no_equal
            kinds[one.cannot or one.before.evaluator] += 1
            continue
        found.without_transform += one.without_transform
        found.read_again += one.read_again
        if one.check is not None:
            found.verdicts.append(_repeated(one.check, one.one, one.before, one.now, one.same))


def _repeated(check: _Check, one: RecordedAnswer, before: ScoreRecord, now: ScoreRecord, same: bool) -> Repeated:
    prompts = check.recording.prompts
    return Repeated(
        item=check.own.name_of(one.item),
        turn=one.turn,
        prompt=prompts[one.prompt].name if len(prompts) > 1 else "",
        target=check.recording.targets[one.target],
        repeat=one.repeat,
        key=before.key,
        evaluator=now.evaluator,
        before=before,
        now=now,
        same=same,
    )


class _NothingKept:
    """The ledger of judges whose replies are only compared."""

    def called(self, record: CallRecord) -> None:
        """Not kept."""

    def waiting(self, wait: Wait, answer: int | None) -> None:
        """Not shown."""

    def changed(self, target: str, changes: Sequence[str]) -> None:
        """Not kept."""

    async def cached(self, key: str) -> AnswerRecord | None:
        """Nothing is cached."""
        return None

    async def keep(self, key: str, target: str, record: AnswerRecord) -> None:
        """Nothing is cached."""
