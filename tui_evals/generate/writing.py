"""The steps that write text: intent, input specification, output rules and their inverse."""

from __future__ import annotations

import json

from .asking import CannotGenerate
from .parsing import is_refusal, tidy_rules, unfenced
from .shapes import Test, lines_of, rows_text
from .subject import Input
from .work import CREATIVE, MOST_RULES, Generation, each

_INVERSE_ATTEMPTS = 4
_EMPTY_ATTEMPTS = 2


def samples(work: Generation) -> str:
    """The samples of the prompt, one JSON object a line."""
    return "\n".join(json.dumps(sample, ensure_ascii=False) for sample in work.subject.samples)


async def intent(work: Generation) -> str:
    """What the prompt is for, in a sentence."""
    asked = work.prompts.messages("intent", {"prompt": work.body}, _instructions(work, "intent"))
    for attempt in range(_EMPTY_ATTEMPTS):
        said = await work.write_up("intent.txt", asked, attempt=attempt, tidy=unfenced)
        if sentence := " ".join(said.split()):
            return sentence + "\n"
    raise work.nothing("intent", "intent.txt")


async def inputspec(work: Generation) -> str:
    """What limits the input, a statement a line."""
    texts = {"prompt": work.body, "examples": samples(work)}
    asked = work.prompts.messages("inputspec", texts, _instructions(work, "inputspec"))
    for attempt in range(_EMPTY_ATTEMPTS):
        said = await work.write_up("input_spec.txt", asked, attempt=attempt, tidy=tidy_rules)
        if said:
            return said + "\n"
    raise work.nothing("input specification", "input_spec.txt")


async def rules(work: Generation) -> str:
    """What every output has to keep, a rule a line."""
    values = {"count": work.options.max_rules or 0, **_instructions(work, "rules")}
    asked = work.prompts.messages("rules", {"prompt": work.body}, values)
    said = await work.write_up("rules.txt", asked, tidy=tidy_rules)
    if not said:
        raise work.nothing("output rules", "rules.txt")
    return said + "\n"


async def inverse(work: Generation) -> str:
    """For each output rule one that contradicts it; where some are made anew, the others stay."""
    rules = lines_of(work.folder.read("rules.txt"))
    refuse_too_many(work, rules)
    if not work.invert:
        return await _inverted(work, rules) + "\n"
    before = lines_of(work.folder.read("inverse_rules.txt"))
    if len(before) != len(rules):
        raise CannotGenerate(
            f"{work.folder.path / 'inverse_rules.txt'} holds {len(before)} rules and rules.txt {len(rules)}, so nobody "
            "knows which belongs to which; mend the file, or make it anew with --from inverse"
        )
    if outside := [place for place in work.invert if not 1 <= place <= len(rules)]:
        raise CannotGenerate(f"there is no output rule {outside[0]}; they are numbered 1 to {len(rules)}")
    for place in sorted(work.invert):
        turned = lines_of(await _inverted(work, [rules[place - 1]]))
        before[place - 1] = " ".join(turned)
    return "\n".join(before) + "\n"


async def _inverted(work: Generation, rules: list[str]) -> str:
    """As many inverse rules as there are rules, if the model can be brought to count."""
    values = {"count": len(rules), **_instructions(work, "inverse")}
    asked = work.prompts.messages("inverse", {"rules": "\n".join(rules)}, values)
    said = ""
    for attempt in range(_INVERSE_ATTEMPTS):
        said = await work.write_up("inverse_rules.txt", asked, attempt=attempt, tidy=tidy_rules)
        if len(lines_of(said)) == len(rules):
            return said
    if not said:
        raise work.nothing("inverse rules", "inverse_rules.txt")
    work.tell(
        f"inverse_rules.txt holds {len(lines_of(said))} rules where rules.txt holds {len(rules)}, after "
        f"{_INVERSE_ATTEMPTS} attempts; the last reply is kept, look through it"
    )
    return said


def refuse_too_many(work: Generation, rules: list[str]) -> None:
    """CannotGenerate where there are no rules to go on with, or more than anybody wants to pay for."""
    file = work.folder.path / "rules.txt"
    if not rules:
        raise CannotGenerate(f"{file} holds no rule; write one rule a line, or delete the file to have them written")
    if len(rules) > MOST_RULES:
        raise CannotGenerate(
            f"{file} holds {len(rules)} rules, more than the {MOST_RULES} that tests are made for. Keep the rules that "
            "matter and delete the other lines, or delete the file and set --max-rules; then run the same command again"
        )


def _instructions(work: Generation, step: str) -> dict[str, str]:
    return {"instructions": work.subject.instructions.get(step, "")}


def unexpanded(work: Generation) -> list[Test]:
    """The tests of rules that have not been made longer."""
    return [test for test in work.tests if not test.baseline and test.rule and test.testinputOriginal is None]


async def expansion(work: Generation) -> str:
    """The tests with their inputs rewritten; the original input stays beside it."""
    made, cannot, ended = await each(work, "expansion", unexpanded(work), lambda test: _expanded(work, test))
    if cannot:
        work.tell(f"expansion: {len(cannot)} tests stay as they are, and the same command tries again: {cannot[0]}")
    if ended is not None:
        raise ended
    found = {test.testuid: test for test in made}
    return rows_text([found.get(test.testuid, test) for test in work.tests])


async def _expanded(work: Generation, test: Test) -> Test:
    inputs = work.subject.open_inputs(work.subject.scenario(test.scenario))
    text = test.testinput
    for attempt in range(work.options.test_expansions):
        text = await _longer(work, test, text, inputs, attempt) or text
    return test.model_copy(update={"testinput": text, "testinputOriginal": test.testinput})


async def _longer(work: Generation, test: Test, text: str, inputs: tuple[Input, ...], attempt: int) -> str | None:
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
