"""Inspect's logs come in as finished runs, as Inspect itself counted them; broken and hostile ones are refused."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path

import pytest

from tests.imports.recordings.made import keep, store
from tui_evals.datasets.paths import DatasetError
from tui_evals.datasets.validate import validate
from tui_evals.imports import inspect as inspect_files
from tui_evals.imports.inspect import opened, read, recognises
from tui_evals.store import run_figures

LOGS = Path(__file__).parent
LOG = json.loads((LOGS / "arithmetic.json").read_text())


def find(recording, name, epoch=1):
    place = [item["testId"] for item in recording.document["items"]].index(name)
    (found,) = (one for one in recording.answers if (one.item, one.repeat) == (place, epoch - 1))
    return recording.document["items"][place], found


def of(found, key):
    return next(score for score in found.scores if score.key == key)


def log(**changed):
    """A small log as Inspect writes it, with some of it changed."""
    spec = {"task": "t", "model": "m", "created": "2026-01-01T00:00:00+00:00", **changed.pop("eval", {})}
    sample = {"id": 1, "epoch": 1, "input": "2+2?", "target": "4", "output": {"completion": "4"}}
    sample |= {"messages": [], "scores": {"match": {"value": "C"}}, **changed.pop("sample", {})}
    return {"version": 2, "status": "success", "eval": spec, "samples": [sample], **changed}


def written(folder: Path, value, name: str = "log.json") -> Path:
    file = folder / name
    file.write_text(value if isinstance(value, str) else json.dumps(value, indent=1))
    return file


def zipped(folder: Path, members, method=zipfile.ZIP_DEFLATED) -> Path:
    file = folder / "log.eval"
    with zipfile.ZipFile(file, "w", method) as target:
        for name, value in members.items():
            target.writestr(name, value if isinstance(value, (str, bytes)) else json.dumps(value, indent=1))
    return file


def members(value):
    """The members of an archive that holds a log."""
    samples = {f"samples/{one['id']}_epoch_{one['epoch']}.json": one for one in value["samples"]}
    return {"header.json": {name: part for name, part in value.items() if name != "samples"}, **samples}


# -- what comes in


@pytest.mark.parametrize("name", ["arithmetic", "choices"])
def test_an_archive_and_a_json_of_one_log_are_one_recording(name):
    one, other = (read(LOGS / f"{name}.{kind}")[0] for kind in ("eval", "json"))
    assert (one.digest, one.document, one.answers) == (other.digest, other.document, other.answers)
    assert all(recognises(LOGS / f"{name}.{kind}") for kind in ("eval", "json"))


def test_a_log_becomes_a_run_with_its_task_its_model_its_epochs_and_its_times():
    recording, _ = read(LOGS / "arithmetic.eval")
    assert (recording.by, recording.name, recording.targets) == ("Inspect", "arithmetic", ("mockllm/model",))
    assert (recording.tags, recording.repeats, len(recording.answers)) == (("inspect", "fixture"), 2, 14)
    assert recording.about["solvers"] == ["breaking", "system_message", "use_tools", "generate"]
    assert recording.about["eval_id"] and recording.started <= recording.finished
    assert [item["testId"] for item in recording.document["items"]] == LOG["eval"]["dataset"]["sample_ids"]
    assert recording.document["repeats"] == 2


def test_samples_become_items():
    recording, _ = read(LOGS / "arithmetic.eval")
    item, _ = find(recording, "sum")
    assert (item["prompt"], item["expected_response"]) == ("What is 2+2?", "4")
    assert item["extensions"] == {"inspect": {"id": "sum", "metadata": {"level": 1, "topic": "sums"}}}
    item, _ = find(recording, "capital")
    assert (item["ideal"], item["expected_response"]) == (["Paris", "paris"], "Paris")
    item, _ = find(recording, "chat")
    assert [message["role"] for message in item["messages"]] == ["system", "user", "assistant"]
    assert item["prompt"].startswith("A long text") and item["prompt"].endswith("What is 2+2?")


def test_choices_are_asked_as_the_solver_asked_them():
    recording, losses = read(LOGS / "choices.eval")
    item, found = find(recording, "1")
    (sent,) = found.answer.request["messages"]
    assert (item["prompt"], item["variables"]) == (sent["content"], {"choices": ["a stone", "a pear", "a chair"]})
    assert (item["expected_response"], found.answer.text) == ("B", "ANSWER: B")
    assert any("choices" in line for line in losses.sentences())


def test_answers_are_those_of_the_model_with_what_they_took():
    recording, _ = read(LOGS / "arithmetic.eval")
    _, found = find(recording, "sum")
    said = found.answer
    assert (said.text, said.input_tokens, said.output_tokens, said.finish_reason) == ("4", 12, 3, "stop")
    assert [message["role"] for message in said.request["messages"]] == ["system", "user"]
    _, found = find(recording, "cut")
    assert found.answer.finish_reason == "max_tokens"
    _, found = find(recording, "broken", 2)
    assert (found.answer.text, found.answer.code, found.scores) == (None, "agentRequestFailed", ())
    assert "broke on purpose" in found.answer.message


def test_calls_of_tools_and_their_results_are_kept():
    recording, _ = read(LOGS / "arithmetic.eval")
    _, found = find(recording, "tool")
    (call,) = found.answer.tool_calls
    assert (call["name"], json.loads(call["arguments"]), found.answer.text) == ("add", {"x": 2, "y": 3}, "It is 5.")
    asked = found.answer.request["messages"]
    assert [message["role"] for message in asked] == ["system", "user", "assistant", "tool"]
    assert asked[2]["tool_calls"][0]["id"] == asked[3]["tool_call_id"] == call["id"]
    assert (found.answer.input_tokens, found.answer.output_tokens) == (24, 6)


def test_letters_numbers_and_objects_become_scores():
    recording, _ = read(LOGS / "arithmetic.eval")
    _, found = find(recording, "capital")
    assert [(of(found, key).score, of(found, key).result, of(found, key).label) for key in ("match", "judged")] == [
        *((1.0, "pass", "C"), (0.5, None, "P"))
    ]
    assert (of(found, "length").score, of(found, "length").result) == (21.0, None)
    assert (of(found, "manners_polite").result, of(found, "manners_brief").score) == ("pass", 0.25)
    assert of(found, "judged").reason == "read twice"
    assert of(found, "judged").details == {"answer": "perhaps Paris, please", "grader": "none"}
    _, found = find(recording, "silent")
    assert (of(found, "judged").score, of(found, "judged").result, of(found, "judged").label) == (0.0, "fail", "N")
    assert of(found, "match").details["reason"] == "no_response"
    _, found = find(recording, "silent", 2)
    assert (of(found, "undefined").score, of(found, "undefined").result) == (None, "skipped")


def test_the_means_in_the_store_are_those_that_inspect_counted(tmp_path):
    keys = {("manners", "polite"): "manners_polite", ("manners", "brief"): "manners_brief"}
    with store(tmp_path) as (writer, reader):
        run, outcome = keep(writer, reader, read(LOGS / "arithmetic.eval")[0])
        means = {found.key: found.mean for found in run_figures.evaluator_means(reader, run.id)}
        totals = reader.totals(run.id)
        assert keep(writer, reader, read(LOGS / "arithmetic.json")[0]) == (run, "known")
    assert (outcome, run.status, totals.total, totals.errored) == ("new", "finished", 14, 2)
    for score in LOG["results"]["scores"]:
        metric = score["metrics"].get("accuracy") or score["metrics"]["mean"]
        key = keys.get((score["scorer"], score["name"]), score["scorer"])
        assert means.pop(key) == pytest.approx(metric["value"]), key
    assert means == {}


def test_the_dataset_of_a_log_can_be_run_here(tmp_path):
    from tui_evals.datasets.document import load
    from tui_evals.evaluators.registry import load_registry

    for name in ("arithmetic", "choices"):
        file = written(tmp_path, read(LOGS / f"{name}.json")[0].document, f"{name}.data.json")
        assert validate(load(file), load_registry(tmp_path).catalogue).problems == ()
    document = read(LOGS / "arithmetic.json")[0].document
    assert document["default_evaluators"] == {"match": {"location": "any"}, "includes": {}}


def test_what_was_left_out_or_changed_is_said(tmp_path):
    _, losses = read(LOGS / "arithmetic.eval")
    said = "\n".join(losses.sentences())
    for words in (
        "scorer length",
        "scores P of judged",
        "undefined without a number",
        "events and stores",
        "carried: 14",
    ):
        assert words in said
    value = log(
        status="cancelled",
        sample={"sandbox": ["docker"], "error": {"message": "lost"}, "model_usage": {"grader": {"input_tokens": 5}}},
        eval={"dataset": {"sample_ids": [1, 2]}, "config": {"epochs": 2, "epochs_reducer": ["max"]}},
    )
    said = "\n".join(read(written(tmp_path, value))[1].sentences())
    for words in ("1 samples of the dataset", "reduced by max", "cancelled", "sandbox", "usage of grader", "broke off"):
        assert words in said


def test_a_log_packed_by_an_earlier_inspect_is_read_the_same(tmp_path):
    with opened(LOGS / "arithmetic.eval") as source:
        texts = {name: source.text(name) for name in source.names}
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
        assert read(zipped(tmp_path, texts, method))[0].answers == read(LOGS / "arithmetic.eval")[0].answers


def test_a_log_that_was_never_finished_gives_what_it_holds(tmp_path):
    parts = members(log())
    start = parts.pop("header.json")
    del start["status"]
    recording, losses = read(zipped(tmp_path, {"_journal/start.json": start, **parts}))
    assert len(recording.answers) == 1 and recording.finished is None
    assert any("never finished" in line for line in losses.sentences())


def test_blocks_attachments_and_odd_names_are_understood(tmp_path):
    blocks = [
        {"type": "text", "text": "attachment://a1"},
        {"type": "image", "image": "data:image/png;base64,AA=="},
        {"type": "reasoning", "reasoning": "hm"},
    ]
    sample = {
        "input": [{"role": "user", "content": blocks}],
        "attachments": {"a1": "What is it?"},
        "scores": {"pkg/a b": {"value": [True, "word"]}, "pkg_a_b_1": {"value": float("inf")}, "1": {"value": "C"}},
        "output": {"choices": [{"message": {"role": "assistant", "content": [blocks[0]]}, "stop_reason": "stop"}]},
    }
    recording, losses = read(written(tmp_path, log(sample=sample)))
    (item,), (found,) = recording.document["items"], recording.answers
    assert "prompt" not in item and found.answer.text == "What is it?"
    assert [block["type"] for block in item["messages"][0]["content"]] == ["text", "image_url"]
    assert [(one.key, one.score, one.result, one.label) for one in found.scores] == [
        *(("pkg_a_b_1", 1.0, "pass", None), ("pkg_a_b_2", None, None, "word")),
        *(("pkg_a_b_1_2", None, "skipped", None), ("s_1", 1.0, "pass", "C")),
    ]
    assert any("'reasoning'" in line for line in losses.sentences())


def test_the_number_1_and_the_text_1_are_two_samples(tmp_path):
    value = log()
    value["samples"] += [{**value["samples"][0], "id": "1"}, {**value["samples"][0], "epoch": 2}]
    recording, _ = read(written(tmp_path, value))
    assert [(one.item, one.repeat) for one in recording.answers] == [(0, 0), (0, 1), (1, 0)]


@pytest.mark.story
def test_thousands_of_samples_are_read(tmp_path):
    value = log()
    events = [{"event": "model", "text": "x" * 200}] * 3
    value["samples"] = [{**value["samples"][0], "id": number, "events": events} for number in range(1_000)]
    for file in (zipped(tmp_path, members(value)), written(tmp_path, value)):
        assert [one.item for one in read(file)[0].answers] == list(range(1_000))


# -- what is refused


SAMPLE = "samples/1_epoch_1.json"
FIELDS = {
    "score that is missing": ({"scores": {"match": {}}}, "scores.match: value is missing"),
    "score of lists": ({"scores": {"match": {"value": [[1]]}}}, "scores.match.value: .*must be text, a number"),
    "epoch zero": ({"epoch": 0}, "epoch"),
    "epoch without end": ({"epoch": 10**12}, "epoch"),
    "id that is a list": ({"id": []}, "id: .*must be text or a whole number"),
    "role of nobody": ({"input": [{"role": "robot", "content": "x"}]}, r"input\[0\].role"),
    "content that is a number": ({"messages": [{"role": "user", "content": 5}]}, r"messages\[0\].content"),
    "output that is text": ({"output": "4"}, "output"),
    "usage below nothing": ({"model_usage": {"m": {"input_tokens": -1}}}, "model_usage.m.input_tokens"),
    "target of numbers": ({"target": [4]}, r"target\[0\]"),
    "call without a function": (
        {"messages": [{"role": "assistant", "tool_calls": [{"id": "a"}]}]},
        r"messages\[0\].tool_calls\[0\]: function is missing",
    ),
    "time below nothing": ({"output": {"time": -2}}, "output.time"),
}


@pytest.mark.parametrize("name", FIELDS)
def test_a_malformed_sample_is_refused_with_file_member_line_and_field(tmp_path, name):
    changed, wanted = FIELDS[name]
    value = log(sample=changed)
    with pytest.raises(DatasetError, match=rf"log.json:[1-9]\d*: samples\[0\].{wanted}"):
        read(written(tmp_path, value))
    file = zipped(tmp_path, {**members(log()), SAMPLE: value["samples"][0]})
    with pytest.raises(DatasetError, match=rf"log.eval: {SAMPLE}:[1-9]\d*: {wanted}"):
        read(file)


HEADERS = {
    "nothing": ("", ":1: not valid JSON"),
    "cut off": ('{"version": 2,\n"eval": {', ":2: not valid JSON"),
    "broken after a number that is none": ('{"version": 2, "a": NaN,\n"eval": }', ":2: not valid JSON"),
    "another document": ('{"items": []}', "no Inspect log"),
    "a list": ("[]", "no Inspect log"),
    "an earlier version": (json.dumps(log(version=1)), "version 1, and version 2 is read"),
    "a version that is text": (json.dumps(log(version="x")), "version 'x'"),
    "no model": (json.dumps(log(eval={"model": None}), indent=1), r":\d+: eval.model"),
    "a time that is none": (json.dumps(log(stats={"started_at": "noon"})), "stats.started_at must be a time"),
    "samples that are none": (json.dumps(log(samples=[])), "holds no samples"),
    "samples that are text": (json.dumps(log(samples="x"), indent=1), r":\d+: samples: must be a list"),
    "a sample that is text": (json.dumps(log(samples=["x"]), indent=1), r":\d+: samples\[0\]: must be an object"),
    "the same twice": (json.dumps(log(samples=log()["samples"] * 2)), "sample 2: id: the sample 1 of epoch 1 is there"),
    "too deep": (json.dumps(log()).replace('"C"', "[" * 3_000 + "]" * 3_000), "nested too deeply"),
    "deep": (
        json.dumps(log(sample={"metadata": {}})).replace(
            '"metadata": {}', f'"metadata": {{"a": {"[" * 600 + "]" * 600}}}'
        ),
        "nested too deeply",
    ),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_malformed_log_is_refused_with_its_place(tmp_path, name):
    text, wanted = HEADERS[name]
    with pytest.raises(DatasetError, match=f"log.json.*{wanted}"):
        read(written(tmp_path, text))


def test_files_that_cannot_be_read_are_refused(tmp_path):
    for name, said in (("absent.json", "No such file"), ("absent.eval", "No such file")):
        with pytest.raises(DatasetError, match=said):
            read(tmp_path / name)
        assert not recognises(tmp_path / name)
    (tmp_path / "latin.json").write_bytes(b'{"version": 2, "eval": "\xe9"}')
    with pytest.raises(DatasetError, match="not UTF-8"):
        read(tmp_path / "latin.json")


def patched(file: Path, mark: bytes, offset: int, value: bytes) -> None:
    """Overwrite a field of every central entry of an archive."""
    content, place = bytearray(file.read_bytes()), 0
    while (place := content.find(mark, place)) >= 0:
        content[place + offset : place + offset + len(value)] = value
        place += len(value)
    file.write_bytes(content)


CENTRAL = b"PK\x01\x02"
ARCHIVES = {
    "not a zip": (lambda file: file.write_bytes(b"PK, but no zip"), "no whole zip"),
    "empty": (lambda file: file.write_bytes(b""), "no whole zip"),
    "cut off": (lambda file: file.write_bytes(file.read_bytes()[:-30]), "no whole zip"),
    "without a header": (lambda file: zipped(file.parent, {SAMPLE: "{}"}), "neither header.json nor"),
    "without samples": (lambda file: zipped(file.parent, {"header.json": members(log())["header.json"]}), "no samples"),
    "latin": (lambda file: zipped(file.parent, {"header.json": b"\xe9"}), "header.json: is not UTF-8"),
    "encrypted": (lambda file: patched(file, CENTRAL, 8, b"\x01\x00"), "header.json: is encrypted"),
    "packed unknown": (lambda file: patched(file, CENTRAL, 10, b"\x0c\x00"), "header.json: is packed by the method 12"),
    "another sum": (lambda file: patched(file, CENTRAL, 16, b"\x00\x00\x00\x00"), "header.json: is damaged"),
    "smaller than it is": (lambda file: patched(file, CENTRAL, 24, struct.pack("<I", 5)), "header.json: is damaged"),
    "larger than all": (lambda file: patched(file, CENTRAL, 24, struct.pack("<I", 2**29)), "more than 256 MiB"),
    "no frame": (lambda file: patched(file, CENTRAL, 10, b"\x5d\x00"), "header.json: is damaged"),
    "no member there": (lambda file: patched(file, CENTRAL, 42, struct.pack("<I", 7)), "header.json: is damaged"),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_a_broken_archive_is_refused_with_the_member(tmp_path, name):
    harm, wanted = ARCHIVES[name]
    file = zipped(tmp_path, members(log()))
    read(file)
    harm(file)
    with pytest.raises(DatasetError, match=f"log.eval.*{wanted}"):
        read(file)


def test_a_bomb_goes_off_nowhere(tmp_path, monkeypatch):
    file = zipped(tmp_path, {**members(log()), "samples/bomb_epoch_1.json": b" " * 10_000_000})
    assert file.stat().st_size < 20_000
    monkeypatch.setattr(inspect_files, "LARGEST_MEMBER", 1_000_000)
    with pytest.raises(DatasetError, match=r"bomb_epoch_1.json: unpacks to more"):
        read(file)
    monkeypatch.setattr(inspect_files, "LARGEST_MEMBER", 2**28)
    monkeypatch.setattr(inspect_files, "LARGEST_TOTAL", 5_000_000)
    with pytest.raises(DatasetError, match="in all"):
        read(file)
    monkeypatch.setattr(inspect_files, "MOST_MEMBERS", 2)
    with pytest.raises(DatasetError, match="3 members"):
        read(file)
    monkeypatch.setattr(inspect_files, "LARGEST_FILE", 10)
    with pytest.raises(DatasetError, match="larger than"):
        read(file)
    monkeypatch.setattr(inspect_files, "LARGEST_JSON", 10)
    with pytest.raises(DatasetError, match="--to eval"):
        read(LOGS / "choices.json")


def test_a_frame_that_grows_beyond_what_it_says_is_stopped(tmp_path):
    unpack = inspect_files.unpacker()
    with zipfile.ZipFile(LOGS / "choices.eval") as source:
        info = source.getinfo("header.json")
        source.fp.seek(info.header_offset + 26)
        name, extra = struct.unpack("<HH", source.fp.read(4))
        source.fp.seek(name + extra, 1)
        packed = source.fp.read(info.compress_size)
    assert len(unpack(packed, info.file_size)) == info.file_size
    assert unpack(packed + packed, 2 * info.file_size) == unpack(packed, info.file_size) * 2
    for damaged, size in ((packed[:-9], info.file_size), (b"no frame", 100), (packed, 10)):
        try:
            assert len(unpack(damaged, size)) != info.file_size
        except ValueError as refused:
            assert "damaged" in str(refused)


def test_members_named_as_paths_are_never_written_nor_read(tmp_path, monkeypatch):
    folder = tmp_path / "deep" / "er"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    hostile = {"../../evil.json": "x", "/tmp/evil.json": "x", "samples/../../evil.json": "{", "samples/a/b.json": "{"}
    file = zipped(folder, {**members(log()), **hostile})
    assert len(read(file)[0].answers) == 1
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [file]


@pytest.mark.parametrize(("name", "expected"), [("arithmetic", 24), ("choices", 2)])
def test_the_evaluators_of_the_dataset_judge_the_recorded_answers_as_inspect_did(name, expected):
    from tests.evaluators.helpers import score
    from tui_evals.evaluators.registry import load_registry

    recording, _ = read(LOGS / f"{name}.eval")
    registry, compared = load_registry(), 0
    for answer in recording.answers:
        item = recording.document["items"][answer.item]
        for key, options in recording.document["default_evaluators"].items():
            recorded = next((one for one in answer.scores if one.key == key), None)
            if recorded is None:
                continue
            given = {option: value for option, value in options.items() if option != "type"}
            found = score(
                registry.find(options.get("type", key)),
                given,
                response=answer.answer.text,
                expected=item["expected_response"],
                alternatives=tuple(item.get("ideal", ())),
            )
            assert (found.score, found.result) == (recorded.score, recorded.result), (item["testId"], key)
            compared += 1
    assert compared == expected


def test_an_archive_of_a_newer_version_is_read_as_inspect_reads_it(tmp_path):
    newer = tmp_path / "newer.eval"
    with opened(LOGS / "arithmetic.eval") as archive, zipfile.ZipFile(newer, "w") as new:
        for name in archive.names:
            content = archive.text(name).encode()
            if name in ("header.json", "_journal/start.json"):
                content = json.dumps({**json.loads(content), "version": 3}).encode()
            new.writestr(name, content)
    recording, losses = read(newer)
    assert recording.answers == read(LOGS / "arithmetic.eval")[0].answers
    assert "log version 3" in [loss.what for loss in losses.of("changed")]
