"""Suites and runs from Python: made, opened again, run, scored by scorers of one's own, and refused with reasons."""

from __future__ import annotations

import asyncio
import csv
import json
import re
import runpy
import textwrap
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tui_evals
from tui_evals.bench import Category, Scorer, ScoreResult, TestSuite
from tui_evals.evaluators.base import verdict_score
from tui_evals.runs import suites as keeping
from tui_evals.runs.suites import (
    ArthurError,
    ArthurInternalError,
    NotFoundError,
    UserTypeError,
    UserValueError,
    candidates_from,
)
from tui_evals.store.details import read_details
from tui_evals.store.reader import Reader

pytestmark = [pytest.mark.story, pytest.mark.usefixtures("here")]

PAGE = Path(tui_evals.__file__).parent / "help" / "bench.md"
BLOCKS = re.findall(r"(?:^    .*\n|^\n(?=    ))+", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
EXAMPLES = [block for block in BLOCKS if "from tui_evals" in block]
INPUTS, REFERENCES = ["a", "b", "c"], ["A", "B", "C"]


def letters(name="s", method="exact_match", **more):
    return TestSuite(name, method, input_text_list=INPUTS, reference_output_list=REFERENCES, **more)


class Length(Scorer):
    """How long an answer is, in tens of characters."""

    def __init__(self, most=10):
        self.most = most
        self.asked = []

    @staticmethod
    def name():
        return "my-length"

    @staticmethod
    def requires_reference():
        return False

    def run_batch(self, candidates, references=None, inputs=None, contexts=None):
        self.asked.append((candidates, references, inputs, contexts))
        if "bad" in candidates:
            raise KeyError("bad")
        return [len(text) / self.most for text in candidates]


class Table:
    """What of a frame is used."""

    def __init__(self, **columns):
        self._of = columns

    @property
    def columns(self):
        return list(self._of)

    def __getitem__(self, name):
        return self._of[name]


def test_a_suite_and_its_run_are_scored_and_in_the_store(project):
    suite = letters(description="letters")
    run = suite.run("r", candidate_output_list=["A", "b", "C"], model_name="gpt", model_version="2")
    assert (run.scores, run.categories) == ([1.0, 0.0, 1.0], ["match", "non match", "match"])
    assert (run.outputs, run.name, run.average) == (["A", "b", "C"], "r", pytest.approx(2 / 3))
    assert run.metadata == {"model_name": "gpt", "model_version": "2"}
    with Reader(project / ".evals" / "evals.db") as reader:
        stored = reader.find_run("r")
        assert (stored.key, stored.suite, stored.status) == (run.id, "s", "finished")
        assert stored.source == ".evals/suites/s.json"
        assert stored.targets == ("replay:.evals/suites/s/r.json",)


def test_a_saved_suite_is_opened_by_its_name_and_ignores_what_is_given(project):
    letters(description="kept")
    again = TestSuite("s", "bertscore", "other", input_text_list=["x"])
    assert (again.scoring_method, again.description) == ("exact_match", "kept")
    assert (again.input_texts, again.reference_outputs) == (INPUTS, REFERENCES)


def test_a_large_suite_comes_back_whole(project):
    many = [str(number) for number in range(120)]
    TestSuite("s", "exact_match", input_text_list=many, reference_output_list=many)
    run = TestSuite("s", "exact_match").run("r", candidate_output_list=many)
    assert len(run.scores) == 120 and set(run.scores) == {1.0}


def test_options_of_a_way_of_scoring_are_kept_with_the_suite():
    letters(method={"exact_match": {"case_sensitive": False}})
    assert letters().run("r", candidate_output_list=["a", "B", "x"]).scores == [1.0, 1.0, 0.0]
    with pytest.raises(UserValueError, match="case_sensitiv"):
        letters("t", {"exact_match": {"case_sensitiv": False}})


def test_one_bad_row_is_an_error_and_loses_nothing():
    run = letters().run("r", candidate_output_list=["A", None, float("nan")])
    assert run.scores == [1.0, None, None] and run.average == 1.0
    assert run.problems[0] is None and "has no response" in (run.problems[1] or "")


def test_csv_cells_are_text_as_written_and_a_blank_one_is_absent(project):
    (project / "x.csv").write_text('input, reference_output\n"one, two",007\nNA,1.50\nq,"two\nlines"\n')
    (project / "y.csv").write_text('answer\n007\n1.5\n""\n')
    suite = TestSuite("s", "exact_match", reference_data_path="x.csv")
    assert suite.input_texts == ["one, two", "NA", "q"]
    assert suite.reference_outputs == ["007", "1.50", "two\nlines"]
    run = suite.run("r", candidate_data_path="y.csv", candidate_column="answer")
    assert run.scores == [1.0, 0.0, None]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_cell_of_a_table_is_read_to_the_letter(project, cells):
    with open(project / "y.csv", "w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, quoting=csv.QUOTE_ALL).writerows([["candidate_output"], *([cell] for cell in cells)])
    found, contexts = candidates_from(
        frame=None,
        path="y.csv",
        candidates=None,
        candidate_column="candidate_output",
        context_column=None,
        contexts=None,
    )
    assert found == [cell if cell.strip() else None for cell in cells] and contexts is None


def test_a_frame_comes_before_a_file_and_a_file_before_lists(project):
    (project / "x.csv").write_text("input,reference_output\nfile,F\n")
    frame = Table(question=["frame"], answer=[7])
    lists = {"input_text_list": ["list"], "reference_output_list": ["L"]}
    first = TestSuite(
        "a", "exact_match", None, frame, "x.csv", input_column="question", reference_column="answer", **lists
    )
    assert (first.input_texts, first.reference_outputs) == (["frame"], ["7"])
    assert TestSuite("b", "exact_match", reference_data_path="x.csv", **lists).input_texts == ["file"]
    assert first.run("r", Table(candidate_output=[7]), candidate_output_list=["x"]).scores == [1.0]


@pytest.mark.nightly
def test_frames_of_pandas_are_taken():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"input": ["a", "b"], "reference_output": [1, 2]})
    suite = TestSuite("s", "exact_match", reference_data=frame)
    run = suite.run("r", candidate_data=pandas.DataFrame({"candidate_output": ["1", None]}))
    assert run.scores == [1.0, None]


def test_references_are_ignored_in_a_table_and_kept_from_lists_where_none_are_needed(project):
    (project / "x.csv").write_text("input,reference_output\na,A\n")
    assert TestSuite("a", "readability", reference_data_path="x.csv").reference_outputs == [None]
    assert letters("b", "readability").reference_outputs == REFERENCES


@pytest.mark.parametrize(
    ("wanted", "problem", "says"),
    [
        ({}, UserValueError, "needs cases"),
        ({"reference_data_path": "x.CSV"}, UserValueError, "must be in a .csv file"),
        ({"reference_data_path": "nope.csv"}, UserValueError, "there is no such file"),
        ({"reference_data_path": "x.csv"}, UserValueError, "no column 'input'.*input_column"),
        ({"reference_data_path": "x.csv", "input_column": "q"}, UserValueError, "no column 'reference_output'"),
        ({"reference_data_path": "wide.csv"}, UserValueError, "wide.csv:2: the row has 3 cells"),
        ({"reference_data_path": "bytes.csv"}, UserValueError, "not UTF-8"),
        ({"reference_data_path": "none.csv"}, UserValueError, "at least one case"),
        ({"reference_data": [1]}, UserTypeError, "must be a frame"),
        ({"input_text_list": []}, UserValueError, "at least one case"),
        ({"input_text_list": "abc"}, UserTypeError, "must be a list of texts"),
        ({"input_text_list": ["a"]}, UserValueError, "reference outputs, and there are none"),
        ({"input_text_list": ["a", ""], "reference_output_list": ["A", "B"]}, UserValueError, "text 2: the input"),
        ({"input_text_list": ["a", "b"], "reference_output_list": ["A"]}, UserValueError, "2 inputs and 1 reference"),
        ({"input_text_list": ["a", "b"], "reference_output_list": ["A", None]}, UserValueError, "text 2.*or none"),
        ({"input_text_list": ["a"], "reference_output_list": ["A"], "description": 3}, UserTypeError, "description"),
    ],
)
def test_data_that_do_not_make_a_suite_are_refused_and_nothing_is_kept(project, wanted, problem, says):
    (project / "x.csv").write_text("q,r\na,A\n")
    (project / "wide.csv").write_text("input,reference_output\na,A,x\n")
    (project / "bytes.csv").write_bytes(b"input,reference_output\n\xff,A\n")
    (project / "none.csv").write_text("input,reference_output\n")
    with pytest.raises(problem, match=f"(?s){says}") as caught:
        TestSuite("s", "exact_match", **wanted)
    assert isinstance(caught.value, ArthurError) and keeping.names(project) == []


FREE_NAMES = [
    *("QA: v1/v2?", "../x", "..", "a\\b", ".a", "-a", "a..b", "猫" * 90, "x" * 1000, "a-0123456789ab", 'say "<hi>|"'),
    *("two\nlines", "a\ttab", "it's 100 %", "Case", "case", "CASE", "n" * 300, "👨\u200d👩\u200d👧", "\u202eright"),
]


@pytest.mark.nightly
def test_names_are_free_text_and_each_has_a_file_of_its_own(project):
    for name in FREE_NAMES:
        letters(name).run(f"run {name}"[:1000], candidate_output_list=["A", "b", "x"])
        again = TestSuite(name, "readability")
        assert (again.name, again.scoring_method, again.input_texts) == (name, "exact_match", INPUTS)
        with pytest.raises(UserValueError, match="give this run another name"):
            again.run(f"run {name}"[:1000], candidate_output_list=REFERENCES)
    assert keeping.names(project) == sorted(FREE_NAMES)
    assert [one.name for one in keeping.every(project)] == sorted(FREE_NAMES)
    files = [file for file in project.rglob("*") if file.suffix == ".json"]
    assert len(files) == 2 * len(FREE_NAMES)
    assert all(file.is_relative_to(project / ".evals" / "suites") for file in files)


@pytest.mark.nightly
def test_a_frame_of_a_hundred_thousand_rows_becomes_a_suite(project):
    rows = [str(number) for number in range(100_000)]
    frame = pytest.importorskip("pandas").DataFrame({"input": rows, "reference_output": rows})
    suite = TestSuite("large", "exact_match", reference_data=frame)
    assert len(TestSuite("large", "exact_match").input_texts) == len(suite.reference_outputs) == 100_000


def test_a_suite_is_not_taken_for_one_whose_name_is_cased_otherwise(project):
    letters("Case")
    keeping.suite_file(project, "Case").rename(keeping.suite_file(project, "case"))  # as on a disk that knows no case
    with pytest.raises(UserValueError, match="'Case', and no file next to it can be 'case'"):
        TestSuite("case", "exact_match")


@pytest.mark.parametrize("name", ["", " ", " a", "a\n", "a\x1b[2J", "a\0", "x" * 1001])
def test_names_that_are_no_text_are_refused(project, name):
    with pytest.raises(UserValueError, match="the name of a suite"):
        letters(name)
    with pytest.raises(UserValueError, match="the name of a run"):
        letters().run(name, candidate_output_list=REFERENCES)
    assert keeping.names(project) == ["s"] and [one.name for one in project.iterdir()] == [".evals"]


@pytest.mark.parametrize(
    ("wanted", "problem", "says"),
    [
        ({}, UserValueError, "needs candidate outputs"),
        ({"candidate_output_list": ["A"]}, UserValueError, "1 candidate outputs, and the suite has 3"),
        ({"candidate_output_list": REFERENCES, "context_input_list": ["x"]}, UserValueError, "1 contexts"),
        ({"candidate_output_list": REFERENCES, "model_name": 4}, UserTypeError, "model_name must be text"),
        ({"candidate_output_list": REFERENCES, "batch_size": 0}, UserValueError, "batch_size"),
        ({"candidate_output_list": REFERENCES, "modelname": "x"}, TypeError, "takes no modelname"),
        ({"candidate_data_path": "x.csv"}, UserValueError, "no column 'candidate_output'"),
        ({"candidate_data_path": "x.csv", "candidate_column": "q", "context_column": "c"}, UserValueError, "'c'"),
    ],
)
def test_a_run_that_does_not_fit_is_refused_and_not_stored(project, wanted, problem, says):
    (project / "x.csv").write_text("q\na\n")
    suite = letters()
    with pytest.raises(problem, match=says):
        suite.run("r", **wanted)
    assert not (project / ".evals" / "evals.db").exists()


@pytest.mark.nightly
def test_the_name_of_a_run_is_taken_once_in_a_suite():
    suite = letters()
    suite.run("r", candidate_output_list=REFERENCES)
    with pytest.raises(UserValueError, match="has a run 'r' already"):
        suite.run("r", candidate_output_list=REFERENCES)
    assert letters("other").run("r", candidate_output_list=REFERENCES).average == 1.0


@pytest.mark.nightly
def test_an_unsaved_run_is_in_no_store_until_it_is_saved_once(project):
    suite = letters()
    run = suite.run("r", candidate_output_list=["A", None, "x"], save=False, foundation_model="f")
    assert (run.id, run.scores) == (None, [1.0, None, 0.0])
    with Reader(project / ".evals" / "evals.db") as reader:
        assert reader.runs() == []
    key = run.save()
    with Reader(project / ".evals" / "evals.db") as reader:
        stored = reader.find_run("r")
        assert (stored.key, stored.suite, stored.status, reader.totals(stored.id).passed) == (key, "s", "finished", 1)
        assert reader.totals(stored.id).errored == 1
    with pytest.raises(UserValueError, match="is saved already"):
        run.save()
    late = suite.run("late", candidate_output_list=REFERENCES, save=False)
    suite.run("late", candidate_output_list=REFERENCES)
    with pytest.raises(UserValueError, match="has a run 'late' already"):
        late.save()


@pytest.mark.nightly
def test_a_judge_that_is_missing_or_a_context_is_said_before_anything_is_stored(project):
    suite = TestSuite("s", "qa_correctness", input_text_list=["q"])
    with pytest.raises(UserValueError, match="needs the context"):
        suite.run("r", candidate_output_list=["x"])
    with pytest.raises(UserValueError, match="no judge is named"):
        suite.run("r", candidate_output_list=["x"], context_input_list=["c"])
    assert not (project / ".evals" / "evals.db").exists()
    seen = []

    def judge(messages):
        seen.append(messages[-1]["content"])
        return "1"

    run = suite.run("r", candidate_output_list=["x"], context_input_list=["the passage"], judge=judge)
    assert (run.scores, run.categories) == ([1.0], ["correct"]) and "the passage" in seen[0]
    unsure = suite.run("n", candidate_output_list=["x"], context_list=["c"], judge=lambda messages: "NA")
    assert (unsure.scores, unsure.categories) == ([None], ["invalid"]) and unsure.problems[0]


def test_scorers_of_ones_own_get_batches_and_a_failing_one_blames_its_case():
    scorer = Length()
    suite = TestSuite("s", scorer, input_text_list=INPUTS)
    run = suite.run("r", candidate_output_list=["aa", "bad", "cccc"], batch_size=2, context_input_list=["x", None, "z"])
    assert run.scores == [0.2, None, 0.4] and "bad" in (run.problems[1] or "")
    assert (["aa"], None, ["a"], ["x"]) in scorer.asked
    assert (["aa", "bad"], None, ["a", "b"], ["x", ""]) in scorer.asked
    assert run.categories == [None, None, None]


def test_a_suite_of_ones_own_scorer_is_opened_with_that_scorer_only(project):
    TestSuite("s", Length(5), input_text_list=INPUTS)
    kept = json.loads((project / ".evals" / "suites" / "s.json").read_text())
    assert kept["default_evaluators"] == {"my_length": {"type": "my-length"}}
    method = kept["extensions"]["arthur_bench"]["scoring_method"]
    assert (method["type"], method["config"]["most"], method["output_type"]) == ("custom", 5, "continuous")
    assert Length.from_dict(method["config"]).most == 5
    with pytest.raises(UserValueError, match="give the object itself"):
        TestSuite("s", "my-length")
    other = type("Other", (Length,), {"name": staticmethod(lambda: "other")})
    with pytest.raises(UserValueError, match="is scored by 'my-length', not by 'other'"):
        TestSuite("s", other())
    assert TestSuite("s", Length(2)).run("r", candidate_output_list=["a", "bb", "cc"]).scores == [0.5, 1.0, 1.0]


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("result", "says"),
    [
        ([], "gave 0 results for 1"),
        (["x"], "gave the category None"),
        ([0.5], "gave the category None"),
        ([ScoreResult(1.0, "odd")], "gave the category 'odd'"),
        (None, "NoneType"),
        ([ScoreResult(float("nan"), "good")], "not a number"),
    ],
)
def test_what_a_categorical_scorer_must_not_give_is_an_error_of_the_case(result, says):
    class Odd(Length):
        is_categorical = staticmethod(lambda: True)
        categories = staticmethod(lambda: [Category("good")])

        def run_batch(self, candidates, *rest):
            return result

    run = TestSuite("s", Odd(), input_text_list=["q"]).run("r", candidate_output_list=["a"])
    assert run.scores == [None] and says in (run.problems[0] or "")


def test_a_scorer_may_give_a_category_alone_or_a_verdict():
    class Kinds(Length):
        def run_batch(self, candidates, *rest):
            return [
                ScoreResult(category=Category("k")) if text == "a" else verdict_score(True, "fine")
                for text in candidates
            ]

    run = TestSuite("s", Kinds(), input_text_list=["p", "q"]).run("r", candidate_output_list=["a", "b"])
    assert (run.scores, run.categories) == ([None, 1.0], ["k", None])


def test_scorers_that_contradict_themselves_or_take_a_name_are_refused():
    kinds = {
        "rename it": {"name": staticmethod(lambda: "exact_match")},
        "must return a text": {"name": staticmethod(lambda: None)},
        "names no categories": {"is_categorical": staticmethod(lambda: True)},
        "is not categorical": {"categories": staticmethod(lambda: [Category("x")])},
    }
    for says, own in kinds.items():
        with pytest.raises(ArthurError, match=says):
            TestSuite("s", type("Odd", (Length,), own)(), input_text_list=INPUTS)
    with pytest.raises(UserValueError, match="did you mean 'exact_match'"):
        letters(method="exact_macth")
    with pytest.raises(UserTypeError, match="scoring_method must be"):
        letters(method=7)


@pytest.mark.nightly
async def test_within_a_loop_runs_are_awaited_and_scorers_too():
    class Awaited(Length):
        async def arun_batch(self, candidates, references=None, inputs=None, contexts=None):
            self.asked.append(candidates)
            return [1] * len(candidates)

    scorer = Awaited()
    suite = TestSuite("s", scorer, input_text_list=INPUTS)
    assert (await suite.arun("r", candidate_output_list=REFERENCES)).scores == [1.0] * 3
    assert scorer.asked == [REFERENCES]
    plain = await TestSuite("p", Length(), input_text_list=INPUTS).arun("r", candidate_output_list=INPUTS)
    assert plain.scores == [0.1, 0.1, 0.1]
    held = suite.run("sync", candidate_output_list=["aa", "b", "c"], save=False)
    assert held.scores == [0.2, 0.1, 0.1] and held.save()


class Logged(Length):
    """Counts what it is called with, as a scorer does that reports to somebody's own log."""

    @staticmethod
    def requires_reference():
        return True

    def run(self, candidate_outputs, reference_outputs=None, inputs=None, contexts=None, batch_size=1):
        self.asked.append(("run", candidate_outputs, reference_outputs, inputs, contexts, batch_size))
        return [2 * score for score in super().run(candidate_outputs, reference_outputs, inputs, contexts, batch_size)]


class LoggedAwaited(Logged):
    async def arun_batch(self, candidates, references=None, inputs=None, contexts=None):
        self.asked.append((candidates, references, inputs, contexts))
        return [ScoreResult(score=len(text) / self.most) for text in candidates]

    async def arun(self, candidate_outputs, reference_outputs=None, inputs=None, contexts=None, batch_size=5):
        self.asked.append(("arun", candidate_outputs, reference_outputs, inputs, contexts, batch_size))
        return await super().arun(candidate_outputs, reference_outputs, inputs, contexts, batch_size)


def pairs(scorer, name="s"):
    return TestSuite(name, scorer, input_text_list=INPUTS, reference_output_list=REFERENCES)


@pytest.mark.nightly
def test_a_scorer_s_own_run_is_given_all_cases_once_and_decides_their_scores(project):
    scorer = Logged()
    run = pairs(scorer).run("r", candidate_output_list=["aa", "a", "aa"], context_list=["x", None, "z"], batch_size=2)
    assert run.scores == [0.4, 0.2, 0.4]
    assert scorer.asked == [
        ("run", ["aa", "a", "aa"], REFERENCES, INPUTS, ["x", "", "z"], 2),
        (["aa", "a"], ["A", "B"], ["a", "b"], ["x", ""]),
        (["aa"], ["C"], ["c"], ["z"]),
    ]
    with Reader(project / ".evals" / "evals.db") as reader:
        stored = reader.find_run("r")
        assert (stored.status, stored.total) == ("finished", 3)
        assert [told.scores[0].score for told in read_details(reader, stored, reader.all_rows(stored.id))] == run.scores
    assert pairs(scorer).run("apart", candidate_output_list=["a", None, "b"], save=False).scores == [0.2, None, 0.2]
    assert scorer.asked[3] == ("run", ["a", "b"], ["A", "C"], ["a", "c"], None, 1)


@pytest.mark.nightly
async def test_a_scorer_s_own_arun_is_awaited_with_all_cases_once():
    scorer = LoggedAwaited()
    run = await pairs(scorer).arun("r", candidate_output_list=["aa", "a", "aaa"], batch_size=2)
    assert run.scores == [0.2, 0.1, 0.3]
    assert scorer.asked[0] == ("arun", ["aa", "a", "aaa"], REFERENCES, INPUTS, None, 2)
    assert [batch[0] for batch in scorer.asked[1:]] == [["aa", "a"], ["aaa"]]
    only_run = Logged()
    assert (await pairs(only_run, "t").arun("r", candidate_output_list=REFERENCES)).scores == [0.2] * 3
    assert only_run.asked[0][0] == "run" and only_run.asked[0][-1] == 5


@pytest.mark.nightly
def test_results_belong_to_places_and_not_to_what_a_case_says():
    class Counting(Length):
        def run_batch(self, candidates, *rest):
            self.most += 1
            return [ScoreResult(score=float(self.most)) for _ in candidates]

    class CountingOnce(Counting):
        def run(self, candidate_outputs, *rest, batch_size=1):
            return range(len(candidate_outputs))

    for kind, scores in ((Counting, [1.0, 2.0, 3.0]), (CountingOnce, [0.0, 1.0, 2.0])):
        suite = TestSuite(kind.__name__, kind(0), input_text_list=["same"] * 3)
        assert suite.run("r", candidate_output_list=["same"] * 3).scores == scores


@pytest.mark.parametrize(
    ("results", "says"), [(RuntimeError("no service"), "no service"), ([1.0], "gave 1 results for 3"), (None, "None")]
)
def test_a_run_whose_scorer_s_own_run_fails_is_not_stored_and_its_name_stays_free(project, results, says):
    class Failing(Length):
        def run(self, candidate_outputs, *rest, batch_size=1):
            if isinstance(results, Exception):
                raise results
            return results

    with pytest.raises(ArthurInternalError, match=says):
        pairs(Failing()).run("r", candidate_output_list=REFERENCES)
    assert not (project / ".evals" / "evals.db").exists()
    assert pairs(Length()).run("r", candidate_output_list=REFERENCES).scores == [0.1] * 3


def test_a_name_that_is_taken_is_refused_before_a_scorer_s_own_run_is_called():
    scorer = Logged()
    suite = pairs(scorer)
    suite.run("r", candidate_output_list=REFERENCES)
    asked = len(scorer.asked)
    with pytest.raises(UserValueError, match="has a run 'r' already"):
        suite.run("r", candidate_output_list=REFERENCES)
    assert len(scorer.asked) == asked


def test_a_scorer_s_run_may_use_a_loop_of_its_own_and_categories():
    class Kind(LoggedAwaited):
        is_categorical = staticmethod(lambda: True)
        categories = staticmethod(lambda: [Category("short"), Category("long")])

        async def arun_batch(self, candidates, *rest):
            return [
                ScoreResult(float(len(text) < 2), Category("short" if len(text) < 2 else "long")) for text in candidates
            ]

        def run(self, *given, batch_size=1):
            return asyncio.run(self.arun(*given, batch_size=batch_size))

    run = pairs(Kind()).run("r", candidate_output_list=["a", "bb", "c"])
    assert (run.scores, run.categories) == ([1.0, 0.0, 1.0], ["short", "long", "short"])

    class Uncategorised(Kind):
        async def arun_batch(self, candidates, *rest):
            return [1.0 for _ in candidates]

    with pytest.raises(ArthurInternalError, match="must return categorical results"):
        pairs(Uncategorised(), "t").run("r", candidate_output_list=REFERENCES)


def test_unit_tests_are_one_for_each_case(monkeypatch):
    tests = {"python_unit_testing": {"unit_tests": ["assert x == 1", "assert x == 1"]}}
    with pytest.raises(UserValueError, match="TUI_EVALS_ALLOW_CODE=1"):
        TestSuite("s", tests, input_text_list=["p", "q"])
    monkeypatch.setenv("TUI_EVALS_ALLOW_CODE", "1")
    with pytest.raises(UserValueError, match="2 unit tests and 3 cases"):
        TestSuite("s", tests, input_text_list=INPUTS)
    suite = TestSuite("s", tests, input_text_list=["p", "q"])
    monkeypatch.delenv("TUI_EVALS_ALLOW_CODE")
    with pytest.raises(UserValueError, match="TUI_EVALS_ALLOW_CODE=1"):
        suite.run("no", candidate_output_list=["x = 1", "x = 2"])
    monkeypatch.setenv("TUI_EVALS_ALLOW_CODE", "1")
    assert suite.run("yes", candidate_output_list=["x = 1", "x = 2"]).categories == ["pass", "fail"]


@pytest.mark.parametrize(
    ("path", "to", "says"),
    [
        (("extensions", "arthur_bench", "scoring_method"), {}, "scoring_method.name is missing"),
        (("default_evaluators",), {}, "names no evaluator"),
        (("items",), [], "at least one entry"),
        (("items", 0), {"turns": [{"prompt": "x"}]}, r"items\[0\].prompt is missing"),
    ],
)
def test_a_suite_that_was_spoilt_by_hand_is_refused_with_its_file_and_field(project, path, to, says):
    letters()
    file = project / ".evals" / "suites" / "s.json"
    data = json.loads(file.read_text())
    part = data
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = to
    file.write_text(json.dumps(data))
    with pytest.raises(UserValueError, match=says) as caught:
        letters()
    assert str(file) in str(caught.value)


def test_a_suite_that_is_not_there_is_not_found(project):
    letters("capitals")
    with pytest.raises(NotFoundError, match="did you mean 'capitals'"):
        keeping.suite_named(project, "capitels")


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_examples_of_the_help_run(project, example):
    file = project / "example.py"
    file.write_text(textwrap.dedent(example), encoding="utf-8")
    runpy.run_path(str(file))


def test_the_help_has_examples():
    assert len(EXAMPLES) == 3
