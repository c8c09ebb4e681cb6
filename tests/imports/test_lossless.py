"""What is written as another format comes back whole, or what is missing is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.helpers import Shell
from tui_evals.datasets.document import load

ENDINGS = {"csv": "csv", "jsonl": "jsonl", "promptfoo": "yaml", "foundry": "json"}
DATASET = {
    "schemaVersion": "1.11.0",
    "description": "Capitals",
    "metadata": {"owner": "me"},
    "default_evaluators": {"Includes": {}},
    "items": [
        {"testId": "a", "prompt": "Capital of Austria?", "expected_response": "Vienna", "tags": ["smoke"]},
        {"testId": "b", "prompt": "Capital of France?", "expected_response": "Paris", "weight": 0.5},
    ],
}

words = st.text(st.characters(categories=("L", "N", "P", "Z"), exclude_characters="{}\r\n\x85\u2028\u2029"), min_size=1)
evaluators = st.fixed_dictionaries(
    {},
    optional={
        "Equals": st.just({}),
        "Length": st.fixed_dictionaries({"at_least": st.integers(1, 9)}),
        "Rubric": st.fixed_dictionaries({"criteria": words}),
        "Kind": st.fixed_dictionaries({"type": st.just("ContainsAll"), "values": st.lists(words, min_size=1)}),
    },
)
units = {"prompt": words, "expected_response": words}
items = st.one_of(
    st.fixed_dictionaries(
        units,
        optional={
            "category": words,
            "notes": words,
            "tags": st.lists(words, max_size=2),
            "weight": st.sampled_from([0.25, 0.5, 1.0]),
            "evaluators": evaluators.filter(bool),
            "variables": st.dictionaries(st.sampled_from("xyz"), words, min_size=1),
            "ideal": st.lists(words, min_size=1, max_size=2),
        },
    ),
    st.fixed_dictionaries({"turns": st.lists(st.fixed_dictionaries(units), min_size=1, max_size=3)}),
)
datasets = st.fixed_dictionaries(
    {"schemaVersion": st.just("1.11.0"), "items": st.lists(items, min_size=1, max_size=3)},
    optional={"default_evaluators": evaluators, "description": words, "variables": st.just({"shared": "1"})},
)


def written(shell: Shell, folder: Path, data: dict, kind: str, *options: str) -> tuple[Path, str]:
    for file in folder.glob("*"):
        if file.is_file():
            file.unlink()
    source, made = folder / "source.json", folder / f"made.{ENDINGS[kind]}"
    source.write_text(json.dumps(data), encoding="utf-8")
    done = shell("convert", source, "--to", kind, "-o", made, *options)
    assert done.code == 0, done.err
    return made, done.out + done.err


def read_back(shell: Shell, made: Path, kind: str) -> dict:
    if kind in ("csv", "jsonl"):
        return load(made).data
    back = made.with_name("back.json")
    done = shell("import", made, "--from", kind, "--into", back)
    assert done.code == 0, done.err
    return load(back).data


@pytest.mark.parametrize("kind", ENDINGS)
def test_a_dataset_comes_back_whole_from_every_format(project, shell, kind):
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15, deadline=None)
    @given(data=datasets)
    def comes_back(data):
        made, _ = written(shell, project, data, kind)
        assert read_back(shell, made, kind) == data

    comes_back()


@pytest.mark.parametrize("kind", ("csv", "jsonl"))
def test_without_the_file_beside_it_every_loss_is_named(project, shell, kind):
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15, deadline=None)
    @given(data=datasets)
    def is_named(data):
        made, said = written(shell, project, data, kind, "--bare")
        assert not made.with_name(made.name + ".tui-evals").exists()
        assert read_back(shell, made, kind) == data or "note: " in said
        for name in data.keys() - {"schemaVersion", "items"}:
            assert name in said

    is_named()


def test_a_table_that_was_edited_keeps_evaluators_and_what_its_other_rows_were_made_of(project, shell):
    made, said = written(shell, project, DATASET, "csv")
    assert "made.csv.tui-evals: the whole dataset" in said
    made.write_text(made.read_text(encoding="utf-8").replace("Paris", "Lyon"), encoding="utf-8")
    data = load(made).data
    assert data["default_evaluators"] == {"Includes": {}}
    assert data["items"][0] == DATASET["items"][0]
    assert data["items"][1]["expected_response"] == "Lyon"


def test_what_reads_back_the_same_needs_no_file_beside_it(project, shell):
    plain = {"schemaVersion": load(written(shell, project, DATASET, "jsonl")[0]).data["schemaVersion"], "items": []}
    plain["items"] = [{"prompt": "a", "expected_response": "b"}]
    made, _ = written(shell, project, plain, "jsonl")
    assert not made.with_name("made.jsonl.tui-evals").exists() or load(made).data == plain
