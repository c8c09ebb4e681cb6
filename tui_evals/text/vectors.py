"""Embeddings as text: a line for each vector, of 32-bit numbers, as targets give them and stores keep them."""

from __future__ import annotations

import base64
import binascii
import json
import math
import sys
from array import array
from collections.abc import Sequence
from operator import mul

MAX_LENGTH = 100_000
"""Numbers in a vector; no model gives so many."""


def pack_vector(vector: Sequence[float]) -> str:
    """A vector as a line of text; ValueError for what is none."""
    if not 0 < len(vector) <= MAX_LENGTH or not all(map(math.isfinite, vector)):
        raise ValueError("it is no list of finite numbers")
    try:
        numbers = array("f", vector)
    except OverflowError:
        raise ValueError("it holds a number that is too large") from None
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()


def unpack_vector(line: str) -> list[float]:
    """The vector of a line, packed or written as a JSON list; ValueError for what is none."""
    if line.startswith("["):
        values = json.loads(line)
        if not all(type(value) in (int, float) for value in values):
            raise ValueError("it is no list of numbers")
        return [float(value) for value in values]
    numbers = array("f")
    try:
        numbers.frombytes(base64.b64decode(line, validate=True))
    except (binascii.Error, ValueError):
        raise ValueError("it is no vector") from None
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """How alike two vectors point, from -1 to 1; 0 where one has no direction. ValueError if their lengths differ."""
    if len(left) != len(right):
        raise ValueError(f"one vector holds {len(left):,} numbers and the other {len(right):,}")
    size = math.sqrt(sum(map(mul, left, left))) * math.sqrt(sum(map(mul, right, right)))
    return max(-1.0, min(1.0, sum(map(mul, left, right)) / size)) if size else 0.0
