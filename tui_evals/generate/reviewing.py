"""The steps that judge: groundedness of rules, validity of tests, coverage, and ground truth."""

from __future__ import annotations

import asyncio
from dataclasses import field
from typing import Any

from tui_evals.evaluators.base import Ask, CannotJudge, Evidence, Question, evaluate
from tui_evals.evaluators.compliance import Compliance, Outcome, metric_evaluator, parse_ok_err, shipped_metric
from tui_evals.evaluators.judging import ask_once, whole_reply
from tui_evals.generate.asking import CannotGenerate, Messages
from tui_evals.generate.folder import (
    Rule,
    RuleEval,
    Test,
    TestEval,
    Truth,
    number_rules,
    parse_rows,
    rows_text,
    rule_lines,
)
from tui_evals.generate.work import Generation, Unbindable, bind_inputs, make_each
from tui_evals.light_records import dataclass
from tui_evals.runs.asking import PricedTarget
from tui_evals.runs.prompting import PromptUnderTest
from tui_evals.targets.model_table import judging_params
from tui_evals.text.templates import TemplateError

_OUTCOMES: dict[str | None, Outcome] = {"pass": "ok", "fail": "err"}


def judge_ask(work: Generation, judge: PricedTarget, step: str, attempt: int = 0) -> Ask:
    """The function by which an evaluator asks a judge."""

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

    results, failures, stop = await make_each(work, "groundedness", rules_to_ground(work), evaluate_rule)
    evals = known_rule_evals(work) | {row.rule: row for row in results}
    rows = [evals[rule.text] for rule in _all_rules(work) if rule.text in evals]
    text = rows_text([row.model_copy(update={"ruleid": place}) for place, row in enumerate(rows, 1)])
    return _finish_rows(work, "groundedness", "rule_evals.json", text, failures, stop)


def _finish_rows(
    work: Generation, step: str, file: str, text: str, failures: list[CannotGenerate], stop: BaseException | None
) -> str:
    """The text of a file of rows; where rows are missing, those that exist are written before that is reported."""
    if failures or stop is not None:
        work.folder.write(file, text)
    if stop is not None:
        raise stop
    if failures:
        work.tell(f"{step}: {len(failures)} could not be done, and the same command tries them again: {failures[0]}")
    return text


# -- tests


def known_test_evals(work: Generation) -> dict[str, TestEval]:
    """The evaluations of tests so far, by test; those of an earlier input are left out."""
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

    results, failures, stop = await make_each(work, "review", tests_to_review(work), evaluate_test)
    rows = evals | {row.testuid: row for row in results}
    text = rows_text([rows[uid] for test in work.tests if (uid := test.testuid or "") in rows])
    return _finish_rows(work, "review", "test_evals.json", text, failures, stop)


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
        work, "groundtruth", tests_without_truth(work), lambda test: _answer_test(work, test)
    )
    truths = work.truths | {truth.testuid: truth for truth in results}
    rows = [truth for test in work.tests if (truth := _current_truth(truths.get(test.testuid or ""), test)) is not None]
    text = rows_text(rows)
    if failures or stop is not None:
        work.folder.write(_FILE, text)
    if stop is not None:
        raise stop
    if failures:
        work.tell(f"groundtruth: {len(failures)} tests have none, and the same command tries again: {failures[0]}")
    return text


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
    """Have each judge score an answer; only numbers count for the mean."""
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
