"""What is forked from the warm process is as what is started from nothing."""

import os
import signal
import subprocess
import sys

import pytest

from tests import warm

COMMAND = [sys.executable, "-m", "tui_evals"]


def done(start, *words, folder, **more):
    with start(
        [*COMMAND, *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    ) as process:
        out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@pytest.mark.nightly
def test_it_says_and_returns_the_same(tmp_path):
    (tmp_path / "data.json").write_text('{"items": [{"prompt": "naïve"}]}')
    for words in (["--help"], ["nonsense"], ["validate", "data.json"], ["convert", "data.json", "--to", "jsonl"]):
        assert done(warm.Popen, *words, folder=tmp_path) == done(warm.COLD, *words, folder=tmp_path)


@pytest.mark.story
def test_it_has_the_environment_it_is_given_and_leads_a_session(tmp_path):
    environment = {**os.environ, "TUI_EVALS_DB": str(tmp_path / "mine.db")}
    code, out, _ = done(warm.Popen, "doctor", folder=tmp_path, env=environment)
    assert code in (0, 1) and "mine.db" in out
    environment |= {"TMPDIR": str(tmp_path)}
    with warm.Popen([*COMMAND, "demo", "--plain"], env=environment, start_new_session=True) as process:
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() == process.returncode == -signal.SIGKILL


def test_what_an_interpreter_reads_when_it_starts_has_one_started(tmp_path):
    for variable in ({"PYTHONPATH": str(tmp_path)}, {"LC_ALL": "C"}, {"TEXTUAL_THEME": "nord"}):
        assert not warm.begins_as_usual({**os.environ, **variable})
    assert warm.begins_as_usual({**os.environ, "TERM": "dumb"})
    for command in ([sys.executable, "-c", ""], [sys.executable, "-m", "tests.server"], "tui-evals"):
        assert warm.arguments_of(command) is None
