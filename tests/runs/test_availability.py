"""What becomes of a run while a target or judge cannot be asked: its own cells stay pending, all others go on.

Only a question that is broken becomes a row: one that the target cannot answer while it answers others.
"""

import json
import sqlite3
from contextlib import closing

import pytest

from tests.runs.conftest import kill, until
from tests.server import SHORT

VERDICT = '{"reason": "fine", "score": 5}'
AT_ONCE = 3
INFRASTRUCTURE = ("401", "403", "404", "402", "429quota", "redirect", "stated401")


def configure(project, *names, more="", **settings):
    """Targets by these names besides `main`, and a judge, each with a model of its own."""
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in {"concurrency": AT_ONCE, **settings}.items())
    sections = "".join(
        f'[targets.{name}]\nmodel = "openai/{name}-model"\nbase_url = "{project.server.url}"\n{lines}\n'
        for name in (*names, "judge")
    )
    project.configure(f'{lines}\n{sections}[judge]\ntarget = "judge"\n{more}')
    project.server.behave("judge-model", say=VERDICT, markers=False)


def statuses(project, target=None):
    with project.reader() as reader:
        rows = list(reader.all_rows(reader.find_run("last").id))
        return [row.status for row in rows if target is None or row.target == target]


def noted_calls(project, target):
    with closing(sqlite3.connect(project.database)) as store:
        return store.execute("SELECT count(*) FROM calls WHERE target = ?", [target]).fetchone()[0]


def run_row(project):
    with project.reader() as reader:
        return reader.find_run("last")


def asked(project, model):
    """How often each question was put to a model, the short one left out."""
    questions = project.server.counts()["questions"]
    return [one["asked"] for one in questions if one["model"] == model and not one["text"].startswith(SHORT)]


def short_questions(project):
    return sum(one["asked"] for one in project.server.counts()["questions"] if one["text"].startswith(SHORT))


def end_of(said):
    return json.loads(said.strip().splitlines()[-1])


@pytest.mark.cases(3)
@pytest.mark.parametrize("kind", INFRASTRUCTURE)
def test_a_key_or_model_that_goes_in_mid_run_leaves_the_rest_pending_and_is_asked_no_more(project, kind):
    project.server.behave("test-model", after=12, then=kind)
    configure(project)
    project.dataset(60)
    said = project.do("run", "data.json", "--target", "main", code=4)
    assert statuses(project).count("pass") == 12 and set(statuses(project)) == {"pass", "pending"}
    run = run_row(project)
    assert (run.status, run.code) == ("interrupted", "refused")
    assert "main cannot be asked: 127.0.0.1" in run.message and "48 answers stay pending" in run.message
    assert f"`tui-evals resume {run.key}` continues it" in said and "without an answer" not in said
    counts = project.server.counts()
    assert counts["asked"] - 12 <= AT_ONCE + 1, "those in flight, and a short question"
    project.server.behave("test-model")
    project.do("resume", "last", "--quiet")
    assert statuses(project) == ["pass"] * 60
    assert sum(asked(project, "test-model")) <= 60 + AT_ONCE


@pytest.mark.cases(3)
@pytest.mark.parametrize("kind", ["401", "403", "500", "429quota"])
def test_a_judge_that_goes_in_mid_run_leaves_verdicts_pending_and_no_row_partial(project, kind):
    project.server.behave("judge-model", say=VERDICT, markers=False, after=10, then=kind)
    configure(project, retries=0, max_outage=0.01)
    project.server.behave("judge-model", say=VERDICT, markers=False, after=10, then=kind)
    project.dataset(30, default_evaluators={"Includes": {}, "Relevance": {}})
    said = project.do("run", "data.json", "--target", "main", "--no-cache", code=4)
    assert statuses(project) == ["pass"] * 10 + ["answered"] * 20, "every answer is there, and paid once"
    assert "judge" in said and "20 wait for a verdict" in said and "partial" not in said
    project.server.behave("judge-model", say=VERDICT, markers=False)
    project.do("resume", "last", "--quiet")
    assert statuses(project) == ["pass"] * 30
    assert asked(project, "test-model") == [1] * 30, "no answer is asked for again"
    assert sum(asked(project, "judge-model")) <= 30 + AT_ONCE


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "code"), [("401", "refused"), ("500", "away")])
def test_a_target_that_cannot_be_asked_from_the_start_holds_up_no_other(project, kind, code):
    configure(project, "other", retries=0, timeout=5)
    project.server.behave("test-model", latency=0.01)
    project.server.behave("other-model", always=kind)
    project.dataset(30)
    said = project.do("run", "data.json", "--target", "main,other", code=4)
    assert statuses(project, 0) == ["pass"] * 30 and set(statuses(project, 1)) == {"pending"}
    assert asked(project, "test-model") == [1] * 30, "nothing of it was cut"
    assert sum(asked(project, "other-model")) <= AT_ONCE
    assert run_row(project).code == code and "30 answers stay pending" in said
    project.server.behave("other-model")
    project.do("resume", "last", "--quiet")
    assert statuses(project) == ["pass"] * 60 and asked(project, "test-model") == [1] * 30


def test_answers_of_a_refusing_target_are_pending_again_while_others_are_asked(project):
    configure(project, "other", timeout=200)
    project.server.behave("test-model", always="hang")
    project.server.behave("other-model", always="401", latency=0.5)
    project.dataset(30)
    process = project.start("run", "data.json", "--target", "main,other", "--quiet")
    try:
        until(lambda: asked(project, "other-model"))
        until(lambda: noted_calls(project, "other") >= AT_ONCE)
        until(lambda: statuses(project, 0).count("running") == AT_ONCE)
        until(lambda: set(statuses(project, 1)) == {"pending"}, 60)
        assert run_row(project).status == "running"
    finally:
        kill(process)


@pytest.mark.parametrize("kind", ["401", "402", "404"])
def test_where_everything_is_refused_from_the_start_it_is_the_configuration(project, kind):
    configure(project, "other")
    for model in ("test-model", "other-model"):
        project.server.behave(model, always=kind)
    project.dataset(30)
    said = project.do("run", "data.json", "--target", "main,other", code=3)
    assert set(statuses(project)) == {"pending"} and run_row(project).code == "configuration"
    assert "main cannot be asked" in said and "other cannot be asked" in said
    assert f"After fixing it, `tui-evals resume {run_row(project).key}` continues it" in said


@pytest.mark.nightly
def test_a_firewall_that_refuses_one_question_holds_nobody_up(project):
    configure(project)
    marks = {3: " [[403]]", 7: " [[404]]", 11: " [[401]]"}
    project.dataset(20, lambda number: f"question {number}{marks.get(number, '')}")
    project.do("run", "data.json", "--target", "main", "--quiet")
    assert [number for number, status in enumerate(statuses(project)) if status == "error"] == [3, 7, 11]
    assert set(statuses(project)) == {"pass", "error"}
    met = project.server.counts()["met"]
    assert (met["403"], met["404"]) == (1, 1), "a firewall is asked once"
    assert met["401"] == 4, "gateways say it of one of their keys, now and then"


def test_a_question_that_always_times_out_is_broken_after_its_attempts(project):
    configure(project, timeout=0.3)
    project.dataset(8, lambda number: f"question {number}{' [[hang]]' * (number == 2)}")
    project.do("run", "data.json", "--target", "main", "--quiet")
    assert statuses(project) == ["pass"] * 2 + ["error"] + ["pass"] * 5
    assert project.server.counts()["met"]["hang"] == 2


@pytest.mark.parametrize("kind", ["stated529", "stream_error"])
def test_an_error_inside_a_reply_is_tried_again_and_is_no_row_while_the_target_is_overloaded(project, kind):
    configure(project, retries=1, max_outage=0.01, stream=kind == "stream_error")
    project.dataset(12, lambda number: f"question {number}{f' [[{kind}*1]]' * (number % 4 == 0)}")
    project.do("run", "data.json", "--target", "main", "--quiet")
    assert statuses(project) == ["pass"] * 12
    project.server.behave("test-model", after=4, then=kind)
    said = project.do("run", "data.json", "--target", "main", "--quiet", "--no-cache", code=4)
    assert set(statuses(project)) == {"pass", "pending"} and "chat completion" not in said
    assert "answered 529: Overloaded" in said or "answered 502: Provider returned error" in said


@pytest.mark.nightly
def test_resume_asks_some_targets_alone_and_says_what_stays_pending(project):
    configure(project, "k", "l")
    for model in ("k-model", "l-model"):
        project.server.behave(model, always="401")
    project.dataset(6)
    project.do("run", "data.json", "--target", "main,k,l", "--quiet", code=4)
    for model in ("k-model", "l-model"):
        project.server.behave(model)
    said = project.do("resume", "last", "--without", "l", code=4)
    assert "l is left out. 6 answers stay pending" in said
    assert [set(statuses(project, number)) for number in range(3)] == [{"pass"}, {"pass"}, {"pending"}]
    assert asked(project, "l-model") == [1] * len(asked(project, "l-model"))
    assert "the run asks no m" in project.do("resume", "last", "--target", "m", code=2)
    assert "no target is left to ask" in project.do("resume", "last", "--without", "main,k,l", code=2)
    project.server.behave("l-model", always="401")
    said = project.do("resume", "last", "--target", "l", "--quiet", code=None)
    assert "l cannot be asked" in said and "left out" not in said, "nothing of the others is open"
    project.server.behave("l-model")
    project.do("resume", "last", "--target", "l", "--quiet")
    assert statuses(project) == ["pass"] * 18


def test_resume_without_a_judge_leaves_its_verdicts_pending(project):
    configure(project)
    project.server.behave("test-model", after=4, then="401")
    project.dataset(8, default_evaluators={"Includes": {}, "Relevance": {}})
    project.do("run", "data.json", "--target", "main", "--quiet", code=4)
    project.server.behave("test-model")
    judged = sum(asked(project, "judge-model"))
    said = project.do("resume", "last", "--without", "judge", code=4)
    assert "judge is left out. 4 wait for a verdict" in said
    assert sum(asked(project, "judge-model")) == judged
    project.do("resume", "last", "--quiet")
    assert statuses(project) == ["pass"] * 8


def test_a_wrong_model_name_is_corrected_in_the_configuration_and_the_run_continues(project):
    configure(project)
    project.server.behave("test-model", always="404")
    project.dataset(4)
    said = project.do("run", "data.json", "--target", "main", "--quiet", code=3)
    assert "Check the model's name" in said and "After fixing it, `tui-evals resume" in said
    file = project.folder / ".evals" / "config.toml"
    file.write_text(file.read_text().replace("openai/test-model", "openai/right-model"))
    said = project.do("resume", "last")
    assert "model openai/right-model instead of openai/test-model" in said
    assert statuses(project) == ["pass"] * 4 and run_row(project).config["targets"][0]["model"] == "openai/right-model"
    project.dataset(5)


def test_a_wrong_model_name_that_was_typed_is_told_to_begin_again(project):
    project.server.behave("gpt-9", always="404")
    project.dataset(2)
    environment = {"OPENAI_BASE_URL": project.server.url, "OPENAI_API_KEY": "k"}
    said = project.do("run", "data.json", "-t", "openai/gpt-9", "-e", "Includes", "--quiet", code=3, **environment)
    key = run_row(project).key
    assert "The name was typed, so this run cannot change it" in said and "resume" not in said
    assert "Start again with the right name: `tui-evals run data.json --target NAME`" in said
    assert f"`tui-evals delete {key}` removes this run" in project.do("show", "last", **environment)


def test_what_contradicts_the_answers_of_a_run_is_refused_and_what_does_not_is_taken(project):
    configure(project)
    project.server.behave("test-model", after=2, then="401")
    project.dataset(6)
    project.do("run", "data.json", "--target", "main", "--quiet", code=4)
    project.server.behave("test-model")
    file = project.folder / ".evals" / "config.toml"
    text = file.read_text()
    file.write_text(text.replace("openai/test-model", "openai/another"))
    said = project.do("resume", "last", code=3)
    assert "main has answered questions of this run" in said
    assert "model openai/another instead of openai/test-model" in said
    file.write_text(text.replace("concurrency = 3", 'concurrency = 1\napi_key = "env:NEW_KEY"\ntimeout = 9', 1))
    project.do("resume", "last", "--quiet", NEW_KEY="sk-new-1234567890")
    assert statuses(project) == ["pass"] * 6


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("behaviour", "settings", "code"),
    [
        ({"after": 4, "then": "402"}, {}, "refused"),
        ({"after": 4, "then": "500"}, {"retries": 0, "max_outage": 0.01}, "away"),
        ({"after": 4, "then": "429", "retry_after": 3600}, {}, "limited"),
    ],
)
@pytest.mark.parametrize("who", ["target", "judge"])
def test_every_stop_that_can_be_resumed_has_one_exit_code(project, who, behaviour, settings, code):
    configure(project, **settings)
    model, more = ("test-model", {}) if who == "target" else ("judge-model", {"say": VERDICT, "markers": False})
    project.server.behave(model, **more, **behaviour)
    project.dataset(8, default_evaluators={"Includes": {}, "Relevance": {}})
    end = end_of(project.as_call("run", "data.json", "--target", "main", "--json", "--fail-under", "80")[1])
    assert (end["exit_code"], end["status"]) == (4, "interrupted") and run_row(project).code == code
    assert project.as_call("resume", "last", "--quiet")[0] in (3, 4), "it is no better yet"
    project.server.behave(model, **more)
    project.do("resume", "last", "--quiet")
    assert statuses(project) == ["pass"] * 8


def test_rescoring_with_a_judge_that_goes_leaves_the_pass_open(project):
    configure(project)
    project.dataset(12, default_evaluators={"Includes": {}})
    project.do("run", "data.json", "--target", "main", "--quiet")
    project.server.behave("judge-model", say=VERDICT, markers=False, after=5, then="401")
    said = project.do("rescore", "last", "-e", "Relevance", "--no-cache", "--quiet", code=4)
    run = run_row(project)
    assert (run.status, run.staged_pass, run.scoring_pass, run.staged) == ("interrupted", 2, 1, 5)
    assert "7 wait for a verdict" in said and f"`tui-evals resume {run.key}` continues it" in said
    project.server.behave("judge-model", say=VERDICT, markers=False)
    project.do("resume", "last", "--quiet")
    run = run_row(project)
    assert (run.status, run.staged_pass, run.scoring_pass) == ("finished", 0, 2)
    assert sum(asked(project, "judge-model")) <= 12 + AT_ONCE


def test_a_budget_that_is_spent_lets_what_is_in_flight_finish(project):
    price = "price = { input_per_million = 0.0, output_per_million = 1000000.0 }\nparams = { max_tokens = 1 }\n"
    configure(project, "other", more="")
    text = (project.folder / ".evals" / "config.toml").read_text()
    (project.folder / ".evals" / "config.toml").write_text(
        text.replace("concurrency = 3\n", f"concurrency = 3\n{price}")
    )
    for model in ("test-model", "other-model"):
        project.server.behave(model, latency=0.05, tokens=1)
    project.dataset(20)
    project.do("run", "data.json", "--target", "main,other", "--max-cost", 15, "--quiet", code=4)
    with project.reader() as reader:
        run = reader.find_run("last")
        assert "givenUp" not in {call.code for call in reader.calls(run.id)} and run.code == "budget"
