"""What people do with a filter: look while they type, act on what it shows, and find it again."""

import pytest

from tests.tui.story import at_the_workbench
from tests.tui.terminal import workbench
from tui_evals.store.details import read_scores
from tui_evals.store.writer import Writer
from tui_evals.tui.widgets.inputs import FilterLine, ValueSuggester


@pytest.fixture
def project(project):
    """A finished run of nine items, of which the first, fourth and seventh fail."""
    project.dataset(9, lambda number: f"question {number}" if number % 3 else "of another kind")
    project.do("run", "data.json", "--quiet", code=None)
    return project


def flat(person):
    """What is on the screen, with no regard to where its lines are broken."""
    return " ".join(person.screen().replace("│", " ").split())


def filtering(person, text):
    return str(person.app.pane("results").border_title).endswith(text)


@pytest.mark.nightly
async def test_a_value_is_completed_and_its_beginning_does_not_empty_the_list(project):
    async with at_the_workbench(project.folder, dataset="data.json", run="last", size=(120, 40)) as person:
        await person.press("4", "slash")
        box = person.app.pane("results").query_one(FilterLine)
        await person.until(lambda: "status" in box._suggester.values)
        await person.type("sta")
        await person.until(lambda: box._input._suggestion == "status:")
        await person.type("tus:fai")
        await person.until(lambda: box._input._suggestion == "status:fail")
        assert "status:" not in person.app.watching.order.text  # the beginning of a value filters nothing
        await person.press("right")
        await person.until(lambda: filtering(person, "3 of 9 · status:fail"))
        await person.press("enter")
        assert person.app.watching.order.text == "status:fail"


@pytest.mark.parametrize(
    ("typed", "completed", "unfinished"),
    [
        ("", None, False),
        ("ca", "category:", False),
        ("category:", "category:refunds", False),
        ("category:RE", "category:REfunds", True),
        ("!x category:ret", "!x category:returns", True),
        ("!category:ret", "!category:returns", True),
        ("category:refunds", "category:refunds-late", False),
        ("category:late", None, False),
        ("other:re", None, False),
        ('category:"', 'category:"refunds"', False),
        ('category:"la', 'category:"late fee"', True),
        ('x !category:"Late f', 'x !category:"Late fee"', True),
        ('category:"late fee', 'category:"late fee"', False),
        ('category:"late fee"', None, False),
        ('category:"late fee" status:f', 'category:"late fee" status:fail', True),
        ("tag:", 'tag:"two words"', False),
        ('"some wo', None, False),
        ("words", None, False),
    ],
)
def test_what_completes_the_last_term_of_a_filter(typed, completed, unfinished):
    suggester = ValueSuggester()
    suggester.values = {
        "category": ["refunds", "refunds-late", "returns", "late fee"],
        "status": ["fail"],
        "tag": ["two words"],
    }
    assert (suggester.completed(typed), suggester.is_unfinished(typed)) == (completed, unfinished)


@pytest.mark.nightly
async def test_what_a_filter_shows_is_acted_on_and_said_in_words(project):
    async with at_the_workbench(project.folder, dataset="data.json", run="last", size=(120, 40)) as person:
        watch = person.app.watching
        await person.press("4", "slash")
        await person.type("failed")
        await person.until(lambda: filtering(person, "3 of 9 · failed"))  # before enter
        await person.press("enter", "v")
        await person.sees("the 3 answers the filter shows")
        await person.type("all bad\nunclear\n")
        await person.until(lambda: "the 3 answers the filter shows: you say they are bad" in person.said())
        with project.reader() as reader:
            labels = reader.labels(watch.run.id)
        assert [(label.verdict, label.note) for label in labels] == [("fail", "unclear")] * 3
        await person.press("y")
        await person.sees("tui-evals export")
        await person.press("escape", "R")
        await person.until(lambda: "the 3 answers the filter shows" in flat(person) and "3 items of" in flat(person))
        await person.press("escape", "s")
        await person.until(lambda: "judge again the 3 answers the filter shows" in flat(person))
        await person.press("escape", "A")
        await person.until(lambda: watch.marks == {0, 3, 6})
        await person.press("A", "space", "s")
        await person.until(lambda: "judge again the 1 answer to 1 marked item" in flat(person))
        await person.press("escape", "escape")
        await person.until(lambda: not watch.marks)
        assert watch.order.text == "failed"
        await person.press("slash")
        await person.type(" label:good")
        await person.until(lambda: filtering(person, "0 of 9 · label:good"))
        await person.press("escape")
        await person.until(lambda: filtering(person, "3 of 9 · failed"))
        await person.press("q")


@pytest.mark.parametrize("option", [("--only", "failed"), ("--items", "1,4,7")])
def test_some_answers_are_judged_again_and_the_others_keep_their_scores(project, option):
    with Writer(project.database) as writer:
        writer.write("UPDATE scores SET reason = 'by hand'")
    project.do("rescore", "last", *option, "--quiet", code=None)
    with project.reader() as reader:
        run = reader.find_run("last")
        assert (run.status, run.scoring_pass, run.staged_pass) == ("finished", 2, 0)
        kept = [record.reason == "by hand" for _, record in read_scores(reader, run.id)]
        assert kept == [False, True, True] * 3
        assert (reader.totals(run.id).passed, reader.totals(run.id).failed) == (6, 3)
    assert "by what judges the run" in project.do("rescore", "last", *option, "-e", "Match", code=2)


@pytest.mark.nightly
def test_the_filter_follows_typing_on_a_terminal_and_is_there_again_the_next_time(project):
    with workbench(project.folder, size=(120, 40)) as terminal:
        terminal.wait("all keys")
        terminal.after("4", "4 Results")
        terminal.after("/fail", "3 of 9 · fail")
        terminal.after("ed:Inc*", "3 of 9 · failed:Inc")
        terminal.after("\r", "3 of 9 · failed:Inc")
        terminal.press("\x11")
        assert terminal.end() == 0
    with workbench(project.folder, size=(120, 40)) as terminal:
        terminal.wait(r"3 of 9 · failed:Inc\*")
        terminal.press("\x11")
        assert terminal.end() == 0
