"""By what rules models of the test server refuse parameters, as OpenAI's reasoning models and others do."""

from __future__ import annotations

import re
from typing import Any

from aiohttp import web

_NEVER = ("top_p", "presence_penalty", "frequency_penalty", "logprobs", "top_logprobs", "logit_bias")


def _reasoning(body: dict[str, Any]) -> tuple[str, str, str] | None:
    """The rules of the o-series and gpt-5: the parameter, the code and the message of a refusal."""
    if "max_tokens" in body:
        message = "Unsupported parameter: 'max_tokens' is not supported with this model."
        return "max_tokens", "unsupported_parameter", f"{message} Use 'max_completion_tokens' instead."
    if (value := body.get("temperature", 1)) != 1:
        message = f"Unsupported value: 'temperature' does not support {value} with this model."
        return "temperature", "unsupported_value", f"{message} Only the default (1) value is supported."
    for name in _NEVER:
        if name in body:
            message = f"Unsupported parameter: '{name}' is not supported with this model."
            return name, "unsupported_parameter", message
    return None


def _old(body: dict[str, Any]) -> tuple[str, str, str] | None:
    """An older server: no schemas, and lengths by their old name alone."""
    if "max_completion_tokens" in body:
        message = "Unrecognized request argument supplied: max_completion_tokens"
        return "", "", message
    if (body.get("response_format") or {}).get("type") == "json_schema":
        message = "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."
        return "response_format", "", message
    return None


def _strict(body: dict[str, Any]) -> tuple[str, str, str] | None:
    """One that refuses for a reason of its own, whose sentence names a parameter all the same."""
    if "max_tokens" in body:
        return "max_tokens", "invalid_value", "max_tokens is too large: this model supports at most 5 completion tokens"
    return None


def _certain(body: dict[str, Any]) -> tuple[str, str, str] | None:
    """One that tells no log-probabilities, and says so in words of its own."""
    if (count := body.get("top_logprobs")) is not None:
        return "", "", f"Requested sample logprobs of {count}, which is greater than max allowed: 0"
    return None


RULES = {"reasoning": _reasoning, "old": _old, "strict": _strict, "certain": _certain}
_FAMILY = re.compile(r"(o\d|gpt-5)(?!\w|-chat)")


def refused_parameter(body: dict[str, Any], rules: str) -> web.Response | None:
    """A refusal by the rules of a model, None where there is none; models called like OpenAI's keep OpenAI's."""
    rules = rules or ("reasoning" if _FAMILY.match(body["model"]) else "")
    found = RULES[rules](body) if rules else None
    if found is None:
        return None
    param, code, message = found
    error = {"message": message, "type": "invalid_request_error", "param": param or None, "code": code or None}
    return web.json_response({"error": error}, status=400)


def thinks_first(body: dict[str, Any], rules: str) -> bool:
    """Whether the thoughts of a model leave no room for its answer."""
    limit = body.get("max_completion_tokens")
    thinking = rules == "reasoning" or _FAMILY.match(body["model"]) is not None
    return thinking and limit is not None and limit < 2000
