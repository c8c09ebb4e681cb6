"""Records of all answers to an item together in the results of a run as files: apart from every answer's own."""

import asyncio
import csv
import io
import json
import re

import pytest

from tests.reports import made
from tests.reports.stores import Ran, every, good, store
from tests.store.helpers import judged
from tests.store.passes import new_pass
from tests.text.test_cells import FORMULAS, begins_a_formula
from tui_evals.datasets.document import load
from tui_evals.datasets.portable import PUBLIC
from tui_evals.datasets.validate import validate
from tui_evals.reports import results
from tui_evals.reports.page import page
from tui_evals.store.reader import Reader
from tui_evals.store.records import ScoreRecord
from tui_evals.store.writer import Writer

SINGLE = {"testId": "one", "prompt": "?", "extensions": {"mine": 1}}
TALK = {"testId": "talk", "turns": [{"prompt": "first"}, {"prompt": "second"}]}
HOSTILE = "[/b] \x1b]52;c;aGk=\x07 \x9b31m \u202e\r\n=1+1, \ud800 日本語"


@pytest.fixture
def judged_together(tmp_path):
    """A run of one item and one conversation, each asked twice; `Best` judged the item and the second turn."""

    def ran(best, items=(SINGLE, TALK)):
        path = store(tmp_path, Ran(items, every(good()), repeats=2))
        with Writer(path) as writer:
            asyncio.run(writer.group_scored(1, 1, 0, 0, best))
            asyncio.run(writer.group_scored(1, 1, 1, 1, best))
        return Reader(path)

    return ran


def test_the_document_keeps_them_apart_from_the_scores_of_an_answer_and_stays_valid(judged_together, tmp_path):
    best = judged("Best", 0.25, reason="the first is better", label="1")
    with judged_together(best) as reader:
        text = "".join(results.document(reader, reader.run(1)))
    (tmp_path / "results.json").write_text(text)
    report = validate(load(tmp_path / "results.json"), PUBLIC)
    assert report.valid, report
    first, again, talk, _ = json.loads(text)["items"]
    record = {"result": "fail", "score": 0.25, "label": "1", "reason": "the first is better"}
    for one in (first, again, *talk["turns"]):
        assert one["extensions"].pop("tui_evals_answer")["answer"]["latency_ms"] == 1500.0
    assert first["extensions"] == {"mine": 1, "tui_evals_together": {"Best": record}}
    assert again["extensions"] == {**first["extensions"], "tui_evals_run": {"target": "demo", "repeat": 2}}
    assert [one["extensions"] for one in talk["turns"]] == [{}, {"tui_evals_together": {"Best": record}}]
    units = [first, again, *talk["turns"]]
    assert [(set(one["scores"]), one["status"]) for one in units] == [({"Match"}, "pass")] * 4


def test_a_group_that_was_skipped_leaves_nothing_in_the_document(judged_together):
    skipped = ScoreRecord(key="Best", evaluator="Best", score=None, result="skipped")
    with judged_together(skipped) as reader:
        assert "Best" not in "".join(results.document(reader, reader.run(1)))


def test_the_records_of_an_earlier_pass_are_left_out(judged_together, tmp_path):
    with judged_together(judged("Best", 1.0)) as reader:
        assert "Best" in "".join(results.document(reader, reader.run(1)))
        with Writer(tmp_path / ".evals" / "evals.db") as writer:
            new_pass(writer, 1, {})
        assert "Best" not in "".join(results.document(reader, reader.run(1)))
        assert "Best" not in "".join(results.table(reader, reader.run(1)))


def test_lines_and_the_table_name_them_for_every_answer_of_the_group(judged_together):
    with judged_together(judged("Best", 0.25, reason="so it is", threshold=0.5)) as reader:
        lines = list(map(json.loads, "".join(results.json_lines(reader, reader.run(1))).splitlines()))
        header, *rows = csv.reader(io.StringIO("".join(results.table(reader, reader.run(1))), newline=""))
    places = [(line["item"], line["turn"], [score["key"] for score in line["together"]]) for line in lines]
    assert places == [("one", 1, ["Best"]), ("one", 1, ["Best"]), *[("talk", 1, []), ("talk", 2, ["Best"])] * 2]
    assert all([score["key"] for score in line["scores"]] == ["Match"] for line in lines)
    columns = [
        f"{key}.{part}" for key in ("Match", "together.Best") for part in ("score", "result", "threshold", "reason")
    ]
    assert header[-8:] == columns
    found = ["0.25", "fail", "0.5", "so it is"]
    assert [row[-4:] for row in rows] == [found, found, *[[""] * 4, found] * 2]


@pytest.mark.parametrize("text", [HOSTILE, *FORMULAS[:3]])
def test_hostile_texts_survive_and_begin_no_formula(judged_together, text):
    items = ({"testId": "a", "prompt": "?"}, {"testId": "b", "turns": [{"prompt": "?"}] * 2})
    key = text.replace("\ud800", "")
    with judged_together(judged(key, 0.5, reason=text, label=text, details={text: text}), items) as reader:
        run = reader.run(1)
        document = json.loads("".join(results.document(reader, run)))
        lines = "".join(results.json_lines(reader, run)).split("\n")
        table = "".join(results.table(reader, run))
        cells = [cell for row in csv.reader(io.StringIO(table, newline="")) for cell in row]
    assert document["items"][0]["extensions"]["tui_evals_together"][key]["reason"] == text.replace("\ud800", "?")
    assert json.loads(lines[0])["together"][0]["details"] == {text: text}
    assert f"together.{key}.reason" in cells
    assert not any(map(begins_a_formula, cells))


async def test_on_the_page_an_item_whose_group_failed_is_found_by_the_evaluator(tmp_path):
    path = made.store(tmp_path)
    run = await made.add_run(path, 2)
    with Reader(path) as reader:
        text = page(reader, [reader.run(run)])
    (token,) = re.findall(r'<option value="(e\d+)">failed Best<', text)
    cards = re.findall(r'<details class="card [^>]* data-is="([^"]*)"', text)
    assert [token in groups.split() for groups in cards] == [True, False]
