"""The tools an agent may call in a run: those of its dataset, its target and scripted files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from tui_evals.datasets.discover import dataset_texts
from tui_evals.datasets.model import Dataset, Item, ToolResult, Turn
from tui_evals.datasets.resolve import allowed_tools
from tui_evals.datasets.validate import problem_of
from tui_evals.evaluators.tools import contains_json
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_text
from tui_evals.store.records import AnswerRecord
from tui_evals.targets.base import ConfigurationError, Request, TargetConfig, ToolSettings
from tui_evals.targets.permissions import Permission, tool_permissions
from tui_evals.targets.tools import ToolOutcome, ToolSource, check_sources, defined_name, open_sources
from tui_evals.text import strictjson
from tui_evals.text.patterns import PatternTimeout, compile_pattern

DATASET = "the dataset"
"""The source of a dataset's tools, for the question about them."""
MAX_STEPS = 10
"""How often a model is asked in a turn, by default."""

Definition = Mapping[str, Any]


class ScriptedFile(BaseModel):
    """A file of tools with scripted results, in the form of a dataset."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    tools: list[dict[str, Any]] | None = None
    tool_results: list[ToolResult]


class Toolbox:
    """The tools that all answers of a target may use; their sources are started on first use."""

    def __init__(
        self, sources: Sequence[ToolSource], settings: ToolSettings, scripted: ScriptedFile | None, timeout: float
    ) -> None:
        self.settings = settings
        self.results: tuple[ToolResult, ...] = tuple(scripted.tool_results) if scripted else ()
        self.timeout = timeout
        """Seconds a call may take."""
        self._sources = sources
        self._written: tuple[Definition, ...] = tuple((scripted.tools if scripted else None) or ())

    @property
    def has_sources(self) -> bool:
        """Whether there are tools that do something."""
        return bool(self._sources)

    async def offered(self) -> tuple[list[Definition], dict[str, ToolSource]]:
        """All definitions, and the source of each tool by name; the first source of a name wins."""
        definitions, owners = list(self._written), dict[str, ToolSource]()
        for source in self._sources:
            for definition in await source.definitions():
                if owners.setdefault(defined_name(definition), source) is source:
                    definitions.append(definition)
        return definitions, owners

    async def close(self) -> None:
        """End the programs and sessions that give tools."""
        await asyncio.gather(*(source.close() for source in self._sources))


class Script:
    """The scripted results of one turn, and how often each was given."""

    def __init__(self, results: Sequence[ToolResult]) -> None:
        self._results = results
        self._given = [0] * len(results)

    @property
    def names(self) -> frozenset[str]:
        """The tools for which there are any."""
        return frozenset(result.tool for result in self._results)

    def take(self, name: str, arguments: Mapping[str, Any]) -> ToolResult | None:
        """The first result that fits a call and is not used up."""
        for place, result in enumerate(self._results):
            if (result.times is None or self._given[place] < result.times) and _fits(result, name, arguments):
                self._given[place] += 1
                return result
        return None


def _fits(result: ToolResult, name: str, arguments: Mapping[str, Any]) -> bool:
    if result.tool != name or not contains_json(result.arguments or {}, arguments):
        return False
    try:
        return all(
            key in arguments and compile_pattern(pattern).search(_text(arguments[key]))
            for key, pattern in (result.patterns or {}).items()
        )
    except PatternTimeout:
        return False


async def scripted_outcome(result: ToolResult) -> ToolOutcome:
    """The outcome of a scripted result, after its delay."""
    if result.delay:
        await asyncio.sleep(result.delay)
    return ToolOutcome(_text(result.result)) if result.error is None else ToolOutcome(result.error, failed=True)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class TurnTools:
    """The rules for the tools of one turn."""

    results: tuple[ToolResult, ...]
    approved: frozenset[str]
    max_steps: int


def tools_of_turn(dataset: Dataset, item: Item, unit: Item | Turn, toolbox: Toolbox | None) -> TurnTools | None:
    """The tools that the engine calls in a turn; None if it calls none, and the model's calls are its answer.

    If approved tools are named, only those are approved; otherwise only scripted ones, which have no effects.
    """
    results = (*(item.tool_results or ()), *(dataset.tool_results or ()), *(toolbox.results if toolbox else ()))
    if not results and not (toolbox is not None and toolbox.has_sources):
        return None
    settings = toolbox.settings if toolbox is not None else ToolSettings()
    said = (dataset.default_allowed_tools, unit.allowed_tools, settings.approved)
    approved: Iterable[str] = (result.tool for result in results)
    if any(each is not None for each in said):
        approved = allowed_tools(dataset, unit, settings.approved or ())
    return TurnTools(results, frozenset(approved), _max_steps(dataset, item, settings))


def _max_steps(dataset: Dataset, item: Item, settings: ToolSettings) -> int:
    return item.max_steps or dataset.max_steps or settings.max_steps or MAX_STEPS


def most_steps(dataset: Dataset, item: Item, config: TargetConfig) -> int:
    """How often a target may be asked in a turn of an item."""
    return _max_steps(dataset, item, config.tools or ToolSettings()) if has_tools(dataset, item, config) else 1


def has_tools(dataset: Dataset, item: Item, config: TargetConfig) -> bool:
    """Whether the engine calls tools for an item when it is put to a target."""
    if item.tool_results or dataset.tool_results or dataset.tool_functions or dataset.mcp:
        return True
    return config.tools is not None and _gives(config.tools)


def _gives(settings: ToolSettings) -> bool:
    return bool(settings.functions or settings.mcp or settings.scripted)


def dataset_settings(dataset: Dataset) -> ToolSettings:
    """The tool settings of the dataset itself."""
    servers = dataset.mcp or ()
    return ToolSettings(
        functions=dataset.tool_functions, mcp=(servers,) if isinstance(servers, str) else tuple(servers)
    )


def dataset_permissions(root: Path, environment: Mapping[str, str]) -> Iterator[Permission]:
    """The permissions that the tools of a project's datasets need; nothing of them is run to find out."""
    for file, text in dataset_texts(root):
        if '"mcp"' not in text and '"tool_functions"' not in text:
            continue
        with suppress(ValueError, RecursionError):  # said where it is opened
            data = strictjson.loads(text)
            if isinstance(data, dict):
                given = {name: data[name] for name in ("mcp", "tool_functions") if name in data}
                settings = dataset_settings(Dataset.model_validate({**given, "items": [{"prompt": "-"}]}))
                yield from tool_permissions(settings, str(file.relative_to(root)), root, environment)


def open_toolbox(
    dataset: Dataset | None, config: TargetConfig, environment: Mapping[str, str], root: Path
) -> Toolbox | None:
    """The tools of a target, its own before the dataset's; None where neither says anything of tools."""
    own, common = config.tools or ToolSettings(), dataset_settings(dataset) if dataset else ToolSettings()
    if config.tools is None and not _gives(common):
        return None
    sources = [
        source
        for each, where in ((own, config.where), (common, DATASET))
        for source in open_sources(each, where, environment, root, config.timeout)
    ]
    scripted = None if own.scripted is None else _read_scripted(own.scripted, root)
    return Toolbox(sources, own, scripted, config.timeout)


def check_tools(
    dataset: Dataset | None, configs: Iterable[TargetConfig], environment: Mapping[str, str], root: Path
) -> None:
    """Raise ConfigurationError if a run's tools cannot be used; nothing is started, imported or asked."""
    if dataset is not None:
        check_sources(dataset_settings(dataset), environment, root)
    for config in configs:
        if config.tools is not None:
            check_sources(config.tools, environment, root)
            if config.tools.scripted is not None:
                _read_scripted(config.tools.scripted, root)


def _read_scripted(name: str, root: Path) -> ScriptedFile:
    file = root / name
    try:
        return ScriptedFile.model_validate(strictjson.loads(read_text(file, root=root)))
    except (OSError, UnicodeDecodeError, strictjson.JsonError) as problem:
        raise ConfigurationError(f"the scripted tools in {name} cannot be read: {problem}") from None
    except ValidationError as problem:
        first = problem_of(problem.errors(include_url=False)[0], ScriptedFile)
        raise ConfigurationError(f"the scripted tools in {name} cannot be used: {first}") from None


MAX_RESULT = 1_000_000
"""The most characters of a tool's result that a model sees."""

AskModel = Callable[[Request], Awaitable[AnswerRecord]]
"""The reply of the model to one request, or TargetError."""
