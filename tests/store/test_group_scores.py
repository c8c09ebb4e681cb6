"""Records of all answers to an item together: beside every one of them, and in the means of their evaluators."""

import pytest

from tests.store.helpers import judged, new_run, said
from tests.store.passes import new_pass
from tui_evals.store import lookup, run_figures
from tui_evals.store.records import PlannedAnswer, ScoreRecord


@pytest.fixture
async def run(writer, reader):
    """Two items of two turns, asked of two targets; both turns of the first item are judged together."""
    planned = [PlannedAnswer(n // 2, n // 4, n % 2, 0, n // 2 % 2, 0, f"#{n // 4 + 1}") for n in range(8)]
    run = writer.plan(new_run(targets=("a", "b")), planned)
    for row in reader.all_rows(run.id):
        await writer.answered(row.id, said(), "answered")
        await writer.scored(row.id, 1, [judged("Match", 1.0)], "pass", 100.0)
    await writer.group_scored(run.id, 1, 0, 0, judged("Best", 0.2))
    await writer.group_scored(run.id, 1, 0, 1, judged("Best", 0.8))
    return run


async def test_every_answer_to_an_item_and_turn_tells_what_was_found_of_all(run, writer, reader):
    await writer.group_scored(run.id, 1, 0, 0, judged("Alike", 0.0))
    assert new_pass(writer, run.id, {}) == 2
    await writer.group_scored(run.id, 2, 0, 0, judged("Best", 1.0))
    found = [(row.item, row.turn, reader.detail(row.id)) for row in reader.all_rows(run.id)]
    first = {1: (judged("Alike", 0.0), judged("Best", 0.2)), 2: (judged("Best", 1.0),)}
    wanted = {(0, 0): first, (0, 1): {1: (judged("Best", 0.8),)}}
    assert [detail.together for _, _, detail in found] == [wanted.get((item, turn), {}) for item, turn, _ in found]
    assert all(detail.scores == {1: (judged("Match", 1.0),)} for _, _, detail in found)


async def test_the_records_of_another_run_are_not_told(run, writer, reader):
    other = writer.plan(new_run(), [PlannedAnswer(0, 0, 0, 0, 0, 0, "#1")])
    assert reader.detail(next(reader.all_rows(other.id)).id).together == {}


async def test_an_item_is_found_without_a_walk_over_the_records_of_its_run(run, reader):
    asked = []
    lookup.detail(lambda query, values: asked.append((query, values)) or reader.query(query, values), 1)
    (query, values) = next(one for one in asked if "group_scores" in one[0])
    plan = " ".join(step[-1] for step in reader.query(f"EXPLAIN QUERY PLAN {query}", values))
    assert "run=? AND pass=? AND item=? AND turn=?" in plan


async def test_a_mean_is_over_groups_and_belongs_to_no_column(run, writer, reader):
    await writer.group_scored(run.id, 1, 1, 0, ScoreRecord(key="Best", evaluator="Best", score=None, result="error"))
    best, match = run_figures.evaluator_means(reader, run.id)
    assert (best.key, best.scope, best.scored, best.mean) == ("Best", "group", 2, 0.5)
    assert (best.passed, best.failed, best.errored, best.skipped) == (1, 1, 1, 0)
    assert (match.key, match.scope, match.scored, match.passed) == ("Match", "answer", 8, 8)
    assert best.rated is not None and match.rated is None
    assert {mean.key for mean in run_figures.evaluator_means(reader, run.id, columns=True)} == {"Match"}
    new_pass(writer, run.id, {})
    assert run_figures.evaluator_means(reader, run.id) == []


async def test_of_a_key_that_judges_both_the_mean_of_the_answers_comes_last(run, writer, reader):
    await writer.group_scored(run.id, 1, 0, 0, judged("Match", 0.0))
    means = [(mean.key, mean.scope) for mean in run_figures.evaluator_means(reader, run.id)]
    assert means == [("Best", "group"), ("Match", "group"), ("Match", "answer")]


async def test_what_was_skipped_is_told_of_answers_and_of_groups(run, writer, reader):
    skip = ScoreRecord(key="Both", evaluator="Both", score=None, result="skipped")
    number = new_pass(writer, run.id, {})
    for turn in (0, 1):
        await writer.group_scored(run.id, number, 0, turn, skip)
    await writer.group_scored(run.id, number, 0, 0, judged("Best", 0.2))
    assert run_figures.skipped(reader, run.id) == {"Both": 2}
    await writer.scored(next(reader.all_rows(run.id)).id, number, [skip, judged()], "pass", 100.0)
    assert run_figures.skipped(reader, run.id) == {"Both": 1}
