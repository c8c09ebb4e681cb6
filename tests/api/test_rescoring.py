"""Judging again and estimating from Python: the same as on the command line, with code given again where it judges."""

from __future__ import annotations

import pytest

from tests.runs.conftest import Project
from tui_evals import CannotPlan, estimate, estimate_rescore, evaluate, rescore

ITEMS = [{"prompt": f"question {number}", "expected_response": "Answer"} for number in range(3)]
PRICE = "price = { input_per_million = 1000, output_per_million = 1000 }"


@pytest.fixture
def project(tmp_path, one_server, monkeypatch) -> Project:
    monkeypatch.chdir(tmp_path)
    one_server.reset()
    one_server.behave("judge-model", say='{"reason": "fine", "score": 4}', markers=False)
    made = Project(tmp_path, one_server)
    judge = f'[targets.judge]\nmodel = "openai/judge-model"\nbase_url = "{one_server.url}"\n{PRICE}\n'
    made.configure(f'{PRICE}\n{judge}[judge]\ntarget = "judge"')
    return made


def asked(project: Project) -> int:
    return int(project.server.counts()["asked"])


def test_a_run_is_judged_again_as_a_difference(project):
    strict = {"rubric": "strict"}
    evaluators = {"Relevance": {**strict, "threshold": 3}, "Coherence": strict}
    run = evaluate(ITEMS, "main", evaluators=evaluators, use_cache=False)
    calls = asked(project)
    stricter = {"Relevance": {**strict, "threshold": 5}, "Coherence": strict, "Rubric": {"criteria": "It is short."}}
    left = estimate_rescore(run, evaluators=stricter)
    assert (left.judge_calls, left.kept, left.cost and left.cost > 0) == (3, 6, True)
    again = rescore(run, evaluators=stricter)
    assert asked(project) - calls == 3 and again.key == run.key
    scores = again.answers[0].scores
    assert (scores["Relevance"].result, scores["Relevance"].origin, scores["Rubric"].origin) == ("fail", 1, 0)
    assert not again.passed and rescore(run).passed and asked(project) - calls == 3
    rescore(run.key, evaluator="Coherence", only="id:#2")
    assert asked(project) - calls == 4
    rescore(run, use_cache=False)
    assert asked(project) - calls == 10
    with pytest.raises(CannotPlan, match="no evaluator 'Unheard' judges"):
        rescore(run, evaluator=["Unheard"])


async def test_code_that_judges_is_asked_again_because_nobody_knows_whether_it_changed(project):
    said: list[str] = []

    def judge(prompt):
        said.append(prompt)
        return '{"reason": "so", "score": 5}'

    def shout(prompt):
        return prompt.upper()

    run = evaluate(ITEMS, shout, evaluators="Relevance", judge=judge)
    assert estimate_rescore(run, target=shout, judge=judge).judge_calls == 3 == len(said)
    assert rescore(run, target=shout, judge=judge).passed and len(said) == 6
    assert rescore(run, target=shout, judge=judge, only="id:#1").passed and len(said) == 7


def test_answers_of_functions_are_judged_again_without_the_functions(project):
    asked = []

    def short(output):
        return len(output) < 4

    def long(output):
        return len(output) >= 4

    def agent(prompt):
        asked.append(prompt)
        return prompt

    for target in (agent, lambda prompt: agent(prompt)):
        asked.clear()
        run = evaluate([{"prompt": "hi"}, {"prompt": "hello"}], target, evaluators=[short])
        assert [answer.status for answer in rescore(run, evaluators=[long]).answers] == ["fail", "pass"]
        assert [answer.status for answer in rescore(run.key, evaluators=[short]).answers] == ["pass", "fail"]
        assert len(asked) == 2


def test_what_a_run_will_take_is_known_before(project):
    first = estimate(ITEMS, "main", evaluators="Relevance", use_cache=False)
    assert (first.answers, first.judge_calls, first.seconds, first.last) == (3, 3, None, None)
    assert asked(project) == 0 and not (project.folder / ".evals" / "evals.db").exists()
    run = evaluate(ITEMS, "main", evaluators="Relevance")
    cost = sum(answer.cost or 0 for answer in run.answers) + run.totals.judge_cost
    again = estimate(ITEMS, "main", evaluators="Relevance", use_cache=False)
    assert again.cost == pytest.approx(cost, rel=0.02) and again.last is not None and again.last.run == run.key
    known = estimate(ITEMS, "main", evaluators="Relevance")
    assert (known.cached, known.judge_calls, known.known_verdicts, known.cost) == (3, 0, 3, 0.0)
