"""A pipeline from two commands: the workflow works on a fresh runner, and a pull request has one comment."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
import venv
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import tui_evals
from tui_evals.text.yamls import load_yaml

pytestmark = pytest.mark.story

ITEMS = [{"prompt": f"Say {n}.", "expected_response": str(n)} for n in range(8)]
EXPERIMENT = "data: evals/evals.json\ntargets: ['python:agent.py:answer']\nevaluators: [Equals]\n"


class GitHub:
    """The part of GitHub's API that has the comments of one pull request."""

    def __init__(self):
        self.comments, self.calls, self.refusing = [], [], 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self):
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size) or b"null")
                outer.calls.append((self.command, self.path))
                code, said = (
                    (outer.refusing, {}) if outer.refusing and self.command != "GET" else outer.said(self, body)
                )
                self.send_response(code)
                self.end_headers()
                self.wfile.write(json.dumps(said).encode())

            do_GET = do_POST = do_PATCH = answer

            def log_message(self, *words):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def said(self, asked, body):
        assert asked.headers["Authorization"] == "Bearer t" and asked.path.startswith("/repos/o/r/issues/")
        if asked.command == "GET":
            return 200, self.comments
        if asked.command == "POST":
            self.comments.append({"id": len(self.comments) + 1, "body": body["body"]})
        else:
            self.comments[int(asked.path.rpartition("/")[2]) - 1]["body"] = body["body"]
        return 200, {}


@pytest.fixture
def github(project, monkeypatch):
    """A job of a pull request."""
    server = GitHub()
    Path("event.json").write_text(json.dumps({"pull_request": {"number": 7}}))
    given = {
        "GITHUB_API_URL": server.url,
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_TOKEN": "t",
        "GITHUB_EVENT_PATH": str(Path("event.json").absolute()),
        "GITHUB_STEP_SUMMARY": str(Path("summary.md").absolute()),
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    server.environment = given
    yield server
    server.server.shutdown()
    server.server.server_close()


def _agent(answer):
    sys.modules.pop("agent", None)
    Path("agent.py").write_text(f"def answer(prompt):\n    return {answer}\n")


@pytest.fixture
def begun(shell, project):
    """A project with an experiment and a finished run of it."""
    Path("evals").mkdir()
    Path("evals/evals.json").write_text(json.dumps({"items": ITEMS}))
    Path("experiment.yaml").write_text(EXPERIMENT)
    _agent("prompt.split()[1].rstrip('.')")
    assert shell("run", "--quiet").code == 0


def _steps():
    return load_yaml(Path(".github/workflows/evals.yml").read_text())["jobs"]["evals"]["steps"]


def test_two_commands_make_a_workflow_with_a_baseline(shell, begun):
    done = shell("ci", "init", "--github", "--install", "tui-evals==1.0")
    assert done.code == 0, done.err
    assert (
        "With 8 items, a drop of" in done.out and "git add .github/workflows/evals.yml evals/baseline.json" in done.out
    )
    commands = [step["run"] for step in _steps() if "run" in step]
    assert commands[0] == "python -m pip install --quiet tui-evals==1.0"
    assert "tui-evals run --baseline evals/baseline.json --fail-on-regression --trust" in commands[2]


def test_it_is_written_anew_but_not_over_a_file_of_a_person(shell, begun):
    for _ in range(2):
        assert shell("ci", "init", "--install", "x").code == 0
    Path(".github/workflows/evals.yml").write_text("name: mine\n")
    done = shell("ci", "init", "--install", "x")
    assert done.code == 2 and "--force" in done.err
    assert shell("ci", "init", "--install", "x", "--force").code == 0


def test_where_only_this_machine_has_the_program_it_asks_what_to_install(shell, begun, monkeypatch):
    from tui_evals.cli.compare import ci

    class Installed:
        def __init__(self, direct):
            self.direct = direct

        def read_text(self, name):
            return self.direct and json.dumps(self.direct)

    for direct, spec in (
        (None, f"tui-evals=={tui_evals.__version__}"),
        ({"url": "https://h/r", "vcs_info": {"vcs": "git", "commit_id": "abc"}}, "git+https://h/r@abc"),
        ({"url": "file:///home/me/tui"}, None),
    ):
        monkeypatch.setattr(ci, "distribution", lambda name, direct=direct: Installed(direct))
        done = shell("ci", "init")
        assert (done.code, spec is None) in ((0, False), (2, True)), done.err
        assert spec is None or spec in Path(".github/workflows/evals.yml").read_text()
    assert "--install git+https" in done.err


def test_few_items_get_a_gate_that_can_fire(shell, begun):
    Path("evals/evals.json").write_text(json.dumps({"items": ITEMS[:3]}))
    shell("run", "--quiet")
    done = shell("ci", "init", "--install", "x")
    assert "No regression can be shown" in done.out and "--fail-on-broken" in _steps()[5]["run"]


def test_keys_become_secrets(shell, begun, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    target = "{name: b, http: {url: 'https://b.example', headers: {Authorization: 'Bearer env:B_KEY'}, answer: $.t}}"
    Path("experiment.yaml").write_text(f"data: evals/evals.json\ntargets: [openai/gpt-4o-mini, {target}]\n")
    assert "B_KEY, OPENAI_API_KEY" in shell("ci", "init", "--install", "x").out
    assert _steps()[5]["env"] == {name: f"${{{{ secrets.{name} }}}}" for name in ("B_KEY", "OPENAI_API_KEY")}


@pytest.mark.nightly
def test_the_comment_of_a_pull_request_is_updated(shell, begun, github):
    shell("ci", "init", "--install", "x")
    assert "wrote the comment" in shell("ci", "report", "--baseline", "evals/baseline.json").out
    _agent("'nothing'")
    shell("run", "--quiet", "--no-cache")
    done = shell("ci", "report", "--baseline", "evals/baseline.json")
    assert "updated the comment" in done.out and "::error " in done.out
    (comment,) = github.comments
    assert comment["body"].startswith("<!-- tui-evals experiment -->") and "broke" in comment["body"]
    assert len(Path("summary.md").read_text()) > 1_000


def test_the_token_of_a_fork_leaves_the_summary(shell, begun, github):
    github.refusing = 403
    done = shell("ci", "report")
    assert done.code == 0 and "fork has a token that only reads" in done.err and Path("summary.md").stat().st_size


def test_without_a_pull_request_there_is_no_comment(shell, begun, github, monkeypatch):
    Path("event.json").write_text("{}")
    assert shell("ci", "report").code == 0 and not github.calls


def _wheel(folder):
    """The program as pip installs it."""
    package, file = Path(tui_evals.__file__).parent, folder / "tui_evals-1.0-py3-none-any.whl"
    about = "tui_evals-1.0.dist-info/"
    with zipfile.ZipFile(file, "w") as wheel:
        for part in package.rglob("*"):
            if part.is_file() and "__pycache__" not in part.parts:
                wheel.write(part, Path("tui_evals") / part.relative_to(package))
        wheel.writestr(f"{about}METADATA", "Metadata-Version: 2.1\nName: tui-evals\nVersion: 1.0\n")
        wheel.writestr(f"{about}WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}entry_points.txt", "[console_scripts]\ntui-evals = tui_evals.__main__:main\n")
        wheel.writestr(f"{about}RECORD", "")
    return file


@pytest.mark.nightly
@pytest.mark.parametrize(("answer", "code"), [("prompt.split()[1].rstrip('.')", 0), ("'nothing'", 1)])
def test_each_step_works_on_a_fresh_runner(shell, begun, github, tmp_path, answer, code):
    """A clone in an empty folder with an empty home and a Python of its own, as GitHub gives one."""
    shell("ci", "init", "--install", str(_wheel(tmp_path)))
    _agent(answer)
    runner, home, python = tmp_path / "runner", tmp_path / "home", tmp_path / "python"
    home.mkdir()
    shutil.copytree(
        ".", runner, ignore=lambda folder, names: {".evals", "runner", "home", "python", "results"} & {*names}
    )
    venv.create(python, with_pip=True)
    (next((python / "lib").glob("python*")) / "site-packages" / "others.pth").write_text(sysconfig.get_path("purelib"))
    environment = {
        "PATH": f"{python / 'bin'}:{os.environ['PATH']}",
        "HOME": str(home),
        "PIP_NO_DEPS": "1",
        "PIP_NO_INDEX": "1",
        "PIP_IGNORE_INSTALLED": "1",
        **github.environment,
        "GITHUB_STEP_SUMMARY": str(tmp_path / "told.md"),
    }
    failed = []
    for step in [step for step in _steps() if "run" in step]:
        if failed and step.get("if") != "always()":
            continue
        done = subprocess.run(
            ["bash", "-e", "-c", step["run"]], cwd=runner, env=environment, capture_output=True, text=True, timeout=120
        )
        if done.returncode:
            failed.append((step["name"], done.returncode, done.stderr))
    assert [(name, status) for name, status, _ in failed] == ([("Run", 1)] if code else []), failed
    assert (runner / "results" / "junit.xml").exists() and (runner / "results" / "report.html").exists()
    assert len(github.comments) == 1 and (tmp_path / "told.md").stat().st_size


@pytest.mark.nightly
def test_the_recipe_of_the_manual_works_word_for_word(shell, begun, monkeypatch):
    page = (Path(tui_evals.__file__).parent / "help" / "reports.md").read_text().partition("## On GitHub")[2]
    lines = [line.strip() for line in page.splitlines() if line.startswith("    tui-evals")]
    commands = [re.split(r"\s{3,}", line)[0].split()[1:] for line in lines if "A,B" not in line]
    assert len(commands) >= 6
    for words in commands:
        more = ["--install", "x"] if words[:2] == ["ci", "init"] else []
        done = shell(*words, *more)
        assert done.code == 0, (words, done.err)


@pytest.mark.story
@pytest.mark.cases(1)
@pytest.mark.parametrize("given", [{}, {"EXPERIMENT": "experiment.yaml", "OPTIONS": "--fail-under 90 --repeats 2"}])
def test_the_action_runs_what_it_is_given(shell, begun, given):
    shell("baseline", "export", "-o", "base.json")
    action = load_yaml((Path(tui_evals.__file__).parents[1] / ".github/actions/evals/action.yml").read_text())
    given = {"EXPERIMENT": "", "BASELINE": "base.json", "OPTIONS": "", **given}
    for step in action["runs"]["steps"][1:]:
        assert "${{" not in step["run"]
        environment = {**os.environ, **given, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        command = ["bash", "-e", "-c", step["run"]]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
    assert Path("results/junit.xml").exists()


def test_the_hook_finds_what_validate_checks():
    (hook,) = load_yaml((Path(tui_evals.__file__).parents[1] / ".pre-commit-hooks.yaml").read_text())
    for name in ("evals/evals.json", "experiment.yaml", "a/nightly.experiment.toml", "p.prompty"):
        assert re.search(hook["files"], name)
    assert not re.search(hook["files"], "package.json")
