"""Agents whose tools the engine calls, against a real server: scripted results, functions, and what a fault leaves."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.runs.conftest import FREE, kill, until

SAMPLES = Path(__file__).parents[2] / "sample_datasets"


def tool(name):
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


def ask(project, *prompts, items=None, **root):
    """Write a dataset of questions to an agent that calls what they name."""
    items = items or [{"testId": f"T{number}", "prompt": prompt} for number, prompt in enumerate(prompts, 1)]
    document = {"schemaVersion": "1.11.0", "tools": [tool("find"), tool("pay")], "default_evaluators": {}, **root}
    (project.folder / "data.json").write_text(json.dumps({**document, "items": items}))


def run(project, *options, code=None, **environment):
    return project.do("run", "data.json", "--target", "main", "--quiet", *options, code=code, **environment)


def details(project):
    """Every answer of the last run with all that is known of it."""
    with project.reader() as reader:
        return [reader.detail(row.id) for row in reader.all_rows(reader.find_run("last").id)]


def results(detail):
    return [call.get("result") for step in detail.answer.steps for call in step["calls"]]


def asked(project):
    return [question["asked"] for question in project.server.counts()["questions"]]


RESULTS = [
    {"tool": "find", "error": "busy", "times": 1},
    {"tool": "find", "arguments": {"id": 7}, "result": {"name": "Ada"}},
    {"tool": "find", "patterns": {"id": "^8"}, "result": "by pattern"},
    {"tool": "pay", "result": "too late", "delay": 30},
]


def test_scripted_results_answer_in_order_and_by_what_fits(project):
    project.configure(FREE, timeout=0.5)
    first = '[[agent]] call find {"id": 7} call find {"id": 7, "more": 1} call find {"id": 85} call find {"id": 9}'
    ask(project, first, "[[agent]] call pay {} call gone {} call find broken", tool_results=RESULTS)
    assert "2 calls and up to 18 more after tools, free" in run(project, "--plan", code=0)
    run(project, code=0)
    one, two = details(project)
    nothing = "no result is written for this call of find"
    assert results(one) == ["busy", '{"name": "Ada"}', "by pattern", nothing]
    assert one.answer.text == f"Answer: {nothing}" and one.answer.finish_reason == "stop"
    assert [bool(call.get("failed")) for step in one.answer.steps for call in step["calls"]] == [
        True,
        False,
        False,
        True,
    ]
    no_object = "the arguments are not a JSON object"
    assert results(two) == ["pay gave nothing within 0.5 s", "there is no tool gone to call", no_object]
    assert [step.get("input_tokens") for step in one.answer.steps] and len(one.answer.steps) == 5
    assert one.answer.input_tokens == sum(step["input_tokens"] for step in one.answer.steps)
    assert len(one.calls) == 5 and len(one.answer.tool_calls) == 4
    sent = project.server.last()["body"]["messages"]
    called = [message["tool_calls"][0]["id"] for message in sent if message["role"] == "assistant"]
    assert called == [message["tool_call_id"] for message in sent if message["role"] == "tool"]
    shown = project.do("show", "last", "--item", "T1")
    assert "step 2 of 5" in shown and '→ find {"id": 7, "more": 1}' in shown and "! busy · scripted" in shown
    before = project.server.counts()["asked"]
    run(project, code=0)
    assert project.server.counts()["asked"] == before
    assert all(detail.answer.from_cache and len(detail.answer.steps) > 3 for detail in details(project))


def test_the_turns_of_a_conversation_see_the_steps_before_them(project):
    project.configure(FREE)
    turns = [{"prompt": '[[agent]] call find {"id": 7}'}, {"prompt": "[[agent]] and now?"}]
    hostile = "Ada \x1b]52;c;aGk=\x07"
    ask(project, items=[{"testId": "talk", "turns": turns}], tool_results=[{"tool": "find", "result": hostile}])
    run(project, code=0)
    shown = project.do("show", "last", "--item", "talk")
    assert "← Ada" in shown and not {"\x1b", "\x07"} & set(shown)
    roles = [message["role"] for message in project.server.last()["body"]["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]
    assert [len(detail.answer.steps) for detail in details(project)] == [2, 1]


def test_an_agent_that_does_not_end_is_stopped_and_judged(project):
    project.configure(FREE)
    question = "[[agent]]" + ' call find {"id": 7}' * 9
    judged = {"Steps": {"most": 2}, "ToolCalled": {"tool_name": "find"}}
    ask(project, question, tool_results=RESULTS[1:2], max_steps=3, default_evaluators=judged)
    run(project)
    (one,) = details(project)
    assert one.row.ending == "max_steps" and len(one.answer.steps) == 3 and project.server.counts()["asked"] == 3
    assert results(one) == ['{"name": "Ada"}', '{"name": "Ada"}', None]
    (scores,) = one.scores.values()
    assert {record.key: record.result for record in scores} == {"Steps": "fail", "ToolCalled": "pass"}


@pytest.mark.parametrize(
    ("root", "item", "made"),
    [
        ({}, {}, True),
        ({"default_allowed_tools": ["pay"]}, {}, False),
        ({"default_allowed_tools": ["pay"]}, {"allowed_tools": [" find "]}, True),
        ({"default_allowed_tools": ["find"]}, {"allowed_tools": [], "allowed_tools_mode": "replace"}, False),
        ({"default_allowed_tools": ["Find"]}, {}, False),
    ],
)
def test_a_tool_that_is_not_approved_is_not_called(project, root, item, made):
    project.configure(FREE)
    question = {"testId": "T1", "prompt": '[[agent]] call find {"id": 7}', **item}
    ask(project, items=[question], tool_results=RESULTS[1:2], **root)
    run(project)
    (one,) = details(project)
    assert (one.row.code, results(one)) == ((None, ['{"name": "Ada"}']) if made else ("toolCallNotAllowed", [None]))


TOOLS = '''
import time
from pathlib import Path


def find(id: int, deep: bool = False) -> dict:
    """Look something up."""
    with open("calls.txt", "a") as file:
        file.write(f"find {id}\\n")
    return {"id": id, "deep": deep}


async def pay(cents: int):
    raise RuntimeError(f"no money: {cents}")


def block():
    with open("calls.txt", "a") as file:
        file.write("block\\n")
    while not Path("go").exists():
        time.sleep(0.01)
    return "went on"


def _private():
    """No tool."""
'''


def with_functions(project, **more):
    (project.folder / "agent_tools.py").write_text(TOOLS)
    settings = {"functions": "agent_tools.py", "approved": ["find", "pay", "block"], **more}
    lines = "\n".join(f"{name} = {json.dumps(value)}" for name, value in settings.items())
    project.configure(f"{FREE}[targets.main.tools]\n{lines}")


def calls(project):
    return (project.folder / "calls.txt").read_text().split("\n")[:-1]


def test_functions_of_the_project_are_tools(project):
    with_functions(project)
    ask(project, '[[agent]] call find {"id": "7"} call find {"id": "x"} call pay {"cents": 5}', tools=[])
    stranger = {"XDG_STATE_HOME": str(project.folder / "stranger")}
    refused = run(project, code=2, **stranger)
    assert "calls the functions of agent_tools.py as tools" in refused and "tui-evals trust" in refused
    run(project, "--trust", code=0, **stranger)
    (one,) = details(project)
    found, wrong, failed = (call for step in one.answer.steps for call in step["calls"])
    assert found["result"] == '{"id": 7, "deep": false}' and found["by"] == "agent_tools.py"
    assert "find does not take these arguments: id: Input should be a valid integer" in wrong["result"]
    assert failed["result"] == "pay failed with RuntimeError: no money: 5" and "agent_tools.py" in failed["traceback"]
    offered = {tool["function"]["name"]: tool["function"] for tool in project.server.last()["body"]["tools"]}
    assert set(offered) == {"find", "pay", "block"} and offered["find"]["description"] == "Look something up."
    assert offered["find"]["parameters"]["required"] == ["id"]
    project.do("trust", "--yes", **stranger)
    run(project, code=0, **stranger)
    (project.folder / "agent_tools.py").write_text(TOOLS + "\n# changed\n")
    assert "calls the functions" in run(project, code=2, **stranger)
    (project.folder / "agent_tools.py").unlink()
    assert "there is no file agent_tools.py" in run(project, code=3)


def test_a_tool_that_is_stood_in_for_is_never_called(project):
    with_functions(project, approved=["find"])
    results_of_one = [{"tool": "find", "arguments": {"id": 1}, "result": "written"}]
    ask(project, '[[agent]] call find {"id": 1} call find {"id": 2}', tools=[], tool_results=results_of_one)
    run(project, code=0)
    assert results(details(project)[0]) == ["written", "no result is written for this call of find"]
    assert not (project.folder / "calls.txt").exists()


def test_what_gives_tools_is_named_when_a_target_is_checked(project):
    with_functions(project, approved=["find"])
    said = project.do("targets", "check", "main")
    assert "✓ main" in said and "calls    find\n" in said and "pay: not approved, so it is not called" in said


def test_a_killed_run_asks_and_calls_nothing_twice(project):
    with_functions(project)
    ask(project, '[[agent]] call find {"id": 1} call block {} call find {"id": 2}', tools=[])
    process = project.start("run", "data.json", "--target", "main", "--quiet", "--no-cache", "--trust")
    until(lambda: (project.folder / "calls.txt").exists() and "block" in calls(project))
    kill(process)
    process.communicate(timeout=60)
    (project.folder / "go").write_text("")
    project.do("resume", "last", "--quiet", "--trust")
    (one,) = details(project)
    assert one.answer.text == 'Answer: {"id": 2, "deep": false}' and len(one.answer.steps) == 4
    assert asked(project) == [1, 1, 1, 1] and len(one.calls) == 4
    assert calls(project) == ["find 1", "block", "block", "find 2"]


def test_each_step_has_its_own_money(project):
    price = "{ input_per_million = 1000, output_per_million = 1000 }"
    project.configure(f"price = {price}\nparams = {{ max_tokens = 100 }}")
    ask(project, '[[agent]] call find {"id": 7}', tool_results=RESULTS[1:2])
    said = run(project, "--no-cache", "--max-cost", "0.325", code=None)
    assert "the budget is spent" in said and project.server.counts()["asked"] == 1
    project.do("resume", "last", "--quiet", "--max-cost", "3")
    (one,) = details(project)
    assert asked(project) == [1, 1] and one.answer.cost == pytest.approx(sum(call.cost for call in one.calls))


def test_a_target_may_bring_scripted_tools_in_a_file(project):
    ask(project, '[[agent]] call find {"id": 7}', tool_results=[{"tool": "find", "result": "x" * 10}])
    (project.folder / "tools.json").write_text('{"tool_results": [{"tool": "find"}]}')
    project.configure(f'{FREE}[targets.main.tools]\nscripted = "tools.json"', retries=0)
    assert "give result or error" in run(project, code=3)
    (project.folder / "outside.json").symlink_to("/etc/hostname")
    project.configure(f'{FREE}[targets.main.tools]\nscripted = "outside.json"', retries=0)
    assert "outside the project" in run(project, code=3)
    project.configure(f'{FREE}[targets.main.tools]\nscripted = "tools.json"', retries=0)
    (project.folder / "tools.json").write_text('{"tool_results": [{"tool": "pay", "result": 1}], "tools": []}')
    run(project, code=0)
    assert results(details(project)[0]) == ["x" * 10]


def test_an_error_keeps_the_steps_before_it(project):
    project.configure(FREE, retries=0)
    ask(project, '[[agent]] call find {"id": 7} call fail {}', tool_results=RESULTS[1:2])
    run(project)
    (one,) = details(project)
    assert (one.row.code, results(one)) == ("agentRequestFailed", ['{"name": "Ada"}'])
    assert one.answer.cost == 0 and len(one.calls) == 2


def test_tools_that_the_dataset_names_wait_for_a_yes(project):
    (project.folder / "agent_tools.py").write_text(TOOLS)
    project.configure(FREE)
    ask(project, '[[agent]] call find {"id": 7}', tool_functions="agent_tools.py", default_allowed_tools=["find"])
    stranger = {"XDG_STATE_HOME": str(project.folder / "stranger")}
    assert "calls the functions of agent_tools.py as tools (the dataset)" in run(project, code=2, **stranger)
    agreed = project.do("trust", "--yes", **stranger)
    assert "agent_tools.py as tools (data.json)" in agreed
    run(project, code=0, **stranger)
    assert calls(project) == ["find 7"]


SERVER = """
import os
from pathlib import Path

from mcp.server import MCPServer

server = MCPServer("shop")


@server.tool()
def find(id: int) -> str:
    return f"found {id}"


@server.tool()
def die() -> str:
    os._exit(7)


with open("starts.txt", "a") as file:
    file.write("x")
server.run()
"""


@pytest.mark.nightly
def test_a_run_starts_an_mcp_server_once_and_outlives_its_death(project):
    pytest.importorskip("mcp", reason="the official MCP SDK is not installed: pip install 'tui-evals[mcp]'")
    (project.folder / "server.py").write_text(SERVER)
    tools = {"mcp": f"stdio: {sys.executable} server.py", "approved": ["find", "die"]}
    settings = "\n".join(f"{name} = {json.dumps(value)}" for name, value in tools.items())
    project.configure(f"{FREE}[targets.main.tools]\n{settings}", concurrency=1)
    questions = ('find {"id": 1}', 'find {"id": 2}', "die {}", 'find {"id": 3}')
    ask(project, *(f"[[agent]] call {question}" for question in questions), tools=[])
    run(project)
    texts = [(detail.row.code, detail.answer.text) for detail in details(project)]
    gone = ("agentRequestFailed", None)
    assert texts == [(None, "Answer: found 1"), (None, "Answer: found 2"), gone, (None, "Answer: found 3")]
    assert "is not available any more" in details(project)[2].answer.message
    assert (project.folder / "starts.txt").read_text() == "xx"


@pytest.mark.nightly
def test_workers_of_a_cluster_call_tools_too(project):
    with_functions(project)
    questions = [f'[[agent]] call find {{"id": {number}}} call find {{"id": {number + 50}}}' for number in range(6)]
    ask(project, *questions, tools=[])
    run(project, "--cluster", "local:2", code=0)
    assert [detail.answer.text for detail in details(project)] == [
        f'Answer: {{"id": {number + 50}, "deep": false}}' for number in range(6)
    ]
    assert sorted(calls(project)) == sorted(f"find {number}" for number in (*range(6), *range(50, 56)))


def test_wrong_results_are_said_with_their_place(project):
    wrong = [
        {"tool": "find", "result": 1, "error": "both"},
        {"tool": "find", "result": 1, "patterns": {"id": "("}},
        {"tool": "find", "resutl": 1},
        {"tool": "find", "error": "x", "times": 0},
    ]
    ask(project, "x", tool_results=wrong, mcp="python server.py", max_steps=0)
    said = project.do("validate", "data.json", code=None)
    assert "tool_results[0]: give result or error, one of them" in said
    assert "the pattern of id cannot be used" in said and "did you mean 'result'" in said
    assert "must be at least 1, not 0" in said and "mcp" in said and "max_steps" in said
    ask(project, "x", tool_results=[{"tool": "fnid", "result": 1}])
    warned = project.do("validate", "data.json")
    assert "tool_results[0].tool: warning" in warned and "mean 'find'?" in warned


def test_the_steps_of_an_answer_without_a_price_count_as_one(project):
    shutil.copytree(SAMPLES / "agent-scripted-tools", project.folder, dirs_exist_ok=True)
    project.do("run", "orders.json", "--trust", "--quiet", code=None)
    shown = project.do("show", "last")
    assert ", 8 unpriced" in shown  # seven answers, and one that ended with an error after its step
