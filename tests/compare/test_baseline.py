"""A run against the baseline of its dataset, column by column, while it goes on."""

import asyncio
import json

import pytest

from tests.cli.helpers import Shell
from tests.store.helpers import judged, new_run, said
from tui_evals.compare.baseline import BaselineComparison
from tui_evals.compare.runs import read_comparison
from tui_evals.present.comparisons import baseline_phrases
from tui_evals.store.baselines import clear_baseline, set_baseline
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.records import PlannedAnswer
from tui_evals.store.writer import Writer


class Store:
    """A store in a project, with runs of targets whose answers pass or fail as letters say."""

    def __init__(self, root):
        self.root, self.path = root, open_store(root / ".evals" / "evals.db")
        (root / "evals.json").write_text("{}")

    async def run(self, name="nightly", expected="yes", rubric=None, **targets):
        """Each letter is the answer to an item: p passes, f fails, e is an error, . is not there yet."""
        count = len(next(iter(targets.values())))
        items = [{"testId": f"t-{n}", "prompt": f"ask {n}", "expected_response": expected} for n in range(count)]
        planned = [
            PlannedAnswer(n * len(targets) + t, n, 0, 0, t, 0, f"t-{n}")
            for n in range(count)
            for t in range(len(targets))
        ]
        with Writer(self.path) as writer, Reader(self.path) as reader:
            snapshot = writer.snapshot({"items": items}, "evals.json")
            run = writer.plan(new_run(name=name, snapshot=snapshot, targets=tuple(targets)), planned)
            for row in list(reader.all_rows(run.id)):
                await self.judge(writer, row.id, list(targets.values())[row.target][row.item], rubric)
            writer.run_status(run.id, "finished")
        return run

    async def grid(self, **prompts):
        """One target asked by several prompts, letters as above."""
        count = len(next(iter(prompts.values())))
        planned = [
            PlannedAnswer(n * len(prompts) + p, n, 0, p, 0, 0, f"t-{n}")
            for n in range(count)
            for p in range(len(prompts))
        ]
        with Writer(self.path) as writer, Reader(self.path) as reader:
            snapshot = writer.snapshot({"items": [{"prompt": f"ask {n}"} for n in range(count)]}, "evals.json")
            run = writer.plan(new_run(snapshot=snapshot, prompts=tuple(prompts)), planned)
            for row in list(reader.all_rows(run.id)):
                await self.judge(writer, row.id, list(prompts.values())[row.prompt][row.item])
            writer.run_status(run.id, "finished")
        return run

    async def judge(self, writer, answer, letter, rubric=None):
        if letter == "e":
            await writer.answered(answer, said(None, code="gone", message="nobody there"), "error")
        elif letter != ".":
            verdict = {"p": "pass", "f": "fail"}[letter]
            await writer.answered(answer, said(), "answered")
            details = {"rubric": rubric} if rubric else {}
            await writer.scored(answer, 1, [judged(score=float(letter == "p"), details=details)], verdict, 100.0)

    def baseline(self, run):
        with Writer(self.path) as writer:
            set_baseline(writer, "evals.json", run.id, "me")

    def against(self, run):
        with Reader(self.path) as reader:
            return BaselineComparison(self.root).measure(reader, reader.run(run.id))


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


async def test_each_target_is_measured_over_the_items_that_both_have_judged_so_far(store):
    before = await store.run("nightly-12", one="ffffffffpp", two="pppppppppp")
    run = await store.run(one="pppppppp.e", two="ppppp.....", three="pppppppppp")
    assert store.against(run) is None
    store.baseline(before)
    found = store.against(run)
    assert found.baseline.name == "nightly-12" and set(found.columns) == {(0, 0), (0, 1)}
    one, two = found.columns.values()
    assert (one.items, one.before, one.after, two.items, two.difference) == (8, 0.0, 1.0, 5, 0.0)
    assert one.p < one.adjusted < 0.05 and one.side > 0
    assert baseline_phrases(one, "nightly-12")[0] == "+100 pts on nightly-12, better (p = 0.016)"
    assert store.against(before).itself


async def test_it_says_what_comparing_the_two_runs_says(store):
    before, run = await store.run(one="ppfpfppfpf"), await store.run(one="pfppppppff")
    store.baseline(before)
    test = store.against(run).columns[0, 0]
    with Reader(store.path) as reader:
        (whole,) = read_comparison(reader, [before.id, run.id]).against
    assert (test.items, test.difference, test.p) == (whole.passes.items, whole.passes.difference, whole.passes.p)
    assert "could be chance" in baseline_phrases(test, "x")[0]


async def test_what_is_judged_by_another_expectation_now_is_not_compared(store):
    before, run = await store.run(one="pppp"), await store.run(one="ffff", expected="no")
    store.baseline(before)
    assert store.against(run).columns == {}


async def test_verdicts_by_another_rubric_are_not_compared(store):
    before, run, alike = [await store.run(one="pppp", rubric=name) for name in ("m365", "strict", "m365")]
    store.baseline(before)
    assert store.against(run).columns == {} and store.against(alike).columns[0, 0].items == 4


async def test_what_does_not_change_is_read_once_and_without_a_baseline_there_is_nothing(store, monkeypatch):
    before, run = await store.run(one="pp"), await store.run(one="p.")
    store.baseline(before)
    comparison = BaselineComparison(store.root)
    with Reader(store.path) as reader, Writer(store.path) as writer:
        row = reader.run(run.id)
        assert comparison.measure(reader, row).columns[0, 0].items == 1
        monkeypatch.setattr(Reader, "snapshot", lambda self, digest: 1 / 0)
        await store.judge(writer, list(reader.all_rows(run.id))[1].id, "f")
        assert comparison.measure(reader, row).columns[0, 0].items == 2
        clear_baseline(writer, "evals.json")
        assert comparison.measure(reader, row) is None


async def test_show_and_watch_say_it_below_each_target(store, capsys, monkeypatch):
    shell = Shell(capsys)
    before, run = await store.run("nightly-12", one="pfff", two="pppp"), await store.run(one="pppp", two="pppp")
    store.baseline(before)
    monkeypatch.chdir(store.root)
    said = shell("show", run.key).out
    assert "+75 pts on nightly-12, could be chance (p = 0.50)" in said and "no difference to nightly-12" in said
    watched = await asyncio.to_thread(shell, "watch", run.key)
    assert "one: +75 pts on nightly-12, could be chance (p = 0.50)" in watched.out
    assert json.loads(shell("show", run.key, "--json").out)["budget"] is None


async def test_prompts_of_a_target_are_measured_one_by_one(store, monkeypatch, capsys):
    """A prompt that got better does not hide another that got worse."""
    before = await store.grid(long="ffffffff", short="pppppppp")
    run = await store.grid(long="pppppppp", short="ffffffff")
    store.baseline(before)
    found = store.against(run)
    assert {column: test.difference for column, test in found.columns.items()} == {(0, 0): 1.0, (1, 0): -1.0}
    assert [test.side for test in found.columns.values()] == [1, -1]
    monkeypatch.chdir(store.root)
    said = Shell(capsys)("show", run.key).out
    assert "demo · long: +100 pts on nightly, better" in said and "demo · short: -100 pts on nightly, worse" in said
