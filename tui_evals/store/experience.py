"""What earlier answers and verdicts cost and took, which is what the next ones may be expected to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tui_evals.light_records import dataclass

from .reader import Reader
from .records import RunRow

Place = tuple[str, str, int]
"""The name of a prompt, the name of an item, and a turn of it, from 0."""


@dataclass(frozen=True, slots=True)
class Rate:
    """What one call took: the mean of those that were made."""

    count: int
    cost: float | None
    """None where the price of one of them is not known."""
    input_tokens: float | None
    output_tokens: float | None
    cached_tokens: float
    milliseconds: float | None


Rates = Mapping[Place, Rate]

_MEANS = (
    "count(*), CASE WHEN count({0}cost) = count(*) THEN avg({0}cost) END, avg({0}input_tokens), "
    "avg({0}output_tokens), avg({0}cached_tokens), avg({0}latency_ms)"
)
_ANSWERS = (
    f"SELECT prompt, name, turn, {_MEANS.format('')} FROM answers WHERE run = ? AND target = ? AND code IS NULL "
    "AND body IS NOT NULL AND scripted = 0 GROUP BY prompt, name, turn"
)
"""Those from the cache too: each keeps the cost and the time of the call that once gave it."""
_VERDICTS = (
    f"SELECT a.prompt, a.name, a.turn, {_MEANS.format('c.')} FROM calls c JOIN answers a ON a.id = c.answer "
    "WHERE c.run = ? AND c.kind = 'judge' AND c.target = ? AND c.code IS NULL AND c.from_cache = 0 "
    "GROUP BY a.prompt, a.name, a.turn"
)
_FIRST_JUDGING = "started < ifnull((SELECT min(created) FROM passes WHERE run = ?1 AND pass > 1), 1e18)"


def runs_of_dataset(reader: Reader, source: str, snapshot: str | None, limit: int) -> Iterator[RunRow]:
    """The latest runs of a dataset, by the name its runs have for it; with a `snapshot` only of that version."""
    query = (
        "SELECT id FROM runs WHERE source = ?1 AND ifnull(?2, snapshot) = snapshot AND total IS NOT NULL "
        "ORDER BY id DESC LIMIT ?3"
    )
    for (run,) in reader.query(query, [source, snapshot, limit]):
        yield reader.run(run)


def answer_rates(reader: Reader, run: RunRow, target: int) -> Rates:
    """What the answers of a target of a run cost and took."""
    return _rates(reader, run, _ANSWERS, target)


def verdict_rates(reader: Reader, run: RunRow, judge: str) -> Rates:
    """What each call of a judge of a run cost and took, by the answer it was about."""
    return _rates(reader, run, _VERDICTS, judge)


def _rates(reader: Reader, run: RunRow, query: str, who: int | str) -> Rates:
    rows = reader.query(query, [run.id, who])
    return {(_name(run.prompts, prompt), name, turn): Rate(*means) for prompt, name, turn, *means in rows}


def _name(prompts: Sequence[str], number: int) -> str:
    return prompts[number] if number < len(prompts) else ""


def mean_rate(rates: Rates) -> Rate | None:
    """The mean of all of them; None where there is none."""
    all_rates = list(rates.values())
    if not all_rates:
        return None
    return Rate(
        count=sum(rate.count for rate in all_rates),
        cost=_mean(all_rates, "cost", whole=True),
        input_tokens=_mean(all_rates, "input_tokens"),
        output_tokens=_mean(all_rates, "output_tokens"),
        cached_tokens=_mean(all_rates, "cached_tokens") or 0.0,
        milliseconds=_mean(all_rates, "milliseconds"),
    )


def _mean(rates: Sequence[Rate], name: str, *, whole: bool = False) -> float | None:
    known: list[tuple[Any, int]] = [(getattr(rate, name), rate.count) for rate in rates]
    values = [(value, count) for value, count in known if value is not None]
    if not values or (whole and len(values) < len(known)):
        return None
    return float(sum(value * count for value, count in values) / sum(count for _, count in values))


def asked_all(reader: Reader, run: RunRow) -> bool:
    """Whether every answer and verdict of a run was asked for, and none came from the cache."""
    query = f"SELECT 1 FROM calls WHERE run = ?1 AND from_cache = 1 AND {_FIRST_JUDGING} LIMIT 1"
    return not reader.totals(run.id).cached and not reader.query(query, [run.id])


def cost_of_run(reader: Reader, run: RunRow) -> float:
    """What all calls of a run cost, without those of later judgings."""
    query = f"SELECT total(cost) FROM calls WHERE run = ?1 AND {_FIRST_JUDGING}"
    return float(reader.query(query, [run.id])[0][0])


def kept_scores(reader: Reader, run: RunRow) -> tuple[int, int]:
    """How many scores that count were kept from earlier judgings, and how many were made in the last."""
    query = (
        "SELECT total(s.origin > 0), total(s.origin = 0) FROM answers a JOIN scores s ON s.answer = a.id "
        "WHERE a.run = ? AND s.pass = ?"
    )
    ((kept, made),) = reader.query(query, [run.id, run.scoring_pass])
    return int(kept), int(made)
