"""YAML 1.2 from outside, read as what JSON could say: mappings, lists, text, numbers, true, false, null."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from tui_evals.text.safe import safe

MAX_DEPTH = 64
MAX_WEIGHT = 2_000_000  # one for each character of text, also where an alias repeats it
VALUE_WEIGHT = 100  # of each value besides: 20,000 of them are all a document may hold

_CONSTANTS: dict[str, bool | None] = dict.fromkeys(("", "~", "null", "Null", "NULL"))
_CONSTANTS |= dict.fromkeys(("true", "True", "TRUE"), True) | dict.fromkeys(("false", "False", "FALSE"), False)
_WHOLE = re.compile(r"[-+]?[0-9]+|0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_DATE = re.compile(
    r"\d{4}-\d\d-\d\d|\d{4}-\d\d?-\d\d?(?:[Tt]|[ \t]+)\d\d?:\d\d:\d\d(?:\.\d*)?"
    r"(?:[ \t]*(?:Z|[-+]\d\d?(?::\d\d)?))?"
)
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


class YamlError(ValueError):
    """The text is not YAML we read: `problem` says why; `line` and `column` (from 1) where, when known."""

    def __init__(self, problem: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(f"{problem} (line {line}, column {column})" if line else problem)
        self.problem = problem
        self.line = line
        self.column = column


Repeated = list[tuple[str, int]]
"""Keys that appear twice in one mapping, each with the line of the last one, which counts."""
Dates = list[tuple[str, int]]
"""Dates without quotes, each with its line: readers of YAML 1.1 make points in time of them, which are no text."""


def load_yaml(
    text: str | bytes,
    *,
    limit: int = 1_000_000,
    repeated: Repeated | None = None,
    merges: bool = False,
    dates: Dates | None = None,
) -> object:
    """The value of one YAML document; keys are text as written, dates and `no` are text, nothing is shared.

    A repeated key in one mapping is refused, or added to `repeated` if given. With `merges` the key `<<` merges other
    mappings, as in YAML 1.1 and many files. Dates are added to `dates`.
    """
    return _Reader(_decode(text, limit), repeated, merges, dates).document()


def load_mapping(
    text: str | bytes, *, limit: int = 1_000_000, repeated: Repeated | None = None
) -> tuple[dict[str, object], dict[str, int]]:
    """A YAML mapping, empty for an empty text, and the line of each of its own keys."""
    reader = _Reader(_decode(text, limit), repeated)
    value = reader.document()
    if value is not None and not isinstance(value, dict):
        raise YamlError("a mapping is needed here, with lines such as `name: value`", reader.first_line, 1)
    return value or {}, reader.lines


def _line_and_column(text: str | bytes, offset: int) -> tuple[int, int]:
    before = text[:offset] if isinstance(text, str) else text[:offset].decode("utf-8", "replace")
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def _decode(text: str | bytes, limit: int) -> str:
    if len(text) > limit:
        raise YamlError(f"the text is longer than {limit:,} characters")
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise YamlError("this is not UTF-8 text; save it as UTF-8", *_line_and_column(text, error.start)) from None
    return text.removeprefix("\ufeff")


def _events(text: str) -> Iterator[Any]:
    """The parser's events; its errors become YamlError."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError
    from ruamel.yaml.reader import ReaderError

    try:
        yield from YAML(typ="safe", pure=True, plug_ins=[]).parse(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else ()
        raise YamlError(f"not valid YAML: {error.problem or error.context}", *place) from None
    except ReaderError as error:
        raise YamlError(
            "not valid YAML: this control character is not allowed", *_line_and_column(text, error.position)
        ) from None
    except (ValueError, OverflowError):
        raise YamlError("not valid YAML: an escape such as \\U00110000 names no character") from None


def _refuse(problem: str, event: Any) -> NoReturn:
    raise YamlError(problem, event.start_mark.line + 1, event.start_mark.column + 1)


def _scalar_text(event: Any) -> str:
    """The text of a scalar, with surrogate pairs that were written as two escapes joined."""
    try:
        return str(event.value).encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        _refuse("half of a surrogate pair is not text", event)


def _scalar_value(event: Any) -> object:
    """A scalar's value: text if it is quoted, else by the core rules of YAML 1.2, and never NaN or infinity."""
    text = _scalar_text(event)
    if event.style:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _WHOLE.fullmatch(text):
        if len(text) > 4000:
            _refuse("a number has too many digits to read; quote it if it is text", event)
        return int(text, {"0x": 16, "0o": 8}.get(text[:2], 10))
    number = float(text) if _FLOAT.fullmatch(text) else 0.0
    if _NOT_FINITE.fullmatch(text) or math.isinf(number):
        _refuse(f"{text[:20]} is not a finite number; quote it if it is text", event)
    return number if _FLOAT.fullmatch(text) else text


class _Reader:
    """Builds plain values from the parser's events, and stops when they weigh too much."""

    def __init__(
        self, text: str, repeated: Repeated | None = None, merges: bool = False, dates: Dates | None = None
    ) -> None:
        self.repeated = repeated
        self.dates = dates
        self.events = _events(text)
        self.merges = merges
        self.anchors: dict[str, object] = {}
        self.lines: dict[str, int] = {}
        self.first_line = 1
        self.left = MAX_WEIGHT

    def document(self) -> object:
        """The value of the only document, None if there is none."""
        documents = [self.root() for event in self.events if type(event).__name__ == "DocumentStartEvent"]
        return documents[0] if documents else None

    def root(self) -> object:
        """The value of the document that starts here, which must be the first."""
        event = next(self.events)
        if self.left < MAX_WEIGHT:
            _refuse("a second document starts here; keep one in a file", event)
        self.first_line = event.start_mark.line + 1
        return self.value(event, 0)

    def count_value(self, value: object, event: Any, depth: int) -> None:
        """Count one value, and refuse what grows too large or too deep."""
        self.left -= VALUE_WEIGHT + (len(value) if isinstance(value, str) else 0)
        if self.left < 0:
            _refuse("the text holds too many values; what an alias repeats is counted each time", event)
        if depth > MAX_DEPTH:
            _refuse(f"values are nested more than {MAX_DEPTH} deep", event)

    def value(self, event: Any, depth: int) -> object:
        """The value that starts with an event."""
        kind = type(event).__name__
        self.count_value(getattr(event, "value", None), event, depth)
        if kind == "AliasEvent":
            if event.anchor not in self.anchors:
                _refuse(f"*{event.anchor} refers to nothing that is complete above it", event)
            return self.copy_value(self.anchors[event.anchor], event, depth)
        if event.tag is not None:
            _refuse(f"the tag {event.tag} is not supported; write plain values", event)
        if kind == "ScalarEvent":
            value = _scalar_value(event)
            if self.dates is not None and not event.style and _DATE.fullmatch(str(value)):
                self.dates.append((str(value), event.start_mark.line + 1))
        elif kind == "MappingStartEvent":
            value = self.mapping(depth)
        else:
            value = [self.value(item, depth + 1) for item in self.elements_before("SequenceEndEvent")]
        if event.anchor is not None:
            self.anchors[event.anchor] = value
        return value

    def elements_before(self, end: str) -> Iterator[Any]:
        """The events that start the elements of a collection."""
        while type(event := next(self.events)).__name__ != end:
            yield event

    def mapping(self, depth: int) -> dict[str, object]:
        """A mapping; keys are read as text, also `1:` and `no:`."""
        mapping: dict[str, object] = {}
        merged: dict[str, object] = {}
        for event in self.elements_before("MappingEndEvent"):
            if type(event).__name__ != "ScalarEvent" or event.tag is not None:
                _refuse("a key must be plain text", event)
            key = _scalar_text(event)
            self.count_value(key, event, depth)
            if key == "<<" and not event.style:
                if not self.merges:
                    _refuse("merging with << is not supported; write the keys out", event)
                merged = {**self.merged(event, depth), **merged}
                continue
            if key in mapping:
                if self.repeated is None:
                    _refuse(f"the key {key[:40]!r} appears twice in one mapping; keep one of them", event)
                self.repeated.append((key, event.start_mark.line + 1))
            if depth == 0:
                self.lines[key] = event.start_mark.line + 1
            mapping[key] = self.value(next(self.events), depth + 1)
        return {**merged, **mapping}

    def merged(self, event: Any, depth: int) -> dict[str, object]:
        """The keys of the mapping, or of the list of mappings, that follows; the first to give a key counts."""
        value = self.value(next(self.events), depth + 1)
        parts = value if isinstance(value, list) else [value]
        keys: dict[str, object] = {}
        for part in reversed(parts):
            if not isinstance(part, dict):
                _refuse("<< takes a mapping, or a list of mappings", event)
            keys |= part
        return keys

    def copy_value(self, value: object, event: Any, depth: int) -> object:
        """A copy of the value of an alias, so that changing one place changes no other."""
        self.count_value(value, event, depth)
        if isinstance(value, dict):
            return {key: self.copy_value(part, event, depth + 1) for key, part in value.items()}
        if isinstance(value, list):
            return [self.copy_value(part, event, depth + 1) for part in value]
        return value


_NOT_PRINTABLE = "[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"  # compiled when it is needed
_NO_TEXT = r"(?!(?i:null|true|false)$)"
_KEY = re.compile(rf"{_NO_TEXT}[A-Za-z_$][\w$.-]*")
_PLAIN = re.compile(rf"{_NO_TEXT}[^\s\d+.~\-?:,\[\]{{}}#&*!|>'\"%@`](?:[^\n\t:#]|:(?=\S)|(?<=\S)#)*(?<=\S)")


def write_yaml(value: object) -> str:
    """The lines of a mapping or list, which `load_yaml` reads as the very same value."""
    return "".join(f"{line}\n" for line in _lines(value, 0))


def _lines(value: object, indent: int) -> Iterator[str]:
    """The lines of a mapping or list that holds something, or of a scalar."""
    pad = " " * indent
    if isinstance(value, dict) and value:
        for key, one in value.items():
            head = f"{pad}{key if _KEY.fullmatch(key) else _quoted(key)}:"
            if isinstance(one, (dict, list)) and one:
                yield head
                yield from _lines(one, indent + 2)
            else:
                first, *rest = _scalar(one, indent)
                yield f"{head} {first}"
                yield from rest
    elif isinstance(value, list) and value:
        for one in value:
            if isinstance(one, (dict, list)) and one:
                first, *rest = _lines(one, indent + 2)
                yield f"{pad}- {first[indent + 2 :]}"
            else:
                first, *rest = _scalar(one, indent)
                yield f"{pad}- {first}"
            yield from rest
    else:
        yield from _scalar(value, indent)


def _scalar(value: object, indent: int) -> list[str]:
    """A text, number, constant or empty value: the part on its first line, and the lines below."""
    if not isinstance(value, str):
        return [json.dumps(value)]
    if "\n" in value and value.strip() and _is_visible(value):
        return _block(value, " " * (indent + 2))
    return [value if _PLAIN.fullmatch(value) and _is_visible(value) else _quoted(value)]


def _block(text: str, pad: str) -> list[str]:
    """A text with several lines, with indicators for its beginning and end if they are needed."""
    begins = str(2) if text[0] in " \n" else ""
    ends = "" if text.endswith("\n") else "-"
    if text.endswith("\n\n"):
        ends = "+"
    return [f"|{begins}{ends}", *(pad + line if line else "" for line in text.removesuffix("\n").split("\n"))]


def _quoted(text: str) -> str:
    """A text in double quotes, in which everything that cannot be seen is spelled."""
    return json.dumps(text, ensure_ascii=not _is_visible(text)).replace("\x7f", r"\x7f")


def _is_visible(text: str) -> bool:
    return not re.search(_NOT_PRINTABLE, text) and safe(text) == text
