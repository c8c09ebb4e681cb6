"""What verdicts come to: winners, ties, chance, and a judge that leans."""

import random
from dataclasses import replace

import pytest

from tui_evals.compare.battles import (
    Match,
    battle_sentence,
    correct_tallies,
    lean_sentence,
    position_lean,
    shares_by_item,
    tally_matches,
)
from tui_evals.figures import paired_test
from tui_evals.store.battles import Bout


def bout(first, second=None, **given):
    """A bout by the verdicts in both orders, the same when one is given."""
    fields = {"left": 1, "right": 2, "judge": "j", "question": "q", "reason": "one\ntwo"}
    return Bout(**{**fields, "first": first, "second": second or first, **given})


LEFT, RIGHT, TIE = bout("left"), bout("right"), bout("tie")
FIRST, SECOND = bout("left", "right"), bout("right", "left")
NONE = replace(LEFT, second=None, reason="\nbroken")


@pytest.mark.parametrize(
    ("found", "winner", "split", "shown_first"),
    [
        (LEFT, "left", False, 0.5),
        (RIGHT, "right", False, 0.5),
        (TIE, "tie", False, 0.5),
        (FIRST, "tie", True, 1.0),
        (SECOND, "tie", True, 0.0),
        (bout("left", "tie"), "tie", True, 0.75),
        (bout("tie", "left"), "tie", True, 0.25),
        (NONE, None, False, None),
    ],
)
def test_a_side_wins_that_wins_in_both_orders(found, winner, split, shown_first):
    assert (found.winner, found.split, found.shown_first) == (winner, split, shown_first)


@pytest.mark.parametrize("found", [LEFT, RIGHT, TIE, FIRST, SECOND, NONE, bout("left", "tie")])
def test_a_bout_turned_round_says_the_same(found):
    mirrored = {"left": "right", "right": "left", "tie": "tie", None: None}
    assert found.turned.turned == found
    assert (found.turned.left, found.turned.right) == (2, 1)
    assert (found.turned.winner, found.turned.shown_first) == (mirrored[found.winner], found.shown_first)
    assert found.turned.reason.split("\n") == found.reason.split("\n")[::-1]


def test_every_pair_is_counted_once():
    matches = [
        *[Match(n, each) for n, each in enumerate((LEFT, RIGHT, RIGHT, TIE, FIRST, NONE))],
        Match(6, equal=True),
        Match(7),
    ]
    found = tally_matches(matches)
    assert (found.wins, found.ties, found.split, found.equal) == ((1, 2), 3, 1, 1)
    assert (found.undecided, found.waiting, found.decided) == (1, 1, 6)
    assert found.share == pytest.approx(3.5 / 6) and found.test.items == 6
    assert found.interval.low < found.share < found.interval.high


def test_the_turns_of_an_item_are_one_proof():
    found = tally_matches([Match(item, RIGHT) for item in range(5) for _ in range(10)])
    assert found.wins == (0, 50) and found.test.items == 5
    assert found.test.p == paired_test([1.0] * 5) == 0.0625


def test_items_count_alike_however_many_turns_they_have():
    found = tally_matches([*[Match(0, RIGHT)] * 9, Match(1, LEFT)])
    assert found.share == 0.5 and found.wins == (1, 9)


@pytest.mark.parametrize("count", [1, 5, 30])
def test_one_side_that_always_wins_is_not_certain_to(count):
    found = tally_matches([Match(n, RIGHT) for n in range(count)])
    assert found.share == 1 and found.interval.low < 0.95 and found.interval.high == 1


@pytest.mark.story
def test_the_interval_holds_the_truth_as_often_as_it_says():
    random_ = random.Random(2)
    held = 0
    for _ in range(200):
        own = random_.choices((LEFT, TIE, RIGHT), (0.1, 0.1, 0.8), k=15)
        interval = tally_matches([Match(n, each) for n, each in enumerate(own)]).interval
        held += interval.low <= 0.85 <= interval.high
    assert held >= 180


def test_the_verdict_is_a_plain_sentence():
    def says(*own):
        return battle_sentence(tally_matches([Match(n, each) for n, each in enumerate(own)]), "A", "C")

    assert says() == "A and C have no pair of answers with a verdict."
    assert says(NONE) == "A and C have no pair of answers with a verdict."
    assert says(LEFT, RIGHT, TIE) == "A and C are preferred equally often over 3 items: no difference."
    assert says(*[RIGHT] * 20).startswith("C is preferred to A, with a win rate of 100.0 % over 20 items (p")
    assert says(*[RIGHT] * 20).endswith(" (p < 0.001).")
    short = says(LEFT, LEFT, RIGHT)
    assert short.startswith("A is preferred to C, with a win rate of 66.7 % over 3 items: could be chance")
    assert "could be chance (p = " in short and "; about" in short


def test_no_verdict_is_made_of_equal_answers_and_none_is_final_before_its_end():
    def says(*own):
        return battle_sentence(tally_matches(own))

    equal = [Match(0, equal=True), Match(1, equal=True)]
    assert says(*equal) == "A and B say the same in all of 2 pairs of answers: there is nothing to choose between."
    for missing in (Match(2), Match(2, NONE)):
        assert says(*equal, missing).startswith("There is no verdict on A and B yet; 2 pairs of answers say the same")
    assert says(*equal, Match(2, RIGHT), Match(3)).startswith("So far B is preferred to A, with a win rate of 66.7 %")
    assert says(Match(0, TIE), Match(1)).startswith("So far A and B are preferred equally often")


def test_more_runs_need_a_clearer_difference():
    three = [tally_matches([Match(n, RIGHT) for n in range(count)]) for count in (7, 7, 3)]
    assert [one.test.shown for one in three] == [True, True, False]
    assert [round(one.test.adjusted, 4) for one in correct_tallies(three)] == [0.0469, 0.0469, 0.25]


def test_a_judge_that_always_takes_the_first_leans_wholly():
    found = position_lean([Match(n, FIRST) for n in range(12)])
    assert (found.share, found.items, found.real) == (1.0, 12, True)
    assert found.interval.low > 0.5
    says = lean_sentence(found)
    assert "shown first" in says and "100.0 %" in says and "ties" in says
    assert "shown second" in lean_sentence(position_lean([Match(n, SECOND) for n in range(12)]))


def test_a_judge_that_looks_at_the_answers_does_not_lean_whoever_wins():
    found = position_lean([Match(n, RIGHT) for n in range(50)])
    assert found.share == 0.5 and not found.real
    assert "could be chance (p = 1.00)" in lean_sentence(found)


def test_a_leaning_over_a_few_items_could_be_chance():
    assert not position_lean([Match(n % 3, FIRST) for n in range(30)]).real


def test_only_pairs_seen_in_both_orders_say_how_a_judge_leans():
    assert position_lean([Match(0, NONE), Match(1), Match(2, equal=True)]) is None


def test_every_item_brings_what_its_runs_made_of_it():
    duels = {(0, 1): [Match(4, RIGHT), Match(4, LEFT), Match(2, TIE)], (0, 2): [Match(4, LEFT), Match(3, NONE)]}
    assert shares_by_item(duels) == [{(0, 1): 0.5}, {(0, 1): 0.5, (0, 2): 0.0}]
