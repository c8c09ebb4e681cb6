"""Gates count what has no answer: a run with 19 of 20 calls failed is red."""

import json
import xml.etree.ElementTree as ET

import pytest

from tests.cli.helpers import asked
from tui_evals.store.reader import Reader

pytestmark = pytest.mark.story

BOTH = ("--fail-on-regression", "--fail-under", "90")


@pytest.fixture
def run(dataset, answers, shell):
    """`run(answered, *options)` asks 20 items, of which so many are answered."""

    def started(answered, *options):
        dataset(asked(20), {"Includes": {}})
        target = answers(["right"] * answered + [None] * (20 - answered))
        return shell("run", "data.json", "-t", target, "--no-cache", *options)

    return started


@pytest.fixture
def baseline(run, shell):
    assert run(20, "--quiet").code == 0
    assert shell("baseline", "set").code == 0


def test_a_dead_backend_is_red_whatever_the_one_answer_says(run, baseline):
    done = run(1, *BOTH)
    assert done.code == 1 and "met: --fail" not in done.out
    assert "1 of 1 judged pass" in done.out and "19 without an answer" in done.out
    (line,) = (line for line in done.err.splitlines() if "not met" in line)
    assert "--fail-under 90: 5.0 % of 20 answers pass (19 missing or not judged), less than 90" in line
    assert "--max-missing 5: 19 of 20 answers (95 %) are missing or not judged, more than 5 %" in line
    assert "and not comparable now, more than 5 %" in line


@pytest.mark.parametrize("gate", [("--fail-under", "1"), ("--fail-on", "error"), ("--fail-on-regression",)])
def test_every_gate_alone_refuses_it(run, baseline, gate):
    assert run(1, "--quiet", *gate).code == 1


def test_the_line_is_all_that_quiet_prints_and_the_same_in_every_report(run, baseline, folder, shell):
    done = run(1, "--quiet", *BOTH, "-o", "r.md", "-o", "r.xml", "-o", "r.json", "-o", "r.html")
    assert done.out == "" and done.code == 1
    line = done.err.strip()
    assert line.startswith("not met: ") and "\n" not in line
    assert line in (folder / "r.md").read_text()
    assert line in (folder / "r.html").read_text()
    assert json.loads((folder / "r.json").read_text())["extensions"]["tui_evals_run"]["verdict"] == line
    properties = {one.get("name"): one.get("value") for one in ET.parse(folder / "r.xml").iter("property")}
    assert properties["gates"] == line
    assert line in shell("show", "last").out
    assert json.loads(shell("show", "last", "--json").out)["verdict"] == line
    event = json.loads(run(1, "--json", *BOTH).out.splitlines()[-1])
    assert event["met"] is False and event["verdict"].split("; judged in ")[0] == line.split("; judged in ")[0]


def test_a_good_run_says_what_it_rests_on(run, baseline, folder):
    done = run(19, *BOTH)
    assert done.code == 0, done.err
    assert "met: --fail-under 90, --fail-on-regression=0.05 (resting on 19 of 20 answers)" in done.out


def test_how_much_may_be_missing_can_be_said_and_is_a_gate_of_its_own(run, baseline):
    assert run(18, "--quiet", "--fail-under", "50").code == 1
    assert run(18, "--quiet", "--fail-under", "50", "--max-missing", "10").code == 0
    assert run(18, "--quiet", "--max-missing", "5").code == 1
    assert run(18, "--quiet", "--max-missing", "101").code == 2


def test_a_run_without_gates_keeps_no_verdict(run, folder):
    run(20, "--quiet")
    with Reader(folder / ".evals" / "evals.db") as reader:
        assert reader.find_run("last").verdict == ""
