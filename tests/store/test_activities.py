"""Battles and generations in the store: their progress, their orders, and how they stand when their process is gone."""

from __future__ import annotations

import pytest

from tui_evals.runs.activities import recorded_activity
from tui_evals.store.battles import (
    activities,
    activity,
    activity_lock,
    drop_activity,
    live_activities,
    order_activity,
    order_of,
    plan_activity,
    progress_step,
)
from tui_evals.store.connection import StoreError, hold, refuse_live_runs
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path / ".evals" / "evals.db")


def test_an_activity_is_planned_runs_and_is_interrupted_once_its_process_is_gone(store):
    with Writer(store) as writer, Reader(store) as reader:
        key = plan_activity(writer, "battle", "one", {"judge": "demo"})
        assert (activity(reader, key).status, activity(reader, key).request) == ("planned", {"judge": "demo"})
        with recorded_activity(reader, writer, "battle", "one", {}, key):
            assert activity(reader, key).status == "running"
            assert [one.key for one in live_activities(reader, "battle")] == [key]
            assert list(live_activities(reader, "generation")) == []
        assert activity(reader, key).status == "interrupted" and not list(live_activities(reader, "battle"))
        assert not activity_lock(store, "battle", key).exists()
        drop_activity(writer, key)
        with pytest.raises(LookupError):
            activity(reader, key)


def test_progress_and_messages_are_kept_without_secrets_and_orders_are_read(store):
    with Writer(store, secrets=["sk-very-secret-key"]) as writer, Reader(store) as reader:
        key = plan_activity(writer, "generation", "folder", {})
        writer.progress(progress_step(writer, key, {"done": 2, "total": 5}, ["used sk-very-secret-key", "two"]))
        writer.progress(progress_step(writer, key, {"done": 3}, ["three"]))
        writer.flush()
        now = activity(reader, key)
        assert (now.done, now.total, now.messages[1:]) == (3, 5, ("two", "three"))
        assert "secret" not in now.messages[0]
        assert order_of(reader, key) == ""
        order_activity(writer, key, "stop")
        assert order_of(reader, key) == "stop"
        assert [one.key for one in activities(reader, "generation", "folder")] == [key]


def test_an_activity_that_fails_says_why(store):
    with Writer(store) as writer, Reader(store) as reader:
        with (
            pytest.raises(LookupError),
            recorded_activity(reader, writer, "battle", "one", {}) as record,
        ):
            raise LookupError("the run is deleted")
        writer.flush()
        failed = activity(reader, record.key)
        assert (failed.status, failed.message, failed.code) == ("interrupted", "the run is deleted", "failed")


def test_a_store_is_not_repaired_under_a_battle(store):
    with hold(activity_lock(store, "battle", "0a0b")), pytest.raises(StoreError, match="Stop it in the workbench"):
        refuse_live_runs(store)
