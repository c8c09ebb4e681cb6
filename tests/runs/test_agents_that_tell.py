"""Systems that tell more than a text: what they say reaches evaluators, judges, `show` and exports whole."""

import json
import sys

import pytest

from tests.runs.conftest import FREE
from tui_evals.store.records import transcript_of
from tui_evals.transcript import documents_of, reasoning_text

AGENT = """
import dataclasses, types

def calls(prompt):
    return {"text": "Order 7 is paid.", "tool_calls": [
        {"name": "find", "arguments": {"order": 7}, "result": {"status": "paid"}},
        {"tool": "pay", "input": {"order": 7}, "output": "card declined", "failed": True}]}
def steps(prompt):
    return {"steps": [
        {"reasoning": "look it up", "text": "I look.", "tool_calls": [{"name": "find", "result": "paid"}], "ms": 1500},
        {"chunks": [{"text": "Refunds take 14 days.", "source": "faq", "score": 0.5}]},
        {"text": "Order 7 is paid.", "usage": {"input_tokens": 3, "output_tokens": 4}, "cost": 0.25}]}
def messages(prompt):
    return {"messages": [{"role": "user", "content": prompt},
        {"role": "assistant", "content": None, "reasoning_content": "look it up", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "paid"},
        {"role": "assistant", "content": "Order 7 is paid."}]}
def thinks(prompt): return "<think>3 or 7?</think>\\nOrder 7 is paid."

class Message:
    def __init__(self, type, content, **more):
        self.data = {"type": type, "content": content, **more}
        self.__dict__.update(self.data)
    def model_dump(self): return self.data
def graph(prompt):
    return {"messages": [Message("human", prompt), Message("ai", "", tool_calls=[
        {"name": "find", "args": {"order": 7}, "id": "c1", "type": "tool_call"}]),
        Message("tool", "paid", tool_call_id="c1", status="success"), Message("ai", "Order 7 is paid.")],
        "remaining": 3}
def message(prompt): return Message("ai", [{"type": "text", "text": "Order 7 is paid."}],
    tool_calls=[{"name": "find", "args": {"order": 7}, "id": "c1"}])

@dataclasses.dataclass
class Result:
    final: str
    when: object = None
def foreign(prompt): return Result("Order 7 is paid.")
"""


def run(project, name, evaluators, *options):
    """The last answer of a run of one item with an agent's function."""
    (project.folder / "agent.py").write_text(AGENT)
    item = {"testId": "T", "prompt": "Is order 7 paid?", "expected_response": "Order 7 is paid."}
    document = {"schemaVersion": "1.11.0", "default_evaluators": evaluators, "items": [item]}
    (project.folder / "data.json").write_text(json.dumps(document))
    print(project.do("run", "data.json", "-t", f"python:agent.py:{name}", "--quiet", *options, code=None))
    with project.reader() as reader:
        found = reader.find_run("last")
        (row,) = reader.all_rows(found.id)
        detail = reader.detail(row.id)
        return detail, {record.key: record for record in detail.scores.get(found.scoring_pass, ())}


def test_the_results_of_an_agents_own_calls_are_judged_and_shown(project):
    detail, scores = run(project, "calls", {"ToolsSucceeded": {}, "Equals": {}})
    assert (scores["ToolsSucceeded"].score, scores["Equals"].result) == (0.5, "pass")
    assert "card declined" in scores["ToolsSucceeded"].reason
    shown = project.do("show", "last", "--item", "T")
    for line in ('→ find {"order": 7}', '← {"status": "paid"}', "! card declined", "the answer"):
        assert line in shown
    assert [call["name"] for call in detail.answer.tool_calls] == ["find", "pay"]


def test_a_judge_is_shown_what_the_tools_gave(project):
    project.configure(FREE)
    run(project, "steps", {"TaskCompletion": {}}, "--judge", "main")
    text = json.dumps(project.server.last())
    assert "result_1" in text and "paid" in text and "look it up" not in text


@pytest.mark.parametrize("name", ["steps", "messages", "graph", "message", "thinks"])
def test_whatever_form_an_agent_answers_in_its_text_is_judged(project, name):
    detail, scores = run(project, name, {"Equals": {}, "ToolCalledWith": {"tool": "find", "arguments": {}}})
    assert scores["Equals"].result == "pass", detail.answer
    assert (scores["ToolCalledWith"].result == "pass") is (name != "thinks")
    thought = reasoning_text(transcript_of(detail.answer))
    assert thought == {"thinks": "3 or 7?", "steps": "look it up", "messages": "look it up"}.get(name, "")


def test_steps_are_told_with_time_cost_and_what_was_retrieved(project):
    detail, scores = run(project, "steps", {"Steps": {"most": 2}, "ToolsSucceeded": {}})
    assert (scores["Steps"].score, scores["Steps"].result, scores["ToolsSucceeded"].result) == (2, "pass", "pass")
    assert [document.source for document in documents_of(transcript_of(detail.answer))] == ["faq"]
    shown = project.do("show", "last", "--item", "T")
    for line in ("step 1 of 2 · 1.5 s", "reasoning: look it up", "← paid", "retrieved 1 chunk", "$0.250"):
        assert line in shown, shown
    project.do("export", "last", "--to", "json", "-o", "results.json")
    project.do("import", "results.json")
    with project.reader() as reader:
        (row,) = reader.all_rows(reader.find_run("last").id)
        again = reader.detail(row.id).answer
    assert transcript_of(again) == transcript_of(detail.answer) and again.text == detail.answer.text
    project.do("export", "last", "--to", "jsonl", "-o", "lines.jsonl")
    assert "look it up" in (project.folder / "lines.jsonl").read_text()
    project.do("import", "lines.jsonl")
    with project.reader() as reader:
        (row,) = reader.all_rows(reader.find_run("last").id)
        assert transcript_of(reader.detail(row.id).answer) == transcript_of(detail.answer)


PROGRAM = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"id": asked["id"], "text": "Order 7 is paid.", "chunks": ["Orders are paid at once."],
        "tool_calls": [{"name": "find", "arguments": {}, "result": "paid"}]}), flush=True)
"""


def test_a_program_in_json_lines_tells_as_much(project):
    (project.folder / "program.py").write_text(PROGRAM)
    text = f'[targets.program]\nmodel = "command:{sys.executable} program.py"\nparams = {{ protocol = "jsonl" }}\n'
    (project.folder / ".evals" / "config.toml").write_text(text)
    items = [{"testId": "T", "prompt": "Is order 7 paid?"}]
    document = {"schemaVersion": "1.11.0", "default_evaluators": {"ToolsSucceeded": {}}, "items": items}
    (project.folder / "data.json").write_text(json.dumps(document))
    assert "program: 1 of 1" in project.do("run", "data.json", "-t", "program", "--trust")
    shown = project.do("show", "last", "--item", "T")
    assert "← paid" in shown and "1. Orders are paid at once." in shown


def test_a_dataclass_that_is_no_answer_is_refused_with_what_would_be_one(project):
    detail, _ = run(project, "foreign", {"Equals": {}})
    assert detail.answer.text is None
    for words in ("dataclass Result", "text, tool_calls, steps or messages", "LangGraph"):
        assert words in detail.answer.message
