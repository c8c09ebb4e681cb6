"""Tables of the manual that are made from declarations: filters, and the facts in exports.

`python -m tui_evals.present.manual_tables` writes them into their pages; a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tui_evals.store.answer_facts import FACTS
from tui_evals.store.filters import FILTER_KEYS, FILTER_WORDS, SHOWN_WORDS

_HELP = Path(__file__).parent.parent / "help"
PAGES = (_HELP / "filters.md", _HELP / "reports.md")


def with_tables(page: str) -> str:
    """A page with its tables generated from the declarations; other text is unchanged."""
    page = _with_table(page, "With a value", ((key.example, key.about) for key in FILTER_KEYS.values()))
    page = _with_table(page, "Words by themselves", ((word, FILTER_WORDS[word].about) for word in SHOWN_WORDS))
    return _with_table(page, "Facts of an answer", ((fact.name, fact.about) for fact in FACTS))


def _with_table(page: str, heading: str, rows: Iterable[tuple[str, str]]) -> str:
    lines = "".join(f"    {term:<22} {about}\n" for term, about in rows)
    return re.sub(rf"(?<=## {heading}\n\n)(?:    .*\n)*", lambda _: lines, page)


def write_tables() -> None:
    """Write the tables of all pages."""
    for page in PAGES:
        page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write_tables()
