"""The tests that are run where not all are: some of every rule, inverse rules included."""

import json
from collections import Counter

import pytest

from tui_evals.generate.exports import spread_items
from tui_evals.store.reader import Reader


def items(rules, tests, scenarios=("",)):
    """A dataset's items in the order of a generation: the rules, then those that invert them."""
    return [
        {"extensions": {"promptpex": {"ruleid": number, "of": of, "inverse": inverse, "scenario": scenario}}}
        for number, (inverse, of) in enumerate(((i, n) for i in (False, True) for n in range(1, rules + 1)), 1)
        for scenario in scenarios
        for _ in range(tests)
    ]


def taken(made, count):
    facts = [made[place]["extensions"]["promptpex"] for place in spread_items(made, count)]
    return Counter(own["ruleid"] for own in facts)


def test_the_default_ten_of_eighteen_are_of_all_six_rules_and_half_of_them_inverse():
    chosen = taken(items(3, 3), 10)
    assert chosen == {1: 2, 2: 2, 3: 1, 4: 2, 5: 2, 6: 1}


@pytest.mark.parametrize(("count", "rules"), [(1, {1}), (2, {1, 4}), (5, {1, 2, 3, 4, 5}), (18, set(range(1, 7)))])
def test_too_few_for_all_rules_hold_as_many_of_each_kind(count, rules):
    assert set(taken(items(3, 3), count)) == rules


def test_every_rule_is_asked_in_one_scenario_before_the_next():
    made = items(2, 2, ("english", "calm"))
    assert taken(made, 4) == {1: 1, 2: 1, 3: 1, 4: 1}
    assert taken(made, 8) == {1: 2, 2: 2, 3: 2, 4: 2}
    assert {made[place]["extensions"]["promptpex"]["scenario"] for place in spread_items(made, 8)} == {
        "english",
        "calm",
    }


def test_items_that_a_person_added_have_no_rule_and_come_in_too():
    made = [*items(1, 2), {"prompt": "mine"}, {"extensions": {}}]
    assert spread_items(made, 3) == [0, 2, 4]


@pytest.mark.nightly
def test_a_generation_at_default_effort_judges_inverse_rules(project):
    project.server.expect(max_rules=3, tests_per_rule=3, per_question=100)
    project.generate("--no-groundtruth", "-m", "under-test", "--quiet")
    with Reader(project.root / ".evals" / "evals.db") as reader:
        (run,) = [run for run in reader.runs() if run.targets == ("under-test",)]
        asked = {row.item for row in reader.all_rows(run.id)}
    made = json.loads(project.read("shop.json"))["items"]
    rules = Counter(made[place]["extensions"]["promptpex"]["ruleid"] for place in asked)
    assert len(asked) == 10 and set(rules) == set(range(1, 7)), rules
