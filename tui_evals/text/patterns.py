"""Regular expressions from users and models: no pattern can hang the program.

A pattern has its meaning in Python, over Unicode text, as the `regex` library reads it. If re2 reads it the same way,
re2 matches in linear time; otherwise `regex` does, with a time limit.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from tui_evals.light_records import dataclass

if TYPE_CHECKING:
    import regex

_TIME_LIMIT = 1.0
_MAX_LENGTH = 10_000
_MAX_REPETITIONS = 500  # with thousands of them `regex` looks at the clock too rarely
_MAX_COPIES = 100_000  # `regex` writes nested counts out: compiling (?:a{3000}){3000} takes seconds
_MAX_RE2_STEPS = 100_000_000  # states of the program times bytes of text: about a second of re2 at its worst
_MAX_RE2_LENGTH = 50_000  # re2 takes a second to find that a translation much longer than this is too large

# The meanings of \w and \s in `regex`, for re2. Each starts with \p so that no range can end in it.
_WORD = (
    r"\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200c}\x{200d}"
    r"\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189}"
)
_SPACE = r"\p{Z}\x{85}\t-\r"
_NOT_SPACE = (
    r"\p{L}\x00-\x08\x0e-\x1f!-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}"
    r"\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff}"
)
_DIGIT = {r"\d": r"\p{Nd}", r"\D": r"\P{Nd}"}
_IN_SET = _DIGIT | {r"\w": _WORD, r"\s": _SPACE, r"\S": _NOT_SPACE, r"\b": r"\x08"}
_OUTSIDE_SET = _DIGIT | {
    r"\w": f"[{_WORD}]",
    r"\W": f"[^{_WORD}]",
    r"\s": f"[{_SPACE}]",
    r"\S": f"[^{_SPACE}]",
    r"\Z": r"\z",
}

_ESCAPE = re.compile(r"\\(?:[pPN]\{[^}]*\}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)
_TOKEN = re.compile(
    rf"(?P<escape>{_ESCAPE.pattern})"
    r"|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*+\]?)"
    r"|(?P<comment>\(\?#[^)]*+\)?)"
    r"|(?P<switch>\(\?(?P<flags>[a-zA-Z0-9-]+)(?P<scope>[:)]))"
    r"|(?P<open>\(\??)"
    r"|(?P<close>\))"
    r"|(?P<count>\{(?P<least>[0-9]*),?(?P<most>[0-9]*)(?<!\{)\}[?+]?)"
    r"|(?P<repeat>[*+?][?+]?)"
    r"|(?P<brace>\{)"
    r"|(?P<end>\$)"
    r"|(?P<literal>[^\\\[(){*+?$]+|.)",
    re.DOTALL,
)

# For `regex`, the letters ı and İ are cases of i; for re2 they are not.
_DOTLESS = re.compile(r"[ıİ]|\\[uU]0*13[01]|^\[.*(?:[^\x00-\x7f]|\\[uU])", re.DOTALL)
# Parts that re2 reads as ASCII only.
_ASCII_ALIKE = re.compile(r"^\\[bB]$|^\[.*\\W", re.DOTALL)
_COMPLEMENTS = ({r"\d", r"\D"}, {r"\s", r"\S"}, {r"\w", r"\W"})
_MATCHES_NOTHING = r"[^\x00-\U0010ffff]"
_POSIX = re.compile(r"(?<=.)\[:[^\[\]]*:\]$", re.DOTALL)


class PatternError(ValueError):
    """The pattern cannot be used; `position` is the offset where reading it failed, when that is known."""

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class PatternTimeout(RuntimeError):
    """The pattern reached no verdict on this text within its time."""


Method = Literal["search", "fullmatch"]


@dataclass(frozen=True, slots=True)
class _Re2Pattern:
    """The pattern in re2, and the texts on which re2 reads it otherwise than `regex` does."""

    program: Any
    ascii_only: bool
    ends_lines: bool
    folds_case: bool

    def verdict(self, method: Method, text: str) -> bool | None:
        """Whether it matches, or None where re2 would answer another question or could take too long."""
        if self.ascii_only and not text.isascii():
            return None
        if (self.ends_lines and text.endswith("\n")) or (self.folds_case and ("ı" in text or "İ" in text)):
            return None
        try:
            data = text.encode()
        except UnicodeEncodeError:
            return None
        if self.program.programsize * len(data) > _MAX_RE2_STEPS:
            return None
        return getattr(self.program, method)(data) is not None


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern ready to use: its methods say yes or no, or raise PatternTimeout."""

    source: str
    _backtracking: regex.Pattern[str]
    _linear: _Re2Pattern | None

    def search(self, text: str) -> bool:
        """Whether the pattern matches anywhere in the text."""
        return self._verdict("search", text)

    def fullmatch(self, text: str) -> bool:
        """Whether the pattern matches the text as a whole."""
        return self._verdict("fullmatch", text)

    def groups(self, text: str) -> tuple[str | None, ...] | None:
        """The groups of the first match, or the whole match without groups; None without a match."""
        found = self._found("search", text)
        return None if found is None else found.groups() or (found[0],)

    def _verdict(self, method: Method, text: str) -> bool:
        if self._linear is not None and (verdict := self._linear.verdict(method, text)) is not None:
            return verdict
        return self._found(method, text) is not None

    def _found(self, method: Method, text: str) -> regex.Match[str] | None:
        try:
            found: regex.Match[str] | None = getattr(self._backtracking, method)(
                text, timeout=_TIME_LIMIT, concurrent=True
            )
            return found
        except TimeoutError:
            raise PatternTimeout(
                f"the pattern {self.source[:60]!r} found no verdict on {len(text):,} characters within "
                f"{_TIME_LIMIT:g} s; simplify repetitions inside repetitions, look-around and back-references"
            ) from None


@lru_cache(maxsize=64)
def compile_pattern(pattern: str, *, ignore_case: bool = False) -> Pattern:
    """The compiled pattern; raises PatternError."""
    if len(pattern) > _MAX_LENGTH:
        raise PatternError(f"the pattern has {len(pattern):,} characters; {_MAX_LENGTH:,} is the limit")
    tokens = list(_TOKEN.finditer(pattern))
    _check_meaning(tokens)
    _check_size(tokens)
    return Pattern(pattern, _regex_pattern(tokens, ignore_case), _re2_pattern(tokens, ignore_case))


def _check_meaning(tokens: list[re.Match[str]]) -> None:
    """Refuse what Python does not have, or what would make the other tokens mean something else."""
    leading = True
    for token in tokens:
        if token.lastgroup == "switch" and not set(token["flags"]) <= set("aimsu-"):
            raise PatternError(f"{token.group()} is not supported: the flags are a, i, m, s, u", token.start())
        if token.lastgroup == "switch" and token["scope"] == ")" and not leading:
            raise PatternError(
                f"{token.group()} must be at the start of the pattern; for a part of it write (?{token['flags']}:part)",
                token.start(),
            )
        if token.lastgroup == "set" and (posix_class := _POSIX.search(token.group())):
            raise PatternError(
                rf"classes such as {posix_class.group()} are not supported: write \w, \d, \s or a range",
                token.start() + posix_class.start(),
            )
        leading = leading and token.lastgroup == "switch" and token["scope"] == ")"


def _check_size(tokens: list[re.Match[str]]) -> None:
    """Refuse what `regex` could not compile soon or could not interrupt."""
    if sum(token.lastgroup in ("count", "repeat") for token in tokens) > _MAX_REPETITIONS:
        raise PatternError(f"the pattern has more than {_MAX_REPETITIONS} repetitions; split it into several")
    copies, groups = 1, [1]  # how often the last atom is written out, and the most of each open group
    for token in tokens:
        kind = token.lastgroup
        if kind == "count":
            copies *= max(1, int((token["most"] or token["least"])[:9] or 1))
        elif kind == "close" and len(groups) > 1:
            copies = groups.pop()
        elif kind not in ("repeat", "comment"):
            copies = 1
            if kind == "open" or (kind == "switch" and token["scope"] == ":"):
                groups.append(1)
        groups[-1] = max(groups[-1], copies)
        if copies > _MAX_COPIES:
            raise PatternError(
                f"the counts multiply to {copies:,} repetitions; {_MAX_COPIES:,} is the limit", token.start()
            )


def _regex_pattern(tokens: list[re.Match[str]], ignore_case: bool) -> regex.Pattern[str]:
    import regex

    try:
        return regex.compile(
            "".join(map(_for_regex, tokens)), regex.V0 | (regex.I if ignore_case else 0), cache_pattern=False
        )
    except RecursionError:
        raise PatternError("the pattern is nested too deeply") from None
    except regex.error as error:
        details: Any = error
        position = _written_position(tokens, details.pos)
        place = "" if position is None else f", near character {position + 1}"
        raise PatternError(f"the pattern is not valid: {details.msg}{place}", position) from None


def _for_regex(token: re.Match[str]) -> str:
    """The token with the meaning it has in Python."""
    text = token.group()
    if token.lastgroup == "brace":
        return r"\{"  # `regex` could take a bare one for approximate matching
    if text.startswith("[^") and any(pair <= set(_ESCAPE.findall(text)) for pair in _COMPLEMENTS):
        return _MATCHES_NOTHING  # `regex` takes [^\s\S] for any character
    return text


def _written_position(tokens: list[re.Match[str]], position: int | None) -> int | None:
    """The position in the written pattern for a position in the pattern that `regex` was given."""
    for token in tokens:
        if position is not None and token.start() < position:
            position -= len(_for_regex(token)) - len(token.group())
    return position


def _re2_pattern(tokens: list[re.Match[str]], ignore_case: bool) -> _Re2Pattern | None:
    try:
        import re2
    except ImportError:
        return None
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.case_sensitive = not ignore_case
    folds_case = ignore_case or any("i" in (token["flags"] or "") for token in tokens)
    if folds_case and any(_DOTLESS.search(token.group()) for token in tokens):
        return None
    source = "".join(map(_for_re2, tokens))
    if len(source) > _MAX_RE2_LENGTH:
        return None
    try:
        program = re2.compile(source, options)
    except (UnicodeEncodeError, re2.error):
        return None
    ascii_only = any(_ASCII_ALIKE.search(token.group()) for token in tokens if token.lastgroup in ("escape", "set"))
    ends_lines = any(token.lastgroup == "end" for token in tokens)
    return _Re2Pattern(program, ascii_only, ends_lines, folds_case)


def _for_re2(token: re.Match[str]) -> str:
    """The token in re2's words, with the meaning it has for `regex`."""
    text = token.group()
    if token.lastgroup == "escape":
        return _escape_for_re2(text, _OUTSIDE_SET)
    if token.lastgroup == "set":
        return _ESCAPE.sub(lambda escape: _escape_for_re2(escape.group(), _IN_SET), text)
    if token.lastgroup == "count" and not token["least"]:
        return "{0" + text[1:]
    return text


def _escape_for_re2(escape: str, words: dict[str, str]) -> str:
    if escape[1] in "pP123456789":
        return r"\y"  # no escape of re2's: it refuses the whole pattern, as it should
    if escape[1] in "uU" and len(escape) > 2:
        return rf"\x{{{escape[2:]}}}"
    return words.get(escape, escape)
