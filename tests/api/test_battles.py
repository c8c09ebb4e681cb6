"""Battles from Python: a judge behind a server is asked in both orders, and the same call asks nothing twice."""

from __future__ import annotations

import pytest

from tests.runs.conftest import Project
from tests.runs.test_battle import FIRST
from tui_evals import BattleStopped, CannotPlan, ConfigurationError, battle, evaluate

ITEMS = [{"testId": f"item {number}", "prompt": f"question {number}"} for number in range(4)]


@pytest.fixture
def project(tmp_path, one_server, monkeypatch) -> Project:
    monkeypatch.chdir(tmp_path)
    one_server.reset()
    one_server.behave("judge-model", say=FIRST, markers=False)
    made = Project(tmp_path, one_server)
    price = "price = { input_per_million = 1000, output_per_million = 1000 }\nparams = { max_tokens = 20 }"
    made.configure(f'[targets.judge]\nmodel = "openai/judge-model"\nbase_url = "{one_server.url}"\n{price}\n')
    return made


def asked(project: Project) -> int:
    return sum(one["asked"] for one in project.server.counts()["questions"] if one["model"] == "judge-model")


def two_runs():
    return [
        evaluate(ITEMS, lambda prompt, word=word: f"{prompt} {word}", name=word, without_judges=True)
        for word in ("one", "two")
    ]


@pytest.mark.nightly
def test_a_judge_that_takes_the_first_answer_is_found_out_and_asked_once(project):
    runs = two_runs()
    found = battle(*runs, judge="judge")
    (duel,) = found.duels
    assert (duel.left, duel.right) == (runs[0].key, runs[1].key)
    assert (duel.left_wins, duel.right_wins, duel.ties, duel.win_rate) == (0, 0, 4, 0.5)
    assert asked(project) == 8 and found.cost > 0 and set(found.elo) == {"A", "B"}
    again = battle(runs[0].key, runs[1].key, judge="judge")
    assert asked(project) == 8 and again.cost == 0 and again.duels == found.duels


@pytest.mark.nightly
def test_a_run_battles_another_or_two_of_its_columns(project):
    first, second = two_runs()
    found = first.battle(second, judge="judge", limit=1)
    assert (found.duels[0].left, found.duels[0].right, found.duels[0].ties) == (first.key, second.key, 1)
    assert first.battle(second.key, judge="judge", limit=1).duels == found.duels and asked(project) == 2
    with pytest.raises(CannotPlan, match="2 to 4 runs"):
        first.battle(judge="judge")
    both = evaluate(ITEMS, [str.upper, str.lower], without_judges=True)
    assert both.battle(columns="upper,lower", judge="judge", limit=2).duels[0].ties == 2


def test_a_function_judges_and_what_is_wrong_is_said_before_anything_is_asked(project):
    runs = two_runs()
    found = battle(*runs, judge=lambda prompt: '{"reason": "same", "winner": "tie"}', limit=2)
    assert found.duels[0].ties == 2 and asked(project) == 0
    with pytest.raises(CannotPlan, match="2 to 4 runs"):
        battle(runs[0], judge="judge")
    with pytest.raises(ConfigurationError, match="no judge is named"):
        battle(*runs)


def test_a_battle_that_runs_out_of_money_says_what_it_decided_and_continues(project):
    runs = two_runs()
    with pytest.raises(BattleStopped, match="limit") as stopped:
        battle(*runs, judge="judge", max_cost=3.0, concurrency=1)
    spent, before = stopped.value.battle.cost, asked(project)
    assert 0 < before < 8 and 0 < spent <= 3.0
    assert battle(*runs, judge="judge").duels[0].ties == 4 and asked(project) == 8


async def test_a_battle_is_fought_in_code_with_a_loop(project):
    assert battle(*two_runs(), judge="judge", limit=1).duels[0].ties == 1
