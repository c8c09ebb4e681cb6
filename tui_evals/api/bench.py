"""Carrying out a run of a suite in a store, and keeping one later that was made apart."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, TypedDict, TypeVar, Unpack

from tui_evals.datasets.discover import make_project, project_root
from tui_evals.datasets.paths import DatasetError
from tui_evals.evaluators.base import Evaluator
from tui_evals.evaluators.registry import Registry, load_registry
from tui_evals.garbage import garbage_collection_paused, known_objects_set_apart
from tui_evals.imports.recording import RecordedAnswer, Recording, digest_of, store_recording
from tui_evals.runs import execution, suite_runs, suites
from tui_evals.runs.approving import find_typed
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.project import load_project
from tui_evals.runs.suite_runs import Row, average
from tui_evals.runs.suites import ArthurInternalError, Method, UserTypeError, UserValueError, method_named
from tui_evals.store.details import read_details
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.targets.base import Target, TargetConfig
from tui_evals.targets.config import Settings
from tui_evals.targets.function import given_function

from .bench_scorers import Scorer, evaluator_of_scorer, method_of, own_awaited_results, own_results

Judge = str | Callable[..., Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A run that was carried out; `key` is None where it is in no store."""

    suite_run: suite_runs.SuiteRun
    key: str | None
    rows: tuple[suite_runs.Row, ...]
    metadata: Mapping[str, str]
    targets: tuple[str, ...]
    judges: tuple[str, ...]
    answers: tuple[RecordedAnswer, ...]
    started: float


async def execute(
    suite_run: suite_runs.SuiteRun,
    judge: Judge,
    root: Path,
    store: Path,
    scorers: Mapping[str, type[Evaluator]] = MappingProxyType({}),
) -> FinishedRun:
    """Judge the candidates of a run in the project at `root` and keep the run in the store of `store`."""
    started = time.time()
    project = load_project(root)
    if store != root:
        with Reader(project.store) as reader:
            suite_runs.refuse_twice(reader, suite_run.suite.name, suite_run.name)
        make_project(store)
        project = replace(project, root=store, database=store / ".evals" / "evals.db")
    config, ready = _judge(judge, project.settings)
    try:
        with garbage_collection_paused():
            prepared = suite_runs.prepare_run(suite_run, project, config, own_evaluators=scorers, ready=ready)
    except (CannotPlan, DatasetError) as problem:
        raise UserValueError(str(problem)) from None
    with known_objects_set_apart(), project.writer() as writer:
        outcome = await execution.execute(prepared.store(writer), writer)
    run = outcome.run
    if not outcome.finished:
        again = f"; `tui-evals resume {run.key}` continues it" if store == root else ""
        raise ArthurInternalError(f"the run {suite_run.name!r} stopped: {outcome.message.rstrip('.')}{again}")
    with garbage_collection_paused(), Reader(project.store) as reader:
        return FinishedRun(
            suite_run=suite_run,
            key=run.key,
            rows=tuple(suite_runs.rows_of(reader, run)),
            metadata=suite_runs.metadata_of(reader, run),
            targets=run.targets,
            judges=(config.name,) if config is not None else (),
            answers=_recorded_answers(reader, run) if store != root else (),
            started=started,
        )


def save_made(made: FinishedRun, root: Path) -> str:
    """Store a run that was made elsewhere; nothing is judged again."""
    suite_run, project = made.suite_run, load_project(root)
    with project.writer() as writer, Reader(project.store) as reader:
        suite_runs.refuse_twice(reader, suite_run.suite.name, suite_run.name)
        suite_run.keep_answered(root)
        recording = Recording(
            by="tui-evals",
            digest=digest_of(suite_run.suite.name, suite_run.name, suite_run.answered, made.started),
            document=suite_run.document,
            source=suite_runs.source_of(root, suite_run.suite.name),
            name=suite_run.name,
            targets=made.targets,
            answers=made.answers,
            judges=made.judges,
            suite=suite_run.suite.name,
            started=made.started,
        )
        return store_recording(writer, reader, recording, project.settings, project.environment)[0].key


def _judge(judge: Judge, settings: Settings) -> tuple[TargetConfig | None, dict[str, Target]]:
    """The judge's configuration, and the judge itself if it is a function."""
    if callable(judge):
        name = getattr(judge, "__name__", type(judge).__name__)
        config = TargetConfig(name=name, model=f"python:{judge.__module__}:{name}")
        return config, {name: given_function(judge, config)}
    word = judge or settings.judge
    return (find_typed(word, settings) if word else None), {}


def _recorded_answers(reader: Reader, run: RunRow) -> tuple[RecordedAnswer, ...]:
    """The answers of a run with their scores."""
    recorded = []
    for told in read_details(reader, run, reader.all_rows(run.id), requests=True):
        if told.answer is not None:
            recorded.append(RecordedAnswer(item=told.row.item, answer=told.answer, scores=told.scores))
    return tuple(recorded)


_Result = TypeVar("_Result")


class TestRun:
    """A named run over a suite: the candidates with their scores, in the order of the suite."""

    __test__ = False

    def __init__(self, made: FinishedRun, root: Path) -> None:
        self._made: FinishedRun | None = None if made.key else made
        self._root = root
        self.name = made.suite_run.name
        self.suite = made.suite_run.suite.name
        self.id = made.key
        """The id of the run in the store, which `tui-evals show` takes; None while it is not saved."""
        self.rows: tuple[Row, ...] = made.rows
        self.metadata: Mapping[str, str] = made.metadata

    @property
    def scores(self) -> list[float | None]:
        """The score of each case; None where it could not be judged, and `problems` says why."""
        return [row.score for row in self.rows]

    @property
    def categories(self) -> list[str | None]:
        """The category of each case; None where the scorer gives none."""
        return [row.category for row in self.rows]

    @property
    def outputs(self) -> list[str | None]:
        """The candidate of each case; None where it was blank."""
        return [row.output for row in self.rows]

    @property
    def problems(self) -> list[str | None]:
        """Why a case has no answer or could not be judged."""
        return [row.problem for row in self.rows]

    @property
    def average(self) -> float | None:
        """The mean of the scores that are not None; None without any."""
        return average(self.scores)

    def save(self) -> str:
        """Keep a run that was made with `save=False`; returns its id."""
        if self._made is None:
            raise UserValueError(f"the run {self.name!r} is saved already, as {self.id}")
        made, root = self._made, self._root
        self.id = apart(lambda: save_made(made, root))
        self._made = None
        return self.id

    def __repr__(self) -> str:
        mean = "n/a" if self.average is None else f"{self.average:.3f}"
        return f"TestRun({self.name!r}, id={self.id!r}, cases={len(self.rows)}, average={mean})"


def apart(work: Callable[[], _Result]) -> _Result:
    """The result of `work`, in a thread of its own where a loop runs already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


Scoring = str | Mapping[str, Mapping[str, Any]] | Scorer
"""The name of an evaluator, its name with options as in {"exact_match": {"case_sensitive": False}}, or a scorer."""


class RunOptions(TypedDict, total=False):
    """Keyword options of a suite run; see `TestSuite.arun`."""

    candidate_data_path: str | Path | None
    candidate_column: str
    candidate_output_list: Sequence[Any] | None
    context_column: str | None
    context_input_list: Sequence[Any] | None
    context_list: Sequence[Any] | None
    judge: str | Callable[..., Any] | None
    save: bool
    model_name: str | None
    model_version: str | None
    foundation_model: str | None
    prompt_template: str | None


class TestSuite:
    """A named, stored set of cases with one scoring method; a known name opens the stored suite."""

    __test__ = False

    def __init__(
        self,
        name: str,
        scoring_method: Scoring,
        description: str | None = None,
        reference_data: Any = None,
        reference_data_path: str | Path | None = None,
        input_column: str = "input",
        reference_column: str = "reference_output",
        input_text_list: Sequence[Any] | None = None,
        reference_output_list: Sequence[Any] | None = None,
        *,
        project: str | Path | None = None,
    ) -> None:
        """Open the suite of a name, or make it of a frame, a CSV file or lists, the first of them that is given."""
        self._root = project_root(Path(project) if project is not None else Path.cwd())
        self._known = load_registry(self._root)
        self.scorer = scoring_method if isinstance(scoring_method, Scorer) else None
        stored_suite = suites.kept(self._root, name)
        if stored_suite is not None:
            self._suite = self._opened(stored_suite, scoring_method)
            return
        method = _method(scoring_method, self._known)
        suites.refuse_unjudgeable(method, self._known)
        data = suites.cases_from(
            frame=reference_data,
            path=reference_data_path,
            inputs=input_text_list,
            references=reference_output_list,
            input_column=input_column,
            reference_column=reference_column,
            needs_reference=method.requires_reference,
        )
        self._suite = suites.keep(self._root, name, suites.document_of(name, data, method, description))

    def _opened(self, kept: suites.Suite, scoring_method: Scoring) -> suites.Suite:
        """The stored suite, whose own scoring method applies."""
        name = kept.method["name"]
        if kept.method.get("type") != "custom":
            self.scorer = None
            return kept
        if not isinstance(scoring_method, Scorer):
            raise UserValueError(
                f"the suite {kept.name!r} is scored by your own scorer {name!r}; give the object itself"
            )
        if scoring_method.name() != name:
            raise UserValueError(f"the suite {kept.name!r} is scored by {name!r}, not by {scoring_method.name()!r}")
        return kept

    @property
    def name(self) -> str:
        """The name of the suite."""
        return self._suite.name

    @property
    def description(self) -> str | None:
        """The description."""
        return self._suite.description

    @property
    def scoring_method(self) -> str:
        """The name of the scoring method."""
        return str(self._suite.method["name"])

    @property
    def input_texts(self) -> list[str]:
        """The input of each case."""
        return self._suite.inputs

    @property
    def reference_outputs(self) -> list[str | None]:
        """The reference of each case."""
        return self._suite.references

    def run(
        self, run_name: str, candidate_data: Any = None, *, batch_size: int = 1, **options: Unpack[RunOptions]
    ) -> TestRun:
        """Score candidates as a named run, with the arguments of `arun`."""
        suite_run = self._prepared(run_name, candidate_data, batch_size, options)
        results = None
        if self.scorer is not None:
            with _scoring(run_name):
                results = own_results(self.scorer, _cases(suite_run), batch_size)
        return apart(lambda: asyncio.run(self._carried_out(suite_run, batch_size, False, results, options)))

    async def arun(
        self, run_name: str, candidate_data: Any = None, *, batch_size: int = 5, **options: Unpack[RunOptions]
    ) -> TestRun:
        """Score candidates as a named run.

        The candidates are the first given of `candidate_data` (a frame), `candidate_data_path` (a CSV file) and
        `candidate_output_list`, from the column `candidate_column`; contexts are in `context_column` or
        `context_input_list`. `model_name`, `model_version`, `foundation_model` and `prompt_template` are stored as
        notes. `judge` is a target or a function, for suites scored by a model. With `save=False` the run is not stored
        until its `save` is called.
        """
        suite_run = self._prepared(run_name, candidate_data, batch_size, options)
        results = None
        if self.scorer is not None:
            with _scoring(run_name):
                results = await own_awaited_results(self.scorer, _cases(suite_run), batch_size)
        return await self._carried_out(suite_run, batch_size, True, results, options)

    def _prepared(self, name: str, frame: Any, batch_size: int, options: RunOptions) -> suite_runs.SuiteRun:
        """The run, once all that was given is found right."""
        if unknown := sorted(options.keys() - RunOptions.__annotations__.keys()):
            raise TypeError(f"a run takes no {unknown[0]}; it takes {', '.join(RunOptions.__annotations__)}")
        _check_size(batch_size)
        suite_run = self._suite_run(name, frame, options)
        project = load_project(self._root)
        if project.has_store:
            with Reader(project.store) as reader:
                suite_runs.refuse_twice(reader, suite_run.suite.name, suite_run.name)
        return suite_run

    async def _carried_out(
        self,
        suite_run: suite_runs.SuiteRun,
        batch_size: int,
        awaited: bool,
        results: Sequence[Any] | None,
        options: RunOptions,
    ) -> TestRun:
        judge, scorers = options.get("judge"), {}
        if self.scorer is not None:
            evaluator = evaluator_of_scorer(self.scorer, _cases(suite_run), batch_size, awaited, results)
            scorers = {evaluator.name: evaluator}
        if options.get("save", True):
            return TestRun(await execute(suite_run, judge, self._root, self._root, scorers), self._root)
        with TemporaryDirectory(prefix="tui-evals-") as folder:
            made = await execute(suite_run, judge, self._root, Path(folder), scorers)
        return TestRun(replace(made, key=None), self._root)

    def _suite_run(self, name: str, frame: Any, options: RunOptions) -> suite_runs.SuiteRun:
        """The candidates and metadata of a run."""
        contexts = options.get("context_input_list")
        candidates, contexts = suites.candidates_from(
            frame=frame,
            path=options.get("candidate_data_path"),
            candidates=options.get("candidate_output_list"),
            candidate_column=options.get("candidate_column", "candidate_output"),
            context_column=options.get("context_column"),
            contexts=options.get("context_list") if contexts is None else contexts,
        )
        metadata = {key: options.get(key) for key in suites.METADATA}
        needs_context = self.scorer is None and self._stored_method().requires_context
        return suite_runs.suite_run(self._suite, name, candidates, contexts, metadata, needs_context=needs_context)

    def _stored_method(self) -> Method:
        (_, options), *_ = self._suite.data["default_evaluators"].items()
        return method_named(
            self.scoring_method, {key: value for key, value in options.items() if key != "type"}, self._known
        )

    def __repr__(self) -> str:
        return f"TestSuite({self.name!r}, {self.scoring_method!r}, cases={len(self.input_texts)})"


def _cases(suite_run: suite_runs.SuiteRun) -> list[tuple[str, str | None, str, str | None]]:
    pairs = zip(suite_run.document["items"], suite_run.candidates, strict=True)
    return [
        (candidate, item.get("expected_response"), item["prompt"], item.get("context"))
        for item, candidate in pairs
        if candidate is not None
    ]


def _method(scoring_method: object, registry: Registry) -> Method:
    if isinstance(scoring_method, Scorer):
        return method_of(scoring_method, registry)
    if isinstance(scoring_method, str):
        return method_named(scoring_method, {}, registry)
    if isinstance(scoring_method, Mapping) and len(scoring_method) == 1:
        ((name, options),) = scoring_method.items()
        if isinstance(name, str) and isinstance(options, Mapping):
            return method_named(name, options, registry)
    raise UserTypeError(
        "scoring_method must be the name of an evaluator, one name with its options, or an object of a Scorer class, "
        f"not {type(scoring_method).__name__}"
    )


@contextmanager
def _scoring(name: str) -> Iterator[None]:
    """If a scorer's own `run` fails, nothing of the run is stored, and its name stays free."""
    try:
        yield
    except Exception as problem:
        said = str(problem) or type(problem).__name__
        raise ArthurInternalError(f"the run {name!r} could not be scored: {said}") from problem


def _check_size(size: object) -> None:
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise UserValueError(f"batch_size must be a whole number from 1, not {size!r}")
