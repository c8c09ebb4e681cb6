"""Sandboxed Jinja templates over plain data, and the simpler `{key}` templates."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from traceback import walk_tb
from typing import TYPE_CHECKING

from .box import METER, Meter, TemplateError, charge_node, check_node, name_list, template_environment

if TYPE_CHECKING:
    from jinja2 import Template, nodes

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
    """The names that a template of text and names alone needs; None where what it needs depends on the values."""
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
    except Exception as error:  # whatever a template's computation raises is an error of the template
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
    """What an expression of the template language gives over plain data, within the limits of a template."""
    expression_names(expression)
    return json.loads(render_template(_as_template(expression), values))


def _as_template(expression: str) -> str:
    """The expression as a template that writes its value as JSON."""
    return f"{{{{ ({expression}) | tojson }}}}"


def template_fields(template: str) -> tuple[str, ...]:
    """The names of the `{key}` fields of a template, in the order they first appear."""
    return tuple(dict.fromkeys(match[1] for match in _BRACES.finditer(template) if match[1]))


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """A `{key}` template with its fields replaced in one pass, so that braces in values stay as they are.

    Doubled braces become single ones, as in `str.format`, unless the template also holds a single brace that
    belongs to no field (JSON, say): then every brace outside the fields stays as it stands.
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
