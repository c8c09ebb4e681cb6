"""`tui-evals help WORD`: what the words of comparing mean."""

import re

import pytest

from tui_evals.cli.manual import pages, word_meanings
from tui_evals.compare.runs import KINDS

USED = (
    *(
        "pass rate",
        "interval",
        "three more items",
        "McNemar",
        "sign-flip test",
        "p",
        "Holm",
        "power",
        "could be chance",
    ),
    *("pass@k", "pass^k", "majority", "at least k", "flaky", "judge noise", "model noise", "score distribution"),
    *("kappa", "agreement", "blind label", "baseline", "regression", "win rate", "position bias", "Elo", "tie"),
)


@pytest.mark.parametrize("word", [*USED, *KINDS])
def test_every_word_used_has_two_sentences(shell, word):
    done = shell("help", word)
    assert done.code == 0 and done.out.startswith(f"{word}\n")
    assert len(re.findall(r"[.!?](?:\s|$)", done.out)) == 2
    assert shell("help", word.upper()).out == done.out


def test_a_word_may_be_written_as_several_arguments(shell):
    assert shell("help", "blind", "Label").out == shell("help", "blind label").out


def test_no_page_has_the_name_of_a_word_and_no_word_is_there_twice():
    names = [word.casefold() for word in word_meanings()]
    assert len(set(names)) == len(names) and not set(names) & set(pages())
    assert {word.casefold() for word in (*USED, *KINDS)} == set(names)


def test_an_unknown_word_suggests_the_nearest(shell):
    done = shell("help", "kapa")
    assert done.code == 2 and "'kapa' (did you mean 'kappa'?)" in done.err


def test_the_list_of_pages_names_the_words(shell):
    out = shell("help").out
    assert "kappa" in out and re.search(r"^  words +Words of comparing$", out, re.MULTILINE)
