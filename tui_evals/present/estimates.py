"""What a run will take, in words, before it begins."""

from __future__ import annotations

from collections.abc import Sequence

from tui_evals.runs.plan import Estimate
from tui_evals.text.money import money

from .figures import counted


def estimated_cost(cost: float | None, unpriced: Sequence[str] = ()) -> str:
    """What something is expected to cost, and who of those asked has no known price; None where it is not known."""
    if unpriced:
        names = ", ".join(unpriced)
        known = f"about {money(cost)} without {names}, whose price" if cost else f"cost unknown: the price of {names}"
        return f"{known} is not known"
    if cost is None:
        return "cost unknown: a price is missing"
    return f"about {money(cost)}" if cost else "free"


def estimate_sentence(estimate: Estimate) -> str:
    """What a run will take: calls of its targets and what the cache knows of them, calls of its judges, money."""
    answers, judge_calls = estimate.answers, estimate.judge_calls
    calls = [f"{counted(answers, 'call')}{_known(estimate)}{_further(estimate)}"] if answers or not judge_calls else []
    if estimate.played:
        calls.append(f"up to {estimate.played:,} to play users")
    if judge_calls:
        calls.append(f"{judge_calls:,} of the judge" if calls else f"{counted(judge_calls, 'call')} of the judge")
    return f"{' and '.join(calls)}, {estimated_cost(estimate.known_cost, estimate.unpriced)}{_uncounted(estimate)}"


def _uncounted(estimate: Estimate) -> str:
    """That the money is without what goes along as a file, which each provider counts in a way of its own."""
    if not estimate.with_files:
        return ""
    return f", without the pictures, sounds and PDFs in {counted(estimate.with_files, 'call')}, which are not counted"


def _further(estimate: Estimate) -> str:
    after = "after tools or users" if estimate.played else "after tools"
    return f" and up to {estimate.further:,} more {after}" if estimate.further else ""


def _known(estimate: Estimate) -> str:
    if not estimate.cached:
        return ""
    least = "" if estimate.all_looked_up else "at least "
    return f" ({least}{estimate.cached:,} of {estimate.answers:,} known)"


def why_think_twice(estimate: Estimate, most_cost: float, most_calls: int) -> str:
    """Why a run is not to be started by a key that was pressed in passing; empty where it may."""
    if estimate.unpriced:
        return f"nobody knows what {', '.join(estimate.unpriced)} costs"
    if estimate.with_files:
        return "what its pictures, sounds and PDFs cost is not counted"
    if estimate.known_cost > most_cost:
        return f"this is more than {money(most_cost)}"
    if estimate.calls > most_calls:
        return f"this is more than {counted(most_calls, 'call')}"
    return ""
