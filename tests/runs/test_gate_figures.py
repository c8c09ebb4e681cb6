"""The figures of gates over runs of every kind, held to their raw rows, which are counted here without the product."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import defaultdict
from itertools import groupby

import pytest

from tests.cli.helpers import Shell
from tests.present.test_every_figure import Course, interval
from tui_evals.runs.gate_options import Gates
from tui_evals.runs.gates import check_gates

pytestmark = pytest.mark.story

OPEN = ("pending", "running", "answered")


def counted_by_column(path, run, finished):
    """By column: how many answers of each item pass and do not, by item, and how many are still open."""
    with sqlite3.connect(path) as store:
        store.row_factory = sqlite3.Row
        rows = store.execute("SELECT * FROM answers WHERE run = ? ORDER BY pos", [run]).fetchall()
        recorded = {
            answer
            for (answer,) in store.execute(
                "SELECT s.answer FROM scores s JOIN answers a ON a.id = s.answer JOIN runs r ON r.id = a.run "
                "WHERE a.run = ? AND s.pass = r.scoring_pass",
                [run],
            )
        }
    columns = defaultdict(lambda: (defaultdict(list), []))
    for _, conversation in groupby(rows, key=lambda row: row["cell"]):
        turns = list(conversation)
        judged = [row for row in turns if row["status"] != "unjudged" or row["id"] in recorded] or turns
        for row in judged:
            items, still_open = columns[row["prompt"], row["target"]]
            if row["status"] in OPEN and not finished:
                still_open.append(row["id"])
            else:
                items[row["item"]].append(row["status"] == "pass")
    return columns


def check_rates(course, finished):
    run = course.reader.run(course.run.id)
    columns = counted_by_column(course.path, run.id, finished)
    for least in (0.0, 40.0, 100.0):
        gates = Gates(fail_under=least, max_missing=100.0)
        results = check_gates(course.reader, run, course.reader.totals(run.id), gates, finished=finished)
        rates = [check for check in results.checks if check.gate == f"--fail-under {least:g}"]
        if not rates:
            assert finished and results.checks[0].gate in ("answers", "judging")
            return
        for check, (_, (items, still_open)) in zip(rates, sorted(columns.items()), strict=True):
            answers, passed = sum(map(len, items.values())), sum(map(sum, items.values()))
            best = (passed + len(still_open)) / (answers + len(still_open)) if answers + len(still_open) else 1.0
            lost = 100 * best < least
            assert check.verdict == ("not met" if lost else "met" if finished else "not decided")
            assert (check.figure is None) == (not answers)
            if answers:
                assert check.figure.value == pytest.approx(passed / answers)
                assert (check.figure.items, check.figure.answers) == (len(items), answers)
                ends = check.figure.interval
                assert (ends.low, ends.high) == pytest.approx(interval(items), abs=1e-9)


async def walk(course, steps):
    for _ in range(steps):
        await course.step()
        check_rates(course, finished=False)
        check_rates(course, finished=True)


@pytest.mark.cases(3)
@pytest.mark.parametrize("seed", range(200, 206))
def test_the_rate_of_every_column_is_what_its_rows_say_at_every_moment(tmp_path, monkeypatch, capsys, seed):
    monkeypatch.chdir(tmp_path)
    course = Course(tmp_path, Shell(capsys), seed)
    course.check = lambda: None
    try:
        asyncio.run(walk(course, 8))
    finally:
        course.close()


@pytest.mark.nightly
@pytest.mark.parametrize(
    "seed", [*range(300, 303), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(303, 310))]
)
def test_the_rate_of_every_column_is_what_its_rows_say_in_long_courses(tmp_path, monkeypatch, capsys, seed):
    monkeypatch.chdir(tmp_path)
    course = Course(tmp_path, Shell(capsys), seed)
    course.check = lambda: None
    try:
        asyncio.run(walk(course, 20))
    finally:
        course.close()
