"""Battles and generations in words and as data, without a store."""

import json
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.present.rows import a_run
from tui_evals.compare.battles import Match
from tui_evals.figures import Interval
from tui_evals.present.battles import (
    activity_line,
    asked_text,
    battle_json,
    elo_ends,
    gaps_text,
    generation_price,
    generation_stopped,
    outcome_text,
    outdated_note,
    past_json,
    plan_json,
    plan_lines,
    price_sentence,
    progress_text,
    result_lines,
    runs_lines,
    side_name,
    sides_text,
    step_message,
    step_price,
)
from tui_evals.runs.battle import BattlePlan, Duel, StoredBattle, battle_state
from tui_evals.runs.estimating import Estimate
from tui_evals.store.battles import ActivityRow, BattleRow, BattleSide, Bout

RUNS = (a_run(id=1, key="aaaaaa", name="one"), a_run(id=2, key="bbbbbb", name="two", targets=("x", "y")))


def a_battle(**given):
    return BattleRow(
        **{
            "sides": (BattleSide(1), BattleSide(2)),
            "judge": "fair",
            "question": "q",
            "criteria": "c",
            "pairs": None,
            "seed": None,
            **given,
        }
    )


def an_activity(status="running", **given):
    fields = {"id": 1, "key": "k", "kind": "battle", "about": "", "request": {}, "control": "", "cost": 0.5}
    return ActivityRow(**{**fields, "done": 3, "total": 10, "status": status, **given})


def a_match(first, second, equal=False):
    fields = {"left": 1, "right": 2, "judge": "fair", "question": "q", "reason": "why"}
    bout = None if first == "waiting" else Bout(**fields, first=first, second=second)
    return Match(0, None if equal else bout, equal)


VERDICTS = st.sampled_from(["left", "right", "tie", None])
MATCHES = st.builds(a_match, VERDICTS, VERDICTS) | st.just(a_match("waiting", None)) | st.just(a_match("", "", True))


@given(st.lists(MATCHES, max_size=8), st.integers(0, 2), st.integers(0, 2))
def test_each_pair_of_a_battle_is_counted_once_in_words_and_as_data(matches, unanswered, edited):
    pairs = tuple((item, (item, item)) for item in range(len(matches)))
    equal = frozenset(pair for (_, pair), match in zip(pairs, matches, strict=True) if match.equal)
    state = battle_state(RUNS, [Duel((0, 1), pairs, equal, unanswered, edited)], [matches])
    data = battle_json(state)
    json.dumps(data, allow_nan=False)
    (duel,) = data["duels"]
    counts = {
        name: duel[name]
        for name in ("left_wins", "right_wins", "ties", "without_verdict", "not_asked", "equal_answers")
    }
    assert sum(counts.values()) - counts["equal_answers"] == duel["pairs"] == len(matches)
    assert (duel["left"], duel["right"]) == ("aaaaaa", "bbbbbb")
    assert (duel["unanswered"], duel["edited"], duel["equal_answers"]) == (unanswered, edited, len(equal))
    text = next(line.text for line in result_lines(state, 80) if line.text.startswith("A wins"))
    words = {"not_asked": "not asked yet", "without_verdict": "without a verdict", "equal_answers": "equal"}
    for name, word in words.items():
        assert (f"{counts[name]} {word}" in text) == bool(counts[name]), text
    assert f"A wins {counts['left_wins']} · B wins {counts['right_wins']} · {counts['ties']} tie" in text
    assert len([run for run in data["runs"] if run["elo"] is not None]) == (2 if state.ratings else 0)

    due = counts["not_asked"]
    *others, last = [line.text for line in runs_lines(RUNS, state.duels, "fair", due, 80)]
    assert last.endswith(
        f"{len(equal)} equal, {len(matches) - len(equal) - due} decided earlier, {due} for fair to decide."
    )
    assert any("a side has no answer" in line for line in others) == bool(unanswered)
    assert any("the item was edited" in line for line in others) == bool(edited)
    assert any("no answers that face each other" in line for line in others) == (not (matches or unanswered or edited))


@given(st.floats(-3000, 3000) | st.just(-inf), st.floats(-3000, 3000) | st.just(inf))
def test_a_rating_has_both_ends_that_are_known(low, high):
    text = elo_ends(Interval(low, high))
    known = [f"{end:.0f}" for end in (low, high) if end not in (-inf, inf)]
    assert text == (" to ".join(known) if len(known) == 2 else text)
    assert all(end in text for end in known) and "inf" not in text
    assert (text.endswith("or more"), text.endswith("or less"), text == "unknown") == (
        (low > -inf and high == inf),
        (low == -inf and high < inf),
        (low == -inf and high == inf),
    )


def test_a_past_battle_names_its_sides_limit_and_cost():
    runs = {run.id: run for run in RUNS}
    sides = (BattleSide(1), BattleSide(2, (0, 1)))
    battle = a_battle(sides=sides, pairs=1, seed=7, cost=0.5)
    assert [side_name(side, runs) for side in sides] == ["one (aaaaaa)", "y (bbbbbb)"]
    assert sides_text(battle, runs) == "A one (aaaaaa) · B y (bbbbbb)"
    assert asked_text(battle).split(" · ")[1:] == ["judge fair", "at most 1 pair drawn by seed 7", "$0.500"]
    assert asked_text(a_battle(pairs=2)).split(" · ")[1:] == ["judge fair", "at most 2 pairs", "$0"]
    assert asked_text(a_battle()).split(" · ")[1:] == ["judge fair", "$0"]
    assert outcome_text(battle) == "nothing is decided yet; the battle continues"
    assert outcome_text(a_battle(summary="B wins")) == "B wins"
    data = past_json(battle, runs)
    assert (data["sides"], data["limit"], data["seed"]) == (["one (aaaaaa)", "y (bbbbbb)"], 1, 7)


def test_the_plan_of_a_battle_counts_pairs_and_calls_and_names_the_price():
    duels = (Duel((0, 1), tuple((item, (item, item)) for item in range(5)), frozenset([(0, 0)]), 0, 0),)
    destinations = {"fair": {"sentence": "sends its questions to a.example"}}
    plan = BattlePlan(StoredBattle(RUNS, duels, a_battle()), [None] * 3, Estimate(0, 6, 0.5), destinations, "")
    assert plan_lines(plan) == [
        "5 pairs of answers, 1 of them equal and 1 decided earlier: 6 judge calls, about $0.500; "
        "repairs and retries may add some",
        "fair sends its questions to a.example",
    ]
    data = plan_json(plan)
    assert (data["pairs"], data["equal_answers"], data["decided"], data["judge_calls"], data["cost"]) == (
        5,
        1,
        1,
        6,
        0.5,
    )
    assert price_sentence(plan, 2.0) == "6 judge calls, about $0.500; it stops before $2.00 are spent."
    assert price_sentence(plan, None) == "6 judge calls, about $0.500."


@pytest.mark.parametrize(
    ("status", "facts", "rate", "line"),
    [
        ("running", {"undecided": 2}, 7.0, "fair: 3/10 bouts · 2 without a verdict · 7.0/s · 1.0 s left · $0.500"),
        ("running", {}, None, "fair: 3/10 bouts · $0.500"),
        ("finished", {"undecided": "?"}, 7.0, "fair: 3/10 bouts · $0.500"),
    ],
)
def test_the_pace_of_an_activity_is_that_of_one_that_continues(status, facts, rate, line):
    assert activity_line("fair", an_activity(status, facts=facts), rate) == line


def test_a_generation_says_what_its_steps_take_and_what_came_of_them():
    assert generation_price(1, None) == "1 call, cost unknown: a price is missing; repairs and retries may add some"
    assert step_price("rules", 0, certain=True).split() == ["rules", "there", "already"]
    assert step_price("rules", 1, certain=True).split() == ["rules", "1", "call"]
    assert step_price("rules", 2, certain=False).split() == ["rules", "about", "2", "calls"]
    assert step_message("rules", "failed", "3 rules", has_file=False) == "rules: could not be made"
    assert step_message("rules", "made", "3 rules", has_file=False) == "rules: 3 rules"
    assert step_message("rules", "made", "3 rules", has_file=True) == "rules: is made"
    assert step_message("rules", "made", "", has_file=False) == "rules: is made"
    assert generation_stopped("") == "stopped before the end. What was made is kept; the same command continues"
    assert generation_stopped("no money.") == "stopped: no money. What was made is kept; the same command continues"
    assert progress_text(an_activity(facts={"steps": {"rules": [1, 3], "tests": None}})) == "rules 1/3, tests"
    assert progress_text(an_activity()) == progress_text(an_activity(facts={"steps": {}})) == "starting"
    gaps = {"gaps": {"rules": "1 of 2 failed", "tests": "all"}}
    assert gaps_text(an_activity(facts=gaps)) == "rules: 1 of 2 failed tests: all"
    assert gaps_text(an_activity()) == gaps_text(an_activity(facts={"gaps": ["rules"]})) == ""


@pytest.mark.parametrize(
    ("files", "sources", "steps", "note"),
    [
        (
            ["a"],
            ["b"],
            ["tests"],
            "a was made before b changed; `--from tests` makes it again, and what follows from it",
        ),
        (
            ["a", "b", "c"],
            ["d", "e"],
            ["tests", "truths"],
            "a, b and c were made before d and e changed; `--from tests,truths` makes them again, and what follows "
            "from them",
        ),
    ],
)
def test_files_that_are_older_than_their_sources_are_named_with_the_command(files, sources, steps, note):
    assert outdated_note(files, sources, steps) == note
