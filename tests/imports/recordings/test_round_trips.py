"""What is exported comes back: export, import and export again are the same but for keys and times."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.imports.recordings.made import keep, store
from tests.reports.stores import Given, Ran, bad, errored, good, unjudged
from tests.reports.stores import store as stored
from tests.store.helpers import said
from tui_evals.imports import exports, registry
from tui_evals.imports.base import project_at
from tui_evals.reports.results import write
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, ScoreRecord
from tui_evals.transcript import plain_transcript

pytestmark = pytest.mark.story

ITEMS = [
    {"testId": "one", "prompt": "1?", "expected_response": "1", "category": "sums"},
    {"prompt": "=again", "category": "texts"},
    {"testId": "three", "prompt": 'with "quotes",\ncommas and lines'},
    {"prompt": "+1"},
    {"testId": "talk", "turns": [{"prompt": "Hello"}, {"prompt": "And?"}]},
    {"testId": "words", "prompt": "ünï"},
]
ANSWERS = [
    good(),
    bad("=1+1", reason="-no, that is\nnot it"),
    unjudged(),
    errored(),
    Given(said("0.5"), "scored", (ScoreRecord(key="Length", evaluator="Length", score=3.0, result=None, reason="3"),)),
    Given(AnswerRecord(text="", request={}, input_tokens=3, output_tokens=0, finish_reason="length"), "unjudged"),
    good("'quoted"),
]


def made(folder: Path, targets: tuple[str, ...], prompts: tuple[str, ...], repeats: int, pending: bool) -> Path:
    count = iter(range(10_000))
    given = [*ANSWERS[:5], Given(), *ANSWERS[5:]] if pending else ANSWERS
    return stored(folder, Ran(ITEMS, lambda _: given[next(count) % len(given)], targets, prompts, repeats))


def exported(path: Path, kind: str) -> str:
    with Reader(path) as reader:
        return "".join(str(piece) for piece in write(kind, reader, [reader.find_run("last")]))


def imported(folder: Path, file: Path, kind: str) -> Path:
    project = project_at(folder, variables={})
    assert registry._importer_for(file, None).kind == kind
    recordings = [exports.read_junit(file)[0]] if kind == "junit" else registry.recordings_in(file, project=project)
    folder.mkdir(exist_ok=True)
    with store(folder) as (writer, reader):
        for one in recordings:
            assert keep(writer, reader, one)[1] == "new"
    return folder / ".evals" / "evals.db"


def of_json_lines(text: str) -> list[object]:
    lines = [json.loads(line) for line in text.splitlines()]
    return sorted(({**line, "run": ""} for line in lines), key=json.dumps)


def of_table(text: str) -> list[object]:
    return sorted((dict(row) for row in csv.DictReader(io.StringIO(text, newline=""))), key=str)


def of_log(text: str) -> list[object]:
    lines = [json.loads(line) for line in text.splitlines()]
    changing = ("run_id", "created_at", "event_id")
    plain = [{name: value for name, value in line.items() if name not in changing} for line in lines]
    plain[0] = {name: plain[0]["spec"][name] for name in ("completion_fns", "eval_name")}
    return sorted(plain, key=json.dumps)


def packed(page: str) -> str:
    """The lines that lie in a page."""
    (data,) = re.findall(r'id="answers">([A-Za-z0-9+/]+={0,2})</script>', page)
    return gzip.decompress(base64.b64decode(data)).decode()


FORMATS: dict[str, tuple[str, str, Callable[[str], list[object]]]] = {
    "jsonl": ("jsonl", "results-jsonl", of_json_lines),
    "html": ("html", "report", lambda text: of_json_lines(packed(text))),
    "csv": ("csv", "results-csv", of_table),
}


def test_results_json_comes_back_identical_with_tokens_times_calls_and_details(tmp_path):
    score = ScoreRecord(
        key="Includes", evaluator="Includes", score=1.0, result="pass", reason="r", details={"found": ["a"]}, weight=0.5
    )
    answer = AnswerRecord(
        text="a",
        request={},
        tool_calls=({"name": "f", "arguments": {}},),
        input_tokens=40,
        output_tokens=3,
        cost=0.01,
        latency_ms=1200.0,
        first_token_ms=80.0,
        attempts=2,
        model="m",
        finish_reason="stop",
        transcript=plain_transcript("a"),
    )
    given = [Given(answer, "pass", (score,)), *ANSWERS]
    count = iter(range(10_000))
    first = stored(tmp_path / "a", Ran(ITEMS, lambda _: given[next(count) % len(given)], ("demo",), ("",), 1))
    before = exported(first, "json")
    file = tmp_path / "nightly.json"
    file.write_text(before)
    after = exported(imported(tmp_path / "b", file, "results"), "json")
    assert json.loads(after)["items"] == json.loads(before)["items"]
    assert '"input_tokens": 40' in before and '"found"' in before


@pytest.mark.cases(6)
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    ("targets", "prompts", "repeats"),
    [(("demo",), ("",), 1), (("a", "=b"), ("",), 2), (("a", "b"), ("p", "q"), 1)],
)
@pytest.mark.parametrize("pending", [False, True])
def test_what_is_exported_comes_back_the_same(tmp_path, kind, targets, prompts, repeats, pending):
    ending, door, plain = FORMATS[kind]
    before = exported(made(tmp_path / "a", targets, prompts, repeats, pending), kind)
    file = tmp_path / f"nightly.{ending}"
    file.write_text(before, newline="")
    after = exported(imported(tmp_path / "b", file, door), kind)
    waiting = [line for line in plain(before) if line["status"] == "pending"]
    assert bool(waiting) == pending
    lost = {(line["item"], str(line["target"]), str(line["repeat"]), str(line["turn"])) for line in waiting}
    assert [line for line in plain(after) if line["status"] not in ("pending",) and not _made_up(line, lost)] == [
        line for line in plain(before) if line not in waiting
    ]


def _made_up(line, lost):
    """An error that stands where the other turn of a conversation was still waited for."""
    return (
        line["status"] == "error"
        and (line["item"], str(line["target"]), str(line["repeat"]), str(line["turn"])) in lost
    )


def test_what_is_no_result_is_refused_with_its_line(shell, project):
    made(project, ("demo",), ("",), 1, pending=False)
    Path("nightly.jsonl").write_text(exported(project / ".evals" / "evals.db", "jsonl"))
    Path("nightly.csv").write_text(exported(project / ".evals" / "evals.db", "csv"), newline="")
    for file in ("nightly.jsonl", "nightly.csv"):
        done = shell("import", file)
        assert done.code == 0 and "read 6 items, 7 answers of 1 model" in done.out, done.err
        assert "left out: evaluators and what the dataset expects (the file holds what came of them" in done.out
        assert shell("import", file).out.count("was imported before; no second one was made") == 1
        text = Path(file).read_text()
        Path(file).write_text(text + text.splitlines()[1] + "\n")
        assert "is there twice" in shell("import", file).err
    Path("nightly.jsonl").write_text(
        text := exported(project / ".evals" / "evals.db", "jsonl").replace('"pass"', '"won"')
    )
    done = shell("import", "nightly.jsonl")
    assert done.code == 2 and "nightly.jsonl:1" in done.err and "'won', which no answer has" in done.err
    Path("nightly.jsonl").write_text(text.replace('"turn": 1', '"turn": "x"', 1).replace('"turn":1', '"turn":"x"', 1))
    assert "nightly.jsonl:1" in shell("import", "nightly.jsonl").err
    Path("nightly.csv").write_text(Path("nightly.csv").read_text().replace("1500.0", "long", 1), newline="")
    done = shell("import", "nightly.csv")
    assert done.code == 2 and "latency_ms must be a number, not 'long'" in done.err


@pytest.mark.parametrize(("targets", "repeats"), [(("demo",), 1), (("a", "b"), 1), (("demo",), 2)])
def test_a_log_of_openai_evals_comes_back_the_same(tmp_path, targets, repeats):
    graded = ScoreRecord(
        key="ModelGraded",
        evaluator="ModelGraded",
        score=1.0,
        result="pass",
        label="Yes",
        details={"metrics": {"choice": {"choice": "Yes", "score": 1.0, "reply": "so\nYes"}}},
    )
    answers = [*ANSWERS, Given(said("graded"), "pass", (graded,))]
    items = [
        *ITEMS,
        {"testId": "ideal", "prompt": "?", "ideal": ["a", "b"], "messages": [{"role": "system", "content": "s"}]},
    ]
    count, said_before = iter(range(10_000)), {}

    def given(row):
        one = answers[next(count) % len(answers)]
        if one.record.text is None and (len(targets) > 1 or "turns" in items[row.item]):
            one = good()  # a log does not tell whose error it is, nor of which turn
        unit = items[row.item].get("turns", [items[row.item]])[row.turn]
        messages = [{"role": "user", "content": unit["prompt"]}]
        if row.turn:
            before = said_before[row.cell]
            messages = [*before.request["messages"], {"role": "assistant", "content": before.text}, *messages]
        record = replace(one.record, request={"messages": messages}, model=targets[row.target])
        said_before[row.cell] = record
        return replace(one, record=record)

    before = exported(stored(tmp_path / "a", Ran(items, given, targets, ("",), repeats)), "oaieval-log")
    file = tmp_path / "nightly.log"
    file.write_text(before)
    assert of_log(exported(imported(tmp_path / "b", file, "oaieval-log"), "oaieval-log")) == of_log(before)


@pytest.mark.parametrize(("targets", "prompts", "repeats"), [(("demo",), ("",), 2), (("a", "b"), ("p", "q"), 1)])
def test_verdicts_for_a_build_server_come_back_the_same(tmp_path, targets, prompts, repeats):
    before = exported(made(tmp_path / "a", targets, prompts, repeats, pending=False), "junit")
    file = tmp_path / "evals.xml"
    file.write_text(before)
    assert of_cases(exported(imported(tmp_path / "b", file, "junit"), "junit")) == of_cases(before)


def of_cases(text: str) -> list[object]:
    """Each verdict with its column, name, category and time; why it is so stands in the reason of a score."""
    return sorted(
        [suite.get("name"), case.get("name"), case.get("classname"), case.get("time"), *map(of_child, case)]
        for suite in ET.fromstring(text).iter("testsuite")
        for case in suite.iter("testcase")
    )


def of_child(child: ET.Element) -> str:
    return f"{child.tag} {child.get('type') or child.get('message')}"
