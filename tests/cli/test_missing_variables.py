"""Which of a template's variables have no value was found while running. `validate`, `--plan` and the
workbench know it of every item beforehand, by one function (`unfilled_items`)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.helpers import Shell
from tests.tui.story import at_the_workbench

SENTENCE = "items[1]: MT-2 has no value for {{ city }} of the prompt under test (did you mean 'City'?)"
REMEDY = "give it one in the variables of the item or of the dataset"


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".evals").mkdir()
    return Shell(capsys)


def write(messages: object = None, **root: object) -> Path:
    """A dataset whose second item, on line 7, has another variable than the prompt."""
    items = [{"testId": "MT-1", "variables": {"city": "Rome"}}, {"testId": "MT-2", "variables": {"City": "Oslo"}}]
    written = messages or [{"role": "user", "content": [{"type": "text", "text": "Weather in {{city}}"}]}]
    head = {
        "schemaVersion": "1.11.0",
        "default_evaluators": {},
        **({} if "prompt_file" in root else {"messages": written}),
        **root,
    }
    lines = ["{", *(f"{json.dumps(key)}: {json.dumps(value)}," for key, value in head.items())]
    file = Path("data.json")
    file.write_text("\n".join([*lines, '"items": [', ",\n".join(map(json.dumps, items)), "]}"]))
    return file


def test_validate_names_file_line_item_and_variable(shell):
    done = shell("validate", write())
    assert done.code == 2
    assert f"data.json:7: {SENTENCE}; {REMEDY}" in done.out and "✗ data.json: 1 problem" in done.out
    (report,) = json.loads(shell("validate", "data.json", "--json").out)
    assert (report["valid"], report["items"], report["problems"][0]["line"]) == (False, 2, 7)
    assert shell("validate", write(variables={"city": "Bern"})).code == 0


@pytest.mark.parametrize("more", [(), ("--plan",)], ids=["run", "plan"])
def test_a_run_and_its_plan_say_it_before_anything_is_asked(shell, more):
    done = shell("run", write(), "-t", "demo", *more)
    assert done.code == 2 and f"data.json:7: {SENTENCE}" in done.err and "MT-1" not in done.err
    assert not Path(".evals/evals.db").exists()
    assert shell("run", "data.json", "-t", "demo", "--items", "1", *more).code == 0


def test_the_prompt_a_run_names_counts(shell):
    Path("brief.prompty").write_text("---\ninputs:\n  tone: calm\n---\nuser:\n{{tone}}: {{topic}}, {{city}}\n")
    done = shell("run", write(), "-t", "demo", "--prompt", "brief.prompty", "--plan")
    assert done.code == 2 and "MT-1 has no value for {{ topic }} of the prompt brief" in done.err
    assert "MT-2 has no value for {{ topic }}, {{ city }} of the prompt brief" in done.err
    done = shell("validate", write(prompt_file="brief.prompty"))
    assert done.code == 2 and "data.json:7: items[1]: MT-2 has no value for {{ topic }}, {{ city }}" in done.out


def test_a_template_with_choices_needs_what_it_comes_to(shell):
    """What an item is asked decides, not every name that the template could use."""
    text = "{% if city is defined %}{{ city }}{% else %}{{ City }}{% endif %}"
    assert shell("validate", write([{"role": "user", "content": text}])).code == 0
    done = shell("validate", write([{"role": "user", "content": "{% if true %}{{ city }}{% endif %}"}]))
    assert done.code == 2 and "MT-2 cannot be asked with the prompt under test" in done.out
    assert "uses {{ city }}, which has no value; known: City" in done.out


def test_a_template_that_is_none_is_one_problem(shell):
    done = shell("validate", write([{"role": "user", "content": "{% if %}"}]))
    assert done.code == 2 and done.out.count("cannot be filled in") == 1 and "data.json:4: messages" in done.out


def test_a_run_names_some_and_validate_all(shell):
    items = [{"prompt": f"question {number}"} for number in range(25)]
    document = {"schemaVersion": "1.11.0", "messages": [{"role": "system", "content": "{{a}}"}], "items": items}
    Path("many.json").write_text(json.dumps(document))
    assert shell("validate", "many.json").out.count("the item has no value for {{ a }}") == 25
    done = shell("run", "many.json", "-t", "demo", "-j", "demo")
    assert done.err.count("{{ a }}") == 10 and "15 more like these" in done.err


@pytest.mark.nightly
async def test_the_workbench_shows_it_at_the_item_and_refuses_the_run(shell):
    Path(".evals/config.toml").write_text('[run]\ntargets = ["demo"]\n')
    async with at_the_workbench(Path.cwd(), dataset=str(write()), size=(160, 45)) as person:
        await person.until(lambda: person.app.workspace.report is not None)
        assert not person.app.workspace.problems_at(("items", 0))
        await person.press("down", "down")
        await person.sees("error: MT-2 has no value for {{ city }} of the")
        await person.press("r")
        await person.sees("items[1]: MT-2")
        await person.press("escape", "up", "r")
        await person.sees("1 call, free")
