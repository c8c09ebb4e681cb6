"""The sample project that uses the library: its tests, its notebook, and what type checkers say of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.api.test_pytest_plugin import USUAL

ROOT = Path(__file__).parents[2]
FILES = ("agent.py", "judges.py", "orders.py", "tests/test_agent.py")


@pytest.fixture
def project(tmp_path):
    made = shutil.ignore_patterns("evals.db*", "logs", "__pycache__")
    return shutil.copytree(ROOT / "sample_datasets" / "library-project", tmp_path / "project", ignore=made)


def python(folder, *words):
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False)


def code_cells(folder):
    notebook = json.loads((folder / "analysis.ipynb").read_text(encoding="utf-8"))
    assert all(not cell.get("outputs") for cell in notebook["cells"]), "no output is kept in the repository"
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


@pytest.mark.nightly
def test_its_tests_pass_and_close_with_a_line(project):
    done = python(project, "-m", "pytest", *USUAL, "tests")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout and "evals/greetings.json (answers of tests): run" in done.stdout


@pytest.mark.nightly
def test_the_cells_of_its_notebook_run_one_after_the_other(project):
    pytest.importorskip("pandas")
    script = project / "cells.py"
    script.write_text("\n".join(code_cells(project)))
    done = python(project, str(script))
    assert done.returncode == 0, done.stderr
    assert "B passes 3 more of 5 items than A: could be chance" in done.stdout
    assert "['two-apples', 'numbers', 'a-dozen', 'cheese']" in done.stdout


@pytest.mark.nightly
@pytest.mark.skipif(find_spec("nbclient") is None or find_spec("ipykernel") is None, reason="nbclient is not installed")
def test_its_notebook_runs_in_a_kernel_and_shows_reports(project, monkeypatch):
    import nbclient
    import nbformat

    monkeypatch.setenv("PYTHONPATH", f"{project}{os.pathsep}{ROOT}")
    notebook = nbformat.read(project / "analysis.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(project)}}).execute()
    shown = [
        output["data"].get("text/html", "")
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "data" in output
    ]
    assert any("Evaluation report" in html for html in shown) and any("Comparison of 2 runs" in html for html in shown)


@pytest.mark.nightly
def test_mypy_strict_accepts_it(project):
    done = python(
        project, "-m", "mypy", "--strict", "--cache-dir", str(project / "cache"), "--explicit-package-bases", *FILES
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.nightly
@pytest.mark.skipif(find_spec("pyright") is None, reason="pyright is not installed")
def test_pyright_accepts_it(project):
    done = python(project, "-m", "pyright", "--pythonpath", sys.executable, *FILES)
    assert done.returncode == 0, done.stdout


@pytest.mark.nightly
def test_its_answers_are_a_frame_of_polars(project):
    pytest.importorskip("polars")
    code = "from agent import *; from orders import *; print(evaluated(order_agent, 'x').to_frame('polars').shape)"
    done = python(project, "-c", code)
    assert done.stdout.startswith("(5, "), done.stderr
