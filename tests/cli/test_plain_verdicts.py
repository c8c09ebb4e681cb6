"""Comparisons say better, worse or chance in plain words."""

import json
import re
from math import ceil, sqrt
from random import Random
from statistics import NormalDist

import pytest

from tests.cli.past import Said, past
from tests.reports.written import report_text
from tui_evals.figures import items_needed, paired_test
from tui_evals.store.reader import Reader

HIDDEN = re.compile(r"\b(not )?shown\b|chance alone gives a gap")
CERTAIN, OPEN = ((0, 0), (0, 9)), ((0, 100), (10, 116))
"""The first and the last item that pass, in each run."""


@pytest.fixture
def two_runs(tmp_path, monkeypatch):
    """Two runs of 200 items, of which those in a range pass."""
    monkeypatch.chdir(tmp_path)
    statuses = {True: "pass", False: "fail"}
    return lambda *runs: [
        past(*(Said(f"t{n}", statuses[low <= n < high]) for n in range(200))).key for low, high in runs
    ]


def faces(shell, keys):
    yield shell("compare", *keys).out
    yield shell("compare", *keys, "--json").out
    yield shell("trend").out
    with Reader(".evals/evals.db") as reader:
        runs = [reader.find_run(key) for key in keys]
        yield from (report_text(kind, reader, runs) for kind in ("md", "html"))


@pytest.mark.nightly
def test_a_better_run_is_called_better(shell, two_runs):
    keys = two_runs(*CERTAIN)
    command, data, trend, *files = (" ".join(text.split()) for text in faces(shell, keys))
    for text in (command, data, *files):
        assert "B is better: 9 more of 200 items pass (p = 0.004)" in text
    assert f"{keys[1]} is better than {keys[0]}: 9 more of 200 items pass (p = 0.004)" in trend
    for text in (command, trend, files[0]):
        assert not HIDDEN.search(text)


@pytest.mark.nightly
@pytest.mark.story
def test_what_could_be_chance_is_called_so_with_how_many_items_would_tell(shell, two_runs):
    keys = two_runs(*OPEN)
    (against,) = json.loads(shell("compare", *keys, "--json").out)["against"]
    assert (against["broken"], against["fixed"], against["passes"]["shown"]) == (10, 16, False)
    for text in (" ".join(text.split()) for text in faces(shell, keys)):
        assert "could be chance (p = 0.33); about 1,200 items would tell" in text


def test_the_page_of_words_explains_p(shell):
    assert "equal" in shell("help", "p").out and "3 of" in shell("help", "p").out
    assert "too few items to tell" in " ".join(shell("help", "could be chance").out.split())
    assert not HIDDEN.search(shell("help", "words").out)


@pytest.mark.parametrize(("broken", "fixed", "same"), [(10, 16, 174), (3, 9, 48), (30, 50, 920)])
def test_how_many_items_would_tell_follows_from_the_pairs_that_disagree(broken, fixed, same):
    """Miettinen's formula for the paired test, from the shares of pairs that disagree and of their surplus."""
    items = broken + fixed + same
    share, surplus = (broken + fixed) / items, (fixed - broken) / items
    normal = NormalDist()
    root = (normal.inv_cdf(0.975) * sqrt(share) + normal.inv_cdf(0.8) * sqrt(share - surplus**2)) / surplus
    differences = [-1.0] * broken + [1.0] * fixed + [0.0] * same
    assert items_needed(differences) == ceil(root**2)


def test_so_many_items_tell_in_four_of_five_cases():
    differences = [-1.0] * 10 + [1.0] * 25 + [0.0] * 65
    random, count = Random(3), items_needed(differences)
    told = sum(paired_test(random.choices(differences, k=count)) < 0.05 for _ in range(400)) / 400
    assert 0.72 < told < 0.88
