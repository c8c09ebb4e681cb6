"""`init WHAT`: what is named is recognized, asked once and shown; questions, evaluators and a run follow."""

import json
import stat
import sys
from pathlib import Path

import pytest

from tests.cli.chat_service import chatting
from tests.providers import anthropic, speaking
from tests.tui.terminal import Terminal
from tui_evals.evaluators.registry import proposals
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import load_settings
from tui_evals.targets.recognizing import Recognized, look_at, missing_field, recognize, session_in

pytestmark = pytest.mark.story

DESCRIPTION = {
    "openapi": "3.1.0",
    "servers": [{"url": "/"}],
    "security": [{"login": []}],
    "paths": {
        "/health": {"get": {}},
        "/chat": {
            "post": {
                "operationId": "chat",
                "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Ask"}}}},
            }
        },
    },
    "components": {
        "securitySchemes": {"login": {"type": "http", "scheme": "bearer"}},
        "schemas": {
            "Ask": {
                "type": "object",
                "required": ["question", "tenant"],
                "properties": {
                    "question": {"type": "string"},
                    "tenant": {"type": "string", "default": "acme"},
                    "session": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                    "verbose": {"type": "boolean"},
                },
            }
        },
    },
}


def keys_pressed(terminal, *steps):
    """Answer each question; how many keys that took."""
    for question, answer in steps:
        terminal.wait(question)
        terminal.press(f"{answer}\r")
    return sum(len(answer) + 1 for _, answer in steps)


def test_the_guide_leads_from_an_address_with_a_login_to_a_pass_rate(project):
    with chatting() as service:
        command = [sys.executable, "-m", "tui_evals", "init"]
        with Terminal(command, project, size=(100, 50)) as terminal:
            keys = keys_pressed(
                terminal,
                ("What do you want to evaluate", service.url),
                ("asked first", "hi there"),
                ("Which header", "Authorization: Bearer s3cret"),
                ("Where is the answer", ""),
                ("sends it again", "session"),
                ("What do you expect", "hi there"),
                ("Question 2", ""),
                ("Evaluators", ""),
            )
            terminal.wait("1 of 1 pass")
            assert terminal.end() == 0
        assert "'You asked hi there'" in terminal.text and "a second turn continues the session" in terminal.text
        assert keys < 120
        with Terminal(command, project, size=(100, 50)) as terminal:  # every answer again, two of them another
            keys_pressed(
                terminal,
                ("What do you want to evaluate", service.url),
                ("asked first", ""),
                ("Where is the answer", ""),
                ("sends it again", "-"),
                ("What do you expect", "something else"),
                ("Question 2", ""),
            )
            terminal.wait("0 of 1 pass")
            assert terminal.end() == 0
    config = Path(".evals/config.toml").read_text()
    assert "s3cret" not in config and config.count("# A service over HTTP") == 1 and "\nsession =" not in config
    assert stat.S_IMODE(Path(".env.local").stat().st_mode) == 0o600 and ".env.local" in Path(".gitignore").read_text()


def test_a_pasted_curl_command_says_everything(shell, project):
    with chatting() as service:
        command = f"""curl -sS -X POST '{service.url}' \\
            -H 'Content-Type: application/json' -H "Authorization: Bearer s3cret" -H 'User-Agent: browser' \\
            --data-raw '{{"tenant": "acme", "message": "Who are you?", "session": "abc"}}'"""
        done = shell("init", command, "--example", "Who are you? => Who are you?")
        assert done.code == 0 and "1 of 1 pass" in done.out, done.err
        assert service.asked[-1] == {"tenant": "acme", "message": "Who are you?", "session": None}
    http = load_settings(project).targets["service"].http
    assert (http.answer, http.session) == ("$.reply.text", "$.session")
    assert "s3cret" not in Path(".evals/config.toml").read_text() + done.out


def test_a_curl_command_of_several_lines_is_pasted_at_a_terminal(project):
    with (
        chatting(key="") as service,
        Terminal([sys.executable, "-m", "tui_evals", "init", "--no-run"], project) as term,
    ):
        pasted = f'curl {service.url} \\\r  -d \'{{\r "message": "Hi"}}\''
        steps = (("What do you want", pasted), ("asked first", ""), ("Where is the answer", ""), ("sends it again", ""))
        keys_pressed(term, *steps, ("What do you expect", ""), ("Question 2", ""), ("Evaluators", ""))
        assert term.end() == 0
    assert json.loads(Path("evals/evals.json").read_text())["items"][0]["prompt"] == "Hi"


def test_a_service_that_describes_itself_needs_no_question(shell, project, monkeypatch):
    monkeypatch.setenv("SERVICE_KEY", "s3cret")
    with chatting(field_name="question", description=DESCRIPTION) as service:
        done = shell("init", service.url, "--no-run")
        assert done.code == 0 and "described by" in done.out, done.err
        assert service.asked[-1]["tenant"] == "acme" and "verbose" not in service.asked[-1]
        Path("api.json").write_text(json.dumps(DESCRIPTION))
        assert shell("init", "api.json", "--at", service.url.removesuffix("/chat"), "--no-run").code == 0
    assert shell("init", "api.json").err.strip().endswith("Add --at http://HOST:PORT")
    config = load_settings(project).targets["service"]
    assert dict(config.headers) == {"Authorization": "Bearer env:SERVICE_KEY"}


def test_the_field_that_a_service_misses_is_learnt(shell, project):
    with chatting(field_name="query", key="") as service:
        done = shell("init", service.url)
    assert done.code == 0 and "it asks for the field query" in done.out and "2 of 2 pass" in done.out


def test_a_model_that_lists_itself_is_of_openais_protocol(shell, project, one_server):
    one_server.reset()
    done = shell("init", f"{one_server.url}/chat/completions", "--model", "m")
    assert done.code == 0 and "2 of 2 pass" in done.out, done.err
    found = look_at(recognize("http://host"), lambda url: {"data": [{"id": "qwen"}]} if "models" in url else None)
    assert (found.source, dict(found.said)) == ("openai", {"at": "http://host/v1", "model": "qwen"})
    card = look_at(recognize("http://host"), lambda url: {"name": "Shop"} if "agent-card" in url else None)
    assert (card.source, card.said["at"]) == ("a2a", "http://host")


@pytest.mark.nightly
def test_a_key_of_anthropic_in_a_curl_command_is_kept_where_git_does_not_look(shell, project):
    with speaking() as provider:
        provider.says(anthropic(text="Hello from Claude"))
        body = {"model": "claude-haiku-4-5", "max_tokens": 99, "messages": [{"role": "user", "content": "Hi"}]}
        done = shell(
            *("init", f"curl {provider.url}/v1/messages -H 'x-api-key: sk-1' -d '{json.dumps(body)}'"),
            *("--example", "Hi => Hello from Claude"),
        )
        assert done.code == 0 and "1 of 1 pass" in done.out, done.err
    assert "ANTHROPIC_API_KEY='sk-1'" in Path(".env.local").read_text()


@pytest.mark.parametrize(
    ("what", "found"),
    [
        ("anthropic/claude-haiku-4-5", ("model", "anthropic/claude-haiku-4-5")),
        ("claude-haiku-4-5", ("model", "anthropic/claude-haiku-4-5")),
        ("gpt", ("model", "openai/gpt-4o-mini")),
        ("bots.py", ("python", "bots.py:respond")),
        ("new.py", ("python", "new.py:answer")),
        ("bots.py:other", ("python", "bots.py:other")),
        ("package.agent:ask", ("python", "package.agent:ask")),
        ("command:cat", ("command", "cat")),
        ("https://h.example/v1/chat/completions", ("openai", "https://h.example/v1")),
        ("curl 'https://h.example/ask?q=Who&k=3'", ("http", "https://h.example/ask?q={{ prompt }}&k=3")),
    ],
)
def test_what_is_recognized(project, what, found):
    Path("bots.py").write_text("def helper(x): ...\nasync def respond(prompt): ...\n")
    known = recognize(what)
    assert (known.source, known.said["model" if known.source == "model" else "at"]) == found


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("nonsense words", "is not known. Give a URL"),
        ("two.py", "several functions: one, two. Name the one that answers: two.py:NAME"),
        ("curl http://h.example -d @body.json", "Paste its JSON"),
        ("curl http://h.example", "no question"),
        ("empty.json", "not an OpenAPI description"),
    ],
)
def test_what_is_not_recognized_is_told_with_what_would_be(shell, project, what, says):
    Path("two.py").write_text("def one(x): ...\ndef two(x): ...\n")
    Path("empty.json").write_text("{}")
    with pytest.raises(ConfigurationError, match=says):
        recognize(what)
    assert shell("init", what).code == 2


def test_an_answer_that_expects_nothing_of_a_session_or_a_field():
    assert (
        session_in({"data": {"conversation_id": 7}}) == "$.data.conversation_id" and session_in({"text": "x"}) is None
    )
    assert missing_field('{"error": "\'query\' is required"}') == "query" and missing_field("broken") is None
    assert look_at(Recognized("python", {"at": "x"}), lambda url: pytest.fail("asked")).source == "python"


@pytest.mark.parametrize(
    ("expected", "prompt", "names"),
    [
        ([], "", ["Regex", "Latency"]),
        (["Paris", "Rome"], "", ["ExactMatch", "Latency"]),
        (['{"a": 1}'], "Answer as JSON", ["JsonMatch", "Latency"]),
        ([], "Reply with JSON only, at most 20 words", ["Regex", "JsonValid", "Length", "Latency"]),
        (["A sentence that is longer than forty characters."], "", ["PartialMatch", "Latency"]),
        ([], "Two lines are given. Answer in one word", ["Regex", "Length", "Latency"]),
    ],
)
def test_evaluators_are_proposed_from_answers_and_the_prompt(expected, prompt, names):
    assert [one.name for one in proposals(expected, prompt)] == names


def test_the_demands_of_a_prompt_file_judge(shell, project):
    Path("ask.prompty").write_text("---\nname: ask\n---\nuser:\nAnswer in at most 3 words: {{prompt}}\n")
    Path("agent.py").write_text("def answer(prompt):\n    return 'one two three four'\n")
    sys.modules.pop("agent", None)
    done = shell("init", "agent.py", "--prompt", "ask.prompty")
    assert done.code == 0 and "0 of 2 pass" in done.out and "the prompt allows 3 words" in done.out, done.out


def test_a_header_with_a_login_never_holds_its_key(project):
    Path(".evals").mkdir()
    section = '[targets.a]\nhttp = {{ url = "http://h", body = "x", headers = {{ {} = "{}" }} }}\n'
    Path(".evals/config.toml").write_text(section.format("Authorization", "Bearer s3cret"))
    with pytest.raises(ConfigurationError, match="must name a variable"):
        load_settings(project, whole=True)
    Path(".evals/config.toml").write_text(section.format("X-Author", "me"))
    assert load_settings(project).targets["a"].http is not None
