"""Language: what the library tells of an answer, and what is said where it cannot."""

import pytest
from pydantic import ValidationError

from tests.evaluators.helpers import score
from tests.evaluators.tables import each_row
from tui_evals.evaluators.style import Language

GERMAN = "Die Bücherei öffnet am Montag um neun Uhr und schließt um sechs."


def test_without_its_library_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr("tui_evals.evaluators.style.load_identifier", lambda: None)
    record = score(Language, {"languages": ["de"]}, response=GERMAN)
    assert record.result == "error" and "pip install 'tui-evals[language]'" in record.reason


def test_few_letters_tell_nothing_and_are_skipped():
    assert score(Language, {"languages": ["de"]}, response="42 %, ja").result == "skipped"


@each_row("options", [{}, {"languages": []}, {"languages": ["German"]}])
def test_languages_are_given_by_their_codes(options):
    with pytest.raises(ValidationError):
        Language.Options.model_validate(options)


def test_the_right_language_passes():
    pytest.importorskip("py3langid", reason="py3langid is not installed")
    assert score(Language, {"languages": ["de"]}, response=GERMAN).result == "pass"
    other = score(Language, {"languages": ["en", "fr"]}, response=GERMAN)
    assert other.result == "fail" and "reads like de" in other.reason and other.label == "de"
    short = {"languages": ["en"], "least_letters": 5}
    assert score(Language, short, response="Hello there").result == "fail"
    assert score(Language, {**short, "among": ["de", "fr"]}, response="Hello there").result == "pass"
    assert "is not known" in score(Language, {"languages": ["xx"]}, response=GERMAN).reason
