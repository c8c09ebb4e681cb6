"""`tui-evals rescore RUN --item ID`: the answers to one item judged again, each at once and in place."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tui_evals.cli import inputs, project
from tui_evals.cli.approving import approve
from tui_evals.cli.inputs import open_project
from tui_evals.cli.look.show import answers_to
from tui_evals.cli.output import Stop, colour, say, say_json_line
from tui_evals.datasets.document import Document
from tui_evals.datasets.same_item import place_of
from tui_evals.present.answers import rejudged_change
from tui_evals.present.runs import rejudged_sentence
from tui_evals.present.status import ANSWER_LOOKS
from tui_evals.runs.readiness import needed_judges
from tui_evals.runs.rejudging import prepare_rejudging, rejudge
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.targets.permissions import destinations

from .execution import execution_options, open_writer, refusals, say_estimate, warn_of_plan

_OF_WHOLE_RUNS = ("only", "items", "evaluators", "judge", "without_judges", "no_cache", "detach", "cluster")


def rescore_item(word: str, item: str, dataset: Path | None, options: Mapping[str, Any]) -> int:
    """Judge the answers to an item again by what its run is judged by, or by a dataset as it is now."""
    how = execution_options(options)
    other = next((f"--{name.replace('_', '-')}" for name in _OF_WHOLE_RUNS if options.get(name)), "")
    if other or how.gates.has_checks:
        raise Stop(f"--item judges the answers to one item in place; {other or 'a gate'} is for a whole run")
    here = open_project(how.env_name, how.trusting)
    with refusals(), project.reader() as reader:
        run = project.run_named(reader, word)
        rows = answers_to(reader, run, item)
        document = inputs.read(dataset) if dataset is not None else None
        place = None if document is None else _place(reader, run, rows[0].item, document)
        work = prepare_rejudging(run, rows, reader, here, document, place)
    warn_of_plan(work.job.plan)
    if how.plan_only:
        sent = destinations(needed_judges(work.job.plan, here.settings), here.environment)
        return say_estimate(work.job.plan, work.estimate(), sent, how.as_json, allow_unjudged=True)
    approve(work.missing_permissions(), here.root)
    with open_writer(here) as writer, refusals():
        try:
            after = asyncio.run(rejudge(work, writer))
        except StoreError as problem:
            raise Stop(str(problem), 1) from None
    with project.reader() as reader:
        run = reader.run(run.id)
    for before, now in zip(work.rows, after, strict=True):
        if how.as_json:
            say_json_line({"answer": asdict(now), "before": {"status": before.status, "score": before.score}})
        elif not how.quiet:
            say(rejudged_change(before, now, work.expected is not None), fg=colour(ANSWER_LOOKS[now.status].tone))
    if not how.as_json and not how.quiet and (sentence := rejudged_sentence(run)):
        say(f"{run.key}: {sentence}")
    return 0


def _place(reader: Reader, run: RunRow, number: int, document: Document) -> int:
    """Where the item of a run stands in a dataset now."""
    asked = reader.snapshot(run.snapshot)["items"][number]
    place = place_of(document.data["items"], asked, number)
    if place is None:
        raise Stop(f"the item is not in {document.file} any more, or asks something else now")
    return place
