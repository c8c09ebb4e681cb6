"""Long work in threads rests while a person waits for something."""

import threading

from tui_evals import garbage
from tui_evals.garbage import Foreground


def rests(foreground: Foreground, times: int = 1) -> list[float]:
    """How long another thread would rest each time."""
    rested: list[float] = []
    foreground._free.wait = rested.append
    thread = threading.Thread(target=lambda: [foreground.give_way() for _ in range(times)])
    thread.start()
    thread.join()
    return rested


def test_another_thread_rests_while_a_person_waits_and_only_then():
    foreground = Foreground()
    assert rests(foreground) == []
    foreground.begin()
    assert len(rests(foreground)) == 1
    foreground.end()
    assert rests(foreground) == []


def test_work_continues_a_little_between_two_rests(monkeypatch):
    moments = iter([10.0, 10.0, 10.001, 10.004, 10.006, 10.006])
    monkeypatch.setattr(garbage.time, "monotonic", lambda: next(moments))
    foreground = Foreground()
    foreground.begin()
    assert len(rests(foreground, times=4)) == 2


def test_the_thread_of_the_screen_never_rests():
    foreground = Foreground()
    foreground.begin()
    foreground._free.wait = None
    foreground.give_way()
