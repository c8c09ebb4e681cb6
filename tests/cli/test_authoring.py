"""Writing datasets from the command line, as a person would."""

import json
import os
import re
import select
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import warm
from tui_evals.datasets.discover import may_hold_items
from tui_evals.datasets.paths import CURRENT_VERSION

SAMPLES = Path(__file__).parents[2] / "sample_datasets"


@pytest.mark.parametrize("template", ["basic", "knowledge-base", "tool-usage"])
def test_init_writes_a_starter_that_validates(shell, project, template):
    done = shell("init", "--template", template)
    assert done.code == 0
    assert json.loads((project / "evals/evals.json").read_text())["schemaVersion"] == CURRENT_VERSION
    assert stat.S_IMODE((project / ".evals").stat().st_mode) == 0o700
    assert "!config.toml" in (project / ".evals/.gitignore").read_text()
    checked = shell("validate")
    assert checked.code == 0 and "2 items · portable to runevals" in checked.out


def test_init_overwrites_nothing(shell, project):
    shell("init")
    (project / "evals/evals.json").write_text("mine")
    done = shell("init")
    assert done.code == 2 and "already there; nothing was written" in done.err
    assert (project / "evals/evals.json").read_text() == "mine"


def test_validate_says_where_and_what_and_exits_2(shell, project):
    (project / "evals.json").write_text('{"schemaVersion": "1.0.0",\n "items": [\n {"propmt": "a"}]}')
    done = shell("validate")
    assert done.code == 2
    assert "evals.json:3: items[0]: unknown field 'propmt' (did you mean 'prompt'?)" in done.out


def test_validate_gives_both_verdicts_and_the_strict_one(shell, project):
    file = project / "d.json"
    file.write_text('{"schemaVersion": "1.0.0", "items": [{"prompt": "a", "testId": "T"}]}')
    done = shell("validate", file)
    assert done.code == 0 and "not portable to runevals" in done.out and "'testId'" in done.out
    assert shell("validate", "--strict-schema", file).code == 2
    report = json.loads(shell("validate", "--json", file).out)
    assert report[0]["valid"] is True and report[0]["portable"] is False
    assert report[0]["portability"][0]["path"] == "items[0]" and report[0]["portability"][0]["line"] == 1


@pytest.mark.parametrize("content", ["", "[", '{"items": 3}', "\x00", '{"items": [{"prompt": "a", "weight": NaN}]}'])
def test_a_file_that_is_no_dataset_is_a_sentence(shell, project, content):
    file = project / "d.json"
    file.write_text(content)
    for command in (["validate"], ["resolve"], ["upgrade"], ["convert", "--to", "csv"]):
        done = shell(*command, file)
        assert done.code == 2, command
        assert "d.json" in done.out + done.err and "Traceback" not in done.out + done.err


def test_every_sample_dataset_is_clean(shell, monkeypatch):
    monkeypatch.chdir(SAMPLES.parent)
    done = shell("validate", "sample_datasets")
    assert done.code == 0, done.out
    assert "warning" not in done.out
    datasets = (path for path in SAMPLES.rglob("*") if path.suffix in (".json", ".jsonl", ".csv", ".prompty"))
    names = {path.name for path in datasets if may_hold_items(path)}
    assert len(names) >= 8 and all(name in done.out for name in names)


def test_upgrade_keeps_a_backup_and_says_so(shell, project):
    file = project / "evals.json"
    file.write_text('[{"prompt": "a"}]')
    done = shell("upgrade", file)
    assert done.code == 0 and f"unversioned → {CURRENT_VERSION}" in done.out
    assert re.search(r"kept as .*evals\.json\.bak\.\d{14}", done.out)
    assert "already at version" in shell("upgrade", file).out


def test_upgrade_refuses_what_it_cannot_write(shell, project):
    (project / "t.csv").write_text("input\na\n")
    assert "convert --to m365" in shell("upgrade", "t.csv").err
    (project / "n.json").write_text('{"schemaVersion": "9.0.0", "items": [{"prompt": "a"}]}')
    done = shell("upgrade", "n.json")
    assert done.code == 2 and "upgrade tui-evals" in done.err


def test_resolve_shows_origin_and_what_was_overridden(shell, project):
    file = project / "d.json"
    turns = [
        {"prompt": "one", "evaluators": {"Relevance": {"threshold": 4}}},
        {"prompt": "two", "evaluators": {"ExactMatch": {}}, "evaluators_mode": "replace"},
    ]
    items = [{"prompt": "zero"}, {"name": "flow", "turns": turns}]
    document = {"schemaVersion": "1.2.0", "default_evaluators": {"Relevance": {}}, "items": items}
    file.write_text(json.dumps(document))
    done = shell("resolve", file)
    assert re.search(
        r"#2, turn 1 +flow · one\n +Relevance +turn +\{\"threshold\":4\} +instead of the default \{\}", done.out
    )
    assert re.search(r"#2, turn 2 +flow · two\n +ExactMatch +turn", done.out)
    rows = json.loads(shell("resolve", file, "--item", 1, "--json").out)
    assert rows == [
        {
            "item": 1,
            "turn": None,
            "testId": None,
            "evaluators": [
                {"key": "Relevance", "evaluator": "Relevance", "options": {}, "origin": "dataset", "overridden": None}
            ],
        }
    ]
    assert "there is no item 3" in shell("resolve", file, "--item", 3).err


def test_convert_writes_every_format_and_says_what_is_lost(shell, project):
    file = project / "d.json"
    item = {"prompt": "a", "expected_response": "b", "testId": "T", "weight": 0.5}
    file.write_text(json.dumps({"schemaVersion": "1.2.0", "items": [item]}))
    assert shell("convert", file, "--to", "csv").out == "input,reference_output,testId\na,b,T\n"
    samples = shell("convert", file, "--to", "jsonl")
    assert json.loads(samples.out) == {"input": "a", "ideal": "b"} and "no place for testId, weight" in samples.err
    done = shell("convert", file, "--to", "m365", "-o", "out.json")
    assert done.code == 0 and "moved under extensions.tui_evals" in done.err
    assert shell("validate", "--strict-schema", "out.json").code == 0
    again = shell("convert", file, "--to", "m365", "-o", "out.json")
    assert again.code == 2 and "already there" in again.err


@pytest.mark.nightly
def test_without_a_dataset_and_without_a_terminal_nothing_is_asked(project):
    done = subprocess.run(
        [sys.executable, "-m", "tui_evals", "validate"], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "no dataset found" in done.stderr and "tui-evals init" in done.stderr
    assert os.listdir(project) == []


def talk(arguments: list[str], answer: str) -> tuple[int, str]:
    """Run the command line on a real terminal, answer its question, and return its code and what it showed."""
    command = [sys.executable, "-m", "tui_evals", *arguments]
    _, master, end = warm.at_terminal(command, Path.cwd(), os.environ, (80, 24))
    shown, answered, deadline = b"", False, time.monotonic() + 30
    while time.monotonic() < deadline:
        if select.select([master], [], [], 0.1)[0]:
            try:
                chunk = os.read(master, 65536)
            except OSError:
                break
            if not chunk:
                break
            shown += chunk
        if not answered and b"(Y/n)" in shown.replace(b"[Y/n]", b"(Y/n)"):
            os.write(master, answer.encode())
            answered = True
    return end(), shown.decode(errors="replace")


@pytest.mark.nightly
@pytest.mark.parametrize(("answer", "code", "written"), [("\r", 0, True), ("n\r", 2, False)])
def test_on_a_terminal_a_starter_is_offered(project, answer, code, written):
    assert talk(["validate"], answer)[0] == code
    assert (project / "evals/evals.json").exists() is written


HOSTILE = "ab\x1b[2J\x1b]52;c;aGk=\x07\x1bPq\x1b\\\x9b31m\x90x\x9c\r\b\u202ecd"


@pytest.mark.parametrize(
    "arguments", [["resolve"], ["validate"], ["convert", "--to", "csv"], ["convert", "--to", "jsonl"]]
)
def test_hostile_text_of_a_dataset_never_reaches_the_terminal(project, arguments):
    file = project / "d.json"
    item = {"prompt": HOSTILE, "testId": HOSTILE, HOSTILE: 1}
    if arguments != ["validate"]:
        del item[HOSTILE]
    file.write_text(json.dumps({"schemaVersion": "1.2.0", "items": [item]}))
    _, shown = talk([*arguments, str(file)], "")
    without_colour = re.sub(r"\x1b\[[0-9;]*m", "", shown.replace("\r\n", "\n"))
    assert "ab" in without_colour and "cd" in without_colour
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", without_colour)


def test_hostile_arguments_are_made_safe_too(shell, project):
    for arguments in (["validate", HOSTILE.replace("\x00", "")], [HOSTILE], ["--" + HOSTILE], ["help", HOSTILE]):
        done = shell(*arguments)
        assert done.code == 2 or arguments[0] == "help"  # which searches for it
        assert "\x1b" not in done.out + done.err and "\x9b" not in done.out + done.err


def test_json_output_keeps_the_bytes_and_shows_none(shell, project):
    (project / "d.json").write_text(
        json.dumps({"schemaVersion": "1.2.0", "items": [{"prompt": "a", "testId": HOSTILE}]})
    )
    out = shell("resolve", "d.json", "--json").out
    assert json.loads(out)[0]["testId"] == HOSTILE
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", out)
