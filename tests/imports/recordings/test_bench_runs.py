"""A `bench_runs/` folder that Arthur Bench itself wrote, older shapes of it, and folders with something wrong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tui_evals.datasets.paths import DatasetError
from tui_evals.datasets.validate import parse_dataset
from tui_evals.evaluators.base import Evidence, evaluate
from tui_evals.evaluators.registry import built_in
from tui_evals.imports.bench import read, recognises, store_suites
from tui_evals.runs import suite_runs
from tui_evals.runs import suites as keeping
from tui_evals.runs.suites import UserValueError
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer
from tui_evals.targets.config import Settings

REAL = Path(__file__).parent / "bench_runs"


@pytest.fixture
def folder(tmp_path):
    """A copy of the real folder, with one suite left."""
    place = tmp_path / "bench_runs"
    shutil.copytree(REAL / "capitals", place / "capitals")
    return place


def change(file, *path, to=None, drop=False):
    """Change one value of a JSON file, on a line of its own."""
    data = json.loads(file.read_text())
    part = data
    for step in path[:-1]:
        part = part[step]
    if drop:
        del part[path[-1]]
    else:
        part[path[-1]] = to
    file.write_text(json.dumps(data, indent=1))


@pytest.fixture
def project(tmp_path):
    """A project with its store open."""
    root = tmp_path / "project"
    (root / ".evals").mkdir(parents=True)
    path = open_store(root / ".evals" / "evals.db")
    with Writer(path) as writer, Reader(path) as reader:
        yield root, writer, reader


def test_the_folder_that_arthur_bench_wrote_is_read_whole():
    suites, recordings, losses = read(REAL)
    assert [one["metadata"]["name"] for one in suites] == ["capitals", "capitals raw", "own", "reading", "words"]
    assert [(one.suite, one.name) for one in recordings][:2] == [("capitals", "first"), ("capitals", "second run")]
    assert all(parse_dataset(one)[1] == [] for one in suites)
    assert suites[0]["description"] == "as the package has it"
    assert suites[0]["items"][3] == {"prompt": "four", "expected_response": "straße"}
    first = recordings[0]
    assert [one.scores[0].label for one in first.answers] == [
        *("match", "match", "non match", "non match", "match", "non match", "match", "match"),
    ]
    assert first.answers[0].answer.text == "paris" and first.answers[0].scores[0].result == "pass"
    reading = next(one for one in recordings if one.suite == "reading")
    assert reading.answers[2].scores[0].score == 206.84 and reading.answers[2].scores[0].result is None
    assert "contexts of runs" in "\n".join(losses.sentences())


async def test_our_evaluators_give_the_scores_that_arthur_bench_recorded():
    compared = 0
    for run in read(REAL)[1]:
        ((name, options),) = run.document["default_evaluators"].items()
        if name == "length":
            continue
        kind = built_in()[name]
        for one in run.answers:
            item = run.document["items"][one.item]
            given = Evidence(prompt=item["prompt"], response=one.answer.text, expected=item.get("expected_response"))
            ours = await evaluate(kind(kind.Options.model_validate(options)), given)
            assert ours.score == pytest.approx(one.scores[0].score), (run.suite, one.item)
            compared += 1
    assert compared == 40


def test_what_is_read_is_stored_once_and_opens_as_a_suite(project):
    root, writer, reader = project
    suites, recordings, _ = read(REAL)
    stored = store_suites(root, writer, reader, suites, recordings, Settings(), {})
    assert [outcome for _, outcome in stored] == ["new"] * 6
    again = store_suites(root, writer, reader, *read(REAL)[:2], Settings(), {})
    assert [outcome for _, outcome in again] == ["known"] * 6
    assert [run.key for run, _ in again] == [run.key for run, _ in stored]
    assert keeping.names(root) == ["capitals", "capitals raw", "own", "reading", "words"]
    first, second = suite_runs.runs_of(reader, "capitals")
    rows = suite_runs.rows_of(reader, first)
    assert (first.name, second.name) == ("first", "second run")
    assert [row.score for row in rows] == [1, 1, 0, 0, 1, 0, 1, 1] and rows[2].category == "non match"
    assert keeping.suite_named(root, "own").method["type"] == "custom"


def test_a_suite_of_the_same_name_with_other_cases_keeps_everything_as_it_was(project, folder):
    root, writer, reader = project
    store_suites(root, writer, reader, *read(folder)[:2], Settings(), {})
    before = keeping.suite_file(root, "capitals").read_bytes()
    shutil.copytree(REAL / "words", folder / "words")
    change(folder / "capitals" / "suite.json", "test_cases", 0, "input", to="other")
    with pytest.raises(UserValueError, match="other cases"):
        store_suites(root, writer, reader, *read(folder)[:2], Settings(), {})
    assert keeping.names(root) == ["capitals"] and len(suite_runs.runs_of(reader, "capitals")) == 2
    assert keeping.suite_file(root, "capitals").read_bytes() == before


def test_a_run_whose_name_is_taken_by_another_is_refused_before_anything_is_written(project, folder):
    root, writer, reader = project
    store_suites(root, writer, reader, *read(folder)[:2], Settings(), {})
    shutil.copytree(REAL / "words", folder / "words")
    change(folder / "capitals" / "second run" / "run.json", "test_cases", 0, "output", to="Rome")
    with pytest.raises(UserValueError, match="has a run 'second run' already"):
        store_suites(root, writer, reader, *read(folder)[:2], Settings(), {})
    assert keeping.names(root) == ["capitals"] and len(suite_runs.runs_of(reader, "capitals")) == 2


def test_a_suite_without_its_times_is_the_same_when_it_is_read_again(folder, monkeypatch):
    change(folder / "capitals" / "suite.json", "created_at", drop=True)
    first = read(folder)[1][0].digest
    monkeypatch.setattr(keeping, "now", lambda: "later")
    assert read(folder)[1][0].digest == first


def test_older_shapes_are_read_a_bare_name_and_a_score_alone(folder):
    change(folder / "capitals" / "suite.json", "scoring_method", to="exact_match")
    run = folder / "capitals" / "first" / "run.json"
    for number in range(8):
        change(run, "test_cases", number, "score_result", drop=True)
    suites, (first, _), _ = read(folder)
    assert suites[0]["extensions"]["arthur_bench"]["scoring_method"]["type"] == "built_in"
    assert [one.scores[0].result for one in first.answers][:3] == ["pass", "pass", "fail"]


def test_metadata_of_a_run_is_kept_where_a_file_has_it(folder):
    change(folder / "capitals" / "first" / "run.json", "model_name", to="gpt")
    change(folder / "capitals" / "first" / "run.json", "prompt_template", to="be {short}")
    (first, second) = read(folder)[1]
    assert (first.targets, second.targets) == (("gpt",), ("unknown model",))
    noted = first.document["extensions"]["arthur_bench"]["run"]
    assert noted == {"model_name": "gpt", "prompt_template": "be {short}"}


def test_outputs_find_their_cases_by_id_whatever_their_order(folder):
    run = folder / "capitals" / "first" / "run.json"
    change(run, "test_cases", to=json.loads(run.read_text())["test_cases"][::-1])
    assert [one.answer.text for one in read(folder)[1][0].answers][:2] == ["paris", "yes"]


def test_what_a_judge_could_not_tell_is_an_error_and_no_score_of_minus_one(folder):
    suite, run = folder / "capitals" / "suite.json", folder / "capitals" / "first" / "run.json"
    change(suite, "scoring_method", "name", to="qa_correctness")
    change(suite, "scoring_method", "config", to={})
    change(run, "test_cases", 0, "score_result", to={"score": -1.0, "category": {"name": "invalid"}})
    _, recordings, losses = read(folder)
    score = recordings[0].answers[0].scores[0]
    assert (score.score, score.result, score.label) == (None, "error", "invalid")
    assert any("-1" in line for line in losses.sentences())


def test_names_stay_as_they_are_unless_they_are_no_line_of_text(folder):
    change(folder / "capitals" / "suite.json", "name", to="a: b..c/d")
    suites, _, losses = read(folder)
    assert suites[0]["metadata"]["name"] == "a: b..c/d"
    assert not any("is now" in line for line in losses.sentences())
    change(folder / "capitals" / "suite.json", "name", to="a\nb")
    suites, _, losses = read(folder)
    assert suites[0]["metadata"]["name"] == "a_b"
    assert any("is now 'a_b'" in line for line in losses.sentences())


def test_folders_without_a_suite_or_a_run_are_said_to_be_left_out(folder):
    (folder / "notes").mkdir()
    (folder / "capitals" / "empty").mkdir()
    lines = "\n".join(read(folder)[2].sentences())
    assert "the folder notes" in lines and "the folder empty" in lines


def test_only_folders_with_suites_are_recognised(folder, tmp_path):
    assert recognises(folder) and recognises(folder / "capitals")
    assert not recognises(tmp_path / "nowhere") and not recognises(folder / "capitals" / "suite.json")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "suite.json").write_text('{"tests": []}')
    assert not recognises(tmp_path / "other")
    with pytest.raises(DatasetError, match="holds no suite"):
        read(tmp_path / "other")


CASES, METHOD = ("test_cases",), ("scoring_method",)


@pytest.mark.parametrize(
    ("file", "path", "to", "field", "says"),
    [
        ("suite.json", ("name",), 7, "name", "must be text, not 7"),
        ("suite.json", CASES, {}, "test_cases", "must be a list"),
        ("suite.json", CASES, [], "test_cases", "holds no case"),
        ("suite.json", (*CASES, 2, "input"), None, "test_cases[2].input", "is missing"),
        ("suite.json", (*CASES, 1, "reference_output"), None, "test_cases[1].reference_output", "in some cases"),
        ("suite.json", (*METHOD, "name"), "exact_macth", "scoring_method.name", "no way of scoring"),
        ("suite.json", (*METHOD, "output_type"), "continuous", "scoring_method.categories", "continuous"),
        ("suite.json", (*METHOD, "categories"), None, "scoring_method.categories", "names no category"),
        ("suite.json", (*METHOD, "type"), "made", "scoring_method.type", "built_in or custom"),
        ("suite.json", ("created_at",), "yesterday", "created_at", "must be a time"),
        ("first/run.json", (*CASES, 3, "output"), None, "test_cases[3].output", "is missing"),
        ("first/run.json", (*CASES, 3, "id"), "x", "test_cases[3].id", "of no case"),
        ("first/run.json", (*CASES, 3, "score_result"), {}, "test_cases[3].score_result", "neither a score"),
        ("first/run.json", (*CASES, 3, "score_result", "category"), None, "category", "some have none"),
        ("first/run.json", (*CASES, 3, "score_result", "score"), "1", "score_result.score", "must be a number"),
        ("first/run.json", ("test_suite_id",), "x", "test_suite_id", "the suite next to it"),
        ("first/run.json", CASES, [], "test_cases", "holds 0 outputs"),
        ("first/run.json", ("name",), "second run", "name", "another run"),
    ],
)
def test_what_is_wrong_is_said_with_file_line_and_field(folder, file, path, to, field, says):
    named = folder / "capitals" / file
    change(named, *path, to=to)
    with pytest.raises(DatasetError) as caught:
        read(folder)
    said = str(caught.value)
    blamed = "second run/run.json" if says == "another run" else file
    assert f"capitals/{blamed}:" in said and field in said and says in said
    assert caught.value.problems[0].line or path == ("name",)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": NaN}', '{"a": 1, "a": 2}'])
def test_a_file_that_is_no_json_object_is_named(folder, text):
    (folder / "suite_id_to_name.json").write_text("{}")
    (folder / "capitals" / "suite.json").write_text(text)
    with pytest.raises(DatasetError, match=r"capitals/suite\.json"):
        read(folder)


def test_the_package_that_is_installed_scores_as_we_do(tmp_path):
    python = os.environ.get("ARTHUR_PYTHON")
    if not python:
        pytest.skip("needs ARTHUR_PYTHON, the interpreter of an environment with arthur-bench (tests/interop)")
    script = Path(__file__).parents[2] / "interop" / "arthur_bench.py"
    for words in ([python, "-W", "ignore", script, "write"], [sys.executable, script, "compare"]):
        done = subprocess.run([*words, tmp_path], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "words · only: 8 rows by word_count_match, 0 differ" in done.stdout
