"""Tab takes what is typed in a line, and escape drops it."""

import asyncio

import pytest

from tests.tui.stored_runs import add_run, fresh
from tests.tui.terminal import workbench


@pytest.fixture
def project(tmp_path):
    answers = [("fail", "no idea") if number % 3 == 0 else ("pass", "seven days") for number in range(9)]
    for name in ("first", "second"):
        asyncio.run(add_run(fresh(tmp_path), answers, name=name, source="evals.json"))
    return tmp_path


@pytest.mark.nightly
def test_tab_takes_what_is_typed_in_every_line_and_escape_drops_it(project):
    with workbench(project, size=(120, 40)) as terminal:
        terminal.wait("all keys")
        terminal.after("6", "second")
        terminal.after("\r", "4 Results · second")
        terminal.after("/fail\t", r"3 of 9 · fail[\s\S]*/ filter")  # the keys are those of the results again
        terminal.after("/ cost:>1", "0 of 9 · cost:>1")
        terminal.after("\x1b", "3 of 9 · fail ")  # the one from before
        terminal.after("/ score:\x1b[Z", "needs a value after the colon")  # what cannot be read stays, as with enter
        terminal.after("\x1b", "3 of 9 · fail ")
        terminal.after("\x1b", "4 Results · second ")

        terminal.after("5/because\t", "“because”: 1 of")
        terminal.after("\x1b4", "/ filter")

        terminal.after("m/fail\t", "3 rows · fail")
        terminal.after("qq6", "# tags")

        terminal.after("=/idea\t", "3 of 9 lines · idea")
        terminal.after("qq", "# tags")

        terminal.after("/fir\t", "filter: fir[\\s\\S]*# tags")
        terminal.after("\x1b", "second")
        terminal.after("S", "find answers of all runs")
        terminal.after("idea\t", "6 answers with “idea”")
        terminal.press("\x1b\x11")
        assert terminal.end() == 0
