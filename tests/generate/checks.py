"""What the question of each step has to show."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.generate.expected import ROLE, Asked, Expected, need


def _is(asked: Asked, name: str, wanted: str) -> None:
    need(asked.texts.get(name) == wanted, f"{name} is {asked.texts.get(name)!r} instead of {wanted!r}")


def _one_of(asked: Asked, name: str, wanted: Sequence[str]) -> None:
    need(asked.texts.get(name) in wanted, f"{name} is {asked.texts.get(name)!r} and none of {wanted!r}")


def _body(asked: Asked, expected: Expected) -> None:
    _is(asked, "prompt", expected.prompt.body)


def _instructed(asked: Asked, expected: Expected, name: str) -> None:
    wanted = expected.prompt.instructions.get(name, "")
    need(wanted in asked.messages[0]["content"], f"the instructions {wanted!r} are missing")


def _sampled(asked: Asked, expected: Expected, name: str) -> None:
    found = [json.loads(line) for line in asked.texts.get(name, "").split("\n") if line]
    need(found == expected.prompt.samples, f"the samples are {found}")


def _intent(asked: Asked, expected: Expected) -> None:
    _body(asked, expected)
    _instructed(asked, expected, "intent")


def _inputspec(asked: Asked, expected: Expected) -> None:
    _body(asked, expected)
    _instructed(asked, expected, "inputSpec")
    _sampled(asked, expected, "examples")


def _rules(asked: Asked, expected: Expected) -> None:
    _body(asked, expected)
    _instructed(asked, expected, "outputRules")
    most = expected.max_rules
    need((f"the {most} most important rules" if most else "all rules") in asked.shown, "how many rules is not said")


def _inverse(asked: Asked, expected: Expected) -> None:
    rules = expected.lines("rules.txt")
    rules = [rules[expected.only_inverse - 1]] if expected.only_inverse else rules
    _is(asked, "rules", "\n".join(rules))
    _instructed(asked, expected, "inverseOutputRules")
    need(f"exactly {len(rules)} lines" in asked.shown, "how many rules there are is not said")


def _scenario(asked: Asked, expected: Expected) -> dict[str, Any]:
    told = asked.texts.get("scenario", "")
    found = [one for one in expected.prompt.scenarios if one["instructions"] in told]
    need(len(found) == bool(expected.prompt.scenarios), f"the scenario is {told!r}")
    for name, value in expected.prompt.fixed(found[0] if found else {}).items():
        need(name in told and value in told, f"the parameter {name} = {value} is missing")
    return found[0] if found else {}


def _inputs(asked: Asked, expected: Expected, names: Sequence[str]) -> None:
    lines = asked.texts.get("inputs", "").split("\n")
    need(len(lines) == len(names), f"the open inputs are {names}, and not {lines}")
    for line, name in zip(lines, names, strict=True):
        about = expected.prompt.inputs[name].get("description", "")
        need(name in line and about in line, f"the input {name} is not described: {line!r}")
    asked.names = list(names)


def _header(names: Sequence[str]) -> str:
    return ",".join(["ruleid", "testid", "expectedoutput", "reasoning", *names])


def _tests(asked: Asked, expected: Expected) -> None:
    _body(asked, expected)
    _is(asked, "inputspec", "\n".join(expected.lines("input_spec.txt")))
    _sampled(asked, expected, "samples")
    names = expected.prompt.open(_scenario(asked, expected))
    _inputs(asked, expected, names)
    chunks = {"\n".join(f"{number}. {rule}" for number, rule in one.items()): one for one in expected.chunks()}
    _one_of(asked, "rules", list(chunks))
    count = expected.tests_per_rule
    total = count * len(chunks[asked.texts["rules"]])
    need(f"Write {count} tests for each rule, {total} in all" in asked.shown, "the counts are missing")
    need(_header(names) in asked.messages[0]["content"].split("\n"), "the first line is missing")


def _further(asked: Asked, expected: Expected) -> None:
    """A question in the same conversation, which has to hold all that was said before."""
    _tests(asked, expected)
    roles = [said["role"] for said in asked.messages]
    need(roles[2::2] == ["assistant"] * len(roles[2::2]) and len(roles) > 3, f"the conversation is {roles}")
    need(_header(asked.names) in asked.messages[-1]["content"], "the first line is not said again")


def _more(asked: Asked, expected: Expected) -> None:
    _further(asked, expected)
    need(f"Write {expected.tests_per_rule} more tests" in asked.messages[-1]["content"], "the count is missing")


def _baseline(asked: Asked, expected: Expected) -> None:
    _body(asked, expected)
    _inputs(asked, expected, expected.prompt.open((expected.prompt.scenarios or [{}])[0]))
    count = sum(not test.get("baseline") for test in expected.tests())
    need(f"Write {count} of them" in asked.shown, f"{count} tests are wanted, which is not said")


def _expansion(asked: Asked, expected: Expected) -> None:
    _is(asked, "intent", "\n".join(expected.lines("intent.txt")))
    _is(asked, "rules", "\n".join(expected.lines("rules.txt")))
    _sampled(asked, expected, "examples")
    _instructed(asked, expected, "testExpansion")
    mine = [test for test in expected.tests() if test.get("rule") == asked.texts.get("rule")]
    need(mine, f"no test is of the rule {asked.texts.get('rule')!r}")
    _one_of(asked, "input", [test["testinput"] for test in mine])
    test = next(test for test in mine if test["testinput"] == asked.texts["input"])
    scenario = next((one for one in expected.prompt.scenarios if one["name"] == test.get("scenario")), {})
    asked.names = expected.prompt.open(scenario)
    need(len(asked.names) < 2 or ", ".join(asked.names) in asked.messages[0]["content"], "the fields are missing")


def _validity(asked: Asked, expected: Expected) -> None:
    _is(asked, "inputspec", "\n".join(expected.lines("input_spec.txt")))
    _one_of(asked, "input", [test["testinput"] for test in expected.tests()])


def _groundedness(asked: Asked, expected: Expected) -> None:
    _body(asked, expected)
    _one_of(asked, "rule", expected.lines("rules.txt"))


def _coverage(asked: Asked, expected: Expected) -> None:
    first, last = asked.messages
    for line in [*expected.lines("intent.txt"), *expected.lines("rules.txt")]:
        need(line in first["content"], f"{line!r} is missing")
    need(last["content"] in [test["testinput"] for test in expected.tests()], f"no test is {last['content']!r}")


def _put(asked: Asked, expected: Expected) -> None:
    """The prompt under test itself, with the inputs of one of the tests filled in."""
    need(asked.messages in [expected.prompt.rendered(test) for test in expected.tests()], f"no test: {asked.messages}")


def _without_roles(asked: Asked, expected: Expected) -> None:
    lines = [line for line in expected.prompt.body.split("\n") if line and not ROLE.match(line + "\n")]
    shown = asked.texts.get("prompt", "")
    need([line for line in shown.split("\n") if line] == lines, f"the prompt is {shown!r}")
    need(asked.texts.get("output"), "the output is missing")
    need(asked.texts.get("input"), "the input is missing")


def _referee(asked: Asked, expected: Expected) -> None:
    _without_roles(asked, expected)
    _one_of(asked, "input", [test["testinput"] for test in expected.tests()])


def _accuracy(asked: Asked, expected: Expected) -> None:
    _without_roles(asked, expected)
    _is(asked, "rules", "\n".join(expected.lines("rules.txt")))
    _one_of(asked, "groundtruth", [truth["output"] for truth in expected.rows("test_groundtruth.json")])


def _compliance(asked: Asked, expected: Expected) -> None:
    _is(asked, "rules", "\n".join(expected.lines("rules.txt")))
    _is(asked, "input_spec", "\n".join(expected.lines("input_spec.txt")))
    need(asked.texts.get("output"), "the output is missing")


CHECKS: Mapping[str, Callable[[Asked, Expected], None]] = {
    "intent": _intent,
    "inputspec": _inputspec,
    "rules": _rules,
    "inverse": _inverse,
    "tests": _tests,
    "more": _more,
    "repair": _further,
    "baseline": _baseline,
    "expansion": _expansion,
    "validity": _validity,
    "groundedness": _groundedness,
    "coverage": _coverage,
    "groundtruth": _put,
    "answer": _put,
    "groundtruth-judge": _referee,
    "accuracy": _accuracy,
    "compliance": _compliance,
}
