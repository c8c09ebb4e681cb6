"""Converts PromptPex data: its tests to items, its recorded answers and verdicts to a finished run."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tui_evals.datasets.model import Dataset
from tui_evals.datasets.paths import CURRENT_VERSION
from tui_evals.generate.asking import split_baseline_inputs
from tui_evals.generate.folder import Rule, evaluator_key, number_rules, test_uid
from tui_evals.generate.steps import BAD_SCORE
from tui_evals.generate.work import Subject, Unbindable, bind_inputs
from tui_evals.imports.promptpex.artefacts import (
    About,
    Artefacts,
    Measure,
    RecordedResult,
    RecordedRuleEval,
    RecordedTest,
    RecordedTestEval,
    table_of,
)
from tui_evals.imports.recording import RecordedAnswer, chat_before
from tui_evals.imports.recording import Recording as FinishedRun
from tui_evals.light_records import dataclass
from tui_evals.reports.overview import percent
from tui_evals.runs.prompting import Chat, PromptUnderTest
from tui_evals.store.records import AnswerRecord, ScoreRecord

_FACTS = ("testid", "testinput", "testinputOriginal", "expectedoutput", "reasoning", "scenario", "generation")

Data = dict[str, Any]


class Tests:
    """The tests in order, and which of them a row is about: by its uid, else by its input and rule."""

    __test__ = False

    def __init__(self, tests: Iterable[RecordedTest]) -> None:
        self.rows: list[RecordedTest] = []
        self._uids: dict[str, int] = {}
        self._inputs: dict[tuple[object, ...], int] = {}
        for test in tests:
            self._add(test)

    def _add(self, test: RecordedTest) -> int:
        place = len(self.rows)
        self.rows.append(test)
        if test.testuid:
            self._uids.setdefault(test.testuid, place)
        for key in (_key(test, 4), _key(test, 3), _key(test, 2)):
            self._inputs.setdefault(key, place)
        return place

    def place_of(self, row: About) -> int:
        """The position of a row's test; a missing one is added as a test."""
        place = self._known(row)
        return self._add(_from_row(row)) if place is None else place

    def _known(self, row: About) -> int | None:
        if row.testuid in self._uids:
            return self._uids[row.testuid]
        parts = 4 if row.scenario else 3 if row.ruleid is not None else 2
        place = self._inputs.get(_key(row, parts))
        # Two names are two tests, even where both ask the same.
        return None if place is None or (row.testuid and self.rows[place].testuid) else place


def _key(row: About, parts: int) -> tuple[object, ...]:
    return (row.testinput, bool(row.baseline), row.ruleid, row.scenario or "")[:parts]


def _from_row(row: About) -> RecordedTest:
    return RecordedTest.model_validate({name: getattr(row, name) for name in About.model_fields})


def written_tests(artefacts: Artefacts) -> Tests:
    """The tests that are written down, then those baseline tests that are in a file of their own."""
    tests = Tests(artefacts.rows("tests", RecordedTest))
    piece = artefacts.pieces.get("baseline_tests")
    if piece is None:
        return tests
    if piece.table or not isinstance(piece.value, str) or piece.value.lstrip().startswith("["):
        own = [test.testinput for test in artefacts.rows("baseline_tests", RecordedTest)]
    else:
        own = split_baseline_inputs(artefacts.text("baseline_tests"))
    for text in own:
        tests.place_of(About.model_validate({"testinput": text, "baseline": True}))
    return tests


class Known:
    """The evaluations of tests, by their uid or else by their input."""

    def __init__(self, rows: Iterable[About]) -> None:
        self._uids: dict[str, About] = {}
        self._inputs: dict[tuple[object, ...], About] = {}
        for row in rows:
            self._inputs.setdefault(_key(row, 2), row)
            if row.testuid:
                self._uids.setdefault(row.testuid, row)

    def about(self, test: RecordedTest) -> About | None:
        """The evaluation of a test."""
        if test.testuid in self._uids:
            return self._uids[test.testuid]
        row = self._inputs.get(_key(test, 2))
        return None if row is None or (row.testuid and test.testuid) else row


class Items:
    """The items of the dataset, created one by one; `notes` lists what had to be changed."""

    def __init__(self, artefacts: Artefacts, subject: Subject | None, truths: Sequence[RecordedResult]) -> None:
        self._subject = subject
        self._prompt = artefacts.name
        self._rules = {
            rule.number: rule for rule in number_rules(artefacts.lines("rules"), artefacts.lines("inverse_rules"))
        }
        self._truths = Known(truths)
        self._evals = Known(_evals(artefacts))
        self._wrong: Counter[str] = Counter()

    @property
    def notes(self) -> list[str]:
        """Notes for the user about the items."""
        return [f"{note}{f' (and {count - 1} more)' if count > 1 else ''}" for note, count in self._wrong.items()]

    def item(self, test: RecordedTest, place: int) -> Data:
        """One test as an item."""
        rule = self._rule(test)
        inverse = rule.inverse if rule is not None else bool(test.inverse)
        facts = self._facts(test, rule, inverse)
        tags = [*([test.scenario] if test.scenario else []), *(["inverse"] if inverse else [])]
        item: Data = {"testId": test.testuid or test_uid(self._prompt, test.model_dump(), place)}
        number = rule.number if rule is not None else test.ruleid
        item["category"] = "baseline" if test.baseline else f"rule-{number}" if number else "no-rule"
        item |= {"tags": tags} if tags else {}
        item |= self._asked(test)
        score = facts.get("groundtruthScore")
        expected = facts.get("groundtruth") if score is None or score >= BAD_SCORE else test.expectedoutput
        item |= {"expected_response": expected} if (expected := expected or test.expectedoutput) else {}
        return {**item, "extensions": {"promptpex": facts}}

    def _rule(self, test: RecordedTest) -> Rule | None:
        """The rule a test was made from: by its number, unless the row says that it is of the other list."""
        if test.baseline or test.ruleid is None:
            return None
        rule = self._rules.get(test.ruleid)
        if rule is not None and (test.inverse is None or test.inverse == rule.inverse):
            return rule
        named = next((one for one in self._rules.values() if one.text == (test.rule or "").strip()), None)
        if named is None and self._rules:
            self._wrong["some tests name a rule that is not in rules.txt or inverse_rules.txt"] += 1
        return named

    def _facts(self, test: RecordedTest, rule: Rule | None, inverse: bool) -> Data:
        facts: Data = {"ruleid": test.ruleid, "rule": test.rule, "inverse": inverse or None}
        if rule is not None:
            facts = {"ruleid": rule.number, "rule": rule.text, "inverse": rule.inverse, "of": rule.of}
        facts["baseline"] = test.baseline or None
        facts |= {name: getattr(test, name) for name in _FACTS}
        facts |= self._truth(test)
        if isinstance(known := self._evals.about(test), RecordedTestEval):
            facts |= {"validity": known.validity, "coverage": known.coverage}
        return {name: value for name, value in facts.items() if value is not None and (value or name != "scenario")}

    def _truth(self, test: RecordedTest) -> Data:
        known = self._truths.about(test)
        if test.groundtruth is not None or not isinstance(known, RecordedResult):
            names = ("groundtruth", "groundtruthModel", "groundtruthScore")
            return {name: getattr(test, name) for name in names}
        scores = [one.score for one in known.metrics.values() if one.score is not None]
        score = known.groundtruthScore
        if score is None:
            score = test.groundtruthScore if not scores else sum(scores) / len(scores)
        return {"groundtruth": known.output, "groundtruthModel": known.model, "groundtruthScore": score}

    def _asked(self, test: RecordedTest) -> Data:
        if self._subject is None or not self._subject.declared:
            return {"prompt": test.testinput} if test.testinput else {"messages": [{"role": "user", "content": ""}]}
        scenario = self._subject.scenario(test.scenario)
        try:
            return {"variables": bind_inputs(self._subject, scenario, test.testinput)}
        except Unbindable:
            self._wrong["some tests give no value for an input of the prompt, and cannot be asked as they are"] += 1
            return {"variables": {self._subject.open_inputs(scenario)[0].name: test.testinput}}


def _evals(artefacts: Artefacts) -> Iterator[About]:
    yield from artefacts.rows("test_evals", RecordedTestEval)
    for row in artefacts.rows("baseline_test_evals", RecordedTestEval):
        yield row.model_copy(update={"baseline": True})


def document_of(
    artefacts: Artefacts, name: str, items: Sequence[Data], subject: Subject | None, evaluators: Mapping[str, Any]
) -> Data:
    """The dataset as a document, without the name of its prompt, which the caller adds."""
    facts: Data = {"prompt": artefacts.name, "promptid": subject.id if subject is not None else None}
    facts |= {"intent": artefacts.text("intent"), "inputSpec": artefacts.text("input_spec")}
    facts |= {"rules": "\n".join(artefacts.lines("rules")), "inverseRules": "\n".join(artefacts.lines("inverse_rules"))}
    facts["ruleEvals"] = [row.model_dump(exclude_none=True) for row in artefacts.rows("rule_evals", RecordedRuleEval)]
    return {
        "schemaVersion": CURRENT_VERSION,
        "description": f"Tests of the prompt {artefacts.name} that PromptPex made. {artefacts.text('intent')}".strip(),
        "metadata": {"name": name, "tags": ["promptpex"]},
        "default_evaluators": dict(evaluators),
        "extensions": {"promptpex": {key: value for key, value in facts.items() if value}},
        "items": list(items),
    }


COMPLIANCE = "Compliance"
AVERAGE = "average"
_WITH = " with "
_SAID = {"ok": "keeps to the rules", "err": "breaks a rule"}

Judged = tuple[str, str]
"""A metric, and the model that applied it; no name where it is not known."""


def metric_of(key: str) -> Judged:
    """The metric and the judge of a key such as `accuracy with azure:o4-mini`."""
    metric, separator, judge = key.rpartition(_WITH)
    return (metric.strip(), judge.strip()) if separator else (key.strip(), "")


def judged_by(rows: Iterable[RecordedResult]) -> list[Judged]:
    """Every metric with every judge that applied it, in the order they are met; averages are computed, not judged."""
    metrics = (metric_of(key) for row in rows for key in row.metrics)
    return list(dict.fromkeys(one for one in metrics if one[1] != AVERAGE))


def keys_for(judged: Sequence[Judged]) -> dict[Judged, str]:
    """The key of each metric and judge: the metric alone if only one judge applied it."""
    metrics = [metric for metric, _ in judged]
    taken = {COMPLIANCE}
    keys: dict[Judged, str] = {}
    for metric, judge in judged:
        wanted = (
            evaluator_key(metric) if metrics.count(metric) == 1 else f"{evaluator_key(metric)}_{evaluator_key(judge)}"
        )
        key, number = wanted, 2
        while key in taken:
            key, number = f"{wanted}_{number}", number + 1
        taken.add(key)
        keys[metric, judge] = key
    return keys


def evaluators_for(keys: Mapping[Judged, str], known: Iterable[str], compliance: bool) -> dict[str, dict[str, Any]]:
    """The evaluators of the dataset: those that judged, if they are known here."""
    names = set(known)
    metrics = [metric for metric, _ in keys]
    evaluators: dict[str, dict[str, Any]] = {COMPLIANCE: {}} if compliance else {}
    for (metric, judge), key in keys.items():
        if metric in names:
            typed = {} if key == metric else {"type": metric}
            evaluators[key] = typed if metrics.count(metric) == 1 or not judge else {**typed, "judge": judge}
    return evaluators


def records_of(row: RecordedResult, keys: Mapping[Judged, str], judges: Sequence[str]) -> tuple[ScoreRecord, ...]:
    """The records of one answer; `judges` are those that the run names, the first of which judged compliance."""
    return (*_compliance(row, judges), *_metrics(row, keys))


def _compliance(row: RecordedResult, judges: Sequence[str]) -> Iterator[ScoreRecord]:
    if row.compliance is None:
        return
    reason = row.complianceText or f"the judge found that the answer {_SAID.get(row.compliance, 'cannot be judged')}"
    yield _verdict(COMPLIANCE, COMPLIANCE, row.compliance, reason, judges[0] if judges else "")


def _metrics(row: RecordedResult, keys: Mapping[Judged, str]) -> Iterator[ScoreRecord]:
    seen: set[str] = set()
    for name, measure in row.metrics.items():
        metric, judge = metric_of(name)
        if (metric, judge) in keys and (key := keys[metric, judge]) not in seen:
            seen.add(key)
            yield _measured(key, metric, measure, judge)


def _measured(key: str, metric: str, measure: Measure, judge: str) -> ScoreRecord:
    if measure.score is None:
        reason = measure.content or "neither a score nor a verdict was recorded"
        return _verdict(key, metric, measure.outcome or "unknown", reason, judge)
    details = {"judge": judge} if judge else {}
    return ScoreRecord(
        key=key, evaluator=metric, score=measure.score, result=None, reason=measure.content or "", details=details
    )


def _verdict(key: str, evaluator: str, outcome: str, reason: str, judge: str) -> ScoreRecord:
    """OK passes, ERR fails, and anything else could not be judged."""
    details: dict[str, Any] = {"judge": judge} if judge else {}
    if outcome == "unknown":
        details = {"code": "invalidEvaluatorResult", **details}
        return ScoreRecord(key=key, evaluator=evaluator, score=None, result="error", reason=reason, details=details)
    good = outcome == "ok"
    return ScoreRecord(
        key=key,
        evaluator=evaluator,
        score=float(good),
        result="pass" if good else "fail",
        label=outcome,
        reason=reason,
        details=details,
    )


Rows = Sequence[Mapping[str, Any]]


def overview_of(artefacts: Artefacts) -> list[dict[str, Any]]:
    """The rows of overview.csv; empty if there is no such file."""
    piece = artefacts.pieces.get("overview")
    return [] if piece is None else table_of(piece)


def with_inverse(rows: Iterable[RecordedResult], rules: int) -> list[RecordedResult]:
    """The rows, those of older tables told apart by their number: inverse rules are numbered behind the rules."""
    return [
        row.model_copy(update={"inverse": True})
        if rules and row.inverse is None and not row.baseline and (row.ruleid or 0) > rules
        else row
        for row in rows
    ]


def differences(overview: Rows, recorded: Sequence[RecordedResult], kept: Sequence[RecordedResult]) -> list[str]:
    """Differences between overview.csv and the answers; repeated rows of the file may count twice in it."""
    answers = [row for row in recorded if not row.isGroundtruth]
    once, all_rows = _counted(kept), _counted(answers)
    if not _differing(overview, all_rows):
        return []
    return _differing(overview, once)


def _differing(overview: Rows, counted: Mapping[tuple[str, str], Mapping[str, str]]) -> list[str]:
    sentences = []
    for row in overview:
        model = str(row.get("model") or "")
        if not model:
            sentences.append("overview.csv has totals of no model: its first line should name the column model")
            return sentences
        scenario = str(row.get("scenario") or "")
        ours = counted.get((model, scenario)) or counted.get((model, "")) or {}
        name = _short(f"{model}, {scenario}" if scenario else model)
        if not ours:
            sentences.append(f"overview.csv has totals of {name}, but there are no answers of it")
            continue
        parts = [
            f"{column} {value} (the answers: {ours[column]})"
            for column, value in row.items()
            if column in ours
            and str(value).strip()
            and str(value).strip() not in (ours[column], _of_tests(ours, column))
        ]
        if parts:
            sentences.append(f"overview.csv says otherwise of {name}: {', '.join(parts)}")
    return sentences


def _of_tests(counts: Mapping[str, str], column: str) -> str:
    """A count as older overviews give it, as a share of the tests."""
    part, whole = counts[column], int(counts["tests"])
    return percent(int(part), whole) if part.isdigit() else part


def _short(name: str) -> str:
    return name if len(name) <= 80 else f"{name[:79]}…"


def _counted(rows: Iterable[RecordedResult]) -> dict[tuple[str, str], dict[str, str]]:
    """The columns of each model and scenario, and of each model in all of them."""
    groups: defaultdict[tuple[str, str], list[RecordedResult]] = defaultdict(list)
    for row in rows:
        for key in {(row.model or "", row.scenario or ""), (row.model or "", "")}:
            groups[key].append(row)
    return {key: _columns(group) for key, group in groups.items()}


def _columns(rows: Sequence[RecordedResult]) -> dict[str, str]:
    good = [row for row in rows if not row.error]
    tests = [row for row in good if not row.baseline]
    baseline = [row for row in good if row.baseline]
    positive = [row for row in tests if not row.inverse]
    negative = [row for row in tests if row.inverse]
    return {
        "tests": str(len(tests)),
        "tests compliant": _share(tests),
        "baseline compliant": _share(baseline),
        "tests positive": str(len(positive)),
        "tests positive compliant": str(_compliant(positive)),
        "tests negative": str(len(negative)),
        "tests negative compliant": str(_compliant(negative)),
        "baseline": str(len(baseline)),
    }


def _compliant(rows: Iterable[RecordedResult]) -> int:
    return sum(row.compliance == "ok" for row in rows)


def _share(rows: Sequence[RecordedResult]) -> str:
    return percent(_compliant(rows), len(rows))


BY = "PromptPex"
TAG = "promptpex"
UNNAMED_MODEL = "unknown model"


@dataclass(frozen=True, slots=True)
class Answer:
    """One recorded answer with its test, its model, and its number among repeats."""

    item: int
    target: int
    repeat: int
    row: RecordedResult


@dataclass(frozen=True, slots=True)
class Recording:
    """The answers of a run in the order of the dataset, and what was left out."""

    answers: tuple[Answer, ...]
    models: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def repeats(self) -> int:
        """How often one model answered one test, at most."""
        return max((answer.repeat for answer in self.answers), default=0) + 1

    @property
    def rows(self) -> list[RecordedResult]:
        """The recorded rows."""
        return [answer.row for answer in self.answers]

    @property
    def digest(self) -> str:
        """A digest that identifies this recording."""
        content = [(answer.item, answer.repeat, answer.row.model_dump()) for answer in self.answers]
        return hashlib.sha256(json.dumps([self.models, content]).encode()).hexdigest()


def recording_of(rows: Sequence[RecordedResult], tests: Tests) -> Recording:
    """The answers of models under test; an unknown test is added to the tests."""
    under_test = [row for row in rows if not row.isGroundtruth]
    named = [(tests.place_of(row), row.model or UNNAMED_MODEL, row) for row in under_test]
    kept = _once(named)
    models = tuple(dict.fromkeys(model for _, model, _ in kept))
    seen: Counter[tuple[int, str]] = Counter()
    answers = []
    for place, model, row in kept:
        answers.append(Answer(place, models.index(model), seen[place, model], row))
        seen[place, model] += 1
    answers.sort(key=lambda answer: (answer.item, answer.repeat, answer.target))
    notes = []
    if truths := len(rows) - len(under_test):
        notes.append(f"{_rows(truths)} of ground truth, which is no answer of a model under test")
    if twice := len(named) - len(kept):
        notes.append(f"{_rows(twice)} that are there twice, without a verdict")
    return Recording(tuple(answers), models, tuple(notes))


def _rows(count: int) -> str:
    return f"{count} row{'' if count == 1 else 's'}"


def _once(named: Sequence[tuple[int, str, RecordedResult]]) -> Sequence[tuple[int, str, RecordedResult]]:
    """The rows without the unjudged originals that follow their judged copies; repeats are no copies."""
    first = next((n + 1 for n in range(len(named) - 1, -1, -1) if named[n][2].judged), 0)
    head, tail = named[:first], named[first:]
    if not head or not tail or not all(row.judged or row.error for _, _, row in head):
        return named
    doubled = Counter(one[:2] for one in head) == Counter(one[:2] for one in tail)
    there = Counter((place, model, row.output) for place, model, row in head)
    again = Counter((place, model, row.output) for place, model, row in tail)
    return head if doubled or again <= there else named


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The origin of a recorded run: its dataset, its prompt, its judges."""

    document: Mapping[str, Any]
    source: str
    name: str
    prompt: PromptUnderTest | None
    keys: Mapping[Judged, str]
    metrics: str | None
    """The folder of the prompt from the project's root, where metrics lie."""
    judges: tuple[str, ...]
    """The judges that the run names; the first judged compliance."""


def recorded(recording: Recording, origin: Origin) -> FinishedRun:
    """The recording as runs are stored from it."""
    dataset = Dataset.model_validate(origin.document)
    prompt = origin.prompt or PromptUnderTest()
    chats = [chat_before(dataset, item, 0, prompt) for item in dataset.items]
    return FinishedRun(
        by=BY,
        digest=recording.digest,
        document=origin.document,
        source=origin.source,
        name=origin.name,
        targets=recording.models,
        answers=tuple(_recorded(answer, chats[answer.item], origin) for answer in recording.answers),
        prompts=() if origin.prompt is None else (origin.prompt,),
        judges=tuple({*origin.judges, *(judge for _, judge in origin.keys if judge)}),
        tags=(TAG,),
        metrics=origin.metrics,
    )


def _recorded(answer: Answer, chat: Chat, origin: Origin) -> RecordedAnswer:
    record = _record(answer.row, chat)
    return RecordedAnswer(
        item=answer.item,
        target=answer.target,
        repeat=answer.repeat,
        answer=record,
        scores=() if record.text is None else records_of(answer.row, origin.keys, origin.judges),
    )


def _record(row: RecordedResult, chat: Chat) -> AnswerRecord:
    request = {"messages": list(chat)}
    if row.error or row.output is None:
        message = row.error or "neither an output nor an error was recorded"
        return AnswerRecord(text=None, request=request, model=row.model, code="agentRequestFailed", message=message)
    return AnswerRecord(text=row.output, request=request, model=row.model)
