"""A rescoring that was interrupted never mixes two judgings in one rate."""

import json
import signal

import pytest

from tests.runs.conftest import Project, kill, server, until  # noqa: F401
from tui_evals.store.details import read_scores

COUNT = 240


@pytest.fixture
def project(tmp_path, server):  # noqa: F811
    project = Project(tmp_path, server)
    judge = f'[targets.judge]\nmodel = "openai/judge-model"\nbase_url = "{server.url}"\nconcurrency = 4\n'
    project.configure(f'{judge}\n[judge]\ntarget = "judge"', concurrency=20)
    project.dataset(COUNT)
    project.do("run", "data.json", "--target", "main", "--quiet")
    server.behave(model="judge-model", say='{"reason": "poor", "score": 1}', markers=False, latency=0.03)
    return project


def asked(project):
    return sum(question["asked"] for question in project.server.counts()["questions"]) - COUNT


@pytest.mark.nightly
@pytest.mark.parametrize("end", [pytest.param(signal.SIGINT, marks=pytest.mark.nightly), signal.SIGKILL])
def test_a_judging_counts_when_it_is_whole_and_resume_goes_on_with_it(project, end):
    process = project.start("rescore", "last", "-e", "Relevance")
    until(lambda: asked(project) >= 20)
    if end == signal.SIGKILL:
        kill(process)
    else:
        process.send_signal(end)
        _, err = process.communicate()
        assert process.returncode == 130 and "tui-evals resume" in err
    with project.reader() as reader:
        run = reader.find_run("last")
        assert (run.status, run.scoring_pass, run.staged_pass) == ("interrupted", 1, 2)
        assert 0 < run.staged < COUNT and reader.totals(run.id).passed == COUNT
    sentence = f"judged {run.staged} of {COUNT} again (pass 2 under way)"
    assert f"{COUNT} of {COUNT} pass" in (shown := project.do("show", "last")) and sentence in shown
    data = json.loads(project.do("show", "last", "--json"))
    assert data["judging"] == {"pass": 2, "judged": run.staged}
    for kind in ("md", "html"):
        assert sentence in project.do("report", "last", "--to", kind, "-o", "-")

    before = asked(project)
    project.server.behave(model="judge-model", say='{"reason": "poor", "score": 1}', markers=False)
    project.do("resume", "last", "--quiet")
    with project.reader() as reader:
        run = reader.find_run("last")
        assert (run.status, run.scoring_pass, run.staged_pass) == ("finished", 2, 0)
        assert reader.totals(run.id).failed == COUNT
        assert {record.key for _, record in read_scores(reader, run.id)} == {"Relevance"}
    assert asked(project) - before <= COUNT - 16  # what was in flight may be asked again


@pytest.mark.nightly
def test_another_judging_takes_the_place_of_one_that_was_left(project):
    process = project.start("rescore", "last", "-e", "Relevance")
    until(lambda: asked(project) >= 20)
    kill(process)
    project.do("rescore", "last", "-e", '{"StartsWith": {"value": "nowhere"}}', "--quiet")
    with project.reader() as reader:
        run = reader.find_run("last")
        assert (run.status, run.scoring_pass, run.staged_pass, run.staged) == ("finished", 2, 0, 0)
        assert reader.totals(run.id).failed == COUNT
        assert {record.key for _, record in read_scores(reader, run.id)} == {"StartsWith"}
