"""How the demo target writes a test collection: it knows the question of a step by its fenced texts and its words."""

from __future__ import annotations

import json
import re

from .cases import FAR, tests
from .inputs import described, kind_of, rewritten, values, wanted_in
from .prompt import intent, names_in, rules, sentences, subjects_in
from .step import Messages, Step, content_words, count_in, step_in, step_of
from .verbs import inverse

_MOST_RULES = 6


def written(messages: Messages, seed: float) -> str | None:
    """What a step is answered, drawn from its texts alone; None when the step is not known."""
    first = next((at for at, one in enumerate(messages) if one.get("role") == "assistant"), len(messages))
    step = step_in(messages[:first], seed)
    name = step_of(step)
    if name == "tests":
        return tests(step, messages[first:])
    return _WRITERS[name](step) if name else None


# -- what steps write


def _inputspec(step: Step) -> str:
    body = step.texts.get("prompt", "")
    names = names_in(body)
    if names in ([], ["input_text"]):
        found = ["The input is what a user asks or says, in one or more sentences."]
    else:
        found = [described(name, kind_of(name)) for name in names]
    kinds = {kind_of(name): name.replace("_", " ") for name in names}
    if "word" in kinds and kinds.keys() & {"sentence", "text"}:
        found.append(f"The {kinds['word']} is usually one that stands in the {kinds.get('sentence') or kinds['text']}.")
    for said in sentences(body):
        if case := re.match(r"(?:If|When|Whenever|Where) (?!you )(.{5,200}), ", said):
            found.append(f"It is a valid input, too, if {case[1]}.")
    if "empty" not in body:
        found.append("The input holds no part that is empty.")
    return "\n".join(found)


def _rules(step: Step) -> str:
    wanted = re.search(r"\b(\d{1,4})\b[^.\d\n]{0,40}\brules", step.words)
    most = int(wanted[1]) if wanted else _MOST_RULES
    return "\n".join(rules(step.texts.get("prompt", ""), max(1, min(most, _MOST_RULES))))


def _inverse(step: Step) -> str:
    return "\n".join(inverse(line) for line in step.texts["rules"].split("\n") if line.strip())


def _baseline(step: Step) -> str:
    wanted = wanted_in(step.texts["inputs"])
    body, count = step.texts.get("prompt", ""), count_in(step.words, 3)
    subjects = subjects_in(body)
    found = []
    for place in range(count):
        number = step.number + 500 * FAR + place
        given = values(wanted, number, place, "", subjects[place % len(subjects)] if subjects else "", {})
        found.append(next(iter(given.values())) if len(given) == 1 else json.dumps(given, ensure_ascii=False))
    return "\n===\n".join(found)


def _groundedness(step: Step) -> str:
    rule, prompt = step.texts["rule"], step.texts.get("prompt", "")
    asked, said = content_words(rule), content_words(prompt)
    missing = [word for word in asked if word not in said]
    if 2 * len(missing) > len(asked):
        return f"The instructions say nothing about {' or '.join(missing[:3])}.\nERR"
    return (
        f"The instructions speak of {', '.join(word for word in asked if word in said) or 'this'} as the rule does.\nOK"
    )


def _validity(step: Step) -> str:
    lines = [line for line in step.texts["inputspec"].split("\n") if line.strip()] or ["(none)"]
    line = lines[step.number // 10 % len(lines)]
    if step.number % 10 == 0:
        return f"The input can be read in a way that breaks this line: {line}\nERR"
    return f"The input breaks no line of the specification, nor this one: {line}\nOK"


_WRITERS = {
    "intent": lambda step: intent(step.texts["prompt"]),
    "inputspec": _inputspec,
    "rules": _rules,
    "inverse": _inverse,
    "baseline": _baseline,
    "expansion": lambda step: rewritten(step.texts["input"], step.number),
    "groundedness": _groundedness,
    "validity": _validity,
}
