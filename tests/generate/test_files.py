"""What a generation keeps: its folder, its tests under their rules, and a dataset that people may change."""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.generate.scripted import notes_of, work_on
from tui_evals.datasets.document import load
from tui_evals.datasets.paths import DatasetError
from tui_evals.datasets.validate import parse_dataset
from tui_evals.generate import steps
from tui_evals.generate.asking import is_refusal, read_tests
from tui_evals.generate.exports import _merge_edits, build_dataset, dataset_path, write_dataset
from tui_evals.generate.folder import (
    GenerationFolder,
    Rule,
    Test,
    Truth,
    UnreadableFile,
    all_rules,
    number_rules,
    parse_rows,
    renumber_tests,
    rows_text,
    rule_lines,
)
from tui_evals.generate.pipeline import BY_NAME, set_results_aside
from tui_evals.generate.work import Unbindable, bind_inputs, effective_options, saved_options

PROMPT = "---\ninputs:\n  a:\n    type: string\n  b:\n    type: string\n---\nsystem:\nSay {{a}} and {{b}}.\n"


def test_a_file_knows_what_it_was_made_from(tmp_path):
    folder = GenerationFolder(tmp_path / "f")
    folder.write_result("rules.txt", "One.\n", (), "m")
    folder.write_result("tests.json", "[1]", ("rules.txt",), "m")
    assert not folder.edited("rules.txt") and folder.outdated("tests.json") == []
    folder.write("rules.txt", "Two.\n")
    again = GenerationFolder(tmp_path / "f")
    assert again.edited("rules.txt") and again.outdated("tests.json") == ["rules.txt"]
    again.write_result("tests.json", "[2]", (), "m")
    assert again.outdated("tests.json") == ["rules.txt"], "a step that only adds to a file does not renew it"
    assert not again.edited("nothing.txt")


def test_a_file_knows_when_a_source_outside_the_folder_changed(tmp_path):
    folder = GenerationFolder(tmp_path / "f")
    folder.write_result("rules.txt", "One.\n", ("prompt",), "m", {"prompt": "Say it."})
    assert folder.outdated("rules.txt", {"prompt": "Say it."}) == []
    assert folder.outdated("rules.txt", {"prompt": "Sing it."}) == ["prompt"]
    assert folder.outdated("rules.txt") == [], "nobody knows"
    folder.set_aside(["rules.txt"])
    assert folder.outdated("rules.txt", {"prompt": "Sing it."}) == [], "what is not there is not out of date"


@pytest.mark.parametrize("text", ["One.\r\nTwo.\n", "One.\rTwo.\n", "\ufeffOne.\n", "Half \ud800 of it.\n"])
def test_what_reads_back_otherwise_than_it_was_written_was_not_edited(tmp_path, text):
    folder = GenerationFolder(tmp_path)
    folder.write_result("rules.txt", text, (), "m")
    assert not folder.edited("rules.txt")


def test_a_byte_order_mark_is_no_part_of_a_rule(tmp_path):
    (tmp_path / "rules.txt").write_bytes(b"\xef\xbb\xbfOne.\r\nTwo.\r\n\r\n")
    assert rule_lines(GenerationFolder(tmp_path).read("rules.txt")) == ["One.", "Two."]


def test_what_is_set_aside_is_never_overwritten(tmp_path):
    folder, now = GenerationFolder(tmp_path), datetime(2031, 5, 1)
    places = []
    for text in ("first", "second"):
        folder.write("rules.txt", text)
        places.append(folder.set_aside(["rules.txt", "absent.txt"], now=now))
    assert [(place / "rules.txt").read_text() for place in places if place] == ["first", "second"]
    assert folder.read("rules.txt") is None and folder.set_aside(["rules.txt"]) is None
    folder.write("rules.txt", "third")
    assert folder.set_aside(copies=["rules.txt"], now=now) and folder.read("rules.txt") == "third"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "tests.json cannot be read: line 1: not valid JSON"),
        ("{}", "must hold a list"),
        ('[{"testinput": "a"}, {"ruleid": 1}]', "entry 2, testinput"),
        ('[{"testinput": "a", "ruleid": "x"}]', "entry 1, ruleid"),
    ],
)
def test_a_file_that_cannot_be_read_says_where(text, says):
    with pytest.raises(UnreadableFile, match=says):
        parse_rows(Test, "tests.json", text)


def test_columns_nobody_knows_stay_in_a_test():
    (test,) = parse_rows(Test, "t", '[{"testinput": "a", "mood": "odd", "testid": "7"}]')
    assert json.loads(rows_text([test])) == [{"testid": "7", "testinput": "a", "mood": "odd"}]


async def test_no_terminal_obeys_the_files_of_lines(tmp_path):
    evil = "Be \x1b[2J\x1b]52;c;QUJD\x07short\x9b31m.\r\nBe \x00kind.\n"
    work = work_on(tmp_path, PROMPT, lambda *asked: evil, name="pair.prompty")
    for make in (steps.write_intent, steps.write_input_spec, steps.write_rules):
        text = await make(work)
        assert not [sign for sign in text if (sign < " " and sign != "\n") or "\x7f" <= sign < "\xa0"]
        assert text.split() == ["Be", "short.", "Be", "kind."]


# -- tests follow their rules


def _test(rule: Rule, **more: object) -> Test:
    return Test.model_validate(
        {"ruleid": rule.number, "rule": rule.text, "inverse": rule.inverse, "testinput": "x"} | more
    )


def test_tests_follow_the_text_of_their_rule():
    rules = number_rules(["a", "b", "c"], ["not a", "not b", "not c"])
    tests = [_test(rule) for rule in rules]

    def ids(*lists: list[str]) -> list[int | None]:
        return [test.ruleid for test in renumber_tests(tests, number_rules(*lists))]

    assert ids(["a", "b", "c"], ["not a", "not b", "not c"]) == [1, 2, 3, 4, 5, 6]
    assert ids(["a", "B", "c"], ["not a", "not b", "not c"]) == [1, 2, 3, 4, 5, 6], "an edited rule keeps its tests"
    assert ids(["a", "c"], ["not a", "not c"]) == [1, None, 2, 3, None, 4], "those of a deleted rule have none"
    assert ids(["z", "a", "b", "c"], ["not a", "not b", "not c"]) == [2, 3, 4, 5, 6, 7]


def test_a_test_of_no_rule_that_is_tested_belongs_to_none():
    rules = all_rules(["c", "a", "b"], [], most=2)
    tests = [_test(Rule(1, "a", False, 1)), _test(Rule(2, "b", False, 2)), Test(ruleid=9, testinput="x")]
    assert [test.ruleid for test in renumber_tests(tests, rules)] == [2, None, None]
    assert [test.ruleid for test in renumber_tests([Test(ruleid=1, testinput="x")], rules)] == [1], "a number is enough"


def test_a_name_that_two_tests_bear_stays_with_the_first(tmp_path):
    work = _made(tmp_path, [_pair(1), _pair(2, testuid="t1"), _pair(3, testuid="t1")])
    names = [test.testuid for test in steps.name_tests(work, work.tests)]
    assert names[0] == "t1" and len(set(names)) == 3
    assert names == [test.testuid for test in steps.name_tests(work, work.tests)], "whenever they are named"
    assert not BY_NAME["labels"].done(work)


# -- the dataset


def _made(tmp_path, tests, truths=(), **options):
    files = {
        "rules.txt": "Short.\nPlain.\n",
        "inverse_rules.txt": "Long.\nOrnate.\n",
        "intent.txt": "Say two things.\n",
        "input_spec.txt": "Two words.\n",
        "tests.json": rows_text(tests),
        "test_groundtruth.json": rows_text(truths),
    }
    (tmp_path / ".evals").mkdir(exist_ok=True)
    return work_on(tmp_path, PROMPT, name="pair.prompty", files=files, **options)


def _pair(number: int, rule: int = 1, **more: object) -> Test:
    both = json.dumps({"a": f"a{number}", "b": f"b{number}"})
    return Test.model_validate(
        {"testuid": f"t{number}", "ruleid": rule, "testinput": both, "expectedoutput": "e"} | more
    )


def test_tests_become_items_that_a_run_can_ask(tmp_path):
    truths = [
        Truth(testuid="t1", testinput=_pair(1).testinput, output="good", model="m", groundtruthScore=90),
        Truth(testuid="t2", testinput=_pair(2).testinput, output="bad", model="m", groundtruthScore=-1),
        Truth(testuid="t3", testinput="of an earlier input", output="old", model="m"),
    ]
    tests = [
        _pair(1),
        _pair(2, 3, inverse=True, scenario="s"),
        _pair(3, 2),
        _pair(4, baseline=True).model_copy(update={"ruleid": None}),
    ]
    data = build_dataset(_made(tmp_path, tests, truths, runs_per_test=2))
    dataset, problems = parse_dataset(data)
    assert dataset is not None and not problems
    first, second, third, fourth = data["items"]
    assert first["variables"] == {"a": "a1", "b": "b1"} and first["expected_response"] == "good"
    assert second["expected_response"] == third["expected_response"] == "e"
    assert [item["category"] for item in data["items"]] == ["rule-1", "rule-3", "rule-2", "baseline"]
    assert second["tags"] == ["s", "inverse"]
    facts = second["extensions"]["promptpex"]
    assert (facts["rule"], facts["of"], facts["groundtruth"], facts["groundtruthScore"]) == ("Long.", 1, "bad", -1)
    assert "groundtruth" not in third["extensions"]["promptpex"] and "rule" not in fourth["extensions"]["promptpex"]
    assert data["repeats"] == 2 and data["prompt_file"] == "../pair.prompty"
    assert data["extensions"]["promptpex"]["rules"] == "Short.\nPlain."


def test_a_test_that_does_not_fit_the_prompt_is_left_out_and_named(tmp_path):
    work = _made(tmp_path, [_pair(1), Test(testuid="odd", ruleid=1, testinput="no object")])
    told: list[str] = []
    from dataclasses import replace

    data = build_dataset(replace(work, tell=told.append))
    assert [item["testId"] for item in data["items"]] == ["t1"]
    assert len(told) == 1 and "odd" in told[0] and "Invalid test input format, expected JSON object" in told[0]


def test_what_a_person_changed_in_the_dataset_stays(tmp_path):
    work = _made(tmp_path, [_pair(number) for number in range(1, 6)])
    write_dataset(work)
    file = dataset_path(work)
    data = load(file).data
    items = {item["testId"]: item for item in data["items"]}
    items["t2"]["expected_response"] = "mine"
    data["items"] = [items[name] for name in ("t1", "t2", "t4", "t5")] + [{"testId": "own", "prompt": "Hello?"}]
    data["default_evaluators"] = {"ExactMatch": {}}
    file.write_text(json.dumps(data))
    changed = [_pair(1), _pair(2, expectedoutput="new"), _pair(3), _pair(4, expectedoutput="new"), _pair(6)]
    work.folder.write("tests.json", rows_text(changed))
    said = write_dataset(work)
    after = load(file).data
    found = {item["testId"]: item.get("expected_response") for item in after["items"]}
    assert found == {"t1": "e", "t2": "mine", "t4": "new", "t6": "e", "own": None}
    assert after["default_evaluators"] == {"ExactMatch": {}}
    assert "2 of them as you changed them" in said
    assert write_dataset(work) == said and load(file).data == after


def test_items_without_a_name_that_a_person_added_all_stay(tmp_path):
    work = _made(tmp_path, [_pair(1)])
    write_dataset(work)
    document = json.loads(dataset_path(work).read_text())
    document["items"] += [{"prompt": "mine"}, {"prompt": "mine too"}, {"prompt": "mine too"}]
    dataset_path(work).write_text(json.dumps(document))
    assert write_dataset(work) == "4 items, 3 of them as you changed them"
    assert [item.get("prompt") for item in json.loads(dataset_path(work).read_text())["items"]][1:] == [
        "mine",
        "mine too",
        "mine too",
    ]


@given(st.data())
def test_new_items_stand_behind_all_that_come_before_them(tmp_path_factory, data):
    names = [f"t{number}" for number in range(6)]
    there = data.draw(st.permutations(names).map(lambda some: some[:4]))
    fresh = {"items": [{"testId": name} for name in names], "extensions": {}}
    merged, kept = _merge_edits({"items": [{"testId": name} for name in there]}, fresh, {}, settings_edited=False)
    found = [item["testId"] for item in merged["items"]]
    assert kept == 0 and sorted(found) == names and [name for name in found if name in there] == there
    for place, name in enumerate(names):
        if name not in there:
            assert all(found.index(before) < found.index(name) for before in names[:place])


def test_half_a_character_in_a_test_makes_no_file_that_cannot_be_written(tmp_path):
    work = _made(tmp_path, [_pair(1, expectedoutput="half \ud800")])
    for _ in range(2):
        write_dataset(work)
    assert json.loads(dataset_path(work).read_text())["items"][0]["expected_response"] == "half ?"


def test_items_of_no_rule_are_named(tmp_path):
    work, told = notes_of(_made(tmp_path, [_pair(1), _pair(2, rule=99)]))
    write_dataset(work)
    (said,) = told
    assert "1 item of no rule that is tested (t2)" in said and "tests.json" in said


def test_an_untouched_dataset_follows_its_options(tmp_path):
    work = _made(tmp_path, [_pair(1)])
    write_dataset(work)
    (tmp_path / "nice.metric.prompty").write_text("system:\nJudge {{output}}.\n")
    write_dataset(work)
    assert "nice" in load(dataset_path(work)).data["default_evaluators"]


def test_taking_the_expansion_back_restores_the_inputs(tmp_path):
    work = _made(tmp_path, [_pair(1, testinputOriginal='{"a": "1", "b": "2"}')], test_expansions=1)
    place = set_results_aside(work, "expansion")
    assert place is not None and (place / "tests.json").exists(), "the longer ones are kept"
    (test,) = work.tests
    assert test.testinput == '{"a": "1", "b": "2"}' and test.testinputOriginal is None


# -- reading what models write


_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from(' ",#\n'), min_size=1, max_size=30)


@given(st.lists(st.tuples(st.integers(1, 4), _TEXT, _TEXT), min_size=1, max_size=6), st.booleans())
def test_csv_that_is_well_formed_is_read_to_the_letter(rows, fenced):
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    for number, one, two in rows:
        writer.writerow([number, 1, "e", "r", one, two])
    text = "ruleid,testid,expectedoutput,reasoning,a,b\n" + out.getvalue()
    text = f"Here you are:\n```csv\n{text}```\nDone, enjoy." if fenced else text
    wanted = [(n, a, b) for n, a, b in rows if (a + b).strip()]
    if any("\n```" in a or "\n```" in b for _, a, b in rows) or any(
        '\\"' in cell + '"' for row in rows for cell in row[1:]
    ):
        return
    found = read_tests(text, ["a", "b"], [1, 2, 3, 4]).tests
    assert [(test["ruleid"], test["a"], test["b"]) for test in found] == wanted


@given(st.text(max_size=300))
def test_any_reply_can_be_read(text):
    for reply in (text, "ruleid,a\n" + text, "```csv\nruleid,a\n1," + text):
        read_tests(reply, ["a"], [1])


def test_a_fence_inside_a_cell_is_text():
    row = '1,1,"ok","r","Fix this:\n```\nx = 1\n```\nthanks"'
    table = "ruleid,testid,expectedoutput,reasoning,code\n" + row
    for reply in (table, f"Sure:\n```csv\n{table}\n```\nDone."):
        (test,) = read_tests(reply, ["code"], [1]).tests
        assert test["testinput"] == "Fix this:\n```\nx = 1\n```\nthanks"


@pytest.mark.parametrize(
    "said",
    [
        "I'm sorry, but I can't assist with that.",
        "I\u2019m sorry, but I cannot help with this request.",
        "I can't assist with that",
        "**I'm sorry.**",
        "Sorry, I am unable to write tests for this.\n\nPlease ask something else.",
    ],
)
def test_a_refusal_is_known(said):
    assert is_refusal(said)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "The output is \"I'm sorry, I can't help with that\" when a price is asked for.\nThe output is short.",
        "I'm sorry to bother you again, my order is three days late and the box was wet.",
        "The output says I can't assist with that.",
        "I'm sorry, but I can't.\n1\n2\n3",
    ],
)
def test_an_apology_in_a_text_is_no_refusal(said):
    assert not is_refusal(said)


# -- prompts and options


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("---\ninputs:\n  a: 1\n", "closing line"),
        ("---\ntestSamples:\n  - missing.json\n---\nHi {{a}}", "p.prompty:2: the test samples missing.json"),
        ("---\nname: x\n---\n\n", "holds no text"),
        ("---\nscenarios:\n  - name: s\n    parameter: {}\n---\nHi {{a}}", "p.prompty:4: scenarios"),
    ],
)
def test_a_prompt_that_cannot_be_used_says_where(tmp_path, text, says):
    with pytest.raises(DatasetError, match=says):
        work_on(tmp_path, text, name="p.prompty")


def test_samples_come_from_files_too_and_are_cut(tmp_path):
    text = "---\ntestSamples:\n  - a: one\n  - more.json\n---\nHi {{a}}"
    more = {"more.json": json.dumps({"rows": [{"a": str(number)} for number in range(9)]})}
    work = work_on(tmp_path, text, name="p.prompty", beside=more, test_samples_count=3)
    assert [sample["a"] for sample in work.subject.samples] == ["one", "0", "1"]


def test_a_test_has_to_give_every_open_input_a_value(tmp_path):
    work = work_on(tmp_path, PROMPT, name="p.prompty")
    scenario = work.subject.scenarios[0]
    assert bind_inputs(work.subject, scenario, "{a: 'x', b: 'y',}") == {"a": "x", "b": "y"}
    assert bind_inputs(work.subject, scenario, '{"a": "x\\u0085", "b": "y"}')["a"] == "x\x85"
    with pytest.raises(Unbindable, match="no value for b"):
        bind_inputs(work.subject, scenario, '{"a": "x"}')


@pytest.mark.parametrize(
    ("saved", "says"),
    [
        ([], "must be an object"),
        ({"max_rules": "many"}, "options, max_rules"),
        ({"max_rules": -3}, "options, max_rules"),
        ({"effort": "huge"}, "options, effort"),
        ({"runs_per_test": [1]}, "options, runs_per_test"),
    ],
)
def test_saved_options_that_cannot_be_are_named(saved, says):
    with pytest.raises(ValueError, match=says):
        saved_options(saved)
    assert saved_options(None) == {} and saved_options({"max_rules": 4, "older": 1}) == {"max_rules": 4}


def test_options_are_given_then_preset_then_saved_then_default():
    saved = effective_options({"effort": "high", "tests_per_rule": 7}).kept()
    assert effective_options({}, saved).tests_per_rule == 7 and effective_options({}, saved).max_rules == 50
    assert effective_options({"max_rules": 2}, saved).max_rules == 2
    fresh = effective_options({"effort": "medium"}, saved)
    assert (fresh.max_rules, fresh.tests_per_rule, fresh.test_expansions) == (20, 3, 0)
    assert effective_options({}).max_rules == 3
