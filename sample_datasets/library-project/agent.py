"""An agent that reads orders: it answers with JSON data, and with text where it needs to know more."""

from __future__ import annotations

import re
from dataclasses import dataclass

PRICES = {"apple": 0.5, "bread": 2.4, "cheese": 6.0, "milk": 1.2}
NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "a dozen": 12}
LINE = re.compile(rf"\b({'|'.join(sorted(NUMBERS, key=len, reverse=True))}|\d+)\s+({'|'.join(PRICES)})s?\b")


@dataclass(frozen=True)
class Line:
    """One line of an order."""

    product: str
    count: int

    @property
    def price(self) -> float:
        """What the line costs."""
        return self.count * PRICES[self.product]


def lines_of(text: str) -> list[Line]:
    """The lines of an order that a customer wrote."""
    found = LINE.findall(text.lower())
    return [Line(product, NUMBERS[word] if word in NUMBERS else int(word)) for word, product in found]


async def order_agent(prompt: str) -> dict[str, object] | str:
    """The order as data, or a question where there is none to be read."""
    lines = lines_of(prompt)
    if not lines:
        return "What would you like to order?"
    return {
        "lines": {line.product: line.count for line in lines},
        "total": round(sum(line.price for line in lines), 2),
    }


async def careless_agent(prompt: str) -> dict[str, object] | str:
    """The agent before it learned to count: every line is one piece."""
    lines = [Line(line.product, 1) for line in lines_of(prompt)]
    if not lines:
        return "What would you like to order?"
    return {"lines": {line.product: 1 for line in lines}, "total": round(sum(line.price for line in lines), 2)}
