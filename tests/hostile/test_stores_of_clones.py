"""23: the store of a clone is shown and decides nothing, whatever its schema, its cache and its runs say."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from tui_evals.interpreter import python_command

DATA = {
    "schemaVersion": "1.0.0",
    "default_evaluators": {"Includes": {}},
    "items": [
        {"testId": "A", "prompt": "one", "expected_response": "hello"},
        {"testId": "B", "prompt": "two", "expected_response": "FORGED"},
    ],
}
RUN = ("run", "data.json", "-t", "openai/gpt-4o")


class Person:
    """Somebody with a home of their own, whose shell sends the questions for OpenAI to the server of the test."""

    def __init__(self, home: Path, server) -> None:
        self.home, self.server = home, server
        home.mkdir(exist_ok=True)
        self.variables = {"OPENAI_API_KEY": "sk-theirs", "OPENAI_BASE_URL": server.url}

    def __call__(self, folder: Path, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        """`tui-evals ARGUMENTS` in a folder, without a terminal."""
        places = ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")
        environment = os.environ | dict.fromkeys(places, str(self.home)) | self.variables | variables
        return subprocess.run(
            python_command("-m", "tui_evals", *map(str, arguments)),
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def asked(self, folder: Path, *arguments: object, **variables: str) -> tuple[subprocess.CompletedProcess[str], int]:
        """What came of a command, and how many calls it made of the model."""
        before = self.calls
        done = self(folder, *arguments, **variables)
        return done, self.calls - before

    @property
    def calls(self) -> int:
        return sum(self.server.counts()["met"].values())


@pytest.fixture
def author(tmp_path, one_server):
    one_server.reset()
    one_server.behave(say="hello")
    return Person(tmp_path / "authors-home", one_server)


@pytest.fixture
def victim(tmp_path, one_server):
    return Person(tmp_path / "victims-home", one_server)


@pytest.fixture
def clone(tmp_path, author):
    """A clone with a store in which its author has run everything once."""
    folder = tmp_path / "clone"
    folder.mkdir()
    (folder / "data.json").write_text(json.dumps(DATA))
    done, calls = author.asked(folder, *RUN)
    assert (done.returncode, calls) == (0, 2), done.stderr
    return folder


def spilled(folder: Path, **head: object) -> list[str]:
    """The lines of a file in which forged answers wait to be stored, as if a store had been lost."""
    store = folder / ".evals" / "evals.db"
    query = "SELECT c.key, c.recipe, c.target, b.request, b.answer FROM cache c JOIN bodies b ON b.id = c.body"
    with closing(sqlite3.connect(store)) as connection:
        rows = connection.execute(query).fetchall()
    lines: list[object] = [{"store": str(store), "run": "zzzzzz", "created": 1.0, **head}]
    for key, recipe, target, request, answer in rows:
        lines.append(["cached", [{"key": key, "recipe": recipe, "target": target}, [request, "FORGED", answer], 1.0]])
    return [json.dumps(line) for line in lines]


def change(folder: Path, *statements: str) -> None:
    """What an author does to the store before it is committed."""
    with closing(sqlite3.connect(folder / ".evals" / "evals.db", isolation_level=None)) as store:
        for statement in statements:
            store.execute(statement)
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def forge(folder: Path) -> None:
    change(folder, """UPDATE bodies SET text = 'hello FORGED'""")


TRIGGER = """CREATE TRIGGER wins AFTER UPDATE ON answers WHEN NEW.status = 'fail'
    BEGIN UPDATE answers SET status = 'pass', score = 1 WHERE id = NEW.id; END"""
LARGE = """CREATE TRIGGER grows AFTER INSERT ON calls
    BEGIN INSERT INTO heap VALUES (zeroblob(20000000)); END"""
HARMFUL = {
    "a trigger that turns fail into pass": ([TRIGGER], "the trigger 'wins' on answers"),
    "a trigger that writes 20 MB for each call": (
        ["CREATE TABLE heap(x)", LARGE],
        "the trigger 'grows' on calls",
    ),
    "a unique index": (["CREATE UNIQUE INDEX one ON calls(id, run)"], "the unique index 'one' on calls"),
    "an index of an expression": (
        ["CREATE INDEX slow ON calls(length(hex(zeroblob(100))))"],
        "the index of an expression 'slow' on calls",
    ),
    "an index of a condition": (
        ["CREATE INDEX some ON calls(run) WHERE length(hex(zeroblob(100))) > 1"],
        "the index of a condition 'some' on calls",
    ),
    "a view in place of a table": (
        ["ALTER TABLE scores RENAME TO kept", "CREATE VIEW scores AS SELECT * FROM kept"],
        "the view 'scores' under a name of ours",
    ),
    "a generated column": (
        ["ALTER TABLE cache ADD COLUMN more AS (hex(zeroblob(100)))"],
        "other columns or conditions in the table cache",
    ),
    "another column": (
        ["ALTER TABLE calls ADD COLUMN more TEXT NOT NULL DEFAULT 'x'"],
        "other columns or conditions in the table calls",
    ),
    "a condition": (
        [
            "ALTER TABLE replies RENAME TO kept",
            "CREATE TABLE replies(run INTEGER NOT NULL, pass INTEGER NOT NULL, key TEXT NOT NULL, text TEXT, "
            "reply TEXT NOT NULL CHECK(reply = ''), PRIMARY KEY(run, pass, key)) WITHOUT ROWID",
        ],
        "other columns or conditions in the table replies",
    ),
}


@pytest.mark.nightly
@pytest.mark.parametrize("what", HARMFUL)
def test_what_could_change_results_refuses_writing_and_is_named(what, clone, victim):
    statements, named = HARMFUL[what]
    change(clone, *statements)
    before = (clone / ".evals" / "evals.db").read_bytes()
    done, calls = victim.asked(clone, *RUN, "--trust")
    assert (done.returncode, calls) == (1, 0), done.stdout
    assert f"it has {named}" in done.stderr and "which tui-evals did not make" in done.stderr
    assert "Traceback" not in done.stderr
    assert (clone / ".evals" / "evals.db").read_bytes() == before
    checked = victim(clone, "db", "check")
    assert checked.returncode == 1
    assert named in checked.stdout
    assert json.loads(victim(clone, "db", "check", "--json").stdout)["sound"] is False
    assert named in victim(clone, "doctor").stdout


@pytest.mark.parametrize("command", [("runs",), ("show", "last"), ("export", "last"), ("cache", "info")])
def test_what_could_change_results_is_shown(command, clone, victim):
    change(clone, TRIGGER)
    done = victim(clone, *command)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", [("db", "vacuum"), ("db", "check", "--recount"), ("delete", "last", "--yes")])
def test_nothing_else_is_written_either(command, clone, victim):
    change(clone, TRIGGER)
    done = victim(clone, *command)
    assert done.returncode == 1
    assert "nothing is written into" in done.stderr


@pytest.mark.story
@pytest.mark.cases(2)
@pytest.mark.parametrize("command", [("runs",), ("show", "last"), ("db", "check"), ("db", "repair", "--yes"), RUN])
def test_a_view_without_end_in_place_of_a_table_ends(command, clone, victim):
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS k, x AS v FROM n"
    change(clone, "ALTER TABLE meta RENAME TO kept", f"CREATE VIEW meta AS {endless} WHERE x < 0")
    began = time.monotonic()
    done = victim(clone, *command)
    assert done.returncode in (1, 2), done.stdout
    assert "the view 'meta' under a name of ours" in done.stdout + done.stderr
    assert time.monotonic() - began < 20


def test_a_column_that_is_worked_out_without_end_is_cut_off(clone, victim, monkeypatch):
    change(
        clone,
        "ALTER TABLE runs RENAME COLUMN note TO kept",
        "ALTER TABLE runs ADD COLUMN note AS (hex(zeroblob(900000000)))",
    )
    done = victim(clone, "runs")
    assert done.returncode in (0, 1, 2)
    assert "Traceback" not in done.stderr


@pytest.mark.nightly
def test_repairing_makes_a_store_without_what_could_change_results(clone, victim, author):
    change(clone, TRIGGER)
    assert author(clone, "db", "repair", "--yes").returncode == 0
    assert author(clone, "db", "check").returncode == 0
    assert author.asked(clone, *RUN)[1] == 0
    assert victim.asked(clone, *RUN)[1] == 2  # to others it is as foreign as before


def test_what_other_tools_add_is_listed_and_ignored(clone, author):
    change(
        clone,
        "CREATE TABLE notes(id INTEGER PRIMARY KEY, text TEXT UNIQUE)",
        "CREATE VIEW recent AS SELECT * FROM runs ORDER BY id DESC",
        "CREATE INDEX calls_target ON calls(target)",
        "CREATE VIRTUAL TABLE found USING fts5(text, content='bodies')",
        "CREATE TRIGGER noted AFTER INSERT ON notes BEGIN SELECT 1; END",
    )
    done, calls = author.asked(clone, *RUN)
    assert (done.returncode, calls) == (0, 0), done.stderr
    checked = author(clone, "db", "check")
    assert checked.returncode == 0, checked.stdout
    assert "ignored, because tui-evals did not make it: the index 'calls_target' on calls" in checked.stdout
    assert all(name in checked.stdout for name in ("'notes'", "'recent'", "'found'", "'noted'"))


@pytest.mark.nightly
def test_a_name_in_the_schema_controls_no_terminal(clone, victim):
    change(
        clone,
        'CREATE TABLE "\x1b]0;owned\x07"(x)',
        'CREATE TRIGGER "\x1b[2J" AFTER INSERT ON calls BEGIN SELECT 1; END',
    )
    said = [victim(clone, *command) for command in (RUN, ("db", "check"), ("doctor",))]
    assert not any("\x1b" in done.stdout + done.stderr for done in said)


@pytest.mark.nightly
def test_forged_answers_of_a_clone_answer_for_no_model(clone, victim):
    forge(clone)
    done, calls = victim.asked(clone, *RUN)
    assert calls == 2
    assert "was not begun here" in done.stderr
    assert "tui-evals trust --store" in done.stderr
    assert "1 of 2 pass" in done.stdout
    assert "from the cache" not in done.stdout
    plan = victim(clone, *RUN, "--plan")
    assert "known" not in plan.stdout  # what a cache would spare
    assert victim.asked(clone, *RUN)[1] == 2  # nor do the answers that were added since


@pytest.mark.nightly
@pytest.mark.parametrize("head", [{}, {"number": None}, {"number": 7}, {"number": "its"}])
def test_answers_of_a_clone_that_wait_to_be_stored_are_not_cached(head, clone, victim):
    store = clone / ".evals" / "evals.db"
    if head.get("number") == "its":
        with closing(sqlite3.connect(store)) as connection:
            (head["number"],) = connection.execute("SELECT v FROM meta WHERE k = 'store'").fetchone()
    lines = spilled(clone, **head)
    shutil.rmtree(clone / ".evals")
    store.parent.mkdir(mode=0o700)
    (store.parent / "unstored-zzzzzz-x.jsonl").write_text("".join(f"{line}\n" for line in lines))
    assert victim.asked(clone, *RUN)[1] == 2
    assert "FORGED" not in victim(clone, "export", "last").stdout


@pytest.mark.cases(2)
@pytest.mark.parametrize("content", ["", "[1]\n", "{\n", "[" * 100_000 + "\n", "\xff\n"])
def test_a_file_that_only_seems_to_hold_answers_is_passed_over(content, clone, victim):
    (clone / ".evals" / "unstored-zzzzzz-x.jsonl").write_text(content, encoding="latin-1")
    done = victim(clone, *RUN)
    assert done.returncode == 0, done.stderr


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("arguments", "variables"), [(("--trust",), {}), ((), {"TUI_EVALS_TRUST": "all"})], ids=["--trust", "all"]
)
def test_a_pipeline_that_restores_its_cache_says_so_once(arguments, variables, clone, victim):
    done, calls = victim.asked(clone, *RUN, *arguments, **variables)
    assert calls == 0
    assert "was not begun here" not in done.stderr
    assert "2 of 2 answers from the cache" in done.stdout
    assert victim.asked(clone, *RUN, "--json", *arguments, **variables)[1] == 0
    assert victim.asked(clone, *RUN)[1] == 2  # it was for that once


@pytest.mark.nightly
def test_a_yes_to_the_store_holds_until_it_is_taken_back(clone, victim):
    done = victim(clone, "trust", "--store")
    assert done.returncode == 0, done.stderr
    assert "is yours now" in done.stdout
    assert victim.asked(clone, *RUN)[1] == 0
    assert "answers from the store" in victim(clone, "trust", "show").stdout
    assert victim(clone, "trust", "revoke").returncode == 0
    assert victim.asked(clone, *RUN)[1] == 2


@pytest.mark.nightly
def test_trust_lists_the_store_among_what_it_asks(clone, victim):
    done = victim(clone, "trust")
    assert "answers from its store, which was not begun here (2 cached answers, 1 run)" in done.stderr
    assert victim(clone, "trust", "--yes").returncode == 0
    assert victim.asked(clone, *RUN)[1] == 0
    assert "asks for nothing that you have not agreed to" in victim(clone, "trust").stdout


@pytest.mark.story
def test_a_baseline_of_a_clone_gates_nothing(clone, author, victim):
    assert author(clone, "baseline", "set", "last").returncode == 0
    for gate in ("--fail-on-broken", "--fail-on-regression"):
        done, calls = victim.asked(clone, *RUN, gate)
        assert (done.returncode, calls) == (2, 0), done.stderr
        assert "was not begun here, so it decides nothing" in done.stderr
    assert victim.asked(clone, *RUN, "--fail-on-broken", "--trust")[0].returncode == 0


def test_a_run_of_a_clone_passes_no_gate(clone, author, victim):
    change(clone, "UPDATE runs SET status = 'interrupted'", "UPDATE answers SET status = 'pending' WHERE pos = 1")
    done, calls = victim.asked(clone, "resume", "last", "--fail-under", "50")
    assert (done.returncode, calls) == (2, 0), done.stderr
    assert "decides nothing" in done.stderr


@pytest.mark.nightly
def test_a_store_of_a_clone_is_compared_and_has_gates_of_its_own_runs(clone, victim):
    assert victim.asked(clone, *RUN, "--fail-under", "40")[0].returncode == 0
    done = victim(clone, "compare", "last~1", "last")
    assert done.returncode in (0, 2), done.stderr
    keys = [run["key"] for run in json.loads(victim(clone, "runs", "--json").stdout)]
    assert victim(clone, "compare", *keys).returncode == 0


@pytest.mark.nightly
def test_a_new_store_beside_it_is_ones_own(clone, victim):
    mine = clone / ".evals" / "mine.db"
    assert victim.asked(clone, "--db", mine, *RUN)[1] == 2
    assert victim.asked(clone, "--db", mine, *RUN)[1] == 0


@pytest.mark.cases(4)
@pytest.mark.parametrize("way", ["copied", "moved", "backup", "repaired", "restored"])
def test_ones_own_store_stays_ones_own(way, clone, author, tmp_path):
    store = clone / ".evals" / "evals.db"
    match way:
        case "copied":
            other = tmp_path / "other"
            shutil.copytree(clone, other)
        case "moved":
            other = clone.rename(tmp_path / "other")
        case "backup":
            other = clone
            assert author(clone, "db", "backup", tmp_path / "kept.db").returncode == 0
            shutil.rmtree(clone / ".evals")
            store.parent.mkdir()
            shutil.copy(tmp_path / "kept.db", store)
        case "repaired":
            other = clone
            change(clone, "PRAGMA writable_schema=ON", "DELETE FROM sqlite_master WHERE name = 'meta'")
            done = author(clone, "db", "repair", "--yes")
            assert done.returncode == 0, done.stderr
        case "restored":
            other = clone
            store.unlink()
            done = author(clone, "db", "repair", "--yes")
            assert done.returncode == 0, done.stderr
    done, calls = author.asked(other, *RUN)
    assert calls == 0, done.stderr
    assert "was not begun here" not in done.stderr


@pytest.mark.nightly
def test_a_store_of_before_in_ones_own_project_is_adopted_silently(tmp_path, clone, victim):
    mine = tmp_path / "mine"
    mine.mkdir()
    assert victim(mine, "init").returncode == 0
    shutil.copy(clone / "data.json", mine)
    shutil.copytree(clone / ".evals", mine / ".evals", dirs_exist_ok=True)
    done, calls = victim.asked(mine, *RUN)
    assert calls == 0, done.stderr
    assert "was not begun here" not in done.stderr


def test_a_store_from_elsewhere_in_ones_own_project_is_not(tmp_path, clone, victim):
    mine = tmp_path / "mine"
    mine.mkdir()
    assert victim(mine, "init").returncode == 0
    shutil.copy(clone / "data.json", mine)
    assert victim.asked(mine, "--db", clone / ".evals" / "evals.db", *RUN)[1] == 2


@pytest.mark.nightly
def test_without_a_home_that_can_be_written_it_says_so(tmp_path, author, one_server):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "data.json").write_text(json.dumps(DATA))
    nowhere = {"XDG_STATE_HOME": str(tmp_path / "nowhere")}
    blocked = tmp_path / "nowhere" / "tui_evals" / "stores"  # a file, because root may write into every folder
    blocked.parent.mkdir(parents=True)
    blocked.touch()
    done, calls = author.asked(folder, *RUN, **nowhere)
    assert calls == 2, done.stderr
    assert "counts as yours in this process only" in done.stderr
    assert author.asked(folder, *RUN, "--trust", **nowhere)[1] == 0
    assert author.asked(folder, *RUN, **nowhere)[1] == 2


def test_what_is_kept_of_ones_stores_is_readable_by_oneself_alone(clone, author):
    (folder,) = author.home.rglob("stores")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("command", [RUN, (*RUN, "--json")])
def test_how_many_answers_came_from_the_cache_is_said_at_the_end(command, clone, author):
    done, calls = author.asked(clone, *command)
    assert calls == 0
    if "--json" in command:
        assert json.loads(done.stdout.splitlines()[-1])["totals"]["cached"] == 2
    else:
        assert "2 of 2 answers from the cache" in done.stdout


PROGRAM = """
import sys
from tui_evals import evaluate, gate
from tui_evals.runs.plan import CannotPlan
run = evaluate("data.json", "openai/gpt-4o", trust="--trust" in sys.argv)
print(run.totals.cached, "of", run.totals.total, bool(gate(run, fail_under=40)))
try:
    print(gate(sys.argv[1], fail_under=40).met)
except CannotPlan as problem:
    print(problem)
"""


@pytest.mark.nightly
@pytest.mark.parametrize("trusting", [False, True])
def test_a_program_is_warned_and_gates_what_it_ran_itself(trusting, clone, victim):
    (theirs,) = [run["key"] for run in json.loads(victim(clone, "runs", "--json").stdout)]
    words = [theirs, *(["--trust"] * trusting)]
    program = [sys.executable, "-c", PROGRAM, *words]
    places = dict.fromkeys(("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"), str(victim.home))
    variables = os.environ | places | victim.variables
    done = subprocess.run(program, cwd=clone, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == f"{2 if trusting else 0} of 2 True"
    assert ("was not begun here" in done.stderr) is not trusting
    assert second == "True" if trusting else "decides nothing" in second


@pytest.mark.nightly
def test_pytest_says_how_many_answers_came_from_the_cache(clone, author):
    command = [sys.executable, "-m", "pytest", "--tui-evals", "data.json", "--tui-evals-target", "openai/gpt-4o", "-q"]
    places = dict.fromkeys(("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"), str(author.home))
    variables = os.environ | places | author.variables
    done = subprocess.run(command, cwd=clone, env=variables, capture_output=True, text=True, check=False)
    assert " · 2 of 2 answers from the cache · " in done.stdout, done.stdout
