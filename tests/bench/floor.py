"""The floor of a run: a bare aiohttp loop that makes the same calls and keeps the texts."""

from __future__ import annotations

import asyncio
import sys

import aiohttp


async def main(url: str, count: int, concurrency: int) -> None:
    """Ask `count` questions, `concurrency` at once."""
    gate = asyncio.Semaphore(concurrency)
    connector = aiohttp.TCPConnector(limit=concurrency)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def one(number: int) -> str:
            async with gate:
                messages = [{"role": "user", "content": f"question {number}"}]
                body = {"model": "test-model", "messages": messages}
                async with session.post(f"{url}/chat/completions", json=body) as response:
                    return str((await response.json())["choices"][0]["message"]["content"])

        texts = await asyncio.gather(*(one(number) for number in range(count)))
    assert len(texts) == count


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
