"""The process in the sandbox: runs one job from a private socket.

A unit test runs here, and the answer it tests in a fork that was made before the job came: that has no channel to the
parent, has not seen the test and cannot look into this process. So nothing it does can become a verdict.
"""

from __future__ import annotations

import ast
import asyncio
import importlib.machinery
import importlib.util
import inspect
import json
import linecache
import math
import os
import resource
import signal
import socket
import sys
import traceback
import types
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from . import lockdown
from .bridge import BUILTIN_NAMES, MODULE, AnswerSide, TestSide, trimmed_traceback
from .values import Malformed

MAX_FILE = 16_000_000
MAX_OPEN = 32  # an open file takes room even after it is deleted
MAX_FRAMES = 6
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_PROCESS_EVENTS = frozenset({"os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen"})


class Channel:
    """JSON lines to and from the parent, for this process only: a forked copy cannot use it."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._socket = socket.socket(fileno=descriptor)
        self._lines = self._socket.makefile("rwb")
        self._owner = os.getpid()

    def close(self) -> None:
        """Hang up."""
        self._lines.close()
        self._socket.close()

    def send(self, message: object) -> None:
        """Write one message."""
        if os.getpid() != self._owner:
            os._exit(1)
        self._lines.write(json.dumps(message, default=_json_default).encode() + b"\n")
        self._lines.flush()

    def receive(self) -> Any:
        """Read one message; exits if the parent has ended."""
        line = self._lines.readline()
        if not line:
            os._exit(1)
        return json.loads(line)

    def ask(self, question: dict[str, object]) -> Any:
        """The parent's answer; its time is not ours."""
        seconds = signal.alarm(0)
        self.send({"ask": question})
        answer = self.receive()
        signal.alarm(seconds)
        return answer


def _json_default(value: object) -> object:
    """Numbers of array libraries as numbers, anything else as the text it prints as."""
    item = getattr(value, "item", None)
    return item() if callable(item) else str(value)


class ModelConfig(dict[str, object]):
    """The `model_config` of a judged evaluator: it can ask the judge, without a key."""

    def __init__(self, channel: Channel, prompty: Path) -> None:
        super().__init__()
        self._channel = channel
        self._prompty = prompty

    def ask(self, messages: str | list[dict[str, str]], **parameters: object) -> str:
        """The judge's reply to chat messages, or to one text, asked with parameters such as temperature=0.7."""
        listed = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        return str(self._channel.ask({"messages": listed, "parameters": parameters}))

    def ask_prompty(self, **values: object) -> Any:
        """The judge's reply to the evaluator's .prompty with these values: parsed where it asks for JSON."""
        return self.load_flow(self._prompty)(**values)

    def load_flow(self, source: str | os.PathLike[str], model: object = None, **_: object) -> Callable[..., Any]:
        """`ask_prompty` for any .prompty, under the name that evaluators written for promptflow call."""
        text = Path(source).read_text(encoding="utf-8")
        parameters = model.get("parameters") if isinstance(model, dict) else None
        return lambda **values: self._channel.ask({"prompty": text, "values": values, "parameters": parameters or {}})


def _execute_file(name: str, file: Path, module: types.ModuleType | None = None) -> types.ModuleType:
    """Run a file as a module, or inside the module of an earlier one."""
    loader = importlib.machinery.SourceFileLoader(name, str(file))
    if module is None:
        spec = importlib.util.spec_from_file_location(name, file, loader=loader)
        assert spec is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def custom(job: dict[str, Any], channel: Channel) -> dict[str, object]:
    """Load a custom evaluator and call it once."""
    folder, name = Path.cwd(), job["name"]
    keywords = dict(job["settings"])
    if job["judged"]:
        config = keywords["model_config"] = ModelConfig(channel, folder / f"{name}.prompty")
        for module_name in ("promptflow", "promptflow.client", "promptflow.core"):
            stand_in = types.ModuleType(module_name)
            vars(stand_in)["load_flow"] = config.load_flow
            sys.modules[module_name] = stand_in
    sys.path.append(str(folder))
    try:
        module = _execute_file(f"custom_evaluator_{name}", folder / f"{name}.py")
        own = [v for v in vars(module).values() if isinstance(v, type) and v.__module__ == module.__name__]
        called = next((each for each in own if any("__call__" in vars(base) for base in each.__mro__)), None)
        function = vars(module).get("score") if called is None else None
        if called is None and not callable(function):
            raise ImportError(f"{name}.py defines neither a function score nor a class with __call__ at its top level")
    except BaseException as problem:
        return {"unloadable": _exception_line(problem), "traceback": _last_frames(problem, folder)}
    if called is None:
        return {"result": _plain_result(_call_by_name(function, {**keywords, **job["evidence"]})), "function": True}
    return {"result": called(**keywords)(**job["arguments"])}


def _call_by_name(function: Any, known: Mapping[str, Any]) -> Any:
    """The result of a function called with the arguments that its parameters name; options come by their names."""
    options = known["options"]
    given = {**options, **known}
    parameters = inspect.signature(function).parameters.values()
    first = [given[each.name] for each in parameters if each.kind is each.POSITIONAL_ONLY and each.name in given]
    rest = {
        each.name: given[each.name]
        for each in parameters
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY) and each.name in given
    }
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        taken = {each.name for each in parameters if each.kind is each.POSITIONAL_ONLY}
        rest = {name: value for name, value in given.items() if name not in taken}
    result = function(*first, **rest)
    return asyncio.run(result) if inspect.iscoroutine(result) else result


def _plain_result(result: Any) -> Any:
    """The result of a function as an evaluator's object: a verdict, a number or a label, perhaps with a reason."""
    reason = ""
    if isinstance(result, tuple) and len(result) == 2:
        result, reason = result
    if hasattr(result, "item") and callable(result.item):
        result = result.item()  # a number of an array library
    if isinstance(result, bool):
        return {"passed": result, "reason": reason}
    if isinstance(result, (int, float, str)):
        return {"score": result, "reason": reason}
    if not isinstance(result, dict) and hasattr(result, "score"):
        result = {name: getattr(result, name, None) for name in ("score", "passed", "reason", "error", "result")}
    if isinstance(result, dict) and isinstance(result.get("score"), bool):
        return {**result, "passed": result["score"]}
    if isinstance(result, dict) and result.get("result") in ("pass", "fail"):
        return {**result, "passed": result["result"] == "pass"}
    return result


class AnswerProcess:
    """The fork in which the answer will run."""

    def __init__(self, pid: int, link: socket.socket) -> None:
        self.pid, self.link = pid, link

    def exit_code(self) -> int:
        """Its exit code; kills it if it is still running."""
        with suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def start_answer_process(channel: Channel, options: Mapping[str, Any]) -> AnswerProcess:
    """Fork the process of the answer, which waits for the test."""
    here, there = socket.socketpair()
    pid = os.fork()
    if pid:
        there.close()
        return AnswerProcess(pid, here)
    try:
        here.close()
        channel.close()
        confine_model_code(options, [os.getpid()])
        there.send(b"\n")
        AnswerSide(there, run_answer).serve()
    finally:
        os._exit(1)


def run_answer(limits: dict[str, Any]) -> dict[str, Any]:
    """Run the answer, in its process; the names it made."""
    _set_limits(**limits)
    try:
        return vars(_execute_file(MODULE, Path.cwd() / "answer.py"))
    except BaseException as problem:
        with suppress(BaseException):
            traceback.print_exception(problem)
        raise


def unit_test(job: dict[str, Any], channel: Channel, answer: AnswerProcess) -> dict[str, object]:
    """Run the answer in its process, then run its test here with the answer's names."""

    def lost(problem: Malformed | None) -> NoReturn:
        gone: dict[str, object] = {"ended": answer.exit_code()}
        if problem is not None:
            gone = {"failed": "answer", "why": f"what it gave is no value: {problem}"}
        channel.send({"done": gone})
        os._exit(0)

    name = "answer_test.py"
    part = "unusable"
    try:
        linecache.cache[name] = (len(job["test"]), None, job["test"].splitlines(keepends=True), name)
        code = compile(job["test"].encode("utf-8", "surrogatepass"), name, "exec")
        tree = ast.parse(job["test"])
        part = "answer"
        side = TestSide(answer.link, _bound_names(tree), lost)
        sys.modules[MODULE] = side.module
        side.begin(job["limits"])
        _check_built_ins(tree, side)
        part = "test"
        exec(code, vars(side.module))  # noqa: S102 - this is what the process is for
        if side.failed_assertion is not None:
            raise side.failed_assertion
    except BaseException as problem:
        if part != "answer":
            with suppress(BaseException):
                sys.stderr.write("".join(trimmed_traceback(problem)))
        return {"failed": part, "why": _exception_line(problem)}
    return {"passed": True}


def _bound_names(tree: ast.AST) -> set[str]:
    """Every name that a piece of code gives something to."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.partition(".")[0])
        elif isinstance(name := getattr(node, "name", None) or getattr(node, "rest", None), str):
            names.add(name)
    return names


def _check_built_ins(tree: ast.AST, side: TestSide) -> None:
    """A test's `abs` is Python's: of the built-ins an answer redefines only the one that is tested is the answer's."""
    nodes = list(ast.walk(tree))
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module == MODULE]
    wanted = {alias.name for node in imports for alias in node.names}
    redefined = (side.names() & BUILTIN_NAMES) - wanted
    if redefined & used and len(used & side.names()) > 1:
        name = min(redefined & used)
        raise NameError(f"the answer redefines {name}, which its test uses; `from answer import {name}` would test it")
    for name in redefined - used:
        side.forget(name)


def _last_frames(problem: BaseException, folder: Path) -> str:
    """The traceback of code run here, with its files named from their folder and without the frames of this package."""
    try:
        told = traceback.TracebackException.from_exception(problem)
        package = os.path.dirname(__file__)
        own = [frame for frame in told.stack if package not in frame.filename and "importlib" not in frame.filename]
        told.stack[:] = own[-MAX_FRAMES:]
        return "".join(told.format()).replace(f"{folder}/", "").rstrip()[-6000:]
    except BaseException:  # an exception that cannot be told
        return ""


def _exception_line(problem: BaseException) -> str:
    """An exception in one line."""
    try:
        return f"{type(problem).__name__}: {problem}".removesuffix(": ")[:2000]
    except BaseException:  # an exception whose text cannot be read
        return type(problem).__name__


def _set_limits(seconds: float, memory: int, processes: int) -> None:
    """Limit resources, even for a process whose parent has ended."""
    cpu = math.ceil(seconds * (os.cpu_count() or 1)) + 1
    limits = {"RLIMIT_DATA": memory, "RLIMIT_CPU": cpu, "RLIMIT_FSIZE": MAX_FILE, "RLIMIT_CORE": 0}
    for name, value in limits.items():
        kind = getattr(resource, name)
        _, hard_limit = resource.getrlimit(kind)
        allowed = value if hard_limit == resource.RLIM_INFINITY else min(value, hard_limit)
        resource.setrlimit(kind, (allowed, allowed))
    signal.alarm(math.ceil(seconds) + 5)
    os.register_at_fork(after_in_child=lambda: signal.alarm(math.ceil(seconds) + 5) and None)
    owner, left = os.getpid(), processes

    def watch(event: str, _: object) -> None:
        nonlocal left
        if event in _PROCESS_EVENTS:
            left -= 1
            if left < 0 or os.getpid() != owner:
                raise PermissionError(f"code run here may start at most {processes} processes, and they none")

    sys.addaudithook(watch)


def confine_model_code(options: Mapping[str, Any], own: list[int]) -> None:
    """Leave this process what code of a model needs: itself, the interpreter's files and its folder."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (MAX_OPEN, MAX_OPEN))
    try:
        lockdown.hide_from_others()
        if lockdown.landlock_version() or lockdown.has_seccomp():
            lockdown.no_new_privileges()
        if lockdown.landlock_version():
            lockdown.restrict_files(options["readable"], [str(Path.cwd()), *DEVICES])
        if lockdown.has_seccomp():
            lockdown.drop_capabilities()
            lockdown.filter_system_calls(own)
        else:
            resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    except OSError:
        if options["isolation"] is not None:
            raise


def confine_approved_code(options: Mapping[str, Any]) -> None:
    """Leave this process everything but a view of the processes outside, whose environments hold keys."""
    if options["isolation"] is not None and lockdown.landlock_version():
        lockdown.no_new_privileges()
        lockdown.restrict_to_own_processes()


def main() -> NoReturn:
    """Report readiness, take one job, reply."""
    channel = Channel(int(sys.argv[1]))
    options = json.loads(sys.argv[2])
    del sys.argv[1:]
    work: Callable[[dict[str, Any]], dict[str, object]]
    if options["kind"] == "unit_test":
        answer = start_answer_process(channel, options)
        confine_model_code(options, [os.getpid(), answer.pid])
        if not answer.link.recv(1):  # it could not be confined
            os._exit(1)
        work = partial(unit_test, channel=channel, answer=answer)
    else:
        confine_approved_code(options)
        work = partial(custom, channel=channel)
    channel.send({"ready": True})
    job, folder = channel.receive(), Path.cwd()
    _set_limits(**job["limits"])
    try:
        channel.send({"done": work(job)})
    except BaseException as problem:
        channel.send({"done": {"raised": _exception_line(problem), "traceback": _last_frames(problem, folder)}})
    os._exit(0)
