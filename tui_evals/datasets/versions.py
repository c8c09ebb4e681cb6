"""What is known of the eval document format without its model: the version written, its roles, how long it gets."""

from typing import Literal

CURRENT_VERSION = "1.11.0"
MAX_TURNS = 2_000
"""Turns of a conversation: each is asked with all before it, so that twice as many send four times as much."""

Role = Literal["system", "user", "assistant", "tool"]
