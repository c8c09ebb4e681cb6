"""The verdicts and numbers of an evaluator over a run, and over each of its columns."""

import pytest

from tests.store.helpers import judged, new_run, said
from tui_evals.store import run_figures
from tui_evals.store.records import PlannedAnswer, Settled


@pytest.mark.parametrize("items", [1, 3])
@pytest.mark.parametrize("repeats", [1, 2])
@pytest.mark.parametrize("prompts", [1, 2])
@pytest.mark.parametrize("targets", [1, 2])
async def test_columns_have_samples_by_item_and_are_never_pooled(writer, reader, items, repeats, prompts, targets):
    places = [
        (item, prompt, target, repeat)
        for item in range(items)
        for prompt in range(prompts)
        for target in range(targets)
        for repeat in range(repeats)
    ]
    cells = [
        PlannedAnswer(cell, item, 0, prompt, target, repeat, f"#{item + 1}")
        for cell, (item, prompt, target, repeat) in enumerate(places)
    ]
    given = {"targets": tuple("ab"[:targets]), "prompts": tuple("pq"[:prompts])}
    run = writer.plan(new_run(**given), cells).id
    page = [
        Settled(answer, said(), [judged(score=float(item == 0))], "pass" if item == 0 else "fail", None)
        for answer, (item, *_) in zip(reader.ids(run), places, strict=True)
    ]
    await writer.settled(1, page)
    whole = run_figures.evaluator_means(reader, run)
    apart = run_figures.evaluator_means(reader, run, columns=True)
    assert [(mean.prompt, mean.target) for mean in apart] == [(p, t) for p in range(prompts) for t in range(targets)]
    (mean,) = whole
    assert (mean.scored, mean.passed, mean.failed) == (
        len(places),
        len(places) // items,
        len(places) - len(places) // items,
    )
    alone = len(apart) == 1
    assert (mean.rated is not None, mean.values is not None, mean.pass_rate is not None) == (alone, alone, alone)
    for one in apart if not alone else [*apart, mean]:
        for sample in (one.rated, one.values):
            assert (sample.items, sample.answers, sample.total) == (items, items * repeats, repeats)
