"""The views of the store: what they hold, that other tools open them, and that the manual's questions are answered."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest

import tui_evals
from tests.store.helpers import new_run
from tui_evals import evaluate
from tui_evals.store import schema, views
from tui_evals.store.connection import open_database
from tui_evals.store.database import StoreError, open_store, select
from tui_evals.store.records import CallRecord
from tui_evals.store.writer import Writer

pytestmark = pytest.mark.story

PAGE = (Path(tui_evals.__file__).parent / "help" / "store.md").read_text(encoding="utf-8")
QUESTIONS = re.findall(r"^### (.+)\n\n((?:    .+\n)+)", PAGE, re.MULTILINE)
COLUMNS = {
    name: re.sub(r" \(.*?\)", "", columns).split(", ")
    for name, columns in re.findall(r"^\| `(v_\w+)` \| .+? \| (.+) \|$", PAGE, re.MULTILINE)
}


def agent(prompt):
    if agent.answer:
        return agent.answer
    call = {"name": "add", "arguments": {"a": 1}, "result": "2"}
    return {"text": prompt, "tool_calls": [call] if prompt == "two" else []}


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    agent.answer = ""
    items = [
        {"testId": "a", "prompt": "one", "expected_response": "one", "category": "c", "tags": ["slow"]},
        {"turns": [{"prompt": "two", "ideal": ["two"]}, {"prompt": "three", "expected_response": "nothing"}]},
    ]
    evaluate(items, agent, evaluators={"Includes": {}, "Relevance": {}}, judge="demo", name="first")
    agent.answer = "?"
    evaluate(items, agent, evaluators={"Includes": {}}, name="second")
    return tmp_path / ".evals" / "evals.db"


def rows(path, statement):
    names, found = select(path, statement)
    return [dict(zip(names, row, strict=True)) for row in found]


def test_answers_have_question_expectation_and_place(path):
    found = rows(path, "SELECT * FROM v_answers WHERE run_name = 'first' ORDER BY answer_id")
    columns = ("item", "turn", "test_id", "category", "tags", "question", "expectation", "answer", "status", "target")
    assert [tuple(row[name] for name in columns) for row in found] == [
        ("a", 1, "a", "c", '["slow"]', "one", "one", "one", "pass", "agent"),
        ("#2", 1, None, None, None, "two", "two", "two", "pass", "agent"),
        ("#2", 2, None, None, None, "three", "nothing", "three", "fail", "agent"),
    ]


def test_runs_scores_and_steps(path):
    first, second = rows(path, "SELECT * FROM v_runs")
    assert {first["name"], second["name"]} == {"first", "second"}
    first = first if first["name"] == "first" else second
    assert (first["answers"], first["passed"], first["failed"], first["pass_rate"]) == (3, 2, 1, pytest.approx(2 / 3))
    scores = rows(path, "SELECT evaluator, result FROM v_scores WHERE item = 'a' AND answer_id = 1 ORDER BY evaluator")
    assert scores == [{"evaluator": "Includes", "result": "pass"}, {"evaluator": "Relevance", "result": "pass"}]
    steps = rows(path, "SELECT role, kind, tool, arguments, text FROM v_steps WHERE answer_id = 2")
    assert [(step["role"], step["kind"], step["tool"]) for step in steps] == [
        ("assistant", "call", "add"),
        ("tool", "result", None),
        ("assistant", "text", None),
    ]


def test_costs_are_by_target_judge_evaluator_and_phase(path):
    with Writer(path) as writer:
        run = writer.plan(new_run(config={"generation": {}}), ())
        spent = {"attempt": 1, "started": 1.0, "latency_ms": 1.0, "cost": 0.5}
        writer.call(CallRecord(answer=None, kind="generator", target="m", phase="rules", **spent), run.id)
        writer.call(CallRecord(answer=None, kind="judge", target="m", **spent), run.id)  # as they were noted before
    costs = rows(path, "SELECT * FROM v_costs")
    assert {"judge": ("demo", "Relevance", "judging", 3)}.items() <= {
        row["kind"]: (row["judge"], row["evaluator"], row["phase"], row["calls"]) for row in costs
    }.items()
    generated = {(row["phase"], row["generator"], row["cost"]) for row in costs if row["kind"] == "generator"}
    assert generated == {("rules", "m", 0.5), ("generating", "m", 0.5)}
    unpriced = [(row["cost"], row["unpriced_calls"]) for row in costs if row["target"] == "agent"]
    assert unpriced == [(None, 3), (None, 3)]


@pytest.mark.cases(8)
@pytest.mark.parametrize(("question", "statement"), QUESTIONS, ids=[question for question, _ in QUESTIONS])
def test_a_question_of_the_manual_is_answered(path, question, statement):
    found = rows(path, statement)
    if "generation" not in question and "slow" not in question:
        assert found, question


def test_the_manual_has_ten_questions_and_every_column(path):
    assert len(QUESTIONS) == 10 and COLUMNS.keys() == views.VIEWS.keys()
    for name, columns in COLUMNS.items():
        assert select(path, f"SELECT * FROM {name}")[0] == columns, name


def test_the_version_of_the_views_is_in_the_store(path):
    assert rows(path, "SELECT v FROM meta WHERE k = 'views'") == [{"v": views.VERSION}]


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("DELETE FROM runs", "more than read"),
        ("ATTACH 'other.db' AS other", "more than read"),
        ("VACUUM INTO 'copy.db'", "more than read"),
        ("PRAGMA user_version = 3", "more than read"),
        ("CREATE TABLE x(y)", "more than read"),
        ("SELECT 1; SELECT 2", "one statement at a time"),
        ("SELECT color FROM v_runs", "no such column: color"),
        ("", "gives no rows"),
    ],
)
def test_a_query_can_only_read(path, statement, says):
    before = path.read_bytes()
    with pytest.raises(StoreError, match=says):
        select(path, statement)
    assert path.read_bytes() == before and not list(path.parent.glob("*copy*"))


def test_a_view_of_the_file_decides_nothing(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP VIEW v_runs")
        connection.execute("CREATE VIEW v_runs AS SELECT 'forged' AS run")
        connection.commit()
    assert {row["name"] for row in rows(path, "SELECT * FROM v_runs")} == {"first", "second"}
    with pytest.raises(StoreError, match="the view 'v_runs' under a name of ours"):
        Writer(path).__enter__()


def test_a_store_with_a_view_under_a_new_name_of_ours_is_not_brought_up_to_date(tmp_path):
    before = schema.STEPS[: schema.STEPS.index(schema._views)]
    path = tmp_path / ".evals" / "evals.db"
    path.parent.mkdir(mode=0o700)
    with closing(open_database(path)) as connection:
        schema.make_tables(connection, before)
        connection.execute("CREATE VIEW v_runs AS SELECT 1 AS mine")
    path.chmod(0o600)
    with pytest.raises(StoreError, match="under a name of ours"):
        open_store(path)


def test_views_of_a_large_run_are_read_in_linear_time(path):
    items = json.dumps({"items": [{"prompt": f"question {number}"} for number in range(20_000)]})
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE snapshots SET document = ?", [items])
        connection.execute("DELETE FROM answers WHERE run = 1")
        connection.executemany(
            "INSERT INTO answers(run, seq, pos, cell, item, turn, prompt, target, repeat, name, category) "
            "VALUES (1, ?, ?, 0, ?, 0, 0, 0, 0, 'x', '')",
            [(100_000 + number, number, number) for number in range(20_000)],
        )
        connection.commit()
        steps = 0

        def counted():
            nonlocal steps
            steps += 1
            return 0

        connection.set_progress_handler(counted, 1_000)
        found = connection.execute("SELECT count(question) FROM v_answers WHERE run_name = 'first'").fetchone()
    assert found == (20_000,)
    assert steps < 20_000, "more than a thousand steps for an answer"


def test_pandas_opens_the_store_as_it_is(path):
    pandas = pytest.importorskip("pandas")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        frame = pandas.read_sql("SELECT * FROM v_answers", connection)
    assert len(frame) == 6 and set(frame["question"]) == {"one", "two", "three"}


@pytest.mark.nightly
def test_sqlite_utils_opens_the_store_as_it_is(path):
    command = [sys.executable, "-m", "sqlite_utils", "rows", str(path), "v_runs"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert {row["name"] for row in json.loads(done.stdout)} == {"first", "second"}


@pytest.mark.skipif(find_spec("datasette") is None, reason="datasette is not installed")
def test_datasette_opens_the_store_as_it_is(path):
    command = [sys.executable, "-m", "datasette", str(path), "--get", "/evals/v_runs.json?_shape=array"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert {row["name"] for row in json.loads(done.stdout)} == {"first", "second"}


def test_duckdb_opens_the_store_as_it_is(path, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    copy = shutil.copy(path, tmp_path / "copy.db")
    with closing(duckdb.connect()) as connection:
        try:
            connection.execute("INSTALL sqlite; LOAD sqlite")
        except duckdb.Error as problem:
            pytest.skip(f"the SQLite extension of DuckDB cannot be loaded: {problem}")
        connection.execute(f"ATTACH '{copy}' AS evals (TYPE sqlite, READ_ONLY)")
        found = connection.execute("SELECT name, question FROM evals.v_answers a JOIN evals.v_runs r USING (run)")
        assert len(found.fetchall()) == 6
