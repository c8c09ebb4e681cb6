"""A project beside a real server, and the real command line to run in it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.server import Server
from tui_evals.cli.main import run
from tui_evals.store.details import read_scores
from tui_evals.store.reader import Reader


@pytest.fixture
def server(one_server: Server) -> Server:
    one_server.reset()
    return one_server


FREE = "price = { input_per_million = 0, output_per_million = 0 }\n"
"""What a target costs for whose price nobody need be asked twice."""


@dataclass
class Project:
    """A folder with a configuration, and what a person does in it."""

    folder: Path
    server: Server
    within: tuple[str, ...] = ()
    """The command that runs its commands, if they need one."""

    @property
    def database(self) -> Path:
        return self.folder / ".evals" / "evals.db"

    def configure(self, text: str = "", **target: Any) -> None:
        lines = [f"{name} = {json.dumps(value)}" for name, value in target.items()]
        folder = self.folder / ".evals"
        folder.mkdir(exist_ok=True)
        (folder / "config.toml").write_text(
            f'[targets.main]\nmodel = "openai/test-model"\nbase_url = "{self.server.url}"\n'
            + "\n".join(lines)
            + f"\n{text}\n"
        )

    def dataset(self, count: int, prompt: Callable[[int], str] = "question {}".format, **root: Any) -> Path:
        items = [{"prompt": prompt(number), "expected_response": f"question {number}"} for number in range(count)]
        document = {"schemaVersion": "1.11.0", "default_evaluators": {"Includes": {}}, **root, "items": items}
        file = self.folder / "data.json"
        file.write_text(json.dumps(document))
        return file

    def start(self, *arguments: object, **environment: str) -> subprocess.Popen[str]:
        command = [*self.within, sys.executable, "-m", "tui_evals", *map(str, arguments)]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def do(self, *arguments: object, code: int | None = 0, **environment: str) -> str:
        """A command and what it prints; in this process, which saves half a second, unless it leaves others behind."""
        alone = self.within or {"--cluster", "--detach"} & set(arguments) or _in_a_loop()
        ended, out, err = (self.as_process if alone else self.as_call)(*arguments, **environment)
        assert code is None or ended == code, f"exit {ended}\n{out}\n{err}"
        assert "Traceback" not in err
        return out + err

    def as_process(self, *arguments: object, **environment: str) -> tuple[int, str, str]:
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def as_call(self, *arguments: object, **environment: str) -> tuple[int, str, str]:
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
        with (
            contextlib.chdir(self.folder),
            mock.patch.dict(os.environ, environment),
            mock.patch.object(sys, "path", ["", *sys.path]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            ended = run([str(argument) for argument in arguments])
        assert isinstance(ended, int), "the command opens the workbench"
        for stream in (out, err):
            stream.flush()
        texts = [stream.buffer.getvalue().decode() for stream in (out, err)]
        return ended, *texts

    def reader(self) -> Reader:
        return Reader(self.database)

    def table(self) -> list[tuple[Any, ...]]:
        """What a run came to, without what depends on the clock."""
        with self.reader() as reader:
            run = reader.find_run("last")
            found = dict(read_scores(reader, run.id))
            return [
                (row.name, row.turn, row.status, row.score, row.code, row.preview, _verdict(found.get(row.id)))
                for row in reader.all_rows(run.id)
            ]


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _verdict(record: Any) -> Any:
    return None if record is None else (record.key, record.score, record.result, record.reason)


@pytest.fixture
def project(tmp_path: Path, server: Server) -> Project:
    made = Project(tmp_path, server)
    made.configure()
    return made


def until(condition: Callable[[], bool], seconds: float = 240.0) -> None:
    """Wait for a condition; the bound only keeps a broken test from hanging."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.005)


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()
