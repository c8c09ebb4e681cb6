"""The floor through litellm: a bare loop of its own calls."""

from __future__ import annotations

import asyncio
import os
import sys


async def main(url: str, count: int, concurrency: int) -> None:
    """Ask `count` questions, `concurrency` at once."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    gate = asyncio.Semaphore(concurrency)

    async def one(number: int) -> str:
        async with gate:
            messages = [{"role": "user", "content": f"question {number}"}]
            model = "openai/test-model"
            reply = await litellm.acompletion(model=model, messages=messages, base_url=url, api_key="k", num_retries=0)
            return str(reply.choices[0].message.content)

    texts = await asyncio.gather(*(one(number) for number in range(count)))
    assert len(texts) == count


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
