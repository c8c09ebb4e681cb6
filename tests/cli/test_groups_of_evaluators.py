"""A group of evaluators in a run: who it asks, and what is said where there is nobody to ask."""

import json
from pathlib import Path


def test_a_group_with_a_judged_evaluator_needs_a_judge_and_one_without_needs_none(shell, project) -> None:
    groups = {
        "judged.json": {"Equals": {"value": "hi"}, "Rubric": {"criteria": "kind"}},
        "plain.json": {"Equals": {"value": "hi"}, "Length": {"at_most": 1}},
    }
    for name, evaluators in groups.items():
        item = {"prompt": "hi", "evaluators": {"AtLeast": {"threshold": 0.5, "evaluators": evaluators}}}
        Path(name).write_text(json.dumps({"schemaVersion": "1.11.0", "default_evaluators": {}, "items": [item]}))
    refused = shell("run", "judged.json", "-t", "command:cat", "--trust", "--quiet")
    assert refused.code == 3
    assert "AtLeast is judged by a model and no judge is named" in refused.err
    done = shell("run", "plain.json", "-t", "command:cat", "--trust", "--quiet")
    assert done.code == 0, done.err
    assert "1 of 2 passed (Length: 2 characters" in shell("show", "last", "--item", "#1").out
