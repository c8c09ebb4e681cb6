"""The money a run may spend: reserved before a call, settled after it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tui_evals.targets.base import Price
from tui_evals.text import strictjson
from tui_evals.text.money import money

ANSWER_TOKENS = 4096
"""The longest answer a call may give under a budget where the configuration names no max_tokens."""


class BudgetSpent(Exception):
    """The next call could exceed what the run may spend."""


class Reservations(Protocol):
    """Where money for calls is set aside."""

    most: float | None

    async def reserve(self, cost: float) -> None:
        """Set money aside for a call, or BudgetSpent."""
        ...

    def settle(self, reserved: float, cost: float | None) -> None:
        """Replace what was set aside by what the call cost."""
        ...


class Budget:
    """What is left of a run's money; None means no limit."""

    def __init__(self, most: float | None, spent: float = 0.0) -> None:
        self.most = most
        self.spent = spent
        self._reserved = 0.0
        self._held = 0
        self._settled: asyncio.Event | None = None

    async def reserve(self, cost: float) -> None:
        """Set money aside for one call: wait while other calls hold what may be left over, refuse when none can be."""
        while self.most is not None and self.spent + self._reserved + cost > self.most:
            self.demand(cost)
            self._settled = self._settled or asyncio.Event()
            await self._settled.wait()
        self._reserved += cost
        self._held += 1

    def demand(self, cost: float) -> None:
        """BudgetSpent when a call could not be paid even if no other cost anything."""
        if self.most is not None and self.spent + cost > self.most:
            raise BudgetSpent(_spent_sentence(self.spent, self.most, cost))

    def settle(self, reserved: float, cost: float | None) -> None:
        """Replace what was set aside by what the call cost; nothing is spent where nothing was charged."""
        self._held -= 1
        self._reserved = self._reserved - reserved if self._held else 0.0  # sums of fractions leave a rest
        self.spent += cost or 0.0
        if self._settled is not None:
            self._settled.set()
            self._settled = None


def _spent_sentence(spent: float, most: float, cost: float) -> str:
    over = f", {money(spent - most)} over it, for answers came out longer than their limit" if spent > most else ""
    return (
        f"{money(spent)} spent of a limit of {money(most)}{over}, and the next call could cost {money(cost)}; "
        "resume with a larger --max-cost"
    )


def most_it_can_cost(
    messages: Sequence[Mapping[str, Any]], params: Mapping[str, Any], price: Price, largest: int = 0
) -> float:
    """An upper bound of a call's cost: no token is shorter than a byte, and no answer longer than its limit.

    `largest` is the largest answer that the run has seen, in tokens, which counts where servers ignore the limit.
    """
    written = len(strictjson.dumps(list(messages)).encode("utf-8", "surrogatepass"))
    answer = params.get("max_tokens") or params.get("max_completion_tokens") or ANSWER_TOKENS
    return (written * price.input_per_million + max(int(answer), largest) * price.output_per_million) / 1e6
