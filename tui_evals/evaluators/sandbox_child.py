"""The child process of the sandbox: runs one job from a private socket. It imports the standard library only."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import math
import os
import resource
import signal
import socket
import sys
import traceback
import types
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

MAX_FILE = 16_000_000
MAX_FRAMES = 6
_PROCESS_EVENTS = frozenset({"os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen"})


class Channel:
    """JSON lines to and from the parent, for this process only: a forked copy of it may not speak."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._lines = socket.socket(fileno=descriptor).makefile("rwb")
        self._owner = os.getpid()

    def send(self, message: object) -> None:
        """Write one message."""
        if os.getpid() != self._owner:
            os._exit(1)
        self._lines.write(json.dumps(message, default=_json_default).encode() + b"\n")
        self._lines.flush()

    def receive(self) -> Any:
        """Read one message; without a parent there is no point in living on."""
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
    """What a judged evaluator gets as `model_config`: a way to its judge, and no key."""

    def __init__(self, channel: Channel, prompty: Path) -> None:
        super().__init__()
        self._channel = channel
        self._prompty = prompty

    def ask(self, messages: str | list[dict[str, str]]) -> str:
        """The judge's reply to chat messages, or to one text."""
        listed = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        return str(self._channel.ask({"messages": listed}))

    def ask_prompty(self, **values: object) -> Any:
        """The judge's reply to the evaluator's .prompty with these values: parsed where it asks for JSON."""
        return self.load_flow(self._prompty)(**values)

    def load_flow(self, source: str | os.PathLike[str], **_: object) -> Callable[..., Any]:
        """`ask_prompty` for any .prompty, under the name that evaluators written for promptflow call."""
        text = Path(source).read_text(encoding="utf-8")
        return lambda **values: self._channel.ask({"prompty": text, "values": values})


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
        if not own:
            raise ImportError(f"{name}.py defines no class at its top level")
    except BaseException as problem:
        return {"unloadable": _exception_line(problem), "traceback": _last_frames(problem, folder)}
    return {"result": own[0](**keywords)(**job["arguments"])}


def unit_test(job: dict[str, Any], channel: Channel) -> dict[str, object]:
    """Run an answer, then its test among the answer's names."""
    answer, test = Path.cwd() / "answer.py", Path.cwd() / "answer_test.py"
    part = "unusable"
    try:
        compile(test.read_bytes(), test.name, "exec")
        part = "answer"
        module = _execute_file("answer", answer)
        part = "test"
        _execute_file("answer", test, module)
    except BaseException as problem:
        with suppress(BaseException):
            traceback.print_exception(problem)
        return {"failed": part, "why": _exception_line(problem)}
    return {"passed": True}


def _last_frames(problem: BaseException, folder: Path) -> str:
    """The traceback of code run here, with its files named from their folder and without the frames of this module."""
    try:
        told = traceback.TracebackException.from_exception(problem)
        own = [frame for frame in told.stack if frame.filename != __file__ and "importlib" not in frame.filename]
        told.stack[:] = own[-MAX_FRAMES:]
        return "".join(told.format()).replace(f"{folder}/", "").rstrip()[-6000:]
    except BaseException:  # an exception that cannot be told
        return ""


def _exception_line(problem: BaseException) -> str:
    """An exception in one line."""
    try:
        return f"{type(problem).__name__}: {problem}".removesuffix(": ")[:2000]
    except BaseException:  # an exception that cannot say what it is
        return type(problem).__name__


def _set_limits(seconds: float, memory: int, processes: int) -> None:
    """What keeps an accident small, even when the parent is gone."""
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


def main() -> NoReturn:
    """Say ready, take one job, answer it."""
    channel = Channel(int(sys.argv[1]))
    channel.send({"ready": True})
    job, folder = channel.receive(), Path.cwd()
    _set_limits(**job["limits"])
    try:
        done = {"custom": custom, "unit_test": unit_test}[job["kind"]](job, channel)
        channel.send({"done": done})
    except BaseException as problem:
        channel.send({"done": {"raised": _exception_line(problem), "traceback": _last_frames(problem, folder)}})
    os._exit(0)


if __name__ == "__main__":
    main()
