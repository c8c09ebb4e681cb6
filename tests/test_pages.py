"""The pages for who works on the code name what is there, and the version stands in one place."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tui_evals import __version__

ROOT = Path(__file__).parent.parent
CONTRIBUTING = (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "tui_evals" / "ARCHITECTURE.md").read_text(encoding="utf-8")
CHANGES = (ROOT / "tui_evals" / "help" / "changes.md").read_text(encoding="utf-8")
WALK = re.findall(r"^\| (\d+) \| `(\w+)` \| `([\w/.]+)` \|", ARCHITECTURE, re.MULTILINE)
PLACEHOLDERS = re.compile(r"NAME|FAMILY")


@cache
def functions_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("page", [CONTRIBUTING, ARCHITECTURE], ids=["CONTRIBUTING", "ARCHITECTURE"])
def test_a_page_names_files_that_are_there(page):
    prose = re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL)  # recipes name the files they make
    named = set(re.findall(r"(?<![\w/.])(?:tui_evals|tests|screenshots|\.ci|\.github)/[\w/.-]*\w", prose))
    assert len(named) > 10
    assert not [name for name in sorted(named) if not PLACEHOLDERS.search(name) and not (ROOT / name).exists()]


def test_the_files_of_a_room_that_the_plan_names_are_there():
    rooms = {path.name for path in (ROOT / "tui_evals").iterdir() if path.is_dir()}
    named = {name for name in re.findall(r"`(\w+/[\w/.]+)`", ARCHITECTURE) if name.partition("/")[0] in rooms}
    assert len(named) > 5
    assert not [name for name in sorted(named) if not (ROOT / "tui_evals" / name).exists()]


def test_the_plan_has_every_room():
    rooms = {path.parent.name for path in (ROOT / "tui_evals").glob("*/__init__.py")}
    assert rooms <= set(re.findall(r"^\| `(\w+)/` \|", ARCHITECTURE, re.MULTILINE))


@pytest.mark.parametrize(("number", "function", "file"), WALK)
def test_a_function_of_the_walks_is_where_it_is_said_to_be(number, function, file):
    assert function in functions_in(file)


def test_the_walks_are_counted_right():
    ways = re.findall(r"^### .*\n\n(\| \| function (?:.*\n\|)*.*\n)", ARCHITECTURE, re.MULTILINE)
    steps = [re.findall(r"^\| \d+ \| `\w+` \| `([\w/.]+)`", way, re.MULTILINE) for way in ways]
    assert sum(map(len, steps)) == len(WALK)
    walked = steps[0] + steps[1]
    assert f"Together {len(walked)} functions in {len(set(walked))} files" in ARCHITECTURE


@pytest.mark.parametrize("module", sorted(set(re.findall(r"python -m ((?:tests|tui_evals)\.[\w.]+)", CONTRIBUTING))))
def test_a_command_that_renews_something_is_there(module):
    place = ROOT / module.replace(".", "/")
    assert (place / "__main__.py").exists() or "__main__" in place.with_suffix(".py").read_text(encoding="utf-8")


def test_the_newest_change_is_of_this_version():
    assert re.findall(r"^## (\S+)", CHANGES, re.MULTILINE)[0] == __version__


def test_the_version_stands_in_one_place():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in settings["project"] and settings["project"]["dynamic"] == ["version"]
    assert settings["tool"]["hatch"]["version"]["path"] == "tui_evals/version.py"
    written = re.compile(rf"""["'=]{re.escape(__version__)}["']""")
    files = [*(ROOT / "tui_evals").rglob("*.py"), ROOT / "pyproject.toml"]
    places = [file for file in files if written.search(file.read_text(encoding="utf-8"))]
    assert places == [ROOT / "tui_evals" / "version.py"]


def test_the_hooks_use_the_tools_at_hand():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    entries = re.findall(r"^ +entry: (\S+)", hooks, re.MULTILINE)
    assert entries == [f".venv/bin/{tool}" for tool in ("ruff", "ruff", "mypy", "lint-imports")]
    assert hooks.count("language: system") == len(entries) and re.findall(r"repo: (\S+)", hooks) == ["local"]


def test_the_hooks_are_valid_for_pre_commit():
    pytest.importorskip("pre_commit", reason="pre-commit is not installed")
    command = ["pre-commit", "validate-config", str(ROOT / ".pre-commit-config.yaml")]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
