"""Questions where nobody can answer, and `-o` of every command that has it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reports.stores import Ran, every, good, store
from tui_evals.interpreter import python_command

ITEMS = [{"testId": name, "prompt": f"ask {name}", "expected_response": "yes"} for name in "ab"]


@pytest.mark.parametrize("words", [("delete", "last"), ("runs", "prune", "--keep", "0"), ("cache", "clear")])
@pytest.mark.parametrize("answer", ["", "y\n"])
def test_a_question_without_a_terminal_ends_with_how_to_answer_it(shell, folder, monkeypatch, words, answer):
    store(folder, Ran(ITEMS, every(good())))
    with open("typed", "w+") as typed:
        typed.write(answer)
        typed.seek(0)
        monkeypatch.setattr(sys, "stdin", typed)
        done = shell(*words)
        assert done.code == 2 and "?" in done.err and "--yes" in done.err and done.out == ""
        assert len(json.loads(shell("runs", "--json").out)) == 1
        assert shell(*words, "--yes").code == 0


@pytest.mark.nightly
def test_a_dataset_is_converted_into_whatever_a_name_stands_for(folder):
    Path("d.json").write_text(json.dumps({"items": ITEMS}))
    code = "import sys; from tui_evals.cli.main import run\n"
    code += "for name in sys.argv[1:]: run(['convert', 'd.json', '--to', 'jsonl', *(['-o', name] if name else [])])"
    names = ("", "-", "/dev/stdout", "/dev/fd/1")
    done = subprocess.run(python_command("-c", code, *names), capture_output=True, text=True, check=True)
    whole = done.stdout[: len(done.stdout) // len(names)]
    assert done.stdout == whole * len(names) and len(whole.splitlines()) == 2
    words = "-m tui_evals convert d.json --to jsonl -o >(cat >there.tmp; mv there.tmp there)"
    done = subprocess.run(["bash", "-c", f"{sys.executable} {words}; wait $!"], capture_output=True, text=True)
    assert done.stdout.startswith("wrote /dev/fd/") and Path("there").read_text() == whole


def test_a_dataset_is_converted_to_a_new_file_only(shell, folder):
    Path("d.json").write_text(json.dumps({"items": ITEMS}))
    words = ("convert", "d.json", "--to", "jsonl", "-o", "new/d.jsonl")
    assert shell(*words).out.splitlines()[0] == "wrote new/d.jsonl"
    assert Path("new/d.jsonl.tui-evals").exists()
    before = os.stat("new/d.jsonl").st_mtime_ns
    again = shell(*words)
    assert again.code == 2 and "new/d.jsonl is already there" in again.err
    assert os.stat("new/d.jsonl").st_mtime_ns == before
