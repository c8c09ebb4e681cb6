"""What is said of a comparison whose numbers mean less than they seem to."""

from tests.compare.helpers import answer, ran, scored
from tui_evals.compare.runs import compare_runs
from tui_evals.compare.verdicts import caveats


def said(*sides):
    return list(caveats(compare_runs(sides)))


def side(number, targets="demo", **given):
    given = {"status": "finished", "source": "evals.json", "targets": targets.split(","), **given}
    return ran([answer(number)], **given)


def test_runs_that_are_alike_need_no_word():
    assert said(side(1), side(2)) == said(side(1, "small"), side(2, "large")) == []


def test_a_run_that_is_not_over_and_another_dataset_are_named():
    assert said(side(1), side(2, status="paused")) == [
        "B is paused: answers it does not have yet cannot be compared, and a difference that shows now may disappear "
        "when it has them."
    ]
    assert said(side(1), side(2, source="new.json"), side(3)) == [
        "B asked another dataset than A: new.json instead of evals.json."
    ]


def test_that_a_conversation_counts_as_one_item_is_said_where_there_are_any():
    turns = [answer(number, turn=number, status="pass") for number in range(2)]
    (note,) = said(*(ran(turns, status="finished") for _ in range(2)))
    assert note.startswith("Here a conversation passes when all of its turns do")


def test_runs_that_only_names_of_targets_keep_apart_say_how_to_compare_them():
    (note,) = said(side(1, "small"), side(2, "large"), side(3, "small,large"))
    assert note.startswith("A and B have no target of the same name") and note.endswith("; compare A and B alone.")
    (note,) = said(side(1, "small,tiny"), side(2, "large"))
    assert note.startswith("A and B have no target of the same name") and "alone" not in note
    (note,) = said(side(1, prompts=("old",)), side(2, prompts=("new",)), side(3, prompts=("old", "new")))
    assert "no prompt of the same name" in note


def test_runs_that_were_judged_by_other_evaluators_say_so():
    def judged(number, *keys):
        return side(number, judged=[scored(number, key=key) for key in keys])

    assert said(judged(1, "Match", "Cost"), judged(2, "Match")) == [
        "Only A has scores of Cost: to pass may mean something else in each."
    ]
    assert said(judged(1, "Match"), judged(2, "Regex", "Cost")) == [
        "Only A has scores of Match and only B has scores of Cost and Regex: to pass may mean something else in each."
    ]
    assert said(judged(1, "Match"), judged(2)) == []
