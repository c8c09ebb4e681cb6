"""The commands that the page of the sample datasets gives, run as they stand there."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parents[2] / "sample_datasets"
COMMANDS = re.findall(r"`(?:cd (\S+) && )?tui-evals ([^`]+)`", (SAMPLES / "README.md").read_text(encoding="utf-8"))


def test_every_sample_has_a_command():
    assert len(COMMANDS) >= 13


@pytest.mark.parametrize(("folder", "command"), COMMANDS)
def test_a_command_of_the_page_works(project, folder, command):
    if "mcp" in folder:
        pytest.importorskip("mcp", reason="the official MCP SDK is not installed: pip install 'tui-evals[mcp]'")
    shutil.copytree(SAMPLES, project.folder / "sample_datasets")
    there = replace(project, folder=project.folder / folder)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    out = there.do(*shlex.split(command), PATH=path)
    if command.startswith("run"):
        assert "finished" in out


def test_the_grid_of_prompts_targets_and_temperatures_shows_what_makes_the_difference(project):
    shutil.copytree(SAMPLES, project.folder / "sample_datasets")
    folder, command = next(one for one in COMMANDS if "-P temperature" in one[1])
    there = replace(project, folder=project.folder / folder)
    there.do(*shlex.split(command))
    with there.reader() as reader:
        run = reader.find_run("last")
        totals = reader.totals_by(run.id, "column")
    cold = {
        run.prompts[prompt]: totals[prompt, target].passed
        for prompt, target in totals
        if run.targets[target] == "swift@temperature=0"
    }
    assert cold == {"number-only": 7, "chatty": 0} and len(totals) == 8
    between = "swift@temperature=0 · number-only,swift@temperature=1.5 · number-only"
    assert "B passes 4 fewer of 7 items than A" in there.do("compare", "last", "--columns", between)


def test_the_json_service_is_asked_as_its_page_says(project, monkeypatch):
    shutil.copytree(SAMPLES / "json-service", project.folder, dirs_exist_ok=True)
    page = (project.folder / "README.md").read_text()
    command, anywhere = [sys.executable, "service.py"], {**os.environ, "PORT": "0"}
    with subprocess.Popen(command, cwd=project.folder, env=anywhere, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        address = started.stdout.readline().decode().split()[-1]
        try:
            file = project.folder / ".evals" / "config.toml"
            file.write_text(file.read_text().replace("http://127.0.0.1:8765/chat", address))
            commands = re.findall(r"^ {4}tui-evals (.+)$", page, re.MULTILINE)
            check, run = (project.do(*shlex.split(command)) for command in commands)
            assert '< {"reply": {"text": "Which order' in check
            assert "assistant: 5 of 5" in run and "unpriced" not in run
        finally:
            started.kill()


def test_the_rag_service_hands_over_what_it_retrieved_at_once_and_as_a_job(project):
    shutil.copytree(SAMPLES / "rag-service", project.folder, dirs_exist_ok=True)
    page = (project.folder / "README.md").read_text()
    command, anywhere = [sys.executable, "service.py"], {**os.environ, "PORT": "0"}
    with subprocess.Popen(command, cwd=project.folder, env=anywhere, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        origin = started.stdout.readline().decode().split()[-1].removesuffix("/ask")
        try:
            file = project.folder / ".evals" / "config.toml"
            file.write_text(file.read_text().replace("http://127.0.0.1:8766", origin))
            commands = re.findall(r"^ {4}tui-evals (.+)$", page, re.MULTILINE)
            check, run, show = (project.do(*shlex.split(command)) for command in commands)
            assert "text ✓ · 1 tool call with results ✓ · chunks – · reasoning ✓" in check
            assert "search: 2 of 2" in run and "job: 2 of 2" in run
            assert "retrieved 2 chunks" in show and "1. Parcels can be returned" in show
        finally:
            started.kill()
