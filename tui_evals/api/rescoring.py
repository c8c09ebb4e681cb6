"""Judging the answers of a run again from Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tui_evals.runs import rescoring
from tui_evals.runs.estimating import Estimate
from tui_evals.runs.execution import Job, execute
from tui_evals.runs.project import Project
from tui_evals.runs.rescoring import RescoreRequest, prepare_rescore
from tui_evals.runs.selection import answers_chosen
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.targets.permissions import NotApproved

from .evaluating import project_of_run, run_of, wait_for
from .given import (
    Configured,
    DatasetLike,
    EvaluatorsLike,
    TargetLike,
    code_by_name,
    configurations,
    document_of,
    evaluators_and_code,
)
from .results import Run


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
    """Judge the answers of a run again without asking any target, and return the run.

    A judge is asked only where something changed: an evaluator, its options or rubric, the judge, or what it sees.
    Other scores are kept, and their `origin` is the judging they come from. `dataset` or `evaluators` say what judges
    now. `evaluator` names the evaluators that judge, by key or name, and `only` the answers, by a filter; what is named
    alone is judged again though nothing changed. With `use_cache=False` nothing is kept. A `target` or `judge` that is
    code has to be given again, because a store keeps none.
    """
    here, code = project_of_run(run, target, judge, project, trust=trust)
    with Reader(here.store) as reader:
        asked = _Asked(dataset, evaluators, evaluator, only, judge, without_judges, use_cache, allow_unjudged)
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
    """What `rescore` with the same arguments will take: the calls of judges that are left, their cost and seconds.

    `kept` counts the scores that hold, `known_verdicts` those for which the cache has every reply.
    """
    here, code = project_of_run(run, target, judge, project)
    with Reader(here.store) as reader:
        asked = _Asked(dataset, evaluators, evaluator, only, judge, without_judges, use_cache, True)
        return rescoring.estimate_rescore(asked.job(run, here, code, reader), reader)


@dataclass(frozen=True, slots=True)
class _Asked:
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
    """Whether no judge was given, or one that judges already and is code, of which a store keeps none."""
    now = reader.passes(run.id)[-1].config.get("judge") or {}
    return not judges or (judges[0][1] is not None and judges[0][0].name == now.get("name"))
