"""Runs an answer and its test in two processes, so that the answer's code cannot influence the verdict of the test.

Each side holds objects of the other as `Remote`: plain data is passed by value, everything else is requested over a
socket. The test may do anything with objects of the answer. The answer may only call, iterate, and access public
attributes of the objects it received. Comparisons in a test run in the test's process: plain data of the test is never
passed to comparison methods of the answer, so that an object that claims to equal everything equals nothing.
"""

from __future__ import annotations

import builtins
import io
import json
import math
import operator
import os
import sys
import threading
import traceback
import types
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import redirect_stdout
from importlib import import_module
from socket import socket
from typing import Any, NoReturn

from .values import MUTABLE, Malformed, Values

MODULE = "answer"
BUILTIN_NAMES = frozenset(dir(builtins))
MAX_COMPARED = 256  # of larger data that both sides name, only the identity and not the content is compared
_BASES: tuple[type, ...] = (int, float, complex, str, bytes, tuple, list, dict, set, frozenset)
_COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
# Operations that would show how far a result is from the expected one; comparisons of their results stay hidden.
_DIFFERENCES = ("__sub__", "__truediv__", "__floordiv__", "__mod__", "__divmod__", "__xor__")
_ARITHMETIC = ("__add__", "__mul__", "__matmul__", "__pow__", "__lshift__", "__rshift__", "__and__", "__or__")
_BINARY = (*_DIFFERENCES, *_ARITHMETIC)
_REFLECTED = {f"__r{name[2:]}": name for name in _BINARY}
_UNARY: dict[str, Callable[..., Any]] = {
    "__len__": len,
    "__iter__": iter,
    "__next__": next,
    "__bool__": bool,
    "__int__": int,
    "__float__": float,
    "__complex__": complex,
    "__index__": operator.index,
    "__str__": str,
    "__repr__": repr,
    "__hash__": hash,
    "__reversed__": reversed,
    "__neg__": operator.neg,
    "__pos__": operator.pos,
    "__abs__": abs,
    "__invert__": operator.invert,
    "__round__": round,
    "__floor__": math.floor,
    "__ceil__": math.ceil,
    "__trunc__": math.trunc,
    "__enter__": lambda value: type(value).__enter__(value),
}
_OTHERS: dict[str, Callable[..., Any]] = {
    "__call__": lambda value, *arguments, **keywords: value(*arguments, **keywords),
    "__getitem__": operator.getitem,
    "__setitem__": operator.setitem,
    "__delitem__": operator.delitem,
    "__contains__": operator.contains,
    "__exit__": lambda value, *arguments: type(value).__exit__(value, *arguments),
    "__format__": format,
    "__divmod__": divmod,
    "__pow__": pow,
}
_OPERATIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in (*_COMPARISONS, *_BINARY) if hasattr(operator, name)},
    **_UNARY,
    **_OTHERS,
}
# Conversions of an object to plain data; not allowed for a difference, which would reveal how small it is.
_CONVERSIONS = ("__len__", "__bool__", "__int__", "__float__", "__complex__", "__index__", "__str__", "__repr__")
_INTROSPECTED = (
    types.FunctionType,
    types.MethodType,
    types.BuiltinFunctionType,
    types.GeneratorType,
    types.CoroutineType,
    types.AsyncGeneratorType,
    types.FrameType,
    types.CodeType,
    types.TracebackType,
    types.ModuleType,
    type,
)


_SHOWN = frozenset(
    {MODULE, "_io", "io", "types", "unittest.mock", "collections", "random", "_thread", "threading", "queue", "_queue"}
    | {"re", "array", "sqlite3", "csv", "_csv", "itertools", "enum", "builtins"}
)


_HIDDEN = frozenset(
    {"attach_mock", "configure_mock", "mock_add_spec", "reset_mock", "enable_load_extension", "load_extension"}
)


class Remote:
    """An object of the other process."""

    __slots__ = ("_remote_base", "_remote_closed", "_remote_id", "_remote_side")
    _remote_side: Side
    _remote_id: int
    _remote_closed: bool
    _remote_base: int | None

    def __getattr__(self, name: str) -> Any:
        return self._remote_side.ask("getattr", self, name)

    def __setattr__(self, name: str, value: object) -> None:
        self._remote_side.ask("setattr", self, name, value)

    def __delattr__(self, name: str) -> None:
        self._remote_side.ask("delattr", self, name)

    def __dir__(self) -> list[str]:
        return [str(name) for name in self._remote_side.ask("dir", self)]

    def __eq__(self, other: object) -> Any:
        return self._remote_side.compare("__eq__", self, other)

    def __ne__(self, other: object) -> Any:
        return self._remote_side.compare("__ne__", self, other)

    def __hash__(self) -> int:
        return int(self._remote_side.ask("__hash__", self))

    def __copy__(self) -> Any:
        return self._remote_side.ask("copy", self)

    def __deepcopy__(self, _: object) -> Any:
        return self._remote_side.ask("deepcopy", self)


class RemoteClass(Remote):
    """A class of the other process."""

    __slots__ = ()

    def __instancecheck__(self, value: object) -> bool:
        return bool(self._remote_side.ask("isinstance", self, value))

    def __subclasscheck__(self, value: type) -> bool:
        return bool(self._remote_side.ask("issubclass", self, value))

    def __mro_entries__(self, bases: object) -> tuple[type, ...]:
        raise TypeError("a test cannot derive a class from a class of the answer: each runs in a process of its own")


def _method(name: str) -> Callable[..., Any]:
    def call(self: Remote, *arguments: Any, **keywords: Any) -> Any:
        if name in _COMPARISONS:
            return self._remote_side.compare(name, self, arguments[0])
        if name == "__contains__":
            return self._remote_side.contains(self, arguments[0])
        result = self._remote_side.ask(name, self, *arguments, **keywords)
        failed_assertion = name == "__exit__" and isinstance(arguments[1], AssertionError)
        return False if failed_assertion else result

    return call


def _reflected_method(name: str) -> Callable[..., Any]:
    def call(self: Remote, other: Any) -> Any:
        return self._remote_side.ask("reflected", self, name, other)

    return call


def _special_names(kind: type) -> list[str]:
    return [
        name
        for name in (*_OPERATIONS, *_REFLECTED)
        if name not in ("__eq__", "__ne__", "__hash__")
        and next((vars(one)[name] for one in kind.__mro__ if name in vars(one)), None) is not None
    ]


class Ended(BaseException):
    """The other process has ended."""


class Side:
    """One side: its own objects by number, the other's as `Remote`."""

    def __init__(self, link: socket) -> None:
        self._lines = link.makefile("rwb")
        self._objects: list[object] = []
        self._numbers: dict[int, int] = {}
        self._remotes: dict[int, Any] = {}
        self._classes: dict[tuple[object, ...], type] = {}
        self._errors: dict[int, type[BaseException]] = {}
        self._error_numbers: dict[type, int] = {}
        self._marked: dict[int, Any] = {}
        self._turn = threading.RLock()
        self.values = Values(self._reference, self._special)

    # messages

    def send(self, message: object) -> None:
        """Write one message."""
        try:
            self._lines.write(json.dumps(message).encode() + b"\n")
            self._lines.flush()
        except OSError:
            raise Ended from None

    def receive(self) -> dict[str, Any]:
        """Read one message."""
        try:
            line = self._lines.readline()
        except OSError:
            raise Ended from None
        if not line:
            raise Ended
        try:
            message = json.loads(line)
        except RecursionError:
            raise Malformed("it is nested too deep") from None
        if not isinstance(message, dict):
            raise Malformed("it is no message")
        return message

    def ask(self, operation: str, target: Remote, *arguments: Any, **keywords: Any) -> Any:
        """The reply of the other side; its own questions are answered meanwhile."""
        with self._turn:
            marks: dict[int, int] = {}
            marked: list[Any] = []
            for value in (*arguments, *keywords.values()):
                self._mark(value, marks, marked)
            encode = self.values.encode
            more = self.before(operation, target, arguments)
            self.send(
                {
                    "do": operation,
                    "on": target._remote_id,
                    "with": [encode(value, marks) for value in arguments],
                    "keywords": {name: encode(value, marks) for name, value in keywords.items()},
                    **more,
                }
            )
            while "do" in (reply := self.receive()):
                self.send(self._serve(reply))
            return self._finish(reply, marked, closed="by number" in more)

    def before(self, operation: str, target: Remote, arguments: tuple[Any, ...]) -> dict[str, Any]:
        """Additional fields of a question."""
        return {}

    def after(self, reply: dict[str, Any]) -> None:
        """Handle additional fields of a reply."""

    def compare(self, operation: str, left: Remote, right: object) -> Any:
        """A comparison with an object of the other side."""
        return self.ask(operation, left, right)

    def contains(self, container: Remote, value: object) -> bool:
        """`in` an object of the other side."""
        return bool(self.ask("__contains__", container, value))

    def _mark(self, value: Any, marks: dict[int, int], marked: list[Any]) -> None:
        """Number the mutable data in an argument."""
        if type(value) in MUTABLE and id(value) not in marks and len(marked) < 1000:
            marks[id(value)] = len(marked)
            marked.append(value)
        if type(value) in (list, tuple) and len(value) <= 1000:
            for part in value:
                if type(part) in (list, tuple, *MUTABLE):
                    self._mark(part, marks, marked)

    def _finish(self, reply: dict[str, Any], marked: list[Any], *, closed: bool) -> Any:
        self._marked = dict(enumerate(marked))
        try:
            for number, content in reply.get("changed", ()):
                _refill(self._marked[number], self.values.decode(content))
            self.after(reply)
            if "raised" in reply:
                raise self._decode_error(reply["raised"])
            value = reply.get("value")
            if closed:
                if not isinstance(value, dict) or next(iter(value), None) != "ref":
                    raise Malformed("it is data where none may be")
                value = {**value, "closed": True, "awaitable": False}
            return self.values.decode(value)
        finally:
            self._marked = {}

    def _serve(self, message: dict[str, Any]) -> dict[str, Any]:
        """Do what the other side asks."""
        originals: dict[int, tuple[Any, str]] = {}
        marked: dict[int, Any] = {}
        self._marked = marked
        try:
            arguments = [self.values.decode(part) for part in message["with"]]
            keywords = {name: self.values.decode(part) for name, part in message["keywords"].items()}
            originals = {number: (value, json.dumps(self.values.encode(value))) for number, value in marked.items()}
            target = self._objects[message["on"]]
            value = self.perform(str(message["do"]), target, arguments, keywords, message)
            marks = {id(value): number for number, (value, _) in originals.items()}
            reply = {"value": self.result(value, marks, message)}
        except (Ended, Malformed):
            raise
        except BaseException as problem:
            reply = {"raised": self._encode_error(problem)}
        changed = []
        for number, (value, before) in originals.items():
            now = self.values.encode(value)
            if json.dumps(now) != before:
                changed.append([number, now])
        return {**reply, "changed": changed} if changed else reply

    def result(self, value: object, marks: Mapping[int, int], message: Mapping[str, Any]) -> Any:
        """A result for the other side."""
        return self.values.encode(value, marks)

    def perform(
        self, operation: str, target: Any, arguments: list[Any], keywords: dict[str, Any], message: dict[str, Any]
    ) -> Any:
        """One operation on one of our objects."""
        if operation == "reflected":
            operation, arguments = arguments[0], [arguments[1]]
            if operation in _BINARY:
                return _OPERATIONS[operation](arguments[0], target)
        if operation not in _OPERATIONS:
            raise PermissionError(f"{operation} is not for the answer's code")
        return _OPERATIONS[operation](target, *arguments, **keywords)

    # objects

    def number(self, value: object) -> int:
        """The number of one of our objects, which lives on from now."""
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._objects)
            self._objects.append(value)
        return number

    def _reference(self, value: Any) -> Any:
        kind = type(value)
        if issubclass(kind, Remote):
            return {"yours": object.__getattribute__(value, "_remote_id")}
        if isinstance(value, type) and value in self._error_numbers:
            return {"yours": self._error_numbers[value]}
        if issubclass(kind, BaseException):
            return {"error": self._encode_error(value)}
        if isinstance(value, type) and issubclass(value, BaseException):
            return {"error class": self._encode_error_class(value)}
        base = next((number for number, one in enumerate(_BASES) if issubclass(kind, one)), None)
        return {
            "ref": self.number(value),
            "name": kind.__name__,
            "has": _special_names(kind),
            "base": base,
            "class": isinstance(value, type),
            "awaitable": isinstance(value, types.CoroutineType),
        }

    def _special(self, data: dict[str, Any]) -> Any:
        if "yours" in data:
            return self._objects[data["yours"]]
        if "error" in data:
            return self._decode_error(data["error"])
        if "error class" in data:
            return self._decode_error_class(data["error class"])
        if "marked" in data:
            number = data["marked"]
            if number not in self._marked:
                self._marked[number] = self.values.decode(data["as"])
            return self._marked[number]
        return self._remote(data)

    def _remote(self, data: dict[str, Any]) -> Any:
        number, closed = int(data["ref"]), data.get("closed") is True
        if not closed and number in self._remotes:
            return self._remotes[number]
        base = _BASES[data["base"]] if data["base"] is not None else None
        kind = self._remote_type(str(data["name"]), frozenset(data["has"]), bool(data["class"]), base)
        remote: Any = object.__new__(kind)
        for name, value in (("side", self), ("id", number), ("closed", closed), ("base", base)):
            object.__setattr__(remote, f"_remote_{name}", value)
        if data.get("awaitable"):
            return self._coroutine(remote)
        if not closed:
            self._remotes[number] = remote
        return remote

    def _remote_type(self, name: str, special: frozenset[str], is_class: bool, base: type | None) -> type:
        key = (name, special, is_class, base)
        if key not in self._classes:
            members: dict[str, Any] = {"__slots__": (), "__module__": MODULE}
            for one in special:
                if one in _OPERATIONS:
                    members[one] = _method(one)
                elif one in _REFLECTED:
                    members[one] = _reflected_method(_REFLECTED[one])
            if base is not None:
                members["__class__"] = property(lambda _: base)  # isinstance works as for the original
            self._classes[key] = type(name, (RemoteClass if is_class else Remote,), members)
        return self._classes[key]

    async def _coroutine(self, remote: Remote) -> Any:
        return self.ask("await", remote)

    # exceptions

    def _encode_error(self, problem: BaseException) -> dict[str, Any]:
        return {
            "class": self._encode_error_class(type(problem)),
            "arguments": [self.values.encode(part) for part in problem.args],
            "text": str(problem) if type(problem).__str__ is not BaseException.__str__ else None,
            "state": {
                name: self.values.encode(value) for name, value in vars(problem).items() if not name.startswith("__")
            },
        }

    def _encode_error_class(self, kind: type[BaseException]) -> list[list[object]]:
        return [
            [self.number(one), one.__name__, one.__module__] for one in kind.__mro__ if issubclass(one, BaseException)
        ]

    def _decode_error_class(self, data: list[list[Any]]) -> type[BaseException]:
        """The nearest class both sides have, and classes made after those only the other has."""
        made: type[BaseException] = BaseException
        for number, name, module in reversed(data):
            known = getattr(sys.modules.get(module), name, None) if _is_standard(module) else None
            if isinstance(known, type) and issubclass(known, BaseException):
                made = known
                continue
            if number not in self._errors:
                members = {"__module__": MODULE, "__str__": _error_text}
                self._errors[number] = type(str(name), (made,), members)
                self._error_numbers[self._errors[number]] = number
            made = self._errors[number]
        return made

    def _decode_error(self, data: dict[str, Any]) -> BaseException:
        kind = self._decode_error_class(data["class"])
        arguments = [self.values.decode(part) for part in data["arguments"]]
        try:
            problem = kind(*arguments)
        except Exception:
            problem = kind.__new__(kind)
            problem.args = tuple(arguments)
        vars(problem).update({str(name): self.values.decode(part) for name, part in data["state"].items()})
        if kind in self._error_numbers and isinstance(data["text"], str):
            vars(problem)["_answer_text"] = data["text"]
        return problem


def _is_standard(module: str) -> bool:
    """Whether an exception of this module is the same on both sides; those of unittest would skip a test."""
    return module.partition(".")[0] in sys.stdlib_module_names - {"unittest"}


def _error_text(problem: BaseException) -> str:
    text = vars(problem).get("_answer_text")
    return text if isinstance(text, str) else BaseException.__str__(problem)


def _refill(value: Any, content: Any) -> None:
    """Give a mutable object another's content."""
    if isinstance(value, list | bytearray):
        value[:] = content
    else:
        value.clear()
        value.update(content)


class AnswerSide(Side):
    """The process of the answer: does what the test asks, and reports changes of the answer's names."""

    def __init__(self, link: socket, run: Callable[..., dict[str, Any]]) -> None:
        super().__init__(link)
        self._run = run
        self._names: dict[str, Any] = {}
        self._told: dict[str, tuple[object, str | None]] = {}
        self.number(self)

    def serve(self) -> None:
        """Work until the test's process hangs up."""
        while True:
            reply = self._serve(self.receive())
            self.send({**reply, "names": self._changed_names()})

    def perform(
        self, operation: str, target: Any, arguments: list[Any], keywords: dict[str, Any], message: dict[str, Any]
    ) -> Any:
        """Do what the test asks, capturing printed output if the test replaced its own."""
        for name, content in message.get("names", {}).items():
            self._take_name(name, self.values.decode(content))
        if not message.get("listen"):
            return self._perform(operation, target, arguments, keywords)
        printed = io.StringIO()
        try:
            with redirect_stdout(printed):
                return self._perform(operation, target, arguments, keywords)
        finally:
            message["printed"] = printed.getvalue()

    def _serve(self, message: dict[str, Any]) -> dict[str, Any]:
        reply = super()._serve(message)
        return {**reply, "printed": message["printed"]} if message.get("printed") else reply

    def result(self, value: object, marks: Mapping[int, int], message: Mapping[str, Any]) -> Any:
        """A result as data, or by number where the test may not see it as data."""
        return self._reference(value) if message.get("by number") else super().result(value, marks, message)

    def _perform(self, operation: str, target: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        if operation == "begin":
            self._names = self._run(*arguments)
            return None
        if operation in _ASKED:
            return _ASKED[operation](target, *arguments)
        return super().perform(operation, target, arguments, keywords, {})

    def _changed_names(self) -> dict[str, Any]:
        changed = {}
        for name, value in list(self._names.items()):
            if str(name).startswith("__"):
                continue
            told, text = self._told.get(name, (None, None))
            if name in self._told and told is value and not (text and len(value) <= MAX_COMPARED):  # type: ignore[arg-type]
                continue
            data = self._encode_name(name, value)
            now = json.dumps(data) if type(value) in MUTABLE else None
            if name not in self._told or told is not value or now != text:
                changed[name] = data
            self._told[name] = (value, now)
        return changed

    def _encode_name(self, name: str, value: object) -> Any:
        module = _shared_module(name)
        if type(value) is types.ModuleType and value.__name__ == module and sys.modules.get(module) is value:
            return {"module": module}
        return self.values.encode(value)

    def _take_name(self, name: str, value: object) -> None:
        known = self._names.get(name)
        if type(known) in MUTABLE and type(value) is type(known):
            _refill(known, value)
            value = known
        self._names[name] = value
        self._told[name] = (value, json.dumps(self.values.encode(value)) if type(value) in MUTABLE else None)


_PLAIN: dict[type, Callable[[Any], Any]] = {
    int: int.__pos__,
    float: float.__pos__,
    complex: complex.__pos__,
    str: str.__str__,
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    tuple: lambda value: tuple(tuple.__iter__(value)),
    list: lambda value: list(list.__iter__(value)),
    dict: lambda value: dict(dict.items(value)),
    set: lambda value: set(set.__iter__(value)),
    frozenset: lambda value: frozenset(frozenset.__iter__(value)),
}


def _plain(value: object) -> Any:
    """An object of a class derived from a built-in one as the built-in's value."""
    for kind, plain in _PLAIN.items():
        if issubclass(type(value), kind):
            return plain(value)
    raise TypeError("it is no plain data")


_ASKED: dict[str, Callable[..., Any]] = {
    "getattr": getattr,
    "setattr": setattr,
    "delattr": delattr,
    "dir": dir,
    "isinstance": lambda kind, value: isinstance(value, kind),
    "issubclass": lambda kind, value: issubclass(value, kind),
    "await": lambda coroutine: import_module("asyncio").run(coroutine),
    "copy": lambda value: import_module("copy").copy(value),
    "deepcopy": lambda value: import_module("copy").deepcopy(value),
    "plain": _plain,
}


class TestSide(Side):
    """The process of the test: the answer's code can ask little of it, and the test compares values itself.

    `lost` is called when the answer's process has ended or sends nonsense. It does not return, so the test ends too.
    The names that the test binds are its own once it runs.
    """

    def __init__(self, link: socket, bound: Set[str], lost: Callable[[Malformed | None], NoReturn]) -> None:
        super().__init__(link)
        self._bound = bound
        self._lost = lost
        self.module = types.ModuleType(MODULE)
        self.failed_assertion: AssertionError | None = None
        self._known: dict[str, tuple[object, str | None]] = {}
        self._stdout = sys.stdout
        self._begun = False
        self._answer = self._remote({"ref": 0, "name": MODULE, "has": (), "base": None, "class": False})

    def begin(self, *arguments: Any) -> None:
        """Run the answer, and load its names."""
        self.ask("begin", self._answer, *arguments)
        self._begun = True

    def names(self) -> set[str]:
        """The names of the answer."""
        return set(self._known)

    def forget(self, name: str) -> None:
        """Leave a name of the answer out."""
        del self._known[name], vars(self.module)[name]

    def ask(self, operation: str, target: Remote, *arguments: Any, **keywords: Any) -> Any:
        """Ask the answer's process."""
        try:
            return super().ask(operation, target, *arguments, **keywords)
        except StopIteration as problem:
            if operation != "__call__":
                raise
            raise RuntimeError("the answer's function raised StopIteration, which would end a loop") from problem
        except Ended:
            self._lost(None)
        except Malformed as problem:
            self._lost(problem)

    def before(self, operation: str, target: Remote, arguments: tuple[Any, ...]) -> dict[str, Any]:
        """The names the test replaced, and how the result is to come."""
        more: dict[str, Any] = {}
        if names := self._replaced_names():
            more["names"] = names
        if sys.stdout is not self._stdout:
            more["listen"] = True
        closed = target._remote_closed or any(isinstance(value, Remote) and value._remote_closed for value in arguments)
        if closed and operation in _CONVERSIONS:
            raise TypeError("a difference to an object of the answer's class is no plain data")
        name, shown = (arguments[0], arguments[1:]) if operation == "reflected" else (operation, arguments)
        if closed or (name in _DIFFERENCES and not all(isinstance(value, Remote) for value in shown)):
            more["by number"] = True
        return more

    def after(self, reply: dict[str, Any]) -> None:
        """Apply changes of the answer's names, and keep its output."""
        names = vars(self.module)
        for name, content in reply.get("names", {}).items():
            kept, text = self._known.get(name, (None, None))
            if name.startswith("__") or (self._begun and not self._may_change(name)):
                continue
            value = self._decode_name(name, content)
            if text is not None and type(kept) is type(value) and names.get(name) is kept:
                _refill(kept, value)
                value = kept
            names[name] = value
            self._known[name] = (value, json.dumps(content) if type(value) in MUTABLE else None)
        if isinstance(reply.get("printed"), str):
            sys.stdout.write(reply["printed"])

    def _may_change(self, name: str) -> bool:
        """Whether the answer may change a name: not one that the test bound, and no built-in that the test uses."""
        names = vars(self.module)
        if name in self._bound:
            return False
        return names[name] is self._known.get(name, (None,))[0] if name in names else name not in BUILTIN_NAMES

    def _decode_name(self, name: str, content: Any) -> Any:
        if isinstance(content, dict) and "module" in content:
            if content["module"] != _shared_module(name):
                raise Malformed(f"{name} is another module")
            return import_module(content["module"])
        return self.values.decode(content)

    def _replaced_names(self) -> dict[str, Any]:
        """Data of the answer that the test changed in place, and functions that replace the answer's or built-in ones.

        Data that the test bound to a name stays here, because the test may expect it.
        """
        replaced = {}
        for name, value in list(vars(self.module).items()):
            kept, text = self._known.get(name, (None, None))
            if text is not None and value is kept and len(value) <= MAX_COMPARED:  # type: ignore[arg-type]
                data = self.values.encode(value)
                now = json.dumps(data)
                if now != text:
                    replaced[name] = data
                    self._known[name] = (value, now)
            elif (
                value is not kept
                and isinstance(value, types.FunctionType)
                and (name in self._known or name in BUILTIN_NAMES)
            ):
                replaced[name] = self.values.encode(value)
                self._known[name] = (value, None)
        return replaced

    def compare(self, operation: str, left: Remote, right: object) -> Any:
        """Among objects of the answer by their own rules; with anything else only as the plain data it may be."""
        if isinstance(right, Remote):
            closed = left._remote_closed or right._remote_closed
            return NotImplemented if closed else self.ask(operation, left, right)
        if left._remote_base is None or left._remote_closed:
            return NotImplemented
        return _OPERATIONS[operation](self.ask("plain", left), right)

    def contains(self, container: Remote, value: object) -> bool:
        """`in`: iterates over the answer's object, unless the value is the answer's too."""
        if isinstance(value, Remote) and not value._remote_closed and not container._remote_closed:
            return bool(self.ask("__contains__", container, value))
        if container._remote_base is not None and not container._remote_closed:
            return value in self.ask("plain", container)
        return any(one is value or one == value for one in container)  # type: ignore[attr-defined]

    def perform(
        self, operation: str, target: Any, arguments: list[Any], keywords: dict[str, Any], message: dict[str, Any]
    ) -> Any:
        """The few operations on its arguments that the answer's code may use."""
        if operation in ("getattr", "setattr"):
            name = arguments[0]
            if not _shows(target, name) or (operation == "setattr" and type(target).__module__ != MODULE):
                raise AttributeError(f"{type(target).__name__!r} object shows no {name!r} to the answer's code")
            return _ASKED[operation](target, *arguments)
        try:
            if operation in ("isinstance", "issubclass"):
                return _ASKED[operation](target, *arguments)
            return super().perform(operation, target, arguments, keywords, message)
        except AssertionError as problem:  # which the answer may swallow
            self.failed_assertion = problem
            raise


def _shows(value: object, name: object) -> bool:
    """Whether the answer's code may see this attribute of an object of the test: what leads to no code and no names."""
    is_plain = type(value).__module__ in _SHOWN and not isinstance(value, _INTROSPECTED)
    return is_plain and type(name) is str and not name.startswith("_") and name not in _HIDDEN


def _shared_module(name: str) -> str | None:
    """The module that both sides import for a name: the one of that name, the only one they know."""
    usual = {"np": "numpy", "pd": "pandas"}.get(name, name)
    return usual if usual in sys.stdlib_module_names or usual != name else None


def trimmed_traceback(problem: BaseException) -> Iterator[str]:
    """A traceback without what happens in between."""
    shown = traceback.TracebackException.from_exception(problem)
    shown.stack[:] = [frame for frame in shown.stack if os.path.dirname(__file__) not in frame.filename]
    yield from shown.format()
