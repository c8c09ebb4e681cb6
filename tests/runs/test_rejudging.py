"""A single answer judged again in its run: the new verdict counts, the old one is kept, and every face says so."""

import asyncio
import json
import sqlite3
import threading
from pathlib import Path

import pytest

from tests.cli.answered_yes import dataset, run_dataset
from tests.reports.written import report_text
from tests.tui.story import at_the_workbench
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.project import load_project
from tui_evals.runs.rescoring import prepare_rejudging, rejudge
from tui_evals.store import housekeeping, run_figures
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer

pytestmark = pytest.mark.story

STORE = Path(".evals/evals.db")
SAID = "1 answer judged again by an edited dataset"


@pytest.fixture
def run(tmp_path, monkeypatch, shell):
    """A run of three items whose target says "yes" to each, though the first two expect something else."""
    monkeypatch.chdir(tmp_path)
    dataset("no", "never", "yes")
    return run_dataset(shell)


def stored():
    with Reader(STORE) as reader:
        run = reader.find_run("last")
        return run, [reader.detail(row.id) for row in reader.all_rows(run.id)]


def test_one_answer_is_judged_by_the_edited_dataset_and_the_run_says_so(run, shell):
    dataset("yes", "never", "yes")
    out = shell("rescore", run, "--item", "t0", "--dataset", "data.json").out
    assert "t0: ✗ fail" in out and "→ ✓ pass" in out and f"{run}: {SAID}" in out
    row, (first, second, third) = stored()
    assert [one.row.status for one in (first, second, third)] == ["pass", "fail", "pass"] and row.rejudged == 1
    (earlier,) = first.earlier
    assert (earlier.rejudged.status, [score.result for score in earlier.scores]) == ("fail", ["fail"])
    assert [score.result for score in first.scores[1]] == ["pass"] and not second.earlier
    with Reader(STORE) as reader:
        assert reader.totals(row.id).passed == 2 and run_figures.evaluator_means(reader, row.id)[0].passed == 2
    shown = shell("show", run)
    assert SAID in shown.out
    whole = json.loads(shell("show", run, "--json").out)
    assert whole["judged_again_by_edited_dataset"] == whole["run"]["rejudged"] == 1
    one = shell("show", run, "--item", "t0").out
    assert "by an edited expectation" in one and "before " in one and "✗ fail" in one
    assert "    no\n" not in one and "    yes\n" in one
    with Reader(STORE) as reader:
        assert all(SAID in report_text(kind, reader, [row]) for kind in ("html", "md"))
        assert "by an edited expectation" in report_text("html", reader, [row])


def test_judged_again_by_the_same_it_is_told_but_not_counted_as_edited(run, shell):
    dataset("yes", "never", "yes")
    shell("rescore", run, "--item", "t0", "--dataset", "data.json")
    out = shell("rescore", run, "--item", "t0").out
    assert "→ ✗ fail" in out and "edited" not in out
    row, (first, *_) = stored()
    assert row.rejudged == 0 and len(first.earlier) == 2 and first.row.status == "fail"
    one = shell("show", run, "--item", "t0").out
    assert "judged again" in one and "edited" not in one and "    no\n" in one


def test_comparing_leaves_out_what_is_judged_by_another_expectation(run, shell):
    assert shell("run", "data.json", "-t", "replay:answers.jsonl", "--quiet").code == 0
    dataset("yes", "never", "yes")
    shell("rescore", "last", "--item", "t0", "--dataset", "data.json")
    with Reader(STORE) as reader:
        later = reader.find_run("last").key
    (against,) = json.loads(shell("compare", run, later, "--json").out)["against"]
    assert against["judged_by_another_expectation"] == 1
    assert (against["fixed"], against["items"], against["lines"]["not comparable"]) == (0, 2, 1)
    shell("rescore", run, "--item", "t0", "--dataset", "data.json")
    (against,) = json.loads(shell("compare", run, later, "--json").out)["against"]
    assert (against["items"], against["lines"]["same"], against["judged_by_another_expectation"]) == (3, 3, 0)


def test_a_pass_over_some_answers_leaves_it_judged_by_the_edited_dataset(run, shell):
    dataset("yes", "never", "yes")
    shell("rescore", run, "--item", "t0", "--dataset", "data.json")
    assert shell("rescore", run, "--items", "2", "--quiet").code == 0
    row, (first, *_) = stored()
    assert (row.scoring_pass, row.rejudged, first.row.status, len(first.earlier)) == (2, 1, "pass", 1)


def test_a_whole_pass_after_it_counts_and_says_nothing_of_it(run, shell):
    dataset("yes", "never", "yes")
    shell("rescore", run, "--item", "t0", "--dataset", "data.json")
    shell("rescore", run, "--quiet")
    row, (first, *_) = stored()
    assert row.rejudged == 0 and first.row.status == "fail" and SAID not in shell("show", run).out


def test_what_changed_meanwhile_is_not_overwritten_and_half_of_it_is_never_stored(run, monkeypatch):
    here = load_project(Path.cwd())
    with Reader(STORE) as reader:
        row = reader.find_run("last")
        first = next(reader.all_rows(row.id))
        work = prepare_rejudging(row, [first], reader, here)
    with Writer(STORE) as writer:
        writer.label(first.id, "pass", "ada")
        with pytest.raises(CannotPlan, match="changed while it was judged"):
            asyncio.run(rejudge(work, writer))
        assert not stored()[1][0].earlier
        row = stored()[0]
        with Reader(STORE) as reader:
            work = prepare_rejudging(row, reader.rows([first.id]), reader, here)
        before = stored()
        monkeypatch.setattr(housekeeping, "take_seq", cut_short)
        with pytest.raises(ZeroDivisionError):
            asyncio.run(rejudge(work, writer))
        assert stored() == before


def cut_short(*_):
    return 1 // 0


def full_for_a_while(monkeypatch, times):
    """A disk that has no room for a verdict so many times."""
    take, left = housekeeping.take_seq, iter(range(times))

    def taken(*given):
        if next(left, None) is not None:
            problem = sqlite3.OperationalError("database or disk is full")
            problem.sqlite_errorname = "SQLITE_FULL"
            raise problem
        return take(*given)

    monkeypatch.setattr(housekeeping, "take_seq", taken)


def test_a_verdict_waits_for_a_store_that_takes_nothing(run, shell, monkeypatch):
    dataset("yes", "never", "yes")
    full_for_a_while(monkeypatch, 1)
    done = shell("rescore", run, "--item", "t0", "--dataset", "data.json")
    assert done.code == 0 and "→ ✓ pass" in done.out
    assert "asking waits, because the disk is full" in done.err
    assert stored()[1][0].row.status == "pass"


def test_a_verdict_that_cannot_be_stored_in_the_end_is_paid_for_once(project, monkeypatch):
    referee = f'[targets.referee]\nmodel = "openai/referee"\nbase_url = "{project.server.url}"\nmax_outage = 0.1\n'
    project.configure(referee)
    project.server.behave("referee", markers=False, say=json.dumps({"score": 1, "reason": "other words"}))
    file = project.dataset(1, default_evaluators={"Similarity": {}})
    project.do("run", "data.json", "--target", "main", "--judge", "referee", "--quiet")
    file.write_text(file.read_text().replace('"question 0"}', '"quite another"}'))
    project.server.behave("referee", markers=False, say=json.dumps({"score": 5, "reason": "the same"}))
    again = ("rescore", "last", "--item", "#1", "--dataset", "data.json")
    asked = project.server.counts()["asked"]
    with monkeypatch.context() as patch:
        full_for_a_while(patch, 1_000)
        said = project.do(*again, code=4)
        assert "because the disk is full" in said and "The same command continues" in said
    assert "→ ✓ pass" in project.do(*again)
    assert project.server.counts()["asked"] == asked + 1
    with project.reader() as reader:
        calls = [call for call in reader.calls(reader.find_run("last").id) if call.kind == "judge"]
    assert sum(not call.from_cache for call in calls) == 2


@pytest.mark.nightly
async def test_a_verdict_at_the_workbench_waits_for_its_store(run, monkeypatch):
    dataset("yes", "never", "yes")
    async with at_the_workbench(Path.cwd(), size=(200, 50), dataset="data.json", run=run) as person:
        await person.sees("2 fail")
        await person.press("4", "/")
        await person.type("failed\n")
        await person.until(lambda: len(person.app.watching) == 2)
        full_for_a_while(monkeypatch, 1)
        await person.press("5", "t")
        await person.until(lambda: "next: t1" in person.said())
    assert stored()[1][0].row.status == "pass"


@pytest.mark.nightly
async def test_a_failure_is_accepted_judged_again_and_the_next_one_is_on_screen(run):
    async with at_the_workbench(Path.cwd(), size=(200, 50), dataset="data.json", run=run) as person:
        await person.sees("2 fail")
        await person.press("4", "/")
        await person.type("failed\n")
        await person.until(lambda: len(person.app.watching) == 2)
        await person.press("5", "a")
        await person.until(lambda: "t0 now expects this answer" in person.said())
        await person.press("t")
        await person.until(lambda: "next: t1" in person.said())
        assert "t0: ✗ fail" in person.said() and "by an edited expectation" in person.said()
        await person.until(lambda: person.app.watching.reader.rows([person.app.watching.answer])[0].name == "t1")
        await person.sees(SAID)
        await person.until(lambda: person.app.watching.totals.passed == 2)
        await person.until(lambda: any("✓ 2 ✗ 1" in line for line in person.rows("runs")))
        assert person.app.watching.order.text == "failed" and person.app.watching.run.key == run
        await person.press("4", "t")
        await person.until(lambda: "no other failure is left" in person.said())
        assert stored()[0].rejudged == 1
        assert "never" in Path("data.json").read_text() and '"no"' in Path("data.json").read_text()


def test_a_judge_is_asked_within_the_budget_of_the_run(project):
    price = "[targets.{}.price]\ninput_per_million = 0.0\noutput_per_million = 1000.0\n"
    judge = f'[targets.referee]\nmodel = "openai/referee"\nbase_url = "{project.server.url}"\n'
    project.configure(price.format("main") + judge + price.format("referee"))
    project.server.behave("referee", markers=False, say=json.dumps({"score": 1, "reason": "other words"}))
    file = project.dataset(2, default_evaluators={"Similarity": {}})
    project.do("run", "data.json", "--target", "main", "--judge", "referee", "--max-cost", "99", "--quiet")
    file.write_text(file.read_text().replace('"question 0"}', '"quite another"}'))
    project.server.behave("referee", markers=False, say=json.dumps({"score": 5, "reason": "the same"}))
    with project.reader() as reader:
        run = reader.find_run("last")
        spent, calls = run_figures.spent(reader, run.id), len(list(reader.calls(run.id)))
    assert "1 call of the judge" in project.do("rescore", "last", "--item", "#1", "--dataset", "data.json", "--plan")
    assert "→ ✓ pass" in project.do("rescore", "last", "--item", "#1", "--dataset", "data.json")
    with project.reader() as reader:
        assert len(list(reader.calls(run.id))) == calls + 1 and run_figures.spent(reader, run.id) > spent
        (answer, *_) = reader.all_rows(run.id)
        assert [call.kind for call in reader.detail(answer.id).calls] == ["target", "judge", "judge"]
        config = {**run.config, "terms": {**run.config["terms"], "max_cost": spent}}
    with Writer(project.database) as writer:
        writer.run_config(run.id, config)
    file.write_text(file.read_text().replace("quite another", "something else"))
    assert "and the next call could cost" in project.do(
        "rescore", "last", "--item", "#1", "--dataset", "data.json", code=3
    )
    with project.reader() as reader:
        assert reader.run(run.id).rejudged == 1 and len(reader.detail(answer.id).earlier) == 1


@pytest.mark.nightly
async def test_an_item_that_is_run_again_joins_the_view_and_the_run_on_screen_stays(run):
    async with at_the_workbench(Path.cwd(), size=(200, 50), dataset="data.json", run=run) as person:
        watch = person.app.watching
        await person.press("4", "/")
        await person.type("failed\n")
        await person.until(lambda: len(watch) == 2)
        Path("answers.jsonl").write_text(json.dumps({"prompt": "ask 0", "response": "no"}))
        await person.press("r")
        await person.sees("start")
        await person.until(lambda: "working out" not in person.screen())
        await person.press("enter")
        await person.until(lambda: "join those here" in person.said())
        await person.until(lambda: any("✗ fail" in line and "→ ✓ pass" in line for line in person.rows("detail")))
        assert any("Again, in data " in line for line in person.rows("detail"))
        assert (watch.run.key, watch.order.text, watch.reader.rows([watch.answer])[0].name) == (run, "failed", "t0")
        await person.press("5", "z")
        await person.until(lambda: any("this answer" in line and "│ again" in line for line in person.rows("detail")))
        await person.until(lambda: not any(one.name.startswith("end of") for one in threading.enumerate()))
        assert len(watch.reader.runs()) == 2 and watch.reader.runs()[0].parent == watch.run.id
