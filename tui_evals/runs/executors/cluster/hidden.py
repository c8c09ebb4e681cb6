"""Letters with an order pass through Dask, whose logs show what passes at the level debug; an order shows nothing."""

from __future__ import annotations

from .wire import Letter


class Hidden:
    """A text that is not shown where it passes: it holds the variables that were handed on."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        """Nothing of it."""
        return "(hidden)"


def hidden(letter: Letter) -> Letter:
    """A letter of the driver as it is sent."""
    from distributed.protocol import to_serialize

    return {**letter, "order": to_serialize(Hidden(letter["order"]))} if "order" in letter else letter


def uncovered(letter: Letter) -> Letter:
    """The letter again, where it has come."""
    return {**letter, "order": letter["order"].text} if "order" in letter else letter
