"""Files of a project never take the place of our modules."""

import ast
import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tui_evals
from tests import warm
from tui_evals.evaluators import sandbox
from tui_evals.interpreter import import_from_project, python_command
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.executors.cluster import connection
from tui_evals.runs.project import load_project
from tui_evals.targets.base import ConfigurationError, Request, TargetConfig
from tui_evals.targets.function import named_function
from tui_evals.targets.worker import Worker
from tui_evals.tui.rules.screen import Regeneration, price_regeneration

PACKAGE = Path(tui_evals.__file__).parent
SHADOWS = (
    *("tui_evals/__init__.py", "tui_evals/__main__.py", "click.py", "pydantic.py", "dotenv.py", "tomlkit.py"),
    *("typing_extensions.py", "json/__init__.py", "sqlite3.py", "asyncio.py", "encodings/idna.py", "litellm.py"),
    *("yaml.py", "jinja2.py", "multiprocessing/__init__.py", "sitecustomize.py", "distributed.py"),
)
ITEM = {"prompt": "hello", "expected_response": "hello", "evaluators": {"Includes": {}}, "evaluators_mode": "replace"}
STARTERS = {
    "api/recording.py": {"Popen"},
    "cli/doctor.py": {"run"},
    "cli/run/execution.py": {"run"},
    "cli/run/watching.py": {"run"},
    "evaluators/child/main.py": {"fork"},
    "evaluators/javascript_engine.py": {"Popen"},
    "evaluators/libraries/worker.py": {"Popen", "run"},
    "evaluators/sandbox.py": {"create_subprocess_exec", "run"},
    "runs/detach.py": {"Popen"},
    "store/upkeep.py": {"Popen"},
    "targets/command.py": {"subprocess_exec"},
    "targets/function.py": {"run"},
    "targets/worker.py": {"Popen"},
    "tui/external_programs.py": {"Popen", "run"},
}
"""Every module that starts a process. One that is new has to be looked at: is what it starts a Python of ours?"""
MAY_START = re.compile(r"executable|subprocess|\bos\s*\.\s*(exec|spawn|posix_spawn|popen|system|fork)")


@pytest.fixture(autouse=True)
def from_nothing(monkeypatch):
    """Where something is imported from is what is looked at here."""
    monkeypatch.setattr(subprocess, "Popen", warm.COLD)


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A stranger's project: whatever is imported from it, or run, says so in a file."""
    folder = tmp_path / "clone"
    for name in SHADOWS:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"open({str(tmp_path / 'imported')!r}, 'a').write({name!r} + chr(10))\nraise SystemExit(9)\n")
    (folder / "data.json").write_text(json.dumps({"schemaVersion": "1.11.0", "items": [ITEM]}))
    monkeypatch.chdir(folder)
    return folder


def imported(clone: Path) -> str:
    file = clone.parent / "imported"
    return file.read_text() if file.exists() else ""


def tui(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    script = str(Path(sys.executable).with_name("tui-evals"))
    return subprocess.run([script, *words], capture_output=True, text=True, env={**os.environ, **environment})


@pytest.mark.story
def test_a_detached_run_imports_nothing_from_the_project(clone):
    done = tui("run", "data.json", "--target", "demo", "--detach", "--json")
    assert not imported(clone)
    assert done.returncode == 0 and json.loads(done.stdout)["run"]


@pytest.mark.story
async def test_pricing_a_generation_imports_nothing_from_the_project(clone):
    with pytest.raises(CannotPlan) as problem:
        price_regeneration(load_project(clone), Regeneration(clone / "g", "rule", 1, "", None).request({}, None))
    assert not imported(clone) and str(clone / "g") in str(problem.value)


async def test_workers_and_code_of_evaluators_import_nothing_from_the_project(clone):
    worker = Worker.joined("tui_evals.version", dict(os.environ))
    try:
        assert await worker.do({"any": "job"}) is None  # that module answers nothing and ends
    finally:
        worker.leave()
    code = {
        "named.py": b"class Named:\n    def __init__(self, **more): pass\n    def __call__(self, **more): return 1\n"
    }
    job = {"kind": "custom", "name": "named", "judged": False, "settings": {}, "arguments": {}}
    outcome, _ = await sandbox.run_job(job, code, sandbox.Limits(), None)
    assert outcome["result"] == 1
    assert not imported(clone)


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "path", [pytest.param("", marks=pytest.mark.first), ":/nowhere", "/nowhere:", "/nowhere::/elsewhere"]
)
def test_the_console_script_imports_nothing_from_the_folder_it_stands_in(clone, path):
    for name in ("json", "encodings", "multiprocessing"):  # what Python itself imports before we are asked
        for file in (clone / name).iterdir():
            file.unlink()
    for name in ("sitecustomize", "asyncio", "typing_extensions"):
        (clone / f"{name}.py").unlink()
    for file in (clone / "tui_evals").iterdir():
        file.unlink()
    (clone / "tui_evals").rmdir()
    done = tui("validate", "data.json", PYTHONPATH=path)
    assert (done.returncode, imported(clone)) == (0, ""), done.stderr


@pytest.mark.nightly
def test_python_m_imports_nothing_from_the_folder_it_stands_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("click", "pydantic", "dotenv", "sqlite3", "yaml", "jinja2"):
        (tmp_path / f"{name}.py").write_text(f"open('imported {name}', 'w'); raise SystemExit(9)")
    (tmp_path / "data.json").write_text('{"schemaVersion": "1.11.0", "items": [{"prompt": "hello"}]}')
    done = subprocess.run([sys.executable, "-m", "tui_evals", "validate", "data.json"], capture_output=True, text=True)
    assert (done.returncode, list(tmp_path.glob("imported*"))) == (0, []), done.stderr


def test_a_place_that_the_user_names_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "import sys, tui_evals.__main__; print(sys.path)"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:"}
    done = subprocess.run([*python_command("-c", code)], capture_output=True, text=True, env=environment)
    assert repr(str(tmp_path)) in done.stdout


def test_every_start_of_a_process_is_known_and_every_python_of_ours_has_a_safe_path():
    starters: dict[str, set[str]] = {}
    executables = []
    for file in PACKAGE.rglob("*.py"):
        name, source = str(file.relative_to(PACKAGE)), file.read_text()
        if not MAY_START.search(source):
            continue
        tree = ast.parse(source)
        shown = {id(node) for text in ast.walk(tree) if isinstance(text, ast.JoinedStr) for node in ast.walk(text)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr == "executable" and id(node) not in shown:
                executables.append(name)
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute) and _starts(called):
                starters.setdefault(name, set()).add(called.attr)
    assert set(executables) == {"interpreter.py"}
    assert starters == STARTERS


def _starts(called: ast.Attribute) -> bool:
    owner = ast.unparse(called.value)
    if owner in ("subprocess", "asyncio.subprocess"):
        return called.attr in ("run", "Popen", "call", "check_call", "check_output", "getoutput")
    if owner == "os":
        return called.attr.startswith(("exec", "spawn", "posix_spawn", "popen", "system", "fork"))
    return called.attr in ("create_subprocess_exec", "create_subprocess_shell", "subprocess_exec", "subprocess_shell")


def test_processes_that_others_start_for_us_have_a_safe_path_too():
    assert connection.remote_python().count(" -P ") == 1
    source = Path(connection.__file__).read_text()
    assert source.index("os.environ.setdefault(SAFE_PATH") < source.index("cluster = LocalCluster(")


def test_a_function_of_the_project_is_found_with_what_it_imports_and_shadows_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    (tmp_path / "answering_18.py").write_text(
        "import helping_18, yaml\ndef ask(prompt): return helping_18.WORD + yaml.__file__"
    )
    (tmp_path / "helping_18.py").write_text("WORD = 'found '")
    (tmp_path / "yaml.py").write_text("raise SystemExit(9)")
    function = named_function(TargetConfig(name="t", model="python:answering_18:ask"), tmp_path)
    said = asyncio.run(function.ask(Request(messages=()))).text
    assert said.startswith("found ") and str(tmp_path) not in said
    assert sys.path[-1] == str(tmp_path)


def test_a_named_module_comes_from_the_project_even_where_one_is_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", {name: each for name, each in sys.modules.items() if name != "this"})
    (tmp_path / "this.py").write_text("MINE = 1")
    assert import_from_project("this", tmp_path).MINE == 1


def test_a_named_module_never_takes_the_place_of_one_in_use(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "json.py").write_text("def ask(prompt): return prompt")
    with pytest.raises(ConfigurationError, match="has the name of a module that tui-evals or Python uses; rename it"):
        named_function(TargetConfig(name="t", model="python:json:ask"), tmp_path)


def test_opening_a_project_leaves_the_places_of_imports_alone(clone):
    before = list(sys.path)
    load_project(clone)
    assert sys.path == before and not imported(clone)
