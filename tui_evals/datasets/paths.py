"""Values of a dataset by path, in its data and in the text of JSON or YAML, and problems that name their place."""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from operator import is_
from typing import Any, Literal, NamedTuple

from tui_evals.light_records import dataclass
from tui_evals.text.safe import safe_line

CURRENT_VERSION = "1.11.0"
MAX_TURNS = 2_000
"""Turns of a conversation: each is asked with all before it, so that twice as many send four times as much."""

Role = Literal["system", "user", "assistant", "tool"]


Path = tuple[str | int, ...]

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_MAX_DIFFED = 2000
_MAX_DEPTH = 60


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an object or array: its white space from `lead`, its key and colon from `head`, then the value."""

    key: str | int
    lead: int
    head: int
    start: int
    end: int
    tail: int
    """The position of the comma or closing bracket after the value."""


class Layout:
    """The positions of the values of a valid JSON text, computed on demand."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._members: dict[int, dict[str | int, Member]] = {}

    @cached_property
    def root(self) -> int:
        """The position of the outermost value."""
        return self._skip(1 if self.text.startswith("\ufeff") else 0)

    def _skip(self, offset: int) -> int:
        match = _SPACE.match(self.text, offset)
        return match.end() if match else offset

    def end(self, start: int) -> int:
        """The end of the value that starts at `start`."""
        return _DECODER.raw_decode(self.text, start)[1]

    def members(self, start: int) -> list[Member]:
        """The members of the object or array that starts there; none for any other value."""
        return self._scan(start) if self.text[start] in "{[" else []

    def by_key(self, start: int) -> Mapping[str | int, Member]:
        """The members of the object or array that starts there, which are looked for once."""
        members = self._members.get(start)
        if members is None:
            members = self._members[start] = {member.key: member for member in self.members(start)}
        return members

    def _scan(self, start: int) -> list[Member]:
        text = self.text
        members: list[Member] = []
        is_object, lead = text[start] == "{", start + 1
        while True:
            head = value = self._skip(lead)
            if text[head] in "}]":
                return members
            key: str | int = len(members)
            if is_object:
                key, after = _DECODER.raw_decode(text, head)
                value = self._skip(self._skip(after) + 1)
            end = self.end(value)
            tail = self._skip(end)
            members.append(Member(key, lead, head, value, end, tail))
            if text[tail] != ",":
                return members
            lead = tail + 1

    def locate(self, path: Path) -> int:
        """The position of the key or value at a path; of the nearest enclosing value if it is absent."""
        start = position = self.root
        for key in path:
            member = self.by_key(start).get(key)
            if member is None:
                break
            start, position = member.start, member.head
        return position

    def line(self, path: Path) -> int:
        """The line, counted from 1, of the value at a path."""
        return self.line_at(self.locate(path))

    def line_at(self, offset: int) -> int:
        """The line, counted from 1, of an offset in the text."""
        return bisect_left(self._breaks, offset) + 1

    @cached_property
    def _breaks(self) -> array[int]:
        return array("q", (match.start() for match in re.finditer("\n", self.text)))


def rewrite_json(text: str, new: object) -> str:
    """The JSON text with only those values rewritten that differ in `new`; all other bytes stay."""
    layout = Layout(text)
    start = layout.root
    end = layout.end(start)
    return text[:start] + _Rewriter(layout).render(start, end, new) + text[end:]


def pretty_json(value: object) -> str:
    """A new JSON text in the house style: two spaces, no escapes for Unicode, a newline at the end."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _same_json(left: object, right: object) -> bool:
    return json.dumps(left) == json.dumps(right)


class _MemberText(NamedTuple):
    """A member of the new text; a new or first one has no white space (`lead`) of its own."""

    lead: str | None
    body: str


class _Rewriter:
    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        text = self.text = layout.text
        indent = re.search(r"\n([ \t]+)", text)
        self.indent = indent.group(1) if indent else None
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self.ascii = text.isascii() and "\\u" in text

    def render(self, start: int, end: int, new: object, depth: int = 0, inline: bool = False) -> str:
        old = json.loads(self.text[start:end])
        if _same_json(old, new):
            return self.text[start:end]
        members = self.layout.members(start)
        if members and new and depth < _MAX_DEPTH:
            if isinstance(old, dict) and isinstance(new, dict):
                return self._join(members, end, self._object_parts(members, new, depth))
            if isinstance(old, list) and isinstance(new, list):
                return self._join(members, end, self._array_parts(members, old, new, depth))
        return self._new_value(new, None if inline else self._line_indent(start))

    def _join(self, members: list[Member], end: int, parts: Sequence[_MemberText]) -> str:
        """The members joined: the first keeps the white space of the old first, added ones take that of the second."""
        first_lead, rest_lead = self._lead_of(members[0]), self._lead_of(members[-1 if len(members) == 1 else 1])
        if len(members) == 1 and not rest_lead:
            rest_lead = " "
        leads = [first_lead, *(rest_lead if part.lead is None else part.lead for part in parts[1:])]
        texts = [(lead or "") + part.body for lead, part in zip(leads, parts, strict=True)]
        return self.text[members[0].lead - 1] + ",".join(texts) + self.text[members[-1].end : end]

    def _object_parts(self, members: list[Member], new: Mapping[str, Any], depth: int) -> list[_MemberText]:
        parts = {str(member.key): member for member in members if member.key in new}
        colon = self._colon(members[0])
        texts = [self._kept_member(member, new[key], depth) for key, member in parts.items()]
        order = list(parts)
        index = 0
        for key, value in new.items():
            if key in parts:
                index = order.index(key) + 1
                continue
            head = json.dumps(key, ensure_ascii=self.ascii) + colon
            order.insert(index, key)
            texts.insert(index, self._added_member(members, head, value))
            index += 1
        return texts

    def _array_parts(self, members: list[Member], old: list[Any], new: list[Any], depth: int) -> list[_MemberText]:
        parts: list[_MemberText] = []
        for pairs_old, pairs_new in _align_elements(old, new):
            paired = min(len(pairs_old), len(pairs_new))
            parts += [
                self._kept_member(members[i], new[j], depth)
                for i, j in zip(pairs_old[:paired], pairs_new[:paired], strict=True)
            ]
            parts += [self._added_member(members, "", new[j]) for j in pairs_new[paired:]]
        return parts

    def _kept_member(self, member: Member, value: object, depth: int) -> _MemberText:
        text = self.text
        after = text[member.end : member.tail] if text[member.tail] == "," else ""
        lead = self._lead_of(member)
        rendered = self.render(member.start, member.end, value, depth + 1, "\n" not in lead)
        begins = text[member.lead - 1] != ","
        return _MemberText(None if begins else lead, text[member.head : member.start] + rendered + after)

    def _added_member(self, members: list[Member], head: str, value: object) -> _MemberText:
        lead = self._lead_of(members[-1])
        return _MemberText(None, head + self._new_value(value, lead.rpartition("\n")[2] if "\n" in lead else None))

    def _lead_of(self, member: Member) -> str:
        return self.text[member.lead : member.head]

    def _colon(self, member: Member) -> str:
        _, after = _DECODER.raw_decode(self.text, member.head)
        return self.text[after : member.start]

    def _line_indent(self, start: int) -> str:
        line = self.text[self.text.rfind("\n", 0, start) + 1 : start]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _new_value(self, value: object, base: str | None) -> str:
        """The text of a new value: indented from `base` on, or in one line where its neighbours are."""
        if self.indent is None or base is None:
            return json.dumps(value, ensure_ascii=self.ascii)
        lines = json.dumps(value, indent=self.indent, ensure_ascii=self.ascii)
        return lines.replace("\n", self.newline + base)


def _align_elements(old: list[Any], new: list[Any]) -> list[tuple[range, range]]:
    """Pairs of ranges of old and new elements: equal elements are paired, everything between has changed."""
    before, after = [json.dumps(value) for value in old], [json.dumps(value) for value in new]
    short = min(len(old), len(new))
    head = next((i for i in range(short) if before[i] != after[i]), short)
    tail = next((i for i in range(short - head) if before[-1 - i] != after[-1 - i]), short - head)
    middle_old, middle_new = range(head, len(old) - tail), range(head, len(new) - tail)
    pairs = [(range(head), range(head))]
    if max(len(middle_old), len(middle_new)) > _MAX_DIFFED:
        pairs.append((middle_old, middle_new))
    else:
        matcher = SequenceMatcher(None, [before[i] for i in middle_old], [after[j] for j in middle_new], autojunk=False)
        pairs += [
            (range(head + i1, head + i2), range(head + j1, head + j2)) for _, i1, i2, j1, j2 in matcher.get_opcodes()
        ]
    return [*pairs, (range(len(old) - tail, len(old)), range(len(new) - tail, len(new)))]


Data = dict[str, Any]

DOCUMENT_FIELDS = (
    "schemaVersion",
    "metadata",
    "description",
    "prompt_file",
    "messages",
    "variables",
    "matrix",
    "tools",
    "tool_results",
    "tool_functions",
    "mcp",
    "max_steps",
    "response_format",
    "default_evaluators",
    "default_allowed_tools",
    "repeats",
    "extensions",
    "items",
)
UNIT_FIELDS = (
    "testId",
    "name",
    "description",
    "category",
    "variables",
    "matrix",
    "messages",
    "prompt",
    "attachments",
    "turns",
    "user",
    "expected_response",
    "ideal",
    "context",
    "notes",
    "tools",
    "tool_results",
    "max_steps",
    "response_format",
    "allowed_tools",
    "allowed_tools_mode",
    "evaluators",
    "evaluators_mode",
    "weight",
    "threshold",
    "repeats",
    "other_questions",
    "tags",
    "extensions",
    "conversation_id",
    "response",
    "citations",
    "scores",
    "diagnostics",
    "status",
    "error",
    "summary",
)
"""The order in which people write the fields of an item or turn; a new field takes its place in it."""

_ABSENT = object()


class CannotEdit(Exception):
    """An edit that the dataset does not allow; the sentence says why and what to do instead."""


def get_at(data: Data, path: Path) -> Any:
    """The value at a path, or None where there is none."""
    node: Any = data
    for key in path:
        node = _child(node, key)
        if node is _ABSENT:
            return None
    return node


def set_at(data: Data, path: Path, value: Any) -> Data:
    """The data with a value set at a path; missing objects in the path are created."""
    result = _replace_at(data, path, 0, value)
    if not isinstance(result, dict):
        raise CannotEdit("a dataset must stay an object")
    return result


def remove_at(data: Data, path: Path) -> Data:
    """The data without the key or list element at a path; the same data where there is none."""
    *above, key = path
    parent_path = tuple(above)
    parent: Any = data if not parent_path else get_at(data, parent_path)
    if _child(parent, key) is _ABSENT:
        return data
    if isinstance(parent, list) and isinstance(key, int):
        return set_at(data, parent_path, [*parent[:key], *parent[key + 1 :]])
    return set_at(data, parent_path, {name: value for name, value in parent.items() if name != key})


def unit_at(data: Data, path: Path) -> Data:
    """The item or turn at a path."""
    unit = get_at(data, path)
    if not isinstance(unit, dict):
        reason = "there is none" if unit is None else "it is not an object. Fix it in the file"
        raise CannotEdit(f"{path_text(path)} cannot be edited: {reason}")
    return unit


def with_field(node: Mapping[str, Any], key: str, value: Any, order: Sequence[str] = UNIT_FIELDS) -> Data:
    """The object with a field set; a new field goes to its place in the order, an unknown one to the end."""
    if key in node or key not in order:
        return {**node, key: value}
    earlier = [name for name in order[: order.index(key)] if name in node]
    if not earlier:
        return {key: value, **node}
    changed: Data = {}
    for name, old_value in node.items():
        changed[name] = old_value
        if name == earlier[-1]:
            changed[key] = value
    return changed


def same_data(first: Any, second: Any) -> bool:
    """Whether two values would be written alike; 1, 1.0 and true differ, the order of keys does not."""
    pairs = [(first, second)]
    while pairs:
        left, right = pairs.pop()
        if left is right:
            continue
        if type(left) is not type(right):
            return False
        if isinstance(left, dict):
            if left.keys() != right.keys():
                return False
            pairs += [(value, right[key]) for key, value in left.items() if value is not right[key]]
        elif isinstance(left, list):
            if len(left) != len(right):
                return False
            if not all(map(is_, left, right)):
                pairs += [(a, b) for a, b in zip(left, right, strict=True) if a is not b]
        elif left != right:
            return False
    return True


def _child(node: Any, key: str | int) -> Any:
    if isinstance(node, dict):
        return node.get(key, _ABSENT)
    if isinstance(node, list) and isinstance(key, int) and 0 <= key < len(node):
        return node[key]
    return _ABSENT


def _replace_at(node: Any, path: Path, depth: int, value: Any) -> Any:
    if depth == len(path):
        return value
    key = path[depth]
    old = _child(node, key)
    if isinstance(node, list):
        if old is _ABSENT or not isinstance(key, int):
            raise CannotEdit(f"{path_text(path[: depth + 1])} is not in the list")
        new = _replace_at(old, path, depth + 1, value)
        return node if _is_unchanged(old, new) else [*node[:key], new, *node[key + 1 :]]
    if not isinstance(node, dict) or not isinstance(key, str):
        raise CannotEdit(f"{path_text(path[:depth]) or 'the dataset'} holds nothing that can be named {key!r}")
    new = _replace_at({} if old is _ABSENT else old, path, depth + 1, value)
    return node if _is_unchanged(old, new) else with_field(node, key, new, _field_order(path[:depth]))


def _is_unchanged(old: Any, new: Any) -> bool:
    """Whether a value is unchanged; objects and lists are compared by identity only, so that an edit stays cheap."""
    return old is new or (type(old) is type(new) and not isinstance(old, (dict, list)) and old == new)


def _field_order(path: Path) -> Sequence[str]:
    if not path:
        return DOCUMENT_FIELDS
    lists = path[::2]
    return UNIT_FIELDS if len(path) % 2 == 0 and lists in (("items",), ("items", "turns")) else ()


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to fix, with its path in the document and its line if that is known."""

    message: str
    path: Path = ()
    line: int | None = None
    severity: Literal["error", "warning"] = "error"
    column: int | None = None

    @property
    def where(self) -> str:
        """The path as people write it: items[3].turns[0]."""
        return path_text(self.path)

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.path else self.message


class LineError(ValueError):
    """A line of a CSV or JSONL file cannot be read; `line` says which."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


class DatasetError(Exception):
    """A file that cannot be used as a dataset."""

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__("\n".join(problem_with_place(source, problem) for problem in self.problems))


def problem_with_place(source: str, problem: Problem) -> str:
    """The problem with its file and line before it."""
    name = safe_line(source)  # a file name may have line breaks
    place = "" if problem.line is None else f":{problem.line}{f':{problem.column}' if problem.column else ''}"
    return f"{name}{place}: {problem}"


def path_text(path: Path) -> str:
    """A path as people write it: items[3].turns[0].prompt."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")


def place_in_words(path: Path) -> str:
    """A path in the words of the workbench, which counts from 1: item 3, turn 1, prompt."""
    units = {"items": "item", "turns": "turn"}
    words: list[str] = []
    for number, part in enumerate(path):
        before = path[number - 1] if number else None
        if isinstance(part, int) and before in units:
            words[-1] = f"{units[str(before)]} {part + 1}"
        elif isinstance(part, int):
            words[-1] += f"[{part}]"
        else:
            words.append(part)
    return ", ".join(words) or "the dataset"


@dataclass(frozen=True, slots=True)
class YamlPlace:
    """The line of a value (of its key, if it has one) and the line on which its text starts."""

    line: int
    text: int
    column: int = 1


Places = Mapping[Path, YamlPlace]


def places_in(text: str) -> Places:
    """The places of all values of a text that `load_mapping` has read before."""
    from ruamel.yaml import YAML

    events: Iterator[Any] = YAML(typ="safe", pure=True, plug_ins=[]).parse(text.removeprefix("\ufeff"))
    places: dict[Path, YamlPlace] = {}
    for event in events:
        if _event_kind(event) not in ("StreamStart", "DocumentStart", "DocumentEnd", "StreamEnd"):
            _record_places(event, events, (), event.start_mark, places)
    return places


def line_in(places: Places, path: Path) -> int:
    """The line of a value, or of the nearest one around it where there is none."""
    while path and path not in places:
        path = path[:-1]
    return places[path].line if path in places else 1


def _event_kind(event: Any) -> str:
    return type(event).__name__.removesuffix("Event")


def _record_places(event: Any, events: Iterator[Any], path: Path, mark: Any, places: dict[Path, YamlPlace]) -> None:
    start = event.start_mark.line + 1
    text = start + 1 if getattr(event, "style", None) in ("|", ">") else start
    places[path] = YamlPlace(mark.line + 1, text, mark.column + 1)
    if _event_kind(event) == "MappingStart":
        while _event_kind(key := next(events)) != "MappingEnd":
            _record_places(next(events), events, (*path, key.value), key.start_mark, places)
    elif _event_kind(event) == "SequenceStart":
        number = 0
        while _event_kind(item := next(events)) != "SequenceEnd":
            _record_places(item, events, (*path, number), item.start_mark, places)
            number += 1
