"""`init --from`: questions or flags, a configuration with comments, one call, and a command that works as it stands."""

import json
import os
import re
import shlex
import subprocess
import sys
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.tui.terminal import Terminal
from tui_evals.cli.write.commands import _SOURCES
from tui_evals.targets.answers import answer_path
from tui_evals.targets.config import load_settings
from tui_evals.targets.config_file import BEGINNINGS, EMPTY


def last_command(text):
    return shlex.split(re.findall(r"tui-evals (run .+)$", text, re.MULTILINE)[-1])


def test_plain_init_writes_a_configuration_to_fill_in_and_names_an_offline_command(shell, folder):
    done = shell("init")
    assert done.code == 0
    assert (folder / ".evals" / "config.toml").read_text() == EMPTY
    ran = shell(*last_command(done.out))
    assert ran.code == 0 and "finished" in ran.out
    (folder / ".evals" / "config.toml").write_text(re.sub(r"^# (?=[a-z\[])", "", EMPTY, flags=re.MULTILINE))
    settings = load_settings(folder)
    assert settings.run.targets == ("gpt",) and settings.judge == "gpt" and settings.run.max_cost == 5
    mine = "[run]\nrepeats = 2\n"
    (folder / ".evals" / "config.toml").write_text(mine)
    (folder / "evals" / "evals.json").unlink()
    assert shell("init").code == 0 and (folder / ".evals" / "config.toml").read_text() == mine


def begun(shell, folder, *words):
    done = shell("init", "--from", *words)
    assert done.code == 0, done.err
    ran = shell(*last_command(done.out))
    assert ran.code == 0 and "2 of 2" in ran.out
    config = (folder / ".evals" / "config.toml").read_text()
    assert config.startswith("#") and tomllib.loads(config)["run"]["targets"]
    return done.out, config


@pytest.mark.story
def test_from_python_writes_a_function_and_asks_it(shell, folder):
    out, config = begun(shell, folder, "python", "--at", "agents/bot.py:reply", "--ask", "Who are you?")
    assert "wrote agents/bot.py" in out and "'You said: Who are you?'" in out
    assert 'model = "python:agents/bot.py:reply"' in config
    again = shell("init", "--from", "python", "--at", "agents/other.py:reply")
    assert again.code == 0 and "replaced [targets.function]" in again.out
    assert "agents/other.py:reply" in (folder / ".evals" / "config.toml").read_text()


@pytest.mark.story
def test_from_command(shell, folder):
    out, _ = begun(shell, folder, "command", "--at", f"{sys.executable} -c 'print(input().upper())'", "--ask", "hello")
    assert "program answers: 'HELLO'" in out


def test_from_openai(shell, folder, server):
    _, config = begun(shell, folder, "openai", "--at", server.url, "--model", "test-model", "--key", "")
    assert 'model = "openai/test-model"' in config and '# api_key = "env:MY_KEY"' in config


@pytest.fixture
def address():
    service = Path(__file__).parents[2] / "sample_datasets" / "json-service" / "service.py"
    command, anywhere = [sys.executable, str(service)], {**os.environ, "PORT": "0"}
    with subprocess.Popen(command, env=anywhere, stdout=subprocess.PIPE) as started:
        try:
            yield started.stdout.readline().decode().split()[-1]
        finally:
            started.kill()


def test_from_http_finds_where_the_answer_stands(shell, folder, address):
    out, config = begun(shell, folder, "http", "--at", address, "--ask", "Where is A-1?")
    assert "the answer is at $.reply.text" in out and "service answers: 'Order A-1 is on its way.'" in out
    assert 'answer = "$.reply.text"' in config and '"message" = "{{ prompt }}"' in config


@pytest.mark.nightly
def test_from_a2a(shell, folder):
    pytest.importorskip("a2a", reason="the package a2a-sdk is not installed: pip install -r requirements.lock")
    from tests.a2a_agent import running

    with running() as origin:
        out, _ = begun(shell, folder, "a2a", "--at", f"{origin}/plain", "--ask", "hello there")
    assert "agent answers: 'You said: hello there'" in out


def test_questions_are_asked_at_a_terminal(folder):
    (folder / "bot.py").write_text("def answer(prompt):\n    return prompt[::-1]\n")
    command = [sys.executable, "-m", "tui_evals", "init", "--from", "python"]
    with Terminal(command, folder, size=(100, 30)) as terminal:
        terminal.wait("Which function answers")
        terminal.press("bot.py:answer\r")
        terminal.wait("What is it asked first?")
        terminal.press("abc\r")
        terminal.wait("function answers: 'cba'")
        for question in ("What do you expect", "Question 2", "Evaluators"):
            terminal.wait(question)
            terminal.press("\r")
        terminal.wait("2 of 2 pass")
        assert terminal.end() == 0


def test_what_is_missing_or_unfit_is_said(shell, folder):
    done = shell("init", "--from", "http")
    assert done.code == 2 and "Give --at" in done.err
    done = shell("init", "--from", "command", "--at", "true", "--model", "x")
    assert done.code == 2 and "--model is nothing that --from command takes; it takes --ask, --at" in done.err
    assert "belongs to WHAT or --from" in shell("init", "--at", "x").err
    assert "give one of them" in shell("init", "--from", "http", "--provider", "openai").err
    done = shell("init", "--from", "openai", "--at", "http://127.0.0.1:9/v1", "--model", "m", "--key", "")
    assert done.code == 3 and "tui-evals targets check model" in done.err
    assert load_settings(folder).targets["model"].model == "openai/m"


def test_every_kind_is_offered_and_its_section_is_read(tmp_path):
    assert set(_SOURCES) == set(BEGINNINGS)
    said = {"at": "https://host.example/x", "model": "m", "key": "MY_KEY", "field": "q", "answer": "$.a"}
    for name, beginning in BEGINNINGS.items():
        folder = tmp_path / name
        (folder / ".evals").mkdir(parents=True)
        (folder / ".evals" / "config.toml").write_text(beginning.section(said))
        assert beginning.name in load_settings(folder).targets


@pytest.mark.parametrize(
    ("reply", "path"),
    [
        ({"id": "7", "reply": {"text": "a longer text"}}, "$.reply.text"),
        ([{"role": "bot", "say": "good morning"}], "$[0].say"),
        ({"n": 1}, None),
        ("words", None),
    ],
)
def test_where_an_answer_stands_in_a_reply(reply, path):
    assert answer_path(json.dumps(reply) if not isinstance(reply, str) else reply) == path


def test_a_guess_is_no_answer_where_nobody_can_agree(shell, folder):
    done = shell("init", "--from", "openai", "--model", "m")
    assert done.code == 2 and "--at" in done.err and "8000" not in done.err


def test_a_service_that_wants_a_login_asks_for_the_header(shell, folder, monkeypatch):
    class Service(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            good = self.headers.get("Authorization") == "Bearer s3cret"
            self.send_response(200 if good else 401)
            self.end_headers()
            self.wfile.write(b'{"reply": {"text": "hello"}}' if good else b"{}")

        def log_message(self, *words):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        monkeypatch.setenv("SHOP_KEY", "s3cret")
        words = ("init", "--from", "http", "--at", f"http://127.0.0.1:{server.server_port}/chat")
        refused = shell(*words)
        assert refused.code == 3 and "--header 'Authorization: Bearer env:NAME'" in refused.err
        done = shell(*words, "--header", "Authorization: Bearer env:SHOP_KEY")
        assert done.code == 0 and "'hello'" in done.out and "replaced [targets.service]" in done.out, done.err
        ran = shell(*last_command(done.out))
        assert ran.code == 0 and "2 of 2" in ran.out
    finally:
        server.shutdown()
        server.server_close()
    assert "s3cret" not in (folder / ".evals" / "config.toml").read_text()
