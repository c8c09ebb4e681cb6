"""Two runs compared on screen: what the numbers say, which pairs there are, and what differs in one."""

import gc
from pathlib import Path

import pytest
from rich.cells import cell_len
from textual.app import App

from tests.tui.stored_runs import HOSTILE, add_run, drawn, fresh, text_of, until
from tests.tui.test_runs import run
from tui_evals import tui
from tui_evals.compare.runs import KINDS, Comparison, Means, Pair, Side
from tui_evals.compare.sides import Answer
from tui_evals.compare.statistics import mcnemar
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, ScoreRecord
from tui_evals.store.writer import Writer
from tui_evals.text.safe import safe_line
from tui_evals.tui.screens.ask import Reading
from tui_evals.tui.screens.compare import CompareScreen
from tui_evals.tui.state.comparing import Compared, Faced, Judged, read_runs, said
from tui_evals.tui.views.comparison import PairRows, difference, empty_pairs, head_lines, pair_line, pair_rows
from tui_evals.tui.views.diffs import compared

STYLES = Path(tui.__file__).parent / "styles" / "app.tcss"
KIND_WORDS = ["✗ broken", "✓ fixed", "~ changed", "= same", "‹ only left", "› only right", "? no verdict"]


def pair(kind="broken", left=("pass", 1.0), right=("fail", 0.25), **given):
    answers = [found and Answer(number, *found, 0) for number, found in enumerate((left, right))]
    fields = {"item": "t-1", "turn": None, "repeat": None, "column": "", "how": "testId", "edited": False}
    return Pair(**{**fields, "left": answers[0], "right": answers[1], "kind": kind, **given})


def comparison(pairs=(), broken=0, fixed=0, **given):
    counts = {kind: sum(one.kind == kind for one in pairs) for kind in KINDS}
    fields = {"left": Side(8, 10, 0.8), "right": Side(5, 10, 0.5)}
    return Comparison(tuple(pairs), counts, broken=broken, fixed=fixed, p=mcnemar(broken, fixed), **{**fields, **given})


# -- rows


@pytest.mark.parametrize(
    ("broken", "fixed", "says"),
    [
        (0, 0, "No item passes in one run and fails in the other."),
        (1, 0, "1 item broken, 0 fixed: this can be chance (p = 1.00, exact McNemar test)."),
        (5, 0, "5 items broken, 0 fixed: this can be chance (p = 0.062, exact McNemar test)."),
        (6, 0, "6 items broken, 0 fixed: the difference is real (p = 0.031, exact McNemar test)."),
        (1, 20, "1 item broken, 20 fixed: the difference is real (p < 0.001, exact McNemar test)."),
    ],
)
def test_a_sentence_says_whether_the_difference_is_real(broken, fixed, says):
    assert difference(comparison(broken=broken, fixed=fixed)) == says


def test_the_head_holds_both_rates_with_their_intervals_the_counts_and_the_means():
    found = comparison([pair(), pair("same")], 1, means=(Means("Match", 0.5, None),))
    text = text_of(head_lines(Compared(run(1), run(2), found, True), 100))
    assert "run 1 key1" in text[0] and "80.0 % (8/10)" in text[0] and "49–94 %" in text[0]
    assert "run 2 key2" in text[1] and "50.0 % (5/10)" in text[1] and "24–76 %" in text[1]
    assert text[3].split("   ")[:2] == ["✗ 1 broken", "= 1 same"]
    assert "Match 0.5 → –" in text[4]
    assert "reading" in text_of(head_lines(Compared(run(1), run(2), found, False), 100))[3]


@pytest.mark.parametrize("width", [38, 80, 158])
def test_the_rates_are_there_at_any_width(width):
    found = comparison(left=Side(0, 0, None))
    text = text_of(head_lines(Compared(run(1, name=HOSTILE), run(2, name=HOSTILE), found, True), width))
    assert "n/a (0/0)" in text[0] and "50.0 % (5/10)" in text[1]
    assert all(cell_len(safe_line(line)) <= width for line in text[:2])


def test_a_kind_is_a_glyph_and_a_word():
    shown = [text_of([pair_line(pair(kind), 40, 0)])[0][:13].strip() for kind in KINDS]
    assert shown == KIND_WORDS


def test_a_pair_says_more_where_there_is_room():
    one = pair(turn=1, repeat=0, column="demo")
    narrow, wide = (text_of([pair_line(one, width, 7)])[0] for width in (38, 120))
    assert "t-1 · turn 2 · repeat" in narrow and "pass" not in narrow
    assert "✓ pass    → ✗ fail" in wide and "1 → 0.25" in wide and "demo" in wide
    assert "–         → ✗ fail" in text_of([pair_line(pair("new", None), 80, 7)])[0]


@pytest.mark.parametrize("width", [20, 37, 60, 80, 158])
def test_a_pair_fits_its_width_whatever_the_item_is_called(width):
    (line,) = text_of([pair_line(pair(item=HOSTILE, column=HOSTILE), width, 0)])
    assert cell_len(safe_line(line)) <= width


def test_the_list_holds_the_kinds_asked_for_under_the_numbers_of_their_pairs():
    pairs = [pair("broken"), pair("same"), pair("broken")]
    rows = PairRows(pairs, ("broken",), 60)
    assert [row.key for row in rows] == [0, 2]
    assert [rows.find(key) for key in (0, 1, 2, None)] == [0, None, 1, None]
    assert "only left" in text_of(empty_pairs(("gone",), 80))[0]


def record(key, score, result, reason=""):
    return ScoreRecord(key=key, evaluator=key, score=score, result=result, reason=reason)


def faced(left="It is 4 today.", right="It is 5 today.", one=None, **given):
    fields = {"asked": "2 + 2?", "text": "", "diff": compared(left, right), "judged": ()}
    return Faced(**{"pair": one or pair(), **fields, **given})


def test_a_pair_in_full_shows_who_judged_otherwise_and_what_differs():
    judged = (
        Judged("Match", record("Match", 1.0, "pass"), record("Match", 0.0, "fail", "not the same")),
        Judged("Tone", record("Tone", 1.0, "pass"), record("Tone", 1.0, "pass", "still fine")),
        Judged("New", None, record("New", None, "error", "no judge")),
    )
    text = "\n".join(text_of(pair_rows(faced(judged=judged), 80)))
    for part in ("✗ broken  t-1", "asked 2 + 2?", "✓ pass 1 → ✗ fail 0", "not the same", "– → ! error", "│"):
        assert part in text
    assert "Tone" not in text
    assert "‹ left" in text and "It is 5 today." in text


def test_a_narrow_pair_is_one_column():
    text = text_of(pair_rows(faced(), 40))
    assert "- left  + right" in text
    assert "-It is 4 today." in text and "+It is 5 today." in text


def test_answers_that_are_the_same_are_said_to_be():
    text = text_of(pair_rows(faced("yes", "yes"), 80))
    assert "The answers are the same." in text and " yes" in text
    assert "Neither run has an answer here." in text_of(pair_rows(faced("", ""), 80))


def test_an_answer_of_one_run_only_is_shown_as_it_is():
    text = text_of(pair_rows(faced(one=pair("gone", right=None), text="all of it", diff=None), 80))
    assert "all of it" in text


def test_what_to_know_before_trusting_a_pair_is_said():
    assert "position only" in "\n".join(text_of(pair_rows(faced(one=pair(how="position", edited=True)), 80)))
    assert "changed between the runs" in "\n".join(text_of(pair_rows(faced(one=pair(edited=True)), 80)))


def test_all_that_a_target_said_is_compared():
    calls = ({"name": "find", "arguments": {"q": 1}}, {"name": "end", "arguments": "{}"})
    found = said(AnswerRecord(text="hm", request={}, tool_calls=calls, code="cut", message="too long"))
    assert found == 'hm\n→ find({"q": 1})\n→ end({})\ncut: too long'
    assert said(AnswerRecord(text=None, request={})) == ""


# -- the screen


class Bench(App):
    CSS_PATH = STYLES

    def __init__(self, path, left=1, right=2):
        super().__init__()
        self.given = path, left, right

    def on_mount(self):
        self.push_screen(CompareScreen(*self.given))

    @property
    def top(self):
        return "\n".join(text_of(self.screen.top.rows))

    @property
    def kinds(self):
        return [line[:13].strip() for line in text_of(self.screen.pairs.rows)]

    @property
    def detail(self):
        return "\n".join(text_of(self.screen.pair.rows))


ALIKE = "the same long beginning " * 20


@pytest.fixture
async def path(tmp_path):
    """Two runs of six items: broken, fixed, changed, same, broken, and one that only the first run has."""
    path = fresh(tmp_path)
    before = [("pass", "old"), ("fail", "a"), ("pass", ALIKE + "x"), ("pass", ALIKE), ("pass", "b"), ("pass", "c")]
    after = [("fail", "new"), ("pass", "a"), ("pass", ALIKE + "y"), ("pass", ALIKE), ("fail", "b")]
    await add_run(path, before, name="before")
    await add_run(path, after, name="after")
    return path


async def read(pilot):
    await until(pilot, lambda: isinstance(pilot.app.screen, CompareScreen))
    await until(pilot, lambda: pilot.app.screen._runs is not None and pilot.app.screen._runs.settled)
    await until(pilot, lambda: pilot.app.detail)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_runs_are_paired_and_the_pair_under_the_cursor_is_diffed(path, size):
    async with Bench(path).run_test(size=size) as pilot:
        await read(pilot)
        app = pilot.app
        assert app.kinds == ["✗ broken", "✓ fixed", "~ changed", "= same", "✗ broken", "‹ only left"]
        assert "before" in app.top and "after" in app.top and "2 items broken, 1 fixed" in app.top
        await until(pilot, lambda: "old" in app.detail and "new" in app.detail)
        await pilot.press("j", "j", "j")
        await until(pilot, lambda: "The answers are the same." in app.detail)
        assert "broken" in "\n".join(drawn(app.screen.pairs))
        beside = app.screen.pair.region.y == app.screen.pairs.region.y
        assert beside == (size[0] >= 100)


async def test_keys_filter_by_kind_and_say_when_there_is_none(path):
    async with Bench(path).run_test(size=(80, 24)) as pilot:
        await read(pilot)
        app = pilot.app
        await pilot.press("b")
        assert app.kinds == ["✗ broken"] * 2
        await pilot.press("f")
        assert app.kinds == ["✓ fixed"]
        await until(pilot, lambda: "✓ fixed  t-1" in app.detail)
        await pilot.press("c")
        assert app.kinds == ["~ changed"]
        await pilot.press("asterisk")
        assert len(app.kinds) == 6
    async with Bench(path, 1, 1).run_test(size=(80, 24)) as pilot:
        await read(pilot)
        await pilot.press("f")
        await until(pilot, lambda: "nothing is fixed" in str(pilot.app.screen.query_one("#status").render()))
        assert pilot.app.kinds == ["= same"] * 6


async def test_the_next_broken_pair_is_found_round_the_end_and_out_of_a_filter(path):
    async with Bench(path).run_test(size=(80, 24)) as pilot:
        await read(pilot)
        pairs = pilot.app.screen.pairs
        await pilot.press("n")
        assert pairs.key == 4
        await pilot.press("n")
        assert pairs.key == 0
        await pilot.press("N")
        assert pairs.key == 4
        await pilot.press("f", "n")
        assert (pairs.key, len(pairs.rows)) == (4, 6)
        await until(pilot, lambda: "t-4" in pilot.app.detail)


async def test_enter_gives_the_pair_the_whole_width_and_escape_goes_back_step_by_step(path):
    async with Bench(path).run_test(size=(120, 30)) as pilot:
        await read(pilot)
        screen = pilot.app.screen
        await pilot.press("enter")
        await until(pilot, lambda: screen.pair.region.width == 120)
        assert screen.pair.has_focus and not screen.pairs.display
        await pilot.press("n")
        await until(pilot, lambda: "t-4" in pilot.app.detail)
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(pilot.app.screen, Reading))
        await pilot.press("escape")
        await until(pilot, lambda: pilot.app.screen is screen)
        await pilot.press("escape")
        await until(pilot, lambda: screen.pairs.has_focus)
        await pilot.press("escape")
        await until(pilot, lambda: pilot.app.screen is not screen)


async def test_the_pair_scrolls_while_the_cursor_stays_in_the_list(tmp_path):
    path = fresh(tmp_path)
    await add_run(path, [("pass", "line\n" * 200)])
    await add_run(path, [("fail", "other\n" * 200)])
    async with Bench(path).run_test(size=(80, 24)) as pilot:
        await read(pilot)
        await pilot.press("J", "J", "K")
        await until(pilot, lambda: pilot.app.screen.pair.scroll_offset.y == 1)
        assert pilot.app.screen.pairs.has_focus


async def test_garbage_is_collected_again_whatever_becomes_of_the_reading(path):
    read_runs(path, 1, 2)
    assert gc.isenabled()
    with pytest.raises(LookupError):
        read_runs(path, 1, 9)
    assert gc.isenabled()


async def test_a_run_that_is_gone_is_said_in_place_of_the_list(path):
    async with Bench(path, 1, 9).run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(pilot.app.screen, CompareScreen))
        await until(pilot, lambda: "cannot be compared" in text_of(pilot.app.screen.pairs.rows)[0])
        await pilot.press("b", "n", "enter", "escape")
        await until(pilot, lambda: not isinstance(pilot.app.screen, CompareScreen))


async def test_a_run_deleted_meanwhile_leaves_the_screen_alive(path):
    async with Bench(path).run_test(size=(80, 24)) as pilot:
        await read(pilot)
        with Writer(path) as writer, Reader(path) as reader:
            writer.delete_run(reader.run(2))
        await pilot.press("j")
        await until(pilot, lambda: "is not in the store any more" in pilot.app.detail)


@pytest.mark.parametrize("size", [(38, 20), (80, 24), (130, 30)])
async def test_hostile_answers_and_reasons_reach_no_terminal(tmp_path, size):
    path = fresh(tmp_path)
    await add_run(path, [("pass", HOSTILE)], name=HOSTILE.replace("\ud800", "?"))
    await add_run(path, [("fail", HOSTILE + HOSTILE)], name="\x1b[2J")
    async with Bench(path).run_test(size=size) as pilot:
        await read(pilot)
        screen = pilot.app.screen
        await pilot.press("enter")
        await pilot.pause()
        shown = "\n".join(line for lines in (screen.top, screen.pairs, screen.pair) for line in drawn(lines))
        assert "[/b]" in shown
        assert not any(sign in shown for sign in "\x1b\x07\x9b\u202e")
