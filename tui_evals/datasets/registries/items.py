"""One sample of a registry as one item of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from string import ascii_uppercase
from typing import Any

from tui_evals.datasets.layout import Path

Data = Mapping[str, Any]
ROLES = ("system", "user", "assistant", "tool")
_QUESTIONS = (("question", "answers", "label"), ("ctx", "endings", "label"), ("question", "choices", "answer"))


class Unfit(ValueError):
    """A sample that cannot be an item: why, and in which of its fields."""

    def __init__(self, message: str, *path: str | int) -> None:
        super().__init__(message)
        self.path: Path = path


@dataclass(frozen=True, slots=True)
class Recipe:
    """How samples become items: which fields ask, which hold the answers to them, and what must be there."""

    inputs: Mapping[str, str]
    """Field of the input -> field of the answer, if a sample may bring one."""
    needs_ideal: bool = True
    needs_choice: bool = False
    few_shot: tuple[Data, ...] = ()
    names: Mapping[str, str] | None = None
    instructions: str | None = None
    """Text before each question; None unless the samples are multiple-choice questions."""

    def item(self, sample: Data, random: Random) -> dict[str, Any]:
        """The item of a sample; Unfit where it lacks what the eval needs."""
        if self.instructions is not None:
            return multiple_choice(sample, self.instructions, random)
        if self.names:
            sample = {self.names.get(key, key): value for key, value in sample.items()}
        return self._asked(sample) | self._references(sample) | self._rest(sample)

    @property
    def first(self) -> str:
        """The field that asks."""
        return next(iter(self.inputs), "input")

    def _asked(self, sample: Data) -> dict[str, Any]:
        for name in self.inputs or ("input",):
            if name not in sample:
                held = ", ".join(map(str, sample)) or "none"
                raise Unfit(f"the sample has no {name}; its fields are: {held[:200]}", name)
        asked = question(sample[self.first], self.first, self.few_shot)
        if len(self.inputs) < 2 or all(answer in sample for answer in self.inputs.values()):
            return asked
        if any(answer in sample for answer in self.inputs.values()):
            raise Unfit("holds some of the answers that are compared and not the others; give all or none", self.first)
        if any(sample[name] != sample[self.first] for name in self.inputs):
            names = " and ".join(self.inputs)
            raise Unfit(
                f"{names} ask different questions, and an item asks one whose answers are compared; give the "
                f"answers in {' and '.join(self.inputs.values())}",
                self.first,
            )
        return {**asked, "repeats": len(self.inputs)}

    def _references(self, sample: Data) -> dict[str, Any]:
        if "ideal" not in sample:
            if self.needs_ideal:
                raise Unfit("the sample has no ideal, which its answer is compared with", "ideal")
            return {}
        ideal = sample["ideal"]
        if isinstance(ideal, str):
            return {"expected_response": ideal}
        if isinstance(ideal, list) and all(isinstance(part, str) for part in ideal):
            return {"ideal": ideal}
        if self.needs_ideal:
            raise Unfit("ideal must be text or a list of texts", "ideal")
        return {}

    def _rest(self, sample: Data) -> dict[str, Any]:
        """The other fields, which grading prompts may show, and the answer where the sample has it already."""
        if self.needs_choice and not isinstance(sample.get("choice"), str):
            raise Unfit("metaeval compares the judge with the sample's choice, and there is none", "choice")
        taken = {self.first}
        if isinstance(sample.get("ideal"), str | list) and all(isinstance(part, str) for part in sample["ideal"]):
            taken.add("ideal")
        rest = {key: value for key, value in sample.items() if key not in taken}
        item: dict[str, Any] = {"variables": rest} if rest else {}
        given = [sample.get(answer) for answer in self.inputs.values()]
        if given and all(isinstance(answer, str) for answer in given):
            item["response"] = given[0]
        return item


def question(given: object, name: str, few_shot: Sequence[Data] = ()) -> dict[str, Any]:
    """What is asked: text as the prompt, a chat with the examples before its last message."""
    if isinstance(given, str):
        if few_shot:
            raise Unfit("examples (few_shot) can only be shown in a chat; write the input as a list of messages", name)
        return {"prompt": given} if given else {"messages": [{"role": "user", "content": ""}]}
    chat = messages(given, name)
    shown = [message for example in few_shot for message in messages(example["sample"], "sample")]
    last = chat[-1]
    if last.keys() == {"role", "content"} and last["role"] == "user" and last["content"]:
        history = [*chat[:-1], *shown]
        return ({"messages": history} if history else {}) | {"prompt": last["content"]}
    return {"messages": [*chat[:-1], *shown, last]}


def messages(given: object, name: str) -> list[dict[str, Any]]:
    """A list of chat messages, checked; what is null in them is left away."""
    if not isinstance(given, list) or not given:
        raise Unfit(f"{name} must be text or a list of chat messages", name)
    found = []
    for number, message in enumerate(given):
        if not isinstance(message, dict):
            raise Unfit("a chat message must be an object with role and content", name, number)
        if message.get("role") not in ROLES:
            raise Unfit(f"the role of a message is one of {', '.join(ROLES)}", name, number, "role")
        if not isinstance(message.get("content"), str):
            raise Unfit("the content of a message must be text", name, number, "content")
        if not isinstance(message.get("name", ""), str | None):
            raise Unfit("the name of a message must be text", name, number, "name")
        found.append({key: value for key, value in message.items() if value is not None})
    return found


def multiple_choice(sample: Data, instructions: str, random: Random) -> dict[str, Any]:
    """A question with its choices after letters, in the order the original would shuffle them."""
    names = next((names for names in _QUESTIONS if all(name in sample for name in names)), None)
    if names is None:
        held = ", ".join(map(str, sample)) or "none"
        raise Unfit(f"a multiple-choice sample holds question, answers and label; this one: {held[:200]}")
    asked, choices, right = (sample[name] for name in names)
    if not isinstance(asked, str):
        raise Unfit("the question must be text", names[0])
    if not isinstance(choices, list) or not all(isinstance(choice, str) for choice in choices):
        raise Unfit("the choices must be a list of texts", names[1])
    if not 1 <= len(choices) <= len(ascii_uppercase):
        raise Unfit(f"there are {len(choices)} choices; 1 to {len(ascii_uppercase)} can have a letter", names[1])
    place = int(right) if isinstance(right, str) and right.isdecimal() and right.isascii() else right
    if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < len(choices):
        raise Unfit("must be the place of the right choice, counted from 0", names[2])
    order = list(range(len(choices)))
    random.shuffle(order)
    lines = [f"{letter}) {choices[at]}" for letter, at in zip(ascii_uppercase, order, strict=False)]
    told = [instructions] if instructions else []
    said = [*told, "Reply with the letter of the right choice and nothing else.", "", asked, *lines]
    return {"prompt": "\n".join(said), "expected_response": ascii_uppercase[order.index(place)]}
