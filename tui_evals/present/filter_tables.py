"""What a filter can be made of, as the tables in the manual's page on filters, so that the page is as the grammar is.

`python -m tui_evals.present.filter_tables` writes the tables of that page anew; a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tui_evals.store.filters import FILTER_KEYS, FILTER_WORDS, SHOWN_WORDS

FILTERS_PAGE = Path(__file__).parent.parent / "help" / "filters.md"


def with_tables(page: str) -> str:
    """The page with its two tables as the grammar has them; what stands around them stays."""
    keys = ((key.example, key.about) for key in FILTER_KEYS.values())
    words = ((word, FILTER_WORDS[word].about) for word in SHOWN_WORDS)
    return _with_table(_with_table(page, "With a value", keys), "Words by themselves", words)


def _with_table(page: str, heading: str, rows: Iterable[tuple[str, str]]) -> str:
    lines = "".join(f"    {term:<18} {about}\n" for term, about in rows)
    return re.sub(rf"(?<=## {heading}\n\n)(?:    .*\n)*", lambda _: lines, page)


def write_tables() -> None:
    """Write the tables of the page."""
    FILTERS_PAGE.write_text(with_tables(FILTERS_PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write_tables()
