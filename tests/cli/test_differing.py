"""`tui-evals diff`: which answers, and how what was expected stands beside what was answered."""

import re

import pytest
from rich.cells import cell_len

from tests.cli.past import Said, past
from tests.store.helpers import judged
from tests.tui.hostile import STRANGE
from tui_evals.cli.compare import compare as differing
from tui_evals.cli.compare.compare import below, beside

pytestmark = pytest.mark.usefixtures("project")


@pytest.fixture
def terminal(monkeypatch):
    """A terminal of so many columns."""
    return lambda width: monkeypatch.setattr(differing, "columns", lambda: width)


def items(**expected):
    return [{"testId": name, "prompt": f"ask {name}", "expected_response": text} for name, text in expected.items()]


def failed(text, name="a"):
    return Said(name, "fail", text)


def test_what_failed_stands_below_what_was_expected(shell):
    past(
        failed("The library opens at eleven on Monday."),
        Said("b"),
        items=items(a="The library opens at ten on Monday.", b="yes"),
    )
    out = shell("diff").out
    assert "✗ fail  a · score 0\n  asked: ask a\n" in out and "  failed by Match\n" in out
    assert "- The library opens at [-ten-] on Monday.\n+ The library opens at {+eleven+} on Monday.\n" in out
    assert "ask b" not in out


def test_in_a_wide_terminal_they_stand_side_by_side_unless_one_column_is_wanted(shell, terminal):
    past(failed("The library opens at eleven on Monday."), items=items(a="The library opens at ten on Monday."))
    terminal(100)
    line = "~ The library opens at [-ten-] on Monday."
    assert re.search(
        rf"^{re.escape(line)} +│ The library opens at {{\+eleven\+}} on Monday\.$", shell("diff").out, re.M
    )
    assert "│" not in shell("diff", "--unified").out
    terminal(99)
    assert "│" not in shell("diff").out and "- The library opens" in shell("diff").out


def test_in_a_terminal_every_line_fits_whatever_signs_there_are(shell, terminal):
    wide = "図書館は十時に開きます。 a word\tand " * 9
    past(failed(wide + "eleven 十一"), items=items(a="ten 十 " + wide), targets=(wide,))
    for width in (60, 120):
        terminal(width)
        lines = shell("diff").out.splitlines()
        assert max(map(cell_len, lines)) <= width
        if width == 120:
            assert len({cell_len(line.partition("│")[0]) for line in lines if "│" in line}) == 1


def test_json_is_compared_as_json(shell):
    past(failed('{"b": 2,   "a": 1}'), items=items(a='{"a": 1, "b": 3}'))
    out = shell("diff").out
    assert "differs at $.b\n" in out
    assert '    "a": 1\n-   "b": [-3-]\n+   "b": {+2+}\n' in out
    past(failed('{"b": 3,   "a": 1}'), items=items(a='{"a": 1, "b": 3}'))
    assert "the answer is the JSON that was expected" in shell("diff").out


def test_an_answer_as_expected_says_so_and_who_failed_it(shell):
    past(Said("a", "fail", "yes", scores=[judged("Relevance", 0.0)]), items=items(a="yes"))
    out = shell("diff").out
    assert "the answer is what was expected\n  yes\n  failed by Relevance\n" in out


def test_turns_follow_each_other_under_one_heading(shell):
    turns = [{"prompt": f"ask {n}", "expected_response": f"answer {n}"} for n in range(3)]
    past(
        *(Said("talk", status, f"answer {n + 5 * (status == 'fail')}", turn=n) for n, status in enumerate(FAILS)),
        items=[{"testId": "talk", "turns": turns}],
    )
    out = shell("diff").out
    assert out.count("talk · a conversation of 3 turns") == 1
    assert re.findall(r"turn (\d)", out) == ["1", "3"]
    assert "{+7+}" in shell("diff", "--turn", 3).out and "turn 1" not in shell("diff", "--turn", 3).out
    assert re.findall(r"turn (\d)", shell("diff", "--item", "talk").out) == ["1", "2", "3"]
    assert re.findall(r"turn (\d)", shell("diff", "--item", "talk", "--only", "status:pass").out) == ["2"]


FAILS = ("fail", "pass", "fail")


def test_an_item_without_an_expected_response_shows_the_answer(shell):
    past(failed("Nobody said what it should be."), items=[{"testId": "a", "prompt": "ask a"}])
    out = shell("diff").out
    assert "there is no expected response; the answer is:\n  Nobody said what it should be.\n" in out


def test_all_ideals_are_expected_where_nothing_else_is(shell):
    past(failed("no"), items=[{"testId": "a", "prompt": "?", "ideal": ["yes", "certainly"]}])
    assert "- yes⏎\n- certainly\n+ no\n" in shell("diff").out


def test_where_no_text_came_it_says_what_came_instead(shell):
    calls = {"tool_calls": ({"name": "find", "arguments": "{}"},)}
    past(Said("a", "error", None), Said("b", "pending"), Said("c", "fail", None, record=calls))
    assert "no answer: refused: no" in shell("diff", "--item", "a").out
    assert "there is no answer yet\n" in shell("diff", "--item", "b").out
    assert "no text, but calls of tools: find({})" in shell("diff", "--item", "c").out


def test_a_filter_and_a_limit_choose_the_answers(shell):
    past(*(failed("no", f"t{n}") for n in range(5)), Said("good"))
    out = shell("diff", "--limit", 2).out
    assert re.findall(r"fail  (\w+)", out) == ["t0", "t1"] and "3 more; `--limit 5` shows all" in out
    assert re.findall(r"pass  (\w+)", shell("diff", "--only", "status:pass").out) == ["good"]
    assert "there is no filter" in shell("diff", "--only", "colour:red").err
    assert "nothing in" in shell("diff", "--only", "errored").out
    assert "has no answer to nothing" in shell("diff", "--item", "nothing").err


def test_when_nothing_failed_it_says_what_else_can_be_seen(shell):
    run = past(Said())
    assert f"nothing failed in {run.key}; `--item ID` shows one item" in shell("diff").out


def test_columns_and_repeats_are_named_where_there_are_several(shell):
    past(Said("a", "fail", "no", target=1, repeat=1), targets=("small", "large"))
    assert "✗ fail  a · large · repeat 2 · score 0" in shell("diff").out


def test_texts_of_datasets_and_models_are_shown_and_never_obeyed(shell, terminal):
    past(Said(STRANGE, "fail", f"other {STRANGE}"), items=[{"testId": STRANGE, "prompt": STRANGE, "ideal": [STRANGE]}])
    for width in (None, 60, 160):
        terminal(width)
        out = shell("diff").out
        assert "[/b]" in out and not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", out)


# -- lines of a diff


def test_what_is_far_from_every_change_is_left_out():
    before = [f"line {n}\n" for n in range(40)]
    after = [*before[:20], "another\n", *before[21:]]
    diff = differing.compared("".join(before), "".join(after))
    one = [line for line, _ in below(diff, None)]
    assert one[0] == "⋯ 17 lines alike" and "- line 20" in one and "+ another" in one and len(one) == 10
    two = [line for line, _ in beside(diff, 120)]
    assert two[1] == "⋯ 17 lines alike" and sum("alike" in line for line in two) == 2 and len(two) <= 12


def test_a_line_end_that_only_one_side_has_is_seen():
    diff = differing.compared("same\nyes", "same\nyes\n")
    assert ("+ yes⏎", "green") in list(below(diff, None)) and ("- yes", "red") in list(below(diff, None))


def test_the_space_behind_a_changed_word_stays_outside_of_its_marks():
    diff = differing.compared("one two three four five six", "one TWO three FOUR five six")
    assert [line for line, _ in below(diff, None)] == [
        "- one [-two-] three [-four-] five six",
        "+ one {+TWO+} three {+FOUR+} five six",
    ]


def test_an_escape_before_a_mark_does_not_swallow_it():
    diff = differing.compared("one two three \x1b four", "one two three \x1b five")
    assert [line for line, _ in below(diff, None)] == ["- one two three ␛ [-four-]", "+ one two three ␛ {+five+}"]
