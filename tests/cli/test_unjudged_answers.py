"""Answers that nothing judged are no passes and have no rate."""

import json
import xml.etree.ElementTree as ET

import pytest

from tests.cli.helpers import asked
from tui_evals.store.reader import Reader

RELEVANCE = {"Relevance": {}}


@pytest.fixture
def unjudged(dataset, answers, shell):
    dataset(asked(2), RELEVANCE)
    target = answers(["right", "right"])

    def run(*options):
        return shell("run", "data.json", "-t", target, "--without-judges", *options)

    return run


def test_what_nobody_judged_is_no_pass_and_has_no_rate(unjudged, shell, folder):
    done = unjudged("-o", "r.md", "-o", "r.xml", "-o", "r.html", "-o", "r.csv")
    assert done.code == 0 and "2 unjudged" in done.out
    for text in (done.out, shell("show", "last").out, *((folder / f"r.{kind}").read_text() for kind in ("md", "html"))):
        text = text.partition("</style>")[2] or text
        assert "100 %" not in text and "100.0 %" not in text and "of 2 pass" not in text and "0 of 0" not in text
    assert shell("show", "last").out.count("○ unjudged") == 2
    cases = list(ET.parse(folder / "r.xml").iter("testcase"))
    assert [case.find("skipped").get("message") for case in cases] == [
        "unjudged: no evaluator gave a result; Relevance skipped: left out: the run was started without judges"
    ] * 2
    assert "unjudged" in (folder / "r.csv").read_text()


@pytest.mark.parametrize("gate", [("--fail-on", "error"), ("--fail-under", "0"), ("--max-missing", "100")])
def test_a_gate_over_nothing_judged_is_not_met(unjudged, gate):
    done = unjudged("--quiet", *gate)
    assert done.code == 1 and "not one of 2 answers was judged" in done.err


def test_the_status_can_be_filtered_for(unjudged, shell):
    unjudged("--quiet")
    for word in ("unjudged", "status:unjudged", "!status:pass"):
        assert len(json.loads(shell("show", "last", "--only", word, "--json").out)["answers"]) == 2
    assert json.loads(shell("show", "last", "--only", "scored", "--json").out)["answers"] == []


def test_items_without_any_evaluator_are_unjudged_and_no_failure_of_the_run(dataset, answers, shell, folder):
    dataset(asked(2), {})
    assert shell("run", "data.json", "-t", answers(["a", "b"]), "--quiet").code == 0
    with Reader(folder / ".evals" / "evals.db") as reader:
        totals = reader.totals(reader.find_run("last").id)
    assert (totals.passed, totals.unjudged) == (0, 2)


def test_a_run_that_was_to_be_judged_and_was_not_is_exit_1(dataset, answers, shell):
    dataset([{"prompt": f"ask {n}"} for n in range(2)], {"Includes": {}})
    done = shell("run", "data.json", "-t", answers(["a", "b"]), "--quiet")
    assert done.code == 1 and "not one of 2 answers was judged" in done.err


def test_a_turn_without_evaluators_is_not_missing_where_another_was_judged(dataset, shell, folder):
    turns = [{"prompt": "a"}, {"prompt": "b", "evaluators": {"Regex": {"pattern": "."}}}]
    dataset([{"turns": turns}], {})
    assert shell("run", "data.json", "-t", "demo", "--quiet", "--fail-under", "100").code == 0
