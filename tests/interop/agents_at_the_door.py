"""Unchanged agents of real frameworks asked through `--door`: what is recorded of each, and what their spans say, is
the same.

    python -m tests.interop.agents_at_the_door [--keep FOLDER] PYTHON [PYTHON ...]

Each PYTHON has some of openai-agents, pydantic-ai-slim, langgraph with langchain-openai and langchain-anthropic,
llama-index-llms-openai, anthropic, google-genai; agents whose package none of them has are named and left out. Where a
Python also has the OpenTelemetry instrumentation of its framework, the agent runs again with it, and its spans are
read as an import reads them; `--keep` writes them to files that tests read. It ends with status 0 if every agent that
ran was recorded alike.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.server import running
from tui_evals.store.reader import Reader
from tui_evals.store.records import transcript_of
from tui_evals.targets.spans import spans_of_otlp, transcript_of_spans
from tui_evals.transcript import Transcript, answer_text, calls_with_results

PROTOBUF = "application/x-protobuf"
QUESTION = '[[agent]] call find {"order": 7} call find {"order": 8}'
_HEAD = """
import asyncio, sys, warnings
warnings.simplefilter("ignore")
question = sys.stdin.read()
def look_up(order: int) -> str:
    return f"found {order}"
"""
AGENTS: Mapping[str, tuple[str, str]] = {
    "openai-agents, responses": ("agents", """
from agents import Agent, Runner, function_tool, set_tracing_disabled
set_tracing_disabled(True)
@function_tool
def find(order: int) -> str:
    "Look an order up."
    return look_up(order)
print(Runner.run_sync(Agent(name="clerk", model="gpt-5", tools=[find]), question).final_output)
"""),
    "openai-agents, streaming": ("agents", """
from agents import Agent, Runner, function_tool, set_tracing_disabled
set_tracing_disabled(True)
@function_tool
def find(order: int) -> str:
    "Look an order up."
    return look_up(order)
async def main():
    result = Runner.run_streamed(Agent(name="clerk", model="gpt-5", tools=[find]), question)
    async for _ in result.stream_events(): pass
    print(result.final_output)
asyncio.run(main())
"""),
    "pydantic-ai, chat": ("pydantic_ai", """
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
agent = Agent(OpenAIChatModel("gpt-5"))
@agent.tool_plain
def find(order: int) -> str:
    "Look an order up."
    return look_up(order)
print(agent.run_sync(question).output)
"""),
    "pydantic-ai, anthropic": ("pydantic_ai.models.anthropic", """
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
agent = Agent(AnthropicModel("claude-opus-5"))
@agent.tool_plain
def find(order: int) -> str:
    "Look an order up."
    return look_up(order)
print(agent.run_sync(question).output)
"""),
    "pydantic-ai, gemini": ("pydantic_ai.models.google", """
from pydantic_ai import Agent
from pydantic_ai.models.google import GoogleModel
agent = Agent(GoogleModel("gemini-3-pro"))
@agent.tool_plain
def find(order: int) -> str:
    "Look an order up."
    return look_up(order)
print(agent.run_sync(question).output)
"""),
    "langgraph, chat": ("langchain_openai", """
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent
@tool
def find(order: int) -> str:
    "Look an order up."
    return look_up(order)
agent = create_react_agent(ChatOpenAI(model="gpt-5"), [find])
print(agent.invoke({"messages": [("user", question)]})["messages"][-1].content)
"""),
    "langgraph, anthropic": ("langchain_anthropic", """
from langchain_core.tools import tool
from langchain_anthropic import ChatAnthropic
from langgraph.prebuilt import create_react_agent
@tool
def find(order: int) -> str:
    "Look an order up."
    return look_up(order)
agent = create_react_agent(ChatAnthropic(model="claude-opus-5"), [find])
said = agent.invoke({"messages": [("user", question)]})["messages"][-1].content
print(said if isinstance(said, str) else "".join(part["text"] for part in said))
"""),
    "llama-index, chat": ("llama_index.llms.openai", """
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai import OpenAI
def find(order: int) -> str:
    "Look an order up."
    return look_up(order)
async def main():
    print(await FunctionAgent(tools=[find], llm=OpenAI(model="gpt-4o")).run(question))
asyncio.run(main())
"""),
}  # fmt: skip
"""Each with the module that it takes."""


_INTO_A_FILE = """
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
class IntoFile(SpanExporter):
    def export(self, spans):
        with open("spans.bin", "ab") as file:
            file.write(encode_spans(spans).SerializeToString())
        return SpanExportResult.SUCCESS
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(IntoFile()))
"""
_OPENINFERENCE = """
from {module} import {name}
{name}().instrument(tracer_provider=provider)
"""
INSTRUMENTED: Mapping[str, tuple[str, str]] = {
    "openai-agents": ("openinference.instrumentation.openai_agents", "OpenAIAgentsInstrumentor"),
    "langgraph": ("openinference.instrumentation.langchain", "LangChainInstrumentor"),
    "llama-index": ("openinference.instrumentation.llama_index", "LlamaIndexInstrumentor"),
    "pydantic-ai": ("pydantic_ai.models.instrumented", ""),
}
"""The module that makes spans of each framework, and its class; PydanticAI makes its own."""
_PYDANTIC_AI = """
from pydantic_ai import Agent
from pydantic_ai.models.instrumented import InstrumentationSettings
Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))
"""
CALLS = [("find", {"order": 7}, "found 7"), ("find", {"order": 8}, "found 8")]
EXPECTED = ("Answer: found 8", CALLS, 3, True)


def traced(framework: str, code: str) -> str:
    """The program of an agent, which writes its spans to a file."""
    module, name = INSTRUMENTED[framework]
    instrument = _OPENINFERENCE.format(module=module, name=name) if name else _PYDANTIC_AI
    return _INTO_A_FILE + instrument + code.replace("set_tracing_disabled(True)", "")


def told(transcript: Transcript) -> tuple[str, list[tuple[str, object, str | None]], int, bool]:
    """The answer, calls with results, how often the assistant spoke, and whether all tokens are known and no cost is
    made up."""
    calls = [
        (call.name, json.loads(call.arguments), result and result.text)
        for call, result in calls_with_results(transcript)
    ]
    spoken = [message for message in transcript.messages if message.role == "assistant"]
    tokens = all(message.took is not None and message.took.input_tokens for message in spoken)
    return answer_text(transcript), calls, len(spoken), tokens and all(one.took.cost != 0 for one in spoken)


def _python_with(module: str, pythons: list[str]) -> str | None:
    return next(
        (
            one
            for one in pythons
            if subprocess.run([one, "-c", f"import {module}"], capture_output=True).returncode == 0
        ),
        None,
    )


def recorded(python: str, code: str, folder: Path, url: str) -> object:
    """What the run of an agent recorded, or what it printed where it failed."""
    (folder / ".evals").mkdir(parents=True)
    (folder / ".evals" / "config.toml").write_text(f'[targets.main]\nmodel = "openai/test"\nbase_url = "{url}"\n')
    item = {"testId": "T", "prompt": QUESTION}
    document = {"schemaVersion": "1.11.0", "default_evaluators": {}, "items": [item]}
    (folder / "data.json").write_text(json.dumps(document))
    (folder / "my_agent.py").write_text(_HEAD + code)
    command = [sys.executable, "-m", "tui_evals", "run", "data.json", "--trust", "--quiet", "--no-cache"]
    command += ["-t", f"command:{python} my_agent.py", "--door", "main"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, "HOME": str(folder)})
    with Reader(folder / ".evals" / "evals.db") as reader:
        detail = reader.detail(next(iter(reader.all_rows(reader.find_run("last").id))).id)
    if detail.answer.text is None:
        return detail.answer.message or done.stderr
    found = told(transcript_of(detail.answer))
    return found if found[0] == detail.answer.text else (found, detail.answer.text)


def main(pythons: list[str]) -> int:
    """Run each agent that some Python can, and say which was recorded otherwise."""
    keep = Path(pythons[1]) if pythons[:1] == ["--keep"] else None
    wrong, pythons = 0, pythons[2:] if keep else pythons
    with running() as server, tempfile.TemporaryDirectory() as folder:
        for number, (name, (module, code)) in enumerate(AGENTS.items()):
            python = _python_with(module, pythons)
            if python is None:
                sys.stdout.write(f"– {name}: {module} is in none of these Pythons\n")
                continue
            ways = {"door": recorded(python, code, Path(folder) / str(number), server.url)}
            framework = name.partition(",")[0]
            if _python_with(INSTRUMENTED[framework][0], [python]):
                own = Path(folder) / f"{number} traced"
                ways["door, traced"] = recorded(python, traced(framework, code), own, server.url)
                spans = (own / "spans.bin").read_bytes() if (own / "spans.bin").exists() else b""
                ways["spans"] = told(transcript_of_spans(spans_of_otlp(spans, PROTOBUF)))
                if keep is not None and spans:
                    (keep / f"{name.replace(', ', '-')}.otlp.gz").write_bytes(gzip.compress(spans, mtime=0))
            different = {way: found for way, found in ways.items() if found != EXPECTED}
            wrong += bool(different)
            sys.stdout.write(f"✗ {name}: {different}\n" if different else f"✓ {name}: {', '.join(ways)}\n")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
