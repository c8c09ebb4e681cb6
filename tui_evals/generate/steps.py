"""The steps that ask models: they write intent, inputs, rules and tests, then judge them and write ground truth."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from tui_evals.datasets.prompts import Scenario
from tui_evals.evaluators.base import Ask, CannotJudge, Evidence, Question, evaluate
from tui_evals.evaluators.compliance import Compliance, Outcome, metric_evaluator, parse_ok_err, shipped_metric
from tui_evals.evaluators.judging import ask_once, whole_reply
from tui_evals.generate.asking import (
    FIXED,
    CannotGenerate,
    Messages,
    ParsedTests,
    is_refusal,
    read_tests,
    split_baseline_inputs,
    strip_fence,
    tidy_rules,
)
from tui_evals.generate.folder import (
    Rule,
    RuleEval,
    Test,
    TestEval,
    Truth,
    chunk_rules,
    number_rules,
    parse_rows,
    rows_text,
    rule_lines,
    test_uid,
)
from tui_evals.generate.work import CREATIVE, MAX_RULES, Generation, PromptInput, Unbindable, bind_inputs, make_each
from tui_evals.light_records import dataclass
from tui_evals.runs.asking import PricedTarget
from tui_evals.runs.prompting import PromptUnderTest
from tui_evals.targets.model_table import judging_params
from tui_evals.text.safe import csv_line
from tui_evals.text.templates import TemplateError

_INVERSE_ATTEMPTS = 4
_EMPTY_ATTEMPTS = 2


def samples_text(work: Generation) -> str:
    """The samples of the prompt, one JSON object a line."""
    return "\n".join(json.dumps(sample, ensure_ascii=False) for sample in work.subject.samples)


async def write_intent(work: Generation) -> str:
    """Write the purpose of the prompt in a sentence."""
    messages = work.prompts.messages("intent", {"prompt": work.body}, _instructions(work, "intent"))
    for attempt in range(_EMPTY_ATTEMPTS):
        reply = await work.write_text("intent.txt", messages, attempt=attempt, tidy=strip_fence)
        if sentence := " ".join(reply.split()):
            return sentence + "\n"
    raise work.nothing_written("intent", "intent.txt")


async def write_input_spec(work: Generation) -> str:
    """The limits of the input, a statement a line."""
    texts = {"prompt": work.body, "examples": samples_text(work)}
    messages = work.prompts.messages("inputspec", texts, _instructions(work, "inputspec"))
    for attempt in range(_EMPTY_ATTEMPTS):
        reply = await work.write_text("input_spec.txt", messages, attempt=attempt, tidy=tidy_rules)
        if reply:
            return reply + "\n"
    raise work.nothing_written("input specification", "input_spec.txt")


async def write_rules(work: Generation) -> str:
    """The rules that every output has to keep, one a line."""
    values = {"count": work.options.max_rules or 0, **_instructions(work, "rules")}
    messages = work.prompts.messages("rules", {"prompt": work.body}, values)
    reply = await work.write_text("rules.txt", messages, tidy=tidy_rules)
    if not reply:
        raise work.nothing_written("output rules", "rules.txt")
    return reply + "\n"


async def write_inverse_rules(work: Generation) -> str:
    """Write the inverse of each output rule; when some are rewritten, the others stay."""
    rules = rule_lines(work.folder.read("rules.txt"))
    check_rule_count(work, rules)
    if not work.invert:
        return await _invert_rules(work, rules) + "\n"
    before = rule_lines(work.folder.read("inverse_rules.txt"))
    if len(before) != len(rules):
        raise CannotGenerate(
            f"{work.folder.path / 'inverse_rules.txt'} holds {len(before)} rules and rules.txt {len(rules)}, so it is "
            "unclear which belongs to which. Fix the file, or make it again with --from inverse"
        )
    if outside := [place for place in work.invert if not 1 <= place <= len(rules)]:
        raise CannotGenerate(f"there is no output rule {outside[0]}; they are numbered 1 to {len(rules)}")
    for place in sorted(work.invert):
        turned = rule_lines(await _invert_rules(work, [rules[place - 1]]))
        before[place - 1] = " ".join(turned)
    return "\n".join(before) + "\n"


async def _invert_rules(work: Generation, rules: list[str]) -> str:
    """One inverse rule for each rule; asked again if the model wrote another number of them."""
    values = {"count": len(rules), **_instructions(work, "inverse")}
    messages = work.prompts.messages("inverse", {"rules": "\n".join(rules)}, values)
    reply = ""
    for attempt in range(_INVERSE_ATTEMPTS):
        reply = await work.write_text("inverse_rules.txt", messages, attempt=attempt, tidy=tidy_rules)
        if len(rule_lines(reply)) == len(rules):
            return reply
    if not reply:
        raise work.nothing_written("inverse rules", "inverse_rules.txt")
    work.tell(
        f"inverse_rules.txt holds {len(rule_lines(reply))} rules where rules.txt holds {len(rules)}, after "
        f"{_INVERSE_ATTEMPTS} attempts; the last reply is kept, look through it"
    )
    return reply


def check_rule_count(work: Generation, rules: list[str]) -> None:
    """CannotGenerate where there are no rules, or too many."""
    file = work.folder.path / "rules.txt"
    if not rules:
        raise CannotGenerate(f"{file} holds no rule; write one rule a line, or delete the file to have them written")
    if len(rules) > MAX_RULES:
        raise CannotGenerate(
            f"{file} holds {len(rules)} rules, more than the {MAX_RULES} that tests are made for. Keep the rules that "
            "matter and delete the other lines, or delete the file and set --max-rules; then run the same command again"
        )


def _instructions(work: Generation, step: str) -> dict[str, str]:
    return {"instructions": work.subject.instructions.get(step, "")}


def tests_to_expand(work: Generation) -> list[Test]:
    """The tests of rules whose input has not been rewritten yet."""
    return [test for test in work.tests if not test.baseline and test.rule and test.testinputOriginal is None]


async def expand_tests(work: Generation) -> str:
    """The tests with their inputs rewritten; the original input stays next to it."""
    results, _, stop = await make_each(
        work, "expansion", "tests", tests_to_expand(work), lambda test: _expand_test(work, test)
    )
    if stop is not None:
        raise stop
    expanded = {test.testuid: test for test in results}
    return rows_text([expanded.get(test.testuid, test) for test in work.tests])


async def _expand_test(work: Generation, test: Test) -> Test:
    inputs = work.subject.open_inputs(work.subject.scenario(test.scenario))
    text = test.testinput
    for attempt in range(work.options.test_expansions):
        text = await _rewrite_input(work, test, text, inputs, attempt) or text
    return test.model_copy(update={"testinput": text, "testinputOriginal": test.testinput})


async def _rewrite_input(
    work: Generation, test: Test, text: str, inputs: tuple[PromptInput, ...], attempt: int
) -> str | None:
    """The input rewritten once; None where the reply cannot be used."""
    texts = {
        "intent": work.text("intent.txt"),
        "rules": "\n".join(rule_lines(work.folder.read("rules.txt"))),
        "rule": test.rule or "",
        "input": text,
        "examples": samples_text(work),
    }
    names = [one.name for one in inputs] if len(inputs) > 1 else []
    values = {"names": ", ".join(names), "instructions": work.subject.instructions.get("expansion", "")}
    messages = work.prompts.messages("expansion", texts, values)
    reply = await work.ask(work.models.rules, messages, "expansion", attempt=attempt, params=CREATIVE)
    rewritten = strip_fence(reply).strip()
    if not rewritten or is_refusal(rewritten):
        return None
    return _checked_object(rewritten, names) if names else rewritten


def _checked_object(text: str, names: list[str]) -> str | None:
    """The reply as the object that was asked for."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if not isinstance(value, dict) or any(not isinstance(value.get(name), str) for name in names):
        return None
    return json.dumps({name: value[name] for name in names}, ensure_ascii=False)


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
        work, "tests", "groups of rules", rule_groups(work), lambda group: _ask_for_tests(work, group)
    )
    if stop is not None:
        raise stop
    if failures:
        raise CannotGenerate(work.gaps["tests"])
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
    """Tests sorted by rule; baseline tests, which have none, are last."""
    return sorted(tests, key=lambda test: test.ruleid or len(tests) + 1_000_000)


async def _ask_for_tests(work: Generation, group: RuleGroup) -> list[Test]:
    """Ask for tests, and for more in the same conversation; after a reply without tests, asks once more."""
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
    """As many tests as the rules got, written from the prompt alone, between lines of three equals signs."""
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


_OUTCOMES: dict[str | None, Outcome] = {"pass": "ok", "fail": "err"}


def judge_ask(work: Generation, judge: PricedTarget, step: str, attempt: int = 0) -> Ask:
    """The function with which an evaluator asks a judge."""

    async def ask(question: Question) -> str:
        params = judging_params(judge.config, question.max_tokens, question.params)
        answer = await work.answer(judge, question.messages, step, attempt=attempt, params=params)
        return whole_reply(answer.text or "", answer.finish_reason, judge.config.name, question)

    return ask


def _demand_judge(work: Generation, step: str) -> PricedTarget:
    if not work.models.judges:
        raise CannotGenerate(f"{step} is judged by a model and no judge is named; name one with --judge TARGET")
    return work.models.judges[0]


async def _ask_ok_err(work: Generation, step: str, messages: Messages) -> tuple[Outcome, str]:
    try:
        said, reply = await ask_once(judge_ask(work, _demand_judge(work, step), step), Question(messages=messages))
    except CannotJudge as problem:
        return "unknown", str(problem)
    return parse_ok_err(said), reply.strip()


# -- rules


def _all_rules(work: Generation) -> list[Rule]:
    return [rule for rule in number_rules(rule_lines(work.folder.read("rules.txt")), ()) if not rule.inverse]


def known_rule_evals(work: Generation) -> dict[str, RuleEval]:
    """The evaluations of rules so far, by the text of the rule."""
    text = work.folder.read("rule_evals.json") or "[]"
    return {row.rule: row for row in parse_rows(RuleEval, str(work.folder.path / "rule_evals.json"), text)}


def rules_to_ground(work: Generation) -> list[Rule]:
    """The output rules that are not evaluated yet."""
    evals = known_rule_evals(work)
    return [rule for rule in _all_rules(work) if rule.text not in evals]


async def check_groundedness(work: Generation) -> str:
    """Whether the prompt says what each output rule says."""

    async def evaluate_rule(rule: Rule) -> RuleEval:
        messages = work.prompts.messages("groundedness", {"prompt": work.body, "rule": rule.text})
        outcome, reply = await _ask_ok_err(work, "groundedness", messages)
        return RuleEval(ruleid=rule.number, rule=rule.text, grounded=outcome, groundedText=reply)

    results, failures, stop = await make_each(work, "groundedness", "rules", rules_to_ground(work), evaluate_rule)
    evals = known_rule_evals(work) | {row.rule: row for row in results}
    rows = [evals[rule.text] for rule in _all_rules(work) if rule.text in evals]
    text = rows_text([row.model_copy(update={"ruleid": place}) for place, row in enumerate(rows, 1)])
    return _finish_rows(work, "rule_evals.json", text, failures, stop)


def _finish_rows(
    work: Generation, file: str, text: str, failures: list[CannotGenerate], stop: BaseException | None
) -> str:
    """The text of a file of rows; where rows are missing, those that exist are written at once."""
    if failures or stop is not None:
        work.folder.write(file, text)
    if stop is not None:
        raise stop
    return text


# -- tests


def known_test_evals(work: Generation) -> dict[str, TestEval]:
    """The evaluations of tests so far, by test, without those of an earlier input."""
    inputs = {test.testuid: test.testinput for test in work.tests}
    text = work.folder.read("test_evals.json") or "[]"
    rows = parse_rows(TestEval, str(work.folder.path / "test_evals.json"), text)
    return {row.testuid: row for row in rows if inputs.get(row.testuid) == row.testinput}


def tests_to_review(work: Generation) -> list[Test]:
    """The tests that lack an evaluation the options ask for."""
    evals = known_test_evals(work)
    return [test for test in work.tests if _is_incomplete(work, evals.get(test.testuid or ""))]


def _is_incomplete(work: Generation, row: TestEval | None) -> bool:
    wants_validity = work.options.validity and (row is None or row.validity is None)
    return wants_validity or (work.options.coverage and (row is None or row.coverage is None))


async def review_tests(work: Generation) -> str:
    """Evaluate whether each test is valid input, and whether intent and rules alone lead to a compliant answer."""
    evals = known_test_evals(work)

    async def evaluate_test(test: Test) -> TestEval:
        row = evals.get(test.testuid or "") or TestEval(testuid=test.testuid or "", testinput=test.testinput)
        questions = []
        if work.options.validity and row.validity is None:
            questions.append(_validity(work, test))
        if work.options.coverage and row.coverage is None:
            questions.append(_coverage(work, test))
        for facts in await asyncio.gather(*questions):
            row = row.model_copy(update=facts)
        return row

    results, failures, stop = await make_each(work, "review", "tests", tests_to_review(work), evaluate_test)
    rows = evals | {row.testuid: row for row in results}
    text = rows_text([rows[uid] for test in work.tests if (uid := test.testuid or "") in rows])
    return _finish_rows(work, "test_evals.json", text, failures, stop)


async def _validity(work: Generation, test: Test) -> dict[str, str]:
    texts = {"inputspec": work.text("input_spec.txt"), "input": test.testinput}
    outcome, reply = await _ask_ok_err(work, "validity", work.prompts.messages("validity", texts))
    return {"validity": outcome, "validityText": reply}


async def _coverage(work: Generation, test: Test) -> dict[str, str]:
    """An answer from intent and rules alone, judged like any answer: covered when it complies."""
    rules = "\n".join(rule_lines(work.folder.read("rules.txt")))
    texts = {"intent": work.text("intent.txt"), "rules": rules, "input": test.testinput}
    messages = work.prompts.messages("coverage", texts, plain=True)
    answer = await work.ask(work.models.rules, messages, "coverage")
    judge = Compliance(None, judge_ask(work, _demand_judge(work, "coverage"), "coverage"))
    score = await evaluate(judge, Evidence(response=answer, rules=rules, input_spec=work.text("input_spec.txt")))
    outcome: Outcome = _OUTCOMES.get(score.result, "unknown")
    return {"coverage": outcome, "coverageText": answer, "coverageEvalText": score.reason}


GOOD_SCORE = 80
BAD_SCORE = 50
MAX_RETRIES = 3
_FILE = "test_groundtruth.json"


@dataclass(frozen=True, slots=True)
class JudgedTruth:
    """The mean score of the judges for one answer, where there is one, and what each said."""

    score: float | None
    metrics: dict[str, Any] = field(default_factory=dict)


def tests_without_truth(work: Generation) -> list[Test]:
    """The tests without ground truth, or with one for an earlier input."""
    truths = work.truths
    return [test for test in work.tests if _current_truth(truths.get(test.testuid or ""), test) is None]


def _current_truth(truth: Truth | None, test: Test) -> Truth | None:
    return truth if truth is not None and truth.testinput == test.testinput else None


async def write_groundtruth(work: Generation) -> str:
    """Answers to all tests, asked again up to three times while they are not good enough."""
    if not work.models.groundtruth_judges:
        work.tell("groundtruth: not reviewed, because no judge is named. Name one with --groundtruth-judge TARGET")
    if any(judge is work.models.groundtruth for judge in work.models.groundtruth_judges):
        name = work.models.groundtruth.config.name
        work.tell(f"groundtruth: {name} judges its own answers; name another judge with --groundtruth-judge")
    results, failures, stop = await make_each(
        work, "groundtruth", "tests", tests_without_truth(work), lambda test: _answer_test(work, test)
    )
    truths = work.truths | {truth.testuid: truth for truth in results}
    rows = [truth for test in work.tests if (truth := _current_truth(truths.get(test.testuid or ""), test)) is not None]
    return _finish_rows(work, _FILE, rows_text(rows), failures, stop)


async def _answer_test(work: Generation, test: Test) -> Truth:
    chat = test_chat(work, test)
    for attempt in range(MAX_RETRIES + 1):
        output = await work.ask(work.models.groundtruth, chat, "groundtruth", attempt=attempt)
        judged = await _judge_output(work, test, output, attempt) if output.strip() else JudgedTruth(0.0)
        if judged.score is None or judged.score >= GOOD_SCORE:
            break
    if not output.strip():
        raise CannotGenerate(
            f"{work.models.groundtruth.config.name} answered nothing to the test {test.testuid}. Name another model "
            "with --groundtruth-model, or do without with --no-groundtruth"
        )
    score = judged.score
    if score is not None and score < BAD_SCORE:
        score = -1.0
    name = work.models.groundtruth.config.name
    facts = {"testuid": test.testuid or "", "testinput": test.testinput, "model": name}
    return Truth(**facts, output=output, groundtruthScore=score, metrics=judged.metrics)


def test_chat(work: Generation, test: Test) -> tuple[dict[str, Any], ...]:
    """The messages a model under test is sent for a test."""
    subject = work.subject
    scenario = subject.scenario(test.scenario)
    under_test = PromptUnderTest(subject.name, subject.prompty)
    try:
        if not subject.declared:
            return (*map(dict, under_test.rendered({})), {"role": "user", "content": test.testinput})
        return tuple(map(dict, under_test.rendered(bind_inputs(subject, scenario, test.testinput))))
    except Unbindable as problem:
        raise CannotGenerate(f"the test {test.testuid}: {problem}") from None
    except TemplateError as problem:
        raise CannotGenerate(f"{subject.file} cannot be filled in for the test {test.testuid}: {problem}") from None


async def _judge_output(work: Generation, test: Test, output: str, attempt: int) -> JudgedTruth:
    """Let each judge score an answer; only numbers count for the mean."""
    path = work.groundtruth_metric
    kind = shipped_metric("groundtruth-eval") if path is None else metric_evaluator(_metric_name(path.name), path)
    evidence = Evidence(
        prompt=test.testinput,
        response=output,
        rules=work.text("rules.txt"),
        intent=work.text("intent.txt"),
        input_spec=work.text("input_spec.txt"),
        prompt_template=PromptUnderTest(work.subject.name, work.subject.prompty).template,
    )
    metrics: dict[str, Any] = {}
    scores = []
    for judge in work.models.groundtruth_judges:
        score = await evaluate(kind(None, judge_ask(work, judge, "groundtruth", attempt)), evidence)
        counted = score.score if score.label is None else None
        metric = {"content": score.details.get("reply") or score.reason, "score": counted, "outcome": score.label}
        metrics[f"{kind.name} with {judge.config.name}"] = {
            key: value for key, value in metric.items() if value is not None
        }
        if counted is not None:
            scores.append(counted)
    return JudgedTruth(sum(scores) / len(scores) if scores else None, metrics)


def _metric_name(file: str) -> str:
    return file.removesuffix(".metric.prompty")
