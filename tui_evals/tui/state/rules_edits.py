"""Edits of rules: what the dataset holds then, and what the files of its generation do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tui_evals.datasets.steps import CannotEdit, put
from tui_evals.generate.folder import Folder
from tui_evals.generate.shapes import Rule, Test, rows_of, rows_text

from .rules import Data, Key, Sheet, Texts, facts_of, owners
from .rules_origin import FILES

_TESTS = "tests.json"


def tidy(text: str) -> str:
    """A rule as a line of a file."""
    return " ".join(text.split())


def opposite(rule: str) -> str:
    """An inverse rule to begin with, where nobody has written one."""
    return f"The output breaks this rule: {rule}"


# -- the lists after an edit


def reworded(texts: Texts, key: Key, text: str) -> Texts:
    """The rules with another text for one of them."""
    rule = tidy(text)
    _new(texts, key[0], rule)
    lists = [list(texts.output), list(texts.inverse)]
    lists[key[0]][key[1] - 1] = rule
    return Texts(*map(tuple, lists))


def with_rule(texts: Texts, text: str) -> Texts:
    """The rules with another at the end, and what plainly inverts it where every rule has such a one."""
    rule = tidy(text)
    _new(texts, False, rule)
    return Texts((*texts.output, rule), (*texts.inverse, opposite(rule)) if texts.paired else texts.inverse)


def without(texts: Texts, key: Key) -> Texts:
    """The rules without one of them; where every rule has an inverse one, that goes with it."""
    inverse, place = key
    if inverse and texts.paired:
        raise CannotEdit(
            "an inverse rule goes with the rule it inverts: delete that one, or have this one made anew with i"
        )
    if not inverse and len(texts.output) == 1:
        raise CannotEdit("one rule must be left: add another with n before you delete the last")
    output = texts.output if inverse else _less(texts.output, place)
    return Texts(output, _less(texts.inverse, place) if inverse or texts.paired else texts.inverse)


def _less(texts: tuple[str, ...], place: int) -> tuple[str, ...]:
    return texts[: place - 1] + texts[place:]


def _new(texts: Texts, inverse: bool, rule: str) -> None:
    if not rule:
        raise CannotEdit("a rule needs words")
    if rule in texts[inverse]:
        raise CannotEdit(f"rule {texts[inverse].index(rule) + 1} of the list says exactly that already")


# -- what follows from it


def moved(before: Texts, after: Texts, most: int | None) -> dict[Key, Rule | None]:
    """What became of every rule: one whose list is as long as before stands in its place, others follow their text."""
    rules = after.rules(most)
    found: dict[Key, Rule | None] = {}
    for inverse in (False, True):
        old, new = before[inverse], after[inverse]
        for place, text in enumerate(old, 1):
            there = place if len(old) == len(new) else new.index(text) + 1 if text in new else 0
            found[inverse, place] = rules.get((inverse, there))
    return found


def rewritten(data: Data, sheet: Sheet, after: Texts) -> Data:
    """The dataset with other rules: its own lists, and in every test the rule that the test is of."""
    became = moved(sheet.texts, after, sheet.most)
    items = list(data["items"])
    for line in sheet.lines:
        for position in line.tests:
            items[position] = _of(items[position], became[line.key])
    for name, texts in (("rules", after.output), ("inverseRules", after.inverse)):
        data = put(data, ("extensions", "promptpex", name), "\n".join(texts))
    return put(data, ("items",), items)


def _of(item: Data, rule: Rule | None) -> Data:
    """A test of a rule, or of none; one that is so already stays the same object."""
    facts, category = facts_of(item), item.get("category")
    before = f"rule-{facts.get('ruleid')}"
    if rule is None:
        changed = {name: value for name, value in facts.items() if name not in ("ruleid", "of")}
        after = "no-rule"
    else:
        told = {"rule": rule.text, "inverse": rule.inverse, "of": rule.of}
        changed = {**facts, **({"ruleid": rule.number} if rule.number else {}), **told}
        after = f"rule-{changed.get('ruleid')}"
    found = item if changed == facts else put(item, ("extensions", "promptpex"), changed)
    return put(found, ("category",), after) if category == before and category != after else found


def says_deleted(tests: int) -> str:
    """What it means for its tests that a rule is gone."""
    if not tests:
        return "No test is lost: it has none."
    return f"{tests} tests stay, but belong to no rule then." if tests > 1 else "Its test stays, but of no rule then."


# -- the files


def write_files(folder: Path, before: Texts, after: Texts, most: int | None) -> None:
    """Have the files beside a dataset hold the same rules; CannotSave or UnreadableFile says why they cannot."""
    place = Folder(folder)
    _tell_tests(place, before, after, most)
    for name, old, new in zip(FILES, before, after, strict=True):
        if old != new or (new and place.read(name) is None):
            place.write(name, "".join(f"{text}\n" for text in new))


def _tell_tests(place: Folder, before: Texts, after: Texts, most: int | None) -> None:
    """Keep the tests of a generation with their rules, whose text they know them by."""
    text = place.read(_TESTS)
    if text is None:
        return
    tests = rows_of(Test, str(place.path / _TESTS), text)
    became = moved(before, after, most)
    kept = [_followed(test, owner, became) for test, owner in zip(tests, _owners(tests, before, most), strict=True)]
    if kept != tests:
        place.write(_TESTS, rows_text(kept))


def _owners(tests: list[Test], texts: Texts, most: int | None) -> list[Key | str]:
    return owners([test.dumped() for test in tests], texts.rules(most))


def _followed(test: Test, owner: Key | str, became: Mapping[Key, Rule | None]) -> Test:
    if isinstance(owner, str):
        return test
    rule = became[owner]
    told: dict[str, Any] = {"ruleid": None}
    if rule is not None:
        told = {"ruleid": rule.number or test.ruleid, "rule": rule.text, "inverse": rule.inverse}
    return test.model_copy(update=told)
