"""The basis of a scoring pass, and which scores of an earlier pass are still valid."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from tui_evals.datasets.model import Dataset, Item, Turn
from tui_evals.datasets.resolve import EffectiveEvaluator, resolve_evaluators
from tui_evals.evaluators.base import EMBEDDER, PROVENANCE, CannotJudge, Evaluator, Evidence, verdict_at
from tui_evals.evaluators.registry import only_asks
from tui_evals.evaluators.verdicts import Scale, label_scale
from tui_evals.light_records import dataclass
from tui_evals.runs.cache_lookup import Foresight
from tui_evals.runs.judges import judge_configs, named_identity
from tui_evals.runs.plan import Plan
from tui_evals.runs.project import Project
from tui_evals.runs.scoring import stored_evidence
from tui_evals.runs.status import RECORDED, RUBRIC
from tui_evals.store.details import group_scores, scores_of
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow, ScoreRecord
from tui_evals.store.writer import Writer
from tui_evals.targets.config import Settings
from tui_evals.targets.opening import identity, target_kind
from tui_evals.text.templates import TemplateError

NAMED = "named"
"""The key in the config of a pass for the evaluators that were named to judge in it; without it all do."""
ANEW = "anew"
"""The key in the config of a pass that keeps no score it could judge itself."""
_JUDGES = "judges"
"""The key in the config of a run or pass for the judges that evaluators name themselves."""


def judging_config(plan: Plan, settings: Settings | None, environment: Mapping[str, str]) -> dict[str, Any]:
    """The judges and settings, for the config of a run or pass; with `settings` also judges that evaluators name."""
    configs = {} if settings is None else judge_configs(plan, settings)
    own = {name: config for name, config in configs.items() if name not in (None, EMBEDDER)}
    return {
        "judge": named_identity(plan.judge, environment) if plan.judge else None,
        **({"embedder": named_identity(plan.embedder, environment)} if plan.embedder else {}),
        **({_JUDGES: {name: named_identity(config, environment) for name, config in own.items()}} if own else {}),
        "without_judges": plan.without_judges,
        RUBRIC: plan.rubric,
    }


def pass_config(
    plan: Plan,
    run: RunRow,
    project: Project,
    reader: Reader,
    writer: Writer,
    *,
    use_cache: bool,
    named: Collection[str],
    anew: bool,
) -> dict[str, Any]:
    """The basis of a scoring pass, in the form of a run's config; with the dataset only if it differs."""
    own = plan.dataset == Dataset.model_validate(reader.snapshot(run.snapshot))
    judging = None if own else plan.dataset.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {
        **judging_config(plan, project.settings, project.environment),
        "dataset": None if judging is None else writer.snapshot(judging, run.source),
        "terms": {"use_cache": use_cache},
        **({NAMED: sorted(named)} if named else {}),
        **({ANEW: True} if anew else {}),
    }


def judges_kept(config: Mapping[str, Any]) -> dict[str | None, dict[str, Any]]:
    """The judges in the config of a run or pass by the word evaluators have for them, without their names."""
    found = {None: config.get("judge"), EMBEDDER: config.get("embedder"), **config.get(_JUDGES, {})}
    return {
        word: {name: value for name, value in kept.items() if name != "name"}
        for word, kept in found.items()
        if isinstance(kept, Mapping)
    }


def judges_of(plan: Plan, settings: Settings, environment: Mapping[str, str]) -> dict[str | None, dict[str, Any]]:
    """The judges of a plan that give the same reply to the same question, as far as known.

    Code may change under the same name, so it is not included.
    """
    return {
        word: identity(config, environment)
        for word, config in judge_configs(plan, settings).items()
        if target_kind(config).asks_model
    }


@dataclass(frozen=True, slots=True)
class PassBasis:
    """The basis of a whole scoring pass."""

    number: int
    dataset: Dataset
    rubric: str
    judges: Mapping[str | None, Mapping[str, Any]]


def pass_bases(run: RunRow, reader: Reader) -> list[PassBasis]:
    """The bases of a run's whole passes, the latest first, without judgings by other tools."""
    datasets: dict[str, Dataset] = {}
    bases = []
    for scoring in reversed(reader.passes(run.id)):
        config = run.config if scoring.number == 1 else scoring.config
        if RECORDED in config:
            continue
        digest = config.get("dataset") or run.snapshot
        if digest not in datasets:
            datasets[digest] = Dataset.model_validate(reader.snapshot(digest))
        rubric = config.get(RUBRIC, run.config.get(RUBRIC, "strict"))
        bases.append(PassBasis(scoring.number, datasets[digest], rubric, judges_kept(config)))
    return bases


_SAID = ("prompt", "messages", "attachments")
"""The fields of a turn that later turns have as their history."""
_ABOUT = (*_SAID, "expected_response", "ideal", "context", "extensions")
_OF_ITEM = _OF_DATASET = ("messages", "variables", "tools", "response_format", "extensions")

_GetScores = Callable[[int], Mapping[str, ScoreRecord]]
"""The scores of a pass by their keys."""
_GetEvidence = Callable[[], Evidence | None]


def is_named(entry: EffectiveEvaluator, names: Collection[str]) -> bool:
    """Whether an evaluator is meant by one of some names: its key in the dataset, or its own name."""
    return entry.key in names or entry.evaluator in names


class KeptScores:
    """The scores of a run that a plan which judges it again need not ask for."""

    def __init__(
        self,
        run: RunRow,
        plan: Plan,
        project: Project,
        reader: Reader,
        *,
        named: Collection[str] = (),
        anew: bool = False,
    ) -> None:
        self._run = run
        self._plan = plan
        self._project = project
        self._reader = reader
        self._named = named
        self._anew = anew
        self._alike: dict[tuple[object, ...], bool] = {}
        self._rubrics: dict[tuple[str, str], str] = {}
        self._files: dict[tuple[str, str], Mapping[str, str] | None] = {}

    def of(self, rows: Iterable[AnswerRow]) -> dict[int, tuple[ScoreRecord, ...]]:
        """The valid scores of some answers, by their ids; each has the number of its pass."""
        page = {row.id: row for row in rows if row.code is None and row.status not in ("pending", "running")}
        ids, by_pass = tuple(page), dict[int, dict[int, dict[str, ScoreRecord]]]()

        def scores(answer: int, number: int) -> Mapping[str, ScoreRecord]:
            if number not in by_pass:
                found = scores_of(self._reader, ids, number)
                by_pass[number] = {id_: {record.key: record for record in records} for id_, records in found.items()}
            return by_pass[number].get(answer, {})

        numbers = list(dict.fromkeys([self._run.scoring_pass, *self._bases]))  # the latest first
        held = {
            row.id: tuple(self._held(row, numbers, partial(scores, row.id), partial(self._evidence, row)))
            for row in page.values()
        }
        return {answer: records for answer, records in held.items() if records}

    def of_group(self, item: int, turn: int, evidence: Evidence) -> tuple[ScoreRecord, ...]:
        """The valid current scores of all answers to a turn of an item; earlier ones had other answers."""
        row = self._first_rows.get((item, turn))
        if row is None:
            return ()
        scores = self._together[item, turn]
        return tuple(self._held(row, [self._run.scoring_pass], lambda _: scores, lambda: evidence))

    @cached_property
    def _together(self) -> Mapping[tuple[int, int], dict[str, ScoreRecord]]:
        found: defaultdict[tuple[int, int], dict[str, ScoreRecord]] = defaultdict(dict)
        for one in group_scores(self._reader, self._run.id):
            found[one.item, one.turn][one.record.key] = one.record
        return found

    @cached_property
    def _first_rows(self) -> Mapping[tuple[int, int], AnswerRow]:
        rows: dict[tuple[int, int], AnswerRow] = {}
        for row in self._reader.all_rows(self._run.id):
            rows.setdefault((row.item, row.turn), row)
        return rows

    @cached_property
    def _bases(self) -> Mapping[int, PassBasis]:
        return {} if self._anew else {basis.number: basis for basis in pass_bases(self._run, self._reader)}

    @cached_property
    def _judges(self) -> Mapping[str | None, Mapping[str, Any]]:
        return judges_of(self._plan, self._project.settings, self._project.environment)

    @cached_property
    def _judged_alone(self) -> frozenset[tuple[int, int]]:
        """The passes and answers in which single answers were judged by themselves, by unknown evaluators."""
        return self._reader.judged_alone(self._run.id) if self._run.rejudgings else frozenset()

    def _held(
        self, row: AnswerRow, numbers: Sequence[int], scores: _GetScores, evidence: _GetEvidence
    ) -> Iterator[ScoreRecord]:
        """The valid scores of some passes."""
        item = self._plan.dataset.items[row.item].asking(row.repeat)
        for entry in self._plan.resolved(item, row.turn):
            assigned = self._foresight.assigned(entry)
            if self._named and not is_named(entry, self._named):
                origin = self._run.scoring_pass
                record = scores(origin).get(entry.key)
            elif self._plan.without_judges and assigned.evaluator.judged:
                continue
            else:
                record, origin = self._latest_alike(row, item, entry, numbers, scores, evidence)
            if record is not None:
                yield replace(record, weight=assigned.weight, origin=record.origin or origin)

    def _latest_alike(
        self,
        row: AnswerRow,
        item: Item,
        entry: EffectiveEvaluator,
        numbers: Sequence[int],
        scores: _GetScores,
        evidence: _GetEvidence,
    ) -> tuple[ScoreRecord | None, int]:
        """The latest score that the same judge gave to the same question, with this threshold; and its pass."""
        evaluator = self._foresight.assigned(entry).evaluator
        if not (evaluator.judged or evaluator.may_ask):
            return None, 0
        for number in numbers:
            record = scores(number).get(entry.key)
            if record is None or not _was_paid(evaluator, record):
                continue
            basis = self._bases.get(record.origin or number)
            if (
                basis is not None
                and (basis.number, row.id) not in self._judged_alone
                and self._asked_alike(basis, row, item, entry)
                and (held := under_options(evaluator, record)) is not None
                and self._made_alike(evaluator, held, entry, evidence)
            ):
                return held, number
        return None, 0

    def _asked_alike(self, basis: PassBasis, row: AnswerRow, item: Item, entry: EffectiveEvaluator) -> bool:
        """Whether a pass had the same evaluator with the same options ask the same judge about the same evidence."""
        if row.item >= len(basis.dataset.items):
            return False
        before = basis.dataset.items[row.item].asking(row.repeat)
        if row.turn >= len(before.units):
            return False
        own = before.units[row.turn]
        mark = (basis.number, entry.key, repr(entry.options), json.dumps([own.evaluators, own.evaluators_mode]))
        if mark not in self._alike:
            self._alike[mark] = self._same_options(basis, own, entry)
        if not self._alike[mark]:
            return False
        place = (basis.number, row.item, row.turn, row.repeat if item.other_questions else 0)
        if place not in self._alike:
            now = self._plan.dataset
            self._alike[place] = basis.dataset is now or (
                _shown(basis.dataset, before, row.turn) == _shown(now, item, row.turn)
            )
        return self._alike[place]

    def _same_options(self, basis: PassBasis, unit: Item | Turn, entry: EffectiveEvaluator) -> bool:
        find = self._plan.registry.find
        before = next((one for one in resolve_evaluators(basis.dataset, unit) if one.key == entry.key), None)
        if before is None or before.evaluator != entry.evaluator:
            return False
        kind = find(entry.evaluator)
        word = kind.asked_target(entry.settings)
        if kind.asked_target(before.settings) != word or word not in self._judges:
            return False
        asked = {word, EMBEDDER} if kind.may_embed else {word}
        if any(basis.judges.get(one) != self._judges.get(one) for one in asked):
            return False
        return deciding_options(kind, before, basis.rubric) == deciding_options(kind, entry, self._plan.rubric)

    def _made_alike(
        self, evaluator: Evaluator, record: ScoreRecord, entry: EffectiveEvaluator, evidence: _GetEvidence
    ) -> bool:
        """Whether a score was made by the same rubric and files that would make it now."""
        mark = entry.key, repr(entry.options)
        if mark not in self._files:
            self._files[mark] = _files_of(evaluator)
        files = self._files[mark]
        if {name: record.details[name] for name in PROVENANCE if name in record.details} != files:
            return False
        if not only_asks(type(evaluator)):
            return bool(files)
        return evaluator.embeds or record.details.get("rubric") == self._rubric(entry, evidence)

    def _rubric(self, entry: EffectiveEvaluator, evidence: _GetEvidence) -> str | None:
        """The current rubrics of an evaluator, found by trying it on an answer."""
        mark = entry.key, repr(entry.options)
        if mark not in self._rubrics:
            shown = evidence()
            tried = self._foresight.tried(entry, shown) if shown is not None else None
            if tried is None or tried.rubric is None:
                return None
            self._rubrics[mark] = tried.rubric
        return self._rubrics[mark]

    def _evidence(self, row: AnswerRow) -> Evidence | None:
        """The evidence about an answer; None if its prompt cannot be filled in any more."""
        page = self._reader.window(self._run.id, row.pos - row.turn, row.turn + 1)
        records = self._reader.records(one.id for one in page)
        known = {one.turn: records[one.id] for one in page if one.id in records}
        try:
            return stored_evidence(self._plan, row, known) if row.turn in known else None
        except TemplateError:
            return None

    @cached_property
    def _foresight(self) -> Foresight:
        return Foresight(self._plan, self._project, None)


def under_options(evaluator: Evaluator, record: ScoreRecord) -> ScoreRecord | None:
    """A score as the threshold and the label values of an evaluator make it; None where the score does not tell."""
    if (again := evaluator.score_again(record.details, record.reason)) is not None:
        found = {name: getattr(again, name) for name in ("score", "result", "threshold", "label", "reason", "measure")}
        return replace(record, **found, details={**record.details, **again.details})
    threshold = evaluator.passing_score
    scale = label_scale(type(evaluator), evaluator.options)
    moved = record if scale is None or record.label is None else _on_scale(scale, record)
    if moved is None:
        return None
    if not evaluator.compares or (threshold, moved.score) == (record.threshold, record.score):
        return moved
    if record.score is None or moved.score is None or not evaluator.decided_by_score(record.details):
        return None
    result = verdict_at(evaluator, moved.score, threshold)
    turned = evaluator.options.negate and (record.result is None) != (result is None)  # its reason says so
    if turned or verdict_at(evaluator, record.score, record.threshold) != record.result:
        return None
    return replace(moved, threshold=threshold, result=result)


_STATED = ("rubric", "scale")
"""The details of a record that name the scale."""


def _on_scale(scale: Scale, record: ScoreRecord) -> ScoreRecord | None:
    """A score with the value that its label has on a scale; None where it has none there."""
    value = scale.labels.get(record.label or "")
    if value is None:
        return None
    named, details = str(scale), dict(record.details)
    for name in _STATED:
        if isinstance(text := details.get(name), str) and (at := text.find(f"{next(iter(scale.labels))} (")) >= 0:
            details[name] = text[:at] + named + ")" * text.endswith("))")
    return replace(record, score=value, details=details, measure=str(scale.measure))


def _was_paid(evaluator: Evaluator, record: ScoreRecord) -> bool:
    """Whether a judge was asked for a score, and it came to something."""
    return record.result in ("pass", "fail", None) and ("judge_model" in record.details or evaluator.embeds)


def _files_of(evaluator: Evaluator) -> Mapping[str, str] | None:
    try:
        return evaluator.provenance()
    except CannotJudge:
        return None


def deciding_options(kind: type[Evaluator], entry: EffectiveEvaluator, rubric: str) -> Mapping[str, Any]:
    """The options that affect the question to a judge, or how its reply is read."""
    default = {"rubric": rubric} if kind.levelled else {}
    checked = kind.Options.model_validate({**default, **entry.settings})
    free = {"weight", "threshold"} if kind.compares else {"weight"}
    decided = checked.model_dump(exclude=free | kind.verdict_options)
    scale = label_scale(kind, checked)
    return decided if scale is None else {**decided, "scale": (tuple(scale.labels), scale.best_first)}


def _shown(dataset: Dataset, item: Item, turn: int) -> tuple[object, ...]:
    """The parts of a dataset that an evaluator sees besides the answer to a turn."""
    units = item.units
    return (
        [getattr(dataset, name) for name in _OF_DATASET],
        [getattr(item, name) for name in _OF_ITEM],
        [[getattr(unit, name) for name in _SAID] for unit in units[:turn]],
        [getattr(units[turn], name) for name in _ABOUT],
    )
