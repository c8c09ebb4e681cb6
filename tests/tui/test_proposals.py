"""Items proposed in the workbench: asked after a yes, reviewed by one key each, kept as one step of undo each."""

import json
import re

import pytest

from tests.server import hanging_up
from tests.tui.story import at_the_workbench
from tui_evals.generate.proposals import proposal_facts
from tui_evals.tui.proposals import ProposalsScreen
from tui_evals.tui.widgets.dialogs import ConfirmPriced

SOON = 30.0
WRITTEN = [
    {"prompt": "QUESTION  0", "expected_response": "a copy"},
    {"prompt": "Which of two orders is late?", "expected_response": "The second."},
    {"prompt": "[@click=app.quit]x[/] \x1b]52;c;aGk=\x07 A refund without a receipt?", "expected_response": "No."},
    {"prompt": "One more that is dropped", "expected_response": "-"},
]


def prompts(person):
    return [item["prompt"] for item in person.app.workspace.items]


def at_review(person):
    return isinstance(person.app.screen, ProposalsScreen)


async def ask_for_variants(person):
    """Ask for four harder variants of the item under the cursor, up to the question that says the price."""
    await person.press("ctrl+g")
    await person.sees("harder variants", SOON)
    await person.type("4\n")
    await person.sees("Ask main for 4 items from #1", SOON)


async def test_variants_are_asked_for_after_a_yes_and_kept_dropped_and_edited_by_one_key(project):
    project.dataset(2)
    project.server.behave("test-model", say=json.dumps(WRITTEN), markers=False)
    async with at_the_workbench(project.folder, size=(120, 40), dataset="data.json") as person:
        await person.press("j")
        await ask_for_variants(person)
        assert "1 call" in person.screen()
        assert not project.server.counts()["questions"]
        await person.press("y")
        await person.sees("4 to decide", SOON)
        await person.sees("asks the same as #1", SOON)
        assert "written from" in person.screen() and "\x1b" not in person.screen()
        assert "⟦U+001B⟧]52;c;aGk=⟦U+0007⟧ A refund" in person.screen()
        assert len(prompts(person)) == 2
        await person.press("j", "a")
        await person.sees("3 to decide · 1 kept", SOON)
        assert prompts(person) == ["question 0", WRITTEN[1]["prompt"], "question 1"]
        facts = proposal_facts(person.app.workspace.items[1])
        assert facts["from"] == "#1" and facts["by"] == "openai/test-model" and "harder" in facts["instruction"]
        await person.press("u")
        await person.sees("4 to decide · 0 kept", SOON)
        assert prompts(person) == ["question 0", "question 1"]
        await person.press("G", "D")
        await person.sees("3 to decide", SOON)
        await person.press("A")
        await person.sees("1 to decide · 2 kept", SOON)
        assert prompts(person)[1] == WRITTEN[1]["prompt"]
        assert prompts(person)[2] == WRITTEN[2]["prompt"]
        await person.press("i")
        await person.sees("edit the proposal", SOON)
        await person.press("enter", "end")
        await person.type(" and more")
        await person.press("enter", "escape")
        await person.until(lambda: at_review(person), SOON)
        await person.sees("0 and more", SOON)
        await person.press("escape")
        await person.until(lambda: not at_review(person), SOON)
        assert "1 proposal kept for later" in person.said()
        await person.press("ctrl+g")
        await person.sees("0 and more", SOON)
        await person.press("escape", "u", "u")
        assert prompts(person) == ["question 0", "question 1"]
    assert project.server.counts()["questions"]
    with project.reader() as reader:
        run = reader.find_run("proposals for data.json")
        assert (run.name, run.status) == ("proposals for data.json", "finished")


@pytest.mark.nightly
async def test_a_no_asks_nothing_and_leaves_everything_as_it_was(project):
    project.dataset(2)
    async with at_the_workbench(project.folder, dataset="data.json") as person:
        await person.press("j")
        await ask_for_variants(person)
        await person.press("n")
        await person.until(lambda: not at_review(person) and not isinstance(person.app.screen, ConfirmPriced), SOON)
        assert prompts(person) == ["question 0", "question 1"]
    assert not project.server.counts()["questions"]


@pytest.mark.nightly
async def test_esc_while_asking_stops_it_and_leaves_everything_as_it_was(project):
    project.dataset(2)
    project.server.behave("test-model", say="[]", latency=300, markers=False)
    async with at_the_workbench(project.folder, dataset="data.json") as person:
        await person.press("j")
        await ask_for_variants(person)
        await person.press("y")
        await person.sees("esc stops", SOON)
        await person.until(lambda: project.server.counts()["questions"], SOON)
        await person.press("escape")
        await person.sees("stopped", SOON)
        await person.press("escape")
        await person.until(lambda: not at_review(person), SOON)
        assert prompts(person) == ["question 0", "question 1"]
        assert not person.app.workspace.editing.dirty
    with project.reader() as reader:
        assert reader.find_run("proposals for data.json").status == "interrupted"


async def test_while_several_items_are_asked_it_says_how_many_answered_and_which_are_waited_for(project):
    project.configure("concurrency = 1")
    project.dataset(3)
    project.server.behave("test-model", say="Certainly, with pleasure.", latency=0.3, markers=False)
    seen = []

    def note(person):
        found = re.search(r"asking: (\d) of 3 items done, waiting for (#.+?) · ", person.screen())
        if found and found[1] not in [count for count, _ in seen]:
            seen.append(found.groups())
        return "wrote no items that can be read" in person.screen()

    async with at_the_workbench(project.folder, size=(160, 45), dataset="data.json") as person:
        await person.press("j", "space", "space", "space", "ctrl+g")
        await person.sees("harder variants", SOON)
        await person.press("enter")
        await person.sees("Ask main for 5 items from each of 3 items: 3 calls", SOON)
        await person.press("y")
        await person.until(lambda: note(person), SOON)
    assert seen == [("0", "#1, #2, #3"), ("1", "#2, #3"), ("2", "#3")]


@pytest.mark.nightly
async def test_a_dead_server_and_a_reply_without_items_are_said_in_words(project):
    project.dataset(2)
    project.server.behave("test-model", say="Certainly, with pleasure.", markers=False)
    async with at_the_workbench(project.folder, dataset="data.json") as person:
        await person.press("j")
        await ask_for_variants(person)
        await person.press("y")
        await person.sees("wrote no items that can be read", SOON)
        assert "Certainly" in person.screen()
        with hanging_up() as address:
            file = project.folder / ".evals" / "config.toml"
            file.write_text(file.read_text().replace(project.server.url, address))
            person.app.workspace.read_settings()
            await person.press("n")
            await person.sees("harder variants", SOON)
            await person.press("enter")
            await person.sees("Ask main for 5 items from #1", SOON)
            await person.press("y")
            await person.sees("main cannot be asked: No answer from", SOON)
        assert prompts(person) == ["question 0", "question 1"]


RULES = "Be short.\nBe kind.\nName a price.\n"


@pytest.mark.nightly
async def test_without_a_target_the_demo_proposes_by_a_script_from_every_marked_item_and_says_so(project):
    project.dataset(3)
    (project.folder / ".evals" / "config.toml").unlink()
    async with at_the_workbench(project.folder, size=(160, 45), dataset="data.json") as person:
        await person.press("j", "space", "space", "ctrl+g")
        await person.sees("harder variants", SOON)
        assert "from 2 items" in person.screen()
        await person.type("2\n")
        await person.sees("Ask demo for 2 items from each of 2 items: 2 calls", SOON)
        assert "script to try this out" in " ".join(person.screen().replace("│", " ").split())
        await person.press("y")
        await person.sees("4 to decide", SOON)
        await person.press("A")
        await person.until(lambda: not at_review(person), SOON)
        assert "4 items kept" in person.said()
        space = person.app.workspace
        assert sorted(space.marks) == [0, 3] and space.item == 6  # as marked, and where the cursor was
        items = person.app.workspace.items
        assert [proposal_facts(one).get("from", "") for one in items] == ["", "#1", "#1", "", "#2", "#2", ""]
        assert "question 0" in items[1]["prompt"] and "question 1" in items[4]["prompt"]
        assert {proposal_facts(one).get("by") for one in items} == {"demo", None}


@pytest.mark.nightly
async def test_items_in_another_language_and_against_a_rule_are_proposed_by_the_demo(project):
    project.dataset(1)
    (project.folder / ".evals" / "config.toml").unlink()
    file = project.folder / "data.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "extensions": {"promptpex": {"rules": RULES}}}))
    async with at_the_workbench(project.folder, size=(80, 24), dataset="data.json") as person:
        await person.press("j", "ctrl+g")
        await person.sees("in another language", SOON)
        await person.type("in Spanish\n")
        await person.sees("Ask demo for items from", SOON)
        await person.press("y")
        await person.sees("5 to decide", SOON)
        await person.press("a")
        await person.until(lambda: len(prompts(person)) == 2, SOON)
        assert prompts(person)[1].startswith("Hola")
        await person.press("n")
        await person.sees("the inverse of rule 3", SOON)
        await person.type("inverse of rule 3\n")
        await person.sees("Ask demo for 5 items from #", SOON)
        await person.press("y")
        await person.sees("9 to decide · 1 kept", SOON)
        await person.press("G", "a")
        await person.until(lambda: len(prompts(person)) == 3, SOON)
        made = next(one for one in person.app.workspace.items if "rule" in proposal_facts(one))
        assert proposal_facts(made)["rule"] == "Name a price." and "Name a price." in made["prompt"]


async def test_with_a_wrong_configuration_its_fault_is_said_and_not_that_there_is_no_target(project):
    project.dataset(2)
    (project.folder / ".evals" / "config.toml").write_text("[targets.m]\nmodel = 'openai/m'\napi_key = 'none'\n")
    async with at_the_workbench(project.folder, size=(160, 45), dataset="data.json") as person:
        await person.press("j", "ctrl+g")
        await person.sees("harder variants", SOON)
        await person.press("enter")
        await person.until(lambda: "targets.m.api_key must name an environment variable" in person.said(), SOON)


@pytest.mark.nightly
async def test_failures_become_items_without_a_model_and_rules_need_rules(project):
    project.dataset(2, prompt="ask {}".format)
    project.do("run", "data.json", "--quiet", code=None)
    before = project.server.counts()["questions"]
    async with at_the_workbench(project.folder, size=(160, 45), dataset="data.json") as person:
        await person.press("j", "ctrl+g")
        await person.sees("the inverse of a rule", SOON)
        assert "this dataset has no rules" in person.screen()
        await person.type("as items")
        await person.press("enter")
        await person.sees("2 to decide", SOON)
        await person.sees("asks the same as #1", SOON)
        await person.press("a")
        await person.sees("1 to decide · 1 kept", SOON)
    assert project.server.counts()["questions"] == before
