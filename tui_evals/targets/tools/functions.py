"""Python functions of the project as tools: every public function of a file, its parameters read from its types."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NotRequired, get_type_hints

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python
from typing_extensions import TypedDict

from tui_evals.interpreter import import_from_project
from tui_evals.targets.answers import one_line
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.calling import in_thread
from tui_evals.targets.function import raised_error

from .source import ToolOutcome, function_definition

_typed_dict: Any = TypedDict
"""By a name of no type, because its fields are known at run time only."""


@dataclass(frozen=True, slots=True)
class _Tool:
    """A function with what it takes."""

    function: Callable[..., Any]
    definition: Mapping[str, Any]
    arguments: TypeAdapter[Any]


class FunctionTools:
    """Calls functions of a file; the file is imported when it is wanted for the first time."""

    def __init__(self, file: str, root: Path) -> None:
        self.name = file
        self._root = root
        self._tools: dict[str, _Tool] | None = None

    async def definitions(self) -> tuple[Mapping[str, Any], ...]:
        """The functions as tools."""
        return tuple(tool.definition for tool in self._loaded().values())

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        """What a function returns; what it raises, and arguments that it does not take, are for the model to read."""
        tool = self._loaded()[name]
        try:
            taken = tool.arguments.validate_python(dict(arguments))
        except ValidationError as problem:
            return ToolOutcome(f"{name} does not take these arguments: {_faults(problem)}", failed=True)
        try:
            if inspect.iscoroutinefunction(tool.function):
                value = await tool.function(**taken)
            else:
                value = await in_thread(lambda: tool.function(**taken))
                if inspect.isawaitable(value):
                    value = await value
            return ToolOutcome(value if isinstance(value, str) else _json(value))
        except (Exception, SystemExit) as problem:  # whatever the user's code raises is the outcome of this call
            raised = raised_error(name, problem)
            return ToolOutcome(str(raised), failed=True, traceback=raised.traceback)

    async def close(self) -> None:
        """Nothing is held."""

    def _loaded(self) -> dict[str, _Tool]:
        if self._tools is None:
            self._tools = _tools_of(self._import(), self.name)
        return self._tools

    def _import(self) -> ModuleType:
        name = module_name(self.name)
        try:
            return import_from_project(name, self._root)
        except (Exception, SystemExit) as problem:  # a module of the user's may raise anything while it is imported
            raised = one_line(f"{type(problem).__name__}: {problem}")
            raise ConfigurationError(
                f"the tools in {self.name} cannot be imported from {self._root} ({raised})"
            ) from None


def module_name(file: str) -> str:
    """The module of a file below the project's folder, or of a name that is a module's already."""
    name = file.removeprefix("./").removesuffix(".py").replace("/", ".") if file.endswith(".py") else file
    if not all(part.isidentifier() for part in name.split(".")):
        raise ConfigurationError(f"{file} is no Python file below the project's folder; write it as in tools.py")
    return name


def _tools_of(module: ModuleType, file: str) -> dict[str, _Tool]:
    names = getattr(module, "__all__", None)
    if names is None:
        names = [
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and inspect.isfunction(value) and value.__module__ == module.__name__
        ]
    if not names:
        raise ConfigurationError(f"{file} has no public function, so it gives no tool")
    return {name: _tool(name, getattr(module, name, None), file) for name in names}


def _tool(name: str, function: Any, file: str) -> _Tool:
    if not callable(function):
        raise ConfigurationError(f"{name} in {file} is not a function, so it is no tool")
    arguments: dict[str, Any] = {}
    extra = False
    try:
        types = get_type_hints(function, include_extras=True)
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                extra = True
            elif parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                given = types.get(parameter.name, Any)
                optional = parameter.default is not parameter.empty
                arguments[parameter.name] = NotRequired[given] if optional else given
            else:
                raise TypeError(f"its parameter {parameter.name} cannot be given by name")
        shape = _typed_dict("Arguments", arguments)
        shape.__pydantic_config__ = ConfigDict(extra="allow" if extra else "forbid")
        adapter: TypeAdapter[Any] = TypeAdapter(shape)
        schema = adapter.json_schema()
    except (PydanticUserError, TypeError, ValueError, NameError) as problem:
        raise ConfigurationError(f"{name} in {file} cannot be a tool: {one_line(str(problem))}") from None
    schema.pop("title", None)
    return _Tool(function, function_definition(name, inspect.getdoc(function) or "", schema), adapter)


def _faults(problem: ValidationError) -> str:
    faults = problem.errors(include_url=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, fault['loc'])) or 'they'}: {fault['msg']}" for fault in faults)


def _json(value: object) -> str:
    return json.dumps(to_jsonable_python(value, fallback=str), ensure_ascii=False)
