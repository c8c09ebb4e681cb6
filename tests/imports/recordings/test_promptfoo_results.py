"""Results of promptfoo become finished runs that say what promptfoo said.

promptfoo-output.json was written by promptfoo 0.119; a row was taken out of it, and one made to fail at the provider.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.imports.recordings.made import promptfoo_database
from tui_evals.datasets.paths import DatasetError
from tui_evals.imports.promptfoo_results import read, recognises
from tui_evals.store.reader import Reader

FILE = Path(__file__).parent / "promptfoo-output.json"


def test_every_answer_stands_where_it_was_asked_with_its_verdicts() -> None:
    recording, losses = read(FILE)
    assert recording.targets == ("echo", "second")
    assert [prompt.name for prompt in recording.prompts] == ["short", "long"]
    items = recording.document["items"]
    assert [item["variables"]["q"] for item in items] == ["banana", "plum", "pear"]
    assert (items[1]["name"], items[0]["extensions"]["promptfoo"]["metadata"]) == ("fruits", {"team": "x"})
    assert items[0]["evaluators"] == {
        "ContainsAll": {"values": ["a"]},
        "Exact": {"type": "Equals", "value": "banana"},
        "JavaScript": {"code": "output.length < 10"},
        "JsonValid": {},
        "ContainsAll_2": {"type": "ContainsAll", "values": ["BAN"], "ignore_case": True},
    }
    assert len(recording.answers) == 11
    first = recording.answers[0]
    assert (first.item, first.prompt, first.target, first.answer.text) == (0, 0, 0, "banana")
    assert [(score.key, score.evaluator, score.result) for score in first.scores] == [
        ("ContainsAll", "ContainsAll", "pass"),
        ("Exact", "Equals", "pass"),
        ("JavaScript", "JavaScript", "pass"),
        ("JsonValid", "JsonValid", "fail"),
        ("ContainsAll_2", "ContainsAll", "pass"),
    ]
    (broken,) = [one.answer for one in recording.answers if one.answer.text is None]
    assert broken.message == "no route to host"
    assert list(losses.of("left out")) == []


def test_a_file_and_the_database_of_the_same_eval_are_one_run(shell, project) -> None:
    promptfoo_database(Path("promptfoo.db"), [json.loads(FILE.read_text(encoding="utf-8"))])
    done = shell("import", "promptfoo.db")
    assert done.code == 0 and "read 3 items, 11 answers of 2 models from promptfoo.db" in done.out, done.err
    again = shell("import", str(FILE))
    assert again.code == 0 and "was imported before; no second one was made" in again.out, again.err
    with Reader(Path(".evals/evals.db")) as reader:
        (run,) = reader.runs()
    assert run.name == "my evals" and run.status == "finished"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"evalId": "x", "results": {"version": 2, "results": []}}', "promptfoo 0.90 and later"),
        ('{"evalId": "x", "results": {"version": 3, "results": []}}', "holds no answers"),
        ('{"evalId": "x", "results": {"version": 3, "results": [{"testIdx": 0}]}}', "Field required"),
    ],
)
def test_what_is_no_result_is_said_with_its_place(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "output.json"
    file.write_text(text)
    assert recognises(file)
    with pytest.raises(DatasetError, match=problem):
        read(file)
