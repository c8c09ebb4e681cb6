"""Nothing in an answer or in the name of a file is an order to a CI runner."""

import io
import json
import os
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.api.test_pytest_plugin import run
from tui_evals.cli import output
from tui_evals.text.safe import LOG_READERS, safe, without_log_commands

ORDERS = (
    "::error file=a.py,line=1::forged",
    "  ::add-mask::e",
    "\u3000::stop-commands::x",
    "##vso[task.prependpath]/tmp/evil",
    "words and ##vso[task.setvariable variable=PATH]/tmp",
    "###[add-path]/tmp/evil",
    "##[error]forged",
    "##teamcity[buildStatus status='SUCCESS']",
    "\x1b]0;t\x07::set-output name=a::b",
    ":\x1b[0m:warning::hidden by an escape",
    "#\x1b[1m#vso[task.complete result=Succeeded;]",
    "before\n::error::after",
    "\x1b[0Ksection_start:1700000000:forged[collapsed=true]\r\x1b[0KForged",
)
TAKEN = re.compile(r"(?m)^\s*::|##\[|##vso\[|##teamcity\[|section_(start|end):\d")
"""What the runners look for, read off their sources."""


def orders_in(printed: str) -> list[str]:
    return [line for line in re.split(r"\r\n|\n|\r", printed) if TAKEN.search(line)]


@pytest.fixture(params=LOG_READERS)
def runner(request, monkeypatch):
    monkeypatch.setenv(request.param, "true")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A dataset whose names, prompts, references and replayed answers are orders, each in turn."""
    monkeypatch.chdir(tmp_path)
    items = [
        {
            "testId": f"{order}\n::error::of item {number}",
            "prompt": order,
            "expected_response": f"otherwise {order}\n{order}",
            "response": f"not {order}\n{order}\n::error title=forged::x",
            "category": order,
        }
        for number, order in enumerate(ORDERS)
    ]
    data = {"schemaVersion": "1.11.0", "default_evaluators": {"ExactMatch": {}}, "items": items}
    Path("data.json").write_text(json.dumps(data))
    return tmp_path


@pytest.mark.parametrize("order", ORDERS)
def test_an_order_is_neutralised_and_can_still_be_read(runner, order):
    cleaned = safe(order)
    assert not orders_in(cleaned)
    assert safe(cleaned) == cleaned
    assert cleaned.replace(" ", "") == without_space(order)


def without_space(order: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        for name in LOG_READERS:
            patch.delenv(name, raising=False)
        return safe(order).replace(" ", "")


PIECES = ["::", ":", "#", "##", "[", "vso[", "section_start", "1", "\n", "\r", " ", "\t", "\x1b[1m", "a"]


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_no_text_becomes_an_order(text):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GITHUB_ACTIONS", "true")
        cleaned = safe(text)
        assert not orders_in(cleaned) and safe(cleaned) == cleaned
        assert not orders_in(without_log_commands(text))


def test_away_from_a_runner_nothing_changes():
    assert safe("::error::x\n##vso[a]b") == "::error::x\n##vso[a]b"


def test_a_long_text_is_read_once(runner):
    assert len(without_log_commands("::" + " \n" * 200_000 + " " * 200_000 + "#" * 200_000)) >= 800_000


@pytest.mark.story
@pytest.mark.cases(1)
@pytest.mark.story
def test_no_command_prints_an_order(runner, shell, project):
    assert shell("run", "data.json", "--target", "replay:data.json", "--quiet").code == 0
    assert shell("run", "data.json", "--target", "replay:data.json", "--name", "::error::n\n::error::m").code == 0
    named = f"{ORDERS[0]}\n::error::of item 0"
    keys = [run["key"] for run in json.loads(shell("runs", "--json").out)]
    printed = ""
    for words in (
        *(("runs",), ("show", "last"), ("show", "last", "--item", named), ("diff", "last"), ("trend",)),
        *(("search", "forged"), ("compare", *keys), ("validate", "data.json"), ("resolve", "data.json")),
        *(("runs", "--json"), ("show", "last", "--json"), ("report", "last", "-o", "-")),
        *(("export", "last", "--to", kind, "-o", "-") for kind in ("csv", "json", "jsonl")),
        *(("report", "last", "--to", kind, "-o", "-") for kind in ("md", "junit", "oaieval-log")),
        ("convert", "data.json", "--to", "csv"),
    ):
        done = shell(*words)
        printed += done.out + done.err
        assert done.code < 2 and not orders_in(done.out + done.err), (words, done)
        if "--json" in words or words[-3:-2] == ("json",):
            assert json.loads(done.out)
    assert "forged" in printed


def test_json_keeps_its_data(runner, shell, project):
    assert shell("run", "data.json", "--target", "replay:data.json", "--quiet").code == 0
    shown = shell("show", "last", "--json").out
    assert not orders_in(shown) and "##vso[task.prependpath]/tmp/evil" in json.dumps(json.loads(shown))


def test_our_own_annotations_are_still_orders(runner, shell, project):
    shell("run", "data.json", "--target", "replay:data.json", "--quiet")
    lines = shell("report", "last", "--annotations").out.splitlines()
    assert len(lines) == 11 and all(re.match(r"::(error|notice) ", line) for line in lines)
    assert not any(re.search(r"##(\[|vso)", line) for line in lines)


def test_what_goes_to_a_file_stays_to_the_byte(runner, tmp_path, monkeypatch):
    text = "::error::x\n##vso[a]\n"
    with open(tmp_path / "out", "w+") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        output.say_data(text)
    assert (tmp_path / "out").read_text() == text
    reading, writing = os.pipe()
    with open(writing, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        output.say_data(text)
    with open(reading) as stream:
        assert not orders_in(stream.read())
    monkeypatch.setattr(sys, "stdout", io.StringIO())


@pytest.mark.parametrize("content", ["{", '{"schemaVersion": "1.11.0", "items": [{"prompt": "a"}]}'])
def test_a_file_name_forges_no_line(shell, tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    Path("a\n::error file=b,line=1::forged\n\x1b[2J.json").write_text(content)
    done = shell("validate", ".")
    assert "::error file=b" in done.out + done.err  # one may read it, within a line
    assert not orders_in(done.out + done.err) and "⏎" in done.out + done.err


@pytest.mark.nightly
def test_pytest_prints_no_order(monkeypatch, project):
    monkeypatch.setenv("TF_BUILD", "True")
    name = "b\n::error::forged\n##[x]y.json"
    (project / "evals").mkdir()
    (project / "evals" / name).write_text((project / "data.json").read_text())
    (project / "evals" / "c\n::error::broken.json").write_text('{"items": [{"prompt": 1}]}')
    (project / "data.json").unlink()
    for words in ((), ("-v",)):
        code, printed = run(project, "--tui-evals", "--tui-evals-target", "demo", *words, "evals")
        assert code in (1, 2) and not orders_in(printed), printed
