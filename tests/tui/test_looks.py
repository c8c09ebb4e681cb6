"""The workbench on terminals of every kind: without colours, without signs, light, dark, wide, slow to answer."""

import json
import os
import re
import subprocess
import sys
from unicodedata import east_asian_width

import pytest

from tests.tui.stored_runs import add_run, fresh
from tests.tui.story import at_the_workbench, configure
from tests.tui.terminal import WHO, Terminal, workbench

SGR = re.compile(rb"\x1b\[([0-9;:]*)m")
BACKGROUND, PLACE = b"\x1b]11;?\x1b\\", b"\x1b[6n"
ASCII_ALONE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
DARK, LIGHT = b"48;2;20;23;28m", b"48;2;251;251;249m"


@pytest.fixture
async def folder(tmp_path):
    items = [
        {"prompt": f"question {number} of the naïve 日本語 café", "expected_response": "yes"} for number in range(40)
    ]
    (tmp_path / "data.json").write_text(json.dumps({"schemaVersion": "1.11.0", "items": items}, ensure_ascii=False))
    await add_run(
        fresh(tmp_path),
        [("pass", "yes → naïve"), ("fail", "no · 日本"), None],
        expected="yes",
        status="interrupted",
        source="data.json",
    )
    return tmp_path


def walk(terminal: Terminal) -> bytes:
    """Past all panes, a menu, an entry, help, an error and the selection in a field; what was drawn."""
    terminal.wait("all keys")
    for key, title in (
        ("4", "4 Results"),
        ("5", "5 Answer"),
        ("6", "6 Runs"),
        ("1", "1 Dataset"),
        ("3", "3 Evaluators"),
    ):
        terminal.after(key, title)
    terminal.after("1:", "esc leaves")
    terminal.press("\x1b")
    terminal.calm(0.3)
    terminal.after("?", "does it")
    terminal.after("\x1b", "all keys")
    terminal.calm(0.3)
    terminal.press("\x11")
    assert terminal.end() == 0
    return terminal.raw


@pytest.mark.nightly
async def test_no_color_means_no_colour_at_all(folder):
    with workbench(folder, "data.json", size=(120, 30), NO_COLOR="1", COLORTERM="truecolor") as terminal:
        drawn = walk(terminal)
    codes = {code for found in SGR.findall(drawn) for code in re.split(rb"[;:]", found)}
    assert codes <= {b"", b"0", b"1", b"2", b"4", b"7", b"22", b"24", b"27"}
    assert b"7" in codes and b"2" in codes and b"1" in codes
    assert re.search(rb"\x1b\[7m *(?:\x1b\[1m)?data.json", drawn), "the cursor stands out by being reversed"
    assert BACKGROUND not in drawn


@pytest.mark.nightly
async def test_a_locale_without_utf_8_gets_ascii_alone(folder):
    with workbench(folder, "data.json", size=(120, 30), **ASCII_ALONE) as terminal:
        drawn = walk(terminal)
    assert not [hex(byte) for byte in drawn if byte > 0x7E]
    text = terminal.shown
    assert "+- 4 Results" in text and "v pass" in text and "question 0 of the na?ve ??????" in text
    assert PLACE not in drawn


COMMAND = [sys.executable, "-m", "tui_evals"]


@pytest.mark.nightly
async def test_commands_print_ascii_alone_where_the_locale_knows_no_more(folder):
    for environment in (ASCII_ALONE, {"LANG": "C", "LC_ALL": "", "LC_CTYPE": ""}):
        with Terminal([*COMMAND, "show", "last"], folder, **environment) as terminal:
            assert terminal.end() == 0
        assert not [byte for byte in terminal.raw if byte > 0x7E]
        assert "x fail" in terminal.text
    environment = {name: value for name, value in os.environ.items() if name != "LANG"} | ASCII_ALONE
    for words, kept in (
        ("export last --to csv -o -", "yes → naïve"),
        ("show last --item t-0 --json", r"yes \u2192 na\u00efve"),
    ):
        done = subprocess.run([*COMMAND, *words.split()], cwd=folder, env=environment, capture_output=True, check=True)
        assert kept in done.stdout.decode("utf-8"), "data stays as it is"


def test_a_dumb_terminal_gets_no_control_byte_and_a_sentence_instead_of_the_workbench(folder):
    with Terminal(COMMAND, folder, TERM="dumb") as terminal:
        assert terminal.end() == 2
    assert "tui-evals --help" in terminal.text and "TERM is dumb" in terminal.text
    with Terminal([*COMMAND, "run", "data.json", "--target", "demo"], folder, TERM="dumb") as run:
        run.end()
    for raw in (terminal.raw, run.raw):
        assert not re.findall(rb"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f]", raw)


def seen(terminal: Terminal) -> bytes:
    terminal.wait("all keys")
    terminal.press("\x11")
    assert terminal.end() == 0
    return terminal.raw


@pytest.mark.parametrize(
    ("replies", "environment", "shown"),
    [
        ({BACKGROUND: b"\x1b]11;rgb:fdfd/f6f6/e3e3\x1b\\"} | WHO, {"COLORFGBG": "15;0"}, LIGHT),
        ({BACKGROUND: b"\x1b]11;rgb:00/2b/36\x07"} | WHO, {"COLORFGBG": "0;15"}, DARK),
    ],
    ids=["light", "dark"],
)
def test_light_or_dark_is_asked_of_the_terminal(tmp_path, replies, environment, shown):
    with workbench(tmp_path, replies=replies, COLORTERM="truecolor", **environment) as terminal:
        drawn = seen(terminal)
    assert shown in drawn and {LIGHT: DARK, DARK: LIGHT}[shown] not in drawn


def test_a_chosen_theme_asks_nothing_and_stays(tmp_path):
    configure(tmp_path, '[ui]\ntheme = "calm-light"\n')
    with workbench(tmp_path, COLORTERM="truecolor") as terminal:
        drawn = seen(terminal)
    assert BACKGROUND not in drawn and LIGHT in drawn


@pytest.mark.nightly
def test_a_late_answer_is_not_typed_and_what_was_typed_before_is_not_lost(folder):
    """The answers come once the first picture is there; what was typed while they were waited for is done."""
    with workbench(folder, "data.json", replies={}) as terminal:
        terminal.press("4")
        terminal.wait("4 Results[\\s\\S]*all keys")
        terminal.after("/", "filter")
        terminal.press("\x1b]11;rgb:fdfd/f6f6/e3e3\x1b\\\x1b[1;5R\x1b[?62;22c")
        terminal.after("pass", "pass")
        terminal.after("\r", "pass")
        terminal.calm()
        assert "rgb" not in terminal.shown and "fdfd" not in terminal.shown and "62;22" not in terminal.shown
        terminal.press("\x11")
        assert terminal.end() == 0


def test_the_frame_stays_whole_where_signs_are_two_cells_wide(folder):
    with workbench(folder, "data.json", replies={PLACE: b"\x1b[1;9R"} | WHO, size=(120, 30)) as terminal:
        terminal.wait("all keys")
        terminal.after("4", "4 Results")
        terminal.press("\x11")
        assert terminal.end() == 0
    drawn = terminal.shown.split("all keys", 1)[1]
    assert "+- 4 Results" in drawn and "v pass" in drawn and "日本" in drawn
    assert not [sign for sign in drawn if east_asian_width(sign) == "A"]


async def test_the_setting_draws_in_ascii_at_once(folder):
    async with at_the_workbench(folder, size=(120, 30), dataset="data.json") as person:
        assert "╭─ 1 Dataset" in person.screen()
        configure(folder, "[ui]\nascii = true\n")
        person.app.workspace.configure()
        person.app.dress()
        await person.sees("+- 1 Dataset")
        assert person.screen().isascii()


@pytest.mark.nightly
def test_doctor_says_what_it_found_of_the_terminal(folder):
    typed = {question: b"ls -l\r" + answer for question, answer in WHO.items()}
    replies = {BACKGROUND: b"\x1b]11;rgb:ffff/ffff/ffff\x07", PLACE: b"\x1b[3;9R"} | typed
    with Terminal([*COMMAND, "doctor"], folder, replies=replies, ESCDELAY="900", COLORTERM="truecolor") as terminal:
        terminal.end()
    for said in (
        "TERM +xterm-256color",
        "encoding +utf-8",
        "colours +true colour",
        "background +light .the terminal says its background is #ffffff",
        "signs +.* take two cells",
        "typed +“ls -l” came while the terminal was asked and went nowhere; type it again",
        "ESCDELAY +900 ms; your editor may wait",
        "inside +neither",
    ):
        assert re.search(said, terminal.shown), said
