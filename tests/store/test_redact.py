import base64

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


SECRET = "canary-0f9A_Zk-of-the-shell"


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode], ids=["standard", "urlsafe"])
@pytest.mark.parametrize("before", ["", "x", "xy", "xyz"])
def test_a_secret_in_base64_goes_wherever_it_begins(encode, before):
    text = encode(f"{before}{SECRET} and more".encode()).decode()
    shown = redacted(f"it is {text}.", [SECRET])
    assert "[redacted]" in shown
    assert SECRET[4:-4].encode() not in base64.b64decode(shown.removeprefix("it is ").split("[")[0] + "====")


@pytest.mark.parametrize(
    "shown",
    [
        SECRET[::-1],
        " ".join(SECRET),
        "-".join(SECRET),
        "\u200b".join(SECRET),
        f"{SECRET[:9]}\n{SECRET[9:]}",
        SECRET.replace("-", " "),
        " ".join(SECRET[::-1]),
        "\n".join(base64.b64encode(SECRET.encode()).decode()),
    ],
)
def test_a_secret_goes_backwards_and_with_something_between_its_letters(shown):
    found = redacted(f"it is {shown} here", [SECRET])
    assert found.startswith("it is [redacted]")
    assert found.endswith(" here")
    assert len(found) < len("it is [redacted] here") + 4


def test_a_short_secret_takes_no_digits_out_of_a_table():
    assert redacted("1 2 3 4 5 6 7 8", ["12345678"]) == "1 2 3 4 5 6 7 8"
