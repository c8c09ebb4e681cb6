"""Means of scores on several scales, held to the rows brought to one scale by hand."""

import asyncio
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.store.helpers import cells, judged, new_run, said
from tui_evals.store import run_figures
from tui_evals.store.database import open_store
from tui_evals.store.details import asked_again
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer

SCALES = {
    "at least from 1 to 10": (1, 10),
    "at least from 0 to 5": (0, 5),
    "at least from -2 to 2": (-2, 2),
    "at least": None,
}
_PLACES = st.lists(st.tuples(st.sampled_from([*SCALES]), st.integers(0, 8)), min_size=1, max_size=8)


@settings(max_examples=25, deadline=None)
@given(_PLACES)
def test_a_mean_over_scales_is_that_of_the_rows_brought_to_one(tmp_path_factory, places):
    path = open_store(tmp_path_factory.mktemp("scales") / "evals.db")
    with Writer(path) as writer, Reader(path) as reader:
        run = writer.plan(new_run(), cells(len(places)))
        given = []

        async def answer_all():
            for answer, (measure, eighths) in zip(reader.ids(run.id), places, strict=True):
                low, high = SCALES[measure] or (0, 1)
                score = low + (high - low) * eighths / 8
                given.append((measure, score, eighths / 8))
                await writer.answered(answer, said(), "answered")
                await writer.scored(answer, 1, [judged(score=score, measure=measure)], "pass", 100.0)

        asyncio.run(answer_all())
        (mean,) = run_figures.evaluator_means(reader, run.id)
    bounded = {measure for measure, *_ in given if SCALES[measure]}
    values = [place if len(bounded) > 1 else score for _, score, place in given]
    if len(bounded) > 1 and len({measure for measure, *_ in given}) > len(bounded):
        assert (mean.mean, mean.squares, mean.mean_figure) == (None, None, None)
        return
    assert mean.mean == pytest.approx(fmean(values), abs=1e-9)
    assert mean.squares == pytest.approx(fmean(value * value for value in values), abs=1e-9)
    assert mean.scored == len(places) and ("normalised" in mean.measure) == (len(bounded) > 1)


@pytest.mark.parametrize(
    "columns", [(1, 1, 1, 1), (2, 1, 2, 1), (1, 2, 1, 2), (2, 1, 1, 1), (1, 1, 2, 1), (1, 2, 1, 1)]
)
async def test_an_answer_asked_again_is_of_the_same_column_or_the_only_one_of_each_run(writer, reader, columns):
    targets, prompts, later_targets, later_prompts = columns
    names = ("a", "b"), ("p", "q")
    first = writer.plan(new_run(targets=names[0][:targets], prompts=names[1][:prompts]), cells(1))
    # The later run has another name first, so that its only column is never that of the answer.
    again = {"targets": ("c", "a")[:later_targets], "prompts": ("r", "p")[:later_prompts]}
    later = writer.plan(new_run(parent=first.id, **again), cells(1))
    await writer.answered(reader.ids(later.id)[0], said("again"), "answered")
    (row,) = reader.rows(reader.ids(first.id))
    found = asked_again(reader, first, row)
    alone = columns == (1, 1, 1, 1)
    assert (found is not None) == alone
    if found is not None:
        assert (found[0].id, found[1].answer.text) == (later.id, "again")


async def test_an_answer_of_the_same_column_is_found_among_several(writer, reader):
    first = writer.plan(new_run(targets=("a", "b")), cells(1))
    later = writer.plan(new_run(parent=first.id, targets=("a", "c")), cells(1))
    await writer.answered(reader.ids(later.id)[0], said("again"), "answered")
    (row,) = reader.rows(reader.ids(first.id))
    found = asked_again(reader, first, row)
    assert found is not None and found[1].answer.text == "again"
