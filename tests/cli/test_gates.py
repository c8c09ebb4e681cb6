"""Gates on regressions: what they find, what they let pass, and when they refuse to begin."""

import json
import os
import socket
import sys
from random import Random

import pytest

from tests.compare.helpers import answer, document, ran, scored
from tui_evals.compare import measures
from tui_evals.compare.runs import compare_runs
from tui_evals.runs import gate_options
from tui_evals.store.connection import hold, run_lock
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer

pytestmark = pytest.mark.story

ITEMS = 20
RIGHT, WRONG = "right", "wrong"


@pytest.fixture(autouse=True)
def as_before():
    """The interpreter as it was: a run makes it switch threads more often."""
    interval = sys.getswitchinterval()
    yield
    sys.setswitchinterval(interval)


@pytest.fixture
def asked(project, shell):
    """`asked(wrong)` runs the dataset with so many wrong answers at its beginning."""
    items = [{"prompt": f"ask {n}", "expected_response": RIGHT} for n in range(ITEMS)]
    dataset = {"schemaVersion": "1.11.0", "default_evaluators": {"Includes": {}}, "items": items}
    (project / "data.json").write_text(json.dumps(dataset))

    def run(wrong, *options, quiet=("--quiet",)):
        rows = [{"prompt": f"ask {n}", "response": WRONG if n < wrong else RIGHT} for n in range(ITEMS)]
        (project / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return shell("run", "data.json", "--target", "replay:answers.jsonl", *quiet, *options)

    return run


def last(project):
    with Reader(project / ".evals" / "evals.db") as reader:
        return reader.find_run("last")


def test_a_run_that_got_worse_is_exit_1_and_every_number_that_did_is_named(asked, shell):
    asked(0)
    assert shell("baseline", "set").code == 0
    done = asked(10, "--fail-on-regression")
    assert (done.code, done.out) == (1, "")
    (line,) = done.err.splitlines()
    passes, evaluator = line.split("--fail-on-regression=0.05: worse: ")[1:]
    assert line.startswith("not met: ") and "10 fewer of 20 items pass" in passes
    assert "Includes: 1 in" in evaluator and "is worse than" in evaluator


@pytest.mark.nightly
def test_what_chance_makes_too_is_no_regression_and_the_level_decides_what_that_is(asked, shell):
    asked(0)
    shell("baseline", "set")
    done = asked(4, "--fail-on-regression", quiet=())
    assert done.code == 0
    assert "passes 4 fewer of 20 items" in done.out and "met: --fail-on-regression=0.05" in done.out
    assert asked(4, "--fail-on-regression=0.3").code == 1
    assert asked(10, "--fail-on-regression=0.01").code == 1
    assert asked(10, "--fail-on-regression=0.001").code == 0


def test_a_better_run_is_no_regression_and_the_baseline_stays_where_it_is(asked, shell, project):
    asked(20)
    shell("baseline", "set")
    first = last(project).key
    assert asked(0, "--fail-on-regression").code == 0
    assert [kept["run"] for kept in json.loads(shell("baseline", "show", "--json").out)] == [first]


def test_the_option_never_takes_the_next_word_for_its_level(asked, shell):
    asked(0)
    shell("baseline", "set")
    done = shell("run", "--fail-on-regression", "data.json", "--target", "replay:answers.jsonl", "--quiet")
    assert (done.code, done.err) == (0, "")
    assert gate_options.LEVEL == measures.LEVEL


@pytest.mark.parametrize("level", ["0", "1", "2", "-0.1", "often"])
def test_a_level_that_is_none_is_refused(asked, level):
    done = asked(0, f"--fail-on-regression={level}")
    assert done.code == 2 and "--fail-on-regression" in done.err


def test_without_a_baseline_nothing_is_asked(asked, project):
    done = asked(0, "--fail-on-regression")
    assert done.code == 2
    assert "no baseline is set for data.json" in done.err and "tui-evals baseline set RUN" in done.err
    with Reader(project / ".evals" / "evals.db") as reader:
        assert reader.runs() == []


def test_a_file_of_no_known_kind_is_refused_before_anything_is_asked(asked, project):
    done = asked(0, "--output", "results.docx")
    assert done.code == 2 and "results.docx" in done.err and ".html" in done.err
    assert not (project / ".evals" / "evals.db").exists()


@pytest.mark.nightly
def test_another_run_can_be_named_and_is_found_before_the_new_one_exists(asked, shell, project):
    asked(0, "--name", "good")
    asked(10)
    done = asked(10, "--baseline", "last", "--fail-on-regression")
    assert (done.code, done.err) == (0, "")
    assert asked(10, "--baseline", "good", "--fail-on-regression").code == 1
    alone = asked(10, "--baseline", "good", quiet=())
    assert alone.code == 0 and "10 fewer of 20 items" in alone.out


def test_an_unfinished_run_is_not_measured_against(asked, project):
    asked(0, "--name", "half")
    with Writer(project / ".evals" / "evals.db") as writer:
        writer.run_status(last(project).id, "interrupted")
    done = asked(0, "--baseline", "half")
    assert done.code == 2 and "is interrupted" in done.err and "nothing can be measured against it" in done.err


def test_a_paused_run_is_not_let_go_on_with_a_gate_that_nobody_checks(asked, shell, project):
    asked(0, "--name", "first")
    asked(0)
    database = project / ".evals" / "evals.db"
    run = last(project)
    with hold(run_lock(database, run.key)), Writer(database) as writer:
        writer.run_status(run.id, "paused", control="pause")
        refused = shell("resume", run.key, "--fail-on-regression", "--baseline", "first")
        assert refused.code == 2 and "is paused where it runs" in refused.err
        assert last(project).control == "pause"
        assert shell("resume", run.key).code == 0 and last(project).control == ""


def test_items_in_common_are_what_a_gate_needs(asked, shell, project):
    asked(0, "--items", "1-10")
    shell("baseline", "set")
    done = asked(0, "--items", "11-20", "--fail-on-regression")
    assert done.code == 1
    assert "--fail-on-regression=0.05: Cannot be checked" in done.err and "no item in common" in done.err


def test_answers_that_are_missing_are_not_passed_over(asked, shell, project):
    asked(0)
    shell("baseline", "set")
    done = asked(0, "--items", "1-15", "--fail-on-regression", quiet=())
    assert done.code == 1 and "5 answers of" in done.out and "could not be compared" in done.out
    assert "--max-missing 5: 5 of 20 answers (25 %) are judged in" in done.err
    done = asked(0, "--items", "1-15", "--fail-on-regression", "--max-missing", "25", quiet=())
    assert done.code == 0 and "met: --max-missing 25, --fail-on-regression=0.05" in done.out


def test_the_last_event_holds_the_gates_and_the_comparison(asked, shell):
    asked(0)
    shell("baseline", "set")
    done = asked(10, "--fail-on-regression", "--fail-under", "40", "--json", quiet=())
    event = json.loads(done.out.splitlines()[-1])
    assert (done.code, event["event"]) == (1, "end")
    assert [(gate["gate"], gate["verdict"]) for gate in event["gates"]] == [
        ("--fail-under 40", "met"),
        ("--fail-on-regression=0.05", "not met"),
        ("--fail-on-regression=0.05", "not met"),
    ]
    assert ["Includes" in gate["sentence"] for gate in event["gates"]] == [False, False, True]
    assert (event["against"]["items"], event["against"]["broken"], event["against"]["fixed"]) == (20, 10, 0)
    assert {test["evaluator"] for test in event["against"]["tests"]} == {"", "Includes"}
    assert "gates" not in json.loads(asked(0, "--json", quiet=()).out.splitlines()[-1])


@pytest.mark.parametrize("gate", [["--fail-on-regression"], ["--baseline", "last"], ["--fail-under", "5"]])
def test_what_a_process_in_the_background_cannot_answer_for_is_refused(asked, gate):
    asked(0)
    done = asked(0, "--detach", *gate)
    assert done.code == 2 and "--detach ends before the run does" in done.err


def test_reruns_and_resumed_runs_are_measured_too(asked, shell, project):
    asked(0)
    shell("baseline", "set")
    asked(10)
    worse = last(project)
    assert shell("rerun", "last", "--only", "id:*", "--fail-on-regression", "--quiet").code == 1
    with Writer(project / ".evals" / "evals.db") as writer:
        writer.run_status(worse.id, "interrupted")
    done = shell("resume", worse.key, "--fail-on-regression", "--quiet")
    assert done.code == 1 and "10 fewer of 20 items" in done.err


def test_a_judging_is_measured_too_but_not_against_itself(asked, shell, project):
    asked(0, "--name", "good")
    shell("baseline", "set")
    itself = shell("rescore", "last", "--fail-on-regression", "--quiet")
    assert itself.code == 2 and "is the baseline itself" in itself.err
    asked(0)
    strict = ("rescore", "last", "-e", '{"Includes": {"negate": true}}', "--quiet")
    assert shell(*strict).code == 0
    assert shell(*strict, "--fail-on-regression").code == 1


def test_a_run_can_name_the_one_it_goes_back_to(asked, project):
    asked(0, "--name", "first")
    first = last(project)
    asked(0, "--parent", "first")
    assert last(project).parent == first.id
    assert asked(0, "--parent", "nobody").code == 2


def test_a_run_says_when_and_where_it_was_executed(asked, shell, project):
    asked(0)
    run = last(project)
    assert run.created <= run.started <= run.finished
    assert (run.pid, run.host) == (os.getpid(), socket.gethostname())
    shell("rescore", "last", "--quiet")
    assert (last(project).started, last(project).finished) == (run.started, run.finished)
    with Writer(project / ".evals" / "evals.db") as writer:
        writer.run_status(run.id, "interrupted", finished=None)
    shell("resume", "last", "--quiet")
    again = last(project)
    assert again.started == run.started and again.finished > run.finished


def test_a_dataset_is_named_from_the_project_wherever_the_run_was_started(asked, shell, project, monkeypatch):
    asked(0)
    (project / "sets").mkdir()
    monkeypatch.chdir(project / "sets")
    done = shell("run", "../data.json", "--target", "replay:answers.jsonl", "--quiet")
    assert (done.code, last(project).source) == (0, "data.json")


CHECKS, COLUMNS, TESTED = 6, ("small", "middle", "large"), 12


def side(random, skills, drop=0.0):
    """A run of three columns with two repeats; what is odd of an item in a run is odd in all of its answers."""
    rows, judged = [], []
    for item, skill in enumerate(skills):
        moods = [skill - drop + random.gauss(0, 0.2) for _ in range(CHECKS)]
        for place in range(2 * len(COLUMNS)):
            scores = [mood + random.gauss(0, 0.1) for mood in moods]
            passed = [score >= 0.5 for score in scores]
            for number, ok in enumerate(passed):
                score = float(ok) if number % 2 else scores[number]
                judged.append(scored(len(rows), score, f"check {number}", 0.5, "pass" if ok else "fail"))
            status = "error" if random.random() < 0.03 else "pass" if 2 * sum(passed) >= CHECKS else "fail"
            where = {"repeat": place % 2, "target": place // 2}
            rows.append(answer(len(rows), item, status, **where))
    return ran(rows, document(*map(str, range(len(skills)))), judged, targets=COLUMNS)


def alarms(rounds, drop=0.0):
    """The share of pairs of runs in which anything at all is found to be worse."""
    random, found = Random(1), 0
    for _ in range(rounds):
        skills = [random.gauss(0.6, 0.3) for _ in range(TESTED)]
        (against,) = compare_runs([side(random, skills), side(random, skills, drop)]).against
        assert len(against.tests) == CHECKS + len(COLUMNS)
        found += bool(against.worse(0.05))
    return found / rounds


@pytest.fixture
def no_intervals(monkeypatch):
    """Intervals take most of the time and decide nothing."""
    monkeypatch.setattr(measures, "difference_interval", lambda differences, largest: (None, ""))


@pytest.mark.nightly
def test_of_runs_without_a_difference_no_more_are_called_worse_than_the_level_says(no_intervals):
    rounds = 300
    allowance = 2 * (0.05 * 0.95 / rounds) ** 0.5
    assert alarms(rounds) <= 0.05 + allowance


def test_a_real_drop_is_called_worse(no_intervals):
    assert alarms(30, drop=0.4) > 0.9
