"""Values for the inputs of a prompt, numbered: another number, other values."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from .words import (
    SPEECH,
    exclaimed,
    foreign,
    full_name,
    longer,
    message,
    paragraph,
    sentence,
    topic,
    without_marks,
    word,
)

_LINE = re.compile(r"\s*-\s+(.+?)\s+\(([^()]*)\)(?::\s*(.*))?")
_LENGTHS = (4, 1, 8, 2, 6)
_ABOUT = (
    ("word", r"words?|terms?|tokens?|keyword"),
    ("number", r"numbers?|count|amount|age|year|size|limit|quantity|score|max|min|price"),
    ("boolean", r"boolean|flag|true or false"),
    ("locale", r"locale|culture"),
    ("language", r"languages?|lang"),
    ("email", r"e-?mail address|recipient|sender"),
    ("name", r"(?:user |full |first |last |customer )?name|author|person"),
    ("date", r"date|day|deadline|birthday"),
    ("url", r"url|link|uri|website"),
    ("code", r"code|function|snippet|script|program|diff"),
    ("topic", r"topic|title|subject|theme|headline|product|category"),
    ("sentence", r"sentence|phrase|line|caption|claim|statement"),
    ("message", r"question|query|message|request|prompt|input|user|issue|ticket|problem|task|input text|command"),
)
_KINDS = {"boolean": "boolean", "number": "number", "integer": "number", "array": "list", "object": "object"}
_LOCALES = ("fr-FR", "de-DE", "en-US", "es-MX", "it-IT", "nl-NL", "pl-PL", "pt-BR", "sv-SE", "tr-TR", "ja-JP", "fi-FI")
_LANGUAGES = (
    "French",
    "German",
    "English",
    "Spanish",
    "Italian",
    "Dutch",
    "Polish",
    "Portuguese",
    "Swedish",
    "Turkish",
)
_WORDS = re.compile(r"[^\W\d_][^\W_]+")
ABSENT = re.compile(
    r"\bword\b.{0,20}\bnot\b.{0,20}\b(?:stand|occur|appear|exist|found|contained|part|in)\b", re.IGNORECASE
)
"""A rule for words that are not there."""
_ELSEWHERE = re.compile(
    r"\bnot (?:be )?(?:written )?(?:in )?english\b|\b(?:other|another|foreign) language", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """An input that a test has to give a value."""

    name: str
    kind: str
    choices: tuple[str, ...] = ()


def wanted_in(text: str, columns: Iterable[str] = ()) -> list[Wanted]:
    """The inputs of a list with one a line, those of some columns first where that is known."""
    told = {found[1]: found for line in text.split("\n") if (found := _LINE.fullmatch(line))}
    names = list(columns) or list(told)
    return [_wanted(name, *(told[name].groups()[1:] if name in told else ("", ""))) for name in names]


def _wanted(name: str, kind: str, about: str | None) -> Wanted:
    said = re.search(r"\b(?:one of|either):? ([^.;]+)", about or "", re.IGNORECASE)
    values = [value.strip(" \"'`") for value in re.split(r",\s*(?:or\s+)?|\s+or\s+", said[1])] if said else []
    if len(values) > 1:
        return Wanted(name, "choice", tuple(filter(None, values)))
    return Wanted(name, _KINDS.get(kind) or kind_of(name, about or ""))


def kind_of(name: str, about: str = "") -> str:
    """What kind of text an input is, by its name or else by what is said of it."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])|[_-]+", " ", name).lower().strip()
    for kind, pattern in _ABOUT:
        if re.search(rf"(?:^|\s)(?:{pattern})$", spaced):
            return kind
    if re.match(r"(?:one|a single|the) word\b", about, re.IGNORECASE):
        return "word"
    return "sentence" if re.match(r"(?:an?|one|the) sentence\b", about, re.IGNORECASE) else "text"


def values(
    wanted: Sequence[Wanted], number: int, place: int, rule: str, subject: str, sample: Mapping[str, str]
) -> dict[str, str]:
    """A value for each input; the rule may call for something out of the ordinary."""
    found = {one.name: sample.get(one.name) or _value(one, number, place, subject) for one in wanted}
    texts = [one for one in wanted if one.kind in ("sentence", "text", "message")]
    words = [one for one in wanted if one.kind == "word"]
    if texts and _ELSEWHERE.search(rule):
        found[texts[0].name] = foreign(number)
    if texts and words:
        told, word_ = texts[0].name, words[0].name
        if "interjection" in rule:
            found[told], found[word_] = exclaimed(number)
        elif ABSENT.search(rule):
            found[word_] = next(w for w in map(word, range(number, number + 500)) if w not in found[told])
        elif found[word_] not in found[told] or word_ not in sample:
            found[word_] = _word_of(found[told], number)
    return {name: without_marks(value) or sentence(number) for name, value in found.items()}


def _word_of(text: str, number: int) -> str:
    said: list[str] = _WORDS.findall(text) or [text]
    known = [each for each in said if SPEECH.get(each.lower(), "determiner") != "determiner"] or said
    return known[number % len(known)]


_MADE: Mapping[str, Callable[[int], str]] = {
    "word": word,
    "boolean": lambda number: ("true", "false")[number % 2],
    "language": lambda number: _LANGUAGES[number % len(_LANGUAGES)],
    "locale": lambda number: _LOCALES[number % len(_LOCALES)],
    "email": lambda number: f"{full_name(number).lower().replace(' ', '.')}@example.org",
    "name": full_name,
    "date": lambda number: f"{1990 + number // 336 % 60}-{number // 28 % 12 + 1:02}-{number % 28 + 1:02}",
    "url": lambda number: f"https://example.org/{word(number)}/{number}",
    "code": lambda number: f"def {word(number)}_{number}(count): return count * {number % 97 + 2}",
    "topic": topic,
    "sentence": sentence,
    "list": lambda number: json.dumps([word(number), word(number + 1), sentence(number)]),
    "object": lambda number: json.dumps({"name": full_name(number), "note": sentence(number)}),
}


def _value(one: Wanted, number: int, place: int, subject: str) -> str:
    if one.choices:
        return one.choices[number % len(one.choices)]
    if one.kind == "message":
        return message(number, subject)
    if one.kind == "number":
        small = number % 20_000
        return str((small, -small, small / 4, 100 * small)[place % 4])
    made = _MADE.get(one.kind)
    return paragraph(number, _LENGTHS[place % len(_LENGTHS)]) if made is None else made(number)


def described(name: str, kind: str) -> str:
    """A statement about an input for a specification."""
    said = {
        "word": "is a single word",
        "number": "is a number",
        "boolean": "is true or false",
        "language": "names a language",
        "locale": "is the code of a language and a country",
        "email": "is an e-mail address",
        "name": "is the name of a person",
        "date": "is a date",
        "url": "is the address of a web page",
        "code": "is program code",
        "topic": "names something in a few words",
        "sentence": "is one sentence",
        "message": "is what a user asks or says, in one or more sentences",
    }.get(kind, "holds one or more sentences")
    return f"The {name.replace('_', ' ')} {said}."


def rewritten(text: str, number: int) -> str:
    """An input made longer; of a JSON object every text of several words, and what is but a word stays."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        return _longer(text, number, False)
    return json.dumps({name: _field(name, each, number) for name, each in value.items()}, ensure_ascii=False)


def _field(name: str, value: object, number: int) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return _longer(text, number, kind_of(name) == "sentence") if len(text.split()) > 2 else text


def _longer(text: str, number: int, one_sentence: bool) -> str:
    plain = re.fullmatch(r"[\d.,-]+|true|false|\[.*\]", text.strip(), re.DOTALL)
    return text if plain else longer(text, number, one_sentence)


def columns_of(header: str) -> list[str]:
    """The names in the first line of a CSV."""
    return [cell.strip() for cell in next(csv.reader([header], skipinitialspace=True), [])]
