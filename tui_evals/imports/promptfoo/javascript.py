"""JavaScript of promptfoo's assertions as an `Expression` or a `Regex`, as far as they say the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from tui_evals.text import strictjson
from tui_evals.text.patterns import PatternError, compile_pattern

from .transforms import Seen

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_LONGEST = 10_000
_DEEPEST = 50
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*")
_ESCAPE = re.compile(r"\\(u\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|\r?\n|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_COMPARED = {"===": "==", "!==": "!=", "<": "<", ">": ">", "<=": "<=", ">=": ">="}
_LOOSE = {"==": "==", "!=": "!="}
_ON_TEXT = {"toLowerCase": "lower", "toUpperCase": "upper", "trim": "trim"}
_FLAGS = {"i": "(?i)", "s": "(?s)", "m": "(?m)", "g": "", "u": "", "y": None, "d": None, "v": None}
_CHOICE = ("condition", "consequence", "alternative")
_RESERVED = frozenset(("and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "True", "False", "None"))

Kind = Literal["text", "number", "truth", "data", "nothing"]


class NotTranslated(Exception):
    """The code does something that no expression here does; the message names it."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of code as our expression, and what kind of value it is; `data` may be anything that JSON can hold."""

    written: str
    kind: Kind
    literal: Any = None

    @property
    def is_literal(self) -> bool:
        return self.literal is not None


@dataclass(frozen=True, slots=True)
class Translated:
    """The evaluator that judges as the code does, and in what respects it differs."""

    name: str
    options: Mapping[str, Any]
    differs: tuple[str, ...] = ()


def translated(code: str, seen: Seen) -> Translated:
    """What stands for code that is true of good answers; NotTranslated says why nothing does.

    As promptfoo has it, code of several lines returns what it finds, and code of one line is what it finds.
    """
    if len(code) > _LONGEST:
        raise NotTranslated("it is long")
    source = code.strip()
    tree = _parser().parse(source.encode())
    if tree.root_node.has_error or seen.code:
        raise NotTranslated("it cannot be read as JavaScript" if tree.root_node.has_error else "a transform feeds it")
    return _Translation(seen).of_program(tree.root_node, returns="\n" in source)


@lru_cache(maxsize=1)
def _parser() -> Parser:
    import tree_sitter_javascript
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_javascript.language()))


class _Translation:
    """One piece of code: the names it has given to values, and what it means otherwise here."""

    def __init__(self, seen: Seen) -> None:
        self._names: dict[str, _Part] = {"output": _output(seen)}
        self._path = seen.path
        self._differs: dict[str, None] = {}

    def of_program(self, program: Node, *, returns: bool) -> Translated:
        *before, last = [node for node in program.named_children if node.type != "comment"] or [program]
        for node in before:
            self._declare(node)
        inner = last.named_children
        if last.type == ("return_statement" if returns else "expression_statement") and len(inner) == 1:
            return self._judging(_inside(inner[0]))
        raise NotTranslated(f"it has {_said(last)}")

    def _declare(self, node: Node) -> None:
        if node.type not in ("lexical_declaration", "variable_declaration"):
            raise NotTranslated(f"it has {_said(node)}")
        for one in node.named_children:
            name, value = one.child_by_field_name("name"), one.child_by_field_name("value")
            if name is None or value is None or name.type != "identifier":
                raise NotTranslated(f"it has {_said(node)}")
            self._names[_text(name)] = self._part(value)

    def _judging(self, node: Node) -> Translated:
        negate = False
        while node.type == "unary_expression" and _text(node).startswith("!"):
            negate, node = not negate, _inside(node.named_children[0])
        if (found := self._pattern(node)) is not None:
            options: dict[str, Any] = {"pattern": found}
            if self._path:
                options["json_path"] = self._path
            return Translated("Regex", {**options, "negate": True} if negate else options, tuple(self._differs))
        part = self._part(node)
        if part.kind != "truth":
            raise NotTranslated("what it returns is neither true nor false")
        expression = f"not {part.written}" if negate else _without_brackets(part.written)
        return Translated("Expression", {"expression": expression}, tuple(self._differs))

    def _pattern(self, node: Node) -> str | None:
        """The pattern, where the code is a search of the whole answer and nothing else."""
        if node.type != "call_expression":
            return None
        called, arguments = _call(node)
        if called.type != "member_expression" or len(arguments) != 1:
            return None
        owner, method = _owner_and_property(called)
        regex, answer = (owner, arguments[0]) if method == "test" else (arguments[0], owner)
        if method not in ("test", "match") or regex.type != "regex" or answer.type != "identifier":
            return None
        if self._names.get(_text(answer)) != self._names["output"] or self._names["output"].kind == "truth":
            return None
        pattern, flags = regex.child_by_field_name("pattern"), regex.child_by_field_name("flags")
        signs = [_FLAGS.get(flag) for flag in (_text(flags) if flags is not None else "")]
        if pattern is None or None in signs:
            raise NotTranslated("it searches with flags that have no equal")
        found = "".join(sign or "" for sign in signs) + _text(pattern).replace("\\/", "/")
        try:
            compile_pattern(found)
        except PatternError as problem:
            raise NotTranslated(str(problem)) from None
        return found

    def _part(self, node: Node, depth: int = 0) -> _Part:
        if depth > _DEEPEST:
            raise NotTranslated("it is nested deeply")
        read = _READERS.get(node.type)
        if read is None:
            raise NotTranslated(f"it has {_said(node)}")
        return read(self, node, depth + 1)

    def _identifier(self, node: Node, depth: int) -> _Part:
        name = _text(node)
        if name in self._names:
            return self._names[name]
        raise NotTranslated(f"it uses {name}")

    def _brackets(self, node: Node, depth: int) -> _Part:
        return self._part(node.named_children[0], depth)

    def _string(self, node: Node, depth: int) -> _Part:
        if any(child.type == "template_substitution" for child in node.named_children):
            raise NotTranslated("it fills a text")
        text = _ESCAPE.sub(_unescaped, _text(node)[1:-1])
        return _Part(_quoted(text), "text", text)

    def _number(self, node: Node, depth: int) -> _Part:
        try:
            value = float(_text(node))
        except ValueError:
            raise NotTranslated("it has a number in another notation") from None
        written = str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
        return _Part(written, "number", value)

    def _truth(self, node: Node, depth: int) -> _Part:
        return _Part(_text(node), "truth", _text(node))

    def _null(self, node: Node, depth: int) -> _Part:
        return _Part("none", "nothing", "null")

    def _unary(self, node: Node, depth: int) -> _Part:
        operator, operand = _text(node.children[0]), self._part(node.named_children[0], depth)
        if operator == "!" and operand.kind == "truth":
            return _Part(f"(not {operand.written})", "truth")
        if operator == "-" and operand.kind == "number":
            return _Part(f"(-{operand.written})", "number", operand.literal and -operand.literal)
        raise NotTranslated(f"it has {operator} before what is no {'truth' if operator == '!' else 'number'}")

    def _binary(self, node: Node, depth: int) -> _Part:
        operator = _text(node.child_by_field_name("operator"))
        left, right = (self._part(_field(node, side), depth) for side in ("left", "right"))
        if operator in ("&&", "||") and left.kind == right.kind == "truth":
            return _Part(f"({left.written} {'and' if operator == '&&' else 'or'} {right.written})", "truth")
        if operator in _LOOSE and {left.kind, right.kind} == {"text", "data"}:
            self._differs["a number does not equal the text that spells it"] = None
        elif operator in _LOOSE and (left.kind != right.kind or left.kind == "data"):
            raise NotTranslated(f"it has {operator} between values that may be of several kinds")
        if operator in _COMPARED or operator in _LOOSE:
            return self._compared({**_COMPARED, **_LOOSE}[operator], left, right)
        if operator in ("+", "-", "*", "/", "%") and left.kind == right.kind == "number":
            return _Part(f"({left.written} {operator} {right.written})", "number")
        raise NotTranslated(f"it has {operator} between values that may be of several kinds")

    def _compared(self, operator: str, left: _Part, right: _Part) -> _Part:
        if operator not in ("==", "!="):
            kinds = {left.kind, right.kind}
            if not kinds <= {"number", "data"} or kinds == {"data"}:
                raise NotTranslated(f"it compares by {operator} what may be no numbers")
        if {left.kind, right.kind} == {"truth", "data"}:  # 1 equals true here, so it is asked which it is
            truth, data = (left, right) if left.kind == "truth" else (right, left)
            if truth.literal is None:
                raise NotTranslated("it compares truths that are computed")
            return _Part(f"({data.written} is {'not ' if operator == '!=' else ''}{truth.written})", "truth")
        return _Part(f"({left.written} {operator} {right.written})", "truth")

    def _choice(self, node: Node, depth: int) -> _Part:
        condition, then, other = (self._part(_field(node, part), depth) for part in _CHOICE)
        if condition.kind != "truth":
            raise NotTranslated("it chooses by what is neither true nor false")
        if (then.literal, other.literal) in (("true", "false"), (1.0, 0.0)):
            return condition
        if (then.literal, other.literal) in (("false", "true"), (0.0, 1.0)):
            return _Part(f"(not {condition.written})", "truth")
        if then.kind == other.kind == "truth":
            return _Part(f"({then.written} if {condition.written} else {other.written})", "truth")
        raise NotTranslated("it chooses between values")

    def _member(self, node: Node, depth: int) -> _Part:
        owner, name = _owner_and_property(node)
        if (owner.type == "member_expression" and _text(owner) == "context.vars") or _text(owner) == "vars":
            return _Part(_step("variables", name), "data")
        if _text(owner) == "context" and name == "vars":
            return _Part("variables", "data")
        value = self._part(owner, depth)
        if name == "length" and value.kind in ("text", "data"):
            if value.kind == "text":
                self._differs["a sign beyond the first 65,536 counts as one, not as two"] = None
            return _Part(f"({value.written} | length)", "number")
        if value.kind == "data":
            return _Part(_step(value.written, name), "data")
        if value == self._names["output"] and value.written == "response":
            self._differs["the answer is read as JSON"] = None
            return _Part(_step("json", name), "data")
        raise NotTranslated(f"it uses .{name} of a {value.kind}")

    def _subscript(self, node: Node, depth: int) -> _Part:
        value, index = self._part(_field(node, "object"), depth), self._part(_field(node, "index"), depth)
        if value.kind != "data" or not index.is_literal or index.kind not in ("text", "number"):
            raise NotTranslated("it reaches into what is no JSON")
        written = index.written if index.kind == "number" else _quoted(str(index.literal))
        return _Part(f"{value.written}[{written}]", "data")

    def _call_expression(self, node: Node, depth: int) -> _Part:
        called, arguments = _call(node)
        if _text(called) == "JSON.parse" and len(arguments) == 1:
            return self._parsed(self._part(arguments[0], depth))
        if _text(called) == "Boolean" and len(arguments) == 1:
            return self._part(arguments[0], depth)
        if called.type != "member_expression":
            raise NotTranslated(f"it calls {_text(called)[:40]}")
        owner, method = _owner_and_property(called)
        value = self._part(owner, depth)
        given = [self._part(argument, depth) for argument in arguments]
        if method in _ON_TEXT and not given and value.kind in ("text", "data"):
            return _Part(f"({value.written} | {_ON_TEXT[method]})", "text")
        if method == "includes" and len(given) == 1 and value.kind in ("text", "data"):
            return _Part(f"({given[0].written} in {value.written})", "truth")
        if method in ("startsWith", "endsWith") and len(given) == 1 and isinstance(given[0].literal, str):
            size = len(given[0].literal)
            part = f"[:{size}]" if method == "startsWith" else f"[-{size}:]"
            if size and value.kind in ("text", "data"):
                return _Part(f"({value.written}{part} == {given[0].written})", "truth")
        raise NotTranslated(f"it calls .{method}()")

    def _parsed(self, value: _Part) -> _Part:
        if value.written in ("response", "(response | trim)"):
            return _Part("json", "data")
        if value.kind == "data" and value == self._names["output"]:
            raise NotTranslated("it parses what a transform has parsed")
        raise NotTranslated("it parses something else than the answer")


_READERS: Mapping[str, Callable[[_Translation, Node, int], _Part]] = {
    "identifier": _Translation._identifier,
    "parenthesized_expression": _Translation._brackets,
    "string": _Translation._string,
    "template_string": _Translation._string,
    "number": _Translation._number,
    "true": _Translation._truth,
    "false": _Translation._truth,
    "null": _Translation._null,
    "unary_expression": _Translation._unary,
    "binary_expression": _Translation._binary,
    "ternary_expression": _Translation._choice,
    "member_expression": _Translation._member,
    "subscript_expression": _Translation._subscript,
    "call_expression": _Translation._call_expression,
}


def _output(seen: Seen) -> _Part:
    """The variable `output`: the answer, or what is at the path that a transform points at."""
    if seen.path is None:
        return _Part("(response | trim)" if seen.trimmed else "response", "text")
    written = "json" + seen.path.removeprefix("$")
    return _Part(f"({written} | trim)" if seen.trimmed else written, "data")


def _inside(node: Node) -> Node:
    while node.type == "parenthesized_expression" and len(node.named_children) == 1:
        node = node.named_children[0]
    return node


def _text(node: Node | None) -> str:
    return "" if node is None or node.text is None else node.text.decode()


def _field(node: Node, name: str) -> Node:
    child = node.child_by_field_name(name)
    if child is None:
        raise NotTranslated(f"it has {_said(node)}")
    return child


def _call(node: Node) -> tuple[Node, Sequence[Node]]:
    return _field(node, "function"), _field(node, "arguments").named_children


def _owner_and_property(node: Node) -> tuple[Node, str]:
    return _field(node, "object"), _text(_field(node, "property"))


def _step(written: str, name: str) -> str:
    plain = _PLAIN_NAME.fullmatch(name) and name not in _RESERVED
    return f"{written}.{name}" if plain else f"{written}[{_quoted(name)}]"


def _quoted(text: str) -> str:
    return "'" + strictjson.dumps(text)[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"


def _unescaped(found: re.Match[str]) -> str:
    for digits in found.groups()[1:]:
        if digits:
            return chr(int(digits, 16))
    sign = found[1]
    return "" if sign in ("\n", "\r\n") else _ESCAPED.get(sign, sign)


def _without_brackets(written: str) -> str:
    """An expression without the brackets around the whole of it."""
    if not (written.startswith("(") and written.endswith(")")):
        return written
    depth = 0
    for at, sign in _signs(written):
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if depth == 0 and at < len(written) - 1:
            return written
    return written[1:-1]


def _signs(written: str) -> Iterator[tuple[int, str]]:
    """The signs of an expression that stand outside its texts."""
    inside, skip = False, False
    for at, sign in enumerate(written):
        if skip:
            skip = False
        elif inside and sign == "\\":
            skip = True
        elif sign == "'":
            inside = not inside
        elif not inside:
            yield at, sign


def _said(node: Node) -> str:
    return {"arrow_function": "a function", "if_statement": "an if"}.get(node.type, node.type.replace("_", " "))
