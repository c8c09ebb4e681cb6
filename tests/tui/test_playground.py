"""The playground: talk to a target, and the conversation becomes an item with the checks that were chosen."""

import asyncio
import json
import threading
from dataclasses import replace
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual.app import App

from tests.server import running
from tui_evals.datasets.document import load
from tui_evals.datasets.validate import validate
from tui_evals.evaluators.base import Evidence, ToolCall, evaluate
from tui_evals.evaluators.registry import Registry, built_in
from tui_evals.present.columns import cell_width
from tui_evals.targets.base import Price, Reply, TargetConfig, TargetError, Usage
from tui_evals.targets.config import RunDefaults, Settings
from tui_evals.tui.app import open_playground
from tui_evals.tui.messages import ShowPane, StateChanged
from tui_evals.tui.playground.conversation import (
    CannotTalk,
    Conversation,
    ConversationStart,
    as_evaluators,
    conversation_start,
    first_target,
    suggested_checks,
    with_checks,
)
from tui_evals.tui.playground.screen import Playground, Transcript, cost_words, parts_of
from tui_evals.tui.widgets.bar import Status
from tui_evals.tui.widgets.dialogs import Entry, Menu
from tui_evals.tui.widgets.form import Form
from tui_evals.tui.widgets.lines import Lines
from tui_evals.tui.workspace import Workspace

HOSTILE = "[/b][@click=app.quit]x[/] \x1b]52;c;aGk=\x07\x1b[2J\x9b31m\u202e\ud800 日本語"
FORBIDDEN = {"\x1b", "\x07", "\x9b", "\u202e", "\ud800"}
DEMO = TargetConfig(name="demo", model="demo", params={"latency_ms": 0, "jitter_ms": 0, "error_rate": 0})
PROMPT = {
    "items": [{"prompt": "first", "variables": {"town": "Millbrook"}}, {"prompt": "second"}],
    "variables": {"tone": "kind"},
    "messages": [{"role": "system", "content": "Be {{ tone }} in {{ town }}."}],
}
REGISTRY = Registry(built_in())


class Scripted:
    """A target that says what it is given, or fails with it, and remembers what it was asked."""

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.asked = []
        self.closed = 0

    async def ask(self, request):
        self.asked.append(request)
        outcome = self.outcomes.pop(0)
        if outcome is None:
            await asyncio.Event().wait()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome if isinstance(outcome, Reply) else Reply(text=outcome)

    async def close(self):
        self.closed += 1


@pytest.fixture
def scripted(monkeypatch):
    """Every target that is opened is this one."""

    def use(*outcomes):
        target = Scripted(*outcomes)
        monkeypatch.setattr("tui_evals.tui.playground.conversation.open_target", lambda *_: target)
        return target

    return use


def talk_in(root, config=DEMO):
    return Conversation(root, dict, config)


def dataset(root, data=PROMPT, name="evals.json"):
    file = root / name
    file.write_text(json.dumps({"schemaVersion": "1.11.0", **data}))
    return load(file)


def texts(talk, pending=None):
    return [(part.role, part.text) for part in parts_of(talk, pending)]


# -- talking, without a screen


async def test_question_and_answer_go_into_the_next_question(tmp_path, scripted):
    target = scripted("one", "two")
    talk = talk_in(tmp_path)
    await talk.ask("1?")
    await talk.ask("2?")
    assert [message["content"] for message in target.asked[1].messages] == ["1?", "one", "2?"]
    assert talk.item() == {
        "turns": [
            {"prompt": "1?", "expected_response": "one"},
            {"prompt": "2?", "expected_response": "two"},
        ]
    }


async def test_the_target_is_opened_once_and_closed(tmp_path, scripted, monkeypatch):
    target = scripted("one", "two", "three")
    opened = []
    monkeypatch.setattr(
        "tui_evals.tui.playground.conversation.open_target", lambda *given: opened.append(given) or target
    )
    talk = talk_in(tmp_path)
    await talk.ask("1?")
    await talk.ask("2?")
    assert len(opened) == 1 and opened[0][0] is DEMO and opened[0][2] == tmp_path
    other = replace(DEMO, name="other")
    await talk.change(other)
    assert target.closed == 1
    await talk.ask("3?")
    assert opened[1][0] is other and len(talk.messages) == 6
    await talk.close()
    await talk.close()
    assert target.closed == 2


@pytest.mark.parametrize(
    "problem, says",
    [
        (TargetError("agentRateLimited", "too often", retryable=True), "demo: too often; ctrl+j asks again"),
        (TargetError("agentAuthenticationError", "no key"), "demo: no key"),
    ],
)
async def test_a_failure_is_a_sentence_and_nothing_of_it_is_kept(tmp_path, scripted, problem, says):
    scripted("one", problem)
    talk = talk_in(tmp_path)
    await talk.ask("1?")
    with pytest.raises(CannotTalk) as failure:
        await talk.ask("2?")
    assert str(failure.value) == says
    assert len(talk.messages) == 2


async def test_a_target_that_does_not_answer_in_time_is_given_up(tmp_path, scripted):
    scripted(None)
    with pytest.raises(CannotTalk, match=r"demo gave no answer within 0.01 s"):
        await talk_in(tmp_path, replace(DEMO, timeout=0.01)).ask("1?")


async def test_a_target_that_cannot_be_opened_says_why_and_can_be_opened_later(tmp_path):
    talk = talk_in(tmp_path, replace(DEMO, model="replay:answers.json"))
    with pytest.raises(CannotTalk, match=r"ctrl\+o talks to another target"):
        await talk.ask("1?")
    (tmp_path / "answers.json").write_text(json.dumps({"items": [{"prompt": "1?", "response": "captured"}]}))
    await talk.ask("1?")
    assert talk.answer() == ("captured", [])
    await talk.close()


async def test_the_offline_demo_answers(tmp_path):
    talk = talk_in(tmp_path)
    await talk.ask("How much is 17 + 4?")
    assert "2" in talk.answer()[0]
    assert "scripted" in cost_words(talk.taken[1]) and "$0" in cost_words(talk.taken[1])
    await talk.close()


async def test_a_tool_call_is_sent_back_as_a_chat_has_it(tmp_path, scripted):
    call = {"id": "c1", "name": "look_up", "arguments": '{"q": 1}'}
    target = scripted(Reply(text="", tool_calls=(call,)), "done")
    talk = talk_in(tmp_path)
    await talk.ask("1?")
    assert talk.answer() == ("", [{"name": "look_up", "arguments": '{"q": 1}'}])
    assert [part.calls for part in parts_of(talk)][1] == (("look_up", '{"q": 1}'),)
    await talk.ask("2?")
    sent = target.asked[1].messages[1]["tool_calls"]
    assert sent == [{"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"q": 1}'}}]


async def test_what_an_answer_took_is_shown(tmp_path, scripted):
    blocked = Reply(text="", finish_reason="SAFETY")
    scripted(Reply(text="one", usage=Usage(1000, 500)), Reply(text="two", usage=Usage(1, 1)), blocked)
    talk = talk_in(tmp_path, replace(DEMO, price=Price(1.0, 2.0)))
    await talk.ask("1?")
    assert cost_words(talk.taken[1]).endswith("1,000 + 500 tokens · $0.0020")
    await talk.change(TargetConfig(name="new", model="openai/no-such-model-at-all"))
    await talk.ask("2?")
    assert cost_words(talk.taken[3]).startswith("new · ") and cost_words(talk.taken[3]).endswith("unpriced")
    await talk.ask("3?")
    assert cost_words(talk.taken[5]).endswith("unpriced · blocked by the provider's content filter")


# -- the prompt under test


async def test_a_conversation_begins_with_the_prompt_of_the_dataset_and_the_item_leaves_it_out(tmp_path, scripted):
    target = scripted("one")
    talk = talk_in(tmp_path)
    document = dataset(tmp_path, {**PROMPT, "tools": [{"name": "look_up"}], "response_format": "json"})
    talk.begin(conversation_start(document, document.data), {"town": "Ulm", "unused": 1})
    assert texts(talk)[0] == ("system", "Be kind in Ulm.")
    await talk.ask("1?")
    request = target.asked[0]
    assert request.messages[0]["content"] == "Be kind in Ulm."
    assert request.tools == ({"name": "look_up"},) and request.response_format == "json"
    assert talk.item() == {"variables": {"town": "Ulm"}, "prompt": "1?", "expected_response": "one"}


async def test_a_variable_without_a_value_is_named_with_the_key_that_gives_it_one(tmp_path, scripted):
    target = scripted("one")
    talk = talk_in(tmp_path)
    document = dataset(tmp_path)
    talk.begin(conversation_start(document, document.data), {})
    with pytest.raises(CannotTalk, match=r"town.*ctrl\+g"):
        await talk.ask("1?")
    assert not target.asked
    (role, text), (_, says), _ = texts(talk)
    assert (role, text) == ("system", "Be {{ tone }} in {{ town }}.") and "town" in says


def test_a_prompt_file_comes_before_messages_and_names_its_variables(tmp_path):
    (tmp_path / ".evals").mkdir()
    (tmp_path / "ask.prompty").write_text("---\ninputs:\n  b: 2\n---\nsystem:\n{{ a }} {{ b }}\n\nuser:\n{{ c }}\n")
    document = dataset(tmp_path, {**PROMPT, "prompt_file": "ask.prompty"})
    talk = talk_in(tmp_path)
    talk.begin(conversation_start(document, document.data), {"a": 1, "c": None})
    assert talk.beginning.names == ("a", "b", "c")
    assert [message["content"] for message in talk.opening()] == ["1 2", ""]


@pytest.mark.parametrize(
    "change",
    [
        {"prompt_file": "gone.prompty"},
        {"messages": [{"role": "system", "content": "{{ open"}]},
        {"messages": [{"role": 7}]},
        {"messages": "text"},
    ],
)
async def test_a_prompt_that_cannot_be_used_is_said_and_not_asked_without(tmp_path, scripted, change):
    target = scripted("one")
    talk = talk_in(tmp_path)
    document = dataset(tmp_path)
    talk.begin(conversation_start(document, {**document.data, **change}), {})
    with pytest.raises(CannotTalk, match="the prompt under test cannot be used"):
        await talk.ask("1?")
    assert not target.asked and "cannot be used" in texts(talk)[0][1]


async def test_a_system_message_is_kept_by_the_item(tmp_path, scripted):
    target = scripted("one")
    talk = talk_in(tmp_path)
    talk.system = "Be {{ brief }}."
    await talk.ask("1?")
    assert target.asked[0].messages[0] == {"role": "system", "content": "Be {{ brief }}."}
    assert talk.item()["messages"] == [{"role": "system", "content": "Be {{ brief }}."}]


def test_nothing_said_is_no_item(tmp_path):
    talk = talk_in(tmp_path)
    talk.system = "Be brief."
    with pytest.raises(CannotTalk, match=r"nothing has been said yet.*ctrl\+j"):
        talk.item()


def test_the_first_target_is_the_one_runs_ask():
    one, two = replace(DEMO, name="one"), replace(DEMO, name="two")
    both = Settings(targets={"one": one, "two": two})
    assert first_target(Settings()).model == "demo"
    assert first_target(both) is one
    assert first_target(replace(both, run=RunDefaults(targets=("gone", "two")))) is two
    assert first_target(replace(both, run=RunDefaults(targets=("openai/x",)))).model == "openai/x"


# -- suggested checks


CALLS = [{"name": "look_up", "arguments": "{}"}, {"name": "book", "arguments": "{"}, {"name": "", "arguments": ""}]
ANSWERS = [
    'It costs 12 euros, or 3.50 with the "Lantern" card [1].',
    '{"a": 1, "b": ["x"]}',
    '{"a": null}',
    "See [2](http://x/y).",
    "ok",
    "\u200bmarks \ue200cite1\ue201",
]


def kinds(text, calls=()):
    return [name for _, check in suggested_checks(text, calls) for name in check]


def test_checks_are_suggested_by_what_an_answer_holds():
    found = [check for _, check in suggested_checks(ANSWERS[0], ())]
    assert {"ContainsAny": {"values": ["Lantern", "12", "3.50", "1"], "ignore_case": True}} in found
    assert {"Citations": {"citation_format": "bracket"}} in found
    assert {"ExactMatch", "PartialMatch", "Similarity", "WordCountMatch", "Tokens"} <= set(kinds(ANSWERS[0]))
    assert not {"JsonValid", "JsonMatch", "ToolCalled"} & set(kinds(ANSWERS[0]))
    assert {"JsonValid", "JsonMatch"} <= set(kinds(ANSWERS[1])) and "ContainsAny" not in kinds(ANSWERS[1])
    assert "JsonMatch" not in kinds(ANSWERS[2]), "null equals nothing, not even null"
    assert "JsonValid" not in kinds("42")
    assert {"Citations": {"citation_format": "markdown"}} in [check for _, check in suggested_checks(ANSWERS[3], ())]


def test_without_a_text_only_the_tools_are_checked():
    assert [check for _, check in suggested_checks(" ", CALLS)] == [
        {"ToolCalled": {"tool_name": "look_up"}},
        {"ToolCalled": {"tool_name": "book"}},
    ]
    assert suggested_checks("", ()) == []


@given(st.one_of(st.sampled_from(ANSWERS), st.text(max_size=200), st.integers().map(str)))
async def test_every_suggestion_is_valid_and_passes_on_the_answer_it_was_made_of(text):
    calls = tuple(ToolCall(call["name"]) for call in CALLS)
    evidence = Evidence(response=text, expected=text, tool_calls=calls)
    for says, check in suggested_checks(text, CALLS):
        ((name, options),) = check.items()
        kind = REGISTRY.find(name)
        evaluator = kind(kind.Options.model_validate(options))
        assert says and kind.name == name
        if not kind.judged:
            assert (await evaluate(evaluator, evidence)).result == "pass", (name, options)


def test_two_checks_of_a_kind_have_names_of_their_own():
    one, two = {"ToolCalled": {"tool_name": "a"}}, {"ToolCalled": {"tool_name": "b"}}
    assert as_evaluators([one, {"JsonValid": {}}, two]) == {
        "ToolCalled": {"tool_name": "a"},
        "JsonValid": {},
        "ToolCalled_2": {"type": "ToolCalled", "tool_name": "b"},
    }


def test_checks_judge_the_last_turn_of_a_conversation_and_the_file_stays_valid(tmp_path):
    talk = talk_in(tmp_path)
    talk.messages = [{"role": role, "content": "x 1"} for role in ("user", "assistant") * 2]
    checks = [check for _, check in suggested_checks(ANSWERS[0], CALLS)]
    item = with_checks(talk.item(), checks)
    assert "evaluators" not in item["turns"][0] and len(item["turns"][1]["evaluators"]) == len(checks)
    document = dataset(tmp_path, {"items": [item, with_checks({"prompt": "q", "expected_response": "a"}, checks)]})
    assert not validate(document, REGISTRY.catalogue, ()).problems
    assert with_checks({"prompt": "q"}, []) == {"prompt": "q"}


@pytest.mark.nightly
@pytest.mark.story
def test_a_long_answer_is_not_compared_word_for_word():
    for text in ("12 " * 350_000, '"' * 1_000_000, "[" * 1_000_000, "9" * 1_000_000):
        assert not {"ExactMatch", "PartialMatch", "WordCountMatch"} & set(kinds(text))


# -- rows


def drawn(lines):
    return "\n".join(lines.render_line(y).text for y in range(lines.size.height))


def plain(rows):
    return ["".join(piece.text for piece in one.pieces).rstrip() for one in rows]


def test_the_transcript_names_who_speaks_and_finds_the_last_question(tmp_path):
    talk = talk_in(tmp_path)
    talk.messages = [{"role": "user", "content": "1?"}, {"role": "assistant", "content": "one\ntwo"}]
    rows, start = Transcript().lay_out(parts_of(talk, "2?"), 40)
    assert plain(rows) == ["user", "  1?", "", "assistant", "  one", "  two", "", "user", "  2?", ""]
    assert start == 7


def test_a_picture_is_named_and_an_empty_conversation_says_what_to_do(tmp_path):
    talk = talk_in(tmp_path)
    assert "ctrl+j" in texts(talk)[0][1]
    talk.messages = [{"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image_url"}]}]
    assert texts(talk) == [("user", "look\n<image_url>")]


def test_a_part_is_wrapped_once_for_a_width(tmp_path, monkeypatch):
    talk = talk_in(tmp_path)
    talk.messages = [{"role": "assistant", "content": "word " * 200_000}]
    transcript = Transcript()
    first, _ = transcript.lay_out(parts_of(talk), 60)
    monkeypatch.setattr("tui_evals.tui.playground.screen.paragraph", None)
    again, _ = transcript.lay_out(parts_of(talk), 60)
    assert len(again) == len(first) > 10_000


# -- the screen


class Bench(App[None]):
    BINDINGS: ClassVar = [("q", "hear('q')"), ("r", "hear('r')")]

    def __init__(self, workspace):
        super().__init__()
        self.workspace = workspace
        self.heard = []

    def on_mount(self):
        open_playground(self)

    def action_hear(self, key):
        self.heard.append(key)

    def on_state_changed(self, message: StateChanged):
        self.heard.append("changed")

    def on_show_pane(self, message: ShowPane):
        self.heard.append(message.place)


def workspace_of(root, data=None, config=DEMO, **more):
    workspace = Workspace(root, root / "evals.db", settings=Settings(targets={config.name: config}), **more)
    workspace.registry = REGISTRY
    if data is not None:
        dataset(root, data)
        workspace.open_file(root / "evals.json")
    return workspace


async def until(pilot, met, what=""):
    async with asyncio.timeout(180):
        while not met():
            await pilot.pause()


def screen_of(pilot) -> Playground:
    found = pilot.app.get_screen("playground")
    assert isinstance(found, Playground)
    return found


def status(pilot) -> str:
    return str(screen_of(pilot).query_one(Status).render())


async def say(pilot, text):
    screen = screen_of(pilot)
    count = len(screen.talk.messages)
    screen.box.insert(text)
    await pilot.press("ctrl+j")
    await until(pilot, lambda: len(screen.talk.messages) == count + 2 and screen.box.text == "")


async def shown(pilot, text):
    await until(pilot, lambda: text in drawn(screen_of(pilot).lines))


async def choose(pilot, name):
    """Mark an entry of the menu on screen by typing its name."""
    await until(pilot, lambda: isinstance(pilot.app.screen, Menu))
    await pilot.press(*name, "tab")


@pytest.mark.story
async def test_talk_twice_and_make_an_item_with_one_chosen_check(tmp_path):
    with running() as server:
        config = TargetConfig(name="loopback", model="openai/test-model", base_url=server.url)
        workspace = workspace_of(tmp_path, {"items": [{"prompt": "first"}, {"prompt": "last"}]}, config)
        workspace.where = ("items", 0)
        async with Bench(workspace).run_test(size=(80, 24)) as pilot:
            await say(pilot, "Where is it? [[say At the front desk.]]")
            await shown(pilot, "At the front desk.")
            await say(pilot, "What does it cost? [[say It costs 12 euros.]]")
            await shown(pilot, "It costs 12 euros.")
            await shown(pilot, "unpriced")
            assert len(server.last()["body"]["messages"]) == 3
            await pilot.press("ctrl+t")
            await choose(pilot, "ContainsAny")
            await pilot.press("enter")
            await until(pilot, lambda: "editor" in pilot.app.heard)
            assert pilot.app.heard == ["changed", "editor"] and not isinstance(pilot.app.screen, Playground)
            assert [item.get("prompt") for item in workspace.items] == ["first", None, "last"]
            assert workspace.where == ("items", 1)
            first, second = workspace.items[1]["turns"]
            assert first["expected_response"] == "At the front desk." and "evaluators" not in first
            assert second["expected_response"] == "It costs 12 euros."
            assert second["evaluators"] == {"ContainsAny": {"values": ["12"], "ignore_case": True}}
            assert workspace.check().valid
            workspace.editing.undo()
            assert len(workspace.items) == 2


async def test_nothing_marked_means_no_check_and_escape_means_no_item(tmp_path, scripted):
    scripted("one")
    workspace = workspace_of(tmp_path, {"items": [{"prompt": "first"}]})
    async with Bench(workspace).run_test(size=(80, 24)) as pilot:
        await say(pilot, "1?")
        await pilot.press("ctrl+t")
        await until(pilot, lambda: isinstance(pilot.app.screen, Menu))
        await pilot.press("escape")
        await until(pilot, lambda: "no item was made" in status(pilot))
        assert len(workspace.items) == 1
        await pilot.press("ctrl+t")
        await until(pilot, lambda: isinstance(pilot.app.screen, Menu))
        await pilot.press("enter")
        await until(pilot, lambda: len(workspace.items) == 2)
        assert workspace.items[1] == {"prompt": "1?", "expected_response": "one"}


async def test_without_a_dataset_a_sentence_names_the_keys_and_the_conversation_stays(tmp_path, scripted):
    scripted("one", "two")
    workspace = workspace_of(tmp_path)
    async with Bench(workspace).run_test(size=(120, 24)) as pilot:
        await pilot.press("ctrl+t")
        await until(pilot, lambda: "nothing has been said yet" in status(pilot))
        await say(pilot, "1?")
        await pilot.press("ctrl+t")
        await until(pilot, lambda: "ctrl+n" in status(pilot) and "o opens one" in status(pilot))
        await pilot.press(*"draft", "escape")
        await until(pilot, lambda: not isinstance(pilot.app.screen, Playground))
        dataset(tmp_path)
        workspace.open_file(tmp_path / "evals.json")
        workspace.where = ("items", 0)
        open_playground(pilot.app)
        await shown(pilot, "town")
        assert screen_of(pilot).box.text == "draft" and len(screen_of(pilot).talk.messages) == 2
        await pilot.press("ctrl+l")
        await shown(pilot, "Write below")
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(pilot.app.screen, Playground))
        open_playground(pilot.app)
        await shown(pilot, "Be kind in Millbrook.")


async def test_the_question_stays_in_the_box_when_asking_fails_or_is_given_up(tmp_path, scripted):
    target = scripted(TargetError("agentRequestFailed", f"refused {HOSTILE}"), None, "one")
    async with Bench(workspace_of(tmp_path)).run_test(size=(100, 24)) as pilot:
        screen = screen_of(pilot)
        await pilot.press("ctrl+j")
        await until(pilot, lambda: "write a question first" in status(pilot))
        await pilot.press(*"one", "enter", *"two", "f5")
        await until(pilot, lambda: "demo: refused [/b]" in status(pilot))
        assert not FORBIDDEN & set(status(pilot)) and screen.box.text == "one\ntwo"
        await pilot.press("ctrl+j")
        await until(pilot, lambda: len(target.asked) == 2)
        assert "asking…" in status(pilot) and screen.box.read_only
        await pilot.press("ctrl+o")
        await until(pilot, lambda: "an answer is awaited" in status(pilot))
        screen._since -= 7
        screen._tick()
        assert "an answer is awaited" in status(pilot), "what was said stays while the seconds go on"
        await pilot.press("escape")
        await until(pilot, lambda: "still in the box" in status(pilot))
        assert pilot.app.screen is screen and screen.box.text == "one\ntwo" and not screen.talk.messages
        await pilot.press("!", "ctrl+j")
        await until(pilot, lambda: screen.box.text == "" and len(screen.talk.messages) == 2)
        assert screen.talk.messages[0]["content"] == "one\ntwo!"


@pytest.mark.nightly
async def test_another_target_is_chosen_or_named(tmp_path, scripted):
    target = scripted("one")
    config = TargetConfig(name=f"odd {HOSTILE[:20]}", model="openai/x")
    async with Bench(workspace_of(tmp_path, config=config)).run_test(size=(120, 30)) as pilot:
        screen = screen_of(pilot)
        await say(pilot, "1?")
        await pilot.press("ctrl+o")
        await until(pilot, lambda: isinstance(pilot.app.screen, Menu))
        await pilot.press(*"offline", "enter")
        await until(pilot, lambda: screen.talk.config.model == "demo")
        assert target.closed == 1 and "demo" in str(screen.lines.border_title)
        await pilot.press("ctrl+o")
        await until(pilot, lambda: isinstance(pilot.app.screen, Menu))
        await pilot.press(*"another", "enter")
        await until(pilot, lambda: not isinstance(pilot.app.screen, Menu | Playground))
        await pilot.press(*"nonsense", "enter")
        await until(pilot, lambda: "there is no target nonsense" in str(pilot.app.screen.query_one(".help").render()))
        for _ in "nonsense":
            await pilot.press("backspace")
        await pilot.press(*"openai/y", "enter")
        await until(pilot, lambda: screen.talk.config.model == "openai/y")


@pytest.mark.nightly
async def test_variables_and_a_system_message_are_given_in_a_form(tmp_path, scripted):
    target = scripted("one")
    workspace = workspace_of(tmp_path, {**PROMPT, "variables": {"tone": ["calm"]}})
    async with Bench(workspace).run_test(size=(100, 24)) as pilot:
        screen = screen_of(pilot)
        await shown(pilot, "Be {{ tone }} in {{ town }}.")
        await pilot.press("ctrl+g")
        await until(pilot, lambda: isinstance(pilot.app.screen, Form))
        await pilot.press("down", "enter", *"Ulm", "enter", "ctrl+s")
        await until(pilot, lambda: pilot.app.screen is screen)
        await shown(pilot, "Be ['calm'] in Ulm.")
        await say(pilot, "1?")
        assert target.asked[0].messages[0]["content"] == "Be ['calm'] in Ulm."
        assert screen.talk.item()["variables"] == {"town": "Ulm"}
    async with Bench(workspace_of(tmp_path)).run_test(size=(100, 24)) as pilot:
        await until(pilot, lambda: pilot.app.screen is screen_of(pilot))
        await pilot.press("ctrl+g")
        await until(pilot, lambda: isinstance(pilot.app.screen, Form))
        await pilot.press("enter", *"Be brief.", "enter", "ctrl+s")
        await shown(pilot, "Be brief.")
        assert screen_of(pilot).talk.system == "Be brief."


@pytest.mark.nightly
async def test_hostile_texts_are_shown_and_nothing_of_them_happens(tmp_path, scripted):
    call = {"id": "1", "name": HOSTILE, "arguments": HOSTILE}
    scripted(Reply(text=f"{HOSTILE}\n{'x' * 5000}", tool_calls=(call,)), Reply(text=HOSTILE))
    data = {"items": [{"prompt": "q"}], "messages": [{"role": "system", "content": HOSTILE[:-5]}]}
    async with Bench(workspace_of(tmp_path, data)).run_test(size=(100, 40)) as pilot:
        screen = screen_of(pilot)
        screen.box.post_message(events.Paste(HOSTILE))
        await until(pilot, lambda: "日本語" in screen.box.text)
        assert not FORBIDDEN & set(screen.box.text)
        await pilot.press("ctrl+j")
        await until(pilot, lambda: len(screen.talk.messages) == 2)
        await say(pilot, "again")
        await shown(pilot, "[/b][@click=app.quit]x[/]")
        screen.lines.focus()
        for _ in range(8):
            assert not FORBIDDEN & set(drawn(screen.lines))
            await pilot.press("pageup")
            await pilot.pause()
        await pilot.press("ctrl+t")
        await until(pilot, lambda: isinstance(pilot.app.screen, Menu))
        assert not FORBIDDEN & set(drawn(pilot.app.screen.query_one("#entries", Lines)))
        await pilot.press("enter")
        await until(pilot, lambda: len(pilot.app.workspace.items) == 2)
        assert pilot.app.is_running


@pytest.mark.nightly
async def test_an_answer_of_a_megabyte_is_wrapped_away_from_the_screen(tmp_path, scripted, monkeypatch):
    scripted(Reply(text="日本語 テキスト " * 120_000))
    made, threads = Transcript.lay_out, set()
    monkeypatch.setattr(
        Transcript, "lay_out", lambda *given: threads.add(threading.current_thread().name) or made(*given)
    )
    async with Bench(workspace_of(tmp_path)).run_test(size=(80, 24)) as pilot:
        screen = screen_of(pilot)
        await say(pilot, "1?")
        await shown(pilot, "日本語 テキスト")
        assert len(screen.lines.rows) > 10_000 and screen.lines.scroll_offset.y == 0
        await pilot.press("pagedown")
        await until(pilot, lambda: screen.lines.scroll_offset.y > 0)
        await pilot.resize_terminal(60, 20)
        await until(pilot, lambda: max(cell_width(line) for line in plain(screen.lines.rows[:50])) <= 58)
    assert threading.main_thread().name not in threads and threads


async def test_no_letter_reaches_the_workbench_below_and_the_target_is_given_back_at_the_end(tmp_path, scripted):
    target = scripted("one")
    async with Bench(workspace_of(tmp_path)).run_test(size=(80, 24)) as pilot:
        await say(pilot, "1?")
        screen = screen_of(pilot)
        screen.lines.focus()
        await pilot.press("q", "r", "question_mark")
        await until(pilot, lambda: pilot.app.screen is not screen)
        assert any("Send the message" in line for line in plain(pilot.app.screen.query_one(Lines).rows))
        await pilot.press("escape")
        await until(pilot, lambda: pilot.app.screen is screen)
        assert pilot.app.heard == []
        await pilot.press("escape")
        await until(pilot, lambda: pilot.app.screen is not screen)
        await pilot.press("q")
        assert target.closed == 0 and pilot.app.heard == ["q"]
    assert target.closed == 1


async def test_leaving_the_app_while_an_answer_is_awaited_is_quiet(tmp_path, scripted):
    target = scripted(None)
    async with Bench(workspace_of(tmp_path)).run_test(size=(80, 24)) as pilot:
        screen_of(pilot).box.insert("1?")
        await pilot.press("ctrl+j")
        await until(pilot, lambda: target.asked)
    assert target.closed == 1


async def test_an_optional_menu_takes_nothing_unless_something_is_marked():
    for optional, taken in ((True, ()), (False, ("a",))):
        menu = Menu("x", [Entry("a", "apple"), Entry("b", "pear")], several=True, optional=optional)
        got = []
        async with App().run_test() as pilot:
            pilot.app.push_screen(menu, got.append)
            await pilot.pause()
            await pilot.press("enter")
            await pilot.pause()
        assert got == [taken]


def test_a_dataset_without_a_prompt_begins_with_nothing(tmp_path):
    document = dataset(tmp_path, {"items": [{"prompt": "q"}]})
    assert conversation_start(document, document.data) == ConversationStart()
