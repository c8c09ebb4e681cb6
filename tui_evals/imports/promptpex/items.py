"""From what PromptPex wrote to a dataset: its tests as items, with what was found out about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tui_evals.datasets.paths import CURRENT_VERSION
from tui_evals.generate.folder import Rule, number_rules, test_uid
from tui_evals.generate.replies import split_baseline_inputs
from tui_evals.generate.reviewing import BAD_SCORE
from tui_evals.generate.work import Subject, Unbindable, bind_inputs
from tui_evals.imports.promptpex.artefacts import (
    About,
    Artefacts,
    RecordedResult,
    RecordedRuleEval,
    RecordedTest,
    RecordedTestEval,
)

Data = dict[str, Any]
_FACTS = ("testid", "testinput", "testinputOriginal", "expectedoutput", "reasoning", "scenario", "generation")


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
        """The place of the test a row is about; one that is not there becomes a test of its own."""
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
    """What was found out about tests, by their uid or else by their input."""

    def __init__(self, rows: Iterable[About]) -> None:
        self._uids: dict[str, About] = {}
        self._inputs: dict[tuple[object, ...], About] = {}
        for row in rows:
            self._inputs.setdefault(_key(row, 2), row)
            if row.testuid:
                self._uids.setdefault(row.testuid, row)

    def about(self, test: RecordedTest) -> About | None:
        """What is known of a test."""
        if test.testuid in self._uids:
            return self._uids[test.testuid]
        row = self._inputs.get(_key(test, 2))
        return None if row is None or (row.testuid and test.testuid) else row


class Items:
    """The items of the dataset, made one by one; `notes` says what could not be kept as it was."""

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
        """What a person should know of the items."""
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
