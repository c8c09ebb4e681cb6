"""The steps that write text: intent, input specification, output rules and their inverse."""

from __future__ import annotations

import json

from .asking import CannotGenerate
from .parsing import tidy_rules, unfenced
from .shapes import lines_of
from .work import MOST_RULES, Work

_INVERSE_ATTEMPTS = 4
_EMPTY_ATTEMPTS = 2


def samples(work: Work) -> str:
    """The samples of the prompt, one JSON object a line."""
    return "\n".join(json.dumps(sample, ensure_ascii=False) for sample in work.subject.samples)


async def intent(work: Work) -> str:
    """What the prompt is for, in a sentence."""
    asked = work.prompts.messages("intent", {"prompt": work.body}, _instructions(work, "intent"))
    for attempt in range(_EMPTY_ATTEMPTS):
        said = await work.write_up("intent.txt", asked, attempt=attempt, tidy=unfenced)
        if sentence := " ".join(said.split()):
            return sentence + "\n"
    raise work.nothing("intent", "intent.txt")


async def inputspec(work: Work) -> str:
    """What limits the input, a statement a line."""
    texts = {"prompt": work.body, "examples": samples(work)}
    asked = work.prompts.messages("inputspec", texts, _instructions(work, "inputspec"))
    for attempt in range(_EMPTY_ATTEMPTS):
        said = await work.write_up("input_spec.txt", asked, attempt=attempt, tidy=tidy_rules)
        if said:
            return said + "\n"
    raise work.nothing("input specification", "input_spec.txt")


async def rules(work: Work) -> str:
    """What every output has to keep, a rule a line."""
    values = {"count": work.options.max_rules or 0, **_instructions(work, "rules")}
    asked = work.prompts.messages("rules", {"prompt": work.body}, values)
    said = await work.write_up("rules.txt", asked, tidy=tidy_rules)
    if not said:
        raise work.nothing("output rules", "rules.txt")
    return said + "\n"


async def inverse(work: Work) -> str:
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


async def _inverted(work: Work, rules: list[str]) -> str:
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


def refuse_too_many(work: Work, rules: list[str]) -> None:
    """CannotGenerate where there are no rules to go on with, or more than anybody wants to pay for."""
    file = work.folder.path / "rules.txt"
    if not rules:
        raise CannotGenerate(f"{file} holds no rule; write one rule a line, or delete the file to have them written")
    if len(rules) > MOST_RULES:
        raise CannotGenerate(
            f"{file} holds {len(rules)} rules, more than the {MOST_RULES} that tests are made for. Keep the rules that "
            "matter and delete the other lines, or delete the file and set --max-rules; then run the same command again"
        )


def _instructions(work: Work, step: str) -> dict[str, str]:
    return {"instructions": work.subject.instructions.get(step, "")}
