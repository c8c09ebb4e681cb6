"""Translate: BLEU of the sacrebleu library where it is installed, an error that says how to get it where not."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.evaluators.helpers import score
from tests.evaluators.tables import each_row
from tui_evals.evaluators import text
from tui_evals.evaluators.text import READ_CHARS, Translate

ASKED: list[tuple[str, Sequence[str]]] = []


class Bleu:
    """Scores an answer by the number at its end, and keeps what it was asked."""

    def __init__(self, *, effective_order: bool = False) -> None:
        assert effective_order, "the original leaves no short sentence at zero"

    def sentence_score(self, answer: str, references: Sequence[str]) -> Any:
        ASKED.append((answer, references))
        return SimpleNamespace(score=float(answer.rpartition(" ")[2] or 0))


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    ASKED.clear()
    text.load_bleu.cache_clear()
    yield
    text.load_bleu.cache_clear()


@pytest.fixture
def sacrebleu(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("sacrebleu.metrics.bleu")
    module.BLEU = Bleu
    for name in ("sacrebleu", "sacrebleu.metrics"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", module)


@each_row(
    ("answer", "options", "result"),
    [
        ("bleu 30.1", {}, "pass"),
        ("bleu 30", {}, "fail"),
        ("bleu 30", {"threshold": 29.5}, "pass"),
        ("bleu 80", {"negate": True}, "fail"),
    ],
)
@pytest.mark.usefixtures("sacrebleu")
def test_it_passes_above_the_threshold_and_not_at_it(answer: str, options: dict[str, Any], result: str) -> None:
    record = score(Translate, options, response=answer, expected="x")
    assert (record.result, record.score) == (result, float(answer[5:]))


@pytest.mark.usefixtures("sacrebleu")
def test_all_references_are_compared_at_once_and_the_best_text_counts() -> None:
    record = score(
        Translate,
        {"json_path": "$[*]"},
        response='["a 3", "b 40"]',
        expected="one",
        alternatives=("two",),
    )
    assert [asked[0] for asked in ASKED] == ["a 3", "b 40"]
    assert {tuple(asked[1]) for asked in ASKED} == {("one", "two")}
    assert (record.score, record.details["bleu"], record.reason) == (40.0, 40.0, "BLEU 40.0, and it passes above 30")


@pytest.mark.usefixtures("sacrebleu")
def test_of_a_long_text_the_beginning_is_compared() -> None:
    score(Translate, response=" " * READ_CHARS + "x", expected="y" * (READ_CHARS + 5))
    assert [(len(answer), len(references[0])) for answer, references in ASKED] == [(READ_CHARS, READ_CHARS)]


def test_without_the_library_it_is_an_error_that_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    record = score(Translate, response="a", expected="a")
    assert (record.result, record.score, record.details["code"]) == ("error", None, "evaluatorConfigurationError")
    assert record.reason.endswith("not installed: pip install 'tui-evals[bleu]'")
    assert score(Translate, {"negate": True}, response="a", expected="b").result == "error"


def test_the_real_library_gives_its_own_score() -> None:
    pytest.importorskip("sacrebleu")
    assert score(
        Translate, response="the cat sat on the mat", expected="the cat sat on the mat"
    ).score == pytest.approx(100)
    assert score(Translate, response="no word alike", expected="the cat sat on the mat").result == "fail"
