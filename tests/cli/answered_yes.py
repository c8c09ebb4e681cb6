"""Runs of a dataset whose target says "yes" to each of three items, whatever they expect."""

import json
from pathlib import Path

from tests.cli.helpers import Shell
from tui_evals.store.reader import Reader


def dataset(*expected: str, **more: object) -> None:
    """Write the dataset, an item for each text that is expected."""
    items = [{"testId": f"t{n}", "prompt": f"ask {n}", "expected_response": text} for n, text in enumerate(expected)]
    document = {"schemaVersion": "1.11.0", "default_evaluators": {"Equals": {}}, "items": items, **more}
    Path("data.json").write_text(json.dumps(document))


def run_dataset(shell: Shell, *options: str) -> str:
    """Run it as it is now; the key of the run."""
    Path("answers.jsonl").write_text("".join(f'{{"prompt": "ask {n}", "response": "yes"}}\n' for n in range(3)))
    assert shell("run", "data.json", "-t", "replay:answers.jsonl", "--quiet", *options).code == 0
    with Reader(".evals/evals.db") as reader:
        return reader.find_run("last").key
