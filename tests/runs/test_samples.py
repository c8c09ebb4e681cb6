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
from tui_evals.transcript import Call, Result, Took

SAMPLES = Path(__file__).parents[2] / "sample_datasets"
COMMANDS = re.findall(r"`(?:cd (\S+) && )?tui-evals ([^`]+)`", (SAMPLES / "README.md").read_text(encoding="utf-8"))


def test_every_sample_has_a_command():
    assert len(COMMANDS) >= 13


@pytest.mark.cases(2)
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


@pytest.mark.nightly
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


def told(project):
    """What each target of the last run told of the item of two calls: its messages, and what each step took."""
    with project.reader() as reader:
        rows = [reader.detail(row.id) for row in reader.all_rows(reader.find_run("last").id)]
    transcripts = [transcript_of(one.answer) for one in rows if "bookshelf" in one.answer.text]
    return [
        (
            [(message.role, list(map(bare, message.parts))) for message in one.messages],
            [message.took or Took() for message in one.messages if message.role == "assistant"],
        )
        for one in transcripts
    ]


def bare(part):
    """A part without what only some ways can know."""
    match part:
        case Call():
            return part.id, part.name, json.loads(part.arguments)
        case Result():
            return part.id, part.text, part.failed
        case _:
            return type(part).__name__, part.text


BOOKSHELF = [
    (
        "assistant",
        [("Reasoning", "I need find_order for that."), ("call_find_order", "find_order", {"number": "1002"})],
    ),
    ("tool", [("call_find_order", '{"item": "bookshelf", "status": "on its way", "country": "FI"}', False)]),
    (
        "assistant",
        [("Reasoning", "I need delivery_days for that."), ("call_delivery_days", "delivery_days", {"country": "FI"})],
    ),
    ("tool", [("call_delivery_days", "5", False)]),
    ("assistant", [("Text", "The bookshelf arrives within 5 days.")]),
]
WAYS = """
[targets.driven]
model = "openai/clerk"
base_url = "ORIGIN/v1"
price = { input_per_million = 1, output_per_million = 4 }
[targets.driven.tools]
functions = "my_agent.py"
approved = ["find_order", "delivery_days"]
[targets.returned]
model = "python:returned:answer"
"""


@pytest.mark.nightly
def test_the_same_agent_tells_the_same_driven_returned_recorded_and_traced(project):
    shutil.copytree(SAMPLES / "agent-recorded", project.folder, dirs_exist_ok=True)
    returned = "import my_agent\ndef answer(prompt):\n    return {'messages': my_agent.converse(prompt)}\n"
    (project.folder / "returned.py").write_text(returned)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with serving(project.folder, "model.py", 8767) as commands:
        config = project.folder / ".evals" / "config.toml"
        origin = re.search(r"http://127.0.0.1:\d+", config.read_text())[0]
        config.write_text(config.read_text() + WAYS.replace("ORIGIN", origin))
        run = (*shlex.split(commands[0]), "-t", "driven,returned,agent")
        project.do(*run, PATH=path, OPENAI_BASE_URL=f"{origin}/v1")
    ways = dict(zip(("driven", "returned", "recorded"), told(project), strict=True))
    project.do("import", "traces.json")
    [ways["traced"]] = told(project)
    assert {name: parts for name, (parts, _) in ways.items()} == dict.fromkeys(ways, BOOKSHELF)
    for name, (_, steps) in ways.items():
        known = [(took.seconds, took.input_tokens, took.output_tokens, took.cost) for took in steps]
        is_known = {"driven": [True] * 4, "recorded": [True] * 4, "traced": [True] * 3 + [False]}.get(name, [False] * 4)
        assert [[bool(one) for one in step] for step in known] == [is_known] * 3, name
        assert not any(one == 0 for step in known for one in step), "what a way does not know is missing, not zero"


@pytest.mark.nightly
async def test_the_recorded_agent_and_its_spans_open_as_a_tree(project, monkeypatch):
    shutil.copytree(SAMPLES / "agent-recorded", project.folder, dirs_exist_ok=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with serving(project.folder, "model.py", 8767) as commands:
        run, show, preview, imported = (shlex.split(command) for command in commands)
        assert "agent: 2 of 3" in project.do(*run, PATH=path)
        assert '→ delivery_days {"country": "FI"}' in project.do(*show)
    assert "nothing that looks like a key" in project.do(*preview)
    assert "2 items, 2 answers of 1 model" in project.do(*imported)
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
