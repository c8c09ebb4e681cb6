"""On a worker: asks targets only within the places, calls and money that the driver has leased to it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext, suppress

from tui_evals.runs.availability import Availability, Room
from tui_evals.runs.executors import WaitCut
from tui_evals.runs.limits import BudgetSpent
from tui_evals.targets.base import TargetConfig


class Turnstile:
    """Lets waiting calls through in order; a cancelled call returns what it took."""

    def __init__(self, may: Callable[[], bool], take: Callable[[int], None], blocked: Callable[[], None]) -> None:
        self._may = may
        self._take = take
        self._blocked = blocked
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._shut = False

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    async def enter(self) -> None:
        """Wait for a turn; WaitCut when waiting is over."""
        if not self._waiting and self._may():
            self._take(1)
            return
        if self._shut:
            raise WaitCut
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._blocked()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._take(-1)
                self.wake()
            raise

    def shut(self) -> None:
        """Cancel all current and later waits."""
        self._shut = True
        for turn in self._waiting:
            if not turn.done():
                turn.set_exception(WaitCut())
        self._waiting.clear()

    def wake(self) -> None:
        """Let through the calls that may pass now."""
        while self._waiting and self._may():
            turn = self._waiting.popleft()
            if not turn.done():
                self._take(1)
                turn.set_result(None)


class TargetLease:
    """This worker's limits for one target, as totals, so that a repeated message changes nothing."""

    def __init__(self, blocked: Callable[[], None]) -> None:
        self.places = self.in_use = 0
        self.calls = self.called = 0
        self.tokens: int | None = 0
        self.took = 0
        self.pauses: list[float] = []
        """Pauses that the target asked for and that are not reported yet."""
        self._opens_at = 0.0
        self.halted = asyncio.Event()
        self._blocked = blocked
        self._reported_waiting = False
        self.flights = Turnstile(lambda: self.in_use < self.places, self._place, self._want)
        self.attempts = Turnstile(self._may_call, self._call, self._want)
        self.judgings = Turnstile(lambda: self._may_call() and self.in_use < self.places, self._judge, self._want)

    @property
    def waiting(self) -> int:
        """How many calls wait for a place."""
        return self.flights.waiting + self.judgings.waiting

    def usage_report(self) -> tuple[dict[str, int], list[float]]:
        """The places used and wanted, and the pauses that the target asked for since the last report.

        Returns the places that are neither used nor wanted.
        """
        self.places = min(self.places, self.in_use + self.waiting)
        pauses, self.pauses = self.pauses, []
        self._reported_waiting = self.waiting + self.attempts.waiting > 0
        usage = {"in_use": self.in_use, "waiting": self.waiting, "called": self.called, "took": self.took}
        return usage, pauses

    def _want(self) -> None:
        """A call waits; worth a message only when the driver does not know of waiting calls already."""
        if not self._reported_waiting:
            self._blocked()

    def set(self, places: int, calls: int, tokens: int | None, pause: float) -> None:
        """Apply the limits that the driver grants."""
        self.places, self.calls, self.tokens = places, calls, tokens
        if pause > 0:
            self.pause(pause)
        self.wake()

    def pause(self, seconds: float) -> None:
        """Start no call for a while."""
        loop = asyncio.get_running_loop()
        self._opens_at = max(self._opens_at, loop.time() + seconds)
        loop.call_later(seconds + 0.001, self.wake)
        if self.halted.is_set():
            self.judgings.shut()

    def halt(self) -> None:
        """The run is stopping: no call waits for its turn any more, and no verdict for the end of a pause."""
        self.halted.set()
        self.attempts.shut()
        if asyncio.get_running_loop().time() < self._opens_at:
            self.judgings.shut()

    def leave(self) -> None:
        """Give a place back."""
        self.in_use -= 1
        self.wake()

    def wake(self) -> None:
        """Let through the calls that may pass now."""
        for turnstile in (self.flights, self.attempts, self.judgings):
            turnstile.wake()

    def _may_call(self) -> bool:
        enough = self.called < self.calls and (self.tokens is None or self.took < self.tokens)
        return enough and asyncio.get_running_loop().time() >= self._opens_at

    def _place(self, number: int) -> None:
        self.in_use += number

    def _call(self, number: int) -> None:
        self.called += number

    def _judge(self, number: int) -> None:
        self._place(number)
        self._call(number)


class FlightPlace:
    """A place among the turns that are asked and not committed yet."""

    def __init__(self, lease: TargetLease) -> None:
        self._lease = lease

    async def __aenter__(self) -> None:
        await self._lease.flights.enter()

    async def __aexit__(self, *_: object) -> None:
        self._lease.leave()


class LeasedGate:
    """The gate of a target on a worker; for judges, which take no place in flight, it counts places itself."""

    def __init__(self, lease: TargetLease, *, takes_place: bool) -> None:
        self._lease = lease
        self._takes_place = takes_place

    async def enter(self) -> None:
        """Wait for a call of the lease."""
        turnstile = self._lease.judgings if self._takes_place else self._lease.attempts
        await turnstile.enter()

    def leave(self) -> None:
        """The call is over."""
        if self._takes_place:
            self._lease.leave()

    def succeeded(self, tokens: int = 0) -> None:
        """Add the tokens to those of the lease."""
        self._lease.took += tokens

    def pushed_back(self, pause: float) -> None:
        """Pause here at once, and make the driver slow down all workers."""
        self._lease.pauses.append(pause)
        self._lease.pause(pause)

    async def rest(self, seconds: float) -> None:
        """Wait, unless the run is stopping."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._lease.halted.wait()
        if self._lease.halted.is_set():
            raise WaitCut

    def hold(self, held: bool) -> None:
        """Does nothing: only the driver stores, and it pauses its workers if it cannot."""

    @property
    def is_halted(self) -> bool:
        """Whether no more calls begin on this worker."""
        return self._lease.halted.is_set()

    def halt(self) -> None:
        """Give up what waits on this worker."""
        self._lease.halt()


def leased_room(lease: TargetLease, config: TargetConfig, kind: str) -> Room:
    """The room a lease gives to a target or a judge."""
    judging = kind == "judge"
    gate = LeasedGate(lease, takes_place=judging)
    return Room(gate, nullcontext() if judging else FlightPlace(lease), Availability(config, gate))


class BudgetLease:
    """Money a worker may spend: asked for call by call, and given back as soon as no call needs it."""

    def __init__(self, most: float | None, blocked: Callable[[], None]) -> None:
        self.most = most
        self._blocked = blocked
        self._left = self._granted = self._spent = self._returned = 0.0
        self._needs: deque[tuple[float, asyncio.Future[None]]] = deque()

    async def reserve(self, cost: float) -> None:
        """Set money aside for a call, once the driver has granted it."""
        if self.most is None:
            return
        if not self._needs and cost <= self._left:
            self._left -= cost
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._needs.append((cost, granted))
        self._blocked()
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled() and granted.exception() is None:
                self._left += cost
            raise

    def settle(self, reserved: float, cost: float, may_cost: float = 0.0) -> None:
        """Replace a reservation by the cost of the call, or by its upper bound."""
        if self.most is not None:
            self._spent += cost + may_cost
            self._left += reserved - cost - may_cost

    def set(self, granted: float) -> None:
        """Apply the total that the driver has granted."""
        self._left += granted - self._granted
        self._granted = granted
        while self._needs and self._needs[0][0] <= self._left + 1e-9:  # sums of fractions leave a rest
            cost, waiting = self._needs.popleft()
            if not waiting.done():
                self._left -= cost
                waiting.set_result(None)

    def refuse(self, reason: str) -> None:
        """Fail the calls that cannot be paid any more."""
        needs, self._needs = self._needs, deque()
        for _, waiting in needs:
            if not waiting.done():
                waiting.set_exception(BudgetSpent(reason))

    def spending_report(self) -> tuple[float, float, list[float]]:
        """The total spent and the total returned, and the possible cost of each waiting call."""
        self._needs = deque(need for need in self._needs if not need[1].done())
        self._returned += self._left  # even while calls wait: one that needs more reserves its whole cost again
        self._left = 0.0
        return self._spent, self._returned, [cost for cost, _ in self._needs]
