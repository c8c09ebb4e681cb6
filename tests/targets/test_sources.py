"""Which files of a project one approval covers."""

import hashlib
import random
import sys

import pytest

from tui_evals.targets.sources import command_manifest, file_manifest, function_manifest, python_command_of

IMPORTS = (
    "import {0}",
    "import {0}.thing as other",
    "from {0} import thing",
    "from {0} import *",
    "def later():\n    import {0}",
    "import importlib\nimportlib.import_module('{0}')",
    "try:\n    from .{0} import thing\nexcept ImportError:\n    pass",
)


@pytest.fixture
def clone(tmp_path):
    (tmp_path / ".git").mkdir()
    return tmp_path


def covered(manifest):
    return [name for name, _ in manifest.files]


@pytest.mark.parametrize("seed", range(5))
def test_what_a_module_imports_is_covered_however_it_is_imported_and_nothing_else(clone, seed):
    dice, names = random.Random(seed), [f"module_{letter}" for letter in "abcdefgh"]
    imported = {name: dice.sample(names, dice.randrange(3)) for name in names}
    for name, others in imported.items():
        (clone / f"{name}.py").write_text("\n".join(dice.choice(IMPORTS).format(other) for other in others))
    for name in names:
        reached, waiting = set(), [name]
        while waiting:
            if (each := waiting.pop()) not in reached:
                reached.add(each)
                waiting += imported[each]
        expected = sorted(f"{each}.py" for each in reached)
        manifest = function_manifest(f"{name}:answer", clone)
        assert covered(manifest) == covered(function_manifest(f"{name}.py:answer", clone)) == expected
        assert covered(file_manifest(clone / f"{name}.py", clone)) == expected
        digests = {each: hashlib.sha256((clone / each).read_bytes()).hexdigest() for each in expected}
        assert dict(manifest.files) == digests and manifest.is_sealed


@pytest.mark.parametrize(
    ("statement", "inside"),
    [
        ("from package import *", ["all.py", "inner/__init__.py", "one.py"]),
        ("from package import one", ["one.py"]),
        ("import package.inner.deep", ["inner/__init__.py", "inner/deep.py"]),
        ("import package", []),
    ],
)
def test_of_a_package_what_is_named_is_covered_with_the_packages_around_it(clone, statement, inside):
    (clone / "package" / "inner").mkdir(parents=True)
    for name in ("__init__.py", "one.py", "all.py", "inner/__init__.py", "inner/deep.py"):
        (clone / "package" / name).write_text("")
    (clone / "package" / "inner" / "above.py").write_text("from .. import one")
    (clone / "own.py").write_text(statement)
    expected = sorted(["own.py", *(f"package/{name}" for name in ["__init__.py", *inside])])
    assert covered(function_manifest("own:answer", clone)) == expected
    (clone / "package" / "inner" / "__init__.py").write_text("from . import above")
    reached = {"inner/__init__.py", "inner/above.py", "one.py", *inside}
    with_above = sorted(["own.py", *(f"package/{name}" for name in {"__init__.py", *reached})])
    assert covered(function_manifest("own:answer", clone)) == (
        with_above if "inner/__init__.py" in inside else expected
    )


def test_files_next_to_the_code_are_not_covered_unless_they_are_code_or_hidden(clone):
    for name in ("own.py", "other.py", "old.pyc", "data.txt", "words", ".env"):
        (clone / name).write_text("")
    (clone / "folder").mkdir()
    (clone / "folder" / "far.txt").write_text("")
    manifest = function_manifest("own:answer", clone)
    assert (covered(manifest), manifest.uncovered) == (["own.py"], ("data.txt", "words"))


@pytest.mark.parametrize("script", ["tool", "tool.py", "tool.txt"])
def test_only_what_python_runs_is_read_for_imports(clone, script):
    (clone / script).write_text("import mine")
    (clone / "notes").write_text("import theirs")
    (clone / "notes.txt").write_text("import theirs")
    for name in ("mine.py", "theirs.py"):
        (clone / name).write_text("")
    manifest = command_manifest(f"{sys.executable} -I {script} notes notes.txt", clone)
    assert covered(manifest) == sorted([script, "mine.py", "notes", "notes.txt"])
    assert manifest.is_sealed and not command_manifest(f"sh {script}", clone).is_sealed


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("python tool", ((), "file", "tool", ())),
        ("python3.12 -u -B tool a b", (("-u", "-B"), "file", "tool", ("a", "b"))),
        ("python -W error -Xutf8 tool", (("-W", "error", "-Xutf8"), "file", "tool", ())),
        ("python -m package.main a", ((), "module", "package.main", ("a",))),
        ("python -Im package", (("-I",), "module", "package", ())),
        ("python -mpackage", ((), "module", "package", ())),
        ("python folder", ((), "file", "folder", ())),
        ("./script a", (("-u",), "file", "./script", ("a",))),
        ("python -c print()", None),
        ("python -i tool", None),
        ("python -m", None),
        ("python -W", None),
        ("python missing", None),
        ("python empty", None),
        ("python tool.zip", None),
        ("node tool", None),
        ("tool", None),
        ("", None),
    ],
)
def test_the_command_of_a_python_is_known_with_its_options_and_what_it_runs(clone, line, found):
    for name in ("tool", "tool.zip", "folder/__main__.py"):
        (clone / name).parent.mkdir(exist_ok=True)
        (clone / name).write_text("")
    (clone / "empty").mkdir()
    (clone / "script").write_text("#!/usr/bin/env -S python -u\n")
    programs = clone / "programs"
    programs.mkdir()
    for name in ("python", "python3.12"):
        (programs / name).write_text("")
        (programs / name).chmod(0o700)
    command = python_command_of(line.split(), clone, str(programs))
    assert (None if command is None else (command.options, command.form, command.target, command.arguments)) == found
