import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from tests.evaluators.helpers import golden, score
from tests.evaluators.tables import each_row
from tui_evals.evaluators import style
from tui_evals.evaluators.style import Specificity, names_and_numbers, not_vague, rarity, specificity_score, word_count


@each_row("row", golden("arthur_bench.json", "specificity.non_vague"))
def test_vagueness_is_that_of_the_original(row: dict[str, Any]) -> None:
    text = row["args"]["candidate"]
    if row["expected"] == {"error": "ZeroDivisionError"}:
        assert score(Specificity, response=text).score == 0.0
    else:
        assert not_vague(text, word_count(text)) == row["expected"]


@each_row("row", golden("arthur_bench.json", "specificity.adj_freq"))
def test_rarity_is_that_of_the_original(row: dict[str, Any]) -> None:
    pytest.importorskip("wordfreq", reason="the extra [specificity] is not installed")
    assert rarity(row["args"]["candidate"]) == pytest.approx(row["expected"])


_SHAPED_OTHERWISE = {"Berlin is the capital.": 0.0, "she bought three apples.": 0.0, "we met in paris last year.": 0.0}
"""Names that begin a sentence or are in lower case, and numbers in words, which only a tagger finds."""


@each_row("row", golden("arthur_models.json", "specificity"))
def test_scores_are_those_of_the_original_but_for_what_only_a_tagger_finds(row: dict[str, Any]) -> None:
    pytest.importorskip("wordfreq", reason="the extra [specificity] is not installed")
    text, expected = row["args"]["candidate"], row["expected"]
    record = score(Specificity, response=text)
    found = record.details
    assert (found["not_vague"], found["rarity"]) == pytest.approx((expected["not_vague"], expected["rarity"]))
    if text in _SHAPED_OTHERWISE:
        assert found["names_and_numbers"] == _SHAPED_OTHERWISE[text] < expected["names_and_numbers"]
    else:
        assert found["names_and_numbers"] == pytest.approx(expected["names_and_numbers"])
        assert record.score == pytest.approx(expected["score"])


@each_row("row", golden("arthur_bench.json", "specificity.aggregate"))
def test_the_parts_are_combined_as_in_the_original(row: dict[str, Any]) -> None:
    args = row["args"]
    assert specificity_score(args["non_vague"], args["adj_freq"], args["pn"]) == row["expected"]


@each_row(
    ("text", "expected"),
    [
        ("one two three four", 1.0),
        ("Maybe it likes unlike things of that kind in there", 0.0),
        ("almost nobody of the twenty people there went to that one", 0.0),
        ("a b c d e f g h i some", 0.5),
        ("SOME b c d e f g h i j", 0.5),
    ],
)
def test_vague_words_count_inside_words_and_most_counts_twice(text: str, expected: float) -> None:
    assert not_vague(text, word_count(text)) == pytest.approx(expected)


@each_row(
    ("text", "count"),
    [
        ("the meeting is in Oslo with Anna", 2),
        ("Oslo is big", 0),
        ("It rained. Oslo was wet", 0),
        ('He left. "Then nothing," he said.', 0),
        ('He told "Anna" so', 1),
        ("It cost 12 euros in 2024", 2),
        ("7 of them", 1),
        ("gate B12 and B13x", 2),
        ("version 3.14.1 works", 1),
        ("And I think I know what I'm doing, I’ve seen it", 0),
        ("- Oslo\n- Bergen\nAnd more", 0),
        ("- Oslo - Bergen", 1),
        ("visit the U.S.A. soon", 1),
        ("\ud800 Zoë met Øyvind", 1),
        ("北京 and Москва", 1),
        ("", 0),
    ],
)
def test_names_and_numbers_are_upper_case_within_a_sentence_or_hold_a_digit(text: str, count: int) -> None:
    assert names_and_numbers(text, 100) == pytest.approx(0.05 * count)


def test_names_and_numbers_are_at_most_all() -> None:
    assert names_and_numbers("1 2 3 4", 4) == 1.0


@pytest.fixture
def fixed_frequencies(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    frequencies = {"the": 0.05, "cat": 0.0005, "ran": 0.0006}
    monkeypatch.setattr(style, "_load_word_frequency", lambda: lambda word: frequencies.get(word, 0.0))
    yield


@each_row(
    ("text", "expected"),
    [
        ("", 0.0),
        ("the the", 0.0),
        ("cat ran", 2 - 0.00055 / 0.0004),
        ("cat/ran", 2 - 0.00055 / 0.0004),
        ("(cat), ran!", 2 - 0.00055 / 0.0004),
        ("the axolotl cat ran", 2 - 0.0021 / 4 / 0.0004),
        ("axolotl", 1.0),
        ("c'at", 1.0),
    ],
)
@pytest.mark.usefixtures("fixed_frequencies")
def test_rarity_is_the_mean_of_capped_frequencies(text: str, expected: float) -> None:
    assert rarity(text) == pytest.approx(expected)


@each_row(("options", "result"), [({}, None), ({"threshold": 0.6}, "pass"), ({"threshold": 0.7}, "fail")])
@pytest.mark.usefixtures("fixed_frequencies")
def test_a_third_of_each_part_and_a_result_with_a_threshold(options: dict[str, Any], result: str | None) -> None:
    record = score(Specificity, options, response="an axolotl swam past")
    assert (record.score, record.result) == (pytest.approx(0.66), result)
    assert record.details == {"words": 4, "not_vague": 1.0, "rarity": 1.0, "names_and_numbers": 0.0}


@pytest.mark.usefixtures("fixed_frequencies")
def test_a_value_of_a_json_answer() -> None:
    record = score(Specificity, {"json_path": "$.a"}, response='{"a": "axolotl", "b": "some the some"}')
    assert record.details["words"] == 1


def test_an_answer_without_words_is_not_specific() -> None:
    assert score(Specificity, response="...").score == 0.0
    assert score(Specificity, {"threshold": 0.1}, response="").result == "fail"
    assert score(Specificity).details["code"] == "agentRequestFailed"


def test_without_the_extra_the_record_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    style._load_word_frequency.cache_clear()
    monkeypatch.setitem(sys.modules, "wordfreq", None)
    record = score(Specificity, response="an axolotl")
    assert record.details["code"] == "evaluatorConfigurationError"
    assert "pip install 'tui-evals[specificity]'" in record.reason


@pytest.mark.nightly
@pytest.mark.usefixtures("fixed_frequencies")
@each_row(
    ("text", "expected"),
    [("the axolotl A1 " * 600_000, 0.99), ("most" * 2_500_000, None)],
)
def test_ten_megabytes(text: str, expected: float | None) -> None:
    record = score(Specificity, response=text)
    assert record.score == (pytest.approx(expected) if expected else None)
    assert record.details.get("code") == (None if expected else "responseTooLarge")


@each_row("row", golden("arthur_models.json", "specificity"))
def test_with_compat_names_and_numbers_are_those_of_the_original(row: dict[str, Any]) -> None:
    pytest.importorskip("wordfreq", reason="the extra [specificity] is not installed")
    nltk = pytest.importorskip("nltk", reason="the tagger of the original is not installed")
    try:
        nltk.pos_tag(nltk.word_tokenize("One."))
    except LookupError:
        pytest.skip("the data of the tagger are not installed")
    record = score(Specificity, {"compat": True}, response=row["args"]["candidate"])
    assert record.details["names_and_numbers"] == pytest.approx(row["expected"]["names_and_numbers"])


@pytest.fixture
def tagger(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A library in the place of nltk, which tags each word by a list."""
    library: Any = ModuleType("nltk")
    library.known = {"Berlin": "NNP", "three": "CD", "Berlins": "NNPS"}
    library.word_tokenize = lambda text: text.replace(".", " .").split()
    library.pos_tag = lambda words: [(word, library.known.get(word, "NN")) for word in words]
    monkeypatch.setitem(sys.modules, "nltk", library)
    style._load_tagger.cache_clear()
    yield library
    style._load_tagger.cache_clear()


@each_row(
    ("text", "share"),
    [("Berlin is the capital.", 1.0), ("three apples and Berlins and pears on a table lie.", 0.5), ("paris 1902", 0.0)],
)
@pytest.mark.usefixtures("tagger", "fixed_frequencies")
def test_with_compat_the_tags_of_nltk_count(text: str, share: float) -> None:
    assert score(Specificity, {"compat": True}, response=text).details["names_and_numbers"] == share


@pytest.mark.usefixtures("fixed_frequencies")
def test_with_compat_and_without_the_tagger_a_sentence_says_what_to_install(
    tagger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(text: str) -> None:
        raise LookupError(text)

    tagger.word_tokenize = missing
    without_data = score(Specificity, {"compat": True}, response="an axolotl")
    monkeypatch.setitem(sys.modules, "nltk", None)
    without_library = score(Specificity, {"compat": True}, response="an axolotl")
    for record in (without_data, without_library):
        assert record.result == "error" and "python -m nltk.downloader" in record.reason
    assert "pip install nltk" in (Specificity(Specificity.Options(compat=True)).obstacle() or "")
