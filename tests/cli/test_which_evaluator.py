"""The page "which evaluator for what": it names every evaluator, and its documents are valid and run."""

import json
import re

import pytest

from tui_evals.evaluators.registry import built_in
from tui_evals.text.manual import pages

PAGE = pages()["which-evaluator"]
NAMES = {kind.name for kind in built_in().values()}
DOCUMENTS = {
    section.partition("\n")[0]: re.findall(r"\n((?: {4}.*\n?)+)", section) for section in PAGE.split("\n## ")[1:]
}


def named() -> set[str]:
    table = PAGE.partition("\n## ")[0].partition("judge's calls\n")[2].partition("\n\n")[0]
    return {*re.findall(r"`(\w+)`", PAGE), *re.findall(r"\b[A-Z][a-z]\w+", table)}


def test_every_evaluator_is_on_the_page_and_the_page_names_no_other():
    assert sorted(NAMES - named()) == []
    no_evaluators = {"ignore_case", "json_path", "categories", "context", "expected_response", "ideal", "negate"}
    assert sorted(named() - NAMES - no_evaluators) == []


@pytest.mark.parametrize("task", DOCUMENTS)
def test_its_documents_are_valid_and_run(task, project, shell, monkeypatch):
    monkeypatch.setenv("TUI_EVALS_ALLOW_CODE", "1")
    (text,) = DOCUMENTS[task]
    document = json.loads(text)
    (project / "pasted.json").write_text(text)
    checked = shell("validate", "pasted.json")
    assert checked.code == 0, checked.out + checked.err
    done = shell("run", "pasted.json", "--target", "demo", "--judge", "demo")
    assert done.code in (0, 1), done.err
    lines = [json.loads(line) for line in shell("report", "last", "--to", "jsonl", "-o", "-").out.splitlines()]
    judged = {score["key"]: score for line in lines for score in line["scores"]}
    assert document["default_evaluators"].keys() <= judged.keys()
    assert [score for score in judged.values() if score["result"] == "error"] == []
