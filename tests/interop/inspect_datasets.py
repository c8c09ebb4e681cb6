"""Writes what Inspect itself reads in dataset files, and what its solver asks of each sample; run by hand only.

In an environment with `inspect-ai` installed: `python tests/interop/inspect_datasets.py`. No model is asked: the mock
of the package takes down what the solver sends.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

from inspect_ai import Task, eval
from inspect_ai.dataset import Dataset, MemoryDataset, csv_dataset, json_dataset
from inspect_ai.solver import multiple_choice

FOLDER = Path(__file__).parent.parent / "imports" / "inspect_datasets"
_READ = ("input", "target", "choices", "id", "metadata", "sandbox", "files", "setup")


def samples(dataset: Dataset) -> list[dict[str, object]]:
    """The fields of every sample, and what multiple_choice sends where it has choices."""
    found = []
    for number, sample in enumerate(dataset, 1):
        fields = {name: value for name, value in sample.model_dump(mode="json", exclude_none=True).items() if value}
        kept = {name: fields[name] for name in _READ if name in fields}
        if isinstance(sample.input, list):  # the package gives every message an id of its own making
            kept["input"] = [{**message, "id": None} for message in kept["input"]]
        kept["id"] = number if sample.id in (None, "") else sample.id
        if sample.choices:
            kept["asked"] = asked(sample.model_copy(update={"id": kept["id"]}))
        found.append(kept)
    return found


def asked(sample: object) -> str:
    """What the solver sends for a sample with choices."""
    several = isinstance(sample.target, list) and len(sample.target) > 1
    task = Task(MemoryDataset([sample]), solver=multiple_choice(multiple_correct=several))
    with TemporaryDirectory() as logs:
        (log,) = eval(task, model="mockllm/model", log_dir=logs, display="none")
        return log.samples[0].messages[0].text


def main() -> None:
    os.chdir(FOLDER)
    found = {
        file.name: samples(csv_dataset(file.name) if file.suffix == ".csv" else json_dataset(file.name))
        for file in sorted(Path().glob("*.*"))
        if file.suffix in (".jsonl", ".json", ".csv") and file.name != "recorded.json"
    }
    text = json.dumps(found, indent=1, ensure_ascii=False).replace(f"{FOLDER}{os.sep}", "")
    (FOLDER / "recorded.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
