"""Statuses of a run that takes longer to read than it takes to change: read one at a time, and read to the end."""

import asyncio
import threading
import time
from types import SimpleNamespace

from tui_evals.tui.latest_statuses import ItemStatuses
from tui_evals.tui.tree import view
from tui_evals.tui.watch import StoreChange


async def test_a_reading_that_takes_long_is_not_begun_again_beside_itself(tmp_path, monkeypatch):
    """Each half second another thread began to read, so that a large live run was never read to its end."""
    reading, most, begun, let_go = [], [], [], threading.Event()

    def latest_of(file, root, database, items):
        reading.append(1)
        begun.append(time.monotonic())
        most.append(len(reading))
        let_go.wait(30)
        reading.pop()
        return ItemStatuses(file)

    monkeypatch.setattr(view, "latest_of", latest_of)
    monkeypatch.setattr(view, "changed_answers", lambda latest, root, database: (latest.seq, []))
    works, timers = [], []
    app = SimpleNamespace(run_worker=lambda work, **given: works.append(asyncio.ensure_future(work)))
    space = SimpleNamespace(root=tmp_path, database=tmp_path / "evals.db", items=[])
    pane = SimpleNamespace(app=app, workspace=space, set_timer=lambda seconds, act: timers.append(act) or act)
    read = []
    loader = view.StatusLoader(pane, lambda: read.append(1), lambda keys: None)
    loader.set_file(tmp_path / "data.json")
    for _ in range(5):
        loader.pulse(StoreChange(elsewhere=True))
        timers.pop()()
        await asyncio.sleep(0)
    let_go.set()
    while not all(work.done() for work in works):
        await asyncio.sleep(0.01)
    assert (len(begun), max(most), read) == (1, 1, [1])
    assert len(works) == 2  # what changed meanwhile is read behind it


async def test_what_is_told_of_the_run_on_screen_is_not_read_again(tmp_path, monkeypatch):
    """Each second all answers that had come since were read once more, beside those that were told."""
    read_from, works, timers = [], [], []
    monkeypatch.setattr(view, "latest_of", lambda file, root, database, items: ItemStatuses(file, seq=10))
    monkeypatch.setattr(
        view, "changed_answers", lambda latest, root, database: read_from.append(latest.seq) or (latest.seq + 5, [])
    )
    app = SimpleNamespace(run_worker=lambda work, **given: works.append(asyncio.ensure_future(work)))
    space = SimpleNamespace(root=tmp_path, database=tmp_path / "evals.db", items=[])
    pane = SimpleNamespace(app=app, workspace=space, set_timer=lambda seconds, act: timers.append(act) or act)
    loader = view.StatusLoader(pane, lambda: None, lambda keys: None)
    loader.set_file(tmp_path / "data.json")
    loader.pulse(StoreChange(rows=[SimpleNamespace(run=1)], seq=12))  # comes while all is read, and may not be in it
    await works.pop()
    timers.pop()()
    await works.pop()
    loader.pulse(StoreChange(rows=[SimpleNamespace(run=1)], seq=30))
    assert timers == []
    loader.pulse(StoreChange(elsewhere=True, seq=40))
    timers.pop()()
    await works.pop()
    assert read_from == [10, 30]
    loader.pulse(StoreChange(run=True, seq=50))  # it may be over, and then what it never asked does not count
    assert len(timers) == 1
