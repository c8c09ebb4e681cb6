"""The golden cases of runevals that concern the document, by their number."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tui_evals.datasets.discover import find_dataset
from tui_evals.datasets.document import inline_document, load
from tui_evals.datasets.model import Dataset
from tui_evals.datasets.paths import CURRENT_VERSION, DatasetError
from tui_evals.datasets.portable import PUBLIC
from tui_evals.datasets.resolve import allowed_tools, resolve_evaluators
from tui_evals.datasets.save import upgrade
from tui_evals.datasets.validate import ValidationReport, validate


def checked(folder: Path, data: object) -> ValidationReport:
    file = folder / "dataset.json"
    file.write_text(json.dumps(data, indent=2), encoding="utf-8")
    return validate(load(file), PUBLIC)


def names(dataset: Dataset | None, item: int = 0, turn: int = 0) -> dict[str, Any]:
    assert dataset is not None
    return {entry.key: dict(entry.settings) for entry in resolve_evaluators(dataset, dataset.items[item].units[turn])}


def document(*items: dict[str, Any], **root: Any) -> dict[str, Any]:
    return {"schemaVersion": "1.2.0", **root, "items": list(items)}


def test_golden_01_the_smallest_document_gets_the_system_defaults(tmp_path):
    report = checked(tmp_path, {"schemaVersion": "1.0.0", "items": [{"prompt": "What is Microsoft 365?"}]})
    assert report.valid and report.portable
    assert names(report.dataset) == {"Relevance": {}, "Coherence": {}}
    assert PUBLIC["Relevance"]().threshold == 3


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({"prompt": "a", "turns": [{"prompt": "b"}]}, "items[0]: has both prompt and turns"),
        ({"turns": []}, "items[0].turns: must hold at least one entry"),
        ({"turns": [{"expected_response": "x"}]}, "items[0].turns[0]: prompt is missing"),
        (
            {"turns": [{"prompt": "a", "expeceted_response": "b"}]},
            "items[0].turns[0]: unknown field 'expeceted_response' (did you mean 'expected_response'?)",
        ),
        ({"turns": [{"prompt": "a"}] * 2001}, "items[0].turns: holds 2,001 entries; 2,000 is the most"),
    ],
)
def test_golden_02_an_item_that_is_neither_one_prompt_nor_turns_is_invalid(tmp_path, item, said):
    report = checked(tmp_path, document(item))
    assert not report.valid
    assert any(str(problem).startswith(said) for problem in report.problems)


def test_golden_02_twenty_turns_are_portable(tmp_path):
    report = checked(tmp_path, document({"turns": [{"prompt": "a"}] * 20}))
    assert report.valid and report.portable


def test_golden_03_extend_adds_to_the_defaults(tmp_path):
    item = {"prompt": "a", "evaluators": {"Citations": {"citation_format": "mixed"}}, "evaluators_mode": "extend"}
    report = checked(tmp_path, document(item, default_evaluators={"Relevance": {}, "Coherence": {}}))
    assert names(report.dataset) == {"Relevance": {}, "Coherence": {}, "Citations": {"citation_format": "mixed"}}
    assert PUBLIC["Citations"].model_validate({"citation_format": "mixed"}).threshold == 1


def test_golden_04_each_turn_resolves_alone(tmp_path):
    turns = [
        {"prompt": "I spent $250 on dinner. Is that okay?", "expected_response": "The allowance is $200."},
        {
            "prompt": "What should I do about the overage?",
            "evaluators": {"ExactMatch": {"case_sensitive": False}},
            "evaluators_mode": "replace",
        },
    ]
    thread = {"name": "Expense policy flow", "turns": turns}
    report = checked(tmp_path, document(thread, default_evaluators={"Relevance": {}, "Coherence": {}}))
    assert report.portable
    assert names(report.dataset, turn=0) == {"Relevance": {}, "Coherence": {}}
    assert names(report.dataset, turn=1) == {"ExactMatch": {"case_sensitive": False}}


def test_golden_05_the_options_of_the_unit_win(tmp_path):
    defaults = {"Relevance": {}, "Coherence": {}, "Groundedness": {}}
    item = {"prompt": "a", "evaluators": {"Groundedness": {"threshold": 4}}}
    report = checked(tmp_path, document(item, default_evaluators=defaults))
    assert names(report.dataset) == {"Relevance": {}, "Coherence": {}, "Groundedness": {"threshold": 4}}


def test_golden_06_without_file_defaults_the_system_ones_are_extended(tmp_path):
    report = checked(tmp_path, document({"prompt": "a"}, {"prompt": "b", "evaluators": {"Citations": {}}}))
    assert names(report.dataset, item=0) == {"Relevance": {}, "Coherence": {}}
    assert names(report.dataset, item=1) == {"Relevance": {}, "Coherence": {}, "Citations": {}}


def test_golden_09_a_bare_array_is_upgraded_with_a_backup(tmp_path):
    file = tmp_path / "evals.json"
    original = b'[{"prompt": "a",\n  "expected_response": "b"}]'
    file.write_bytes(original)
    done = upgrade(load(file))
    assert json.loads(file.read_text()) == {
        "schemaVersion": CURRENT_VERSION,
        "items": [{"prompt": "a", "expected_response": "b"}],
    }
    assert done.before is None and done.backup is not None
    assert re.fullmatch(r"evals\.json\.bak\.\d{14}", done.backup.name)
    assert done.backup.read_bytes() == original


def test_golden_09_an_older_version_changes_its_version_only(tmp_path):
    file = tmp_path / "evals.json"
    file.write_text('{"items":[ {"prompt":"a"} ],\n "schemaVersion" : "1.0.0"}\n')
    upgrade(load(file))
    assert file.read_text() == f'{{"items":[ {{"prompt":"a"}} ],\n "schemaVersion" : "{CURRENT_VERSION}"}}\n'
    assert [path.name for path in tmp_path.iterdir()] == ["evals.json"]


@pytest.mark.parametrize("version", ["9.0.0", "1.12.0", "2.0.0"])
def test_golden_09_a_newer_version_is_refused(tmp_path, version):
    file = tmp_path / "evals.json"
    file.write_text(json.dumps({"schemaVersion": version, "items": [{"prompt": "a"}]}))
    with pytest.raises(DatasetError, match=f"version {version}, newer than .* upgrade tui-evals"):
        upgrade(load(file))
    report = validate(load(file), PUBLIC)
    assert not report.valid and f"version {version}, newer" in str(report.problems[0])


def test_golden_10_the_current_directory_goes_before_evals(tmp_path):
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals" / "prompts.json").touch()
    (tmp_path / "tests.json").touch()
    assert find_dataset(tmp_path) == tmp_path / "tests.json"
    (tmp_path / "prompts.json").touch()
    assert find_dataset(tmp_path) == tmp_path / "prompts.json"


@pytest.mark.parametrize(
    ("record", "valid"),
    [
        ({"result": "error", "error": "judge unreachable"}, True),
        ({"result": "error", "error": "judge unreachable", "code": "judgeTimeout"}, True),
        ({"result": "error", "error": "x", "score": 3}, False),
        ({"result": "error", "error": "x", "threshold": 3}, False),
        ({"result": "error"}, False),
        ({"result": "error", "error": ""}, False),
        ({"result": "pass", "score": 4, "threshold": 3}, True),
    ],
)
def test_golden_16_an_errored_score_is_closed(tmp_path, record, valid):
    assert checked(tmp_path, document({"prompt": "a", "scores": {"relevance": record}})).valid is valid


def test_golden_17_allowed_tools_extend_replace_and_fail_closed(tmp_path):
    items = [
        {"prompt": "a", "allowed_tools": ["learnmicro_microsoft_docs_search"]},
        {"prompt": "b", "allowed_tools": [], "allowed_tools_mode": "replace"},
        {"turns": [{"prompt": "c", "allowed_tools": ["x_y"]}, {"prompt": "d"}]},
    ]
    report = checked(tmp_path, document(*items, default_allowed_tools=["github_orgs_get"]))
    dataset = report.dataset
    assert dataset is not None
    assert allowed_tools(dataset, dataset.items[0]) == ("github_orgs_get", "learnmicro_microsoft_docs_search")
    assert allowed_tools(dataset, dataset.items[1]) == ()
    assert allowed_tools(dataset, dataset.items[2].units[1]) == ("github_orgs_get",)
    without = checked(tmp_path, document({"prompt": "a"})).dataset
    assert without is not None and allowed_tools(without, without.items[0]) == ()
    assert not checked(tmp_path, document({"prompt": "a", "allowed_tools": [""]})).valid


def test_golden_18_inline_prompts_want_one_expected_response_each():
    with pytest.raises(DatasetError, match="2 prompts but 1 expected"):
        inline_document(["a", "b"], ["x"])
    assert inline_document(["a"], ["x"])["items"] == [{"prompt": "a", "expected_response": "x"}]
