"""A fact of an answer is declared once, and every face has it."""

import os
import subprocess
import sys

ADDED = """
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path

from tui_evals.store import answer_facts
from tui_evals.store.answer_facts import AnswerFact, FactColumn, FactFilter

answer_facts.FACTS += (
    AnswerFact(
        "preview",
        "text",
        "the answer in capitals",
        lambda row, _: row.preview.upper(),
        words=lambda row, _: f"in capitals {row.preview.upper()}",
        column=FactColumn("capitals", 9, 85, lambda row: row.preview.upper(), where="preview != ''"),
        filter=FactFilter("capitals", "capitals:OSLO*", "the answer in capitals", "words"),
        sort="capitals",
    ),
)

import tui_evals
from tui_evals.cli.main import run
from tui_evals.present.manual_tables import PAGES, with_tables
from tui_evals.store.reader import Reader
from tui_evals.tui.results.rows import answer_row, counted_extent, heading, layout
from tui_evals.tui.results.table import sort_columns
from tui_evals.tui.watch import count_run


def printed(*words):
    with redirect_stdout(io.StringIO()) as out:
        assert run([*words]) == 0, words
    return out.getvalue()


def text_of(row):
    return "".join(piece.text for piece in row.pieces)


cities = {"Norway": "Oslo", "Denmark": "Copenhagen"}
result = tui_evals.evaluate(
    [{"prompt": name, "expected_response": city} for name, city in cities.items()],
    target=lambda prompt: cities[prompt],
    evaluators=["ExactMatch"],
)
store = Path(".evals/evals.db")
with Reader(store) as reader:
    stored = reader.find_run("last")
    first, second = reader.all_rows(stored.id)
    extent = counted_extent(count_run(store, stored, None))
shown = layout(100, stored, extent)
faces = {
    "library": [row["preview"] for row in result.rows()] == ["OSLO", "COPENHAGEN"],
    "library filter": [answer.text for answer in result.only("capitals:oslo")] == ["Oslo"],
    "csv": "OSLO" in printed("report", "last", "--to", "csv", "-o", "-"),
    "jsonl": json.loads(printed("report", "last", "--to", "jsonl", "-o", "-").splitlines()[0])["preview"] == "OSLO",
    "html": "in capitals OSLO" in printed("report", "last", "--to", "html", "-o", "-"),
    "show": "in capitals OSLO" in printed("show", "last", "--item", "#1"),
    "show filter": "Denmark" not in printed("show", "last", "--only", "capitals:OSLO*"),
    "columns": "capitals" in text_of(heading(shown)),
    "cells": "COPENHAG" in text_of(answer_row(second, {}, shown, now=0.0)),
    "sorting": ("preview", "capitals") in [(sort.by, sort.word) for sort in sort_columns(())],
    "manual": sum("the answer in capitals" in with_tables(page.read_text(encoding="utf-8")) for page in PAGES) == 2,
}
with Reader(store) as reader:
    faces["sorted"] = [*reader.ids(stored.id, None, "preview", False)] == [second.id, first.id]
print(json.dumps(faces))
"""


def test_a_fact_that_is_declared_once_is_in_every_face(tmp_path):
    """In a process of its own, because the tables of the faces are made when they are imported."""
    environment = {**os.environ, "COLUMNS": "120"}
    done = subprocess.run(
        [sys.executable, "-c", ADDED], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() and "false" not in done.stdout.splitlines()[-1], done.stdout
