"""What the current promptfoo recorded by `python -m tests.bench.compatibility`, judged again here."""

import json

import pytest

from tests.bench.compatibility import RECORDED, compared, is_older, page_table, table
from tui_evals.evaluators.base import is_installed

KNOWN = {"contains-json": "contains-json of '[1, 2]'"}
"""The kinds whose import says how they differ, and which verdicts: JSON that is a list."""
TOLD = json.loads(RECORDED.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def rows():
    return compared(TOLD)


def test_every_kind_that_is_carried_unchanged_agrees(rows):
    assert [line for row in rows if row.kind not in KNOWN for line in row.differ] == []


def test_the_others_differ_only_where_the_import_says_so(rows):
    for row in (row for row in rows if row.kind in KNOWN):
        lines = [line.removeprefix("not-") if row.kind == "contains-json" else line for line in row.differ]
        assert [line for line in lines if not line.startswith(KNOWN[row.kind])] == []


def test_the_manual_has_the_table(rows):
    def lines(text):
        return [line for line in text.strip().splitlines() if is_installed("sqlglot") or "-sql " not in line]

    assert lines(page_table()) == lines(table(TOLD, rows))


def test_what_an_older_promptfoo_says_replaces_nothing():
    assert is_older({"promptfoo": "0.99.1"}) and not is_older(TOLD)
