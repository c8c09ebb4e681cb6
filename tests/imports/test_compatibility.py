"""What the current promptfoo recorded by `python -m tests.bench.compatibility`, judged again here."""

import json

from tests.bench.compatibility import RECORDED, compared, page_table, table
from tui_evals.evaluators.base import is_installed

KNOWN = {
    "is-json": "not- passes there where no JSON is",
    "contains-json": "only objects count there",
}
"""The kinds whose import says that they may differ, with why."""
TOLD = json.loads(RECORDED.read_text(encoding="utf-8"))
ROWS = compared(TOLD)


def test_every_kind_that_is_carried_unchanged_agrees():
    assert [line for row in ROWS if row.kind not in KNOWN for line in row.differ] == []


def test_of_the_others_nine_of_ten_agree():
    rows = [row for row in ROWS if row.kind in KNOWN]
    assert sum(row.agree for row in rows) >= 0.9 * sum(row.agree + len(row.differ) for row in rows)


def test_the_manual_has_the_table():
    def lines(text):
        return [line for line in text.strip().splitlines() if is_installed("sqlglot") or "-sql " not in line]

    assert lines(page_table()) == lines(table(TOLD, ROWS))
