"""Somebody who watches, reads, compares and mends runs on a real terminal, at each size that people have."""

import json
import re

import pytest

from tests.runs.conftest import Project
from tests.tui.terminal import workbench

pytestmark = pytest.mark.story

SHARED = "refund-nightly-"
TARGET = """[targets.assistant-of-the-shop-{name}]
model = "openai/{name}"
base_url = "{url}"
price = {{ input_per_million = 0, output_per_million = 1000 }}
"""
RUN = '[run]\ntargets = ["assistant-of-the-shop-one", "assistant-of-the-shop-two"]\nconfirm_calls = 1\n'
SIZES = [(120, 40), (80, 24), *(pytest.param(size, marks=pytest.mark.nightly) for size in ((160, 45), (220, 60)))]


@pytest.fixture
def project(tmp_path, server):
    """Two runs whose names begin alike: on Monday three of twelve items fail, on Tuesday all of the second target."""
    made = Project(tmp_path, server)
    (tmp_path / ".evals").mkdir()
    targets = [TARGET.format(name=name, url=server.url) for name in ("one", "two")]
    (tmp_path / ".evals" / "config.toml").write_text("".join((*targets, RUN)))
    items = [
        {
            "testId": f"refund-policy-case-{number:04}",
            "prompt": f"{'' if number % 5 else '[[say Sorry.]] '}question {number} of somebody",
            "expected_response": f"question {number} of",
        }
        for number in range(12)
    ]
    data = {"schemaVersion": "1.11.0", "default_evaluators": {"Includes": {}, "ExactMatch": {}}, "items": items}
    data["default_evaluators"].pop("ExactMatch")
    (tmp_path / "data.json").write_text(json.dumps(data))
    made.do("run", "data.json", "--quiet", "--name", f"{SHARED}monday", code=None)
    server.behave("two", say="I cannot tell.")
    made.do("run", "data.json", "--quiet", "--no-cache", "--name", f"{SHARED}tuesday", code=None)
    return made


@pytest.mark.nightly
@pytest.mark.cases(1)
@pytest.mark.parametrize("size", SIZES)
def test_runs_are_watched_read_mended_and_compared(project, size):
    with project.reader() as reader:
        tuesday, _ = reader.runs(9)

    with workbench(project.folder, "data.json", size=size) as terminal:

        def flat():
            return " ".join(terminal.rows.screen.split())

        def sees(keys, *patterns):
            """Press keys; all of this stands on the screen then."""
            terminal.press(keys)
            terminal.until(lambda: all(re.search(pattern, flat()) for pattern in patterns))

        terminal.wait("all keys")
        sees("1", f"statuses of {tuesday.key}", r"…-0000 \[\[say")
        sees("6", r"monday ■ finished 75 %", r"tuesday ■ finished 0–75 %")

        # The head of the results: progress, time and cost, then each target by what tells it from the other.
        sees("G\r", rf"4 Results · {SHARED}monday")
        sees("", r"■ finished 24/24 in [\d.]+ m?s \$0\.\d+", r"one 75\.0 % \(46–94\) .*✓ 9", r"two 75\.0 % \(46–94\)")
        sees("", r"item target status .*answer", r"…-0000 \S*one ✗ fail .* ✗", r"…-0000 \S*two ✗ fail")

        # A filter follows typing; the answer begins with its verdicts and why it failed.
        sees("/fail", r"6 of 24 · fail")
        sees(" cost:>1", "0 of 24 · fail c")
        sees("\x1b", rf"{SHARED}monday ─")
        sees("/fail\t", r"6 of 24 · fail", "S sort")
        sees("5", "✗ Includes", "Includes 0: the answer includes none of", "a accept")

        # Accept, judge again, and on to the next failure of the same list.
        sees("a", "now expects this answer")
        sees("t", r"✗ fail.* → ✓ pass", "next: refund-policy-case-0000 by")
        sees("4", "5 of 24 · fail", "1 answer judged again by an edited dataset", r"one 83\.3 %")
        sees("\x13", "saved data.json")

        # The matrix: columns told apart, what they disagree on first, two of them compared, rows filtered.
        sees("m", "Matrix of", "1 answer judged again", r"one │\S*two", r"83\.3 % of 12 │75\.0 % of 12")
        sees("Sdis\r", "disagreement first")
        sees("g h=", "B passes 1 more of 12 items than A")
        sees("q", "Matrix of")
        sees("/fail\t", "3 rows · .*fail", "S sort")
        sees("qq", "5 of 24 · fail")

        # Two runs compared with what they cost; answers of all runs found; how the dataset did; a battle.
        sees("6g=", r"B is worse|B passes \d+ fewer", r"cost \$0\.\d+ → \$0\.\d+", "broken")
        sees("/cannot\t", "9 of 24 lines · cannot")
        sees("qq", r"tuesday ■")
        sees("S", "find answers of all runs")
        sees("cannot\r", "9 answers with “cannot”")
        sees("\r", f"4 Results · {SHARED}tuesday")
        sees("6T", "trend of data.json", r"▓.* 83\.3 % .*one", r"░.* 0\.0 % .*two")
        sees("\x1bB", "say what it takes")
        sees("\x1b4", "/ filter")

        # What would cost more than the settings allow unasked is begun by nobody in passing.
        sees("r", "2 calls, about", r"Press k for Start")
        terminal.press("\r")
        terminal.until(lambda: "for Start" not in terminal.rows.screen)
        sees("1r", r"24 calls \(24 of 24 known\), free")
        sees("\x1b", "statuses of")
        terminal.press("q")
        assert terminal.end() == 0
    with project.reader() as reader:
        assert len(reader.runs(9)) == 2
