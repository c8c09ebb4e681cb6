"""What each gate looks at, when it is met, not met or not decided, and that every face has the same table of them."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET

import pytest

from tui_evals.store.reader import Reader

pytestmark = pytest.mark.story

RIGHT, WRONG = "right", "wrong"
HALF = {"Includes": {}, "shape": {"type": "Regex", "pattern": "."}}
"""Of a wrong answer one of two evaluators passes, so its score is 50."""


@pytest.fixture(autouse=True)
def as_before():
    """The interpreter as it was: a run makes it switch threads more often."""
    interval = sys.getswitchinterval()
    yield
    sys.setswitchinterval(interval)


@pytest.fixture
def dataset(project):
    """`dataset(count)` writes a dataset of so many items."""

    def write(count, evaluators=None, **given):
        items = [{"prompt": f"ask {n}", "expected_response": RIGHT} for n in range(count)]
        document = {"schemaVersion": "1.11.0", "default_evaluators": evaluators or {"Includes": {}}, "items": items}
        (project / "data.json").write_text(json.dumps({**document, **given}))

    return write


@pytest.fixture
def replay(project):
    """`replay(texts, name)` is a target that answers item n with text n; None is no answer, a list answers repeats."""

    def write(texts, name="answers"):
        rows = [{"prompt": f"ask {n}", "response": text} for n, text in enumerate(texts) if text is not None]
        (project / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) or "\n")
        return f"replay:{name}.jsonl"

    return write


@pytest.fixture
def answered(dataset, replay, shell):
    """`answered(texts, *options)` runs a dataset whose items are answered by these texts."""

    def run(texts, *options, evaluators=None, quiet=("--quiet",)):
        dataset(len(texts), evaluators)
        return shell("run", "data.json", "-t", replay(texts), "--no-cache", *quiet, *options)

    return run


def configure(project, text):
    (project / ".evals").mkdir(exist_ok=True)
    (project / ".evals" / "config.toml").write_text(text)


def test_the_gate_on_the_pass_rate_looks_at_the_printed_one_and_says_what_0_2_made_of_it(answered):
    done = answered(
        [RIGHT] * 6 + [WRONG] * 4, "--fail-under", "70", "--fail-under-score", "70", evaluators=HALF, quiet=()
    )
    assert done.code == 1 and "6 of 10 pass (60.0 %" in done.out
    assert "--fail-under 70        ✗ not met  60.0 % of 10 items, 95 % interval 29.7 to 85.6" in done.out
    assert "--fail-under-score 70  ✓ met      80.0 of 100 over 10 items" in done.out
    assert "not met: --fail-under 70: 60.0 % of 10 answers pass, less than 70" in done.err
    assert "By the rules of 0.2 it was met: The mean score is 80.0 of 100" in done.err


def test_the_rules_of_0_2_can_be_kept_and_the_verdict_of_now_is_said(answered, project):
    configure(project, '[run]\ngates = "0.2"\n')
    done = answered([RIGHT] * 6 + [WRONG] * 4, "--fail-under", "70", evaluators=HALF, quiet=())
    assert done.code == 0 and "met: --fail-under 70" in done.out
    assert 'Without `gates = "0.2"` it is not met: 60.0 % of 10 answers pass, less than 70.' in done.out


def test_other_rules_than_those_of_0_2_are_refused(answered, project):
    configure(project, '[run]\ngates = "0.1"\n')
    done = answered([RIGHT])
    assert done.code == 3 and "run.gates should be '0.2'" in done.err


def test_where_both_rules_agree_nothing_is_said_of_them(answered):
    done = answered([RIGHT] * 3, "--fail-under", "70", quiet=())
    assert done.code == 0 and "0.2" not in done.out + done.err


def test_a_rate_just_below_the_gate_is_not_rounded_up_to_it(answered):
    done = answered([RIGHT] * 2 + [WRONG], "--fail-under", "66.7")
    assert done.code == 1 and "66.67 % of 3 answers pass, less than 66.7" in done.err


def test_what_is_missing_has_not_passed_and_the_figure_says_so(answered):
    done = answered([RIGHT] * 8 + [None] * 2, "--fail-under", "90", "--max-missing", "50", quiet=())
    assert done.code == 1 and "8 of 8 judged pass (100.0 %" in done.out
    assert "80.0 % of 10 items, 95 % interval 48.0 to 98.2, 2 missing, counted as not passed" in done.out


def test_every_column_has_to_reach_the_gate_and_none_is_pooled_with_another(dataset, replay, shell):
    dataset(10)
    targets = ("-t", replay([RIGHT] * 10, "good"), "-t", replay([RIGHT] * 6 + [WRONG] * 4, "bad"))
    event = json.loads(shell("run", "data.json", *targets, "--json", "--fail-under", "70").out.splitlines()[-1])
    assert [(one["column"], one["verdict"], one["figure"]["value"]) for one in event["gates"]] == [
        ("replay:good.jsonl", "met", 1.0),
        ("replay:bad.jsonl", "not met", 0.6),
    ]
    assert event["exit_code"] == 1 and "replay:bad.jsonl: 60.0 % of 10 answers pass" in event["verdict"]


def test_conversations_are_counted_as_such_where_they_have_several_turns(project, shell):
    items = [{"turns": [{"prompt": "a"}, {"prompt": "b"}]} for _ in range(3)]
    evaluators = {"Regex": {"pattern": "."}}
    document = {"schemaVersion": "1.11.0", "default_evaluators": evaluators, "items": items}
    (project / "data.json").write_text(json.dumps(document))
    done = shell("run", "data.json", "-t", "demo", "--fail-under", "0", "--max-missing", "100")
    assert "of 3 conversations)" in done.out and "of 3 answers" not in done.out


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        ([""] * 20, "all 20 answers are empty"),
        ([None] * 20, "all 20 answers are missing"),
        ([""] * 15 + [None] * 5, "of 20 answers 15 are empty and 5 are missing"),
        ([""], "the only answer is empty"),
    ],
)
def test_a_run_that_came_to_nothing_says_what_happened(answered, texts, says):
    done = answered(texts, "--fail-under", "50")
    assert (done.code, done.err) == (1, f"not met: {says}\n")


# -- against a baseline


@pytest.mark.nightly
def test_a_regression_gate_that_cannot_fire_is_not_met_and_says_how_many_items_it_takes(answered, shell):
    answered([RIGHT] * 5)
    assert "It takes at least 6." in shell("baseline", "set").out
    done = answered([WRONG] * 5, "--fail-on-regression")
    assert done.code == 1 and "--fail-on-regression=0.05: The gate cannot fire. Only 5 items pass" in done.err
    assert "it could be chance (p = 0.062). It takes at least 6 (By the rules of 0.2 it was met" in done.err
    same = answered([RIGHT] * 5, "--fail-on-regression")
    assert same.code == 1, "nothing is known of so few items, whatever they came to"
    assert answered([WRONG] * 6, "--fail-on-regression").code == 1


@pytest.mark.nightly
def test_a_baseline_in_which_little_passes_shows_no_drop_and_lets_a_better_run_through(answered, shell):
    answered([RIGHT] * 3 + [WRONG] * 17)
    assert "Only 3 of 20 items pass in the baseline" in shell("baseline", "set").out
    worse = answered([WRONG] * 20, "--fail-on-regression")
    assert worse.code == 1 and "The gate cannot fire. Only 3 of 20 items pass" in worse.err
    assert answered([RIGHT] * 10 + [WRONG] * 10, "--fail-on-regression").code == 0


def test_with_the_rules_of_0_2_a_gate_that_cannot_fire_is_met(answered, shell, project):
    answered([RIGHT] * 5)
    shell("baseline", "set")
    configure(project, '[run]\ngates = "0.2"\n')
    done = answered([WRONG] * 5, "--fail-on-regression", quiet=())
    assert done.code == 0 and 'Without `gates = "0.2"` it is not met: The gate cannot fire.' in done.out


def test_a_baseline_and_a_run_say_what_drop_the_items_can_show(answered, shell):
    answered([RIGHT] * 9)
    says = "With 9 items, a drop of 74 points or more shows as a regression."
    assert says in shell("baseline", "set").out
    done = answered([RIGHT] * 8 + [WRONG], "--fail-on-regression", quiet=())
    assert done.code == 0 and says in done.out
    assert "--fail-on-regression=0.05  ✓ met    -11.1 points over 9 items" in done.out


@pytest.mark.parametrize(
    ("wrong", "options", "code"),
    [
        (0, ("--fail-on-broken",), 0),
        (1, ("--fail-on-broken",), 1),
        (2, ("--fail-on-broken=3",), 0),
        (3, ("--fail-on-broken=3",), 1),
    ],
)
def test_items_that_passed_in_the_baseline_and_fail_now_are_counted(answered, shell, wrong, options, code):
    answered([WRONG, *[RIGHT] * 9])
    shell("baseline", "set")
    done = answered([WRONG] * (wrong + 1) + [RIGHT] * (9 - wrong), *options)
    assert done.code == code
    if code:
        named = ", ".join(f"#{number}" for number in range(2, 2 + wrong))
        verb = "fails" if wrong == 1 else "fail"
        assert f"{wrong} of 9 items that passed in " in done.err and f" {verb} now: {named}" in done.err


def test_the_option_takes_no_word_that_follows_for_its_number(dataset, replay, shell):
    dataset(1)
    target = replay([RIGHT])
    shell("run", "data.json", "-t", target, "--quiet")
    done = shell("run", "--fail-on-broken", "data.json", "-t", target, "--baseline", "last", "--quiet")
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize("given", ["0", "-1", "1.5", "many"])
def test_a_number_of_items_that_is_none_is_refused(answered, given):
    done = answered([RIGHT], f"--fail-on-broken={given}")
    assert done.code == 2 and "whole number from 1" in done.err


FLIPPING = """
asked = {}
def reply(prompt):
    asked[prompt] = asked.get(prompt, 0) + 1
    fails = prompt in %r or (prompt == "ask 0" and asked[prompt] == 2)
    return "wrong" if fails else "right"
"""


@pytest.mark.nightly
def test_items_that_flip_within_the_repeats_of_the_baseline_are_not_counted(dataset, project, shell):
    dataset(3)
    for name, wrong in (("before", ()), ("after", ("ask 0", "ask 1"))):
        (project / f"flips_{name}.py").write_text(FLIPPING % (wrong,))
    run = ("--no-cache", "-n", "3", "-c", "1", "--trust", "--quiet")
    assert shell("run", "data.json", "-t", "python:flips_before:reply", *run).code == 0
    shell("baseline", "set")
    done = shell("run", "data.json", "-t", "python:flips_after:reply", *run, "--fail-on-broken")
    assert (
        done.code == 1
        and "1 of 2 items that passed in" in done.err
        and "fails now: #2. Not counted: 1 item" in done.err
    )
    assert shell("run", "data.json", "-t", "python:flips_after:reply", *run, "--fail-on-broken=2").code == 0


@pytest.mark.nightly
def test_a_run_may_ask_less_or_more_often_than_its_baseline(dataset, project, shell):
    dataset(10)
    for name, wrong in (("before", ()), ("after", ("ask 0", "ask 1"))):
        (project / f"flips_{name}.py").write_text(FLIPPING % (wrong,))
    options = ("--no-cache", "-c", "1", "--trust", "--quiet", "--fail-on-broken", "--fail-on-regression")
    assert shell("run", "data.json", "-t", "python:flips_before:reply", *options[:-2], "-n", "3").code == 0
    shell("baseline", "set")
    done = shell("run", "data.json", "-t", "python:flips_before:reply", *options, "--json")
    assert done.code == 0 and "could not be compared" not in done.out, "nothing is missing where less is asked"
    done = shell("run", "data.json", "-t", "python:flips_after:reply", *options)
    assert done.code == 1 and "max-missing" not in done.err
    assert "1 of 9 items that passed in" in done.err, "a repeat that only the baseline asked shows that an item flips"
    assert "fails now: #2. Not counted: 1 item" in done.err
    steady = shell("run", "data.json", "-t", "python:flips_before:reply", *options[:-2], "-n", "1")
    assert steady.code == 0
    shell("baseline", "set")
    done = shell("run", "data.json", "-t", "python:flips_after:reply", *options, "-n", "3")
    assert done.code == 1 and "2 of 10 items that passed in" in done.err and "max-missing" not in done.err
    last = ("--baseline", "last", *options)
    assert shell("run", "data.json", "-t", "python:flips_after:reply", *last, "--items", "1-9").code == 1


def test_an_unanswered_item_is_missing_and_not_broken(answered, shell):
    answered([RIGHT] * 10)
    shell("baseline", "set")
    done = answered([None, *[RIGHT] * 9], "--fail-on-broken")
    assert done.code == 1 and "--fail-on-broken" not in done.err
    assert "1 of 10 answers (10 %) is judged in" in done.err and "not comparable now" in done.err


# -- runs that are not finished

STOPPING = """
import os, signal
def reply(prompt):
    number = int(prompt.split()[-1])
    if number == 6:
        os.kill(os.getpid(), signal.SIGINT)
    return "wrong" if number < 4 else "right"
"""


@pytest.fixture
def stopped(dataset, project, shell):
    """`stopped(*gates)` asks 20 items, of which four are wrong and three right when Ctrl-C stops it."""
    dataset(20)
    (project / "stopping.py").write_text(STOPPING)
    return lambda *gates: shell("run", "data.json", "-t", "python:stopping:reply", "-c", "1", "--trust", *gates)


def test_gates_of_an_interrupted_run_are_not_decided_unless_they_are_lost(stopped, shell):
    done = stopped(
        "--json", "--fail-under", "50", "--fail-under-score", "90", "--fail-on", "fail", "--max-missing", "0"
    )
    event = json.loads(done.out.splitlines()[-1])
    assert {one["gate"]: one["verdict"] for one in event["gates"]} == {
        "--fail-on fail": "not met",
        "--fail-under 50": "not decided",
        "--fail-under-score 90": "not met",
        "--max-missing 0": "not decided",
    }
    assert done.code == 130 and not event["met"]
    assert "at most 80.0 can be reached, less than 90" in event["verdict"]
    shown = shell("show", "last").out
    assert "○ not decided  42.9 % of 7 items, 95 % interval 12.5 to 77.5, 13 still open" in shown
    again = shell("resume", "last", "--trust", "--fail-under", "50")
    assert again.code == 0 and "✓ met    80.0 % of 20 items" in again.out
    assert shell("resume", "last").code == 2


def test_an_interrupted_run_whose_gates_are_open_says_so_and_exits_as_it_would_without(stopped):
    done = stopped("--fail-under", "50")
    assert done.code == 130
    assert "not decided: --fail-under 50 (the run is not finished, 13 of 20 answers open)" in done.err


WATCHING = """
from pathlib import Path
from tui_evals.store.reader import Reader
def reply(prompt):
    with Reader(Path(".evals/evals.db")) as reader, open("seen.txt", "a") as seen:
        run = reader.find_run("last")
        print(run.status, repr(run.verdict), len(run.gates), file=seen)
    return "right"
"""


def test_a_run_that_goes_on_has_no_gates_until_it_ends(stopped, project, shell):
    stopped("--fail-under", "50")
    with Reader(project / ".evals" / "evals.db") as reader:
        assert reader.find_run("last").gates
    (project / "stopping.py").write_text(WATCHING)
    sys.modules.pop("stopping", None)
    assert shell("resume", "last", "--trust", "--fail-under", "50", "--quiet").code == 0
    assert set((project / "seen.txt").read_text().splitlines()) == {"running '' 0"}
    assert "✓ met" in shell("show", "last").out


@pytest.mark.nightly
def test_what_broke_so_far_decides_a_gate_of_an_interrupted_run_and_a_regression_waits(stopped, answered, shell):
    answered([RIGHT] * 20)
    shell("baseline", "set")
    event = json.loads(stopped("--json", "--fail-on-broken=4", "--fail-on-regression").out.splitlines()[-1])
    broken, regression = event["gates"]
    assert broken["verdict"] == "not met" and "4 of 20 items that passed in" in broken["sentence"]
    assert regression["verdict"] == "not decided"
    event = json.loads(stopped("--json", "--fail-on-broken=5", "--name", "again").out.splitlines()[-1])
    assert [one["verdict"] for one in event["gates"]] == ["not decided"]


# -- every face


@pytest.fixture
def reported(answered, shell, project):
    """A run of three gates, of which one is not met, with its reports."""
    answered([RIGHT] * 9)
    shell("baseline", "set")
    kinds = [f"r.{kind}" for kind in ("md", "xml", "html", "json")]
    done = answered(
        [RIGHT] * 7 + [WRONG] * 2,
        *("--fail-under", "70", "--fail-on-broken", "--fail-on-regression"),
        *(word for kind in kinds for word in ("-o", kind)),
        quiet=(),
    )
    assert done.code == 1
    return done


TABLE = [
    ("--fail-under 70", "met", "77.8 % of 9 items, 95 % interval 44.0 to 97.7"),
    ("--fail-on-broken=1", "not met", "2 of 9 items that passed in "),
    ("--fail-on-regression=0.05", "met", "-22.2 points over 9 items"),
]


def test_every_text_face_has_each_gate_with_its_verdict_and_its_figure(reported, shell, project):
    faces = [reported.out, shell("show", "last").out, shell("watch", "last").out]
    faces += [(project / f"r.{kind}").read_text() for kind in ("md", "html")]
    for face in faces:
        for gate, verdict, figure in TABLE:
            lines = [line for line in face.splitlines() if gate in line and figure in line]
            assert any(f" {verdict}" in line and "not met: " not in line for line in lines), (gate, lines)


def test_every_json_has_the_gates_with_their_figures(reported, shell, project):
    found = [
        json.loads((project / "r.json").read_text())["extensions"]["tui_evals_run"]["gates"],
        json.loads(shell("show", "last", "--json").out)["gates"],
        json.loads(shell("watch", "last", "--json").out.splitlines()[-1])["gates"],
        json.loads(shell("runs", "--json").out)[0]["gates"],
    ]
    for gates in found:
        assert [(one["gate"], one["verdict"]) for one in gates] == [(gate, verdict) for gate, verdict, _ in TABLE]
        assert gates[0]["figure"]["value"] == pytest.approx(7 / 9) and gates[0]["figure"]["items"] == 9
        assert (gates[1]["figure"]["value"], gates[1]["figure"]["items"]) == (2, 9)


def test_junit_has_a_case_for_each_gate_that_no_import_takes_for_an_answer(reported, shell, project):
    root = ET.parse(project / "r.xml").getroot()
    (suite,) = [suite for suite in root if suite.get("name") == "gates"]
    assert [(case.get("name"), case.find("failure") is not None) for case in suite] == [
        (gate, verdict == "not met") for gate, verdict, _ in TABLE
    ]
    assert (root.get("tests"), root.get("failures")) == ("12", "3")
    assert (suite.get("tests"), suite.get("failures")) == ("3", "1")
    assert shell("import", "r.xml").code == 0
    with Reader(project / ".evals" / "evals.db") as reader:
        assert reader.find_run("last").total == 9


def test_annotations_begin_with_the_gates_that_are_not_met(reported, shell):
    first, *others = shell("report", "--annotations").out.splitlines()
    assert first.startswith("::error title=gate not met%3A --fail-on-broken=1::2 of 9 items that passed in ")
    assert len(others) == 2


def test_gates_are_forgotten_once_the_answers_are_judged_again_without_any(reported, shell):
    shell("rescore", "last", "--quiet")
    assert json.loads(shell("show", "last", "--json").out)["gates"] == []


def test_a_rescored_run_has_its_gates_checked(reported, shell):
    done = shell("rescore", "last", "-e", '{"Includes": {"negate": true}}', "--fail-under", "70")
    assert done.code == 1 and "✗ not met  22.2 % of 9 items" in done.out


def test_a_suite_takes_the_same_gates(project, shell):
    rows = "".join(f"{number},{number}\n" for number in range(10))
    (project / "cases.csv").write_text("input,reference_output\n" + rows)
    (project / "out.csv").write_text("candidate_output\n" + "".join(f"{n if n < 6 else 'x'}\n" for n in range(10)))
    assert shell("suite", "create", "sums", "--data", "cases.csv", "--scoring", "exact_match").code == 0
    done = shell("suite", "run", "sums", "one", "--candidates", "out.csv", "--fail-under", "70")
    assert done.code == 1 and "✗ not met  60.0 % of 10 items" in done.out
    options = (
        "suite",
        "run",
        "sums",
        "two",
        "--candidates",
        "out.csv",
        "--baseline",
        "one",
        "--fail-on-broken",
        "--json",
    )
    done = shell(*options)
    found = json.loads(done.out)
    assert done.code == 0 and [(one["gate"], one["verdict"]) for one in found["gates"]] == [
        ("--fail-on-broken=1", "met")
    ]
