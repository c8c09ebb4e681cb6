"""Tools that the engine calls for an agent: public functions of a Python file, and MCP servers.

The official SDK starts an MCP server, or connects to it, for the first call. A separate task holds the connection for
all conversations of a run. A server that stopped is started again for the next answer.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NotRequired, Protocol, get_type_hints

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python
from typing_extensions import TypedDict

from tui_evals.interpreter import import_from_project
from tui_evals.light_records import dataclass
from tui_evals.sealed_imports import NotAgreed, held_to
from tui_evals.targets.answers import one_line
from tui_evals.targets.base import ConfigurationError, TargetError, ToolSettings
from tui_evals.targets.function import raised_error
from tui_evals.targets.permissions import agreed_code, tool_permissions
from tui_evals.targets.sources import Manifest, sealed_command
from tui_evals.targets.user_code import in_thread

if TYPE_CHECKING:
    from mcp import Client, StdioServerParameters
    from mcp.types import CallToolResult


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The result of a call as the model sees it, or why there is none."""

    text: str
    failed: bool = False
    traceback: str | None = None
    """The traceback of an exception in the user's code."""


class ToolSource(Protocol):
    """Gives tools, and calls them, many at once."""

    name: str
    """Its description, for messages."""

    async def definitions(self) -> tuple[Mapping[str, Any], ...]:
        """Its tools as the model sees them; raises ConfigurationError if it cannot list them.

        Raises TargetError if it listed some before and is no longer available.
        """
        ...

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        """The result of a tool for these arguments; raises TargetError if the source itself is unavailable."""
        ...

    async def close(self) -> None:
        """Give back connections and processes."""
        ...


def function_definition(name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A tool as the chat protocol defines it."""
    about = {"description": description} if description else {}
    return {"type": "function", "function": {"name": name, **about, "parameters": dict(parameters)}}


def defined_name(definition: Mapping[str, Any]) -> str:
    """The name of a tool in its definition, in whichever protocol's form; empty where there is none."""
    function = definition.get("function", definition)
    name = function.get("name") if isinstance(function, Mapping) else None
    return name if isinstance(name, str) else ""


_typed_dict: Any = TypedDict
"""Without a static type, because its fields are only known at run time."""


@dataclass(frozen=True, slots=True)
class _Tool:
    """A function with its parameters."""

    function: Callable[..., Any]
    definition: Mapping[str, Any]
    arguments: TypeAdapter[Any]


class FunctionTools:
    """Calls functions of a file, which is imported on first use."""

    def __init__(self, file: str, root: Path, code: Manifest | None = None) -> None:
        self.name = file
        self._root = root
        self._seal = code.seal if code is not None else None
        self._tools: dict[str, _Tool] | None = None

    async def definitions(self) -> tuple[Mapping[str, Any], ...]:
        """The functions as tools."""
        return tuple(tool.definition for tool in self._loaded().values())

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        """The result of a function; exceptions and invalid arguments become text for the model."""
        tool = self._loaded()[name]
        try:
            taken = tool.arguments.validate_python(dict(arguments))
        except ValidationError as problem:
            return ToolOutcome(f"{name} does not take these arguments: {_faults(problem)}", failed=True)
        try:
            with held_to(self._seal):
                if inspect.iscoroutinefunction(tool.function):
                    value = await tool.function(**taken)
                else:
                    value = await in_thread(lambda: tool.function(**taken))
                    if inspect.isawaitable(value):
                        value = await value
            return ToolOutcome(value if isinstance(value, str) else _json(value))
        except (Exception, SystemExit) as problem:  # any exception of the user's code is the outcome of this call
            raised = raised_error(name, problem)
            return ToolOutcome(str(raised), failed=True, traceback=raised.traceback)

    async def close(self) -> None:
        """Nothing to close."""

    def _loaded(self) -> dict[str, _Tool]:
        if self._tools is None:
            self._tools = _tools_of(self._import(), self.name)
        return self._tools

    def _import(self) -> ModuleType:
        name = module_name(self.name)
        try:
            with held_to(self._seal):
                return import_from_project(name, self._root)
        except NotAgreed as refusal:
            raise ConfigurationError(f"the tools in {self.name} cannot be imported: {refusal}") from None
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


_ERROR_TAIL = 4_000
_MOST_TOOLS = 1_000
STDIO = "stdio:"


class McpServer:
    """One server; `timeout` limits its start."""

    def __init__(
        self,
        address: str,
        headers: Mapping[str, str],
        environment: Mapping[str, str],
        root: Path,
        timeout: float,
        code: Manifest | None = None,
    ) -> None:
        self.name = f"the MCP server {address.removeprefix(STDIO).strip()}"
        self._address = address
        self._headers = headers
        self._environment = environment
        self._root = root
        self._timeout = timeout
        self._code = code
        self._starting = asyncio.Lock()
        self._connection: _Connection | None = None
        self._served = False
        """Whether it could be reached once."""

    async def definitions(self) -> tuple[Mapping[str, Any], ...]:
        """Its tools, as listed at its start."""
        return (await self._connected()).definitions

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        """The result of a tool."""
        connection = await self._connected()
        try:
            return await connection.call(name, arguments)
        except Exception as problem:
            if (refusal := _refusal(problem)) is not None:
                return ToolOutcome(refusal, failed=True)
            connection.lost = True
            await connection.close()
            why = _with_errors(_cause(problem), connection.errors)
            raise TargetError("agentRequestFailed", f"{self.name} is not available any more: {why}") from None

    async def close(self) -> None:
        """End the program, or the session."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _connected(self) -> _Connection:
        async with self._starting:
            if self._connection is not None and not self._connection.lost:
                return self._connection
            await self.close()
            connection = _Connection(self._client)
            try:
                async with asyncio.timeout(self._timeout):
                    await connection.open()
            except TimeoutError:
                await connection.close()
                raise self._unreachable(f"it did not answer within {self._timeout:g} s", connection) from None
            except Exception as problem:
                await connection.close()
                raise self._unreachable(_cause(problem), connection) from None
            self._connection, self._served = connection, True
            return connection

    def _unreachable(self, why: str, connection: _Connection) -> Exception:
        message = f"{self.name} cannot be used: {_with_errors(why, connection.errors)}"
        return TargetError("agentRequestFailed", message) if self._served else ConfigurationError(message)

    @asynccontextmanager
    async def _client(self, errors: Any) -> AsyncIterator[Client]:
        """A client of the server inside the block; the program's stderr goes into a file."""
        logging.getLogger("mcp").setLevel(logging.CRITICAL)  # its screen is not the user's
        from mcp import Client, stdio_client
        from mcp.client.streamable_http import streamable_http_client

        if self._address.startswith(STDIO):
            program = server_program(self._address, self._environment, self._root, self._code)
            async with Client(stdio_client(program, errlog=errors)) as client:
                yield client
            return
        import httpx2

        headers = {name: self._environment[value.removeprefix("env:")] for name, value in self._headers.items()}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(30.0, read=300.0)) as http,
            Client(streamable_http_client(self._address, http_client=http)) as client,
        ):
            yield client


class _Connection:
    """A client in a task of its own, because the SDK wants to be left where it was entered."""

    def __init__(self, client: Any) -> None:
        self.definitions: tuple[Mapping[str, Any], ...] = ()
        self.errors = ""
        """The end of the program's stderr, once it has ended."""
        self.lost = False
        self._make_client = client
        self._client: Client | None = None
        self._ending = asyncio.Event()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._serve())

    async def open(self) -> None:
        """Wait until the server has told its tools."""
        await asyncio.shield(self._ready)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        """The server's response to a call; raises an exception of the SDK without one."""
        if self._client is None:
            raise ConnectionError("its connection is closed")
        return _outcome(await self._client.call_tool(name, dict(arguments)))

    async def close(self) -> None:
        """Close the connection and wait until the server has ended; the SDK kills a program that does not exit."""
        self._ending.set()
        if not self._ready.done():
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _serve(self) -> None:
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
            try:
                async with self._make_client(errors) as client:
                    self.definitions = await _definitions(client)
                    self._client = client
                    self._ready.set_result(None)
                    await self._ending.wait()
            except Exception as problem:
                if not self._ready.done():
                    self._ready.set_exception(problem)
            finally:
                self.lost, self._client = True, None
                self.errors = _tail(errors)
                if not self._ready.done():
                    self._ready.cancel()


def server_program(
    address: str, environment: Mapping[str, str], root: Path, code: Manifest | None = None
) -> StdioServerParameters:
    """The program of a server and where it runs; ConfigurationError when there is none."""
    from mcp import StdioServerParameters

    argv = _words(address)
    argv[0] = _find_program(address, argv[0], environment, root)
    argv, variables = sealed_command(argv, environment, root, code)
    return StdioServerParameters(command=argv[0], args=argv[1:], env=variables, cwd=root)


def check_server(address: str, headers: Mapping[str, str], environment: Mapping[str, str], root: Path) -> None:
    """Raise ConfigurationError if a server cannot be used; nothing is started or asked."""
    if find_spec("mcp") is None:
        raise ConfigurationError(
            f"the tools of the MCP server {address} need the official SDK: pip install 'tui-evals[mcp]'"
        )
    if address.startswith(STDIO):
        _find_program(address, _words(address)[0], environment, root)
    for name, value in headers.items():
        if not environment.get(value.removeprefix("env:")):
            raise ConfigurationError(f"the header {name} of {address} needs the variable {value.removeprefix('env:')}")


def _words(address: str) -> list[str]:
    line = address.removeprefix(STDIO).strip()
    try:
        argv = shlex.split(line)
    except ValueError as problem:
        raise ConfigurationError(f"{STDIO} {line} cannot be split into words: {str(problem).lower()}") from None
    if not argv:
        raise ConfigurationError(f"{STDIO} names no program; write it as in stdio: python server.py")
    return argv


def _find_program(address: str, word: str, environment: Mapping[str, str], root: Path) -> str:
    in_folder = os.sep in word
    path = shutil.which(root / word if in_folder else word, path=environment.get("PATH", os.defpath))
    if path is None:
        where = str(root) if in_folder else "the folders of PATH"
        raise ConfigurationError(f"{address}: there is no program {word} in {where} that can be run")
    return os.path.abspath(path)


async def _definitions(client: Client) -> tuple[Mapping[str, Any], ...]:
    """All tools of the server, page by page."""
    found: list[Mapping[str, Any]] = []
    cursor: str | None = None
    while len(found) < _MOST_TOOLS:
        page = await client.list_tools(cursor=cursor)
        found += [function_definition(tool.name, tool.description or "", tool.input_schema) for tool in page.tools]
        cursor = page.next_cursor
        if not cursor:
            break
    return tuple(found)


def _outcome(result: CallToolResult) -> ToolOutcome:
    parts = [getattr(part, "text", None) or f"[{part.type}]" for part in result.content]
    return ToolOutcome("\n".join(parts), failed=bool(result.is_error))


def _refusal(problem: Exception) -> str | None:
    """The error that a reachable server returned for a call; None if the server is unreachable or silent."""
    from mcp import MCPError
    from mcp.types import CONNECTION_CLOSED

    if isinstance(problem, MCPError) and problem.error.code != CONNECTION_CLOSED:
        return one_line(problem.error.message)
    return None


def _cause(problem: BaseException) -> str:
    """The first of several errors, in its own words."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return one_line(f"{type(problem).__name__}: {problem}".removesuffix(": "))


_NOISE = re.compile(
    r"\s*$|\s+at |node:internal|Node\.js v|npm (notice|warn)|npm (error|ERR!)(\s*$| A complete log| \s*/)|\s*\^+\s*$"
)
"""Lines of errors that say no reason: frames of JavaScript, notices and logs of npm."""
_REASON = re.compile(
    r"\w*(Error|Exception)\b|npm (error|ERR!)|fatal|panic|error:|cannot|not found|denied", re.IGNORECASE
)
_MOST_REASON = 300


def _with_errors(why: str, errors: str) -> str:
    return f"{why}; it wrote: {reason}" if (reason := reason_in(errors)) else why


def reason_in(errors: str) -> str:
    """The reason in a program's errors: a traceback's last line, else all from the first line that has one."""
    lines = [line for line in errors.splitlines() if not _NOISE.match(line)]
    if "Traceback (most recent call last)" in errors:
        return one_line(lines[-1])
    first = next((place for place, line in enumerate(lines) if _REASON.search(line)), max(0, len(lines) - 3))
    text = " ".join(re.sub(r"npm (error|ERR!)", "", line) for line in lines[first:])
    text = " ".join(text.split())
    return text if len(text) <= _MOST_REASON else f"{text[:_MOST_REASON]}…"


def _tail(errors: Any) -> str:
    errors.seek(0)
    return str(errors.read())[-_ERROR_TAIL:]


def open_sources(
    settings: ToolSettings, where: str, environment: Mapping[str, str], root: Path, timeout: float
) -> list[ToolSource]:
    """The sources of settings that a file names, none started yet; NotApproved where its code has no yes."""
    code = agreed_code(tool_permissions(settings, where, root, environment), environment, root)
    if not where:
        code = [None] * ((settings.functions is not None) + len(settings.mcp))
    sources: list[ToolSource] = []
    if settings.functions is not None:
        sources.append(FunctionTools(settings.functions, root, code.pop(0)))
    for address, agreed in zip(settings.mcp, code, strict=True):
        sources.append(McpServer(address, settings.headers, environment, root, timeout, agreed))
    return sources


def check_sources(settings: ToolSettings, environment: Mapping[str, str], root: Path) -> None:
    """Raise ConfigurationError if the tools cannot be used; nothing is started, imported or asked."""
    if settings.functions is not None and settings.functions.endswith(".py"):
        module_name(settings.functions)
        if not (root / settings.functions).is_file():
            raise ConfigurationError(f"there is no file {settings.functions} in {root}, which should hold the tools")
    for address in settings.mcp:
        check_server(address, settings.headers, environment, root)
