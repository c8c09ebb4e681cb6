"""The commands that the page of the sample datasets gives, run as they stand there."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tui.story import at_the_workbench
from tui_evals.store.records import transcript_of
from tui_evals.transcript import Reasoning, calls_with_results, parts_of

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


@contextmanager
def serving(folder, program, written) -> Iterator[list[str]]:
    """The commands of the page of a sample, while its server listens on a free port that its settings name."""
    command, anywhere = [sys.executable, program], {**os.environ, "PORT": "0"}
    with subprocess.Popen(command, cwd=folder, env=anywhere, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        origin = re.match(r"http://[^/]+", started.stdout.readline().decode().split()[-1])
        assert origin is not None
        try:
            file = folder / ".evals" / "config.toml"
            file.write_text(file.read_text().replace(f"http://127.0.0.1:{written}", origin[0]))
            yield re.findall(r"^ {4}tui-evals (.+)$", (folder / "README.md").read_text(), re.MULTILINE)
        finally:
            started.kill()


def test_the_json_service_is_asked_as_its_page_says(project):
    shutil.copytree(SAMPLES / "json-service", project.folder, dirs_exist_ok=True)
    with serving(project.folder, "service.py", 8765) as commands:
        check, run = (project.do(*shlex.split(command)) for command in commands)
    assert '< {"reply": {"text": "Which order' in check
    assert "assistant: 5 of 5" in run and "unpriced" not in run


async def test_the_rag_service_hands_over_what_it_retrieved_at_once_and_as_a_job(project, monkeypatch):
    shutil.copytree(SAMPLES / "rag-service", project.folder, dirs_exist_ok=True)
    with serving(project.folder, "service.py", 8766) as commands:
        check, run, show = (project.do(*shlex.split(command)) for command in commands)
    assert "text ✓ · 1 tool call with results ✓ · chunks – · reasoning ✓" in check
    assert "search: 2 of 2" in run and "job: 2 of 2" in run
    assert "retrieved 2 chunks" in show and "1. Parcels can be returned" in show
    monkeypatch.chdir(project.folder)
    folded, unfolded = await steps_in_pane_5(project, "last")
    assert folded == ["▸ step 1 of 2", "▸ step 2 of 2"]
    assert {"  retrieved 2 chunks", "    returns · score 0.5", "    3 ms"} <= set(unfolded)


def steps_of_the_bookshelf(project):
    """What the agent thought, called and was given for the item of two calls, and what each step cost."""
    with project.reader() as reader:
        rows = [reader.detail(row.id) for row in reader.all_rows(reader.find_run("last").id)]
    [transcript] = [transcript_of(one.answer) for one in rows if "bookshelf" in one.answer.text]
    calls = [(call.name, json.loads(call.arguments), result.text) for call, result in calls_with_results(transcript)]
    spoken = [message.took for message in transcript.messages if message.role == "assistant"]
    return calls, [part.text for part in parts_of(transcript, Reasoning)], [took.cost for took in spoken]


async def test_the_recorded_agent_and_its_spans_tell_the_same_and_open_as_a_tree(project, monkeypatch):
    shutil.copytree(SAMPLES / "agent-recorded", project.folder, dirs_exist_ok=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with serving(project.folder, "model.py", 8767) as commands:
        run, show, preview, imported = commands
        assert "agent: 2 of 3" in project.do(*shlex.split(run), PATH=path)
        assert '→ delivery_days {"country": "FI"}' in project.do(*shlex.split(show))
        recorded = steps_of_the_bookshelf(project)
    assert "nothing that looks like a key" in project.do(*shlex.split(preview))
    assert "2 items, 2 answers of 1 model" in project.do(*shlex.split(imported))
    traced = steps_of_the_bookshelf(project)
    assert recorded[:2] == traced[:2] and len(traced[0]) == len(traced[1]) == 2
    assert all(recorded[2]) and traced[2] == [None, None, None], "spans do not know the cost"
    monkeypatch.chdir(project.folder)
    with project.reader() as reader:
        imported, recorded = (one.key for one in reader.runs())
    for run, took in (
        (recorded, r"\d ms · \d+ tokens in, \d+ out · \$0\.\d+"),
        (imported, r"420 ms · \d+ tokens in, \d+ out"),
    ):
        folded, unfolded = await steps_in_pane_5(project, run)
        assert [re.search(took + "$", line) is not None for line in folded] == [True, True], folded
        assert any('→ find_order {"number": "1001"}' in line for line in unfolded)


async def steps_in_pane_5(project, run):
    """The rows of the first answer's steps in a terminal of 80x24: folded to a line each, and unfolded."""
    async with at_the_workbench(project.folder, size=(80, 24), run=run) as person:
        await person.press("5", "slash")
        await person.type("step 1 of\n")
        await person.sees("step 1 of")
        await person.press("minus", "minus", "end")
        await person.sees("▸ step 1 of")
        folded = [row for row in person.rows("detail") if row.startswith("▸")]
        await person.press("plus", "plus")
        return folded, person.rows("detail")
