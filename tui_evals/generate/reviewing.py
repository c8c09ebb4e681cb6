"""The steps that look at rules and tests themselves: is a rule grounded, a test valid, do the rules say enough."""

from __future__ import annotations

import asyncio

from tui_evals.evaluators.base import Ask, Evidence, Question, evaluate
from tui_evals.evaluators.compliance import Compliance, Outcome, parse_ok_err
from tui_evals.runs.asking import PricedTarget

from .asking import CannotGenerate, Messages
from .shapes import Rule, RuleEval, Test, TestEval, lines_of, numbered, rows_of, rows_text
from .work import Generation, each

_OUTCOMES: dict[str | None, Outcome] = {"pass": "ok", "fail": "err"}


def ask_of(work: Generation, judge: PricedTarget, step: str, attempt: int = 0) -> Ask:
    """The way from an evaluator to a judge."""

    async def ask(question: Question) -> str:
        params = {"temperature": 0, "max_tokens": question.max_tokens}
        return await work.say(judge, question.messages, step, attempt=attempt, params=params)

    return ask


def _judge(work: Generation, step: str) -> PricedTarget:
    if not work.models.judges:
        raise CannotGenerate(f"{step} is judged by a model and no judge is named; name one with --judge TARGET")
    return work.models.judges[0]


async def _verdict(work: Generation, step: str, messages: Messages) -> tuple[Outcome, str]:
    said = await ask_of(work, _judge(work, step), step)(Question(messages=messages))
    return parse_ok_err(said), said.strip()


# -- rules


def _all_rules(work: Generation) -> list[Rule]:
    return [rule for rule in numbered(lines_of(work.folder.read("rules.txt")), ()) if not rule.inverse]


def known_rules(work: Generation) -> dict[str, RuleEval]:
    """What is known about rules, by their text."""
    text = work.folder.read("rule_evals.json") or "[]"
    return {row.rule: row for row in rows_of(RuleEval, str(work.folder.path / "rule_evals.json"), text)}


def ungrounded(work: Generation) -> list[Rule]:
    """The output rules nobody has looked at."""
    known = known_rules(work)
    return [rule for rule in _all_rules(work) if rule.text not in known]


async def groundedness(work: Generation) -> str:
    """Whether the prompt says what each output rule says."""

    async def one(rule: Rule) -> RuleEval:
        asked = work.prompts.messages("groundedness", {"prompt": work.body, "rule": rule.text})
        outcome, said = await _verdict(work, "groundedness", asked)
        return RuleEval(ruleid=rule.number, rule=rule.text, grounded=outcome, groundedText=said)

    made, cannot, ended = await each(work, "groundedness", ungrounded(work), one)
    known = known_rules(work) | {row.rule: row for row in made}
    found = [known[rule.text] for rule in _all_rules(work) if rule.text in known]
    text = rows_text([row.model_copy(update={"ruleid": place}) for place, row in enumerate(found, 1)])
    return _kept(work, "groundedness", "rule_evals.json", text, cannot, ended)


def _kept(
    work: Generation, step: str, file: str, text: str, cannot: list[CannotGenerate], ended: BaseException | None
) -> str:
    """The text of a file of rows; where some rows are missing, what there is is written before that is said."""
    if cannot or ended is not None:
        work.folder.write(file, text)
    if ended is not None:
        raise ended
    if cannot:
        work.tell(f"{step}: {len(cannot)} could not be done, and the same command tries them again: {cannot[0]}")
    return text


# -- tests


def evals_of(work: Generation) -> dict[str, TestEval]:
    """What is known about tests, by test; what is known of an earlier input of a test is left out."""
    inputs = {test.testuid: test.testinput for test in work.tests}
    text = work.folder.read("test_evals.json") or "[]"
    rows = rows_of(TestEval, str(work.folder.path / "test_evals.json"), text)
    return {row.testuid: row for row in rows if inputs.get(row.testuid) == row.testinput}


def unreviewed(work: Generation) -> list[Test]:
    """The tests about which something that was asked for is not known."""
    known = evals_of(work)
    return [test for test in work.tests if _missing(work, known.get(test.testuid or ""))]


def _missing(work: Generation, row: TestEval | None) -> bool:
    wants_validity = work.options.validity and (row is None or row.validity is None)
    return wants_validity or (work.options.coverage and (row is None or row.coverage is None))


async def review(work: Generation) -> str:
    """Whether each test is valid input, and whether purpose and rules alone lead to an answer that complies."""
    known = evals_of(work)

    async def one(test: Test) -> TestEval:
        row = known.get(test.testuid or "") or TestEval(testuid=test.testuid or "", testinput=test.testinput)
        wishes = []
        if work.options.validity and row.validity is None:
            wishes.append(_validity(work, test))
        if work.options.coverage and row.coverage is None:
            wishes.append(_coverage(work, test))
        for facts in await asyncio.gather(*wishes):
            row = row.model_copy(update=facts)
        return row

    made, cannot, ended = await each(work, "review", unreviewed(work), one)
    rows = known | {row.testuid: row for row in made}
    text = rows_text([rows[uid] for test in work.tests if (uid := test.testuid or "") in rows])
    return _kept(work, "review", "test_evals.json", text, cannot, ended)


async def _validity(work: Generation, test: Test) -> dict[str, str]:
    texts = {"inputspec": work.text("input_spec.txt"), "input": test.testinput}
    outcome, said = await _verdict(work, "validity", work.prompts.messages("validity", texts))
    return {"validity": outcome, "validityText": said}


async def _coverage(work: Generation, test: Test) -> dict[str, str]:
    """An answer from purpose and rules alone, judged like any answer: covered when it complies."""
    rules = "\n".join(lines_of(work.folder.read("rules.txt")))
    texts = {"intent": work.text("intent.txt"), "rules": rules, "input": test.testinput}
    asked = work.prompts.messages("coverage", texts, plain=True)
    answer = await work.say(work.models.rules, asked, "coverage")
    judge = Compliance(None, ask_of(work, _judge(work, "coverage"), "coverage"))
    score = await evaluate(judge, Evidence(response=answer, rules=rules, input_spec=work.text("input_spec.txt")))
    outcome: Outcome = _OUTCOMES.get(score.result, "unknown")
    return {"coverage": outcome, "coverageText": answer, "coverageEvalText": score.reason}
