"""Finish reasons `length`, `content_filter` and refusals are columns and filters. A redirect is blamed on
base_url, not on the question.
"""

import asyncio
import csv
import io
import json
import re

import pytest

from tests.cli.helpers import Shell
from tests.server import running
from tests.tui.story import at_the_workbench
from tui_evals import evaluate

KINDS = ("answer", "length", "content_filter", "refusal", "empty_answer")


@pytest.fixture(scope="module")
def server():
    with running() as server:
        yield server


@pytest.fixture
def shell(tmp_path, monkeypatch, capsys, server):
    """The command line in a project whose model ends its five answers in five ways."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".evals").mkdir()
    config = f'[targets.main]\nmodel = "openai/m"\nbase_url = "{server.url}"\n[run]\ntargets = ["main"]\n'
    (tmp_path / ".evals" / "config.toml").write_text(config)
    items = [{"prompt": f"say [[{kind}]]", "expected_response": "x"} for kind in KINDS]
    (tmp_path / "data.json").write_text(json.dumps({"default_evaluators": {"ExactMatch": {}}, "items": items}))
    return Shell(capsys)


def names(answers):
    return [answer["name"] for answer in answers]


@pytest.mark.nightly
def test_the_terminal_and_json_have_them_as_columns_and_filters(shell):
    out = shell("run", "data.json").out
    assert "1× cut off at the limit of tokens – `tui-evals show" in out and "raise max_tokens" in out
    rows = json.loads(shell("show", "last", "--json").out)["answers"]
    assert [row["ending"] for row in rows] == ["", "length", "content_filter", "refusal", ""]
    for place, word in enumerate(("length", "content_filter", "refusal", "empty"), 2):
        assert names(json.loads(shell("show", "last", "--only", word, "--json").out)["answers"]) == [f"#{place}"]
    out = shell("show", "last").out
    assert "[length]" in out and "[content_filter]" in out and "[refusal] I cannot help" in out
    table = csv.DictReader(io.StringIO(shell("report", "last", "--to", "csv", "-o", "-").out))
    assert [row["ending"] for row in table] == ["", "length", "content_filter", "refusal", ""]
    (line,) = shell("report", "last", "--to", "jsonl", "-o", "-", "--only", "refusal").out.splitlines()
    assert json.loads(line)["ending"] == "refusal"
    assert "refused by the model" in shell("show", "last", "--item", "#4").out
    assert "cut off at the limit of tokens" in shell("show", "last", "--item", "#2").out


def test_the_page_has_them_as_filters_and_says_why(shell):
    shell("run", "data.json", "--quiet")
    page = shell("report", "last", "--to", "html", "-o", "-").out
    for word in ("empty", "length", "content_filter", "refusal"):
        assert f'<option value="w-{word}">' in page and page.count(f" w-{word}") == 1
    assert "content filter; 2 more causes" in page
    assert "cut off at the limit of tokens" in shell("report", "last", "--to", "md", "-o", "-").out


@pytest.mark.nightly
def test_the_workbench_has_them_as_a_column_and_as_filters(shell, tmp_path):
    shell("run", "data.json", "--quiet")

    async def look():
        async with at_the_workbench(tmp_path, dataset="data.json", run="last", size=(160, 40)) as person:
            await person.press("4", "z")
            await person.until(lambda: "ended" in person.screen() and "content_filter" in person.screen())
            await person.sees("2 more causes")
            assert "(empty)" in person.screen() and "1× blocked" in person.screen()
            await person.press("slash")
            await person.type("length\n")
            await person.until(lambda: len(person.app.watching) == 1)
            await person.until(lambda: re.search("✗ fail .*length", person.screen()))

    asyncio.run(look())


def test_the_library_has_them_too(tmp_path):
    def cut(prompt):
        return {"text": "half", "finish_reason": "max_tokens"}

    run = evaluate([{"prompt": "a"}], cut, evaluators={"any": lambda output: True}, project=tmp_path)
    assert run.answers[0].ending == "length" and run.only("length") == run.answers


def test_a_redirect_stops_the_run_and_names_base_url(shell, tmp_path, server):
    server.behave(always="redirect")
    (tmp_path / "data.json").write_text(
        json.dumps({"default_evaluators": {"ExactMatch": {}}, "items": [{"prompt": "x", "ideal": ["x"]}] * 3})
    )
    done = shell("run", "data.json")
    server.reset()
    assert done.code == 3 and "Set base_url to" in done.err and "/elsewhere/v1" in done.err
    assert "Check the question" not in done.out + done.err
