"""What became of answers, and how large a difference is, in words."""

from typing import get_args

import pytest

from tests.present.rows import a_run
from tests.tui.comparisons import side
from tui_evals.compare.measures import MeasuredDifference
from tui_evals.compare.sides import Kind, Usage
from tui_evals.figures import Interval
from tui_evals.present.comparisons import (
    KIND_LOOKS,
    baseline_phrases,
    chance,
    difference_text,
    stop_notes,
    usage_lines,
)


def a_difference(before, after, adjusted=0.5, direction=1, what="Match", **given):
    return MeasuredDifference(
        **{
            "what": what,
            "column": "",
            "items": 1200,
            "before": before,
            "after": after,
            "interval": None,
            "p": adjusted,
            "adjusted": adjusted,
            "needed": None,
            "direction": direction,
            **given,
        }
    )


def test_every_kind_has_a_glyph_and_its_word():
    assert set(KIND_LOOKS) == set(get_args(Kind))
    assert all(look.word == kind for kind, look in KIND_LOOKS.items())
    assert len({look.glyph for look in KIND_LOOKS.values()}) == len(KIND_LOOKS)


@pytest.mark.parametrize(
    ("test", "verdict", "tone"),
    [
        (a_difference(0.5, 0.5), "equal", ""),
        (a_difference(0.5, 0.6), "could be chance", ""),
        (a_difference(0.5, 0.6, 0.0001), "better", "ok"),
        (a_difference(0.5, 0.6, 0.0001, direction=-1), "worse", "bad"),
        (a_difference(0.5, 0.6, 0.0001, direction=0), "differs", ""),
    ],
)
def test_a_difference_is_better_or_worse_only_where_it_is_not_chance(test, verdict, tone):
    found = difference_text(test)
    assert (found.verdict, found.tone, found.items) == (verdict, tone, "1,200")


def test_without_a_common_item_nothing_is_said_of_the_baseline_and_no_difference_is_no_better():
    assert baseline_phrases(a_difference(0, 0, items=0), "b-1")[0] == "nothing to compare with b-1"
    assert baseline_phrases(a_difference(0.5, 0.5), "b-1")[0] == "no difference to b-1"


def test_rates_are_in_percent_and_scores_have_as_many_decimals_as_it_takes():
    rate = difference_text(a_difference(0.5, 0.75, what="", interval=Interval(-0.1, 0.6)))
    assert (rate.name, rate.before, rate.after, rate.difference, rate.interval) == (
        *("passes", "50.0 %", "75.0 %", "+25.0 pts", "-10.0 to 60.0"),
    )
    small = difference_text(a_difference(0.00012, 0.00013))
    assert (small.before, small.after, small.interval) == ("0.000120", "0.000130", "")


def test_chance_is_never_rounded_to_nothing():
    assert [chance(p) for p in (0.00001, 0.049, 0.5)] == ["<0.001", "0.049", "0.50"]


def test_only_runs_that_stopped_need_a_note():
    assert list(stop_notes([a_run(), a_run()])) == []
    assert list(stop_notes([a_run(), a_run(message="it was killed")])) == ["B stopped: it was killed"]


def test_what_runs_took_stands_side_by_side_for_all_targets_and_each():
    """Cost with its judges, tokens and the median time; a plus sign says that some calls have no known price."""

    def used(cost, unpriced=0, latency=1.5, cached=0):
        return Usage(20, cached, cost, unpriced, 1200, 300, latency)

    one = side(1, usage={"": used(0.5), "a": used(0.5)})
    assert list(usage_lines([one, one])) == [
        "20 shared answers: cost $0.500 → $0.500 · tokens 1.5k → 1.5k · median latency 1.5 s → 1.5 s"
    ]
    two = side(2, usage={"": used(0.75, 1), "a": used(0.25), "b": used(0.5, 1, None)})
    assert list(usage_lines([one, two]))[1:] == [
        "a, 20 shared answers: cost $0.500 → $0.250 · tokens 1.5k → 1.5k · median latency 1.5 s → 1.5 s",
        "b, 20 shared answers: cost – → $0.500+ · tokens – → 1.5k · median latency – → –",
    ]
    assert not list(usage_lines([side(1), side(2)]))
    cached = side(2, usage={"": used(0.0, 0, None, 20)})
    assert list(usage_lines([side(1, usage={"": used(0.5)}), cached])) == [
        "20 shared answers: cost $0.500 → $0 · tokens 1.5k → 1.5k · median latency 1.5 s → cached"
        " · from the cache 0 → 20"
    ]
