"""Secrets taken out of text before it is stored or shown."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from urllib.parse import quote

GONE = "[redacted]"
_NAMES = re.compile("KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL")
_SHORTEST = 6  # shorter values would blank out ordinary words
_SHORTEST_SPACED = 12  # digits of a shorter one come apart in any table
_BETWEEN = " \t\r\n\u00a0\u200b\u200c\u200d\u2060\ufeff-_.,:;|/\\*+'\"`"
_DROPPED = str.maketrans("", "", _BETWEEN)

_SHAPES = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (r"\bsk-[\w-]{8,}", GONE),
        (r"\bgh[pousr]_\w{20,}|\bhf_\w{20,}|\bxox[abpr]-[\w-]{10,}|\bAKIA[A-Z0-9]{16}\b|\bAIza[\w-]{30,}", GONE),
        (r"\b(bearer\s+)[\w.~+/=-]{6,}", rf"\1{GONE}"),
        (r"\b(authorization\W{1,4}basic\s+)[\w+/=]{6,}", rf"\1{GONE}"),
        (
            r"((?:api|access|auth|secret|client)[-_]?(?:key|token|secret)\\?\"?\s?[=:]\s?\\?\"?)(?!env:)[^\s&\"',;}\\\[]{6,}",
            rf"\1{GONE}",
        ),
        (r"(://[^/\s:@\"]{0,100}:)[^/\s@\"]{1,200}@", rf"\1{GONE}@"),
    )
)


def secrets_of(environment: Mapping[str, str]) -> list[str]:
    """The values of variables whose names say that they are secret."""
    return [value for name, value in environment.items() if value and _NAMES.search(name.upper())]


def spellings(secrets: Iterable[str]) -> tuple[str, ...]:
    """Every way the secrets may stand in text, JSON, a URL or base64, or backwards, the longest first."""
    forms = {
        form
        for secret in secrets
        if len(secret) >= _SHORTEST
        for form in (
            secret,
            json.dumps(secret)[1:-1],
            json.dumps(secret, ensure_ascii=False)[1:-1],
            quote(secret, "", errors="replace"),
            secret[::-1],
            *_in_base64(secret),
        )
    }
    return tuple(sorted(forms, key=len, reverse=True))


def without(text: str, spelled: tuple[str, ...]) -> str:
    """The text without the secrets, given by their spellings, also where something stands between their letters."""
    for secret in spelled:
        if secret in text:
            text = text.replace(secret, GONE)
    joined = text.translate(_DROPPED) if spelled else ""
    for secret in spelled:
        letters = secret.translate(_DROPPED)
        if len(letters) >= _SHORTEST_SPACED and letters in joined:
            text = _spaced(letters).sub(GONE, text)
    return text


@lru_cache(maxsize=64)
def _spaced(letters: str) -> re.Pattern[str]:
    return re.compile(f"[{re.escape(_BETWEEN)}]*".join(map(re.escape, letters)))


def _in_base64(secret: str) -> Iterator[str]:
    """What stays the same of a secret in base64, wherever in a longer text it begins."""
    data = secret.encode("utf-8", "replace")
    for before, first in enumerate((0, 2, 3)):
        last = (before + len(data)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(bytes(before) + data)[first:last].decode("ascii")


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without the secrets and without anything that has the shape of a key."""
    text = without(text, spellings(secrets))
    for shape, replacement in _SHAPES:
        text = shape.sub(replacement, text)
    return text
