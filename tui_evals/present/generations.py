"""Generations in words: the price, the steps, the progress and the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tui_evals.store.battles import ActivityRow
from tui_evals.text.measures import counted

from .estimates import estimated_cost
from .runs import destination_lines

_STATES: Mapping[str, str] = {"made": "is made", "failed": "could not be made"}


def price_sentence(calls: int, cost: float | None) -> str:
    """How many calls a generation takes, and about how much money."""
    return f"{counted(calls, 'call')}, {estimated_cost(cost)}; repairs and retries may add some"


def price_text(calls: int, cost: float | None, destinations: Mapping[str, Mapping[str, str | None]]) -> str:
    """The price, and where questions and keys go."""
    return ". ".join((price_sentence(calls, cost), *destination_lines(destinations)))


def step_price(step: str, calls: int, *, certain: bool) -> str:
    """How many calls a step takes."""
    about = "" if certain else "about "
    text = f"{about}{counted(calls, 'call')}" if calls else "there already"
    return f"{step:<13} {text}"


def step_message(step: str, state: str, result: str, *, has_file: bool) -> str:
    """What became of a step."""
    if state == "made":
        return f"{step}: {_STATES[state] if has_file or not result else result}"
    return f"{step}: {_STATES[state]}"


def stopped_sentence(reason: str) -> str:
    """Why a generation ended early, and that it can continue."""
    if not reason:
        return "stopped before the end. What was made is kept; the same command continues"
    return f"stopped: {reason.rstrip('.')}. What was made is kept; the same command continues"


def outdated_note(files: Sequence[str], sources: Sequence[str], steps: Sequence[str]) -> str:
    """Which files are older than what they were made from, and how to make them again."""
    was, pronoun = ("were", "them") if len(steps) > 1 else ("was", "it")
    return (
        f"{_listed(files)} {was} made before {_listed(sources)} changed; `--from {','.join(steps)}` makes {pronoun} "
        f"anew, and what follows from {pronoun}"
    )


def _listed(names: Sequence[str]) -> str:
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), *names[-1:]])


def progress_text(now: ActivityRow) -> str:
    """The steps that are being taken, and how far each is."""
    steps = now.facts.get("steps")
    parts = []
    for name, count in steps.items() if isinstance(steps, dict) else ():
        done, total = count if isinstance(count, list) and len(count) == 2 else (0, 0)
        parts.append(f"{name} {done}/{total}" if total else str(name))
    return ", ".join(parts) or "starting"
