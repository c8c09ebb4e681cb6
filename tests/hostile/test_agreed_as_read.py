"""What was read is what is agreed to, and what changed since is shown like a pull request."""

import asyncio
import json
import os
import stat
import sys

import pytest

from tui_evals.runs.approving import missing_of_project, permission_request
from tui_evals.runs.project import load_project
from tui_evals.tui.permissions import approve, request_rows

SCORE = "def score(response): return True\n"


@pytest.fixture
def project(tmp_path, stranger, monkeypatch):
    """A stranger's project of each kind of code: an evaluator, a function, a command."""
    root = tmp_path / "clone"
    (root / ".evals").mkdir(parents=True)
    (root / "custom-evaluators" / "Mine").mkdir(parents=True)
    (root / "custom-evaluators" / "Mine" / "Mine.py").write_text(SCORE)
    (root / "agent.py").write_text("import helper\ndef answer(prompt): return helper.word\n")
    (root / "helper.py").write_text("word = 'one'\n")
    (root / "prices.csv").write_text("1\n")
    (root / "run.sh").write_text("echo one\n")
    settings = '[targets.f]\nmodel = "python:agent:answer"\n[targets.c]\nmodel = "command:sh run.sh"\n'
    (root / ".evals" / "config.toml").write_text(settings)
    monkeypatch.chdir(root)
    return root


def missing(root):
    return {permission.kind for permission in missing_of_project(load_project(root))}


def changes(root):
    """Somebody, or a pull, changes all code while the question is open."""
    (root / "custom-evaluators" / "Mine" / "Mine.py").write_text("import os\n" + SCORE)
    (root / "helper.py").write_text("word = 'two'\n")
    (root / "run.sh").write_text("echo two\n")
    return True


def test_code_that_changes_while_the_question_is_open_is_not_agreed_to(project, shell, monkeypatch):
    assert missing(project) == {"evaluator", "function", "command"}
    monkeypatch.setattr("tui_evals.cli.judge.evaluators.confirmed", lambda *words, **more: changes(project))
    assert shell("trust").code == 0
    assert missing(project) == {"evaluator", "function", "command"}
    monkeypatch.setattr("tui_evals.cli.judge.evaluators.confirmed", lambda *words, **more: True)
    assert shell("trust").code == 0
    assert missing(project) == set()


def test_the_workbench_agrees_to_what_its_page_was_made_of(project):
    class Screen:
        async def push_screen_wait(self, page):
            return changes(project)

    wanted = missing_of_project(load_project(project))
    assert asyncio.run(approve(Screen(), wanted, project))
    assert missing(project) == {"evaluator", "function", "command"}


def test_the_first_question_lists_the_code_and_what_it_does_not_cover(project, shell):
    page = shell("trust").err
    assert "runs agent.py, helper.py" in page
    assert "not covered, may change without a question: prices.csv, run.sh" in page
    assert "what these files start or load is not covered" in page


def test_the_next_question_shows_what_changed_like_a_pull_request(project, shell):
    assert shell("trust", "--yes").code == 0
    changes(project)
    (project / "helper.py").write_text("import more\nword = 'two'\n")
    (project / "more.py").write_text("\x1b]52;c;eA==\x07print()\n")
    page = shell("trust").err
    assert "its code has changed since you said yes" in page
    for line in (
        "--- helper.py",
        "-word = 'one'",
        "+word = 'two'",
        "+++ more.py",
        "-echo one",
        "+echo two",
        "+import os",
    ):
        assert line in page
    assert "\x1b]52" not in page
    assert "def answer" not in page


def test_the_page_of_the_workbench_shows_it_too(project, shell):
    assert shell("trust", "--yes").code == 0
    changes(project)
    wanted = missing_of_project(load_project(project))
    pieces = [piece for row in request_rows(permission_request(wanted, project), 60) for piece in row.pieces]
    assert ("+word = 'two'", "added") in pieces
    assert ("-word = 'one'", "removed") in pieces


def test_a_file_that_goes_and_one_that_is_no_text_are_named(project, shell):
    assert shell("trust", "--yes").code == 0
    (project / "helper.py").unlink()
    (project / "helper.abi3.so").write_bytes(b"\x7fELF\0")
    page = shell("trust").err
    assert "+++ nothing" in page
    assert "+++ helper.abi3.so" in page
    assert "cannot be shown" in page


def test_a_long_change_is_cut(project, shell):
    assert shell("trust", "--yes").code == 0
    (project / "helper.py").write_text("".join(f"word = {number}\n" for number in range(5000)))
    page = shell("trust").err
    assert "more lines; read the files themselves" in page
    assert page.count("\n") < 1000


def test_what_is_kept_for_that_is_the_users_alone_and_bounded(project, shell, stranger, monkeypatch):
    monkeypatch.setattr("tui_evals.targets.user_code._MOST", 100)
    for number in range(5):
        (project / "helper.py").write_text(f"word = {number}\n" + "#" * 50)
        assert shell("trust", "--yes").code == 0
    kept = list((stranger / "tui_evals" / "agreed").iterdir())
    assert all(stat.S_IMODE(os.stat(file).st_mode) == 0o600 for file in kept)
    assert sum(file.stat().st_size for file in kept) <= 100


def test_a_link_out_of_the_clone_is_agreed_to_without_keeping_what_it_leads_to(project, shell, stranger, tmp_path):
    (tmp_path / "secret").write_text("secret = 1\n")
    (project / "helper.py").unlink()
    (project / "helper.py").symlink_to(tmp_path / "secret")
    assert shell("trust", "--yes").code == 0
    assert "function" not in missing(project)
    texts = [file.read_text() for file in (stranger / "tui_evals" / "agreed").iterdir()]
    assert not any("secret" in text for text in texts)


def test_a_link_to_a_device_is_read_by_nobody_and_never_runs(project, shell):
    (project / "main.py").write_text("import helper\n")
    (project / "helper.py").unlink()
    (project / "helper.py").symlink_to("/dev/zero")
    (project / ".evals" / "config.toml").write_text(f'[targets.c]\nmodel = "command:{sys.executable} main.py"\n')
    assert shell("trust", "--yes").code == 0
    data = {"schemaVersion": "1.0.0", "default_evaluators": {"Includes": {}}, "items": [{"prompt": "x"}]}
    (project / "data.json").write_text(json.dumps(data))
    done = shell("run", "data.json", "-t", "c")
    assert done.code == 1
    assert "No module named 'helper'" in done.out
