"""After a yes nothing runs that it was not for: each way to slip other code in, through the command line.

Every project here is a stranger's, agreed to once with `tui-evals trust --yes`, and then changed as a pull would.
"""

import importlib.util
import json
import os
import py_compile
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.helpers import Done, Shell
from tui_evals.interpreter import python_command
from tui_evals.runs.project import load_project
from tui_evals.targets.base import ConfigurationError, TargetContext
from tui_evals.targets.config import find_target
from tui_evals.targets.opening import target_kind

pytestmark = pytest.mark.story

AGENT = "import sys\nimport random\nimport helper\nsys.stdin.read()\nprint(helper.word())\n"
HELPER = "def word(): return 'two'\n"
FUNCTION = "import random\nimport helper\ndef answer(prompt): return helper.word()\n"
TOOL = "import helper\ndef look(what: str) -> str: return helper.word()\n"
SERVER = "open('began', 'w').close()\n"
COMMAND, MODULE, CALL, SHEBANG = "command:python agent.py", "command:python -m agent", "python:agent:answer", "./agent"


@dataclass
class Project:
    """A stranger's project, and the mark that is left by code nobody agreed to."""

    root: Path
    mark: Path
    home: Path
    shell: Shell
    patch: pytest.MonkeyPatch

    def write(self, name: str, text: str) -> Path:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    @property
    def evil(self) -> str:
        return f"open({str(self.mark)!r}, 'w').close()\ndef word(): return 'two'\n"

    def __call__(self, *words: object) -> Done:
        """A command line in this process, for what runs nothing of the project in it."""
        self.patch.chdir(self.root)
        return self.shell(*words)

    def process(self, *words: object, **variables: str) -> Done:
        """A command line in a process of its own."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        home = {name: str(self.home) for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}
        path = os.pathsep.join((os.path.dirname(sys.executable), kept["PATH"]))
        done = subprocess.run(
            [*python_command("-m", "tui_evals"), *map(str, words)],
            cwd=self.root,
            env={**kept, **home, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1", **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def agree(self) -> None:
        done = self("trust", "--yes")
        assert done.code == 0, done.err

    def run(self, *words: object, **variables: str) -> Done:
        words = ("run", "data.json", "-t", "t", *words)
        return self.process(*words, **variables) if self.imports or variables else self(*words)

    @property
    def imports(self) -> bool:
        """Whether running it imports code of it into the process that runs it."""
        return "python:" in (self.root / ".evals" / "config.toml").read_text()


def said(done: Done) -> str:
    return " ".join(f"{done.out} {done.err}".split())


@pytest.fixture
def project(tmp_path: Path, stranger: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("PATH", os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"])))
    made = Project(tmp_path / "clone", tmp_path / "mark", stranger, shell, monkeypatch)
    items = [{"prompt": "one", "expected_response": "two"}]
    data = {"schemaVersion": "1.0.0", "default_evaluators": {"Includes": {}}, "items": items}
    made.write("data.json", json.dumps(data))
    return made


def configure(project: Project, model: str) -> None:
    project.write("helper.py", HELPER)
    project.write("agent.py", FUNCTION if model == CALL else AGENT)
    if model == SHEBANG:
        (project.root / "agent.py").rename(project.root / "agent")
        project.write("agent", f"#!/usr/bin/env python\n{AGENT}").chmod(0o755)
        model = f"command:{SHEBANG}"
    project.write(".evals/config.toml", f'[targets.t]\nmodel = "{model}"\n')


def plant_bytecode(project: Project) -> None:
    """A bytecode file that is used whatever the source beside it says."""
    source = project.mark.with_name("evil.py")
    source.write_text(project.evil)
    cached = Path(importlib.util.cache_from_source(str(project.root / "helper.py")))
    cached.parent.mkdir(exist_ok=True)
    py_compile.compile(str(source), str(cached), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)


def plant_sourceless(project: Project) -> None:
    source = project.mark.with_name("evil.py")
    source.write_text(project.evil)
    py_compile.compile(str(source), str(project.root / "idna.pyc"))


def plant_extension(project: Project) -> None:
    """An extension module goes before a source file of its name; what is in it is no matter."""
    (project.root / "helper.abi3.so").write_bytes(b"\x7fELF")


def plant_shadow(project: Project) -> None:
    """`random` imports `bisect`, which a script finds next to itself first."""
    project.write("bisect.py", project.evil)


@pytest.mark.story
@pytest.mark.cases(1)
@pytest.mark.parametrize("model", [COMMAND, MODULE, CALL, SHEBANG])
def test_what_was_agreed_to_runs(project: Project, model: str) -> None:
    configure(project, model)
    asked = project.run()
    assert asked.code == 2
    assert "not agreed to" in said(asked)
    project.agree()
    done = project.run()
    assert done.code == 0, said(done)
    assert "1 of 1 pass" in said(done)


@pytest.mark.cases(3)
@pytest.mark.parametrize("model", [COMMAND, MODULE, CALL, SHEBANG])
def test_bytecode_in_the_clone_is_never_run(project: Project, model: str) -> None:
    configure(project, model)
    project.agree()
    plant_bytecode(project)
    done = project.run()
    assert "1 of 1 pass" in said(done)
    assert not project.mark.exists()


@pytest.mark.parametrize("model", [COMMAND, MODULE, CALL, SHEBANG])
def test_an_extension_module_beside_the_source_is_asked_about(project: Project, model: str) -> None:
    configure(project, model)
    project.agree()
    plant_extension(project)
    done = project.run()
    assert done.code == 2
    assert "not agreed to" in said(done)
    assert "helper.abi3.so" in said(project("trust"))


@pytest.mark.parametrize("model", [COMMAND, SHEBANG])
def test_a_file_with_the_name_of_a_module_of_python_is_asked_about(project: Project, model: str) -> None:
    configure(project, model)
    project.agree()
    plant_shadow(project)
    done = project.run()
    assert done.code == 2
    assert not project.mark.exists()
    assert "bisect.py" in said(project("trust"))


@pytest.mark.nightly
@pytest.mark.parametrize("model", [COMMAND, CALL])
def test_a_link_that_leads_out_is_agreed_to_with_what_it_leads_to(project: Project, model: str) -> None:
    configure(project, model)
    outside = project.mark.with_name("h.py")
    outside.write_text(HELPER)
    (project.root / "helper.py").unlink()
    (project.root / "helper.py").symlink_to("../h.py")
    project.agree()
    assert "1 of 1 pass" in said(project.run())
    outside.write_text(project.evil)
    done = project.run()
    assert done.code == 2
    assert not project.mark.exists()


@pytest.mark.nightly
@pytest.mark.parametrize("model", [COMMAND, pytest.param(CALL, marks=pytest.mark.nightly)])
def test_a_module_found_by_a_computed_name_is_refused_until_it_is_named(project: Project, model: str) -> None:
    configure(project, model)
    project.write("helper.py", "import importlib\nword = importlib.import_module('plug' + 'in').word\n")
    project.write("plugin.py", HELPER)
    project.agree()
    refused = project.run()
    assert "plugin.py is not part of what you agreed to" in said(refused)
    assert "tui-evals trust plugin.py" in said(refused)
    assert "Traceback" not in said(refused)
    assert project("trust", "plugin.py").code == 0
    assert "1 of 1 pass" in said(project.run())
    project.write("plugin.py", project.evil)
    assert "plugin.py has changed since you agreed to" in said(project.run())
    assert not project.mark.exists()
    assert project("trust", "revoke").code == 0
    project.write("plugin.py", HELPER)
    project.agree()
    assert "plugin.py is not part of what you agreed to" in said(project.run())


@pytest.mark.parametrize("plant", ["idna.py", "idna.pyc"])
def test_a_file_with_the_name_of_an_installed_package_is_refused(project: Project, plant: str) -> None:
    configure(project, COMMAND)
    project.write("agent.py", f"import click, idna\n{AGENT}")
    (project.root / "agent.py").write_text("import httpx\n" + AGENT)
    project.agree()
    if plant.endswith(".py"):
        project.write(plant, project.evil)
    else:
        plant_sourceless(project)
    done = project.run()
    assert f"{plant} is not part of what you agreed to" in said(done)
    assert not project.mark.exists()


def test_a_module_loaded_from_a_path_is_held_to_the_yes(project: Project) -> None:
    configure(project, COMMAND)
    load = (
        "import importlib.util\n"
        "spec = importlib.util.spec_from_file_location('x', 'hidden.txt'.replace('.txt', '.py'))\n"
        "module = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(module)\n"
    )
    project.write("agent.py", load + AGENT)
    project.write("hidden.py", "")
    project.agree()
    project.write("hidden.py", project.evil)
    assert "hidden.py is not part of what you agreed to" in said(project.run())
    assert not project.mark.exists()


@pytest.mark.parametrize("name", ["sitecustomize.py", "json/__init__.py"])
def test_python_path_brings_no_code_before_the_seal(project: Project, name: str) -> None:
    configure(project, COMMAND)
    project.write("lib/helper.py", HELPER)
    (project.root / "helper.py").unlink()
    project.agree()
    lib, late = "lib", str(project.root / "late")
    project.patch.setenv("PYTHONPATH", lib)
    project.agree()
    assert "1 of 1 pass" in said(project.run())
    project.write(f"late/{name}", project.evil)
    project.patch.setenv("PYTHONPATH", os.pathsep.join((lib, late)))
    assert project.run().code == 2
    assert not project.mark.exists()


@pytest.mark.nightly
def test_tools_of_an_agent_are_held_to_the_yes(project: Project) -> None:
    project.write("helper.py", HELPER)
    project.write("tools.py", TOOL)
    agent = (
        "def answer(messages, request):\n"
        "    if messages[-1]['role'] == 'tool': return messages[-1]['content']\n"
        "    call = {'name': 'look', 'arguments': {'what': 'x'}}\n"
        "    return {'text': '', 'tool_calls': [call]}\n"
    )
    project.write("agent.py", agent)
    settings = '[targets.t]\nmodel = "python:agent:answer"\ntools = { functions = "tools.py", approved = ["look"] }\n'
    project.write(".evals/config.toml", settings)
    project.agree()
    assert "1 of 1 pass" in said(project.run())
    plant_bytecode(project)
    assert "1 of 1 pass" in said(project.run())
    assert not project.mark.exists()
    plant_extension(project)
    assert project.run().code == 2


@pytest.mark.parametrize(
    "line",
    [
        "python -u -W ignore agent.py first -x",
        "python -X utf8 -m package.inner first -x",
        "python -um package.inner first -x",
        "python -mpackage.inner first -x",
        "python package first -x",
        "python -I agent.py first -x",
        "python -B script first -x",
    ],
)
def test_a_sealed_script_finds_itself_as_python_would_have_begun_it(project: Project, line: str) -> None:
    tell = (
        "import sys, json, os\nsys.stdin.read()\n"
        "main = sys.modules['__main__']\n"
        "spec = __spec__ and __spec__.name\n"
        "facts = [__name__, main.__dict__ is globals(), os.path.abspath(__file__), __package__, spec, sys.argv,\n"
        "         os.path.abspath(sys.path[0]), sys.flags.isolated, sorted(globals()),\n"
        "         'TUI_EVALS_SEAL' in os.environ]\n"
        "if __name__ == '__main__': json.dump(facts, open('facts.json', 'w')); print('two')\n"
    )
    for name in ("agent.py", "package/__init__.py", "package/inner.py", "package/__main__.py", "script"):
        project.write(name, "" if name.endswith("__init__.py") else tell)
    project.write(".evals/config.toml", f'[targets.t]\nmodel = "command:{line}"\n')
    bare = subprocess.run(
        [sys.executable, *line.split()[1:]], cwd=project.root, input="", capture_output=True, text=True, check=True
    )
    expected = json.loads((project.root / "facts.json").read_text())
    project.agree()
    done = project.run()
    assert "1 of 1 pass" in said(done), said(done)
    assert bare.stdout == "two\n"
    assert json.loads((project.root / "facts.json").read_text()) == expected


def test_a_project_of_ones_own_is_not_sealed(project: Project) -> None:
    configure(project, COMMAND)
    project.write("helper.py", "import importlib\nword = importlib.import_module('plug' + 'in').word\n")
    project.write("plugin.py", HELPER)
    assert project("trust", "--below", ".").code == 0
    assert "1 of 1 pass" in said(project.run())


@pytest.mark.nightly
def test_for_this_once_everything_runs(project: Project) -> None:
    configure(project, CALL)
    project.write("helper.py", "import importlib\nword = importlib.import_module('plug' + 'in').word\n")
    project.write("plugin.py", HELPER)
    assert "1 of 1 pass" in said(project.run("--trust"))


def test_packages_that_came_with_the_clone_are_code_of_the_clone(project: Project) -> None:
    """A virtual environment made here counts as installed; one that is in the repository does not."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", project.root / ".venv"], check=True)
    packages = next(project.root.glob(".venv/lib/python3*/site-packages"))
    subprocess.run(["git", "init", "-q"], cwd=project.root, check=True)
    configure(project, "command:.venv/bin/python agent.py")
    project.write("agent.py", f"import wanted\n{AGENT}")
    (packages / "wanted.py").write_text("")
    project.agree()
    (packages / "wanted.py").write_text(project.evil)
    assert "1 of 1 pass" in said(project.run())
    assert project.mark.exists()
    project.mark.unlink()
    subprocess.run(["git", "add", "-f", ".venv/pyvenv.cfg"], cwd=project.root, check=True)
    assert "wanted.py is not part of what you agreed to" in said(project.run())
    assert not project.mark.exists()


@pytest.mark.nightly
def test_a_server_of_tools_is_held_to_the_yes(project: Project) -> None:
    """The program that is started for an MCP server is the sealed one."""
    pytest.importorskip("mcp")
    configure(project, COMMAND)
    project.write("server.py", f"import helper\nhelper.word()\n{SERVER}")
    project.write(".evals/config.toml", '[targets.t]\nmodel = "demo"\ntools = { mcp = ["stdio:python server.py"] }\n')
    project.agree()
    plant_bytecode(project)
    project.run()
    assert (project.root / "began").exists()
    assert not project.mark.exists()
    (project.root / "began").unlink()
    plant_extension(project)
    assert project.run().code == 2
    assert not (project.root / "began").exists()


def test_what_is_tried_before_a_run_in_the_background_is_held_to_the_yes(project: Project) -> None:
    configure(project, CALL)
    project.write("helper.py", "import importlib\nword = importlib.import_module('plug' + 'in').word\n")
    project.write("plugin.py", project.evil)
    project.agree()
    here = load_project(project.root)
    config = find_target("t", here.settings)
    context = TargetContext(environment=here.environment, root=project.root, load_items=lambda file: [], apart=True)
    with pytest.raises(ConfigurationError, match=r"plugin\.py is not part of what you agreed to"):
        target_kind(config).check(config, context)
    assert not project.mark.exists()


def test_a_neighbour_in_the_repository_is_part_of_the_yes(project: Project) -> None:
    subprocess.run(["git", "init", "-q", project.root.parent], check=True)
    configure(project, COMMAND)
    (project.root / "helper.py").unlink()
    shared = project.root.parent / "shared"
    shared.mkdir()
    (shared / "helper.py").write_text(HELPER)
    project.write("agent.py", f"import sys\nsys.path.insert(0, '../shared')\n{AGENT}")
    project.agree()
    assert "../shared/helper.py is not part of what you agreed to" in said(project.run())
    assert project("trust", "../shared/helper.py").code == 0
    assert "1 of 1 pass" in said(project.run())
    (shared / "helper.py").write_text(project.evil)
    assert "../shared/helper.py has changed since you agreed to" in said(project.run())
    assert not project.mark.exists()
