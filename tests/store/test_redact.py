import pytest

from tui_evals.store.redact import redacted


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("key sk-proj-abcdefgh1234 refused", "key [redacted] refused"),
        ("Authorization: Bearer abc.def-123", "Authorization: Bearer [redacted]"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [redacted]"),
        ("http://h/v1?api_key=abcdef123&x=1", "http://h/v1?api_key=[redacted]&x=1"),
        ('{"api_key": "abcdef123", "n": 1}', '{"api_key": "[redacted]", "n": 1}'),
        ('{\\"access_token\\": \\"abcdef123\\"}', '{\\"access_token\\": \\"[redacted]\\"}'),
        ("x-api-key: abcdef123", "x-api-key: [redacted]"),
        ("https://me:hunter22@host/x", "https://me:[redacted]@host/x"),
        ("ghp_abcdefghijklmnopqrstuvwx", "[redacted]"),
        ('{"api_key": "env:OPENAI_API_KEY"}', '{"api_key": "env:OPENAI_API_KEY"}'),
        ("max_tokens=512 and a task-list of risks", "max_tokens=512 and a task-list of risks"),
        ("the bearer of news", "the bearer of news"),
        ("http://host:8000/v1 a@b", "http://host:8000/v1 a@b"),
    ],
)
def test_shapes_of_keys(text, wanted):
    assert redacted(text) == wanted


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("it is pa$$ word/1!", "it is [redacted]!"),
        ("q=pa%24%24%20word%2F1", "q=[redacted]"),
        ("tiny stays", "tiny stays"),
        ("longer first: pa$$ word/1-longer", "longer first: [redacted]"),
    ],
)
def test_known_secrets_in_every_spelling(text, wanted):
    assert redacted(text, ["pa$$ word/1", "tiny", "pa$$ word/1-longer"]) == wanted
