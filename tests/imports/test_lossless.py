"""What is written as another format comes back whole, or what is missing is named."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.cli.helpers import Shell
from tests.reports.stores import Given, Ran, store
from tui_evals.cli.write.commands import convert_command
from tui_evals.datasets.document import load
from tui_evals.imports.base import ImportOptions, ImportRequest
from tui_evals.imports.recording import RecordedAnswer, Recording
from tui_evals.imports.registry import importers
from tui_evals.imports.whole_run import WholeRuns, whole_runs_of
from tui_evals.reports.results import names, report_kind
from tui_evals.runs.status import status_of
from tui_evals.store.details import read_details
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, ScoreRecord

pytestmark = pytest.mark.story

ENDINGS = {"csv": "csv", "jsonl": "jsonl", "promptfoo": "yaml", "foundry": "json", "m365": "json"}
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

words = st.text(
    st.characters(categories=("L", "N", "P", "Z"), exclude_characters="{}\r\n\x85\u2028\u2029"), min_size=1
).filter(str.strip)
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
    done = shell("import", made, "--from", "dataset" if kind == "m365" else kind, "--into", back)
    if kind == "m365" and "is a dataset already" in done.err:  # nothing had to be moved
        return load(made).data
    assert done.code == 0, done.err
    return load(back).data


@pytest.mark.cases(4)
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


KINDS = {
    "json": "json", "csv": "csv", "jsonl": "jsonl", "oaieval-log": "log", "inspect": "inspect.json", "junit": "xml"
}  # fmt: skip
FROM = {"json": "results", "csv": "results-csv", "jsonl": "results-jsonl", **{kind: kind for kind in [*KINDS][3:]}}
WITHOUT_COMPANION = {"html": "html"}
"""Reports that are read back by what is in them alone."""
ENDS, READ_AS = {**KINDS, **WITHOUT_COMPANION}, {**FROM, "html": "report"}
NOT_READ = {"md", "parquet"}
"""Reports that nothing reads back."""


def test_every_format_that_is_written_is_among_those_tested_here():
    (kinds,) = (one.type.choices for one in convert_command.params if one.name == "kind")
    assert {*kinds} == {*ENDINGS}
    assert {*names()} == {*ENDS, *NOT_READ}
    assert {name for name in names() if report_kind(name).has_companion} == {*KINDS}


amounts = st.integers(0, 1000)
messages = st.lists(st.fixed_dictionaries({"role": st.just("user"), "content": words}), min_size=1, max_size=2)
answered = st.builds(
    AnswerRecord,
    text=words,
    request=st.fixed_dictionaries({"messages": messages}),
    tool_calls=st.sampled_from([(), ({"id": "c1", "name": "add", "arguments": '{"x":2}'},)]),
    input_tokens=st.none() | amounts,
    output_tokens=st.none() | amounts,
    reasoning_tokens=st.sampled_from([0, 3]),
    cost=st.none() | st.just(0.25),
    latency_ms=st.none() | st.just(12.5),
    first_token_ms=st.none() | st.just(2.5),
    attempts=st.integers(1, 3),
    model=st.none() | words,
    finish_reason=st.sampled_from([None, "stop", "length"]),
)
errors = st.builds(
    AnswerRecord, text=st.none(), request=st.just({"messages": []}), code=st.just("timeout"), message=words
)
found = st.builds(
    ScoreRecord,
    key=st.sampled_from(["Includes", "Match", "my judge"]),
    evaluator=st.sampled_from(["Includes", "Rubric"]),
    score=st.sampled_from([0.0, 0.25, 1.0]),
    result=st.sampled_from(["pass", "fail", None]),
    threshold=st.none() | st.just(0.5),
    label=st.none() | words,
    reason=words,
    details=st.dictionaries(st.sampled_from(["why", "picked"]), words, max_size=1),
    weight=st.sampled_from([1.0, 2.0]),
    measure=st.sampled_from(["", "at most ms"]),
)
unscored = st.builds(
    ScoreRecord,
    key=st.just("broken"),
    evaluator=st.just("Rubric"),
    score=st.none(),
    result=st.sampled_from(["error", "skipped"]),
    reason=words,
)


@st.composite
def given_answers(draw: st.DrawFn) -> Given:
    if draw(st.integers(0, 4)) == 0:
        return Given(draw(errors), "error")
    scores = draw(st.lists(found, max_size=2, unique_by=lambda one: one.key))
    scores += draw(st.lists(unscored, max_size=1))
    return Given(draw(answered), status_of(scores), tuple(sorted(scores, key=lambda one: one.key)))


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[dict], dict[tuple[int, int, int], Given], tuple[str, ...]]:
    items = draw(datasets)["items"]
    items = [{**item, "testId": f"item {number}"} for number, item in enumerate(items)]
    targets = ("one", "two")[: draw(st.integers(1, 2))]
    turns = [(number, turn) for number, item in enumerate(items) for turn in range(len(item.get("turns", "1")))]
    places = [(*place, target) for place in turns for target in range(len(targets))]
    return items, {place: draw(given_answers()) for place in places}, targets


def parts(recording: Recording) -> dict[str, object]:
    """What a recording holds, by the words in which its losses would name it."""
    answers = sorted(recording.answers, key=lambda one: (*one.cell, one.turn))
    return {
        "dataset|evaluators": json.loads(json.dumps(recording.document["items"])),
        "answered": [one.answer.text for one in answers],
        "requests": [one.answer.request.get("messages") for one in answers],
        "tokens": [(one.answer.input_tokens, one.answer.output_tokens) for one in answers],
        "costs": [one.answer.cost for one in answers],
        "times": [(one.answer.latency_ms, one.answer.first_token_ms, one.answer.attempts) for one in answers],
        "tool calls": [one.answer.tool_calls for one in answers],
        "models": [(one.answer.model, one.answer.finish_reason) for one in answers],
        "scores": [[(s.key, s.score, s.result, s.reason) for s in by_key(one)] for one in answers],
        "details": [[(s.evaluator, s.label, s.weight, s.measure, s.details) for s in by_key(one)] for one in answers],
        "statuses|verdicts|scores": [one.status for one in answers],
    }


def by_key(answer: RecordedAnswer) -> list[ScoreRecord]:
    return sorted(answer.scores, key=lambda score: score.key)


def exported(folder: Path, shell: Shell, ran: tuple, kind: str, *options: str) -> tuple[Path, Recording]:
    """A run in a store of its own, written as a file; and what is expected back."""
    items, answers, targets = ran
    shutil.rmtree(folder / ".evals", ignore_errors=True)
    (folder / ".evals").mkdir()
    store(folder, Ran(items, lambda row: answers[row.item, row.turn, row.target], targets=targets))
    file = folder / f"out.{ENDS[kind]}"
    done = shell("report" if kind in ("junit", "html") else "export", "last", "--to", kind, "-o", file, *options)
    assert done.code == 0, done.err
    made = tuple(
        RecordedAnswer(item=n, turn=turn, target=t, answer=one.record, scores=one.scores, status=one.status)
        for (n, turn, t), one in answers.items()
    )
    return file, Recording(
        by="", digest="", document={"items": items}, source="", name="nightly", targets=targets, answers=made
    )


@pytest.mark.cases(2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_comes_back_whole_from_every_format(project, shell, kind):
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=6, deadline=None)
    @given(ran=runs())
    def comes_back(ran):
        file, expected = exported(project, shell, ran, kind)
        whole = whole_runs_of(file)
        assert isinstance(whole, WholeRuns), whole
        (told,) = whole.recordings
        assert parts(told) == parts(expected)
        assert (told.name, told.targets) == (expected.name, expected.targets)
        done = shell("import", file, "--from", FROM[kind])
        assert done.code == 0, done.err
        with Reader(project / ".evals" / "evals.db") as reader:
            first, again = (
                [*read_details(reader, run, reader.all_rows(run.id), requests=True)] for run in reader.runs(9)
            )
        for one, other in zip(first, again, strict=True):
            assert (one.answer, one.scores, one.row.status) == (other.answer, other.scores, other.row.status)

    comes_back()


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ENDS)
def test_without_the_file_next_to_it_every_loss_of_a_run_is_named(project, shell, kind):
    importer = next(one for one in importers().values() if one.kind == READ_AS[kind])

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10, deadline=None)
    @given(ran=runs())
    def is_named(ran):
        # These logs tell turns by the turns before in their requests, which requests drawn one by one do not hold.
        assume(kind not in ("oaieval-log", "inspect") or not any("turns" in item for item in ran[0]))
        file, expected = exported(project, shell, ran, kind, "--bare")
        assert not file.with_name(file.name + ".tui-evals").exists()
        done = shell("import", file, "--from", READ_AS[kind])
        assert done.code == 0, done.err
        (told,) = importer.recordings(ImportRequest(file, ImportOptions(), None))
        lost = " ".join(line for line in done.out.splitlines() if line.startswith(("left out: ", "changed: ")))
        here, there = parts(expected), parts(told)
        unnamed = {name for name in here if here[name] != there[name] and not re.search(name, lost)}
        assert not unnamed, [(name, here[name], there[name]) for name in unnamed]

    is_named()
