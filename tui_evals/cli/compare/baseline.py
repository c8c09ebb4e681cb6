"""Baselines: the run of each dataset that later ones are measured against, which only a person sets."""

from __future__ import annotations

from pathlib import Path

from tui_evals.cli import project
from tui_evals.cli.output import Stop, cell, say, say_json
from tui_evals.compare.sides import Rate
from tui_evals.compare.statistics import percent
from tui_evals.datasets.discover import project_root
from tui_evals.present.figures import local_time
from tui_evals.present.runs import next_step
from tui_evals.runs.gates import why_no_baseline
from tui_evals.store.baselines import (
    Baseline,
    author_here,
    baseline_of,
    baselines,
    clear_baseline,
    dataset_key,
    set_baseline,
)
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow


def set_run(word: str) -> None:
    """Make a run the baseline of its dataset, and say what it replaces."""
    with project.reader() as reader:
        run = project.run_named(reader, word)
        if (why := why_no_baseline(reader, run)) is not None:
            go_on = next_step(run)
            raise Stop(f"{why}, so it cannot be a baseline{'; ' + go_on if go_on else ''}")
        root = project_root(Path.cwd())
        dataset = dataset_key(run.source, root, root)
        before = baseline_of(reader, dataset)
        if before is not None and before.run == run.id:
            say(f"{run.key} is the baseline of {dataset} already")
            return
        with project.writer({}) as writer:
            set_baseline(writer, dataset, run.id, author_here())
        replaced = "" if before is None else f" instead of {_run_text(reader.run(before.run))}"
    say(f"{_run_text(run)} is the baseline of {dataset}{replaced}")


def show(as_json: bool) -> None:
    """The baseline of every dataset."""
    with project.reader() as reader:
        rows = [(baseline, reader.run(baseline.run)) for baseline in baselines(reader)]
        rates = [_pass_rate(reader, run) for _, run in rows]
    if as_json:
        say_json([_baseline_json(baseline, run, rate) for (baseline, run), rate in zip(rows, rates, strict=True)])
        return
    if not rows:
        say("no baseline is set; `tui-evals baseline set RUN` makes a run the one that later ones are measured against")
    for (baseline, run), rate in zip(rows, rates, strict=True):
        say(baseline.source, bold=True)
        passes = f"{rate.passed} of {rate.judged} pass ({percent(rate.share)})" if rate.judged else "no pass rate"
        say(f"  {run.key}  {cell(run.name, 40)}  ran {local_time(run.started or run.created)}  {passes}")
        say(f"  set by {baseline.author}, {local_time(baseline.time)}")


def clear(name: str | None) -> None:
    """Forget a baseline, by its dataset or its run."""
    with project.reader() as reader:
        baseline = _baseline_or_stop(reader, name)
        key = reader.run(baseline.run).key
        with project.writer({}) as writer:
            clear_baseline(writer, baseline.source)
    say(f"{baseline.source} has no baseline any more; it was {key}, which stays")


def _baseline_or_stop(reader: Reader, name: str | None) -> Baseline:
    all_baselines = baselines(reader)
    if not all_baselines:
        raise Stop("no baseline is set")
    if name is None:
        if len(all_baselines) > 1:
            raise Stop(
                f"there are several baselines; say which: {', '.join(baseline.source for baseline in all_baselines)}"
            )
        return all_baselines[0]
    root = project_root(Path.cwd())
    for dataset in (name, dataset_key(name, root)):
        for baseline in all_baselines:
            if baseline.source == dataset:
                return baseline
    run = project.run_named(reader, name)
    if of_run := [baseline for baseline in all_baselines if baseline.run == run.id]:
        return of_run[0]
    raise Stop(f"{run.key} is no baseline; `tui-evals baseline show` lists them")


def _run_text(run: RunRow) -> str:
    return f"{run.key} ({run.name})"


def _pass_rate(reader: Reader, run: RunRow) -> Rate:
    total = reader.totals(run.id)
    return Rate(total.passed, total.passed + total.failed)


def _baseline_json(baseline: Baseline, run: RunRow, rate: Rate) -> dict[str, object]:
    return {
        "dataset": baseline.source,
        "run": run.key,
        "name": run.name,
        "ran": run.started or run.created,
        "author": baseline.author,
        "set": baseline.time,
        "passed": rate.passed,
        "judged": rate.judged,
    }
