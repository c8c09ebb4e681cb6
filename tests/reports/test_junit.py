"""JUnit files, held against the schema that build servers read them by."""

import tempfile
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
import xmlschema
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reports.stores import Given, Ran, bad, errored, every, good, store, unjudged
from tests.store.helpers import judged, said
from tui_evals.figures import Figure, Interval
from tui_evals.reports.junit import suites
from tui_evals.store.reader import Reader
from tui_evals.store.records import CheckedGate

pytestmark = pytest.mark.story

STORED = st.text() | st.text("\x00\x1b[31m\ufffe]]>&<\"'\r\n")
ANYTHING = STORED | st.text(st.characters(codec=None, exclude_categories=())) | st.text("\ud800\udc00a")


@pytest.fixture(scope="module")
def schema():
    return xmlschema.XMLSchema(Path(__file__).parent / "junit-10.xsd")


def written(path, *runs):
    with Reader(path) as reader:
        return "".join(suites(reader, [reader.run(number) for number in runs or (1,)]))


def read(text, schema):
    schema.validate(text)
    return ET.fromstring(text)


def item(name, **more):
    return {"testId": name, "prompt": f"ask {name}", "expected_response": "yes", **more}


def by_name(answers):
    return lambda row: answers[row.name]


def test_gates_are_a_suite_of_their_own_whose_outcomes_are_counted(tmp_path, schema):
    few = Figure(0.5, 2, 2, Interval(0.01, 0.99), "Clopper-Pearson")
    gates = (
        CheckedGate("--fail-under 60", "not met", "50.0 % of 2 answers pass, \x1b less than 60.", few, "a & b"),
        CheckedGate("--fail-on fail", "met", "0 of 2 answers are fail or worse."),
        CheckedGate("--fail-on-regression=0.05", "not decided", "A regression is tested once the run is finished."),
    )
    path = store(tmp_path, Ran([item("a"), item("b")], by_name({"a": good(), "b": bad()})))
    with Reader(path) as reader:
        root = read("".join(suites(reader, [replace(reader.run(1), gates=gates)])), schema)
    answers, checked = root.findall("testsuite")
    assert (answers.get("tests"), checked.get("name")) == ("2", "gates")
    assert [(case.get("name"), [child.tag for child in case]) for case in checked] == [
        ("--fail-under 60 · a & b", ["failure"]),
        ("--fail-on fail", ["system-out"]),
        ("--fail-on-regression=0.05", ["skipped"]),
    ]
    assert "50.0 % of 2 items, 95 % interval 1.0 to 99.0" in checked.find("testcase/failure").text
    assert [checked.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["3", "1", "0", "1"]
    assert (root.get("tests"), root.get("failures")) == ("5", "2")


def test_each_status_becomes_what_a_build_server_calls_it(tmp_path, schema):
    answers = {"a": good(), "b": bad(reason="too short"), "c": errored(), "d": unjudged(), "e": Given()}
    answers["f"] = Given(said("unread"), "answered")
    root = read(written(store(tmp_path, Ran([item(name) for name in answers], by_name(answers)))), schema)
    outcomes = {case.get("name"): [child.tag for child in case] for case in root.iter("testcase")}
    assert outcomes == {"a": [], "b": ["failure"], "c": ["error"], "d": ["error"], "e": ["skipped"], "f": ["skipped"]}
    (suite,) = root.findall("testsuite")
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped", "time")}
    assert counts == {"tests": "6", "failures": "1", "errors": "2", "skipped": "2", "time": "1.520"}
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("6", "1", "2")
    messages = {case.get("name"): child.get("message") for case in root.iter("testcase") for child in case}
    assert messages == {
        "b": "Match 0 (at least 0.5): too short",
        "c": "timeout: nobody answered",
        "d": "Judge could not judge: the judge is silent",
        "e": "no answer yet",
        "f": "answered, not judged",
    }


def test_a_failure_shows_what_was_asked_and_how_the_answer_differs(tmp_path, schema):
    one = item("a", expected_response="same\nwanted")
    root = read(written(store(tmp_path, Ran([one], every(bad("same\ngot"))))), schema)
    body = root.find(".//failure").text
    assert "prompt\nask a\n" in body
    assert body.index("--- expected") < body.index(" same\n-wanted\n+got")


@pytest.mark.parametrize("ideal", ["the ideal", ["the ideal", "another"]])
def test_the_first_ideal_is_expected_where_nothing_else_is(tmp_path, schema, ideal):
    one = {"testId": "a", "prompt": "ask", "ideal": ideal}
    assert "\n-the ideal\n" in read(written(store(tmp_path, Ran([one], every(bad())))), schema).find(".//failure").text


def test_evaluators_that_pass_are_no_reason(tmp_path, schema):
    scores = (judged("Fine", 1.0, reason="all well"), judged("Short", 0.0, reason="too short"))
    root = read(written(store(tmp_path, Ran([item("a")], every(Given(said("no"), "fail", scores))))), schema)
    assert root.find(".//failure").get("message") == "Short 0: too short"


def test_there_is_a_suite_for_each_column_and_a_case_for_each_turn_and_repeat(tmp_path, schema):
    items = [item("chat", turns=[item("x"), item("y")], category="talk"), item("single")]
    ran = Ran(items, every(good()), targets=("small", "large"), prompts=("p.prompty", "q.prompty"), repeats=2)
    root = read(written(store(tmp_path, ran)), schema)
    names = [suite.get("name") for suite in root]
    assert names == [f"{target} · {prompt}" for prompt in ("p.prompty", "q.prompty") for target in ("small", "large")]
    cases = {(case.get("classname"), case.get("name")) for case in root[0].iter("testcase")}
    assert cases == {
        *(("evals.talk", f"chat turn {turn} repeat {repeat}") for turn in (1, 2) for repeat in (1, 2)),
        *(("evals", f"single repeat {repeat}") for repeat in (1, 2)),
    }
    facts = {one.get("name"): one.get("value") for one in root[0].iter("property")}
    assert (facts["target"], facts["prompt"], facts["dataset"]) == ("small", "p.prompty", "evals.json")
    assert facts["cost"] == "$0.0600"


def test_what_broke_since_another_run_says_so(tmp_path, schema):
    items = [item("a"), item("b")]
    before, after = {"a": good(), "b": bad()}, {"a": bad(), "b": bad()}
    path = store(tmp_path, Ran(items, by_name(before), name="old"), Ran(items, by_name(after), name="new"))
    root = read(written(path, 1, 2), schema)
    messages = {case.get("name"): case.find("failure").get("message") for case in root.iter("testcase")}
    assert [name for name, message in messages.items() if message.startswith("broken since old (")] == ["a"]
    assert root.get("name").startswith("new (")


def test_a_run_of_nothing_is_a_valid_file(tmp_path, schema):
    root = read(written(store(tmp_path, Ran([], every(good())))), schema)
    assert (root.get("tests"), len(root)) == ("0", 0)


@pytest.mark.story
@settings(max_examples=20)
@given(st.lists(ANYTHING, min_size=4, max_size=4), st.lists(STORED, min_size=3, max_size=3))
def test_any_text_of_a_dataset_a_model_or_a_judge_stays_text(schema, texts, stored):
    (prompt, expected, answer, reason), (name, category, key) = texts, stored
    one = {"testId": name, "prompt": prompt, "expected_response": expected, "category": category}
    given = Given(said(answer), "fail", (judged(key or "k", 0.0, reason=reason),))
    with tempfile.TemporaryDirectory() as folder:
        text = written(store(Path(folder), Ran([one], every(given), targets=(key or "t",), source=key)))
    root = read(text, schema)
    assert [element.tag for element in root.iter() if element.tag != "property"] == [
        *("testsuites", "testsuite", "properties", "testcase", "failure")
    ]
    assert "\x1b" not in text
