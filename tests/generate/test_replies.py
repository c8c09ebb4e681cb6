"""What a generation says when a model declines, writes nothing, chats, miscounts, or writes far too much."""

import json

import pytest

from tests.generate.replies import REFUSAL
from tests.generate.test_pipeline import amounts
from tests.tui.story import at_the_workbench

LINES = {"intent": "intent.txt", "inputspec": "input_spec.txt", "rules": "rules.txt", "inverse": "inverse_rules.txt"}


@pytest.mark.cases(2)
@pytest.mark.parametrize("reply", ["refusal", "empty"])
@pytest.mark.parametrize("step", LINES)
def test_a_step_that_gets_no_text_says_which_file_to_write_or_what_else_to_do(shop, step, reply):
    shop.server.behave(step, always=reply)
    told = shop.generate(*amounts(shop), code=1).err
    (said,) = [line for line in told.splitlines() if line.startswith(f"{step}: ")]
    assert {"refusal": "writer declined: “I'm sorry, but I can't", "empty": "writer wrote no "}[reply] in said
    assert f"shop/{LINES[step]}" in said and "--target" in said and "instructions" in said
    assert not (shop.folder / LINES[step]).exists()
    (shop.folder / LINES[step]).write_text("A line.\nAnother line.\n")
    shop.generate()
    assert (shop.folder / "shop.json").exists()


@pytest.mark.parametrize("step", ["intent", "inputspec"])
def test_an_empty_reply_is_asked_for_once_more(shop, step):
    shop.server.behave(step, first=("empty",))
    assert shop.generate(*amounts(shop), "--until", step).err == ""
    assert shop.server.asked(step) == 2


def test_a_reply_that_holds_no_rule_is_said_to_hold_none(shop):
    shop.server.behave("rules", always="none")
    told = shop.generate(*amounts(shop), code=1).err
    assert "rules: writer wrote no output rules" in told and "shop/rules.txt" in told and "--target" in told


def test_a_file_of_rules_without_a_rule_is_written_anew(shop):
    shop.folder.mkdir()
    (shop.folder / "rules.txt").write_text("\n \n")
    shop.generate(*amounts(shop), "--until", "rules")
    assert len(shop.lines("rules.txt")) == 2


def test_500_rules_are_refused_with_the_file_and_the_option(shop):
    shop.server.behave("rules", always="many")
    told = shop.generate(*amounts(shop), code=1).err
    (said,) = [line for line in told.splitlines() if line.startswith("inverse: ")]
    assert "shop/rules.txt holds 500 rules" in said and "--max-rules" in said and "100" in said
    assert shop.server.asked("inverse", "tests") == 0
    (shop.folder / "rules.txt").write_text("\n".join(shop.lines("rules.txt")[:2]) + "\n")
    shop.generate()
    assert len(shop.rows("tests.json")) == 4


def test_500_inverse_rules_for_two_are_kept_with_a_word_and_only_as_many_are_tested(shop):
    shop.server.behave("inverse", always="many")
    told = shop.generate(*amounts(shop)).err
    assert "inverse_rules.txt holds 500 rules where rules.txt holds 2, after 4 attempts" in told
    assert shop.server.asked("inverse") == 4
    assert len(shop.rows("tests.json")) == 4


def test_too_few_inverse_rules_are_asked_for_again_until_the_number_is_right(shop):
    shop.server.behave("inverse", first=("few", "few", "few"))
    assert shop.generate(*amounts(shop)).err == ""
    assert shop.server.asked("inverse") == 4 and len(shop.lines("inverse_rules.txt")) == 2


def test_after_four_attempts_the_last_inverse_rules_are_kept_with_a_word(shop):
    shop.server.behave("inverse", always="few")
    told = shop.generate(*amounts(shop)).err
    assert "inverse_rules.txt holds 1 rules where rules.txt holds 2, after 4 attempts" in told
    assert [test["ruleid"] for test in shop.rows("tests.json")] == [1, 2, 3]


# -- tests as CSV


@pytest.mark.parametrize("reply", ["refusal", "empty", "nonsense"])
def test_where_no_reply_is_csv_the_options_and_the_file_are_named(shop, reply):
    shop.server.behave("tests", "repair", always=reply)
    told = shop.generate(*amounts(shop), code=1).err
    (said,) = [line for line in told.splitlines() if line.startswith("tests: ")]
    assert "no test could be read from what writer wrote" in said
    for word in ("--target", "--max-rules-per-test-generation 1", "--tests-per-rule 1", "shop/tests.json", "ruleid"):
        assert word in said
    assert ("writer declined" in told) == (reply == "refusal")
    assert not (shop.folder / "tests.json").exists() and shop.server.asked("groundtruth") == 0


@pytest.mark.parametrize("reply", ["nonsense", "empty", "columns"])
def test_a_reply_without_tests_is_asked_for_once_more_as_csv(shop, reply):
    shop.server.behave("tests", always=reply)
    shop.generate(*amounts(shop), "--until", "tests")
    assert shop.server.asked("repair") == 4 and len(shop.rows("tests.json")) == 4


@pytest.mark.parametrize("reply", ["chatter", "bare_chatter"])
def test_chatter_around_the_csv_costs_no_test(shop, reply):
    shop.server.behave("tests", always=reply)
    shop.generate(*amounts(shop))
    assert shop.server.asked("repair") == 0
    assert [test["testinput"] for test in shop.rows("tests.json")] == [
        f"question: rule {number}, test 1 (open)" for number in (1, 2, 3, 4)
    ]


def test_rows_with_a_wrong_number_of_cells_are_left_out_and_counted(shop):
    shop.server.behave("tests", always="some_columns")
    told = shop.generate(*amounts(shop, tests=3, at_once=3)).err
    assert told.count("tests: 2 of 6 rows were left out: they have another number of cells") == 2
    assert len(shop.rows("tests.json")) == 8


# -- the steps behind


@pytest.mark.parametrize("reply", ["refusal", "empty", "nonsense"])
def test_a_baseline_that_cannot_be_read_names_option_and_file(project, reply):
    project.server.behave("baseline", always=reply)
    told = project.generate(*amounts(project), "--baseline-tests", code=1).err
    (said,) = [line for line in told.splitlines() if line.startswith("baseline: ")]
    assert "writer wrote no baseline test that could be read" in said
    assert "--baseline-model" in said and "shop/baseline_tests.txt" in said


@pytest.mark.parametrize("reply", ["refusal", "empty", "nonsense"])
def test_an_input_that_is_not_made_longer_stays_as_it_is(project, reply):
    project.server.behave("expansion", always=reply)
    project.generate(*amounts(project), "--test-expansions", 1)
    for test in project.rows("tests.json"):
        if test["scenario"] == "english" or reply != "nonsense":
            assert test["testinput"] == test["testinputOriginal"]
    assert len(json.loads(project.read("shop.json"))["items"]) == 8


@pytest.mark.parametrize("reply", ["refusal", "empty", "chatter"])
def test_a_verdict_that_cannot_be_read_is_unknown(shop, reply):
    shop.server.behave("validity", "groundedness", "compliance", always=reply)
    shop.generate(*amounts(shop), "--validity", "--groundedness", "--coverage")
    rows = shop.rows("test_evals.json")
    assert [(row["validity"], row["coverage"]) for row in rows] == [("unknown", "unknown")] * 4
    assert {row["grounded"] for row in shop.rows("rule_evals.json")} == {"unknown"}


@pytest.mark.parametrize("step", ["validity", "groundedness", "groundtruth"])
def test_calls_that_fail_are_counted_in_a_note_and_tried_again_by_the_same_command(shop, step):
    options = (*amounts(shop), "--validity", "--groundedness", "--quiet")
    shop.server.behave(step, first=("400",) * 4)
    told = shop.generate(*options).err
    name = "review" if step == "validity" else step
    counted = "0 of 2 rules done, 2 failed." if step == "groundedness" else "0 of 4 tests done, 4 failed."
    assert f"note: {name}: {counted} Reason: " in told and "The server is unwell" in told
    assert "The same command retries the failed ones." in told
    shop.server.manners.clear()
    shop.generate(*options)
    assert shop.server.answered(step) == (2 if step == "groundedness" else 4)
    assert all(item["expected_response"] for item in json.loads(shop.read("shop.json"))["items"])


async def test_the_workbench_says_at_the_end_how_many_pieces_were_made_and_how_many_failed_and_why(shop):
    shop.server.behave("groundtruth", first=("400",) * 4)
    async with at_the_workbench(shop.root, size=(160, 45)) as person:
        shop.generating(*amounts(shop))
        await person.until(lambda: "shop.json is made" in person.said(), 60)
        assert "groundtruth: 0 of 4 tests done, 4 failed. Reason: " in person.said() and "8 retries" in person.said()


def test_a_judge_without_a_number_leaves_the_ground_truth_unscored(shop):
    shop.server.behave("groundtruth-judge", always="refusal")
    shop.generate(*amounts(shop))
    truths = shop.rows("test_groundtruth.json")
    assert len(truths) == 4 and not any("groundtruthScore" in truth for truth in truths)
    assert shop.server.asked("groundtruth") == 4, "nothing is tried again"


@pytest.mark.parametrize(
    ("scores", "tries", "score"), [((70, 75, 60, 85), 4, 85), ((40,) * 4, 4, -1), ((60,) * 4, 4, 60), ((80,), 1, 80)]
)
def test_ground_truth_is_tried_again_until_it_is_good_enough(shop, scores, tries, score):
    shop.server.scores = scores
    shop.generate(*amounts(shop))
    assert shop.server.asked("groundtruth") == 4 * tries
    assert {truth["groundtruthScore"] for truth in shop.rows("test_groundtruth.json")} == {score}
    for item in json.loads(shop.read("shop.json"))["items"]:
        assert item["expected_response"].startswith(f"Answer no. {tries} to" if score >= 50 else "say ")


def test_a_refusal_is_an_answer_like_any_other_to_the_prompt_under_test(shop):
    shop.server.behave("groundtruth", always="refusal")
    shop.generate(*amounts(shop))
    assert {truth["output"] for truth in shop.rows("test_groundtruth.json")} == {REFUSAL}


def test_an_empty_answer_is_no_ground_truth_and_the_options_are_named(shop):
    shop.server.behave("groundtruth", always="empty")
    told = shop.generate(*amounts(shop)).err
    assert (
        "note: groundtruth: 0 of 4 tests done, 4 failed. First reason: " in told
        and "truth answered nothing to the test test-" in told
    )
    assert "--groundtruth-model" in told and "--no-groundtruth" in told
    assert shop.server.asked("groundtruth") == 16 and shop.rows("test_groundtruth.json") == []
    expected = [item["expected_response"] for item in json.loads(shop.read("shop.json"))["items"]]
    assert expected == [f'say "rule {number}, test 1"' for number in (1, 2, 3, 4)]
    shop.server.manners.clear()
    shop.generate("--no-groundtruth")
