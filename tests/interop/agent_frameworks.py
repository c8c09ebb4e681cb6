"""Unchanged agents of four frameworks with a tool each, run on scripted models: what their results become here.

With a Python that has some of openai-agents, pydantic-ai-slim, langgraph and llama-index-core:

    PYTHONPATH=. PYTHON tests/interop/agent_frameworks.py

Frameworks that it has not are named and left out. It ends with status 0 if some framework ran and every transcript has
the same parts.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from tui_evals.targets.answers import parse_reply
from tui_evals.transcript import answer_text, calls_with_results, reasoning_text

ANSWER, QUESTION = "Order 7 is paid.", "Is order 7 paid?"


def openai_agents() -> Any:
    from agents import Agent, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
    from agents.models.interface import Model
    from openai.types.responses import (
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
        ResponseReasoningItem,
    )

    set_tracing_disabled(True)

    class Scripted(Model):
        asked = 0

        async def get_response(self, *_: Any, **__: Any) -> ModelResponse:
            self.asked += 1
            text = ResponseOutputText(annotations=[], text=ANSWER, type="output_text")
            said = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
            thought = ResponseReasoningItem(
                id="r", summary=[{"type": "summary_text", "text": "look it up"}], type="reasoning"
            )
            call = ResponseFunctionToolCall(
                arguments='{"order": 7}', call_id="c1", name="find", type="function_call", id="f"
            )
            usage = Usage(requests=1, input_tokens=3, output_tokens=4, total_tokens=7)
            return ModelResponse(output=[thought, call] if self.asked == 1 else [said], usage=usage, response_id=None)

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    @function_tool
    def find(order: int) -> str:
        """Look an order up."""
        return "paid"

    return Runner.run_sync(Agent(name="clerk", model=Scripted(), tools=[find]), QUESTION)


def pydantic_ai() -> Any:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    def scripted(messages: list[Any], _: Any) -> ModelResponse:
        if len(messages) > 1:
            return ModelResponse(parts=[TextPart(ANSWER)])
        return ModelResponse(parts=[ThinkingPart("look it up"), ToolCallPart("find", {"order": 7}, "c1")])

    agent = Agent(FunctionModel(scripted))

    @agent.tool_plain
    def find(order: int) -> str:
        return "paid"

    return agent.run_sync(QUESTION)


def langgraph() -> Any:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langgraph.graph import END, START, MessagesState, StateGraph

    def model(state: Any) -> dict[str, Any]:
        if isinstance(state["messages"][-1], ToolMessage):
            return {"messages": [AIMessage(ANSWER)]}
        call = {"name": "find", "args": {"order": 7}, "id": "c1"}
        thought = {"reasoning_content": "look it up"}
        return {"messages": [AIMessage("", tool_calls=[call], additional_kwargs=thought)]}

    def tools(state: Any) -> dict[str, Any]:
        return {"messages": [ToolMessage("paid", tool_call_id="c1")]}

    def following(state: Any) -> str:
        return "tools" if state["messages"][-1].tool_calls else END

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", tools)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", following)
    graph.add_edge("tools", "model")
    return graph.compile().invoke({"messages": [HumanMessage(QUESTION)]})


def llama_index() -> Any:
    from llama_index.core.chat_engine.types import AgentChatResponse
    from llama_index.core.tools import FunctionTool

    def find(order: int) -> str:
        """Look an order up."""
        return "paid"

    output = FunctionTool.from_defaults(find).call(order=7)
    return AgentChatResponse(response=ANSWER, sources=[output])


FRAMEWORKS: Mapping[str, tuple[str, Callable[[], Any], str]] = {
    "openai-agents": ("agents", openai_agents, "look it up"),
    "pydantic-ai": ("pydantic_ai", pydantic_ai, "look it up"),
    "langgraph": ("langgraph", langgraph, "look it up"),
    "llama-index": ("llama_index", llama_index, ""),
}
"""The module of each, its result, and the reasoning that it tells."""


def main() -> int:
    warnings.simplefilter("ignore")
    right = wrong = 0
    for name, (module, run, thought) in FRAMEWORKS.items():
        if importlib.util.find_spec(module) is None:
            sys.stdout.write(f"– {name}: this Python has no {module}\n")
            continue
        reply = parse_reply(run(), name)
        assert reply.transcript is not None
        calls = [
            (call.name, call.arguments.replace(" ", ""), result and result.text)
            for call, result in calls_with_results(reply.transcript)
        ]
        found = (reply.text, answer_text(reply.transcript), calls, reasoning_text(reply.transcript))
        is_right = found == (ANSWER, ANSWER, [("find", '{"order":7}', "paid")], thought)
        right, wrong = right + is_right, wrong + (not is_right)
        sys.stdout.write(f"{'✓' if is_right else '✗'} {name} {'' if is_right else found}\n")
    return 0 if right and not wrong else 1


if __name__ == "__main__":
    asyncio.set_event_loop(asyncio.new_event_loop())
    sys.exit(main())
