"""Runs compared as JSON and CSV, and the tables of both kinds as a spreadsheet reads them."""

import csv
import io
import json

import pytest

from tests.reports.stores import Given, Ran, bad, errored, every, good, store
from tests.store.helpers import judged, said
from tests.text.test_cells import FORMULAS, begins_a_formula
from tui_evals.reports import comparison, results
from tui_evals.store.reader import Reader

pytestmark = pytest.mark.story


def item(name, **more):
    return {"testId": name, "prompt": f"ask {name}", "expected_response": "yes", **more}


def by_name(answers):
    return lambda row: answers[row.name]


@pytest.fixture
def reader(tmp_path):
    """Three runs: b broke, c was fixed, d is in the later ones only."""
    items = [item(name, category="easy") for name in "abcd"]
    before = {"a": good(), "b": good("it was so"), "c": bad()}
    after = {"a": good(), "b": bad("not any more"), "c": good(), "d": errored()}
    later = Ran(items, by_name(after))
    with Reader(store(tmp_path, Ran(items[:3], by_name(before), name="old"), later, later)) as reader:
        yield reader


def runs(reader, *numbers):
    return [reader.run(number) for number in numbers]


def rows(pieces):
    header, *lines = csv.reader(io.StringIO("".join(pieces), newline=""))
    return [dict(zip(header, line, strict=True)) for line in lines]


def test_the_document_holds_runs_verdicts_tests_categories_and_lines(reader):
    found = json.loads(comparison.json_text(reader, runs(reader, 1, 2)))
    assert set(found) == {"runs", "population", "against", "notes", "categories", "lines"}
    assert [(run["called"], run["name"]) for run in found["runs"]] == [("A", "old"), ("B", "nightly")]
    for run in found["runs"]:
        (rate,) = run["pass_rates"]
        assert (rate["value"], rate["items"], rate["population"]) == (pytest.approx(2 / 3), 3, "shared")
    (against,) = found["against"]
    assert against["verdict"] == "B passes as many of 3 items as A: no difference."
    assert (against["broken"], against["fixed"], against["lines"]["new"]) == (1, 1, 1)
    assert set(against["passes"]) == set(against["tests"][0]) and against["tests"][0]["evaluator"] == "Match"
    assert set(against["passes"]) >= {"before", "after", "difference", "interval", "p", "adjusted_p", "items_needed"}
    (easy,) = found["categories"]
    assert easy["category"] == "easy" and easy["rates"]["B"]["value"] == pytest.approx(2 / 3)
    broken = found["lines"][1]
    assert (broken["item"], broken["kind"], broken["kinds"]) == ("b", "broken", {"B": "broken"})
    assert broken["answers"]["A"] == {"status": "pass", "score": 100.0, "answer": "it was so", "error": None}
    assert found["lines"][3]["answers"] == {
        "A": None,
        "B": {"status": "error", "score": None, "answer": None, "error": "nobody answered"},
    }


def test_the_table_has_a_row_for_each_line_and_columns_for_each_run(reader):
    first, broken, *_, new = rows(comparison.table(reader, runs(reader, 1, 2, 3)))
    assert first["item"] == "a" and (first["kind"], first["B.kind"], first["C.kind"]) == ("same",) * 3
    assert (broken["kind"], broken["A.answer"], broken["C.answer"]) == ("broken", "it was so", "not any more")
    assert (broken["A.status"], broken["A.score"], broken["C.score"]) == ("pass", "100.0", "0.0")
    assert (new["A.status"], new["B.status"], new["turn"]) == ("", "error", "")


def test_lines_of_json_are_the_lines_of_the_document(reader):
    both = runs(reader, 1, 2)
    lines = [json.loads(line) for line in comparison.json_lines(reader, both)]
    assert lines == comparison.document(reader, both)["lines"]


def test_turns_repeats_and_columns_are_counted_from_one(tmp_path):
    talk = {"testId": "talk", "turns": [item("x"), item("y")]}
    ran = Ran([talk], every(good()), targets=("small", "large"), repeats=2)
    with Reader(store(tmp_path, ran, ran)) as reader:
        found = rows(comparison.table(reader, runs(reader, 1, 2)))
    assert {(row["turn"], row["repeat"], row["column"]) for row in found} == {
        (turn, repeat, column) for turn in "12" for repeat in "12" for column in ("small", "large")
    }


def tables(folder, formula, raw):
    """The table of a run and that of a comparison, with a formula wherever one can stand."""
    one = {"testId": formula, "prompt": formula, "expected_response": formula, "category": formula, "tags": [formula]}
    given = Given(said(formula), "fail", (judged(formula, -0.5, reason=formula),))
    ran = Ran([one], every(given), targets=(formula, "b"), prompts=(formula,))
    with Reader(store(folder, ran, ran)) as reader:
        both = runs(reader, 1, 2)
        return "".join(results.table(reader, both[0], raw=raw)), "".join(comparison.table(reader, both, raw=raw))


def cells(text):
    return [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]


@pytest.mark.cases(7)
@pytest.mark.parametrize("formula", [*FORMULAS, "\t=1", "\r=1", "a\r=1+1", " =1", "\n+1", 'x";=1\r\n=2'])
def test_no_cell_of_a_table_begins_a_formula_and_numbers_stay(tmp_path, formula):
    of_run, of_both = tables(tmp_path, formula, raw=False)
    assert {cell for text in (of_run, of_both) for cell in cells(text) if begins_a_formula(cell)} == {"-0.5"}
    (row, _) = rows(of_run)
    assert row["response"] in (formula, "'" + formula)


def test_raw_tables_hold_what_was_said(tmp_path):
    for text in tables(tmp_path, "=1+1", raw=True):
        assert "=1+1" in cells(text) and "'=1+1" not in cells(text)
