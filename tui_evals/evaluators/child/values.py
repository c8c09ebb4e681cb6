"""Plain data as JSON and back: the values that two processes can exchange without trusting each other.

Only exact built-in types and a few types of the standard library and numpy are data; everything else goes to `other`,
which the bridge provides. Decoding cannot run code: there is no pickle, and types come from a table of types that only
hold data.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

MAX_DEPTH = 100
MUTABLE = (list, dict, set, bytearray)
_JSON_TYPES = (type(None), bool, float, str)
_SEQUENCES: dict[str, Callable[[Any], Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset}
_HEX: dict[str, Callable[[bytes], Any]] = {"bytes": bytes, "bytearray": bytearray}
_CONSTANTS = {"Ellipsis": Ellipsis, "NotImplemented": NotImplemented}
_TYPES = {
    f"builtins.{kind.__name__}": kind
    for kind in vars(builtins).values()
    if isinstance(kind, type)
    and (
        issubclass(kind, BaseException)
        or kind
        in (bool, bytearray, bytes, complex, dict, float, frozenset, int, list, object, range, set, slice, str, tuple)
    )
}
# Types of the standard library that are made again from their arguments.
_ARGUMENTS: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "decimal.Decimal": lambda value: (str(value),),
    "fractions.Fraction": lambda value: (value.numerator, value.denominator),
    "datetime.date": lambda value: (value.year, value.month, value.day),
    "datetime.time": lambda value: (value.hour, value.minute, value.second, value.microsecond, value.tzinfo),
    "datetime.datetime": lambda value: (*value.timetuple()[:6], value.microsecond, value.tzinfo),
    "datetime.timedelta": lambda value: (value.days, value.seconds, value.microseconds),
    "datetime.timezone": lambda value: (value.utcoffset(None),),
    "collections.Counter": lambda value: (dict(value),),
    "collections.OrderedDict": lambda value: (list(value.items()),),
    "collections.deque": lambda value: (list(value), value.maxlen),
    "uuid.UUID": lambda value: (str(value),),
    "pathlib.PosixPath": lambda value: (str(value),),
    "pathlib.PurePosixPath": lambda value: (str(value),),
}


class Malformed(ValueError):
    """The other side sent something that is not a value."""


class Values:
    """Encodes and decodes for one side; `other` encodes and `special` decodes what is not plain data."""

    def __init__(self, other: Callable[[Any], Any], special: Callable[[dict[str, Any]], Any]) -> None:
        self._other, self._special = other, special

    def encode(self, value: Any, marks: Mapping[int, int] | None = None, path: tuple[int, ...] = ()) -> Any:
        """A value as JSON; `marks` numbers the mutable ones whose changes the other side is to report."""
        kind = type(value)
        if kind in _JSON_TYPES or (kind is int and -(2**53) < value < 2**53):
            return value
        if kind is int:
            return {"int": hex(value)}
        if marks is not None and id(value) in marks:
            return {"marked": marks[id(value)], "as": self.encode(value, None, path)}
        if id(value) in path or len(path) > MAX_DEPTH:
            return self._other(value)

        def inner(part: Any) -> Any:
            return self.encode(part, marks, (*path, id(value)))

        if kind is list:
            return [inner(part) for part in value]
        if kind is dict:
            return {"dict": [[inner(key), inner(part)] for key, part in value.items()]}
        if kind in (tuple, set, frozenset):
            return {kind.__name__: [inner(part) for part in value]}
        if kind in (bytes, bytearray):
            return {kind.__name__: value.hex()}
        if kind in (range, slice):
            return {kind.__name__: [value.start, value.stop, value.step]}
        if kind is complex:
            return {"complex": [value.real, value.imag]}
        if value is Ellipsis or value is NotImplemented:
            return {"constant": repr(value)}
        return self._encode_rarer(value, kind, inner)

    def _encode_rarer(self, value: Any, kind: type, inner: Callable[[Any], Any]) -> Any:
        if kind is type:
            name = f"{value.__module__}.{value.__qualname__}"
            if _TYPES.get(name) is value or (name in _ARGUMENTS and _named_type(name) is value):
                return {"type": name}
        name = f"{kind.__module__}.{kind.__qualname__}"
        if name in _ARGUMENTS and _named_type(name) is kind:
            return {"made": name, "of": [inner(part) for part in _ARGUMENTS[name](value)]}
        if kind.__module__ == "numpy" and "numpy" in sys.modules:
            numpy = sys.modules["numpy"]
            if isinstance(value, numpy.generic) or kind is numpy.ndarray:
                array = numpy.asarray(value)
                if array.dtype.kind in "biufcSU" and array.dtype.names is None:
                    return {
                        "numpy": array.dtype.str,
                        "shape": list(array.shape),
                        "data": array.tobytes().hex(),
                        "scalar": kind is not numpy.ndarray,
                    }
        return self._other(value)

    def decode(self, data: Any) -> Any:
        """The value of some JSON."""
        if isinstance(data, list):
            return [self.decode(part) for part in data]
        if not isinstance(data, dict):
            return data
        try:
            return self._decode_object(data)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError) as problem:
            raise Malformed(str(problem)) from None

    def _decode_object(self, data: dict[str, Any]) -> Any:
        tag = next(iter(data))
        content = data[tag]
        if tag == "int":
            return int(content, 16)
        if tag == "dict":
            return {self.decode(key): self.decode(part) for key, part in content}
        if tag in _SEQUENCES:
            return _SEQUENCES[tag](self.decode(part) for part in content)
        if tag in _HEX:
            return _HEX[tag](bytes.fromhex(content))
        if tag in ("range", "slice", "complex"):
            return {"range": range, "slice": slice, "complex": complex}[tag](*content)
        if tag == "constant":
            return _CONSTANTS[content]
        if tag == "type":
            return _TYPES.get(content) or _named_type(content)
        if tag == "made":
            return _named_type(content)(*(self.decode(part) for part in data["of"]))
        if tag == "numpy":
            numpy: Any = import_module("numpy")
            array = numpy.frombuffer(bytes.fromhex(data["data"]), dtype=content).reshape(data["shape"]).copy()
            return array[()] if data["scalar"] else array
        return self._special(data)


def _named_type(name: str) -> Any:
    if name not in _ARGUMENTS:
        raise Malformed(f"{name} is no type of plain data")
    module, _, kind = name.rpartition(".")
    return getattr(import_module(module), kind)
