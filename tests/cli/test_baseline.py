"""Baselines on the command line: set by a person, said what they replace, kept until they are cleared."""

import json

import pytest

from tests.store.helpers import cells, judged, new_run, said
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer


@pytest.fixture
def database(project):
    (project / "evals.json").write_text("{}")
    (project / ".evals").mkdir()
    return open_store(project / ".evals" / "evals.db")


@pytest.fixture
async def ran(database):
    """`await ran("name")` stores a finished run of two answers, one of which passes, and returns its key."""

    async def run(name, status="finished", results=("pass", "fail"), **given):
        with Writer(database) as writer:
            row = writer.plan(new_run(name=name, snapshot=writer.snapshot({"items": []}, name), **given), cells(2))
            with Reader(database) as reader:
                for answer, result in zip(reader.all_rows(row.id), results, strict=False):
                    await writer.answered(answer.id, said(), "answered")
                    await writer.scored(answer.id, 1, [judged()], result, None)
            writer.run_status(row.id, status)
        return row.key

    return run


async def test_setting_a_baseline_says_what_it_replaces(ran, shell):
    first, second = await ran("first"), await ran("second")
    assert shell("baseline", "set", "first").out.startswith(f"{first} (first) is the baseline of evals.json\n")
    assert shell("baseline", "set", "first").out == f"{first} is the baseline of evals.json already\n"
    said_now = shell("baseline", "set").out
    assert said_now.startswith(f"{second} (second) is the baseline of evals.json instead of {first} (first)\n")


async def test_every_baseline_is_shown_with_its_run_and_who_set_it(ran, shell, monkeypatch):
    monkeypatch.setattr("getpass.getuser", lambda: "ada")
    assert "no baseline is set" in shell("baseline", "show").out
    assert json.loads(shell("baseline", "show", "--json").out) == []
    one, other = await ran("nightly"), await ran("weekly", source="b.json")
    shell("baseline", "set", one)
    shell("baseline", "set", other)
    shown = shell("baseline", "show").out
    assert (
        "evals.json" in shown
        and "b.json" in shown
        and "passes 50.0 %, 95 % interval" in shown
        and "set by ada" in shown
    )
    found = json.loads(shell("baseline", "show", "--json").out)
    assert [(kept["dataset"], kept["run"], kept["name"], kept["author"]) for kept in found] == [
        ("b.json", other, "weekly", "ada"),
        ("evals.json", one, "nightly", "ada"),
    ]
    assert [(rate["value"], rate["answers"]) for rate in found[0]["pass_rates"]] == [(0.5, 2)]


@pytest.mark.parametrize(
    ("status", "results", "why"),
    [
        ("interrupted", ("pass", "fail"), "is interrupted, and what it has not answered"),
        ("finished", ("error", "partial"), "has not a single answer that was judged"),
    ],
)
async def test_a_run_that_measures_nothing_cannot_be_a_baseline(ran, shell, status, results, why):
    key = await ran("half", status, results)
    done = shell("baseline", "set", key)
    assert done.code == 2 and why in done.err
    assert ("tui-evals resume" in done.err) == (status == "interrupted")
    assert json.loads(shell("baseline", "show", "--json").out) == []


async def test_a_baseline_is_cleared_by_its_dataset_or_its_run(ran, shell):
    one, other, third = await ran("one"), await ran("other", source="b.json"), await ran("third")
    shell("baseline", "set", one)
    shell("baseline", "set", other)
    several = shell("baseline", "clear")
    assert several.code == 2 and "b.json, evals.json" in several.err
    assert f"{third} is no baseline" in shell("baseline", "clear", third).err
    assert f"it was {other}, which stays" in shell("baseline", "clear", "b.json").out
    assert shell("baseline", "clear", one[:6]).code == 0
    assert "no baseline is set" in shell("baseline", "clear").err


async def test_a_single_baseline_needs_no_name_to_be_cleared(ran, shell):
    shell("baseline", "set", await ran("one"))
    assert shell("baseline", "clear").code == 0
    assert json.loads(shell("baseline", "show", "--json").out) == []


async def test_a_dataset_has_one_baseline_from_wherever_it_is_named(ran, shell, project, monkeypatch):
    shell("baseline", "set", await ran("one"))
    (project / "deep").mkdir()
    monkeypatch.chdir(project / "deep")
    second = await ran("second", source=str(project / "evals.json"))
    assert "instead of" in shell("baseline", "set", second).out
    assert shell("baseline", "clear", "../evals.json").code == 0


async def test_a_baseline_is_neither_deleted_nor_pruned(ran, shell, database):
    old, other = await ran("old"), await ran("other")
    shell("baseline", "set", old)
    refused = shell("delete", old, "--yes")
    assert refused.code == 1 and f"run {old} is the baseline of evals.json" in refused.err
    pruned = shell("runs", "prune", "--keep", 0, "--yes")
    assert f"{old} stays: it is the baseline of evals.json" in pruned.out and "deleted 1 run" in pruned.out
    with Reader(database) as reader:
        assert [run.key for run in reader.runs()] == [old]
    assert "no other run is that old" in shell("runs", "prune", "--keep", 0, "--yes").out
    assert other not in shell("runs").out
