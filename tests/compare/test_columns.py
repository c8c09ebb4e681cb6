"""Two columns of a run compared say what two runs say that asked the same of one target each."""

import pytest

from tests.cli.past import Said, past
from tests.store.helpers import judged
from tui_evals.compare.runs import read_columns, read_comparison
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
    columns, runs = read_columns(reader, 1, ((0, 0), (0, 1))), read_comparison(reader, [2, 3])
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
    there, back = (read_columns(reader, 1, pair).against[0].passes for pair in (((0, 0), (0, 1)), ((0, 1), (0, 0))))
    assert there.difference == -back.difference != 0
