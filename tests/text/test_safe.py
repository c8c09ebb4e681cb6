import base64
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.text import safe as safe_module
from tui_evals.text.safe import redacted, safe, safe_line, spell_out, without_sequences

ESC, CSI, OSC, ST = "\x1b", "\x9b", "\x9d", "\x9c"
FAMILY = "👩‍👩‍👧"
HEART_ON_FIRE = "❤️‍🔥"
KEYCAP = "1️⃣"

# Rich in everything sequences are made of, so that removals often lie beside one another.
pieces = st.sampled_from(
    [
        *"\x1b\x1b\x1b[[]]P(\\;0m A\x07\x9b\x9c\x9d\x90\x18\r\n\t\x00\x7fé1👍",
        *("\u200d", "\u200c", "\ufe0f", "\u202e", "\ud800", "\udc00", "\U000e0041", "\u200b"),
        *("\x1b[31m", "\x1b]8;;x\x1b\\", "\r\n", "a" * 4095, "<U+202E>"),
    ]
)
dirty = st.lists(pieces, max_size=24).map("".join)
anything = st.one_of(dirty, st.text(st.characters(), max_size=40))

FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("a\x1b[2Jb\x1b[1;1Hc\x1b[?1049hd\x1b[4 qe", "abcde"),
        ("a\x9b31mb\x9b2Jc", "abc"),
        ("a\x1b]0;title\x07b", "ab"),
        ("a\x1b]52;c;aGVsbG8=\x1b\\b", "ab"),
        ("a\x9d52;c;aGVsbG8=\x9cb", "ab"),
        ("a\x9d0;tïtle\x07b", "ab"),
        ("\x1b]8;;https://example.org\x1b\\here\x1b]8;;\x1b\\", "here"),
        ("a\x1bP1$r0m\x1b\\b\x90q#0\x9cc", "abc"),
        ("a\x1bXsos\x1b\\b\x1b^pm\x1b\\c\x1b_apc\x1b\\d", "abcd"),
        ("a\x98sos\x9cb\x9epm\x9cc\x9fapc\x9cd", "abcd"),
        ("a\x1b(Bb\x1b)0c\x1b%Gd\x1b#8e", "abcde"),
        ("a\x1bcb\x1b7c\x1b8d\x1b=e\x1bMf", "abcdef"),
        ("a\x1b\\b", "ab"),
    ],
)
def test_a_sequence_goes_with_its_payload(text: str, shown: str) -> None:
    assert safe(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b]0;never closed", "a␛]0;never closed"),
        ("a\x9d0;never closed", "a\ufffd0;never closed"),
        ("a\x1b]0;line\nnext\x07b", "a␛]0;line\nnext␇b"),
        ("a\x1b]0;cut\x18b\x07c", "a␛]0;cut␘b␇c"),
        ("a\x1b]0;new\x1b[31mb\x07", "a␛]0;newb␇"),
        ("a\x1b]0;one\x1b]0;two\x07b", "a␛]0;oneb"),
        ("a\x1bPnever\x1b", "a␛Pnever␛"),
        ("a\x1b[31", "a␛[31"),
        ("a\x1b[31é", "a␛[31é"),
        ("\x1b", "␛"),
        ("\x1b\x1b[31ma", "␛a"),
        ("\x1bé", "␛é"),
        ("\x9c\x84", "\ufffd\ufffd"),
    ],
)
def test_an_unfinished_sequence_is_shown_and_hides_nothing(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_a_payload_of_up_to_4096_characters_is_removed_and_a_longer_one_is_shown() -> None:
    assert safe(f"a\x1b]{'x' * 4096}\x07b") == "ab"
    assert safe(f"a\x1b]{'x' * 4097}\x07b") == f"a␛]{'x' * 4097}␇b"
    assert safe(f"a\x1b]{'x' * 1_000_000}") == f"a␛]{'x' * 1_000_000}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b\x1b[31m[31mred", "␛[31mred"),
        ("\x1b\x1b[0m]52;c;x\x07", "␛]52;c;x␇"),
        ("\x9d\x1b[0m0;x\x07", "\ufffd0;x␇"),
        ("\x1b\x1b\\[2J", "␛[2J"),
    ],
)
def test_what_a_removal_leaves_never_joins_into_a_new_sequence(text: str, shown: str) -> None:
    assert safe(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x00b\x08c\x0bd\x0ce\x1ff", "a␀b␈c␋d␌e␟f"),
        ("a\x7fb", "a␡b"),
        ("a\x85b\x9fc", "a\ufffdb\ufffdc"),
        ("a\r\nb\rc\r\r\nd", "a\nb␍c␍\nd"),
        ("\ta\n", "\ta\n"),
        ("\ud800a\udfff", "\ufffda\ufffd"),
        ("a\u202eb\u2066c\u200fd\u061ce", "a<U+202E>b<U+2066>c<U+200F>d<U+061C>e"),
        ("pass\u200bword\ufeff\xad", "pass<U+200B>word<U+FEFF><U+00AD>"),
        ("a\u2028b\u2029c\u2063d", "a<U+2028>b<U+2029>c<U+2063>d"),
        ("hi\U000e0068\U000e0069", "hi<U+E0068><U+E0069>"),
        ("\u3164\u115f\uffa0", "<U+3164><U+115F><U+FFA0>"),
    ],
)
def test_controls_and_invisible_characters_become_visible(text: str, shown: str) -> None:
    assert safe(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain\n\ttext ~ [/INST] \\x1b",
        f"{FAMILY} {HEART_ON_FIRE} 👍🏽 🇩🇪 {KEYCAP} ✔︎",
        "क्‍ष क्‌ष മലയാളം ന്‍",
        "می‌خواهم",
        "葛\U000e0100城 ᠠ\u180b",
        "é e\u0301 ﷺ שלום 漢字 ␛ \ufffd <U+202E> \ue0b0 ⏎",
    ],
)
def test_clean_text_is_returned_as_it_is(text: str) -> None:
    assert safe(text) == text


def test_clean_text_without_joiners_is_the_same_object() -> None:
    text = "clean " * 1000 + "é\n"
    assert safe(text) is text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("pa\u200dss", "pa<U+200D>ss"),
        ("\u200cstart", "<U+200C>start"),
        ("é\u200d\u200d\u200c.", "é\u200d<U+200D><U+200C>."),
        ("😀\ufe0f\ufe0f\U000e0100", "😀\ufe0f<U+FE0F><U+E0100>"),
        ("a\ufe0f\u200d", "a<U+FE0F><U+200D>"),
        ("1\ufe0f\u200d", "1\ufe0f<U+200D>"),
        ("é\x1b[0m\u200d", "é\u200d"),
        ("a\x01\u200d\u202e\u200d", "a␁<U+200D><U+202E><U+200D>"),
        ("\ud83d\u200d", "\ufffd<U+200D>"),
    ],
)
def test_a_joiner_or_selector_stays_only_where_a_script_or_emoji_can_use_it(text: str, shown: str) -> None:
    assert safe(text) == shown


@given(anything)
def test_nothing_a_terminal_obeys_comes_through_and_a_second_pass_changes_nothing(text: str) -> None:
    once = safe(text)
    assert not FORBIDDEN.search(once)
    assert safe(once) == once


@given(st.text(st.characters(exclude_categories=["C", "Mn", "Lo", "Zl", "Zp"], include_characters="\n\t")))
def test_visible_text_is_never_changed(text: str) -> None:
    assert safe(text) == text


@given(anything, st.integers(0, 30))
def test_a_cut_line_starts_as_the_whole_line_does(text: str, limit: int) -> None:
    whole = safe_line(text)
    assert whole == safe(text).replace("\n", "⏎").replace("\t", " ")
    expected = whole if len(whole) <= limit else whole[: max(limit - 1, 0)] + "…" * (limit > 0)
    assert safe_line(text, limit) == expected


@pytest.mark.parametrize(
    ("text", "limit", "line"),
    [
        ("one\ntwo\tthree\r\n", None, "one⏎two three⏎"),
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "abcd…"),
        ("abcdef", 1, "…"),
        ("abcdef", 0, ""),
        ("\x1b[31mab\x1b[0mcdef", 4, "abc…"),
        ("\x1b[31mabcd\x1b[0m", 4, "abcd"),
        ("\x1b]0;" + "x" * 4000 + "\x07" + "\x1b[1m" * 5000 + "abc", 3, "abc"),
        ("\x1b[1m" * 50_000 + "abc", 2, "a…"),
        ("ab\r\n" + "\r\n" * 10_000, 4, "ab⏎…"),
    ],
)
def test_one_line(text: str, limit: int | None, line: str) -> None:
    assert safe_line(text, limit) == line


@pytest.mark.parametrize("unit", ["clean text ", "\x1b[31mred\x1b[0m ", "\x1b]", "é\u200d\u200d"])
def test_a_short_cell_of_a_huge_text_reads_only_its_start(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def watched(text: str) -> str:
        read.append(len(text))
        return without_sequences(text)

    monkeypatch.setattr(safe_module, "without_sequences", watched)
    assert len(safe_line(unit * (10_000_000 // len(unit)), 80)) == 80
    assert sum(read) < 100_000


@pytest.mark.parametrize(
    "unit", ["\x1b", "\x1b]", "\x9d", "\x9d" + "a" * 5000, "\x1b[" + "1" * 5000, "\x1b[1 ", "\u200d"]
)
def test_hostile_text_takes_time_in_proportion_to_its_length(unit: str) -> None:
    text = unit * (500_000 // len(unit))  # in proportion to its square it would take many minutes
    assert len(safe(text)) <= 8 * len(text), "the longest picture of a character is <U+200D>"


@pytest.mark.parametrize(
    ("text", "spelt"),
    [
        ("plain 漢字 é", "plain 漢字 é"),
        ("a\x1b[31m\x9b\x07\x7f", r"a\x1b[31m\x9b\x07\x7f"),
        ("a\r\nb\tc", "a\\r\nb\\tc"),
        ("a\u202eb\ufeff\xa0\U000e0041", r"a\u202eb\ufeff\xa0\U000e0041"),
        ("\ud800", r"\ud800"),
        (FAMILY, r"👩\u200d👩\u200d👧"),
        ("❤️", r"❤\ufe0f"),
        (r"C:\x1b", r"C:\\x1b"),
    ],
)
def test_spelling(text: str, spelt: str) -> None:
    assert spell_out(text) == spelt


def _unspelt(text: str) -> str:
    escape = re.compile(r"\\(?:x..|u....|U.{8}|[\\rt])")
    return escape.sub(lambda found: found.group().encode("ascii").decode("unicode_escape"), text)


@given(st.one_of(anything, st.text(st.sampled_from("\\xu1b\x1b\n\t\r"))))
def test_spelling_is_safe_and_can_be_read_back(text: str) -> None:
    spelt = spell_out(text)
    assert safe(spelt) == spelt
    assert _unspelt(spelt) == text


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
