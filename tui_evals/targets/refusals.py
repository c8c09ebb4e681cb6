"""What providers mean who refuse a question, each in words of its own: a filter, a key, a quota, a pause."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

Refusal = Literal["", "filter", "key", "cloud key", "credit", "quota"]
"""Why every attempt at a question would be refused, and with all but the filter every attempt at any question: the key
is not valid, that of a cloud account is not, there is no money, what may be asked in a day is. Empty for all others."""

_CODES: Mapping[str, Refusal] = {
    **dict.fromkeys(("content_filter", "ResponsibleAIPolicyViolation", "content_policy_violation"), "filter"),
    **dict.fromkeys(("data_inspection_failed", "DataInspectionFailed"), "filter"),
    **dict.fromkeys(("API_KEY_INVALID", "invalid_api_key"), "key"),
    **dict.fromkeys(("insufficient_quota", "billing_hard_limit_reached", "billing_not_active"), "credit"),
}
"""What stands for itself in the fields of an error."""
_WORDS: Mapping[Refusal, re.Pattern[str]] = {
    "filter": re.compile(
        "blocked by content filtering policy"  # Anthropic
        "|flagged as potentially violating"  # OpenAI's reasoning models
        "|requires moderation .*input was flagged"  # OpenRouter
        "|content violates usage guidelines"  # xAI
        "|content exists risk",  # DeepSeek
        re.IGNORECASE,
    ),
    "key": re.compile("API key (not valid|expired)|(incorrect|invalid) API key", re.IGNORECASE),
    "cloud key": re.compile(
        "security token included in the request is (invalid|expired)|request signature we calculated does not match"
        "|signature (not yet current|expired)|(invalid|expired) security token",
        re.IGNORECASE,
    ),
    "credit": re.compile("credit balance is too low|insufficient (balance|credits)", re.IGNORECASE),
}
"""What the message says of a provider that has no code for it."""
_PAUSE = re.compile(
    r"\b(?:try again|retry) (?:in|after) (?:(?P<h>\d+) ?h ?)?(?:(?P<m>\d+) ?m(?!s) ?)?"
    r"(?:(?P<s>\d+(?:\.\d+)?)(?: ?(?P<unit>ms|s)|(?! ?[a-z\d])))?",
    re.IGNORECASE,
)
"""How long to wait, as OpenAI, Azure, Groq and Google say it in a sentence."""


def error_message(body: str) -> str:
    """The message in an error body of the usual shapes, else the body."""
    error = _error(body)
    message = (error.get("message") or error.get("detail")) if isinstance(error, dict) else error
    return message if isinstance(message, str) else body


def refusal_of(status: int, body: str, pause: float | None = None) -> Refusal:
    """Why the provider will answer this question never, or no question at all; `pause` is what a header asks for."""
    if not 400 <= status < 500:
        return ""
    error = _error(body)
    fields = set(_codes(error)) if isinstance(error, dict) else set()
    for code, refusal in _CODES.items():
        if code in fields:
            return refusal
    message = error_message(body)
    found: Iterator[Refusal] = (refusal for refusal, words in _WORDS.items() if words.search(message))
    if refusal := next(found, ""):
        return refusal
    if status == 402:
        return "credit"
    # Google names a pause of seconds all the same; who says how long a day's quota takes to fill up is waited for.
    daily = "PerDay" in body or ("per day" in message and pause is None and pause_in(body) is None)
    return "quota" if status == 429 and daily else ""


def pause_in(body: str) -> float | None:
    """How many seconds to wait, from Google's RetryInfo, else from what the message says."""
    error = _error(body)
    for detail in _dicts(error.get("details")) if isinstance(error, dict) else ():
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and (seconds := _number(delay.removesuffix("s"))) is not None:
            return seconds
    said = _PAUSE.search(error_message(body))
    if said is None or not any(said.groups()):
        return None
    seconds = float(said["s"] or 0) / (1000 if (said["unit"] or "").lower() == "ms" else 1)
    return 3600 * float(said["h"] or 0) + 60 * float(said["m"] or 0) + seconds


def _error(body: str) -> Any:
    """What an error body says of the error: an object or a text."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return body
    if isinstance(document, list):  # Google's OpenAI-compatible endpoint
        document = document[0] if document else {}
    return document.get("error", document) if isinstance(document, dict) else document


def _codes(error: Mapping[str, Any]) -> Iterator[str]:
    """The words by which an error is known, wherever a provider puts them."""
    for part in (error, *_dicts([error.get("innererror")]), *_dicts(error.get("details"))):
        yield from (value for name in ("code", "type", "reason") if isinstance(value := part.get(name), str))


def _dicts(value: object) -> Iterator[Mapping[str, Any]]:
    yield from (part for part in (value if isinstance(value, list) else ()) if isinstance(part, dict))


def _number(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
