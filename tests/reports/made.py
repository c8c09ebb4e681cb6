"""Stores with finished runs in them, in which every text can be made hostile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from tests.store.helpers import new_run, said
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.records import PlannedAnswer, ScoreRecord
from tui_evals.store.writer import Writer

Say = Callable[[str], str]


def plain(text: str) -> str:
    return text


def dataset(count: int, say: Say) -> list[dict[str, object]]:
    """Items of three categories; every fourth is a conversation of three turns."""
    items: list[dict[str, object]] = []
    for number in range(count):
        item = {"testId": say(f"item-{number}"), "category": say(("sums", "history", "code")[number % 3])}
        if number % 4 == 3:
            turns = [
                {"prompt": say(f"turn {n} of {number}"), "expected_response": say(f"said {n} of {number}")}
                for n in range(3)
            ]
            items.append({**item, "name": say(f"talk {number}"), "turns": turns})
        else:
            asked = {"prompt": say(f"what is {number}?"), "expected_response": say(f"it is the number {number}")}
            more = {"tags": [say("tagged")], "notes": say("a note"), "context": say("grounds")} if number == 0 else {}
            items.append({**item, **asked, **more})
    return items


def planned(items: list[dict[str, object]], targets: int, repeats: int) -> list[PlannedAnswer]:
    found, cell = [], 0
    for number, item in enumerate(items):
        for repeat in range(repeats):
            for target in range(targets):
                for turn in range(len(item.get("turns", "1"))):
                    name, category = str(item["testId"]), str(item["category"])
                    found.append(PlannedAnswer(cell, number, turn, 0, target, repeat, name, category))
                cell += 1
    return found


def outcome(number: int, shift: int) -> str:
    """What becomes of an answer: mostly a pass; one in five fails, some are errors or cannot be judged."""
    at = number + shift * 3
    return "error" if at % 37 == 5 else "partial" if at % 41 == 7 else "fail" if at % 5 == 2 else "pass"


def scores(status: str, number: int, say: Say) -> list[ScoreRecord]:
    good = status == "pass"
    score = {"score": 1 + 4 * ((number % 7) / 6 if good else 0.1), "threshold": 1.0 if good else 3.0}
    verdict = "pass" if good else "error" if status == "partial" else "fail"
    first = {
        "key": say("Relevance"),
        "evaluator": "Relevance",
        "result": verdict,
        "reason": say(f"because of {number}"),
    }
    exact = {"key": say("Exact"), "evaluator": say("ExactMatch"), "score": float(good), "result": "pass"}
    choice = {"key": say("Tone"), "evaluator": "ModelGraded", "score": None, "result": None}
    return [
        ScoreRecord(**first, **(score if status != "partial" else {"score": None})),
        ScoreRecord(**exact, reason=say("it is said")),
        ScoreRecord(**choice, label=say(("kind", "curt")[number % 2]), reason=say("the tone is this")),
    ]


async def add_run(
    path: Path, count: int, *, say: Say = plain, targets: int = 1, repeats: int = 1, shift: int = 0, name: str = "run"
) -> int:
    """A finished run; `shift` makes other answers go wrong than in a run without."""
    items = dataset(count, say)
    with Writer(path) as writer:
        snapshot = writer.snapshot({"items": items}, "evals.json")
        new = new_run(
            name=say(name),
            snapshot=snapshot,
            source=say("evals.json"),
            suite=say("suite"),
            tags=(say("tag"),),
            targets=tuple(say(f"target {n}") for n in range(targets)),
            config={"judge": {"name": say("judge"), "model": say("model of the judge")}, "repeats": repeats},
        )
        run = writer.plan(new, planned(items, targets, repeats))
        with Reader(path) as reader:
            rows = list(reader.all_rows(run.id))
        await asyncio.gather(*(_answer(writer, row, outcome(n, shift), shift, n, say) for n, row in enumerate(rows)))
        writer.edit(run.id, note=say("a note on the run"))
        together = ScoreRecord(key=say("Best"), evaluator="Best", score=0.5, result="fail", reason=say("together"))
        await writer.group_scored(run.id, 1, 0, 0, together)
        for row in rows[:2]:
            writer.label(row.id, "fail", say("ann"), note=say("I do not think so"))
        writer.label(rows[0].id, "pass", say("bob"), evaluator=say("Exact"))
        writer.run_status(run.id, "finished", started=run.created, finished=run.created + 90)
        return run.id


async def _answer(writer, row, status, shift, number, say):
    if status == "error":
        lost = said(None, code="agentTimeout", message=say("it took too long"), latency_ms=9.0)
        await writer.answered(row.id, lost, "error")
        return
    wrong = " or so" if status == "fail" else ""
    text = say(f"it is the number {number // 2 * 2}{wrong}, said {row.turn} times, and {shift} is the shift")
    calls = ({"name": say("look_up"), "arguments": f'{{"q": "{number}"}}'},) if number % 9 == 0 else ()
    record = said(
        text,
        tool_calls=calls,
        input_tokens=30,
        output_tokens=12,
        cost=0.0001,
        latency_ms=800.0 + number,
        from_cache=number % 11 == 1,
        scripted=number % 13 == 1,
        model=say("model-1"),
        finish_reason=say("length") if number % 17 == 1 else "stop",
        diagnostics={say("key"): say("value")} if number % 19 == 0 else None,
    )
    await writer.answered(row.id, record, "answered")
    points = {"pass": 100.0, "fail": 50.0}.get(status)
    await writer.scored(row.id, 1, scores(status, number, say), status, points)


def store(folder: Path) -> Path:
    return open_store(folder / ".evals" / "evals.db")
