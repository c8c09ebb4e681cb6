"""Tools of MCP servers that are written with the official SDK, over standard input and over HTTP."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.runs.conftest import until
from tui_evals.targets.base import ConfigurationError, TargetError
from tui_evals.targets.tools import McpServer, check_server, reason_in

pytestmark = pytest.mark.skipif(
    find_spec("mcp") is None, reason="the official MCP SDK is not installed: pip install 'tui-evals[mcp]'"
)

SERVER = '''
import os
import sys
import time

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("shop")


@server.tool()
def find(id: int) -> str:
    """Look something up."""
    return f"found {id} for {os.environ.get('CUSTOMER', 'nobody')}"


@server.tool()
def refuse() -> str:
    raise ToolError("not today")


@server.tool()
def die() -> str:
    sys.stderr.write("a fault of mine\\n")
    sys.stderr.flush()
    os._exit(7)


@server.tool()
def hang() -> str:
    time.sleep(600)


if len(sys.argv) > 1:
    server.run(transport="streamable-http", port=int(sys.argv[1]))
else:
    server.run()
'''


@pytest.fixture
def server(tmp_path):
    (tmp_path / "server.py").write_text(SERVER)
    return f"stdio: {sys.executable} server.py"


def opened(address, root, headers=None, timeout=60.0, **environment):
    return McpServer(address, headers or {}, {**os.environ, **environment}, root, timeout)


@pytest.mark.nightly
async def test_a_program_gives_its_tools_and_is_ended(server, tmp_path):
    tools = opened(server, tmp_path, CUSTOMER="Ada")
    names = [definition["function"]["name"] for definition in await tools.definitions()]
    assert names == ["find", "refuse", "die", "hang"]
    found = await tools.call("find", {"id": 7})
    assert (found.text, found.failed) == ("found 7 for Ada", False)
    refused = await tools.call("refuse", {})
    assert refused.failed and "not today" in refused.text
    wrong = await tools.call("find", {"id": "x"})
    assert wrong.failed and "id" in wrong.text
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await tools.call("hang", {})
    with pytest.raises(TargetError, match=r"is not available any more.*a fault of mine"):
        await tools.call("die", {})
    assert (await tools.call("find", {"id": 8})).text == "found 8 for Ada"
    await tools.close()
    ended = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert "server.py" not in "".join(line for line in ended.stdout.splitlines() if str(tmp_path) in line)


async def test_a_server_that_cannot_be_started_says_why(tmp_path):
    (tmp_path / "broken.py").write_text("raise SystemExit('no such shop')")
    broken = opened(f"stdio: {sys.executable} broken.py", tmp_path)
    with pytest.raises(ConfigurationError, match=r"cannot be used.*no such shop"):
        await broken.definitions()
    (tmp_path / "silent.py").write_text("import time\ntime.sleep(600)")
    silent = opened(f"stdio: {sys.executable} silent.py", tmp_path, timeout=0.5)
    with pytest.raises(ConfigurationError, match=r"did not answer within 0.5 s"):
        await silent.definitions()
    with pytest.raises(ConfigurationError, match="there is no program no-such-program"):
        check_server("stdio: no-such-program", {}, os.environ, tmp_path)
    with pytest.raises(ConfigurationError, match="needs the variable NO_SUCH_TOKEN"):
        check_server("http://127.0.0.1:1/mcp", {"Authorization": "env:NO_SUCH_TOKEN"}, os.environ, tmp_path)
    nobody = opened("http://127.0.0.1:1/mcp", tmp_path)
    with pytest.raises(ConfigurationError, match="cannot be used"):
        await nobody.definitions()


@pytest.mark.nightly
async def test_a_server_is_reached_by_its_address(server, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "server.py", str(port)], cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        await asyncio.to_thread(until, lambda: _listens(port))
        tools = opened(f"http://127.0.0.1:{port}/mcp", tmp_path, {"Authorization": "env:TOKEN"}, TOKEN="Bearer x")
        assert len(await tools.definitions()) == 4
        assert (await tools.call("find", {"id": 7})).text == "found 7 for nobody"
        with pytest.raises(TargetError, match="is not available any more"):
            await tools.call("die", {})
        await tools.close()
    finally:
        process.kill()
        process.wait()


def _listens(port):
    with contextlib.suppress(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=30).close()
        return True
    return False


def test_the_reason_is_found_in_what_a_failing_server_wrote():
    npm = """npm warn exec The following package was not found and will be installed: shop-mcp@1
npm error code E404
npm error 404 Not Found - GET https://registry.npmjs.org/shop-mcp - Not found
npm error 404
npm notice New major version of npm available! 10.8.2 -> 11.0.0
npm error A complete log of this run can be found in: /home/me/.npm/_logs/2026-debug-0.log
"""
    node = """node:internal/modules/cjs/loader:1143
  throw err;
  ^

Error: Cannot find module 'shop'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1140:15)
Node.js v20.11.0
"""
    python = "noise\nTraceback (most recent call last):\n  File 'x.py', line 1\nKeyError: 'SHOP_TOKEN'\n"
    for errors, reason in (
        (npm, "code E404 404 Not Found - GET https://registry.npmjs.org/shop-mcp - Not found 404"),
        (node, "Error: Cannot find module 'shop'"),
        (python, "KeyError: 'SHOP_TOKEN'"),
        ("a fault of mine\n", "a fault of mine"),
        ("", ""),
    ):
        assert reason_in(errors) == reason
