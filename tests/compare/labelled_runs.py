"""Runs in a store that people label: each answer with its verdicts, and words that stand nowhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.store.helpers import new_run
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, PlannedAnswer, RunRow, ScoreRecord
from tui_evals.store.writer import Writer

JUDGE, OTHER, TARGET, REASON = "ZebraJudge", "OkapiCheck", "quokka-7b", "gnu reason"
SECRETS = (JUDGE, OTHER, TARGET, REASON, "0.37", "37", "LABEL-7", "fail", "pass", "✗", "✓", "partial")


def score(key=JUDGE, value=1.0, result="pass", threshold=None, **given):
    fields = {"key": key, "evaluator": key, "score": value, "result": result, "threshold": threshold}
    return ScoreRecord(**{**fields, "reason": f"{REASON} {value}", "label": "LABEL-7", **given})


def messages(number):
    return [
        {"role": "system", "content": "You are short."},
        {"role": "user", "content": f"question {number}"},
    ]


async def labelled_run(
    folder, answers: Sequence[Sequence[ScoreRecord] | str | None], *, name_of=None, reply="reply {}".format, **given
) -> tuple:
    """A run of one item for each: its scores, a status without any, or None where it is still pending."""
    path = open_store(folder / ".evals" / "evals.db")
    items = [
        {"testId": f"t-{n}", "prompt": f"question {n}", "context": f"context {n}", "expected_response": f"expected {n}"}
        for n in range(len(answers))
    ]
    targets = given.setdefault("targets", (TARGET,))
    with Writer(path) as writer:
        given.setdefault("snapshot", writer.snapshot({"items": items}, "evals.json"))
        plan = [
            PlannedAnswer(n * len(targets) + t, n, 0, 0, t, 0, name_of(n) if name_of else f"t-{n}")
            for n in range(len(answers))
            for t in range(len(targets))
        ]
        run = writer.plan(new_run(**given), plan)
        await fill(path, writer, run, [one for one in answers for _ in targets], reply)
        writer.run_status(run.id, "finished")
    return path, run


async def fill(path, writer: Writer, run: RunRow, answers, reply) -> None:
    with Reader(path) as reader:
        rows = list(reader.all_rows(run.id))
    for number, (row, found) in enumerate(zip(rows, answers, strict=True)):
        if found is None:
            continue
        if found == "error":
            record = AnswerRecord(text=None, request={"messages": []}, code="rateLimited", message="slow down")
            await writer.answered(row.id, record, "error")
            continue
        record = AnswerRecord(text=reply(number), request={"messages": messages(row.item)})
        await writer.answered(row.id, record, "answered")
        if not isinstance(found, str):
            await writer.scored(row.id, 1, list(found), status(found), 37.0)


def status(records: Sequence[ScoreRecord]) -> str:
    if any(record.result == "error" for record in records):
        return "partial"
    return "fail" if any(record.result == "fail" for record in records) else "pass"


def label(path, run: RunRow, verdicts: Mapping[int, str], author: str = "ada", **given) -> None:
    """Labels of answers by their positions in the plan: + is good, - is bad."""
    with Writer(path) as writer, Reader(path) as reader:
        rows = {row.pos: row.id for row in reader.all_rows(run.id)}
        for place, sign in verdicts.items():
            writer.label(rows[place], "pass" if sign == "+" else "fail", author, **given)
