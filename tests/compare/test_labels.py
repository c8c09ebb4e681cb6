"""Labels of people against verdicts: which count, which are left out, and what is looked at first."""

import re

import pytest

from tests.compare.labelled_runs import JUDGE, OTHER, label, labelled_run, score
from tui_evals.compare.labels import (
    Agreement,
    agreement_json,
    agreement_lines,
    all_agreement_lines,
    evaluator_agreements,
)
from tui_evals.store.reader import Reader

PASS, FAIL = [score()], [score(value=0.0, result="fail")]


async def stood(folder, answers, *labels, evaluator=None, limit=10, **given):
    """Where evaluators stand after labels, each of them `(verdicts, keywords)`."""
    path, run = await labelled_run(folder, answers, **given)
    for signs, more in labels:
        label(path, run, dict(enumerate(signs)) if isinstance(signs, str) else signs, **more)
    with Reader(path) as reader:
        return evaluator_agreements(reader, reader.run(run.id), evaluator, limit)


def text(found):
    return "\n".join(line.text for line in all_agreement_lines(found, "abc123"))


async def test_a_label_stands_against_the_verdict_on_the_whole_answer(tmp_path):
    two = [score(), score(OTHER)], [score(), score(OTHER, 0.0, "fail")]
    (found,) = await stood(tmp_path, [*two, *two], ("+--+", {}))
    assert found.evaluator is None
    assert found.agreement == Agreement(both_pass=1, both_fail=1, only_person=1, only_judge=1)


async def test_labels_given_with_the_verdict_in_sight_are_said_to_be(tmp_path):
    (found,) = await stood(tmp_path, [PASS, FAIL, PASS], ("+", {}), ({1: "-", 2: "+"}, {"blind": True}))
    assert (found.not_blind, agreement_json(found)["not_blind"]) == (1, 1)
    assert "1 label was given with the verdict in sight" in text([found])
    (tmp_path / "b").mkdir()
    (blind,) = await stood(tmp_path / "b", [PASS, FAIL], ("+-", {"blind": True}))
    assert "in sight" not in text([blind])


async def test_a_label_of_an_evaluator_stands_against_its_verdict_alone(tmp_path):
    answers = [[score(), score(OTHER, 0.0, "fail")]] * 2
    (found,) = await stood(tmp_path, answers, ("+-", {"evaluator": JUDGE}))
    assert (found.evaluator, found.whole_labels) == (JUDGE, 0)
    assert found.agreement == Agreement(1, 0, 0, 1)


async def test_labels_of_whole_answers_stand_for_the_only_evaluator_and_it_is_said(tmp_path):
    (found,) = await stood(tmp_path, [PASS, FAIL, PASS], ("+-", {}))
    assert (found.evaluator, found.whole_labels, found.agreement.n) == (JUDGE, 2, 2)
    assert "No other evaluator has verdicts in this run, so 2 labels of whole answers count for it too." in text(
        [found]
    )


async def test_a_label_of_another_evaluator_does_not_stand_for_the_only_one(tmp_path):
    found = await stood(tmp_path, [PASS, PASS], ("-", {"evaluator": "Gone"}), ({1: "+"}, {}))
    assert [(one.evaluator, one.agreement.n, one.unjudged) for one in found] == [("Gone", 0, 1), (JUDGE, 1, 0)]


async def test_its_own_label_goes_before_that_of_the_whole_answer(tmp_path):
    found = await stood(tmp_path, [PASS, PASS], ("--", {}), ("+", {"evaluator": JUDGE}))
    assert [one.evaluator for one in found] == [None, JUDGE]
    assert (found[1].agreement, found[1].whole_labels) == (Agreement(1, 0, 0, 1), 1)
    assert found[0].agreement == Agreement(0, 0, 0, 2)


async def test_where_the_only_evaluator_does_not_decide_alone_both_are_told(tmp_path):
    """The other one failed to judge the first answer, so that one is partial as a whole."""
    broken = [score(), score(OTHER, None, "error")]
    found = await stood(tmp_path, [broken, PASS], ("+-", {}))
    assert [(one.evaluator, one.agreement.n, one.unjudged) for one in found] == [(JUDGE, 2, 0)]
    answers = [[score(), score(OTHER)], [score(value=0.0, result="fail"), score(OTHER)]]
    (whole,) = await stood(tmp_path / "two", answers, ("++", {}))
    assert (whole.evaluator, whole.agreement) == (None, Agreement(1, 0, 1, 0))


@pytest.mark.parametrize("missing", ["error", "unscored", [score(value=0.2, result=None)]])
async def test_answers_without_a_verdict_are_left_out_and_counted(tmp_path, missing):
    (found,) = await stood(tmp_path, [PASS, missing, FAIL], ("++-", {}))
    assert (found.agreement.n, found.unjudged) == (2, 1)
    assert "1 labelled answer has no verdict: left out." in text([found])


async def test_answers_on_which_people_differ_are_left_out_of_what_they_say_together(tmp_path):
    (found,) = await stood(tmp_path, [PASS, PASS, FAIL], ("++-", {"author": "ada"}), ("+--", {"author": "bob"}))
    assert (found.agreement, found.people_differ) == (Agreement(1, 1, 0, 0), 1)
    assert found.authors == {"ada": Agreement(2, 1, 0, 0), "bob": Agreement(1, 1, 0, 1)}
    assert found.between == {("ada", "bob"): Agreement(1, 1, 1, 0)}
    says = text([found])
    assert "On 1 answer people differ among themselves: left out." in says
    assert "ada and bob between them: 3 answers, 66.7 % agree, kappa 0.40, fair" in says
    assert "bob: 3 answers, 66.7 % agree" in says


async def test_the_surest_disagreements_come_first_and_the_rest_in_the_order_of_the_plan(tmp_path):
    """The scores go from 1 to 5 and pass from 3: 1 and 5 are surest, and 1 stands first."""
    marks = [3, 4, 1, 2, 5]
    answers = [[score(value=float(m), result="pass" if m >= 3 else "fail", threshold=3.0)] for m in marks]
    (found,) = await stood(tmp_path, answers, ("--++-", {}))
    assert [one.row.name for one in found.disagreements] == ["t-2", "t-4", "t-1", "t-3", "t-0"]
    assert [one.verdict.certainty for one in found.disagreements] == [0.5, 0.5, 0.25, 0.25, 0.0]


async def test_of_a_whole_answer_one_sure_fail_is_enough_and_a_pass_needs_all(tmp_path):
    def pair(one, other):
        return [
            score(key, value, "pass" if value >= 0.5 else "fail", 0.5) for key, value in ((JUDGE, one), (OTHER, other))
        ]

    answers = [pair(1.0, 0.6), pair(0.9, 0.9), pair(0.0, 0.4), pair(0.4, 0.3), pair(0.0, 0.0), pair(1.0, 1.0)]
    (found,) = await stood(tmp_path, answers, ("--++-+", {}))
    assert [one.row.name for one in found.disagreements] == ["t-2", "t-1", "t-3", "t-0"]
    assert [round(one.verdict.certainty, 3) for one in found.disagreements] == [0.5, 0.4, 0.2, 0.1]


async def test_a_disagreement_is_told_with_both_sides_and_the_command_that_shows_it(tmp_path):
    answers = [[score(value=2.0, result="fail", threshold=3.0, reason="too [/b] vague")], PASS]
    (found,) = await stood(tmp_path, answers, ("++", {"note": "it is clear"}))
    lines = [line.text for line in agreement_lines(found, "abc123")]
    at = lines.index("t-0: people say good, it fails with 2 (at least 3)")
    assert lines[at + 1 :] == ["it says: too [/b] vague", "ada says: it is clear", "tui-evals show abc123 --item t-0"]


async def test_only_so_many_disagreements_are_listed(tmp_path):
    (found,) = await stood(tmp_path, [PASS] * 5, ("-----", {}), limit=2)
    assert len(found.disagreements) == 2
    assert "surest (2 of 5):" in text([found])
    (none,) = await stood(tmp_path / "none", [PASS] * 5, ("-----", {}), limit=0)
    assert "Look at these" not in text([none])


async def test_a_column_is_named_where_there_are_several(tmp_path):
    (found,) = await stood(tmp_path, [PASS], ("+-", {}), targets=("one", "two"))
    assert found.disagreements[0].column == "two"
    assert "t-0 · two: people say bad" in text([found])


async def test_an_item_whose_name_a_shell_would_read_is_quoted(tmp_path):
    (found,) = await stood(tmp_path, [PASS], ("-", {}), name_of="#{}; rm -rf".format)
    assert "--item '#0; rm -rf'" in text([found])


async def test_nothing_labelled_is_nothing_to_tell(tmp_path):
    assert await stood(tmp_path, [PASS, FAIL]) == []


# -- words


async def test_numbers_are_told_in_words(tmp_path):
    answers = [PASS] * 4 + [FAIL] * 4
    says = text(await stood(tmp_path, answers, ("+++-+---", {})))
    lines = [re.sub(" {2,}", ": ", line) for line in says.splitlines()]
    assert {"people say good, and it passes: 3", "people say bad, and it fails: 3"} <= set(lines)
    assert {"people say good, but it fails: 1", "people say bad, but it passes: 1"} <= set(lines)
    assert "They agree on 6 of 8 answers (75.0 %, 95 % interval 39 % to 97 %)." in says
    assert "Kappa 0.50: moderate agreement (95 % interval -0.21 to 0.94)." in says


@pytest.mark.parametrize(
    ("records", "sign", "word"), [(PASS, "+", "good, and all pass"), (FAIL, "-", "bad, and all fail")]
)
async def test_where_all_is_one_verdict_it_is_said_why_there_is_no_kappa(tmp_path, records, sign, word):
    (found,) = await stood(tmp_path, [records] * 3, (sign * 3, {}))
    assert f"Kappa is unknown: all are called {word}, so nothing shows" in text([found])
    assert agreement_json(found)["kappa"] is None and agreement_json(found)["words"] is None


@pytest.mark.parametrize(
    ("answers", "signs", "says"),
    [
        ((PASS, FAIL), "+-", "Kappa 1.00: almost perfect agreement (95 % interval -0.50 to 1.00)."),
        ((PASS, PASS, PASS), "++-", "Kappa 0.00: slight agreement (95 % interval -0.74 to 0.92)."),
        ((PASS, PASS, FAIL), "+++", "Kappa 0.00: slight agreement (95 % interval -0.74 to 0.92)."),
    ],
)
async def test_a_few_labels_that_agree_are_not_told_as_certainty(tmp_path, answers, signs, says):
    assert says in text(await stood(tmp_path, answers, (signs, {})))


async def test_labels_that_meet_no_verdict_are_said_to(tmp_path):
    (found,) = await stood(tmp_path, ["unscored", PASS], ("+", {"evaluator": JUDGE}))
    assert "No labelled answer has a verdict that it could be compared with." in text([found])


async def test_plain_data_holds_all_of_it(tmp_path):
    (found,) = await stood(tmp_path, [PASS, FAIL, PASS], ("+--", {"note": "no"}))
    data = agreement_json(found)
    assert (data["evaluator"], data["answers"], data["both_pass"], data["only_evaluator_passes"]) == (JUDGE, 3, 1, 1)
    (one,) = data["disagreements"]
    assert (one["item"], one["person"], one["evaluator"], one["score"], one["turn"]) == ("t-2", "fail", "pass", 1.0, 1)
    assert one["labels"] == [{"author": "ada", "verdict": "fail", "note": "no"}]
