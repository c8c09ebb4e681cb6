"""Grading specs: what a grader is asked and which choices it has; ours in `specs/`, the user's in YAML files."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from tui_evals.text.box import TemplateError
from tui_evals.text.templates import fill_template, template_fields
from tui_evals.text.yamls import YamlError, load_yaml

from .base import Misconfigured, Question
from .choices import EvalType, MatchFn, choice_strings, concat_completions
from .judging import check_shown_size, fence_mark, fenced_text, with_fence_notice

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
        with Path(path).open("rb") as file:
            text = file.read(MAX_FILE + 1)
    except OSError as problem:
        raise SpecError(f"the grading spec file {path!r} cannot be read: {problem.strerror}") from None
    if len(text) > MAX_FILE:
        raise SpecError(f"the grading spec file {path!r} is longer than {MAX_FILE:,} bytes; keep only the spec in it")
    return text


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
