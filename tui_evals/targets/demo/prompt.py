"""What a prompt says, read by plain rules: its sentences, its purpose, the values it lists, the rules it sets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .step import STOP
from .verbs import NO_VERBS, VERBS, base, closed, opened, predicate

_ROLE = re.compile(r"\s*(?:system|user|assistant)\s*:\s*", re.IGNORECASE)
_PLACE = re.compile(r"(?:\b(the|a|an|this|these|that|following)\s+)?\{\{-?\s*([A-Za-z_]\w*)[^{}]*\}\}", re.IGNORECASE)
_TWICE = re.compile(r"\b([^\W\d_]\w*) the \1\b", re.IGNORECASE)
_TAG = re.compile(r"\{%[^{}]*%\}|\{#[^{}]*#\}")
_ONLY_PLACE = re.compile(
    r"(?:\W*(?:[\w'’-]+ ){0,3}[\w'’-]+ ?:)?\s*(?:<[^<>{}]{1,40}>)?[^\w{}<]*"
    r"\{\{[^{}]*\}\}[^\w{}<]*(?:</[^<>{}]{1,40}>)?\W*"
)
_BULLET = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+")
_LABEL = re.compile(r"\s*(?:[-*+•]\s+)?[\"'`*]*([^\W_][\w$/+-]*(?: [\w$/+-]+){0,2})[\"'`*]*(?::| [-–—]) +(\S[^{}]*)")
_OFFERS = re.compile(
    r"\b(?:list|one of|choose|pick|select|categor|label|class|tags?\b|options?\b|values?\b)", re.IGNORECASE
)
_CHOICES = re.compile(r"\b(?:one of|either)(?: the| these)?(?: \w+){0,3}?(?:: *| )([^.:;]{3,300})", re.IGNORECASE)
_AS = re.compile(r"\b(?:as|with) (?:either )?([\w-]+(?:, [\w-]+)*,? or [\w-]+)")
_END = re.compile(r"(?<=[.!?])[\"”')]*\s+(?=[\"“'`*(]*[A-Z0-9])|(?<=[。！？])")
_WHO = re.compile(r"you are (?:an? |the )?(.{3,200}?)(?: (?:that|who) (.+))?", re.IGNORECASE)
_IF = re.compile(r"(?:if|when|whenever|unless|where|in case|for)\b", re.IGNORECASE)
_STRICT = re.compile(
    r"\b(?:must|only|never|always|exactly|alone|at most|at least|no|not|without|format|json|lists?|\d+|"
    r"limit|bullets?|markdown|maximum|fewer|more than)\b",
    re.IGNORECASE,
)
_LONG = 1000
"""Longer lines and sentences are not looked into."""
_CLOSING = " .;:。"
_GENERIC = (
    "The output deals with what the input says and with nothing else.",
    "The output can be understood by somebody who has not seen the prompt.",
    "The output is written in whole words, without placeholders.",
)


def names_in(body: str) -> list[str]:
    """The inputs that stand in a prompt."""
    return list(dict.fromkeys(found[2] for found in _PLACE.finditer(body)))


def sentences(body: str) -> list[str]:
    """The sentences of a prompt, without headings, lists of values and lines that only hold an input."""
    offered = labels(body)
    found = []
    for line in _lines(body):
        label = _labelled(line)
        if not line.lstrip().startswith("#") and not (label and label[1] in offered):
            bullet = _BULLET.match(line)
            plain = _PLACE.sub(_in_words, line[bullet.end() if bullet else 0 :]).replace("**", "")
            plain = _TWICE.sub(r"\1", plain)
            found += [part.strip()[:_LONG] for part in _END.split(plain) if re.search(r"\w", part)]
    return found


def _in_words(place: re.Match[str]) -> str:
    return f"{place[1] or 'the'} {place[2].replace('_', ' ')}"


def _lines(body: str) -> Iterator[str]:
    """The lines of a prompt, those that one sentence runs over joined."""
    held = ""
    for raw in [*body.split("\n"), ""]:
        line = _TAG.sub("", raw).rstrip()
        own = len(line) < _LONG and (_ROLE.fullmatch(line) or _ONLY_PLACE.fullmatch(line))
        fresh = own or not line.strip() or _BULLET.match(line) or line.startswith("#") or _labelled(line)
        if held.endswith(":") and re.match(r"\s*(?:\{(?![{%])|\[)", line):
            yield f"{held} {line.strip()}"
            held = ""
            continue
        runs_on = 0 < len(held) < _LONG and held[-1] not in ".:!?;"
        if runs_on and not fresh and (line.lstrip()[:1].islower() or len(held) > 50):
            held = f"{held} {line.strip()}"
            continue
        if held:
            yield held
        held = "" if own or not line.strip() else line
    if held:
        yield held


def _labelled(line: str) -> re.Match[str] | None:
    return _LABEL.fullmatch(line) if len(line) < _LONG else None


def labels(body: str) -> dict[str, str]:
    """The values a prompt offers, each with what it says of it."""
    return described_labels(body) or dict.fromkeys(_choices(body), "")


def described_labels(body: str) -> dict[str, str]:
    """The values of a list with one a line, each with what it is said to mean."""
    found: dict[str, str] = {}
    run: dict[str, str] = {}
    before = ""
    for line in [*body.split("\n"), "."]:
        label = _labelled(line)
        if label and not _ROLE.fullmatch(line):
            run[label[1]] = label[2].strip()
        elif line.strip():
            if len(run) > 1 and _OFFERS.search(before):
                found |= run
            run, before = {}, line
    return found


def _choices(body: str) -> list[str]:
    """The values of a sentence such as: one of good, bad or fair."""
    for pattern in (_CHOICES, _AS):
        for line in body.split("\n"):
            said = pattern.search(line)
            parts = re.split(r",\s*(?:or\s+)?|\s+or\s+", said[1]) if said else []
            values = [part.strip(" \"'`“”*()") for part in parts]
            if len(values) > 1 and all(0 < len(value) <= 30 and len(value.split()) < 4 for value in values):
                return values
    return []


def intent(body: str) -> str:
    """The purpose in a sentence that begins with a verb, if the prompt has one."""
    said = [one.rstrip(_CLOSING) for one in sentences(body)]
    for one in said:
        who = _WHO.fullmatch(one)
        if who and who[2]:
            verb, _, rest = who[2].partition(" ")
            return _sentence(f"{base(verb)} {rest}")
        plain = opened(one)
        first = plain.partition(" ")[0].lower()
        if first in VERBS or (plain != one and first not in NO_VERBS):
            return _sentence(plain)
    if role := next((one for one in said if _WHO.fullmatch(one)), None):
        return _sentence(f"Act as {role[8:]}")
    return _sentence(f"Do what the prompt says: {said[0]}" if said else "Answer what the user sends")


def _sentence(text: str) -> str:
    text = " ".join(text.split())[:400]
    return closed(f"{text[:1].upper()}{text[1:]}")


def rules(body: str, most: int) -> list[str]:
    """What a prompt prescribes about the output, the strictest sentences first if there are too many."""
    said, offered = sentences(body), labels(body)
    special = [value for one in said if _IF.match(one) for value in special_values(one)]
    values = f"The output keeps to the values of this list: {', '.join(dict.fromkeys([*offered, *special]))}."
    ranked: dict[str, tuple[int, int]] = {}
    for place, one in enumerate(said):
        listing = offered and one.endswith(":") and _OFFERS.search(one)
        rank, rule = (0, values) if listing else _rule(one)
        ranked.setdefault(rule, (rank, place))
    if offered and not any(all(value in rule for value in offered) for rule in ranked):
        ranked[values] = (0, 0)
    for place, rule in enumerate(_GENERIC):
        ranked[rule] = (9, place)
    wanted = sum(1 for rank, _ in ranked.values() if rank < 3)
    best = sorted(ranked, key=lambda rule: ranked[rule])[: max(1, min(most, max(wanted, 3)))]
    return sorted(best, key=lambda rule: (ranked[rule][0] == 9, ranked[rule][1]))


def _rule(said: str) -> tuple[int, str]:
    """A sentence as a statement about the output, and how much it looks like a rule: 0 is most."""
    plain = " ".join(said.split()).rstrip(_CLOSING)
    strict = bool(_STRICT.search(plain))
    if condition := _IF.match(plain):
        commas = [comma.start() for comma in re.finditer(r", ", plain)][:20]
        for at, sure in [*((at, True) for at in reversed(commas)), *((at, False) for at in commas)]:
            if told := predicate(plain[at + 2 :], sure=sure):
                return 0, closed(f"{plain[:at]}, the output {told}")
        if condition[0].lower() == "for":
            return 3, closed(f"The output keeps to this: {plain}")
    who = _WHO.fullmatch(plain)
    if who and who[2]:
        verb, _, rest = who[2].partition(" ")
        return 1, closed(f"The output serves to {base(verb)} {rest}")
    if who:
        return 4, closed(f"The output suits this role: {plain}")
    if told := predicate(plain):
        return (0 if strict else 1), closed(f"The output {told}")
    return (2 if strict else 3), closed(f"The output keeps to this: {plain}")


def special_values(text: str) -> list[str]:
    """The values that a text names between quotation marks, or behind `answer` or `is`."""
    if "{" in text:
        return []
    quoted = re.findall(r"[\"“`]([^\"“”`\n]{1,200})[\"”`]", text)
    value = r"([A-Z0-9][\w$-]*|yes|no|true|false|unknown|none|null|neither|other)\W*$"
    bare = re.findall(rf"\b(?:answer|is|is not|be|say) (?:exactly |only |the word )*{value}", text)
    return quoted or bare


def subjects_in(body: str) -> list[str]:
    """What the prompt speaks of: a few words of it that stand side by side and carry meaning."""
    found: list[str] = []
    for said in sentences(body):
        for run in re.findall(r"\b(?:about|regarding|of|on) ((?:[^\W\d_]+,? ){0,9}[^\W\d_]+)", said):
            for part in re.split(r", (?:and |or )?| and | or ", run):
                words = part.split()
                while words and words[0].lower() in STOP:
                    words.pop(0)
                cut = next((at for at, word in enumerate(words) if word.lower() in STOP), len(words))
                found += [" ".join(words[: min(cut, 3)])] if words[:cut] else []
    return list(dict.fromkeys(found))
