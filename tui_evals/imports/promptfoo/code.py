"""Code in promptfoo's configurations: files become custom evaluators, and transforms run before what judges."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from tui_evals.evaluators.custom import name_problem
from tui_evals.evaluators.registry import built_in
from tui_evals.light_records import dataclass
from tui_evals.text import strictjson

from .files import Spot, named_file, text_of

JAVASCRIPT = "JavaScript"
TRANSFORMED = "Transformed"
_READS_NO_ANSWER = frozenset(("Latency", "Cost"))
_ES_MODULE = re.compile(r"^[ \t]*(?:export|import)\b", re.MULTILINE)
_AS_FUNCTION = """const module = {{ exports: {{}} }};
((module, exports) => {{
{source}
}})(module, module.exports);
const all = module.exports;
return [all[{function}], all, all.default].find((one) => typeof one === 'function')(output, context);"""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]+")
_FUNCTION = re.compile(r"[A-Za-z_]\w*")
_CALLED = """

def score(response, prompt, variables):
    try:
        found = {function}(response, {{"prompt": prompt, "vars": variables}})
    except Exception as problem:
        return {raised}, f"its code raised {{type(problem).__name__}}: {{problem}}"
    if isinstance(found, dict):
        passed = found.get("pass", found.get("pass_", found.get("score", 0) > 0))
        return bool(passed), str(found.get("reason") or "")
    return found {passes}
"""

CodeFile = tuple[str, str]
"""The ending and the text of the file of a custom evaluator that is called."""


class NotCarried(Exception):
    """The code cannot be taken over; the message says why."""


@dataclass(slots=True)
class CodeFiles:
    """The custom evaluators an import makes, by name; the same code is one evaluator."""

    taken: Mapping[str, CodeFile] = field(default_factory=dict)
    """The custom evaluators that the project has already, by name."""
    texts: dict[str, str] = field(default_factory=dict)
    endings: dict[str, str] = field(default_factory=dict)
    """The ending of the file of each, which says its language."""
    reads_variables: bool = False
    """Whether code inside the dataset may look at the variables of its test."""

    @property
    def files(self) -> dict[str, str]:
        """The texts by the names of their files below `custom-evaluators`."""
        return {f"{name}/{name}{self.endings[name]}": text for name, text in self.texts.items()}

    def note_code(self, source: str) -> None:
        """Note whether code that goes into the dataset may look at the variables of its test."""
        self.reads_variables |= "context" in source or "arguments" in source

    def python(
        self, source: str, called: str, function: str | None, threshold: float | None, *, turned: bool = False
    ) -> str:
        """The evaluator that judges as Python does: a file with a function, an expression, or lines that return.

        Code that raises fails its test, also where its verdict is `turned`.
        """
        passes = "> 0" if threshold is None else f">= {threshold!r}"
        if function is not None:
            body, name = source.rstrip() + "\n", function
        else:
            body, name = _as_function(source), "get_assert"
        if not _FUNCTION.fullmatch(name) or not _defines(body, name):
            raise NotCarried(f"it defines no function {name}")
        if name == "score":
            body, name = body + "\n\nscored_there = score\n", "scored_there"
        return self._add(called, f"{body}{_CALLED.format(function=name, passes=passes, raised=turned)}", ".py")

    def javascript(self, source: str, called: str) -> str:
        """The evaluator that is a file of JavaScript, as it is written."""
        return self._add(called, source, ".js")

    def __contains__(self, name: object) -> bool:
        return name in self.texts

    def _add(self, called: str, text: str, ending: str) -> str:
        stem = _NOT_IN_NAMES.sub("_", called).strip("_").lower()[:40]
        if not stem[:1].isalpha():
            stem = f"check_{stem}".rstrip("_")
        number, name = 1, stem
        while not self._is_free(name, text, ending):
            number += 1
            name = f"{stem}_{number}"
        self.texts[name], self.endings[name] = text, ending
        return name

    def _is_free(self, name: str, text: str, ending: str) -> bool:
        wanted = (ending, text)
        made = (self.endings.get(name, ending), self.texts.get(name, text))
        return made == self.taken.get(name, wanted) == wanted and not name_problem(name, built_in())


@dataclass(frozen=True, slots=True)
class Seen:
    """What assertions judge: the answer, or what transforms make of it."""

    transforms: tuple[str, ...] = ()
    """JavaScript, each given what the one before returned."""
    gone: str = ""
    """Why one of them cannot be run."""
    parsed: bool = False
    """Whether the answer is data and not text there."""

    def through(self, transform: Spot, folder: Path) -> Seen:
        """What is judged once a transform has been applied to it as well."""
        try:
            return replace(self, transforms=(*self.transforms, transform_code(transform, folder)))
        except NotCarried as why:
            return replace(self, gone=self.gone or str(why))

    @property
    def options(self) -> dict[str, Any]:
        """The options of an evaluator that runs JavaScript on it."""
        listed = list(self.transforms)
        transforms = {"transform": listed[0] if len(listed) == 1 else listed} if listed else {}
        return {**transforms, **({"parse": True} if self.parsed else {})}

    def judged_by(self, name: str, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The evaluator that judges this as the one that is given judges an answer; NotCarried says why none does."""
        if name in _READS_NO_ANSWER or not (self.transforms or self.gone):
            return name, options
        if self.gone:
            raise NotCarried(f"it judges what a transform makes of the answer, {self.gone}")
        if name == JAVASCRIPT:
            return name, {**options, **self.options}
        if built_in()[name].embeds:
            raise NotCarried(f"{name} cannot judge what a transform makes of the answer")
        outer = {key: options[key] for key in ("judge",) if key in options}
        inner = {key: part for key, part in options.items() if key not in outer}
        return TRANSFORMED, {**self.options, "evaluator": {name: inner}, **outer}


def inner_name(name: str, options: Mapping[str, Any]) -> str:
    """The evaluator that gives the verdict, where another one only transforms the answer for it."""
    return str(next(iter(options["evaluator"]))) if name == TRANSFORMED else name


def transform_code(spot: Spot, folder: Path) -> str:
    """The JavaScript of a transform, with that of the file it names; NotCarried says why there is none."""
    written = spot.value
    if not isinstance(written, str) or not written.strip():
        raise NotCarried("which is not written as code")
    if not written.startswith(("file://", "package:")):
        return written
    path, _, function = written.removeprefix("file://").partition(":")
    if not path.endswith((".js", ".cjs")):
        raise NotCarried("which is a file of another language or a package")
    source = text_of(named_file(spot, folder, path), path)
    if _ES_MODULE.search(source):
        raise NotCarried("which is an ES module; write it with module.exports")
    return _AS_FUNCTION.format(source=source.strip(), function=strictjson.dumps(function))


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
