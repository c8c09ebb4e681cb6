"""Assertions of promptfoo that are code, as custom evaluators: Python judges on, other languages wait to be written."""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass, field

from tui_evals.evaluators.custom import name_problem
from tui_evals.evaluators.registry import built_in

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]+")
_FUNCTION = re.compile(r"[A-Za-z_]\w*")
_CALLED = """

def score(response, prompt, variables):
    found = {function}(response, {{"prompt": prompt, "vars": variables}})
    if isinstance(found, dict):
        passed = found.get("pass", found.get("pass_", found.get("score", 0) > 0))
        return bool(passed), str(found.get("reason") or "")
    return found {passes}
"""


class NotCarried(Exception):
    """The code cannot be taken over; the message says why."""


@dataclass(slots=True)
class CodeFiles:
    """The custom evaluators an import makes, by name; the same code is one evaluator."""

    texts: dict[str, str] = field(default_factory=dict)
    reads_variables: bool = False
    """Whether a short piece of code that became an expression looks at the variables of its test."""

    def python(self, source: str, called: str, function: str | None, threshold: float | None) -> str:
        """The evaluator that judges as Python does: a file with a function, an expression, or lines that return."""
        passes = "> 0" if threshold is None else f">= {threshold!r}"
        if function is not None:
            body, name = source.rstrip() + "\n", function
        else:
            body, name = _as_function(source), "get_assert"
        if not _FUNCTION.fullmatch(name) or not _defines(body, name):
            raise NotCarried(f"it defines no function {name}")
        if name == "score":
            body, name = body + "\n\nscored_there = score\n", "scored_there"
        return self._add(called, f"{body}{_CALLED.format(function=name, passes=passes)}")

    def skeleton(self, source: str, called: str, language: str) -> str:
        """The file in which code of another language waits for somebody to write it in Python."""
        comment = textwrap.indent(source.strip(), "# ", lambda line: True)
        return self._add(
            called,
            f"# This was {language}. Write in Python what it finds, and name the evaluator in the dataset.\n#\n"
            f"{comment}\n\n\ndef score(response, expected, variables):\n"
            f'    raise NotImplementedError("the {language} above has not been written in Python yet")\n',
        )

    def _add(self, called: str, text: str) -> str:
        stem = _NOT_IN_NAMES.sub("_", called).strip("_").lower()[:40]
        if not stem[:1].isalpha():
            stem = f"check_{stem}".rstrip("_")
        number, name = 1, stem
        while self.texts.get(name, text) != text or name_problem(name, built_in()):
            number += 1
            name = f"{stem}_{number}"
        self.texts[name] = text
        return name


def _as_function(source: str) -> str:
    """Lines of Python as the function that promptfoo makes of them."""
    lines = source.strip("\n")
    if "\n" not in lines.strip():
        return f"def get_assert(output, context):\n    return {lines.strip()}\n"
    return "def get_assert(output, context):\n" + textwrap.indent(textwrap.dedent(lines), "    ") + "\n"


def _defines(body: str, name: str) -> bool:
    try:
        tree = ast.parse(body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NotCarried("it is not valid Python") from None
    return any(isinstance(one, ast.FunctionDef) and one.name == name for one in tree.body)
