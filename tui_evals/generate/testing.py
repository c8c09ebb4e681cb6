"""The steps that write tests: from rules as CSV, and from the prompt alone as a baseline."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tui_evals.datasets.prompts import Scenario
from tui_evals.text.cells import csv_line

from .asking import CannotGenerate, Messages
from .parsing import baseline_inputs, is_refusal
from .shapes import Rule, Test, chunks, lines_of, rows_text, test_uid
from .subject import Input
from .tables import FIXED, Table, read_tests
from .work import CREATIVE, Generation, each
from .writing import refuse_too_many, samples


@dataclass(frozen=True, slots=True)
class Part:
    """What one conversation asks tests for: some rules in one scenario."""

    scenario: Scenario
    rules: tuple[Rule, ...]


def parts(work: Generation) -> list[Part]:
    """The conversations that the step takes."""
    rules = [rule for rule in work.rules if not work.again or rule.number in work.again]
    found = chunks(rules, work.options.max_rules_per_test_generation, work.options.split_rules)
    return [Part(scenario, tuple(chunk)) for scenario in work.subject.scenarios for chunk in found]


async def tests(work: Generation) -> str:
    """Tests for every rule, in every scenario; where some rules are done again, the tests of the others stay."""
    refuse_too_many(work, lines_of(work.folder.read("rules.txt")))
    if not work.text("input_spec.txt"):
        raise CannotGenerate(f"{work.folder.path / 'input_spec.txt'} is empty; delete it to have it written")
    if unknown := sorted(work.again - {rule.number for rule in work.rules}):
        raise CannotGenerate(f"there is no rule {unknown[0]}; the rules are numbered 1 to {len(work.rules)}")
    made, cannot, ended = await each(work, "tests", parts(work), lambda part: _of_part(work, part))
    if ended is not None:
        raise ended
    if cannot:
        raise cannot[0]
    found = [test for part in made for test in part]
    if not found:
        raise _no_tests(work)
    if bare := sorted({rule.number for part in parts(work) for rule in part.rules} - {test.ruleid for test in found}):
        again = " ".join(f"--rule {number}" for number in bare)
        work.tell(f"tests: there is none for {_named_rules(bare)}; {again} asks for some again")
    kept = [test for test in work.tests if test.ruleid not in work.again] if work.again else []
    return rows_text(named(work, _in_order([*kept, *found])))


def named(work: Generation, tests: Iterable[Test]) -> list[Test]:
    """The tests, those without a name given one, as are those that bear the name of one before them."""
    seen: Counter[str] = Counter()
    taken: set[str] = set()
    found = []
    for test in tests:
        facts = test.dumped()
        if not test.testuid or test.testuid in taken:
            key = test_uid(work.subject.id, facts, 0)
            test = test.model_copy(update={"testuid": test_uid(work.subject.id, facts, seen[key])})
            seen[key] += 1
        taken.add(test.testuid or "")
        found.append(test)
    return found


def _in_order(tests: Sequence[Test]) -> list[Test]:
    """By rule, as they were; baseline tests, which have none, last."""
    return sorted(tests, key=lambda test: test.ruleid or len(tests) + 1_000_000)


async def _of_part(work: Generation, part: Part) -> list[Test]:
    """Ask for tests, and for more in the same conversation; a reply that holds none is asked for once more."""
    inputs = work.subject.open_inputs(part.scenario)
    chat = _question(work, part, inputs)
    header = _header(inputs)
    found: list[Test] = []
    for generation in range(work.options.test_generations):
        table, chat = await _table(work, part, chat, inputs)
        if not table.tests:
            rules = _named_rules([rule.number for rule in part.rules])
            work.tell(f"tests: nothing that {work.models.rules.config.name} wrote for {rules} was a test")
            break
        for note in _notes(table, part):
            work.tell(f"tests: {note}")
        found += [_test(row, part, generation) for row in table.tests]
        chat = (*chat, *work.prompts.messages("more", {}, {"count": work.options.tests_per_rule, "header": header}))
    unique = {(test.ruleid, test.testinput): test for test in reversed(found)}
    return [test for test in found if unique[test.ruleid, test.testinput] is test]


def _named_rules(numbers: Sequence[int]) -> str:
    return f"rule {numbers[0]}" if len(numbers) == 1 else f"the rules {', '.join(map(str, numbers))}"


def _notes(table: Table, part: Part) -> Iterator[str]:
    """What a person should know about how a reply was read."""
    if table.dropped:
        yield (
            f"{table.dropped} of {table.dropped + len(table.tests)} rows were left out: they have another number of "
            "cells than the first line, no value for an input, or a rule that was not asked about"
        )
    if table.joined:
        yield (
            f"in {table.joined} of {len(table.tests)} rows a comma outside quotation marks was taken for one of the "
            "text around it; look through tests.json"
        )
    if table.renumbered:
        rules = _named_rules([rule.number for rule in part.rules])
        yield f"a reply about {rules} numbered them from 1, and was read so"


async def _table(work: Generation, part: Part, chat: Messages, inputs: Sequence[Input]) -> tuple[Table, Messages]:
    """The tests of the next reply, and the conversation with it."""
    names, numbers = [one.name for one in inputs], [rule.number for rule in part.rules]
    found = Table(())

    def readable(said: str) -> bool:
        return bool(read_tests(said, names, numbers).tests)

    for attempt in range(2):
        said = await work.say(work.models.rules, chat, "tests", params=CREATIVE, worth=readable)
        if is_refusal(said):
            line = " ".join(said.split())[:80]
            work.tell(f"tests: {work.models.rules.config.name} declined: “{line}”")
            break
        found = read_tests(said, names, numbers)
        chat = (*chat, {"role": "assistant", "content": said})
        if found.tests or attempt:
            break
        chat = (*chat, *work.prompts.messages("repair", {}, {"header": _header(inputs)}))
    return found, chat


def _question(work: Generation, part: Part, inputs: Sequence[Input]) -> Messages:
    texts = {
        "prompt": work.body,
        "inputspec": work.text("input_spec.txt"),
        "scenario": _situation(work, part.scenario),
        "rules": "\n".join(f"{rule.number}. {rule.text}" for rule in part.rules),
        "inputs": described(inputs),
        "samples": samples(work),
    }
    count = work.options.tests_per_rule
    values = {"count": count, "total": count * len(part.rules), "header": _header(inputs)}
    return work.prompts.messages("tests", texts, values)


def _situation(work: Generation, scenario: Scenario) -> str:
    fixed = [f"The input {name} is always: {value}" for name, value in work.subject.fixed(scenario).items()]
    return "\n".join([*([scenario.instructions] if scenario.instructions else []), *fixed])


def described(inputs: Sequence[Input]) -> str:
    """The inputs of a prompt, one a line."""
    lines = (f"- {one.name} ({one.type}){': ' if one.description else ''}{one.description}" for one in inputs)
    return "\n".join(lines)


def _header(inputs: Sequence[Input]) -> str:
    return csv_line([*FIXED, *(one.name for one in inputs)]).strip()


def _test(row: Mapping[str, Any], part: Part, generation: int) -> Test:
    rule = next(rule for rule in part.rules if rule.number == row["ruleid"])
    facts = {"rule": rule.text, "inverse": rule.inverse, "generation": generation}
    if part.scenario.name:
        facts["scenario"] = part.scenario.name
    return Test.model_validate({**row, **facts})


def _no_tests(work: Generation) -> CannotGenerate:
    return CannotGenerate(
        f"no test could be read from what {work.models.rules.config.name} wrote. Name another model with --target, ask "
        "for fewer at once with --max-rules-per-test-generation 1 or --tests-per-rule 1, or write "
        f"{work.folder.path / 'tests.json'} yourself: a list of objects with ruleid and testinput"
    )


async def baseline(work: Generation) -> str:
    """As many tests as the rules got, made from the prompt alone, between lines of three equals signs."""
    wanted = sum(1 for test in work.tests if not test.baseline) or len(work.rules) * work.options.tests_per_rule
    inputs = work.subject.open_inputs(work.subject.scenarios[0])
    texts = {"prompt": work.body, "inputs": described(inputs)}
    asked = work.prompts.messages("baseline", texts, {"count": wanted})
    said = await work.say(work.models.baseline, asked, "baseline", params=CREATIVE)
    found = [] if is_refusal(said) else [text for text in baseline_inputs(said) if _fits(text, inputs)]
    if not found:
        raise CannotGenerate(
            f"{work.models.baseline.config.name} wrote no baseline test that could be read. Name another model with "
            f"--baseline-model, or write {work.folder.path / 'baseline_tests.txt'} yourself, tests between lines of ==="
        )
    return "\n===\n".join(found) + "\n"


def _fits(text: str, inputs: Sequence[Input]) -> bool:
    """Whether a text gives every input a value."""
    if len(inputs) == 1:
        return True
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return isinstance(value, dict) and all(one.name in value for one in inputs)


def baseline_rows(work: Generation) -> list[Test]:
    """The baseline tests as tests."""
    found = baseline_inputs(work.folder.read("baseline_tests.txt") or "")
    name = work.subject.scenarios[0].name or None
    return named(work, (Test(testinput=text, baseline=True, scenario=name) for text in found))
