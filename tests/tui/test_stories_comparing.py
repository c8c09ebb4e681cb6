"""What people ask after a run: did it get better, or is that noise?"""

import re

import pytest
from textual.widgets import Input

from tests.store.helpers import judged, new_run, said
from tests.tui.hostile import BYTES, FORBIDDEN, MARKUP, STRANGE
from tests.tui.stored_runs import add_run, fresh
from tests.tui.story import at_the_workbench, configure
from tui_evals.store.baselines import baselines, set_baseline
from tui_evals.store.battles import activities, battles, bouts
from tui_evals.store.reader import Reader
from tui_evals.store.records import PlannedAnswer
from tui_evals.store.writer import Writer
from tui_evals.tui.compare.charts import ChartsScreen
from tui_evals.tui.compare.screen import CompareScreen
from tui_evals.tui.labels import LabelScreen
from tui_evals.tui.matrix import MatrixScreen

GOOD, BAD = ("pass", "Seven days."), ("fail", "I am not sure.")


async def history(folder, *runs, expected="Seven days, for films and games.", **given):
    """Runs of the same dataset, by their names and answers."""
    path = fresh(folder)
    for number, answers in enumerate(runs):
        named = {"name": f"try {number + 1}", "expected": expected, **given}
        await add_run(path, answers, **named)
    return path


def flat(person):
    """What is on the screen, with no regard to where its lines are broken."""
    return " ".join(person.screen().replace("│", " ").split())


async def at_the_runs(person, name):
    await person.press("6")
    await person.until(lambda: any(name in line for line in person.rows("runs")))


async def compared(person, *keys):
    await person.press(*keys, "equals_sign")
    await person.until(lambda: isinstance(person.app.screen, CompareScreen) and person.app.screen.comparison)


@pytest.mark.story
async def test_two_marked_runs_are_compared_and_read_down_to_the_answer_that_broke(tmp_path):
    await history(tmp_path, [GOOD] * 8, [BAD] * 4, [BAD] * 6 + [GOOD] * 2)
    async with at_the_workbench(tmp_path, size=(100, 30)) as person:
        await at_the_runs(person, "try 3")
        await compared(person, "space", "G", "space")
        await person.sees("the 2 marked runs")
        await person.until(lambda: "B is worse: 6 fewer of 8 items pass (p = 0.031)." in flat(person))
        await person.sees("✗ 6 broken")
        await person.press("b")
        assert "= same" not in person.screen().split("= 2 same")[1]
        await person.press("j", "enter")
        await person.sees("t-1")
        await person.until(lambda: "Seven days." in flat(person) and "I am not sure." in flat(person))
        assert "because of I am not sure." in flat(person)
        await person.press("e", "e")
        await person.until(lambda: "expected next to B" in flat(person) and "films and games" in flat(person))
        await person.press("h")
        await person.until(lambda: isinstance(person.app.screen, ChartsScreen))
        await person.sees("pass rate (8)")
        await person.press("escape", "escape", "escape")
        await person.until(lambda: not isinstance(person.app.screen, CompareScreen))
        assert person.app.front == "runs"


@pytest.mark.nightly
async def test_four_runs_stand_in_columns_and_any_of_them_comes_beside_the_first(tmp_path):
    await history(tmp_path, [GOOD, GOOD], [BAD, GOOD], [GOOD, GOOD], [GOOD, BAD])
    async with at_the_workbench(tmp_path, size=(80, 24)) as person:
        await at_the_runs(person, "try 4")
        await compared(person, "space", "space", "space", "space")
        await person.sees("the 4 marked runs")
        screen = person.screen().split("\n")
        assert [line[:7] for line in screen[:4]] == ["A try 1", "B try 2", "C try 3", "D try 4"]
        assert any(line.split() == ["item", "A", "B", "C", "D"] for line in screen)
        row = next(line for line in screen if "t-0" in line and "✓ pass" in line)
        assert row.split()[2:11] == ["t-0", "✓", "pass", "✗", "fail", "✓", "pass", "✓", "pass"]
        await person.sees("A → B")
        await person.press("j")
        await person.sees("A → D")
        await person.press("v")
        await person.sees("A → B")
        await person.press("question_mark")
        await person.type("holm")
        await person.until(lambda: "false alarm" in flat(person))


@pytest.mark.nightly
async def test_from_160_columns_the_texts_of_three_runs_and_what_was_expected_stand_side_by_side(tmp_path):
    await history(tmp_path, [GOOD], [BAD], [GOOD])
    async with at_the_workbench(tmp_path, size=(160, 45)) as person:
        await at_the_runs(person, "try 3")
        await compared(person, "space", "space", "space")
        await person.until(
            lambda: any(
                [part.strip() for part in line.split("│")] == ["expected", "A", "B", "C"]
                for line in person.screen().split("\n")
            )
        )
        assert "median latency" in person.screen()


@pytest.mark.nightly
async def test_a_judge_chooses_between_the_answers_of_two_runs(tmp_path):
    """B asks who judges, says what it takes, and shows the battle until it is decided."""
    await history(tmp_path, [GOOD, GOOD], [BAD, BAD])
    async with at_the_workbench(tmp_path, size=(100, 30)) as person:
        await at_the_runs(person, "try 2")
        await person.press("B")
        await person.sees("say what it takes")
        await person.press("ctrl+s")
        await person.sees("choose who judges")
        await person.press("enter")
        await person.type("demo")
        await person.press("enter", "ctrl+s")
        await person.sees("2 pairs of answers, 0 of them equal")
        await person.press("y")
        await person.until(lambda: "demo: 2/2 bouts" in flat(person) and "Elo" in flat(person))
        await person.press("escape")
        await person.until(lambda: "Elo" not in person.screen())


SLOW = '[targets.slow]\nmodel = "demo"\nconcurrency = 1\nparams = { latency_ms = 150, jitter_ms = 0, error_rate = 0 }\n'


@pytest.mark.nightly
async def test_a_battle_goes_on_without_its_workbench_and_is_watched_and_stopped_from_two_others(tmp_path):
    """Both read the store; what was decided is kept, and the same battle asks for the rest only."""
    path = await history(tmp_path, [GOOD] * 300, [BAD] * 300)
    configure(tmp_path, SLOW)
    async with at_the_workbench(tmp_path, size=(100, 30)) as person:
        await at_the_runs(person, "try 2")
        await person.press("B")
        await person.sees("say what it takes")
        await person.press("enter")
        await person.type("slow")
        await person.press("enter", "ctrl+s")
        await person.sees("300 pairs of answers, 0 of them equal")
        await person.press("y")
        await person.until(lambda: re.search(r"slow: [1-9]\d*/300 bouts", flat(person)))
    async with (
        at_the_workbench(tmp_path, size=(100, 30)) as first,
        at_the_workbench(tmp_path, size=(100, 30)) as second,
    ):
        for person in (first, second):
            await at_the_runs(person, "try 2")
            await person.press("V")
            await person.until(lambda person=person: "▸ slow:" in flat(person))
            await person.press("enter")
            await person.until(lambda person=person: re.search(r"slow: \d+/300 bouts", flat(person)))
        await second.press("x")
        for person in (first, second):
            await person.until(lambda person=person: "stopped before the end. What was decided is kept" in flat(person))
    with Reader(path) as reader:
        (fought,) = activities(reader, "battle")
        assert (fought.status, fought.code, fought.control) == ("interrupted", "asked", "stop")
        asked = battles(reader)[0]
        assert 0 < fought.done == len(list(bouts(reader, 1, 2, asked.judge, asked.question))) < 300


@pytest.mark.nightly
async def test_a_run_is_made_the_baseline_and_later_ones_are_compared_with_it(tmp_path):
    path = await history(tmp_path, [GOOD, BAD], [GOOD, GOOD], [BAD, GOOD], source="evals/a.json")
    async with at_the_workbench(tmp_path, size=(100, 30)) as person:
        await at_the_runs(person, "try 3")
        await person.press("G", "b")
        await person.sees("⚑ baseline")
        assert "try 1 is the baseline of evals/a.json" in person.said()
        with Reader(path) as reader:
            assert [(one.source, one.run) for one in baselines(reader)] == [("evals/a.json", 1)]
        await compared(person, "g")
        await person.sees("and its baseline")
        assert [line[:7] for line in person.screen().split("\n")[:2]] == ["A try 1", "B try 3"]
        await person.press("escape", "G", "D")
        await person.sees("Delete try 1?")
        await person.press("y")
        await person.until(lambda: "is the baseline of evals/a.json" in flat(person))
        with Reader(path) as reader:
            assert [run.id for run in reader.runs(9)] == [3, 2, 1]


async def test_answers_of_the_run_under_the_cursor_are_labelled_blind_with_one_key(tmp_path):
    await history(tmp_path, [GOOD, BAD])
    async with at_the_workbench(tmp_path, size=(80, 24)) as person:
        await at_the_runs(person, "try 1")
        await person.press("L")
        await person.until(lambda: any(isinstance(screen, LabelScreen) for screen in person.app.screen_stack))


@pytest.mark.nightly
async def test_words_find_answers_by_what_was_said_in_them(tmp_path):
    await history(tmp_path, [GOOD, BAD], [GOOD, ("fail", "Ask the librarian.")])
    async with at_the_workbench(tmp_path, size=(80, 24)) as person:
        await at_the_runs(person, "try 2")
        await compared(person)
        await person.press("slash")
        await person.type("librarian")
        await person.press("enter")
        await person.until(lambda: "t-0" not in person.screen())
        assert "t-1" in person.screen()
        await person.press("slash", "ctrl+u")
        await person.type("score:much")
        await person.until(lambda: "score" in flat(person) and "much" in flat(person))
        await person.press("enter")
        assert isinstance(person.app.focused, Input)
        await person.press("escape", "escape")
        await person.until(lambda: "t-0" in person.screen())


@pytest.mark.nightly
async def test_answers_of_all_runs_are_found_by_their_words_and_a_dataset_has_a_page_of_its_trend(tmp_path):
    """S takes one to an answer of whichever run, T shows how the runs of the dataset did one after the other."""
    path = await history(
        tmp_path, [GOOD, BAD], [GOOD, ("fail", "Ask the librarian.")], [GOOD, GOOD], source="evals/a.json"
    )
    with Writer(path) as writer:
        set_baseline(writer, "evals/a.json", 1, "me")
    async with at_the_workbench(tmp_path, size=(80, 24)) as person:
        await at_the_runs(person, "try 3")
        await person.sees("⚑▅▅█")
        await person.press("S")
        await person.type("score:much")
        await person.press("enter")
        await person.until(lambda: "much" in flat(person) and "find answers" in flat(person))
        await person.press("ctrl+u")
        await person.type("librarian")
        await person.press("enter")
        await person.sees("1 answer with “librarian”")
        assert "try 2" in person.screen() and "t-1" in person.screen()
        await person.press("enter")
        await person.until(lambda: person.app.watching.run is not None and person.app.front == "results")
        with Reader(path) as reader:
            assert person.app.watching.run.name == "try 2"
            assert next(iter(reader.rows([person.app.watching.answer]))).name == "t-1"
        await person.press("6", "T")
        await person.sees("trend of evals/a.json")
        lines = [line for line in person.screen().split("\n") if "%" in line and "▓" in line]
        assert ["⚑" in line for line in lines[:3]] == [True, False, False]
        assert [rate in line for rate, line in zip(("50.0 %", "50.0 %", "100.0 %"), lines, strict=False)] == [True] * 3
        assert "no difference" in flat(person) or "could be chance" in flat(person)


@pytest.mark.nightly
@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
async def test_hostile_names_and_answers_stay_what_they_are(tmp_path, size):
    said = STRANGE.replace("\u200b", "")
    path = fresh(tmp_path)
    for number, verdict in enumerate(("pass", "fail", "pass")):
        given = {"name": f"{number} {MARKUP} {BYTES}", "suite": MARKUP, "targets": (MARKUP,)}
        await add_run(path, [(verdict, f"{number} {said}")] * 3, expected=f"{said} expected", **given)
    async with at_the_workbench(tmp_path, size=size) as person:
        await person.until(lambda: len(person.app.watching.reader.runs(9)) == 3)
        await at_the_runs(person, "[/b]")
        await person.press("b")
        await person.until(lambda: any("⚑" in line for line in person.rows("runs")))
        await compared(person, "g", "space", "space", "space")
        for keys in ((), ("enter",), ("d",), ("e",), ("v",), ("escape",), ("h",)):
            await person.press(*keys)
            await person.until(lambda: "[/b]" in flat(person))
            drawn = person.screen().encode()
            assert not any(bad in drawn for bad in FORBIDDEN)
            assert b"\x1b" not in drawn and b"\x07" not in drawn


async def two_models(folder):
    """A run of two models over two items, whose answers are there."""
    path = fresh(folder)
    with Writer(path) as writer, Reader(path) as reader:
        items = [{"testId": name, "prompt": f"ask {name}", "expected_response": "Seven days."} for name in "ab"]
        snapshot = writer.snapshot({"items": items}, "evals/a.json")
        planned = [
            PlannedAnswer(2 * item + target, item, 0, 0, target, 0, "ab"[item])
            for item in range(2)
            for target in range(2)
        ]
        given = {"source": "evals/a.json", "targets": ("m/small", "m/large"), "name": "two models"}
        run = writer.plan(new_run(snapshot=snapshot, **given), planned)
        for number, answer in enumerate(reader.ids(run.id)):
            await writer.answered(answer, said(f"Seven days, says {number}."), "answered")
            await writer.scored(answer, 1, [judged()], "pass", 100.0)
        writer.run_status(run.id, "finished")
    return run


async def fought(person):
    """Fill the form, agree to what it takes, and read the battle to its end."""
    await person.sees("say what it takes")
    await person.press("enter")
    await person.type("demo")
    await person.press("enter", "ctrl+s")
    await person.sees("2 pairs of answers, 0 of them equal")
    await person.press("y")
    await person.until(lambda: "demo: 2/2 bouts" in flat(person) and "Elo" in flat(person))
    await person.press("escape")
    await person.until(lambda: "Elo" not in person.screen())


@pytest.mark.nightly
async def test_two_models_of_a_run_have_a_battle_which_is_shown_again_later(tmp_path):
    """B in the results and in the matrix; V lists what was fought, and no judge is asked again."""
    run = await two_models(tmp_path)
    async with at_the_workbench(tmp_path, run=run.key, size=(100, 30)) as person:
        await person.press("4")
        await person.until(lambda: person.app.watching.run is not None)
        await person.press("B")
        await person.until(lambda: f"m/small and m/large of {run.key}, as they answered" in flat(person))
        await fought(person)
        await person.press("m")
        await person.until(lambda: isinstance(person.app.screen, MatrixScreen) and person.app.screen._pages)
        await person.press("l", "space", "h", "B")
        await person.until(lambda: f"m/large and m/small of {run.key}, as they answered" in flat(person))
        await person.press("escape", "escape")
        await at_the_runs(person, "two models")
        await person.press("V")
        await person.until(lambda: f"A m/small ({run.key}) · B m/large ({run.key})" in flat(person))
        await person.press("enter")
        await person.until(lambda: "battle 1 ·" in flat(person) and "Elo" in flat(person))
        assert "2 decided earlier, 0 for demo to decide" in flat(person)


@pytest.mark.nightly
async def test_enter_on_the_lines_of_the_targets_or_below_the_runs_opens_the_trend(tmp_path):
    """k above the first answer leads to the baseline line, j below the last run to that of the trend."""
    path = await history(tmp_path, [GOOD, BAD], [GOOD, GOOD], source="evals/a.json")
    with Reader(path) as reader:
        latest = reader.find_run("last").key
    async with at_the_workbench(tmp_path, run=latest, size=(100, 30)) as person:
        await person.press("4", "g")
        await person.until(lambda: "100.0 %" in person.screen())
        await person.press("k", "enter")
        await person.until(lambda: "oldest run first" in flat(person))
        await person.press("escape", "j")
        assert person.app.focused is person.app.pane("results")._lines
        await person.press("k", "escape")
        assert person.app.focused is person.app.pane("results")._lines
        await at_the_runs(person, "try 2")
        await person.until(lambda: "trend of evals/a.json" in flat(person))
        await person.press("G", "j", "enter")
        await person.until(lambda: "oldest run first" in flat(person))
        await person.press("escape", "k")
        assert person.app.focused is person.app.pane("runs").lines
