"""Where datasets and projects are, when nobody says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tui_evals.datasets.discover import dataset_named, find_dataset, is_generation_file, may_hold_items, project_of
from tui_evals.datasets.paths import DatasetError


def test_what_a_generation_works_with_is_no_dataset(tmp_path):
    tests = tmp_path / "tests.json"
    tests.write_text("[]")
    assert find_dataset(tmp_path) == tests and not is_generation_file(tests)
    (tmp_path / "rules.txt").write_text("The output is short.\n")
    assert is_generation_file(tests) and find_dataset(tmp_path) is None
    assert not is_generation_file(tmp_path / "greeting.json")


def test_the_project_of_a_file_is_the_nearest_above_it_else_the_current_folder(tmp_path, monkeypatch):
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert project_of(deep / "x.json") == tmp_path.resolve()
    (tmp_path / "a" / ".evals").mkdir()
    assert project_of(deep / "x.json") == (tmp_path / "a").resolve()
    monkeypatch.chdir(deep)
    (tmp_path / "a" / ".evals").rmdir()
    assert project_of(tmp_path / "other" / "x.json") == (tmp_path / "other").resolve()


def test_a_dataset_is_found_by_its_name_alone_wherever_it_lies_in_the_project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evals" / "deep").mkdir(parents=True)
    for name in ("evals/support.json", "evals/deep/table.csv", "evals/config.json"):
        (tmp_path / name).write_text('{"items": []}' if "config" not in name else "{}")
    assert dataset_named(Path("support"), tmp_path) == Path("evals/support.json")
    assert dataset_named(Path("support.json"), tmp_path) == Path("evals/support.json")
    assert dataset_named(Path("table"), tmp_path) == Path("evals/deep/table.csv")
    for unknown in ("config", "nothing", "evals/suppor"):
        assert dataset_named(Path(unknown), tmp_path) == Path(unknown)
    (tmp_path / "support.json").write_text('{"items": []}')
    assert dataset_named(Path("support.json"), tmp_path) == Path("support.json")
    with pytest.raises(DatasetError, match=r"could be evals/support\.json or support\.json; name the file itself"):
        dataset_named(Path("support"), tmp_path)


def test_traces_are_no_dataset_though_they_speak_of_items(tmp_path):
    traces = tmp_path / "traces.json"
    traces.write_text('{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "execute_tool", "items": []}]}]}]}')
    assert not may_hold_items(traces)
