"""Repeats out of a store: what an item does again, and what a judge says of the same answer again."""

import pytest

from tests.compare.helpers import run
from tests.store.helpers import judged, new_run, said
from tests.store.passes import new_pass
from tui_evals.compare.repeats import comparable_passes, read_repeats
from tui_evals.store.reader import Reader
from tui_evals.store.records import PlannedAnswer
from tui_evals.store.rows import ScoringPass
from tui_evals.store.writer import Writer

JUDGE = {"judge": {"name": "j", "model": "m"}, "without_judges": False, "dataset": None}


def config(cached=True, **given):
    return {**JUDGE, "terms": {"use_cache": cached}, **given}


def passes(*configs):
    return [ScoringPass(number, 0.0, given) for number, given in enumerate(configs, 1)]


@pytest.fixture
def stored(path):
    """`await stored({(item, repeat, target, turn): status})` plans a run, answers it and returns its number."""

    async def make(answers, scores=lambda cell: 1.0, **given):
        with Writer(path) as writer:
            planned = [
                PlannedAnswer(n, item, turn, 0, target, repeat, f"t{item}")
                for n, (item, repeat, target, turn) in enumerate(answers)
            ]
            row = writer.plan(new_run(snapshot=writer.snapshot({}, ""), config=config(), **given), planned)
            with Reader(path) as reader:
                for answer, (cell, status) in zip(reader.all_rows(row.id), answers.items(), strict=True):
                    if status != "pending":
                        await writer.answered(answer.id, said(), "answered")
                        await writer.scored(answer.id, 1, [judged("Match", scores(cell))], status, None)
            writer.run_status(row.id, "finished")
        return row.id

    return make


@pytest.fixture
def found(path):
    def read(number):
        with Reader(path) as reader:
            return read_repeats(reader, number)

    return read


def once(*statuses, item=0):
    return {(item, repeat, 0, 0): status for repeat, status in enumerate(statuses)}


async def test_repeats_are_reduced_with_the_flaky_items_first(stored, found):
    number = await stored(
        once("pass", "pass", "pass", "pass")
        | once("pass", "pass", "pass", "fail", item=1)
        | once("pass", "fail", "pass", "fail", item=2)
        | once("fail", "fail", "fail", "fail", item=3)
    )
    (column,) = found(number).columns
    assert (column.name, column.together.items, column.together.flaky) == ("demo", 4, 2)
    assert [(one.k, one.any_passes) for one in column.together.drawn][:2] == [(1, 9 / 16), (2, (1 + 1 + 5 / 6) / 4)]
    assert column.at_least == (0.75, 0.75, 0.5, 0.25)
    assert column.together.majority == 0.5
    assert [(item.name, item.passed, item.judged) for item in column.flaky] == [("t2", 2, 4), ("t1", 3, 4)]


async def test_items_that_are_equally_flaky_stand_in_the_order_of_what_fails_more(stored, found):
    number = await stored(once("pass", "pass", "fail") | once("fail", "pass", "fail", item=1))
    (column,) = found(number).columns
    assert [item.name for item in column.flaky] == ["t1", "t0"]


async def test_the_least_steady_item_comes_first_whichever_fails_more(stored, found):
    number = await stored(once("fail", "fail", "fail", "pass") | once("pass", "pass", "fail", "fail", item=1))
    (column,) = found(number).columns
    assert [item.name for item in column.flaky] == ["t1", "t0"]


async def test_an_item_with_fewer_repeats_has_no_say_about_more_of_them(stored, found):
    number = await stored(once("pass", "pass") | once("pass", "error", item=1))
    (column,) = found(number).columns
    assert column.at_least == (1.0, 1.0)


async def test_a_repeat_is_as_good_as_its_worst_turn_and_counts_only_when_judged_whole(stored, found):
    number = await stored(
        {
            (0, 0, 0, 0): "pass",
            (0, 0, 0, 1): "pass",
            (0, 1, 0, 0): "pass",
            (0, 1, 0, 1): "fail",
            (0, 2, 0, 0): "pass",
            (0, 2, 0, 1): "error",
            (0, 3, 0, 0): "pass",
            (0, 3, 0, 1): "pending",
        }
    )
    (item,) = found(number).columns[0].flaky
    assert (item.passed, item.judged) == (1, 2)


async def test_every_column_stands_for_itself(stored, found):
    answers = {(0, repeat, target, 0): "pass" if target else "fail" for repeat in range(2) for target in range(2)}
    number = await stored(answers, targets=("small", "large"))
    columns = found(number).columns
    assert [(one.name, one.together.majority) for one in columns] == [("small", 0.0), ("large", 1.0)]


async def test_without_repeats_there_is_neither_flakiness_nor_noise(stored, found):
    number = await stored(once("pass") | once("fail", item=1))
    (column,) = found(number).columns
    assert (column.together.repeated, column.together.flakiness, column.flaky) == (0, None, ())
    assert column.noise == {} and len(column.together.drawn) == 1


async def test_an_unanswered_run_has_columns_without_items(stored, found):
    (column,) = found(await stored(once("pending", "pending"))).columns
    assert (column.together.items, column.together.drawn, column.at_least) == (0, (), ())


async def again(path, number, scores, **given):
    """Another scoring pass of a run."""
    with Writer(path) as writer, Reader(path) as reader:
        scoring_pass = new_pass(writer, number, config(**given))
        for row in reader.all_rows(number):
            await writer.scored(row.id, scoring_pass, [judged("Match", scores(row.repeat))], row.status, None)


async def test_the_noise_of_answers_and_of_judgings_are_told_apart(stored, found, path):
    number = await stored(once("pass", "pass"), scores=lambda cell: 0.2 + 0.6 * cell[1])
    (alone,) = found(number).columns
    assert alone.noise["Match"].judge is None
    assert alone.noise["Match"].model == pytest.approx((0.18) ** 0.5)
    await again(path, number, lambda repeat: 0.3 + 0.6 * repeat, cached=False)
    both = found(number)
    assert both.passes == (1, 2)
    assert both.columns[0].noise["Match"].judge == pytest.approx(0.005**0.5)
    assert both.columns[0].noise["Match"].model == pytest.approx((0.18 - 0.0025) ** 0.5)


async def test_the_judgings_of_another_judge_are_no_noise(stored, found, path):
    number = await stored(once("pass"))
    await again(path, number, lambda repeat: 0.1, cached=False, judge={"name": "k", "model": "m"})
    other = found(number)
    assert other.passes == (2,) and other.columns[0].noise == {}


@pytest.mark.parametrize(
    ("configs", "counts", "expected"),
    [
        ([config()], 1, (1,)),
        ([config(), config(False)], 2, (1, 2)),
        ([config(), config(), config(False)], 3, (1, 3)),
        ([config(), config(), config(False)], 2, (2, 3)),
        ([config(False), config(False), config(False)], 3, (1, 2, 3)),
        ([config(), config(False, judge=None)], 2, (2,)),
        ([config(), config(False, judge=None)], 1, (1,)),
        ([config(), config(False, dataset="another")], 2, (2,)),
        ([config(), config(False, without_judges=True)], 2, (2,)),
        ([config(), config(False, dataset="another"), config(False)], 3, (1, 3)),
    ],
)
def test_judgings_are_repeats_only_of_the_same_judge_and_dataset_and_outside_of_the_cache(configs, counts, expected):
    assert comparable_passes(run(scoring_pass=counts, config=configs[0]), passes(*configs)) == expected


def test_a_pass_that_does_not_say_how_it_judged_repeats_none():
    kept = run(scoring_pass=2, config=config())
    assert comparable_passes(kept, passes(config(), {"judge": "j"})) == (2,)
