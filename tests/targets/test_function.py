"""A Python function as a target: what it is given, what it may return, and what its failures become."""

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tui_evals.targets.base import ConfigurationError, Request, TargetConfig, TargetError, Usage
from tui_evals.targets.function import named_function

MESSAGES = (
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Why?"}]},
)
REQUEST = Request(messages=MESSAGES, item="A", turn=1, repeat=2, variables={"x": 1}, session={"id": 1})

CODE = """
import asyncio, dataclasses, functools, threading, time, types
import pydantic
from tui_evals.targets.base import TargetError

def by_prompt(prompt): return prompt.upper()
def by_messages(messages):
    messages.append({"role": "user", "content": "kept to myself"})
    messages[0]["content"] = "changed"
    return str(len(messages))
def by_request(request, style="plain"):
    return f"{request['item']} {request['turn']} {request['repeat']} {request['variables']}"
async def asynchronous(prompt): return prompt
def returns_awaitable(prompt): return asynchronous(prompt)
bound = functools.partial(by_request, style="grand")
class Agent:
    def __call__(self, messages): return "agent"
    def method(self, prompt): return "method"
agent = Agent()
def whole(prompt):
    return {"text": "t", "tool_calls": [{"name": "f", "arguments": {"a": 1}}], "cost": 1,
            "usage": {"input_tokens": 3, "output_tokens": 4}, "model": "m", "finish_reason": "stop",
            "diagnostics": {"d": []}}
def thread(prompt): return threading.current_thread().name

def raises(prompt): raise ValueError("no\\nway")
async def raises_late(prompt): raise KeyError("k")
def silent(prompt): raise RuntimeError
def exits(prompt): raise SystemExit(3)
async def exits_late(prompt): raise SystemExit(3)
def refuses(prompt): raise TargetError("agentRateLimited", "slow down", retryable=True)
def nothing(prompt): return None
def misspelt(prompt): return {"txt": "a"}
def empty(prompt): return {}
def no_text(prompt): return {"text": 1}
def bad_cost(prompt): return {"text": "", "cost": float("nan")}
def bad_usage(prompt): return {"text": "", "usage": {"input_tokens": True, "output_tokens": 1}}
def vast_usage(prompt): return {"text": "", "usage": {"input_tokens": 1, "output_tokens": 2**64}}
def bad_call(prompt): return {"text": "", "tool_calls": [{"arguments": {}}]}
def bad_diagnostics(prompt): return {"text": "", "diagnostics": []}
def bad_session(prompt): return {"text": "", "session": {1, 2}}

def everything(prompt, messages, variables, item, session, request, style="plain"):
    variables["x"] = "changed"
    return f"{prompt} {len(messages)} {item} {session} {request['variables']} {style}"
def by_place(session, prompt, /, item=None): return f"{session} {prompt} {item}"

@dataclasses.dataclass
class Told:
    text: str
    tool_calls: list = ()
    usage: object = None
    model: object = None
@dataclasses.dataclass
class Tokens:
    prompt_tokens: int
    completion_tokens: int
class Verdict(pydantic.BaseModel):
    capital: str
    sure: bool = True
class Spoken(pydantic.BaseModel):
    text: str
    session: dict
def dataclass(prompt): return Told("told", [{"name": "f", "arguments": {}}], Tokens(3, 4), model=object())
def model(prompt): return Spoken(text="spoken", session={"id": 7})
def structured(prompt): return Verdict(capital="Paris")
def anything(prompt): return types.SimpleNamespace(text="any", finish_reason="stop", unknown=1)
def completion(prompt):
    return {"object": "chat.completion", "model": "m-1", "choices": [{"finish_reason": "tool_calls", "message": {
        "content": None, "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 6}}
class Completion(pydantic.BaseModel):
    choices: list
    usage: dict
    model: str
def completion_object(prompt): return Completion(**completion(prompt))
def no_completion(prompt): return {"choices": ["?"]}

def pieces(prompt):
    yield ""
    time.sleep(0.01)
    yield from ("one ", "two")
def pieces_and_more(prompt):
    yield "text"
    return {"usage": {"input_tokens": 1, "output_tokens": 2}, "session": "s"}
async def pieces_late(prompt):
    yield "late "
    await asyncio.sleep(0)
    yield "pieces"
    yield {"finish_reason": "length"}
def chunks(prompt):
    for text in ("chun", "ks"):
        yield {"model": "m", "choices": [{"delta": {"content": text}}]}
    yield {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": None}
    yield {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}
def broken_chunks(prompt):
    yield {"choices": [{"delta": {"content": "half"}}]}
def breaks(prompt):
    yield "half"
    raise OSError("gone")

def two(prompt, style): return ""
def other(question): return ""
def keyword(prompt, *, style): return ""
def misspelt_name(promt): return ""
def none(): return ""
class Silent: pass
class Needy:
    def __init__(self, key): pass
    def __call__(self, prompt): return ""
text = "not a function"
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    (tmp_path / "own_agent_module.py").write_text(CODE)
    (tmp_path / "own_broken_module.py").write_text("raise ValueError('at import')")
    (tmp_path / "own_leaving_module.py").write_text("raise SystemExit('bye')")
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("own_agent_module", None)


def made(root, name):
    return named_function(TargetConfig(name="own", model=f"python:{name}"), root)


async def ask(root, name):
    target = made(root, f"own_agent_module:{name}")
    try:
        return await target.ask(REQUEST)
    finally:
        await target.close()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("by_prompt", "WHY?"),
        ("by_messages", "3"),
        ("by_request", "A 1 2 {'x': 1}"),
        ("bound", "A 1 2 {'x': 1}"),
        ("asynchronous", "Why?"),
        ("returns_awaitable", "Why?"),
        ("agent", "agent"),
        ("agent.method", "method"),
        ("Agent", "agent"),
        ("Agent.method", "method"),
        ("everything", "Why? 2 A {'id': 1} {'x': 1} plain"),
        ("by_place", "{'id': 1} Why? A"),
        ("structured", '{"capital": "Paris", "sure": true}'),
        ("anything", "any"),
        ("pieces", "one two"),
        ("thread", "function target"),
    ],
)
async def test_the_parameter_says_what_a_function_is_given(root, name, text):
    assert (await ask(root, name)).text == text
    assert MESSAGES[0]["content"] == "Be brief."


async def test_a_function_may_say_more_than_a_text(root):
    reply = await ask(root, "whole")
    assert reply.tool_calls == ({"id": "call_1", "name": "f", "arguments": '{"a": 1}'},)
    assert (reply.usage, reply.cost, reply.model) == (Usage(3, 4), 1.0, "m")
    assert (reply.finish_reason, reply.diagnostics) == ("stop", {"d": []})


async def test_what_a_library_returned_is_read_as_it_is(root):
    told = await ask(root, "dataclass")
    assert (told.text, told.tool_calls[0]["name"], told.usage) == ("told", "f", Usage(3, 4))
    assert (told.model, told.diagnostics) == (None, {"not used": "model"})
    assert (await ask(root, "model")).session == {"id": 7}
    for name in ("completion", "completion_object"):
        reply = await ask(root, name)
        assert reply.tool_calls == ({"id": "c", "name": "f", "arguments": "{}"},)
        assert (reply.text, reply.usage, reply.finish_reason, reply.model) == ("", Usage(5, 6), "tool_calls", "m-1")


async def test_a_stream_is_joined_and_its_first_piece_timed(root):
    reply = await ask(root, "pieces")
    assert 0.01 <= reply.first_token_seconds <= reply.seconds
    reply = await ask(root, "pieces_and_more")
    assert (reply.text, reply.usage, reply.session) == ("text", Usage(1, 2), "s")
    reply = await ask(root, "pieces_late")
    assert (reply.text, reply.finish_reason) == ("late pieces", "length")
    reply = await ask(root, "chunks")
    assert (reply.text, reply.usage, reply.finish_reason, reply.model) == ("chunks", Usage(1, 2), "stop", "m")
    assert reply.first_token_seconds is not None
    assert (await ask(root, "by_prompt")).first_token_seconds is None


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("raises", "agentRequestFailed", "own_agent_module:raises failed with ValueError: no way"),
        ("raises_late", "agentRequestFailed", "KeyError: 'k'"),
        ("silent", "agentRequestFailed", "own_agent_module:silent failed with RuntimeError"),
        ("exits", "agentRequestFailed", "it raised SystemExit"),
        ("exits_late", "agentRequestFailed", "SystemExit: 3"),
        ("refuses", "agentRateLimited", "slow down"),
        ("nothing", "agentResponseUnparseable", "it is of type NoneType"),
        ("misspelt", "agentResponseUnparseable", "it holds 'txt' (did you mean 'text'?)"),
        ("empty", "agentResponseUnparseable", "neither text nor tool_calls"),
        ("no_text", "agentResponseUnparseable", "its text is not text"),
        ("bad_cost", "agentResponseUnparseable", "its cost must be a number of US dollars"),
        ("bad_usage", "agentResponseUnparseable", "its usage must hold"),
        ("vast_usage", "agentResponseUnparseable", "its usage must hold"),
        ("bad_call", "agentResponseUnparseable", "tool call 1 has no name"),
        ("bad_diagnostics", "agentResponseUnparseable", "its diagnostics are not an object"),
        ("bad_session", "agentResponseUnparseable", "its session is no JSON data"),
        ("no_completion", "agentResponseUnparseable", "the document is not a chat completion"),
        ("broken_chunks", "agentResponseUnparseable", "the stream broke off"),
        ("breaks", "agentRequestFailed", "OSError: gone"),
    ],
)
async def test_a_failure_is_a_sentence_without_a_traceback(root, name, code, said):
    with pytest.raises(TargetError) as raised:
        await ask(root, name)
    assert raised.value.code == code
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "Traceback" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("own_agent_module", "names no function; write python:module:function"),
        ("own_agent_module:", "names no function"),
        ("own_missing_module:f", "cannot be imported from .*No module named 'own_missing_module'"),
        ("own_broken_module:f", r"cannot be imported from .*ValueError: at import"),
        ("own_leaving_module:f", r"cannot be imported from .*SystemExit: bye"),
        ("own_agent_module:missing", "there is no missing in own_agent_module"),
        ("own_agent_module:text", "is not a function"),
        ("own_agent_module:by_promt", r"no by_promt in own_agent_module \(did you mean 'by_prompt'\?\)"),
        (
            "own_agent_module:two",
            "needs style; a target is given what its parameters name: prompt, messages, variables",
        ),
        ("own_agent_module:other", "needs question"),
        ("own_agent_module:keyword", "needs style"),
        ("own_agent_module:misspelt_name", r"needs promt \(did you mean 'prompt'\?\)"),
        ("own_agent_module:none", "takes none of them"),
        ("own_agent_module:Silent", "is a class without __call__"),
        ("own_agent_module:Told", "is a class without __call__"),
        ("own_agent_module:Needy", r"Needy\(\) must be possible without arguments"),
        ("nowhere.py:answer", r"there is no file .*nowhere\.py"),
        ("own_agent_modul.py:answer", r"did you mean 'own_agent_module\.py'"),
        ("own_broken_module.py:answer", "cannot be imported from .*ValueError: at import"),
    ],
)
def test_what_cannot_be_called_is_a_matter_of_configuration(root, name, said):
    with pytest.raises(ConfigurationError, match=said):
        made(root, name)


async def test_a_hung_function_is_left_behind_and_holds_up_no_other(root):
    (root / "own_hanging_module.py").write_text(
        "import threading\nstarted, release = threading.Event(), threading.Event()\n"
        "def hang(prompt):\n    started.set()\n    release.wait()\n    return 'late'\n"
    )
    target = made(root, "own_hanging_module:hang")
    import own_hanging_module

    hanging = [asyncio.ensure_future(target.ask(REQUEST)) for _ in range(20)]
    while not own_hanging_module.started.is_set():
        await asyncio.sleep(0)
    assert (await ask(root, "by_prompt")).text == "WHY?"
    for task in hanging:
        task.cancel()
    assert all(
        isinstance(done, asyncio.CancelledError) for done in await asyncio.gather(*hanging, return_exceptions=True)
    )
    own_hanging_module.release.set()
    for thread in threading.enumerate():
        if thread.name == "function target":
            thread.join(5)


def test_a_hung_function_does_not_hold_up_the_end_of_the_program(root):
    (root / "own_sleeping_module.py").write_text("import time\ndef hang(prompt): time.sleep(600)\n")
    code = (
        "import asyncio, pathlib\n"
        "from tui_evals.targets.base import Request, TargetConfig\n"
        "from tui_evals.targets.function import named_function\n"
        "config = TargetConfig(name='own', model='python:own_sleeping_module:hang')\n"
        "target = named_function(config, pathlib.Path('.'))\n"
        "try: asyncio.run(asyncio.wait_for(target.ask(Request(messages=())), 0.01))\n"
        "except TimeoutError: print('time is up')\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, env=environment, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("time is up\n", "")


OBJECT = """
made = []
class Agent:
    def __init__(self):
        made.append("made")
    async def setup(self):
        made.append("set up")
    def teardown(self):
        made.append("torn down")
    def __call__(self, prompt):
        made.append("asked")
        return prompt
"""
MODULE = """
from setuptools_like import teardown
made = []
def setup():
    made.append("set up")
def answer(prompt):
    return prompt
async def other(prompt):
    return prompt
"""


async def test_an_object_is_made_and_set_up_once_and_torn_down_once(root):
    (root / "agents").mkdir()
    (root / "agents" / "own_object_agent.py").write_text(OBJECT)
    target = made(root, "agents/own_object_agent.py:Agent")
    import own_object_agent

    assert own_object_agent.made == [], "nothing of it is called before a question"
    await asyncio.gather(*(target.ask(REQUEST) for _ in range(5)))
    await target.close()
    await target.close()
    assert own_object_agent.made == ["made", "set up", *["asked"] * 5, "torn down"]


async def test_a_module_is_set_up_once_for_all_its_targets(root):
    (root / "setuptools_like.py").write_text("def teardown(): raise RuntimeError('of another module')\n")
    (root / "own_module_agent.py").write_text(MODULE)
    targets = [made(root, f"own_module_agent:{name}") for name in ("answer", "other")]
    import own_module_agent

    for target in targets:
        await target.ask(REQUEST)
    for target in targets:
        await target.close()
    assert own_module_agent.made == ["set up"]


async def test_what_cannot_be_set_up_is_asked_nothing(root, capsys):
    broken = (
        "class Agent:\n    def setup(self): {}\n    def teardown(self): {}\n    def __call__(self, prompt): return ''\n"
    )
    (root / "own_unready_agent.py").write_text(broken.format("open('/nowhere')", "pass"))
    target = made(root, "own_unready_agent:Agent")
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"setup failed with FileNotFoundError.*own_unready_agent.py:2"):
            await target.ask(REQUEST)
    await target.close()
    (root / "own_leaving_agent.py").write_text(broken.format("pass", "raise ValueError('not today')"))
    target = made(root, "own_leaving_agent:Agent")
    await target.ask(REQUEST)
    await target.close()
    said = capsys.readouterr().err
    assert "own_leaving_agent:Agent: teardown failed with ValueError: not today" in said
    assert "line 3, in teardown" in said


async def test_a_file_of_a_package_is_a_part_of_it_and_a_name_that_is_taken_is_said(root):
    package = root / "own_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "words.py").write_text("WORD = 'relative'\n")
    (package / "agent.py").write_text("from .words import WORD\ndef answer(prompt): return WORD\n")
    assert (await made(root, "own_package/agent.py:answer").ask(REQUEST)).text == "relative"
    (root / "json.py").write_text("def answer(prompt): return ''\n")
    with pytest.raises(ConfigurationError, match="has the name of a module that tui-evals or Python uses; rename it"):
        made(root, "json.py:answer")


async def test_a_stream_nobody_waits_for_ends_at_its_next_piece(root):
    (root / "own_endless_module.py").write_text(
        "import threading\nended, begun = threading.Event(), threading.Event()\ndef endless(prompt):\n    try:\n"
        "        while True:\n            begun.set()\n            yield ''\n    finally:\n        ended.set()\n"
    )
    target = made(root, "own_endless_module:endless")
    import own_endless_module

    asking = asyncio.ensure_future(target.ask(REQUEST))
    await asyncio.to_thread(own_endless_module.begun.wait, 30)
    asking.cancel()
    assert await asyncio.to_thread(own_endless_module.ended.wait, 30)
