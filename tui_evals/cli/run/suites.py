"""`tui-evals suite list`, `show` and `compare`: suites, their runs, and what tells the runs apart."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from tui_evals.cli import project
from tui_evals.cli.compare.compare import evaluator_tables
from tui_evals.cli.inputs import approve, approve_store, evaluators_named, open_project
from tui_evals.cli.output import Stop, columns, keep_output_to_ourselves, say, say_json, warn
from tui_evals.cli.run.execution import ExecutionOptions, find_baseline, open_writer, refusals, run_here
from tui_evals.compare.measures import RunDifference
from tui_evals.compare.runs import MAX_RUNS, read_comparison
from tui_evals.compare.verdicts import NAMES, difference_sentence
from tui_evals.datasets.discover import project_root
from tui_evals.datasets.paths import DatasetError
from tui_evals.evaluators.registry import Registry, built_in
from tui_evals.present.columns import table, wrap
from tui_evals.present.comparisons import label_lines
from tui_evals.present.gates import gates_data
from tui_evals.runs import suite_runs, suites
from tui_evals.runs import suites as keeping
from tui_evals.runs.gate_options import Gates
from tui_evals.runs.suites import (
    ArthurError,
    ArthurInternalError,
    Method,
    NotFoundError,
    UserValueError,
    method_named,
    refuse_unjudgeable,
)
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.text.names import did_you_mean
from tui_evals.text.safe import safe_line


def list_suites(as_json: bool) -> None:
    """All suites with their latest runs."""
    root = project_root(Path.cwd())
    suites = list(keeping.every(root))
    for problem in suites:
        if isinstance(problem, UserValueError):
            warn(f"note: {problem}")
    with project.reader() as reader:
        rows = [_suite_data(reader, suite) for suite in suites if isinstance(suite, keeping.Suite)]
    if as_json:
        say_json(rows)
        return
    if not rows:
        say("no suites yet; `tui-evals suite create NAME --data FILE.csv --scoring METHOD` makes one")
        return
    cells = [["suite", "scored by", "cases", "runs", "last run"]]
    cells += [
        [safe_line(row["suite"]), row["scoring"], str(row["cases"]), str(len(row["runs"])), row["last_run"] or "–"]
        for row in rows
    ]
    _say_table(cells, right=(2, 3), elastic=(0, 1))


def _suite_data(reader: Reader, suite: keeping.Suite) -> dict[str, Any]:
    runs = suite_runs.runs_of(reader, suite.name)
    return {
        "suite": suite.name,
        "description": suite.description,
        "scoring": suite.method["name"],
        "scoring_method": dict(suite.method),
        "cases": len(suite.inputs),
        "created": suite.about.get("created"),
        "last_run": _time_text(runs[-1].created) if runs else None,
        "runs": [run.name for run in runs],
    }


def _time_text(time: float) -> str:
    return datetime.fromtimestamp(time).strftime("%Y-%m-%d %H:%M")


def show(name: str, run: str | None, as_json: bool) -> None:
    """A suite with its runs, or one run with its metadata and every case, the worst first."""
    suite = _suite_or_stop(name)
    with project.reader() as reader:
        if run is not None:
            chosen_run = _run_named(reader, suite, run)
            if as_json:
                say_json(run_data(reader, chosen_run))
            else:
                say_run(reader, chosen_run, cases=True)
            return
        data = _suite_data(reader, suite)
        runs = [_run_summary(reader, suite_run) for suite_run in suite_runs.runs_of(reader, suite.name)]
    if as_json:
        pairs = zip(suite.inputs, suite.references, strict=True)
        test_cases = [{"input": text, "reference_output": reference} for text, reference in pairs]
        say_json(data | {"runs": runs, "test_cases": test_cases})
        return
    say(f"{safe_line(suite.name)}  {data['cases']:,} cases, scored by {data['scoring']}", bold=True)
    for key, value in (("description", suite.description), ("created", data["created"])):
        if value:
            say(f"{key}: {value}")
    for key, value in suite.method.get("config", {}).items():
        say(f"{key}: {value}")
    _say_runs(runs, _better_direction(suite))


def _suite_or_stop(name: str) -> keeping.Suite:
    try:
        return keeping.suite_named(project_root(Path.cwd()), name)
    except ArthurError as problem:
        raise Stop(str(problem)) from None


def _run_named(reader: Reader, suite: keeping.Suite, word: str) -> RunRow:
    """The run of a suite by its name or its id."""
    runs = suite_runs.runs_of(reader, suite.name)
    run = next((run for run in runs if run.name == suite_runs.stored_name(word) or run.key == word), None)
    if run is None:
        hint = did_you_mean(word, [run.name for run in runs])
        problem = NotFoundError(f"the suite {suite.name} has no run {word!r}{hint}")
        raise Stop(f"{problem}; `tui-evals suite show {suite.name}` lists them")
    return run


def _run_summary(reader: Reader, run: RunRow) -> dict[str, Any]:
    """The figures and metadata of a run."""
    rows = suite_runs.rows_of(reader, run)
    counted = Counter(row.category for row in rows if row.category is not None)
    return {
        "run": run.name,
        "id": run.key,
        "status": run.status,
        "created": _time_text(run.created),
        "average": suite_runs.average([row.score for row in rows]),
        "scored": sum(row.score is not None for row in rows),
        "cases": len(rows),
        "categories": dict(counted),
        "metadata": suite_runs.metadata_of(reader, run),
    }


def run_data(reader: Reader, run: RunRow) -> dict[str, Any]:
    """A run with every case of it."""
    return _run_summary(reader, run) | {"test_cases": [asdict(row) for row in suite_runs.rows_of(reader, run)]}


def say_run(reader: Reader, run: RunRow, *, cases: bool = False) -> None:
    """Print the figures and metadata of a run and, with `cases`, the result of every case."""
    data = _run_summary(reader, run)
    say(f"{safe_line(run.suite)} · {run.name}  {run.key}  {run.status}", bold=True)
    for key, value in data["metadata"].items():
        for line in wrap(f"{key.replace('_', ' ')}: {value}", columns()):
            say(line)
    say(f"average score: {_score_text(data['average'])} over {data['scored']:,} of {data['cases']:,} cases")
    if data["categories"]:
        say(" · ".join(f"{name}: {count:,}" for name, count in data["categories"].items()))
    if not cases:
        return
    rows = [["case", "score", "category", "output", "input"]]
    every = list(enumerate(suite_runs.rows_of(reader, run), 1))
    every.sort(key=lambda pair: (pair[1].score is not None, pair[1].score or 0.0))
    for number, row in every:
        rows.append(
            [f"#{number}", _score_text(row.score), row.category or "", row.problem or row.output or "", row.input]
        )
    _say_table(rows, right=(1,), elastic=(3, 4))


def _score_text(score: float | None) -> str:
    return "n/a" if score is None else f"{score:.3f}"


def _say_table(rows: Sequence[Sequence[str]], *, right: Sequence[int], elastic: Sequence[int]) -> None:
    short = [[text if len(text) <= 200 else text[:199] + "…" for text in row] for row in rows]
    for number, line in enumerate(table(short, right=right, elastic=elastic, names=(0,), headed=True, room=columns())):
        say(line.rstrip(), dim=number == 0)


def _better_direction(suite: keeping.Suite) -> int:
    """1 where a higher average is better, -1 where a lower one is."""
    kind = built_in().get(suite.method["name"])
    return -1 if kind is not None and kind.measure.better < 0 else 1


def _say_runs(runs: Sequence[dict[str, Any]], better: int) -> None:
    if not runs:
        say("no runs yet")
        return
    marks = _best_and_worst(runs, better)
    rows = [["run", "id", "created", "average", "scored", "model", ""]]
    for run, mark in zip(runs, marks, strict=True):
        metadata = run["metadata"]
        model = " ".join(filter(None, (metadata.get("model_name"), metadata.get("model_version"))))
        scored = f"{run['scored']:,}/{run['cases']:,}"
        rows.append([run["run"], run["id"], run["created"], _score_text(run["average"]), scored, model, mark])
    _say_table(rows, right=(3, 4), elastic=(0, 5))


def _best_and_worst(runs: Sequence[dict[str, Any]], better: int) -> list[str]:
    """Which runs are the best and which the worst, where there is a difference."""
    averages = [better * run["average"] for run in runs if run["average"] is not None]
    if not averages or max(averages) == min(averages):
        return ["" for _ in runs]
    mark_of = {max(averages): "best", min(averages): "worst"}
    return ["" if run["average"] is None else mark_of.get(better * run["average"], "") for run in runs]


def compare(name: str, words: Sequence[str], as_json: bool) -> None:
    """The averages of a suite's runs, and whether the first one differs from the later ones by more than chance."""
    suite = _suite_or_stop(name)
    with project.reader() as reader:
        runs = [_run_named(reader, suite, word) for word in words] or suite_runs.runs_of(reader, suite.name)
        if len({run.id for run in runs}) < max(2, len(runs)):
            raise Stop(f"there are not two different runs of {suite.name} to compare; make another, or name two")
        summaries = [_run_summary(reader, run) for run in runs]
        tested = runs if len(runs) <= MAX_RUNS else []
        comparison = read_comparison(reader, [run.id for run in tested]) if tested else None
    against = comparison.against if comparison else ()
    better = _better_direction(suite)
    if as_json:
        for summary, mark in zip(summaries, _best_and_worst(summaries, better), strict=True):
            summary["mark"] = mark
        tests = [_tests_json(run, difference) for run, difference in zip(tested[1:], against, strict=False)]
        say_json({"suite": suite.name, "runs": summaries, "against": runs[0].name, "tests": tests})
        return
    _say_runs(summaries, better)
    if not tested:
        say(f"{len(runs)} runs are too many to test for differences; name {MAX_RUNS} at most", dim=True)
    for run, letter, difference in zip(tested[1:], NAMES[1:], against, strict=False):
        say()
        say(f"A is {runs[0].name}, {letter} is {run.name}.", dim=True)
        for line in wrap(difference_sentence(difference, "A", letter), columns()):
            say(line, bold=True)
        for line, style in evaluator_tables(difference, letter, columns()):
            say(line, **style)
    for line in label_lines(comparison.sides) if comparison else ():
        say(line)


def _tests_json(run: RunRow, difference: RunDifference) -> dict[str, Any]:
    tests = [asdict(test) | {"difference": test.difference, "shown": test.shown} for test in difference.tests]
    return {"run": run.name, "tests": tests}


@contextmanager
def stop_on_suite_error() -> Iterator[None]:
    """End the command with the message of a suite error."""
    try:
        yield
    except ArthurInternalError as problem:
        raise Stop(str(problem), 1) from None
    except (ArthurError, DatasetError) as problem:
        raise Stop(str(problem)) from None


def create(
    name: str,
    *,
    data: Path,
    scoring: str,
    input_column: str,
    reference_column: str,
    description: str | None,
    as_json: bool,
) -> None:
    """Make a suite of the cases in a table."""
    here = open_project(None, False)
    with stop_on_suite_error():
        method = _method_or_stop(scoring, here.registry)
        refuse_unjudgeable(method, here.registry)
        case_list = suites.cases_from(
            frame=None,
            path=data,
            inputs=None,
            references=None,
            input_column=input_column,
            reference_column=reference_column,
            needs_reference=method.requires_reference,
        )
        document = keeping.document_of(name, case_list, method, description)
        keeping.keep(here.root, name, document)
    file = keeping.suite_file(here.root, name)
    if as_json:
        say_json({"suite": name, "cases": len(case_list.inputs), "scoring_method": method.record, "file": str(file)})
        return
    say(
        f"suite {safe_line(name)}: {len(case_list.inputs):,} cases, scored by {method.name}; kept in {file}", fg="green"
    )
    say(f"next: `tui-evals suite run {shlex.quote(name)} RUN --candidates FILE.csv`")


def _method_or_stop(scoring: str, registry: Registry) -> Method:
    chosen = evaluators_named(scoring)
    if len(chosen) != 1:
        raise Stop(
            f"--scoring must name one evaluator; a suite is scored in one way, and {scoring!r} names {len(chosen)}"
        )
    ((name, options),) = chosen.items()
    return method_named(name, options, registry)


def run(
    suite: str,
    name: str,
    *,
    candidates: Path,
    candidate_column: str,
    context_column: str | None,
    judge: str | None,
    trusting: bool,
    as_json: bool,
    gates: Gates,
    **metadata: str | None,
) -> int:
    """Score the candidates in a table as a run of a suite."""
    here = open_project(None, trusting)
    how = find_baseline(ExecutionOptions(quiet=as_json, gates=gates), suite_runs.source_of(here.root, suite))
    with stop_on_suite_error():
        stored_suite = keeping.suite_named(here.root, suite)
        needs_context = _stored_method(stored_suite, here.registry).requires_context
        texts, contexts = suites.candidates_from(
            frame=None,
            path=candidates,
            candidates=None,
            candidate_column=candidate_column,
            context_column=context_column,
            contexts=None,
        )
        suite_run = suite_runs.suite_run(stored_suite, name, texts, contexts, metadata, needs_context=needs_context)
        keep_output_to_ourselves()
        with refusals(), open_writer(here) as writer:
            prepared = suite_runs.prepare_run(suite_run, here, judge)
            approve(prepared.missing_permissions(), here.root)
            approve_store(here, wanted=prepared.terms.use_cache)
            job = prepared.store(writer)
            code = run_here(job, writer, how)
    with project.reader() as reader:
        run = reader.find_run(job.run.key)
        if as_json:
            say_json({**run_data(reader, run), "verdict": run.verdict or None, "gates": gates_data(run.gates)})
        else:
            say_run(reader, run)
    return code


def _stored_method(suite: keeping.Suite, registry: Registry) -> Method:
    """The method of a suite; a scorer of a Python program cannot be loaded here."""
    name = str(suite.method["name"])
    if suite.method.get("type") == "custom" and name not in registry.by_name:
        raise Stop(
            f"the suite {suite.name} is scored by {name!r}, a scorer of a Python program; run it there with "
            f"TestSuite({suite.name!r}, scorer).run(...)"
        )
    options: Mapping[str, Any] = next(iter(suite.data["default_evaluators"].values()))
    return method_named(name, {key: value for key, value in options.items() if key != "type"}, registry)
