"""The walls of the house: what each room may bring along when it is imported, seen in a fresh process."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "tui_evals"
SCREEN = {"textual", "rich"}
HEAVY = {"litellm", "openai", "torch", "transformers", "bert_score", "wordfreq", "distributed", "pandas", "boto3"}
DATABASE = {"sqlite3", "sqlite_utils"}
ROOMS = (
    "text",
    "datasets",
    "evaluators",
    "targets",
    "store",
    "runs",
    "compare",
    "generate",
    "reports",
    "api",
    "cli",
    "tui",
)

FOREIGN = {
    "text": SCREEN | HEAVY | DATABASE | {"click", "pydantic"},
    "datasets": SCREEN | HEAVY | DATABASE | {"click"},
    "evaluators": SCREEN | HEAVY | DATABASE | {"click"},
    "targets": SCREEN | HEAVY | DATABASE | {"click"},
    "store": SCREEN | HEAVY | {"click"},
    "runs": SCREEN | HEAVY | {"click"},
    "compare": SCREEN | HEAVY | {"click"},
    "generate": SCREEN | HEAVY | {"click"},
    "reports": SCREEN | HEAVY | {"click"},
    "api": SCREEN | HEAVY | {"click"},
    "cli": {"textual"} | HEAVY,
    "tui": HEAVY | {"click"},
}
NEIGHBOURS = ("datasets", "evaluators", "targets", "store")

_IMPORT_ALL = """
import importlib, json, pkgutil, sys
room = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
    importlib.import_module(module.name)
print(json.dumps(sorted(sys.modules)))
"""


def modules_after(room: str) -> set[str]:
    command = [sys.executable, "-c", _IMPORT_ALL, f"tui_evals.{room}"]
    return set(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def test_every_room_is_known():
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert folders == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_brings_nothing_along_that_it_must_not(room):
    loaded = modules_after(room)
    assert not {name.partition(".")[0] for name in loaded} & FOREIGN[room]
    if room in NEIGHBOURS:
        others = {f"tui_evals.{other}" for other in NEIGHBOURS if other != room}
        assert not others & loaded
    if room != "tui":
        assert "tui_evals.tui" not in loaded


def test_help_imports_neither_screen_nor_models_nor_pydantic():
    code = (
        "import sys; from tui_evals.cli.main import run; run(sys.argv[1:]); print(sorted(sys.modules), file=sys.stderr)"
    )
    for arguments in (["--help"], ["--version"], ["validate", "--help"], ["doctor", "--help"]):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
        loaded = {name.partition(".")[0] for name in ast.literal_eval(done.stderr.strip().splitlines()[-1])}
        assert not loaded & (SCREEN | HEAVY | DATABASE | {"pydantic", "jinja2", "ruamel"}), arguments


def test_nothing_is_printed_but_through_the_output_module():
    printers = {"print", "echo", "secho", "echo_via_pager"}
    for file in sorted(PACKAGE.rglob("*.py")):
        if file == PACKAGE / "cli" / "output.py":
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                assert name not in printers, f"{file}:{node.lineno} prints; use tui_evals.cli.output"
