"""Tools of an MCP server, by the official SDK: a program over its standard input, or a URL by streamable HTTP.

A server is started, or connected to, when its tools are wanted for the first time, and serves all conversations of a
run; a task of its own holds the connection. One that has gone is started again for the next answer.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui_evals.targets.answers import one_line
from tui_evals.targets.base import ConfigurationError, TargetError

from .source import ToolOutcome, function_definition

if TYPE_CHECKING:
    from mcp import Client, StdioServerParameters
    from mcp.types import CallToolResult

_ERROR_TAIL = 4_000
_MOST_TOOLS = 1_000
STDIO = "stdio:"


class McpServer:
    """One server; `timeout` is how long it may take to start."""

    def __init__(
        self, address: str, headers: Mapping[str, str], environment: Mapping[str, str], root: Path, timeout: float
    ) -> None:
        self.name = f"the MCP server {address.removeprefix(STDIO).strip()}"
        self._address = address
        self._headers = headers
        self._environment = environment
        self._root = root
        self._timeout = timeout
        self._starting = asyncio.Lock()
        self._connection: _Connection | None = None
        self._served = False
        """Whether it could be reached once."""

    async def definitions(self) -> tuple[Mapping[str, Any], ...]:
        """Its tools, as it lists them when it starts."""
        return (await self._connected()).definitions

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        """What a tool of it gives."""
        connection = await self._connected()
        try:
            return await connection.call(name, arguments)
        except Exception as problem:
            if (refusal := _refusal(problem)) is not None:
                return ToolOutcome(refusal, failed=True)
            connection.lost = True
            await connection.close()
            why = _with_errors(_cause(problem), connection.errors)
            raise TargetError("agentRequestFailed", f"{self.name} is gone: {why}") from None

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
        """A client of the server as long as this is entered; what a program writes as errors goes into a file."""
        logging.getLogger("mcp").setLevel(logging.CRITICAL)  # its screen is not the user's
        from mcp import Client, stdio_client
        from mcp.client.streamable_http import streamable_http_client

        if self._address.startswith(STDIO):
            program = server_program(self._address, self._environment, self._root)
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
        """The end of what the program wrote as errors, once it has ended."""
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
        """What the server says to a call; an exception of the SDK where it says nothing."""
        if self._client is None:
            raise ConnectionError("its connection is closed")
        return _outcome(await self._client.call_tool(name, dict(arguments)))

    async def close(self) -> None:
        """End it, and wait until the server is gone; the SDK kills a program that does not go by itself."""
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


def server_program(address: str, environment: Mapping[str, str], root: Path) -> StdioServerParameters:
    """The program of a server and where it runs; ConfigurationError when there is none."""
    from mcp import StdioServerParameters

    argv = _words(address)
    return StdioServerParameters(
        command=_find_program(address, argv[0], environment, root), args=argv[1:], env=dict(environment), cwd=root
    )


def check_server(address: str, headers: Mapping[str, str], environment: Mapping[str, str], root: Path) -> None:
    """ConfigurationError says what keeps a server from being used; nothing is started or asked."""
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
    """What a server that is there says against a call; None where it is gone or silent."""
    from mcp import MCPError
    from mcp.types import CONNECTION_CLOSED

    if isinstance(problem, MCPError) and problem.error.code != CONNECTION_CLOSED:
        return one_line(problem.error.message)
    return None


def _cause(problem: BaseException) -> str:
    """The first of what went wrong at once, in its own words."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return one_line(f"{type(problem).__name__}: {problem}".removesuffix(": "))


def _with_errors(why: str, errors: str) -> str:
    return f"{why}; its errors end with: {one_line(errors)}" if errors.strip() else why


def _tail(errors: Any) -> str:
    errors.seek(0)
    return str(errors.read())[-_ERROR_TAIL:]
