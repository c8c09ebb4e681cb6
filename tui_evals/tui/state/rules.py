"""The rules of the open dataset with the tests of each, as a generation left them or a person edited them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tui_evals.generate.shapes import Rule, Told, every_rule, lines_of, rules_told

Data = dict[str, Any]
Key = tuple[bool, int]
"""Which rule: whether it is an inverse one, and the place of the output rule it is or inverts."""

_FIELDS = ("rules", "inverseRules")
_LEAST_WORDS = 400  # characters of an input that are looked through for words


class Texts(NamedTuple):
    """The output rules and their inverse, as two files of a line each hold them."""

    output: tuple[str, ...] = ()
    inverse: tuple[str, ...] = ()

    @property
    def paired(self) -> bool:
        """Whether every output rule has an inverse one in its place."""
        return len(self.output) == len(self.inverse)

    def rules(self, most: int | None) -> dict[Key, Rule]:
        """All of them in order, numbered as the command line numbers them; 0 where no tests are made for a rule."""
        return {(rule.inverse, rule.of): rule for rule in every_rule(self.output, self.inverse, most)}


NO_TEXTS = Texts()


@dataclass(frozen=True, slots=True)
class Line:
    """A rule, the positions of its tests in the dataset, and whether the prompt says what it says."""

    rule: Rule
    tests: tuple[int, ...] = ()
    grounded: str = ""
    why: str = ""

    @property
    def key(self) -> Key:
        """By what it is known again after an edit."""
        return self.rule.inverse, self.rule.of


@dataclass(frozen=True, slots=True)
class Case:
    """One test as the list shows it."""

    name: str
    asked: str
    expected: str
    words: str
    """What a filter looks through."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """The rules of a dataset, and its tests."""

    name: str = ""
    texts: Texts = NO_TEXTS
    most: int | None = None
    """For how many output rules tests are made; None is all."""
    lines: tuple[Line, ...] = ()
    baseline: tuple[int, ...] = ()
    loose: tuple[int, ...] = ()
    """Tests that belong to no rule, or not any more."""
    cases: Sequence[Case] = ()

    def line(self, key: object) -> Line | None:
        """The rule with a key."""
        return next((line for line in self.lines if line.key == key), None)

    def tests(self, key: object) -> tuple[int, ...]:
        """The tests that belong to a row of the list."""
        line = self.line(key)
        return line.tests if line else self.baseline if key == BASELINE else self.loose if key == LOOSE else ()


BASELINE, LOOSE = "baseline", "loose"
"""The keys of the tests that were made without rules, and of those that belong to none."""


# -- reading


def texts_of(data: Mapping[str, Any]) -> Texts:
    """The rules as the dataset holds them."""
    facts = facts_of(data)
    found = (facts.get(name) for name in _FIELDS)
    return Texts(*(tuple(lines_of(text)) if isinstance(text, str) else () for text in found))


def facts_of(place: object) -> Mapping[str, Any]:
    """What a generation wrote at the dataset, or at one of its items."""
    extensions = place.get("extensions") if isinstance(place, dict) else None
    facts = extensions.get("promptpex") if isinstance(extensions, dict) else None
    return facts if isinstance(facts, dict) else {}


def read_sheet(data: Mapping[str, Any], most: int | None) -> Sheet:
    """The rules of a dataset and whose each test is; for a thread, as there may be ten thousand tests."""
    facts, texts = facts_of(data), texts_of(data)
    rules = texts.rules(most)
    found = data.get("items")
    items = found if isinstance(found, list) else []
    owned = owners([facts_of(item) for item in items], rules)
    tests: dict[Key | str, list[int]] = {}
    for position, owner in enumerate(owned):
        tests.setdefault(owner, []).append(position)
    grounded = {one.get("rule"): one for one in map(_dict, _list(facts.get("ruleEvals")))}
    lines = []
    for key, rule in rules.items():
        known = grounded.get(rule.text, {}) if not rule.inverse else {}
        said = (str(known.get("grounded", "")), str(known.get("groundedText", "")))
        lines.append(Line(rule, tuple(tests.get(key, ())), *said))
    name = facts.get("prompt")
    baseline, loose = tuple(tests.get(BASELINE, ())), tuple(tests.get(LOOSE, ()))
    cases = [_case(name, item) for name, item in zip(names_of(items), items, strict=True)]
    return Sheet(name if isinstance(name, str) else "", texts, most, tuple(lines), baseline, loose, cases)


def owners(facts: Sequence[Mapping[str, Any]], rules: Mapping[Key, Rule]) -> list[Key | str]:
    """Whose each test is: that of a rule, one made without rules, or one that belongs to none."""
    told = rules_told([_told(one) for one in facts], list(rules.values()))
    found: list[Key | str] = [LOOSE if rule is None else (rule.inverse, rule.of) for rule in told]
    return [BASELINE if one.get("baseline") is True else owner for one, owner in zip(facts, found, strict=True)]


def _told(facts: Mapping[str, Any]) -> Told:
    text, number = facts.get("rule"), facts.get("ruleid")
    return Told(
        text if isinstance(text, str) else None,
        facts.get("inverse") is True,
        number if isinstance(number, int) else None,
    )


def names_of(items: Iterable[object]) -> list[str]:
    """How a run calls each item: by its testId where that is the only one of its kind."""
    given = [item.get("testId") if isinstance(item, dict) else None for item in items]
    times = Counter(name for name in given if isinstance(name, str))
    return [
        name if isinstance(name, str) and name and times[name] == 1 else f"#{number}"
        for number, name in enumerate(given, 1)
    ]


def _case(name: str, item: object) -> Case:
    unit = _dict(item)
    expected = unit.get("expected_response")
    asked, said = _asked(unit), expected if isinstance(expected, str) else ""
    words = "\n".join((name, asked[:_LEAST_WORDS], said[:_LEAST_WORDS])).casefold()
    return Case(name, asked, said, words)


def _asked(item: Data) -> str:
    """What a test puts into the prompt, in a line."""
    if isinstance(item.get("prompt"), str):
        return str(item["prompt"])
    values = {name: _spelled(value) for name, value in _dict(item.get("variables")).items()}
    if len(values) == 1:
        return next(iter(values.values()))
    # The short ones first, which would be cut off behind a long text.
    return " · ".join(f"{name}: {values[name]}" for name in sorted(values, key=lambda name: len(values[name])))


def _spelled(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _dict(value: object) -> Data:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


# -- choosing


def fitting(sheet: Sheet, words: Sequence[str]) -> dict[object, tuple[int, ...]]:
    """The rows of the list that hold all the words, each with its tests: all where the rule holds them itself."""
    found: dict[object, tuple[int, ...]] = {}
    for line in sheet.lines:
        text = line.rule.text.casefold()
        if all(word in text for word in words):
            found[line.key] = line.tests
        elif tests := _with(sheet, line.tests, words):
            found[line.key] = tests
    for key in (BASELINE, LOOSE):
        if tests := _with(sheet, sheet.tests(key), words):
            found[key] = tests
    return found


def _with(sheet: Sheet, tests: Iterable[int], words: Sequence[str]) -> tuple[int, ...]:
    return tuple(test for test in tests if all(word in sheet.cases[test].words for word in words))
