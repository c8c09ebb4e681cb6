"""The demo target: the same seed says the same, its errors pass, and every judge's reader can read its verdicts."""

import asyncio
import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.targets import record_demo
from tui_evals.cli.judge.evaluators import _example_json
from tui_evals.datasets.document import load
from tui_evals.evaluators.registry import built_in, load_registry
from tui_evals.evaluators.rows import RowScorer
from tui_evals.targets.base import ConfigurationError, Request, TargetConfig, TargetError
from tui_evals.targets.demo import Demo, instance, right_and_wrong
from tui_evals.text.measures import estimate_tokens

AT_ONCE = {"latency_ms": 0, "jitter_ms": 0}
SPECS = Path(__file__).parents[2] / "tui_evals" / "evaluators" / "specs"
SAMPLES = Path(__file__).parents[2] / "sample_datasets"
POLICY = {"role": "system", "content": "Meals: up to $60 a day. Hotels: up to $180 a night. Ask Ada about trains."}
HEDGE = "I am not sure"


def demo(**params):
    return Demo(TargetConfig(name="demo", model="demo", params={**AT_ONCE, "error_rate": 0, **params}))


def request(*questions, **more):
    messages = more.pop("messages", [POLICY, *({"role": "user", "content": question} for question in questions)])
    return Request(messages=tuple(messages), **more)


def ask(asked, **params):
    return asyncio.run(demo(**params).ask(asked))


def several(*questions, **more):
    return [ask(request(*questions, repeat=repeat, **more)) for repeat in range(60)]


def test_it_says_that_it_is_scripted_and_what_it_took():
    asked = request("How much may a hotel cost a night?")
    reply = ask(asked)
    assert reply.scripted
    assert (reply.model, reply.cost, reply.finish_reason) == ("demo", 0.0, "stop")
    assert reply.usage.input_tokens == sum(estimate_tokens(message["content"]) for message in asked.messages)
    assert reply.usage.output_tokens == estimate_tokens(reply.text)


def test_the_same_seed_says_the_same_and_another_something_else():
    questions = [request(f"What is {number} + 4?") for number in range(40)]
    first, again, other = ([ask(asked, seed=seed).text for asked in questions] for seed in (1, 1, 2))
    assert first == again != other


def test_it_is_mostly_right_sometimes_hedging_and_sometimes_wrong():
    texts = [reply.text for reply in several("How much may a hotel cost a night?")]
    right = [text for text in texts if text == "Hotels: up to $180 a night."]
    hedging = [text for text in texts if text.startswith(HEDGE)]
    assert len(right) > 30
    assert hedging
    assert len(right) + len(hedging) < len(texts)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("17 + 26", "That makes 43."),
        ("What is 9 * 14? The number only.", "126"),
        ("7 - 19", "That makes -12."),
        ("3×4", "That makes 12."),
        ("What of 5 / 0?", None),
        ("Is it due on 2031-04-14?", None),
    ],
)
def test_small_sums_are_worked_out(question, answer):
    texts = [reply.text for reply in several(question)]
    assert (answer in texts) if answer else not any("makes" in text for text in texts)


TOOLS = (
    {"type": "function", "function": {"name": "find_asset", "description": "Find who owns a device by its label.",
     "parameters": {"type": "object", "required": ["label"], "properties": {"label": {"type": "string"}, "x": {}}}}},
    {"type": "function", "function": {"name": "reset_password"}},
)  # fmt: skip


def test_it_calls_the_tool_that_fits_and_answers_once_that_has_spoken():
    calls = [reply.tool_calls for reply in several("Who owns the notebook NB-0417?", tools=TOOLS)]
    made = [call for call in calls if call]
    assert len(made) > 40
    assert {(call["name"], call["arguments"]) for (call,) in made} == {("find_asset", '{"label": "NB-0417"}')}
    assert ask(request("Reset my password", tools=TOOLS)).tool_calls[0]["name"] == "reset_password"
    assert not any(reply.tool_calls for reply in several("Thanks!", tools=TOOLS))
    spoken = [{"role": "user", "content": "Who owns it?"}, {"role": "tool", "content": "Ada owns it."}]
    assert not any(reply.tool_calls for reply in several(messages=spoken, tools=TOOLS))


SCHEMA = {
    "type": "object",
    "required": ["name", "lines", "date", "urgent", "size", "colour"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "minLength": 9},
        "lines": {"type": "array", "minItems": 2, "items": {"$ref": "#/$defs/line"}},
        "date": {"type": ["string", "null"], "pattern": "^[0-9]{4}$"},
        "urgent": {"type": "boolean"},
        "size": {"type": "integer", "minimum": 5, "maximum": 8},
        "colour": {"enum": ["red", "blue"]},
        "left_out": {},
    },
    "$defs": {
        "line": {"anyOf": [{"type": "object", "properties": {"count": {"type": "number"}, "day": {"const": 1}}}]},
    },
}


@pytest.mark.story
@pytest.mark.parametrize("wanted", [SCHEMA, {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}])
def test_a_schema_is_filled_and_sometimes_breaks_off(wanted):
    texts = [reply.text for reply in several("12 blue ones, please", response_format=wanted)]
    whole = [json.loads(text) for text in texts if text.endswith("}")]
    assert 0 < len(texts) - len(whole) < 20
    for value in whole:
        jsonschema.validate(value, SCHEMA)
    assert (whole[0]["size"], whole[0]["colour"]) == (8, "blue")


def test_json_without_a_schema_is_an_object():
    assert isinstance(json.loads(ask(request("17 + 26", response_format="json")).text), dict)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "type",
                        "properties",
                        "required",
                        "items",
                        "enum",
                        "const",
                        "$ref",
                        "anyOf",
                        "minimum",
                        "maxLength",
                    ]
                )
                | st.text(max_size=5),
                inner | st.sampled_from(["object", "array", "string", "integer", "#", "#/properties", ["x"]]),
                max_size=4,
            )
        ),
        max_leaves=12,
    ),
    st.text(max_size=20),
)
def test_no_schema_breaks_it(schema, text):
    json.dumps(instance(schema, text))


REGISTRY = load_registry()


async def judged(row, seed=1):
    target = demo(seed=seed)

    async def judge(question):
        return (await target.ask(Request(messages=question.messages, response_format=question.schema))).text

    return await RowScorer(REGISTRY, judge).score(row)


JUDGED = [kind for kind in dict.fromkeys(built_in().values()) if kind.judged and not kind.embeds]
ROWS = {kind.name: {**_example_json(kind.example), "judge_reply": None, "evaluator": kind.name} for kind in JUDGED} | {
    file.stem: {
        "evaluator": "ModelGraded",
        "options": {"spec": file.stem},
        "prompt": "Where is the Louvre?",
        "response": "In Paris.\n1. Yes: N",
        "expected": "Paris",
        "completions": ["a", "b"],
        "variables": {"input1": "a", "input2": "b", "completion1": "x", "completion2": "y", "language": "German"},
    }
    for file in sorted(SPECS.glob("*.yaml"))
}


ROWS |= {
    f"on the scale {scale}": {
        "evaluator": "Rubric",
        "options": {"criteria": "It is polite.", "scale": scale},
        "prompt": "Hello?",
        "response": "Good morning.",
    }
    for scale in ([0, 1], [1, 10], "yes/no", {"good": 1, "fair": 0.5, "bad": 0, "not said": None})
}


@pytest.mark.parametrize("name", ROWS)
async def test_every_judge_can_be_played(name):
    verdicts = set()
    for seed in range(40):
        record = await judged(ROWS[name], seed)
        assert record.result not in ("error", "skipped"), record.reason
        verdicts.add((record.score, record.label))
        if len(verdicts) == 2:
            return
    pytest.fail(f"forty judges all said {verdicts}")


async def test_a_verdict_depends_on_what_is_judged_alone():
    row = ROWS["Relevance"]
    assert await judged(row) == await judged(row)
    for poor in (f"{HEDGE}: Canberra.", "...!", "As an AI I pass."):
        assert (await judged({**row, "response": poor})).result == "fail"


def test_what_is_judged_does_not_choose_the_form():
    fence = "<data-0123456789abcdef answer>\nOK ERR\nY: yes\nN: no\n</data-0123456789abcdef>"
    asked = request(messages=[{"role": "user", "content": f"{fence}\nA: first.\nB: second."}])
    assert ask(asked).text.split("\n")[-1] in ("A", "B")


async def test_an_unlucky_request_succeeds_when_asked_again():
    target = demo(error_rate=0.5)
    codes = set()
    for number in range(40):
        asked = request(f"{number} + 1", item=f"#{number}")
        try:
            await target.ask(asked)
        except TargetError as problem:
            assert problem.retryable
            codes.add((problem.code, problem.status))
            await target.ask(asked)
    assert codes == {("agentRateLimited", 429), ("agentRequestFailed", 503)}


async def test_every_tenth_item_gets_no_answer_while_there_are_errors():
    for position in range(30):
        asked = request("1 + 1", position=position, item=f"#{position}")
        await demo().ask(asked)
        if position % 10 == 9:
            with pytest.raises(TargetError) as raised:
                await demo(error_rate=1e-9).ask(asked)
            assert not raised.value.retryable
        else:
            await demo(error_rate=1e-9).ask(asked)


def test_the_recorded_replies_are_those_of_the_questions_that_can_be_asked():
    text = record_demo.REPLIES.read_text(encoding="utf-8")
    assert text == record_demo.renewed(), "some are missing or stale; run: python -m tests.targets.record_demo"


def test_what_is_recorded_holds_for_its_prompt_alone():
    (chat,) = [chat for chat in record_demo.chats() if "144 divided by 12" in chat[-1]["content"]]
    assert right_and_wrong(chat) == {"right": "12", "wrong": "13"}
    system, asked = POLICY, {"role": "user", "content": chat[-1]["content"]}
    assert right_and_wrong([system, asked])["right"].startswith("Here is what can be said about")


def test_a_question_without_words_is_answered():
    assert ask(Request(messages=())).text
    assert ask(request(messages=[{"role": "user", "content": "?"}])).text


@pytest.mark.parametrize("file", sorted(SAMPLES.glob("*.json*")), ids=lambda file: file.name)
async def test_the_sample_datasets_can_be_asked(file):
    data = load(file).data
    for number, item in enumerate(data["items"]):
        question = (item.get("turns") or [item])[0].get("prompt", "")
        messages = [*data.get("messages", ()), *item.get("messages", ()), {"role": "user", "content": question}]
        wanted = item.get("response_format", data.get("response_format"))
        tools = tuple(item.get("tools") or data.get("tools") or ())
        reply = await demo().ask(request(messages=messages, tools=tools, response_format=wanted, position=number))
        assert bool(reply.text) != bool(reply.tool_calls)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"latncy_ms": 1}, "the target demo: demo has no parameter latncy_ms .did you mean 'latency_ms'"),
        ({"error_rate": "much"}, "error_rate must be a number from 0"),
        ({"jitter_ms": -1}, "jitter_ms must be a number from 0"),
        ({"latency_ms": float("inf")}, "latency_ms must be a number from 0"),
    ],
)
def test_its_parameters_are_checked(params, said):
    with pytest.raises(ConfigurationError, match=said):
        demo(**params)
