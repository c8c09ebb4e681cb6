"""`{"type":"text","text":"Say {{q}}"}` was sent as it stood, and `validate` said ✓. Every text of the
prompt under test is filled in, judges read it, and nothing is sent while a placeholder has no value."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals import DatasetError, evaluate
from tui_evals.datasets.document import load
from tui_evals.datasets.model import Dataset
from tui_evals.runs.execution import execute
from tui_evals.runs.project import load_project
from tui_evals.runs.prompting import chat_for, of_dataset
from tui_evals.runs.start import RunRequest, prepare
from tui_evals.store.reader import Reader

PARTS = [
    {"type": "text", "text": "Say {{q}} of {{ person.name }}"},
    {"type": "image_url", "image_url": {"url": "https://example.org/{{q}}.png", "detail": "low"}},
    {"type": "file", "file": {"file_id": "{{q}}"}},
]
FILLED = [
    {"type": "text", "text": "Say «it» of Ada"},
    {"type": "image_url", "image_url": {"url": "https://example.org/«it».png", "detail": "low"}},
    {"type": "file", "file": {"file_id": "«it»"}},
]
VARIABLES = {"q": "«it»", "person": {"name": "Ada"}}


class Asked:
    """A target that keeps what it was sent."""

    def __init__(self) -> None:
        self.chats: list[list[dict[str, Any]]] = []

    def __call__(self, messages: list[dict[str, Any]]) -> str:
        self.chats.append(messages)
        return "said"


def test_every_text_and_address_of_parts_is_filled(tmp_path):
    asked, judged = Asked(), Asked()
    call = {
        "id": "{{1}}",
        "type": "function",
        "function": {"name": "find", "arguments": '{"what": "{{q}}", "n": {"a": 1}}'},
    }
    prompt = [
        {"role": "user", "content": PARTS},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "{{1}}", "content": "found {{q}}"},
    ]
    document = {"messages": prompt, "items": [{"variables": VARIABLES}]}
    graded = {"ModelGraded": {"prompt": "{input}{completion}", "choice_strings": "YN"}}
    evaluate(document, asked, judge=lambda messages: judged(messages), evaluators=graded, project=tmp_path)
    ((question, answer, found),) = asked.chats
    assert question["content"] == FILLED
    (sent,) = answer["tool_calls"]
    assert sent["function"]["arguments"] == '{"what": "«it»", "n": {"a": 1}}'
    assert (sent["id"], found["tool_call_id"], found["content"]) == ("{{1}}", "{{1}}", "found «it»")
    shown = "\n".join(message["content"] for message in judged.chats[0])
    assert 'Say «it» of Ada\n[image_url: https://example.org/«it».png]\n[file: {"file_id":"«it»"}]' in shown
    assert "{{q}}" not in json.dumps(asked.chats, ensure_ascii=False) + shown


def test_a_placeholder_without_a_value_is_never_sent(tmp_path):
    asked = Asked()
    document = {
        "messages": [{"role": "user", "content": PARTS}],
        "items": [{"variables": VARIABLES}, {"testId": "MT-2"}],
    }
    with pytest.raises(DatasetError, match=r"items\[1\]: MT-2 .*\{\{ q \}\}"):
        evaluate(document, asked, evaluators={}, project=tmp_path)
    assert not asked.chats and not (tmp_path / ".evals" / "evals.db").exists()
    evaluate(document, asked, evaluators={}, only=[0], project=tmp_path)
    assert len(asked.chats) == 1


async def test_a_stored_run_that_lacks_a_value_goes_on_without_that_item(tmp_path):
    """Runs of before the check was made are resumed: what cannot be asked is an error of its own, and not sent."""
    items = [{"variables": VARIABLES}, {"testId": "MT-2"}]
    document = {"schemaVersion": "1.11.0", "messages": [{"role": "user", "content": PARTS}], "items": items}
    file = tmp_path / "data.json"
    file.write_text(json.dumps({**document, "default_evaluators": {"Regex": {"pattern": "."}}}))
    here = load_project(tmp_path)
    request = RunRequest(document=load(file), source="data.json", name="data", targets=("demo",), items=frozenset([0]))
    prepared = prepare(request, here)
    stored = replace(prepared, plan=replace(prepared.plan, only=None))
    with here.writer() as writer:
        outcome = await execute(stored.store(writer), writer)
    with Reader(here.store) as reader:
        rows = list(reader.all_rows(outcome.run.id))
        detail = reader.detail(rows[1].id)
    assert [row.status for row in rows] == ["pass", "error"]
    assert "{{ q }}, which has no value" in detail.answer.message and not detail.answer.request


def test_braces_of_items_and_values_are_their_own(tmp_path):
    asked = Asked()
    items = [
        {
            "prompt": "what is {{x}}?",
            "variables": {"q": "{{ y }} {% z"},
            "messages": [{"role": "user", "content": "{{w"}],
        }
    ]
    document = {"messages": [{"role": "system", "content": [{"type": "text", "text": "{{q}}"}]}], "items": items}
    evaluate(document, asked, evaluators={}, project=tmp_path)
    (chat,) = asked.chats
    texts = [message["content"] for message in chat]
    assert texts == [[{"type": "text", "text": "{{ y }} {% z"}], "{{w", "what is {{x}}?"]


_VALUES = st.dictionaries(st.sampled_from("abc"), st.text(), min_size=3)


@given(_VALUES, st.recursive(st.text("{}% #x"), lambda part: st.lists(part) | st.dictionaries(st.text("kl"), part)))
def test_values_arrive_as_they_are(values, elsewhere):
    """In whatever part of a message a placeholder stands, it gives way to its value, and nothing else changes."""
    parts = [{"type": "text", "text": "{{a}}"}, {"type": "x", "x": {"deep": ["{{b}}", {"c": "{{c}}"}]}}]
    dataset = Dataset.model_validate(
        {
            "schemaVersion": "1.11.0",
            "messages": [{"role": "user", "content": parts}],
            "items": [
                {"variables": values, "messages": [{"role": "user", "content": [{"type": "y", "y": elsewhere}]}]}
            ],
        }
    )
    ours, theirs = chat_for(dataset, dataset.items[0], 0, of_dataset(dataset), ())
    expected = {"deep": [values["b"], {"c": values["c"]}]}
    assert ours["content"] == [{"type": "text", "text": values["a"]}, {"type": "x", "x": expected}]
    assert theirs["content"] == [{"type": "y", "y": elsewhere}]
