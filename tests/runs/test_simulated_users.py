"""Conversations with a simulated user, against a real server: who says what, when it ends, what a fault leaves."""

import json

import pytest

from tests.runs.conftest import FREE, kill, until
from tests.runs.test_tool_loops import tool

CUSTOMER = '''
import json, time
from pathlib import Path


def customer(messages):
    """Says what the file plan.json holds, one after the other; each call leaves a line."""
    said = messages[-1]["content"].count("Assistant:") + messages[-1]["content"].count("User:")
    plan = json.loads(Path("plan.json").read_text())
    step = plan[min(said // 2, len(plan) - 1)]
    with open("customer.txt", "a") as file:
        file.write(f"{said // 2}\\n")
    while step == "wait" and not Path("go").exists():
        time.sleep(0.01)
    return plan[-1] if step == "wait" else step
'''


def says(message, goal="open"):
    return json.dumps({"goal": goal, "message": message})


def talk(project, *plan, user=None, settings=FREE, judged=None, **root):
    """A project whose customer says what is planned."""
    project.configure(f'{settings}[targets.customer]\nmodel = "python:customer:customer"\n[judge]\ntarget = "customer"')
    (project.folder / "customer.py").write_text(CUSTOMER)
    (project.folder / "plan.json").write_text(json.dumps(plan))
    user = {"persona": "Ada, in a hurry", "goal": "a refund", **(user or {})}
    document = {
        "schemaVersion": "1.11.0",
        "messages": [{"role": "system", "content": "You help."}],
        "default_evaluators": judged or {"UserGoal": {}},
        **root,
        "items": [{"testId": "T1", "user": user}],
    }
    (project.folder / "data.json").write_text(json.dumps(document))


def run(project, *options, code=0):
    return project.do("run", "data.json", "--target", "main", "--trust", *options, code=code)


def detail(project):
    with project.reader() as reader:
        (row,) = reader.all_rows(reader.find_run("last").id)
        return reader.detail(row.id)


def played(project):
    return (project.folder / "customer.txt").read_text().split()


def result(one):
    records = one.scores[max(one.scores)]
    return {record.key: (record.result, record.reason) for record in records}


def test_a_user_is_played_until_the_goal_and_judged_as_a_whole(project):
    judged = {"UserGoal": {"most_turns": 3}, "Steps": {"most": 2}}
    talk(project, says("My lamp is broken."), says("It is order 7."), says("Thanks!", "reached"), judged=judged)
    planned = run(project, "--plan")
    assert "1 call and up to 7 more after tools or users and up to 9 to play users, free" in planned
    run(project, code=None)
    one = detail(project)
    assert [step["asked"] for step in one.answer.steps] == ["My lamp is broken.", "It is order 7."]
    assert one.answer.steps[-1]["user"] == {"goal": "reached", "message": "Thanks!"}
    assert one.row.ending == "goal_reached" and one.answer.text == one.answer.steps[-1]["text"]
    assert result(one)["UserGoal"] == ("pass", "reached after 2 turns") and result(one)["Steps"][0] == "pass"
    sent = project.server.last()["body"]["messages"]
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "user"]
    assert one.answer.request["messages"] == sent
    assert "lamp" in sent[1]["content"] and "refund" not in json.dumps(sent)
    assert one.answer.input_tokens == sum(step["input_tokens"] for step in one.answer.steps)
    assert {call.kind for call in one.calls} == {"target", "judge"} and len(one.calls) == 5
    shown = project.do("show", "last", "--item", "T1")
    assert "user: It is order 7." in shown and "user, whose goal is reached: Thanks!" in shown
    assert "persona: Ada, in a hurry" in shown and "goal: a refund" in shown
    asked = project.server.counts()["asked"]
    run(project, code=None)
    assert project.server.counts()["asked"] == asked and detail(project).answer.from_cache
    before = len(played(project))
    project.do("rescore", "last", "--trust", code=None)
    assert len(played(project)) == before and result(detail(project))["UserGoal"][0] == "pass"


@pytest.mark.parametrize(
    ("plan", "user", "ending", "reason"),
    [
        ([says("and?")], {"max_turns": 2, "opening": "Hello"}, "max_turns", "has not reached the goal after 2 turns"),
        ([says("Hi"), says("No!", "given_up")], {}, "given_up", "the user gave up after 1 turn"),
    ],
)
def test_a_conversation_without_success_ends(project, plan, user, ending, reason):
    talk(project, *plan, user=user)
    run(project, code=None)
    one = detail(project)
    assert one.row.ending == ending and reason in result(one)["UserGoal"][1] and one.row.status == "fail"
    assert "T1" in project.do("show", "last", "--only", ending)
    assert f"user, whose goal is {ending.replace('max_turns', 'open').replace('_', ' ')}" in project.do(
        "report", "last", "--to", "md", "-o", "-"
    )


def test_a_user_who_cannot_be_played_is_an_error_that_keeps_the_conversation(project):
    talk(project, "no object", user={"opening": "Hi"})
    run(project, code=None)
    one = detail(project)
    assert one.row.code == "judgeOutputUnparseable" and "The user cannot be played" in one.answer.message
    assert [step["asked"] for step in one.answer.steps] == ["Hi"]
    (project.folder / "plan.json").write_text(json.dumps([says("Thanks", "reached")]))
    asked = project.server.counts()["asked"]
    project.do("resume", "last", "--errors", "--trust", code=None)
    assert detail(project).row.ending == "goal_reached" and project.server.counts()["asked"] == asked


def test_who_plays_the_user_is_asked_for_before_anything_is(project):
    talk(project, says("Hi"))
    project.configure(FREE)
    assert "the user of T1 is played by a model and no judge is named" in run(project, "--without-judges", code=None)
    talk(project, says("Hi"), user={"target": "nobody"})
    assert (
        "there is no target nobody in .evals/config.toml" in run(project, code=3)
        and not project.server.counts()["asked"]
    )
    talk(project, says("Hi"), says("ok", "reached"))
    run(project, "--without-judges")
    assert detail(project).row.ending == "goal_reached"


def test_a_killed_run_asks_nobody_twice(project):
    talk(project, says("[[agent]] call find {} "), says("more"), "wait", says("ok", "reached"), tools=[tool("find")])
    data = json.loads((project.folder / "data.json").read_text())
    (project.folder / "data.json").write_text(json.dumps({**data, "tool_results": [{"tool": "find", "result": "x"}]}))
    process = project.start("run", "data.json", "--target", "main", "--quiet", "--no-cache", "--trust")
    until(lambda: (project.folder / "customer.txt").exists() and played(project) == ["0", "1", "2"])
    kill(process)
    process.communicate(timeout=60)
    (project.folder / "go").write_text("")
    before = project.server.counts()["asked"]
    project.do("resume", "last", "--quiet", "--trust", code=None)
    one = detail(project)
    assert one.row.ending == "goal_reached" and project.server.counts()["asked"] == before == 3
    assert played(project) == ["0", "1", "2", "2"] and len(one.answer.steps) == 3


def test_the_call_of_a_user_is_paid_from_the_budget(project):
    price = "price = { input_per_million = 1000, output_per_million = 1000 }\nparams = { max_tokens = 100 }\n"
    talk(project, says("Hi"), says("more"), says("ok", "reached"), settings=price)
    said = run(project, "--max-cost", "0.25", "--no-cache", code=None)
    assert "the budget is spent" in said and project.server.counts()["asked"] == 1
    project.do("resume", "last", "--max-cost", "3", "--trust", code=None)
    assert project.server.counts()["asked"] == 2 and detail(project).row.ending == "goal_reached"


def test_what_is_wrong_with_a_user_is_said_with_its_line(project):
    talk(project, says("Hi"))
    data = json.loads((project.folder / "data.json").read_text())
    data["items"] = [{"user": {"persona": "x"}}, {"prompt": "a", "user": {"goal": "x", "max_turn": 3}}, {"name": "x"}]
    (project.folder / "data.json").write_text(json.dumps(data, indent=1))
    said = project.do("validate", "data.json", code=None)
    assert "items[0].user: goal is missing" in said and "did you mean 'max_turns'" in said
    assert "items[1]: has both prompt and user" in said


@pytest.mark.nightly
def test_workers_of_a_cluster_play_users_too(project):
    talk(project, says("Hi"), says("more"), says("ok", "reached"))
    run(project, "--cluster", "local:2")
    assert detail(project).row.ending == "goal_reached" and len(detail(project).answer.steps) == 2
