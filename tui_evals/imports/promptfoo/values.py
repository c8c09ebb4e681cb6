"""Code and Nunjucks templates of promptfoo: files become custom evaluators, templates the Jinja of our box."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import product
from math import prod
from pathlib import Path
from pathlib import Path as File
from typing import Any

from tui_evals.evaluators.custom import name_problem
from tui_evals.evaluators.registry import built_in
from tui_evals.imports.base import Losses
from tui_evals.imports.promptfoo.files import Spot, files_named, named_file, shown_name, source_of, text_of
from tui_evals.light_records import dataclass
from tui_evals.text import strictjson
from tui_evals.text.templates import TemplateError, render_template

_TAG = re.compile(r"\{[{%#]")
_ESCAPED = re.compile(r"\{\{ '(\{|#|file://|package:)' \}\}")
_TO_ESCAPE = re.compile(r"\{(?=[{%#])|#(?=\})|^(?:file://|package:)")
_WORD = re.compile(r"[A-Za-z_]\w*")
_NAMED = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_ROUNDS = 5  # texts that name one another would be filled for ever
_LONE = re.compile(r"\s*\{\{-?\s*([A-Za-z_]\w*)\s*-?\}\}\s*")


_BLOCKS = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_NUNJUCKS = (
    (re.compile(r"\|\s*dump\b(?:\(\s*\))?"), "| tojson"),
    (re.compile(r"\|\s*safe\b"), ""),
    (re.compile(r"(?<=\{%)(-?\s*)elseif\b"), r"\1elif"),
    (re.compile(r"\s*===\s*"), " == "),
    (re.compile(r"\s*!==\s*"), " != "),
)


def as_jinja(text: str) -> str:
    """A Nunjucks template in the syntax of Jinja."""

    def rewritten(block: re.Match[str]) -> str:
        written = block[0]
        for theirs, ours in _NUNJUCKS:
            written = theirs.sub(ours, written)
        return written

    return _BLOCKS.sub(rewritten, text)


def named_in_tags(text: str) -> frozenset[str]:
    """The names that conditions and loops of a template hold, where it matters what kind a value is."""
    return frozenset(name for block in _BLOCKS.findall(text) if block.startswith("{%") for name in _WORD.findall(block))


def needs_values(value: Any) -> bool:
    """Whether a text, or one in a list, is a template that needs values."""
    texts = value if isinstance(value, list) else [value]
    return any(isinstance(text, str) and bool(_TAG.search(_ESCAPED.sub("\0", text))) for text in texts)


ENV = "env"
"""The variable in which templates are given the environment."""
_OF_ENV = re.compile(r"\benv\.([A-Za-z_]\w*)")


def named_of_environment(text: str) -> frozenset[str]:
    """The variables of the environment that the tags of a template name."""
    return frozenset(name for block in _BLOCKS.findall(text) for name in _OF_ENV.findall(block))


def literal(text: str) -> str:
    """A text written so that promptfoo, which renders it, ends up with the text itself."""
    return _TO_ESCAPE.sub(lambda found: f"{{{{ '{found[0]}' }}}}", text)


def filled(value: Any, values: Mapping[str, Any]) -> Any:
    """A text, or the texts of a list, with their templates rendered; TemplateError says which cannot be."""
    if isinstance(value, list):
        return [filled(part, values) if isinstance(part, str) else part for part in value]
    return _filled(value, values) if isinstance(value, str) else value


def substituted(values: Mapping[str, Any]) -> dict[str, Any]:
    """Variables with the names of others in their texts replaced, which is all that is filled before a chat prompt."""
    resolved = dict(values)
    for _ in range(_ROUNDS):
        for name, value in resolved.items():
            if isinstance(value, str):
                resolved[name] = _NAMED.sub(lambda part: script_text(resolved.get(part[1], part[0])), value)
    return resolved


def lone_name(text: str) -> str | None:
    """The variable a template consists of, when it is nothing but one."""
    match = _LONE.fullmatch(text)
    return match[1] if match and text == text.strip() else None


def script_text(value: Any) -> str:
    """A value as promptfoo's language writes it into text."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return strictjson.dumps(value)


def _filled(text: str, values: Mapping[str, Any]) -> str:
    if not _TAG.search(text):
        return text
    if not needs_values(text):
        return _ESCAPED.sub(r"\1", text)
    return render_template(as_jinja(text), {name: "" if value is None else value for name, value in values.items()})


def _as_number(value: Any) -> Any:
    """A number without the fraction that promptfoo's language does not tell from none: 2.0 is shown as 2 there."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value


_CODE = frozenset((".py", ".js", ".ts", ".mjs", ".cjs", ".rb"))
_NO_TEXT = frozenset((".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf", ".mp3", ".wav", ".mp4", ".svg"))
_ELSEWHERE = ("file://", "package:")
_MOST = 20_000


@dataclass(frozen=True, slots=True)
class Values:
    """Reads variables; `renders` tells whether those that hold templates are filled, as text prompts have it."""

    folder: File
    renders: bool
    losses: Losses
    environment: Mapping[str, str] = field(default_factory=dict)
    """The value of `env` in templates, from the configuration."""

    def given(self, spot: Spot) -> dict[str, Spot]:
        """The variables of a test, from the files it names where it names files."""
        variables = spot.get("vars")
        if variables is None:
            return {}
        if isinstance(variables.value, dict):
            return dict(variables.members())
        spots: dict[str, Spot] = {}
        for name in variables.entries() if isinstance(variables.value, list) else [variables]:
            for file in files_named(name, self.folder, name.text(), beside=name.source.folder):
                source = source_of(file, shown_name(file, self.folder)).note_dates(self.losses)
                spots |= dict(Spot(source, (), source.value).members())
        return spots

    def is_plain(self, spot: Spot, whole: bool) -> bool:
        """Whether a variable has one literal value."""
        value = spot.value
        if isinstance(value, list) and value and isinstance(value[0], str) and not whole:
            return False
        if isinstance(value, str) and value.startswith(_ELSEWHERE):
            return False
        return not (self.renders and isinstance(value, str) and needs_values(value))

    def plain(self, spot: Spot) -> Any:
        """The literal value of a variable."""
        value = spot.value
        if not isinstance(value, str):
            return _as_number(value)
        return filled(value.removesuffix("\n"), {}) if self.renders else value.removesuffix("\n")

    def combinations(self, layers: Sequence[Spot], whole: bool) -> Iterator[dict[str, Any]]:
        """Each choice of one value for each variable; lists stay whole where the test says so."""
        given: dict[str, Spot] = {}
        for layer in layers:
            given |= self.given(layer)
        choices = {name: options for name, spot in given.items() if (options := list(self._choices(spot, whole)))}
        if (count := prod(map(len, choices.values()))) > _MOST:
            raise layers[-1].wrong(f"the lists of its variables combine to {count:,} tests; {_MOST:,} is the limit")
        for chosen in product(*choices.values()):
            yield self._rendered(dict(zip(choices, chosen, strict=True)), given)

    def _choices(self, spot: Spot, whole: bool) -> Iterator[Any]:
        value = spot.value
        if isinstance(value, list) and value and isinstance(value[0], str) and not whole:
            for entry in spot.entries():
                yield from self._read(entry)
        else:
            yield from self._read(spot)
            if isinstance(value, list | dict):
                self.losses.changed(
                    f"the variable {spot.path[-1]}", spot.where, "a prompt shows it as Python writes it"
                )

    def _read(self, spot: Spot) -> Iterator[Any]:
        value = spot.value
        if not isinstance(value, str) or not value.startswith(_ELSEWHERE):
            yield value.removesuffix("\n") if isinstance(value, str) else _as_number(value)
            return
        path = value.removeprefix("file://")
        ending = File(path.partition(":")[0]).suffix.lower()
        if value.startswith("package:") or ending in _CODE or ending in _NO_TEXT:
            why = "it is no text" if ending in _NO_TEXT else "it is made by code"
            self.losses.left_out(f"the variable {spot.path[-1]}", spot.where, why)
            return
        for file in files_named(spot, self.folder, value):
            yield self._content(file)

    def _content(self, file: File) -> str:
        name = shown_name(file, self.folder)
        if file.suffix.lower() in (".yaml", ".yml"):
            return strictjson.dumps(source_of(file, name).note_dates(self.losses).value)
        return text_of(file, name).strip()

    def _rendered(self, values: dict[str, Any], given: Mapping[str, Spot]) -> dict[str, Any]:
        if not self.renders:
            return substituted(values)
        env = {ENV: self.environment} if self.environment else {}
        texts = {name: value for name, value in values.items() if isinstance(value, str)}
        known = {**values, **{name: filled(text, {}) for name, text in texts.items() if not needs_values(text)}}
        for name, text in texts.items():
            if needs_values(text):
                try:
                    known[name] = filled(text, {**env, **known}).removesuffix("\n")
                except TemplateError as problem:
                    why = f"it stays as written: its template {problem.problem}"
                    self.losses.changed(f"the variable {name}", given[name].where, why)
        return known

    def of_assert(self, spot: Spot, name: str) -> Any:
        """The content of a file an assertion compares with."""
        file = files_named(spot, self.folder, name)[0]
        shown = shown_name(file, self.folder)
        if file.suffix.lower() in (".json", ".yaml", ".yml"):
            return source_of(file, shown).note_dates(self.losses).value
        return text_of(file, shown).strip()


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
        """The evaluator in a file of JavaScript, with the unchanged code."""
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
    """The input of assertions: the answer, or the result of transforms."""

    transforms: tuple[str, ...] = ()
    """JavaScript, each with the result of the one before."""
    gone: str = ""
    """Why one of them cannot be run."""
    parsed: bool = False
    """Whether the answer is data and not text there."""

    def through(self, transform: Spot, folder: Path) -> Seen:
        """The input after a further transform."""
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
