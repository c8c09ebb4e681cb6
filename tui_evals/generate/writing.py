"""The steps that write text: intent, input specification, output rules and their inverse."""

from __future__ import annotations

import json

from .asking import CannotGenerate
from .parsing import is_refusal, strip_fence, tidy_rules
from .shapes import Test, rows_text, rule_lines
from .subject import PromptInput
from .work import CREATIVE, MAX_RULES, Generation, make_each

_INVERSE_ATTEMPTS = 4
_EMPTY_ATTEMPTS = 2


def samples_text(work: Generation) -> str:
    """The samples of the prompt, one JSON object a line."""
    return "\n".join(json.dumps(sample, ensure_ascii=False) for sample in work.subject.samples)


async def write_intent(work: Generation) -> str:
    """What the prompt is for, in a sentence."""
    messages = work.prompts.messages("intent", {"prompt": work.body}, _instructions(work, "intent"))
    for attempt in range(_EMPTY_ATTEMPTS):
        reply = await work.write_text("intent.txt", messages, attempt=attempt, tidy=strip_fence)
        if sentence := " ".join(reply.split()):
            return sentence + "\n"
    raise work.nothing_written("intent", "intent.txt")


async def write_input_spec(work: Generation) -> str:
    """The limits of the input, a statement a line."""
    texts = {"prompt": work.body, "examples": samples_text(work)}
    messages = work.prompts.messages("inputspec", texts, _instructions(work, "inputspec"))
    for attempt in range(_EMPTY_ATTEMPTS):
        reply = await work.write_text("input_spec.txt", messages, attempt=attempt, tidy=tidy_rules)
        if reply:
            return reply + "\n"
    raise work.nothing_written("input specification", "input_spec.txt")


async def write_rules(work: Generation) -> str:
    """The rules that every output has to keep, one a line."""
    values = {"count": work.options.max_rules or 0, **_instructions(work, "rules")}
    messages = work.prompts.messages("rules", {"prompt": work.body}, values)
    reply = await work.write_text("rules.txt", messages, tidy=tidy_rules)
    if not reply:
        raise work.nothing_written("output rules", "rules.txt")
    return reply + "\n"


async def write_inverse_rules(work: Generation) -> str:
    """For each output rule one that contradicts it; where some are made anew, the others stay."""
    rules = rule_lines(work.folder.read("rules.txt"))
    check_rule_count(work, rules)
    if not work.invert:
        return await _invert_rules(work, rules) + "\n"
    before = rule_lines(work.folder.read("inverse_rules.txt"))
    if len(before) != len(rules):
        raise CannotGenerate(
            f"{work.folder.path / 'inverse_rules.txt'} holds {len(before)} rules and rules.txt {len(rules)}, so nobody "
            "knows which belongs to which; mend the file, or make it anew with --from inverse"
        )
    if outside := [place for place in work.invert if not 1 <= place <= len(rules)]:
        raise CannotGenerate(f"there is no output rule {outside[0]}; they are numbered 1 to {len(rules)}")
    for place in sorted(work.invert):
        turned = rule_lines(await _invert_rules(work, [rules[place - 1]]))
        before[place - 1] = " ".join(turned)
    return "\n".join(before) + "\n"


async def _invert_rules(work: Generation, rules: list[str]) -> str:
    """One inverse rule for each rule; asked again where the model wrote another number of them."""
    values = {"count": len(rules), **_instructions(work, "inverse")}
    messages = work.prompts.messages("inverse", {"rules": "\n".join(rules)}, values)
    reply = ""
    for attempt in range(_INVERSE_ATTEMPTS):
        reply = await work.write_text("inverse_rules.txt", messages, attempt=attempt, tidy=tidy_rules)
        if len(rule_lines(reply)) == len(rules):
            return reply
    if not reply:
        raise work.nothing_written("inverse rules", "inverse_rules.txt")
    work.tell(
        f"inverse_rules.txt holds {len(rule_lines(reply))} rules where rules.txt holds {len(rules)}, after "
        f"{_INVERSE_ATTEMPTS} attempts; the last reply is kept, look through it"
    )
    return reply


def check_rule_count(work: Generation, rules: list[str]) -> None:
    """CannotGenerate where there are no rules, or too many."""
    file = work.folder.path / "rules.txt"
    if not rules:
        raise CannotGenerate(f"{file} holds no rule; write one rule a line, or delete the file to have them written")
    if len(rules) > MAX_RULES:
        raise CannotGenerate(
            f"{file} holds {len(rules)} rules, more than the {MAX_RULES} that tests are made for. Keep the rules that "
            "matter and delete the other lines, or delete the file and set --max-rules; then run the same command again"
        )


def _instructions(work: Generation, step: str) -> dict[str, str]:
    return {"instructions": work.subject.instructions.get(step, "")}


def tests_to_expand(work: Generation) -> list[Test]:
    """The tests of rules whose input has not been rewritten yet."""
    return [test for test in work.tests if not test.baseline and test.rule and test.testinputOriginal is None]


async def expand_tests(work: Generation) -> str:
    """The tests with their inputs rewritten; the original input stays beside it."""
    results, failures, stop = await make_each(
        work, "expansion", tests_to_expand(work), lambda test: _expand_test(work, test)
    )
    if failures:
        work.tell(f"expansion: {len(failures)} tests stay as they are, and the same command tries again: {failures[0]}")
    if stop is not None:
        raise stop
    expanded = {test.testuid: test for test in results}
    return rows_text([expanded.get(test.testuid, test) for test in work.tests])


async def _expand_test(work: Generation, test: Test) -> Test:
    inputs = work.subject.open_inputs(work.subject.scenario(test.scenario))
    text = test.testinput
    for attempt in range(work.options.test_expansions):
        text = await _rewrite_input(work, test, text, inputs, attempt) or text
    return test.model_copy(update={"testinput": text, "testinputOriginal": test.testinput})


async def _rewrite_input(
    work: Generation, test: Test, text: str, inputs: tuple[PromptInput, ...], attempt: int
) -> str | None:
    """The input rewritten once; None where the reply cannot be used."""
    texts = {
        "intent": work.text("intent.txt"),
        "rules": "\n".join(rule_lines(work.folder.read("rules.txt"))),
        "rule": test.rule or "",
        "input": text,
        "examples": samples_text(work),
    }
    names = [one.name for one in inputs] if len(inputs) > 1 else []
    values = {"names": ", ".join(names), "instructions": work.subject.instructions.get("expansion", "")}
    messages = work.prompts.messages("expansion", texts, values)
    reply = await work.ask(work.models.rules, messages, "expansion", attempt=attempt, params=CREATIVE)
    rewritten = strip_fence(reply).strip()
    if not rewritten or is_refusal(rewritten):
        return None
    return _checked_object(rewritten, names) if names else rewritten


def _checked_object(text: str, names: list[str]) -> str | None:
    """The reply as the object that was asked for."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if not isinstance(value, dict) or any(not isinstance(value.get(name), str) for name in names):
        return None
    return json.dumps({name: value[name] for name in names}, ensure_ascii=False)
