"""The money a run may spend: set aside before a call, and in the store before the call goes out; settled after it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer
from tui_evals.targets.base import Price, Request
from tui_evals.targets.takes import ANSWER_TOKENS, LENGTHS, UNSET
from tui_evals.text import strictjson
from tui_evals.text.money import money


class BudgetSpent(Exception):
    """The next call could exceed what the run may spend."""


class Reservations(Protocol):
    """Where money for calls is set aside."""

    most: float | None

    async def reserve(self, cost: float) -> None:
        """Set money aside for a call, or BudgetSpent."""
        ...

    def settle(self, reserved: float, cost: float, may_cost: float = 0.0) -> None:
        """Replace what was set aside by what the call cost, or by what it may have cost where nobody knows."""
        ...


class Budget:
    """What is left of a run's money; None means no limit.

    What calls may have cost counts against the limit like what they did cost: a call without an answer may be billed.
    """

    def __init__(self, most: float | None, spent: float = 0.0) -> None:
        self.most = most
        self.spent = spent
        self.unsure = 0.0
        """What calls may have cost of which that is not known."""
        self.lent = 0.0
        """What others hold of it who set money aside for calls themselves."""
        self._reserved = 0.0
        self._held = 0
        self._settled: asyncio.Event | None = None
        self._lost = 0.0
        self._run: tuple[Writer, int] | None = None

    def of_run(self, run: int, reader: Reader, writer: Writer) -> None:
        """Go on from what a run has spent, and keep in its row what is set aside.

        What is set aside there already belongs to calls that were out when their process ended, of which nobody will
        hear again.
        """
        self.spent, noted = reader.spent(run)[0], reader.may_cost(run)
        self._lost = reader.reserved(run)
        self.unsure = noted + self._lost
        self._run = (writer, run)

    @property
    def committed(self) -> float:
        """What is spent or may be, calls that are out not counted."""
        return self.spent + self.unsure

    async def reserve(self, cost: float) -> None:
        """Set money aside for one call: wait while other calls hold what may be left over, refuse when none can be.

        It is in the store when this returns, so that whoever goes on after a crash knows what may have been spent.
        """
        while self.most is not None and self.committed + self._reserved + cost > self.most:
            if not self._held:  # what is out comes first, so that a refusal says all that was spent
                self.demand(cost)
            self._settled = self._settled or asyncio.Event()
            await self._settled.wait()
        self._reserved += cost
        self._held += 1
        try:
            await self.secure()
        except BaseException:
            self.settle(cost, 0.0)
            raise

    async def secure(self) -> None:
        """Return once the store knows all that is set aside now; without a limit nothing is."""
        if self.most is not None and self._run is not None:
            writer, run = self._run
            await writer.secure(run, self._lost + self._reserved + self.lent)

    def demand(self, cost: float) -> None:
        """BudgetSpent when a call could not be paid even if no other cost anything."""
        if self.most is not None and self.committed + cost > self.most:
            raise BudgetSpent(self._spent_sentence(self.most, cost))

    def settle(self, reserved: float, cost: float, may_cost: float = 0.0) -> None:
        """Replace what was set aside by what the call cost; the call itself has been handed to the store before."""
        self._held -= 1
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
        over = self.spent - most
        beyond = f", {money(over)} over it, for answers came out longer than their limit" if over > 0 else ""
        unsure = f" and perhaps {money(self.unsure)} more," if self.unsure else ""
        return (
            f"{money(self.spent)} spent{unsure} of a limit of {money(most)}{beyond}, and the next call could cost "
            f"{money(cost)}; resume with a larger --max-cost"
        )


def most_it_can_cost(request: Request, price: Price, largest: int = 0) -> float:
    """An upper bound of a call's cost: no token is shorter than a byte, and no answer longer than its limit.

    `largest` is the largest answer that the run has seen, in tokens, which counts where servers ignore the limit. Not
    bounded are pictures and other files in a question, whose tokens have nothing to do with the length of what is sent.
    """
    params = request.params
    limits = [int(params[name]) for name in LENGTHS if params.get(name) and params[name] != UNSET]
    answer = max([largest, *(limits or [ANSWER_TOKENS])]) * max(1, int(params.get("n") or 1))
    return reading_costs(request, price) + answer * price.output_per_million / 1e6


def reading_costs(request: Request, price: Price) -> float:
    """The part of that bound which is for the question: what a call costs at most whose question was refused."""
    written = _bytes(request.messages)
    if request.tools:
        written += _bytes(request.tools)
    if isinstance(request.response_format, Mapping):
        written += _bytes(request.response_format)
    return (price.per_call or 0.0) + written * price.most_per_input / 1e6


def _bytes(value: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> int:
    written = value if isinstance(value, Mapping) else list(value)
    return len(strictjson.dumps(written).encode("utf-8", "surrogatepass"))
