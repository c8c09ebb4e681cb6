import io
import json

import pytest

from tests.hostile.clone import KEY, commit_run, hostile_clone, listening


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """Somebody with keys in the shell who has agreed to nothing."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.delenv("TUI_EVALS_TRUST", raising=False)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GITHUB_TOKEN"):
        monkeypatch.setenv(name, KEY)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    return home


@pytest.fixture
def attacker():
    with listening() as attacker:
        yield attacker


@pytest.fixture
def clone(tmp_path, stranger, attacker, monkeypatch):
    clone = hostile_clone(tmp_path / "clone", tmp_path / "outside", attacker)
    monkeypatch.chdir(clone.root)
    commit_run(clone)
    return clone


@pytest.fixture
def kept(stranger):
    """What the state folder remembers of projects."""

    def read():
        file = stranger / "tui_evals" / "projects.json"
        return json.loads(file.read_text()) if file.exists() else {"folders": {}, "projects": {}}

    return read
