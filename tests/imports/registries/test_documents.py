"""Evals of a registry as eval documents, and the list of what runs here."""

from __future__ import annotations

import gzip
import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tui_evals.datasets.paths import DatasetError
from tui_evals.datasets.validate import parse_dataset
from tui_evals.evaluators.grading_specs import load_spec, shipped_specs
from tui_evals.evaluators.registry import built_in
from tui_evals.imports.openai_evals import Registry, load
from tui_evals.imports.openai_evals.templates import _PAIRED

EXAMPLE = Path(__file__).parent / "example"
CATALOGUE = {name: kind.Options for name, kind in built_in().items()}


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load([EXAMPLE], CATALOGUE)


def one(tmp_path: Path, samples: list[Any] | str | bytes, args: str = "", kind: str = "basic.match:Match") -> Registry:
    """A registry of one eval, x.dev.v0."""
    (tmp_path / "evals").mkdir(exist_ok=True)
    (tmp_path / "data").mkdir(exist_ok=True)
    entry = f"x.dev.v0:\n  class: evals.elsuite.{kind}\n  args:\n    samples_jsonl: x.jsonl\n{args}"
    (tmp_path / "evals" / "x.yaml").write_text(entry)
    text = samples if isinstance(samples, (str, bytes)) else "".join(json.dumps(row) + "\n" for row in samples)
    (tmp_path / "data" / "x.jsonl").write_bytes(text if isinstance(text, bytes) else text.encode())
    return load([tmp_path], CATALOGUE)


def document(registry: Registry, name: str = "x.dev.v0", most: int | None = None) -> dict[str, Any]:
    data, _ = registry.find(name)[0].document(most)
    assert parse_dataset(data)[1] == []
    return data


def test_what_runs_and_why_the_rest_does_not_is_listed_and_nothing_is_skipped(registry: Registry) -> None:
    listed = {row.name: row for row in registry.listing()}
    reasons = {name.partition(".")[0]: row.reasons for name, row in listed.items() if not row.runs}
    expected_reasons = {
        "quiz-fetched": "fetched over the network",
        "translation": "sacrebleu",
        "novel": "the class somebody.package:Novel has no equal here",
        "absent": "there is no",
        "pointer": "is a git-lfs pointer",
        "ungraded": "did you mean humor",
    }
    if find_spec("sacrebleu") is not None:
        del expected_reasons["translation"]
    assert reasons.keys() == expected_reasons.keys()
    assert [name for name in expected_reasons if expected_reasons[name] not in reasons[name][0]] == []
    assert listed.keys() == {entry.name for entry in registry.entries["evals"].values() if "id" not in entry.data}
    assert listed["capitals.dev.v1"].aliases == ("capitals", "capitals.dev")
    assert listed["capitals.dev.v1"].description == "Name the capital of a country."


def test_every_eval_that_runs_becomes_a_valid_document(registry: Registry) -> None:
    running = [row.name for row in registry.listing() if row.runs]
    assert len(running) == 18 + (find_spec("sacrebleu") is not None)
    for name in running:
        assert document(registry, name)["metadata"]["name"] == name


@pytest.mark.parametrize("name", ["novel", "absent", "pointer", "quiz-fetched", "ungraded"])
def test_an_eval_that_cannot_run_says_why_with_its_line(registry: Registry, name: str) -> None:
    with pytest.raises(DatasetError, match=r"others\.yaml:\d+: "):
        registry.find(name)[0].document()


def test_examples_stand_before_the_last_message(registry: Registry) -> None:
    item = document(registry, "capitals-shown")["items"][0]
    contents = [message["content"] for message in item["messages"]]
    assert contents == ["Answer with the capital alone.", "Country: Spain", "Madrid", "Country: Egypt", "Cairo"]
    assert (item["prompt"], item["variables"]) == ("Country: France", {"continent": "some"})


def test_text_is_asked_as_the_user_and_that_is_told(registry: Registry) -> None:
    data, losses = registry.find("capitals")[0].document()
    assert data["items"][0] == {
        "testId": "capitals.dev.0",
        "prompt": "The capital of France is",
        "expected_response": "Paris",
    }
    assert any("sends it as a system message" in line for line in losses.sentences())
    assert any("temperature 0" in line for line in losses.sentences())


def test_the_choice_a_judge_makes_comes_from_the_file_of_the_registry(registry: Registry) -> None:
    spec = registry.find("jokes-kind")[0]
    data, _ = spec.document()
    options = data["default_evaluators"]["ModelGraded"]
    assert options["spec"] == f"{EXAMPLE.resolve() / 'modelgraded' / 'jokes.yaml'}#kindness-told"
    assert options["spec_args"] == {"standard": "It hurts nobody."}
    assert spec.needs.judge
    assert spec.needs.params == {"max_tokens": 64, "temperature": 0.4}
    assert spec.needs.judge_params["max_tokens"] == 256


def test_several_answers_are_asked_for_where_several_are_judged_together(registry: Registry) -> None:
    assert document(registry, "jokes-three")["repeats"] == 3
    assert "repeats" not in document(registry, "jokes-best")
    assert registry.find("jokes-best")[0].needs.targets == 2
    duels = document(registry, "jokes-duel")["items"]
    assert duels[0]["response"] == "Knock, knock."
    assert duels[1]["repeats"] == 2


def test_renamed_fields_are_read_under_their_new_names(registry: Registry) -> None:
    item = document(registry, "jokes-renamed")["items"][0]
    assert item["prompt"] == "Tell a joke about cats."
    assert item["variables"] == {"standard": "It is short."}


def test_answers_and_labels_of_people_are_kept(registry: Registry) -> None:
    item = document(registry, "jokes-labelled")["items"][1]
    assert item["response"] == "Rain is like your cooking."
    assert item["variables"] == {"completion": "Rain is like your cooking.", "choice": "No"}


def test_the_parent_of_a_registry_serves_as_well(tmp_path: Path) -> None:
    (tmp_path / "registry").symlink_to(EXAMPLE, target_is_directory=True)
    assert load([tmp_path, EXAMPLE], CATALOGUE).roots == (EXAMPLE.resolve(),)


def test_a_set_may_hold_sets_and_an_eval_wins_over_a_set_of_its_name(tmp_path: Path) -> None:
    one(tmp_path, [{"input": "a", "ideal": "b"}])
    (tmp_path / "eval_sets").mkdir()
    sets = "all: {evals: [inner, nobody]}\ninner: {evals: ['x.*']}\nx.dev.v0: {evals: [inner]}\n"
    (tmp_path / "eval_sets" / "s.yaml").write_text(sets)
    registry = load([tmp_path], CATALOGUE)
    assert [spec.name for spec in registry.find("all")] == ["x.dev.v0"]
    assert [spec.name for spec in registry.find("x*v0")] == ["x.dev.v0"]
    hidden, dead = registry.remarks()
    assert "has the name of an eval" in hidden
    assert dead.endswith("s.yaml:1: the set 'all' names 'nobody', and there is no such eval")


def test_a_broken_file_of_grading_specs_spoils_only_what_refers_to_it(tmp_path: Path) -> None:
    one(tmp_path, [{"input": "a", "ideal": "b"}])
    (tmp_path / "modelgraded").mkdir()
    (tmp_path / "modelgraded" / "m.yaml").write_text("a:\n  prompt: x\n  prompt: y\n")
    registry = load([tmp_path], CATALOGUE)
    assert document(registry)["items"]
    (note,) = registry.remarks()
    assert note.endswith("m.yaml:3: the key 'prompt' appears twice; the last counts, as in the original")
    (tmp_path / "modelgraded" / "m.yaml").write_text("a: [\n")
    assert document(load([tmp_path], CATALOGUE))["items"]
    assert "m.yaml:2: not valid YAML" in load([tmp_path], CATALOGUE).remarks()[0]


def test_lines_end_as_they_like_and_blank_ones_count_for_nothing(tmp_path: Path) -> None:
    first, last = '\ufeff{"input": "a", "ideal": "b"}\r\n\r', '\r{"input": "f", "ideal": ""}\n\n'
    registry = one(tmp_path, first + '{"input": "c\u2028d", "ideal": ["e"]}' + last)
    assert [item["prompt"] for item in document(registry)["items"]] == ["a", "c\u2028d", "f"]


@pytest.mark.parametrize(("suffix", "package"), [(".zst", "zstandard"), (".lz4", "lz4")])
def test_a_compressed_file_needs_a_package_that_can_unpack_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, package: str
) -> None:
    registry = data_named(tmp_path, f"x.jsonl{suffix}", b"?")
    monkeypatch.setattr("tui_evals.imports.openai_evals.samples.find_spec", lambda name: None)
    assert f"is read by the Python package {package}, which is not here" in registry.listing()[0].reasons[0]


def data_named(tmp_path: Path, name: str, raw: bytes | None = None) -> Registry:
    """A registry of one eval whose data have this name."""
    one(tmp_path, "")
    if raw is not None:
        (tmp_path / "data" / name).write_bytes(raw)
    entry = (tmp_path / "evals" / "x.yaml").read_text().replace("x.jsonl", name)
    (tmp_path / "evals" / "x.yaml").write_text(entry)
    return load([tmp_path], CATALOGUE)


def test_nothing_outside_the_registry_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, secret = tmp_path / "inside", tmp_path / "secret.jsonl"
    inside.mkdir()
    secret.write_text('{"input": "key", "ideal": "x"}\n')
    one(inside, "")
    monkeypatch.chdir(inside)
    (inside / "data" / "link.jsonl").symlink_to(secret)
    for name in (str(secret), "../../secret.jsonl", "link.jsonl", "/dev/zero"):
        assert "outside the registry" in data_named(inside, name).listing()[0].reasons[0], name
    for name in ("~/x", '"a\\0b"'):
        assert "there is no" in data_named(inside, name).listing()[0].reasons[0], name
    os.mkfifo(inside / "data" / "pipe.jsonl")
    assert "is not a file" in data_named(inside, "pipe.jsonl").listing()[0].reasons[0]


def test_a_folder_does_not_lead_out_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "inside" / "data" / "all").mkdir(parents=True)
    (tmp_path / "secret.jsonl").write_text("{}\n")
    (tmp_path / "inside" / "data" / "all" / "link.jsonl").symlink_to(tmp_path / "secret.jsonl")
    registry = data_named(tmp_path / "inside", "all")
    assert "leads out of its folder" in registry.listing()[0].reasons[0]


def test_arguments_and_fields_without_an_equal_are_told(tmp_path: Path) -> None:
    registry = one(tmp_path, [{"input": "a", "ideal": []}], "    max_tokens: 5\n    colour: red\n  owner: me\n")
    _, losses = registry.find("x.dev.v0")[0].document()
    left = {entry.what for entry in losses.of("left out")}
    assert left == {"args.max_tokens", "args.colour", "owner"}
    assert [entry.why for entry in losses.of("left out") if entry.what == "args.max_tokens"] == [
        "the original takes it and never sends it"
    ]
    assert any("counts a miss" in entry.why for entry in losses.of("changed"))


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("basic.match:Match", {"temperature": 0}),
        ("basic.includes:Includes", {}),
        ("basic.fuzzy_match:FuzzyMatch", {"temperature": 0, "max_tokens": 100}),
        ("basic.json_match:JsonMatch", {"temperature": 0, "max_tokens": 512}),
        ("basic.json_validator:JsonValidator", {"temperature": 0}),
        ("translate:Translate", {"max_tokens": 500}),
    ],
)
def test_the_parameters_of_each_class_are_told(tmp_path: Path, kind: str, params: dict[str, Any]) -> None:
    spec = one(tmp_path, [], kind=kind).find("x.dev.v0")[0]
    assert (spec.needs.params, spec.needs.judge) == (params, False)


def test_the_choices_of_a_question_follow_the_seed(registry: Registry) -> None:
    spec = registry.find("quiz")[0]
    texts = {json.dumps(spec.document(seed=seed)[0]["items"][0]) for seed in range(8)}
    assert len(texts) > 1


def test_the_fields_that_shipped_grading_specs_read_are_known() -> None:
    pairs = {name: dict(load_spec(name).input_outputs) for name in shipped_specs()}
    assert {name: found for name, found in pairs.items() if found != {"input": "completion"}} == _PAIRED


def test_packed_and_open_files_hold_the_same(tmp_path: Path) -> None:
    rows = [{"input": "a", "ideal": "b"}, {"input": [{"role": "system", "content": "c"}], "ideal": ["d", "e"]}]
    plain = document(one(tmp_path, rows))
    packed = gzip.compress((tmp_path / "data" / "x.jsonl").read_bytes())
    assert document(data_named(tmp_path, "x.jsonl.gz", packed))["items"] == plain["items"]
