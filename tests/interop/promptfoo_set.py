"""The configurations of tests/imports/promptfoo/set here, beside what the real promptfoo recorded of them.

To renew what is recorded, see promptfoo_set.mjs.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tui_evals.datasets.model import Dataset, Item, Turn
from tui_evals.datasets.resolve import EffectiveEvaluator, resolve_evaluators
from tui_evals.evaluators.base import Evidence, Score, evaluate
from tui_evals.evaluators.conditions import LEFT_OUT
from tui_evals.evaluators.custom import FOLDER
from tui_evals.evaluators.registry import load_registry
from tui_evals.evaluators.trust import Trust
from tui_evals.imports.base import Losses
from tui_evals.imports.promptfoo import Configuration, read_config
from tui_evals.imports.promptfoo.prompts import chat_in
from tui_evals.imports.promptfoo.values import inner_name
from tui_evals.runs.prompting import Chat, PromptUnderTest, chat_for, of_dataset

SET = Path(__file__).parents[1] / "imports" / "promptfoo" / "set"
GROUP = "AtLeast"
RECORDED_WITH = (0, 119, 0)
_ASKED = re.compile(r"the variable |the prompt ")
_MADE = {
    "equals": ("Equals", "JsonMatch"),
    "contains": ("ContainsAll",),
    "icontains": ("ContainsAll",),
    "contains-all": ("ContainsAll",),
    "icontains-all": ("ContainsAll",),
    "contains-any": ("ContainsAny",),
    "icontains-any": ("ContainsAny",),
    "starts-with": ("StartsWith",),
    "regex": ("Regex", "JavaScript"),
    "is-json": ("JsonValid", "JsonSchema"),
    "contains-json": ("ContainsJson",),
    "is-xml": ("Xml",),
    "is-html": ("Html",),
    "levenshtein": ("Levenshtein",),
    "rouge-n": ("RougeN",),
    "latency": ("Latency",),
    "cost": ("Cost",),
    "javascript": ("JavaScript",),
}
"""What an assertion of each kind can have become."""


@dataclass(slots=True)
class Compared:
    """What came of one configuration."""

    rows: int = 0
    asked_otherwise: int = 0
    asserted: int = 0
    equal: int = 0
    changed: int = 0
    left_out: int = 0
    different: list[str] = field(default_factory=list)


@cache
def recorded() -> Mapping[Path, list[dict[str, Any]]]:
    """The rows of every configuration that was recorded: those of the set, and those beside it."""
    of_set = json.loads((SET / "recorded.json").read_text(encoding="utf-8"))["rows"]
    found = {SET / f"{name}.yaml": rows for name, rows in of_set.items()}
    for file in sorted(SET.parent.glob("*.results.json")):
        alone = json.loads(file.read_text(encoding="utf-8"))["results"]
        found[file.with_name(file.name.replace(".results.json", ".yaml"))] = alone
    return found


@cache
def compared(file: Path) -> Compared:
    """One configuration, row by row: what is asked, and how each of its assertions judges."""
    return asyncio.run(_compared(file, recorded()[file]))


def imported(file: Path) -> tuple[Configuration, Losses]:
    """A configuration as the import reads it."""
    return read_config(file.read_text(encoding="utf-8"), file.name, file.parent, RECORDED_WITH)


async def _compared(file: Path, rows: Sequence[Mapping[str, Any]]) -> Compared:
    found, losses = imported(file)
    dataset = Dataset.model_validate(found.data)
    units = [(item, turn) for item in dataset.items for turn in range(len(item.units))]
    result = Compared()
    answers: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        item, turn = units[row["test"] % len(units)]
        result.rows += 1
        unit = item.units[turn]
        response = row["asked"] if unit.response is None else unit.response
        before = answers.setdefault(id(item), [])
        same = any(_same_chat(chat, row["asked"]) for chat in _asked(found, dataset, item, turn, before))
        if not same and any(_ASKED.match(loss.what) for loss in losses.of("changed")):
            result.asked_otherwise += 1
        elif not same:
            result.different.append(f"row {row['test']} is asked otherwise than {row['asked']!r}")
        if len(item.units) > 1:
            before.append({"role": "assistant", "content": response})
        await _judged(row, _Unit(found, dataset, unit, response), losses, result)
    return result


def _asked(
    found: Configuration, dataset: Dataset, item: Item, turn: int, before: Sequence[Mapping[str, Any]]
) -> Iterator[Chat]:
    prompts = [PromptUnderTest(messages=one.messages) for one in found.prompts] if len(found.prompts) > 1 else []
    for prompt in prompts or [of_dataset(dataset)]:
        yield chat_for(dataset, item, turn, prompt, tuple(before))


def _same_chat(chat: Chat, asked: str) -> bool:
    there = chat_in(asked) or [{"role": "user", "content": asked}]
    return [dict(message) for message in chat] == [dict(message) for message in there]


@dataclass(frozen=True, slots=True)
class _Unit:
    """An answer and what judges it."""

    found: Configuration
    dataset: Dataset
    unit: Item | Turn
    response: str

    @property
    def evaluators(self) -> list[EffectiveEvaluator]:
        return list(resolve_evaluators(self.dataset, self.unit))

    async def score(self, one: EffectiveEvaluator) -> Score:
        variables = {**(self.dataset.variables or {}), **(getattr(self.unit, "variables", None) or {})}
        evidence = Evidence(response=self.response, latency_ms=1.0, cost=0.0, variables=variables)
        if not self.found.code:
            return await evaluate(load_registry().build(one.evaluator, one.settings), evidence)
        with TemporaryDirectory() as name:
            for file, text in self.found.code.items():
                place = Path(name, FOLDER, file)
                place.parent.mkdir(parents=True)
                place.write_text(text, encoding="utf-8")
            registry = load_registry(Path(name), Trust(always=True))
            return await evaluate(registry.build(one.evaluator, one.settings), evidence)


async def _judged(row: Mapping[str, Any], unit: _Unit, losses: Losses, result: Compared) -> None:
    waiting = unit.evaluators
    named = {loss.what for loss in losses.of("left out")}
    altered = {loss.what for loss in losses.of("changed")}
    same, verdicts = "threshold" not in altered, []
    for one in _in_order(row["asserts"], waiting, "assert-set" in named):
        kind = one["type"]
        result.asserted += 1
        if waiting and waiting[0].evaluator == LEFT_OUT:
            waiting.pop(0)
            result.left_out += 1
            same = False
            if kind not in named:
                result.different.append(f"row {row['test']}: {kind} is left out, and nobody is told")
            continue
        if not waiting or not _may_be(kind, waiting[0], unit.found):
            result.left_out += 1
            same = False
            if kind not in named:
                result.different.append(f"row {row['test']}: {kind} is left out, and nobody is told")
            continue
        evaluator = waiting.pop(0)
        score = await unit.score(evaluator)
        verdicts.append(score.result == "pass")
        if (score.result == "pass") == one["passed"] and score.result in ("pass", "fail"):
            result.equal += 1
        elif kind in altered:
            result.changed += 1
            same = False
        else:
            what = f"{kind} passed is {one['passed']} there, {score.result} here ({score.reason})"
            result.different.append(f"row {row['test']}: {what} of {dict(evaluator.settings)}")
    share = getattr(unit.unit, "threshold", None) or 1
    if same and not row.get("error") and (sum(verdicts) >= share * len(verdicts) - 1e-9) != row["passed"]:
        result.different.append(f"row {row['test']}: passed is {row['passed']} there, {verdicts} of {share} here")
    if waiting:
        result.different.append(f"row {row['test']}: {[one.key for one in waiting]} judge what nothing judges there")


def _in_order(
    asserts: Sequence[Mapping[str, Any]], waiting: Sequence[EffectiveEvaluator], without: bool
) -> Iterator[Mapping[str, Any]]:
    """The assertions as they stand here: a set whole where one evaluator holds it or it is left out, else its parts."""
    for one in asserts:
        if one["type"] == "assert-set" and not without and not (waiting and waiting[0].evaluator == GROUP):
            yield from _in_order(one["asserts"], waiting, without)
        else:
            yield one


def _may_be(kind: str, one: EffectiveEvaluator, found: Configuration) -> bool:
    bare, name = kind.removeprefix("not-"), one.evaluator
    if name == GROUP:
        return kind == "assert-set" or one.settings.get("threshold") == 0
    ending = next((Path(file).suffix for file in found.code if Path(file).stem == name), "")
    if ending:
        return bare == {".py": "python", ".js": "javascript"}[ending]
    return inner_name(name, one.settings) in _MADE.get(bare, ())
