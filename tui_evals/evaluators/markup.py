"""Answers in a language that a program reads: XML, HTML, SQL, and Python, which is run with a test of it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar
from xml.parsers import expat

from pydantic import Field, field_validator

from tui_evals.evaluators import sandbox
from tui_evals.evaluators.base import (
    CannotJudge,
    Evaluator,
    Evidence,
    Misconfigured,
    Options,
    Score,
    error_score,
    is_installed,
    verdict_score,
)
from tui_evals.evaluators.values import quoted, quoted_list
from tui_evals.light_records import dataclass
from tui_evals.project_files import RefusedFile, read_text

_MOST = 10_000_000
_MOST_SQL = 200_000  # the parser takes a second for these
"""Characters of an answer that are read."""
_FENCE = re.compile(r"```[ \t]*(?:sql|SQL)?[ \t]*\r?\n?(.*?)```", re.DOTALL)


class _WithinOptions(Options):
    """Options of evaluators that accept a part of the answer."""

    anywhere: bool = Field(False, description="Whether a part of the answer is enough; else the whole answer must be.")


class XmlOptions(_WithinOptions):
    """Options of Xml."""

    elements: list[str] = Field(
        [],
        description="Elements that must be there, each as a path such as analysis.summary; @_id is an attribute, "
        "and a number chooses one of several of the same name.",
    )


@dataclass(slots=True)
class _Element:
    """An element while it is read."""

    name: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    children: dict[str, list[Any]] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)

    def value(self) -> Any:
        """Its text alone, or its attributes, children and text by name; several of one name are a list."""
        text = "".join(self.text).strip()
        if not self.attributes and not self.children:
            return text
        parts: dict[str, Any] = {f"@_{name}": value for name, value in self.attributes.items()}
        parts |= {name: found[0] if len(found) == 1 else found for name, found in self.children.items()}
        return {**parts, **({"#text": text} if text else {})}


class _Malformed(Exception):
    """The text is not XML; the message says why."""


def _whole_tree(text: str) -> dict[str, Any]:
    """The elements of a well-formed document; a document type with declarations of its own is not read."""
    parser = expat.ParserCreate()
    stack = [_Element("")]

    def opened(name: str, attributes: Mapping[str, str]) -> None:
        stack.append(_Element(name, attributes))

    def closed(name: str) -> None:
        element = stack.pop()
        stack[-1].children.setdefault(name, []).append(element.value())

    def declared(name: str, system: str | None, public: str | None, has_declarations: int) -> None:
        if has_declarations:
            raise _Malformed("a document type with declarations of its own is not read")

    parser.StartElementHandler, parser.EndElementHandler = opened, closed
    parser.CharacterDataHandler = lambda data: stack[-1].text.append(data)
    parser.StartDoctypeDeclHandler = declared
    try:
        parser.Parse(text.encode("utf-8", "replace"), True)
    except expat.ExpatError as problem:
        raise _Malformed(f"it is not well-formed: {problem}") from None
    tree: dict[str, Any] = stack[0].value()
    return tree


_TAG = re.compile(
    r"(?P<begin><!--|<!\[CDATA\[|<[!?])"
    r"|<(?P<close>/)?(?P<name>[^\W\d][\w.:-]*)(?P<attributes>(?:[^<>\"']|\"[^\"]*\"|'[^']*')*)>"
)
_ENDS = {"<!--": "-->", "<![CDATA[": "]]>"}
_ATTRIBUTE = re.compile(r"([^\W\d][\w.:-]*)\s*(?:=\s*(?:\"([^\"]*)\"|'([^']*)'))?")


def _tags(text: str) -> Iterator[tuple[re.Match[str], int]]:
    """Tags, comments, raw texts and declarations, each with its end; one without an end is text."""
    missing: set[str] = set()
    at = 0
    while tag := _TAG.search(text, at):
        at = tag.end()
        if tag["begin"] is not None:
            for end in dict.fromkeys((_ENDS.get(tag["begin"], ">"), ">")):
                # A missing end is not searched again, because many beginnings would take too long.
                place = -1 if end in missing else text.find(end, at)
                if place >= 0:
                    at = place + len(end)
                    break
                missing.add(end)
            else:
                continue
        yield tag, at


def _trees_within(text: str) -> Iterator[dict[str, Any]]:
    """The elements that are balanced somewhere in a text: all that follow each other together, then each alone."""
    stack, done = [_Element("")], _Element("")
    at = 0
    for tag, end in _tags(text):
        stack[-1].text.append(text[at : tag.start()])
        at = end
        name = tag["name"]
        if name is None:
            is_raw = tag["begin"] == "<![CDATA[" and text.endswith("]]>", 0, end)
            stack[-1].text.append(text[tag.end() : end - len("]]>")] if is_raw else "")
        elif tag["close"]:
            if stack[-1].name != name:
                stack = [_Element("")]
                continue
            element = stack.pop()
            _keep(stack, done, name, element.value())
        else:
            given = tag["attributes"].rstrip()
            found = {one[1]: one[2] or one[3] or "" for one in _ATTRIBUTE.finditer(given.removesuffix("/"))}
            element = _Element(name, found)
            if given.endswith("/"):
                _keep(stack, done, name, element.value())
            else:
                stack.append(element)
    if done.children:
        yield done.value()
    yield from ({name: one} for name, several in done.children.items() for one in several)


def _keep(stack: list[_Element], done: _Element, name: str, value: Any) -> None:
    """Store a closed element in its parent, or as a complete one."""
    (stack[-1] if len(stack) > 1 else done).children.setdefault(name, []).append(value)


def _missing(tree: Any, paths: list[str]) -> list[str]:
    return [path for path in paths if not _has(tree, path.split("."))]


def _has(value: Any, path: list[str]) -> bool:
    for key in path:
        if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        elif isinstance(value, Mapping) and key in value:
            value = value[key]
        else:
            return False
    return True


class Xml(Evaluator):
    """Passes when the answer is well-formed XML, with `anywhere` when it holds balanced elements.

    A document type can be named, but must not declare anything. `elements` names required elements. With `anywhere` an
    element counts once it is closed, and the text around elements is not read.
    """

    name = "Xml"
    family = "markup"
    Options = XmlOptions
    example: ClassVar = {"options": {"elements": ["person.name"]}, "response": "<person><name>Ada</name></person>"}

    def score(self, evidence: Evidence) -> Score:
        """Read it, then look for the elements."""
        text, wanted = (evidence.response or "")[:_MOST], list(self.options.elements)
        if not self.options.anywhere:
            try:
                missing = _missing(_whole_tree(text), wanted)
            except (_Malformed, RecursionError) as why:
                return verdict_score(False, str(why) or "it is nested too deeply")
            return _elements_score(missing, wanted)
        fewest = min((_missing(tree, wanted) for tree in _trees_within(text)), key=len, default=None)
        return (
            verdict_score(False, "there is no XML in the answer") if fewest is None else _elements_score(fewest, wanted)
        )


def _elements_score(missing: list[str], wanted: list[str]) -> Score:
    if missing:
        return verdict_score(False, f"these elements are missing: {quoted_list(missing)}", missing=missing)
    return verdict_score(True, f"it is XML with {quoted_list(wanted)}" if wanted else "it is XML")


_NAMES = """html head title base link meta style body article section nav aside h1 h2 h3 h4 h5 h6 header footer address
p hr pre blockquote ol ul li dl dt dd figure figcaption main div a em strong small s cite q dfn abbr ruby rt rp data
time code var samp kbd sub sup i b u mark bdi bdo span br wbr img iframe embed object param picture source video audio
track map area svg math script noscript canvas ins del table caption colgroup col tbody thead tfoot tr td th form label
input button select datalist optgroup option textarea output progress meter fieldset legend details summary dialog menu
slot template"""
_ELEMENTS = frozenset(_NAMES.split())
"""The elements of HTML that are not obsolete."""
_VOIDS = "area base br col embed hr img input link meta param source track wbr"
_VOID = frozenset(_VOIDS.split())
_COMMON = (
    "html|head|body|div|span|p|a|img|h[1-6]|ul|ol|li|table|tr|td|th|form|input|button|script|style|link|meta|br|hr"
)
_SIGNS = (
    (re.compile(r"<[a-zA-Z][a-zA-Z0-9-]*(?:\s[^>]*)?>"), 1),
    (re.compile(r"</[a-zA-Z][a-zA-Z0-9-]*\s*>"), 1),
    (re.compile(r"<[a-zA-Z][a-zA-Z0-9-]*(?:\s[^>]*)?/>"), 1),
    (re.compile(r"&(?:[a-zA-Z]+|#\d+|#x[0-9a-fA-F]+);"), 1),
    (re.compile(r"<!DOCTYPE\s+html", re.IGNORECASE), 2),
    (re.compile(r"<!--[^-]*(?:-[^-]+)*-->"), 1),
    (re.compile(r"\s[a-zA-Z-]+=\s*(?:\"[^\"']*|'[^\"']*)[\"']"), 1),
    (re.compile(rf"<(?:{_COMMON})\b", re.IGNORECASE), 2),
)
"""Signs of HTML in a text with their points; two points are enough."""


_ENDINGS = (("<", ">"), ("<!--", "-->"), ("<![", "]]>"))
_MOST_LOOKED_AT = 5_000_000
"""Characters that are looked at for the ends of tags: more than any page has, and half a second at most."""


def _is_tangled(text: str) -> bool:
    """Whether so many tags begin before one ends that searching for each end would take too long."""
    looked_at = 0
    for begin, end in _ENDINGS:
        for part in text.split(end):
            looked_at += sum(len(part) - found.start() for found in re.finditer(re.escape(begin), part))
    return looked_at > _MOST_LOOKED_AT


class _Page(HTMLParser):
    """Which elements a text has, and whether there is text that is in none."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[str] = []
        self.loose = ""
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Note an element."""
        self.elements.append(tag)
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        """Note an element, which HTML leaves open unless it is one without content."""
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        """Close the nearest element of that name."""
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        """Note text outside of every element, which a written body may consist of."""
        if data.strip() and not self.loose and (not self._open or self._open in (["html"],)):
            self.loose = data.strip()


class HtmlOptions(_WithinOptions):
    """Options of Html."""


class Html(Evaluator):
    """Passes when the answer is HTML: elements that HTML knows, and no text outside of them.

    Custom elements such as `my-card` count, and XML does not. With `anywhere` it passes when enough in the answer looks
    like HTML: a common tag, a pair of tags, a document type, or two of an entity, a comment and an attribute.
    """

    name = "Html"
    family = "markup"
    Options = HtmlOptions
    example: ClassVar = {"response": "<p>Hello <b>world</b></p>"}

    def score(self, evidence: Evidence) -> Score:
        """Read it, or look for signs of it."""
        text = (evidence.response or "")[:_MOST].strip()
        if _is_tangled(text):
            return verdict_score(False, "it has thousands of tags without an end")
        if self.options.anywhere:
            points = sum(worth for sign, worth in _SIGNS if sign.search(text))
            return verdict_score(
                points >= 2, "there is HTML in the answer" if points >= 2 else "there is no HTML in it"
            )
        if not text:
            return verdict_score(False, "the answer is empty")
        if text[:5].lower() == "<?xml":
            return verdict_score(False, "it is XML, not HTML")
        page = _Page()
        page.feed(text)
        page.close()
        if page.loose:
            return verdict_score(False, f"the text {quoted(page.loose)} is in no element")
        known = [name for name in page.elements if name in _ELEMENTS or "-" in name]
        return verdict_score(bool(known), "it is HTML" if known else "no element of HTML is in it")


DIALECTS = {
    "MySQL": "mysql", "MariaDB": "mysql", "PostgreSQL": "postgres", "Postgresql": "postgres", "Sqlite": "sqlite",
    "BigQuery": "bigquery", "Hive": "hive", "Redshift": "redshift", "Snowflake": "snowflake", "Athena": "athena",
    "TransactSQL": "tsql", "Trino": "trino",
}  # fmt: skip
"""The supported SQL databases, with the library's names."""


_STATEMENTS = (
    *("Query", "DML", "DDL", "Insert", "Update", "Delete", "Merge", "Create", "Drop", "Alter", "AlterTable"),
    *("TruncateTable", "Use", "Set", "Show", "Describe", "Transaction", "Commit", "Rollback", "Grant"),
)
"""The classes of statements; the library also parses expressions alone, which are none."""


class SqlOptions(_WithinOptions):
    """Options of Sql."""

    database: str = Field("MySQL", description=f"Whose SQL it must be: {', '.join(DIALECTS)}.")
    tables: list[str] | None = Field(
        None,
        description="The tables that may be used, as patterns such as select::null::users or (select|update)::.*::t.",
    )
    columns: list[str] | None = Field(
        None, description="The columns that may be used, as patterns such as select::users::name."
    )

    @field_validator("database")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in DIALECTS:
            raise ValueError(f"the SQL of {name!r} is not known; choose one of {', '.join(DIALECTS)}")
        return name


class Sql(Evaluator):
    """Passes when the answer is SQL of a database and uses only tables and columns that are allowed.

    With `anywhere` the first block between ``` is read where there is one. It needs the library sqlglot:
    `pip install 'tui-evals[sql]'`.
    """

    name = "Sql"
    family = "markup"
    Options = SqlOptions
    example: ClassVar = {"response": "SELECT name FROM users WHERE id = 1"}

    def obstacle(self) -> str | None:
        """The library that is not there."""
        return None if is_installed("sqlglot") else "it needs the library sqlglot: pip install 'tui-evals[sql]'"

    def score(self, evidence: Evidence) -> Score:
        """Parse the answer, then compare what it uses with the allowed statements and tables."""
        library, text = import_module("sqlglot"), evidence.response or ""
        if self.options.anywhere and (block := _FENCE.search(text)):
            text = block[1]
        if len(text) > _MOST_SQL:
            raise CannotJudge("responseTooLarge", f"the answer holds more than {_MOST_SQL:,} characters of SQL")
        try:
            statements = [one for one in library.parse(text, read=DIALECTS[self.options.database]) if one is not None]
        except (library.errors.SqlglotError, RecursionError) as problem:
            first = str(problem).splitlines()[0] if str(problem) else "it is nested too deeply"
            return verdict_score(False, f"it is no SQL of {self.options.database}: {first}")
        kinds = tuple(getattr(library.exp, name) for name in _STATEMENTS if hasattr(library.exp, name))
        if not statements or not all(isinstance(one, kinds) for one in statements):
            return verdict_score(False, f"it is no statement in SQL of {self.options.database}")
        for allowed, used in (
            (self.options.tables, _tables(library.exp, statements)),
            (self.options.columns, _columns(library.exp, statements)),
        ):
            if allowed is not None and (refused := _refused(allowed, used)):
                return verdict_score(False, f"not allowed: {quoted_list(refused)}", refused=refused)
        return verdict_score(True, f"it is SQL of {self.options.database}")


def _refused(allowed: list[str], used: list[str]) -> list[str]:
    patterns = [re.compile(f"(?:{one})\\Z", re.IGNORECASE) for one in allowed]
    return [one for one in dict.fromkeys(used) if not any(pattern.match(one) for pattern in patterns)]


def _tables(exp: Any, statements: list[Any]) -> list[str]:
    """Each table as statement::database::table, null where no database is named."""
    within = {one.alias for statement in statements for one in statement.find_all(exp.CTE)}
    return [
        f"{statement.key}::{table.db or 'null'}::{table.name}"
        for statement in statements
        for table in statement.find_all(exp.Table)
        if table.name not in within
    ]


def _columns(exp: Any, statements: list[Any]) -> list[str]:
    """Each column as statement::table::column, null where no table is named; * is (.*)."""
    names = [(one, column.table or "null", column.name) for one in statements for column in one.find_all(exp.Column)]
    stars = [(one, "null", "(.*)") for one in statements if any(isinstance(e, exp.Star) for e in one.expressions)]
    return [f"{statement.key}::{table}::{column}" for statement, table, column in (*names, *stars)]


ALLOW_CODE_VARIABLE = "TUI_EVALS_ALLOW_CODE"
MAX_TEST_BYTES = 1_000_000
MAX_MEMORY = 512_000_000


class PythonUnitTestsOptions(Options):
    """Options of PythonUnitTests."""

    test: str | None = Field(None, description="The test of this item: Python that raises when the answer is wrong.")
    unit_tests: str | list[str] | None = Field(
        None, description="One test, or several; the item's variable `unit_test` selects one."
    )
    unit_test_dir: str | None = Field(
        None, description="A folder of tests inside the project, sorted by file name, picked from in the same way."
    )
    timeout: float = Field(3.0, gt=0, le=600, description="Seconds the answer and its test may take together.")


class PythonUnitTests(Evaluator):
    """Passes when the test of the item runs without an exception after the code of the answer.

    The answer runs first, then the test among its names, in a process that the answer cannot reach; exceptions, exits,
    crashes, too much memory or time are fails, and code that starts other processes fails too. What is compared with
    the test's own data has to be plain data: an object of the answer's classes equals only others of them. A Markdown
    fence around the whole answer is taken off. The
    test is the option `test`, else the one of `unit_tests` or `unit_test_dir` that the item's variable `unit_test`
    names by number (from 1) or by file name, else the text of that variable.

    This runs code a model wrote, so nothing runs until TUI_EVALS_ALLOW_CODE=1 is set. Bubblewrap or Landlock keep it
    from your files, keys, processes and the network; where a machine has neither, the run says "not isolated" before it
    starts, and so does `tui-evals doctor`.
    """

    name = "PythonUnitTests"
    aliases = ("python_unit_testing",)
    family = "Arthur Bench"
    Options = PythonUnitTestsOptions
    example: ClassVar = {
        "options": {"test": "assert double(4) == 8"},
        "response": "def double(number):\n    return 2 * number\n",
    }
    allowed: ClassVar[bool] = False
    root: ClassVar[Path | None] = None

    @classmethod
    def is_allowed(cls) -> bool:
        """Whether the user lets code of models run."""
        return cls.allowed or os.environ.get(ALLOW_CODE_VARIABLE) == "1"

    @classmethod
    def caution(cls) -> str | None:
        """A warning if the code will run without isolation."""
        return sandbox.NOT_ISOLATED if cls.is_allowed() and sandbox.isolation_kind() is None else None

    def obstacle(self) -> str | None:
        """Why it cannot judge: running code is not allowed."""
        if self.is_allowed():
            return None
        return (
            f"{self.name} would run code that a model wrote, on this machine and with your rights; "
            f"set {ALLOW_CODE_VARIABLE}=1 to allow it"
        )

    async def score(self, evidence: Evidence) -> Score:
        """Run the answer and its test, once."""
        if obstacle := self.obstacle():
            return error_score("evaluatorConfigurationError", obstacle)
        test = self._test(evidence)
        files = {"answer.py": strip_code_fence(evidence.response or "").encode("utf-8", "surrogatepass")}
        limits = sandbox.Limits(seconds=self.options.timeout, memory=MAX_MEMORY, processes=0)
        details: dict[str, Any] = {"isolation": "none"} if self.caution() else {}
        try:
            outcome, printed = await sandbox.run_job({"kind": "unit_test", "test": test}, files, limits)
        except sandbox.CodeStopped as stopped:
            details["printed"] = stopped.printed
            return verdict_score(False, f"the code did not finish: {stopped}", **details)
        details["printed"] = printed
        if outcome.get("failed") == "unusable":
            raise Misconfigured(f"the test is not Python: {outcome.get('why')}")
        if outcome.get("passed") is True:
            return verdict_score(True, "the test ran without an exception", **details)
        failure = "the test failed" if outcome.get("failed") == "test" else "the code of the answer does not run"
        return verdict_score(False, f"{failure}: {str(outcome.get('why') or outcome.get('raised'))[:200]}", **details)

    def _test(self, evidence: Evidence) -> str:
        """The test of this item, from the option that has it."""
        options, selector = self.options, evidence.variables.get("unit_test")
        if options.test is not None:
            return str(options.test)
        if options.unit_test_dir is not None:
            tests = self._folder(options.unit_test_dir)
        else:
            listed = options.unit_tests or ()
            tests = {
                str(number): text for number, text in enumerate((listed,) if isinstance(listed, str) else listed, 1)
            }
        if not tests and isinstance(selector, str):
            return selector
        if not tests:
            raise Misconfigured(
                f"{self.name} has no test; give `test`, `unit_tests`, `unit_test_dir` or the variable `unit_test`",
            )
        return _pick_test(tests, selector)

    def _folder(self, path: str) -> dict[str, str]:
        """The tests of a folder by file name; nothing outside the project is read."""
        root = (self.root or Path.cwd()).resolve()
        try:
            folder = (root / path).resolve()
            files = [file for file in sorted(folder.iterdir()) if file.is_file()]
            if not folder.is_relative_to(root):
                raise ValueError(f"{folder} is outside the project {root}")
            return {file.name: read_text(file, root=root, most=MAX_TEST_BYTES) for file in files}
        except RefusedFile as problem:
            raise Misconfigured(f"the tests in unit_test_dir cannot be read: {problem.filename}: {problem}") from None
        except (OSError, ValueError) as problem:
            raise Misconfigured(f"the tests in unit_test_dir cannot be read: {problem}") from None


def _pick_test(tests: dict[str, str], selector: object) -> str:
    """The test an item names by file name or number; the only one needs no name."""
    name = str(selector)
    if selector is None and len(tests) == 1:
        name = next(iter(tests))
    elif name not in tests and name.isdecimal() and 1 <= int(name[:9]) <= len(tests):
        name = list(tests)[int(name[:9]) - 1]
    if name in tests:
        return tests[name]
    problem = "nothing says which is this item's" if selector is None else f"the variable unit_test is {name[:60]!r}"
    raise Misconfigured(
        f"there are {len(tests)} tests and {problem}; set it to a number from 1 to {len(tests)} or a file name",
    )


def strip_code_fence(text: str) -> str:
    """A text without a Markdown code fence around all of it."""
    lines = text.strip().split("\n")
    fenced = len(lines) > 1 and lines[0].startswith("```") and lines[-1].strip() == "```"
    return "\n".join(lines[1:-1]) if fenced else text
