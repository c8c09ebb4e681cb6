"""The rules of a dataset with the tests of each: read, filtered, edited, and written to the files next to it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, NamedTuple

from tui_evals.datasets.item_names import names_in_run
from tui_evals.datasets.paths import CannotEdit, set_at
from tui_evals.generate.folder import (
    RECORD,
    GenerationFolder,
    Rule,
    Test,
    TestRule,
    UnreadableFile,
    all_rules,
    match_rules,
    parse_rows,
    rows_text,
    rule_lines,
)
from tui_evals.light_records import dataclass

Data = dict[str, Any]
Key = tuple[bool, int]
"""Which rule: whether it is an inverse one, and the place of the output rule it is or inverts."""

_FIELDS = ("rules", "inverseRules")
_LEAST_WORDS = 400  # characters of an input that are looked through for words


class RuleTexts(NamedTuple):
    """The output rules and their inverse, as two files of a line each hold them."""

    output: tuple[str, ...] = ()
    inverse: tuple[str, ...] = ()

    @property
    def paired(self) -> bool:
        """Whether every output rule has an inverse one in its place."""
        return len(self.output) == len(self.inverse)

    def rules(self, most: int | None) -> dict[Key, Rule]:
        """All of them in order, numbered as the command line numbers them; 0 where no tests are made for a rule."""
        return {(rule.inverse, rule.of): rule for rule in all_rules(self.output, self.inverse, most)}


NO_TEXTS = RuleTexts()


@dataclass(frozen=True, slots=True)
class RuleLine:
    """A rule, the positions of its tests in the dataset, and whether the prompt supports it."""

    rule: Rule
    tests: tuple[int, ...] = ()
    grounded: str = ""
    why: str = ""

    @property
    def key(self) -> Key:
        """Its identity across edits."""
        return self.rule.inverse, self.rule.of


@dataclass(frozen=True, slots=True)
class RuleTest:
    """A test as shown in the list."""

    name: str
    question: str
    expected: str
    words: str
    """The text that a filter searches."""


@dataclass(frozen=True, slots=True)
class RuleSheet:
    """The rules of a dataset, and its tests."""

    name: str = ""
    texts: RuleTexts = NO_TEXTS
    most: int | None = None
    """The number of output rules to make tests for; None means all."""
    lines: tuple[RuleLine, ...] = ()
    baseline: tuple[int, ...] = ()
    loose: tuple[int, ...] = ()
    """Tests that belong to no rule, or not any more."""
    cases: Sequence[RuleTest] = ()

    def line(self, key: object) -> RuleLine | None:
        """The rule with a key."""
        return next((line for line in self.lines if line.key == key), None)

    def tests(self, key: object) -> tuple[int, ...]:
        """The tests that belong to a row of the list."""
        line = self.line(key)
        return line.tests if line else self.baseline if key == BASELINE else self.loose if key == LOOSE else ()


BASELINE, LOOSE = "baseline", "loose"
"""The keys of the tests that were made without rules, and of those that belong to none."""


# -- reading


def texts_of(data: Mapping[str, Any]) -> RuleTexts:
    """The rules as the dataset holds them."""
    facts = facts_of(data)
    texts = (facts.get(name) for name in _FIELDS)
    return RuleTexts(*(tuple(rule_lines(text)) if isinstance(text, str) else () for text in texts))


def facts_of(place: object) -> Mapping[str, Any]:
    """The facts that a generation stored in the dataset, or in one of its items."""
    extensions = place.get("extensions") if isinstance(place, dict) else None
    facts = extensions.get("promptpex") if isinstance(extensions, dict) else None
    return facts if isinstance(facts, dict) else {}


def read_sheet(data: Mapping[str, Any], most: int | None) -> RuleSheet:
    """The rules of a dataset and whose each test is; for a thread, as there may be ten thousand tests."""
    facts, texts = facts_of(data), texts_of(data)
    rules = texts.rules(most)
    listed_items = data.get("items")
    items = listed_items if isinstance(listed_items, list) else []
    owned = owners_of_tests([facts_of(item) for item in items], rules)
    tests: dict[Key | str, list[int]] = {}
    for position, owner in enumerate(owned):
        tests.setdefault(owner, []).append(position)
    grounded = {one.get("rule"): one for one in map(_dict, _list(facts.get("ruleEvals")))}
    lines = []
    for key, rule in rules.items():
        known = grounded.get(rule.text, {}) if not rule.inverse else {}
        grounding = (str(known.get("grounded", "")), str(known.get("groundedText", "")))
        lines.append(RuleLine(rule, tuple(tests.get(key, ())), *grounding))
    name = facts.get("prompt")
    baseline, loose = tuple(tests.get(BASELINE, ())), tuple(tests.get(LOOSE, ()))
    cases = [_case(name, item) for name, item in zip(names_of(items), items, strict=True)]
    return RuleSheet(name if isinstance(name, str) else "", texts, most, tuple(lines), baseline, loose, cases)


def owners_of_tests(facts: Sequence[Mapping[str, Any]], rules: Mapping[Key, Rule]) -> list[Key | str]:
    """Whose each test is: that of a rule, one made without rules, or one that belongs to none."""
    rules_of_tests = match_rules([_rule_facts(one) for one in facts], list(rules.values()))
    owners: list[Key | str] = [LOOSE if rule is None else (rule.inverse, rule.of) for rule in rules_of_tests]
    return [BASELINE if one.get("baseline") is True else owner for one, owner in zip(facts, owners, strict=True)]


def _rule_facts(facts: Mapping[str, Any]) -> TestRule:
    text, number = facts.get("rule"), facts.get("ruleid")
    return TestRule(
        text if isinstance(text, str) else None,
        facts.get("inverse") is True,
        number if isinstance(number, int) else None,
    )


def names_of(items: Iterable[object]) -> list[str]:
    """How a run names each item."""
    names = [item.get("testId") if isinstance(item, dict) else None for item in items]
    return names_in_run([name if isinstance(name, str) else None for name in names])


def _case(name: str, item: object) -> RuleTest:
    unit = _dict(item)
    expected = unit.get("expected_response")
    question, answer = _question_of(unit), expected if isinstance(expected, str) else ""
    words = "\n".join((name, question[:_LEAST_WORDS], answer[:_LEAST_WORDS])).casefold()
    return RuleTest(name, question, answer, words)


def _question_of(item: Data) -> str:
    """The input of a test, on one line."""
    if isinstance(item.get("prompt"), str):
        return str(item["prompt"])
    values = {name: _as_text(value) for name, value in _dict(item.get("variables")).items()}
    if len(values) == 1:
        return next(iter(values.values()))
    # The short ones first, which would be cut off behind a long text.
    return " · ".join(f"{name}: {values[name]}" for name in sorted(values, key=lambda name: len(values[name])))


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _dict(value: object) -> Data:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


# -- choosing


def filter_rules(sheet: RuleSheet, words: Sequence[str]) -> dict[object, tuple[int, ...]]:
    """The rows of the list that hold all the words, each with its tests: all where the rule holds them itself."""
    rows: dict[object, tuple[int, ...]] = {}
    for line in sheet.lines:
        text = line.rule.text.casefold()
        if all(word in text for word in words):
            rows[line.key] = line.tests
        elif tests := _tests_with_words(sheet, line.tests, words):
            rows[line.key] = tests
    for key in (BASELINE, LOOSE):
        if tests := _tests_with_words(sheet, sheet.tests(key), words):
            rows[key] = tests
    return rows


def _tests_with_words(sheet: RuleSheet, tests: Iterable[int], words: Sequence[str]) -> tuple[int, ...]:
    return tuple(test for test in tests if all(word in sheet.cases[test].words for word in words))


FILES = ("rules.txt", "inverse_rules.txt")


@dataclass(frozen=True, slots=True)
class RuleFiles:
    """The files with the rules of a dataset, and the settings for generating their tests."""

    folder: Path = field(default_factory=Path)
    most: int | None = None
    target: str | None = None
    others: tuple[str, ...] = ()
    """The targets that do the rest: write baselines, judge, are tested."""
    texts: RuleTexts | None = None
    """The rules as the files hold them; None without files."""
    cannot: str = ""
    """Why nothing can be generated here."""


def read_rule_files(file: Path) -> RuleFiles:
    """The rule files next to a dataset; for a thread."""
    folder = GenerationFolder(file.parent)
    try:
        record = folder.record
        texts = [folder.read(name) for name in FILES]
    except UnreadableFile as problem:
        return RuleFiles(file.parent, cannot=str(problem))
    rules = RuleTexts(*(tuple(rule_lines(text)) for text in texts)) if texts[0] is not None else None
    options, targets = (_section(record.get(name)) for name in ("options", "targets"))
    most, target = options.get("max_rules"), targets.get("rules")
    return RuleFiles(
        file.parent,
        most if isinstance(most, int) else None,
        target if isinstance(target, str) else None,
        _words([named for role, named in targets.items() if role != "rules"]),
        rules,
        _cannot(file, folder),
    )


def _words(named: Sequence[object]) -> tuple[str, ...]:
    """The names in some values, each of which is a name or a list of names."""
    listed = (value if isinstance(value, list) else [value] for value in named)
    return tuple(word for words in listed for word in words if isinstance(word, str))


def _cannot(file: Path, folder: GenerationFolder) -> str:
    if not isinstance(folder.record.get("prompt"), str):
        return (
            f"there is no {RECORD} next to {file.name}, so its prompt and models are unknown. "
            "8 in the workbench makes a dataset whose rules can be generated again"
        )
    if file.name != (written := folder.dataset.name):
        return f"a generation in this folder writes {written}, and {file.name} is open: open that one (o) first"
    return ""


def _section(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


_TESTS = "tests.json"


def as_one_line(text: str) -> str:
    """A rule as a line of a file."""
    return " ".join(text.split())


def plain_inverse(rule: str) -> str:
    """An inverse rule to begin with, if none is written."""
    return f"The output breaks this rule: {rule}"


# -- the lists after an edit


def with_text(texts: RuleTexts, key: Key, text: str) -> RuleTexts:
    """The rules with another text for one of them."""
    rule = as_one_line(text)
    _check_new(texts, key[0], rule)
    lists = [list(texts.output), list(texts.inverse)]
    lists[key[0]][key[1] - 1] = rule
    return RuleTexts(*map(tuple, lists))


def with_rule(texts: RuleTexts, text: str) -> RuleTexts:
    """The rules with another at the end, and what plainly inverts it where every rule has such a one."""
    rule = as_one_line(text)
    _check_new(texts, False, rule)
    return RuleTexts((*texts.output, rule), (*texts.inverse, plain_inverse(rule)) if texts.paired else texts.inverse)


def without_rule(texts: RuleTexts, key: Key) -> RuleTexts:
    """The rules without one of them; where every rule has an inverse one, that goes with it."""
    inverse, place = key
    if inverse and texts.paired:
        raise CannotEdit(
            "an inverse rule goes with the rule it inverts: delete that one, or press i to generate this one again"
        )
    if not inverse and len(texts.output) == 1:
        raise CannotEdit("one rule must be left: add another with n before you delete the last")
    output = texts.output if inverse else _without_place(texts.output, place)
    return RuleTexts(output, _without_place(texts.inverse, place) if inverse or texts.paired else texts.inverse)


def _without_place(texts: tuple[str, ...], place: int) -> tuple[str, ...]:
    return texts[: place - 1] + texts[place:]


def _check_new(texts: RuleTexts, inverse: bool, rule: str) -> None:
    if not rule:
        raise CannotEdit("a rule needs words")
    if rule in texts[inverse]:
        raise CannotEdit(f"rule {texts[inverse].index(rule) + 1} of the list says exactly that already")


# -- what follows from it


def rule_changes(before: RuleTexts, after: RuleTexts, most: int | None) -> dict[Key, Rule | None]:
    """The new state of every rule: lists of equal length match by position, others by text."""
    rules = after.rules(most)
    changes: dict[Key, Rule | None] = {}
    for inverse in (False, True):
        old, new = before[inverse], after[inverse]
        for place, text in enumerate(old, 1):
            there = place if len(old) == len(new) else new.index(text) + 1 if text in new else 0
            changes[inverse, place] = rules.get((inverse, there))
    return changes


def with_rules(data: Data, sheet: RuleSheet, after: RuleTexts) -> Data:
    """The dataset with other rules: its own lists, and in every test the rule that the test is of."""
    became = rule_changes(sheet.texts, after, sheet.most)
    items = list(data["items"])
    for line in sheet.lines:
        for position in line.tests:
            items[position] = _with_rule(items[position], became[line.key])
    for name, texts in (("rules", after.output), ("inverseRules", after.inverse)):
        data = set_at(data, ("extensions", "promptpex", name), "\n".join(texts))
    return set_at(data, ("items",), items)


def _with_rule(item: Data, rule: Rule | None) -> Data:
    """A copy of the item as test of a rule, or of none; the item itself if nothing changes."""
    facts, category = facts_of(item), item.get("category")
    before = f"rule-{facts.get('ruleid')}"
    if rule is None:
        changed = {name: value for name, value in facts.items() if name not in ("ruleid", "of")}
        after = "no-rule"
    else:
        rule_facts = {"rule": rule.text, "inverse": rule.inverse, "of": rule.of}
        changed = {**facts, **({"ruleid": rule.number} if rule.number else {}), **rule_facts}
        after = f"rule-{changed.get('ruleid')}"
    changed_item = item if changed == facts else set_at(item, ("extensions", "promptpex"), changed)
    return set_at(changed_item, ("category",), after) if category == before and category != after else changed_item


def deletion_words(tests: int) -> str:
    """What deleting a rule means for its tests."""
    if not tests:
        return "No test is lost: it has none."
    return f"{tests} tests stay, but belong to no rule then." if tests > 1 else "Its test stays, but of no rule then."


# -- the files


def write_files(folder: Path, before: RuleTexts, after: RuleTexts, most: int | None) -> None:
    """Write the rules of a dataset to the files next to it; CannotSave or UnreadableFile says why they cannot."""
    place = GenerationFolder(folder)
    _rewrite_tests(place, before, after, most)
    for name, old, new in zip(FILES, before, after, strict=True):
        if old != new or (new and place.read(name) is None):
            place.write(name, "".join(f"{text}\n" for text in new))


def _rewrite_tests(place: GenerationFolder, before: RuleTexts, after: RuleTexts, most: int | None) -> None:
    """Keep the tests of a generation with their rules, whose text they know them by."""
    text = place.read(_TESTS)
    if text is None:
        return
    tests = parse_rows(Test, str(place.path / _TESTS), text)
    became = rule_changes(before, after, most)
    kept = [_test_after(test, owner, became) for test, owner in zip(tests, _owners(tests, before, most), strict=True)]
    if kept != tests:
        place.write(_TESTS, rows_text(kept))


def _owners(tests: list[Test], texts: RuleTexts, most: int | None) -> list[Key | str]:
    return owners_of_tests([test.dumped() for test in tests], texts.rules(most))


def _test_after(test: Test, owner: Key | str, became: Mapping[Key, Rule | None]) -> Test:
    if isinstance(owner, str):
        return test
    rule = became[owner]
    update: dict[str, Any] = {"ruleid": None}
    if rule is not None:
        update = {"ruleid": rule.number or test.ruleid, "rule": rule.text, "inverse": rule.inverse}
    return test.model_copy(update=update)
