import dataclasses
import re
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.text import patterns
from tui_evals.text.patterns import Pattern, PatternError, PatternTimeout, compile_pattern


@pytest.fixture
def short_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_TIME_LIMIT", 0.2)


@pytest.fixture
def no_re2(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "re2", None)
    compile_pattern.cache_clear()
    yield
    compile_pattern.cache_clear()


def backtracking(pattern: Pattern) -> Pattern:
    return dataclasses.replace(pattern, _linear=None)


def decided_by_re2(pattern: Pattern, text: str) -> bool:
    return pattern._linear is not None and pattern._linear.verdict("search", text) is not None


# pattern, text, whether it is found, whether it is the whole: as Python's own `re` says.
LIKE_PYTHON = [
    ("", "", True, True),
    ("b+", "abbc", True, False),
    ("colou?r", "the colour", True, False),
    ("(a|ab)(c|bcd)(d*)", "abcd", True, True),
    ("^yes$", "yes", True, True),
    ("^yes$", "yes\n", True, False),
    ("^yes$", "yes\n\n", False, False),
    ("yes\\Z", "yes\n", False, False),
    ("yes\\Z", "yes", True, True),
    ("(?m)^b$", "a\nb\nc", True, False),
    ("(?m)^$", "a\n", True, False),
    ("a.c", "a\nc", False, False),
    ("(?s)a.c", "a\nc", True, True),
    ("a.c", "a\rc", True, True),
    (r"\d+", "٣٤", True, True),
    (r"[\d.]+", "٣.٤", True, True),
    (r"\D", "٣", False, False),
    (r"\w+", "naïve漢字_1", True, True),
    (r"[\w-]+", "naïve-é", True, True),
    (r"\W", "é", False, False),
    (r"[^\W\d_]+", "é", True, True),
    (r"[^\W\d_]+", "_1", False, False),
    (r"\bété\b", "un été.", True, False),
    (r"\bt\b", "été", False, False),
    (r"\bword\b", "a word.", True, False),
    (r"a\Bb", "ab", True, True),
    (r"a\sb", "a\u00a0b", True, True),
    (r"a\sb", "a\x0bb", True, True),
    (r"[\s]", "\u3000", True, True),
    (r"\S", "\u2028", False, False),
    (r"[\S\n]", "\x0b", False, False),
    (r"[\s\S]+", "é\n😀\u2028", True, True),
    (r"[^\s\S]*a", "ba", True, False),
    (r"[^\d\D-]", "-", False, False),
    (r"(?=[^\W\w])", "é", False, False),
    (r"[\b]", "\b", True, True),
    (r"\u00e9\x41\101", "éAA", True, True),
    (r"[\u4e00-\u9fff]+", "漢字", True, True),
    (r"\U0001F600", "😀", True, True),
    (r"\0\07", "\0\7", True, True),
    ("a{,3}b", "aaab", True, True),
    ("a{,3}b", "a{,3}b", True, False),
    ("a{2,}", "aaa", True, True),
    ("{name}", "{name}", True, True),
    ("a{e}", "a{e}", True, True),
    ("a{e}", "b", False, False),
    ("a{1", "a{1", True, True),
    ("[]a]+", "]a", True, True),
    ("[^]a]", "]", False, False),
    ("[-a]+", "-a", True, True),
    ("(?i)straße", "STRAßE", True, True),
    ("(?i:A)b", "ab", True, True),
    ("(?i:A)b", "aB", False, False),
    ("(?i)i", "İ", True, True),
    ("(?i)İ", "i", True, True),
    ("(?i)[à-ſ]", "I", True, True),
    ("(?i)k", "\u212a", True, True),
    ("(?P<n>a)b", "ab", True, True),
    ("(?#note [)a", "a", True, True),
    (r"(\w)\1", "hello", True, False),
    (r"(\w)\1", "ll", True, True),
    ("(?P<q>['\"]).*(?P=q)", "say 'hi'", True, False),
    ("a(?=b)", "ab", True, False),
    ("(?<!not )safe", "not safe", False, False),
    ("(?<!not )safe", "so safe", True, False),
    ("(?>a+)a", "aaa", False, False),
    ("a++a", "aaa", False, False),
    ("^.{0,5000}$", "x" * 4000, True, True),
    ("\ud800", "\ud800", True, True),
    ("a", "\udfffa", True, False),
    ("\\\\", "\\", True, True),
]


@pytest.mark.parametrize(("source", "text", "found", "whole"), LIKE_PYTHON)
def test_a_pattern_means_what_it_means_in_python_with_either_engine(
    source: str, text: str, found: bool, whole: bool
) -> None:
    python = re.compile(source)
    assert (bool(python.search(text)), bool(python.fullmatch(text))) == (found, whole)
    pattern = compile_pattern(source)
    for engine in (pattern, backtracking(pattern)):
        assert (engine.search(text), engine.fullmatch(text)) == (found, whole)


@pytest.mark.parametrize(
    ("source", "text", "verdict"),
    [
        (r"^\w+$", "हिन्दी", True),
        (r"^\w+$", "می\u200cخواهم", True),
        (r"\w", "²", False),
        (r"\s", "\x1c", False),
        (r"^\p{Lu}\p{L}+$", "Élan", True),
        (r"(?<year>\d{4})", "in 2024", True),
        ("[a&&b]", "&", True),
        (r"\p{Lu}0{,2}", "a", False),
    ],
)
def test_where_python_knows_less_of_unicode_the_regex_library_decides(source: str, text: str, verdict: bool) -> None:
    pattern = compile_pattern(source)
    assert pattern.search(text) is verdict
    assert backtracking(pattern).search(text) is verdict


@pytest.mark.parametrize(
    ("source", "text", "linear"),
    [
        (r"^(\w+\s?)*@[\d-]+$", "naïve – 漢字", True),
        (r"\bword\b", "a word", True),
        (r"\bword\b", "a “word”", False),
        ("^yes$", "yes", True),
        ("^yes$", "yes\n", False),
        ("a(?=b)", "ab", False),
        (r"(a)\1", "aa", False),
        ("a", "\ud800", False),
        ("a[ab]{500}c", "ab" * 1000, True),
        ("a[ab]{500}c", "ab" * 1_000_000, False),
    ],
)
def test_re2_decides_only_where_it_reads_the_pattern_alike_and_is_quick(source: str, text: str, linear: bool) -> None:
    assert decided_by_re2(compile_pattern(source), text) is linear


parts = st.sampled_from(
    [
        *"abAB0_ -.,^$|()[]*+?ksIiéıſ²\n",
        *(r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", r"\b", r"\B", r"\Z", r"\u00e9", r"\x41", r"\0", r"\12", r"\-"),
        *("[a-c]", "[^a]", r"[\w-]", r"[^\W\d_]", r"[\s\S]", r"[^\s]", "[à-ſ]", r"\p{Lu}", "{2}", "{,2}", "{e}"),
        *("{1,}", "(?:", "(?i:", "(?i)", "(?s)", "(?m)", "(?=", "(?P<n>", "*?", "??"),
    ]
)
letters = st.sampled_from([*"abAB0_ -.kKsSiIéÉıſ²٣\n\n\x0b\u00a0\u0345ι\u200d\u3000😀", "\ud800"])


@given(st.lists(parts, max_size=8).map("".join), st.lists(letters, max_size=6).map("".join), st.booleans())
def test_both_engines_agree_on_any_pattern_they_accept(source: str, text: str, ignore_case: bool) -> None:
    try:
        pattern = compile_pattern(source, ignore_case=ignore_case)
    except PatternError:
        return
    assert pattern.search(text) == backtracking(pattern).search(text)
    assert pattern.fullmatch(text) == backtracking(pattern).fullmatch(text)


def test_case_is_ignored_on_request() -> None:
    assert not compile_pattern("héllo").search("HÉLLO")
    assert compile_pattern("héllo", ignore_case=True).search("HÉLLO")
    assert compile_pattern("(?=héllo)", ignore_case=True).search("HÉLLO")


A10 = "a" * 10_000_000
EVIL = [
    ("^(a+)+$", "a" * 40 + "!"),
    ("^(a+)+$", A10 + "!"),
    ("^(a+)+$", "a" * 20_000 + "!\n"),
    ("^(a|a)*$", A10 + "!"),
    ("^(a|aa)+$", A10 + "!"),
    ("([a-zA-Z]+)*$", A10 + "!"),
    ("(x+x+)+y", "x" * 10_000_000),
    ("(.*a){20}b", A10),
    (r"(\w+\s?)*@", "the quick – brown fox " * 500_000),
    (r"^(\w+\s?)+\b@", "thé quick brown fox " * 500),
    ("a[ab]{500}c", "aabab" * 2_000_000),
    ("(?:a?){500}a{400}c", "a" * 400),
    ("a?" * 450 + "a" * 450, "a" * 450),
    ("(" * 80 + "a" + ")*" * 80 + "(?=b)", "a" * 100_000),
    ("^(?=(a+)+$)", A10),
    (r"^(.+)\1+b", A10),
    (r"(?:(a)|(b))*(?=c)", "ab" * 500_000),
    ("(?=[ab]{500}c)", "ab" * 1_000_000),
    ("(?:.*?,){30}(?=P)P", "1," * 100_000 + "Q P"),
    ("|".join(map(str, range(2000))), "x" * 1_000_000),
    ("^(a+)+$", "\ud800" + "a" * 20_000),
]


@pytest.mark.cases(6)
@pytest.mark.story
@pytest.mark.parametrize(("source", "text"), EVIL, ids=range(len(EVIL)))
def test_an_evil_pattern_ends_soon_and_prints_nothing(
    source: str, text: str, short_clock: None, capfd: pytest.CaptureFixture[str]
) -> None:
    start = time.process_time()
    try:
        assert compile_pattern(source).search(text) in (True, False)
    except PatternTimeout as error:
        assert "no verdict" in str(error)
    assert time.process_time() - start < 1
    assert capfd.readouterr() == ("", "")


def test_out_of_time_is_told_apart_from_no_match(short_clock: None) -> None:
    pattern = compile_pattern(r"^(?=(?:a|a)+$)(?=(?:a|b|ab)*c)")
    assert not pattern.search("b")
    with pytest.raises(PatternTimeout, match=r"no verdict on 100,000 characters within 0\.2 s"):
        compile_pattern(r"(?:(a)|(a))*(?=c)").search("a" * 100_000)


@pytest.mark.parametrize(
    ("source", "message", "position"),
    [
        ("(abc", "missing )", 4),
        ("a{x}{y}(", "missing )", 8),
        (r"{[^\s\S](", "missing )", 9),
        ("abc)", "unbalanced parenthesis", 3),
        ("[a-", "unterminated character set", 3),
        ("a|*", "nothing to repeat, near character 3", 2),
        ("a**", "multiple repeat", None),
        ("x{2,1}", "min repeat greater than max repeat", None),
        (r"\y", r"bad escape \y", None),
        (r"(a)\2", "invalid group reference", None),
        (r"\Qa\E", "bad escape", None),
        ("a(?i)b", r"(?i) must be at the start of the pattern; for a part of it write (?i:part)", 1),
        ("(?x)a b", "(?x) is not supported: the flags are a, i, m, s, u", 0),
        ("(?V1)[a[b]]", "(?V1) is not supported", 0),
        ("(?R)?a", "(?R) is not supported", 0),
        ("b[[:alpha:]]", r"[:alpha:] are not supported: write \w", 2),
        ("(" * 3000 + ")" * 3000, "nested too deeply", None),
        ("a" * 10_001, "10,001 characters; 10,000 is the limit", None),
        ("a?" * 501, "more than 500 repetitions", None),
        ("((((a{1000}){1000}){1000}){1000}){1000}", "the counts multiply to 1,000,000", 12),
        ("(?i:(?:a{1,1000})*){1000}", "the counts multiply", None),
        ("(?#[)((a{3000}){3000}){3000}(?#])", "the counts multiply", None),
        ("a{" + "9" * 5000 + "}", "the counts multiply", 1),
    ],
)
def test_a_bad_pattern_is_refused_with_a_sentence(source: str, message: str, position: int | None) -> None:
    start = time.process_time()
    with pytest.raises(PatternError) as caught:
        compile_pattern(source)
    assert message in str(caught.value)
    if position is not None:
        assert caught.value.position == position
    assert time.process_time() - start < 1


def test_counts_side_by_side_do_not_multiply() -> None:
    pattern = compile_pattern(r"(\d{1,3}){4}-([a-f]{100}){10}-" * 3 + ".{50000}")
    assert not pattern.search("123")


@pytest.mark.usefixtures("no_re2")
@pytest.mark.parametrize(("source", "text", "found", "whole"), LIKE_PYTHON[:12])
def test_without_re2_the_verdicts_are_the_same(source: str, text: str, found: bool, whole: bool) -> None:
    pattern = compile_pattern(source)
    assert pattern._linear is None
    assert (pattern.search(text), pattern.fullmatch(text)) == (found, whole)


def test_a_bad_pattern_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    for source in ("(", "a{1001}", "(?=a)", r"\C", "[[a]&&b]", "(?<=a*)b"):
        try:
            compile_pattern(source)
        except PatternError:
            continue
    assert capfd.readouterr() == ("", "")


def test_the_same_pattern_is_compiled_once() -> None:
    assert compile_pattern("once (a|b)") is compile_pattern("once (a|b)")


def test_neither_engine_is_imported_before_a_pattern_is_used() -> None:
    code = "import sys, tui_evals.text.patterns; sys.exit(bool({'re2', 'regex'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
