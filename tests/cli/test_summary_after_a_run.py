"""What a person sees after a run on a terminal: what changed, what fails with an example, and what to type next."""

import pytest

from tests.cli.helpers import asked


@pytest.fixture
def summarised(shell, dataset, answers):
    """`summarised(texts)` runs three items whose answers are the texts, and gives the lines of the summary."""

    def run(texts, *more):
        dataset(asked(len(texts)), {"Equals": {}})
        return shell("run", "data.json", "-t", answers(texts), *more).out.splitlines()

    return run


def test_failures_with_an_example_and_three_commands(summarised):
    lines = summarised(["right", "wrong", "wrong"], "--summary")
    text = "\n".join(lines)
    assert "2 of 3 answers fail." in text and "ask 1" in text and "expected" in text
    assert [line.split()[-6:-3] for line in lines if line.startswith("next:")] != []
    assert "--only fail" in lines[-3] and "rerun" in lines[-2] and "ci init" in lines[-1]


def test_the_next_run_says_what_changed_since(summarised):
    summarised(["right", "right", "wrong"])
    lines = summarised(["right", "wrong", "wrong"], "--summary")
    text = "\n".join(lines)
    assert "1 of 3 pass, 2 of 3 in data" in text and "compare" in lines[-1]
    assert len(lines) - next(n for n, line in enumerate(lines) if "2 of 3 in data" in line) <= 20


def test_a_run_without_failures_offers_a_baseline(summarised):
    lines = summarised(["right"], "--summary")
    assert "baseline export" in lines[-2] and "fail" not in lines[-3]


def test_nothing_of_it_where_no_terminal_is(summarised):
    assert not any(line.startswith("next:") for line in summarised(["wrong"]))
