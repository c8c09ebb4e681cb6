"""What the command line asks of the workbench, and what it says where none can be shown."""

import subprocess
import sys
import types

import pytest

from tui_evals import __main__ as door
from tui_evals.cli.main import run
from tui_evals.cli.opening import Opening
from tui_evals.datasets.discover import make_project


@pytest.fixture
def terminal(project, monkeypatch):
    """A person sits before the project."""
    screen = types.SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr("tui_evals.cli.opening.sys", types.SimpleNamespace(stdin=screen, stdout=screen))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("TUI_EVALS_DB", raising=False)
    return project


WITHOUT = [
    ([], "`tui-evals --help` lists the commands that do not"),
    (["data.json"], "`tui-evals run data.json`"),
    (["demo"], "`tui-evals demo --plain`"),
    (["watch", "last", "--tui"], "`tui-evals watch RUN`"),
]


@pytest.mark.parametrize(("arguments", "instead"), WITHOUT)
def test_without_a_terminal_each_says_what_to_run_instead_and_makes_nothing(shell, project, arguments, instead):
    done = shell(*arguments)
    assert done.code == 2 and done.out == ""
    assert done.err.startswith("the workbench needs a terminal; ") and instead in done.err
    assert not list(project.iterdir())


def test_a_dumb_terminal_is_none(terminal, monkeypatch, shell):
    monkeypatch.setenv("TERM", "dumb")
    done = shell()
    assert done.code == 2 and "TERM is dumb" in done.err


def test_no_command_opens_the_project_of_the_current_directory(terminal, monkeypatch):
    make_project(terminal)
    inner = terminal / "deep" / "down"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert run([]) == Opening(terminal, terminal / ".evals" / "evals.db")
    assert (terminal / ".evals" / "evals.db").exists()


def test_the_database_may_be_named(terminal):
    assert run(["--db", str(terminal / "other.db"), "--no-mouse"]) == Opening(
        terminal, terminal / "other.db", mouse=False
    )


@pytest.mark.parametrize("name", ["data.json", "DATA.CSV", "not-there-yet.jsonl.gz", "odd"])
@pytest.mark.parametrize("mouse", [True, False])
def test_a_dataset_in_place_of_a_command_opens_on_it(terminal, name, mouse):
    (terminal / "odd").write_text("{}")
    found = run([name] if mouse else [name, "--no-mouse"])
    assert found == Opening(terminal, terminal / ".evals" / "evals.db", terminal / name, mouse=mouse)


def test_the_name_of_a_dataset_is_enough_for_the_workbench_and_for_commands(terminal, shell):
    (terminal / "evals").mkdir()
    (terminal / "evals" / "support.json").write_text('{"schemaVersion": "1.11.0", "items": [{"prompt": "x"}]}')
    assert run(["support"]).dataset == terminal / "evals" / "support.json"
    assert "evals/support.json: valid" in shell("validate", "support").out
    assert "Relevance" in shell("resolve", "support").out
    done = shell("run", "support", "--target", "demo", "--plan", "--evaluators", "Equals")
    assert done.code == 0, done.err
    (terminal / "support.csv").write_text("input\nx\n")
    for words in (["support"], ["run", "support", "--target", "demo"], ["validate", "support"]):
        done = shell(*words)
        assert done.code == 2 and "could be evals/support.json or support.csv; name the file itself" in done.err


def test_a_dataset_elsewhere_opens_the_project_it_belongs_to(terminal, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    make_project(other)
    (other / "evals").mkdir()
    found = run([str(other / "evals" / "data.json")])
    assert (found.root, found.database) == (other, other / ".evals" / "evals.db")
    assert not (terminal / ".evals").exists()


def test_a_command_is_no_dataset_whatever_files_there_are(terminal, capsys):
    (terminal / "runs").write_text("{}")
    assert run(["runs"]) == 0
    assert "no runs yet" in capsys.readouterr().out


def test_a_run_is_opened_by_its_id_and_an_unknown_one_is_refused(terminal, shell):
    assert shell("watch", "nosuchrun", "--tui").code == 2
    assert "not both" in shell("watch", "last", "--tui", "--json").err


def test_the_help_of_a_dataset_names_it(shell):
    assert "tui-evals data.json [OPTIONS]" in shell("data.json", "--help").out


@pytest.mark.parametrize("demo", [True, False])
@pytest.mark.parametrize(("code", "left"), [(7, "an error \x1b[2J of its own"), (0, "")])
def test_the_doors_hand_the_request_over_and_say_what_is_left(monkeypatch, tmp_path, capsys, demo, code, left):
    asked = []
    fake = types.ModuleType("tui_evals.tui.launch")
    fake.open_workbench = lambda root, **more: asked.append((root, more)) or (code, left)
    monkeypatch.setitem(sys.modules, "tui_evals.tui.launch", fake)
    opening = Opening(tmp_path, tmp_path / "a.db", tmp_path / "d.json", "k4711", mouse=False, demo=demo)
    monkeypatch.setattr("tui_evals.cli.main.run", lambda _: opening)
    with pytest.raises(SystemExit) as ended:
        door.main()
    assert ended.value.code == code
    more = {"database": opening.database, "dataset": opening.dataset, "run": "k4711", "mouse": False}
    assert asked == [(tmp_path, more)]
    said = capsys.readouterr()
    assert (str(tmp_path) in said.out) is demo
    assert ("an error" in said.err) is bool(left) and "\x1b" not in said.err


def test_asking_for_the_workbench_imports_no_screen(project):
    code = (
        "import sys; sys.stdin.isatty = sys.stdout.isatty = lambda: True\n"
        "from tui_evals.cli.main import run; run([]); print('textual' in sys.modules or 'rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=project)
    assert done.stdout == "False\n"
