"""Records and sequences that cost little: `dataclass` as the whole product uses it, and elements made on demand.

What `dataclasses` compiles for each class took a fifth of the start of a command. Here only `__init__` is compiled;
comparison, hash and representation are shared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, TypeVar, overload

__all__ = ["LazySequence", "dataclass"]

Element = TypeVar("Element", covariant=True)

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, **options):
        """A dataclass; that a frozen one is not changed is held by the type checker alone.

        To hold it while objects are made takes four times as long as making them: 15 µs of each answer, a tenth of it.
        """
        if cls is None:
            return lambda decorated: dataclass(decorated, **options)
        if options.get("order"):
            return dataclasses.dataclass(cls, **options)
        own = {**cls.__dict__}
        cls.__doc__ = cls.__doc__ or cls.__name__  # else its signature is worked out for it
        shared = {"frozen": False, "eq": False, "repr": False}
        made = dataclasses.dataclass(cls, **{**options, **shared})
        if options.get("repr", True) and "__repr__" not in own:
            made.__repr__ = _repr
        if options.get("eq", True):
            _compare_fields(made, own, is_frozen=options.get("frozen", False))
        return made

    def _compare_fields(made, own, *, is_frozen):
        every = dataclasses.fields(made)
        compared = _getter([each.name for each in every if each.compare])

        def __eq__(self, other):
            return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

        if "__eq__" not in own:
            made.__eq__ = __eq__
        if own.get("__hash__") is None:
            hashed = _getter([each.name for each in every if (each.compare if each.hash is None else each.hash)])
            made.__hash__ = (lambda self: hash(hashed(self))) if is_frozen else None

    def _getter(names):
        return attrgetter(*names) if names else lambda _: ()

    @recursive_repr()
    def _repr(self):
        shown = (f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"


class LazySequence(Sequence[Element]):
    """A sequence whose elements are made one by one: `row_at` returns the element with a number from 0."""

    def row_at(self, number: int) -> Element:
        """Return one element; the number is within the sequence."""
        raise NotImplementedError

    @overload
    def __getitem__(self, number: int) -> Element: ...

    @overload
    def __getitem__(self, number: slice) -> list[Element]: ...

    def __getitem__(self, number: int | slice) -> Element | list[Element]:
        if isinstance(number, slice):
            return [self.row_at(place) for place in range(*number.indices(len(self)))]
        place = number + len(self) if number < 0 else number
        if not 0 <= place < len(self):
            raise IndexError(number)
        return self.row_at(place)
