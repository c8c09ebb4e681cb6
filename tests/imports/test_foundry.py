"""Prompt Foundry's evaluations: what they become, that they judge the same, and that they come back as they were."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.datasets.model import Dataset
from tui_evals.datasets.paths import CURRENT_VERSION, DatasetError
from tui_evals.datasets.resolve import resolve_evaluators
from tui_evals.datasets.validate import parse_dataset, validate
from tui_evals.evaluators.base import Evidence, ToolCall
from tui_evals.evaluators.registry import load_registry
from tui_evals.imports.foundry import is_foundry, read
from tui_evals.imports.foundry.writing import write
from tui_evals.runs.plan import Assigned
from tui_evals.runs.scoring import judge

FILES = Path(__file__).parent / "foundry"
REGISTRY = load_registry()


def text_of(name):
    return (FILES / f"{name}.json").read_text(encoding="utf-8")


def dumped(value):
    return json.dumps(value, ensure_ascii=False)


def only(assertion, response_format=None, **evaluation):
    """A file with one assertion, of a prompt whose answers have a format."""
    found = {"evaluations": [{"appendedMessages": [], "variables": {}, **evaluation, "assertions": [assertion]}]}
    if response_format:
        found["prompt"] = {"messages": [], "tools": [], "parameters": {"responseFormat": response_format}}
    return dumped(found)


def options_of(assertion, response_format=None):
    (evaluator,) = read(only(assertion, response_format), "f.json")[0]["items"][0]["evaluators"].items()
    return evaluator


@pytest.mark.parametrize("name", ["travel", "answers-in-json", "early"])
def test_a_file_becomes_a_valid_dataset_and_comes_back_as_it_was(name):
    data, losses = read(text_of(name), f"{name}.json")
    document = SimpleNamespace(data=data, dialect="document", is_json=True, needs_upgrade=False, line=lambda path: None)
    assert validate(document, REGISTRY.catalogue).valid
    style = "snake" if name == "answers-in-json" else "camel"
    assert json.loads(write(data, style)[0]) == json.loads(text_of(name))
    assert losses.sentences()


def test_defaults_make_no_noise_and_a_second_assertion_of_a_type_is_a_label():
    data, _ = read(text_of("travel"), "travel.json")
    first, second = data["items"]
    assert first["evaluators"] == {
        "ContainsAll": {"values": ["IC 311", "9:20"]},
        "ContainsAny": {"values": ["sorry", "unfortunately"], "ignore_case": True, "negate": True, "weight": 0.25},
        "Latency": {"threshold": 2000},
        "Cost": {"threshold": 0.01, "weight": 0},
    }
    assert second["evaluators"]["Equals"] == {"value": ""}
    assert second["evaluators"]["Equals_2"] == {"type": "Equals", "value": "Searching.", "negate": True}
    assert (first["weight"], second["threshold"]) == (0.5, 0.5)
    assert "threshold" not in first and "weight" not in second
    assert data["default_evaluators"] == {}
    assert first["extensions"]["promptfoundry"] == {
        "id": "evaluation-1",
        "promptId": "prompt-travel",
        "assertions": {
            "ContainsAll": {"id": "assertion-1"},
            "ContainsAny": {"id": "assertion-2"},
            "Latency": {"id": "assertion-3"},
            "Cost": {"id": "assertion-4"},
        },
    }


def test_defaults_that_a_file_never_says_are_noted_once_for_all():
    plain, modified = of("EXACT_MATCH", targetValue="x"), of("LATENCY", targetThreshold=5)
    data, _ = read(only(plain), "f.json")
    assert data["extensions"]["promptfoundry"] == {"defaults": "left out"}
    assert "extensions" not in data["items"][0]
    mixed, _ = read(dumped({"evaluations": [{"assertions": [plain, {**modified, "weight": 1}]}]}), "f.json")
    assert "extensions" not in mixed
    noted = mixed["items"][0]["extensions"]["promptfoundry"]["assertions"]
    assert noted == {"Equals": {"absent fields": ["jsonPath", "ignoreCase", "negate", "weight"]}}


def test_without_a_prompt_an_evaluation_that_appends_nothing_is_still_an_item():
    data, losses = read(dumped([{"promptId": "p", "appendedMessages": [], "variables": {"n": "1"}}]), "f.json")
    assert data["items"][0]["messages"] == [] and "messages" not in data
    assert "left out: the prompt under test" in "\n".join(losses.sentences())


def test_places_of_appended_messages_are_filled_in_and_null_is_empty():
    messages = [{"role": "user", "content": [{"type": "TEXT", "text": "{{a}}|{{ b }}|{{c}}"}]}]
    text = dumped([{"appendedMessages": messages, "variables": {"a": "1", "b": None}}])
    data, _ = read(text, "f.json")
    assert data["items"][0]["prompt"] == "1||{{c}}"
    assert json.loads(write(data)[0]) == json.loads(text)


def test_the_prompt_and_the_appended_messages_become_openai_style():
    data, losses = read(text_of("travel"), "travel.json")
    assert data["messages"][0] == {"role": "system", "content": "You book trains to {{city}}."}
    assert data["tools"][0]["function"]["name"] == "find_train"
    assert "response_format" not in data
    assert data["items"][0]["variables"] == {"city": "Graz", "class": None}
    assert data["items"][0]["messages"][1:] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "The day on this ticket."},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
            ],
        },
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": "call-1",
                    "type": "function",
                    "function": {"name": "find_train", "arguments": '{"city": "Graz"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call-1", "content": "IC 311, 9:20"},
    ]
    assert data["items"][1]["prompt"] == "A train to Linz, please."
    assert any("--target openai/gpt-4o" in sentence for sentence in losses.sentences())


def test_json_answers_are_a_response_format_and_take_their_paths_along():
    data, losses = read(text_of("answers-in-json"), "f.json")
    assert data["response_format"] == "json"
    assert data["items"][0]["evaluators"]["Equals"] == {"value": "2", "json_path": "$.count"}
    assert data["items"][0]["evaluators"]["ContainsAny"]["json_path"] == "$"
    assert "json_path" not in data["items"][1]["evaluators"]["StartsWith"]
    assert "response_format: carried: answers must be valid JSON" in losses.sentences()


def test_early_types_import_as_far_as_they_mean_something():
    data, losses = read(text_of("early"), "f.json")
    (item,) = data["items"]
    assert item["evaluators"] == {
        "Equals": {"value": "Hi"},
        "ContainsAll": {"values": ["Graz"]},
        "Equals_2": {"type": "Equals", "value": '{"a": 1}', "json_path": "$"},
        "ContainsAll_2": {"type": "ContainsAll", "values": ["x"], "json_path": "$.b"},
        "ToolCalled": {"tool_name": "greet"},
        "ToolCalledWith": {"tool_name": "greet", "arguments": {"city": "Graz"}},
        "ContainsAll_3": {"type": "ContainsAll", "values": ["Graz"]},
        "Equals_3": {"type": "Equals", "value": "Hi"},
        "Equals_4": {"type": "Equals", "value": "1", "json_path": "$.a"},
    }
    assert item["messages"][0]["content"] == "Hello, Graz!"
    assert item["prompt"] == "And Graz again?"
    assert any("places for variables are filled in" in sentence for sentence in losses.sentences())
    assert any("the prompt under test" in entry.what for entry in losses.of("left out"))


def test_a_path_is_dropped_where_answers_are_text_and_still_comes_back():
    assertion = {"type": "EXACT_MATCH", "targetValue": "x", "jsonPath": "$.a"}
    data, losses = read(only(assertion, "TEXT"), "f.json")
    assert data["items"][0]["evaluators"] == {"Equals": {"value": "x"}}
    assert "evaluations[0].assertions[0]: left out: jsonPath $.a" in "\n".join(losses.sentences())
    assert json.loads(write(data)[0])["evaluations"][0]["assertions"][0]["jsonPath"] == "$.a"
    assert options_of(assertion) == ("Equals", {"value": "x", "json_path": "$.a"})


def test_a_path_that_cannot_be_followed_is_said():
    _, losses = read(only({"type": "EXACT_MATCH", "targetValue": "x", "jsonPath": "$[?(@.a>1)]"}, "JSON"), "f.json")
    assert "filter expressions are not supported" in "\n".join(losses.sentences())


# The same verdicts: what an assertion says of an answer, and what the evaluator it became says.


async def verdict_of(assertion, response_format=None, **evidence):
    """What the run makes of one answer: the record of the assertion, then status and score of the item."""
    data, _ = read(only(assertion, response_format), "f.json")
    dataset = parse_dataset(data)[0]
    item = dataset.items[0]
    assigned = [
        Assigned(one.key, REGISTRY.build(one.evaluator, one.settings), one.settings.get("weight", 1.0))
        for one in resolve_evaluators(dataset, item)
    ]
    found = Evidence(**{"tool_calls": (), "json_response": data.get("response_format") == "json", **evidence})
    judged = await judge(assigned, found, SimpleNamespace(without_judges=False, dataset=dataset), item, 0)
    return judged.records[0].result, judged.status, judged.score


def of(kind, **fields):
    return {"type": kind, **fields}


CALLS = (ToolCall("find", {"City": "Graz"}), ToolCall("book", '{"broken'))

TEXTS = [
    (of("EXACT_MATCH", targetValue="Yes"), "Yes", True),
    (of("EXACT_MATCH", targetValue="Yes"), "yes", False),
    (of("EXACT_MATCH", targetValue="Yes"), " Yes", False),
    (of("EXACT_MATCH", targetValue="Yes", ignoreCase=True), "yES", True),
    (of("EXACT_MATCH", targetValue="Yes", negate=True), "no", True),
    (of("EXACT_MATCH", targetValue='{"a":1}', jsonPath="$"), '{"a": 1}', False),
    (of("CONTAINS_ALL", targetValues=["a", "b"]), "b and a", True),
    (of("CONTAINS_ALL", targetValues=["a", "c"]), "b and a", False),
    (of("CONTAINS_ALL", targetValues=[]), "anything", True),
    (of("CONTAINS_ALL", targetValues=["A"], ignoreCase=True, negate=True), "a", False),
    (of("CONTAINS_ANY", targetValues=["x", "a"]), "b and a", True),
    (of("CONTAINS_ANY", targetValues=[]), "anything", False),
    (of("CONTAINS_ANY", targetValues=["X"], ignoreCase=True), "x", True),
    (of("CONTAINS_ANY", targetValues=["x"], negate=True), "y", True),
    (of("STARTS_WITH", targetValue="Dear"), "Dear Ada", True),
    (of("STARTS_WITH", targetValue="Dear"), "dear Ada", False),
    (of("STARTS_WITH", targetValue="DEAR", ignoreCase=True), "dear Ada", True),
    (of("STARTS_WITH", targetValue="Dear", negate=True), "Dear Ada", False),
]


@pytest.mark.parametrize(("assertion", "answer", "passes"), TEXTS)
async def test_a_text_assertion_judges_the_same(assertion, answer, passes):
    result = "pass" if passes else "fail"
    assert await verdict_of(assertion, "TEXT", response=answer) == (result, result, 100.0 if passes else 0.0)


JSONS = [
    (of("EXACT_MATCH", targetValue="Graz", jsonPath="$.city"), '{"city": "Graz"}', True),
    (of("EXACT_MATCH", targetValue="3", jsonPath="$.n"), '{"n": 3}', True),
    (of("EXACT_MATCH", targetValue="true", jsonPath="$.n"), '{"n": true}', True),
    (of("EXACT_MATCH", targetValue="null", jsonPath="$.n"), '{"n": null}', True),
    (of("EXACT_MATCH", targetValue="3.0", jsonPath="$.n"), '{"n": 3}', True),
    (of("EXACT_MATCH", targetValue='{"b": 2, "a": 1}'), '{ "a": 1, "b": 2 }', True),
    (of("EXACT_MATCH", targetValue="b", jsonPath="$[*]"), '["a", "b"]', True),
    (of("STARTS_WITH", targetValue="b", jsonPath="$[*]"), '["a", "bc"]', True),
    (of("CONTAINS_ALL", targetValues=["a", "b"], jsonPath="$[*]"), '["a", "b"]', True),
    (of("CONTAINS_ANY", targetValues=['"n":3']), '{"n": 3}', True),
    (of("CONTAINS_ANY", targetValues=["x"], jsonPath="$.city", negate=True), '{"city": "Graz"}', True),
    (of("STARTS_WITH", targetValue="graz", jsonPath="$.city", ignoreCase=True), '{"city": "Graz"}', True),
    (of("EXACT_MATCH", targetValue="x", jsonPath="$.gone"), '{"city": "Graz"}', False),
    (of("EXACT_MATCH", targetValue="x", jsonPath="$.gone", negate=True), '{"city": "Graz"}', False),
]


@pytest.mark.parametrize(("assertion", "answer", "passes"), JSONS)
async def test_an_assertion_on_json_judges_the_same(assertion, answer, passes):
    result = "pass" if passes else "fail"
    assert await verdict_of(assertion, "JSON", response=answer) == (result, result, 100.0 if passes else 0.0)


@pytest.mark.parametrize(
    "assertion",
    [
        of("EXACT_MATCH", targetValue="no JSON", jsonPath=None),
        of("CONTAINS_ANY", targetValues=["x"], negate=True),
        of("LATENCY", targetThreshold=1000),
    ],
)
async def test_an_answer_that_is_no_json_fails_with_score_0_whatever_the_assertions_say(assertion):
    *_, status, score = await verdict_of(assertion, "JSON", response="no JSON", latency_ms=1.0)
    assert (status, score) == ("fail", 0.0)


@pytest.mark.parametrize(
    ("assertion", "passes"),
    [
        (of("TOOL_CALLED", toolName="book"), True),
        (of("TOOL_CALLED", toolName="Book"), False),
        (of("TOOL_CALLED_WITH", toolName="find", argKeyName="City"), True),
        (of("TOOL_CALLED_WITH", toolName="find", argKeyName="city"), False),
        (of("TOOL_CALLED_WITH", toolName="find", argKeyName="city", ignoreCase=True), True),
        (of("TOOL_CALLED_WITH", toolName="find", argKeyName="City", negate=True), False),
        (of("TOOL_CALLED_WITH", toolName="find", argKeyName="day", negate=True), True),
        (of("TOOL_CALLED_WITH", toolName="book", argKeyName="x"), False),
        (of("TOOL_CALLED_WITH", toolName="book", argKeyName="x", negate=True), False),
        (of("LATENCY", targetThreshold=350), False),
        (of("LATENCY", targetThreshold=350.5), True),
        (of("COST", targetThreshold=0.01), False),
        (of("COST", targetThreshold=0.02), True),
    ],
)
async def test_assertions_on_tools_and_limits_judge_the_same(assertion, passes):
    result, *_ = await verdict_of(assertion, "TEXT", response="", tool_calls=CALLS, latency_ms=350.0, cost=0.01)
    assert result == ("pass" if passes else "fail")


async def test_negate_does_not_turn_an_error():
    assertion = of("EXACT_MATCH", targetValue="x", jsonPath="$[?(@.a>1)]", negate=True)
    assert (await verdict_of(assertion, "JSON", response="[]"))[0] == "error"


async def test_weights_and_threshold_make_score_and_status():
    assertions = [of("STARTS_WITH", targetValue="a", weight=0.25), of("STARTS_WITH", targetValue="b", weight=0.75)]
    text = dumped([{"appendedMessages": [], "variables": {}, "threshold": 0.5, "assertions": assertions}])
    dataset = parse_dataset(read(text, "f.json")[0])[0]
    item = dataset.items[0]
    assigned = [
        Assigned(one.key, REGISTRY.build(one.evaluator, one.settings), one.settings["weight"])
        for one in resolve_evaluators(dataset, item)
    ]
    plan = SimpleNamespace(without_judges=False, dataset=dataset)
    judged = await judge(assigned, Evidence(response="answer"), plan, item, 0)
    assert (judged.status, judged.score) == ("pass", 25.0)


# There and back.

NAMES = st.sampled_from(["find", "book-it", "a_b"])
WORDS = st.text(max_size=8) | st.sampled_from(["{{city}}", "Hello {{ city }}{{x}}", "{% raw %}", '{"a": 1}'])
SHARES = st.sampled_from([0, 0.25, 1, 1.0])


def some(**fields):
    """An object in which each field may be absent."""
    return st.fixed_dictionaries({}, optional=fields)


TEXT_FIELDS = {
    "jsonPath": st.sampled_from(["$", None, "$.a"]),
    "ignoreCase": st.booleans(),
    "negate": st.booleans(),
    "weight": SHARES | st.none(),
    "createdAt": WORDS,
    "toolName": st.none(),
}


def assertion_like(kind, optional, **fields):
    return st.fixed_dictionaries({"type": st.just(kind), **fields}, optional=optional)


PLAIN = {"weight": SHARES, "negate": st.just(False)}
ASSERTIONS = st.one_of(
    assertion_like("EXACT_MATCH", TEXT_FIELDS, targetValue=WORDS),
    assertion_like("STARTS_WITH", TEXT_FIELDS, targetValue=WORDS),
    assertion_like("CONTAINS_ALL", TEXT_FIELDS, targetValues=st.lists(WORDS, max_size=2)),
    assertion_like("CONTAINS_ANY", TEXT_FIELDS, targetValues=st.lists(WORDS, max_size=2)),
    assertion_like("TOOL_CALLED", PLAIN, toolName=NAMES),
    assertion_like("TOOL_CALLED_WITH", {**PLAIN, "ignoreCase": st.booleans()}, toolName=NAMES, argKeyName=NAMES),
    assertion_like("LATENCY", PLAIN, targetThreshold=st.integers(0, 9)),
    assertion_like("COST", PLAIN, targetThreshold=st.floats(0, 1)),
    assertion_like("JSON_CONTAINS", {"weight": st.none()}, targetValue=WORDS, jsonPath=st.sampled_from([None, "$.a"])),
    st.fixed_dictionaries({"matcher": st.fixed_dictionaries({"type": st.just("EQUALS")}), "target": WORDS}),
)
CALL = st.fixed_dictionaries(
    {
        "toolCallId": WORDS,
        "type": st.just("function"),
        "function": st.fixed_dictionaries({"name": NAMES, "arguments": WORDS}),
    }
)
TEXT = st.fixed_dictionaries({"type": st.just("TEXT"), "text": WORDS}, optional={"cached": st.booleans()})
IMAGE = st.fixed_dictionaries(
    {"type": st.just("IMAGE_BASE64"), "imageBase64": st.just("iVBO"), "mediaType": st.sampled_from(["image/png", ""])}
)
TOOL_CALL = st.fixed_dictionaries({"type": st.just("TOOL_CALL"), "toolCall": CALL})
RESULT = st.fixed_dictionaries(
    {"type": st.just("TOOL_RESULT"), "toolCallId": WORDS, "result": WORDS | st.just({"found": 1})}
)


def message(role, blocks):
    return st.fixed_dictionaries({"role": st.just(role), "content": blocks})


MESSAGES = st.lists(
    st.one_of(
        message("system", st.lists(TEXT, max_size=2)),
        message("user", st.lists(TEXT | IMAGE | RESULT, max_size=3)),
        message("assistant", st.lists(TEXT | TOOL_CALL, max_size=3)),
        message("tool", st.lists(RESULT, min_size=1, max_size=2)),
        st.fixed_dictionaries({"role": st.just("user"), "content": WORDS | st.none()}),
    ),
    max_size=3,
)
TOOLS = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES},
        optional={"id": WORDS, "description": WORDS | st.none(), "parameters": st.just({"type": "object"})},
    ),
    max_size=2,
    unique_by=lambda tool: tool["name"],
)
PARAMETERS = some(responseFormat=st.sampled_from(["JSON", "TEXT"]), topP=st.integers(0, 1), provider=st.just("OPENAI"))
PROMPTS = some(id=st.just("p"), name=WORDS, messages=MESSAGES, tools=TOOLS, parameters=PARAMETERS | st.none())
EVALUATIONS = some(
    promptId=st.just("p"),
    appendedMessages=MESSAGES,
    variables=st.dictionaries(st.sampled_from(["city", "x"]), WORDS | st.none(), max_size=2),
    weight=SHARES,
    threshold=SHARES | st.none(),
    updatedAt=WORDS,
)


@st.composite
def files(draw):
    """Files of every layout, with whatever may be absent absent somewhere."""
    evaluations = draw(st.lists(EVALUATIONS, min_size=1, max_size=3))
    whole, owned = draw(st.booleans()), draw(st.booleans())
    beside = []
    layout = draw(st.sampled_from(["list", "inside", "beside"]))
    for number, evaluation in enumerate(evaluations):
        checks = draw(st.lists(ASSERTIONS, max_size=3))
        name = {"id": f"e{number}"} if layout == "beside" or draw(st.booleans()) else {}
        for check in checks:
            if name and (layout == "beside" or owned):
                check["evaluationId"] = name["id"]
            if whole and "matcher" not in check:
                check.setdefault("weight", 1)
        evaluation |= name
        if layout == "beside":
            beside += checks
        elif checks or draw(st.booleans()):
            evaluation["assertions"] = checks
    if layout == "list":
        return evaluations
    document = {"evaluations": evaluations}
    if layout == "beside":
        document["assertions"] = draw(st.permutations(beside))
    if draw(st.booleans()):
        prompt = draw(PROMPTS)
        document |= {"prompts": [prompt]} if draw(st.booleans()) else {"prompt": prompt}
    return document | draw(some(exportedAt=WORDS))


@given(files(), st.sampled_from(["camel", "snake"]))
def test_every_file_becomes_a_dataset_and_comes_back_as_it_was(file, style):
    data, losses = read(dumped(file), "f.json")
    assert parse_dataset(data)[1] == []
    written = write(data, style)[0]
    if style == "snake":
        again = read(written, "f.json")
        assert again[0] == data
        assert [str(entry) for entry in again[1].entries] == [str(entry) for entry in losses.entries]
        written = write(again[0], "camel")[0]
    assert json.loads(written) == file


WEIGHTS = {"weight": st.sampled_from([0, 0.5])}
MODIFIED = {"ignore_case": st.just(True), "negate": st.just(True), **WEIGHTS}


def evaluator_like(optional, **fields):
    return st.fixed_dictionaries(fields, optional=optional)


@st.composite
def datasets(draw):
    """Datasets of what both systems know, in the form an import has."""
    data = {"schemaVersion": CURRENT_VERSION}
    form = draw(st.sampled_from([None, "text", "json"]))
    paths = {"json_path": st.sampled_from(["$", "$.a"] if form == "json" else ["$.a"])} if form != "text" else {}
    if form:
        data["messages"] = draw(CHATS)
    if form == "json":
        data["response_format"] = "json"
    data["default_evaluators"] = {}
    evaluators = some(
        Equals=evaluator_like({**MODIFIED, **paths}, value=WORDS),
        StartsWith=evaluator_like({**MODIFIED, **paths}, value=WORDS),
        ContainsAll=evaluator_like({**MODIFIED, **paths}, values=st.lists(WORDS, max_size=2)),
        ContainsAny=evaluator_like({**MODIFIED, **paths}, values=st.lists(WORDS, max_size=2)),
        ToolCalled=evaluator_like(WEIGHTS, tool_name=NAMES),
        ToolCalledWith=evaluator_like(MODIFIED, tool_name=NAMES, arg_key_name=NAMES),
        Latency=evaluator_like(WEIGHTS, threshold=st.integers(0, 9)),
        Cost=evaluator_like(WEIGHTS, threshold=st.floats(0, 1)),
    )
    data["items"] = []
    for _ in range(draw(st.integers(1, 2))):
        item = draw(some(variables=st.just({"day": "Monday", "city": None}), messages=CHATS))
        if not item.get("messages"):
            item.pop("messages", None)
        if draw(st.booleans()) or "messages" not in item:
            item["prompt"] = draw(st.text(min_size=1, max_size=5))
        elif item["messages"][-1]["role"] == "user":
            item["messages"].append({"role": "system", "content": "more"})
        item |= draw(some(weight=st.sampled_from([0, 0.5]), threshold=st.sampled_from([0, 0.5])))
        if checks := draw(evaluators):
            item["evaluators"] = checks
            if "Equals" in checks and draw(st.booleans()):
                checks["Equals_2"] = {"type": "Equals", **checks["Equals"]}
        data["items"].append(item)
    return data


SAYINGS = st.text(alphabet=st.characters(exclude_characters="{", exclude_categories=["Cs"]), max_size=5)
CHATS = st.lists(
    st.one_of(
        st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant"]), "content": SAYINGS}),
        st.fixed_dictionaries({"role": st.just("tool"), "tool_call_id": SAYINGS, "content": SAYINGS}),
        st.fixed_dictionaries(
            {
                "role": st.just("assistant"),
                "tool_calls": st.just(
                    [{"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}]
                ),
            }
        ),
        st.just(
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}]}
        ),
    ),
    max_size=3,
)


@given(datasets(), st.sampled_from(["camel", "snake"]))
def test_a_dataset_of_what_both_know_goes_there_and_comes_back(data, style):
    text, losses = write(data, style)
    assert list(losses.of("left out")) == []
    assert read(text, "f.json")[0] == data


def test_an_edit_is_written_and_the_ids_stay():
    data, _ = read(text_of("early"), "f.json")
    item = data["items"][0]
    item["evaluators"]["ContainsAll"]["values"] = ["Linz"]
    item["evaluators"]["ToolCalledWith"] = {"tool_name": "greet", "arg_key_name": "city"}
    item["prompt"] = "Bye"
    del item["evaluators"]["Equals"]
    (evaluation,) = json.loads(write(data)[0])
    contains, with_name = (next(one for one in evaluation["assertions"] if one["id"] == name) for name in ("a2", "a6"))
    assert contains["type"] == "CONTAINS_ALL" and contains["targetValues"] == ["Linz"]
    assert with_name["argKeyName"] == "city"
    assert read(dumped([evaluation]), "f.json")[0]["items"][0]["evaluators"]["ToolCalledWith"]["arg_key_name"] == "city"
    assert evaluation["appendedMessages"][-1]["content"] == [{"type": "TEXT", "text": "Bye"}]
    assert "a1" not in {one["id"] for one in evaluation["assertions"]}


def test_an_edited_prompt_keeps_its_model():
    data, _ = read(text_of("travel"), "f.json")
    data["messages"][0]["content"] = "You book buses."
    data["tools"][0]["function"]["description"] = "Finds buses"
    data["response_format"] = "json"
    prompt = json.loads(write(data)[0])["prompt"]
    assert prompt["messages"][0]["content"][0]["text"] == "You book buses."
    assert prompt["tools"][0]["id"] == "tool-1" and prompt["tools"][0]["description"] == "Finds buses"
    assert prompt["parameters"]["responseFormat"] == "JSON" and prompt["parameters"]["name"] == "gpt-4o"
    assert (prompt["id"], prompt["name"]) == ("prompt-travel", "Travel desk")


def test_what_prompt_foundry_cannot_hold_is_said():
    data = {
        "prompt_file": "x.prompty",
        "default_evaluators": {"Coherence": {}},
        "items": [
            {
                "testId": "T-1",
                "prompt": "q",
                "ideal": ["a", "b"],
                "evaluators": {
                    "Equals": {},
                    "ToolCalled": {"tool_name": "f", "negate": True},
                    "Latency": {},
                    "ToolCalledWith": {"tool_name": "f", "arguments": {}},
                    "exact_match": {"value": "a", "compat": True},
                },
            },
            {"prompt": "q", "expected_response": "a", "evaluators": {"STARTS_WITH": {}, "ContainsAny": {}}},
            {"prompt": "q", "expected_response": "a", "variables": {"n": 3}},
            {"turns": [{"prompt": "one", "expected_response": "1"}, {"prompt": "two"}]},
        ],
    }
    text, losses = write(data)
    losses_text = "\n".join(losses.sentences())
    for wanted in (
        "left out: prompt_file",
        "items[0]: left out: testId",
        "default_evaluators: left out: the evaluator Coherence (Prompt Foundry has no equal)",
        "items[0].evaluators: left out: the evaluator Equals (it passes on any of several references",
        "items[0].evaluators: left out: the evaluator ToolCalled (TOOL_CALLED does not know negate)",
        "items[0].evaluators: left out: the evaluator Latency (it has no threshold to compare with)",
        "items[0].evaluators: left out: the evaluator ToolCalledWith",
        "items[0].evaluators: left out: the evaluator exact_match",
        "items[2]: left out: the expected response",
        "items[2]: changed: the variable n",
        "items[3]: changed: the conversation (it became 2 evaluations",
    ):
        assert wanted in losses_text
    assert "items[1]: left out" not in losses_text
    evaluations = json.loads(text)["evaluations"]
    assert len(evaluations) == 5
    assert [one["type"] for one in evaluations[1]["assertions"]] == ["STARTS_WITH", "CONTAINS_ANY"]
    assert evaluations[1]["assertions"][1]["targetValues"] == ["a"]
    assert evaluations[2]["variables"] == {"n": "3"}
    assert [message["role"] for message in evaluations[4]["appendedMessages"]] == ["user", "assistant", "user"]


def test_of_several_prompts_one_is_chosen():
    prompts = [{"id": name, "name": name.upper(), "messages": []} for name in ("p1", "p2")]
    evaluations = [{"promptId": name, "appendedMessages": [], "variables": {}} for name in ("p1", "p2", "p2")]
    text = dumped({"prompts": prompts, "evaluations": evaluations})
    with pytest.raises(DatasetError, match=r"f\.json:1: prompts: has evaluations of 2 prompts \(P1, P2\)"):
        read(text, "f.json")
    data, losses = read(text, "f.json", "P2")
    assert len(data["items"]) == 2
    assert "left out: 1 evaluation of the prompt p1" in "\n".join(losses.sentences())
    with pytest.raises(DatasetError, match="has no prompt 'P3'; its prompts are P1, P2"):
        read(text, "f.json", "P3")


def test_the_kind_of_a_file_is_known():
    assert is_foundry(json.loads(text_of("travel"))) and is_foundry(json.loads(text_of("early")))
    assert is_foundry(json.loads(text_of("answers-in-json")))
    assert not any(map(is_foundry, ([], {}, [{"prompt": "q"}], {"evaluations": "x"}, {"items": []}, 3, None)))


def bad(**fields):
    return {"evaluations": [{"id": "e", "appendedMessages": [], "variables": {}, **fields}]}


def broken_message(role, *blocks):
    return bad(appendedMessages=[{"role": role, "content": list(blocks)}])


@pytest.mark.parametrize(
    ("document", "line", "message"),
    [
        ({"evaluations": []}, 2, "evaluations: must be a list of evaluations"),
        ("text", 1, "must be a list of evaluations, or an object"),
        (bad(weight=1.5), 7, "evaluations[0].weight: must be at most 1, not 1.5"),
        (bad(variables={"n": 3}), 7, "evaluations[0].variables.n: must be text, not 3"),
        (bad(prompt_id="p", promptId="p"), 3, "evaluations[0]: promptId appears twice"),
        (bad(assertions=[of("EXACT")]), 9, "evaluations[0].assertions[0].type: 'EXACT' is no type of assertion"),
        (bad(assertions=[of("CONTAINS_ALL")]), 8, "evaluations[0].assertions[0]: targetValues is missing"),
        (
            bad(assertions=[of("LATENCY", target_threshold="fast")]),
            10,
            "evaluations[0].assertions[0].target_threshold: must be a number",
        ),
        (
            bad(assertions=[of("COST", targetThreshold=1, evaluationId="f")]),
            11,
            "evaluations[0].assertions[0].evaluationId: 'f' is not the evaluation it is in",
        ),
        (
            bad() | {"assertions": [of("TOOL_CALLED", toolName="f", evaluationId="f")]},
            13,
            "assertions[0].evaluationId: no evaluation has the id 'f'",
        ),
        (
            broken_message("user", {"type": "VIDEO"}),
            10,
            "evaluations[0].appendedMessages[0].content[0].type: 'VIDEO' is no type of block",
        ),
        (
            broken_message("tool", {"type": "TEXT", "text": "x"}),
            8,
            "evaluations[0].appendedMessages[0].content: a message of the role tool needs a TOOL_RESULT",
        ),
        (broken_message("robot"), 7, "evaluations[0].appendedMessages[0].role: must be 'system'"),
        (
            bad() | {"prompt": {"parameters": {"responseFormat": "YAML"}}},
            11,
            "prompt.parameters.responseFormat: must be 'JSON' or 'TEXT', not \"YAML\"",
        ),
        (bad() | {"prompt": 3}, 9, "prompt: must be an object"),
        (bad(assertions=[]) | {"assertions": []}, 10, "assertions: some assertions are inside"),
    ],
)
def test_a_malformed_file_is_named_with_line_and_field(document, line, message):
    with pytest.raises(DatasetError) as refused:
        read(json.dumps(document, indent=1), "f.json")
    sentences = str(refused.value).splitlines()
    assert any(f": {message}" in sentence for sentence in sentences), sentences
    assert all(sentence.startswith("f.json:") for sentence in sentences)
    assert any(sentence.startswith(f"f.json:{line}: {message}") for sentence in sentences), sentences


@pytest.mark.parametrize("text", ["", "{", '{"evaluations": [NaN]}', '{"evaluations": [}'])
def test_text_that_is_no_json_is_refused(text):
    with pytest.raises(DatasetError, match=r"f\.json:1: "):
        read(text, "f.json")


@pytest.mark.parametrize("deep", ["[" * 900 + "]" * 900, '{"a":' * 900 + "1" + "}" * 900])
def test_brackets_without_end_are_refused_with_a_sentence(deep):
    block = '{"type": "TOOL_RESULT", "toolCallId": "c", "result": ' + deep + "}"
    message = '{"role": "tool", "content": [' + block + "]}"
    for text in ('{"evaluations": ' + deep + "}", '[{"appendedMessages": [' + message + "]}]", deep):
        try:
            read(text, "f.json")
        except DatasetError as refused:
            assert str(refused).startswith("f.json")


def test_every_problem_is_said_at_once():
    with pytest.raises(DatasetError) as refused:
        read(json.dumps(bad(weight=2, threshold="x", variables=[])), "f.json")
    assert len(refused.value.problems) == 3


def test_what_is_remembered_may_be_edited_into_nonsense():
    data, _ = read(text_of("travel"), "f.json")
    data["extensions"]["promptfoundry"] = {"prompt": 3, "tools": [], "assertions": "beside", "order": list("abcdefghi")}
    data["items"][0]["extensions"]["promptfoundry"] = {
        "appendedMessages": 3,
        "absent fields": 3,
        "assertions": {"Latency": {"type": 1, "absent fields": [{}]}},
    }
    data["items"][1]["extensions"] = {"promptfoundry": "x"}
    Dataset.model_validate(data)
    written = json.loads(write(data)[0])
    assert written["evaluations"][0]["appendedMessages"][0]["content"][0]["text"] == "Which day?"
    assert written["assertions"][2]["type"] == "LATENCY"
    assert [one["evaluationId"] for one in written["assertions"]] == ["evaluation-1"] * 4 + ["evaluation-2"] * 5
