"""What people do who have a generated dataset: read its rules, mend one, have tests made anew, run them."""

import json
import subprocess
import sys
from contextlib import AsyncExitStack

import pytest

from tests.tui.hostile import FORBIDDEN, STRANGE
from tests.tui.ruled import INVERSE, RULES, add_verdicts, case_of, dataset, ruled_project
from tests.tui.stored_runs import fresh
from tests.tui.story import at_the_workbench, write
from tui_evals.store.battles import activities
from tui_evals.store.reader import Reader
from tui_evals.tui.rules.screen import RegenerationForm, RulesScreen
from tui_evals.tui.runs.starting import RunForm
from tui_evals.tui.widgets.bar import Status
from tui_evals.tui.widgets.dialogs import AskLong, Confirm, Menu, Reading

SIZES = [(80, 24), pytest.param((160, 45), marks=pytest.mark.nightly)]
FILE = "tags/tags.json"


def here(person):
    return next(screen for screen in person.app.screen_stack if isinstance(screen, RulesScreen))


def said(person):
    return str(here(person).query_one(Status).render())


def lines(folder, name="rules.txt"):
    return (folder / "tags" / name).read_text().splitlines()


def screen_text(person):
    return " ".join(person.screen().replace("│", " ").split())


async def at_the_rules(person):
    await person.press("7")
    await person.until(lambda: isinstance(person.app.screen, RulesScreen))
    await settled(person)


async def settled(person):
    """What is on screen is the dataset and the store as they are now."""
    book = here(person).book
    await person.until(lambda: book.ready and book.board is not None and not book._stale())


async def reading(person, kind):
    await person.until(lambda: isinstance(person.app.screen, kind))


@pytest.mark.nightly
@pytest.mark.parametrize("size", SIZES)
async def test_rules_are_read_with_their_tests_and_what_each_model_made_of_them(tmp_path, size):
    path = fresh(tmp_path)
    ruled_project(tmp_path)
    verdicts = {"test-1": ["pass", "fail"], "test-2": ["fail", "fail"], "test-3": ["pass", "error"]}
    await add_verdicts(path, verdicts, targets=("small", "large"))
    async with at_the_workbench(tmp_path, dataset=FILE, size=size) as person:
        await at_the_rules(person)
        await person.until(lambda: "Rules of tags · 3 rules and 3 inverse · 5 tests" in screen_text(person))
        text = screen_text(person)
        assert "◐ 50 % 1/2" in text and "✗ 0 % 0/2" in text and "! 1 error" in text
        assert f"its inverse 4: {INVERSE[0]}" in text
        await person.press("enter")
        assert here(person).focused is here(person).tests
        await person.sees("✓ pass   ✗ fail   word 1")
        await person.press("j", "enter")
        await person.until(lambda: person.app.screen is person.app.default_screen)
        assert person.app.workspace.where == ("items", 1) and person.app.front == "editor"
        await person.sees("test-2")
        await at_the_rules(person)
        assert here(person).tests.key == 1


@pytest.mark.nightly
async def test_a_rule_is_reworded_and_taken_back_with_its_files(tmp_path):
    ruled_project(tmp_path)
    async with at_the_workbench(tmp_path, dataset=FILE, size=(80, 24)) as person:
        await at_the_rules(person)
        await person.press("e")
        await reading(person, AskLong)
        await person.type(" And short")
        await person.press("enter")
        await reading(person, RulesScreen)
        await person.sees("And short")
        assert "rule 1 changed here and in rules.txt; t generates its tests again" in said(person)
        assert lines(tmp_path)[0] == f"{RULES[0]} And short"
        items = person.app.workspace.items
        assert [item["extensions"]["promptpex"].get("rule") for item in items[:3]] == [lines(tmp_path)[0]] * 2 + [
            RULES[1]
        ]
        await person.press("t")
        assert "save first" in said(person)
        await person.press("u")
        await person.until(lambda: lines(tmp_path) == list(RULES))
        assert not person.app.workspace.editing.dirty and "undone: edit rule 1" in said(person)
        await person.press("U", "ctrl+s")
        await person.until(lambda: "saved" in said(person))
        assert json.loads((tmp_path / FILE).read_text())["items"][0]["extensions"]["promptpex"]["rule"].endswith(
            "And short"
        )


@pytest.mark.story
async def test_a_rule_is_added_and_another_deleted_with_what_inverts_it(tmp_path):
    ruled_project(tmp_path)
    async with at_the_workbench(tmp_path, dataset=FILE, size=(80, 24)) as person:
        await at_the_rules(person)
        await person.press("n")
        await reading(person, AskLong)
        await person.press("enter")
        await reading(person, RulesScreen)
        await person.press("n")
        await reading(person, AskLong)
        await person.press("space", "escape")
        await reading(person, Menu)
        await person.sees("a rule needs words")
        await person.press("enter")
        await reading(person, AskLong)
        await person.type("It is short")
        await person.press("escape")
        await reading(person, RulesScreen)
        await settled(person)
        assert here(person).line.rule.text == "It is short"
        assert lines(tmp_path) == [*RULES, "It is short"] and len(lines(tmp_path, "inverse_rules.txt")) == 4
        await person.press("g", "j", "D")
        await reading(person, Confirm)
        await person.until(lambda: "2 tests stay, but belong to no rule then." in screen_text(person))
        await person.press("y")
        await reading(person, RulesScreen)
        await person.sees("tests of no rule")
        assert lines(tmp_path) == [RULES[0], RULES[2], "It is short"]
        kept = {one["testuid"]: one.get("ruleid") for one in json.loads((tmp_path / "tags" / "tests.json").read_text())}
        assert kept == {"test-1": 1, "test-2": 1, "test-3": None, "test-4": None, "test-5": 5, "test-6": None}


async def test_an_inverse_rule_alone_is_not_deleted_and_a_group_is_no_rule(tmp_path):
    ruled_project(tmp_path)
    async with at_the_workbench(tmp_path, dataset=FILE, size=(80, 24)) as person:
        await at_the_rules(person)
        await person.press("j", "j", "j", "D")
        assert "an inverse rule goes with the rule it inverts" in said(person)
        await person.press("G", "e")
        assert "that is a group of tests, no rule" in said(person)


async def test_a_test_is_deleted_and_brought_back(tmp_path):
    ruled_project(tmp_path)
    async with at_the_workbench(tmp_path, dataset=FILE, size=(80, 24)) as person:
        await at_the_rules(person)
        await person.press("tab", "D")
        await settled(person)
        assert "deleted item test-1" in said(person) and here(person).line.tests == (0,)
        await person.press("u")
        await settled(person)
        assert here(person).line.tests == (0, 1)


@pytest.mark.nightly
async def test_words_find_a_rule_by_one_of_its_tests(tmp_path):
    ruled_project(tmp_path)
    async with at_the_workbench(tmp_path, dataset=FILE, size=(80, 24)) as person:
        await at_the_rules(person)
        await person.press("slash")
        await person.type("word 3")
        await person.press("enter")
        assert list(here(person).shown) == [(False, 2)] and here(person).line.rule.text == RULES[1]
        await person.press("n", "N")
        assert isinstance(person.app.screen, RulesScreen), "n goes on in what was found; it makes no rule"
        await person.press("slash")
        await person.type("nothing at all")
        await person.press("enter")
        await person.sees("No rule and no test holds")
        await person.press("escape")
        assert len(here(person).shown) == 7


@pytest.mark.nightly
async def test_rules_that_somebody_edited_in_the_file_are_asked_about(tmp_path):
    ruled_project(tmp_path)
    (tmp_path / "tags" / "rules.txt").write_text(f"{RULES[0]}\nThe output is two words.\n{RULES[2]}\n")
    async with at_the_workbench(tmp_path, dataset=FILE, size=(80, 24)) as person:
        await at_the_rules(person)
        await person.sees("has other rules")
        await person.press("e")
        await reading(person, Menu)
        await person.press("enter")
        await reading(person, RulesScreen)
        await settled(person)
        assert here(person).book.sheet.texts.output[1] == "The output is two words."
        assert person.app.workspace.items[2]["extensions"]["promptpex"]["rule"] == "The output is two words."
        await person.press("u")
        await person.until(lambda: lines(tmp_path) == list(RULES))
        await person.press("escape")
        (tmp_path / "tags" / "rules.txt").write_text("Something else.\n")
        await at_the_rules(person)
        await person.sees("has other rules")
        await person.press("n")
        await reading(person, Menu)
        await person.press("down", "enter")
        await person.until(lambda: lines(tmp_path) == list(RULES))


async def test_what_was_not_made_from_rules_says_how_to_make_it(tmp_path):
    (tmp_path / "plain.json").write_text(json.dumps({"prompt_file": "tag.prompty", "items": [{"prompt": "x"}]}))
    async with at_the_workbench(tmp_path, dataset="plain.json", size=(80, 24)) as person:
        await person.press("7")
        await person.sees("tui-evals generate tag.prompty")
        await person.press("e")
        assert "not made from rules" in said(person)
        await person.press("escape")
        await person.until(lambda: person.app.screen is person.app.default_screen)


async def test_a_dataset_whose_generation_is_elsewhere_says_why_nothing_is_made(tmp_path):
    ruled_project(tmp_path, files=False)
    async with at_the_workbench(tmp_path, dataset=FILE, size=(160, 45)) as person:
        await at_the_rules(person)
        await person.press("t")
        assert "there is no generation.json next to tags.json" in said(person)


@pytest.mark.nightly
@pytest.mark.parametrize("size", SIZES)
async def test_hostile_rules_and_tests_stay_what_they_are(tmp_path, size):
    data = dataset([case_of(1, 1, STRANGE)], rules=(STRANGE, "b"), inverse=(f"not {STRANGE}", "d"))
    ruled_project(tmp_path, data, files=False)
    async with at_the_workbench(tmp_path, dataset=FILE, size=size) as person:
        await at_the_rules(person)
        for keys in (["e"], ["escape", "D"], ["escape", "y"], ["escape", "tab", "y"]):
            await person.press(*keys)
            drawn = person.screen().encode("utf-8", "replace")
            assert "[/b]" in person.screen() and not any(bad in drawn for bad in FORBIDDEN)


# -- with the command line


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """A project with a dataset generated by the demo."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "tags.prompty").write_text(
        "---\nname: tags\ninputs:\n  word:\n    type: string\n---\nsystem:\nTag the word. Answer with one word.\n\n"
        "user:\n{{word}}\n"
    )
    words = ["generate", "tags.prompty", "--target", "demo", "--judge", "demo", "--quiet"]
    done = subprocess.run([sys.executable, "-m", "tui_evals", *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.nightly
async def test_tests_are_made_anew_and_read_in_while_one_looks_on(generated):
    async with at_the_workbench(generated, dataset=FILE, size=(80, 24)) as person:
        await at_the_rules(person)
        screen = here(person)
        before = {screen.book.sheet.cases[test].name for test in screen.line.tests}
        assert before
        await person.press("t")
        await reading(person, RegenerationForm)
        await person.until(lambda: "free; repairs" in screen_text(person))
        await person.press("enter")
        await person.until(lambda: screen.making is not None)
        await person.until(lambda: not screen.making.live)
        await person.until(lambda: "the tests of rule 1: made in" in said(person))
        assert screen.making.row.status == "finished" and not person.app.workspace.editing.dirty
        await settled(person)
        after = json.loads((generated / FILE).read_text())["items"]
        assert person.app.workspace.items == after
        assert screen.line.tests and (generated / "tags" / "earlier").exists()
        await person.press("m")
        await person.sees("tests: is made")


@pytest.mark.nightly
async def test_an_inverse_rule_is_written_anew_for_the_new_words_of_its_rule(generated):
    async with at_the_workbench(generated, dataset=FILE, size=(160, 45)) as person:
        await at_the_rules(person)
        screen = here(person)
        before = screen.book.sheet.texts.inverse
        await person.press("e")
        await reading(person, AskLong)
        await person.press("ctrl+u")
        await person.type("The output has three letters")
        await person.press("enter")
        await reading(person, RulesScreen)
        await person.press("ctrl+s")
        await person.until(lambda: not person.app.workspace.editing.dirty)
        await person.press("i")
        await reading(person, RegenerationForm)
        await person.until(lambda: "1 call" in person.screen())
        await person.press("enter")
        await person.until(lambda: "the inverse of rule 1: made in" in said(person))
        await settled(person)
        after = screen.book.sheet.texts.inverse
        assert after[0] != before[0] and after[1:] == before[1:]
        assert lines(generated, "inverse_rules.txt") == list(after) and not screen.book.differs
        assert not person.app.workspace.editing.dirty


@pytest.mark.nightly
async def test_a_generation_among_the_runs_says_what_it_is(generated):
    async with at_the_workbench(generated, dataset=FILE, run="generate tags", size=(80, 24)) as person:
        await person.until(lambda: person.app.watching.run is not None, 20)
        await person.press("4")
        await person.sees("wrote tests and asked none of them")
        for key in ("R", "s", "p", "x"):
            await person.press(key)
            assert "wrote tests and asked none of them" in person.said(), key


@pytest.mark.nightly
async def test_the_tests_of_a_rule_are_run_and_watched(generated):
    async with at_the_workbench(generated, dataset=FILE, size=(120, 40)) as person:
        await at_the_rules(person)
        count = len(here(person).line.tests)
        await person.press("r")
        await reading(person, RunForm)
        assert f"run {count} test" in person.screen()
        person.app.screen.values |= {"targets": ["demo"], "judge": "demo"}
        person.app.screen.values_changed()
        await person.until(lambda: "call" in person.screen() and "▸ start" in person.screen())
        await person.press("ctrl+s")
        await person.until(lambda: person.app.screen is person.app.default_screen and person.app.watching.run)
        await person.until(lambda: person.app.watching.run.status == "finished")
        assert person.app.front == "results"
        with Reader(generated / ".evals" / "evals.db") as reader:
            names = {row.name for row in reader.all_rows(reader.find_run("last").id)}
        await at_the_rules(person)
        screen = here(person)
        assert names == {screen.book.sheet.cases[test].name for test in screen.line.tests}
        (tally,) = screen.book.board.row(screen.line.key)
        assert tally.judged + tally.errors


@pytest.mark.parametrize("size", SIZES)
async def test_a_prompt_file_becomes_a_dataset_with_rules_from_the_first_page(tmp_path, size):
    (tmp_path / "shop.prompty").write_text("---\nname: shop\n---\nsystem:\nBe kind. Be short.\nuser:\n{{question}}\n")
    async with at_the_workbench(tmp_path, size=size) as person:
        await person.press("8")
        await person.sees("generate tests from which prompt?")
        await person.type("shop")
        await person.press("enter")
        await reading(person, RegenerationForm)
        await person.press("enter")
        await reading(person, Menu)
        await person.press("enter")
        await person.until(lambda: "calls, free" in screen_text(person))
        await person.press("ctrl+s")
        await person.until(lambda: "shop.json is made: 7 shows its rules" in person.said())
        assert person.app.workspace.editing.document.file == tmp_path / "shop" / "shop.json"
        await at_the_rules(person)
        await person.sees("Rules of shop")


async def test_what_one_workbench_generates_is_opened_and_listed_in_the_others(tmp_path):
    (tmp_path / "shop.prompty").write_text("---\nname: shop\n---\nsystem:\nBe kind. Be short.\nuser:\n{{question}}\n")
    async with AsyncExitStack() as stack:
        person, idle = [await stack.enter_async_context(at_the_workbench(tmp_path)) for _ in range(2)]
        write(tmp_path / "other.json", {"schemaVersion": "1.11.0", "items": [{"prompt": "hello"}]})
        busy = await stack.enter_async_context(at_the_workbench(tmp_path, dataset="other.json"))
        await person.press("8")
        await person.sees("generate tests from which prompt?")
        await person.press("enter")
        await reading(person, RegenerationForm)
        person.app.screen.values |= {"target": "demo"}
        person.app.screen.values_changed()
        await person.until(lambda: "calls, free" in screen_text(person))
        await person.press("ctrl+s")
        for one in (person, idle):
            await one.until(lambda one=one: "shop.json is made: 7 shows its rules" in one.said(), 60)
            assert one.app.workspace.editing.document.file == tmp_path / "shop" / "shop.json"
        await busy.until(lambda: "shop.json is made; o opens it" in busy.said())
        assert busy.app.workspace.editing.document.file.name == "other.json"
        await busy.sees("shop/shop.json")  # among the other datasets of pane 1
        await busy.press("o")
        await busy.type("shop")
        await busy.press("enter")
        await busy.until(lambda: busy.app.workspace.editing.document.file.name == "shop.json")


@pytest.mark.nightly
async def test_a_generation_from_a_prompt_is_stopped_by_its_key(tmp_path):
    (tmp_path / "shop.prompty").write_text("---\nname: shop\n---\nsystem:\nBe kind. Be short.\nuser:\n{{question}}\n")
    slow = "params = { latency_ms = 3000, jitter_ms = 0, error_rate = 0 }"
    (tmp_path / ".evals").mkdir()
    (tmp_path / ".evals" / "config.toml").write_text(f'[targets.slow]\nmodel = "demo"\nconcurrency = 1\n{slow}\n')
    async with at_the_workbench(tmp_path, size=(100, 30)) as person:
        await person.press("8")
        await person.sees("generate tests from which prompt?")
        await person.press("enter")
        await reading(person, RegenerationForm)
        await person.until(lambda: " calls" in screen_text(person))
        await person.press("ctrl+s")
        await person.until(lambda: "generating shop.json" in person.said())
        await person.press("8")
        await person.sees("generate tests from which prompt?")
        await person.press("enter")
        await reading(person, Confirm)
        await person.press("y")
        await person.until(lambda: "shop.json: stopped. What was made is kept" in person.said())
        assert person.app.workspace.editing is None


@pytest.mark.nightly
async def test_what_cannot_be_made_says_why_and_leaves_all_as_it_was(generated):
    before = (generated / FILE).read_text()
    async with at_the_workbench(generated, dataset=FILE, size=(80, 24)) as person:
        await at_the_rules(person)
        await person.press("i")
        await reading(person, RegenerationForm)
        person.app.screen.values |= {"other target": "command:false"}
        person.app.screen.values_changed()
        await person.until(lambda: "▸ start" in person.screen() and "working out" not in person.screen())
        await person.press("ctrl+s")
        await reading(person, Reading)
        await person.sees("why it was not made")
        assert here(person).making.row.status == "interrupted" and (generated / FILE).read_text() == before


@pytest.mark.nightly
async def test_a_generation_goes_on_without_its_workbench_and_is_stopped_from_another(generated):
    """Reopening the workbench shows it; what was made before it was stopped stays in the files."""
    slow = "params = { latency_ms = 90000, jitter_ms = 0, error_rate = 0 }"
    config = generated / ".evals" / "config.toml"
    config.write_text(f'[targets.slow]\nmodel = "demo"\nconcurrency = 1\n{slow}\n')
    before = (generated / FILE).read_text()
    try:
        async with at_the_workbench(generated, dataset=FILE, size=(100, 30)) as person:
            await at_the_rules(person)
            await person.press("t")
            await reading(person, RegenerationForm)
            person.app.screen.values |= {"other target": "slow"}
            person.app.screen.values_changed()
            await person.until(lambda: "▸ start" in person.screen() and "working out" not in person.screen())
            await person.press("ctrl+s")
            await person.until(lambda: "▸ making the tests of rule 1" in screen_text(person))
        async with at_the_workbench(generated, dataset=FILE, size=(100, 30)) as person:
            await at_the_rules(person)
            await person.until(lambda: "▸ making the tests of rule 1" in screen_text(person))
            await person.press("t")
            assert "something is being made here" in said(person)
            await person.press("x")
            await person.until(lambda: "it ends once its open requests are answered" in said(person))
            await person.press("x")
            await person.until(lambda: "the tests of rule 1: stopped" in said(person))
            assert not here(person).making_now
    finally:
        config.unlink()
    with Reader(generated / ".evals" / "evals.db") as reader:
        assert activities(reader, "generation")[0].status == "interrupted"
    assert (generated / FILE).read_text() == before
