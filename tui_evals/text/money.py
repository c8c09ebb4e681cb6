"""Amounts of money as people read them."""

from __future__ import annotations


def money(amount: float) -> str:
    """US dollars with as many decimals as tell something."""
    if amount == 0:
        return "$0"
    if amount < 0.00005:
        return "<$0.0001"
    return f"${amount:.4f}" if amount < 0.1 else f"${amount:.3f}" if amount < 1 else f"${amount:,.2f}"
