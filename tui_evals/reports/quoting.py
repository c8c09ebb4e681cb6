"""Untrusted text inside Markdown: it stays text, whatever dialect and host draws it."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from tui_evals.text.safe import safe, safe_line

_TICKS = re.compile("`+")


def code(text: str, limit: int = 80) -> str:
    """One line as a code span, fit for a table too: no markup, mention, reference or link begins in one."""
    # A bar divides cells even inside a code span, so it stands between two of them.
    return "&#124;".join(map(_span, safe_line(text, limit).split("|"))) or "–"


def _span(text: str) -> str:
    if not text:
        return ""
    fence = "`" * (max((len(run) for run in _TICKS.findall(text)), default=0) + 1)
    gap = " " if text[0] in "` " or text[-1] in "` " else ""
    return f"{fence}{gap}{text}{gap}{fence}"


def code_element(text: str, limit: int = 80) -> str:
    """The same for places that Markdown leaves to HTML, such as a summary."""
    return f"<code>{html.escape(safe_line(text, limit), quote=False)}</code>"


def block(text: str) -> str:
    """A text of many lines, drawn as it is."""
    return f"<pre>\n{html.escape(safe(text), quote=False)}\n</pre>"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], most: int) -> str:
    """A table of cells that are quoted already, numbers to the right; a line says how many rows are left out."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows[:most]]
    left_out = f"\n\n{len(rows) - most} more rows are left out." if len(rows) > most else ""
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + left_out
