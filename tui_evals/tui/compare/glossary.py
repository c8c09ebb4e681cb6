"""What the words of statistics mean, from the manual's page of words; part of the help of a comparison."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tui_evals.text.manual import pages
from tui_evals.tui.rows import Row, row, wrapped

_PAGE = "words"
_SECTION = re.compile(r"^## +(?P<word>.+?) *\n(?P<text>.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)


def sections(page: str) -> dict[str, str]:
    """What stands below each heading of a page, in one line; the headings in small letters."""
    return {found["word"].casefold(): " ".join(found["text"].split()) for found in _SECTION.finditer(page)}


def meanings(words: Iterable[str]) -> dict[str, str]:
    """What the manual says of each word; words that it does not have are left out."""
    known = sections(pages()[_PAGE])
    texts: dict[str, str] = {}
    for word in words:
        title = word.casefold()
        heading = next((name for name in known if title in name.split()), None)
        heading = heading or next((name for name in known if title in name), None)
        if heading is not None and known[heading]:
            texts[word] = known[heading]
    return texts


def word_rows(words: Iterable[str], width: int) -> list[Row]:
    """Words and what they mean."""
    rows: list[Row] = []
    for word, text in meanings(words).items():
        rows += [row(), row((word, "title")), *(row(line) for line in wrapped(text, width))]
    return rows


WORDS = ("McNemar", "interval", "Holm")
"""Those that a comparison uses."""
