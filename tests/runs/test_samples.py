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


def test_the_grid_of_prompts_targets_and_temperatures_shows_what_makes_the_difference(project):
    shutil.copytree(SAMPLES, project.folder / "sample_datasets")
    command = next(one for one in COMMANDS if "-P temperature" in one)
    project.do(*shlex.split(command))
    with project.reader() as reader:
        run = reader.find_run("last")
        totals = reader.totals_by(run.id, "column")
    cold = {
        run.prompts[prompt]: totals[prompt, target].passed
        for prompt, target in totals
        if run.targets[target] == "demo@seed=1@temperature=0"
    }
    assert cold == {"number-only": 7, "chatty": 0} and len(totals) == 8
    between = "demo@seed=1@temperature=0 · number-only,demo@seed=1@temperature=1.5 · number-only"
    assert "B passes 1 fewer of 7 items than A" in project.do("compare", "last", "--columns", between)
