"""How fast a target may be asked and how much a run may spend."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from tui_evals.runs.executors import WaitCut
from tui_evals.store import run_figures
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer
from tui_evals.targets.base import Price, Request, TargetConfig
from tui_evals.targets.model_table import ANSWER_TOKENS, LENGTHS, UNSET
from tui_evals.text import strictjson
from tui_evals.text.measures import money

_FIRST_DELAY = 0.5
_LONGEST_DELAY = 60.0
_CAREFUL_ROUNDS = 10.0
_OTHERS_EVERY = 0.05, 0.2


class Limits(Protocol):
    """Decides when a target may be called."""

    async def enter(self) -> None:
        """Wait until a call may be made."""
        ...

    def leave(self) -> None:
        """The call is over."""
        ...

    def succeeded(self, tokens: int = 0) -> None:
        """Report that the call succeeded and how many tokens it took."""
        ...

    def pushed_back(self, pause: float) -> None:
        """The target refused a call because it has too many, and asked for a pause, which may be none."""
        ...

    async def rest(self, seconds: float) -> None:
        """Wait before another attempt; raises WaitCut if the run stops meanwhile."""
        ...

    def hold(self, held: bool) -> None:
        """Block all calls until allowed again, because results cannot be stored."""
        ...

    @property
    def is_halted(self) -> bool:
        """Whether no more calls begin, because the run ends or the target is unavailable."""
        ...

    def halt(self) -> None:
        """The run is stopping: every wait, now or later, ends with WaitCut."""
        ...


class Gate:
    """The calls a target may have in flight: each that it refuses was one too many, and it is tried with more later.

    What was refused once is tried again slowly: one more call after a round of answers below that number, after ten
    rounds above it.
    """

    def __init__(self, config: TargetConfig) -> None:
        self.most = config.concurrency
        self.now = float(config.concurrency)
        self.in_flight = 0
        self._longest = config.max_wait
        self._opens_at = 0.0
        self._refused_at = float("inf")
        """So many calls in flight were too many when the target last refused one."""
        self._refused = self._pauses = 0
        """How many calls it refused since it answered one, and how many pauses that came to."""
        self._interval = 60.0 / config.requests_per_minute if config.requests_per_minute else 0.0
        self._tokens = 60.0 / config.tokens_per_minute if config.tokens_per_minute else 0.0
        self._waiters: list[asyncio.Future[None]] = []
        self._halted = asyncio.Event()
        self._held = False

    async def enter(self) -> None:
        """Take a place among the calls in flight, once one is free and the pause after a 429 is over."""
        loop = asyncio.get_running_loop()
        while True:
            if (pause := self._opens_at - loop.time()) > 0:
                await self.rest(pause)
            elif self._held and self._halted.is_set():
                raise WaitCut
            elif self.in_flight < int(self.now) and not self._held:
                break
            else:
                waiter: asyncio.Future[None] = loop.create_future()
                self._waiters.append(waiter)
                await waiter
        self.in_flight += 1
        if self._interval:
            self._opens_at = max(self._opens_at, loop.time()) + self._interval

    @property
    def pause(self) -> float:
        """Seconds until calls may be made again."""
        return max(0.0, self._opens_at - asyncio.get_running_loop().time())

    def leave(self) -> None:
        """Give the place back."""
        self.in_flight -= 1
        self._wake()

    def succeeded(self, tokens: int = 0) -> None:
        """A call went through: room grows by one for each full round, or for ten of them."""
        self._refused = self._pauses = 0
        rounds = 1.0 if self.now + 1.0 < self._refused_at else _CAREFUL_ROUNDS
        self.now = min(float(self.most), self.now + 1.0 / (rounds * max(self.now, 1.0)))
        if self._tokens and tokens:
            self._opens_at = max(self._opens_at, asyncio.get_running_loop().time()) + tokens * self._tokens
        self._wake()

    def pushed_back(self, pause: float) -> None:
        """The target asked for less: one call fewer, and no call before the pause is over.

        Where it has refused as many as may be in flight, and asks for no pause, there is one all the same.
        """
        self._refused_at = self.now
        self.now = max(1.0, self.now - 1.0)
        self._refused += 1
        if self._refused > self.now:
            pause = max(pause, own_delay(self._pauses + 1, self._longest))
            self._pauses += 1
            self._refused = 0
        self._opens_at = max(self._opens_at, asyncio.get_running_loop().time() + pause)

    async def rest(self, seconds: float) -> None:
        """Wait, unless the run is stopping."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._halted.wait()
        if self._halted.is_set():
            self._wake()  # the place that this call does not take
            raise WaitCut

    def halt(self) -> None:
        """Release calls that wait for a pause or a place, because the run stops."""
        self._halted.set()
        self._wake_all()

    @property
    def is_halted(self) -> bool:
        """Whether no more calls begin, because the run ends or the target is unavailable."""
        return self._halted.is_set()

    def hold(self, held: bool) -> None:
        """Block all calls, or release the waiting ones."""
        self._held = held
        self._wake_all()

    def _wake_all(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _wake(self) -> None:
        while self._waiters and self.in_flight < int(self.now):
            waiter = self._waiters.pop(0)
            if not waiter.done():
                waiter.set_result(None)
                return


def own_delay(attempt: int, longest: float) -> float:
    """The delay after an attempt, whatever the target asks for: doubled each time, with jitter."""
    return min(_FIRST_DELAY * 2.0 ** (attempt - 1), _LONGEST_DELAY, longest) * random.uniform(0.5, 1.0)


class BudgetSpent(Exception):
    """The next call could exceed the budget of the run."""


class Reservations(Protocol):
    """Reserves money for calls."""

    most: float | None

    async def reserve(self, cost: float) -> None:
        """Set money aside for a call, or BudgetSpent."""
        ...

    def settle(self, reserved: float, cost: float, may_cost: float = 0.0) -> None:
        """Replace a reservation by the cost of the call, or by its upper bound if that is unknown."""
        ...


class Budget:
    """The remaining money of a run; None means no limit.

    The possible cost of calls counts like a known cost: a call without an answer may be billed.
    """

    def __init__(self, most: float | None, spent: float = 0.0) -> None:
        self.most = most
        self.spent = spent
        self.unsure = 0.0
        """An upper bound of the cost of calls whose cost is unknown."""
        self.lent = 0.0
        """The part held by workers that reserve money for calls themselves."""
        self._reserved = 0.0
        self._held = 0
        self._settled: asyncio.Event | None = None
        self._lost = 0.0
        self._run: tuple[Writer, int] | None = None
        self._others: _SharingRuns | None = None
        self._alone = asyncio.Lock()

    def of_run(self, run: int, reader: Reader, writer: Writer, shared: str = "") -> None:
        """Continue with what a run has spent, and store its reservations in its row.

        Reservations that are already there belong to calls that were in flight when their process ended and will not
        report back. `shared` names a limit that other runs of the store share.
        """
        self._others = _SharingRuns(shared, run, reader) if shared else None
        self.spent, noted = run_figures.spent(reader, run), run_figures.may_cost(reader, run)
        self._lost = reader.reserved(run)
        self.unsure = noted + self._lost
        self._run = (writer, run)

    @property
    def committed(self) -> float:
        """The known and possible costs, without calls in flight."""
        return self.spent + self.unsure

    async def reserve(self, cost: float) -> None:
        """Set money aside for one call: wait while other calls hold what may be left over, refuse when none can be.

        It is in the store when this returns, so that a resume after a crash knows what may have been spent.
        """
        if self._others is None or not cost:
            await self._set_aside(cost)
            return
        async with self._alone:
            # Every run writes its reservation before it reads those of others, so that two at once overestimate.
            while not await self._set_aside(cost):
                self.settle(cost, 0.0)
                await asyncio.sleep(random.uniform(*_OTHERS_EVERY))

    async def _set_aside(self, cost: float) -> bool:
        """Set money aside in the store once this run has it; whether the other runs that share the limit leave it."""
        while self.most is not None and self._committed_by_all + self._reserved + cost > self.most:
            if not self._held:  # wait for calls in flight, so that a refusal names all that was spent
                self.demand(cost)
            self._settled = self._settled or asyncio.Event()
            await self._settled.wait()
        self._reserved += cost
        self._held += cost > 0  # a free call frees no money when it ends, so no call waits for it
        try:
            await self.secure()
            if self.most is None or self._others is None:
                return True
            self._others.read()
        except BaseException:
            self.settle(cost, 0.0)
            raise
        return self._committed_by_all + self._reserved + self._others.reserved <= self.most

    @property
    def _committed_by_all(self) -> float:
        """The known and possible costs of this run, and of those that share its limit when last read."""
        return self.committed + (self._others.committed if self._others is not None else 0.0)

    async def secure(self) -> None:
        """Store all current reservations; does nothing without a limit."""
        if self.most is not None and self._run is not None:
            writer, run = self._run
            await writer.secure(run, self._lost + self._reserved + self.lent)

    def demand(self, cost: float) -> None:
        """BudgetSpent when a call could not be paid even if no other cost anything."""
        if self.most is not None and self._committed_by_all + cost > self.most:
            raise BudgetSpent(self._spent_sentence(self.most, cost))

    def settle(self, reserved: float, cost: float, may_cost: float = 0.0) -> None:
        """Replace a reservation by the cost of the call, which was sent to the store before."""
        self._held -= reserved > 0
        self._reserved = self._reserved - reserved if self._held else 0.0  # sums of fractions leave a rest
        self.spent += cost
        self.unsure += may_cost
        if self.most is not None and self._run is not None:
            writer, run = self._run
            writer.reserved(run, self._lost + self._reserved + self.lent)
        if self._settled is not None:
            self._settled.set()
            self._settled = None

    def _spent_sentence(self, most: float, cost: float) -> str:
        others = self._committed_by_all - self.committed
        over = self.spent + others - most
        beyond = f", {money(over)} over it, for answers came out longer than their limit" if over > 0 else ""
        unsure = f" and perhaps {money(self.unsure)} more," if self.unsure else ""
        shared = f" and {money(others)} by other runs that share the limit," if others else ""
        return (
            f"{money(self.spent)} spent{unsure}{shared} of a limit of {money(most)}{beyond}, and the next call could "
            f"cost {money(cost)}; resume with a larger --max-cost"
        )


class _SharingRuns:
    """The costs in the store of other runs that share a limit."""

    def __init__(self, name: str, run: int, reader: Reader) -> None:
        self._name, self._run, self._reader = name, run, reader
        self._ids: list[int] = []
        self._last = 0
        self.committed = 0.0
        """Their known and possible costs."""
        self.reserved = 0.0
        """Their reservations for calls in flight."""

    def read(self) -> None:
        """Read the costs again."""
        found, self._last = self._reader.runs_sharing(self._name, self._last)
        self._ids += [one for one in found if one != self._run]
        self.committed = self.reserved = 0.0
        for one in self._ids:
            self.committed += run_figures.spent(self._reader, one) + run_figures.may_cost(self._reader, one)
            reserved = self._reader.reserved(one)
            if reserved and self._reader.run(one).status == "running":
                self.reserved += reserved
            else:  # its process has ended, and its calls may have been paid
                self.committed += reserved


def most_it_can_cost(request: Request, price: Price, largest: int = 0) -> float:
    """An upper bound of a call's cost: a token is at least one byte, and an answer at most its limit.

    `largest` is the largest answer of the run in tokens, because some servers ignore the limit. Pictures and other
    files are not included: their tokens do not depend on their bytes.
    """
    params = request.params
    limits = [int(params[name]) for name in LENGTHS if params.get(name) and params[name] != UNSET]
    answer = max([largest, *(limits or [ANSWER_TOKENS])]) * max(1, int(params.get("n") or 1))
    return reading_costs(request, price) + answer * price.output_per_million / 1e6


def reading_costs(request: Request, price: Price) -> float:
    """The part of that bound for the question: the highest cost of a refused call."""
    written = _bytes(request.messages)
    if request.tools:
        written += _bytes(request.tools)
    if isinstance(request.response_format, Mapping):
        written += _bytes(request.response_format)
    return (price.per_call or 0.0) + written * price.most_per_input / 1e6


def _bytes(value: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> int:
    written = value if isinstance(value, Mapping) else list(value)
    return len(strictjson.dumps(written).encode("utf-8", "surrogatepass"))
