"""Agents driven by a run: the tools they may call, and one turn from the first question to the last call."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from tui_evals.datasets.discover import dataset_texts
from tui_evals.datasets.model import Dataset, Item, ToolResult, Turn
from tui_evals.datasets.resolve import allowed_tools
from tui_evals.datasets.validate import problem_of
from tui_evals.evaluators.tools import contains_json
from tui_evals.project_files import read_text
from tui_evals.runs.asking import REPLY, PricedTarget, cache_key
from tui_evals.runs.executors.base import Ledger
from tui_evals.runs.prompting import messages_of_step
from tui_evals.store.records import AnswerRecord
from tui_evals.targets.base import ConfigurationError, Request, TargetConfig, TargetError, ToolSettings
from tui_evals.targets.permissions import Permission, tool_permissions
from tui_evals.targets.tools import ToolOutcome, ToolSource, check_sources, defined_name, open_sources
from tui_evals.text import strictjson
from tui_evals.text.patterns import PatternTimeout, compile_pattern

DATASET = "the dataset"
"""Where the tools of a dataset come from, for whoever is asked about them."""
MAX_STEPS = 10
"""How often a model is asked in a turn, where nobody says otherwise."""

Definition = Mapping[str, Any]


class ScriptedFile(BaseModel):
    """A file of tools with what they give, in the words of a dataset."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    tools: list[dict[str, Any]] | None = None
    tool_results: list[ToolResult]


class Toolbox:
    """The tools that all answers of a target may use; what gives them is started when it is wanted."""

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
        """Every definition, and who answers calls of which name; a name that comes twice belongs to the first."""
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
    """What a scripted result gives, once its delay is over."""
    if result.delay:
        await asyncio.sleep(result.delay)
    return ToolOutcome(_text(result.result)) if result.error is None else ToolOutcome(result.error, failed=True)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class TurnTools:
    """What holds for the tools of one turn."""

    results: tuple[ToolResult, ...]
    approved: frozenset[str]
    max_steps: int


def tools_of_turn(dataset: Dataset, item: Item, unit: Item | Turn, toolbox: Toolbox | None) -> TurnTools | None:
    """The tools that the engine calls in a turn; None where it calls none, and what the model asks for is its answer.

    Where somebody says which tools are approved, these are. Elsewhere those are that are scripted, which do nothing.
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
    """Where the dataset itself has tools from."""
    servers = dataset.mcp or ()
    return ToolSettings(
        functions=dataset.tool_functions, mcp=(servers,) if isinstance(servers, str) else tuple(servers)
    )


def dataset_permissions(root: Path, environment: Mapping[str, str]) -> Iterator[Permission]:
    """What the tools of the datasets in a project would do that needs a yes; nothing of them is run to find out."""
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
    """ConfigurationError says what keeps the tools of a run from being used; nothing is started, imported or asked."""
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
"""Characters of a tool's result that a model is told."""

AskModel = Callable[[Request], Awaitable[AnswerRecord]]
"""The reply of the model to one request, or TargetError."""


@dataclass(frozen=True, slots=True)
class _Offer:
    """The tools of a turn as the model is told of them, and who answers their calls."""

    definitions: tuple[Definition, ...]
    owners: Mapping[str, ToolSource]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(map(defined_name, self.definitions))


class _Refused(Exception):
    """The model asked for a tool that is not approved."""


class ToolLoop:
    """The steps of one turn; `answer` names the answer they lead to as no other in the run is called."""

    def __init__(
        self, priced: PricedTarget, tools: TurnTools, ask: AskModel, ledger: Ledger, answer: str, *, caches: bool
    ) -> None:
        self._priced = priced
        self._tools = tools
        self._script = Script(tools.results)
        self._ask = ask
        self._ledger = ledger
        self._answer = answer
        self._caches = caches
        self._steps: list[dict[str, Any]] = []
        self._replies: list[AnswerRecord] = []

    async def answer(self, request: Request) -> tuple[AnswerRecord, Request]:
        """The answer with all its steps, and the request it began with; Unavailable where nothing can be asked."""
        offer = await self._offer(request)
        request = replace(request, tools=offer.definitions)
        try:
            return await self._converse(request, offer), request
        except _Refused as refusal:
            return self._failed("toolCallNotAllowed", str(refusal)), request
        except TargetError as problem:
            return self._failed(problem.code, f"Agent request failed: {problem}", problem.traceback), request

    async def _offer(self, request: Request) -> _Offer:
        written = {defined_name(tool) for tool in request.tools}
        try:
            given, owners = await self._priced.tools.offered() if self._priced.tools is not None else ([], {})
        except ConfigurationError as problem:
            raise self._priced.availability.refuse(str(problem)) from None
        except TargetError as problem:  # they were there, and no question is to blame that they are not
            name = self._priced.config.name
            raise self._priced.availability.close(f"{name}: its tools are away: {problem}", "away") from None
        more = (definition for definition in given if defined_name(definition) not in written)
        return _Offer((*request.tools, *more), owners)

    async def _converse(self, request: Request, offer: _Offer) -> AnswerRecord:
        for number in range(1, self._tools.max_steps + 1):
            if number > 1:
                await self._priced.availability.demand_more()
            reply = await self._reply(number, request)
            step = _step(reply, number)
            self._replies.append(reply)
            self._steps.append(step)
            if not step["calls"]:
                return self._record(reply)
            self._demand_approval(step["calls"], offer)
            if number == self._tools.max_steps:
                break
            for place, call in enumerate(step["calls"], 1):
                await self._make(call, f"{number}.{place}", offer)
            session = request.session if reply.session is None or reply.from_cache else reply.session
            request = replace(request, messages=(*request.messages, *messages_of_step(step)), session=session)
        return self._record(replace(reply, finish_reason="max_steps"))

    async def _reply(self, number: int, request: Request) -> AnswerRecord:
        """The model's reply to a step: as the run or the cache has it, else one that is asked for and kept."""
        key = cache_key(self._priced.identity, request)
        own = f"{REPLY}step {self._answer} {number} {key}"
        if (kept := await self._ledger.cached(own)) is not None:
            return kept
        if self._caches and (cached := await self._ledger.cached(key)) is not None:
            return replace(cached, from_cache=True, attempts=0)
        reply = await self._ask(request)
        name = self._priced.config.name
        await asyncio.gather(
            self._ledger.keep(own, name, reply), *([self._ledger.keep(key, name, reply)] if self._caches else [])
        )
        return reply

    def _demand_approval(self, calls: Sequence[Mapping[str, Any]], offer: _Offer) -> None:
        """_Refused where a tool that is there is not approved; one that is not there harms nobody."""
        known = offer.names | offer.owners.keys() | self._script.names
        asked = (call["name"] for call in calls if call["name"] in known)
        refused = [name for name in dict.fromkeys(asked) if name not in self._tools.approved]
        if refused:
            approved = ", ".join(sorted(self._tools.approved))
            verb = "is" if len(refused) == 1 else "are"
            raise _Refused(
                f"the model asked for {', '.join(refused)}, which {verb} not approved"
                f"{f' ({approved} would be)' if approved else ''}, so no call of this step was made. Approve a tool in "
                "allowed_tools of the item, default_allowed_tools of the dataset, or `approved` of the target's tools"
            )

    async def _make(self, call: dict[str, Any], place: str, offer: _Offer) -> None:
        """Make a call, and write into it what came of it."""
        began = time.monotonic()
        outcome, source = await self._outcome(call, place, offer)
        call["result"], call["by"] = _cut(outcome.text), source
        call["ms"] = round(1000 * (time.monotonic() - began), 1)
        if outcome.failed:
            call["failed"] = True
        if outcome.traceback:
            call["traceback"] = outcome.traceback

    async def _outcome(self, call: Mapping[str, Any], place: str, offer: _Offer) -> tuple[ToolOutcome, str]:
        """What came of a call, and who gave it."""
        name = call["name"]
        arguments = _arguments(call["arguments"])
        if arguments is None:
            return ToolOutcome("the arguments are not a JSON object", failed=True), ""
        scripted = self._script.take(name, arguments)
        if scripted is None and name in self._script.names:  # nobody calls the tool that is stood in for
            return ToolOutcome(f"no result is written for this call of {name}", failed=True), ""
        owner = offer.owners.get(name)
        if scripted is None and owner is None:
            return ToolOutcome(f"there is no tool {name} to call", failed=True), ""
        source = "scripted" if scripted is not None or owner is None else owner.name
        limit = self._priced.config.timeout
        try:
            async with asyncio.timeout(limit):
                if scripted is not None:
                    return await scripted_outcome(scripted), source
                assert owner is not None
                return await self._called(owner, name, arguments, place), source
        except TimeoutError:
            return ToolOutcome(f"{name} gave nothing within {limit:g} s", failed=True), source

    async def _called(self, owner: ToolSource, name: str, arguments: Mapping[str, Any], place: str) -> ToolOutcome:
        """What a tool gives that may do something, and so is called once: what came of it is kept with the run."""
        question = json.dumps([name, arguments], sort_keys=True)
        key = f"{REPLY}tool {self._answer} {place} {hashlib.sha256(question.encode()).hexdigest()}"
        if (kept := await self._ledger.cached(key)) is not None:
            return ToolOutcome(kept.text or "", kept.code is not None, kept.traceback)
        outcome = await owner.call(name, arguments)
        code = "failed" if outcome.failed else None
        record = AnswerRecord(text=outcome.text, request={}, code=code, traceback=outcome.traceback)
        await self._ledger.keep(key, self._priced.config.name, record)
        return outcome

    def _record(self, reply: AnswerRecord) -> AnswerRecord:
        """The last reply as the answer, with what all steps took together."""
        record = together(reply, self._replies, self._steps)
        in_tools = sum(call.get("ms", 0.0) for step in self._steps for call in step["calls"])
        return replace(record, latency_ms=(record.latency_ms or 0.0) + in_tools)

    def _failed(self, code: str, message: str, traceback: str | None = None) -> AnswerRecord:
        """An error after some steps, which keeps what was said, called and paid until then."""
        failure: dict[str, Any] = {"text": None, "code": code, "message": message, "traceback": traceback}
        if not self._replies:
            return AnswerRecord(request={}, **failure)
        return replace(self._record(self._replies[-1]), finish_reason=None, from_cache=False, **failure)


def together(last: AnswerRecord, replies: Sequence[AnswerRecord], steps: Sequence[Mapping[str, Any]]) -> AnswerRecord:
    """The last of several replies as an answer, with what all of them took and the steps on the way to it."""
    cached = all(one.from_cache for one in replies)
    paid = [one.cost for one in replies if cached or not one.from_cache]
    return replace(
        last,
        tool_calls=tuple(_call(call) for step in steps for call in step["calls"]),
        input_tokens=_sum(one.input_tokens for one in replies),
        output_tokens=_sum(one.output_tokens for one in replies),
        cached_tokens=sum(one.cached_tokens for one in replies),
        reasoning_tokens=sum(one.reasoning_tokens for one in replies),
        cost=None if None in paid else sum(cost for cost in paid if cost is not None),
        latency_ms=sum(one.latency_ms for one in replies if one.latency_ms is not None),
        attempts=0 if cached else 1 + sum(one.attempts - 1 for one in replies if not one.from_cache),
        from_cache=cached,
        scripted=any(one.scripted for one in replies),
        steps=tuple(steps),
    )


def _step(reply: AnswerRecord, number: int) -> dict[str, Any]:
    """A step as it is stored: what the model said and asked for, and what that took."""
    took = {name: getattr(reply, name) for name in ("input_tokens", "output_tokens", "cost", "latency_ms")}
    took |= {name: getattr(reply, name) or None for name in ("cached_tokens", "reasoning_tokens")}
    calls = [
        {**_call(call), "id": call.get("id") or f"call_{number}_{n}"} for n, call in enumerate(reply.tool_calls, 1)
    ]
    facts = {name: value for name, value in took.items() if value is not None}
    return {"text": reply.text, "calls": calls, **facts, **({"from_cache": True} if reply.from_cache else {})}


def _cut(text: str) -> str:
    """A result as the model is told of it; what no model reads is left out, and said to be."""
    more = len(text) - MAX_RESULT
    return text if more <= 0 else f"{text[:MAX_RESULT]}\n… and {more:,} more characters"


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": call.get("id"), "name": call.get("name"), "arguments": call.get("arguments")}


def _arguments(written: object) -> dict[str, Any] | None:
    """The arguments of a call; None where they are no JSON object."""
    try:
        value = strictjson.loads(written) if isinstance(written, str) and written.strip() else written or {}
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _sum(counts: Any) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
