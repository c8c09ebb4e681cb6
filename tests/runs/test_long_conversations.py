"""A conversation of 2,000 turns is asked whole and stored once."""

import json

import pytest

from tui_evals.runs.asking import cache_key
from tui_evals.store.details import read_details
from tui_evals.targets.base import Request

TURNS = 120


def long_item():
    turns = [{"prompt": f"question {number} " + "word " * 20, "expected_response": "x"} for number in range(TURNS)]
    return {"testId": "long", "messages": [{"role": "system", "content": "Be brief."}], "turns": turns}


@pytest.mark.nightly
def test_a_long_conversation_is_asked_whole_and_stored_once(project):
    project.server.behave(say="An answer of some length.")
    document = {"schemaVersion": "1.11.0", "default_evaluators": {"Includes": {}}, "items": [long_item()]}
    (project.folder / "data.json").write_text(json.dumps(document))
    said = project.do("validate", "data.json")
    assert "not portable to runevals" in said and "runevals takes no conversation of more than 20 turns" in said
    code, out, err = project.as_process("run", "data.json", "--target", "main", "--quiet")
    assert code == 0, out + err
    sent = project.server.last()["body"]["messages"]
    assert len(sent) == 1 + 2 * TURNS - 1
    with project.reader() as reader:
        run = reader.find_run("last")
        told = list(read_details(reader, run, reader.all_rows(run.id), requests=True))
        assert [len(one.answer.request["messages"]) for one in told] == [2 + 2 * turn for turn in range(TURNS)]
        whole = reader.detail(told[-1].row.id).answer.request
        assert whole == told[-1].answer.request and whole["messages"] == sent
        ((stored,),) = reader.query("SELECT sum(length(request)) FROM bodies")
        assert stored < 4 * len(json.dumps(sent))  # and not that times half the turns
        identity = {name: value for name, value in run.config["targets"][0].items() if name != "name"}
        assert reader.cache_get(cache_key(identity, Request(messages=tuple(sent), params=whole["params"]))) is not None
    code, out, err = project.as_process("run", "data.json", "--target", "main", "--quiet")
    assert code == 0 and project.server.counts()["asked"] == TURNS, out + err
