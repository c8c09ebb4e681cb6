"""Where datasets and projects are, when nobody says so."""

from __future__ import annotations

from tui_evals.datasets.discover import find_dataset, is_generation_file, project_of


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
