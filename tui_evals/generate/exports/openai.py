"""Exports of a generation, written and never sent: bodies for OpenAI's Evals, and prompt files of GitHub Models."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tui_evals.generate.shapes import Test, Truth
from tui_evals.generate.subject import Subject
from tui_evals.text.prompty import Prompty

from .github import github_prompt
from .shared import (
    JUDGE,
    Export,
    Facts,
    Row,
    Spell,
    constants,
    free,
    judging,
    messages_of,
    model_of,
    readable,
    rows_of_tests,
    tags_of,
)

KNOWN = ("prompt", "input", "intent", "inputSpec", "rules", "groundtruth")
"""What metrics may name besides the inputs of the prompt and the output."""


def exports(
    subject: Subject,
    tests: Sequence[Test],
    truths: Sequence[Truth],
    facts: Facts,
    metrics: Mapping[str, Path],
    models: Sequence[str],
) -> list[Export]:
    """Everything there is to write: for OpenAI how answers are graded, and for each model under test what it takes."""
    run = evals_run(subject, tests, truths, facts, models)
    prompts = [github_prompt(subject, tests, truths, facts, model, metrics) for model in models]
    return [evals_create(subject, metrics), *(one for one in (run, *prompts) if one is not None)]


def evals_create(subject: Subject, metrics: Mapping[str, Path]) -> Export:
    """The body that creates an eval: what its rows hold, and a grader for each metric."""
    keys = _keys(subject)
    computed = messages_of(subject, _item)[1]
    properties: dict[str, Any] = {
        one.name: {"type": "string"} | ({"description": one.description} if one.description else {})
        for one in subject.inputs
    }
    properties |= {key: {"type": "string"} for key in (*keys.values(), *computed)}
    required = [*(one.name for one in subject.inputs), keys["prompt"], keys["input"]]
    left_out: list[str] = []
    body = {
        "name": f"{subject.name} (promptpex)",
        "data_source_config": {
            "type": "custom",
            "item_schema": {"type": "object", "properties": properties, "required": required},
            "include_sample_schema": True,
        },
        "testing_criteria": [
            _grader(name, prompt, messages)
            for name, prompt in readable(metrics, left_out)
            if (messages := judging(name, prompt, _graded(subject), left_out))
        ],
    }
    return Export("evals.create.json", _json(body), tuple(left_out))


def _grader(name: str, prompt: Prompty, messages: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    shared = {"name": name, "model": JUDGE, "input": [{"type": "message", **message} for message in messages]}
    if "scorer" in tags_of(prompt):
        return {"type": "score_model", **shared, "range": [0, 100], "pass_threshold": 50}
    return {"type": "label_model", **shared, "labels": ["OK", "ERR"], "passing_labels": ["OK"]}


def evals_run(
    subject: Subject, tests: Sequence[Test], truths: Sequence[Truth], facts: Facts, models: Sequence[str]
) -> Export | None:
    """The bodies that start a run of the eval, one for each model of OpenAI or Azure; None when there is none."""
    asked = [name for model in models if (name := model_of(model, "openai", "azure"))]
    if not asked:
        return None
    messages, computed = messages_of(subject, _item)
    rows, left_out = rows_of_tests(subject, tests, truths, computed)
    source = {"type": "file_content", "content": [{"item": _item_of(subject, row, facts)} for row in rows]}
    template = [{"type": "message", **message} for message in messages]
    bodies = [
        {
            "name": f"{subject.name} · {name}",
            "data_source": {
                "type": "completions",
                "model": name,
                "input_messages": {"type": "template", "template": template},
                "source": source,
            },
        }
        for name in asked
    ]
    return Export("evals.run.json", _json(bodies), left_out)


def _item_of(subject: Subject, row: Row, facts: Facts) -> dict[str, str]:
    """One row of the data: every value as the text that stands in the prompt."""
    keys = _keys(subject)
    known = {**constants(subject, facts), "input": row.test.testinput, "groundtruth": row.expected}
    values = {name: str(value) for name, value in row.values.items()}
    return {**values, **{keys[name]: known[name] for name in KNOWN}, **row.computed}


def _graded(subject: Subject) -> Spell:
    """How a metric's names are spelled for OpenAI; a name that no row holds is empty, as in a run of ours."""
    keys = {one.name: one.name for one in subject.inputs} | _keys(subject)
    return lambda name: "{{sample.output_text}}" if name == "output" else _item(keys[name]) if name in keys else ""


def _keys(subject: Subject) -> dict[str, str]:
    return {name: free(name, subject) for name in KNOWN}


def _item(name: str) -> str:
    return f"{{{{item.{name}}}}}"


def _json(value: object) -> str:
    """The value as a file holds it: halves of surrogate pairs, which no file can hold, are question marks."""
    return json.dumps(value, ensure_ascii=False, indent=2).encode("utf-8", "replace").decode("utf-8") + "\n"
