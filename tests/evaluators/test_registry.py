"""What holds for every evaluator: its name, its help, its example, and that nothing in a row can break it."""

import asyncio
import itertools
import json
import math
import time
from importlib.metadata import EntryPoint
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tests.evaluators.tables import each_row
from tui_evals import plugins
from tui_evals.cli.judge.evaluators import _fields, description, summary
from tui_evals.evaluators import registry as registry_module
from tui_evals.evaluators.base import (
    Evaluator,
    Evidence,
    Score,
    ToolCall,
    as_recorded,
    evaluate,
    negated_score,
    verdict_score,
)
from tui_evals.evaluators.registry import UnknownEvaluator, built_in, load_registry
from tui_evals.evaluators.rows import RecordedReplies
from tui_evals.text.measures import parse_measure

pytestmark = pytest.mark.story

KINDS = tuple(dict.fromkeys(built_in().values()))
NAMES = {kind.name: kind for kind in KINDS}

RELEASED = (
    "Relevance",
    "Coherence",
    "Groundedness",
    "Similarity",
    "Citations",
    "ExactMatch",
    "PartialMatch",
    "RetrievalQuery",
    "RetrievalResult",
    "ToolCallSelection",
    "ToolCallExecution",
    "Equals",
    "ContainsAll",
    "ContainsAny",
    "StartsWith",
    "Regex",
    "Match",
    "Includes",
    "FuzzyMatch",
    "Translate",
    "MultipleChoice",
    "JsonMatch",
    "JsonValid",
    "JsonSchema",
    "ToolCalled",
    "ToolCalledWith",
    "NoTools",
    "ToolOrder",
    "ToolTrajectory",
    "ToolsSucceeded",
    "Steps",
    "UserGoal",
    "Latency",
    "Cost",
    "Tokens",
    "TimeToFirstToken",
    "TokensPerSecond",
    "FinishReason",
    "BertScore",
    "SummaryQuality",
    "QACorrectness",
    "Readability",
    "WordCountMatch",
    "HedgingLanguage",
    "Specificity",
    "Hallucination",
    "PythonUnitTests",
    "ModelGraded",
    "Rubric",
    "Compliance",
    "accuracy",
    *("ContextPrecision", "ContextRelevance", "ContextRecall", "Faithfulness", "AnswerCorrectness"),
    *("TaskCompletion", "TrajectoryMatch", "PlanKept", "ToolCorrectness", "StepsWasted"),
    *("ConversationCompleteness", "RoleAdherence", "KnowledgeRetention", "GoalReached"),
    "Levenshtein",
    "RougeN",
    "Bleu",
    "Expression",
    *("JavaScript", "Transformed", "LeftOut"),
    "AtLeast",
    "ContainsJson",
    "ValidToolCalls",
    "Length",
    "PersonalData",
    "Secrets",
    *("Refusal", "Toxicity", "Bias", "Safety"),
    "EmbeddingSimilarity",
    "Language",
    "match",
    "includes",
    "pattern",
    "choice",
    "exact",
    "f1",
    "model_graded_qa",
    "model_graded_fact",
)

ALIASES = {
    "EXACT_MATCH": "Equals",
    "exact_match": "Equals",
    "CONTAINS_ALL": "ContainsAll",
    "CONTAINS_ANY": "ContainsAny",
    "STARTS_WITH": "StartsWith",
    "JsonValidator": "JsonValid",
    "TOOL_CALLED": "ToolCalled",
    "TOOL_CALLED_WITH": "ToolCalledWith",
    "LATENCY": "Latency",
    "COST": "Cost",
    "bertscore": "BertScore",
    "summary_quality": "SummaryQuality",
    "qa_correctness": "QACorrectness",
    "readability": "Readability",
    "word_count_match": "WordCountMatch",
    "hedging_language": "HedgingLanguage",
    "specificity": "Specificity",
    "hallucination": "Hallucination",
    "python_unit_testing": "PythonUnitTests",
}


def made(kind: type[Evaluator], judge: str | list[str] | None = None) -> Evaluator:
    """The evaluator with the options of its example."""
    options = kind.Options.model_validate(kind.example.get("options", {}))
    replies = judge if judge is not None else kind.example.get("judge_reply")
    if replies is None:
        return kind(options)
    return kind(options, RecordedReplies([replies] if isinstance(replies, str) else list(replies)))  # type: ignore[call-overload]


def example_evidence(kind: type[Evaluator]) -> Evidence:
    given_fields = {key: value for key, value in kind.example.items() if key not in ("options", "judge_reply")}
    return Evidence(**given_fields)  # type: ignore[arg-type]


def test_no_released_name_or_alias_disappears():
    assert set(NAMES) >= set(RELEASED)
    assert {alias: built_in()[alias].name for alias in ALIASES} == ALIASES


@each_row("name", NAMES)
def test_every_evaluator_explains_itself(name):
    kind = NAMES[name]
    assert summary(kind).endswith(".") and summary(kind).startswith(("Passes when", "Measures"))
    assert len(description(kind)) > len(summary(kind)) or len(summary(kind)) > 60
    for field, _, _, about in _fields(kind.Options):
        assert len(about) > 10 and about.endswith("."), f"{name}.{field} needs a description"
    assert kind.example, f"{name} needs an example"
    assert kind.family and isinstance(kind.needs, tuple)


@pytest.mark.story
@each_row("name", NAMES)
def test_every_example_passes(name, monkeypatch):
    pytest.importorskip("wordfreq") if name == "Specificity" else None
    pytest.importorskip("sacrebleu") if name in ("Translate", "Bleu") else None
    pytest.importorskip("py3langid") if name == "Language" else None
    if name == "BertScore":
        pytest.skip("needs a downloaded model; its own tests make a small one")
    monkeypatch.setenv("TUI_EVALS_ALLOW_CODE", "1")
    kind = NAMES[name]
    record = asyncio.run(evaluate(made(kind), example_evidence(kind)))
    if name == "LeftOut":
        assert record.result == "skipped"
        return
    assert record.result in ("pass", None), record
    assert record.result == "pass" or record.score is not None


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(UnknownEvaluator, match=r"unknown evaluator 'PartialMach' .did you mean 'PartialMatch'"):
        load_registry().find("PartialMach")


def test_modifiers_stand_on_every_evaluator():
    for kind in KINDS:
        assert {"negate", "weight"} <= set(kind.Options.model_fields), kind.name
        asked = {"judge", "embedder"} & set(kind.Options.model_fields)
        assert asked == ({"embedder" if kind.embeds else "judge"} if kind.judged or kind.may_ask else set()), kind.name


def test_every_number_that_is_a_default_is_one_that_its_option_takes():
    for kind in KINDS:
        for name, option in kind.Options.model_fields.items():
            if isinstance(option.default, int | float):
                TypeAdapter(Annotated[option.annotation, *option.metadata, kind.name, name]).validate_python(
                    option.default
                )


FREE = (-math.inf, math.inf)
OTHER_SCORES = {
    "Translate": (0, 100),
    "EmbeddingSimilarity": (-1, 1),
    "HedgingLanguage": (0, math.nextafter(1, 0)),
    "Citations": (1, math.inf),
    **dict.fromkeys(("Rubric", "ModelGraded", "accuracy", "JavaScript", "BertScore", "Readability"), FREE),
}
"""The thresholds of evaluators whose scores are not from 0 to 1, by other rules than their measures."""


def test_the_measure_of_a_record_says_which_numbers_pass_also_where_the_verdict_is_negated():
    for kind in (each for each in KINDS if each.measure.direction != "exactly"):  # which has no threshold
        for negate, score in itertools.product((False, True), (0.25, 0.75)):
            evaluator = kind(made(kind).options.model_copy(update={"negate": negate}))
            passes = score <= 0.5 if kind.measure.direction == "at most" else score >= 0.5
            record = as_recorded(evaluator, Score(score, "pass" if passes else "fail", 0.5))
            measure = parse_measure(record.measure)
            assert measure.unit == kind.measure.unit
            told = score <= 0.5 if measure.direction == "at most" else score >= 0.5
            assert (record.result, record.score) == ("pass" if told else "fail", score), (kind.name, negate, measure)
            verdict = as_recorded(evaluator, verdict_score(True, ""))
            assert verdict.score == float(verdict.result == "pass"), (kind.name, negate)


def test_an_option_takes_each_number_that_it_can_mean_and_no_other():
    for kind in KINDS:
        unit = (0, math.inf) if kind.measure.unit else (0, 1)
        bounds = {
            "threshold": OTHER_SCORES.get(kind.name) or kind.measure.bounds or unit,
            "weight": (0, 1),
            "timeout": (math.nextafter(0, 1), 600),
        }
        for name in bounds.keys() & kind.Options.model_fields.keys():
            option, (low, high) = kind.Options.model_fields[name], bounds[name]
            number = TypeAdapter(Annotated[float, *option.metadata, kind.name, name])
            for value in {low, high} - {*FREE}:
                assert number.validate_python(value) == value, (kind.name, name)
            for value in {math.nextafter(low, -math.inf), math.nextafter(high, math.inf)} - {low, high}:
                with pytest.raises(ValidationError):
                    number.validate_python(value)


class Polite(Evaluator):
    """Passes when the answer says please."""

    name = "Polite"
    family = "custom"

    def score(self, evidence: Evidence) -> Score:
        return verdict_score("please" in (evidence.response or ""), "looked for please")


class Nameless(Polite):
    """Has the name of another one only."""


def installed(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    points = [EntryPoint(name, value, registry_module.GROUP) for name, value in values.items()]
    monkeypatch.setattr(plugins, "offered", lambda group: points)


def test_an_installed_package_brings_evaluators(monkeypatch):
    installed(monkeypatch, polite=f"{__name__}:Polite")
    known = load_registry()
    assert known.problems == ()
    assert asyncio.run(evaluate(known.build("Polite", {"negate": True}), Evidence(response="please"))).result == "fail"


@each_row(
    ("value", "said"),
    [
        ("no_such_module_here:X", "cannot be loaded"),
        (f"{__name__}:RELEASED", "is no Evaluator"),
        (f"{__name__}:Nameless", f"({__name__}:Nameless) is no Evaluator with a name"),
        ("tui_evals.evaluators.text:Equals", "has the name of a built-in one"),
    ],
)
def test_a_broken_package_is_a_note_and_not_the_end(monkeypatch, value, said):
    installed(monkeypatch, broken=value)
    known = load_registry()
    assert any(said in problem for problem in known.problems)
    assert known.find("Equals").__module__ == "tui_evals.evaluators.text"


def test_the_projects_own_evaluators_are_found_and_cannot_take_a_built_in_name(tmp_path):
    for name in ("polite", "equals"):
        folder = tmp_path / "custom-evaluators" / name
        folder.mkdir(parents=True)
        (folder / f"{name}.py").write_text("class E: pass\n")
    known = load_registry(tmp_path)
    assert known.own == ("polite",)
    assert "built-in Equals" in known.problems[0]
    assert known.catalogue["polite"].model_validate({"threshold": 2.0, "options": {"a": 1}})


def test_metrics_beside_the_prompt_are_evaluators_of_their_name(tmp_path):
    (tmp_path / "nice.metric.prompty").write_text("system:\nIs {{output}} nice? OK or ERR")
    known = load_registry(prompt_folder=tmp_path)
    assert known.find("nice").judged
    with pytest.raises(UnknownEvaluator):
        load_registry().find("nice")


any_text = st.text(st.characters(exclude_categories=()), max_size=60)
calls = st.builds(ToolCall, any_text, any_text | st.dictionaries(any_text, any_text))
evidences = st.builds(
    Evidence,
    prompt=any_text,
    response=st.none() | any_text,
    expected=st.none() | any_text,
    alternatives=st.lists(any_text, max_size=2).map(tuple),
    context=st.none() | any_text,
    variables=st.dictionaries(any_text, any_text | st.integers() | st.none(), max_size=2),
    tool_calls=st.none()
    | st.lists(st.builds(ToolCall, any_text, any_text | st.dictionaries(any_text, any_text))).map(tuple),
    diagnostics=st.none()
    | st.dictionaries(st.sampled_from(["tool_calls", "retrieval_executions"]), any_text | st.none()),
    latency_ms=st.none() | st.floats(allow_nan=True),
    tokens=st.none() | st.integers(),
    cost=st.none() | st.floats(allow_nan=True),
    completions=st.lists(any_text, max_size=3).map(tuple),
    rules=st.none() | any_text,
    groundtruth=st.none() | any_text,
)
RESULTS = {"pass", "fail", "error", "skipped", None}
QUICK = [name for name in NAMES if name not in ("PythonUnitTests", "BertScore")]


@pytest.mark.cases(4)
@pytest.mark.parametrize("part", range(8))
@given(evidence=evidences, reply=any_text)
def test_no_evaluator_raises_whatever_it_is_given(part, evidence, reply):
    for name in QUICK[part::8]:
        record = asyncio.run(evaluate(made(NAMES[name], reply), evidence))
        assert record.result in RESULTS and record.reason, name
        assert record.details.get("code") != "evaluatorError", (name, record)
        assert record == asyncio.run(evaluate(made(NAMES[name], reply), evidence)), name
        assert negated_score(negated_score(record)).result == record.result, name
        assert negated_score(negated_score(record)).score == record.score, name
        json.dumps(dict(record.details), allow_nan=False)


HUGE = {
    "one word": "a" * 10_000_000,
    "words": "lorem ipsum dolor sit amet. " * 360_000,
    "brackets": "[" * 10_000_000,
    "strings": '{"a":"' + "\\u0041" * 1_600_000 + '"}',
}


@pytest.mark.nightly
@pytest.mark.parametrize("shape", HUGE)
@each_row("name", QUICK)
def test_ten_megabytes_end_in_a_record_soon(name, shape):
    kind = NAMES[name]
    if kind.judged:
        pytest.skip("a judged evaluator refuses or passes on; its family's tests say which")
    evidence: Any = {**{key: value for key, value in kind.example.items() if key not in ("options", "judge_reply")}}
    evidence["response"] = HUGE[shape]
    started = time.process_time()
    record = asyncio.run(evaluate(made(kind), Evidence(**evidence)))
    assert record.result in RESULTS
    assert time.process_time() - started < 5, "the bound is a second; five allow for a slow machine"
