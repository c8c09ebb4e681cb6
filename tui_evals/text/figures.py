"""Numbers as people read them in a narrow column: money, durations, tokens, scores."""

from __future__ import annotations


def money(amount: float) -> str:
    """US dollars with as many decimals as tell something."""
    if amount == 0:
        return "$0"
    if amount < 0.00005:
        return "<$0.0001"
    return f"${amount:.4f}" if amount < 0.1 else f"${amount:.3f}" if amount < 1 else f"${amount:,.2f}"


def duration(seconds: float) -> str:
    """A time span in at most seven cells."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02}m" if hours < 100 else f"{hours // 24} days"


def compact(count: int | None) -> str:
    """A count in at most four cells."""
    if count is None:
        return "?"
    if count < 1000:
        return str(count)
    for size, letter in ((1e3, "k"), (1e6, "M"), (1e9, "G")):
        if count < 999.5 * size:
            return f"{count / size:.1f}{letter}" if count < 9.95 * size else f"{count / size:.0f}{letter}"
    return "many"


def number(score: float) -> str:
    """A score with two decimals, fewer where it is large."""
    if abs(score) < 10:
        return f"{score:.2f}"
    return f"{score:.1f}".removesuffix(".0") if abs(score) < 10_000 else f"{score:.0e}"
