"""Which folders `init` makes the user's own: those into which nobody else can bring code later."""

import subprocess

import pytest


@pytest.fixture
def folder(tmp_path, stranger, monkeypatch):
    folder = tmp_path / "begun"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def git(folder, *words):
    subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True)


REMOTE = '[core]\n\tbare = false\n[remote "origin"]\n\turl = https://evil.example/x.git\n'


def test_a_pull_into_a_clone_is_asked_about_after_init(folder, shell, kept):
    git(folder, "init", "-q")
    (folder / ".git" / "config").write_text(REMOTE)
    (folder / "README.md").write_text("# theirs\n")
    done = shell("init")
    assert done.code == 0
    assert kept()["folders"] == {}
    assert "tui-evals trust --below ." in done.out
    (folder / ".evals" / "config.toml").write_text('[targets.t]\nmodel = "command:touch mark"\n')
    ran = shell("run", "evals/evals.json", "-t", "t", "--without-judges")
    assert ran.code == 2
    assert "not agreed to" in ran.err
    assert not (folder / "mark").exists()


def test_a_folder_inside_a_clone_is_no_more_its_users_own(folder, shell, kept, monkeypatch):
    git(folder, "init", "-q")
    (folder / ".git" / "config").write_text(REMOTE)
    (folder / "evals").mkdir()
    monkeypatch.chdir(folder / "evals")
    assert shell("init").code == 0
    assert kept()["folders"] == {}


@pytest.mark.parametrize("config", ["[include]\n\tpath = x\n", '[branch "main"]\n\tremote = https://evil.example/x\n'])
def test_a_remote_that_is_written_otherwise_is_one(folder, shell, kept, config):
    git(folder, "init", "-q")
    (folder / ".git" / "config").write_text(config)
    assert shell("init").code == 0
    assert kept()["folders"] == {}


def test_a_work_tree_of_another_repository_is_shared(folder, shell, kept):
    (folder / ".git").write_text("gitdir: /nowhere\n")
    assert shell("init").code == 0
    assert kept()["folders"] == {}


@pytest.mark.parametrize("name", ["README.py", "LICENSE.sh", "venv/bin/python"])
def test_code_with_a_harmless_name_is_somebodys(folder, shell, kept, name):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n")
    assert shell("init").code == 0
    assert kept()["folders"] == {}


def test_a_link_with_a_harmless_name_is_somebodys(folder, shell, kept):
    (folder / "README.md").symlink_to("/etc/hostname")
    assert shell("init").code == 0
    assert kept()["folders"] == {}


def test_a_new_repository_with_an_environment_is_its_users_own(folder, shell, kept):
    git(folder, "init", "-q")
    (folder / ".venv").mkdir()
    (folder / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (folder / "README.md").write_text("# mine\n")
    assert shell("init").code == 0
    assert len(kept()["folders"]) == 1
