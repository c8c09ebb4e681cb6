"""Which run is on screen, which one the statuses of the tree are from, and what tells runs of one name apart."""

import re

import pytest

from tests.tui.stored_runs import add_run
from tests.tui.story import at_the_workbench, write
from tui_evals.cli.main import run
from tui_evals.store.connection import hold, run_lock
from tui_evals.store.database import open_store

ITEMS = {"items": [{"testId": f"t-{n}", "prompt": f"ask {n}"} for n in range(4)]}
PASS, FAIL = ("pass", "yes"), ("fail", "no")


@pytest.mark.nightly
async def test_a_dataset_opens_with_its_latest_run_and_the_tree_says_whose_statuses_it_shows(
    tmp_path,
):
    write(tmp_path / "evals.json", ITEMS)
    write(tmp_path / "other.json", ITEMS)
    write(tmp_path / "never.json", ITEMS)
    path = open_store(tmp_path / ".evals" / "evals.db")
    whole = await add_run(path, [PASS] * 4, name="policy")
    part = await add_run(path, [FAIL, PASS], name="policy")
    other = await add_run(path, [PASS], name="another", source="other.json")
    async with at_the_workbench(tmp_path, dataset="evals.json", size=(160, 45)) as person:
        assert person.app.watching.run.key == part.key
        await person.sees(f"1 Dataset · statuses of {part.key} + 1 earlier")
        await person.press("6")
        lines = [line for line in person.screen().splitlines() if "policy" in line and " s " in line]
        assert any(whole.key in line for line in lines) and any(part.key in line for line in lines)
    async with at_the_workbench(tmp_path, dataset="other.json", size=(160, 45)) as person:
        assert person.app.watching.run.key == other.key
        await person.sees(f"statuses of {other.key} ")
    async with at_the_workbench(tmp_path, dataset="never.json") as person:
        assert person.app.watching.run is None


async def test_the_list_of_runs_says_how_far_one_is_that_goes_on(tmp_path, monkeypatch, capsys):
    path = open_store(tmp_path / ".evals" / "evals.db")
    live = await add_run(path, [PASS, None, None, None], name="policy", status="running")
    monkeypatch.chdir(tmp_path)
    with hold(run_lock(path, live.key)):
        assert run(["runs"]) == 0
    line = capsys.readouterr().out.splitlines()[1]
    assert re.match(rf"{live.key}  \d+ s ago  ▸ running 25 % +1/4  ✓ 1 ✗ 0 +100.0 % +policy", line)
