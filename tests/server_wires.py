"""The wire formats of providers that do not speak OpenAI's: their questions read, and answers written, as theirs."""

from __future__ import annotations

from typing import Any

from aiohttp import web

GEMINI = ("/v1beta/models/{called}", "/models/{called}")
AZURE = "/openai/deployments/{model}/chat/completions"


def as_chat(http: web.Request, body: dict[str, Any]) -> dict[str, Any]:
    """A question as a chat with a model, whatever it was written in."""
    if "contents" in body:
        parts = [(turn.get("role", "user"), turn["parts"]) for turn in body["contents"]]
        if instruction := body.get("systemInstruction") or body.get("system_instruction"):
            parts.insert(0, ("system", instruction["parts"]))
        messages = [{"role": role, "content": "".join(part.get("text", "") for part in said)} for role, said in parts]
        return {**body, "model": http.match_info["called"].partition(":")[0], "messages": messages}
    return {"model": http.match_info.get("model"), **body}


def written(http: web.Request, whole: dict[str, Any]) -> dict[str, Any]:
    """An answer in the words of whoever was asked."""
    choice, counted = whole["choices"][0], whole["usage"]
    text = choice["message"]["content"]
    read, told = counted["prompt_tokens"], counted["completion_tokens"]
    if http.path.endswith("/messages"):
        head = {"id": whole["id"], "type": "message", "role": "assistant", "model": whole["model"]}
        usage = {"input_tokens": read, "output_tokens": told}
        return {**head, "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "usage": usage}
    if ":generateContent" in http.path:
        candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": read, "candidatesTokenCount": told, "totalTokenCount": read + told}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": whole["model"]}
    return whole
