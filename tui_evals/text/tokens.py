"""How many tokens a text is, without any model's vocabulary."""

from __future__ import annotations

BYTES_PER_TOKEN = 4


def estimate_tokens(text: str) -> int:
    """One token for every four bytes of UTF-8, rounded up: close for prose in any script, never exact."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)
