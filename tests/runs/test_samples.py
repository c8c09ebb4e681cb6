"""The commands that the page of the sample datasets gives, run as they stand there."""

import os
import re
import shlex
import shutil
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
