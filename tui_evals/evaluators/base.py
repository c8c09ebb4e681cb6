"""The interface of evaluators: the input (Evidence), the evaluator (Evaluator) and its result (Score)."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import field, replace
from importlib.util import find_spec
from inspect import isawaitable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from tui_evals.light_records import dataclass
from tui_evals.text import strictjson
from tui_evals.text.chats import Form, JudgeParameters, parameters_text
from tui_evals.text.measures import Measure, parse_measure
from tui_evals.text.model_output import ENDINGS, Choice, ending_word
from tui_evals.text.names import last_frames
from tui_evals.text.strictjson import PathError, find_by_path
from tui_evals.transcript import Transcript

Text = Annotated[str, Field(min_length=1)]
Result = Literal["pass", "fail", "error", "skipped"]
Scope = Literal["answer", "group", "thread"]
"""The input of one judgement: an answer, all answers to one item, or a conversation at its last turn."""
EMPTY_ANSWER = "the answer is empty"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call the answer made: the tool's name and its arguments (parsed, or the text that did not parse)."""

    name: str
    arguments: object = None
    result: str | None = None
    """The result of the tool; None if the call was not executed."""
    failed: bool = False
    """Whether it gave an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything an evaluator can read; missing parts are None or empty."""

    prompt: str = ""
    response: str | None = None
    expected: str | None = None
    alternatives: tuple[str, ...] = ()
    context: str | None = None
    history: tuple[Mapping[str, Any], ...] = ()
    request: tuple[Mapping[str, Any], ...] = ()
    """The messages that `prompt` is the text of, where they are more than one message of the user."""
    variables: Mapping[str, object] = field(default_factory=dict)
    tool_calls: tuple[ToolCall, ...] | None = None
    steps: int | None = None
    """Number of model calls for the answer; None if unknown."""
    turns: int | None = None
    """How often a simulated user spoke; None where none did."""
    user: Mapping[str, Any] | None = None
    """How a simulated user ended the conversation: the state of the `goal`, and the last `message`."""
    transcript: Transcript = field(default_factory=Transcript)
    """The transcript up to the answer, if there is more than the answer: reasoning, steps, retrieval."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """The definitions of the tools that the model could call."""
    chunks: tuple[str, ...] = ()
    """The texts that a search found for the answer, best first, if the item has them."""
    diagnostics: Mapping[str, Any] | None = None
    latency_ms: float | None = None
    first_token_ms: float | None = None
    tokens_per_second: float | None = None
    """Tokens of the answer for each second that the whole call took."""
    tokens: int | None = None
    cost: float | None = None
    from_cache: bool = False
    finish_reason: str | None = None
    json_response: bool = False
    completions: tuple[str, ...] = ()
    rules: str | None = None
    intent: str | None = None
    input_spec: str | None = None
    prompt_template: str | None = None
    groundtruth: str | None = None
    item: Callable[[], Mapping[str, Any]] = dict
    """Gives the whole item as its dataset has it, with category, tags and extensions."""

    @property
    def chat(self) -> tuple[Mapping[str, Any], ...]:
        """Everything that was sent to the target: the history, then the question."""
        asked = {"role": "user", "content": self.prompt}
        return (*self.history, *(self.request or ((asked,) if self.prompt else ())))

    @property
    def references(self) -> tuple[str, ...]:
        """Every acceptable reference: the expected response first, then the alternatives, each once."""
        first = () if self.expected is None else (self.expected,)
        return tuple(dict.fromkeys((*first, *self.alternatives)))


@dataclass(frozen=True, slots=True)
class Score:
    """The record of one evaluator: `result` is None if no verdict applies."""

    score: float | None = None
    result: Result | None = None
    threshold: float | None = None
    label: str | None = None
    reason: str = ""
    details: Mapping[str, object] = field(default_factory=dict)
    measure: str = ""
    """The unit of the number and which numbers pass; from the evaluator unless this score has its own scale."""
    parts: Mapping[str, Score] = field(default_factory=dict)
    """Several scores by name, each of which counts on its own; this one then neither passes nor fails."""


def verdict_score(passed: bool, reason: str, *, label: str | None = None, **details: object) -> Score:
    """A yes or no: score 1 or 0."""
    return Score(float(passed), "pass" if passed else "fail", None, label, reason, details)


def measured_score(
    score: float, threshold: float | None, reason: str = "", *, label: str | None = None, **details: object
) -> Score:
    """A score that passes from the threshold upwards; without a threshold it neither passes nor fails."""
    if not math.isfinite(score):
        return error_score("invalidEvaluatorResult", f"the score is {score}, which is not a number one can compare")
    result: Result | None = None
    if threshold is not None:
        result = "pass" if score >= threshold else "fail"
    return Score(float(score), result, threshold, label, reason, details)


def error_score(code: str, reason: str, **details: object) -> Score:
    """A record of something that could not be judged; it never counts as a fail or a zero."""
    return Score(result="error", reason=reason, details={"code": code, **details})


def skipped_score(reason: str) -> Score:
    """Not measurable here."""
    return Score(result="skipped", reason=reason)


def negated_score(record: Score) -> Score:
    """The opposite verdict; a yes-or-no score turns with it, a measured number stays, an error stays."""
    if record.result not in ("pass", "fail"):
        return record
    opposite: Result = "fail" if record.result == "pass" else "pass"
    score = record.score
    if record.threshold is None and score in (0, 1):
        score = 1.0 - score
    return replace(record, result=opposite, score=score, reason=f"negated: {record.reason}")


def verdict_at(evaluator: Evaluator, score: float, threshold: float | None) -> Result | None:
    """The verdict of an evaluator that compares on a score; None without a threshold."""
    if threshold is None:
        return None
    passes = score <= threshold if evaluator.measure.direction == "at most" else score >= threshold
    return "pass" if passes != evaluator.options.negate else "fail"


class NoValueToJudge(Exception):
    """There is no value to judge (invalid JSON, a path without a match): a fail that negate does not invert."""


class EmptyAnswer(Exception):
    """Raised inside `score` if there is nothing to ask a judge about; negate does not invert the record."""

    def __init__(self, score: Score) -> None:
        super().__init__(score.reason)
        self.score = score


class CannotJudge(Exception):
    """Raised inside `score` when evidence or judge allow no verdict; becomes an error record."""

    def __init__(self, code: str, reason: str, **details: object) -> None:
        super().__init__(reason)
        self.code = code
        self.details = details


class Misconfigured(CannotJudge):
    """The options, the judge or the item lack something that the evaluator needs."""

    def __init__(self, reason: str, **details: object) -> None:
        super().__init__("evaluatorConfigurationError", reason, **details)


class Options(BaseModel):
    """Options of every evaluator."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, populate_by_name=True, allow_inf_nan=False, defer_build=True
    )

    negate: bool = Field(False, description="Turn the verdict round; an error stays an error.")
    weight: float = Field(1.0, ge=0, le=1, description="How much this evaluator counts in the item's score.")


class ValueOptions(Options):
    """Options of evaluators that compare a value of the answer."""

    json_path: str | None = Field(
        None,
        validation_alias="jsonPath",
        description="Compare the value at this JSON path of the answer instead of the whole answer.",
    )


class ReferenceOptions(ValueOptions):
    """Options of evaluators that compare with references; a dataset may leave them out on purpose."""

    no_reference: Literal["error", "fail"] = Field(
        "error", description="What an item without a reference comes to: an error, or a fail as in OpenAI Evals."
    )


class TextOptions(ValueOptions):
    """Options of evaluators that compare text."""

    ignore_case: bool = Field(
        False, validation_alias="ignoreCase", description="Compare without regard to upper and lower case."
    )


class JudgedOptions(Options):
    """Options of evaluators that ask a judge."""

    judge: str | None = Field(None, description="The target that judges here, instead of the run's judge.")


class ModelOptions(ValueOptions):
    """Options of evaluators that compare texts by a model."""

    model: str = Field(
        "microsoft/deberta-v3-base",
        min_length=1,
        validation_alias=AliasChoices("model", "model_type", "modelType"),
        description="The model that likens texts: a folder, or a name on the Hugging Face hub (downloaded once).",
    )
    num_layers: int | None = Field(
        None,
        ge=1,
        validation_alias=AliasChoices("num_layers", "numLayers"),
        description="The layer whose output is compared; needed where the bert-score library knows none for the model.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question to a judge: chat messages, and the JSON schema of the reply if there is one; or texts for vectors."""

    messages: tuple[Mapping[str, str], ...] = ()
    texts: tuple[str, ...] = ()
    """For a target of kind embedding, the texts to embed; the reply has a line for each."""
    schema: Form | None = None
    judge: str | None = None
    max_tokens: int = 1024
    params: Mapping[str, Any] = field(default_factory=dict)
    """Parameters to send, which override the configured ones."""
    repeat: int = 0
    """The number of the reply, for several replies to one question."""
    rubric: str = ""
    """The prompt that asks, and its version, as records keep it."""
    likelihoods: bool = False
    """Whether to ask for the probabilities of the numbers in the reply, and of alternatives."""


@dataclass(frozen=True, slots=True)
class Consulted:
    """The rubrics and models that an evaluator used, recorded while it scores."""

    rubrics: dict[str, None] = field(default_factory=dict)
    judges: dict[str, None] = field(default_factory=dict)
    params: dict[str, None] = field(default_factory=dict)
    """The parameters that questions were sent with in addition to the common ones, in words."""
    asked: Counter[str] = field(default_factory=Counter)
    choices: list[Choice] = field(default_factory=list)
    """Alternatives to the last reply, if they were asked for and the judge returned them."""

    @property
    def details(self) -> dict[str, object]:
        """The details for the record."""
        if not (self.rubrics or self.judges or self.params):
            return {}
        named = {"rubric": self.rubrics, "judge_model": self.judges, "judge_params": self.params}
        return {name: ", ".join(texts) for name, texts in named.items() if texts}

    def note(self, question: Question) -> None:
        """Record the rubric and parameters of a question."""
        if question.rubric:
            self.rubrics[question.rubric] = None
        if question.params:
            self.params[parameters_text(question.params)] = None

    def number(self, question: str) -> int:
        """How often the same question was put before: who puts it again wants another sample."""
        self.asked[question] += 1
        return self.asked[question] - 1


consulted: ContextVar[Consulted | None] = ContextVar("consulted", default=None)
"""What the current score consulted."""


def note_choices(choices: Sequence[Choice]) -> None:
    """Record alternatives to a judge's reply, for the evaluator that asked for them."""
    if (asked := consulted.get()) is not None:
        asked.choices[:] = choices


Ask = Callable[[Question], Awaitable[str]]


EMBEDDER = ",embedding"
"""How the run's own target of kind embedding is called among its judges; no target's name holds a comma."""


class Evaluator:
    """One way to judge. A subclass has a name, options and the method `score`."""

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    family: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ("response",)
    scope: Scope = "answer"
    groups: ClassVar[bool] = False
    """Whether options can make it judge the answers of a group together."""
    judged: ClassVar[bool] = False
    batched: ClassVar[bool] = False
    """Whether it judges many answers at once, and so wants as many side by side as there are."""
    levelled: ClassVar[bool] = False
    """Whether an option `rubric` says what its levels mean, which depends on the dataset where it is left open."""
    lowest: ClassVar[float] = 0.0
    """The score of the worst answer, where a judge gives the scores."""
    judges_withheld: ClassVar[bool] = False
    """Whether it judges answers that a filter or a refusal left empty; others see them as an empty text."""
    may_ask: ClassVar[bool] = False
    follows_from_reply: ClassVar[bool] = False
    """Whether one reply of the judge decides the verdict, so that a recorded reply tells it again."""
    compares: ClassVar[bool] = False
    """Whether a score passes only because of its order to `threshold`. Then `rescore --what-if` can calculate other
    thresholds.
    """
    verdict_options: ClassVar[frozenset[str]] = frozenset()
    """Further options that change no question and no choice of the judge, so that `score_again` tells the verdict."""
    labelled: ClassVar[bool] = False
    """Whether the label of a reply decides its score on the option `scale`: then another value of a label needs no new
    question, and `rescore --what-if` tells the verdict."""
    embeds: ClassVar[bool] = False
    """Whether it asks for vectors of a target of kind embedding instead of a judge's verdict."""
    may_embed: ClassVar[bool] = False
    """Whether it may ask for vectors besides, where the run has such a target."""
    measure: ClassVar[Measure] = Measure()
    """The unit of its scores, and which of them pass; without a direction those from the threshold upwards."""
    Options: ClassVar[type[BaseModel]] = Options
    example: ClassVar[Mapping[str, object]] = {}

    def __init_subclass__(cls, **more: Any) -> None:
        """Give options that are a plain pydantic model what every evaluator takes."""
        super().__init_subclass__(**more)
        own = vars(cls).get("Options")
        if own is not None and not (isinstance(own, type) and issubclass(own, BaseModel)):
            raise TypeError(f"Options of {cls.__name__} is not a pydantic model. Write `class Options(BaseModel)`.")
        if own is not None and not issubclass(own, Options):
            namespace = {"__module__": own.__module__, "__doc__": own.__doc__, "__qualname__": own.__qualname__}
            cls.Options = type(own.__name__, (own, Options), namespace)

    def __init__(self, options: Any = None, ask: Ask | None = None) -> None:
        self.options: Any = self.Options() if options is None else options
        self._ask = ask

    @property
    def has_judge(self) -> bool:
        """Whether there is a judge, for an evaluator that can work without one."""
        return self._ask is not None

    @property
    def ask(self) -> Ask:
        """The judge this evaluator was given."""
        if self._ask is None:
            whom = "a target of kind embedding" if self.embeds else "a judge"
            raise Misconfigured(f"{self.name} needs {whom} and none was named")
        return self._ask

    @classmethod
    def asked_target(cls, settings: Mapping[str, Any]) -> str | None:
        """The target that an evaluator with these options asks: a name, None for the run's judge, or EMBEDDER."""
        return settings.get("embedder") or EMBEDDER if cls.embeds else settings.get("judge")

    @classmethod
    def is_judged(cls, settings: Mapping[str, Any]) -> bool:
        """Whether one with these options cannot do without a judge."""
        return cls.judged

    @property
    def passing_score(self) -> float | None:
        """The score at which an answer passes with these options; None if no score passes or fails."""
        threshold: float | None = getattr(self.options, "threshold", None)
        return threshold

    def decided_by_score(self, details: Mapping[str, object]) -> bool:
        """Whether `passing_score` and the score alone decide the verdict of a record with these details."""
        return self.compares

    def score_again(self, details: Mapping[str, Any], reason: str) -> Score | None:
        """The score that a recorded reply has with these options, from the details and reason of its record.

        None where `passing_score` and the score tell it, or nothing recorded does.
        """
        return None

    def provenance(self) -> Mapping[str, str]:
        """Details of its records that identify the current files it judges by.

        Records with other values were made by other files. The rubric of a question is recorded separately.
        """
        return {}

    @classmethod
    def declared_measure(cls) -> Measure:
        """The measure of its scores, from its files if those declare one."""
        return cls.measure

    @classmethod
    def asked_with(cls) -> JudgeParameters:
        """The parameters that its judge gets in addition to the common ones; WrongParameter names an invalid one."""
        return JudgeParameters()

    @classmethod
    def caution(cls) -> str | None:
        """A warning about judging on this machine, or None."""
        return None

    def obstacle(self) -> str | None:
        """Why it cannot judge on this machine, and the fix; None if nothing is known to prevent it."""
        return None

    def empty_score(self) -> Score | None:
        """The score of an empty answer without asking a judge; None to ask the judge anyway."""
        return Score(self.lowest, "fail", getattr(self.options, "threshold", None), None, EMPTY_ANSWER)

    def score(self, evidence: Evidence) -> Score | Awaitable[Score]:
        """Judge the evidence."""
        raise NotImplementedError


def is_installed(library: str) -> bool:
    """Whether a library could be imported; nothing of it is."""
    if library in sys.modules:
        return sys.modules[library] is not None
    return find_spec(library) is not None


PROVENANCE = ("files", "spec_version", "scale", "version")
"""The details that `Evaluator.provenance` may hold."""


class JudgingStopped(Exception):
    """No judge can be asked, because the run is ending; `evaluate` does not turn it into a record."""


async def evaluate(evaluator: Evaluator, evidence: Evidence) -> Score:
    """The record of one evaluator on one answer; a failure inside becomes an error record."""
    if absent := _missing_evidence(evaluator, evidence):
        return absent
    if (
        _is_empty(evidence)
        and evaluator.judged
        and "response" in evaluator.needs
        and not (evaluator.judges_withheld and withheld(evidence))
        and (empty := evaluator.empty_score())
    ):
        return empty
    if not evaluator.has_judge:  # no call is made, so there is nothing to record
        return await _scored(evaluator, evidence)
    asked = Consulted()
    token = consulted.set(asked)
    try:
        record = await _scored(evaluator, evidence)
    finally:
        consulted.reset(token)
    return replace(record, details={**record.details, **asked.details}) if asked.details else record


async def _scored(evaluator: Evaluator, evidence: Evidence) -> Score:
    """The score of an evaluator for complete evidence."""
    try:
        outcome = evaluator.score(evidence)
        record = await outcome if not isinstance(outcome, Score) and isawaitable(outcome) else outcome
    except EmptyAnswer as empty_answer:
        return empty_answer.score
    except NoValueToJudge as no_value:
        return verdict_score(False, str(no_value))
    except CannotJudge as refusal:
        return error_score(refusal.code, str(refusal), **refusal.details)
    except JudgingStopped:
        raise
    except Exception as failure:  # a broken evaluator must not end a run
        reason = f"Evaluator failed: {str(failure) or type(failure).__name__}"
        return error_score("evaluatorError", reason, traceback=last_frames(failure))
    return as_recorded(evaluator, record)


def as_recorded(evaluator: Evaluator, record: Score) -> Score:
    """A score with its measure, inverted if the options say so."""
    measure = parse_measure(record.measure) if record.measure else evaluator.measure
    negate = evaluator.options.negate
    # A threshold is passed from it upwards where no direction is stated, so its negation needs one.
    if measure.direction or measure.unit or (negate and record.threshold is not None):
        record = replace(record, measure=str(measure.negated() if negate else measure))
    return negated_score(record) if negate else record


def _is_empty(evidence: Evidence) -> bool:
    """Whether the answer says nothing and calls no tool."""
    return evidence.response is not None and not evidence.response.strip() and not evidence.tool_calls


def withheld(evidence: Evidence) -> str:
    """Why the provider's filter or the model withheld an answer; empty otherwise."""
    ending = ending_word(evidence.finish_reason, evidence.diagnostics)
    return ENDINGS[ending] if _is_empty(evidence) and ending in ("content_filter", "refusal") else ""


_EVIDENCE_WORDS = {
    "expected": "an expected response (expected_response or ideal)",
    "context": "context",
    "prompt": "a prompt",
    "rules": "the rules of the prompt under test",
    "diagnostics": "the diagnostics that came with the answer",
    "tool_calls": "the tool calls of the answer",
    "completions": "the answers of its group",
}


def _missing_evidence(evaluator: Evaluator, evidence: Evidence) -> Score | None:
    """An error record when evidence the evaluator cannot do without is absent."""
    for need in evaluator.needs:
        if need == "response":
            if evidence.response is None:
                return error_score("agentRequestFailed", f"{evaluator.name} has no answer to judge")
            continue
        if need == "expected" and getattr(evaluator.options, "no_reference", "error") == "fail":
            continue
        value = evidence.references if need == "expected" else getattr(evidence, need)
        if value is None or value == "" or (value == () and need != "tool_calls"):
            meaning = _EVIDENCE_WORDS.get(need, need)
            return error_score("evaluatorConfigurationError", f"{evaluator.name} needs {meaning}, and there is none")
    return None


def response_values(evidence: Evidence, json_path: str | None) -> tuple[object, ...]:
    """The part of the answer to compare: all of it, or every value at the JSON path, in document order."""
    response = evidence.response or ""
    if json_path is None:
        return (response,)
    try:
        document = strictjson.loads(response, duplicates=True)
    except strictjson.JsonError as problem:
        if json_path == "$" and not evidence.json_response:
            return (response,)
        raise NoValueToJudge(f"the answer is {problem}, so the path {json_path} has nothing to point at") from None
    try:
        values: tuple[object, ...] = find_by_path(json_path, document)
    except PathError as problem:
        raise Misconfigured(str(problem)) from None
    if not values:
        raise NoValueToJudge(f"nothing in the answer matches the path {json_path}")
    return values


def as_text(value: object) -> str:
    """A JSON value as the text to compare: strings unchanged, other values as compact JSON."""
    return value if isinstance(value, str) else strictjson.dumps(value)
