"""The session that a target gives is sent with the next question of the same conversation, and with no other."""

import json

import pytest

from tests.runs.conftest import Project
from tui_evals.store.details import read_details

AGENT = """
import itertools

numbers = itertools.count(1)
kept = {}

def answer(request):
    session, question = request["session"], request["messages"][-1]["content"]
    if question == "broken":
        raise ValueError("no")
    if session is None:
        session = {"id": next(numbers), "of": f"{request['item']}/{request['repeat']}"}
    heard = kept.setdefault(session["id"], [])
    heard.append(question)
    return {"text": json.dumps([session["of"], heard]), "session": session if len(heard) != 2 else None}

import json
"""


@pytest.fixture
def project(tmp_path, server, monkeypatch) -> Project:
    monkeypatch.chdir(tmp_path)
    made = Project(tmp_path, server)
    (tmp_path / "agent.py").write_text(AGENT)
    made.configure('[targets.agent]\nmodel = "python:agent:answer"\n')
    return made


def talks(project: Project, *conversations: list[str]) -> None:
    items = [
        {"testId": f"item{number}", "turns": [{"prompt": prompt, "expected_response": "x"} for prompt in prompts]}
        for number, prompts in enumerate(conversations)
    ]
    document = {"schemaVersion": "1.11.0", "default_evaluators": {"Includes": {}}, "items": items}
    (project.folder / "data.json").write_text(json.dumps(document))


def told(project: Project):
    """Each answer as (item, repeat, turn, what it said, the session that was sent with it)."""
    with project.reader() as reader:
        run = reader.find_run("last")
        return [
            (one.row.name, one.row.repeat, one.row.turn, one.answer.text, one.answer.request.get("session"))
            for one in read_details(reader, run, reader.all_rows(run.id), requests=True)
            if one.answer is not None
        ]


def test_each_conversation_keeps_its_own_session(project):
    talks(project, ["a", "b", "c", "d"], ["a", "b"])
    project.do("run", "data.json", "-t", "agent", "--repeats", "2", "--quiet", code=None)
    answers = told(project)
    assert len(answers) == 12
    for item, repeat, turn, text, session in answers:
        assert json.loads(text) == [f"{item}/{repeat}", ["a", "b", "c", "d"][: turn + 1]]
        assert (session is None) == (turn == 0)  # and one that a reply leaves out goes on


def test_a_conversation_that_is_resumed_has_the_session_of_its_last_answer(project):
    talks(project, ["a", "b", "broken", "d"])
    project.do("run", "data.json", "-t", "agent", "--quiet", code=None)
    (project.folder / "agent.py").write_text(AGENT.replace('if question == "broken"', "if False"))
    project.as_process("resume", "last", "--errors", "--quiet")
    assert [json.loads(text)[1] for *_, text, _ in told(project)] == [["a"], ["a", "b"], ["broken"], ["broken", "d"]]
    assert [session for *_, session in told(project)] == [None, *[{"id": 1, "of": "item0/0"}] * 3]
