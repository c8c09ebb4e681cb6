"""Our reading of a registry beside what the real package made of it; `tests/interop/evals_registry.py` wrote that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tui_evals.datasets.model import Dataset, Item
from tui_evals.datasets.resolve import resolve_evaluators
from tui_evals.evaluators.base import Evaluator, Evidence, Question, Score
from tui_evals.evaluators.registry import built_in
from tui_evals.imports.openai_evals import Registry, load

HERE = Path(__file__).parent
REAL: dict[str, Any] = json.loads((HERE / "example.json").read_text(encoding="utf-8"))
FOLDER = "colours-parts.dev.v0"  # the package numbers the samples of a folder as the file system lists its files
UNLIKE = "rival.dev.v0"  # asks two different questions in one sample
RAN = [name for name, run in REAL["runs"].items() if "error" not in run and name not in (FOLDER, UNLIKE)]
JUDGED = [name for name in RAN if name.startswith("jokes")]
ALWAYS = {"top_p": 1, "frequency_penalty": 0, "presence_penalty": 0, "n": 1}


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load([HERE / "example"], {name: kind.Options for name, kind in built_in().items()})


def dataset(registry: Registry, name: str, most: int | None = None) -> Dataset:
    return Dataset.model_validate(registry.find(name)[0].document(most)[0])


def calls(name: str, sample: str, role: str = "target", part: str = "all") -> list[dict[str, Any]]:
    return [call for call in REAL["runs"][name][part] if call["sample"] == sample and call["role"] == role]


def asked(item: Item) -> list[dict[str, Any]]:
    messages = [message.model_dump(exclude_none=True) for message in item.messages or ()]
    return [*messages, {"role": "user", "content": item.prompt}] if item.prompt is not None else messages


def test_every_name_leads_to_the_eval_it_leads_to_there(registry: Registry) -> None:
    assert {name: registry.find(name)[0].name for name in REAL["names"]} == REAL["names"]


def test_every_set_holds_the_evals_it_holds_there(registry: Registry) -> None:
    assert {name: sorted(spec.name for spec in registry.find(name)) for name in REAL["sets"]} == REAL["sets"]


def test_classes_and_arguments_are_read_as_there(registry: Registry) -> None:
    entries = registry.entries["evals"]
    ours = {name: [entries[name].data["class"], entries[name].data.get("args")] for name in REAL["arguments"]}
    assert ours == REAL["arguments"]


def test_max_samples_takes_the_samples_the_package_takes_in_its_order(registry: Registry) -> None:
    for name in RAN:
        order = list(dict.fromkeys(call["sample"] for call in REAL["runs"][name]["first"]))
        assert [item.testId for item in dataset(registry, name, 2).items] == order, name


def test_all_samples_are_there_in_the_order_of_the_file(registry: Registry) -> None:
    for name in RAN:
        there = {call["sample"] for call in REAL["runs"][name]["all"]}
        ours = [item.testId or "" for item in dataset(registry, name).items]
        assert set(ours) == there
        assert ours == sorted(ours, key=lambda sample: int(sample.rsplit(".", 1)[1]))


def test_the_target_is_asked_what_the_package_asks_it(registry: Registry) -> None:
    compared = 0
    for name in RAN:
        for item in dataset(registry, name).items:
            for call in calls(name, item.testId or ""):
                prompt = call["prompt"]
                chat = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
                assert asked(item) == chat, item.testId
                compared += 1
    assert compared > 50


def test_a_folder_holds_the_samples_the_package_finds_in_it(registry: Registry) -> None:
    there = sorted(call["prompt"] for call in REAL["runs"][FOLDER]["all"])
    assert sorted(item.prompt or "" for item in dataset(registry, FOLDER).items) == there


def test_the_parameters_it_sends_are_told(registry: Registry) -> None:
    for name in RAN:
        spec = registry.find(name)[0]
        for call in REAL["runs"][name]["all"]:
            told = spec.needs.judge_params if call["role"] == "judge" else spec.needs.params
            always = ALWAYS if spec.needs.judge else {}
            assert {**always, **told} == call["params"], name


def test_choices_stand_under_the_letters_the_package_gives_them(registry: Registry) -> None:
    for item, there in zip(dataset(registry, "quiz").items, REAL["lettered"], strict=True):
        assert item.testId == there["sample"]
        assert (item.prompt or "").endswith("\n" + there["choices"])
        assert item.expected_response == there["letter"]


@pytest.mark.parametrize("name", [name for name in RAN if name not in JUDGED])
def test_rows_and_accuracy_without_a_judge_are_those_of_the_package(registry: Registry, name: str) -> None:
    there = {row["sample"]: row["data"]["correct"] for row in REAL["runs"][name]["recorded"] if row["type"] == "match"}
    found = dataset(registry, name)
    ours = {}
    for item in found.items:
        (entry,) = resolve_evaluators(found, item)
        (call,) = calls(name, item.testId or "")
        evaluator = made(entry.evaluator, entry.settings)
        evidence = Evidence(
            response=call["answer"], expected=item.expected_response, alternatives=tuple(item.ideal or ())
        )
        score = evaluator.score(evidence)
        assert isinstance(score, Score)
        ours[item.testId] = score.result == "pass"
    assert ours == there
    assert sum(ours.values()) / len(ours) == pytest.approx(REAL["runs"][name]["report"]["accuracy"])


@pytest.mark.parametrize("name", JUDGED)
async def test_the_choices_of_a_judge_are_those_of_the_package(registry: Registry, name: str) -> None:
    there = {row["sample"]: row["data"] for row in REAL["runs"][name]["recorded"]}
    found = dataset(registry, name)
    for item in found.items:
        (entry,) = resolve_evaluators(found, item)
        answers = [call["answer"] for call in calls(name, item.testId or "")] or [item.response]
        score = await judged(name, item, entry.settings, answers)
        wanted = there[item.testId or ""]
        assert score.label == wanted["choice"], item.testId
        if wanted["choice"] == "__invalid__":
            assert (score.score, score.result) == (None, "error"), "left out of the score here, unlike there"
        else:
            assert score.score == wanted["score"]
        if "metascore" in wanted:
            assert score.details["metascore"] == wanted["metascore"]


async def judged(name: str, item: Item, options: dict[str, Any], answers: list[str]) -> Score:
    """The record of one item whose judge says what it said to the package."""
    (reply,) = (call["answer"] for call in calls(name, item.testId or "", "judge"))

    async def ask(_: Question) -> str:
        return reply

    evidence = Evidence(
        prompt=item.prompt or "",
        response=answers[0],
        completions=tuple(answers),
        variables=item.variables or {},
    )
    kind = built_in()["ModelGraded"]
    score = kind(kind.Options.model_validate(options), ask).score(evidence)
    return score if isinstance(score, Score) else await score


def made(name: str, options: dict[str, Any]) -> Evaluator:
    kind = built_in()[name]
    return kind(kind.Options.model_validate(options))
