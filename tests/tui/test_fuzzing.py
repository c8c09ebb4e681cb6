"""Random keys, clicks, pastes and resizes in two workbenches on one file end in no traceback and lose nothing."""

import random
import time
from types import SimpleNamespace

import pytest

from tests.tui.fuzzing import Fuzzing, events

ITEMS = [
    {"testId": "A-1", "prompt": "first"},
    {"testId": "A-2", "turns": [{"prompt": "one"}, {"prompt": "two"}]},
    {"prompt": "no id"},
]
TREE = [
    " •data.json 3 items !1",
    "▪   A-1 first                                     !1",
    " •▾ A-2 2 turns",
    "     1 one",
    "     2 two",
    "    #3  no id",
    "",
]


def test_a_seed_always_sends_the_same():
    first, again, other = (list(events(random.Random(seed), 300)) for seed in (1, 1, 2))
    assert first == again != other
    assert len({*first}) > 60


@pytest.mark.parametrize(
    ("tree", "shown"),
    [
        (TREE, True),
        ([*TREE[:1], *TREE[2:]], False),
        ([*TREE[:3], "     1 won", *TREE[4:]], False),
        ([TREE[0], TREE[2], *TREE[3:5], TREE[1], *TREE[5:]], False),
        ([], False),
    ],
)
def test_a_screen_that_shows_something_else_than_the_file_is_told_from_one_that_shows_it(tree, shown):
    window = SimpleNamespace(tree=tree, press=lambda keys, quiet: None)
    assert Fuzzing._is_shown(window, {"items": ITEMS}) is shown


@pytest.mark.story
def test_two_workbenches_and_their_file_agree_after_random_keys(tmp_path):
    Fuzzing(tmp_path, seed=20261128).run(200, each=100)


@pytest.mark.nightly
def test_two_workbenches_and_their_file_agree_after_20_000_random_keys(tmp_path):
    Fuzzing(tmp_path, seed=int(time.strftime("%Y%m%d"))).run(20_000)
