"""A package adds a target, an importer, a report and an evaluator: each one object and one line of entry points.

The package is made on the spot, as a folder on the path with the metadata an installer writes, and used by the real
command line in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tui_evals.plugins import offered

CODE = '''
"""What a package would bring."""

import json

from pydantic import BaseModel

from tui_evals.evaluators.base import Evaluator, verdict_score
from tui_evals.imports.base import Importer
from tui_evals.imports.keeping import keep_dataset, text_of
from tui_evals.imports.base import Losses
from tui_evals.reports.results import ReportKind
from tui_evals.targets.base import ConfigurationError, Reply, TargetKind


class Echo:
    """Answers with the question, after a word."""

    def __init__(self, word):
        self._word = word

    async def ask(self, request):
        return Reply(text=f"{self._word} {request.messages[-1]['content']}")

    async def close(self):
        pass


def open_echo(config, context):
    word = config.model.removeprefix("echo:")
    if word == "nothing":
        raise ConfigurationError("echo:nothing says nothing; write echo:WORD")
    return Echo(word)


TARGET = TargetKind(form="echo:WORD", open=open_echo)


class StartsWith(Evaluator):
    """Passes when the answer starts with the expected text."""

    name = "StartsWith"
    family = "extra"

    class Options(BaseModel):
        trim: bool = False

    async def score(self, evidence):
        response = evidence.response.strip() if self.options.trim else evidence.response
        return verdict_score(response.startswith(evidence.expected or ""), "compared the start")


def read_quiz(request):
    losses = Losses()
    items = []
    for number, line in enumerate(text_of(request.path).splitlines(), 1):
        question, _, answer = line.partition("=")
        items.append({"prompt": question, "expected_response": answer})
        if not answer:
            losses.left_out("a question without an answer", f"{request.path}:{number}")
            items.pop()
    losses.carried(f"{len(items)} questions")
    document = {"schemaVersion": "1.11.0", "items": items, "default_evaluators": {"StartsWith": {}}}
    return keep_dataset(request, request.dataset_file(request.path.stem), document, losses)


def refuse(request):
    raise RuntimeError("no such luck")


IMPORTER = Importer(kind="quiz", about="a quiz (.quiz)", recognises=lambda path: path.suffix == ".quiz", read=read_quiz)
UNLUCKY = Importer(kind="any", about="unlucky", recognises=lambda path: path.suffix == ".unlucky", read=refuse)


def tally(reader, runs, raw):
    rows = [row for run in runs for row in reader.all_rows(run.id)]
    return json.dumps([row.status for row in rows])


REPORT = ReportKind((".tally",), tally)
'''

ENTRY_POINTS = """
[tui_evals.targets]
echo = extra:TARGET
broken = extra_broken:TARGET
demo = extra:TARGET

[tui_evals.importers]
quiz = extra:IMPORTER
unlucky = extra:UNLUCKY
gone = extra:GONE
messages = extra:UNLUCKY

[tui_evals.reports]
tally = extra:REPORT
wrong = extra:TARGET

[tui_evals.evaluators]
StartsWith = extra:StartsWith
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package, as an installer leaves it."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "extra.py").write_text(CODE)
    (folder / "extra_broken.py").write_text("raise RuntimeError('needs a licence')\n")
    metadata = folder / "extra-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: extra\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


@pytest.fixture
def command(package: Path, tmp_path: Path):
    """The command line in a fresh process that finds the package."""
    (tmp_path / ".evals").mkdir()

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tui_evals", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(package), str(Path(__file__).parent.parent)])},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_a_folder_that_comes_onto_the_path_brings_what_it_offers_at_once(package, monkeypatch):
    before = offered("tui_evals.reports")
    with monkeypatch.context() as path:
        path.syspath_prepend(str(package))
        assert {"tally", "wrong"} <= {point.name for point in offered("tui_evals.reports")}
    assert offered("tui_evals.reports") == before


@pytest.mark.nightly
def test_all_four_are_used_by_the_command_line(command, tmp_path):
    (tmp_path / "capitals.quiz").write_text("Austria?=yes\nFrance?=no\nNowhere?\n")
    done = command("import", "capitals.quiz", "--json")
    result = json.loads(done.stdout)
    assert (result["kind"], result["dataset"], result["items"]) == ("quiz", "capitals.json", 2)
    assert {"left out", "carried"} == {loss["kind"] for loss in result["losses"]}
    assert any("capitals.quiz:3" in loss["where"] for loss in result["losses"])

    done = command("run", "capitals.json", "--target", "echo:yes", "-o", "out.tally", "--quiet")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out.tally").read_text()) == ["pass", "fail"], done.stderr

    done = command("report", "last", "--to", "tally", "-o", "-")
    assert (done.returncode, done.stdout) == (0, '["pass", "fail"]')
    shown = json.loads(command("show", "last", "--json").stdout)
    assert shown["run"]["targets"] == ["echo:yes"] and shown["status"] == "finished"
    assert "StartsWith" in command("evaluators").stdout


@pytest.mark.nightly
def test_a_target_of_a_package_can_stand_in_the_settings(command, tmp_path):
    (tmp_path / ".evals" / "config.toml").write_text('[targets.parrot]\nmodel = "echo:yes"\n')
    items = [{"prompt": "?", "expected_response": "yes"}]
    (tmp_path / "d.json").write_text(json.dumps({"items": items, "default_evaluators": {"Includes": {}}}))
    done = command("run", "d.json", "--target", "parrot", "--quiet")
    assert done.returncode == 0, done.stderr
    refused = command("run", "d.json", "--target", "echo:nothing", "--quiet")
    assert refused.returncode == 3 and "echo:nothing says nothing" in refused.stderr
    unknown = command("run", "d.json", "--target", "ecco")
    assert unknown.returncode == 3 and "echo:WORD or demo" in unknown.stderr


BROKEN = {
    "run d.json --target broken:x --without-judges": "installed target 'broken' (extra_broken:TARGET) cannot be loaded",
    "targets check broken:x": "needs a licence",
    "import d.json --from gone": "the installed importer 'gone' (extra:GONE) cannot be loaded",
    "import x.unlucky": "the installed importer 'unlucky' failed: no such luck",
    "report --to wrong": "the installed report 'wrong' (extra:TARGET) is no ReportKind",
    "run d.json --target demo --without-judges -o x.odd": "is no ReportKind",
}


@pytest.mark.nightly
def test_what_is_broken_is_a_sentence(package, tmp_path):
    (tmp_path / ".evals").mkdir()
    (tmp_path / "d.json").write_text('{"items": [{"prompt": "?"}]}')
    (tmp_path / "x.unlucky").write_text("")
    code = (
        "import sys; from tui_evals.cli.main import run\n"
        "for words in sys.argv[1:]: print(); print(words, run(words.split()), sep='=', end='=', flush=True)"
    )
    done = subprocess.run(
        [sys.executable, "-u", "-c", code, *BROKEN],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(package), str(Path(__file__).parent.parent)])},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    assert "Traceback" not in done.stdout
    said = ""
    for part in done.stdout.split("\n"):
        said += part + "\n"
        words, _, code = part.rstrip("=").partition("=")
        if words in BROKEN:
            assert code != "0" and BROKEN[words] in said, said
            said = ""
    assert not said.strip()


@pytest.mark.nightly
def test_a_broken_package_takes_nothing_from_the_rest(command, tmp_path):
    (tmp_path / "chat.json").write_text('[{"role": "user", "content": "?"}]')
    done = command("import", "chat.json")
    assert done.returncode == 0 and "dataset: chat-dataset.json (written)" in done.stdout
    assert "note: the installed importer 'messages' has the name of a built-in one and is left out" in done.stderr
    assert "note: the installed importer 'gone' (extra:GONE) cannot be loaded" in done.stderr
    (tmp_path / "d.json").write_text('{"items": [{"prompt": "?", "expected_response": "x"}]}')
    assert command("run", "d.json", "--target", "demo", "--without-judges", "--quiet").returncode in (0, 1)


@pytest.mark.nightly
def test_help_and_a_plain_run_load_no_package(package, tmp_path):
    (tmp_path / "d.json").write_text('{"items": [{"prompt": "?", "expected_response": "x"}]}')
    code = (
        "import sys; from tui_evals.cli.main import run; run(sys.argv[1:]); "
        "print({'extra', 'extra_broken'} & {*sys.modules}, file=sys.stderr)"
    )
    plain_run = ["run", "d.json", "--target", "demo", "--without-judges", "--quiet"]
    # A run knows every evaluator there is, so the module with the evaluator is loaded; the targets' is not.
    for arguments, loaded in ((["--help"], "set()"), (["run", "--help"], "set()"), (plain_run, "{'extra'}")):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(package), str(Path(__file__).parent.parent)])},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr.splitlines()[-1] == loaded, done.stderr
