import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.evaluators.helpers import golden, score
from tests.interop import tiny_bert
from tui_evals.evaluators import similarity
from tui_evals.evaluators.base import Evidence, Score, evaluate
from tui_evals.evaluators.similarity import BertScore, BertScoreOptions, HedgingLanguage


class Scorer:
    """Gives precision and recall by the length of the reference, and remembers what it was given."""

    def __init__(self, *measures: tuple[float, float, float]) -> None:
        self.measures = iter(measures)
        self.pairs: list[tuple[str, str]] = []

    def score(self, candidates: list[str], references: list[str]) -> tuple[list[float], ...]:
        self.pairs += zip(candidates, references, strict=True)
        return tuple([value] for value in next(self.measures))


def with_scorer(monkeypatch: pytest.MonkeyPatch, *measures: tuple[float, float, float]) -> Scorer:
    scorer = Scorer(*measures)
    monkeypatch.setattr(similarity, "load_scorer", lambda model, layers: scorer)
    return scorer


@pytest.mark.parametrize("row", golden("arthur_bench.json", "bertscore.weighting"))
def test_precision_and_recall_are_weighted_as_in_the_original(
    monkeypatch: pytest.MonkeyPatch, row: dict[str, Any]
) -> None:
    args = row["args"]
    with_scorer(monkeypatch, *zip(args["P"], args["R"], args["F1"], strict=True))
    options = {"precision_weight": args["precision_weight"]}
    records = [score(BertScore, options, response="a", expected="b") for _ in args["P"]]
    assert [record.score for record in records] == pytest.approx(row["expected"])


@pytest.mark.parametrize(
    ("options", "expected", "result"),
    [
        ({}, 0.55, None),
        ({"precision_weight": 0.0}, 0.5, None),
        ({"precisionWeight": 1.0}, 1.0, None),
        ({"threshold": 0.55}, 0.55, "pass"),
        ({"threshold": 0.56}, 0.55, "fail"),
        ({"threshold": 0.56, "negate": True}, 0.55, "pass"),
    ],
)
def test_the_weight_and_the_threshold(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], expected: float, result: str | None
) -> None:
    with_scorer(monkeypatch, (1.0, 0.5, 0.7))
    record = score(BertScore, options, response="a", expected="b")
    assert (record.score, record.result) == (pytest.approx(expected), result)
    assert record.details == {
        "reference": 0,
        "model": "microsoft/deberta-v3-base",
        "precision": 1.0,
        "recall": 0.5,
        "f1": 0.7,
    }


def test_the_reference_most_like_the_answer_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = with_scorer(monkeypatch, (0.1, 0.1, 0.1), (0.8, 0.8, 0.8), (0.3, 0.3, 0.3))
    record = score(BertScore, response=" a ", expected="b", alternatives=("c", "d"))
    assert (record.score, record.details["reference"]) == (pytest.approx(0.8), 1)
    assert scorer.pairs == [("a", "b"), ("a", "c"), ("a", "d")]


@pytest.mark.parametrize(("answer", "expected"), [("", "b"), (" \n", "b"), ("a", " ")])
def test_an_empty_text_is_like_nothing(monkeypatch: pytest.MonkeyPatch, answer: str, expected: str) -> None:
    scorer = with_scorer(monkeypatch)
    assert score(BertScore, response=answer, expected=expected).score == 0.0
    assert scorer.pairs == []


def test_a_value_of_a_json_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = with_scorer(monkeypatch, (1.0, 1.0, 1.0))
    score(BertScore, {"json_path": "$.a"}, response='{"a": "yes", "b": "no"}', expected="b")
    assert scorer.pairs == [("yes", "b")]


@pytest.mark.parametrize("name", ["model", "model_type", "modelType"])
def test_the_model_is_asked_for_with_its_layer(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    loads = []
    monkeypatch.setattr(similarity, "load_scorer", lambda *wanted: loads.append(wanted) or "no such model")
    record = score(BertScore, {name: "tiny", "num_layers": 2}, response="a", expected="b")
    assert loads == [("tiny", 2)]
    assert (record.result, record.reason) == ("error", "no such model")
    assert record.details["code"] == "evaluatorConfigurationError"


def test_absent_evidence() -> None:
    assert score(BertScore, response="a").details["code"] == "evaluatorConfigurationError"
    assert score(BertScore, expected="a").details["code"] == "agentRequestFailed"


@pytest.fixture
def nothing_loaded() -> Iterator[None]:
    similarity.load_scorer.cache_clear()
    yield
    similarity.load_scorer.cache_clear()


@pytest.mark.usefixtures("nothing_loaded")
def test_without_the_extra_the_record_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bert_score", None)
    record = score(BertScore, response="a", expected="b")
    assert (record.result, record.details["code"]) == ("error", "evaluatorConfigurationError")
    assert "pip install 'tui-evals[bertscore]'" in record.reason


@pytest.mark.usefixtures("nothing_loaded")
def test_a_model_that_would_be_fetched_by_a_shell_is_refused() -> None:
    assert "shell" in score(BertScore, {"model": "scibert-basevocab-cased"}, response="a", expected="b").reason


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A BERT of two small layers that knows a few words, made here so that nothing is downloaded."""
    pytest.importorskip("bert_score", reason="the extra [bertscore] is not installed")
    return tiny_bert.make(tmp_path_factory.mktemp("model"))


@pytest.mark.usefixtures("nothing_loaded")
def test_scores_by_a_real_model_are_those_of_arthur_bench(tiny_model: str) -> None:
    for row in golden("arthur_models.json", "bertscore"):
        args = row["args"]
        options = {"model": tiny_model, "num_layers": tiny_bert.LAYERS, "precision_weight": args["precision_weight"]}
        record = score(BertScore, options, response=args["candidate"], expected=args["reference"])
        assert record.score == pytest.approx(row["expected"], abs=1e-5), args
    for row in golden("arthur_models.json", "hedging_language"):
        options = {"method": "bertscore", "model": tiny_model, "num_layers": tiny_bert.LAYERS}
        record = score(HedgingLanguage, options, response=row["args"]["candidate"])
        assert record.score == pytest.approx(row["expected"], abs=1e-5), row["args"]


def liken(model: str, answer: str, reference: str) -> Score:
    return score(BertScore, {"model": model, "num_layers": 2}, response=answer, expected=reference)


@pytest.mark.usefixtures("nothing_loaded")
def test_a_real_model_finds_the_same_text_alike_and_another_less(
    tiny_model: str, capfd: pytest.CaptureFixture[str]
) -> None:
    same, other = liken(tiny_model, "the cat sat", "the cat sat"), liken(tiny_model, "the dog ran away", "the cat sat")
    assert same.score == pytest.approx(1.0, abs=1e-4)
    assert 0 < (other.score or 0) < 0.95
    precision, recall, f1 = (float(str(other.details[name])) for name in ("precision", "recall", "f1"))
    assert other.score == pytest.approx(0.1 * precision + 0.9 * recall)
    assert f1 == pytest.approx(2 * precision * recall / (precision + recall))
    assert liken(tiny_model, "the dog ran away", "the cat sat") == other
    assert capfd.readouterr() == ("", "")


def test_a_real_model_reads_any_text(tiny_model: str) -> None:
    for text in ("", "\ud800", "\u200b", "the cat " * 1_300_000, "a" * 10_000_000):
        record = liken(tiny_model, text, "the cat sat")
        assert record.score is not None and -1 <= record.score <= 1


@pytest.mark.usefixtures("nothing_loaded")
def test_many_at_once_load_the_model_once(tiny_model: str) -> None:
    async def all_of() -> list[Score]:
        evaluator = BertScore(BertScoreOptions(model=tiny_model, num_layers=2))
        texts = [f"the cat {'sat ' * number}" for number in range(20)]
        return await asyncio.gather(
            *(evaluate(evaluator, Evidence(response=text, expected="the cat")) for text in texts)
        )

    records = asyncio.run(all_of())
    assert records[0].score == pytest.approx(1.0, abs=1e-4)
    assert len({record.score for record in records}) > 10
    assert similarity.load_scorer.cache_info().misses == 1


@pytest.mark.parametrize("method", ["auto", "bertscore"])
def test_hedging_by_a_real_model(tiny_model: str, method: str) -> None:
    options = {"method": method, "model": tiny_model, "num_layers": 2}
    sentence = "as an ai language model i don't have personal opinions, emotions, or beliefs"
    hedging = score(HedgingLanguage, {**options, "disclaimer": sentence}, response=sentence)
    assert (hedging.score, hedging.result) == (pytest.approx(1.0, abs=1e-4), "fail")
    assert hedging.details["method"] == "bertscore"
    assert score(HedgingLanguage, {**options, "threshold": 0.99}, response="the dog ran away").result == "pass"


@pytest.mark.usefixtures("nothing_loaded")
def test_a_model_without_a_known_layer_or_without_files_is_an_error_with_a_way_out(
    tiny_model: str, tmp_path: Path
) -> None:
    record = score(BertScore, {"model": tiny_model}, response="a", expected="b")
    assert "give num_layers" in record.reason
    record = liken(str(tmp_path), "a", "b")
    assert f"the model {tmp_path} could not be loaded" in record.reason
    assert record.details["code"] == "evaluatorConfigurationError"
