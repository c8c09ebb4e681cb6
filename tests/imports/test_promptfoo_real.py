"""What the real promptfoo asked and judged, compared with what the imported datasets ask and judge.

The results were recorded by tests/interop/promptfoo_fixtures.mjs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tui_evals.datasets.document import Document
from tui_evals.datasets.model import Dataset
from tui_evals.datasets.resolve import resolve_evaluators
from tui_evals.datasets.validate import validate
from tui_evals.evaluators.base import Evidence, evaluate
from tui_evals.evaluators.registry import load_registry
from tui_evals.imports.promptfoo import Configuration, read_config
from tui_evals.runs.prompting import Chat, PromptUnderTest, chat_for, of_dataset

HERE = Path(__file__).parent / "promptfoo"
NAMES = ("asserts", "countries", "scenarios", "chats", "javascript")


@cache
def imported(name: str) -> Configuration:
    return read_config((HERE / f"{name}.yaml").read_text(encoding="utf-8"), f"{name}.yaml", HERE)[0]


def recorded() -> list[Any]:
    found = []
    for name in NAMES:
        rows = json.loads((HERE / f"{name}.results.json").read_text(encoding="utf-8"))["results"]
        found += [pytest.param(name, row, id=f"{name}-{row['test']}-{row['prompt']}") for row in rows]
    return found


def as_asked(chat: Chat) -> str:
    """A chat as promptfoo records it: a lone user message as its text, others as JSON."""
    if len(chat) == 1 and chat[0]["role"] == "user":
        return str(chat[0]["content"])
    return json.dumps(list(chat), ensure_ascii=False, indent=2)


@pytest.mark.parametrize("name", [*NAMES, "letters"])
def test_an_imported_configuration_is_a_valid_dataset(name: str) -> None:
    data = imported(name).data
    named = {**data, "prompt_file": "p.prompty"} if "messages" not in data else data
    document = Document(HERE / "x.json", json.dumps(named), "", "document", named)
    assert [str(one) for one in validate(document, load_registry().catalogue).problems if one.severity == "error"] == []


@pytest.mark.parametrize(("name", "row"), recorded())
def test_the_same_is_asked(name: str, row: Mapping[str, Any]) -> None:
    found = imported(name)
    dataset = Dataset.model_validate(found.data)
    prompt = of_dataset(dataset)
    if len(found.prompts) > 1:
        prompt = PromptUnderTest(messages=tuple(found.prompts[row["prompt"]].messages))
    assert as_asked(chat_for(dataset, dataset.items[row["test"]], 0, prompt, ())) == row["asked"]


@pytest.mark.parametrize(("name", "row"), recorded())
async def test_every_assertion_says_the_same_of_the_same_answer(name: str, row: Mapping[str, Any]) -> None:
    dataset = Dataset.model_validate(imported(name).data)
    item = dataset.items[row["test"]]
    variables = {**(dataset.variables or {}), **(item.variables or {})}
    evidence = Evidence(response=row["answered"], latency_ms=1.0, cost=0.0, variables=variables)
    verdicts = []
    for one in resolve_evaluators(dataset, item):
        record = await evaluate(load_registry().build(one.evaluator, one.settings), evidence)
        verdicts.append(record.result == "pass")
        assert record.result in ("pass", "fail"), record.reason
    assert verdicts == [one["passed"] for one in row["asserts"]]
    share = sum(verdicts) / len(verdicts) if verdicts else 1
    assert (share >= (item.threshold or 1)) == row["passed"]


def test_every_test_and_prompt_of_the_configurations_was_recorded() -> None:
    for name in NAMES:
        rows = json.loads((HERE / f"{name}.results.json").read_text(encoding="utf-8"))["results"]
        found = imported(name)
        expected = {(test, prompt) for test in range(len(found.data["items"])) for prompt in range(len(found.prompts))}
        assert {(row["test"], row["prompt"]) for row in rows} == expected
