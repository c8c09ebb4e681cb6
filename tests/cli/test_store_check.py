"""`tui-evals db check` compares the kept counts of each run with its answers, and counts again where they differ."""

import json
import sqlite3
from contextlib import closing

from tests.cli.past import passing, past


def test_counts_that_differ_from_the_answers_are_named_and_counted_again(project, shell):
    run = past(*passing(4, 3))
    assert shell("db", "check").code == 0
    with closing(sqlite3.connect(project / ".evals" / "evals.db")) as store, store:
        store.execute("UPDATE ledger SET passed = 4, failed = 0")
    done = shell("db", "check")
    assert done.code == 1 and "the counts of some runs differ from their answers" in done.out
    assert f"run {run.key}: passed of prompt 0, target 0, category '' is 4, and its rows say 3" in done.out
    found = json.loads(shell("db", "check", "--json").out)
    assert found["sound"] is False and found["problems"] == [] and len(found["miscounted"]) == 3
    assert "`tui-evals db check --recount` counts them again" in done.out
    assert shell("db", "check", "--recount").code == 0
    assert "3 of 4 pass" in shell("show", run.key).out
