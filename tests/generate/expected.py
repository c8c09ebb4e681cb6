"""What the questions of a generation are held against, and a question as it is logged."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROLE = re.compile(r"^(system|user|assistant):\n", re.MULTILINE)
WRITER, TRUTH, JUDGE, REFEREE, UNDER_TEST = "writer", "truth", "judge", "referee", "under-test"
"""The models by what they do; the referee looks over the ground truth."""


class Complaint(Exception):
    """A question lacks what its step has to show."""


def need(condition: object, complaint: str) -> None:
    """Complain unless a condition holds."""
    if not condition:
        raise Complaint(complaint)


@dataclass
class Prompt:
    """A prompt under test: its text, and what stands in its front matter."""

    body: str
    inputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    scenarios: list[dict[str, Any]] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    instructions: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The file."""
        front = {"inputs": self.inputs, "scenarios": self.scenarios, "testSamples": self.samples}
        told = {**front, "instructions": self.instructions}
        lines = [f"{key}: {json.dumps(value)}" for key, value in told.items() if value]
        return "\n".join(["---", "name: shop", *lines, "---", self.body, ""])

    def fixed(self, scenario: Mapping[str, Any]) -> dict[str, Any]:
        """What a scenario gives a value."""
        return dict(scenario.get("parameters", {}))

    def open(self, scenario: Mapping[str, Any]) -> list[str]:
        """The inputs that tests bring."""
        free = [name for name, about in self.inputs.items() if "default" not in about]
        return [name for name in free if name not in self.fixed(scenario)]

    def rendered(self, test: Mapping[str, Any]) -> list[dict[str, str]]:
        """The chat with the inputs of a test filled in."""
        scenario = next((one for one in self.scenarios if one["name"] == test.get("scenario")), {})
        values = {name: about["default"] for name, about in self.inputs.items() if "default" in about}
        values |= self.fixed(scenario)
        names = self.open(scenario)
        values |= json.loads(test["testinput"]) if len(names) > 1 else {names[0]: test["testinput"]}
        _, *parts = ROLE.split(self.body)
        filled = (re.sub(r"\{\{(\w+)\}\}", lambda found: str(values[found[1]]), text.strip()) for text in parts[1::2])
        return [{"role": role, "content": text} for role, text in zip(parts[::2], filled, strict=True)]


@dataclass
class Expected:
    """What the questions are held against: the prompt, the files of the generation, the options."""

    prompt: Prompt = field(default_factory=lambda: Prompt(""))
    folder: Path = Path()
    tests_per_rule: int = 3
    max_rules: int | None = 3
    per_question: int = 100
    only: frozenset[int] = frozenset()
    """The rules whose tests are made anew, where it is not all."""
    only_inverse: int = 0
    """The output rule whose inverse is made anew, where it is not all."""

    def lines(self, name: str) -> list[str]:
        """The lines of a file of the generation."""
        return self._read(name).split("\n")[:-1]

    def _read(self, name: str) -> str:
        try:
            return (self.folder / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise Complaint(f"it is too early for this question: there is no {name}") from None

    def tests(self) -> list[dict[str, Any]]:
        """The tests as they stand."""
        return self.rows("tests.json")

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a file of the generation."""
        return list(json.loads(self._read(name)))

    def chunks(self) -> list[dict[int, str]]:
        """The rules of each question for tests under their numbers, which go on over the inverse rules."""
        found, number = [], 0
        for name in ("rules.txt", "inverse_rules.txt"):
            kept = {number + place: text for place, text in enumerate(self.lines(name)[: self.max_rules], 1)}
            number += len(kept)
            wanted = [(number, text) for number, text in kept.items() if not self.only or number in self.only]
            found += [dict(wanted[at : at + self.per_question]) for at in range(0, len(wanted), self.per_question)]
        return found


@dataclass
class Asked:
    """One call as it is logged; `texts` holds what stood between marks."""

    step: str
    model: str
    key: str
    messages: list[dict[str, str]]
    texts: dict[str, str]
    names: list[str] = field(default_factory=list)
    attempt: int = 1
    answers: int = 0
    """How often the same question was answered before."""
    kind: str = ""
    answered: bool = False

    @property
    def shown(self) -> str:
        """All that was said by system and user."""
        return "\n".join(said["content"] for said in self.messages if said["role"] != "assistant")
