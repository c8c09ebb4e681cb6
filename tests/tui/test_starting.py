"""The form that starts a run: what enter does before the price is known and where a run is dear, and its targets."""

import threading

from tests.tui.story import at_the_workbench, configure, write
from tui_evals.runs.plan import Estimate
from tui_evals.runs.start import PreparedRun
from tui_evals.store.reader import Reader
from tui_evals.targets.base import TargetConfig
from tui_evals.targets.config import RunDefaults, Settings
from tui_evals.tui.runs.starting import fields_of, first_values
from tui_evals.tui.widgets.form import DONE, LEAVE
from tui_evals.tui.widgets.lines import Lines

DATA = {"default_evaluators": {"Includes": {}}, "items": [{"prompt": f"question {n}"} for n in range(4)]}


async def test_enter_starts_nothing_before_the_price_is_known_nor_where_a_run_is_dear(tmp_path, monkeypatch):
    """Enter waits for the price; above the limit of the settings it is on cancel, and below it on start."""
    known, estimate = threading.Event(), PreparedRun.estimate

    def estimate_later(prepared: PreparedRun) -> Estimate:
        assert known.wait(60)
        return estimate(prepared)

    monkeypatch.setattr(PreparedRun, "estimate", estimate_later)
    write(tmp_path / "data.json", DATA)
    configure(tmp_path, '[run]\ntargets = ["demo"]\nconfirm_calls = 3\n')
    async with at_the_workbench(tmp_path, dataset="data.json", size=(80, 24)) as person:

        def at() -> object:
            return person.app.screen.query_one("#fields", Lines).key

        await person.press("r")
        await person.sees("▸ cancel")
        assert at() is DONE
        for key in ("enter", "ctrl+s"):
            await person.press(key)
            await person.sees("still being worked out")
        known.set()
        await person.sees("more than 3 calls: k goes to start")
        assert at() is LEAVE and "still being" not in person.screen()
        await person.press("enter")
        await person.until(lambda: "▸ cancel" not in person.screen())

        person.app.session.put("form", {"targets": ["demo"], "other targets": "openai/before"})
        await person.press("j", "r")
        await person.sees("1 call, free")
        assert at() is DONE
        await person.press("g")
        await person.sees("Last asked: demo, openai/before")
        assert person.app.screen.values["targets"] == ["demo"] and "other targets" not in person.app.screen.values
        await person.press("escape")
    with Reader(tmp_path / ".evals" / "evals.db") as reader:
        assert not reader.runs()


def test_the_configured_target_is_chosen_and_the_last_one_offered():
    configured = Settings(targets={"a": TargetConfig(name="a", model="openai/a")}, judge="a")
    last = {"targets": ["b"], "other targets": "openai/c", "repeats": 3}
    assert first_values(last, configured) == {"targets": ["a"], "repeats": 3, "judge": "a"}
    named = Settings(run=RunDefaults(targets=("d",)))
    assert first_values({}, named) == {"targets": ["d"]}
    assert first_values(last, Settings()) == last
    targets = fields_of(configured, ("b", "openai/c"))[0]
    assert tuple(targets.choices) == ("a", "b", "openai/c", "demo")
