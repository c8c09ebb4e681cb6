"""What a target can do, tried by a few short questions: chat, tools, a schema, and the parameters of judging."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tui_evals.evaluators.judging import CUT_OFF
from tui_evals.targets.base import ConfigurationError, Reply, Request, Target, TargetConfig, TargetError, attempt_clock
from tui_evals.targets.opening import target_kind
from tui_evals.targets.providers import protocol_of
from tui_evals.targets.takes import judging_params, short_question

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
    """One thing a target was tried for."""

    name: str
    works: bool
    says: str


@dataclass(frozen=True, slots=True)
class Probed:
    """All that a target was tried for; its first answer came, or there is none of this."""

    reply: Reply
    protocol: str | None
    """What is spoken with it and at which address, for a model over the network."""
    url: str | None
    probes: tuple[Probe, ...]
    changes: tuple[str, ...]
    """What of the questions was not sent as it stands."""


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
        return await target.ask(request)


async def _try(
    name: str, target: Target, config: TargetConfig, text: str, judge: Callable[[Reply], tuple[bool, str]], **more: Any
) -> tuple[Probe, tuple[str, ...]]:
    """One question, whether its reply is as it should be, and what of it was not sent as it stands."""
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
