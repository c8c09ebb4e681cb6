"""Filling a grading prompt: what the dataset or a model wrote is fenced as data, what the spec says stands bare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tui_evals.text.box import TemplateError
from tui_evals.text.templates import fill

from .base import CannotJudge, Question
from .choices import concat_completions
from .grading_specs import Spec
from .judging import explained, fence_mark, fenced, refuse_too_much

_UNFIT = "evaluatorConfigurationError"


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
    _require(spec, {**texts, **trusted})
    shown = {name: texts[name] for name in spec.fields if name not in trusted}
    refuse_too_much(piece for pieces in shown.values() for piece in pieces)
    mark = fence_mark({f"{name} {at}": piece for name, pieces in shown.items() for at, piece in enumerate(pieces)})
    try:
        values = {**trusted, **{name: _joined(mark, name, shown[name], templates.get(name)) for name in shown}}
        filled: list[dict[str, str]] = [
            {"role": message["role"], "content": fill(message["content"], values)} for message in spec.messages
        ]
    except TemplateError as problem:
        raise CannotJudge(_UNFIT, f"the grading prompt of {spec.name} cannot be filled: {problem}") from None
    if instruction:
        filled[-1]["content"] += f"\n\n{instruction}"
    return Question(messages=explained(mark, filled), judge=judge)


def _require(spec: Spec, given: Mapping[str, object]) -> None:
    if missing := [name for name in spec.fields if name not in given]:
        reason = (
            f"the grading prompt of {spec.name} needs {', '.join(spec.fields)}; "
            f"given: {', '.join(given) or 'nothing'}; missing: {', '.join(missing)}. "
            "Give it in spec_args or among the item's variables"
        )
        raise CannotJudge(_UNFIT, reason)


def _joined(mark: str, name: str, pieces: Sequence[str], template: str | None) -> str:
    """The pieces of a field, each inside a fence of its own so that none can pass for its neighbour."""
    fences = [fenced(mark, name, piece) for piece in pieces]
    return concat_completions(fences, template) if template is not None else "\nor\n".join(fences)
