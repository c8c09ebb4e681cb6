"""Runs whose answers are at hand: judged and committed in pages, stopped, killed and gone on with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tui_evals.bench import Scorer, TestSuite
from tui_evals.store.details import error_messages, read_details
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer

pytestmark = [pytest.mark.story, pytest.mark.usefixtures("here")]

ROWS = 1_300  # two pages and a part of one


def numbers(name="n", method="exact_match", count=ROWS):
    texts = [str(number) for number in range(count)]
    return TestSuite(name, method, input_text_list=texts, reference_output_list=texts)


def reader():
    return Reader(Path(".evals") / "evals.db")


@pytest.mark.nightly
def test_pages_of_answers_are_stored_as_single_ones_are(here, monkeypatch):
    """The same tables, the same rows, whichever executor a run had."""

    def told_of(name):
        with reader() as store:
            run = store.find_run(name)
            found = []
            for told in read_details(store, run, store.all_rows(run.id), requests=True):
                answer = told.answer
                found.append((told.row.status, told.row.score, told.row.code, told.row.attempts, told.scores))
                found.append((answer.text, answer.request, answer.code, answer.attempts))
            return found

    suite = numbers(count=40)
    candidates = [str(number) if number % 3 else None if number % 2 else "no" for number in range(40)]
    pages = suite.run("pages", candidate_output_list=candidates)
    monkeypatch.setattr("tui_evals.runs.engine.asks_nobody", lambda *_: False)
    single = suite.run("single", candidate_output_list=candidates)
    assert (pages.scores, pages.outputs, pages.categories) == (single.scores, single.outputs, single.categories)
    assert [text and text.replace("pages.json", "single.json") for text in pages.problems] == single.problems
    assert told_of("pages") == told_of("single")


def test_the_command_line_replays_in_pages_what_was_captured(shell_in, here):
    items = [
        {"prompt": "a", "response": "yes", "expected_response": "yes"},
        {"prompt": "b"},
        {
            "turns": [
                {"prompt": "c", "response": "no", "expected_response": "yes"},
                {"prompt": "d", "response": "yes", "expected_response": "yes"},
            ]
        },
        {"turns": [{"prompt": "e"}, {"prompt": "f", "response": "lost"}]},
    ]
    document = {"schemaVersion": "1.11.0", "default_evaluators": {"Includes": {}}, "items": items}
    (here / "data.json").write_text(json.dumps(document))
    shell_in("run", "data.json", "--target", "replay:data.json", "--quiet")
    with reader() as store:
        run = store.find_run("last")
        assert [row.status for row in store.all_rows(run.id)] == ["pass", "error", "fail", "pass", "error", "error"]
        assert sorted(error_messages(store, run.id).values()) == [
            "Agent request failed: item #2 has no response in data.json; write one there",
            "Agent request failed: item #4, turn 1, has no response in data.json; write one there",
            "Turn not attempted: preceding turn failed",
        ]


@pytest.fixture
def shell_in(here):
    def run(*words):
        done = subprocess.run([sys.executable, "-m", "tui_evals", *words], capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1) and "Traceback" not in done.stderr, done.stderr

    return run


KILLED = """
    import os, signal
    from tui_evals.bench import TestSuite
    from tui_evals.store.writer import Writer

    settled, pages = Writer.settled, []

    async def settled_until(writer, number, page):
        await settled(writer, number, page)
        pages.append(len(page))
        if len(pages) == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    Writer.settled = settled_until
    texts = [str(number) for number in range(1300)]
    suite = TestSuite("n", "exact_match", input_text_list=texts, reference_output_list=texts)
    suite.run("killed", candidate_output_list=texts)
"""


@pytest.mark.nightly
def test_a_run_that_is_killed_between_pages_is_interrupted_with_what_was_stored_and_goes_on(shell_in, here):
    (here / "killed.py").write_text(textwrap.dedent(KILLED))
    done = subprocess.run([sys.executable, "killed.py"], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with reader() as store:
        run = store.find_run("killed")
        totals = store.totals(run.id)
        assert (run.status, run.code) == ("interrupted", "killed")
        assert totals.passed >= 2 and totals.pending == ROWS - totals.passed and not totals.answered
    shell_in("resume", run.key, "--quiet")
    with reader() as store:
        assert (store.run(run.id).status, store.totals(run.id).passed) == ("finished", ROWS)
    assert numbers().scoring_method == "exact_match"


class Waits(Scorer):
    """Waits for a file before its third batch."""

    @staticmethod
    def name():
        return "waits"

    def run_batch(self, candidates, references=None, inputs=None, contexts=None):
        Path(f"batch {candidates[0]}").touch()
        until = time.monotonic() + 60
        while candidates[0] == "200" and not Path("go on").exists():
            assert time.monotonic() < until
            time.sleep(0.01)
        return [1.0] * len(candidates)


@pytest.mark.nightly
def test_what_a_slow_scorer_of_ones_own_gave_is_stored_while_it_goes_on(here):
    code = """
        from tests.runs.test_given import Waits, numbers
        numbers("w", Waits(), 400).run("slow", candidate_output_list=[str(n) for n in range(400)], batch_size=100)
    """
    (here / "slow.py").write_text(textwrap.dedent(code))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen([sys.executable, "slow.py"], env=environment) as process:
        until = time.monotonic() + 60
        while True:
            assert time.monotonic() < until and process.poll() is None
            if (here / "batch 200").exists():
                with reader() as store:
                    run = store.find_run("slow")
                    if store.totals(run.id).scored == 200:
                        break
            time.sleep(0.02)
        assert run.status == "running"
        (here / "go on").touch()
        assert process.wait(60) == 0
    with reader() as store:
        assert (store.run(run.id).status, store.totals(run.id).scored) == ("finished", 400)


async def test_many_rows_share_a_transaction_and_one_that_cannot_be_stored_is_told(here, monkeypatch):
    numbers(count=3).run("r", candidate_output_list=["0", "1", "2"])

    def broken(connection, rows):
        if len(rows) == 1 and rows[0] == "bad":
            raise LookupError("the row is bad")
        if "bad" in rows:
            raise ValueError("one of many")
        done.extend(rows)
        return [None] * len(rows)

    done: list[object] = []
    monkeypatch.setattr("tui_evals.store.writer_thread._BATCH_ORDER", (broken,))
    with Writer(Path(".evals") / "evals.db") as writer:
        await writer._thread.wait_for_all([])
        await writer._thread.wait_for_all([(broken, "a"), (broken, "b")])
        with pytest.raises(LookupError, match="the row is bad"):
            await writer._thread.wait_for_all([(broken, "c"), (broken, "bad"), (broken, "d")])
    assert done == ["a", "b", "c", "d"]
