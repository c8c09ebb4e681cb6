"""What the words of statistics mean, taken from the manual's glossary."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.resources import files

from tui_evals.tui.rows import Row, row, wrapped

_PAGE = "words.md"
_SECTION = re.compile(r"^## +(?P<word>.+?) *\n(?P<text>.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)


def sections(page: str) -> dict[str, str]:
    """What stands below each heading of a page, in one line; the headings in small letters."""
    return {found["word"].casefold(): " ".join(found["text"].split()) for found in _SECTION.finditer(page)}


def meanings(words: Iterable[str]) -> dict[str, str]:
    """What the manual says of each word; words that it does not have are left out."""
    page = files("tui_evals") / "help" / _PAGE
    known = sections(page.read_text(encoding="utf-8")) if page.is_file() else {}
    found: dict[str, str] = {}
    for word in words:
        wanted = word.casefold()
        heading = next((name for name in known if wanted in name.split()), None)
        heading = heading or next((name for name in known if wanted in name), None)
        if heading is not None and known[heading]:
            found[word] = known[heading]
    return found


def word_rows(words: Iterable[str], width: int) -> list[Row]:
    """Words and what they mean."""
    rows: list[Row] = []
    for word, text in meanings(words).items():
        rows += [row(), row((word, "title")), *(row(line) for line in wrapped(text, width))]
    return rows
