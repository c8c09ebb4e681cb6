"""The library imports what the command line imports, with the same result and typed errors."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tui_evals.api.generating import import_from
from tui_evals.imports.base import (
    CannotKeep,
    CannotRead,
    ImportFailed,
    NoStore,
    UnknownSource,
    WrongOptions,
    WrongSettings,
)
from tui_evals.store.reader import Reader

LOG = Path(__file__).parent / "recordings" / "arithmetic.eval"
CHAT = [{"role": "user", "content": "The capital of Austria?"}, {"role": "assistant", "content": "Vienna"}]


@pytest.fixture
def project(tmp_path):
    (tmp_path / ".evals").mkdir()
    return tmp_path


def chat(folder):
    file = folder / "chat.json"
    file.write_text(json.dumps(CHAT))
    return file


def test_a_log_becomes_a_run_of_the_project_once(project):
    result = import_from(LOG, into=project / "sums.json", project=project)
    assert (result.kind, result.run_is, result.dataset_is) == ("inspect", "new", "written")
    assert result.dataset == project / "sums.json" and result.dataset.exists()
    assert {loss.kind for loss in result.losses} >= {"carried", "left out"}
    again = import_from(LOG, "inspect", project=project)
    assert (again.run, again.run_is, again.dataset) == (result.run, "known", None)
    with Reader(project / ".evals" / "evals.db") as reader:
        assert [run.key for run in reader.runs()] == [result.run]


def test_it_works_where_an_event_loop_runs(project):
    async def notebook():
        return import_from(LOG, project=project)

    assert asyncio.run(notebook()).run_is == "new"


def test_a_dataset_needs_no_store_and_no_settings(project):
    (project / ".evals" / "config.toml").write_text("broken")
    result = import_from(chat(project), name="capitals", project=project)
    assert (result.kind, result.items, result.dataset) == ("messages", 1, project / "capitals.json")
    assert not (project / ".evals" / "evals.db").exists()


def test_the_store_is_that_of_the_environment_variable(project, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere.db"
    monkeypatch.setenv("TUI_EVALS_DB", str(elsewhere))
    import_from(LOG, project=project)
    assert elsewhere.exists() and not (project / ".evals" / "evals.db").exists()


@pytest.mark.parametrize(
    ("error", "arguments", "message"),
    [
        (UnknownSource, {"path": "nowhere"}, "there is no such file or folder"),
        (UnknownSource, {"path": "chat.json", "kind": "mesages"}, "did you mean 'messages'"),
        (WrongOptions, {"path": "chat.json", "into": "d.json", "name": "d"}, "leave --out and --name out"),
        (WrongOptions, {"path": "chat.json", "prompt": "p"}, "chooses among the prompts"),
        (CannotRead, {"path": "chat.json", "kind": "results"}, "chat.json"),
        (CannotKeep, {"path": "chat.json", "into": "there.json"}, "is no dataset that items can be added to"),
    ],
)
def test_every_refusal_is_an_import_failed_with_a_sentence(project, monkeypatch, error, arguments, message):
    monkeypatch.chdir(project)
    chat(project)
    Path("there.json").write_text(json.dumps(CHAT))
    with pytest.raises(error, match=message) as refusal:
        import_from(**arguments, project=project)
    assert isinstance(refusal.value, ImportFailed)


def test_settings_and_stores_that_cannot_be_used_are_refusals_too(project):
    (project / ".evals" / "config.toml").write_text("broken")
    with pytest.raises(WrongSettings, match=r"config\.toml:\d+: this is not valid TOML"):
        import_from(LOG, project=project)
    (project / ".evals" / "config.toml").unlink()
    (project / ".evals" / "evals.db").write_text("no database" * 1000)
    with pytest.raises(NoStore, match="is damaged or is not a tui-evals store"):
        import_from(LOG, project=project)
