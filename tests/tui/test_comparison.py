"""The rows of a comparison: what the numbers say, which lines there are, and what differs in one."""

import pytest
from rich.cells import cell_len

from tests.tui.comparisons import against, comparison, faced, figure, line, passes, record, side
from tests.tui.stored_runs import HOSTILE, text_of
from tui_evals.compare.failure_map import Change
from tui_evals.compare.runs import KINDS, SharedRates
from tui_evals.store.records import AnswerRecord
from tui_evals.text.safe import safe_line
from tui_evals.tui.answer_context import answer_as_text
from tui_evals.tui.compare.pair import PairView, beside_words, line_rows
from tui_evals.tui.compare.rows import (
    JudgedLine,
    LineRows,
    columns_of,
    empty_lines,
    head_lines,
    line_row,
    lines_of_kinds,
    listed_changes,
    verdict_style,
)

KIND_WORDS = ["✗ broken", "✓ fixed", "~ changed", "= same", "‹ gone", "› new", "? not comparable"]


def fits(rows, width):
    return all(cell_len(safe_line(text)) <= width for text in text_of(rows))


# -- the head


def test_the_head_holds_both_rates_with_their_intervals_the_verdict_and_the_counts():
    both = SharedRates(("demo", "demo"), "", (figure(8, 10), figure(5, 10)))
    found = comparison([line(), line("same")], [against(1)], (side(1), side(2)), columns=(both,))
    text = text_of(head_lines(found, 100, tall=False))
    assert text[0].startswith("A run 1 key1")
    assert "80.0 % of 10 shared items, 95 % interval 48.0–98.2 %" in text[0]
    assert text[1].startswith("B run 2 key2")
    assert "50.0 % of 10 shared items, 95 % interval 21.7–78.3 %" in text[1]
    assert " ".join(text[2:4]).startswith("B passes 1 fewer of 10 items than A: could be chance (p = ")
    assert text[-1].split("   ")[:2] == ["✗ 1 broken", "= 1 same"]


def test_a_small_screen_is_spared_how_many_items_it_would_take():
    found = comparison([line()], [against(1, needed=300)])
    small, tall = (" ".join(text_of(head_lines(found, 100, tall))) for tall in (False, True))
    assert "could be chance" in small and "about 300 items" not in small
    assert "about 300 items would tell" in tall


@pytest.mark.parametrize("runs", [2, 3, 4])
@pytest.mark.parametrize("width", [78, 80])
def test_on_a_small_screen_the_head_takes_few_lines_and_has_every_verdict(runs, width):
    many = tuple(side(number, name="a name that goes on and on and on and on") for number in range(1, runs + 1))
    lines = [line(*(kind,) * (runs - 1), statuses=("pass",) * runs, scores=(1.0,) * runs) for kind in KINDS]
    found = comparison(lines, [against(6)] * (runs - 1), many)
    rows = head_lines(found, width, tall=False)
    assert len(rows) <= 5 and fits(rows, width)
    text = "\n".join(text_of(rows))
    assert text.count("worse") == runs - 1
    assert text.count("✗6 worse") == (runs - 1 if runs > 2 else 0)


def test_a_line_counts_for_every_kind_it_is_of_in_some_run():
    lines = [line("broken", "fixed", statuses=("pass",) * 3, scores=(1.0,) * 3)] * 2
    text = text_of(head_lines(comparison(lines, [against(), against()]), 80, tall=False))
    assert text[-1].split("   ")[:2] == ["✗ 2 broken", "✓ 2 fixed"]


def test_where_there_is_room_each_later_run_has_its_sentence_and_what_evaluators_show_is_said():
    better = passes(0, 6, what="Match", before=0.4, after=0.9)
    found = comparison(
        [line("broken", "same", statuses=("pass",) * 3, scores=(1.0,) * 3)], [against(6), against(0, 0, (better,))]
    )
    text = text_of(head_lines(found, 120, tall=True))
    assert [one[:8] for one in text[3:5]] == ["B is wor", "C passes"]
    assert text[-1].startswith("Match: 0.4 in A, 0.9 in C ")


def test_where_there_is_room_it_is_said_what_to_know_before_trusting_the_numbers():
    found = comparison([line()], [against()], (side(1), side(2, status="interrupted")))
    assert text_of(head_lines(found, 80, tall=True))[-1].startswith("B is interrupted")
    assert "interrupted" not in "\n".join(text_of(head_lines(found, 80, tall=False)))


@pytest.mark.parametrize("tall", [False, True])
def test_the_head_says_why_a_run_stopped(tall):
    found = comparison([line()], [against()], (side(1), side(2, status="interrupted", message="the budget is spent")))
    assert "B stopped: the budget is spent" in "\n".join(text_of(head_lines(found, 80, tall)))


def test_a_shown_difference_stands_out_as_better_or_worse():
    assert [verdict_style(one) for one in (passes(6), passes(0, 6), passes(1), passes(6, direction=0))] == [
        "fail", "pass", "", "strong",
    ]  # fmt: skip


@pytest.mark.parametrize("width", [38, 80, 158])
@pytest.mark.parametrize("runs", [2, 4])
def test_the_rates_are_there_at_any_width_whatever_the_runs_are_called(width, runs):
    sides = tuple(side(n, name=HOSTILE) for n in range(1, runs + 1))
    shared = SharedRates((HOSTILE,) * runs, "", (None, *(figure(5, 10) for _ in range(1, runs))))
    rows = head_lines(comparison([], [against()] * (runs - 1), sides, columns=(shared,)), width, tall=False)
    text = text_of(rows)
    assert "n/a" in text[0] and "50.0 % of 10" in text[1]
    assert fits(rows, width)


# -- the list


def one_row(one, width, runs=2, kinds=KINDS):
    found = comparison([one], [against()] * (runs - 1))
    return text_of([line_row(one, columns_of(found, width), kinds, 7)])[0]


def test_a_kind_is_a_glyph_and_a_word():
    assert [one_row(line(kind), 40).split("t-1")[0].strip() for kind in KINDS] == KIND_WORDS


def test_a_line_says_more_where_there_is_room():
    one = line(turn=1, repeat=0, column="demo")
    narrow, wide = one_row(one, 40), one_row(one, 120)
    assert "t-1 · turn 2 · repeat 1" in narrow and "✓ → ✗" in narrow and "pass" not in narrow
    assert "✓ pass     → ✗ fail" in wide and "1 → 0.25" in wide and "demo" in wide
    assert "–          → ✗ fail" in one_row(line("new", statuses=(None, "fail")), 80)


def four(*statuses, kinds=("broken", "fixed", None)):
    return line(*kinds, statuses=statuses or ("pass", "fail", "pass", None), scores=(1.0, 0.0, 0.5, 0.0))


def test_several_runs_have_a_column_each_under_their_letters():
    found = comparison([four()], [against()] * 3)
    wide = columns_of(found, 80)
    assert text_of([wide.title()])[0].split() == ["item", "A", "B", "C", "D"]
    title, shown = text_of([wide.title(), line_row(four(), wide, KINDS, 0)])
    assert shown.split()[:3] == ["✗", "broken", "t-1"]
    for letter, word in zip("ABCD", ("✓ pass", "✗ fail", "✓ pass", "–"), strict=True):
        assert shown[title.index(letter) :].startswith(word)


def test_where_words_have_no_room_the_columns_hold_glyphs():
    found = comparison([four()], [against()] * 3)
    narrow = columns_of(found, 40)
    title, shown = text_of([narrow.title(), line_row(four(), narrow, KINDS, 0)])
    assert title.split() == ["item", "A", "B", "C", "D"]
    assert shown.split()[-4:] == ["✓", "✗", "✓", "–"]


def test_a_line_is_called_by_the_kind_that_was_asked_for():
    assert one_row(four(), 80, 4, ("fixed",)).startswith("✓ fixed")
    assert one_row(four(), 80, 4).startswith("✗ broken")


@pytest.mark.parametrize("width", [20, 37, 60, 80, 158])
@pytest.mark.parametrize("one", [line(item=HOSTILE, column=HOSTILE), four()])
def test_a_line_fits_its_width_whatever_the_item_is_called(width, one):
    assert cell_len(safe_line(one_row(one, width, len(one.answers)))) <= max(width, 22)


def test_the_list_holds_the_kinds_asked_for_under_the_numbers_of_their_lines():
    found = comparison([line(), line("same"), line()])
    numbers = lines_of_kinds(found.lines, ("broken",), None)
    rows = LineRows(found, listed_changes(found.lines, {}, ("broken",)), ("broken",), 60)
    assert [row.key for row in rows] == numbers == [0, 2]
    assert [rows.find(key) for key in (0, 1, 2, None)] == [0, None, 1, None]


REASON = "it names no days"


def changed(*numbers, columns=(), reason=REASON):
    return Change("Includes", "", reason, dict.fromkeys(numbers, reason), columns)


def test_changes_come_first_and_those_for_one_reason_stay_together():
    kinds = ("same", "changed", "broken", "fixed", "broken", "gone", "broken")
    found = comparison([line(kind) for kind in kinds])
    changes = {"broken": [changed(4, 6)], "fixed": [changed(3)]}
    listed = listed_changes(found.lines, changes, KINDS)
    assert [(one.kind, bool(one.change), list(one.numbers)) for one in listed] == [
        ("broken", True, [4, 6]),
        ("broken", False, [2]),
        ("fixed", True, [3]),
        ("gone", False, [5]),
        ("changed", False, [1]),
        ("same", False, [0]),
    ]
    rows = LineRows(found, listed, KINDS, 70)
    assert text_of(rows)[0].startswith(f"✗ 2 broken  Includes · {REASON}")
    assert [row.key for row in rows] == [None, 4, 6, 2, None, 3, 5, 1, 0]
    assert [rows.find(key) for key in (4, 3, 0)] == [1, 5, 8]
    assert listed_changes(found.lines, changes, ("broken",), {line.answers[0].id for line in found.lines[:0]}) == []


@pytest.mark.parametrize("width", [20, 48, 62, 80, 158])
def test_a_change_says_how_many_of_what_and_where_in_any_width(width):
    found = comparison([line(column=HOSTILE)] * 3)
    listed = listed_changes(found.lines, {"broken": [changed(0, 1, 2, columns=(HOSTILE,), reason=HOSTILE)]}, KINDS)
    rows = LineRows(found, listed, KINDS, width)
    assert text_of(rows)[0].startswith("✗ 3 broken")
    assert fits(rows[:1], width)


GRID = {"targets": ("assistant-of-the-shop-big", "assistant-of-the-shop-small"), "prompts": ("a/short", "a/friendly")}


def test_the_column_that_tells_lines_apart_stays_when_statuses_lose_their_words():
    names = [f"{target} · {prompt}" for target in GRID["targets"] for prompt in GRID["prompts"]]
    found = comparison(
        [line(column=name, item="policy-0009") for name in names], sides=(side(1, **GRID), side(2, **GRID))
    )
    for width in (47, 62, 78, 110):
        told = text_of(LineRows(found, listed_changes(found.lines, {}, KINDS), KINDS, width))
        assert ["big · short" in told[0], "small · friendly" in told[3]] == [True, True], width
    assert "✓ → ✗" in text_of(LineRows(found, listed_changes(found.lines, {}, KINDS), KINDS, 47))[0]


def test_the_rates_of_several_columns_are_a_table_with_the_largest_difference_first():
    names = [(f"{target} · {prompt}",) * 2 for target in GRID["targets"] for prompt in GRID["prompts"]]
    shared = [SharedRates(both, "", (figure(9, 10), figure(9 - 3 * (at == 2), 10))) for at, both in enumerate(names)]
    sides = (side(1, **GRID), side(2, **GRID))
    lines = [line(column=name) for name, _ in names]
    text = text_of(head_lines(comparison(lines, sides=sides, columns=shared), 100, tall=True))
    assert [one.split()[0] for one in text[:3]] == ["A", "B", "passes"]
    assert text[3].split() == ["small", "·", "short", "90.0", "%", "60.0", "%", "10", "items"]


def test_a_line_is_listed_when_one_of_its_answers_is_wanted_and_one_of_its_kinds():
    lines = [line("broken", "fixed", statuses=("pass",) * 3, scores=(1.0,) * 3), line("same")]
    assert lines_of_kinds(lines, KINDS, None) == [0, 1]
    assert lines_of_kinds(lines, ("fixed",), None) == [0]
    assert lines_of_kinds(lines, KINDS, {2}) == [0]
    assert lines_of_kinds(lines, ("same",), {2}) == []


def test_an_empty_list_says_what_was_asked_for():
    assert "“gone”" in text_of(empty_lines(("gone",), "", 80))[0]
    assert text_of(empty_lines(KINDS, "fines", 80))[0] == "No answer matches “fines”."
    assert text_of(empty_lines(("broken",), "fines", 80))[0] == "No answer matches “fines” and is “broken”."
    assert "* shows all" in text_of(empty_lines(KINDS, "", 80))


# -- one line in full


def shown(one, width=80, **manner):
    return text_of(line_rows(one, PairView(**manner), width))


def test_a_line_in_full_shows_who_judged_otherwise_with_both_reasons_and_what_differs():
    judged = (
        JudgedLine(
            "Match", (record("Match", 1.0, "pass", "word for word"), record("Match", 0.0, "fail", "not the same"))
        ),
        JudgedLine("Tone", (record("Tone", 1.0, "pass"), record("Tone", 1.0, "pass", "still fine"))),
        JudgedLine("New", (None, record("New", None, "error", "no judge"))),
    )
    text = "\n".join(shown(faced(judged=judged)))
    for part in ("✗ broken  t-1", "asked 2 + 2?", "✓ pass 1 → ✗ fail 0", "A word for word", "B not the same", "│"):
        assert part in text
    assert "– → ! error" in text and "Tone" not in text
    assert "It is 5 today." in text


def test_a_narrow_line_is_one_column():
    text = shown(faced(), 40)
    assert "- A  + B" in text
    assert "-It is 4 today." in text and "+It is 5 today." in text


def test_columns_become_one_on_demand():
    text = shown(faced(), 100, unified=True)
    assert "- A  + B" in text and "-It is 4 today." in text


def test_what_was_expected_stands_beside_the_first_or_the_later_run():
    one = faced("It is 4.", "It is 5.", expected="It is 4.")
    assert "expected and A are the same." in shown(one, beside="first")
    later = "\n".join(shown(one, beside="later"))
    assert "expected" in later and "│ B" in later and "~It is 5." in later
    assert "nothing is expected here. This is A:" in shown(faced(), beside="first")


def test_where_there_is_room_what_was_expected_stands_beside_both_runs():
    one = faced("One.\nTwo too.\nFour.\n", "One.\nTwo.\nThree.\n", expected="One.\nTwo.\nThree.\n")
    text = shown(one, 130)
    title = next(number for number, row in enumerate(text) if "expected" in row)
    columns = [[part.strip() for part in row.split("│")] for row in text[title:]]
    assert columns[0] == ["expected", "A", "B"]
    assert [parts[0] for parts in columns[1:4]] == ["One.", "Two.", "Three."]
    assert [parts[2] for parts in columns[1:4]] == ["One.", "Two.", "Three."]
    assert columns[1][1] == "One." and columns[2][1] == "~Two too." and columns[3][1] == "~Four."
    assert len(shown(one, 119)[title].split("│")) == 2


def test_from_160_columns_the_answers_of_three_runs_stand_beside_what_was_expected():
    one = line("same", "broken", statuses=("pass", "pass", "fail"), scores=(1.0, 1.0, 0.0))
    three = faced("One.\nTwo.\n", "One.\nTwo too.\n", "One.\nTwo.\nThree.\n", one=one, expected="One.\nTwo.\n")
    text = shown(three, 158)
    start = next(number for number, row in enumerate(text) if "expected" in row)
    columns = [tuple(part.strip() for part in row.split("│")) for row in text[start:]]
    assert columns == [
        ("expected", "A", "B", "C"),
        ("One.", "One.", "One.", "One."),
        ("Two.", "Two.", "~Two too.", "Two."),
        ("", "", "", "+Three."),
    ]
    narrow = shown(three, 140)
    assert any(row.split("│")[0].strip() == "expected" and len(row.split("│")) == 3 for row in narrow)
    alone = shown(faced("One.\n", "Two.\n", "One.\n", one=one), 130)
    assert any([part.strip() for part in row.split("│")] == ["A", "B", "C"] for row in alone)


def test_of_several_runs_the_one_that_calls_for_attention_faces_the_first_until_another_is_wanted():
    one = line("same", "broken", statuses=("pass", "pass", "fail"), scores=(1.0, 1.0, 0.0))
    records = (record("Match", 1.0, "pass"), record("Match", 1.0, "pass"), record("Match", 0.0, "fail", "because of C"))
    texts = faced("yes", "yes", "no", one=one, judged=(JudgedLine("Match", records),))
    text = "\n".join(shown(texts))
    assert "✗ broken  t-1" in text and "A → C  ✓ pass    → ✗ fail" in text and "C because of C" in text
    text = "\n".join(shown(texts, later=1))
    assert "= same  t-1" in text and "A and B are the same." in text and "Match" not in text


def test_what_only_the_answers_say_stands_where_they_say_it():
    one = faced("Zero.\nOne.\nTwo.\n", "One.\nTwo.\nThree.\nFour.\n", expected="One.\nTwo.\n")
    text = shown(one, 130)
    start = next(number for number, row in enumerate(text) if "expected" in row) + 1
    columns = [tuple(part.strip() for part in row.split("│")) for row in text[start:]]
    assert columns == [
        ("", "+Zero.", ""),
        ("One.", "One.", "One."),
        ("Two.", "Two.", "Two."),
        ("", "", "+Three."),
        ("", "", "+Four."),
    ]


@pytest.mark.parametrize(
    ("manner", "says"),
    [
        (PairView(), "A next to C"),
        (PairView(beside="first"), "expected next to A"),
        (PairView(beside="later", unified=True), "expected next to C, in one column"),
    ],
)
def test_a_line_says_what_is_shown_next_to_what(manner, says):
    assert beside_words(manner, 2, True) == f"{says} · e next pair · d columns · v another run"
    assert "another run" not in beside_words(manner, 2, False)


def test_answers_that_are_the_same_are_said_to_be():
    text = shown(faced("yes", "yes"))
    assert "A and B are the same." in text and " yes" in text
    assert "A and B are empty." in shown(faced("", ""))


def test_an_answer_of_one_run_only_is_shown_as_it_is():
    text = shown(faced("all of it", None, one=line("gone", statuses=("pass", None))))
    assert "B has no answer here. This is A:" in text and "all of it" in text
    assert "A has no answer here and B has no answer here." in shown(faced(None, None))


def test_what_to_know_before_trusting_a_line_is_said():
    assert "position only" in "\n".join(shown(faced(one=line(how="position", edited=True))))
    assert "changed between the runs" in "\n".join(shown(faced(one=line(edited=True))))


@pytest.mark.parametrize("width", [30, 80, 130])
@pytest.mark.parametrize("manner", [{}, {"unified": True}, {"beside": "first"}])
def test_a_line_in_full_fits_its_width_whatever_was_said(width, manner):
    judged = (JudgedLine(HOSTILE, (record("x", 1.0, "pass", HOSTILE), record("x", 0.0, "fail", HOSTILE))),)
    one = faced(HOSTILE, HOSTILE + "x", one=line(item="t"), expected="y" + HOSTILE, judged=judged, question=HOSTILE)
    rows = line_rows(one, PairView(**manner), width)
    assert fits([row for row in rows if row], max(width, 60))


def test_all_that_a_target_said_is_compared():
    calls = ({"name": "find", "arguments": {"q": 1}}, {"name": "end", "arguments": "{}"})
    found = answer_as_text(AnswerRecord(text="hm", request={}, tool_calls=calls, code="cut", message="too long"))
    assert found == 'hm\n→ find({"q": 1})\n→ end({})\ncut: too long'
    assert answer_as_text(AnswerRecord(text=None, request={})) == answer_as_text(None) == ""
