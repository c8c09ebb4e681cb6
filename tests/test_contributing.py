"""The recipes of CONTRIBUTING, followed step by step in a copy of the package."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTIONS = {part.partition("\n")[0]: part for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]}
RECIPES = [title for title in SECTIONS if re.match(r"Add an? ", title)]
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _share(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # on another file system
        shutil.copy2(source, target)


def _insert(file: Path, change: str) -> None:
    context, *added = change.splitlines()
    source = file.read_text(encoding="utf-8")
    line = context[1:] + "\n"
    assert source.count(line) == 1, f"{file.name} has the line {line!r} {source.count(line)} times"
    assert added and all(each.startswith("+") for each in added)
    _replace(file, source.replace(line, line + "".join(each[1:] + "\n" for each in added)))


def _replace(file: Path, text: str) -> None:
    """Write a file of the copy anew, because it shares its content with the file of the package."""
    file.unlink(missing_ok=True)
    file.write_text(text, encoding="utf-8")


def _run(line: str, package: Path, project: Path) -> str:
    words = shlex.split(line)
    assert words[:1] == ["tui-evals"]
    done = subprocess.run(
        [sys.executable, "-m", "tui_evals", *words[1:]],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@pytest.mark.story
@pytest.mark.cases(1)
@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_does_what_it_says(title: str, tmp_path: Path) -> None:
    package, project = tmp_path / "copy" / "tui_evals", tmp_path / "project"
    shutil.copytree(ROOT / "tui_evals", package, copy_function=_share)
    (project / ".evals").mkdir(parents=True)
    ran = 0
    for language, name, text in BLOCK.findall(SECTIONS[title]):
        file = package.parent / name if name.startswith("tui_evals/") else project / name
        if language == "diff":
            _insert(file, text)
        elif name:
            before = file.read_text(encoding="utf-8") + "\n\n" if file.exists() else ""
            _replace(file, before + text)
        else:
            assert language == "console"
            for command, printed in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
                output = _run(command, package, project)
                assert all(line in output for line in printed.splitlines()), f"{command}\n{output}"
                ran += 1
    assert ran, f"{title} runs no command"


def test_each_kind_of_addition_has_a_recipe() -> None:
    words = {title.rpartition(" ")[2] for title in RECIPES}
    assert words == {"evaluator", "target", "importer", "report", "answer", "command"}


def test_the_entry_points_of_the_page_are_those_that_are_read() -> None:
    listed = re.findall(r'^\[project\.entry-points\."([\w.]+)"\]', SECTIONS["Add them from outside"], re.MULTILINE)
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tui_evals").glob("*/*.py")]
    read = [group for source in sources for group in re.findall(r'^GROUP = "(.+)"$', source, re.MULTILINE)]
    assert listed and sorted(listed) == sorted(read)
