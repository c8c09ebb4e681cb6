"""What a battle came to, as lines and as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tui_evals.compare.battles import Lean, Match, Tally, corrected, lean, lean_sentence, meetings, sentence, tally
from tui_evals.compare.ratings import Rating, ratings
from tui_evals.compare.statistics import Interval, percent
from tui_evals.compare.verdicts import NAMES
from tui_evals.store.records import RunRow

from .output import columns, say
from .tables import table, wrapped

_RELATIVE = (
    "Elo says how strong these runs are beside each other in the eyes of this judge, 1000 on average: 100 more means "
    "to win 64 of 100. Other runs, items or judges give other numbers."
)
_ALONE = "beside a run with several targets only those of one name do, so battle the two alone"


@dataclass(frozen=True, slots=True)
class Duel:
    """Two runs, by their places, and the pairs of answers of theirs that are compared."""

    places: tuple[int, int]
    pairs: tuple[tuple[int, tuple[int, int]], ...]
    """The number of the item, and the answers by their ids."""
    equal: frozenset[tuple[int, int]]
    """Pairs that say the same."""
    unanswered: int
    """Pairs that are left out because a side has no answer."""
    edited: int
    """Pairs that are left out because the item was changed between the runs."""


@dataclass(frozen=True, slots=True)
class Battled:
    """All that is known of a battle by now; tallies are in the order of the duels, ratings in that of the runs."""

    runs: Sequence[RunRow]
    duels: Sequence[Duel]
    matches: Sequence[Sequence[Match]]
    tallies: Sequence[Tally]
    lean: Lean | None
    ratings: Sequence[Rating]
    """Empty without a verdict."""


def battled(runs: Sequence[RunRow], duels: Sequence[Duel], matches: Sequence[Sequence[Match]]) -> Battled:
    """What matches come to."""
    met = meetings({duel.places: own for duel, own in zip(duels, matches, strict=True)})
    tallies = corrected([tally(own) for own in matches])
    return Battled(
        runs,
        duels,
        matches,
        tallies,
        lean(match for own in matches for match in own),
        ratings(met, len(runs)) if any(own.judged for own in tallies) else (),
    )


# -- as lines


def say_runs(runs: Sequence[RunRow], duels: Sequence[Duel], judge: str, due: int) -> None:
    """Say what is compared, before anything is asked."""
    room = columns()
    rows = [[name, run.key, run.name, ", ".join(run.targets)] for name, run in zip(NAMES, runs, strict=False)]
    for line in table(rows, elastic=(2, 3), room=room):
        say(line)
    for duel in duels:
        left, right = _names(duel)
        for count, why in ((duel.unanswered, "a side has no answer"), (duel.edited, "the item was edited in between")):
            if count:
                _say(f"{left} and {right}: {_pairs(count)} left out because {why}.", dim=True)
        if not (duel.pairs or duel.unanswered or duel.edited):
            _say(f"{left} and {right} have no answers that face each other; {_ALONE}.", dim=True)
    pairs = sum(len(duel.pairs) for duel in duels)
    equal = sum(len(duel.equal) for duel in duels)
    _say(f"{_pairs(pairs)}: {equal:,} equal, {pairs - equal - due:,} decided earlier, {due:,} for {judge} to decide.")


def say_battled(found: Battled) -> None:
    """Say who is preferred, whether that can be chance, how the judge leans, and the ratings."""
    for duel, own in zip(found.duels, found.tallies, strict=True):
        left, right = _names(duel)
        say()
        _say(sentence(own, left, right), bold=True)
        _say(_counted(own, left, right))
        if own.judged and own.share is not None and own.interval is not None:
            ends = f"{percent(own.interval.low)} to {percent(own.interval.high)}"
            _say(f"Win rate of {right} over {left}: {percent(own.share)}, 95 % interval {ends}; a tie counts half.")
    if found.lean is not None:
        say()
        _say(lean_sentence(found.lean), **({"fg": "yellow"} if found.lean.real else {}))
    if any(match.bout.scripted for own in found.matches for match in own if match.bout):
        _say("Scripted verdicts are among these; they show how a battle goes and say nothing of the runs.", fg="yellow")
    if found.ratings:
        say()
        for number, line in enumerate(_rating_table(found)):
            say(line, dim=number == 0)
        _say(_RELATIVE, dim=True)


def _counted(own: Tally, left: str, right: str) -> str:
    ties = [f"{count:,} {why}" for count, why in ((own.split, "changed with the order"), (own.equal, "equal")) if count]
    parts = [
        f"{left} wins {own.wins[0]:,}",
        f"{right} wins {own.wins[1]:,}",
        f"{own.ties:,} tie{'' if own.ties == 1 else 's'}" + (f" ({', '.join(ties)})" if ties else ""),
    ]
    parts += [f"{own.undecided:,} without a verdict"] if own.undecided else []
    parts += [f"{own.waiting:,} not asked yet"] if own.waiting else []
    return " · ".join(parts)


def _rating_table(found: Battled) -> list[str]:
    rows = [["", "run", "name", "Elo", "95 % interval"]]
    rated = zip(NAMES, found.runs, found.ratings, strict=False)
    for name, run, rating in sorted(rated, key=lambda one: -one[2].elo):
        ends = f"{rating.interval.low:.0f} to {rating.interval.high:.0f}"
        rows.append([name, run.key, run.name, f"{rating.elo:.0f}", ends])
    return table(rows, right=(3,), elastic=(2,), room=columns())


def _say(text: str, **style: Any) -> None:
    for line in wrapped(text, columns()):
        say(line, **style)


def _names(duel: Duel) -> tuple[str, str]:
    left, right = duel.places
    return NAMES[left], NAMES[right]


def _pairs(count: int) -> str:
    return "1 pair of answers" if count == 1 else f"{count:,} pairs of answers"


# -- as data


def data(found: Battled) -> dict[str, Any]:
    """The same as plain data."""
    rated: Sequence[Rating | None] = found.ratings or [None] * len(found.runs)
    return {
        "runs": [_run(*each) for each in zip(NAMES, found.runs, rated, strict=False)],
        "duels": [_duel(found.runs, *each) for each in zip(found.duels, found.tallies, strict=True)],
        "position": None if found.lean is None else _lean(found.lean),
    }


def _run(name: str, run: RunRow, rating: Rating | None) -> dict[str, Any]:
    about = {"letter": name, "run": run.key, "name": run.name, "targets": list(run.targets)}
    ends = None if rating is None else _ends(rating.interval)
    return {**about, "elo": None if rating is None else rating.elo, "interval": ends}


def _duel(runs: Sequence[RunRow], duel: Duel, own: Tally) -> dict[str, Any]:
    left, right = duel.places
    return {
        "left": runs[left].key,
        "right": runs[right].key,
        "pairs": len(duel.pairs),
        "left_wins": own.wins[0],
        "right_wins": own.wins[1],
        "ties": own.ties,
        "ties_by_order": own.split,
        "equal_answers": own.equal,
        "without_verdict": own.undecided,
        "not_asked": own.waiting,
        "unanswered": duel.unanswered,
        "edited": duel.edited,
        "items": own.test.items,
        "win_rate": own.share,
        "interval": None if own.share is None else _ends(own.interval),
        "p": own.test.p,
        "adjusted_p": own.test.adjusted,
        "verdict": sentence(own, *_names(duel)),
    }


def _lean(found: Lean) -> dict[str, Any]:
    numbers = {"first_shown": found.share, "interval": _ends(found.interval), "p": found.p, "items": found.items}
    return {**numbers, "real": found.real, "verdict": lean_sentence(found)}


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]
