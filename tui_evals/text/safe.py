"""Makes untrusted text safe for a terminal, and removes secrets from text before it is stored or shown.

Nothing in a safe text can move the cursor, recolor, reorder, hide or send.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import NamedTuple

# A longer payload is shown instead of removed: one stray introducer must not hide the rest of an answer.
_MAX_PAYLOAD = 4096
_MAX_SEQUENCE = _MAX_PAYLOAD + 4

# Each part is bounded, or ends where the next sequence could start, so that a scan is linear.
_STYLE = r"[0-?]{0,256}+[ -/]{0,16}+[@-~]"
_STRING = rf"[^\x00-\x08\x0a-\x1f\x7f-\x9f]{{0,{_MAX_PAYLOAD}}}+(?:\x07|\x1b\\|\x9c)"
_SEQUENCE = re.compile(
    r"[\x1b\x90\x98\x9b\x9d-\x9f]"
    rf"(?:(?:(?<=\x9b)|(?<=\x1b)\[){_STYLE}"
    rf"|(?:(?<=[\x90\x98\x9d-\x9f])|(?<=\x1b)[\]PX^_]){_STRING}"
    r"|(?<=\x1b)(?:[ -/]{1,16}+[0-~]|[0-OQ-WYZ\\`-~]))"
)

# Characters that draw nothing, end a line or reorder their neighbors: shown by name everywhere.
_HIDDEN = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff"
    "\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff"
_JOINERS = "\u200c\u200d"
_SELECTORS = "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"

_SUSPECTS = _CONTROLS + _HIDDEN + _JOINERS + _SELECTORS
_SUSPECT = re.compile(f"[{_SUSPECTS}]")
_ASCII_SUSPECT = re.compile("[\x00-\x08\x0b-\x1f\x7f]")

# Emoji, Indic and Arabic scripts need joiners and selectors, so one of them directly after a visible
# non-ASCII character stays (a joiner also after such a selector, a selector also after a keycap's base);
# a run of them, or one next to ASCII letters, can only hide something.
_BASE = rf"[^\x00-\x7f{_SUSPECTS}]"
_REPLACED = re.compile(
    rf"[{_SUSPECTS}](?<!{_BASE}[{_JOINERS}{_SELECTORS}])(?<!{_BASE}[{_SELECTORS}][{_JOINERS}])(?<![0-9#*][{_SELECTORS}])"
    rf"[{_SUSPECTS}]*+"
)

# Commands in a log to the runners of GitHub, Azure, TeamCity and GitLab: the first form at the start of a line, after
# any spaces, the others anywhere.
_LOG_COMMAND = re.compile(
    r"(?:(?m:^)|(?<=\r))[^\S\r\n]*+:(?=:)|#(?=#(?:\[|vso\[|teamcity\[))|section_(?:start|end)(?=:[0-9])"
)
LOG_READERS = ("GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION", "GITLAB_CI")
"""The variables that show that such a runner reads the log."""

_NEEDS_SPELLING = re.compile(r"[^\n -~]+")


@cache
def _picture(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return "\ufffd" if 0x80 <= code < 0xA0 or 0xD800 <= code < 0xE000 else f"<U+{code:04X}>"


def _pictures(match: re.Match[str]) -> str:
    return "".join(map(_picture, match.group()))


def _is_clean(text: str) -> bool:
    return (_ASCII_SUSPECT if text.isascii() else _SUSPECT).search(text) is None


def without_sequences(text: str) -> str:
    """The text without escape sequences, and with plain line ends."""
    return _SEQUENCE.sub("", text).replace("\r\n", "\n")


def safe(text: str) -> str:
    """The text without escape sequences and with every other control or invisible character made visible."""
    return without_log_commands(text if _is_clean(text) else _REPLACED.sub(_pictures, without_sequences(text)))


def hidden_runs(text: str, replace: Callable[[str], str]) -> str:
    """The text with each run of characters that `safe` would make visible replaced."""
    return text if _is_clean(text) else _REPLACED.sub(lambda match: replace(match.group()), text)


def changes_of(text: str) -> tuple[list[str], list[str]]:
    """The escape sequences that `safe` removes from a text, and the characters that it makes visible."""
    rest = without_sequences(text)
    return _SEQUENCE.findall(text), [character for run in _REPLACED.findall(rest) for character in run]


def log_is_read() -> bool:
    """Whether the output goes to a CI runner that looks for commands in it."""
    return any(os.environ.get(name) for name in LOG_READERS)


def without_log_commands(text: str) -> str:
    """The text with a space inside each command to the runner that reads this log."""
    if ("::" in text or "##" in text or "section_" in text) and log_is_read():
        return _LOG_COMMAND.sub(r"\g<0> ", text)
    return text


def safe_line(text: str, limit: int | None = None) -> str:
    """One safe line for a cell: newlines as "⏎", tabs as spaces, at most `limit` characters, cut with "…"."""
    line = (safe(text) if limit is None else _safe_start(text, limit)).replace("\n", "⏎").replace("\t", " ")
    if limit is None or len(line) <= limit:
        return line
    return line[: limit - 1] + "…" if limit > 0 else ""


def _safe_start(text: str, limit: int) -> str:
    """The result of `safe`, exact in its first `limit` characters, from as little text as possible."""
    head = text[: limit + 1]
    if _is_clean(head):
        return head
    size = limit + _MAX_SEQUENCE
    while True:
        head = without_sequences(text[:size])
        # Only a sequence that the slice cuts in two reads differently, and it is within the last characters.
        if size >= len(text) or len(head) - _MAX_SEQUENCE > limit:
            return _REPLACED.sub(_pictures, head[: limit + 1])
        size *= 2


def _spelling(match: re.Match[str]) -> str:
    run = match.group()
    if run.isprintable() and not _SUSPECT.search(run):
        return run
    return "".join(
        character
        if character.isprintable() and not _SUSPECT.match(character)
        else character.encode("unicode_escape").decode("ascii")
        for character in run
    )


def spell_out(text: str) -> str:
    r"""The raw text with escapes: `\x1b`, `\r`, `\u202e`, and doubled backslashes; only newlines are kept."""
    return _NEEDS_SPELLING.sub(_spelling, text.replace("\\", "\\\\"))


# Full-width and small forms count as the plain signs; characters that a spreadsheet ignores do not hide a sign.
_FORMULA = re.compile(r'[\t\r\n]|[\s"\x00-\x1f\x7f-\x9f\u200b-\u200f\u2060\ufeff]*[=+\-@＝＋－＠﹦﹢﹣﹫]')
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def escape_formula(cell: str) -> str:
    """The cell, with a quote before it where a spreadsheet could take it for a formula; numbers stay."""
    return "'" + cell if _FORMULA.match(cell) and not _NUMBER.fullmatch(cell) else cell


def restore_formula(cell: str) -> str:
    """A cell before `escape_formula`."""
    rest = cell.removeprefix("'")
    return rest if escape_formula(rest) == cell else cell


class _Line:
    """The stream of a CSV writer: its one line is the result of `writerow`."""

    def write(self, line: str) -> str:
        # The writer quotes a lone carriage return only where its own lines end in one.
        return line[:-2] + "\n"


_WRITER = csv.writer(_Line(), lineterminator="\r\n")


def csv_line(cells: Iterable[str]) -> str:
    """One line of CSV that reads back as these cells, even with line breaks in them."""
    # The writer formats a list in one call, so threads can share it.
    line: str = _WRITER.writerow(list(cells))
    return line


_OPEN, _CLOSE = "⟦", "⟧"
_SPELLED = re.compile(rf"{_OPEN}U\+([0-9A-F]{{4,6}}){_CLOSE}")
_LAST = 0x10FFFF


def spelled(text: str) -> str:
    """The text with each hidden character as `⟦U+200B⟧`; a bracket that begins a spelling is spelled too."""
    text = _SPELLED.sub(lambda match: _name(_OPEN) + match[0][1:], text)
    return hidden_runs(text, lambda run: "".join(map(_name, run)))


def unspelled(text: str) -> str:
    """The text with each spelled character as itself."""
    return _SPELLED.sub(lambda match: chr(code) if (code := int(match[1], 16)) <= _LAST else match[0], text)


def _name(character: str) -> str:
    return f"{_OPEN}U+{ord(character):04X}{_CLOSE}"


GONE = "[redacted]"
_NAMES = re.compile("KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL")
_SHORTEST = 6  # shorter values would blank out ordinary words
_SHORTEST_SPACED = 12  # digits of a shorter one come apart in any table
_BETWEEN = " \t\r\n\u00a0\u200b\u200c\u200d\u2060\ufeff-_.,:;|/\\*+'\"`"
_DROPPED = str.maketrans("", "", _BETWEEN)

_SHAPES = (
    (r"\bsk-[\w-]{8,}", GONE),
    (r"\bgh[pousr]_\w{20,}|\bhf_\w{20,}|\bxox[abpr]-[\w-]{10,}|\bAKIA[A-Z0-9]{16}\b|\bAIza[\w-]{30,}", GONE),
    (r"\b(bearer\s+)[\w.~+/=-]{6,}", rf"\1{GONE}"),
    (r"\b(authorization\W{1,4}basic\s+)[\w+/=]{6,}", rf"\1{GONE}"),
    (
        r"((?:api|access|auth|secret|client)[-_]?(?:key|token|secret)\\?\"?\s?[=:]\s?\\?\"?)(?!env:)[^\s&\"',;}\\\[]{6,}",
        rf"\1{GONE}",
    ),
    (r"(://[^/\s:@\"]{0,100}:)[^/\s@\"]{1,200}@", rf"\1{GONE}@"),
)


def secrets_of(environment: Mapping[str, str]) -> list[str]:
    """The values of variables whose names say that they are secret."""
    return [value for name, value in environment.items() if value and _NAMES.search(name.upper())]


class Spellings(NamedTuple):
    """Secrets as texts may hold them."""

    whole: tuple[str, ...] = ()
    """The longest first."""
    letters: tuple[str, ...] = ()
    """The letters of secrets that are also found with other characters between them."""


def spellings(secrets: Iterable[str]) -> Spellings:
    """Every way a secret may be written in text, JSON, a URL or base64, or backwards, the longest first."""
    from urllib.parse import quote

    forms = {
        form
        for secret in secrets
        if len(secret) >= _SHORTEST
        for form in (
            secret,
            json.dumps(secret)[1:-1],
            json.dumps(secret, ensure_ascii=False)[1:-1],
            quote(secret, "", errors="replace"),
            secret[::-1],
            *_in_base64(secret),
        )
    }
    whole = tuple(sorted(forms, key=len, reverse=True))
    letters = dict.fromkeys(form.translate(_DROPPED) for form in whole)
    return Spellings(whole, tuple(each for each in letters if len(each) >= _SHORTEST_SPACED))


def without(text: str, spelled: Spellings) -> str:
    """The text without the secrets, given by their spellings, even with other characters between their letters."""
    for secret in spelled.whole:
        if secret in text:
            text = text.replace(secret, GONE)
    if spelled.letters:
        joined = text.translate(_DROPPED)
        for letters in spelled.letters:
            if letters in joined:
                text = _spaced(letters).sub(GONE, text)
    return text


@lru_cache(maxsize=64)
def _spaced(letters: str) -> re.Pattern[str]:
    return re.compile(f"[{re.escape(_BETWEEN)}]*".join(map(re.escape, letters)))


def _in_base64(secret: str) -> Iterator[str]:
    """The constant part of a secret in base64, for each offset in a longer text."""
    import base64

    data = secret.encode("utf-8", "replace")
    for before, first in enumerate((0, 2, 3)):
        last = (before + len(data)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(bytes(before) + data)[first:last].decode("ascii")


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without the secrets and without anything that has the shape of a key."""
    text = without(text, spellings(secrets))
    for shape, replacement in _SHAPES:  # compiled when needed, which help is not
        text = re.sub(shape, replacement, text, flags=re.IGNORECASE)
    return text
