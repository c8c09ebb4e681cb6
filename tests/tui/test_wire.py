"""What goes over the line: less than was drawn, and the terminal shows the same."""

import re
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from wcwidth import iter_graphemes

from tests.bench.screen_stores import FILE, project, store
from tests.tui.terminal import workbench
from tui_evals.tui.drawing import SentCells

_TOKEN = re.compile(r"\x1b\[(\d+);(\d+)H|\x1b\[(\d+)C|\x1b\[([0-9;]*)m|(\n)|([^\x1b\n]+)")


ENDED = {"22": "12", "23": "3", "24": "4", "25": "5", "27": "7", "29": "9"}


def styled(before, codes):
    """The flags, the color and the background of a terminal after these codes."""
    flags, color, ground = before
    codes = codes.split(";")
    while codes:
        match codes.pop(0):
            case "" | "0":
                flags, color, ground = "", "", ""
            case "38":
                color, codes = codes[1], codes[2:]
            case "48":
                ground, codes = codes[1], codes[2:]
            case "39":
                color = ""
            case "49":
                ground = ""
            case code if code in ENDED:
                flags = "".join(flag for flag in flags if flag not in ENDED[code])
            case code:
                flags = "".join(sorted({*flags, code}))
    return flags, color, ground


class Screen:
    """A terminal as far as pictures need one; `wider` draws one sign in more cells than is thought."""

    def __init__(self, wider=""):
        self.cells, self.place, self.style, self.wider = {}, (1, 1), ("", "", ""), wider

    def feed(self, written):
        for row, column, right, style, line, text in _TOKEN.findall(written):
            if row:
                self.place = (int(row), int(column))
            elif right:
                self.place = (self.place[0], self.place[1] + int(right))
            elif line:
                self.place = (self.place[0] + 1, 1)
            elif text:
                for sign in iter_graphemes(text):
                    width = cell_len(sign) + (sign == self.wider)
                    for cell in range(width):
                        place = (self.place[0], self.place[1] + cell)
                        blank = sign == " " and not set("479") & set(self.style[0])
                        self.cells[place] = (sign if not cell else "", self.style[2] if blank else self.style)
                    self.place = (self.place[0], self.place[1] + width)
            else:
                self.style = styled(self.style, style)


signs = st.sampled_from(["a", "b", " ", "│", "─", "✓", "é", "字", "👩\u200d🔬", "e\u0301"])
styles = st.sampled_from(
    ["", "1", "2", "1;4;38;5;3", "7;48;5;16", "38;5;253;48;5;16", "38;5;9;48;5;16", "1;2;38;5;9;48;5;7"]
)
pieces = st.tuples(styles, st.lists(signs, min_size=1, max_size=6))
runs = st.tuples(st.integers(1, 4), st.integers(1, 9), st.lists(pieces, min_size=1, max_size=3))
pictures = st.lists(runs, min_size=1, max_size=5)


def drawn(picture, lines=False):
    parts = []
    for row, column, segments in picture:
        parts.append(f"\x1b[{row};{column}H")
        parts += [f"\x1b[{style}m{''.join(text)}\x1b[0m" if style else "".join(text) for style, text in segments]
        parts.append("\n" * lines)
    return "".join(parts) + "\x1b[1;1H"


@given(st.lists(pictures, min_size=1, max_size=6), st.booleans())
def test_a_terminal_shows_what_was_drawn(frames, lines):
    whole, less, cells = Screen(), Screen(), SentCells()
    for frame in frames:
        written = drawn(frame, lines)
        whole.feed(written)
        less.feed(cells.difference(written))
        assert less.cells == whole.cells and less.place == whole.place and less.style == ("", "", "")


@given(st.lists(pictures, min_size=1, max_size=6))
def test_what_is_drawn_twice_goes_over_the_line_once(frames):
    cells = SentCells()
    for frame in frames:
        plain = [(row, column, [(style, ["x"] * len(text)) for style, text in run]) for row, column, run in frame]
        cells.difference(drawn(plain))
        if len({row for row, _, _ in plain}) == len(plain):  # nothing is drawn over
            assert cells.difference(drawn(plain)) == ""


def test_only_the_cells_between_the_first_and_the_last_that_differ_are_sent():
    cells = SentCells()
    cells.difference(drawn([(2, 1, [("1", "one line of text")])]))
    assert cells.difference(drawn([(2, 1, [("1", "one LINE of text")])])) == "\x1b[2;5H\x1b[1mLINE\x1b[0m\x1b[1;1H"


def test_cells_that_stay_between_others_are_gone_over_and_of_a_style_only_what_differs_is_sent():
    cells = SentCells()
    cells.difference(drawn([(2, 1, [("1;38;5;9;48;5;16", "a" + " " * 20 + "b")])]))
    changed = drawn([(2, 1, [("38;5;9;48;5;16", "c"), ("38;5;9;48;5;16", " " * 20), ("38;5;7;48;5;16", "d")])])
    assert cells.difference(changed) == "\x1b[2;1H\x1b[38;5;9;48;5;16mc\x1b[20C\x1b[38;5;7md\x1b[0m\x1b[1;1H"
    assert cells.difference(changed) == ""


def test_a_line_with_signs_of_another_width_is_sent_from_there_to_its_end():
    """A terminal that draws a sign wider than is thought shifts what follows; it is written again each time."""
    cells, line = SentCells(), [(2, 1, [("", "ab"), ("1", "字"), ("", "cd│")])]
    cells.difference(drawn(line))
    assert cells.difference(drawn(line)) == "\x1b[2;3H\x1b[1m字\x1b[0mcd│\x1b[1;1H"


def test_what_follows_a_sign_that_terminals_draw_in_different_widths_has_a_place_of_its_own():
    """tmux draws a skin tone in two cells of its own: the frame stays where it is all the same."""
    tone = "\U0001f44d\U0001f3fd"
    line = drawn([(2, 1, [("", "│"), ("", f"ok {tone} good"), ("1", "│")])])
    for wider in ("", tone):
        terminal = Screen(wider)
        terminal.feed(SentCells().difference(line))
        assert terminal.cells[2, 12] == ("│", ("1", "", "")) and terminal.cells[2, 8] == ("g", ("", "", "")), wider
    sent = SentCells().difference(drawn([(2, 1, [("", "字字 a字")])]))
    assert sent == "\x1b[2;1H字字 a字\x1b[1;1H", "East Asian text needs no more bytes"


@pytest.mark.parametrize("picture", [[(2, 1, [("", "a name that is cut")])], [(9, 1, [("", "below")])]])
def test_after_a_picture_for_another_size_everything_is_sent_again(picture):
    cells, small = SentCells(), drawn([(2, 1, [("", "a name")])])
    cells.fit((8, 5))
    assert "a name" in cells.difference(small)
    assert "a name" not in cells.difference(small)
    cells.fit((8, 4))
    assert "a name" in cells.difference(small)
    cells.difference(drawn(picture))
    assert "a name" in cells.difference(small), "the terminal cut it, or wrapped it into other rows"


def test_after_another_screen_everything_is_sent_again():
    picture = drawn([(1, 1, [("1", "text")])])
    for what in ("\x1b[?1049h", "\x1b[2J", "words of another program"):
        cells = SentCells()
        cells.difference(picture)
        assert cells.difference(picture) == ""
        assert cells.difference(what) == what
        assert "text" in cells.difference(picture), what
    for beside in ("\x07", "\x1b[?2026h", "\x1b[?25l", "\x1b]2;a title\x07"):
        assert cells.difference(beside) == beside and cells.difference(picture) == "", beside


@pytest.mark.nightly
@pytest.mark.parametrize("size", [(160, 45), (220, 60)])
def test_a_step_in_the_results_and_going_to_another_pane_take_few_bytes(tmp_path, size):
    store(tmp_path, 200, 200, project(tmp_path, 200))
    with workbench(tmp_path, FILE, size=size) as terminal:
        terminal.wait("all keys")
        for pane in "4561234":  # a pane that is shown for the first time is drawn whole
            sent(terminal, pane)
        steps = [sent(terminal, key) for key in "jjkk"]
        panes = [sent(terminal, pane) for pane in "123456414"]
    assert mean(steps) <= 4 * 1024
    assert mean(panes) <= 15 * 1024


def sent(terminal, key):
    """The bytes that a key brings."""
    since = len(terminal.raw)
    terminal.press(key)
    terminal.calm(0.5)
    return len(terminal.raw) - since
