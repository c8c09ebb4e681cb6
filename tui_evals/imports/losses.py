"""What became of each part of a foreign file: carried over, changed on the way, or left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Literal

from tui_evals.light_records import dataclass

Kind = Literal["carried", "changed", "left out"]
KINDS: tuple[Kind, ...] = ("left out", "changed", "carried")


@dataclass(frozen=True, slots=True)
class Loss:
    """One part and its fate; `where` is a file with its line, or a path in a document."""

    kind: Kind
    what: str
    where: str = ""
    why: str = ""

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.kind}: {self.what}" + (f" ({self.why})" if self.why else "")


@dataclass(slots=True)
class Losses:
    """The entries of one import or export, in the order they were met; the same one is kept once."""

    entries: list[Loss] = field(default_factory=list)
    assertions: dict[object, bool] = field(default_factory=dict, compare=False)
    """Every assertion of the source, by its place, and whether it judges here as it does there."""
    _known: set[Loss] = field(default_factory=set, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Know the entries it starts with."""
        self._known.update(self.entries)

    def carried(self, what: str, where: str = "", why: str = "") -> None:
        """Note a part that means the same here."""
        self._add(Loss("carried", what, where, why))

    def changed(self, what: str, where: str = "", why: str = "") -> None:
        """Note a part that was brought over with another meaning or shape."""
        self._add(Loss("changed", what, where, why))

    def left_out(self, what: str, where: str = "", why: str = "") -> None:
        """Note a part that has no equal and was not brought over."""
        self._add(Loss("left out", what, where, why))

    def extend(self, other: Losses) -> None:
        """Note everything another report holds."""
        for entry in other.entries:
            self._add(entry)

    def judges(self, place: object, told: Losses) -> None:
        """Take in what was noted of one assertion, and whether anything of it was changed or left out."""
        self.extend(told)
        same = all(entry.kind == "carried" for entry in told.entries)
        self.assertions[place] = same and self.assertions.get(place, True)

    def of(self, kind: Kind) -> Iterator[Loss]:
        """The entries of one kind, in the order they were met."""
        return (entry for entry in self.entries if entry.kind == kind)

    def ordered(self) -> list[Loss]:
        """What was left out, then what was changed, then what was carried."""
        return [entry for kind in KINDS for entry in self.of(kind)]

    def sentences(self) -> list[str]:
        """The report as lines, in that order."""
        return [str(entry) for entry in self.ordered()]

    def _add(self, entry: Loss) -> None:
        if entry not in self._known:
            self._known.add(entry)
            self.entries.append(entry)
