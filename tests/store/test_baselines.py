"""Which run a dataset is measured against: kept, replaced and cleared by hand only."""

import pytest

from tests.store.helpers import cells, new_run
from tui_evals.store.baselines import baseline_of, baselines, clear_baseline, dataset_key, set_baseline
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer


@pytest.fixture
def runs(path):
    with Writer(path, secrets=["hush-hush-hush"]) as writer, Reader(path) as reader:
        yield writer, reader, [writer.plan(new_run(), cells(1)) for _ in range(2)]


def test_a_dataset_has_one_baseline_with_its_author_and_time(runs):
    writer, reader, (one, other) = runs
    assert baseline_of(reader, "a.json") is None
    set_baseline(writer, "a.json", one.id, "ada")
    set_baseline(writer, "b.json", one.id, "ada")
    set_baseline(writer, "a.json", other.id, "bob")
    assert [(kept.source, kept.run, kept.author) for kept in baselines(reader)] == [
        ("a.json", other.id, "bob"),
        ("b.json", one.id, "ada"),
    ]
    found = baseline_of(reader, "a.json")
    assert found.run == other.id and found.time >= other.created
    clear_baseline(writer, "a.json")
    assert [kept.source for kept in baselines(reader)] == ["b.json"]


def test_newer_runs_of_a_dataset_do_not_move_its_baseline(runs):
    writer, reader, (one, _) = runs
    set_baseline(writer, "evals.json", one.id, "ada")
    newer = writer.plan(new_run(), cells(1))
    writer.run_status(newer.id, "finished")
    assert baseline_of(reader, "evals.json").run == one.id


def test_a_run_that_something_is_measured_against_is_not_deleted(runs):
    writer, reader, (one, _) = runs
    set_baseline(writer, "a.json", one.id, "ada")
    with pytest.raises(StoreError, match=f"run {one.key} is the baseline of a.json"):
        writer.delete_run(one)
    clear_baseline(writer, "a.json")
    writer.delete_run(one)
    assert baselines(reader) == []


def test_no_secret_is_in_the_name_of_a_dataset(runs):
    writer, reader, (one, _) = runs
    set_baseline(writer, "hush-hush-hush.json", one.id, "ada")
    assert "hush" not in baselines(reader)[0].source
    clear_baseline(writer, "hush-hush-hush.json")
    assert baselines(reader) == []


def test_a_file_of_the_project_is_named_from_its_root(tmp_path):
    root = tmp_path / "project"
    (root / "evals").mkdir(parents=True)
    file = root / "evals" / "a.json"
    file.write_text("{}")
    (tmp_path / "outside.json").write_text("{}")
    assert dataset_key("evals/a.json", root, root) == "evals/a.json"
    assert dataset_key("a.json", root, root / "evals") == "evals/a.json"
    assert dataset_key(str(file), root, tmp_path) == "evals/a.json"
    assert dataset_key("../outside.json", root, root) == "../outside.json"
    assert dataset_key("prompts", root, root) == "prompts"
    assert dataset_key("gone.json", root, root / "evals") == "gone.json"
    assert dataset_key("x" * 5000, root, root) == "x" * 5000
    assert dataset_key("a\0b", root, root) == "a\0b"
