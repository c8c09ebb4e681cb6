"""What PromptPex wrote, read whatever release wrote it: files, contexts, tables, and rows that are not quite right."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.generate.folder import UnreadableFile
from tui_evals.imports.promptpex.artefacts import (
    Piece,
    RecordedResult,
    RecordedTest,
    RecordedTestEval,
    gather,
    holds_artefacts,
    rows_in,
)
from tui_evals.imports.promptpex.runs import (
    Items,
    Tests,
    differences,
    evaluators_for,
    judged_by,
    keys_for,
    recording_of,
    records_of,
    written_tests,
)

RECORDED = Path(__file__).parent / "promptpex"


def rows(kind, value, *, table=False):
    return list(rows_in(kind, Piece("f", value if table or isinstance(value, str) else json.dumps(value), table)).rows)


def result(**given):
    return RecordedResult.model_validate({"testinput": "q", "ruleid": 1, "model": "m", "output": "a", **given})


# -- where things are found


def test_a_folder_is_gathered_with_the_prompt_that_stands_above_it():
    found = gather(RECORDED / "tone")
    assert (found.name, found.prompt) == ("tone", (RECORDED / "tone.prompty").resolve())
    assert len(found.lines("rules")) == len(found.lines("inverse_rules")) == 2
    assert len(found.rows("test_results", RecordedResult)) == 10


def test_the_older_tables_read_like_the_newer_files():
    found = gather(RECORDED / "older")
    tests = found.rows("tests", RecordedTest)
    assert [(test.ruleid, test.testinput) for test in tests] == [(1, 'Dear all, "hello"'), (2, "Two\nlines, cold.")]
    answers = found.rows("test_results", RecordedResult)
    assert [row.ruleid for row in answers] == [1, 2, None, 1, 2, None]
    assert [bool(row.baseline) for row in answers] == [False, False, True] * 2


def test_a_file_of_tests_comes_without_answers_and_wins_over_its_twin(tmp_path):
    shutil.copytree(RECORDED / "tone", tmp_path / "tone")
    (tmp_path / "tone" / "tests.csv").write_text("ruleid,testinput\n1,only this\n")
    found = gather(tmp_path / "tone" / "tests.csv")
    assert [test.testinput for test in found.rows("tests", RecordedTest)] == ["only this"]
    assert "test_results" not in found.pieces
    assert found.lines("rules")


def test_a_context_holds_files_with_names_plain_values_and_maps_of_files(tmp_path):
    context = {
        "name": "tone",
        "frontmatter": {"instructions": {"inputSpec": "be brief"}},
        "intent": {"filename": "C:\\out\\tone\\intent.txt", "content": "say the tone"},
        "inputSpec": "a message",
        "files": {"tone/rules.txt": "one\ntwo", "inverse_rules.txt": {"content": "not one\nnot two"}},
        "promptPexTests": [{"ruleid": "1", "testinput": "from memory"}],
        "pptests": {"filename": "tone/tests.json", "content": '[{"ruleid": 1, "testinput": "from the file"}]'},
        "testOutputs": {"filename": "tone/test_results.json", "content": ""},
        "prompt": {"filename": "tone.prompty", "content": "system:\nSay {{message}}"},
        "options": {"evalModels": ["azure:judge"]},
        "something": {"new": [1]},
    }
    (tmp_path / "promptpex_context.json").write_text(json.dumps(context))
    found = gather(tmp_path / "promptpex_context.json")
    assert (found.name, found.text("intent"), found.text("input_spec")) == ("tone", "say the tone", "a message")
    assert (found.lines("rules"), found.lines("inverse_rules")) == (["one", "two"], ["not one", "not two"])
    assert [test.testinput for test in found.rows("tests", RecordedTest)] == ["from the file"]
    assert "test_results" not in found.pieces
    assert (found.text("prompt"), found.judges) == ("system:\nSay {{message}}", ("azure:judge",))


def test_a_file_in_the_folder_wins_over_the_context(tmp_path):
    (tmp_path / "rules.txt").write_text("edited")
    (tmp_path / "promptpex_context.json").write_text(json.dumps({"rules": {"filename": "rules.txt", "content": "old"}}))
    assert gather(tmp_path).lines("rules") == ["edited"]
    assert gather(tmp_path / "promptpex_context.json").lines("rules") == ["old"]


@pytest.mark.parametrize("name", ["../../etc/x", "a\\b", "", ".", "..", ".hidden", "x\x1b[2J", 7, None])
def test_a_name_that_leads_elsewhere_is_not_taken_from_a_context(tmp_path, name):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "promptpex_context.json").write_text(json.dumps({"name": name, "rules": "r"}))
    assert gather(folder).name == "mine"


def test_a_report_is_known_by_what_it_holds(tmp_path):
    file = tmp_path / "report.json"
    file.write_text(json.dumps({"total": 1}))
    assert not holds_artefacts(file) and not holds_artefacts(tmp_path)
    file.write_text(json.dumps({"rules": ["one"], "tests": [{"ruleid": "1", "testinput": "q"}], "testResults": []}))
    assert holds_artefacts(file) and holds_artefacts(tmp_path)
    assert gather(tmp_path).lines("rules") == ["one"]


# -- rows that are not quite right


@pytest.mark.parametrize("written", ["", "NaN", None, "null", "  "])
def test_a_baseline_row_without_a_number_of_a_rule_has_none(written):
    assert rows(RecordedTest, [{"ruleid": written, "testinput": "q"}])[0].ruleid is None


def test_a_bare_nan_is_nothing_and_numbers_may_be_text():
    text = '[{"ruleid": NaN, "testinput": "q"}, {"ruleid": "3", "testinput": 7, "groundtruthScore": "85.5"}]'
    first, second = rows(RecordedTest, text)
    assert first.ruleid is None
    assert (second.ruleid, second.testinput, second.groundtruthScore) == (3, "7", 85.5)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([{"ruleid": "three"}], "f, entry 1, ruleid: 'three' is no number"),
        ([{"ruleid": 1.5}], "f, entry 1, ruleid: '1.5' is no whole number"),
        ([{"baseline": "perhaps"}], "f, entry 1, baseline: 'perhaps' is neither true nor false"),
        ([{"ruleid": 1e300}], "f, entry 1, ruleid: '1e+300' is no number"),
        (["q"], "f, entry 1: must be an object, such as {...}"),
        ({"a": 1}, "f must hold a list of objects, such as [{...}]"),
    ],
)
def test_a_wrong_field_is_named_with_its_entry(value, said):
    with pytest.raises(UnreadableFile) as problem:
        rows(RecordedTest, value)
    assert str(problem.value) == said


@pytest.mark.parametrize(
    ("value", "table", "where"),
    [
        ("ruleid;testinput;output\n1;a;b\n", True, "line 2"),
        ("1,a,b\n2,c,d\n", True, "line 2"),
        ([{"a": 1}], False, "entry 1"),
    ],
)
def test_rows_of_another_kind_are_named_with_the_fields_that_are_read(value, table, where):
    with pytest.raises(UnreadableFile, match=rf"f, {where}: has none of the fields .* testinput"):
        rows_in(RecordedResult, Piece("f", value, table))


def test_broken_json_is_named_with_its_line():
    with pytest.raises(UnreadableFile, match=r"^f:2 cannot be read: not valid JSON"):
        rows(RecordedTest, '[\n{"a": }]')


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ruleid,testinput\n2,b,c\n", "f, line 2 has 3 cells, but the header has 2"),
        ('ruleid,testinput\n1,"a\n', "f, line 2 cannot be read as a row of a table: unexpected end of data"),
        ("ruleid,testinput\nx,a\n", "f, line 2, ruleid: 'x' is no number"),
    ],
)
def test_a_broken_table_is_named_with_its_line(text, said):
    with pytest.raises(UnreadableFile) as problem:
        rows(RecordedTest, text, table=True)
    assert str(problem.value) == said


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from([*RecordedResult.model_fields, "input", "x"]), _JSON, st.sampled_from([RecordedResult]))
def test_whatever_stands_in_a_field_is_read_or_named(field, value, kind):
    try:
        found = rows_in(kind, Piece("f", [{field: value}]))
    except UnreadableFile as problem:
        assert str(problem).startswith("f, entry 1: has none" if field == "x" else "f, entry 1, ")
    else:
        found.rows[0].model_dump_json()


# -- tests as items


def made(tests, *, rules="one\ntwo", inverse="not one\nnot two", truths=(), evals=()):
    pieces = {"rules": Piece("r", rules), "inverse_rules": Piece("i", inverse), "test_evals": Piece("e", list(evals))}
    found = gather(RECORDED / "tone")
    making = Items(type(found)(found.folder, "p", pieces, None), None, truths)
    items = [making.item(RecordedTest.model_validate(test), place) for place, test in enumerate(tests)]
    return items, making.notes


def test_rules_are_numbered_through_both_files():
    items, notes = made([{"ruleid": n, "testinput": "q"} for n in range(1, 5)])
    facts = [item["extensions"]["promptpex"] for item in items]
    assert [(one["rule"], one["inverse"], one["of"]) for one in facts] == [
        ("one", False, 1),
        ("two", False, 2),
        ("not one", True, 1),
        ("not two", True, 2),
    ]
    assert [item.get("tags") for item in items] == [None, None, ["inverse"], ["inverse"]]
    assert notes == []


def test_a_number_that_contradicts_the_flag_is_decided_by_the_text_of_the_rule():
    items, notes = made([{"ruleid": 2, "inverse": True, "rule": "not one", "testinput": "q"}])
    assert items[0]["category"] == "rule-3"
    items, notes = made([{"ruleid": 2, "inverse": True, "testinput": "q"}, {"ruleid": 9, "testinput": "q"}])
    assert [item["category"] for item in items] == ["rule-2", "rule-9"]
    assert items[0]["tags"] == ["inverse"]
    assert "rule" not in items[0]["extensions"]["promptpex"]
    assert notes == ["some tests name a rule that is not in rules.txt or inverse_rules.txt (and 1 more)"]


def test_an_empty_input_can_be_asked_without_a_prompt():
    items, _ = made([{"ruleid": 1, "testinput": ""}])
    assert items[0]["messages"] == [{"role": "user", "content": ""}]


@pytest.mark.parametrize(("score", "expected"), [(None, "true"), (50, "true"), (49, "wanted"), (-1, "wanted")])
def test_ground_truth_is_expected_unless_it_was_found_bad(score, expected):
    test = {"ruleid": 1, "testinput": "q", "expectedoutput": "wanted", "groundtruth": "true", "groundtruthScore": score}
    assert made([test])[0][0]["expected_response"] == expected


def test_what_was_found_out_is_matched_by_uid_else_by_input():
    truth = result(testuid="b", testinput="q", output="true", model="big", isGroundtruth=True)
    evals = [{"testuid": "a", "input": "z", "validity": "ok"}, {"input": "q", "validity": "err"}]
    tests = [{"testuid": "a", "testinput": "q"}, {"testuid": "b", "testinput": "q"}]
    items, _ = made(tests, truths=[truth], evals=evals)
    facts = [item["extensions"]["promptpex"] for item in items]
    assert [one["validity"] for one in facts] == ["ok", "err"]
    assert [one.get("groundtruth") for one in facts] == [None, "true"]


def test_baseline_tests_of_their_own_file_are_added_once():
    found = gather(RECORDED / "older")
    tests = written_tests(found)
    assert [bool(test.baseline) for test in tests.rows] == [False, False, True]
    pieces = {**found.pieces, "baseline_tests": Piece("b", "Test case 1:\nSee you at noon.\n===\nnew one")}
    pieces["tests"] = Piece("t", [{"testinput": "See you at noon.", "baseline": True, "testuid": "x"}])
    tests = written_tests(type(found)(found.folder, "p", pieces, None))
    assert [test.testinput for test in tests.rows] == ["See you at noon.", "new one"]


# -- answers


def numbers(recording):
    return [(answer.item, answer.target, answer.repeat) for answer in recording.answers]


def test_judged_rows_that_are_followed_by_their_originals_count_once():
    judged = [result(testinput=q, model=m, compliance="ok") for m in "ab" for q in "xy"]
    originals = [result(testinput=q, model=m, output="asked twice") for m in "ab" for q in "xy"]
    found = recording_of([*judged, *originals], Tests([]))
    assert numbers(found) == [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0)]
    assert all(row.compliance == "ok" for row in found.rows)
    assert found.notes == ("4 rows that are there twice, without a verdict",)


def test_repeats_are_no_copies_even_when_the_last_was_not_judged():
    asked = [result(testinput=q, output=n, compliance="ok") for q in "xy" for n in "12"]
    asked[-1] = result(testinput="y", output="2")
    found = recording_of(asked, Tests([]))
    assert numbers(found) == [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1)]
    assert (found.repeats, found.notes) == (2, ())


def test_ground_truth_is_no_answer_of_a_model_under_test():
    found = recording_of([result(), result(model="big", isGroundtruth=True)], Tests([]))
    assert found.models == ("m",)
    assert found.notes == ("1 row of ground truth, which is no answer of a model under test",)


def test_two_names_are_two_tests_and_no_name_goes_by_input_and_rule():
    tests = Tests(
        [
            RecordedTest(testuid="a", testinput="q", ruleid=1),
            RecordedTest(testuid="b", testinput="q", ruleid=2),
            RecordedTest(testinput="r", ruleid=1),
        ]
    )
    places = [
        tests.place_of(result(testuid="b")),
        tests.place_of(result(ruleid=2)),
        tests.place_of(result(testuid="new", testinput="r")),
        tests.place_of(result(testuid="new", ruleid=1)),
        tests.place_of(result(testinput="r", baseline=True, ruleid=None)),
    ]
    assert places == [1, 1, 2, 3, 4]
    assert [test.testuid for test in tests.rows] == ["a", "b", None, "new", None]


def test_the_digest_tells_recordings_apart():
    one, same, other = ([result(output=said, metrics={"m with j": {"score": 1}})] for said in ("a", "a", "b"))
    digests = [recording_of(rows, Tests([])).digest for rows in (one, same, other)]
    assert digests[0] == digests[1] != digests[2]


# -- verdicts


def test_a_metric_of_one_judge_keeps_its_name_and_of_several_has_a_key_for_each():
    row = result(metrics={"accuracy with azure:o4-mini": {}, "my-own with a": {}, "my-own with b": {}, "9 with a": {}})
    keys = keys_for(judged_by([row]))
    assert list(keys.values()) == ["accuracy", "my_own_a", "my_own_b", "m_9"]
    assert evaluators_for(keys, {"accuracy", "my-own"}, compliance=True) == {
        "Compliance": {},
        "accuracy": {},
        "my_own_a": {"type": "my-own", "judge": "a"},
        "my_own_b": {"type": "my-own", "judge": "b"},
    }


def test_keys_do_not_collide():
    row = result(metrics={"Compliance with a": {}, "x-y with a": {}, "x_y with a": {}})
    assert list(keys_for(judged_by([row])).values()) == ["Compliance_2", "x_y", "x_y_2"]


def test_every_kind_of_verdict_has_its_record():
    row = result(
        compliance="unknown",
        complianceText="Hard to say.",
        metrics={
            "scored with j": {"content": "because", "score": "85"},
            "good with j": {"content": "fine\nOK", "outcome": "ok"},
            "bad with j": {"content": "ERR", "outcome": "err"},
            "lost with j": {"content": "no test was found", "outcome": "unknown"},
            "none with j": {},
            "scored with average": {"score": 85},
        },
    )
    found = {record.key: record for record in records_of(row, keys_for(judged_by([row])), ("j",))}
    assert {key: (one.score, one.result, one.label) for key, one in found.items()} == {
        "Compliance": (None, "error", None),
        "scored": (85.0, None, None),
        "good": (1.0, "pass", "ok"),
        "bad": (0.0, "fail", "err"),
        "lost": (None, "error", None),
        "none": (None, "error", None),
    }
    assert found["scored"].reason == "because"
    assert all(one.details["judge"] == "j" for one in found.values())


# -- totals


def test_totals_that_agree_say_nothing_even_when_rows_stood_twice():
    judged = [result(compliance="ok"), result(inverse=True, compliance="err"), result(error="429", output=None)]
    agreeing = {"model": "m", "tests": "2", "tests compliant": "50%", "tests negative compliant": "0"}
    assert differences([agreeing], judged, judged) == []
    twice = {**agreeing, "tests": "4", "tests compliant": "25%"}
    originals = [row.model_copy(update={"compliance": None}) for row in judged[:2]]
    assert differences([twice], [*judged, *originals], judged) == []


def test_totals_without_a_model_are_said_once_and_long_names_are_cut():
    told = differences([{"model": ""}, {"model": ""}], [], [])
    assert told == ["overview.csv has totals of no model: its first line should name the column model"]
    (said,) = differences([{"model": "m" * 5000}], [], [])
    assert len(said) < 150


def test_totals_that_differ_are_named_with_both_figures():
    found = differences([{"model": "m", "tests": "7"}, {"model": "z", "tests": "1"}], [result()], [result()])
    assert found == [
        "overview.csv says otherwise of m: tests 7 (the answers: 1)",
        "overview.csv has totals of z, but there are no answers of it",
    ]


def test_a_verdict_on_a_test_that_was_left_empty_is_none():
    assert rows(RecordedTestEval, [{"input": "q", "validity": ""}])[0].validity is None
