"""From an empty folder to a gate in a pipeline, with the commands counted: at most 3 to a result, 5 to a workflow."""

import json
import shlex
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.providers import anthropic, speaking
from tui_evals.text.yamls import load_yaml

pytestmark = pytest.mark.story


@pytest.fixture
def api():
    """An own HTTP API with a login, whose conversations have a session."""

    class Service(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            good = self.headers.get("Authorization") == "Bearer s3cret"
            self.send_response(200 if good else 401)
            self.end_headers()
            reply = {"reply": {"text": f"You asked {asked['message']}"}, "session": "s-1"}
            self.wfile.write(json.dumps(reply if good else {}).encode())

        def log_message(self, *words):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/chat"
    server.shutdown()
    server.server_close()


class Newcomer:
    """Types commands, which are counted, and has them succeed."""

    def __init__(self, shell):
        self.shell, self.commands = shell, 0

    def types(self, line):
        self.commands += 1
        done = self.shell(*shlex.split(line)[1:])
        assert done.code == 0, (line, done.err)
        return done.out

    def reaches_a_gate(self, passing="2 of 2 pass"):
        """A first result of their own, then a workflow each step of which works here."""
        assert passing in self.types("tui-evals run")
        assert self.commands <= 3
        self.types("tui-evals ci init --github --install tui-evals")
        assert self.commands <= 5
        steps = load_yaml(Path(".github/workflows/evals.yml").read_text())["jobs"]["evals"]["steps"]
        for words in [shlex.split(step["run"]) for step in steps if "run" in step][1:]:
            done = self.shell(*words[1:])
            assert words[0] == "tui-evals" and done.code == 0, (words, done.err)
        assert Path("results/junit.xml").exists() and Path("evals/baseline.json").exists()


@pytest.fixture
def newcomer(shell, project):
    return Newcomer(shell)


@pytest.mark.nightly
def test_an_own_http_api_with_a_login(newcomer, api, monkeypatch):
    monkeypatch.setenv("SHOP_KEY", "s3cret")
    newcomer.types(f"tui-evals init --from http --at {api} --header 'Authorization: Bearer env:SHOP_KEY'")
    newcomer.reaches_a_gate()


@pytest.mark.nightly
def test_an_endpoint_of_openais_protocol(newcomer, one_server):
    one_server.reset()
    newcomer.types(f"tui-evals init --from openai --at {one_server.url} --model m")
    newcomer.reaches_a_gate()


@pytest.mark.story
def test_a_python_agent(newcomer):
    Path("agent.py").write_text("def answer(prompt):\n    return f'I heard {prompt}'\n")
    sys.modules.pop("agent", None)
    newcomer.types("tui-evals init --from python --at agent.py:answer")
    newcomer.reaches_a_gate()


@pytest.mark.nightly
def test_a_key_of_anthropic(newcomer, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-1")
    with speaking() as provider:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
        provider.says(anthropic(text="Hello from Claude"))
        out = newcomer.types("tui-evals init claude-haiku-4-5 --example 'Who are you? => Claude'")
        assert "1 of 1 pass" in out and newcomer.commands == 1
        newcomer.reaches_a_gate("1 of 1 pass")


@pytest.mark.nightly
def test_a_project_of_promptfoo(newcomer, one_server):
    one_server.reset()
    Path("promptfooconfig.yaml").write_text(
        "prompts: ['Say {{word}}', 'Please say {{word}}']\n"
        f"providers: [{{id: 'openai:chat:m', config: {{apiBaseUrl: '{one_server.url}', apiKey: x}}}}]\n"
        "tests: [{vars: {word: hello}, assert: [{type: icontains, value: hello}]}]\n"
    )
    out = newcomer.types("tui-evals import promptfooconfig.yaml")
    assert "experiment: experiment.yaml (written)" in out and out.endswith("next: `tui-evals run`\n")
    newcomer.reaches_a_gate("1 of 1 pass")
