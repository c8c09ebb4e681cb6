"""The form that starts a run: what enter does before the price is known and where a run is dear, and its targets."""

import subprocess
import sys
import threading

import pytest

from tests.tui.stored_runs import add_run, fresh
from tests.tui.story import at_the_workbench, configure, write
from tui_evals.runs.estimating import Estimate
from tui_evals.runs.experiments import read_experiment
from tui_evals.runs.start import PreparedRun
from tui_evals.store.reader import Reader
from tui_evals.targets.base import TargetConfig
from tui_evals.targets.config import RunDefaults, Settings
from tui_evals.tui.runs.starting import fields_of, first_values, run_values, with_prompts
from tui_evals.tui.widgets.form import DONE, LEAVE
from tui_evals.tui.widgets.lines import Lines

DATA = {"default_evaluators": {"Includes": {}}, "items": [{"prompt": f"question {n}"} for n in range(4)]}


@pytest.mark.story
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
        await person.sees("so Cancel is selected. Press k for Start")
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


async def test_to_run_another_dataset_than_the_open_one_one_is_told_to_open_it(tmp_path):
    """It said to go to the tree, in which one was."""
    write(tmp_path / "data.json", DATA)
    write(tmp_path / "other.json", DATA)
    async with at_the_workbench(tmp_path, dataset="data.json", size=(80, 24)) as person:
        await person.sees("other.json")
        await person.press("G", "r")
        await person.sees("this is another dataset than the open one: enter opens it, then r runs it")


async def test_the_form_begins_as_the_last_run_of_the_dataset_wherever_it_was_started_and_is_whole_at_once(tmp_path):
    write(tmp_path / "data.json", DATA)
    configure(tmp_path, '[run]\ntargets = ["demo:other"]\n')
    path = fresh(tmp_path)
    await add_run(path, [("pass", "a")], source="other.json", targets=("gone",))
    await add_run(path, [("pass", "a")], source="data.json", targets=("demo",), config={"repeats": 3})
    async with at_the_workbench(tmp_path, dataset="data.json", size=(80, 24)) as person:
        heights = []
        person.app.post_display_hook = lambda: heights.append(
            [lines.size.height for lines in person.app.screen.query("#fields")]
        )
        await person.press("r")
        await person.sees("12 calls")
        form = person.app.screen
        assert form.values["targets"] == ["demo"] and form.values["repeats"] == 3 and "ask again" not in form.values
        assert form.query_one("#fields", Lines).key is DONE
        shown = [height for height, *_ in filter(None, heights)]
        assert len(shown) > 1 and min(shown) > len(form.values) + 5


def test_for_another_dataset_the_configured_target_is_chosen_and_the_last_one_offered(tmp_path):
    configured = Settings(targets={"a": TargetConfig(name="a", model="openai/a")}, judge="a")
    last = {"targets": ["b"], "other targets": "openai/c", "repeats": 3}
    assert first_values(last, configured, tmp_path) == {"targets": ["a"], "repeats": 3, "judge": "a"}
    named = Settings(run=RunDefaults(targets=("d",)))
    assert first_values({}, named, tmp_path) == {"targets": ["d"]}
    assert first_values(last, Settings(), tmp_path) == last
    targets = fields_of(configured, ("b", "openai/c"))[0]
    assert tuple(targets.choices) == ("a", "b", "openai/c", "demo")


@pytest.mark.nightly
async def test_the_form_chooses_prompts_and_varies_parameters(tmp_path):
    """Items of variables alone are asked by two prompts at two seeds, and the run is asked again as it was."""
    write(tmp_path / "data.json", {"default_evaluators": {}, "items": [{"variables": {"word": "sea"}}]})
    for name in ("short", "long"):
        (tmp_path / f"{name}.prompty").write_text("user:\nSay {{ word }}.\n")
    configure(tmp_path, '[run]\ntargets = ["demo"]\n')
    async with at_the_workbench(tmp_path, dataset="data.json", size=(100, 40)) as person:
        await person.press("r")
        await person.sees("variables only, and no prompt")
        form = person.app.screen
        form.values |= {"prompts": ["long.prompty", "short.prompty"], "parameters": "seed=1"}
        form.values_changed()
        await person.sees("2 calls, free")
        form.values |= {"parameters": "seed"}
        form.values_changed()
        await person.sees("names no parameter with its values")
        form.values |= {"parameters": "seed=1,2"}
        form.values_changed()
        await person.sees("4 calls, free")
        await person.press("ctrl+s")
        await person.until(lambda: person.app.watching.run is not None)
        run = person.app.watching.run
        assert run.targets == ("demo@seed=1", "demo@seed=2") and run.prompts == ("long", "short")
    offered = ("long.prompty", "short.prompty")
    assert with_prompts(run_values(run), offered)["prompts"] == ["long.prompty", "short.prompty"]


def test_what_is_varied_is_remembered_for_its_dataset_only(tmp_path):
    last = {"file": str(tmp_path / "a.json"), "targets": ["t"], "prompts": ["p.prompty"], "parameters": "seed=1,2"}
    own = {name: value for name, value in last.items() if name != "file"}
    configured = Settings(run=RunDefaults(targets=("d",)))
    assert first_values(last, Settings(), tmp_path / "b.json") == {"targets": ["t"]}
    assert first_values(last, configured, tmp_path / "b.json") == {"targets": ["d"]}
    for settings in (Settings(), configured):
        assert first_values(last, settings, tmp_path / "a.json") == own
    assert with_prompts({"prompts": ["gone"]}, ("p.prompty",)) == {"prompts": ["gone"]}


@pytest.mark.nightly
async def test_the_form_keeps_the_run_as_an_experiment_that_the_command_line_runs(tmp_path):
    """What was chosen is written once the run starts; a name that is taken is refused while the form is open."""
    write(tmp_path / "data.json", {**DATA, "default_evaluators": {"Latency": {"threshold": 60_000}}})
    configure(tmp_path, '[run]\ntargets = ["demo"]\n')
    (tmp_path / "taken.experiment.yaml").write_text("data: data.json\n")
    async with at_the_workbench(tmp_path, dataset="data.json", size=(100, 40)) as person:
        await person.press("r")
        await person.sees("4 calls")
        form, lines = person.app.screen, person.app.screen.query_one(Lines)
        for name, value in (("repeats", "2"), ("parameters", "temperature=0,0.7"), ("keep as", "taken")):
            lines.show(form._rows, at=name)
            await person.press("enter")
            await person.type(value)
            await person.press("enter")
        await person.sees("taken.experiment.yaml is already there")
        lines.show(form._rows, at="keep as")
        await person.press("enter")
        await person.press(*["backspace"] * len("taken"))
        await person.type("nightly")
        await person.press("enter")
        await person.sees("16 calls")
        await person.press("ctrl+s")
        await person.until(lambda: person.app.watching.run and person.app.watching.run.status == "finished")
        assert "keep as" not in person.app.session.values["form"]
    experiment = read_experiment(tmp_path / "nightly.experiment.yaml", tmp_path)
    assert experiment.model.repeats == 2 and experiment.model.sweep == {"temperature": [0, 0.7]}
    command = [sys.executable, "-m", "tui_evals", "run", "nightly", "--quiet"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120)
    with Reader(tmp_path / ".evals" / "evals.db") as reader:
        by_command, by_form = reader.runs()
    assert (by_command.total, by_command.targets) == (by_form.total, by_form.targets)
