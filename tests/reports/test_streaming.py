"""Whatever is written of a run is written while it is read: never more than a page of answers is held."""

import gc
import json
from itertools import groupby

import pytest

from tests.bench.screen_stores import project
from tests.bench.screen_stores import store as bench_store
from tests.reports.made import add_run
from tests.reports.made import store as made_store
from tests.reports.stores import Given, Ran, every, store
from tests.store.test_transcripts import long_answer, peak_of
from tui_evals.reports.page import cards
from tui_evals.reports.page.summary import walk_answers_and_scores
from tui_evals.reports.results import names, report_kind, write
from tui_evals.runs.scoring import column_scores
from tui_evals.store import reader as reading
from tui_evals.store.details import read_scores
from tui_evals.store.filters import parse_filter
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, answer_steps
from tui_evals.store.rows import body_of
from tui_evals.transcript import to_json

pytestmark = pytest.mark.story

ANSWERS = 1_200


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    path, _ = bench_store(folder, ANSWERS, ANSWERS, project(folder, ANSWERS))
    return path


@pytest.mark.cases(4)
@pytest.mark.parametrize("kind", [name for name in names() if report_kind(name).missing() is None])
def test_a_writer_holds_a_page_of_answers_and_asks_for_pages(large, kind, monkeypatch):
    monkeypatch.setattr(cards, "WHOLE", 1_000)
    held, queries = [], []
    records, query = Reader.records, Reader.query

    def counted_records(self, ids, **given):
        found = records(self, ids, **given)
        held.append(sum(type(thing) is AnswerRecord for thing in gc.get_objects()))
        return found

    def counted_query(self, *given):
        queries.append(given)
        return query(self, *given)

    monkeypatch.setattr(Reader, "records", counted_records)
    monkeypatch.setattr(Reader, "query", counted_query)
    with Reader(large) as reader:
        size = sum(map(len, write(kind, reader, [reader.find_run("last")])))
    assert size > 1_000 and held
    # While a page is read the last answers of the one before may still be in the hands of the writer.
    assert max(held) <= reading._BODIES + 20
    assert len(queries) < 120


@pytest.mark.cases(2)
@pytest.mark.parametrize("kind", ["html", "csv", "json", "jsonl"])
def test_a_comparison_asks_for_pages_too(large, kind, monkeypatch):
    queries = []
    query = Reader.query
    monkeypatch.setattr(Reader, "query", lambda self, *given: queries.append(given) or query(self, *given))
    with Reader(large) as reader:
        run = reader.find_run("last")
        assert sum(map(len, write(kind, reader, [run, run]))) > 1_000
    assert len(queries) < ANSWERS / 4


def test_pieces_come_while_answers_are_still_to_be_read(large):
    with Reader(large) as reader:
        pieces = write("jsonl", reader, [reader.find_run("last")])
        first = next(pieces)
        rest = list(pieces)
    assert 2**16 <= len(first) < 2**17 and len(rest) > 5
    assert [json.loads(line)["turn"] for line in "".join([first, *rest]).splitlines()] == [1] * ANSWERS


async def test_the_score_of_a_column_is_what_it_is_everywhere(tmp_path):
    path = made_store(tmp_path)
    await add_run(path, 9, targets=2, repeats=2)
    with Reader(path) as reader:
        run = reader.find_run("last")
        scores = read_scores(reader, run.id)
        by_answer = {answer: [score for _, score in own] for answer, own in groupby(scores, key=lambda pair: pair[0])}
        points = column_scores(reader.all_rows(run.id), by_answer, reader.snapshot(run.snapshot)["items"])
        assert walk_answers_and_scores(reader, run, reader.dataset(run).items).points == pytest.approx(points)


async def test_a_table_of_chosen_answers_has_the_columns_of_their_scores(tmp_path):
    path = made_store(tmp_path)
    await add_run(path, 9)
    with Reader(path) as reader, reader.only(parse_filter("id:item-1 turn:1")) as chosen:
        run = reader.find_run("last")
        (header, *_), (one, *_) = ("".join(write("csv", who, [run])).splitlines() for who in (reader, chosen))
    assert "Relevance.score" in header and "Relevance.score" in one
    assert "together.Best.score" in header and "together.Best.score" not in one


@pytest.mark.nightly
def test_a_long_transcript_is_written_a_message_at_a_time_and_next_to_no_other(tmp_path):
    whole = long_answer(3_000)
    size = len(body_of(whole)[2])
    path = store(tmp_path, Ran([{"prompt": f"{n}?"} for n in range(3)], every(Given(whole, "unjudged"))))
    seen = {}
    with Reader(path) as reader:
        run = reader.find_run("last")
        for kind in ("json", "jsonl", "csv", "html"):
            list(write(kind, reader, [run]))  # what is imported on first use is there
            peak = peak_of(lambda kind=kind: seen.update({kind: sum(map(len, write(kind, reader, [run])))}))
            assert peak < 4 * size, "the texts of the one before, of this one, and its row"
        items = json.loads("".join(write("json", reader, [run])))["items"]
        lines = list(map(json.loads, "".join(write("jsonl", reader, [run])).splitlines()))
    assert seen["json"] > 3 * 2 * size and seen["jsonl"] > 3 * size
    for item, line in zip(items, lines, strict=True):
        assert item["extensions"]["tui_evals_transcript"] == line["answer"]["transcript"] == to_json(whole.transcript)
        assert item["extensions"]["tui_evals_steps"] == list(answer_steps(whole))
