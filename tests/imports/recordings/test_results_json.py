"""Our own results JSON comes back as the run it was written from, and what is wrong with one is said with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.imports.recordings.made import keep, store
from tests.reports.stores import Ran, bad, errored, every, good, unjudged
from tests.reports.stores import store as stored
from tests.store.helpers import judged, said
from tui_evals.datasets.paths import DatasetError
from tui_evals.imports.results import read, recognises
from tui_evals.reports.results import document
from tui_evals.store.details import read_scores
from tui_evals.store.reader import Reader
from tui_evals.store.records import ScoreRecord
from tui_evals.store.writer import Writer

ITEMS = [
    {"testId": "one", "prompt": "1?", "expected_response": "1"},
    {"prompt": "again"},
    {"prompt": "again"},
    {"testId": "talk", "turns": [{"prompt": "Hello"}, {"prompt": "And?", "tags": ["t"]}], "extensions": {"a": 1}},
]
CYCLE = (good(), bad(), unjudged(), errored(), good("other"))


def exported(folder: Path, ran: Ran) -> tuple[str, list]:
    path = stored(folder, ran)
    with Writer(path) as writer, Reader(path) as reader:
        run = reader.find_run("last")
        writer.run_status(run.id, "finished", finished=1_700_000_000.25)
        run = reader.find_run("last")
        return "".join(document(reader, run)), lines(reader, run)


def lines(reader: Reader, run) -> list:
    """What a results file keeps of each answer."""
    scores: dict[int, list] = {}
    for number, score in read_scores(reader, run.id):
        scores.setdefault(number, []).append((score.key, score.score, score.result, score.threshold, score.reason))
    found = []
    for row in reader.all_rows(run.id):
        answer = reader.detail(row.id).answer
        place = (row.item, row.turn, row.repeat, row.prompt, row.target, row.name, row.status)
        found.append((*place, answer.text, answer.code, answer.message, scores.get(row.id)))
    return sorted(found, key=lambda line: line[:5])


def said_in(text: str) -> dict:
    """A results document without the order of its columns, its key and its cost; a version is added if it has none."""
    data = {"schemaVersion": "1.11.0", **json.loads(text)}
    standing = data["extensions"]["tui_evals_run"]
    counts = {name: count for name, count in standing["totals"].items() if "cost" not in name and name != "unpriced"}
    data["extensions"] = {"status": standing["status"], "counts": counts}
    return {**data, "items": sorted(data["items"], key=json.dumps)}


def imported(folder: Path, text: str) -> tuple[str, list]:
    folder.mkdir(exist_ok=True)
    file = folder / "results.json"
    file.write_text(text)
    assert recognises(file)
    with store(folder) as (writer, reader):
        run, outcome = keep(writer, reader, read(file)[0])
        assert (outcome, run.status, run.name) == ("new", "finished", "results")
        return "".join(document(reader, run)), lines(reader, run)


@pytest.mark.parametrize(
    ("targets", "prompts", "repeats"),
    [(("demo",), ("",), 1), (("a", "b"), ("",), 1), (("demo",), ("",), 3), (("a", "b"), ("p", "q"), 2)],
)
def test_a_run_comes_back_from_its_results_file_as_it_was(tmp_path, targets, prompts, repeats):
    count = iter(range(10_000))
    ran = Ran(ITEMS, lambda row: CYCLE[next(count) % len(CYCLE)], targets, prompts, repeats)
    text, before = exported(tmp_path / "a", ran)
    again, after = imported(tmp_path / "b", text)
    assert after == before
    assert said_in(again) == said_in(text)


givens = st.sampled_from(CYCLE)


@pytest.mark.nightly
@pytest.mark.story
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    items=st.lists(st.sampled_from(ITEMS), min_size=1, max_size=4),
    targets=st.sampled_from([("a",), ("a", "b")]),
    repeats=st.integers(1, 2),
    outcomes=st.lists(givens, min_size=1, max_size=7),
)
def test_any_results_file_comes_back_and_is_written_the_same_again(tmp_path_factory, items, targets, repeats, outcomes):
    folder = tmp_path_factory.mktemp("trip")
    count = iter(range(10_000))
    plain = [{**item, "testId": f"{item.get('testId')}{number}"} for number, item in enumerate(items)]
    ran = Ran(plain, lambda row: outcomes[next(count) % len(outcomes)], targets, ("",), repeats)
    text, before = exported(folder / "a", ran)
    again, after = imported(folder / "b", text)
    assert (after, said_in(again)) == (before, said_in(text))


def test_scores_that_are_written_under_other_names_come_back_under_their_own(tmp_path):
    scores = (
        judged("Relevance", 4.0, threshold=3.0),
        judged("ExactMatch", 1.0),
        judged("Citations", 3.0),
        ScoreRecord(key="Mine", evaluator="Includes", score=0.5, result=None, label="so so", weight=0.25),
        ScoreRecord(key="Lost", evaluator="Lost", score=None, result="error", reason="no", details={"code": "c"}),
    )
    item = {"prompt": "?", "evaluators": {"Mine": {"type": "Includes", "weight": 0.25}}}
    given = every(type(good())(said("yes"), "partial", scores))
    text, _ = exported(tmp_path / "a", Ran([item], given))
    assert {"relevance", "exactMatch", "citations"} < json.loads(text)["items"][0]["scores"].keys()
    (tmp_path / "r.json").write_text(text)
    recording, losses = read(tmp_path / "r.json")
    assert sorted(recording.answers[0].scores, key=str) == sorted(scores, key=str)
    assert any("requests as they were sent" in line for line in losses.sentences())


def test_what_was_found_of_all_answers_together_comes_back(tmp_path):
    unit = {"prompt": "?", "status": "pass", "response": "a", "scores": {}}
    unit["extensions"] = {"tui_evals_together": {"best": {"result": "pass", "score": 1.0, "reason": "r"}}}
    recording = reading(tmp_path, {"items": [unit]})
    (found,) = recording.together
    assert (found.item, found.score.key, found.score.score) == (0, "best", 1.0)
    assert recording.document["items"] == [{"prompt": "?"}]


def test_an_answer_that_had_not_come_is_left_out_and_said_so(tmp_path):
    write(tmp_path, {"items": [{"prompt": "a", "status": "pass", "response": "x", "scores": {}}, {"prompt": "b"}]})
    recording, losses = read(tmp_path / "r.json")
    assert [one.item for one in recording.answers] == [0] and len(recording.document["items"]) == 2
    assert "items[1]: left out: an answer that had not come yet" in losses.sentences()


def test_the_same_file_is_the_same_run_and_another_time_is_another(tmp_path):
    unit = {"prompt": "?", "status": "pass", "response": "a", "scores": {}}
    data = {"metadata": {"evaluatedAt": "2026-01-01T00:00:00+00:00", "agentName": "gpt"}, "items": [unit]}
    one, same = reading(tmp_path, data), reading(tmp_path, data)
    data["metadata"]["evaluatedAt"] = "2026-01-02T00:00:00"
    other = reading(tmp_path, data)
    assert one.digest == same.digest != other.digest
    assert (one.targets, other.finished - one.finished) == (("gpt",), 86_400.0)
    assert "metadata" not in one.document


def test_a_dataset_without_results_is_not_taken_for_a_run(tmp_path):
    file = write(tmp_path, {"items": [{"prompt": "?"}]})
    assert not recognises(file) and not recognises(tmp_path / "absent.json") and not recognises(tmp_path)
    with pytest.raises(DatasetError, match="holds no results"):
        read(file)


DONE = '"status": "pass", "response": "a"'  # stands for %s below
MALFORMED = {
    "not JSON": ('{"items": [\n{"prompt": "?",}]}', ":2: not valid JSON: a key in double quotes"),
    "empty": ("", "is empty"),
    "a list of numbers": ("[1, 2]", "r.json"),
    "unknown status": ('{"items": [\n{"prompt": "?", "status": "fine"}]}', r":2: items\[0\].status"),
    "a response that is a number": (
        '{"items": [\n{"prompt": "?", "status": "pass", "response": 4}]}',
        r":2: .*response",
    ),
    "a score that is a word": (
        '{"items": [\n{"prompt": "?", %s, "scores": {\n"M": {"result": "pass",\n"score": "high"}}}]}',
        r":4: items\[0\].scores.M.score: must be a number",
    ),
    "a result that is none": (
        '{"items": [\n{"prompt": "?", %s, "scores": {\n"M": {"result": "great"}}}]}',
        r":3: items\[0\].scores.M.result: must be pass",
    ),
    "a score that is no object": ('{"items": [\n{"prompt": "?", %s, "scores": {"M": 1}}]}', r":2: .*scores.M"),
    "an error without a text": (
        '{"items": [\n{"prompt": "?", %s, "scores": {"M": {"result": "error"}}}]}',
        r":2: .*scores.M.*error text",
    ),
    "NaN": ('{"items": [\n{"prompt": "?", %s, "scores": {"M": {"score": NaN}}}]}', ":2: NaN is not"),
    "a repeat that is none": (
        '{"items": [{"prompt": "?", %s,\n"extensions": {"tui_evals_run": {"repeat": 0}}}]}',
        r":2: items\[0\].extensions.tui_evals_run.repeat: must be a whole number",
    ),
    "a target that is a list": (
        '{"items": [{"prompt": "?", %s,\n"extensions": {"tui_evals_run": {"target": []}}}]}',
        r":2: .*tui_evals_run.target: must be text",
    ),
    "a time that is none": (
        '{"metadata":\n{"evaluatedAt": "yesterday"}, "items": [{"prompt": "?", %s}]}',
        r":2: m",
    ),
    "scores of all that are a list": (
        '{"items": [{"prompt": "?", %s,\n"extensions": {"tui_evals_together": []}}]}',
        r":2: .*tui_evals_together: must be an object",
    ),
    "a later version": ('{"schemaVersion": "1.99.0",\n"items": [{"prompt": "?", %s}]}', "newer than"),
    "a label that is a number": (
        '{"items": [{"prompt": "?", %s, "scores":\n{"M": {"label": 4}}}]}',
        r":2: .*M.label: must be text",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_file_is_refused_with_its_place(tmp_path, name):
    text, wanted = MALFORMED[name]
    file = tmp_path / "r.json"
    file.write_text(text.replace("%s", DONE))
    with pytest.raises(DatasetError, match=wanted) as refused:
        read(file)
    assert str(refused.value).startswith(str(file))


def write(folder: Path, data) -> Path:
    file = folder / "r.json"
    file.write_text(json.dumps(data))
    return file


def reading(folder: Path, data):
    return read(write(folder, data))[0]
