"""Compare calls 'broken' what was only judged by another expectation (accept, rescore, compare with the run
before), while the screen says 'A and B are the same'."""

import csv
import json
from functools import partial
from pathlib import Path

import pytest

from tests.cli.answered_yes import dataset, run_dataset
from tests.reports.written import report_text
from tui_evals.compare.runs import read_comparison
from tui_evals.store import housekeeping
from tui_evals.store.reader import Reader
from tui_evals.tui.answer.rows import AnswerView, answer_rows
from tui_evals.tui.answer_context import AnswerFinder, ComparedAnswer
from tui_evals.tui.compare.pair import _remarks
from tui_evals.tui.compare.rows import ComparedItemFinder, head_lines
from tui_evals.tui.rows import row_text

pytestmark = pytest.mark.story

OTHERWISE = "judged by another expectation"


@pytest.fixture
def run(tmp_path, monkeypatch, shell):
    """A run of the dataset as it is now, whose target always says "yes"."""
    monkeypatch.chdir(tmp_path)
    return partial(run_dataset, shell)


def compared(shell, *keys):
    (against,) = json.loads(shell("compare", *keys, "--json").out)["against"]
    return against


def test_an_edited_expectation_breaks_nothing(run, shell):
    dataset("yes", "yes", "yes")
    first = run()
    dataset("no", "yes", "yes")
    second = run()
    found = compared(shell, first, second)
    assert (found["broken"], found["items"], found["lines"]["not comparable"], found["lines"]["broken"]) == (0, 2, 1, 0)
    assert found["judged_by_another_expectation"] == 1
    out = " ".join(shell("compare", first, second).out.split())
    assert f"? not comparable: {OTHERWISE} t0" in out and "1 answer was judged by another expectation" in out
    assert f"`tui-evals rescore {first} --dataset data.json` judges A by what is expected now" in out
    assert f"1 not comparable ({OTHERWISE})" in out


@pytest.mark.nightly
def test_the_offered_command_makes_them_comparable(run, shell):
    dataset("yes", "yes", "yes")
    first = run()
    dataset("no", "yes", "yes")
    second = run()
    assert shell("rescore", first, "--dataset", "data.json", "--quiet").code == 0
    found = compared(shell, first, second)
    assert (found["items"], found["lines"]["not comparable"], found["lines"]["same"]) == (3, 0, 3)
    assert OTHERWISE not in shell("compare", first, second).out


@pytest.mark.nightly
def test_a_rescored_side_is_compared_by_what_judged_it_and_the_older_verdict_is_offered_to_be_judged_again(run, shell):
    dataset("no", "no", "yes")
    first, second = run(), run()
    dataset("yes", "yes", "yes")
    assert shell("rescore", second, "--dataset", "data.json", "--quiet").code == 0
    found = compared(shell, first, second)
    assert (found["fixed"], found["items"], found["lines"]["not comparable"]) == (0, 1, 2)
    assert f"tui-evals rescore {first}" in shell("compare", first, second).out.replace("\n", " ")
    assert f"tui-evals rescore {first}" in shell("compare", second, first).out.replace("\n", " ")


@pytest.mark.nightly
def test_other_options_of_an_evaluator_are_another_expectation(run, shell):
    dataset("yes", "yes", "yes", default_evaluators={"PartialMatch": {"threshold": 0.5}})
    first = run()
    dataset("yes", "yes", "yes", default_evaluators={"PartialMatch": {"threshold": 0.9, "weight": 0.5}})
    assert compared(shell, first, run())["lines"]["not comparable"] == 3
    dataset("yes", "yes", "yes", default_evaluators={"PartialMatch": {"threshold": 0.5, "weight": 0.5}})
    assert compared(shell, first, run())["lines"]["not comparable"] == 0


@pytest.mark.nightly
def test_where_nothing_is_left_to_compare_the_verdict_says_why(run, shell):
    dataset("yes", "yes", "yes")
    first = run()
    dataset("no", "no", "no")
    second = run()
    says = "A and B have no item in common that both judged by the same expectation. 3 answers were judged by another"
    assert says in " ".join(shell("compare", first, second).out.split())
    assert shell("compare", first, second, "--only", "broken").out.rstrip().endswith("No answer is broken.")


@pytest.mark.nightly
def test_files_and_the_workbench_say_it_too(run, shell):
    dataset("yes", "yes", "yes")
    first = run()
    dataset("no", "yes", "yes")
    second = run()
    with Reader(".evals/evals.db") as reader:
        runs = [reader.find_run(key) for key in (first, second)]
        for kind in ("md", "html", "json"):
            assert OTHERWISE in report_text(kind, reader, runs), kind
        rows = list(csv.DictReader(report_text("csv", reader, runs).splitlines()))
        comparison = read_comparison(reader, [one.id for one in runs])
    assert [row["kind"] for row in rows] == ["not comparable", "same", "same"]
    assert OTHERWISE in "\n".join(row_text(line) for line in head_lines(comparison, 120, tall=True))
    line = next(line for line in comparison.lines if any(line.otherwise))
    assert OTHERWISE in " ".join(_remarks(line))


def test_a_rescored_answer_shows_its_diff_against_what_it_was_judged_by(run, shell):
    dataset("no", "no", "no")
    key = run()
    dataset("yes", "perhaps", "no")
    assert shell("rescore", key, "--dataset", "data.json", "--quiet").code == 0
    shown = shell("show", key, "--item", "t1").out
    assert "perhaps" in shown and "expected\n    no\n" not in shown
    assert "perhaps" in shell("diff", key, "--item", "t1").out
    with Reader(".evals/evals.db") as reader:
        run_row = reader.find_run(key)
        ids = {row.name: row.id for row in reader.all_rows(run_row.id)}
        assert reader.snapshot(run_row.snapshot)["items"][1]["expected_response"] == "no"
        assert all("perhaps" in report_text(kind, reader, [run_row]) for kind in ("junit", "html"))
        comparison = read_comparison(reader, [run_row.id, run_row.id])
    store = Path(".evals/evals.db")
    assert AnswerFinder(store).find(ids["t1"]).reference == "perhaps"
    case = ComparedAnswer(AnswerFinder(store).find(ids["t0"]))
    assert "yes" in "\n".join(row_text(line) for line in answer_rows(case, AnswerView(layout="unified"), 100))
    assert ComparedItemFinder(store, comparison).find(comparison.lines[1]).expected == "perhaps"


def test_what_a_rescored_run_asked_stays_what_it_asked(run, shell):
    dataset("no", "no", "no")
    key = run()
    Path("data.json").write_text(Path("data.json").read_text().replace("ask 1", "other words"))
    assert shell("rescore", key, "--dataset", "data.json", "--quiet").code == 0
    assert "ask 1" in shell("show", key, "--item", "t1").out


def test_a_dataset_that_only_judged_is_kept_as_long_as_its_run(run, shell, monkeypatch):
    monkeypatch.setattr(housekeeping, "_ABANDONED", 0)
    dataset("no", "no", "no")
    key, other = run(), run()
    dataset("yes", "perhaps", "yes")
    assert shell("rescore", key, "--dataset", "data.json", "--quiet").code == 0
    assert shell("delete", other, "--yes").code == 0
    assert "expected\n    perhaps\n" in shell("show", key, "--item", "t1").out
