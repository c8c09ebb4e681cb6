"""A command as a target, against real processes: one for every turn, and one that answers line by line."""

import asyncio
import os
import shlex
import sys
import time

import pytest

from tui_evals.targets import command
from tui_evals.targets.base import ConfigurationError, Request, TargetConfig, TargetError, Usage
from tui_evals.targets.command import command_target

ENVIRONMENT = {"PATH": os.environ["PATH"], "FLAVOUR": "plum"}
PYTHON = shlex.quote(sys.executable)


def request(text="Why?", **more):
    return Request(messages=({"role": "user", "content": text},), **more)


def made(root, line, **params):
    return command_target(TargetConfig(name="own", model=f"command:{line}", params=params), ENVIRONMENT, root)


def script(root, code, **params):
    (root / "own.py").write_text(code)
    return made(root, f"{PYTHON} own.py", **params)


async def asked(target, *requests):
    try:
        return await asyncio.gather(*map(target.ask, requests or (request(),)), return_exceptions=True)
    finally:
        await target.close()


async def answer(target, *requests):
    (only,) = await asked(target, *requests)
    if isinstance(only, BaseException):
        raise only
    return only


async def until(condition):
    async with asyncio.timeout(180):
        while not condition():
            await asyncio.sleep(0.01)


def is_gone(pid):
    """Whether a process has ended, be it that nobody has read its status yet."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("cat", "Why?"),
        ("echo 'two words' $HOME ; ls", "two words $HOME ; ls"),  # no shell reads it
        ("printenv FLAVOUR", "plum"),
        ("./own.sh", "in the folder"),
        ("echo -n", ""),
        ("true", ""),  # it need not read the question
    ],
)
async def test_the_question_goes_in_and_the_answer_comes_out(tmp_path, line, text):
    (tmp_path / "own.sh").write_text("#!/bin/sh\n[ -f own.sh ] && echo in the folder\n")
    (tmp_path / "own.sh").chmod(0o700)
    assert (await answer(made(tmp_path, line))).text == text


async def test_a_question_larger_than_a_pipe_is_sent_whole(tmp_path):
    reply = await answer(made(tmp_path, "wc -c"), request("é" * 1_000_000))
    assert reply.text.strip() == "2000000"


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        (
            "import sys; print('partial'); sys.exit('first\\n  second')",
            "agentRequestFailed",
            "ended with status 1: first second",
        ),
        ("import sys; sys.exit(3)", "agentRequestFailed", "ended with status 3"),
        ("import os; os.kill(os.getpid(), 15)", "agentRequestFailed", "was ended by signal 15"),
        ("import sys; sys.exit('x' * 100000 + 'END')", "agentRequestFailed", "xEND"),
        ("import os; os.write(1, b'\\xff')", "agentResponseUnparseable", "not UTF-8"),
        ("while True: print('x' * 100000)", "agentResponseUnparseable", "wrote more than"),
    ],
)
async def test_a_failing_command_is_a_sentence(tmp_path, monkeypatch, code, kind, said):
    monkeypatch.setattr(command, "MAX_OUTPUT", 2**20)
    with pytest.raises(TargetError) as raised:
        await answer(script(tmp_path, code))
    assert raised.value.code == kind
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400


async def test_an_output_as_long_as_the_limit_is_an_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "MAX_OUTPUT", 1000)
    assert (await answer(made(tmp_path, "cat"), request("x" * 1000))).text == "x" * 1000
    with pytest.raises(TargetError, match="wrote more than"):
        await answer(made(tmp_path, "cat"), request("x" * 1001))


async def test_time_up_ends_the_command_and_what_it_started(tmp_path):
    code = (
        "import subprocess, time\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        "open('pid', 'w').write(str(child.pid) + ' ')\n"
        "time.sleep(600)\n"
    )
    target = script(tmp_path, code)
    asking = asyncio.ensure_future(target.ask(request()))
    pid = tmp_path / "pid"
    await until(lambda: pid.exists() and pid.read_text().endswith(" "))
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await until(lambda: is_gone(int(pid.read_text())))


async def test_a_question_given_up_while_the_command_starts_leaves_nothing_behind(tmp_path):
    code = "import subprocess\nchild = subprocess.Popen(['sleep', '600'])\nopen('pid', 'w').write(f'{child.pid} ')\n"
    pid = tmp_path / "pid"
    asking = asyncio.ensure_future(script(tmp_path, code).ask(request()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # it has been forked, and nobody knows of it yet
    while not (pid.exists() and pid.read_text().endswith(" ")):
        time.sleep(0.01)  # the loop stands still, as it does on a busy machine
    asking.cancel()
    done, _ = await asyncio.wait({asking}, timeout=60)
    assert done and asking.cancelled()
    await until(lambda: is_gone(int(pid.read_text())))


async def test_what_left_the_session_and_holds_the_pipe_does_not_hold_up_the_end(tmp_path):
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "open('pid', 'w').write(str(child.pid) + ' ')\n"
    )
    target = script(tmp_path, code)
    asking = asyncio.ensure_future(target.ask(request()))
    pid = tmp_path / "pid"
    await until(lambda: pid.exists() and pid.read_text().endswith(" "))
    asking.cancel()
    try:
        done, _ = await asyncio.wait({asking}, timeout=60)
        assert done
        assert asking.cancelled()
    finally:
        os.kill(int(pid.read_text()), 9)


@pytest.mark.parametrize(
    ("line", "params", "said"),
    [
        ("", {}, "names no program"),
        ("'open", {}, "cannot be split into words"),
        ("no-such-program-anywhere x", {}, "there is no program no-such-program-anywhere in the folders of PATH"),
        ("./missing.sh", {}, "there is no program ./missing.sh in /"),
        ("cat", {"protocol": "json"}, "the protocol 'text' or 'jsonl', not 'json'"),
        ("cat", {"temperature": 0}, "takes no params"),
    ],
)
def test_what_cannot_be_run_is_a_matter_of_configuration(tmp_path, line, params, said):
    with pytest.raises(ConfigurationError, match=said):
        made(tmp_path, line, **params)


LINES = """
import json, os, sys
def say(value): print(value if isinstance(value, str) else json.dumps(value), flush=True)
held = []
for line in sys.stdin:
    asked = json.loads(line)
    number, question = asked["id"], asked["messages"][-1]["content"]
    if question == "die": sys.stderr.write("too\\nhard\\n"); sys.exit(7)
    elif question == "hang": open("pid", "w").write(str(os.getpid()) + " ")
    elif question == "pid": say({"id": number, "text": str(os.getpid())})
    elif question == "chatter": say("Loading the model ...")
    elif question == "foreign": say({"id": 999, "text": "x"})
    elif question == "unnamed": say({"text": "x"})
    elif question == "error": say({"id": number, "error": "no\\nroom", "retryable": True})
    elif question == "misspelt": say({"id": number, "txt": "x"})
    elif question == "flood": sys.stdout.write("x" * 3_000_000); sys.stdout.flush()
    elif question == "all": say({"id": number, "text": json.dumps(asked, sort_keys=True)})
    elif question == "usage":
        say({"id": number, "text": "", "usage": {"input_tokens": 1, "output_tokens": 2}, "cost": 0.5})
    else:
        held.append((number, question))
        if len(held) == 3:  # the last first, and twice, between blank lines
            for number, question in reversed(held):
                say({"id": number, "text": question})
                say("")
                say({"id": number, "text": "again"})
            held.clear()
"""


def lines(root, **params):
    return script(root, LINES, protocol="jsonl", **params)


async def test_answers_come_in_any_order_to_those_who_asked(tmp_path):
    target = lines(tmp_path)
    replies = await asked(target, *map(request, ["a", "b", "c", "d", "e", "f"]))
    assert [reply.text for reply in replies] == ["a", "b", "c", "d", "e", "f"]


async def test_the_process_gets_the_whole_request_and_stays(tmp_path):
    target = lines(tmp_path, style="plain", temperature=0)
    more = {"protocol": "jsonl", "temperature": 1}
    full = request("all", item="A", position=3, turn=1, repeat=2, params=more, variables={"v": 1})
    try:
        first, second = (await target.ask(request("pid"))).text, (await target.ask(request("pid"))).text
        said = (await target.ask(full)).text
        reply = await target.ask(request("usage"))
    finally:
        await target.close()
    assert first == second
    assert said == (
        '{"id": 3, "item": "A", "messages": [{"content": "all", "role": "user"}], "params": {"style": "plain", '
        '"temperature": 1}, "position": 3, "repeat": 2, "response_format": null, "session": null, "tools": [], '
        '"turn": 1, "variables": {"v": 1}}'
    )
    assert (reply.usage, reply.cost) == (Usage(1, 2), 0.5)
    assert is_gone(int(first))


@pytest.mark.parametrize(
    ("question", "kind", "retryable", "said"),
    [
        ("die", "agentRequestFailed", True, "ended with status 7: too hard; it has to answer every request"),
        ("chatter", "agentResponseUnparseable", False, "no JSON object with the id of a request: Loading the model"),
        ("foreign", "agentResponseUnparseable", False, "no JSON object with the id of a request"),
        ("unnamed", "agentResponseUnparseable", False, "no JSON object with the id of a request"),
        ("error", "agentRequestFailed", True, ": no room"),
        ("misspelt", "agentResponseUnparseable", False, "it holds 'txt' (did you mean 'text'?)"),
        ("flood", "agentResponseUnparseable", False, "wrote more than"),
    ],
)
async def test_after_a_failure_the_next_request_is_answered(tmp_path, monkeypatch, question, kind, retryable, said):
    monkeypatch.setattr(command, "MAX_OUTPUT", 2**20)
    target = lines(tmp_path)
    try:
        with pytest.raises(TargetError) as raised:
            await target.ask(request(question))
        assert (raised.value.code, raised.value.retryable) == (kind, retryable)
        assert said in str(raised.value)
        assert (await target.ask(request("pid"))).text.isdigit()
    finally:
        await target.close()


async def test_everyone_who_waits_hears_of_the_end(tmp_path):
    done = await asked(lines(tmp_path), request("a"), request("b"), request("die"))
    assert [type(each) for each in done] == [TargetError] * 3


async def test_a_process_that_answers_nobody_in_time_is_replaced(tmp_path):
    target = lines(tmp_path)
    try:
        first = (await target.ask(request("pid"))).text
        asking = asyncio.ensure_future(target.ask(request("hang")))
        await until(lambda: (tmp_path / "pid").exists())
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await target.ask(request("pid"))).text != first
    finally:
        await target.close()
    assert is_gone(int(first))


async def test_one_slow_answer_does_not_end_a_process_that_answers_others(tmp_path):
    target = lines(tmp_path)
    try:
        asking = asyncio.ensure_future(target.ask(request("hang")))
        await until(lambda: (tmp_path / "pid").exists())
        first = (await target.ask(request("pid"))).text
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await target.ask(request("pid"))).text == first
    finally:
        await target.close()


async def test_a_program_that_vanished_is_a_sentence(tmp_path):
    (tmp_path / "own.sh").write_text("#!/bin/sh\ncat\n")
    (tmp_path / "own.sh").chmod(0o700)
    targets = [made(tmp_path, "./own.sh"), made(tmp_path, "./own.sh", protocol="jsonl")]
    (tmp_path / "own.sh").unlink()
    for target in targets:
        with pytest.raises(TargetError, match=r"own.sh cannot be started: .*No such file"):
            await answer(target)
