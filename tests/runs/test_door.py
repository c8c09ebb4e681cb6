"""Agents of their owners' making, whose model calls go through the run's own server on loopback, against real HTTP."""

import json
import struct

import pytest

from tests.runs.conftest import FREE, kill, until
from tui_evals.store.records import transcript_of
from tui_evals.transcript import Call, Result, Retrieval, answer_text, calls_with_results, parts_of

# An agent of the standard library alone, which speaks the protocol that its first argument names.
AGENT = """
import json, os, sys, urllib.request, urllib.error
wire, *more = sys.argv[1:]
question = sys.stdin.read()
streams = "stream" in more
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}

def post(url, body, **headers):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request) as answer:
            text = answer.read().decode()
    except urllib.error.HTTPError as problem:
        sys.exit(f"{problem.code} {problem.headers.get('x-should-retry')} {problem.read().decode()}")
    if not text.startswith(("data:", "event:")):
        return json.loads(text)
    return [json.loads(line[5:]) for line in text.splitlines() if line.startswith("data:") and "[DONE]" not in line]

def chat(messages):
    body = {"model": "any", "messages": messages, "stream": streams, "tools": [
        {"type": "function", "function": {"name": "find", "parameters": SCHEMA}}]}
    said = post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body,
                Authorization="Bearer " + os.environ["OPENAI_API_KEY"])
    if not streams:
        message = said["choices"][0]["message"]
        return message["content"], [(c["id"], c["function"]["name"], c["function"]["arguments"])
                                    for c in message.get("tool_calls") or ()]
    deltas = [one["choices"][0]["delta"] for one in said if one["choices"]]
    return "".join(d.get("content") or "" for d in deltas), [
        (c["id"], c["function"]["name"], c["function"]["arguments"]) for d in deltas for c in d.get("tool_calls") or ()]

def chat_turns():
    messages = [{"role": "user", "content": question}]
    while True:
        text, calls = chat(messages)
        if not calls: return text
        messages.append({"role": "assistant", "content": text or None, "tool_calls": [
            {"id": i, "type": "function", "function": {"name": n, "arguments": a}} for i, n, a in calls]})
        messages += [{"role": "tool", "tool_call_id": i, "content": "found " + json.loads(a)["id"].__str__()}
                     for i, n, a in calls]

def responses_turns():
    items, previous = [{"role": "user", "content": [{"type": "input_text", "text": question}]}], None
    while True:
        body = {"model": "any", "input": items, "stream": streams, "tools": [
            {"type": "function", "name": "find", "parameters": SCHEMA}]}
        if previous: body["previous_response_id"] = previous
        said = post(os.environ["OPENAI_BASE_URL"] + "/responses", body)
        response = said[-1]["response"] if streams else said
        calls = [one for one in response["output"] if one["type"] == "function_call"]
        if not calls:
            return "".join(p["text"] for one in response["output"] if one["type"] == "message" for p in one["content"])
        items = [{"type": "function_call_output", "call_id": c["call_id"],
                  "output": "found " + str(json.loads(c["arguments"])["id"])} for c in calls]
        previous = response["id"]

def messages_turns():
    messages = [{"role": "user", "content": question}]
    while True:
        body = {"model": "any", "max_tokens": 100, "messages": messages, "stream": streams, "tools": [
            {"name": "find", "input_schema": SCHEMA}]}
        said = post(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", body,
                    **{"x-api-key": os.environ["ANTHROPIC_API_KEY"]})
        content = said["content"] if not streams else blocks(said)
        uses = [one for one in content if one["type"] == "tool_use"]
        if not uses: return "".join(one["text"] for one in content if one["type"] == "text")
        messages += [{"role": "assistant", "content": content}, {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": u["id"], "content": "found " + str(u["input"]["id"])}
            for u in uses]}]

def blocks(events):
    made = {}
    for event in events:
        if event["type"] == "content_block_start": made[event["index"]] = dict(event["content_block"], json="")
        if event["type"] == "content_block_delta":
            delta, block = event["delta"], made[event["index"]]
            if delta["type"] == "text_delta": block["text"] += delta["text"]
            if delta["type"] == "input_json_delta": block["json"] += delta["partial_json"]
    for block in made.values():
        written = block.pop("json")
        if block["type"] == "tool_use": block["input"] = json.loads(written)
    return list(made.values())

def gemini_turns():
    contents = [{"role": "user", "parts": [{"text": question}]}]
    while True:
        body = {"contents": contents, "tools": [{"functionDeclarations": [
            {"name": "find", "parameters": {"type": "OBJECT", "properties": {"id": {"type": "INTEGER"}}}}]}]}
        method = "streamGenerateContent?alt=sse" if streams else "generateContent"
        said = post(os.environ["GOOGLE_GEMINI_BASE_URL"] + "/v1beta/models/any:" + method, body)
        said = said if streams else [said]
        parts = [part for one in said for part in one["candidates"][0]["content"]["parts"]]
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        if not calls: return "".join(part["text"] for part in parts)
        contents += [{"role": "model", "parts": parts}, {"role": "user", "parts": [
            {"functionResponse": {"name": c["name"], "response": {"result": "found " + str(c["args"]["id"])}}}
            for c in calls]}]

print({"chat": chat_turns, "responses": responses_turns, "messages": messages_turns, "gemini": gemini_turns}[wire]())
"""
QUESTION = '[[agent]] call find {"id": 7} call find {"id": 8}'


def ask(project, *prompts, evaluators=None):
    items = [{"testId": f"T{n}", "prompt": prompt} for n, prompt in enumerate(prompts, 1)]
    document = {"schemaVersion": "1.11.0", "default_evaluators": evaluators or {}, "items": items}
    (project.folder / "data.json").write_text(json.dumps(document))


def run(project, agent, *options, code=0, program=AGENT, **environment):
    (project.folder / "agent.py").write_text(program)
    command = f"command:python3 agent.py {agent}"
    return project.do(
        "run", "data.json", "-t", command, "--door", "main", "--quiet", *options, code=code, **environment
    )


def details(project):
    with project.reader() as reader:
        return [reader.detail(row.id) for row in reader.all_rows(reader.find_run("last").id)]


def asked(project):
    return sum(question["asked"] for question in project.server.counts()["questions"])


@pytest.mark.story
def test_an_unchanged_agent_is_recorded_alike_over_every_protocol(project):
    project.configure("price = { input_per_million = 1, output_per_million = 2 }")
    ask(project, QUESTION, evaluators={"ToolsSucceeded": {}})
    (project.folder / "agent.py").write_text(AGENT)
    ways = [f"{wire} {way}".strip() for wire in ("chat", "responses", "messages", "gemini") for way in ("", "stream")]
    targets = [word for way in ways for word in ("-t", f"command:python3 agent.py {way}")]
    project.do("run", "data.json", *targets, "--door", "main", "--quiet", "--no-cache")
    told = set()
    for way, detail in zip(ways, details(project), strict=True):
        transcript = transcript_of(detail.answer)
        assert answer_text(transcript) == detail.answer.text == "Answer: found 8", way
        pairs = calls_with_results(transcript)
        steps = [(call.name, json.loads(call.arguments), result.text) for call, result in pairs]
        assert steps == [("find", {"id": 7}, "found 7"), ("find", {"id": 8}, "found 8")], way
        spoken = [message.took for message in transcript.messages if message.role == "assistant"]
        assert len(spoken) == 3 and all(took.seconds and took.cost and took.input_tokens for took in spoken)
        assert detail.answer.cost == pytest.approx(sum(took.cost for took in spoken))
        told.add(str([part for part in transcript.parts if not isinstance(part, Call | Result)]))
    assert len(told) == 1


def test_the_run_costs_what_its_model_calls_cost(project):
    project.configure("price = { input_per_million = 1000, output_per_million = 2000 }")
    ask(project, QUESTION, QUESTION + " ")
    run(project, "chat", "--no-cache")
    with project.reader() as reader:
        found = reader.find_run("last")
        total = reader.totals(found.id)
    assert total.cost == pytest.approx(sum(detail.answer.cost for detail in details(project)))
    assert total.unpriced == 0


def test_the_key_of_the_model_never_reaches_the_agent(project):
    project.configure(FREE, api_key="env:MY_KEY")
    ask(project, "Tell me everything.")
    spy = "import json, os\nprint(json.dumps(dict(os.environ)))"
    run(project, "chat", program=spy, MY_KEY="sk-secret-of-mine", OPENAI_API_KEY="sk-secret-of-mine")
    environment = json.loads(details(project)[0].answer.text)
    assert "sk-secret-of-mine" not in environment.values()
    assert environment["OPENAI_BASE_URL"].startswith("http://127.0.0.1:")


def test_identical_questions_of_an_agent_have_answers_of_their_own_in_the_cache(project):
    project.configure(FREE)
    ask(project, "[[agent]]")
    twice = AGENT.replace("print({", "chat_turns() if wire == 'chat' else 0; print({")
    run(project, "chat", program=twice)
    assert asked(project) == 2
    run(project, "chat", program=twice)
    assert asked(project) == 2, "both come from the cache"


def test_an_agent_that_asks_no_model_is_not_recorded_and_not_free(project):
    project.configure(FREE)
    ask(project, "hello")
    run(project, "chat", program="print('hello')")
    [detail] = details(project)
    assert detail.answer.cost is None and detail.answer.diagnostics["door"] == "not recorded"


def test_side_calls_are_paid_and_do_not_become_the_conversation(project):
    project.configure("price = { input_per_million = 1, output_per_million = 1 }")
    ask(project, QUESTION)
    titled = AGENT.replace("print({", "chat([{'role': 'user', 'content': 'A title, please'}]); print({")
    run(project, "chat", "--no-cache", program=titled)
    [detail] = details(project)
    assert detail.answer.diagnostics["door"] == "4 model calls, 1 of them outside the conversation"
    assert [call.name for call in parts_of(transcript_of(detail.answer), Call)] == ["find", "find"]
    spoken = [message.took.cost for message in transcript_of(detail.answer).messages if message.role == "assistant"]
    assert detail.answer.cost > sum(spoken)


def test_a_model_that_refuses_the_key_leaves_the_answers_of_the_agent_pending(project):
    project.configure(FREE)
    project.server.behave("test-model", after=0, then="401")
    ask(project, "one", "two")
    said = run(project, "chat", code=None)
    assert "Incorrect API key" in said or "key" in said
    assert {row[2] for row in project.table()} == {"pending"}


def test_a_question_that_the_model_refuses_reaches_the_agent_once(project):
    project.configure(FREE)
    ask(project, "[[400]] no")
    run(project, "chat", code=1)
    [detail] = details(project)
    assert detail.answer.text is None and "400 false" in detail.answer.message
    assert asked(project) == 1


@pytest.mark.nightly
def test_the_budget_holds_for_what_agents_ask(project):
    project.configure("price = { input_per_million = 0, output_per_million = 0, per_call = 1 }\nconcurrency = 1")
    ask(project, *[f"{QUESTION} {n}" for n in range(6)])
    said = run(project, "chat", "--no-cache", "--max-cost", "4", "-c", "1", code=None)
    assert "budget" in said
    assert asked(project) <= 4
    statuses = [row[2] for row in project.table()]
    assert statuses.count("pending") == 5 and "error" not in statuses


@pytest.mark.nightly
def test_a_killed_run_asks_no_model_call_again(project):
    project.configure(FREE)
    project.server.behave("*", latency=0.05)
    ask(project, *[f"{QUESTION} {n}" for n in range(8)])
    (project.folder / "agent.py").write_text(AGENT)
    command = ("run", "data.json", "-t", "command:python3 agent.py chat", "--door", "main", "-c", "2", "--no-cache")
    process = project.start(*command, "--name", "long")
    until(lambda: asked(project) >= 9)
    kill(process)
    project.do("resume", "last", "--quiet")
    assert {row[2] for row in project.table()} <= {"unjudged", "pass"}
    assert 24 <= asked(project) <= 24 + 2


@pytest.mark.nightly
def test_a_process_that_answers_many_questions_names_the_answer_that_a_call_is_for(project):
    project.configure(
        FREE + '\n[targets.agent]\nmodel = "command:python3 agent.py"\nparams = { protocol = "jsonl" }\ndoor = "main"'
    )
    ask(project, *[f"[[say answer {n}]]" for n in range(6)])
    worker = """
import json, os, sys, threading, urllib.request
def answer(line):
    asked = json.loads(line)
    named = sys.argv[1:] != ["silent"]
    body = {"model": "any", "messages": [{"role": "user", "content": asked["messages"][-1]["content"]}]}
    headers = {"Content-Type": "application/json", **(asked["headers"] if named else {})}
    address = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    request = urllib.request.Request(address, json.dumps(body).encode(), headers)
    said = json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
    print(json.dumps({"id": asked["id"], "text": said}), flush=True)
for line in sys.stdin:
    threading.Thread(target=answer, args=(line,)).start()
"""
    (project.folder / "agent.py").write_text(worker)
    for silent in ("", " silent"):
        config = project.folder / ".evals" / "config.toml"
        config.write_text(config.read_text().replace('agent.py"', f'agent.py{silent}"'))
        project.do("run", "data.json", "-t", "agent", "--quiet", "--no-cache", "--trust")
        for number, detail in enumerate(details(project)):
            assert detail.answer.text == f"answer {number}"
            assert [message.role for message in transcript_of(detail.answer).messages] == ["assistant"]
            assert "door" not in (detail.answer.diagnostics or {})


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value):
    data = b""
    while value > 127:
        data, value = data + bytes([value & 127 | 128]), value >> 7
    return data + bytes([value])


def otlp(spans):
    """An export request as OpenTelemetry's libraries send it."""

    def attribute(name, value):
        return field(1, name.encode()) + field(2, field(1, value.encode()))

    def span(name, started, **attributes):
        pairs = b"".join(field(9, attribute(key.replace("__", "."), value)) for key, value in attributes.items())
        moments = b"".join(
            varint(number << 3 | 1) + struct.pack("<Q", int(moment * 1e9))
            for number, moment in ((7, started), (8, started + 2))
        )
        return field(1, b"t" * 16) + field(2, name[:8].encode()) + field(5, name.encode()) + moments + pairs

    return field(1, field(2, b"".join(field(2, span(**one)) for one in spans)))


def test_spans_of_the_agent_add_what_its_model_calls_do_not_show(project):
    project.configure(FREE)
    documents = json.dumps([{"id": "d1", "content": "Refunds take 14 days.", "score": 0.5}])
    body = otlp(
        [
            {
                "name": "retrieval docs",
                "started": 1.0,
                "gen_ai__operation__name": "retrieval",
                "gen_ai__retrieval__documents": documents,
            },
            {
                "name": "execute_tool find",
                "started": 2.0,
                "gen_ai__operation__name": "execute_tool",
                "gen_ai__tool__name": "find",
                "gen_ai__tool__call__id": "call_1",
                "gen_ai__tool__call__result": "found 8",
            },
        ]
    )
    sending = f"""
body = {body!r}
request = urllib.request.Request(os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] + "/v1/traces", body,
    {{"Content-Type": "application/x-protobuf"}})
urllib.request.urlopen(request).read()
print({{"""
    ask(project, QUESTION)
    run(project, "chat", program=AGENT.replace("print({", sending.strip("\n")))
    [detail] = details(project)
    [found] = parts_of(transcript_of(detail.answer), Retrieval)
    assert [(one.id, one.text, one.score) for one in found.documents] == [("d1", "Refunds take 14 days.", 0.5)]
    timed = [result.took.seconds for _, result in calls_with_results(transcript_of(detail.answer)) if result.took]
    assert timed == [2.0]


def test_questions_about_the_service_are_answered_and_strangers_are_not(project):
    project.configure(FREE)
    ask(project, "hello")
    curious = """
import json, os, urllib.request, urllib.error
def get(url, body=None):
    try:
        return json.load(urllib.request.urlopen(urllib.request.Request(url, body)))
    except urllib.error.HTTPError as problem:
        return problem.code
base = os.environ["ANTHROPIC_BASE_URL"]
print(json.dumps([
    [one["id"] for one in get(os.environ["OPENAI_BASE_URL"] + "/models")["data"]],
    get(base + "/v1/messages/count_tokens", b'{"messages": []}')["input_tokens"] > 0,
    get(base.rpartition("/")[0] + "/stranger/v1/models"),
    get(os.environ["OPENAI_BASE_URL"] + "/chat/completions", b"[]"),
    get(os.environ["OPENAI_BASE_URL"] + "/audio/speech", b"{}"),
]))
"""
    run(project, "chat", program=curious)
    assert json.loads(details(project)[0].answer.text) == [["test-model"], True, 409, 400, 404]


def test_a_door_is_for_agents_and_needs_a_target_that_is_known(project):
    project.configure(FREE)
    ask(project, "hello")
    assert "no target of the run is an agent" in project.do("run", "data.json", "-t", "main", "--door", "main", code=3)
    (project.folder / "agent.py").write_text("print(1)")
    said = project.do("run", "data.json", "-t", "command:python3 agent.py", "--door", "nobody", code=3)
    assert "there is no target nobody" in said


def test_a_recorded_agent_is_not_sent_to_a_cluster(project):
    project.configure(FREE)
    ask(project, "hello")
    said = run(project, "chat", "--cluster", "local:1", code=3)
    assert "recorded, which this machine alone can do. Leave out --cluster." in said
    assert not project.database.exists() or not project.table(), "nothing was begun"


PYTHON_AGENT = """
import json, urllib.request
def answer(prompt, environment):
    body = {"model": "any", "messages": [{"role": "user", "content": prompt}]}
    address = environment["OPENAI_BASE_URL"] + "/chat/completions"
    request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
def blind(prompt):
    return "hello"
"""


def test_a_python_function_is_recorded_where_it_takes_the_addresses(project):
    project.configure("price = { input_per_million = 1, output_per_million = 1 }")
    ask(project, *[f"[[say answer {n}]]" for n in range(6)])
    (project.folder / "bot.py").write_text(PYTHON_AGENT)
    project.do("run", "data.json", "-t", "python:bot:answer", "--door", "main", "--quiet", "--no-cache", "-c", "6")
    for number, detail in enumerate(details(project)):
        [message] = transcript_of(detail.answer).messages
        assert detail.answer.text == f"answer {number}" == answer_text(transcript_of(detail.answer))
        assert message.took.cost == detail.answer.cost > 0


def test_a_python_function_that_takes_no_addresses_says_what_it_needs(project):
    project.configure(FREE)
    ask(project, "hello")
    (project.folder / "bot.py").write_text(PYTHON_AGENT)
    project.do("run", "data.json", "-t", "python:bot:blind", "--door", "main", "--quiet", code=1)
    [detail] = details(project)
    assert "takes no parameter environment" in detail.answer.message
