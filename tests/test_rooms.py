"""The walls of the house: what each room may bring along when it is imported, seen in a fresh process."""

import ast
import json
import os
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

PACKAGE = Path(__file__).parent.parent / "tui_evals"
SCREEN = {"textual", "rich"}
CLUSTER = {"distributed", "dask", "tornado", "asyncssh"}
HEAVY = {"litellm", "openai", "torch", "transformers", "bert_score", "wordfreq", "pandas", "boto3"} | CLUSTER
DATABASE = {"sqlite3", "sqlite_utils"}

FOREIGN = {
    "text": SCREEN | HEAVY | DATABASE | {"click", "pydantic"},
    "provenance": SCREEN | HEAVY | DATABASE | {"click", "pydantic", "cryptography"},
    "datasets": SCREEN | HEAVY | DATABASE | {"click"},
    "evaluators": SCREEN | HEAVY | DATABASE | {"click"},
    "targets": SCREEN | HEAVY | DATABASE | {"click"},
    "store": SCREEN | HEAVY | {"click", "cryptography"},
    "runs": SCREEN | HEAVY | {"click"},
    "compare": SCREEN | HEAVY | {"click"},
    "present": SCREEN | HEAVY | {"click"},
    "generate": SCREEN | HEAVY | {"click"},
    "reports": SCREEN | HEAVY | {"click"},
    "imports": SCREEN | HEAVY | {"click"},
    "api": SCREEN | HEAVY | {"click"},
    "cli": {"textual"} | HEAVY,
    "tui": HEAVY | {"click"},
}
NEIGHBOURS = ("datasets", "evaluators", "targets", "store")

LATE = ("tui_evals.runs.executors.cluster.worker_session", "tui_evals.targets.a2a")
"""What Dask runs, and the calls of the A2A SDK: imported where those are, and so by no other module as a whole."""

_IMPORTING = f"""
import importlib, json, os, pkgutil, sys

def import_all(room):
    room = importlib.import_module("tui_evals." + room)
    for module in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
        if module.name not in {LATE!r}:
            importlib.import_module(module.name)

def report(*rooms):
    for room in rooms:
        import_all(room)
        print(json.dumps([room, sorted(sys.modules)]), flush=True)

def report_apart(room):
    child = os.fork()
    if not child:
        try:
            report(room)
            os._exit(0)
        except BaseException as problem:
            sys.excepthook(type(problem), problem, problem.__traceback__)
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        sys.exit(1)
"""
_ALL_ROOMS = """
report("text", "provenance")
for room in ("datasets", "evaluators", "targets"):
    report_apart(room)
report("store", "compare", "runs", "present", "generate", "reports", "imports", "api")
report_apart("cli")
report_apart("tui")
"""
"""A room that may bring along less than those above it is imported before them or apart from them."""


@pytest.fixture(scope="module")
def loaded_by_room() -> dict[str, set[str]]:
    command = [sys.executable, "-c", _IMPORTING + _ALL_ROOMS]
    lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    return {room: set(modules) for room, modules in map(json.loads, lines)}


def test_every_room_is_known():
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert folders == set(FOREIGN)


@pytest.mark.cases(6)
@pytest.mark.parametrize("room", FOREIGN)
def test_a_room_brings_nothing_along_that_it_must_not(room, loaded_by_room):
    loaded = loaded_by_room[room]
    assert not {name.partition(".")[0] for name in loaded} & FOREIGN[room]
    if room in NEIGHBOURS:
        others = {f"tui_evals.{other}" for other in NEIGHBOURS if other != room}
        assert not others & loaded
    if room != "tui":
        assert "tui_evals.tui" not in loaded


@pytest.mark.story
def test_help_imports_neither_screen_nor_models_nor_pydantic():
    code = (
        "import sys; from tui_evals.cli.main import run; run(sys.argv[1:]); print(sorted(sys.modules), file=sys.stderr)"
    )
    for arguments in (["--help"], ["--version"], ["validate", "--help"], ["doctor", "--help"], ["run", "--help"]):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
        loaded = {name.partition(".")[0] for name in ast.literal_eval(done.stderr.strip().splitlines()[-1])}
        assert not loaded & (SCREEN | HEAVY | DATABASE | {"pydantic", "jinja2", "ruamel"}), arguments


@pytest.mark.story
def test_the_first_picture_waits_for_no_model_no_evaluator_and_no_engine():
    code = "import json, sys; import tui_evals.tui.launch, tui_evals.tui.app; print(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout)
    assert not {name.partition(".")[0] for name in loaded} & {"pydantic", "jinja2", "ruamel", "wcwidth", "yarl"}
    assert not {"tui_evals.evaluators.base", "tui_evals.runs.start", "tui_evals.compare.diff"} & {*loaded}


@pytest.mark.story
def test_what_only_reads_the_store_waits_for_no_library_of_datasets_or_networks(tmp_path):
    code = (
        "import json, sys; from tui_evals.cli.main import run; print(json.dumps([run(sys.argv[1:]), [*sys.modules]]))"
    )
    for command in ("runs", "show"):
        (status, loaded), _ = in_process(code, tmp_path, command)
        assert status in (0, 2)
        assert not {name.partition(".")[0] for name in loaded} & {
            "pydantic",
            "aiohttp",
            "jinja2",
            "jsonschema",
            "ruamel",
        }


def import_circle(package: str) -> list[str]:
    """Modules that import each other in a circle, in functions and under TYPE_CHECKING too; none is an empty list."""
    graph = grimp.build_graph(package, exclude_type_checking_imports=False, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as circle:
        return circle.args[1]
    return []


def test_no_modules_import_each_other_in_a_circle():
    circle = import_circle("tui_evals")
    assert not circle, " <- ".join(circle)


_CIRCLES = {
    "at the top": "from . import first",
    "under TYPE_CHECKING": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .first import name",
    "in a function": "def late():\n    from .first import name",
    "over a folder": "import {package}.folder.third",
}


@pytest.mark.parametrize("how", _CIRCLES)
def test_a_circle_is_found_however_it_is_closed(tmp_path, monkeypatch, how):
    package = f"round_{list(_CIRCLES).index(how)}"
    monkeypatch.syspath_prepend(tmp_path)
    files = {
        "__init__.py": "",
        "first.py": "from .second import name",
        "second.py": "name = 1",
        "folder/__init__.py": "",
        "folder/third.py": "from ..first import name",
    }
    for name, text in files.items():
        (tmp_path / package / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / package / name).write_text(text)
    assert import_circle(package) == []

    (tmp_path / package / "second.py").write_text("name = 1\n" + _CIRCLES[how].format(package=package))
    assert {f"{package}.first", f"{package}.second"} <= set(import_circle(package))


_RUN = """
import json, sys
from pathlib import Path
items = [{"prompt": "What is the capital of France?", "expected_response": "Paris"}]
document = {"schemaVersion": "1.11.0", "default_evaluators": {"Includes": {}}, "items": items}
Path("data.json").write_text(json.dumps(document))
from tui_evals.cli.main import run
codes = [run(["run", "data.json", "--target", "demo", *more]) for more in MORE]
print(json.dumps([codes, [name for name, module in sys.modules.items() if module]]))
"""
_WITHOUT = "import sys; sys.modules.update(dict.fromkeys(sys.argv[2:]))  # importing these is an error from now on\n"


def in_process(code: str, folder: Path, *arguments: str) -> tuple[list, str]:
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    path = {"PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(command, cwd=folder, env=os.environ | path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.mark.nightly
@pytest.mark.parametrize("without", ["", _WITHOUT], ids=["extra installed", "extra absent"])
def test_an_ordinary_run_loads_nothing_of_a_cluster(tmp_path, without):
    (codes, loaded), _ = in_process(f"MORE = [[]]\n{without}{_RUN}", tmp_path, "-", *CLUSTER)
    assert codes == [0] and "tui_evals.runs.executors.local" in loaded
    assert (tmp_path / ".evals" / "evals.db").exists()
    assert not {name.partition(".")[0] for name in loaded} & CLUSTER


@pytest.mark.nightly
def test_without_its_extra_every_module_can_be_imported(tmp_path):
    (_, loaded), _ = in_process(f"{_WITHOUT}{_IMPORTING}report('runs')", tmp_path, "-", *CLUSTER)
    assert "tui_evals.runs.executors.cluster.executor" in loaded


@pytest.mark.nightly
def test_without_its_extra_a_cluster_says_how_to_install_it(tmp_path):
    more = [["--cluster", word] for word in ("local", "local:2", "tcp://127.0.0.1:8786", "ssh:hosts.txt")]
    (codes, _), said = in_process(f"MORE = {more}\n{_WITHOUT}{_RUN}", tmp_path, "-", *CLUSTER)
    assert codes == [3] * 4
    assert said.splitlines() == ["--cluster needs Dask: pip install 'tui-evals[cluster]'"] * 4


def test_nothing_is_printed_but_through_the_output_module():
    printers = {"print", "echo", "secho", "echo_via_pager"}
    for file in sorted(PACKAGE.rglob("*.py")):
        if file == PACKAGE / "cli" / "output.py":
            continue
        source = file.read_text(encoding="utf-8")
        if not any(f"{name}(" in source for name in printers):
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                assert name not in printers, f"{file}:{node.lineno} prints; use tui_evals.cli.output"


_SQL = re.compile("(?:SELECT|INSERT|UPDATE|DELETE|PRAGMA|WITH) ")
_OTHERS_STORES = {PACKAGE / "imports" / "promptfoo_results.py"}
"""Modules that read the database of another program."""


def test_only_the_store_writes_queries():
    outside = [
        f"{file.relative_to(PACKAGE)}:{node.lineno}"
        for file in sorted({*PACKAGE.rglob("*.py")} - {*(PACKAGE / "store").rglob("*.py")} - _OTHERS_STORES)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _SQL.match(node.value)
    ]
    assert [place.partition(":")[0] for place in outside] == ["evaluators/markup.py"]  # an example of its evaluator


STARTERS = {"external_programs.py"}
"""The module of the workbench that lends the terminal to another program."""
_OWN_LOG = "workbench.log"
"""The workbench writes into it why it failed."""


def test_the_workbench_starts_no_process_and_reads_no_log():
    """Runs, battles and generations are started by `runs/detach.py` and watched in the store."""
    starting = {"subprocess", "pty", "multiprocessing"}
    calls = {"create_subprocess_exec", "create_subprocess_shell", "system", "popen", "posix_spawn", "fork", "execv"}
    starters = set()
    for file in sorted((PACKAGE / "tui").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name.partition(".")[0] for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [(node.module or "").partition(".")[0], *(alias.name for alias in node.names)]
            elif (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id in ("os", "asyncio")
            ):
                names = [node.attr]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not node.value.endswith(".log") or node.value == _OWN_LOG, f"{file}:{node.lineno} names a log"
            if starting & {*names} or calls & {*names}:
                starters.add(file.name)
    assert starters == STARTERS
