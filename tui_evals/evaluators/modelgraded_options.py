"""The options of ModelGraded: a grading spec, parts that replace the spec's, or the parts alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from pydantic import AliasChoices, Field, model_validator

from .base import JudgedOptions
from .choices import NUMBERED, EvalType, MatchFn, choice_scores, expand_args, quoted_choices
from .grading_specs import Message, Spec, SpecError, load_spec

_OVERRIDES = ("prompt", "choice_strings", "choice_scores", "match_fn", "input_outputs", "output_template", "args")


class ModelGradedOptions(JudgedOptions):
    """What ModelGraded takes: a spec, parts that replace the spec's, or the parts alone."""

    spec: str | None = Field(
        None,
        validation_alias=AliasChoices("spec", "modelgraded_spec"),
        description="A shipped grading spec (fact, closedqa, battle ...) or the path of a YAML file, "
        "`file.yaml#name` where it holds several.",
    )
    prompt: str | list[Message] | None = Field(
        None, description="What the judge is asked, with {input}, {completion}, {ideal} and the like; text or messages."
    )
    choice_strings: str | list[str] | None = Field(
        None, description="The choices: a list, a string of characters, from_n, from_n_abc or from_n_ABC."
    )
    choice_scores: Literal["from_strings"] | dict[str, float] | None = Field(
        None, description="The score of each choice, or from_strings: the choice read as a number."
    )
    eval_type: EvalType | None = Field(
        None,
        description="The form of the reply, which the judge is then told: classify (choice only), classify_cot (choice "
        "first), cot_classify (reasons first), cot_classify_jp (the same, told in Japanese). A spec's own wins.",
    )
    match_fn: MatchFn | None = Field(
        None, description="How a line of the reply fits a choice: starts_or_endswith unless given, or contains ..."
    )
    args: dict[str, dict[str, Any]] | None = Field(
        None, description="name -> label -> text: one grading call, and one metric, for each combination."
    )
    spec_args: dict[str, Any] = Field(
        default_factory=dict,
        validation_alias=AliasChoices("spec_args", "modelgraded_spec_args"),
        description="Values of further fields of the prompt, such as criteria; they win over all others.",
    )
    input_outputs: dict[str, str] | None = Field(
        None, description="Field of the input -> field of its answer; two pairs compare the answers of a group."
    )
    output_template: str | dict[str, str] | None = Field(
        None,
        validation_alias=AliasChoices("output_template", "completion_sample_templates"),
        description="How each of several answers is shown, with {output}, {i}, {i_abc}, {i_ABC} and {n}.",
    )
    multicomp_n: int | Literal["from_models"] | None = Field(
        None, description="How many answers of the group stand in one prompt; from_models: all, two at least."
    )
    invalid: Literal["exclude", "lowest"] = Field(
        "exclude", description="A reply without a choice is an error without score; lowest: the lowest score, a fail."
    )
    passing: list[str] | None = Field(None, description="The choices that pass.")
    threshold: float | None = Field(None, description="The score from which it passes.")
    compat: bool = Field(False, description="Read the reply exactly as OpenAI Evals does.")
    metaeval: bool = Field(False, description="Compare the choice with the item's variable `choice`.")

    @model_validator(mode="after")
    def _usable(self) -> ModelGradedOptions:
        _check(self, effective_spec(self))
        return self


def effective_spec(options: ModelGradedOptions) -> Spec:
    """The spec the options name, with the parts they replace; or the parts alone."""
    given: dict[str, Any] = {part: value for part in _OVERRIDES if (value := getattr(options, part)) is not None}
    if options.spec is None:
        if options.prompt is None or options.choice_strings is None:
            raise SpecError("ModelGraded needs a spec (a shipped name or a YAML file), or prompt and choice_strings")
        return Spec(name="inline", **given)
    spec = load_spec(options.spec)
    if options.prompt is not None:  # the instruction the spec's author wrote stood in the prompt that is replaced
        given |= {"eval_type": None, "default_eval_type": spec.eval_type or spec.default_eval_type}
    if options.choice_strings is not None or options.choice_scores is not None:
        given["passing"] = None  # the spec's passing choices may mean something else now, or be gone
    return replace(spec, **given)


def answers_at_once(options: ModelGradedOptions, spec: Spec) -> int | Literal["from_models"]:
    """How many answers fill one field; all of the group's where the prompt speaks of their number."""
    return options.multicomp_n or ("from_models" if "n" in spec.fields else 1)


def _check(options: ModelGradedOptions, spec: Spec) -> None:
    """Refuse, before anything is spent, what could not be graded."""
    if not spec.messages or not all(message["content"].strip() for message in spec.messages):
        raise SpecError("the prompt, or a message of it, is empty; write what the judge is asked")
    if options.passing is not None and options.threshold is not None:
        raise SpecError("give passing or threshold, not both")
    if isinstance(options.multicomp_n, int) and not 1 <= options.multicomp_n <= 100:
        raise SpecError("multicomp_n counts the answers of a group: write 1 to 100, or from_models")
    count = answers_at_once(options, spec)
    if count != 1 and len(spec.input_outputs) > 1:
        raise SpecError("the spec has a field for each answer, so multicomp_n has no meaning here; leave it out")
    if count != 1 and spec.template_for(spec.outputs[0]) is None:
        raise SpecError("several answers in one prompt need an output_template, such as 'Answer {i}: {output}'")
    choices = spec.choices(count if isinstance(count, int) else 2)
    table = choice_scores(choices, spec.choice_scores)
    if options.threshold is not None and table is None:
        raise SpecError("a threshold needs choice_scores; without scores name the passing choices in passing")
    unknown = set(options.passing or spec.passing or ()) - set(choices)
    if unknown and spec.choice_strings not in tuple(NUMBERED):
        raise SpecError(f"passing names {quoted_choices(sorted(unknown))}; the choices are {quoted_choices(choices)}")
    expand_args(spec.args)
