"""Dataset files of Inspect come in field by field as the package reads them; recorded.json holds what it read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent / "inspect_datasets"
RECORDED = json.loads((HERE / "recorded.json").read_text(encoding="utf-8"))


def imported(shell, name: str, *options: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The dataset that comes of a file, and what was said of it."""
    done = shell("import", name, "--name", "made", "--json", *options)
    assert done.code == 0, done.err
    return json.loads(Path("made.json").read_text()), json.loads(done.out)


@pytest.fixture
def folder(project):
    shutil.copytree(HERE, project, dirs_exist_ok=True)
    return project


@pytest.mark.parametrize("name", RECORDED)
def test_every_field_is_read_as_the_package_reads_it(shell, folder, name):
    document, said = imported(shell, name)
    assert said["kind"] == "inspect-dataset"
    lost = " ".join(loss["what"] for loss in said["losses"] if loss["kind"] == "left out")
    for item, sample in zip(document["items"], RECORDED[name], strict=True):
        kept = item["extensions"]["inspect"]
        assert (item["testId"], kept["id"]) == (str(sample["id"]), sample["id"])
        assert kept.get("metadata") == sample.get("metadata")
        assert kept.get("choices") == sample.get("choices") == item.get("variables", {}).get("choices")
        targets = sample.get("target", [])
        targets = [targets] if isinstance(targets, str) else targets
        assert item.get("ideal", [item["expected_response"]] if "expected_response" in item else []) == targets
        assert all(f"{field} of samples" in lost for field in ("sandbox", "files", "setup") if field in sample)
        if "asked" in sample:
            assert item["prompt"] == sample["asked"]
        elif isinstance(sample["input"], str):
            assert item["prompt"] == sample["input"]
        else:
            assert chat(item) == [plain(message) for message in sample["input"]]
    assert shell("validate", "made.json").code == 0


def chat(item: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The messages of an item: role, content, calls of tools."""
    found = [
        (
            message["role"],
            shown(message["content"]),
            [
                (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
                for call in message.get("tool_calls", ())
            ],
            message.get("tool_call_id"),
        )
        for message in item.get("messages", ())
    ]
    if "prompt" not in item:
        return found
    files = item.get("attachments", [])
    return [*found, ("user", [item["prompt"], *files] if files else item["prompt"], [], None)]


def plain(message: dict[str, Any]) -> tuple[Any, ...]:
    """The same of a message that the package read."""
    calls = [(call["id"], call["function"], call["arguments"]) for call in message.get("tool_calls", ())]
    return (message["role"], shown(message["content"]), calls, message.get("tool_call_id"))


def shown(content: Any) -> Any:
    """Content as text, or as a list of texts and addresses."""
    if isinstance(content, str):
        return content
    return [part.get("text") or part.get("image") or part["image_url"]["url"] for part in content]


def test_evaluators_are_suggested_and_other_columns_kept(shell, folder):
    document, said = imported(shell, "samples.jsonl")
    assert document["default_evaluators"] == {"includes": {}}
    judged = {item["testId"] for item in document["items"] if item.get("evaluators") == {"choice": {}}}
    assert judged == {"3", "4"}
    why = next(loss for loss in said["losses"] if "how samples are scored" in loss["what"])
    assert why["what"] == "how samples are scored: choice, includes" and "change them" in why["why"]
    columns = document["items"][10]["extensions"]["inspect"]["columns"]
    assert columns == {"topic": "other", "level": 3}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.jsonl", '{"input": "1?", "target": "1"}\n{"input": "", "target": "2"}\n', "a.jsonl:2: input: the sample"),
        ("b.jsonl", '{"input": "1?", "target": "1"}\n{"input": 5, "target": "2"}\n', "b.jsonl:2: input"),
        ("c.json", '[{"input": "1?", "target": "1"},\n {"input": [{"role": "bot"}], "target": ""}]', "c.json:2: [1]"),
        (
            "g.jsonl",
            '{"input": "1?", "id": 1, "target": ""}\n' * 2,
            "g.jsonl:2: id: the id 1 is there twice",
        ),
        ("d.csv", "input,target\n1?,1\n2?\n", "d.csv:3: the row has 1 cell, and the header has 2"),
        ("e.csv", "input,target,metadata\n1?,1,{\n", "e.csv:2: metadata: is no JSON"),
        ("f.jsonl", '{"input": "1?", "target": "1", "metadata": 4}\n', "f.jsonl:1: metadata: must be an object"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line_and_nothing_is_written(shell, project, name, text, said):
    Path(name).write_text(text)
    done = shell("import", name, "--name", "made")
    assert done.code == 2 and said in done.err and "Traceback" not in done.err, done.err
    assert not Path("made.json").exists()


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("a.jsonl", '{"input": "1?", "ideal": "1", "target": "x"}\n', "dataset"),
        ("b.csv", "input,reference_output,target\n1?,1,x\n", "dataset"),
        ("c.json", '[{"prompt": "1?"}]', "dataset"),
        ("d.jsonl", '{"messages": [{"role": "user", "content": "1?"}], "target": "x"}\n', "messages"),
        ("e.jsonl", '{"input": "1?"}\n', "dataset"),
    ],
)
def test_files_of_other_tools_stay_theirs(shell, project, name, text, kind):
    Path(name).write_text(text)
    assert json.loads(shell("import", name, "--json").out)["kind"] == kind


def test_a_file_named_to_validate_is_said_to_be_inspects(shell, project):
    inspects = {"input": "2 + 2?", "target": "4"}
    Path("inspect.jsonl").write_text(json.dumps(inspects) + "\n")
    Path("openai.jsonl").write_text(json.dumps({**inspects, "ideal": "4"}) + "\n")
    found = shell("validate", "inspect.jsonl").out
    assert "inspect.jsonl:1: items[0]: warning: has a target and no ideal" in found and "`tui-evals import`" in found
    assert "warning" not in shell("validate", "openai.jsonl").out


def test_a_file_that_is_missing_is_left_out_by_name(shell, project):
    content = [{"type": "text", "text": "What is on it?"}, {"type": "image", "image": "gone.png"}]
    Path("a.jsonl").write_text(json.dumps({"input": [{"role": "user", "content": content}], "target": "x"}) + "\n")
    document, said = imported(shell, "a.jsonl")
    assert document["items"][0]["prompt"] == "What is on it?" and "attachments" not in document["items"][0]
    assert "the file gone.png of a message" in {loss["what"] for loss in said["losses"]}
