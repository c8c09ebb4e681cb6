"""Production traces as recorded answers: three tools' forms of the same conversation become the same transcript."""

import gzip
import json
from pathlib import Path

import pytest

from tests.interop.agents_at_the_door import EXPECTED, PROTOBUF, told
from tui_evals.imports.base import CannotRead, ImportOptions, WrongOptions
from tui_evals.imports.registry import preview
from tui_evals.imports.traces import read
from tui_evals.targets.spans import Span, spans_of_otlp, transcript_of_spans
from tui_evals.transcript import Call, Result, Retrieval, answer_text, calls_with_results, parts_of

BEGAN = 1_700_000_000


def otlp(trace, name, at, attributes, seconds=1):
    def value(one):
        if isinstance(one, int):
            return {"intValue": str(one)}
        return {"stringValue": one if isinstance(one, str) else json.dumps(one)}

    return {
        "traceId": trace,
        "spanId": f"{int(at):016x}",
        "name": name,
        "startTimeUnixNano": str(int((BEGAN + at) * 10**9)),
        "endTimeUnixNano": str(int((BEGAN + at + seconds) * 10**9)),
        "attributes": [{"key": key, "value": value(one)} for key, one in attributes.items()],
    }


def otlp_file(tmp_path, *spans):
    file = tmp_path / "otlp.json"
    file.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
    return file


def text(role, said):
    return {"role": role, "parts": [{"type": "text", "content": said}]}


def conversation(trace="t" * 32, question="Is order 7 paid?", answer="Yes, it is paid."):
    asked = [text("user", question)]
    call = {"type": "tool_call", "id": "c1", "name": "find", "arguments": {"id": 7}}
    return [
        otlp(trace, "retrieval faq", 0, {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.retrieval.documents": [{"id": "d1", "content": "Orders are paid at once.", "score": 0.5}],
        }),
        otlp(trace, "chat m", 2, {
            "gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 5,
            "gen_ai.usage.output_tokens": 6, "gen_ai.input.messages": asked,
            "gen_ai.output.messages": [{"role": "assistant", "parts": [call]}],
        }),
        otlp(trace, "execute_tool find", 4, {
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "gen_ai.tool.call.id": "c1",
            "gen_ai.tool.call.result": "paid",
        }, seconds=2),
        otlp(trace, "chat m", 7, {
            "gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 7,
            "gen_ai.usage.output_tokens": 8, "gen_ai.input.messages": asked,
            "gen_ai.output.messages": [text("assistant", answer)],
        }),
    ]  # fmt: skip


PHOENIX = [
    {"context": {"trace_id": "t" * 32, "span_id": "1"}, "name": "docs", "span_kind": "RETRIEVER",
     "start_time": "2023-11-14T22:13:20Z", "end_time": "2023-11-14T22:13:21Z",
     "attributes": {"retrieval": {"documents": [
         {"document": {"id": "d1", "content": "Orders are paid at once.", "score": 0.5}}]}}},
    {"context": {"trace_id": "t" * 32, "span_id": "2"}, "name": "m", "span_kind": "LLM",
     "start_time": "2023-11-14T22:13:22Z", "end_time": "2023-11-14T22:13:23Z",
     "attributes": {"llm.model_name": "m", "llm.token_count.prompt": 5, "llm.token_count.completion": 6,
                    "llm.cost.total": 0.25,
                    "llm.input_messages.0.message.role": "user",
                    "llm.input_messages.0.message.content": "Is order 7 paid?",
                    "llm.output_messages.0.message.role": "assistant",
                    "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
                    "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "find",
                    "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"id": 7}'}},
    {"context": {"trace_id": "t" * 32, "span_id": "3"}, "name": "find", "span_kind": "TOOL",
     "start_time": "2023-11-14T22:13:24Z", "end_time": "2023-11-14T22:13:26Z",
     "attributes": {"tool.name": "find", "tool_call.id": "c1", "output.value": "paid"}},
    {"context": {"trace_id": "t" * 32, "span_id": "4"}, "name": "m", "span_kind": "LLM",
     "start_time": "2023-11-14T22:13:27Z", "end_time": "2023-11-14T22:13:28Z",
     "attributes": {"llm.model_name": "m", "llm.token_count.prompt": 7, "llm.token_count.completion": 8,
                    "llm.cost.total": 0.5,
                    "llm.input_messages.0.message.role": "user",
                    "llm.input_messages.0.message.content": "Is order 7 paid?",
                    "llm.output_messages.0.message.role": "assistant",
                    "llm.output_messages.0.message.content": "Yes, it is paid."}},
]  # fmt: skip
LANGFUSE = [
    {"traceId": "t" * 32, "id": "1", "type": "RETRIEVER", "name": "docs", "startTime": "2023-11-14T22:13:20Z",
     "endTime": "2023-11-14T22:13:21Z", "output": [{"id": "d1", "content": "Orders are paid at once.", "score": 0.5}]},
    {"traceId": "t" * 32, "id": "2", "parentObservationId": "", "type": "GENERATION", "model": "m",
     "startTime": "2023-11-14T22:13:22Z", "endTime": "2023-11-14T22:13:23Z", "totalCost": 0.25,
     "usageDetails": {"input": 5, "output": 6}, "input": [{"role": "user", "content": "Is order 7 paid?"}],
     "output": {"role": "assistant", "content": None, "tool_calls": [
         {"id": "c1", "function": {"name": "find", "arguments": '{"id": 7}'}}]}},
    {"traceId": "t" * 32, "id": "3", "type": "TOOL", "name": "find", "startTime": "2023-11-14T22:13:24Z",
     "endTime": "2023-11-14T22:13:26Z", "input": {"id": 7}, "output": "paid"},
    {"traceId": "t" * 32, "id": "4", "type": "GENERATION", "model": "m", "startTime": "2023-11-14T22:13:27Z",
     "endTime": "2023-11-14T22:13:28Z", "totalCost": 0.5, "usageDetails": {"input": 7, "output": 8},
     "input": {"messages": [{"role": "user", "content": "Is order 7 paid?"},
         {"role": "assistant", "content": None, "tool_calls": [
             {"id": "c1", "function": {"name": "find", "arguments": '{"id": 7}'}}]},
         {"role": "tool", "tool_call_id": "c1", "content": "paid"}]},
     "output": "Yes, it is paid."},
]  # fmt: skip


def written(tmp_path, name, records, lines=False):
    file = tmp_path / name
    file.write_text("\n".join(map(json.dumps, records)) if lines else json.dumps(records))
    return file


def test_three_forms_of_a_trace_tell_the_same_and_what_they_do_not_know_is_missing(tmp_path):
    files = {
        "otlp": otlp_file(tmp_path, *conversation()),
        "phoenix": written(tmp_path, "phoenix.jsonl", PHOENIX, lines=True),
        "langfuse": written(tmp_path, "langfuse.json", LANGFUSE),
    }
    for kind, file in files.items():
        recording, _ = read(file)
        [item] = recording.document["items"]
        [one] = recording.answers
        answer = one.answer
        assert item["prompt"] == "Is order 7 paid?" and "messages" not in item, kind
        assert answer.text == answer_text(answer.transcript) == "Yes, it is paid.", kind
        [(call, result)] = calls_with_results(answer.transcript)[-1:]
        assert (call.name, result.text) == ("find", "paid"), kind
        assert json.loads(parts_of(answer.transcript, Call)[0].arguments) == {"id": 7}, kind
        assert [one.took.seconds for one in parts_of(answer.transcript, Result) if one.took] == [2.0], kind
        [found] = parts_of(answer.transcript, Retrieval)
        assert [(one.id, one.text, one.score) for one in found.documents] == [("d1", "Orders are paid at once.", 0.5)]
        assert (answer.input_tokens, answer.output_tokens, answer.model) == (12, 14, "m"), kind
        assert answer.cost == (None if kind == "otlp" else 0.75), kind
        assert answer.latency_ms == 8000, kind


def tool_span(at, name, **attributes):
    return otlp("t" * 32, f"execute_tool {name}", at, {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name,
        **{f"gen_ai.tool.call.{key}": value for key, value in attributes.items()},
    })  # fmt: skip


def test_runs_of_tools_without_an_id_belong_to_the_calls_of_their_name(tmp_path):
    asked, *_, answered = conversation()[1:]
    calls = [{"type": "tool_call", "id": f"c{n}", "name": name, "arguments": {"id": n}}
             for n, name in enumerate(("find", "find", "pay"))]  # fmt: skip
    said = {
        "key": "gen_ai.output.messages",
        "value": {"stringValue": json.dumps([{"role": "assistant", "parts": calls}])},
    }
    asked["attributes"] = [*asked["attributes"][:-1], said]
    runs = [
        tool_span(3, "pay", result="paid 2"),
        tool_span(4, "find", result="found 1", arguments={"id": 1}),
        tool_span(5, "find", result="found 0"),
        tool_span(6, "log", result="logged"),
    ]
    file = otlp_file(tmp_path, asked, *runs, answered)
    pairs = calls_with_results(read(file)[0].answers[0].answer.transcript)
    told = [(call.id[:2], call.name, result.text) for call, result in pairs]
    assert told == [
        ("c0", "find", "found 0"),
        ("c1", "find", "found 1"),
        ("c2", "pay", "paid 2"),
        ("sp", "log", "logged"),
    ]


def test_a_tool_that_two_instrumentations_saw_ran_once(tmp_path):
    spans = conversation()
    file = otlp_file(tmp_path, *spans, tool_span(5, "find", id="c1", result="paid"))
    [(call, result)] = calls_with_results(read(file)[0].answers[0].answer.transcript)
    assert (call.id, result.text, result.took.seconds) == ("c1", "paid", 2.0)


def test_a_conversation_that_is_repeated_counts_once_and_a_sample_says_what_it_leaves_out(tmp_path):
    traces = [f"{n:032x}" for n in range(6)]
    spans = [span for n, trace in enumerate(traces) for span in conversation(trace, f"question {n % 5}")]
    spans.append(otlp("e" * 32, "invoke_agent", 0, {"gen_ai.operation.name": "invoke_agent"}))
    file = otlp_file(tmp_path, *spans)
    recording, losses = read(file, ImportOptions(limit=3))
    assert len(recording.answers) == 3
    said = "\n".join(losses.sentences())
    assert "1 conversation that another one repeats" in said and "1 trace that asked no model" in said
    assert "2 conversations that the sample leaves out" in said
    assert [item["prompt"] for item in read(file, ImportOptions(limit=3))[0].document["items"]] == [
        item["prompt"] for item in recording.document["items"]
    ]


def test_what_may_be_private_is_shown_before_and_replaced_everywhere(tmp_path):
    secret = "sk-abcdefghijklmnop1234"
    file = otlp_file(tmp_path, *conversation(question="Mail ada@example.org", answer=f"Use {secret}, ada@example.org."))
    shown = "\n".join(preview(file))
    assert "email: " in shown and "key: " in shown and secret not in shown and "ada@example.org" not in shown
    recording, losses = read(file, ImportOptions(redact=True))
    kept = repr(recording)
    assert secret not in kept and "ada@example.org" not in kept
    assert recording.answers[0].answer.text == "Use [key], [email]."
    assert "replaced" in "\n".join(losses.sentences())


def test_times_are_no_numbers_of_cards(tmp_path):
    shown = "\n".join(preview(otlp_file(tmp_path, otlp("t" * 32, "chat m", 0.123456789012, {
        "gen_ai.operation.name": "chat", "gen_ai.input.messages": [text("user", "Hello?")],
        "gen_ai.output.messages": [text("assistant", "Hello.")],
    }))))  # fmt: skip
    assert "nothing that looks like a key" in shown


def test_what_is_no_trace_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(CannotRead, match="neither OTLP"):
        read(written(tmp_path, "other.json", [{"hello": 1}]))
    (tmp_path / "cut.pb").write_bytes(b"\x0a\xff\x01abc")
    with pytest.raises(CannotRead, match="cut off"):
        read(tmp_path / "cut.pb")
    with pytest.raises(WrongOptions, match="--preview is for traces"):
        preview(written(tmp_path, "data.json", {"schemaVersion": "1.11.0", "items": [{"prompt": "x"}]}))


RECORDED = sorted((Path(__file__).parent / "recordings" / "spans").glob("*.otlp.gz"))


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.name.partition(".")[0])
def test_the_spans_of_real_frameworks_tell_what_the_door_records_of_the_same_agent(file):
    """Recorded by `python -m tests.interop.agents_at_the_door --keep`, which the nightly run does with the packages."""
    transcript = transcript_of_spans(spans_of_otlp(gzip.decompress(file.read_bytes()), PROTOBUF))
    assert told(transcript) == EXPECTED
    assert [message.role for message in transcript.messages] == ["assistant", "tool", "assistant", "tool", "assistant"]
    assert all(message.took is None or message.took.cost is None for message in transcript.messages)


def test_spans_of_four_frameworks_are_recorded():
    assert len(RECORDED) == 4


@pytest.mark.parametrize("given, text", [
    ({"type": "tool", "data": {"content": "no order 7", "status": "error", "tool_call_id": "c1"}}, "no order 7"),
    ({"blocks": [{"text": "no"}, {"text": "order"}], "tool_name": "find", "raw_output": None, "is_error": True},
     "no\norder"),
])  # fmt: skip
def test_a_failed_tool_of_a_framework_failed(given, text):
    spans = [
        Span("t", "1", "", "find", 1.0, 2.0, {"openinference.span.kind": "TOOL", "output.value": json.dumps(given)})
    ]
    (result,) = parts_of(transcript_of_spans(spans), Result)
    assert (result.text, result.failed) == (text, True)
