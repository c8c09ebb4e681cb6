"""What the plan of a battle says before the judge is asked."""

from itertools import combinations, product
from pathlib import Path

import pytest

from tests.cli.past import Said, past
from tui_evals.evaluators.grading import DEFAULT_CRITERIA
from tui_evals.runs.battle import BattleRequest, plan_battle
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.project import Project
from tui_evals.store.battles import BattleSide
from tui_evals.store.reader import Reader
from tui_evals.targets.base import TargetConfig
from tui_evals.targets.config import Settings

MODELS = ("openai/small", "openai/large", "openai/huge")


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """Plan a battle of some sides, which may be columns of one run of three models."""
    monkeypatch.chdir(tmp_path)
    targets = [{"name": model, "model": model} for model in MODELS]
    answers = [Said(item, text=f"{item} {target}", target=target) for item in "abc" for target in range(len(MODELS))]
    run = past(*answers, targets=MODELS, config={"targets": targets}).id

    def planned(judge, *columns, **given):
        sides = tuple(BattleSide(run, column) for column in columns)
        request = BattleRequest(sides=sides, judge=TargetConfig(name="judge", model=judge), **given)
        with Reader(Path(".evals/evals.db")) as reader:
            return plan_battle(request, reader, Project(tmp_path, Settings(), {}))

    return planned


def test_a_judge_is_said_to_favor_itself_where_it_answered_in_one_of_the_columns(plan):
    for judge, pair in product((*MODELS, "openai/another"), combinations(range(len(MODELS)), 2)):
        found = plan(judge, *((0, target) for target in pair))
        assert bool(found.caution) == (judge in {MODELS[target] for target in pair}), (judge, pair)
        assert (found.pairs, found.equal, found.decided) == (3, 0, 0)


def test_the_criteria_are_those_that_are_given_or_the_usual_ones_and_part_of_the_question(plan):
    asked = {
        words: plan("openai/another", (0, 0), (0, 1), criteria=words).battle.asked
        for words in (None, "", " \n", DEFAULT_CRITERIA, " Be kind. ")
    }
    assert [one.criteria for one in asked.values()] == [DEFAULT_CRITERIA] * 4 + ["Be kind."]
    assert len({one.question for one in asked.values()}) == 2
    other = plan("openai/huge", (0, 0), (0, 1)).battle.asked
    assert other.question not in {one.question for one in asked.values()}


def test_some_pairs_are_drawn_by_a_seed_that_needs_a_limit(plan):
    pairs = [plan("openai/another", (0, 0), (0, 1), limit=2, seed=7).battle.duels[0].pairs for _ in range(2)]
    assert len(pairs[0]) == 2 and pairs[0] == pairs[1]
    with pytest.raises(CannotPlan, match="--seed belongs to --limit"):
        plan("openai/another", (0, 0), (0, 1), seed=7)
