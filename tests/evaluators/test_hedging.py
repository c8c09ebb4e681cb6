from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evaluators.helpers import golden, score
from tests.evaluators.tables import each_row
from tui_evals.evaluators import similarity
from tui_evals.evaluators.similarity import DISCLAIMER, HedgingLanguage, find_disclaimers

LEXICAL = {"method": "lexical"}


@each_row(
    ("text", "kind"),
    [
        (DISCLAIMER, "speaks as a machine"),
        ("As an AI, I cannot say.", "speaks as a machine"),
        ("I'm sorry, but as an AI language model, I can’t help with that.", "speaks as a machine"),
        ("As a large language model trained on text, it is hard for me to tell.", "speaks as a machine"),
        ("**As an artificial intelligence I** would not know.", "speaks as a machine"),
        ("Please note that as an AI assistant my view is limited", "speaks as a machine"),
        ("I, as a language model, can only guess.", "speaks as a machine"),
        ("AS AN\n\tAI   LANGUAGE MODEL, I DO NOT EAT", "speaks as a machine"),
        ("My answer\r\n\r\nAs an AI I cannot give one", "speaks as a machine"),
        ("Well, as an **AI** `language model`, I cannot", "speaks as a machine"),
        ("Speaking as an AI, I find all colours equal.", "speaks as a machine"),
        ("I'm just an AI, so take it lightly.", "is only a machine"),
        ("I am only a language model!", "is only a machine"),
        ("I'm an AI and don't have a favourite.", "is only a machine"),
        ("Remember, I am an AI chatbot without access to your files", "is only a machine"),
        ("I don't have personal opinions.", "denies a mind"),
        ("I do not possess personal beliefs or preferences", "denies a mind"),
        ("Sadly I lack personal experiences.", "denies a mind"),
        ("I have no feelings or opinions on that", "denies a mind"),
        ("I don't have the ability to feel emotions.", "denies a mind"),
        ("I am incapable of having human emotions", "denies a mind"),
        ("I don't actually experience emotions", "denies a mind"),
        ("I cannot offer a personal opinion on politics", "denies a mind"),
        ("i don’t have feelings, opinions, or beliefs", "denies a mind"),
        ("My knowledge cutoff is September 2021.", "names the end of its training"),
        ("As of my last knowledge update, she was mayor.", "names the end of its training"),
        ("As of my last update in 2023 it was free.", "names the end of its training"),
        ("My training data only goes up to 2023.", "names the end of its training"),
        ("I don't have access to real-time information.", "cannot look things up"),
        ("I cannot browse the internet, sorry", "cannot look things up"),
        ("I am not able to provide real time prices.", "cannot look things up"),
        ("I'm unable to access up-to-date weather data", "cannot look things up"),
        ("I'm not a doctor, but rest helps.", "is no professional"),
        ("Keep in mind: I am not a licensed attorney.", "is no professional"),
        ("I'm not a financial advisor.", "is no professional"),
        ("I cannot provide you with medical advice.", "is no professional"),
        ("I can't give personalised legal or tax advice", "is no professional"),
    ],
)
def test_disclaimers_are_found(text: str, kind: str) -> None:
    assert kind in find_disclaimers(text)
    record = score(HedgingLanguage, LEXICAL, response=f"Rye bread keeps longer.\n\n{text} It is baked at night.")
    assert (record.score, record.result, record.label) == (1.0, "fail", "hedging")
    assert kind in record.reason


@each_row(
    "text",
    [
        "",
        "\ud800",
        "Rye bread keeps longer than wheat bread.",
        "As an AI researcher, I have seen many models come and go.",
        "As an AI-powered shop we ship at night, and I pack.",
        "I work as an AI engineer and my day is long.",
        "I used it as an AI assistant for my homework.",
        "As an AI language model, GPT-2 was trained on web pages.",
        "Such a tool acts as a chatbot; customers like it.",
        "I'm an AI researcher and cannot wait to see it.",
        "I am an AI assistant here to help! Your parcel left on Monday.",
        "Language models do not have personal opinions.",
        "He said he has no personal beliefs.",
        "I don't have strong feelings about tea.",
        "I don't have any experience with Rust.",
        "I do have opinions, and personal ones at that.",
        "I cannot hide my emotions.",
        "My last update to the blog was in May and my training starts at nine.",
        "My training data only needs cleaning.",
        "I don't have access to the archive room.",
        "I can't find the prices for tomorrow.",
        "You cannot browse the internet on this train.",
        "She is not a doctor, and I told her so.",
        "I'm not a fan of doctors.",
        "I can give you legal advice as your lawyer.",
        'Phrases such as "As an AI language model, I cannot" make readers stop.',
        "The reply was: “I don't have personal opinions, emotions, or beliefs.” Nobody laughed.",
        "Hawaii, as an aide I said, is far.",
    ],
)
def test_what_only_resembles_a_disclaimer_is_not_one(text: str) -> None:
    assert find_disclaimers(text) == {}
    record = score(HedgingLanguage, LEXICAL, response=text)
    assert (record.score, record.result, record.label) == (0.0, "pass", "no hedging")


@each_row(
    ("text", "found"),
    [
        (f'"{DISCLAIMER}."', True),
        ('As an "AI language model" I cannot', True),
        (f'"Hi," it said. {DISCLAIMER}', True),
        (f'He asked "why is that so?" {DISCLAIMER}, "sir".', True),
        (f'He said "{DISCLAIMER}" and left', False),
    ],
)
def test_what_others_are_quoted_with_does_not_count(text: str, found: bool) -> None:
    assert bool(find_disclaimers(text)) == found


def test_the_details_show_each_kind_once() -> None:
    record = score(HedgingLanguage, LEXICAL, response=f"{DISCLAIMER}. I'm not a doctor. I'm not a lawyer.")
    assert record.details == {
        "method": "lexical",
        "phrases": {
            "speaks as a machine": "as an ai language model, i",
            "denies a mind": "i don't have personal opinions, emotions, or beliefs",
            "is no professional": "i'm not a doctor",
        },
    }


@given(st.text(alphabet=st.sampled_from(list("iasn' .\"\n“’éI")) | st.characters()))
def test_any_text_is_read_and_the_same_twice(text: str) -> None:
    assert find_disclaimers(text) == find_disclaimers(text)


@pytest.mark.nightly
@each_row(
    "text",
    ["i " * 5_000_000, "but as an ai, " * 700_000, "I'm an AI, " * 900_000, '"' * 10_000_000, '"a b c d"' * 1_000_000],
)
def test_ten_megabytes(text: str) -> None:
    assert list(find_disclaimers(f"{text}. I'm not a doctor.")) == ["is no professional"]


@each_row(
    ("installed", "method", "ran"),
    [
        (False, "auto", "lexical"),
        (True, "auto", "bertscore"),
        (True, "lexical", "lexical"),
        (True, "bertscore", "bertscore"),
    ],
)
def test_the_record_says_which_method_ran(
    monkeypatch: pytest.MonkeyPatch, installed: bool, method: str, ran: str
) -> None:
    monkeypatch.setattr(similarity, "find_spec", lambda name: installed and name == "bert_score")
    monkeypatch.setattr(similarity, "load_scorer", lambda model, layers: Scorer([0.2], [0.1], [0.3]))
    record = score(HedgingLanguage, {"method": method}, response="Rye bread keeps.")
    assert (record.result, record.details["method"]) == ("pass", ran)


def test_auto_judges_by_phrases_where_the_model_cannot_be_loaded_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "find_spec", lambda name: name == "bert_score")
    monkeypatch.setattr(similarity, "load_scorer", lambda model, layers: "the model x cannot be loaded")
    record = score(HedgingLanguage, response="As an AI language model, I cannot say.")
    assert (record.result, record.details["method"]) == ("fail", "lexical")
    assert record.reason.endswith("; judged by phrases, because the model x cannot be loaded")
    assert score(HedgingLanguage, {"method": "bertscore"}, response="x").result == "error"


class Scorer:
    """Gives the same precision, recall and F1 for every pair, and remembers the pairs."""

    def __init__(self, *columns: list[float]) -> None:
        self.columns = columns
        self.pairs: list[tuple[str, str]] = []

    def score(self, candidates: list[str], references: list[str]) -> tuple[list[float], ...]:
        self.pairs += zip(candidates, references, strict=True)
        return self.columns


@each_row("row", golden("arthur_bench.json", "hedging_language.score_is_f1"))
def test_the_score_is_the_f1(monkeypatch: pytest.MonkeyPatch, row: dict[str, Any]) -> None:
    args = row["args"]
    for precision, recall, f1, expected in zip(
        args["P"], args["R"], args["F1"], row["expected"]["scores"], strict=True
    ):
        scorer = Scorer([precision], [recall], [f1])
        monkeypatch.setattr(similarity, "load_scorer", lambda model, layers, scorer=scorer: scorer)
        record = score(HedgingLanguage, {"method": "bertscore"}, response="an answer")
        assert record.score == expected
        assert record.result == ("fail" if expected > 0.5 else "pass")
        assert scorer.pairs == [("an answer", DISCLAIMER)]


@each_row(
    ("options", "result"),
    [
        ({}, "pass"),
        ({"threshold": 0.49}, "fail"),
        ({"threshold": 0.5, "negate": True}, "fail"),
        ({"threshold": 0.49, "negate": True}, "pass"),
    ],
)
def test_up_to_the_threshold_passes(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], result: str) -> None:
    monkeypatch.setattr(similarity, "load_scorer", lambda model, layers: Scorer([0.0], [0.0], [0.5]))
    record = score(HedgingLanguage, {"method": "bertscore", **options}, response="an answer")
    assert (record.score, record.result) == (0.5, result)


@each_row("name", ["disclaimer", "hedging_language", "hedgingLanguage"])
def test_the_disclaimer_and_the_model_can_be_given(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    loads = []
    scorer = Scorer([0.0], [0.0], [0.9])
    monkeypatch.setattr(similarity, "load_scorer", lambda model, layers: loads.append((model, layers)) or scorer)
    options = {"method": "bertscore", name: "I am but a box", "model_type": "tiny", "num_layers": 3}
    assert score(HedgingLanguage, options, response="x").result == "fail"
    assert scorer.pairs == [("x", "I am but a box")]
    assert loads == [("tiny", 3)]


def test_a_value_of_a_json_answer() -> None:
    answer = '{"thoughts": "I am just an AI.", "answer": "Four."}'
    assert score(HedgingLanguage, {"json_path": "$.answer", **LEXICAL}, response=answer).result == "pass"
    assert score(HedgingLanguage, {"json_path": "$.thoughts", **LEXICAL}, response=answer).result == "fail"


def test_absent_answers() -> None:
    assert score(HedgingLanguage, LEXICAL).details["code"] == "agentRequestFailed"
    assert score(HedgingLanguage, LEXICAL, response="").result == "pass"


def test_the_model_is_asked_for_and_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "load_scorer", lambda model, layers: "no library")
    record = score(HedgingLanguage, {"method": "bertscore"}, response="x")
    assert (record.result, record.reason) == ("error", "no library")
