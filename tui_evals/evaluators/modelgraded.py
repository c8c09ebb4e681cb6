"""Model-graded evaluation as in OpenAI Evals, with its classic prompts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from string import Formatter
from typing import Any, ClassVar, Literal

from pydantic import AliasChoices, Field, model_validator

from tui_evals.evaluators.judging import EVIDENCE, shown_parts
from tui_evals.light_records import dataclass
from tui_evals.text.chats import chat_to_text, is_chat
from tui_evals.text.measures import Measure
from tui_evals.text.yamls import load_mapping

from .base import (
    EMPTY_ANSWER,
    Ask,
    CannotJudge,
    EmptyAnswer,
    Evaluator,
    Evidence,
    JudgedOptions,
    Misconfigured,
    Question,
    Result,
    Score,
    as_recorded,
    as_text,
)
from .grading_specs import (
    INVALID,
    NUMBERED,
    EvalType,
    MatchFn,
    Message,
    Spec,
    SpecError,
    answer_instruction,
    choice_score,
    choice_scores,
    expand_args,
    grading_question,
    load_spec,
    parse_choice,
    quoted_choices,
    require_fields,
    shipped_specs,
)
from .judging import ask_once, check_shown_size
from .verdicts import Scale, ScaledOptions, parse_scale


def shown_as_there(value: object) -> str:
    """A value as the original puts it into a prompt: a chat as a conversation, anything else as Python writes it."""
    if not isinstance(value, list | tuple) or not all(isinstance(part, Mapping) for part in value):
        return str(value)
    if not all("role" in message and "content" in message for message in value):
        raise Misconfigured("a list of objects in a grading prompt is a chat: each needs role and content")
    text = chat_to_text(value)
    return text if len(value) == 1 else text.lstrip()


def fields_as_there(
    spec: Spec, inputs: Mapping[str, str], answers: Mapping[str, Sequence[str]], variables: Mapping[str, Any]
) -> dict[str, str]:
    """The fields of a grading prompt: braces of the input are doubled, and several answers are joined."""
    completions = {name: _joined(spec, name, texts) for name, texts in answers.items()}
    fields = {**inputs, **completions, **{name: shown_as_there(value) for name, value in variables.items()}}
    for name in spec.input_outputs:
        if name in fields:
            fields[name] = fields[name].replace("{", "{{").replace("}", "}}")
    return fields


def question_as_there(
    spec: Spec, fields: Mapping[str, str], choices: Sequence[str], eval_type: str | None, judge: str | None
) -> Question:
    """The question to the judge; the instruction follows where the eval, and not the spec, names the form."""
    messages = [{"role": message["role"], "content": message["content"]} for message in spec.messages]
    if eval_type:
        messages[-1]["content"] += f"\n\n{instructions()[eval_type].replace('{choices}', quoted_choices(choices))}"
    require_fields(spec, fields)
    check_shown_size(fields[name] for name in spec.fields if name in fields)
    for message in messages:
        message["content"] = _filled(spec, message["content"], fields)
    version = hashlib.sha256(json.dumps([*spec.messages, eval_type]).encode()).hexdigest()[:8]
    return Question(messages=tuple(messages), judge=judge, rubric=f"{spec.name} {version} as in oaieval")


@cache
def instructions() -> Mapping[str, str]:
    """The instructions after a grading prompt, by the form of the reply."""
    text = (files(__package__) / "oaieval_instructions.yaml").read_text(encoding="utf-8")
    return {name: str(words) for name, words in load_mapping(text)[0].items()}


def _joined(spec: Spec, name: str, texts: Sequence[str]) -> str:
    if len(texts) == 1:
        return texts[0]
    template = spec.template_for(name if name in spec.outputs else spec.outputs[0]) or ""
    pieces = (
        {
            "i": str(place),
            "i_abc": chr(ord("a") + (place - 1) % 26),
            "i_ABC": chr(ord("A") + (place - 1) % 26),
            "n": str(len(texts)),
            "output": text,
        }
        for place, text in enumerate(texts, 1)
    )
    return "".join(_filled(spec, template, piece) for piece in pieces).strip()


def _filled(spec: Spec, template: str, values: Mapping[str, str]) -> str:
    """The template filled as `str.format` fills it, without its reach into attributes and its widths."""
    pieces: list[str] = []
    try:
        for literal, name, form, conversion in Formatter().parse(template):
            pieces.append(literal)
            if name is None:
                continue
            if form or conversion or name not in values:
                shown = name + (f"!{conversion}" if conversion else "") + (f":{form}" if form else "")
                raise Misconfigured(f"the grading prompt of {spec.name} has the field {{{shown}}}, which has no value")
            pieces.append(values[name])
    except ValueError as problem:
        raise Misconfigured(f"the grading prompt of {spec.name} cannot be filled: {problem}") from None
    return "".join(pieces)


_OVERRIDES = ("prompt", "choice_strings", "choice_scores", "match_fn", "input_outputs", "output_template", "args")


class ModelGradedOptions(ScaledOptions, JudgedOptions):
    """Options of ModelGraded: a spec, parts that replace the spec's, or only the parts."""

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
        None, description="How many answers of the group are in one prompt; from_models: all, two at least."
    )
    invalid: Literal["exclude", "lowest"] | None = Field(
        None,
        description="A reply without a choice: exclude (an error without score; so unless compat), or lowest (the "
        "lowest score, a fail; so with compat).",
    )
    passing: list[str] | None = Field(None, description="The choices that pass.")
    threshold: float | None = Field(None, description="The score from which it passes.")
    compat: bool = Field(
        False,
        description="Ask and read to the letter of OpenAI Evals, so that figures compare; nothing keeps an answer from "
        "speaking to the judge then.",
    )
    metaeval: bool = Field(False, description="Compare the choice with the item's variable `choice`.")

    @model_validator(mode="after")
    def _usable(self) -> ModelGradedOptions:
        _check_options(self, effective_spec(self))
        return self


def effective_spec(options: ModelGradedOptions) -> Spec:
    """The spec the options name, with the parts they replace; or the parts alone."""
    overrides: dict[str, Any] = {part: value for part in _OVERRIDES if (value := getattr(options, part)) is not None}
    if options.scale is not None:
        overrides |= _choices_of(options, parse_scale(options.scale))
    if options.spec is None:
        if options.prompt is None or "choice_strings" not in overrides:
            raise SpecError("ModelGraded needs a spec (a shipped name or a YAML file), or prompt and choice_strings")
        return Spec(name="inline", **overrides)
    spec = load_spec(options.spec)
    if options.prompt is not None:  # the spec's instruction was in the replaced prompt
        overrides |= {"eval_type": None, "default_eval_type": spec.eval_type or spec.default_eval_type}
    if overrides.keys() & {"choice_strings", "choice_scores"}:
        overrides["passing"] = None  # the spec's passing choices may mean something else now, or be missing
    return replace(spec, **overrides)


def _choices_of(options: ModelGradedOptions, scale: Scale) -> dict[str, Any]:
    """The choices that the labels of a scale are, with their scores."""
    if not scale.labels:
        raise SpecError("the scale of choices is yes/no or labels with their values, such as {good: 1, bad: 0}")
    if options.choice_strings is not None or options.choice_scores is not None:
        raise SpecError("give scale, or choice_strings and choice_scores, not both")
    if any(value is None for value in scale.labels.values()):
        raise SpecError("every choice has a value here; Rubric and metrics skip by a label without one")
    return {"choice_strings": list(scale.labels), "choice_scores": dict(scale.labels)}


def _evidence_pieces(evidence: Evidence, fields: Sequence[str]) -> dict[str, Sequence[str]]:
    """The evidence that a prompt names besides the conversation and the answers; each piece is fenced by itself."""
    names = [name for name in EVIDENCE if name in fields]
    parts = shown_parts(evidence, names)
    named = {name: [f"{piece.name}: {piece.text}" for piece in parts.get(name, ())] or [""] for name in names}
    return {**named, **({"context": [evidence.context]} if evidence.context and "context" in fields else {})}


def answers_at_once(options: ModelGradedOptions, spec: Spec) -> int | Literal["from_models"]:
    """How many answers fill one field; all of the group if the prompt uses their number."""
    return options.multicomp_n or ("from_models" if "n" in spec.fields else 1)


def _check_options(options: ModelGradedOptions, spec: Spec) -> None:
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


_WORST_FIRST: tuple[Result | None, ...] = ("fail", "error", None)
_MAX_REASON = 300  # characters


@dataclass(frozen=True, slots=True)
class _MetricResult:
    """The result of one grading call."""

    choice: str
    score: float | None
    result: Result | None
    reply: str
    agrees: bool | None

    @property
    def details(self) -> dict[str, object]:
        """The record as plain data."""
        details: dict[str, object] = {"choice": self.choice, "score": self.score, "reply": self.reply}
        return details if self.agrees is None else {**details, "metascore": float(self.agrees)}


class ModelGraded(Evaluator):
    """Passes when the choice a judge makes by a grading spec is one that passes.

    The choices that pass are those in `passing`, or those that score `threshold` or more; without either, those the
    spec names, else those with the highest of the scores it lists. A spec without scores, or with from_strings, only
    records the choice. With args there is one grading call for each combination: the score is the mean, and all must
    pass. The fields of the prompt are input (the conversation), completion, ideal, n, the item's variables (which win
    over these) and spec_args. Specs about several answers (battle, best, diversity, and all with multicomp_n) judge
    the answers of a group. A reply without a choice is labelled `__invalid__`.
    """

    name = "ModelGraded"
    aliases = ("ModelBasedClassify",)
    family = "model-graded"
    measure = Measure("at least")
    needs = ()  # the spec decides which evidence is needed
    judged = True
    compares = True
    groups = True
    verdict_options = frozenset(("passing", "choice_scores"))
    Options = ModelGradedOptions
    example: ClassVar = {
        "options": {"spec": "closedqa", "spec_args": {"criteria": "It names a city."}},
        "prompt": "Where is the Louvre?",
        "response": "In Paris.",
        "judge_reply": "Paris is a city, and the answer names it.\nY\nY",
    }

    def __init__(self, options: Any = None, ask: Ask | None = None) -> None:
        super().__init__(options, ask)
        self.spec = effective_spec(self.options)
        self.outputs = self.spec.outputs
        self.count = answers_at_once(self.options, self.spec)
        if len(self.outputs) > 1 or self.count != 1:
            self.scope = "group"
        self.passing, self.threshold = self.options.passing, self.options.threshold
        if self.passing is None and self.threshold is None:
            self.passing = self.spec.passing
            if self.passing is None and isinstance(self.spec.choice_scores, Mapping):
                self.threshold = max(self.spec.choice_scores.values())

    def provenance(self) -> Mapping[str, str]:
        """A hash of its spec, where that is a file of yours: the rubric says nothing of the scores in it."""
        if self.options.spec in (None, *shipped_specs()):
            return {}
        return {"spec_version": hashlib.sha256(repr(self.spec).encode()).hexdigest()[:8]}

    @property
    def passing_score(self) -> float | None:
        """The threshold of the options, or the highest score its spec lists."""
        threshold: float | None = self.threshold
        return threshold

    def decided_by_score(self, details: Mapping[str, object]) -> bool:
        """Never by the score alone: `score_again` reads the choices."""
        return False

    def score_again(self, details: Mapping[str, Any], reason: str) -> Score | None:
        """The score of recorded choices with the scores, passing choices and threshold of these options."""
        if reason == EMPTY_ANSWER:
            return self.empty_score()
        choices = self.spec.choices(self.count if isinstance(self.count, int) else 2)
        known = {*choices, INVALID} if self.scope == "answer" else {*choices}
        metrics = {}
        for name, one in (details.get("metrics") or {}).items():
            if (choice := one.get("choice")) not in known:
                return None
            agrees = one.get("metascore")
            metrics[name] = self._decided(choice, one.get("reply", ""), choices, None if agrees is None else agrees > 0)
        return as_recorded(self, self._record(metrics, choices)) if metrics else None

    def empty_score(self) -> Score | None:
        """The lowest score of a choice, a fail where some pass; None where the judge is asked all the same."""
        scores = choice_scores(self.spec.choices(2), self.spec.choice_scores)
        verdict = self.passing is not None or self.threshold is not None
        if self.options.compat or self.options.metaeval or not (scores or verdict):
            return None
        lowest = min(scores.values()) if scores else None
        return Score(lowest, "fail" if verdict else None, self.threshold, None, EMPTY_ANSWER)

    async def score(self, evidence: Evidence) -> Score:
        """Ask the judge once for every combination of args."""
        metrics = {}
        choices: Sequence[str] = ()
        for metric, question, choices in self.questions(evidence):
            expected = self._expected(metric, evidence)
            metrics[metric] = self._metric(*await ask_once(self.ask, question), choices, expected)
        return self._record(metrics, choices)

    def questions(self, evidence: Evidence) -> Iterator[tuple[str, Question, Sequence[str]]]:
        """The name of each metric with the question to the judge and its choices, without asking."""
        answers = self._answers(evidence)
        n = len(answers.get(self.outputs[0], ())) if len(self.outputs) == 1 else 1
        n = n or (self.count if isinstance(self.count, int) else 1)
        try:
            choices = self.spec.choices(n)
        except ValueError as problem:
            raise Misconfigured(str(problem)) from None
        question_about = self._question_as_there if self.options.compat else self._question
        for metric, values in self._calls(evidence).items():
            yield metric, question_about(evidence, answers, {**values, "n": str(n)}, choices), choices

    def _question(
        self,
        evidence: Evidence,
        answers: Mapping[str, Sequence[str]],
        trusted: Mapping[str, str],
        choices: Sequence[str],
    ) -> Question:
        """The question of one call, with a fence around all that is judged."""
        variables = {name: (_prompt_text(value),) for name, value in evidence.variables.items()}
        texts = {**_evidence_pieces(evidence, self.spec.fields), **self._inputs(evidence), **answers, **variables}
        templates = {name: template for name in answers.keys() - variables.keys() if (template := self._template(name))}
        instruction = "" if self.spec.eval_type else answer_instruction(choices, self._eval_type)
        return grading_question(self.spec, texts, trusted, templates, instruction, self.options.judge)

    def _question_as_there(
        self,
        evidence: Evidence,
        answers: Mapping[str, Sequence[str]],
        trusted: Mapping[str, str],
        choices: Sequence[str],
    ) -> Question:
        """The question of one call as OpenAI Evals puts it."""
        chat = dict.fromkeys(("input", *self.spec.input_outputs), shown_as_there(evidence.chat))
        references = list(evidence.alternatives) or evidence.expected
        ideal = {} if references is None else {"ideal": shown_as_there(references)}
        fields = fields_as_there(self.spec, {**chat, **ideal}, answers, evidence.variables)
        eval_type = self.options.eval_type or (None if self.spec.eval_type else self.spec.default_eval_type)
        return question_as_there(self.spec, {**fields, **trusted}, choices, eval_type, self.options.judge)

    @property
    def _invalid(self) -> Literal["exclude", "lowest"]:
        return self.options.invalid or ("lowest" if self.options.compat else "exclude")

    @property
    def _eval_type(self) -> EvalType:
        return self.spec.eval_type or self.options.eval_type or self.spec.default_eval_type

    def _template(self, name: str) -> str | None:
        return self.spec.template_for(name if name in self.outputs else self.outputs[0])

    def _inputs(self, evidence: Evidence) -> dict[str, Sequence[str]]:
        """The conversation and the references, under the names of their prompt fields."""
        inputs: dict[str, Sequence[str]] = {}
        if evidence.chat:
            inputs |= dict.fromkeys(("input", *self.spec.input_outputs), (chat_to_text(evidence.chat),))
        return inputs | ({"ideal": evidence.references} if evidence.references else {})

    def _answers(self, evidence: Evidence) -> dict[str, Sequence[str]]:
        """The answers to judge under the names of their fields; none for the fields that the item's variables hold."""
        outputs = [output for output in self.outputs if output not in evidence.variables]
        if not outputs:
            return {}
        if self.scope == "answer" and evidence.response is None:
            raise CannotJudge("agentRequestFailed", f"{self.name} has no answer to judge")
        answers = (evidence.response or "",) if self.scope == "answer" else evidence.completions
        one_field_each = len(self.outputs) > 1
        expected = len(outputs) if one_field_each else self.count
        if len(answers) < 2 if expected == "from_models" else len(answers) != expected:
            number = "at least 2" if expected == "from_models" else expected
            reason = f"{self.spec.name} judges {number} answers of a group together, and there are {len(answers)}"
            raise Misconfigured(reason)
        if not any(answer.strip() for answer in answers) and (empty := self.empty_score()):
            raise EmptyAnswer(empty)
        if one_field_each:
            return {output: (answer,) for output, answer in zip(outputs, answers, strict=True)}
        return dict.fromkeys(("completion", *self.outputs), answers)

    def _calls(self, evidence: Evidence) -> dict[str, dict[str, str]]:
        """The trusted values of each grading call, under the name of its metric."""
        shown = shown_as_there if self.options.compat else _prompt_text
        spec_args = {name: shown(value) for name, value in self.options.spec_args.items()}
        open_args = {
            name: values
            for name, values in self.spec.args.items()
            if name not in spec_args and name not in evidence.variables
        }
        calls = expand_args(open_args)
        return {
            metric if len(calls) > 1 else "choice": {name: shown(value) for name, (_, value) in combination.items()}
            | spec_args
            for metric, combination in calls.items()
        }

    def _expected(self, metric: str, evidence: Evidence) -> str | None:
        """The choice of a person, which metaeval compares with."""
        if not self.options.metaeval:
            return None
        if metric not in evidence.variables:
            raise Misconfigured(f"metaeval compares with the item's variable {metric!r}, and there is none")
        return as_text(evidence.variables[metric])

    def _metric(self, said: str, reply: str, choices: Sequence[str], expected: str | None) -> _MetricResult:
        """The choice in the judge's reply, its score and whether it passes."""
        options = self.options
        if not options.compat and self.spec.choice_strings == "from_n":  # so that 12 is not read as 1
            choices = sorted(choices, key=len, reverse=True)
        choice = parse_choice(said, choices, self._eval_type, self.spec.match_fn, compat=options.compat)
        return self._decided(choice, reply, choices, None if expected is None else choice == expected)

    def _decided(self, choice: str, reply: str, choices: Sequence[str], agrees: bool | None) -> _MetricResult:
        """A choice with its score and whether it passes."""
        score = choice_score(choice, choice_scores(choices, self.spec.choice_scores), self._invalid)
        return _MetricResult(choice, score, self._result(choice, score), reply, agrees)

    def _result(self, choice: str, score: float | None) -> Result | None:
        if choice == INVALID and self._invalid == "exclude":
            return "error"
        if self.passing is not None:
            return "pass" if choice in self.passing else "fail"
        if self.threshold is not None and score is not None:
            return "pass" if score >= self.threshold and choice != INVALID else "fail"
        return None

    def _record(self, metrics: Mapping[str, _MetricResult], choices: Sequence[str]) -> Score:
        """One record of all metrics: the mean of their scores, and a pass only if all pass."""
        outcomes = tuple(metrics.values())
        results = [metric.result for metric in outcomes]
        result: Result | None = next((worse for worse in _WORST_FIRST if worse in results), "pass")
        scores = [metric.score for metric in outcomes if metric.score is not None]
        details: dict[str, object] = {"metrics": {name: metric.details for name, metric in metrics.items()}}
        details |= self.provenance()
        if result == "error":
            details["code"] = "judgeOutputUnparseable"
        if self.options.metaeval:
            details["metascore"] = sum(metric.agrees is True for metric in outcomes) / len(outcomes)
        worths = self.spec.choice_scores
        ends = sorted(worths.values()) if isinstance(worths, Mapping) else []
        scale = Measure("at least", bounds=(ends[0], ends[-1])) if len(set(ends)) > 1 else self.measure
        return Score(
            score=sum(scores) / len(scores) if scores and result != "error" else None,
            result=result,
            threshold=self.threshold,
            label="/".join(metric.choice for metric in outcomes),
            reason=_reason(metrics, choices),
            details=details,
            measure=str(scale),
        )


def _reason(metrics: Mapping[str, _MetricResult], choices: Sequence[str]) -> str:
    """A sentence about the judge's choice."""
    if len(metrics) > 1:
        chosen = ", ".join(f"{metric.choice} for {name}" for name, metric in metrics.items())
        return f"the judge chose {chosen}"[:_MAX_REASON]
    (metric,) = metrics.values()
    if metric.choice == INVALID:
        return f"the judge's reply makes none of the choices {quoted_choices(choices)}"
    return f"the judge chose {metric.choice}" + ("" if metric.score is None else f", which scores {metric.score:g}")


def _prompt_text(value: object) -> str:
    """A value as a grading prompt shows it; a list of chat messages as the conversation it is."""
    return chat_to_text(value) if isinstance(value, list | tuple) and is_chat(value) else as_text(value)
