"""What tui-evals itself does to a run that was signed appends to its chain, and hides nothing that others did."""

import asyncio
import os
import sqlite3

import pytest

from tests.provenance.conftest import NAMES, fill
from tests.store.helpers import cells, judged, new_run, said
from tui_evals.present.provenance import history_lines, provenance
from tui_evals.provenance.chain import FORMS
from tui_evals.provenance.keys import KEY_FILE, SIGNING_KEY, TRUSTED_KEYS, own_key
from tui_evals.store import chains, schema
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.repair import repairing
from tui_evals.store.verifying import find_key, verify
from tui_evals.store.writer import Writer

pytestmark = pytest.mark.story


def verdict_of(store):
    return provenance(store.verify()).verdict


def kinds(store):
    return [record.kind for record, _ in store.verify().records]


def scored_again(writer, reader, run, score=0.0):
    number = writer.begin_pass(run.id, {"again": True})
    for answer in reader.ids(run.id):
        asyncio.run(writer.scored(answer, number, [judged("Match", score)], "fail", score))
    writer.count_pass(run.id)


def judge_one_again(store, position):
    with store.writer() as writer, Reader(store.path) as reader:
        row = list(reader.all_rows(store.run.id))[position]
        assert asyncio.run(writer.rejudge(row, 1, [judged("Match", 0.2)], "fail", 0.2, None))


def ask_errors_again(store):
    """An error is asked again and answered, as `resume --errors` does it."""
    with store.writer() as writer:
        assert writer.reopen_errors(store.run.id) == 1
        asyncio.run(writer.answered(store.answers()[2], said("at last"), "answered"))
        asyncio.run(writer.scored(store.answers()[2], 1, [judged()], "pass", 1.0))
        writer.run_status(store.run.id, "finished", finished=3_000.0)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda writer, store: writer.label(store.answers()[0], "pass", "bob"), "verdict"),
        (lambda writer, store: writer.label_each(store.answers(), "fail", "bob", "all"), "verdict"),
        (lambda writer, store: writer.label(store.answers()[1], None, "alice"), "verdict"),
        (lambda writer, store: writer.edit(store.run.id, name="other", tags=["x"], note="seen"), "edit"),
        (lambda writer, store: writer.run_config(store.run.id, {"terms": {"max_cost": 5}}), "state"),
        (lambda writer, store: writer.run_status(store.run.id, "running", pid=2), "state"),
        (lambda writer, store: writer.changed(store.run.id, "demo", ["no temperature"]), "state"),
    ],
)
def test_a_change_of_ours_is_appended(store, change, kind):
    with store.writer() as writer:
        change(writer, store)
    assert kinds(store) == ["end", kind] and verdict_of(store) == "unchanged"


def test_what_is_not_covered_appends_nothing(store):
    with store.writer() as writer:
        writer.control(store.run.id, "stop")
        writer.heartbeat(store.run.id)
    assert kinds(store) == ["end"] and verdict_of(store) == "unchanged"


def test_judging_again_is_appended_and_states_only_verdicts(store):
    with store.writer() as writer, Reader(store.path) as reader:
        scored_again(writer, reader, store.run)
        assert verdict_of(store) == "unchanged"
        writer.sign(store.run.id, "end", again=True)
    assert kinds(store) == ["end", "pass", "end"] and verdict_of(store) == "unchanged"
    assert all("answers" not in record.states for record, _ in store.verify().records[1:])


def test_the_scores_of_an_earlier_judging_are_covered_by_the_first_signature_after_it(store):
    store.execute("DELETE FROM chain")
    store.execute("DELETE FROM statements")
    with store.writer() as writer, Reader(store.path) as reader:
        scored_again(writer, reader, store.run)
        writer.sign(store.run.id, "end")
    assert verdict_of(store) == "unchanged"
    store.execute("UPDATE scores SET reason = 'FORGED' WHERE pass = 1")
    assert "reason" in "\n".join(provenance(store.verify()).details) and verdict_of(store) == "changed"


def test_judging_again_does_not_hide_an_answer_that_was_changed(store):
    store.execute("UPDATE bodies SET text = 'FORGED' WHERE text = 'answer to b'")
    with store.writer() as writer, Reader(store.path) as reader:
        scored_again(writer, reader, store.run)
        writer.sign(store.run.id, "end", again=True)
    assert "answers (text) changed: b" in "\n".join(provenance(store.verify()).details)


def test_an_answer_judged_again_by_itself_is_appended(store):
    judge_one_again(store, 2)
    assert kinds(store) == ["end", "rejudged"] and verdict_of(store) == "unchanged"


def test_a_score_that_was_changed_stays_named_after_another_was_judged_again(store):
    store.execute("UPDATE scores SET score = 0.0 WHERE answer = 1")
    judge_one_again(store, 2)
    said = provenance(store.verify())
    assert said.verdict == "changed"
    assert "one answer judged again" in said.details[0] and "scores of pass 1 changed: a" in said.details[1]


def test_a_setting_that_was_changed_stays_named_after_an_edit(store):
    store.execute("UPDATE runs SET note = 'approved by the board'")
    with store.writer() as writer:
        writer.edit(store.run.id, name="other")
    said = provenance(store.verify())
    assert said.verdict == "changed" and "note changed" in "\n".join(said.details)


def test_a_verdict_of_a_person_that_was_changed_stays_named_after_the_next(store):
    store.execute("UPDATE labels SET verdict = 'pass'")
    with store.writer() as writer:
        writer.label(store.answers()[0], "pass", "bob")
    assert "verdicts of people changed: b" in "\n".join(provenance(store.verify()).details)


def test_a_statement_that_was_thrown_away_stays_named_after_the_next(store):
    store.execute("UPDATE labels SET verdict = 'pass'")
    store.execute("DELETE FROM statements WHERE part = 'labels'")
    with store.writer() as writer:
        writer.label(store.answers()[0], "pass", "bob")
    said = provenance(store.verify())
    assert said.verdict == "changed" and "verdicts of people: what was kept to check them" in "\n".join(said.details)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE chain SET record = 'nonsense'",
        "UPDATE chain SET record = x'ff00'",
        "UPDATE chain SET number = 'one'",
        "UPDATE statements SET statement = '7', hints = 'x'",
        "UPDATE statements SET hints = x'0102'",
        "UPDATE statements SET statement = replace(statement, '\"form\":1', '\"form\":99')",
    ],
)
def test_nothing_written_into_a_chain_keeps_anybody_from_working(store, statement):
    store.execute(statement)
    with store.writer() as writer:
        writer.label(store.answers()[0], "pass", "bob")
        writer.edit(store.run.id, name="other")
        assert verdict_of(store) in ("broken", "changed")
        writer.delete_run(store.run)


@pytest.fixture
def interrupted(path):
    """A run of which two answers are there."""
    from tests.provenance.conftest import Store

    with Writer(path) as writer, Reader(path) as reader:
        planned = [cell.__class__(n, n, 0, 0, 0, 0, NAMES[n]) for n, cell in enumerate(cells(4))]
        run = writer.plan(new_run(), planned)
        writer.run_status(run.id, "running", pid=1)
        asyncio.run(fill(writer, run, list(reader.ids(run.id))[:2]))
        writer.run_status(run.id, "interrupted", message="stopped", code="asked")
        writer.sign(run.id, "interruption")
    return Store(path, run)


def go_on(store, answers, *, then_killed=False):
    with store.writer() as writer:
        writer.run_status(store.run.id, "running", pid=2)
        asyncio.run(fill(writer, store.run, answers))
        if not then_killed:
            writer.run_status(store.run.id, "finished", finished=2_000.0)
            writer.sign(store.run.id, "end")


def test_an_interrupted_run_is_signed_as_far_as_it_is(interrupted):
    assert verdict_of(interrupted) == "unchanged"
    interrupted.execute("UPDATE answers SET name = 'z' WHERE pos = 3")
    assert "answers (name) changed: z" in "\n".join(provenance(interrupted.verify()).details)


def test_a_resumed_run_keeps_its_chain(interrupted):
    go_on(interrupted, interrupted.answers()[2:])
    assert kinds(interrupted) == ["interruption", "state", "state", "end"]
    assert verdict_of(interrupted) == "unchanged"


def test_a_run_that_was_killed_says_what_is_not_signed(interrupted):
    go_on(interrupted, interrupted.answers()[2:3], then_killed=True)
    said = provenance(interrupted.verify())
    assert said.verdict == "unfinished" and not said.holds
    assert "1 answer came later and are not signed" in "\n".join(said.details)
    interrupted.execute("UPDATE answers SET cost = 9 WHERE pos = 0")
    assert verdict_of(interrupted) == "changed"


def test_resuming_does_not_hide_an_answer_that_was_changed_meanwhile(interrupted):
    interrupted.execute("UPDATE bodies SET text = 'FORGED' WHERE text = 'answer to a'")
    go_on(interrupted, interrupted.answers()[2:])
    said = provenance(interrupted.verify())
    assert said.verdict == "changed" and "answers changed: a" in said.details[1]


def test_errors_that_are_asked_again_keep_the_chain(path):
    from tests.provenance.conftest import Store

    with Writer(path) as writer, Reader(path) as reader:
        run = writer.plan(new_run(), cells(3))
        ids = list(reader.ids(run.id))
        asyncio.run(fill(writer, run, ids[:2]))
        failed = said(None, code="agentRequestFailed", message="away")
        asyncio.run(writer.answered(ids[2], failed, "error"))
        writer.run_status(run.id, "finished", finished=2_000.0)
        writer.sign(run.id, "end")
    store = Store(path, run)
    assert verdict_of(store) == "unchanged"
    ask_errors_again(store)
    assert verdict_of(store) == "unfinished"
    with store.writer() as writer:
        writer.sign(run.id, "end")
    assert kinds(store) == ["end", "reopened", "state", "end"] and verdict_of(store) == "unchanged"


@pytest.mark.parametrize("why", ["deletion", "prune"])
def test_the_chain_of_a_deleted_run_stays_and_says_so(store, why):
    with store.writer() as writer:
        writer.delete_run(store.run, why)
    assert find_key(store.path, store.run.key) == store.run.key
    said = provenance(store.verify())
    assert said.verdict == "deleted" and "was deleted on" in said.sentence and kinds(store) == ["end", why]
    assert store.ask("SELECT count(*) FROM statements") == [(0,)]


def test_a_run_that_was_deleted_by_hand_is_no_deleted_run(store):
    store.execute("DELETE FROM runs")
    assert "its chain does not say so" in provenance(store.verify()).sentence


def test_a_store_brought_up_to_date_keeps_its_chains(store, monkeypatch):
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, lambda db: db.execute("ALTER TABLE runs ADD COLUMN more")))
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    open_store(store.path)
    assert kinds(store) == ["end", "migration"] and verdict_of(store) == "unchanged"


def test_a_repair_that_loses_nothing_leaves_the_chain_as_it_is(store):
    with repairing(store.path) as repair:
        repair.put_in_place()
    assert kinds(store) == ["end"] and verdict_of(store) == "unchanged"


def test_a_repair_says_in_the_chain_what_was_lost(store):
    store.execute("DELETE FROM scores WHERE answer = 3")
    with repairing(store.path) as repair:
        repair.put_in_place()
    said = provenance(store.verify())
    assert kinds(store) == ["end", "repair"] and said.verdict == "changed"
    assert "store repaired" in said.details[0] and "scores of pass 1 gone: c" in said.details[1]


def test_an_earlier_store_says_that_its_runs_were_not_signed(path, monkeypatch):
    path.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(schema, "STEPS", schema.STEPS[: schema.SIGNED - 1])
        patch.setattr(schema, "VERSION", schema.SIGNED - 1)
        open_store(path)
        with sqlite3.connect(path) as connection:
            connection.execute(
                "INSERT INTO runs(key, name, suite, source, snapshot, status, control, targets, prompts, tags, "
                "created, total, config, note, scoring_pass) VALUES "
                "('old001','n','','s','','finished','','[]','[]','[]',1,0,'{}','',1)"
            )
        connection.close()
    open_store(path)
    with Writer(path) as writer:
        writer.edit(1, note="still not")
    assert provenance(verify(path, "old001")).verdict == "not signed"


@pytest.fixture
def later_form(monkeypatch):
    """What a later tui-evals signs in: a form of its own."""
    columns = {part: tuple(reversed(names)) for part, names in FORMS[1].items()}
    monkeypatch.setitem(FORMS, 2, {**columns, "answers": FORMS[1]["answers"]})
    monkeypatch.setattr(chains, "FORM", 2)


def test_a_later_form_leaves_what_was_signed_in_an_earlier_one(store, later_form):
    assert verdict_of(store) == "unchanged"
    with store.writer() as writer, Reader(store.path) as reader:
        writer.label(store.answers()[0], "fail", "bob")
        writer.edit(store.run.id, note="seen")
        scored_again(writer, reader, store.run)
        writer.sign(store.run.id, "end", again=True)
    assert verdict_of(store) == "unchanged"
    assert {form for (form,) in store.ask("SELECT DISTINCT statement ->> '$.form' FROM statements")} == {1, 2}
    store.execute("UPDATE scores SET score = 0.5 WHERE answer = 1 AND pass = 1")
    assert "scores of pass 1 (score) changed: a" in "\n".join(provenance(store.verify()).details)


def test_a_later_form_hides_nothing_that_was_changed_before_it(store, later_form):
    store.execute("UPDATE labels SET verdict = 'pass'")
    with store.writer() as writer:
        writer.label(store.answers()[0], "fail", "bob")
    assert "verdicts of people (verdict) changed: b" in "\n".join(provenance(store.verify()).details)


# -- keys


def test_the_key_is_made_once_and_is_its_owners_alone(store):
    folder = os.path.join(os.environ["XDG_STATE_HOME"], "tui_evals")
    assert os.stat(os.path.join(folder, KEY_FILE)).st_mode & 0o777 == 0o600
    assert own_key().public == own_key().public == store.verify().keys[0]


def test_another_machine_is_shown_as_such(store, monkeypatch):
    public = own_key().public
    monkeypatch.setenv(SIGNING_KEY, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
    said = provenance(store.verify())
    assert said.verdict == "unknown key" and not said.holds and "signed by an unknown key (" in said.sentence
    monkeypatch.setenv(TRUSTED_KEYS, f"laptop={public}")
    said = provenance(store.verify())
    assert said.holds and "it was signed by laptop (" in said.sentence
    with store.writer() as writer:
        writer.label(store.answers()[0], "fail", "bob")
    said = provenance(store.verify())
    assert said.holds and "signed by laptop (" in said.sentence and "and you (" in said.sentence
    assert [line.rpartition(", ")[2].partition(" (")[0] for line in history_lines(store.verify())] == ["laptop", "you"]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("off", "TUI_EVALS_SIGNING_KEY is off"),
        ("/nowhere/key.pem", "TUI_EVALS_SIGNING_KEY is no key, and the file it names cannot be read"),
        ("-----BEGIN PRIVATE KEY-----\nno\n-----END PRIVATE KEY-----", "holds no private key in PEM"),
    ],
)
def test_without_a_key_a_run_is_noted_and_not_signed(path, monkeypatch, value, why):
    from tests.provenance.conftest import finished_store

    monkeypatch.setenv(SIGNING_KEY, value)
    store = finished_store(path)
    said = provenance(store.verify())
    assert said.verdict == "unsigned" and not said.holds and why in said.sentence
    store.execute("UPDATE answers SET cost = 0 WHERE pos = 0")
    assert verdict_of(store) == "changed"


def test_a_record_that_nobody_signed_does_not_count_as_signed(store, monkeypatch):
    monkeypatch.setenv(SIGNING_KEY, "off")
    with store.writer() as writer:
        writer.label(store.answers()[0], "pass", "mallory")
    assert verdict_of(store) == "unsigned"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_without_a_writable_home_a_run_is_not_signed(path, monkeypatch, tmp_path):
    from tests.provenance.conftest import finished_store

    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    assert "no key could be kept in" in provenance(finished_store(path).verify()).sentence


def test_where_the_state_folder_cannot_be_made_a_run_is_not_signed(path, monkeypatch, tmp_path):
    from tests.provenance.conftest import finished_store

    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert "no key could be kept in" in provenance(finished_store(path).verify()).sentence


def test_a_key_that_others_can_read_is_not_used(store):
    file = os.path.join(os.environ["XDG_STATE_HOME"], "tui_evals", KEY_FILE)
    os.chmod(file, 0o644)
    with store.writer() as writer:
        writer.edit(store.run.id, note="seen")
    assert "must be an ordinary file that only you can read" in provenance(store.verify()).sentence
