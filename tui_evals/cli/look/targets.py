"""Targets and judges: the list, one cheap call, and whether a judge can be trusted."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tui_evals.cli.inputs import approve, open_project
from tui_evals.cli.output import Stop, cell, keep_output_to_ourselves, say, say_json
from tui_evals.evaluators.base import Question
from tui_evals.evaluators.canaries import CanaryReport, canaries, check_judge
from tui_evals.evaluators.judging import whole_reply
from tui_evals.present.columns import table
from tui_evals.present.transcripts import understood_text
from tui_evals.runs.approving import find_typed, missing_of_targets
from tui_evals.runs.judges import items_of, price_for
from tui_evals.runs.project import Project
from tui_evals.runs.readiness import Probed, probe
from tui_evals.runs.tools import check_tools, open_toolbox
from tui_evals.targets.answers import settled_reply
from tui_evals.targets.base import (
    ConfigurationError,
    Price,
    Request,
    Target,
    TargetConfig,
    TargetContext,
    TargetError,
    attempt_clock,
)
from tui_evals.targets.config import is_model
from tui_evals.targets.model_table import judging_params
from tui_evals.targets.opening import open_target, target_kind
from tui_evals.targets.permissions import Destination, destination
from tui_evals.targets.service import Exchange, Service
from tui_evals.targets.tools import defined_name
from tui_evals.text.measures import money
from tui_evals.text.model_output import unpack_vector
from tui_evals.text.names import did_you_mean
from tui_evals.text.safe import safe_line

_HEAD = ("target", "model", "address", "key", "price", "at once", "used for", "sends")


def list_targets(env_name: str | None, as_json: bool) -> int:
    """Print the targets of the configuration, and which of them judges; 3 where a section is faulty."""
    here = open_project(env_name, trusting=False)
    targets = here.settings.targets.values()
    if as_json:
        say_json([_target_data(config, here) for config in targets])
        return 3 if here.settings.broken else 0
    for problem in here.settings.broken.values():
        say(f"✗ {problem}", fg="red", err=True)
    if not targets and not here.settings.broken:
        say(
            "no targets are configured in .evals/config.toml; --target takes a model such as openai/gpt-4o-mini as well"
        )
    lines = []
    for config in targets:
        marks = [word for word, on in _roles(config, here).items() if on]
        key = f"key {config.api_key}" if config.api_key else ""
        price = price_for(config)
        cost = "unpriced" if price is None else _price_text(price)
        to = destination(config, here.environment)
        sent = to.sentence if to is not None else ""
        at_once = str(config.concurrency)
        lines.append((config.name, config.model, config.base_url or "", key, cost, at_once, ", ".join(marks), sent))
    for number, line in enumerate(table([_HEAD, *lines], headed=True, right=(5,), room=None)) if lines else ():
        say(line.rstrip(), bold=not number)
    return 3 if here.settings.broken else 0


def _target_data(config: TargetConfig, here: Project) -> dict[str, Any]:
    """A target as data: its configuration, price and roles."""
    price = price_for(config)
    roles = {word.replace(" ", "_"): on for word, on in _roles(config, here).items()}
    to = destination(config, here.environment)
    known = {"price": asdict(price) if price is not None else None, "destination": to.data if to is not None else None}
    return {**asdict(config), **known, **roles}


def _price_text(price: Price) -> str:
    cached = "" if price.cached_per_million is None else f", {money(price.cached_per_million)} cached"
    tokens = f"{money(price.input_per_million)}{cached} + {money(price.output_per_million)} per million tokens"
    if price.per_call is None:
        return tokens
    return f"{money(price.per_call)} per call" + ("" if price.is_per_call else f", {tokens}")


def _roles(config: TargetConfig, here: Project) -> dict[str, bool]:
    settings = here.settings
    return {
        "runs by default": config.name in settings.usual_targets,
        "judges": config.name == settings.judge,
        "embeds": config.name == settings.embedder,
    }


def _target_or_stop(name: str, here: Project) -> TargetConfig:
    try:
        return find_typed(name, here.settings)
    except ConfigurationError as problem:
        raise Stop(str(problem), 3) from None


def check_target(name: str, env_name: str | None, trusting: bool, as_json: bool) -> int:
    """Ask a few short questions: whether the target answers, its abilities, and its address."""
    here = open_project(env_name, trusting)
    to: Destination | None = None
    seen = Exchange()
    try:
        config = find_typed(name, here.settings)
        approve(missing_of_targets(here, [config]), here.root)
        to = destination(config, here.environment)
        if to is not None and not as_json:
            say(f"{config.name} {to.sentence}", dim=True, err=True)
        keep_output_to_ourselves()
        check_tools(None, [config], here.environment, here.root)
        tools = asyncio.run(_offered_tools(config, here))
        probed = asyncio.run(_probed(config, here, seen))
    except (TargetError, ConfigurationError, TimeoutError) as problem:
        if not as_json:
            _say_exchange(seen)
        return _say_unanswered(name, here, str(problem), to, as_json, seen)
    reply, usage = probed.reply, probed.reply.usage
    if as_json:
        about = {
            "target": config.name,
            "model": config.model,
            "answers": True,
            "ready": not seen.is_envelope,
            "text": reply.text,
        }
        sent = to.data if to is not None else None
        about |= {"usage": asdict(usage) if usage else None, "message": None, "destination": sent}
        about |= {"protocol": probed.protocol, "url": probed.url, "changes": list(probed.changes)}
        about["understood"] = understood_text(reply.text, len(reply.tool_calls), reply.transcript)
        about |= {"tools": tools} if config.tools is not None else {}
        say_json({**about, "probes": [asdict(probe) for probe in probed.probes], **_exchange_data(seen)})
        return int(seen.is_envelope)
    _say_exchange(seen)
    tokens = f"{usage.input_tokens} + {usage.output_tokens} tokens" if usage else "no token counts"
    if config.kind == "embedding":
        said = f"gives vectors of {len(unpack_vector(reply.text)):,} numbers"
    else:
        said = f"answers: {cell(reply.text, 60)!r}"
    mark, color = ("✗", "red") if seen.is_envelope else ("✓", "green")
    say(f"{mark} {config.name} ({config.model}) {said}, {tokens}", fg=color)
    if seen.is_envelope:
        say("  The answer would be the whole reply. Set its path under http of the target:", fg="red")
    if config.kind != "embedding":
        say(f"  {understood_text(reply.text, len(reply.tool_calls), reply.transcript)}")
    for sentence in (*seen.unmatched, *seen.unmapped):
        say(f"! {sentence}", fg="yellow")
    if probed.protocol is not None:
        say(f"  asked    {probed.protocol}{f' at {probed.url}' if probed.url else ''}")
    for tried in probed.probes:
        mark, colour = ("✓", None) if tried.works else ("✗", "yellow")
        say(f"  {tried.name:<8} {mark} {cell(tried.says, 200)}", fg=colour)
    for change in probed.changes:
        say(f"  {change}")
    for tool, approved in tools.items():
        say(f"  calls    {cell(tool, 60)}{'' if approved else ': not approved, so it is not called'}", dim=not approved)
    return int(seen.is_envelope)


def _say_exchange(seen: Exchange) -> None:
    """Show a service's request and response."""
    for sign, text in ((">", seen.sent), ("<", seen.received)):
        for line in text.splitlines():
            say(f"{sign} {safe_line(line)}".rstrip(), dim=True)


def _exchange_data(seen: Exchange) -> dict[str, Any]:
    if not seen.sent:
        return {}
    return {"request": seen.sent, "reply": seen.received, "unmatched": seen.unmatched, "unmapped": seen.unmapped}


def _say_unanswered(
    name: str, here: Project, message: str, to: Destination | None, as_json: bool, seen: Exchange
) -> int:
    """Print why a target does not answer, or is not one."""
    targets = here.settings.targets
    model = targets[name].model if name in targets else name if is_model(name) else None
    if not as_json:
        raise Stop(f"✗ {name} ({model}): {message}" if model else message, 3)
    about = {"target": name, "model": model, "answers": False, "text": None, "usage": None, "message": message}
    say_json({**about, "destination": to.data if to is not None else None, **_exchange_data(seen)})
    return 3


async def _offered_tools(config: TargetConfig, here: Project) -> dict[str, bool]:
    """The tools that the run would call for a target, and whether the configuration approves each."""
    toolbox = open_toolbox(None, config, here.environment, here.root)
    if toolbox is None:
        return {}
    try:
        definitions, owners = await toolbox.offered()
    finally:
        await toolbox.close()
    approved, said = toolbox.settings.approved or (), toolbox.settings.approved is not None
    names = filter(None, map(defined_name, definitions))
    return {name: name in approved or (name not in owners and not said) for name in names}


def _open(config: TargetConfig, here: Project) -> Target:
    """The target, after checking that it can answer; raises ConfigurationError."""
    kind = target_kind(config)
    if kind.check is not None:
        kind.check(config, TargetContext(environment=here.environment, root=here.root, load_items=items_of))
    return open_target(config, here.environment, here.root, items_of)


async def _probed(config: TargetConfig, here: Project, seen: Exchange) -> Probed:
    """The abilities of the target; for a service, request and response are recorded in `seen`."""
    target = _open(config, here)
    if isinstance(target, Service):
        target.exchange = seen
    try:
        return await probe(config, target)
    finally:
        await target.close()


def check_judge_named(
    name: str | None, env_name: str | None, trusting: bool, evaluators: Sequence[str], as_json: bool
) -> int:
    """Put the canaries to a judge; exit 1 when it does not give every known verdict."""
    known = list(dict.fromkeys(canary.evaluator.name for canary in canaries()))
    for wanted in evaluators:
        if wanted not in known:
            raise Stop(
                f"there are no canaries for '{wanted}'{did_you_mean(wanted, known)}; there are {', '.join(known)}"
            )
    here = open_project(env_name, trusting)
    word = name or here.settings.judge
    if word is None:
        raise Stop('no judge is named; give one, or configure it: [judge] target = "…" in .evals/config.toml', 3)
    config = _target_or_stop(word, here)
    approve(missing_of_targets(here, [config]), here.root)
    keep_output_to_ourselves()
    try:
        report, problems = asyncio.run(_canaries(config, here, evaluators))
    except ConfigurationError as problem:
        raise Stop(f"✗ {config.name} ({config.model}): {problem}", 3) from None
    told = [f"{count}× no reply: {problem}" for problem, count in problems.items()]
    if sum(problems.values()) >= len(report.rows):  # it never replied, so its verdicts are unknown
        raise Stop("\n".join(f"✗ {config.name} ({config.model}): {problem}" for problem in problems), 3)
    if as_json:
        rows = [asdict(row) for row in report.rows]
        tables = [asdict(one) for one in report.by_evaluator]
        say_json({"trusted": report.trusted, "evaluators": tables, "canaries": rows, "problems": told})
    else:
        _say_canaries(report)
        for line in told:
            say(line, fg="red")
        say(report.sentence, bold=True)
    return 0 if report.trusted else 1


def _say_canaries(report: CanaryReport) -> None:
    """A line for each evaluator, and below it the canaries that got another verdict than the known one."""
    say(f"  {'evaluator':<26} {'known verdicts':>14} {'too kind':>9} {'too harsh':>10} {'unread':>7}", bold=True)
    for one in report.by_evaluator:
        wrong = [row for row in report.rows if row.evaluator == one.evaluator and not row.passed]
        figures = f"{f'{one.known} of {one.total}':>14} {one.too_kind:>9} {one.too_harsh:>10} {one.unread:>7}"
        say(f"{'✗' if wrong else '✓'} {one.evaluator:<26} {figures}", fg="red" if wrong else None)
        for row in wrong:
            say(f"    {row.name}: wanted {row.expected}, got {row.result or 'no verdict'}", fg="red")


async def _canaries(
    config: TargetConfig, here: Project, evaluators: Sequence[str]
) -> tuple[CanaryReport, Counter[str]]:
    """The report, and each reason why the judge gave no reply with how often it did not."""
    target = _open(config, here)
    problems: Counter[str] = Counter()
    room = asyncio.Semaphore(config.concurrency)

    async def ask(question: Question) -> str:
        params = judging_params(config, question.max_tokens, question.params)
        request = Request(messages=question.messages, response_format=question.schema, params=params)
        try:
            async with room, attempt_clock(target, config.timeout):
                reply = settled_reply(await target.ask(request), config.answer, config.think)
        except (TargetError, ConfigurationError, TimeoutError) as problem:
            problems[str(problem) or f"no answer within {config.timeout:g} s"] += 1
            raise
        return whole_reply(reply.text, reply.finish_reason, config.name)

    try:
        return await check_judge(ask, evaluators), problems
    finally:
        await target.close()
