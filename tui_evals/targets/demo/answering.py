"""The demo target: scripted answers and verdicts, offline, the same for the same seed, and labelled as scripted.

Questions of the sample project and of `sample_datasets/` are answered from `replies.json`, which
`python -m tests.targets.record_demo` renews, any other from the sentences of its prompt. Tools are called, and JSON,
verdicts and the steps of a generation written, by rule (forms.py). Now and then it hedges, is wrong or breaks its JSON,
so that a run has something to show. Its params:

* `latency_ms` (30) and `jitter_ms` (20): how long an answer takes, give or take;
* `error_rate` (0.02): the share of requests that fail once and succeed when asked again. While it is above 0, every
  tenth item gets no answer at all. 0 means no error ever;
* `seed` (1): another seed, other answers;
* `temperature` (1): at 0 every answer is right, and the higher it is the more of them are not.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from random import Random
from typing import Any

from tui_evals.targets.answers import content_text, last_question
from tui_evals.targets.base import ConfigurationError, Reply, Request, TargetConfig, TargetError, TargetKind, Usage
from tui_evals.text.nearest import did_you_mean
from tui_evals.text.tokens import estimate_tokens

from .forms import instance, key_of, recorded, schema_in, verdict, written

_EVERY = 10
_SUM = re.compile(r"(\d{1,9})(?: ?([+*×]) ?| (-) )(\d{1,9})")
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
    temperature: float = 1.0


class Demo:
    """Answers by a script."""

    def __init__(self, config: TargetConfig) -> None:
        self._manner = _manner(config)
        self._failed: set[str] = set()

    async def ask(self, request: Request) -> Reply:
        """The scripted answer, after a while; an unlucky request fails the first time it is made."""
        manner = self._manner
        mark = _mark(request, manner.seed)
        random = Random(mark)
        await asyncio.sleep(max(0.0, manner.latency_ms + manner.jitter_ms * random.uniform(-1, 1)) / 1000)
        step = written(request.messages, manner.seed)
        judged = verdict(request, manner.seed) if step is None else None
        self._fail(request, mark, random.random(), judging=judged is not None)
        text = judged if step is None else step
        calls: tuple[dict[str, str], ...] = ()
        if text is None:
            calls = _tool_calls(request, random)
            text = "" if calls else _answer(request, random.random() * manner.temperature)
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

    def _fail(self, request: Request, mark: str, roll: float, *, judging: bool) -> None:
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
    if not request.messages or request.messages[-1].get("role") == "tool" or random.random() < 0.1:
        return ()
    question = last_question(request.messages)
    asked = _words(question)
    functions = [tool.get("function", tool) for tool in request.tools]
    named = [function for function in functions if isinstance(function, Mapping) and "name" in function]
    common = [len(asked & _words(f"{each['name']} {each.get('description', '')}".replace("_", " "))) for each in named]
    if not any(common):
        return ()
    tool = named[common.index(max(common))]
    arguments = json.dumps(instance(tool.get("parameters", {}), question), ensure_ascii=False)
    return ({"id": f"call_{random.getrandbits(32):08x}", "name": str(tool["name"]), "arguments": arguments},)


def _answer(request: Request, mood: float) -> str:
    """An answer plain in most moods, hedging in some, wrong in others; JSON is broken off in a few."""
    known = right_and_wrong(request.messages)
    said = known["right"] if mood < 0.75 else _HEDGE + known["right"] if mood < 0.85 else known["wrong"]
    wanted = request.response_format
    if wanted in (None, "text"):
        return said
    schema = schema_in(wanted)
    filled = {"answer": said} if schema is None else instance(schema, last_question(request.messages))
    text = json.dumps(filled, ensure_ascii=False)
    return text if mood < 0.9 else text[:-1]


def right_and_wrong(messages: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    """The good answer to a question and a bad one: as recorded, else a small sum, else sentences of the prompt."""
    prompt, question = keys_of(messages)
    known: Mapping[str, str] | None = recorded()["answers"].get(prompt, {}).get(question)
    return known or _sum(last_question(messages)) or _sentences(messages)


def keys_of(messages: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Under which prompt and which question an answer is recorded."""
    system = "\n".join(content_text(each.get("content")) for each in messages if each.get("role") == "system")
    return key_of(system), key_of(last_question(messages))


def _sum(question: str) -> Mapping[str, str] | None:
    found = _SUM.search(question)
    if found is None:
        return None
    left, right, sign = int(found[1]), int(found[4]), found[2] or found[3]
    result = left + right if sign == "+" else left - right if sign == "-" else left * right
    form = "{}" if "only" in question else "That makes {}."
    return {"right": form.format(result), "wrong": form.format(result + 1)}


def _sentences(messages: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    """The sentence of the prompt that shares most words with the question, and the one that shares least."""
    question = last_question(messages)
    said = [content_text(each.get("content")).replace(question, "") for each in messages]
    material = [sentence.strip() for text in said for sentence in _SENTENCES.split(text) if _WORD.search(sentence)]
    asked = _words(question)
    ranked = sorted(material, key=lambda sentence: -len(asked & _words(sentence)))
    if not ranked or not asked & _words(ranked[0]):
        subject = " ".join(_WORD.findall(question)[:12]) or "this"
        right = f"Here is what can be said about {subject}: it depends on the rules that apply."
        return {"right": right, "wrong": "Yes."}
    return {"right": ranked[0], "wrong": ranked[-1] if len(ranked) > 1 else "Yes."}


KIND = TargetKind(form="demo", open=lambda config, context: Demo(config))
