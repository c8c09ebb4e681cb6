"""Facts of an answer, each declared once: its name and value, and how every face shows it.

The columns, sorting and filters of the results, the tables of exports, the rows of the library, what `show`, the
workbench and the HTML page say of one answer, and the tables of the manual are made from `FACTS`. A fact that the
store has to keep also needs a field of `AnswerRow` and a column in `schema.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from tui_evals.light_records import dataclass
from tui_evals.store.records import AnswerRecord, AnswerRow
from tui_evals.text.measures import compact, duration, money, plain_number, tokens, tokens_per_second
from tui_evals.text.model_output import ENDINGS, ending_word

Kind = Literal["text", "whole", "number", "yes or no"]
"""The type of a fact's value, in files with types."""
Unit = Literal["score", "time", "money", "count", "words"]
"""The type of a filter's value: `count` is any whole number, `words` may contain `*`."""


@dataclass(frozen=True, slots=True)
class FactFilter:
    """The condition on a fact in a filter: `WORD:value`."""

    word: str
    example: str
    about: str
    unit: Unit
    body: bool = False
    """The value is in the body of the answer instead of a column of the table."""


@dataclass(frozen=True, slots=True)
class FactColumn:
    """A column of the table of results."""

    heading: str
    width: int
    importance: int
    """If not all columns fit, more important ones stay; below 50 they come after the evaluators."""
    text: Callable[[AnswerRow], str]
    wide: int = 0
    """Its width in a table of at least 120 cells, if that differs."""
    right: bool = False
    warns: bool = False
    where: str = ""
    """The SQL condition of answers that have the fact; by default the column is not NULL."""
    has: Callable[[AnswerRow], bool] | None = None
    """The condition `where` in Python; by default its cell is not empty."""

    def is_filled(self, row: AnswerRow) -> bool:
        """Whether an answer has something to show in this column."""
        return bool(self.text(row)) if self.has is None else self.has(row)


@dataclass(frozen=True, slots=True)
class AnswerFact:
    """One fact of an answer."""

    name: str
    """Its name in exports and in the library; a column of the store if answers are sorted or filtered by it."""
    kind: Kind
    about: str
    """A sentence of the manual."""
    value: Callable[[AnswerRow, AnswerRecord | None], Any]
    """The value in exports and in the library; None where there is none."""
    words: Callable[[AnswerRow, AnswerRecord], str] | None = None
    """Its words for one answer; empty if there are none."""
    is_origin: bool = False
    """Whether its words tell where the answer comes from; they are shown first."""
    column: FactColumn | None = None
    filter: FactFilter | None = None
    sort: str = ""
    """The name for sorting by it; empty if answers cannot be sorted by it."""
    largest_first: bool = False


def _score_text(row: AnswerRow) -> str:
    return "" if row.score is None else f"{row.score:.1f}".removesuffix(".0")


def _was_asked(row: AnswerRow) -> bool:
    return row.latency_ms is not None and not row.from_cache


def _latency_text(row: AnswerRow, record: AnswerRecord | None = None) -> str:
    return duration((row.latency_ms or 0.0) / 1000) if _was_asked(row) else ""


def _first_token_words(row: AnswerRow, record: AnswerRecord) -> str:
    if record.first_token_ms is None or not _was_asked(row):
        return ""
    return f"first token after {duration(record.first_token_ms / 1000)}"


def _cost_text(row: AnswerRow) -> str:
    if row.scripted or row.from_cache:
        return "scripted" if row.scripted else "cached"
    if row.cost is None:
        return "" if row.code else "?"
    return money(row.cost)


def _cost_words(row: AnswerRow, record: AnswerRecord) -> str:
    if row.from_cache or row.scripted:
        return ""
    return money(row.cost) if row.cost is not None else "" if row.code else "unpriced"


def _tokens_text(row: AnswerRow) -> str:
    read, written = row.input_tokens, row.output_tokens
    return "" if read is None and written is None else f"{compact(read)}+{compact(written)}"


def _tokens_words(row: AnswerRow, record: AnswerRecord) -> str:
    note = (record.diagnostics or {}).get("usage")  # says that the provider stated impossible counts
    said = tokens(row) or (f"tokens {note}" if isinstance(note, str) else "")
    pace = tokens_per_second(row.output_tokens, row.latency_ms)
    if record.first_token_ms is None or pace is None or not _was_asked(row):
        return said
    return " · ".join(part for part in (said, f"{plain_number(pace)} tokens/s") if part)


def _attempts_words(row: AnswerRow, record: AnswerRecord | None = None) -> str:
    return f"{row.attempts:,} attempts" if row.attempts > 1 else ""


def ending_text(word: str) -> str:
    """How an answer ended, where that is not as usual."""
    return ENDINGS.get(word) or (f"ended with {word}" if word not in ("", "stop") else "")


INCOMPLETE = (
    "EXISTS (SELECT 1 FROM scores WHERE scores.answer = answers.id AND scores.evaluator = 'LeftOut' "
    "AND scores.pass = (SELECT scoring_pass FROM runs WHERE runs.id = answers.run))"
)
"""The SQL condition of answers whose verdict lacks an assertion that an import left out."""
_MAY_BE_INCOMPLETE = (
    "(SELECT instr(document, 'LeftOut') FROM snapshots JOIN runs ON runs.snapshot = snapshots.hash WHERE runs.id = ?1)"
)
"""The SQL condition that run ?1 may have such answers, found without its scores."""


FACTS: tuple[AnswerFact, ...] = (
    AnswerFact(
        "category",
        "text",
        "the category of the item",
        lambda row, _: row.category or None,
    ),
    AnswerFact(
        "status",
        "text",
        "pass, fail, scored, partial, error or unjudged; pending or running while the answer is missing",
        lambda row, _: row.status,
        sort="status",
    ),
    AnswerFact(
        "score",
        "number",
        "the score out of 100; empty where nothing was judged",
        lambda row, _: row.score,
        column=FactColumn("score", 5, 20, _score_text, right=True),
        filter=FactFilter("score", "score:<50", "the score out of 100, compared by < <= > >= or =", "score"),
        sort="score",
    ),
    AnswerFact(
        "error_code",
        "text",
        "why there is no answer, as a code",
        lambda _, record: record.code if record else None,
    ),
    AnswerFact(
        "error_message",
        "text",
        "why there is no answer, in the words of the target",
        lambda _, record: record.message if record else None,
    ),
    AnswerFact(
        "latency_ms",
        "number",
        "how long the answer took, in milliseconds; of a cached answer, how long it took when it was asked",
        lambda row, _: row.latency_ms,
        words=_latency_text,
        column=FactColumn(
            "latency", 7, -1, _latency_text, right=True, where="latency_ms IS NOT NULL AND NOT from_cache"
        ),
        filter=FactFilter("latency", "latency:>2s", "how long the answer took: < <= > >= and ms, s or m", "time"),
        sort="latency",
        largest_first=True,
    ),
    AnswerFact(
        "first_token_ms",
        "number",
        "how long a streamed answer took to begin, in milliseconds",
        lambda _, record: record.first_token_ms if record else None,
        words=_first_token_words,
        filter=FactFilter(
            "first_token", "first_token:>1s", "how long a streamed answer took to begin", "time", body=True
        ),
    ),
    AnswerFact(
        "from_cache",
        "yes or no",
        "whether the answer was in the cache and cost nothing",
        lambda row, _: row.from_cache,
        words=lambda row, _: "from the cache" if row.from_cache else "",
        is_origin=True,
    ),
    AnswerFact(
        "input_tokens",
        "whole",
        "tokens that the model read",
        lambda row, _: row.input_tokens,
        sort="tokens in",
        largest_first=True,
        filter=FactFilter("input_tokens", "input_tokens:>1000", "tokens that the model read", "count"),
    ),
    AnswerFact(
        "output_tokens",
        "whole",
        "tokens that the model wrote",
        lambda row, _: row.output_tokens,
        words=_tokens_words,
        column=FactColumn(
            "tokens",
            9,
            -3,
            _tokens_text,
            right=True,
            where="(input_tokens > 0 OR output_tokens > 0)",
        ),
        filter=FactFilter("output_tokens", "output_tokens:>500", "tokens that the model wrote", "count"),
        sort="tokens out",
        largest_first=True,
    ),
    AnswerFact(
        "cost",
        "number",
        "what the answer cost in US dollars; empty where the price is not known",
        lambda row, _: row.cost,
        words=_cost_words,
        column=FactColumn(
            "cost",
            8,
            -2,
            _cost_text,
            right=True,
            where="(cost > 0 OR (cost IS NULL AND code IS NULL AND NOT scripted AND NOT from_cache))",
            has=lambda row: bool(row.cost) or _cost_text(row) == "?",
        ),
        filter=FactFilter("cost", "cost:>0.01", "what the answer cost in US dollars: < <= > >= or =", "money"),
        sort="cost",
        largest_first=True,
    ),
    AnswerFact(
        "ending",
        "text",
        "why the target ended the answer, where that is unusual: length, content_filter, refusal, …",
        lambda row, _: row.ending or None,
        words=lambda row, record: ending_text(row.ending or ending_word(record.finish_reason)),
        column=FactColumn("ended", 7, 79, lambda row: row.ending, wide=14, warns=True, where="ending != ''"),
        filter=FactFilter("ending", "ending:length", "how the answer ended, in the words of the target", "words"),
        sort="how it ended",
        largest_first=True,
    ),
    AnswerFact(
        "incomplete",
        "yes or no",
        "whether an import left an assertion out of its verdict",
        lambda row, _: row.incomplete,
        words=lambda row, _: "incomplete: an import left an assertion out of this verdict" if row.incomplete else "",
        column=FactColumn(
            *("verdict", 10, 80, lambda row: "incomplete" if row.incomplete else ""),
            warns=True,
            where=f"{_MAY_BE_INCOMPLETE} AND {INCOMPLETE}",
        ),
    ),
    AnswerFact(
        "cached_tokens",
        "whole",
        "tokens of the input that the provider had cached",
        lambda row, _: row.cached_tokens if row.input_tokens is not None else None,
    ),
    AnswerFact(
        "reasoning_tokens",
        "whole",
        "tokens of the output that the model thought with",
        lambda row, _: row.reasoning_tokens if row.output_tokens is not None else None,
    ),
    AnswerFact(
        "attempts",
        "whole",
        "how often the question was sent until this answer came",
        lambda row, _: row.attempts,
        words=_attempts_words,
        filter=FactFilter("attempts", "attempts:>1", "how often the question was sent", "count"),
    ),
)
"""Facts in the order of exports and of every list of facts about an answer."""
