"""`TestSuite` and `TestRun`: named suites of cases and named runs over them, as Arthur Bench has them, in our store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypedDict, Unpack

from tui_evals.datasets.discover import project_root
from tui_evals.evaluators.registry import Registry, registry
from tui_evals.runs.suites import cases, keeping, running
from tui_evals.runs.suites.methods import Method, method_named
from tui_evals.runs.suites.problems import (
    ArthurError,
    ArthurInternalError,
    ArthurUserError,
    NotFoundError,
    UserTypeError,
    UserValueError,
)

from .bench_execution import execute
from .bench_results import TestRun, apart
from .bench_scorers import Category, Scorer, ScoreResult, evaluator_of_scorer, method_of

__all__ = [
    "ArthurError",
    "ArthurInternalError",
    "ArthurUserError",
    "Category",
    "NotFoundError",
    "ScoreResult",
    "Scorer",
    "TestRun",
    "TestSuite",
    "UserTypeError",
    "UserValueError",
]

Scoring = str | Mapping[str, Mapping[str, Any]] | Scorer
"""The name of an evaluator, its name with options as in {"exact_match": {"case_sensitive": False}}, or a scorer."""


class RunOptions(TypedDict, total=False):
    """What a run of a suite takes by name; see `TestSuite.arun`."""

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
    """A named, kept set of cases with one way of scoring; a name that is known opens the suite that was kept."""

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
        self._known = registry(self._root)
        self.scorer = scoring_method if isinstance(scoring_method, Scorer) else None
        kept = keeping.kept(self._root, name)
        if kept is not None:
            self._suite = self._opened(kept, scoring_method)
            return
        method = _method(scoring_method, self._known)
        data = cases.cases_from(
            frame=reference_data,
            path=reference_data_path,
            inputs=input_text_list,
            references=reference_output_list,
            input_column=input_column,
            reference_column=reference_column,
            needs_reference=method.requires_reference,
        )
        self._suite = keeping.keep(self._root, name, keeping.document_of(name, data, method, description))

    def _opened(self, kept: keeping.Suite, given: Scoring) -> keeping.Suite:
        """The suite that was kept, whose own way of scoring counts."""
        name = kept.method["name"]
        if kept.method.get("type") != "custom":
            self.scorer = None
            return kept
        if not isinstance(given, Scorer):
            raise UserValueError(
                f"the suite {kept.name!r} is scored by your own scorer {name!r}; give the object itself"
            )
        if given.name() != name:
            raise UserValueError(f"the suite {kept.name!r} is scored by {name!r}, not by {given.name()!r}")
        return kept

    @property
    def name(self) -> str:
        """The name of the suite."""
        return self._suite.name

    @property
    def description(self) -> str | None:
        """What the suite is for."""
        return self._suite.description

    @property
    def scoring_method(self) -> str:
        """The name of the way of scoring."""
        return str(self._suite.method["name"])

    @property
    def input_texts(self) -> list[str]:
        """What is asked, case by case."""
        return self._suite.inputs

    @property
    def reference_outputs(self) -> list[str | None]:
        """What is right, case by case."""
        return self._suite.references

    def run(
        self, run_name: str, candidate_data: Any = None, *, batch_size: int = 1, **options: Unpack[RunOptions]
    ) -> TestRun:
        """Score candidates as a named run; takes what `arun` takes."""
        return apart(lambda: asyncio.run(self._run(run_name, candidate_data, batch_size, False, options)))

    async def arun(
        self, run_name: str, candidate_data: Any = None, *, batch_size: int = 5, **options: Unpack[RunOptions]
    ) -> TestRun:
        """Score candidates as a named run.

        The candidates are `candidate_data` (a frame), `candidate_data_path` (a CSV file) or `candidate_output_list`,
        the first of them that is given, from the column `candidate_column`; contexts are in `context_column` or
        `context_input_list`. `model_name`, `model_version`, `foundation_model` and `prompt_template` are noted.
        `judge` is a target or a function that judges, where the suite is scored by a model. With `save=False` the run
        is in no store until its `save` is called.
        """
        return await self._run(run_name, candidate_data, batch_size, True, options)

    async def _run(self, name: str, frame: Any, batch_size: int, awaited: bool, options: RunOptions) -> TestRun:
        if unknown := sorted(options.keys() - RunOptions.__annotations__.keys()):
            raise TypeError(f"a run takes no {unknown[0]}; it takes {', '.join(RunOptions.__annotations__)}")
        _check_size(batch_size)
        asked = self._asked(name, frame, options)
        known, judge = self._known, options.get("judge")
        if self.scorer is not None:
            evaluator = evaluator_of_scorer(self.scorer, _cases(asked), batch_size, awaited)
            known = replace(known, by_name={**known.by_name, evaluator.name: evaluator})
        if options.get("save", True):
            return TestRun(await execute(asked, known, judge, self._root, self._root), self._root)
        with TemporaryDirectory(prefix="tui-evals-") as folder:
            made = await execute(asked, known, judge, self._root, Path(folder))
        return TestRun(replace(made, key=None), self._root)

    def _asked(self, name: str, frame: Any, options: RunOptions) -> running.Asked:
        """What a run is to judge."""
        contexts = options.get("context_input_list")
        candidates, contexts = cases.candidates_from(
            frame=frame,
            path=options.get("candidate_data_path"),
            candidates=options.get("candidate_output_list"),
            candidate_column=options.get("candidate_column", "candidate_output"),
            context_column=options.get("context_column"),
            contexts=options.get("context_list") if contexts is None else contexts,
        )
        metadata = {key: options.get(key) for key in running.METADATA}
        needs_context = self.scorer is None and self._stored_method().requires_context
        return running.asked(self._suite, name, candidates, contexts, metadata, needs_context=needs_context)

    def _stored_method(self) -> Method:
        (_, options), *_ = self._suite.data["default_evaluators"].items()
        return method_named(
            self.scoring_method, {key: value for key, value in options.items() if key != "type"}, self._known
        )

    def __repr__(self) -> str:
        return f"TestSuite({self.name!r}, {self.scoring_method!r}, cases={len(self.input_texts)})"


def _cases(asked: running.Asked) -> list[tuple[str, str | None, str, str | None]]:
    pairs = zip(asked.document["items"], asked.candidates, strict=True)
    return [
        (said, item.get("expected_response"), item["prompt"], item.get("context"))
        for item, said in pairs
        if said is not None
    ]


def _method(given: object, known: Registry) -> Method:
    if isinstance(given, Scorer):
        return method_of(given, known)
    if isinstance(given, str):
        return method_named(given, {}, known)
    if isinstance(given, Mapping) and len(given) == 1:
        ((name, options),) = given.items()
        if isinstance(name, str) and isinstance(options, Mapping):
            return method_named(name, options, known)
    raise UserTypeError(
        "scoring_method must be the name of an evaluator, one name with its options, or an object of a Scorer class, "
        f"not {type(given).__name__}"
    )


def _check_size(size: object) -> None:
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise UserValueError(f"batch_size must be a whole number from 1, not {size!r}")
