"""A shop's prompt in a project of its own, the server that answers for its models, and the real command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.cli.helpers import Done, Shell
from tests.generate.expected import JUDGE, REFEREE, TRUTH, UNDER_TEST, WRITER, Expected, Prompt
from tests.generate.server import KEY, Server, running
from tui_evals.store.reader import Reader

BODY = """\
system:
You answer the customers of a shop in the language of {{locale}}.
- Never promise a refund.
- End with the name of the shop.
- Stay below forty words.

user:
{{question}}
The customer is {{mood}}."""
SCENARIOS = [
    {"name": "english", "instructions": "The customer writes from London."},
    {"name": "calm", "instructions": "Nobody is angry.", "parameters": {"mood": "calm", "locale": "fr-FR"}},
]


def full_prompt() -> Prompt:
    """Two open inputs and one with a default, two scenarios, samples, instructions for every step."""
    return Prompt(
        BODY,
        {
            "question": {"type": "string", "description": "What the customer asks."},
            "mood": {"type": "string", "description": "How the customer feels."},
            "locale": {"type": "string", "description": "A language.", "default": "en-us"},
        },
        [dict(scenario) for scenario in SCENARIOS],
        [{"question": "Where is my parcel?", "mood": "worried"}, {"question": "Hm, “well”?", "mood": "cheerful"}],
        {
            name: f"Mind the {name}."
            for name in ("intent", "inputSpec", "outputRules", "inverseOutputRules", "testExpansion")
        },
    )


def plain_prompt() -> Prompt:
    """One input and nothing else."""
    inputs = {"question": {"type": "string", "description": "What the customer asks."}}
    return Prompt(BODY.replace("{{locale}}", "the customer").replace("\nThe customer is {{mood}}.", ""), inputs)


@pytest.fixture(scope="session")
def one_server() -> Iterator[Server]:
    with running() as server:
        yield server


@pytest.fixture
def server(one_server: Server) -> Iterator[Server]:
    one_server.begin(Expected())
    yield one_server
    assert one_server.complaints == []


ROLES = ("-t", WRITER, "--groundtruth-model", TRUTH, "--judge", JUDGE, "--groundtruth-judge", REFEREE)


@dataclass
class Project:
    """A folder with a configuration and a prompt, and what a person does in it."""

    root: Path
    server: Server
    prompt: Prompt
    shell: Shell
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.use(self.prompt)
        self.configure()

    @property
    def folder(self) -> Path:
        return self.root / "shop"

    def use(self, prompt: Prompt) -> None:
        self.prompt = prompt
        (self.root / "shop.prompty").write_text(prompt.text, encoding="utf-8")
        self.server.begin(Expected(prompt, self.folder))

    def configure(self, **target: Any) -> None:
        """Write the configuration, with some settings for every target."""
        lines = [f"{name} = {value if isinstance(value, str) else json.dumps(value)}" for name, value in target.items()]
        texts = [
            f'[targets.{name}]\nmodel = "openai/{name}"\nbase_url = "{self.server.url}"\napi_key = "env:SHOP_KEY"\n'
            + "\n".join(lines)
            for name in (WRITER, TRUTH, JUDGE, REFEREE, UNDER_TEST)
        ]
        (self.root / ".evals").mkdir(exist_ok=True)
        (self.root / ".evals" / "config.toml").write_text("\n\n".join(texts) + "\n", encoding="utf-8")

    def start(self, *arguments: object, **environment: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tui_evals", *map(str, arguments)]
        process = subprocess.Popen(
            command,
            cwd=self.root,
            env={**os.environ, "SHOP_KEY": KEY, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def close(self) -> None:
        """End what a test that failed left behind."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def do(self, *arguments: object, code: int = 0) -> Done:
        """The command in this process, which is quicker."""
        before = len(self.server.complaints)
        done = self.shell(*arguments)
        complaints = self.server.complaints[before:]
        assert done.code == code, f"exit {done.code}\n{done.out}\n{done.err}\n{complaints}"
        assert "Traceback" not in done.err
        return done

    def generate(self, *arguments: object, code: int = 0) -> Done:
        return self.do("generate", "shop.prompty", *ROLES, *arguments, code=code)

    def generating(self, *arguments: object, **environment: str) -> subprocess.Popen[str]:
        """The same command as a process of its own."""
        return self.start("generate", "shop.prompty", *ROLES, *arguments, **environment)

    def kept(self) -> int:
        """How many replies the store keeps."""
        with Reader(self.root / ".evals" / "evals.db") as reader:
            return reader.cache_info().entries

    def read(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def lines(self, name: str) -> list[str]:
        return self.read(name).splitlines()

    def rows(self, name: str) -> list[dict[str, Any]]:
        return list(json.loads(self.read(name)))

    def made(self) -> dict[str, str]:
        """All files of the generation but the one that holds times, and what a kill left half written."""
        files = [file for file in self.folder.glob("[!.]*") if file.is_file() and file.name != "generation.json"]
        return {file.name: file.read_text(encoding="utf-8") for file in files}


@pytest.fixture
def place(tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """The current folder is an empty one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOP_KEY", KEY)
    monkeypatch.setattr("tui_evals.runs.limits._FIRST_DELAY", 0.001)
    return Shell(capsys)


@pytest.fixture
def project(tmp_path: Path, server: Server, place: Shell) -> Iterator[Project]:
    """A project with the full prompt."""
    made = Project(tmp_path, server, full_prompt(), place)
    yield made
    made.close()


@pytest.fixture
def shop(tmp_path: Path, server: Server, place: Shell) -> Iterator[Project]:
    """A project with the plain prompt."""
    made = Project(tmp_path, server, plain_prompt(), place)
    yield made
    made.close()
