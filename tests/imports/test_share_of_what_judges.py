"""Each import says in one line what share of what it read judges as before."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NOTHING = "it records no assertions and no verdicts; of what is named above"
AGAIN = "says how many are given again"


def share(out: str) -> str:
    """The one line of it."""
    marks = ("judge as before", "judges as before", "recorded verdict", "it records no assertions")
    (line,) = [line for line in out.splitlines() if any(mark in line for mark in marks) and ": left out: " not in line]
    return line


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "promptfoo/letters.yaml",
            "8 of 12 assertions judge as before; the others are named above as changed or left out",
        ),
        ("recordings/promptfoo/output.json", "18 of 20"),
        ("recordings/arithmetic.eval", "24 of 78"),
        ("recordings/bench_runs", "40 of 48"),
        ("promptpex/older", "6 of 6"),
        ("foundry/travel.json", "9 of 9 assertions judge as before"),
        (
            "inspect_datasets/one.json",
            f"{NOTHING}: 1 carried over, 1 changed",
        ),
    ],
)
def test_each_door_says_its_share(shell, project, source, said) -> None:
    copy = shutil.copytree if (HERE / source).is_dir() else shutil.copy
    for beside in (HERE / source).parent.glob("*.prompty"):
        shutil.copy(beside, f"{Path(source).name}.prompty")
    if source.startswith("promptfoo/"):
        shutil.copytree(HERE / "promptfoo", project, dirs_exist_ok=True)
    else:
        copy(HERE / source, project / Path(source).name)
    done = shell("import", Path(source).name, *(["--name", "made"] if source.endswith((".yaml", "one.json")) else []))
    assert done.code == 0, done.err
    name = Path(source).name
    way = f" recorded verdicts have their evaluators here; `tui-evals import --verify {name}` {AGAIN}"
    assert share(done.out) == (said + way if said[0].isdigit() and "assertion" not in said else said)


@pytest.mark.story
def test_our_own_files_and_conversations_say_theirs(shell, project) -> None:
    evaluators = {"ContainsAll": {"values": ["a"]}, "Length": {"at_most": 2000}}
    data = {"schemaVersion": "1.11.0", "default_evaluators": evaluators, "items": [{"prompt": "1?"}, {"prompt": "2?"}]}
    Path("d.json").write_text(json.dumps(data))
    assert shell("run", "d.json", "--target", "demo").code in (0, 1)
    for kind in ("json", "jsonl", "csv", "oaieval-log"):
        shell("export", "last", "--to", kind, "-o", f"out.{kind.removeprefix('oaieval-')}", "--bare")
    assert all(shell("report", "last", "-o", name, "--bare").code == 0 for name in ("out.html", "out.xml"))
    again = f"`tui-evals import --verify out.json` {AGAIN}"
    assert share(shell("import", "out.json").out) == f"4 of 4 recorded verdicts have their evaluators here; {again}"
    for name, count in (("out.jsonl", 4), ("out.csv", 4), ("out.html", 4), ("out.log", 4), ("out.xml", 2)):
        line = share(shell("import", name).out)
        way = f"; `tui-evals import DATASET --verify {name}` judges the answers with those of a dataset"
        none = f"its {count} recorded verdicts came without evaluators that are known here"
        assert line == (none if name == "out.xml" else none + way)
    Path("chat.json").write_text(json.dumps([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "a"}]))
    assert share(shell("import", "chat.json", "--name", "c").out) == f"{NOTHING}: 1 carried over"
