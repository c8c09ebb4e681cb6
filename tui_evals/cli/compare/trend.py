"""`tui-evals trend` and `baseline`: how the runs of a dataset went, and the one they are measured against."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from tui_evals.cli import project
from tui_evals.cli.opening import dataset_of_word, is_dataset
from tui_evals.cli.output import Stop, cell, columns, is_output, say, say_json, say_result, write_file
from tui_evals.compare.baseline import baseline_sentences
from tui_evals.compare.sides import Verdict
from tui_evals.compare.trend import (
    HOLLOW,
    Trend,
    UnknownTrend,
    bar_range,
    category_trend,
    column_names,
    draw_bars,
    evaluator_trend,
    every_run,
    finished_runs,
    item_trend,
    known_span,
    pass_rate_trend,
    thin_values,
)
from tui_evals.datasets.discover import project_root
from tui_evals.figures import Figure
from tui_evals.present.columns import cell_width, fit, table, wrap
from tui_evals.present.comparisons import items_text
from tui_evals.present.figures import figure_data, interval_text, local_time, rate_text
from tui_evals.present.runs import Cost, next_step, run_cost
from tui_evals.present.status import ANSWER_LOOKS
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
from tui_evals.store.records import AnswerRow, RunRow

_SIGNS: Mapping[Verdict, str] = {
    "pass": ANSWER_LOOKS["pass"].glyph,
    "fail": ANSWER_LOOKS["fail"].glyph,
    "errored": ANSWER_LOOKS["error"].glyph,
    "unjudged": ANSWER_LOOKS["answered"].glyph,
}
_BESIDE = 52
"""Cells that a row of the trend takes next to its bars."""
_FEWEST, _NAME = 10, 24


def trend(
    dataset: str | None, *, item: str | None, category: str | None, evaluator: str | None, limit: int, as_json: bool
) -> None:
    """The latest finished runs of a dataset as bars and as a table, oldest first."""
    if sum(option is not None for option in (item, category, evaluator)) > 1:
        raise Stop("give one of --item, --category and --evaluator; each is a trend of its own")
    with project.reader() as reader:
        source, runs = _finished_runs(reader, dataset, limit)
        if not runs:
            raise Stop(f"there is no finished run of {source} yet; `tui-evals run {source}` makes one", 1)
        try:
            if item is not None:
                chosen_trend = item_trend(reader, runs, item)
            elif category is not None:
                chosen_trend = category_trend(reader, runs, category)
            elif evaluator is not None:
                chosen_trend = evaluator_trend(reader, runs, evaluator)
            else:
                chosen_trend = pass_rate_trend(reader, runs)
        except UnknownTrend as error:
            raise Stop(str(error)) from None
        if as_json:
            say_json(_trend_json(reader, source, runs, chosen_trend))
            return
        _say_trend(reader, source, runs, chosen_trend)


def _finished_runs(reader: Reader, word: str | None, limit: int) -> tuple[str, list[RunRow]]:
    """The dataset of a word, and its latest finished runs, the oldest first."""
    root = project_root(Path.cwd())
    # Sources of runs are relative to the project's folder, a typed word to the current one.
    key = cache(lambda source: dataset_key(source, root, root))
    word = None if word is None else str(dataset_of_word(Path(word)))
    dataset_name = None if word is None else dataset_key(word, root)
    if dataset_name is None or not (
        os.path.isfile(word or "") or any(key(run.source) == dataset_name for run in every_run(reader))
    ):
        dataset_name = key(_run_or_stop(reader, word).source)
    return dataset_name, finished_runs(reader, dataset_name, key, limit)


def _run_or_stop(reader: Reader, word: str | None) -> RunRow:
    try:
        return project.run_named(reader, word or "last")
    except Stop:
        if word is None or not is_dataset(word):
            raise
        raise Stop(
            f"no run has asked a dataset {word}, and there is no such file; `tui-evals runs` lists the runs"
        ) from None


# -- on the screen


def _say_trend(reader: Reader, source: str, runs: Sequence[RunRow], trend: Trend) -> None:
    room = columns()
    many = f"the latest {len(runs)} finished runs" if len(runs) > 1 else "the one finished run"
    for line in wrap(f"{trend.title} in {many} of {source}", room):
        say(line, bold=True)
    if len(runs) == 1:
        say("A trend takes two runs or more.", dim=True)
    elif trend.verdicts is None:
        _say_bars(trend, room)
    else:
        _say_verdicts(trend, room)
    for line in _sentences(reader, runs, trend):
        for part in wrap(line, room):
            say(part)
    versions = len({run.snapshot for run in runs})
    if versions > 1:
        for part in wrap(
            f"These runs asked {versions} versions of the dataset: its items, or how they are judged, were changed.",
            room,
        ):
            say(part, dim=True)
    say()
    _say_runs(reader, runs, trend, room)


def _say_bars(trend: Trend, room: int | None) -> None:
    every = trend.values.values()
    low, high = (0.0, 1.0) if trend.evaluator is None else bar_range(chain.from_iterable(every))
    most = max(map(len, every)) if room is None else max(room - _BESIDE, _FEWEST)
    step, rows = 1, [["", "", "first", "last", "change"]]
    for name, values in trend.values.items():
        step, drawn = thin_values(values, most)
        span = known_span(values)
        first, last = (values[span[0]], values[span[1]]) if span else (None, None)
        change = trend.format_change(first, last) if span and span[0] < span[1] else ""
        _, points = thin_values([1.0 if point else None for point in trend.hollow(name)], most)
        bars = draw_bars(drawn, low, high, [point is not None for point in points])
        rows.append([name, bars, trend.format_value(first), trend.format_value(last), change])
    for number, line in enumerate(table(rows, right=(2, 3, 4), room=room)):
        say(line, dim=number == 0)
    note = f"Bars from {trend.format_value(low)} to {trend.format_value(high)}" + (
        f", each the mean of {step} runs" if step > 1 else ""
    )
    say(f"{note}; oldest first.", dim=True)
    if any(trend.parts):
        for line in wrap(f"{HOLLOW} is a partial run, which is in neither the bars nor the change.", room):
            say(line, dim=True)


def _say_verdicts(trend: Trend, room: int | None) -> None:
    names = max(map(cell_width, trend.values), default=0)
    width = names if room is None else min(names, _NAME)
    for name, verdicts in (trend.verdicts or {}).items():
        marks = "".join(" " if verdict is None else _SIGNS[verdict] for verdict in verdicts)
        part = len(marks) if room is None else max(room - width - 2, _FEWEST)
        for start in range(0, len(marks), part):
            say(f"{fit(name if start == 0 else '', width)}  {marks[start : start + part]}".rstrip())
    for line in wrap("✓ pass, ✗ fail, ! no verdict, … not judged, a space where not asked; oldest first.", room):
        say(line, dim=True)


def _sentences(reader: Reader, runs: Sequence[RunRow], trend: Trend) -> Iterator[str]:
    """Whether the last run of each column differs from the first, beyond chance."""
    for comparison in trend.first_and_last(reader, runs):
        yield (f"{comparison.column}: " if len(trend.values) > 1 else "") + comparison.sentence


def _say_runs(reader: Reader, runs: Sequence[RunRow], trend: Trend, room: int | None) -> None:
    heads, run_cells = _run_columns(runs, trend)
    asked = ["asked"] if any(trend.parts) else []
    rows, open_ended = [["run", "when", "target", *asked, *heads, "cost"]], False
    for run, part, lines in zip(runs, trend.parts, run_cells, strict=True):
        cost = _cost(reader, run)
        open_ended |= cost.unpriced > 0
        for number, (target, *cells) in enumerate(lines):
            about = [run.key, local_time(run.created)] if number == 0 else ["", ""]
            part_cell = [f"{HOLLOW} {part.text}" if part else "all"] if asked else []
            rows.append([*about, target, *part_cell, *cells, cost.short if number == 0 else ""])
    right = () if trend.item is not None else (3 + len(asked),)
    for number, line in enumerate(table(rows, right=right, elastic=(2,), room=room)):
        say(line, dim=number == 0)
    if open_ended:
        for line in wrap("+ or unpriced: the price of some calls is unknown. --json counts them.", room):
            say(line, dim=True)


def _run_columns(runs: Sequence[RunRow], trend: Trend) -> tuple[Sequence[str], list[list[tuple[str, ...]]]]:
    """Headings, and of every run a line for each column: its name and its cells."""
    if trend.item is not None:
        targets = (", ".join(run.targets) for run in runs)
        return ("answers",), [[(name, _statuses(rows))] for name, rows in zip(targets, trend.answers, strict=True)]
    heads = ("mean" if trend.evaluator is not None else "passes", "of", "95 % interval")
    return heads, [
        [
            (name, trend.format_value(figure.value), items_text(figure), _ends(trend, figure))
            for name, figures in trend.figures.items()
            if (figure := figures[place]) is not None
        ]
        or [(", ".join(run.targets), "n/a", "", "")]
        for place, run in enumerate(runs)
    ]


def _ends(trend: Trend, figure: Figure) -> str:
    if trend.evaluator is None or figure.interval is None:
        return interval_text(figure)
    return " to ".join(map(trend.format_value, (figure.interval.low, figure.interval.high)))


def _statuses(rows: Sequence[AnswerRow]) -> str:
    """Each status with its sign, and how often where there are several answers."""
    counts = dict.fromkeys(row.status for row in rows)
    several = len(rows) > 1
    return " · ".join(
        f"{ANSWER_LOOKS[status].text}" + (f" ×{sum(row.status == status for row in rows)}" if several else "")
        for status in counts
    )


def _cost(reader: Reader, run: RunRow) -> Cost:
    return run_cost(reader.totals(run.id))


# -- as data


def _trend_json(reader: Reader, source: str, runs: Sequence[RunRow], trend: Trend) -> dict[str, Any]:
    tests = {
        comparison.column: {
            "first": comparison.first.key,
            "last": comparison.last.key,
            "items": comparison.test.items,
            "before": comparison.test.before,
            "after": comparison.test.after,
            "p": comparison.test.p,
            "shown": comparison.test.shown,
        }
        for comparison in trend.first_and_last(reader, runs)
    }
    return {
        "dataset": source,
        "of": trend.title,
        "runs": [
            {
                "run": run.key,
                "name": run.name,
                "created": run.created,
                "targets": list(run.targets),
                "snapshot": run.snapshot,
                "cost": (cost := _cost(reader, run)).amount,
                "unpriced": cost.unpriced,
                "partial": asdict(part) if part else None,
                **data,
            }
            for run, part, data in zip(runs, trend.parts, _run_data(trend), strict=True)
        ],
        "series": [
            {
                "name": name,
                "values": list(values),
                "partial_values": [
                    figure.value if figure and hollow else None
                    for figure, hollow in zip(trend.figures.get(name, ()), trend.hollow(name), strict=True)
                ],
                "last_against_first": tests.get(name),
            }
            for name, values in trend.values.items()
        ],
    }


def _run_data(trend: Trend) -> list[dict[str, Any]]:
    """The JSON data of every run in this trend."""
    if trend.item is not None:
        return [{"answers": [row.status for row in rows]} for rows in trend.answers]
    name = "means" if trend.evaluator is not None else "pass_rates"
    return [
        {
            name: [
                {"column": column, **(figure_data(figure) or {})}
                for column, figures in trend.figures.items()
                if (figure := figures[place]) is not None
            ]
        }
        for place in range(len(trend.parts))
    ]


def set_run(word: str) -> None:
    """Make a run the baseline of its dataset, and print which one it replaces."""
    with project.reader() as reader:
        run = project.run_named(reader, word)
        if (why := why_no_baseline(reader, run)) is not None:
            go_on = next_step(run)
            raise Stop(f"{why}, so it cannot be a baseline{'; ' + go_on if go_on else ''}")
        root = project_root(Path.cwd())
        dataset = dataset_key(run.source, root, root)
        before = baseline_of(reader, dataset)
        if before is not None and before.run == run.id:
            same = {"dataset": dataset, "run": run.key, "power": list(baseline_sentences(reader, run))}
            say_result(f"{run.key} is the baseline of {dataset} already", same)
            return
        with project.writer({}) as writer:
            set_baseline(writer, dataset, run.id, author_here())
        replaced = "" if before is None else f" instead of {_run_text(reader.run(before.run))}"
        power = baseline_sentences(reader, run)
    result = {"dataset": dataset, "run": run.key, "power": list(power)}
    say_result(f"{_run_text(run)} is the baseline of {dataset}{replaced}", result)
    for sentence in power:
        say(sentence)


def export_baseline(word: str, output: Path | None, texts: bool) -> None:
    """Write the baseline file of a run, and say what drop its items can show."""
    from tui_evals.imports.baseline_file import baseline_text, recognises

    root = project_root(Path.cwd())
    with project.reader() as reader:
        run = project.run_named(reader, word)
        if word == "last":
            run = next((one for one in reader.runs(100) if not recognises(root / one.source)), run)
        if recognises(root / run.source):
            raise Stop(f"{run.key} was read from {run.source}, which is a baseline already. Name another run")
        if (why := why_no_baseline(reader, run)) is not None:
            raise Stop(f"{why}, so it cannot be a baseline")
        text, power = baseline_text(reader, run, root, texts=texts), baseline_sentences(reader, run)
    file = output or Path("-")
    write_file(file, [text])
    if is_output(file):
        return
    say(f"wrote {file}. Commit it, then: tui-evals run --baseline {shlex.quote(str(file))} --fail-on-regression")
    for sentence in power:
        say(sentence)


def show(as_json: bool) -> None:
    """The baseline of every dataset."""
    with project.reader() as reader:
        rows = [(baseline, reader.run(baseline.run)) for baseline in baselines(reader)]
        rates = [_pass_rates(reader, run) for _, run in rows]
    if as_json:
        say_json([_baseline_json(baseline, run, own) for (baseline, run), own in zip(rows, rates, strict=True)])
        return
    if not rows:
        say("no baseline is set; `tui-evals baseline set RUN` makes a run the one that later ones are measured against")
    for (baseline, run), own in zip(rows, rates, strict=True):
        say(baseline.source, bold=True)
        say(f"  {run.key}  {cell(run.name, 40)}  ran {local_time(run.started or run.created)}")
        for column, rate in own.items():
            name = f"{cell(column, 40)}: " if len(own) > 1 else ""
            say(f"  {name}{f'passes {rate_text(rate)}' if rate else 'no pass rate'}")
        say(f"  set by {baseline.author}, {local_time(baseline.time)}")


def clear(name: str | None) -> None:
    """Forget a baseline, by its dataset or its run."""
    with project.reader() as reader:
        baseline = _baseline_or_stop(reader, name)
        key = reader.run(baseline.run).key
        with project.writer({}) as writer:
            clear_baseline(writer, baseline.source)
    text = f"{baseline.source} no longer has a baseline; it was {key}, which stays"
    say_result(text, {"dataset": baseline.source, "run": None})


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


def _pass_rates(reader: Reader, run: RunRow) -> dict[str, Figure | None]:
    """The pass rate of each column of a run."""
    names = column_names(run)
    return {names[column]: totals.pass_rate for column, totals in reader.totals_by(run.id, "column").items()}


def _baseline_json(baseline: Baseline, run: RunRow, rates: Mapping[str, Figure | None]) -> dict[str, object]:
    return {
        "dataset": baseline.source,
        "run": run.key,
        "name": run.name,
        "ran": run.started or run.created,
        "author": baseline.author,
        "set": baseline.time,
        "pass_rates": [{"column": column, **(figure_data(rate) or {})} for column, rate in rates.items()],
    }
