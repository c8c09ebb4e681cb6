"""`tui-evals sql`: rows as a table, CSV and JSON; hostile text cannot reach the terminal, and nothing is changed."""

from __future__ import annotations

import csv
import io
import json

import pytest

from tui_evals import evaluate
from tui_evals.cli.main import run


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    evaluate([{"prompt": "one", "expected_response": "one"}], lambda prompt: "=1+1\x1b[31m", evaluators="Includes")


def test_rows_are_a_table_whose_text_is_safe(capsys):
    assert run(["sql", "SELECT question, answer, score FROM v_answers"]) == 0
    shown = capsys.readouterr().out
    assert "question" in shown and "=1+1" in shown and "\x1b" not in shown


def test_rows_are_csv_without_formulas_and_lines_of_json(capsys):
    assert run(["sql", "SELECT question, answer, cost FROM v_answers", "--csv"]) == 0
    head, row = csv.reader(io.StringIO(capsys.readouterr().out))
    assert head == ["question", "answer", "cost"] and row[0] == "one" and not row[1].startswith("=") and row[2] == ""
    assert run(["sql", "SELECT question, answer, cost FROM v_answers", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"question": "one", "answer": "=1+1\x1b[31m", "cost": None}


def test_a_long_table_is_cut_with_a_sentence(capsys):
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 9) SELECT i FROM n"
    assert run(["sql", numbers, "--limit", "3"]) == 0
    last, note = capsys.readouterr().out.splitlines()[-2:]
    assert last.strip() == "3" and note == "The first 3 rows. --limit shows more, --csv and --json show all."


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["DELETE FROM runs"], "Only SELECT is possible here"),
        (["SELECT color FROM v_runs"], "no such column: color. `tui-evals help store`"),
        (["SELECT 1", "--csv", "--json"], "--csv and --json exclude each other"),
    ],
)
def test_a_mistake_is_said_in_a_sentence(arguments, says, capsys):
    assert run(["sql", *arguments]) != 0
    assert says in capsys.readouterr().err
