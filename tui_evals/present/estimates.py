"""What a run will take, in words, before it begins."""

from __future__ import annotations

from collections.abc import Sequence

from tui_evals.runs.estimating import Estimate
from tui_evals.text.measures import counted, money, rough_duration

_SHORT = 5.0
"""Seconds that are not worth saying."""


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
    """What a run will take: calls of its targets and judges, what of them is known, money, time, and the last time."""
    answers, judge_calls = estimate.answers, estimate.judge_calls
    judged = judge_calls or estimate.kept or estimate.known_verdicts
    calls = [f"{counted(answers, 'call')}{_known(estimate)}{_further(estimate)}"] if answers or not judged else []
    if estimate.played:
        calls.append(f"up to {estimate.played:,} to play users")
    if judged:
        most = "" if estimate.all_tried else "at most "
        count = f"{judge_calls:,}" if calls else counted(judge_calls, "call")
        calls.append(f"{most}{count} of the judge{_spared(estimate)}")
    cost = estimated_cost(estimate.known_cost, estimate.unpriced)
    return f"{' and '.join(calls)}, {cost}{_uncounted(estimate)}{_time(estimate)}{_last_time(estimate)}"


def kept_sentence(kept: int, judged: int) -> str:
    """What judging a run again left as it was."""
    were = counted(kept, "score was", "scores were")
    return f"{were} kept from earlier judgings; {judged:,} made now" if judged else f"{were} kept from earlier judgings"


def _spared(estimate: Estimate) -> str:
    """What need not be judged, because it was judged alike before."""
    scores = f"{counted(estimate.kept, 'score is', 'scores are')} kept" if estimate.kept else ""
    verdicts = f"{counted(estimate.known_verdicts, 'verdict')} known" if estimate.known_verdicts else ""
    spared = ", ".join(filter(None, (scores, verdicts)))
    return f" ({spared})" if spared else ""


def _time(estimate: Estimate) -> str:
    """How long it takes, where that is long enough to say."""
    seconds = estimate.seconds
    return "" if seconds is None or seconds < _SHORT else f", about {rough_duration(seconds)}"


def _last_time(estimate: Estimate) -> str:
    """What a run like it cost and took."""
    last = estimate.last
    if last is None or not last.cost or not estimate.calls:
        return ""
    took = "" if last.seconds is None or last.seconds < _SHORT else f" in {rough_duration(last.seconds)}"
    return f" (last time: {money(last.cost)}{took})"


def _uncounted(estimate: Estimate) -> str:
    """Says that the cost leaves out attached files, which each provider counts differently."""
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
        return f"the price of {', '.join(estimate.unpriced)} is unknown"
    if estimate.with_files:
        return "what its pictures, sounds and PDFs cost is not counted"
    if estimate.known_cost > most_cost:
        return f"this costs more than {money(most_cost)}"
    if estimate.calls > most_calls:
        return f"this takes more than {counted(most_calls, 'call')}"
    return ""
