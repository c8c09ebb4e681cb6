"""JSONL as OpenAI Evals uses it: `input` (text or chat), `ideal` (text or list), any other key a variable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tui_evals.text import strictjson


class SampleError(ValueError):
    """A line cannot be read; `line` says which."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def read_jsonl(text: str) -> tuple[list[dict[str, Any]], list[int]]:
    """The items of the lines and the line of each; blank lines are passed over."""
    items: list[dict[str, Any]] = []
    lines: list[int] = []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            sample = strictjson.loads(line)
        except strictjson.JsonError as problem:
            at = f" at column {problem.column}" if problem.column else ""
            raise SampleError(f"{problem}{at}", number) from None
        if not isinstance(sample, dict):
            raise SampleError("each line must be a JSON object with an input", number)
        try:
            items.append(_item_of_sample(sample))
        except ValueError as problem:
            raise SampleError(str(problem), number) from None
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
    taken = {"input", "ideal"} | ({"completion"} if "response" in item else set())
    if variables := {key: value for key, value in sample.items() if key not in taken}:
        item["variables"] = variables
    return item


def _input_fields(given: object) -> dict[str, Any]:
    if isinstance(given, str):
        return {"prompt": given}
    if not isinstance(given, list) or not all(isinstance(part, dict) for part in given) or not given:
        raise ValueError("input must be text or a list of chat messages")
    last = given[-1]
    if last.keys() == {"role", "content"} and last["role"] == "user" and last["content"]:
        return {"messages": given[:-1], "prompt": last["content"]}
    return {"messages": given}


def _ideal_fields(given: object) -> dict[str, Any]:
    if isinstance(given, str):
        return {"expected_response": given}
    if isinstance(given, list) and all(isinstance(part, str) for part in given):
        return {"ideal": given}
    raise ValueError("ideal must be text or a list of texts")


def write_jsonl(items: Sequence[Mapping[str, Any]]) -> tuple[str, list[str]]:
    """One sample a line and what they could not hold; each turn of a conversation becomes a sample with its past."""
    lost: list[str] = []
    lines: list[str] = []
    known = {"prompt", "messages", "turns", "expected_response", "ideal", "response", "variables"}
    for number, item in enumerate(items):
        units = item.get("turns") or [item]
        if item.get("turns"):
            lost.append(f"items[{number}]: the conversation became {len(units)} samples, each with the turns before it")
        if gone := sorted({field for part in (item, *units) for field in part} - known):
            lost.append(f"items[{number}]: a sample has no place for {', '.join(gone)}")
        past: list[Mapping[str, Any]] = [] if units[0] is item else list(item.get("messages") or [])
        for unit in units:
            lines.append(strictjson.dumps(_sample_of_unit(item, unit, past)))
            past += [*(unit.get("messages") or []), {"role": "user", "content": unit.get("prompt", "")}]
            if said := unit.get("expected_response") or unit.get("response"):
                past.append({"role": "assistant", "content": said})
    return "".join(line + "\n" for line in lines), lost


def _sample_of_unit(
    item: Mapping[str, Any], unit: Mapping[str, Any], past: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    history = [*past, *(unit.get("messages") or [])]
    prompt = unit.get("prompt")
    chat = bool(history) or "messages" in unit
    asked = [{"role": "user", "content": prompt}] if prompt is not None else []
    sample: dict[str, Any] = {"input": [*history, *asked] if chat else prompt}
    if "ideal" in unit:
        sample["ideal"] = unit["ideal"]
    elif "expected_response" in unit:
        sample["ideal"] = unit["expected_response"]
    if "response" in unit:
        sample["completion"] = unit["response"]
    return {**sample, **(item.get("variables") or {})}
