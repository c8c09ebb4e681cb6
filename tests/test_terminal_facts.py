"""What is read from a terminal's answers and from the environment, without a terminal."""

import pytest

from tui_evals.terminal_facts import SIGNS, Answers, answers_in, colour_count, shade, why_ascii


def test_answers_are_told_from_what_is_typed_between_them():
    said = b"ab\x1b]11;rgb:ffff/8080/0000\x1b\\c\x1b[A\x1b[24;5R\x1b\x1b[?62;22cd\n"
    answers = answers_in(said)
    assert answers.background == pytest.approx((1, 0.502, 0), abs=0.001)
    assert answers.width == "narrow"
    assert answers.typed == b"abc\x1b[A\x1bd\r"


def test_an_answer_that_was_cut_off_is_no_key():
    for cut in (b"\x1b]11;rgb:12", b"\x1b[?62;", b"\x1b[1;"):
        assert answers_in(b"j" + cut) == Answers(typed=b"j")


@pytest.mark.parametrize(
    ("place", "width"), [(5, "narrow"), (6, "wide"), (9, "wide"), (13, "no UTF-8"), (1, "no UTF-8")]
)
def test_how_wide_signs_are(place, width):
    assert len(SIGNS) == 4 and answers_in(b"\x1b[1;%dR" % place).width == width
    assert answers_in(b"").width == "unknown"


@pytest.mark.parametrize(
    ("said", "given", "dark"),
    [
        (b"\x1b]11;rgba:00/2b/36/ff\x07", "0;15", True),
        (b"\x1b]11;rgb:fdfd/f6f6/e3e3\x07", "15;0", False),
        (b"", "0;15", False),
        (b"", "15;default;0", True),
        (b"", "12;8", True),
        (b"", "0;default", True),
        (b"", "", True),
    ],
)
def test_light_or_dark(said, given, dark):
    found = shade(answers_in(said), {"COLORFGBG": given})
    assert found.dark == dark and found.why


@pytest.mark.parametrize(
    ("encoding", "environ", "why"),
    [
        ("utf-8", {}, ""),
        ("utf-8", {"LANG": "en_GB.UTF-8"}, ""),
        ("utf-8", {"LC_ALL": "C"}, "LC_ALL=C"),
        ("utf-8", {"LC_CTYPE": "C.UTF-8", "LANG": "C"}, "LANG=C"),
        ("utf-8", {"LC_CTYPE": "C.UTF-8"}, ""),
        ("utf-8", {"LC_CTYPE": "UTF-8", "LANG": "de_DE"}, ""),
        ("utf-8", {"LC_ALL": "C", "PYTHONUTF8": "1"}, ""),
        ("iso8859-1", {"LANG": "de_DE"}, "written as iso8859-1"),
        ("ascii", {"LC_ALL": "POSIX"}, "LC_ALL=POSIX"),
        (None, {"LC_ALL": "C.UTF-8", "LANG": "C"}, ""),
    ],
)
def test_when_only_ascii_can_be_shown(encoding, environ, why):
    assert why_ascii(encoding, environ) == why


def test_how_many_colours():
    assert colour_count({"TERM": "xterm-256color"}) == 256
    assert colour_count({"TERM": "xterm"}) == 16
    assert colour_count({"TERM": "xterm", "COLORTERM": "truecolor"}) == 1 << 24
    assert colour_count({"TERM": "xterm", "COLORTERM": "truecolor", "NO_COLOR": "1"}) == 0
    assert colour_count({"TERM": "dumb"}) == 0
