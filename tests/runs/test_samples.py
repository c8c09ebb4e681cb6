"""The commands that the page of the sample datasets gives, run as they stand there."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parents[2] / "sample_datasets"
COMMANDS = re.findall(r"`tui-evals ([^`]+)`", (SAMPLES / "README.md").read_text(encoding="utf-8"))


def test_every_sample_has_a_command():
    assert len(COMMANDS) >= 11


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_works(project, command):
    shutil.copytree(SAMPLES, project.folder / "sample_datasets")
    out = project.do(*shlex.split(command))
    if command.startswith("run"):
        assert "finished" in out
