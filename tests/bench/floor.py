"""The floor of a run: a bare aiohttp loop that makes the same calls and commits each reply to SQLite as it comes."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import tempfile
from pathlib import Path

import aiohttp


async def main(url: str, count: int, concurrency: int, database: Path) -> None:
    """Ask `count` questions, `concurrency` at once."""
    gate = asyncio.Semaphore(concurrency)
    connector = aiohttp.TCPConnector(limit=concurrency)
    store = sqlite3.connect(database, isolation_level=None)
    store.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL")
    store.execute("CREATE TABLE answers (number INTEGER PRIMARY KEY, question TEXT, answer TEXT, usage TEXT)")
    async with aiohttp.ClientSession(connector=connector) as session:

        async def one(number: int) -> None:
            async with gate:
                question = f"question {number}"
                body = {"model": "test-model", "messages": [{"role": "user", "content": question}]}
                async with session.post(f"{url}/chat/completions", json=body) as response:
                    reply = await response.json()
                row = (number, question, reply["choices"][0]["message"]["content"], json.dumps(reply["usage"]))
                store.execute("INSERT INTO answers VALUES (?, ?, ?, ?)", row)

        await asyncio.gather(*(one(number) for number in range(count)))
    assert store.execute("SELECT count(*) FROM answers").fetchone() == (count,)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(folder) / "floor.db"))
