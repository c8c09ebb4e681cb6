"""The step that makes test inputs longer and more like real life, without changing what they test."""

from __future__ import annotations

import json

from .parsing import is_refusal, unfenced
from .shapes import Test, lines_of, rows_text
from .subject import Input
from .work import CREATIVE, Work, each
from .writing import samples


def unexpanded(work: Work) -> list[Test]:
    """The tests of rules that have not been made longer."""
    return [test for test in work.tests if not test.baseline and test.rule and test.testinputOriginal is None]


async def expansion(work: Work) -> str:
    """The tests with their inputs rewritten; the original input stays beside it."""
    made, cannot, ended = await each(work, "expansion", unexpanded(work), lambda test: _expanded(work, test))
    if cannot:
        work.tell(f"expansion: {len(cannot)} tests stay as they are, and the same command tries again: {cannot[0]}")
    if ended is not None:
        raise ended
    found = {test.testuid: test for test in made}
    return rows_text([found.get(test.testuid, test) for test in work.tests])


async def _expanded(work: Work, test: Test) -> Test:
    inputs = work.subject.open_inputs(work.subject.scenario(test.scenario))
    text = test.testinput
    for attempt in range(work.options.test_expansions):
        text = await _longer(work, test, text, inputs, attempt) or text
    return test.model_copy(update={"testinput": text, "testinputOriginal": test.testinput})


async def _longer(work: Work, test: Test, text: str, inputs: tuple[Input, ...], attempt: int) -> str | None:
    """The input rewritten once; None where the reply is none."""
    texts = {
        "intent": work.text("intent.txt"),
        "rules": "\n".join(lines_of(work.folder.read("rules.txt"))),
        "rule": test.rule or "",
        "input": text,
        "examples": samples(work),
    }
    names = [one.name for one in inputs] if len(inputs) > 1 else []
    values = {"names": ", ".join(names), "instructions": work.subject.instructions.get("expansion", "")}
    asked = work.prompts.messages("expansion", texts, values)
    said = await work.say(work.models.rules, asked, "expansion", attempt=attempt, params=CREATIVE)
    plain = unfenced(said).strip()
    if not plain or is_refusal(plain):
        return None
    return _object(plain, names) if names else plain


def _object(text: str, names: list[str]) -> str | None:
    """The reply as the object that was asked for."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if not isinstance(value, dict) or any(not isinstance(value.get(name), str) for name in names):
        return None
    return json.dumps({name: value[name] for name in names}, ensure_ascii=False)
