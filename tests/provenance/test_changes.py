"""Whatever somebody changes in the file of a run that was signed is found, and named."""

import json
import shutil
import sqlite3
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.provenance.conftest import Store
from tui_evals.present.provenance import provenance
from tui_evals.provenance.chain import FORMS


def said_lines(store):
    said = provenance(store.verify())
    return said.verdict, "\n".join(said.details)


def test_a_run_that_nobody_touched_is_unchanged(store):
    found = store.verify()
    said = provenance(found)
    assert said.verdict == "unchanged" and said.holds and not said.details
    assert said.sentence.startswith(f"Run {store.run.key} is unchanged since it was signed by you (")
    assert said.sources == ("4 answers asked by this run",)
    assert [record.kind for record, _ in found.records] == ["end"]


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE bodies SET text = 'answer to B' WHERE text = 'answer to b'", "answers (text) changed: b"),
        ("UPDATE bodies SET request = '{}' WHERE text = 'answer to c'", "answers (request) changed: c"),
        ('UPDATE bodies SET answer = \'{"model":"gpt"}\' WHERE id = 1', "answers (details of the answer) changed: a"),
        ("UPDATE answers SET cost = 0.0 WHERE pos = 3", "answers (cost) changed: d"),
        ("UPDATE answers SET output_tokens = 1 WHERE pos = 0", "answers (output tokens) changed: a"),
        ("UPDATE answers SET from_cache = 1 WHERE pos = 0", "answers (from cache) changed: a"),
        ("UPDATE answers SET status = 'fail' WHERE pos = 2", "verdicts of answers (status) changed: c"),
        ("UPDATE scores SET score = 0.9 WHERE answer = 1", "scores of pass 1 (score) changed: a"),
        ("UPDATE scores SET reason = '' WHERE answer = 1", "scores of pass 1 (reason) changed: a"),
        ("DELETE FROM scores WHERE answer = 2", "scores of pass 1 gone: b"),
        ("UPDATE group_scores SET score = 1.0", "scores of answers together, of pass 1 (score) changed: number 1"),
        ("UPDATE runs SET config = '{}'", "the plan: settings changed"),
        ("UPDATE runs SET source = 'other.json'", "the plan: source changed"),
        ("UPDATE runs SET name = 'better'", "the name, tags and note: name changed"),
        ("UPDATE runs SET verdict = 'met'", "the outcome: verdict changed"),
        ("UPDATE snapshots SET document = '{}'", "the plan: dataset changed"),
        ("UPDATE passes SET config = '{\"judge\":null}'", "scoring pass 1 (settings) changed"),
        ("UPDATE calls SET cost = 0 WHERE id = 1", "calls: cost changed"),
        ("DELETE FROM calls WHERE id = 2", "calls: "),
        ("UPDATE labels SET verdict = 'pass'", "verdicts of people (verdict) changed: b"),
        ("DELETE FROM labels", "verdicts of people gone: b"),
        ("DELETE FROM answers WHERE pos = 1", "answers gone: number 2"),
        ("UPDATE answers SET name = 'z' WHERE pos = 1", "answers (name) changed: z"),
        ("UPDATE bodies SET text = CAST(x'ff' AS TEXT) WHERE id = 1", "answers (text) changed: a"),
        ("UPDATE bodies SET text = CAST(text AS BLOB) WHERE id = 1", "answers (text) changed: a"),
        ("UPDATE answers SET latency_ms = 9e999 WHERE pos = 0", "answers (latency ms) changed: a"),
        (
            "UPDATE statements SET hints = x'' WHERE part = 'answers'",
            "answers: what was kept to check them was changed",
        ),
        ("DELETE FROM statements WHERE part = 'scores/1'", "scores of pass 1: what was kept to check them was changed"),
        ("UPDATE runs SET scoring_pass = 2", "the outcome: scoring pass changed"),
    ],
)
def test_a_change_is_found_and_named(store, statement, named):
    assert store.execute(statement) >= 1
    verdict, details = said_lines(store)
    assert verdict == "changed" and named in details


def test_answers_in_another_order_are_found(store):
    store.execute("UPDATE answers SET pos = -1 WHERE pos = 0")
    store.execute("UPDATE answers SET pos = 0 WHERE pos = 3")
    store.execute("UPDATE answers SET pos = 3 WHERE pos = -1")
    verdict, details = said_lines(store)
    assert verdict == "changed" and "changed: d, a" in details


def test_an_added_answer_is_found(store):
    store.execute(
        "INSERT INTO answers(run, seq, pos, cell, item, turn, prompt, target, repeat, name, category, status) "
        "VALUES (?, 900, 4, 4, 4, 0, 0, 0, 0, 'e', '', 'pass')",
        store.run.id,
    )
    verdict, details = said_lines(store)
    assert verdict == "changed" and "answers added: e" in details and "verdicts of answers added: e" in details


def test_a_scoring_pass_that_somebody_wrote_is_found(store):
    store.execute("INSERT INTO passes VALUES (?, 2, 1.0, '{}')", store.run.id)
    store.execute(
        "INSERT INTO scores SELECT answer, 2, key, evaluator, 1, 'pass', threshold, label, reason, details, "
        "weight, measure, origin FROM scores"
    )
    store.execute("UPDATE runs SET scoring_pass = 2")
    verdict, details = said_lines(store)
    assert verdict == "changed" and "scoring pass 2: added, no record says anything of it" in details


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        (
            "UPDATE chain SET record = replace(record, '\"end\"', '\"import\"')",
            "record 1 of the chain (import) was changed",
        ),
        ("UPDATE chain SET signature = ''", "record 1 of the chain (end) lacks its signature"),
        ("UPDATE chain SET key = '', signature = ''", "record 1 of the chain (end) lacks its signature"),
        ("UPDATE chain SET record = '[]'", "record 1 of the chain cannot be read"),
        ('UPDATE chain SET record = \'{"chain":99,"kind":"end"}\'', "record 1 of the chain is of version 99"),
        ("UPDATE chain SET number = 2", "record 1 of the chain is missing"),
    ],
)
def test_a_chain_that_was_changed_does_not_hold(store, statement, sentence):
    store.execute(statement)
    said = provenance(store.verify())
    assert said.verdict == "broken" and sentence in said.sentence


def test_the_chain_of_another_run_does_not_hold(store):
    with store.writer() as writer:
        writer.edit(store.run.id, note="seen")
    store.execute("UPDATE chain SET run = 'other1'")
    from tui_evals.store.verifying import verify

    assert "belongs elsewhere" in verify(store.path, "other1").broken


def test_a_record_in_the_middle_cannot_be_left_out(store):
    with store.writer() as writer:
        writer.edit(store.run.id, note="one")
        writer.edit(store.run.id, note="two")
    store.execute("DELETE FROM chain WHERE number = 2")
    assert "record 2 of the chain is missing" in store.verify().broken
    store.execute("UPDATE chain SET number = 2 WHERE number = 3")
    assert "belongs elsewhere" in store.verify().broken


def test_a_run_without_a_chain_was_not_signed(store):
    store.execute("DELETE FROM chain")
    said = provenance(store.verify())
    assert said.verdict == "not signed" and not said.holds
    assert said.sentence.startswith(f"Run {store.run.key} was not signed.")


TABLES = {
    "answers": {
        *FORMS[1]["answers"],
        *FORMS[1]["verdicts"],
    }
    - {"request", "text", "answer"},
    "bodies": {"request", "text", "answer"},
    "scores": set(FORMS[1]["scores"]) - {"pos"},
    "group_scores": set(FORMS[1]["together"]),
    "passes": {"created", "config"},
    "calls": set(FORMS[1]["calls"]) - {"pos"},
    "labels": set(FORMS[1]["labels"]) - {"pos"},
    "snapshots": {"document"},
    "runs": {*FORMS[1]["plan"], *FORMS[1]["about"], *FORMS[1]["outcome"]} - {"document", "key"},
}
CELLS = sorted((table, column) for table, columns in TABLES.items() for column in columns)
VALUES = st.one_of(
    st.none(),
    st.integers(-(2**62), 2**62),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.binary(max_size=4),
)


@pytest.fixture(scope="module")
def signed_file(tmp_path_factory):
    from tests.provenance.conftest import finished_store
    from tui_evals.store.database import open_store

    return finished_store(open_store(tmp_path_factory.mktemp("signed") / ".evals" / "evals.db"))


@pytest.mark.nightly
@pytest.mark.story
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(cell=st.sampled_from(CELLS), value=VALUES, row=st.integers(0, 3))
def test_every_change_of_a_covered_column_is_found(signed_file, tmp_path, monkeypatch, cell, value, row):
    table, column = cell
    copy = Store(tmp_path / "copy.db", signed_file.run)
    shutil.copy(signed_file.path, copy.path)
    with closing(sqlite3.connect(copy.path)) as connection:
        connection.execute("PRAGMA ignore_check_constraints=ON")
        key = "rowid" if table not in ("scores", "group_scores", "passes", "snapshots") else column
        rows = connection.execute(f"SELECT {key}, typeof({column}), {column} FROM {table} ORDER BY 1").fetchall()
        which, *before = rows[row % len(rows)]
        try:
            connection.execute(f"UPDATE OR FAIL {table} SET {column} = ? WHERE {key} IS ?", [value, which])
        except (sqlite3.IntegrityError, OverflowError):
            return  # SQLite does not let it in
        connection.commit()
        (after,) = connection.execute(
            f"SELECT count(*) FROM {table} WHERE typeof({column}) = ? AND {column} IS ?", before
        ).fetchone()
        known = sum(one[1:] == tuple(before) for one in rows)
    is_changed = after < known
    found = copy.verify()
    assert bool(found.changes or found.broken) == is_changed, (cell, value, json.dumps(repr(before)))


def test_the_property_covers_every_table_that_a_run_has():
    kept = {"answers", "bodies", "scores", "group_scores", "passes", "calls", "labels", "snapshots", "runs"}
    assert set(TABLES) == kept and len(CELLS) > 80
