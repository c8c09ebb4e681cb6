"""Prompt files of GitHub Models, with the tests of a generation and judges for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tui_evals.datasets.github_prompt import PARAMETERS, github_text
from tui_evals.generate.parsing import model_slug
from tui_evals.generate.shapes import Test, Truth
from tui_evals.generate.subject import Subject

from .shared import (
    JUDGE,
    Export,
    Facts,
    Messages,
    Row,
    braced,
    constants,
    free,
    judging,
    messages_of,
    model_of,
    readable,
    rows_of_tests,
)


def github_prompt(
    subject: Subject,
    tests: Sequence[Test],
    truths: Sequence[Truth],
    facts: Facts,
    model: str,
    metrics: Mapping[str, Path],
) -> Export | None:
    """The prompt file for a model of GitHub, with the tests and evaluators; None for any other model."""
    name = model_of(model, "github")
    if not name:
        return None
    messages, computed = messages_of(subject, braced)
    rows, unbound = rows_of_tests(subject, tests, truths, computed)
    left_out = list(unbound)
    expected = free("expected", subject)
    shown = "\n\n".join(message["content"] for message in messages)
    front = subject.prompty.front
    document = {
        "name": front.get("name") or subject.name,
        "description": front.get("description"),
        "model": name,
        "modelParameters": _parameters(front.get("model")),
        "messages": messages,
        "testData": [_datum(subject, row, expected) for row in rows],
        "evaluators": [
            {"name": "like-expected", "llm": _likeness(_inputs_shown(subject), expected)},
            *_github_metrics(subject, constants(subject, facts) | {"prompt": shown}, metrics, expected, left_out),
        ],
    }
    text = github_text({key: value for key, value in document.items() if value is not None})
    return Export(f"{model_slug('github:' + name)}.prompt.yml", text, tuple(left_out))


def _datum(subject: Subject, row: Row, expected: str) -> dict[str, Any]:
    reasoning = {free("reasoning", subject): row.test.reasoning} if row.test.reasoning else {}
    return {**row.values, **row.computed, **reasoning, expected: row.expected}


def _parameters(model: object) -> dict[str, Any] | None:
    """The parameters of the front matter's model as GitHub Models spells them."""
    given = model.get("parameters") if isinstance(model, dict) else None
    if not isinstance(given, dict):
        return None
    spelled = {ours: theirs for theirs, ours in PARAMETERS.items()}
    return {spelled.get(str(name), str(name)): value for name, value in given.items()}


def _likeness(inputs: str, expected: str) -> dict[str, Any]:
    """A judge that compares the completion with what was expected, from 1 to 5."""
    return {
        "modelId": f"openai/{JUDGE}",
        "systemPrompt": (
            "You grade an answer against a reference answer to the same input.\n"
            "5: it says the same, in the same form\n"
            "4: it says the same, and differs in form only\n"
            "3: it says most of it\n"
            "2: it says little of it, or adds what is wrong\n"
            "1: it says something else\n"
            "Reply with one digit and nothing else."
        ),
        "prompt": f"Input:\n{inputs}\n\nReference answer:\n{{{{{expected}}}}}\n\nAnswer:\n{{{{completion}}}}\n\nGrade:",
        "choices": [{"choice": str(grade), "score": (grade - 1) / 4} for grade in range(1, 6)],
    }


def _github_metrics(
    subject: Subject, texts: Mapping[str, str], metrics: Mapping[str, Path], expected: str, left_out: list[str]
) -> list[dict[str, Any]]:
    """An evaluator for each metric tagged `github`."""
    known = {"output": "{{completion}}", "groundtruth": braced(expected), "input": _inputs_shown(subject)}
    known = {one.name: braced(one.name) for one in subject.inputs} | known | dict(texts)
    found = []
    for name, prompt in readable(metrics, left_out, tag="github"):
        if messages := judging(name, prompt, lambda word: known.get(word, ""), left_out):
            found.append({"name": name, "llm": _verdict(messages)})
    return found


def _verdict(messages: Messages) -> dict[str, Any]:
    """A judge that ends with OK or ERR; only its prompt is a template, so a system message with names moves there."""
    told = [one["content"] for one in messages if one["role"] == "system" and "{{" not in one["content"]]
    asked = [one["content"] for one in messages if one["role"] != "system" or "{{" in one["content"]]
    # ERR stands first because the first choice that is part of a reply is taken, and "looks" holds an OK.
    choices = [{"choice": "ERR", "score": 0}, {"choice": "OK", "score": 1}]
    system = {"systemPrompt": "\n\n".join(told)} if told and asked else {}
    return {"modelId": f"openai/{JUDGE}", **system, "prompt": "\n\n".join(asked or told), "choices": choices}


def _inputs_shown(subject: Subject) -> str:
    names = [one.name for one in subject.inputs]
    return braced(names[0]) if len(names) == 1 else "\n".join(f"{name}: {braced(name)}" for name in names)
