"""Runs over HTTP targets of the configuration: sessions, the cache, money, streams, headers, keys that stay away."""

import json

import pytest

from tests.runs.conftest import FREE, Project
from tui_evals.store.details import read_details
from tui_evals.store.filters import parse_filter

CANARY = "canary-93b1f0a77e"
BOT = """
[targets.bot]
retries = 3
headers = {{ X-Key = "Bearer env:MY_LOGIN" }}
{more}
[targets.bot.http]
url = "{origin}/service/chat"
body = {{ message = "{{{{ prompt }}}}", conversation = "{{{{ session }}}}" }}
answer = "$.result.text"
usage = "$.meta.tokens"
error = "$.failure"
session = "$.conv"
"""


@pytest.fixture
def project(tmp_path, server, monkeypatch) -> Project:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_LOGIN", CANARY)
    made = Project(tmp_path, server)
    made.configure(FREE + BOT.format(origin=server.origin, more=""))
    return made


def talks(project: Project, *conversations: list[str]) -> None:
    items = [
        {"testId": f"item{number}", "turns": [{"prompt": prompt, "expected_response": "a"} for prompt in prompts]}
        for number, prompts in enumerate(conversations)
    ]
    document = {"schemaVersion": "1.11.0", "default_evaluators": {"Includes": {}}, "items": items}
    (project.folder / "data.json").write_text(json.dumps(document))


def told(project: Project):
    with project.reader() as reader:
        run = reader.find_run("last")
        return list(read_details(reader, run, reader.all_rows(run.id), requests=True))


def asked(project: Project) -> int:
    return int(project.server.counts()["asked"])


def test_a_conversation_is_held_in_its_session_and_comes_whole_from_the_cache(project):
    talks(project, ["a", "b", "c"], ["a", "b [[429*1]]"])
    project.server.behave("service", retry_after=0)
    project.do("run", "data.json", "-t", "bot", "--repeats", "2", "--quiet", code=None)
    for one in told(project):
        assert one.answer.text == " / ".join(["a", "b", "c"][: one.row.turn + 1]) or "429" in one.answer.text
        assert (one.answer.request.get("session") is None) == (one.row.turn == 0)
        assert one.answer.attempts == (2 if "429" in one.answer.text and one.row.repeat == 0 else 1)
    sessions = {(one.row.item, one.row.repeat): one.answer.session for one in told(project)}
    assert len(set(sessions.values())) == 4
    before = asked(project)
    assert before == 11

    # All of it is known: nobody is asked, also where the plan is priced.
    assert "10 calls (10 of 10 known)" in project.do("run", "data.json", "-t", "bot", "--repeats", "2", "--plan")
    project.do("run", "data.json", "-t", "bot", "--repeats", "2", "--quiet", code=None)
    assert asked(project) == before and all(one.row.from_cache for one in told(project))

    # One more turn: nobody goes on with the session of an earlier run, the conversation is held anew.
    talks(project, ["a", "b", "c", "d"], ["a", "b [[429*1]]"])
    plan = project.do("run", "data.json", "-t", "bot", "--plan")
    assert "6 calls (2 of 6 known)" in plan
    project.do("run", "data.json", "-t", "bot", "--quiet", code=None)
    assert asked(project) == before + 4
    assert [one.answer.text for one in told(project)][3] == "a / b / c / d"
    assert told(project)[0].answer.session not in sessions.values()


def test_a_session_outlives_an_interruption(project):
    talks(project, ["a", "b", "broken", "d"])
    project.do("run", "data.json", "-t", "bot", "--quiet", code=None)
    rows = told(project)
    assert [one.row.status for one in rows][2:] == ["error", "error"]
    assert "says it failed: no service for Bearer [hidden]" in rows[2].answer.message
    talks(project, ["a", "b", "broken", "d"])
    project.server.behave("service", always="answer")
    project.do("resume", "last", "--errors", "--quiet", code=None)
    assert told(project)[2].answer.request["session"] == rows[0].answer.session


def test_no_key_is_kept_anywhere(project):
    talks(project, ["a", f"broken {CANARY}"])
    project.server.behave("service", say=f"it is {CANARY}")
    told_out = project.do("run", "data.json", "-t", "bot", "--quiet", "-o", "out.json", "-o", "out.csv", code=None)
    told_out += project.do("run", "data.json", "-t", "bot", "--no-cache", code=None)
    told_out += project.do("show", "last", "--item", "item0", code=None)
    assert project.server.last()["headers"]["X-Key"] == f"Bearer {CANARY}"
    shown = project.do("targets", "check", "bot")
    assert "> POST http://127.0.0.1" in shown and "> X-Key: Bearer [hidden]" in shown and '< {"result"' in shown
    about = json.loads(project.as_call("targets", "check", "bot", "--json")[1])
    assert about["request"].startswith("POST ") and about["unmatched"] == []
    written = [file.read_bytes() for file in project.folder.rglob("*") if file.is_file() and file.name != "data.json"]
    assert len(written) > 4 and not any(CANARY.encode() in each for each in written)
    assert CANARY not in told_out + shown + json.dumps(about)


def test_check_says_which_path_found_nothing(project):
    project.configure(FREE + BOT.format(origin=project.server.origin, more="").replace("$.conv", "$.convo"))
    shown = project.do("targets", "check", "bot")
    assert "✓ bot" in shown and "! http.session: the path $.convo matched nothing" in shown and "$.conv," in shown
    project.configure(FREE + BOT.format(origin=project.server.origin, more="").replace("$.result.text", "$.text"))
    shown = project.do("targets", "check", "bot", code=3)
    assert "http.answer: the path $.text matched nothing" in shown and '< {"result"' in shown


def test_a_service_without_a_price_is_unpriced_and_a_call_may_have_one(project):
    talks(project, ["a"], ["b"])
    assert "unpriced" in project.do("targets")
    assert "price = { per_call = … }" in project.do("run", "data.json", "-t", "bot", "--max-cost", "1", code=3)
    project.configure(FREE + BOT.format(origin=project.server.origin, more="price = { per_call = 0.02 }"))
    assert "$0.0200 per call" in project.do("targets")
    assert "about $0.04" in project.do("run", "data.json", "-t", "bot", "--plan")
    project.do("run", "data.json", "-t", "bot", "--max-cost", "0.03", "--quiet", code=None)
    rows = told(project)
    assert [one.row.cost for one in rows] == [0.02, None] and asked(project) == 1


def test_a_stream_tells_when_it_began(project):
    project.configure(
        FREE
        + "stream = true\n"
        + f"""
[targets.lines.http]
url = "{project.server.origin}/service/stream/jsonl"
body = {{ message = "{{{{ prompt }}}}" }}
answer = "$.delta.text"
usage = "$.usage"
stream = "jsonl"
"""
    )
    talks(project, ["a b [[stream]]"])
    project.server.behave("service", markers=False)
    document = json.loads((project.folder / "data.json").read_text())
    document["default_evaluators"] = {"TimeToFirstToken": {"threshold": 60000}, "TokensPerSecond": {"threshold": 0.001}}
    (project.folder / "data.json").write_text(json.dumps(document))
    project.do("run", "data.json", "-t", "main", "-t", "lines", "--quiet", "-o", "out.csv")
    main, lines = told(project)
    assert project.server.last()["body"].get("stream") is None
    assert main.answer.first_token_ms > 0 and main.row.latency_ms >= main.answer.first_token_ms
    assert lines.answer.first_token_ms > 0 and lines.row.output_tokens == 4
    shown = project.do("show", "last", "--item", "item0")
    assert shown.count("first token after") == 2 and "tokens/s" in shown
    header = (project.folder / "out.csv").read_text().splitlines()[0]
    assert "first_token_ms" in header
    with project.reader() as reader:
        run = reader.find_run("last")
        filters = [parse_filter(text) for text in ("first_token:>0ms", "first_token:>1m")]
        found = [len(reader.ids(run.id, where)) for where in filters]
    assert found == [2, 0]


def test_headers_go_along_to_models_too(project, monkeypatch):
    project.configure(f'{FREE}headers = {{ X-Trace = "run env:MY_LOGIN", Authorization = "Basic env:MY_LOGIN" }}')
    project.do("targets", "check", "main")
    sent = project.server.last()["headers"]
    assert sent["X-Trace"] == f"run {CANARY}" and sent["Authorization"] == f"Basic {CANARY}"
    project.configure(f'{FREE}headers = {{ X-Trace = "run env:NOT_SET" }}')
    said = project.do("targets", "check", "main", code=3)
    assert "takes its header X-Trace from the environment variable NOT_SET, which is not set" in said


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            "params = { extra_headers = { a = 'b' } }",
            "must hold no extra_headers, which would go into the body; set headers",
        ),
        ("headers = { X-Api-Key = 'sk-1234567890' }", "X-Api-Key must name a variable for the secret"),
        ("headers = { 'a b' = 'c' }", "'a b' is no name of a header"),
        ("headers = { Host = 'c' }", "Host is worked out for each call"),
        ("headers = { a = '{{ prompt }}' }", "is filled in for http targets alone"),
        ("http = { url = 'http://{{ host }}/x' }", "must name its host"),
        ("http = { url = 'http://h/x?api_key=abc' }", "must hold no key, user or password"),
        ("http = { url = 'http://h/', body = {}, form = {} }", "must have one of body and form"),
        (
            "http = { url = 'http://h/', body = { user = { password = 'x' } } }",
            "http.body must hold no key or password",
        ),
        ("http = { url = 'http://h/', anser = '$' }", "did you mean 'answer'?"),
        ("http = { url = 'http://h/' }", "base_url: has no effect with http. Give url in http"),
    ],
)
def test_what_cannot_be_meant_is_said(project, settings, said):
    project.configure(settings)
    assert said in project.do("targets", code=None).replace("\n", " ")


def test_an_address_alone_is_no_target(project):
    talks(project, ["a"])
    said = project.do("run", "data.json", "-t", "https://bot.example/chat", code=3)
    assert "is an address" in said and 'http = { url = "https://bot.example/chat"' in said
