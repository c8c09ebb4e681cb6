"""JavaScript of a clone: files run after a yes to what they hold, and the rest has nothing within its reach."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.helpers import Shell
from tests.hostile.clone import KEY
from tui_evals.evaluators import javascript_engine, sandbox


@pytest.fixture
def folder(tmp_path: Path, stranger: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone of a stranger's repository."""
    place = tmp_path / "clone"
    (place / ".git").mkdir(parents=True)
    (place / ".git" / "config").write_text('[remote "origin"]\n\turl = https://git.invalid/x.git\n')
    monkeypatch.chdir(place)
    return place


def dataset(**evaluators: object) -> None:
    data = {"default_evaluators": evaluators, "items": [{"prompt": "hi"}]}
    Path("d.json").write_text(json.dumps(data))


def scores(shell: Shell) -> dict[str, tuple[str, str]]:
    (answer,) = json.loads(shell("show", "last", "--item", "#1", "--json").out)
    (found,) = answer["scores"].values()
    return {score["key"]: (score["result"], score["reason"]) for score in found}


RUN = ("run", "d.json", "-t", "command:cat", "--quiet")
REACHES = {
    "fetch": "fetch('http://127.0.0.1:1/')",
    "require": "require('fs').readFileSync('/etc/passwd')",
    "process": "process.env.OPENAI_API_KEY",
    "import": "import('os').then(os => os.getenv('OPENAI_API_KEY'))",
    "worker": "new Worker('x.js')",
    "python": "(() => {}).constructor('return python')()",
}


def test_code_of_a_dataset_reaches_neither_files_nor_network_nor_keys(shell: Shell, folder: Path) -> None:
    every = {name: {"type": "JavaScript", "code": code} for name, code in REACHES.items()}
    names = "Object.getOwnPropertyNames(globalThis).every(name => !/^(std|os|bjson|read|load|print)$/.test(name))"
    dataset(**every, Names={"type": "JavaScript", "code": names})
    done = shell(*RUN)
    assert done.code in (0, 1), done.err
    found = scores(shell)
    assert {name: result for name, (result, _) in found.items()} == {**dict.fromkeys(REACHES, "fail"), "Names": "pass"}
    assert "could not load module 'os'" in found["import"][1]
    assert KEY not in json.dumps(found)


def test_a_file_of_code_runs_as_it_was_agreed_to(shell: Shell, folder: Path) -> None:
    place = folder / "custom-evaluators" / "mine"
    place.mkdir(parents=True)
    (place / "mine.js").write_text("module.exports = (output) => output.length > 0;\n")
    dataset(mine={})
    refused = shell(*RUN)
    assert refused.code == 2 and "runs the evaluator mine (custom-evaluators/mine)" in refused.err
    assert shell("trust", "--yes").code == 0
    assert shell(*RUN).code == 0
    assert scores(shell)["mine"][0] == "pass"
    (place / "mine.js").write_text("module.exports = () => true;\n")
    assert shell(*RUN).code == 2


@pytest.mark.story
def test_where_the_engine_cannot_be_isolated_a_clone_asks_first(
    shell: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "isolation_kind", lambda: None)
    javascript_engine._engine.end()
    short = {"JavaScript": {"code": "output.length < 9"}}
    for evaluators in (short, {"AtLeast": {"evaluators": short}}):
        dataset(**evaluators)
        asked = shell(*RUN)
        assert asked.code == 2 and "judges with JavaScript, which this machine cannot isolate" in asked.err, asked.err
        assert shell(*RUN, "--trust").code == 0
    assert shell("trust", "--yes").code == 0
    dataset(**short)
    done = shell(*RUN)
    assert done.code == 0 and "not isolated: this machine has neither" in done.err
    javascript_engine._engine.end()


def test_tests_that_code_makes_are_made_after_a_yes(shell: Shell, folder: Path) -> None:
    Path("gen.js").write_text("module.exports = () => [{ vars: { q: 'made' } }];\n")
    Path("promptfooconfig.yaml").write_text("prompts: ['{{q}}']\ntests: [file://gen.js, {vars: {q: own}}]\n")
    waiting = shell("import", ".", "--name", "waiting")
    assert waiting.code == 0 and "its code waits for your yes" in waiting.out
    assert len(json.loads(Path("waiting.json").read_text())["items"]) == 1
