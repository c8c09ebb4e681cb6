"""How the demo target judges: it knows a judge's prompt by its fenced data and replies in the form asked for."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tui_evals.targets.answers import content_text
from tui_evals.targets.base import Request

from .schema import instance, schema_in

_OPENING = re.compile(r"<data-([0-9a-f]{16}) ([^\n>]{1,60})>\n")
_CHOICES = re.compile(r'"([^"\n]{1,60})"(?= (?:or|または) "|, bare, without|\. Write it bare| の中から)')
_OPTION = re.compile(r"([A-Za-z0-9]{1,12})(?: -|:) ")
_HEDGES = ("I am not sure", "I'm not sure", "I cannot", "I can't", "As an AI")
_GOOD = "The material says what was asked for."
_POOR = "Something that was asked for is missing."


def is_judging(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a judge is asked: the first message explains the marks around what is to be judged."""
    return bool(messages) and bool(re.search(r"<data-[0-9a-f]{16} ", content_text(messages[0].get("content"))))


def verdict(request: Request, seed: float) -> str:
    """A verdict on the fenced texts, drawn from them alone, in the form the prompt requires."""
    texts, prompt = _split("\n\n".join(content_text(message.get("content")) for message in request.messages))
    good = _is_good(texts, seed)
    reason = _GOOD if good else _POOR
    schema = schema_in(request.response_format)
    if schema is not None:
        return json.dumps(_filled(schema, texts, good, reason))
    if re.search(r"\bOK\b", prompt) and re.search(r"\bERR\b", prompt):
        return f"{reason}\n{'OK' if good else 'ERR'}"
    quoted = list(dict.fromkeys(_CHOICES.findall(prompt)))
    choices = quoted or _options(prompt)
    if not choices:
        return json.dumps({"reason": reason, "score": 90 if good else 30})
    choice = _chosen(choices, good)
    if not quoted and "nothing else" in prompt:
        return choice
    return f"{choice}\n{reason}\n{choice}"  # the first line and the last: whichever a reader looks at


def _split(prompt: str) -> tuple[dict[str, str], str]:
    """The fenced texts by name, and the prompt without them."""
    texts: dict[str, str] = {}
    rest, at = [], 0
    for opening in _OPENING.finditer(prompt):
        end = prompt.find(f"\n</data-{opening[1]}>", opening.end())
        if opening.start() >= at and end >= 0:
            rest.append(prompt[at : opening.start()])
            texts[opening[2]] = texts.get(opening[2], "") + prompt[opening.end() : end]
            at = end
    return texts, "".join([*rest, prompt[at:]])


def _options(prompt: str) -> list[str]:
    """The choices that stand in a list, each before a colon or a dash: the first two or more such lines in a row."""
    found: list[str] = []
    for line in [*prompt.split("\n"), ""]:
        option = _OPTION.match(line)
        if option:
            found.append(option[1])
        elif len(found) > 1:
            return found
        else:
            found = []
    return []


def _is_good(texts: Mapping[str, str], seed: float) -> bool:
    """Whether the verdict is favourable: never for an answer that hedges or is empty, else in four cases of five."""
    answers = [text for name, text in texts.items() if name in ("answer", "output", "completion", "candidate")]
    answer = (answers or list(texts.values()) or [""])[-1]
    if answer.lstrip().startswith(_HEDGES) or not re.search(r"\w", answer):
        return False
    digest = hashlib.sha256(json.dumps([seed, texts], sort_keys=True).encode()).digest()
    return digest[0] % 5 > 0


def _filled(schema: Mapping[str, Any], texts: Mapping[str, str], good: bool, reason: str) -> Any:
    properties = schema.get("properties", {})
    if "score" in properties:
        numbers = properties["score"].get("enum") or [1, 5]
        return {"reason": reason, "score": max(numbers) if good else min(numbers) + 1}
    if "winner" in properties:
        return {"reason": reason, "winner": _preferred(texts)}
    if "supported" in properties:
        return {"reason": reason, "supported": good, "hit": 1 if good else None}
    if "claims" in properties:
        claim = next(iter(texts.get("answer", "").split("\n")))[:200]
        return {"claims": [{"claim": claim, "evidence": reason, "supported": good}]}
    return instance(schema, reason)


def _preferred(texts: Mapping[str, str]) -> str:
    """Which of two answers it likes better, wherever each stands."""
    first, second = (
        hashlib.sha256(texts.get(name, "").encode("utf-8", "surrogatepass")).digest() for name in ("first", "second")
    )
    return "first" if first > second else "second" if second > first else "tie"


def _chosen(choices: Sequence[str], good: bool) -> str:
    """The best choice is the highest number or else the first; a poor one is the lowest number or else the second."""
    numbers = sorted((choice for choice in choices if choice.isdigit()), key=int)
    ranked = numbers[::-1] if len(numbers) > 1 else list(choices)
    return ranked[0] if good else (ranked[-1] if numbers else ranked[1 % len(ranked)])
