"""Completes the text in a box: variables, tags, categories, tools, evaluators and paths, best matches first.

A `Completer` is created when a box opens. It collects the names it needs once, at the first text that needs them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerStatus, RunRow
from tui_evals.text.safe import spelled
from tui_evals.tui.widgets.finding import Completion, completion_of
from tui_evals.tui.workspace import Workspace

_MOST_FILES = 2000
_VARIABLE = re.compile(r"\{\{(\s?)([\w.-]*)$")
_FILE = re.compile(r"file://([^\s\"'<>]*)$")
_QUOTED = re.compile(r'"([A-Za-z_]\w*)$')
_JSON_PART = re.compile(r'"((?:[^"\\]|\\.)*)"|[{}\[\]]')


class Completer:
    """Completes the text of one field of the dataset."""

    def __init__(self, workspace: Workspace, field: str) -> None:
        self._workspace = workspace
        self._field = field

    def __call__(self, before: str, after: str) -> Completion | None:
        """The completion at the cursor, if there is one."""
        if after[:1].isalnum() or after[:1] in ("_", "-", "."):
            return None  # within a word the right arrow moves
        if variable := _VARIABLE.search(before):
            space, typed = variable.groups()
            closing = "" if after.lstrip().startswith("}}") else f"{space}}}}}"
            return completion_of(typed, self._variables, closing)
        if path := _FILE.search(before):
            return completion_of(path[1], self._files)
        if (quoted := _QUOTED.search(before)) and self._names_evaluator(before[: quoted.start()]):
            return completion_of(quoted[1], self._evaluators, "" if after.startswith('"') else '"')
        line = before.rpartition("\n")[2]
        if self._line_names is None or not line.strip() or after.partition("\n")[0].strip():
            return None
        written = {one for one in f"{before}{after}".split("\n") if one != line}
        return completion_of(line, [name for name in self._line_names if name not in written])

    @cached_property
    def _units(self) -> Sequence[Mapping[str, Any]]:
        """The current unit, its item, the dataset, and all items, so that the nearest names come first."""
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

    def _names_evaluator(self, before: str) -> bool:
        """Whether the JSON text that begins here is the name of an evaluator: a key among evaluators, or a `type`."""
        if "evaluators" not in self._field:
            return False
        last, parents = "evaluators", [""]
        for part in _JSON_PART.finditer(before):
            if part[0] in ("{", "["):
                parents.append(last)
            elif part[1] is not None:
                last = part[1]
            elif len(parents) > 1:
                parents.pop()
        sign = before.rstrip()[-1:]
        return (sign in ("{", ",") and "evaluators" in parents[-1]) or (sign == ":" and last == "type")

    @cached_property
    def _evaluators(self) -> list[str]:
        kinds = self._workspace.registry.kinds
        return [kind.name for kind in sorted(kinds, key=lambda kind: kind.name not in self._workspace.registry.own)]

    @cached_property
    def _files(self) -> list[str]:
        from tui_evals.datasets.attachments import attachable_files

        editing = self._workspace.editing
        found = attachable_files(editing.document.file.parent) if editing is not None else ()
        return [spelled(name) for name, _ in islice(found, _MOST_FILES)]

    @cached_property
    def _line_names(self) -> Sequence[str] | None:
        """The possible names on each line of the field; None if its lines are free text."""
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


def read_filter_values(
    database: Path, runs: Sequence[RunRow], more: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> dict[str, Sequence[str]]:
    """The values that a filter of runs completes, by key, with the values in `more`."""
    with Reader(database) as reader:
        evaluators = list(dict.fromkeys(key for run in runs for key, _ in reader.score_keys(run)))
        categories = sorted({str(one) for run in runs for one in reader.totals_by(run.id, "category") if one})
    targets = dict.fromkeys(
        name for run in runs for target in run.targets for name in (target, target.rpartition("/")[2])
    )
    return {
        **more,
        "status": list(get_args(AnswerStatus)),
        "category": categories,
        "target": list(targets),
        "prompt": list(dict.fromkeys(prompt for run in runs for prompt in run.prompts if prompt)),
        "evaluator": evaluators,
        "failed": evaluators,
        "label": ["good", "bad"],
    }


def item_filter_values(items: Sequence[Any]) -> dict[str, list[str]]:
    """The values that a filter of items completes, by key."""
    categories = common_first(unit.get("category") for unit in items if isinstance(unit, dict))
    return {"category": categories, "tag": known_tags(items), "status": list(get_args(AnswerStatus))}


def known_tags(units: Iterable[Any]) -> list[str]:
    """The tags of items, those that most have first."""
    lists = (unit.get("tags") for unit in units if isinstance(unit, dict))
    return common_first(tag for tags in lists if isinstance(tags, list) for tag in tags)


def common_first(values: Iterable[Any]) -> list[str]:
    """The texts among values, each once, frequent ones first."""
    counts = Counter(spelled(value) for value in values if isinstance(value, str) and value)
    return [name for name, _ in counts.most_common()]
