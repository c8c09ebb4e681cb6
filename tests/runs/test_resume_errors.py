"""Errors are asked again in the run they belong to."""

import json

import pytest

from tests.runs.conftest import kill, until
from tests.tui.story import at_the_workbench
from tui_evals import evaluate, resume
from tui_evals.store import run_figures

JUDGED = '[targets.referee]\nmodel = "openai/referee"\nbase_url = "{url}"\nretries = 0\n{price}'
PRICE = "[targets.{name}.price]\ninput_per_million = 0.0\noutput_per_million = 1000.0\n"
VERDICT = json.dumps({"score": 5, "reason": "fine"})


def rows(project):
    with project.reader() as reader:
        run = reader.find_run("last")
        return run, [reader.detail(row.id) for row in reader.all_rows(run.id)], reader


def broken_run(project, count=8):
    """A third of the questions were errors, and the judge failed at half of the others."""
    project.configure(
        PRICE.format(name="main") + JUDGED.format(url=project.server.url, price=PRICE.format(name="referee")),
        retries=0,
    )
    project.server.behave("referee", markers=False, shares={"400": 0.5}, say=VERDICT)
    broken = (0, 3, 4, 7, 9)
    marked = lambda number: f"question {number}" + " [[wrong_json*1]]" * (number in broken)  # noqa: E731
    project.dataset(count, marked, default_evaluators={"Includes": {}, "Relevance": {}})
    project.do("run", "data.json", "--target", "main", "--judge", "referee", "--quiet", code=None)
    return rows(project)


def healed(project):
    project.server.behave("referee", markers=False, say=VERDICT)


def test_errors_are_asked_and_judged_again_in_the_run_and_stay_in_its_record(project):
    run, before, _ = broken_run(project, 16)
    errors = [detail.row.id for detail in before if detail.row.status == "error"]
    unjudged = [detail.row.id for detail in before if detail.row.status == "partial"]
    assert errors and unjudged and len(errors) + len(unjudged) < 16
    said = project.do("resume", "last", code=2)
    assert f"`tui-evals resume {run.key} --errors` its errors in place" in said
    healed(project)
    asked = project.server.counts()["asked"]
    code, out, err = project.as_process("resume", "last", "--errors", "--quiet")
    assert code == 0, out + err
    assert project.server.counts()["asked"] == asked + 2 * len(errors) + len(unjudged)
    again, after, _ = rows(project)
    assert again.key == run.key and again.status == "finished"
    assert not {detail.row.status for detail in after} & {"error", "partial", "pending"}
    for detail, old in zip(after, before, strict=True):
        if detail.row.id in errors:
            (earlier,) = detail.earlier
            assert earlier.answer.code == "agentResponseUnparseable" == detail.calls[0].code
        elif detail.row.id in unjudged:
            (earlier,) = detail.earlier
            assert [score.key for score in earlier.scores] == ["Relevance"] and earlier.answer is None
            assert detail.answer == old.answer
            assert [one.key for one in detail.scores[1]] == ["Includes", "Relevance"]
        else:
            assert detail == old
    with project.reader() as reader:
        cost, unknown = run_figures.spent(reader, run.id), reader.totals(run.id).unpriced
        assert cost == pytest.approx(sum(call.cost or 0.0 for call in reader.calls(run.id))) and cost > 0
        assert unknown == len(errors)
    name = after[[detail.row.id for detail in after].index(errors[0])].row.name
    assert "agentResponseUnparseable" in project.do("show", "last", "--item", name)
    told = json.loads(project.as_call("show", "last", "--item", name, "--json")[1])
    assert told[0]["earlier"][0]["answer"]["code"] == "agentResponseUnparseable" and told[0]["row"]["status"] == "pass"
    assert "has no errors" in project.do("resume", "last", "--errors", code=2)


@pytest.mark.nightly
def test_killed_in_the_middle_nothing_is_asked_twice_but_what_was_in_flight(project):
    project.configure(concurrency=2, retries=0)
    project.server.behave(always="400")
    project.dataset(30)
    project.do("run", "data.json", "--target", "main", "--quiet", code=None)
    project.server.reset()
    project.server.behave(latency=0.05)
    process = project.start("resume", "last", "--errors", "--quiet")
    until(lambda: project.server.counts()["answered"] >= 8)
    kill(process)
    code, out, err = project.as_process("resume", "last", "--quiet")
    assert code == 0, out + err
    counts = project.server.counts()
    assert counts["asked"] <= 30 + 2 and max(one["asked"] for one in counts["questions"]) <= 2
    _, details, _ = rows(project)
    assert {detail.row.status for detail in details} == {"pass"}
    assert all(len(detail.earlier) == 1 for detail in details)


def test_a_conversation_goes_on_where_its_error_was(project):
    project.configure(retries=0)
    prompts = ["turn 0", "turn 1 [[400*1]]", "turn 2"]
    turns = [{"prompt": prompt, "expected_response": prompt[:6]} for prompt in prompts]
    document = {"schemaVersion": "1.11.0", "default_evaluators": {"Includes": {}}, "items": [{"turns": turns}]}
    (project.folder / "data.json").write_text(json.dumps(document))
    project.do("run", "data.json", "--target", "main", "--quiet", code=None)
    assert [detail.row.status for detail in rows(project)[1]] == ["pass", "error", "error"]
    project.do("resume", "last", "--errors", "--quiet")
    assert [detail.row.status for detail in rows(project)[1]] == ["pass", "pass", "pass"]
    assert project.server.counts()["asked"] == 1 + 2 + 1


def test_a_library_gives_its_code_again(project):
    broken = True

    def shaky(prompt):
        if broken and prompt == "b":
            raise RuntimeError("not now")
        return prompt

    made = evaluate(
        [{"prompt": "a"}, {"prompt": "b"}], shaky, evaluators=[lambda_free], project=project.folder, trust=True
    )
    assert [answer.status for answer in made.answers] == ["pass", "error"]
    broken = False
    again = resume(made, shaky, errors=True, evaluators=[lambda_free], project=project.folder, trust=True)
    assert again.key == made.key and [answer.status for answer in again.answers] == ["pass", "pass"]


def lambda_free(response):
    return bool(response)


@pytest.mark.nightly
async def test_the_workbench_asks_the_errors_of_a_finished_run_again(project):
    project.configure(retries=0)
    project.server.behave(always="400")
    project.dataset(3)
    project.as_process("run", "data.json", "--target", "main", "--quiet")
    project.server.behave()
    async with at_the_workbench(project.folder, dataset="data.json", run="last") as person:
        await person.sees("! 3 error")
        await person.press("4", "p")
        await person.sees("Ask, or judge, 3 errors again in this run?")
        await person.press("y")
        await person.until(lambda: {detail.row.status for detail in rows(project)[1]} == {"pass"})
