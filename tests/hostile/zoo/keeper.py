"""Keeps the zoo: makes clone after clone, shows each, and reports the laws broken with the smallest clone that does."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from .animals import Animal, acts_on, clones, release
from .project import make_project, variables
from .screens import SCREENS, screens_of
from .stores import MAY_RAISE, STORE_FILE
from .watch import Act, Breach, Place, Sight, watched

LINKED_CODE = ("helper.py", "out")
"""The code of a function may be a link: what it leads to is hashed, because it is part of what is agreed to."""


@dataclass(frozen=True)
class Finding:
    """A law that was broken, and the smallest clone that breaks it."""

    animals: tuple[Animal, ...]
    breach: Breach

    def __str__(self) -> str:
        named = " ".join(map(str, self.animals))
        return f"{self.breach.law}: {' '.join(self.breach.act)}\n    in {named}\n    {self.breach.seen}"


@dataclass
class Tally:
    """What one worker did."""

    clones: int = 0
    acts: int = 0
    slowest: tuple[float, str] = (0.0, "")
    largest: tuple[int, str] = (0, "")
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.clones += other.clones
        self.acts += other.acts
        self.slowest, self.largest = max(self.slowest, other.slowest), max(self.largest, other.largest)
        self.findings += other.findings


class Enclosure:
    """A sound clone, and the place where hostile ones are made of it one after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._listener.setblocking(False)
        self._port = self._listener.getsockname()[1]
        self._sound = folder / "sound" / "clone"
        self._sound.parent.mkdir(parents=True)
        self.place = Place(folder / "clone", folder / "home", folder / "outside")
        make_project(self._sound, self.place.outside, self._port)
        for name in ("home", "scratch"):
            (folder / name).mkdir()

    def show(self, animals: Sequence[Animal], acts: Sequence[Act], *, runner: bool = False) -> Iterator[Sight]:
        """Make a clone and do acts on it, and say what was seen of each."""
        release(animals, self._sound, self.place.root, self.place.outside, self._port)
        shutil.rmtree(self.place.home)
        self.place.home.mkdir()
        given: Mapping[str, str] = {**variables(self.place.home), **({"GITHUB_ACTIONS": "true"} if runner else {})}
        for sight in watched(self.place, acts, SCREENS, given):
            if called := self._called():
                sight.breaches.append(Breach(sight.act, "connection", called))
            if any(animal.malice in MAY_RAISE and animal.file == STORE_FILE for animal in animals):
                sight.breaches = [breach for breach in sight.breaches if breach.law != "words"]
            if any((animal.file, animal.malice) == LINKED_CODE for animal in animals):
                read = f"read {self.place.outside / 'secret.txt'}"
                sight.breaches = [breach for breach in sight.breaches if breach.seen != read]
            yield sight
        self._tidy()

    def close(self) -> None:
        """Listen to nobody any more."""
        self._listener.close()

    def _called(self) -> str:
        """Who reached the address that the clone names."""
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return ""
        connection.close()
        return "reached the listener of the clone"

    def _tidy(self) -> None:
        """Take away the marks that something left."""
        for name in os.listdir(self.place.outside):
            if name != "secret.txt":
                (self.place.outside / name).unlink()

    def smallest(self, animals: Sequence[Animal], breach: Breach, *, runner: bool) -> Finding | None:
        """The finding with as few animals as break the law; None where it does not happen again."""
        for few in (*((animal,) for animal in animals), tuple(animals)):
            for sight in self.show(few, [breach.act], runner=runner):
                again = next((one for one in sight.breaches if one.law == breach.law), None)
                if again is not None:
                    return Finding(few, again)
        return None


@dataclass(frozen=True)
class Round:
    """Which clones are made, and which of them by which of the workers."""

    seed: int
    clones: int
    seconds: float
    screens: int
    at_once: int
    workers: int

    def share(self, mine: int) -> Iterator[tuple[tuple[Animal, ...], list[Act], bool]]:
        """The clones of one worker: their animals, what is done in them, and whether a runner reads along."""
        end = time.monotonic() + self.seconds
        for number, animals in enumerate(itertools.islice(clones(self.seed, self.at_once), self.clones)):
            if time.monotonic() > end:
                return
            if number % self.workers == mine:
                acts = acts_on(animals, self.seed)
                if self.screens and number % max(1, self.clones // self.screens) == mine:
                    acts += screens_of(animals, number)
                yield animals, acts, number % 8 == 7


def keep(folder: Path, wanted: Round, mine: int) -> Tally:
    """Show the clones of one worker, and say at once what is found."""
    tally = Tally()
    found: set[tuple[str, str, str]] = set()
    with closing(Enclosure(folder)) as enclosure:
        for animals, acts, runner in wanted.share(mine):
            named = " ".join(map(str, animals))
            tally.clones += 1
            for sight in list(enclosure.show(animals, acts, runner=runner)):
                where = f"{' '.join(sight.act)} in {named}"
                tally.acts += 1
                tally.slowest = max(tally.slowest, (sight.seconds, where))
                tally.largest = max(tally.largest, (sight.peak, where))
                for breach in sight.breaches:
                    told = (breach.law, sight.act[0], " ".join(f"{one.file}:{one.malice}" for one in animals))
                    if told not in found and (finding := enclosure.smallest(animals, breach, runner=runner)):
                        found.add(told)
                        tally.findings.append(finding)
                        print(f"{finding}\n", flush=True)
    return tally
