"""The promises of `help security`: each has its limits, and tests that are there."""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "tui_evals" / "help" / "security.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text(encoding="utf-8").partition("## Each promise")[2].partition("\n## ")[0].splitlines()
    if line.startswith("| ")
]


def test_a_promise_says_what_it_rests_on_and_what_it_does_not_cover():
    head, *promises = ROWS
    assert head == ["Promise", "What it rests on", "What it does not cover", "Test"]
    assert len(promises) >= 15
    assert [row for row in promises if len(row) != 4 or not all(row)] == []


@pytest.mark.parametrize("row", ROWS[1:], ids=lambda row: row[0])
def test_a_promise_has_its_test(row):
    for place in row[3].split(", "):
        file, _, function = place.strip("`").partition("::")
        tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
        assert function in [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
