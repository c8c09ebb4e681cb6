"""Which step asks a question, and whether it shows what it has to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from tests.generate.checks import CHECKS
from tests.generate.expected import JUDGE, REFEREE, TRUTH, UNDER_TEST, WRITER, Asked, Complaint, Expected, need

_FENCE = re.compile(r"<data-([0-9a-f]{16}) (\w+)>\n(.*?)\n</data-\1>", re.DOTALL)


@cache
def _sign(package: str, name: str) -> str:
    """What tells a shipped prompt from all others: the longest stretch of its first line without a variable."""
    text = (files(package) / "prompts" / f"{name}.prompty").read_text(encoding="utf-8")
    first = re.split(r"^(?:system|user):\n", text, flags=re.MULTILINE)[1].split("\n")[0]
    return max(re.split(r"\{\{.*?\}\}", first), key=len)


_FURTHER = ("more", "repair")
_STEPS = ("intent", "inputspec", "rules", "inverse", "tests", "baseline", "expansion", "validity", "groundedness")
_JUDGING = {
    "groundtruth-judge": "groundtruth-eval.metric",
    "accuracy": "accuracy.metric",
    "compliance": "compliance",
}


def _step_of(model: str, messages: Sequence[Mapping[str, str]]) -> str:
    """Which step asks."""
    if model in (TRUTH, UNDER_TEST):
        return "groundtruth" if model == TRUTH else "answer"
    last = messages[-1]["content"]
    if found := [name for name in _FURTHER if _sign("tui_evals.generate", name) in last]:
        return found[0]
    first = messages[0]["content"]
    signs = {name: _sign("tui_evals.generate", name) for name in _STEPS}
    signs |= {name: _sign("tui_evals.evaluators", file) for name, file in _JUDGING.items()}
    found = [name for name, sign in signs.items() if sign in first]
    if not found and "Your answer keeps all of these rules" in first:
        return "coverage"
    need(len(found) == 1, f"nobody knows which step asks this: {messages}")
    return found[0]


def read_question(model: str, key: str, messages: list[dict[str, str]], expected: Expected) -> Asked:
    """A question, or Complaint about what is not in it."""
    step = _step_of(model, messages)
    shown = "\n".join(said["content"] for said in messages if said["role"] != "assistant")
    asked = Asked(step, model, key, messages, {name: text for _, name, text in _FENCE.findall(shown)})
    try:
        CHECKS[step](asked, expected)
    except Complaint as complaint:
        raise Complaint(f"{step}: {complaint}") from None
    by = {"groundtruth": TRUTH, "answer": UNDER_TEST, "groundtruth-judge": REFEREE}
    by |= dict.fromkeys(("validity", "groundedness", "accuracy", "compliance"), JUDGE)
    need(model == by.get(step, WRITER), f"{step} was asked of {model}")
    return asked
