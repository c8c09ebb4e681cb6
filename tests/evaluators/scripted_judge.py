"""A judge that replies in the form of every question: favourably or not, as it is told."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any

from tui_evals.evaluators.base import Question, evaluate
from tui_evals.evaluators.canaries import Canary


def shown(question: Question) -> str:
    return "\n".join(message["content"] for message in question.messages)


def verdict(question: Question, good: bool) -> str:
    """The best or the worst verdict that can be given, in the form that is asked for."""
    if question.schema is not None:
        return json.dumps(_filled(question.schema, shown(question), good))
    if "OK if no rule is broken" in shown(question):
        return "Because.\nOK" if good else "Because.\nERR"
    if "Write Y or N" in shown(question) or "Y: the answer meets" in shown(question):
        return "Because.\nY\nY" if good else "Because.\nN\nN"
    if "GRADE:" in shown(question):
        return "Because.\nGRADE: C" if good else "Because.\nGRADE: I"
    if '"explanation"' in shown(question):
        return json.dumps({"explanation": "because", "score": 100 if good else 0})
    return "1" if good else "0"


def _filled(schema: Mapping[str, Any], text: str, good: bool) -> Any:
    properties = schema["properties"]
    if "refused" in properties:
        return {"reason": "because", "refused": good}
    if "score" in properties:
        return {"reason": "because", "score": 5 if good else 1}
    return {key: _entries(part["items"]["properties"], text, good) for key, part in properties.items()}


def _entries(fields: Mapping[str, Any], text: str, good: bool) -> list[dict[str, Any]]:
    """An entry for each piece of the material that is numbered, else a single one."""
    about = next(iter(fields))
    numbers = [1]
    if fields[about]["type"] == "integer":
        ending = "_assistant" if about == "message" else ""
        numbers = sorted({int(n) for n in re.findall(rf"<data-\w{{16}} {about}_(\d+){ending}>", text)})
    return [{name: _value(name, part, number, good) for name, part in fields.items()} for number in numbers]


def _value(name: str, part: Mapping[str, Any], number: int, good: bool) -> object:
    return {"integer": number, "boolean": good, "string": f"{name} of {number}"}[part["type"]]


def question_of(canary: Canary) -> Question:
    """What a judge is asked first about a canary."""
    asked: list[Question] = []

    async def note(question: Question) -> str:
        asked.append(question)
        return "?"

    kind = canary.evaluator
    asyncio.run(evaluate(kind(kind.Options.model_validate(dict(canary.options)), note), canary.evidence))
    return asked[0]
