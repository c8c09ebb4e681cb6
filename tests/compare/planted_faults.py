"""A run of 1,800 answers with four planted faults: a category, a prompt, the mood of a judge and a dead target."""

from __future__ import annotations

import asyncio

from tests.store.helpers import new_run
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, AnswerRow, PlannedAnswer, ScoreRecord
from tui_evals.store.writer import Writer

CATEGORIES = ("returns", "refunds", "delivery", "payment", "warranty", "account")
PROMPTS = ("short", "careful", "friendly")
TARGETS = ("big", "small")
MOODS = (
    "The answer names {n} days but leaves the receipt vague.",
    "It names the days ({n}) but is vague about the receipt.",
    "Names {n} days, but the receipt stays vague.",
)
DEAD = "Agent request failed: http://127.0.0.1:9/v1 refuses connections"


def items(count=300):
    return [
        {
            "testId": f"policy-{n:04}",
            "prompt": f"Until when may a customer of Q{n % 4 + 1} return item {n}?",
            "expected_response": "Within 14 days, unused, with the receipt.",
            "category": CATEGORIES[n % len(CATEGORIES)],
        }
        for n in range(count)
    ]


def scores(row: AnswerRow) -> list[ScoreRecord]:
    bad_category, bad_prompt, bad_mood = row.category == "refunds", row.prompt == 2, row.item % 7 == 3
    includes = f'"{row.item + 10} days" is not in the answer' if bad_category else ""
    length = f"the answer has {31 + row.item % 9} words, more than 30" if bad_prompt else ""
    relevance = MOODS[(row.item // 7) % 3].format(n=row.item) if bad_mood else "answers the question"
    return [
        _score("Includes", float(not bad_category), bad_category, includes),
        _score("Length", float(not bad_prompt), bad_prompt, length),
        _score("Relevance", 1.0 if bad_mood else 5.0, bad_mood, relevance, threshold=3.0),
    ]


def _score(key: str, value: float, bad: bool, reason: str = "", **given) -> ScoreRecord:
    result = "fail" if bad else "pass"
    return ScoreRecord(key=key, evaluator=key, score=value, result=result, reason=reason, **given)


async def faulty_run(folder, count=300, *, healthy=False, name="first"):
    """A store with the run; a healthy one has no fault at all."""
    path = open_store(folder / ".evals" / "evals.db")
    document = {"schemaVersion": "1.11.0", "default_evaluators": {"Includes": {}}, "items": items(count)}
    columns = [(prompt, target) for prompt in range(len(PROMPTS)) for target in range(len(TARGETS))]
    planned = [
        PlannedAnswer(n * len(columns) + at, n, 0, *column, 0, item["testId"], item["category"])
        for n, item in enumerate(document["items"])
        for at, column in enumerate(columns)
    ]
    with Writer(path) as writer, Reader(path) as reader:
        snapshot = writer.snapshot(document, "evals.json")
        run = writer.plan(new_run(name=name, snapshot=snapshot, targets=TARGETS, prompts=PROMPTS), planned)
        rows = list(reader.all_rows(run.id))
        await asyncio.gather(*(_answer(writer, row, healthy) for row in rows))
        writer.run_status(run.id, "finished", started=1.0, finished=90.0)
        writer.flush()
        return path, reader.run(run.id)


async def _answer(writer: Writer, row: AnswerRow, healthy: bool) -> None:
    if row.target == 1 and not healthy:
        dead = AnswerRecord(text=None, request={}, code="agentRequestFailed", message=DEAD)
        await writer.answered(row.id, dead, "error")
        return
    text = f"You may return item {row.item} within 14 days of delivery."
    await writer.answered(row.id, AnswerRecord(text=text, request={}, cost=0.001, latency_ms=400.0), "answered")
    given = scores(row)
    if healthy:
        given = [_score(one.key, 1.0, False) for one in given]
    failed = any(one.result == "fail" for one in given)
    await writer.scored(row.id, 1, given, "fail" if failed else "pass", 0.0 if failed else 100.0)
