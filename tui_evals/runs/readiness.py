"""Problems that prevent a planned run from beginning, found before it is stored: no key, server, program or price."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from inspect import get_annotations
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo

from tui_evals.datasets.attachments import attachment_problems
from tui_evals.datasets.document import Document
from tui_evals.datasets.paths import Path, Problem
from tui_evals.datasets.validate import ValidationReport, with_lines
from tui_evals.evaluators.base import Evaluator
from tui_evals.evaluators.custom import CustomEvaluator
from tui_evals.evaluators.judging import CUT_OFF
from tui_evals.evaluators.registry import Registry
from tui_evals.light_records import dataclass
from tui_evals.runs.cache_lookup import conversations
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.judges import demand_price, items_of, judge_configs, targets_behind
from tui_evals.runs.plan import Plan
from tui_evals.runs.project import Project
from tui_evals.runs.prompting import unfilled_items
from tui_evals.runs.tools import check_tools
from tui_evals.store.reader import Reader
from tui_evals.targets.answers import settled_reply
from tui_evals.targets.base import (
    ConfigurationError,
    Reply,
    Request,
    Target,
    TargetConfig,
    TargetContext,
    TargetError,
    attempt_clock,
)
from tui_evals.targets.http_calls import connection_problem, unreachable
from tui_evals.targets.model_table import judging_params, short_question
from tui_evals.targets.opening import target_kind
from tui_evals.targets.providers import protocol_of

OptionKind = Literal["text", "choice", "several", "yes", "whole", "number", "list", "map", "json"]
_KINDS: Mapping[object, OptionKind] = {bool: "yes", int: "whole", float: "number", str: "text"}


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its name, all its spellings in a file, and its description."""

    name: str
    spellings: tuple[str, ...]
    field: FieldInfo


def options_of(kind: type[Evaluator]) -> tuple[Option, ...]:
    """The options of an evaluator that a dataset may give: those it needs, its own, those it shares with others."""
    return model_options(kind.Options)


def model_options(model: type[BaseModel]) -> tuple[Option, ...]:
    """The fields of a model as options."""
    named = model.model_fields.items()
    by_name = bool(model.model_config.get("populate_by_name") or model.model_config.get("validate_by_name"))
    return tuple(_option(*one, by_name) for one in sorted(named, key=lambda one: _rank(model, *one)))


def _rank(model: type[BaseModel], name: str, field: FieldInfo) -> int:
    """The place of an option in the form: the further up it is inherited from, the later it comes."""
    if field.is_required():
        return -1
    return next(number for number, base in enumerate(model.__mro__) if name in get_annotations(base))


def _option(name: str, field: FieldInfo, by_name: bool) -> Option:
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        spellings = [choice for choice in alias.choices if isinstance(choice, str)]
    else:
        spellings = [*([name] if by_name else []), alias] if isinstance(alias, str) else [name]
    return Option(spellings[0], tuple(dict.fromkeys((*spellings, name))), field)


def option_kind(annotation: object) -> tuple[OptionKind, tuple[str, ...]]:
    """How an option is typed, and what there is to choose from."""
    plain_type = without_none(annotation)
    if choices := _words_of(plain_type):
        return "choice", choices
    if get_origin(plain_type) is list:
        (part,) = map(without_none, get_args(plain_type))
        choices = _words_of(part)
        return ("several" if choices else "list" if part is str else "json"), choices
    if get_origin(plain_type) in (dict, Mapping):
        return ("map" if without_none(get_args(plain_type)[1]) in (str, float, Any) else "json"), ()
    return _KINDS.get(plain_type, "json"), ()


def _words_of(plain_type: object) -> tuple[str, ...]:
    """The choices of a type that is a list of words."""
    choices = get_args(plain_type) if get_origin(plain_type) is Literal else ()
    return choices if all(isinstance(choice, str) for choice in choices) else ()


def without_none(annotation: object) -> object:
    """The type of a value that is given."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return without_none(get_args(annotation)[0])
    if origin in (Union, UnionType):
        rest = [branch for branch in get_args(annotation) if branch is not NoneType]
        return without_none(rest[0]) if len(rest) == 1 else annotation
    return annotation


@dataclass(frozen=True, slots=True)
class Obstacle:
    """An evaluator that can judge nothing here, why, how to fix it, and how many answers it was to judge."""

    key: str
    reason: str
    answers: int

    @property
    def sentence(self) -> str:
        """Why an evaluator cannot judge, in words."""
        count = f"{self.answers:,} {'answer' if self.answers == 1 else 'answers'}"
        return f"{self.key} cannot judge any of {count}: {self.reason}"


class Unjudgeable(CannotPlan):
    """Some evaluators of a run can judge nothing here."""

    def __init__(self, obstacles: tuple[Obstacle, ...]) -> None:
        self.obstacles = obstacles
        self.reason = ". ".join(obstacle.sentence for obstacle in obstacles)
        way_out = "Fix that, choose other evaluators, or pass --allow-unjudged to run without their verdicts"
        super().__init__(f"{self.reason}. {way_out}", "arguments")


def obstacles_of(plan: Plan) -> tuple[Obstacle, ...]:
    """Every evaluator of a plan that cannot judge; those left out together with the judges do not count."""
    counts: dict[tuple[str, str], int] = {}
    reasons: dict[tuple[str, str], str | None] = {}
    for entries, answers in plan.evaluator_sets:
        for entry in entries:
            mark = entry.key, json.dumps([entry.evaluator, entry.settings], sort_keys=True, default=str)
            if mark not in counts:
                kind = plan.registry.find(entry.evaluator)
                left_out = plan.without_judges and kind.judged
                made = None if left_out else kind(kind.Options.model_validate(entry.settings))
                reasons[mark] = made.obstacle() if made is not None else None
            counts[mark] = counts.get(mark, 0) + answers
    by_key: dict[tuple[str, str], int] = {}
    for mark, reason in reasons.items():
        if reason is not None:
            by_key[mark[0], reason] = by_key.get((mark[0], reason), 0) + counts[mark]
    return tuple(Obstacle(key, reason, count) for (key, reason), count in by_key.items())


def check_judgeable(plan: Plan) -> None:
    """Unjudgeable where an evaluator of the plan can judge nothing here."""
    if obstacles := obstacles_of(plan):
        raise Unjudgeable(obstacles)


def with_run_problems(report: ValidationReport, document: Document, registry: Registry) -> ValidationReport:
    """A report with other problems that would stop a run: prompts, attachments and the project's code."""
    if report.dataset is None:
        return report
    report = report.with_problems([*unfilled_items(document, report.dataset), *attachment_problems(document)])
    return report.with_problems(own_code_problems(document, registry))


def own_code_problems(document: Document, registry: Registry) -> list[Problem]:
    """The evaluators of the project that a dataset names and that cannot be called, each at its first place."""
    found: dict[str, Problem] = {}
    if not registry.own:
        return []
    for path, name in _named(document.data):
        if name in registry.own and name not in found:
            kind = registry.by_name[name]
            problem = kind.code_problem() if issubclass(kind, CustomEvaluator) else None
            if problem is not None:
                found[name] = Problem(problem, path)
    return with_lines(found.values(), document)


def _named(data: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """The evaluators that a valid dataset names, with their places."""
    yield from _of(data.get("default_evaluators"), ("default_evaluators",))
    for number, item in enumerate(data["items"]):
        yield from _of(item.get("evaluators"), ("items", number, "evaluators"))
        for turn_number, turn in enumerate(item.get("turns") or ()):
            yield from _of(turn.get("evaluators"), ("items", number, "turns", turn_number, "evaluators"))


def _of(evaluators: Mapping[str, Any] | None, path: Path) -> Iterator[tuple[Path, str]]:
    for key, options in (evaluators or {}).items():
        yield (*path, key), options.get("type", key)


Problems = Mapping[str, ConfigurationError]


def check_can_begin(
    plan: Plan,
    project: Project,
    *,
    ready: Mapping[str, Target],
    max_cost: float | None,
    use_cache: bool,
    elsewhere: bool = False,
    apart: bool = False,
) -> dict[str, Target]:
    """Open the targets that must be open to know that they answer, and return them; raises ConfigurationError.

    With `apart`, another process executes the run: no target stays open, and no module of the user is imported.
    `elsewhere`, on a cluster, checks only what this machine decides. Cached answers need no server.
    """
    judges = judge_configs(plan, project.settings)
    behind = targets_behind(plan, project.settings).values()
    for config in (*plan.targets, *behind, *judges.values()):
        demand_price(config, max_cost)
    if elsewhere:
        return {}
    check_tools(plan.dataset, plan.targets, project.environment, project.root)
    answering = {config.name: config for config in (*plan.targets, *behind) if config.name not in ready}
    needed = [config for key, config in judges.items() if key in plan.judges_needed]
    judging = {config.name: config for config in needed if config.name not in ready}
    check = _Check(project, apart)
    problems = check.problems({**judging, **answering})
    if problems and use_cache:
        problems = _without_cached(problems, plan, project, judging.keys(), max_cost)
    staying = set() if apart or problems else check.opened.keys() - judging.keys()
    handed_over = {name: check.opened[name] for name in staying}
    _close([target for name, target in check.opened.items() if name not in handed_over])
    if problems:
        raise ConfigurationError("\n".join(dict.fromkeys(map(str, problems.values()))))
    return handed_over


class _Check:
    """The check of some targets, and those of them that it opened."""

    def __init__(self, project: Project, apart: bool) -> None:
        self._context = TargetContext(
            environment=project.environment, root=project.root, load_items=items_of, apart=apart
        )
        self.opened: dict[str, Target] = {}

    def problems(self, configs: Mapping[str, TargetConfig]) -> Problems:
        """Why targets would not answer, by name; every address is tried once, all at the same time."""
        problems: dict[str, ConfigurationError] = {}
        addresses: dict[str, str] = {}
        for name, config in configs.items():
            try:
                if address := self._address(name, config):
                    addresses[name] = address
            except ConfigurationError as problem:
                problems[name] = problem
        reasons = _each(connection_problem, sorted(set(addresses.values())))
        for name, address in addresses.items():
            if (reason := reasons[address]) is not None:
                problems[name] = unreachable(configs[name], address, reason)
        return problems

    def _address(self, name: str, config: TargetConfig) -> str | None:
        kind = target_kind(config)
        if kind.check is not None:
            return kind.check(config, self._context)
        self.opened[name] = kind.open(config, self._context)
        return None


def _each(step: Callable[[str], str | None], values: Sequence[str]) -> Mapping[str, str | None]:
    """The result of a step for each value; several values run in threads."""
    if len(values) < 2:
        return {value: step(value) for value in values}
    with ThreadPoolExecutor(len(values)) as pool:
        return dict(zip(values, pool.map(step, values), strict=True))


def _close(targets: Sequence[Target]) -> None:
    """Close targets that were not asked, on a loop of their own, because another loop may be running here."""

    async def close_all() -> None:
        await asyncio.gather(*(target.close() for target in targets))

    if targets:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(asyncio.run, close_all()).result()


def _without_cached(
    problems: Problems, plan: Plan, project: Project, judging: Set[str], max_cost: float | None
) -> Problems:
    """The problems of targets that will be asked, because the cache does not have their replies.

    The questions to a judge are not known yet: it counts as cached if all answers and some of its verdicts are cached.
    """
    asked = set[str]()
    with Reader(project.store) as reader:
        for conversation in conversations(plan, project, max_cost):
            name = conversation.target.config.name
            if name not in asked and reader.cache_get(conversation.key(plan)) is None:
                asked.add(name)
        silent = {name for name in judging & problems.keys() if not asked and reader.cache_holds(name)}
    uncached = {config.name for config in plan.targets if not target_kind(config).asks_model}
    names = asked | uncached | (judging - silent)
    return {name: problem for name, problem in problems.items() if name in names}


_NETWORK_KINDS = ("openai", "litellm")
_REPLY_TOKENS = 256
_TOOL = {
    "type": "function",
    "function": {
        "name": "look_up_weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"ready": {"type": "boolean"}},
    "required": ["ready"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Probe:
    """One ability that was tried on a target."""

    name: str
    works: bool
    says: str


@dataclass(frozen=True, slots=True)
class Probed:
    """All abilities tried on a target, if its first answer arrived."""

    reply: Reply
    protocol: str | None
    """Its protocol and address, for a model over the network."""
    url: str | None
    probes: tuple[Probe, ...]
    changes: tuple[str, ...]
    """How the requests were changed."""


async def probe(config: TargetConfig, target: Target) -> Probed:
    """Try a target; TargetError, ConfigurationError or TimeoutError where it does not answer at all."""
    reply = await _ask(config, target, short_question(config))
    if target_kind(config).name not in _NETWORK_KINDS:
        return Probed(reply, None, None, (), reply.changes)
    tried = await asyncio.gather(
        _try("tools", target, config, "Look up the weather in Oslo with the tool.", _calls_tool, tools=(_TOOL,)),
        _try("schema", target, config, "Say as JSON that you are ready.", _keeps_schema, response_format=_SCHEMA),
        _try("judging", target, config, "Is 2 + 2 = 4? Reply with yes or no.", _is_whole),
    )
    changes = dict.fromkeys((*reply.changes, *(change for _, changes in tried for change in changes)))
    probes = tuple(probe for probe, _ in tried)
    return Probed(reply, protocol_of(config), getattr(target, "url", None), probes, tuple(changes))


async def _ask(config: TargetConfig, target: Target, request: Request) -> Reply:
    async with attempt_clock(target, config.timeout):
        return settled_reply(await target.ask(request), config.answer, config.think)


async def _try(
    name: str, target: Target, config: TargetConfig, text: str, judge: Callable[[Reply], tuple[bool, str]], **more: Any
) -> tuple[Probe, tuple[str, ...]]:
    """Ask one question; returns whether its reply is correct, and how the request was changed."""
    params = judging_params(config, _REPLY_TOKENS)
    request = Request(messages=({"role": "user", "content": text},), params=params, **more)
    try:
        reply = await _ask(config, target, request)
    except (TargetError, ConfigurationError) as problem:
        return Probe(name, False, str(problem)), ()
    except TimeoutError:
        return Probe(name, False, f"no answer within {config.timeout:g} s"), ()
    return Probe(name, *judge(reply)), reply.changes


def _calls_tool(reply: Reply) -> tuple[bool, str]:
    called = any(call["name"] == "look_up_weather" for call in reply.tool_calls)
    return called, "calls them" if called else "answered without calling the tool"


def _keeps_schema(reply: Reply) -> tuple[bool, str]:
    try:
        kept = isinstance(json.loads(reply.text).get("ready"), bool)
    except (ValueError, AttributeError, RecursionError):
        kept = False
    return kept, "keeps it" if kept else "answered what does not keep it"


def _is_whole(reply: Reply) -> tuple[bool, str]:
    cut = (reply.finish_reason or "").lower() in CUT_OFF
    return not cut, f"its reply was cut off ({reply.finish_reason})" if cut else "takes the parameters of a judge"
