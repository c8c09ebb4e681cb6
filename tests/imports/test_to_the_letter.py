"""Faithful runs beside what the real package asked and recorded; `tests/interop/evals_registry.py` wrote that."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tui_evals.datasets.model import Dataset, Item
from tui_evals.datasets.resolve import resolve_evaluators
from tui_evals.evaluators.base import Evidence, Question, Score, evaluate
from tui_evals.evaluators.registry import built_in
from tui_evals.imports.openai_evals import EvalSpec, Registry, load
from tui_evals.reports.oaieval import Event, report
from tui_evals.runs.prompting import question_of

FOLDER = Path(__file__).parents[1] / "imports" / "registries"
REAL: dict[str, Any] = json.loads((FOLDER / "letter.json").read_text(encoding="utf-8"))["runs"]
CATALOGUE = {name: kind.Options for name, kind in built_in().items()}


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load([FOLDER / "letter"], CATALOGUE)


def faithful(registry: Registry, name: str) -> EvalSpec:
    (spec,) = registry.find(name)
    return replace(spec, faithful=True)


def sent(prompt: Any) -> Any:
    """What the original's client makes of a prompt."""
    return [{"role": "system", "content": prompt}] if isinstance(prompt, str) else prompt


async def judged(dataset: Dataset, item: Item, calls: list[dict[str, Any]], shown: list[Any]) -> Score:
    """Our verdict about the answers given there; `shown` takes what a judge is asked."""
    (entry,) = resolve_evaluators(dataset, item)
    answers = [call["answer"] for call in calls if call["role"] == "target"]
    replies = iter([call["answer"] for call in calls if call["role"] == "judge"])

    async def ask(question: Question) -> str:
        shown.append(list(question.messages))
        return str(next(replies))

    kind = built_in()[entry.evaluator]
    evidence = Evidence(
        request=tuple(question_of(item)),
        response=answers[0],
        expected=item.reference,
        alternatives=tuple(item.ideal or ()),
        variables={name: "" if value is None else value for name, value in (item.variables or {}).items()},
        completions=tuple(answers),
    )
    return await evaluate(kind(kind.Options.model_validate(entry.settings), ask), evidence)


@pytest.mark.parametrize("name", sorted(REAL))
async def test_every_prompt_row_and_figure_is_that_of_the_package(registry: Registry, name: str) -> None:
    run, spec = REAL[name], faithful(registry, name)
    assert "error" not in run and spec.reasons() == () and spec.unlike() == ()
    dataset = Dataset.model_validate(spec.document()[0])
    there: dict[str, dict[str, Any]] = {}
    for row in run["recorded"]:
        there.setdefault(row["sample"], {}).update(row["data"])
    events = []
    for item in dataset.items:
        sample = item.testId or ""
        calls = [call for call in run["all"] if call["sample"] == sample]
        asked = [sent(call["prompt"]) for call in calls if call["role"] == "target"]
        questions = len(item.other_questions or ()) + 1
        assert [question_of(item.asking(place % questions)) for place in range(len(asked))] == asked, sample
        shown: list[Any] = []
        score = await judged(dataset, item, calls, shown)
        assert shown == [call["prompt"] for call in calls if call["role"] == "judge"], sample
        data = row_of(score, bool(shown))
        assert data == {field: there[sample][field] for field in data}, (sample, score)
        events.append(Event("metrics" if shown else "match", sample, data, 0.0))
        if "f1" in score.details:
            events.append(Event("metrics", sample, {"f1_score": score.details["f1"]}, 0.0))
    assert report(events) == pytest.approx(run["report"])


def row_of(score: Score, graded: bool) -> Mapping[str, Any]:
    return {"choice": score.label, "score": score.score} if graded else {"correct": score.result == "pass"}


def test_without_it_the_prompt_is_fenced_as_before(registry: Registry) -> None:
    data, losses = registry.find("letter-graded.dev.v0")[0].document()
    assert "compat" not in data["default_evaluators"]["ModelGraded"]
    assert any("--faithful" in sentence for sentence in losses.sentences())


def test_the_package_that_is_installed_does_what_was_recorded() -> None:
    python = os.environ.get("EVALS_PYTHON")
    if not python:
        pytest.skip("needs EVALS_PYTHON, the interpreter of an environment with evals (tests/interop)")
    script = FOLDER.parents[1] / "interop" / "evals_registry.py"
    done = subprocess.run([python, script, FOLDER / "letter"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["runs"] == REAL
