"""The views of the store, a documented interface: their columns stay, and later versions only add some.

Everything else in the schema may change with any version. `schema.py` makes the views, `tui-evals help store` documents
them, `tui-evals sql` reads them. Nothing of ours does, because on a large store they are slow.
"""

from __future__ import annotations

from typing import Any, Literal

VERSION = 1
"""Grows with every added column; the row `views` of the table `meta` has it."""
_STATUSES = {
    "pass": "passed",
    "fail": "failed",
    "partial": "partial",
    "error": "errored",
    "unjudged": "unjudged",
    "scored": "scored",
    "pending": "pending",
}
_COUNTS = ", ".join(f"sum(status = '{status}') AS {name}" for status, name in _STATUSES.items())
_COUNTED = ", ".join(f"ifnull(n.{name}, 0) AS {name}" for name in _STATUSES.values())
_UNIT = "iif(json_type(i.v, '$.turns') = 'array', json_extract(i.v, '$.turns[' || a.turn || ']'), i.v)"
_COLUMN = (
    "json_extract(r.targets, '$[' || a.target || ']') AS target, "
    "json_extract(r.prompts, '$[' || a.prompt || ']') AS prompt, "
    "a.name AS item, a.turn + 1 AS turn, a.repeat + 1 AS repeat"
)
_SCORED = "s.key AS evaluator, s.evaluator AS type, s.score, s.result, s.threshold, s.label, s.reason, s.weight"


def _time(column: str, name: str) -> str:
    return f"strftime('%Y-%m-%dT%H:%M:%SZ', {column}, 'unixepoch') AS {name}"


VIEWS = {
    "v_runs": f"""
SELECT r.key AS run, r.name, r.source AS dataset, r.suite, r.status, {_time("r.created", "created")},
  {_time("r.started", "started")}, {_time("r.finished", "finished")}, r.targets, r.prompts, r.tags, r.note, r.message,
  r.verdict, r.total AS answers, {_COUNTED}, CAST(n.passed AS REAL) / nullif(n.passed + n.failed, 0) AS pass_rate,
  n.score, c.cost, c.judge_cost,
  ifnull(c.unpriced_calls, 0) AS unpriced_calls
FROM runs r
LEFT JOIN (SELECT run, avg(score) AS score, {_COUNTS} FROM answers GROUP BY run) n ON n.run = r.id
LEFT JOIN (
  SELECT run, sum(cost) AS cost, sum(iif(kind = 'judge', cost, NULL)) AS judge_cost,
    sum(cost IS NULL AND code IS NULL) AS unpriced_calls FROM calls GROUP BY run) c ON c.run = r.id
WHERE r.total IS NOT NULL""",
    # Items are taken apart once for the whole query: looked up for each answer, all would be read for each.
    "v_answers": f"""
WITH items AS MATERIALIZED (
  SELECT s.hash, CAST(i.key AS INTEGER) AS item, i.value AS v FROM snapshots s, json_each(s.document, '$.items') i)
SELECT r.key AS run, r.name AS run_name, r.source AS dataset, a.id AS answer_id, {_COLUMN},
  json_extract(i.v, '$.testId') AS test_id, nullif(a.category, '') AS category, json_extract(i.v, '$.tags') AS tags,
  json_extract({_UNIT}, '$.prompt') AS question,
  coalesce(json_extract({_UNIT}, '$.expected_response'), json_extract({_UNIT}, '$.ideal[0]')) AS expectation,
  b.text AS answer, a.status,
  a.score, a.cost, a.latency_ms, a.input_tokens, a.output_tokens, a.from_cache, a.attempts,
  nullif(a.ending, '') AS ending, a.code AS error_code, json_extract(b.answer, '$.message') AS error_message,
  {_time("a.started", "started")}
FROM runs r JOIN answers a ON a.run = r.id LEFT JOIN items i ON i.hash = r.snapshot AND i.item = a.item
LEFT JOIN bodies b ON b.id = a.body
WHERE r.total IS NOT NULL""",
    "v_scores": f"""
SELECT r.key AS run, a.id AS answer_id, {_COLUMN}, {_SCORED}, a.status, 0 AS together
FROM runs r JOIN answers a ON a.run = r.id JOIN scores s ON s.answer = a.id AND s.pass = r.scoring_pass
UNION ALL
SELECT r.key, NULL, NULL, NULL, (SELECT name FROM answers a WHERE a.run = s.run AND a.item = s.item LIMIT 1),
  s.turn + 1, NULL, {_SCORED}, NULL, 1
FROM runs r JOIN group_scores s ON s.run = r.id AND s.pass = r.scoring_pass""",
    # Calls of generations were noted as those of a judge before there was a kind for them.
    "v_costs": """
WITH made AS (
  SELECT c.*, iif(json_extract(r.config, '$.generation') IS NULL, c.kind, 'generator') AS maker, r.key, r.name, r.source
  FROM runs r JOIN calls c ON c.run = r.id)
SELECT key AS run, name AS run_name, source AS dataset, maker AS kind, iif(maker = 'target', target, NULL) AS target,
  iif(maker = 'judge', target, NULL) AS judge, iif(maker = 'generator', target, NULL) AS generator,
  nullif(evaluator, '') AS evaluator,
  CASE WHEN phase != '' THEN phase WHEN maker = 'target' THEN 'answering' WHEN maker = 'judge' THEN 'judging'
    ELSE 'generating' END AS phase,
  count(*) AS calls, sum(code IS NOT NULL) AS failed_calls, sum(from_cache) AS cached_calls,
  sum(cost IS NULL AND code IS NULL) AS unpriced_calls, sum(input_tokens) AS input_tokens,
  sum(output_tokens) AS output_tokens, sum(cost) AS cost, sum(may_cost) AS may_cost
FROM made
GROUP BY run, maker, made.target, made.evaluator, made.phase""",
    "v_steps": f"""
SELECT r.key AS run, a.id AS answer_id, {_COLUMN}, m.key + 1 AS message, p.key + 1 AS part,
  json_extract(m.value, '$.role') AS role, json_extract(p.value, '$.type') AS kind,
  json_extract(p.value, '$.name') AS tool,
  json_extract(p.value, '$.id') AS call_id, json_extract(p.value, '$.arguments') AS arguments,
  json_extract(p.value, '$.text') AS text, ifnull(json_extract(p.value, '$.failed'), 0) AS failed
FROM runs r JOIN answers a ON a.run = r.id JOIN bodies b ON b.id = a.body
JOIN json_each(b.answer, '$.transcript.messages') m JOIN json_each(m.value, '$.parts') p""",
}
"""The query of each view. What is here was made by a step of the schema: change it in a later step, never here."""


def make_views(database: Any, kind: Literal["", "TEMP "] = "") -> None:
    """Make every view in a database that has none of them, or views for one connection that hide those of its file."""
    for name, query in VIEWS.items():
        database.execute(f"CREATE {kind}VIEW {name} AS{query}")
