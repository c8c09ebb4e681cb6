"""Labelling blind in the workbench: a sample, one key for each answer, and nothing of what judges said."""

import asyncio

import pytest
from rich.cells import cell_len

from tests.compare.labelled_runs import JUDGE, OTHER, SECRETS, TARGET, label, labelled_run, score
from tests.tui.hostile import FORBIDDEN, STRANGE
from tests.tui.stored_runs import text_of
from tests.tui.story import at_the_workbench
from tui_evals.compare.blind import BlindText, LabellingSession, Sample
from tui_evals.compare.labels import AgreementLine
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer
from tui_evals.text.safe import safe_line
from tui_evals.tui.actions import actions_at
from tui_evals.tui.labels import LabelScreen, end_rows, head_rows, sheet_rows
from tui_evals.tui.widgets.bar import Keys, Status
from tui_evals.tui.widgets.dialogs import Ask, Confirm, Menu
from tui_evals.tui.widgets.lines import Lines

PASS, FAIL = [score(value=0.37)], [score(value=0.0, result="fail")]
SIZES = [(80, 24), pytest.param((120, 40), marks=pytest.mark.nightly)]


@pytest.fixture(autouse=True)
def ada(monkeypatch):
    monkeypatch.setattr("getpass.getuser", lambda: "ada")


def labels(path):
    with Reader(path) as reader:
        return [(one.answer, one.verdict, one.author, one.note) for one in reader.labels(1)]


def texts(person):
    """What stands on the labelling screen: head, sheet and the line for what is said."""
    screen = person.app.screen
    lines = [line for part in screen.query(Lines) for line in text_of(part.rows)]
    return "\n".join([*lines, said(person)])


def said(person):
    return str(person.app.screen.query_one(Status).render())


async def begin(person, size=None, run=1):
    """Open the screen on a run and take the sample that is offered, or one of a size."""
    person.app.push_screen(LabelScreen(person.app.workspace.database, run, person.app.writer))
    await person.until(lambda: isinstance(person.app.screen, Ask))
    if size is not None:
        await person.press("ctrl+u", *str(size))
    await person.press("enter")
    await ready(person)


async def ready(person):
    await person.until(lambda: isinstance(person.app.screen, LabelScreen))
    await person.until(lambda: person.app.screen._answer is not None or "labelled, and kept" in texts(person))


# -- rows


def session(count=4, done=()):
    return LabellingSession(Sample(tuple(range(count)), frozenset(done), 100))


def test_the_head_says_which_answer_this_is_and_what_was_written_on_it():
    one = session(4, {0})
    one.notes[1] = "why\nnot"
    assert text_of(head_rows(one, 80)) == ["2 of 4  █████░░░░░░░░░░░░░░░  1 labelled · note: why⏎not"]
    assert text_of(head_rows(one, 40)) == ["2 of 4  1 labelled · note: why⏎not"]
    assert text_of(head_rows(session(2, {0, 1}), 80)) == ["2 of 2 labelled"]
    assert text_of(head_rows(None, 80)) == text_of(head_rows(session(0), 80)) == ["Labelling blind"]


@pytest.mark.parametrize("width", [120, 158, 220])
def test_with_room_the_answer_is_next_to_what_was_asked_below_the_message_of_the_system(width):
    parts = [("user", "when?"), ("expected", "within days"), ("answer", "an answer " * 40), ("system", "be kind")]
    rows = sheet_rows([BlindText(*part) for part in parts], width)
    asked, said = zip(*(text.split(" │ ") for text in text_of(rows)), strict=True)
    assert [text.strip() for text in asked if text.strip()] == [
        "system", "be kind", "user", "when?", "expected", "within days",
    ]  # fmt: skip
    assert said[0] == "answer" and "".join(said[1:]).count("answer") == 40
    assert all(len(text) <= width for text in text_of(rows))


@pytest.mark.parametrize("width", [20, 38, 80, 119])
def test_a_sheet_fits_its_width_and_sets_what_was_said_in(width):
    rows = text_of(sheet_rows([BlindText("user", "a question " * 30), BlindText("answer", "answer\nno title")], width))
    assert rows[0] == "user" and rows[-3:] == ["answer", "  answer", "  no title"]
    assert all(cell_len(safe_line(line)) <= width for line in rows)
    assert all(line.startswith("  ") or line in ("user", "answer") for line in rows)


def test_the_last_page_says_what_was_done_and_what_it_comes_to():
    one = session(3)
    one.go_on("pass")
    one.go_on(None)
    lines = [AgreementLine("Judge", "title"), AgreementLine("a long tale " * 20, "", 2)]
    rows = text_of(end_rows(one, lines, 60))
    assert rows[0] == "1 of 3 labelled, and kept. What you skipped (2) comes again"
    assert rows[3] == "Judge" and rows[4].startswith("  a long tale")
    assert all(len(line) <= 60 for line in rows)


# -- stories


@pytest.mark.story
@pytest.mark.cases(1)
@pytest.mark.parametrize("size", SIZES)
async def test_a_sample_is_labelled_key_by_key_and_comes_to_a_page(tmp_path, size):
    path, _ = await labelled_run(tmp_path, [PASS, FAIL, PASS, FAIL])
    async with at_the_workbench(tmp_path, size=size) as person:
        await begin(person)
        assert "1 of 4" in person.screen() and "question" in person.screen()
        with Reader(path) as reader:
            good = {row.id for row in reader.all_rows(1) if row.status == "pass"}
        for number in range(4):
            shown = person.app.screen._answer
            await person.press("g" if shown in good else "b")
            await ready(person)
            assert len(labels(path)) == number + 1
        assert {answer for answer, verdict, _, _ in labels(path) if verdict == "pass"} == good
        assert "4 of 4 labelled, and kept." in person.screen()
        assert "They agree on 4 of 4 answers" in person.screen() and "Kappa 1.00" in person.screen()
        await person.press("q")
        await person.until(lambda: not isinstance(person.app.screen, LabelScreen))


async def test_the_key_for_it_is_in_the_list_of_runs(tmp_path):
    path, run = await labelled_run(tmp_path, [PASS])
    async with at_the_workbench(tmp_path, size=(80, 24)) as person:
        await person.press("6")
        await person.sees(run.name)
        await person.press("L")
        await person.sees("Label how many of 1 answers?")
        await person.press("enter")
        await ready(person)
        await person.press("b")
        await person.sees("1 of 1 labelled")
        assert labels(path) == [(1, "fail", "ada", "")]


@pytest.mark.nightly
async def test_a_search_has_n_until_escape_and_a_note_without_a_verdict_is_asked_about(tmp_path):
    path, _ = await labelled_run(tmp_path, [PASS, FAIL])
    async with at_the_workbench(tmp_path, size=(80, 24)) as person:
        await begin(person)
        await person.press("slash", *"question", "enter", "n", "N")
        assert isinstance(person.app.screen, LabelScreen) and "“question”" in said(person)
        await person.press("escape", "n", *"why", "enter", "q")
        await person.until(lambda: isinstance(person.app.screen, Confirm))
        await person.press("n", "g")
        await ready(person)
        assert [note for _, _, _, note in labels(path)] == ["why"]
        await person.press("q")
        await person.until(lambda: not isinstance(person.app.screen, LabelScreen))


@pytest.mark.nightly
@pytest.mark.parametrize("size", SIZES)
async def test_nothing_that_was_said_of_an_answer_shows_before_the_end(tmp_path, size):
    answers = [[*PASS, score(OTHER)], [*FAIL, score(OTHER)], [score(value=0.37)]]
    path, run = await labelled_run(tmp_path, answers, name=f"{TARGET} nightly")
    label(path, run, {0: "-", 1: "+"}, "bob", note="bob's note")
    hidden = (*SECRETS, "bob", "t-0", "t-1", "t-2", "nightly")
    async with at_the_workbench(tmp_path, size=size) as person:
        person.app.push_screen(LabelScreen(path, run.id, person.app.writer))
        await person.until(lambda: isinstance(person.app.screen, Ask))
        seen = [person.screen(), "\n".join(text_of(person.app.screen_stack[-2].sheet.rows))]
        await person.press("enter")
        await ready(person)
        for key in ("s", "s", "u", "g"):
            seen += [texts(person), person.screen()]
            await person.press(key)
            await ready(person)
        seen += [texts(person), person.screen()]
        for shown in seen:
            assert [word for word in hidden if word in shown] == []
        assert "question" in seen[2] and "expected" in seen[2]
        await person.press("b")
        await person.sees("people say")
        assert "2 of 3 labelled" in texts(person) and JUDGE in texts(person)


@pytest.mark.nightly
async def test_a_session_goes_on_where_it_stopped_and_says_so(tmp_path):
    path, _ = await labelled_run(tmp_path, [PASS, FAIL] * 5)
    async with at_the_workbench(tmp_path) as person:
        await begin(person, 6)
        await person.press("g")
        await ready(person)
        second = person.app.screen._answer
        await person.press("escape")
        await begin(person, 6)
        assert person.app.screen._answer == second
        assert "2 of 6" in person.screen() and "1 of 6 labelled already" in said(person)
        assert len(labels(path)) == 1


@pytest.mark.story
async def test_undo_takes_the_label_back_and_keeps_the_note(tmp_path):
    path, _ = await labelled_run(tmp_path, [PASS, FAIL, PASS])
    async with at_the_workbench(tmp_path, size=(80, 24)) as person:
        await begin(person)
        await person.press("u")
        assert "this is the first answer" in said(person)
        first = person.app.screen._answer
        await person.press("n")
        await person.until(lambda: isinstance(person.app.screen, Ask))
        await person.type("so so")
        await person.press("enter")
        await ready(person)
        assert "note: so so" in person.screen()
        await person.press("b")
        await ready(person)
        assert labels(path) == [(first, "fail", "ada", "so so")]
        assert "so so" not in person.screen()
        await person.press("u")
        await person.until(lambda: person.app.screen._answer == first)
        assert labels(path) == []
        assert "note: so so" in person.screen()
        await person.press("g")
        await ready(person)
        assert labels(path) == [(first, "pass", "ada", "so so")]


async def test_after_the_verdicts_were_shown_nothing_can_be_labelled(tmp_path):
    path, _ = await labelled_run(tmp_path, [PASS, FAIL])
    async with at_the_workbench(tmp_path, size=(80, 24)) as person:
        await begin(person)
        await person.press("g")
        await ready(person)
        await person.press("g")
        await person.sees("They agree")
        before = labels(path)
        for key in ("u", "g", "b", "s", "n"):
            await person.press(key)
            assert "no label would be blind from here on" in said(person)
        assert labels(path) == before


async def test_a_second_key_before_the_next_answer_is_there_is_no_verdict_on_it(tmp_path, monkeypatch):
    """The label is still being written when the key comes again."""
    path, _ = await labelled_run(tmp_path, [PASS, FAIL, PASS])
    async with at_the_workbench(tmp_path) as person:
        await begin(person)
        screen, first, write, free = (
            person.app.screen,
            person.app.screen._answer,
            person.app.writer.write,
            asyncio.Event(),
        )

        async def slow(step):
            await free.wait()
            return await write(step)

        monkeypatch.setattr(person.app.writer, "write", slow)
        screen.action_act("good")
        await person.until(lambda: screen._answer is None)
        for key in ("bad", "skip", "undo", "note"):
            screen.action_act(key)
            await person.pilot.pause()
            assert "the answer is still being read" in said(person)
        free.set()
        await ready(person)
        assert labels(path) == [(first, "pass", "ada", "")]
        assert "2 of 3" in person.screen()


async def test_what_is_long_scrolls_with_the_usual_keys(tmp_path):
    path, _ = await labelled_run(tmp_path, [PASS], reply=lambda n: "\n".join(f"line {n}" for n in range(200)))
    async with at_the_workbench(tmp_path, size=(80, 24)) as person:
        await begin(person)
        sheet = person.app.screen.sheet
        page = sheet.size.height - 1
        for key, place in (("space", page), ("down", page + 1), ("up", page), ("pagedown", 2 * page), ("pageup", page)):
            await person.press(key)
            assert sheet.scroll_offset.y == place, key
        await person.press("end")
        assert "You are short." in person.screen()
        await person.press("home")
        assert sheet.scroll_offset.y == 0 and "question 0" in person.screen()
        assert labels(path) == []


async def test_a_run_without_answers_says_so(tmp_path):
    path, _ = await labelled_run(tmp_path, ["error", None])
    async with at_the_workbench(tmp_path, size=(80, 24)) as person:
        person.app.push_screen(LabelScreen(path, 1, person.app.writer))
        await person.sees("There is no answer to label in this run yet.")
        await person.press("g", "u")
        await person.press("q")
        await person.until(lambda: not isinstance(person.app.screen, LabelScreen))


async def test_a_run_that_is_gone_is_said(tmp_path):
    path, run = await labelled_run(tmp_path, [PASS, FAIL])
    async with at_the_workbench(tmp_path, size=(80, 24)) as person:
        person.app.push_screen(LabelScreen(path, 9, person.app.writer))
        await person.sees("This cannot continue: run number 9 is no longer in the store")
        await person.press("escape")
        await begin(person)
        with Writer(path) as writer:
            writer.delete_run(run)
        await person.press("g")
        await person.until(lambda: "is no longer in the store" in said(person))
        await person.press("s")
        await person.sees("This cannot continue:")
        await person.press("q")


@pytest.mark.nightly
async def test_a_label_that_cannot_be_written_is_said_and_the_answer_stays(tmp_path, monkeypatch):
    path, _ = await labelled_run(tmp_path, [PASS, FAIL])
    async with at_the_workbench(tmp_path) as person:
        await begin(person)
        first = person.app.screen._answer

        async def full(step):
            raise StoreError("the disk is full. Make room and try again.")

        with monkeypatch.context() as broken:
            broken.setattr(person.app.writer, "write", full)
            await person.press("g")
            await person.until(lambda: "the disk is full" in said(person))
        assert person.app.screen._answer == first
        await person.press("g")
        await person.until(lambda: labels(path) == [(first, "pass", "ada", "")])


@pytest.mark.nightly
@pytest.mark.parametrize("size", [(38, 20), *SIZES])
async def test_hostile_texts_stay_text_from_the_first_page_to_the_last(tmp_path, size):
    path, run = await labelled_run(
        tmp_path, [PASS, FAIL], reply=lambda number: STRANGE, name_of=lambda number: STRANGE, name=STRANGE
    )
    label(path, run, {0: "-", 1: "+"}, "bob", note=STRANGE)
    async with at_the_workbench(tmp_path, size=size) as person:
        await begin(person)
        shown = [person.screen()]
        assert "[/b] [/INST]" in shown[0]
        for key in ("b", "g"):
            await person.press(key)
            await ready(person)
            shown.append(person.screen())
        await person.press("end")
        shown.append(person.screen())
        assert "labelled, and kept" in " ".join(shown[2].split())
        assert [bad for bad in FORBIDDEN if bad in "\n".join(shown).encode()] == []
        assert not any(sign in "".join(shown) for sign in "\x1b\x07\x9b\u202e")


@pytest.mark.nightly
async def test_the_size_of_the_sample_is_asked_for_and_can_be_declined(tmp_path):
    path, _ = await labelled_run(tmp_path, [PASS] * 60)
    async with at_the_workbench(tmp_path, size=(80, 24)) as person:
        person.app.push_screen(LabelScreen(path, 1, person.app.writer))
        await person.sees("Label how many of 60 answers?")
        assert "50" in person.screen()
        await person.press("ctrl+u", *"0")
        await person.sees("give a whole number from 1")
        await person.press("enter")
        assert isinstance(person.app.screen, Ask)
        await person.press("escape", "escape")  # the first says that the 0 is discarded
        await person.until(lambda: not isinstance(person.app.screen, Ask | LabelScreen))


@pytest.mark.nightly
async def test_the_keys_of_the_place_are_there_and_help_names_them(tmp_path):
    await labelled_run(tmp_path, [PASS])
    assert all(callable(getattr(LabelScreen, f"do_{action.name}", None)) for action in actions_at("labelling"))
    async with at_the_workbench(tmp_path, size=(80, 24)) as person:
        await begin(person)
        assert "g good  b bad  s skip  n note  " in str(person.app.screen.query_one(Keys).render())
        await person.press("question_mark")
        await person.until(lambda: isinstance(person.app.screen, Menu))
        await person.sees("Label the answer good and show the next one.")
        await person.press("escape")
        await ready(person)
