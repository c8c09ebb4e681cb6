"""Results of agent frameworks, by classes of their shape; tests/interop/agent_frameworks.py runs the real ones."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from tui_evals.targets.answers import parse_reply
from tui_evals.targets.base import TargetError, Usage
from tui_evals.transcript import calls_with_results, documents_of, reasoning_text


@dataclass
class Holder:
    """Anything with the attributes that it is given."""

    more: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["more"][name]
        except KeyError:
            raise AttributeError(name) from None


class Item:
    def __init__(self, kind: str, raw: dict[str, Any], **more: Any) -> None:
        self.type, self.raw_item, self.agent = kind, raw, Holder({"name": "clerk"})
        self.__dict__.update(more)


def openai_agents(final: Any = "Order 7 is paid.") -> Any:
    call = {"type": "function_call", "id": "fc", "call_id": "c1", "name": "find", "arguments": '{"order": 7}'}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Order 7 is paid."}]}
    items = [
        Item("reasoning_item", {"type": "reasoning", "summary": [{"type": "summary_text", "text": "look it up"}]}),
        Item("tool_call_item", call),
        Item("tool_call_output_item", {"type": "function_call_output", "call_id": "c1"}, output={"status": "paid"}),
        Item("message_output_item", said),
    ]
    usage = Holder({"input_tokens": 3, "output_tokens": 4})
    return Holder({"new_items": items, "final_output": final, "context_wrapper": Holder({"usage": usage})})


@dataclass
class Part:
    part_kind: str
    content: Any = None
    tool_name: str = ""
    args: Any = None
    tool_call_id: str = ""
    timestamp: Any = field(default_factory=lambda: datetime.now(UTC))


@dataclass
class ModelMessage:
    parts: list[Part]
    kind: str


@dataclass
class AgentRunResult:
    output: Any

    def all_messages(self) -> list[ModelMessage]:
        call = Part("tool-call", tool_name="find", args={"order": 7}, tool_call_id="c1")
        return [
            ModelMessage([Part("system-prompt", "Be brief."), Part("user-prompt", "Is 7 paid?")], "request"),
            ModelMessage([Part("thinking", "look it up"), call], "response"),
            ModelMessage([Part("tool-return", {"status": "paid"}, "find", None, "c1")], "request"),
            ModelMessage([Part("text", "Order 7 is paid.")], "response"),
        ]

    def usage(self) -> Any:
        return Holder({"input_tokens": 3, "output_tokens": 4})


def test_results_of_agents_sdks_are_transcripts_with_text_calls_results_and_usage():
    for result in (openai_agents(), AgentRunResult("Order 7 is paid.")):
        reply = parse_reply(result, "agent")
        assert (reply.text, reply.usage) == ("Order 7 is paid.", Usage(3, 4))
        ((call, given),) = calls_with_results(reply.transcript)
        assert (call.name, json.loads(call.arguments), json.loads(given.text)) == (
            "find",
            {"order": 7},
            {"status": "paid"},
        )
        assert reasoning_text(reply.transcript) == "look it up"
        assert [message.role for message in reply.transcript.messages] == ["assistant", "tool", "assistant"]


def test_a_structured_output_is_the_answer_in_json_and_no_dump_of_the_result():
    for result in (openai_agents({"paid": True}), AgentRunResult({"paid": True})):
        assert parse_reply(result, "agent").text == '{"paid": true}'


def test_what_llama_index_retrieved_are_chunks():
    node = {"node": {"text": "Order 7: paid", "id_": "n1", "metadata": {"file_name": "orders.txt"}}, "score": 0.5}
    reply = parse_reply(Holder({"response": "Order 7 is paid.", "source_nodes": [node]}), "agent")
    ((document,), text) = documents_of(reply.transcript), reply.text
    assert (text, document.text, document.source, document.score) == (
        "Order 7 is paid.",
        "Order 7: paid",
        "orders.txt",
        0.5,
    )


def test_calls_in_the_forms_of_other_tools_are_read_and_others_are_refused_with_a_sentence():
    for call in (
        {"tool": "find", "input": {"order": 7}, "output": "paid"},
        {"name": "find", "args": {"order": 7}, "result": "paid"},
        {"toolName": "find", "arguments": '{"order": 7}', "result": "paid"},
        {"function": {"name": "find", "arguments": '{"order": 7}'}, "output": "paid"},
    ):
        ((made, given),) = calls_with_results(parse_reply({"text": "a", "tool_calls": [call]}, "agent").transcript)
        assert (made.name, json.loads(made.arguments), given.text, given.failed) == (
            "find",
            {"order": 7},
            "paid",
            False,
        )
    kept = parse_reply({"text": "a", "tool_calls": [{"what": 1}]}, "agent")
    assert (kept.text, kept.diagnostics) == ("a", {"tool_calls not used": "tool call 1 has no name"})
    with pytest.raises(TargetError, match="tool call 1 has no name"):
        parse_reply({"text": "", "tool_calls": [{"what": 1}]}, "agent")
