"""What commands that delete take for a run: nothing that a slip of the finger could have written."""

import json

import pytest

from tests.store.helpers import cells, new_run
from tui_evals.store.database import open_store
from tui_evals.store.writer import Writer


@pytest.fixture
def keys(project):
    """Three runs by their ids, the earliest first."""
    with Writer(open_store(project / ".evals" / "evals.db")) as writer:
        return [writer.plan(new_run(name=f"night {number}"), cells(2)).key for number in range(3)]


def left(shell):
    return {run["key"] for run in json.loads(shell("runs", "--json").out)}


@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_few_letters_delete_no_run_not_even_with_a_yes(shell, keys, length):
    key = keys[0]
    begin = next((key[:count] for count in range(length, 4) if sum(k.startswith(key[:count]) for k in keys) == 1), None)
    if begin is None:
        pytest.skip("these ids begin alike")
    for flags in ((), ("--yes",)):
        done = shell("delete", begin, *flags)
        assert done.code == 2 and f"'{begin}' is the beginning of run {key} (night 0)" in done.err
        assert "at least 4 characters" in done.err and f"`tui-evals delete {key}`" in done.err
    assert left(shell) == set(keys)
    assert shell("show", begin).code == 0  # reading takes any beginning


@pytest.mark.parametrize("word", ["id", "name", "four letters", "last"])
def test_what_names_a_run_for_certain_deletes_it(shell, keys, word):
    given = {"id": keys[2].upper(), "name": "night 2", "four letters": keys[2][:4], "last": "last"}[word]
    done = shell("delete", given, "--yes")
    assert done.code == 0 and f"deleted {keys[2]}" in done.out
    assert left(shell) == set(keys[:2])


def test_pruning_says_which_runs_it_would_take(shell, keys, monkeypatch):
    with open("/dev/null") as nobody:
        monkeypatch.setattr("sys.stdin", nobody)
        done = shell("runs", "prune", "--keep", 1)
    assert done.code == 2 and "Delete 2 runs?" in done.err
    assert all(key in done.err and f"night {number}" in done.err for number, key in enumerate(keys[:2]))
    assert keys[2] not in done.err and left(shell) == set(keys)


def test_clearing_the_cache_says_which_store_it_is_of(shell, keys, project, monkeypatch):
    with open("/dev/null") as nobody:
        monkeypatch.setattr("sys.stdin", nobody)
        done = shell("cache", "clear")
    assert done.code == 2 and str(project / ".evals" / "evals.db") in done.err
