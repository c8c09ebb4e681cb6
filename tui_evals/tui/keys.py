"""`python -m tui_evals.tui.keys` writes the page of keys in the manual; a test compares it."""

from __future__ import annotations

from pathlib import Path

from .key_help import page

FILE = Path(__file__).parent.parent / "help" / "keys.md"


def main() -> None:
    """Write the page."""
    FILE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
