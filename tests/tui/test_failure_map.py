"""A finished run opens with what failed: its faults are named at every size, and each is two keys from an example."""

import asyncio
import json
import re

import pytest

from tests.compare.planted_faults import faulty_run, items
from tests.tui.story import at_the_workbench
from tests.tui.terminal import workbench
from tui_evals.compare.failure_map import read_failure_map
from tui_evals.present.failure_map import Example
from tui_evals.store.reader import Reader
from tui_evals.tui.results.failure_view import ClusterKey, FailuresRead, FailureView
from tui_evals.tui.results.table import ResultsTable
from tui_evals.tui.widgets.lines import Lines

SIZES = [(80, 24), (120, 40), (160, 45), (220, 60)]
FAULTS = ("refuses connections", "friendly", "refunds", "Relevance")


def answers(person):
    return person.app.query_one("#answers", Lines)


async def opened(person):
    await person.press("4")
    await person.until(lambda: isinstance(answers(person).key, ClusterKey))


def project(folder):
    (folder / "evals.json").write_text(json.dumps({"schemaVersion": "1.11.0", "items": items()}))
    return "evals.json"


@pytest.mark.story
@pytest.mark.cases(1)
@pytest.mark.parametrize("size", SIZES)
async def test_four_planted_faults_are_on_the_first_screen_and_two_keys_from_an_example(tmp_path, monkeypatch, size):
    monkeypatch.chdir(tmp_path)
    _, run = await faulty_run(tmp_path)
    async with at_the_workbench(tmp_path, size=size, dataset=project(tmp_path), run=run.key) as person:
        await opened(person)
        screen = person.screen()
        assert [fault for fault in FAULTS if fault not in screen] == []
        assert "policy-0000" in screen  # the example of the largest, with no key pressed
        for fault, why in (("friendly", "more than 30"), ("refunds", "is not in the answer"), ("Relevance", "receipt")):
            await person.press("down")
            said = " ".join(" ".join(person.rows("results")).split())
            assert why in said.partition(" why ")[2], fault
        await person.press("enter")
        await person.until(lambda: "cluster:" in person.screen() and isinstance(answers(person).key, int))
        assert len(answers(person).rows) == 129
        await person.press("escape")
        await person.until(lambda: isinstance(answers(person).key, ClusterKey))
        assert "Relevance" in person.screen()


@pytest.mark.nightly
async def test_a_redraw_between_a_key_and_its_message_leaves_the_cursor_where_the_key_put_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, run = await faulty_run(tmp_path)
    async with at_the_workbench(tmp_path, size=(160, 45), dataset=project(tmp_path), run=run.key) as person:
        await opened(person)
        lines = answers(person)
        first = lines.key
        lines.step(1)
        second = lines.key
        person.app.query_one(ResultsTable)._redraw()
        assert lines.key == second != first


@pytest.mark.nightly
async def test_actions_on_several_answers_take_the_cluster_under_the_cursor(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, run = await faulty_run(tmp_path)
    async with at_the_workbench(tmp_path, size=(160, 45), dataset=project(tmp_path), run=run.key) as person:
        await opened(person)
        await person.press("down", "v")
        await person.sees("all bad")
        assert "the 300 answers" in person.screen()
        await person.press("escape", "6")
        assert person.app.watching.chosen() is None  # elsewhere nothing is chosen


@pytest.mark.nightly
async def test_a_check_is_written_for_the_cluster_under_the_cursor_and_tried_on_its_answers_first(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    _, run = await faulty_run(tmp_path)
    async with at_the_workbench(tmp_path, size=(160, 45), dataset=project(tmp_path), run=run.key) as person:
        await opened(person)
        await person.press("down", "down", "a")  # the category
        await person.sees("new: expression")
        await person.type("expr")
        await person.press("enter")
        await person.sees("tested as you type")
        await person.type("response | split | length < 99")
        await person.sees(seconds=40, text="50 of 50 judged answers pass")
        shown = person.screen()
        assert (
            "policy-0001" in shown and "policy-0000" not in shown.partition("50 of 50")[2].partition("policy-0007")[0]
        )
        await person.press("escape")
        await person.sees(seconds=40, text="Expression judges the dataset now")
        assert person.app.front == "judges"
        assert "Expression" in person.app.workspace.data["default_evaluators"]


async def test_words_that_only_the_expectation_or_only_the_answer_has_are_marked_in_the_example(tmp_path):
    path, run = await faulty_run(tmp_path, 30)
    with Reader(path) as reader:
        found = read_failure_map(reader, run)
    view = FailureView(run, found.failing, True)
    texts = ("when?", "Within 14 days, with the receipt.", "Within 30 days, with the box.", "not in the answer")
    view.take(FailuresRead(found, {found.clusters[0].key: Example(1, "A-1", "big", *texts)}, ()))
    marked = {
        row.pieces[0].text: [piece.text.strip() for piece in row.pieces if piece.style in ("added", "removed")]
        for row in view.rows(80)
        if row.pieces
    }
    assert marked["expected"] == ["14", "receipt."]
    assert marked["answer"] == ["30", "box."]


@pytest.mark.nightly
async def test_the_view_of_a_run_that_is_watched_does_not_change_when_it_ends_and_a_key_changes_it(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    _, run = await faulty_run(tmp_path)
    async with at_the_workbench(tmp_path, size=(120, 40), dataset=project(tmp_path), run=run.key) as person:
        await opened(person)
        await person.press("F")
        assert isinstance(answers(person).key, int)
        assert len(answers(person).rows) == 1_800
        await person.press("F")
        await person.until(lambda: isinstance(answers(person).key, ClusterKey))
        await person.press("n")
        await person.until(lambda: isinstance(answers(person).key, int))


@pytest.mark.nightly
async def test_a_run_without_failures_and_a_short_one_open_as_their_answers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, run = await faulty_run(tmp_path, 30, healthy=True)
    async with at_the_workbench(tmp_path, dataset=project(tmp_path), run=run.key) as person:
        await person.press("4")
        await person.until(lambda: isinstance(answers(person).key, int))
        await person.press("F")
        await person.sees("No failures in 180 answers.")
        screen = person.screen()
        assert "slowest" in screen and "400 ms" in screen and "most expensive" in screen
        first = answers(person).key
        await person.press("down")
        assert answers(person).key != first
        assert person.app.watching.answer == answers(person).key.answer


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """One run of 1,800 answers with the four faults, for every size."""
    folder = tmp_path_factory.mktemp("watching")
    project(folder)
    asyncio.run(faulty_run(folder))
    return folder


KEYS_TO_EXAMPLES = {
    "a dead target": ("", "refuses connections"),
    "a prompt": ("j", "more than 30"),
    "a category": ("jj", "is not in the answer"),
    "the mood of a judge": ("k", "receipt"),
}
"""The keys from the first screen to the example of each fault, and words of why that fails."""


@pytest.mark.story
@pytest.mark.cases(1)
@pytest.mark.parametrize("size", SIZES)
def test_on_a_terminal_the_first_screen_names_all_four_and_each_example_is_two_keys_away(stored, size):
    with workbench(stored, "evals.json", size=size) as terminal:
        terminal.wait("all keys")
        terminal.press("4")
        terminal.until(lambda: all(fault in terminal.rows.screen for fault in FAULTS))
        at = ""
        for keys, words in KEYS_TO_EXAMPLES.values():
            assert len(keys) <= 2
            terminal.press("g" * bool(at) + keys)  # g is back where the first screen has the cursor
            terminal.until(lambda words=words: re.search(rf"why .*{words}", " ".join(terminal.rows.screen.split())))
            at = keys
        terminal.press("q")
        assert terminal.end() == 0
