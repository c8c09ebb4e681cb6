"""What travels between driver and workers, as plain data: the order of a run, its cells, and the records made."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tui_evals.datasets.model import Dataset, Item
from tui_evals.datasets.validate import Rubric
from tui_evals.runs.executors.base import Cell
from tui_evals.runs.plan import Plan
from tui_evals.runs.prompting import kept_prompt, prompt_kept
from tui_evals.store.records import CallRecord, ScoreRecord
from tui_evals.store.rows import CALL_COLUMNS, answer_record, body_of, plain, score_record, score_values
from tui_evals.targets.base import HttpService, Price, TargetConfig
from tui_evals.targets.config import tool_settings
from tui_evals.version import __version__

OP = "tui_evals_letter"
"""The name under which a worker listens for messages."""

Message = dict[str, Any]


def versions() -> dict[str, str]:
    """The versions that must be the same on both sides."""
    return {"tui_evals": __version__, "Python": f"{sys.version_info.major}.{sys.version_info.minor}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Everything a worker must know of a run but its items."""

    versions: Mapping[str, str]
    header: Mapping[str, Any]
    targets: tuple[TargetConfig, ...]
    judges: tuple[tuple[str | None, TargetConfig], ...]
    prompts: tuple[Mapping[str, Any], ...]
    without_judges: bool
    rubric: Rubric
    use_cache: bool
    budget: float | None
    root: str
    code: Mapping[str, Any]
    environment: Mapping[str, str]
    """Variables that the user asked to hand on; only TLS carries them."""
    files: str | None = None
    """The folder of the dataset, whose files go along with questions; workers read them there."""


def dump_order(order: Order) -> str:
    """An order as text."""
    return json.dumps(asdict(order))


def load_order(text: str) -> Order:
    """The order of a text."""
    data = json.loads(text)
    data["targets"] = tuple(map(_load_config, data["targets"]))
    data["judges"] = tuple((name, _load_config(config)) for name, config in data["judges"])
    data["prompts"] = tuple(data["prompts"])
    return Order(**data)


def _load_config(data: dict[str, Any]) -> TargetConfig:
    """A configuration as the driver sent it: what its project asks for was agreed to there."""
    price, tools, http = data.pop("price"), data.pop("tools"), data.pop("http")
    return TargetConfig(
        **{**data, "where": ""},
        price=None if price is None else Price(**price),
        tools=None if tools is None else tool_settings(tools),
        http=None if http is None else HttpService(**http),
    )


def dataset_header(dataset: Dataset) -> dict[str, Any]:
    """A dataset without its items."""
    return dataset.model_dump(exclude={"items"}, exclude_unset=True)


def dump_prompts(plan: Plan) -> tuple[Mapping[str, Any], ...]:
    """The prompts under test that a plan names."""
    return tuple({"name": prompt.name, **kept_prompt(prompt)} for prompt in plan.prompts)


def worker_plan(order: Order, registry: Any) -> Plan:
    """The plan of a worker: the run without its items, which come with the cells."""
    header = Dataset.model_validate({**order.header, "items": [{"prompt": "-"}]}).model_copy(update={"items": []})
    judge = dict(order.judges).get(None)
    prompts = tuple(map(prompt_kept, order.prompts))
    return Plan(header, order.targets, registry, judge, order.without_judges, prompts, rubric=order.rubric)


def dump_cells(cells: Sequence[Cell]) -> str:
    """Cells as text; an item that several of them ask is written once."""
    numbers: dict[int, int] = {}
    for cell in cells:
        numbers.setdefault(id(cell.item), len(numbers))
    items = {numbers[id(cell.item)]: cell.item.model_dump(exclude_unset=True) for cell in cells}
    rows = [
        [
            *(numbers[id(cell.item)], cell.name, cell.position, cell.prompt, cell.target, cell.repeat, cell.answers),
            [[turn, body_of(record)] for turn, record in cell.known.items()],
            sorted(cell.final),
            [[turn, dump_scores(records)] for turn, records in cell.scores.items()],
        ]
        for cell in cells
    ]
    return json.dumps([list(items.items()), rows])


def load_cells(text: str) -> list[Cell]:
    """The cells of a text."""
    written, rows = json.loads(text)
    items = {number: Item.model_validate(item) for number, item in written}
    return [
        Cell(
            *(items[number], name, position, prompt, target, repeat, tuple(answers)),
            {turn: answer_record(*body) for turn, body in answered},
            frozenset(final),
            {turn: tuple(load_scores(records)) for turn, records in scores},
        )
        for number, name, position, prompt, target, repeat, answers, answered, final, scores in rows
    ]


def dump_call(record: CallRecord) -> list[Any]:
    """A call as its columns."""
    values = [getattr(record, name) for name in CALL_COLUMNS]
    return [plain(value) if isinstance(value, str) else value for value in values]


def load_call(row: Sequence[Any]) -> CallRecord:
    """A call from its columns."""
    return CallRecord(**dict(zip(CALL_COLUMNS, row, strict=True)))


def dump_scores(records: Sequence[ScoreRecord]) -> list[tuple[Any, ...]]:
    """Scores as their columns."""
    return [score_values(record) for record in records]


def load_scores(rows: Sequence[Sequence[Any]]) -> list[ScoreRecord]:
    """Scores from their columns."""
    return [score_record(tuple(row)) for row in rows]


class Hidden:
    """A text kept out of logs, because it holds the variables that were handed on."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        """Never the text."""
        return "(hidden)"


def hide_order(message: Message) -> Message:
    """A message of the driver with its order kept out of logs."""
    from distributed.protocol import to_serialize

    return {**message, "order": to_serialize(Hidden(message["order"]))} if "order" in message else message


def reveal_order(message: Message) -> Message:
    """The message as it was before `hide_order`."""
    return {**message, "order": message["order"].text} if "order" in message else message
