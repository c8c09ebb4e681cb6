"""The steps that write tests: from the rules, and from the prompt alone as a baseline."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tui_evals.datasets.prompts import Scenario
from tui_evals.text.cells import csv_line

from .asking import CannotGenerate, Messages
from .parsing import is_refusal, split_baseline_inputs
from .shapes import Rule, Test, chunk_rules, rows_text, rule_lines, test_uid
from .subject import PromptInput
from .tables import FIXED, ParsedTests, read_tests
from .work import CREATIVE, Generation, make_each
from .writing import check_rule_count, samples_text


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Some rules in one scenario, for which one conversation asks for tests."""

    scenario: Scenario
    rules: tuple[Rule, ...]


def rule_groups(work: Generation) -> list[RuleGroup]:
    """The groups to ask for tests."""
    rules = [rule for rule in work.rules if not work.again or rule.number in work.again]
    rule_chunks = chunk_rules(rules, work.options.max_rules_per_test_generation, work.options.split_rules)
    return [RuleGroup(scenario, tuple(chunk)) for scenario in work.subject.scenarios for chunk in rule_chunks]


async def write_tests(work: Generation) -> str:
    """Tests for every rule, in every scenario; where some rules are done again, the tests of the others stay."""
    check_rule_count(work, rule_lines(work.folder.read("rules.txt")))
    if not work.text("input_spec.txt"):
        raise CannotGenerate(f"{work.folder.path / 'input_spec.txt'} is empty; delete it to have it written")
    if unknown := sorted(work.again - {rule.number for rule in work.rules}):
        raise CannotGenerate(f"there is no rule {unknown[0]}; the rules are numbered 1 to {len(work.rules)}")
    results, failures, stop = await make_each(
        work, "tests", rule_groups(work), lambda group: _ask_for_tests(work, group)
    )
    if stop is not None:
        raise stop
    if failures:
        raise failures[0]
    tests = [test for group in results for test in group]
    if not tests:
        raise _no_tests(work)
    if untested := sorted(
        {rule.number for group in rule_groups(work) for rule in group.rules} - {test.ruleid for test in tests}
    ):
        again = " ".join(f"--rule {number}" for number in untested)
        work.tell(f"tests: there is none for {_rules_phrase(untested)}; {again} asks for some again")
    others = [test for test in work.tests if test.ruleid not in work.again] if work.again else []
    return rows_text(name_tests(work, _sort_by_rule([*others, *tests])))


def name_tests(work: Generation, tests: Iterable[Test]) -> list[Test]:
    """The tests, with a new name for those without one or with the name of an earlier test."""
    key_counts: Counter[str] = Counter()
    names: set[str] = set()
    named_tests = []
    for test in tests:
        facts = test.dumped()
        if not test.testuid or test.testuid in names:
            key = test_uid(work.subject.id, facts, 0)
            test = test.model_copy(update={"testuid": test_uid(work.subject.id, facts, key_counts[key])})
            key_counts[key] += 1
        names.add(test.testuid or "")
        named_tests.append(test)
    return named_tests


def _sort_by_rule(tests: Sequence[Test]) -> list[Test]:
    """By rule, as they were; baseline tests, which have none, last."""
    return sorted(tests, key=lambda test: test.ruleid or len(tests) + 1_000_000)


async def _ask_for_tests(work: Generation, group: RuleGroup) -> list[Test]:
    """Ask for tests, and for more in the same conversation; a reply without tests is asked for once more."""
    inputs = work.subject.open_inputs(group.scenario)
    chat = _tests_messages(work, group, inputs)
    header = _header(inputs)
    tests: list[Test] = []
    for generation in range(work.options.test_generations):
        table, chat = await _next_reply(work, group, chat, inputs)
        if not table.tests:
            rules = _rules_phrase([rule.number for rule in group.rules])
            work.tell(f"tests: nothing that {work.models.rules.config.name} wrote for {rules} was a test")
            break
        for note in _reading_notes(table, group):
            work.tell(f"tests: {note}")
        tests += [_make_test(row, group, generation) for row in table.tests]
        chat = (*chat, *work.prompts.messages("more", {}, {"count": work.options.tests_per_rule, "header": header}))
    unique = {(test.ruleid, test.testinput): test for test in reversed(tests)}
    return [test for test in tests if unique[test.ruleid, test.testinput] is test]


def _rules_phrase(numbers: Sequence[int]) -> str:
    return f"rule {numbers[0]}" if len(numbers) == 1 else f"the rules {', '.join(map(str, numbers))}"


def _reading_notes(table: ParsedTests, group: RuleGroup) -> Iterator[str]:
    """Warnings about how a reply was read."""
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
        rules = _rules_phrase([rule.number for rule in group.rules])
        yield f"a reply about {rules} numbered them from 1, and was read so"


async def _next_reply(
    work: Generation, group: RuleGroup, chat: Messages, inputs: Sequence[PromptInput]
) -> tuple[ParsedTests, Messages]:
    """The tests of the next reply, and the conversation with it."""
    names, numbers = [one.name for one in inputs], [rule.number for rule in group.rules]
    table = ParsedTests(())

    def holds_tests(reply: str) -> bool:
        return bool(read_tests(reply, names, numbers).tests)

    for attempt in range(2):
        reply = await work.ask(work.models.rules, chat, "tests", params=CREATIVE, worth=holds_tests)
        if is_refusal(reply):
            line = " ".join(reply.split())[:80]
            work.tell(f"tests: {work.models.rules.config.name} declined: “{line}”")
            break
        table = read_tests(reply, names, numbers)
        chat = (*chat, {"role": "assistant", "content": reply})
        if table.tests or attempt:
            break
        chat = (*chat, *work.prompts.messages("repair", {}, {"header": _header(inputs)}))
    return table, chat


def _tests_messages(work: Generation, group: RuleGroup, inputs: Sequence[PromptInput]) -> Messages:
    texts = {
        "prompt": work.body,
        "inputspec": work.text("input_spec.txt"),
        "scenario": _scenario_text(work, group.scenario),
        "rules": "\n".join(f"{rule.number}. {rule.text}" for rule in group.rules),
        "inputs": describe_inputs(inputs),
        "samples": samples_text(work),
    }
    count = work.options.tests_per_rule
    values = {"count": count, "total": count * len(group.rules), "header": _header(inputs)}
    return work.prompts.messages("tests", texts, values)


def _scenario_text(work: Generation, scenario: Scenario) -> str:
    fixed = [f"The input {name} is always: {value}" for name, value in work.subject.fixed(scenario).items()]
    return "\n".join([*([scenario.instructions] if scenario.instructions else []), *fixed])


def describe_inputs(inputs: Sequence[PromptInput]) -> str:
    """The inputs of a prompt, one a line."""
    lines = (f"- {one.name} ({one.type}){': ' if one.description else ''}{one.description}" for one in inputs)
    return "\n".join(lines)


def _header(inputs: Sequence[PromptInput]) -> str:
    return csv_line([*FIXED, *(one.name for one in inputs)]).strip()


def _make_test(row: Mapping[str, Any], group: RuleGroup, generation: int) -> Test:
    rule = next(rule for rule in group.rules if rule.number == row["ruleid"])
    facts = {"rule": rule.text, "inverse": rule.inverse, "generation": generation}
    if group.scenario.name:
        facts["scenario"] = group.scenario.name
    return Test.model_validate({**row, **facts})


def _no_tests(work: Generation) -> CannotGenerate:
    return CannotGenerate(
        f"no test could be read from what {work.models.rules.config.name} wrote. Name another model with --target, ask "
        "for fewer at once with --max-rules-per-test-generation 1 or --tests-per-rule 1, or write "
        f"{work.folder.path / 'tests.json'} yourself: a list of objects with ruleid and testinput"
    )


async def write_baseline(work: Generation) -> str:
    """As many tests as the rules got, made from the prompt alone, between lines of three equals signs."""
    count = sum(1 for test in work.tests if not test.baseline) or len(work.rules) * work.options.tests_per_rule
    inputs = work.subject.open_inputs(work.subject.scenarios[0])
    material = {"prompt": work.body, "inputs": describe_inputs(inputs)}
    messages = work.prompts.messages("baseline", material, {"count": count})
    reply = await work.ask(work.models.baseline, messages, "baseline", params=CREATIVE)
    texts = (
        [] if is_refusal(reply) else [text for text in split_baseline_inputs(reply) if _has_every_input(text, inputs)]
    )
    if not texts:
        raise CannotGenerate(
            f"{work.models.baseline.config.name} wrote no baseline test that could be read. Name another model with "
            f"--baseline-model, or write {work.folder.path / 'baseline_tests.txt'} yourself, tests between lines of ==="
        )
    return "\n===\n".join(texts) + "\n"


def _has_every_input(text: str, inputs: Sequence[PromptInput]) -> bool:
    """Whether a text gives every input a value."""
    if len(inputs) == 1:
        return True
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return isinstance(value, dict) and all(one.name in value for one in inputs)


def baseline_tests(work: Generation) -> list[Test]:
    """The baseline tests as tests."""
    texts = split_baseline_inputs(work.folder.read("baseline_tests.txt") or "")
    name = work.subject.scenarios[0].name or None
    return name_tests(work, (Test(testinput=text, baseline=True, scenario=name) for text in texts))
