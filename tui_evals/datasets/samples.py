"""JSONL as OpenAI Evals uses it: `input` (text or chat), `ideal` (text or list), any other key a variable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tui_evals.text import strictjson

from .problems import LineError


def read_jsonl(text: str) -> tuple[list[dict[str, Any]], list[int]]:
    """The items of the lines and the line of each; blank lines are passed over."""
    items: list[dict[str, Any]] = []
    lines: list[int] = []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            sample = strictjson.loads(line)
        except strictjson.JsonError as error:
            column = f" at column {error.column}" if error.column else ""
            raise LineError(f"{error}{column}", number) from None
        if not isinstance(sample, dict):
            raise LineError("each line must be a JSON object with an input", number)
        try:
            items.append(_item_of_sample(sample))
        except ValueError as error:
            raise LineError(str(error), number) from None
        lines.append(number)
    return items, lines


def _item_of_sample(sample: dict[str, Any]) -> dict[str, Any]:
    if "input" not in sample:
        if "prompt" in sample or "turns" in sample:
            return sample
        raise ValueError(f"the sample has no input; its keys are: {', '.join(sample) or 'none'}")
    item = _input_fields(sample["input"])
    if "ideal" in sample:
        item |= _ideal_fields(sample["ideal"])
    if isinstance(sample.get("completion"), str):
        item["response"] = sample["completion"]
    used = {"input", "ideal"} | ({"completion"} if "response" in item else set())
    if variables := {key: value for key, value in sample.items() if key not in used}:
        item["variables"] = variables
    return item


def _input_fields(messages: object) -> dict[str, Any]:
    if isinstance(messages, str):
        return {"prompt": messages}
    if not isinstance(messages, list) or not all(isinstance(part, dict) for part in messages) or not messages:
        raise ValueError("input must be text or a list of chat messages")
    last = messages[-1]
    if last.keys() == {"role", "content"} and last["role"] == "user" and last["content"]:
        return {"messages": messages[:-1], "prompt": last["content"]}
    return {"messages": messages}


def _ideal_fields(ideal: object) -> dict[str, Any]:
    if isinstance(ideal, str):
        return {"expected_response": ideal}
    if isinstance(ideal, list) and all(isinstance(part, str) for part in ideal):
        return {"ideal": ideal}
    raise ValueError("ideal must be text or a list of texts")


def write_jsonl(items: Sequence[Mapping[str, Any]]) -> tuple[str, list[str]]:
    """JSONL and notes on what it could not hold; each turn becomes a sample with the turns before it as history."""
    lost: list[str] = []
    lines: list[str] = []
    known = {"prompt", "messages", "turns", "expected_response", "ideal", "response", "variables"}
    for number, item in enumerate(items):
        units = item.get("turns") or [item]
        if item.get("turns"):
            lost.append(f"items[{number}]: the conversation became {len(units)} samples, each with the turns before it")
        if dropped := sorted({field for part in (item, *units) for field in part} - known):
            lost.append(f"items[{number}]: a sample has no place for {', '.join(dropped)}")
        history: list[Mapping[str, Any]] = [] if units[0] is item else list(item.get("messages") or [])
        for unit in units:
            lines.append(strictjson.dumps(_sample_of_unit(item, unit, history)))
            history += [*(unit.get("messages") or []), {"role": "user", "content": unit.get("prompt", "")}]
            if answer := unit.get("expected_response") or unit.get("response"):
                history.append({"role": "assistant", "content": answer})
    return "".join(line + "\n" for line in lines), lost


def _sample_of_unit(
    item: Mapping[str, Any], unit: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    history = [*earlier, *(unit.get("messages") or [])]
    prompt = unit.get("prompt")
    is_chat = bool(history) or "messages" in unit
    question = [{"role": "user", "content": prompt}] if prompt is not None else []
    sample: dict[str, Any] = {"input": [*history, *question] if is_chat else prompt}
    if "ideal" in unit:
        sample["ideal"] = unit["ideal"]
    elif "expected_response" in unit:
        sample["ideal"] = unit["expected_response"]
    if "response" in unit:
        sample["completion"] = unit["response"]
    return {**sample, **(item.get("variables") or {})}
