"""Figures of a run that the ledger does not count: evaluators, causes, costs, and the rows of a comparison."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import islice
from typing import Any, NamedTuple, cast

from tui_evals.figures import Sample, sample_of, single_answers
from tui_evals.light_records import dataclass
from tui_evals.store import ledger
from tui_evals.store.answer_facts import FACTS
from tui_evals.store.ledger import pages
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerStatus, FailureCause, RunRow
from tui_evals.store.rows import EvaluatorMean, ScoreSpread
from tui_evals.text.measures import common_measure, parse_measure
from tui_evals.text.model_output import ENDINGS
from tui_evals.text.names import cause_of


class Judged(NamedTuple):
    """One score with the fields that comparisons need."""

    answer: int
    key: str
    score: float | None
    result: str | None
    threshold: float | None
    measure: str = ""


JudgedFields = tuple[int, str, float | None, str | None, float | None, str]
"""The fields of `Judged`: of hundreds of thousands, to name and unpack them takes longer than all else."""


class ComparedRow(NamedTuple):
    """An answer as comparisons need it."""

    id: int
    item: int
    turn: int
    prompt: int
    target: int
    repeat: int
    name: str
    category: str
    status: AnswerStatus
    score: float | None
    code: str | None
    preview: str


ComparedFields = tuple[int, int, int, int, int, int, str, str, AnswerStatus, float | None, str | None, str]
"""The fields of `ComparedRow`, as a plain tuple for speed."""


def statuses(reader: Reader, run: int) -> list[tuple[int, int, int, int, int, AnswerStatus]]:
    """The status of every answer: item, repeat, prompt, target, turn and status."""
    return cast(
        "list[tuple[int, int, int, int, int, AnswerStatus]]",
        reader.query("SELECT item, repeat, prompt, target, turn, status FROM answers WHERE run = ?", [run]),
    )


def planned(reader: Reader, run: int) -> Iterator[tuple[int, int, str, AnswerStatus]]:
    """The status of every answer in the order of the plan, paged: position, item, its name and status."""
    left: Mapping[str, AnswerStatus] = {} if reader.in_flight(run) else {"running": "pending"}
    query = "SELECT pos, item, name, status FROM answers WHERE run = ? AND pos >= ? AND pos < ? ORDER BY pos"
    for start, end in pages(reader.query, run):
        for pos, item, name, status in reader.query(query, [run, start, end]):
            yield pos, item, name, left.get(status, status)


def spent(reader: Reader, run: int) -> float:
    """The cost of all calls, including judges and failed attempts."""
    ((cost,),) = reader.query("SELECT total(cost) FROM calls WHERE run = ?", [run])
    return float(cost)


def may_cost(reader: Reader, run: int) -> float:
    """An upper bound of the cost of calls whose cost is unknown."""
    ((cost,),) = reader.query("SELECT total(may_cost) FROM calls WHERE run = ?", [run])
    return float(cost)


def largest_answers(reader: Reader, run: int) -> dict[tuple[str, str], int]:
    """The tokens of the largest answer of each target and judge, by kind and name."""
    query = "SELECT kind, target, max(output_tokens) FROM calls WHERE run = ? GROUP BY kind, target"
    return {(kind, target): largest or 0 for kind, target, largest in reader.query(query, [run])}


_MEANS = (
    "count(*), CASE WHEN count({0}cost) = count(*) THEN avg({0}cost) END, avg({0}input_tokens), "
    "avg({0}output_tokens), avg({0}cached_tokens), avg({0}latency_ms)"
)
_FIRST_JUDGING = "started < ifnull((SELECT min(created) FROM passes WHERE run = ?1 AND pass > 1), 1e18)"


def answer_means(reader: Reader, run: int, target: int) -> list[tuple[Any, ...]]:
    """For each question of a run: its prompt, name and turn, and what a target's answers took.

    That is how many, and the means of cost, of tokens in, out and cached, and of time. Includes cached answers, which
    keep the cost and the time of their original call.
    """
    query = (
        f"SELECT prompt, name, turn, {_MEANS.format('')} FROM answers WHERE run = ? AND target = ? AND code IS NULL "
        "AND body IS NOT NULL AND scripted = 0 GROUP BY prompt, name, turn"
    )
    return reader.query(query, [run, target])


def judging_means(reader: Reader, run: int, judge: str) -> list[tuple[Any, ...]]:
    """What the calls of a judge about each question took, as `answer_means`; without cached replies."""
    query = (
        f"SELECT a.prompt, a.name, a.turn, {_MEANS.format('c.')} FROM calls c JOIN answers a ON a.id = c.answer "
        "WHERE c.run = ? AND c.kind = 'judge' AND c.target = ? AND c.code IS NULL AND c.from_cache = 0 "
        "GROUP BY a.prompt, a.name, a.turn"
    )
    return reader.query(query, [run, judge])


def asked_all(reader: Reader, run: int) -> bool:
    """Whether every answer and verdict of a run was asked for, and none came from the cache."""
    query = f"SELECT 1 FROM calls WHERE run = ?1 AND from_cache = 1 AND {_FIRST_JUDGING} LIMIT 1"
    return not reader.totals(run).cached and not reader.query(query, [run])


def cost_of_run(reader: Reader, run: int) -> float:
    """The cost of all calls of a run, without later rescorings."""
    query = f"SELECT total(cost) FROM calls WHERE run = ?1 AND {_FIRST_JUDGING}"
    return float(reader.query(query, [run])[0][0])


def kept_scores(reader: Reader, run: RunRow) -> tuple[int, int]:
    """How many scores that count were kept from earlier judgings, and how many were made in the last."""
    query = (
        "SELECT total(s.origin > 0), total(s.origin = 0) FROM answers a JOIN scores s ON s.answer = a.id "
        "WHERE a.run = ? AND s.pass = ?"
    )
    ((kept, made),) = reader.query(query, [run.id, run.scoring_pass])
    return int(kept), int(made)


def causes(reader: Reader, run: int) -> tuple[FailureCause, ...]:
    """Why answers are missing, cut or could not be judged, alike ones together, the most frequent first."""
    missing = reader.query(
        "SELECT count(*), '', code, ifnull(json_extract(b.answer, '$.message'), '') AS why, name, min(pos) "
        "FROM answers JOIN bodies b ON b.id = body WHERE run = ? AND code IS NOT NULL "
        "GROUP BY code, why ORDER BY min(pos)",
        [run],
    )
    unjudged = reader.query(
        "SELECT count(*), s.key, ifnull(json_extract(s.details, '$.code'), 'error') AS what, s.reason, name, min(pos) "
        "FROM answers JOIN scores s ON s.answer = answers.id WHERE run = ? AND s.pass = ? AND s.result = 'error' "
        "AND answers.code IS NULL GROUP BY s.key, what, s.reason ORDER BY min(pos)",
        [run, reader.run(run).scoring_pass],
    )
    cut = reader.query(
        "SELECT count(*), '', ending, '', name, min(pos) FROM answers "
        "WHERE run = ? AND ending IN (SELECT value FROM json_each(?)) AND code IS NULL GROUP BY ending",
        [run, json.dumps(list(ENDINGS))],
    )
    alike: dict[tuple[str, str, str], FailureCause] = {}
    for *row, _ in [*missing, *unjudged, *cut]:
        cause = FailureCause(*row)
        key = (cause.evaluator, cause.code, cause_of(cause.message))
        known = alike.get(key)
        alike[key] = cause if known is None else replace(known, count=known.count + cause.count)
    return tuple(
        replace(cause, message=cause.message or ENDINGS.get(cause.code, ""))
        for cause in sorted(alike.values(), key=lambda cause: -cause.count)
    )


def endings(reader: Reader, run: int) -> dict[str, int]:
    """How many answers of a run have each unusual ending."""
    query = "SELECT ending, count(*) FROM answers WHERE run = ? AND ending != '' GROUP BY ending ORDER BY 2 DESC"
    return dict(reader.query(query, [run]))


def errors(reader: Reader, run: int) -> int:
    """How many answers of a run are an error or have a verdict that is one; groups of answers count too."""
    query = (
        "WITH counts AS (SELECT scoring_pass AS pass FROM runs WHERE id = ?1) SELECT "
        "(SELECT count(*) FROM answers WHERE run = ?1 AND (status = 'error' OR EXISTS (SELECT 1 FROM scores s "
        "WHERE s.answer = answers.id AND s.pass = (SELECT pass FROM counts) AND s.result = 'error'))) + "
        "(SELECT count(*) FROM group_scores WHERE run = ?1 AND result = 'error' "
        "AND pass = (SELECT pass FROM counts))"
    )
    return int(reader.query(query, [run])[0][0])


def repeated(reader: Reader, run: int) -> bool:
    """Whether a run asks any item more than once."""
    return bool(reader.query("SELECT 1 FROM answers WHERE run = ? AND repeat > 0 LIMIT 1", [run]))


def later_turns(reader: Reader, run: int) -> bool:
    """Whether an item of a run has several turns."""
    return bool(reader.query("SELECT 1 FROM answers WHERE run = ? AND turn > 0 LIMIT 1", [run]))


def filled(reader: Reader, run: int) -> frozenset[str]:
    """The facts with a column of their own that some answer of a run has."""
    columns = {fact.name: fact.column.where or f"{fact.name} IS NOT NULL" for fact in FACTS if fact.column}
    some = (f"EXISTS (SELECT 1 FROM answers WHERE run = ?1 AND {where})" for where in columns.values())
    (found,) = reader.query(f"SELECT {', '.join(some)}", [run])
    return frozenset(name for name, is_filled in zip(columns, found, strict=True) if is_filled)


def has_answered(reader: Reader, run: int, target: int) -> bool:
    """Whether a target of a run, by its number, has an answer that is not an error."""
    query = (
        "SELECT 1 FROM answers WHERE run = ? AND target = ? AND code IS NULL "
        "AND status NOT IN ('pending', 'running') LIMIT 1"
    )
    return bool(reader.query(query, [run, target]))


def has_judged(reader: Reader, run: int, judge: str) -> bool:
    """Whether a judge of this name has said anything in a run, also from the cache."""
    query = "SELECT 1 FROM calls WHERE run = ? AND kind = 'judge' AND target = ? AND code IS NULL LIMIT 1"
    return bool(reader.query(query, [run, judge]))


def evaluator_means(
    reader: Reader, run: int, number: int | None = None, *, columns: bool = False
) -> list[EvaluatorMean]:
    """How each evaluator scored a run in a pass (None: the one that counts), or each of its columns.

    Groups of answers have no column.
    """
    number = number or reader.run(run).scoring_pass
    column = "answers.prompt, answers.target" if columns else "NULL, NULL"
    results = ", ".join(f"sum(s.result IS '{result}')" for result in ("pass", "fail", "error", "skipped"))
    bare = "sum(s.result IS NULL AND s.label IS NOT NULL)"
    several = "min(nullif(s.measure, '')) IS NOT max(nullif(s.measure, ''))"
    aggregates = (
        f"count(s.score), avg(s.score), {results}, max(s.measure), avg(s.score * s.score), min(s.score), max(s.score), "
        f"{several}, {bare}"
    )
    query = (
        f"SELECT s.key, min(s.evaluator), 'answer', {column}, {aggregates} FROM answers "
        "JOIN scores s ON s.answer = answers.id WHERE answers.run = ?1 AND s.pass = ?2 GROUP BY 1, 4, 5"
    )
    if not columns:
        query += (
            f" UNION ALL SELECT s.key, min(s.evaluator), 'group', NULL, NULL, {aggregates} FROM group_scores s "
            "WHERE s.run = ?1 AND s.pass = ?2 GROUP BY 1"
        )
    # If a key has both, a caller that keeps one row per name keeps the last, which counts.
    query += " ORDER BY 1, 4, 5, 3 DESC"
    names = [field.name for field in fields(EvaluatorMean) if field.name not in ("labels", "rated", "values")]
    rows = reader.query(query, [run, number])
    labels = _labels(reader, run, number, column) if any(row[-1] for row in rows) else {}
    scales = _means_by_scale(reader, run, number, column) if any(row[-2] for row in rows) else {}
    means = [dict(zip(names, row[:-2], strict=True)) for row in rows]
    places = [tuple(mean[name] for name in ("key", "scope", "prompt", "target")) for mean in means]
    found = [
        EvaluatorMean(**mean | _on_one_scale(scales.get(at, ())), labels=labels.get(at, {}))
        for mean, at in zip(means, places, strict=True)
    ]
    asked = {group[:2] for group in ledger.groups(reader.query, run) if group.prompt >= 0}
    pooled = len(asked) > 1 and not columns  # columns share their items, so together they have no sample
    items = _by_item(reader, run, number, column) if ledger.repeats_items(reader.query, run) else None
    return [
        one
        if pooled and one.scope == "answer"
        else _with_single_answers(one)
        if items is None
        else _with_samples(one, items.get(at, ()))
        for one, at in zip(found, places, strict=True)
    ]


def _with_single_answers(mean: EvaluatorMean) -> EvaluatorMean:
    """Add the samples if every item has one record."""
    count, total, squares = mean.scored, mean.scored * (mean.mean or 0.0), mean.scored * (mean.squares or 0.0)
    values = Sample(count, count, total, squares, total, count)
    return replace(mean, rated=single_answers(mean.passed, mean.passed + mean.failed), values=values)


def _with_samples(mean: EvaluatorMean, items: Sequence[tuple[int, float, int, int, int]]) -> EvaluatorMean:
    """Add the samples, from the counts, sums and passes of each item."""
    scales = any(item[4] for item in items) or parse_measure(mean.measure).normalised
    return replace(
        mean,
        rated=sample_of((judged, passed) for _, _, judged, passed, _ in items if judged),
        values=None if scales else sample_of((n, total) for n, total, *_ in items if n),
    )


@dataclass(frozen=True, slots=True)
class AnswerGroup:
    """The answers of a run that have a value in common."""

    value: str
    answers: int
    passed: int
    failed: int
    errored: int
    """Missing answers, and those not judged by all evaluators."""
    cost: float
    latency_ms: float | None
    """The mean time to an answer that was asked."""


_GROUPED: Mapping[str, str] = {
    "prompt": "SELECT id, (SELECT prompts ->> answers.prompt FROM runs WHERE runs.id = run) AS value FROM answers",
    "target": "SELECT id, (SELECT targets ->> answers.target FROM runs WHERE runs.id = run) AS value FROM answers",
    "category": "SELECT id, category AS value FROM answers",
    "status": "SELECT id, status AS value FROM answers",
    "cause": "SELECT id, code AS value FROM answers",
    "turn": "SELECT id, CAST(turn + 1 AS TEXT) AS value FROM answers",
    "tag": (
        "SELECT answers.id, f.value FROM answers JOIN (SELECT i.key AS item, f.value AS value FROM snapshots s, "
        "json_each(s.document, '$.items') i, json_each(i.value, '$.tags') f WHERE s.hash = ?2) f "
        "ON f.item = answers.item"
    ),
    "variable": (
        "SELECT answers.id, f.value FROM answers JOIN (SELECT i.key AS item, CAST(f.value AS TEXT) AS value "
        "FROM snapshots s, json_each(s.document, '$.items') i, json_each(i.value, '$.variables') f "
        "WHERE s.hash = ?2 AND f.key = ?3) f ON f.item = answers.item"
    ),
}
"""The groupings of answers: each answer with its value, or with each of several values."""
GROUPINGS = tuple(_GROUPED)


def grouped(reader: Reader, run: RunRow, by: str, name: str = "") -> list[AnswerGroup]:
    """The answers of a run in groups, the one with most failures first; `name` is that of a variable."""
    query = (
        "SELECT ifnull(g.value, ''), count(*), sum(a.status = 'pass'), sum(a.status = 'fail'), "
        "sum(a.status IN ('error', 'partial')), total(a.cost), avg(CASE WHEN NOT a.from_cache THEN a.latency_ms END) "
        f"FROM ({_GROUPED[by]} WHERE run = ?1) g JOIN answers a ON a.id = g.id GROUP BY 1"
    )
    values = {"tag": [run.snapshot], "variable": [run.snapshot, name]}.get(by, [])
    found = [AnswerGroup(*row) for row in reader.query(query, [run.id, *values])]
    return sorted(found, key=lambda one: (-one.failed - one.errored, one.value))


def variables(reader: Reader, run: RunRow) -> list[str]:
    """The variables that the items of a run give values to."""
    query = (
        "SELECT DISTINCT v.key FROM snapshots s, json_each(s.document, '$.items') i, "
        "json_each(i.value, '$.variables') v WHERE s.hash = ? ORDER BY 1"
    )
    return [name for (name,) in reader.query(query, [run.snapshot])]


_BARS = 8
"""The number of ranges for a measure that is not a short scale of whole levels."""
_LEVELS = 9


def score_spread(reader: Reader, run: RunRow, means: Iterable[EvaluatorMean]) -> dict[str, ScoreSpread]:
    """How the numbers of each evaluator of answers spread over their range; none where all are yes or no."""
    ranges = {}
    for mean in means:
        if mean.scope == "answer" and mean.least is not None and mean.most is not None and mean.least < mean.most:
            low, high = parse_measure(mean.measure).limits((mean.least, mean.most)) or (mean.least, mean.most)
            levels = high - low == int(high - low) and 1 < high - low < _LEVELS
            if mean.mean != mean.squares:  # the square of a number is the number for 0 and 1 alone
                ranges[mean.key] = (low, high, int(high - low) + 1 if levels else _BARS)
    query = (
        "SELECT s.key, max(min(CAST((s.score - r.value ->> 0) * (r.value ->> 2) / (r.value ->> 1 - r.value ->> 0) "
        "AS INTEGER), r.value ->> 2 - 1), 0) AS bar, count(*) FROM answers JOIN scores s ON s.answer = answers.id "
        "JOIN json_each(?3) r ON r.key = s.key WHERE answers.run = ?1 AND s.pass = ?2 AND s.score IS NOT NULL "
        "GROUP BY 1, 2"
    )
    counts = {key: [0] * bars for key, (_, _, bars) in ranges.items()}
    for key, bar, count in reader.query(query, [run.id, run.scoring_pass, json.dumps(ranges)]) if ranges else ():
        counts[key][bar] = count
    return {key: ScoreSpread(low, high, tuple(counts[key])) for key, (low, high, _) in ranges.items()}


def nearest(reader: Reader, run: RunRow, count: int) -> list[tuple[int, str, float, float]]:
    """The passing answers whose score is nearest to its threshold: answer, evaluator, score and threshold."""
    query = (
        "SELECT s.answer, s.key, s.score, s.threshold FROM answers a JOIN scores s ON s.answer = a.id AND s.pass = ?2 "
        "WHERE a.run = ?1 AND s.result = 'pass' AND s.score IS NOT NULL AND s.threshold > 0 AND s.score NOT IN (0, 1) "
        "ORDER BY abs(s.score - s.threshold) / s.threshold, a.pos LIMIT ?3"
    )
    return cast("list[tuple[int, str, float, float]]", reader.query(query, [run.id, run.scoring_pass, count]))


_ASKED = (
    "substr(coalesce({0} ->> '$.prompt', {0} ->> '$.messages[#-1].content', {0} ->> '$.user.goal', "
    "(SELECT group_concat(v.value, ' · ') FROM json_each({0}, '$.variables') v), ''), 1, 240)"
)
"""The beginning of an item's or turn's question."""


def questions(reader: Reader, snapshot: str) -> dict[tuple[int, int], str]:
    """The beginning of the question in each turn of a dataset, by the numbers of item and turn."""
    items = "FROM snapshots s, json_each(s.document, '$.items') i"
    query = (
        f"SELECT i.key, 0, {_ASKED.format('i.value')} {items} WHERE s.hash = ?1 AND i.value -> '$.turns' IS NULL "
        f"UNION ALL SELECT i.key, u.key, {_ASKED.format('u.value')} {items}, json_each(i.value, '$.turns') u "
        "WHERE s.hash = ?1"
    )
    return {(item, turn): text for item, turn, text in reader.query(query, [snapshot]) if text}


def _by_item(reader: Reader, run: int, number: int, column: str) -> dict[tuple[Any, ...], list[tuple[Any, ...]]]:
    """For each evaluator and item: scores, their sum, verdicts, passes, and whether there are several scales."""
    sums = (
        "count(s.score), total(s.score), sum(s.result IN ('pass', 'fail')), sum(s.result IS 'pass'), "
        "min(s.measure) IS NOT max(s.measure)"
    )
    query = (
        f"SELECT s.key, 'answer', {column}, {sums} FROM answers JOIN scores s ON s.answer = answers.id "
        "WHERE answers.run = ?1 AND s.pass = ?2 GROUP BY s.key, 3, 4, answers.item "
        f"UNION ALL SELECT s.key, 'group', NULL, NULL, {sums} FROM group_scores s "
        "WHERE s.run = ?1 AND s.pass = ?2 GROUP BY s.key, s.item"
    )
    found: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for *place, scores, total, judged, passed, scales in reader.query(query, [run, number]):
        found.setdefault(tuple(place), []).append((scores, total, judged or 0, passed or 0, scales))
    return found


def skipped(reader: Reader, run: int) -> dict[str, int]:
    """How often each evaluator was skipped; for a key that judges answers and groups, only for answers."""
    query = (
        "SELECT s.key, 'answer', count(*) FROM answers JOIN scores s ON s.answer = answers.id "
        "WHERE answers.run = ?1 AND s.pass = ?2 AND s.result = 'skipped' GROUP BY 1 "
        "UNION ALL SELECT key, 'group', count(*) FROM group_scores "
        "WHERE run = ?1 AND pass = ?2 AND result = 'skipped' GROUP BY 1 ORDER BY 1, 2 DESC"
    )
    return {key: count for key, _, count in reader.query(query, [run, reader.run(run).scoring_pass])}


def left_out(reader: Reader, run: int) -> dict[str, int]:
    """How many verdicts lack each assertion that an import left out."""
    query = (
        "SELECT s.key, count(*) FROM answers JOIN scores s ON s.answer = answers.id "
        "WHERE answers.run = ? AND s.pass = ? AND s.evaluator = 'LeftOut' GROUP BY 1 ORDER BY 1"
    )
    return dict(reader.query(query, [run, reader.run(run).scoring_pass]))


ScaleMean = tuple[str, int, float, float]
"""A measure with how many scores are in it, their sum, and that of their squares."""


def _means_by_scale(reader: Reader, run: int, number: int, column: str) -> dict[tuple[Any, ...], list[ScaleMean]]:
    """The scores of each evaluator by measure, by key, scope, prompt and target."""
    sums = "s.measure, count(s.score), total(s.score), total(s.score * s.score)"
    query = (
        f"SELECT s.key, 'answer', {column}, {sums} FROM answers JOIN scores s ON s.answer = answers.id "
        "WHERE answers.run = ?1 AND s.pass = ?2 AND s.score IS NOT NULL GROUP BY 1, 3, 4, 5 "
        f"UNION ALL SELECT s.key, 'group', NULL, NULL, {sums} FROM group_scores s "
        "WHERE s.run = ?1 AND s.pass = ?2 AND s.score IS NOT NULL GROUP BY 1, 5"
    )
    found: dict[tuple[Any, ...], list[ScaleMean]] = {}
    for *place, measure, count, total, squares in reader.query(query, [run, number]):
        found.setdefault(tuple(place), []).append((measure, count, total, squares))
    return found


def _on_one_scale(parts: Sequence[ScaleMean]) -> dict[str, Any]:
    """The mean of scores of several scales, normalized to 0–1; empty if they all share one scale."""
    measure = common_measure(part[0] for part in parts)
    if not parse_measure(measure).normalised:
        return {}
    sums = [0.0, 0.0]
    whole = 0
    for own, count, total, squares in parts:
        bounds = parse_measure(own).bounds
        if bounds is None:  # the order of these among the others is unknown
            return {"measure": measure, "mean": None, "squares": None}
        low, width = bounds[0], bounds[1] - bounds[0]
        whole += count
        sums[0] += (total - count * low) / width
        sums[1] += (squares - 2 * low * total + count * low * low) / (width * width)
    return {"measure": measure, "mean": sums[0] / whole, "squares": sums[1] / whole}


def _labels(reader: Reader, run: int, number: int, column: str) -> dict[tuple[Any, ...], dict[str, int]]:
    """How often each evaluator gave each label without a verdict, by key, scope, prompt and target."""
    query = (
        f"SELECT s.key, 'answer', {column}, s.label, count(*) FROM answers JOIN scores s ON s.answer = answers.id "
        "WHERE answers.run = ?1 AND s.pass = ?2 AND s.result IS NULL AND s.label IS NOT NULL GROUP BY 1, 3, 4, 5 "
        "UNION ALL SELECT s.key, 'group', NULL, NULL, s.label, count(*) FROM group_scores s "
        "WHERE s.run = ?1 AND s.pass = ?2 AND s.result IS NULL AND s.label IS NOT NULL GROUP BY 1, 5 ORDER BY 5"
    )
    labels: dict[tuple[Any, ...], dict[str, int]] = {}
    for *key, label, count in reader.query(query, [run, number]):
        labels.setdefault(tuple(key), {})[label] = count
    return labels


def label_counts(reader: Reader, run: int) -> dict[str, dict[str, int]]:
    """How often each evaluator gave each label to an answer, without passing or failing it.

    Empty unless a run has answers that can neither pass nor fail: comparisons call this for large runs.
    """
    if not any(totals.scored for totals in ledger.groups(reader.query, run).values()):
        return {}
    labels = _labels(reader, run, reader.run(run).scoring_pass, "NULL, NULL")
    return {key: counts for (key, scope, *_), counts in labels.items() if scope == "answer"}


def rubrics(reader: Reader, run: int) -> dict[str, frozenset[str]]:
    """The rubrics of the judges' verdicts for each evaluator, if they are recorded."""
    found: dict[str, set[str]] = {}
    query = (
        "SELECT DISTINCT s.key, s.details ->> '$.rubric' AS rubric FROM answers JOIN scores s ON s.answer = answers.id "
        "WHERE answers.run = ? AND s.pass = ? AND s.details <> '{}' AND rubric IS NOT NULL"
    )
    for key, rubric in reader.query(query, [run, reader.run(run).scoring_pass]):
        found.setdefault(key, set()).add(rubric)
    return {key: frozenset(rubrics) for key, rubrics in found.items()}


def judged(reader: Reader, run: int, number: int | None = None) -> Iterator[Judged]:
    """The scores of a pass (None: the one that counts) as a comparison needs them, paged, in the order of the plan."""
    return map(Judged._make, judged_fields(reader, run, number))


def judged_each(reader: Reader, run: int, numbers: Sequence[int]) -> Iterator[Judged]:
    """The scores of several passes, paged; a score that several of them keep appears at most once."""
    known = set(numbers)
    for number in numbers:
        yield from map(Judged._make, judged_fields(reader, run, number, known))
        known |= _origins(reader, run, number)


def judged_fields(
    reader: Reader, run: int, number: int | None = None, kept_from: Collection[int] = ()
) -> Iterator[JudgedFields]:
    """Like `judged`, as plain tuples for reading whole runs, without the scores kept from passes in `kept_from`."""
    number = number or reader.run(run).scoring_pass
    query = (
        "SELECT s.answer, s.key, s.score, s.result, s.threshold, s.measure "
        "FROM answers JOIN scores s ON s.answer = answers.id WHERE answers.run = ? AND pos >= ? AND pos < ? "
        "AND s.pass = ? AND (s.score IS NOT NULL OR s.result IN ('pass', 'fail'))"
    )
    if kept_from:
        query += f" AND s.origin NOT IN ({', '.join(map(str, kept_from))})"
    for start, end in pages(reader.query, run):
        yield from cast("list[JudgedFields]", reader.query(query, [run, start, end, number]))


def _origins(reader: Reader, run: int, number: int) -> set[int]:
    """The passes from which a pass keeps scores."""
    query = (
        "SELECT DISTINCT s.origin FROM answers JOIN scores s ON s.answer = answers.id "
        "WHERE answers.run = ? AND s.pass = ? AND s.origin > 0"
    )
    return {origin for (origin,) in reader.query(query, [run, number])}


def compared(reader: Reader, run: int) -> Iterator[ComparedRow]:
    """Every answer of a run as a comparison needs it, paged. An answer that no process works on is pending."""
    return map(ComparedRow._make, compared_fields(reader, run))


def compared_fields(reader: Reader, run: int) -> Iterator[ComparedFields]:
    """Like `compared`, as plain tuples for reading whole runs, in the order of the plan."""
    status = "status" if reader.in_flight(run) else "CASE status WHEN 'running' THEN 'pending' ELSE status END"
    query = (
        f"SELECT id, item, turn, prompt, target, repeat, name, category, {status}, score, code, preview FROM answers "
        "WHERE run = ? AND pos >= ? AND pos < ? ORDER BY pos"
    )
    for start, end in pages(reader.query, run):
        yield from cast("list[ComparedFields]", reader.query(query, [run, start, end]))


_PAIRS = 1_000


def differing(reader: Reader, pairs: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """The pairs of answers whose texts or tool calls differ."""
    query = (
        "SELECT l.id, r.id FROM json_each(?) j JOIN answers l ON l.id = j.value ->> 0 "
        "JOIN answers r ON r.id = j.value ->> 1 "
        "LEFT JOIN bodies a ON a.id = l.body LEFT JOIN bodies b ON b.id = r.body "
        "WHERE a.text IS NOT b.text "
        "OR a.answer IS NOT b.answer AND a.answer -> 'tool_calls' IS NOT b.answer -> 'tool_calls'"
    )
    found: set[tuple[int, int]] = set()
    waiting = iter(pairs)
    while page := list(islice(waiting, _PAIRS)):
        found.update((left, right) for left, right in reader.query(query, [json.dumps(page)]))
    return found
