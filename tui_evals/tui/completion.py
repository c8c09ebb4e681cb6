"""Completes what is written in a box: variables, tags, categories, tools and paths, the best candidate first.

A `Completer` is made when a box opens. It collects the names it needs once, at the first text that asks for them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

from tui_evals.text.safe import spelled
from tui_evals.tui.widgets.finding import Completion, completion_of
from tui_evals.tui.workspace import Workspace

_MOST_FILES = 2000
_VARIABLE = re.compile(r"\{\{(\s?)([\w.-]*)$")
_FILE = re.compile(r"file://([^\s\"'<>]*)$")


class Completer:
    """Completes the text of one field of the dataset."""

    def __init__(self, workspace: Workspace, field: str) -> None:
        self._workspace = workspace
        self._field = field

    def __call__(self, before: str, after: str) -> Completion | None:
        """What can be completed at the cursor; None where nothing can."""
        if after[:1].isalnum() or after[:1] in ("_", "-", "."):
            return None  # within a word the right arrow moves
        if variable := _VARIABLE.search(before):
            space, typed = variable.groups()
            closing = "" if after.lstrip().startswith("}}") else f"{space}}}}}"
            return completion_of(typed, self._variables, closing)
        if path := _FILE.search(before):
            return completion_of(path[1], self._files)
        line = before.rpartition("\n")[2]
        if self._line_names is None or not line.strip() or after.partition("\n")[0].strip():
            return None
        written = {one for one in f"{before}{after}".split("\n") if one != line}
        return completion_of(line, [name for name in self._line_names if name not in written])

    @cached_property
    def _units(self) -> Sequence[Mapping[str, Any]]:
        """The current item or turn, the dataset, and the items; what is nearest comes first."""
        unit, workspace = self._workspace.unit, self._workspace
        units = (unit, *((workspace.items[workspace.item],) if workspace.item is not None else ()), workspace.data)
        return [one for one in (*units, *workspace.items) if isinstance(one, dict)]

    @cached_property
    def _variables(self) -> list[str]:
        return list(dict.fromkeys(name for field in ("variables", "matrix") for name in self._keys(field)))

    def _keys(self, field: str) -> Iterator[str]:
        for unit in self._units:
            value = unit.get(field)
            if isinstance(value, dict):
                yield from value

    @cached_property
    def _files(self) -> list[str]:
        from tui_evals.datasets.attachments import attachable_files

        editing = self._workspace.editing
        found = attachable_files(editing.document.file.parent) if editing is not None else ()
        return [spelled(name) for name, _ in islice(found, _MOST_FILES)]

    @cached_property
    def _line_names(self) -> Sequence[str] | None:
        """The names of which each line of the field holds one; None where its lines are free text."""
        if self._field == "category":
            return common_first(unit.get("category") for unit in self._units)
        if self._field in ("tags", "metadata.tags"):
            return known_tags(self._units)
        if self._field == "prompt_file":
            return self._files
        if self._field in ("allowed_tools", "default_allowed_tools"):
            from tui_evals.datasets.tools import tool_name

            lists = (unit.get("tools") for unit in self._units)
            return common_first(tool_name(tool) for tools in lists if isinstance(tools, list) for tool in tools)
        return None


def known_tags(units: Iterable[Any]) -> list[str]:
    """The tags of items, those that most have first."""
    lists = (unit.get("tags") for unit in units if isinstance(unit, dict))
    return common_first(tag for tags in lists if isinstance(tags, list) for tag in tags)


def common_first(values: Iterable[Any]) -> list[str]:
    """The texts among values, each once, frequent ones first."""
    counts = Counter(spelled(value) for value in values if isinstance(value, str) and value)
    return [name for name, _ in counts.most_common()]
