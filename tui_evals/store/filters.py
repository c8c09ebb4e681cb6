"""The one filter grammar: terms joined by spaces, `!` negates, `fail score:<50 category:x "any words"`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from tui_evals.text.nearest import did_you_mean

from .records import ENDINGS, AnswerStatus
from .rows import ANSWER_COLUMNS, PREVIEWED

Condition = tuple[str, list[Any]]
_Compile = Callable[[str, int | None], Condition]
_TERM = re.compile(r'(?P<not>!*)(?:(?P<key>[A-Za-z_]+):)?(?:"(?P<quoted>[^"]*)(?P<end>"?)|(?P<plain>\S*))')
_SCORE = re.compile(r"(?P<sign><=|>=|<|>|=|)(?P<number>-?[0-9]{1,15}(?:\.[0-9]{1,15})?)")
_TURN = re.compile(r"[1-9][0-9]{0,5}")
_MOST_TERMS = 50
_LONGEST = 1_000  # characters of a term; the database refuses patterns some tens of times longer


class FilterError(ValueError):
    """The filter cannot be read; the message names the term."""


@dataclass(frozen=True, slots=True)
class Term:
    """One condition: what it looks at, the value it wants, and whether it is turned round."""

    key: str
    value: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions that must all hold."""

    text: str
    terms: tuple[Term, ...]


def parse_filter(text: str) -> Filter:
    """Read a filter, or say which of its terms is wrong."""
    terms: list[Term] = []
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        match = _TERM.match(text, position)
        assert match is not None  # the pattern can match nothing at all
        terms.append(_term(match))
        position = match.end()
    if len(terms) > _MOST_TERMS:
        raise FilterError(f"the filter has {len(terms)} terms, and {_MOST_TERMS} is the most; leave some out")
    return Filter(text, tuple(terms))


def _term(match: re.Match[str]) -> Term:
    shown = match.group()
    if match["quoted"] is not None and not match["end"]:
        raise FilterError(f"the quotation that begins with {shown[:80]!r} is never closed; add a quotation mark")
    key, value = match["key"], match["plain"] if match["quoted"] is None else match["quoted"]
    if len(value) > _LONGEST or "\0" in value or not value.isprintable():
        raise FilterError(f"the term {shown[:40]!r} is too long or holds control characters; shorten it")
    negated = len(match["not"]) % 2 == 1
    if key is None:
        if match["quoted"] is None and value in FILTER_WORDS:
            return Term(value, "", negated)
        if not value:
            raise FilterError(f"the term {shown!r} says nothing; put a word or a condition there")
        return Term("text", value, negated)
    if key == "kind":
        raise FilterError(f"{shown!r} tells changes between two runs apart; use it with `tui-evals compare`")
    if key not in _KEYS:
        raise FilterError(
            f"there is no filter {key + ':'!r}{did_you_mean(key, _KEYS)} in {shown[:80]!r}; the filters are "
            f"{', '.join(_KEYS)}. To search for the text itself put it in quotation marks."
        )
    if not value:
        raise FilterError(f"{shown!r} needs a value after the colon")
    _KEYS[key](value, None)
    return Term(key, value, negated)


def compiled(where: Filter, run: int | None, *, in_flight: bool = True) -> Condition:
    """The filter as a condition on the table of answers, with every value as a parameter; `run` None means all runs.

    Without `in_flight` the process of the run is gone, and what it had asked is pending.
    """
    conditions: list[str] = []
    values: list[Any] = []
    for term in where.terms:
        compile_ = FILTER_WORDS[term.key].compile if term.key in FILTER_WORDS else (_KEYS | {"text": _text})[term.key]
        condition, parameters = compile_(term.value, run)
        if not in_flight:
            condition = condition.replace("answers.status", _SETTLED)
        conditions.append(f"({condition}) IS {'NOT ' if term.negated else ''}TRUE")
        values += parameters
    return " AND ".join(conditions) or "TRUE", values


_SETTLED = "replace(answers.status, 'running', 'pending')"


def ordered(sort: str | None, descending: bool) -> tuple[str, str, list[Any]]:
    """What to join, the order, and the values of the join, for a column or `evaluator:KEY`; nulls come last."""
    way = "DESC" if descending else "ASC"
    if sort is None:
        return "", f"answers.pos {way}", []
    name, _, key = sort.partition(":")
    if name == "evaluator" and key:
        join = (
            " JOIN runs r ON r.id = answers.run "
            "LEFT JOIN scores s ON s.answer = answers.id AND s.pass = r.scoring_pass AND s.key = ?"
        )
        return join, f"s.score {way} NULLS LAST, answers.pos", [key]
    if sort not in ANSWER_COLUMNS:
        raise FilterError(f"answers cannot be sorted by {sort!r}{did_you_mean(sort, ANSWER_COLUMNS)}")
    return "", f"answers.{sort} {way} NULLS LAST, answers.pos", []


def like(value: str) -> str:
    """A pattern for `LIKE … ESCAPE '~'` in which `*` stands for anything and every other sign for itself."""
    return re.sub(r"[%_~]", r"~\g<0>", value).replace("*", "%")


def _status(value: str, run: int | None) -> Condition:
    known = get_args(AnswerStatus)
    if value not in known:
        raise FilterError(f"there is no status {value!r}{did_you_mean(value, known)}; there are {', '.join(known)}")
    return "answers.status = ?", [value]


def _score(value: str, run: int | None) -> Condition:
    match = _SCORE.fullmatch(value)
    if match is None:
        raise FilterError(f"'score:{value}' is not a comparison with a number; write score:<50 or score:>=99.5")
    return f"answers.score {match['sign'] or '='} ?", [float(match["number"])]


def _turn(value: str, run: int | None) -> Condition:
    if not _TURN.fullmatch(value):
        raise FilterError(f"'turn:{value}' is not a turn; write turn:1 for the first")
    return "answers.turn = ?", [int(value) - 1]


def _evaluator(value: str, run: int | None) -> Condition:
    """Judged by this evaluator in the pass that counts."""
    return (
        "EXISTS (SELECT 1 FROM scores s JOIN runs r ON r.id = answers.run WHERE s.answer = answers.id "
        "AND s.pass = r.scoring_pass AND (s.key LIKE ? ESCAPE '~' OR s.evaluator LIKE ? ESCAPE '~'))",
        [like(value), like(value)],
    )


def _column(name: Literal["name", "category"]) -> Callable[[str, int | None], Condition]:
    return lambda value, run: (f"answers.{name} LIKE ? ESCAPE '~'", [like(value)])


def _target(value: str, run: int | None) -> Condition:
    scope, scoped = _scope("r.id", run)
    return (
        f"(answers.run, answers.target) IN (SELECT r.id, t.key FROM runs r, json_each(r.targets) t "
        f"WHERE {scope} AND t.value LIKE ? ESCAPE '~')",
        [*scoped, like(value)],
    )


def _tag(value: str, run: int | None) -> Condition:
    """A tag of the item, of the turn, or of the run."""
    scope, scoped = _scope("r.id", run)
    items = "runs r JOIN snapshots s ON s.hash = r.snapshot, json_each(s.document, '$.items') i"
    tagged = f"{scope} AND tag.value LIKE ? ESCAPE '~'"
    parameters = [*scoped, like(value)]
    return (
        f"answers.run IN (SELECT r.id FROM runs r, json_each(r.tags) tag WHERE {tagged}) OR "
        f"(answers.run, answers.item) IN (SELECT r.id, i.key FROM {items}, "
        f"json_each(i.value, '$.tags') tag WHERE {tagged}) OR "
        f"(answers.run, answers.item, answers.turn) IN (SELECT r.id, i.key, u.key FROM {items}, "
        f"json_each(i.value, '$.turns') u, json_each(u.value, '$.tags') tag WHERE {tagged})",
        parameters * 3,
    )


def _text(value: str, run: int | None) -> Condition:
    pattern = f"%{like(value.replace('*', chr(0))).replace(chr(0), '*')}%"
    return (
        "answers.name LIKE ? ESCAPE '~' OR answers.preview LIKE ? ESCAPE '~' OR "
        "(SELECT b.text LIKE ? ESCAPE '~' FROM bodies b WHERE b.id = answers.body)",
        [pattern] * 3,
    )


def _flaky(value: str, run: int | None) -> Condition:
    """Some repeats of the item passed and others failed, in the same column."""
    scope, scoped = _scope("run", run)
    return (
        "(answers.run, answers.prompt, answers.target, answers.item) IN (SELECT run, prompt, target, item FROM answers "
        f"WHERE {scope} AND status IN ('pass', 'fail') GROUP BY run, prompt, target, item, turn "
        "HAVING count(DISTINCT status) > 1)",
        scoped,
    )


def _scope(column: str, run: int | None) -> Condition:
    return ("TRUE", []) if run is None else (f"{column} = ?", [run])


def _empty(value: str, run: int | None) -> Condition:
    """There is an answer, and it says nothing and calls no tool."""
    return (
        "answers.preview = '' AND answers.code IS NULL AND (SELECT length(b.text) <= ? OR trim(b.text, ?) = '' "
        "FROM bodies b WHERE b.id = answers.body)",
        [PREVIEWED, " \t\r\n"],
    )


def _ending(value: str, run: int | None) -> Condition:
    return "answers.ending LIKE ? ESCAPE '~'", [like(value)]


def _cause(value: str, run: int | None) -> Condition:
    """The code or message of the error, or the reason of an evaluator that could not judge, holds this text."""
    pattern = f"%{like(value)}%"
    return (
        "answers.code LIKE ? ESCAPE '~' OR (SELECT json_extract(b.answer, '$.message') LIKE ? ESCAPE '~' "
        "FROM bodies b WHERE b.id = answers.body AND answers.code IS NOT NULL) OR "
        "EXISTS (SELECT 1 FROM scores s JOIN runs r ON r.id = answers.run WHERE s.answer = answers.id "
        "AND s.pass = r.scoring_pass AND s.result = 'error' AND s.reason LIKE ? ESCAPE '~')",
        [pattern] * 3,
    )


_KEYS: dict[str, _Compile] = {
    "status": _status,
    "score": _score,
    "evaluator": _evaluator,
    "category": _column("category"),
    "tag": _tag,
    "id": _column("name"),
    "target": _target,
    "turn": _turn,
    "ending": _ending,
    "cause": _cause,
}


@dataclass(frozen=True, slots=True)
class FilterWord:
    """A word that stands for a condition by itself, in quotation marks for its text."""

    about: str
    compile: _Compile


def _word(column: Literal["status", "ending"], value: str, about: str) -> FilterWord:
    return FilterWord(about, lambda _, run: (f"answers.{column} = ?", [value]))


STATUS_WORDS: Mapping[str, AnswerStatus] = {
    **{status: status for status in get_args(AnswerStatus)},
    "failed": "fail",
    "errored": "error",
}
"""The words that stand for a status."""
FILTER_WORDS: Mapping[str, FilterWord] = {
    **{word: _word("status", status, f"status {status}") for word, status in STATUS_WORDS.items()},
    "empty": FilterWord("the answer says nothing", _empty),
    "flaky": FilterWord("some repeats pass and others fail", _flaky),
    **{ending: _word("ending", ending, about) for ending, about in ENDINGS.items()},
}
"""Every word, the same for the command line, the workbench, reports and the library; a status is a word by itself."""
SHOWN_WORDS = tuple(
    word for word in FILTER_WORDS if word not in ("failed", "errored", "pending", "running", "answered")
)
"""Those that helps and hints list: the others are second spellings, and what an answer is only for a while."""
