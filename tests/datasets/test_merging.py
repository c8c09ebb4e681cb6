"""Two people's edits of one dataset are put together, and nothing of either is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.datasets.test_steps import dataset, datasets, some_step
from tui_evals.datasets.merging import ABSENT, merge, paired
from tui_evals.datasets.paths import CannotEdit, same_data


def edited(data, draw):
    for _ in range(draw(st.integers(0, 3))):
        step, *arguments = draw(some_step(data))
        try:
            data = step(data, *arguments)
        except CannotEdit:
            continue
    return data


def leaves(node):
    """Every value of a document, however deep: what could be lost."""
    if isinstance(node, dict):
        return {(name, value) for name, child in node.items() for _, value in leaves(child) | {(name, "")}}
    if isinstance(node, list):
        return {leaf for child in node for leaf in leaves(child)}
    return {("", repr(node))}


@given(st.data())
def test_what_only_one_side_did_is_what_comes_out(data):
    base = data.draw(datasets)
    other = edited(base, data.draw)
    for one in (merge(base, base, other), merge(base, other, base), merge(base, other, other)):
        assert one.conflicts == ()
        assert same_data(one.settled(), other)


@given(st.data())
def test_nothing_that_either_side_wrote_is_lost(data):
    base = data.draw(datasets)
    mine, theirs = edited(base, data.draw), edited(base, data.draw)
    merged = merge(base, mine, theirs)
    everything = range(len(merged.conflicts))
    kept = leaves(merged.settled()) | leaves(merged.settled(everything))
    assert leaves(mine) - leaves(base) <= kept and leaves(theirs) - leaves(base) <= kept
    again = merge(base, theirs, mine)
    assert len(again.conflicts) == len(merged.conflicts)
    for conflict in merged.conflicts:
        assert not same_data(conflict.mine, conflict.theirs)
        assert not same_data(conflict.mine, conflict.base) and not same_data(conflict.theirs, conflict.base)


BASE = dataset({"testId": "a", "prompt": "one", "notes": "n"}, {"testId": "b", "prompt": "two"}, {"prompt": "no name"})


def items(*changes):
    found = [dict(item) for item in BASE["items"]]
    for number, fields in changes:
        found[number] |= fields
    return {**BASE, "items": found}


def test_other_fields_of_the_same_item_are_no_conflict():
    theirs = items((0, {"notes": "theirs"}), (2, {"context": "c"}))
    theirs["items"].insert(0, {"prompt": "new of theirs"})
    mine = items((0, {"prompt": "mine"}), (2, {"notes": "m"}))
    mine["items"].append({"prompt": "new of mine"})
    del mine["items"][1]
    merged = merge(BASE, mine, theirs)
    assert merged.conflicts == ()
    assert merged.settled()["items"] == [
        {"prompt": "new of theirs"},
        {"testId": "a", "prompt": "mine", "notes": "theirs"},
        {"prompt": "no name", "context": "c", "notes": "m"},
        {"prompt": "new of mine"},
    ]


def test_the_same_field_is_a_conflict_and_the_side_chosen_holds():
    mine, theirs = items((0, {"prompt": "mine"})), items((0, {"prompt": "theirs", "notes": "more"}))
    theirs["description"] = "of theirs"
    merged = merge(BASE, mine, theirs)
    [conflict] = merged.conflicts
    assert conflict.path == ("items", 0, "prompt")
    assert (conflict.base, conflict.mine, conflict.theirs) == ("one", "mine", "theirs")
    assert merged.settled()["items"][0] == {"testId": "a", "prompt": "mine", "notes": "more"}
    assert merged.settled([0])["items"][0]["prompt"] == "theirs"
    assert merged.settled()["description"] == "of theirs"


def test_an_item_that_one_deleted_and_the_other_changed_is_asked_about():
    mine, theirs = items(), items((0, {"prompt": "theirs"}), (1, {"prompt": "too"}))
    del mine["items"][:2]
    merged = merge(BASE, mine, theirs)
    assert [(one.path, one.mine) for one in merged.conflicts] == [(("items", 0), ABSENT), (("items", 1), ABSENT)]
    assert merged.settled()["items"] == mine["items"]
    assert merged.settled([1])["items"] == theirs["items"][1:]
    assert same_data(merged.settled([0, 1]), theirs)


def test_moving_on_one_side_and_editing_on_the_other_go_together():
    moved = {**BASE, "items": [BASE["items"][number] for number in (2, 0, 1)]}
    theirs = items((1, {"prompt": "edited"}))
    for merged in (merge(BASE, moved, theirs), merge(BASE, theirs, moved)):
        assert [item["prompt"] for item in merged.settled()["items"]] == ["no name", "one", "edited"]


def test_an_item_without_a_name_is_known_by_what_stays_of_it():
    old = [{"prompt": "a"}, {"prompt": "b", "notes": "n"}, {"prompt": "c"}]
    new = [{"prompt": "new"}, {"prompt": "a"}, {"prompt": "b, but better", "notes": "n"}, {"prompt": "c"}]
    assert paired(old, new) == {0: 1, 1: 2, 2: 3}
    assert paired([{"prompt": "a"}], [{"prompt": "b"}]) == {0: 0}
    assert paired([{"prompt": "a"}], [{"prompt": "b"}, {"prompt": "c"}]) == {}
