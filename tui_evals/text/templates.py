"""Sandboxed Jinja templates over plain data, metered, and the simpler `{key}` templates."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from traceback import walk_tb
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from jinja2 import Template, nodes
    from jinja2.sandbox import SandboxedEnvironment


MAX_DEPTH = 100
MAX_BITS = 4096  # of a whole number

METER, _PREPAY_LOOP, _WEIGH_VALUE = (
    "the meter",
    "pay for the loop",
    "weigh",
)  # no template can spell a name with a space
_NODES = re.compile(
    "Template|Output|TemplateData|Name|Const|List|Tuple|Dict|Pair|Keyword|Getattr|Getitem|Slice|Filter|Test|"
    "Compare|Operand|And|Or|Not|Neg|Pos|CondExpr|Concat|Add|Sub|Mul|Div|FloorDiv|Mod|Pow|For|If|Assign|With"
)
_TESTS = re.compile("defined|undefined|none|string|number|integer|float|boolean|true|false|mapping|sequence|odd|even")
_LOOP = re.compile("index0?|revindex0?|first|last|length|previtem|nextitem|depth0?")


class TemplateError(ValueError):
    """The template cannot be read or rendered: `problem` says why, `line` where in it (None if unknown)."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(f"line {line} of the template {problem}" if line else f"the template {problem}")
        self.problem = problem
        self.line = line


class Meter:
    """The remaining budget of one rendering: a unit is a node, an element or sixteen characters."""

    __slots__ = ("left", "problem")

    def __init__(self, units: int, problem: str) -> None:
        self.left = units
        self.problem = problem

    def spend(self, units: int) -> None:
        """Take units away, and stop the rendering when none are left."""
        self.left -= units
        if self.left < 0:
            raise TemplateError(self.problem)

    def weigh(self, *values: object) -> None:
        """Count the written size of values against the limit, and refuse what is not plain data."""
        waiting: list[Any] = list(values)
        while waiting:
            value = waiting.pop()
            kind = type(value)
            self.spend(1 + (len(value) >> 4) if kind is str else 1)
            if kind is dict:
                waiting += value.keys()
                waiting += value.values()
            elif kind is list or kind is tuple:
                waiting += value
            elif kind is int and value.bit_length() > MAX_BITS:
                raise TemplateError("meets a number that is too large")
            elif kind not in (str, int, float, bool, type(None)):
                str(value)  # an undefined value raises here, in its own words
                raise TemplateError(f"meets a {kind.__name__}, which is not plain data")


def _list_items(meter: Meter, value: Any) -> list[Any]:
    meter.spend(len(value))
    return list(value)


def _prepay_loop(meter: Meter, value: Any, body: int) -> Any:
    """The values of a loop, after every round of its body was paid in advance."""
    meter.spend(len(value) * body)
    return value


def _replace(meter: Meter, value: object, old: str, new: str) -> str:
    text = str(value)
    meter.spend(text.count(old) * len(new) >> 4)
    return text.replace(old, new)


def _split(meter: Meter, value: object, separator: str | None = None) -> list[str]:
    """The parts of a text between separators, or its words."""
    text = str(value)
    meter.spend(len(text.split(separator)) if separator is None else text.count(separator) + 1)
    return text.split(separator)


def _join(meter: Meter, value: Any, separator: str = "") -> str:
    parts = [str(part) for part in _list_items(meter, value)]
    meter.spend(len(parts) * len(separator) >> 4)
    return separator.join(parts)


def _indent(meter: Meter, value: object, width: int = 4, first: bool = False) -> str:
    pad = " " * min(width, 64)
    lines = str(value).split("\n")
    meter.spend(len(lines) * 5)
    return "\n".join(pad + line if line and (at or first) else line for at, line in enumerate(lines))


def _tojson(meter: Meter, value: object, indent: int = 0) -> str:
    encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, indent=min(indent, 8) or None)
    parts = []
    for part in encoder.iterencode(value):
        meter.spend(1 + (len(part) >> 4))
        parts.append(part)
    return "".join(parts)


def _sort(meter: Meter, value: Any, reverse: bool = False, case_sensitive: bool = False) -> list[Any]:
    """The values in order; texts without regard to case, as Jinja and Nunjucks have it."""
    fold = (lambda part: part) if case_sensitive else (lambda part: part.lower() if isinstance(part, str) else part)
    return sorted(_list_items(meter, value), key=fold, reverse=reverse)


def _truncate(meter: Meter, value: object, length: int = 255, killwords: bool = False, end: str = "...") -> str:
    """The beginning of a long text, up to a space unless words may be cut."""
    text = str(value)
    if len(text) <= length:
        return text
    space = -1 if killwords else text.rfind(" ", 0, length + 1)
    return text[: length if space == -1 else space] + end


def _reverse(meter: Meter, value: Any) -> Any:
    parts = _list_items(meter, value)[::-1]
    return "".join(parts) if isinstance(value, str) else parts


_FILTERS: dict[str, Callable[..., object]] = {
    "abs": lambda meter, value: abs(value),
    "capitalize": lambda meter, value: str(value).capitalize(),
    "first": lambda meter, value: _list_items(meter, value)[0],
    "float": lambda meter, value: float(value),
    "indent": _indent,
    "int": lambda meter, value: int(value),
    "items": lambda meter, value: list(value.items()),
    "join": _join,
    "last": lambda meter, value: _list_items(meter, value)[-1],
    "length": lambda meter, value: len(value),
    "list": _list_items,
    "lower": lambda meter, value: str(value).lower(),
    "max": lambda meter, value: max(_list_items(meter, value)),
    "min": lambda meter, value: min(_list_items(meter, value)),
    "replace": _replace,
    "reverse": _reverse,
    "round": lambda meter, value, precision=0: round(float(value), precision),
    "split": _split,
    "sort": _sort,
    "string": lambda meter, value: str(value),
    "sum": lambda meter, value: sum(_list_items(meter, value)),
    "title": lambda meter, value: " ".join(word.capitalize() for word in str(value).split(" ")),
    "tojson": _tojson,
    "trim": lambda meter, value: str(value).strip(),
    "truncate": _truncate,
    "unique": lambda meter, value: list(dict.fromkeys(_list_items(meter, value))),
    "upper": lambda meter, value: str(value).upper(),
    "urlencode": lambda meter, value: quote(str(value), safe="~()*!.'"),
    "wordcount": lambda meter, value: len(re.findall(r"\w+", str(value))),
    _PREPAY_LOOP: _prepay_loop,
    _WEIGH_VALUE: lambda meter, value: value,
}


def _calculate(meter: Meter, operate: Callable[[Any, Any], object], sign: str, left: Any, right: Any) -> object:
    """One step of arithmetic, which can neither repeat text nor grow a number without limit."""
    meter.weigh(left, right)
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    if not numbers and not (sign == "+" and type(left) is type(right)):
        kinds = f"{type(left).__name__} and {type(right).__name__}"
        raise TemplateError(f"uses {sign} on {kinds}; it takes two numbers, and + also two texts or two lists")
    if sign == "**" and abs(right) > 64:
        raise TemplateError("raises a number to a power above 64")
    result = operate(left, right)
    meter.weigh(result)
    return result


def name_list(names: Iterable[object]) -> str:
    """Names as a list for a sentence; long names and long lists are cut."""
    cut_names = [str(name)[:40] for name in names]
    return ", ".join(cut_names[:12] + ["…"] * (len(cut_names) > 12)) or "none"


def _lookup(environment: Any, container: Any, key: Any) -> Any:
    """A key of a dict or a position of a list or text, and nothing of Python's own."""
    from jinja2.runtime import LoopContext, Undefined

    if isinstance(container, Undefined) or isinstance(key, Undefined):
        return str(container) + str(key)  # one of them raises in its own words
    if isinstance(container, LoopContext) and _LOOP.fullmatch(key):
        return getattr(container, key)
    if type(container) in (dict, list, tuple, str):
        try:
            return container[key]
        except (TypeError, LookupError):
            pass
    names_hint = f"; it has {name_list(container)}" if isinstance(container, dict) else ""
    key_text = repr(str(key)[:40])
    return environment.undefined(f"asks for {key_text} of a {type(container).__name__} without it{names_hint}")


def _metered(function: Callable[..., object]) -> Callable[..., object]:
    def run(context: Any, value: Any, *args: Any, **options: Any) -> object:
        context[METER].weigh(value, *args, *options.values())
        result = function(context[METER], value, *args, **options)
        context[METER].weigh(result)
        return result

    return run


@lru_cache(maxsize=1)
def template_environment() -> SandboxedEnvironment:
    """The environment of all templates, made on first use because Jinja takes its time to import."""
    from jinja2 import StrictUndefined, pass_context
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Missing(StrictUndefined):
        __slots__ = ()

        def __init__(self, hint: str | None = None, **rest: Any) -> None:
            super().__init__(hint or f"uses {{{{ {rest.get('name')} }}}}, which has no value", **rest)

    class Box(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            return _calculate(context[METER], self.binop_table[operator], operator, left, right)

        def getitem(self, obj: Any, argument: Any) -> Any:
            return _lookup(self, obj, argument)

        def getattr(self, obj: Any, attribute: str) -> Any:
            return _lookup(self, obj, attribute)

    environment = Box(undefined=Missing, autoescape=False, optimized=False, keep_trailing_newline=True)
    environment.finalize = pass_context(_metered(lambda meter, value: str(value)))
    environment.globals.clear()
    default = environment.filters["default"]  # Jinja's own, which alone may touch an undefined value
    environment.filters = {name: pass_context(_metered(function)) for name, function in _FILTERS.items()}
    environment.filters |= {"default": default, "d": default}
    environment.tests = {name: test for name, test in environment.tests.items() if _TESTS.fullmatch(name)}
    return environment


def check_node(node: nodes.Node, depth: int) -> None:
    """Refuse every node, filter and test that is not on the lists."""
    kind = type(node).__name__
    if not _NODES.fullmatch(kind):
        raise TemplateError(
            f"uses {kind!r}; calls, macros, blocks, imports and the like are not available", node.lineno
        )
    known: dict[str, Any] = {"Filter": template_environment().filters, "Test": template_environment().tests}.get(
        kind, {}
    )
    name = getattr(node, "name", None)
    if known and name not in known:
        available = ", ".join(sorted(known.keys() - {_PREPAY_LOOP, _WEIGH_VALUE}))
        raise TemplateError(f"uses the {kind.lower()} {name!r}; there are only {available}", node.lineno)
    if depth > MAX_DEPTH:
        raise TemplateError("is nested too deeply", node.lineno)


def charge_node(node: nodes.Node) -> None:
    """Wrap what costs time or memory in filters of ours, so that the meter counts it."""
    from jinja2 import nodes as jinja

    def metered(part: Any, name: str = _WEIGH_VALUE, *args: jinja.Expr) -> jinja.Expr:
        return jinja.Filter(part, name, list(args), [], None, None, lineno=part.lineno)

    if isinstance(node, jinja.For):
        node.iter = metered(node.iter, _PREPAY_LOOP, jinja.Const(sum(1 for _ in node.find_all(jinja.Node))))
    elif isinstance(node, jinja.Compare):
        node.expr = metered(node.expr)
        for operand in node.ops:
            operand.expr = metered(operand.expr)
    elif isinstance(node, jinja.Concat):
        node.nodes = [metered(part) for part in node.nodes]
    elif isinstance(node, jinja.Getitem) and isinstance(node.arg, jinja.Slice):
        node.node = metered(node.node)


MAX_TEMPLATE = 64 * 1024  # characters
MAX_OUTPUT = 1_000_000  # characters
MAX_TOKENS = 16_000
MAX_WORK = 500_000  # units of the meter
MAX_VALUES = 1_000_000  # units of the meter

_BRACES = re.compile(r"\{\{|\}\}|\{([^\W\d][\w-]*)\}|[{}]")


@contextmanager
def _as_template_errors() -> Iterator[None]:
    from jinja2 import TemplateSyntaxError

    try:
        yield
    except TemplateError:
        raise
    except TemplateSyntaxError as error:
        raise TemplateError(f"is not valid: {error.message}", error.lineno) from None
    except (SyntaxError, RecursionError, MemoryError):  # how Python's compiler says there are too many blocks
        raise TemplateError("is nested too deeply") from None
    except ValueError:
        raise TemplateError("is not valid: it holds a number of too many digits") from None


def _parse(template: str) -> tuple[nodes.Template, dict[str, int]]:
    """The checked and metered syntax tree, and the token at which each name first appears."""
    if len(template) > MAX_TEMPLATE:
        raise TemplateError(f"is longer than {MAX_TEMPLATE:,} characters")
    names: dict[str, int] = {}
    previous = ""
    for count, (line, kind, text) in enumerate(template_environment().lex(template)):
        if count > MAX_TOKENS:
            raise TemplateError(f"is made of more than {MAX_TOKENS:,} pieces", line)
        if kind == "name" and previous not in (".", "|"):
            names.setdefault(text, count)
        previous = previous if kind == "whitespace" else text
    tree = template_environment().parse(template)
    waiting: list[tuple[nodes.Node, int]] = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        check_node(node, depth)
        waiting += [(child, depth + 1) for child in node.iter_child_nodes()][::-1]
        charge_node(node)
    tree.set_environment(template_environment())
    return tree, names


@lru_cache(maxsize=64)
def _compile(template: str) -> Template:
    with _as_template_errors():
        return template_environment().from_string(_parse(template)[0])


@lru_cache(maxsize=64)
def template_variables(template: str) -> tuple[str, ...]:
    """The names a Jinja template expects to be given, in the order they first appear."""
    from jinja2.meta import find_undeclared_variables

    with _as_template_errors():
        tree, names = _parse(template)
        return tuple(sorted(find_undeclared_variables(tree), key=names.__getitem__))


@lru_cache(maxsize=64)
def plain_variables(template: str) -> tuple[str, ...] | None:
    """The names in a template of only text and names; None if the needed names depend on values."""
    from jinja2 import nodes

    needed = template_variables(template)
    tree = template_environment().parse(template)
    kinds = (nodes.Output, nodes.TemplateData, nodes.Name)
    return needed if all(isinstance(node, kinds) for node in tree.find_all(nodes.Node)) else None


def _render_error(error: Exception, compiled: Template, values: Mapping[str, object]) -> TemplateError:
    from jinja2 import UndefinedError

    template_lines = [
        line for frame, line in walk_tb(error.__traceback__) if frame.f_code.co_filename == compiled.filename
    ]
    line = compiled.get_corresponding_lineno(template_lines[-1]) if template_lines else None
    if isinstance(error, TemplateError):
        return TemplateError(error.problem, line)
    if not isinstance(error, UndefinedError):
        return TemplateError(f"cannot be computed: {str(error) or type(error).__name__}", line)
    problem = str(error)
    return TemplateError(problem + (f"; known: {name_list(values)}" if problem.endswith("no value") else ""), line)


def render_template(template: str, values: Mapping[str, object]) -> str:
    """A Jinja template filled with plain data, within fixed limits of size and work."""
    Meter(MAX_VALUES, "is given more data than a prompt can hold").weigh(*values.values())
    compiled = _compile(template)
    meter = Meter(MAX_WORK, "takes too much work to render; loop over less, or shorten the values")
    pieces, room = [], MAX_OUTPUT
    try:
        for piece in compiled.root_render_func(compiled.new_context({**values, METER: meter})):
            pieces.append(piece)
            room -= len(piece)
            if room < 0:
                raise TemplateError(f"renders to more than {MAX_OUTPUT:,} characters")
    except Exception as error:  # any exception in a template's computation is an error of the template
        raise _render_error(error, compiled, values) from None
    return "".join(pieces)


@lru_cache(maxsize=256)
def expression_names(expression: str) -> tuple[str, ...]:
    """The names an expression uses, in their order; TemplateError for one that cannot be used, or is more than one."""
    from jinja2 import nodes

    template = _as_template(expression)
    names = template_variables(template)
    body = template_environment().parse(template).body
    only = body[0].nodes if len(body) == 1 and isinstance(body[0], nodes.Output) else []
    if len(only) != 1 or not isinstance(only[0], nodes.Filter) or only[0].name != "tojson":
        raise TemplateError("is not valid: it must be a single expression, without {{, }} and {%")
    return names


def evaluate_expression(expression: str, values: Mapping[str, object]) -> object:
    """The value of an expression of the template language for plain data, within the limits of a template."""
    expression_names(expression)
    return json.loads(render_template(_as_template(expression), values))


def _as_template(expression: str) -> str:
    """The expression as a template that writes its value as JSON."""
    return f"{{{{ ({expression}) | tojson }}}}"


def template_fields(template: str) -> tuple[str, ...]:
    """The names of the `{key}` fields of a template, in the order they first appear."""
    return tuple(dict.fromkeys(match[1] for match in _BRACES.finditer(template) if match[1]))


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """A `{key}` template with its fields replaced in one pass, so that braces in values are unchanged.

    Doubled braces become single ones, as in `str.format`, unless the template also has a single brace outside a field,
    as in JSON: then every brace outside the fields is unchanged.
    """
    if len(template) > MAX_TEMPLATE:
        raise TemplateError(f"is longer than {MAX_TEMPLATE:,} characters")
    needed = template_fields(template)
    missing = [name for name in needed if name not in values]
    if missing:
        raise TemplateError(f"needs {name_list(needed)}; given: {name_list(values)}; missing: {name_list(missing)}")
    braces = list(_BRACES.finditer(template))
    if len(template) + sum(len(values[match[1]]) for match in braces if match[1]) > MAX_OUTPUT:
        raise TemplateError(f"fills to more than {MAX_OUTPUT:,} characters")
    brace_width = 2 if any(match[0] in "{}" for match in braces) else 1
    return _BRACES.sub(lambda match: values[match[1]] if match[1] else match[0][:brace_width], template)
