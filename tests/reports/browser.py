"""A headless Chromium and one page in it, driven over the DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ABSENT = "no Chromium is installed (`apt-get install chromium`), so nobody has opened the page"
_SWITCHES = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
_BOUND = 60.0  # keeps a broken test from hanging
_KEYS = {"Enter": ("Enter", 13, "\r"), " ": ("Space", 32, " "), "Escape": ("Escape", 27, ""), "Tab": ("Tab", 9, "")}
_KEYS |= {"ArrowDown": ("ArrowDown", 40, ""), "ArrowUp": ("ArrowUp", 38, "")}


class Page:
    """What a person does on a page, and everything the browser says of it."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._session = ""
        self._number = 0
        self._calls: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._loaded = asyncio.Event()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.dialogs: list[str] = []

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        answer = self._calls[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": parameters}
        await self._socket.send_json(message | ({"sessionId": self._session} if self._session else {}))
        async with asyncio.timeout(_BOUND):
            return await answer

    async def listen(self) -> None:
        async for message in self._socket:
            said = json.loads(message.data)
            if (call := self._calls.pop(said.get("id"), None)) is None:
                await self._happened(said.get("method", ""), said.get("params", {}))
            elif not call.done():
                if "error" in said:
                    call.set_exception(RuntimeError(str(said["error"])))
                else:
                    call.set_result(said["result"])

    async def _happened(self, event: str, about: dict[str, Any]) -> None:
        if event == "Page.loadEventFired":
            self._loaded.set()
        elif event == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif event in ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Audits.issueAdded"):
            self.complaints.append(json.dumps(about)[:2_000])
        elif event == "Page.javascriptDialogOpening":
            self.dialogs.append(about["message"])
            # Nobody waits for the answer here, because this is who reads it.
            self._number += 1
            message = {"id": self._number, "method": "Page.handleJavaScriptDialog", "params": {"accept": False}}
            await self._socket.send_json(message | {"sessionId": self._session})

    async def attach(self) -> None:
        target = await self.call("Target.createTarget", url="about:blank")
        found = await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Audits"):
            await self.call(f"{domain}.enable")

    async def open(self, file: Path, width: int = 1280, height: int = 900, *, dark: bool = False) -> None:
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.complaints.clear()
        self.requests.clear()
        self.dialogs.clear()
        self._loaded.clear()
        await self.call("Page.navigate", url=file.as_uri())
        async with asyncio.timeout(_BOUND):
            await self._loaded.wait()

    async def value(self, expression: str) -> Any:
        """What an expression comes to in the page."""
        found = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    async def until(self, condition: str) -> None:
        """Wait, frame by frame, until a condition holds in the page."""
        look = f"const look = () => ({condition}) ? done(true) : requestAnimationFrame(look)"
        await self.value(f"new Promise((done) => {{ {look}; look(); }})")

    async def press(self, *keys: str) -> None:
        for key in keys:
            code, number, text = _KEYS.get(key, ("", ord(key[0].upper()), key))
            about = {"key": key, "code": code, "windowsVirtualKeyCode": number}
            await self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
            await self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    async def type(self, text: str) -> None:
        await self.call("Input.insertText", text=text)

    async def click(self, selector: str) -> None:
        """Press the mouse in the middle of an element."""
        found = f"document.querySelector({json.dumps(selector)})"
        await self.value(f"{found}.scrollIntoView({{block: 'center'}})")
        shape = f"(({{x, y, width, height}}) => [x, y, width, height])({found}.getBoundingClientRect())"
        x, y, width, height = await self.value(shape)
        x, y = x + width / 2, y + height / 2
        for kind in ("mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def choose(self, selector: str, value: str) -> None:
        """Choose an option, as a person does it with a list."""
        found = f"document.querySelector({json.dumps(selector)})"
        await self.value(f"{found}.value = {json.dumps(value)}; {found}.dispatchEvent(new Event('change'))")

    async def picture(self, file: Path, *, whole: bool = False) -> None:
        """Keep what is to be seen."""
        found = await self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(found["data"]))


@asynccontextmanager
async def browsing(profile: Path) -> AsyncIterator[Page]:
    """A browser of its own with one empty page, ended with everything it started."""
    assert CHROMIUM, ABSENT
    process = await asyncio.create_subprocess_exec(
        CHROMIUM,
        *_SWITCHES,
        f"--user-data-dir={profile}",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "HOME": str(profile)},
        start_new_session=True,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(_BOUND):
            address = await _listening(process.stderr)
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(address, max_msg_size=0) as socket,
        ):
            page = Page(socket)
            reader = asyncio.create_task(page.listen())
            drain = asyncio.create_task(_drained(process.stderr))
            try:
                await page.attach()
                yield page
            finally:
                for task in (reader, drain):
                    task.cancel()
                    with suppress(asyncio.CancelledError):
                        await task
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _listening(stream: asyncio.StreamReader) -> str:
    """Wait for the line that says where the browser can be spoken to; the file that says it comes later."""
    while said := await stream.readline():
        if said.startswith(b"DevTools listening on "):
            return said.split()[-1].decode()
    raise AssertionError("Chromium ended before it could be spoken to")


async def _drained(stream: asyncio.StreamReader) -> None:
    while await stream.read(65_536):
        pass
