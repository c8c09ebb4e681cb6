"""Every test is run by one of three: plain `pytest`, `.ci/run` and `.ci/nightly`."""

import itertools
import re
import shlex
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from _pytest.mark.expression import Expression

from tests import tiers
from tests.runs.conftest import Project
from tests.tui.story import at_the_workbench

ROOT = Path(__file__).parent.parent
MARKS = ("first", "story", "nightly")


def choices() -> dict[str, Expression]:
    """What each of the three chooses by the marks of a test."""
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["addopts"]
    words = shlex.split(options)
    written = {"pytest": words[words.index("-m") + 1]}
    for script in ("run", "nightly"):
        found = re.findall(
            r'^\.venv/bin/python -m pytest -m "?([^"\n]*?)"? -n', (ROOT / ".ci" / script).read_text(), re.M
        )
        written[script] = found[0]
    return {name: Expression.compile(text) for name, text in written.items()}


@pytest.mark.parametrize("count", range(len(MARKS) + 1))
def test_whatever_its_marks_a_test_is_run(count):
    for marks in map(frozenset, itertools.combinations(MARKS, count)):
        chosen = [name for name, choice in choices().items() if choice.evaluate(marks.__contains__)]
        assert chosen, marks
        assert "nightly" not in chosen or "nightly" in marks


async def walks() -> None:
    async with at_the_workbench(ROOT):
        pass


def runs_a_command(project: Project) -> None:
    Project(ROOT, project.server).start("runs")


def reads_a_file() -> None:
    choices()


def test_what_it_starts_through_a_helper_makes_a_story():
    assert [*map(tiers._starts_something, (walks, runs_a_command, reads_a_file))] == [True, True, False]


def test_a_story_is_run_where_its_file_is_named():
    sources = pytest.Config.ArgsSource
    for source, left in (
        (sources.TESTPATHS, f"not nightly and {tiers.WITHOUT_STORIES}"),
        (sources.ARGS, "not nightly"),
    ):
        config = SimpleNamespace(
            args_source=source, option=SimpleNamespace(markexpr=f"not nightly and {tiers.WITHOUT_STORIES}")
        )
        tiers.pytest_configure(config)
        assert config.option.markexpr == left


@pytest.mark.cases(3)
@pytest.mark.parametrize("case", range(8))
def test_of_many_cases_those_that_are_kept_are_spread_evenly(case, request):
    assert (request.node.get_closest_marker("nightly") is None) == (case in {0, 2, 5})
