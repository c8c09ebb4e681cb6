"""A run as an object of a program: its answers, gates, judging again, comparisons, battles and people's labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from tui_evals.api.arguments import (
    Configured,
    DatasetLike,
    EvaluatorsLike,
    TargetLike,
    code_by_name,
    configurations,
    document_of,
    evaluators_and_code,
    target_list,
)
from tui_evals.api.battles import Battle, fight_battle
from tui_evals.api.watching import Answer, answer_of, frame_of, wait_for
from tui_evals.compare.runs import read_comparison
from tui_evals.compare.verdicts import NAMES, caveats, difference_sentence
from tui_evals.datasets.discover import project_root
from tui_evals.files import CannotSave, make_folder, write_atomically
from tui_evals.present.answers import cause_sentence, cause_texts
from tui_evals.present.runs import counts_sentence, stop_reason
from tui_evals.reports import results
from tui_evals.reports.comparison import rows as comparison_rows
from tui_evals.runs import rescoring
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.estimating import Estimate
from tui_evals.runs.execution import Job, RunOutcome, execute
from tui_evals.runs.gate_options import gates_of
from tui_evals.runs.gates import GateResults, GatesNotMet, check_gates, with_baseline
from tui_evals.runs.project import Project, demand_own_store, load_project, store_of
from tui_evals.runs.rescoring import RescoreRequest, prepare_rescore
from tui_evals.runs.scoring import column_scores
from tui_evals.runs.selection import answers_chosen, find_run
from tui_evals.store import run_figures
from tui_evals.store.baselines import author_here
from tui_evals.store.details import read_details
from tui_evals.store.filters import parse_filter
from tui_evals.store.reader import Reader
from tui_evals.store.records import CheckedGate, RunRow, Totals
from tui_evals.targets.config import load_settings
from tui_evals.targets.permissions import NotApproved
from tui_evals.text.model_output import ENDINGS
from tui_evals.text.safe import safe_line

__all__ = ["CheckedGate", "GateResults", "GatesNotMet", "gate"]


def gate(
    run: Run | str,
    *,
    fail_under: float | None = None,
    fail_under_score: float | None = None,
    must_pass: str | Sequence[str] | None = None,
    fail_on: Literal["fail", "partial", "error"] | None = None,
    fail_on_broken: int | bool | None = None,
    fail_on_regression: float | bool | None = None,
    baseline: Run | str | None = None,
    max_missing: float | None = None,
    fail_on_incomplete: int | bool | None = None,
    project: str | Path | None = None,
) -> GateResults:
    """Check a run against gates, which match the options of `tui-evals run` with the same names.

    `run` is a run returned by `evaluate`, or a key or name in the store. `fail_under` is the minimum pass rate of every
    column in percent, `fail_under_score` its minimum mean score from 0 to 100; `must_pass` names items that must pass,
    as in ["MT-1", "tag:critical"]; `fail_on` is the mildest result that fails the gate. `fail_on_broken` fails if that
    many items (True means 1) passed in `baseline` and fail now; `fail_on_regression` fails if the run is significantly
    worse than it, at a level of 0.05 for True. Both default to the dataset's baseline; `baseline` alone only compares.
    Every gate fails if more than `max_missing` percent (5) of the answers are missing or unjudged, or of the baseline's
    judged answers cannot be compared. `project` is the folder with the `.evals/` of the runs.

    The results are true if all gates are met, so `assert gate(run, fail_under=90)` works; `raise_unless_met()` raises
    GatesNotMet with the reasons. Gates of an unfinished run are undecided unless they already failed. Raises CannotPlan
    if the run or the baseline does not exist.
    """
    gates = gates_of(
        {
            "fail_under": fail_under,
            "fail_under_score": fail_under_score,
            "must_pass": must_pass if must_pass is None or isinstance(must_pass, str) else list(must_pass),
            "fail_on": fail_on,
            "fail_on_broken": fail_on_broken,
            "fail_on_regression": fail_on_regression,
            "baseline": baseline.key if isinstance(baseline, Run) else baseline,
            "max_missing": max_missing,
            "fail_on_incomplete": fail_on_incomplete,
        }
    )
    root = project_root(Path(project) if project is not None else Path.cwd())
    with Reader(store_of(root)) as reader:
        row = find_run(reader, run.key if isinstance(run, Run) else run)
        gates = replace(gates, rules_of_0_2=load_settings(root).run.gates == "0.2")
        demand_own_store(reader, row.key, run=row)
        gates = with_baseline(gates, reader, row.source, row)
        finished = row.status == "finished"
        outcome = check_gates(reader, row, reader.totals(row.id), gates, finished=finished)
        if finished or outcome.checks:
            return outcome
        reason = stop_reason(row)
        sentence = f"{row.key} is {row.status}" + f": {reason}" * bool(reason)
        return replace(outcome, checks=(CheckedGate("finished", "not decided", sentence),), basis=sentence)


Library = Literal["pandas", "polars"]
Verdict = Literal["pass", "fail"]
_COLUMNS = (
    *("item", "test_id", "turn", "target", "prompt", "repeat", "tags", "question", "expected"),
    *("status", "score", "text", "error"),
)


@dataclass(frozen=True, repr=False)
class Run:
    """A run in the store, which `tui-evals show KEY` and the workbench open as well."""

    key: str
    name: str
    status: str
    totals: Totals
    message: str = ""
    """Why it stopped; empty where it is finished."""
    causes: tuple[str, ...] = ()
    """Why answers are missing, cut or not judged, each with how many, the most frequent first."""
    store: Path = field(default=Path(), repr=False, compare=False)
    """The database it is kept in."""

    @classmethod
    def open(cls, word: str = "last", *, project: str | Path | None = None) -> Run:
        """A run of the store: `last`, a key, the beginning of one, or a name. CannotPlan where there is none."""
        with _reader(project) as reader:
            return read_run(reader, find_run(reader, word))

    @cached_property
    def _read(self) -> tuple[tuple[Answer, ...], Mapping[str, float | None]]:
        with Reader(self.store) as reader:
            run = reader.find_run(self.key)
            told = list(read_details(reader, run, reader.all_rows(run.id)))
            items = reader.snapshot(run.snapshot)["items"]
        by_column = column_scores([one.row for one in told], {one.row.id: one.scores for one in told}, items)
        several = len(run.prompts) > 1
        scores = {
            f"{run.targets[target]} · {run.prompts[prompt]}" if several else run.targets[target]: score
            for (prompt, target), score in by_column.items()
        }
        return tuple(answer_of(run, one, items[one.row.item]) for one in told), scores

    @property
    def answers(self) -> tuple[Answer, ...]:
        """Its answers in the order of the plan, in their state at the first read."""
        return self._read[0]

    @property
    def scores(self) -> Mapping[str, float | None]:
        """The score of each column, from 0 to 100, by its target, and its prompt where there are several; None: n/a."""
        return self._read[1]

    @property
    def passed(self) -> bool:
        """Whether the run is finished and every answer that something can fail passed, one at least."""
        rated = [answer for answer in self.answers if answer.status != "scored"]
        return self.status == "finished" and bool(rated) and all(answer.passed for answer in rated)

    @property
    def failures(self) -> tuple[Answer, ...]:
        """The answers that did not pass, including those that were not judged; an answer nothing can fail is none."""
        return tuple(answer for answer in self.answers if answer.status not in ("pass", "scored"))

    def only(self, words: str) -> tuple[Answer, ...]:
        """The answers that a filter finds, such as `error` or `fail score:<50`, in the words of `show --only`."""
        with Reader(self.store) as reader:
            ids = set(reader.ids(reader.find_run(self.key).id, parse_filter(words)))
        return tuple(answer for answer in self.answers if answer.id in ids)

    @property
    def score(self) -> float | None:
        """The mean of the columns' scores; None if nothing was judged."""
        scores = [score for score in self.scores.values() if score is not None]
        return sum(scores) / len(scores) if scores else None

    def rows(self) -> list[dict[str, Any]]:
        """One flat row per answer: prompt, expected text, answer, and the record of each evaluator.

        All rows have the same columns.
        """
        keys = list(dict.fromkeys(key for answer in self.answers for key in answer.scores))
        rows = []
        for answer in self.answers:
            row = {"run": self.key, **{name: getattr(answer, name) for name in _COLUMNS}, **answer.facts}
            for key in keys:
                record = answer.scores.get(key)
                row |= {f"{key}.{part}": getattr(record, part, None) for part in ("score", "result", "reason")}
            rows.append(row)
        return rows

    def to_frame(self, library: Library = "pandas") -> Any:
        """The rows as a frame of a library; ImportError where it is not installed."""
        return frame_of(self.rows(), library)

    def rescore(
        self,
        evaluators: EvaluatorsLike | Callable[..., Any] | None = None,
        *,
        judge: TargetLike | None = None,
        only: str | None = None,
        use_cache: bool = True,
        trust: bool = False,
        project: str | Path | None = None,
    ) -> Run:
        """Judge the answers again, with `evaluators` if given, and return the run; nothing is sent to targets.

        The function `rescore` takes more arguments.
        """
        given = [evaluators] if callable(evaluators) else evaluators
        return rescore(
            self, evaluators=given, judge=judge, only=only, use_cache=use_cache, trust=trust, project=project
        )

    def compare(self, *others: Run | str) -> RunComparison:
        """Compare this run (A) with up to three later ones, item by item."""
        with Reader(self.store) as reader:
            keys = [self.key, *(other.key if isinstance(other, Run) else other for other in others)]
            return RunComparison(self.store, tuple(find_run(reader, key).key for key in keys))

    def battle(
        self,
        *others: Run | str,
        judge: TargetLike | None = None,
        columns: str | None = None,
        criteria: str | None = None,
        limit: int | None = None,
        seed: int | None = None,
        concurrency: int | None = None,
        max_cost: float | None = None,
        trust: bool = False,
        project: str | Path | None = None,
    ) -> Battle:
        """Let a judge compare the answers of this run and up to three others, like the function `battle`.

        This run is A. `columns` names two columns of this run instead of other runs.
        """
        return battle(
            self,
            *others,
            judge=judge,
            columns=columns,
            criteria=criteria,
            limit=limit,
            seed=seed,
            concurrency=concurrency,
            max_cost=max_cost,
            trust=trust,
            project=project,
        )

    def label(
        self,
        answer: Answer,
        verdict: Verdict | None,
        *,
        evaluator: str | None = None,
        note: str = "",
        author: str | None = None,
        project: str | Path | None = None,
    ) -> None:
        """Store a person's verdict on an answer, or on the record of one evaluator; None removes it."""
        here, _ = project_of_run(self, None, None, project)
        with here.writer() as writer:
            writer.label(answer.id, verdict, author or author_here(), evaluator=evaluator, note=note)

    def report(self, file: str | Path, *, kind: str | None = None) -> Path:
        """Write the run to a file as the kind of report its ending names (.html, .md, .csv, …), and return the file."""
        return write_report(self.store, [self.key], Path(file), kind)

    def __repr__(self) -> str:
        return f"<Run {self.key} {safe_line(self.name)!r}: {self._summary}>"

    def _repr_html_(self) -> str:
        """How a notebook shows the run: its report with the first items that did not pass."""
        from tui_evals.reports.page import notebook_frame  # programs that show no page need no templates

        with Reader(self.store) as reader:
            return notebook_frame(reader, [reader.find_run(self.key)], str(self))

    @property
    def _summary(self) -> str:
        return f"{self.status}, {counts_sentence(self.totals, over=True)}"


@dataclass(frozen=True, repr=False)
class RunComparison:
    """Runs of a store compared item by item: the first is A, and each later one is held against it."""

    store: Path
    keys: tuple[str, ...]

    @cached_property
    def verdicts(self) -> tuple[str, ...]:
        """Whether each later run passes more items than A, and whether that could be chance."""
        with Reader(self.store) as reader:
            compared = read_comparison(reader, [reader.find_run(key).id for key in self.keys])
        against = zip(compared.against, NAMES[1:], strict=False)
        return tuple(difference_sentence(difference, NAMES[0], name) for difference, name in against)

    @property
    def verdict(self) -> str:
        """The verdict on the last run."""
        return self.verdicts[-1]

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Caveats about the verdicts, such as that the runs were judged differently."""
        with Reader(self.store) as reader:
            return tuple(caveats(read_comparison(reader, [reader.find_run(key).id for key in self.keys])))

    def rows(self) -> list[dict[str, Any]]:
        """One flat row for each answer of any of the runs: its kind (broken, fixed, …), and each run's answer."""
        with Reader(self.store) as reader:
            columns, rows = comparison_rows(reader, [reader.find_run(key) for key in self.keys])
            return [dict(zip(columns, row, strict=True)) for row in rows]

    def to_frame(self, library: Library = "pandas") -> Any:
        """The rows as a frame of a library; ImportError where it is not installed."""
        return frame_of(self.rows(), library)

    def report(self, file: str | Path, *, kind: str | None = None) -> Path:
        """Write the comparison to a file as the kind of report its ending names, and return the file."""
        return write_report(self.store, self.keys, Path(file), kind)

    def __repr__(self) -> str:
        return f"<RunComparison {' and '.join(self.keys)}: {self.verdict}>"

    def _repr_html_(self) -> str:
        """How a notebook shows the comparison: its report with the first items."""
        from tui_evals.reports.page import notebook_frame  # programs that show no page need no templates

        with Reader(self.store) as reader:
            return notebook_frame(reader, [reader.find_run(key) for key in self.keys], str(self))


class RunStopped(Exception):
    """A run ended early; `run` holds its answers so far, and `tui-evals resume` continues it."""

    def __init__(self, message: str, run: Run) -> None:
        super().__init__(message)
        self.run = run


class EveryCallFailed(RunStopped):
    """No call of a run was answered, all for the same reason; `run` holds its record. Its note has the traceback."""


def list_runs(text: str = "", *, limit: int = 50, project: str | Path | None = None) -> list[Run]:
    """The latest runs of the store; every word of `text` must occur in their name, source, tags or note.

    Their answers are read on first use.
    """
    with _reader(project) as reader:
        return [_run_of_row(reader, row) for row in reader.runs(limit, text=text)]


def rescore(
    run: str | Run,
    *,
    dataset: DatasetLike | None = None,
    evaluators: EvaluatorsLike | None = None,
    evaluator: str | Sequence[str] = (),
    only: str | None = None,
    judge: TargetLike | None = None,
    without_judges: bool = False,
    use_cache: bool = True,
    target: TargetLike | Sequence[TargetLike] | None = None,
    trust: bool = False,
    allow_unjudged: bool = False,
    project: str | Path | None = None,
) -> Run:
    """Judge the answers of a run again without sending anything to targets, and return the run.

    Judges are only called for changes: of the evaluator, its options or rubric, the judge, or its input. Other scores
    are kept, with the scoring pass they come from as `origin`. `dataset` or `evaluators` define the new evaluators.
    `evaluator` selects evaluators by key or name, and `only` answers by a filter; a selection of evaluators or answers
    is judged again even without changes. With `use_cache=False` no score is kept. A `target` or `judge` made in code
    must be passed again, because the store cannot keep code.
    """
    here, code = project_of_run(run, target, judge, project, trust=trust)
    with Reader(here.store) as reader:
        asked = _Rescoring(dataset, evaluators, evaluator, only, judge, without_judges, use_cache, allow_unjudged)
        job = asked.job(run, here, code, reader)
    if missing := job.missing_permissions(judging=not allow_unjudged):
        raise NotApproved(missing, here.root)

    async def judged() -> Run:
        with here.writer() as writer:
            return run_of(await execute(job, writer, again=True), here)

    return wait_for(judged())


def estimate_rescore(
    run: str | Run,
    *,
    dataset: DatasetLike | None = None,
    evaluators: EvaluatorsLike | None = None,
    evaluator: str | Sequence[str] = (),
    only: str | None = None,
    judge: TargetLike | None = None,
    without_judges: bool = False,
    use_cache: bool = True,
    target: TargetLike | Sequence[TargetLike] | None = None,
    project: str | Path | None = None,
) -> Estimate:
    """The judge calls, cost and seconds that `rescore` would take with these arguments.

    `kept` counts the scores that stay valid, `known_verdicts` those whose replies are all cached.
    """
    here, code = project_of_run(run, target, judge, project)
    with Reader(here.store) as reader:
        asked = _Rescoring(dataset, evaluators, evaluator, only, judge, without_judges, use_cache, True)
        return rescoring.estimate_rescore(asked.job(run, here, code, reader), reader)


def battle(
    *runs: str | Run,
    judge: TargetLike | None = None,
    columns: str | None = None,
    criteria: str | None = None,
    limit: int | None = None,
    seed: int | None = None,
    concurrency: int | None = None,
    max_cost: float | None = None,
    trust: bool = False,
    project: str | Path | None = None,
) -> Battle:
    """Let a judge compare the answers of 2 to 4 runs, each pair in both orders, and return the result.

    `columns` instead names two columns of a single run, as in `"gpt,claude"`. `judge` is a name from the configuration,
    a model, a function or a Target, and `criteria` is what makes an answer better. `limit` is the maximum number of
    pairs per two runs, sampled with `seed`. Verdicts are stored, so repeating a battle makes no calls.

    Raises CannotPlan or ConfigurationError before anything is sent, BattleStopped if it ended early.
    """
    if not runs:
        raise CannotPlan("name the runs of the battle")
    here, _ = project_of_run(runs[0], None, None, project, trust=trust)
    keys = [run.key if isinstance(run, Run) else run for run in runs]
    return fight_battle(
        keys,
        judge,
        here,
        columns=columns,
        criteria=criteria,
        limit=limit,
        seed=seed,
        concurrency=concurrency,
        max_cost=max_cost,
    )


@dataclass(frozen=True, slots=True)
class _Rescoring:
    """How a program wants a run to be judged."""

    dataset: DatasetLike | None
    evaluators: EvaluatorsLike | None
    evaluator: str | Sequence[str]
    only: str | None
    judge: TargetLike | None
    without_judges: bool
    use_cache: bool
    allow_unjudged: bool

    def job(self, run: str | Run, here: Project, code: Sequence[Configured], reader: Reader) -> Job:
        """The scoring pass that this comes to."""
        found = reader.find_run(run.key if isinstance(run, Run) else run)
        chosen, own = evaluators_and_code(self.evaluators) if self.evaluators is not None else (None, {})
        judges = configurations([] if self.judge is None else [self.judge], here.settings)
        names = [self.evaluator] if isinstance(self.evaluator, str) else self.evaluator
        request = RescoreRequest(
            dataset=None if self.dataset is None else document_of(self.dataset, here.root),
            evaluators=chosen,
            own_evaluators=own,
            judge=None if _judges_now(found, judges, reader) else judges[0][0].name,
            without_judges=self.without_judges,
            named=frozenset(names),
            answers=None if self.only is None else frozenset(answers_chosen(reader, found, self.only, None)),
            use_cache=self.use_cache,
            allow_unjudged=self.allow_unjudged,
        )
        job = prepare_rescore(found, request, reader, here)
        return replace(job, ready=code_by_name(code, job.plan.targets))


def _judges_now(run: RunRow, judges: Sequence[Configured], reader: Reader) -> bool:
    """Whether no judge was given, or the current one, whose code the store does not keep."""
    now = reader.passes(run.id)[-1].config.get("judge") or {}
    return not judges or (judges[0][1] is not None and judges[0][0].name == now.get("name"))


# -- reading and writing


def _reader(project: str | Path | None) -> Reader:
    return Reader(store_of(project_root(Path(project) if project is not None else Path.cwd())))


def read_run(reader: Reader, row: RunRow) -> Run:
    """A run of the store with its current answers."""
    run = _run_of_row(reader, row)
    len(run.answers)  # read now, so that what changes later is not in them
    return run


def _run_of_row(reader: Reader, run: RunRow) -> Run:
    return Run(
        key=run.key,
        name=run.name,
        status=run.status,
        totals=reader.totals(run.id),
        message=stop_reason(run),
        causes=tuple(told.text for told in cause_texts(run, run_figures.causes(reader, run.id))),
        store=reader.path,
    )


def write_report(store: Path, keys: Sequence[str], file: Path, kind: str | None) -> Path:
    """Write a run, or runs compared, to a file that only its owner can read; CannotPlan says why not."""
    name = kind or results.kind_of(file)
    if name is None:
        raise CannotPlan(f"{file}: unknown ending. Use one of {results.endings()}")
    if why := results.report_kind(name).missing():
        raise CannotPlan(f"{file}: {why}")
    with Reader(store) as reader:
        pieces = results.write(name, reader, [reader.find_run(key) for key in keys])
        encoded = (piece if isinstance(piece, bytes) else piece.encode() for piece in pieces)
        try:
            make_folder(file.parent)
            write_atomically(file, encoded, private=True)
        except (OSError, CannotSave) as problem:
            raise CannotPlan(f"{file} could not be written: {problem}") from None
    return file


def run_of(outcome: RunOutcome, here: Project) -> Run:
    """The finished run; raises RunStopped if it ended early, EveryCallFailed if nothing was answered."""
    with Reader(here.store) as reader:
        run = read_run(reader, outcome.run)
    if not outcome.finished:
        raise RunStopped(f"{run.key} stopped: {outcome.message}", run)
    _demand_answer(run, outcome)
    return run


def _demand_answer(run: Run, outcome: RunOutcome) -> None:
    """Raise when one error is all that came of a run; code that reads only its score would take it for a result."""
    missing = [cause for cause in outcome.causes if not cause.evaluator and cause.code not in (*ENDINGS, "turnSkipped")]
    if not run.totals.errored or run.totals.errored != run.totals.total or len(missing) != 1:
        return
    failure = EveryCallFailed(f"all calls of {run.key} failed: {cause_sentence(missing[0])}", run)
    if traceback := next((answer.traceback for answer in run.answers if answer.traceback), None):
        failure.add_note(traceback)
    raise failure


def project_of_run(
    run: str | Run,
    target: TargetLike | Sequence[TargetLike] | None,
    judge: TargetLike | None,
    project: str | Path | None,
    *,
    trust: bool = False,
) -> tuple[Project, list[Configured]]:
    """The project of a run, which knows the code that answers and judges, and that code."""
    here = load_project(project_root(Path(project) if project is not None else Path.cwd()), trusting=trust)
    if isinstance(run, Run) and run.store != Path():
        here = replace(here, database=run.store)
    given = [*target_list(target), *([judge] if judge is not None else [])]
    code = [pair for pair in configurations(given, here.settings) if pair[1] is not None]
    configured = {**here.settings.targets, **{config.name: config for config, _ in code}}
    return replace(here, settings=replace(here.settings, targets=configured)), code
