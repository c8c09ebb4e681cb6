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
REQUEST = Request(messages=MESSAGES, item="A", turn=1, repeat=2, variables={"x": 1})

CODE = """
import functools, threading
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
def number(prompt): return 42
def nothing(prompt): return None
def misspelt(prompt): return {"txt": "a"}
def empty(prompt): return {}
def no_text(prompt): return {"text": 1}
def bad_cost(prompt): return {"text": "", "cost": float("nan")}
def bad_usage(prompt): return {"text": "", "usage": {"input_tokens": True, "output_tokens": 1}}
def vast_usage(prompt): return {"text": "", "usage": {"input_tokens": 1, "output_tokens": 2**64}}
def bad_call(prompt): return {"text": "", "tool_calls": [{"arguments": {}}]}
def bad_diagnostics(prompt): return {"text": "", "diagnostics": []}

def two(prompt, style): return ""
def other(question): return ""
def keyword(prompt, *, style): return ""
def none(): return ""
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


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("raises", "agentRequestFailed", "own_agent_module:raises failed with ValueError: no way"),
        ("raises_late", "agentRequestFailed", "KeyError: 'k'"),
        ("silent", "agentRequestFailed", "own_agent_module:silent failed with RuntimeError"),
        ("exits", "agentRequestFailed", "it raised SystemExit"),
        ("exits_late", "agentRequestFailed", "SystemExit: 3"),
        ("refuses", "agentRateLimited", "slow down"),
        ("number", "agentResponseUnparseable", "it is of type int"),
        ("nothing", "agentResponseUnparseable", "it is of type NoneType"),
        ("misspelt", "agentResponseUnparseable", "it holds 'txt' (did you mean 'text'?)"),
        ("empty", "agentResponseUnparseable", "neither text nor tool_calls"),
        ("no_text", "agentResponseUnparseable", "its text is not text"),
        ("bad_cost", "agentResponseUnparseable", "its cost must be a number of US dollars"),
        ("bad_usage", "agentResponseUnparseable", "its usage must hold"),
        ("vast_usage", "agentResponseUnparseable", "its usage must hold"),
        ("bad_call", "agentResponseUnparseable", "tool call 1 has no name"),
        ("bad_diagnostics", "agentResponseUnparseable", "its diagnostics are not an object"),
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
        ("own_agent_module:two", "called prompt, messages or request, and has prompt, style"),
        ("own_agent_module:other", "and has question"),
        ("own_agent_module:keyword", "and has style, prompt"),
        ("own_agent_module:none", "and has none that is known"),
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
