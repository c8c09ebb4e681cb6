"""The rules of a dataset: whose each test is, what came of it, what an edit changes, and how all of it is shown."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tui.hostile import FORBIDDEN, STRANGE
from tests.tui.ruled import INVERSE, ITEMS, RULES, add_verdicts, case_of, dataset, ruled_project
from tests.tui.stored_runs import fresh, text_of
from tui_evals.datasets.document import Document
from tui_evals.datasets.editing import Editing
from tui_evals.datasets.paths import CannotEdit
from tui_evals.generate.folder import Test, UnreadableFile, parse_rows, renumber_tests
from tui_evals.generate.request import GenerationRequest, stored_generation_request
from tui_evals.present.columns import cell_width
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.project import load_project
from tui_evals.store.connection import hold, run_lock
from tui_evals.store.writer import Writer
from tui_evals.text.safe import safe_line
from tui_evals.tui.rules.book import (
    CollectedVerdicts,
    Columns,
    RuleRows,
    VerdictBoard,
    VerdictReader,
    VerdictTally,
    head_rows,
    no_rules,
    rate_text,
    rule_rows,
    status_text,
    verdict_board,
)
from tui_evals.tui.rules.screen import Regeneration, price_regeneration
from tui_evals.tui.rules.state import (
    BASELINE,
    LOOSE,
    RuleTexts,
    filter_rules,
    owners_of_tests,
    read_rule_files,
    read_sheet,
    texts_of,
    with_rule,
    with_rules,
    with_text,
    without_rule,
    write_files,
)

TEXTS = RuleTexts(RULES, INVERSE)


def sheet_of(data=None, most=None):
    return read_sheet(dataset() if data is None else data, most)


def owned(data, most=None):
    """The tests of every rule by the rule's text; None for those of none."""
    sheet = read_sheet(data, most)
    found = {line.rule.text: [sheet.cases[test].name for test in line.tests] for line in sheet.lines if line.tests}
    loose = [sheet.cases[test].name for test in sheet.loose]
    return {**found, **({None: loose} if loose else {})}


# -- whose each test is


def test_rules_are_numbered_as_the_command_line_numbers_them():
    assert [rule.number for rule in TEXTS.rules(None).values()] == [1, 2, 3, 4, 5, 6]
    assert [rule.number for rule in TEXTS.rules(2).values()] == [1, 2, 0, 3, 4, 0]


def test_a_sheet_knows_the_tests_of_every_rule():
    sheet = sheet_of()
    assert owned(dataset()) == {
        RULES[0]: ["test-1", "test-2"],
        RULES[1]: ["test-3"],
        INVERSE[1]: ["test-4"],
        INVERSE[2]: ["test-5"],
    }
    assert (sheet.baseline, sheet.loose, sheet.name) == ((5,), (), "tags")


def test_a_test_follows_the_text_of_its_rule_and_one_without_a_text_the_number():
    rules = RuleTexts(("one", "two"), ("not one", "not two")).rules(None)
    facts = [
        {"rule": "two", "inverse": False, "ruleid": 1},
        {"rule": "not one", "inverse": True},
        {"ruleid": 4},
        {"rule": "gone", "inverse": False, "ruleid": 1},
        {"rule": "gone too", "inverse": False, "ruleid": 2},
        {"rule": "gone", "inverse": False},
        {"baseline": True, "ruleid": 1},
    ]
    assert owners_of_tests(facts, rules) == [(False, 2), (True, 1), (True, 2), (False, 1), LOOSE, LOOSE, BASELINE]


def test_what_is_no_dataset_of_rules_has_no_sheet_and_does_no_harm():
    for data in ({}, {"items": [1, None, {}]}, {"extensions": 3, "items": "x"}, {"extensions": {"promptpex": []}}):
        assert read_sheet(data, None).texts == RuleTexts()
    odd = {"prompt": "p", "extensions": {"promptpex": {"rule": ["no text"], "ruleid": "1"}}}
    assert read_sheet(dataset([odd]), None).loose == (0,)


def test_short_inputs_stand_before_long_ones_and_one_alone_without_its_name():
    items = [case_of(1, 1, RULES[0]), {"variables": {"a": "long " * 9, "b": "short", "c": [1]}}, {"prompt": "plain"}]
    asked = [case.question for case in sheet_of(dataset(items)).cases]
    assert asked == ["word 1", f"c: [1] · b: short · a: {'long ' * 9}", "plain"]


def test_words_find_rules_and_only_those_of_their_tests_that_hold_them():
    sheet = sheet_of()
    assert filter_rules(sheet, ["upper", "case"]) == {(False, 1): (0, 1)}
    assert filter_rules(sheet, ["word", "2"]) == {(False, 1): (1,)}
    assert filter_rules(sheet, ["tag4"]) == {(True, 2): (3,)}
    assert list(filter_rules(sheet, [])) == [line.key for line in sheet.lines] + [BASELINE]


# -- edits


def test_a_new_wording_changes_the_lists_and_the_tests_of_that_rule_and_nothing_else():
    data = dataset()
    after = with_rules(data, sheet_of(data), with_text(TEXTS, (True, 2), "  The output\n is long. "))
    assert texts_of(after) == RuleTexts(RULES, (INVERSE[0], "The output is long.", INVERSE[2]))
    assert after["items"][3]["extensions"]["promptpex"]["rule"] == "The output is long."
    assert [after["items"][place] is data["items"][place] for place in range(6)] == [True] * 3 + [False] + [True] * 2
    assert data == dataset()


def test_another_rule_moves_the_numbers_of_the_inverse_ones_and_keeps_a_category_somebody_chose():
    data = dataset([*ITEMS[:4], {**ITEMS[4], "category": "mine"}])
    after = with_rules(data, sheet_of(data), with_rule(TEXTS, "It is short."))
    facts = [item["extensions"]["promptpex"] for item in after["items"]]
    assert [one["ruleid"] for one in facts] == [1, 1, 2, 6, 7]
    assert [item["category"] for item in after["items"]] == ["rule-1", "rule-1", "rule-2", "rule-6", "mine"]
    assert texts_of(after).inverse[-1] == "The output breaks this rule: It is short."


def test_a_deleted_rule_takes_its_inverse_along_and_leaves_its_tests_to_nobody():
    after = with_rules(dataset(), sheet_of(), without_rule(TEXTS, (False, 2)))
    assert texts_of(after) == RuleTexts((RULES[0], RULES[2]), (INVERSE[0], INVERSE[2]))
    assert owned(after) == {RULES[0]: ["test-1", "test-2"], INVERSE[2]: ["test-5"], None: ["test-3", "test-4"]}
    assert after["items"][2]["category"] == "no-rule" and after["items"][4]["category"] == "rule-4"
    assert "ruleid" not in after["items"][2]["extensions"]["promptpex"]


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (lambda: with_text(TEXTS, (False, 1), " \n"), "a rule needs words"),
        (lambda: with_text(TEXTS, (False, 1), RULES[1]), "rule 2 of the list says exactly that"),
        (lambda: with_rule(TEXTS, RULES[2]), "says exactly that"),
        (lambda: without_rule(TEXTS, (True, 1)), "goes with the rule it inverts"),
        (lambda: without_rule(RuleTexts(("one",), ("two",)), (False, 1)), "one rule must be left"),
    ],
)
def test_an_edit_that_cannot_be_says_why(edit, why):
    with pytest.raises(CannotEdit, match=why):
        edit()


def test_lists_of_different_length_are_mended_one_by_one():
    uneven = RuleTexts(RULES, INVERSE[:2])
    assert without_rule(uneven, (False, 2)) == RuleTexts((RULES[0], RULES[2]), INVERSE[:2])
    assert without_rule(uneven, (True, 1)) == RuleTexts(RULES, INVERSE[1:2])
    assert with_rule(uneven, "x").inverse == INVERSE[:2]


EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("reword"), st.booleans(), st.integers(0, 9), st.integers(0, 99)),
        st.tuples(st.just("add"), st.just(False), st.just(0), st.integers(0, 99)),
        st.tuples(st.just("delete"), st.just(False), st.integers(0, 9), st.just(0)),
    ),
    max_size=6,
)


def edited(texts, edit):
    what, inverse, place, number = edit
    key = (inverse, place % len(texts[inverse]) + 1)
    if what == "reword":
        return with_text(texts, key, f"wording {number}")
    return with_rule(texts, f"added {number}") if what == "add" else without_rule(texts, key)


@given(EDITS, st.sampled_from([None, 2]))
def test_after_any_edits_dataset_and_files_agree_whose_each_test_is(tmp_path_factory, edits, most):
    folder = tmp_path_factory.mktemp("rules")
    place = ruled_project(folder).parent
    data, before = dataset(), TEXTS
    for edit in edits:
        try:
            after = edited(before, edit)
        except CannotEdit:
            continue
        write_files(place, before, after, most)
        data, before = with_rules(data, read_sheet(data, most), after), after
    assert texts_of(data) == before == read_rule_files(place / "tags.json").texts
    tests = parse_rows(Test, "tests.json", (place / "tests.json").read_text())
    known = {test.testuid: test for test in renumber_tests(tests, list(before.rules(most).values()))}
    sheet = read_sheet(data, most)
    for line in sheet.lines:
        for test in line.tests:
            assert (known[sheet.cases[test].name].rule, line.rule.text) == (line.rule.text,) * 2
            assert known[sheet.cases[test].name].ruleid == line.rule.number or not line.rule.number
    assert all(known[sheet.cases[test].name].ruleid is None for test in sheet.loose)


@given(EDITS)
def test_undo_brings_every_edit_back(edits):
    first = dataset()
    editing = Editing(Document(Path("tags.json"), "", "x", "document", first))
    for edit in edits:
        try:
            after = edited(texts_of(editing.data), edit)
        except CannotEdit:
            continue
        editing.apply(with_rules(editing.data, read_sheet(editing.data, None), after), "an edit")
    while editing.can_undo:
        editing.undo()
    assert editing.data == first


# -- files


def test_the_files_are_written_from_the_dataset_where_there_are_none(tmp_path):
    place = ruled_project(tmp_path, files=False).parent
    assert read_rule_files(place / "tags.json").texts is None
    write_files(place, TEXTS, with_text(TEXTS, (False, 1), "New."), None)
    assert (place / "rules.txt").read_text() == f"New.\n{RULES[1]}\n{RULES[2]}\n"
    assert (place / "inverse_rules.txt").read_text() == "".join(f"{text}\n" for text in INVERSE)
    assert not (place / "tests.json").exists()


def test_tests_that_cannot_be_read_stop_an_edit_before_anything_is_written(tmp_path):
    place = ruled_project(tmp_path).parent
    (place / "tests.json").write_text("[{]")
    with pytest.raises(UnreadableFile, match=r"tests\.json cannot be read"):
        write_files(place, TEXTS, without_rule(TEXTS, (False, 1)), None)
    assert read_rule_files(place / "tags.json").texts == TEXTS


def test_why_nothing_can_be_made_anew_is_a_sentence(tmp_path):
    file = ruled_project(tmp_path)
    assert read_rule_files(file).cannot == "" and read_rule_files(file).target == "demo"
    assert "writes tags.json, and mine.json is open" in read_rule_files(file.with_name("mine.json")).cannot
    (file.parent / "generation.json").unlink()
    assert "there is no generation.json next to tags.json" in read_rule_files(file).cannot
    (file.parent / "generation.json").write_text("{")
    assert "generation.json cannot be read" in read_rule_files(file).cannot


# -- what came of the tests


async def test_each_test_counts_as_each_model_was_asked_last(tmp_path):
    path, file = fresh(tmp_path), ruled_project(tmp_path)
    await add_verdicts(path, {"test-1": ["fail", "pass"], "test-2": ["pass", "pass"]}, targets=("a", "b"))
    await add_verdicts(path, {"test-1": ["pass"], "test-2": ["error"]}, targets=("a",))
    await add_verdicts(path, {"test-1": ["fail"]}, targets=("a",), source="other/tags.json")
    rates = VerdictReader(path, tmp_path).read(file)
    assert rates.compliance and list(rates.by_target) == ["a", "b"]
    found = verdict_board(sheet_of(), rates)
    assert found.row((False, 1)) == (VerdictTally(1, 1, 1), VerdictTally(2, 2))
    assert found.test(0) == (VerdictTally(1, 1), VerdictTally(1, 1)) and found.test(5) == (
        VerdictTally(),
        VerdictTally(),
    )


async def test_without_compliance_the_status_of_an_answer_counts_and_is_said(tmp_path):
    path, file = fresh(tmp_path), ruled_project(tmp_path)
    await add_verdicts(path, {"test-3": ["pass"]}, key="Match")
    rates = VerdictReader(path, tmp_path).read(file)
    assert rates.by_target == {"demo": {"test-3": VerdictTally(0, 1)}} and not rates.compliance
    head = text_of(head_rows(sheet_of(), verdict_board(sheet_of(), rates), [], 80))
    assert (
        head[1] == "Rates: judged answers that passed all evaluators, each test as it was asked last."[: len(head[1])]
    )


async def test_answers_to_come_are_under_way_only_while_their_run_goes_on(tmp_path):
    path, file = fresh(tmp_path), ruled_project(tmp_path)
    run = await add_verdicts(path, {"test-1": ["pass"], "test-2": [None]}, status="interrupted")
    rater = VerdictReader(path, tmp_path)
    assert rater.read(file).by_target["demo"] == {"test-1": VerdictTally(1, 1)}
    with Writer(path) as writer, hold(run_lock(path, run.key)):
        writer.run_status(run.id, "running")
        writer.flush()
        assert rater.read(file).by_target["demo"]["test-2"] == VerdictTally(open=1)


async def test_a_generation_is_no_run_of_the_dataset(tmp_path):
    path, file = fresh(tmp_path), ruled_project(tmp_path)
    await add_verdicts(path, {}, source="tags.prompty", config={"generation": {"prompt": "tags.prompty"}})
    assert VerdictReader(path, tmp_path).read(file) == CollectedVerdicts({}, True)


# -- rows


@pytest.mark.parametrize(
    ("tally", "says"),
    [
        (VerdictTally(), "–"),
        (VerdictTally(3, 3), "✓ 100 % 3/3"),
        (VerdictTally(2, 3), "◐ 67 % 2/3"),
        (VerdictTally(0, 3), "✗ 0 % 0/3"),
        (VerdictTally(2, 3, errors=1), "◐ 67 % 2/3 !"),
        (VerdictTally(2, 2, open=1), "✓ 100 % 2/2 ▸"),
        (VerdictTally(errors=2), "! 2 errors"),
        (VerdictTally(open=3), "▸ under way"),
    ],
)
def test_a_rate_is_a_sign_and_numbers(tally, says):
    assert rate_text(tally) == says


def test_what_came_of_a_test_is_a_word_or_a_count():
    tallies = ((1, 1), (0, 1), (1, 2), (2, 2), (0, 0, 1), (0, 0, 0, 1), ())
    assert [status_text(VerdictTally(*tally)) for tally in tallies] == [
        "✓ pass", "✗ fail", "◐ 1/2", "✓ 2/2", "! error", "▸", "–",
    ]  # fmt: skip


def shown(data, width, targets=("demo", "other")):
    """Every row of the screen for a dataset."""
    sheet = read_sheet(data, 2)
    tallies = {"test-1": VerdictTally(1, 1), "test-3": VerdictTally(0, 2, 1)}
    rates = CollectedVerdicts(dict.fromkeys(targets, tallies), True)
    found = verdict_board(sheet, rates)
    fits = filter_rules(sheet, [])
    columns = Columns(found, list(fits), width)
    rows = [columns.title(found), *rule_rows(sheet, found, fits, columns), *head_rows(sheet, found, [], width)]
    for key, tests in fits.items():
        rows += RuleRows(sheet, found, key, tests, width)
    return rows


@pytest.mark.parametrize("width", [30, 60, 80, 160])
def test_no_row_is_wider_than_the_screen(width):
    for line in text_of(shown(dataset(), width)):
        assert cell_width(line) <= width, line


@pytest.mark.parametrize("width", [44, 79, 130])
def test_a_long_rule_is_read_whole_in_the_list(width):
    words = " ".join(f"word{number}" for number in range(40))
    sheet = sheet_of(with_rules(dataset(), sheet_of(), with_text(TEXTS, (False, 1), words)))
    found = filter_rules(sheet, [])
    rows = rule_rows(sheet, VerdictBoard(), found, Columns(VerdictBoard(), list(found), width))
    assert [row.key for row in rows if row.key is not None] == list(found)
    text = " ".join(" ".join(piece.text for piece in row.pieces) for row in rows).split()
    assert [word for word in text if word[:4] == "word" and word[4:].isdecimal()] == words.split()


def test_a_narrow_list_says_which_models_have_no_room():
    rows = text_of(shown(dataset(), 60, targets=("one", "two", "three")))
    assert "(+2 models below)" in rows[0] and "one" in rows[0] and "two" not in rows[0]
    assert text_of(shown(dataset(), 30))[0].split()[-1] == "tests"


def test_a_rule_in_full_names_its_inverse_its_ground_and_its_tests():
    evals = [{"ruleid": 1, "rule": RULES[0], "grounded": "err", "groundedText": "Nobody asked for it."}]
    sheet = sheet_of(dataset(ruleEvals=evals))
    rows = text_of(RuleRows(sheet, VerdictBoard(), (False, 1), (0, 1), 80))
    assert rows[0] == "Rule 1" and rows[1] == RULES[0]
    assert rows[2] == "✗ the prompt does not say so: Nobody asked for it."
    assert rows[3] == f"its inverse 4: {INVERSE[0]}"
    assert rows[4].startswith("2 tests") and rows[5].startswith("word 1") and "TAG1" in rows[5]
    listed = text_of(rule_rows(sheet, VerdictBoard(), filter_rules(sheet, []), Columns(VerdictBoard(), [], 80)))
    assert "✗ The tag is upper case." in listed[0] and listed[3].startswith("4    inverts 1: The tag")


def test_a_rule_that_is_not_tested_says_so():
    rows = text_of(RuleRows(sheet_of(most=2), VerdictBoard(), (False, 3), (), 80))
    assert rows[0] == "Rule 3" and "It is not tested; t has tests made for it." in rows[-1]
    assert "tested: the first 2" in text_of(head_rows(sheet_of(most=2), None, [], 90))[0]


@pytest.mark.story
def test_ten_thousand_tests_are_laid_out_when_they_come_into_view():
    sheet = sheet_of(dataset([case_of(number, 1, RULES[0]) for number in range(10_000)]))
    rows = RuleRows(sheet, VerdictBoard(), (False, 1), sheet.lines[0].tests, 80)
    assert len(rows) > 10_000 and rows.find(9_999) == len(rows) - 1 and rows.find("x") is None
    assert text_of([rows[-1]])[0].startswith("word 9999")


def test_a_dataset_without_rules_says_how_to_make_one():
    text = "\n".join(text_of(no_rules("tag.prompty", 60)))
    assert "not made from rules" in text and "tui-evals generate tag.prompty" in text
    assert "tui-evals generate PROMPT" in "\n".join(text_of(no_rules(None, 60)))


def test_hostile_rules_reach_no_row_that_is_drawn_as_it_is():
    data = dataset([case_of(1, 1, STRANGE)], rules=(STRANGE.replace("\n", " "), "b"), inverse=("c", "d"))
    for line in text_of(shown(data, 80)):
        assert not any(bad in safe_line(line).encode("utf-8", "replace") for bad in FORBIDDEN)


# -- making anew


def test_what_is_made_again_is_a_request_and_the_target_of_the_folder_stays_with_the_folder():
    one = Regeneration(Path("/p/tags"), "rule", 2, "the tests of rule 2", 5)
    request = one.request({"target": "a", "other target": " openai/b ", "budget": 0.5}, "a")
    assert (request.prompt, request.again, request.invert) == (Path("/p/tags"), (2,), ())
    assert (request.rules, request.max_cost, request.options) == ("openai/b", 0.5, {"max_rules": 5})
    assert one.request({"target": "a"}, "a").rules is None and one.request({"target": "c"}, "a").rules == "c"
    inverse = Regeneration(Path("/t"), "inverse", 1, "the inverse of rule 1").request({}, None)
    assert (inverse.again, inverse.invert, inverse.options, inverse.title) == ((), (1,), {}, "the inverse of rule 1")


def test_a_request_comes_out_of_the_store_as_it_went_in():
    one = Regeneration(Path("/p/tags"), "rule", 2, "the tests of rule 2", 5).request({"target": "a"}, None)
    for request in (one, GenerationRequest(inline="Say it.", judges=("a", "b"), use_cache=False)):
        assert stored_generation_request(json.loads(json.dumps(request.stored()))) == request


async def test_a_price_that_cannot_be_had_says_why(tmp_path):
    fresh(tmp_path)
    request = Regeneration(tmp_path / "nowhere", "rule", 1, "").request({}, None)
    with pytest.raises(CannotPlan, match="nowhere"):
        price_regeneration(load_project(tmp_path), request)
