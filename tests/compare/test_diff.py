"""Aligned diffs: nothing is lost, nothing is marked without reason, nothing takes forever."""

import json
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.compare import diff as module
from tui_evals.compare.diff import DiffGap, diff_json, side_by_side, unified_diff

words = st.sampled_from(
    ["alpha", "beta", "gamma", "alpha,", "2.", "end.", "Yes!", "漢字。", "'", " ", "\t", "\n", "\r\n", "\n\n"]
)
prose = st.lists(words, max_size=40).map(lambda parts: " ".join(parts).replace(" \n ", "\n"))
long_prose = prose.map(lambda text: text + "One sentence of many words. " * 20)
texts = prose | long_prose | st.text(max_size=60)

MIRROR = {"same": "same", "changed": "changed", "removed": "added", "added": "removed"}


def left_text(diff):
    return "".join(row.left.text for row in diff.rows if row.left)


def right_text(diff):
    return "".join(row.right.text for row in diff.rows if row.right)


def check(diff, left, right):
    assert left_text(diff) == left
    assert right_text(diff) == right
    for row in diff.rows:
        assert (row.left is None, row.right is None) == (row.kind == "added", row.kind == "removed")
        if row.left and row.right:
            assert (row.kind == "same") == (row.left.text == row.right.text)
            kept = ["".join(span.text for span in side.spans if not span.changed) for side in (row.left, row.right)]
            assert kept[0] == kept[1]
        if row.kind != "same":
            assert any(span.changed for side in (row.left, row.right) if side for span in side.spans)
    for sides in ([row.left for row in diff.rows], [row.right for row in diff.rows]):
        numbers = [side.number for side in sides if side]
        assert numbers == list(range(1, len(numbers) + 1))
    assert diff.same == (left == right)


def shown(diff):
    """Rows in short: changed spans stand in brackets."""

    def side(one):
        return one and "".join(f"[{span.text}]" if span.changed else span.text for span in one.spans)

    return [(side(row.left), side(row.right), row.kind) for row in diff.rows]


@given(texts, texts)
def test_the_spans_of_a_side_are_its_text(left, right):
    check(side_by_side(left, right), left, right)


@given(texts, texts)
def test_swapped_texts_give_the_mirrored_diff(left, right):
    there, back = side_by_side(left, right), side_by_side(right, left)
    assert [(row.right, row.left, MIRROR[row.kind]) for row in back.rows] == [
        (row.left, row.right, row.kind) for row in there.rows
    ]
    assert (there.unit, there.coarse) == (back.unit, back.coarse)


@given(texts)
def test_a_text_does_not_differ_from_itself(text):
    diff = side_by_side(text, text)
    assert diff.same
    assert not diff.coarse
    assert unified_diff(diff) == (
        () if not diff.rows else diff.rows if len(diff.rows) == 1 else (DiffGap(len(diff.rows)),)
    )


@pytest.mark.parametrize(
    ("left", "right", "rows"),
    [
        ("", "", []),
        ("", "a\n", [(None, "[a\n]", "added")]),
        ("a", "a\n", [("a", "a[\n]", "changed")]),
        ("the red fox\n", "the blue fox\n", [("the [red] fox\n", "the [blue] fox\n", "changed")]),
        ("the fox", "the fox runs", [("the fox", "the fox[ runs]", "changed")]),
        ("1 sun set 2", "3 sun set 4", [("[1 ]sun set [2]", "[3 ]sun set [4]", "changed")]),
        (
            "hill lake\nwood road\n",
            "hill lake wood road\n",
            [("[hill lake\n]", None, "removed"), ("wood road\n", "[hill lake ]wood road\n", "changed")],
        ),
        ("a b", "a  b", [("a b", "a [ ]b", "changed")]),
        ("  same words here", "\tsame words here", [("[  ]same words here", "[\t]same words here", "changed")]),
        (
            "x\nkeep\n",
            "keep\ny\n",
            [("[x\n]", None, "removed"), ("keep\n", "keep\n", "same"), (None, "[y\n]", "added")],
        ),
        ("我喜欢红色的花", "我喜欢蓝色的花", [("我喜欢[红]色的花", "我喜欢[蓝]色的花", "changed")]),
        (
            "one of us went on",
            "one thing we did not ask",
            [("[one of us went on]", "[one thing we did not ask]", "changed")],
        ),
    ],
)
def test_rows(left, right, rows):
    assert shown(side_by_side(left, right)) == rows


def test_versions_of_a_line_face_each_other_and_strangers_do_not_push_them_apart():
    left = "Something else entirely\nThe answer is forty two\n"
    right = "The answer is forty three\nA closing remark\n"
    assert [
        (row.left and row.left.number, row.right and row.right.number) for row in side_by_side(left, right).rows
    ] == [
        (1, None),
        (2, 1),
        (None, 2),
    ]


def test_a_long_paragraph_is_read_by_sentences():
    sentences = [f"Sentence number {word} says a thing (or two). " for word in "abcdefghijklmnop"]
    changed = [*sentences]
    changed[5] = "Sentence number f says nothing (or two). "
    del changed[9]
    diff = side_by_side("".join(sentences), "".join(changed))
    assert diff.unit == "sentence"
    assert [row.kind for row in diff.rows].count("same") == 14
    assert [row.kind for row in diff.rows if row.kind != "same"] == ["changed", "removed"]


def test_list_numbers_are_no_sentences():
    diff = side_by_side("1. First. Second.\n10. " + "word " * 100, "")
    assert [row.left.text[:9] for row in diff.rows] == ["1. First.", "Second.\n", "10. word "]


def test_unified_removes_before_it_adds_and_leaves_the_unchanged_out():
    left = (
        "\n".join(f"line {i}" for i in range(30)).replace("line 15", "red fox sits").replace("line 16", "blue fox sits")
    )
    right = (
        "\n".join(f"line {i}" for i in range(30)).replace("line 15", "red fox runs").replace("line 16", "blue fox runs")
    )
    rows = unified_diff(side_by_side(left, right), context=2)
    assert [row.count if isinstance(row, DiffGap) else row.kind for row in rows] == [
        13, "same", "same", "removed", "removed", "added", "added", "same", "same", 11,
    ]  # fmt: skip
    assert [row.left.number for row in rows[3:5]] == [row.right.number for row in rows[5:7]] == [16, 17]


@given(prose, prose, st.integers(0, 3))
def test_unified_rows_and_gaps_cover_every_line(left, right, context):
    diff = side_by_side(left, right)
    rows = unified_diff(diff, context)
    hidden = sum(row.count for row in rows if isinstance(row, DiffGap))
    seen = [row for row in rows if not isinstance(row, DiffGap)]
    assert sum(row.left is not None for row in seen) + hidden == sum(row.left is not None for row in diff.rows)
    assert sum(row.right is not None for row in seen) + hidden == sum(row.right is not None for row in diff.rows)
    assert all(row.count > 1 for row in rows if isinstance(row, DiffGap))


def test_json_is_compared_whatever_its_spelling():
    left, right = '{"b": [1, 2], "a": "x"}', '{\n "a": "x",\n "b": [1, 2, 3]\n}'
    diff = diff_json(left, right)
    assert diff.unit == "json"
    assert [(one.path, one.kind) for one in diff.changes] == [("$.b[2]", "added")]
    assert [row.kind for row in diff.rows if row.kind != "same"] == ["added"]
    assert diff_json(left, json.dumps(json.loads(left), indent=4)).same


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("{", "{}"),
        ("[]", "a\n"),
        ("1", "1 "),
        ('{"a": 1, "a": 2}', "{}"),
        ("[1e999]", "[2e999]"),
        ("[NaN]", "[]"),
        ("[" * 5_000 + "]" * 5_000, "[]"),
        ("[" * 900 + "1" + "]" * 900, "prose"),
    ],
    ids=range(8),
)
def test_what_is_not_json_is_compared_as_text(left, right):
    for one, other in ((left, right), (right, left)):
        diff = diff_json(one, other)
        assert diff.unit != "json"
        check(diff, one, other)


def test_too_much_json_is_compared_as_text_and_that_is_said(monkeypatch):
    monkeypatch.setattr(module, "_MAX_JSON", 10)
    diff = diff_json("[1,2,3,4,5]", "[1]")
    assert (diff.unit, diff.coarse, diff.changes) == ("line", True, ())


def test_changes_past_the_bound_are_left_out_and_that_is_said():
    diff = diff_json(json.dumps([0] * 1_001), json.dumps([1] * 1_001))
    assert (len(diff.changes), diff.coarse) == (1_000, True)


LINES = [f"line {i} of {i * i % 97} and {i * i % 89}" for i in range(30_000)]
HOSTILE = {
    "wholly different": ("\n".join(LINES), "\n".join(line.replace(" ", "z") for line in LINES)),
    "every line changed": ("\n".join(LINES), "\n".join(line + " more" for line in LINES)),
    "repeated lines": ("a\n" * 50_000, "b\n" + "a\n" * 40_000 + "c\n"),
    "few kinds of lines": (
        "".join("abcde"[i * i % 5] + "\n" for i in range(30_000)),
        "".join("abcde"[i * i * i % 7 % 5] + "\n" for i in range(30_000)),
    ),
    "one line of words": (" ".join(LINES), " ".join(reversed(LINES))),
    "one word": ("a" * 1_000_000, "a" * 500_000 + "b" * 500_000),
    "stops": ("." * 1_000_000, ". " * 100_000),
    "quotes": ('."' + '"' * 1_000_000, '".' * 10_000),
    "spaces": (" " * 1_000_000, " " * 999_999 + "x"),
    "line breaks": ("\n" * 70_000, "\r\n" * 70_000),
}


@pytest.mark.story
@pytest.mark.cases(5)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_end_soon_and_lose_nothing(name):
    left, right = HOSTILE[name]
    started = time.process_time()
    diff = side_by_side(left, right)
    assert time.process_time() - started < 10  # one or two seconds on a slow machine; what hangs takes minutes
    assert (left_text(diff), right_text(diff)) == (left, right)


def test_coarse_is_said_and_still_marks_only_the_middle():
    line = "word " * 200_000
    changed = line[:500_000] + "other " + line[500_000:]
    exact = side_by_side(line, changed)
    assert not exact.coarse
    assert shown(exact)[0][1].count("[") == 1
    scattered = changed.replace("word word word ", "word ward word ")
    rough = side_by_side(line + "end", "start " + scattered + "end")
    assert rough.coarse
    check(rough, line + "end", "start " + scattered + "end")


@pytest.mark.nightly
def test_memory_grows_with_the_text_and_not_with_its_square():
    def peak(count):
        left, right = "\n".join(LINES[:count]), "\n".join(line + "!" for line in LINES[:count])
        tracemalloc.start()
        try:
            assert not side_by_side(left, right).same
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(1_600) < 6 * peak(400)
