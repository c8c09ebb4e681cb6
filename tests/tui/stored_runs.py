"""A store with runs in it, for the panes that list and compare them, and a way to read what stands on the screen."""

import asyncio
import time

from tests.store.helpers import judged, new_run, said
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.records import PlannedAnswer
from tui_evals.store.writer import Writer

HOSTILE = (
    "[/b] [@click=app.quit]x[/] \x1b]52;c;aGk=\x07 \x1b[2J \x9b31m \u202e 日本語 \ud800 "
    + "a long line of words " * 250
)


def fresh(folder):
    return open_store(folder / ".evals" / "evals.db")


async def add_run(path, answers, *, status="finished", expected=None, **given):
    """A run of one item for each answer: its verdict and its text, or None where it is still pending."""
    with Writer(path) as writer:
        more = {} if expected is None else {"expected_response": expected}
        items = [{"testId": f"t-{n}", "prompt": f"ask {n}", **more} for n in range(len(answers))]
        snapshot = writer.snapshot({"items": items}, "evals.json")
        planned = [PlannedAnswer(n, n, 0, 0, 0, 0, f"t-{n}") for n in range(len(answers))]
        run = writer.plan(new_run(snapshot=snapshot, **given), planned)
        await answer(path, writer, run.id, answers)
        writer.run_status(run.id, status)
        return run


async def answer(path, writer, run, answers):
    with Reader(path) as reader:
        rows = list(reader.all_rows(run))
    found = [(row.id, *given) for row, given in zip(rows, answers, strict=False) if given is not None]
    await asyncio.gather(*(writer.answered(one, said(text, cost=0.001), "answered") for one, _, text in found))
    judgements = ((one, verdict, f"because of {text[:200]}", float(verdict == "pass")) for one, verdict, text in found)
    await asyncio.gather(
        *(
            writer.scored(one, 1, [judged(score=score, reason=reason)], verdict, score)
            for one, verdict, reason, score in judgements
        )
    )


def text_of(rows):
    return ["".join(piece.text for piece in row.pieces) for row in rows]


def drawn(lines):
    return [lines.render_line(y).text for y in range(lines.size.height)]


async def until(pilot, condition):
    """Let the app work until something holds."""
    end = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < end, "it never came to hold"
        await pilot.pause()
        await asyncio.sleep(0.005)
