"""A link of a clone has no file outside it overwritten."""

import json
import os
from pathlib import Path

import pytest

from tui_evals.files import CannotSave, UnsafeFile, check_private, open_private, write_atomically
from tui_evals.runs.detach import DetachFailed, start_detached
from tui_evals.store.connection import alive, hold
from tui_evals.store.database import StoreError, connect, open_store
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import load_settings
from tui_evals.targets.config_file import write_setting
from tui_evals.tui.terminal import copy_to_clipboard

KEPT = "what the user wrote before\n"
ITEM = {"prompt": "hello", "expected_response": "hello", "evaluators": {"Includes": {}}, "evaluators_mode": "replace"}
COMMANDS = (
    ("runs",),
    ("show", "last"),
    ("search", "word"),
    ("trend",),
    ("report", "last"),
    ("run", "data.json", "--target", "demo"),
    ("run", "data.json", "--target", "demo", "--detach"),
    ("suite", "list"),
    ("cache", "info"),
    ("init",),
    ("validate", "data.json"),
    ("targets",),
    ("doctor",),
)


@pytest.fixture
def outside(tmp_path):
    """What no clone may touch: a file and a folder of the user's, and what they hold."""
    folder = tmp_path / "home"
    (folder / "inner").mkdir(parents=True)
    (folder / "dotbashrc").write_text(KEPT)
    return folder


@pytest.fixture
def clone(tmp_path, outside, monkeypatch):
    folder = tmp_path / "clone"
    (folder / ".evals").mkdir(parents=True)
    (folder / "data.json").write_text(json.dumps({"schemaVersion": "1.11.0", "items": [ITEM]}))
    monkeypatch.chdir(folder)
    return folder


def touched(outside: Path) -> dict[str, str]:
    return {str(file.relative_to(outside)): file.read_text() for file in outside.rglob("*") if file.is_file()}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("name", ["evals.db", "evals.db.lock", "evals.db-wal", "evals.db-shm", "config.toml"])
def test_no_command_follows_a_link_below_the_folder(shell, clone, outside, command, name):
    (clone / ".evals" / name).symlink_to(outside / "dotbashrc")
    done = shell(*command)
    assert touched(outside) == {"dotbashrc": KEPT}
    assert KEPT.strip() not in done.out + done.err
    if command[0] == "runs" and name != "config.toml":
        assert done.code == 1 and f"{name} is a link to {outside / 'dotbashrc'}" in done.err
        assert "remove the link" in done.err


@pytest.mark.cases(53)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    "name",
    [
        "logs",
        "evals.db",
        *(
            pytest.param(name, marks=pytest.mark.nightly)
            for name in ("locks", "results", "registries", "suites", "copies", "generate")
        ),
    ],
)
def test_no_command_follows_a_linked_folder(shell, clone, outside, command, name):
    (clone / ".evals" / name).symlink_to(outside / "inner", target_is_directory=True)
    shell(*command)
    assert touched(outside) == {"dotbashrc": KEPT}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_folder_itself_may_not_lead_elsewhere(shell, clone, outside, command):
    (clone / ".evals").rmdir()
    (clone / ".evals").symlink_to(outside / "inner", target_is_directory=True)
    done = shell(*command)
    assert touched(outside) == {"dotbashrc": KEPT} and not list((outside / "inner").iterdir())
    if command[0] == "runs":
        assert done.code == 1 and "name a store elsewhere with --db or TUI_EVALS_DB" in done.err


def test_a_store_named_by_the_user_may_lie_anywhere_but_is_no_link(shell, clone, outside):
    (outside / "linked").symlink_to(outside / "inner", target_is_directory=True)
    assert shell("--db", outside / "linked" / "mine.db", "runs").code == 0
    (outside / "link.db").symlink_to(outside / "inner" / "mine.db")
    done = shell("--db", outside / "link.db", "runs")
    assert done.code == 1 and "link.db is a link to" in done.err


def test_a_run_whose_lock_leads_elsewhere_is_not_executed(clone, outside):
    locks = clone / ".evals" / "locks"
    locks.mkdir()
    (locks / "k.lock").symlink_to(outside / "dotbashrc")
    for use in (lambda: hold(locks / "k.lock").__enter__(), lambda: alive(locks / "k.lock")):
        with pytest.raises(StoreError, match="is a link to"):
            use()
    assert touched(outside) == {"dotbashrc": KEPT}


def test_a_pipe_instead_of_a_file_holds_nobody_up(clone):
    (clone / ".evals" / "locks").mkdir()
    os.mkfifo(clone / ".evals" / "locks" / "k.lock")
    os.mkfifo(clone / ".evals" / "evals.db-wal")
    with pytest.raises(StoreError, match="is no ordinary file"):
        alive(clone / ".evals" / "locks" / "k.lock")
    with pytest.raises(StoreError, match="is no ordinary file"):
        open_store(clone / ".evals" / "evals.db")


def test_the_log_of_a_detached_run_is_led_nowhere(clone, outside):
    store = open_store(clone / ".evals" / "evals.db")
    (clone / ".evals" / "logs").symlink_to(outside / "inner", target_is_directory=True)
    with pytest.raises(DetachFailed, match="is a link to"):
        start_detached(store, "k", ["runs"])
    (clone / ".evals" / "logs").unlink()
    (clone / ".evals" / "logs").mkdir()
    (clone / ".evals" / "logs" / "k.log").symlink_to(outside / "dotbashrc")
    with pytest.raises(DetachFailed, match="is a link to"):
        start_detached(store, "k", ["runs"])
    assert touched(outside) == {"dotbashrc": KEPT}


def test_results_and_suites_are_written_over_no_link(shell, clone, outside):
    assert shell("run", "data.json", "--target", "demo").code in (0, 1)
    (clone / ".evals" / "results").mkdir()
    for file in ("last.html", "evil.html"):
        (clone / ".evals" / "results" / file).symlink_to(outside / "dotbashrc")
    with pytest.raises(CannotSave, match="is a link to"):
        write_atomically(clone / ".evals" / "results" / "evil.html", b"new")
    done = shell("report", "last", "-o", ".evals/results/evil.html")
    assert done.code == 1 and "is a link to" in done.err
    assert touched(outside) == {"dotbashrc": KEPT}


def test_a_copy_too_long_for_the_clipboard_is_led_nowhere(clone, outside):
    (clone / ".evals" / "copies").symlink_to(outside / "inner", target_is_directory=True)
    said = copy_to_clipboard("a secret answer", "answer", clone, {}, terminal="/nonexistent/tty")
    assert "is a link to" in said and touched(outside) == {"dotbashrc": KEPT}


def test_the_configuration_may_be_a_link_within_the_project_and_nowhere_else(clone, outside):
    (outside / "other.toml").write_text('[ui]\ntheme = "nord"\n')
    config = clone / ".evals" / "config.toml"
    config.symlink_to(outside / "other.toml")
    with pytest.raises(ConfigurationError, match="is a link to"):
        load_settings(clone)
    with pytest.raises(ConfigurationError, match="is a link to"):
        write_setting(clone, ("ui", "theme"), "ansi")
    config.unlink()
    (clone / "shared.toml").write_text('[ui]\ntheme = "nord"\n')
    config.symlink_to("../shared.toml")
    assert load_settings(clone).ui["theme"] == "nord"


def test_what_belongs_to_another_user_is_refused(clone, monkeypatch):
    file = clone / ".evals" / "evals.db"
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    real = os.lstat

    def others(path, **more):
        status = list(real(path, **more))
        status[4] = 54321
        return os.stat_result(status)

    monkeypatch.setattr(os, "lstat", others)
    with pytest.raises(UnsafeFile, match=r"belongs to another user \(number 54321\)"):
        check_private(file)
    with pytest.raises(StoreError, match="belongs to another user"):
        connect(file)
    with pytest.raises(ConfigurationError, match="belongs to another user"):
        load_settings(clone)
    monkeypatch.setattr(os, "geteuid", lambda: 0)  # in a container, where files of the host have other numbers
    assert check_private(file) == file


def test_a_link_that_appears_between_look_and_opening_is_not_followed(clone, outside, monkeypatch):
    file = clone / ".evals" / "evals.db.lock"
    file.symlink_to(outside / "dotbashrc")
    monkeypatch.setattr("tui_evals.files.check_private", lambda path, base=None: path)
    with pytest.raises(UnsafeFile, match="is a link"):
        open_private(file, os.O_CREAT | os.O_RDWR)
