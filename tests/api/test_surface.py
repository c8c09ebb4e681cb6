"""What the library offers: its names, where they can be seen, and the names of before."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import pytest

import tui_evals
from tests.api.test_evaluate import EXAMPLES
from tui_evals import bench

FORMER = sorted(bench.__all__)
"""They were names of `tui_evals` itself before there was `tui_evals.bench`."""


def test_every_name_is_listed_and_can_be_had():
    assert dir(tui_evals) == sorted([*tui_evals.__all__, "bench"])
    for name in dir(tui_evals):
        assert getattr(tui_evals, name) is not None
    assert {"evaluate", "aevaluate", "Evaluator", "Score", "Evidence", "Target", "Reply"} <= set(dir(tui_evals))
    assert {"Dataset", "Run", "Answer", "RunStopped", "import_from", "gate", "__version__"} <= set(dir(tui_evals))


def test_evaluate_and_aevaluate_show_the_same_parameters():
    now, later = inspect.signature(tui_evals.evaluate), inspect.signature(tui_evals.aevaluate)
    assert now.parameters == later.parameters and now.return_annotation == later.return_annotation
    assert len(now.parameters) == 20
    assert all(parameter.kind is not parameter.VAR_KEYWORD for parameter in now.parameters.values())


def test_every_name_is_in_an_example_of_the_manual():
    used = {name for block in EXAMPLES for name in re.findall(r"\w+", block)}
    assert set(tui_evals.__all__) - {"__version__"} <= used


@pytest.mark.parametrize("name", FORMER)
def test_a_name_of_before_still_works_without_a_warning(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert getattr(tui_evals, name) is getattr(bench, name)
    assert name not in tui_evals.__all__


def test_an_unknown_name_is_no_name_of_the_library():
    with pytest.raises(AttributeError, match="has no attribute 'evaluat'"):
        tui_evals.evaluat  # noqa: B018


@pytest.mark.parametrize("code", ["import tui_evals", "import tui_evals; dir(tui_evals); tui_evals.__version__"])
def test_importing_the_package_brings_nothing_along(code):
    seen = "import json, sys; print(json.dumps([name for name in sys.modules if name.startswith('tui_evals')]))"
    done = subprocess.run([sys.executable, "-c", f"{code}; {seen}"], capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) == {"tui_evals", "tui_evals.version"}


def test_on_native_windows_the_import_names_wsl():
    code = "import sys; sys.platform = 'win32'; import tui_evals"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode and "ImportError: tui_evals does not run on native Windows." in done.stderr
    assert "WSL" in done.stderr.splitlines()[-1]


def test_the_package_says_that_it_is_typed():
    assert (Path(tui_evals.__file__).parent / "py.typed").is_file()


def test_a_type_checker_sees_every_name():
    module = ast.parse(Path(tui_evals.__file__).read_text(encoding="utf-8"))
    conditions = (node for node in module.body if isinstance(node, ast.If))
    (block,) = [node for node in conditions if ast.unparse(node.test) == "TYPE_CHECKING"]
    bound = {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    bound |= {target.id for node in block.body if isinstance(node, ast.Assign) for target in node.targets}
    assert bound == {*dir(tui_evals), *FORMER} - {"__version__"}


SCRIPT = """
from tui_evals import Dataset, Item, Run, Turn, evaluate

ITEMS = [
    Item(testId="sum", prompt="What is 17 + 25?", expected_response="42", category="sums", tags=["short"]),
    Item(name="talk", turns=[Turn(prompt="Hi!", expected_response="Hi"), Turn(prompt="Bye!")]),
]


def agent(prompt: str) -> str:
    return prompt


def worst(run: Run) -> list[str]:
    return [f"{answer.item}: {answer.question}: {answer.reasons}" for answer in run.failures]


run = evaluate(Dataset(default_evaluators={"Includes": {}}, items=ITEMS), agent)
print(worst(run), run.rows()[0]["category"])
"""


@pytest.mark.nightly
def test_mypy_strict_accepts_every_example_without_a_plugin(tmp_path):
    files = [tmp_path / f"example_{number}.py" for number in range(len(EXAMPLES) + 1)]
    for file, code in zip(files, [*map(textwrap.dedent, EXAMPLES), SCRIPT], strict=True):
        file.write_text(code)
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = True\n")
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), *(file.name for file in files)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
