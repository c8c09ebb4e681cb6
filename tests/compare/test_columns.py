"""Two columns of a run compared say what two runs say that asked the same of one target each."""

import pytest

from tests.cli.past import Said, past
from tests.store.helpers import judged
from tui_evals.compare.runs import read_columns, read_comparison, regions_faced
from tui_evals.store.reader import Reader

LEFT = ["pass"] * 6 + ["fail"] * 2 + ["scored"]
RIGHT = ["fail"] * 5 + ["pass"] * 3 + ["scored"]


def said(verdicts, target=0):
    return [
        Said(f"i{n // 2}", verdict, f"{verdict} {n}", target=target, repeat=n % 2, scores=scores_of(verdict))
        for n, verdict in enumerate(verdicts)
    ]


def scores_of(verdict):
    return (judged("Tone", None, label="warm"),) if verdict == "scored" else None


@pytest.fixture
def reader(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".evals").mkdir()
    past(*said(LEFT), *said(RIGHT, target=1), targets=("one", "two"))
    past(*said(LEFT), targets=("one",))
    past(*said(RIGHT), targets=("two",))
    with Reader(tmp_path / ".evals" / "evals.db") as reader:
        yield reader


def without_ids(comparison):
    return [(line.item, line.repeat, line.kinds, line.column, line.how) for line in comparison.lines]


@pytest.mark.story
def test_the_columns_of_a_run_have_the_statistics_of_two_runs(reader):
    columns, runs = read_columns(reader, 1, (((0, 0),), ((0, 1),))), read_comparison(reader, [2, 3])
    assert columns.against == runs.against
    assert without_ids(columns) == without_ids(runs)
    assert [one.figures for one in columns.rates] == [one.figures for one in runs.rates]
    for own, other in zip(columns.sides, runs.sides, strict=True):
        assert (own.usage[""], own.scores, own.measures, own.labels) == (
            other.usage[""],
            other.scores,
            other.measures,
            other.labels,
        )
    assert [side.run.name for side in columns.sides] == ["one", "two"]


@pytest.mark.story
def test_the_column_named_first_is_the_one_the_other_is_held_against(reader):
    one, other = ((0, 0),), ((0, 1),)
    there, back = (read_columns(reader, 1, pair).against[0].passes for pair in ((one, other), (other, one)))
    assert there.difference == -back.difference != 0


@pytest.fixture
def grid(tmp_path, monkeypatch):
    """A run of two prompts and two targets, and its halves by prompt and by target as runs of their own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".evals").mkdir()
    verdicts = {(0, 0): LEFT, (0, 1): RIGHT, (1, 0): RIGHT[::-1], (1, 1): LEFT[::-1]}

    def part(columns):
        return [
            Said(f"i{n}", verdict, f"{verdict} {n} {place}", prompt=number[0], target=number[1])
            for place, number in columns.items()
            for n, verdict in enumerate(verdicts[place])
        ]

    past(*part({place: place for place in verdicts}), prompts=("terse", "chatty"), targets=("one", "two"))
    for prompt in (0, 1):
        past(*part({(prompt, target): (0, target) for target in (0, 1)}), targets=("one", "two"))
    with Reader(tmp_path / ".evals" / "evals.db") as reader:
        yield reader


TERSE, CHATTY = ((0, 0), (0, 1)), ((1, 1), (1, 0))


def test_a_prompt_over_all_targets_is_compared_with_another_as_two_runs_are(grid):
    regions, runs = read_columns(grid, 1, (TERSE, CHATTY)), read_comparison(grid, [2, 3])
    assert regions.against == runs.against
    assert [(line.item, line.column, line.kinds) for line in regions.lines] == [
        (line.item, line.column, line.kinds) for line in runs.lines
    ]
    assert [one.figures for one in regions.rates] == [one.figures for one in runs.rates]
    assert [side.usage for side in regions.sides] == [side.usage for side in runs.sides]
    assert [side.run.name for side in regions.sides] == ["terse", "chatty"]


def test_columns_are_called_by_what_they_share_with_those_they_face(grid):
    for one, other, names in (
        (TERSE, CHATTY, {"one", "two"}),
        (((0, 0), (1, 0)), ((0, 1), (1, 1)), {"terse", "chatty"}),
    ):
        assert {line.column for line in read_columns(grid, 1, (one, other)).lines} == names
    crossed = read_columns(grid, 1, (((0, 0),), ((1, 1),)))
    assert crossed.sides[0].run.targets == ("one",) and len(crossed.lines) == len(LEFT)


@pytest.mark.parametrize(
    ("one", "other", "says"),
    [
        (TERSE, CHATTY, (TERSE, ((1, 0), (1, 1)))),
        (((0, 0), (1, 0)), ((1, 1), (0, 1)), (((0, 0), (1, 0)), ((0, 1), (1, 1)))),
        (((0, 0),), ((1, 1),), (((0, 0),), ((1, 1),))),
        (TERSE, ((1, 1),), (((0, 1),), ((1, 1),))),
        (((0, 2), (1, 2)), ((1, 0), (0, 1), (2, 1)), (((0, 2), (1, 2)), ((0, 1), (1, 0)))),
        (TERSE, ((1, 2),), "A has 2 columns and B 1, and no target or prompt is in both"),
        (TERSE, TERSE, "2 columns would be compared with itself"),
    ],
)
def test_regions_face_by_what_they_share_and_others_are_refused_in_words(one, other, says):
    assert regions_faced(one, other) == says


def test_of_regions_of_different_size_the_columns_that_face_each_other_are_compared_and_counted(grid):
    some, alone = read_columns(grid, 1, (TERSE, ((1, 1),))), read_columns(grid, 1, (((0, 1),), ((1, 1),)))
    assert [side.run.name for side in some.sides] == ["terse (1 of 2 columns)", alone.sides[1].run.name]
    assert some.against == alone.against and some.lines == alone.lines
    assert [side.run.total for side in some.sides] == [side.run.total for side in alone.sides]
