import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.text.measures import estimate_tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("abcd", 1),
        ("abcde", 2),
        ("é", 1),
        ("北京", 2),
        ("🙂", 1),
        ("\ud800", 1),
        ("The quick brown fox.", 5),
    ],
)
def test_one_token_for_every_four_bytes(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


@given(st.text(alphabet=st.characters(exclude_categories=())), st.text())
def test_more_text_is_never_fewer_tokens(text: str, more: str) -> None:
    assert estimate_tokens(text) <= estimate_tokens(text + more) <= estimate_tokens(text) + estimate_tokens(more)
