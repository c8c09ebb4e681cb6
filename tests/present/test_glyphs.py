"""Our signs in ASCII: each has one, as wide as it is, and no two statuses share one."""

import ast
from pathlib import Path

import pytest

import tui_evals
from tui_evals.present.columns import ASCII, UNKNOWN, cell_width, in_ascii, unambiguous
from tui_evals.present.status import ANSWER_LOOKS, RUN_LOOKS

ROOMS = [Path(tui_evals.__file__).parent / room for room in ("present", "tui", "cli", "compare", "runs", "help")]


def signs_drawn():
    for room in ROOMS:
        for file in room.rglob("*.md"):
            yield from file.read_text(encoding="utf-8")
        for file in room.rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and file.name != "glyphs.py":
                    yield from node.value


@pytest.mark.nightly
def test_every_sign_that_we_draw_stands_in_the_table():
    signs = {sign for sign in signs_drawn() if not sign.isascii() and sign.isprintable() and cell_width(sign) == 1}
    assert signs - set(ASCII) <= set("\ufffdßİı"), signs - set(ASCII)


@pytest.mark.parametrize("looks", [ANSWER_LOOKS, RUN_LOOKS])
def test_statuses_differ_in_ascii_as_well(looks):
    assert len({in_ascii(look.glyph) for look in looks.values()}) == len(looks)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("plain", "plain"),
        ("╭─ 4 Results ─╮", "+- 4 Results -+"),
        ("✓ pass · 72 % …", "v pass . 72 % ~"),
        ("naïve 日本", "na?ve ????"),
        ("e\u0301 and 👩‍👩‍👧", "? and ??"),
    ],
)
def test_a_text_in_ascii_is_as_wide_as_it_was(text, plain):
    assert in_ascii(text) == plain and cell_width(plain) == cell_width(text)


def test_only_what_may_be_two_cells_wide_goes():
    assert unambiguous("│ naïve é α 日本 ✓ ½") == f"| naïve {UNKNOWN} {UNKNOWN} 日本 v {UNKNOWN}"
    assert unambiguous("e\u0301") == "e\u0301"
