"""Read and change plain JSON data by path; changes return new data that shares the unchanged parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any

from .layout import Path
from .problems import path_text

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
    """The data with a value set at a path; missing objects on the way are created."""
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
        reason = "there is none" if unit is None else "it is no object; mend it in the file"
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
