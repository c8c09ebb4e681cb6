"""What the zoo found, each with the smallest clone that broke a law: it ends in a sentence now."""

import gzip
import json
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from tests.hostile.test_no_ordinary_files import bounded
from tests.tui.story import at_the_workbench
from tui_evals.datasets.discover import dataset_files


def test_a_prompt_with_a_name_too_long_for_a_file_is_another_prompt(clone, shell):
    clone.write("tags/tags/generation.json", json.dumps({"prompt": "x" * 5000}))
    done = shell("generate", "tags/tags.prompty", "--plan")
    assert done.code == 0, done.err
    done = shell("generate", "tags/tags", "--plan")
    assert done.code == 2 and "is not at" in done.err


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        (".env.local", "a,b;c\n" * 100_000, "it is larger than 250,000 bytes"),
        (".evals/config.toml", "x" * 2**21, "it is larger than 1 MiB"),
        (".evals/config.toml", ".".join("a" * 20_000) + " = 1\n", "a key in it has more than 100 parts"),
        (".evals/config.toml", "x = " + "[" * 20_000, "nested too deeply"),
    ],
)
def test_settings_that_would_take_long_to_parse_are_refused(clone, shell, file, text, said):
    clone.write(file, text)
    with bounded():
        done = shell("targets")
    assert done.code == 3
    assert said in done.err


@pytest.mark.story
def test_a_packed_dataset_that_unpacks_without_end_is_refused(clone, shell):
    (clone.root / "bomb.json.gz").write_bytes(gzip.compress(b" " * 2**27, 1))
    with bounded():
        done = shell("validate", "bomb.json.gz")
    assert done.code == 2
    assert "unpacks to more than 64 MiB" in done.out + done.err


@pytest.mark.parametrize("words", [("trend", "loop.json"), ("validate", "loop.json"), ("item", "list", "loop.json")])
def test_a_link_to_itself_is_a_dataset_that_cannot_be_read(clone, shell, words):
    (clone.root / "loop.json").symlink_to("loop.json")
    done = shell(*words)
    assert done.code in (1, 2)
    assert done.out + done.err


async def test_the_workbench_opens_beside_a_link_to_itself(clone):
    (clone.root / "loop.json").symlink_to("loop.json")
    (clone.root / "loop.csv").symlink_to("loop.csv")
    async with at_the_workbench(clone.root, dataset="loop.json") as person:
        await person.sees("loop.json")
        await person.press("6")


def test_a_link_to_itself_is_no_prompt(clone, shell):
    (clone.root / "loop.prompty").symlink_to("loop.prompty")
    clone.write("prompted.json", json.dumps({"schemaVersion": "1.0.0", "prompt_file": "loop.prompty", "items": []}))
    done = shell("run", "prompted.json", "--plan", "-t", "demo")
    assert done.code != 0 and "loop.prompty" in done.out + done.err


def test_a_link_to_itself_in_what_promptfoo_names_is_said(clone, shell):
    clone.write("promptfooconfig.yaml", "prompts: ['hi {{x}}']\nproviders: [echo]\ntests: loop.csv\n")
    (clone.root / "loop.csv").symlink_to("loop.csv")
    done = shell("import", "promptfooconfig.yaml", "--no-targets")
    assert done.code == 2
    assert "loop.csv" in done.err


@pytest.mark.parametrize("name", ["rules.txt", "inverse_rules.txt", "intent.txt", "input_spec.txt"])
def test_rules_of_more_than_a_megabyte_are_not_imported(clone, shell, name):
    clone.write("made/tests.json", json.dumps([{"ruleid": 1, "testinput": "hi", "expectedoutput": "yes"}]))
    clone.write("made/rules.txt", "The output is yes.\n")
    clone.write(f"made/{name}", "a" * (2**20 + 1))
    done = shell("import", "made", "--into", "made.json")
    assert done.code == 2
    assert f"{name} cannot be read: it is larger than 1 MiB" in done.err
    assert not (clone.root / "made.json").exists()


def test_a_dataset_behind_a_link_that_leads_out_is_not_looked_for(clone, tmp_path):
    (tmp_path / "secret.json").write_text('{"items": []}')
    (clone.root / "theirs.json").symlink_to(tmp_path / "secret.json")
    (clone.root / "within.json").symlink_to("data.json")
    assert sorted(file.name for file in dataset_files(clone.root)) == ["data.json", "within.json"]


def test_a_registry_does_not_lead_out_of_itself(clone, shell, tmp_path):
    (tmp_path / "secret.yaml").write_text("mine: {class: evals.elsuite.basic.match:Match}\n")
    clone.write("registry/evals/one.yaml", "one.dev.v0:\n  class: evals.elsuite.basic.match:Match\n  args: {}\n")
    (clone.root / "registry/modelgraded").mkdir()
    (clone.root / "registry/modelgraded/two.yaml").symlink_to(tmp_path / "secret.yaml")
    (clone.root / "registry/evals/two.yaml").symlink_to(tmp_path / "secret.yaml")
    done = shell("registry", "registry")
    assert done.code == 2
    assert "outside the project" in done.err and "mine" not in done.out


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("targets", "no JSON"),
        ("config", "[" * 100_000),
        ("prompts", "[1.5]"),
        ("config", "7"),
        ("waiting", '{"odd": 1}'),
        ("gates", '[{"figure": 1}]'),
    ],
)
def test_a_store_with_something_else_where_json_is_kept_says_so(clone, shell, column, value):
    with closing(sqlite3.connect(clone.root / ".evals" / "evals.db", isolation_level=None)) as store:
        store.execute(f"UPDATE runs SET {column} = ?", [value])
    done = shell("runs")
    assert done.code == 1
    assert "the store holds what tui-evals never wrote into it" in done.err


def test_a_status_that_there_is_not_is_said(clone, shell):
    with closing(sqlite3.connect(clone.root / ".evals" / "evals.db", isolation_level=None)) as store:
        store.execute("UPDATE answers SET status = 'odd'")
    done = shell("show", "last", "--grid")
    assert done.code == 1
    assert "the store holds what tui-evals never wrote into it" in done.err


def test_scores_are_counted_where_the_answers_are_a_view_without_end(clone, shell):
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id FROM n"
    with closing(sqlite3.connect(clone.root / ".evals" / "evals.db", isolation_level=None)) as store:
        store.execute("PRAGMA legacy_alter_table=ON")
        store.execute("ALTER TABLE answers RENAME TO kept")
        store.execute(f"CREATE VIEW answers AS {endless}")
    with bounded():
        done = shell("db", "check")
    assert done.code == 1


def test_an_evaluator_that_is_too_large_to_read_is_not_the_one_that_is_imported(clone, shell):
    (file := clone.root / "custom-evaluators" / "Huge" / "Huge.py").parent.mkdir(parents=True)
    with open(file, "wb") as stream:
        stream.truncate(2**31)
    clone.write(
        "promptfooconfig.yaml",
        "prompts: [hi]\nproviders: [echo]\ntests: [{assert: [{type: python, value: 'len(output) > 1'}]}]\n",
    )
    done = shell("import", "promptfooconfig.yaml", "--into", "made.json", "--no-targets")
    assert done.code == 0, done.err


def test_what_python_says_of_a_mistake_is_safe_as_well():
    code = (
        "from tui_evals.cli.output import say_mistakes_safely; import threading\n"
        "say_mistakes_safely()\n"
        "def fail(): raise ValueError('\\x1b]52;c;aGk=\\x07 \\x9b2J')\n"
        "thread = threading.Thread(target=fail); thread.start(); thread.join()\n"
        "fail()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count(b"Traceback") == 2
    assert b"\x1b" not in done.stderr and b"\x07" not in done.stderr and b"\xc2\x9b" not in done.stderr
