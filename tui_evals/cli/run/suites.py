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
from tui_evals.cli.output import Stop, columns, say, say_json, warn
from tui_evals.cli.project import open_project
from tui_evals.cli.sources import evaluators_named
from tui_evals.compare.measures import RunDifference
from tui_evals.compare.runs import MAX_RUNS, read_comparison
from tui_evals.compare.verdicts import NAMES, difference_sentence
from tui_evals.datasets.discover import project_root
from tui_evals.datasets.problems import DatasetError
from tui_evals.evaluators.registry import Registry, built_in
from tui_evals.present.columns import table, wrap
from tui_evals.runs.suites import cases, running
from tui_evals.runs.suites import suite as keeping
from tui_evals.runs.suites.cases import ArthurError, ArthurInternalError, NotFoundError, UserValueError
from tui_evals.runs.suites.suite import Method, method_named
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.text.nearest import did_you_mean

from .execution import ExecutionOptions, open_writer, refusals, run_here

_LESS_IS_BETTER = frozenset(("HedgingLanguage",))


def list_suites(as_json: bool) -> None:
    """All suites with their latest runs."""
    root = project_root(Path.cwd())
    found = list(keeping.every(root))
    for problem in found:
        if isinstance(problem, UserValueError):
            warn(f"note: {problem}")
    with project.reader() as reader:
        rows = [_suite_data(reader, one) for one in found if isinstance(one, keeping.Suite)]
    if as_json:
        say_json(rows)
        return
    if not rows:
        say("no suites yet; `tui-evals suite create NAME --data FILE.csv --scoring METHOD` makes one")
        return
    cells = [["suite", "scored by", "cases", "runs", "last run"]]
    cells += [
        [row["suite"], row["scoring"], str(row["cases"]), str(len(row["runs"])), row["last_run"] or "–"] for row in rows
    ]
    _say_table(cells, right=(2, 3), elastic=(0, 1))


def _suite_data(reader: Reader, suite: keeping.Suite) -> dict[str, Any]:
    runs = running.runs_of(reader, suite.name)
    return {
        "suite": suite.name,
        "description": suite.description,
        "scoring": suite.method["name"],
        "scoring_method": dict(suite.method),
        "cases": len(suite.inputs),
        "created": suite.about.get("created"),
        "last_run": _when(runs[-1].created) if runs else None,
        "runs": [run.name for run in runs],
    }


def _when(time: float) -> str:
    return datetime.fromtimestamp(time).strftime("%Y-%m-%d %H:%M")


def show(name: str, run: str | None, as_json: bool) -> None:
    """A suite with its runs, or one run with its metadata and every case, the worst first."""
    suite = _found(name)
    with project.reader() as reader:
        if run is not None:
            found = _run_named(reader, suite, run)
            if as_json:
                say_json(run_data(reader, found))
            else:
                say_run(reader, found, cases=True)
            return
        data = _suite_data(reader, suite)
        runs = [_summary(reader, one) for one in running.runs_of(reader, suite.name)]
    if as_json:
        pairs = zip(suite.inputs, suite.references, strict=True)
        asked = [{"input": text, "reference_output": reference} for text, reference in pairs]
        say_json(data | {"runs": runs, "test_cases": asked})
        return
    say(f"{suite.name}  {data['cases']:,} cases, scored by {data['scoring']}", bold=True)
    for key, value in (("description", suite.description), ("created", data["created"])):
        if value:
            say(f"{key}: {value}")
    for key, value in suite.method.get("config", {}).items():
        say(f"{key}: {value}")
    _say_runs(runs, _better(suite))


def _found(name: str) -> keeping.Suite:
    try:
        return keeping.suite_named(project_root(Path.cwd()), name)
    except ArthurError as problem:
        raise Stop(str(problem)) from None


def _run_named(reader: Reader, suite: keeping.Suite, word: str) -> RunRow:
    """The run of a suite by its name or its id."""
    runs = running.runs_of(reader, suite.name)
    found = next((run for run in runs if word in (run.name, run.key)), None)
    if found is None:
        hint = did_you_mean(word, [run.name for run in runs])
        problem = NotFoundError(f"the suite {suite.name} has no run {word!r}{hint}")
        raise Stop(f"{problem}; `tui-evals suite show {suite.name}` lists them")
    return found


def _summary(reader: Reader, run: RunRow) -> dict[str, Any]:
    """A run in numbers, with what was noted of it."""
    rows = running.rows_of(reader, run)
    counted = Counter(row.category for row in rows if row.category is not None)
    return {
        "run": run.name,
        "id": run.key,
        "status": run.status,
        "created": _when(run.created),
        "average": running.average([row.score for row in rows]),
        "scored": sum(row.score is not None for row in rows),
        "cases": len(rows),
        "categories": dict(counted),
        "metadata": running.metadata_of(reader, run),
    }


def run_data(reader: Reader, run: RunRow) -> dict[str, Any]:
    """A run with every case of it."""
    return _summary(reader, run) | {"test_cases": [asdict(row) for row in running.rows_of(reader, run)]}


def say_run(reader: Reader, run: RunRow, *, cases: bool = False) -> None:
    """Say how a run went, what was noted of it and, where it is asked for, what came of every case."""
    data = _summary(reader, run)
    say(f"{run.suite} · {run.name}  {run.key}  {run.status}", bold=True)
    for key, value in data["metadata"].items():
        for line in wrap(f"{key.replace('_', ' ')}: {value}", columns()):
            say(line)
    say(f"average score: {_number(data['average'])} over {data['scored']:,} of {data['cases']:,} cases")
    if data["categories"]:
        say(" · ".join(f"{name}: {count:,}" for name, count in data["categories"].items()))
    if not cases:
        return
    rows = [["case", "score", "category", "output", "input"]]
    every = list(enumerate(running.rows_of(reader, run), 1))
    every.sort(key=lambda pair: (pair[1].score is not None, pair[1].score or 0.0))
    for number, row in every:
        rows.append([f"#{number}", _number(row.score), row.category or "", row.problem or row.output or "", row.input])
    _say_table(rows, right=(1,), elastic=(3, 4))


def _number(score: float | None) -> str:
    return "n/a" if score is None else f"{score:.3f}"


def _say_table(rows: Sequence[Sequence[str]], *, right: Sequence[int], elastic: Sequence[int]) -> None:
    short = [[text if len(text) <= 200 else text[:199] + "…" for text in row] for row in rows]
    for number, line in enumerate(table(short, right=right, elastic=elastic, room=columns())):
        say(line.rstrip(), dim=number == 0)


def _better(suite: keeping.Suite) -> int:
    """1 where a higher average is better, -1 where a lower one is."""
    kind = built_in().get(suite.method["name"])
    return -1 if kind is not None and kind.name in _LESS_IS_BETTER else 1


def _say_runs(runs: Sequence[dict[str, Any]], better: int) -> None:
    if not runs:
        say("no runs yet")
        return
    marks = _marks(runs, better)
    rows = [["run", "id", "created", "average", "scored", "model", ""]]
    for one, mark in zip(runs, marks, strict=True):
        noted = one["metadata"]
        model = " ".join(filter(None, (noted.get("model_name"), noted.get("model_version"))))
        scored = f"{one['scored']:,}/{one['cases']:,}"
        rows.append([one["run"], one["id"], one["created"], _number(one["average"]), scored, model, mark])
    _say_table(rows, right=(3, 4), elastic=(0, 5))


def _marks(runs: Sequence[dict[str, Any]], better: int) -> list[str]:
    """Which runs are the best and which the worst, where there is a difference."""
    known = [better * one["average"] for one in runs if one["average"] is not None]
    if not known or max(known) == min(known):
        return ["" for _ in runs]
    words = {max(known): "best", min(known): "worst"}
    return ["" if one["average"] is None else words.get(better * one["average"], "") for one in runs]


def compare(name: str, words: Sequence[str], as_json: bool) -> None:
    """The averages of a suite's runs, and whether the first one differs from the later ones by more than chance."""
    suite = _found(name)
    with project.reader() as reader:
        runs = [_run_named(reader, suite, word) for word in words] or running.runs_of(reader, suite.name)
        if len({run.id for run in runs}) < max(2, len(runs)):
            raise Stop(f"there are not two different runs of {suite.name} to compare; make another, or name two")
        summaries = [_summary(reader, run) for run in runs]
        tested = runs if len(runs) <= MAX_RUNS else []
        against = read_comparison(reader, [run.id for run in tested]).against if tested else ()
    better = _better(suite)
    if as_json:
        for one, mark in zip(summaries, _marks(summaries, better), strict=True):
            one["mark"] = mark
        later = [_tested(run, found) for run, found in zip(tested[1:], against, strict=False)]
        say_json({"suite": suite.name, "runs": summaries, "against": runs[0].name, "tests": later})
        return
    _say_runs(summaries, better)
    if not tested:
        say(f"{len(runs)} runs are too many to test for differences; name {MAX_RUNS} at most", dim=True)
    for run, letter, found in zip(tested[1:], NAMES[1:], against, strict=False):
        say()
        say(f"A is {runs[0].name}, {letter} is {run.name}.", dim=True)
        for line in wrap(difference_sentence(found, "A", letter), columns()):
            say(line, bold=True)
        for line, style in evaluator_tables(found, letter, columns()):
            say(line, **style)


def _tested(run: RunRow, found: RunDifference) -> dict[str, Any]:
    tests = [asdict(test) | {"difference": test.difference, "shown": test.shown} for test in found.tests]
    return {"run": run.name, "tests": tests}


@contextmanager
def said() -> Iterator[None]:
    """End the command with the sentence of what is wrong with a suite or a run."""
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
    with said():
        method = _method(scoring, here.registry)
        found = cases.cases_from(
            frame=None,
            path=data,
            inputs=None,
            references=None,
            input_column=input_column,
            reference_column=reference_column,
            needs_reference=method.requires_reference,
        )
        document = keeping.document_of(name, found, method, description)
        keeping.keep(here.root, name, document)
    file = keeping.suite_file(here.root, name)
    if as_json:
        say_json({"suite": name, "cases": len(found.inputs), "scoring_method": method.record, "file": str(file)})
        return
    say(f"suite {name}: {len(found.inputs):,} cases, scored by {method.name}; kept in {file}", fg="green")
    say(f"next: `tui-evals suite run {shlex.quote(name)} RUN --candidates FILE.csv`")


def _method(scoring: str, known: Registry) -> Method:
    named = evaluators_named(scoring)
    if len(named) != 1:
        raise Stop(
            f"--scoring must name one evaluator; a suite is scored in one way, and {scoring!r} names {len(named)}"
        )
    ((name, options),) = named.items()
    return method_named(name, options, known)


def run(
    suite: str,
    name: str,
    *,
    candidates: Path,
    candidate_column: str,
    context_column: str | None,
    judge: str | None,
    as_json: bool,
    **metadata: str | None,
) -> int:
    """Score the candidates in a table as a run of a suite."""
    here = open_project(None, False)
    with said():
        kept = keeping.suite_named(here.root, suite)
        needs_context = _stored_method(kept, here.registry).requires_context
        texts, contexts = cases.candidates_from(
            frame=None,
            path=candidates,
            candidates=None,
            candidate_column=candidate_column,
            context_column=context_column,
            contexts=None,
        )
        suite_run = running.suite_run(kept, name, texts, contexts, metadata, needs_context=needs_context)
        with refusals(), open_writer(here) as writer:
            job = running.prepare_run(suite_run, here, judge).store(writer)
            code = run_here(job, writer, ExecutionOptions(quiet=as_json))
    with project.reader() as reader:
        run = reader.find_run(job.run.key)
        if as_json:
            say_json(run_data(reader, run))
        else:
            say_run(reader, run)
    return code


def _stored_method(kept: keeping.Suite, known: Registry) -> Method:
    """How a suite scores; a scorer that only a Python program has cannot be found here."""
    name = str(kept.method["name"])
    if kept.method.get("type") == "custom" and name not in known.by_name:
        raise Stop(
            f"the suite {kept.name} is scored by {name!r}, a scorer of a Python program; run it there with "
            f"TestSuite({kept.name!r}, scorer).run(...)"
        )
    options: Mapping[str, Any] = next(iter(kept.data["default_evaluators"].values()))
    return method_named(name, {key: value for key, value in options.items() if key != "type"}, known)
