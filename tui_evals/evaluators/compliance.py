"""PromptPex's judges: Compliance with the rules of the prompt under test, and the user's own metrics."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from tui_evals.evaluators.judging import HEADINGS, evidence_for_prompt
from tui_evals.evaluators.markup import strip_code_fence
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_text
from tui_evals.text.chats import JudgeParameters, Prompty, PromptyError, WrongParameter, parameters_of, parse_prompty
from tui_evals.text.measures import Measure
from tui_evals.text.templates import TemplateError, template_variables

from .base import (
    EMPTY_ANSWER,
    CannotJudge,
    Evaluator,
    Evidence,
    JudgedOptions,
    Question,
    Score,
    as_text,
    measured_score,
    skipped_score,
    verdict_score,
)
from .judging import (
    UnreadableReply,
    ask_judge,
    ask_once,
    judge_question,
    question_as_written,
    refuse_quotation,
    shipped_prompt,
)
from .verdicts import (
    SKIPPED,
    Scale,
    ScaledOptions,
    WrongScale,
    parse_scale,
    read_on_scale,
    skipped_reason,
    threshold_on,
    threshold_problem,
)

Outcome = Literal["ok", "err", "unknown"]
SUFFIX = ".metric.prompty"
MAX_JSON = 100_000
_SHIPPED_FOLDER = Path(__file__).parent / "prompts"


@dataclass(frozen=True, slots=True)
class MetricReply:
    """A metric judge's reply: a score, which on a scale may be a word, or else an outcome."""

    score: Any
    outcome: Outcome | None
    content: str


def parse_ok_err(text: str) -> Outcome:
    """The verdict word a reply ends with; case counts, and a full stop or emphasis after it makes it unknown."""
    text = text.rstrip()
    outcomes: dict[str, Outcome] = {"ERR": "err", "OK": "ok"}
    for word, outcome in outcomes.items():
        if text.endswith(word) and not re.match(r"[A-Za-z0-9_]", text[: -len(word)][-1:]):
            return outcome
    return "unknown"


def parse_metric(text: str) -> MetricReply:
    """The field `score` of a reply in sloppy JSON, else the first digits after "score", else OK or ERR."""
    plain = strip_code_fence(text).strip()
    score = _score_field(plain)
    if score is None:
        score = _score_in_words(plain)
    return MetricReply(score, parse_ok_err(plain) if score is None else None, text)


_JSON_TOKENS = re.compile(
    r"""//[^\n]*|/\*(?:.*?\*/|.*)"""
    r"""|"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|'(?:[^'\\]|\\.)*+(?:'|\\?\Z)"""
    r"""|[{}\[\]:,]|[^\s{}\[\]:,"']+""",
    re.DOTALL,
)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def _score_field(text: str) -> float | None:
    """`score` of the outermost object, read as judges write JSON: any quotes, comments, stray or missing commas."""
    if not text.startswith("{"):
        return None
    depth, previous, score = 0, ("", ""), None
    for token in (match[0] for match in _JSON_TOKENS.finditer(text, 0, MAX_JSON)):
        if token.startswith(("//", "/*")):
            continue
        depth += (token in "{[") - (token in "}]")
        if not depth:
            break
        bare = token.strip("\"'")
        if depth == 1 and previous == ("score", ":"):
            score = 0.0 if token == "null" else float(bare) if _NUMBER.fullmatch(bare) else None
        previous = (previous[1], bare)
    return score


def _score_in_words(text: str) -> float | None:
    """The digits after the first lower-case "score" with something in between."""
    last_digit = max(map(text.rfind, "0123456789"))
    match = re.search(r"score[^0-9]+([0-9]+)", text[: last_digit + 1])
    return float(match[1]) if match else None


class Compliance(Evaluator):
    """Passes when a judge finds that the answer keeps to the output rules of the prompt under test.

    The judge sees the answer, the rules and the input specification, not the input, and ends its reply with OK or ERR.
    Inverse rules take no part: a test made from one tries to provoke a violation and is judged by the real rules.
    """

    name = "Compliance"
    aliases = ("TNC",)
    family = "PromptPex"
    needs = ("response", "rules")
    judged = True
    follows_from_reply = True
    Options = JudgedOptions
    example: ClassVar = {
        "response": "NN",
        "rules": "The output is a part-of-speech tag and nothing else.",
        "input_spec": "The input is a sentence and one of its words.",
        "judge_reply": "The output is a single tag without other text.\nOK",
    }

    async def score(self, evidence: Evidence) -> Score:
        """Ask once, and once more if the reply does not end with a verdict."""
        texts = {
            "input_spec": evidence.input_spec or "",
            "rules": evidence.rules or "",
            "output": evidence.response or "",
        }
        question = judge_question(shipped_prompt("compliance"), texts, judge=self.options.judge)
        outcome, reply = await ask_judge(self.ask, question, _read_outcome)
        return _compliance_score(outcome, reply)


def _read_outcome(reply: str) -> Outcome:
    outcome = parse_ok_err(reply)
    if outcome == "unknown":
        raise UnreadableReply("its last word has to be OK or ERR, with nothing after it")
    return outcome


def _compliance_score(outcome: Outcome, reply: str) -> Score:
    outcome_words = "keeps to the rules" if outcome == "ok" else "breaks a rule"
    return verdict_score(
        outcome == "ok", f"the judge found that the answer {outcome_words}", label=outcome, reply=reply
    )


class MetricOptions(ScaledOptions, JudgedOptions):
    """Options of a metric."""

    threshold: float | None = Field(
        None,
        description="The score from which it passes; without one it is shown and averaged only, unless its scale is "
        "declared: then it passes from the middle, of labels from the best.",
    )
    compat: bool = Field(
        False,
        description="Ask and read to the letter of PromptPex: the prompt as its file has it, nothing fenced, empty "
        "fields empty, any number as the score, and no second question.",
    )

    @model_validator(mode="after")
    def _threshold_is_a_score(self) -> MetricOptions:
        if self.scale is not None and (problem := threshold_problem(parse_scale(self.scale), self.threshold)):
            raise ValueError(problem)
        return self


_UNUSABLE = (OSError, UnicodeError, PromptyError, TemplateError, WrongParameter, WrongScale)
_USUAL = Scale(0.0, 100.0)
"""The scale of a metric that declares none."""


class MetricEvaluator(Evaluator):
    """Scores the answer, usually from 0 to 100, with a metric written next to the prompt under test."""

    family = "PromptPex"
    judged = True
    follows_from_reply = True
    compares = True
    labelled = True
    Options = MetricOptions
    path: ClassVar[Path]

    def obstacle(self) -> str | None:
        """Why its file cannot be used: it is unreadable or declares something invalid."""
        try:
            self.asked_with()
            self._declared(_read_prompty(self.path))
        except _UNUSABLE as problem:
            return f"the metric {self.path} cannot be used: {problem}"
        return None

    def _declared(self, prompt: Prompty) -> tuple[Scale | None, float | None]:
        """Its scale and passing score, from the options or its front matter."""
        declared = prompt.front.get("scale") if self.options.scale is None else self.options.scale
        if declared is None:
            threshold = threshold_on(_USUAL, self.options) if "threshold" in self.options.model_fields_set else None
            if problem := threshold_problem(_USUAL, threshold):
                raise WrongScale(problem)
            return None, threshold
        scale, own = parse_scale(declared), prompt.front.get("threshold")
        if own is not None and (isinstance(own, bool) or not isinstance(own, int | float)):
            raise WrongScale(f"its threshold is {own!r}, which is no number")
        threshold = threshold_on(scale, self.options, own if self.options.scale is None else None)
        if problem := threshold_problem(scale, threshold):
            raise WrongScale(problem)
        return scale, threshold

    @property
    def passing_score(self) -> float | None:
        """The threshold of the options, or the one its file declares."""
        try:
            return self._declared(_read_prompty(self.path))[1]
        except _UNUSABLE:  # reported when the metric is asked
            return None

    def provenance(self) -> Mapping[str, str]:
        """The scale it declares."""
        try:
            scale, _ = self._declared(_read_prompty(self.path))
        except _UNUSABLE:  # reported when the metric is asked
            return {}
        return {} if scale is None else {"scale": str(scale)}

    @classmethod
    def declared_measure(cls) -> Measure:
        """The scale in its front matter."""
        try:
            declared = _read_prompty(cls.path).front.get("scale")
            return cls.measure if declared is None else parse_scale(declared).measure
        except _UNUSABLE:  # reported when it should judge
            return cls.measure

    @classmethod
    def asked_with(cls) -> JudgeParameters:
        """The parameters in its front matter."""
        return parameters_of(_read_prompty(cls.path).front)

    def empty_score(self) -> Score | None:
        """The lowest score, if that fails; None if the judge may skip."""
        if self.options.compat:  # the original asks its judge
            return None
        try:
            prompt = _read_prompty(self.path)
            scale, threshold = self._declared(prompt)
        except _UNUSABLE:  # reported when it is asked
            return None
        if _may_skip(prompt):
            return None
        if scale is None:
            return measured_score(self.lowest, threshold, EMPTY_ANSWER)
        return scale.score(scale.worst, threshold, EMPTY_ANSWER)

    async def score(self, evidence: Evidence) -> Score:
        """Fill the metric, ask, and read a score or OK/ERR from the reply."""
        try:
            prompt = _read_prompty(self.path)
            scale, threshold = self._declared(prompt)
            ask_about = _metric_question_as_there if self.options.compat else _metric_question
            question = ask_about(prompt, evidence, self.options.judge)
        except _UNUSABLE as problem:
            raise CannotJudge("evaluatorLoadError", f"the metric {self.path} cannot be used: {problem}") from None
        if self.options.compat:
            return _score_as_there(*await ask_once(self.ask, question), threshold)
        read = partial(_read_metric, scale=scale, may_skip=_may_skip(prompt), judged=(evidence.response or "",))
        parsed, reply = await ask_judge(self.ask, question, read)
        if isinstance(parsed, _Skipped):
            return replace(skipped_score(parsed.reason or "the judge found nothing to judge"), details={"reply": reply})
        if scale is not None:
            reason = parsed.content or f"the judge gave {parsed.score}"
            return scale.score(parsed.score, threshold, reason, scale=str(scale), reply=reply)
        if parsed.score is not None:
            return measured_score(parsed.score, threshold, f"the judge gave {parsed.score:g}", reply=reply)
        return _compliance_score("ok" if parsed.outcome == "ok" else "err", reply)


def _score_as_there(said: str, reply: str, threshold: float | None) -> Score:
    """The score PromptPex reads in a reply: any number, else OK or ERR."""
    parsed = parse_metric(said)
    if parsed.score is not None:
        return measured_score(parsed.score, threshold, f"the judge gave {parsed.score:g}", reply=reply)
    if parsed.outcome == "unknown":
        raise CannotJudge("judgeOutputUnparseable", "the judge gave neither a score nor OK or ERR", reply=reply)
    return _compliance_score("ok" if parsed.outcome == "ok" else "err", reply)


@dataclass(frozen=True, slots=True)
class _Skipped:
    """The reason of a judge that found nothing to judge."""

    reason: str


def _may_skip(prompt: Prompty) -> bool:
    """Whether a judge may skip: only if its prompt allows it, so that no answer can talk it into that."""
    return SKIPPED in prompt.body


_BARE_SCORE = re.compile(
    r"[*_ ]*(?:score[*_ ]*[:=][*_ ]*)?(\d{1,3}(?:\.\d{1,9})?)(?: ?/ ?100| ?%)?[*_ ]*\.?", re.IGNORECASE
)
"""A reply that is a score and nothing else: `100`, `Score: 85`, `85/100`."""


def _read_metric(reply: str, scale: Scale | None, judged: tuple[str, ...], *, may_skip: bool) -> MetricReply | _Skipped:
    if may_skip and (reason := skipped_reason(reply, judged)) is not None:
        return _Skipped(reason)
    if scale is not None:
        value, reason = read_on_scale(reply, scale, judged)
        return MetricReply(value, None, reason)
    parsed = parse_metric(reply)
    if parsed.outcome == "unknown" and (number := _BARE_SCORE.fullmatch(reply.strip())):
        if not number[0][0].isdigit():
            refuse_quotation(number[0], judged)
        return MetricReply(float(number[1]), None, reply)
    if parsed.outcome == "unknown":
        raise UnreadableReply("it has to be JSON with a number `score`, or to end with OK or ERR")
    return parsed


_parse_cached = lru_cache(maxsize=64)(parse_prompty)


def _read_prompty(path: Path) -> Prompty:
    return _parse_cached(read_text(path))


def _metric_question(prompt: Prompty, evidence: Evidence, judge: str | None) -> Question:
    """The question of a metric: the values its prompt names, fenced; unknown names are variables of the item, or parts
    of the evidence."""
    names, texts = _metric_texts(prompt, evidence)
    shown = {name: text for name, text in texts.items() if name in names}
    parts, absent = evidence_for_prompt(evidence, shown)
    trusted = {**{name: "" for name in names if name not in shown and name != "evidence"}, **absent}
    return judge_question(prompt, shown, trusted, parts=parts, headings=HEADINGS, judge=judge)


def _metric_question_as_there(prompt: Prompty, evidence: Evidence, judge: str | None) -> Question:
    """The question of a metric, with unfenced values."""
    return question_as_written(prompt, _metric_texts(prompt, evidence)[1], judge=judge)


def _metric_texts(prompt: Prompty, evidence: Evidence) -> tuple[Sequence[str], dict[str, str]]:
    """The names in a metric's prompt, and the values there are."""
    if not prompt.sections:
        raise PromptyError("there is no text below its front matter")
    known = {
        "output": evidence.response,
        "prompt": _without_roles(evidence.prompt_template or ""),
        "input": evidence.prompt,
        "rules": evidence.rules,
        "intent": evidence.intent,
        "inputSpec": evidence.input_spec,
        "groundtruth": evidence.groundtruth,
    }
    names = template_variables(prompt.body)
    item: Mapping[str, object] = {name: evidence.variables.get(name, "") for name in names}
    return tuple(names), {name: as_text(value) for name, value in {**item, **known}.items() if value}


def _without_roles(template: str) -> str:
    """The text of a prompt without the lines that only say who speaks."""
    roles = ("system:", "user:", "assistant:")
    return "\n".join(line for line in template.split("\n") if "".join(line.split()).lower() not in roles)


def _metric_tags(path: Path) -> tuple[str, ...]:
    try:
        tags = _read_prompty(path).front.get("tags")
    except (OSError, UnicodeError, PromptyError):
        return ()
    return tuple(map(str, tags)) if isinstance(tags, list | tuple) else ()


def discover_metrics(folder: Path, *, groundtruth: bool = False) -> dict[str, Path]:
    """The metrics in a folder by name: those that judge answers, or those that judge the groundtruth itself."""
    paths = {path.name.removesuffix(SUFFIX): path for path in sorted(folder.glob(f"?*{SUFFIX}")) if path.is_file()}
    tagged = {name: (path, _metric_tags(path)) for name, path in paths.items()}
    return {
        name: path
        for name, (path, tags) in tagged.items()
        if "experimental" not in tags and ("groundtruth" in tags) == groundtruth
    }


def shipped_metric(name: str) -> type[Evaluator]:
    """The evaluator class of a metric of ours."""
    return metric_evaluator(name, _SHIPPED_FOLDER / f"{name}{SUFFIX}")


def metric_evaluator(name: str, path: Path) -> type[Evaluator]:
    """The evaluator class of one metric; a file that cannot be read becomes an error record when it scores."""
    description = (
        f"Scores the answer with the metric {path.name}: usually 0 to 100, passing from the threshold if one is given."
    )
    return type(name, (MetricEvaluator,), {"name": name, "path": path, "__doc__": description})


class Accuracy(MetricEvaluator):
    """Measures from 0 to 100 how far the answer agrees with the ground truth and keeps to the rules."""

    name = "accuracy"
    path = _SHIPPED_FOLDER / f"accuracy{SUFFIX}"
    example: ClassVar = {
        "response": "NN",
        "groundtruth": "NN",
        "rules": "The output is a part-of-speech tag and nothing else.",
        "prompt_template": "Name the part of speech of a word.",
        "judge_reply": '{"explanation": "It is the tag of the reference.", "score": 100}',
    }
