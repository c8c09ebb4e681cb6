"""How many tokens a text is, without any model's vocabulary."""

from __future__ import annotations

BYTES_PER_TOKEN = 4


def estimate_tokens(text: str) -> int:
    """One token for every four bytes of UTF-8, rounded up: close for prose in any script, never exact."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def tokens_per_second(tokens: int | None, milliseconds: float | None) -> float | None:
    """The pace of an answer over the whole call; None where the one or the other is not known."""
    return 1000 * tokens / milliseconds if tokens and milliseconds else None
