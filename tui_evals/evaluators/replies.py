"""Reading the verdict in a judge's reply, and never one that the reply quotes from what was judged."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any

from .judging import Unreadable

MAX_REPLY = 50_000

_NUMBER = r"(\d{1,9}(?:\.\d{1,9})?)"
_OF_FIVE = r" ?(?:/|out of) ?5(?:\.0)?"
_NAMED = rf"(?:final |overall )?(?:score|rating)[ *_]{{0,4}}[:=][ *_]{{0,4}}{_NUMBER}(?:{_OF_FIVE})?"
_LINE = re.compile(rf"{_NAMED}|{_NUMBER}{_OF_FIVE}", re.IGNORECASE)


def spoken(reply: str) -> str:
    """A judge's reply without the thoughts it opens with and without a full stop at its end."""
    thoughts, end, rest = reply.lstrip().partition("</think>")
    said = rest if end and thoughts.startswith("<think>") else reply
    if len(said) > MAX_REPLY:
        raise Unreadable(f"it is longer than {MAX_REPLY:,} characters")
    return said.strip().removesuffix(".")


def verdict_object(
    said: str, key: str, valid: Callable[[object], bool], judged: Collection[str] = ()
) -> dict[str, Any] | None:
    """The last JSON object with a valid verdict under the key, None where there is no object.

    A second verdict that differs makes the reply unreadable, and so does one that stands in a text that was judged:
    each may be a quotation.
    """
    objects = list(_objects(said))
    found = [(value, source) for value, source in objects if valid(value.get(key))]
    if objects and not found:
        raise Unreadable(f"it holds no valid {key}")
    if any(value[key] != found[0][0][key] for value, _ in found):
        raise Unreadable(f"it holds objects whose {key} differ")
    if not found:
        return None
    value, source = found[-1]
    _refuse_quotation(source, judged)
    return value


def reply_object(reply: str) -> dict[str, Any]:
    """The one JSON object of a reply, whatever chatter stands around it."""
    found = [value for value, _ in _objects(spoken(reply))]
    if not found or any(value != found[0] for value in found):
        raise Unreadable("one JSON object was expected")
    return found[0]


def score_line(said: str, judged: Collection[str] = ()) -> float:
    """The score of a reply without JSON: a bare number, else what its first or last line gives.

    A line within is not looked at, and one that stands in a text that was judged is refused: each may be a quotation.
    """
    if re.fullmatch(_NUMBER, said):
        return float(said)
    lines = said.splitlines()
    found = [match for line in lines[:1] + lines[-1:] if (match := _LINE.fullmatch(line.strip(" \t*_#>.")))]
    scores = {float(match[1] or match[2]) for match in found}
    if len(scores) != 1:
        raise Unreadable("it gives more than one score" if scores else "it gives no score")
    for match in found:
        _refuse_quotation(match[0], judged)
    return scores.pop()


def _refuse_quotation(verdict: str, judged: Collection[str]) -> None:
    if any(verdict in text for text in judged):
        raise Unreadable("its verdict stands word for word in what is judged")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object whose keys differ: of two alike, one may come from a quotation that ended its string early."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)


def _objects(said: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Every JSON object and its text; a brace outside one is refused, for broken JSON may hold a quotation."""
    end = 0
    while (start := said.find("{", end)) != -1 and "}" not in said[end:start]:
        try:
            value, end = _DECODER.raw_decode(said, start)
        except (ValueError, RecursionError):
            break
        yield value, said[start:end]
    if "{" in said[end:] or "}" in said[end:]:
        raise Unreadable("it holds braces that are not a whole JSON object")
