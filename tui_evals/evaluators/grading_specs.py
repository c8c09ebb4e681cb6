"""Specs of model-graded evaluations in the format of OpenAI Evals, and the choice in a reply."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from itertools import product
from pathlib import Path
from random import Random
from typing import ClassVar, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from tui_evals.light_records import dataclass
from tui_evals.project_files import TooLarge, read_bytes
from tui_evals.text.templates import TemplateError, fill_template, template_fields
from tui_evals.text.yamls import YamlError, load_yaml

from .base import Misconfigured, Question
from .judging import check_shown_size, fence_mark, fenced_text, with_fence_notice

EvalType = Literal["classify", "classify_cot", "cot_classify", "cot_classify_jp"]
MatchFn = Literal["starts_or_endswith", "endswith", "exact", "include", "contains"]
ChoiceScores = Literal["from_strings"] | Mapping[str, float]

INVALID = "__invalid__"
MAX_CALLS = 100
_FULL_STOPS = (".", "。")

_MATCHERS: Mapping[str, Callable[[str, str], bool]] = {
    "starts_or_endswith": lambda line, choice: line.startswith(choice) or line.endswith(choice),
    "endswith": str.endswith,
    "exact": str.__eq__,
    "include": lambda line, choice: line in choice,
    "contains": lambda line, choice: choice in line,
}

_INSTRUCTIONS: Mapping[str, str] = {
    "classify": (
        "Reply with your choice and nothing else: {choices}. Write it bare, without quotes and without punctuation."
    ),
    "classify_cot": (
        "Let the first line of your reply hold your choice and nothing else: {choices}, bare, without quotes and "
        "without punctuation. Give your reasons from the second line on."
    ),
    "cot_classify": (
        "Begin with your reasons, one step after another, and commit yourself to nothing before they are complete. "
        "Next comes a line that holds your choice alone: {choices}, bare, without quotes and without punctuation. "
        "The last line of your reply holds that choice again, and nothing else."
    ),
    "cot_classify_jp": (
        "結論を急がず、はじめに判断の根拠を順序立てて述べてください。続いて {choices} の中からひとつを選び、"
        "かぎ括弧・引用符・句読点を付けず、それだけを一行に記してください。"
        "返答の最終行には、選んだものだけを改めて記してください。"
    ),
}


def _lower_letter(position: int) -> str:
    return string.ascii_lowercase[(position - 1) % 26]


def _upper_letter(position: int) -> str:
    return string.ascii_uppercase[(position - 1) % 26]


NUMBERED: Mapping[str, Callable[[int], str]] = {"from_n": str, "from_n_abc": _lower_letter, "from_n_ABC": _upper_letter}


class ChoiceError(ValueError):
    """Choices or their scores that cannot be used; the message says which and why."""


def parse_choice(
    text: str,
    choices: Sequence[str],
    eval_type: str = "cot_classify",
    match_fn: str = "starts_or_endswith",
    *,
    compat: bool = False,
) -> str:
    """The choice a grader's reply makes, or `__invalid__`.

    The reply is trimmed and loses one full stop at its end (not with `compat`, which reads as OpenAI Evals does). Its
    lines are read from the top, or from the bottom when `eval_type` starts with `cot_classify`. Each is trimmed and
    freed of ASCII punctuation. The first line that any choice fits decides; in it, the choice declared first.

    `match_fn` says what fits, always case-sensitively: `starts_or_endswith` (the line starts or ends with the
    choice), `endswith`, `exact`, `contains` (the choice is somewhere in the line), and `include`, which is the
    reverse: the line is a part of the choice.
    """
    if match_fn not in _MATCHERS:
        raise ChoiceError(f"there is no match_fn {match_fn!r}; the known ones are {', '.join(_MATCHERS)}")
    fits, text = _MATCHERS[match_fn], text.strip()
    if not compat and text.endswith(_FULL_STOPS):
        text = text[:-1]
    lines = [line for line in map(str.strip, text.split("\n")) if line]
    if eval_type.startswith("cot_classify"):
        lines.reverse()
    body = "\n".join(lines)
    for mark in string.punctuation:  # on the whole reply, because that takes a tenth of the time of every line alone
        body = body.replace(mark, "")
    for line in filter(None, dict.fromkeys(body.split("\n"))):
        for choice in choices:
            if fits(line, choice):
                return choice
    return INVALID


def choice_strings(spec: str | Sequence[str], n: int | None = 1) -> tuple[str, ...]:
    """The choices a spec names: a list, the characters of a string, or one for each of n answers.

    `from_n` means 1, 2, 3 ... n; `from_n_abc` a, b, c ...; `from_n_ABC` A, B, C ... (after 26 letters from the first
    again). A choice with ASCII punctuation could never be read, so it is refused.
    """
    if isinstance(spec, str) and spec in NUMBERED:
        if n is None or n < 1:
            raise ChoiceError(f"choice_strings {spec!r} needs the number of answers, 1 or more, and got {n}")
        return tuple(map(NUMBERED[spec], range(1, n + 1)))
    choices = tuple(spec)
    for choice in choices:
        if not choice.strip() or "\n" in choice or not set(string.punctuation).isdisjoint(choice):
            raise ChoiceError(
                f"the choice {choice[:40]!r} cannot be found in a reply; use one line of letters, digits and spaces"
            )
    return choices


def choice_scores(choices: Sequence[str], scores: ChoiceScores | None) -> dict[str, float] | None:
    """The score of every choice: as the mapping says, or with `from_strings` the choice read as a number."""
    if scores is None:
        return None
    if scores == "from_strings":
        table = {choice: _choice_number(choice) for choice in choices}
    elif isinstance(scores, Mapping):
        table = {choice: float(score) for choice, score in scores.items()}
    else:
        raise ChoiceError(f"choice_scores is {scores!r}; write 'from_strings' or a score for each choice")
    if missing := [choice for choice in choices if choice not in table]:
        raise ChoiceError(f"choice_scores gives no score for {quoted_choices(missing)}; every choice needs one")
    if not all(map(math.isfinite, table.values())):
        raise ChoiceError("choice_scores holds a number that is not finite")
    return table


def _choice_number(choice: str) -> float:
    try:
        return float(choice)
    except ValueError:
        raise ChoiceError(f"the choice {choice!r} is not a number, so 'from_strings' cannot score it") from None


def choice_score(
    choice: str, table: Mapping[str, float] | None, invalid: Literal["exclude", "lowest"] = "exclude"
) -> float | None:
    """The score of a choice; `__invalid__` has none, or with `lowest` the smallest one."""
    if not table:
        return None
    if choice == INVALID:
        return min(table.values()) if invalid == "lowest" else None
    return table[choice]


def expand_args(args: Mapping[str, Mapping[str, object]]) -> dict[str, dict[str, tuple[str, object]]]:
    """One grading call for each combination of labelled values: its metric's name, and name -> (label, value).

    A metric is named by its `name=label` pairs, sorted and joined with colons; without args there is one unnamed
    metric.
    """
    calls = math.prod(map(len, args.values()))
    if not 1 <= calls <= MAX_CALLS:
        raise ChoiceError(f"args make {calls:,} combinations, each a grading call; write 1 to {MAX_CALLS}")
    names = sorted(args)
    return {
        ":".join(f"{name}={label}" for name, (label, _) in zip(names, combination, strict=True)): dict(
            zip(names, combination, strict=True)
        )
        for combination in product(*(args[name].items() for name in names))
    }


def quoted_choices(choices: Sequence[str], word: str = "or") -> str:
    """The choices as a sentence names them: "Yes" or "No"."""
    return f" {word} ".join(f'"{choice}"' for choice in choices)


def answer_instruction(choices: Sequence[str], eval_type: EvalType = "cot_classify") -> str:
    """The instruction that tells a grader the form of its reply."""
    word = "または" if eval_type == "cot_classify_jp" else "or"
    return _INSTRUCTIONS[eval_type].replace("{choices}", quoted_choices(choices, word))


def concat_completions(completions: Sequence[str], template: str) -> str:
    """Several answers as one text: the template filled for each, joined and trimmed.

    Its fields are `{output}`, the number of the answer `{i}` (from 1), `{i_abc}` or `{i_ABC}`, and their count `{n}`.
    """
    pieces = (
        fill_template(
            template,
            {
                "i": str(i),
                "i_abc": _lower_letter(i),
                "i_ABC": _upper_letter(i),
                "n": str(len(completions)),
                "output": text,
            },
        )
        for i, text in enumerate(completions, 1)
    )
    return "".join(pieces).strip()


def last_answer(text: str, mark: str, ignore_case: bool = False) -> str | None:
    """The text from the last occurrence of a mark on, or None where the mark does not occur."""
    start = text.lower().rfind(mark.lower()) if ignore_case else text.rfind(mark)
    return None if start == -1 else text[start:]


def shuffled_choices(answers: Sequence[str], right: int, random: Random) -> tuple[str, str]:
    """Answers in shuffled order, each on its line after a letter, and the letter of the right one."""
    order = list(range(len(answers)))
    random.shuffle(order)
    lines = (f"{_upper_letter(position)}) {answers[index]}" for position, index in enumerate(order, 1))
    return "\n".join(lines), _upper_letter(order.index(right) + 1)


MAX_FILE = 100_000  # bytes
_IGNORED_KEYS = frozenset({"format_type", "key", "group", "cls"})  # once meaningful, ignored by the original as well


class Message(TypedDict):
    """One chat message of a grading prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


class SpecError(ValueError):
    """A grading spec that cannot be found or used; the message says which, why and what to do."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A grading spec. Where `eval_type` is None the instruction of `default_eval_type` follows the prompt."""

    __pydantic_config__: ClassVar = ConfigDict(coerce_numbers_to_str=True, allow_inf_nan=False, defer_build=True)

    name: str
    prompt: str | Sequence[Message]
    choice_strings: str | Sequence[str]
    choice_scores: Literal["from_strings"] | Mapping[str, float] | None = None
    eval_type: EvalType | None = None
    default_eval_type: EvalType = "cot_classify"
    match_fn: MatchFn = "starts_or_endswith"
    input_outputs: Mapping[str, str] = field(default_factory=lambda: {"input": "completion"})
    output_template: str | Mapping[str, str] | None = None
    args: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    passing: Sequence[str] | None = None
    description: str = ""

    @property
    def messages(self) -> Sequence[Message]:
        """The prompt as chat messages; a text is one message of the user."""
        return [{"role": "user", "content": self.prompt}] if isinstance(self.prompt, str) else self.prompt

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the prompt, in the order they first appear."""
        return tuple(dict.fromkeys(name for message in self.messages for name in template_fields(message["content"])))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The fields that answers fill."""
        return tuple(self.input_outputs.values()) or ("completion",)

    def choices(self, n: int) -> tuple[str, ...]:
        """The choices there are about n answers."""
        choices = choice_strings(self.choice_strings, n)
        if not choices or len(set(choices)) < len(choices):
            raise SpecError(
                f"the choices of the grading spec {self.name!r} for {n} answers are not a list of different ones"
            )
        return choices

    def template_for(self, output: str) -> str | None:
        """How several answers are joined into one field."""
        return self.output_template.get(output) if isinstance(self.output_template, Mapping) else self.output_template


_KNOWN_KEYS = frozenset(part.name for part in dataclasses.fields(Spec)) - {"name"}
_ADAPTER = TypeAdapter(Spec)


@cache
def shipped_specs() -> tuple[str, ...]:
    """The names of the grading specs that come with tui_evals."""
    spec_files = (files(__package__) / "specs").iterdir()
    return tuple(sorted(file.name.removesuffix(".yaml") for file in spec_files if file.name.endswith(".yaml")))


@cache
def _shipped_spec(name: str) -> Spec:
    text = (files(__package__) / "specs" / f"{name}.yaml").read_text(encoding="utf-8")
    return _read_spec(text, name, "")


def load_spec(name: str) -> Spec:
    """A grading spec: one of ours by its name, or one of the user's by the path of its YAML file.

    A file holds one spec, or several under their names as in a registry of OpenAI Evals; `file.yaml#name` picks one.
    """
    if name in shipped_specs():
        return _shipped_spec(name)
    path, _, entry = name.partition("#")
    if path.endswith((".yaml", ".yml")):
        return _read_spec(_file_text(path), path, entry)
    similar = get_close_matches(name[:80], shipped_specs(), n=5, cutoff=0.4)
    hint = f"did you mean {', '.join(similar)}?" if similar else f"the shipped ones are {', '.join(shipped_specs())}."
    raise SpecError(f"there is no grading spec {name[:80]!r}; {hint} A spec of your own is named by its .yaml file.")


def _file_text(path: str) -> bytes:
    """The bytes of a spec file; a device or a pipe, which might never end, is not opened."""
    try:
        if not Path(path).is_file():
            raise SpecError(f"there is no grading spec file {path!r}; give its path from the working directory")
        return read_bytes(Path(path), most=MAX_FILE)
    except TooLarge:
        raise SpecError(
            f"the grading spec file {path!r} is longer than {MAX_FILE:,} bytes; keep only the spec in it"
        ) from None
    except OSError as problem:
        raise SpecError(f"the grading spec file {path!r} cannot be read: {problem.strerror}") from None


def _read_spec(text: str | bytes, source: str, entry: str) -> Spec:
    try:
        document = load_yaml(text, repeated=[] if entry else None)  # in a registry the last of two keys counts
    except YamlError as problem:
        raise SpecError(f"the grading spec {source!r} cannot be read: {problem}") from None
    if isinstance(document, dict) and "prompt" not in document:
        document = _registry_entry(document, source, entry)
    if not isinstance(document, dict) or "prompt" not in document:
        raise SpecError(f"the grading spec {source!r} has no prompt; give it prompt and choice_strings")
    return _spec_of_entry(document, entry or Path(source).stem, source)


def _registry_entry(document: Mapping[str, object], source: str, entry: str) -> object:
    """The spec a registry file holds under a name, or its only one."""
    name = entry or (next(iter(document)) if len(document) == 1 else "")
    if name not in document:
        names = ", ".join(document) or "none"
        raise SpecError(f"{source!r} holds the grading specs {names}; name one of them as {source}#name")
    return document[name]


def _spec_of_entry(entry: Mapping[str, object], name: str, source: str) -> Spec:
    fields = {key: value for key, value in entry.items() if key not in _IGNORED_KEYS and value is not None}
    if "completion_sample_templates" in fields:
        fields.setdefault("output_template", fields.pop("completion_sample_templates"))
    if unknown := fields.keys() - _KNOWN_KEYS:
        known = ", ".join(sorted(_KNOWN_KEYS))
        raise SpecError(f"the grading spec {source!r} has unknown keys: {', '.join(sorted(unknown))}; known: {known}")
    try:
        return _ADAPTER.validate_python({**fields, "name": name})
    except ValidationError as problem:
        error = max(problem.errors(), key=lambda error: len(error["loc"]))  # of a union's, the nearest
        field_path = ".".join(map(str, error["loc"]))
        raise SpecError(f"the grading spec {source!r} cannot be used: {field_path}: {error['msg']}") from None


def grading_question(
    spec: Spec,
    texts: Mapping[str, Sequence[str]],
    trusted: Mapping[str, str],
    templates: Mapping[str, str],
    instruction: str = "",
    judge: str | None = None,
) -> Question:
    """The question to the judge.

    `texts` are the untrusted values of the fields, each in one piece or several; `templates` say how the pieces of a
    field are joined. `trusted` values win over them. The instruction follows the last message.
    """
    require_fields(spec, {**texts, **trusted})
    field_texts = {name: texts[name] for name in spec.fields if name not in trusted}
    check_shown_size(piece for pieces in field_texts.values() for piece in pieces)
    mark = fence_mark(
        {f"{name} {index}": piece for name, pieces in field_texts.items() for index, piece in enumerate(pieces)}
    )
    try:
        values = {
            **trusted,
            **{name: _join_pieces(mark, name, field_texts[name], templates.get(name)) for name in field_texts},
        }
        messages: list[dict[str, str]] = [
            {"role": message["role"], "content": fill_template(message["content"], values)} for message in spec.messages
        ]
    except TemplateError as problem:
        raise Misconfigured(f"the grading prompt of {spec.name} cannot be filled: {problem}") from None
    if instruction:
        messages[-1]["content"] += f"\n\n{instruction}"
    version = hashlib.sha256(json.dumps([*spec.messages, instruction]).encode()).hexdigest()[:8]
    return Question(messages=with_fence_notice(mark, messages), judge=judge, rubric=f"{spec.name} {version}")


def require_fields(spec: Spec, values: Mapping[str, object]) -> None:
    """Refuse to ask where a field of the prompt has no value."""
    if missing := [name for name in spec.fields if name not in values]:
        reason = (
            f"the grading prompt of {spec.name} needs {', '.join(spec.fields)}; "
            f"given: {', '.join(values) or 'nothing'}; missing: {', '.join(missing)}. "
            "Give it in spec_args or among the item's variables"
        )
        raise Misconfigured(reason)


def _join_pieces(mark: str, name: str, pieces: Sequence[str], template: str | None) -> str:
    """The pieces of a field, each inside a fence of its own so that none can pass for its neighbour."""
    fences = [fenced_text(mark, name, piece) for piece in pieces]
    return concat_completions(fences, template) if template is not None else "\nor\n".join(fences)
