"""How fast a run goes, how long the rest of it will take, and what it waits for."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from tui_evals.store.records import RunRow, StoreWait

from .figures import duration, per_second, rough_duration

_SECONDS = 10.0
_ENOUGH = 5


class Pace:
    """How fast answers become final: over the last ten seconds, or longer where fewer than five came in them."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def note(self, now: float, count: int, going: bool = True) -> None:
        """Remember how many were final by now; what came before a time in which it did not go on counts no more."""
        samples = self._samples
        if not going:
            samples.clear()
            return
        if samples and count < samples[-1][1]:
            samples.clear()
        if len(samples) > 1 and samples[-1][1] == count == samples[-2][1]:
            samples.pop()
        samples.append((now, count))
        while len(samples) > 2 and now - samples[1][0] >= _SECONDS and count - samples[1][1] >= _ENOUGH:
            samples.popleft()

    def rate(self) -> float | None:
        """Answers per second; None until five have come."""
        if len(self._samples) < 2:
            return None
        (first, before), (last, now) = self._samples[0], self._samples[-1]
        return (now - before) / (last - first) if now - before >= _ENOUGH and last > first else None


def pace_parts(rate: float | None, left: int) -> list[str]:
    """The rate, and the time that so many more answers take; nothing while the rate is unknown."""
    if not rate:
        return []
    return [per_second(rate), *([f"{duration(left / rate)} left"] if left else [])]


_WAIT_REASONS: Mapping[str, str] = {
    "agentRateLimited": "rate limited",
    "agentTimeout": "no answer in time",
    "agentResponseUnparseable": "unreadable answer",
    "outage": "away",
}


def wait_sentence(run: RunRow, now: float) -> str:
    """Why a run asks nothing at the moment and when it will again; empty where it does not wait."""
    wait = run.waiting
    if isinstance(wait, StoreWait):
        return store_wait_sentence(wait, now)
    if wait is None or run.status not in ("running", "paused") or wait.until <= now:
        return ""
    who = "" if run.targets == (wait.target,) else f"{wait.target} "
    reason = _WAIT_REASONS.get(wait.code, "call failed")
    attempt = f", attempt {wait.attempt} of {wait.attempts}" if wait.attempts else ""
    return f"{who}{reason}, next try in {rough_duration(wait.until - now)}{attempt}"


def store_wait_sentence(wait: StoreWait, now: float, ends: str = "the run ends, to be resumed") -> str:
    """Why a run asks nothing because of its store, what mends that, and when it `ends` otherwise."""
    why = {
        "full": f"the disk is full: make room for {wait.path}",
        "locked": f"{wait.cause} keeps {wait.path} locked: let it go on or end it",
        "unwritable": f"{wait.path} cannot be written ({wait.cause}): look at the disk and at your quota",
    }[wait.code]
    return f"asking waits, because {why}; in {rough_duration(max(wait.until - now, 0.0))} {ends}"


def stored_again_sentence(wait: StoreWait) -> str:
    """That such a wait is over."""
    return f"{wait.path} can be written again, and asking goes on"


def command_wait_sentence(wait: StoreWait, now: float, *, is_over: bool) -> str:
    """The same of a command that goes on when it is given again: that it waits, or that this is over."""
    again = "this ends, and the same command goes on"
    return stored_again_sentence(wait) if is_over else store_wait_sentence(wait, now, again)
