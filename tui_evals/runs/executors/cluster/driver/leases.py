"""On the driver: shares the places, calls and money of a run out among its workers, and takes them back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil

from tui_evals.runs.budget import Budget, BudgetSpent
from tui_evals.runs.limits import Gate
from tui_evals.targets.base import TargetConfig

_CALLS_AHEAD = 4
"""Calls a worker may make for each of its places before the driver hears of them."""
_BURST = 2.0
"""Seconds' worth of a rate that may be leased at once."""


@dataclass(slots=True)
class WorkerShare:
    """What one worker was granted of one target and reported as used; calls and tokens are sums since it began."""

    places: int = 0
    held: int = 0
    """Places it may be using: those it had count until it has heard that they are fewer."""
    in_use: int = 0
    wanted: int = 0
    calls: int = 0
    called: int = 0
    tokens: int = 0
    took: int = 0


_NO_SHARE = WorkerShare()


class RateAllowance:
    """An allowance per second, of which two seconds may be saved up; None is without limit."""

    def __init__(self, a_minute: float | None) -> None:
        self._a_second = None if a_minute is None else a_minute / 60
        self._saved = 1.0
        self._updated = asyncio.get_running_loop().time()

    @property
    def limited(self) -> bool:
        """Whether there is a limit at all."""
        return self._a_second is not None

    def take(self, wanted: int) -> int:
        """As much of what is wanted as has been saved up by now."""
        if self._a_second is None:
            return wanted
        now = asyncio.get_running_loop().time()
        largest = max(1.0, self._a_second * _BURST)
        self._saved = min(largest, self._saved + (now - self._updated) * self._a_second)
        self._updated = now
        amount = max(0, min(wanted, int(self._saved)))
        self._saved -= amount
        return amount


class TargetLeases:
    """What all workers together may ask of one target or judge."""

    def __init__(self, config: TargetConfig) -> None:
        self._gate = Gate(config)
        self._calls = RateAllowance(config.requests_per_minute)
        self._tokens = RateAllowance(config.tokens_per_minute)
        self.shares: dict[str, WorkerShare] = {}
        self._held = self._short = self._wanting = 0
        """Of all workers: the places they may be using, how many want more, and how many want any."""

    def _add_to_sums(self, share: WorkerShare, sign: int) -> None:
        """Take a share out of the sums before it changes, and into them after."""
        self._held += sign * share.held
        self._short += sign * (share.wanted > share.places)
        self._wanting += sign * (share.wanted > 0)

    def note_usage(self, worker: str, usage: Mapping[str, int], pauses: list[float]) -> None:
        """Note what a worker uses and wants; a pause that a target asked of one holds for all."""
        share = self.shares.setdefault(worker, WorkerShare())
        self._add_to_sums(share, -1)
        share.in_use, share.wanted = usage["in_use"], usage["in_use"] + usage["waiting"]
        share.places = min(share.places, share.wanted)
        share.held = max(share.places, share.in_use)
        self._add_to_sums(share, 1)
        share.called, share.took = usage["called"], usage["took"]
        for pause in pauses:
            self._gate.pushed_back(pause)

    @property
    def paused(self) -> bool:
        """Whether the target has asked for a pause that is not over."""
        return self._gate.pause > 0

    def succeeded(self) -> None:
        """A call went through somewhere."""
        self._gate.succeeded()

    def grant(self, worker: str) -> tuple[int, int, int | None, float]:
        """What a worker may do from now on: places, calls and tokens in all, and seconds of pause before."""
        share = self.shares.setdefault(worker, WorkerShare())
        self._add_to_sums(share, -1)
        free = max(0, int(self._gate.now) - self._held)
        fair = ceil(int(self._gate.now) / (1 + self._wanting))
        share.places = min(share.wanted, free, fair if self._short else free)
        share.held = max(share.held, share.places)
        self._add_to_sums(share, 1)
        calls_wanted = max(share.in_use, share.places) if self._calls.limited else _CALLS_AHEAD * share.wanted
        share.calls += self._calls.take(max(0, share.called + calls_wanted - share.calls))
        return share.places, share.calls, self._leased_tokens(share), self._gate.pause

    def _leased_tokens(self, share: WorkerShare) -> int | None:
        if not self._tokens.limited:
            return None
        if share.wanted and share.took >= share.tokens:
            # What one call took beyond its lease is paid back before there is another.
            share.tokens += self._tokens.take(share.took - share.tokens + 1_000_000_000)
        return share.tokens

    def is_starving(self, worker: str) -> bool:
        """Whether a worker wants more than it was granted."""
        share = self.shares.get(worker, _NO_SHARE)
        return share.wanted > share.places or (share.wanted > 0 and share.called >= share.calls)

    def forget(self, worker: str) -> None:
        """Forget a worker and free its places."""
        if (share := self.shares.pop(worker, None)) is not None:
            self._add_to_sums(share, -1)


@dataclass(slots=True)
class WorkerAccount:
    """The money one worker was given, spent and gave back, in sums since it began."""

    granted: float = 0.0
    spent: float = 0.0
    returned: float = 0.0
    charged: float = 0.0
    """What of it the budget counts as spent."""
    lost: bool = False
    needs: list[float] = field(default_factory=list)

    @property
    def held(self) -> float:
        """What it may be spending now."""
        return self.granted - self.spent - self.returned


class BudgetLeases:
    """The budget of a run, shared out among workers."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._accounts: dict[str, WorkerAccount] = {}
        self._held = 0.0
        """What all workers that are not lost may be spending now."""
        self._secured = 0.0
        """What the store was told last of what they may be spending, the lost ones too."""

    async def secure(self) -> None:
        """Return once the store knows what the workers may be spending, before they hear of it."""
        if self._budget.lent or self._secured:
            self._secured = self._budget.lent
            await self._budget.secure()

    def note_spending(self, worker: str, spent: float, returned: float, needs: list[float]) -> None:
        """Note what a worker has spent and given back."""
        account = self._accounts.setdefault(worker, WorkerAccount())
        before = account.held
        account.spent, account.returned, account.needs = spent, returned, needs
        self._held += 0.0 if account.lost else account.held - before
        self._budget.lent += max(0.0, account.held) - max(0.0, before)
        self._charge(account)

    def grant(self, worker: str) -> tuple[float, str | None]:
        """What a worker may spend in all, and why its next call can never be paid, if it cannot."""
        account = self._accounts.setdefault(worker, WorkerAccount())
        limit = self._budget.most
        if limit is None:
            return 0.0, None
        refused, before = None, account.held
        for cost in account.needs:
            if self._budget.committed + self._held + cost > limit + 1e-9:
                refused = self._refusal(cost)
                break
            account.granted += cost
            self._held += cost
        account.needs = []
        self._budget.lent += max(0.0, account.held) - max(0.0, before)
        return account.granted, refused

    def _refusal(self, cost: float) -> str | None:
        try:
            self._budget.demand(cost)
        except BudgetSpent as spent:
            return str(spent)
        return None

    def write_off(self, worker: str) -> None:
        """Count what a lost worker holds as spent, because it may be; a report corrects it if it comes back."""
        account = self._accounts.setdefault(worker, WorkerAccount())
        self._held -= 0.0 if account.lost else account.held
        account.lost = True
        self._charge(account)

    def _charge(self, account: WorkerAccount) -> None:
        spent = account.spent + (max(0.0, account.held) if account.lost else 0.0)
        self._budget.spent += spent - account.charged
        account.charged = spent
