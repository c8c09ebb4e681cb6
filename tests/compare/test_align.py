"""Which pieces belong together: exact where affordable, coarse and honest where not."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import LCSseq

from tui_evals.compare import diff
from tui_evals.compare.diff import AlignBudget, align_positions, gaps_between, match_pieces

pieces = st.lists(st.sampled_from("abcde"), max_size=30)


def longest(left, right):
    row = [0] * (len(right) + 1)
    for a in left:
        last = row
        row = [0]
        for j, b in enumerate(right):
            row.append(last[j] + 1 if a == b else max(last[j + 1], row[j]))
    return row[-1]


def check(pairs, left, right):
    assert all(left[i] == right[j] for i, j in pairs)
    assert all(i < k and j < m for (i, j), (k, m) in pairwise(pairs))


@given(pieces, pieces)
def test_as_many_equal_pieces_as_can_be(left, right):
    work = AlignBudget()
    pairs = match_pieces(left, right, work)
    check(pairs, left, right)
    assert len(pairs) == longest(left, right)
    assert not work.coarse


@given(pieces, pieces)
def test_swapped_texts_get_the_same_pairs(left, right):
    assert match_pieces(right, left, AlignBudget()) == [(j, i) for i, j in match_pieces(left, right, AlignBudget())]


@given(pieces, pieces, st.integers(0, 3))
def test_without_work_to_spend_pairs_are_still_right(left, right, tables):
    work = AlignBudget(left=tables * diff.TABLE_COST)
    pairs = match_pieces(left, right, work)
    check(pairs, left, right)
    assert work.left >= 0
    assert not (work.coarse and (left == right or not set(left) & set(right)))


def test_a_table_that_is_too_large_is_cut_at_what_stands_once(monkeypatch):
    monkeypatch.setattr(diff, "MAX_TABLE", 9)
    left, right = list("xabUcdVefy"), list("zbaUdcVfew")
    work = AlignBudget()
    pairs = match_pieces(left, right, work)
    assert {(3, 3), (6, 6)} < set(pairs)
    assert len(pairs) == longest(left, right)
    assert not work.coarse


def test_what_stands_once_may_be_several_pieces_in_a_row(monkeypatch):
    monkeypatch.setattr(diff, "MAX_TABLE", 40)
    left, right = list("ababab" + "abba" + "ababab"), list("bababab" + "abba" + "bababa")
    work = AlignBudget()
    check(match_pieces(left, right, work), left, right)
    assert (6, 7) in match_pieces(left, right, work)


def test_past_the_bound_pieces_are_paired_by_place_and_it_is_said(monkeypatch):
    monkeypatch.setattr(diff, "MAX_TABLE", 3)
    left, right = list("xaabbaay"), list("zabbabaw")
    work = AlignBudget()
    pairs = match_pieces(left, right, work)
    assert work.coarse
    assert pairs
    check(pairs, left, right)


@pytest.mark.parametrize("kinds", [1, 2, 50, 30_000])
def test_all_tables_together_stay_within_the_bound(monkeypatch, kinds):
    cells = []

    def spy(left, right):
        cells.append(len(left) * len(right))
        return opcodes(left, right)

    opcodes = LCSseq.opcodes
    monkeypatch.setattr(LCSseq, "opcodes", spy)
    left = [str(i * i * 7 % (kinds + 1)) for i in range(20_000)]
    right = [str(i * i * i % (kinds + 1)) for i in range(20_000)]
    check(match_pieces(left, right, AlignBudget()), left, right)
    assert max(cells, default=0) <= diff.MAX_TABLE
    assert sum(cells) <= diff.MAX_WORK


@given(pieces, pieces)
def test_every_position_faces_something_once(left, right):
    pairs = match_pieces(left, right, AlignBudget())
    faced = list(align_positions(pairs, len(left), len(right)))
    assert [i for i, _ in faced if i is not None] == list(range(len(left)))
    assert [j for _, j in faced if j is not None] == list(range(len(right)))
    assert set(pairs) <= set(faced)
    assert (None, None) not in faced


def test_gaps_are_what_lies_before_between_and_after():
    assert list(gaps_between([(1, 0), (2, 3)], 4, 4)) == [(0, 1, 0, 0), (2, 2, 1, 3), (3, 4, 4, 4)]
