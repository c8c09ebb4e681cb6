"""Our judging of a registry beside that of the real `evals` package, row by row and figure by figure.

The first command runs where the package is installed, the second here; neither asks a model:

    python tests/interop/evals_registry.py REGISTRY > FILE
    python tests/interop/evals_compare.py REGISTRY FILE

The answers in FILE are judged as they were there, with the judge replying what it replied there. Every row and every
figure (accuracy, f1_score, counts, score, metascore) that differs is printed; the exit code is 1 where one does.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tui_evals.datasets.model import Dataset, Item
from tui_evals.datasets.resolve import resolve_evaluators
from tui_evals.evaluators.base import Evidence, Question, Score, evaluate
from tui_evals.evaluators.registry import built_in
from tui_evals.imports.openai_evals import Registry, load
from tui_evals.reports.oaieval import Event, report

Rows = dict[str, dict[str, Any]]


def compared(folder: Path, real: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each eval, and one for each row or figure that differs, which begins with DIFFERS."""
    registry = load([folder], {name: kind.Options for name, kind in built_in().items()})
    for name, run in sorted(real["runs"].items()):
        (spec,) = registry.find(name)
        if "error" in run:
            yield f"{name}: not run there ({run['error']})"
        elif reasons := spec.reasons():
            yield f"{name}: does not run here: {reasons[0]}"
        else:
            yield from _differences(name, run, *judged(registry, name, run))


def judged(registry: Registry, name: str, run: Mapping[str, Any]) -> tuple[Rows, dict[str, float], list[str]]:
    """Our rows and figures for the answers of a run, and the samples that ask something else."""
    dataset = Dataset.model_validate(registry.find(name)[0].document()[0])
    rows: Rows = {}
    events: list[Event] = []
    others: list[str] = []
    for item in dataset.items:
        sample = item.testId or ""
        calls = [call for call in run["all"] if call["sample"] == sample]
        asked = [call for call in calls if call["role"] == "target"]
        repeats = len(item.other_questions or ()) + 1
        if any(_chat(call["prompt"]) != _asked(item.asking(place % repeats)) for place, call in enumerate(asked)):
            others.append(sample)
        replies = [call["answer"] for call in calls if call["role"] == "judge"]
        score = asyncio.run(_scored(dataset, item, [call["answer"] for call in asked], replies))
        rows[sample] = _row(score, bool(replies))
        events.append(Event("metrics" if replies else "match", sample, rows[sample], 0.0))
        if "f1" in score.details:
            events.append(Event("metrics", sample, {"f1_score": score.details["f1"]}, 0.0))
    return rows, report(events), others


async def _scored(dataset: Dataset, item: Item, answers: list[str], replies: list[str]) -> Score:
    (entry,) = resolve_evaluators(dataset, item)
    options = {**entry.settings, **({"invalid": "lowest", "compat": True} if replies else {})}

    waiting = iter(replies)

    async def ask(_: Question) -> str:
        return next(waiting)

    kind = built_in()[entry.evaluator]
    evidence = Evidence(
        prompt=item.prompt or "",
        response=answers[0] if answers else item.response,
        expected=item.expected_response,
        alternatives=tuple(item.ideal or ()),
        variables=item.variables or {},
        completions=tuple(answers or filter(None, [item.response])),
    )
    return await evaluate(kind(kind.Options.model_validate(options), ask), evidence)


def _row(score: Score, graded: bool) -> dict[str, Any]:
    if not graded:
        return {"correct": score.result == "pass"}
    agrees = {"metascore": score.details["metascore"]} if "metascore" in score.details else {}
    return {"choice": score.label, "score": score.score, **agrees}


def _asked(item: Item) -> list[dict[str, Any]]:
    said = [message.model_dump(exclude_none=True) for message in item.messages or ()]
    return [*said, {"role": "user", "content": item.prompt}] if item.prompt is not None else said


def _chat(prompt: Any) -> Any:
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt


def _differences(
    name: str, run: Mapping[str, Any], rows: Rows, figures: Mapping[str, float], others: list[str]
) -> Iterator[str]:
    yield from (f"DIFFERS {name}: {sample} asks something else" for sample in others)
    for row in run["recorded"]:
        ours = rows.get(row["sample"], {})
        for field in ("correct", "choice", "score", "metascore"):
            if field in row["data"] and not _same(row["data"][field], ours.get(field)):
                yield f"DIFFERS {name}: {row['sample']} {field} is {row['data'][field]} there, {ours.get(field)} here"
    for figure, there in run["report"].items():
        if not _same(there, figures.get(figure)):
            yield f"DIFFERS {name}: {figure} is {there} there, {figures.get(figure)} here"
    yield f"{name}: {len(rows)} rows, {', '.join(run['report'])} compared"


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float | int) and isinstance(other, float | int):
        return math.isclose(one, other, abs_tol=1e-9)
    return bool(one == other)


def main() -> int:
    lines = list(compared(Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))))
    print("\n".join(lines))
    return int(any(line.startswith("DIFFERS") for line in lines))


if __name__ == "__main__":
    sys.exit(main())
