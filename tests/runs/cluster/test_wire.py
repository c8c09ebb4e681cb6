"""What travels comes out as it went in: orders, cells, answers, calls and scores, whatever a model or a file wrote."""

from __future__ import annotations

import asyncio
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.datasets.model import Dataset, Item
from tui_evals.evaluators.registry import load_registry
from tui_evals.runs.executors import Cell
from tui_evals.runs.executors.cluster.terms import (
    Order,
    dataset_header,
    dump_call,
    dump_cells,
    dump_order,
    dump_prompts,
    dump_scores,
    load_call,
    load_cells,
    load_order,
    load_scores,
    versions,
    worker_plan,
)
from tui_evals.runs.executors.cluster.worker_session import Outbox
from tui_evals.runs.plan import Plan
from tui_evals.runs.prompting import PromptUnderTest
from tui_evals.store.records import AnswerRecord, CallRecord, ScoreRecord
from tui_evals.store.rows import answer_record, body_of, plain
from tui_evals.targets.base import HttpService, Price, TargetConfig
from tui_evals.text.chats import parse_prompty
from tui_evals.text.safe import spellings, without

wild = st.text(st.characters(codec=None), max_size=12) | st.sampled_from(
    ["\ud800", "a\udfffb", "\x00\x1b[31m\x9b", "\n\r"]
)
"""Whatever Python calls text: lone surrogates and control characters too."""
decent = wild.map(plain)
numbers = st.integers() | st.just(10**400) | st.floats(allow_nan=False)
data = st.recursive(
    st.none() | st.booleans() | numbers | wild,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(wild, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(wild, data, max_size=3)
counts = st.none() | st.integers(0, 10**9)
amounts = st.none() | st.floats(0, 1e9)

calls_made = st.lists(st.fixed_dictionaries({"id": wild, "name": wild, "arguments": wild}), max_size=2).map(tuple)
said = st.builds(
    AnswerRecord,
    text=wild,
    request=objects,
    tool_calls=calls_made,
    diagnostics=st.none() | objects,
    input_tokens=counts,
    output_tokens=counts,
    cost=amounts,
    latency_ms=amounts,
    attempts=st.integers(0, 9),
    from_cache=st.booleans(),
    scripted=st.booleans(),
    model=st.none() | wild,
    finish_reason=st.none() | wild,
    session=data,
)
failed = st.builds(
    AnswerRecord, text=st.none(), request=objects, code=st.just("agentRequestFailed"), message=st.none() | wild
)
answers = said | failed


def sent(value):
    """What Dask makes of it: text that is UTF-8, whole numbers of 64 bits, lists as tuples."""
    packer = pytest.importorskip("msgpack")
    return packer.unpackb(packer.packb(value), use_list=False, strict_map_key=False)


@given(answers)
def test_an_answer_arrives_as_it_was_said(record):
    assert answer_record(*sent(body_of(record))) == record


@given(
    st.builds(
        CallRecord,
        answer=counts,
        kind=st.sampled_from(["target", "judge"]),
        target=decent,
        attempt=st.integers(1, 9),
        started=st.floats(0, 1e10),
        latency_ms=st.floats(0, 1e10),
        input_tokens=counts,
        output_tokens=counts,
        cost=amounts,
        code=st.none() | st.just("agentTimeout"),
        message=st.none() | decent,
        from_cache=st.booleans(),
    )
)
def test_a_call_arrives_as_it_was_made(record):
    assert load_call(sent(dump_call(record))) == record


def test_what_a_failed_call_said_arrives_although_it_is_no_text():
    call = CallRecord(
        answer=None, kind="target", target="t", attempt=1, started=0.0, latency_ms=0.0, message="no \ud800"
    )
    assert load_call(sent(dump_call(call))).message == "no ?"


scores = st.builds(
    ScoreRecord,
    key=decent,
    evaluator=decent,
    score=st.none() | st.floats(0, 1),
    result=st.sampled_from([None, "pass", "fail", "error"]),
    threshold=st.none() | st.floats(0, 1),
    label=st.none() | decent,
    reason=decent,
    details=objects,
    weight=st.floats(0, 10),
)


@given(st.lists(scores, max_size=3))
def test_scores_arrive_as_they_were_given(records):
    assert load_scores(sent(dump_scores(records))) == records


def test_details_without_a_number_arrive_without_one():
    record = ScoreRecord(
        key="k",
        evaluator="e",
        score=math.nan,
        result=None,
        label="\ud800",
        reason="\udc00!",
        details={"mean": math.nan, "most": math.inf, "many": 10**400, "\ud800": "\ud800"},
    )
    (found,) = load_scores(sent(dump_scores([record])))
    assert math.isnan(found.score) and math.isnan(found.details["mean"])
    assert found.details["most"] == math.inf and found.details["many"] == 10**400
    assert found.details["\ud800"] == "\ud800" and (found.label, found.reason) == ("?", "?!")


words = decent.filter(bool)
extras = st.fixed_dictionaries(
    {},
    optional={
        "expected_response": decent,
        "context": decent,
        "extensions": st.dictionaries(decent, data, max_size=2),
        "messages": st.just([{"role": "system", "content": "Be brief.", "cache_control": {"ttl": 1}}]),
    },
)
items = (
    st.builds(lambda prompt, more: {"prompt": prompt, **more}, words, extras)
    | st.builds(
        lambda turns, values: {"turns": turns, "variables": values},
        st.lists(st.builds(lambda prompt, more: {"prompt": prompt, **more}, words, extras), min_size=1, max_size=3),
        st.dictionaries(decent, data, max_size=2),
    )
).map(Item.model_validate)


@st.composite
def cells(draw):
    found, number = [], 0
    for position, item in enumerate(draw(st.lists(items, min_size=1, max_size=3))):
        for repeat in range(draw(st.integers(1, 2))):
            ids = tuple(range(number, number + len(item.units)))
            number += len(ids)
            answered = draw(st.integers(0, len(ids)))
            known = {turn: draw(answers) for turn in range(answered)}
            final = frozenset(turn for turn in known if draw(st.booleans()))
            found.append(Cell(item, draw(decent), position, 0, draw(st.integers(0, 3)), repeat, ids, known, final))
    return found


@given(cells())
def test_cells_arrive_with_their_items_and_all_that_is_known_of_them(given_cells):
    found = load_cells(sent(dump_cells(given_cells)))
    assert found == given_cells
    assert [cell.item.model_fields_set for cell in found] == [cell.item.model_fields_set for cell in given_cells]


def test_an_item_that_many_cells_ask_is_written_once():
    item = Item.model_validate({"prompt": "a rare word"})
    text = dump_cells([Cell(item, "#1", 0, 0, 0, repeat, (repeat,), {}, frozenset()) for repeat in range(50)])
    assert text.count("a rare word") == 1
    assert len({id(cell.item) for cell in load_cells(text)}) == 1


configs = st.builds(
    TargetConfig,
    name=decent,
    model=words,
    base_url=st.none() | words,
    api_key=st.none() | st.just("env:KEY"),
    params=objects,
    concurrency=st.integers(1, 100),
    requests_per_minute=st.none() | st.floats(1, 1000),
    tokens_per_minute=st.none() | st.floats(1, 1000),
    timeout=st.floats(0.1, 100),
    price=st.none() | st.builds(Price, st.floats(0, 100), st.floats(0, 100)),
    via=st.sampled_from(["auto", "litellm"]),
)
orders = st.builds(
    Order,
    versions=st.just(versions()),
    header=objects,
    targets=st.lists(configs, max_size=2).map(tuple),
    judges=st.lists(st.tuples(st.none() | words, configs), max_size=2).map(tuple),
    prompts=st.lists(objects, max_size=2).map(tuple),
    without_judges=st.booleans(),
    use_cache=st.booleans(),
    budget=st.none() | st.floats(0, 100),
    root=words,
    code=objects,
    environment=st.dictionaries(words, wild, max_size=2),
)


@pytest.mark.story
@given(orders)
def test_an_order_arrives_as_it_was_given(order):
    assert load_order(sent(dump_order(order))) == order


PROMPT = """---
inputs:
  tone: { type: string, default: kind }
---
system:
Be {{tone}}.
user:
{{question}}
"""


def test_the_plan_of_a_worker_makes_the_same_chat_and_the_same_evaluators_of_a_cell():
    document = {
        "default_evaluators": {"Includes": {}, "Mine": {"type": "Contains", "value": "x"}},
        "variables": {"question": "Why?"},
        "response_format": "json",
        "owner": {"of": "the root"},
        "items": [{"prompt": "one", "evaluators": {"Includes": {"weight": 2}}}, {"prompt": "two"}],
    }
    dataset = Dataset.model_validate(document)
    service = HttpService(url="http://127.0.0.1:1/x", body={"q": ["{{ prompt }}"]}, answer="$.a", stream="sse")
    price = Price(0.0, 0.0, per_call=0.1)
    target = TargetConfig(name="t", model="http:x", http=service, headers={"A": "env:B"}, price=price)
    plan = Plan(dataset, (target,), load_registry(), prompts=(PromptUnderTest("p", parse_prompty(PROMPT)),))
    order = Order(
        versions=versions(),
        header=dataset_header(dataset),
        targets=(target,),
        judges=((None, target),),
        prompts=dump_prompts(plan),
        rubric="strict",
        without_judges=False,
        use_cache=True,
        budget=None,
        root=".",
        code={},
        environment={},
    )
    found = worker_plan(load_order(dump_order(order)), load_registry())
    assert found.dataset == dataset.model_copy(update={"items": []})
    assert found.judge == target and found.asked_prompts[0].name == "p"
    for item in dataset.items:
        assert found.resolved(item, 0) == plan.resolved(item, 0)
    values = {"question": "Why?"}
    assert found.asked_prompts[0].rendered(values) == plan.asked_prompts[0].rendered(values)


async def test_secrets_leave_no_worker_and_what_looks_like_one_breaks_no_letter():
    spelled = spellings(["ollama", "200000", "message", "hunter22"])
    outbox = Outbox(lambda text: without(text, spelled))
    record = AnswerRecord(
        text="hunter22",
        request={"messages": [{"content": "hunter22"}], "max_tokens": 200000},
        diagnostics={"hunter22": ["hunter22", 200000]},
        message="hunter22",
        input_tokens=200000,
    )
    call = CallRecord(
        answer=1, kind="target", target="ollama", attempt=1, started=0.0, latency_ms=0.0, message="hunter22"
    )
    score = ScoreRecord(
        key="ollama", evaluator="e", score=1.0, result="pass", reason="hunter22", details={"n": 200000, "s": "hunter22"}
    )
    outbox.called(call)
    outbox.changed("ollama", ["hunter22 is not sent"])
    waiting = [
        asyncio.create_task(outbox.answer(1, record, None, "ollama")),
        asyncio.create_task(outbox.scored(1, [score], "pass", 1.0)),
    ]
    await asyncio.sleep(0)
    letter = outbox.message()
    assert "hunter22" not in json.dumps(letter)
    found = answer_record(*letter["answers"][0][1])
    assert (found.input_tokens, found.message, found.request["max_tokens"]) == (200000, "[redacted]", 200000)
    assert load_call(letter["calls"][0]).target == "ollama"
    assert letter["changes"] == [["ollama", ["[redacted] is not sent"]]]
    (scored,) = load_scores(letter["scores"][0][1])
    assert (scored.key, scored.details["n"], scored.reason) == ("ollama", 200000, "[redacted]")
    outbox.answered([(1, True)], [])
    assert await asyncio.gather(*waiting) == [True, None]
