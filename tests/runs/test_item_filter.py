"""A filter over items: the language that filters answers, without a run and without a screen."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.helpers import new_run
from tui_evals.runs.selection import AboutAnswers, ItemFilter, searched_item
from tui_evals.store.database import open_store
from tui_evals.store.filters import FilterError, parse_filter
from tui_evals.store.reader import Reader
from tui_evals.store.records import PlannedAnswer
from tui_evals.store.writer import Writer

ITEMS = [
    {"testId": "MT-1", "prompt": "Hello there", "category": "Safety", "tags": ["smoke", "Old"]},
    {"turns": [{"prompt": "first question", "tags": ["deep"]}, {"prompt": "second"}]},
    {"testId": "MT-3", "prompt": "Bye 100%", "category": "Tone of voice", "name": "A farewell"},
    {"testId": "MT-4", "prompt": "Again: pass the salt", "category": "safety"},
    "no item at all",
]
STATUSES = {0: "pass", 1: "fail", 2: "error"}


def found(text, items=ITEMS):
    return ItemFilter(text).numbers([searched_item(item) for item in items], STATUSES.get)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", [0, 1, 2, 3, 4]),
        ("again SALT", [3]),
        ("!again !hello", [1, 2, 4]),
        ("second", [1]),
        ("farewell", [2]),
        ('"first question"', [1]),
        ('"question first"', []),
        ("hel*there", [0]),
        ("there*hel", []),
        ("#2", [1]),
        ("mt-", [0, 2, 3]),
        ("category:safety", [0, 3]),
        ("category:saf", []),
        ("category:saf*", [0, 3]),
        ('category:"tone of voice"', [2]),
        ("!category:safety", [1, 2, 4]),
        ("tag:old", [0]),
        ("tag:deep", [1]),
        ("!tag:*", [2, 3, 4]),
        ("id:mt-*", [0, 2, 3]),
        ("id:*4", [3]),
        ("id:#2", [1]),
        ("status:pass", [0]),
        ("failed", [1]),
        ("!pass", [1, 2, 3, 4]),
        ('"pass"', [3]),
        ("category:safety !pass", [3]),
    ],
)
def test_all_terms_must_fit(text, numbers):
    assert found(text) == numbers


@pytest.mark.parametrize(
    "text", ["score:<50", "evaluator:x", "empty", "flaky", "length", "turn:1", "cause:x", "target:x"]
)
def test_what_looks_at_answers_says_so(text):
    with pytest.raises(AboutAnswers, match="looks at answers"):
        ItemFilter(text)


@pytest.mark.parametrize("text", ["colour:red", "category:", '"open', "status:nope", "!"])
def test_what_cannot_be_read_says_so(text):
    with pytest.raises(FilterError):
        ItemFilter(text)


@pytest.mark.parametrize(
    "text", ["category:safety", "category:saf*", "!category:*", "id:MT-*", "id:#2", "tag:smoke", "tag:dee*", "!tag:old"]
)
def test_it_is_the_language_that_filters_answers(store_of_items, text):
    with Reader(store_of_items) as reader:
        answers = {row.item for row in reader.rows(reader.ids(1, parse_filter(text)))}
    assert answers == set(found(text, ITEMS[:4]))


@pytest.fixture(scope="module")
def store_of_items(tmp_path_factory):
    path = open_store(tmp_path_factory.mktemp("store") / "evals.db")
    with Writer(path) as writer:
        snapshot = writer.snapshot({"items": ITEMS[:4]}, "evals.json")
        planned = [
            PlannedAnswer(n, n, 0, 0, 0, 0, item.get("testId") or f"#{n + 1}", item.get("category", ""))
            for n, item in enumerate(ITEMS[:4])
        ]
        writer.plan(new_run(snapshot=snapshot), planned)
    return path


@given(st.text(alphabet="ab*", min_size=1, max_size=8), st.text(alphabet="ab", max_size=10))
def test_a_star_stands_for_anything(pattern, name):
    item = searched_item({"testId": name or None, "prompt": name})
    expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None
    assert (ItemFilter(f'category:"{pattern}"').numbers([searched_item({"category": name})]) == [0]) is expected
    held = re.search(".*".join(map(re.escape, pattern.split("*"))), item.text, re.DOTALL) is not None
    assert (ItemFilter(f'"{pattern}"').numbers([item]) == [0]) is held


def test_ten_thousand_items_are_searched_at_once():
    items = [
        searched_item({"testId": f"T-{n}", "prompt": "some question " * 20, "category": f"c{n % 7}", "tags": ["a"]})
        for n in range(10_000)
    ]
    wanted = ItemFilter("question !zzz category:c* tag:a id:T-* pass")
    start = time.process_time()
    assert wanted.numbers(items, lambda number: "pass" if number % 2 else None) == list(range(1, 10_000, 2))
    assert time.process_time() - start < 0.5  # some 15 ms; many times that is another way of going about it
