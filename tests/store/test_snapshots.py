"""A stored dataset is the same whether it is parsed at once or item by item."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.helpers import cells, new_run
from tests.store.passes import new_pass
from tui_evals.store.database import open_store
from tui_evals.store.lookup import stored_dataset
from tui_evals.store.reader import Reader
from tui_evals.store.rows import dumps
from tui_evals.store.writer import Writer

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
ITEMS = st.lists(st.dictionaries(st.text(), VALUES, max_size=4), max_size=5)


@given(st.dictionaries(st.text(), VALUES, max_size=3), ITEMS, st.dictionaries(st.text(), VALUES, max_size=3))
def test_head_and_items_are_the_document(before, items, after):
    document = {**before, "items": items, **{name: value for name, value in after.items() if name != "items"}}
    found = stored_dataset(dumps(document).encode())
    assert found.head == {**document, "items": []}
    assert list(found.head) == list(document)
    assert len(found.items) == len(items)
    assert [*found.items] == items and [found.items[place] for place in reversed(range(len(items)))] == items[::-1]
    assert found.items[1:3] == items[1:3]


@pytest.mark.parametrize("document", ["{}", '{"items": "none"}', ' { "items" : [ ] , "a" : 1 } '])
def test_a_document_without_items_has_none(document):
    assert list(stored_dataset(document.encode()).items) == []


def test_the_items_are_as_the_scoring_that_counts_expects_them(tmp_path):
    path = open_store(tmp_path / ".evals" / "evals.db")
    asked = {
        "name": "é",
        "items": [{"prompt": "日", "expected_response": "a", "turns": [{"prompt": "1"}]}, {"prompt": "b"}],
    }
    edited = {"items": [{"prompt": "x", "turns": [{"expected_response": "1!"}]}, {"prompt": "y", "ideal": ["z"]}]}
    with Writer(path) as writer, Reader(path) as reader:
        run = writer.plan(new_run(snapshot=writer.snapshot(asked, "a.json")), cells(2))
        assert [*reader.dataset(run).items] == asked["items"]
        new_pass(writer, run.id, {"dataset": writer.snapshot(edited, "b.json")})
        run = reader.run(run.id)
        found = reader.dataset(run)
        assert [*found.items] == reader.judged_by(run).document["items"] != asked["items"]
        assert found.head == {"name": "é", "items": []}
