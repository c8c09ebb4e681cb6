"""The one filter grammar: terms joined by spaces, `!` negates, `fail score:<50 latency:>2s "any words"`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from tui_evals.light_records import dataclass
from tui_evals.text.model_output import ENDINGS
from tui_evals.text.names import did_you_mean

from .answer_facts import FACTS, INCOMPLETE, FactFilter, Unit
from .records import AnswerStatus
from .rows import ANSWER_COLUMNS, PREVIEWED

Condition = tuple[str, list[Any]]
_Compile = Callable[[str, int | None], Condition]
_TERM = re.compile(r'(?P<not>!*)(?:(?P<key>[A-Za-z_]+):)?(?:"(?P<quoted>[^"]*)(?P<end>"?)|(?P<plain>\S*))')
_NUMBER = r"(?P<number>-?[0-9]{1,15}(?:\.[0-9]{1,15})?)"
_COMPARED: Mapping[Unit, tuple[re.Pattern[str], str]] = {
    "score": (re.compile(rf"(?P<sign><=|>=|<|>|=|){_NUMBER}"), "a number"),
    "count": (re.compile(rf"(?P<sign><=|>=|<|>|=|){_NUMBER}"), "a number"),
    "time": (re.compile(rf"(?P<sign><=|>=|<|>){_NUMBER}(?P<unit>ms|s|m|)"), "a time"),
    "money": (re.compile(rf"(?P<sign><=|>=|<|>|=|)\$?{_NUMBER}"), "US dollars"),
}
_MILLISECONDS: Mapping[str, float] = {"ms": 1.0, "s": 1_000.0, "": 1_000.0, "m": 60_000.0}
_PARAM = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:(?P<sign><=|>=|<|>|=)(?P<value>.+))?")
_TURN = re.compile(r"[1-9][0-9]{0,5}")
_CLUSTER = re.compile(r"[0-9a-f]{4,12}")
_MOST_TERMS = 50
_LONGEST = 1_000  # characters of a term; the database refuses patterns some tens of times longer


class FilterError(ValueError):
    """The filter cannot be read; the message names the term."""


@dataclass(frozen=True, slots=True)
class Term:
    """One condition: its key, its value, and whether it is negated."""

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
    if key not in FILTER_KEYS:
        raise FilterError(
            f"there is no filter {key + ':'!r}{did_you_mean(key, FILTER_KEYS)} in {shown[:80]!r}; the filters are "
            f"{', '.join(FILTER_KEYS)}. To search for the text itself put it in quotation marks."
        )
    if not value:
        raise FilterError(f"{shown!r} needs a value after the colon, as in {FILTER_KEYS[key].example}")
    FILTER_KEYS[key].compile(value, None)
    return Term(key, value, negated)


Clusters = Callable[[str], Sequence[int]]
"""The answers of a cluster of failures by its key."""


def compiled(where: Filter, run: int | None, *, in_flight: bool = True, clusters: Clusters | None = None) -> Condition:
    """The filter as an SQL condition on answers, with every value as a parameter; `run` None means all runs.

    Without `in_flight`, the process of the run has ended, so running answers count as pending.
    """
    conditions: list[str] = []
    values: list[Any] = []
    for term in sorted(where.terms, key=_reads_texts):  # cheap conditions first: fewer texts are read
        condition, parameters = _compiler(term)(term.value, run)
        if term.key == "cluster":
            if clusters is None:
                raise FilterError("cluster: is a cluster of one run; name the run")
            parameters = [json.dumps(list(clusters(term.value)))]
        if not in_flight:
            condition = condition.replace("answers.status", _SETTLED)
        conditions.append(f"({condition}) IS {'NOT ' if term.negated else ''}TRUE")
        values += parameters
    return " AND ".join(conditions) or "TRUE", values


def _reads_texts(term: Term) -> bool:
    return term.key == "text"


def by_beginnings(where: Filter) -> Filter | None:
    """The filter with words searched only in names and beginnings; None if it has no words."""
    if not any(map(_reads_texts, where.terms)):
        return None
    return replace(
        where, terms=tuple(replace(one, key="beginning") if _reads_texts(one) else one for one in where.terms)
    )


def _compiler(term: Term) -> _Compile:
    """The compiler of a term; `failed` alone is a word, `failed:Name` has a value."""
    if term.key in ("text", "beginning"):
        return _text if term.key == "text" else _beginning
    return FILTER_KEYS[term.key].compile if term.value else FILTER_WORDS[term.key].compile


_SETTLED = "replace(answers.status, 'running', 'pending')"


def ordered(sort: str | None, descending: bool) -> tuple[str, str, list[Any]]:
    """The join, the order, and the values of the join, for a column or `evaluator:KEY`; nulls come last."""
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
    """A pattern for `LIKE … ESCAPE '~'` in which `*` matches anything and every other character itself."""
    return re.sub(r"[%_~]", r"~\g<0>", value).replace("*", "%")


def _status(value: str, run: int | None) -> Condition:
    known = get_args(AnswerStatus)
    if value not in known:
        raise FilterError(f"there is no status {value!r}{did_you_mean(value, known)}; there are {', '.join(known)}")
    return "answers.status = ?", [value]


def _fact(name: str, wanted: FactFilter) -> _Compile:
    """The condition that a filter sets on a fact."""

    def compile_(value: str, run: int | None) -> Condition:
        if wanted.unit == "words":
            return f"answers.{name} LIKE ? ESCAPE '~'", [like(value)]
        pattern, what = _COMPARED[wanted.unit]
        match = pattern.fullmatch(value)
        if match is None:
            raise FilterError(f"'{wanted.word}:{value}' is not a comparison with {what}; write {wanted.example}")
        number = float(match["number"]) * (_MILLISECONDS[match["unit"]] if wanted.unit == "time" else 1)
        compared = f"{match['sign'] or '='} ?"
        if not wanted.body:
            return f"answers.{name} {compared}", [number]
        return (
            "EXISTS (SELECT 1 FROM bodies b WHERE b.id = answers.body "
            f"AND json_extract(b.answer, '$.{name}') {compared})",
            [number],
        )

    return compile_


def _turn(value: str, run: int | None) -> Condition:
    if not _TURN.fullmatch(value):
        raise FilterError(f"'turn:{value}' is not a turn; write turn:1 for the first")
    return "answers.turn = ?", [int(value) - 1]


def _judged(value: str, run: int | None, result: str = "") -> Condition:
    """Judged by this evaluator in the pass that counts."""
    scope, scoped = _scope("r.id", run)
    return (
        "answers.id IN (SELECT s.answer FROM runs r JOIN answers a ON a.run = r.id JOIN scores s ON s.answer = a.id "
        f"AND s.pass = r.scoring_pass WHERE {scope} {result}AND (s.key LIKE ? ESCAPE '~' "
        "OR s.evaluator LIKE ? ESCAPE '~'))",
        [*scoped, like(value), like(value)],
    )


def _failed(value: str, run: int | None) -> Condition:
    return _judged(value, run, "AND s.result = 'fail' ")


def _column(name: Literal["name", "category"]) -> Callable[[str, int | None], Condition]:
    return lambda value, run: (f"answers.{name} LIKE ? ESCAPE '~'", [like(value)])


_LIKE = "t.value LIKE ? ESCAPE '~'"


def _asked(column: Literal["target", "prompt"]) -> _Compile:
    """The target, or the prompt under test, has this name, or has it behind a provider or before varied parameters."""

    forms = ("{}", "%/{}", "{}@%", "%/{}@%") if column == "target" else ("{}", "%/{}")

    def compile_(value: str, run: int | None) -> Condition:
        scope, scoped = _scope("r.id", run)
        return (
            f"(answers.run, answers.{column}) IN (SELECT r.id, t.key FROM runs r, json_each(r.{column}s) t "
            f"WHERE {scope} AND ({' OR '.join([_LIKE] * len(forms))}))",
            [*scoped, *(form.format(like(value)) for form in forms)],
        )

    return compile_


def _cluster(value: str, run: int | None) -> Condition:
    """In a cluster of the failure map; the answers are found when the run is read."""
    if not _CLUSTER.fullmatch(value):
        raise FilterError(f"'cluster:{value}' is not the key of a cluster; `tui-evals show RUN --map` lists the keys")
    return "answers.id IN (SELECT value FROM json_each(?))", ["[]"]


def _param(value: str, run: int | None) -> Condition:
    """The target was asked with this parameter, or with this value of it."""
    match = _PARAM.fullmatch(value)
    if match is None:
        raise FilterError(f"'param:{value}' names no parameter; write param:temperature=0.7 or param:temperature>0.5")
    scope, scoped = _scope("r.id", run)
    sign, wanted = match["sign"], match["value"] or ""
    values: list[Any] = []
    condition = "TRUE"
    if sign:
        number = re.fullmatch(_NUMBER, wanted)
        if sign != "=" and number is None:
            raise FilterError(f"'param:{value}' compares with no number; write param:{match['name']}{sign}0.5")
        numeric = f"p.type IN ('integer', 'real') AND p.value {sign} ?"
        spelled = "CASE WHEN p.type IN ('true', 'false') THEN p.type ELSE p.value END LIKE ? ESCAPE '~'"
        condition, values = (numeric, [float(wanted)]) if number is not None else (spelled, [like(wanted)])
    return (
        "(answers.run, answers.target) IN (SELECT r.id, t.key FROM runs r, json_each(r.config, '$.targets') t, "
        f"json_each(t.value, '$.params') p WHERE {scope} AND t.type = 'object' AND p.key = ? AND {condition})",
        [*scoped, match["name"], *values],
    )


def _label(value: str, run: int | None) -> Condition:
    """People's latest verdict on the answer as a whole is this one, or a note of theirs holds this text."""
    scope, scoped = _scope("l.run", run)
    of_answers = f"answers.id IN (SELECT l.answer FROM labels l WHERE {scope} AND l.evaluator IS NULL AND"
    if value in VERDICT_WORDS:
        latest = "l.id = (SELECT max(x.id) FROM labels x WHERE x.run = l.run AND x.answer = l.answer "
        return (
            f"{of_answers} l.verdict = ? AND {latest}AND x.evaluator IS NULL))",
            [*scoped, VERDICT_WORDS[value]],
        )
    return f"{of_answers} l.note LIKE ? ESCAPE '~')", [*scoped, f"%{like(value)}%"]


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


def _variable(value: str, run: int | None) -> Condition:
    """The item gives a variable this value."""
    name, sign, wanted = value.partition("=")
    if not (name and sign):
        raise FilterError(f"'variable:{value}' names no value; write variable:plan=gold")
    scope, scoped = _scope("r.id", run)
    return (
        "(answers.run, answers.item) IN (SELECT r.id, i.key FROM runs r JOIN snapshots s ON s.hash = r.snapshot, "
        f"json_each(s.document, '$.items') i, json_each(i.value, '$.variables') v WHERE {scope} AND v.key = ? "
        "AND v.value LIKE ? ESCAPE '~')",
        [*scoped, name, like(wanted)],
    )


def _beginning(value: str, run: int | None) -> Condition:
    pattern = f"%{like(value.replace('*', chr(0))).replace(chr(0), '*')}%"
    return "answers.name LIKE ? ESCAPE '~' OR answers.preview LIKE ? ESCAPE '~'", [pattern] * 2


def _text(value: str, run: int | None) -> Condition:
    condition, patterns = _beginning(value, run)
    body = "(SELECT b.text LIKE ? ESCAPE '~' FROM bodies b WHERE b.id = answers.body)"
    return f"{condition} OR {body}", [*patterns, patterns[0]]


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


_ERROR = (
    "answers.code LIKE ? ESCAPE '~' OR (SELECT json_extract(b.answer, '$.message') LIKE ? ESCAPE '~' "
    "FROM bodies b WHERE b.id = answers.body AND answers.code IS NOT NULL)"
)


def _error(value: str, run: int | None) -> Condition:
    """Matches missing answers whose error code or message contains `value`."""
    return f"answers.status = 'error' AND ({_ERROR})", [f"%{like(value)}%"] * 2


def _cause(value: str, run: int | None) -> Condition:
    """The code or message of the error, or the reason of an evaluator that could not judge, holds this text."""
    pattern = f"%{like(value)}%"
    return (
        f"{_ERROR} OR EXISTS (SELECT 1 FROM scores s JOIN runs r ON r.id = answers.run WHERE s.answer = answers.id "
        "AND s.pass = r.scoring_pass AND s.result = 'error' AND s.reason LIKE ? ESCAPE '~')",
        [pattern] * 3,
    )


VERDICT_WORDS: Mapping[str, Literal["pass", "fail"]] = {"good": "pass", "bad": "fail"}
"""The words for labels, with the verdicts that are stored."""


@dataclass(frozen=True, slots=True)
class FilterKey:
    """A key before a colon: an example with a value, its description, and its condition."""

    example: str
    about: str
    compile: _Compile


FILTER_KEYS: Mapping[str, FilterKey] = {
    "status": FilterKey("status:fail", "the status is this one; its word alone says the same", _status),
    **{
        wanted.word: FilterKey(wanted.example, wanted.about, _fact(fact.name, wanted))
        for fact in FACTS
        if (wanted := fact.filter) is not None
    },
    "evaluator": FilterKey("evaluator:Match", "this evaluator judged it", _judged),
    "failed": FilterKey("failed:Match", "this evaluator failed it", _failed),
    "error": FilterKey("error:timeout", "there is no answer, and the code or message of the error holds this", _error),
    "cause": FilterKey("cause:backend", "the same, and errors of evaluators that could not judge", _cause),
    "cluster": FilterKey("cluster:3fa90c12", "in this cluster of `show RUN --map`", _cluster),
    "label": FilterKey("label:bad", "a person's verdict: good or bad; or words of the note; * is any", _label),
    "category": FilterKey("category:billing", "the category of the item", _column("category")),
    "tag": FilterKey("tag:smoke", "a tag of the item, the turn or the run", _tag),
    "id": FilterKey("id:MT-*", "the testId of the item, or #3 for the third", _column("name")),
    "target": FilterKey("target:gpt-4o", "the target that answered, with or without its provider", _asked("target")),
    "prompt": FilterKey("prompt:short", "the prompt under test, by its name", _asked("prompt")),
    "param": FilterKey("param:temperature=0.7", "asked with this parameter; = < <= > >= compare its value", _param),
    "variable": FilterKey("variable:plan=gold", "the item gives the variable this value; * is any text", _variable),
    "turn": FilterKey("turn:2", "the turn of the conversation, from 1", _turn),
}
"""All keys that can precede a colon; help and hints list them."""


@dataclass(frozen=True, slots=True)
class FilterWord:
    """A word that is a condition by itself; put it in quotation marks to search for its text."""

    about: str
    compile: _Compile


def _word(column: Literal["status", "ending"], value: str, about: str) -> FilterWord:
    return FilterWord(about, lambda _, run: (f"answers.{column} = ?", [value]))


STATUS_WORDS: Mapping[str, AnswerStatus] = {
    **{status: status for status in get_args(AnswerStatus)},
    "failed": "fail",
    "errored": "error",
}
"""Words that mean a status."""
FILTER_WORDS: Mapping[str, FilterWord] = {
    **{word: _word("status", status, f"status {status}") for word, status in STATUS_WORDS.items()},
    "empty": FilterWord("the answer says nothing", _empty),
    "incomplete": FilterWord(
        "an assertion of another tool was left out of its verdict", lambda _, run: (INCOMPLETE, [])
    ),
    "flaky": FilterWord("some repeats pass and others fail", _flaky),
    **{ending: _word("ending", ending, about) for ending, about in ENDINGS.items()},
}
"""Every word, the same for the command line, the workbench, reports and the library; a status is a word by itself."""
SHOWN_WORDS = tuple(
    word for word in FILTER_WORDS if word not in ("failed", "errored", "pending", "running", "answered")
)
"""The words that help and hints list: no synonyms, and no status that is only temporary."""
