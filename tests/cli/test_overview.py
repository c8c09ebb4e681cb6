"""`tui-evals report --overview`: the table on the screen, and what is written."""

import csv
import json

import pytest
from rich.cells import cell_len

from tests.reports.overviews import answered, baseline, compliance, golden, metric, ruled, run
from tests.reports.stores import Ran, every, good, store
from tests.tui.hostile import FORBIDDEN, STRANGE
from tui_evals.cli.compare import report


@pytest.fixture
def narrow(monkeypatch):
    """A terminal of 80 columns."""
    monkeypatch.setattr(report, "columns", lambda: 80)


def test_alone_it_prints_a_table(shell, project):
    golden(project)
    done = shell("report", "--overview")
    head, *rows = done.out.splitlines()
    assert head.split("  ")[0] == "model" and "baseline compliant" in head
    assert rows[1].split() == ["gemma2:9b", "42", "95%", "42", "98%", "21", "21", "21", "19"]
    assert (done.code, done.err, len(rows)) == (0, "", 4)
    assert shell("report", "--overview", "-o", "-").out == done.out
    assert not (project / ".evals" / "results").exists()


def test_a_narrow_terminal_gets_a_column_for_each_model(shell, project, narrow):
    golden(project)
    lines = shell("report", "--overview").out.splitlines()
    assert all(cell_len(line) <= 80 for line in lines)
    assert lines[0].split() == ["model", "gpt-4o-mini", "gemma2:9b", "qwen2.5:3b", "llama3.2:1b"]
    assert ["tests", "compliant", "100%", "95%", "98%", "10%"] in [line.split() for line in lines]


def test_models_that_do_not_fit_beside_each_other_follow(shell, project, narrow):
    models = tuple(f"a model with a long name {n}" for n in range(5))
    run(project, ruled(1), every(answered(compliance(True))), targets=models)
    lines = shell("report", "--overview").out.splitlines()
    assert all(cell_len(line) <= 80 for line in lines)
    assert [line.count("long name") for line in lines if line.startswith("model ")] == [2, 2, 1]
    assert all(any(model in line for line in lines) for model in models)


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_it_is_written_by_kind_or_ending_or_to_the_screen(shell, project, kind):
    made = golden(project)
    file = project / ".evals" / "results" / f"{made.key}-overview.{kind}"
    assert shell("report", "--overview", "--to", kind).out == f"wrote {file}\n"
    assert shell("report", "--overview", "-o", f"deep/x.{kind}").out == f"wrote deep/x.{kind}\n"
    assert (project / f"deep/x.{kind}").read_text() == file.read_text()
    assert shell("report", "--overview", "--to", kind, "-o", "-").out == file.read_text()
    if kind == "csv":
        rows = list(csv.DictReader(file.read_text().splitlines()))
    else:
        rows = json.loads(file.read_text())["rows"]
    assert [row["model"] for row in rows] == list(made.targets)


def test_more_runs_than_are_compared_stand_below_each_other(shell, project):
    keys = [run(project, ruled(1), every(answered(compliance(True)))).key for _ in range(6)]
    lines = shell("report", ",".join(keys), "--overview").out.splitlines()
    assert [line.split()[0] for line in lines] == ["run", *keys]


def test_what_is_left_out_of_a_figure_is_said_below(shell, project):
    broken = metric(None, result="error", reason="no number")
    run(project, [*ruled(1), *baseline(1)], every(answered(broken)), evaluators={"nice": {}})
    out = shell("report", "--overview").out
    assert "nice with gpt: 1 answer could not be judged; its figures leave them out." in out
    assert "Compliance judged no answer" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--to", "html"], "an overview is written as csv or json, not as html"),
        (["-o", "x.md"], "x.md: an overview is written as .csv or .json"),
        (["-o", "x"], "x: an overview is written as .csv or .json"),
        (["--annotations"], "leave one of the two options out"),
        (["nobody"], "there is no run 'nobody'"),
        ([","], "name one run, or several"),
    ],
)
def test_mistakes_end_in_a_sentence(shell, project, words, says):
    golden(project)
    done = shell("report", "--overview", *words)
    assert done.code == 2 and says in done.err and not done.out


def test_a_dataset_that_was_not_made_from_rules_is_a_sentence(shell, project):
    store(project, Ran([{"testId": "a", "prompt": "hi"}], every(good())))
    done = shell("report", "--overview")
    assert done.code == 2 and "no item of it was made from a rule" in done.err and "generate" in done.err


def test_a_place_that_cannot_be_written_is_a_sentence(shell, project):
    golden(project)
    (project / "folder.json").mkdir()
    (project / "file").write_text("mine")
    for name in ("folder.json", "file/x.json"):
        done = shell("report", "--overview", "-o", name)
        assert done.code == 1 and name in done.err and done.err.endswith("the run is kept\n")
    assert (project / "file").read_text() == "mine"


@pytest.mark.parametrize("wide", [True, False])
def test_no_name_reaches_the_terminal_as_it_is(shell, project, monkeypatch, wide):
    monkeypatch.setattr(report, "columns", lambda: None if wide else 60)
    broken = metric(None, STRANGE, STRANGE, result="error")
    judges = {"evaluators": {STRANGE: {"judge": STRANGE}}, "targets": (STRANGE, "b"), "name": STRANGE}
    run(project, ruled(1, scenario=STRANGE), every(answered(broken)), **judges)
    out = shell("report", "--overview").out.encode()
    assert not [found for found in FORBIDDEN if found in out] and b"could not be judged" in out


def test_what_is_raw_in_csv_is_asked_for(shell, project):
    run(project, ruled(1), every(answered(compliance(True))), targets=("=1+1",))
    words = ("report", "--overview", "--to", "csv", "-o", "-")
    assert "\n'=1+1," in shell(*words).out and "\n=1+1," in shell(*words, "--raw-csv").out


def test_half_a_character_becomes_its_escape(shell, project):
    run(project, ruled(1, scenario="x\ud800"), every(answered(compliance(True))))
    for kind in ("csv", "json"):
        assert shell("report", "--overview", "--to", kind, "-o", "x").code == 0
        assert shell("report", "--overview", "--to", kind, "-o", "-").out == (project / "x").read_text("utf-8")
    assert json.loads((project / "x").read_text())["rows"][0]["scenario"] == "x\ud800"
    assert shell("report", "--overview").code == 0
