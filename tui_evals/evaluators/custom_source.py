"""Checks the source of a custom evaluator without running it: whether it can be called at all."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import lru_cache

from tui_evals.text.names import did_you_mean

ARGUMENTS = (
    *("response", "expected", "references", "prompt", "context", "history", "variables", "tool_calls", "diagnostics"),
    "chunks",
    *("latency_ms", "cost", "tokens", "threshold", "options"),
    *("expected_response", "output", "answer", "reference", "input"),
)
"""The names of arguments for a function `score`."""
_MADE_WITH = ("threshold", "options")
_CALLED_WITH = ("prompt", "response", "expected_response", "context")
_JUDGE = "model_config"
Fault = tuple[int, str]
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@lru_cache(maxsize=256)
def source_fault(source: bytes, *, judged: bool) -> Fault | None:
    """The line and message of an error in the source of a custom evaluator; None if none is found."""
    try:
        tree = ast.parse(source)
    except SyntaxError as problem:
        return problem.lineno or 1, f"this is not valid Python: {problem.msg}"
    except (ValueError, RecursionError, MemoryError) as problem:
        return 1, f"this is not valid Python: {str(problem) or 'it is nested too deeply'}"
    statements = list(_top_level(tree.body))
    classes = [each for each in statements if isinstance(each, ast.ClassDef)]
    called = next((each for each in classes if each.bases or each.decorator_list or _method(each, "__call__")), None)
    if called is not None and _method(called, "__call__"):
        return _class_fault(called, judged)
    function = next((each for each in statements if isinstance(each, _Function) and each.name == "score"), None)
    if function is not None:
        return _function_fault(function, judged)
    if called is not None or any(_binds_score(each) for each in statements):
        return None
    if classes:
        first = classes[0]
        return first.lineno, f"class {first.name} has no __call__: give it one, or write a function score instead"
    near = [each.name for each in statements if isinstance(each, _Function)]
    hint = f"; it has {', '.join(near[:3])}" if near else ""
    return (
        1,
        f"there is neither a function score nor a class at the top level{hint}: write def score(response, expected)",
    )


@lru_cache(maxsize=256)
def declared_value(source: bytes, name: str) -> object:
    """The plain data written to a name at the top level, or in a class there; ValueError where it is none."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # said as a fault
        return None
    statements = list(_top_level(tree.body))
    statements += [each for kind in statements if isinstance(kind, ast.ClassDef) for each in kind.body]
    for each in statements:
        targets = each.targets if isinstance(each, ast.Assign) else [getattr(each, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets) and hasattr(each, "value"):
            try:
                return ast.literal_eval(each.value)
            except (ValueError, TypeError, RecursionError):
                raise ValueError(f"{name} has to be plain data: it is read without running the file") from None
    return None


def _top_level(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, those within its conditions and attempts too."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try | ast.With):
            for part in ("body", "orelse", "finalbody"):
                yield from _top_level(getattr(statement, part, ()))
            for handler in getattr(statement, "handlers", ()):
                yield from _top_level(handler.body)


def _binds_score(statement: ast.stmt) -> bool:
    """Whether a statement may give something to the name `score`, or to any."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return any((each.asname or each.name) in ("score", "*") for each in statement.names)
    return any(isinstance(each, ast.Name) and each.id == "score" for each in ast.walk(statement))


def _method(kind: ast.ClassDef, name: str) -> _Function | None:
    return next((each for each in kind.body if isinstance(each, _Function) and each.name == name), None)


def _function_fault(function: _Function, judged: bool) -> Fault | None:
    """The error of a parameter that has no default and no known name; parameters with a default are options."""
    if function.decorator_list:
        return None
    known = (*ARGUMENTS, *([_JUDGE] if judged else ()))
    for name in _required(function.args):
        if name not in known:
            hint = did_you_mean(name, known)
            names = "" if hint else f"; known are {', '.join(known)}"
            reason = (
                f"score asks for {name!r}, which is not known{hint}{names}; an option of the dataset needs a default"
            )
            return function.lineno, reason
    return None


def _class_fault(kind: ast.ClassDef, judged: bool) -> Fault | None:
    """An argument of the class that it is called with but does not take, or needs but does not get."""
    if kind.bases or kind.decorator_list:
        return None
    made_with = (*_MADE_WITH, *([_JUDGE] if judged else ()))
    for name, given in (("__init__", made_with), ("__call__", _CALLED_WITH)):
        method = _method(kind, name)
        if method is None and name == "__init__":
            return (
                kind.lineno,
                f"class {kind.name} needs __init__(self, *, {', '.join(given)}), as it is made with them",
            )
        if method is None or method.decorator_list:
            continue
        taken, wants = _taken(method.args), list(_required(method.args))[1:]
        if extra := [each for each in wants if each not in given]:
            hint = did_you_mean(extra[0], given)
            return method.lineno, f"{kind.name}.{name} asks for {extra[0]!r}, which it is not given{hint}"
        if method.args.kwarg is None and (lacking := [each for each in given if each not in taken]):
            return method.lineno, f"{kind.name}.{name} takes no {lacking[0]!r}, which it is given: add it, or **others"
    return None


def _taken(arguments: ast.arguments) -> set[str]:
    """The parameters that may be given by name."""
    return {each.arg for each in (*arguments.args, *arguments.kwonlyargs)}


def _required(arguments: ast.arguments) -> Iterator[str]:
    """The parameters without a default, in their order."""
    plain = [*arguments.posonlyargs, *arguments.args]
    yield from (each.arg for each in plain[: len(plain) - len(arguments.defaults)])
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is None:
            yield each.arg
