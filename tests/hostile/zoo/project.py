"""The clone that the animals of the zoo are put into: a sound file of each kind that the product reads."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import io
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.hostile.clone import KEY, Attacker, hostile_clone
from tests.hostile.workbench import commit_work
from tui_evals.cli.main import run

_TESTS = Path(__file__).parents[2]
_COPIED = {
    "promptfooconfig.yaml": "imports/promptfoo/countries.yaml",
    "countries.csv": "imports/promptfoo/countries.csv",
    "output.json": "imports/promptfoo/countries.results.json",
    "prompts": "imports/promptfoo/prompts",
    "inspect.json": "imports/recordings/arithmetic.json",
    "inspect.eval": "imports/recordings/choices.eval",
    "samples.jsonl": "imports/inspect_datasets/samples.jsonl",
    "bench_runs": "imports/recordings/bench_runs",
    "foundry.json": "imports/foundry/travel.json",
    "registry": "imports/registries/example",
    "tone": "imports/promptpex/tone",
    "tone.prompty": "imports/promptpex/tone.prompty",
}
_WRITTEN = ("results.json", "results.jsonl", "results.csv", "report.html", "junit.xml")
_SUITE = (
    ("suite", "create", "quiz", "--data", "cases.csv", "--scoring", "exact_match"),
    ("suite", "run", "quiz", "first", "--candidates", "said.csv"),
)


def make_project(root: Path, outside: Path, port: int) -> None:
    """Make the clone; what of it manages to run leaves its mark in `outside`."""
    clone = hostile_clone(root, outside, Attacker(port))
    (outside / "secret.txt").write_text("the user's own\n")
    with _at_home(root.parent / "home-of-its-author", root):
        asyncio.run(commit_work(clone))
        for name in _WRITTEN:
            _own(
                [
                    "report",
                    "first",
                    "--to",
                    {"xml": "junit"}.get(name.rpartition(".")[2], name.rpartition(".")[2]),
                    "-o",
                    name,
                ]
            )
        clone.write("cases.csv", "input,reference_output\nHow many?,4\nWhich?,blue\n")
        clone.write("said.csv", "candidate_output\n4\nred\n")
        for words in _SUITE:
            _own(list(words))
    for name, source in _COPIED.items():
        whole = _TESTS / source
        (shutil.copytree if whole.is_dir() else shutil.copy)(whole, root / name)
    (root / ".git").mkdir()
    clone.write(".git/config", '[remote "origin"]\n  url = https://evil.example/x.git\n')
    clone.write("tags/tone.metric.prompty", "---\nname: tone\n---\nsystem:\nIs {{output}} kind? OK or ERR.\n")
    clone.write("template.yaml", "prompt: Is {completion} right?\nchoice_strings: ['Y', 'N']\n")
    clone.write(
        "custom-evaluators/Asks/Asks.prompty", "---\nname: Asks\n---\nsystem:\nIs {{response}} kind? Score 1 to 5.\n"
    )
    clone.write("env/.env.test", "OPENAI_API_KEY=theirs\nPYTHONPATH=.\n")
    clone.write("chat.jsonl", '{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"ho"}]}\n' * 3)
    clone.write("calls.json", json.dumps({"tools": {"find": [{"when": {"id": 1}, "result": "one"}]}}))
    clone.write("agent.py", clone.marking("agent") + "print('x')\n")
    data = json.dumps(_dataset(), indent=1)
    clone.write("evals.json", data)
    (root / "packed.json.gz").write_bytes(gzip.compress(data.encode()))
    (root / "dot.png").write_bytes((_TESTS / "imports/inspect_datasets/dot.png").read_bytes())


def _dataset() -> dict[str, object]:
    """A dataset that uses much of the format, and names most of the other files."""
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^x+$"}}}
    evaluators = {
        "tone": {},
        "Mine": {},
        "Asks": {},
        "ModelGraded": {"spec": "template.yaml"},
        "Regex": {"pattern": "^a+$"},
        "JsonSchema": {"schema": schema},
        "Includes": {"threshold": 0.5},
    }
    picture = [{"type": "text", "text": "What is it?"}, {"type": "attachment", "path": "dot.png"}]
    tool = {"type": "function", "function": {"name": "find", "description": "finds", "parameters": schema}}
    return {
        "schemaVersion": "1.11.0",
        "metadata": {"name": "all", "description": "all kinds", "tags": ["a"], "created": "2026-01-01T00:00:00Z"},
        "prompt_file": "tags.prompty",
        "default_evaluators": {"Includes": {}},
        "tools": [tool],
        "items": [
            {"testId": "one", "prompt": "two?", "expected_response": "2", "category": "sums", "weight": 0.5},
            {"testId": "code", "prompt": "x", "evaluators": evaluators, "tags": ["slow"]},
            {"testId": "talk", "turns": [{"prompt": "a", "expected_response": "b"}, {"prompt": "{{word}}"}]},
            {"testId": "picture", "prompt": picture, "variables": {"word": "cat", "n": 3}},
            {
                "testId": "done",
                "prompt": "x",
                "response": "y",
                "context": "z",
                "expected_tool_calls": [{"name": "find"}],
            },
        ],
    }


def _own(words: list[str]) -> None:
    """What the author of the clone did with the product."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = run([*words])
    if code not in (0, 1):
        raise RuntimeError(f"{words} ended with {code}: {out.getvalue()}{err.getvalue()}")


@contextmanager
def _at_home(home: Path, folder: Path) -> Iterator[None]:
    kept, here = dict(os.environ), os.getcwd()
    home.mkdir()
    os.environ.update(variables(home), TUI_EVALS_TRUST="all")
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)
        os.environ.clear()
        os.environ.update(kept)


def variables(home: Path) -> dict[str, str]:
    """The environment of a person who has keys in the shell and agreed to nothing."""
    keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GITHUB_TOKEN"), KEY)
    homes = ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "PYTHONPATH") if name in os.environ}
    shown = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "TEXTUAL_ANIMATIONS": "none"}
    quiet = dict.fromkeys(("EDITOR", "VISUAL", "PAGER"), "true")
    return {**kept, **keys, **shown, **quiet, **dict.fromkeys(homes, str(home)), "TMPDIR": str(home.parent / "scratch")}
