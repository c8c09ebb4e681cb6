"""The demo target: scripted answers and verdicts, offline, the same for the same seed, and labelled as scripted.

It answers from the sentences it was given or a list of values, works out small sums, calls tools, fills JSON Schemas
and writes what the steps of a generation ask for; now and then it hedges, is wrong or breaks its JSON, so that a run
has something to show. Its params:

* `latency_ms` (30) and `jitter_ms` (20): how long an answer takes, give or take;
* `error_rate` (0.02): the share of requests that fail once and succeed when asked again. While it is above 0, every
  tenth item gets no answer at all. 0 means no error ever;
* `seed` (1): another seed, other answers.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from random import Random

from tui_evals.targets.answers import content_text, question_of
from tui_evals.targets.base import ConfigurationError, Reply, Request, TargetConfig, TargetError, Usage
from tui_evals.text.nearest import did_you_mean
from tui_evals.text.tokens import estimate_tokens

from .generate import written
from .judge import is_judging, verdict
from .label import from_list
from .schema import instance, schema_in
from .step import is_generating

_EVERY = 10
_SUM = re.compile(r"(-?\d{1,9})( ?[+*×÷] ?| [-/] | (?:plus|minus|times|multiplied by|divided by) )(-?\d{1,9})")
_SIGNS = {"plus": "+", "minus": "-", "times": "*", "×": "*", "multiplied by": "*", "÷": "/", "divided by": "/"}
_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD = re.compile(r"[^\W_]{3,40}")
_HEDGE = "I am not sure, and you should check this with someone who knows: "


@dataclass(frozen=True, slots=True)
class Manner:
    """How the demo target behaves."""

    latency_ms: float = 30.0
    jitter_ms: float = 20.0
    error_rate: float = 0.02
    seed: float = 1


class Demo:
    """Answers by a script."""

    def __init__(self, config: TargetConfig) -> None:
        self._manner = _manner(config)
        self._failed: set[str] = set()

    async def ask(self, request: Request) -> Reply:
        """The scripted answer, after a while; an unlucky request fails the first time it is made."""
        mark = _mark(request, self._manner.seed)
        random = Random(mark)
        manner = self._manner
        await asyncio.sleep(max(0.0, manner.latency_ms + manner.jitter_ms * random.uniform(-1, 1)) / 1000)
        generated = written(request.messages, manner.seed) if is_generating(request.messages) else None
        judging = generated is None and is_judging(request.messages)
        self._fail(request, mark, random.random(), judging)
        calls: tuple[dict[str, str], ...] = ()
        if generated is not None:
            text = generated
        elif judging:
            text = verdict(request, manner.seed)
        else:
            calls = _tool_calls(request, random)
            text = "" if calls else _answer(request, random)
        asked = sum(estimate_tokens(content_text(message.get("content"))) for message in request.messages)
        said = text + "".join(call["name"] + call["arguments"] for call in calls)
        return Reply(
            text=text,
            tool_calls=calls,
            usage=Usage(asked, estimate_tokens(said)),
            cost=0.0,
            model="demo",
            finish_reason="tool_calls" if calls else "stop",
            scripted=True,
        )

    def _fail(self, request: Request, mark: str, roll: float, judging: bool) -> None:
        rate = self._manner.error_rate
        if rate and not judging and request.position % _EVERY == _EVERY - 1:
            message = "the demo target leaves every tenth item without an answer, to show what that looks like"
            raise TargetError("agentRequestFailed", message)
        if roll >= rate or mark in self._failed:
            return
        self._failed.add(mark)
        if roll < rate / 2:
            message = "the demo target says it is asked too often; ask again"
            raise TargetError("agentRateLimited", message, retryable=True, retry_after=0.05, status=429)
        message = "the demo target pretends that its server failed; ask again"
        raise TargetError("agentRequestFailed", message, retryable=True, status=503)

    async def close(self) -> None:
        """Nothing is held."""


def _manner(config: TargetConfig) -> Manner:
    known = [field.name for field in fields(Manner)]
    for name, value in config.params.items():
        if name not in known:
            raise ConfigurationError(
                f"the target {config.name}: demo has no parameter {name}{did_you_mean(name, known)}; "
                f"it has {', '.join(known)}"
            )
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
            raise ConfigurationError(f"the target {config.name}: {name} must be a number from 0")
    return Manner(**config.params)


def _mark(request: Request, seed: float) -> str:
    """A fingerprint of the request: whatever is drawn is drawn from it."""
    asked = [request.messages, request.tools, request.response_format, request.item, request.turn, request.repeat]
    return hashlib.sha256(json.dumps([seed, *asked], sort_keys=True, default=str).encode()).hexdigest()


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def _tool_calls(request: Request, random: Random) -> tuple[dict[str, str], ...]:
    """A call of the tool that has most words in common with the question; none after a tool has answered."""
    if request.messages[-1].get("role") == "tool" or random.random() < 0.1:
        return ()
    question = question_of(request.messages)
    asked = _words(question)
    functions = [tool.get("function", tool) for tool in request.tools]
    named = [function for function in functions if isinstance(function, Mapping) and "name" in function]
    common = [len(asked & _words(f"{each['name']} {each.get('description', '')}".replace("_", " "))) for each in named]
    if not any(common):
        return ()
    tool = named[common.index(max(common))]
    arguments = instance(tool.get("parameters", {}), question)
    name, text = str(tool["name"]), json.dumps(arguments, ensure_ascii=False)
    return ({"id": f"call_{random.getrandbits(32):08x}", "name": name, "arguments": text},)


def _answer(request: Request, random: Random) -> str:
    question = question_of(request.messages)
    mood = random.random()
    wanted = request.response_format
    if wanted in (None, "text"):
        return _spoken(request, question, mood)
    schema = schema_in(wanted)
    filled = {"answer": _spoken(request, question, mood)} if schema is None else instance(schema, question)
    text = json.dumps(filled, ensure_ascii=False)
    return text if mood < 0.9 else text[:-1]


def _spoken(request: Request, question: str, mood: float) -> str:
    """An answer in words: plain in most moods, hedging in some, wrong in others."""
    right, wrong = _sum(question) or from_list(request.messages, question) or _sentences(request, question)
    if mood < 0.75:
        return right
    return _HEDGE + right if mood < 0.85 else wrong


def _sum(question: str) -> tuple[str, str] | None:
    found = _SUM.search(question)
    if found is None:
        return None
    left, right, sign = int(found[1]), int(found[3]), found[2].strip()
    sign = _SIGNS.get(sign, sign)
    if sign == "/" and (right == 0 or left % right):
        return None
    result = {"+": left + right, "-": left - right, "*": left * right, "/": left // right if right else 0}[sign]
    form = "{}" if "only" in question else "That makes {}."
    return form.format(result), form.format(result + 1)


def _sentences(request: Request, question: str) -> tuple[str, str]:
    """The sentence of the material that shares most words with the question, and the one that shares least."""
    said = [content_text(message.get("content")) for message in request.messages]
    material = [sentence.strip() for text in said for sentence in _SENTENCES.split(text.replace(question, ""))]
    asked = _words(question)
    ranked = sorted(filter(_WORD.search, material), key=lambda sentence: -len(asked & _words(sentence)))
    if not ranked or not asked & _words(ranked[0]):
        subject = " ".join(_WORD.findall(question)[:12]) or "this"
        return f"Here is what can be said about {subject}: it depends on the rules that apply.", "Yes."
    return ranked[0], ranked[-1] if len(ranked) > 1 else "Yes."
